//! Search sources in the loop: which request is next.

use std::collections::HashMap;

use springtide_policy::agenda::retry_in;
use springtide_policy::agenda::rows::{LOOK_AGAIN, PageRequest, SearchRequest, host_limit};
use springtide_policy::schedule::Quota;
use springtide_policy::{GroupId, Span, Time};
use springtide_store::{
    BodyId, ChangeFilter, ElementId, Fact, Failure, FailureKind, Kept, Moment, Purpose, Role,
    SourceId, State, Store,
};
use url::Url;

use super::begin::{purpose_of, robots_free};
use super::{Engine, SourceState, What};
use crate::hosts::Permit;
use crate::keep::describe;
use crate::poll::{self, Asked, AskedPage, Done, Job, Message, Question};
use crate::search::rows::FileRows;
use crate::search::{self, Known, Preparation, Search, form};
use crate::settings::Difference;
use crate::{Error, Why, clock, fetch};

/// Rows that are read from the store at a time.
const BATCH: usize = 4096;

/// The latest versions of a source's rows that are read again after a restart, and of
/// those of one row.
const MOST_VERSIONS: usize = 20_000;
const MOST_OF_A_ROW: usize = 20;

/// What is next: an element, or a page of the answer to a query.
#[derive(Debug, Clone, Copy)]
pub(super) enum Next {
    Element(ElementId, Purpose),
    Page(SourceId, PageRequest),
}

impl Engine {
    /// Sets search sources to work, from what was kept.
    pub(super) fn open_searches(&mut self, now: Moment) -> Result<(), Error> {
        let note = self.store.note("search")?.unwrap_or_default();
        let ids: Vec<SourceId> = self.sources.keys().copied().collect();
        for id in ids {
            let state = &self.sources[&id];
            let Some(settings) = state.settings.search.clone() else {
                continue;
            };
            // What is wrong with it is known already: it was registered just now.
            let file = FileRows::read(&settings.rows).unwrap_or_default();
            let mut search_box = None;
            let mut known = Vec::new();
            let mut from = Some(ElementId(0));
            while let Some(start) = from {
                let page = self.store.elements(Some(id), start, BATCH)?;
                let last = page.last().map(|kept| kept.element.id);
                from = last.and_then(|last| last.0.checked_add(1)).map(ElementId);
                for kept in page {
                    if kept.element.role == Role::Listing {
                        search_box = Some(kept.element.id);
                    } else if !kept.is_unlisted {
                        known.push(row_of(kept, state.source.added_at));
                    }
                }
            }
            let Some(search_box) = search_box else {
                continue;
            };
            let difference = settings.staleness.as_ref().map(|s| s.difference);
            if difference.is_some_and(|difference| difference != Difference::Any) {
                self.add_versions(id, &mut known)?;
            }
            let source = state.settings.clone();
            let usual = self.settings.policy.objective;
            let (mut search, preparation) =
                Search::new(source, settings, search_box, known, &file, usual);
            if let Some(bytes) = remembered(&note, id) {
                search.decisions.recall(bytes, clock::time(now));
            }
            let Some(url) = host_url(&self.sources[&id]) else {
                continue;
            };
            let host = self.host_of(&url)?;
            self.search_hosts.insert(id, host);
            self.searches.insert(id, search);
            self.prepare(id, preparation);
        }
        Ok(())
    }

    /// Adds the latest versions of rows, from whose differences is learned how far they
    /// move.
    fn add_versions(&self, source: SourceId, known: &mut [Known]) -> Result<(), Error> {
        let of_source = ChangeFilter {
            source: Some(source),
            ..ChangeFilter::default()
        };
        let mut versions: HashMap<ElementId, Vec<BodyId>> = HashMap::new();
        for change in self.store.changes(&of_source, None, MOST_VERSIONS)? {
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

    /// Makes up queries away from the loop, which hears of it.
    pub(super) fn prepare(&mut self, id: SourceId, preparation: Preparation) {
        let means = self.means.clone();
        self.preparations.spawn_blocking(move || {
            let prepared = preparation.prepare(&means.bodies).map(Box::new);
            means.tell(Message::Prepared(id, prepared));
        });
    }

    /// The queries of a source have been made up, or could not be.
    pub(super) fn install(
        &mut self,
        id: SourceId,
        prepared: Result<Box<search::Prepared>, springtide_policy::Error>,
    ) -> Result<(), Error> {
        let prepared = match prepared {
            Ok(prepared) => *prepared,
            Err(error) => {
                let failure = Failure {
                    kind: FailureKind::Rows,
                    message: format!("no queries can be made of its rows: {error}"),
                    at: self.clock.now(),
                };
                self.note_failure(id, Some(failure));
                return Ok(());
            }
        };
        let remembered = self.store.queries(id)?;
        if let Some(search) = self.searches.get_mut(&id) {
            let each = remembered.iter().map(|q| (q.text.as_str(), &q.memory[..]));
            search.install(prepared, each);
        }
        Ok(())
    }

    /// What is to be remembered of all search sources.
    pub(super) fn remember_searches(&self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        for (id, search) in &self.searches {
            let memory = search.decisions.remember();
            bytes.extend(id.0.to_le_bytes());
            bytes.extend((memory.len() as u32).to_le_bytes());
            bytes.extend(memory);
        }
        (!bytes.is_empty()).then_some(bytes)
    }

    /// A search source at work.
    pub(super) fn search_of(&mut self, source: SourceId) -> Option<&mut Search> {
        self.searches.get_mut(&source)
    }

    /// When the first search source may be asked something, if it is asked by the
    /// budget at `paced`, or does not count.
    pub(super) fn searches_wake_at(&self, paced: Time, now: Moment) -> Time {
        let is_for_these = matches!(self.until.what, What::These(_));
        let mut first = Time::NEVER;
        if is_for_these && self.asked.is_empty() {
            return first;
        }
        let at = clock::time(now);
        let window = self.settings.budget.window;
        let opens = window.map_or(at, |window| window.opens_at(at));
        for (id, search) in &self.searches {
            let is_free =
                !is_for_these && self.is_first_pass_free() && search.decisions.has_new(at);
            let allowed = if is_free { opens } else { paced };
            let host = self.hosts.free_at(self.search_hosts[id]);
            let mut at = search.decisions.wake_at(at);
            for other in [host, allowed] {
                at = if other > at { other } else { at };
            }
            first = if at < first { at } else { first };
        }
        first
    }

    fn may_be_asked(&self, id: SourceId, now: Moment) -> bool {
        let at = clock::time(now);
        self.searches[&id].decisions.wake_at(at) <= at
            && self.hosts.free_at(self.search_hosts[&id]) <= at
    }

    /// New rows, where first polls do not count: asks for them as far as quotas and
    /// hosts allow, or only at hosts where it is their turn.
    pub(super) fn ask_for_new_rows(&mut self, in_turn: bool, now: Moment) -> Result<(), Error> {
        let at = clock::time(now);
        let ids: Vec<SourceId> = self.searches.keys().copied().collect();
        for id in ids {
            if in_turn && !self.is_turn_of_new.contains(&self.search_hosts[&id]) {
                continue;
            }
            while self.has_room() && self.may_be_asked(id, now) {
                let search = self.search_of(id);
                let bid = search.and_then(|search| search.decisions.request_for_new(at));
                self.tell_unreachable(id, now)?;
                let Some(bid) = bid else {
                    if let Some(search) = self.search_of(id).filter(|s| s.decisions.has_new(at)) {
                        // They are about to come.
                        search.decisions.reconsider_later(at);
                    }
                    break;
                };
                let has_begun = match bid.request {
                    SearchRequest::Page(page) => self.ask(id, page, None, false, now)?,
                    SearchRequest::Row(row) => self.begin(row, Purpose::First, false, now)?,
                };
                if !has_begun {
                    break;
                }
                self.n_begun += 1;
                self.is_turn_of_new.remove(&self.search_hosts[&id]);
                self.give_turns(now)?;
                if in_turn {
                    break;
                }
            }
        }
        Ok(())
    }

    /// The request of search sources that is best now, and what it is worth in terms of
    /// what is to be kept fresh elsewhere. Rows that were never had come first, if it is
    /// their turn.
    pub(super) fn best_request(
        &mut self,
        is_turn_of_new: bool,
        now: Moment,
    ) -> Result<Option<(Next, f64)>, Error> {
        let at = clock::time(now);
        let is_free = self.is_first_pass_free();
        let ids: Vec<SourceId> = self.searches.keys().copied().collect();
        let mut best: Option<(Next, f64)> = None;
        for &id in &ids {
            if !self.may_be_asked(id, now) {
                continue;
            }
            let Some(search) = self.searches.get_mut(&id) else {
                continue;
            };
            let is_once = matches!(self.until.what, What::DueNow);
            if is_free && search.decisions.has_new(at) {
                // Its first pass comes first, and does not count.
                continue;
            }
            let new = match is_turn_of_new {
                true => search.decisions.request_for_new(at),
                false => None,
            };
            let worth_of = |row, objective| self.scheduler.worth(row, objective, at);
            let bid = new.or_else(|| match is_once {
                // What is due: rows that have waited as long as they may.
                true => search.decisions.request_for_overdue(at),
                false => search.decisions.request(&worth_of, at),
            });
            let Some(bid) = bid else {
                search.decisions.reconsider_later(at);
                continue;
            };
            let next = match bid.request {
                SearchRequest::Page(page) => Next::Page(id, page),
                SearchRequest::Row(row) => Next::Element(row, Purpose::Due),
            };
            if best.is_none_or(|(_, most)| bid.worth > most) {
                best = Some((next, bid.worth));
                self.takes_new_turn = new.is_none();
            }
        }
        for id in ids {
            self.tell_unreachable(id, now)?;
        }
        Ok(best)
    }

    /// How many rows have never been had.
    pub(super) fn n_new_rows(&self) -> u64 {
        let searches = self.searches.values();
        searches.map(|search| search.decisions.n_never_had()).sum()
    }

    /// Sends a request for a page to wait for its host. Says whether it could be sent.
    pub(super) fn ask(
        &mut self,
        id: SourceId,
        request: PageRequest,
        wanted: Option<(ElementId, Purpose)>,
        is_counted: bool,
        now: Moment,
    ) -> Result<bool, Error> {
        let Some(search) = self.searches.get_mut(&id) else {
            return Ok(false);
        };
        let (search_box, form) = (search.search_box, search.form.clone());
        let Some(text) = search.decisions.text(&request) else {
            return Ok(false);
        };
        let page = AskedPage {
            request,
            text,
            wanted,
        };
        let filled = form::for_query(&form.source, &form.search, &page.text, request.number);
        let Some(kept) = self.kept(search_box)? else {
            return Ok(false);
        };
        let filled = match filled {
            Ok(filled) => filled,
            Err(failure) => {
                // Nobody can be asked that.
                if let Some(search) = self.searches.get_mut(&id) {
                    let at = clock::time(now);
                    search.decisions.page_failed(&request);
                    search.decisions.refused(at, at);
                }
                self.note_failure(id, Some(describe(&failure, now)));
                return Ok(false);
            }
        };
        let job = Job {
            question: Some(Question {
                form,
                asked: Asked::Page(page),
                body: filled.body,
            }),
            ..self.job(kept, filled.url, Purpose::Due, is_counted, now)
        };
        if let Some(search) = self.searches.get_mut(&id) {
            let request = SearchRequest::Page(request);
            search.decisions.begun(&request, clock::time(now));
        }
        self.n_questions += 1;
        self.wait_for_host(job, now)
    }

    /// Requests to a source that have not left are not made.
    pub(super) fn call_back(&mut self, source: SourceId) {
        for job in self.hosts.call_back(source) {
            self.n_begun = self.n_begun.saturating_sub(1);
            if job.page().is_some() {
                self.drop_page(&job);
                continue;
            }
            let id = job.kept.element.id;
            self.under_way.remove(&id);
            if job.purpose == Purpose::Asked {
                self.asked.push_back(id);
            }
            if let Some(search) = self.searches.get_mut(&source) {
                search.decisions.withdrawn(&SearchRequest::Row(id));
            }
        }
    }

    /// How long a row that is gone is left, at the most, in milliseconds.
    pub(super) fn longest_out(&self, source: SourceId) -> i64 {
        let search = self.searches.get(&source);
        let longest = search.and_then(|search| search.form.search.max_interval);
        longest.map_or(i64::MAX, |longest| {
            (longest.as_days() * 86_400_000.0) as i64
        })
    }

    /// Sends a job to wait for its host, unless it is to keep away.
    pub(super) fn wait_for_host(&mut self, mut job: Job, now: Moment) -> Result<bool, Error> {
        let host = self.host_of(&job.url)?;
        job.host = host;
        let origin = fetch::origin(&job.url);
        let is_kept_out = self
            .hosts
            .robots(host, &origin)
            .is_some_and(|(robots, rules)| {
                !fetch::robots::is_due(robots, now) && !rules.is_allowed(&job.url)
            });
        if is_kept_out {
            // Nothing is asked, so it costs nothing; that is taken back.
            self.n_begun += 1;
            self.conclude(poll::keep_out(job, Permit::Disallowed, now), now)?;
            return Ok(false);
        }
        if job.page().is_none() {
            self.under_way.insert(job.kept.element.id);
        }
        match job.purpose {
            Purpose::First => self.is_turn_of_new.remove(&host),
            _ => self.is_turn_of_new.insert(host),
        };
        self.hosts.wait(host, poll::waiting(job));
        // Nobody else of the host, until it has had its turn.
        self.close_host(host, Time::NEVER);
        Ok(true)
    }

    /// The least time between two requests to a host for which there is no rule, and
    /// which only search sources ask, and how many may be under way: what their quota says
    /// is said about it.
    pub(super) fn quota_limits(&self, host: GroupId, url: &Url) -> Option<(Span, u32)> {
        if self.shared_hosts.contains(&host) {
            return None;
        }
        let asks_it = |state: &&SourceState| {
            let search = state.settings.search.as_ref();
            let by_id = search.and_then(|search| search.by_id.as_ref());
            let mut addresses = std::iter::once(&state.settings.url).chain(by_id);
            addresses.any(|address| {
                Url::parse(address).is_ok_and(|other| other.host_str() == url.host_str())
            })
        };
        let searches = self.sources.values().filter(asks_it);
        let quotas = searches.filter_map(|state| state.settings.search.as_ref()?.quota);
        let quotas: Vec<Quota> = quotas
            .map(|quota| Quota::new(quota.n_polls, quota.span))
            .collect();
        host_limit(&quotas)
    }

    /// A request for a page that has not left is not made.
    pub(super) fn drop_page(&mut self, job: &Job) {
        self.n_questions = self.n_questions.saturating_sub(1);
        let source = job.kept.element.source;
        if let (Some(page), Some(search)) = (job.page(), self.searches.get_mut(&source)) {
            search
                .decisions
                .withdrawn(&SearchRequest::Page(page.request));
            if let Some((wanted, Purpose::Asked)) = page.wanted {
                self.asked.push_back(wanted);
            }
        }
    }

    /// A poll of a row that comes to nothing: it is asked by its id no sooner than then.
    /// Says whether it is a row.
    pub(super) fn hold_row(&mut self, source: SourceId, id: ElementId, due: Time) -> bool {
        let Some(search) = self.searches.get_mut(&source) else {
            return false;
        };
        let now = clock::time(self.clock.now());
        search.decisions.hold(id, due.since(now), now);
        search.decisions.is_ours(id)
    }

    /// Begins a poll of one row, or, if more were asked for, of as many as a query brings.
    pub(super) fn begin_row(
        &mut self,
        kept: Kept,
        purpose: Purpose,
        is_counted: bool,
        now: Moment,
    ) -> Result<bool, Error> {
        let (id, source) = (kept.element.id, kept.element.source);
        if !self.searches[&source].decisions.is_ours(id) {
            return Ok(false);
        }
        if purpose == Purpose::Asked {
            self.asked.push_back(id);
        }
        if !self.may_be_asked(source, now) {
            // One that is out has but its timer.
            let has_only_timer = self.scheduler.belief(id, clock::time(now)).is_none();
            if purpose != Purpose::Asked && has_only_timer {
                let again = clock::moment_of(clock::time(now) + LOOK_AGAIN);
                self.timers.set(id, again.unwrap_or(now));
            }
            return Ok(false);
        }
        if purpose != Purpose::Asked {
            return self.begin_alone(kept, purpose, is_counted, now);
        }
        let wanted = self.asked.iter().copied();
        match self.searches[&source].decisions.request_for_wanted(wanted) {
            Some(SearchRequest::Page(page)) => self.ask(source, page, None, is_counted, now),
            Some(SearchRequest::Row(row)) => {
                self.asked.retain(|wanted| *wanted != row);
                match self.kept(row)? {
                    Some(kept) => self.begin_alone(kept, purpose, is_counted, now),
                    None => Ok(false),
                }
            }
            None => {
                if let Some(search) = self.search_of(source) {
                    search.decisions.reconsider_later(clock::time(now));
                }
                Ok(false)
            }
        }
    }

    /// Begins a poll of one row: by its id, or else by the best query that finds it.
    fn begin_alone(
        &mut self,
        kept: Kept,
        purpose: Purpose,
        is_counted: bool,
        now: Moment,
    ) -> Result<bool, Error> {
        let (id, source) = (kept.element.id, kept.element.source);
        let search = &self.searches[&source];
        let (form, request) = (search.form.clone(), search.decisions.request_for_row(id));
        if let Some(SearchRequest::Page(page)) = request {
            return self.ask(source, page, Some((id, purpose)), is_counted, now);
        }
        let Some(template) = &form.search.by_id else {
            if purpose == Purpose::Asked && search.decisions.is_asking_pages() {
                // What finds it is being asked.
                self.asked.push_back(id);
            }
            return Ok(false);
        };
        let filled = form::for_row(template, &kept.element.locator);
        let (url, failure) = match filled {
            Ok(filled) => (filled.url, None),
            Err(failure) => (robots_free(), Some(failure)),
        };
        let purpose = purpose_of(purpose, &kept);
        let job = Job {
            question: Some(Question {
                form,
                asked: Asked::Row,
                body: None,
            }),
            ..self.job(kept, url, purpose, is_counted, now)
        };
        if let Some(failure) = failure {
            // Its id makes no address: nobody was asked.
            let done = Done {
                at: now,
                status: None,
                found: Err(failure),
                job,
            };
            self.conclude_element(done, true, now)?;
            return Ok(true);
        }
        if let Some(search) = self.searches.get_mut(&source) {
            search
                .decisions
                .begun(&SearchRequest::Row(id), clock::time(now));
        }
        self.wait_for_host(job, now)
    }

    /// A request whose host is to be left alone for longer than it is worth waiting.
    pub(super) fn request_later(&mut self, job: &Job, group: GroupId, now: Moment) {
        let at = clock::time(now);
        let until = self.hosts.paused_until(group, at) + retry_in(1, &mut self.rng);
        let (id, source) = (job.kept.element.id, job.kept.element.source);
        if job.page().is_some() {
            self.drop_page(job);
        } else if let Some(search) = self.searches.get_mut(&source) {
            search.decisions.withdrawn(&SearchRequest::Row(id));
        }
        if let Some(search) = self.searches.get_mut(&source) {
            search.decisions.leave_alone(until.since(at), at);
        }
    }

    /// Whether some of those that were asked for may be asked by then; and if not, whether
    /// that is since their source or its host is left alone.
    pub(super) fn is_worth_waiting(&self, by: Time, now: Moment) -> Result<(), Why> {
        let (mut blocked, at) = (Why::Budget, clock::time(now));
        for id in &self.asked {
            let mut of = self
                .searches
                .iter()
                .filter(|(_, search)| search.decisions.is_ours(*id));
            match of.next() {
                Some((source, search))
                    if search.decisions.paused_until(at) > by
                        || self.hosts.is_left_alone(self.search_hosts[source], by) =>
                {
                    blocked = Why::Done;
                }
                // Queries that are being made up are there before long.
                Some((_, search)) if search.decisions.allowed_at(at) > by => {}
                _ => return Ok(()),
            }
        }
        Err(blocked)
    }

    /// Whether there are rows that are new, or have waited as long as they may, and that
    /// may be asked for by then.
    pub(super) fn has_due_rows(&self, by: Time, now: Moment) -> bool {
        let at = clock::time(now);
        let is_due = |search: &Search| {
            search.decisions.has_due(at) && search.decisions.paused_until(at) <= by
        };
        self.searches.values().any(is_due)
    }

    /// Rows that nothing returns are told to be such.
    fn tell_unreachable(&mut self, source: SourceId, now: Moment) -> Result<(), Error> {
        let unreachable = match self.searches.get_mut(&source) {
            Some(search) => search.decisions.take_newly_unreachable(),
            None => return Ok(()),
        };
        for id in unreachable {
            if let Some(mut kept) = self.kept(id)? {
                kept.failure = Some(Failure {
                    kind: FailureKind::Unreached,
                    message: "no query returns it, and it cannot be asked for by its id".to_owned(),
                    at: now,
                });
                self.facts.push(Fact::Kept(Box::new(kept)));
            }
        }
        Ok(())
    }
}

fn row_of(kept: Kept, added_at: Moment) -> Known {
    let history = &kept.history;
    Known {
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

/// What was remembered of one search source.
fn remembered(mut note: &[u8], wanted: SourceId) -> Option<&[u8]> {
    loop {
        let (id, rest) = note.split_first_chunk::<4>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length) as usize;
        let (memory, rest) = rest.split_at_checked(length)?;
        if u32::from_le_bytes(*id) == wanted.0 {
            return Some(memory);
        }
        note = rest;
    }
}

/// What a source is asked through: its host.
pub(super) fn host_url(state: &SourceState) -> Option<Url> {
    let search = state.settings.search.as_ref()?;
    let filled = form::for_query(&state.settings, search, "x", 1);
    filled.ok().map(|filled| filled.url)
}
