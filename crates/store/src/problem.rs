//! What can be wrong with a store.

use std::path::PathBuf;

use crate::{BodyId, ElementId, GroupId, SourceId};

/// Something that is not as it should be in a store or among its bodies.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The database itself is damaged.
    #[error("the database is damaged: {0}")]
    Database(String),
    /// An element has no record among those that are read at the start.
    #[error("element {} has no record", .0.0)]
    RecordMissing(ElementId),
    /// A record has no element.
    #[error("there is a record of element {}, which does not exist", .0.0)]
    RecordAlone(ElementId),
    /// A record and its element differ.
    #[error("the record of element {} differs from the element", .0.0)]
    RecordDiffers(ElementId),
    /// A block of records cannot be read.
    #[error("the records of elements {}–{} cannot be read", .first.0, .last.0)]
    RecordsDamaged {
        /// The first of its elements.
        first: ElementId,
        /// The last of its elements.
        last: ElementId,
    },
    /// A row cannot be read.
    #[error("the row of element {} cannot be read: {reason}", .element.0)]
    RowDamaged {
        /// Whose row.
        element: ElementId,
        /// Why not.
        reason: String,
    },
    /// An element cannot be found by its locator.
    #[error("element {} is not found by its locator", .0.0)]
    NotFound(ElementId),
    /// An element has a number that would be given again.
    #[error("element {} has a number that would be given again", .0.0)]
    NumberTaken(ElementId),
    /// An element is of a source that there is not.
    #[error("element {} is of source {}, which does not exist", .0.0, .1.0)]
    SourceMissing(ElementId, SourceId),
    /// An element is in a group that there is not.
    #[error("element {} is in group {}, which does not exist", .0.0, .1.number())]
    GroupMissing(ElementId, GroupId),
    /// A group is in a group that there is not.
    #[error("group {} is in group {}, which does not exist", .0.number(), .1.number())]
    ParentMissing(GroupId, GroupId),
    /// The running count of new elements of a host is wrong.
    #[error("host {} has {found} new elements, not {kept}", .host.number())]
    CountWrong {
        /// Of which host.
        host: GroupId,
        /// What is written down.
        kept: i64,
        /// How many there are.
        found: i64,
    },
    /// A copy, poll or change is of an element that there is not.
    #[error("there is a {what} of element {}, which does not exist", .element.0)]
    Orphan {
        /// What there is of it.
        what: &'static str,
        /// Of which element.
        element: ElementId,
    },
    /// Queries are of a source that there is not.
    #[error("there are queries of source {}, which does not exist", .0.0)]
    QueriesAlone(SourceId),
    /// Something is remembered of a source that there is not.
    #[error("something is remembered of source {}, which does not exist", .0.0)]
    MemoryAlone(SourceId),
    /// The body of a copy or of a version is not there.
    #[error("the body of element {} is missing: {body}", .element.0)]
    BodyMissing {
        /// Of which element.
        element: ElementId,
        /// Which body.
        body: BodyId,
    },
    /// A body is not what its name says.
    #[error("body {0} is damaged")]
    BodyDamaged(BodyId),
    /// Where bodies are cannot be told: the index has to be made again.
    #[error("the index of bodies is damaged: {0}")]
    IndexDamaged(String),
    /// A body is there that nothing names.
    #[error("nothing names body {0}")]
    BodyUnnamed(BodyId),
    /// A file is there that should not be.
    #[error("{} should not be there", .0.display())]
    StrayFile(PathBuf),
    /// There are more problems than anyone would read.
    #[error("and more, which are not listed")]
    More,
}
