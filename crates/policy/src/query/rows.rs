//! Our rows of a search source, and which terms they have.

use std::collections::BTreeMap;

use super::terms::Term;
use crate::Error;

/// A term, numbered in the order in which terms are written: the first is the one
/// that comes first in a dictionary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TermId(pub u32);

/// The rows that we hold of a search source: their terms, and what each is worth.
///
/// Rows are numbered in the order in which they were [added](RowsBuilder::add).
#[derive(Debug, Clone, Default)]
pub struct Rows {
    /// How each term is written in a query.
    written: Vec<String>,
    numbers: BTreeMap<String, u32>,
    by_row: Lists,
    by_term: Lists,
    worth: Vec<f64>,
}

/// Rows as they come in.
#[derive(Debug, Clone, Default)]
pub struct RowsBuilder {
    numbers: BTreeMap<String, u32>,
    written: Vec<String>,
    by_row: Lists,
    worth: Vec<f64>,
}

impl RowsBuilder {
    /// No rows yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A further row, with its terms (in any order, twice or not) and what it is
    /// worth to refresh it.
    ///
    /// # Errors
    ///
    /// If the worth is below zero, infinite or not a number, or if there are more
    /// rows than can be numbered.
    pub fn add(&mut self, terms: impl IntoIterator<Item = Term>, worth: f64) -> Result<(), Error> {
        if !(worth.is_finite() && worth >= 0.0) {
            return Err(Error::Worth(worth));
        }
        if self.worth.len() >= u32::MAX as usize {
            return Err(Error::TooMany(self.worth.len()));
        }
        let mut ids: Vec<u32> = Vec::new();
        for Term { key, written } in terms {
            let id = match self.numbers.get(&key) {
                Some(id) => *id,
                None => {
                    let id = self.written.len() as u32;
                    self.numbers.insert(key, id);
                    self.written.push(in_query(written));
                    id
                }
            };
            ids.push(id);
        }
        ids.sort_unstable();
        ids.dedup();
        self.by_row.push(&ids);
        self.worth.push(worth);
        Ok(())
    }

    /// All rows, with the terms in order.
    pub fn build(self) -> Rows {
        let mut order: Vec<u32> = (0..self.written.len() as u32).collect();
        let text = |id: u32| &self.written[id as usize];
        // Two terms may be written alike (a word and a list's part), but not have the
        // same key; which of them is first then does not matter, if only it is
        // always the same.
        order.sort_by(|&one, &other| text(one).cmp(text(other)).then(one.cmp(&other)));
        let mut place = vec![0; order.len()];
        for (new, old) in (0..).zip(&order) {
            place[*old as usize] = new;
        }
        let mut by_row = self.by_row;
        by_row.renumber(&place);
        let mut numbers = self.numbers;
        numbers
            .values_mut()
            .for_each(|id| *id = place[*id as usize]);
        let mut written = self.written;
        let written = order
            .iter()
            .map(|&old| std::mem::take(&mut written[old as usize]))
            .collect();
        Rows {
            written,
            numbers,
            by_term: by_row.inverted(place.len()),
            by_row,
            worth: self.worth,
        }
    }
}

impl Rows {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.worth.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.worth.is_empty()
    }

    /// How many different terms they have.
    pub fn n_terms(&self) -> usize {
        self.written.len()
    }

    pub(super) fn term_ids(&self) -> impl Iterator<Item = TermId> + use<> {
        (0..self.n_terms() as u32).map(TermId)
    }

    /// The term with this [key](super::term_key), if any row has it.
    pub fn term(&self, key: &str) -> Option<TermId> {
        self.numbers.get(key).copied().map(TermId)
    }

    /// How a term is written in a query: in double quotes if it has several words.
    pub fn written(&self, term: TermId) -> &str {
        &self.written[term.0 as usize]
    }

    /// The text of a query for rows that have all these terms.
    pub(super) fn query(&self, terms: &[u32]) -> String {
        let words: Vec<&str> = terms
            .iter()
            .map(|&term| self.written(TermId(term)))
            .collect();
        words.join(" ")
    }

    /// What each row is worth.
    pub fn worth(&self) -> &[f64] {
        &self.worth
    }

    /// The terms of a row, sorted.
    pub(super) fn terms_of(&self, row: u32) -> &[u32] {
        self.by_row.get(row as usize)
    }

    /// The rows with a term, sorted: |R_L| of a query of one term are so many.
    pub(super) fn with_term(&self, term: u32) -> &[u32] {
        self.by_term.get(term as usize)
    }

    /// How many rows have no term at all, so that no query finds them.
    pub fn n_without_terms(&self) -> usize {
        (0..self.len())
            .filter(|&row| self.by_row.get(row).is_empty())
            .count()
    }
}

/// A term as a query has it.
fn in_query(written: String) -> String {
    if written.contains(' ') {
        format!("\"{written}\"")
    } else {
        written
    }
}

/// Many short lists of numbers in one piece of memory.
#[derive(Debug, Clone, Default)]
pub(super) struct Lists {
    numbers: Vec<u32>,
    ends: Vec<usize>,
}

impl Lists {
    pub(super) fn push(&mut self, list: &[u32]) {
        self.numbers.extend_from_slice(list);
        self.ends.push(self.numbers.len());
    }

    pub(super) fn get(&self, index: usize) -> &[u32] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.numbers[start..self.ends[index]]
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u32]> {
        (0..self.len()).map(|index| self.get(index))
    }

    pub(super) fn append(&mut self, other: &Self) {
        let n = self.numbers.len();
        self.numbers.extend_from_slice(&other.numbers);
        self.ends.extend(other.ends.iter().map(|end| end + n));
    }

    /// Gives every number another, and sorts each list again.
    fn renumber(&mut self, place: &[u32]) {
        self.numbers
            .iter_mut()
            .for_each(|number| *number = place[*number as usize]);
        let mut start = 0;
        for &end in &self.ends {
            self.numbers[start..end].sort_unstable();
            start = end;
        }
    }

    /// For each number below `n`, the lists that have it.
    pub(super) fn inverted(&self, n: usize) -> Self {
        let mut starts = vec![0; n + 1];
        for &number in &self.numbers {
            starts[number as usize + 1] += 1;
        }
        for index in 1..starts.len() {
            starts[index] += starts[index - 1];
        }
        let ends = starts[1..].to_vec();
        let mut numbers = vec![0; self.numbers.len()];
        for (index, list) in (0..).zip(self.iter()) {
            for &number in list {
                let next = &mut starts[number as usize];
                numbers[*next] = index;
                *next += 1;
            }
        }
        Self { numbers, ends }
    }
}

#[cfg(test)]
mod tests {
    use super::super::terms::{Split, StopWords, terms_in};
    use super::*;

    fn rows(cells: &[&str]) -> Rows {
        let mut builder = RowsBuilder::new();
        for cell in cells {
            let terms = terms_in(cell, Split::List, &StopWords::none());
            builder.add(terms, 1.0).unwrap();
        }
        builder.build()
    }

    #[test]
    fn terms_are_numbered_as_they_are_written() {
        let rows = rows(&["b;Ann Lee", "a;b;B", ""]);
        let written: Vec<&str> = (0..3).map(|term| rows.written(TermId(term))).collect();
        assert_eq!(written, ["\"Ann Lee\"", "a", "b"]);
        assert_eq!(rows.terms_of(0), [0, 2]);
        assert_eq!(rows.terms_of(1), [1, 2]);
        assert_eq!(rows.with_term(2), [0, 1]);
        assert_eq!(rows.term("ann lee"), Some(TermId(0)));
        assert_eq!(rows.query(&[0, 2]), "\"Ann Lee\" b");
        assert_eq!(rows.n_without_terms(), 1);
    }

    #[test]
    fn a_worth_is_checked_at_the_door() {
        let mut builder = RowsBuilder::new();
        assert_eq!(builder.add([], -1.0), Err(Error::Worth(-1.0)));
        assert!(builder.add([], f64::INFINITY).is_err());
    }
}
