//! What holds for any rates, weights, costs and budgets.

use proptest::prelude::*;
use springtide_policy::freshness::{expected_age, expected_freshness};
use springtide_policy::plan::{Policy, Rule, RulePolicy, Target};
use springtide_policy::report::report;
use springtide_policy::value::PollValue;
use springtide_policy::{
    Budget, Caps, Cost, Frequency, GroupId, Objective, Order, Rate, Span, Weight,
};

use crate::brute::{Columns, Plain, planned, total};

const OBJECTIVES: [Objective; 3] = [Objective::Freshness, Objective::Age, Objective::Content];
const ORDERS: [Order; 3] = [Order::Fixed, Order::Random, Order::PurelyRandom];

/// Numbers over many orders of magnitude.
fn positive() -> impl Strategy<Value = f64> {
    (-6.0..6.0_f64).prop_map(|exponent| 10.0_f64.powf(exponent))
}

fn rate() -> impl Strategy<Value = f64> {
    prop_oneof![1 => Just(0.0), 2 => Just(1.0), 9 => positive()]
}

fn weight() -> impl Strategy<Value = f64> {
    prop_oneof![1 => Just(0.0), 4 => Just(1.0), 9 => positive()]
}

fn elements() -> impl Strategy<Value = Vec<Plain>> {
    let cost = prop_oneof![2 => Just(1.0), 1 => positive()];
    proptest::collection::vec((rate(), weight(), cost), 1..40)
}

/// Elements that can all use a poll, and all alike in weight and cost.
fn plain_rates() -> impl Strategy<Value = Vec<Plain>> {
    proptest::collection::vec(positive().prop_map(|rate| (rate, 1.0, 1.0)), 1..40)
}

fn used(elements: &[Plain], frequencies: &[f64]) -> f64 {
    elements
        .iter()
        .zip(frequencies)
        .map(|(element, f)| element.2 * f)
        .sum()
}

fn mean_freshness(elements: &[Plain], frequencies: &[f64], order: Order) -> f64 {
    let fresh = |(element, &f): (&Plain, &f64)| {
        let (rate, f) = (
            Rate::per_day(element.0).unwrap(),
            Frequency::per_day(f).unwrap(),
        );
        expected_freshness(rate, f, order)
    };
    elements.iter().zip(frequencies).map(fresh).sum::<f64>() / elements.len() as f64
}

fn mean_age(elements: &[Plain], frequencies: &[f64], order: Order) -> f64 {
    let age = |(element, &f): (&Plain, &f64)| {
        let (rate, f) = (
            Rate::per_day(element.0).unwrap(),
            Frequency::per_day(f).unwrap(),
        );
        expected_age(rate, f, order).as_days()
    };
    elements.iter().zip(frequencies).map(age).sum::<f64>() / elements.len() as f64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_budget_is_spent_whenever_anyone_can_use_it(elements in elements(), budget in positive()) {
        for rule in [Rule::Uniform, Rule::Proportional] {
            let frequencies = planned(&elements, rule, budget);
            let spends = rule == Rule::Uniform || elements.iter().any(|e| e.0 > 0.0);
            let spent = used(&elements, &frequencies);
            prop_assert!((spent / budget - f64::from(u8::from(spends))).abs() < 1e-10);
        }
        for objective in OBJECTIVES {
            let frequencies = planned(&elements, Rule::Optimal(objective), budget);
            let spends = elements.iter().any(|e| e.0 > 0.0 && e.1 > 0.0);
            let spent = used(&elements, &frequencies);
            prop_assert!((spent / budget - f64::from(u8::from(spends))).abs() < 1e-10);
            for (element, frequency) in elements.iter().zip(&frequencies) {
                prop_assert!(*frequency >= 0.0 && frequency.is_finite());
                prop_assert!(element.0 * element.1 > 0.0 || *frequency == 0.0);
            }
        }
    }

    /// Karush, Kuhn and Tucker: a poll is worth the price wherever there are
    /// polls, and no more than the price wherever there are none.
    #[test]
    fn every_poll_is_worth_the_price(elements in elements(), budget in positive()) {
        let columns = Columns::new(&elements);
        for objective in OBJECTIVES {
            let plan = RulePolicy::new(Rule::Optimal(objective))
                .plan(&columns.candidates(), &Budget::per_day(budget).unwrap());
            let Some(price) = plan.price().filter(|&price| price > 0.0) else { continue };
            let frequencies = plan.frequencies(&columns.candidates());
            for (element, frequency) in elements.iter().zip(frequencies) {
                if element.0 * element.1 == 0.0 {
                    continue;
                }
                let value = PollValue::known(objective, Rate::per_day(element.0).unwrap())
                    .weighing(Weight::new(element.1).unwrap())
                    .costing(Cost::new(element.2).unwrap());
                let worth = value.after(frequency.interval());
                if frequency > Frequency::ZERO {
                    prop_assert!((worth / price - 1.0).abs() < 1e-9, "{worth} {price} {element:?}");
                } else {
                    prop_assert!(worth <= price * (1.0 + 1e-12), "{worth} {price} {element:?}");
                }
            }
        }
    }

    #[test]
    fn no_small_shift_of_budget_improves_a_plan(
        elements in elements(), budget in positive(), from in 0..40_usize, to in 0..40_usize,
    ) {
        let (from, to) = (from % elements.len(), to % elements.len());
        for objective in OBJECTIVES {
            let mut frequencies = planned(&elements, Rule::Optimal(objective), budget);
            let before = total(objective, &elements, &frequencies);
            let moved = 0.1 * frequencies[from] * elements[from].2;
            frequencies[from] -= moved / elements[from].2;
            frequencies[to] += moved / elements[to].2;
            let after = total(objective, &elements, &frequencies);
            prop_assert!(before.is_finite());
            prop_assert!(after <= before + 1e-9 * before.abs());
        }
    }

    /// Theorem 3, for every order, whatever the rates.
    #[test]
    fn uniform_is_never_less_fresh_than_proportional(elements in plain_rates(), budget in positive()) {
        let uniform = planned(&elements, Rule::Uniform, budget);
        let proportional = planned(&elements, Rule::Proportional, budget);
        for order in ORDERS {
            let (u, p) = (
                mean_freshness(&elements, &uniform, order),
                mean_freshness(&elements, &proportional, order),
            );
            prop_assert!(u >= p * (1.0 - 1e-12), "{order:?}: {u} {p}");
        }
    }

    /// Theorem 4, for every order, whatever the rates.
    #[test]
    fn uniform_is_never_older_than_proportional(elements in plain_rates(), budget in positive()) {
        let uniform = planned(&elements, Rule::Uniform, budget);
        let proportional = planned(&elements, Rule::Proportional, budget);
        for order in ORDERS {
            let (u, p) = (
                mean_age(&elements, &uniform, order),
                mean_age(&elements, &proportional, order),
            );
            prop_assert!(u <= p * (1.0 + 1e-12), "{order:?}: {u} {p}");
        }
    }

    /// Theorem 5: if (λ, f) is on the graph of price μ, then (μλ, μf) is on that
    /// of price one.
    #[test]
    fn the_optimal_graph_only_scales_with_the_price(rate in positive(), price in positive()) {
        let interval = |rate: f64, price: f64| {
            let value = PollValue::known(Objective::Freshness, Rate::per_day(rate).unwrap());
            value.reaches(price).map(Span::as_days)
        };
        match (interval(rate, price), interval(rate * price, 1.0)) {
            (Some(time), Some(scaled)) => {
                // 1/f scales by 1/μ; near the end of the graph rounding is magnified.
                let y = rate * price;
                prop_assert!((time / (scaled * price) - 1.0).abs() < 1e-12 / (1.0 - y).max(1e-6));
            }
            (None, None) => {}
            other => prop_assert!((rate * price - 1.0).abs() < 1e-12, "{other:?}"),
        }
    }

    #[test]
    fn optimal_is_never_worse_than_the_other_rules(elements in elements(), budget in positive()) {
        for objective in OBJECTIVES {
            let best = planned(&elements, Rule::Optimal(objective), budget);
            let best = total(objective, &elements, &best);
            for rule in [Rule::Uniform, Rule::Proportional] {
                let other = planned(&elements, rule, budget);
                let other = total(objective, &elements, &other);
                prop_assert!(best.is_finite());
                prop_assert!(other <= best + 1e-9 * best.abs(), "{objective:?} {rule:?}");
            }
        }
    }

    #[test]
    fn more_budget_never_hurts(elements in elements(), budget in positive(), more in 1.0..3.0_f64) {
        for rule in [Rule::Uniform, Rule::Proportional, Rule::Optimal(Objective::Freshness), Rule::Optimal(Objective::Age)] {
            let less = planned(&elements, rule, budget);
            let more = planned(&elements, rule, budget * more);
            for (less, more) in less.iter().zip(&more) {
                prop_assert!(*more >= less * (1.0 - 1e-9));
            }
            let fresh = |f: &[f64]| mean_freshness(&elements, f, Order::Fixed);
            prop_assert!(fresh(&more) >= fresh(&less) - 1e-12);
            prop_assert!((0.0..=1.0).contains(&fresh(&less)));
        }
    }

    #[test]
    fn caps_and_floors_hold_and_the_rest_is_spent(
        elements in elements(),
        budget in positive(),
        caps in proptest::collection::vec(prop_oneof![1 => Just(0.0), 5 => positive()], 3),
        floor in prop_oneof![2 => Just(0.0), 1 => positive().prop_map(|f| f * 1e-3)],
    ) {
        let columns = Columns::new(&elements);
        // Every fourth element is in no group.
        let group = |index: usize| GroupId::new((index % 4) as u32).filter(|_| index % 4 < 3);
        let groups: Vec<_> = (0..elements.len()).map(group).collect();
        let candidates = columns.candidates().with_groups(&groups).unwrap();
        let caps = (0..).filter_map(GroupId::new).zip(caps.iter().copied());
        let limits = Caps::per_day(caps.clone()).unwrap();
        let limited = Budget::per_day(budget).unwrap().with_caps(limits);
        let floor = Frequency::per_day(floor).unwrap();
        for rule in [Rule::Uniform, Rule::Proportional, Rule::Optimal(Objective::Freshness), Rule::Optimal(Objective::Age), Rule::Optimal(Objective::Content)] {
            let plan = RulePolicy::new(rule).with_floor(floor).plan(&candidates, &limited);
            let frequencies = plan.frequencies(&candidates);
            let cost_in = |wanted: Option<GroupId>| {
                let of = elements.iter().zip(&frequencies).zip(&groups);
                of.filter(|(_, group)| **group == wanted).map(|((e, f), _)| e.2 * f.as_per_day()).sum::<f64>()
            };
            let spent = used(&elements, &frequencies.iter().map(|f| f.as_per_day()).collect::<Vec<_>>());
            prop_assert!(spent <= budget * (1.0 + 1e-10), "{rule:?}: {spent} of {budget}");
            let mut all_full = true;
            for (group, cap) in caps.clone() {
                prop_assert!(cost_in(Some(group)) <= cap * (1.0 + 1e-10), "{rule:?}");
                let can_use = |(e, g): (&Plain, &Option<GroupId>)| *g == Some(group) && can_use(rule, e);
                let full = cost_in(Some(group)) >= cap * (1.0 - 1e-9);
                all_full &= full || !elements.iter().zip(&groups).any(can_use);
            }
            let free = elements.iter().zip(&groups).any(|(e, g)| g.is_none() && can_use(rule, e));
            if free || !all_full {
                prop_assert!((spent / budget - 1.0).abs() < 1e-9, "{rule:?}: {spent} of {budget}");
            }
            // A frequency below the floor is one that a whole group, or everybody,
            // shares for want of budget.
            for (index, frequency) in frequencies.iter().enumerate() {
                if *frequency < floor {
                    let alike = frequencies.iter().zip(&groups).filter(|(_, g)| **g == groups[index]);
                    for (other, _) in alike {
                        let (a, b) = (other.as_per_day(), frequency.as_per_day());
                        prop_assert!((a - b).abs() <= 1e-9 * b);
                    }
                }
            }
        }
    }

    #[test]
    fn the_least_budget_reaches_its_target(
        elements in elements(), wanted in 0.05..0.95_f64, days in positive(),
    ) {
        let columns = Columns::new(&elements);
        let candidates = columns.candidates();
        prop_assume!(elements.iter().any(|e| e.1 > 0.0));
        for order in ORDERS {
            for rule in [Rule::Uniform, Rule::Proportional, Rule::Optimal(Objective::Freshness)] {
                let target = Target::freshness(wanted, order).unwrap();
                let plan = RulePolicy::new(rule).least(&candidates, &Caps::default(), target).unwrap();
                let reached = report(&plan, &candidates, order);
                prop_assert!(reached.freshness >= wanted - 1e-9, "{rule:?}");
                // Not more than needed, but where nothing was.
                prop_assert!(plan.budget_per_day() == 0.0 || reached.freshness <= wanted + 1e-9, "{rule:?}");
                prop_assert!((reached.used_per_day - plan.budget_per_day()).abs() <= 1e-9 * plan.budget_per_day());
            }
            let target = Target::age(Span::days(days).unwrap(), order);
            let plan = RulePolicy::new(Rule::Optimal(Objective::Age)).least(&candidates, &Caps::default(), target).unwrap();
            let reached = report(&plan, &candidates, order);
            prop_assert!((reached.age.as_days() / days - 1.0).abs() < 1e-9 || plan.budget_per_day() == 0.0);
        }
    }

    #[test]
    fn the_unit_of_time_does_not_matter(elements in elements(), budget in positive(), factor in 0.01..100.0_f64) {
        for rule in [Rule::Uniform, Rule::Optimal(Objective::Freshness), Rule::Optimal(Objective::Age)] {
            let scaled: Vec<Plain> = elements.iter().map(|e| (e.0 * factor, e.1, e.2)).collect();
            let before = planned(&elements, rule, budget);
            let after = planned(&scaled, rule, budget * factor);
            for (before, after) in before.iter().zip(after) {
                // Next to the cliff, what is rounded differently may fall.
                prop_assert!((before * factor - after).abs() <= 1e-6 * after.max(budget * factor / 1e3));
            }
        }
    }
}

fn can_use(rule: Rule, element: &Plain) -> bool {
    match rule {
        Rule::Uniform => true,
        Rule::Proportional => element.0 > 0.0,
        Rule::Optimal(_) => element.0 > 0.0 && element.1 > 0.0,
    }
}

/// Enough elements that the plan is solved by samples and digests.
#[test]
fn large_plans_are_as_exact_as_small_ones() {
    let n = 300_000_u32;
    // A spread of rates and weights without random numbers: fractional parts of
    // multiples of irrational numbers, stretched over ten and five orders of
    // magnitude.
    let spread = |index: u32, factor: f64, orders: f64| {
        10.0_f64.powf(orders * ((f64::from(index) * factor).fract() - 0.5))
    };
    let element = |index| {
        let rate = spread(index, 0.618_033_988_749_895, 10.0);
        (rate, spread(index, 0.754_877_666_246_693, 5.0), 1.0)
    };
    let elements: Vec<Plain> = (0..n).map(element).collect();
    for budget_per_element in [1e-3, 0.05, 1.0, 30.0] {
        let budget = f64::from(n) * budget_per_element;
        let columns = Columns::new(&elements);
        for objective in OBJECTIVES {
            let plan = RulePolicy::new(Rule::Optimal(objective))
                .plan(&columns.candidates(), &Budget::per_day(budget).unwrap());
            let price = plan.price().unwrap();
            let frequencies = plan.frequencies(&columns.candidates());
            let spent: f64 = frequencies.iter().map(|f| f.as_per_day()).sum();
            assert!(
                (spent / budget - 1.0).abs() < 1e-11,
                "{objective:?}: {}",
                spent / budget - 1.0
            );
            for (element, frequency) in elements.iter().zip(frequencies).step_by(101) {
                let (rate, weight) = (
                    Rate::per_day(element.0).unwrap(),
                    Weight::new(element.1).unwrap(),
                );
                let alone = plan.frequency(rate, weight, Cost::ONE, None);
                assert_eq!(alone, frequency);
                let value = PollValue::known(objective, Rate::per_day(element.0).unwrap())
                    .weighing(Weight::new(element.1).unwrap());
                match value.reaches(price) {
                    None => assert_eq!(frequency, Frequency::ZERO),
                    Some(time) => {
                        let exact = 1.0 / time.as_days();
                        assert!((frequency.as_per_day() / exact - 1.0).abs() < 1e-9);
                    }
                }
            }
        }
    }
}

#[test]
fn equal_rates_get_equal_frequencies_however_scarce_the_budget() {
    for n in [1, 2, 100_000] {
        let elements = vec![(1.0, 1.0, 1.0); n];
        for budget_per_element in [1e-9, 0.01, 0.5, 1e9] {
            let budget = budget_per_element * n as f64;
            for objective in OBJECTIVES {
                for frequency in planned(&elements, Rule::Optimal(objective), budget) {
                    assert!(
                        (frequency / budget_per_element - 1.0).abs() < 1e-10,
                        "{frequency}"
                    );
                }
            }
        }
    }
}

#[test]
fn an_empty_budget_polls_nobody() {
    let elements = [(1.0, 1.0, 1.0), (0.0, 1.0, 1.0)];
    for rule in [
        Rule::Uniform,
        Rule::Proportional,
        Rule::Optimal(Objective::Freshness),
        Rule::Optimal(Objective::Age),
    ] {
        assert_eq!(planned(&elements, rule, 0.0), [0.0, 0.0]);
    }
}

#[test]
fn a_target_that_no_budget_reaches_says_what_is_the_best() {
    let columns = Columns::new(&[(1.0, 1.0, 1.0), (2.0, 1.0, 1.0)]);
    let candidates = columns.candidates();
    let optimal = RulePolicy::new(Rule::Optimal(Objective::Freshness));
    let always = Target::freshness(1.0, Order::Fixed).unwrap();
    let refused = optimal
        .least(&candidates, &Caps::default(), always)
        .unwrap_err();
    assert!((refused.freshness - 1.0).abs() < 1e-9);

    let group = GroupId::new(7).unwrap();
    let groups = [Some(group), Some(group)];
    let candidates = candidates.with_groups(&groups).unwrap();
    let caps = Caps::per_day([(group, 1.0)]).unwrap();
    let most = Target::freshness(0.9, Order::Fixed).unwrap();
    let refused = optimal.least(&candidates, &caps, most).unwrap_err();
    assert!(
        refused.freshness > 0.3 && refused.freshness < 0.5,
        "{refused:?}"
    );
}
