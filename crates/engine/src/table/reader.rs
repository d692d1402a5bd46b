//! What others read of a copy, beside whoever writes it: its rows, and what happened to
//! them.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use springtide_store::{Moment, Packed};

use super::sqlite::of_sql;
use super::statement::Dialect;
use super::value::{Row, Rows, Value, json_names, list_text, object_text};

/// Why a copy cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// SQLite says why.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// Rows of a first pass are not what was written.
    #[error("the rows that were first read, up to number {0} of the log, are damaged")]
    Damaged(i64),
}

/// A copy, to be read.
#[derive(Debug)]
pub struct CopyReader {
    connection: Connection,
}

/// What the values of a column are, besides null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// Whole numbers.
    Integers,
    /// Numbers.
    Reals,
    /// Text, or nothing at all, or values of several kinds.
    Texts,
    /// Bytes.
    Bytes,
}

/// Something that happened to a row.
#[derive(Debug, Clone, PartialEq)]
pub struct RowLogged {
    /// Its number in this copy, rising.
    pub number: i64,
    /// Of which source.
    pub source: String,
    /// `added`, `changed`, `gone` or `schema`.
    pub kind: String,
    /// Its key, a JSON array.
    pub key: String,
    /// When it was found.
    pub found_at: Moment,
    /// The poll before that, if there was one.
    pub previous_poll_at: Option<Moment>,
    /// The row before, a JSON object.
    pub before: Option<String>,
    /// The row after.
    pub after: Option<String>,
}

impl CopyReader {
    /// Opens a copy; nothing if there is none yet.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: &Path) -> Result<Option<Self>, CopyError> {
        if !path.exists() {
            return Ok(None);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(Duration::from_secs(5))?;
        Ok(Some(Self { connection }))
    }

    /// What happened to rows of a source since a moment, newest first: at most so many before
    /// one of them, by when it was found and its number.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn log(
        &self,
        source: &str,
        since: Option<Moment>,
        before: (i64, i64),
        limit: usize,
    ) -> Result<Vec<RowLogged>, CopyError> {
        let sql = "SELECT number, source, kind, key, found_at, previous_poll_at, before, after \
                   FROM springtide_log WHERE source = ?1 AND found_at >= ?2 AND (found_at, number) < (?3, ?4) \
                   ORDER BY found_at DESC, number DESC LIMIT ?5";
        let mut statement = self.connection.prepare(sql)?;
        let since = since.map_or(i64::MIN, |since| since.0);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let found = statement.query_map((source, since, before.0, before.1, limit), |row| {
            Ok(RowLogged {
                number: row.get(0)?,
                source: row.get(1)?,
                kind: row.get(2)?,
                key: row.get(3)?,
                found_at: Moment(row.get(4)?),
                previous_poll_at: row.get::<_, Option<i64>>(5)?.map(Moment),
                before: row.get(6)?,
                after: row.get(7)?,
            })
        })?;
        let logged = found.collect::<rusqlite::Result<Vec<_>>>()?;
        self.with_first(logged, source, since, before, limit)
    }

    /// What was logged row by row, and between it the rows that came with first polls, which
    /// were logged together.
    fn with_first(
        &self,
        logged: Vec<RowLogged>,
        source: &str,
        since: i64,
        before: (i64, i64),
        limit: i64,
    ) -> Result<Vec<RowLogged>, CopyError> {
        if self.columns("springtide_first")?.is_empty() {
            // The copy is of a version that logged each row.
            return Ok(logged);
        }
        let sql = "SELECT number, n_rows, found_at, previous_poll_at, body \
                   FROM springtide_first WHERE source = ?1 AND found_at >= ?2 \
                   AND (found_at, number - n_rows + 1) < (?3, ?4) \
                   ORDER BY found_at DESC, number DESC";
        let mut statement = self.connection.prepare(sql)?;
        let mut found = statement.query((source, since, before.0, before.1))?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut logged = logged.into_iter().peekable();
        let mut all = Vec::new();
        let place = |row: &RowLogged| (row.found_at.0, row.number);
        while all.len() < limit
            && let Some(row) = found.next()?
        {
            let (last, n_rows): (i64, i64) = (row.get(0)?, row.get(1)?);
            let found_at: i64 = row.get(2)?;
            while let Some(newer) = logged.next_if(|row| place(row) > (found_at, last)) {
                all.push(newer);
            }
            let previous_poll_at = row.get::<_, Option<i64>>(3)?.map(Moment);
            let body = Packed::unpack(row.get_ref(4)?.as_blob().map_err(rusqlite::Error::from)?);
            let rows = body.and_then(|body| Rows::from_body(&body));
            let rows = rows.filter(|rows| rows.rows.len() as i64 == n_rows);
            let rows = rows.ok_or(CopyError::Damaged(last))?;
            let names = json_names(&rows.columns);
            let newest_first = rows.rows.iter().rev().enumerate();
            let added = newest_first.map(|(at, row)| RowLogged {
                number: last - at as i64,
                source: source.to_owned(),
                kind: "added".to_owned(),
                key: list_text(&rows.key_of(row), Value::write_plain_json),
                found_at: Moment(found_at),
                previous_poll_at,
                before: None,
                after: Some(object_text(&names, row)),
            });
            all.extend(added.filter(|row| place(row) < before));
        }
        all.extend(logged);
        all.truncate(limit);
        Ok(all)
    }

    /// The columns of a table; none if there is no such table yet.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn columns(&self, table: &str) -> Result<Vec<String>, CopyError> {
        let sql = "SELECT name FROM pragma_table_info(?)";
        let mut statement = self.connection.prepare(sql)?;
        let names = statement.query_map([table], |row| row.get(0))?;
        Ok(names.collect::<rusqlite::Result<_>>()?)
    }

    /// What the values of each of these columns are. From here on all that is read is as it
    /// is now, whoever writes.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn kinds(&self, table: &str, columns: &[String]) -> Result<Vec<ColumnKind>, CopyError> {
        if self.connection.is_autocommit() {
            self.connection.execute_batch("BEGIN")?;
        }
        let names = columns.iter().map(|name| Dialect::Sqlite.name(name));
        let counts = names.map(|name| {
            let of =
                ["integer", "real", "blob"].map(|kind| format!("sum(typeof({name}) = '{kind}')"));
            format!("{}, count({name})", of.join(", "))
        });
        let counts: Vec<String> = counts.collect();
        if counts.is_empty() {
            return Ok(Vec::new());
        }
        let table = Dialect::Sqlite.name(table);
        let sql = format!("SELECT {} FROM {table}", counts.join(", "));
        let kinds = self.connection.query_row(&sql, [], |row| {
            let kind = |column: usize| {
                let n = |at: usize| row.get::<_, Option<i64>>(4 * column + at);
                let all = n(3)?;
                Ok(match all {
                    None | Some(0) => ColumnKind::Texts,
                    all if n(0)? == all => ColumnKind::Integers,
                    all if n(1)? == all => ColumnKind::Reals,
                    all if n(2)? == all => ColumnKind::Bytes,
                    _ => ColumnKind::Texts,
                })
            };
            (0..columns.len()).map(kind).collect()
        })?;
        Ok(kinds)
    }

    /// Calls `each` with every row of a table.
    ///
    /// # Errors
    /// If it cannot be read, or as soon as `each` says so.
    pub fn rows<E: From<CopyError>>(
        &self,
        table: &str,
        each: &mut dyn FnMut(Row) -> Result<(), E>,
    ) -> Result<(), E> {
        let sql = format!("SELECT * FROM {}", Dialect::Sqlite.name(table));
        let refuse = |error: rusqlite::Error| E::from(CopyError::from(error));
        let mut statement = self.connection.prepare(&sql).map_err(refuse)?;
        let n = statement.column_count();
        let mut rows = statement.query([]).map_err(refuse)?;
        while let Some(row) = rows.next().map_err(refuse)? {
            let values = (0..n).map(|at| Ok(of_sql(row.get_ref(at)?)));
            each(values.collect::<rusqlite::Result<Row>>().map_err(refuse)?)?;
        }
        Ok(())
    }
}
