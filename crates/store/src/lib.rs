//! Facts, kept: sources, elements, copies, queries, and what polls showed.
//!
//! A store keeps what the engine tells it and computes nothing. Whoever shows something
//! is a [`Reader`]; any number of them read beside a [`Writer`]. All that is written is
//! a batch of [`Fact`]s, which is kept whole or not at all: a poll and the state that it
//! changed are one batch, so after a crash every finished poll is there once.
//!
//! A writer writes under a lease, which it has from when the store is opened until it is
//! closed. Of a store in one file there is one writer at a time, and the lease is a lock
//! that dies with its process. A store for several workers has a lease for every
//! [`Partition`]: outermost groups, with all that is in them, are in one partition, so
//! what is known of hosts, groups and elements has one writer at a time there as well.
//! What is [remembered](MemoryOf) of all elements together is therefore kept by
//! partition. Whoever has lost a lease is told so by the next commit, which then keeps
//! nothing.
//!
//! New sources, groups and elements have their [`Numbers`] from the writer.
//!
//! A store knows no policy: what a scheduler remembers is bytes to it. Bodies are kept
//! beside it, by their content: see [`BodyId`].

#![warn(missing_docs)]

mod body;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod error;
mod examine;
mod fact;
mod failure;
mod memory;
mod numbers;
mod private;
mod problem;
mod sqlite;

pub use body::{Appending, Bodies, BodyId, Collection, Freed, Packed, ParseBodyIdError};
pub use error::{Cause, Error};
pub use examine::{Examined, examine};
pub use fact::*;
pub use failure::{Failure, FailureKind};
pub use memory::Memory;
pub use numbers::{Numbered, Numbers};
pub use private::create_dir_all as create_private_folder;
pub use problem::Problem;
pub use sqlite::{Reading, Sqlite, Writing};

/// Keeps facts, under a lease.
pub trait Writer: Reader {
    /// Keeps all of these or none of them.
    ///
    /// What is as it was is not written again, so whoever is in doubt may tell it.
    ///
    /// # Errors
    /// If they cannot be written, or if the lease is lost: then nothing is.
    fn commit(&mut self, facts: &[Fact]) -> Result<(), Error>;

    /// Where new sources, groups and elements have their numbers from.
    fn numbers(&self) -> Numbers;

    /// Gives the lease back, with nothing left to be done by whoever comes next.
    ///
    /// To drop a writer is safe as well.
    ///
    /// # Errors
    /// If something could not be written.
    fn close(self: Box<Self>) -> Result<(), Error>;
}

/// Goes through the elements of a store, or of a source, in the order of their numbers, page
/// after page: what is written in between is in nobody's way.
#[derive(Debug)]
pub struct Walk {
    source: Option<SourceId>,
    limit: usize,
    next: Option<ElementId>,
}

impl Walk {
    /// Through all, or through those of one source, so many at a time.
    pub fn new(source: Option<SourceId>, limit: usize) -> Self {
        Self {
            source,
            limit,
            next: Some(ElementId(0)),
        }
    }

    /// The elements that come next; nothing once all have been.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn next<R: Reader + ?Sized>(&mut self, store: &R) -> Result<Option<Vec<Kept>>, Error> {
        let Some(from) = self.next else {
            return Ok(None);
        };
        let page = store.elements(self.source, from, self.limit)?;
        let last = page.last().map(|kept| kept.element.id.0);
        self.next = last.and_then(|last| last.checked_add(1)).map(ElementId);
        Ok(Some(page).filter(|page| !page.is_empty()))
    }
}

/// Reads what is kept, beside whoever writes: it sees all of a batch or nothing of it.
pub trait Reader: Send {
    /// All sources, in the order of their numbers.
    fn sources(&self) -> Result<Vec<Source>, Error>;
    /// All groups, in the order of their numbers, each after the one it is in.
    fn groups(&self) -> Result<Vec<Group>, Error>;
    /// Some groups, by number; those that there are.
    fn groups_by_id(&self, ids: &[GroupId]) -> Result<Vec<Group>, Error>;
    /// What is known of hosts: of outermost groups.
    fn hosts(&self) -> Result<Vec<Host>, Error>;
    /// The robots.txt of groups that have any.
    fn robots(&self) -> Result<Vec<(GroupId, Vec<Robots>)>, Error>;
    /// What is remembered of something, if anything is.
    fn memory(&self, of: MemoryOf) -> Result<Option<Vec<u8>>, Error>;
    /// What is remembered of groups; those of which anything is.
    fn group_memories(&self) -> Result<Vec<(GroupId, Vec<u8>)>, Error>;
    /// The same for some groups.
    fn group_memories_by_id(&self, ids: &[GroupId]) -> Result<Vec<(GroupId, Vec<u8>)>, Error>;
    /// A note that was kept by this name.
    fn note(&self, name: &str) -> Result<Option<Vec<u8>>, Error>;
    /// Above the numbers of all elements that there are, or ever were.
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
    /// Elements of a source whose locators send us on to an address for good, as far
    /// as that is written down in their copies: at most `limit` of them.
    fn redirected_to(
        &self,
        source: SourceId,
        address: &str,
        limit: usize,
    ) -> Result<Vec<ElementId>, Error>;
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
    /// Changes in the order of their numbers: at most `limit` above `after`.
    fn changes_after(&self, after: u64, limit: usize) -> Result<Vec<Change>, Error>;
    /// Single polls in the order of their numbers: at most `limit` above `after`.
    fn polls_after(&self, after: u64, limit: usize) -> Result<Vec<KeptPoll>, Error>;
    /// Polls of an element, newest first.
    fn polls(&self, element: ElementId, limit: usize) -> Result<Vec<Poll>, Error>;
    /// Polls of elements of a source with which something was wrong, newest first.
    fn failed_polls(&self, source: SourceId, limit: usize) -> Result<Vec<Poll>, Error>;
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
