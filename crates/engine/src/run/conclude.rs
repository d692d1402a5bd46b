//! What follows from a poll that is over.

use springtide_policy::agenda::retry_in;
use springtide_policy::{Cost, GroupId, Weight};
use springtide_store::{
    ChangeKind, Element, ElementId, Fact, Failure, FailureKind, Kept, Moment, Poll, PollOutcome,
    Role, SourceKind, State, Totals,
};
use url::Url;

use super::listed::{Item, Listed, News};
use super::{Engine, SourceState};
use crate::event::{Event, Polled};
use crate::keep::{self, Conclusion, Next};
use crate::poll::{Done, Found, ListingNews};
use crate::{Error, clock};

/// What a listing matters beside its elements: as much as this share of them.
const LISTING_SHARE: f64 = 0.02;
/// What a robots.txt says holds for a day, in milliseconds.
pub(super) const ROBOTS_HOLD: i64 = 86_400_000;

impl Engine {
    /// Takes in what a poll came to.
    pub(super) fn conclude(&mut self, done: Done, now: Moment) -> Result<(), Error> {
        match (&done.job.question, done.job.page()) {
            (_, Some(_)) => self.conclude_page(done, now),
            (Some(_), None) => self.conclude_row(done, now),
            (None, None) => self.conclude_element(done, true, now),
        }
    }

    /// Takes in what a poll of an element came to; some elements come many to a request,
    /// which counts for itself.
    pub(super) fn conclude_element(
        &mut self,
        done: Done,
        is_request: bool,
        now: Moment,
    ) -> Result<(), Error> {
        let id = done.job.kept.element.id;
        let source = done.job.kept.element.source;
        self.under_way.remove(&id);
        let Some(state) = self.sources.get_mut(&source) else {
            return Ok(());
        };
        if done
            .job
            .kept
            .copy
            .as_ref()
            .is_some_and(|copy| copy.last_modified.is_some())
        {
            state.n_dates += 1;
            state.n_false_dates += u32::from(keep::shows_a_false_date(&done));
        }
        let trusts_dates = state.n_false_dates * 20 <= state.n_dates;
        let at = clock::time(now);
        let belief = self.scheduler.belief(id, at);
        let Conclusion {
            mut kept,
            poll,
            change,
            next,
        } = keep::conclude(&done, belief, trusts_dates);

        let was_in = belief.is_some();
        match next {
            Next::Observed(outcome) if was_in => self.scheduler.observe(id, outcome, at),
            Next::Join | Next::Observed(_) => {
                let element = member(
                    kept.element.role,
                    kept.element.weight,
                    kept.element.group,
                    &self.sources[&source],
                );
                if was_in {
                    self.scheduler.remove(id, at);
                }
                if self.searches.contains_key(&source) {
                    self.scheduler.watch(id, element, at);
                } else {
                    self.scheduler.add(id, element, at, &mut self.rng);
                }
            }
            Next::Retry => {
                let mut due = at + retry_in(u32::from(kept.n_failures.max(1)), &mut self.rng);
                let until = self.hosts.paused_until(done.job.host, at);
                due = if until > due { until } else { due };
                if !self.hold_row(source, id, due) {
                    self.try_again(id, due, now);
                }
            }
            Next::Out => {
                if was_in {
                    self.scheduler.remove(id, at);
                }
                let wait = match kept.state {
                    State::Blocked => ROBOTS_HOLD,
                    _ => self.time_out().min(self.longest_out(source)),
                };
                self.timers.set(id, Moment(now.0.saturating_add(wait)));
            }
        }
        if let Some(memory) = self.scheduler.remember(id) {
            kept.history.memory = memory;
        }
        for group in self.scheduler.groups().path(kept.element.group) {
            self.changed_groups.insert(group);
        }
        self.count(&done.job.kept, &kept, poll.as_ref());
        self.note_source_error(&kept, &done);
        if poll.is_some() {
            self.n_polls += u64::from(is_request);
        } else if is_request {
            // Nothing was asked, so it does not count.
            self.n_begun = self.n_begun.saturating_sub(1);
        }
        self.n_changes += u64::from(
            change
                .as_ref()
                .is_some_and(|c| c.kind == ChangeKind::Changed),
        );
        let locator = kept.element.locator.clone();
        self.told.push(Event::Polled(Polled {
            element: id,
            locator,
            source: self.sources[&source].source.name.clone(),
            at: done.at,
            purpose: done.job.purpose,
            change: change.as_ref().map(|change| change.kind),
            error: kept
                .failure
                .as_ref()
                .map(|failure| (failure.kind, failure.message.clone())),
            n_new: self.first_pass.n_left() + self.n_new_rows(),
        }));
        self.follow_up(&done, &mut kept)?;
        self.facts.extend(poll.map(Fact::Poll));
        self.facts.extend(change.map(Fact::Change));
        let has_news = matches!(&done.found, Ok(Found::Here(here)) if here.listing.is_some());
        if has_news {
            // What it lists is kept before it counts as read: whoever dies in between
            // reads it again.
            let before = done.job.kept.copy.clone();
            self.under_way.insert(id);
            self.listed.push_back(Item::Read(Box::new(kept.clone())));
            kept.copy = before;
        }
        self.facts.push(Fact::Kept(Box::new(kept)));
        if self.sources[&source].listings.contains_key(&id)
            && let Some(state) = self.sources.get_mut(&source)
        {
            state.listings.insert(id, now);
        }
        Ok(())
    }

    /// What else follows from what was found: elements that it names, and where it has
    /// moved.
    pub(super) fn follow_up(&mut self, done: &Done, kept: &mut Kept) -> Result<(), Error> {
        let Ok(Found::Here(here)) = &done.found else {
            return Ok(());
        };
        let source = kept.element.source;
        let depth = kept.element.depth.saturating_add(1);
        let state = &self.sources[&source];
        let mut listed = Vec::new();
        let mut list = |urls: &[String], role, news| {
            listed.extend(urls.iter().map(|url| Listed {
                source,
                url: url.clone(),
                role,
                depth,
                news,
            }));
        };
        if let Some(ListingNews {
            pages,
            sitemaps,
            touched,
            removed,
            ..
        }) = &here.listing
        {
            list(sitemaps, Role::Listing, News::Added);
            list(pages, Role::Page, News::Added);
            list(touched, Role::Page, News::Touched);
            list(removed, Role::Page, News::Removed);
        }
        if !here.links.is_empty() && !state.has_sitemaps && depth <= state.settings.max_depth {
            let urls: Vec<String> = here.links.iter().map(Url::to_string).collect();
            list(&urls, Role::Hub, News::Added);
        }
        self.listed.extend(listed.into_iter().map(Item::Listed));
        if let Some(target) = &here.moved_to {
            self.move_to(kept, target)?;
        }
        Ok(())
    }

    /// An element has moved for good: it keeps its history and gets a new address, and
    /// a note is left at the old one; or, if there is an element at the new one, it is
    /// gone.
    pub(super) fn move_to(&mut self, kept: &mut Kept, target: &Url) -> Result<(), Error> {
        let element = &mut kept.element;
        if element.role == Role::Listing || target.as_str() == element.locator {
            return Ok(());
        }
        if self.sources[&element.source].settings.kind != SourceKind::Page
            && self.find(element.source, target.as_str())?.is_none()
        {
            if let Some(state) = self.sources.get_mut(&element.source) {
                state.source.totals.n_gone += 1;
            }
            let old = Element {
                id: ElementId(self.next_element),
                ..element.clone()
            };
            self.next_element += 1;
            let failure = Failure {
                kind: FailureKind::Moved,
                message: format!("moved to {target}"),
                at: self.clock.now(),
            };
            element.locator = target.to_string();
            let (host, group) = self.place(target)?;
            (element.host, element.group) = (host, group);
            self.facts.push(Fact::Element(old.clone()));
            self.facts.push(Fact::Kept(Box::new(Kept {
                element: old,
                state: State::Gone,
                failure: Some(failure),
                n_failures: 0,
                is_unlisted: true,
                copy: None,
                history: springtide_store::History::default(),
            })));
        }
        Ok(())
    }

    /// Keeps the running totals of a source.
    pub(super) fn count(&mut self, before: &Kept, after: &Kept, poll: Option<&Poll>) {
        let source = after.element.source;
        let Some(state) = self.sources.get_mut(&source) else {
            return;
        };
        let totals = &mut state.source.totals;
        if let Some(poll) = poll {
            totals.n_polls += 1;
            totals.n_changes += u64::from(poll.outcome == PollOutcome::Changed);
            self.n_failed += u64::from(poll.outcome == PollOutcome::Failed);
        }
        if after.element.role != Role::Listing {
            shift(totals, before.state, after.state);
        }
        self.changed_sources.insert(source);
    }

    /// A listing that fails, or is cut short, is an error of its source; so is the only
    /// page of one.
    pub(super) fn note_source_error(&mut self, kept: &Kept, done: &Done) {
        let source = kept.element.source;
        let Some(state) = self.sources.get_mut(&source) else {
            return;
        };
        let has_many = matches!(state.settings.kind, SourceKind::List | SourceKind::Search);
        let speaks_for_it =
            kept.element.role == Role::Listing || kept.element.depth == 0 && !has_many;
        if !speaks_for_it {
            return;
        }
        let cut_short = match &done.found {
            Ok(Found::Here(here)) => here
                .listing
                .as_ref()
                .and_then(|listing| listing.problem.as_ref()),
            _ => None,
        };
        let failure = match cut_short {
            Some(problem) => Some(Failure {
                kind: FailureKind::Listing,
                message: format!("{} is not whole: {problem}", kept.element.locator),
                at: done.at,
            }),
            None => kept.failure.clone(),
        };
        // A listing that is as it was when it was cut short still is.
        let is_same = matches!(&done.found, Ok(Found::NotModified))
            || matches!(&done.found, Ok(Found::Here(here)) if here.body.is_none());
        if failure.is_none() && is_same {
            let was_cut = state
                .source
                .error
                .as_ref()
                .is_some_and(|e| e.kind == FailureKind::Listing);
            if was_cut {
                return;
            }
        }
        if let Some(failure) = &failure {
            self.told.push(Event::SourceFailed {
                source: state.source.name.clone(),
                message: failure.message.clone(),
            });
        }
        if failure != state.source.error {
            state.source.error = failure.clone();
            self.facts.push(Fact::SourceError(source, failure));
        }
    }
}

/// What the scheduler is told of an element.
pub(super) fn member(
    role: Role,
    weight: f32,
    group: GroupId,
    state: &SourceState,
) -> springtide_policy::Element {
    let mut weight = f64::from(weight);
    if role == Role::Listing {
        weight *= (LISTING_SHARE * state.source.totals.n_elements as f64).max(1.0);
    }
    springtide_policy::Element {
        weight: Weight::new(weight).unwrap_or(Weight::ONE),
        cost: Cost::ONE,
        group: Some(group),
    }
}

/// An element went from one state to another.
fn shift(totals: &mut Totals, from: State, to: State) {
    if from == to {
        return;
    }
    let count = |totals: &mut Totals, state, by: i64| {
        let add = |n: &mut u64| *n = n.saturating_add_signed(by);
        match state {
            State::New => add(&mut totals.n_new),
            State::Ok => {}
            State::Failing => add(&mut totals.n_failing),
            State::Blocked => add(&mut totals.n_blocked),
            State::Gone => add(&mut totals.n_gone),
        }
        if state != State::Gone {
            add(&mut totals.n_elements);
        }
    };
    count(totals, from, -1);
    count(totals, to, 1);
}
