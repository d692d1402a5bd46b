//! Search sources in the loop: how the requests that the agenda asks for are made.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use springtide_policy::agenda::rows::{SearchRequest, SearchSource};
use springtide_policy::agenda::{Poll, SearchId, SearchPoll};
use springtide_policy::{Span, Time};
use springtide_store::{
    BodyId, ChangeFilter, ElementId, Failure, FailureKind, Kept, MemoryOf, Moment, Purpose, Role,
    SourceId, State, Walk,
};
use url::Url;

use super::begin::{Address, fail};
use super::{Engine, SourceState, Waiter};
use crate::keep::describe;
use crate::poll::{self, Message, PendingPoll};
use crate::robots_cache::{Permission, Permit};
use crate::search::rows::FileRows;
use crate::search::{self, AskedPage, HeldRow, Preparation, Search, SearchBoxRequest, request};
use crate::settings::Difference;
use crate::source::search::{ResultPage, RowById};
use crate::{EndReason, Error, clock};

/// Rows that are read from the store at a time.
const BATCH: usize = 4096;

/// The latest versions of a source's rows that are read again after a restart.
const MOST_VERSIONS: usize = 20_000;
/// Those of one row.
const MOST_OF_A_ROW: usize = 20;

/// What the agenda knows a search source by.
pub(super) fn search_id(source: SourceId) -> SearchId {
    SearchId(source.0)
}

impl Engine {
    /// Sets search sources to work, from what was kept.
    pub(super) fn open_searches(&mut self, at: Time) -> Result<(), Error> {
        let ids: Vec<SourceId> = self.sources.keys().copied().collect();
        for id in ids {
            let state = &self.sources[&id];
            let Some(settings) = state.settings.search.clone() else {
                continue;
            };
            // What is wrong with it is known already: it was registered just now.
            let file = FileRows::read(&settings.rows).unwrap_or_default();
            let (search_box, mut known) = self.known_rows(id)?;
            let Some(search_box) = search_box else {
                continue;
            };
            let difference = settings.staleness.as_ref().map(|s| s.difference);
            if difference.is_some_and(|difference| difference != Difference::Any) {
                self.add_versions(id, &mut known)?;
            }
            let source = state.settings.clone();
            let default_objective = self.settings.policy.objective;
            let (search, mut decisions, preparation) = Search::new(
                source,
                settings,
                search_box,
                known,
                &file,
                default_objective,
            );
            if let Some(bytes) = self.ledger.store().memory(MemoryOf::Search(id))? {
                decisions.recall(&bytes, at);
            }
            let Some(url) = host_url(&self.sources[&id]) else {
                continue;
            };
            let host = self.host_of(&url)?;
            self.agenda.add_search(search_id(id), decisions, host);
            self.searches.insert(id, search);
            self.prepare(id, preparation);
        }
        Ok(())
    }

    /// The search box of a source, and its rows.
    fn known_rows(&self, source: SourceId) -> Result<(Option<ElementId>, Vec<HeldRow>), Error> {
        let added_at = self.ledger.source(source).map(|source| source.added_at);
        let (mut search_box, mut known) = (None, Vec::new());
        let mut walk = Walk::new(Some(source), BATCH);
        while let Some(page) = walk.next(self.ledger.store())? {
            for kept in page {
                if kept.element.role == Role::Listing {
                    search_box = Some(kept.element.id);
                } else if !kept.is_unlisted {
                    known.push(row_of(kept, added_at.unwrap_or_default()));
                }
            }
        }
        Ok((search_box, known))
    }

    /// Adds the latest versions of rows, from whose differences is learned how far they
    /// move.
    fn add_versions(&self, source: SourceId, known: &mut [HeldRow]) -> Result<(), Error> {
        let of_source = ChangeFilter {
            source: Some(source),
            ..ChangeFilter::default()
        };
        let mut versions: HashMap<ElementId, Vec<BodyId>> = HashMap::new();
        for change in self
            .ledger
            .store()
            .changes(&of_source, None, MOST_VERSIONS)?
        {
            let of_row = versions.entry(change.element).or_default();
            if let Some(body) = change.body.filter(|_| of_row.len() < MOST_OF_A_ROW) {
                of_row.push(body);
            }
        }
        for row in known {
            row.versions = versions.remove(&row.element).unwrap_or_default();
        }
        Ok(())
    }

    /// Makes queries away from the loop, which hears of it.
    pub(super) fn prepare(&mut self, id: SourceId, preparation: Preparation) {
        let context = self.context.clone();
        self.preparations.spawn_blocking(move || {
            let prepare = AssertUnwindSafe(|| preparation.prepare(&context.bodies));
            let prepared = match std::panic::catch_unwind(prepare) {
                Ok(prepared) => prepared.map(Box::new).map_err(|error| error.to_string()),
                Err(_) => Err("a bug in springtide".to_owned()),
            };
            context.tell(Message::Prepared(id, prepared));
        });
    }

    /// The queries of a source have been made, or could not be.
    pub(super) fn install(
        &mut self,
        id: SourceId,
        prepared: Result<Box<search::Prepared>, String>,
    ) -> Result<(), Error> {
        let prepared = match prepared {
            Ok(prepared) => *prepared,
            Err(error) => {
                let failure = Failure {
                    kind: FailureKind::Rows,
                    message: format!("no queries can be made of its rows: {error}"),
                    at: self.clock.now(),
                };
                self.set_source_error(id, Some(failure));
                return Ok(());
            }
        };
        let remembered = self.ledger.store().queries(id)?;
        if let (Some(search), Some(decisions)) = (
            self.searches.get_mut(&id),
            self.agenda.search_mut(search_id(id)),
        ) {
            let each = remembered.iter().map(|q| (q.text.as_str(), &q.memory[..]));
            search.install(decisions, prepared, each);
        }
        Ok(())
    }

    /// What is decided about a search source.
    pub(super) fn decisions(&mut self, source: SourceId) -> Option<&mut SearchSource> {
        self.agenda.search_mut(search_id(source))
    }

    /// Begins a request to a search source whose host has given it a turn, unless
    /// something comes first.
    pub(super) fn begin_search(&mut self, poll: SearchPoll, now: Moment) -> Result<(), Error> {
        let (at, source) = (clock::time(now), SourceId(poll.source.0));
        let pending = match poll.request {
            SearchRequest::Page(_) => self.page_poll(source, poll, now)?,
            SearchRequest::Row(id) => self.row_poll(source, id, poll, now)?,
        };
        let Some(mut pending) = pending else {
            self.agenda.give_back_search(&poll, at);
            return Ok(());
        };
        let host = self.host_of(&pending.url)?;
        let reach = self.reach_of(source);
        match self.robots_cache.ask(host, &pending.url, reach, now) {
            Permission::Known(Permit::Go) if host == poll.group => {
                self.note_search_sent(&pending, at);
                self.begin(pending);
            }
            Permission::Known(Permit::Go) => {
                // Rows by id are elsewhere, where turns are given too.
                pending.host = host;
                self.agenda.gate_mut().give_back(poll.group, at);
                self.wait_for_turn(host, Waiter::Search(Box::new(pending)), at);
            }
            Permission::Known(permit) => {
                self.agenda.give_back_search(&poll, at);
                let robots_failure = self.robots_cache.robots_failure(pending.host, &pending.url);
                self.conclude(poll::keep_out(pending, permit, robots_failure, now), now)?;
            }
            Permission::Coming => self.agenda.give_back_search(&poll, at),
            Permission::Unknown if host == poll.group => {
                self.agenda.refund_search(&poll);
                self.fetch_robots(host, reach, &pending.url, at);
            }
            Permission::Unknown => {
                self.agenda.give_back_search(&poll, at);
                self.robots_cache.begin(host, &pending.url);
                self.agenda.gate_mut().hold(host, at);
                self.progress.n_robots += 1;
                self.wait_for_turn(host, Waiter::Robots(host, reach, pending.url), at);
            }
        }
        Ok(())
    }

    /// A request to a search source leaves, and counts there.
    pub(super) fn note_search_sent(&mut self, poll: &PendingPoll, at: Time) {
        if let Some(decisions) = self.decisions(poll.kept.element.source) {
            decisions.left(at);
        }
    }

    /// A request for a page of the answer to a query; nothing if it cannot be made.
    fn page_poll(
        &mut self,
        source: SourceId,
        poll: SearchPoll,
        now: Moment,
    ) -> Result<Option<PendingPoll>, Error> {
        let SearchRequest::Page(request) = poll.request else {
            return Ok(None);
        };
        let decisions = self.agenda.search(poll.source);
        let (Some(search), Some(text)) = (
            self.searches.get(&source),
            decisions.and_then(|decisions| decisions.text(&request)),
        ) else {
            return Ok(None);
        };
        let (search_box, context) = (search.search_box, search.context.clone());
        let filled = request::for_query(&context.source, &context.search, &text, request.number);
        let filled = match filled {
            Ok(filled) => filled,
            Err(failure) => {
                // Nobody can be asked that.
                let at = clock::time(now);
                if let Some(decisions) = self.decisions(source) {
                    decisions.page_failed(&request);
                    decisions.refused(at, at);
                }
                self.set_source_error(source, Some(describe(&failure, now)));
                return Ok(None);
            }
        };
        let Some(kept) = self.ledger.kept(search_box)? else {
            return Ok(None);
        };
        let page = AskedPage {
            request,
            text,
            wanted: poll.wanted.map(|id| (id, poll.purpose)),
        };
        let pending = self.pending_poll(kept, filled.url.into(), &as_poll(search_box, &poll), now);
        Ok(Some(PendingPoll {
            purpose: Purpose::Due,
            protocol: Arc::new(ResultPage {
                context,
                body: filled.body,
                number: request.number,
            }),
            search: Some(SearchBoxRequest {
                poll,
                page: Some(page),
            }),
            ..pending
        }))
    }

    /// A request for a row by its id; nothing if it cannot be made.
    fn row_poll(
        &mut self,
        source: SourceId,
        id: ElementId,
        poll: SearchPoll,
        now: Moment,
    ) -> Result<Option<PendingPoll>, Error> {
        let Some(kept) = self.ledger.kept(id)? else {
            return Ok(None);
        };
        let Some(search) = self.searches.get(&source) else {
            return Ok(None);
        };
        let context = search.context.clone();
        let Some(template) = &context.search.by_id else {
            return Ok(None);
        };
        let filled = request::for_row(template, &kept.element.locator);
        let (address, failure) = match filled {
            Ok(filled) => (filled.url.into(), None),
            Err(failure) => (Address::nowhere(), Some(failure)),
        };
        let pending = PendingPoll {
            protocol: Arc::new(RowById {
                context: context.clone(),
            }),
            search: Some(SearchBoxRequest { poll, page: None }),
            ..self.pending_poll(kept, address, &as_poll(id, &poll), now)
        };
        match failure {
            Some(failure) => {
                // Its id makes no address: nobody was asked.
                self.conclude_element(&fail(pending, failure, now).seen(), now)?;
                Ok(None)
            }
            None => Ok(Some(pending)),
        }
    }

    /// How long a row that is gone waits to be looked at again, at the most.
    pub(super) fn max_recheck_interval(&self, source: SourceId, recheck_interval: Span) -> Span {
        let search = self.searches.get(&source);
        let longest = search.and_then(|search| search.context.search.max_interval);
        longest
            .filter(|&longest| longest < recheck_interval)
            .unwrap_or(recheck_interval)
    }

    /// A poll of a row came to nothing: the row is requested by its id later, and later each
    /// time.
    pub(super) fn postpone_row(&mut self, kept: &Kept, at: Time) {
        let (id, source) = (kept.element.id, kept.element.source);
        let group = self.agenda.group_of_search(search_id(source));
        let n_failures = u32::from(kept.n_failures);
        let due = self.agenda.retry_at(group, n_failures, at, &mut self.rng);
        self.agenda.finish(id);
        if let Some(decisions) = self.decisions(source) {
            decisions.hold(id, due.since(at), at);
        }
    }

    /// A request to a search source whose host is paused for longer than is worth waiting: the
    /// source is paused too.
    pub(super) fn postpone_search(&mut self, poll: &PendingPoll, at: Time) {
        let Some(search) = &poll.search else {
            return;
        };
        let until = self.agenda.retry_at(Some(poll.host), 1, at, &mut self.rng);
        self.agenda.refund_search(&search.poll);
        if let Some(decisions) = self.decisions(poll.kept.element.source) {
            decisions.leave_alone(until.since(at), at);
        }
    }

    /// Why to end rather than wait, if none of those that were asked for may be requested by
    /// then: the budget, or that their source or its host is paused.
    pub(super) fn reason_to_end(&self, by: Time, at: Time) -> Option<EndReason> {
        let mut reason = EndReason::Budget;
        for id in self.agenda.asked() {
            let search = self.agenda.search_of(id)?;
            let decisions = self.agenda.search(search)?;
            let group = self.agenda.group_of_search(search)?;
            if decisions.paused_until(at) > by || self.agenda.gate().paused_until(group) > by {
                reason = EndReason::Done;
            } else if decisions.allowed_at(at) <= by {
                // Queries that are being made are there before long.
                return None;
            }
        }
        Some(reason)
    }

    /// Rows that nothing returns get that as their failure.
    pub(super) fn report_unreached_rows(&mut self, now: Moment) -> Result<(), Error> {
        for id in self.agenda.take_unreachable() {
            if let Some(mut kept) = self.ledger.kept(id)? {
                kept.failure = Some(Failure {
                    kind: FailureKind::Unreached,
                    message: "no query returns it, and it cannot be fetched by its id".to_owned(),
                    at: now,
                });
                self.ledger.write(kept);
            }
        }
        Ok(())
    }
}

/// A request to a search source as a poll of an element: of the box, or of a row.
fn as_poll(id: ElementId, poll: &SearchPoll) -> Poll {
    Poll {
        id,
        group: Some(poll.group),
        purpose: poll.purpose,
        is_counted: poll.is_counted,
        cost: 1.0,
    }
}

fn row_of(kept: Kept, added_at: Moment) -> HeldRow {
    let history = &kept.history;
    HeldRow {
        element: kept.element.id,
        weight: f64::from(kept.element.weight),
        synced_at: history.synced_at.filter(|_| kept.copy.is_some()),
        added_at: history.polled_at.unwrap_or(added_at),
        is_out: matches!(kept.state, State::Gone | State::Blocked),
        copy: kept.copy.map(|copy| (copy.digest, copy.body)),
        versions: Vec::new(),
        id: kept.element.locator,
    }
}

/// What a source is asked through: its host.
pub(super) fn host_url(state: &SourceState) -> Option<Url> {
    let search = state.settings.search.as_ref()?;
    let filled = request::for_query(&state.settings, search, "x", 1);
    filled.ok().map(|filled| filled.url)
}
