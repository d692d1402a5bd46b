use super::likelihood::without_ages;
use super::posterior::interval;
use super::{Estimator, RateEstimate, n_changes, total_days};
use crate::Observation;

/// Changes seen per time.
///
/// ```text
/// λ̂ = X / Σ I
/// ```
///
/// It counts several changes between two polls as one, so it is too low: by 37 %
/// for an element that changes once per interval, however many polls there are.
/// The interval knows better, and need not hold the estimate.
#[derive(Debug, Clone, Copy, Default)]
pub struct Naive;

impl Estimator for Naive {
    fn estimate(&self, observations: &[Observation]) -> RateEstimate {
        let n_changes = n_changes(observations);
        let (low_per_day, high_per_day) = interval(&without_ages(observations));
        RateEstimate {
            n_polls: observations.len(),
            n_changes,
            per_day: if n_changes == 0 {
                0.0
            } else {
                n_changes as f64 / total_days(observations)
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

    #[test]
    fn it_divides_changes_by_time() {
        let poll = |days: f64, outcome| Observation::new(Span(days), outcome).unwrap();
        let changed = Outcome::Changed { age: None };
        let polls = [
            poll(2.0, changed),
            poll(3.0, Outcome::Unchanged),
            poll(5.0, changed),
        ];
        assert_eq!(Naive.estimate(&polls).per_day, 0.2);
    }
}
