//! Estimates: how often an element changes, from what its polls showed.
//!
//! A poll shows whether an element changed, not how often. Five answers to what
//! that says about its rate, from the papers' simplest to the one that the engine
//! uses:
//!
//! | estimator | uses | when every poll saw a change | when none did |
//! |---|---|---|---|
//! | [`Naive`] | changes seen per time | finite, far too low | 0 |
//! | [`BiasReduced`] | the share of polls with a change | finite | 0 |
//! | [`Likelihood`] | each interval for itself | infinite | 0 |
//! | [`LastModified`] | when the last change was | finite, unless all were just now | 0 |
//! | [`Bayes`] | all of it, and what is usual in the group | finite | above 0 |
//!
//! Each gives a 90 % interval as well. It is equal-tailed: the true rate is as
//! likely below it as above.

mod bayes;
mod bias_reduced;
mod fit;
mod last_modified;
mod likelihood;
mod naive;
mod peak;
mod population;
mod posterior;
mod search;
mod trust;

pub(crate) use bayes::updated;
pub use bayes::{Bayes, Prior};
pub use bias_reduced::BiasReduced;
pub use last_modified::LastModified;
pub use likelihood::Likelihood;
pub use naive::Naive;
pub use trust::DateTrust;

use crate::Observation;
#[cfg(test)]
use crate::{Outcome, Span};

/// Something that estimates a rate from what polls showed.
pub trait Estimator {
    /// The rate that these polls of one element, in their order, suggest.
    fn estimate(&self, observations: &[Observation]) -> RateEstimate;
}

/// A rate with its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateEstimate {
    /// Polls it is based on.
    pub n_polls: usize,
    /// How many of them saw a change.
    pub n_changes: usize,
    /// Changes a day; infinite if the polls allow any rate, however high.
    pub per_day: f64,
    /// The true rate is lower than this with a chance of 5 %.
    pub low_per_day: f64,
    /// The true rate is higher than this with a chance of 5 %.
    pub high_per_day: f64,
}

/// The chance on either side of an interval.
const TAIL: f64 = 0.05;

fn n_changes(observations: &[Observation]) -> usize {
    observations.iter().filter(|poll| poll.is_change()).count()
}

/// Σ of the intervals between polls, in days.
fn total_days(observations: &[Observation]) -> f64 {
    observations.iter().map(|poll| poll.elapsed.0).sum()
}

/// Polls at these intervals in days; a negative one saw a change.
#[cfg(test)]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Gamma;
    use rand::{RngExt, SeedableRng};
    use rand_distr::{Distribution, LogNormal};
    use rand_pcg::Pcg64;

    fn all() -> Vec<(&'static str, Box<dyn Estimator>)> {
        let prior = Prior::fixed(Gamma::new(0.5, 0.5).unwrap());
        vec![
            ("naive", Box::new(Naive)),
            ("bias-reduced", Box::new(BiasReduced)),
            ("likelihood", Box::new(Likelihood)),
            ("last-modified", Box::new(LastModified)),
            ("bayes", Box::new(Bayes::new(prior))),
        ]
    }

    #[test]
    fn all_are_defined_when_every_poll_saw_a_change_and_when_none_did() {
        for n in [1, 2, 30] {
            for days in [1e-6, 1.0, 1e6] {
                let (never, always) = (polls(&vec![days; n]), polls(&vec![-days; n]));
                for (name, estimator) in all() {
                    let never = estimator.estimate(&never);
                    assert_eq!((never.n_polls, never.n_changes), (n, 0), "{name}");
                    assert!(never.low_per_day <= never.per_day, "{name} {never:?}");
                    assert!(never.high_per_day >= never.per_day, "{name} {never:?}");
                    assert!(never.high_per_day.is_finite(), "{name} {never:?}");
                    assert_eq!(never.per_day == 0.0, name != "bayes", "{name} {never:?}");
                    let always = estimator.estimate(&always);
                    assert_eq!(always.n_changes, n, "{name}");
                    assert!(always.low_per_day.is_finite(), "{name} {always:?}");
                    assert!(always.low_per_day > 0.0, "{name} {always:?}");
                    assert!(
                        always.high_per_day > always.low_per_day,
                        "{name} {always:?}"
                    );
                    assert_eq!(always.per_day.is_infinite(), name == "likelihood");
                    assert_eq!(always.high_per_day.is_infinite(), name == "likelihood");
                }
            }
        }
    }

    #[test]
    fn no_polls_say_nothing() {
        for (name, estimator) in all() {
            let estimate = estimator.estimate(&[]);
            assert_eq!((estimate.n_polls, estimate.n_changes), (0, 0), "{name}");
            assert!(!estimate.per_day.is_nan() && !estimate.low_per_day.is_nan());
            assert!(estimate.high_per_day >= estimate.low_per_day, "{name}");
        }
    }

    #[test]
    fn the_unit_of_time_does_not_matter() {
        let days = [1.0, -2.0, 3.0, -0.5, 0.25, 1.0, -8.0, 1.0];
        let scaled = days.map(|days| days * 1000.0);
        for (name, estimator) in all().into_iter().take(4) {
            let (a, b) = (
                estimator.estimate(&polls(&days)),
                estimator.estimate(&polls(&scaled)),
            );
            for (a, b) in [
                (a.per_day, b.per_day),
                (a.low_per_day, b.low_per_day),
                (a.high_per_day, b.high_per_day),
            ] {
                assert!((a / (b * 1000.0) - 1.0).abs() < 1e-9, "{name}: {a} {b}");
            }
        }
    }

    /// A Poisson world: elements with lognormal rates, polled `n` times each at
    /// intervals that vary, with Last-Modified or without.
    fn world(n: usize, median: f64, sigma: f64, with_age: bool) -> Vec<(f64, Vec<Observation>)> {
        let mut rng = Pcg64::seed_from_u64(7);
        let rates = LogNormal::new(median.ln(), sigma).unwrap();
        let element = |_| {
            let rate: f64 = rates.sample(&mut rng);
            let poll = |_| {
                let elapsed: f64 = rng.random_range(0.3..1.7);
                // The last change lies an exponential time back.
                let age = -(1.0 - rng.random::<f64>()).ln() / rate;
                let outcome = if age < elapsed {
                    let age = with_age.then_some(Span(age));
                    Outcome::Changed { age }
                } else {
                    Outcome::Unchanged
                };
                Observation::new(Span(elapsed), outcome).unwrap()
            };
            let observations = (0..n).map(poll).collect();
            (rate, observations)
        };
        (0..3000).map(element).collect()
    }

    #[test]
    fn intervals_hold_what_they_promise() {
        for (n, median, sigma, with_age) in [
            (10, 0.5, 0.5, false),
            (30, 0.5, 1.0, false),
            (100, 0.3, 1.0, false),
            (40, 3.0, 0.7, false),
            (20, 0.5, 0.8, true),
            (60, 0.2, 1.2, true),
        ] {
            let world = world(n, median, sigma, with_age);
            let histories: Vec<_> = world.iter().map(|(_, polls)| polls.as_slice()).collect();
            let prior = Prior::fitted(&histories);
            let mut estimators = all();
            estimators.pop();
            estimators.push(("bayes", Box::new(Bayes::new(prior))));
            for (name, estimator) in estimators {
                let holds = |(rate, polls): &&(f64, Vec<Observation>)| {
                    let estimate = estimator.estimate(polls);
                    (estimate.low_per_day..=estimate.high_per_day).contains(rate)
                };
                let share = world.iter().filter(holds).count() as f64 / world.len() as f64;
                // 3,000 elements: one standard error is 0.55 %.
                assert!(
                    (0.87..0.93).contains(&share),
                    "{name}: {share} in n = {n}, {sigma}"
                );
            }
        }
    }
}
