//! The copy: a SQLite file that people read while it is kept fresh.
//!
//! Its rows follow from the blocks in the store. What a poll found is kept there first, and
//! then applied here in one transaction, with the digest that each block then has and a log
//! of what happened to which row. Whoever dies in between finds digests that differ at the
//! next start, and brings the copy in step.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, Transaction, params, params_from_iter};
use springtide_store::{ElementId, Moment};

use super::sqlite::{of_sql, to_sql};
use super::statement::Dialect;
use super::value::{Row, Rows, Value, json_names, key_text, list_text, object_text};

/// Something that happened to a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RowChange {
    pub(crate) key: Vec<Value>,
    pub(crate) before: Option<Row>,
    pub(crate) after: Option<Row>,
}

/// What a poll, or a cursor, changes in the copy.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Update {
    /// The columns now, and those of the key among them.
    pub(crate) columns: Vec<String>,
    pub(crate) key: Vec<usize>,
    /// The columns of the rows before.
    pub(crate) columns_before: Vec<String>,
    pub(crate) rows: Vec<RowChange>,
    /// The digests of blocks, nothing for one that is no more.
    pub(crate) blocks: Vec<(ElementId, Option<[u8; 32]>)>,
    pub(crate) found_at: Moment,
    pub(crate) previous_poll_at: Option<Moment>,
}

/// What has changed from some rows to others.
pub(crate) fn difference(before: &Rows, after: Vec<Rows>) -> Vec<RowChange> {
    let has_same_columns = after.iter().all(|rows| rows.columns == before.columns);
    let mut old: HashMap<String, &Row> = before.by_key();
    let mut changes = Vec::new();
    for mut rows in after {
        for row in std::mem::take(&mut rows.rows) {
            let key = rows.key_of(&row);
            let known = match old.is_empty() {
                true => None,
                false => old.remove(&key_text(&key)),
            };
            if known.is_some_and(|known| has_same_columns && *known == row) {
                continue;
            }
            changes.push(RowChange {
                key,
                before: known.cloned(),
                after: Some(row),
            });
        }
    }
    // In the order in which they were.
    for row in &before.rows {
        let key = before.key_of(row);
        if old.contains_key(&key_text(&key)) {
            changes.push(RowChange {
                key,
                before: Some(row.clone()),
                after: None,
            });
        }
    }
    changes
}

/// A file with the copy of a table.
#[derive(Debug)]
pub(crate) struct CopyFile {
    connection: Connection,
    source: String,
    table: String,
    /// The columns that it has, once there is a table.
    columns: Vec<String>,
}

const SCHEMA: &str = "\
    CREATE TABLE IF NOT EXISTS springtide_block (\
        source TEXT NOT NULL, element INTEGER NOT NULL, digest BLOB NOT NULL, \
        PRIMARY KEY (source, element)) WITHOUT ROWID;\
    CREATE TABLE IF NOT EXISTS springtide_log (\
        number INTEGER PRIMARY KEY, source TEXT NOT NULL, kind TEXT NOT NULL, \
        key TEXT NOT NULL, found_at INTEGER NOT NULL, previous_poll_at INTEGER, \
        before TEXT, after TEXT);\
    CREATE INDEX IF NOT EXISTS springtide_log_at ON springtide_log (source, found_at);";

impl CopyFile {
    /// Opens the copy of a table of a source, or makes it.
    ///
    /// # Errors
    /// If that cannot be done, or if a table of somebody else's is in its place.
    pub(crate) fn open(path: &Path, source: &str, table: &str) -> Result<Self, String> {
        if let Some(folder) = path.parent() {
            // If that fails, so does the next line, which says why.
            let _ = springtide_store::create_private_folder(folder);
        }
        let opened = Self::open_file(path, source, table);
        let copy = opened.map_err(|error| error.to_string())?;
        copy.ok_or_else(|| format!("it has a table {table} that is no copy of ours"))
    }

    fn open_file(path: &Path, source: &str, table: &str) -> rusqlite::Result<Option<Self>> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(30))?;
        let columns = columns_of(&connection, table)?;
        if columns_of(&connection, "springtide_block")?.is_empty() && !columns.is_empty() {
            return Ok(None);
        }
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "normal")?;
        connection.execute_batch(SCHEMA)?;
        Ok(Some(Self {
            connection,
            source: source.to_owned(),
            table: table.to_owned(),
            columns,
        }))
    }

    /// The digests of the blocks that it has.
    pub(crate) fn blocks(&self) -> rusqlite::Result<BTreeMap<ElementId, Vec<u8>>> {
        let sql = "SELECT element, digest FROM springtide_block WHERE source = ?";
        let mut statement = self.connection.prepare(sql)?;
        let rows = statement.query_map([&self.source], |row| {
            Ok((ElementId(row.get(0)?), row.get(1)?))
        })?;
        rows.collect()
    }

    /// All rows that it has.
    pub(crate) fn rows(&self, key: &[String]) -> rusqlite::Result<Rows> {
        let key = key.iter();
        let key = key.filter_map(|name| self.columns.iter().position(|column| column == name));
        let mut rows = Rows {
            columns: self.columns.clone(),
            key: key.collect(),
            rows: Vec::new(),
        };
        if self.columns.is_empty() {
            return Ok(rows);
        }
        let sql = format!("SELECT * FROM {}", name(&self.table));
        let mut statement = self.connection.prepare(&sql)?;
        let mut found = statement.query([])?;
        while let Some(row) = found.next()? {
            let values = (0..self.columns.len()).map(|at| Ok(of_sql(row.get_ref(at)?)));
            rows.rows.push(values.collect::<rusqlite::Result<_>>()?);
        }
        Ok(rows)
    }

    /// Applies what has changed, all of it or nothing.
    pub(crate) fn apply(&mut self, updates: &[Update]) -> rusqlite::Result<()> {
        let transaction = self
            .connection
            .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let mut columns = self.columns.clone();
        for update in updates {
            apply(
                &transaction,
                &self.source,
                &self.table,
                &mut columns,
                update,
            )?;
        }
        transaction.commit()?;
        self.columns = columns;
        Ok(())
    }

    /// Removes what is there of the source.
    pub(crate) fn clear(&mut self) -> rusqlite::Result<()> {
        let sql = format!("DROP TABLE IF EXISTS {}", name(&self.table));
        let transaction = self.connection.transaction()?;
        transaction.execute(&sql, [])?;
        let sql = "DELETE FROM springtide_block WHERE source = ?";
        transaction.execute(sql, [&self.source])?;
        transaction.commit()?;
        self.columns.clear();
        Ok(())
    }
}

fn columns_of(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare("SELECT name FROM pragma_table_info(?)")?;
    let names = statement.query_map([table], |row| row.get(0))?;
    names.collect()
}

fn name(name: &str) -> String {
    Dialect::Sqlite.name(name)
}

fn apply(
    transaction: &Transaction<'_>,
    source: &str,
    table: &str,
    columns: &mut Vec<String>,
    update: &Update,
) -> rusqlite::Result<()> {
    let key: Vec<&String> = update.key.iter().map(|&at| &update.columns[at]).collect();
    if columns.is_empty() {
        let names = update.columns.iter().map(|column| name(column));
        let names = names.collect::<Vec<_>>().join(", ");
        let key = Dialect::Sqlite.names(key.iter().copied());
        let sql = format!(
            "CREATE TABLE {} ({names}, PRIMARY KEY ({key})) WITHOUT ROWID",
            name(table)
        );
        transaction.execute(&sql, [])?;
        columns.clone_from(&update.columns);
    } else if *columns != update.columns {
        change_columns(transaction, source, table, columns, update)?;
    }
    let conditions = key.iter().map(|column| format!("{} IS ?", name(column)));
    let conditions = conditions.collect::<Vec<_>>().join(" AND ");
    let delete = format!("DELETE FROM {} WHERE {conditions}", name(table));
    let marks = vec!["?"; update.columns.len()].join(", ");
    let insert = format!(
        "INSERT OR REPLACE INTO {} ({}) VALUES ({marks})",
        name(table),
        Dialect::Sqlite.names(&update.columns)
    );
    let log = "INSERT INTO springtide_log \
               (source, kind, key, found_at, previous_poll_at, before, after) \
               VALUES (?, ?, ?, ?, ?, ?, ?)";
    let (names, names_before) = (
        json_names(&update.columns),
        json_names(&update.columns_before),
    );
    let mut insert = transaction.prepare_cached(&insert)?;
    let mut delete = transaction.prepare_cached(&delete)?;
    let mut log = transaction.prepare_cached(log)?;
    for change in &update.rows {
        let is_only_columns = match (&change.before, &change.after) {
            (Some(before), Some(after)) => {
                is_same_but_columns(before, &update.columns_before, after, &update.columns)
            }
            _ => false,
        };
        match &change.after {
            Some(row) => insert.execute(params_from_iter(row.iter().map(to_sql)))?,
            None => delete.execute(params_from_iter(change.key.iter().map(to_sql)))?,
        };
        if is_only_columns {
            // That is told once, of the table.
            continue;
        }
        let kind = match (&change.before, &change.after) {
            (None, _) => "added",
            (Some(_), Some(_)) => "changed",
            (Some(_), None) => "gone",
        };
        let object = |row: &Option<Row>, names: &[String]| {
            let row = row.as_ref();
            row.map(|row| object_text(names, row))
        };
        log.execute(params![
            source,
            kind,
            list_text(&change.key, Value::write_plain_json),
            update.found_at.0,
            update.previous_poll_at.map(|at| at.0),
            object(&change.before, &names_before),
            object(&change.after, &names),
        ])?;
    }
    for (element, digest) in &update.blocks {
        match digest {
            Some(digest) => transaction
                .prepare_cached("INSERT OR REPLACE INTO springtide_block VALUES (?, ?, ?)")?
                .execute(params![source, element.0, &digest[..]])?,
            None => transaction
                .prepare_cached("DELETE FROM springtide_block WHERE source = ? AND element = ?")?
                .execute(params![source, element.0])?,
        };
    }
    Ok(())
}

/// Whether two rows differ only in columns that came or went.
fn is_same_but_columns(
    before: &Row,
    columns_before: &[String],
    after: &Row,
    columns: &[String],
) -> bool {
    columns_before != columns
        && columns.iter().zip(after).all(|(name, value)| {
            let at = columns_before.iter().position(|known| known == name);
            at.is_none_or(|at| before.get(at) == Some(value))
        })
}

/// Columns that came or went in the source come and go here.
fn change_columns(
    transaction: &Transaction<'_>,
    source: &str,
    table: &str,
    columns: &mut Vec<String>,
    update: &Update,
) -> rusqlite::Result<()> {
    let now = &update.columns;
    let is_added = |column: &&String| !columns.contains(column);
    let added: Vec<&String> = now.iter().filter(is_added).collect();
    let gone: Vec<String> = columns
        .iter()
        .filter(|column| !now.contains(column))
        .cloned()
        .collect();
    for column in &added {
        let sql = format!("ALTER TABLE {} ADD COLUMN {}", name(table), name(column));
        transaction.execute(&sql, [])?;
    }
    for column in &gone {
        let sql = format!("ALTER TABLE {} DROP COLUMN {}", name(table), name(column));
        transaction.execute(&sql, [])?;
    }
    if added.is_empty() && gone.is_empty() {
        // They are in another order, which matters to nobody.
        return Ok(());
    }
    let list = |columns: &[String]| serde_json::json!({ "columns": columns }).to_string();
    transaction.execute(
        "INSERT INTO springtide_log \
         (source, kind, key, found_at, previous_poll_at, before, after) \
         VALUES (?, 'schema', '[]', ?, ?, ?, ?)",
        params![
            source,
            update.found_at.0,
            update.previous_poll_at.map(|at| at.0),
            list(columns),
            list(now),
        ],
    )?;
    let mut statement = transaction.prepare("SELECT name FROM pragma_table_info(?)")?;
    let names = statement.query_map([table], |row| row.get(0))?;
    *columns = names.collect::<rusqlite::Result<_>>()?;
    Ok(())
}
