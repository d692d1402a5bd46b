use super::{Estimator, RateEstimate, TAIL, n_changes};
use crate::Observation;

/// The rate under which what was seen is most likely, whatever the intervals.
///
/// ```text
/// Σ_changed I/(e^(λI) − 1) = Σ_unchanged I
/// ```
///
/// Infinite if every poll saw a change: then no rate is too high.
#[derive(Debug, Clone, Copy, Default)]
pub struct Likelihood;

impl Estimator for Likelihood {
    fn estimate(&self, observations: &[Observation]) -> RateEstimate {
        let n_changes = n_changes(observations);
        let (low_per_day, high_per_day) = bit_interval(observations);
        let per_day = most_likely(observations);
        RateEstimate {
            n_polls: observations.len(),
            n_changes,
            per_day,
            low_per_day,
            high_per_day: if per_day == f64::INFINITY {
                f64::INFINITY
            } else {
                high_per_day
            },
        }
    }
}

fn most_likely(observations: &[Observation]) -> f64 {
    let days = |changed: bool| {
        let polls = observations
            .iter()
            .filter(move |poll| poll.is_change() == changed);
        polls.map(|poll| poll.elapsed.0)
    };
    let (n_changed, changed, unchanged) = (
        days(true).count() as f64,
        days(true).sum::<f64>(),
        days(false).sum::<f64>(),
    );
    if n_changed == 0.0 {
        return 0.0;
    }
    if unchanged == 0.0 {
        return f64::INFINITY;
    }
    // The score falls and is convex, so that Newton's steps from the left never
    // pass the root. This start is left of it, since I/(e^(λI) − 1) is never less
    // than 1/λ − I/2.
    let mut rate = n_changed / (unchanged + changed / 2.0);
    for _ in 0..100 {
        let (mut score, mut slope) = (-unchanged, 0.0);
        for days in days(true) {
            // With e^(−λI), since e^(λI) overflows.
            let (fall, rest) = (-(-rate * days).exp_m1(), (-rate * days).exp());
            score += days * rest / fall;
            slope -= days * days * rest / (fall * fall);
        }
        let next = rate - score / slope;
        if next <= rate * (1.0 + 1e-15) {
            break;
        }
        rate = next;
    }
    rate
}

/// A 90 % interval of the rate from nothing but whether each poll saw a change:
/// the quantiles of the posterior under Jeffreys' prior.
///
/// ```text
/// p(λ) ∝ √(Σ I²/(e^(λI) − 1)) · Π_changed (1 − e^(−λI)) · Π_unchanged e^(−λI)
/// ```
///
/// For equal intervals this is Jeffreys' interval of a binomial proportion, whose
/// coverage stays closest to what it promises. Its lower end is zero if no change
/// was seen.
pub(super) fn bit_interval(observations: &[Observation]) -> (f64, f64) {
    if observations.is_empty() {
        return (0.0, f64::INFINITY);
    }
    let intervals = Intervals::new(observations);
    // The posterior over the logarithm of the rate: smooth, with tails that fall
    // exponentially, so that the trapezoidal rule is as good as any.
    let n = observations.len() as f64;
    let x = n_changes(observations) as f64;
    let centre = (-(-(x + 0.5) / (n + 1.0)).ln_1p() / intervals.mean).ln();
    let density = |theta: f64| intervals.log_posterior(theta);

    // Walk to the top in wide steps, then out to both sides until nothing counts.
    let mut top = (centre, density(centre));
    let mut step = 1.0;
    while step > 0.05 {
        let sides = [top.0 - step, top.0 + step].map(|theta| (theta, density(theta)));
        match sides.into_iter().find(|side| side.1 > top.1) {
            Some(side) => top = side,
            None => step /= 2.0,
        }
    }
    let edge = |direction: f64| {
        let mut width = 0.05;
        while top.1 - density(top.0 + direction * width) < NEGLIGIBLE && width < 1e3 {
            width *= 1.5;
        }
        top.0 + direction * width
    };
    let (left, right) = (edge(-1.0), edge(1.0));
    let width = (right - left) / N_CELLS as f64;
    let at = |cell: usize| left + width * cell as f64;
    let heights: Vec<f64> = (0..=N_CELLS)
        .map(|cell| (density(at(cell)) - top.1).exp())
        .collect();
    let areas = heights.windows(2).map(|pair| 0.5 * (pair[0] + pair[1]));
    let total: f64 = areas.clone().sum();
    let quantile = |probability: f64| {
        let mut below = 0.0;
        for (cell, area) in areas.clone().enumerate() {
            let wanted = probability * total - below;
            if wanted <= area {
                // Within the cell the density is a straight line.
                let (a, b) = (heights[cell], heights[cell + 1]);
                let share = 2.0 * wanted / (a + (a * a + 2.0 * wanted * (b - a)).max(0.0).sqrt());
                return (at(cell) + width * share.clamp(0.0, 1.0)).exp();
            }
            below += area;
        }
        right.exp()
    };
    let low = if x == 0.0 { 0.0 } else { quantile(TAIL) };
    (low, quantile(1.0 - TAIL))
}

/// e^(−this) beside one does not count in a tail of 5 %.
const NEGLIGIBLE: f64 = 12.0;
const N_CELLS: usize = 96;

/// The intervals of some polls, equal ones counted together.
struct Intervals {
    /// Days, how many with a change, how many in all.
    distinct: Vec<(f64, f64, f64)>,
    unchanged: f64,
    mean: f64,
}

impl Intervals {
    fn new(observations: &[Observation]) -> Self {
        let mut all: Vec<(f64, bool)> = observations
            .iter()
            .map(|poll| (poll.elapsed.0, poll.is_change()))
            .collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut distinct: Vec<(f64, f64, f64)> = Vec::new();
        let (mut unchanged, mut total) = (0.0, 0.0);
        for (days, changed) in all {
            total += days;
            if !changed {
                unchanged += days;
            }
            let change = f64::from(u8::from(changed));
            match distinct.last_mut() {
                Some(last) if last.0 == days => {
                    last.1 += change;
                    last.2 += 1.0;
                }
                _ => distinct.push((days, change, 1.0)),
            }
        }
        Self {
            distinct,
            unchanged,
            mean: total / observations.len() as f64,
        }
    }

    /// The log density of ln λ, up to a constant.
    fn log_posterior(&self, theta: f64) -> f64 {
        let rate = theta.exp();
        let mut log_likelihood = -rate * self.unchanged;
        let mut information = 0.0;
        for &(days, changed, all) in &self.distinct {
            let exposure = rate * days;
            let (fall, rest) = (-(-exposure).exp_m1(), (-exposure).exp());
            if changed > 0.0 {
                log_likelihood += changed * fall.ln();
            }
            information += all * days * days * rest / fall;
        }
        log_likelihood + 0.5 * information.max(f64::MIN_POSITIVE).ln() + theta
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Outcome, Span};

    fn polls(signed_days: &[f64]) -> Vec<Observation> {
        let poll = |&days: &f64| {
            let outcome = if days < 0.0 {
                Outcome::Changed { age: None }
            } else {
                Outcome::Unchanged
            };
            Observation::new(Span(days.abs()), outcome).unwrap()
        };
        signed_days.iter().map(poll).collect()
    }

    #[test]
    fn regular_polls_have_a_closed_form() {
        // −ln(1 − X/n)/I.
        let estimate = Likelihood.estimate(&polls(&[-2.0, -2.0, 2.0, 2.0, -2.0, 2.0, 2.0, 2.0]));
        assert!((estimate.per_day + (1.0_f64 - 3.0 / 8.0).ln() / 2.0).abs() < 1e-14);
    }

    #[test]
    fn the_score_is_zero_at_the_estimate() {
        let days = [-0.01, 5.0, -300.0, 40.0, -7.0, 0.3, 12.0, -1e-3];
        let rate = Likelihood.estimate(&polls(&days)).per_day;
        let score: f64 = days
            .iter()
            .map(|&days: &f64| {
                if days < 0.0 {
                    -days / (-rate * days).exp_m1()
                } else {
                    -days
                }
            })
            .sum();
        assert!(score.abs() < 1e-10, "{score}");
    }

    #[test]
    fn regular_polls_have_the_interval_of_a_proportion() {
        // Beta(X + ½, n − X + ½) at 5 % and 95 % for n = 10, computed with scipy
        // (stats.beta.ppf), as −ln(1 − p).
        for (x, low, high) in [
            (3, 0.124_803, 0.816_732),
            (5, 0.303_706, 1.339_709),
            (9, 1.106_959, 4.023_402),
        ] {
            let days: Vec<f64> = (0..10).map(|i| if i < x { -1.0 } else { 1.0 }).collect();
            let (ours_low, ours_high) = bit_interval(&polls(&days));
            assert!((ours_low / low - 1.0).abs() < 3e-3, "{x}: {ours_low} {low}");
            assert!(
                (ours_high / high - 1.0).abs() < 3e-3,
                "{x}: {ours_high} {high}"
            );
        }
    }
}
