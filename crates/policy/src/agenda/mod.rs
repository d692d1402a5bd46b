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

mod arbiter;
mod digests;
mod first_pass;
mod gate;
mod limit;
mod listings;
mod pace;
mod retries;
pub mod rows;
mod search;

use std::collections::{BTreeMap, VecDeque};

use rand::Rng;

use crate::schedule::{self, Scheduler, Terms};
use crate::{
    Budget, Element, ElementId, GroupId, Groups, Outcome, Present, Purpose, Span, Time, Window,
};
pub use digests::{LIKELY, Together};
use first_pass::FirstPass;
pub use gate::{Gate, Waiting};
pub use limit::{Limit, LimitMemory, Pause, Verdict, retry_in};
use listings::Listings;
pub use listings::{cursor_element, listing_weight};
pub use pace::{Burst, Pace};
use retries::Retries;
use search::SearchEntry;
pub use search::{SearchId, SearchPoll};

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
    searches: BTreeMap<SearchId, SearchEntry>,
    /// Elements that are being polled.
    under_way: Vec<ElementId>,
    /// Pages of answers to queries that are asked for.
    n_pages: usize,
    /// Numbers of elements are below this.
    n_known: u32,
    /// Choices made, of which some are kept for retries.
    n_choices: u32,
    /// Whether a first poll that counts is next.
    next_is_first_poll: bool,
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
            next_is_first_poll: false,
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

    /// What a listing lists is known to have changed: it is polled next, or as soon as it
    /// asked to be.
    pub fn listing_changed(&mut self, id: ElementId, now: Time) {
        self.listings.changed(id, now);
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

    /// An element that was part of another [joins](Self::join): it is taken to change as
    /// often as the whole did, until it shows that it does not.
    pub fn join_from(
        &mut self,
        whole: ElementId,
        id: ElementId,
        element: Element,
        now: Time,
        rng: &mut dyn Rng,
    ) {
        self.join(id, element, now, rng);
        self.scheduler.inherit(whole, id, now);
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
    pub fn recheck_interval(&self, n_elements: u64) -> Span {
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

fn earlier(one: Time, other: Time) -> Time {
    if one < other { one } else { other }
}

fn later(one: Time, other: Time) -> Time {
    if one > other { one } else { other }
}
