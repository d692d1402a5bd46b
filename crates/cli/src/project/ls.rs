//! `springtide ls`: sources, or elements.

use std::io::IsTerminal;

use springtide_engine::view::{
    ElementFilter, ElementView, Elements, Outlook, SourceView, States, per_day, trust,
};
use springtide_store::{Moment, Reader, Source, State};

use super::{Project, source_named, sources};
use crate::args::SettingFlags;
use crate::args::project::{Ls, StateName};
use crate::columns::{Colour, Columns, Side};
use crate::config::Config;
use crate::failure::Outcome;
use crate::json::Lines;
use crate::moment::{self, relative};
use crate::table::{shorten, shorten_to};
use crate::talk::{Talk, count};
use crate::width::{self, wrapped};

/// Elements in a table for a person.
const DEFAULT_LIMIT: usize = 50;
/// The longest common part of addresses that is shown, in characters.
const LONGEST_COMMON: usize = 70;

pub(crate) fn run(args: &Ls, project: &Project, talk: Talk, colour: Colour) -> Outcome<()> {
    let config = project.config(&SettingFlags::default(), talk)?;
    let store = project.read()?;
    let mut sources = sources(project, &*store, &config)?;
    if args.elements {
        return list_elements(args, project, &config, &*store, &sources, talk, colour);
    }
    if let Some(name) = &args.source {
        let id = source_named(&sources, name)?.id;
        let name = name.clone();
        sources.retain(|source| source.id == id && source.name == name);
    }
    let trust = trust(&*store).map_err(|error| project.refuse(&error))?;
    let sources = sources.iter();
    let sources: Vec<SourceView> = sources
        .map(|source| SourceView::new(source, &config.settings, &trust))
        .collect();
    let n = args.limit.unwrap_or(usize::MAX);
    if args.json {
        let mut lines = Lines::new();
        for source in sources.iter().take(n) {
            lines.push(source)?;
        }
        return lines.finish();
    }
    list_sources(&sources, n, talk, colour)
}

fn list_sources(sources: &[SourceView], limit: usize, talk: Talk, colour: Colour) -> Outcome<()> {
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
        ("url", Side::Extra),
    ]);
    for source in sources.iter().take(limit) {
        let number = |n: u64| count(n as usize);
        columns.push(vec![
            source.name.clone(),
            source.kind.to_owned(),
            number(source.n_elements),
            number(source.n_new),
            number(source.n_failing),
            number(source.n_blocked),
            number(source.n_gone),
            number(source.n_polls),
            number(source.n_changes),
            source.url.clone(),
        ]);
    }
    columns.leave_out(&["new", "failing", "blocked", "gone"], "0");
    columns.print(colour)?;
    let width = width::of_stderr();
    let say = |name: &str, what: &str| {
        let lines = wrapped(&format!("{name}: "), what, width);
        lines.iter().for_each(|line| talk.say(line));
    };
    for source in sources.iter().take(limit) {
        if let Some(error) = &source.error {
            let message = shorten_to(&error.message, 200);
            say(&source.name, &message);
        }
        if source.is_paused {
            say(&source.name, "paused; kept, and not polled");
        }
        if !source.is_in_file {
            let name = &source.name;
            say(
                name,
                &format!(
                    "not in springtide.toml; kept, and not polled \
                     (`springtide rm {name}` removes it)"
                ),
            );
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
    colour: Colour,
) -> Outcome<()> {
    let now = moment::now();
    let source = match &args.source {
        Some(name) => Some(source_named(sources, name)?),
        None => None,
    };
    let wanted = ElementFilter {
        source: source.map(|source| source.id),
        state: args.state.map(of_name),
        listings: args.listings,
        from: None,
    };
    let refuse = |error| project.refuse(&error);
    let mut outlook = Outlook::read(store, &config.settings, now, &mut || {}).map_err(refuse)?;
    let mut elements = Elements::new(store, &mut outlook, sources, wanted).map_err(refuse)?;
    let mut next_page = || -> Outcome<Option<Vec<ElementView>>> {
        let page = elements.next_page().map_err(refuse)?;
        Ok(page.map(|page| page.into_iter().map(|(_, element)| element).collect()))
    };
    let mut sorted = match args.sort {
        None => None,
        Some(key) => {
            let mut all = Vec::new();
            while let Some(page) = next_page()? {
                all.extend(page);
            }
            key.sort(&mut all);
            Some(all)
        }
    };
    let mut next_page = || match args.sort {
        None => next_page(),
        // All at once.
        Some(_) => Ok(sorted.take()),
    };
    if args.json {
        let mut lines = Lines::new();
        let mut left = args.limit.unwrap_or(usize::MAX);
        while left > 0
            && let Some(page) = next_page()?
        {
            for element in page.iter().take(left) {
                lines.push(element)?;
            }
            left = left.saturating_sub(page.len());
        }
        return lines.finish();
    }

    let limit = args.limit.unwrap_or(DEFAULT_LIMIT);
    let mut columns = Columns::new(&[
        ("id", Side::Right),
        ("state", Side::Left),
        ("polled", Side::Right),
        ("next", Side::Right),
        ("rate/day", Side::Right),
        ("polls/day", Side::Right),
        ("fresh", Side::Right),
        ("locator", Side::Long),
        ("why", Side::Long),
    ]);
    let mut shown: Vec<ElementView> = Vec::new();
    let mut has_more = false;
    while !has_more && let Some(page) = next_page()? {
        let room = limit - shown.len();
        has_more = page.len() > room;
        shown.extend(page.into_iter().take(room));
    }
    let n_shown = shown.len();
    // On a terminal there is little room, and nobody searches the lines.
    let common = match std::io::stdout().is_terminal() {
        true => common_part(&shown).to_owned(),
        false => String::new(),
    };
    for element in &mut shown {
        element.locator.drain(..common.len());
        columns.push(cells(element, now));
    }
    if !common.is_empty() {
        talk.say(format!("below {}", shorten_to(&common, LONGEST_COMMON)));
    }
    if columns.is_empty() {
        talk.say("there are no such elements");
        return Ok(());
    }
    if talk != Talk::Verbose {
        columns.leave_out_whole("why");
    }
    columns.print(colour)?;
    if has_more {
        let states = match source {
            Some(source) => States::of(std::iter::once(source)),
            None => States::of(sources),
        };
        let total = match wanted.state {
            Some(state) => states.in_state(state),
            None => states.all(),
        };
        let more = count((total as usize).saturating_sub(n_shown).max(1));
        talk.say(format!("and {more} more; --limit N shows more, --json all"));
    }
    Ok(())
}

/// The state that is called so.
pub(super) fn of_name(name: StateName) -> State {
    match name {
        StateName::New => State::New,
        StateName::Ok => State::Ok,
        StateName::Failing => State::Failing,
        StateName::Blocked => State::Blocked,
        StateName::Gone => State::Gone,
    }
}

/// What all addresses begin with, up to a `/`; nothing if that is not worth leaving out.
fn common_part(elements: &[ElementView]) -> &str {
    let [first, others @ ..] = elements else {
        return "";
    };
    let mut common = match (others.is_empty(), first.locator.rfind('/')) {
        (false, Some(end)) => &first.locator[..=end],
        _ => return "",
    };
    for other in others {
        while !other.locator.starts_with(common) {
            let end = common[..common.len() - 1].rfind('/');
            common = end.map_or("", |end| &common[..=end]);
            if common.is_empty() {
                return "";
            }
        }
    }
    // A scheme alone says nothing.
    let is_worth_it = common.matches('/').count() > 2;
    if is_worth_it { common } else { "" }
}

/// The cells of an element: `?` where nothing is known yet, `-` where there is nothing
/// to know.
fn cells(element: &ElementView, now: Moment) -> Vec<String> {
    let is_out = matches!(element.state, "gone" | "blocked");
    let nothing = if is_out { "-" } else { "?" };
    let number = |text: Option<String>| text.unwrap_or_else(|| nothing.to_owned());
    let when = |moment: Option<Moment>| {
        let text = moment.map(|moment| relative(moment, now));
        text.unwrap_or_else(|| "-".to_owned())
    };
    let why = match (&element.error, &element.reason) {
        (Some(error), _) => format!("{}: {}", error.kind, error.message),
        (None, Some(reason)) => reason.to_string(),
        (None, None) => String::new(),
    };
    let freshness = element
        .freshness
        .map(|share| format!("{:.0}%", share * 100.0));
    vec![
        element.id.to_string(),
        element.state.to_owned(),
        when(element.polled_at),
        when(element.due_at),
        number(element.rate_per_day.map(|rate| per_day(rate.estimate))),
        number(element.frequency_per_day.map(per_day)),
        number(freshness),
        element.locator.clone(),
        shorten(&why),
    ]
}
