//! Databases that are asked: one enum over what each driver does, and the connections that
//! are open.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use springtide_store::FailureKind;

use super::batch::Batch;
use super::digest::RowMark;
use super::statement::{Column, Dialect, Relation, Shape, Statement};
use super::value::Row;
use super::{digest, mysql, postgres, sqlite};
use crate::blocking::blocking;
use crate::fetch::FetchFailure;

/// Where a database is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabaseAddress {
    /// A file of SQLite.
    Sqlite(PathBuf),
    /// A server of PostgreSQL, by its address without a password.
    Postgres(String),
    /// A server of MySQL or MariaDB, by its address without a password.
    MySql(String),
}

impl DatabaseAddress {
    pub(crate) fn dialect(&self) -> Dialect {
        match self {
            Self::Sqlite(_) => Dialect::Sqlite,
            Self::Postgres(_) => Dialect::Postgres,
            Self::MySql(_) => Dialect::MySql,
        }
    }

    /// The host that is asked, if one is.
    pub(crate) fn host(&self) -> Option<String> {
        let (Self::Postgres(url) | Self::MySql(url)) = self else {
            return None;
        };
        let url = url::Url::parse(url).ok()?;
        url.host_str().map(str::to_owned)
    }
}

/// Who asks a server, and how long it may take.
#[derive(Clone, Default)]
pub(crate) struct Login {
    pub(crate) url: String,
    pub(crate) password: Option<String>,
    pub(crate) timeout: Duration,
    /// Whom the owner can turn to.
    pub(crate) contact: Option<String>,
}

impl Login {
    /// What we are called in the server's list of sessions, in at most 63 bytes.
    pub(crate) fn application(&self) -> String {
        let mut name = match &self.contact {
            Some(contact) => format!("springtide ({contact})"),
            None => "springtide".to_owned(),
        };
        while name.len() > 63 {
            name.pop();
        }
        name
    }
}

/// What was answered.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Answer {
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Row>,
    /// Whether there was more than was taken in.
    pub(crate) is_cut: bool,
}

/// What was answered where there may be many rows.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct RowAnswer {
    pub(crate) columns: Vec<String>,
    pub(crate) batch: Batch,
    /// Whether there was more than was taken in.
    pub(crate) is_cut: bool,
}

/// A table that may be read.
#[derive(Debug, Clone, PartialEq)]
pub struct AvailableTable {
    /// Its name, with its schema where there are any.
    pub name: String,
    /// How many rows it has, about, if the database knows.
    pub n_rows: Option<f64>,
    /// Whether it is a view.
    pub is_view: bool,
    /// What is known of its columns.
    pub found: Found,
}

/// What of a table matters to whoever wants a copy of it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Found {
    /// All columns.
    pub columns: Vec<String>,
    /// Those of its key.
    pub key: Vec<String>,
    /// Those that are likely to be larger after every change.
    pub cursors: Vec<String>,
    /// Whether an index begins with the cursor that was named, if the database can tell.
    pub is_cursor_indexed: Option<bool>,
    /// How large it is, if the database knows and a copy of it was asked for.
    pub size: Option<FoundSize>,
}

/// How large a table is, about, and what that means to a copy of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FoundSize {
    /// Rows.
    pub n_rows: f64,
    /// Blocks that they are cut into.
    pub n_blocks: f64,
    /// Statements that read all of them.
    pub n_statements: f64,
}

impl Found {
    pub(crate) fn of(shape: &Shape) -> Self {
        let is_cursor = |name: &str, kind: &str| {
            let name = name.to_lowercase();
            let is_time = !kind.contains("bool");
            let says_so = ["updated", "modified", "changed", "last_update", "mtime"];
            let is_version = ["xmin_copy", "version", "revision", "rowversion", "lsn"];
            is_time && says_so.iter().any(|word| name.contains(word))
                || is_version.contains(&&*name)
        };
        let columns = shape.columns.iter();
        let cursors = columns.filter(|column| is_cursor(&column.name, &column.kind));
        Self {
            columns: shape.columns.iter().map(|c| c.name.clone()).collect(),
            key: shape.key.clone(),
            cursors: cursors.map(|column| column.name.clone()).collect(),
            is_cursor_indexed: shape.is_cursor_indexed,
            size: None,
        }
    }
}

/// A connection that can only read.
#[derive(Debug)]
pub(crate) enum Database {
    Sqlite(sqlite::File),
    Postgres(postgres::Session),
    MySql(mysql::Session),
}

impl Database {
    pub(crate) async fn open(
        address: &DatabaseAddress,
        login: &Login,
    ) -> Result<Self, FetchFailure> {
        Ok(match address {
            DatabaseAddress::Sqlite(path) => {
                let open = || sqlite::File::open(path, login.timeout);
                Self::Sqlite(blocking(open)?)
            }
            DatabaseAddress::Postgres(_) => Self::Postgres(postgres::Session::open(login).await?),
            DatabaseAddress::MySql(_) => Self::MySql(mysql::Session::open(login).await?),
        })
    }

    fn is_closed(&self) -> bool {
        match self {
            Self::Sqlite(_) => false,
            Self::Postgres(session) => session.is_closed(),
            Self::MySql(session) => session.is_closed(),
        }
    }

    /// Sends one statement.
    pub(crate) async fn ask(&mut self, statement: &Statement) -> Result<Answer, FetchFailure> {
        match self {
            Self::Sqlite(file) => blocking(|| file.ask(statement)),
            Self::Postgres(session) => session.ask(statement).await,
            Self::MySql(session) => session.ask(statement).await,
        }
    }

    /// Sends one statement that asks for rows, and takes in about so many bytes of them.
    /// However long rows are, two are taken in, so that who goes on after them gets on.
    pub(crate) async fn ask_for_rows(
        &mut self,
        statement: &Statement,
        most_bytes: usize,
    ) -> Result<RowAnswer, FetchFailure> {
        let answer = match self {
            Self::Postgres(session) => return session.ask_for_rows(statement, most_bytes).await,
            Self::Sqlite(file) => blocking(|| file.ask_up_to(statement, most_bytes))?,
            Self::MySql(session) => session.ask_up_to(statement, most_bytes).await?,
        };
        Ok(RowAnswer {
            batch: Batch::of_rows(answer.columns.len(), &answer.rows),
            columns: answer.columns,
            is_cut: answer.is_cut,
        })
    }

    /// What there is to be asked for; refused if it cannot be kept a copy of.
    pub(crate) async fn shape(
        &mut self,
        relation: &Relation,
        key: &[String],
        columns: &[String],
    ) -> Result<Shape, FetchFailure> {
        let refuse = |message: String| FetchFailure::new(FailureKind::Database, message);
        let mut shape = match self {
            Self::Sqlite(file) => blocking(|| file.shape(relation, key))?,
            Self::Postgres(session) => session.shape(relation, key).await?,
            Self::MySql(session) => session.shape(relation, key).await?,
        };
        if shape.key.is_empty() {
            return Err(refuse(
                "the table has no primary key; name columns that are unique with `key`".to_owned(),
            ));
        }
        let wanted = shape.key.iter().chain(columns);
        for name in wanted {
            if shape.column(name).is_none() {
                return Err(refuse(format!("there is no column {name}")));
            }
        }
        let Relation::Table(parts) = relation else {
            return Ok(shape);
        };
        shape.mark = self.mark(relation, parts, &shape, columns).await?;
        let has_index = match self {
            Self::Sqlite(file) => {
                let table = parts.last().map_or("", String::as_str);
                blocking(|| file.has_index(table, &shape.key))?
            }
            Self::Postgres(session) => session.has_index(relation, &shape.key).await?,
            Self::MySql(session) => session.has_index(parts, &shape.key).await?,
        };
        if !has_index {
            return Err(refuse(format!(
                "no index begins with ({}), so each block would take a read of the whole table; \
                 make one, or name another key",
                shape.key.join(", ")
            )));
        }
        Ok(shape)
    }

    /// Whether an index begins with a column; nothing where nobody can tell.
    pub(crate) async fn has_index_of(
        &mut self,
        relation: &Relation,
        column: &String,
    ) -> Result<Option<bool>, FetchFailure> {
        let Relation::Table(parts) = relation else {
            return Ok(None);
        };
        let column = std::slice::from_ref(column);
        Ok(match self {
            Self::Sqlite(file) => {
                let table = parts.last().map_or("", String::as_str);
                Some(blocking(|| file.has_index(table, column))?)
            }
            Self::Postgres(session) => session.has_index_of(relation, &column[0]).await?,
            Self::MySql(session) => Some(session.has_index(parts, column).await?),
        })
    }

    /// What tells rows from what they were, if the database can say that.
    async fn mark(
        &mut self,
        relation: &Relation,
        parts: &[String],
        shape: &Shape,
        columns: &[String],
    ) -> Result<Option<RowMark>, FetchFailure> {
        let is_shown = |column: &&Column| columns.is_empty() || columns.contains(&column.name);
        let shown: Vec<&Column> = shape.columns.iter().filter(is_shown).collect();
        let (row, columns) = match self {
            Self::Sqlite(_) => return Ok(None),
            Self::Postgres(session) => {
                let is_of_rows = shown.iter().all(|column| digest::is_of_row(&column.kind));
                if !is_of_rows || !session.has_mark(relation).await? {
                    return Ok(None);
                }
                let table = Dialect::Postgres.text(&Dialect::Postgres.relation(relation));
                let columns = digest::columns_of_postgres(&table);
                (digest::WRITER_COLUMN.to_owned(), columns)
            }
            Self::MySql(_) => {
                let Some(row) = digest::hash_of_columns(&shown) else {
                    return Ok(None);
                };
                let (schema, table) = mysql::names(parts);
                (row, digest::columns_of_mysql(&schema, &table))
            }
        };
        let answer = self.ask(&Statement::plain(&*columns)).await?;
        let said = answer.rows.into_iter().flatten().next();
        Ok(Some(RowMark {
            row,
            columns,
            columns_at_look: said.and_then(digest::plain).unwrap_or_default(),
        }))
    }

    /// How many rows a table has, about, and how many bytes each, as far as the database knows
    /// without counting.
    pub(crate) async fn size(
        &mut self,
        relation: &Relation,
    ) -> Result<Option<(f64, Option<f64>)>, FetchFailure> {
        let Relation::Table(parts) = relation else {
            return Ok(None);
        };
        let text = match self {
            Self::Sqlite(_) => sqlite::n_rows(parts.last().map_or("", String::as_str)),
            Self::Postgres(_) => format!(
                "select nullif(reltuples, -1)::float8, \
                 pg_relation_size(oid) / nullif(greatest(reltuples, 0), 0)::float8 \
                 from pg_catalog.pg_class where oid = {}::regclass and relkind <> 'v'",
                Dialect::Postgres.text(&Dialect::Postgres.relation(relation))
            ),
            Self::MySql(_) => {
                let (schema, table) = mysql::names(parts);
                format!(
                    "select table_rows, avg_row_length from information_schema.tables \
                     where table_schema = {schema} and table_name = {table}"
                )
            }
        };
        let answer = match self.ask(&Statement::plain(text)).await {
            Ok(answer) => answer,
            // A table without numbers of rows, or a view: nobody knows.
            Err(failure) if failure.kind == FailureKind::Database => return Ok(None),
            Err(failure) => return Err(failure),
        };
        let mut numbers = answer.rows.into_iter().flatten().map(|value| {
            let number = digest::plain(value)?.parse::<f64>().ok();
            number.filter(|number| *number >= 0.0)
        });
        let size = numbers
            .next()
            .flatten()
            .map(|n_rows| (n_rows, numbers.next().flatten()));
        if let (None, Self::Postgres(session)) = (size, self) {
            let uncounted = session.uncounted(relation).await?;
            return Ok(uncounted.map(|(n_rows, row_bytes)| (n_rows, Some(row_bytes))));
        }
        Ok(size)
    }

    /// The tables that may be read.
    pub(crate) async fn tables(&mut self) -> Result<Vec<AvailableTable>, FetchFailure> {
        match self {
            Self::Sqlite(file) => blocking(|| file.tables()),
            Self::Postgres(session) => session.tables().await,
            Self::MySql(session) => session.tables().await,
        }
    }
}

/// Connections of a source that nobody uses now, each with what it knows of the table. How
/// many there are at a time is for the gate to say.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    idle: Mutex<Vec<(Database, Shape)>>,
}

impl Pool {
    /// A connection, if one is open.
    pub(crate) fn take(&self) -> Option<(Database, Shape)> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(open) = idle.pop() {
            if !open.0.is_closed() {
                return Some(open);
            }
        }
        None
    }

    /// A connection is not needed any longer.
    pub(crate) fn give(&self, database: Database, shape: Shape) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push((database, shape));
    }
}
