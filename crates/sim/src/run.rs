//! The loop: a world, an agenda, and the virtual clock between them.

use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use springtide_policy::agenda::{Poll, Request, Verdict};
use springtide_policy::schedule::{Choice, Terms};
use springtide_policy::{Budget, ElementId, Outcome, Span, Time};

use crate::measure::{Measures, Tally};
use crate::parallel::*;
use crate::start::{self, Start, Unheld};
use crate::world::{Cursor, World, draw, id};

/// One experiment. [`Setup::new`] gives one to change the rest of.
#[derive(Debug, Clone)]
pub struct Setup {
    /// How polls are chosen.
    pub choice: Choice,
    /// The budget, and what else is to be kept to.
    pub terms: Terms,
    /// Days at the start that are not measured.
    pub warmup: f64,
    /// Where random numbers start.
    pub seed: u64,
    /// The share of elements that tell when they last changed.
    pub last_modified: f64,
    /// A listing that hints at changes.
    pub hints: Option<Hints>,
    /// Which part of the elements each belongs to, if parts are to be measured
    /// apart.
    pub parts: Option<Parts>,
    /// What is held at the start.
    pub start: Start,
    /// Other budgets than that of the terms, and from which day on. None at all is a
    /// pause.
    pub later_budgets: Vec<(f64, Budget)>,
}

impl Setup {
    /// A policy and what it has to keep to; with copies in sync at the start, measured
    /// from there, with seed 1, and with nobody who tells what has changed or when.
    pub fn new(choice: Choice, terms: Terms) -> Self {
        Self {
            choice,
            terms,
            warmup: 0.0,
            seed: 1,
            last_modified: 0.0,
            hints: None,
            parts: None,
            start: Start::Warm,
            later_budgets: Vec::new(),
        }
    }
}

/// A listing that says, for better or worse, what has changed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hints {
    /// The share of hints that are true.
    pub precision: f64,
    /// The share of changes that are hinted at.
    pub recall: f64,
    /// Days from a change to its hint.
    pub delay: f64,
}

/// A partition of the elements.
#[derive(Debug, Clone)]
pub struct Parts {
    /// The number of each element's part.
    pub of: Arc<[u32]>,
    /// How many parts there are.
    pub n: usize,
}

/// What was measured.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Outcomes {
    /// Of all elements.
    pub all: Measures,
    /// Of each part.
    pub parts: Vec<Measures>,
}

/// A poll that was made.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Polled {
    /// When, in days since the start.
    pub at: f64,
    /// Of which element.
    pub element: usize,
    /// Whether the copy was stale.
    pub changed: bool,
}

/// Runs an experiment to the end of the world's span, telling `watch` of every
/// poll.
pub fn run(world: &World, setup: &Setup, watch: &mut dyn FnMut(Polled)) -> Outcomes {
    let span = world.span();
    // A stream of its own: the world's changes are drawn from the same seed.
    let mut rng = Pcg64::seed_from_u64(setup.seed ^ 0x7363_6865_6475_6c65);
    let mut copies = Copies::new(world, setup);
    let mut turns = Turns::new(world, setup);

    let mut unheld = Unheld::new(world, setup.start);
    let mut agenda = start::agenda(world, setup, &unheld, &mut rng);

    let mut woken_at = f64::NEG_INFINITY;
    let mut now = 0.0;
    loop {
        // Whoever has nothing to poll when it asked to be woken is not woken at the
        // same time again.
        let wake_at = agenda.wake_at(time(now)).as_days().max(woken_at).max(now);
        if let Some((at, turn)) = turns.next_before(wake_at.min(span)) {
            let at_time = time(at);
            match turn {
                Turn::Birth(index) => {
                    copies.begin(index, at);
                    agenda.join(id(index), world.element(index), at_time, &mut rng);
                }
                Turn::Death(index) => {
                    copies.end(index, at);
                    agenda.remove(id(index), at_time);
                }
                Turn::Hint(index) => agenda.scheduler_mut().hint(id(index), at_time),
                Turn::Budget(number) => {
                    agenda.set_budget(&setup.later_budgets[number].1, at_time);
                }
            }
            now = at;
            continue;
        }
        if wake_at > span {
            break;
        }
        woken_at = wake_at + SHORTEST;
        now = wake_at;
        let at_time = time(now);
        if agenda.scheduler().needs_foresight() {
            agenda.scheduler_mut().foresee(&copies.stale(now));
        }
        while let Some(request) = agenda.next(at_time, &mut rng) {
            let (polled, group) = match request {
                Request::Poll(Poll { id, group, .. }) => (id, group),
                Request::New { group, is_counted } => {
                    woken_at = now;
                    let is_there = |index| now < world.life(index).died;
                    if let Some(index) = unheld.next(group, is_there) {
                        agenda.set_under_way(id(index));
                        copies.hold(index, is_counted, now);
                        agenda.join(id(index), world.element(index), at_time, &mut rng);
                    }
                    if let Some(group) = group {
                        agenda.ended(group, Verdict::Fine, at_time, &mut rng);
                    }
                    if unheld.is_empty() {
                        agenda.scheduler_mut().expect(0);
                    }
                    continue;
                }
                _ => continue,
            };
            woken_at = now;
            let index = polled.index();
            let chance = agenda.scheduler().chance(polled, at_time);
            let changed_at = copies.poll(index, chance, now);
            let outcome = match changed_at {
                Some(changed_at) => Outcome::Changed {
                    age: tells_when(setup, polled)
                        .then(|| Span::days(now - changed_at).ok())
                        .flatten(),
                },
                None => Outcome::Unchanged,
            };
            agenda.observe(polled, outcome, at_time);
            if let Some(group) = group {
                agenda.ended(group, Verdict::Fine, at_time, &mut rng);
            }
            watch(Polled {
                at: now,
                element: index,
                changed: changed_at.is_some(),
            });
        }
    }
    copies.finish(span)
}

/// The shortest wait, in days: a tenth of a millisecond.
const SHORTEST: f64 = 1e-9;

fn time(days: f64) -> Time {
    Time::from_days(days).expect("within the span")
}

fn tells_when(setup: &Setup, element: ElementId) -> bool {
    setup.last_modified > 0.0 && draw(!setup.seed, u64::from(element.0), 0) <= setup.last_modified
}

/// Births, hints, deaths and other budgets, in the order of time.
struct Turns {
    turns: Vec<(f64, Turn)>,
    n_done: usize,
}

/// Births come before deaths: an element may be there for no time at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    Birth(usize),
    Hint(usize),
    Death(usize),
    Budget(usize),
}

impl Turns {
    fn new(world: &World, setup: &Setup) -> Self {
        let mut turns = Vec::new();
        if let Some(hints) = setup.hints.filter(|_| setup.choice.heeds_hints()) {
            let mut rng = Pcg64::seed_from_u64(setup.seed ^ 0x6869_6e74);
            for index in 0..world.n_elements() {
                hints.of(world, index, &mut rng, |at| {
                    turns.push((at, Turn::Hint(index)))
                });
            }
        }
        if !world.is_settled() {
            for index in 0..world.n_elements() {
                let life = world.life(index);
                if life.born > 0.0 {
                    turns.push((life.born, Turn::Birth(index)));
                }
                if life.died <= world.span() {
                    turns.push((life.died, Turn::Death(index)));
                }
            }
        }
        let budgets = setup.later_budgets.iter().enumerate();
        turns.extend(budgets.map(|(number, &(from, _))| (from, Turn::Budget(number))));
        turns.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        Self { turns, n_done: 0 }
    }

    /// The next, if it is not after `time`.
    fn next_before(&mut self, time: f64) -> Option<(f64, Turn)> {
        let &(at, turn) = self.turns.get(self.n_done)?;
        (at <= time).then(|| {
            self.n_done += 1;
            (at, turn)
        })
    }
}

impl Hints {
    /// The hints at one element: of its changes, some, and late; and false ones, so
    /// many that the precision comes out.
    fn of(&self, world: &World, index: usize, rng: &mut Pcg64, mut hint: impl FnMut(f64)) {
        let life = world.life(index);
        let until = life.died.min(world.span());
        for changed_at in world.changes(index) {
            let at = changed_at + self.delay;
            if rng.random::<f64>() < self.recall && at < until {
                hint(at);
            }
        }
        let false_rate =
            self.recall * world.rate(index).as_per_day() * (1.0 - self.precision) / self.precision;
        if false_rate > 0.0 {
            let mut at = life.born;
            loop {
                at -= (1.0 - rng.random::<f64>()).ln() / false_rate;
                if at >= until {
                    break;
                }
                hint(at);
            }
        }
    }
}

/// Our copies, and how fresh they were so far.
struct Copies<'a> {
    world: &'a World,
    /// When each copy was last in sync.
    polled_at: Vec<f64>,
    /// The first change after that.
    cursors: Vec<Cursor>,
    has_changed: Vec<bool>,
    was_found: Vec<bool>,
    tally: Tally,
    parts: Option<(Parts, Vec<Tally>)>,
}

impl<'a> Copies<'a> {
    fn new(world: &'a World, setup: &Setup) -> Self {
        let n = world.n_elements();
        let tally = Tally::new(setup.warmup);
        Self {
            world,
            // Not yet born, or not yet held: nothing is measured of it.
            polled_at: (0..n)
                .map(|index| match world.life(index).born {
                    born if born <= 0.0 && setup.start == Start::Warm => 0.0,
                    _ => f64::NAN,
                })
                .collect(),
            cursors: (0..n).map(|index| world.cursor(index)).collect(),
            has_changed: vec![false; n],
            was_found: vec![false; n],
            parts: setup.parts.clone().map(|parts| {
                let tallies = vec![tally.clone(); parts.n];
                (parts, tallies)
            }),
            tally,
        }
    }

    fn begin(&mut self, index: usize, now: f64) {
        self.polled_at[index] = now;
    }

    /// A first poll brings a copy; what changed before does not matter.
    fn hold(&mut self, index: usize, is_counted: bool, now: f64) {
        let cursor = &mut self.cursors[index];
        while cursor.next <= now {
            self.world.step(index, cursor);
        }
        self.polled_at[index] = now;
        if is_counted {
            self.tally.first_poll();
            if let Some(tally) = self.part(index) {
                tally.first_poll();
            }
        }
    }

    fn end(&mut self, index: usize, now: f64) {
        if !self.polled_at[index].is_nan() {
            self.pass(index, now);
            self.polled_at[index] = f64::NAN;
        }
    }

    /// Brings a copy in sync; says when the element last changed, if it did. `chance` is
    /// how likely that was thought to be.
    fn poll(&mut self, index: usize, chance: Option<f64>, now: f64) -> Option<f64> {
        let changed_at = self.pass(index, now);
        self.polled_at[index] = now;
        let element = self.world.element(index);
        let found = changed_at.is_some();
        self.tally.poll(element, (found, chance), now);
        if let Some(tally) = self.part(index) {
            tally.poll(element, (found, chance), now);
        }
        if changed_at.is_some() {
            self.was_found[index] = true;
        }
        changed_at
    }

    /// Measures a copy from when it was last in sync until now; says when the
    /// element last changed, if it did.
    fn pass(&mut self, index: usize, now: f64) -> Option<f64> {
        let cursor = &mut self.cursors[index];
        let mut spell = self.tally.spell(self.polled_at[index], now);
        let mut changed_at = None;
        while cursor.next <= now {
            spell.change(cursor.next);
            changed_at = Some(cursor.next);
            self.world.step(index, cursor);
        }
        self.has_changed[index] |= changed_at.is_some();
        let weight = self.world.element(index).weight;
        self.tally.add(&spell, weight);
        if let Some(tally) = self.part(index) {
            tally.add(&spell, weight);
        }
        changed_at
    }

    fn part(&mut self, index: usize) -> Option<&mut Tally> {
        let (parts, tallies) = self.parts.as_mut()?;
        tallies.get_mut(parts.of[index] as usize)
    }

    /// Which copies are stale.
    fn stale(&self, now: f64) -> Vec<ElementId> {
        (0..self.cursors.len())
            .filter(|&index| !self.polled_at[index].is_nan() && self.cursors[index].next <= now)
            .map(id)
            .collect()
    }

    fn finish(mut self, span: f64) -> Outcomes {
        for index in 0..self.cursors.len() {
            self.end(index, span);
        }
        let count = |is_in: &dyn Fn(usize) -> bool| {
            let of = |flags: &[bool]| {
                let flags = flags.iter().enumerate();
                flags.filter(|&(index, &flag)| flag && is_in(index)).count()
            };
            (of(&self.has_changed), of(&self.was_found))
        };
        let parts = self.parts.iter().flat_map(|(parts, tallies)| {
            tallies.iter().enumerate().map(|(part, tally)| {
                tally.measures(count(&|index| parts.of[index] as usize == part))
            })
        });
        Outcomes {
            all: self.tally.measures(count(&|_| true)),
            parts: parts.collect(),
        }
    }
}

/// Runs several experiments on one world, on as many threads as there are.
pub fn compare(world: &World, setups: &[Setup], polled: &(dyn Fn(usize) + Sync)) -> Vec<Outcomes> {
    /// So many polls are told of at once.
    const TOLD: usize = 1 << 12;
    setups
        .par_iter()
        .map(|setup| {
            let mut n_polls = 0;
            run(world, setup, &mut |_| {
                n_polls += 1;
                if n_polls == TOLD {
                    polled(TOLD);
                    n_polls = 0;
                }
            })
        })
        .collect()
}
