//! Why facts could not be kept or read.

use std::io;
use std::path::{Path, PathBuf};

use crate::Numbered;

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
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another process writes to the store.
    #[error("another process is using the store")]
    InUse,
    /// The lease was lost, and with it the right to write: another may have taken the
    /// store over. Nothing was written, and nothing will be.
    #[error("the store is no longer ours to write")]
    LeaseLost,
    /// There are as many as can be numbered.
    #[error("there are more {0} than can be numbered")]
    NoNumberLeft(Numbered),
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
    Missing(PathBuf),
    /// A row or a body is not as it was written.
    #[error("the store is damaged: {0}")]
    Damaged(String),
}

/// What is behind an error: the database's own, whichever database it is.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

impl Error {
    pub(crate) fn file(path: &Path, source: io::Error) -> Self {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
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
