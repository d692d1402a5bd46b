//! What a plan achieves.

use crate::parallel::*;
use statrs::function::beta::beta_reg;

use crate::freshness::{expected_age, expected_freshness, expected_staleness};
use crate::plan::{Candidates, Plan};
use crate::{Error, Frequency, Order, Span};

/// What a plan gives, predicted from the rates it was made for. Means are over
/// all elements, each counted by its weight.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
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

/// The interval that holds a share with at least this confidence, when `n_hits` of
/// `n_draws` independent draws hit it (Clopper and Pearson 1934).
///
/// ```text
/// low:  P(X ≥ hits | low) = α/2,   high: P(X ≤ hits | high) = α/2,   α = 1 − confidence
/// ```
///
/// Both follow from quantiles of Beta distributions. It holds the truth at least as
/// often as it says, however few draws there are; without any it is all there is.
///
/// # Errors
/// If the confidence does not lie between 0 and 1.
pub fn share_interval(n_hits: u64, n_draws: u64, confidence: f64) -> Result<(f64, f64), Error> {
    if !(confidence > 0.0 && confidence < 1.0) {
        return Err(Error::Confidence(confidence));
    }
    let tail = (1.0 - confidence) / 2.0;
    let (hits, misses) = (n_hits as f64, n_draws.saturating_sub(n_hits) as f64);
    let low = if hits == 0.0 {
        0.0
    } else {
        beta_quantile(hits, misses + 1.0, tail)
    };
    let high = if misses == 0.0 {
        1.0
    } else {
        beta_quantile(hits + 1.0, misses, 1.0 - tail)
    };
    Ok((low, high))
}

/// Where the regularised incomplete beta function reaches `probability`.
fn beta_quantile(a: f64, b: f64, probability: f64) -> f64 {
    // It only rises, so halving never goes wrong, and this is not asked often enough
    // for anything faster.
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..f64::MANTISSA_DIGITS + 10 {
        let middle = f64::midpoint(low, high);
        if beta_reg(a, b, middle) < probability {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(n_hits: u64, n_draws: u64, confidence: f64, expected: (f64, f64)) {
        let (low, high) = share_interval(n_hits, n_draws, confidence).unwrap();
        assert!((low - expected.0).abs() < 1e-11, "{low}");
        assert!((high - expected.1).abs() < 1e-11, "{high}");
    }

    /// Expected values by scipy 1.17, `scipy.stats.beta.ppf`.
    #[test]
    fn share_intervals_agree_with_quantiles_of_beta() {
        check(8, 10, 0.9, (0.4930986989367976, 0.9632285621125349));
        check(0, 20, 0.9, (0.0, 0.13910834066826516));
        check(20, 20, 0.9, (0.8608916593317347, 1.0));
        check(1, 1, 0.9, (0.04999999999999999, 1.0));
        check(50, 100, 0.95, (0.398321129503301, 0.601678870496699));
        check(9700, 10000, 0.9, (0.967040564101922, 0.9727540685269075));
    }

    #[test]
    fn without_draws_anything_is_possible() {
        assert_eq!(share_interval(0, 0, 0.9).unwrap(), (0.0, 1.0));
        assert!(share_interval(0, 0, 1.0).is_err());
        assert!(share_interval(0, 0, f64::NAN).is_err());
    }
}
