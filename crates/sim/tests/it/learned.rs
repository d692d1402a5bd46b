//! What springtide's own policy promises, in worlds that it has not seen.

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64;
use springtide_policy::plan::Rule;
use springtide_policy::schedule::{Choice, Terms};
use springtide_policy::{
    Budget, Caps, Cost, Element, Elements, Groups, Objective, Order, Rate, Span, Weight,
};
use springtide_sim::world::{Correlated, World};
use springtide_sim::{Hints, Measures, Polled, Setup, Start, run};

fn setup(choice: Choice, per_day: f64, warmup: f64) -> Setup {
    Setup {
        choice,
        terms: Terms::new(Budget::per_day(per_day).unwrap()),
        warmup,
        seed: 1,
        last_modified: 0.0,
        hints: None,
        parts: None,
        start: Start::Warm,
        later_budgets: Vec::new(),
    }
}

fn measure(world: &World, setup: &Setup) -> Measures {
    run(world, setup, &mut |_| {}).all
}

fn planned(rule: Rule, world: &World) -> Choice {
    Choice::Planned {
        rule,
        order: Order::Fixed,
        rates: world.rates(),
    }
}

/// Lognormal rates with median 1 a day and σ 1.5, Pareto weights.
fn poisson_world(n: usize, shape: f64, span: f64, seed: u64) -> World {
    let mut rng = Pcg64::seed_from_u64(seed);
    let (mut rates, mut weights) = (Vec::new(), Vec::new());
    for _ in 0..n {
        let normal: f64 = StandardNormal.sample(&mut rng);
        rates.push(Rate::per_day((1.5 * normal).exp()).unwrap());
        let weight = (1.0 - rng.random::<f64>()).powf(-1.0 / shape);
        weights.push(Weight::new(weight).unwrap());
    }
    let elements = Elements::from_columns(n, weights, Vec::new(), Vec::new());
    World::poisson(elements, Groups::new(), rates, span, seed)
}

#[test]
fn it_recovers_nine_tenths_of_what_knowing_the_rates_would_gain() {
    for (shape, seed) in [(1.2, 1), (1.2, 2), (1.5, 3), (1.5, 4)] {
        let world = poisson_world(1000, shape, 200.0, seed);
        let freshness = |choice| measure(&world, &setup(choice, 500.0, 50.0)).freshness;
        let uniform = freshness(planned(Rule::Uniform, &world));
        let optimal = freshness(planned(Rule::Optimal(Objective::Freshness), &world));
        let recovered = (freshness(Choice::Learned) - uniform) / (optimal - uniform);
        assert!(recovered > 0.9, "{shape} {seed}: {recovered}");
    }
}

#[test]
fn it_beats_known_rates_where_elements_change_together() {
    let correlated = Correlated {
        sites: 20,
        elements_per_site: 150.0,
        ..Correlated::default()
    };
    let world = correlated.world(7).unwrap();
    for days in [30.0, 7.0] {
        let per_day = world.n_elements() as f64 / days;
        let measured = |choice| measure(&world, &setup(choice, per_day, 243.0));
        let uniform = measured(planned(Rule::Uniform, &world));
        let optimal = measured(planned(Rule::Optimal(Objective::Freshness), &world));
        let learned = measured(Choice::Learned);
        assert!(learned.freshness > optimal.freshness, "{days}");
        assert!(learned.age_days < uniform.age_days, "{days}");
    }
}

/// What polls of some elements find is news of the others, of the time before as well as
/// of the days to come.
#[test]
fn what_it_thinks_likely_takes_in_what_others_were_found_to_have_missed() {
    let correlated = Correlated {
        sites: 20,
        elements_per_site: 150.0,
        ..Correlated::default()
    };
    // By its clocks alone it was .585, .613, .279 and .301.
    for (seed, days, most) in [
        (7, 30.0, 0.55),
        (8, 30.0, 0.58),
        (7, 7.0, 0.26),
        (8, 7.0, 0.28),
    ] {
        let world = correlated.world(seed).unwrap();
        let per_day = world.n_elements() as f64 / days;
        let learned = measure(&world, &setup(Choice::Learned, per_day, 243.0));
        let log_loss = learned.log_loss.unwrap();
        assert!(log_loss < most, "{seed} {days}: {log_loss}");
    }
}

#[test]
fn it_spends_the_budget_and_no_more() {
    let world = poisson_world(200, 1.5, 100.0, 5);
    let measures = measure(&world, &setup(Choice::Learned, 37.0, 0.0));
    assert_eq!(measures.n_polls, 3700);
}

/// All polls, by element.
fn polls(world: &World, setup: &Setup) -> Vec<Vec<f64>> {
    let mut polls = vec![vec![0.0]; world.n_elements()];
    run(world, setup, &mut |polled: Polled| {
        polls[polled.element].push(polled.at);
    });
    polls
}

#[test]
fn nothing_waits_longer_than_the_longest_interval() {
    let world = poisson_world(300, 1.2, 120.0, 6);
    let mut setup = setup(Choice::Learned, 100.0, 0.0);
    // The budget would do for three days.
    for longest in [3.1, 6.0] {
        setup.terms.max_interval = Some(Span::days(longest).unwrap());
        for times in polls(&world, &setup) {
            let ends = times.iter().skip(1).chain([&120.0]);
            for (from, to) in times.iter().zip(ends) {
                assert!(to - from <= longest + 1e-9, "{from} to {to}");
            }
        }
    }
    // More than the budget allows: all get the same.
    setup.terms.max_interval = Some(Span::days(1.0).unwrap());
    let counts: Vec<usize> = polls(&world, &setup).iter().map(Vec::len).collect();
    let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
    assert!(most - least <= 1, "{least} to {most}");
}

#[test]
fn a_capped_group_is_never_polled_faster_than_its_cap() {
    let mut groups = Groups::new();
    let (slow, quick) = (groups.add(None), groups.add(None));
    let inside = groups.add(Some(slow));
    let n = 200;
    let of = |index: usize| match index % 3 {
        0 => Some(inside),
        1 => Some(slow),
        _ => Some(quick),
    };
    let elements = Elements::from_columns(n, Vec::new(), Vec::new(), (0..n).map(of).collect());
    let rates = vec![Rate::per_day(0.3).unwrap(); n];
    let world = World::poisson(elements, groups, rates, 60.0, 1);
    for choice in [
        Choice::Learned,
        Choice::InUse(springtide_policy::in_use::InUse::Nutch),
    ] {
        let mut setup = setup(choice, 50.0, 0.0);
        let caps = Caps::per_day([(slow, 8.0)]).unwrap();
        setup.terms.budget = Budget::per_day(50.0).unwrap().with_caps(caps);
        let polls = polls(&world, &setup);
        let mut slow: Vec<f64> = (0..n)
            .filter(|index| index % 3 != 2)
            .flat_map(|index| polls[index][1..].iter().copied())
            .collect();
        slow.sort_by(f64::total_cmp);
        // Polls come every fiftieth of a day, the cap is one every eighth.
        let apart = |pair: &[f64]| pair[1] - pair[0] > 0.125 - 0.02 - 1e-9;
        assert!(slow.windows(2).all(apart));
        // All of the cap is used, and the rest goes to the others.
        assert!((470..=481).contains(&slow.len()), "{}", slow.len());
        let all: usize = polls.iter().map(|times| times.len() - 1).sum();
        assert!(all >= 2990, "{all}");
    }
}

#[test]
fn groups_that_are_all_at_their_caps_leave_the_rest_of_the_budget() {
    let mut groups = Groups::new();
    let (first, second) = (groups.add(None), groups.add(None));
    let of = vec![Some(first), Some(first), Some(second)];
    let elements = Elements::from_columns(3, Vec::new(), Vec::new(), of);
    let rates = vec![Rate::per_day(1.0).unwrap(); 3];
    let world = World::poisson(elements, groups, rates, 50.0, 1);
    for (caps, expected) in [
        ((1.0, 0.2), 60),
        ((4.0, 4.0), 400),
        ((0.0, 0.0), 0),
        ((0.0, 2.0), 100),
    ] {
        let caps = Caps::per_day([(first, caps.0), (second, caps.1)]).unwrap();
        let mut setup = setup(Choice::Learned, 10.0, 0.0);
        setup.terms.budget = Budget::per_day(10.0).unwrap().with_caps(caps);
        let n_polls = measure(&world, &setup).n_polls;
        assert!(n_polls.abs_diff(expected) <= 3, "{n_polls} for {expected}");
    }
}

#[test]
fn a_poll_that_costs_more_is_made_less_often() {
    let n = 400;
    let cost = |index: usize| Cost::new(if index.is_multiple_of(2) { 1.0 } else { 5.0 }).unwrap();
    let elements = Elements::from_columns(n, Vec::new(), (0..n).map(cost).collect(), Vec::new());
    let rates = vec![Rate::per_day(0.2).unwrap(); n];
    let world = World::poisson(elements, Groups::new(), rates, 200.0, 1);
    let polls = polls(&world, &setup(Choice::Learned, 300.0, 0.0));
    let count = |odd: usize| -> usize {
        let times = polls.iter().skip(odd).step_by(2);
        times.map(|times| times.len() - 1).sum()
    };
    let (cheap, dear) = (count(0), count(1));
    let spent = cheap as f64 + 5.0 * dear as f64;
    assert!((spent / 60_000.0 - 1.0).abs() < 1e-3, "{spent}");
    // √5 times less often while polls are plentiful.
    let ratio = cheap as f64 / dear as f64;
    assert!((1.8..3.0).contains(&ratio), "{ratio}");
}

#[test]
fn good_hints_help_and_bad_ones_do_little_harm() {
    let world = poisson_world(600, 1.5, 200.0, 9);
    let with = |hints: Option<(f64, f64)>| {
        let mut setup = setup(Choice::Learned, 300.0, 50.0);
        setup.hints = hints.map(|(precision, recall)| Hints {
            precision,
            recall,
            delay: 0.0,
        });
        measure(&world, &setup).freshness
    };
    let none = with(None);
    assert!(with(Some((0.95, 0.9))) > none + 0.03);
    assert!(with(Some((0.7, 0.6))) > none + 0.01);
    assert!(with(Some((0.1, 0.5))) > none - 0.03);
}

#[test]
fn change_times_help() {
    let world = poisson_world(600, 1.5, 200.0, 10);
    let mut setup = setup(Choice::Learned, 300.0, 50.0);
    let bits = measure(&world, &setup).freshness;
    setup.last_modified = 1.0;
    assert!(measure(&world, &setup).freshness > bits);
}

#[test]
fn nothing_to_poll_and_nothing_that_matters_are_no_trouble() {
    let none = World::poisson(Elements::new(), Groups::new(), Vec::new(), 10.0, 1);
    assert_eq!(measure(&none, &setup(Choice::Learned, 5.0, 0.0)).n_polls, 0);
    let weights = vec![Weight::new(0.0).unwrap(); 3];
    let elements = Elements::from_columns(3, weights, Vec::new(), Vec::new());
    let rates = vec![Rate::per_day(1.0).unwrap(); 3];
    let idle = World::poisson(elements, Groups::new(), rates, 10.0, 1);
    let measures = measure(&idle, &setup(Choice::Learned, 5.0, 0.0));
    assert!(measures.n_polls <= 50);
    let element: Elements = [Element::default()].into_iter().collect();
    let rates = vec![Rate::per_day(1.0).unwrap()];
    let single = World::poisson(element, Groups::new(), rates, 10.0, 1);
    let measures = measure(&single, &setup(Choice::Learned, 5.0, 0.0));
    assert_eq!(measures.n_polls, 50);
}
