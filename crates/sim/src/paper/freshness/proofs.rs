//! The appendices of the technical report: its theorems, tried on many cases.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use springtide_policy::freshness::{expected_age, expected_freshness, freshness_after};
use springtide_policy::plan::{Candidates, Policy, Rule, RulePolicy};
use springtide_policy::report::{Report, report};
use springtide_policy::value::PollValue;
use springtide_policy::{Budget, Objective, Order, Rate};

use super::framework::random_intervals;
use super::{Listed, ORDERS, days, evenly, evenly_in_log, frequency, peak, planned, rate};
use crate::figure::{Axis, Figure, Mark};
use crate::paper::{Computed, Entry, Setting};

pub(super) const EXHIBITS: &[Listed] = &[
    (
        "theorem-1",
        "Freshness of all is the mean of the freshness of each",
        theorem_1,
    ),
    ("figure-14", "Expected freshness in fixed order", figure_14),
    (
        "theorem-2",
        "Freshness over time is that over one interval",
        theorem_2,
    ),
    (
        "claim-lemma-2",
        "Appendix B: how intervals in random order are distributed",
        lemma_2,
    ),
    (
        "theorem-3",
        "Uniform polling is at least as fresh as proportional",
        theorem_3,
    ),
    (
        "theorem-4",
        "Uniform polling is at most as old as proportional",
        theorem_4,
    ),
    ("figure-17", "The best frequency at a price", figure_17),
    ("figure-18", "The best frequency at two prices", figure_18),
    (
        "theorem-5",
        "The price scales the graph of the best frequency",
        theorem_5,
    ),
    (
        "claim-peak",
        "Appendix E: where the graph of the best frequency is highest",
        claim_peak,
    ),
];

/// Some elements' rates, at random: two to twenty of them, over four decades.
fn some_rates(rng: &mut Pcg64Mcg) -> Vec<f64> {
    let n = rng.random_range(2..=20);
    let draw = |_| 10_f64.powf(rng.random_range(-2.0..2.0));
    (0..n).map(draw).collect()
}

const CASES: u32 = 1000;

fn theorem_1(setting: &Setting<'_>) -> Computed {
    let mut rng = Pcg64Mcg::seed_from_u64(setting.seed);
    let (mut freshness, mut age) = (0.0_f64, 0.0_f64);
    for _ in 0..CASES {
        let rates = some_rates(&mut rng);
        let n = rates.len() as f64;
        let (frequencies, all) = planned(&rates, Rule::Proportional, n);
        let each = || {
            rates
                .iter()
                .zip(&frequencies)
                .map(|(&r, &f)| (rate(r), frequency(f)))
        };
        let mean = each()
            .map(|(r, f)| expected_freshness(r, f, Order::Fixed))
            .sum::<f64>()
            / n;
        freshness = freshness.max((all.freshness - mean).abs());
        let mean = each()
            .map(|(r, f)| expected_age(r, f, Order::Fixed).as_days())
            .sum::<f64>()
            / n;
        age = age.max((all.age.as_days() / mean - 1.0).abs());
    }
    Computed {
        entries: vec![
            Entry::rounds_to(
                "largest difference in freshness, 1000 cases",
                0.0,
                9,
                freshness,
            ),
            Entry::rounds_to(
                "largest relative difference in age, 1000 cases",
                0.0,
                9,
                age,
            ),
        ],
        figures: Vec::new(),
        remark: "What a report says of all elements is the mean over them.",
    }
}

fn figure_14(_: &Setting<'_>) -> Computed {
    let curve = (0..4_u32).flat_map(|cycle| {
        evenly(0.0, 1.0, 60).map(move |elapsed| {
            let fresh = freshness_after(rate(1.0), days(elapsed));
            (f64::from(cycle) + elapsed, fresh)
        })
    });
    let mean = expected_freshness(rate(1.0), frequency(1.0), Order::Fixed);
    Computed {
        entries: vec![
            Entry::rounds_to(
                "freshness just after a poll",
                1.0,
                9,
                freshness_after(rate(1.0), days(0.0)),
            ),
            Entry::unprinted(
                "freshness just before a poll r=1",
                freshness_after(rate(1.0), days(1.0)),
            ),
            Entry::unprinted("freshness, mean r=1", mean),
        ],
        figures: vec![
            Figure::new(
                "Expected freshness of an element polled every I",
                Axis::linear("time in units of I (r = 1)").between(0.0, 4.0),
                Axis::linear("E[F]").between(0.0, 1.0),
            )
            .with("expected freshness", Mark::Line, curve)
            .with("mean", Mark::Dashed, [(0.0, mean), (4.0, mean)]),
        ],
        remark: "Every poll brings the copy back to fresh, and the same cycle begins.",
    }
}

fn theorem_2(_: &Setting<'_>) -> Computed {
    // Middles of small steps: the error of the sum falls with the square of the step.
    let n_steps = 20_000;
    let over_interval = |r: f64| {
        let middles = (0..n_steps).map(|step| (f64::from(step) + 0.5) / f64::from(n_steps));
        let sum: f64 = middles.map(|t| freshness_after(rate(r), days(t))).sum();
        sum / f64::from(n_steps)
    };
    let largest = evenly_in_log(0.01, 20.0, 50)
        .map(|r| {
            (over_interval(r) - expected_freshness(rate(r), frequency(1.0), Order::Fixed)).abs()
        })
        .fold(0.0, f64::max);
    Computed {
        entries: vec![Entry::rounds_to(
            "largest difference, r in 0.01..20",
            0.0,
            6,
            largest,
        )],
        figures: Vec::new(),
        remark: "The integral of the expected freshness over one interval, summed up numerically, \
                 is the freshness of Table 2.",
    }
}

fn lemma_2(setting: &Setting<'_>) -> Computed {
    let found = random_intervals(10_000, setting.seed);
    Computed {
        entries: vec![
            Entry::rounds_to("mean interval random I=1, as T1 − T2", -1.0, 2, found.mean)
                .noted("erratum: the interval is T2 − T1, the later poll less the earlier; the density is right"),
            Entry::rounds_to("share of intervals below I random", 0.5, 2, found.short_share),
            Entry::rounds_to("longest interval random I=1", 2.0, 1, found.longest),
        ],
        figures: Vec::new(),
        remark: "The intervals of 10,000 elements over 100 rounds, each in another order, against \
                 the triangular density of the lemma.",
    }
}

/// What uniform and proportional polling give for the same elements and budget.
fn both(rates: &[f64], budget: f64, order: Order) -> [Report; 2] {
    let rates: Vec<Rate> = rates.iter().copied().map(rate).collect();
    let candidates = Candidates::new(&rates).expect("a few elements");
    let budget = Budget::per_day(budget).expect("a finite budget");
    [Rule::Uniform, Rule::Proportional].map(|rule| {
        let plan = RulePolicy::new(rule).plan(&candidates, &budget);
        report(&plan, &candidates, order)
    })
}

/// Tries a statement about the two policies in every order: how far it was missed at
/// most, and how often by more than rounding.
fn compare(setting: &Setting<'_>, statement: &str, missed: fn(&[Report; 2]) -> f64) -> Vec<Entry> {
    let tried = |(order, name): (Order, &str)| {
        let mut rng = Pcg64Mcg::seed_from_u64(setting.seed);
        let cases = (0..CASES).map(|_| {
            let rates = some_rates(&mut rng);
            let budget = rates.len() as f64 * 10_f64.powf(rng.random_range(-2.0..2.0));
            missed(&both(&rates, budget, order))
        });
        let exceptions = cases.filter(|missed| *missed > 1e-12).count();
        Entry::holds(format!("{statement} {name}, of 1000 cases"), exceptions)
    };
    ORDERS.into_iter().map(tried).collect()
}

fn theorem_3(setting: &Setting<'_>) -> Computed {
    let statement = "cases where proportional is fresher than uniform,";
    Computed {
        entries: compare(setting, statement, |[uniform, proportional]| {
            proportional.freshness - uniform.freshness
        }),
        figures: Vec::new(),
        remark: "Two to twenty elements with rates over four decades, budgets over four decades, \
                 drawn from the seed.",
    }
}

fn theorem_4(setting: &Setting<'_>) -> Computed {
    let statement = "cases where proportional is younger than uniform,";
    Computed {
        entries: compare(setting, statement, |[uniform, proportional]| {
            1.0 - proportional.age.as_days() / uniform.age.as_days()
        }),
        figures: Vec::new(),
        remark: "The same cases as for Theorem 3, by age.",
    }
}

/// The frequency at which polls of an element are worth the price, a day.
fn best_frequency(changes: f64, price: f64) -> f64 {
    let value = PollValue::known(Objective::Freshness, rate(changes));
    value
        .reaches(price)
        .map_or(0.0, |span| 1.0 / span.as_days())
}

/// The graph of ∂F/∂f = μ.
fn graph(price: f64) -> impl Iterator<Item = (f64, f64)> {
    evenly(0.0, 1.1 / price, 330).map(move |changes| (changes, best_frequency(changes, price)))
}

fn axes(title: &str) -> Figure {
    Figure::new(
        title,
        Axis::linear("rate λ"),
        Axis::linear("best frequency f"),
    )
}

fn figure_17(_: &Setting<'_>) -> Computed {
    let worth = |changes: f64| {
        let value = PollValue::known(Objective::Freshness, rate(changes));
        value.after(days(1.0 / best_frequency(changes, 1.0)))
    };
    let off = evenly(0.01, 0.99, 98).map(|changes| (worth(changes) - 1.0).abs());
    Computed {
        entries: vec![
            Entry::rounds_to(
                "largest difference of ∂F/∂f from the price, price=1",
                0.0,
                9,
                off.fold(0.0, f64::max),
            ),
            Entry::rounds_to(
                "frequency lambda=1 price=1",
                0.0,
                9,
                best_frequency(1.0, 1.0),
            ),
        ],
        figures: vec![axes("Where a poll is worth its price, μ = 1").with(
            "μ = 1",
            Mark::Line,
            graph(1.0),
        )],
        remark: "From λ = 1/μ on no frequency satisfies the equation, and the element is not \
                 polled: footnote 8 of the report, without which the solution would be wrong.",
    }
}

fn figure_18(_: &Setting<'_>) -> Computed {
    let figure = axes("Where a poll is worth its price")
        .with("μ = 1", Mark::Line, graph(1.0))
        .with("μ = 2", Mark::Line, graph(2.0));
    let ends = [1.0, 2.0].map(|price| {
        let polled =
            evenly(0.0, 1.1, 11_000).filter(|changes| best_frequency(*changes, price) > 0.0);
        Entry::rounds_to(
            format!("rate where polling ends price={price}"),
            1.0 / price,
            2,
            polled.fold(0.0, f64::max),
        )
    });
    Computed {
        entries: ends.to_vec(),
        figures: vec![figure],
        remark: "The graph at twice the price is the same at half the size.",
    }
}

fn theorem_5(_: &Setting<'_>) -> Computed {
    let mut largest = 0.0_f64;
    for price in evenly_in_log(1e-3, 1e3, 60) {
        for changes in evenly(0.02, 0.98, 48).map(|share| share / price) {
            let polls = best_frequency(changes, price);
            let scaled = PollValue::known(Objective::Freshness, rate(price * changes));
            let worth = scaled.after(days(1.0 / (price * polls)));
            largest = largest.max((worth - 1.0).abs());
        }
    }
    Computed {
        entries: vec![Entry::rounds_to(
            "largest difference of ∂F/∂f at (μλ, μf) from 1, price in 0.001..1000",
            0.0,
            9,
            largest,
        )],
        figures: Vec::new(),
        remark: "If (λ, f) lies on the graph at price μ, then (μλ, μf) lies on the graph at price \
                 1.",
    }
}

fn claim_peak(_: &Setting<'_>) -> Computed {
    let at = |price: f64| {
        let rate = peak(0.1 / price, 0.99 / price, |changes| {
            best_frequency(changes, price)
        });
        (rate, best_frequency(rate, price))
    };
    let ((rate, polls), (half_rate, half_polls)) = (at(1.0), at(2.0));
    let note = "erratum: 0.53516 rounds to 0.54";
    Computed {
        entries: vec![
            Entry::rounds_to("rate at the peak price=1", 0.53, 2, rate).noted(note),
            Entry::rounds_to("frequency at the peak price=1", 0.3, 1, polls),
            Entry::rounds_to("rate at the peak price=2", 0.53 / 2.0, 3, half_rate)
                .noted("erratum: 0.53516/2 rounds to 0.268"),
            Entry::rounds_to("frequency at the peak price=2", 0.3 / 2.0, 2, half_polls),
        ],
        figures: Vec::new(),
        remark: "The element that is polled most at a price of 1, and at a price of 2.",
    }
}
