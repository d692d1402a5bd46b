//! Carrying out a plan for rates that are known.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::Rng;

use super::due::DueQueue;
use super::phases;
use crate::plan::{Candidates, Plan, Policy, Rule, RulePolicy};
use crate::{
    Budget, Cost, Element, ElementId, Elements, Frequency, Groups, Order, Present, Rate, Time,
    Weight,
};

/// How far what is planned may drift from the budget, as elements come and go,
/// before a new plan is made.
const DRIFT: f64 = 0.01;

/// Polls every element at the frequency of a plan, in a given order.
///
/// Due times are kept on the plan's own clock, which runs at the speed of time as
/// long as nothing comes or goes. When elements do, it runs faster or slower, so
/// that those who are there spend the budget; and when that has gone far enough a
/// new plan is made. So uniform polling always gives each element the budget
/// divided by the number of elements there are.
#[derive(Debug)]
pub(super) struct Planned {
    policy: RulePolicy,
    order: Order,
    budget: Budget,
    rates: Arc<[Rate]>,
    /// What was said of rates since, by element.
    told: Vec<Option<Rate>>,
    elements: Elements,
    members: Vec<Member>,
    plan: Option<Plan>,
    /// What the plan spends in a day, and what its members would at the speed of
    /// time.
    planned: f64,
    wanted: f64,
    clock: Clock,
    queue: DueQueue,
    /// Those being polled, and when they are due again.
    away: BTreeMap<u32, f64>,
    /// Whether all that are here were here from the start.
    is_settled: bool,
}

#[derive(Debug, Clone, Copy)]
struct Member {
    /// NaN for a number that no element has now.
    frequency: f64,
    /// Where its periods begin, and where in them the next poll is, in polls.
    phase: f64,
    place: f64,
}

impl Member {
    const NONE: Self = Self {
        frequency: f64::NAN,
        phase: 0.0,
        place: 0.0,
    };
}

/// The plan's clock: what it showed when it was last set, and how fast it runs.
#[derive(Debug, Clone, Copy)]
struct Clock {
    set_at: Time,
    shown: f64,
    speed: f64,
}

impl Clock {
    fn shows(&self, now: Time) -> f64 {
        self.shown + now.since(self.set_at).0 * self.speed
    }

    fn when(&self, shown: f64) -> Time {
        if self.speed == 0.0 {
            return Time::NEVER;
        }
        Time(self.set_at.0 + (shown - self.shown).max(0.0) / self.speed)
    }

    fn run_at(&mut self, speed: f64, now: Time) {
        if speed.to_bits() != self.speed.to_bits() {
            *self = Self {
                set_at: now,
                shown: self.shows(now),
                speed,
            };
        }
    }
}

impl Planned {
    /// Elements that are there at the start, their first polls evenly phased.
    pub(super) fn new(
        (policy, order): (RulePolicy, Order),
        rates: Arc<[Rate]>,
        present: Present<'_>,
        budget: Budget,
        groups: &Groups,
        (now, rng): (Time, &mut dyn Rng),
    ) -> Self {
        let mut planned = Self {
            policy,
            order,
            budget,
            rates,
            told: Vec::new(),
            elements: present.to_elements(),
            members: Vec::with_capacity(present.len()),
            plan: None,
            planned: 0.0,
            wanted: 0.0,
            clock: Clock {
                set_at: now,
                shown: 0.0,
                speed: 1.0,
            },
            queue: DueQueue::with_capacity(present.len()),
            away: BTreeMap::new(),
            is_settled: true,
        };
        for id in present.ids() {
            planned.enter(id);
        }
        planned.plan_again(groups, now);
        for (id, phase) in present.ids().zip(phases(present.len())) {
            let first = order.first_place(phase, rng);
            let member = &mut planned.members[id.index()];
            // The period before the first whole one may have begun already.
            member.phase = phase - 1.0;
            member.place = first - member.phase;
            if member.frequency > 0.0 {
                planned.queue.put(id.0, first / member.frequency);
            }
        }
        planned
    }

    pub(super) fn add(
        &mut self,
        id: ElementId,
        element: Element,
        groups: &Groups,
        (now, rng): (Time, &mut dyn Rng),
    ) {
        self.is_settled = false;
        self.elements.set(id, element);
        self.enter(id);
        // A copy that is in sync is at the beginning of its first period.
        self.members[id.index()].place = self.order.next_place(0.0, rng);
        let Some(plan) = &self.plan else {
            return self.plan_again(groups, now);
        };
        let group = element.group.map(|group| groups.outermost(group));
        let rate = self.rate(id);
        let frequency = plan.frequency(rate, element.weight, element.cost, group);
        let member = &mut self.members[id.index()];
        member.frequency = frequency.as_per_day();
        self.wanted += element.cost.0 * member.frequency;
        if member.frequency > 0.0 {
            let due = self.clock.shows(now) + member.place / member.frequency;
            self.queue.put(id.0, due);
        }
        self.keep_pace(groups, now);
        // Whoever was there from the start was polled for the first time after half
        // a period, on average, and will go half a period after its last poll. A
        // newcomer waits a whole one; for what is left so, the others come sooner.
        if self.members[id.index()].frequency > 0.0 {
            let shown = self.clock.shows(now);
            self.clock.set_at = now;
            self.clock.shown = shown + element.cost.0 / (2.0 * self.wanted);
        }
    }

    pub(super) fn remove(&mut self, id: ElementId, groups: &Groups, now: Time) {
        let Some(member) = self.members.get_mut(id.index()) else {
            return;
        };
        self.is_settled = false;
        let Member { frequency, .. } = std::mem::replace(member, Member::NONE);
        if !frequency.is_nan() {
            self.wanted -= self.elements.get(id).cost.0 * frequency;
            self.queue.take_out(id.0);
            self.away.remove(&id.0);
            self.keep_pace(groups, now);
        }
    }

    pub(super) fn contains(&self, id: ElementId) -> bool {
        let member = self.members.get(id.index());
        member.is_some_and(|member| !member.frequency.is_nan())
    }

    pub(super) fn element(&self, id: ElementId) -> Element {
        self.elements.get(id)
    }

    /// From now on the budget is another.
    pub(super) fn set_budget(&mut self, budget: &Budget, groups: &Groups, now: Time) {
        self.is_settled = false;
        self.budget = budget.clone();
        if self.is_paused() {
            // Everyone keeps their place until polls are made again.
            self.clock.run_at(0.0, now);
        } else {
            self.plan_again(groups, now);
        }
    }

    fn is_paused(&self) -> bool {
        self.budget.as_per_day() == 0.0
    }

    pub(super) fn wake_at(&mut self) -> Time {
        match self.queue.first() {
            Some((shown, _)) => self.clock.when(shown),
            None => Time::NEVER,
        }
    }

    pub(super) fn next_poll(&mut self, now: Time, rng: &mut dyn Rng) -> Option<ElementId> {
        let (shown, index) = self.queue.first()?;
        if self.clock.when(shown) > now {
            return None;
        }
        self.queue.pop();
        let member = &mut self.members[index as usize];
        let place = self.order.next_place(member.place, rng);
        // Where nothing ever came or went, times are worked out and not added up, so
        // that the millionth poll is as exact as the first.
        let due = if self.is_settled {
            (place + member.phase) / member.frequency
        } else {
            shown + (place - member.place) / member.frequency
        };
        member.place = place;
        self.away.insert(index, due);
        Some(ElementId(index))
    }

    /// A poll was made: its element is due again when the plan says, however long
    /// the poll took.
    pub(super) fn observe(&mut self, id: ElementId) {
        if let Some(due) = self.away.remove(&id.0)
            && due.is_finite()
        {
            self.queue.put(id.0, due);
        }
    }

    /// Gives out an element whose turn it is not, if it is there and waiting.
    pub(super) fn take(&mut self, id: ElementId, now: Time) -> bool {
        let Some(due) = self.queue.due(id.0) else {
            return false;
        };
        self.queue.take_out(id.0);
        let interval = 1.0 / self.members[id.index()].frequency;
        self.away
            .insert(id.0, due.max(self.clock.shows(now) + interval));
        true
    }

    /// A poll came to nothing: the element is due again at this time.
    pub(super) fn put_back(&mut self, id: ElementId, due: Time) {
        if self.away.remove(&id.0).is_some() {
            self.queue.put(id.0, self.clock.shows(due));
        }
    }

    /// An element was polled at some time before the scheduler was made.
    pub(super) fn recall(&mut self, id: ElementId, polled_at: Time, now: Time) {
        self.is_settled = false;
        let Member { frequency, .. } = self.members[id.index()];
        if frequency > 0.0 {
            let left = 1.0 / frequency - now.since(polled_at).0;
            self.queue.put(id.0, self.clock.shows(now) + left.max(0.0));
        }
    }

    /// An element is now thought to change this often.
    pub(super) fn set_rate(&mut self, id: ElementId, rate: Rate, groups: &Groups, now: Time) {
        if id.index() >= self.told.len() {
            self.told.resize(id.index() + 1, None);
        }
        self.told[id.index()] = Some(rate);
        let (Some(plan), Some(member)) = (&self.plan, self.members.get(id.index())) else {
            return;
        };
        let Member {
            frequency: before, ..
        } = *member;
        if before.is_nan() {
            return;
        }
        let element = self.elements.get(id);
        let group = element.group.map(|group| groups.outermost(group));
        let frequency = plan.frequency(rate, element.weight, element.cost, group).0;
        self.wanted += element.cost.0 * (frequency - before);
        self.members[id.index()].frequency = frequency;
        // It keeps its place: what is left of its period.
        let shown = self.clock.shows(now);
        if let Some(due) = self.away.get_mut(&id.0) {
            *due = shown + 1.0 / frequency;
        } else if frequency > 0.0 {
            let left = match self.queue.due(id.0) {
                Some(due) => ((due - shown) * before).max(0.0),
                None => 1.0,
            };
            self.queue.put(id.0, shown + left / frequency);
        } else {
            self.queue.take_out(id.0);
        }
        self.keep_pace(groups, now);
    }

    fn rate(&self, id: ElementId) -> Rate {
        let told = self.told.get(id.index()).copied().flatten();
        told.or_else(|| self.rates.get(id.index()).copied())
            .unwrap_or(Rate(1.0))
    }

    pub(super) fn price(&self) -> Option<f64> {
        self.plan.as_ref().and_then(Plan::price)
    }

    pub(super) fn due_at(&self, id: ElementId) -> Option<Time> {
        self.queue.due(id.0).map(|shown| self.clock.when(shown))
    }

    fn enter(&mut self, id: ElementId) {
        if id.index() >= self.members.len() {
            self.members.resize(id.index() + 1, Member::NONE);
        }
        self.members[id.index()].frequency = 0.0;
    }

    /// Lets the clock run so that the budget is spent, or plans again if that has
    /// become too rough. A plan that only scales with the budget never does.
    fn keep_pace(&mut self, groups: &Groups, now: Time) {
        let scales = !matches!(self.policy.rule, Rule::Optimal(_))
            && self.policy.floor == Frequency::ZERO
            && self.budget.caps().iter().len() == 0;
        let is_far = (self.wanted - self.planned).abs() > DRIFT * self.planned;
        if self.is_paused() {
            return;
        }
        if self.planned == 0.0 || is_far && !scales {
            self.plan_again(groups, now);
        } else if self.wanted > 0.0 {
            self.clock.run_at(self.planned / self.wanted, now);
        }
    }

    fn plan_again(&mut self, groups: &Groups, now: Time) {
        let ids: Vec<ElementId> = (0..)
            .zip(&self.members)
            .filter(|(_, member)| !member.frequency.is_nan())
            .map(|(index, _)| ElementId(index))
            .collect();
        const EACH: &str = "one of each per member";
        let elements = || ids.iter().map(|&id| self.elements.get(id));
        let rates: Vec<_> = ids.iter().map(|&id| self.rate(id)).collect();
        let mut candidates = Candidates::new(&rates).expect(EACH);
        // What is the same for all is not written down: a plan for millions of
        // elements is made in memory that they would take up.
        let weights: Vec<_>;
        if elements().any(|element| element.weight != Weight::ONE) {
            weights = elements().map(|element| element.weight).collect();
            candidates = candidates.with_weights(&weights).expect(EACH);
        }
        let costs: Vec<_>;
        if elements().any(|element| element.cost != Cost::ONE) {
            costs = elements().map(|element| element.cost).collect();
            candidates = candidates.with_costs(&costs).expect(EACH);
        }
        let outermost: Vec<_>;
        if self.budget.caps().iter().len() > 0 {
            let group = |element: Element| element.group.map(|group| groups.outermost(group));
            outermost = elements().map(group).collect();
            candidates = candidates.with_groups(&outermost).expect(EACH);
        }
        let plan = self.policy.plan(&candidates, &self.budget);
        let frequencies = plan.frequencies(&candidates);

        let shown = self.clock.shows(now);
        self.clock = Clock {
            set_at: now,
            shown,
            speed: 1.0,
        };
        self.wanted = 0.0;
        for (&id, frequency) in ids.iter().zip(frequencies) {
            let frequency = frequency.as_per_day();
            let member = &mut self.members[id.index()];
            // An element keeps its place: what is left of its period.
            // What is polled for the first time, or again, comes at its phase.
            let left = match self.queue.due(id.0) {
                Some(due) => ((due - shown) * member.frequency).max(0.0),
                None => (member.place + member.phase).rem_euclid(1.0),
            };
            member.frequency = frequency;
            self.wanted += self.elements.get(id).cost.0 * frequency;
            if let Some(due) = self.away.get_mut(&id.0) {
                *due = shown + 1.0 / frequency;
            } else if self.plan.is_none() {
                // At the start: phases are given out when all frequencies are
                // known.
            } else if frequency > 0.0 {
                self.queue.put(id.0, shown + left / frequency);
            } else {
                self.queue.take_out(id.0);
            }
        }
        self.planned = self.wanted;
        self.plan = Some(plan);
    }
}
