//! The greedy choice as the content paper describes it, which looks at few terms at
//! a time.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::candidates::{Efficiency, Queries, Retrieval, intersection};
use super::greedy::{Cover, CoverProblem, Limits, Per, Rank, Tracker};
use super::rows::Rows;
use super::server::Estimates;

/// The greedy choice among queries of the `n_keywords` most frequent terms of the
/// rows not yet covered (content paper, Algorithm 2 and section 5.3): the queries it
/// found, and those to ask.
///
/// Of terms that are equally frequent those come first that are written first. The
/// terms are chosen anew after every query, so a query that is no choice now may be
/// one later. It ends when every row that has a term, and is worth something, is
/// covered, or at a limit.
pub fn cover_by_keywords(
    rows: &Rows,
    estimates: &Estimates,
    retrieval: Retrieval,
    efficiency: Efficiency,
    (max_terms, n_keywords): (usize, usize),
    limits: &Limits,
) -> (Queries, Cover) {
    let cover = |per| {
        let mut tracker = Tracker::new(rows.worth(), retrieval, efficiency, *limits);
        tracker.per = per;
        cover_with(rows, estimates, retrieval, (max_terms, n_keywords), tracker)
    };
    let by_request = cover(Per::Request);
    // Where queries are limited, requests may not be what is scarce.
    let has_two_rules = efficiency == Efficiency::Corrected && limits.price.is_none();
    if limits.max_queries.is_none() || !has_two_rules {
        return by_request;
    }
    let by_query = cover(Per::Query);
    let value = |(queries, cover): &(Queries, Cover)| {
        CoverProblem::new(queries, rows, retrieval, efficiency).value(cover)
    };
    match value(&by_query) > value(&by_request) * (1.0 + 1e-9) {
        true => by_query,
        false => by_request,
    }
}

fn cover_with(
    rows: &Rows,
    estimates: &Estimates,
    retrieval: Retrieval,
    (max_terms, n_keywords): (usize, usize),
    tracker: Tracker<'_>,
) -> (Queries, Cover) {
    let mut frequent = Frequent::new(rows, &tracker);
    let mut choice = Keywords {
        rows,
        estimates,
        retrieval,
        max_terms,
        tracker,
        is_keyword: vec![false; rows.n_terms()],
        queries: Queries::default(),
        known: BTreeSet::new(),
        heap: BinaryHeap::new(),
        parked: vec![Vec::new(); rows.n_terms()],
    };
    let mut keywords: Vec<u32> = Vec::new();
    while choice.tracker.goes_on() {
        let now: Vec<u32> = frequent.first(n_keywords).collect();
        for &term in &keywords {
            choice.is_keyword[term as usize] = false;
        }
        let before: BTreeSet<u32> = keywords.iter().copied().collect();
        for &term in now.iter().filter(|term| before.contains(term)) {
            choice.is_keyword[term as usize] = true;
        }
        for &term in now.iter().filter(|term| !before.contains(term)) {
            choice.enter(term);
        }
        keywords = now;
        let Some(query) = choice.best() else { break };
        let found = choice.queries.rows(query).to_vec();
        let covered = found.iter().filter(|&&row| choice.tracker.is_open(row));
        frequent.remove(rows, covered.copied());
        let n_server = choice.queries.n_server(query);
        choice.tracker.take(query, &found, n_server);
    }
    let Keywords {
        queries, tracker, ..
    } = choice;
    (queries, tracker.cover)
}

/// Terms by how many rows that are not yet covered have them.
struct Frequent {
    counts: Vec<u32>,
    order: BTreeSet<(Reverse<u32>, u32)>,
}

impl Frequent {
    fn new(rows: &Rows, tracker: &Tracker<'_>) -> Self {
        let mut counts = vec![0; rows.n_terms()];
        for row in (0..rows.len() as u32).filter(|&row| tracker.is_open(row)) {
            for &term in rows.terms_of(row) {
                counts[term as usize] += 1;
            }
        }
        let order = (0..)
            .zip(&counts)
            .filter(|(_, count)| **count > 0)
            .map(|(term, count)| (Reverse(*count), term))
            .collect();
        Self { counts, order }
    }

    fn first(&self, n: usize) -> impl Iterator<Item = u32> {
        self.order.iter().take(n).map(|(_, term)| *term)
    }

    fn remove(&mut self, rows: &Rows, covered: impl Iterator<Item = u32>) {
        for row in covered {
            for &term in rows.terms_of(row) {
                let count = &mut self.counts[term as usize];
                self.order.remove(&(Reverse(*count), term));
                *count -= 1;
                if *count > 0 {
                    self.order.insert((Reverse(*count), term));
                }
            }
        }
    }
}

struct Keywords<'a> {
    rows: &'a Rows,
    estimates: &'a Estimates,
    retrieval: Retrieval,
    max_terms: usize,
    tracker: Tracker<'a>,
    is_keyword: Vec<bool>,
    /// All queries that have been a choice at some time.
    queries: Queries,
    known: BTreeSet<Vec<u32>>,
    heap: BinaryHeap<Waiting>,
    /// Queries that wait until a term is a keyword again.
    parked: Vec<Vec<usize>>,
}

/// A query by its last known value, which only falls; then by fewer requests, then by
/// its terms, which are numbered as they are written.
type Waiting = (Rank, Reverse<Vec<u32>>, usize, u64);

impl Keywords<'_> {
    /// A term becomes a keyword, and with it all queries of it and other keywords
    /// that some open row has.
    fn enter(&mut self, term: u32) {
        self.is_keyword[term as usize] = true;
        for query in std::mem::take(&mut self.parked[term as usize]) {
            self.wait(query);
        }
        let mut found: BTreeSet<Vec<u32>> = BTreeSet::new();
        for &row in self.rows.with_term(term) {
            if !self.tracker.is_open(row) {
                continue;
            }
            let terms = self.rows.terms_of(row).iter();
            let others: Vec<u32> = terms
                .copied()
                .filter(|&other| other != term && self.is_keyword[other as usize])
                .collect();
            subsets(&others, self.max_terms - 1, &mut vec![term], &mut found);
        }
        for terms in found {
            if !self.known.insert(terms.clone()) {
                continue;
            }
            let those = terms[1..]
                .iter()
                .fold(self.rows.with_term(terms[0]).to_vec(), |rows, &term| {
                    intersection(&rows, self.rows.with_term(term))
                });
            let n_server = self.estimates.n_server(&terms, those.len());
            self.queries.push(&terms, &those, n_server);
            self.wait(self.queries.len() - 1);
        }
    }

    fn wait(&mut self, query: usize) {
        let n_server = self.queries.n_server(query);
        let value = self.tracker.value(self.queries.rows(query), n_server);
        let rank = Rank::new(value, self.retrieval.n_requests(n_server), 0);
        let terms = Reverse(self.queries.term_list(query).to_vec());
        let n_asked = self.tracker.cover.steps.len() as u64;
        self.heap.push((rank, terms, query, n_asked));
    }

    /// The best query whose terms are keywords.
    fn best(&mut self) -> Option<usize> {
        loop {
            let (rank, Reverse(terms), query, n_asked) = self.heap.pop()?;
            if rank.value <= 0.0 || !self.tracker.fits(self.queries.n_server(query)) {
                continue;
            }
            let is_keyword = |term: &u32| self.is_keyword[*term as usize];
            if let Some(&missing) = terms.iter().find(|term| !is_keyword(term)) {
                self.parked[missing as usize].push(query);
            } else if n_asked < self.tracker.cover.steps.len() as u64 {
                self.wait(query);
            } else if self.tracker.is_worth_it(rank.value) {
                return Some(query);
            } else {
                return None;
            }
        }
    }
}

/// Puts in all sets of terms that have what is chosen and at most so many others.
fn subsets(others: &[u32], n: usize, chosen: &mut Vec<u32>, found: &mut BTreeSet<Vec<u32>>) {
    let mut terms = chosen.clone();
    terms.sort_unstable();
    found.insert(terms);
    if n == 0 {
        return;
    }
    for (place, &other) in others.iter().enumerate() {
        chosen.push(other);
        subsets(&others[place + 1..], n - 1, chosen, found);
        chosen.pop();
    }
}
