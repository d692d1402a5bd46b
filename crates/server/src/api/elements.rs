//! Elements: lists of them, one of them, its versions, and a poll of it.

use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderValue, Response, StatusCode};
use serde::Serialize;
use springtide_engine::settings::SourceSettings;
use springtide_engine::view::{
    self, ElementFilter, ElementView, Elements, Outlook, Rank, SortBy, SortKey, Versions,
    digest_text, redacted, rfc3339,
};
use springtide_policy::Purpose;
use springtide_store::{
    Change, ElementId, Moment, Poll, PollOutcome, Reader, Role, Source, SourceId, State as Standing,
};

use super::{json, named};
use crate::app::Shared;
use crate::door::answer;
use crate::params::{Page, Params, bad_token};
use crate::problem::Problem;

/// Elements that are looked at for one page; whoever looks for something rare goes on with
/// the next.
const MOST_LOOKED: usize = 20_000;
/// Elements that are read from the store at a time.
const LOOKED_AT_ONCE: usize = 2000;
/// Polls that are told of one element.
const POLLS: usize = 50;

/// Which elements are wanted, and how many.
#[derive(Debug, Default)]
pub(crate) struct ElementQuery {
    pub(crate) source: Option<String>,
    pub(crate) state: Option<Standing>,
    /// Part of a locator.
    pub(crate) part: Option<String>,
    pub(crate) sort: Option<SortKey>,
    pub(crate) limit: usize,
    pub(crate) after: Option<String>,
}

pub(crate) const QUERY: [&str; 6] = ["source", "state", "q", "sort", "limit", "after"];

impl ElementQuery {
    pub(crate) fn of(params: &Params) -> Result<Self, Problem> {
        let state = match params.get("state") {
            None => None,
            Some("new") => Some(Standing::New),
            Some("ok") => Some(Standing::Ok),
            Some("failing") => Some(Standing::Failing),
            Some("blocked") => Some(Standing::Blocked),
            Some("gone") => Some(Standing::Gone),
            Some(_) => {
                return Err(Problem::bad_request(
                    "`state` is new, ok, failing, blocked or gone",
                ));
            }
        };
        let sort = params.get("sort").map(str::parse::<SortKey>).transpose();
        let owned = |name| params.get(name).map(str::to_owned);
        Ok(Self {
            source: owned("source"),
            state,
            part: owned("q"),
            sort: sort.map_err(|why| Problem::bad_request(format!("`sort`: {why}")))?,
            limit: params.limit()?,
            after: owned("after"),
        })
    }
}

/// Some elements, and where the list goes on.
pub(crate) async fn list(app: &Shared, query: ElementQuery) -> Result<Page<ElementView>, Problem> {
    let outlook = app.outlook().await?;
    app.read(move |app, store| {
        let sources = view::sources(store, &app.current().settings, app.now())?;
        let source = match &query.source {
            Some(name) => Some(named(&sources, name)?.id),
            None => None,
        };
        let listing = Listing {
            app,
            store,
            sources: &sources,
            outlook: &outlook,
            source,
            query: &query,
        };
        match (query.sort, query.state) {
            (None, None) => listing.by_number(),
            (sort, _) => listing.in_order(sort.unwrap_or(SortKey {
                by: SortBy::Id,
                is_reversed: false,
            })),
        }
    })
    .await
}

struct Listing<'a> {
    app: &'a Shared,
    store: &'a dyn Reader,
    sources: &'a [Source],
    outlook: &'a Arc<Mutex<Outlook>>,
    source: Option<SourceId>,
    query: &'a ElementQuery,
}

impl Listing<'_> {
    /// All, in the order of their numbers, which never change.
    fn by_number(&self) -> Result<Page<ElementView>, Problem> {
        let query = self.query;
        let mut from = match &query.after {
            Some(after) => {
                let last: u32 = after.parse().map_err(|_| bad_token())?;
                Some(last).and_then(|last| last.checked_add(1))
            }
            None => Some(0),
        };
        let (mut ids, mut n_looked, mut next) = (Vec::new(), 0, None);
        let part = query.part.as_deref();
        'pages: while let Some(first) = from {
            let n = match part {
                Some(_) => LOOKED_AT_ONCE,
                None => query.limit + 1 - ids.len(),
            };
            let page = self.store.elements(self.source, ElementId(first), n)?;
            let last = page.last().map(|kept| kept.element.id.0);
            for kept in &page {
                let element = &kept.element;
                n_looked += 1;
                if element.role == Role::Listing
                    || part.is_some_and(|part| !redacted(&element.locator).contains(part))
                {
                    continue;
                }
                if ids.len() == query.limit {
                    next = ids.last().map(|id: &ElementId| id.0.to_string());
                    break 'pages;
                }
                ids.push(element.id);
            }
            if n_looked >= MOST_LOOKED {
                next = last.map(|last| last.to_string());
                break;
            }
            from = last.and_then(|last| last.checked_add(1));
        }
        let wanted = ElementFilter::default();
        let items = self.views(&ids, wanted)?;
        Ok(Page { items, next })
    }

    /// Some, in an order.
    fn in_order(&self, key: SortKey) -> Result<Page<ElementView>, Problem> {
        let query = self.query;
        let wanted = ElementFilter {
            source: self.source,
            state: query.state,
            ..ElementFilter::default()
        };
        let of = (self.source, query.state, key);
        let order = self.app.order(of, || {
            let mut outlook = lock(self.outlook);
            Ok(view::ranked(self.store, &mut outlook, wanted, key)?)
        })?;
        let mut at = match &query.after {
            Some(after) => {
                let (rank, id) = read_token(after).ok_or_else(bad_token)?;
                order.partition_point(|(other, number)| {
                    key.order((other, *number), (&rank, id)).is_le()
                })
            }
            None => 0,
        };
        let (mut items, mut n_looked) = (Vec::new(), 0);
        while items.len() < query.limit && at < order.len() && n_looked < MOST_LOOKED {
            let n = (query.limit - items.len()).min(order.len() - at);
            let ids: Vec<ElementId> = order[at..at + n].iter().map(|(_, id)| *id).collect();
            (at, n_looked) = (at + n, n_looked + n);
            let part = query.part.as_deref();
            let found = self.views(&ids, wanted)?.into_iter();
            items.extend(
                found.filter(|element| part.is_none_or(|part| element.locator.contains(part))),
            );
        }
        let last = at.checked_sub(1).filter(|_| at < order.len());
        let next = last.map(|last| write_token(&order[last]));
        Ok(Page { items, next })
    }

    fn views(&self, ids: &[ElementId], wanted: ElementFilter) -> Result<Vec<ElementView>, Problem> {
        let mut outlook = lock(self.outlook);
        let mut elements = Elements::new(
            self.store,
            &mut outlook,
            self.sources,
            ElementFilter {
                // Whether they are in it is looked at one by one.
                state: None,
                ..wanted
            },
        )?;
        let views = elements.views(ids)?;
        let is_wanted = |state| wanted.state.is_none_or(|wanted| wanted == state);
        let views = views.into_iter().filter(|(kept, _)| is_wanted(kept.state));
        Ok(views.map(|(_, view)| view).collect())
    }
}

fn lock(outlook: &Mutex<Outlook>) -> std::sync::MutexGuard<'_, Outlook> {
    outlook.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where a list goes on: what the last element was sorted by, and its number.
fn write_token((rank, id): &(Rank, ElementId)) -> String {
    match rank {
        Rank::Number(number) => format!("n{:x}-{}", number.to_bits(), id.0),
        Rank::Text(text) => format!("t{}-{}", crate::door::hex(text.as_bytes()), id.0),
        Rank::None => format!("x-{}", id.0),
    }
}

fn read_token(token: &str) -> Option<(Rank, ElementId)> {
    let (rank, id) = token.rsplit_once('-')?;
    let id = ElementId(id.parse().ok()?);
    let rank = match rank.split_at_checked(1)? {
        ("n", bits) => Rank::Number(f64::from_bits(u64::from_str_radix(bits, 16).ok()?)),
        ("t", hex) => Rank::Text(String::from_utf8(unhex(hex)?).ok()?),
        ("x", "") => Rank::None,
        _ => return None,
    };
    Some((rank, id))
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let pairs = digits.chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair)
            .ok()
            .filter(|pair| pair.len() == 2)?;
        u8::from_str_radix(pair, 16).ok()
    });
    pairs.collect()
}

/// `GET /api/v1/elements`.
pub(crate) async fn index(
    State(app): State<Shared>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let params = Params::of(request.uri(), &QUERY)?;
    let page = list(&app, ElementQuery::of(&params)?).await?;
    Ok(json(StatusCode::OK, &page))
}

/// An element with what polls of it showed.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ElementDetail {
    #[serde(flatten)]
    pub(crate) element: ElementView,
    pub(crate) polls: Vec<PollView>,
    pub(crate) versions: Vec<VersionView>,
}

/// A poll.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct PollView {
    #[serde(serialize_with = "view::serialize_moment")]
    pub(crate) begun_at: Option<Moment>,
    #[serde(serialize_with = "view::serialize_moment")]
    pub(crate) at: Option<Moment>,
    pub(crate) outcome: &'static str,
    pub(crate) status: Option<u16>,
    pub(crate) error: Option<&'static str>,
    pub(crate) purpose: &'static str,
    pub(crate) is_counted: bool,
}

impl PollView {
    fn new(poll: &Poll) -> Self {
        Self {
            begun_at: Some(poll.begun_at),
            at: Some(poll.at),
            outcome: match poll.outcome {
                PollOutcome::First => "first",
                PollOutcome::Unchanged => "unchanged",
                PollOutcome::Changed => "changed",
                PollOutcome::Gone => "gone",
                PollOutcome::Failed => "failed",
                PollOutcome::Blocked => "blocked",
                PollOutcome::Differs => "differs",
            },
            status: poll.status,
            error: poll.error.map(|kind| kind.name()),
            purpose: match poll.purpose {
                Purpose::First => "first",
                Purpose::Due => "due",
                Purpose::Audit => "audit",
                Purpose::Asked => "asked",
            },
            is_counted: poll.is_counted,
        }
    }
}

/// A version.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct VersionView {
    pub(crate) n: u64,
    #[serde(serialize_with = "view::serialize_moment")]
    pub(crate) at: Option<Moment>,
    pub(crate) digest: Option<String>,
    pub(crate) bytes: Option<u64>,
}

impl VersionView {
    fn new(change: &Change) -> Self {
        Self {
            n: change.version,
            at: Some(change.found_at),
            digest: change.digest.as_ref().map(digest_text),
            bytes: change.bytes_after,
        }
    }
}

fn no_such_element() -> Problem {
    Problem::not_found("there is no such element").hint("/api/v1/elements lists them")
}

pub(crate) fn number(text: &str) -> Result<ElementId, Problem> {
    text.parse().map(ElementId).map_err(|_| no_such_element())
}

/// The settings of the source of an element.
fn settings_of<'a>(
    sources: &[Source],
    of: SourceId,
    all: &'a [SourceSettings],
) -> Option<&'a SourceSettings> {
    let source = sources.iter().find(|source| source.id == of)?;
    all.iter().find(|settings| settings.name == source.name)
}

/// The versions of an element.
pub(crate) fn versions(
    app: &Shared,
    store: &dyn Reader,
    id: ElementId,
) -> Result<Versions, Problem> {
    let kept = store.element(id)?.ok_or_else(no_such_element)?;
    let sources = store.sources()?;
    let current = app.current();
    let settings = settings_of(&sources, kept.element.source, &current.settings.sources);
    Ok(Versions::read(store, id, settings)?)
}

/// One element, with its polls and versions.
pub(crate) async fn detail(app: &Shared, id: ElementId) -> Result<ElementDetail, Problem> {
    let outlook = app.outlook().await?;
    app.read(move |app, store| {
        let versions = versions(app, store, id)?;
        let sources = view::sources(store, &app.current().settings, app.now())?;
        let mut outlook = lock(&outlook);
        let wanted = ElementFilter {
            listings: true,
            ..ElementFilter::default()
        };
        let mut elements = Elements::new(store, &mut outlook, &sources, wanted)?;
        let (_, element) = elements.views(&[id])?.pop().ok_or_else(no_such_element)?;
        Ok(ElementDetail {
            element,
            polls: store.polls(id, POLLS)?.iter().map(PollView::new).collect(),
            versions: versions.changes().iter().map(VersionView::new).collect(),
        })
    })
    .await
}

/// `GET /api/v1/elements/{id}`.
pub(crate) async fn show(
    State(app): State<Shared>,
    Path(id): Path<String>,
) -> Result<Response<Body>, Problem> {
    Ok(json(StatusCode::OK, &detail(&app, number(&id)?).await?))
}

/// `GET /api/v1/elements/{id}/versions/{n}`.
pub(crate) async fn version(
    State(app): State<Shared>,
    Path((id, n)): Path<(String, String)>,
) -> Result<Response<Body>, Problem> {
    let id = number(&id)?;
    let n: u64 = n.parse().map_err(|_| {
        Problem::not_found("there is no such version").hint("they are numbered from 1")
    })?;
    let (body, content_type) = app
        .read(move |app, store| {
            let versions = versions(app, store, id)?;
            let body = versions.body(n, &app.folder.bodies()?)?;
            Ok((body, versions.get(n)?.content_type.clone()))
        })
        .await?;
    Ok(sandboxed(body, content_type.as_deref()))
}

/// A body of somebody else's, of which nothing is run, loaded or taken for ours.
fn sandboxed(body: Vec<u8>, content_type: Option<&str>) -> Response<Body> {
    let content_type = content_type.unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default();
    let essence = essence.trim().to_ascii_lowercase();
    let is_type = essence.split('/').count() == 2
        && essence
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"/+-._".contains(&byte));
    // Our own pages run scripts of this origin: nobody else's may pass for one.
    let is_script = ["javascript", "ecmascript", "jscript", "livescript", "wasm"];
    let content_type = match is_type {
        true if is_script.iter().any(|word| essence.contains(word)) => "text/plain",
        true => content_type,
        false => "application/octet-stream",
    };
    let mut response = Response::new(Body::from(body));
    let headers = response.headers_mut();
    let octets = HeaderValue::from_static("application/octet-stream");
    let content_type = HeaderValue::from_str(content_type).unwrap_or(octets);
    headers.insert(CONTENT_TYPE, content_type);
    headers.insert(
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "sandbox; default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
        ),
    );
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("inline"));
    response
}

/// What changed between two versions, as a unified diff.
pub(crate) fn unified(
    versions: &Versions,
    (from, to): (u64, u64),
    locator: &str,
    diff: &str,
) -> Result<String, Problem> {
    if diff.is_empty() {
        return Ok(String::new());
    }
    let locator = redacted(locator);
    let locator: String = locator.chars().filter(|c| !c.is_control()).collect();
    let name = |n: u64| -> Result<String, Problem> {
        let found_at = rfc3339(versions.get(n)?.found_at);
        Ok(format!("{locator} (version {n}, found {found_at})"))
    };
    Ok(format!("--- {}\n+++ {}\n{diff}", name(from)?, name(to)?))
}

/// Which versions are meant: the last two where nothing is said.
pub(crate) fn which(
    from: Option<&str>,
    to: Option<&str>,
    numbers: Option<RangeInclusive<u64>>,
) -> Result<(u64, u64), Problem> {
    let read = |text: Option<&str>, name: &str| {
        let number = text.map(str::parse::<u64>).transpose();
        number.map_err(|_| Problem::bad_request(format!("`{name}` is the number of a version")))
    };
    let (from, to) = (read(from, "from")?, read(to, "to")?);
    let Some(numbers) = numbers else {
        return Err(Problem::not_found("there is no version yet"));
    };
    let (first, last) = (*numbers.start(), *numbers.end());
    let to = to.unwrap_or(last);
    let from = from.unwrap_or_else(|| to.saturating_sub(1).max(first));
    for n in [from, to] {
        if !numbers.contains(&n) {
            let problem = Problem::not_found(format!("there is no version {n}"));
            return Err(problem.hint(format!("there are versions {first} to {last}")));
        }
    }
    Ok((from, to))
}

/// `GET /api/v1/elements/{id}/diff`.
pub(crate) async fn diff(
    State(app): State<Shared>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let params = Params::of(request.uri(), &["from", "to"])?;
    let id = number(&id)?;
    let text = app
        .read(move |app, store| {
            let versions = versions(app, store, id)?;
            let (from, to) = which(params.get("from"), params.get("to"), versions.numbers())?;
            let diff = versions.diff(from, to, &app.folder.bodies()?)?;
            let kept = store.element(id)?.ok_or_else(no_such_element)?;
            unified(&versions, (from, to), &kept.element.locator, &diff)
        })
        .await?;
    Ok(answer("text/plain; charset=utf-8", text))
}

/// What is asked for, and will be done.
#[derive(Debug, Serialize)]
struct Accepted {
    id: u32,
}

/// `POST /api/v1/elements/{id}/poll`.
pub(crate) async fn poll(
    State(app): State<Shared>,
    Path(id): Path<String>,
) -> Result<Response<Body>, Problem> {
    let id = number(&id)?;
    poll_next(&app, id).await?;
    Ok(json(StatusCode::ACCEPTED, &Accepted { id: id.0 }))
}

/// Has an element polled next.
pub(crate) async fn poll_next(app: &Shared, id: ElementId) -> Result<(), Problem> {
    app.read(move |app, store| {
        let kept = store.element(id)?.ok_or_else(no_such_element)?;
        let sources = store.sources()?;
        let current = app.current();
        match settings_of(&sources, kept.element.source, &current.settings.sources) {
            Some(source) if source.is_paused => {
                Err(Problem::new(StatusCode::CONFLICT, "its source is paused")
                    .hint("resume the source first"))
            }
            Some(_) => Ok(()),
            None => Err(Problem::new(
                StatusCode::CONFLICT,
                "its source is not in springtide.toml, so it is kept and not polled",
            )
            .hint("add the source again")),
        }
    })
    .await?;
    app.link.poll(vec![id]).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_say_where_a_list_goes_on() {
        for (rank, id) in [
            (Rank::Number(-1.5), ElementId(7)),
            (
                Rank::Text("https://example.org/a-b?c=ä".into()),
                ElementId(0),
            ),
            (Rank::None, ElementId(u32::MAX)),
        ] {
            let token = write_token(&(rank.clone(), id));
            assert_eq!(read_token(&token), Some((rank, id)), "{token}");
        }
        for token in [
            "", "-", "n-1", "nzz-1", "t1-1", "tff-1", "y-1", "x-", "x1-1",
        ] {
            assert_eq!(read_token(token), None, "{token}");
        }
    }

    #[test]
    fn bodies_of_others_are_never_scripts_of_ours() {
        for (given, sent) in [
            (Some("text/html; charset=utf-8"), "text/html; charset=utf-8"),
            (Some("text/javascript"), "text/plain"),
            (Some("application/x-javascript;v=1"), "text/plain"),
            (Some("text/html\nx: y"), "application/octet-stream"),
            (Some("a/b/c"), "application/octet-stream"),
            (None, "application/octet-stream"),
        ] {
            let response = sandboxed(Vec::new(), given);
            assert_eq!(response.headers()[CONTENT_TYPE], sent, "{given:?}");
            let policy = response.headers()[CONTENT_SECURITY_POLICY]
                .to_str()
                .unwrap();
            assert!(policy.starts_with("sandbox;"));
        }
    }
}
