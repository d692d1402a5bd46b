//! What the frequency policy remembers of an element, and when it is due.

use super::Aim;
use crate::plan::{Candidates, Policy, Rule, RulePolicy};
use crate::{Budget, Objective, Rate, Span, Time, Weight};

/// How often an element was polled and found changed since it was first known.
#[derive(Debug, Clone, Copy)]
pub(super) struct History {
    pub(super) since: Time,
    pub(super) n_polls: u32,
    pub(super) n_changes: u32,
}

impl History {
    pub(super) fn new(now: Time) -> Self {
        Self {
            since: now,
            n_polls: 0,
            n_changes: 0,
        }
    }

    pub(super) fn observe(&mut self, changed: bool) {
        self.n_polls = self.n_polls.saturating_add(1);
        self.n_changes = self.n_changes.saturating_add(u32::from(changed));
    }

    /// The rate by the estimator of [`BiasReduced`](crate::estimate::BiasReduced),
    /// with I the mean interval.
    ///
    /// ```text
    /// λ̂ = −ln((n − X + ½) / (n + ½)) / I
    /// ```
    ///
    /// An element never seen to change counts as having changed half a time. Else
    /// it would never be polled again; so it is, ever more rarely, as the paper has
    /// it (section 4.5).
    pub(super) fn rate(&self, polled_at: Time) -> Rate {
        let days = polled_at.since(self.since).0;
        if self.n_polls == 0 || days == 0.0 {
            return Rate::ZERO;
        }
        let n = f64::from(self.n_polls);
        let x = f64::from(self.n_changes).max(0.5);
        Rate(-(-x / (n + 0.5)).ln_1p() * n / days)
    }
}

/// How long after its last poll each element is due, by the plan that is best for
/// the aim with a budget a day.
pub(super) fn intervals(
    rates: &[Rate],
    weights: impl Iterator<Item = f64>,
    aim: Aim,
    per_day: f64,
) -> Vec<Span> {
    // The plan that is best for freshness has g(λ/f) = μλ/w. With the rate in the
    // weight that is the plan that finds the most.
    let weights: Vec<Weight> = rates
        .iter()
        .zip(weights)
        .map(|(rate, weight)| match aim {
            Aim::Freshness => Weight(weight),
            Aim::Changes => Weight(weight * rate.0),
        })
        .collect();
    let candidates = Candidates::new(rates)
        .and_then(|candidates| candidates.with_weights(&weights))
        .expect("elements are numbered by 32 bits, and each has a weight");
    let budget = Budget::per_day(per_day).expect("counts and cycles are finite");
    let policy = RulePolicy::new(Rule::Optimal(Objective::Freshness));
    let plan = policy.plan(&candidates, &budget);
    let frequencies = plan.frequencies(&candidates);
    frequencies
        .iter()
        .map(|frequency| frequency.interval())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::{BiasReduced, Estimator};
    use crate::{Observation, Outcome};

    #[test]
    fn rates_are_those_of_the_bias_reduced_estimator() {
        let mut history = History::new(Time(10.0));
        let mut polls = Vec::new();
        for changed in [true, false, false, true, false] {
            history.observe(changed);
            let outcome = if changed {
                Outcome::Changed { age: None }
            } else {
                Outcome::Unchanged
            };
            polls.push(Observation::new(Span(3.0), outcome).unwrap());
        }
        let expected = BiasReduced.estimate(&polls).per_day;
        assert!((history.rate(Time(25.0)).0 - expected).abs() < 1e-12);
    }

    #[test]
    fn who_never_changed_is_thought_slower_with_every_poll() {
        let mut history = History::new(Time(0.0));
        let mut before = f64::INFINITY;
        for day in 1..10 {
            history.observe(false);
            let rate = history.rate(Time(f64::from(day))).0;
            assert!(rate > 0.0 && rate < before);
            before = rate;
        }
    }

    #[test]
    fn finding_changes_polls_in_proportion_to_the_rates() {
        let rates = [0.5, 1.0, 4.5].map(Rate);
        let intervals = intervals(&rates, [1.0; 3].into_iter(), Aim::Changes, 2.0);
        for (interval, expected) in intervals.iter().zip([6.0, 3.0, 2.0 / 3.0]) {
            assert!((interval.0 / expected - 1.0).abs() < 1e-9, "{intervals:?}");
        }
    }

    #[test]
    fn heavier_elements_are_polled_more_often_than_their_rates_say() {
        let intervals = intervals(
            &[Rate(1.0), Rate(1.0)],
            [1.0, 2.0].into_iter(),
            Aim::Changes,
            1.0,
        );
        assert!(intervals[1] < intervals[0]);
        // Together they make a poll a day.
        let total: f64 = intervals.iter().map(|interval| 1.0 / interval.0).sum();
        assert!((total - 1.0).abs() < 1e-9);
    }
}
