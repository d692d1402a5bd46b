use super::posterior::interval;
use super::{Estimator, RateEstimate, n_changes};
use crate::{Observation, Outcome};

/// Changes seen per time without a change before a poll, where the source says
/// when it changed last.
///
/// ```text
/// λ̂ = X / Σ min(age, I)
/// ```
///
/// Looking back from a poll, the time to the last change is exponential and cut
/// off at the poll before: this is the most likely rate, and it keeps its
/// precision for elements that change many times between polls. A change without
/// an age counts half its interval.
#[derive(Debug, Clone, Copy, Default)]
pub struct LastModified;

impl Estimator for LastModified {
    fn estimate(&self, observations: &[Observation]) -> RateEstimate {
        let n_changes = n_changes(observations);
        let quiet: f64 = observations.iter().map(printed_quiet_days).sum();
        let per_day = if n_changes == 0 {
            0.0
        } else {
            n_changes as f64 / quiet
        };
        let (low_per_day, high_per_day) = interval(observations);
        RateEstimate {
            n_polls: observations.len(),
            n_changes,
            per_day,
            low_per_day,
            // Where every change was just now, no rate is too high.
            high_per_day: if per_day == f64::INFINITY {
                f64::INFINITY
            } else {
                high_per_day
            },
        }
    }
}

/// Time without a change before a poll, no longer than to the poll before: as the
/// formula has it, without regard to how coarsely sources tell the time.
fn printed_quiet_days(poll: &Observation) -> f64 {
    match poll.outcome {
        Outcome::Unchanged | Outcome::Parts { n_changed: 0 } => poll.elapsed.0,
        Outcome::Changed { age: Some(age) } => age.0.min(poll.elapsed.0),
        Outcome::Changed { age: None } | Outcome::Parts { .. } => poll.elapsed.0 / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Span;

    #[test]
    fn it_divides_changes_by_quiet_time() {
        let poll = |days: f64, outcome| Observation::new(Span(days), outcome).unwrap();
        let polls = [
            poll(
                4.0,
                Outcome::Changed {
                    age: Some(Span(1.0)),
                },
            ),
            poll(4.0, Outcome::Unchanged),
            // An age beyond the poll before is a lie, or an older change.
            poll(
                4.0,
                Outcome::Changed {
                    age: Some(Span(9.0)),
                },
            ),
            poll(4.0, Outcome::Changed { age: None }),
        ];
        assert_eq!(
            LastModified.estimate(&polls).per_day,
            3.0 / (1.0 + 4.0 + 4.0 + 2.0)
        );
    }

    #[test]
    fn a_change_just_now_allows_any_rate() {
        let now = Outcome::Changed {
            age: Some(Span::ZERO),
        };
        let estimate = LastModified.estimate(&[Observation::new(Span(1.0), now).unwrap()]);
        assert_eq!(estimate.per_day, f64::INFINITY);
        assert!(estimate.low_per_day.is_finite());
    }
}
