//! A list of addresses that can be read more than once.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::PathBuf;

use bytes::Bytes;

use crate::source::list::{ListProblem, ListProblemReason, ListReader};

/// A list that can be read more than once.
#[derive(Debug, Clone)]
pub enum List {
    /// In a file.
    File(PathBuf),
    /// Already in memory, since it came through a pipe.
    Memory(Bytes),
}

/// Why a list cannot be taken in.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// It cannot be opened or read.
    #[error("it cannot be read")]
    Read(#[from] io::Error),
    /// A line is not what it should be.
    #[error(transparent)]
    Line(ListProblem),
    /// An address is never asked.
    #[error(transparent)]
    Address(#[from] crate::fetch::FetchFailure),
    /// There is no address in it.
    #[error("there are no addresses in it")]
    Empty,
}

impl From<ListProblem> for ListError {
    fn from(problem: ListProblem) -> Self {
        match problem.reason {
            ListProblemReason::Read(error) => Self::Read(error),
            _ => Self::Line(problem),
        }
    }
}

impl List {
    pub(super) fn open(&self) -> io::Result<ListReader<Box<dyn Read + Send>>> {
        ListReader::new(match self {
            Self::File(path) => Box::new(File::open(path)?),
            Self::Memory(bytes) => Box::new(Cursor::new(bytes.clone())),
        })
    }
}
