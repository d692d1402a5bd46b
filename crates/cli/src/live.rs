//! What touches the network: the calls into the engine, and nothing else.

use std::path::Path;

use springtide_engine::settings::{Settings, SourceSettings};
use springtide_engine::{Ended, Event, RobotsFound, Until};
use springtide_store::{SourceKind, Store};
use tokio::sync::{mpsc, watch};

use crate::failure::{Code, Failure, Outcome};
use crate::project::causes;
use crate::signals::Signals;

/// What was found at an address.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub(crate) struct Found {
    /// What it is.
    #[serde(skip)]
    pub(crate) kind: Option<SourceKind>,
    /// How many elements it names.
    pub(crate) n_elements: Option<u64>,
    /// How many further listings it names.
    pub(crate) n_listings: Option<u64>,
    /// What robots.txt says, in a few words.
    pub(crate) robots: Option<String>,
    pub(crate) crawl_delay_seconds: Option<f64>,
    /// `etag`, `last-modified`.
    pub(crate) validators: Vec<String>,
    /// What hints it gives at changes: `lastmod`.
    pub(crate) hints: Vec<String>,
    /// What went wrong.
    pub(crate) error: Option<String>,
}

/// Looks at a source: one request or a few.
pub(crate) fn inspect(
    store: &mut dyn Store,
    settings: &Settings,
    source: &SourceSettings,
) -> Outcome<Option<Found>> {
    let Ok(url) = springtide_engine::fetch::locator(&source.url) else {
        return Ok(None);
    };
    let as_site = source.kind == SourceKind::Site;
    let inspected = runtime()?
        .block_on(springtide_engine::inspect(store, settings, &url, as_site))
        .map_err(|error| refuse(&error))?;
    let found = match inspected {
        Ok(found) => found,
        Err(failure) => {
            return Ok(Some(Found {
                error: Some(failure.message),
                ..Found::default()
            }));
        }
    };
    let robots = match found.robots {
        RobotsFound::None => "none",
        RobotsFound::Allowed => "allowed",
        RobotsFound::Disallowed => "keeps us out",
        RobotsFound::Unreachable => "cannot be had, so we stay away",
    };
    let is_open = matches!(found.robots, RobotsFound::None | RobotsFound::Allowed);
    let named = |wanted: &[(bool, &str)]| {
        let wanted = wanted.iter().filter(|(is_there, _)| *is_there);
        wanted.map(|(_, name)| (*name).to_owned()).collect()
    };
    Ok(Some(Found {
        kind: is_open.then_some(found.kind),
        n_elements: is_open.then_some(found.n_elements),
        n_listings: (found.n_listings > 0).then_some(found.n_listings),
        robots: Some(robots.to_owned()),
        crawl_delay_seconds: found.crawl_delay.map(|delay| delay.as_secs_f64()),
        validators: named(&[
            (found.has_etag, "etag"),
            (found.has_last_modified, "last-modified"),
        ]),
        hints: named(&[(found.has_hints, "lastmod")]),
        error: None,
    }))
}

/// Keeps the copy fresh until it is over; `each` is told what happens.
pub(crate) fn run(
    folder: &Path,
    settings: Settings,
    until: Until,
    signals: &Signals,
    each: &mut dyn FnMut(Event),
) -> Outcome<Ended> {
    let (stop, stopped) = watch::channel(false);
    // If the engine has ended meanwhile, there is nothing to stop.
    signals.on_stop(move || {
        let _ = stop.send(true);
    });
    runtime()?.block_on(async {
        let (sender, mut events) = mpsc::unbounded_channel();
        let running = springtide_engine::run(folder, settings, until, stopped, sender);
        tokio::pin!(running);
        loop {
            tokio::select! {
                ended = &mut running => {
                    while let Ok(event) = events.try_recv() {
                        each(event);
                    }
                    return ended.map_err(|error| refuse(&error));
                }
                Some(event) = events.recv() => each(event),
            }
        }
    })
}

/// Where the engine runs.
pub(crate) fn runtime() -> Outcome<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed("cannot start").cause(error.to_string()))
}

/// An error of the engine's own.
pub(crate) fn refuse(error: &springtide_engine::Error) -> Failure {
    use springtide_engine::Error;
    match error {
        Error::Store(springtide_store::Error::InUse) => {
            Failure::new(Code::InUse, "the project is in use")
                .cause("another process keeps it fresh")
                .hint("stop that one first; verbs that only read work beside it")
        }
        Error::Client(_) | Error::Selector(_) | Error::Policy(_) => {
            Failure::input("the settings cannot be used").cause(causes(error))
        }
        _ => Failure::failed("cannot go on")
            .cause(causes(error))
            .hint("`springtide doctor` checks the store"),
    }
}
