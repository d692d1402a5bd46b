//! One poll at a time, at the pace of the budget: the earliest due first.

use super::due::DueQueue;
use super::learned::Learned;
use super::limits::Limits;
use super::memory::Recalled;
use super::{Pacing, ROUNDING, Terms, phases};
use crate::in_use::{InUse, Memory};
use crate::{Element, ElementId, Elements, Groups, Outcome, Present, Span, Time, Window};

/// Polls what is due earliest, as often as the budget allows, whether it is due
/// yet or not: a budget is there to be spent.
#[derive(Debug)]
pub(super) struct Paced {
    queue: Queue,
    pace: Pace,
    limits: Limits,
    elements: Elements,
    /// Whether an element is there; one that is gone may still be held.
    is_here: Vec<bool>,
}

/// Who says when an element is due.
#[derive(Debug)]
pub(super) enum Queue {
    InUse(Habits),
    Learned(Box<Learned>),
}

/// When the budget allows the next poll.
#[derive(Debug)]
struct Pace {
    per_day: f64,
    /// Days that a poll of cost one takes up.
    gap: f64,
    /// When the first poll was, or would have been had there been no idle time, on
    /// the window's clock if there is one.
    began: f64,
    /// What was spent since. Times are worked out from it, not added up: so the
    /// millionth poll is as exact as the first.
    spent: f64,
    window: Option<Window>,
}

impl Pace {
    fn allows(&mut self, now: f64) -> bool {
        let Some(window) = self.window else {
            return self.next_at() <= now;
        };
        let shown = window.compress(now);
        if window.is_open(now) || window.is_open(now + ROUNDING) {
            return self.next_at() <= shown + ROUNDING;
        }
        // Whoever asks while it is closed is told to wait until it opens.
        self.began += (shown - self.next_at()).max(0.0);
        false
    }

    fn wake_at(&self) -> f64 {
        match self.window {
            Some(window) if self.next_at().is_finite() => window.expand(self.next_at()),
            _ => self.next_at(),
        }
    }

    fn next_at(&self) -> f64 {
        self.began + self.spent / self.per_day
    }

    fn spend(&mut self, cost: f64, now: f64) {
        let now = self.window.map_or(now, |window| window.compress(now));
        // A poll that comes late, since nothing could be polled before, does not
        // make up for the time.
        let late = now - self.gap - self.next_at();
        if late > 0.0 {
            self.began += late;
        }
        self.spent += cost;
    }
}

impl Paced {
    pub(super) fn new(queue: Queue, terms: &Terms, present: Present<'_>, now: Time) -> Self {
        let per_day = match terms.pacing {
            Pacing::Scheduler => terms.budget.as_per_day(),
            // As fast as it is asked.
            Pacing::Driver => f64::INFINITY,
        };
        let gap = 1.0 / per_day;
        let mut paced = Self {
            queue,
            // Half a gap before the first poll and half a gap after the last: a
            // span holds as many polls as the budget says.
            pace: Pace {
                per_day,
                gap,
                began: terms.window.map_or(now.0, |window| window.compress(now.0)),
                spent: 0.5,
                window: terms.window,
            },
            limits: Limits::new(terms.budget.caps(), gap),
            elements: present.to_elements(),
            is_here: Vec::with_capacity(present.len()),
        };
        for id in present.ids() {
            paced.enter(id);
        }
        paced
    }

    pub(super) fn add(&mut self, id: ElementId, element: Element, groups: &Groups, now: Time) {
        self.elements.set(id, element);
        self.enter(id);
        match &mut self.queue {
            Queue::InUse(habits) => habits.add(id, now),
            Queue::Learned(learned) => learned.add(id, element, groups, now),
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

    pub(super) fn remove(&mut self, id: ElementId, groups: &Groups) {
        let group = self.elements.get(id).group;
        self.limits
            .release(id, group.map(|group| groups.outermost(group)));
        if let Some(is_here) = self.is_here.get_mut(id.index()) {
            *is_here = false;
        }
        match &mut self.queue {
            Queue::InUse(habits) => habits.queue.take_out(id.0),
            Queue::Learned(learned) => learned.remove(id, self.elements.get(id).cost.0),
        }
    }

    pub(super) fn wake_at(&mut self) -> Time {
        let is_empty = match &mut self.queue {
            Queue::InUse(habits) => habits.queue.len() == 0,
            Queue::Learned(learned) => learned.is_idle(),
        };
        let free_at = match &mut self.queue {
            _ if is_empty => self.limits.wake_at(),
            Queue::Learned(learned) => learned.free_at(),
            Queue::InUse(_) => f64::NEG_INFINITY,
        };
        Time(self.pace.wake_at().max(free_at))
    }

    /// When the earliest due of those who wait is due.
    pub(super) fn first_due(&mut self) -> Time {
        let first = match &mut self.queue {
            Queue::InUse(habits) => habits.queue.first().map(|(due, _)| due),
            Queue::Learned(learned) => learned.first_due(),
        };
        first.map_or(Time::NEVER, Time)
    }

    pub(super) fn next_poll(&mut self, groups: &Groups, now: Time) -> Option<ElementId> {
        if !self.pace.allows(now.0) {
            return None;
        }
        loop {
            let held = self.limits.first(now.0);
            let queued = match &mut self.queue {
                Queue::InUse(habits) => habits.queue.first(),
                Queue::Learned(learned) => learned.first(&self.elements, now),
            };
            let id = match (held, queued) {
                (None, None) => return None,
                (Some(held), queued) if queued.is_none_or(|(due, _)| held <= due) => {
                    let cost = |id| self.elements.get(id).cost.0;
                    let id = self.limits.pop(cost, now.0)?;
                    if !self.is_here[id.index()] {
                        continue;
                    }
                    id
                }
                (_, None) => return None,
                (_, Some((due, index))) => {
                    match &mut self.queue {
                        Queue::InUse(habits) => habits.queue.take_out(index),
                        Queue::Learned(learned) => learned.take(index),
                    }
                    let id = ElementId(index);
                    let element = self.elements.get(id);
                    let group = element.group.map(|group| groups.outermost(group));
                    if !self.limits.admits(id, group, due, now.0) {
                        continue;
                    }
                    self.limits.spend(group, element.cost.0, now.0);
                    id
                }
            };
            self.pace.spend(self.elements.get(id).cost.0, now.0);
            return Some(id);
        }
    }

    pub(super) fn observe(&mut self, id: ElementId, outcome: Outcome, now: Time) {
        if self.is_here.get(id.index()) != Some(&true) {
            return;
        }
        match &mut self.queue {
            Queue::InUse(habits) => habits.observe(id, outcome, now),
            Queue::Learned(learned) => learned.observe(id, &self.elements, outcome, now),
        }
    }

    /// Gives out an element whose turn it is not, if it is there and waiting.
    pub(super) fn take(&mut self, id: ElementId, groups: &Groups) -> bool {
        let group = self.elements.get(id).group;
        self.limits
            .release(id, group.map(|group| groups.outermost(group)));
        match &mut self.queue {
            Queue::InUse(habits) => {
                let is_waiting = habits.queue.due(id.0).is_some();
                habits.queue.take_out(id.0);
                is_waiting
            }
            Queue::Learned(learned) => learned.take_out_of_turn(id),
        }
    }

    /// A poll came to nothing: the element is due again at this time.
    pub(super) fn put_back(&mut self, id: ElementId, due: Time, now: Time) {
        if self.is_here.get(id.index()) != Some(&true) {
            return;
        }
        match &mut self.queue {
            Queue::InUse(habits) => habits.queue.put(id.0, due.0),
            Queue::Learned(learned) => learned.put_back(id, due, now),
        }
    }

    /// Takes in an element that was polled before.
    pub(super) fn recall(&mut self, groups: &Groups, recalled: Recalled) {
        let id = recalled.id;
        self.elements.set(id, recalled.element);
        self.enter(id);
        match &mut self.queue {
            Queue::Learned(learned) => learned.recall(groups, recalled),
            Queue::InUse(_) if recalled.is_watched => {}
            Queue::InUse(habits) => {
                habits.remember(id, recalled.polled_at);
                let remembered = recalled.remembered;
                let due_in = remembered.map_or(0.0, |remembered| f64::from(remembered.due_in));
                habits.queue.put(id.0, recalled.polled_at.0 + due_in);
            }
        }
    }

    pub(super) fn learned(&self) -> Option<&Learned> {
        match &self.queue {
            Queue::InUse(_) => None,
            Queue::Learned(learned) => Some(learned),
        }
    }

    pub(super) fn learned_mut(&mut self) -> Option<&mut Learned> {
        match &mut self.queue {
            Queue::InUse(_) => None,
            Queue::Learned(learned) => Some(learned),
        }
    }

    pub(super) fn hint(&mut self, id: ElementId, now: Time) {
        match &mut self.queue {
            Queue::InUse(_) => {}
            Queue::Learned(learned) => learned.hint(id, self.elements.get(id), now),
        }
    }

    /// What polling the element that comes next is worth now.
    pub(super) fn next_worth(&mut self, now: Time) -> Option<f64> {
        let Queue::Learned(learned) = &mut self.queue else {
            return None;
        };
        let (_, index) = learned.first(&self.elements, now)?;
        learned.worth_of(ElementId(index), self.elements.get(ElementId(index)), now)
    }

    pub(super) fn price(&self) -> Option<f64> {
        match &self.queue {
            Queue::InUse(_) => None,
            Queue::Learned(learned) => Some(learned.price()),
        }
    }

    pub(super) fn due_at(&self, id: ElementId) -> Option<Time> {
        match &self.queue {
            Queue::InUse(habits) => habits.queue.due(id.0).map(Time),
            Queue::Learned(learned) => learned.due_at(id).map(Time),
        }
    }

    fn enter(&mut self, id: ElementId) {
        if id.index() >= self.is_here.len() {
            self.is_here.resize(id.index() + 1, false);
        }
        self.is_here[id.index()] = true;
    }
}

/// A scheduler in use and what it remembers.
#[derive(Debug)]
pub(super) struct Habits {
    rule: InUse,
    memories: Vec<Memory>,
    queue: DueQueue,
    /// No element is due later than this after a poll.
    longest: Span,
    /// The interval of those who know only one.
    fixed: Span,
}

impl Habits {
    pub(super) fn new(rule: InUse, terms: &Terms, present: Present<'_>, now: Time) -> Self {
        // What a first round takes.
        let total: f64 = present.iter().map(|(_, element)| element.cost.0).sum();
        let round = total / terms.budget.as_per_day();
        let mut habits = Self {
            rule,
            memories: Vec::with_capacity(present.len()),
            queue: DueQueue::with_capacity(present.len()),
            longest: terms.max_interval.unwrap_or(Span::FOREVER),
            fixed: Span(round),
        };
        for (id, phase) in present.ids().zip(phases(present.len())) {
            habits.remember(id, now);
            habits.queue.put(id.0, now.0 + phase * round);
        }
        habits
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
