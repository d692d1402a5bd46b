//! `springtide doctor`: is everything as it should be, and can it be made so?

use std::collections::HashSet;

use serde::Serialize;
use springtide_engine::detect::Lens;
use springtide_store::{BodyId, Error, Problem, Reader, Reading, Sqlite};

use super::Project;
use crate::args::SettingFlags;
use crate::args::project::Doctor;
use crate::failure::{Failure, Outcome};
use crate::json::print_json;
use crate::talk::{Talk, count};

/// Problems that are listed; more would not be read.
const MOST_LISTED: usize = 1000;

/// What was found, and done.
#[derive(Serialize, Default)]
struct Findings {
    sound: bool,
    problems: Vec<String>,
    /// Whether one of them is with what the user wrote.
    #[serde(skip)]
    is_config_bad: bool,
    /// Bodies that nothing names take space and do no harm.
    n_unnamed_bodies: u64,
    repaired: Vec<String>,
    backed_up: Option<String>,
    n_files_freed: Option<u64>,
    n_bytes_freed: Option<u64>,
}

pub(crate) fn run(args: &Doctor, project: &Project, talk: Talk) -> Outcome<()> {
    let mut findings = Findings::default();
    if let Err(failure) = check_config(project, talk) {
        findings.problems.push(one_line(&failure));
        findings.is_config_bad = true;
    }
    if args.repair || args.gc {
        let mut store = project.write()?;
        back_up(project, &store, args, &mut findings)?;
        if let Err(failure) = examine(
            project,
            &mut store,
            Sqlite::repair,
            args,
            &mut findings,
            talk,
        ) {
            findings.problems.push(one_line(&failure));
        }
    } else if let Some(mut store) = open_to_read(project, &mut findings, talk)? {
        back_up(project, &store, args, &mut findings)?;
        let leave = |_: &mut _, _: &mut dyn FnMut(BodyId) -> bool| Ok(Vec::new());
        if let Err(failure) = examine(project, &mut store, leave, args, &mut findings, talk) {
            findings.problems.push(one_line(&failure));
        }
    }
    findings.sound = findings.problems.is_empty();
    report(args, &findings, talk)
}

/// The store, beside whoever writes; nothing if there is none, or none that can be read.
fn open_to_read(
    project: &Project,
    findings: &mut Findings,
    talk: Talk,
) -> Outcome<Option<Sqlite<Reading>>> {
    match Sqlite::read_only(project.store_folder()) {
        Ok(store) => Ok(Some(store)),
        Err(Error::Missing(_)) => {
            talk.say("there is no store yet; the first `springtide run` makes one");
            Ok(None)
        }
        Err(error @ (Error::Damaged(_) | Error::Failed(_))) => {
            findings.problems.push(super::causes(&error));
            Ok(None)
        }
        // A store of an earlier version is brought up to date by whoever writes.
        Err(error) => Err(project.refuse(&error)),
    }
}

fn back_up<Access>(
    project: &Project,
    store: &Sqlite<Access>,
    args: &Doctor,
    findings: &mut Findings,
) -> Outcome<()> {
    if let Some(path) = &args.back_up {
        let written = store.back_up(path);
        written.map_err(|error| project.refuse(&error))?;
        findings.backed_up = Some(path.display().to_string());
    }
    Ok(())
}

/// Checks store and bodies; has it repaired, and clears out, if asked to.
fn examine<Access: Send>(
    project: &Project,
    store: &mut Sqlite<Access>,
    repair: impl FnOnce(
        &mut Sqlite<Access>,
        &mut dyn FnMut(BodyId) -> bool,
    ) -> Result<Vec<String>, Error>,
    args: &Doctor,
    findings: &mut Findings,
    talk: Talk,
) -> Outcome<()> {
    let refuse = |error: Error| project.refuse(&error);
    let bodies = project.bodies()?;
    let checking = talk.progress("checking bodies", None);
    let mut named = HashSet::new();
    store
        .bodies(&mut |body| {
            named.insert(body);
        })
        .map_err(refuse)?;
    let (mut damaged, mut problems) = (HashSet::<BodyId>::new(), Vec::new());
    let mut is_named = |body| {
        checking.advance(1);
        named.contains(&body)
    };
    bodies
        .check(&mut is_named, &mut |problem| match problem {
            Problem::BodyUnnamed(_) => findings.n_unnamed_bodies += 1,
            // Whoever writes is writing them now, or died; `--gc` clears them out.
            Problem::StrayFile(_) if !args.repair => findings.n_unnamed_bodies += 1,
            Problem::BodyDamaged(body) => {
                damaged.insert(body);
                problems.push(Problem::BodyDamaged(body));
            }
            problem => problems.push(problem),
        })
        .map_err(refuse)?;
    drop(checking);
    let checking = talk.progress("checking the store", None);
    if args.repair {
        // A damaged body is as good as none, so that it is fetched again.
        for &body in &damaged {
            bodies.remove(body).map_err(refuse)?;
            findings
                .repaired
                .push(format!("removed damaged body {body}"));
        }
        let done = repair(store, &mut |body| bodies.contains(body)).map_err(refuse)?;
        findings.repaired.extend(done);
        problems.clear();
    }
    problems.extend(
        store
            .check(&mut |body| bodies.contains(body))
            .map_err(refuse)?,
    );
    drop(checking);
    let n_more = problems.len().saturating_sub(MOST_LISTED);
    problems.truncate(MOST_LISTED);
    findings
        .problems
        .extend(problems.iter().map(ToString::to_string));
    if n_more > 0 {
        findings
            .problems
            .push(format!("and {} more", count(n_more)));
    }
    if args.gc {
        let clearing = talk.progress("clearing out", None);
        // Once more: a repair may have dropped what named a body.
        named.clear();
        store
            .bodies(&mut |body| {
                named.insert(body);
            })
            .map_err(refuse)?;
        let freed = bodies
            .gc(&mut |body| named.contains(&body))
            .map_err(refuse)?;
        drop(clearing);
        findings.n_files_freed = Some(freed.n_files);
        findings.n_bytes_freed = Some(freed.n_bytes);
        findings.n_unnamed_bodies = 0;
    }
    Ok(())
}

/// That the configuration can be used.
fn check_config(project: &Project, talk: Talk) -> Outcome<()> {
    let config = project.config(&SettingFlags::default(), talk)?;
    config.check_secrets()?;
    for source in &config.settings.sources {
        Lens::new(&source.keep, &source.drop).map_err(|error| {
            Failure::input(format!("bad source.{}.detect", source.name)).cause(error)
        })?;
        let rows = source.search.as_ref().map(|search| &search.rows);
        if let Some(path) = source.file.as_ref().or(rows)
            && !path.is_file()
        {
            return Err(Failure::input(format!(
                "source.{}: there is no file {}",
                source.name,
                path.display()
            )));
        }
    }
    Ok(())
}

fn one_line(failure: &Failure) -> String {
    let text = failure.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.join("; ")
}

fn report(args: &Doctor, findings: &Findings, talk: Talk) -> Outcome<()> {
    if args.json {
        print_json(findings)?;
    } else {
        if let Some(path) = &findings.backed_up {
            talk.say(format!("backed up to {path}"));
        }
        for done in &findings.repaired {
            talk.say(format!("repaired: {done}"));
        }
        for problem in &findings.problems {
            talk.say(format!("problem: {problem}"));
        }
        if let (Some(files), Some(bytes)) = (findings.n_files_freed, findings.n_bytes_freed) {
            let (files, kb) = (count(files as usize), count((bytes / 1000) as usize));
            talk.say(format!("freed {kb} kB in {files} files"));
        } else if findings.n_unnamed_bodies > 0 {
            let n = count(findings.n_unnamed_bodies as usize);
            talk.say(format!(
                "{n} bodies are not needed any more; --gc removes them"
            ));
        }
        if findings.sound {
            talk.say("all is well");
        }
    }
    if findings.sound {
        return Ok(());
    }
    let failure = Failure::failed("the project is not sound");
    if args.json {
        return Err(failure.silent());
    }
    Err(
        if findings.problems.len() == usize::from(findings.is_config_bad) {
            failure.hint("`doctor` repairs the store; settings, and the files that they name, are left to you")
        } else if args.repair {
            failure.hint("what is left cannot be repaired; `rm` and `add` the source again")
        } else {
            failure.hint("`springtide doctor --repair` mends what can be mended")
        },
    )
}
