//! What follows from the answer of a search box, or from none.

use springtide_policy::agenda::ROBOTS_HOLD;
use springtide_policy::agenda::rows::PageRead;
use springtide_policy::query::Retrieval;
use springtide_policy::{Span, Weight};
use springtide_store::{
    Element, ElementId, Failure, FailureKind, Kept, Moment, Poll, PollOutcome, Purpose, Query,
    Role, SourceId, State,
};

use super::Engine;
use super::conclude::SharedAnswer;
use super::search::search_id;
use crate::event::Event;
use crate::keep::{Finding, kept_out};
use crate::poll::{EndedPoll, PendingPoll, PollResult};
use crate::register::search_group;
use crate::search::AskedPage;
use crate::source::{PageTally, Reading};
use crate::{Error, clock};

impl Engine {
    /// A row that was asked for by its id.
    pub(super) fn conclude_row(&mut self, ended: &EndedPoll, now: Moment) -> Result<(), Error> {
        let (id, source) = (ended.poll.kept.element.id, ended.poll.kept.element.source);
        let locator = &ended.poll.kept.element.locator;
        let (at, seen) = (ended.at, ended.seen());
        if let Some(search) = &ended.poll.search {
            self.agenda.search_over(&search.poll.request);
        }
        match seen.finding {
            Finding::Here(_) | Finding::NotThere => {
                self.answered(source, ended.poll.begun_at, now.max(at));
            }
            Finding::NotModified => {}
            Finding::KeptOut(..) => {
                if let Some(decisions) = self.decisions(source) {
                    decisions.hold(id, ROBOTS_HOLD, clock::time(now));
                }
                if ended.poll.kept.copy.is_some() {
                    // Queries still return it.
                    return Ok(());
                }
            }
            Finding::Failed(failure) => {
                let message = format!("the row {locator:?}: {}", failure.message);
                self.refused(&ended.poll, failure.kind, (message, at), now);
            }
        }
        let is_asked = self.conclude_element(&seen, now)?;
        self.progress.n_polls += u64::from(is_asked);
        let is_here = matches!(seen.finding, Finding::Here(_));
        let is_out = !is_here && self.is_gone(id)?;
        let decisions = self.agenda.search_mut(search_id(source));
        if let (Some(search), Some(decisions)) = (self.searches.get_mut(&source), decisions) {
            if let Finding::Here(sighting) = seen.finding {
                search.polled(decisions, (id, locator), sighting.news.as_deref(), at);
            } else if is_out {
                decisions.out(id);
            }
        }
        Ok(())
    }

    fn is_gone(&self, id: ElementId) -> Result<bool, Error> {
        let kept = self.ledger.kept(id)?;
        Ok(kept.is_none_or(|kept| kept.state == State::Gone))
    }

    /// A request was answered as it should be.
    fn answered(&mut self, source: SourceId, begun_at: Moment, now: Moment) {
        let before = self
            .ledger
            .source(source)
            .and_then(|known| known.error.clone());
        // A request sent before a refusal and answered after it does not cancel the refusal.
        if before.as_ref().is_some_and(|error| error.at >= begun_at) {
            return;
        }
        if let Some(decisions) = self.decisions(source) {
            decisions.answered(clock::time(now));
        }
        // An error of the file of rows stays: an answer does not fix it.
        if before.is_some_and(|error| error.kind != FailureKind::Rows) {
            self.set_source_error(source, None);
        }
    }

    /// A request was not answered, or not as it should be: unless its host is left
    /// alone for that, its source is.
    fn refused(
        &mut self,
        poll: &PendingPoll,
        kind: FailureKind,
        (mut message, at): (String, Moment),
        now: Moment,
    ) -> Failure {
        let source = poll.kept.element.source;
        let is_left_alone = self.agenda.gate().paused_until(poll.host) > clock::time(now);
        let mut wait = None;
        if let Some(decisions) = self.decisions(source) {
            decisions.ended(clock::time(now.max(at)));
            if !kind.is_host_trouble() && !is_left_alone {
                let begun_at = clock::time(poll.begun_at);
                wait = decisions.refused(begun_at, clock::time(now));
            }
        }
        if let Some(wait) = wait {
            // To the millisecond, as moments are.
            let seconds = (wait.as_days() * 86_400_000.0).ceil() / 1000.0;
            message += &format!("; no requests for {seconds} s");
        }
        let failure = Failure { kind, message, at };
        self.set_source_error(source, Some(failure.clone()));
        failure
    }

    /// A page of the answer to a query, or none.
    pub(super) fn conclude_page(&mut self, ended: EndedPoll, now: Moment) -> Result<(), Error> {
        let source = ended.poll.kept.element.source;
        let Some(search) = &ended.poll.search else {
            return Ok(());
        };
        self.agenda.search_over(&search.poll.request);
        let Some(page) = search.page.clone() else {
            return Ok(());
        };
        if !self.sources.contains_key(&source) {
            return Ok(());
        }
        let failure = match &ended.found {
            Ok(PollResult::Read(_)) => {
                self.answered(source, ended.poll.begun_at, now.max(ended.at));
                None
            }
            Err(failure) => {
                let message = format!("the query {:?}: {}", page.text, failure.message);
                Some(self.refused(&ended.poll, failure.kind, (message, ended.at), now))
            }
            Ok(PollResult::KeptOut(permit, robots_failure)) => {
                // Nothing was sent. It is tried again once robots.txt may say otherwise.
                let pause = Span::days(ROBOTS_HOLD.as_days() / 24.0)?;
                if let Some(decisions) = self.decisions(source) {
                    decisions.leave_alone(pause, clock::time(now));
                }
                let failure = kept_out(*permit, robots_failure.as_ref(), ended.at);
                self.set_source_error(source, Some(failure.clone()));
                Some(failure)
            }
        };
        if failure.is_some()
            && let Some(decisions) = self.decisions(source)
        {
            decisions.page_failed(&page.request);
        }
        if !matches!(ended.found, Ok(PollResult::KeptOut(..))) {
            self.progress.n_polls += 1;
            self.keep_request(&ended, failure.as_ref())?;
        }
        let reading = match &ended.found {
            Ok(PollResult::Read(reading)) => Some(&**reading),
            _ => None,
        };
        self.pending_events.push(Event::Asked {
            source: self.ledger.name(source),
            query: page.text.clone(),
            page: page.request.number,
            n_results: reading.map_or(0, |reading| reading.page.n_results),
            n_ours: reading.map_or(0, |reading| reading.others.len()),
            at: ended.at,
            status: ended.status,
            seconds: clock::millis_between(ended.poll.begun_at, ended.at) as f64 / 1000.0,
            error: failure.map(|failure| (failure.kind, failure.message)),
        });
        let answer = SharedAnswer {
            begun_at: ended.poll.begun_at,
            at: ended.at,
            status: ended.status,
            purpose: Purpose::Due,
        };
        if let Ok(PollResult::Read(reading)) = ended.found {
            self.note_absent_fields(source, &reading.page, ended.at);
            self.take_in_page(source, &page, *reading, answer, now)?;
        }
        let decisions = self.agenda.search_mut(search_id(source));
        if let (Some(search), Some(decisions)) = (self.searches.get(&source), decisions)
            && let Some(preparation) = search.next_preparation(decisions)
        {
            self.prepare(source, preparation);
        }
        Ok(())
    }

    /// A field that no result has is an error of the source: its pointer is probably wrong.
    fn note_absent_fields(&mut self, source: SourceId, page: &PageTally, at: Moment) {
        let Some(state) = self.sources.get_mut(&source) else {
            return;
        };
        if page.n_rows == 0 {
            return;
        }
        match state.n_rows_seen {
            0 => state.absent = page.absent.clone(),
            _ => state.absent.retain(|name| page.absent.contains(name)),
        }
        state.n_rows_seen = state.n_rows_seen.saturating_add(page.n_rows);
        let pointers = state.settings.search.as_ref();
        let pointers = pointers.map_or(&[][..], |search| &search.answer.fields);
        let absent = pointers
            .iter()
            .filter(|(name, _)| state.absent.contains(name));
        let absent: Vec<String> = absent
            .map(|(name, pointer)| format!("`{name}` (at {pointer:?})"))
            .collect();
        let message = match absent.len() {
            0 => None,
            _ if state.n_rows_seen < ENOUGH_ROWS => return,
            1 => Some(format!("{NO_RESULT_HAS} the field {}", absent.concat())),
            _ => Some(format!("{NO_RESULT_HAS} the fields {}", absent.join(", "))),
        };
        let known = self.ledger.source(source);
        let known = known.and_then(|known| known.error.as_ref());
        let known = known.filter(|error| error.message.starts_with(NO_RESULT_HAS));
        if known.map(|error| &error.message) != message.as_ref() {
            let failure = message.map(|message| Failure {
                // The settings are wrong: a good answer does not clear that.
                kind: FailureKind::Rows,
                message,
                at,
            });
            self.set_source_error(source, failure);
        }
    }

    /// A request is a poll of the search box.
    fn keep_request(&mut self, ended: &EndedPoll, failure: Option<&Failure>) -> Result<(), Error> {
        let now_kept = self.ledger.kept(ended.poll.kept.element.id)?;
        let before = now_kept.unwrap_or_else(|| ended.poll.kept.clone());
        let mut kept = before.clone();
        kept.history.n_polls = kept.history.n_polls.saturating_add(1);
        kept.history.polled_at = Some(ended.at);
        kept.failure = failure.cloned();
        if failure.is_some() {
            kept.state = State::Failing;
            kept.n_failures = kept.n_failures.saturating_add(1);
        } else {
            kept.state = State::Ok;
            kept.n_failures = 0;
            kept.history.first_polled_at.get_or_insert(ended.at);
            kept.history.synced_at = Some(ended.at);
        }
        let poll = Poll {
            element: kept.element.id,
            source: kept.element.source,
            begun_at: ended.poll.begun_at,
            at: ended.at,
            since: before.history.synced_at,
            outcome: match failure {
                Some(_) => PollOutcome::Failed,
                None => PollOutcome::Unchanged,
            },
            status: ended.status,
            error: failure.map(|failure| failure.kind),
            purpose: ended.poll.purpose,
            is_counted: ended.poll.is_counted,
            age_ms: None,
        };
        self.progress.n_failed += u64::from(failure.is_some());
        self.ledger.count(&before, &kept, Some(&poll));
        self.ledger.write_poll(poll);
        self.ledger.write(kept);
        Ok(())
    }

    /// Takes in our rows on a page, each a poll of its own.
    fn take_in_page(
        &mut self,
        source: SourceId,
        asked: &AskedPage,
        reading: Reading,
        answer: SharedAnswer,
        now: Moment,
    ) -> Result<(), Error> {
        let mut returned = Vec::with_capacity(reading.others.len());
        let mut n_added = 0;
        for (row, sighting) in reading.others {
            let Some((kept, is_added)) = self.our_row(source, &row)? else {
                continue;
            };
            n_added += u64::from(is_added);
            let id = kept.element.id;
            returned.push(id);
            let purpose = match asked.wanted {
                Some((wanted, purpose)) if wanted == id => purpose,
                _ if self.agenda.asked().any(|asked| asked == id) => Purpose::Asked,
                _ => Purpose::Due,
            };
            let answer = SharedAnswer { purpose, ..answer };
            let Some(sighting) = self.conclude_sighting(&kept, sighting, &answer, now)? else {
                continue;
            };
            let decisions = self.agenda.search_mut(search_id(source));
            if let (Some(search), Some(decisions)) = (self.searches.get_mut(&source), decisions) {
                let news = sighting.news.as_deref();
                search.polled(decisions, (id, &row), news, answer.at);
            }
        }
        self.agenda
            .forget_asked(|wanted| returned.contains(&wanted));
        if n_added > 0 {
            self.pending_events.push(Event::Found {
                source: self.ledger.name(source),
                n_elements: n_added,
            });
            self.expect();
        }
        let page = PageSeen {
            read: PageRead {
                n_results: reading.page.n_results as u64,
                told_total: reading.page.total,
                returned: &returned,
            },
            tally: &reading.page,
        };
        self.keep_query(source, asked, &page, answer.at)
    }

    /// What is known of a query after a page of its answer.
    fn keep_query(
        &mut self,
        source: SourceId,
        asked: &AskedPage,
        page: &PageSeen<'_>,
        at: Moment,
    ) -> Result<(), Error> {
        let before = self.ledger.query(source, &asked.text)?;
        let decisions = self.agenda.search_mut(search_id(source));
        let (Some(search), Some(decisions)) = (self.searches.get(&source), decisions) else {
            return Ok(());
        };
        let (retrieval, number) = (search.context.retrieval(), asked.request.number);
        let total = page.read.n_results_of_query(&retrieval, number).total;
        let note = page.oddities(&retrieval, number);
        let memory = decisions.page_read(&asked.request, &page.read);
        let mut n_results = page.read.n_results as u32;
        let mut n_ours = page.read.returned.len() as u32;
        if let Some(before) = before.as_ref().filter(|_| number > 1) {
            n_results = n_results.saturating_add(before.n_results);
            n_ours = n_ours.saturating_add(before.n_ours);
        }
        let n_requests = before.as_ref().map_or(0, |before| before.n_requests);
        let kept = before.map(|before| before.memory).unwrap_or_default();
        self.ledger.write_query(Query {
            source,
            text: asked.text.clone(),
            asked_at: at,
            n_requests: n_requests.saturating_add(1),
            total: total.map(|total| total as u64),
            n_results,
            n_ours,
            note,
            memory: memory.unwrap_or(kept),
        });
        Ok(())
    }

    /// A row by its id, and whether it became ours just now.
    fn our_row(&mut self, source: SourceId, id: &str) -> Result<Option<(Kept, bool)>, Error> {
        if let Some(kept) = self.ledger.find(source, id)? {
            let decisions = self.agenda.search(search_id(source));
            let is_ours = decisions.is_some_and(|decisions| decisions.is_ours(kept.element.id));
            return Ok(is_ours.then_some((kept, false)));
        }
        let Some(known) = self.ledger.source(source) else {
            return Ok(None);
        };
        let n_elements = known.totals.n_elements + known.totals.n_gone;
        let key = search_group(&known.name);
        let settings = &self.sources[&source].settings;
        let adds = settings
            .search
            .as_ref()
            .is_some_and(|search| search.adds_unknown);
        if !adds || n_elements >= settings.max_elements {
            return Ok(None);
        }
        let weight = settings.weight;
        let scheduler = self.agenda.scheduler_mut();
        let (host, group) = self.ledger.groups_of(&key, &[], scheduler)?;
        let kept = self.ledger.add(Element {
            id: ElementId(0),
            source,
            locator: id.to_owned(),
            group,
            host,
            role: Role::Page,
            weight: weight as f32,
            // Depth 1: found in answers. Rows of the file have depth 0.
            depth: 1,
        })?;
        self.agenda.set_n_known(self.ledger.next_element());
        let at = clock::time(self.clock.now());
        if let Some(decisions) = self.decisions(source) {
            let weight = Weight::new(weight).unwrap_or(Weight::ONE);
            decisions.add(kept.element.id, weight, at);
        }
        if let Some(search) = self.searches.get_mut(&source) {
            search.add(id);
        }
        Ok(Some((kept, true)))
    }
}

/// A field that none of this many rows has is not there.
const ENOUGH_ROWS: usize = 20;
/// How such an error begins.
const NO_RESULT_HAS: &str = "no result has";

/// What was on a page.
struct PageSeen<'a> {
    read: PageRead<'a>,
    tally: &'a PageTally,
}

impl PageSeen<'_> {
    /// What is not as it should be about it, but no reason to refuse it.
    fn oddities(&self, retrieval: &Retrieval, number: u64) -> Option<String> {
        let (n, size) = (self.read.n_results, retrieval.page_size());
        let is_short = !self.read.is_full(retrieval) && !self.read.is_end(retrieval, number);
        let mut notes = Vec::new();
        if is_short && self.read.told_total.is_some() {
            notes.push(format!("page {number} had {n} results instead of {size}"));
        }
        if n > size {
            notes.push(format!("page {number} had {n} results, more than {size}"));
        }
        if self.tally.n_repeated > 0 {
            notes.push(format!("{} results came twice", self.tally.n_repeated));
        }
        if self.tally.n_unusable > 0 {
            notes.push(format!(
                "{} results had no id or no fields",
                self.tally.n_unusable
            ));
        }
        (!notes.is_empty()).then(|| notes.join("; "))
    }
}
