//! Our copies of rows, and how fresh they were.

use springtide_policy::{Element, Weight};

use super::TableHistory;
use crate::measure::{Measures, Tally};

/// What was measured of a table. Rows are measured one by one, from when they are in the
/// table until they are in neither table nor copy.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct TableMeasures {
    /// Of rows; polls are statements, and those that found a change are those that found
    /// one in some row.
    pub of_rows: Measures,
    /// The share of the rows' time that they were held although they are gone.
    pub gone: f64,
    /// Polls of the cursor, and those that asked for digests.
    pub n_cursor: u64,
    /// See [`n_cursor`](Self::n_cursor).
    pub n_digests: u64,
    /// Blocks at the end.
    pub n_blocks: usize,
}

pub(super) struct Copies<'a> {
    pub(super) history: &'a TableHistory,
    warmup: f64,
    rows: Vec<Row>,
    tally: Tally,
    /// Days, after the warm-up, that rows were held which are gone; and were there at all.
    gone: f64,
    here: f64,
    n_cursor: u64,
    n_digests: u64,
    /// How far the cursor has come.
    n_sighted: usize,
}

#[derive(Debug, Clone, Copy)]
struct Row {
    /// When its copy was last in sync, or it was born.
    synced_at: f64,
    /// Changes that are known.
    n_known: usize,
    is_held: bool,
    /// In neither table nor copy any more.
    is_over: bool,
    has_changed: bool,
    was_found: bool,
}

impl<'a> Copies<'a> {
    /// All that is there at the start is held.
    pub(super) fn new(history: &'a TableHistory, warmup: f64) -> Self {
        let row = |row| Row {
            synced_at: history.born(row),
            n_known: 0,
            is_held: row < history.n_first,
            is_over: false,
            has_changed: false,
            was_found: false,
        };
        Self {
            history,
            warmup,
            rows: (0..history.n_rows()).map(row).collect(),
            tally: Tally::new(warmup),
            gone: 0.0,
            here: 0.0,
            n_cursor: 0,
            n_digests: 0,
            n_sighted: 0,
        }
    }

    /// Whether a row has changed so that who compares would see it.
    pub(super) fn has_changed(&self, row: usize, now: f64) -> bool {
        let Row {
            n_known,
            is_held,
            is_over,
            ..
        } = self.rows[row];
        let next = self.history.changes(row).get(n_known);
        !is_over
            && next.is_some_and(|change| change.at <= now)
            && (is_held || now < self.history.died(row))
    }

    pub(super) fn is_held(&self, row: usize) -> bool {
        self.rows[row].is_held
    }

    /// Brings the copy of a row in sync; says whether it was not.
    pub(super) fn refresh(&mut self, row: usize, now: f64) -> bool {
        if self.rows[row].is_over || self.history.born(row) > now {
            return false;
        }
        let has_changed = self.has_changed(row, now);
        self.pass(row, now);
        let state = &mut self.rows[row];
        state.was_found |= has_changed;
        (state.is_held, state.is_over) = match now < self.history.died(row) {
            true => (true, false),
            false => (false, true),
        };
        has_changed
    }

    /// Takes in what the cursor shows; says which rows were not in sync.
    pub(super) fn read_cursor(&mut self, now: f64) -> Vec<usize> {
        self.n_cursor += 1;
        let sightings = &self.history.sightings;
        let mut changed = Vec::new();
        while let Some(&(at, row)) = sightings.get(self.n_sighted)
            && at <= now
        {
            self.n_sighted += 1;
            // A row that is gone is not among those that it shows.
            let row = row as usize;
            if now < self.history.died(row) && self.refresh(row, now) {
                changed.push(row);
            }
        }
        self.note_poll(!changed.is_empty(), now);
        changed
    }

    /// Notes that digests were asked for.
    pub(super) fn note_digests(&mut self, found: bool, now: f64) {
        self.n_digests += 1;
        self.note_poll(found, now);
    }

    pub(super) fn note_poll(&mut self, found: bool, now: f64) {
        self.tally.poll(Element::default(), (found, None), now);
    }

    /// Measures a row from when it was last in sync until now.
    fn pass(&mut self, row: usize, now: f64) {
        let died = self.history.died(row);
        let state = &mut self.rows[row];
        // One that came and went unseen was never wrong afterwards.
        let until = if state.is_held { now } else { now.min(died) };
        let mut spell = self.tally.spell(state.synced_at, until);
        let changes = self.history.changes(row)[state.n_known..].iter();
        for change in changes.take_while(|change| change.at <= until) {
            spell.change(change.at);
            state.n_known += 1;
            state.has_changed = true;
        }
        self.tally.add(&spell, Weight::ONE);
        self.here += (until - state.synced_at.max(self.warmup)).max(0.0);
        self.gone += (until - died.max(self.warmup)).max(0.0);
        state.synced_at = now;
    }

    pub(super) fn finish(mut self, n_blocks: usize) -> TableMeasures {
        let span = self.history.span;
        for row in 0..self.rows.len() {
            if !self.rows[row].is_over {
                self.pass(row, span);
            }
        }
        let count = |is: fn(&Row) -> bool| self.rows.iter().filter(|row| is(row)).count();
        let n_changed = count(|row| row.has_changed);
        let n_found = count(|row| row.has_changed && row.was_found);
        TableMeasures {
            of_rows: self.tally.measures((n_changed, n_found)),
            gone: self.gone / self.here,
            n_cursor: self.n_cursor,
            n_digests: self.n_digests,
            n_blocks,
        }
    }
}
