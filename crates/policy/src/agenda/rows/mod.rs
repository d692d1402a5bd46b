//! What to ask a search source next, what that is worth, and when it may be asked.
//!
//! A search source is asked by [`SearchRequest`]s: for a page of the answer to a query, which
//! brings many rows, or, where that is possible, for one row by its id. A [`SearchSource`]
//! says which is best now, as a [`Bid`], and when to wake. Its owner, the simulator or the
//! engine, makes the request and tells what became of it:
//!
//! ```text
//!   request ─ begun ─┬─ left ─┬─ answered, then page_read and polled for each row
//!                    │        └─ ended, then refused; page_failed if it was for a page
//!                    └─ withdrawn, if it never leaves
//! ```
//!
//! It knows neither the texts of rows nor how a request is sent. What polling a row is worth
//! is told by whoever learns rates: [`Scheduler::worth`](crate::schedule::Scheduler::worth).
//!
//! ```
//! use springtide_policy::agenda::rows::{
//!     KnownRow, PageRead, SearchRequest, SearchSource, Settings, RowState,
//! };
//! use springtide_policy::query::{Live, Queries, Retrieval};
//! use springtide_policy::schedule::Quota;
//! use springtide_policy::{ElementId, Objective, Span, Time, Weight};
//!
//! let settings = Settings {
//!     quota: Some(Quota::new(1, Span::days(0.5)?)),
//!     ..Settings::new(Retrieval::USUAL, Objective::Freshness)
//! };
//! let rows = [7, 8].map(|number| KnownRow {
//!     element: ElementId(number),
//!     standing: RowState::Held,
//!     since: Time::START,
//!     weight: Weight::ONE,
//!     staleness_weight: Weight::ONE,
//! });
//! let mut source = SearchSource::new(settings, rows);
//! let generation = source.begin_queries();
//! // One query finds both rows, and one more on the server.
//! let queries = Queries::given([(&[0, 1][..], 3.0)]);
//! source.set_queries(generation, Live::new(queries, Retrieval::USUAL), []);
//!
//! let now = Time::START;
//! let bid = source.request(&|_, _| Some(1.0), now).expect("rows are worth something");
//! assert_eq!(bid.worth, 2.0);
//! source.begun(&bid.request, now);
//! source.left(now);
//! source.answered(now);
//! let SearchRequest::Page(page) = bid.request else {
//!     unreachable!("rows cannot be asked for by id here");
//! };
//! let returned = [ElementId(7), ElementId(8)];
//! let read = PageRead { n_results: 3, told_total: None, returned: &returned };
//! source.page_read(&page, &read);
//! for row in returned {
//!     source.polled(row, None, now);
//! }
//! // The quota allows the next in half a day.
//! assert!(source.wake_at(now).as_days() >= 0.5);
//! # Ok::<(), springtide_policy::Error>(())
//! ```

mod access;
mod choose;
mod page;
mod row;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use access::{LOOK_AGAIN, host_limit};
pub use page::{NumberOfResults, PageRead};
pub use row::{Differences, KnownRow, RowChange, RowState};

use crate::query::{Live, Page, Retrieval};
use crate::schedule::Quota;
use crate::{ElementId, Objective, Span, Time, Weight};
use access::Access;
use row::Row;

/// In days.
const SECOND: f64 = 1.0 / 86_400.0;
const MILLIS_PER_DAY: f64 = 86_400_000.0;

/// A row that is asked for by its id is not asked for again within a minute, unless
/// something has come of it: requests do not take longer.
const LONGEST_REQUEST: Span = Span(60.0 * SECOND);
/// The least that an answer without any row of ours counts as a miss of one.
const LEAST_MISS: f64 = 0.1;
/// Queries are made anew when this share of the rows has other terms, and not before so
/// many have: making them takes a while, and most stay the same.
const OUTDATED_SHARE: f64 = 0.02;
const LEAST_OUTDATED: usize = 8;

/// How a search source is to be asked.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How many results a page has, and how many come in all.
    pub retrieval: Retrieval,
    /// Whether a row can be asked for by its id.
    pub has_by_id: bool,
    /// A row that nothing has brought for so long is asked for by its id, if it can be.
    pub max_interval: Option<Span>,
    /// How long it is left alone after a refusal; twice as long after the next, and so on.
    pub pause: Span,
    /// How many requests it allows in a span.
    pub quota: Option<Quota>,
    /// What its rows are to be kept fresh by.
    pub objective: Objective,
    /// What polls of all elements are weighed by.
    pub common_objective: Objective,
    /// A digest of how it is asked: whoever asks in another way may be answered, so
    /// refusals of the old way are forgotten.
    pub form: [u8; 8],
}

impl Settings {
    /// No quota, no request by id, no longest interval and no pause.
    pub fn new(retrieval: Retrieval, objective: Objective) -> Self {
        Self {
            retrieval,
            has_by_id: false,
            max_interval: None,
            pause: Span::ZERO,
            quota: None,
            objective,
            common_objective: objective,
            form: [0; 8],
        }
    }
}

/// Something that can be asked of a search source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchRequest {
    /// A page of the answer to a query.
    Page(PageRequest),
    /// A row, by its id: it comes, and nothing else.
    Row(ElementId),
}

/// A page of the answer to a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRequest {
    /// Among which queries: they are made anew from time to time.
    pub generation: u32,
    /// Which query.
    pub query: usize,
    /// Which page, counted from 1.
    pub number: u64,
}

/// A request that could be made now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bid {
    /// What to ask.
    pub request: SearchRequest,
    /// What that is worth beside polls of other elements; infinite if it has to be made
    /// whatever it is worth.
    pub worth: f64,
}

/// What polling an element is worth now for an objective, its weight left out; `None` if
/// nothing is known of it.
pub type WorthOf<'a> = &'a dyn Fn(ElementId, Objective) -> Option<f64>;

/// The decisions about one search source.
#[derive(Debug, Clone)]
pub struct SearchSource {
    settings: Settings,
    access: Access,
    rows: Vec<Row>,
    /// The place of each element among the rows.
    numbers: BTreeMap<ElementId, u32>,
    /// What is known of queries, once there are any.
    live: Option<Live>,
    /// How often queries were made, and whether they are being made.
    generation: u32,
    is_making_queries: bool,
    /// Rows that have other terms than those queries were made of.
    n_outdated: usize,
    /// Whether the last bid was for an overdue row: others get every other request.
    was_overdue: bool,
    /// Whether the last request for a page was refused.
    are_pages_refused: bool,
    n_never_had: usize,
    /// Rows that have become unreachable, and nobody has been told.
    newly_unreachable: Vec<ElementId>,
    /// How far versions of all rows were apart.
    differences: Differences,
}

impl SearchSource {
    /// A source with these rows, and no queries yet. Rows are numbered in this order.
    pub fn new(mut settings: Settings, rows: impl IntoIterator<Item = KnownRow>) -> Self {
        let mut source = Self {
            access: Access::new(settings.quota.take(), settings.pause),
            settings,
            rows: Vec::new(),
            numbers: BTreeMap::new(),
            live: None,
            generation: 0,
            is_making_queries: false,
            n_outdated: 0,
            was_overdue: false,
            are_pages_refused: false,
            n_never_had: 0,
            newly_unreachable: Vec::new(),
            differences: Differences::default(),
        };
        for known in rows {
            source.push(known);
        }
        source
    }

    fn push(&mut self, known: KnownRow) {
        self.numbers.insert(known.element, self.rows.len() as u32);
        self.n_never_had += usize::from(known.standing.is_never_had());
        self.rows.push(Row::new(known));
    }

    /// The number of a row, if the element is one of ours.
    pub fn number(&self, element: ElementId) -> Option<u32> {
        self.numbers.get(&element).copied()
    }

    /// Whether an element is a row of ours.
    pub fn is_ours(&self, element: ElementId) -> bool {
        self.numbers.contains_key(&element)
    }

    /// Where we stand with a row, if it is one of ours.
    pub fn standing(&self, element: ElementId) -> Option<RowState> {
        self.row(element).map(|row| row.standing)
    }

    /// How far a change of a row is from what was there, on average, if it is one of ours.
    pub fn mean_difference(&self, element: ElementId) -> Option<f64> {
        let usual = self.differences.mean();
        self.row(element)
            .map(|row| row.differences.shrunk_mean(usual))
    }

    fn row(&self, element: ElementId) -> Option<&Row> {
        self.number(element)
            .map(|number| &self.rows[number as usize])
    }

    fn row_mut(&mut self, element: ElementId) -> Option<&mut Row> {
        let number = self.number(element)?;
        self.rows.get_mut(number as usize)
    }

    /// How many rows have never been had, those that cannot be had included.
    pub fn n_never_had(&self) -> u64 {
        self.n_never_had as u64
    }

    // Queries.

    /// Whether queries should be made anew, since enough rows have other terms now.
    pub fn are_queries_outdated(&self) -> bool {
        let share = (self.rows.len() as f64 * OUTDATED_SHARE) as usize;
        !self.is_making_queries && self.n_outdated >= share.max(LEAST_OUTDATED)
    }

    /// Queries are being made of the terms that rows have now. The number to
    /// [set](Self::set_queries) them with.
    pub fn begin_queries(&mut self) -> u32 {
        self.is_making_queries = true;
        self.n_outdated = 0;
        self.generation + 1
    }

    /// Queries were made, of rows in the order of their numbers. What was remembered of
    /// queries, by their texts, is taken in.
    pub fn set_queries<'a>(
        &mut self,
        generation: u32,
        mut live: Live,
        remembered: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) {
        self.is_making_queries = false;
        self.generation = generation;
        live.recall(remembered, |number| self.number(ElementId(number)));
        self.live = Some(live);
    }

    /// The text of a query, unless queries have been made anew since.
    pub fn text(&self, page: &PageRequest) -> Option<String> {
        let live = self.live.as_ref()?;
        (page.generation == self.generation).then(|| live.text(page.query))
    }

    /// Queries, if the one of this request is still among them.
    fn live_of(&mut self, page: &PageRequest) -> Option<&mut Live> {
        let is_known = page.generation == self.generation;
        self.live.as_mut().filter(|_| is_known)
    }

    // When it may be asked.

    /// When to ask for the next request: not before one may be made, nor before it is
    /// worth thinking it over. [`Time::NEVER`] before there are queries, and as long as a
    /// request that was begun has not left.
    pub fn wake_at(&self, now: Time) -> Time {
        match self.live {
            Some(_) => self.access.wake_at(now),
            None => Time::NEVER,
        }
    }

    /// When its quota allows a request, and it is not left alone.
    pub fn allowed_at(&self, now: Time) -> Time {
        self.access.allowed_at(now)
    }

    /// Until when it is left alone; now, if it is not.
    pub fn paused_until(&self, now: Time) -> Time {
        self.access.paused_until(now)
    }

    /// There is nothing to ask now: that is thought over again in a while, or after an
    /// answer.
    pub fn reconsider_later(&mut self, now: Time) {
        self.access.reconsider_later(now);
    }

    // What becomes of requests.

    /// A request is about to be made. Nothing else is chosen before it has left or was
    /// withdrawn.
    pub fn begun(&mut self, request: &SearchRequest, now: Time) {
        self.access.has_waiting = true;
        match request {
            SearchRequest::Page(page) => {
                if let Some(live) = self.live_of(page) {
                    live.begin(page.query, page.number);
                }
            }
            SearchRequest::Row(element) => {
                if let Some(row) = self.row_mut(*element) {
                    row.not_before = Some(now + LONGEST_REQUEST);
                }
            }
        }
    }

    /// Whether the quota lets a request leave now that was begun.
    pub fn may_leave(&self, now: Time) -> bool {
        self.access.may_leave(now)
    }

    /// A request leaves, and counts.
    pub fn left(&mut self, now: Time) {
        self.access.left(now);
    }

    /// A request that was begun does not leave.
    pub fn withdrawn(&mut self, request: &SearchRequest) {
        self.access.has_waiting = false;
        if let SearchRequest::Page(page) = request
            && let Some(live) = self.live_of(page)
        {
            live.give_up(page.query, page.number);
        }
    }

    /// A request that left is over, by now at the latest.
    pub fn ended(&mut self, now: Time) {
        self.access.ended(now);
    }

    /// A request that left was answered as it should be.
    pub fn answered(&mut self, now: Time) {
        self.access.ended(now);
        self.access.reset_backoff();
    }

    /// It refused to answer a request that was begun at this time, or answered what is
    /// none: it is left alone, twice as long as after the refusal before. Says for how
    /// long; `None` if the request was begun before the last refusal was heard, so that
    /// nothing follows from it again.
    pub fn refused(&mut self, begun_at: Time, now: Time) -> Option<Span> {
        self.access.refused(begun_at, now)
    }

    /// It is left alone for so long, whatever came of requests.
    pub fn leave_alone(&mut self, wait: Span, now: Time) {
        self.access.leave_alone(wait, now);
    }

    /// A page could not be had.
    pub fn page_failed(&mut self, page: &PageRequest) {
        self.are_pages_refused = true;
        if let Some(live) = self.live_of(page) {
            live.fail(page.query, page.number);
        }
    }

    /// A page was read. Says what is to be remembered of its query; `None` if queries have
    /// been made anew since, and nothing was learned.
    ///
    /// Rows that the query finds and that are not on the page were missed. Where n others
    /// of ours came it should have come too, if it is on one of the N(q) pages at all;
    /// where none came there is something about the query, and it counts little:
    ///
    /// ```text
    /// misses += max(n/(n+1), 0.1) / N(q)
    /// ```
    pub fn page_read(&mut self, asked: &PageRequest, read: &PageRead<'_>) -> Option<Vec<u8>> {
        self.are_pages_refused = false;
        let returned: Vec<u32> = read
            .returned
            .iter()
            .filter_map(|&element| self.number(element))
            .collect();
        let n_results = read.n_results_of_query(&self.settings.retrieval, asked.number);
        let live = self.live_of(asked)?;
        let page = Page {
            number: asked.number,
            returned: &returned,
            total: n_results.total,
            at_least: n_results.at_least,
        };
        live.read(asked.query, &page);
        let n_returned = returned.len() as f64;
        let n_pages = live.n_pages(asked.query) as f64;
        let miss = (n_returned / (n_returned + 1.0)).max(LEAST_MISS) / n_pages;
        let found = live.queries().rows(asked.query).iter().copied();
        let missed: Vec<u32> = found.filter(|row| !returned.contains(row)).collect();
        for row in missed {
            self.rows[row as usize].n_misses += miss;
        }
        let live = self.live.as_ref()?;
        let element_of = |row: u32| self.rows[row as usize].element.0;
        Some(live.remember(asked.query, element_of))
    }

    /// Whether a request for a page is under way, or about to be made.
    pub fn is_asking_pages(&self) -> bool {
        self.live.as_ref().is_some_and(|live| !live.is_idle())
    }

    // What becomes of rows.

    /// A row becomes ours; it takes the next number.
    pub fn add(&mut self, element: ElementId, weight: Weight, now: Time) {
        self.push(KnownRow {
            element,
            standing: RowState::New,
            since: now,
            weight,
            staleness_weight: Weight::ONE,
        });
        self.n_outdated += 1;
    }

    /// A row was polled at a time, by whatever request; and what had changed, if anything.
    pub fn polled(&mut self, element: ElementId, change: Option<&RowChange>, at: Time) {
        self.stand(element, RowState::Held);
        let Some(row) = self.row_mut(element) else {
            return;
        };
        row.since = Time(row.since.0.max(at.0));
        row.not_before = None;
        row.n_misses = 0.0;
        let Some(change) = change else {
            return;
        };
        row.staleness_weight = change.staleness_weight.unwrap_or(row.staleness_weight);
        row.differences.add(change.difference);
        self.differences.add(change.difference);
        self.n_outdated += usize::from(change.has_new_terms);
    }

    /// A row is gone, or we are kept from it.
    pub fn out(&mut self, element: ElementId) {
        self.stand(element, RowState::Out);
    }

    fn stand(&mut self, element: ElementId, standing: RowState) {
        let Some(row) = self.row_mut(element) else {
            return;
        };
        let was_never_had = row.standing.is_never_had();
        row.standing = standing;
        self.n_never_had -= usize::from(was_never_had && !standing.is_never_had());
    }

    /// A row could not be had by its id, and is not asked for that way for so long, but no
    /// longer than a row may wait.
    pub fn hold(&mut self, element: ElementId, wait: Span, now: Time) {
        let longest = self.settings.max_interval.unwrap_or(Span::FOREVER);
        if let Some(row) = self.row_mut(element) {
            row.not_before = Some(Time(now.0 + wait.0.min(longest.0)));
        }
    }

    /// What was kept of a row says what it counts, if it does, and how far its versions
    /// were apart.
    pub fn recall_row(&mut self, number: u32, staleness_weight: Option<Weight>, all: Differences) {
        let Some(row) = self.rows.get_mut(number as usize) else {
            return;
        };
        row.staleness_weight = staleness_weight.unwrap_or(row.staleness_weight);
        row.differences.add_all(all);
        self.differences.add_all(all);
    }

    // What is remembered.

    /// What is to be remembered of how it was asked: the digest of how, whether and until
    /// when it is left alone, and the quota.
    pub fn remember(&self) -> Vec<u8> {
        let mut bytes = self.settings.form.to_vec();
        self.access.remember(self.are_pages_refused, &mut bytes);
        bytes
    }

    /// Takes in what was remembered, as far as it makes sense.
    pub fn recall(&mut self, bytes: &[u8], now: Time) {
        let Some((form, rest)) = bytes.split_first_chunk::<8>() else {
            return;
        };
        let is_same_form = *form == self.settings.form;
        if let Some(are_pages_refused) = self.access.recall(rest, is_same_form, now) {
            self.are_pages_refused = are_pages_refused;
        }
    }
}
