//! The earliest due first, as often as someone asks.

use super::custom::{CustomQueue, Past};
use super::due::DueQueue;
use super::learned::Learned;
use super::memory::Recalled;
use super::{Terms, phases};
use crate::in_use::{InUse, Memory};
use crate::{Budget, Element, ElementId, Elements, GroupId, Groups, Outcome, Present, Span, Time};

/// Gives out what is due earliest whenever it is asked, whether it is due yet or not: a
/// budget is there to be spent, and whoever keeps it asks.
#[derive(Debug)]
pub(super) struct Paced {
    queue: Queue,
    elements: Elements,
    /// Which of them are there, where the queue does not know that itself.
    is_here: Vec<bool>,
}

/// Who says when an element is due.
#[derive(Debug)]
pub(super) enum Queue {
    InUse(InUseQueue),
    Learned(Box<Learned>),
    Custom(Box<CustomQueue>),
}

impl Paced {
    pub(super) fn new(queue: Queue, present: Present<'_>) -> Self {
        let mut paced = Self {
            queue,
            elements: present.to_elements(),
            is_here: Vec::new(),
        };
        for id in present.ids() {
            paced.enter(id);
        }
        paced
    }

    pub(super) fn element(&self, id: ElementId) -> Element {
        self.elements.get(id)
    }

    pub(super) fn contains(&self, id: ElementId) -> bool {
        match &self.queue {
            Queue::Learned(learned) => learned.contains(id),
            Queue::InUse(_) | Queue::Custom(_) => self.is_here.get(id.index()) == Some(&true),
        }
    }

    pub(super) fn add(&mut self, id: ElementId, element: Element, groups: &Groups, now: Time) {
        self.elements.set(id, element);
        self.enter(id);
        match &mut self.queue {
            Queue::InUse(in_use) => in_use.add(id, now),
            Queue::Learned(learned) => learned.add(id, element, groups, now),
            Queue::Custom(custom) => custom.add(id, element, groups, now),
        }
    }

    /// An element appears whose polls someone else sees to.
    pub(super) fn watch(&mut self, id: ElementId, element: Element, groups: &Groups, now: Time) {
        if let Queue::Learned(learned) = &mut self.queue {
            learned.watch(id, element, groups, now);
            self.elements.set(id, element);
            self.enter(id);
        }
    }

    pub(super) fn remove(&mut self, id: ElementId) {
        if let Some(is_here) = self.is_here.get_mut(id.index()) {
            *is_here = false;
        }
        match &mut self.queue {
            Queue::InUse(in_use) => in_use.queue.take_out(id.0),
            Queue::Learned(learned) => learned.remove(id, self.elements.get(id).cost.0),
            Queue::Custom(custom) => custom.remove(id),
        }
    }

    /// At once, if there is someone to poll; a policy of someone else's may say otherwise.
    pub(super) fn wake_at(&mut self) -> Time {
        let has_someone = match &mut self.queue {
            Queue::InUse(in_use) => in_use.queue.len() > 0,
            Queue::Learned(learned) => learned.has_someone(),
            Queue::Custom(custom) => return custom.wake_at(),
        };
        match has_someone {
            true => Time(f64::NEG_INFINITY),
            false => Time::NEVER,
        }
    }

    /// A group has opened or closed.
    pub(super) fn set_open(&mut self, group: GroupId, is_open: bool) {
        if let Queue::Learned(learned) = &mut self.queue {
            learned.set_open(group, is_open);
        }
    }

    /// When the earliest due of those who wait is due.
    pub(super) fn first_due(&mut self) -> Time {
        let first = match &mut self.queue {
            Queue::InUse(in_use) => in_use.queue.first().map(|(due, _)| due),
            Queue::Learned(learned) => learned.first_due(),
            Queue::Custom(custom) => return custom.first_due(),
        };
        first.map_or(Time::NEVER, Time)
    }

    pub(super) fn next_poll(&mut self, now: Time) -> Option<ElementId> {
        let (_, index) = match &mut self.queue {
            Queue::InUse(in_use) => in_use.queue.first(),
            Queue::Learned(learned) => learned.first(&self.elements, now),
            Queue::Custom(custom) => return custom.next_poll(now),
        }?;
        match &mut self.queue {
            Queue::InUse(in_use) => in_use.queue.take_out(index),
            Queue::Learned(learned) => learned.take(index),
            Queue::Custom(_) => {}
        }
        Some(ElementId(index))
    }

    pub(super) fn observe(&mut self, id: ElementId, outcome: Outcome, now: Time) {
        if !self.contains(id) {
            return;
        }
        match &mut self.queue {
            Queue::InUse(in_use) => in_use.observe(id, outcome, now),
            Queue::Learned(learned) => learned.observe(id, &self.elements, outcome, now),
            Queue::Custom(custom) => custom.observe(id, outcome, now),
        }
    }

    /// From now on the budget is another.
    pub(super) fn set_budget(&mut self, budget: &Budget, now: Time) {
        match &mut self.queue {
            Queue::InUse(in_use) => {
                in_use.set_budget(&self.elements, &self.is_here, budget, now);
            }
            Queue::Learned(learned) => learned.set_budget(budget.as_per_day()),
            Queue::Custom(custom) => custom.set_budget(budget),
        }
    }

    /// Gives out an element whose turn it is not, if it is there and waiting.
    pub(super) fn take(&mut self, id: ElementId) -> bool {
        match &mut self.queue {
            Queue::InUse(in_use) => {
                let is_waiting = in_use.queue.due(id.0).is_some();
                in_use.queue.take_out(id.0);
                is_waiting
            }
            Queue::Learned(learned) => learned.take_out_of_turn(id),
            Queue::Custom(custom) => custom.take(id),
        }
    }

    /// A poll came to nothing: the element is due again at this time.
    pub(super) fn put_back(&mut self, id: ElementId, due: Time, now: Time) {
        if !self.contains(id) {
            return;
        }
        match &mut self.queue {
            Queue::InUse(in_use) => in_use.queue.put(id.0, due.0),
            Queue::Learned(learned) => learned.put_back(id, due, now),
            Queue::Custom(custom) => custom.put_back(id, due),
        }
    }

    /// Takes in an element that was polled before.
    pub(super) fn recall(&mut self, groups: &Groups, recalled: Recalled) {
        let id = recalled.id;
        self.elements.set(id, recalled.element);
        self.enter(id);
        match &mut self.queue {
            Queue::Learned(learned) => learned.recall(groups, recalled),
            Queue::InUse(_) | Queue::Custom(_) if recalled.is_watched => {}
            Queue::InUse(in_use) => {
                in_use.remember(id, recalled.polled_at);
                let remembered = recalled.remembered;
                let due_in = remembered.map_or(0.0, |remembered| f64::from(remembered.due_in));
                in_use.queue.put(id.0, recalled.polled_at.0 + due_in);
            }
            Queue::Custom(custom) => {
                let due_in = recalled.remembered.map(|remembered| remembered.due_in);
                let past = Past {
                    polled_at: recalled.polled_at,
                    due_at: due_after(recalled.polled_at, due_in),
                    rate: None,
                };
                custom.add_again(id, recalled.element, groups, past);
            }
        }
    }

    /// Takes in an element that was polled before, for a policy of someone else's.
    pub(super) fn add_again(
        &mut self,
        id: ElementId,
        element: Element,
        groups: &Groups,
        past: Past,
    ) {
        self.elements.set(id, element);
        self.enter(id);
        if let Queue::Custom(custom) = &mut self.queue {
            custom.add_again(id, element, groups, past);
        }
    }

    /// A policy of someone else's, if there is one.
    pub(super) fn custom(&self) -> Option<&CustomQueue> {
        match &self.queue {
            Queue::Custom(custom) => Some(custom),
            _ => None,
        }
    }

    pub(super) fn custom_mut(&mut self) -> Option<&mut CustomQueue> {
        match &mut self.queue {
            Queue::Custom(custom) => Some(custom),
            _ => None,
        }
    }

    pub(super) fn learned(&self) -> Option<&Learned> {
        match &self.queue {
            Queue::InUse(_) | Queue::Custom(_) => None,
            Queue::Learned(learned) => Some(learned),
        }
    }

    pub(super) fn learned_mut(&mut self) -> Option<&mut Learned> {
        match &mut self.queue {
            Queue::InUse(_) | Queue::Custom(_) => None,
            Queue::Learned(learned) => Some(learned),
        }
    }

    pub(super) fn hint(&mut self, id: ElementId, now: Time) {
        match &mut self.queue {
            Queue::InUse(_) => {}
            Queue::Learned(learned) => learned.hint(id, self.elements.get(id), now),
            Queue::Custom(custom) => custom.hint(id, now),
        }
    }

    /// What polling the element that comes next is worth now.
    pub(super) fn next_worth(&mut self, now: Time) -> Option<f64> {
        let learned = match &mut self.queue {
            Queue::InUse(_) => return None,
            Queue::Learned(learned) => learned,
            Queue::Custom(custom) => return custom.next_worth(now),
        };
        let (_, index) = learned.first(&self.elements, now)?;
        learned.worth_of(ElementId(index), self.elements.get(ElementId(index)), now)
    }

    pub(super) fn price(&self) -> Option<f64> {
        match &self.queue {
            Queue::InUse(_) | Queue::Custom(_) => None,
            Queue::Learned(learned) => Some(learned.price()),
        }
    }

    pub(super) fn due_at(&self, id: ElementId) -> Option<Time> {
        match &self.queue {
            Queue::InUse(in_use) => in_use.queue.due(id.0).map(Time),
            Queue::Learned(learned) => learned.due_at(id).map(Time),
            Queue::Custom(custom) => custom.due_at(id),
        }
    }

    fn enter(&mut self, id: ElementId) {
        if let Queue::Learned(_) = self.queue {
            return;
        }
        if id.index() >= self.is_here.len() {
            self.is_here.resize(id.index() + 1, false);
        }
        self.is_here[id.index()] = true;
    }
}

/// When an element is due that was remembered to be due so long after its last poll.
pub(super) fn due_after(polled_at: Time, due_in: Option<f32>) -> Option<Time> {
    let due_in = due_in.filter(|due_in| due_in.is_finite())?;
    Some(Time(polled_at.0 + f64::from(due_in)))
}

/// A scheduler in use and what it remembers.
#[derive(Debug)]
pub(super) struct InUseQueue {
    rule: InUse,
    memories: Vec<Memory>,
    queue: DueQueue,
    /// No element is due later than this after a poll.
    longest: Span,
    /// The interval of those who know only one.
    fixed: Span,
}

impl InUseQueue {
    pub(super) fn new(rule: InUse, terms: &Terms, present: Present<'_>, now: Time) -> Self {
        // What a first round takes.
        let total: f64 = present.iter().map(|(_, element)| element.cost.0).sum();
        let round = total / terms.first_per_day();
        let mut in_use = Self {
            rule,
            memories: Vec::with_capacity(present.len()),
            queue: DueQueue::with_capacity(present.len()),
            longest: terms.max_interval.unwrap_or(Span::FOREVER),
            fixed: Span(round),
        };
        for (id, phase) in present.ids().zip(phases(present.len())) {
            in_use.remember(id, now);
            in_use.queue.put(id.0, now.0 + phase * round);
        }
        in_use
    }

    /// A round takes as long as the elements that are there cost; and what is left of it, for
    /// those who wait for it, is as much longer or shorter.
    fn set_budget(&mut self, elements: &Elements, is_here: &[bool], budget: &Budget, now: Time) {
        let ids = (0..).zip(is_here).filter(|(_, is_here)| **is_here);
        let ids: Vec<u32> = ids.map(|(id, _)| id).collect();
        let costs = ids.iter().map(|&id| elements.get(ElementId(id)).cost.0);
        let total: f64 = costs.sum();
        if budget.as_per_day() == 0.0 {
            return;
        }
        let fixed = Span(total / budget.as_per_day());
        let scale = fixed.0 / self.fixed.0;
        if scale > 0.0 && scale.is_finite() {
            for id in ids {
                let left = self.queue.due(id).map(|due| due - now.0);
                if let Some(left) = left.filter(|&left| left > 0.0)
                    && self.rule.waits_a_round(&self.memories[id as usize])
                {
                    self.queue.put(id, now.0 + left * scale);
                }
            }
        }
        self.fixed = fixed;
    }

    fn add(&mut self, id: ElementId, now: Time) {
        self.remember(id, now);
        self.observe(id, Outcome::Unchanged, now);
    }

    fn observe(&mut self, id: ElementId, outcome: Outcome, now: Time) {
        let memory = &mut self.memories[id.index()];
        let due = self.rule.due(memory, outcome, now, self.fixed);
        self.queue.put(id.0, due.0.min((now + self.longest).0));
    }

    fn remember(&mut self, id: ElementId, now: Time) {
        let memory = self.rule.start(now);
        if id.index() >= self.memories.len() {
            self.memories.resize(id.index() + 1, memory);
        }
        self.memories[id.index()] = memory;
    }
}
