//! How many times as many rows as ours a query finds on the server, from queries that
//! told.

use std::collections::BTreeMap;

use super::candidates::Queries;

/// What answers say of queries that were never asked.
///
/// The logarithm of the ratio is taken to be normal: around the mean of all queries with
/// terms of the same classes (the columns they are from), moved by what each of its
/// terms has been seen to move others. A query is then expected to find as many times
/// more than ours as makes a request worth what it is worth on average, and, since one
/// that was asked is known for good, fewer by a half of the variance:
///
/// ```text
/// E[1/x]^−1 = e^(m − v/2),   taken as e^(m − v)
/// ```
#[derive(Debug, Clone, Default)]
pub(super) struct Surplus {
    /// Of each query, which classes its terms have together.
    kinds: Vec<u32>,
    /// What was seen of each kind, and of each term beyond that.
    of_kinds: Vec<NumbersSeen>,
    of_terms: Vec<NumbersSeen>,
}

/// Numbers that were seen.
#[derive(Debug, Clone, Copy, Default)]
struct NumbersSeen {
    n: f64,
    sum: f64,
    squares: f64,
}

impl NumbersSeen {
    fn note(&mut self, number: f64) {
        self.n += 1.0;
        self.sum += number;
        self.squares += number * number;
    }

    /// The mean, as if one more had been zero: there as many as ours.
    fn mean(self) -> f64 {
        self.sum / (self.n + 1.0)
    }

    fn variance(self) -> f64 {
        if self.n < 1.0 {
            return 0.0;
        }
        let mean = self.sum / self.n;
        (self.squares / self.n - mean * mean).max(0.0)
    }
}

impl Surplus {
    /// Nothing is known of queries whose terms have these classes.
    pub(super) fn new(queries: &Queries, classes: &[u8]) -> Self {
        let mut kinds: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
        let each = (0..queries.len()).map(|query| {
            let terms = queries.term_list(query).iter();
            let mut of_terms: Vec<u8> = terms.map(|&term| classes[term as usize]).collect();
            of_terms.sort_unstable();
            let next = kinds.len() as u32;
            *kinds.entry(of_terms).or_insert(next)
        });
        let each = each.collect();
        Self {
            kinds: each,
            of_kinds: vec![NumbersSeen::default(); kinds.len()],
            of_terms: vec![NumbersSeen::default(); classes.len()],
        }
    }

    /// Takes in what is known by now: queries, and how many times as many as ours each
    /// finds.
    pub(super) fn settle(
        &mut self,
        queries: &Queries,
        told: impl Iterator<Item = (usize, f64)> + Clone,
    ) {
        if self.kinds.is_empty() {
            return;
        }
        self.of_kinds.fill(NumbersSeen::default());
        self.of_terms.fill(NumbersSeen::default());
        let told = told.map(|(query, ratio)| (query, ratio.max(1.0).ln()));
        for (query, log) in told.clone() {
            self.of_kinds[self.kinds[query] as usize].note(log);
        }
        for (query, log) in told {
            let beyond = log - self.of_kinds[self.kinds[query] as usize].mean();
            for &term in queries.term_list(query) {
                self.of_terms[term as usize].note(beyond);
            }
        }
    }

    /// How many times as many as ours a query is expected to find.
    pub(super) fn expected(&self, query: usize, terms: &[u32]) -> f64 {
        let kind = self.of_kinds[self.kinds[query] as usize];
        let own: f64 = terms
            .iter()
            .map(|&term| self.of_terms[term as usize].mean())
            .sum();
        (kind.mean() + own - kind.variance()).max(0.0).exp()
    }
}
