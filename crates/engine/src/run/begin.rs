//! Which polls begin: what was asked for, what is due, drawn, new, or to be looked at
//! again.

use std::sync::Arc;

use rand::RngExt;
use springtide_policy::agenda::retry_in;
use springtide_policy::{GroupId, Span, Time};
use springtide_store::{
    ElementId, Fact, FailureKind, Kept, Moment, Purpose, SourceKind, State, Store,
};
use url::Url;

use super::search::Next;
use super::{Engine, What};
use crate::fetch::{self, GroupPath, group_of};
use crate::poll::{Done, Job};
use crate::register::Places;
use crate::{Error, clock, settings};

/// Polls at a time, over all hosts.
const MOST_AT_ONCE: usize = 256;
/// A listing waits no longer than this, whatever is learned of it.
const LONGEST_LISTING_WAIT: f64 = 1.0;
/// Polls that count and wait for their hosts: no more are chosen while so many do.
const MOST_COUNTED_WAITING: usize = 64;
/// Elements whose hosts are to be left alone that are passed over at a time.
const MOST_REFUSED: usize = 64;
/// Draws of an element at random before it is left.
const MOST_DRAWS: usize = 64;
/// The most entries of one listing that are read.
const MOST_ENTRIES: usize = 200_000;

impl Engine {
    /// Begins polls, as far as pace and hosts allow: what was asked for, what is to be
    /// looked at again, what is due, and what is new.
    pub(super) fn begin_polls(&mut self, now: Moment) -> Result<(), Error> {
        let at = clock::time(now);
        self.open_hosts(at);
        // Those who wait already go first.
        self.give_turns(now)?;
        let window = self.settings.budget.window;
        let is_open = window.is_none_or(|window| window.contains(at));
        let has_free_pass =
            self.is_first_pass_free() && is_open && !matches!(self.until.what, What::These(_));
        if has_free_pass {
            // Where others had the last turn.
            self.begin_new(true, now)?;
        }
        let mut n_refused = 0;
        while self.has_room()
            && self.pace.next_at(at) <= at
            && self.hosts.n_counted_waiting() < MOST_COUNTED_WAITING
            && n_refused < MOST_REFUSED
        {
            match self.next_counted(now)? {
                Some(next) => {
                    let has_begun = match next {
                        Next::Element(id, purpose) => {
                            self.takes_new_turn = purpose != Purpose::First;
                            self.begin(id, purpose, true, now)?
                        }
                        Next::Page(source, ask) => self.ask(source, ask, None, true, now)?,
                    };
                    if has_begun {
                        self.n_begun += 1;
                        self.give_turns(now)?;
                    } else {
                        n_refused += 1;
                    }
                }
                None => break,
            }
        }
        if has_free_pass {
            self.begin_new(false, now)?;
        }
        Ok(())
    }

    /// Begins first polls that do not count, at all hosts that may be asked or only where
    /// it is their turn: where hosts allow no more than the budget does, new ones and old
    /// ones take turns.
    fn begin_new(&mut self, in_turn: bool, now: Moment) -> Result<(), Error> {
        let at = clock::time(now);
        while self.has_room() {
            let new = match in_turn {
                true => self.next_in_turn(at)?,
                false => self.first_pass.next(&self.store, &self.hosts, at)?,
            };
            let Some((host, id)) = new else {
                break;
            };
            if self.begin(id, Purpose::First, false, now)? {
                self.n_begun += 1;
            } else {
                self.reopen(host);
            }
        }
        self.ask_for_new_rows(in_turn, now)
    }

    /// The next new element of a host where it is the turn of new ones.
    fn next_in_turn(&mut self, at: Time) -> Result<Option<(GroupId, ElementId)>, Error> {
        let hosts: Vec<GroupId> = self.is_turn_of_new.iter().copied().collect();
        for host in hosts {
            if !self.first_pass.is_left_at(host) {
                // Unless rows of search sources wait for it, nobody does.
                if !self.search_hosts.values().any(|other| *other == host) {
                    self.is_turn_of_new.remove(&host);
                }
                continue;
            }
            if self.hosts.is_idle(host) && self.hosts.free_at(host) <= at {
                self.is_turn_of_new.remove(&host);
                if let Some(id) = self.first_pass.take(host, &self.store)? {
                    return Ok(Some((host, id)));
                }
            }
        }
        Ok(None)
    }

    pub(super) fn is_first_pass_free(&self) -> bool {
        self.settings.budget.first_pass == settings::FirstPass::Free
    }

    pub(super) fn has_room(&self) -> bool {
        self.under_way.len() + self.n_questions < MOST_AT_ONCE
            && self.until.max_polls.is_none_or(|most| self.n_begun < most)
    }

    /// The next poll that counts.
    pub(super) fn next_counted(&mut self, now: Moment) -> Result<Option<Next>, Error> {
        let at = clock::time(now);
        if let Some(id) = self.asked.pop_front() {
            return Ok(Some(Next::Element(id, Purpose::Asked)));
        }
        if let What::These(_) = self.until.what {
            return Ok(None);
        }
        // Those who are out, or were never had, are many where much is wrong: they get
        // every fourth turn, and leave the others to those who are in.
        self.n_turns = self.n_turns.wrapping_add(1);
        if self.n_turns.is_multiple_of(4)
            && let Some(id) = self.due_timer(now)
        {
            return Ok(Some(Next::Element(id, Purpose::Due)));
        }
        if let Some(id) = self.overdue_listing(now) {
            return Ok(Some(Next::Element(id, Purpose::Due)));
        }
        // New ones that count and old ones take turns; a turn that cannot be taken now is
        // kept.
        let is_turn_of_new = self.takes_new_turn && !self.is_first_pass_free();
        if is_turn_of_new
            && let Some((_, id)) = self.first_pass.next(&self.store, &self.hosts, at)?
        {
            return Ok(Some(Next::Element(id, Purpose::First)));
        }
        if matches!(self.until.what, What::Everything)
            && self.rng.random::<f64>() < self.settings.budget.audit
            && let Some(id) = self.draw(at)
        {
            return Ok(Some(Next::Element(id, Purpose::Audit)));
        }
        if let Some((request, worth)) = self.best_request(is_turn_of_new, now)? {
            // Where worth is not what polls are chosen by, they take turns.
            self.is_turn_of_searches = !self.is_turn_of_searches;
            let others = match self.scheduler.next_worth(at) {
                Some(others) => others,
                None if self.is_turn_of_searches || self.scheduler.wake_at() > at => 0.0,
                None => f64::INFINITY,
            };
            if worth > others || worth == f64::INFINITY {
                return Ok(Some(request));
            }
        }
        if matches!(self.until.what, What::DueNow)
            && !self.scheduler.is_ready(clock::time(self.started_at))
        {
            let timer = self.due_timer(now);
            return Ok(timer.map(|id| Next::Element(id, Purpose::Due)));
        }
        let due = self.scheduler.next_poll(at, &mut self.rng);
        if due.is_none() && self.settings.budget.first_pass == settings::FirstPass::Counted {
            let new = self.first_pass.next(&self.store, &self.hosts, at)?;
            return Ok(new.map(|(_, id)| Next::Element(id, Purpose::First)));
        }
        let due = match due {
            Some(id) => Some(id),
            None => self.due_timer(now),
        };
        Ok(due.map(|id| Next::Element(id, Purpose::Due)))
    }

    /// Someone whose timer has run out.
    pub(super) fn due_timer(&mut self, now: Moment) -> Option<ElementId> {
        let id = self.timers.pop(now)?;
        if self.under_way.contains(&id) {
            self.timers.set(id, Moment(now.0 + 60_000));
            return None;
        }
        Some(id)
    }

    /// A listing that has waited as long as it may; whatever comes of that, it then
    /// waits again.
    pub(super) fn overdue_listing(&mut self, now: Moment) -> Option<ElementId> {
        for state in self.sources.values_mut() {
            let longest = state
                .settings
                .list_every
                .map_or(LONGEST_LISTING_WAIT, Span::as_days);
            let longest = (longest * 86_400_000.0) as i64;
            for (&id, polled_at) in &mut state.listings {
                let is_overdue = clock::millis_between(*polled_at, now) >= longest;
                if is_overdue
                    && polled_at.0 > 0
                    && !self.under_way.contains(&id)
                    && self.scheduler.belief(id, clock::time(now)).is_some()
                {
                    *polled_at = now;
                    return Some(id);
                }
            }
        }
        None
    }

    /// An element drawn at random from those that we have a copy of.
    pub(super) fn draw(&mut self, at: Time) -> Option<ElementId> {
        for _ in 0..MOST_DRAWS {
            let id = ElementId(self.rng.random_range(0..self.next_element.max(1)));
            if self.scheduler.belief(id, at).is_some() {
                let is_listing = self
                    .sources
                    .values()
                    .any(|state| state.listings.contains_key(&id));
                if !is_listing && !self.under_way.contains(&id) {
                    return Some(id);
                }
            }
        }
        None
    }

    /// Sends a poll to wait for its host. Says whether there was anything to poll.
    pub(super) fn begin(
        &mut self,
        id: ElementId,
        purpose: Purpose,
        is_counted: bool,
        now: Moment,
    ) -> Result<bool, Error> {
        if self.under_way.contains(&id) {
            return Ok(false);
        }
        let at = clock::time(now);
        let kept = self.kept(id)?;
        let Some(kept) = kept.filter(|kept| self.sources.contains_key(&kept.element.source)) else {
            self.scheduler.remove(id, at);
            return Ok(false);
        };
        if self.searches.contains_key(&kept.element.source) {
            return self.begin_row(kept, purpose, is_counted, now);
        }
        let has_moved = kept
            .failure
            .as_ref()
            .is_some_and(|why| why.kind == FailureKind::Moved);
        let is_of_list = self.sources[&kept.element.source].settings.kind == SourceKind::List;
        let is_unwanted =
            kept.state == State::Gone && (has_moved || kept.is_unlisted && is_of_list);
        if is_unwanted && purpose != Purpose::Asked {
            // It is elsewhere, or its list does not name it any more: nobody wants to
            // know.
            return Ok(false);
        }
        let is_free_to_wait = match purpose {
            Purpose::Asked | Purpose::First => true,
            _ => self.hosts.is_reachable(kept.element.host, at),
        };
        if !is_free_to_wait {
            // A host that is to be left alone holds up nobody else.
            if purpose == Purpose::Due {
                let until = self.hosts.paused_until(kept.element.host, at);
                let due = until + retry_in(1, &mut self.rng);
                self.try_again(id, due, now);
            }
            return Ok(false);
        }
        // Whoever is polled out of turn does not get its turn as well.
        self.scheduler.take(id, at);
        let purpose = purpose_of(purpose, &kept);
        let moved_to = kept.copy.as_ref().and_then(|copy| copy.location.clone());
        let address = moved_to.as_deref().unwrap_or(&kept.element.locator);
        match fetch::locator(address) {
            Ok(url) => {
                let job = self.job(kept, url, purpose, is_counted, now);
                self.wait_for_host(job, now)
            }
            Err(failure) => {
                let done = Done {
                    at: now,
                    status: None,
                    found: Err(failure),
                    job: self.job(kept, robots_free(), purpose, is_counted, now),
                };
                self.conclude(done, now)?;
                Ok(true)
            }
        }
    }

    /// A poll of an element, of whose source nothing else is asked.
    pub(super) fn job(
        &self,
        kept: Kept,
        url: Url,
        purpose: Purpose,
        is_counted: bool,
        now: Moment,
    ) -> Job {
        let state = &self.sources[&kept.element.source];
        let max_entries = usize::try_from(state.settings.max_elements).unwrap_or(usize::MAX);
        Job {
            host: kept.element.host,
            kept,
            url,
            purpose,
            is_counted,
            begun_at: now,
            lens: Arc::clone(&state.lens),
            kind: state.settings.kind,
            max_entries: max_entries.min(MOST_ENTRIES),
            wants_links: state.settings.kind == SourceKind::Site && !state.has_sitemaps,
            question: None,
        }
    }

    /// What is known of an element.
    pub(super) fn kept(&self, id: ElementId) -> Result<Option<Kept>, Error> {
        match self.pending(id) {
            Some(kept) => Ok(Some(kept)),
            None => Ok(self.store.element(id)?),
        }
    }

    /// What is known of an element, if that is not kept yet.
    pub(super) fn pending(&self, id: ElementId) -> Option<Kept> {
        self.facts.iter().rev().find_map(|fact| match fact {
            Fact::Kept(kept) if kept.element.id == id => Some((**kept).clone()),
            Fact::Element(element) if element.id == id => Some(Kept::new(element.clone())),
            _ => None,
        })
    }

    /// The outermost group of an address, with its limits.
    pub(super) fn host_of(&mut self, url: &Url) -> Result<GroupId, Error> {
        let GroupPath {
            key,
            mut gap,
            mut concurrency,
            has_rule,
            ..
        } = group_of(url, &self.settings.groups);
        let (host, _) = self.place_named(&key, &[])?;
        if !has_rule {
            (gap, concurrency) = self.quota_limits(host, url).unwrap_or((gap, concurrency));
        }
        self.hosts.meet(host, gap, concurrency);
        Ok(host)
    }

    /// The outermost and the innermost group of an address.
    pub(super) fn place(&mut self, url: &Url) -> Result<(GroupId, GroupId), Error> {
        let GroupPath {
            key, directories, ..
        } = group_of(url, &self.settings.groups);
        let place = self.place_named(&key, &directories)?;
        self.shared_hosts.insert(place.0);
        Ok(place)
    }

    pub(super) fn place_named(
        &mut self,
        key: &str,
        directories: &[String],
    ) -> Result<(GroupId, GroupId), Error> {
        let places = match &mut self.places {
            Some(places) => places,
            none => none.insert(Places::read(&self.store)?),
        };
        let before = self.facts.len();
        let inner = directories.iter().map(String::as_str);
        let found = places.find(key, inner, &mut self.facts);
        for fact in &self.facts[before..] {
            if let Fact::Group(group) = fact
                && self.scheduler.add_group(group.parent) != group.id
            {
                return Err(Error::Numbering);
            }
        }
        found.ok_or(Error::Numbering)
    }
}

/// Why an element is polled: the first time, whatever else is a reason.
pub(super) fn purpose_of(purpose: Purpose, kept: &Kept) -> Purpose {
    match (purpose, kept.copy.is_some()) {
        (Purpose::Due | Purpose::Audit, false) => Purpose::First,
        (purpose, _) => purpose,
    }
}

/// An address that is none, for a poll that comes to nothing before it begins.
pub(super) fn robots_free() -> Url {
    Url::parse("http://invalid.invalid/").expect("an address")
}
