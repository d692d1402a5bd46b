//! `springtide import`: addresses from a file, without asking anybody.

use std::io::Read;
use std::path::Path;

use serde::Serialize;
use springtide_engine::register::{self, Imported, LeftOut, List, ListError};
use springtide_engine::settings::ListSettings;
use springtide_store::{Reader, SourceKind, Writer};

use super::{Project, Shared, Steps, causes, source_named};
use crate::args::SettingFlags;
use crate::args::project::Import;
use crate::config::edit::{Editor, NewSource};
use crate::config::file::ListMap;
use crate::config::{self, Config};
use crate::failure::{Failure, Outcome};
use crate::json::print_json;
use crate::table::{Unfinished, shorten_to};
use crate::talk::{Talk, count, plural};

pub(crate) fn run(
    args: &Import,
    project: &Project,
    talk: Talk,
    unfinished: &Unfinished,
) -> Outcome<()> {
    #[derive(Serialize)]
    struct Summary<'a> {
        source: &'a str,
        n_lines: u64,
        n_taken: u64,
        n_known: u64,
        n_left_out: u64,
        left_out: Vec<Left>,
    }
    let list = list(&args.file)?.read_as(&ListSettings {
        columns: config::list_columns(Some(&args.file), map(&args.map)?),
        is_strict: args.strict,
    });
    let config = project.config(&SettingFlags::default(), talk)?;
    let name = match &args.source {
        Some(name) => name.clone(),
        None if args.file == Path::new("-") => {
            return Err(Failure::input("standard input has no name").hint("give --source NAME"));
        }
        None => name_after(&args.file),
    };
    config::check_name(&name).map_err(|why| {
        Failure::input("cannot name the source")
            .cause(why)
            .hint("give --source NAME, of letters, digits, `-`, `_` and `.`")
    })?;
    let mut store = project.write()?;
    let is_there = config.settings.sources.iter().any(|s| s.name == name);
    let config = if is_there {
        check_list(&config, &name)?;
        config
    } else {
        // As it will be once it is written down.
        let mut with_it = config;
        let (kind, url) = (SourceKind::List, String::new());
        let list = config::source_with_defaults(name.clone(), kind, url, None, args.weight);
        with_it.settings.sources.push(list);
        with_it
    };
    project.reconcile(&mut store, &config, talk)?;
    let known = store.sources().map_err(|error| project.refuse(&error))?;
    let source = source_named(&known, &name)?;
    let weight = config
        .settings
        .sources
        .iter()
        .find(|source| source.name == name)
        .map_or(1.0, |source| source.weight);
    let weight = if is_there {
        args.weight.unwrap_or(weight)
    } else {
        weight
    };

    let mut steps = Steps::new(talk);
    let imported = register::import(
        &mut store,
        &config.settings,
        source,
        weight,
        &list,
        &mut |step| steps.take(step),
    );
    drop(steps);
    let imported = match imported {
        Ok(imported) => imported,
        Err(error) => {
            if !is_there {
                // It was there for this list only.
                let gone = springtide_store::Fact::SourceRemoved(source.id);
                store
                    .commit(&[gone])
                    .map_err(|error| project.refuse(&error))?;
            }
            return Err(refuse(project, &args.file, error));
        }
    };
    if !is_there {
        let mut editor = Editor::open(&project.folder)?;
        editor.add_source(&NewSource {
            name: name.clone(),
            kind: "list",
            weight: args.weight,
            ..NewSource::default()
        })?;
        editor.write(&project.folder, unfinished)?;
    }
    store.close().map_err(|error| project.refuse(&error))?;
    if args.json {
        return print_json(&Summary {
            source: &name,
            n_lines: imported.n_lines,
            n_taken: imported.n_added,
            n_known: imported.n_known,
            n_left_out: imported.n_bad,
            left_out: left_out(&imported),
        });
    }
    let added = plural(imported.n_added, "new element");
    talk.say(format!("{added} in {name}"));
    let config = project.config(&SettingFlags::default(), Talk::Quiet)?;
    Shared::warn(project, &config, talk)?;
    tell_left_out(&imported, talk);
    if imported.n_known > 0 {
        let known = plural(imported.n_known, "line");
        talk.say(format!("{known} with an address that was there already"));
    }
    if imported.n_added > 0 {
        talk.say("no requests made; next: `springtide run`");
    }
    Ok(())
}

/// Lines left out that are told one by one.
const MOST_TOLD: usize = 10;

/// A line that could not be used, for a program.
#[derive(Serialize)]
pub(super) struct Left {
    what: String,
    why: String,
}

pub(super) fn left_out(imported: &Imported) -> Vec<Left> {
    let left_out = imported.left_out.iter().cloned();
    left_out
        .map(|LeftOut { what, why }| Left { what, why })
        .collect()
}

/// Says which lines could not be used, and why.
pub(super) fn tell_left_out(imported: &Imported, talk: Talk) {
    for left in imported.left_out.iter().take(MOST_TOLD) {
        let (what, why) = (shorten_to(&left.what, 200), shorten_to(&left.why, 200));
        talk.say(format!("left out: {what}: {why}"));
    }
    if imported.n_bad > MOST_TOLD as u64 {
        let more = count((imported.n_bad as usize).saturating_sub(MOST_TOLD));
        talk.say(format!("left out: {more} more; --strict refuses them"));
    }
}

/// How columns are called, as `--map` says it.
pub(super) fn map(flags: &[String]) -> Outcome<ListMap> {
    let mut map = ListMap::default();
    for mapped in flags {
        let (column, name) = mapped.split_once('=').unwrap_or((mapped, ""));
        let place = match column {
            "url" | "locator" => &mut map.url,
            "weight" => &mut map.weight,
            "group" => &mut map.group,
            _ => {
                return Err(Failure::input("cannot understand --map")
                    .cause(format!("there is no column `{}`", shorten_to(column, 100)))
                    .hint("url=NAME, weight=NAME or group=NAME is expected"));
            }
        };
        *place = Some(name.to_owned());
    }
    Ok(map)
}

/// A file to read addresses from.
pub(crate) fn list(path: &Path) -> Outcome<List> {
    if path != Path::new("-") {
        return Ok(List::file(path.to_owned()));
    }
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::input("cannot read standard input").cause(error))?;
    Ok(List::memory(bytes.into()))
}

/// Why a list was not taken in.
pub(crate) fn refuse(project: &Project, path: &Path, error: register::Error) -> Failure {
    let name = if path == Path::new("-") {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    };
    let failure = Failure::input(format!("cannot read {name}"));
    match error {
        register::Error::List(ListError::Read(error)) => match error.kind() {
            std::io::ErrorKind::NotFound => failure
                .cause("there is no such file")
                .hint("check the path"),
            std::io::ErrorKind::IsADirectory => {
                failure.cause("it is a folder").hint("name a file in it")
            }
            _ => failure.cause(error),
        },
        register::Error::List(error @ (ListError::Empty | ListError::Unusable(_))) => failure
            .cause(shorten_to(&error.to_string(), 300))
            .hint(EXPECTED),
        register::Error::List(error) => failure
            .cause(causes(&error))
            .hint("nothing was imported; correct or drop the line"),
        error => project.refuse_settings(error),
    }
}

/// What a file of addresses has.
pub(super) const EXPECTED: &str =
    "one address a line, or CSV with a column `url` (or another: --map url=NAME)";

/// What a source is called that was in a file.
pub(crate) fn name_after(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy());
    let name = name.unwrap_or_default();
    let endings = [".gz", ".zst", ".txt", ".csv", ".list"];
    let mut name = name.as_ref();
    while let Some(stem) = endings.iter().find_map(|ending| name.strip_suffix(ending)) {
        name = stem;
    }
    let is_fine = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String = name
        .chars()
        .map(|c| if is_fine(c) { c } else { '-' })
        .collect();
    name.trim_start_matches(['.', '-']).to_owned()
}

/// That addresses may be added to a source.
fn check_list(config: &Config, name: &str) -> Outcome<()> {
    let source = config
        .settings
        .sources
        .iter()
        .find(|source| source.name == name);
    let refuse = |cause: &str| {
        Err(Failure::input(format!("cannot add addresses to {name}"))
            .cause(cause)
            .hint("give another --source NAME"))
    };
    match source {
        Some(source) if source.kind != SourceKind::List => refuse("it is not a list"),
        Some(source) if source.file.is_some() => {
            refuse("it follows a file; what is added would be dropped again")
        }
        _ => Ok(()),
    }
}
