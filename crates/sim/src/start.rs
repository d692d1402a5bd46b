//! What is held at the start, and a first pass over what is not.

use std::collections::{BTreeMap, VecDeque};

use rand::Rng;
use springtide_policy::agenda::{Agenda, FirstPolls, Pace, Settings};
use springtide_policy::schedule::{Choice, Scheduler};
use springtide_policy::{ElementId, GroupId, Present, Span, Time};

use crate::Setup;
use crate::world::{World, id};

/// What is held of the elements that are there at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// All copies, in sync.
    #[default]
    Warm,
    /// Nothing. A first pass brings a copy of each, and a copy counts from when it is
    /// held.
    Cold(FirstPolls),
}

/// Elements without a copy, by outermost group, in the order of their numbers.
pub(crate) struct Unheld {
    queues: BTreeMap<Option<GroupId>, VecDeque<usize>>,
    n_left: usize,
}

impl Unheld {
    /// Those of the elements that are there at the start which nothing is held of.
    pub(crate) fn new(world: &World, start: Start) -> Self {
        let mut unheld = Self {
            queues: BTreeMap::new(),
            n_left: 0,
        };
        if start != Start::Warm {
            for index in (0..world.n_elements()).filter(|&index| world.life(index).born <= 0.0) {
                let queue = unheld.queues.entry(outermost(world, index)).or_default();
                queue.push_back(index);
                unheld.n_left += 1;
            }
        }
        unheld
    }

    /// The next of a group that is still there.
    pub(crate) fn next(
        &mut self,
        group: Option<GroupId>,
        is_there: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let queue = self.queues.get_mut(&group)?;
        while let Some(index) = queue.pop_front() {
            self.n_left -= 1;
            if is_there(index) {
                return Some(index);
            }
        }
        None
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.n_left == 0
    }

    fn tell(&self, agenda: &mut Agenda, now: Time) {
        for (&group, queue) in &self.queues {
            agenda.add_new(group, queue.len() as u64, now);
        }
        agenda.scheduler_mut().expect(self.n_left as u64);
    }
}

/// The agenda of an experiment, on a clock that is never late.
pub(crate) fn agenda(world: &World, setup: &Setup, unheld: &Unheld, rng: &mut dyn Rng) -> Agenda {
    let (choice, terms) = (setup.choice.clone(), setup.terms.clone());
    let groups = world.groups().clone();
    let first_pass = match setup.start {
        Start::Warm if world.is_settled() => {
            let present = Present::all(world.elements());
            return Agenda::exact(choice, terms, groups, present, Time::START, rng);
        }
        Start::Warm => {
            let first: Vec<ElementId> = (0..world.n_elements())
                .filter(|&index| world.life(index).born <= 0.0)
                .map(id)
                .collect();
            let present = Present::some(world.elements(), &first);
            return Agenda::exact(choice, terms, groups, present, Time::START, rng);
        }
        Start::Cold(first_pass) => first_pass,
    };
    let (budget, window) = (terms.budget.clone(), terms.window);
    let per_day = budget.as_per_day();
    let present = Present::some(world.elements(), &[]);
    let scheduler = Scheduler::new(choice, terms, groups, present, Time::START, rng);
    let settings = Settings {
        first_pass,
        ..Settings::default()
    };
    // Copies that came at once would be due at once under a plan: it is paced too.
    // Batches are meant to come at once.
    let is_paced = !matches!(setup.choice, Choice::Sampled(..));
    let pace = is_paced.then(|| Pace::even(per_day, window, Time::START));
    let keeps_budget = scheduler.keeps_budget();
    let mut agenda = Agenda::new(scheduler, pace, settings);
    if !keeps_budget {
        for (group, cap) in budget.caps().iter() {
            let step = Span::days(1.0 / per_day).unwrap_or(Span::ZERO);
            agenda.gate_mut().set_cap(group, cap, step);
        }
    }
    unheld.tell(&mut agenda, Time::START);
    agenda
}

fn outermost(world: &World, index: usize) -> Option<GroupId> {
    let group = world.element(index).group?;
    Some(world.groups().outermost(group))
}
