//! One poll: hops, permits and timing, from asking to what the answer says. It touches
//! the network and the bodies, and nothing else; what to send and what an answer says is
//! for the kind of source to know.

use std::collections::BTreeSet;
use std::sync::Arc;

use springtide_policy::agenda::Verdict;
use springtide_store::{Bodies, GroupId, Kept, Moment, Purpose, Robots, RobotsAnswer, SourceId};
use tokio::sync::{Semaphore, mpsc, oneshot};
use url::Url;

use crate::blocking::blocking;
use crate::clock::{self, Clock};
use crate::fail_point::fail_point;
use crate::fetch::{self, Answer, Ask, Client, FailureKind, FetchFailure, Overflow, robots};
use crate::permits::Permit;
use crate::reach::{Reach, Reaches};
use crate::search::{Prepared, SearchJob};
use crate::source::{Answered, Protocol, Reading, Unread};

/// Redirects that are followed.
const MOST_REDIRECTS: usize = 10;
/// Bodies longer than this are looked at one at a time.
const LARGE: usize = 512 * 1024;
/// A poll that is to be made.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) kept: Kept,
    /// Where to ask.
    pub(crate) url: Url,
    /// Where to ask if nobody is there: where the element has moved to, if it is asked
    /// at its locator to see whether that still holds.
    pub(crate) instead: Option<Url>,
    pub(crate) host: GroupId,
    pub(crate) purpose: Purpose,
    pub(crate) is_counted: bool,
    pub(crate) begun_at: Moment,
    /// What is sent, and what is made of the answer.
    pub(crate) protocol: Arc<dyn Protocol>,
    /// What a search source is asked for, if it is one.
    pub(crate) search: Option<SearchJob>,
}

/// What a poll tells the loop.
#[derive(Debug)]
pub(crate) enum Message {
    /// It was sent on and asks whether it may go there.
    Hop(Onward),
    /// The fetch of a robots.txt was sent on; no robots.txt keeps it from there.
    RobotsHop(Onward),
    /// One of its requests has ended.
    Ended(GroupId, Verdict),
    /// It is over.
    Done(Box<Done>),
    /// A robots.txt was fetched.
    Robots(GroupId, Url, Robots, Option<FetchFailure>),
    /// A robots.txt was not fetched, since nothing of its origin may be for this reach.
    RobotsRefused(GroupId, Url, Reach),
    /// The queries of a search source have been made up; or could not be, and why.
    Prepared(SourceId, Result<Box<Prepared>, springtide_policy::Error>),
    /// We cannot go on.
    Broken(springtide_store::Error),
}

/// Someone under way who was sent on.
#[derive(Debug)]
pub(crate) struct Onward {
    /// Where to.
    pub(crate) url: Url,
    /// How far it may reach.
    pub(crate) reach: Reach,
    /// Who is told whether it may go there, and whose turn that is.
    pub(crate) sender: oneshot::Sender<(Permit, GroupId)>,
}

/// A poll that is over.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) job: Job,
    pub(crate) at: Moment,
    pub(crate) status: Option<u16>,
    pub(crate) way: Way,
    pub(crate) found: Result<Found, FetchFailure>,
}

/// Where the redirects of a poll led.
#[derive(Debug, Default)]
pub(crate) struct Way {
    /// Where it was sent for good, if every redirect said so.
    pub(crate) sent_to: Option<Url>,
    /// Where the last answer came from.
    pub(crate) ended_at: Option<Url>,
    /// Nobody was at the locator, so it was asked where the element has moved to.
    pub(crate) was_not_there: bool,
}

/// What a poll came to.
#[derive(Debug)]
pub(crate) enum Found {
    /// An answer, and what it says.
    Read(Box<Reading>),
    /// We may not ask; or nobody knows whether we may.
    /// If its host was silent, why.
    KeptOut(Permit, Option<FetchFailure>),
}

/// What polls share.
#[derive(Debug, Clone)]
pub(crate) struct PollContext {
    /// The client of their reach.
    pub(crate) client: Client,
    pub(crate) reach: Reach,
    pub(crate) clock: Clock,
    pub(crate) bodies: Arc<Bodies>,
    pub(crate) to_loop: mpsc::UnboundedSender<Message>,
    pub(crate) max_body: u64,
    /// Large bodies are looked at one at a time.
    pub(crate) one_at_a_time: Arc<Semaphore>,
}

impl PollContext {
    /// The same for polls that may reach so far.
    pub(crate) fn reaching(&self, reach: Reach, reaches: &Reaches) -> Self {
        Self {
            client: reaches.client(reach).clone(),
            reach,
            ..self.clone()
        }
    }

    pub(crate) fn tell(&self, message: Message) {
        // The loop ends only after all polls have; if it is gone, so is the need to
        // tell.
        let _ = self.to_loop.send(message);
    }
}

/// Makes a poll that may ask its first host now, and tells the loop.
pub(crate) async fn poll(job: Job, context: PollContext) {
    let mut trip = Trip::default();
    let found = follow(&job, &context, &mut trip).await;
    let at = trip.at.unwrap_or_else(|| context.clock.now());
    context.tell(Message::Done(Box::new(Done {
        job,
        at,
        status: trip.status,
        way: trip.way,
        found,
    })));
}

/// Tells the loop that a poll came to nothing before it began.
pub(crate) fn keep_out(
    job: Job,
    permit: Permit,
    silence: Option<FetchFailure>,
    now: Moment,
) -> Done {
    Done {
        job,
        at: now,
        status: None,
        way: Way::default(),
        found: Ok(Found::KeptOut(permit, silence)),
    }
}

/// What the last answer was, and when.
#[derive(Debug, Default)]
struct Trip {
    status: Option<u16>,
    at: Option<Moment>,
    way: Way,
}

async fn follow(job: &Job, context: &PollContext, trip: &mut Trip) -> Result<Found, FetchFailure> {
    let protocol = &*job.protocol;
    let copy = job.kept.copy.as_ref();
    let is_lost = copy.is_some_and(|copy| !blocking(|| context.bodies.is_sound(copy.body)));
    let sent = match protocol.request(&job.kept, job.purpose) {
        // Whoever said that nothing has changed would leave us without it.
        sent if is_lost => sent.without_validators(),
        sent => sent,
    };
    // Validators are those of what was found at one address, and say nothing of another:
    // a page whose date is before that of a notice in its place would count as unchanged.
    let found_at = copy.map(|copy| {
        let location = copy.location.as_deref();
        fetch::locator(location.unwrap_or(&job.kept.element.locator))
    });
    let mut instead = job.instead.clone();
    let mut url = job.url.clone();
    let mut host = job.host;
    let mut seen = BTreeSet::new();
    let mut is_permanent = true;
    loop {
        let is_same_place = matches!(&found_at, Some(Ok(address)) if *address == url);
        let sent = match is_same_place {
            true => sent,
            false => sent.without_validators(),
        };
        let ask = Ask {
            etag: sent.etag,
            last_modified: sent.last_modified,
            headers: sent.headers,
            body: sent.body,
            overflow: Overflow::Fail,
            ..Ask::new(&url, context.max_body)
        };
        let hop = context.client.hop(&ask).await;
        context.tell(Message::Ended(
            host,
            verdict(&hop, protocol.has_own_pauses()),
        ));
        fail_point("answered");
        let next = match (hop, instead.take()) {
            (hop, Some(moved_to)) if !is_usable(&hop) => {
                trip.way.was_not_there = true;
                is_permanent = false;
                moved_to
            }
            (Err(failure), _) => {
                trip.at = Some(context.clock.now());
                return Err(failure);
            }
            (Ok(answer), _) => {
                trip.status = Some(answer.status);
                trip.at = Some(clock::moment(answer.answered_at.max(answer.asked_at)));
                if !(answer.is_redirect() && protocol.follows_redirects()) {
                    trip.way.ended_at = protocol.follows_redirects().then(|| url.clone());
                    let answered = Answered {
                        kept: &job.kept,
                        is_lost,
                        has_validators: sent.has_validators(),
                        answer: &answer,
                        url: &url,
                        bodies: &context.bodies,
                    };
                    return read(protocol, context, &answered).await;
                }
                is_permanent &= matches!(answer.status, 301 | 308);
                fetch::resolve(&url, answer.location.as_deref().unwrap_or_default())?
            }
        };
        if !seen.insert(url.clone()) || seen.contains(&next) || seen.len() > MOST_REDIRECTS {
            return Err(FetchFailure::new(
                FailureKind::Redirects,
                format!("redirects go round in circles, or on for more than {MOST_REDIRECTS}"),
            ));
        }
        context.client.guard().check(&next)?;
        let (sender, receiver) = oneshot::channel();
        context.tell(Message::Hop(Onward {
            url: next.clone(),
            reach: context.reach,
            sender,
        }));
        match receiver.await {
            Ok((Permit::Go, group)) => host = group,
            Ok((Permit::Later, _)) | Err(_) => {
                return Err(FetchFailure::new(
                    FailureKind::Redirects,
                    "redirected to a host that is to be left alone for now",
                ));
            }
            Ok((refusal, _)) => return Ok(Found::KeptOut(refusal, None)),
        }
        trip.way.sent_to = is_permanent.then(|| next.clone());
        url = next;
    }
}

/// Whether an answer shows the element, or where it is.
fn is_usable(hop: &Result<Answer, FetchFailure>) -> bool {
    hop.as_ref()
        .is_ok_and(|answer| answer.is_redirect() || matches!(answer.status, 200 | 203 | 304))
}

/// What the last answer of a poll says.
async fn read(
    protocol: &dyn Protocol,
    context: &PollContext,
    answered: &Answered<'_>,
) -> Result<Found, FetchFailure> {
    let answer = answered.answer;
    let _alone = if answer.body.len() > LARGE {
        context.one_at_a_time.acquire().await.ok()
    } else {
        None
    };
    let has_body = matches!(answer.status, 200 | 203);
    if has_body {
        fail_point("fetched");
    }
    let reading = blocking(|| protocol.read(answered));
    if has_body {
        fail_point("body-kept");
    }
    match reading {
        Ok(reading) => Ok(Found::Read(Box::new(reading))),
        Err(Unread::Failed(failure)) => Err(failure),
        Err(Unread::Store(error)) => {
            context.tell(Message::Broken(error));
            let message = "its body could not be kept";
            Err(FetchFailure::new(FailureKind::Answer, message))
        }
    }
}

/// What an answer, or none, says of a host. A source that has had enough without saying
/// for how long may have pauses of its own.
pub(crate) fn verdict(hop: &Result<Answer, FetchFailure>, has_own_pauses: bool) -> Verdict {
    match hop {
        Ok(answer)
            if has_own_pauses
                && answer.status == 429
                && answer.retry_after.is_none_or(|wait| wait.is_zero()) =>
        {
            Verdict::Unknown
        }
        Ok(answer) if answer.is_host_trouble() => match answer.retry_after {
            Some(wait) => {
                let until = clock::moment(answer.answered_at + wait + RETRY_MARGIN);
                Verdict::Wait(clock::time(until))
            }
            None => Verdict::Trouble,
        },
        Ok(_) => Verdict::Fine,
        Err(failure) if failure.kind.is_host_trouble() => Verdict::Trouble,
        Err(_) => Verdict::Unknown,
    }
}

/// A host that asks for some seconds counts them itself, on a clock of its own.
const RETRY_MARGIN: std::time::Duration = std::time::Duration::from_millis(100);

/// Fetches a robots.txt whose first request has been granted, and tells the loop.
pub(crate) async fn fetch_robots(
    group: GroupId,
    url: Url,
    previous: Option<Robots>,
    context: PollContext,
) {
    let origin = fetch::origin(&url);
    let mut at = url.clone();
    let mut host = group;
    let mut n_redirects = 0;
    let mut silence;
    let answer = loop {
        let ask = Ask {
            overflow: Overflow::Cut,
            ..Ask::new(&at, robots::MAX_BYTES as u64)
        };
        let hop = context.client.hop(&ask).await;
        let step = robots::read(&at, &hop, n_redirects);
        silence = hop.as_ref().err().cloned();
        // A host whose robots.txt cannot be had is in trouble, unless it says for how
        // long it is.
        let is_unreachable = step == robots::Step::Done(RobotsAnswer::Unreachable);
        let verdict = match verdict(&hop, false) {
            Verdict::Fine | Verdict::Unknown if is_unreachable => Verdict::Trouble,
            verdict => verdict,
        };
        context.tell(Message::Ended(host, verdict));
        match step {
            robots::Step::Done(answer) => break answer,
            robots::Step::Refused => {
                context.tell(Message::RobotsRefused(group, url, context.reach));
                return;
            }
            robots::Step::Follow(next) => {
                n_redirects += 1;
                let (sender, receiver) = oneshot::channel();
                if context.client.guard().check(&next).is_err() {
                    break RobotsAnswer::None;
                }
                context.tell(Message::RobotsHop(Onward {
                    url: next.clone(),
                    reach: context.reach,
                    sender,
                }));
                match receiver.await {
                    Ok((Permit::Go, group)) => host = group,
                    _ => break RobotsAnswer::Unreachable,
                }
                at = next;
            }
        }
    };
    let now = context.clock.now();
    let kept = robots::keep(previous.as_ref(), &origin, answer, now);
    context.tell(Message::Robots(group, url, kept, silence));
}
