//! Which queries to ask, in which order: greedyProbes of the content paper
//! (Algorithm 2), and better.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::candidates::{Efficiency, Queries, Retrieval};
use super::refine::refined;
use super::rows::Rows;

/// When to stop asking.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Limits {
    /// At most so many queries.
    pub max_queries: Option<u64>,
    /// At most so many requests, all queries together.
    pub max_requests: Option<u64>,
    /// When so large a share of all rows is expected to be covered.
    pub coverage: Option<f64>,
    /// When no query is worth so much a request any more.
    pub price: Option<f64>,
}

/// A query to ask.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Which one.
    pub query: usize,
    /// How many requests it takes.
    pub n_requests: u64,
    /// What those of its rows are worth that no query before has covered.
    pub gain: f64,
    /// How many rows are expected to have been returned by now.
    pub covered: f64,
}

/// The queries to ask, in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cover {
    /// In order of issue.
    pub steps: Vec<Step>,
    /// How many times it was worked out what a query would gain.
    pub n_evaluations: u64,
}

impl Cover {
    /// How many requests all of it takes.
    pub fn n_requests(&self) -> u64 {
        self.steps.iter().map(|step| step.n_requests).sum()
    }

    /// How many rows it is expected to return.
    ///
    /// ```text
    /// Σ 1 − ∏ (1 − p(q)),  q ∋ r
    /// ```
    ///
    /// Divided by the number of rows it is the coverage ratio, divided by the
    /// requests the speedup over asking for each row by its id. (The content paper,
    /// section 5.1, counts a row as often as queries cover it, so that its coverage
    /// ratio may pass one, and prints the speedup upside down.)
    pub fn covered(&self) -> f64 {
        self.steps.last().map_or(0.0, |step| step.covered)
    }
}

/// What there is to choose from, and by which measure.
#[derive(Debug, Clone, Copy)]
pub struct CoverProblem<'a> {
    /// The queries.
    pub queries: &'a Queries,
    /// What each of our rows is worth.
    pub worth: &'a [f64],
    /// How the server answers.
    pub retrieval: Retrieval,
    /// What makes a query better.
    pub efficiency: Efficiency,
}

impl<'a> CoverProblem<'a> {
    /// Queries about rows, each worth what it is.
    pub fn new(
        queries: &'a Queries,
        rows: &'a Rows,
        retrieval: Retrieval,
        efficiency: Efficiency,
    ) -> Self {
        Self {
            queries,
            worth: rows.worth(),
            retrieval,
            efficiency,
        }
    }

    /// The queries to ask: the greedy choice, lazily, unless something better is
    /// found.
    ///
    /// - Within a quota of requests, the best single query may be worth more than all
    ///   of the greedy choice; then it is that one, and what the quota still allows.
    ///   So with rows that are surely returned, what is covered is worth at least
    ///   (1 − 1/e)/2 of what any queries could cover (Khuller, Moss and Naor 1999).
    ///   The greedy choice alone, which is the content paper's, has no such bound: one
    ///   small query with a good ratio may use up what a large one needs.
    /// - Where covering everything takes the greedy choice a thousand requests or
    ///   more, a cover with fewer is searched for, by a price for every row. Where
    ///   |R_S(q)| is a guess, that counts the requests expected if the guess may be
    ///   off. If it is better, its queries are asked, in greedy order.
    /// - With a limit on queries, requests may not be what is scarce. The greedy choice is
    ///   made once by what a query gains a request and once by what it gains in all, and
    ///   the one that is worth more within the limit is taken.
    ///
    /// As published, nothing but the greedy choice is made.
    pub fn cover(&self, limits: &Limits) -> Cover {
        let greedy = self.lazy(limits);
        if self.efficiency == Efficiency::Published {
            return greedy;
        }
        let refined = self.refined(&greedy, limits);
        let single = self.best_single_first(limits);
        let by_query = self.by_query(limits);
        [refined, single, by_query]
            .into_iter()
            .flatten()
            .fold(greedy, |best, other| {
                let n_evaluations = best.n_evaluations + other.n_evaluations;
                let steps = match self.is_better(&other, &best, limits) {
                    true => other.steps,
                    false => best.steps,
                };
                Cover {
                    steps,
                    n_evaluations,
                }
            })
    }

    /// Whether a cover does more of what the limits ask for.
    fn is_better(&self, cover: &Cover, than: &Cover, limits: &Limits) -> bool {
        match (limits.max_requests, limits.coverage) {
            (Some(_), _) => self.value(cover) > self.value(than) * (1.0 + 1e-9),
            (None, Some(share)) if than.covered() >= share * self.worth.len() as f64 => {
                cover.covered() >= share * self.worth.len() as f64
                    && cover.n_requests() < than.n_requests()
            }
            _ if limits.max_queries.is_some() => {
                self.value(cover) > self.value(than) * (1.0 + 1e-9)
            }
            _ => {
                self.value(cover) >= self.value(than) * (1.0 - 1e-9)
                    && cover.n_requests() < than.n_requests()
            }
        }
    }

    /// The greedy choice by what queries gain, whatever they take, where queries are
    /// limited. A price is one of requests.
    fn by_query(&self, limits: &Limits) -> Option<Cover> {
        if limits.max_queries.is_none() || limits.price.is_some() {
            return None;
        }
        let mut tracker = self.tracker(limits);
        tracker.per = Per::Query;
        Some(self.lazily(0..self.queries.len(), tracker))
    }

    /// The best single query within a quota of requests, and then the greedy choice.
    fn best_single_first(&self, limits: &Limits) -> Option<Cover> {
        let quota = limits.max_requests?;
        let fits = |query: &usize| self.n_requests(*query) <= quota;
        let best = (0..self.queries.len())
            .filter(fits)
            .map(|query| Rank::new(self.value_alone(query), self.n_requests(query), query))
            .max()?;
        let mut tracker = self.tracker(limits);
        self.take(best.query(), &mut tracker);
        Some(self.lazily(0..self.queries.len(), tracker))
    }

    /// The queries of a cheaper cover than the greedy one, in greedy order.
    fn refined(&self, greedy: &Cover, limits: &Limits) -> Option<Cover> {
        /// Below, a few requests are all that there is to save.
        const WORTHWHILE: u64 = 1000;
        if limits.max_queries.is_some() || limits.price.is_some() {
            return None;
        }
        let is_whole = limits.max_requests.is_none() && limits.coverage.is_none();
        let all = (!is_whole).then(|| self.lazy(&Limits::default()));
        let whole = all.as_ref().unwrap_or(greedy);
        if whole.n_requests() < WORTHWHILE {
            return None;
        }
        let each = 0..self.queries.len();
        let cost: Vec<f64> = each
            .clone()
            .map(|query| self.mean_requests(query))
            .collect();
        let is_sure: Vec<bool> = each.map(|query| self.chance(query) == 1.0).collect();
        let chosen = refined(self.queries, &cost, &is_sure, self.worth, whole)?;
        Some(self.lazily(chosen, self.tracker(limits)))
    }

    /// The greedy choice: the best query, then the best for what is left, and so on.
    ///
    /// What a query gains only falls as others are asked, so a gain worked out earlier
    /// is a bound: only the query at the top of a heap has to be looked at again
    /// (Minoux 1978). The result is that of [`plain`](Self::plain).
    pub fn lazy(&self, limits: &Limits) -> Cover {
        self.lazily(0..self.queries.len(), self.tracker(limits))
    }

    fn lazily(&self, among: impl IntoIterator<Item = usize>, mut tracker: Tracker<'_>) -> Cover {
        let mut heap: BinaryHeap<Entry> = among
            .into_iter()
            .map(|query| Entry {
                rank: self.rank(query, &mut tracker),
                round: 0,
            })
            .collect();
        let mut round = 0;
        while tracker.goes_on() {
            let Some(mut entry) = heap.pop() else { break };
            if entry.rank.value <= 0.0 {
                break;
            }
            let query = entry.rank.query();
            if !tracker.fits(self.queries.n_server(query)) {
                // Nor will it ever again: less and less is left to spend.
                continue;
            }
            if entry.round < round {
                entry.rank = self.rank(query, &mut tracker);
                entry.round = round;
                heap.push(entry);
            } else if tracker.is_worth_it(entry.rank.value) {
                self.take(query, &mut tracker);
                round += 1;
            } else {
                break;
            }
        }
        tracker.cover
    }

    /// The greedy choice, every query looked at every time: slow, and easy to
    /// believe.
    pub fn plain(&self, limits: &Limits) -> Cover {
        let mut tracker = self.tracker(limits);
        let mut left: Vec<usize> = (0..self.queries.len()).collect();
        while tracker.goes_on() {
            left.retain(|&query| tracker.fits(self.queries.n_server(query)));
            let mut best: Option<Rank> = None;
            for &query in &left {
                let rank = self.rank(query, &mut tracker);
                if rank.value > 0.0 && best.is_none_or(|best| rank > best) {
                    best = Some(rank);
                }
            }
            match best {
                Some(best) if tracker.is_worth_it(best.value) => {
                    self.take(best.query(), &mut tracker);
                }
                _ => break,
            }
        }
        tracker.cover
    }

    /// What a choice of queries is worth: each row's worth times the chance that it
    /// is returned.
    pub fn value(&self, cover: &Cover) -> f64 {
        let mut missed = vec![1.0; self.worth.len()];
        for step in &cover.steps {
            let chance = self.chance(step.query);
            for &row in self.queries.rows(step.query) {
                missed[row as usize] *= 1.0 - chance;
            }
        }
        let each = self.worth.iter().zip(&missed);
        each.map(|(worth, missed)| worth * (1.0 - missed)).sum()
    }

    fn tracker(&self, limits: &Limits) -> Tracker<'a> {
        Tracker::new(self.worth, self.retrieval, self.efficiency, *limits)
    }

    fn n_requests(&self, query: usize) -> u64 {
        self.retrieval.n_requests(self.queries.n_server(query))
    }

    /// How many requests a query is expected to take, where what it finds is a guess.
    fn mean_requests(&self, query: usize) -> f64 {
        let (n_local, n_server) = (self.queries.rows(query).len(), self.queries.n_server(query));
        match self.queries.is_guess(query) {
            true => self.retrieval.mean_requests(n_local, n_server),
            false => self.retrieval.n_requests(n_server) as f64,
        }
    }

    fn chance(&self, query: usize) -> f64 {
        self.retrieval.chance(self.queries.n_server(query))
    }

    /// What all rows of a query are worth, times the chance that they are returned.
    fn value_alone(&self, query: usize) -> f64 {
        sum(self.queries.rows(query), self.worth) * self.chance(query)
    }

    fn rank(&self, query: usize, tracker: &mut Tracker<'_>) -> Rank {
        let (rows, n_server) = (self.queries.rows(query), self.queries.n_server(query));
        Rank::new(
            tracker.value(rows, n_server),
            self.retrieval.n_requests(n_server),
            query,
        )
    }

    fn take(&self, query: usize, tracker: &mut Tracker<'_>) {
        let (rows, n_server) = (self.queries.rows(query), self.queries.n_server(query));
        tracker.take(query, rows, n_server);
    }
}

/// What the rows are worth together.
fn sum(rows: &[u32], worth: &[f64]) -> f64 {
    // In the order of rows, so that a sum of smaller numbers is never larger, not even
    // in its last digit.
    rows.iter().map(|&row| worth[row as usize]).sum()
}

/// What the gain of a query is measured by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Per {
    Request,
    Query,
}

/// What has been asked so far, what is left, and what a query would gain.
pub(super) struct Tracker<'a> {
    worth: &'a [f64],
    retrieval: Retrieval,
    efficiency: Efficiency,
    limits: Limits,
    pub(super) per: Per,
    /// What each row is still worth: nothing once a query has covered it.
    open: Vec<f64>,
    /// The chance that no query has returned it.
    missed: Vec<f64>,
    n_requests: u64,
    covered: f64,
    pub(super) cover: Cover,
}

impl<'a> Tracker<'a> {
    pub(super) fn new(
        worth: &'a [f64],
        retrieval: Retrieval,
        efficiency: Efficiency,
        limits: Limits,
    ) -> Self {
        Self {
            worth,
            retrieval,
            efficiency,
            limits,
            per: Per::Request,
            open: worth.to_vec(),
            missed: vec![1.0; worth.len()],
            n_requests: 0,
            covered: 0.0,
            cover: Cover::default(),
        }
    }

    /// What a query is worth a request, or in all; nothing if it covers nothing new.
    pub(super) fn value(&mut self, rows: &[u32], n_server: f64) -> f64 {
        self.cover.n_evaluations += 1;
        let gain = sum(rows, &self.open);
        match self.efficiency {
            Efficiency::Corrected => {
                let gain = gain * self.retrieval.chance(n_server);
                match self.per {
                    Per::Request => gain / self.retrieval.n_requests(n_server) as f64,
                    Per::Query => gain,
                }
            }
            Efficiency::Published if gain > 0.0 => sum(rows, self.worth) / n_server,
            Efficiency::Published => 0.0,
        }
    }

    pub(super) fn goes_on(&self) -> bool {
        let n_queries = self.cover.steps.len() as u64;
        let is_covered = |share: f64| self.covered >= share * self.open.len() as f64;
        self.limits.max_queries.is_none_or(|most| n_queries < most)
            && !self.limits.coverage.is_some_and(is_covered)
    }

    pub(super) fn fits(&self, n_server: f64) -> bool {
        let left = self.limits.max_requests.map(|most| most - self.n_requests);
        left.is_none_or(|left| self.retrieval.n_requests(n_server) <= left)
    }

    pub(super) fn is_worth_it(&self, value: f64) -> bool {
        self.limits.price.is_none_or(|price| value >= price)
    }

    pub(super) fn is_open(&self, row: u32) -> bool {
        self.open[row as usize] > 0.0
    }

    pub(super) fn take(&mut self, query: usize, rows: &[u32], n_server: f64) {
        let chance = self.retrieval.chance(n_server);
        let n_requests = self.retrieval.n_requests(n_server);
        let gain = sum(rows, &self.open);
        for &row in rows {
            let row = row as usize;
            self.open[row] = 0.0;
            self.covered += self.missed[row] * chance;
            self.missed[row] *= 1.0 - chance;
        }
        self.n_requests += n_requests;
        self.cover.steps.push(Step {
            query,
            n_requests,
            gain,
            covered: self.covered,
        });
    }
}

/// How good a query is: value per request, then fewer requests, then its text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rank {
    pub(super) value: f64,
    n_requests: Reverse<u64>,
    /// Queries are numbered in the order of their texts.
    query: Reverse<u32>,
}

impl Rank {
    pub(super) fn new(value: f64, n_requests: u64, query: usize) -> Self {
        Self {
            value: without_noise(value),
            n_requests: Reverse(n_requests),
            query: Reverse(query as u32),
        }
    }

    pub(super) fn query(self) -> usize {
        self.query.0 as usize
    }
}

impl Eq for Rank {}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> Ordering {
        self.value
            .total_cmp(&other.value)
            .then(self.n_requests.cmp(&other.n_requests))
            .then(self.query.cmp(&other.query))
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A value to twelve digits: sums of the same numbers in another order are ties, not
/// a matter of the last digit.
fn without_noise(value: f64) -> f64 {
    const DROPPED: u32 = 12;
    let rounded = value.to_bits().wrapping_add(1 << (DROPPED - 1)) & !((1 << DROPPED) - 1);
    let rounded = f64::from_bits(rounded);
    if rounded.is_finite() { rounded } else { value }
}

#[derive(PartialEq, Eq)]
struct Entry {
    rank: Rank,
    /// How many queries had been asked when the rank was worked out.
    round: u32,
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank.cmp(&other.rank)
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
