//! A slow and simple optimum, to compare plans with.

use springtide_policy::freshness::{expected_age, expected_freshness, expected_staleness};
use springtide_policy::plan::{Candidates, Policy, Rule, RulePolicy};
use springtide_policy::{Budget, Cost, Frequency, Objective, Order, Rate, Weight};

/// An element as plain numbers: rate, weight, cost.
pub(crate) type Plain = (f64, f64, f64);

/// Columns that candidates can borrow.
pub(crate) struct Columns {
    rates: Vec<Rate>,
    weights: Vec<Weight>,
    costs: Vec<Cost>,
}

impl Columns {
    pub(crate) fn new(elements: &[Plain]) -> Self {
        Self {
            rates: elements
                .iter()
                .map(|e| Rate::per_day(e.0).unwrap())
                .collect(),
            weights: elements.iter().map(|e| Weight::new(e.1).unwrap()).collect(),
            costs: elements.iter().map(|e| Cost::new(e.2).unwrap()).collect(),
        }
    }

    pub(crate) fn candidates(&self) -> Candidates<'_> {
        Candidates::new(&self.rates)
            .unwrap()
            .with_weights(&self.weights)
            .unwrap()
            .with_costs(&self.costs)
            .unwrap()
    }
}

/// Frequencies of a plan with this budget a day.
pub(crate) fn planned(elements: &[Plain], rule: Rule, budget: f64) -> Vec<f64> {
    let columns = Columns::new(elements);
    let plan = RulePolicy::new(rule).plan(&columns.candidates(), &Budget::per_day(budget).unwrap());
    let frequencies = plan.frequencies(&columns.candidates());
    frequencies.into_iter().map(Frequency::as_per_day).collect()
}

/// What an objective gains from one element at this frequency, up to a constant.
pub(crate) fn gain(objective: Objective, element: Plain, frequency: f64) -> f64 {
    // Nobody minds the (perhaps endless) age of what has no weight.
    if element.1 == 0.0 {
        return 0.0;
    }
    let rate = Rate::per_day(element.0).unwrap();
    let frequency = Frequency::per_day(frequency).unwrap();
    element.1
        * match objective {
            Objective::Freshness => expected_freshness(rate, frequency, Order::Fixed),
            Objective::Age => -expected_age(rate, frequency, Order::Fixed).as_days(),
            Objective::Content => -expected_staleness(rate, frequency, Order::Fixed),
        }
}

/// Σ gain.
pub(crate) fn total(objective: Objective, elements: &[Plain], frequencies: &[f64]) -> f64 {
    let pairs = elements.iter().zip(frequencies);
    pairs
        .map(|(&element, &frequency)| gain(objective, element, frequency))
        .sum()
}

/// The best total by giving the budget away in small steps, each to whoever
/// gains most from it. Since gains fall with what one already has, no other way
/// of giving these steps away is better.
fn in_steps(objective: Objective, elements: &[Plain], budget: f64, n_steps: u32) -> f64 {
    let step = budget / f64::from(n_steps);
    // Age and staleness are infinite at zero: everyone gets a step first.
    let mut frequencies: Vec<f64> = elements.iter().map(|e| step / e.2).collect();
    for _ in elements.len()..n_steps as usize {
        let marginal = |index: usize| {
            let (element, frequency) = (elements[index], frequencies[index]);
            gain(objective, element, frequency + step / element.2)
                - gain(objective, element, frequency)
        };
        let best = (0..elements.len()).max_by(|&a, &b| marginal(a).total_cmp(&marginal(b)));
        let best = best.unwrap();
        frequencies[best] += step / elements[best].2;
    }
    total(objective, elements, &frequencies)
}

#[test]
fn plans_match_a_brute_force_optimum() {
    let worlds: [(&[Plain], f64); 4] = [
        (
            &[
                (1.0, 1.0, 1.0),
                (2.0, 1.0, 1.0),
                (3.0, 1.0, 1.0),
                (4.0, 1.0, 1.0),
                (5.0, 1.0, 1.0),
            ],
            5.0,
        ),
        (&[(9.0, 1.0, 1.0), (1.0, 1.0, 1.0)], 10.0),
        (&[(0.1, 5.0, 2.0), (3.0, 1.0, 0.5), (0.5, 0.2, 1.0)], 1.5),
        (
            &[
                (0.01, 1.0, 1.0),
                (100.0, 1.0, 1.0),
                (1.0, 7.0, 3.0),
                (1.0, 7.0, 1.0),
            ],
            4.0,
        ),
    ];
    for (elements, budget) in worlds {
        for objective in [Objective::Freshness, Objective::Age, Objective::Content] {
            let frequencies = planned(elements, Rule::Optimal(objective), budget);
            let ours = total(objective, elements, &frequencies);
            let steps = in_steps(objective, elements, budget, 20_000);
            // Never worse than any other allocation; and the steps, which are
            // themselves nearly optimal, come close.
            let scale = steps.abs().max(1.0);
            assert!(
                ours >= steps - 1e-12 * scale,
                "{objective:?}: {ours} < {steps}"
            );
            assert!(
                ours - steps < 1e-3 * scale,
                "{objective:?}: {ours} against {steps}"
            );
        }
    }
}
