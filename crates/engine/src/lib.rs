//! Polls sources at the pace of a budget and keeps the copy: the only crate that
//! touches the outside world.
//!
//! [`run()`] is all there is to it: it takes a project's folder, its [`Settings`] and
//! what it has of the world ([`Outside`]), polls what `springtide-policy` says when it says so, and keeps what it finds in
//! `springtide-store`. It contains no formula and decides nothing but what follows
//! from an answer: who may be asked (`fetch`, `robots_cache`), whether what came back is a
//! change (`detect`), and which elements a source has (`source`).
//!
//! What goes wrong with a source is an observation, which is kept and shown. An
//! [`Error`] means that the engine itself cannot go on.

mod blocking;
mod choose;
pub mod clock;
mod clock_step;
pub mod detect;
mod event;
mod fail_point;
pub mod fetch;
#[cfg(test)]
mod fuzz;
mod handle;
mod inspect;
mod keep;
mod ledger;
mod new_elements;
pub mod origin;
mod outside;
mod poll;
mod reach;
pub mod register;
pub mod retain;
mod robots_cache;
mod run;
pub mod search;
pub mod settings;
pub mod source;
pub mod table;
mod trust;
pub mod view;

pub use event::{Event, PausedHost, Polled};
pub use fail_point::FAIL_POINTS;
pub use handle::{Controls, Events, Handle, Heard, NotRunning, Pulse, handle};
pub use inspect::{Inspection, RobotsFound, inspect};
pub use outside::Outside;
pub use run::{RunOptions, RunScope, run};
pub use settings::Settings;

/// Why the engine cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] springtide_store::Error),
    /// Nothing can be asked.
    #[error(transparent)]
    Client(#[from] fetch::Error),
    /// The sources could not be brought in step with the settings.
    #[error(transparent)]
    Register(#[from] register::Error),
    /// A selector is none.
    #[error(transparent)]
    Selector(#[from] detect::BadSelector),
    /// A number in the settings makes no sense.
    #[error(transparent)]
    Policy(#[from] springtide_policy::Error),
    /// Elements or groups are not numbered as they should be.
    #[error("the numbers of elements or groups in the store do not follow on from each other")]
    Numbering,
    /// The copy of a table cannot be written.
    #[error("cannot write the copy {path}: {cause}")]
    Copy {
        /// Where it is.
        path: String,
        /// Why.
        cause: String,
    },
}

impl Error {
    pub(crate) fn copy(path: &std::path::Path, cause: impl std::fmt::Display) -> Self {
        Self::Copy {
            path: path.display().to_string(),
            cause: cause.to_string(),
        }
    }
}

/// What has come of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// Why it ended.
    pub why: EndReason,
    /// Polls that ended.
    pub n_polls: u64,
    /// Changes that they found.
    pub n_changes: u64,
    /// Polls that failed.
    pub n_failed: u64,
    /// Sources that fail themselves.
    pub failed_sources: Vec<String>,
    /// Hosts that are paused now, since they fail or ask for it.
    pub paused_hosts: Vec<PausedHost>,
    /// When the budget allows the next poll of what was wanted, if it ended for that.
    pub resumes_at: Option<springtide_store::Moment>,
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// It was told to.
    Stopped,
    /// Its time was up.
    TimeUp,
    /// It made as many polls as it was to make.
    MaxPolls,
    /// Nothing was left to do.
    Done,
    /// The budget does not allow what is left to do.
    Budget,
    /// What is left to do is at hosts that are left alone for now, or was there and failed.
    Paused,
}
