//! `springtide ls`: sources, or elements.

use serde::Serialize;
use springtide_store::{Moment, Reader, Source, State};

use super::rows::{Counts, Enough, ErrorRow, Row, Rows, Wanted};
use super::{NOT_IN_STORE, Project, kind_name, source_named, sources};
use crate::args::SettingFlags;
use crate::args::project::{Ls, StateName};
use crate::columns::{Columns, Side};
use crate::config::Config;
use crate::failure::Outcome;
use crate::json::{Lines, print_json};
use crate::moment::{self, relative};
use crate::table::shorten;
use crate::talk::{Talk, count};
use crate::view::View;

/// Elements in a table for a person.
const DEFAULT_LIMIT: usize = 50;

pub(crate) fn run(args: &Ls, project: &Project, talk: Talk) -> Outcome<()> {
    let config = project.config(&SettingFlags::default(), talk)?;
    let store = project.read()?;
    let mut sources = sources(project, &*store, &config)?;
    if args.elements {
        return list_elements(args, project, &config, &*store, &sources, talk);
    }
    if let Some(name) = &args.source {
        let id = source_named(&sources, name)?.id;
        let name = name.clone();
        sources.retain(|source| source.id == id && source.name == name);
    }
    let n = args.limit.unwrap_or(usize::MAX);
    if args.json {
        let rows: Vec<_> = sources.iter().take(n).map(SourceRow::new).collect();
        return print_json(&rows);
    }
    list_sources(&sources, n, talk)
}

/// A source as programs see it.
#[derive(Serialize)]
struct SourceRow<'a> {
    name: &'a str,
    kind: &'static str,
    url: &'a str,
    n_elements: u64,
    n_new: u64,
    n_failing: u64,
    n_blocked: u64,
    n_gone: u64,
    n_polls: u64,
    n_changes: u64,
    #[serde(serialize_with = "moment::serialize")]
    added_at: Option<Moment>,
    error: Option<ErrorRow<'a>>,
}

impl<'a> SourceRow<'a> {
    fn new(source: &'a Source) -> Self {
        let totals = source.totals;
        Self {
            name: &source.name,
            kind: kind_name(source.kind),
            url: &source.url,
            n_elements: totals.n_elements,
            n_new: totals.n_new,
            n_failing: totals.n_failing,
            n_blocked: totals.n_blocked,
            n_gone: totals.n_gone,
            n_polls: totals.n_polls,
            n_changes: totals.n_changes,
            added_at: (source.id != NOT_IN_STORE).then_some(source.added_at),
            error: source.error.as_ref().map(ErrorRow::new),
        }
    }
}

fn list_sources(sources: &[Source], limit: usize, talk: Talk) -> Outcome<()> {
    if sources.is_empty() {
        talk.say("there are no sources; add one with `springtide add URL`");
        return Ok(());
    }
    let mut columns = Columns::new(&[
        ("source", Side::Left),
        ("kind", Side::Left),
        ("elements", Side::Right),
        ("new", Side::Right),
        ("failing", Side::Right),
        ("blocked", Side::Right),
        ("gone", Side::Right),
        ("polls", Side::Right),
        ("changes", Side::Right),
        ("url", Side::Long),
    ]);
    for source in sources.iter().take(limit) {
        let totals = source.totals;
        let number = |n: u64| count(n as usize);
        columns.push(vec![
            source.name.clone(),
            kind_name(source.kind).to_owned(),
            number(totals.n_elements),
            number(totals.n_new),
            number(totals.n_failing),
            number(totals.n_blocked),
            number(totals.n_gone),
            number(totals.n_polls),
            number(totals.n_changes),
            source.url.clone(),
        ]);
    }
    columns.print()?;
    for source in sources.iter().take(limit) {
        if let Some(error) = &source.error {
            let message = crate::table::shorten_to(&error.message, 200);
            talk.say(format!("{}: {message}", source.name));
        }
    }
    if sources.len() > limit {
        talk.say(format!("and {} more", count(sources.len() - limit)));
    }
    Ok(())
}

fn list_elements(
    args: &Ls,
    project: &Project,
    config: &Config,
    store: &dyn Reader,
    sources: &[Source],
    talk: Talk,
) -> Outcome<()> {
    let now = moment::now();
    let source = match &args.source {
        Some(name) => Some(source_named(sources, name)?),
        None => None,
    };
    let wanted = Wanted {
        source: source.map(|source| source.id),
        state: args.state.map(|state| match state {
            StateName::New => State::New,
            StateName::Ok => State::Ok,
            StateName::Failing => State::Failing,
            StateName::Blocked => State::Blocked,
            StateName::Gone => State::Gone,
        }),
        listings: args.listings,
    };
    let view = View::new(store, &config.settings, now).map_err(|error| project.refuse(&error))?;
    let mut rows = Rows::new(project, store, sources, view);
    if args.json {
        let mut lines = Lines::new();
        let mut left = args.limit.unwrap_or(usize::MAX);
        rows.each(wanted, &mut |_, row| {
            if left == 0 {
                return Ok(Enough::Yes);
            }
            left -= 1;
            lines.push(row)?;
            Ok(Enough::No)
        })?;
        return lines.finish();
    }

    let limit = args.limit.unwrap_or(DEFAULT_LIMIT);
    let mut columns = Columns::new(&[
        ("id", Side::Right),
        ("state", Side::Left),
        ("polled", Side::Right),
        ("next", Side::Right),
        ("changes/day", Side::Right),
        ("polls/day", Side::Right),
        ("fresh", Side::Right),
        ("locator", Side::Long),
        ("why", Side::Long),
    ]);
    let mut n_shown = 0;
    let mut has_more = false;
    rows.each(wanted, &mut |_, row| {
        if n_shown == limit {
            has_more = true;
            return Ok(Enough::Yes);
        }
        n_shown += 1;
        columns.push(cells(row, now));
        Ok(Enough::No)
    })?;
    if columns.is_empty() {
        talk.say("there are no such elements");
        return Ok(());
    }
    columns.print()?;
    if has_more {
        let counts = match source {
            Some(source) => Counts::of(std::iter::once(source)),
            None => Counts::of(sources.iter()),
        };
        let total = match wanted.state {
            Some(state) => counts.in_state(state),
            None => counts.n_all(),
        };
        let more = count((total as usize).saturating_sub(n_shown).max(1));
        talk.say(format!("and {more} more; --limit N shows more, --json all"));
    }
    Ok(())
}

fn cells(row: &Row<'_>, now: Moment) -> Vec<String> {
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let when = |moment: Option<Moment>| or_none(moment.map(|moment| relative(moment, now)));
    let why = match (&row.error, &row.reason) {
        (Some(error), _) => format!("{}: {}", error.kind, error.message),
        (None, Some(reason)) => reason.to_string(),
        (None, None) => String::new(),
    };
    vec![
        row.id.to_string(),
        row.state.to_owned(),
        when(row.polled_at),
        when(row.due_at),
        or_none(row.rate_per_day.map(|rate| per_day(rate.estimate))),
        or_none(row.frequency_per_day.map(per_day)),
        or_none(row.freshness.map(|share| format!("{:.0}%", share * 100.0))),
        row.locator.to_owned(),
        shorten(&why),
    ]
}

/// Three digits are enough to compare by.
pub(crate) fn per_day(number: f64) -> String {
    match number {
        0.0 => "0".to_owned(),
        n if n >= 100.0 => format!("{n:.0}"),
        n if n >= 10.0 => format!("{n:.1}"),
        n if n >= 1.0 => format!("{n:.2}"),
        n if n >= 0.001 => format!("{n:.3}"),
        n => format!("{n:.0e}"),
    }
}
