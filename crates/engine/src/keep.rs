//! What is known of an element after a poll, and what follows from it.

use std::time::Duration;

use springtide_policy::freshness::expected_age_of_first_change;
use springtide_policy::{Gamma, Outcome, Rate, Span};
use springtide_store::{
    Change, ChangeKind, Copy, Element, Failure, FailureKind, Kept, Moment, Poll, PollOutcome,
    Purpose, Redirect, Role, State,
};

use url::Url;

use crate::clock;
use crate::detect::size_of_change;
use crate::fetch::{self, FetchFailure, http_date};
use crate::poll::{EndedPoll, PollResult, RedirectPath};
use crate::robots_cache::Permit;
use crate::source::{Mention, OwnSighting, Sighting};

/// What a request showed of one element: of the one that it was for, or of another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen<'a> {
    /// The element, as it was before.
    pub(crate) before: &'a Kept,
    pub(crate) purpose: Purpose,
    pub(crate) is_counted: bool,
    pub(crate) begun_at: Moment,
    pub(crate) at: Moment,
    pub(crate) status: Option<u16>,
    pub(crate) finding: Finding<'a>,
    /// Where it was asked for, if it was asked for by itself.
    pub(crate) url: Option<&'a Url>,
    /// Where that led, if it was.
    pub(crate) redirects: Option<&'a RedirectPath>,
    /// What it names.
    pub(crate) mentions: &'a [Mention],
    /// Why that may not be all.
    pub(crate) problem: Option<&'a str>,
    /// For how long it asks not to be polled again.
    pub(crate) pause: Option<Duration>,
}

/// What a poll found of an element.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Finding<'a> {
    /// It is as it was, says the server.
    NotModified,
    Here(&'a Sighting),
    NotThere,
    KeptOut(Permit, Option<&'a FetchFailure>),
    Failed(&'a FetchFailure),
}

impl EndedPoll {
    /// What it showed of the element that was polled.
    pub(crate) fn seen(&self) -> Seen<'_> {
        let reading = match &self.found {
            Ok(PollResult::Read(reading)) => Some(&**reading),
            _ => None,
        };
        Seen {
            before: &self.poll.kept,
            purpose: self.poll.purpose,
            is_counted: self.poll.is_counted,
            begun_at: self.poll.begun_at,
            at: self.at,
            status: self.status,
            finding: match &self.found {
                Ok(PollResult::Read(reading)) => match &reading.own {
                    OwnSighting::Here(sighting) => Finding::Here(sighting),
                    OwnSighting::NotThere => Finding::NotThere,
                    OwnSighting::NotModified | OwnSighting::NoCopy => Finding::NotModified,
                },
                Ok(PollResult::KeptOut(permit, robots_failure)) => {
                    Finding::KeptOut(*permit, robots_failure.as_ref())
                }
                Err(failure) => Finding::Failed(failure),
            },
            url: Some(&self.poll.url),
            redirects: Some(&self.redirects),
            mentions: reading.map_or(&[], |reading| &reading.mentions),
            problem: reading.and_then(|reading| reading.problem.as_deref()),
            pause: reading.and_then(|reading| reading.pause),
        }
    }
}

impl Seen<'_> {
    /// Whether it is there and has changed.
    pub(crate) fn has_changed(&self) -> bool {
        matches!(self.finding, Finding::Here(sighting) if sighting.body.is_some())
    }

    /// Whether it was there to be seen.
    pub(crate) fn is_answered(&self) -> bool {
        matches!(self.finding, Finding::NotModified | Finding::Here(_))
    }

    /// Whether it is there, or is said to be, as it was.
    pub(crate) fn is_as_before(&self) -> bool {
        match self.finding {
            Finding::NotModified => true,
            Finding::Here(sighting) => sighting.body.is_none(),
            _ => false,
        }
    }
}

/// What a poll comes to.
#[derive(Debug)]
pub(crate) struct Conclusion {
    pub(crate) kept: Kept,
    pub(crate) poll: Option<Poll>,
    pub(crate) change: Option<Change>,
    pub(crate) next: SchedulerUpdate,
}

/// What the scheduler is to be told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum SchedulerUpdate {
    /// A first copy: the element takes part from now on.
    Join,
    /// It was polled.
    Observed(Outcome),
    /// It is to be tried again.
    Retry,
    /// It is out, and is looked at again some day.
    Out,
}

/// Why nothing was asked.
pub(crate) fn kept_out(
    permit: Permit,
    robots_failure: Option<&FetchFailure>,
    at: Moment,
) -> Failure {
    let (kind, message) = match (permit, robots_failure) {
        (Permit::Unreachable, Some(robots_failure)) => {
            (robots_failure.kind, robots_failure.message.clone())
        }
        (Permit::Unreachable, None) => (
            FailureKind::Robots,
            "the site's robots.txt could not be fetched; nothing is polled until it can be"
                .to_owned(),
        ),
        _ => (
            FailureKind::Robots,
            "disallowed by the site's robots.txt".to_owned(),
        ),
    };
    Failure { kind, message, at }
}

/// What is known after a poll, of what was known before and what it found.
///
/// `belief` is what is believed of the element's rate, and `trusts_dates` whether the
/// source's Last-Modified has proved true.
pub(crate) fn conclude(seen: &Seen<'_>, belief: Option<Gamma>, trusts_dates: bool) -> Conclusion {
    let before = seen.before;
    let mut kept = before.clone();
    let at = seen.at;
    let conclusion = |kept: Kept, outcome, change: Option<Change>, next, age_ms| Conclusion {
        poll: Some(Poll {
            element: kept.element.id,
            source: kept.element.source,
            begun_at: seen.begun_at,
            at,
            since: before.history.synced_at,
            outcome,
            status: seen.status,
            error: kept.failure.as_ref().map(|failure| failure.kind),
            purpose: seen.purpose,
            is_counted: seen.is_counted,
            age_ms,
        }),
        // A listing's new entries are not a change of content.
        change: change.filter(|_| kept.element.role != Role::Listing),
        kept,
        next,
    };
    kept.history.n_polls = kept.history.n_polls.saturating_add(1);
    kept.history.polled_at = Some(at);
    match seen.finding {
        Finding::KeptOut(permit, robots_failure) => {
            // Nothing was asked, so it was no poll.
            kept.history = before.history;
            kept.state = match (before.state, permit) {
                (State::Gone, _) => State::Gone,
                (_, Permit::Disallowed) => State::Blocked,
                // It was not disallowed: its host could not be reached.
                _ => State::Failing,
            };
            kept.failure = Some(kept_out(permit, robots_failure, at));
            Conclusion {
                kept,
                poll: None,
                change: None,
                next: match permit {
                    _ if before.state == State::Gone => SchedulerUpdate::Out,
                    Permit::Disallowed => SchedulerUpdate::Out,
                    _ => SchedulerUpdate::Retry,
                },
            }
        }
        Finding::NotThere => {
            kept.n_failures = kept.n_failures.saturating_add(1);
            // Gone at the second poll in a row that does not find it.
            let was_missing = before
                .failure
                .as_ref()
                .is_some_and(|failure| failure.kind == FailureKind::NotFound);
            let is_gone = seen.status == Some(410)
                || kept.is_unlisted
                || was_missing
                || before.state == State::Gone;
            let status = seen.status.unwrap_or(404);
            kept.failure = Some(Failure {
                kind: match is_gone {
                    true => FailureKind::Gone,
                    false => FailureKind::NotFound,
                },
                message: format!("the server answered with status {status}"),
                at,
            });
            if !is_gone {
                kept.state = State::Failing;
                return conclusion(
                    kept,
                    PollOutcome::Failed,
                    None,
                    SchedulerUpdate::Retry,
                    None,
                );
            }
            kept.state = State::Gone;
            let was_here = before.copy.is_some() && before.state != State::Gone;
            let change = was_here.then(|| change(before, &kept, at, ChangeKind::Gone, None));
            conclusion(kept, PollOutcome::Gone, change, SchedulerUpdate::Out, None)
        }
        Finding::Failed(failure) => {
            kept.n_failures = kept.n_failures.saturating_add(1);
            if kept.state != State::Gone {
                kept.state = State::Failing;
            }
            kept.failure = Some(describe(failure, at));
            let next = match kept.state {
                State::Gone => SchedulerUpdate::Out,
                _ => SchedulerUpdate::Retry,
            };
            conclusion(kept, PollOutcome::Failed, None, next, None)
        }
        Finding::NotModified => {
            answered(&mut kept, at);
            if let Some(copy) = &mut kept.copy {
                copy.redirect = redirect_of(seen);
            }
            let (change, next) = returned(before, &kept, at, Outcome::Unchanged);
            let age_ms = age_of_fresh(&kept, trusts_dates);
            conclusion(kept, PollOutcome::Unchanged, change, next, age_ms)
        }
        Finding::Here(here) => {
            answered(&mut kept, at);
            let is_first = before.copy.is_none();
            let has_changed = here.body.is_some();
            let size = before
                .copy
                .as_ref()
                .filter(|copy| has_changed && !(copy.sketch.is_empty() && here.sketch.is_empty()))
                .map(|copy| size_of_change(&copy.sketch, &here.sketch));
            kept.copy = Some(copy_of(seen, here));
            if is_first {
                kept.history.first_polled_at = Some(at);
                let change = change(before, &kept, at, ChangeKind::Added, None);
                return conclusion(
                    kept,
                    PollOutcome::First,
                    Some(change),
                    SchedulerUpdate::Join,
                    None,
                );
            }
            if !has_changed {
                let (change, next) = returned(before, &kept, at, Outcome::Unchanged);
                let age_ms = age_of_fresh(&kept, trusts_dates);
                return conclusion(kept, PollOutcome::Unchanged, change, next, age_ms);
            }
            kept.history.n_changes = kept.history.n_changes.saturating_add(1);
            let since_change = age_of_last_change(before, here, at).filter(|_| trusts_dates);
            let age = since_change.map(|age| clock::span(Duration::from_millis(age)));
            let outcome = match here.is_minor {
                true => Outcome::Unchanged,
                false => match here.n_parts {
                    Some(n_changed) => Outcome::Parts { n_changed },
                    None => Outcome::Changed { age },
                },
            };
            let (back, next) = returned(before, &kept, at, outcome);
            let change =
                back.unwrap_or_else(|| change(before, &kept, at, ChangeKind::Changed, size));
            let age_ms = since_change
                .zip(belief)
                .and_then(|(age, belief)| age_of_copy(before, at, age, belief));
            conclusion(kept, PollOutcome::Changed, Some(change), next, age_ms)
        }
    }
}

fn answered(kept: &mut Kept, at: Moment) {
    kept.state = State::Ok;
    kept.failure = None;
    kept.n_failures = 0;
    kept.history.synced_at = Some(at);
}

/// An element that was gone and answers is back; any other was observed.
fn returned(
    before: &Kept,
    kept: &Kept,
    at: Moment,
    outcome: Outcome,
) -> (Option<Change>, SchedulerUpdate) {
    if before.state == State::Gone || before.history.synced_at.is_none() {
        let change = change(before, kept, at, ChangeKind::Back, None);
        (Some(change), SchedulerUpdate::Join)
    } else {
        (None, SchedulerUpdate::Observed(outcome))
    }
}

pub(crate) fn describe(failure: &FetchFailure, at: Moment) -> Failure {
    Failure {
        kind: failure.kind,
        message: failure.message.clone(),
        at,
    }
}

/// The copy after an answer: a new body if it changed, and always the validators that
/// came last.
fn copy_of(seen: &Seen<'_>, here: &Sighting) -> Copy {
    let (before, at) = (seen.before, seen.at);
    let known = before.copy.as_ref().and_then(|copy| copy.location.clone());
    let location = match seen
        .redirects
        .and_then(|redirects| redirects.ended_at.as_ref())
    {
        Some(url) => (!is_locator_of(&before.element, url)).then(|| url.to_string()),
        None => known,
    };
    let redirect = redirect_of(seen);
    match (&before.copy, here.body) {
        (Some(copy), None) => Copy {
            etag: here.etag.clone(),
            last_modified: here.last_modified.clone(),
            content_type: here.content_type.clone(),
            // The same to us; but what matters may have been set differently.
            digest: here.digest,
            sketch: here.sketch.clone(),
            location,
            redirect,
            ..copy.clone()
        },
        (copy, body) => Copy {
            status: seen.status.unwrap_or(200),
            etag: here.etag.clone(),
            last_modified: here.last_modified.clone(),
            content_type: here.content_type.clone(),
            digest: here.digest,
            body: body.unwrap_or(springtide_store::BodyId([0; 32])),
            n_bytes: here.n_bytes,
            fetched_at: at,
            changed_at: copy.as_ref().map(|_| at),
            location,
            redirect,
            sketch: here.sketch.clone(),
        },
    }
}

fn is_locator_of(element: &Element, url: &Url) -> bool {
    fetch::locator(&element.locator).is_ok_and(|own| own == *url)
}

/// Where the locator of an element sends us for good, after an answer that could be used.
/// Whether that is a move depends on other elements too.
fn redirect_of(seen: &Seen<'_>) -> Option<Redirect> {
    let known = seen.before.copy.as_ref();
    let known = known.and_then(|copy| copy.redirect.clone());
    let (Some(url), Some(redirects)) = (seen.url, seen.redirects) else {
        return known;
    };
    let has_asked_it = is_locator_of(&seen.before.element, url);
    match (&redirects.permanent_target, known) {
        (_, known) if !has_asked_it => known,
        (Some(to), Some(known)) if known.to == to.as_str() => Some(Redirect {
            last_at: seen.at,
            n_polls: known.n_polls.saturating_add(1),
            ..known
        }),
        (Some(to), _) => Some(Redirect {
            to: to.to_string(),
            first_at: seen.at,
            last_at: seen.at,
            n_polls: 1,
            is_move: false,
        }),
        // Its own address did not answer, but the one it moved to did: it is asked again in a
        // while.
        (None, Some(known)) if redirects.fell_back => Some(Redirect {
            last_at: seen.at,
            ..known
        }),
        (None, _) => None,
    }
}

/// A change of an element from one version to another.
pub(crate) fn change(
    before: &Kept,
    kept: &Kept,
    at: Moment,
    kind: ChangeKind,
    size: Option<f32>,
) -> Change {
    let is_here = kind != ChangeKind::Gone;
    let after = kept.copy.as_ref().filter(|_| is_here);
    Change {
        number: 0,
        version: 0,
        element: kept.element.id,
        source: kept.element.source,
        found_at: at,
        previous_poll_at: before.history.synced_at,
        kind,
        bytes_before: before.copy.as_ref().map(|copy| copy.n_bytes),
        bytes_after: after.map(|copy| copy.n_bytes),
        digest: after.map(|copy| copy.digest),
        body: after.map(|copy| copy.body),
        content_type: after.and_then(|copy| copy.content_type.clone()),
        size,
    }
}

/// How long before the poll the element says that it last changed, in milliseconds,
/// if that was since the poll before.
fn age_of_last_change(before: &Kept, here: &Sighting, at: Moment) -> Option<u64> {
    let modified_at = clock::moment(http_date(here.last_modified.as_deref()?)?);
    let since = before.history.synced_at?;
    // It tells whole seconds.
    let is_between = modified_at.0 + 1000 > since.0 && modified_at.0 <= at.0 + 1000;
    is_between.then(|| clock::millis_between(modified_at, at).unsigned_abs())
}

/// The age of a copy that is fresh, where those of stale ones would be known.
fn age_of_fresh(kept: &Kept, trusts_dates: bool) -> Option<i64> {
    let date = http_date(kept.copy.as_ref()?.last_modified.as_deref()?);
    date.filter(|_| trusts_dates).map(|_| 0)
}

/// How long the copy had been stale: since the first change that it missed, of which
/// only the last is known.
fn age_of_copy(before: &Kept, at: Moment, since_last: u64, belief: Gamma) -> Option<i64> {
    let days = |millis: i64| Span::days(millis as f64 / 86_400_000.0).ok();
    let elapsed = days(clock::millis_between(before.history.synced_at?, at))?;
    let last = days(since_last as i64)?;
    let rate = Rate::per_day(belief.mean()).ok()?;
    let age = expected_age_of_first_change(rate, elapsed, last);
    Some((age.as_days() * 86_400_000.0).round() as i64)
}

/// Whether a poll shows that a source's tags are not to be trusted: one moved, and nothing
/// had changed; or something had, and it did not move.
pub(crate) fn shows_a_false_tag(seen: &Seen<'_>) -> bool {
    match (seen.finding, &seen.before.copy) {
        (Finding::Here(here), Some(copy)) => {
            here.etag.is_some() && (here.body.is_some() != (here.etag != copy.etag))
        }
        _ => false,
    }
}

/// Whether a poll shows that a source's Last-Modified is not to be trusted: it moved,
/// and nothing had changed.
pub(crate) fn shows_a_false_date(seen: &Seen<'_>) -> bool {
    match (seen.finding, &seen.before.copy) {
        (Finding::Here(here), Some(copy)) => {
            here.body.is_none()
                && here.last_modified.is_some()
                && here.last_modified != copy.last_modified
        }
        _ => false,
    }
}
