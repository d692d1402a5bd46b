//! The rows of a shop, whose prices change at known rates.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use springtide_policy::{Rate, Span};

use super::index::{Index, Query};
use super::words::{self, Drawing};
use super::{Rates, SearchSettings};
use crate::clock::Clock;
use crate::origin::changes::{Changes, mix, rate_per_second};

/// A row of a shop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// What it is known by.
    pub id: String,
    /// Who makes it.
    pub brand: String,
    /// What it is.
    pub title: String,
    /// What else is said of it.
    pub tags: Vec<String>,
    /// What it costs, in cents.
    pub price: u64,
    /// How many there are.
    pub stock: u32,
    /// How often it has changed since the start.
    pub version: u64,
}

impl Row {
    /// A row as it is at the start, at some price.
    pub fn new(id: &str, brand: &str, title: &str, tags: &[&str]) -> Self {
        Self {
            id: id.to_owned(),
            brand: brand.to_owned(),
            title: title.to_owned(),
            tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
            price: 1299,
            stock: 10,
            version: 0,
        }
    }

    /// The texts that it is found by.
    fn texts(&self) -> impl Iterator<Item = &str> {
        [self.brand.as_str(), self.title.as_str()]
            .into_iter()
            .chain(self.tags.iter().map(String::as_str))
    }
}

/// The rows of a shop. They are known by their number, from 0; what is asked of a number
/// that no row has panics.
#[derive(Debug)]
pub struct Catalogue {
    seed: u64,
    /// As they were at the start.
    rows: Vec<Row>,
    numbers: HashMap<String, usize>,
    rates: Vec<Rate>,
    changes: Changes,
    is_there: Vec<AtomicBool>,
    index: Index,
}

impl Catalogue {
    /// A catalogue whose time begins now, by this clock.
    pub fn new(settings: &SearchSettings, clock: Clock) -> Self {
        let n_rows = settings.rows.len() + settings.n_rows;
        let drawing = Drawing::new(settings.n_rows);
        let mut rows = settings.rows.clone();
        rows.iter_mut().for_each(|row| row.version = 0);
        rows.extend((rows.len()..n_rows).map(|i| drawing.row(settings.seed, i)));
        let rates: Vec<Rate> = (0..n_rows).map(|i| rate(settings, i)).collect();
        let rates_per_second = rates
            .iter()
            .map(|&rate| rate_per_second(rate, settings.time_scale));
        Self {
            seed: settings.seed,
            numbers: rows
                .iter()
                .enumerate()
                .map(|(i, row)| (row.id.clone(), i))
                .collect(),
            changes: Changes::new(settings.seed, rates_per_second, clock),
            is_there: rows.iter().map(|_| AtomicBool::new(true)).collect(),
            index: Index::new(rows.iter().map(Row::texts)),
            rates,
            rows,
        }
    }

    /// When its time began.
    pub fn started_at(&self) -> SystemTime {
        self.changes.started_at()
    }

    /// The clock that it goes by.
    pub fn clock(&self) -> Clock {
        self.changes.clock()
    }

    /// How many rows it has, with those that are not there.
    pub fn n_rows(&self) -> usize {
        self.rows.len()
    }

    /// The id of a row.
    pub fn id(&self, row: usize) -> &str {
        &self.rows[row].id
    }

    /// The row with an id.
    pub fn number(&self, id: &str) -> Option<usize> {
        self.numbers.get(id).copied()
    }

    /// How often a row changes, in the shop's time.
    pub fn rate(&self, row: usize) -> Rate {
        self.rates[row]
    }

    /// A row at a moment, whether or not it is there now. Every version has another
    /// price than the one before.
    pub fn row_at(&self, row: usize, at: SystemTime) -> Row {
        let version = self.version_at(row, at);
        let mut row_then = self.rows[row].clone();
        if version > 0 {
            let drawn = mix(self.seed, row as u64, version);
            let percent = 75 + drawn % 51;
            let last_digit = (row_then.price + 5 * (version % 2)) % 10;
            row_then.price = row_then.price * percent / 1000 * 10 + last_digit;
            row_then.stock = (drawn >> 32) as u32 % 100;
            row_then.version = version;
        }
        row_then
    }

    /// The version of a row at a moment: how often it had changed by then.
    pub fn version_at(&self, row: usize, at: SystemTime) -> u64 {
        self.changes.count(row, at)
    }

    /// When a row changed, up to a moment.
    pub fn changes(&self, row: usize, until: SystemTime) -> Vec<SystemTime> {
        self.changes.until(row, until)
    }

    /// The changes that a copy of a row has missed: how long before `now` each was, of
    /// those after `polled_at`. The time is ours, however fast the shop's goes.
    pub fn missed(&self, row: usize, polled_at: SystemTime, now: SystemTime) -> Vec<Span> {
        let changes = self.changes(row, now);
        let first = changes.partition_point(|&change| change <= polled_at);
        changes[first..]
            .iter()
            .map(|&change| {
                let ago = now.duration_since(change).unwrap_or_default();
                Span::days(ago.as_secs_f64() / 86_400.0).unwrap_or(Span::ZERO)
            })
            .collect()
    }

    /// Makes a row change now, beside the changes that it would have had.
    pub fn change(&self, row: usize) {
        self.changes.add(row);
    }

    /// Takes a row out: no query finds it, and its id is unknown.
    pub fn take_out(&self, row: usize) {
        self.is_there[row].store(false, Ordering::Relaxed);
    }

    /// Puts a row in that was taken out.
    pub fn put_in(&self, row: usize) {
        self.is_there[row].store(true, Ordering::Relaxed);
    }

    /// Whether a row is there: all are, until they are taken out.
    pub fn is_there(&self, row: usize) -> bool {
        self.is_there[row].load(Ordering::Relaxed)
    }

    /// All rows that a query finds, the best first.
    ///
    /// A query is of words, all of which a row has to have in its brand, title or tags.
    /// Words in double quotes have to follow each other in one of them. Which is better
    /// depends on query, row and seed alone.
    pub fn find(&self, query: &str) -> Vec<usize> {
        self.best(query, usize::MAX, 0).1
    }

    /// How many rows a query finds, and the best of them. Another salt makes others the
    /// best.
    pub(super) fn best(&self, query: &str, n: usize, salt: u64) -> (usize, Vec<usize>) {
        let query = Query::parse(query);
        let seed = mix(self.seed, query.digest(), salt);
        let mut found: Vec<(u64, u32)> = self
            .index
            .find(&query)
            .filter(|&row| self.is_there(row as usize))
            .map(|row| (mix(seed, u64::from(row), 2), row))
            .collect();
        let total = found.len();
        if n < total {
            found.select_nth_unstable(n);
            found.truncate(n);
        }
        found.sort_unstable();
        let rows = found.into_iter().map(|(_, row)| row as usize).collect();
        (total, rows)
    }

    /// Some rows as a file of CSV, as they are at a moment: id, brand, title and price.
    pub fn csv(&self, rows: impl IntoIterator<Item = usize>, at: SystemTime) -> String {
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let mut csv = String::from("id,brand,title,price\n");
        for row in rows {
            let row = self.row_at(row, at);
            let texts = [&row.id, &row.brand, &row.title].map(|text| quoted(text));
            let _ = writeln!(csv, "{},{}", texts.join(","), row.price);
        }
        csv
    }
}

fn rate(settings: &SearchSettings, row: usize) -> Rate {
    match &settings.rates {
        Rates::Same(rate) => *rate,
        Rates::Given(rates) => rates.get(row).copied().unwrap_or(Rate::ZERO),
        Rates::Drawn { mean } => {
            let seed = mix(settings.seed, row as u64, words::STREAM + 1);
            let u: f64 = Pcg64Mcg::seed_from_u64(seed).random();
            Rate::per_day(-(-u).ln_1p() * mean.as_per_day()).unwrap_or(*mean)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn catalogue(settings: SearchSettings) -> Catalogue {
        Catalogue::new(
            &settings,
            Clock::starting_at(springtide_store::Moment(1_700_000_000_000)),
        )
    }

    #[test]
    fn what_a_row_is_depends_on_seed_and_time_alone() {
        let with_seed = |seed| {
            catalogue(SearchSettings {
                seed,
                n_rows: 50,
                ..SearchSettings::default()
            })
        };
        let (asked_often, asked_once, other) = (with_seed(7), with_seed(7), with_seed(8));
        let end = asked_once.started_at() + 10 * DAY;
        let rows = |catalogue: &Catalogue| -> Vec<Row> {
            (0..50).map(|row| catalogue.row_at(row, end)).collect()
        };
        for day in 0..10 {
            asked_often.row_at(3, asked_often.started_at() + day * DAY);
        }
        assert_eq!(rows(&asked_often), rows(&asked_once));
        assert_ne!(rows(&asked_once), rows(&other));
    }

    #[test]
    fn every_change_is_one_of_the_price() {
        let catalogue = catalogue(SearchSettings {
            rows: vec![Row::new("a", "Orvela", "Kettle", &[])],
            n_rows: 20,
            rates: Rates::Same(Rate::per_day(30.0).unwrap()),
            ..SearchSettings::default()
        });
        let end = catalogue.started_at() + 3 * DAY;
        assert_eq!(catalogue.row_at(0, catalogue.started_at()).price, 1299);
        for row in 0..21 {
            let mut before = catalogue.row_at(row, catalogue.started_at());
            assert_eq!(before.version, 0);
            for at in catalogue.changes(row, end) {
                let just_before = catalogue.row_at(row, at - Duration::from_nanos(1));
                assert_eq!(just_before, before);
                let after = catalogue.row_at(row, at);
                assert_eq!(after.version, before.version + 1);
                assert_ne!(after.price, before.price);
                before = after;
            }
        }
    }

    #[test]
    fn a_copy_has_missed_what_came_after_it() {
        let catalogue = catalogue(SearchSettings {
            n_rows: 1,
            rates: Rates::Given(vec![Rate::per_day(5.0).unwrap()]),
            ..SearchSettings::default()
        });
        let now = catalogue.started_at() + 4 * DAY;
        let changes = catalogue.changes(0, now);
        assert!(changes.len() > 5);
        for (n, &polled_at) in changes.iter().enumerate() {
            let missed = catalogue.missed(0, polled_at, now);
            assert_eq!(missed.len(), changes.len() - n - 1);
            assert!(missed.iter().all(|age| age.as_days() < 4.0));
            assert!(missed.is_sorted_by(|a, b| a >= b));
        }
        assert!(catalogue.missed(0, now, now).is_empty());
    }

    #[test]
    fn rates_are_drawn_about_their_mean() {
        let mean = Rate::per_day(3.0).unwrap();
        let catalogue = catalogue(SearchSettings {
            n_rows: 4000,
            rates: Rates::Drawn { mean },
            ..SearchSettings::default()
        });
        let sum: f64 = (0..4000).map(|row| catalogue.rate(row).as_per_day()).sum();
        // The mean of n exponentials deviates by mean / √n: four times that.
        assert!((sum / 4000.0 - 3.0).abs() < 4.0 * 3.0 / 4000_f64.sqrt());
    }

    #[test]
    fn a_title_with_quotes_stays_one_cell() {
        let catalogue = catalogue(SearchSettings {
            rows: vec![Row::new("a", "Orvela, Ltd", "A 12\" pan", &[])],
            n_rows: 0,
            ..SearchSettings::default()
        });
        assert_eq!(
            catalogue.csv([0], catalogue.started_at()),
            "id,brand,title,price\n\"a\",\"Orvela, Ltd\",\"A 12\"\" pan\",1299\n"
        );
    }
}
