//! Rows as they are answered, by the thousand: texts in one piece, and where each is. A value
//! of its own in memory for each of them would take longer than to read them.

use std::ops::Range as Span;

use super::value::{Row, Value};

/// A value where it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ValueRef<'a> {
    Null,
    Integer(i64),
    Real(f64),
    Text(&'a str),
    Bytes(&'a [u8]),
}

impl ValueRef<'_> {
    pub(crate) fn to_value(self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Integer(number) => Value::Integer(number),
            Self::Real(number) => Value::Real(number),
            Self::Text(text) => Value::Text(text.to_owned()),
            Self::Bytes(bytes) => Value::Bytes(bytes.to_owned()),
        }
    }
}

/// A value, or where it is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Cell {
    Null,
    Integer(i64),
    Real(f64),
    Text { from: usize, to: usize },
    Bytes { from: usize, to: usize },
}

/// Rows, value by value.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Batch {
    n_columns: usize,
    /// Columns that are no part of the rows: marks, behind the others.
    n_marks: usize,
    cells: Vec<Cell>,
    text: String,
    bytes: Vec<u8>,
}

impl Batch {
    pub(crate) fn new(n_columns: usize) -> Self {
        Self {
            n_columns,
            ..Self::default()
        }
    }

    pub(crate) fn of_rows(n_columns: usize, rows: &[Row]) -> Self {
        let mut batch = Self::new(n_columns);
        for value in rows.iter().flatten() {
            batch.push(value.as_ref());
        }
        batch
    }

    pub(crate) fn push(&mut self, value: ValueRef<'_>) {
        match value {
            ValueRef::Null => self.cells.push(Cell::Null),
            ValueRef::Integer(number) => self.cells.push(Cell::Integer(number)),
            ValueRef::Real(number) => self.cells.push(Cell::Real(number)),
            ValueRef::Text(text) => self.push_text([text]),
            ValueRef::Bytes(bytes) => {
                let from = self.bytes.len();
                self.bytes.extend_from_slice(bytes);
                let to = self.bytes.len();
                self.cells.push(Cell::Bytes { from, to });
            }
        }
    }

    /// A text that is written in parts.
    pub(crate) fn push_text<const N: usize>(&mut self, parts: [&str; N]) {
        let from = self.text.len();
        parts.iter().for_each(|part| self.text.push_str(part));
        let to = self.text.len();
        self.cells.push(Cell::Text { from, to });
    }

    /// Says that the last columns are marks.
    pub(crate) fn set_marks(&mut self, n_marks: usize) {
        self.n_marks = n_marks.min(self.n_columns);
    }

    pub(crate) fn n_rows(&self) -> usize {
        self.cells.len().checked_div(self.n_columns).unwrap_or(0)
    }

    /// How many values a row has.
    pub(crate) fn n_values(&self) -> usize {
        self.n_columns - self.n_marks
    }

    fn value_of(&self, cell: &Cell) -> ValueRef<'_> {
        match *cell {
            Cell::Null => ValueRef::Null,
            Cell::Integer(number) => ValueRef::Integer(number),
            Cell::Real(number) => ValueRef::Real(number),
            Cell::Text { from, to } => ValueRef::Text(&self.text[from..to]),
            Cell::Bytes { from, to } => ValueRef::Bytes(&self.bytes[from..to]),
        }
    }

    pub(crate) fn value(&self, row: usize, column: usize) -> ValueRef<'_> {
        self.value_of(&self.cells[row * self.n_columns + column])
    }

    /// The mark of a row, if it has one.
    pub(crate) fn mark(&self, row: usize) -> Option<ValueRef<'_>> {
        (self.n_marks > 0).then(|| self.value(row, self.n_columns - 1))
    }

    pub(crate) fn row(&self, row: usize) -> impl Iterator<Item = ValueRef<'_>> {
        let from = row * self.n_columns;
        let cells = &self.cells[from..from + self.n_values()];
        cells.iter().map(|cell| self.value_of(cell))
    }

    /// The values of some columns of a row.
    pub(crate) fn key(&self, row: usize, columns: &[usize]) -> Vec<Value> {
        let values = columns.iter().map(|&at| self.value(row, at).to_value());
        values.collect()
    }

    pub(crate) fn to_rows(&self, span: Span<usize>) -> Vec<Row> {
        let rows = span.map(|row| self.row(row).map(ValueRef::to_value).collect());
        rows.collect()
    }

    /// How many bytes all of it has, about.
    pub(crate) fn n_bytes(&self) -> usize {
        self.text.len() + self.bytes.len() + self.cells.len()
    }

    /// How many bytes a row has, about; 0 if there is none.
    pub(crate) fn row_bytes(&self) -> usize {
        let each = |cell: &Cell| match cell {
            Cell::Null => 1,
            Cell::Integer(_) | Cell::Real(_) => 8,
            Cell::Text { from, to } => to - from + 2,
            Cell::Bytes { from, to } => 2 * (to - from) + 10,
        };
        let rows = self.cells.chunks_exact(self.n_columns.max(1));
        let values = rows.flat_map(|row| &row[..self.n_values()]);
        let n_bytes: usize = values.map(each).sum();
        match self.n_rows() {
            0 => 0,
            n => (n_bytes / n).max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_had_back_without_their_marks() {
        let text = |text: &str| Value::Text(text.to_owned());
        let rows = vec![
            vec![Value::Integer(-1), text("ä"), Value::Null, text("m")],
            vec![
                Value::Real(0.5),
                Value::Bytes(vec![0, 255]),
                text(""),
                text("n"),
            ],
        ];
        let mut batch = Batch::of_rows(4, &rows);
        assert_eq!((batch.n_rows(), batch.mark(0)), (2, None));
        assert_eq!(batch.to_rows(0..2), rows);
        batch.set_marks(1);
        assert_eq!(batch.mark(1), Some(ValueRef::Text("n")));
        assert_eq!(batch.to_rows(1..2), [rows[1][..3].to_vec()]);
        assert_eq!(batch.key(0, &[1]), [text("ä")]);
        assert_eq!(Batch::default().n_rows(), 0);
    }
}
