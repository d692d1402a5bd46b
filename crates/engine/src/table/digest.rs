//! Digests: whether the rows of a block are what they were, as the database itself can tell.
//!
//! A row has a mark that is another one after every change of it. PostgreSQL keeps one, the
//! transaction that wrote the row, whatever its columns are; MySQL and MariaDB are asked for
//! a hash of the columns, where each can be written exactly. Marks come with the rows when a
//! block is read, and make its digest; later the database makes the digest of the marks that
//! there are then, for several blocks in one statement, and only those that differ are read.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use springtide_policy::agenda::LIKELY;

use super::block::Range;
use super::statement::{Column, Dialect, From, Shape, Statement};
use super::value::{Value, hex};

/// The mark of a row of PostgreSQL.
pub(super) const WRITTEN_BY: &str = "xmin::text";

/// The mark of a row with these columns, in the words of MySQL and MariaDB; nothing if one
/// of them has a kind whose spelling is not exact, or not known to be.
pub(super) fn hash_of_columns(columns: &[&Column]) -> Option<String> {
    const EXACT: [&str; 29] = [
        "bigint",
        "binary",
        "bit",
        "blob",
        "char",
        "date",
        "datetime",
        "decimal",
        "double",
        "enum",
        "float",
        "inet4",
        "inet6",
        "int",
        "json",
        "longblob",
        "longtext",
        "mediumblob",
        "mediumint",
        "mediumtext",
        "set",
        "smallint",
        "text",
        "time",
        "timestamp",
        "tinyint",
        "uuid",
        "varbinary",
        "varchar",
    ];
    let is_exact = |column: &&Column| EXACT.contains(&&*column.kind);
    if columns.is_empty() || !columns.iter().all(is_exact) {
        return None;
    }
    // Quoted, a text ends where it ends, and null is no text. A short float is spelled with
    // six digits, a long one exactly.
    let quoted = columns.iter().map(|column| {
        let exactly = if column.kind == "float" { " * 1e0" } else { "" };
        format!("quote({}{exactly})", Dialect::MySql.name(&column.name))
    });
    let quoted: Vec<String> = quoted.collect();
    Some(format!("md5(concat_ws(',', {}))", quoted.join(", ")))
}

/// The digest of rows with these marks, in the order of their keys, as the database makes
/// it; nothing if one of them is no mark.
pub(super) fn of_marks(
    dialect: Dialect,
    marks: impl Iterator<Item = Option<String>>,
) -> Option<String> {
    match dialect {
        Dialect::Sqlite => None,
        Dialect::Postgres => {
            let mut hash = Sha256::new();
            for (at, mark) in marks.enumerate() {
                if at > 0 {
                    hash.update(b",");
                }
                hash.update(mark?.as_bytes());
            }
            Some(hex(&hash.finalize()))
        }
        Dialect::MySql => {
            let (mut n, mut high, mut low) = (0_u64, 0_u64, 0_u64);
            for mark in marks {
                let mark = mark?;
                let half = |digits| u64::from_str_radix(mark.get(digits)?, 16).ok();
                high ^= half(0..16)?;
                low ^= half(16..32)?;
                n += 1;
            }
            Some(format!("{n}:{high:x}:{low:x}"))
        }
    }
}

/// Asks for the digests of ranges: each with its place among them.
pub(super) fn statement<'a>(
    dialect: Dialect,
    from: &From,
    shape: &Shape,
    mark: &str,
    ranges: impl Iterator<Item = &'a Range>,
) -> Statement {
    let mut values = Vec::new();
    let table = dialect.from(from);
    let parts = ranges.enumerate().map(|(at, range)| {
        let condition = dialect.within(shape, range, &mut values);
        match dialect {
            Dialect::MySql => format!(
                "(select {at} as place, concat(count(*), ':', \
                 lower(hex(bit_xor(cast(conv(left(mark, 16), 16, 10) as unsigned)))), ':', \
                 lower(hex(bit_xor(cast(conv(right(mark, 16), 16, 10) as unsigned))))) as digest \
                 from (select {mark} as mark from {table}{condition}) as marks)"
            ),
            Dialect::Sqlite | Dialect::Postgres => format!(
                "(select {at} as place, \
                 encode(sha256(convert_to(coalesce(string_agg(mark, ','), ''), 'UTF8')), 'hex') \
                 as digest from (select {mark} as mark from {table}{condition} order by {}) \
                 as marks)",
                dialect.names(&shape.key)
            ),
        }
    });
    let parts: Vec<String> = parts.collect();
    Statement {
        text: parts.join(" union all "),
        values,
    }
}

/// The digests that were answered, by the places of their ranges.
pub(super) fn answered(rows: Vec<Vec<Value>>, n: usize) -> Vec<Option<String>> {
    let mut digests = vec![None; n];
    for row in rows {
        let mut values = row.into_iter();
        let place = match values.next() {
            Some(Value::Integer(place)) => usize::try_from(place).ok(),
            Some(Value::Text(place)) => place.parse().ok(),
            _ => None,
        };
        let slot = place.and_then(|place| digests.get_mut(place));
        if let (Some(slot), Some(value)) = (slot, values.next()) {
            *slot = text(value);
        }
    }
    digests
}

/// The text of a value; whoever joins texts of several character sets is answered in bytes.
pub(super) fn text(value: Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text),
        Value::Bytes(bytes) => String::from_utf8(bytes).ok(),
        _ => None,
    }
}

/// What rows cost when they are read, and when only their digest is asked for: seconds each,
/// the latest counting most.
#[derive(Debug, Default)]
pub(super) struct Costs {
    seen: Mutex<Seen>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Seen {
    reading: Option<f64>,
    digest: Option<f64>,
    n_readings: u32,
}

/// How much the latest counts.
const LATEST: f64 = 0.2;
/// After so many readings it is tried again what a digest costs.
const TRIED_AGAIN: u32 = 200;

impl Costs {
    pub(super) fn note_reading(&self, n_rows: usize, took: Duration) {
        self.note(n_rows, took, |seen| &mut seen.reading);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.n_readings = seen.n_readings.wrapping_add(1);
        if seen.n_readings.is_multiple_of(TRIED_AGAIN) {
            seen.digest = None;
        }
    }

    pub(super) fn note_digest(&self, n_rows: usize, took: Duration) {
        self.note(n_rows, took, |seen| &mut seen.digest);
    }

    fn note(&self, n_rows: usize, took: Duration, which: fn(&mut Seen) -> &mut Option<f64>) {
        if n_rows == 0 {
            return;
        }
        let each = took.as_secs_f64() / n_rows as f64;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let known = which(&mut seen);
        *known = Some(known.map_or(each, |known| known + LATEST * (each - known)));
    }

    /// Up to which chance that a block has changed its digest is asked for first: never, if
    /// it has taken the database longer than the rows did.
    pub(super) fn likely(&self) -> f64 {
        let seen = *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match (seen.reading, seen.digest) {
            (Some(reading), Some(digest)) if digest > reading => 0.0,
            _ => LIKELY,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, kind: &str) -> Column {
        Column {
            name: name.to_owned(),
            kind: kind.to_owned(),
        }
    }

    #[test]
    fn a_kind_that_is_not_known_to_be_spelled_exactly_has_no_hash() {
        let (a, b) = (column("a", "float"), column("b`", "varchar"));
        let point = column("c", "point");
        assert_eq!(
            hash_of_columns(&[&a, &b]).as_deref(),
            Some("md5(concat_ws(',', quote(`a` * 1e0), quote(`b```)))")
        );
        assert_eq!(hash_of_columns(&[&a, &point]), None);
        assert_eq!(hash_of_columns(&[]), None);
    }

    #[test]
    fn a_digest_that_takes_as_long_as_reading_is_not_asked_for() {
        let costs = Costs::default();
        assert_eq!(costs.likely(), LIKELY);
        costs.note_reading(100, Duration::from_millis(10));
        costs.note_digest(100, Duration::from_millis(1));
        assert_eq!(costs.likely(), LIKELY);
        for _ in 0..50 {
            costs.note_digest(100, Duration::from_millis(12));
        }
        assert_eq!(costs.likely(), 0.0);
    }

    #[test]
    fn the_digest_of_no_rows_is_one_too() {
        let of = |marks: &[&str]| {
            let marks = marks.iter().map(|mark| Some((*mark).to_owned()));
            of_marks(Dialect::MySql, marks)
        };
        assert_eq!(of(&[]).as_deref(), Some("0:0:0"));
        let marks = [
            "00000000000000ff00000000000000f0",
            "00000000000000010000000000000001",
        ];
        assert_eq!(of(&marks).as_deref(), Some("2:fe:f1"));
        assert_eq!(of(&["no mark"]), None);
    }
}
