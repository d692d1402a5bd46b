//! A list of addresses that can be read more than once.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::PathBuf;

use bytes::Bytes;
use url::Url;

use crate::fetch::locator;
use crate::settings::ListSettings;
pub use crate::source::list::ListColumns;
use crate::source::list::{ListProblem, ListProblemReason, ListReader, ListedUrl};

/// A list that can be read more than once.
#[derive(Debug, Clone)]
pub struct List {
    place: ListPlace,
    columns: ListColumns,
    skips_bad_lines: bool,
}

#[derive(Debug, Clone)]
enum ListPlace {
    File(PathBuf),
    /// Already in memory, since it came through a pipe.
    Memory(Bytes),
}

/// A line that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Which it is.
    pub what: String,
    /// Why.
    pub why: String,
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
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
    /// There are lines in it, and none can be used; the first of them.
    #[error("no line of it can be used; {0}")]
    Unusable(LeftOut),
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
    /// A list in a file.
    pub fn file(path: PathBuf) -> Self {
        Self::at(ListPlace::File(path))
    }

    /// A list that came through a pipe.
    pub fn memory(bytes: Bytes) -> Self {
        Self::at(ListPlace::Memory(bytes))
    }

    fn at(place: ListPlace) -> Self {
        Self {
            place,
            columns: ListColumns::default(),
            skips_bad_lines: true,
        }
    }

    /// The same, read in this way.
    #[must_use]
    pub fn read_as(self, list: &ListSettings) -> Self {
        Self {
            columns: list.columns.clone(),
            skips_bad_lines: !list.is_strict,
            ..self
        }
    }

    /// Reads it: addresses in their normal form, with what is said of each. `left_out` is
    /// told of lines that are.
    pub(super) fn read(
        &self,
        mut left_out: impl FnMut(LeftOut),
    ) -> Result<impl Iterator<Item = Result<(Url, ListedUrl), ListError>>, ListError> {
        let reader: Box<dyn Read + Send> = match &self.place {
            ListPlace::File(path) => Box::new(File::open(path)?),
            ListPlace::Memory(bytes) => Box::new(Cursor::new(bytes.clone())),
        };
        let reader = ListReader::new(reader)?.with_columns(self.columns.clone());
        let skips = self.skips_bad_lines;
        Ok(reader.filter_map(move |listed| {
            let (what, error) = match listed {
                Ok(listed) => match locator(&listed.url) {
                    Ok(url) => return Some(Ok((url, listed))),
                    Err(failure) => (listed.url, ListError::from(failure)),
                },
                Err(problem) => (format!("line {}", problem.line), ListError::from(problem)),
            };
            if !skips || matches!(error, ListError::Read(_)) {
                return Some(Err(error));
            }
            let why = match &error {
                ListError::Line(problem) => problem.reason.to_string(),
                error => error.to_string(),
            };
            left_out(LeftOut { what, why });
            None
        }))
    }
}
