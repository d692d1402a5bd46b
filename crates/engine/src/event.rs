//! What an engine tells while it runs.

use springtide_store::{BodyId, ChangeKind, ElementId, FailureKind, Moment, Purpose};

use crate::source::websub::PushOffer;

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The engine is ready to poll.
    Started {
        /// Elements that are known.
        n_elements: u64,
        /// Those of them that have never been polled.
        n_new: u64,
        /// How long it took.
        seconds: f64,
    },
    /// A poll has ended.
    Polled(Polled),
    /// A page of the answer to a query of a search source was asked for.
    Asked {
        /// The source.
        source: String,
        /// The query.
        query: String,
        /// Which page, counted from 1.
        page: u64,
        /// How many results were on it.
        n_results: usize,
        /// How many were rows of ours.
        n_ours: usize,
        /// When it was answered.
        at: Moment,
        /// The status of the answer, if there was one.
        status: Option<u16>,
        /// How long that took.
        seconds: f64,
        /// What went wrong, if something did: the kind, and in a sentence.
        error: Option<(FailureKind, String)>,
    },
    /// A listing or a page named elements that were not known.
    Found {
        /// The source.
        source: String,
        /// How many.
        n_elements: u64,
    },
    /// A source itself fails.
    SourceFailed {
        /// The source.
        source: String,
        /// Why.
        message: String,
    },
    /// A source does what it can, and its user could do something about the rest.
    SourceWarned {
        /// The source.
        source: String,
        /// What, in a sentence.
        message: String,
    },
    /// A feed says who tells of its changes.
    PushOffered {
        /// The source.
        source: String,
        /// Who, and by what name they know it.
        offer: PushOffer,
    },
    /// A host is left alone for a while.
    Paused(PausedHost),
    /// Every new element was polled, or could not be.
    FirstPassDone {
        /// Elements that there are.
        n_elements: u64,
        /// Those of them whose last poll failed.
        n_failing: u64,
        /// Those that we are asked to keep away from.
        n_blocked: u64,
        /// Rows that no query returns, and that cannot be asked for otherwise.
        n_unreached: u64,
    },
    /// No more polls are begun.
    Stopping {
        /// Polls that are still under way.
        n_under_way: usize,
    },
}

/// A poll that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Polled {
    /// Which element.
    pub element: ElementId,
    /// Its address.
    pub locator: String,
    /// The source it is of.
    pub source: String,
    /// When.
    pub at: Moment,
    /// How long it took.
    pub seconds: f64,
    /// The status of the answer, if there was one.
    pub status: Option<u16>,
    /// Bytes of its body, decoded, if it came with one.
    pub n_bytes: Option<u64>,
    /// Why.
    pub purpose: Purpose,
    /// What was found, if anything changed.
    pub change: Option<ChangeKind>,
    /// Whether a digest has shown a change; the poll that follows shows which.
    pub differs: bool,
    /// The bodies of the version before and of this one, if it has changed.
    pub versions: Option<(BodyId, BodyId)>,
    /// What went wrong, if something did: the kind, and in a sentence.
    pub error: Option<(FailureKind, String)>,
    /// New elements that wait for their first poll.
    pub n_new: u64,
}

/// A host to which requests are paused for a while, since it fails or asks for it.
#[derive(Debug, Clone, PartialEq)]
pub struct PausedHost {
    /// The host, or the name of the group that it is in.
    pub host: String,
    /// When it is asked again, at the earliest.
    pub until: Moment,
    /// Why, in a few words.
    pub why: String,
    /// Whether the host asked for it (Retry-After), rather than failing.
    pub is_requested: bool,
}
