//! Tables: rows in the order of their keys, of which copies are kept block by block, by a
//! cursor, or as people do it today.

mod copies;
mod run;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::parallel::*;
use crate::world::ParameterError;
pub use copies::TableMeasures;
pub use run::{By, TableSetup};

/// The parameters of a table.
///
/// New rows come at the end, and change some more while they are young: orders that are
/// paid, sent and closed. A range of keys in the middle changes all the time, as that of a
/// busy customer. The rest hardly does. Some changes are deletes, and a cursor shows most
/// of the others.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct TableWorld {
    /// Days that it lasts.
    pub span_days: f64,
    /// Rows at the start.
    pub rows: usize,
    /// Rows of a block.
    pub block: usize,
    /// New rows a day, at the end.
    pub inserts_per_day: f64,
    /// For how long a row is young, in days.
    pub young_days: f64,
    /// Changes a day of a young row.
    pub young_rate_per_day: f64,
    /// Rows of the hot range, which ends where the second half of the rows begins.
    pub hot_rows: usize,
    /// Changes a day of a row there.
    pub hot_rate_per_day: f64,
    /// Changes a day of any other row.
    pub rate_per_day: f64,
    /// The share of changes that are deletes.
    pub deletes: f64,
    /// The share of other changes that move the cursor; an insert always does.
    pub recall: f64,
}

impl Default for TableWorld {
    fn default() -> Self {
        Self {
            span_days: 60.0,
            rows: 20_000,
            block: 100,
            inserts_per_day: 300.0,
            young_days: 2.0,
            young_rate_per_day: 1.0,
            hot_rows: 1_000,
            hot_rate_per_day: 0.5,
            rate_per_day: 0.0002,
            deletes: 0.02,
            recall: 0.95,
        }
    }
}

/// What a machine of today can hold, and does not take too long over.
const MOST_ROWS: f64 = 1e7;
const MOST_CHANGES: f64 = 1e8;

impl TableWorld {
    /// Makes what happens to the table; the same seed makes the same.
    ///
    /// # Errors
    ///
    /// If a parameter makes no sense.
    pub fn history(&self, seed: u64) -> Result<TableHistory, ParameterError> {
        self.check()?;
        let mut rng = Pcg64::seed_from_u64(seed);
        let mut history = TableHistory {
            span: self.span_days,
            block: self.block,
            n_first: self.rows,
            starts: vec![0],
            changes: Vec::new(),
            sightings: Vec::new(),
        };
        let hot = (self.rows / 2).saturating_sub(self.hot_rows)..self.rows / 2;
        for row in 0..self.rows {
            let rate = match hot.contains(&row) {
                true => self.hot_rate_per_day,
                false => self.rate_per_day,
            };
            self.make_row(&mut history, 0.0, (rate, rate), &mut rng);
        }
        let mut born = 0.0;
        loop {
            born += exponential(self.inserts_per_day, &mut rng);
            if born > self.span_days {
                break;
            }
            let rates = (self.young_rate_per_day, self.rate_per_day);
            self.make_row(&mut history, born, rates, &mut rng);
        }
        history.sightings.sort_by(|a, b| a.0.total_cmp(&b.0));
        Ok(history)
    }

    /// A row from its birth on, with its rates while it is young and afterwards.
    fn make_row(&self, history: &mut TableHistory, born: f64, rates: (f64, f64), rng: &mut Pcg64) {
        let row = history.n_rows() as u32;
        if born > 0.0 {
            history.changes.push(Change::new(born, false));
            history.sightings.push((born, row));
        }
        let old_at = born + self.young_days;
        let mut at = born;
        loop {
            // Without a memory, it may be drawn anew where the rate changes.
            let rate = if at < old_at { rates.0 } else { rates.1 };
            let next = at + exponential(rate, rng);
            at = if at < old_at && next >= old_at {
                old_at
            } else {
                next
            };
            if at > self.span_days {
                break;
            }
            if at == old_at {
                continue;
            }
            let is_delete = rng.random::<f64>() < self.deletes;
            history.changes.push(Change::new(at, is_delete));
            if is_delete {
                break;
            }
            if rng.random::<f64>() < self.recall {
                history.sightings.push((at, row));
            }
        }
        history.starts.push(history.changes.len());
    }

    fn check(&self) -> Result<(), ParameterError> {
        let check = |is_good: bool, name, value, wanted| match is_good {
            true => Ok(()),
            false => Err(ParameterError {
                name,
                value,
                wanted,
            }),
        };
        let span = self.span_days;
        check(
            span > 0.0 && span < 1e6,
            "span_days",
            span,
            "it lasts for some days",
        )?;
        for (name, value) in [
            ("inserts_per_day", self.inserts_per_day),
            ("young_days", self.young_days),
            ("young_rate_per_day", self.young_rate_per_day),
            ("hot_rate_per_day", self.hot_rate_per_day),
            ("rate_per_day", self.rate_per_day),
        ] {
            check(
                value.is_finite() && value >= 0.0,
                name,
                value,
                "it is zero or more",
            )?;
        }
        for (name, value) in [("deletes", self.deletes), ("recall", self.recall)] {
            check(
                (0.0..=1.0).contains(&value),
                name,
                value,
                "a share is from 0 to 1",
            )?;
        }
        let (rows, hot_rows, block) = (self.rows as f64, self.hot_rows as f64, self.block as f64);
        check(rows >= 1.0, "rows", rows, "there is at least one")?;
        check(block >= 1.0, "block", block, "a block has at least one row")?;
        check(
            hot_rows <= rows / 2.0,
            "hot_rows",
            hot_rows,
            "the hot range is in the first half of the rows",
        )?;
        let n_inserts = self.inserts_per_day * span;
        check(
            rows + n_inserts <= MOST_ROWS,
            "rows",
            rows,
            "with all inserts there are at most ten million",
        )?;
        let n_changes = (hot_rows * self.hot_rate_per_day + (rows + n_inserts) * self.rate_per_day)
            * span
            + n_inserts * self.young_rate_per_day * self.young_days.min(span);
        check(
            n_changes <= MOST_CHANGES,
            "span_days",
            span,
            "there are at most a hundred million changes in all",
        )
    }
}

/// Everything that happens to a table.
#[derive(Debug, Clone)]
pub struct TableHistory {
    span: f64,
    block: usize,
    /// Rows at the start; later ones follow in the order of their birth.
    n_first: usize,
    /// Where the changes of each row begin.
    starts: Vec<usize>,
    changes: Vec<Change>,
    /// What moves the cursor: when, and which row.
    sightings: Vec<(f64, u32)>,
}

/// A change of a row. The first of one that is born later is its birth.
#[derive(Debug, Clone, Copy)]
struct Change {
    at: f64,
    is_delete: bool,
}

impl Change {
    fn new(at: f64, is_delete: bool) -> Self {
        Self { at, is_delete }
    }
}

impl TableHistory {
    /// Rows that are there at some time.
    pub fn n_rows(&self) -> usize {
        self.starts.len() - 1
    }

    /// Days that it lasts.
    pub fn span(&self) -> f64 {
        self.span
    }

    /// Keeps copies of it in several ways, on as many threads as there are.
    pub fn compare(&self, setups: &[TableSetup]) -> Vec<TableMeasures> {
        setups.par_iter().map(|setup| self.run(setup)).collect()
    }

    fn changes(&self, row: usize) -> &[Change] {
        &self.changes[self.starts[row]..self.starts[row + 1]]
    }

    /// Rows that were born by a time.
    fn n_born(&self, now: f64) -> usize {
        let later = &self.starts[self.n_first..self.n_rows()];
        self.n_first + later.partition_point(|&start| self.changes[start].at <= now)
    }

    /// When a row is born.
    fn born(&self, row: usize) -> f64 {
        match row < self.n_first {
            true => 0.0,
            false => self.changes(row)[0].at,
        }
    }

    /// When a row is deleted.
    fn died(&self, row: usize) -> f64 {
        match self.changes(row).last() {
            Some(last) if last.is_delete => last.at,
            _ => f64::INFINITY,
        }
    }
}

/// Days until something happens; for ever, if it does not.
fn exponential(rate: f64, rng: &mut Pcg64) -> f64 {
    -(1.0 - rng.random::<f64>()).ln() / rate
}
