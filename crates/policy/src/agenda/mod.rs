//! What to ask for now, over all kinds of sources, and when to wake.
//!
//! An [`Agenda`] is the one state machine that decides what is asked next. The
//! simulator and the engine both drive it: they tell it which elements there are, what
//! requests showed and how they ended, and ask two questions: what to ask for at `now`,
//! and when to wake. It keeps no clock, sends nothing and knows no addresses.
//!
//! Inside it,
//!
//! - the [`Gate`] knows whether a group (a host) may be asked, and until when not;
//! - the [`Pace`] keeps budget, burst and window;
//! - bidders say what they would ask and what that is worth: the
//!   [`Scheduler`] for elements, and [`rows`] for the rows of search sources;
//! - the arbiter, [`Agenda::next`], says who goes: those who wait for a turn, then what
//!   was asked for, retries, listings, audits, new elements, and what is worth most.

mod first_pass;
mod gate;
mod limit;
mod listings;
mod pace;
mod retries;
pub mod rows;
mod search;

use std::collections::{BTreeMap, VecDeque};

use rand::{Rng, RngExt};

use crate::schedule::{self, Scheduler, Terms};
use crate::{
    Budget, Element, ElementId, GroupId, Groups, Outcome, Present, Purpose, Span, Time, Window,
};
use first_pass::FirstPass;
pub use gate::{Gate, Waiting};
pub use limit::{Limit, LimitMemory, Pause, Verdict, retry_in};
use listings::Listings;
pub use listings::listing_weight;
pub use pace::{Burst, Pace};
use retries::Retries;
use search::Asked;
pub use search::{SearchId, SearchPoll};

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
/// An element that is gone is looked at again after so many rounds of all elements,
const ROUNDS_OUT: f64 = 5.0;
/// but not sooner, nor later, than this, in days.
const SHORTEST_OUT: f64 = 30.0 / 86_400.0;
const LONGEST_OUT: f64 = 30.0;
/// What a robots.txt says holds for a day.
pub const ROBOTS_HOLD: Span = Span(1.0);

/// Says what to ask for now, and when to wake.
#[derive(Debug)]
pub struct Agenda {
    scheduler: Scheduler,
    gate: Gate,
    /// Nothing, where the scheduler keeps the budget by itself: a plan that is carried
    /// out at its own times.
    pace: Option<Pace>,
    settings: Settings,
    scope: Scope,
    first_pass: FirstPass,
    retries: Retries,
    listings: Listings,
    /// Elements that someone asked for, with their outermost groups.
    asked: VecDeque<(ElementId, Option<GroupId>)>,
    searches: BTreeMap<SearchId, Asked>,
    /// Elements that are being polled.
    under_way: Vec<ElementId>,
    /// Pages of answers to queries that are asked for.
    n_pages: usize,
    /// Numbers of elements are below this.
    n_known: u32,
    /// Choices made, of which some are kept for retries.
    n_choices: u32,
    /// Whether a first poll that counts is next.
    is_turn_of_new: bool,
    /// Whether search sources are next, where worth is not what polls are chosen by.
    is_turn_of_searches: bool,
    is_stopping: bool,
}

/// What an agenda keeps to besides the budget.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The share of polls that count which are drawn at random, to measure freshness.
    pub audit: f64,
    /// Whether first polls of new elements count.
    pub first_pass: FirstPolls,
    /// The hours in which first polls that do not count may be made; others keep to the
    /// window of the pace.
    pub window: Option<Window>,
}

impl Default for Settings {
    /// No audits, and first polls that do not count, at any hour.
    fn default() -> Self {
        Self {
            audit: 0.0,
            first_pass: FirstPolls::Free,
            window: None,
        }
    }
}

/// Whether first polls of new elements count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstPolls {
    /// They are limited by politeness alone.
    Free,
    /// They are polls like any other.
    Counted,
}

/// What is to be asked for at all.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Scope {
    /// Whatever the policy says, for good.
    #[default]
    Everything,
    /// What is new, or was due by then.
    DueBy(Time),
    /// What someone asked for.
    Asked,
}

/// Something to ask for now. Its turn has been taken, and the budget spent.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Request {
    /// Poll this element.
    Poll(Poll),
    /// Poll the next new element of this outermost group. The driver knows which that is,
    /// and says so by [`Agenda::set_under_way`].
    New {
        /// The group.
        group: Option<GroupId>,
        /// Whether it counts towards the budget.
        is_counted: bool,
    },
    /// Ask a search source for rows. The driver says whether that
    /// [leaves](rows::SearchSource::left).
    Search(SearchPoll),
    /// Whoever waits with this ticket goes on.
    Go(Ticket),
    /// Whoever waits with this ticket would wait too long, and gives up.
    GiveUp(Ticket),
}

/// A poll of an element.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Poll {
    /// Which element.
    pub id: ElementId,
    /// Its outermost group, which it is asked of.
    pub group: Option<GroupId>,
    /// Why.
    pub purpose: Purpose,
    /// Whether it counts towards the budget, and what it costs.
    pub is_counted: bool,
    /// What it costs.
    pub cost: f64,
}

/// What a driver knows a waiting request by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

impl Agenda {
    /// An agenda for a scheduler's elements; those that are new are
    /// [added](Self::add_new) afterwards.
    pub fn new(scheduler: Scheduler, pace: Option<Pace>, settings: Settings) -> Self {
        Self {
            scheduler,
            gate: Gate::default(),
            pace,
            settings,
            scope: Scope::Everything,
            first_pass: FirstPass::default(),
            retries: Retries::default(),
            listings: Listings::default(),
            asked: VecDeque::new(),
            searches: BTreeMap::new(),
            under_way: Vec::new(),
            n_pages: 0,
            n_known: 0,
            n_choices: 0,
            is_turn_of_new: false,
            is_turn_of_searches: false,
            is_stopping: false,
        }
    }

    /// An agenda on a clock that is never late, for elements that are there at the start
    /// with copies in sync: policies that have a poll whenever they are asked are paced
    /// evenly, and held to the caps of the budget.
    pub fn exact(
        choice: schedule::Choice,
        terms: Terms,
        groups: Groups,
        present: Present<'_>,
        now: Time,
        rng: &mut dyn Rng,
    ) -> Self {
        let (budget, window) = (terms.budget.clone(), terms.window);
        let scheduler = Scheduler::new(choice, terms, groups, present, now, rng);
        if scheduler.keeps_budget() {
            return Self::new(scheduler, None, Settings::default());
        }
        let per_day = budget.as_per_day();
        let pace = Pace::even(per_day, window, now);
        let mut agenda = Self::new(scheduler, Some(pace), Settings::default());
        for (group, cap) in budget.caps().iter() {
            agenda.gate.set_cap(group, cap, Span(1.0 / per_day));
        }
        agenda
    }

    /// From now on the budget is another, caps included; nothing at all is a pause.
    pub fn set_budget(&mut self, budget: &Budget, now: Time) {
        let per_day = budget.as_per_day();
        if let Some(pace) = &mut self.pace {
            pace.set_per_day(per_day, now);
        }
        if !self.scheduler.keeps_budget() {
            for (group, cap) in budget.caps().iter() {
                self.gate.set_cap(group, cap, Span(1.0 / per_day));
            }
        }
        self.scheduler.set_budget(budget, now);
    }

    /// What is asked for from now on.
    pub fn set_scope(&mut self, scope: Scope) {
        self.scope = scope;
    }

    /// Whether nothing more is begun, and only those under way go on.
    pub fn set_stopping(&mut self, is_stopping: bool) {
        self.is_stopping = is_stopping;
    }

    /// Who says which element is due.
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// The same, to tell it what nobody else has to know.
    pub fn scheduler_mut(&mut self) -> &mut Scheduler {
        &mut self.scheduler
    }

    /// Who knows which group may be asked.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// The same, to set limits and to tell how requests went.
    pub fn gate_mut(&mut self) -> &mut Gate {
        &mut self.gate
    }

    /// Who keeps the budget, if the scheduler does not.
    pub fn pace(&self) -> Option<&Pace> {
        self.pace.as_ref()
    }

    /// The same, to take in what was remembered, or another budget.
    pub fn pace_mut(&mut self) -> Option<&mut Pace> {
        self.pace.as_mut()
    }
}

/// What is told of elements.
impl Agenda {
    /// So many elements are known: their numbers are below this.
    pub fn set_n_known(&mut self, n_known: u32) {
        self.n_known = n_known;
    }

    /// So many more elements of an outermost group have never been polled.
    pub fn add_new(&mut self, group: Option<GroupId>, n: u64, now: Time) {
        // The first pass must hear of the group's next change, so it has to know all
        // changes before.
        self.tell_bidders(now);
        let is_open = group.is_none_or(|group| self.gate.free_at(group) <= now);
        self.first_pass.add(group, n, is_open);
    }

    /// How many have never been polled.
    pub fn n_new(&self) -> u64 {
        self.first_pass.n_left()
    }

    /// A group whose new element was to be polled has none after all.
    pub fn no_more_new(&mut self, group: Option<GroupId>, is_counted: bool, now: Time) {
        self.first_pass.clear(group);
        if let Some(group) = group {
            self.gate.give_back(group, now);
        }
        if let Some(pace) = self.pace.as_mut().filter(|_| is_counted) {
            pace.refund(1.0);
        }
    }

    /// A listing waits no longer than this after a poll, of which the last was then.
    pub fn set_listing(&mut self, id: ElementId, polled_at: Option<Time>, longest: Span) {
        self.listings.set(id, polled_at, longest);
    }

    /// A listing that was polled asks not to be polled again before this. Whoever asks
    /// for it still gets it.
    pub fn hold_listing(&mut self, id: ElementId, until: Time) {
        self.listings.hold(id, until);
    }

    /// How many listings there are.
    pub fn n_listings(&self) -> usize {
        self.listings.len()
    }

    /// An element that is not in is looked at then.
    pub fn look_at(&mut self, id: ElementId, group: Option<GroupId>, due: Time) {
        self.retries.set(id, group, due);
    }

    /// Someone asks for an element to be polled next.
    pub fn ask_for(&mut self, id: ElementId, group: Option<GroupId>) {
        self.asked.push_back((id, group));
    }

    /// Elements that were asked for and have not begun.
    pub fn asked(&self) -> impl Iterator<Item = ElementId> + '_ {
        self.asked.iter().map(|&(id, _)| id)
    }

    /// An element that was asked for need not be polled for it any more.
    pub fn forget_asked(&mut self, which: impl Fn(ElementId) -> bool) {
        self.asked.retain(|&(id, _)| !which(id));
    }

    /// An element has a copy from now on, and is kept fresh.
    pub fn join(&mut self, id: ElementId, element: Element, now: Time, rng: &mut dyn Rng) {
        self.over(id);
        if self.scheduler.contains(id) {
            self.scheduler.remove(id, now);
        }
        self.retries.remove(id);
        self.scheduler.add(id, element, now, rng);
        self.listings.polled(id, now);
    }

    /// An element has a copy from now on that polls of others keep fresh: a row of a search
    /// source, or an entry of a feed. It is never due by itself.
    pub fn watch(&mut self, id: ElementId, element: Element, now: Time) {
        self.over(id);
        if self.scheduler.contains(id) {
            self.scheduler.remove(id, now);
        }
        self.retries.remove(id);
        self.scheduler.watch(id, element, now);
    }

    /// What a poll showed.
    pub fn observe(&mut self, id: ElementId, outcome: Outcome, now: Time) {
        self.over(id);
        self.scheduler.observe(id, outcome, now);
        if self.listings.contains(id) {
            self.listings.polled(id, now);
        }
    }

    /// A poll came to nothing, as so many in a row have now: the element is tried again,
    /// later each time, and not before its group may be asked. Says when.
    pub fn retry(
        &mut self,
        id: ElementId,
        group: Option<GroupId>,
        n_failures: u32,
        now: Time,
        rng: &mut dyn Rng,
    ) -> Time {
        let due = self.retry_at(group, n_failures, now, rng);
        self.put_back(id, group, due, now);
        due
    }

    /// When something that has failed so many times in a row is tried again: later each
    /// time, and not before its group may be asked.
    pub fn retry_at(
        &self,
        group: Option<GroupId>,
        n_failures: u32,
        now: Time,
        rng: &mut dyn Rng,
    ) -> Time {
        let due = now + retry_in(n_failures.max(1), rng);
        group.map_or(due, |group| later(due, self.gate.paused_until(group)))
    }

    /// An element could not be polled, and is due again then.
    pub fn put_back(&mut self, id: ElementId, group: Option<GroupId>, due: Time, now: Time) {
        self.over(id);
        if self.scheduler.contains(id) {
            self.scheduler.put_back(id, due, now);
        } else {
            self.retries.set(id, group, due);
        }
    }

    /// An element is out: it is not kept fresh, but looked at again after a while.
    pub fn leave(&mut self, id: ElementId, group: Option<GroupId>, wait: Span, now: Time) {
        self.over(id);
        if self.scheduler.contains(id) {
            self.scheduler.remove(id, now);
        }
        self.retries.set(id, group, now + wait);
    }

    /// An element is no more.
    pub fn remove(&mut self, id: ElementId, now: Time) {
        self.over(id);
        if self.scheduler.contains(id) {
            self.scheduler.remove(id, now);
        }
        self.retries.remove(id);
        self.listings.remove(id);
    }

    /// How long an element is out before it is looked at again, where there are so many
    /// elements: some rounds of them all.
    pub fn time_out(&self, n_elements: u64) -> Span {
        let per_day = self.pace.as_ref().map_or(1.0, Pace::per_day).max(1e-9);
        let round = n_elements.max(1) as f64 / per_day;
        Span((ROUNDS_OUT * round).clamp(SHORTEST_OUT, LONGEST_OUT))
    }

    /// A request to a group has ended.
    pub fn ended(&mut self, group: GroupId, verdict: Verdict, now: Time, rng: &mut dyn Rng) {
        self.gate.end(group, verdict, now, rng);
    }

    /// An element is being polled, or what it says is being taken in: the one that a
    /// [`Request::New`] was for, say. It is not polled before that is
    /// [finished](Self::finish).
    pub fn set_under_way(&mut self, id: ElementId) {
        self.under_way.push(id);
    }

    /// An element is no longer being polled. Whoever says what came of it need not say
    /// this.
    pub fn finish(&mut self, id: ElementId) {
        self.over(id);
    }

    /// A poll whose turn was taken is not made after all, or not in that turn: nothing is
    /// spent. Its element is to be put back, or to wait again.
    pub fn give_back(&mut self, poll: &Poll, now: Time) {
        if let Some(group) = poll.group {
            self.gate.give_back(group, now);
        }
        self.refund(poll);
    }

    /// A poll waits for a turn at its group, which may be another than it was chosen in.
    pub fn wait(&mut self, poll: Poll, now: Time) {
        match poll.group {
            Some(group) => self.gate.wait(group, Waiting::Poll(poll), now),
            None => self.put_back(poll.id, None, now, now),
        }
    }

    /// The turn of a poll goes to another request of its group, which has to come first;
    /// the poll has spent nothing so far.
    pub fn refund(&mut self, poll: &Poll) {
        self.over(poll.id);
        if let Some(pace) = self.pace.as_mut().filter(|_| poll.is_counted) {
            pace.refund(poll.cost);
        }
    }

    /// Whether an element is being polled.
    pub fn is_under_way(&self, id: ElementId) -> bool {
        self.under_way.contains(&id)
    }

    /// How many requests for elements and pages are under way.
    pub fn n_under_way(&self) -> usize {
        self.under_way.len() + self.n_pages
    }

    fn over(&mut self, id: ElementId) {
        if let Some(place) = self.under_way.iter().position(|&other| other == id) {
            self.under_way.swap_remove(place);
        }
    }
}

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
                    true => self.choose_asked(now, rng).unwrap_or(Choice::None),
                    false => self.choose(now, rng),
                };
                match choice {
                    Choice::Go(request) => return Some(request),
                    Choice::PassedOver => {}
                    Choice::None => break,
                }
            }
        }
        if !is_free {
            return None;
        }
        match self.first_pass.next() {
            Some(group) => Some(self.new_of(group, false, now)),
            None => self.next_new_rows(false, now),
        }
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
                false => self.gate.reopens_at(),
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
    fn tell_bidders(&mut self, now: Time) {
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

    fn has_free_first_polls(&self) -> bool {
        self.settings.first_pass == FirstPolls::Free && self.scope != Scope::Asked
    }

    fn has_free_pass(&self, now: Time) -> bool {
        let window = self.settings.window;
        self.has_free_first_polls() && window.is_none_or(|window| window.contains(now))
    }

    /// The next poll that counts.
    fn choose(&mut self, now: Time, rng: &mut dyn Rng) -> Choice {
        while let Some(id) = self.listings.next_back(now) {
            self.scheduler.put_back(id, now, now);
        }
        if let Some(choice) = self.choose_asked(now, rng) {
            return choice;
        }
        if self.scope == Scope::Asked {
            return Choice::None;
        }
        self.n_choices = self.n_choices.wrapping_add(1);
        if self.n_choices.is_multiple_of(RETRY_TURN)
            && let Some((id, group)) = self.retries.pop(now)
        {
            return self.look_again(id, group, now, rng);
        }
        if let Some(id) = self.listings.pop(now) {
            if !self.scheduler.contains(id) {
                return Choice::PassedOver;
            }
            let group = self.scheduler.outermost(id);
            return self.out_of_turn(id, group, Purpose::Due, now, rng);
        }
        // New ones that count and old ones take turns, as long as old ones are worth it;
        // a turn that cannot be taken now is kept.
        let counts_new = self.settings.first_pass == FirstPolls::Counted;
        if counts_new
            && (self.is_turn_of_new || !self.is_old_one_worth_it(now))
            && let Some(group) = self.first_pass.next()
        {
            return Choice::Go(self.new_of(group, true, now));
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
            self.is_turn_of_new = purpose != Purpose::First;
            return Choice::Go(self.begin_search(id, bid.request, (purpose, None), true, now));
        }
        let is_due = match self.scope {
            Scope::DueBy(by) => self.scheduler.is_ready(by),
            _ => true,
        };
        if is_due && let Some(id) = self.scheduler.next_poll(now, rng) {
            self.is_turn_of_new = true;
            if self.is_under_way(id) {
                self.scheduler.put_back(id, now + retry_in(1, rng), now);
                return Choice::PassedOver;
            }
            if self.listings.set_aside(id, now) {
                return Choice::PassedOver;
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
            return Choice::Go(self.begin(poll, now));
        }
        if counts_new && let Some(group) = self.first_pass.next() {
            return Choice::Go(self.new_of(group, true, now));
        }
        match self.retries.pop(now) {
            Some((id, group)) => self.look_again(id, group, now, rng),
            None => Choice::None,
        }
    }

    /// Something that someone asked for, if it can be had now or is about to be.
    fn choose_asked(&mut self, now: Time, rng: &mut dyn Rng) -> Option<Choice> {
        for _ in 0..self.asked.len() {
            let (id, group) = self.asked.pop_front()?;
            let Some(search) = self.search_of(id) else {
                return Some(self.out_of_turn(id, group, Purpose::Asked, now, rng));
            };
            self.asked.push_back((id, group));
            if let choice @ Choice::Go(_) = self.ask_for_rows(search, now) {
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
    ) -> Choice {
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
    ) -> Choice {
        if self.is_under_way(id) {
            // What is found of it is news enough; one without a copy is looked at again.
            if !self.scheduler.contains(id) && purpose == Purpose::Due {
                self.retries.set(id, group, now + retry_in(1, rng));
            }
            return Choice::PassedOver;
        }
        if self.listings.take_back(id) {
            self.scheduler.put_back(id, now, now);
        }
        let is_in = self.scheduler.contains(id);
        if is_in && !self.scheduler.take(id, now) {
            // It waits for its group already.
            return Choice::PassedOver;
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
            return Choice::Go(self.begin(poll, now));
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
        Choice::PassedOver
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
        self.is_turn_of_new = false;
        Request::New { group, is_counted }
    }

    fn spend(&mut self, is_counted: bool, cost: f64, now: Time) {
        if let Some(pace) = self.pace.as_mut().filter(|_| is_counted) {
            pace.spend(cost, now);
        }
    }
}

/// What came of choosing.
enum Choice {
    /// This is asked for.
    Go(Request),
    /// Someone was chosen who cannot go now.
    PassedOver,
    /// There is nobody.
    None,
}

fn earlier(one: Time, other: Time) -> Time {
    if one < other { one } else { other }
}

fn later(one: Time, other: Time) -> Time {
    if one > other { one } else { other }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_use::InUse;
    use crate::plan::Rule;
    use crate::sample::{self, Sampling};
    use crate::{Budget, Elements, Order, Rate};
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
}
