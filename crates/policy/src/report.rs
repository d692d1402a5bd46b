//! What a plan achieves.

use rayon::prelude::*;

use crate::freshness::{expected_age, expected_freshness, expected_staleness};
use crate::plan::{Candidates, Plan};
use crate::{Frequency, Order, Span};

/// What a plan gives, predicted from the rates it was made for. Means are over
/// all elements, each counted by its weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Report {
    /// How many elements there are.
    pub n_elements: usize,
    /// How many of them change and are never polled.
    pub n_unpolled: usize,
    /// What the polls of a day cost.
    pub used_per_day: f64,
    /// The mean freshness; not a number if no element has weight.
    pub freshness: f64,
    /// The mean age; forever if an element with weight is never polled.
    pub age: Span,
    /// The mean content staleness, in days² of change.
    pub content_staleness: f64,
}

/// What `plan` gives if the polls of each element are spaced as `order` says.
pub fn report(plan: &Plan, candidates: &Candidates<'_>, order: Order) -> Report {
    /// Elements per unit of parallel work; sums are added in order.
    const CHUNK: usize = 16_384;
    let n_chunks = candidates.len().div_ceil(CHUNK);
    let sums: Vec<Sums> = (0..n_chunks)
        .into_par_iter()
        .map(|chunk| {
            let first = chunk * CHUNK;
            let n = CHUNK.min(candidates.len() - first);
            let mut frequencies = vec![Frequency::ZERO; n];
            plan.write_frequencies(candidates, first, &mut frequencies);
            let mut sums = Sums::default();
            for (offset, frequency) in frequencies.into_iter().enumerate() {
                sums.count(candidates, first + offset, frequency, order);
            }
            sums
        })
        .collect();
    let mut all = Sums::default();
    for sums in sums {
        all.add(sums);
    }
    Report {
        n_elements: candidates.len(),
        n_unpolled: all.n_unpolled,
        used_per_day: all.used,
        freshness: all.freshness / all.weight,
        age: Span(all.age / all.weight),
        content_staleness: all.staleness / all.weight,
    }
}

#[derive(Default)]
struct Sums {
    n_unpolled: usize,
    used: f64,
    weight: f64,
    freshness: f64,
    age: f64,
    staleness: f64,
}

impl Sums {
    fn count(
        &mut self,
        candidates: &Candidates<'_>,
        index: usize,
        frequency: Frequency,
        order: Order,
    ) {
        let (rate, weight) = (candidates.rate(index), candidates.weight(index).0);
        self.used += candidates.cost(index).0 * frequency.0;
        self.n_unpolled += usize::from(rate.0 > 0.0 && frequency.0 == 0.0);
        // Nobody minds the (perhaps endless) age of what has no weight.
        if weight > 0.0 {
            self.weight += weight;
            self.freshness += weight * expected_freshness(rate, frequency, order);
            self.age += weight * expected_age(rate, frequency, order).0;
            self.staleness += weight * expected_staleness(rate, frequency, order);
        }
    }

    fn add(&mut self, other: Self) {
        self.n_unpolled += other.n_unpolled;
        self.used += other.used;
        self.weight += other.weight;
        self.freshness += other.freshness;
        self.age += other.age;
        self.staleness += other.staleness;
    }
}
