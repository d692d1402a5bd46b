//! Sections 4.5 to 4.8: the long run, the adaptive policy's parameters, who is
//! polled, and another spread of shares.

use springtide_policy::sample::Sampling;

use super::worlds::{
    CYCLE, N_MONTHS, RATIO, Spread, Trial, change_ratios, compare, months, settings,
};
use super::{Listed, POLICIES, claim, mean, near};
use crate::figure::{Axis, Figure, Mark};
use crate::paper::{Computed, Entry, Setting};
use crate::world::World;

pub(super) const EXHIBITS: &[Listed] = &[
    ("figure-10", "Frequency and greedy over time", figure_10),
    ("figure-11", "Adaptive by the size of its steps", figure_11),
    ("figure-12", "Adaptive by its confidence", figure_12),
    ("figure-13", "Fairness of greedy", figure_13),
    ("figure-14", "Polls by the number of changes", figure_14),
    (
        "figure-15",
        "The policies under a normal spread of shares",
        figure_15,
    ),
];

/// Every third site: their shares are spread as those of all.
const THIRD: usize = 3;

fn figure_10(setting: &Setting<'_>) -> Computed {
    const N_CYCLES: usize = 120;
    let world = Spread::V.world(2 * THIRD, N_CYCLES, setting.seed);
    let trials = [Sampling::Greedy, Sampling::Frequency]
        .map(|sampling| -> Trial { (sampling, settings(), RATIO) });
    let [greedy, frequency] = [0, 1].map(|trial| {
        let runs = compare(&world, &trials[trial..=trial], setting.seed);
        runs.concat()
    });
    // The frequency policy goes up and down: by windows of as many months as the
    // data repeat after.
    let ahead = (0..=N_CYCLES - N_MONTHS).find(|&from| {
        let window = |ratios: &[f64]| mean(&ratios[from..from + N_MONTHS]);
        window(&frequency) > window(&greedy)
    });
    let crossing = ahead.map_or(f64::INFINITY, |from| (from + N_MONTHS) as f64);
    let last = |ratios: &[f64]| mean(&ratios[N_CYCLES - 20..]);
    let points = |ratios: &[f64]| {
        let cycles = (1..).map(f64::from);
        cycles.zip(ratios.iter().copied()).collect::<Vec<_>>()
    };
    let in_history = compare(setting.history, &trials, setting.seed);
    Computed {
        entries: vec![
            claim(
                "month from which frequency is ahead of greedy",
                100.0,
                crossing,
                (50.0..=200.0).contains(&crossing),
            )
            .noted(
                "ours is sooner: it polls in proportion to estimated rates, which finds the most \
                 changes, and the paper does not say how it used its estimates. How soon depends \
                 on how much the pages of a site differ, which is not known of its data. Compared \
                 to within a factor of two",
            ),
            claim(
                "frequency over greedy, months 101 to 120",
                1.0,
                last(&frequency) / last(&greedy),
                last(&frequency) > last(&greedy),
            )
            .noted("above, says the paper"),
            claim(
                "frequency over greedy, months 1 to 5",
                1.0,
                mean(&frequency[..5]) / mean(&greedy[..5]),
                mean(&frequency[..5]) < mean(&greedy[..5]),
            )
            .noted("significantly below, says the paper"),
            Entry::unprinted("ChangeRatio, greedy, months 101 to 120", last(&greedy)),
            Entry::unprinted(
                "ChangeRatio, frequency, months 101 to 120",
                last(&frequency),
            ),
            Entry::unprinted(
                "ChangeRatio by month, greedy, history",
                in_history[0].as_slice(),
            ),
            Entry::unprinted(
                "ChangeRatio by month, frequency, history",
                in_history[1].as_slice(),
            ),
        ],
        figures: vec![
            Figure::new(
                "Frequency and greedy over time",
                Axis::linear("month"),
                Axis::linear("ChangeRatio").between(0.0, 1.0),
            )
            .with("greedy", Mark::Dashed, points(&greedy))
            .with("frequency", Mark::Line, points(&frequency))
            .with("greedy, this history", Mark::Dashed, points(&in_history[0]))
            .with(
                "frequency, this history",
                Mark::Line,
                points(&in_history[1]),
            ),
        ],
        remark: "Who remembers every page overtakes who samples, in the end; the dips are pages \
                 that rarely change coming due together. Five months, repeated as in the paper; a \
                 sixth of the sites. The history is as long as it is, and repeats nothing.",
    }
}

fn figure_11(setting: &Setting<'_>) -> Computed {
    const STEPS: [u32; 8] = [1, 2, 5, 10, 20, 30, 50, 100];
    let world = Spread::V.world(THIRD, N_MONTHS, setting.seed);
    let trials = STEPS.map(|step| -> Trial {
        let settings = settings().with_step(step).expect("steps above zero");
        (Sampling::Adaptive, settings, RATIO)
    });
    let ratios = change_ratios(&world, &trials, setting.seed);
    let in_history = change_ratios(setting.history, &trials, setting.seed);
    let (early, late) = (ratios[0] - ratios[3], ratios[3] - ratios[7]);
    Computed {
        entries: vec![
            claim("fall from k=1 to k=10", 0.0, early, early.abs() < 0.02)
                .noted("relatively small, says the paper; compared to within 0.02"),
            claim("fall from k=10 to k=100", 0.0, late, late > 0.0)
                .noted("above, says the paper: performance decreases as k increases"),
            Entry::unprinted("ChangeRatio by k", ratios.as_slice()),
            Entry::unprinted("ChangeRatio by k, history", in_history.as_slice()),
        ],
        figures: vec![
            Figure::new(
                "Adaptive sampling by the size of its steps",
                Axis::log("k, samples between decisions"),
                Axis::linear("ChangeRatio"),
            )
            .with(
                "adaptive",
                Mark::Line,
                STEPS.map(f64::from).into_iter().zip(ratios),
            )
            .with(
                "this history",
                Mark::Dashed,
                STEPS.map(f64::from).into_iter().zip(in_history),
            ),
        ],
        remark: "Smaller steps decide sooner. A third of the sites, resources in proportion.",
    }
}

fn figure_12(setting: &Setting<'_>) -> Computed {
    const CONFIDENCES: [f64; 7] = [0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.99];
    const STEPS: [u32; 3] = [1, 5, 10];
    let world = Spread::V.world(THIRD, N_MONTHS, setting.seed);
    let run = |world, step| {
        let trials = CONFIDENCES.map(|confidence| -> Trial {
            let settings = settings()
                .with_step(step)
                .and_then(|settings| settings.with_confidence(confidence))
                .expect("steps and confidences of the paper");
            (Sampling::Adaptive, settings, RATIO)
        });
        change_ratios(world, &trials, setting.seed)
    };
    let ratios = STEPS.map(|step| run(&world, step));
    let in_history = run(setting.history, STEPS[2]);
    let range = |ratios: &[f64]| {
        let (low, high) = ratios
            .iter()
            .fold((1.0_f64, 0.0_f64), |(low, high), &ratio| {
                (low.min(ratio), high.max(ratio))
            });
        high - low
    };
    let behind = ratios[2][0] - ratios[0][0];
    let mut figure = Figure::new(
        "Adaptive sampling by its confidence",
        Axis::linear("α, confidence"),
        Axis::linear("ChangeRatio"),
    );
    let mut entries = vec![
        near("range over α, k=10", 0.0, 0.02, range(&ratios[2])),
        near("range over α, k=5", 0.0, 0.02, range(&ratios[1])),
        claim("k=10 less k=1, α=0.5", 0.0, behind, behind > 0.0)
            .noted("above, says the paper: with k=1 and a low α it decides on two samples"),
    ];
    for (step, ratios) in STEPS.iter().zip(ratios) {
        entries.push(Entry::unprinted(
            format!("ChangeRatio by α, k={step}"),
            ratios.as_slice(),
        ));
        figure = figure.with(
            format!("k = {step}"),
            Mark::Line,
            CONFIDENCES.into_iter().zip(ratios),
        );
    }
    entries.push(Entry::unprinted(
        "ChangeRatio by α, k=10, history",
        in_history.as_slice(),
    ));
    figure = figure.with(
        "k = 10, this history",
        Mark::Dashed,
        CONFIDENCES.into_iter().zip(in_history),
    );
    Computed {
        entries,
        figures: vec![figure],
        remark: "Confidence hardly matters, but for hasty decisions on very few samples. Our \
                 intervals are Wilson's. A third of the sites, resources in proportion.",
    }
}

/// In which of the first months each page is polled by greedy sampling, and in which
/// it changes.
struct Visits {
    polled: Vec<[bool; N_MONTHS]>,
    changed: Vec<[bool; N_MONTHS]>,
}

impl Visits {
    fn new(world: &World, seed: u64) -> Self {
        let mut polled = vec![[false; N_MONTHS]; world.n_elements()];
        let trial = (Sampling::Greedy, settings(), RATIO);
        months(world, trial, seed, &mut |month, page| {
            if month < N_MONTHS {
                polled[page][month] = true;
            }
        });
        let changed = (0..world.n_elements()).map(|page| {
            let mut months = [false; N_MONTHS];
            for at in world.changes(page) {
                if let Some(month) = months.get_mut((at / CYCLE) as usize) {
                    *month = true;
                }
            }
            months
        });
        let changed = changed.collect();
        Self { polled, changed }
    }

    /// Of the pages that had changed after each month, the share that had been
    /// polled; not a number while none had changed.
    fn fairness(&self) -> Vec<f64> {
        let after = |n_months| {
            let any = |months: &[bool; N_MONTHS]| months[..n_months].contains(&true);
            let pages = self.polled.iter().zip(&self.changed);
            let changed: Vec<_> = pages.filter(|(_, changed)| any(changed)).collect();
            let n_visited = changed.iter().filter(|(polled, _)| any(polled)).count();
            n_visited as f64 / changed.len() as f64
        };
        (1..=N_MONTHS).map(after).collect()
    }

    /// Polls of a page by how often it changed; not a number where no page did so
    /// often.
    fn polls_by_changes(&self) -> [f64; N_MONTHS + 1] {
        let count = |months: &[bool; N_MONTHS]| months.iter().filter(|&&month| month).count();
        let mut totals = [(0.0, 0.0); N_MONTHS + 1];
        for (polled, changed) in self.polled.iter().zip(&self.changed) {
            let total = &mut totals[count(changed)];
            total.0 += count(polled) as f64;
            total.1 += 1.0;
        }
        totals.map(|(n_polls, n_pages): (f64, f64)| n_polls / n_pages)
    }
}

fn figure_13(setting: &Setting<'_>) -> Computed {
    let world = Spread::V.world(THIRD, N_MONTHS, setting.seed);
    let fairness = Visits::new(&world, setting.seed).fairness();
    let in_history = Visits::new(setting.history, setting.seed).fairness();
    let n_falls = fairness.windows(2).filter(|pair| pair[1] < pair[0]).count();
    Computed {
        entries: vec![
            near("fairness after 5 months", 0.8, 0.05, fairness[N_MONTHS - 1]),
            Entry::holds("months in which fairness falls", n_falls).noted(
                "it rises steadily, says the paper. Ours starts near its end: as many pages are \
                 polled as change, and greedy finds three quarters of them at once; from then on \
                 pages are polled and change for the first time at about the same pace",
            ),
            Entry::unprinted("fairness by month", fairness.as_slice()),
            Entry::unprinted("fairness by month, history", in_history.as_slice()),
        ],
        figures: vec![
            Figure::new(
                "Fairness of greedy sampling",
                Axis::linear("month"),
                Axis::linear("changed pages that were polled").between(0.0, 1.0),
            )
            .with("greedy", Mark::Line, (1..).map(f64::from).zip(fairness))
            .with(
                "greedy, this history",
                Mark::Dashed,
                (1..).map(f64::from).zip(in_history),
            ),
        ],
        remark: "Of the pages that had changed, how many had been polled. A third of the sites, \
                 resources in proportion; of the history, the first five months.",
    }
}

fn figure_14(setting: &Setting<'_>) -> Computed {
    let world = Spread::V.world(THIRD, N_MONTHS, setting.seed);
    let polls = Visits::new(&world, setting.seed).polls_by_changes();
    let in_history = Visits::new(setting.history, setting.seed).polls_by_changes();
    let n_falls = polls.windows(2).filter(|pair| pair[1] < pair[0]).count();
    Computed {
        entries: vec![
            Entry::holds("changes with fewer polls than one change less", n_falls)
                .noted("who changes more is polled more, says the paper"),
            Entry::unprinted("polls in 5 months by number of changes", polls.as_slice()),
            Entry::unprinted(
                "polls in 5 months by number of changes, history",
                in_history.as_slice(),
            ),
        ],
        figures: vec![
            Figure::new(
                "Polls by the number of changes, greedy sampling",
                Axis::linear("changes in five months"),
                Axis::linear("polls in five months"),
            )
            .with("greedy", Mark::Line, (0..).map(f64::from).zip(polls))
            .with(
                "greedy, this history",
                Mark::Dashed,
                (0..).map(f64::from).zip(in_history),
            ),
        ],
        remark: "Greedy sampling polls most who changes most. A third of the sites, resources in \
                 proportion; of the history, the first five months.",
    }
}

fn figure_15(setting: &Setting<'_>) -> Computed {
    const RATIO: f64 = 1.0 / 3.0;
    const N_CYCLES: usize = 20;
    let world = Spread::Normal.world(THIRD, N_MONTHS, setting.seed);
    let trials = POLICIES.map(|(sampling, _)| (sampling, settings(), RATIO));
    let ratios = change_ratios(&world, &trials, setting.seed);
    let long = Spread::Normal.world(THIRD, N_CYCLES, setting.seed);
    let longer = compare(&long, &[trials[2], trials[4]], setting.seed);
    let late = longer.iter().map(|months| mean(&months[10..]));
    let late: Vec<f64> = late.collect();
    let over_round_robin = |policy: usize| ratios[policy] / ratios[0];
    let mut entries = vec![
        near("ChangeRatio, greedy", 0.82, 0.05, ratios[2]),
        near("adaptive less greedy", 0.0, 0.03, ratios[3] - ratios[2]),
        claim(
            "frequency over round-robin",
            1.0,
            over_round_robin(4),
            (over_round_robin(4) - 1.0).abs() <= 0.15,
        )
        .noted("similar, says the paper; compared to within 0.15"),
        claim(
            "proportional over round-robin",
            1.0,
            over_round_robin(1),
            (over_round_robin(1) - 1.0).abs() <= 0.15,
        )
        .noted(
            "similar, says the paper; compared to within 0.15. In the first month, polls in \
             proportion to the shares ρ find Σρ²/Σρ changed, which is 0.65 here, and round-robin \
             finds the mean, 0.5",
        ),
        near("ChangeRatio, greedy, months 11 to 20", 0.82, 0.05, late[0]),
        near(
            "ChangeRatio, frequency, months 11 to 20",
            0.82,
            0.05,
            late[1],
        )
        .noted(
            "about the same as greedy, says the paper. Ours goes on learning which pages of a \
             site change; it would be no better than greedy only if they were alike. Compared to \
             within 0.05",
        ),
    ];
    for ((_, name), ratio) in POLICIES.iter().zip(&ratios) {
        if *name != "greedy" {
            entries.push(Entry::unprinted(format!("ChangeRatio, {name}"), *ratio));
        }
    }
    Computed {
        entries,
        figures: vec![
            Figure::new(
                "ChangeRatio under N(0.5, 0.3), five months",
                Axis::names("policy", POLICIES.map(|(_, name)| name)),
                Axis::linear("ChangeRatio").between(0.0, 1.0),
            )
            .with("policies", Mark::Bars, (0..).map(f64::from).zip(ratios)),
        ],
        remark: "With shares spread like a bell the order is the same, and all are closer \
                 together. A third of the sites, resources in proportion.",
    }
}
