//! Facts, kept: sources, elements, copies, queries, and what polls showed.
//!
//! A [`Store`] keeps what the engine tells it and computes nothing. Everything is
//! written as a batch of [`Fact`]s, which is kept whole or not at all: a poll and
//! the state that it changed are one batch, so after a crash every finished poll is
//! there once. Numbers of sources, groups and elements are given by the one who
//! writes, in the order of arrival; there is one writer at a time.
//!
//! It knows no policy: what a scheduler remembers is bytes to it. Bodies are kept
//! beside it, by their content: see [`BodyId`].

#![warn(missing_docs)]

mod body;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod fact;
mod failure;
mod memory;
mod problem;
mod sqlite;

pub use body::{Bodies, BodyId, Freed, ParseBodyIdError};
pub use fact::*;
pub use failure::{Failure, FailureKind};
pub use memory::Memory;
pub use problem::Problem;
pub use sqlite::Sqlite;

/// Why facts could not be kept or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Others have kept it busy for too long: to try again may help.
    #[error("the store is busy")]
    Busy(#[source] Cause),
    /// There is no room left where it is.
    #[error("there is no room left for the store")]
    Full(#[source] Cause),
    /// It may not be opened, or not be written.
    #[error("the store may not be used")]
    Denied(#[source] Cause),
    /// The database behind it failed in a way that nothing is known to help against.
    #[error("the store failed")]
    Failed(#[source] Cause),
    /// A file could not be read or written.
    #[error("cannot use {path}")]
    File {
        /// Which one.
        path: std::path::PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Another process writes to the store.
    #[error("another process is using the store")]
    InUse,
    /// The store is there to be read only.
    #[error("the store was opened for reading")]
    ReadOnly,
    /// It was written by a later version.
    #[error("the store is of version {found}, and this program knows versions up to {known}")]
    TooNew {
        /// Its version.
        found: u32,
        /// The latest that is known.
        known: u32,
    },
    /// It was written by an earlier version, and can only be brought up to date by
    /// one who writes.
    #[error("the store is of version {found} and has to be brought up to version {known}")]
    TooOld {
        /// Its version.
        found: u32,
        /// The version that is needed.
        known: u32,
    },
    /// There is none.
    #[error("there is no store at {0}")]
    Missing(std::path::PathBuf),
    /// A row or a body is not as it was written.
    #[error("the store is damaged: {0}")]
    Damaged(String),
}

/// What is behind an error: the database's own, whichever database it is.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

impl Error {
    fn file(path: &std::path::Path, source: std::io::Error) -> Self {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        let is_full = matches!(source.kind(), StorageFull | QuotaExceeded);
        let error = Self::File {
            path: path.to_owned(),
            source,
        };
        match is_full {
            true => Self::Full(error.into()),
            false => error,
        }
    }
}

/// Where facts are kept.
pub trait Store: Send {
    /// Keeps all of these or none of them.
    ///
    /// # Errors
    /// If they cannot be written; then nothing is.
    fn commit(&mut self, facts: &[Fact]) -> Result<(), Error>;

    /// All sources, in the order of their numbers.
    fn sources(&self) -> Result<Vec<Source>, Error>;
    /// All groups, in the order of their numbers, each after the one it is in.
    fn groups(&self) -> Result<Vec<Group>, Error>;
    /// Some groups, by number; those that there are.
    fn groups_by_id(&self, ids: &[GroupId]) -> Result<Vec<Group>, Error>;
    /// What is known of hosts: of outermost groups.
    fn hosts(&self) -> Result<Vec<Host>, Error>;
    /// What the scheduler remembers of groups; those it remembers anything of.
    fn group_memories(&self) -> Result<Vec<(GroupId, Vec<u8>)>, Error>;
    /// The same for some groups.
    fn group_memories_by_id(&self, ids: &[GroupId]) -> Result<Vec<(GroupId, Vec<u8>)>, Error>;
    /// A note that was kept by this name.
    fn note(&self, name: &str) -> Result<Option<Vec<u8>>, Error>;
    /// The number that the next element will have.
    fn next_element(&self) -> Result<u32, Error>;

    /// An element, by its number.
    fn element(&self, id: ElementId) -> Result<Option<Kept>, Error>;
    /// An element of a source, by its locator.
    fn find(&self, source: SourceId, locator: &str) -> Result<Option<Kept>, Error>;
    /// The numbers of elements of a source, by their locators: for those who have
    /// many to ask for and need to know little.
    fn find_ids(
        &self,
        source: SourceId,
        locators: &[&str],
    ) -> Result<Vec<Option<ElementId>>, Error> {
        let find = |locator: &&str| self.find(source, locator);
        let ids = locators.iter().map(find);
        ids.map(|kept| Ok(kept?.map(|kept| kept.element.id)))
            .collect()
    }
    /// All elements with this locator, whichever source they are of.
    fn find_all(&self, locator: &str) -> Result<Vec<Kept>, Error>;
    /// Elements in the order of their numbers: at most `limit` with numbers from
    /// `from` on, of one source or of all.
    fn elements(
        &self,
        source: Option<SourceId>,
        from: ElementId,
        limit: usize,
    ) -> Result<Vec<Kept>, Error>;
    /// New elements of an outermost group, from a number on, in their order: what
    /// a first pass has to go through.
    fn new_elements(
        &self,
        host: GroupId,
        from: ElementId,
        limit: usize,
    ) -> Result<Vec<ElementId>, Error>;
    /// How many new elements each outermost group has, where it has any.
    fn n_new(&self) -> Result<Vec<(GroupId, u64)>, Error>;
    /// Calls `each` with what is kept of all elements in few bytes, in the order of
    /// their numbers, leaving out all but every `stride`-th block of them.
    fn scan(&self, stride: usize, each: &mut dyn FnMut(ElementId, &Brief)) -> Result<(), Error>;

    /// Changes found, newest first: at most `limit` with numbers below `before`.
    fn changes(
        &self,
        filter: &ChangeFilter,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Change>, Error>;
    /// Polls of an element, newest first.
    fn polls(&self, element: ElementId, limit: usize) -> Result<Vec<Poll>, Error>;
    /// Audit polls since a moment, in their order.
    fn audits(&self, since: Moment) -> Result<Vec<Audit>, Error>;
    /// When the latest polls that count were begun, latest first.
    fn latest_polls(&self, limit: usize) -> Result<Vec<Moment>, Error>;
    /// What is known of a query of a source, by its text.
    fn query(&self, source: SourceId, text: &str) -> Result<Option<Query>, Error>;
    /// What is known of the queries of a source, in the order of their texts.
    fn queries(&self, source: SourceId) -> Result<Vec<Query>, Error>;
    /// Every body that a copy or a kept version names.
    fn bodies(&self, each: &mut dyn FnMut(BodyId)) -> Result<(), Error>;
}
