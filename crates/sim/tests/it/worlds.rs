//! Worlds small enough to work out by hand.

use springtide_policy::in_use::InUse;
use springtide_policy::plan::Rule;
use springtide_policy::sample::{Sampling, Settings};
use springtide_policy::schedule::{Choice, Terms};
use springtide_policy::{Budget, Cost, Element, Elements, Groups, Order, Rate, Span, Window};
use springtide_sim::world::{Correlated, Life, World};
use springtide_sim::{Outcomes, Polled, Setup, Start, run};

fn recorded(pages: &[(f64, f64, &[f64])], span: f64) -> World {
    let mut starts = vec![0];
    let mut times = Vec::new();
    for (_, _, changes) in pages {
        times.extend_from_slice(changes);
        starts.push(times.len());
    }
    let lives = pages.iter().map(|&(born, died, _)| Life { born, died });
    World::recorded(
        pages
            .iter()
            .map(|_| Element::default())
            .collect::<Elements>(),
        Groups::new(),
        lives.collect(),
        (starts, times),
        span,
    )
}

fn simulate(world: &World, choice: Choice, per_day: f64) -> (Outcomes, Vec<Polled>) {
    let setup = Setup {
        choice,
        terms: Terms::new(Budget::per_day(per_day).unwrap()),
        warmup: 0.0,
        seed: 1,
        last_modified: 0.0,
        hints: None,
        parts: None,
        start: Start::Warm,
        later_budgets: Vec::new(),
    };
    let mut polls = Vec::new();
    let outcomes = run(world, &setup, &mut |polled| polls.push(polled));
    (outcomes, polls)
}

fn uniform(world: &World) -> Choice {
    let rates = (0..world.n_elements()).map(|_| Rate::per_day(1.0).unwrap());
    Choice::Planned {
        rule: Rule::Uniform,
        order: Order::Fixed,
        rates: rates.collect(),
    }
}

const FOREVER: f64 = f64::INFINITY;

#[test]
fn first_polls_are_evenly_phased_and_a_copy_is_in_sync_until_it_misses_a_change() {
    let world = recorded(
        &[(0.0, FOREVER, &[0.5, 0.75, 6.0]), (0.0, FOREVER, &[])],
        8.0,
    );
    // Half a poll a day: each element every four days, at 1, 5 and at 3, 7.
    let (outcomes, polls) = simulate(&world, uniform(&world), 0.5);
    let times: Vec<_> = polls.iter().map(|poll| (poll.at, poll.element)).collect();
    assert_eq!(times, [(1.0, 0), (3.0, 1), (5.0, 0), (7.0, 1)]);
    let all = outcomes.all;
    // Stale from 0.5 to 1 and from 6 to 8, of sixteen days in all.
    assert_eq!(all.freshness, 1.0 - 2.5 / 16.0);
    assert_eq!(all.age_days, (0.125 + 2.0) / 16.0);
    assert_eq!(all.content_staleness, (0.125 + 0.03125 + 2.0) / 16.0);
    assert_eq!(all.change_ratio, 1.0 / 4.0);
    assert_eq!(all.fairness, 1.0);
    assert_eq!(all.n_polls, 4);
}

#[test]
fn uniform_polling_shares_the_budget_among_those_who_are_there() {
    let world = recorded(
        &[
            (0.0, FOREVER, &[]),
            (0.0, 10.0, &[]),
            (0.0, FOREVER, &[]),
            (20.0, FOREVER, &[]),
            (20.0, 20.0, &[20.0]),
        ],
        40.0,
    );
    let (_, polls) = simulate(&world, uniform(&world), 1.0);
    let between = |element, from, to| {
        let polls = polls.iter().filter(|poll| poll.element == element);
        polls.filter(|poll| poll.at >= from && poll.at < to).count()
    };
    assert_eq!(between(1, 10.0, 40.0), 0, "no polls after death");
    assert_eq!(between(3, 0.0, 20.0), 0, "no polls before birth");
    assert_eq!(between(4, 0.0, 40.0), 0, "no time to be polled");
    for (from, to, n) in [(0.0, 10.0, 10), (10.0, 20.0, 10), (20.0, 40.0, 20)] {
        let all: usize = (0..5).map(|element| between(element, from, to)).sum();
        assert!(all.abs_diff(n) <= 1, "{from} to {to}: {all}");
    }
    assert!(between(0, 10.0, 20.0).abs_diff(5) <= 1);
    assert!(between(3, 20.0, 40.0).abs_diff(7) <= 1);
}

#[test]
fn a_change_at_birth_is_missed_and_one_at_death_counts_for_no_time() {
    let world = recorded(&[(0.0, FOREVER, &[]), (2.0, 4.0, &[2.0, 4.0])], 10.0);
    let never = Choice::Planned {
        rule: Rule::Uniform,
        order: Order::Fixed,
        rates: vec![Rate::per_day(1.0).unwrap(); 2].into(),
    };
    let (outcomes, _) = simulate(&world, never, 0.0);
    // Stale from 2 to 4 of ten and two days.
    assert_eq!(outcomes.all.freshness, 1.0 - 2.0 / 12.0);
    assert_eq!(outcomes.all.fairness, 0.0);
}

#[test]
fn schedulers_in_use_spend_the_budget_exactly() {
    let world = recorded(
        &[
            (0.0, FOREVER, &[1.0, 2.0, 3.0]),
            (0.0, 50.0, &[]),
            (30.0, FOREVER, &[31.0]),
        ],
        100.0,
    );
    for rule in [
        InUse::Nutch,
        InUse::StormCrawler,
        InUse::Miniflux,
        InUse::FixedInterval,
    ] {
        let (outcomes, _) = simulate(&world, Choice::InUse(rule), 0.7);
        assert_eq!(outcomes.all.n_polls, 70, "{rule:?}");
    }
}

#[test]
fn a_warmup_is_not_measured() {
    let world = recorded(&[(0.0, FOREVER, &[1.0])], 10.0);
    let setup = |warmup| Setup {
        choice: uniform(&world),
        terms: Terms {
            max_interval: Some(Span::days(30.0).unwrap()),
            ..Terms::new(Budget::per_day(0.2).unwrap())
        },
        warmup,
        seed: 1,
        last_modified: 0.0,
        hints: None,
        parts: None,
        start: Start::Warm,
        later_budgets: Vec::new(),
    };
    // Polled at 2.5 and 7.5; stale from 1 to 2.5.
    let whole = run(&world, &setup(0.0), &mut |_| {}).all;
    let late = run(&world, &setup(2.0), &mut |_| {}).all;
    assert_eq!(whole.freshness, 1.0 - 1.5 / 10.0);
    assert_eq!(late.freshness, 1.0 - 0.5 / 8.0);
    assert_eq!((whole.change_ratio, late.change_ratio), (0.5, 0.5));
}

/// The share of changes in an hour in which twenty or more elements of the same site
/// change; and how well the changed share of a site in a month is predicted by ten
/// of its elements in that month, and by all in the month before (R²).
fn statistics(world: &World) -> (f64, f64, f64) {
    let groups = world.groups();
    let n_months = (world.span() / 30.0) as usize;
    let mut sites: std::collections::BTreeMap<u32, Vec<usize>> = Default::default();
    for index in 0..world.n_elements() {
        let group = world.element(index).group.unwrap();
        sites
            .entry(groups.outermost(group).number())
            .or_default()
            .push(index);
    }
    let (mut n_changes, mut n_in_bursts) = (0, 0);
    let mut months: Vec<(f64, f64, f64)> = Vec::new();
    for members in sites.values().filter(|members| members.len() >= 40) {
        let mut hours: Vec<u64> = members
            .iter()
            .flat_map(|&index| world.changes(index).map(|at| (at * 24.0) as u64))
            .collect();
        hours.sort_unstable();
        n_changes += hours.len();
        n_in_bursts += hours
            .chunk_by(|a, b| a == b)
            .map(<[u64]>::len)
            .filter(|&n| n >= 20)
            .sum::<usize>();
        // Every seventh is as good as a random ten: elements come in random order.
        let changed = |members: &[usize], month: usize| {
            let from = month as f64 * 30.0;
            let has = |&&index: &&usize| {
                world
                    .changes(index)
                    .any(|at| at >= from && at < from + 30.0)
            };
            members.iter().filter(has).count() as f64 / members.len() as f64
        };
        for month in 1..n_months {
            let ten: Vec<usize> = (0..10)
                .map(|k| members[(k * 7 + month * 11) % members.len()])
                .collect();
            months.push((
                changed(members, month),
                changed(&ten, month),
                changed(members, month - 1),
            ));
        }
    }
    let r_squared = |predictor: &dyn Fn(&(f64, f64, f64)) -> f64| {
        let n = months.len() as f64;
        let mean_x = months.iter().map(predictor).sum::<f64>() / n;
        let mean_y = months.iter().map(|month| month.0).sum::<f64>() / n;
        let mut sums = (0.0, 0.0, 0.0);
        for month in &months {
            let (x, y) = (predictor(month) - mean_x, month.0 - mean_y);
            sums = (sums.0 + x * y, sums.1 + x * x, sums.2 + y * y);
        }
        sums.0 * sums.0 / (sums.1 * sums.2)
    };
    (
        f64::from(n_in_bursts as u32) / n_changes as f64,
        r_squared(&|month| month.1),
        r_squared(&|month| month.2),
    )
}

#[test]
fn the_default_correlated_world_is_like_real_sites() {
    for seed in [1, 2, 3] {
        let world = Correlated::default().world(seed).unwrap();
        let (bursts, sampled, remembered) = statistics(&world);
        // 29 real sites have 0.48, 0.82 and 0.42.
        assert!((0.35..0.65).contains(&bursts), "{bursts}");
        assert!((0.75..0.95).contains(&sampled), "{sampled}");
        assert!((0.35..0.55).contains(&remembered), "{remembered}");
    }
}

#[test]
fn polls_keep_to_the_window_and_still_spend_the_budget() {
    let n = 60;
    let pages: Vec<(f64, f64, &[f64])> = vec![(0.0, FOREVER, &[]); n];
    let world = recorded(&pages, 50.0);
    for choice in [
        uniform(&world),
        Choice::Learned,
        Choice::InUse(InUse::StormCrawler),
    ] {
        let setup = Setup {
            choice,
            terms: Terms {
                window: Some(Window::from_hours(22.0, 4.0).unwrap()),
                ..Terms::new(Budget::per_day(24.0).unwrap())
            },
            warmup: 0.0,
            seed: 1,
            last_modified: 0.0,
            hints: None,
            parts: None,
            start: Start::Warm,
            later_budgets: Vec::new(),
        };
        let mut n_polls = 0;
        run(&world, &setup, &mut |polled| {
            n_polls += 1;
            let hour = polled.at.rem_euclid(1.0) * 24.0;
            assert!(!(4.001..21.999).contains(&hour), "{hour}");
        });
        assert!((1180..=1210).contains(&n_polls), "{n_polls}");
    }
}

#[test]
fn the_thousandth_poll_is_as_punctual_as_the_first() {
    // Changes at hours 4, 12, 20, … and three polls a day at just those times: a
    // poll sees what changed at its very moment.
    let changes: Vec<f64> = (0..3000).map(|k| f64::from(4 + 8 * k) / 24.0).collect();
    let world = recorded(&[(0.0, FOREVER, &changes)], 1000.0);
    for choice in [
        uniform(&world),
        Choice::InUse(InUse::FixedInterval),
        Choice::Learned,
    ] {
        let (outcomes, _) = simulate(&world, choice, 3.0);
        assert_eq!(outcomes.all.freshness, 1.0);
        assert_eq!(outcomes.all.change_ratio, 1.0);
    }
}

#[test]
fn random_order_polls_as_often_as_fixed_order() {
    let pages: Vec<(f64, f64, &[f64])> = vec![(0.0, FOREVER, &[]); 1000];
    let world = recorded(&pages, 300.0);
    let Choice::Planned { rule, rates, .. } = uniform(&world) else {
        unreachable!("uniform is planned");
    };
    let random = Choice::Planned {
        rule,
        order: Order::Random,
        rates,
    };
    let (outcomes, _) = simulate(&world, random, 10.0);
    assert!(
        outcomes.all.n_polls.abs_diff(3000) < 60,
        "{}",
        outcomes.all.n_polls
    );
}

#[test]
fn a_batch_costs_no_more_than_the_budget_allows() {
    let n = 100;
    let cost = |index: usize| Cost::new(if index < 50 { 2.0 } else { 6.0 }).unwrap();
    let costs: Vec<Cost> = (0..n).map(cost).collect();
    let elements = Elements::from_columns(n, Vec::new(), costs, Vec::new());
    let rates = vec![Rate::per_day(0.1).unwrap(); n];
    let world = World::poisson(elements, Groups::new(), rates, 100.0, 1);
    let settings = Settings::new(Span::days(10.0).unwrap()).unwrap();
    for sampling in [Sampling::RoundRobin, Sampling::Greedy, Sampling::Oracle] {
        let (_, polls) = simulate(&world, Choice::Sampled(sampling, settings), 10.0);
        let spent: f64 = polls
            .iter()
            .map(|poll| world.element(poll.element).cost.as_f64())
            .sum();
        // Ten batches of a hundred, the last poll of each of which may cost more; and
        // less where cheap elements came first.
        assert!((500.0..=1060.0).contains(&spent), "{sampling:?}: {spent}");
    }
}
