//! Polls with which something was wrong: the latest of them, and how many there were when.

use springtide_engine::view::{self, redacted};
use springtide_store::{Moment, Poll, Reader, Source};

use super::html::{Bar, Html, bars, when};
use crate::problem::Problem;

/// Failed polls of one source that are counted.
const MOST_COUNTED: usize = 2000;
/// Failed polls that are listed.
const LISTED: usize = 20;
/// How far back they are counted, in milliseconds.
const BACK: i64 = 7 * 86_400_000;
/// Parts of that time, each with a count.
const PARTS: usize = 42;

/// A poll that went wrong.
pub(super) struct ErrorRow {
    pub(super) when: Html,
    pub(super) kind: &'static str,
    pub(super) status: String,
    pub(super) source: String,
    pub(super) element: u32,
    pub(super) locator: String,
}

/// The latest of these sources, the newest first.
pub(super) fn latest(
    store: &dyn Reader,
    sources: &[Source],
    now: Moment,
) -> Result<Vec<ErrorRow>, Problem> {
    let mut polls: Vec<(Poll, &str)> = Vec::new();
    for source in sources {
        let failed = store.failed_polls(source.id, LISTED)?;
        polls.extend(failed.into_iter().map(|poll| (poll, &*source.name)));
    }
    polls.sort_by_key(|(poll, _)| std::cmp::Reverse(poll.at));
    polls.truncate(LISTED);
    let row = |(poll, source): &(Poll, &str)| -> Result<ErrorRow, Problem> {
        let kept = store.element(poll.element)?;
        Ok(ErrorRow {
            when: when(Some(poll.at), now, ""),
            kind: poll.error.map_or("", |kind| kind.name()),
            status: poll
                .status
                .map_or(String::new(), |status| status.to_string()),
            source: (*source).to_owned(),
            element: poll.element.0,
            locator: kept.map_or(String::new(), |kept| {
                redacted(&kept.element.locator).into_owned()
            }),
        })
    };
    polls.iter().map(row).collect()
}

/// How many there were of a source in each part of the last week.
pub(super) fn over_time(
    store: &dyn Reader,
    source: &Source,
    now: Moment,
) -> Result<Option<Html>, Problem> {
    let polls = store.failed_polls(source.id, MOST_COUNTED)?;
    let mut parts = [0_u64; PARTS];
    for poll in &polls {
        let ago = now.0.saturating_sub(poll.at.0).max(0);
        let part = usize::try_from(ago * PARTS as i64 / BACK).unwrap_or(PARTS);
        if let Some(n) = PARTS.checked_sub(part + 1) {
            parts[n] += 1;
        }
    }
    let n_all: u64 = parts.iter().sum();
    if n_all == 0 {
        return Ok(None);
    }
    let all = match polls.len() {
        MOST_COUNTED => format!("the latest {} failed polls", view::count(MOST_COUNTED)),
        _ => view::plural(n_all, "failed poll"),
    };
    let label = format!("{all} of the last 7 days, in parts of 4 hours");
    let bars_of = parts.map(|n| Bar {
        height: n as f64,
        says: view::plural(n, "failed poll"),
    });
    Ok(Some(bars(&bars_of, &label, "7 days ago")))
}
