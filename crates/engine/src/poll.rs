//! One poll: from asking to what was found. It touches the network and the bodies,
//! and nothing else.

use std::collections::BTreeSet;
use std::sync::Arc;

use springtide_policy::agenda::rows::PageRequest;
use springtide_policy::agenda::{SearchPoll, Verdict};
use springtide_store::{
    Bodies, BodyId, ElementId, GroupId, Kept, Moment, Purpose, Robots, RobotsAnswer, Role,
    SourceId, SourceKind,
};
use tokio::sync::{Semaphore, mpsc, oneshot};
use url::Url;

use crate::blocking::blocking;
use crate::clock::{self, Clock};
use crate::detect::Lens;
use crate::fail_point::fail_point;
use crate::fetch::{self, Answer, Ask, Client, FailureKind, FetchFailure, Overflow, robots};
use crate::permits::Permit;
use crate::search::{self, Form, Prepared, answer};
use crate::source::links::links;
use crate::source::sitemap::{Hosts as ListedHosts, ListingLimits, ListingProblem, parse_sitemap};

/// Redirects that are followed.
const MOST_REDIRECTS: usize = 10;
/// Bodies longer than this are looked at one at a time.
const LARGE: usize = 512 * 1024;
/// A Last-Modified tells whole seconds: what was changed within so many of them
/// before it was fetched may have changed again without its telling.
const UNSURE: i64 = 2_000;

/// A poll that is to be made.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) kept: Kept,
    /// Where to ask.
    pub(crate) url: Url,
    pub(crate) host: GroupId,
    pub(crate) purpose: Purpose,
    pub(crate) is_counted: bool,
    pub(crate) begun_at: Moment,
    pub(crate) lens: Arc<Lens>,
    pub(crate) kind: SourceKind,
    /// The most entries that a listing may have.
    pub(crate) max_entries: usize,
    /// Whether links are to be followed.
    pub(crate) wants_links: bool,
    /// What is asked of a search box.
    pub(crate) question: Option<Question>,
}

/// What is asked of a search box.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) form: Arc<Form>,
    pub(crate) poll: SearchPoll,
    pub(crate) asked: Asked,
    /// What is sent; nothing asks by GET.
    pub(crate) body: Option<Vec<u8>>,
}

/// A page of the answer to a query, or one row.
#[derive(Debug)]
pub(crate) enum Asked {
    Page(AskedPage),
    Row,
}

/// A page of the answer to a query.
#[derive(Debug, Clone)]
pub(crate) struct AskedPage {
    pub(crate) request: PageRequest,
    /// The text of the query.
    pub(crate) text: String,
    /// The row that it is asked for, and why, if it is for one.
    pub(crate) wanted: Option<(ElementId, Purpose)>,
}

impl Job {
    /// The page that is asked for, if one is.
    pub(crate) fn page(&self) -> Option<&AskedPage> {
        match &self.question.as_ref()?.asked {
            Asked::Page(page) => Some(page),
            Asked::Row => None,
        }
    }
}

/// What a poll tells the loop.
#[derive(Debug)]
pub(crate) enum Message {
    /// It was sent on and asks whether it may go there.
    Hop(Url, oneshot::Sender<(Permit, GroupId)>),
    /// The fetch of a robots.txt was sent on; no robots.txt keeps it from there.
    RobotsHop(Url, oneshot::Sender<(Permit, GroupId)>),
    /// One of its requests has ended.
    Ended(GroupId, Verdict),
    /// It is over.
    Done(Box<Done>),
    /// A robots.txt was fetched.
    Robots(GroupId, Url, Robots),
    /// The queries of a search source have been made up; or could not be, and why.
    Prepared(SourceId, Result<Box<Prepared>, springtide_policy::Error>),
    /// We cannot go on.
    Broken(springtide_store::Error),
}

/// A poll that is over.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) job: Job,
    pub(crate) at: Moment,
    pub(crate) status: Option<u16>,
    pub(crate) found: Result<Found, FetchFailure>,
}

/// What an answered poll found.
#[derive(Debug)]
pub(crate) enum Found {
    /// It is as it was, says the server.
    NotModified,
    /// Here it is.
    Here(Box<Here>),
    /// A row that was asked for by its id.
    Row(Box<search::Found>),
    /// A page of the answer to a query.
    Page(Box<FoundPage>),
    /// It is not there (404), or no longer there (410).
    NotThere,
    /// We may not ask; or nobody knows whether we may.
    KeptOut(Permit),
}

/// A page of the answer to a query.
#[derive(Debug, Default)]
pub(crate) struct FoundPage {
    /// Our rows on it, and those that are to become ours.
    pub(crate) rows: Vec<search::Found>,
    /// How many results there were, those that came twice, and those of which nothing
    /// could be made.
    pub(crate) n_results: usize,
    pub(crate) n_repeated: usize,
    pub(crate) n_unusable: usize,
    pub(crate) total: Option<f64>,
}

/// An element as it was found.
#[derive(Debug)]
pub(crate) struct Here {
    pub(crate) etag: Option<String>,
    pub(crate) last_modified: Option<String>,
    pub(crate) content_type: Option<String>,
    pub(crate) digest: [u8; 32],
    /// Where the body was put; nothing if it is as it was in all that matters.
    pub(crate) body: Option<BodyId>,
    pub(crate) sketch: Vec<u8>,
    pub(crate) n_bytes: u64,
    /// Where it has moved for good.
    pub(crate) moved_to: Option<Url>,
    /// Pages that it links to.
    pub(crate) links: Vec<Url>,
    pub(crate) listing: Option<ListingNews>,
    /// It has changed, but not in what its staleness goes by.
    pub(crate) is_minor: bool,
}

impl Here {
    /// As it was, with this digest.
    pub(crate) fn unchanged(digest: [u8; 32]) -> Self {
        Self {
            etag: None,
            last_modified: None,
            content_type: None,
            digest,
            body: None,
            sketch: Vec::new(),
            n_bytes: 0,
            moved_to: None,
            links: Vec::new(),
            listing: None,
            is_minor: false,
        }
    }
}

/// What is new in a listing.
#[derive(Debug, Default)]
pub(crate) struct ListingNews {
    pub(crate) pages: Vec<String>,
    pub(crate) sitemaps: Vec<String>,
    /// Known before, and said to have changed since.
    pub(crate) touched: Vec<String>,
    pub(crate) removed: Vec<String>,
    /// Why it may not be all.
    pub(crate) problem: Option<String>,
}

/// What polls share.
#[derive(Debug, Clone)]
pub(crate) struct PollContext {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) bodies: Arc<Bodies>,
    pub(crate) to_loop: mpsc::UnboundedSender<Message>,
    pub(crate) max_body: u64,
    /// Large bodies are looked at one at a time.
    pub(crate) one_at_a_time: Arc<Semaphore>,
}

impl PollContext {
    pub(crate) fn tell(&self, message: Message) {
        // The loop ends only after all polls have; if it is gone, so is the need to
        // tell.
        let _ = self.to_loop.send(message);
    }
}

/// Makes a poll that may ask its first host now, and tells the loop.
pub(crate) async fn poll(job: Job, context: PollContext) {
    let mut status = None;
    let mut at = None;
    let found = follow(&job, &context, &mut status, &mut at).await;
    let at = at.unwrap_or_else(|| context.clock.now());
    context.tell(Message::Done(Box::new(Done {
        job,
        at,
        status,
        found,
    })));
}

/// Tells the loop that a poll came to nothing before it began.
pub(crate) fn keep_out(job: Job, permit: Permit, now: Moment) -> Done {
    Done {
        job,
        at: now,
        status: None,
        found: Ok(Found::KeptOut(permit)),
    }
}

async fn follow(
    job: &Job,
    context: &PollContext,
    status: &mut Option<u16>,
    at: &mut Option<Moment>,
) -> Result<Found, FetchFailure> {
    let mut url = job.url.clone();
    let mut host = job.host;
    let mut seen = BTreeSet::new();
    let mut is_permanent = true;
    let mut moved_to = None;
    loop {
        let validators = Validators::of(job);
        let question = job.question.as_ref();
        let headers = question.map_or(&[][..], |question| &question.form.search.headers.0);
        let ask = Ask {
            etag: validators.etag,
            last_modified: validators.last_modified,
            headers,
            body: question.and_then(|question| question.body.as_deref()),
            overflow: Overflow::Fail,
            ..Ask::new(&url, context.max_body)
        };
        let hop = context.client.hop(&ask).await;
        context.tell(Message::Ended(host, verdict(&hop, question.is_some())));
        fail_point("answered");
        let answer = match hop {
            Ok(answer) => answer,
            Err(failure) => {
                *at = Some(context.clock.now());
                return Err(failure);
            }
        };
        *status = Some(answer.status);
        *at = Some(clock::moment(answer.answered_at.max(answer.asked_at)));
        if let Some(question) = question {
            return conclude_question(job, question, context, answer).await;
        }
        if answer.is_redirect() {
            let location = answer.location.as_deref().unwrap_or_default();
            let next = fetch::resolve(&url, location)?;
            is_permanent &= matches!(answer.status, 301 | 308);
            if !seen.insert(url.clone()) || seen.contains(&next) || seen.len() > MOST_REDIRECTS {
                return Err(FetchFailure::new(
                    FailureKind::Redirects,
                    format!("redirects go round in circles, or on for more than {MOST_REDIRECTS}"),
                ));
            }
            context.client.guard().check(&next)?;
            let (sender, receiver) = oneshot::channel();
            context.tell(Message::Hop(next.clone(), sender));
            match receiver.await {
                Ok((Permit::Go, group)) => host = group,
                Ok((Permit::Later, _)) | Err(_) => {
                    return Err(FetchFailure::new(
                        FailureKind::Redirects,
                        "redirected to a host that is to be left alone for now",
                    ));
                }
                Ok((refusal, _)) => return Ok(Found::KeptOut(refusal)),
            }
            moved_to = is_permanent.then(|| next.clone());
            url = next;
            continue;
        }
        return conclude(job, context, answer, &url, moved_to).await;
    }
}

/// The validators to ask with.
struct Validators<'a> {
    etag: Option<&'a str>,
    last_modified: Option<&'a str>,
}

impl<'a> Validators<'a> {
    /// Those of the copy, if they can be relied on: a strong tag for an audit, any
    /// tag for another poll, or else a date that is old enough to be one change's.
    fn of(job: &'a Job) -> Self {
        let none = Self {
            etag: None,
            last_modified: None,
        };
        let Some(copy) = job.kept.copy.as_ref().filter(|_| job.question.is_none()) else {
            return none;
        };
        let is_audit = job.purpose == Purpose::Audit;
        match (&copy.etag, &copy.last_modified) {
            (Some(etag), _) if !is_audit || !etag.starts_with("W/") => Self {
                etag: Some(etag),
                last_modified: None,
            },
            (None, Some(date)) if !is_audit => {
                let modified_at = fetch::http_date(date).map(clock::moment);
                match modified_at {
                    Some(at) if at.0 + UNSURE <= copy.fetched_at.0 => Self {
                        etag: None,
                        last_modified: Some(date),
                    },
                    _ => none,
                }
            }
            _ => none,
        }
    }

    fn is_none(&self) -> bool {
        self.etag.is_none() && self.last_modified.is_none()
    }
}

/// What an answer, or none, says of a host. A search box that has had enough of queries
/// without saying for how long is left alone for a time of its own.
pub(crate) fn verdict(hop: &Result<Answer, FetchFailure>, is_question: bool) -> Verdict {
    match hop {
        Ok(answer)
            if is_question
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

async fn conclude(
    job: &Job,
    context: &PollContext,
    answer: Answer,
    url: &Url,
    moved_to: Option<Url>,
) -> Result<Found, FetchFailure> {
    match answer.status {
        304 if Validators::of(job).is_none() => {
            return Err(FetchFailure::new(
                FailureKind::Answer,
                "the server says that nothing has changed since a copy that we did not name",
            ));
        }
        304 => return Ok(Found::NotModified),
        404 | 410 => return Ok(Found::NotThere),
        200 | 203 => {}
        status => {
            return Err(FetchFailure::new(
                FailureKind::Status,
                format!("the server answered with status {status}"),
            ));
        }
    }
    let _alone = if answer.body.len() > LARGE {
        context.one_at_a_time.acquire().await.ok()
    } else {
        None
    };
    fail_point("fetched");
    let here = blocking(|| look(job, context, &answer, url))?;
    Ok(Found::Here(Box::new(Here { moved_to, ..here })))
}

/// What a search box answers.
async fn conclude_question(
    job: &Job,
    question: &Question,
    context: &PollContext,
    answer: Answer,
) -> Result<Found, FetchFailure> {
    let failure = |kind, message: String| Err(FetchFailure::new(kind, message));
    match (answer.status, &question.asked) {
        (200 | 203, _) => {}
        (404 | 410, Asked::Row) => return Ok(Found::NotThere),
        // Others answer that there is no such page.
        (400 | 404 | 410 | 416 | 422, Asked::Page(asked)) if asked.request.number > 1 => {
            return Ok(Found::Page(Box::default()));
        }
        (429, _) => {
            let message = "the server has had enough of our requests (status 429)";
            return failure(FailureKind::Status, message.to_owned());
        }
        (status, _) if answer.is_redirect() => {
            let location: String = answer
                .location
                .iter()
                .flat_map(|l| l.chars())
                .take(200)
                .collect();
            return failure(
                FailureKind::Redirects,
                format!("the server answered with status {status} and sends us on to {location}"),
            );
        }
        (status, _) => {
            let message = format!("the server answered with status {status}");
            return failure(FailureKind::Status, message);
        }
    }
    let _alone = if answer.body.len() > LARGE {
        context.one_at_a_time.acquire().await.ok()
    } else {
        None
    };
    fail_point("fetched");
    let found = blocking(|| read_answer(job, question, context, &answer.body));
    fail_point("body-kept");
    found
}

fn read_answer(
    job: &Job,
    question: &Question,
    context: &PollContext,
    body: &[u8],
) -> Result<Found, FetchFailure> {
    let shape = &question.form.search.answer;
    let other_shape = |why: String| {
        FetchFailure::new(
            FailureKind::Answer,
            format!("the answer cannot be used: {why}"),
        )
    };
    let find = |row: &answer::Row| {
        question.form.find(row, &context.bodies).map_err(|error| {
            context.tell(Message::Broken(error));
            FetchFailure::new(FailureKind::Answer, "its body could not be kept")
        })
    };
    match &question.asked {
        Asked::Row => {
            let row = answer::item(shape, &job.kept.element.locator, body).map_err(other_shape)?;
            let Some(row) = row else {
                return Ok(Found::NotThere);
            };
            let found = find(&row)?;
            let found = found.ok_or_else(|| other_shape("the row is not ours".to_owned()))?;
            Ok(Found::Row(Box::new(found)))
        }
        Asked::Page(_) => {
            let page = answer::page(shape, body).map_err(other_shape)?;
            let rows = page.rows.iter().filter_map(|row| find(row).transpose());
            Ok(Found::Page(Box::new(FoundPage {
                rows: rows.collect::<Result<_, _>>()?,
                n_results: page.n_results,
                n_repeated: page.n_repeated,
                n_unusable: page.n_unusable,
                total: page.total,
            })))
        }
    }
}

/// What matters in an answer; its body is put away if that has changed.
fn look(
    job: &Job,
    context: &PollContext,
    answer: &Answer,
    url: &Url,
) -> Result<Here, FetchFailure> {
    let element = &job.kept.element;
    let before = job.kept.copy.as_ref();
    let content_type = answer.content_type.as_deref();
    let is_listing = element.role == Role::Listing;
    let (digest, sketch) = if is_listing {
        (*blake3::hash(&answer.body).as_bytes(), Vec::new())
    } else {
        let sight = job.lens.look(&answer.body, content_type);
        (sight.digest, sight.sketch)
    };
    let has_changed = before.is_none_or(|copy| copy.digest != digest)
        && !is_same_to_us(job, context, content_type, digest);
    let listing = (is_listing && has_changed)
        .then(|| {
            let before = before.and_then(|copy| context.bodies.get(copy.body).ok());
            read_listing(job, url, before.as_deref(), &answer.body)
        })
        .transpose()?;
    let wants_links = job.wants_links && has_changed && element.role == Role::Hub;
    let body = if has_changed {
        match context.bodies.put(&answer.body) {
            Ok(body) => Some(body),
            Err(error) => {
                let failure = FetchFailure::new(FailureKind::Answer, "its body could not be kept");
                context.tell(Message::Broken(error));
                return Err(failure);
            }
        }
    } else {
        None
    };
    fail_point("body-kept");
    Ok(Here {
        etag: answer.etag.clone(),
        last_modified: answer.last_modified.clone(),
        content_type: answer.content_type.clone(),
        digest,
        body,
        sketch,
        n_bytes: answer.body.len() as u64,
        moved_to: None,
        links: if wants_links {
            links(&answer.body, content_type, url)
        } else {
            Vec::new()
        },
        listing,
        is_minor: false,
    })
}

/// Whether our copy, looked at as we look now, is what was found: what matters may have
/// been set differently since, and that is no change at the remote.
fn is_same_to_us(
    job: &Job,
    context: &PollContext,
    content_type: Option<&str>,
    digest: [u8; 32],
) -> bool {
    let Some(copy) = &job.kept.copy else {
        return false;
    };
    if job.kept.element.role == Role::Listing {
        return false;
    }
    let content_type = copy.content_type.as_deref().or(content_type);
    context
        .bodies
        .get(copy.body)
        .is_ok_and(|body| job.lens.look(&body, content_type).digest == digest)
}

/// Bytes of a listing, unpacked.
const LONGEST_LISTING: usize = 50 << 20;

/// What is new in a listing since it was last read.
fn read_listing(
    job: &Job,
    url: &Url,
    before: Option<&[u8]>,
    body: &[u8],
) -> Result<ListingNews, FetchFailure> {
    let limits = ListingLimits {
        n_entries: job.max_entries,
        n_bytes: LONGEST_LISTING,
        // What a user named may name others; what it names may not.
        hosts: if job.kept.element.depth == 0 && job.kind == SourceKind::Sitemap {
            ListedHosts::All
        } else {
            ListedHosts::Own
        },
    };
    let now = parse_sitemap(body, url, &limits).map_err(|problem| {
        FetchFailure::new(
            FailureKind::Answer,
            format!("the listing cannot be used: {problem}"),
        )
    })?;
    let before = before
        .and_then(|body| parse_sitemap(body, url, &limits).ok())
        .unwrap_or_default();
    let mut known: std::collections::BTreeMap<&str, Option<Moment>> = before
        .pages
        .iter()
        .chain(&before.sitemaps)
        .map(|listed| (listed.url.as_str(), listed.lastmod))
        .collect();
    let mut news = ListingNews {
        problem: now.problem.as_ref().map(ListingProblem::to_string),
        ..ListingNews::default()
    };
    for (listed, fresh) in [
        (&now.pages, &mut news.pages),
        (&now.sitemaps, &mut news.sitemaps),
    ] {
        for entry in listed {
            match known.remove(entry.url.as_str()) {
                Some(lastmod) if entry.lastmod > lastmod => news.touched.push(entry.url.clone()),
                Some(_) => {}
                None => fresh.push(entry.url.clone()),
            }
        }
    }
    // One that breaks off does not say who is gone.
    if now.problem.is_none() && before.problem.is_none() {
        news.removed = known.into_keys().map(str::to_owned).collect();
    }
    Ok(news)
}

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
    let answer = loop {
        let ask = Ask {
            overflow: Overflow::Cut,
            ..Ask::new(&at, robots::MAX_BYTES as u64)
        };
        let hop = context.client.hop(&ask).await;
        let step = robots::read(&at, &hop, n_redirects);
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
            robots::Step::Follow(next) => {
                n_redirects += 1;
                let (sender, receiver) = oneshot::channel();
                if context.client.guard().check(&next).is_err() {
                    break RobotsAnswer::None;
                }
                context.tell(Message::RobotsHop(next.clone(), sender));
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
    context.tell(Message::Robots(group, url, kept));
}
