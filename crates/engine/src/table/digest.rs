//! Digests: whether the rows of a block are what they were, as the database itself can tell.
//!
//! A row has a mark that is another one after every change of it. PostgreSQL keeps one, the
//! transaction that wrote the row, whatever its columns are; MySQL and MariaDB are asked for
//! a hash of the columns, where each can be written exactly. Marks come with the rows when a
//! block is read, and make its digest; later the database makes the digest of the marks that
//! there are then, for several blocks in one statement, and only those that differ are read.
//!
//! What a row looks like also depends on the columns that there are, which may come and go
//! without a mark: so what the database says of them is part of every digest.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use springtide_policy::agenda::LIKELY;

use super::batch::ValueRef;
use super::block::Range;
use super::statement::{Column, Dialect, Relation, Shape, Statement};
use super::value::Value;

/// How a database tells that a row has changed: SQL whose value differs after every change.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RowMark {
    /// That of a row.
    pub(super) row: String,
    /// Asks for the mark of the columns: one value.
    pub(super) columns: String,
    /// What that was when the table was looked at.
    pub(super) columns_at_look: String,
}

/// PostgreSQL's mark of a row: the transaction that wrote it.
///
/// Rows changed between two reads were written by transactions that the first read did not
/// see, so their numbers are new. If nothing is new, rows can only have gone, and the count
/// tells.
pub(super) const WRITER_COLUMN: &str = "xmin";

/// The sum of the hashes of the transactions that wrote rows, and `now`, the number that the
/// next transaction will have. Casting a transaction id goes through text; `age()` is fast,
/// and the id follows from it.
fn sum_of_writers(now: &str) -> String {
    format!("coalesce(sum(hashint8extended(({now} - age({WRITER_COLUMN})) & 4294967295, 0)), 0)")
}
const NOW: &str = "age('3'::xid)::int8 + 3";

/// Asks for the mark of the columns of a table of PostgreSQL, by its name as a literal: who
/// wrote what the catalog has of them, and of the words of their enumerations.
pub(super) fn columns_of_postgres(table: &str) -> String {
    format!(
        "select {} from (select xmin from pg_catalog.pg_attribute \
         where attrelid = {table}::regclass and attnum > 0 \
         union all select e.xmin from pg_catalog.pg_attribute a \
         join pg_catalog.pg_type t on t.oid = a.atttypid \
         join pg_catalog.pg_enum e on e.enumtypid in (t.oid, t.typelem) \
         where a.attrelid = {table}::regclass and a.attnum > 0) as of_columns",
        sum_of_writers(&format!("(select {NOW})"))
    )
}

/// Asks for the mark of the columns of a table of MySQL or MariaDB, by literals.
pub(super) fn columns_of_mysql(schema: &str, table: &str) -> String {
    format!(
        "select concat(count(*), '.', lower(hex(coalesce(bit_xor(cast(conv(left(md5(concat_ws(',', \
         ordinal_position, quote(column_name), quote(column_type), \
         quote(collation_name))), 16), 16, 10) as unsigned)), 0)))) \
         from information_schema.columns where table_schema = {schema} and table_name = {table}"
    )
}

/// Whether what a value of this type of PostgreSQL looks like is up to the row alone: the
/// name of something in the catalog is not.
pub(super) fn is_of_row(kind: &str) -> bool {
    !kind.trim_start_matches('_').starts_with("reg")
}

/// The mark of a row with these columns, in the words of MySQL and MariaDB; nothing if one
/// of them has a kind whose spelling is not exact, or not known to be.
pub(super) fn hash_of_columns(columns: &[&Column]) -> Option<String> {
    const EXACT: [&str; 32] = [
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
        "tinyblob",
        "tinyint",
        "tinytext",
        "uuid",
        "varbinary",
        "varchar",
        "year",
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

/// The digest of rows with these marks, as the database makes it; nothing if one of them is
/// no mark.
pub(super) fn of_marks<'a>(
    dialect: Dialect,
    marks: impl Iterator<Item = Option<ValueRef<'a>>>,
    columns: &str,
) -> Option<String> {
    match dialect {
        Dialect::Sqlite => None,
        Dialect::Postgres => {
            let (mut n, mut sum) = (0_u64, 0_i128);
            for mark in marks {
                let Some(ValueRef::Integer(writer)) = mark else {
                    return None;
                };
                let writer = u32::try_from(writer).ok();
                let writer = writer.filter(|&writer| writer >= FIRST_WRITER)?;
                sum += i128::from(hash_of_writer(writer));
                n += 1;
            }
            Some(format!("{n}:{sum}:{columns}"))
        }
        Dialect::MySql => {
            let (mut n, mut high, mut low) = (0_u64, 0_u64, 0_u64);
            for mark in marks {
                let mark = match mark? {
                    ValueRef::Text(mark) => mark,
                    ValueRef::Bytes(mark) => std::str::from_utf8(mark).ok()?,
                    _ => return None,
                };
                let half = |digits| u64::from_str_radix(mark.get(digits)?, 16).ok();
                high ^= half(0..16)?;
                low ^= half(16..32)?;
                n += 1;
            }
            Some(format!("{n}:{high:x}:{low:x}:{columns}"))
        }
    }
}

/// Transactions of PostgreSQL have numbers from here on. What servers of long ago froze has
/// a smaller one, of which there is no age.
const FIRST_WRITER: u32 = 3;

/// PostgreSQL's own hash of a number below 2^32, `hashint8extended(n, 0)`. Tables are
/// divided among servers by it, so it stays what it is.
fn hash_of_writer(writer: u32) -> i64 {
    let [mut a, mut b, mut c] = [0x9e37_79b9_u32.wrapping_add(4 + 3_923_095); 3];
    a = a.wrapping_add(writer);
    let mix = |x: u32, y: u32, n: u32| (x ^ y).wrapping_sub(y.rotate_left(n));
    c = mix(c, b, 14);
    a = mix(a, c, 11);
    b = mix(b, a, 25);
    c = mix(c, b, 16);
    a = mix(a, c, 4);
    b = mix(b, a, 14);
    c = mix(c, b, 24);
    (u64::from(b) << 32 | u64::from(c)) as i64
}

/// Asks for the digests of ranges, whose digests are these: each with its place among them.
pub(super) fn statement<'a>(
    dialect: Dialect,
    relation: &Relation,
    shape: &Shape,
    mark: &RowMark,
    known: impl Iterator<Item = (&'a Range, &'a str)>,
) -> Statement {
    match dialect {
        Dialect::Sqlite | Dialect::Postgres => of_postgres(relation, shape, mark, known),
        Dialect::MySql => of_mysql(relation, shape, mark, known.map(|(range, _)| range)),
    }
}

/// Ranges bounded on the same sides share one query plan. A block is skipped altogether if
/// the server was quiet when its digest was made and nothing has been written since.
fn of_postgres<'a>(
    relation: &Relation,
    shape: &Shape,
    mark: &RowMark,
    known: impl Iterator<Item = (&'a Range, &'a str)>,
) -> Statement {
    let dialect = Dialect::Postgres;
    let columns: Vec<&Column> = shape
        .key
        .iter()
        .filter_map(|key| shape.column(key))
        .collect();
    let mut asked: [Vec<String>; 4] = Default::default();
    for (place, (range, digest)) in known.enumerate() {
        let (_, quiet) = parts(digest);
        let quiet = quiet.map_or_else(|| "null".to_owned(), |quiet| dialect.text(quiet));
        let mut row = vec![place.to_string(), format!("{quiet}::text")];
        for key in [&range.from, &range.to].into_iter().flatten() {
            let literals = columns.iter().zip(key);
            let mut none = Vec::new();
            row.extend(
                literals.map(|(column, value)| dialect.value(value, &column.kind, &mut none)),
            );
        }
        let ends = usize::from(range.from.is_some()) + 2 * usize::from(range.to.is_some());
        asked[ends].push(format!("({})", row.join(", ")));
    }
    let key = dialect.names(&shape.key);
    let table = dialect.relation(relation);
    let sum = sum_of_writers("springtide_seen.now");
    let parts = asked
        .iter()
        .enumerate()
        .filter(|(_, rows)| !rows.is_empty());
    let parts = parts.map(|(ends, rows)| {
        let mut names = vec!["place".to_owned(), "quiet".to_owned()];
        let mut conditions = String::new();
        for (bit, end, sign) in [(1, "from", ">="), (2, "to", "<")] {
            if ends & bit != 0 {
                let own = (0..columns.len()).map(|at| format!("{end}{at}"));
                let own: Vec<String> = own.collect();
                let asked = own.iter().map(|name| format!("springtide_asked.{name}"));
                let asked = asked.collect::<Vec<_>>().join(", ");
                conditions.push_str(&format!("({key}) {sign} ({asked}) and "));
                names.extend(own);
            }
        }
        format!(
            "(select springtide_asked.place, springtide_seen.quiet, springtide_seen.columns, \
             springtide_block.n, springtide_block.writers from springtide_seen, \
             (values {}) as springtide_asked({}), \
             lateral (select count(*) as n, {sum} as writers from {table} where {conditions}\
             springtide_asked.quiet is distinct from springtide_seen.quiet) as springtide_block)",
            rows.join(", "),
            names.join(", ")
        )
    });
    let parts: Vec<String> = parts.collect();
    Statement {
        text: format!(
            "with springtide_seen as materialized (select {NOW} as now, \
             case when txid_snapshot_xmin(s) = txid_snapshot_xmax(s) then txid_snapshot_xmax(s) \
             || '@' || extract(epoch from pg_postmaster_start_time()) end as quiet, \
             ({}) as columns from txid_current_snapshot() as s) {}",
            mark.columns,
            parts.join(" union all ")
        ),
        values: Vec::new(),
    }
}

fn of_mysql<'a>(
    relation: &Relation,
    shape: &Shape,
    mark: &RowMark,
    ranges: impl Iterator<Item = &'a Range>,
) -> Statement {
    let dialect = Dialect::MySql;
    let mut values = Vec::new();
    let table = dialect.relation(relation);
    let parts = ranges.enumerate().map(|(at, range)| {
        let condition = dialect.within(shape, range, &mut values);
        let columns = match at {
            0 => format!("({})", mark.columns),
            _ => "null".to_owned(),
        };
        format!(
            "(select {at} as place, concat(count(*), ':', \
             lower(hex(bit_xor(cast(conv(left(mark, 16), 16, 10) as unsigned)))), ':', \
             lower(hex(bit_xor(cast(conv(right(mark, 16), 16, 10) as unsigned))))) as digest, \
             {columns} as of_columns \
             from (select {} as mark from {table}{condition}) as marks)",
            mark.row
        )
    });
    let parts: Vec<String> = parts.collect();
    Statement {
        text: parts.join(" union all "),
        values,
    }
}

/// What a database says of blocks.
#[derive(Debug, Default)]
pub(super) struct DigestAnswer {
    /// The digest of each, if it is what it was, and nothing if it is not.
    pub(super) same: Vec<Option<String>>,
    /// Whether the columns are those that there were when the table was looked at.
    pub(super) has_same_columns: bool,
}

/// What was answered about blocks whose digests are these.
pub(super) fn answered(
    dialect: Dialect,
    rows: Vec<Vec<Value>>,
    mark: &RowMark,
    known: &[&str],
) -> DigestAnswer {
    let mut told = DigestAnswer {
        same: vec![None; known.len()],
        has_same_columns: true,
    };
    let mut columns = String::new();
    let mut blocks = Vec::with_capacity(rows.len());
    for row in rows {
        let mut values = row.into_iter().map(plain);
        let mut next = || values.next().flatten();
        let place = next().and_then(|place| place.parse::<usize>().ok());
        let (quiet, digest, of_columns);
        match dialect {
            Dialect::Sqlite | Dialect::Postgres => {
                (quiet, of_columns) = (next(), next());
                let (n, sum) = (next(), next());
                digest = n.zip(sum).map(|(n, sum)| format!("{n}:{sum}"));
            }
            Dialect::MySql => {
                quiet = None;
                (digest, of_columns) = (next(), next());
            }
        }
        if let Some(of_columns) = of_columns {
            told.has_same_columns &= of_columns == mark.columns_at_look;
            columns = of_columns;
        }
        blocks.push((place, quiet, digest));
    }
    for (place, quiet, digest) in blocks {
        let Some((place, known)) = place.and_then(|place| Some((place, *known.get(place)?))) else {
            continue;
        };
        let (then, was_quiet) = parts(known);
        let is_quiet = quiet.is_some() && quiet.as_deref() == was_quiet;
        let digest = digest.map(|digest| format!("{digest}:{columns}"));
        if is_quiet || digest.as_deref() == Some(then) {
            let quiet = quiet.map_or_else(String::new, |quiet| format!("{QUIET}{quiet}"));
            told.same[place] = Some(format!("{then}{quiet}"));
        }
    }
    told
}

/// Before what was known of the whole server when the digest was last asked for.
const QUIET: char = '~';

/// A digest itself, and when the server was quiet.
fn parts(digest: &str) -> (&str, Option<&str>) {
    match digest.split_once(QUIET) {
        Some((digest, quiet)) => (digest, Some(quiet)),
        None => (digest, None),
    }
}

/// The text of a value, or of a number.
pub(super) fn plain(value: Value) -> Option<String> {
    match value {
        Value::Integer(number) => Some(number.to_string()),
        Value::Real(number) => Some(number.to_string()),
        value => text(value),
    }
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
    seen: Mutex<SecondsPerRow>,
}

#[derive(Debug, Default, Clone, Copy)]
struct SecondsPerRow {
    reading: Option<f64>,
    digest: Option<f64>,
    n_readings: u32,
}

/// How much the latest counts.
const LATEST: f64 = 0.2;
/// After this many readings it is tried again what a digest costs.
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

    fn note(
        &self,
        n_rows: usize,
        took: Duration,
        which: fn(&mut SecondsPerRow) -> &mut Option<f64>,
    ) {
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
    pub(super) fn digest_threshold(&self) -> f64 {
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
        assert_eq!(costs.digest_threshold(), LIKELY);
        costs.note_reading(100, Duration::from_millis(10));
        costs.note_digest(100, Duration::from_millis(1));
        assert_eq!(costs.digest_threshold(), LIKELY);
        for _ in 0..50 {
            costs.note_digest(100, Duration::from_millis(12));
        }
        assert_eq!(costs.digest_threshold(), 0.0);
    }

    #[test]
    fn the_digest_of_no_rows_is_one_too() {
        let of = |marks: &[&str]| {
            let marks = marks.iter().map(|mark| Some(ValueRef::Text(mark)));
            of_marks(Dialect::MySql, marks, "c")
        };
        assert_eq!(of(&[]).as_deref(), Some("0:0:0:c"));
        let marks = [
            "00000000000000ff00000000000000f0",
            "00000000000000010000000000000001",
        ];
        assert_eq!(of(&marks).as_deref(), Some("2:fe:f1:c"));
        assert_eq!(of(&["no mark"]), None);
    }

    #[test]
    fn a_writer_is_hashed_as_postgres_hashes_it() {
        // select hashint8extended(n, 0), by PostgreSQL 15.
        for (writer, hash) in [
            (3, -6_566_953_864_026_435_689),
            (12_345, -4_060_231_184_274_664_867),
            (u32::MAX, -1_888_257_769_727_981_238),
        ] {
            assert_eq!(hash_of_writer(writer), hash);
        }
        let of = |marks: &[i64]| {
            let marks = marks.iter().map(|mark| Some(ValueRef::Integer(*mark)));
            of_marks(Dialect::Postgres, marks, "7")
        };
        let three = "2:-13133907728052871378:7";
        assert_eq!(of(&[3, 3]).as_deref(), Some(three));
        // Frozen, by a server of long ago: it has no age.
        assert_eq!(of(&[3, 2]), None);
    }

    fn mark() -> RowMark {
        RowMark {
            row: WRITER_COLUMN.to_owned(),
            columns: "select 7".to_owned(),
            columns_at_look: "7".to_owned(),
        }
    }

    #[test]
    fn blocks_with_the_same_ends_are_asked_for_by_one_plan() {
        let shape = Shape {
            columns: vec![column("a", "text"), column("n", "int8")],
            key: vec!["a".to_owned(), "n".to_owned()],
            is_ordered: true,
            mark: None,
            is_cursor_indexed: None,
        };
        let key = |text: &str, n| Some(vec![Value::Text(text.to_owned()), Value::Integer(n)]);
        let range = |from, to| Range { from, to };
        let ranges = [
            range(None, key("it's", 1)),
            range(key("it's", 1), key("x", 2)),
            range(key("x", 2), key("y", 3)),
        ];
        let known = ranges.iter().zip(["1:2:7", "3:4:7~9@5", "5:6:7"]);
        let relation = Relation::Table(vec!["t".to_owned()]);
        let statement = statement(Dialect::Postgres, &relation, &shape, &mark(), known);
        insta::assert_snapshot!(statement.text.replace(" union all ", "\n union all\n "), @r#"
        with springtide_seen as materialized (select age('3'::xid)::int8 + 3 as now, case when txid_snapshot_xmin(s) = txid_snapshot_xmax(s) then txid_snapshot_xmax(s) || '@' || extract(epoch from pg_postmaster_start_time()) end as quiet, (select 7) as columns from txid_current_snapshot() as s) (select springtide_asked.place, springtide_seen.quiet, springtide_seen.columns, springtide_block.n, springtide_block.writers from springtide_seen, (values (0, null::text, 'it''s'::text, '1'::int8)) as springtide_asked(place, quiet, to0, to1), lateral (select count(*) as n, coalesce(sum(hashint8extended((springtide_seen.now - age(xmin)) & 4294967295, 0)), 0) as writers from "t" where ("a", "n") < (springtide_asked.to0, springtide_asked.to1) and springtide_asked.quiet is distinct from springtide_seen.quiet) as springtide_block)
         union all
         (select springtide_asked.place, springtide_seen.quiet, springtide_seen.columns, springtide_block.n, springtide_block.writers from springtide_seen, (values (1, '9@5'::text, 'it''s'::text, '1'::int8, 'x'::text, '2'::int8), (2, null::text, 'x'::text, '2'::int8, 'y'::text, '3'::int8)) as springtide_asked(place, quiet, from0, from1, to0, to1), lateral (select count(*) as n, coalesce(sum(hashint8extended((springtide_seen.now - age(xmin)) & 4294967295, 0)), 0) as writers from "t" where ("a", "n") >= (springtide_asked.from0, springtide_asked.from1) and ("a", "n") < (springtide_asked.to0, springtide_asked.to1) and springtide_asked.quiet is distinct from springtide_seen.quiet) as springtide_block)
        "#);
    }

    #[test]
    fn a_block_is_the_same_if_its_digest_is_or_nothing_was_written_at_all() {
        let row = |place: i64, quiet: &str, columns: &str, n: i64, sum: &str| {
            let text = |text: &str| Value::Text(text.to_owned());
            vec![
                Value::Integer(place),
                text(quiet),
                text(columns),
                Value::Integer(n),
                text(sum),
            ]
        };
        let known = ["1:-5:7", "2:6:7~9@5", "3:7:7", "4:8:6"];
        let rows = vec![
            row(3, "9@5", "7", 4, "8"),
            row(2, "9@5", "7", 2, "7"),
            // It was not looked at.
            row(1, "9@5", "7", 0, "0"),
            row(0, "9@5", "7", 1, "-5"),
        ];
        let told = answered(Dialect::Postgres, rows, &mark(), &known);
        let same = |text: &str| Some(text.to_owned());
        assert_eq!(
            told.same,
            [same("1:-5:7~9@5"), same("2:6:7~9@5"), None, None]
        );
        assert!(told.has_same_columns);
        let rows = vec![row(0, "10@5", "8", 1, "-5"), row(1, "10@5", "8", 0, "0")];
        let told = answered(Dialect::Postgres, rows, &mark(), &known);
        assert_eq!(told.same, [None, None, None, None]);
        assert!(!told.has_same_columns);
    }
}
