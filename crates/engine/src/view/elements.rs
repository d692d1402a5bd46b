//! Elements as programs see them: the rows of `ls --elements --json`, of `export` and of
//! a server.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Serialize;
use springtide_policy::Gamma;
use springtide_store::{ElementId, Error, Kept, Moment, Reader, Role, Source, SourceId, State};

use super::beliefs::BeliefInput;
use super::outlook::{Outlook, decimal};
use super::words::{NOT_WANTED, PAUSED, redacted, state_name, why, why_out};
use super::{ErrorView, States};

/// What is left out at each end of the interval of a rate.
const TAIL: f64 = 0.05;

/// An element, with all that is known of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ElementView {
    /// Its number.
    pub id: u32,
    /// The name of its source.
    pub source: String,
    /// Its address, or the id of a row.
    pub locator: String,
    /// The path of its groups, outermost first.
    pub group: String,
    /// How much its freshness matters.
    pub weight: f64,
    /// How often it changes; nothing until a second poll has shown whether it does.
    pub rate_per_day: Option<RatePerDay>,
    /// How often it is polled, by the plan for the present budget; nothing while its
    /// rate is not known.
    pub frequency_per_day: Option<f64>,
    /// When the last answer came, or the last poll was given up.
    #[serde(serialize_with = "super::serialize_moment")]
    pub polled_at: Option<Moment>,
    /// When the last change was found.
    #[serde(serialize_with = "super::serialize_moment")]
    pub changed_at: Option<Moment>,
    /// When it is polled next.
    #[serde(serialize_with = "super::serialize_moment")]
    pub due_at: Option<Moment>,
    /// Why then, in plain words.
    pub reason: Option<Cow<'static, str>>,
    /// Polls, whatever came of them.
    pub n_polls: u32,
    /// Polls that found a change.
    pub n_changes: u32,
    /// How it stands.
    pub state: &'static str,
    /// What went wrong last, unless the last poll was answered.
    pub error: Option<ErrorView>,
    /// How likely its copy is fresh now, once a second poll has shown whether it
    /// changes; for tables.
    #[serde(skip)]
    pub freshness: Option<f64>,
}

/// How often an element changes, with a 90 % interval; per day.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RatePerDay {
    /// The mean of what is believed.
    pub estimate: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl RatePerDay {
    fn new(belief: Gamma) -> Self {
        Self {
            estimate: belief.mean(),
            low: belief.quantile(TAIL),
            high: belief.quantile(1.0 - TAIL),
        }
    }
}

/// Which elements are wanted.
#[derive(Debug, Clone, Copy, Default)]
pub struct ElementFilter {
    /// Those of this source.
    pub source: Option<SourceId>,
    /// Those in this state.
    pub state: Option<State>,
    /// Listings as well.
    pub listings: bool,
    /// Those with this number, or a higher one.
    pub from: Option<ElementId>,
}

impl ElementFilter {
    fn matches(&self, kept: &Kept) -> bool {
        let is_listed = self.listings || kept.element.role != Role::Listing;
        is_listed && self.state.is_none_or(|state| state == kept.state)
    }
}

/// Elements of the first page: a few are there at once.
const FIRST_PAGE: usize = 100;
/// Elements of each further page.
const PAGE: usize = 2000;
/// If at most one element in this many is wanted, the compact records (`Brief`) are scanned
/// first: many times faster than reading elements whole.
const RARE: u64 = 20;

/// Goes through elements in the order of their numbers, page by page.
pub struct Elements<'a> {
    store: &'a dyn Reader,
    outlook: &'a mut Outlook,
    sources: HashMap<SourceId, &'a str>,
    wanted: ElementFilter,
    left: Remaining,
}

/// Those that are left to go through.
enum Remaining {
    /// All with this number or a higher one; so many are read next.
    From(ElementId, usize),
    /// These.
    Some(std::vec::IntoIter<ElementId>),
    None,
}

impl<'a> Elements<'a> {
    /// Elements of a store, of whose sources these are, as the outlook has it.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn new(
        store: &'a dyn Reader,
        outlook: &'a mut Outlook,
        sources: &'a [Source],
        wanted: ElementFilter,
    ) -> Result<Self, Error> {
        let states = States::of(sources);
        let from = wanted.from.unwrap_or(ElementId(0));
        let rare = wanted
            .state
            .filter(|&state| states.in_state(state) <= states.all() / RARE);
        let left = match rare {
            Some(state) => {
                let mut ids = Vec::new();
                store.scan(1, &mut |id, brief| {
                    let is_of_source = wanted.source.is_none_or(|source| source == brief.source);
                    if brief.state == state && is_of_source && id >= from {
                        ids.push(id);
                    }
                })?;
                Remaining::Some(ids.into_iter())
            }
            None => Remaining::From(from, FIRST_PAGE),
        };
        Ok(Self {
            store,
            outlook,
            sources: sources
                .iter()
                .map(|source| (source.id, &*source.name))
                .collect(),
            wanted,
            left,
        })
    }

    /// Some more of them, with what they are made from; `None` if there are no more.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn next_page(&mut self) -> Result<Option<Vec<(Kept, ElementView)>>, Error> {
        loop {
            let page = match &mut self.left {
                Remaining::None => return Ok(None),
                Remaining::Some(ids) => {
                    let some: Vec<ElementId> = ids.take(FIRST_PAGE).collect();
                    if some.is_empty() {
                        self.left = Remaining::None;
                    }
                    let page = some.into_iter().map(|id| self.store.element(id));
                    page.filter_map(Result::transpose)
                        .collect::<Result<_, _>>()?
                }
                Remaining::From(from, n) => {
                    let page = self.store.elements(self.wanted.source, *from, *n)?;
                    let last = page.last().map(|kept| kept.element.id.0);
                    self.left = match last.and_then(|last| last.checked_add(1)) {
                        Some(next) => Remaining::From(ElementId(next), (*n * 4).min(PAGE)),
                        None => Remaining::None,
                    };
                    page
                }
            };
            let wanted = page.into_iter().filter(|kept| self.wanted.matches(kept));
            let wanted: Vec<Kept> = wanted.collect();
            if !wanted.is_empty() {
                return self.view_all(wanted).map(Some);
            }
        }
    }

    /// These, by number, in this order; those that there are, and are wanted.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn views(&mut self, ids: &[ElementId]) -> Result<Vec<(Kept, ElementView)>, Error> {
        let page = ids.iter().map(|&id| self.store.element(id));
        let page = page.filter_map(Result::transpose);
        let page = page.collect::<Result<Vec<_>, _>>()?;
        let wanted = page.into_iter().filter(|kept| self.wanted.matches(kept));
        self.view_all(wanted.collect())
    }

    fn view_all(&mut self, page: Vec<Kept>) -> Result<Vec<(Kept, ElementView)>, Error> {
        let groups = page.iter().map(|kept| kept.element.group);
        self.outlook.beliefs.prepare(self.store, groups)?;
        let view = |kept: Kept| {
            let source = self.sources.get(&kept.element.source).copied();
            let view = view(&kept, source.unwrap_or_default(), self.outlook);
            (kept, view)
        };
        Ok(page.into_iter().map(view).collect())
    }
}

/// All that is shown of an element whose group was prepared.
fn view(kept: &Kept, source: &str, outlook: &mut Outlook) -> ElementView {
    let (element, brief) = (&kept.element, kept.brief());
    let held = outlook.beliefs.of(BeliefInput::from(kept));
    let known = held.filter(|held| held.told.is_known);
    let reason = match held {
        _ if outlook.beliefs.is_paused(element.source) => Some(PAUSED.into()),
        _ if !outlook.beliefs.is_wanted(element.source) => Some(NOT_WANTED.into()),
        Some(held) => {
            let per_day = known.map(|held| held.told.belief.mean());
            Some(why(held.told.reason, per_day, kept.state, element.role))
        }
        None => why_out(kept.state).map(Cow::from),
    };
    ElementView {
        id: element.id.0,
        source: source.to_owned(),
        locator: redacted(&element.locator).into_owned(),
        group: outlook.beliefs.group_name(element.group),
        weight: decimal(element.weight),
        rate_per_day: known.map(|held| RatePerDay::new(held.told.belief)),
        frequency_per_day: held.and_then(|held| outlook.frequency(&brief, &held)),
        polled_at: kept.history.polled_at,
        changed_at: kept.copy.as_ref().and_then(|copy| copy.changed_at),
        due_at: held.and_then(|held| outlook.due_at(element.id, &brief, &held)),
        reason,
        n_polls: kept.history.n_polls,
        n_changes: kept.history.n_changes,
        state: state_name(kept.state),
        error: kept.failure.as_ref().map(ErrorView::new),
        freshness: known.map(|held| held.told.freshness()),
    }
}
