//! Tables of a SQLite file.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use springtide_store::FailureKind;

use super::batch::ValueRef as Ours;
use super::database::{Answer, AvailableTable, Found};
use super::statement::{Column, Dialect, Relation, Shape, Statement};
use super::value::Value;
use crate::fetch::FetchFailure;

/// A file that is read, and never written.
#[derive(Debug)]
pub(crate) struct File {
    connection: Connection,
    timeout: Duration,
}

/// Steps of SQLite's own machine between two looks at the clock.
const STEPS: i32 = 10_000;

impl File {
    pub(super) fn open(path: &Path, timeout: Duration) -> Result<Self, FetchFailure> {
        if !path.exists() {
            let message = format!("there is no file {}", path.display());
            return Err(FetchFailure::new(FailureKind::Connect, message));
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(|e| describe(&e))?;
        connection
            .busy_timeout(timeout.min(Duration::from_secs(5)))
            .and_then(|()| connection.pragma_update(None, "query_only", true))
            .map_err(|error| describe(&error))?;
        Ok(Self {
            connection,
            timeout,
        })
    }

    pub(super) fn ask(&mut self, statement: &Statement) -> Result<Answer, FetchFailure> {
        self.ask_up_to(statement, usize::MAX)
    }

    /// The same, of which about so many bytes are taken in, and two rows at the least.
    pub(super) fn ask_up_to(
        &mut self,
        statement: &Statement,
        most_bytes: usize,
    ) -> Result<Answer, FetchFailure> {
        let until = Instant::now() + self.timeout;
        let hook = Some(move || Instant::now() >= until);
        self.connection
            .progress_handler(STEPS, hook)
            .map_err(|error| describe(&error))?;
        self.rows(statement, most_bytes)
            .map_err(|error| describe(&error))
    }

    fn rows(&self, statement: &Statement, most_bytes: usize) -> rusqlite::Result<Answer> {
        let mut prepared = self.connection.prepare(&statement.text)?;
        let columns: Vec<String> = prepared.column_names().map(str::to_owned).collect();
        let values = statement.values.iter().map(as_sql);
        let mut found = prepared.query(rusqlite::params_from_iter(values))?;
        let (mut rows, mut n_bytes, mut is_cut) = (Vec::new(), 0, false);
        while let Some(row) = found.next()? {
            if n_bytes > most_bytes && rows.len() >= 2 {
                is_cut = true;
                break;
            }
            let values = (0..columns.len()).map(|at| Ok(of_sql(row.get_ref(at)?)));
            let row = values.collect::<rusqlite::Result<Vec<Value>>>()?;
            n_bytes += row.iter().map(Value::n_bytes).sum::<usize>();
            rows.push(row);
        }
        Ok(Answer {
            columns,
            rows,
            is_cut,
        })
    }

    pub(super) fn shape(
        &mut self,
        relation: &Relation,
        key: &[String],
    ) -> Result<Shape, FetchFailure> {
        let Relation::Table(parts) = relation else {
            let text = format!(
                "select * from {} limit 0",
                Dialect::Sqlite.relation(relation)
            );
            let answer = self.ask(&Statement::plain(text))?;
            return Ok(Shape::of_query(answer.columns, key));
        };
        let table = parts.last().cloned().unwrap_or_default();
        let described = self.described(&table).map_err(|error| describe(&error))?;
        if described.is_empty() {
            let message = format!("there is no table {table}");
            return Err(FetchFailure::new(FailureKind::Database, message));
        }
        let mut primary: Vec<&(String, String, i64)> = described.iter().collect();
        primary.retain(|(_, _, place)| *place > 0);
        primary.sort_by_key(|(_, _, place)| *place);
        let key = match key.is_empty() {
            true => primary.iter().map(|(name, _, _)| name.clone()).collect(),
            false => key.to_vec(),
        };
        Ok(Shape {
            // Text is compared by its bytes unless someone says otherwise.
            is_ordered: !self.collates(&table).map_err(|error| describe(&error))?,
            columns: described
                .into_iter()
                .map(|(name, kind, _)| Column { name, kind })
                .collect(),
            key,
            // It is a file: to hash it is to read it.
            mark: None,
            is_cursor_indexed: None,
        })
    }

    fn described(&self, table: &str) -> rusqlite::Result<Vec<(String, String, i64)>> {
        let sql =
            "select name, lower(type), pk from pragma_table_xinfo(?1) where hidden in (0, 2, 3)";
        let mut statement = self.connection.prepare(sql)?;
        let rows =
            statement.query_map([table], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        rows.collect()
    }

    /// Whether text of a table may be in another order than that of its bytes.
    fn collates(&self, table: &str) -> rusqlite::Result<bool> {
        let sql = "select count(*) from sqlite_master where type = 'table' and name = ?1 \
                   and lower(sql) like '%collate%'";
        let n: i64 = self.connection.query_row(sql, [table], |row| row.get(0))?;
        Ok(n > 0)
    }

    /// Whether there is an index whose first columns are these.
    pub(super) fn has_index(&self, table: &str, key: &[String]) -> Result<bool, FetchFailure> {
        let look = || -> rusqlite::Result<bool> {
            let described = self.described(table)?;
            let place = |name: &String| described.iter().find(|(known, _, _)| known == name);
            let is_primary = key
                .iter()
                .enumerate()
                .all(|(at, name)| place(name).is_some_and(|(_, _, place)| *place == at as i64 + 1));
            if is_primary {
                return Ok(true);
            }
            let mut indexes = self
                .connection
                .prepare("select name from pragma_index_list(?1)")?;
            let names = indexes.query_map([table], |row| row.get::<_, String>(0))?;
            for name in names {
                let sql = "select name from pragma_index_info(?1) order by seqno";
                let mut columns = self.connection.prepare(sql)?;
                let columns = columns.query_map([name?], |row| row.get::<_, Option<String>>(0))?;
                let columns = columns.collect::<rusqlite::Result<Vec<_>>>()?;
                let is_first = |(at, name): (usize, &String)| {
                    columns
                        .get(at)
                        .is_some_and(|column| column.as_ref() == Some(name))
                };
                if key.iter().enumerate().all(is_first) {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        look().map_err(|error| describe(&error))
    }

    pub(super) fn tables(&mut self) -> Result<Vec<AvailableTable>, FetchFailure> {
        let sql = "select name, type from sqlite_master where type in ('table', 'view') \
                   and name not like 'sqlite\\_%' escape '\\' order by name";
        let answer = self.ask(&Statement::plain(sql))?;
        let mut tables = Vec::new();
        for row in answer.rows {
            let [Value::Text(name), Value::Text(kind)] = &row[..] else {
                continue;
            };
            let relation = Relation::Table(vec![name.clone()]);
            let shape = self.shape(&relation, &[])?;
            // Of a view, or a table without numbers of rows, nobody knows.
            let counted = self.ask(&Statement::plain(n_rows(name))).ok();
            let counted = counted.and_then(|answer| answer.rows.into_iter().flatten().next());
            tables.push(AvailableTable {
                name: name.clone(),
                n_rows: match counted {
                    Some(Value::Integer(n)) => Some(n as f64),
                    // The smallest of no numbers is none.
                    Some(Value::Null) if kind == "table" => Some(0.0),
                    _ => None,
                },
                is_view: kind == "view",
                found: Found::of(&shape),
            });
        }
        Ok(tables)
    }
}

/// Asks how many rows a table has, about: as if each number of a row were in use.
pub(super) fn n_rows(table: &str) -> String {
    let table = Dialect::Sqlite.name(table);
    format!("select max(rowid) - min(rowid) + 1 from {table}")
}

/// A value as SQLite is given it, where it is.
pub(super) fn as_sql(value: &Value) -> ToSqlOutput<'_> {
    ref_as_sql(value.as_ref())
}

pub(super) fn ref_as_sql(value: Ours<'_>) -> ToSqlOutput<'_> {
    ToSqlOutput::Borrowed(match value {
        Ours::Null => ValueRef::Null,
        Ours::Integer(number) => ValueRef::Integer(number),
        Ours::Real(number) => ValueRef::Real(number),
        Ours::Text(text) => ValueRef::Text(text.as_bytes()),
        Ours::Bytes(bytes) => ValueRef::Blob(bytes),
    })
}

/// A value of SQLite's, as we have it.
pub(super) fn of_sql(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::real(number),
        // What is said to be text may be any bytes.
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => Value::Text(text.to_owned()),
            Err(_) => Value::Bytes(text.to_owned()),
        },
        ValueRef::Blob(bytes) => Value::Bytes(bytes.to_owned()),
    }
}

fn describe(error: &rusqlite::Error) -> FetchFailure {
    let (kind, message) = match error.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => (
            FailureKind::Timeout,
            "the statement took too long".to_owned(),
        ),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => (
            FailureKind::Timeout,
            "another process has kept the file locked".to_owned(),
        ),
        Some(ErrorCode::CannotOpen) => (FailureKind::Connect, "cannot open the file".to_owned()),
        Some(ErrorCode::NotADatabase) => (
            FailureKind::Database,
            "the file is not a SQLite database".to_owned(),
        ),
        Some(ErrorCode::TooBig) => (FailureKind::TooLarge, "a row is too large".to_owned()),
        _ => (FailureKind::Database, error.to_string()),
    };
    FetchFailure::new(kind, message)
}
