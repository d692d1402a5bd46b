//! Tables in files: CSV (plain, gzip, zstd) and Parquet, in and out.
//!
//! An [`Input`] can be opened as often as it takes, each time for some of its
//! [`Column`]s, and comes in [`Batch`]es. What is wrong with it is said with the
//! line and the cell. An [`Output`] appears whole or not at all.

mod csv;
mod input;
mod output;
mod parquet;

pub(crate) use input::Input;
pub(crate) use output::{Cells, Holds, Output, Unfinished, unwritable};

use crate::failure::{Failure, Outcome};

/// A column that a reader wants.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) required: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// Text that identifies something; never empty.
    Id,
    /// Text that may be empty.
    Text,
    /// A number that fulfils a condition; never empty.
    Number(Condition),
    /// The same, or nothing.
    Optional(Condition),
}

/// What a number must be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Condition {
    pub(crate) holds: fn(f64) -> bool,
    /// The condition in words: "a rate is zero or more".
    pub(crate) says: &'static str,
    pub(crate) hint: &'static str,
}

/// Some consecutive rows, with the wanted columns in the wanted order.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) n_rows: usize,
    columns: Vec<Values>,
    /// Where in the file each row is, for messages; empty if row by row.
    places: Places,
}

#[derive(Debug)]
enum Values {
    /// A column that the file does not have.
    Absent,
    Text(Texts),
    /// Not a number where the cell was empty.
    Numbers(Vec<f64>),
}

#[derive(Debug)]
enum Places {
    /// The line of each row in a text file.
    Lines(Vec<u64>),
    /// The number of the first row, counted from one.
    Rows(u64),
}

impl Batch {
    /// How many columns were asked for.
    pub(crate) fn n_columns(&self) -> usize {
        self.columns.len()
    }

    /// A text column, if the file has it.
    pub(crate) fn texts(&self, column: usize) -> Option<&Texts> {
        match &self.columns[column] {
            Values::Text(texts) => Some(texts),
            Values::Absent | Values::Numbers(_) => None,
        }
    }

    /// A text column to keep, if the file has it.
    pub(crate) fn take_texts(&mut self, column: usize) -> Option<Texts> {
        match std::mem::replace(&mut self.columns[column], Values::Absent) {
            Values::Text(texts) => Some(texts),
            Values::Absent | Values::Numbers(_) => None,
        }
    }

    /// A column of numbers, if the file has it.
    pub(crate) fn numbers(&self, column: usize) -> Option<&[f64]> {
        match &self.columns[column] {
            Values::Numbers(numbers) => Some(numbers),
            Values::Absent | Values::Text(_) => None,
        }
    }

    /// Where a row is, in words: "line 3".
    pub(crate) fn place(&self, row: usize) -> String {
        match &self.places {
            Places::Lines(lines) => format!("line {}", lines[row]),
            Places::Rows(first) => format!("row {}", first + row as u64),
        }
    }
}

/// Many short texts in one piece of memory.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    bytes: String,
    ends: Vec<usize>,
}

impl Texts {
    pub(crate) fn push(&mut self, text: &str) {
        self.bytes.push_str(text);
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn get(&self, index: usize) -> &str {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..self.ends[index]]
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// What they take up in memory.
    pub(crate) fn n_bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }

    pub(crate) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|index| self.get(index))
    }
}

/// A cell that does not hold what its column promises.
fn bad_cell(source: &str, place: &str, column: &Column, cell: &str) -> Failure {
    let name = column.name;
    let failure = cannot_read(source);
    match column.kind {
        Kind::Id | Kind::Text => failure
            .cause(format!("{place}: {name} is empty"))
            .hint("every row needs one"),
        Kind::Number(_) if cell.is_empty() => failure
            .cause(format!("{place}: {name} is empty"))
            .hint("fill it in, or drop the line"),
        Kind::Number(condition) | Kind::Optional(condition) => {
            let cell = shorten(cell);
            let says = match cell.trim().parse::<f64>() {
                Err(_) => "it is not a number",
                Ok(number) if !number.is_finite() => "it is not finite",
                Ok(_) => condition.says,
            };
            failure
                .cause(format!("{place}: {name} is \"{cell}\"; {says}"))
                .hint(condition.hint)
        }
    }
}

/// The number in a cell, if it may be there.
fn number_in(kind: Kind, cell: &str) -> Option<f64> {
    let cell = cell.trim();
    match kind {
        Kind::Optional(_) if cell.is_empty() => Some(f64::NAN),
        Kind::Number(condition) | Kind::Optional(condition) => {
            let number: f64 = cell.parse().ok()?;
            (number.is_finite() && (condition.holds)(number)).then_some(number)
        }
        Kind::Id | Kind::Text => None,
    }
}

fn cannot_read(source: &str) -> Failure {
    Failure::input(format!("cannot read {source}"))
}

/// Where in a file each wanted column is; `None` for one that it lacks and may
/// lack.
fn find_columns(source: &str, wanted: &[Column], names: &[String]) -> Outcome<Vec<Option<usize>>> {
    let find = |column: &Column| {
        let mut places = (0..names.len()).filter(|&index| names[index] == column.name);
        match (places.next(), places.next()) {
            (Some(_), Some(_)) => Err(cannot_read(source)
                .cause(format!("two columns are named {}", column.name))
                .hint("rename one of them")),
            (Some(index), None) => Ok(Some(index)),
            (None, _) if !column.required => Ok(None),
            (None, _) => {
                let required = wanted.iter().filter(|column| column.required);
                let required: Vec<_> = required.map(|column| column.name).collect();
                let found = shorten(&names.join(", "));
                Err(cannot_read(source)
                    .cause(format!("there is no column {}, only {found}", column.name))
                    .hint(format!("the first line must name {}", required.join(", "))))
            }
        }
    };
    wanted.iter().map(find).collect()
}

/// A text that fits into a message.
fn shorten(text: &str) -> String {
    const MOST: usize = 60;
    if text.chars().count() > MOST {
        text.chars().take(MOST).chain(['…']).collect()
    } else {
        text.to_owned()
    }
}
