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
//! - *sampled*: the batches of the sampling paper, at the end of every cycle;
//! - *custom*: a [`CustomPolicy`] that someone else has written.

mod closed_groups;
pub mod conformance;
mod custom;
pub(crate) mod due;
mod learned;
pub(crate) mod memory;
mod paced;
mod planned;
mod quota;

use std::sync::Arc;

use rand::Rng;

use crate::in_use::InUse;
use crate::plan::{Rule, RulePolicy};
use crate::sample::{self, Sampler, Sampling};
use crate::{
    Budget, Element, ElementId, Elements, Frequency, Gamma, GroupId, Groups, Objective, Order,
    Outcome, Present, Rate, Span, Time, Window,
};
use closed_groups::ClosedGroups;
use custom::CustomQueue;
pub use custom::{Custom, CustomPolicy, Past, StartingPoint};
pub use due::DueTimes;
use learned::Learned;
pub use memory::{ElementMemory, Reason, Recollection, Usual};
use memory::{Recalled, Remembered, numbers_from_bytes, numbers_to_bytes};
use paced::{InUseQueue, Paced, Queue, due_after};
use planned::Planned;
pub use quota::Quota;

/// How polls are chosen.
#[derive(Debug, Clone)]
#[non_exhaustive]
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
    /// By a policy that someone else has written.
    Custom(Custom),
}

impl Choice {
    /// Whether it makes anything of hints.
    pub fn heeds_hints(&self) -> bool {
        matches!(self, Self::Learned | Self::Custom(_))
    }
}

/// What a scheduler has to keep to.
#[derive(Debug, Clone)]
pub struct Terms {
    /// How much may be polled, in total and per (outermost) group.
    pub budget: Budget,
    /// What a learned policy is to keep high, or low; others have it in their rule.
    pub objective: Objective,
    /// No element waits longer, where the budget allows it.
    pub max_interval: Option<Span>,
    /// The hours of the day that a plan or a batch keeps to by itself; where someone
    /// else keeps the budget, they keep to its window too.
    pub window: Option<Window>,
    /// Whether rates are learned beside a policy that does not learn.
    pub shadow: Shadow,
}

impl Terms {
    /// A budget, for freshness, at any hour, and nothing more.
    pub fn new(budget: Budget) -> Self {
        Self {
            budget,
            objective: Objective::Freshness,
            max_interval: None,
            window: None,
            shadow: Shadow::None,
        }
    }

    /// How many polls a day a round is reckoned with. Where all begins with a pause, any
    /// number will do until there is a budget.
    fn first_per_day(&self) -> f64 {
        match self.budget.as_per_day() {
            0.0 => 1.0,
            per_day => per_day,
        }
    }
}

/// Whether rates are learned beside a policy that does not learn: a plan whose rates
/// nobody knows goes by them, and whoever wants to tell how fresh copies are needs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shadow {
    /// They are known, or nobody asks.
    None,
    /// They are.
    Learner,
}

/// Says when to poll what.
#[derive(Debug)]
pub struct Scheduler {
    groups: Groups,
    window: Option<Window>,
    mode: Mode,
    closed_groups: ClosedGroups,
    shadow: Option<Box<ShadowLearner>>,
}

/// What is learned beside a policy that does not learn.
#[derive(Debug)]
struct ShadowLearner {
    learned: Learned,
    elements: Elements,
    /// What the policy was, to begin with, and who was polled when: until all are
    /// back that were there before.
    choice: Choice,
    terms: Terms,
    recalled: Vec<(ElementId, Time, f32)>,
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
        let learns = matches!(choice, Choice::Learned);
        let shadow = (terms.shadow == Shadow::Learner && !learns).then(|| {
            Box::new(ShadowLearner {
                learned: Learned::new(&terms, &groups, present, now),
                elements: present.to_elements(),
                choice: choice.clone(),
                terms: terms.clone(),
                recalled: Vec::new(),
            })
        });
        let mode = Mode::new(choice, &terms, &groups, present, (now, rng));
        Self {
            groups,
            window,
            mode,
            closed_groups: ClosedGroups::default(),
            shadow,
        }
    }

    /// A new group inside another, or outermost.
    pub fn add_group(&mut self, parent: Option<GroupId>) -> GroupId {
        self.groups.add(parent)
    }

    /// The groups there are.
    pub fn groups(&self) -> &Groups {
        &self.groups
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
        if let Some(shadow) = &mut self.shadow {
            shadow.elements.set(id, element);
            shadow.learned.add(id, element, &self.groups, now);
        }
    }

    /// An element is part of what another was, or is: what is learned of the one is a
    /// first guess at the other.
    pub fn inherit(&mut self, whole: ElementId, part: ElementId, now: Time) {
        let element = self.element(part);
        if let Some(learned) = self.learned_mut() {
            learned.inherit(whole, (part, element), now);
        }
    }

    /// An element appears whose polls someone else sees to, as those of rows that come
    /// many to a query: it is never due, and takes nothing of the budget, but what is
    /// [observed](Self::observe) of it is learned. Its copy is in sync.
    pub fn watch(&mut self, id: ElementId, element: Element, now: Time) {
        match (&mut self.shadow, &mut self.mode) {
            (Some(shadow), _) => {
                shadow.elements.set(id, element);
                shadow.learned.watch(id, element, &self.groups, now);
            }
            (None, Mode::Paced(paced)) => paced.watch(id, element, &self.groups, now),
            _ => {}
        }
    }

    /// What polling an element is worth now for an objective, its weight and cost left
    /// out; nothing is known if nothing is learned.
    pub fn worth(&self, id: ElementId, objective: Objective, now: Time) -> Option<f64> {
        self.learned()?.worth(id, objective, now)
    }

    /// So many elements will be there before long, those that are there included: a
    /// first pass is under way, and what a poll is worth depends on how many there are
    /// to poll.
    pub fn expect(&mut self, n_elements: u64) {
        if let Some(learned) = self.learned_mut() {
            learned.expect(n_elements as f64);
        }
    }

    /// From now on the budget is another, by however much; nothing at all is a pause.
    /// What is known of elements stays.
    pub fn set_budget(&mut self, budget: &Budget, now: Time) {
        match &mut self.mode {
            Mode::Planned(planned) => {
                planned.set_budget(budget, &self.groups, plan_time(self.window, now));
            }
            Mode::Paced(paced) => paced.set_budget(budget, now),
            Mode::Sampled(sampled) => {
                sampled.per_cycle = (budget.as_per_day() * sampled.cycle).round();
            }
        }
        if let Some(shadow) = &mut self.shadow {
            shadow.terms.budget = budget.clone();
            shadow.learned.set_budget(budget.as_per_day());
        }
    }

    /// An element is gone.
    pub fn remove(&mut self, id: ElementId, now: Time) {
        if let Some(group) = self.outermost(id) {
            self.closed_groups.release(id, group);
        }
        let is_watched = self.is_watched(id);
        if let Some(shadow) = &mut self.shadow {
            let cost = shadow.elements.get(id).cost.0;
            shadow.learned.remove(id, cost);
            if is_watched {
                return;
            }
        }
        match &mut self.mode {
            Mode::Planned(planned) => {
                planned.remove(id, &self.groups, plan_time(self.window, now));
            }
            Mode::Paced(paced) => paced.remove(id),
            Mode::Sampled(sampled) => sampled.remove(id),
        }
    }

    /// When to ask for the next poll: not before there is one, and not later than
    /// it is due. [`Time::NEVER`] if nothing is to be polled, or only in groups that are
    /// closed.
    pub fn wake_at(&mut self) -> Time {
        if self.closed_groups.is_ready() {
            return Time(f64::NEG_INFINITY);
        }
        match &mut self.mode {
            Mode::Planned(planned) => real_time(self.window, planned.wake_at()),
            Mode::Paced(paced) => paced.wake_at(),
            Mode::Sampled(sampled) => {
                real_time(self.window, plan_time(self.window, sampled.wake_at()))
            }
        }
    }

    /// The element to poll now, if there is one.
    ///
    /// It is not given again before its poll was [observed](Self::observe).
    pub fn next_poll(&mut self, now: Time, rng: &mut dyn Rng) -> Option<ElementId> {
        if let Some(id) = self.closed_groups.pop() {
            return Some(id);
        }
        for _ in 0..MOST_CLOSED {
            let id = match &mut self.mode {
                Mode::Planned(planned) => planned.next_poll(plan_time(self.window, now), rng),
                Mode::Paced(paced) => paced.next_poll(now),
                Mode::Sampled(sampled) => sampled.next_poll(now, rng),
            }?;
            if !self.closed_groups.has_closed() {
                return Some(id);
            }
            match self.outermost(id) {
                Some(group) if self.closed_groups.is_closed(group) => {
                    self.closed_groups.wait(id, group)
                }
                _ => return Some(id),
            }
        }
        None
    }

    /// Whether an element is there.
    pub fn contains(&self, id: ElementId) -> bool {
        if let Some(learned) = self.learned() {
            return learned.contains(id);
        }
        match &self.mode {
            Mode::Planned(planned) => planned.contains(id),
            Mode::Paced(paced) => paced.contains(id),
            Mode::Sampled(sampled) => id.index() < sampled.elements.len(),
        }
    }

    /// What it was told of an element when it appeared.
    pub fn element(&self, id: ElementId) -> Element {
        match (&self.shadow, &self.mode) {
            (Some(shadow), _) => shadow.elements.get(id),
            (_, Mode::Planned(planned)) => planned.element(id),
            (_, Mode::Paced(paced)) => paced.element(id),
            (_, Mode::Sampled(sampled)) => sampled.elements.get(id),
        }
    }

    /// The outermost group of an element.
    pub fn outermost(&self, id: ElementId) -> Option<GroupId> {
        let group = self.element(id).group?;
        Some(self.groups.outermost(group))
    }

    /// An outermost group has opened or closed: nothing in one that is closed is polled.
    pub fn set_open(&mut self, group: GroupId, is_open: bool) {
        self.closed_groups.set_open(group, is_open);
        if let Mode::Paced(paced) = &mut self.mode {
            paced.set_open(group, is_open);
        }
    }

    /// Whether an element is due by a time, wherever it is. A scheduler may have a poll
    /// to make before anyone is due, for a budget is there to be spent.
    pub fn is_due(&mut self, by: Time) -> bool {
        let due = match &mut self.mode {
            Mode::Planned(planned) => real_time(self.window, planned.wake_at()),
            Mode::Paced(paced) => paced.first_due(),
            Mode::Sampled(sampled) => sampled.wake_at(),
        };
        due <= by || self.closed_groups.has_waiting()
    }

    /// Whether an element is due by a time that may be polled now: whose group is not
    /// closed.
    pub fn is_ready(&mut self, by: Time) -> bool {
        if self.closed_groups.is_ready() {
            return true;
        }
        match &mut self.mode {
            Mode::Paced(paced) if paced.learned().is_some() => {
                let learned = paced.learned_mut();
                let ready = learned.and_then(Learned::first_ready);
                ready.is_some_and(|due| due <= by.0)
            }
            Mode::Planned(planned) => real_time(self.window, planned.wake_at()) <= by,
            Mode::Paced(paced) => paced.first_due() <= by,
            Mode::Sampled(sampled) => sampled.wake_at() <= by,
        }
    }

    /// Gives out an element whose turn it is not: because someone asked for it, or
    /// to draw it at random. Says whether it could be; one that is being polled, or
    /// is gone, cannot.
    pub fn take(&mut self, id: ElementId, now: Time) -> bool {
        if self.is_watched(id) {
            return false;
        }
        if let Some(group) = self.outermost(id)
            && self.closed_groups.release(id, group)
        {
            return true;
        }
        match &mut self.mode {
            Mode::Planned(planned) => planned.take(id, plan_time(self.window, now)),
            Mode::Paced(paced) => paced.take(id),
            // A batch may ask for it all the same.
            Mode::Sampled(sampled) => id.index() < sampled.elements.len(),
        }
    }

    /// A poll came to nothing: nothing is learned, and the element is due again at
    /// this time.
    pub fn put_back(&mut self, id: ElementId, due: Time, now: Time) {
        if self.is_watched(id) {
            return;
        }
        match &mut self.mode {
            Mode::Planned(planned) => planned.put_back(id, plan_time(self.window, due)),
            Mode::Paced(paced) => paced.put_back(id, due, now),
            Mode::Sampled(_) => {}
        }
        if let Some(shadow) = &mut self.shadow {
            shadow.learned.put_back(id, due, now);
        }
    }

    /// What a poll showed.
    pub fn observe(&mut self, id: ElementId, outcome: Outcome, now: Time) {
        if let Some(shadow) = self.shadow.as_mut().filter(|s| s.learned.is_watched(id)) {
            shadow.learned.observe(id, &shadow.elements, outcome, now);
            return;
        }
        match &mut self.mode {
            Mode::Planned(planned) => planned.observe(id),
            Mode::Paced(paced) => paced.observe(id, outcome, now),
            Mode::Sampled(sampled) => {
                let changed = outcome.is_change();
                sampled.sampler.observe(id, changed, now);
            }
        }
        if let Some(shadow) = &mut self.shadow {
            shadow.learned.observe(id, &shadow.elements, outcome, now);
            if let Mode::Planned(planned) = &mut self.mode
                && let Some(belief) = shadow.learned.belief(id, now)
            {
                let now = plan_time(self.window, now);
                planned.set_rate(id, Rate(belief.mean()), &self.groups, now);
            }
        }
    }

    /// What is believed of an element's rate, if anything is learned.
    pub fn belief(&self, id: ElementId, now: Time) -> Option<Gamma> {
        self.learned()?.belief(id, now)
    }

    /// How likely a poll of an element is to find a change now, if polls are chosen by what
    /// is learned.
    pub fn chance(&self, id: ElementId, now: Time) -> Option<f64> {
        match &self.mode {
            Mode::Paced(paced) => paced.learned()?.chance(id, now),
            _ => None,
        }
    }

    /// What is to be remembered of an element, after a poll of it.
    pub fn remember(&self, id: ElementId) -> Option<ElementMemory> {
        let mut remembered = self.learned()?.remember(id)?;
        if let Some(shadow) = &self.shadow {
            // The policy says when, the other only how often it changes.
            let polled_at = shadow.learned.polled_at(id)?;
            let due = match self.is_watched(id) {
                true => Time::NEVER,
                false => self.due_at(id).unwrap_or(Time::NEVER),
            };
            remembered = Remembered {
                is_look: false,
                is_sample: false,
                due_in: (due.0 - polled_at) as f32,
                ..remembered
            };
        }
        Some(remembered.to_bytes())
    }

    /// What is to be remembered of a group, after a poll in it, if anything.
    pub fn remember_group(&self, group: GroupId) -> Option<Vec<u8>> {
        self.learned()?.remember_group(group)
    }

    /// What is to be remembered of all together, after any poll.
    pub fn remember_all(&self) -> Vec<u8> {
        let mut bytes = self.learned().map_or_else(Vec::new, Learned::remember_all);
        if let Mode::Sampled(sampled) = &self.mode {
            bytes.extend(numbers_to_bytes(&[
                sampled.started_at.0,
                sampled.n_batches as f64,
            ]));
        }
        if let Mode::Paced(paced) = &self.mode
            && let Some(custom) = paced.custom()
        {
            bytes.extend(custom.remember());
        }
        bytes
    }

    /// Takes in what was remembered of all together, before anything else is taken
    /// in, by a scheduler without elements.
    pub fn recall_all(&mut self, bytes: &[u8]) {
        let (all, rest) = bytes.split_at(Learned::remembered_of_all(bytes));
        if let Some(learned) = self.learned_mut() {
            learned.recall_all(all);
        }
        if let Mode::Sampled(sampled) = &mut self.mode
            && let Some([started_at, n_batches]) = numbers_from_bytes(rest)
        {
            (sampled.started_at, sampled.n_batches) = (Time(started_at), n_batches as u64);
        }
        if let Mode::Paced(paced) = &mut self.mode
            && let Some(custom) = paced.custom_mut()
        {
            custom.recall(rest);
        }
    }

    /// Takes in what was remembered of a group; groups around it come before.
    pub fn recall_group(&mut self, group: GroupId, bytes: &[u8]) {
        let groups = std::mem::take(&mut self.groups);
        if let Some(learned) = self.learned_mut() {
            learned.recall_group(&groups, group, bytes);
        }
        self.groups = groups;
    }

    /// Makes room for so many elements.
    pub fn reserve(&mut self, n: usize) {
        if let Some(learned) = self.learned_mut() {
            learned.reserve(n);
        }
    }

    /// Takes in an element that was polled before. Once all are in, they are
    /// [put in order](Self::recalled).
    pub fn recall(
        &mut self,
        id: ElementId,
        element: Element,
        polled_at: Time,
        memory: &ElementMemory,
    ) {
        let remembered = Remembered::from_bytes(memory);
        if let Some(shadow) = &mut self.shadow {
            let due_in = remembered.map_or(0.0, |remembered| remembered.due_in);
            shadow.recalled.push((id, polled_at, due_in));
        }
        self.take_in(Recalled {
            id,
            element,
            polled_at,
            remembered,
            is_watched: false,
        });
    }

    /// Takes in an element that was polled before and is only [watched](Self::watch).
    pub fn recall_watched(
        &mut self,
        id: ElementId,
        element: Element,
        polled_at: Time,
        memory: &ElementMemory,
    ) {
        self.take_in(Recalled {
            id,
            element,
            polled_at,
            remembered: Remembered::from_bytes(memory),
            is_watched: true,
        });
    }

    fn take_in(&mut self, recalled: Recalled) {
        match (&mut self.mode, &mut self.shadow) {
            (_, Some(shadow)) => {
                shadow.elements.set(recalled.id, recalled.element);
                shadow.learned.recall(&self.groups, recalled);
            }
            (Mode::Paced(paced), None) => paced.recall(&self.groups, recalled),
            (_, None) => {}
        }
    }

    /// Whether someone else sees to the polls of an element.
    pub fn is_watched(&self, id: ElementId) -> bool {
        self.learned().is_some_and(|learned| learned.is_watched(id))
    }

    /// Everyone who was there before is in again.
    pub fn recalled(&mut self, now: Time, rng: &mut dyn Rng) {
        if let Some(learned) = self.learned_mut() {
            learned.recalled(now);
        }
        let Some(shadow) = &mut self.shadow else {
            return;
        };
        let recalled = std::mem::take(&mut shadow.recalled);
        if let Mode::Paced(paced) = &mut self.mode
            && paced.custom().is_some()
        {
            // It is not made anew, for it has recalled what it remembers of all.
            for (id, polled_at, due_in) in recalled {
                let belief = shadow.learned.belief(id, now);
                let past = Past {
                    polled_at,
                    due_at: due_after(polled_at, Some(due_in)),
                    rate: belief.map(|belief| Rate(belief.mean())),
                };
                paced.add_again(id, shadow.elements.get(id), &self.groups, past);
            }
            return;
        }
        let ids: Vec<ElementId> = recalled.iter().map(|&(id, ..)| id).collect();
        let present = Present::some(&shadow.elements, &ids);
        let mut choice = shadow.choice.clone();
        if let Choice::Planned { rates, .. } = &mut choice {
            let rate = |index| {
                let belief = shadow.learned.belief(ElementId(index), now);
                Rate(belief.map_or(1.0, Gamma::mean))
            };
            *rates = (0..shadow.elements.len() as u32).map(rate).collect();
        }
        let batches = match &self.mode {
            Mode::Sampled(sampled) => Some((sampled.started_at, sampled.n_batches)),
            _ => None,
        };
        self.mode = Mode::new(choice, &shadow.terms, &self.groups, present, (now, rng));
        match &mut self.mode {
            Mode::Planned(planned) => {
                for &(id, polled_at, _) in &recalled {
                    planned.recall(id, polled_at, plan_time(self.window, now));
                }
            }
            Mode::Paced(paced) => {
                for &(id, polled_at, due_in) in &recalled {
                    paced.put_back(id, Time(polled_at.0 + f64::from(due_in)), now);
                }
            }
            Mode::Sampled(sampled) => {
                if let Some((started_at, n_batches)) = batches {
                    (sampled.started_at, sampled.n_batches) = (started_at, n_batches);
                }
            }
        }
    }

    fn learned(&self) -> Option<&Learned> {
        match (&self.shadow, &self.mode) {
            (Some(shadow), _) => Some(&shadow.learned),
            (None, Mode::Paced(paced)) => paced.learned(),
            _ => None,
        }
    }

    fn learned_mut(&mut self) -> Option<&mut Learned> {
        match (&mut self.shadow, &mut self.mode) {
            (Some(shadow), _) => Some(&mut shadow.learned),
            (None, Mode::Paced(paced)) => paced.learned_mut(),
            _ => None,
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

    /// What the poll that comes next is worth now, its weight and cost included; nothing
    /// if nobody waits, or if the policy does not go by worth.
    pub fn next_worth(&mut self, now: Time) -> Option<f64> {
        match &mut self.mode {
            Mode::Paced(paced) => paced.next_worth(now),
            _ => None,
        }
    }

    /// Whether it keeps the budget by itself: a plan, or a batch, is carried out at its
    /// own times. Others have a poll whenever they are asked.
    pub fn keeps_budget(&self) -> bool {
        !matches!(self.mode, Mode::Paced(_))
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

impl Mode {
    fn new(
        choice: Choice,
        terms: &Terms,
        groups: &Groups,
        present: Present<'_>,
        (now, rng): (Time, &mut dyn Rng),
    ) -> Self {
        match choice {
            Choice::Planned { rule, order, rates } => {
                let policy = match terms.max_interval {
                    Some(longest) => RulePolicy::new(rule).with_floor(Frequency(1.0 / longest.0)),
                    None => RulePolicy::new(rule),
                };
                let planned = Planned::new(
                    (policy, order),
                    rates,
                    present,
                    terms.budget.clone(),
                    groups,
                    (plan_time(terms.window, now), rng),
                );
                Self::Planned(Box::new(planned))
            }
            Choice::Learned => {
                let learned = Learned::new(terms, groups, present, now);
                let paced = Paced::new(Queue::Learned(Box::new(learned)), present);
                Self::Paced(Box::new(paced))
            }
            Choice::InUse(rule) => {
                let in_use = InUseQueue::new(rule, terms, present, now);
                let paced = Paced::new(Queue::InUse(in_use), present);
                Self::Paced(Box::new(paced))
            }
            Choice::Custom(custom) => {
                let start = StartingPoint {
                    terms,
                    now,
                    seed: rng.next_u64(),
                };
                let mut queue = CustomQueue::new(&custom, start);
                for (id, element) in present.iter() {
                    queue.add(id, element, groups, now);
                }
                let paced = Paced::new(Queue::Custom(Box::new(queue)), present);
                Self::Paced(Box::new(paced))
            }
            Choice::Sampled(sampling, settings) => {
                let cycle = settings.cycle().0;
                let mut sampler = Sampler::new(sampling, settings, groups);
                for (id, element) in present.iter() {
                    sampler.add(id, &element, now);
                }
                Self::Sampled(Box::new(Sampled {
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

/// So many are put to wait for closed groups before the driver is asked to come again.
const MOST_CLOSED: usize = 1000;

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

    #[test]
    fn what_is_watched_is_never_due_and_teaches_all_the_same() {
        for choice in [Choice::Learned, planned(Rule::Uniform, &[])] {
            let mut rng = Pcg64::seed_from_u64(1);
            let mut groups = Groups::new();
            let group = groups.add(None);
            let terms = Terms {
                shadow: Shadow::Learner,
                ..Terms::new(Budget::per_day(10.0).unwrap())
            };
            let nobody = Elements::new();
            let start = || {
                let present = Present::all(&nobody);
                let mut rng = Pcg64::seed_from_u64(1);
                let (choice, terms, groups) = (choice.clone(), terms.clone(), groups.clone());
                Scheduler::new(choice, terms, groups, present, Time::START, &mut rng)
            };
            let mut scheduler = start();
            let element = Element {
                group: Some(group),
                ..Element::default()
            };
            let (busy, quiet, own) = (ElementId(0), ElementId(1), ElementId(2));
            for id in [busy, quiet] {
                scheduler.watch(id, element, Time(0.0));
            }
            scheduler.add(own, element, Time(0.0), &mut rng);
            for day in 1..40 {
                let now = Time(f64::from(day));
                scheduler.observe(busy, Outcome::Changed { age: None }, now);
                scheduler.observe(quiet, Outcome::Unchanged, now);
                // Nobody but the one whose polls are seen to here.
                if let Some(id) = scheduler.next_poll(now, &mut rng) {
                    assert_eq!(id, own);
                    scheduler.observe(id, Outcome::Unchanged, now);
                }
                assert!(!scheduler.take(busy, now));
            }
            let now = Time(40.0);
            let rate = |scheduler: &Scheduler, id| scheduler.belief(id, now).unwrap().mean();
            assert!(rate(&scheduler, busy) > 10.0 * rate(&scheduler, quiet));
            let worth = |id| scheduler.worth(id, Objective::Content, now).unwrap();
            assert!(worth(busy) > 10.0 * worth(quiet));

            let mut again = start();
            again.recall_all(&scheduler.remember_all());
            if let Some(bytes) = scheduler.remember_group(group) {
                again.recall_group(group, &bytes);
            }
            for id in [busy, quiet] {
                let memory = scheduler.remember(id).unwrap();
                again.recall_watched(id, element, Time(39.0), &memory);
            }
            again.recalled(now, &mut rng);
            assert_eq!(again.next_poll(now, &mut rng), None);
            let (before, after) = (rate(&scheduler, busy), rate(&again, busy));
            // What is usual depends a little on how many there are to poll.
            assert!((after / before - 1.0).abs() < 0.01, "{before} {after}");
            again.remove(busy, now);
            assert_eq!(again.belief(busy, now), None);
        }
    }

    #[test]
    fn how_many_rows_a_change_touches_survives_a_restart() {
        let start = || {
            let terms = Terms::new(Budget::per_day(10.0).unwrap());
            let (nobody, mut rng) = (Elements::new(), Pcg64::seed_from_u64(1));
            let present = Present::all(&nobody);
            let groups = Groups::new();
            Scheduler::new(
                Choice::Learned,
                terms,
                groups,
                present,
                Time::START,
                &mut rng,
            )
        };
        let block = Element {
            parts: 1000,
            ..Element::default()
        };
        let (id, now) = (ElementId(0), Time(21.0));
        let mut rng = Pcg64::seed_from_u64(1);
        let mut before = start();
        before.add(id, block, Time(0.0), &mut rng);
        for day in 1..=20 {
            let now = Time(f64::from(day));
            before.take(id, now);
            before.observe(id, Outcome::Parts { n_changed: 400 }, now);
        }
        let after = |memory: &ElementMemory| {
            let mut after = start();
            after.recall_all(&before.remember_all());
            after.recall(id, block, Time(20.0), memory);
            after.recalled(now, &mut Pcg64::seed_from_u64(1));
            after.worth(id, Objective::Freshness, now).unwrap()
        };
        let memory = before.remember(id).unwrap();
        let worth = before.worth(id, Objective::Freshness, now).unwrap();
        assert!((after(&memory) / worth - 1.0).abs() < 0.1);
        // Without it a change would be taken for one of a row.
        let mut unknown = memory;
        unknown[3] = 0;
        assert!(after(&unknown) < 0.5 * worth);
    }

    fn planned(rule: Rule, rates: &[f64]) -> Choice {
        Choice::Planned {
            rule,
            order: Order::Fixed,
            rates: rates.iter().map(|&rate| Rate(rate)).collect(),
        }
    }

    /// A driver that polls six times an hour, as far as there is someone to poll, and
    /// finds a change where an element has had one.
    struct Driver {
        scheduler: Scheduler,
        now: f64,
        rng: Pcg64,
        polled_at: Vec<f64>,
        elements: Vec<Element>,
    }

    impl Driver {
        fn new(choice: Choice, n: u32) -> Self {
            let terms = Terms {
                shadow: Shadow::Learner,
                ..Terms::new(Budget::per_day(144.0).unwrap())
            };
            let mut driver = Self {
                scheduler: Scheduler::new(
                    choice,
                    terms,
                    Groups::new(),
                    Present::all(&Elements::new()),
                    Time(20_000.0),
                    &mut Pcg64::seed_from_u64(1),
                ),
                now: 20_000.0,
                rng: Pcg64::seed_from_u64(1),
                polled_at: vec![20_000.0; n as usize],
                elements: Vec::new(),
            };
            let hosts = [(); 2].map(|()| driver.scheduler.add_group(None));
            for index in 0..n {
                let element = Element {
                    group: Some(hosts[(index % 2) as usize]),
                    ..Element::default()
                };
                driver.elements.push(element);
                let Self { scheduler, rng, .. } = &mut driver;
                scheduler.add(ElementId(index), element, Time(20_000.0), rng);
            }
            driver
        }

        /// Polls until a time; says whom.
        fn run(&mut self, until: f64) -> Vec<u32> {
            let mut polls = Vec::new();
            while self.now < until {
                self.now += 1.0 / 144.0;
                let Some(id) = self.scheduler.next_poll(Time(self.now), &mut self.rng) else {
                    continue;
                };
                polls.push(id.0);
                // Element i changes every 0.3·i days, beginning with 0.3.
                let period = 0.3 * f64::from(id.0 + 1);
                let n_changes = |at: f64| (at / period).floor();
                let changed = n_changes(self.now) > n_changes(self.polled_at[id.index()]);
                self.polled_at[id.index()] = self.now;
                let outcome = if changed {
                    Outcome::Changed { age: None }
                } else {
                    Outcome::Unchanged
                };
                self.scheduler.observe(id, outcome, Time(self.now));
            }
            polls
        }

        /// Forgets everything but what is remembered.
        fn restart(&mut self, choice: Choice) {
            let before = &self.scheduler;
            let terms = Terms {
                shadow: Shadow::Learner,
                ..Terms::new(Budget::per_day(144.0).unwrap())
            };
            let mut after = Scheduler::new(
                choice,
                terms,
                before.groups().clone(),
                Present::all(&Elements::new()),
                Time(self.now),
                &mut self.rng,
            );
            after.recall_all(&before.remember_all());
            for number in 0..before.groups().len() as u32 {
                let group = GroupId::new(number).unwrap();
                if let Some(bytes) = before.remember_group(group) {
                    after.recall_group(group, &bytes);
                }
            }
            for (index, element) in (0..).zip(&self.elements) {
                let id = ElementId(index);
                let memory = before.remember(id).unwrap();
                let polled_at = Time(self.polled_at[id.index()]);
                after.recall(id, *element, polled_at, &memory);
            }
            after.recalled(Time(self.now), &mut self.rng);
            self.scheduler = after;
        }
    }

    fn choices() -> [Choice; 4] {
        [
            Choice::Learned,
            planned(Rule::Uniform, &[]),
            planned(Rule::Optimal(Objective::Freshness), &[]),
            Choice::InUse(InUse::FixedInterval),
        ]
    }

    #[test]
    fn a_restart_is_as_good_as_no_restart() {
        for choice in choices() {
            let mut driver = Driver::new(choice.clone(), 40);
            let mut other = Driver::new(choice.clone(), 40);
            assert_eq!(driver.run(20_006.0), other.run(20_006.0));
            driver.restart(choice.clone());
            let until = driver.now + 0.2;
            let mut polls = (driver.run(until), other.run(until));
            polls.0.sort_unstable();
            polls.1.sort_unstable();
            // Times are remembered to seven digits, so two may change places.
            let same = polls.0.iter().filter(|index| polls.1.contains(index));
            let least = if matches!(choice, Choice::Learned) {
                polls.0.len() - 1
            } else {
                polls.0.len() * 2 / 3
            };
            assert!(same.count() >= least, "{choice:?}: {polls:?}");
        }
    }

    /// The price of before says nothing of what is due after a pause, whoever paused.
    #[test]
    fn a_pause_between_two_runs_is_a_pause() {
        let mut driver = Driver::new(Choice::Learned, 40);
        let mut other = Driver::new(Choice::Learned, 40);
        assert_eq!(driver.run(20_006.0), other.run(20_006.0));
        for driver in [&mut driver, &mut other] {
            driver.now += 14.0;
        }
        driver.restart(Choice::Learned);
        let until = driver.now + 0.05;
        driver.run(until);
        other.run(until);
        let prices = (driver.scheduler.price(), other.scheduler.price());
        let (after_restart, within_a_run) = (prices.0.unwrap(), prices.1.unwrap());
        let ratio = after_restart / within_a_run;
        assert!((ratio - 1.0).abs() < 1e-3, "{prices:?}");
    }

    #[test]
    fn a_closed_group_is_not_polled_and_the_others_are() {
        for choice in choices() {
            let mut driver = Driver::new(choice.clone(), 40);
            driver.run(20_002.0);
            let group = driver.elements[0].group.unwrap();
            driver.scheduler.set_open(group, false);
            let during = driver.run(driver.now + 0.48);
            assert!(
                during.iter().all(|index| index % 2 == 1),
                "{choice:?} {during:?}"
            );
            assert!(during.len() > 20, "{choice:?} {during:?}");
            // Those who waited come first.
            driver.scheduler.set_open(group, true);
            let after = driver.run(driver.now + 0.2);
            assert!(after.iter().filter(|&index| index % 2 == 0).count() > after.len() / 2);
        }
    }

    #[test]
    fn whoever_is_taken_out_of_turn_is_not_given_out_again_before_it_was_observed() {
        for choice in choices() {
            let mut driver = Driver::new(choice.clone(), 10);
            driver.run(20_001.0);
            let (id, now) = (ElementId(3), Time(driver.now));
            assert!(driver.scheduler.take(id, now));
            assert!(!driver.scheduler.take(id, now), "{choice:?}");
            assert!(!driver.run(driver.now + 2.0).contains(&3), "{choice:?}");
            // A poll that came to nothing is tried again when it was said, not before.
            let (now, due) = (Time(driver.now), driver.now + 1.0);
            driver.scheduler.put_back(id, Time(due), now);
            if matches!(choice, Choice::Learned) {
                assert!(!driver.run(due - 0.05).contains(&3), "{choice:?}");
            }
            assert!(driver.run(due + 1.0).contains(&3), "{choice:?}");
        }
    }
}
