//! Search sources in the loop: which request is next, and what follows from an answer.

use std::sync::Arc;

use springtide_policy::query::Ask;
use springtide_policy::schedule::{Quota, retry_in};
use springtide_policy::{GroupId, Span, Time};
use springtide_store::{
    Element, ElementId, Fact, Failure, Kept, Moment, Poll, PollOutcome, Purpose, Query, Role,
    SourceId, SourceKind, State, Store,
};

use url::Url;

use super::conclude::ROBOTS_HOLD;
use super::{Engine, SourceState, What};
use crate::event::{Event, Polled};
use crate::hosts::Permit;
use crate::poll::{self, Asked, AskedPage, Done, Found, FoundPage, Job, Message, Question};
use crate::register::search_group;
use crate::search::rows::FileRows;
use crate::search::{self, Choice, Known, Preparation, Search, form};
use crate::{Error, Why, clock, fetch};

/// Rows that are read from the store at a time.
const BATCH: usize = 4096;

/// What is next: an element, or a page of the answer to a query.
#[derive(Debug, Clone, Copy)]
pub(super) enum Next {
    Element(ElementId, Purpose),
    Page(SourceId, Ask),
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
            let source = state.settings.clone();
            let (mut search, preparation) = Search::new(source, settings, search_box, known, &file);
            if let Some(bytes) = remembered(&note, id) {
                search.recall(bytes, now);
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

    /// Makes up queries away from the loop, which hears of it.
    pub(super) fn prepare(&mut self, id: SourceId, preparation: Preparation) {
        let means = self.means.clone();
        self.preparations.spawn_blocking(move || {
            // There are no more rows than can be counted.
            if let Ok(prepared) = preparation.prepare(&means.bodies) {
                means.tell(Message::Prepared(id, Box::new(prepared)));
            }
        });
    }

    /// The queries of a source have been made up.
    pub(super) fn install(
        &mut self,
        id: SourceId,
        prepared: search::Prepared,
    ) -> Result<(), Error> {
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
            let memory = search.remember();
            bytes.extend(id.0.to_le_bytes());
            bytes.extend((memory.len() as u32).to_le_bytes());
            bytes.extend(memory);
        }
        (!bytes.is_empty()).then_some(bytes)
    }

    /// Whether an element is a row of a search source.
    pub(super) fn search_of(&mut self, source: SourceId) -> Option<&mut Search> {
        self.searches.get_mut(&source)
    }

    /// When the first search source may be asked something, if it is asked by the
    /// budget at `paced`, or does not count.
    pub(super) fn searches_wake_at(&self, paced: Time, now: Moment) -> Time {
        let mut first = Time::NEVER;
        for (id, search) in &self.searches {
            let is_free = self.is_first_pass_free() && search.has_new(now);
            let host = self.hosts.free_at(self.search_hosts[id]);
            let mut at = search.wake_at(now);
            for other in [host, if is_free { at } else { paced }] {
                at = if other > at { other } else { at };
            }
            first = if at < first { at } else { first };
        }
        first
    }

    fn may_be_asked(&self, id: SourceId, now: Moment) -> bool {
        let at = clock::time(now);
        self.searches[&id].wake_at(now) <= at && self.hosts.free_at(self.search_hosts[&id]) <= at
    }

    /// New rows, where first polls do not count: asks for them as far as quotas and
    /// hosts allow.
    pub(super) fn ask_for_new_rows(&mut self, now: Moment) -> Result<(), Error> {
        let ids: Vec<SourceId> = self.searches.keys().copied().collect();
        for id in ids {
            while self.has_room() && self.may_be_asked(id, now) {
                let choice = self.search_of(id).and_then(|s| s.choose_new(now));
                self.give_up_rows(id, now)?;
                let Some(choice) = choice else {
                    break;
                };
                let has_begun = match choice {
                    Choice::Query(ask) => self.ask(id, ask, None, false, now)?,
                    Choice::Row(row) => self.begin(row, Purpose::First, false, now)?,
                };
                if !has_begun {
                    break;
                }
                self.n_begun += 1;
                self.give_turns(now)?;
            }
        }
        Ok(())
    }

    /// The request of search sources that is best now, and what it is worth in terms of
    /// what is to be kept fresh elsewhere.
    pub(super) fn best_request(&mut self, now: Moment) -> Option<(Next, f64)> {
        let usual = self.settings.policy.objective;
        let is_free = self.is_first_pass_free();
        let ids: Vec<SourceId> = self.searches.keys().copied().collect();
        let mut best: Option<(Next, f64)> = None;
        for id in ids {
            if !self.may_be_asked(id, now) {
                continue;
            }
            let search = self.searches.get_mut(&id)?;
            let is_once = matches!(self.until.what, What::DueNow);
            if is_free && search.has_new(now) {
                // Its first pass comes first, and does not count.
                continue;
            }
            let new = search.choose_new(now);
            let choice = new.or_else(|| match is_once {
                // What is due: rows that have waited as long as they may.
                true => search.overdue(now).map(Choice::Row),
                false => search.choose(&self.scheduler, usual, now),
            });
            let (next, worth) = match choice {
                Some(Choice::Query(ask)) if new.is_some() => (Next::Page(id, ask), f64::INFINITY),
                Some(Choice::Query(ask)) => {
                    let worth = search.value(&ask, &self.scheduler, usual, now);
                    (Next::Page(id, ask), worth)
                }
                Some(Choice::Row(row)) => (Next::Element(row, Purpose::Due), f64::INFINITY),
                None => continue,
            };
            if best.is_none_or(|(_, most)| worth > most) {
                best = Some((next, worth));
            }
        }
        best
    }

    /// Whether there is a new row that may still be had.
    pub(super) fn n_new_rows(&self) -> u64 {
        self.searches.values().map(Search::n_new).sum()
    }

    /// Sends a request for a page to wait for its host. Says whether it could be sent.
    pub(super) fn ask(
        &mut self,
        id: SourceId,
        ask: Ask,
        wanted: Option<(ElementId, Purpose)>,
        is_counted: bool,
        now: Moment,
    ) -> Result<bool, Error> {
        let Some(search) = self.searches.get_mut(&id) else {
            return Ok(false);
        };
        let (search_box, form) = (search.search_box, search.form.clone());
        let Some(text) = search.text(ask.query) else {
            return Ok(false);
        };
        let page = AskedPage {
            query: ask.query,
            generation: search.generation(),
            text,
            page: ask.page,
            wanted,
        };
        let filled = form::for_query(&form.source, &form.search, &page.text, page.page);
        let kept = match self.pending(search_box) {
            Some(kept) => kept,
            None => match self.store.element(search_box)? {
                Some(kept) => kept,
                None => return Ok(false),
            },
        };
        let state = &self.sources[&id];
        let job = |url, body| Job {
            host: kept.element.host,
            url,
            purpose: Purpose::Due,
            is_counted,
            begun_at: now,
            lens: Arc::clone(&state.lens),
            kind: SourceKind::Search,
            max_entries: 0,
            wants_links: false,
            question: Some(Question {
                form: form.clone(),
                asked: Asked::Page(page.clone()),
                body,
            }),
            kept: kept.clone(),
        };
        let (job, failure) = match filled {
            Ok(filled) => (job(filled.url, filled.body), None),
            Err(failure) => (job(super::begin::robots_free(), None), Some(failure)),
        };
        if let Some(search) = self.searches.get_mut(&id) {
            search.begin(&ask);
        }
        self.n_questions += 1;
        if let Some(failure) = failure {
            let done = Done {
                at: now,
                status: None,
                found: Err(failure),
                job,
            };
            self.conclude(done, now)?;
            return Ok(false);
        }
        self.wait_for_host(job, now)
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
            // Nothing is asked, so it costs nothing.
            self.conclude(poll::keep_out(job, Permit::Disallowed), now)?;
            return Ok(false);
        }
        if job.page().is_none() {
            self.under_way.insert(job.kept.element.id);
        }
        self.hosts.wait(host, poll::waiting(job));
        // Nobody else of the host, until it has had its turn.
        self.scheduler.close(host, Time::NEVER);
        Ok(true)
    }

    /// The least time between two requests to a host for which there is no rule, and
    /// which only search sources ask: what their quota says is said about it.
    pub(super) fn quota_gap(&self, host: GroupId, url: &Url) -> Option<Span> {
        if self.shared_hosts.contains(&host) {
            return None;
        }
        let asks_it = |state: &&SourceState| {
            Url::parse(&state.settings.url).is_ok_and(|other| other.host_str() == url.host_str())
        };
        let searches = self.sources.values().filter(asks_it);
        let quotas = searches.filter_map(|state| state.settings.search.as_ref()?.quota);
        let gaps = quotas.map(|quota| Quota::new(quota.n_polls, quota.span).gap().as_days());
        // The quota itself keeps requests apart; this is for those that come late.
        let half = gaps.reduce(f64::min)? / 2.0;
        let usual = 1.0 / 86_400.0;
        Span::days(half.min(usual)).ok()
    }

    /// A request for a page that has not left is not made.
    pub(super) fn drop_page(&mut self, job: &Job) {
        self.n_questions = self.n_questions.saturating_sub(1);
        let source = job.kept.element.source;
        if let (Some(page), Some(search)) = (job.page(), self.searches.get_mut(&source)) {
            search.is_waiting = false;
            search.give_up(page.query, page.page, page.generation);
        }
    }

    /// A row that was asked for by its id.
    pub(super) fn conclude_row(&mut self, mut done: Done, now: Moment) -> Result<(), Error> {
        let (id, source) = (done.job.kept.element.id, done.job.kept.element.source);
        let locator = done.job.kept.element.locator.clone();
        let (host, at) = (done.job.host, done.at);
        let mut news = None;
        match done.found {
            Ok(Found::Row(row)) => {
                let search::Found {
                    here, news: told, ..
                } = *row;
                news = told;
                done.found = Ok(Found::Here(Box::new(here)));
                self.answered(source, now);
            }
            Ok(Found::NotThere) => self.answered(source, now),
            Ok(Found::KeptOut(_)) => {
                if let Some(search) = self.search_of(source) {
                    search.is_waiting = false;
                }
            }
            Err(ref failure) => {
                let is_host_trouble = failure.kind.is_host_trouble();
                self.refused(source, host, is_host_trouble, now);
            }
            Ok(_) => {}
        }
        let is_here = matches!(done.found, Ok(Found::Here(_)));
        self.conclude_element(done, true, now)?;
        let is_out = !is_here && self.is_gone(id)?;
        if let Some(search) = self.search_of(source) {
            if is_here {
                search.polled(id, &locator, news.as_ref(), at);
            } else if is_out {
                search.out(id);
            }
        }
        Ok(())
    }

    fn is_gone(&self, id: ElementId) -> Result<bool, Error> {
        let kept = match self.pending(id) {
            Some(kept) => Some(kept),
            None => self.store.element(id)?,
        };
        Ok(kept.is_none_or(|kept| matches!(kept.state, State::Gone | State::Blocked)))
    }

    /// A request was answered as it should be.
    fn answered(&mut self, source: SourceId, now: Moment) {
        if let Some(search) = self.search_of(source) {
            search.end(now);
            search.is_well();
        }
    }

    /// A request was not answered, or not as it should be: unless its host is left
    /// alone for that, its source is.
    fn refused(&mut self, source: SourceId, host: GroupId, is_host_trouble: bool, now: Moment) {
        let is_left_alone = self.hosts.is_left_alone(host, clock::time(now));
        if let Some(search) = self.search_of(source) {
            search.end(now);
            if !is_host_trouble && !is_left_alone {
                search.pause(now);
            }
        }
    }

    /// A page of the answer to a query, or none.
    pub(super) fn conclude_page(&mut self, done: Done, now: Moment) -> Result<(), Error> {
        self.n_questions = self.n_questions.saturating_sub(1);
        let source = done.job.kept.element.source;
        let Some(page) = done.job.page().cloned() else {
            return Ok(());
        };
        if !self.sources.contains_key(&source) {
            return Ok(());
        }
        let failure = match &done.found {
            Ok(Found::Page(_)) => None,
            Ok(Found::KeptOut(permit)) => Some(kept_out(*permit, done.at)),
            Err(failure) => Some(Failure {
                kind: failure.kind.name().to_owned(),
                message: format!("the query {:?}: {}", page.text, failure.message),
                at: done.at,
            }),
            Ok(_) => return Ok(()),
        };
        match (&done.found, &failure) {
            (Ok(Found::Page(_)), _) => self.answered(source, now),
            (Ok(_), _) => {
                // It was not asked. Nor is it before it may say otherwise.
                if let Some(search) = self.search_of(source) {
                    search.is_waiting = false;
                    search.leave_alone(Moment(now.0 + ROBOTS_HOLD / 24));
                }
            }
            (Err(why), _) => {
                self.refused(source, done.job.host, why.kind.is_host_trouble(), now);
            }
        }
        if failure.is_some()
            && let Some(search) = self.search_of(source)
        {
            search.give_up(page.query, page.page, page.generation);
        }
        self.note_failure(source, failure.clone());
        let is_asked = !matches!(done.found, Ok(Found::KeptOut(_)));
        if is_asked {
            self.n_polls += 1;
            self.keep_request(&done, failure.as_ref());
        } else {
            self.n_begun = self.n_begun.saturating_sub(1);
        }
        self.told.push(Event::Polled(Polled {
            element: done.job.kept.element.id,
            locator: page.text.clone(),
            source: self.sources[&source].source.name.clone(),
            at: done.at,
            purpose: done.job.purpose,
            change: None,
            error: failure.map(|failure| (failure.kind, failure.message)),
            n_new: self.first_pass.n_left() + self.n_new_rows(),
        }));
        let Done { job, at, found, .. } = done;
        if let Ok(Found::Page(found)) = found {
            self.take_in_page(&job, &page, *found, at, now)?;
        }
        let preparation = self.search_of(source).and_then(Search::next_preparation);
        if let Some(preparation) = preparation {
            self.prepare(source, preparation);
        }
        Ok(())
    }

    /// A request is a poll of the search box.
    fn keep_request(&mut self, done: &Done, failure: Option<&Failure>) {
        let before = match self.pending(done.job.kept.element.id) {
            Some(kept) => kept,
            None => done.job.kept.clone(),
        };
        let mut kept = before.clone();
        kept.history.n_polls = kept.history.n_polls.saturating_add(1);
        kept.history.polled_at = Some(done.at);
        kept.failure = failure.cloned();
        if failure.is_some() {
            kept.state = State::Failing;
            kept.n_failures = kept.n_failures.saturating_add(1);
        } else {
            kept.state = State::Ok;
            kept.n_failures = 0;
            kept.history.first_polled_at.get_or_insert(done.at);
            kept.history.synced_at = Some(done.at);
        }
        let poll = Poll {
            element: kept.element.id,
            source: kept.element.source,
            begun_at: done.job.begun_at,
            at: done.at,
            since: before.history.synced_at,
            outcome: match failure {
                Some(_) => PollOutcome::Failed,
                None => PollOutcome::Unchanged,
            },
            status: done.status,
            error: failure.map(|failure| failure.kind.clone()),
            purpose: done.job.purpose,
            is_counted: done.job.is_counted,
            age_ms: None,
        };
        self.count(&before, &kept, Some(&poll));
        self.facts.push(Fact::Poll(poll));
        self.facts.push(Fact::Kept(Box::new(kept)));
    }

    /// Takes in our rows on a page, each a poll of its own.
    fn take_in_page(
        &mut self,
        job: &Job,
        asked: &AskedPage,
        found: FoundPage,
        at: Moment,
        now: Moment,
    ) -> Result<(), Error> {
        let source = job.kept.element.source;
        let n_results = found.n_results;
        let mut returned = Vec::with_capacity(found.rows.len());
        let mut n_added = 0;
        for row in found.rows {
            let Some((kept, is_added)) = self.our_row(source, &row.id)? else {
                continue;
            };
            n_added += u64::from(is_added);
            let id = kept.element.id;
            returned.push(id);
            let is_older = kept.history.synced_at.is_some_and(|at| at >= job.begun_at);
            if is_older || self.under_way.contains(&id) {
                // Another answer came while this was under way: nobody knows which of
                // them is newer.
                continue;
            }
            let purpose = match asked.wanted {
                Some((wanted, purpose)) if wanted == id => purpose,
                _ => Purpose::Due,
            };
            let purpose = match (purpose, kept.copy.is_some()) {
                (Purpose::Due | Purpose::Audit, false) => Purpose::First,
                (purpose, _) => purpose,
            };
            let state = &self.sources[&source];
            let done = Done {
                at,
                status: Some(200),
                found: Ok(Found::Here(Box::new(row.here))),
                job: Job {
                    url: job.url.clone(),
                    host: job.host,
                    purpose,
                    is_counted: false,
                    begun_at: job.begun_at,
                    lens: Arc::clone(&state.lens),
                    kind: SourceKind::Search,
                    max_entries: 0,
                    wants_links: false,
                    question: None,
                    kept,
                },
            };
            self.conclude_element(done, false, now)?;
            if let Some(search) = self.search_of(source) {
                search.polled(id, &row.id, row.news.as_ref(), at);
            }
        }
        if n_added > 0 {
            self.told.push(Event::Found {
                source: self.sources[&source].source.name.clone(),
                n_elements: n_added,
            });
            self.expect();
        }
        let page = PageSeen {
            n_results,
            n_repeated: found.n_repeated,
            n_unusable: found.n_unusable,
            total: found.total,
            returned: &returned,
        };
        self.keep_query(source, asked, &page, at)
    }

    /// What is known of a query after a page of its answer.
    fn keep_query(
        &mut self,
        source: SourceId,
        asked: &AskedPage,
        page: &PageSeen<'_>,
        at: Moment,
    ) -> Result<(), Error> {
        let before = self.query(source, &asked.text)?;
        let Some(search) = self.searches.get_mut(&source) else {
            return Ok(());
        };
        let settings = &search.form.search;
        let (size, top) = (u64::from(settings.page_size), u64::from(settings.top));
        let n_seen = (asked.page - 1) * size + page.n_results as u64;
        let most = page
            .total
            .map_or(f64::INFINITY, |total| total.min(top as f64));
        let is_full = page.n_results as u64 >= size;
        let is_end = asked.page * size >= top || (asked.page * size) as f64 >= most;
        let is_short = !is_full && !is_end && page.total.is_some();
        // A page that is not full is the last, unless the server says that there are more.
        let (total, at_least) = match page.total {
            Some(total) => (Some(total), n_seen as f64),
            None if !is_full => (Some(n_seen as f64), n_seen as f64),
            None => (None, n_seen as f64 + f64::from(u8::from(!is_end))),
        };
        let memory = search.read(
            (asked.query, asked.generation),
            asked.page,
            page.returned,
            (total, at_least),
        );
        let mut notes = Vec::new();
        if is_short {
            let n = page.n_results;
            notes.push(format!(
                "page {} had {n} results instead of {size}",
                asked.page
            ));
        }
        if page.n_results as u64 > size {
            let n = page.n_results;
            notes.push(format!(
                "page {} had {n} results, more than {size}",
                asked.page
            ));
        }
        if page.n_repeated > 0 {
            notes.push(format!("{} results came twice", page.n_repeated));
        }
        if page.n_unusable > 0 {
            notes.push(format!(
                "{} results had no id or no fields",
                page.n_unusable
            ));
        }
        let n_ours = page.returned.len() as u32;
        let is_first = asked.page == 1;
        let (mut n_results, mut all_ours) = (page.n_results as u32, n_ours);
        if let Some(before) = before.as_ref().filter(|_| !is_first) {
            n_results = n_results.saturating_add(before.n_results);
            all_ours = all_ours.saturating_add(before.n_ours);
        }
        let n_requests = before.as_ref().map_or(0, |before| before.n_requests);
        let kept = before.map(|before| before.memory).unwrap_or_default();
        self.facts.push(Fact::Query(Query {
            source,
            text: asked.text.clone(),
            asked_at: at,
            n_requests: n_requests.saturating_add(1),
            total: total.map(|total| total as u64),
            n_results,
            n_ours: all_ours,
            note: (!notes.is_empty()).then(|| notes.join("; ")),
            memory: memory.unwrap_or(kept),
        }));
        Ok(())
    }

    fn query(&self, source: SourceId, text: &str) -> Result<Option<Query>, Error> {
        let pending = self.facts.iter().rev().find_map(|fact| match fact {
            Fact::Query(query) if query.source == source && query.text == text => {
                Some(query.clone())
            }
            _ => None,
        });
        match pending {
            Some(query) => Ok(Some(query)),
            None => Ok(self.store.query(source, text)?),
        }
    }

    /// A row by its id, and whether it became ours just now.
    fn our_row(&mut self, source: SourceId, id: &str) -> Result<Option<(Kept, bool)>, Error> {
        if let Some(kept) = self.find(source, id)? {
            let is_ours = self.searches[&source].is_ours(kept.element.id);
            return Ok(is_ours.then_some((kept, false)));
        }
        let state = &self.sources[&source];
        let n_elements = state.source.totals.n_elements + state.source.totals.n_gone;
        let adds = state
            .settings
            .search
            .as_ref()
            .is_some_and(|s| s.adds_unknown);
        if !adds || n_elements >= state.settings.max_elements {
            return Ok(None);
        }
        let weight = state.settings.weight as f32;
        let key = search_group(&state.source.name);
        let (host, group) = self.place_named(&key, &[])?;
        let element = Element {
            id: ElementId(self.next_element),
            source,
            locator: id.to_owned(),
            group,
            host,
            role: Role::Page,
            weight,
            // One away from what the file has.
            depth: 1,
        };
        self.next_element += 1;
        if let Some(state) = self.sources.get_mut(&source) {
            state.source.totals.n_elements += 1;
            state.source.totals.n_new += 1;
            self.changed_sources.insert(source);
        }
        let now = clock::now();
        if let Some(search) = self.searches.get_mut(&source) {
            search.add(element.id, id, f64::from(weight), now);
        }
        self.facts.push(Fact::Element(element.clone()));
        Ok(Some((Kept::new(element), true)))
    }

    /// What is wrong with a source now, or that nothing is.
    fn note_failure(&mut self, source: SourceId, failure: Option<Failure>) {
        let Some(state) = self.sources.get_mut(&source) else {
            return;
        };
        if let Some(failure) = &failure {
            self.told.push(Event::SourceFailed {
                source: state.source.name.clone(),
                message: failure.message.clone(),
            });
        }
        let is_same = match (&failure, &state.source.error) {
            (None, None) => true,
            // What is wrong with its rows' file is another matter.
            (None, Some(before)) => before.kind == "rows",
            _ => false,
        };
        if !is_same {
            state.source.error = failure.clone();
            self.facts.push(Fact::SourceError(source, failure));
        }
    }

    /// A poll of a row that comes to nothing: it is asked by its id no sooner than then.
    pub(super) fn hold_row(&mut self, source: SourceId, id: ElementId, due: Time) -> bool {
        let Some(search) = self.searches.get_mut(&source) else {
            return false;
        };
        if let Some(due) = clock::moment_of(due) {
            search.hold(id, due, clock::now());
        }
        search.is_ours(id)
    }

    /// Begins a poll of one row: by its id, or else by the best query that finds it.
    pub(super) fn begin_row(
        &mut self,
        kept: Kept,
        purpose: Purpose,
        is_counted: bool,
        now: Moment,
    ) -> Result<bool, Error> {
        let (id, source) = (kept.element.id, kept.element.source);
        if !self.searches[&source].is_ours(id) {
            return Ok(false);
        }
        if !self.may_be_asked(source, now) {
            if purpose == Purpose::Asked {
                self.asked.push_front(id);
            }
            return Ok(false);
        }
        let form = self.searches[&source].form.clone();
        let Some(template) = &form.search.by_id else {
            let ask = self.searches[&source].choose_for(id);
            return match ask {
                Some(ask) => self.ask(source, ask, Some((id, purpose)), is_counted, now),
                None => Ok(false),
            };
        };
        let filled = form::for_row(template, &kept.element.locator);
        let (url, failure) = match filled {
            Ok(filled) => (filled.url, None),
            Err(failure) => (super::begin::robots_free(), Some(failure)),
        };
        let purpose = match (purpose, kept.copy.is_some()) {
            (Purpose::Due | Purpose::Audit, false) => Purpose::First,
            (purpose, _) => purpose,
        };
        let state = &self.sources[&source];
        let job = Job {
            host: kept.element.host,
            url,
            purpose,
            is_counted,
            begun_at: now,
            lens: Arc::clone(&state.lens),
            kind: SourceKind::Search,
            max_entries: 0,
            wants_links: false,
            question: Some(Question {
                form,
                asked: Asked::Row,
                body: None,
            }),
            kept,
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
            search.is_waiting = true;
        }
        self.wait_for_host(job, now)
    }

    /// A request whose host is to be left alone for longer than it is worth waiting.
    pub(super) fn request_later(&mut self, job: &Job, group: GroupId, now: Moment) {
        let at = clock::time(now);
        let until = self.hosts.paused_until(group, at) + retry_in(1, &mut self.rng);
        if job.page().is_some() {
            self.drop_page(job);
        }
        let source = job.kept.element.source;
        if let (Some(search), Some(until)) =
            (self.searches.get_mut(&source), clock::moment_of(until))
        {
            search.is_waiting = false;
            search.leave_alone(until);
        }
    }

    /// Whether some of those that were asked for may be asked by then; and if not, whether
    /// that is since their source is left alone.
    pub(super) fn is_worth_waiting(&self, by: Time, now: Moment) -> Result<(), Why> {
        let mut blocked = Why::Budget;
        for id in &self.asked {
            let mut of = self.searches.values().filter(|search| search.is_ours(*id));
            match of.next() {
                Some(search) if search.paused_until(now) > by => blocked = Why::Done,
                // Queries that are being made up are there before long.
                Some(search) if search.allowed_at(now) > by => {}
                _ => return Ok(()),
            }
        }
        Err(blocked)
    }

    /// Whether there are rows that are new, or have waited as long as they may, and that
    /// may be asked for by then.
    pub(super) fn has_due_rows(&self, by: Time, now: Moment) -> bool {
        let is_due = |search: &Search| search.is_due(now) && search.allowed_at(now) <= by;
        self.searches.values().any(is_due)
    }

    /// Rows that nothing returns are told to be such.
    fn give_up_rows(&mut self, source: SourceId, now: Moment) -> Result<(), Error> {
        let given_up = match self.searches.get_mut(&source) {
            Some(search) => search.take_given_up(),
            None => return Ok(()),
        };
        for id in given_up {
            let kept = match self.pending(id) {
                Some(kept) => Some(kept),
                None => self.store.element(id)?,
            };
            if let Some(mut kept) = kept {
                kept.failure = Some(Failure {
                    kind: "unreached".to_owned(),
                    message: "no query returns it, and it cannot be asked for by its id".to_owned(),
                    at: now,
                });
                self.facts.push(Fact::Kept(Box::new(kept)));
            }
        }
        Ok(())
    }
}

/// What was on a page.
struct PageSeen<'a> {
    n_results: usize,
    n_repeated: usize,
    n_unusable: usize,
    total: Option<f64>,
    returned: &'a [ElementId],
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
        id: kept.element.locator,
    }
}

fn kept_out(permit: Permit, at: Moment) -> Failure {
    let message = match permit {
        Permit::Unreachable => {
            "the site's robots.txt could not be had, so nobody knows what it allows"
        }
        _ => "the site's robots.txt asks us to keep away from its search",
    };
    Failure {
        kind: "robots".to_owned(),
        message: message.to_owned(),
        at,
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
