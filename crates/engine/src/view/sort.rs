//! Elements in an order: by what, and where each comes.

use std::cmp::Ordering;
use std::str::FromStr;

use springtide_store::{Brief, ElementId, Error, Kept, Moment, Reader, Role, State, Walk};

use super::beliefs::{BeliefInput, Held};
use super::elements::{ElementFilter, ElementView};
use super::outlook::{Outlook, decimal};
use super::words::redacted;

/// What elements are sorted by, and which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SortKey {
    /// By what.
    pub by: SortBy,
    /// The largest first.
    pub is_reversed: bool,
}

/// What elements are sorted by: keys of [`ElementView`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "they are the keys that they name")]
pub enum SortBy {
    Id,
    Source,
    Locator,
    State,
    Weight,
    PolledAt,
    ChangedAt,
    DueAt,
    Rate,
    Frequency,
    NPolls,
    NChanges,
    Freshness,
}

impl FromStr for SortKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (is_reversed, name) = match text.strip_prefix('-') {
            Some(name) => (true, name),
            None => (false, text),
        };
        let by = match name {
            "id" => SortBy::Id,
            "source" => SortBy::Source,
            "locator" => SortBy::Locator,
            "state" => SortBy::State,
            "weight" => SortBy::Weight,
            "polled_at" => SortBy::PolledAt,
            "changed_at" => SortBy::ChangedAt,
            "due_at" => SortBy::DueAt,
            "rate_per_day" => SortBy::Rate,
            "frequency_per_day" => SortBy::Frequency,
            "n_polls" => SortBy::NPolls,
            "n_changes" => SortBy::NChanges,
            "freshness" => SortBy::Freshness,
            _ => {
                return Err(
                    "one of id, source, locator, state, weight, polled_at, changed_at, due_at, \
                     rate_per_day, frequency_per_day, n_polls, n_changes and freshness is expected"
                        .to_owned(),
                );
            }
        };
        Ok(Self { by, is_reversed })
    }
}

/// What an element is sorted by. What has nothing to be sorted by comes last, whichever
/// way; what has the same comes in the order of numbers.
#[derive(Debug, Clone, PartialEq)]
pub enum Rank {
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
    /// Nothing.
    None,
}

impl SortKey {
    /// Which of two elements comes first.
    pub fn order(&self, one: (&Rank, ElementId), other: (&Rank, ElementId)) -> Ordering {
        let turned = |order: Ordering| match self.is_reversed {
            true => order.reverse(),
            false => order,
        };
        let by_rank = match (one.0, other.0) {
            (Rank::Number(one), Rank::Number(other)) => turned(one.total_cmp(other)),
            (Rank::Text(one), Rank::Text(other)) => turned(one.cmp(other)),
            (Rank::None, Rank::None) => Ordering::Equal,
            (Rank::None, _) => Ordering::Greater,
            (_, Rank::None) => Ordering::Less,
            (Rank::Number(_), Rank::Text(_)) => Ordering::Less,
            (Rank::Text(_), Rank::Number(_)) => Ordering::Greater,
        };
        by_rank.then(one.1.cmp(&other.1))
    }

    /// Puts elements that are at hand in order.
    pub fn sort(&self, elements: &mut [ElementView]) {
        elements.sort_by(|one, other| {
            let (a, b) = (rank_of_view(self.by, one), rank_of_view(self.by, other));
            self.order((&a, ElementId(one.id)), (&b, ElementId(other.id)))
        });
    }
}

/// The elements that are wanted, in order, each with what it was sorted by.
///
/// # Errors
/// If the store cannot be read.
pub fn ranked(
    store: &dyn Reader,
    outlook: &mut Outlook,
    wanted: ElementFilter,
    key: SortKey,
) -> Result<Vec<(Rank, ElementId)>, Error> {
    let mut ranks: Vec<(Rank, ElementId)> = Vec::new();
    let is_wanted = |brief: &Brief| {
        wanted.source.is_none_or(|source| source == brief.source)
            && wanted.state.is_none_or(|state| state == brief.state)
            && (wanted.listings || brief.role != Role::Listing)
    };
    if matches!(key.by, SortBy::Locator | SortBy::ChangedAt) {
        // This is not in the compact record.
        let mut walk = Walk::new(wanted.source, WALKED);
        while let Some(page) = walk.next(store)? {
            let page = page.into_iter().filter(|kept| is_wanted(&kept.brief()));
            ranks.extend(page.map(|kept| {
                let id = kept.element.id;
                (rank_of_kept(key.by, kept), id)
            }));
        }
    } else {
        let mut names = std::collections::HashMap::new();
        if key.by == SortBy::Source {
            names.extend(store.sources()?.into_iter().map(|s| (s.id, s.name)));
        }
        store.scan(1, &mut |id, brief| {
            if is_wanted(brief) {
                let rank = match key.by {
                    SortBy::Source => names.get(&brief.source).cloned().map(Rank::Text),
                    by => rank_of_brief(by, id, brief, outlook).map(Rank::Number),
                };
                ranks.push((rank.unwrap_or(Rank::None), id));
            }
        })?;
    }
    ranks.sort_unstable_by(|one, other| key.order((&one.0, one.1), (&other.0, other.1)));
    Ok(ranks)
}

/// Elements that are read at a time.
const WALKED: usize = 2000;

fn number(moment: Option<Moment>) -> Option<f64> {
    moment.map(|moment| moment.0 as f64)
}

fn state_number(state: State) -> f64 {
    f64::from(state as u8)
}

fn rank_of_kept(by: SortBy, kept: Kept) -> Rank {
    match by {
        SortBy::ChangedAt => {
            let changed_at = kept.copy.and_then(|copy| copy.changed_at);
            number(changed_at).map_or(Rank::None, Rank::Number)
        }
        // A page token ends with it, so it is shown redacted.
        _ => Rank::Text(redacted(&kept.element.locator).into_owned()),
    }
}

/// What an element is sorted by; its group was prepared when the outlook was made, or
/// nothing is believed of it yet.
fn rank_of_brief(by: SortBy, id: ElementId, brief: &Brief, outlook: &mut Outlook) -> Option<f64> {
    let mut held = || -> Option<Held> { outlook.beliefs.of(BeliefInput::from(brief)) };
    match by {
        SortBy::Id | SortBy::Source | SortBy::Locator | SortBy::ChangedAt => Some(f64::from(id.0)),
        SortBy::State => Some(state_number(brief.state)),
        SortBy::Weight => Some(decimal(brief.weight)),
        SortBy::PolledAt => number(brief.history.polled_at),
        SortBy::NPolls => Some(f64::from(brief.history.n_polls)),
        SortBy::NChanges => Some(f64::from(brief.history.n_changes)),
        SortBy::Rate => {
            let held = held().filter(|held| held.told.is_known)?;
            Some(held.told.belief.mean())
        }
        SortBy::Freshness => {
            let held = held().filter(|held| held.told.is_known)?;
            Some(held.told.freshness())
        }
        SortBy::Frequency => {
            let held = held()?;
            outlook.frequency(brief, &held)
        }
        SortBy::DueAt => {
            let held = held()?;
            number(outlook.due_at(id, brief, &held))
        }
    }
}

fn rank_of_view(by: SortBy, element: &ElementView) -> Rank {
    let number = match by {
        SortBy::Source => return Rank::Text(element.source.clone()),
        SortBy::Locator => return Rank::Text(element.locator.clone()),
        SortBy::Id => Some(f64::from(element.id)),
        SortBy::State => {
            let states = ["new", "ok", "failing", "blocked", "gone"];
            let place = states.iter().position(|state| *state == element.state);
            place.map(|place| place as f64)
        }
        SortBy::Weight => Some(element.weight),
        SortBy::PolledAt => number(element.polled_at),
        SortBy::ChangedAt => number(element.changed_at),
        SortBy::DueAt => number(element.due_at),
        SortBy::Rate => element.rate_per_day.map(|rate| rate.estimate),
        SortBy::Frequency => element.frequency_per_day,
        SortBy::NPolls => Some(f64::from(element.n_polls)),
        SortBy::NChanges => Some(f64::from(element.n_changes)),
        SortBy::Freshness => element.freshness,
    };
    number.map_or(Rank::None, Rank::Number)
}
