//! Pooled estimates are as good as they promise, whatever the rates are like.

mod worlds;

use worlds::{Intervals, Rates, Score, World, pooled, with_true_priors};

/// The mean over so many worlds.
#[track_caller]
fn score(world: &World, n_worlds: u64) -> Score {
    let mut score = Score::default();
    for seed in 0..n_worlds {
        let groups = world.make(seed);
        let estimators = pooled(&groups);
        score.add(&groups, &estimators);
    }
    score
}

#[track_caller]
fn check_coverage(worlds: &[(World, u64)]) {
    for (world, n_worlds) in worlds {
        let score = score(world, *n_worlds);
        let (coverage, tails) = (score.coverage(), score.tails());
        assert!(
            (0.87..=0.93).contains(&coverage),
            "{coverage} {tails:?} in {world:?}"
        );
    }
}

#[test]
fn pooling_takes_a_third_off_the_error_where_groups_differ() {
    let (mut ours, mut best) = (Score::default(), Score::default());
    for seed in 0..4 {
        let groups = World::groups_that_differ().make(seed);
        ours.add(&groups, &pooled(&groups));
        best.add(&groups, &with_true_priors(&groups).unwrap());
    }
    assert!(ours.error_reduction() > 0.34, "{ours:?}");
    assert!(
        ours.error_reduction() > 0.9 * best.error_reduction(),
        "{ours:?} {best:?}"
    );
    assert!((0.87..=0.93).contains(&ours.coverage()), "{ours:?}");
}

#[test]
fn pooled_intervals_hold_nine_in_ten_whatever_the_rates_are_like() {
    let world = |rates, n_polls, middle| World {
        n_polls,
        middle,
        ..World::of(rates, 1500)
    };
    check_coverage(&[
        (world(Rates::Gamma(0.3), 20, 0.2), 2),
        (world(Rates::Gamma(1.0), 10, 0.5), 2),
        (world(Rates::Gamma(4.0), 5, 0.5), 2),
        (world(Rates::LogNormal(0.5), 10, 1.0), 2),
        (world(Rates::LogNormal(1.5), 5, 0.2), 2),
        (world(Rates::LogNormal(2.5), 5, 0.2), 2),
        (world(Rates::LogNormal(2.5), 20, 1.0), 2),
        (world(Rates::Pareto(1.2), 20, 1.0), 2),
    ]);
}

#[test]
fn pooled_intervals_hold_at_least_as_much_where_there_are_two_kinds_of_elements() {
    let world = World {
        middle: 0.2,
        n_polls: 10,
        ..World::of(Rates::TwoPoint(10.0, 0.3), 1500)
    };
    let score = score(&world, 2);
    assert!(score.coverage() > 0.87, "{score:?}");
}

#[test]
fn pooled_intervals_hold_where_changes_are_very_rare() {
    let world = |rates| World {
        middle: 0.005,
        n_polls: 20,
        ..World::of(rates, 3000)
    };
    check_coverage(&[
        (world(Rates::LogNormal(1.5)), 2),
        (world(Rates::LogNormal(2.5)), 2),
    ]);
    // One element in eleven was seen to change, hardly one in a hundred twice. That says
    // little of how many change far less often than the others, and of these there are
    // more than is taken for granted.
    let coverage = score(&world(Rates::Gamma(1.0)), 3).coverage();
    assert!((0.84..=0.93).contains(&coverage), "{coverage}");
}

#[test]
fn pooled_intervals_hold_for_few_elements_and_for_groups_of_any_size() {
    let few = World {
        n_polls: 10,
        ..World::of(Rates::LogNormal(1.0), 20)
    };
    let sizes = World {
        between: 1.0,
        middle: 0.3,
        n_groups: 30,
        sizes: (2, 200),
        ..World::of(Rates::Gamma(1.5), 0)
    };
    let uneven = World {
        intervals: Intervals::Uneven,
        with_age: 0.5,
        ..sizes
    };
    check_coverage(&[(few, 30), (sizes, 2), (uneven, 1)]);
}

#[test]
fn pooled_intervals_are_narrow_where_rates_are_equal() {
    let score = score(&World::of(Rates::Equal, 1000), 1);
    // Of five polls by themselves: 2.3.
    assert!(score.coverage() > 0.9 && score.width() < 0.6, "{score:?}");
    assert!(score.error_reduction() > 0.8, "{score:?}");
}

#[test]
fn estimates_are_the_same_every_time() {
    let world = World {
        intervals: Intervals::Uneven,
        n_groups: 3,
        ..World::of(Rates::LogNormal(1.0), 40)
    };
    let (score, again) = (score(&world, 1), score(&world, 1));
    assert_eq!(score, again);
}
