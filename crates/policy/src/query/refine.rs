//! A cheaper cover than the greedy one.
//!
//! Greedy takes a query whose page is full of our rows before anything else, even if
//! that breaks up what a larger query would have found together; the more queries
//! there are, the more the last rows cost. The cure is to give every row a price: what
//! covering it should take. Where the prices are right, queries that cost less than
//! the prices of their rows are those to ask (Lagrangian relaxation of the covering
//! program, with subgradients; Caprara, Fischetti and Toth 1999).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rayon::prelude::*;

use super::candidates::Queries;
use super::greedy::Cover;

/// Rounds of prices, and covers tried with them.
const MOST_ROUNDS: usize = 400;
const N_TRIES: usize = 20;
/// With fewer rounds prices have not settled.
const FEWEST_ROUNDS: usize = 150;
/// How many rows of queries all of it may look at: a second or so. Greedy will do for
/// larger ones.
const MOST_LOOKS: usize = 150_000_000;
/// What a try costs, in rounds.
const TRY: usize = 5;
/// After so many rounds without progress prices move in smaller steps.
const PATIENCE: usize = 15;

/// Queries that cover all that `greedy` covers with fewer requests, if any are found.
///
/// Only queries that return all they find are taken. `cost` is in requests.
pub(super) fn refined(
    queries: &Queries,
    cost: &[f64],
    is_sure: &[bool],
    n_rows: usize,
    greedy: &Cover,
) -> Option<Vec<usize>> {
    let mut is_wanted = vec![false; n_rows];
    for step in &greedy.steps {
        for &row in queries.rows(step.query) {
            is_wanted[row as usize] = true;
        }
    }
    let usable: Vec<usize> = (0..queries.len()).filter(|&query| is_sure[query]).collect();
    let n_looks: usize = usable.iter().map(|&query| queries.rows(query).len()).sum();
    let n_affordable = (MOST_LOOKS / n_looks.max(1)).saturating_sub(N_TRIES * TRY);
    let n_rounds = n_affordable.min(MOST_ROUNDS);
    if n_rounds < FEWEST_ROUNDS || greedy.steps.iter().any(|step| !is_sure[step.query]) {
        return None;
    }
    let mut search = Search {
        queries,
        cost,
        usable,
        is_wanted,
        prices: vec![0.0; n_rows],
        reduced: Vec::new(),
    };
    search.start(greedy);
    let mut best: Option<Vec<usize>> = None;
    let mut fewest = greedy.n_requests() as f64;
    let (mut bound, mut step, mut n_idle) = (0.0_f64, 0.5, 0);
    // The first prices are poor.
    let mut next_try = n_rounds / 4;
    for round in 0..n_rounds {
        let reached = search.price(step, fewest);
        if reached > bound {
            (bound, n_idle) = (reached, 0);
        } else {
            n_idle += 1;
            if n_idle > PATIENCE {
                (step, n_idle) = (step * 0.6, 0);
            }
        }
        if round >= next_try || round + 1 == n_rounds {
            next_try = round + (n_rounds * 3 / 4 / N_TRIES).max(1);
            let chosen = search.cover();
            let requests: f64 = chosen.iter().map(|&query| cost[query]).sum();
            if requests < fewest {
                (best, fewest) = (Some(chosen), requests);
            }
        }
    }
    best
}

struct Search<'a> {
    queries: &'a Queries,
    cost: &'a [f64],
    usable: Vec<usize>,
    /// The rows to cover.
    is_wanted: Vec<bool>,
    /// What covering each row should take.
    prices: Vec<f64>,
    /// What each usable query costs beyond the prices of its rows.
    reduced: Vec<f64>,
}

impl Search<'_> {
    /// Prices to begin with: somewhat less than what greedy paid for each row.
    fn start(&mut self, greedy: &Cover) {
        for step in &greedy.steps {
            let rows = self.queries.rows(step.query);
            let is_new = |row: &&u32| self.prices[**row as usize] == 0.0;
            let n_new = rows.iter().filter(is_new).count();
            let share = 0.7 * step.n_requests as f64 / n_new.max(1) as f64;
            for &row in rows {
                let price = &mut self.prices[row as usize];
                if *price == 0.0 {
                    *price = share;
                }
            }
        }
    }

    /// Moves the prices: up for rows that no query covers which is worth its cost,
    /// down for those that several do. Returns a lower bound for any cover.
    fn price(&mut self, step: f64, fewest: f64) -> f64 {
        self.reduce();
        let wanted = |row: usize| f64::from(u8::from(self.is_wanted[row]));
        let n_rows = self.prices.len();
        let mut missing: Vec<f64> = (0..n_rows).map(wanted).collect();
        let mut bound: f64 = self.prices.iter().sum();
        for (&query, &reduced) in self.usable.iter().zip(&self.reduced) {
            if reduced < 0.0 {
                bound += reduced;
                for &row in self.queries.rows(query) {
                    missing[row as usize] -= 1.0;
                }
            }
        }
        let norm: f64 = missing.iter().map(|missing| missing * missing).sum();
        let stride = step * (fewest - bound).max(1.0) / norm.max(1.0);
        for (row, price) in self.prices.iter_mut().enumerate() {
            if self.is_wanted[row] {
                *price = (*price + stride * missing[row]).max(0.0);
            } else {
                *price = 0.0;
            }
        }
        bound
    }

    fn reduce(&mut self) {
        let reduced = |&query: &usize| {
            let rows = self.queries.rows(query).iter();
            self.cost[query] - rows.map(|&row| self.prices[row as usize]).sum::<f64>()
        };
        self.reduced = self.usable.par_iter().map(reduced).collect();
    }

    /// A cover by the prices at hand: greedy by what queries cost beyond them, without
    /// those that turn out to be needless.
    fn cover(&mut self) -> Vec<usize> {
        self.reduce();
        let mut is_open = self.is_wanted.clone();
        let mut n_open = is_open.iter().filter(|is_open| **is_open).count();
        let first = self.usable.par_iter().zip(&self.reduced);
        let mut heap: BinaryHeap<Reverse<(Score, usize)>> = first
            .filter_map(|(&query, &reduced)| {
                let n_rows = self.queries.rows(query).len();
                let score = Score::new(reduced, n_rows)?;
                Some(Reverse((score, query)))
            })
            .collect::<Vec<_>>()
            .into();
        let mut chosen = Vec::new();
        while n_open > 0
            && let Some(Reverse((before, query))) = heap.pop()
        {
            let rows = || self.queries.rows(query).iter().map(|&row| row as usize);
            let open = || rows().filter(|&row| is_open[row]);
            let reduced = self.cost[query] - open().map(|row| self.prices[row]).sum::<f64>();
            // Nothing of it is left.
            let Some(score) = Score::new(reduced, open().count()) else {
                continue;
            };
            if score > before {
                heap.push(Reverse((score, query)));
                continue;
            }
            chosen.push(query);
            for row in rows() {
                n_open -= usize::from(is_open[row]);
                is_open[row] = false;
            }
        }
        self.without_needless(chosen)
    }

    /// The same without queries all of whose rows others cover, dear ones first.
    fn without_needless(&self, mut chosen: Vec<usize>) -> Vec<usize> {
        let mut n_covering = vec![0_u32; self.is_wanted.len()];
        for &query in &chosen {
            for &row in self.queries.rows(query) {
                n_covering[row as usize] += 1;
            }
        }
        chosen.sort_by(|&one, &other| {
            let by_cost = self.cost[other].total_cmp(&self.cost[one]);
            by_cost.then(one.cmp(&other))
        });
        chosen.retain(|&query| {
            let rows = self.queries.rows(query);
            let is_needless = rows.iter().all(|&row| n_covering[row as usize] > 1);
            if is_needless {
                for &row in rows {
                    n_covering[row as usize] -= 1;
                }
            }
            !is_needless
        });
        chosen
    }
}

/// How a query compares in a cover by prices, the least first: by what it costs beyond
/// them for each row, or if it costs less by how much in all its rows together.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Score(f64);

impl Score {
    /// `None` for a query that covers nothing.
    fn new(reduced: f64, n_rows: usize) -> Option<Self> {
        let n = n_rows as f64;
        (n_rows > 0).then_some(Self(if reduced > 0.0 {
            reduced / n
        } else {
            reduced * n
        }))
    }
}

impl Eq for Score {}

impl Ord for Score {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
