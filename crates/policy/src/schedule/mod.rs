//! When to poll what: the scheduler.
//!
//! A [`Scheduler`] is a state machine. Its owner, the simulator or the engine,
//! tells it which elements there are and what polls showed, and asks two questions:
//! what is the next poll at `now`, and when to wake. It keeps no clock and starts
//! nothing.
//!
//! What it does is its [`Choice`]:
//!
//! - *planned*: rates are known, and a plan for them is carried out in a given
//!   order;
//! - *learned*: nothing is known at the start; an element is polled when what the
//!   poll is worth reaches the price;
//! - *in use*: the rules of schedulers that people run today, earliest due first;
//! - *sampled*: the batches of the sampling paper, at the end of every cycle.

mod due;
mod learned;
mod limits;
mod paced;
mod planned;

use std::sync::Arc;

use rand::Rng;

use crate::in_use::InUse;
use crate::plan::{Rule, RulePolicy};
use crate::sample::{self, Sampler, Sampling};
use crate::{
    Budget, Element, ElementId, Elements, Frequency, Groups, Order, Outcome, Present, Rate, Span,
    Time, Window,
};
use learned::Learned;
use paced::{Habits, Paced, Queue};
use planned::Planned;

/// How polls are chosen.
#[derive(Debug, Clone)]
pub enum Choice {
    /// By a plan, for rates that are known.
    Planned {
        /// How the budget is shared.
        rule: Rule,
        /// How the polls of one element are spaced.
        order: Order,
        /// How often each element changes, by its number.
        rates: Arc<[Rate]>,
    },
    /// By what polls are worth, as far as is known.
    Learned,
    /// By the rules of a scheduler in use.
    InUse(InUse),
    /// In batches, by sampling.
    Sampled(Sampling, sample::Settings),
}

impl Choice {
    /// Whether it makes anything of hints.
    pub fn heeds_hints(&self) -> bool {
        matches!(self, Self::Learned)
    }
}

/// What a scheduler has to keep to.
#[derive(Debug, Clone)]
pub struct Terms {
    /// How much may be polled, in total and per (outermost) group.
    pub budget: Budget,
    /// No element waits longer, where the budget allows it.
    pub max_interval: Option<Span>,
    /// The hours of the day in which polls may be made; all if `None`.
    pub window: Option<Window>,
}

/// Says when to poll what.
#[derive(Debug)]
pub struct Scheduler {
    groups: Groups,
    window: Option<Window>,
    mode: Mode,
}

#[derive(Debug)]
enum Mode {
    Planned(Box<Planned>),
    Paced(Box<Paced>),
    Sampled(Box<Sampled>),
}

/// The sampling paper's batches.
#[derive(Debug)]
struct Sampled {
    sampler: Sampler,
    started_at: Time,
    cycle: f64,
    /// What a batch may cost, and what this one has.
    per_cycle: f64,
    spent: f64,
    elements: Elements,
    n_here: usize,
    total_cost: f64,
    n_batches: u64,
    is_open: bool,
}

impl Scheduler {
    /// A scheduler for the elements that are there at the start, whose copies are
    /// in sync. Their first polls are evenly phased.
    pub fn new(
        choice: Choice,
        terms: Terms,
        groups: Groups,
        present: Present<'_>,
        now: Time,
        rng: &mut dyn Rng,
    ) -> Self {
        let window = terms.window;
        let mode = match choice {
            Choice::Planned { rule, order, rates } => {
                let policy = match terms.max_interval {
                    Some(longest) => RulePolicy::new(rule).with_floor(Frequency(1.0 / longest.0)),
                    None => RulePolicy::new(rule),
                };
                let planned = Planned::new(
                    (policy, order),
                    rates,
                    present,
                    terms.budget,
                    &groups,
                    (plan_time(window, now), rng),
                );
                Mode::Planned(Box::new(planned))
            }
            Choice::Learned => {
                let learned = Learned::new(&terms, &groups, present, now);
                let paced = Paced::new(Queue::Learned(learned), &terms, present, now);
                Mode::Paced(Box::new(paced))
            }
            Choice::InUse(rule) => {
                let habits = Habits::new(rule, &terms, present, now);
                let paced = Paced::new(Queue::InUse(habits), &terms, present, now);
                Mode::Paced(Box::new(paced))
            }
            Choice::Sampled(sampling, settings) => {
                let cycle = settings.cycle().0;
                let mut sampler = Sampler::new(sampling, settings, &groups);
                for (id, element) in present.iter() {
                    sampler.add(id, &element, now);
                }
                Mode::Sampled(Box::new(Sampled {
                    sampler,
                    started_at: now,
                    cycle,
                    per_cycle: (terms.budget.as_per_day() * cycle).round(),
                    spent: 0.0,
                    elements: present.to_elements(),
                    n_here: present.len(),
                    total_cost: present.iter().map(|(_, element)| element.cost.0).sum(),
                    n_batches: 0,
                    is_open: false,
                }))
            }
        };
        Self {
            groups,
            window,
            mode,
        }
    }

    /// An element appears; its copy is in sync.
    pub fn add(&mut self, id: ElementId, element: Element, now: Time, rng: &mut dyn Rng) {
        match &mut self.mode {
            Mode::Planned(planned) => {
                let now = plan_time(self.window, now);
                planned.add(id, element, &self.groups, (now, rng));
            }
            Mode::Paced(paced) => paced.add(id, element, &self.groups, now),
            Mode::Sampled(sampled) => sampled.add(id, element, now),
        }
    }

    /// An element is gone.
    pub fn remove(&mut self, id: ElementId, now: Time) {
        match &mut self.mode {
            Mode::Planned(planned) => {
                planned.remove(id, &self.groups, plan_time(self.window, now));
            }
            Mode::Paced(paced) => paced.remove(id),
            Mode::Sampled(sampled) => sampled.remove(id),
        }
    }

    /// When to ask for the next poll: not before there is one, and not later than
    /// it is due. [`Time::NEVER`] if nothing is to be polled.
    pub fn wake_at(&mut self) -> Time {
        let wake_at = match &mut self.mode {
            Mode::Planned(planned) => planned.wake_at(),
            Mode::Paced(paced) => return paced.wake_at(),
            Mode::Sampled(sampled) => plan_time(self.window, sampled.wake_at()),
        };
        real_time(self.window, wake_at)
    }

    /// The element to poll now, if there is one.
    ///
    /// It is not given again before its poll was [observed](Self::observe).
    pub fn next_poll(&mut self, now: Time, rng: &mut dyn Rng) -> Option<ElementId> {
        match &mut self.mode {
            Mode::Planned(planned) => planned.next_poll(plan_time(self.window, now), rng),
            Mode::Paced(paced) => paced.next_poll(&self.groups, now),
            Mode::Sampled(sampled) => sampled.next_poll(now, rng),
        }
    }

    /// What a poll showed.
    pub fn observe(&mut self, id: ElementId, outcome: Outcome, now: Time) {
        match &mut self.mode {
            Mode::Planned(planned) => planned.observe(id),
            Mode::Paced(paced) => paced.observe(id, outcome, now),
            Mode::Sampled(sampled) => {
                let changed = matches!(outcome, Outcome::Changed { .. });
                sampled.sampler.observe(id, changed, now);
            }
        }
    }

    /// A listing, or whoever else may know, says that an element has changed.
    pub fn hint(&mut self, id: ElementId, now: Time) {
        if let Mode::Paced(paced) = &mut self.mode {
            paced.hint(id, now);
        }
    }

    /// Whether it must be told, when it wakes, which copies are stale: the oracle
    /// of the sampling paper, which nobody can be but a simulator.
    pub fn needs_foresight(&self) -> bool {
        match &self.mode {
            Mode::Sampled(sampled) => !sampled.is_open && sampled.sampler.needs_foresight(),
            _ => false,
        }
    }

    /// Which copies are stale now.
    pub fn foresee(&mut self, stale: &[ElementId]) {
        if let Mode::Sampled(sampled) = &mut self.mode {
            sampled.sampler.foresee(stale);
        }
    }

    /// What a poll must be worth to be made, if there is a price.
    pub fn price(&self) -> Option<f64> {
        match &self.mode {
            Mode::Planned(planned) => planned.price(),
            Mode::Paced(paced) => paced.price(),
            Mode::Sampled(_) => None,
        }
    }

    /// When an element is due, as far as is known.
    pub fn due_at(&self, id: ElementId) -> Option<Time> {
        match &self.mode {
            Mode::Planned(planned) => planned.due_at(id).map(|due| real_time(self.window, due)),
            Mode::Paced(paced) => paced.due_at(id),
            Mode::Sampled(_) => None,
        }
    }
}

impl Sampled {
    fn add(&mut self, id: ElementId, element: Element, now: Time) {
        self.sampler.add(id, &element, now);
        self.elements.set(id, element);
        self.n_here += 1;
        self.total_cost += element.cost.0;
    }

    fn remove(&mut self, id: ElementId) {
        self.sampler.remove(id);
        self.n_here = self.n_here.saturating_sub(1);
        self.total_cost -= self.elements.get(id).cost.0;
    }

    /// The end of the cycle.
    fn wake_at(&self) -> Time {
        Time(self.started_at.0 + self.cycle * (self.n_batches + 1) as f64)
    }

    fn next_poll(&mut self, now: Time, rng: &mut dyn Rng) -> Option<ElementId> {
        if now < self.wake_at() {
            return None;
        }
        if !self.is_open {
            // The paper's batches count polls; these are of the mean cost.
            let mean_cost = self.total_cost / self.n_here.max(1) as f64;
            let n_polls = if mean_cost > 0.0 {
                (self.per_cycle / mean_cost).round()
            } else {
                0.0
            };
            self.sampler.begin(n_polls, rng);
            self.is_open = true;
            self.spent = 0.0;
        }
        let next = match self.sampler.next(rng) {
            // The last may cost more than is left.
            Some(_) if self.spent >= self.per_cycle => None,
            next => next,
        };
        if let Some(id) = next {
            self.spent += self.elements.get(id).cost.0;
        }
        if next.is_none() {
            self.is_open = false;
            self.n_batches += 1;
        }
        next
    }
}

/// What going to a window's clock and back may lose, in days: so much later than
/// asked is in time.
const ROUNDING: f64 = 1e-9;

/// The time that a plan goes by, whose days are as long as the window is open.
fn plan_time(window: Option<Window>, now: Time) -> Time {
    window.map_or(now, |window| Time(window.compress(now.0) + ROUNDING))
}

/// When the plan's time is this.
fn real_time(window: Option<Window>, time: Time) -> Time {
    match window {
        Some(window) if time < Time::NEVER => Time(window.expand(time.0)),
        _ => time,
    }
}

/// Phases between 0 and 1 for this many elements, evenly spaced and such that
/// neighbours, which are often alike, are far apart: (k·i mod n + ½)/n, with k near
/// the golden section of n.
fn phases(n: usize) -> impl Iterator<Item = f64> {
    fn have_common_factor(mut a: usize, mut b: usize) -> bool {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a > 1
    }
    let mut stride = ((n as f64 * 0.618_033_988_749_895).round() as usize).max(1);
    while have_common_factor(stride, n) {
        stride += 1;
    }
    (0..n).scan(0, move |place, _| {
        let phase = (*place as f64 + 0.5) / n as f64;
        *place = (*place + stride) % n;
        Some(phase)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_pcg::Pcg64;

    #[test]
    fn phases_are_evenly_spaced_and_neighbours_far_apart() {
        for n in [1, 2, 3, 8, 100, 1001] {
            let phases: Vec<f64> = phases(n).collect();
            let mut sorted = phases.clone();
            sorted.sort_by(f64::total_cmp);
            for (position, phase) in sorted.iter().enumerate() {
                assert!((phase * n as f64 - 0.5 - position as f64).abs() < 1e-9);
            }
            if n > 8 {
                let near = |pair: &[f64]| (pair[0] - pair[1]).abs() < 0.3;
                assert!(!phases.windows(2).any(near));
            }
        }
    }

    /// Polls until a day is over, as `day:element`, with `+` where a change was
    /// found; `changes` says whether a poll finds one.
    fn script(scheduler: &mut Scheduler, until: f64, changes: impl Fn(u32, f64) -> bool) -> String {
        let mut rng = Pcg64::seed_from_u64(1);
        let mut polls = Vec::new();
        loop {
            let now = scheduler.wake_at();
            if now.0 > until {
                return polls.join(" ");
            }
            while let Some(id) = scheduler.next_poll(now, &mut rng) {
                let changed = changes(id.0, now.0);
                let outcome = if changed {
                    Outcome::Changed { age: None }
                } else {
                    Outcome::Unchanged
                };
                scheduler.observe(id, outcome, now);
                let mark = if changed { "+" } else { "" };
                polls.push(format!("{:.1}:{}{mark}", now.0, id.0));
            }
        }
    }

    fn scheduler(choice: Choice, per_day: f64, n: u32) -> Scheduler {
        let elements: Elements = (0..n).map(|_| Element::default()).collect();
        let terms = Terms {
            budget: Budget::per_day(per_day).unwrap(),
            max_interval: None,
            window: None,
        };
        let mut rng = Pcg64::seed_from_u64(1);
        let groups = Groups::new();
        Scheduler::new(
            choice,
            terms,
            groups,
            Present::all(&elements),
            Time::START,
            &mut rng,
        )
    }

    fn planned(rule: Rule, rates: &[f64]) -> Choice {
        Choice::Planned {
            rule,
            order: Order::Fixed,
            rates: rates.iter().map(|&rate| Rate(rate)).collect(),
        }
    }

    #[test]
    fn uniform_polls_take_turns_and_newcomers_join_in() {
        let mut uniform = scheduler(planned(Rule::Uniform, &[1.0; 4]), 1.0, 3);
        assert_eq!(
            script(&mut uniform, 6.0, |_, _| false),
            "0.5:0 1.5:2 2.5:1 3.5:0 4.5:2 5.5:1"
        );
        let mut rng = Pcg64::seed_from_u64(1);
        uniform.add(ElementId(3), Element::default(), Time(6.0), &mut rng);
        uniform.remove(ElementId(0), Time(6.0));
        let polls = script(&mut uniform, 13.0, |_, _| false);
        assert!(polls.contains(":3") && !polls.contains(":0"), "{polls}");
    }

    #[test]
    fn a_plan_polls_what_changes_often_more_often_and_too_often_never() {
        let optimal = Rule::Optimal(crate::Objective::Freshness);
        let mut optimal = scheduler(planned(optimal, &[0.1, 1.0, 50.0]), 1.0, 3);
        let polls = script(&mut optimal, 30.0, |_, _| false);
        let count = |element: &str| polls.matches(element).count();
        assert!(2 * count(":1") > 3 * count(":0"), "{polls}");
        assert_eq!(count(":2"), 0, "{polls}");
        assert!(optimal.price().is_some());
    }

    #[test]
    fn learned_polls_everyone_and_then_those_that_change() {
        let mut learned = scheduler(Choice::Learned, 1.0, 4);
        let first = script(&mut learned, 6.0, |id, _| id == 2);
        for element in [":0", ":1", ":2+", ":3"] {
            assert!(first.contains(element), "{first}");
        }
        let later = script(&mut learned, 60.0, |id, day| id == 2 && day % 8.0 < 4.0);
        let count = |element: &str| later.matches(element).count();
        assert!(count(":2") > count(":0") + 5, "{later}");
        assert!(count(":0") > 0, "nobody is forgotten: {later}");
    }

    #[test]
    fn batches_come_at_the_end_of_each_cycle() {
        let settings = sample::Settings::new(Span(5.0)).unwrap();
        let choice = Choice::Sampled(Sampling::RoundRobin, settings);
        let mut batches = scheduler(choice, 0.4, 3);
        assert_eq!(
            script(&mut batches, 15.0, |_, _| false),
            "5.0:0 5.0:1 10.0:2 10.0:0 15.0:1 15.0:2"
        );
    }
}
