//! CSV in blocks that are parsed side by side.
//!
//! A block ends where a row does. Since a line break within quotes does not end a
//! row, that takes counting quotes, which only works if quotes are where they
//! belong: around a whole cell. So the reader is strict about that, where others
//! let a stray quote pass and may swallow half a file.

use std::io::Read;

use memchr::{memchr, memchr_iter, memchr2_iter, memrchr, memrchr2_iter};
use rayon::prelude::*;

use super::input::unreadable;
use super::{
    Batch, Column, Kind, Places, Texts, Values, bad_cell, cannot_read, find_columns, number_in,
    shorten,
};
use crate::failure::{Failure, Outcome};

/// Bytes that are parsed together.
const BLOCK: usize = 1 << 20;
/// The longest row. Far beyond any real one, it bounds what a quote that is never
/// closed can make us read.
const LONGEST_ROW: usize = 64 << 20;

/// Reads the wanted columns, handing on batch after batch in the order of the file.
pub(super) fn read(
    source: &str,
    reader: impl Read + Send,
    wanted: &[Column],
    take: &mut dyn FnMut(Batch) -> Outcome<()>,
) -> Outcome<()> {
    let mut blocks = Blocks::new(source, reader);
    let Some(mut first) = blocks.next()? else {
        return Err(cannot_read(source)
            .cause("it is empty")
            .hint("the first line must name the columns"));
    };
    let header = Header::take_from(source, &mut first, wanted)?;
    let mut waiting = vec![first];
    while !waiting.is_empty() {
        // Parse what was read while reading what comes next.
        let (parsed, next) = rayon::join(
            || -> Vec<Outcome<Batch>> {
                let parse = |block| header.parse(source, block, wanted);
                waiting.par_iter().map(parse).collect()
            },
            || blocks.some(),
        );
        for batch in parsed {
            take(batch?)?;
        }
        waiting = next?;
    }
    Ok(())
}

/// Whole rows, and the line of the first.
struct Block {
    bytes: Vec<u8>,
    line: u64,
}

struct Blocks<'a, R> {
    source: &'a str,
    reader: R,
    /// Read, but not yet part of a block.
    rest: Vec<u8>,
    line: u64,
    at_end: bool,
}

impl<'a, R: Read> Blocks<'a, R> {
    fn new(source: &'a str, reader: R) -> Self {
        Self {
            source,
            reader,
            rest: Vec::new(),
            line: 1,
            at_end: false,
        }
    }

    /// As many blocks as there are threads to parse them, and more; none at the
    /// end.
    fn some(&mut self) -> Outcome<Vec<Block>> {
        let mut blocks = Vec::new();
        while blocks.len() < 4 * rayon::current_num_threads() {
            match self.next()? {
                Some(block) => blocks.push(block),
                None => break,
            }
        }
        Ok(blocks)
    }

    fn next(&mut self) -> Outcome<Option<Block>> {
        let mut wanted = BLOCK;
        loop {
            let missing = wanted.saturating_sub(self.rest.len());
            if !self.at_end && missing > 0 {
                let mut reader = self.reader.by_ref().take(missing as u64);
                let read = reader.read_to_end(&mut self.rest);
                let read = read.map_err(|error| unreadable(self.source, &error))?;
                self.at_end = read < missing;
            }
            if self.rest.is_empty() {
                return Ok(None);
            }
            if self.at_end {
                // The last row need not end with a line break, but quotes must end.
                return if n_quotes(&self.rest).is_multiple_of(2) {
                    Ok(Some(self.split(self.rest.len())))
                } else {
                    Err(self.endless_row())
                };
            }
            match last_row_end(&self.rest) {
                Some(end) => return Ok(Some(self.split(end))),
                None if wanted >= LONGEST_ROW => return Err(self.endless_row()),
                None => wanted *= 2,
            }
        }
    }

    fn split(&mut self, end: usize) -> Block {
        let rest = self.rest.split_off(end);
        let bytes = std::mem::replace(&mut self.rest, rest);
        let line = self.line;
        self.line += n_lines(&bytes);
        Block { bytes, line }
    }

    fn endless_row(&self) -> Failure {
        let start = last_row_end(&self.rest).unwrap_or(0);
        let line = self.line + n_lines(&self.rest[..start]);
        if n_quotes(&self.rest) == 0 {
            return cannot_read(self.source)
                .cause(format!(
                    "line {line} is longer than {} MB",
                    LONGEST_ROW >> 20
                ))
                .hint("it may not be a CSV file at all");
        }
        cannot_read(self.source)
            .cause(format!(
                "line {line}: a row begins here that does not end; a quote is not closed"
            ))
            .hint("close the quote, and double those within a quoted cell")
    }
}

fn n_quotes(bytes: &[u8]) -> usize {
    memchr_iter(b'"', bytes).count()
}

fn n_lines(bytes: &[u8]) -> u64 {
    memchr_iter(b'\n', bytes).count() as u64
}

/// Behind the last line break that is not within quotes.
fn last_row_end(bytes: &[u8]) -> Option<usize> {
    let mut n_quotes = n_quotes(bytes);
    if n_quotes == 0 {
        return memrchr(b'\n', bytes).map(|at| at + 1);
    }
    for at in memrchr2_iter(b'\n', b'"', bytes) {
        if bytes[at] == b'"' {
            n_quotes -= 1;
        } else if n_quotes.is_multiple_of(2) {
            return Some(at + 1);
        }
    }
    None
}

/// What the first line says.
struct Header {
    n_cells: usize,
    /// Where each wanted column is.
    places: Vec<Option<usize>>,
}

impl Header {
    /// Takes the first line off the first block.
    fn take_from(source: &str, block: &mut Block, wanted: &[Column]) -> Outcome<Self> {
        match block.bytes.as_slice() {
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
                return Err(cannot_read(source)
                    .cause("line 1: it is encoded as UTF-16")
                    .hint("save it as UTF-8"));
            }
            [0xef, 0xbb, 0xbf, ..] => {
                block.bytes.drain(..3);
            }
            _ => {}
        }
        check_text(source, block)?;
        let mut reader = reader(&block.bytes);
        let mut record = ::csv::StringRecord::new();
        reader
            .read_record(&mut record)
            .map_err(|error| cannot_read(source).cause(format!("line 1: {error}")))?;
        let names: Vec<String> = record.iter().map(|name| name.trim().to_owned()).collect();
        let position = reader.position();
        let (byte, line) = (position.byte() as usize, position.line());
        let places = find_columns(source, wanted, &names)?;
        block.bytes.drain(..byte);
        block.line += line - 1;
        Ok(Self {
            n_cells: names.len(),
            places,
        })
    }

    fn parse(&self, source: &str, block: &Block, wanted: &[Column]) -> Outcome<Batch> {
        check_text(source, block)?;
        let mut columns: Vec<Values> = wanted
            .iter()
            .zip(&self.places)
            .map(|(column, place)| match (place, column.kind) {
                (None, _) => Values::Absent,
                (_, Kind::Id | Kind::Text) => Values::Text(Texts::default()),
                (_, Kind::Number(_) | Kind::Flag(_) | Kind::Optional(_)) => {
                    Values::Numbers(Vec::new())
                }
            })
            .collect();
        let mut reader = reader(&block.bytes);
        let mut record = ::csv::ByteRecord::new();
        let mut lines = Vec::new();
        loop {
            let more = reader.read_byte_record(&mut record);
            if !more.map_err(|error| cannot_read(source).cause(error))? {
                break;
            }
            let line = block.line + lines_before(&block.bytes, record.position());
            if record.len() != self.n_cells {
                return Err(cannot_read(source)
                    .cause(format!(
                        "line {line} has {}, the first line {}",
                        cells(record.len()),
                        cells(self.n_cells)
                    ))
                    .hint("it may be cut short, or a cell with a comma needs quotes"));
            }
            for ((values, column), place) in columns.iter_mut().zip(wanted).zip(&self.places) {
                let Some(place) = place else { continue };
                // Cut out of valid UTF-8 at commas and quotes.
                let cell = std::str::from_utf8(&record[*place]).unwrap_or_default();
                let fits = match values {
                    Values::Absent => true,
                    Values::Text(texts) => {
                        texts.push(cell);
                        !(cell.is_empty() && matches!(column.kind, Kind::Id))
                    }
                    Values::Numbers(numbers) => match number_in(column.kind, cell) {
                        Some(number) => {
                            numbers.push(number);
                            true
                        }
                        None => false,
                    },
                };
                if !fits {
                    return Err(bad_cell(source, &format!("line {line}"), column, cell));
                }
            }
            lines.push(line);
        }
        Ok(Batch {
            n_rows: lines.len(),
            columns,
            places: Places::Lines(lines),
        })
    }
}

fn reader(bytes: &[u8]) -> ::csv::Reader<&[u8]> {
    ::csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(bytes)
}

/// The lines of a block before a row, blank ones just before it included.
fn lines_before(bytes: &[u8], position: Option<&::csv::Position>) -> u64 {
    let Some(position) = position else { return 0 };
    let row = &bytes[position.byte() as usize..];
    let blank = row.iter().take_while(|byte| matches!(byte, b'\n' | b'\r'));
    position.line() - 1 + blank.filter(|byte| **byte == b'\n').count() as u64
}

fn cells(n: usize) -> String {
    if n == 1 {
        "1 cell".to_owned()
    } else {
        format!("{n} cells")
    }
}

/// That a block is UTF-8 text with quotes only where they belong.
fn check_text(source: &str, block: &Block) -> Outcome<()> {
    let bytes = block.bytes.as_slice();
    let line_at = |at: usize| block.line + n_lines(&bytes[..at]);
    if let Err(error) = std::str::from_utf8(bytes) {
        return Err(cannot_read(source)
            .cause(format!(
                "line {}: it is not UTF-8",
                line_at(error.valid_up_to())
            ))
            .hint("save it as UTF-8"));
    }
    if let Some(at) = memchr(0, bytes) {
        return Err(cannot_read(source)
            .cause(format!("line {}: it holds a zero byte", line_at(at)))
            .hint("it may not be a CSV file at all"));
    }
    let mut is_open = false;
    for at in memchr2_iter(b'"', b'\r', bytes) {
        if bytes[at] == b'\r' {
            if !is_open && bytes.get(at + 1).is_some_and(|next| *next != b'\n') {
                return Err(cannot_read(source)
                    .cause(format!(
                        "line {}: a carriage return that does not end a line",
                        line_at(at)
                    ))
                    .hint("end lines with a line feed, or with both"));
            }
            continue;
        }
        let beside = if is_open {
            bytes.get(at + 1)
        } else {
            at.checked_sub(1).map(|before| &bytes[before])
        };
        if !matches!(beside, None | Some(b',' | b'\n' | b'\r' | b'"')) {
            let row = &bytes[memrchr(b'\n', &bytes[..at]).map_or(0, |before| before + 1)..];
            let row = row.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let row = shorten(&String::from_utf8_lossy(row));
            return Err(cannot_read(source)
                .cause(format!(
                    "line {}: a quote within a cell: {row}",
                    line_at(at)
                ))
                .hint("put the whole cell in quotes, and double those within"));
        }
        is_open = !is_open;
    }
    Ok(())
}
