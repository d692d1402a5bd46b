//! From what the agenda asks for to a request that may leave.

use springtide_policy::agenda::rows::host_limit;
use springtide_policy::agenda::{Poll, Request, Ticket, Waiting};
use springtide_policy::schedule::Quota;
use springtide_policy::{GroupId, Time};
use springtide_store::{FailureKind, Kept, Moment, Purpose, Robots, SourceId, SourceKind, State};
use url::Url;

use super::{Engine, Launch, SourceState, Waiter};
use crate::fetch::{self, FetchFailure, GroupPath, group_of, robots};
use crate::poll::{self, EndedPoll, PendingPoll, RedirectPath, RedirectRequest};
use crate::reach::Reach;
use crate::robots_cache::{Permission, Permit};
use crate::settings::FirstPass;
use crate::{Error, clock};

impl Engine {
    /// Asks for all that the agenda asks for now.
    pub(super) fn begin_requests(&mut self, now: Moment) -> Result<(), Error> {
        let at = clock::time(now);
        loop {
            let most = self.options.max_polls.unwrap_or(u64::MAX);
            self.agenda.set_stopping(self.progress.n_begun >= most);
            let Some(request) = self.agenda.next(at, &mut self.rng) else {
                return self.report_unreached_rows(now);
            };
            match request {
                Request::Poll(poll) => self.begin_poll(poll, now)?,
                Request::New { group, is_counted } => self.begin_new(group, is_counted, now)?,
                Request::Search(poll) => self.begin_search(poll, now)?,
                Request::Go(ticket) => self.go_on(ticket, now),
                Request::GiveUp(ticket) => self.give_up(ticket, now)?,
                _ => {}
            }
        }
    }

    pub(super) fn is_first_pass_free(&self) -> bool {
        self.settings.budget.first_pass == FirstPass::Free
    }

    /// Begins the first poll of the next new element of a host.
    fn begin_new(
        &mut self,
        group: Option<GroupId>,
        is_counted: bool,
        now: Moment,
    ) -> Result<(), Error> {
        let next = match group {
            Some(group) => self.new_elements.next(group, self.ledger.store())?,
            None => None,
        };
        let Some(id) = next else {
            self.agenda.no_more_new(group, is_counted, clock::time(now));
            return Ok(());
        };
        self.agenda.set_under_way(id);
        let poll = Poll {
            id,
            group,
            purpose: Purpose::First,
            is_counted,
            cost: 1.0,
        };
        if is_counted || self.is_free(&poll, now)? {
            self.begin_poll(poll, now)?;
        }
        Ok(())
    }

    /// Begins a poll whose host has given it a turn, unless something comes first.
    fn begin_poll(&mut self, poll: Poll, now: Moment) -> Result<(), Error> {
        let at = clock::time(now);
        let kept = self.ledger.kept(poll.id)?;
        let Some(kept) = kept.filter(|kept| self.sources.contains_key(&kept.element.source)) else {
            self.agenda.give_back(&poll, at);
            self.agenda.remove(poll.id, at);
            return Ok(());
        };
        let is_asked = poll.purpose == Purpose::Asked;
        if !is_asked && self.is_unwanted(&kept) || self.is_retired(&kept) {
            self.agenda.give_back(&poll, at);
            return Ok(());
        }
        if self.tables.contains_key(&kept.element.source) {
            return self.begin_block(poll, kept, now);
        }
        let mut address = match Address::of(&kept, now) {
            Ok(address) => address,
            Err(failure) => {
                self.agenda.give_back(&poll, at);
                let pending = self.pending_poll(kept, Address::nowhere(), &poll, now);
                return self.conclude(fail(pending, failure, now), now);
            }
        };
        let mut host = self.host_of(&address.url)?;
        let reach = self.reach_of(kept.element.source);
        if let Some(moved_to) = address.fallback.take_if(|_| {
            let word = self.robots_cache.ask(host, &address.url, reach, now);
            let is_kept_out = matches!(word, Permission::Known(permit) if permit != Permit::Go);
            is_kept_out || self.agenda.gate().pause(host, at).is_some()
        }) {
            // Checking whether its locator still redirects is not worth waiting for.
            host = self.host_of(&moved_to)?;
            address.url = moved_to;
        }
        if poll.group != Some(host) {
            // It has moved to another host, whose turns are its own.
            self.agenda.give_back(&poll, at);
            self.agenda.wait(
                Poll {
                    group: Some(host),
                    ..poll
                },
                at,
            );
            return Ok(());
        }
        match self.robots_cache.ask(host, &address.url, reach, now) {
            Permission::Known(Permit::Go) => {
                let pending = self.pending_poll(kept, address, &poll, now);
                self.begin(pending);
            }
            Permission::Known(permit) => {
                // Nothing is asked, so it costs nothing.
                self.agenda.give_back(&poll, at);
                let pending = self.pending_poll(kept, address, &poll, now);
                let robots_failure = self.robots_cache.robots_failure(pending.host, &pending.url);
                self.conclude(poll::keep_out(pending, permit, robots_failure, now), now)?;
            }
            Permission::Coming => {
                self.agenda.give_back(&poll, at);
                self.robots_cache
                    .wait(host, &address.url, Waiter::Poll(poll));
            }
            Permission::Unknown => {
                self.agenda.refund(&poll);
                self.robots_cache
                    .wait(host, &address.url, Waiter::Poll(poll));
                self.fetch_robots(host, reach, &address.url, at);
            }
        }
        Ok(())
    }

    /// Whether nobody wants to know of an element any more: it is elsewhere, or its list
    /// does not name it.
    fn is_unwanted(&self, kept: &Kept) -> bool {
        let failure = kept.failure.as_ref();
        let has_moved = failure.is_some_and(|failure| failure.kind == FailureKind::Moved);
        let kind = self.sources[&kept.element.source].settings.kind;
        let is_said = matches!(kind, SourceKind::List | SourceKind::Table);
        kept.state == State::Gone && (has_moved || kept.is_unlisted && is_said)
    }

    /// A request leaves as soon as all is kept.
    pub(super) fn begin(&mut self, poll: PendingPoll) {
        self.progress.n_begun += 1;
        self.launches.push(Launch::Poll(Box::new(poll)));
    }

    /// Fetches a robots.txt in a turn that has been taken. Nothing else of the host is
    /// asked before it is there.
    pub(super) fn fetch_robots(&mut self, host: GroupId, reach: Reach, url: &Url, at: Time) {
        let previous = self.robots_cache.begin(host, url);
        self.agenda.gate_mut().hold(host, at);
        self.progress.n_robots += 1;
        let fetch = Launch::Robots(host, reach, robots::url_of(url), previous);
        self.launches.push(fetch);
    }

    /// How far polls of a source may reach.
    pub(super) fn reach_of(&self, source: SourceId) -> Reach {
        let state = self.sources.get(&source);
        state.map_or_else(Reach::default, |state| state.reach)
    }

    /// Someone under way was sent on, and asks whether it may go there.
    pub(super) fn ask_to_go_on(
        &mut self,
        redirect: RedirectRequest,
        now: Moment,
    ) -> Result<(), Error> {
        let (url, reach) = (redirect.url.clone(), redirect.reach);
        let group = self.host_of(&url)?;
        let at = clock::time(now);
        match self.robots_cache.ask(group, &url, reach, now) {
            Permission::Known(Permit::Go) => {
                self.wait_for_turn(group, Waiter::Hop(group, redirect), at);
            }
            Permission::Known(permit) => {
                self.launches
                    .push(Launch::Grant(redirect.sender, permit, group))
            }
            Permission::Coming => {
                let waiter = Waiter::Hop(group, redirect);
                self.robots_cache.wait(group, &url, waiter);
            }
            Permission::Unknown => {
                let waiter = Waiter::Hop(group, redirect);
                self.robots_cache.wait(group, &url, waiter);
                self.robots_cache.begin(group, &url);
                self.agenda.gate_mut().hold(group, at);
                self.progress.n_robots += 1;
                self.wait_for_turn(group, Waiter::Robots(group, reach, url), at);
            }
        }
        Ok(())
    }

    /// A robots.txt was not asked for, since who wanted to may not reach so far.
    pub(super) fn on_robots_refused(
        &mut self,
        group: GroupId,
        url: &Url,
        reach: Reach,
        now: Moment,
    ) -> Result<(), Error> {
        let at = clock::time(now);
        self.progress.n_robots = self.progress.n_robots.saturating_sub(1);
        let waiting = self.robots_cache.refuse(group, url, reach, now);
        self.agenda.gate_mut().release(group, at);
        for waiter in waiting {
            match waiter {
                Waiter::Poll(poll) => self.agenda.wait(poll, at),
                Waiter::Hop(_, redirect) => self.ask_to_go_on(redirect, now)?,
                Waiter::Robots(..) | Waiter::Search(_) => {}
            }
        }
        Ok(())
    }

    /// What came of asking for a robots.txt.
    pub(super) fn on_robots(
        &mut self,
        group: GroupId,
        url: &Url,
        (robots, robots_failure): (Robots, Option<FetchFailure>),
        now: Moment,
    ) -> Result<(), Error> {
        let at = clock::time(now);
        self.progress.n_robots = self.progress.n_robots.saturating_sub(1);
        self.robots_cache
            .set_robots_failure(group, url, robots_failure);
        let waiting = self.robots_cache.set(group, robots, now);
        let crawl_delay = self.robots_cache.crawl_delay(group);
        let gate = self.agenda.gate_mut();
        gate.set_own_gap(group, crawl_delay);
        gate.release(group, at);
        self.note_sitemaps(group, url);
        for waiter in waiting {
            match waiter {
                Waiter::Poll(poll) => self.resume(group, poll, now)?,
                Waiter::Hop(group, redirect) => match self.robots_cache.known(group, &redirect.url)
                {
                    Permit::Go => self.wait_for_turn(group, Waiter::Hop(group, redirect), at),
                    permit => self
                        .launches
                        .push(Launch::Grant(redirect.sender, permit, group)),
                },
                Waiter::Robots(..) | Waiter::Search(_) => {}
            }
        }
        Ok(())
    }

    /// A poll that waited to hear what the robots.txt of its host says.
    fn resume(&mut self, host: GroupId, poll: Poll, now: Moment) -> Result<(), Error> {
        let at = clock::time(now);
        let Some(kept) = self.ledger.kept(poll.id)? else {
            return Ok(());
        };
        if let Ok(address) = Address::of(&kept, now)
            && address.fallback.is_none()
        {
            let permit = self.robots_cache.known(host, &address.url);
            if permit != Permit::Go {
                let pending = self.pending_poll(kept, address, &poll, now);
                let robots_failure = self.robots_cache.robots_failure(host, &pending.url);
                return self.conclude(poll::keep_out(pending, permit, robots_failure, now), now);
            }
        }
        self.agenda.wait(poll, at);
        Ok(())
    }

    /// Waits for a turn at a host.
    pub(super) fn wait_for_turn(&mut self, group: GroupId, waiter: Waiter, at: Time) {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.tickets.insert(ticket, waiter);
        self.agenda.gate_mut().wait(group, Waiting::Hop(ticket), at);
    }

    /// Someone who waited has a turn.
    fn go_on(&mut self, ticket: Ticket, now: Moment) {
        match self.tickets.remove(&ticket) {
            Some(Waiter::Hop(group, redirect)) => {
                let grant = Launch::Grant(redirect.sender, Permit::Go, group);
                self.launches.push(grant);
            }
            Some(Waiter::Robots(group, reach, url)) => {
                let previous = self.robots_cache.begin(group, &url);
                let fetch = Launch::Robots(group, reach, robots::url_of(&url), previous);
                self.launches.push(fetch);
            }
            Some(Waiter::Search(mut pending)) => {
                pending.begun_at = now;
                self.note_search_sent(&pending, clock::time(now));
                self.begin(*pending);
            }
            Some(Waiter::Poll(_)) | None => {}
        }
    }

    /// Someone who waited would wait too long.
    fn give_up(&mut self, ticket: Ticket, now: Moment) -> Result<(), Error> {
        let at = clock::time(now);
        match self.tickets.remove(&ticket) {
            Some(Waiter::Hop(group, redirect)) => {
                let grant = Launch::Grant(redirect.sender, Permit::Later, group);
                self.launches.push(grant);
            }
            Some(Waiter::Robots(group, _, url)) => {
                // As if it had been asked for in vain.
                let previous = self.robots_cache.begin(group, &url);
                let origin = fetch::origin(&url);
                let answer = springtide_store::RobotsAnswer::Unreachable;
                let kept = robots::keep(previous.as_ref(), &origin, answer, now);
                self.on_robots(group, &robots::url_of(&url), (kept, None), now)?;
            }
            Some(Waiter::Search(pending)) => self.postpone_search(&pending, at),
            Some(Waiter::Poll(_)) | None => {}
        }
        Ok(())
    }

    /// A poll of an element.
    pub(super) fn pending_poll(
        &self,
        kept: Kept,
        address: Address,
        poll: &Poll,
        now: Moment,
    ) -> PendingPoll {
        let state = &self.sources[&kept.element.source];
        PendingPoll {
            host: poll.group.unwrap_or(kept.element.host),
            url: address.url,
            fallback: address.fallback,
            purpose: purpose_of(poll.purpose, &kept),
            is_counted: poll.is_counted,
            begun_at: now,
            protocol: state.protocol(kept.element.role),
            search: None,
            table: None,
            kept,
        }
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
        let scheduler = self.agenda.scheduler_mut();
        let (host, _) = self.ledger.groups_of(&key, &[], scheduler)?;
        if !has_rule && !self.shared_hosts.contains(&host) {
            // A host that only search sources ask goes by what their quotas say of it.
            let asks_it = |state: &&SourceState| asks(state, url);
            let searches = self.sources.values().filter(asks_it);
            let quotas: Vec<Quota> = searches
                .filter_map(|state| state.settings.search.as_ref()?.quota)
                .map(|quota| Quota::new(quota.n_polls, quota.span))
                .collect();
            (gap, concurrency) = host_limit(&quotas).unwrap_or((gap, concurrency));
        }
        self.agenda.gate_mut().set_limit(host, gap, concurrency);
        Ok(host)
    }

    /// The outermost and the innermost group of an address.
    pub(super) fn groups_of(&mut self, url: &Url) -> Result<(GroupId, GroupId), Error> {
        let GroupPath {
            key,
            directories,
            gap,
            concurrency,
            ..
        } = group_of(url, &self.settings.groups);
        let scheduler = self.agenda.scheduler_mut();
        let groups = self.ledger.groups_of(&key, &directories, scheduler)?;
        self.shared_hosts.insert(groups.0);
        self.agenda.gate_mut().set_limit(groups.0, gap, concurrency);
        Ok(groups)
    }
}

/// Whether a search source asks the host of an address.
fn asks(state: &SourceState, url: &Url) -> bool {
    let search = state.settings.search.as_ref();
    let by_id = search.and_then(|search| search.by_id.as_ref());
    let mut addresses = std::iter::once(&state.settings.url).chain(by_id);
    search.is_some()
        && addresses.any(|address| {
            Url::parse(address).is_ok_and(|other| other.host_str() == url.host_str())
        })
}

/// Why an element is polled: the first time, whatever else is a reason.
pub(super) fn purpose_of(purpose: Purpose, kept: &Kept) -> Purpose {
    match (purpose, kept.copy.is_some()) {
        (Purpose::Due | Purpose::Audit, false) => Purpose::First,
        (purpose, _) => purpose,
    }
}

/// A poll that came to nothing before it began.
pub(super) fn fail(poll: PendingPoll, failure: FetchFailure, now: Moment) -> EndedPoll {
    EndedPoll {
        poll,
        at: now,
        status: None,
        redirects: RedirectPath::default(),
        found: Err(failure),
    }
}

/// Where an element is asked.
#[derive(Debug)]
pub(super) struct Address {
    pub(super) url: Url,
    /// Where it is asked for if the first address does not answer.
    pub(super) fallback: Option<Url>,
}

/// How often an element that has moved is asked for at its locator, in milliseconds: it may
/// no longer redirect.
const ASK_AT_LOCATOR: i64 = 86_400_000;

impl Address {
    /// Its locator; or where it has moved to, unless it is time to see whether that still
    /// holds, or it was not found there.
    fn of(kept: &Kept, now: Moment) -> Result<Self, FetchFailure> {
        let redirect = kept.copy.as_ref().and_then(|copy| copy.redirect.as_ref());
        let redirect = redirect.filter(|redirect| redirect.is_move);
        let moved_to = redirect.and_then(|redirect| fetch::locator(&redirect.to).ok());
        let is_time = redirect.is_some_and(|redirect| {
            // However the clock was set since.
            let since = now.0.saturating_sub(redirect.last_at.0);
            !(0..ASK_AT_LOCATOR).contains(&since)
        });
        Ok(match moved_to {
            Some(url) if !is_time && kept.n_failures == 0 => url.into(),
            fallback => Self {
                url: fetch::locator(&kept.element.locator)?,
                fallback,
            },
        })
    }

    /// One that stands for none, in a poll that never leaves.
    pub(super) fn nowhere() -> Self {
        let url = Url::parse("http://invalid.invalid/");
        url.expect("an address").into()
    }
}

impl From<Url> for Address {
    fn from(url: Url) -> Self {
        Self {
            url,
            fallback: None,
        }
    }
}
