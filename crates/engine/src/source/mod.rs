//! Kinds of sources: how each is asked, and what its answers say.
//!
//! A kind is a `Protocol`, one to a file: `web` pages, listings (`sitemap`), `feed`s
//! and `search` boxes. It gets the bytes of an answer and makes a `Reading` of them. It
//! knows neither when something is polled nor whether it may be, and asks no network.
//! `list` reads files with addresses, which nobody is asked for.

pub mod feed;
pub mod links;
pub mod list;
pub(crate) mod listing;
pub(crate) mod search;
pub mod sitemap;
pub(crate) mod web;
pub mod websub;

use std::time::Duration;

use springtide_store::{Bodies, BodyId, Copy, Kept, Purpose, Role};
use url::Url;

use crate::clock;
use crate::fetch::{self, Answer, FailureKind, FetchFailure};
use crate::search::RowNews;
use crate::table::TableRead;

/// How a kind of source is asked, and what its answers say.
///
/// Where to ask is known before: a host is asked for its leave first.
pub(crate) trait Protocol: std::fmt::Debug + Send + Sync {
    /// What is sent to an element's address when it is polled.
    fn request<'a>(&'a self, kept: &'a Kept, purpose: Purpose) -> RequestParts<'a> {
        RequestParts::with_validators(kept, purpose)
    }

    /// Whether a poll goes on to where it is sent. If not, a redirect is read like any
    /// other answer.
    fn follows_redirects(&self) -> bool {
        true
    }

    /// Whether it is for the source, not for its host, to say how long nothing is asked
    /// after a 429 that does not.
    fn has_own_pauses(&self) -> bool {
        false
    }

    /// What an answer says.
    fn read(&self, answered: &AnswerContext<'_>) -> Result<Reading, ReadError>;
}

/// What is sent, besides the address.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RequestParts<'a> {
    pub(crate) etag: Option<&'a str>,
    pub(crate) last_modified: Option<&'a str>,
    pub(crate) headers: &'a [(String, String)],
    /// Nothing asks by GET.
    pub(crate) body: Option<&'a [u8]>,
}

/// Last-Modified has whole seconds: a page that changed less than this before it was
/// fetched, in milliseconds, may have changed again under the same date.
const LAST_MODIFIED_SETTLES_MS: i64 = 2_000;

impl<'a> RequestParts<'a> {
    /// The validators of the copy, if they can be relied on: a strong tag for an audit,
    /// any tag for another poll, or else a date that is old enough to be one change's.
    fn with_validators(kept: &'a Kept, purpose: Purpose) -> Self {
        let Some(copy) = &kept.copy else {
            return Self::default();
        };
        let is_audit = purpose == Purpose::Audit;
        let is_sure = |date: &str| {
            let modified_at = fetch::http_date(date).map(clock::moment);
            modified_at.is_some_and(|at| at.0 + LAST_MODIFIED_SETTLES_MS <= copy.fetched_at.0)
        };
        let (mut etag, mut last_modified) = (None, None);
        match (&copy.etag, &copy.last_modified) {
            (Some(tag), _) if !is_audit || !tag.starts_with("W/") => etag = Some(tag.as_str()),
            (None, Some(date)) if !is_audit && is_sure(date) => last_modified = Some(date.as_str()),
            _ => {}
        }
        Self {
            etag,
            last_modified,
            ..Self::default()
        }
    }

    /// The same for an address that the validators are not of.
    pub(crate) fn without_validators(self) -> Self {
        Self {
            etag: None,
            last_modified: None,
            ..self
        }
    }

    pub(crate) fn has_validators(&self) -> bool {
        self.etag.is_some() || self.last_modified.is_some()
    }
}

/// An answer, and what it answers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnswerContext<'a> {
    /// The element that was polled, as it was before.
    pub(crate) kept: &'a Kept,
    /// Whether the body of our copy is missing or damaged: whatever comes is new to us.
    pub(crate) is_lost: bool,
    /// Whether validators of our copy were sent.
    pub(crate) has_validators: bool,
    pub(crate) answer: &'a Answer,
    /// Where it came from, after all redirects.
    pub(crate) url: &'a Url,
    /// Where bodies are put that have changed.
    pub(crate) bodies: &'a Bodies,
}

/// What an answer says of the element that was polled if its status says it all, for
/// elements that have a copy of their own; nothing if there is a body to read.
fn status_only(answered: &AnswerContext<'_>) -> Result<Option<OwnSighting>, ReadError> {
    match answered.answer.status {
        200 | 203 => Ok(None),
        304 if answered.has_validators => Ok(Some(OwnSighting::NotModified)),
        304 => Err(ReadError::answer(
            "the server answered 304 to a request without validators",
        )),
        404 | 410 => Ok(Some(OwnSighting::NotThere)),
        status => Err(ReadError::Failed(FetchFailure::new(
            FailureKind::Status,
            format!("the server answered with status {status}"),
        ))),
    }
}

/// What an answer says.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// Of the element that was polled.
    pub(crate) own: OwnSighting,
    /// Of other elements, by their locators.
    pub(crate) others: Vec<(String, Sighting)>,
    /// Elements that it names, besides.
    pub(crate) mentions: Vec<Mention>,
    /// Why what it names may not be all.
    pub(crate) problem: Option<String>,
    /// For how long it asks not to be polled again.
    pub(crate) pause: Option<Duration>,
    /// Who tells of its changes.
    pub(crate) push: Option<websub::PushOffer>,
    /// What was on a page of results.
    pub(crate) page: PageTally,
    /// The rows of a table.
    pub(crate) table: Option<Box<TableRead>>,
}

impl From<OwnSighting> for Reading {
    fn from(own: OwnSighting) -> Self {
        Self {
            own,
            ..Self::default()
        }
    }
}

/// What an answer says of the element that was polled.
#[derive(Debug, Default)]
pub(crate) enum OwnSighting {
    /// Nothing: it has no copy of its own, and is polled for what it says of others.
    #[default]
    NoCopy,
    /// It is as it was, says the server.
    NotModified,
    /// Here it is.
    Here(Box<Sighting>),
    /// It is not there (404), or no longer there (410).
    NotThere,
}

/// An element as it was seen.
#[derive(Debug)]
pub(crate) struct Sighting {
    pub(crate) etag: Option<String>,
    pub(crate) last_modified: Option<String>,
    pub(crate) content_type: Option<String>,
    pub(crate) digest: [u8; 32],
    /// Where the body was put; nothing if it is as it was in all that matters.
    pub(crate) body: Option<BodyId>,
    pub(crate) sketch: Vec<u8>,
    pub(crate) n_bytes: u64,
    /// It has changed, but not in what its staleness goes by.
    pub(crate) is_minor: bool,
    /// How many of its parts changed, if it has any: rows.
    pub(crate) n_parts: Option<u32>,
    /// What the fields of a row say, if that is not what we hold.
    pub(crate) news: Option<Box<RowNews>>,
}

impl Sighting {
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
            is_minor: false,
            n_parts: None,
            news: None,
        }
    }

    /// As compared with our copy now, which may have been replaced since this was read;
    /// nothing if nobody knows any more whether it differs.
    pub(crate) fn compared_with(mut self, copy: Option<&Copy>) -> Option<Self> {
        if copy.is_some_and(|copy| copy.digest == self.digest) {
            self.body = None;
            return Some(self);
        }
        self.body.is_some().then_some(self)
    }

    /// The body of an answer, seen to have this digest. It is put away if it has changed.
    fn of_answer(
        answered: &AnswerContext<'_>,
        digest: [u8; 32],
        has_changed: bool,
    ) -> Result<Self, ReadError> {
        let answer = answered.answer;
        let body = has_changed.then(|| answered.bodies.put(&answer.body));
        Ok(Self {
            etag: answer.etag.clone(),
            last_modified: answer.last_modified.clone(),
            content_type: answer.content_type.clone(),
            body: body.transpose()?,
            n_bytes: answer.body.len() as u64,
            ..Self::unchanged(digest)
        })
    }
}

/// An element that an answer names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mention {
    pub(crate) locator: String,
    pub(crate) role: Role,
    pub(crate) kind: MentionKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MentionKind {
    /// It was not named before.
    Added,
    /// It was, and is said to have changed since.
    Touched,
    /// It is no longer named.
    Removed,
}

/// What was on a page of results, besides our rows.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct PageTally {
    /// How many results there were, those that came twice, and those of which nothing
    /// could be made.
    pub(crate) n_results: usize,
    pub(crate) n_repeated: usize,
    pub(crate) n_unusable: usize,
    pub(crate) total: Option<f64>,
    /// How many of them are rows, and the fields that none of these has.
    pub(crate) n_rows: usize,
    pub(crate) absent: Vec<String>,
}

/// Why an answer could not be read.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The poll has failed.
    Failed(FetchFailure),
    /// What was read could not be kept: we cannot go on.
    Store(springtide_store::Error),
}

impl ReadError {
    pub(crate) fn answer(message: impl Into<String>) -> Self {
        Self::Failed(FetchFailure::new(FailureKind::Answer, message.into()))
    }
}

impl From<springtide_store::Error> for ReadError {
    fn from(error: springtide_store::Error) -> Self {
        Self::Store(error)
    }
}
