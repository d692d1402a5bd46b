//! Changes as they are found: server-sent events that lose none; and, where they are
//! asked for, the numbers of the overview in the same stream.
//!
//! What was found is read from the store, in the order of its numbers; the engine's events
//! only say that there is something to read. The latest are held in memory, already
//! written, so that a thousand listeners cost one read; whoever is further behind reads
//! the store until they have caught up.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Response};
use futures_util::stream;
use serde::Serialize;
use springtide_engine::view::{self, Age, BudgetUse, ChangeView, Freshness, States, Status};
use springtide_store::{Change, ChangeFilter, Reader, SourceKind};
use tokio::sync::{Semaphore, mpsc, watch};

use crate::app::Shared;
use crate::door::answer;
use crate::params::Params;
use crate::problem::Problem;

/// Changes that are held in memory.
const HELD: usize = 4096;
/// Changes that are read at once.
const PAGE: usize = 500;
/// How often the store is looked at, whether or not anyone says that there is something:
/// another process may write to it.
const LOOKS: Duration = Duration::from_secs(1);
/// What comes in quick succession is told together.
const TOGETHER: Duration = Duration::from_millis(50);
/// A stream in which nothing happens says so this often, so that nobody takes it for dead.
const STILL_HERE: Duration = Duration::from_secs(15);
/// How often the numbers of the overview are told: once for all who listen, and not at all
/// while nobody does.
const NUMBERS: Duration = Duration::from_secs(1);
/// Streams at a time.
const MOST_STREAMS: usize = 2000;
/// Events that wait for one listener.
const WAITING: usize = 64;

/// A change with its number, as it is told.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct NumberedChange {
    pub(crate) id: u64,
    #[serde(flatten)]
    pub(crate) change: ChangeView,
}

/// The latest changes.
pub(crate) struct Feed {
    /// The number of the latest.
    latest: watch::Sender<u64>,
    held: Mutex<Held>,
    /// The numbers of the overview, as an event.
    overview: watch::Sender<Bytes>,
    places: Arc<Semaphore>,
}

/// What `status` has that the overview shows anew.
#[derive(Serialize)]
struct OverviewView<'a> {
    freshness: &'a Freshness,
    age_seconds: &'a Age,
    budget: &'a BudgetUse,
    n_elements: u64,
    n_sources: usize,
    n_polls: u64,
    n_changes: u64,
    oldest_poll_age_seconds: Option<f64>,
    states: &'a States,
}

impl<'a> OverviewView<'a> {
    fn new(status: &'a Status) -> Self {
        Self {
            freshness: &status.freshness,
            age_seconds: &status.age_seconds,
            budget: &status.budget,
            n_elements: status.n_elements,
            n_sources: status.n_sources,
            n_polls: status.n_polls,
            n_changes: status.n_changes,
            oldest_poll_age_seconds: status.oldest_poll_age_seconds,
            states: &status.states,
        }
    }
}

#[derive(Default)]
struct Held {
    /// All changes above this number are held.
    above: u64,
    frames: VecDeque<Frame>,
}

/// An event, written.
#[derive(Clone)]
struct Frame {
    id: u64,
    source: Arc<str>,
    bytes: Bytes,
}

impl Default for Feed {
    fn default() -> Self {
        Self {
            latest: watch::Sender::new(0),
            held: Mutex::default(),
            overview: watch::Sender::default(),
            places: Arc::new(Semaphore::new(MOST_STREAMS)),
        }
    }
}

/// Changes with all that is told of them.
pub(crate) fn numbered(
    app: &Shared,
    store: &dyn Reader,
    changes: &[Change],
) -> Result<Vec<NumberedChange>, Problem> {
    let sources: HashMap<_, _> = (store.sources()?.into_iter())
        .map(|source| (source.id, source))
        .collect();
    let bodies = match sources.values().any(|s| s.kind == SourceKind::Search) {
        true => Some(app.folder.bodies()?),
        false => None,
    };
    let mut told = Vec::with_capacity(changes.len());
    for change in changes {
        let kept = store.element(change.element)?;
        let locator = kept.map(|kept| kept.element.locator).unwrap_or_default();
        let source = sources.get(&change.source);
        let is_row = source.is_some_and(|source| source.kind == SourceKind::Search);
        let fields = match bodies.as_ref().filter(|_| is_row) {
            Some(bodies) => Some(view::fields_of(store, bodies, change)?),
            None => None,
        };
        let source = source.map_or("", |source| &*source.name);
        told.push(NumberedChange {
            id: change.number,
            change: ChangeView::new(change, source, &locator, fields),
        });
    }
    Ok(told)
}

/// The number of the latest change.
pub(crate) fn latest(store: &dyn Reader) -> Result<u64, Problem> {
    let newest = store.changes(&ChangeFilter::default(), None, 1)?;
    Ok(newest.first().map_or(0, |change| change.number))
}

fn frames(app: &Shared, store: &dyn Reader, after: u64) -> Result<Vec<Frame>, Problem> {
    let changes = store.changes_after(after, PAGE)?;
    let told = numbered(app, store, &changes)?;
    let frame = |told: NumberedChange| {
        let json = serde_json::to_string(&told).unwrap_or_default();
        Frame {
            id: told.id,
            source: told.change.source.as_str().into(),
            bytes: format!("id: {}\nevent: change\ndata: {json}\n\n", told.id).into(),
        }
    };
    Ok(told.into_iter().map(frame).collect())
}

/// Reads what is found for as long as the server lives.
pub(crate) async fn follow(app: Shared) {
    let feed = &app.feed;
    // Until the store can be read, there is nothing to follow.
    let mut last = loop {
        match app.read(|_, store| latest(store)).await {
            Ok(last) => break last,
            Err(_) => tokio::time::sleep(LOOKS).await,
        }
    };
    feed.held().above = last;
    feed.latest.send_replace(last);
    loop {
        let _ = tokio::time::timeout(LOOKS, app.link.found()).await;
        tokio::time::sleep(TOGETHER).await;
        // A store that cannot be read now is looked at again; its trouble is told by
        // others.
        while let Ok(new) = app.read(move |app, store| frames(app, store, last)).await {
            let Some(newest) = new.last().map(|frame| frame.id) else {
                break;
            };
            let n = new.len();
            feed.push(new);
            last = newest;
            feed.latest.send_replace(last);
            if n < PAGE {
                break;
            }
        }
    }
}

/// Tells the numbers of the overview for as long as the server lives.
pub(crate) async fn tell_overview(app: Shared) {
    let listeners = &app.feed.overview;
    loop {
        tokio::time::sleep(NUMBERS).await;
        if listeners.receiver_count() == 0 {
            continue;
        }
        // Those that cannot be had now are told when they can.
        if let Ok(status) = app.status().await
            && let Ok(json) = serde_json::to_string(&OverviewView::new(&status))
        {
            listeners.send_replace(format!("event: overview\ndata: {json}\n\n").into());
        }
    }
}

impl Feed {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, new: Vec<Frame>) {
        let mut held = self.held();
        held.frames.extend(new);
        while held.frames.len() > HELD {
            if let Some(frame) = held.frames.pop_front() {
                held.above = frame.id;
            }
        }
    }

    /// Those above a number, if they are held.
    fn after(&self, number: u64) -> Option<Vec<Frame>> {
        let held = self.held();
        if number < held.above {
            return None;
        }
        let from = held.frames.partition_point(|frame| frame.id <= number);
        Some(held.frames.range(from..).take(PAGE).cloned().collect())
    }

    /// The number of the latest change.
    pub(crate) fn latest(&self) -> watch::Receiver<u64> {
        self.latest.subscribe()
    }
}

/// `GET /api/v1/changes/stream`.
pub(crate) async fn stream_changes(
    State(app): State<Shared>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let params = Params::of(request.uri(), &["source", "after", "overview"])?;
    let overview = match params.get("overview") {
        None | Some("false") => None,
        Some("true") => Some(app.feed.overview.subscribe()),
        Some(_) => return Err(Problem::bad_request("`overview` is true or false")),
    };
    let source = params.get("source").map(str::to_owned);
    let seen = request.headers().get("last-event-id");
    let seen = match seen {
        Some(seen) => Some(seen.to_str().unwrap_or("?").to_owned()),
        None => params.get("after").map(str::to_owned),
    };
    let seen = seen.filter(|seen| !seen.is_empty());
    let newest = app.read(|_, store| latest(store)).await?;
    let after = match seen.map(|seen| seen.parse::<u64>()) {
        None => newest,
        // One from another store would wait for ever.
        Some(Ok(seen)) => seen.min(newest),
        Some(Err(_)) => {
            return Err(Problem::bad_request("Last-Event-ID is the id of a change"));
        }
    };
    let place = Arc::clone(&app.feed.places).try_acquire_owned();
    let place = place.map_err(|_| Problem::unavailable("too many streams are open"))?;
    let (sender, receiver) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        // That the listener is gone is all that can go wrong.
        let _ = send(&app, &sender, after, source.as_deref(), overview).await;
        drop(place);
    });
    let frames = stream::unfold(receiver, |mut receiver| async {
        let frame: Bytes = receiver.recv().await?;
        Some((Ok::<_, std::convert::Infallible>(frame), receiver))
    });
    let mut response = answer("text/event-stream", Body::from_stream(frames));
    let headers = response.headers_mut();
    // Proxies that gather what they pass on would hold it back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// The listener has gone.
struct Gone;

async fn send(
    app: &Shared,
    sender: &mpsc::Sender<Bytes>,
    mut after: u64,
    source: Option<&str>,
    mut overview: Option<watch::Receiver<Bytes>>,
) -> Result<(), Gone> {
    let mut latest = app.feed.latest();
    let hello = Bytes::from_static(b"retry: 2000\n: changes follow\n\n");
    sender.send(hello).await.map_err(|_| Gone)?;
    loop {
        latest.borrow_and_update();
        let new = match app.feed.after(after) {
            Some(held) => held,
            None => {
                let read = app.read(move |app, store| frames(app, store, after));
                // Whoever cannot be told all is told nothing more, and comes again.
                read.await.map_err(|_| Gone)?
            }
        };
        if new.is_empty() {
            tokio::select! {
                changed = latest.changed() => changed.map_err(|_| Gone)?,
                () = sender.closed() => return Err(Gone),
                numbers = next_overview(&mut overview) => {
                    sender.send(numbers?).await.map_err(|_| Gone)?;
                }
                () = tokio::time::sleep(STILL_HERE) => {
                    let still = Bytes::from_static(b": still here\n\n");
                    sender.send(still).await.map_err(|_| Gone)?;
                }
            }
        }
        for frame in new {
            after = frame.id;
            if source.is_none_or(|source| *source == *frame.source) {
                sender.send(frame.bytes).await.map_err(|_| Gone)?;
            }
        }
    }
}

/// The numbers of the overview once they are told again; never, where nobody asked for
/// them.
async fn next_overview(numbers: &mut Option<watch::Receiver<Bytes>>) -> Result<Bytes, Gone> {
    match numbers {
        Some(numbers) => {
            numbers.changed().await.map_err(|_| Gone)?;
            Ok(numbers.borrow_and_update().clone())
        }
        None => std::future::pending().await,
    }
}
