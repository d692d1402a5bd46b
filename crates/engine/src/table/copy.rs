//! The copy: a SQLite file that people read while it is kept fresh.
//!
//! Its rows follow from the blocks in the store. What a poll found is kept there first, and
//! then applied here in one transaction, with the digest that each block then has and a log
//! of what happened to which row. Whoever dies in between finds digests that differ at the
//! next start, and brings the copy in step.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range as Span;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{
    Connection, ErrorCode, OptionalExtension as _, Transaction, params, params_from_iter,
};
use springtide_store::{ElementId, Moment, Packed};

use super::batch::{Batch, ValueRef};
use super::sqlite::{as_sql, of_sql, ref_as_sql};
use super::statement::Dialect;
use super::value::{Row, Rows, Value, json_names, key_text, list_text, object_text};

/// Something that happened to a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RowChange {
    pub(crate) key: Vec<Value>,
    pub(crate) before: Option<Row>,
    pub(crate) after: Option<Row>,
}

/// Rows of a block of which nothing was known before. They came all together, and are logged
/// so: as the body that they are.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FirstRows {
    /// Where they are among those that were read with them.
    pub(crate) batch: Arc<Batch>,
    pub(crate) span: Span<usize>,
    pub(crate) body: Packed,
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
    pub(crate) first: Vec<FirstRows>,
    /// Blocks as they are now, nothing for one that is no more.
    pub(crate) blocks: Vec<(ElementId, Option<CopiedBlock>)>,
    pub(crate) found_at: Moment,
    pub(crate) previous_poll_at: Option<Moment>,
}

/// What the copy says of a block that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CopiedBlock {
    pub(crate) digest: [u8; 32],
    pub(crate) n_rows: usize,
}

/// The digest of each block that a copy has, and how many rows it has, if that is known.
type KnownBlocks = BTreeMap<ElementId, (Vec<u8>, Option<usize>)>;

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
        source TEXT NOT NULL, element INTEGER NOT NULL, digest BLOB NOT NULL, n_rows INTEGER, \
        PRIMARY KEY (source, element)) WITHOUT ROWID;\
    CREATE TABLE IF NOT EXISTS springtide_log (\
        number INTEGER PRIMARY KEY, source TEXT NOT NULL, kind TEXT NOT NULL, \
        key TEXT NOT NULL, found_at INTEGER NOT NULL, previous_poll_at INTEGER, \
        before TEXT, after TEXT);\
    CREATE INDEX IF NOT EXISTS springtide_log_at ON springtide_log (source, found_at);\
    CREATE TABLE IF NOT EXISTS springtide_first (\
        number INTEGER PRIMARY KEY, source TEXT NOT NULL, n_rows INTEGER NOT NULL, \
        found_at INTEGER NOT NULL, previous_poll_at INTEGER, body BLOB NOT NULL);\
    CREATE INDEX IF NOT EXISTS springtide_first_at ON springtide_first (source, found_at);";

/// SQLite's page cache, in kB: a transaction fits in it and is written once.
const CACHE_KB: i32 = 16 << 10;
/// Page size of a new copy, in bytes: inserts take three quarters of the time they do at
/// half this size.
const PAGE_BYTES: i32 = 8 << 10;
/// Pages in the WAL before a checkpoint: a first pass writes each page several times.
const PAGES_UNTIL_CHECKPOINT: i32 = 4_000;

impl CopyFile {
    /// Opens the copy of a table of a source, or makes it.
    ///
    /// # Errors
    /// If that cannot be done, or if a table of somebody else's is in its place.
    pub(crate) fn open(path: &Path, source: &str, table: &str) -> Result<Self, String> {
        if let Some(folder) = path.parent() {
            // If that fails, so does the next line, which says why.
            let _ = springtide_store::create_private_folder(folder);
            make_private(path, folder);
        }
        let opened = Self::open_file(path, source, table);
        let copy = opened.map_err(|error| error.to_string())?;
        copy.ok_or_else(|| format!("it has a table {table} that is not a copy made by springtide"))
    }

    fn open_file(path: &Path, source: &str, table: &str) -> rusqlite::Result<Option<Self>> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(30))?;
        let columns = columns_of(&connection, table)?;
        if columns_of(&connection, "springtide_block")?.is_empty() && !columns.is_empty() {
            return Ok(None);
        }
        connection.pragma_update(None, "page_size", PAGE_BYTES)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "normal")?;
        connection.pragma_update(None, "cache_size", -CACHE_KB)?;
        connection.pragma_update(None, "wal_autocheckpoint", PAGES_UNTIL_CHECKPOINT)?;
        connection.execute_batch(SCHEMA)?;
        let of_block = columns_of(&connection, "springtide_block")?;
        if !of_block.iter().any(|column| column == "n_rows") {
            // The copy is of a version that did not say how many rows a block has.
            connection.execute_batch("ALTER TABLE springtide_block ADD COLUMN n_rows INTEGER")?;
        }
        Ok(Some(Self {
            connection,
            source: source.to_owned(),
            table: table.to_owned(),
            columns,
        }))
    }

    /// The blocks that it has: the digest of each, and how many rows it has, if that is known.
    pub(crate) fn blocks(&self) -> rusqlite::Result<KnownBlocks> {
        let sql = "SELECT element, digest, n_rows FROM springtide_block WHERE source = ?";
        let mut statement = self.connection.prepare(sql)?;
        let rows = statement.query_map([&self.source], |row| {
            Ok((ElementId(row.get(0)?), (row.get(1)?, row.get(2)?)))
        })?;
        rows.collect()
    }

    /// Applies what has changed, all of it or nothing.
    pub(crate) fn apply(&mut self, updates: &[Update]) -> rusqlite::Result<()> {
        self.write(|applying| {
            let mut updates = updates.iter();
            updates.try_for_each(|update| applying.apply(update))
        })
    }

    /// Writes into it, all of it or nothing.
    fn write<T>(
        &mut self,
        work: impl FnOnce(&mut CopyTransaction<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let transaction = self
            .connection
            .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let mut applying = CopyTransaction {
            number: last_number(&transaction)?,
            transaction: &transaction,
            source: &self.source,
            table: &self.table,
            columns: self.columns.clone(),
        };
        let done = work(&mut applying)?;
        let columns = applying.columns;
        transaction.commit()?;
        self.columns = columns;
        Ok(done)
    }

    /// Brings blocks in step of which it is not known what the copy has: `blocks` are these as
    /// they are, with all rows; `had` are rows that may be in the copy because blocks had them,
    /// or nothing if that is not known of all, and then these are all blocks. They are taken in
    /// one by one, in a transaction. Returns how many rows each block has.
    pub(crate) fn reconcile(
        &mut self,
        now: &Update,
        blocks: impl Iterator<Item = (ElementId, [u8; 32], Rows)>,
        had: Option<impl Iterator<Item = Rows>>,
    ) -> rusqlite::Result<HashMap<ElementId, usize>> {
        let is_known = |column: &&String| self.columns.contains(column);
        let shared: Vec<String> = now.columns.iter().filter(is_known).cloned().collect();
        let key: Vec<String> = now.key.iter().map(|&at| now.columns[at].clone()).collect();
        let has_key = key.iter().all(|column| self.columns.contains(column));
        let update = |rows, blocks| Update {
            columns_before: shared.clone(),
            rows,
            blocks,
            ..now.clone()
        };
        self.write(|applying| {
            let mut counted = HashMap::new();
            let mut seen = HashSet::new();
            for (id, digest, rows) in blocks {
                // Rows of a block that has not been read since a column came are left as they
                // are.
                let is_now = rows.columns == now.columns;
                let n_rows = rows.rows.len();
                counted.insert(id, n_rows);
                let mut changes = Vec::new();
                for row in &rows.rows {
                    let key = rows.key_of(row);
                    seen.insert(key_hash(&key));
                    if !is_now {
                        continue;
                    }
                    let before = match has_key {
                        true => applying.row(now, &shared, &key)?,
                        false => None,
                    };
                    if shared != now.columns || before.as_ref() != Some(row) {
                        let after = Some(row.clone());
                        changes.push(RowChange { key, before, after });
                    }
                }
                let block = Some(CopiedBlock { digest, n_rows });
                applying.apply(&update(changes, vec![(id, block)]))?;
            }
            let mut gone = Vec::new();
            match had {
                _ if !has_key => {}
                Some(had) => {
                    for rows in had {
                        let keys = rows.rows.iter().map(|row| rows.key_of(row));
                        gone.extend(keys.filter(|key| seen.insert(key_hash(key))));
                    }
                }
                None => applying.each_key(&key, |key| {
                    if !seen.contains(&key_hash(&key)) {
                        gone.push(key);
                    }
                })?,
            }
            let mut changes = Vec::new();
            for key in gone.into_iter().filter(|key| key.len() == now.key.len()) {
                let before = applying.row(now, &shared, &key)?;
                let after = None;
                if before.is_some() {
                    changes.push(RowChange { key, before, after });
                }
            }
            applying.apply(&update(changes, now.blocks.clone()))?;
            Ok(counted)
        })
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

/// In a folder that is its owner's alone, so is a new copy, whatever others are usually let.
fn make_private(path: &Path, folder: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
        let mode = std::fs::metadata(folder).map(|folder| folder.permissions().mode());
        if mode.is_ok_and(|mode| mode & 0o077 == 0) {
            let mut options = std::fs::File::options();
            // If it is there, it is left as it is; if it cannot be made, SQLite says why.
            let _ = options.write(true).create_new(true).mode(0o600).open(path);
        }
    }
    #[cfg(not(unix))]
    let _ = (path, folder);
}

fn columns_of(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare("SELECT name FROM pragma_table_info(?)")?;
    let names = statement.query_map([table], |row| row.get(0))?;
    names.collect()
}

fn name(name: &str) -> String {
    Dialect::Sqlite.name(name)
}

/// The number that was given last, in either log: they count together.
fn last_number(transaction: &Transaction<'_>) -> rusqlite::Result<i64> {
    let sql = "SELECT max(ifnull((SELECT max(number) FROM springtide_log), 0), \
               ifnull((SELECT max(number) FROM springtide_first), 0))";
    transaction.query_row(sql, [], |row| row.get(0))
}

/// What a key is told from others by, where there are millions of them.
fn key_hash(key: &[Value]) -> [u8; 16] {
    let hash = blake3::hash(key_text(key).as_bytes());
    *hash.as_bytes().first_chunk().expect("it has 32 bytes")
}

/// A transaction that brings changes into the copy.
struct CopyTransaction<'a> {
    transaction: &'a Transaction<'a>,
    source: &'a str,
    table: &'a str,
    /// The columns that the copy has.
    columns: Vec<String>,
    /// The number that was last given in a log.
    number: i64,
}

impl CopyTransaction<'_> {
    /// Some columns of the row with this key, if there is one.
    fn row(
        &self,
        update: &Update,
        columns: &[String],
        key: &[Value],
    ) -> rusqlite::Result<Option<Row>> {
        let names = Dialect::Sqlite.names(columns);
        let sql = format!(
            "SELECT {names} FROM {} WHERE {}",
            name(self.table),
            update.by_key()
        );
        let mut statement = self.transaction.prepare_cached(&sql)?;
        let row = statement.query_row(params_from_iter(key.iter().map(as_sql)), |row| {
            let values = (0..columns.len()).map(|at| Ok(of_sql(row.get_ref(at)?)));
            values.collect()
        });
        row.optional()
    }

    /// Calls `each` with the key of every row.
    fn each_key(&self, key: &[String], mut each: impl FnMut(Vec<Value>)) -> rusqlite::Result<()> {
        let names = Dialect::Sqlite.names(key);
        let sql = format!("SELECT {names} FROM {}", name(self.table));
        let mut statement = self.transaction.prepare(&sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let values = (0..key.len()).map(|at| Ok(of_sql(row.get_ref(at)?)));
            each(values.collect::<rusqlite::Result<_>>()?);
        }
        Ok(())
    }

    fn apply(&mut self, update: &Update) -> rusqlite::Result<()> {
        self.sync_columns(update)?;
        self.insert_first(update)?;
        self.apply_changes(update)?;
        let source = self.source;
        for (element, block) in &update.blocks {
            match block {
                Some(CopiedBlock { digest, n_rows }) => self
                    .transaction
                    .prepare_cached(
                        "INSERT OR REPLACE INTO springtide_block \
                         (source, element, digest, n_rows) VALUES (?, ?, ?, ?)",
                    )?
                    .execute(params![source, element.0, &digest[..], *n_rows as i64])?,
                None => self
                    .transaction
                    .prepare_cached(
                        "DELETE FROM springtide_block WHERE source = ? AND element = ?",
                    )?
                    .execute(params![source, element.0])?,
            };
        }
        Ok(())
    }

    /// Inserts so many rows.
    fn insert(&self, how: &str, update: &Update, n_rows: usize) -> String {
        let row = format!("({})", vec!["?"; update.columns.len()].join(", "));
        let rows = vec![&*row; n_rows].join(", ");
        let names = Dialect::Sqlite.names(&update.columns);
        format!("{how} INTO {} ({names}) VALUES {rows}", name(self.table))
    }

    fn insert_first(&mut self, update: &Update) -> rusqlite::Result<()> {
        let log = "INSERT INTO springtide_first \
                   (number, source, n_rows, found_at, previous_poll_at, body) \
                   VALUES (?, ?, ?, ?, ?, ?)";
        if update.first.is_empty() {
            return Ok(());
        }
        let transaction = self.transaction;
        let at_once = (MOST_PARAMETERS / update.columns.len().max(1)).clamp(1, ROWS_AT_ONCE);
        let mut insert = transaction.prepare_cached(&self.insert("INSERT", update, at_once))?;
        let replace = self.insert("INSERT OR REPLACE", update, 1);
        let mut replace = transaction.prepare_cached(&replace)?;
        let mut log = transaction.prepare_cached(log)?;
        for first in update.first.iter().filter(|first| !first.span.is_empty()) {
            let batch = &first.batch;
            let values = |rows: Span<usize>| {
                let values = rows.flat_map(|row| batch.row(row));
                params_from_iter(values.map(ref_as_sql))
            };
            let mut from = first.span.start;
            while from < first.span.end {
                let rows = from..(from + at_once).min(first.span.end);
                from = rows.end;
                if rows.len() == at_once {
                    let inserted = insert.execute(values(rows.clone()));
                    match inserted.map_err(|error| (error.sqlite_error_code(), error)) {
                        Ok(_) => continue,
                        // One of them is there already, and is replaced.
                        Err((Some(ErrorCode::ConstraintViolation), _)) => {}
                        Err((_, error)) => return Err(error),
                    }
                }
                for row in rows {
                    replace.execute(values(row..row + 1))?;
                }
            }
            // Each has a number, and the last of them is that of all.
            let n_rows = first.span.len() as i64;
            self.number += n_rows;
            log.execute(params![
                self.number,
                self.source,
                n_rows,
                update.found_at.0,
                update.previous_poll_at.map(|at| at.0),
                first.body.as_bytes(),
            ])?;
        }
        Ok(())
    }

    fn apply_changes(&mut self, update: &Update) -> rusqlite::Result<()> {
        if update.rows.is_empty() {
            return Ok(());
        }
        let delete = format!("DELETE FROM {} WHERE {}", name(self.table), update.by_key());
        let log = "INSERT INTO springtide_log \
                   (number, source, kind, key, found_at, previous_poll_at, before, after) \
                   VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
        let (names, names_before) = (
            json_names(&update.columns),
            json_names(&update.columns_before),
        );
        let insert = self.insert("INSERT OR REPLACE", update, 1);
        let mut insert = self.transaction.prepare_cached(&insert)?;
        let mut delete = self.transaction.prepare_cached(&delete)?;
        let mut log = self.transaction.prepare_cached(log)?;
        for change in &update.rows {
            let is_only_columns = match (&change.before, &change.after) {
                (Some(before), Some(after)) => {
                    is_same_but_columns(before, &update.columns_before, after, &update.columns)
                }
                _ => false,
            };
            match &change.after {
                Some(row) => insert.execute(params_from_iter(row.iter().map(as_sql)))?,
                None => delete.execute(params_from_iter(change.key.iter().map(as_sql)))?,
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
            self.number += 1;
            log.execute(params![
                self.number,
                self.source,
                kind,
                list_text(&change.key, Value::write_plain_json),
                update.found_at.0,
                update.previous_poll_at.map(|at| at.0),
                object(&change.before, &names_before),
                object(&change.after, &names),
            ])?;
        }
        Ok(())
    }

    /// Rebuilds the table without an INTEGER key if a key is no longer a whole number.
    fn widen_key(&self, update: &Update) -> rusqlite::Result<()> {
        if update.has_numbers_as_keys() != Some(false) {
            return Ok(());
        }
        let sql = "SELECT count(*) FROM pragma_table_info(?) WHERE pk > 0 AND type = 'INTEGER'";
        let is_by_number = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
        if self
            .transaction
            .query_row(sql, [self.table], is_by_number)?
            == 0
        {
            return Ok(());
        }
        let (old, new) = (name(self.table), name("springtide_new"));
        let make = update.table_called("springtide_new", &self.columns);
        self.transaction.execute_batch(&format!(
            "{make}; INSERT INTO {new} SELECT * FROM {old}; DROP TABLE {old}; \
             ALTER TABLE {new} RENAME TO {old}"
        ))
    }

    /// Adds and drops columns as the source did.
    fn sync_columns(&mut self, update: &Update) -> rusqlite::Result<()> {
        let (transaction, now) = (self.transaction, &update.columns);
        let table = name(self.table);
        if self.columns.is_empty() {
            transaction.execute(&update.table_called(self.table, now), [])?;
            self.columns.clone_from(now);
            return Ok(());
        }
        self.widen_key(update)?;
        let added = now.iter().filter(|column| !self.columns.contains(column));
        let added: Vec<&String> = added.collect();
        let gone = self.columns.iter().filter(|column| !now.contains(column));
        let gone: Vec<&String> = gone.collect();
        for column in &added {
            let sql = format!("ALTER TABLE {table} ADD COLUMN {}", name(column));
            transaction.execute(&sql, [])?;
        }
        for column in &gone {
            let sql = format!("ALTER TABLE {table} DROP COLUMN {}", name(column));
            transaction.execute(&sql, [])?;
        }
        if added.is_empty() && gone.is_empty() {
            // At most they are in another order, which matters to nobody.
            return Ok(());
        }
        let list = |columns: &[String]| serde_json::json!({ "columns": columns }).to_string();
        self.number += 1;
        transaction.execute(
            "INSERT INTO springtide_log \
             (number, source, kind, key, found_at, previous_poll_at, before, after) \
             VALUES (?, ?, 'schema', '[]', ?, ?, ?, ?)",
            params![
                self.number,
                self.source,
                update.found_at.0,
                update.previous_poll_at.map(|at| at.0),
                list(&self.columns),
                list(now),
            ],
        )?;
        self.columns = columns_of(transaction, self.table)?;
        Ok(())
    }
}

/// Rows per INSERT: each statement takes as long as half a row more.
const ROWS_AT_ONCE: usize = 40;
/// The most parameters of a statement, which SQLite bounds.
const MOST_PARAMETERS: usize = 30_000;

impl Update {
    /// That a row has a key, whose values are parameters.
    fn by_key(&self) -> String {
        let key = self.key.iter().map(|&at| &self.columns[at]);
        let conditions = key.map(|column| format!("{} IS ?", name(column)));
        conditions.collect::<Vec<_>>().join(" AND ")
    }

    /// Makes a table for such rows. With a single integer key it is a rowid table: inserts
    /// take two thirds of the time, but it takes no other kind of key.
    fn table_called(&self, table: &str, columns: &[String]) -> String {
        let key: Vec<&String> = self.key.iter().map(|&at| &self.columns[at]).collect();
        let (table, names) = (name(table), columns.iter().map(|column| name(column)));
        if self.has_numbers_as_keys() == Some(true) {
            let typed = columns.iter().zip(names).map(|(column, name)| match () {
                () if key.contains(&column) => format!("{name} INTEGER PRIMARY KEY"),
                () => name,
            });
            let typed: Vec<String> = typed.collect();
            return format!("CREATE TABLE {table} ({})", typed.join(", "));
        }
        let names: Vec<String> = names.collect();
        let (names, key) = (names.join(", "), Dialect::Sqlite.names(key));
        format!("CREATE TABLE {table} ({names}, PRIMARY KEY ({key})) WITHOUT ROWID")
    }

    /// Whether all keys that it brings are whole numbers; nothing if it brings none.
    fn has_numbers_as_keys(&self) -> Option<bool> {
        let [key] = self.key[..] else {
            return Some(false);
        };
        let first = (self.first.iter())
            .flat_map(|first| first.span.clone().map(|row| first.batch.value(row, key)));
        let changed = self.rows.iter().filter_map(|change| change.after.as_ref());
        let mut keys = first.chain(changed.map(|row| row[key].as_ref())).peekable();
        keys.peek()?;
        Some(keys.all(|key| matches!(key, ValueRef::Integer(_))))
    }
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
