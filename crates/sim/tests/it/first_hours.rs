//! The first hours: nothing is held, or the budget is suddenly another, or elements
//! join. What is polled is watched, and how fresh copies are at every moment.

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64;
use springtide_policy::agenda::FirstPolls;
use springtide_policy::in_use::InUse;
use springtide_policy::plan::Rule;
use springtide_policy::schedule::{Choice, Terms};
use springtide_policy::{Budget, Element, Elements, Groups, Order, Rate};
use springtide_sim::world::{Life, World};
use springtide_sim::{Polled, Setup, Start, run};

const FREE: Start = Start::Cold(FirstPolls::Free);
const COUNTED: Start = Start::Cold(FirstPolls::Counted);
/// Moments at which freshness is compared, per mean interval.
const MOMENTS: usize = 20;

/// Elements with these rates, all of one site.
fn world(rates: &[f64], span: f64, seed: u64) -> World {
    let mut groups = Groups::new();
    let group = Some(groups.add(None));
    let elements: Elements = rates
        .iter()
        .map(|_| Element {
            group,
            ..Element::default()
        })
        .collect();
    let rates: Vec<Rate> = rates
        .iter()
        .map(|&rate| Rate::per_day(rate).unwrap())
        .collect();
    World::poisson(elements, groups, rates, span, seed)
}

fn setup(choice: Choice, per_day: f64, start: Start) -> Setup {
    Setup {
        choice,
        terms: Terms::new(Budget::per_day(per_day).unwrap()),
        warmup: 0.0,
        seed: 1,
        last_modified: 0.0,
        hints: None,
        parts: None,
        start,
        later_budgets: Vec::new(),
    }
}

fn uniform(world: &World) -> Choice {
    Choice::Planned {
        rule: Rule::Uniform,
        order: Order::Fixed,
        rates: world.rates(),
    }
}

/// Polls, and the share of copies that are fresh at each of some moments.
fn played(world: &World, setup: &Setup, moments: &[f64]) -> (Vec<Polled>, Vec<f64>) {
    let mut polls = Vec::new();
    run(world, setup, &mut |polled| polls.push(polled));
    let n = world.n_elements();
    let mut polled_at: Vec<Vec<f64>> = (0..n).map(|index| vec![world.life(index).born]).collect();
    for poll in &polls {
        polled_at[poll.element].push(poll.at);
    }
    let changes: Vec<Vec<f64>> = (0..n).map(|index| world.changes(index).collect()).collect();
    let is_fresh = |index: usize, at: f64| {
        let before = |times: &[f64]| {
            let n = times.partition_point(|&time| time <= at);
            n.checked_sub(1).map(|last| times[last])
        };
        let polled_at = before(&polled_at[index]).unwrap_or(f64::NEG_INFINITY);
        before(&changes[index]).is_none_or(|changed_at| changed_at <= polled_at)
    };
    let share = |&at: &f64| {
        let here = (0..n).filter(|&index| world.life(index).born <= at);
        let (n_here, n_fresh) = here.fold((0, 0), |(here, fresh), index| {
            (here + 1, fresh + usize::from(is_fresh(index, at)))
        });
        n_fresh as f64 / f64::from(n_here.max(1))
    };
    let fresh = moments.iter().map(share).collect();
    (polls, fresh)
}

/// So many polls from one time to another; of how many elements; the most of one.
fn count(polls: &[Polled], from: f64, until: f64) -> (usize, usize, usize) {
    let mut elements: Vec<usize> = polls
        .iter()
        .filter(|poll| (from..until).contains(&poll.at))
        .map(|poll| poll.element)
        .collect();
    elements.sort_unstable();
    let runs = elements.chunk_by(|a, b| a == b);
    let most = runs.clone().map(<[usize]>::len).max().unwrap_or(0);
    (elements.len(), runs.count(), most)
}

/// Freshness under `learned` less that under uniform, at moments of three mean
/// intervals, as a mean over worlds.
fn lead(
    worlds: &[World],
    setup: impl Fn(Choice) -> Setup,
    (from, interval): (f64, f64),
) -> Vec<f64> {
    let moments: Vec<f64> = (1..=3 * MOMENTS)
        .map(|moment| from + interval * moment as f64 / MOMENTS as f64)
        .collect();
    let mut lead = vec![0.0; moments.len()];
    for world in worlds {
        let (_, ours) = played(world, &setup(Choice::Learned), &moments);
        let (_, plain) = played(world, &setup(uniform(world)), &moments);
        for (lead, (ours, plain)) in lead.iter_mut().zip(ours.iter().zip(plain)) {
            *lead += (ours - plain) / worlds.len() as f64;
        }
    }
    lead
}

fn least(lead: &[f64]) -> f64 {
    lead.iter().copied().fold(f64::INFINITY, f64::min)
}

/// A fifth each changes every 20 s, 60 s, 5 min, 1 h, and never.
fn live_site(seed: u64) -> World {
    const RATES: [f64; 5] = [4320.0, 1440.0, 288.0, 24.0, 0.0];
    let rates: Vec<f64> = (0..1200).map(|index| RATES[index % 5]).collect();
    world(&rates, 0.12, seed)
}

/// Lognormal rates: the median, and the σ.
fn lognormal(n: usize, median: f64, sigma: f64, span: f64, seed: u64) -> World {
    let mut rng = Pcg64::seed_from_u64(seed);
    let rates: Vec<f64> = (0..n)
        .map(|_| {
            let normal: f64 = StandardNormal.sample(&mut rng);
            median * (sigma * normal).exp()
        })
        .collect();
    world(&rates, span, rng.random())
}

#[test]
fn after_a_first_pass_polls_go_to_many_pages() {
    const INTERVAL: f64 = 1200.0 / 40_000.0;
    for seed in 1..=3 {
        let world = live_site(seed);
        for start in [FREE, COUNTED] {
            let (polls, _) = played(&world, &setup(Choice::Learned, 40_000.0, start), &[]);
            // Where first polls count, the pass takes at most two intervals.
            let first = if start == FREE { 0.0 } else { 2.0 * INTERVAL };
            let (n, n_pages, most) = count(&polls, first, first + INTERVAL);
            assert!(
                n_pages as f64 >= 0.6 * n as f64,
                "{start:?}: {n} on {n_pages}"
            );
            assert!(most <= 3, "{start:?}: {most}");
            // The first five minutes, which a person watches.
            let (n, n_pages, _) = count(&polls, first, first + 300.0 / 86_400.0);
            assert!(
                n_pages as f64 >= 0.9 * n as f64,
                "{start:?}: {n} on {n_pages}"
            );
        }
    }
}

#[test]
fn freshness_is_uniforms_or_better_from_the_first_minute() {
    const INTERVAL: f64 = 1200.0 / 40_000.0;
    let worlds: Vec<World> = (1..=12).map(live_site).collect();
    let lead = lead(
        &worlds,
        |choice| setup(choice, 40_000.0, FREE),
        (0.0, INTERVAL),
    );
    assert!(least(&lead) > -0.01, "{lead:?}");
}

#[test]
fn in_the_first_mean_interval_nobody_gets_more_than_three_times_its_share_without_evidence() {
    for (median, sigma) in [(0.1, 0.0), (1.0, 0.0), (0.1, 1.5), (1.0, 1.5), (10.0, 1.5)] {
        let world = lognormal(1000, median, sigma, 1.1, 5);
        let (polls, _) = played(&world, &setup(Choice::Learned, 1000.0, FREE), &[]);
        let mut found = vec![false; 1000];
        let mut n_polls = vec![0; 1000];
        for poll in polls.iter().filter(|poll| poll.at < 1.0) {
            n_polls[poll.element] += 1;
            found[poll.element] |= poll.changed;
        }
        for (n_polls, found) in n_polls.into_iter().zip(found) {
            assert!(n_polls <= 3 || found, "{median} {sigma}: {n_polls}");
        }
    }
}

#[test]
fn a_budget_that_rises_or_falls_a_hundred_times_is_spent_well_at_once() {
    for (median, sigma) in [(0.3, 0.0), (0.1, 1.5), (1.0, 1.5)] {
        for factor in [100.0, 0.01] {
            let (n, day) = (1000, 6.0);
            let interval = 1.0 / factor;
            let span = day + 3.1 * interval;
            let worlds: Vec<World> = (1..=8)
                .map(|seed| lognormal(n, median, sigma, span, seed))
                .collect();
            let setup = |choice| {
                let mut setup = setup(choice, n as f64, FREE);
                let budget = Budget::per_day(n as f64 * factor).unwrap();
                setup.later_budgets = vec![(day, budget)];
                setup
            };
            let lead = lead(&worlds, setup, (day, interval));
            assert!(least(&lead) > -0.01, "{median} {sigma} {factor}: {lead:?}");
            let (polls, _) = played(&worlds[0], &setup(Choice::Learned), &[]);
            let (n_polls, ..) = count(&polls, day, day + interval);
            assert!(n_polls.abs_diff(n) <= 2, "{n_polls}");
            if factor > 1.0 {
                let (n_polls, n_pages, most) = count(&polls, day, day + interval);
                assert!(n_pages as f64 > 0.6 * n_polls as f64 && most <= 3);
            }
        }
    }
}

#[test]
fn after_a_pause_copies_are_caught_up_with_at_least_as_fast_as_by_uniform_polling() {
    let n = 1000;
    let worlds: Vec<World> = (1..=8)
        .map(|seed| lognormal(n, 0.1, 1.5, 20.0, seed))
        .collect();
    let setup = |choice| {
        let mut setup = setup(choice, n as f64, FREE);
        setup.later_budgets = vec![
            (6.0, Budget::per_day(0.0).unwrap()),
            (13.0, Budget::per_day(n as f64).unwrap()),
        ];
        setup
    };
    let lead = lead(&worlds, setup, (13.0, 1.0));
    assert!(least(&lead) > -0.01, "{lead:?}");
    let (polls, _) = played(&worlds[0], &setup(Choice::Learned), &[]);
    assert!(polls.iter().all(|poll| !(6.01..13.0).contains(&poll.at)));
}

#[test]
fn elements_that_join_are_polled_no_worse_than_by_turns() {
    // A site of 200, and 1,000 more on the sixth day.
    let (n_first, n) = (200, 1200);
    let joined = |seed| {
        let made = lognormal(n, 0.3, 1.0, 12.0, seed);
        let life = |index| Life {
            born: if index < n_first { 0.0 } else { 6.0 },
            died: f64::INFINITY,
        };
        let (mut starts, mut times) = (vec![0], Vec::new());
        for index in 0..n {
            times.extend(made.changes(index).filter(|&at| at > life(index).born));
            starts.push(times.len());
        }
        World::recorded(
            made.elements().clone(),
            made.groups().clone(),
            (0..n).map(life).collect(),
            (starts, times),
            12.0,
        )
    };
    let worlds: Vec<World> = (1..=6).map(joined).collect();
    let per_day = n as f64;
    let lead = lead(&worlds, |choice| setup(choice, per_day, FREE), (6.0, 1.0));
    assert!(least(&lead) > -0.01, "{lead:?}");
    let (polls, _) = played(&worlds[0], &setup(Choice::Learned, per_day, FREE), &[]);
    let new = polls.iter().filter(|poll| poll.element >= n_first);
    let mut n_polls = vec![0; n];
    for poll in new.filter(|poll| poll.at < 7.0) {
        n_polls[poll.element] += 1;
    }
    assert!(
        n_polls.iter().all(|&n| n <= 3),
        "{:?}",
        n_polls.iter().max()
    );
}

/// A pause may come first, too: then there is no budget to go by until it ends.
#[test]
fn in_pauses_nobody_is_polled_and_afterwards_nearly_everyone_is() {
    let n = 50;
    let world = world(&vec![0.5; n], 9.0, 2);
    for choice in [
        Choice::Learned,
        uniform(&world),
        Choice::InUse(InUse::FixedInterval),
        Choice::InUse(InUse::Nutch),
    ] {
        let mut setup = setup(choice.clone(), 0.0, Start::Warm);
        setup.later_budgets = [(1.0, 100.0), (3.0, 0.0), (5.0, 100.0)]
            .map(|(day, per_day)| (day, Budget::per_day(per_day).unwrap()))
            .to_vec();
        let (polls, _) = played(&world, &setup, &[]);
        for (from, until) in [(0.0, 1.0), (3.01, 5.0)] {
            assert_eq!(count(&polls, from, until).0, 0, "{choice:?}");
        }
        for (from, until) in [(1.0, 3.0), (5.0, 9.0)] {
            let (n_polls, n_pages, _) = count(&polls, from, until);
            let allowed = (100.0 * (until - from)) as usize;
            assert!(
                n_polls.abs_diff(allowed) <= allowed / 20,
                "{choice:?}: {n_polls}"
            );
            // Ours may leave out one that it has reason to think as it was.
            let may_be_left_out = match choice {
                Choice::Learned => n / 10,
                _ => 0,
            };
            assert!(n_pages >= n - may_be_left_out, "{choice:?}: {n_pages}");
        }
    }
}

#[test]
fn a_first_pass_that_counts_takes_its_time_and_one_that_is_free_does_not() {
    let world = world(&[0.5; 100], 10.0, 1);
    for choice in [Choice::Learned, uniform(&world)] {
        let counted = run(&world, &setup(choice.clone(), 20.0, COUNTED), &mut |_| {});
        assert!(counted.all.n_polls.abs_diff(200) <= 1, "{counted:?}");
        let mut n_polls = 0;
        let free = run(&world, &setup(choice, 20.0, FREE), &mut |_| n_polls += 1);
        assert_eq!(free.all.n_polls, n_polls);
        // Uniform polling rests a while after the pass, since nobody is due.
        assert!((190..=201).contains(&n_polls), "{n_polls}");
    }
}
