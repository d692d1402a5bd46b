//! `springtide diff`: what changed between two versions of an element.

use std::io::{IsTerminal, Write};
use std::ops::RangeInclusive;

use serde::Serialize;
use springtide_engine::view::{Versions, VersionsError, change_kind_name, digest_text, redacted};
use springtide_store::{Change, Moment};

use super::{Project, element_named};
use crate::args::SettingFlags;
use crate::args::project::Diff;
use crate::columns::{Colour, Columns, Side};
use crate::failure::{Failure, Outcome};
use crate::json::print_json;
use crate::moment::{self, local, relative, rfc3339};
use crate::table::unwritable;
use crate::talk::Talk;

/// A version as programs see it.
#[derive(Serialize)]
struct Version {
    number: u64,
    #[serde(serialize_with = "moment::serialize")]
    found_at: Option<Moment>,
    kind: &'static str,
    bytes: Option<u64>,
    digest: Option<String>,
}

pub(crate) fn run(args: &Diff, project: &Project, talk: Talk, colour: Colour) -> Outcome<()> {
    #[derive(Serialize)]
    struct Document<'a> {
        element: u32,
        source: &'a str,
        locator: &'a str,
        before: Version,
        after: Version,
        n_removed: usize,
        n_added: usize,
        diff: String,
    }
    let config = project.config(&SettingFlags::default(), talk)?;
    let store = project.read()?;
    let refuse = |error| project.refuse(&error);
    let kept = element_named(project, &*store, &args.element)?;
    let sources = store.sources().map_err(refuse)?;
    let source = sources
        .iter()
        .find(|source| source.id == kept.element.source)
        .map_or("", |source| source.name.as_str());
    let settings = config.settings.sources.iter().find(|s| s.name == source);
    let cannot = |error| match error {
        VersionsError::Store(error) => refuse(error),
        VersionsError::Selector(error) => {
            Failure::input(format!("bad source.{source}.detect")).cause(error)
        }
        error => Failure::failed(error.to_string()).hint("`--versions` lists those that there are"),
    };
    let read = Versions::read(&*store, kept.element.id, settings).map_err(cannot)?;
    let versions = read.changes();
    if args.versions {
        return list(versions, args.json, talk, colour);
    }
    let (before, after) = choose(args, read.numbers())?;
    let locator = redacted(&kept.element.locator);
    let bodies = project.bodies()?;
    let diff = read.diff(before, after, &bodies).map_err(cannot)?;
    if args.json {
        let starting = |sign: char, header: &str| {
            let lines = diff.lines();
            let lines = lines.filter(|line| line.starts_with(sign) && !line.starts_with(header));
            lines.count()
        };
        return print_json(&Document {
            element: kept.element.id.0,
            source,
            locator: &locator,
            before: version(read.get(before).map_err(cannot)?),
            after: version(read.get(after).map_err(cannot)?),
            n_removed: starting('-', "---"),
            n_added: starting('+', "+++"),
            diff,
        });
    }
    let name = |version: &Change| {
        let (number, found_at) = (version.version, version.found_at);
        let found_at = match std::io::stdout().is_terminal() {
            true => local(found_at),
            false => rfc3339(found_at),
        };
        format!("{} (version {number}, found {found_at})", locator)
    };
    if diff.is_empty() {
        talk.say("nothing that matters differs between the two versions");
        return Ok(());
    }
    let (before, after) = (
        name(read.get(before).map_err(cannot)?),
        name(read.get(after).map_err(cannot)?),
    );
    print(&format!("--- {before}\n+++ {after}\n{diff}"), colour)
}

/// Which versions are meant.
fn choose(args: &Diff, numbers: Option<RangeInclusive<u64>>) -> Outcome<(u64, u64)> {
    let refuse = |cause: String| Failure::input("there is nothing to compare").cause(cause);
    let Some(numbers) = numbers else {
        return Err(refuse("there is no version yet".to_owned())
            .hint("`springtide log` shows the changes found"));
    };
    let (first, last) = (*numbers.start(), *numbers.end());
    let there_are = match first == last {
        true => format!("there is only version {last}"),
        false => format!("there are versions {first} to {last}"),
    };
    // With one number, it is compared with what came after it up to now.
    let (before, after) = match (args.before, args.after) {
        (Some(before), Some(after)) => (before, after),
        (Some(before), None) => (before, last),
        (None, _) if first == last => {
            return Err(refuse(there_are).hint("`springtide log` shows the changes found"));
        }
        (None, _) => (last - 1, last),
    };
    for number in [before, after] {
        if !numbers.contains(&number) {
            return Err(refuse(format!("there is no version {number}; {there_are}"))
                .hint("`--versions` lists them"));
        }
    }
    Ok((before, after))
}

fn version(change: &Change) -> Version {
    Version {
        number: change.version,
        found_at: Some(change.found_at),
        kind: change_kind_name(change.kind),
        bytes: change.bytes_after,
        digest: change.digest.as_ref().map(digest_text),
    }
}

fn list(versions: &[Change], as_json: bool, talk: Talk, colour: Colour) -> Outcome<()> {
    let rows = versions.iter().map(version);
    if as_json {
        return print_json(&rows.collect::<Vec<_>>());
    }
    let now = moment::now();
    let mut columns = Columns::new(&[
        ("version", Side::Right),
        ("found", Side::Right),
        ("kind", Side::Left),
        ("bytes", Side::Right),
    ]);
    for row in rows {
        let found = row.found_at.map(|found_at| relative(found_at, now));
        columns.push(vec![
            row.number.to_string(),
            found.unwrap_or_default(),
            row.kind.to_owned(),
            row.bytes
                .map_or_else(|| "-".into(), |bytes| bytes.to_string()),
        ]);
    }
    if columns.is_empty() {
        talk.say("there is no version yet");
        return Ok(());
    }
    columns.print(colour)
}

/// A diff on standard output, red and green on a terminal; what remote bytes would do to
/// a terminal is undone.
fn print(diff: &str, colour: Colour) -> Outcome<()> {
    let mut stdout = std::io::stdout().lock();
    let is_terminal = stdout.is_terminal();
    let mut text = String::with_capacity(diff.len() + diff.len() / 8);
    for line in diff.lines() {
        let line = if is_terminal {
            crate::table::shorten_to(line, usize::MAX)
        } else {
            line.to_owned()
        };
        let paint = match line.as_bytes().first() {
            Some(b'+') => "\u{1b}[32m",
            Some(b'-') => "\u{1b}[31m",
            Some(b'@') => "\u{1b}[36m",
            _ => "",
        };
        if colour == Colour::Shown && !paint.is_empty() {
            text.push_str(&format!("{paint}{line}\u{1b}[0m\n"));
        } else {
            text.push_str(&line);
            text.push('\n');
        }
    }
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(|error| unwritable("standard output", &error))
}
