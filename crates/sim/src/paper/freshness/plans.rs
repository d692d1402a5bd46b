//! Section 5: how to share the budget, when elements change at different rates.

use springtide_policy::freshness::Population;
use springtide_policy::plan::{Candidates, Policy, Rule, RulePolicy};
use springtide_policy::value::PollValue;
use springtide_policy::{Budget, Objective, Order, Rate, Weight};

use super::orders::at;
use super::{AGE, FRESHNESS, Listed, evenly, evenly_in_log, frequency, peak, planned, rate};
use crate::figure::{Axis, Figure, Mark};
use crate::paper::{Computed, Entry, Setting};

pub(super) const EXHIBITS: &[Listed] = &[
    (
        "table-3",
        "Uniform and proportional polling of gamma-distributed rates",
        table_3,
    ),
    ("figure-7", "Proportional against uniform polling", figure_7),
    (
        "table-4",
        "Two elements, and what each choice of polls is worth",
        table_4,
    ),
    (
        "claim-two-elements",
        "Section 5.2: which of two elements to poll once",
        claim_two,
    ),
    (
        "figure-9",
        "Two elements, and every way to share the polls",
        figure_9,
    ),
    ("example-4", "Five elements and five polls a day", example_4),
    ("table-5", "The best frequencies for five elements", table_5),
    ("figure-10", "The best frequency over the rate", figure_10),
    (
        "claim-weights",
        "Section 8: twice the weight is not twice the polls",
        claim_weights,
    ),
];

/// What Table 3 is about, at r changes per poll: freshness and age of uniform and of
/// proportional polling, with I = 1.
fn allocations(r: f64, spread: f64) -> [f64; 4] {
    let population = Population::new(rate(r), spread).expect("spreads are zero or more");
    let even = frequency(1.0);
    [
        population.uniform_freshness(even),
        population.proportional_freshness(even),
        population.uniform_age(even).as_days(),
        population.proportional_age(even).as_days(),
    ]
}

/// The same by the formulas of Table 3, letter by letter.
fn printed(r: f64, spread: f64) -> [f64; 4] {
    let base = 1.0 + r * spread;
    let even = 1.0 / 2.0 - 1.0 / r + (1.0 - (-r).exp()) / (r * r);
    [
        (1.0 - base.powf(1.0 - 1.0 / spread)) / (r * (1.0 - spread)),
        (1.0 - (-r).exp()) / r,
        ((1.0 - spread) / 2.0 - 1.0 / r
            + (1.0 - base.powf(2.0 - 1.0 / spread)) / (r * r * (1.0 - 2.0 * spread)))
            / (1.0 - spread),
        even / (1.0 - spread),
    ]
}

fn table_3(_: &Setting<'_>) -> Computed {
    let names = [
        "freshness uniform",
        "freshness proportional",
        "age uniform",
        "age proportional",
    ];
    let mut entries = Vec::new();
    for r in [0.5, 1.0, 2.0, 5.0] {
        for spread in [0.25, 0.5, 1.0, 1.5, 2.0] {
            let cells = names
                .into_iter()
                .zip(printed(r, spread))
                .zip(allocations(r, spread));
            for ((name, printed), ours) in cells {
                let unit = if name.starts_with("age") { " I=1" } else { "" };
                let entry =
                    Entry::equals(format!("{name} r={r} delta2={spread}{unit}"), printed, ours);
                entries.push(match (printed.is_finite(), ours.is_finite()) {
                    (true, true) => entry,
                    (false, true) => entry.noted("the printed formula is 0/0 here; this is its limit"),
                    (false, false) => entry.noted("infinite; the printed formula divides by zero"),
                    (true, false) => entry.noted(
                        "erratum: the formula holds for δ² < 1 only; from there on the mean of 1/λ, \
                         and with it the age, is infinite, and the formula turns negative",
                    ),
                });
            }
        }
    }
    Computed {
        entries,
        figures: Vec::new(),
        remark: "δ² is the variance of the rates over their squared mean. \"Printed\" is the \
                 value of the printed formula, which has holes at δ² = ½ and 1 that ours has \
                 not.",
    }
}

fn figure_7(_: &Setting<'_>) -> Computed {
    let freshness = |r, spread| {
        let [uniform, proportional, ..] = allocations(r, spread);
        proportional / uniform
    };
    let age = |r, spread| {
        let [.., uniform, proportional] = allocations(r, spread);
        uniform / proportional
    };
    let figure = |title: &str, label: &str, spreads: &[f64], ratio: &dyn Fn(f64, f64) -> f64| {
        let y = Axis::linear(label).between(0.0, 1.0);
        let empty = Figure::new(title, Axis::log("r = λ/f, changes per poll"), y);
        spreads.iter().fold(empty, |figure, &spread| {
            let curve = evenly_in_log(0.1, 100.0, 120).map(|r| (r, ratio(r, spread)));
            figure.with(format!("δ² = {spread}"), Mark::Line, curve)
        })
    };
    let cases = || {
        let spreads = evenly(0.0, 3.0, 30);
        spreads.flat_map(|spread| evenly_in_log(0.01, 100.0, 40).map(move |r| (r, spread)))
    };
    let slack = 1.0 + 1e-12;
    let mut entries = vec![
        Entry::holds(
            "(r, delta2) where freshness of proportional exceeds that of uniform",
            cases()
                .filter(|&(r, spread)| freshness(r, spread) > slack)
                .count(),
        ),
        Entry::holds(
            "(r, delta2) where age of uniform exceeds that of proportional",
            cases()
                .filter(|&(r, spread)| age(r, spread) > slack)
                .count(),
        ),
        Entry::rounds_to(
            "freshness, proportional over uniform r=1 delta2=0",
            1.0,
            9,
            freshness(1.0, 0.0),
        ),
        Entry::rounds_to(
            "age, uniform over proportional r=1 delta2=0",
            1.0,
            9,
            age(1.0, 0.0),
        ),
        Entry::rounds_to(
            "freshness, proportional over uniform r=1 delta2→∞",
            0.0,
            2,
            freshness(1.0, 1e6),
        )
        .noted(
            "erratum: uniform freshness cannot pass 1, so the ratio falls no lower than \
             (1 − e^(−r))/r, which is what proportional polling gives",
        ),
        Entry::rounds_to(
            "age, uniform over proportional r=1 delta2→∞",
            0.0,
            2,
            age(1.0, 1e6),
        ),
    ];
    for r in [0.1, 1.0, 10.0] {
        let quantity = format!("freshness, proportional over uniform r={r} delta2=0.5");
        entries.push(Entry::unprinted(quantity, freshness(r, 0.5)));
        let quantity = format!("age, uniform over proportional r={r} delta2=0.5");
        entries.push(Entry::unprinted(quantity, age(r, 0.5)));
    }
    let (wide, narrow) = (
        [0.0, 0.25, 0.5, 1.0, 2.0, 4.0],
        [0.0, 0.1, 0.25, 0.5, 0.75, 0.9],
    );
    Computed {
        entries,
        figures: vec![
            figure(
                "Freshness: proportional over uniform",
                "F proportional / F uniform",
                &wide,
                &freshness,
            ),
            figure(
                "Age: uniform over proportional",
                "A uniform / A proportional",
                &narrow,
                &age,
            ),
        ],
        remark: "Below one, uniform polling is better: always. The age ratio hardly depends on \
                 r, the freshness ratio much. From δ² = 1 on proportional polling has an infinite \
                 age.",
    }
}

/// The expected benefit, in days, of polling an element that changes once in each
/// of `n_intervals` equal parts of a day at `n_polls` moments: section 5.2.
///
/// In a part polled k times at even distances, poll j of k finds the change with
/// chance j/(k+1) and keeps the copy fresh until the next poll, or the end. This is
/// the paper's arithmetic for a simpler world than that of Poisson changes, so it
/// lives here and not with the formulas.
fn benefit(n_intervals: u32, n_polls: u32) -> f64 {
    let part = |n_polls: u32| f64::from(n_polls) / (2.0 * (f64::from(n_polls) + 1.0));
    let (each, extra) = (n_polls / n_intervals, n_polls % n_intervals);
    let parts = f64::from(extra) * part(each + 1) + f64::from(n_intervals - extra) * part(each);
    parts / f64::from(n_intervals)
}

/// The benefit of polling the element that changes nine times a day and the one that
/// changes once so many times each.
fn benefits(f1: u32, f2: u32) -> f64 {
    benefit(9, f1) + benefit(1, f2)
}

fn table_4(_: &Setting<'_>) -> Computed {
    let rows = [
        ((1, 0), 1.0 / 36.0),
        ((0, 1), 9.0 / 36.0),
        ((2, 0), 2.0 / 36.0),
        ((1, 1), 10.0 / 36.0),
        ((0, 2), 12.0 / 36.0),
        ((3, 2), 30.0 / 72.0),
        ((2, 3), 31.0 / 72.0),
        ((9, 1), 36.0 / 72.0),
        ((7, 3), 41.0 / 72.0),
        ((5, 5), 40.0 / 72.0),
    ];
    let mut entries: Vec<Entry> = rows
        .into_iter()
        .map(|((f1, f2), printed)| {
            let entry = Entry::equals(
                format!("benefit f1={f1} f2={f2}"),
                printed,
                benefits(f1, f2),
            );
            if (f1, f2) == (3, 2) {
                entry.noted("f1=0 f2=5, which the table leaves out, gives the same")
            } else {
                entry
            }
        })
        .collect();
    for (total, best) in [
        (1, [0.0, 1.0]),
        (2, [0.0, 2.0]),
        (5, [2.0, 3.0]),
        (10, [7.0, 3.0]),
    ] {
        let choices = (0..=total).map(|f1| (f1, total - f1));
        let found = choices.max_by(|a, b| benefits(a.0, a.1).total_cmp(&benefits(b.0, b.1)));
        let (f1, f2) = found.unwrap_or_default();
        let found = [f64::from(f1), f64::from(f2)];
        entries.push(Entry::all_round_to(
            format!("best f1, f2 total={total}"),
            &best,
            0,
            &found,
        ));
    }
    Computed {
        entries,
        figures: Vec::new(),
        remark: "One element changes once in each ninth of a day, the other once a day; the \
                 benefit is in days of freshness per day. All choices were tried, not only those \
                 in the table.",
    }
}

fn claim_two(_: &Setting<'_>) -> Computed {
    Computed {
        entries: vec![
            Entry::equals("benefit of one poll of e2, days", 1.0 / 4.0, benefit(1, 1)),
            Entry::equals("benefit of one poll of e1, days", 1.0 / 36.0, benefit(9, 1)),
            Entry::rounds_to(
                "share of polls for e2, best, f1+f2=10",
                0.3,
                1,
                best_share(10.0),
            ),
        ],
        figures: Vec::new(),
        remark: "One poll a day is worth nine times as much for the element that changes once a \
                 day as for the one that changes nine times.",
    }
}

/// Freshness of two elements that change 9 times and once a day, when this share of
/// the polls is the second one's.
fn two_elements(total: f64, share: f64) -> f64 {
    let freshness = |changes: f64, polls: f64| {
        if polls == 0.0 {
            0.0
        } else {
            at(changes / polls, Order::Fixed).0
        }
    };
    (freshness(9.0, total * (1.0 - share)) + freshness(1.0, total * share)) / 2.0
}

fn best_share(total: f64) -> f64 {
    planned(&[9.0, 1.0], FRESHNESS, total).0[1] / total
}

fn figure_9(_: &Setting<'_>) -> Computed {
    let totals = [1.0, 2.0, 5.0, 10.0];
    let normalized = |total: f64, share: f64| two_elements(total, share) / two_elements(total, 0.5);
    let mut entries: Vec<Entry> = totals
        .into_iter()
        .map(|total| {
            let (quantity, best) = (format!("best share of e2 f1+f2={total}"), best_share(total));
            match total {
                1.0 => Entry::rounds_to(quantity, 1.0, 9, best),
                10.0 => Entry::rounds_to(quantity, 0.3, 1, best),
                _ => Entry::unprinted(quantity, best),
            }
        })
        .collect();
    let is_better = |total: &f64| normalized(*total, 0.1) >= 1.0;
    entries.push(Entry::holds(
        "totals in 0.1..1000 where proportional is as good as uniform",
        evenly_in_log(0.1, 1000.0, 200).filter(is_better).count(),
    ));
    // e1 is polled as soon as the price has fallen to what its first poll is worth.
    let second = PollValue::known(Objective::Freshness, rate(1.0));
    let last = second.reaches(1.0 / 9.0).map(|span| 1.0 / span.as_days());
    entries.push(Entry::unprinted(
        "f1+f2 up to which e1 is never polled",
        last.unwrap_or(f64::INFINITY),
    ));
    let empty = Figure::new(
        "Freshness by the share of polls for e2 (λ₁ = 9, λ₂ = 1)",
        Axis::linear("share of the polls for e2").between(0.0, 1.0),
        Axis::linear("freshness, relative to that of uniform polling"),
    );
    let figure = totals.into_iter().fold(empty, |figure, total| {
        let curve = evenly(0.0, 1.0, 200).map(|share| (share, normalized(total, share)));
        figure.with(format!("{total} a day"), Mark::Line, curve)
    });
    let proportional = totals.map(|total| (0.1, normalized(total, 0.1)));
    let best = totals.map(|total| (best_share(total), normalized(total, best_share(total))));
    Computed {
        entries,
        figures: vec![figure.with("proportional", Mark::Dots, proportional).with(
            "best",
            Mark::Dots,
            best,
        )],
        remark: "All curves meet where both elements are polled alike. With few polls it is best \
                 to give up the fast element; with many, the best lies between uniform and \
                 proportional. The paper's totals are lost; these are those of Table 4.",
    }
}

const FIVE: [f64; 5] = [1.0, 2.0, 3.0, 4.0, 5.0];

/// The price of a poll in Example 4.
fn price(rule: Rule) -> f64 {
    let rates = FIVE.map(rate);
    let candidates = Candidates::new(&rates).expect("five elements");
    let budget = Budget::per_day(5.0).expect("a finite budget");
    let price = RulePolicy::new(rule).plan(&candidates, &budget).price();
    price.expect("optimal plans have a price")
}

fn example_4(_: &Setting<'_>) -> Computed {
    let of = |rule| planned(&FIVE, rule, 5.0);
    let (frequencies, best) = of(FRESHNESS);
    let (_, youngest) = of(AGE);
    let ((_, uniform), (_, proportional)) = (of(Rule::Uniform), of(Rule::Proportional));
    Computed {
        entries: vec![
            Entry::unprinted("freshness optimal", best.freshness),
            Entry::unprinted("freshness uniform", uniform.freshness),
            Entry::unprinted("freshness proportional", proportional.freshness),
            Entry::unprinted("age optimal, days", youngest.age.as_days()),
            Entry::unprinted("age uniform, days", uniform.age.as_days()),
            Entry::unprinted("age proportional, days", proportional.age.as_days()),
            Entry::unprinted("price of a poll, freshness", price(FRESHNESS)),
            Entry::unprinted("price of a poll, age", price(AGE)),
            Entry::holds(
                "faster ones of e3, e4, e5 that are polled more often than the next slower",
                frequencies[2..]
                    .windows(2)
                    .filter(|pair| pair[1] >= pair[0])
                    .count(),
            ),
            Entry::holds(
                "e4 polled as often as e2, though it changes twice as often",
                usize::from(frequencies[3] >= frequencies[1]),
            ),
        ],
        figures: Vec::new(),
        remark: "The example's plan is Table 5; this is what it gives, beside the others.",
    }
}

fn table_5(_: &Setting<'_>) -> Computed {
    let names = [
        "e1 lambda=1",
        "e2 lambda=2",
        "e3 lambda=3",
        "e4 lambda=4",
        "e5 lambda=5",
    ];
    let row = |measure: &str, rule, printed: [f64; 5]| -> Vec<Entry> {
        let (frequencies, _) = planned(&FIVE, rule, 5.0);
        let cells = names.into_iter().zip(printed).zip(frequencies);
        cells
            .map(|((name, printed), ours)| {
                Entry::rounds_to(format!("frequency for {measure} {name}"), printed, 2, ours)
            })
            .collect()
    };
    let mut entries = row("freshness", FRESHNESS, [1.15, 1.36, 1.35, 1.14, 0.0]);
    entries.extend(row("age", AGE, [0.84, 0.97, 1.03, 1.07, 1.09]));
    let entries = entries.into_iter().map(|entry| {
        if entry.agrees == Some(false) {
            entry.noted("erratum: 0.83487 rounds to 0.83")
        } else {
            entry
        }
    });
    Computed {
        entries: entries.collect(),
        figures: Vec::new(),
        remark: "Five polls a day for elements that change one to five times a day. For \
                 freshness the fastest is not worth a single poll; for age all get about one.",
    }
}

fn figure_10(_: &Setting<'_>) -> Computed {
    let curve = |objective, price: f64| {
        move |changes: f64| {
            let value = PollValue::known(objective, rate(changes));
            value
                .reaches(price)
                .map_or(0.0, |span| 1.0 / span.as_days())
        }
    };
    let fresh = curve(Objective::Freshness, price(FRESHNESS));
    let young = curve(Objective::Age, price(AGE));
    let figure = |title: &str, rule, curve: &dyn Fn(f64) -> f64| {
        let (frequencies, _) = planned(&FIVE, rule, 5.0);
        Figure::new(
            title,
            Axis::linear("rate λ, changes per day").between(0.0, 5.2),
            Axis::linear("best frequency f, polls per day").between(0.0, 1.4),
        )
        .with(
            "any element",
            Mark::Line,
            evenly(0.0, 5.2, 520).map(|changes| (changes, curve(changes))),
        )
        .with(
            "the five of Example 4",
            Mark::Dots,
            FIVE.into_iter().zip(frequencies),
        )
    };
    let ages = planned(&FIVE, AGE, 5.0).0;
    Computed {
        entries: vec![
            Entry::rounds_to(
                "rate of the most frequently polled, freshness",
                2.5,
                1,
                peak(0.5, 4.5, fresh),
            ),
            Entry::unprinted(
                "rate from which on nothing is polled, freshness",
                1.0 / price(FRESHNESS),
            ),
            Entry::holds(
                "elements polled less often than a slower one, age",
                ages.windows(2).filter(|pair| pair[1] <= pair[0]).count(),
            ),
        ],
        figures: vec![
            figure("Best frequency for freshness", FRESHNESS, &fresh),
            figure("Best frequency for age", AGE, &young),
        ],
        remark: "For freshness, elements that change too often are polled less and then not at \
                 all; for age, faster elements are polled more, but hardly.",
    }
}

fn claim_weights(_: &Setting<'_>) -> Computed {
    let ratio = |changes: f64, budget: f64| {
        let rates: [Rate; 2] = [rate(changes); 2];
        let weights = [2.0, 1.0].map(|weight| Weight::new(weight).expect("a weight"));
        let candidates = Candidates::new(&rates).and_then(|both| both.with_weights(&weights));
        let candidates = candidates.expect("two weights for two elements");
        let budget = Budget::per_day(budget).expect("a finite budget");
        let plan = RulePolicy::new(FRESHNESS).plan(&candidates, &budget);
        let frequencies = plan.frequencies(&candidates);
        frequencies[0].as_per_day() / frequencies[1].as_per_day()
    };
    Computed {
        entries: vec![
            Entry::unprinted(
                "frequency, weight 2 over weight 1 lambda=1 f1+f2=2000",
                ratio(1.0, 2000.0),
            )
            .noted("the square root of two, where polls are plentiful"),
            Entry::unprinted(
                "frequency, weight 2 over weight 1 lambda=1 f1+f2=2",
                ratio(1.0, 2.0),
            ),
            Entry::unprinted(
                "frequency, weight 2 over weight 1 lambda=1 f1+f2=0.5",
                ratio(1.0, 0.5),
            )
            .noted("infinite: where polls are scarce, the light one gets none"),
        ],
        figures: Vec::new(),
        remark: "The paper finds that an element of twice the weight is to be polled more often, \
                 \"but not necessarily twice as often\", and leaves it there.",
    }
}
