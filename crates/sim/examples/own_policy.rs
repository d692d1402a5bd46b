//! A policy of one's own, beside uniform polling and `learned`.
//!
//! `own_policy` runs them on a made world, `own_policy --history DIR` on a recorded one
//! (three plain tables: sites.csv, pages.csv, changes.csv).
#![expect(clippy::print_stdout, reason = "an example says what it found")]

mod history;

use std::error::Error;

use springtide_policy::plan::Rule;
use springtide_policy::schedule::{Choice, Custom, CustomPolicy, DueTimes, Terms};
use springtide_policy::{Budget, Element, ElementId, Groups, Order, Outcome, Span, Time};
use springtide_sim::world::{Correlated, World};
use springtide_sim::{Setup, compare};

/// Polls each element as often as the square root of its rate, as far as that shows.
#[derive(Default)]
struct SquareRoot {
    seen: Vec<Seen>,
    due: DueTimes,
}

#[derive(Clone)]
struct Seen {
    since: Time,
    n_changes: f64,
}

impl SquareRoot {
    fn wait(&mut self, id: ElementId, now: Time) {
        let seen = &self.seen[id.index()];
        // Half a change in a month is what it starts from.
        let rate = (seen.n_changes + 0.5) / (now.since(seen.since).as_days() + 30.0);
        let interval = Span::days(rate.powf(-0.5)).expect("the rate is above zero");
        self.due.set(id, now + interval);
    }
}

impl CustomPolicy for SquareRoot {
    fn add(&mut self, id: ElementId, _: Element, _: &Groups, since: Time) {
        let seen = Seen {
            since,
            n_changes: 0.0,
        };
        self.seen
            .resize(self.seen.len().max(id.index() + 1), seen.clone());
        self.seen[id.index()] = seen;
        self.wait(id, since);
    }

    fn remove(&mut self, id: ElementId) {
        self.due.remove(id);
    }

    fn choose(&mut self, _: Time) -> Option<ElementId> {
        self.due.first().map(|(_, id)| id)
    }

    fn begin(&mut self, id: ElementId) {
        self.due.remove(id);
    }

    fn observe(&mut self, id: ElementId, outcome: Outcome, now: Time) {
        if outcome.is_change() {
            self.seen[id.index()].n_changes += 1.0;
        }
        self.wait(id, now);
    }
}

fn square_root() -> Custom {
    Custom::new("square-root", |_| SquareRoot::default())
}

/// The freshness of uniform polling, of this policy, and of `learned`, with a poll of
/// each element in two weeks.
fn try_on(world: &World) -> Result<[(&'static str, f64); 3], Box<dyn Error>> {
    let uniform = Choice::Planned {
        rule: Rule::Uniform,
        order: Order::Fixed,
        rates: world.rates(),
    };
    let choices = [uniform, Choice::Custom(square_root()), Choice::Learned];
    let budget = Budget::per_day(world.n_elements() as f64 / 14.0)?;
    let setups = choices.map(|choice| Setup {
        warmup: world.span() / 4.0,
        ..Setup::new(choice, Terms::new(budget.clone()))
    });
    let outcomes = compare(world, &setups, &|_| {});
    let names = ["uniform", "square-root", "learned"];
    Ok([0, 1, 2].map(|index| (names[index], outcomes[index].all.freshness)))
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let world = match arguments.as_slice() {
        [] => Correlated::default().world(1)?,
        [flag, folder] if flag == "--history" => history::read(folder.as_ref())?,
        _ => return Err("usage: own_policy [--history DIR]".into()),
    };
    for (name, freshness) in try_on(&world)? {
        println!("{name:12} freshness {freshness:.4}");
    }
    Ok(())
}

#[test]
fn it_keeps_to_what_a_policy_has_to_keep_to() {
    springtide_policy::schedule::conformance::check(&square_root());
}

#[test]
fn it_is_better_than_uniform_polling_and_not_as_good_as_learned() {
    let small = Correlated {
        span_days: 400.0,
        sites: 10,
        ..Correlated::default()
    };
    let [uniform, own, learned] = try_on(&small.world(1).unwrap()).unwrap();
    assert!(
        uniform.1 < own.1 && own.1 < learned.1,
        "{uniform:?} {own:?} {learned:?}"
    );
}
