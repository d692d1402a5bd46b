//! A cheaper cover than the greedy one.
//!
//! Greedy takes a query whose page is full of our rows before anything else, even if
//! that breaks up what a larger query would have found together; the more queries
//! there are, the more the last rows cost. The cure is to give every row a price: what
//! covering it should take. Where the prices are right, queries that cost less than
//! the prices of their rows are those to ask (Lagrangian relaxation of the covering
//! program, with subgradients; Caprara, Fischetti and Toth 1999).
//!
//! Prices for all rows at once leave a request in a hundred on the table. So then some
//! queries that have to do with each other are taken out at a time, and what they
//! alone cover is covered anew, by prices for those rows (large neighbourhood search;
//! Shaw 1998).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::parallel::*;

use super::candidates::Queries;
use super::greedy::Cover;
use super::rows::Lists;

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

/// How many parts of a cover are covered anew, and how many of its queries each has.
/// With twice as many parts a request in a thousand is saved; with half as many
/// queries in each, two or three are lost.
const N_PARTS: usize = 300;
const PART_SIZE: usize = 40;
/// Rounds of prices for a part, which has good ones to begin with, and covers tried.
const PART_ROUNDS: usize = 60;
const PART_TRIES: usize = 10;
/// Queries that cost so much more than the prices of their rows are left aside.
const NEAR: f64 = 0.3;

/// Queries that cover all that `greedy` covers and is worth something, at less cost if
/// any such are found.
///
/// Only queries that return all they find are taken. `cost` is in requests, but need
/// not be whole.
pub(super) fn refined(
    queries: &Queries,
    cost: &[f64],
    is_sure: &[bool],
    worth: &[f64],
    greedy: &Cover,
) -> Option<Vec<usize>> {
    let mut is_wanted = vec![false; worth.len()];
    for step in &greedy.steps {
        for &row in queries.rows(step.query) {
            is_wanted[row as usize] = worth[row as usize] > 0.0;
        }
    }
    let usable: Vec<usize> = (0..queries.len()).filter(|&query| is_sure[query]).collect();
    let n_looks: usize = usable.iter().map(|&query| queries.rows(query).len()).sum();
    let n_affordable = (MOST_LOOKS / n_looks.max(1)).saturating_sub(N_TRIES * TRY);
    let n_rounds = n_affordable.min(MOST_ROUNDS);
    if n_rounds < FEWEST_ROUNDS || greedy.steps.iter().any(|step| !is_sure[step.query]) {
        return None;
    }
    let each = usable
        .iter()
        .map(|&query| (queries.rows(query), cost[query]));
    let mut program = Program::new(each, &is_wanted);
    let place = |query: usize| usable.binary_search(&query).expect("all of them are sure");
    let asked: Vec<u32> = greedy
        .steps
        .iter()
        .map(|step| place(step.query) as u32)
        .collect();
    program.start(&asked);
    let chosen = program.solve(program.cost_of(&asked), n_rounds, N_TRIES)?;
    let chosen = program.in_parts(chosen);
    Some(
        chosen
            .into_iter()
            .map(|query| usable[query as usize])
            .collect(),
    )
}

/// Rows to cover, numbered from zero, and queries to cover them with.
struct Program {
    rows: Lists,
    cost: Vec<f64>,
    /// What covering each row should take.
    prices: Vec<f64>,
    /// What each query costs beyond the prices of its rows.
    reduced: Vec<f64>,
}

impl Program {
    /// Queries by the rows that each finds and what it costs.
    fn new<'a>(queries: impl Iterator<Item = (&'a [u32], f64)>, is_wanted: &[bool]) -> Self {
        let mut n_rows = 0;
        let number = |&is_wanted: &bool| {
            is_wanted.then(|| {
                n_rows += 1;
                n_rows - 1
            })
        };
        let numbers: Vec<Option<u32>> = is_wanted.iter().map(number).collect();
        let (mut rows, mut cost) = (Lists::default(), Vec::new());
        let mut wanted = Vec::new();
        for (found, requests) in queries {
            wanted.clear();
            wanted.extend(found.iter().filter_map(|&row| numbers[row as usize]));
            rows.push(&wanted);
            cost.push(requests);
        }
        Self {
            rows,
            cost,
            prices: vec![0.0; n_rows as usize],
            reduced: Vec::new(),
        }
    }

    fn rows_of(&self, query: u32) -> &[u32] {
        self.rows.get(query as usize)
    }

    fn cost_of(&self, chosen: &[u32]) -> f64 {
        chosen.iter().map(|&query| self.cost[query as usize]).sum()
    }

    /// Prices to begin with: somewhat less than what these queries, asked in order,
    /// pay for each row.
    fn start(&mut self, asked: &[u32]) {
        for &query in asked {
            let rows = self.rows.get(query as usize);
            let is_new = |row: &&u32| self.prices[**row as usize] == 0.0;
            let n_new = rows.iter().filter(is_new).count();
            let share = 0.7 * self.cost[query as usize] / n_new.max(1) as f64;
            for &row in rows {
                let price = &mut self.prices[row as usize];
                if *price == 0.0 {
                    *price = share;
                }
            }
        }
    }

    /// The cheapest cover that is found, if it costs less than this.
    fn solve(&mut self, mut least: f64, n_rounds: usize, n_tries: usize) -> Option<Vec<u32>> {
        /// There is nothing to be gained where no cover can be cheaper by this.
        const LITTLE: f64 = 0.05;
        let mut best: Option<Vec<u32>> = None;
        let (mut bound, mut step, mut n_idle) = (0.0_f64, 0.5, 0);
        // The first prices are poor.
        let mut next_try = n_rounds / 4;
        for round in 0..n_rounds {
            let reached = self.price(step, least);
            if reached > bound {
                (bound, n_idle) = (reached, 0);
            } else {
                n_idle += 1;
                if n_idle > PATIENCE {
                    (step, n_idle) = (step * 0.6, 0);
                }
            }
            if bound > least - LITTLE {
                break;
            }
            if round >= next_try || round + 1 == n_rounds {
                next_try = round + (n_rounds * 3 / 4 / n_tries).max(1);
                let chosen = self.cover();
                let cost = self.cost_of(&chosen);
                if cost < least {
                    (best, least) = (Some(chosen), cost);
                }
            }
        }
        best
    }

    /// Moves the prices: up for rows that no query covers which is worth its cost,
    /// down for those that several do. Returns a lower bound for any cover.
    fn price(&mut self, step: f64, least: f64) -> f64 {
        self.reduce();
        let mut missing = vec![1.0; self.prices.len()];
        let mut bound: f64 = self.prices.iter().sum();
        for (query, &reduced) in (0..).zip(&self.reduced) {
            if reduced < 0.0 {
                bound += reduced;
                for &row in self.rows_of(query) {
                    missing[row as usize] -= 1.0;
                }
            }
        }
        let norm: f64 = missing.iter().map(|missing| missing * missing).sum();
        let stride = step * (least - bound).max(1.0) / norm.max(1.0);
        for (price, missing) in self.prices.iter_mut().zip(&missing) {
            *price = (*price + stride * missing).max(0.0);
        }
        bound
    }

    fn reduce(&mut self) {
        /// What is worth a thread of its own.
        const CHUNK: usize = 10_000;
        let reduced = |query: usize| {
            let rows = self.rows.get(query).iter();
            self.cost[query] - rows.map(|&row| self.prices[row as usize]).sum::<f64>()
        };
        let all = 0..self.cost.len();
        self.reduced = match all.len() > CHUNK {
            true => all
                .into_par_iter()
                .with_min_len(CHUNK)
                .map(reduced)
                .collect(),
            false => all.map(reduced).collect(),
        };
    }

    /// A cover by the prices at hand: greedy by what queries cost beyond them, without
    /// those that turn out to be needless.
    fn cover(&mut self) -> Vec<u32> {
        self.reduce();
        let mut is_open = vec![true; self.prices.len()];
        let mut n_open = is_open.len();
        let first = (0..).zip(&self.reduced);
        let mut heap: BinaryHeap<Reverse<(Score, u32)>> = first
            .filter_map(|(query, &reduced)| {
                let score = Score::new(reduced, self.rows_of(query).len())?;
                Some(Reverse((score, query)))
            })
            .collect::<Vec<_>>()
            .into();
        let mut chosen = Vec::new();
        while n_open > 0
            && let Some(Reverse((before, query))) = heap.pop()
        {
            let rows = || self.rows_of(query).iter().map(|&row| row as usize);
            let open = || rows().filter(|&row| is_open[row]);
            let cost = self.cost[query as usize];
            let reduced = cost - open().map(|row| self.prices[row]).sum::<f64>();
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
    fn without_needless(&self, mut chosen: Vec<u32>) -> Vec<u32> {
        let mut n_covering = self.n_covering(&chosen);
        chosen.sort_by(|&one, &other| {
            let cost = |query: u32| self.cost[query as usize];
            cost(other).total_cmp(&cost(one)).then(one.cmp(&other))
        });
        chosen.retain(|&query| {
            let rows = self.rows_of(query);
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

    fn n_covering(&self, chosen: &[u32]) -> Vec<u32> {
        let mut n_covering = vec![0; self.prices.len()];
        for &query in chosen {
            for &row in self.rows_of(query) {
                n_covering[row as usize] += 1;
            }
        }
        n_covering
    }

    /// The same cover, made cheaper by covering parts of it anew.
    fn in_parts(&mut self, chosen: Vec<u32>) -> Vec<u32> {
        self.reduce();
        let mut is_near: Vec<bool> = self.reduced.iter().map(|&more| more < NEAR).collect();
        for &query in &chosen {
            is_near[query as usize] = true;
        }
        let near: Vec<u32> = (0..)
            .zip(&is_near)
            .filter(|(_, is_near)| **is_near)
            .map(|(query, _)| query)
            .collect();
        let mut core = Core::new(self, &near);
        for query in chosen {
            let place = near.binary_search(&query).expect("it is near");
            core.put(place as u32);
        }
        let n_rows = self.prices.len();
        let mut n_looks = 0;
        for part in 0..N_PARTS {
            // Scattered over all rows, by the golden ratio.
            let at = (part as f64 * 0.618_033_988_749_895).fract() * n_rows as f64;
            let taken = core.around(at as u32);
            n_looks += PART_ROUNDS * core.renew(taken, &self.prices);
            if n_looks > MOST_LOOKS {
                break;
            }
        }
        let chosen = near.iter().zip(&core.is_chosen);
        chosen
            .filter(|(_, is_chosen)| **is_chosen)
            .map(|(&query, _)| query)
            .collect()
    }
}

/// The queries of a program that matter, and a cover by some of them.
struct Core {
    rows: Lists,
    cost: Vec<f64>,
    /// The queries that find each row.
    finders: Lists,
    is_chosen: Vec<bool>,
    /// How many chosen queries find each row.
    n_covering: Vec<u32>,
}

impl Core {
    fn new(program: &Program, queries: &[u32]) -> Self {
        let mut rows = Lists::default();
        for &query in queries {
            rows.push(program.rows_of(query));
        }
        let n_rows = program.prices.len();
        Self {
            cost: queries
                .iter()
                .map(|&query| program.cost[query as usize])
                .collect(),
            finders: rows.inverted(n_rows),
            rows,
            is_chosen: vec![false; queries.len()],
            n_covering: vec![0; n_rows],
        }
    }

    /// Chosen queries that have to do with a row, or with rows of queries that have, and
    /// so on: those that can take each other's place.
    fn around(&self, row: u32) -> Vec<u32> {
        let mut is_reached = vec![false; self.n_covering.len()];
        let mut is_seen = vec![false; self.cost.len()];
        let mut taken = Vec::new();
        let mut rows = VecDeque::from([row]);
        is_reached[row as usize] = true;
        while let Some(row) = rows.pop_front() {
            for &query in self.finders.get(row as usize) {
                if std::mem::replace(&mut is_seen[query as usize], true) {
                    continue;
                }
                if self.is_chosen[query as usize] {
                    taken.push(query);
                    if taken.len() == PART_SIZE {
                        return taken;
                    }
                }
                for &other in self.rows.get(query as usize) {
                    if !std::mem::replace(&mut is_reached[other as usize], true) {
                        rows.push_back(other);
                    }
                }
            }
        }
        taken
    }

    /// Covers anew what these chosen queries alone cover, unless that costs more.
    /// Returns how many rows of queries there were to look at.
    fn renew(&mut self, taken: Vec<u32>, prices: &[f64]) -> usize {
        let mut open = Vec::new();
        for &query in &taken {
            self.is_chosen[query as usize] = false;
            for &row in self.rows.get(query as usize) {
                let n = &mut self.n_covering[row as usize];
                *n -= 1;
                if *n == 0 {
                    open.push(row);
                }
            }
        }
        open.sort_unstable();
        let finders = open.iter().flat_map(|&row| self.finders.get(row as usize));
        let mut queries: Vec<u32> = finders.copied().collect();
        queries.sort_unstable();
        queries.dedup();
        let mut part = Program {
            rows: Lists::default(),
            cost: queries
                .iter()
                .map(|&query| self.cost[query as usize])
                .collect(),
            prices: open.iter().map(|&row| prices[row as usize]).collect(),
            reduced: Vec::new(),
        };
        let mut found = Vec::new();
        let mut n_looks = 0;
        for &query in &queries {
            found.clear();
            let rows = self.rows.get(query as usize).iter();
            found.extend(rows.filter_map(|row| Some(open.binary_search(row).ok()? as u32)));
            part.rows.push(&found);
            n_looks += found.len();
        }
        let before: f64 = taken.iter().map(|&query| self.cost[query as usize]).sum();
        // Another one for the same is welcome too: what is around may do better with it.
        match part.solve(before + 1e-9, PART_ROUNDS, PART_TRIES) {
            Some(better) => better
                .iter()
                .for_each(|&query| self.put(queries[query as usize])),
            None => taken.into_iter().for_each(|query| self.put(query)),
        }
        n_looks
    }

    fn put(&mut self, query: u32) {
        self.is_chosen[query as usize] = true;
        for &row in self.rows.get(query as usize) {
            self.n_covering[row as usize] += 1;
        }
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
