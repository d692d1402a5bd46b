//! Cho and Garcia-Molina, *Synchronizing a database to improve freshness*: the
//! SIGMOD paper of 2000, and the technical report of 1999 for the proofs.

mod framework;
mod measured;
mod orders;
mod plans;
mod proofs;

use springtide_policy::plan::{Candidates, Policy, Rule, RulePolicy};
use springtide_policy::report::{Report, report};
use springtide_policy::{Budget, Frequency, Objective, Order, Rate, Span};

use super::{Computed, Exhibit, Paper, Setting};

/// The exhibits in reading order: the sections of the paper, then the appendices of
/// the report.
pub(super) fn exhibits() -> Vec<Exhibit> {
    let exhibit = |(id, title, compute): (_, _, fn(&Setting<'_>) -> Computed)| Exhibit {
        paper: Paper::Freshness,
        id,
        title,
        compute,
    };
    [
        framework::EXHIBITS,
        orders::EXHIBITS,
        plans::EXHIBITS,
        measured::EXHIBITS,
        proofs::EXHIBITS,
    ]
    .concat()
    .into_iter()
    .map(exhibit)
    .collect()
}

/// An id, a title, and what computes it.
type Listed = (&'static str, &'static str, fn(&Setting<'_>) -> Computed);

const ORDERS: [(Order, &str); 3] = [
    (Order::Fixed, "fixed"),
    (Order::Random, "random"),
    (Order::PurelyRandom, "purely-random"),
];

const FRESHNESS: Rule = Rule::Optimal(Objective::Freshness);
const AGE: Rule = Rule::Optimal(Objective::Age);

fn rate(per_day: f64) -> Rate {
    Rate::per_day(per_day).expect("rates of the paper are finite")
}

fn frequency(per_day: f64) -> Frequency {
    Frequency::per_day(per_day).expect("frequencies of the paper are finite")
}

fn days(days: f64) -> Span {
    Span::days(days).expect("spans of the paper are finite")
}

/// How often a plan polls each element, a day, and what it gives.
fn planned(rates: &[f64], rule: Rule, budget: f64) -> (Vec<f64>, Report) {
    let rates: Vec<Rate> = rates.iter().copied().map(rate).collect();
    let candidates = Candidates::new(&rates).expect("a few elements");
    let budget = Budget::per_day(budget).expect("budgets of the paper are finite");
    let plan = RulePolicy::new(rule).plan(&candidates, &budget);
    let frequencies = plan.frequencies(&candidates).into_iter();
    (
        frequencies.map(Frequency::as_per_day).collect(),
        report(&plan, &candidates, Order::Fixed),
    )
}

/// Numbers from one to another, evenly.
fn evenly(from: f64, to: f64, n_steps: u32) -> impl Iterator<Item = f64> + Clone {
    (0..=n_steps).map(move |step| from + (to - from) * f64::from(step) / f64::from(n_steps))
}

/// Numbers from one to another, evenly in the logarithm.
fn evenly_in_log(from: f64, to: f64, n_steps: u32) -> impl Iterator<Item = f64> + Clone {
    evenly(from.ln(), to.ln(), n_steps).map(f64::exp)
}

/// Where a function that rises and then falls is highest: golden-section search,
/// to the half of the digits that a flat top shows.
fn peak(mut low: f64, mut high: f64, value: impl Fn(f64) -> f64) -> f64 {
    let golden = (5_f64.sqrt() - 1.0) / 2.0;
    for _ in 0..60 {
        let (left, right) = (high - golden * (high - low), low + golden * (high - low));
        if value(left) < value(right) {
            low = left;
        } else {
            high = right;
        }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use springtide_policy::{Element, Groups};

    use super::*;
    use crate::world::World;

    #[test]
    fn nothing_differs_but_for_the_known_errata() {
        let rates = [rate(0.1)];
        let elements = [Element::default()].into_iter().collect();
        let world = World::poisson(elements, Groups::new(), rates, 365.0, 1);
        let setting = Setting {
            history: &world,
            seed: 7,
        };
        let mut found = Vec::new();
        for exhibit in exhibits() {
            for entry in (exhibit.compute)(&setting).entries {
                if entry.agrees == Some(false) {
                    found.push(format!("{}: {}", exhibit.id, entry.quantity));
                }
            }
        }
        // Table 3 has one for every r and every spread from one on.
        found.retain(|entry| !entry.starts_with("table-3: age proportional"));
        let expected = [
            "claim-30-percent: gain in freshness, fixed over purely-random, percent r=1",
            "claim-one-fourth: age, fixed over random r=1",
            "figure-7: freshness, proportional over uniform r=1 delta2→∞",
            "table-5: frequency for age e1 lambda=1",
            "table-6: freshness proportional",
            "claim-500-percent: gain in freshness, optimal over proportional, percent",
            "claim-100-times: age, proportional over optimal",
            "claim-lemma-2: mean interval random I=1, as T1 − T2",
            "claim-peak: rate at the peak price=1",
            "claim-peak: rate at the peak price=2",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn peaks_are_found() {
        assert!((peak(-1.0, 5.0, |x| -(x - 2.0).powi(2)) - 2.0).abs() < 1e-7);
    }
}
