//! What every [`CustomPolicy`] has to keep to, as a test over any of them.
//!
//! [`check`] drives a policy through the scheduler, as simulator and engine do, with all
//! that can happen to elements, in an order drawn at random from fixed seeds. It panics
//! if a promise is broken, so a test of it is one line. It does not say whether the
//! policy is any good: the simulator does.

use std::collections::BTreeMap;
use std::convert::Infallible;

use rand::{Rng, TryRng};

use super::custom::{Custom, CustomPolicy, Past};
use super::{Choice, Scheduler, Shadow, Terms};
use crate::{
    Budget, Element, ElementId, Elements, GroupId, Groups, Outcome, Present, Span, Time, Weight,
};

/// Checks that a policy
///
/// - chooses only elements that wait,
/// - having chosen nobody, does not want to be asked again at once,
/// - gives due times and worths that are numbers,
/// - copes with elements that come, go, come back, fail, are asked for out of turn, or are
///   in groups that close, with hints and other budgets,
/// - goes on after a restart,
/// - and polls someone at all.
///
/// # Panics
///
/// If it does not.
pub fn check(custom: &Custom) {
    let inner = custom.clone();
    let checked = Custom::new(custom.name(), move |start| Checked {
        policy: inner.make(start),
        is_waiting: BTreeMap::new(),
        now: start.now,
    });
    for seed in 1..=4 {
        for shadow in [Shadow::None, Shadow::Learner] {
            for max_interval in [None, Some(LONGEST)] {
                let terms = Terms {
                    max_interval,
                    shadow,
                    ..Terms::new(per_day(24))
                };
                Driver::new(Choice::Custom(checked.clone()), terms, seed).run();
            }
        }
    }
}

const N_GROUPS: u32 = 3;
const N_STEPS: u32 = 1500;
/// Days in which someone is polled, and everyone whose wait is limited to [`LONGEST`].
const N_DAYS: u32 = 100;
const LONGEST: Span = Span(20.0);

/// A policy, and whether it keeps to what it was told.
struct Checked {
    policy: Box<dyn CustomPolicy>,
    /// The elements that are there.
    is_waiting: BTreeMap<ElementId, bool>,
    now: Time,
}

impl CustomPolicy for Checked {
    fn add(&mut self, id: ElementId, element: Element, groups: &Groups, now: Time) {
        self.is_waiting.insert(id, true);
        self.policy.add(id, element, groups, now);
    }

    fn remove(&mut self, id: ElementId) {
        self.is_waiting.remove(&id);
        self.policy.remove(id);
    }

    fn choose(&mut self, now: Time) -> Option<ElementId> {
        assert!(now >= self.now, "time goes on");
        self.now = now;
        let chosen = self.policy.choose(now);
        if let Some(id) = chosen {
            match self.is_waiting.get(&id) {
                Some(true) => {}
                Some(false) => panic!("{id:?} was chosen while it is being polled"),
                None => panic!("{id:?} was chosen and is not there"),
            }
        }
        chosen
    }

    fn begin(&mut self, id: ElementId) {
        self.is_waiting.insert(id, false);
        self.policy.begin(id);
    }

    fn observe(&mut self, id: ElementId, outcome: Outcome, now: Time) {
        self.is_waiting.insert(id, true);
        self.policy.observe(id, outcome, now);
    }

    fn wake_at(&self, now: Time) -> Time {
        let wake_at = self.policy.wake_at(now);
        assert!(
            wake_at > now,
            "nobody was chosen at {now:?}, and it wants to be asked again at {wake_at:?}"
        );
        wake_at
    }

    fn hint(&mut self, id: ElementId, now: Time) {
        self.policy.hint(id, now);
    }

    fn set_budget(&mut self, budget: &Budget) {
        self.policy.set_budget(budget);
    }

    fn due_at(&self, id: ElementId) -> Option<Time> {
        let due_at = self.policy.due_at(id);
        assert!(
            due_at.is_none_or(|due| !due.0.is_nan()),
            "due at {due_at:?}"
        );
        due_at
    }

    fn worth(&self, id: ElementId, now: Time) -> Option<f64> {
        let worth = self.policy.worth(id, now);
        assert!(worth.is_none_or(|worth| !worth.is_nan()), "worth {worth:?}");
        worth
    }

    fn remember(&self) -> Vec<u8> {
        self.policy.remember()
    }

    fn recall(&mut self, bytes: &[u8]) {
        self.policy.recall(bytes);
    }

    fn add_again(&mut self, id: ElementId, element: Element, groups: &Groups, past: Past) {
        self.is_waiting.insert(id, true);
        self.policy.add_again(id, element, groups, past);
    }
}

/// Someone who has a scheduler, and knows what it should know.
struct Driver {
    choice: Choice,
    terms: Terms,
    scheduler: Scheduler,
    elements: BTreeMap<ElementId, Tracked>,
    is_open: [bool; N_GROUPS as usize],
    now: Time,
    rng: SplitMix,
}

struct Tracked {
    element: Element,
    polled_at: Time,
    is_being_polled: bool,
}

impl Driver {
    fn new(choice: Choice, terms: Terms, seed: u64) -> Self {
        let mut rng = SplitMix(seed);
        let now = Time(20_000.0);
        let mut groups = Groups::new();
        for _ in 0..N_GROUPS {
            groups.add(None);
        }
        let scheduler = scheduler(&choice, &terms, groups, now, &mut rng);
        Self {
            choice,
            terms,
            scheduler,
            elements: BTreeMap::new(),
            is_open: [true; N_GROUPS as usize],
            now,
            rng,
        }
    }

    fn run(mut self) {
        for _ in 0..N_STEPS {
            self.now = Time(self.now.0 + 0.002 * f64::from(self.rng.below(100)));
            self.step();
        }
        self.settle();
    }

    /// Something happens.
    fn step(&mut self) {
        let (id, now) = (ElementId(self.rng.below(40)), self.now);
        let is_there = self.elements.contains_key(&id);
        let is_being_polled = |known: &Tracked| known.is_being_polled;
        match self.rng.below(100) {
            0..20 if !is_there => self.add(id),
            20..23 if is_there => {
                self.elements.remove(&id);
                self.scheduler.remove(id, now);
            }
            23..60 => {
                if let Some(id) = self.scheduler.next_poll(now, &mut self.rng) {
                    self.begun(id);
                }
            }
            60..75 if self.elements.get(&id).is_some_and(is_being_polled) => self.observe(id),
            75..80 if self.elements.get(&id).is_some_and(is_being_polled) => {
                let due = Time(now.0 + f64::from(self.rng.below(3)));
                self.scheduler.put_back(id, due, now);
                self.elements
                    .entry(id)
                    .and_modify(|known| known.is_being_polled = false);
            }
            80..84 if is_there => {
                let was_free = !self.elements[&id].is_being_polled;
                let could_be = self.scheduler.take(id, now);
                assert_eq!(could_be, was_free, "{id:?} taken out of turn");
                self.elements
                    .entry(id)
                    .and_modify(|known| known.is_being_polled = true);
            }
            84..90 => {
                let group = self.rng.below(N_GROUPS);
                let is_open = &mut self.is_open[group as usize];
                *is_open = !*is_open;
                let group = GroupId::new(group).expect("a small number");
                self.scheduler.set_open(group, *is_open);
            }
            90..94 if is_there => self.scheduler.hint(id, now),
            94..96 => {
                let budget = per_day(self.rng.below(50));
                self.scheduler.set_budget(&budget, now);
            }
            96..99 => {
                self.scheduler.wake_at();
                self.scheduler.is_due(now);
                self.scheduler.next_worth(now);
                self.scheduler.due_at(id);
            }
            99 if self.terms.shadow == Shadow::Learner => self.restart(),
            _ => {}
        }
    }

    /// Once nothing else happens, someone is polled, and everyone who may not wait longer.
    fn settle(&mut self) {
        for number in 0..N_GROUPS {
            self.is_open[number as usize] = true;
            let group = GroupId::new(number).expect("a small number");
            self.scheduler.set_open(group, true);
        }
        for number in 0..5 {
            if !self.elements.contains_key(&ElementId(number)) {
                self.add(ElementId(number));
            }
        }
        let since = self.now;
        let begun = self
            .elements
            .iter()
            .filter(|(_, known)| known.is_being_polled);
        let begun: Vec<ElementId> = begun.map(|(&id, _)| id).collect();
        for id in begun {
            self.observe(id);
        }
        for _ in 0..N_DAYS {
            self.now = Time(self.now.0 + 1.0);
            for _ in 0..self.elements.len() {
                let Some(id) = self.scheduler.next_poll(self.now, &mut self.rng) else {
                    break;
                };
                self.begun(id);
                self.observe(id);
            }
        }
        let mut was_polled = self.elements.values().map(|known| known.polled_at > since);
        match self.terms.max_interval {
            Some(_) => assert!(was_polled.all(|was| was), "someone has waited too long"),
            None => assert!(was_polled.any(|was| was), "nobody is ever polled"),
        }
    }

    fn add(&mut self, id: ElementId) {
        let element = Element {
            weight: Weight(0.5 * f64::from(self.rng.below(4))),
            group: GroupId::new(self.rng.below(N_GROUPS)),
            ..Element::default()
        };
        let known = Tracked {
            element,
            polled_at: self.now,
            is_being_polled: false,
        };
        self.elements.insert(id, known);
        self.scheduler.add(id, element, self.now, &mut self.rng);
    }

    fn begun(&mut self, id: ElementId) {
        let known = self.elements.get_mut(&id);
        let known = known.unwrap_or_else(|| panic!("{id:?} was given out and is not there"));
        assert!(!known.is_being_polled, "{id:?} was given out twice");
        known.is_being_polled = true;
        let group = known.element.group.expect("all are in a group");
        assert!(
            self.is_open[group.number() as usize],
            "{id:?} is not to be asked"
        );
    }

    fn observe(&mut self, id: ElementId) {
        let outcome = match self.rng.below(3) {
            0 => Outcome::Changed { age: None },
            _ => Outcome::Unchanged,
        };
        self.scheduler.observe(id, outcome, self.now);
        self.elements.entry(id).and_modify(|known| {
            known.polled_at = self.now;
            known.is_being_polled = false;
        });
    }

    /// Forgets everything but what is remembered. Polls under way are lost.
    fn restart(&mut self) {
        let before = &self.scheduler;
        let groups = before.groups().clone();
        let mut after = scheduler(&self.choice, &self.terms, groups, self.now, &mut self.rng);
        after.recall_all(&before.remember_all());
        for number in 0..N_GROUPS {
            let group = GroupId::new(number).expect("a small number");
            if let Some(bytes) = before.remember_group(group) {
                after.recall_group(group, &bytes);
            }
        }
        for (&id, known) in &mut self.elements {
            let memory = before.remember(id).expect("something is learned of all");
            after.recall(id, known.element, known.polled_at, &memory);
            known.is_being_polled = false;
        }
        after.recalled(self.now, &mut self.rng);
        for (number, &is_open) in (0..).zip(&self.is_open) {
            let group = GroupId::new(number).expect("a small number");
            after.set_open(group, is_open);
        }
        self.scheduler = after;
    }
}

fn per_day(n_polls: u32) -> Budget {
    Budget::per_day(f64::from(n_polls)).expect("a count is finite")
}

fn scheduler(
    choice: &Choice,
    terms: &Terms,
    groups: Groups,
    now: Time,
    rng: &mut SplitMix,
) -> Scheduler {
    let nobody = Elements::new();
    let present = Present::all(&nobody);
    Scheduler::new(choice.clone(), terms.clone(), groups, present, now, rng)
}

/// Steele, Lea and Flood's generator: a check has to be the same each time, and this
/// crate depends on no generator.
struct SplitMix(u64);

impl SplitMix {
    fn below(&mut self, n: u32) -> u32 {
        (self.next_u64() % u64::from(n)) as u32
    }
}

impl TryRng for SplitMix {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.next_u64() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Ok(bits ^ (bits >> 31))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for chunk in bytes.chunks_mut(8) {
            let drawn = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&drawn[..chunk.len()]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::in_use::InUse;
    use crate::schedule::DueTimes;

    /// Whoever was polled longest ago; says nothing of worth or due times.
    #[derive(Default)]
    struct Oldest(Vec<(ElementId, Time)>);

    impl CustomPolicy for Oldest {
        fn add(&mut self, id: ElementId, _: Element, _: &Groups, now: Time) {
            self.0.push((id, now));
        }

        fn remove(&mut self, id: ElementId) {
            self.0.retain(|&(other, _)| other != id);
        }

        fn choose(&mut self, _: Time) -> Option<ElementId> {
            let oldest = self.0.iter().min_by(|a, b| a.1.0.total_cmp(&b.1.0));
            oldest.map(|&(id, _)| id)
        }

        fn begin(&mut self, id: ElementId) {
            self.remove(id);
        }

        fn observe(&mut self, id: ElementId, _: Outcome, now: Time) {
            self.0.push((id, now));
        }
    }

    /// Every element every five days, and nobody in between; remembers how many polls
    /// there were.
    #[derive(Default)]
    struct EveryFive {
        due: DueTimes,
        n_polls: u64,
        last: u64,
    }

    const FIVE: Span = Span(5.0);

    impl CustomPolicy for EveryFive {
        fn add(&mut self, id: ElementId, _: Element, _: &Groups, now: Time) {
            self.due.set(id, now + FIVE);
        }

        fn remove(&mut self, id: ElementId) {
            self.due.remove(id);
        }

        fn choose(&mut self, now: Time) -> Option<ElementId> {
            let (due, id) = self.due.first()?;
            (due <= now).then_some(id)
        }

        fn begin(&mut self, id: ElementId) {
            self.due.remove(id);
        }

        fn observe(&mut self, id: ElementId, _: Outcome, now: Time) {
            self.n_polls += 1;
            self.due.set(id, now + FIVE);
        }

        fn hint(&mut self, id: ElementId, now: Time) {
            if self.due.due_at(id).is_some() {
                self.due.set(id, now);
            }
        }

        fn due_at(&self, id: ElementId) -> Option<Time> {
            self.due.due_at(id)
        }

        fn worth(&self, _: ElementId, _: Time) -> Option<f64> {
            Some(1.0)
        }

        fn remember(&self) -> Vec<u8> {
            self.n_polls.to_le_bytes().to_vec()
        }

        fn recall(&mut self, bytes: &[u8]) {
            let bytes = bytes.try_into().expect("what was remembered");
            self.n_polls = u64::from_le_bytes(bytes);
            assert!(self.n_polls >= self.last);
            self.last = self.n_polls;
        }
    }

    #[test]
    fn policies_that_keep_to_it_pass() {
        check(&Custom::new("oldest", |_| Oldest::default()));
        check(&Custom::new("every-five", |_| EveryFive::default()));
    }

    #[test]
    fn what_is_built_in_keeps_to_it_too() {
        for choice in [
            Choice::Learned,
            Choice::InUse(InUse::Nutch),
            Choice::InUse(InUse::FixedInterval),
        ] {
            for seed in 1..=4 {
                let terms = Terms {
                    shadow: Shadow::Learner,
                    ..Terms::new(per_day(24))
                };
                Driver::new(choice.clone(), terms, seed).run();
            }
        }
    }

    /// Does as another does, but for one thing.
    struct Broken {
        oldest: Oldest,
        flaw: Flaw,
    }

    #[derive(Clone, Copy, PartialEq)]
    enum Flaw {
        ForgetsNobody,
        ChoosesThoseBegun,
        ChoosesNobody,
        WakesAtOnce,
        WorthIsNoNumber,
    }

    impl CustomPolicy for Broken {
        fn add(&mut self, id: ElementId, element: Element, groups: &Groups, now: Time) {
            self.oldest.add(id, element, groups, now);
        }

        fn remove(&mut self, id: ElementId) {
            if self.flaw != Flaw::ForgetsNobody {
                self.oldest.remove(id);
            }
        }

        fn choose(&mut self, now: Time) -> Option<ElementId> {
            let chooses = !matches!(self.flaw, Flaw::ChoosesNobody | Flaw::WakesAtOnce);
            self.oldest.choose(now).filter(|_| chooses)
        }

        fn begin(&mut self, id: ElementId) {
            if self.flaw != Flaw::ChoosesThoseBegun {
                self.oldest.begin(id);
            }
        }

        fn observe(&mut self, id: ElementId, outcome: Outcome, now: Time) {
            self.oldest.observe(id, outcome, now);
        }

        fn wake_at(&self, now: Time) -> Time {
            match self.flaw {
                Flaw::WakesAtOnce => now,
                _ => Time::NEVER,
            }
        }

        fn worth(&self, _: ElementId, _: Time) -> Option<f64> {
            (self.flaw == Flaw::WorthIsNoNumber).then_some(f64::NAN)
        }
    }

    fn broken(flaw: Flaw) -> Custom {
        Custom::new("broken", move |_| Broken {
            oldest: Oldest::default(),
            flaw,
        })
    }

    #[test]
    #[should_panic(expected = "and is not there")]
    fn one_that_chooses_whoever_is_gone_is_found_out() {
        check(&broken(Flaw::ForgetsNobody));
    }

    #[test]
    #[should_panic(expected = "while it is being polled")]
    fn one_that_chooses_whoever_is_being_polled_is_found_out() {
        check(&broken(Flaw::ChoosesThoseBegun));
    }

    #[test]
    #[should_panic(expected = "nobody is ever polled")]
    fn one_that_never_chooses_anyone_is_found_out() {
        check(&broken(Flaw::ChoosesNobody));
    }

    #[test]
    #[should_panic(expected = "wants to be asked again")]
    fn one_that_would_be_asked_again_and_again_is_found_out() {
        check(&broken(Flaw::WakesAtOnce));
    }

    #[test]
    #[should_panic(expected = "worth Some(NaN)")]
    fn one_whose_worths_are_no_numbers_is_found_out() {
        check(&broken(Flaw::WorthIsNoNumber));
    }

    /// Without an elapsed time, whoever waits is chosen in the order of their polls.
    #[test]
    fn whose_poll_failed_is_tried_again_when_it_was_said() {
        let choice = Choice::Custom(Custom::new("oldest", |_| Oldest::default()));
        let elements: Elements = (0..3).map(|_| Element::default()).collect();
        let (terms, mut rng) = (Terms::new(per_day(1)), SplitMix(1));
        let present = Present::all(&elements);
        let start = Time::START;
        let mut scheduler = Scheduler::new(choice, terms, Groups::new(), present, start, &mut rng);
        let mut polls = |scheduler: &mut Scheduler, days: Range<u32>| {
            let poll = |day: u32| {
                let now = Time(f64::from(day));
                let id = scheduler.next_poll(now, &mut rng)?;
                scheduler.observe(id, Outcome::Unchanged, now);
                Some(id.0)
            };
            days.filter_map(poll).collect::<Vec<_>>()
        };
        assert_eq!(polls(&mut scheduler, 1..5), [0, 1, 2, 0]);
        assert!(scheduler.take(ElementId(1), Time(5.0)));
        scheduler.put_back(ElementId(1), Time(8.0), Time(5.0));
        assert_eq!(scheduler.due_at(ElementId(1)), Some(Time(8.0)));
        assert_eq!(polls(&mut scheduler, 5..11), [2, 0, 2, 1, 0, 2]);
    }
}
