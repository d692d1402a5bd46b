//! `springtide log`: the changes found, newest first.

use std::collections::HashMap;

use serde::Serialize;
use springtide_store::{Change, ChangeFilter, ChangeKind, ElementId, Moment, Reader, SourceId};

use super::{Project, element_named, source_named};
use crate::args::project::Log;
use crate::columns::{Columns, Side};
use crate::failure::{Failure, Outcome};
use crate::json::Lines;
use crate::moment::{self, brief, relative, seconds_between};
use crate::talk::Talk;

/// Changes in a table for a person.
const DEFAULT_LIMIT: usize = 50;
/// Changes that are read at a time.
const PAGE: usize = 1000;

/// A change as programs see it.
#[derive(Serialize)]
struct Row<'a> {
    element: u32,
    source: &'a str,
    locator: &'a str,
    #[serde(serialize_with = "moment::serialize")]
    found_at: Option<Moment>,
    #[serde(serialize_with = "moment::serialize")]
    previous_poll_at: Option<Moment>,
    kind: &'static str,
    bytes_before: Option<u64>,
    bytes_after: Option<u64>,
    digest: Option<String>,
}

pub(crate) fn run(args: &Log, project: &Project, talk: Talk) -> Outcome<()> {
    let now = moment::now();
    let store = project.read()?;
    let refuse = |error| project.refuse(&error);
    let sources = store.sources().map_err(refuse)?;
    let filter = ChangeFilter {
        source: match &args.source {
            Some(name) => Some(source_named(&sources, name)?.id),
            None => None,
        },
        element: match &args.element {
            Some(text) => Some(element_named(project, &*store, text)?.element.id),
            None => None,
        },
        since: since(args.since.as_deref(), now)?,
    };
    let names: HashMap<SourceId, &str> = sources
        .iter()
        .map(|source| (source.id, source.name.as_str()))
        .collect();
    let limit = match args.limit {
        Some(limit) => limit,
        None if args.json => usize::MAX,
        None => DEFAULT_LIMIT,
    };
    let mut lines = args.json.then(Lines::new);
    let mut columns = Columns::new(&[
        ("found", Side::Right),
        ("kind", Side::Left),
        ("copy was", Side::Right),
        ("bytes", Side::Right),
        ("size", Side::Right),
        ("source", Side::Left),
        ("locator", Side::Long),
    ]);
    let (mut left, mut before, mut has_more) = (limit, None, false);
    'pages: loop {
        let n = PAGE.min(left.saturating_add(1));
        let page = store.changes(&filter, before, n).map_err(refuse)?;
        let is_last = page.len() < n;
        let mut locators = Locators::default();
        for change in &page {
            if left == 0 {
                has_more = true;
                break 'pages;
            }
            left -= 1;
            before = Some(change.number);
            let locator = locators.find(project, &*store, change.element)?;
            let source = names.get(&change.source).copied().unwrap_or_default();
            match &mut lines {
                Some(lines) => lines.push(&row(change, source, locator))?,
                None => columns.push(cells(change, source, locator, now)),
            }
        }
        if is_last {
            break;
        }
    }
    if let Some(lines) = lines {
        return lines.finish();
    }
    if columns.is_empty() {
        talk.say("no changes were found");
        return Ok(());
    }
    columns.print()?;
    if has_more {
        talk.say("and more; --limit N shows more, --json all");
    }
    Ok(())
}

/// The moment that `--since` names.
pub(crate) fn since(text: Option<&str>, now: Moment) -> Outcome<Option<Moment>> {
    let Some(text) = text else { return Ok(None) };
    let moment = moment::since(text, now);
    moment.map(Some).map_err(|cause| {
        let text = crate::table::shorten(text);
        Failure::input("cannot understand --since").cause(format!("{cause}, not `{text}`"))
    })
}

/// Addresses of elements, each looked up once in a page.
#[derive(Default)]
struct Locators {
    known: HashMap<ElementId, String>,
}

impl Locators {
    fn find(&mut self, project: &Project, store: &dyn Reader, id: ElementId) -> Outcome<&str> {
        if let std::collections::hash_map::Entry::Vacant(entry) = self.known.entry(id) {
            let kept = store.element(id).map_err(|error| project.refuse(&error))?;
            entry.insert(kept.map(|kept| kept.element.locator).unwrap_or_default());
        }
        Ok(self.known.get(&id).map_or("", String::as_str))
    }
}

pub(crate) fn kind_name(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Changed => "changed",
        ChangeKind::Added => "added",
        ChangeKind::Gone => "gone",
        ChangeKind::Back => "back",
    }
}

fn row<'a>(change: &Change, source: &'a str, locator: &'a str) -> Row<'a> {
    Row {
        element: change.element.0,
        source,
        locator,
        found_at: Some(change.found_at),
        previous_poll_at: change.previous_poll_at,
        kind: kind_name(change.kind),
        bytes_before: change.bytes_before,
        bytes_after: change.bytes_after,
        digest: change.digest.as_ref().map(digest),
    }
}

/// A digest as it is written: what it is, and hex.
pub(crate) fn digest(digest: &[u8; 32]) -> String {
    let mut text = String::with_capacity(7 + 64);
    text.push_str("blake3:");
    for byte in digest {
        for nibble in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(nibble), 16).unwrap_or('0'));
        }
    }
    text
}

fn cells(change: &Change, source: &str, locator: &str, now: Moment) -> Vec<String> {
    let unknown = || "-".to_owned();
    let age = change
        .previous_poll_at
        .map(|previous| format!("≤{}", brief(seconds_between(previous, change.found_at))));
    let bytes = match (change.bytes_before, change.bytes_after) {
        (Some(before), Some(after)) if before != after => {
            format!("{:+}", i128::from(after) - i128::from(before))
        }
        (Some(_), Some(_)) => "±0".to_owned(),
        (None, Some(after)) => after.to_string(),
        (Some(before), None) => format!("-{before}"),
        (None, None) => unknown(),
    };
    vec![
        relative(change.found_at, now),
        kind_name(change.kind).to_owned(),
        age.unwrap_or_else(unknown),
        bytes,
        change
            .size
            .map_or_else(unknown, |size| format!("{:.0}%", size * 100.0)),
        source.to_owned(),
        locator.to_owned(),
    ]
}
