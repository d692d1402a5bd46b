//! The file with our rows of a search source.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::source::list::unpacked;

/// Why a file of rows could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RowsError {
    /// It could not be read.
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
    /// It is longer than anything that could be meant.
    #[error("it is longer than 2 GB")]
    TooLong,
    /// A row is not UTF-8.
    #[error("line {0}: it is not UTF-8")]
    NotText(u64),
    /// There is no column by this name.
    #[error("it has no column `{0}`")]
    NoColumn(String),
    /// A column is there twice.
    #[error("it has the column `{0}` twice")]
    ColumnTwice(String),
    /// A row has another number of cells than the header.
    #[error("line {line}: it has {n_cells} cells, and the header has {n_columns}")]
    Ragged {
        /// Which line, from 1.
        line: u64,
        /// How many cells it has.
        n_cells: usize,
        /// How many it should have.
        n_columns: usize,
    },
    /// A row has no id.
    #[error("line {0}: id is empty")]
    NoId(u64),
    /// Two rows have the same id.
    #[error("line {line}: id {id:?} is there twice")]
    IdTwice {
        /// Which line, from 1.
        line: u64,
        /// The id.
        id: String,
    },
    /// A weight is none.
    #[error("line {line}: weight is {weight:?}; a weight is zero or more")]
    BadWeight {
        /// Which line, from 1.
        line: u64,
        /// What it says.
        weight: String,
    },
    /// There is none.
    #[error("it has no rows")]
    Empty,
}

/// Our rows, as their file has them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FileRows {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<FileRow>,
}

/// One of our rows.
#[derive(Debug, Clone, PartialEq)]
pub struct FileRow {
    /// Its id.
    pub id: String,
    /// How much it matters; 1 unless it is said.
    pub weight: f64,
    /// All its cells.
    pub cells: Vec<String>,
}

/// The longest file, unpacked, in bytes.
const MAX_FILE_BYTES: u64 = 2 << 30;

impl FileRows {
    /// Reads a file of rows: CSV with a header, packed or not. `id` is a column.
    ///
    /// # Errors
    /// If it cannot be read, or is not such a file.
    pub fn read(path: &Path) -> Result<Self, RowsError> {
        let mut bytes = Vec::new();
        let file = unpacked(File::open(path)?)?;
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(RowsError::TooLong);
        }
        Self::parse(&bytes)
    }

    /// Where a column is.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, RowsError> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let mut records = Records::new(bytes);
        let columns = records.next_record()?.unwrap_or_default();
        for (at, column) in columns.iter().enumerate() {
            if columns[..at].contains(column) {
                return Err(RowsError::ColumnTwice(column.clone()));
            }
        }
        let find = |name: &str| columns.iter().position(|column| column == name);
        let id_at = find("id").ok_or_else(|| RowsError::NoColumn("id".to_owned()))?;
        let weight_at = find("weight");
        let mut rows = Vec::new();
        let mut ids = BTreeSet::new();
        while let Some(cells) = records.next_record()? {
            let line = records.line;
            if cells.len() != columns.len() {
                return Err(RowsError::Ragged {
                    line,
                    n_cells: cells.len(),
                    n_columns: columns.len(),
                });
            }
            let id = cells[id_at].trim().to_owned();
            if id.is_empty() {
                return Err(RowsError::NoId(line));
            }
            if !ids.insert(id.clone()) {
                return Err(RowsError::IdTwice { line, id });
            }
            let weight = match weight_at.map(|at| cells[at].trim()) {
                None | Some("") => 1.0,
                Some(text) => {
                    let weight = text.parse::<f64>().ok();
                    let weight = weight.filter(|weight| weight.is_finite() && *weight >= 0.0);
                    weight.ok_or_else(|| RowsError::BadWeight {
                        line,
                        weight: text.chars().take(60).collect(),
                    })?
                }
            };
            rows.push(FileRow { id, weight, cells });
        }
        if rows.is_empty() {
            return Err(RowsError::Empty);
        }
        Ok(Self { columns, rows })
    }
}

/// The records of CSV.
struct Records<'a> {
    parser: csv_core::Reader,
    rest: &'a [u8],
    cells: Vec<u8>,
    ends: Vec<usize>,
    /// The line on which the last record began.
    line: u64,
}

impl<'a> Records<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self {
            parser: csv_core::Reader::new(),
            rest: bytes,
            cells: vec![0; 4096],
            ends: vec![0; 64],
            line: 1,
        }
    }

    fn next_record(&mut self) -> Result<Option<Vec<String>>, RowsError> {
        let (mut n_bytes, mut n_cells) = (0, 0);
        self.line = self.parser.line();
        loop {
            let (result, n_read, n_written, n_ended) = self.parser.read_record(
                self.rest,
                &mut self.cells[n_bytes..],
                &mut self.ends[n_cells..],
            );
            self.rest = &self.rest[n_read..];
            n_bytes += n_written;
            n_cells += n_ended;
            match result {
                // What there is has been taken in; the end of it is told once more.
                csv_core::ReadRecordResult::InputEmpty => {}
                csv_core::ReadRecordResult::OutputFull => {
                    self.cells.resize(2 * self.cells.len(), 0);
                }
                csv_core::ReadRecordResult::OutputEndsFull => {
                    self.ends.resize(2 * self.ends.len(), 0);
                }
                csv_core::ReadRecordResult::End => return Ok(None),
                csv_core::ReadRecordResult::Record => break,
            }
        }
        let mut start = 0;
        let cells = self.ends[..n_cells].iter().map(|&end| {
            let cell = std::str::from_utf8(&self.cells[start..end]);
            start = end;
            cell.map(str::to_owned)
                .map_err(|_| RowsError::NotText(self.line))
        });
        cells.collect::<Result<_, _>>().map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        FileRows::parse(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn rows_have_an_id_and_cells() {
        let text = "id,title,weight\r\na,\"Tides, \"\"and\"\"\nwaves\",2\r\n b ,é,\n";
        let read = FileRows::parse(text.as_bytes()).unwrap();
        assert_eq!(read.column("title"), Some(1));
        assert_eq!(read.rows[0].cells[1], "Tides, \"and\"\nwaves");
        assert_eq!((read.rows[0].weight, read.rows[1].weight), (2.0, 1.0));
        assert_eq!(read.rows[1].id, "b");
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_its_line() {
        assert_eq!(error("title\nx\n"), "it has no column `id`");
        assert_eq!(error("id,id\n1,2\n"), "it has the column `id` twice");
        assert_eq!(error("id,t\n"), "it has no rows");
        assert_eq!(error(""), "it has no column `id`");
        assert!(error("id,t\na,b\nc\n").starts_with("line 3: it has 1 cells"));
        assert!(error("id,t\na,b\na,c\n").starts_with("line 3: id \"a\" is there twice"));
        assert!(error("id,t\n,b\n").starts_with("line 2: id is empty"));
        assert!(error("id,weight\na,-1\n").starts_with("line 2: weight is \"-1\""));
    }
}
