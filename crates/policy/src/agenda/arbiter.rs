//! Who goes next, and when to ask again.
//!
//! Those who wait for a turn go first, then free first polls that are owed one. What
//! counts is chosen while the budget allows it: what was asked for, every fourth time a
//! retry, listings, new elements in turns with old ones, audits, and then whatever is
//! worth most.

use rand::{Rng, RngExt};

use super::{Agenda, FirstPolls, Poll, Request, Scope, Waiting, earlier, later, retry_in};
use crate::{ElementId, GroupId, Purpose, Time};

/// Requests under way at a time, over all groups.
const MOST_AT_ONCE: usize = 256;
/// Polls that count and wait for their groups: no more are chosen while so many do.
const MOST_WAITING: usize = 64;
/// Elements that cannot be polled now which are passed over at a time.
const MOST_PASSED_OVER: usize = 64;
/// Draws of an element at random before an audit is left out.
const MOST_DRAWS: usize = 64;
/// Nobody waits for a group that is left alone for longer than this, in days: two
/// seconds for those who are not asked for, a minute for those who are.
const SOON: f64 = 2.0 / 86_400.0;
const LONGEST_WAIT: f64 = 60.0 / 86_400.0;
/// Elements that are out, or were never had, are many where much is wrong: they get every
/// fourth turn, and leave the others to those that are in.
const RETRY_TURN: u32 = 4;

/// Who goes next.
impl Agenda {
    /// Something to ask for now, if there is. What it takes of budget and limits is
    /// taken.
    pub fn next(&mut self, now: Time, rng: &mut dyn Rng) -> Option<Request> {
        self.tell_bidders(now);
        let may_spend = self.spends_at(Purpose::Due, now) <= now;
        if self.gate.has_waiting()
            && let Some(request) = self.next_waiting(now, rng)
        {
            return Some(request);
        }
        if self.is_stopping || !self.has_room() {
            return None;
        }
        let is_free = self.has_free_pass(now);
        if is_free {
            if let Some(group) = self.first_pass.next_owed() {
                return Some(self.new_of(group, false, now));
            }
            if let Some(request) = self.next_new_rows(true, now) {
                return Some(request);
            }
        }
        let may_run_ahead = || self.spends_at(Purpose::Asked, now) <= now;
        let is_for_asked = !may_spend && !self.asked.is_empty() && may_run_ahead();
        if (may_spend || is_for_asked) && self.gate.n_counted_waiting() < MOST_WAITING {
            for _ in 0..MOST_PASSED_OVER {
                let choice = match is_for_asked {
                    true => self.choose_asked(now, rng).unwrap_or(Chosen::None),
                    false => self.choose(now, rng),
                };
                match choice {
                    Chosen::Go(request) => return Some(request),
                    Chosen::PassedOver => {}
                    Chosen::None => break,
                }
            }
        }
        if !is_free {
            return None;
        }
        if let Some(group) = self.first_pass.next() {
            return Some(self.new_of(group, false, now));
        }
        if let Some(request) = self.next_new_rows(false, now) {
            return Some(request);
        }
        self.new_beside_waiting(now)
    }

    /// A new element that is free, of a group in which polls wait that only the budget
    /// keeps from leaving. They hold up nobody who needs none of it: a few retries on each
    /// host would else be as long in the way of a first pass as a small budget takes.
    fn new_beside_waiting(&mut self, now: Time) -> Option<Request> {
        let leaves_at = self.leaves_at(now);
        let with_new = |group| self.first_pass.has(group);
        let group = self.gate.free_beside_waiting(with_new, leaves_at, now)?;
        self.first_pass.take(Some(group));
        Some(self.new_of(Some(group), false, now))
    }

    /// Someone who waits for a group and whose turn has come, or who waits in vain.
    fn next_waiting(&mut self, now: Time, rng: &mut dyn Rng) -> Option<Request> {
        let hopeless = Time(now.0 + LONGEST_WAIT);
        for (group, waiting) in self.gate.take_hopeless(hopeless) {
            match waiting {
                Waiting::Hop(ticket) => return Some(Request::GiveUp(ticket)),
                Waiting::Poll(poll) => {
                    let due = self.gate.paused_until(group) + retry_in(1, rng);
                    self.put_back(poll.id, poll.group, due, now);
                }
            }
        }
        let leaves_at = self.leaves_at(now);
        let (group, waiting) = self.gate.next_turn(leaves_at, now)?;
        Some(match waiting {
            Waiting::Hop(ticket) => {
                self.gate.begin(group, 1.0, now);
                Request::Go(ticket)
            }
            Waiting::Poll(poll) => self.begin(poll, now),
        })
    }

    /// When to ask again, if nothing is told before: not before there may be something
    /// to ask for, and not later.
    pub fn wake_at(&mut self, now: Time) -> Time {
        self.tell_bidders(now);
        let paced = self.spends_at(Purpose::Due, now);
        let mut wake_at = match self.gate.has_waiting() {
            true => self.gate.wake_at(self.leaves_at(now)),
            false => Time::NEVER,
        };
        if self.is_stopping || !self.has_room() {
            return wake_at;
        }
        let mut consider = |at: Time| wake_at = earlier(wake_at, at);
        if self.has_free_first_polls() && self.first_pass.n_left() > 0 {
            let ready = match self.first_pass.is_ready() {
                true => now,
                false => {
                    let with_new = |group| self.first_pass.has(group);
                    earlier(self.gate.reopens_at(), self.gate.frees_at(with_new))
                }
            };
            consider(match self.settings.window {
                Some(window) => window.opens_at(later(ready, now)),
                None => ready,
            });
        }
        if self.gate.n_counted_waiting() < MOST_WAITING {
            // Rows that were asked for come when their sources may be asked.
            if self.asked().any(|id| self.search_of(id).is_none()) {
                consider(self.spends_at(Purpose::Asked, now));
            }
            consider(later(paced, self.chooses_at()));
            if self.scope != Scope::Asked || !self.asked.is_empty() {
                consider(self.searches_wake_at(paced, now));
            }
        }
        wake_at
    }

    /// Whether something is due by a time, wherever it is, or is new.
    pub fn has_due(&mut self, by: Time, now: Time) -> bool {
        self.first_pass.n_left() > 0 || self.scheduler.is_due(by) || self.retries.next_at() <= now
    }

    /// When the budget allows the next poll of this purpose, if it counts: those that a
    /// person asked for may run ahead of it.
    pub fn spends_at(&self, purpose: Purpose, now: Time) -> Time {
        match (&self.pace, purpose) {
            (None, _) => now,
            (Some(pace), Purpose::Asked) => earlier(pace.next_ahead_at(now), pace.next_at(now)),
            (Some(pace), _) => pace.next_at(now),
        }
    }

    /// When the budget lets a poll leave that was chosen.
    fn leaves_at(&self, now: Time) -> impl Fn(&Poll) -> Time + use<> {
        let (paced, ahead) = (
            self.spends_at(Purpose::Due, now),
            self.spends_at(Purpose::Asked, now),
        );
        move |poll| match (poll.is_counted, poll.purpose) {
            (false, _) => Time(f64::NEG_INFINITY),
            (true, Purpose::Asked) => ahead,
            (true, _) => paced,
        }
    }

    /// When there may be a poll that counts to choose, the budget left aside.
    fn chooses_at(&mut self) -> Time {
        let due = match self.scope {
            Scope::Asked => return Time::NEVER,
            Scope::DueBy(by) if !self.scheduler.is_ready(by) => Time::NEVER,
            _ => self.scheduler.wake_at(),
        };
        let mut at = earlier(due, self.retries.next_at());
        at = earlier(at, self.listings.next_at());
        if self.settings.first_pass == FirstPolls::Counted && self.first_pass.is_ready() {
            at = Time(f64::NEG_INFINITY);
        }
        // Someone may wait in a group that is closed.
        earlier(at, self.gate.reopens_at())
    }

    /// Lets bidders know which groups have opened and closed.
    pub(super) fn tell_bidders(&mut self, now: Time) {
        if self.gate.is_empty() {
            return;
        }
        for (group, is_open) in self.gate.take_changes(now) {
            self.scheduler.set_open(group, is_open);
            self.first_pass.set_open(group, is_open);
        }
    }

    fn has_room(&self) -> bool {
        self.n_under_way() < MOST_AT_ONCE
    }

    pub(super) fn has_free_first_polls(&self) -> bool {
        self.settings.first_pass == FirstPolls::Free && self.scope != Scope::Asked
    }

    fn has_free_pass(&self, now: Time) -> bool {
        let window = self.settings.window;
        self.has_free_first_polls() && window.is_none_or(|window| window.contains(now))
    }

    /// The next poll that counts.
    fn choose(&mut self, now: Time, rng: &mut dyn Rng) -> Chosen {
        while let Some(id) = self.listings.next_back(now) {
            self.scheduler.put_back(id, now, now);
        }
        if let Some(choice) = self.choose_asked(now, rng) {
            return choice;
        }
        if self.scope == Scope::Asked {
            return Chosen::None;
        }
        self.n_choices = self.n_choices.wrapping_add(1);
        if self.n_choices.is_multiple_of(RETRY_TURN)
            && let Some((id, group)) = self.retries.pop(now)
        {
            return self.look_again(id, group, now, rng);
        }
        if let Some(id) = self.listings.pop(now) {
            if !self.scheduler.contains(id) {
                return Chosen::PassedOver;
            }
            let group = self.scheduler.outermost(id);
            return self.out_of_turn(id, group, Purpose::Due, now, rng);
        }
        // New ones that count and old ones take turns, as long as old ones are worth it;
        // a turn that cannot be taken now is kept.
        let counts_new = self.settings.first_pass == FirstPolls::Counted;
        if counts_new
            && (self.next_is_first_poll || !self.is_old_one_worth_it(now))
            && let Some(group) = self.first_pass.next()
        {
            return Chosen::Go(self.new_of(group, true, now));
        }
        if self.settings.audit > 0.0
            && self.scope == Scope::Everything
            && rng.random::<f64>() < self.settings.audit
            && let Some(id) = self.draw(rng)
        {
            if let Some(search) = self.search_of(id) {
                return self.ask_for_row(search, id, Purpose::Audit, now);
            }
            let group = self.scheduler.outermost(id);
            return self.out_of_turn(id, group, Purpose::Audit, now, rng);
        }
        if !self.searches.is_empty()
            && let Some((id, bid, purpose)) = self.best_search(now)
            && self.goes_first(bid.worth, now)
        {
            self.next_is_first_poll = purpose != Purpose::First;
            return Chosen::Go(self.begin_search(id, bid.request, (purpose, None), true, now));
        }
        let is_due = match self.scope {
            Scope::DueBy(by) => self.scheduler.is_ready(by),
            _ => true,
        };
        if is_due && let Some(id) = self.scheduler.next_poll(now, rng) {
            self.next_is_first_poll = true;
            if self.is_under_way(id) {
                self.scheduler.put_back(id, now + retry_in(1, rng), now);
                return Chosen::PassedOver;
            }
            if self.listings.set_aside(id, now) {
                return Chosen::PassedOver;
            }
            let element = self.scheduler.element(id);
            let groups = self.scheduler.groups();
            let poll = Poll {
                id,
                group: element.group.map(|group| groups.outermost(group)),
                purpose: Purpose::Due,
                is_counted: true,
                cost: element.cost.0,
            };
            return Chosen::Go(self.begin(poll, now));
        }
        if counts_new && let Some(group) = self.first_pass.next() {
            return Chosen::Go(self.new_of(group, true, now));
        }
        match self.retries.pop(now) {
            Some((id, group)) => self.look_again(id, group, now, rng),
            None => Chosen::None,
        }
    }

    /// Something that someone asked for, if it can be had now or is about to be.
    fn choose_asked(&mut self, now: Time, rng: &mut dyn Rng) -> Option<Chosen> {
        for _ in 0..self.asked.len() {
            let (id, group) = self.asked.pop_front()?;
            let Some(search) = self.search_of(id) else {
                return Some(self.out_of_turn(id, group, Purpose::Asked, now, rng));
            };
            self.asked.push_back((id, group));
            if let choice @ Chosen::Go(_) = self.ask_for_rows(search, now) {
                return Some(choice);
            }
        }
        None
    }

    /// An element that is out, or was never had.
    fn look_again(
        &mut self,
        id: ElementId,
        group: Option<GroupId>,
        now: Time,
        rng: &mut dyn Rng,
    ) -> Chosen {
        match self.search_of(id) {
            Some(search) => self.ask_for_row(search, id, Purpose::Due, now),
            None => self.out_of_turn(id, group, Purpose::Due, now, rng),
        }
    }

    /// Whether a request to a search source that is worth so much goes before the element
    /// that comes next.
    fn goes_first(&mut self, worth: f64, now: Time) -> bool {
        // Where worth is not what polls are chosen by, they take turns.
        self.is_turn_of_searches = !self.is_turn_of_searches;
        let others = match self.scheduler.next_worth(now) {
            Some(others) => others,
            None if self.is_turn_of_searches || self.scheduler.wake_at() > now => 0.0,
            None => f64::INFINITY,
        };
        worth > others || worth == f64::INFINITY
    }

    /// Whether the scheduler's next poll is worth the price, where it goes by worth:
    /// whoever was polled just now is not.
    fn is_old_one_worth_it(&mut self, now: Time) -> bool {
        let worth = self.scheduler.next_worth(now);
        let price = self.scheduler.price();
        worth.zip(price).is_none_or(|(worth, price)| worth >= price)
    }

    /// An element whose turn it is not by the scheduler: it goes, waits for its group, or
    /// comes back later.
    fn out_of_turn(
        &mut self,
        id: ElementId,
        group: Option<GroupId>,
        purpose: Purpose,
        now: Time,
        rng: &mut dyn Rng,
    ) -> Chosen {
        if self.is_under_way(id) {
            // What is found of it is news enough; one without a copy is looked at again.
            if !self.scheduler.contains(id) && purpose == Purpose::Due {
                self.retries.set(id, group, now + retry_in(1, rng));
            }
            return Chosen::PassedOver;
        }
        if self.listings.take_back(id) {
            self.scheduler.put_back(id, now, now);
        }
        let is_in = self.scheduler.contains(id);
        if is_in && !self.scheduler.take(id, now) {
            // It waits for its group already.
            return Chosen::PassedOver;
        }
        let poll = Poll {
            id,
            group,
            purpose,
            is_counted: true,
            cost: if is_in {
                self.scheduler.element(id).cost.0
            } else {
                1.0
            },
        };
        let Some(group) = group.filter(|&group| self.gate.free_at(group) > now) else {
            return Chosen::Go(self.begin(poll, now));
        };
        let patience = match purpose {
            Purpose::Asked => LONGEST_WAIT,
            _ => SOON,
        };
        let paused_until = self.gate.paused_until(group);
        if paused_until.0 > now.0 + patience {
            // A group that is left alone holds up nobody else.
            self.put_back(id, Some(group), paused_until + retry_in(1, rng), now);
        } else {
            self.gate.wait(group, Waiting::Poll(poll), now);
            self.tell_bidders(now);
        }
        Chosen::PassedOver
    }

    /// An element drawn at random from those that we have a copy of.
    fn draw(&mut self, rng: &mut dyn Rng) -> Option<ElementId> {
        for _ in 0..MOST_DRAWS {
            let id = ElementId(rng.random_range(0..self.n_known.max(1)));
            // What comes with others only cannot be asked for by itself.
            let comes_alone = !self.scheduler.is_watched(id) || self.search_of(id).is_some();
            if self.scheduler.contains(id)
                && comes_alone
                && !self.listings.contains(id)
                && !self.is_under_way(id)
            {
                return Some(id);
            }
        }
        None
    }

    fn begin(&mut self, poll: Poll, now: Time) -> Request {
        if let Some(group) = poll.group {
            self.gate.begin(group, poll.cost, now);
            self.first_pass.owe(group);
            if !self.searches.is_empty() {
                self.note_turn(group, poll.purpose);
            }
        }
        self.spend(poll.is_counted, poll.cost, now);
        self.under_way.push(poll.id);
        Request::Poll(poll)
    }

    fn new_of(&mut self, group: Option<GroupId>, is_counted: bool, now: Time) -> Request {
        if let Some(group) = group {
            self.gate.begin(group, 1.0, now);
        }
        self.spend(is_counted, 1.0, now);
        self.next_is_first_poll = false;
        Request::New { group, is_counted }
    }

    pub(super) fn spend(&mut self, is_counted: bool, cost: f64, now: Time) {
        if let Some(pace) = self.pace.as_mut().filter(|_| is_counted) {
            pace.spend(cost, now);
        }
    }
}

/// What came of choosing.
pub(super) enum Chosen {
    /// This is asked for.
    Go(Request),
    /// Someone was chosen who cannot go now.
    PassedOver,
    /// There is nobody.
    None,
}

#[cfg(test)]
mod tests {
    use super::super::{LimitMemory, Verdict};
    use super::*;
    use crate::in_use::InUse;
    use crate::plan::Rule;
    use crate::sample::{self, Sampling};
    use crate::schedule::{self, Terms};
    use crate::{Budget, Element, Elements, Groups, Order, Outcome, Present, Rate, Span};
    use rand::SeedableRng;
    use rand_pcg::Pcg64;

    /// Polls until a day is over, as `day:element`, with `+` where a change was
    /// found; `changes` says whether a poll finds one.
    fn script(agenda: &mut Agenda, until: f64, changes: impl Fn(u32, f64) -> bool) -> String {
        let mut rng = Pcg64::seed_from_u64(1);
        let mut polls = Vec::new();
        let mut now = Time::START;
        loop {
            let wake_at = agenda.wake_at(now);
            now = later(wake_at, now);
            if now.0 > until {
                return polls.join(" ");
            }
            while let Some(request) = agenda.next(now, &mut rng) {
                let Request::Poll(Poll { id, group, .. }) = request else {
                    panic!("{request:?}");
                };
                let changed = changes(id.0, now.0);
                let outcome = if changed {
                    Outcome::Changed { age: None }
                } else {
                    Outcome::Unchanged
                };
                agenda.observe(id, outcome, now);
                if let Some(group) = group {
                    agenda.ended(group, Verdict::Fine, now, &mut rng);
                }
                let mark = if changed { "+" } else { "" };
                polls.push(format!("{:.1}:{}{mark}", now.0, id.0));
            }
        }
    }

    fn agenda(choice: schedule::Choice, per_day: f64, n: u32) -> Agenda {
        let elements: Elements = (0..n).map(|_| Element::default()).collect();
        let terms = Terms::new(Budget::per_day(per_day).unwrap());
        let mut rng = Pcg64::seed_from_u64(1);
        let present = Present::all(&elements);
        Agenda::exact(choice, terms, Groups::new(), present, Time::START, &mut rng)
    }

    fn planned(rule: Rule, rates: &[f64]) -> schedule::Choice {
        schedule::Choice::Planned {
            rule,
            order: Order::Fixed,
            rates: rates.iter().map(|&rate| Rate(rate)).collect(),
        }
    }

    #[test]
    fn uniform_polls_take_turns_and_newcomers_join_in() {
        let mut uniform = agenda(planned(Rule::Uniform, &[1.0; 4]), 1.0, 3);
        assert_eq!(
            script(&mut uniform, 6.0, |_, _| false),
            "0.5:0 1.5:2 2.5:1 3.5:0 4.5:2 5.5:1"
        );
        let mut rng = Pcg64::seed_from_u64(1);
        uniform.join(ElementId(3), Element::default(), Time(6.0), &mut rng);
        uniform.remove(ElementId(0), Time(6.0));
        let polls = script(&mut uniform, 13.0, |_, _| false);
        assert!(polls.contains(":3") && !polls.contains(":0"), "{polls}");
    }

    #[test]
    fn a_plan_polls_what_changes_often_more_often_and_too_often_never() {
        let optimal = Rule::Optimal(crate::Objective::Freshness);
        let mut optimal = agenda(planned(optimal, &[0.1, 1.0, 50.0]), 1.0, 3);
        let polls = script(&mut optimal, 30.0, |_, _| false);
        let count = |element: &str| polls.matches(element).count();
        assert!(2 * count(":1") > 3 * count(":0"), "{polls}");
        assert_eq!(count(":2"), 0, "{polls}");
        assert!(optimal.scheduler().price().is_some());
    }

    #[test]
    fn learned_polls_everyone_and_then_those_that_change() {
        let mut learned = agenda(schedule::Choice::Learned, 1.0, 4);
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
        let choice = schedule::Choice::Sampled(Sampling::RoundRobin, settings);
        let mut batches = agenda(choice, 0.4, 3);
        assert_eq!(
            script(&mut batches, 15.0, |_, _| false),
            "5.0:0 5.0:1 10.0:2 10.0:0 15.0:1 15.0:2"
        );
    }

    #[test]
    fn an_element_removed_while_its_group_is_at_its_limit_takes_nobodys_turn() {
        let mut groups = Groups::new();
        let group = groups.add(None);
        let element = Element {
            group: Some(group),
            ..Element::default()
        };
        let elements: Elements = (0..4).map(|_| element).collect();
        let caps = crate::Caps::per_day([(group, 1.0)]).unwrap();
        let terms = Terms::new(Budget::per_day(4.0).unwrap().with_caps(caps));
        let mut rng = Pcg64::seed_from_u64(1);
        let present = Present::all(&elements);
        let mut agenda = Agenda::exact(
            schedule::Choice::InUse(InUse::FixedInterval),
            terms,
            groups,
            present,
            Time::START,
            &mut rng,
        );
        script(&mut agenda, 2.0, |_, _| false);
        for id in 0..3 {
            agenda.remove(ElementId(id), Time(2.0));
        }
        agenda.join(ElementId(1), element, Time(2.1), &mut rng);
        let polls = script(&mut agenda, 6.0, |_, _| false);
        let n = |id: &str| polls.matches(id).count();
        assert_eq!((n(":0"), n(":2")), (0, 0), "{polls}");
        assert!(n(":1") + n(":3") >= 3, "{polls}");
    }

    /// A run that starts within a gap of the last one's final request.
    #[test]
    fn new_elements_of_a_group_that_was_just_asked_get_their_turn() {
        let mut agenda = agenda(planned(Rule::Uniform, &[]), 1.0, 0);
        let mut rng = Pcg64::seed_from_u64(1);
        let group = GroupId::new(0).unwrap();
        let (now, gap) = (Time(10.0), Span(1.0));
        agenda.settings.first_pass = FirstPolls::Free;
        agenda.gate_mut().set_limit(group, gap, 1);
        let asked = LimitMemory {
            requested_at: Some(now),
            not_before: None,
            pause: None,
            n_failures: 0,
        };
        agenda.gate_mut().recall(group, asked, now);
        agenda.add_new(Some(group), 2, now);
        // Nobody looks before the gap is over.
        let request = agenda.next(now + gap + gap, &mut rng);
        assert!(matches!(request, Some(Request::New { .. })), "{request:?}");
    }

    /// Several hosts with elements that failed, as an archive of old addresses has them. The
    /// budget has a poll to spend every four and a half seconds, when all hosts are within
    /// their gaps, so that those that failed wait for them, all together.
    #[test]
    fn what_waits_for_the_budget_holds_up_no_first_poll_that_is_free() {
        let (n_groups, n_new) = (5, 20);
        let mut agenda = agenda(schedule::Choice::Learned, 19_200.0, 0);
        agenda.settings.first_pass = FirstPolls::Free;
        let mut rng = Pcg64::seed_from_u64(1);
        let (mut now, gap) = (Time(10.0), Span(1.0 / 86_400.0));
        for number in 0..n_groups {
            let group = GroupId::new(number).unwrap();
            agenda.gate_mut().set_limit(group, gap, 1);
            agenda.add_new(Some(group), n_new, now);
            for id in 0..4 {
                agenda.look_at(ElementId(4 * number + id), Some(group), now);
            }
        }
        let end = Time(now.0 + 2.0 * n_new as f64 * gap.0);
        let (mut n_first, mut n_counted) = (0, 0);
        while now <= end {
            while let Some(request) = agenda.next(now, &mut rng) {
                let group = match request {
                    Request::New { group, is_counted } => {
                        assert!(!is_counted);
                        n_first += 1;
                        group
                    }
                    Request::Poll(poll) => {
                        n_counted += 1;
                        agenda.finish(poll.id);
                        poll.group
                    }
                    request => panic!("{request:?}"),
                };
                agenda.ended(group.unwrap(), Verdict::Fine, now, &mut rng);
            }
            let wake_at = agenda.wake_at(now);
            assert!(wake_at > now, "it would ask again and again");
            now = wake_at;
        }
        assert_eq!(n_first, u64::from(n_groups) * n_new);
        assert!((5..15).contains(&n_counted), "{n_counted} in 40 s");
    }
}
