use super::likelihood::without_ages;
use super::posterior::interval;
use super::{Estimator, RateEstimate, n_changes, total_days};
use crate::Observation;

/// The share of polls without a change, taken for e^(−λI), with half a poll added
/// so that neither end is infinite (Cho and Garcia-Molina, *Estimating frequency
/// of change*).
///
/// ```text
/// λ̂ = −ln((n − X + ½) / (n + ½)) / I
/// ```
///
/// I is the mean interval: meant for polls at regular intervals, and off where
/// they vary much.
#[derive(Debug, Clone, Copy, Default)]
pub struct BiasReduced;

impl Estimator for BiasReduced {
    fn estimate(&self, observations: &[Observation]) -> RateEstimate {
        let n_polls = observations.len();
        let n_changes = n_changes(observations);
        let (low_per_day, high_per_day) = interval(&without_ages(observations));
        let (n, x) = (n_polls as f64, n_changes as f64);
        RateEstimate {
            n_polls,
            n_changes,
            per_day: if n_changes == 0 {
                0.0
            } else {
                -(-x / (n + 0.5)).ln_1p() * n / total_days(observations)
            },
            low_per_day,
            high_per_day,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Outcome, Span};

    /// E[λ̂]/λ for n = 10 polls, by summing over the binomial distribution of X.
    fn bias(exposure: f64) -> f64 {
        let n = 10;
        let changed = -(-exposure).exp_m1();
        let mut chance = (1.0 - changed).powi(n);
        let mut mean = 0.0;
        for x in 0..=n {
            let polls: Vec<_> = (0..n)
                .map(|i| {
                    let outcome = if i < x {
                        Outcome::Changed { age: None }
                    } else {
                        Outcome::Unchanged
                    };
                    Observation::new(Span(1.0), outcome).unwrap()
                })
                .collect();
            mean += chance * BiasReduced.estimate(&polls).per_day;
            chance *= f64::from(n - x) / f64::from(x + 1) * changed / (1.0 - changed);
        }
        mean / exposure
    }

    #[test]
    fn it_is_nearly_unbiased_up_to_two_changes_per_interval() {
        // The same sum computed with scipy.
        let expected = [
            (0.1, 1.000941822516),
            (0.3, 1.001227886434),
            (1.0, 1.003079761729),
            (2.0, 0.969615224264),
            (3.0, 0.852465090261),
        ];
        for (exposure, expected) in expected {
            let computed = bias(exposure);
            assert!((computed - expected).abs() < 1e-9, "{exposure}: {computed}");
        }
    }
}
