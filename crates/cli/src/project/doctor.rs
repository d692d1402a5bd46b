//! `springtide doctor`: is everything as it should be, and can it be made so?

use std::collections::HashSet;
use std::ops::ControlFlow;

use serde::Serialize;
use springtide_engine::Settings;
use springtide_engine::clock::Clock;
use springtide_engine::detect::Lens;
use springtide_engine::retain::{Retention, Step, TrustedNow};
use springtide_store::{
    Bodies, Error, Fact, Problem, Reader, Reading, Sqlite, Walk, Writer, examine,
};

use super::{PER_PAGE, Project, Shared};
use crate::args::SettingFlags;
use crate::args::project::Doctor;
use crate::config::Config;
use crate::failure::{Failure, Outcome};
use crate::json::print_json;
use crate::moment::brief;
use crate::table::shorten_to;
use crate::talk::{Talk, count, plural, size};

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
    /// Sources that fail, and why: no fault of the project.
    failing: Vec<FailingSource>,
    /// Addresses that several sources have.
    shared: Shared,
    /// Bodies that nothing names take space and do no harm.
    n_unnamed_bodies: u64,
    repaired: Vec<String>,
    backed_up: Option<String>,
    /// Whether the rest is what would have been done.
    #[serde(rename = "dry_run")]
    is_dry_run: bool,
    /// How far the clock is ahead of the time that has passed, where it is doubted.
    clock_ahead_seconds: Option<f64>,
    n_versions_forgotten: Option<u64>,
    n_polls_forgotten: Option<u64>,
    n_bodies_freed: Option<u64>,
    n_bytes_freed: Option<u64>,
}

/// A source that fails.
#[derive(Serialize)]
struct FailingSource {
    source: String,
    message: String,
}

pub(crate) fn run(args: &Doctor, project: &Project, talk: Talk) -> Outcome<()> {
    let mut findings = Findings::default();
    let settings = match check_config(project, talk) {
        Ok(config) => Some(config.settings),
        Err(failure) => {
            findings.problems.push(one_line(&failure));
            findings.is_config_bad = true;
            None
        }
    };
    let settings = settings.as_ref();
    if args.repair || args.gc && !args.dry_run {
        let mut store = project.write()?;
        back_up(project, &store, args, &mut findings)?;
        if let Err(failure) = repair(project, &mut store, settings, args, &mut findings, talk) {
            findings.problems.push(one_line(&failure));
        }
    } else if let Some(store) = open_to_read(project, &mut findings, talk)? {
        back_up(project, &store, args, &mut findings)?;
        let looked = project
            .bodies()
            .and_then(|bodies| look(project, &store, &bodies, &mut findings, talk));
        match looked {
            Ok(problems) => findings.list(&problems),
            Err(failure) => findings.problems.push(one_line(&failure)),
        }
        if let (true, Some(settings)) = (args.dry_run, settings) {
            preview_gc(project, &store, settings, &mut findings)?;
        }
    }
    findings.sound = findings.problems.is_empty();
    if findings.sound {
        look_at_sources(project, &mut findings)?;
    }
    report(args, &findings, talk)
}

impl Findings {
    fn count(&mut self, facts: &[Fact]) {
        for fact in facts {
            match fact {
                Fact::ChangeForgotten(_) | Fact::VersionForgotten(_) => {
                    *self.n_versions_forgotten.get_or_insert(0) += 1;
                }
                Fact::PollForgotten(_) => *self.n_polls_forgotten.get_or_insert(0) += 1,
                _ => {}
            }
        }
    }

    fn list(&mut self, problems: &[Problem]) {
        let listed = problems.iter().take(MOST_LISTED);
        self.problems.extend(listed.map(ToString::to_string));
        if problems.len() > MOST_LISTED {
            let n_more = problems.len() - MOST_LISTED;
            self.problems.push(format!("and {} more", count(n_more)));
        }
    }
}

/// What is wrong out there, in a project that is sound.
fn look_at_sources(project: &Project, findings: &mut Findings) -> Outcome<()> {
    let config = project.config(&SettingFlags::default(), Talk::Quiet)?;
    let store = project.read()?;
    let sources = super::sources(project, &*store, &config)?;
    let failing = sources.into_iter().filter_map(|source| {
        Some(FailingSource {
            message: source.error?.message,
            source: source.name,
        })
    });
    findings.failing = failing.collect();
    findings.shared = Shared::find(project, &*store, &config)?;
    Ok(())
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

/// Checks bodies and store, and says what is wrong.
fn look<Access: Send, Among>(
    project: &Project,
    store: &Sqlite<Access>,
    bodies: &Bodies<Among>,
    findings: &mut Findings,
    talk: Talk,
) -> Outcome<Vec<Problem>> {
    let checking = talk.progress("checking bodies and the store", None);
    let examined = examine(store, bodies, &mut || checking.advance(1));
    let examined = examined.map_err(|error| project.refuse(&error))?;
    findings.n_unnamed_bodies = examined.n_unnamed_bodies;
    Ok(examined.problems)
}

/// Checks, repairs and clears out, as far as was asked for.
fn repair(
    project: &Project,
    store: &mut Sqlite,
    settings: Option<&Settings>,
    args: &Doctor,
    findings: &mut Findings,
    talk: Talk,
) -> Outcome<()> {
    let refuse = |error: Error| project.refuse(&error);
    let mut bodies = Bodies::open(project.bodies_folder()).map_err(refuse)?;
    let mut problems = look(project, store, &bodies, findings, talk)?;
    if args.repair {
        let is_index = |problem: &Problem| matches!(problem, Problem::IndexDamaged(_));
        if problems.iter().any(is_index) {
            drop(bodies);
            bodies = Bodies::reindex(project.bodies_folder()).map_err(refuse)?;
            findings.repaired.push("rebuilt the index of bodies".into());
            problems = look(project, store, &bodies, findings, talk)?;
        }
        for problem in &problems {
            // A damaged body is as good as none, so that it is fetched again.
            if let Problem::BodyDamaged(body) = problem {
                bodies.remove(*body).map_err(refuse)?;
                findings
                    .repaired
                    .push(format!("removed damaged body {body}"));
            }
        }
        let done = store.repair(&mut |body| bodies.contains(body));
        findings.repaired.extend(done.map_err(refuse)?);
        problems = store
            .check(&mut |body| bodies.contains(body))
            .map_err(refuse)?;
    }
    findings.list(&problems);
    if let (true, Some(settings)) = (args.dry_run, settings) {
        preview_gc(project, store, settings, findings)?;
    }
    if args.gc && !args.dry_run {
        // Without settings nobody knows what is to be kept.
        if let Some(settings) = settings {
            forget(project, store, settings, findings)?;
        }
        let clearing = talk.progress("clearing out", None);
        let mut collection = bodies.collect().map_err(refuse)?;
        // Once more: a repair may have dropped what named a body.
        store
            .bodies(&mut |body| collection.mark(body))
            .map_err(refuse)?;
        let mut go_on = || {
            clearing.advance(1);
            ControlFlow::Continue(())
        };
        let freed = collection.sweep(0.0, &mut go_on).map_err(refuse)?;
        drop(clearing);
        findings.n_bodies_freed = Some(freed.n_bodies);
        findings.n_bytes_freed = Some(freed.n_bytes);
        findings.n_unnamed_bodies = 0;
    }
    Ok(())
}

/// Forgets what `[retain]` does not keep.
fn forget(
    project: &Project,
    store: &mut Sqlite,
    settings: &Settings,
    findings: &mut Findings,
) -> Outcome<()> {
    let mut retention = retention(project, store, settings)?;
    let now = trusted_now(store, findings)?;
    loop {
        let step = retention.step(store, &now).map_err(broken)?;
        let (Step::Forget(facts) | Step::Last(facts)) = &step;
        findings.count(facts);
        store
            .commit(facts)
            .map_err(|error| project.refuse(&error))?;
        if matches!(step, Step::Last(_)) {
            return Ok(());
        }
    }
}

/// What `[retain]` says of the sources that there are.
fn retention(project: &Project, store: &dyn Reader, settings: &Settings) -> Outcome<Retention> {
    let sources = store.sources().map_err(|error| project.refuse(&error))?;
    Ok(Retention::new(settings, &sources))
}

/// The present, by which it is told what is too old.
fn trusted_now(store: &dyn Reader, findings: &mut Findings) -> Outcome<TrustedNow> {
    let now = TrustedNow::beside(store, &Clock::system()).map_err(broken)?;
    findings.clock_ahead_seconds = now.ahead_by().map(|millis| millis as f64 / 1000.0);
    Ok(now)
}

/// What `--gc` would forget and free.
fn preview_gc<Access: Send>(
    project: &Project,
    store: &Sqlite<Access>,
    settings: &Settings,
    findings: &mut Findings,
) -> Outcome<()> {
    let refuse = |error: Error| project.refuse(&error);
    let mut retention = retention(project, store, settings)?;
    let now = trusted_now(store, findings)?;
    loop {
        let step = retention.step(store, &now).map_err(broken)?;
        let (Step::Forget(facts) | Step::Last(facts)) = &step;
        findings.count(facts);
        if matches!(step, Step::Last(_)) {
            break;
        }
    }
    let mut named = HashSet::new();
    let mut walk = Walk::new(None, PER_PAGE);
    while let Some(elements) = walk.next(store).map_err(refuse)? {
        let copies = elements.iter().filter_map(|kept| kept.copy.as_ref());
        named.extend(copies.map(|copy| copy.body));
    }
    let mut after = 0;
    loop {
        let changes = store.changes_after(after, PER_PAGE).map_err(refuse)?;
        let Some(last) = changes.last() else { break };
        after = last.number;
        for change in &changes {
            if let Some(body) = change.body
                && retention
                    .what_to_forget(change, store, &now)
                    .map_err(broken)?
                    .is_none()
            {
                named.insert(body);
            }
        }
    }
    let freed = project.bodies()?.unnamed(&named).map_err(refuse)?;
    findings.n_bodies_freed = Some(freed.n_bodies);
    findings.n_bytes_freed = Some(freed.n_bytes);
    findings.is_dry_run = true;
    Ok(())
}

fn broken(error: springtide_engine::Error) -> Failure {
    Failure::failed("cannot tell what is to be kept").cause(error)
}

/// That the configuration can be used.
fn check_config(project: &Project, talk: Talk) -> Outcome<Config> {
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
    Ok(config)
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
        if let Some(seconds) = findings.clock_ahead_seconds {
            talk.say(format!(
                "the clock is {} ahead of the time that is known to have passed; until it has \
                 shown that for a day, nothing is deleted because of it",
                brief(seconds)
            ));
        }
        let forgotten = [
            (findings.n_versions_forgotten, "version"),
            (findings.n_polls_forgotten, "poll"),
        ];
        for (n, what) in forgotten {
            if let Some(n) = n {
                let verb = match findings.is_dry_run {
                    true => "would forget",
                    false => "forgot",
                };
                talk.say(format!("{verb} {}", plural(n, what)));
            }
        }
        if let (Some(n), Some(bytes)) = (findings.n_bodies_freed, findings.n_bytes_freed) {
            let verb = match findings.is_dry_run {
                true => "would free",
                false => "freed",
            };
            let bodies = plural(n, "unreferenced body");
            talk.say(format!("{verb} {}: {bodies}", size(bytes)));
        } else if findings.n_unnamed_bodies > 0 {
            let n = plural(findings.n_unnamed_bodies, "unreferenced body");
            talk.say(format!("{n} on disk; --gc frees the space"));
        }
        for failing in &findings.failing {
            let message = shorten_to(&failing.message, 200);
            talk.say(format!("failing: {}: {message}", failing.source));
        }
        if let Some(warning) = findings.shared.warning() {
            talk.say(format!("warning: {warning}"));
        }
        if findings.shared.is_skipped {
            let most = count(Shared::MAX_ELEMENTS as usize);
            talk.say(format!(
                "not checked: whether two sources have the same address (more than {most} elements)"
            ));
        }
        match (findings.sound, findings.failing.len()) {
            (false, _) => {}
            (true, 0) => talk.say("all is well"),
            (true, n) => talk.say(format!(
                "the project is sound; {} fail{}",
                plural(n as u64, "source"),
                if n == 1 { "s" } else { "" }
            )),
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
            failure.hint("`springtide doctor --repair` repairs what can be repaired")
        },
    )
}
