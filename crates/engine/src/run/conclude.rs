//! What follows from a poll that is over.

use springtide_policy::agenda::{ROBOTS_HOLD, cursor_element, listing_weight};
use springtide_policy::{GroupId, Outcome, Weight};
use springtide_store::{
    ChangeKind, Element, Failure, FailureKind, Kept, Moment, PollOutcome, Purpose, Role, SourceId,
    SourceKind, State,
};

use super::Engine;
use super::begin::purpose_of;
use super::listed::{NamedElement, ToAdd};
use super::listings::incomplete;
use crate::event::{Event, Polled};
use crate::keep::{self, Conclusion, Finding, SchedulerUpdate, Seen};
use crate::poll::EndedPoll;
use crate::settings::SourceSettings;
use crate::source::Sighting;
use crate::trust::PollEvidence;
use crate::view::redacted;
use crate::{Error, clock, fetch};

impl Engine {
    /// Takes in what a poll came to.
    pub(super) fn conclude(&mut self, ended: EndedPoll, now: Moment) -> Result<(), Error> {
        if ended.poll.table.is_some() {
            return self.conclude_table(ended, now);
        }
        match &ended.poll.search {
            Some(search) if search.page.is_some() => self.conclude_page(ended, now),
            Some(_) => self.conclude_row(&ended, now),
            None => {
                let is_asked = self.conclude_element(&ended.seen(), now)?;
                self.progress.n_polls += u64::from(is_asked);
                self.take_in_entries(ended, now)
            }
        }
    }

    /// Takes in what an answer shows of an element that it was not asked for. Says what
    /// that is, if it can be used.
    pub(super) fn conclude_sighting(
        &mut self,
        kept: &Kept,
        sighting: Sighting,
        answer: &SharedAnswer,
        now: Moment,
    ) -> Result<Option<Sighting>, Error> {
        let sighting = sighting.compared_with(kept.copy.as_ref());
        let is_newest = self.is_newest(kept, answer, now);
        let Some(sighting) = sighting.filter(|_| is_newest) else {
            return Ok(None);
        };
        let seen = answer.shows(kept, Finding::Here(&sighting));
        self.conclude_element(&seen, now)?;
        Ok(Some(sighting))
    }

    /// Whether what an answer shows of an element that it was not asked for is the newest
    /// that is known of it. If another answer came while this was under way, nobody knows
    /// which of them is newer.
    pub(super) fn is_newest(&self, kept: &Kept, answer: &SharedAnswer, now: Moment) -> bool {
        // Not if it was seen in the future, by a clock that was set back since.
        let since = answer.begun_at..=now;
        let is_older = kept.history.synced_at.is_some_and(|at| since.contains(&at));
        !is_older && !self.agenda.is_under_way(kept.element.id)
    }

    /// Takes in what was found of an element, by a poll of its own or among others. Says
    /// whether anything was asked.
    pub(super) fn conclude_element(&mut self, seen: &Seen<'_>, now: Moment) -> Result<bool, Error> {
        let id = seen.before.element.id;
        let source = seen.before.element.source;
        let at = clock::time(now);
        let Some(state) = self.sources.get_mut(&source) else {
            self.agenda.remove(id, at);
            return Ok(false);
        };
        let copy = seen.before.copy.as_ref();
        if copy.is_some_and(|copy| copy.last_modified.is_some()) {
            let is_false = keep::shows_a_false_date(seen);
            state.dates.note(is_false);
            if seen.is_answered() {
                let is_used = state.dates.is_trusted();
                self.trust.note_date(source, is_false, is_used);
            }
        }
        let is_table = state.settings.kind == SourceKind::Table;
        if !is_table && copy.is_some_and(|copy| copy.etag.is_some()) && seen.is_answered() {
            let is_false = keep::shows_a_false_tag(seen);
            self.trust.note_etag(source, is_false);
        }
        let belief = self.agenda.scheduler().belief(id, at);
        let Conclusion {
            mut kept,
            poll,
            change,
            next,
        } = keep::conclude(seen, belief, state.dates.is_trusted());

        if let SchedulerUpdate::Observed(outcome) = next {
            let evidence = PollEvidence {
                at: seen.at,
                has_changed: outcome.is_change(),
                is_listing: kept.element.role == Role::Listing,
                age_ms: match outcome {
                    Outcome::Changed { age } => {
                        age.map(|age| (age.as_days() * 86_400_000.0) as i64)
                    }
                    _ => None,
                },
            };
            self.trust.note_poll(source, id, evidence);
        }
        let group = Some(kept.element.host);
        match next {
            SchedulerUpdate::Observed(outcome) if belief.is_some() => {
                self.agenda.observe(id, outcome, at)
            }
            SchedulerUpdate::Join | SchedulerUpdate::Observed(_) => {
                let totals = self.ledger.source(source).map(|source| source.totals);
                let n_elements = totals.map_or(0, |totals| totals.n_elements);
                let Element {
                    role,
                    weight,
                    group,
                    ..
                } = kept.element;
                let settings = &self.sources[&source].settings;
                let element = member(settings, role, weight, group, n_elements);
                let is_watched = self.searches.contains_key(&source) || role == Role::Entry;
                match is_watched {
                    true => self.agenda.watch(id, element, at),
                    false => self.agenda.join(id, element, at, &mut self.rng),
                }
            }
            SchedulerUpdate::Retry if self.searches.contains_key(&source) => {
                self.postpone_row(&kept, at)
            }
            SchedulerUpdate::Retry if self.tables.contains_key(&source) => {
                let due = self.table_retry(u32::from(kept.n_failures), at);
                self.agenda.put_back(id, group, due, at);
            }
            SchedulerUpdate::Retry => {
                let n_failures = u32::from(kept.n_failures);
                self.agenda.retry(id, group, n_failures, at, &mut self.rng);
            }
            SchedulerUpdate::Out => {
                let wait = match kept.state {
                    State::Blocked => ROBOTS_HOLD,
                    _ => self.max_recheck_interval(source, self.recheck_interval()),
                };
                self.agenda.leave(id, group, wait, at);
            }
        }
        if let Some(pause) = seen.pause {
            self.pause_listing(id, seen.at, pause);
        }
        if let Some(memory) = self.agenda.scheduler().remember(id) {
            kept.history.memory = memory;
        }
        let groups = self.agenda.scheduler().groups();
        self.changed_groups.extend(groups.path(kept.element.group));
        self.ledger.count(seen.before, &kept, poll.as_ref());
        self.note_source_error(&kept, seen);
        let outcome = poll.as_ref().map(|poll| poll.outcome);
        self.progress.n_failed += u64::from(outcome == Some(PollOutcome::Failed));
        let kind = change.as_ref().map(|change| change.kind);
        self.progress.n_changes += u64::from(kind == Some(ChangeKind::Changed));
        let failure = kept.failure.as_ref();
        self.pending_events.push(Event::Polled(Polled {
            element: id,
            locator: redacted(&kept.element.locator).into_owned(),
            source: self.ledger.name(source),
            at: seen.at,
            seconds: clock::millis_between(seen.begun_at, seen.at) as f64 / 1000.0,
            status: seen.status,
            n_bytes: match seen.finding {
                Finding::Here(sighting) => Some(sighting.n_bytes),
                _ => None,
            },
            purpose: seen.purpose,
            change: kind,
            differs: false,
            versions: (kind == Some(ChangeKind::Changed))
                .then(|| Some((copy?.body, kept.copy.as_ref()?.body)))
                .flatten(),
            error: failure.map(|failure| (failure.kind, failure.message.clone())),
            n_new: self.n_new(),
        }));
        self.follow_up(seen, &mut kept)?;
        if let Some(poll) = poll {
            self.ledger.write_poll(poll);
        }
        if let Some(change) = change {
            self.ledger.write_change(change);
        }
        let is_listing = kept.element.role == Role::Listing && !self.tables.contains_key(&source);
        if is_listing && seen.has_changed() {
            // What it lists is kept before it counts as read: whoever dies in between
            // reads it again.
            let before = seen.before.copy.clone();
            self.agenda.set_under_way(id);
            self.listed
                .push_back(ToAdd::ListingDone(Box::new(kept.clone())));
            kept.copy = before;
        }
        self.ledger.write(kept);
        Ok(outcome.is_some())
    }

    /// What else follows from what was found: elements that it names, and where it has
    /// moved.
    fn follow_up(&mut self, seen: &Seen<'_>, kept: &mut Kept) -> Result<(), Error> {
        let source = kept.element.source;
        let depth = kept.element.depth.saturating_add(1);
        let state = &self.sources[&source];
        let follows_links = !state.has_sitemaps && depth <= state.settings.max_depth;
        let mentions = seen.mentions.iter();
        let mentions = mentions.filter(|mention| follows_links || mention.role != Role::Hub);
        self.listed.extend(mentions.map(|mention| {
            ToAdd::Named(NamedElement {
                source,
                url: mention.locator.clone(),
                role: mention.role,
                depth,
                mention: mention.kind,
                by: Some(kept.element.id),
            })
        }));
        self.note_move(seen.before, kept)
    }

    /// Whether an element has moved for good: its locator has redirected to the same address
    /// for a while, and no other element is there or is redirected there. A login or a
    /// notice in place of many pages is not a move. The locator stays, since the page may be
    /// there again some day, but the element waits for turns at the host it moved to.
    fn note_move(&mut self, before: &Kept, kept: &mut Kept) -> Result<(), Error> {
        let (source, id) = (kept.element.source, kept.element.id);
        let was_move = before
            .copy
            .as_ref()
            .and_then(|copy| copy.redirect.as_ref())
            .is_some_and(|redirect| redirect.is_move);
        let redirect = kept.copy.as_mut().and_then(|copy| copy.redirect.as_mut());
        let mut moved_to = None;
        if let Some(redirect) = redirect {
            let lasted = clock::millis_between(redirect.first_at, redirect.last_at);
            redirect.is_move = redirect.n_polls >= MOVED_AFTER_POLLS
                && lasted >= MOVED_AFTER
                && self.ledger.find(source, &redirect.to)?.is_none()
                && self.ledger.is_sole_redirect(source, id, &redirect.to)?;
            moved_to = redirect.is_move.then(|| redirect.to.clone());
        }
        if was_move != moved_to.is_some()
            && let Ok(url) = fetch::locator(moved_to.as_ref().unwrap_or(&kept.element.locator))
        {
            let (host, group) = self.groups_of(&url)?;
            if host != kept.element.host {
                (kept.element.host, kept.element.group) = (host, group);
            }
        }
        Ok(())
    }

    /// A listing that fails, or is cut short, is an error of its source; so is the only
    /// page of one.
    fn note_source_error(&mut self, kept: &Kept, seen: &Seen<'_>) {
        let source = kept.element.source;
        let Some(state) = self.sources.get(&source) else {
            return;
        };
        let has_many = matches!(state.settings.kind, SourceKind::List | SourceKind::Search);
        let speaks_for_it =
            kept.element.role == Role::Listing || kept.element.depth == 0 && !has_many;
        if !speaks_for_it {
            return;
        }
        let failure = match seen.problem {
            Some(problem) => Some(incomplete(kept, problem, seen.at)),
            None => kept.failure.clone(),
        };
        // A listing that was cut short and has not changed is still cut short.
        let before = self.ledger.source(source);
        let was_cut = before
            .and_then(|known| known.error.as_ref())
            .is_some_and(|error| error.kind == FailureKind::Listing);
        if failure.is_none() && seen.is_as_before() && was_cut {
            return;
        }
        self.set_listing_error(kept, failure);
    }

    /// What is wrong with a source now, or that nothing is.
    pub(super) fn set_source_error(&mut self, source: SourceId, failure: Option<Failure>) {
        if let Some(failure) = &failure {
            self.pending_events.push(Event::SourceFailed {
                source: self.ledger.name(source),
                message: failure.message.clone(),
            });
        }
        self.ledger.set_error(source, failure);
    }
}

/// An element has moved once this many polls were sent to the same address.
const MOVED_AFTER_POLLS: u32 = 3;
/// The first and the last of them are this far apart, in milliseconds: 7 days. Logins,
/// notices and mistakes are over by then.
const MOVED_AFTER: i64 = 7 * 86_400_000;

/// An answer that shows several elements.
#[derive(Debug, Clone, Copy)]
pub(super) struct SharedAnswer {
    pub(super) begun_at: Moment,
    pub(super) at: Moment,
    pub(super) status: Option<u16>,
    /// What an element that it shows is polled for.
    pub(super) purpose: Purpose,
}

impl SharedAnswer {
    /// What it shows of an element that it was not asked for.
    pub(super) fn shows<'a>(&self, kept: &'a Kept, finding: Finding<'a>) -> Seen<'a> {
        Seen {
            before: kept,
            purpose: purpose_of(self.purpose, kept),
            is_counted: false,
            begun_at: self.begun_at,
            at: self.at,
            status: self.status,
            finding,
            url: None,
            redirects: None,
            mentions: &[],
            problem: None,
            pause: None,
        }
    }
}

/// Rows of a block, about, where nobody says how many.
const USUAL_ROWS: u32 = 500;

/// What the scheduler is told of an element of a source that has so many.
pub(super) fn member(
    source: &SourceSettings,
    role: Role,
    weight: f32,
    group: GroupId,
    n_elements: u64,
) -> springtide_policy::Element {
    let weight = f64::from(weight);
    let rows = (source.table.as_ref()).map(|table| table.block.unwrap_or(USUAL_ROWS));
    let group = Some(group);
    match (role, rows) {
        (Role::Listing, Some(rows)) => cursor_element(weight, n_elements, rows, group),
        (Role::Listing, None) => springtide_policy::Element {
            weight: listing_weight(weight, n_elements),
            group,
            ..springtide_policy::Element::default()
        },
        (_, rows) => springtide_policy::Element {
            weight: Weight::new(weight).unwrap_or(Weight::ONE),
            group,
            parts: rows.unwrap_or(1),
            ..springtide_policy::Element::default()
        },
    }
}
