//! What touches the network: the calls into the engine, and nothing else.

use std::path::Path;
use std::time::Duration;

use springtide_engine::settings::{Settings, SourceSettings};
use springtide_engine::{Ended, Event};
use springtide_store::{ElementId, SourceKind};

use crate::failure::{Failure, Outcome};
use crate::signals::Signals;

/// What was found at an address.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub(crate) struct Found {
    /// What it is.
    #[serde(skip)]
    pub(crate) kind: Option<SourceKind>,
    /// How many elements it names.
    pub(crate) n_elements: Option<u64>,
    /// What robots.txt says, in a few words.
    pub(crate) robots: Option<String>,
    pub(crate) crawl_delay_seconds: Option<f64>,
    /// `etag`, `last-modified`.
    pub(crate) validators: Vec<String>,
    /// What hints it gives at changes: `lastmod`.
    pub(crate) hints: Vec<String>,
}

/// What to poll, and until when.
#[derive(Debug, Clone)]
pub(crate) struct Until {
    pub(crate) span: Option<Duration>,
    pub(crate) max_polls: Option<u64>,
    pub(crate) what: What,
}

#[derive(Debug, Clone)]
pub(crate) enum What {
    /// Whatever the policy says, for good.
    Everything,
    /// What is due now.
    DueNow,
    /// These, now.
    These(Vec<ElementId>),
}

/// Looks at a source: one request or a few. Nothing if it cannot be asked yet.
pub(crate) fn inspect(_settings: &Settings, _source: &SourceSettings) -> Outcome<Option<Found>> {
    // TO CONNECT: springtide_engine::inspect(settings, source).
    Ok(None)
}

/// Keeps the copy fresh until it is over; `each` is told what happens.
pub(crate) fn run(
    _folder: &Path,
    _settings: Settings,
    _until: Until,
    _signals: &Signals,
    _each: &mut dyn FnMut(Event),
) -> Outcome<Ended> {
    // TO CONNECT: a runtime, a watch channel that `signals.on_stop` sends to, an
    // unbounded channel of events that `each` is called with, and springtide_engine::run.
    Err(Failure::failed("this build cannot poll yet"))
}
