//! How good pooled estimates are in Poisson worlds of many kinds.
//!
//! For each world: how much less the root of the mean square error of ln(rate) is than
//! that of the bias-reduced estimate; how many of the 90 % intervals hold the true rate,
//! how many lie above and below it, and how wide they are (the mean of ln(high/low)).
//! Where rates are gamma distributed, also what the true prior of each group would give.
//! At the end, how long a million polls take.
//!
//! `cargo bench --bench estimate` takes some minutes; `-- NAME` has only the worlds whose
//! name holds that, `-- million` only the time, and `--test` a small part, to see that it
//! works.

#![expect(clippy::print_stdout, reason = "a bench prints its findings")]
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a bench reads clock and arguments"
)]

#[path = "../tests/it/estimate/worlds.rs"]
mod worlds;

use std::time::Instant;

use worlds::{Intervals, Rates, Score, World, pooled, with_true_priors};

/// Elements that a world of any size is made of, one after the other.
const N_ELEMENTS: usize = 2000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_test = arguments.iter().any(|argument| argument == "--test");
    let only = arguments.iter().find(|argument| !argument.starts_with('-'));
    println!(
        "{:42} {:>6} {:>6} {:>6} {:>6} {:>6}",
        "world", "error", "held", "above", "below", "width"
    );
    let mut n_shown = 0;
    for (name, world) in worlds() {
        if only.is_some_and(|only| !name.contains(only.as_str())) || is_test && n_shown == 3 {
            continue;
        }
        n_shown += 1;
        show(&name, &world);
    }
    if only.is_none_or(|only| only == "million") && !is_test {
        time_a_million();
    }
}

fn worlds() -> Vec<(String, World)> {
    let differ = World::groups_that_differ();
    let sizes = World {
        sizes: (2, 500),
        ..differ
    };
    let mut worlds = vec![
        ("groups that differ".to_owned(), differ),
        ("groups of 2 to 500".to_owned(), sizes),
    ];
    let kinds = [
        ("gamma .3", Rates::Gamma(0.3)),
        ("gamma 1", Rates::Gamma(1.0)),
        ("gamma 4", Rates::Gamma(4.0)),
        ("lognormal .5", Rates::LogNormal(0.5)),
        ("lognormal 1.5", Rates::LogNormal(1.5)),
        ("lognormal 2.5", Rates::LogNormal(2.5)),
        ("Pareto 1.2", Rates::Pareto(1.2)),
        ("Pareto 2", Rates::Pareto(2.0)),
        ("1 and 20", Rates::TwoPoint(20.0, 0.3)),
        ("1 and 5", Rates::TwoPoint(5.0, 0.5)),
        ("equal", Rates::Equal),
    ];
    for (kind, rates) in kinds {
        for n in [20, 300, 5000] {
            for n_polls in [2, 5, 20, 50] {
                for middle in [0.02, 0.2, 1.0] {
                    let name = format!("{kind}, {n} x {n_polls}, {middle}/d");
                    let even = World {
                        middle,
                        n_polls,
                        ..World::of(rates, n)
                    };
                    worlds.push((name, even));
                }
            }
        }
        for (ages, with_age) in [("", 0.0), (", half with age", 0.5)] {
            let uneven = World {
                middle: 0.5,
                n_polls: 10,
                intervals: Intervals::Uneven,
                with_age,
                ..World::of(rates, 1000)
            };
            worlds.push((format!("{kind}, 1000 x 10 uneven{ages}"), uneven));
        }
    }
    worlds
}

fn show(name: &str, world: &World) {
    let (mut score, mut at_best) = (Score::default(), None);
    let mut n_elements = 0;
    let mut seed = 0;
    while n_elements < N_ELEMENTS {
        let groups = world.make(seed);
        n_elements += groups
            .iter()
            .map(|group| group.members.len())
            .sum::<usize>();
        seed += 1;
        score.add(&groups, &pooled(&groups));
        if let Some(priors) = with_true_priors(&groups) {
            let score: &mut Score = at_best.get_or_insert_default();
            score.add(&groups, &priors);
        }
    }
    println!("{name:42} {}", line(&score));
    if let Some(score) = at_best {
        println!("{:42} {}", "  with the true priors", line(&score));
    }
}

fn line(score: &Score) -> String {
    let (below, above) = score.tails();
    format!(
        "{:6.1} {:6.1} {:6.1} {:6.1} {:6.2}",
        -100.0 * score.error_reduction(),
        100.0 * score.coverage(),
        100.0 * below,
        100.0 * above,
        score.width()
    )
}

/// A million polls at uneven intervals, which is the slowest: of one group, of groups
/// and of very many small ones.
fn time_a_million() {
    for (n_groups, size, n_polls) in [(1, 20_000, 50), (200, 1000, 5), (20_000, 10, 5)] {
        let world = World {
            n_groups,
            n_polls,
            between: 1.0,
            intervals: Intervals::Uneven,
            ..World::of(Rates::Gamma(1.0), size)
        };
        let groups = world.make(1);
        let start = Instant::now();
        let estimators = pooled(&groups);
        let fitted = start.elapsed().as_secs_f64();
        Score::default().add(&groups, &estimators);
        let all = start.elapsed().as_secs_f64();
        println!(
            "{n_groups} groups of {size}, {n_polls} polls each: fitted in {fitted:.1} s, estimated on one thread in {:.1} s",
            all - fitted
        );
    }
}
