//! One poll: hops, permits and timing, from asking to what the answer says. It touches
//! the network and the bodies, and nothing else; what to send and what an answer says is
//! for the kind of source to know.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use springtide_policy::agenda::Verdict;
use springtide_store::{Bodies, GroupId, Kept, Moment, Purpose, Robots, RobotsAnswer, SourceId};
use tokio::sync::{Semaphore, mpsc, oneshot};
use url::Url;

use crate::blocking::blocking;
use crate::clock::{self, Clock};
use crate::fail_point::fail_point;
use crate::fetch::{
    self, Answer, Client, FailureKind, FetchFailure, HttpRequest, Overflow, robots,
};
use crate::reach::{Reach, Reaches};
use crate::robots_cache::Permit;
use crate::search::{Prepared, SearchBoxRequest};
use crate::source::{AnswerContext, Protocol, ReadError, Reading};
use crate::table::{self, TableRequest};

/// Redirects that are followed.
const MOST_REDIRECTS: usize = 10;
/// Bodies longer than this are looked at one at a time.
const LARGE: usize = 512 * 1024;
/// A poll that is to be made.
#[derive(Debug)]
pub(crate) struct PendingPoll {
    pub(crate) kept: Kept,
    /// Where to ask.
    pub(crate) url: Url,
    /// Where to ask if nobody is there: where the element has moved to, if it is asked
    /// at its locator to see whether that still holds.
    pub(crate) fallback: Option<Url>,
    pub(crate) host: GroupId,
    pub(crate) purpose: Purpose,
    pub(crate) is_counted: bool,
    pub(crate) begun_at: Moment,
    /// What is sent, and what is made of the answer.
    pub(crate) protocol: Arc<dyn Protocol>,
    /// What a search source is asked for, if it is one.
    pub(crate) search: Option<SearchBoxRequest>,
    /// What a database is asked for, if it is a table.
    pub(crate) table: Option<TableRequest>,
}

/// What a poll tells the loop.
#[derive(Debug)]
pub(crate) enum Message {
    /// It was sent on and asks whether it may go there.
    Hop(RedirectRequest),
    /// The fetch of a robots.txt was sent on; no robots.txt keeps it from there.
    RobotsHop(RedirectRequest),
    /// One of its requests has ended; and what is wrong with the host, if something is.
    Ended(GroupId, Verdict, String),
    /// It is over.
    Done(Box<EndedPoll>),
    /// A robots.txt was fetched.
    Robots(GroupId, Url, Robots, Option<FetchFailure>),
    /// A robots.txt was not fetched, since nothing of its origin may be for this reach.
    RobotsRefused(GroupId, Url, Reach),
    /// The queries of a search source have been made up; or could not be, and why.
    Prepared(SourceId, Result<Box<Prepared>, String>),
    /// We cannot go on.
    Broken(springtide_store::Error),
}

/// Someone under way who was sent on.
#[derive(Debug)]
pub(crate) struct RedirectRequest {
    /// Where to.
    pub(crate) url: Url,
    /// How far it may reach.
    pub(crate) reach: Reach,
    /// Who is told whether it may go there, and whose turn that is.
    pub(crate) sender: oneshot::Sender<(Permit, GroupId)>,
}

/// A poll that is over.
#[derive(Debug)]
pub(crate) struct EndedPoll {
    pub(crate) poll: PendingPoll,
    pub(crate) at: Moment,
    pub(crate) status: Option<u16>,
    pub(crate) redirects: RedirectPath,
    pub(crate) found: Result<PollResult, FetchFailure>,
}

/// Where the redirects of a poll led.
#[derive(Debug, Default)]
pub(crate) struct RedirectPath {
    /// Where it was sent for good, if every redirect said so.
    pub(crate) permanent_target: Option<Url>,
    /// Where the last answer came from.
    pub(crate) ended_at: Option<Url>,
    /// Nobody was at the locator, so it was asked where the element has moved to.
    pub(crate) fell_back: bool,
}

/// What a poll came to.
#[derive(Debug)]
pub(crate) enum PollResult {
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
    /// Held by all that are under way, so that it can be told when those of a moment are
    /// over.
    pub(crate) under_way: Arc<()>,
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

    /// A request that was broken off by an error of our own gives its place back.
    fn give_back(&self, asking: Option<GroupId>) {
        if let Some(host) = asking {
            self.tell(Message::Ended(host, Verdict::Unknown, String::new()));
        }
    }

    pub(crate) fn tell(&self, message: Message) {
        // The loop ends only after all polls have; if it is gone, so is the need to
        // tell.
        let _ = self.to_loop.send(message);
    }
}

/// Makes a poll that may ask its first host now, and tells the loop.
pub(crate) async fn poll(poll: PendingPoll, context: PollContext) {
    if let Some(ask) = poll.table.clone() {
        return table::poll(poll, ask, context).await;
    }
    let mut progress = PollProgress::default();
    // Whatever an answer does to us, the loop hears of it: else the element would be under
    // way, and a place at its host taken, for as long as the process lives.
    let followed = AssertUnwindSafe(follow(&poll, &context, &mut progress)).catch_unwind();
    let found = followed.await.unwrap_or_else(|_| {
        context.give_back(progress.asking.take());
        let message = "springtide failed to read its answer (a bug in springtide)";
        Err(FetchFailure::new(FailureKind::Answer, message))
    });
    let at = progress.at.unwrap_or_else(|| context.clock.now());
    context.tell(Message::Done(Box::new(EndedPoll {
        poll,
        at,
        status: progress.status,
        redirects: progress.redirects,
        found,
    })));
}

/// Tells the loop that a poll came to nothing before it began.
pub(crate) fn keep_out(
    poll: PendingPoll,
    permit: Permit,
    robots_failure: Option<FetchFailure>,
    now: Moment,
) -> EndedPoll {
    EndedPoll {
        poll,
        at: now,
        status: None,
        redirects: RedirectPath::default(),
        found: Ok(PollResult::KeptOut(permit, robots_failure)),
    }
}

/// What the last answer was, and when.
#[derive(Debug, Default)]
struct PollProgress {
    /// The host that is being asked.
    asking: Option<GroupId>,
    status: Option<u16>,
    at: Option<Moment>,
    redirects: RedirectPath,
}

async fn follow(
    poll: &PendingPoll,
    context: &PollContext,
    progress: &mut PollProgress,
) -> Result<PollResult, FetchFailure> {
    let protocol = &*poll.protocol;
    let copy = poll.kept.copy.as_ref();
    let is_lost = copy.is_some_and(|copy| !blocking(|| context.bodies.is_sound(copy.body)));
    let sent = match protocol.request(&poll.kept, poll.purpose) {
        // The copy's body is lost: a 304 would leave us without one.
        sent if is_lost => sent.without_validators(),
        sent => sent,
    };
    // Validators are those of what was found at one address, and say nothing of another:
    // a page whose date is before that of a notice in its place would count as unchanged.
    let found_at = copy.map(|copy| {
        let location = copy.location.as_deref();
        fetch::locator(location.unwrap_or(&poll.kept.element.locator))
    });
    let mut fallback = poll.fallback.clone();
    let mut url = poll.url.clone();
    let mut host = poll.host;
    let mut seen = BTreeSet::new();
    let mut is_permanent = true;
    loop {
        let is_same_place = matches!(&found_at, Some(Ok(address)) if *address == url);
        let sent = match is_same_place {
            true => sent,
            false => sent.without_validators(),
        };
        let ask = HttpRequest {
            etag: sent.etag,
            last_modified: sent.last_modified,
            headers: sent.headers,
            body: sent.body,
            overflow: Overflow::Fail,
            ..HttpRequest::new(&url, context.max_body)
        };
        progress.asking = Some(host);
        let hop = context.client.hop(&ask).await;
        progress.asking = None;
        let verdict = verdict(&hop, protocol.has_own_pauses());
        context.tell(Message::Ended(host, verdict, host_problem(&hop, verdict)));
        fail_point("answered");
        let next = match (hop, fallback.take()) {
            (hop, Some(moved_to)) if !is_usable(&hop) => {
                progress.redirects.fell_back = true;
                is_permanent = false;
                moved_to
            }
            (Err(failure), _) => {
                progress.at = Some(context.clock.now());
                return Err(failure);
            }
            (Ok(answer), _) => {
                progress.status = Some(answer.status);
                progress.at = Some(clock::moment(answer.answered_at.max(answer.asked_at)));
                if !(answer.is_redirect() && protocol.follows_redirects()) {
                    progress.redirects.ended_at = protocol.follows_redirects().then(|| url.clone());
                    let answered = AnswerContext {
                        kept: &poll.kept,
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
                format!("a redirect loop, or more than {MOST_REDIRECTS} redirects"),
            ));
        }
        context.client.guard().check(&next)?;
        let (sender, receiver) = oneshot::channel();
        context.tell(Message::Hop(RedirectRequest {
            url: next.clone(),
            reach: context.reach,
            sender,
        }));
        match receiver.await {
            Ok((Permit::Go, group)) => host = group,
            Ok((Permit::Later, _)) | Err(_) => {
                return Err(FetchFailure::new(
                    FailureKind::Redirects,
                    "redirected to a host to which requests are paused",
                ));
            }
            Ok((refusal, _)) => return Ok(PollResult::KeptOut(refusal, None)),
        }
        progress.redirects.permanent_target = is_permanent.then(|| next.clone());
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
    answered: &AnswerContext<'_>,
) -> Result<PollResult, FetchFailure> {
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
        Ok(reading) => Ok(PollResult::Read(Box::new(reading))),
        Err(ReadError::Failed(failure)) => Err(failure),
        Err(ReadError::Store(error)) => {
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

/// What is wrong with a host, in a sentence; empty if nothing is.
fn host_problem(hop: &Result<Answer, FetchFailure>, verdict: Verdict) -> String {
    match (verdict, hop) {
        (Verdict::Fine | Verdict::Unknown, _) => String::new(),
        (_, Ok(answer)) => format!("it answered with status {}", answer.status),
        (_, Err(failure)) => failure.message.clone(),
    }
}

/// Added to a Retry-After: the host counts it on its own clock, which may be slightly behind
/// ours.
const RETRY_MARGIN: std::time::Duration = std::time::Duration::from_millis(100);

/// Fetches a robots.txt whose first request has been granted, and tells the loop.
pub(crate) async fn fetch_robots(
    group: GroupId,
    url: Url,
    previous: Option<Robots>,
    context: PollContext,
) {
    let mut asking = None;
    let followed = follow_robots(group, &url, &context, &mut asking);
    let followed = AssertUnwindSafe(followed).catch_unwind().await;
    let (answer, robots_failure) = followed.unwrap_or_else(|_| {
        context.give_back(asking.take());
        (Some(RobotsAnswer::Unreachable), None)
    });
    let Some(answer) = answer else {
        context.tell(Message::RobotsRefused(group, url, context.reach));
        return;
    };
    let now = context.clock.now();
    let kept = robots::keep(previous.as_ref(), &fetch::origin(&url), answer, now);
    context.tell(Message::Robots(group, url, kept, robots_failure));
}

/// What a robots.txt says, nothing if it may not be asked for; and why nobody answered.
async fn follow_robots(
    group: GroupId,
    url: &Url,
    context: &PollContext,
    asking: &mut Option<GroupId>,
) -> (Option<RobotsAnswer>, Option<FetchFailure>) {
    let mut at = url.clone();
    let mut host = group;
    let mut n_redirects = 0;
    loop {
        let ask = HttpRequest {
            overflow: Overflow::Cut,
            ..HttpRequest::new(&at, robots::MAX_BYTES as u64)
        };
        *asking = Some(host);
        let hop = context.client.hop(&ask).await;
        *asking = None;
        let step = robots::read(&at, &hop, n_redirects);
        let robots_failure = hop.as_ref().err().cloned();
        // A host whose robots.txt cannot be had is in trouble, unless it says for how
        // long it is.
        let is_unreachable = step == robots::Step::Done(RobotsAnswer::Unreachable);
        let verdict = match verdict(&hop, false) {
            Verdict::Fine | Verdict::Unknown if is_unreachable => Verdict::Trouble,
            verdict => verdict,
        };
        context.tell(Message::Ended(host, verdict, host_problem(&hop, verdict)));
        match step {
            robots::Step::Done(answer) => return (Some(answer), robots_failure),
            robots::Step::Refused => return (None, robots_failure),
            robots::Step::Follow(next) => {
                n_redirects += 1;
                let (sender, receiver) = oneshot::channel();
                if context.client.guard().check(&next).is_err() {
                    return (Some(RobotsAnswer::None), robots_failure);
                }
                context.tell(Message::RobotsHop(RedirectRequest {
                    url: next.clone(),
                    reach: context.reach,
                    sender,
                }));
                match receiver.await {
                    Ok((Permit::Go, group)) => host = group,
                    _ => return (Some(RobotsAnswer::Unreachable), robots_failure),
                }
                at = next;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use springtide_store::{Element, ElementId, Role};

    use super::*;
    use crate::fetch::Wire;
    use crate::settings::{AllowPrivate, HttpSettings};

    /// Falls over whatever is answered, or before anything is sent.
    #[derive(Debug)]
    struct Stumbling;

    impl Protocol for Stumbling {
        fn read(&self, _: &AnswerContext<'_>) -> Result<Reading, ReadError> {
            panic!("an answer that nobody thought of");
        }
    }

    fn context(
        wire: Wire,
        folder: &std::path::Path,
    ) -> (PollContext, mpsc::UnboundedReceiver<Message>) {
        let settings = HttpSettings {
            contact: None,
            timeout: Duration::from_secs(5),
            max_body: 1000,
            allow_private: AllowPrivate::None,
        };
        let clock = Clock::starting_at(Moment(0));
        let (to_loop, messages) = mpsc::unbounded_channel();
        let context = PollContext {
            client: Client::over(wire, &settings, clock).unwrap(),
            reach: Reach::default(),
            clock,
            bodies: Arc::new(Bodies::open(folder).unwrap()),
            to_loop,
            max_body: 1000,
            one_at_a_time: Arc::new(Semaphore::new(1)),
            under_way: Arc::default(),
        };
        (context, messages)
    }

    fn pending(host: GroupId) -> PendingPoll {
        let locator = "http://docs.example/".to_owned();
        PendingPoll {
            url: Url::parse(&locator).unwrap(),
            kept: Kept::new(Element {
                id: ElementId(1),
                source: SourceId(1),
                locator,
                group: host,
                host,
                role: Role::Page,
                weight: 1.0,
                depth: 0,
            }),
            fallback: None,
            host,
            purpose: Purpose::Due,
            is_counted: true,
            begun_at: Moment(0),
            protocol: Arc::new(Stumbling),
            search: None,
            table: None,
        }
    }

    /// How often a request is said to have ended, and what else is told.
    fn heard(messages: &mut mpsc::UnboundedReceiver<Message>) -> (usize, Vec<Message>) {
        let (mut n_ended, mut others) = (0, Vec::new());
        while let Ok(message) = messages.try_recv() {
            match message {
                Message::Ended(..) => n_ended += 1,
                other => others.push(other),
            }
        }
        (n_ended, others)
    }

    #[tokio::test(start_paused = true)]
    async fn a_poll_that_falls_over_gives_its_places_back_and_is_a_failure() {
        let folder = tempfile::tempdir().unwrap();
        let host = GroupId::new(0).unwrap();
        let network = crate::origin::Network::new(Clock::starting_at(Moment(0)));
        let site = crate::origin::SiteSettings::default();
        let origin = crate::origin::Origin::start_in(&network, "docs.example", site);
        let page = crate::origin::Behaviour::body("text/html", "<p>Here");
        origin.script("/", page);
        let falling = || Wire::memory(|_| panic!("a connection that nobody thought of"));
        for wire in [network.wire(), falling()] {
            let (context, mut messages) = context(wire, folder.path());
            poll(pending(host), context).await;
            let (n_ended, others) = heard(&mut messages);
            assert_eq!(n_ended, 1);
            let [Message::Done(done)] = &others[..] else {
                panic!("{others:?}");
            };
            let failure = done.found.as_ref().unwrap_err();
            assert_eq!(failure.kind, FailureKind::Answer);
        }
        let (context, mut messages) = context(falling(), folder.path());
        let robots = Url::parse("http://docs.example/robots.txt").unwrap();
        fetch_robots(host, robots, None, context).await;
        let (n_ended, others) = heard(&mut messages);
        assert_eq!(n_ended, 1);
        let [Message::Robots(_, _, robots, None)] = &others[..] else {
            panic!("{others:?}");
        };
        assert_eq!(robots.answer, RobotsAnswer::Unreachable);
    }
}
