//! Files that list addresses.
//!
//! One address a line, or CSV with a header; blank lines and lines that begin with
//! `#` are passed over. Read as a stream, one line at a time, packed or not: ten
//! million lines take no more memory than one.

use std::io::{self, BufRead, BufReader, Read};

use url::Url;

/// The longest line.
const MAX_LINE: usize = 64 * 1024;

/// The columns of CSV that are looked at.
const MAX_COLUMNS: usize = 256;

/// An address, with what a list says of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedUrl {
    /// The address, in its normal form and without fragment.
    pub url: String,
    /// How much it matters, if that is said.
    pub weight: Option<f64>,
    /// Which group it is in, if that is said.
    pub group: Option<String>,
}

/// A line that could not be used, or where reading ended.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct ListProblem {
    /// Which line, from 1.
    pub line: u64,
    /// Why.
    pub reason: ListProblemReason,
}

/// Why a line could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListProblemReason {
    /// It has no address of the web.
    #[error("{0:?} is not an http or https address")]
    BadAddress(String),
    /// Its weight is none.
    #[error("weight is {0:?}; a weight is zero or more")]
    BadWeight(String),
    /// It is not UTF-8.
    #[error("it is not UTF-8")]
    NotText,
    /// It is too long.
    #[error("it is longer than 64 kB")]
    TooLong,
    /// A cell was opened with a quote that is not closed.
    #[error("a quote is not closed")]
    OpenQuote,
    /// The file could not be read further. Nothing comes after this.
    #[error("it cannot be read")]
    Read(#[from] io::Error),
}

/// How to find the columns of a table of addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListColumns {
    /// It is CSV, with or without a header; otherwise that depends on its first line.
    pub is_csv: bool,
    /// What the column of addresses is called, instead of `url`.
    pub url: Option<String>,
    /// The same for `weight`.
    pub weight: Option<String>,
    /// The same for `group`.
    pub group: Option<String>,
}

/// The addresses of a list, or what is wrong with a line: the lines after it can
/// still be read.
pub struct ListReader<R: Read> {
    reader: BufReader<Unpacked<R>>,
    line: Vec<u8>,
    n_lines: u64,
    shape: Shape,
    columns: ListColumns,
    cells: Cells,
    is_done: bool,
}

/// What the lines are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Nothing but comments so far.
    Unknown,
    Lines,
    Csv(Columns),
}

/// Where in a row is what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Columns {
    url: usize,
    weight: Option<usize>,
    group: Option<usize>,
}

impl<R: Read> ListReader<R> {
    /// Reads a list; gzip and zstd are known by their first bytes.
    ///
    /// # Errors
    /// If not even those can be read.
    pub fn new(reader: R) -> io::Result<Self> {
        Ok(Self {
            reader: BufReader::with_capacity(MAX_LINE, unpacked(reader)?),
            line: Vec::new(),
            n_lines: 0,
            shape: Shape::Unknown,
            columns: ListColumns::default(),
            cells: Cells::new(),
            is_done: false,
        })
    }

    /// The same, with columns that are found in this way.
    #[must_use]
    pub fn with_columns(self, columns: ListColumns) -> Self {
        Self { columns, ..self }
    }

    /// The next line that is neither blank nor a comment, into `self.line`; whether
    /// there is one.
    fn next_line(&mut self) -> Result<bool, ListProblemReason> {
        loop {
            self.n_lines += 1;
            let is_whole = self.read_line()?;
            if !is_whole {
                return Err(ListProblemReason::TooLong);
            }
            if self.line.is_empty() {
                return Ok(false);
            }
            let mut line = &self.line[..];
            if self.n_lines == 1 {
                line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
            }
            let line = line.trim_ascii();
            if !line.is_empty() && line[0] != b'#' {
                return Ok(true);
            }
        }
    }

    /// Reads up to the next end of a line, which is included; nothing at the end of
    /// the file. Whether the line is there in full.
    fn read_line(&mut self) -> io::Result<bool> {
        self.line.clear();
        let mut is_whole = true;
        loop {
            let buffer = match self.reader.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let end = memchr::memchr(b'\n', buffer);
            let length = end.map_or(buffer.len(), |end| end + 1);
            if self.line.len() + length <= MAX_LINE {
                self.line.extend_from_slice(&buffer[..length]);
            } else {
                is_whole = false;
            }
            self.reader.consume(length);
            if end.is_some() || length == 0 {
                return Ok(is_whole);
            }
        }
    }

    fn read(&mut self) -> Result<Option<ListedUrl>, ListProblemReason> {
        loop {
            if !self.next_line()? {
                return Ok(None);
            }
            let mut line = &self.line[..];
            if self.n_lines == 1 {
                line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
            }
            let line = line.trim_ascii();
            match self.shape {
                Shape::Unknown => {
                    if let Some(columns) = header(line, &self.columns, &mut self.cells) {
                        self.shape = Shape::Csv(columns);
                        continue;
                    }
                    let first = self.columns.is_csv.then(|| first_address(&self.cells));
                    let Some(url) = first.flatten() else {
                        self.shape = Shape::Lines;
                        return address(line).map(plain).map(Some);
                    };
                    // No header, but an address in a cell.
                    self.shape = Shape::Csv(Columns {
                        url,
                        weight: None,
                        group: None,
                    });
                    return address(self.cells.cell(url).unwrap_or_default())
                        .map(plain)
                        .map(Some);
                }
                Shape::Lines => return address(line).map(plain).map(Some),
                Shape::Csv(columns) => {
                    self.cells.cut(line)?;
                    let cell = |at| self.cells.cell(at);
                    let weight = columns.weight.and_then(cell);
                    let group = columns.group.and_then(cell);
                    return Ok(Some(ListedUrl {
                        url: address(cell(columns.url).unwrap_or_default())?,
                        weight: weight.map(parse_weight).transpose()?,
                        group: group.map(text).transpose()?.map(str::to_owned),
                    }));
                }
            }
        }
    }
}

impl<R: Read> Iterator for ListReader<R> {
    type Item = Result<ListedUrl, ListProblem>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let found = self.read();
        self.is_done = matches!(found, Ok(None) | Err(ListProblemReason::Read(_)));
        let line = self.n_lines;
        let problem = |reason| ListProblem { line, reason };
        found.map_err(problem).transpose()
    }
}

fn plain(url: String) -> ListedUrl {
    ListedUrl {
        url,
        weight: None,
        group: None,
    }
}

fn text(bytes: &[u8]) -> Result<&str, ListProblemReason> {
    std::str::from_utf8(bytes).map_err(|_| ListProblemReason::NotText)
}

fn address(bytes: &[u8]) -> Result<String, ListProblemReason> {
    let text = text(bytes)?;
    let bad = || ListProblemReason::BadAddress(text.chars().take(200).collect());
    let mut url = Url::parse(text).map_err(|_| bad())?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(bad());
    }
    url.set_fragment(None);
    Ok(url.into())
}

fn parse_weight(bytes: &[u8]) -> Result<f64, ListProblemReason> {
    let text = text(bytes)?;
    let weight = text.parse::<f64>().ok();
    weight
        .filter(|weight| weight.is_finite() && *weight >= 0.0)
        .ok_or_else(|| ListProblemReason::BadWeight(text.chars().take(200).collect()))
}

/// The first cell that is an address.
fn first_address(cells: &Cells) -> Option<usize> {
    (0..cells.n_cells).find(|at| cells.cell(*at).is_some_and(|cell| address(cell).is_ok()))
}

/// Where in a row is what, if a line is a header that says where addresses are.
fn header(line: &[u8], wanted: &ListColumns, cells: &mut Cells) -> Option<Columns> {
    cells.cut(line).ok()?;
    let find = |wanted: &Option<String>, usual: &[&str]| {
        let wanted = wanted.as_deref().map(|name| [name]);
        let names: &[&str] = wanted.as_ref().map_or(usual, |name| name);
        (0..cells.n_cells).find(|at| {
            let cell = cells.cell(*at).unwrap_or_default();
            names
                .iter()
                .any(|name| cell.eq_ignore_ascii_case(name.as_bytes()))
        })
    };
    Some(Columns {
        url: find(&wanted.url, &["url", "locator", "loc"])?,
        weight: find(&wanted.weight, &["weight"]),
        group: find(&wanted.group, &["group"]),
    })
}

/// Cuts lines into cells.
struct Cells {
    parser: csv_core::Reader,
    bytes: Vec<u8>,
    ends: Vec<usize>,
    n_cells: usize,
}

impl Cells {
    fn new() -> Self {
        Self {
            parser: csv_core::Reader::new(),
            bytes: vec![0; MAX_LINE],
            ends: vec![0; MAX_COLUMNS],
            n_cells: 0,
        }
    }

    /// Columns after the last that there is room for are passed over.
    fn cut(&mut self, line: &[u8]) -> Result<(), ListProblemReason> {
        // A line ends where it ends: a quote that is open there would take in the
        // rest of the file.
        if memchr::memchr_iter(b'"', line).count() % 2 == 1 {
            return Err(ListProblemReason::OpenQuote);
        }
        self.parser.reset();
        let (_, _, n_written, n_cells) =
            self.parser
                .read_record(line, &mut self.bytes, &mut self.ends);
        let (_, _, _, n_ended) =
            self.parser
                .read_record(&[], &mut self.bytes[n_written..], &mut self.ends[n_cells..]);
        self.n_cells = n_cells + n_ended;
        Ok(())
    }

    /// A cell that is not empty, without blanks around it.
    fn cell(&self, at: usize) -> Option<&[u8]> {
        let end = *self.ends[..self.n_cells].get(at)?;
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        let cell = self.bytes.get(start..end)?.trim_ascii();
        (!cell.is_empty()).then_some(cell)
    }
}

/// The bytes of a file, whatever it is packed with.
pub(crate) enum Unpacked<R: Read> {
    Plain(Whole<R>),
    Gzip(Box<flate2::read::MultiGzDecoder<Whole<R>>>),
    Zstd(Box<zstd::stream::read::Decoder<'static, BufReader<Whole<R>>>>),
}

/// A reader whose first bytes were looked at.
pub(crate) type Whole<R> = io::Chain<io::Cursor<Vec<u8>>, R>;

pub(crate) fn unpacked<R: Read>(mut reader: R) -> io::Result<Unpacked<R>> {
    let mut start = Vec::new();
    reader.by_ref().take(4).read_to_end(&mut start)?;
    let is_gzip = start.starts_with(&[0x1f, 0x8b]);
    let is_zstd = start == [0x28, 0xb5, 0x2f, 0xfd];
    let whole = io::Cursor::new(start).chain(reader);
    Ok(if is_gzip {
        Unpacked::Gzip(Box::new(flate2::read::MultiGzDecoder::new(whole)))
    } else if is_zstd {
        Unpacked::Zstd(Box::new(zstd::stream::read::Decoder::new(whole)?))
    } else {
        Unpacked::Plain(whole)
    })
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(reader) => reader.read(buffer),
            Self::Gzip(reader) => reader.read(buffer),
            Self::Zstd(reader) => reader.read(buffer),
        }
    }
}
