//! Sections 4.1 to 4.4: the policies compared, sample sizes and resources.

use springtide_policy::sample::{Sampling, Settings, Subset, Unit};

use super::worlds::{CYCLE, RATIO, Spread, Trial, change_ratios, compare, settings};
use super::{Listed, POLICIES, claim, mean, near};
use crate::figure::{Axis, Figure, Mark};
use crate::paper::{Computed, Entry, Setting};
use crate::world::World;

pub(super) const EXHIBITS: &[Listed] = &[
    ("figure-5", "The shares of changed pages of sites", figure_5),
    ("figure-6", "The download policies compared", figure_6),
    (
        "figure-7",
        "Greedy and proportional over sample sizes",
        figure_7,
    ),
    (
        "figure-8",
        "Oracle, greedy and round-robin over resources",
        figure_8,
    ),
    ("figure-9", "Subset sampling with few resources", figure_9),
    (
        "claim-directories",
        "Section 6: samples of directories instead of sites",
        directories,
    ),
];

/// Every third site: their shares are spread as those of all, and runs take a third
/// of the time.
const THIRD: usize = 3;

/// The pages of the paper, in which it gives resources.
const N_PAGES: f64 = 353_000.0;

fn figure_5(setting: &Setting<'_>) -> Computed {
    let made = histogram(&Spread::V.shares(252));
    let found = histogram(&shares_of(setting.history));
    let bars = |shares: [f64; 10]| (0..).map(f64::from).zip(shares).collect::<Vec<_>>();
    let names = (1..=10).map(|tenth| format!("{:.1}", f64::from(tenth) / 10.0));
    Computed {
        entries: vec![
            near("sites with a share above 0.9", 0.18, 0.005, made[9]),
            near("sites with a share below 0.1", 0.35, 0.005, made[0]),
            Entry::unprinted("sites with a share above 0.9, history", found[9]),
            Entry::unprinted("sites with a share below 0.1, history", found[0]),
            Entry::unprinted("sites by tenths of the share, history", found.as_slice()),
        ],
        figures: vec![
            Figure::new(
                "Sites by the share of their pages that change in a month",
                Axis::names("share, up to", names),
                Axis::linear("sites"),
            )
            .with("made like the paper's", Mark::Bars, bars(made))
            .with("this history", Mark::Bars, bars(found)),
        ],
        remark: "What the paper printed of its lost data is what our world is made from. In \
                 histories of documentation and packages, most sites change little.",
    }
}

fn histogram(shares: &[f64]) -> [f64; 10] {
    let mut tenths = [0.0; 10];
    for share in shares {
        tenths[((share * 10.0) as usize).min(9)] += 1.0 / shares.len() as f64;
    }
    tenths
}

/// The share of a site's pages that change in a month, on average over months, for
/// each site that has pages.
fn shares_of(history: &World) -> Vec<f64> {
    let n_months = (history.span() / CYCLE) as usize;
    let groups = history.groups();
    // By site and month: pages there throughout, and those of them that changed.
    let mut counts = vec![vec![(0_u32, 0_u32); n_months]; groups.len() + 1];
    for index in 0..history.n_elements() {
        let group = history.element(index).group;
        let site = group.map_or(0, |group| groups.outermost(group).number() as usize + 1);
        let life = history.life(index);
        let mut changes = history.changes(index).peekable();
        for (month, (n_pages, n_changed)) in counts[site].iter_mut().enumerate() {
            let (from, until) = (month as f64 * CYCLE, (month + 1) as f64 * CYCLE);
            let mut has_changed = false;
            while changes.next_if(|&at| at <= until).is_some() {
                has_changed = true;
            }
            if life.born <= from && life.died >= until {
                *n_pages += 1;
                *n_changed += u32::from(has_changed);
            }
        }
    }
    let share = |months: &Vec<(u32, u32)>| {
        let shares: Vec<f64> = months
            .iter()
            .filter(|(n_pages, _)| *n_pages > 0)
            .map(|&(n_pages, n_changed)| f64::from(n_changed) / f64::from(n_pages))
            .collect();
        (!shares.is_empty()).then(|| mean(&shares))
    };
    counts.iter().filter_map(share).collect()
}

fn figure_6(setting: &Setting<'_>) -> Computed {
    let world = Spread::V.world(THIRD, 5, setting.seed);
    let trials = POLICIES.map(|(sampling, _)| (sampling, settings(), RATIO));
    let months = compare(&world, &trials, setting.seed);
    let [round_robin, proportional, greedy, adaptive, frequency] =
        std::array::from_fn(|policy| mean(&months[policy]));
    let first = mean(&months[4][..3]) / mean(&months[0][..3]);
    let in_history = change_ratios(setting.history, &trials, setting.seed);
    let mut entries = vec![
        near("ChangeRatio, greedy", 0.75, 0.05, greedy),
        near("ChangeRatio, adaptive", 0.75, 0.05, adaptive),
        Entry::unprinted("ChangeRatio, round-robin", round_robin),
        Entry::unprinted("ChangeRatio, proportional", proportional),
        Entry::unprinted("ChangeRatio, frequency", frequency),
        claim(
            "greedy over frequency",
            2.0,
            greedy / frequency,
            (1.5..=2.5).contains(&(greedy / frequency)),
        )
        .noted("almost twice as high, says the paper; compared to within 0.5"),
        claim(
            "what an oracle could add to greedy",
            0.25,
            1.0 - greedy,
            greedy > 0.75,
        )
        .noted("less than that, says the paper"),
        Entry::rounds_to("frequency over round-robin, months 1 to 3", 1.0, 2, first),
        claim(
            "proportional over frequency",
            1.0,
            proportional / frequency,
            (proportional / frequency - 1.0).abs() < 0.2,
        )
        .noted(
            "similar, says the paper. Polls in proportion to the sites' shares ρ find Σρ²/Σρ of \
             them changed, which is 0.71 for the V of Figure 5, hardly less than greedy finds",
        ),
        near("adaptive less greedy", 0.0, 0.03, adaptive - greedy),
    ];
    for ((_, name), ratio) in POLICIES.iter().zip(&in_history) {
        entries.push(Entry::unprinted(
            format!("ChangeRatio, {name}, history"),
            *ratio,
        ));
    }
    let bars = |ratios: &[f64]| {
        let places = (0..).map(f64::from);
        places.zip(ratios.iter().copied()).collect::<Vec<_>>()
    };
    Computed {
        entries,
        figures: vec![
            Figure::new(
                "ChangeRatio of the download policies, five months",
                Axis::names("policy", POLICIES.map(|(_, name)| name)),
                Axis::linear("ChangeRatio").between(0.0, 1.0),
            )
            .with(
                "world made like the paper's",
                Mark::Bars,
                bars(&[round_robin, proportional, greedy, adaptive, frequency]),
            )
            .with("this history, all of it", Mark::Bars, bars(&in_history)),
        ],
        remark: "Greedy and adaptive sampling find two to three times the changes of round-robin. \
                 The frequency policy has to see everyone once before it can choose. The world \
                 has the paper's shares of sites and number of changes; how the pages of a site \
                 differ was chosen to suit what the paper prints. A third of the sites, resources \
                 in proportion.",
    }
}

fn figure_7(setting: &Setting<'_>) -> Computed {
    const SIZES: [u32; 10] = [1, 2, 5, 10, 15, 20, 50, 100, 200, 280];
    let world = Spread::V.world(THIRD, 5, setting.seed);
    let run = |world, sampling| {
        let trials = SIZES.map(|size| -> Trial {
            let settings = settings().with_sample_size(size).expect("sizes above zero");
            (sampling, settings, RATIO)
        });
        change_ratios(world, &trials, setting.seed)
    };
    let of_greedy = run(&world, Sampling::Greedy);
    let of_proportional = run(&world, Sampling::Proportional);
    let in_history = run(setting.history, Sampling::Greedy);
    let best = (0..SIZES.len()).max_by(|&one, &other| of_greedy[one].total_cmp(&of_greedy[other]));
    let best = f64::from(SIZES[best.unwrap_or(0)]);
    let n_exceptions = (0..SIZES.len())
        .filter(|&place| of_greedy[place] < of_proportional[place] - 0.005)
        .count();
    // Chance evens out over sites, so this needs all of them.
    let single = settings().with_sample_size(1).expect("one");
    let all = Spread::V.world(1, 5, setting.seed);
    let trials = [Sampling::Greedy, Sampling::Proportional].map(|policy| (policy, single, RATIO));
    let deviations: Vec<f64> = compare(&all, &trials, setting.seed)
        .iter()
        .map(|ratios| deviation(ratios))
        .collect();
    let points = |ratios: Vec<f64>| SIZES.map(f64::from).into_iter().zip(ratios);
    Computed {
        entries: vec![
            claim("best s, greedy", 20.0, best, (10.0..=50.0).contains(&best))
                .noted("around 10 to 50, says the paper, and √(Nr) = 20"),
            Entry::unprinted("ChangeRatio, greedy s=1", of_greedy[0]),
            Entry::unprinted("ChangeRatio, greedy s=20", of_greedy[5]),
            Entry::unprinted("ChangeRatio, greedy s=280", of_greedy[9]),
            Entry::unprinted("ChangeRatio, greedy by s, history", in_history.as_slice()),
            Entry::holds(
                "sizes at which proportional beats greedy by 0.005",
                n_exceptions,
            )
            .noted(
                "never, says the paper. With samples of one page they rank sites alike, and \
                 whoever spreads polls over more sites meets pages left alone for longer",
            ),
            near(
                "deviation between months, greedy s=1",
                0.027,
                0.02,
                deviations[0],
            ),
            near(
                "deviation between months, proportional s=1",
                0.023,
                0.02,
                deviations[1],
            ),
            claim(
                "deviation of greedy less that of proportional, s=1",
                0.004,
                deviations[0] - deviations[1],
                deviations[0] > deviations[1],
            )
            .noted("above zero, says the paper; five months tell little, and seeds differ"),
        ],
        figures: vec![
            Figure::new(
                "ChangeRatio by sample size",
                Axis::log("sample size"),
                Axis::linear("ChangeRatio"),
            )
            .with("greedy", Mark::Line, points(of_greedy))
            .with("proportional", Mark::Line, points(of_proportional))
            .with("greedy, this history", Mark::Dashed, points(in_history)),
        ],
        remark: "Samples of 10 to 50 do about equally well; tiny ones choose badly and huge ones \
                 leave nothing to spend. A third of the sites, resources in proportion.",
    }
}

/// The standard deviation of a sample.
fn deviation(numbers: &[f64]) -> f64 {
    let mean = mean(numbers);
    let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
    (squares / (numbers.len() - 1) as f64).sqrt()
}

fn figure_8(setting: &Setting<'_>) -> Computed {
    const RESOURCES: [f64; 8] = [
        3_000.0, 7_000.0, 20_000.0, 50_000.0, 100_000.0, 150_000.0, 200_000.0, 300_000.0,
    ];
    let world = Spread::V.world(THIRD, 5, setting.seed);
    let run = |world, sampling| {
        let trials =
            RESOURCES.map(|n_polls| -> Trial { (sampling, settings(), n_polls / N_PAGES) });
        change_ratios(world, &trials, setting.seed)
    };
    let oracle = run(&world, Sampling::Oracle);
    let greedy = run(&world, Sampling::Greedy);
    let round_robin = run(&world, Sampling::RoundRobin);
    let greedy_in_history = run(setting.history, Sampling::Greedy);
    let round_robin_in_history = run(setting.history, Sampling::RoundRobin);
    let points = |ratios: &[f64]| {
        let ratios = ratios.iter().copied();
        RESOURCES.into_iter().zip(ratios).collect::<Vec<_>>()
    };
    let n_exceptions = (0..RESOURCES.len())
        .filter(|&place| greedy[place] < round_robin[place])
        .count();
    Computed {
        entries: vec![
            Entry::rounds_to("oracle R=50,000", 1.0, 2, oracle[3]),
            near("oracle R=100,000", 1.0, 0.02, oracle[4]),
            claim("oracle R=150,000", 1.0, oracle[5], oracle[5] < 0.99)
                .noted("below that, says the paper: only 100,000 pages change in a month"),
            claim(
                "greedy R=3,000 over R=20,000",
                1.0,
                greedy[0] / greedy[2],
                greedy[0] < greedy[2],
            )
            .noted("below, says the paper: it degrades from R=20,000 down"),
            Entry::holds("resources at which round-robin beats greedy", n_exceptions)
                .noted("for most resources greedy is much better, says the paper"),
            near(
                "greedy less round-robin R=300,000",
                0.0,
                0.1,
                greedy[7] - round_robin[7],
            ),
            Entry::unprinted("oracle by R", oracle.as_slice()),
            Entry::unprinted("greedy by R", greedy.as_slice()),
            Entry::unprinted("round-robin by R", round_robin.as_slice()),
            Entry::unprinted("greedy by R, history", greedy_in_history.as_slice()),
            Entry::unprinted(
                "round-robin by R, history",
                round_robin_in_history.as_slice(),
            ),
        ],
        figures: vec![
            Figure::new(
                "ChangeRatio by resources",
                Axis::log("polls in a month, for 353,000 pages"),
                Axis::linear("ChangeRatio").between(0.0, 1.0),
            )
            .with("oracle", Mark::Dashed, points(&oracle))
            .with("greedy", Mark::Line, points(&greedy))
            .with("round-robin", Mark::Line, points(&round_robin))
            .with(
                "greedy, this history",
                Mark::Dashed,
                points(&greedy_in_history),
            )
            .with(
                "round-robin, this history",
                Mark::Dashed,
                points(&round_robin_in_history),
            ),
        ],
        remark: "Sampling gains most in between: with few polls all go into samples, with many \
                 everyone polls everything. R is given for all sites; a third of them ran, and of \
                 the history as large a share of its pages is polled.",
    }
}

fn figure_9(setting: &Setting<'_>) -> Computed {
    const RESOURCES: [f64; 4] = [3_000.0, 5_000.0, 10_000.0, 20_000.0];
    let world = Spread::V.world(1, 5, setting.seed);
    let run = |world, subset| {
        let settings = settings().with_subset(subset).expect("a share");
        let trials =
            RESOURCES.map(|n_polls| -> Trial { (Sampling::Greedy, settings, n_polls / N_PAGES) });
        change_ratios(world, &trials, setting.seed)
    };
    let all = run(&world, Subset::All);
    let fixed = run(&world, Subset::Share(0.18));
    let chosen = run(&world, Subset::Chosen);
    let all_in_history = run(setting.history, Subset::All);
    let chosen_in_history = run(setting.history, Subset::Chosen);
    let points = |ratios: &[f64]| {
        let ratios = ratios.iter().copied();
        RESOURCES.into_iter().zip(ratios).collect::<Vec<_>>()
    };
    Computed {
        entries: vec![
            near("greedy R=5,000", 0.73, 0.05, all[1]),
            near("greedy on a subset R=5,000", 0.89, 0.05, fixed[1]),
            Entry::unprinted("greedy on a subset chosen by us R=5,000", chosen[1]),
            Entry::unprinted("greedy by R", all.as_slice()),
            Entry::unprinted("greedy on a subset by R", fixed.as_slice()),
            Entry::unprinted("greedy on a subset chosen by us, by R", chosen.as_slice()),
            Entry::unprinted("greedy by R, history", all_in_history.as_slice()),
            Entry::unprinted(
                "greedy on a subset chosen by us, by R, history",
                chosen_in_history.as_slice(),
            ),
        ],
        figures: vec![
            Figure::new(
                "ChangeRatio with few polls",
                Axis::log("polls in a month, for 353,000 pages"),
                Axis::linear("ChangeRatio").between(0.0, 1.0),
            )
            .with("greedy, all sites", Mark::Line, points(&all))
            .with(
                "greedy, a subset of which 18 % is polled",
                Mark::Line,
                points(&fixed),
            )
            .with(
                "greedy, a subset chosen by us",
                Mark::Dashed,
                points(&chosen),
            )
            .with(
                "all sites, this history",
                Mark::Line,
                points(&all_in_history),
            )
            .with(
                "a subset chosen by us, this history",
                Mark::Dashed,
                points(&chosen_in_history),
            ),
        ],
        remark: "With few polls it pays to sample some sites at a time, in turn.",
    }
}

/// Section 6 asks what happens if directories are sampled instead of sites.
fn directories(setting: &Setting<'_>) -> Computed {
    let chosen = Settings::new(settings().cycle()).expect("the paper's cycle");
    let trials = [Unit::Outermost, Unit::Innermost]
        .map(|unit| -> Trial { (Sampling::Greedy, chosen.with_unit(unit), RATIO) });
    let few = trials.map(|(sampling, settings, _)| (sampling, settings, 0.05));
    let ratios = change_ratios(setting.history, &[trials, few].concat(), setting.seed);
    let entry = |quantity: &str, place: usize| {
        Entry::unprinted(format!("ChangeRatio, greedy, {quantity}"), ratios[place])
    };
    Computed {
        entries: vec![
            entry("sites, r=0.28", 0),
            entry("directories, r=0.28", 1),
            entry("sites, r=0.05", 2),
            entry("directories, r=0.05", 3),
        ],
        figures: Vec::new(),
        remark: "The paper leaves it open whether directories should be sampled instead of sites. \
                 On this history, with sample sizes and subsets chosen by us. Where directories \
                 have few pages, samples take much of the budget and teach little.",
    }
}
