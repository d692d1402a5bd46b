//! Sections 2 and 3: what freshness and age are, and what a policy may choose.

use rand::RngExt;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;
use springtide_policy::freshness::{age_after, freshness_after};
use springtide_policy::plan::Rule;
use statrs::distribution::{Continuous, ContinuousCDF, Gamma};

use super::{Listed, days, evenly, planned, rate};
use crate::figure::{Axis, Figure, Mark};
use crate::paper::{Computed, Entry, Setting};

pub(super) const EXHIBITS: &[Listed] = &[
    (
        "figure-2",
        "Freshness and age of one element over time",
        figure_2,
    ),
    (
        "figure-3",
        "Expected freshness and age of one element over time",
        figure_3,
    ),
    (
        "figure-4",
        "How the rates of elements are distributed",
        figure_4,
    ),
    (
        "example-1",
        "Three elements, polled uniformly or in proportion",
        example_1,
    ),
    (
        "example-2",
        "How far apart the polls of a page are",
        example_2,
    ),
    ("figure-5", "When the polls of a day are made", figure_5),
    ("example-3", "What the time of the polls changes", example_3),
];

/// When the element of Figure 2 changes and is polled, in days. The paper's own
/// figure has no scale.
const CHANGES: [f64; 5] = [1.0, 1.6, 4.0, 6.5, 7.5];
const POLLS: [f64; 4] = [2.5, 3.5, 5.0, 8.5];
const DAYS: f64 = 10.0;

fn figure_2(_: &Setting<'_>) -> Computed {
    let (freshness, age) = evolution(&CHANGES, &POLLS, DAYS);
    let just_after = |times: &[f64], points: &[(f64, f64)]| -> Vec<f64> {
        let value = |time: f64| points.iter().rfind(|point| point.0 <= time);
        let values = times.iter().filter_map(|time| value(*time));
        values.map(|point| point.1).collect()
    };
    let stems = |times: &[f64], height: f64| {
        let stems = times.iter().map(move |time| (*time, height));
        stems.collect::<Vec<_>>()
    };
    let figure = |title: &str, label: &str, mark, points: &[(f64, f64)], height| {
        Figure::new(
            title,
            Axis::linear("time, days").between(0.0, DAYS),
            Axis::linear(label),
        )
        .with(label, mark, points.iter().copied())
        .with("the element changes", Mark::Stems, stems(&CHANGES, height))
        .with("it is polled", Mark::Stems, stems(&POLLS, height))
    };
    let share = |points: &[(f64, f64)]| {
        let steps = points.windows(2);
        steps
            .map(|step| step[0].1 * (step[1].0 - step[0].0))
            .sum::<f64>()
            / DAYS
    };
    let area = |points: &[(f64, f64)]| {
        let pieces = points.windows(2);
        let areas = pieces.map(|p| (p[0].1 + p[1].1) / 2.0 * (p[1].0 - p[0].0));
        areas.sum::<f64>() / DAYS
    };
    Computed {
        entries: vec![
            Entry::all_round_to(
                "freshness just after each change",
                &[0.0; CHANGES.len()],
                9,
                &just_after(&CHANGES, &freshness),
            ),
            Entry::all_round_to(
                "freshness just after each poll",
                &[1.0; POLLS.len()],
                9,
                &just_after(&POLLS, &freshness),
            ),
            Entry::all_round_to(
                "age just after each poll, days",
                &[0.0; POLLS.len()],
                9,
                &just_after(&POLLS, &age),
            ),
            Entry::unprinted("freshness, mean over the days shown", share(&freshness)),
            Entry::unprinted("age, mean over the days shown, days", area(&age)),
        ],
        figures: vec![
            figure(
                "Freshness of one element",
                "freshness",
                Mark::Steps,
                &freshness,
                1.0,
            ),
            figure("Age of one element", "age, days", Mark::Line, &age, 3.0),
        ],
        remark: "A change makes the copy stale, a poll makes it fresh again; the age counts \
                 from the first change that was missed. The paper's figure has no scale, so \
                 the times are ours.",
    }
}

/// The freshness of a copy, as steps, and its age, as a line.
#[expect(clippy::type_complexity, reason = "two curves")]
fn evolution(changes: &[f64], polls: &[f64], until: f64) -> (Vec<(f64, f64)>, Vec<(f64, f64)>) {
    let mut events: Vec<(f64, bool)> = changes.iter().map(|time| (*time, true)).collect();
    events.extend(polls.iter().map(|time| (*time, false)));
    events.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut freshness, mut age) = (vec![(0.0, 1.0)], vec![(0.0, 0.0)]);
    let mut missed: Option<f64> = None;
    for (time, is_change) in events {
        if is_change {
            let first = *missed.get_or_insert(time);
            freshness.push((time, 0.0));
            age.push((time, time - first));
        } else {
            age.push((time, missed.map_or(0.0, |first| time - first)));
            age.push((time, 0.0));
            freshness.push((time, 1.0));
            missed = None;
        }
    }
    freshness.extend(freshness.last().map(|last| (until, last.1)));
    age.push((until, missed.map_or(0.0, |first| until - first)));
    (freshness, age)
}

fn figure_3(_: &Setting<'_>) -> Computed {
    let (change, interval) = (rate(1.0), 2.0);
    let cycles = |value: &dyn Fn(f64) -> f64| -> Vec<(f64, f64)> {
        let cycle = |n: u32| {
            let start = f64::from(n) * interval;
            evenly(0.0, interval, 100).map(move |t| (start + t, t))
        };
        let times = (0..3).flat_map(cycle);
        times
            .map(|(time, elapsed)| (time, value(elapsed)))
            .collect()
    };
    let fresh = |elapsed| freshness_after(change, days(elapsed));
    let age = |elapsed| age_after(change, days(elapsed)).as_days();
    let axis = || Axis::linear("time in units of 1/λ; polled at 0, 2 and 4");
    Computed {
        entries: vec![
            Entry::rounds_to("freshness t=0", 1.0, 9, fresh(0.0)),
            Entry::rounds_to("freshness t→∞", 0.0, 9, fresh(1e6)),
            Entry::rounds_to("age t=0", 0.0, 9, age(0.0)),
            Entry::rounds_to("age/t t→∞", 1.0, 5, age(1e6) / 1e6),
            Entry::unprinted("freshness lambda=1 t=2", fresh(interval)),
            Entry::unprinted("age lambda=1 t=2", age(interval)),
        ],
        figures: vec![
            Figure::new(
                "Expected freshness of one element",
                axis(),
                Axis::linear("E[F]").between(0.0, 1.0),
            )
            .with("E[F]", Mark::Line, cycles(&fresh)),
            Figure::new(
                "Expected age of one element",
                axis(),
                Axis::linear("E[A], in units of 1/λ"),
            )
            .with("E[A]", Mark::Line, cycles(&age)),
        ],
        remark: "Right after a poll the copy is fresh; long after it the age is about the time \
                 that went by.",
    }
}

fn figure_4(_: &Setting<'_>) -> Computed {
    let (mean, spread) = (10.0, 0.1);
    let shape = 1.0 / spread;
    let rates = Gamma::new(shape, shape / mean).expect("a sound gamma distribution");
    let share = |centre: f64| rates.cdf(centre + 0.5) - rates.cdf(centre - 0.5);
    let centres = evenly(1.0, 25.0, 24);
    Computed {
        entries: vec![
            Entry::unprinted("share of elements 9.5<lambda<=10.5", share(10.0)),
            Entry::unprinted(
                "share of elements 0.5<lambda<=25.5",
                centres.clone().map(share).sum::<f64>(),
            ),
        ],
        figures: vec![
            Figure::new(
                "Shares of elements by their rate",
                Axis::linear("rate λ, changes per day"),
                Axis::linear("share of elements"),
            )
            .with("histogram", Mark::Bars, centres.map(|c| (c, share(c))))
            .with(
                "density g(λ)",
                Mark::Line,
                evenly(0.0, 26.0, 260).map(|at| (at, rates.pdf(at))),
            ),
        ],
        remark: "With many elements the histogram is as good as a density. The paper's figure \
                 is a sketch; this one has gamma-distributed rates of mean 10 and δ² = 0.1.",
    }
}

fn example_1(_: &Setting<'_>) -> Computed {
    let rates = [4.0, 3.0, 2.0];
    let (uniform, uniform_report) = planned(&rates, Rule::Uniform, 9.0);
    let (proportional, proportional_report) = planned(&rates, Rule::Proportional, 9.0);
    Computed {
        entries: vec![
            Entry::all_round_to("frequencies uniform, per day", &[3.0; 3], 9, &uniform),
            Entry::all_round_to(
                "frequencies proportional, per day",
                &rates,
                9,
                &proportional,
            ),
            Entry::unprinted("freshness uniform", uniform_report.freshness),
            Entry::unprinted("freshness proportional", proportional_report.freshness),
            Entry::unprinted("age uniform, days", uniform_report.age.as_days()),
            Entry::unprinted("age proportional, days", proportional_report.age.as_days()),
        ],
        figures: Vec::new(),
        remark: "Rates of 4, 3 and 2 changes and nine polls a day. The paper only asks which is \
                 better; uniform is, by both measures.",
    }
}

fn example_2(setting: &Setting<'_>) -> Computed {
    let n_pages = 10_000_u32;
    let rates = vec![1.0; n_pages as usize];
    let (fixed, _) = planned(&rates, Rule::Uniform, f64::from(n_pages));
    let intervals = |order: &str, found: Intervals| {
        [
            Entry::rounds_to(
                format!("shortest interval {order}, days"),
                0.0,
                1,
                found.shortest,
            ),
            if order == "random" {
                Entry::rounds_to(
                    format!("longest interval {order}, days"),
                    2.0,
                    1,
                    found.longest,
                )
            } else {
                Entry::unprinted(format!("longest interval {order}, days"), found.longest)
                    .noted("printed as infinity: it grows without bound as polls go on")
            },
            if order == "random" {
                Entry::unprinted(format!("mean interval {order}, days"), found.mean)
            } else {
                Entry::unprinted(format!("mean interval {order}, days"), found.mean)
                    .noted("a little short: intervals that are open at the end are not counted")
            },
        ]
    };
    let mut entries = vec![Entry::rounds_to(
        "interval fixed, days",
        1.0,
        9,
        1.0 / fixed[0],
    )];
    entries.extend(intervals("random", random_intervals(n_pages, setting.seed)));
    entries.extend(intervals(
        "purely-random",
        purely_random_intervals(n_pages, setting.seed),
    ));
    Computed {
        entries,
        figures: Vec::new(),
        remark: "10,000 pages and 10,000 polls a day, for 100 days from the seed: the mean \
                 interval is a day in every order, but the intervals spread.",
    }
}

/// What is seen of the times between two polls of a page.
pub(super) struct Intervals {
    pub(super) shortest: f64,
    pub(super) longest: f64,
    pub(super) mean: f64,
    /// The share of those below the mean interval.
    pub(super) short_share: f64,
}

const ROUNDS: u32 = 100;

/// Algorithm B.2 of the report: every round polls all pages, each in another order.
pub(super) fn random_intervals(n_pages: u32, seed: u64) -> Intervals {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut order: Vec<usize> = (0..n_pages as usize).collect();
    let round = |round: u32| {
        order.shuffle(&mut rng);
        let times =
            (0..n_pages).map(move |place| f64::from(round) + f64::from(place) / f64::from(n_pages));
        order.iter().copied().zip(times).collect::<Vec<_>>()
    };
    gather(n_pages, (0..ROUNDS).flat_map(round))
}

/// Algorithm B.3 of the report: every poll takes any page.
fn purely_random_intervals(n_pages: u32, seed: u64) -> Intervals {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let polls = (0..ROUNDS * n_pages).map(|poll| {
        let page = rng.random_range(0..n_pages) as usize;
        (page, f64::from(poll) / f64::from(n_pages))
    });
    gather(n_pages, polls)
}

fn gather(n_pages: u32, polls: impl Iterator<Item = (usize, f64)>) -> Intervals {
    let mut last = vec![f64::NAN; n_pages as usize];
    let (mut shortest, mut longest, mut sum) = (f64::INFINITY, 0.0_f64, 0.0);
    let (mut n, mut n_short) = (0_u32, 0_u32);
    for (page, time) in polls {
        let interval = time - std::mem::replace(&mut last[page], time);
        if !interval.is_nan() {
            (shortest, longest) = (shortest.min(interval), longest.max(interval));
            sum += interval;
            n += 1;
            n_short += u32::from(interval < 1.0);
        }
    }
    Intervals {
        shortest,
        longest,
        mean: sum / f64::from(n),
        short_share: f64::from(n_short) / f64::from(n),
    }
}

/// The three options of Example 3: when each of ten pages is polled, as a share of
/// the day. "Most" of them is seven.
fn options() -> [(&'static str, Vec<f64>); 3] {
    [
        ("all at midnight", vec![0.0; 10]),
        (
            "most at midnight",
            [vec![0.0; 7], vec![0.25, 0.5, 0.75]].concat(),
        ),
        (
            "evenly over the day",
            (0..10).map(|page| f64::from(page) / 10.0).collect(),
        ),
    ]
}

fn figure_5(_: &Setting<'_>) -> Computed {
    let stems = |mut polls: Vec<f64>| -> Vec<(f64, f64)> {
        let all = polls.clone();
        polls.dedup();
        let height = |poll: f64| all.iter().filter(|other| **other == poll).count() as f64;
        let each = |day: u32| polls.iter().map(move |poll| (f64::from(day) + poll, *poll));
        let times = (0..3).flat_map(each);
        times.map(|(time, poll)| (time, height(poll))).collect()
    };
    let entries = options().map(|(name, polls)| {
        let quantity = format!("polls a day, {name}");
        Entry::rounds_to(quantity, 10.0, 9, polls.len() as f64)
    });
    let figures = options().map(|(name, polls)| {
        let time = Axis::linear("time, days").between(-0.05, 3.0);
        let y = Axis::linear("pages polled").between(0.0, 10.0);
        Figure::new(format!("Ten pages polled {name}"), time, y).with(
            "polls",
            Mark::Stems,
            stems(polls),
        )
    });
    Computed {
        entries: entries.to_vec(),
        figures: figures.to_vec(),
        remark: "The same ten polls a day, made all at once, mostly at once, or evenly. \
                 Example 3 says what that changes.",
    }
}

fn example_3(_: &Setting<'_>) -> Computed {
    let change = rate(1.0);
    let freshness = |polls: &[f64], time: f64| {
        let each = polls.iter().map(|poll| (time - poll).rem_euclid(1.0));
        let sum: f64 = each
            .map(|elapsed| freshness_after(change, days(elapsed)))
            .sum();
        sum / polls.len() as f64
    };
    // The middles of small steps: the mean of these is the mean over the day, and
    // no step has a poll in its middle.
    let moments = || (0..2000).map(|step| (f64::from(step) + 0.5) / 2000.0);
    let mut entries = Vec::new();
    let mut figure = Figure::new(
        "Freshness of ten pages over the day",
        Axis::linear("time, days; each page changes once a day").between(0.0, 1.0),
        Axis::linear("expected freshness").between(0.0, 1.0),
    );
    for (name, polls) in options() {
        let curve = moments().map(|time| (time, freshness(&polls, time)));
        let curve: Vec<_> = curve.collect();
        let values = curve.iter().map(|point| point.1);
        entries.extend([
            Entry::unprinted(
                format!("freshness, mean over the day, {name} lambda=1"),
                values.clone().sum::<f64>() / curve.len() as f64,
            ),
            Entry::unprinted(
                format!("freshness, lowest in the day, {name} lambda=1"),
                values.fold(f64::INFINITY, f64::min),
            ),
        ]);
        figure = figure.with(name, Mark::Line, curve);
    }
    Computed {
        entries,
        figures: vec![figure],
        remark: "Each page is polled once a day in all three, so the mean over the day is the \
                 same; what differs is how much freshness moves within it.",
    }
}
