//! What ships, on a virtual clock: the engine's own decisions about a search source, with
//! a quota, requests by id, refusals, answers that take a while, and a first pass.

use std::collections::{BTreeSet, VecDeque};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use springtide_policy::agenda::Pace;
use springtide_policy::agenda::rows::{
    PageRead, PageRequest, RowChange, RowState, SearchRequest, SearchSource, Settings,
};
use springtide_policy::query::{Live, Queries, Retrieval};
use springtide_policy::schedule::{self, Scheduler, Terms};
use springtide_policy::{
    Budget, Element, ElementId, Elements, Groups, Objective, Outcome, Present, Span, Time,
};

use super::{Copies, SearchWorld};

/// What ships, and what it meets.
#[derive(Debug, Clone)]
pub struct Shipping {
    /// How the source is to be asked.
    pub settings: Settings,
    /// How it answers.
    pub server: SearchBox,
    /// What is held at the start.
    pub start: Start,
}

/// A search box: of the results of each query, ours are anywhere.
#[derive(Debug, Clone)]
pub struct SearchBox {
    /// It refuses what exceeds so many requests in a span of this length.
    pub limit: Option<(u32, Span)>,
    /// It refuses everything from one time to another.
    pub outages: Vec<(Time, Time)>,
    /// From a request to its answer.
    pub latency: Span,
    /// Whether it tells how many results there are.
    pub tells_totals: bool,
    /// Where the ranks of results are drawn from.
    pub seed: u64,
}

/// What is held at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// A copy of every row, in sync.
    InSync,
    /// Nothing. A first pass, which the budget does not count, brings what it can; a copy
    /// is measured from when it is held.
    Cold,
}

/// A request under way.
struct UnderWay {
    request: SearchRequest,
    begun_at: Time,
    ends_at: Time,
}

/// Asks a world as the engine would, so many requests a day.
pub(super) fn run(
    world: &SearchWorld,
    queries: &Queries,
    shipping: &Shipping,
    per_day: f64,
    copies: &mut Copies<'_>,
) {
    let is_cold = shipping.start == Start::Cold;
    if is_cold {
        copies.forget();
    }
    let mut server = Server::new(queries, shipping.settings.retrieval, &shipping.server);
    let mut source = source(world, queries, shipping);
    let mut learning = Learning::new(world, per_day, !is_cold);
    let mut pace = Pace::new(per_day, None, None, Time::START);
    // Answers come in the order of requests, since all take as long.
    let mut under_way: VecDeque<UnderWay> = VecDeque::new();
    let mut now = Time::START;
    loop {
        let answer_at = under_way.front().map_or(Time::NEVER, |first| first.ends_at);
        let is_free = is_cold && source.has_new(now);
        let (wake_at, paced_at) = (source.wake_at(now), pace.next_at(now));
        let ask_at = if is_free || wake_at > paced_at {
            wake_at
        } else {
            paced_at
        };
        let is_answer = answer_at <= ask_at;
        let next = if is_answer { answer_at } else { ask_at };
        now = match copies.until(next) {
            Some(next) => next,
            None => break,
        };
        if is_answer {
            if let Some(done) = under_way.pop_front() {
                server.answer(&done, &mut source, &mut learning, copies);
            }
            continue;
        }
        let bid = match is_free {
            true => source.request_for_new(now),
            false => source.request(&|row, objective| learning.worth(row, objective, now), now),
        };
        let Some(bid) = bid else {
            // Unless new rows turned out to be unreachable, and others have their turn.
            if !is_free || source.has_new(now) {
                source.reconsider_later(now);
            }
            continue;
        };
        source.begun(&bid.request, now);
        source.left(now);
        if !is_free {
            pace.spend(1.0, now);
        }
        match bid.request {
            SearchRequest::Page(page) => copies.n_asked[page.query] += 1,
            SearchRequest::Row(_) => copies.n_by_id += 1,
        }
        under_way.push_back(UnderWay {
            request: bid.request,
            begun_at: now,
            ends_at: now + shipping.server.latency,
        });
    }
}

/// The decisions about the source, with queries of which it is known what they find.
fn source(world: &SearchWorld, queries: &Queries, shipping: &Shipping) -> SearchSource {
    let standing = match shipping.start {
        Start::InSync => RowState::Held,
        Start::Cold => RowState::New,
    };
    let settings = shipping.settings.clone();
    let live = Live::new(queries.clone(), settings.retrieval);
    let mut source = SearchSource::new(settings, world.known_rows(standing));
    let generation = source.begin_queries();
    source.set_queries(generation, live, []);
    source
}

/// What is learned of rows, as the engine learns it.
struct Learning {
    scheduler: Scheduler,
    element: Element,
    /// Whether each row was ever had.
    is_watched: Vec<bool>,
}

impl Learning {
    fn new(world: &SearchWorld, per_day: f64, are_held: bool) -> Self {
        let mut groups = Groups::new();
        let element = Element {
            group: Some(groups.add(None)),
            ..Element::default()
        };
        let terms = Terms::new(Budget::per_day(per_day).expect("some requests a day"));
        let scheduler = Scheduler::new(
            schedule::Choice::Learned,
            terms,
            groups,
            Present::all(&Elements::new()),
            Time::START,
            // Nobody is there yet, so nothing is drawn.
            &mut Pcg64::seed_from_u64(0),
        );
        let mut learning = Self {
            scheduler,
            element,
            is_watched: vec![false; world.n_rows()],
        };
        if are_held {
            for row in 0..world.n_rows() as u32 {
                learning.observe(ElementId(row), false, Time::START);
            }
        }
        learning
    }

    fn worth(&self, row: ElementId, objective: Objective, now: Time) -> Option<f64> {
        self.scheduler.worth(row, objective, now)
    }

    fn observe(&mut self, row: ElementId, has_changed: bool, now: Time) {
        let outcome = match has_changed {
            true => Outcome::Changed { age: None },
            false => Outcome::Unchanged,
        };
        if std::mem::replace(&mut self.is_watched[row.index()], true) {
            self.scheduler.observe(row, outcome, now);
        } else {
            self.scheduler.watch(row, self.element, now);
        }
    }
}

/// A search box at work.
struct Server<'a> {
    settings: &'a SearchBox,
    queries: &'a Queries,
    retrieval: Retrieval,
    /// Where in the answer to each query its rows are, counted from 0.
    ranks: Vec<Vec<u64>>,
    /// When the last requests came that were not refused.
    served_at: VecDeque<Time>,
}

impl<'a> Server<'a> {
    fn new(queries: &'a Queries, retrieval: Retrieval, settings: &'a SearchBox) -> Self {
        let mut rng = Pcg64::seed_from_u64(settings.seed ^ 0x7261_6e6b);
        let ranks = (0..queries.len()).map(|query| {
            let n = n_results(queries, query);
            let mut taken = BTreeSet::new();
            let rank = |_: &u32| {
                loop {
                    let rank = rng.random_range(0..n);
                    if taken.insert(rank) {
                        return rank;
                    }
                }
            };
            queries.rows(query).iter().map(rank).collect()
        });
        Self {
            ranks: ranks.collect(),
            settings,
            queries,
            retrieval,
            served_at: VecDeque::new(),
        }
    }

    /// Answers a request, and tells everyone.
    fn answer(
        &mut self,
        done: &UnderWay,
        source: &mut SearchSource,
        learning: &mut Learning,
        copies: &mut Copies<'_>,
    ) {
        let now = done.ends_at;
        if self.refuses(done.begun_at + halved(self.settings.latency)) {
            copies.n_refused += 1;
            source.ended(now);
            if let SearchRequest::Page(page) = &done.request {
                source.page_failed(page);
            }
            source.refused(done.begun_at, now);
            return;
        }
        source.answered(now);
        let returned = match &done.request {
            SearchRequest::Row(row) => vec![*row],
            SearchRequest::Page(page) => self.rows_on(page),
        };
        for &row in &returned {
            let has_changed = copies.poll(row.index(), now.as_days());
            learning.observe(row, has_changed, now);
            let change = has_changed.then(RowChange::default);
            source.polled(row, change.as_ref(), now);
        }
        if let SearchRequest::Page(page) = &done.request {
            let n_all = n_results(self.queries, page.query);
            let read = PageRead {
                n_results: self.n_on(page),
                told_total: self.settings.tells_totals.then_some(n_all as f64),
                returned: &returned,
            };
            source.page_read(page, &read);
        }
    }

    fn refuses(&mut self, at: Time) -> bool {
        let mut outages = self.settings.outages.iter();
        if outages.any(|(from, to)| *from <= at && at < *to) {
            return true;
        }
        let Some((most, span)) = self.settings.limit else {
            return false;
        };
        while self
            .served_at
            .pop_front_if(|first| at.since(*first) >= span)
            .is_some()
        {}
        let is_too_much = self.served_at.len() >= most as usize;
        if !is_too_much {
            self.served_at.push_back(at);
        }
        is_too_much
    }

    /// Our rows on a page.
    fn rows_on(&self, page: &PageRequest) -> Vec<ElementId> {
        let first = (page.number - 1) * self.retrieval.page_size();
        let on_page = first..first + self.n_on(page);
        let rows = self.queries.rows(page.query).iter();
        rows.zip(&self.ranks[page.query])
            .filter(|(_, rank)| on_page.contains(rank))
            .map(|(&row, _)| ElementId(row))
            .collect()
    }

    /// How many results a page has.
    fn n_on(&self, page: &PageRequest) -> u64 {
        let n_all = n_results(self.queries, page.query).min(self.retrieval.top());
        let n_before = (page.number - 1) * self.retrieval.page_size();
        n_all
            .saturating_sub(n_before)
            .min(self.retrieval.page_size())
    }
}

/// How many rows a query finds on the server, those of ours included.
fn n_results(queries: &Queries, query: usize) -> u64 {
    let n_server = queries.n_server(query).round() as u64;
    n_server.max(queries.rows(query).len() as u64)
}

fn halved(span: Span) -> Span {
    Span::days(span.as_days() / 2.0).expect("half of a span is one")
}
