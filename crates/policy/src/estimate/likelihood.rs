use super::posterior::interval;
use super::{Estimator, RateEstimate, n_changes};
use crate::{Observation, Outcome};

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
        let (low_per_day, high_per_day) = interval(&without_ages(observations));
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

/// The same polls as if nobody had told when changes were.
pub(super) fn without_ages(observations: &[Observation]) -> Vec<Observation> {
    let forget = |poll: &Observation| Observation {
        outcome: match poll.is_change() {
            true => Outcome::Changed { age: None },
            false => Outcome::Unchanged,
        },
        ..*poll
    };
    observations.iter().map(forget).collect()
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
            let exposure = rate * days;
            if exposure < 1e-150 {
                // The square of it underflows; the limit does not.
                score += 1.0 / rate;
                slope -= 1.0 / rate / rate;
                continue;
            }
            let (fall, rest) = (-(-exposure).exp_m1(), (-exposure).exp());
            score += days * rest / fall;
            slope -= days * days * rest / (fall * fall);
        }
        let next = rate - score / slope;
        if next <= rate * (1.0 + 1e-15) || next.is_nan() {
            break;
        }
        rate = next;
    }
    rate
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::polls;

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
}
