//! The versions of the schema, and how a store comes from one to the next.

use std::path::PathBuf;

use rusqlite::{Connection, OptionalExtension, params};

use super::code::memory_key;
use super::fault::{Result, damaged};
use super::{back_up, whole};
use crate::{Error, MemoryOf, SourceId};

/// What makes a store of version n one of version n + 1, from n = 0, which is an
/// empty file. What is listed here has been used and does not change any more.
pub(super) const MIGRATIONS: &[Step] = &[
    Step::sql(include_str!("v1.sql")),
    Step::sql(include_str!("v2.sql")),
    Step {
        sql: include_str!("v3.sql"),
        then: split_search_note,
    },
    Step::sql(include_str!("v4.sql")),
    Step::sql(include_str!("v5.sql")),
];
/// The version of a store that has gone through all of them.
pub(super) const LATEST: u32 = MIGRATIONS.len() as u32;
/// Marks the file as ours: "spri".
const APPLICATION: i64 = 0x7370_7269;

/// From one version to the next.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    sql: &'static str,
    /// What cannot be said in SQL, afterwards.
    then: fn(&Connection) -> Result<()>,
}

impl Step {
    const fn sql(sql: &'static str) -> Self {
        let then = |_: &Connection| Ok(());
        Self { sql, then }
    }
}

/// The version of a store; 0 for an empty file.
///
/// # Errors
/// If it is of a version that is not known yet, or not a store.
pub(super) fn version(connection: &Connection) -> Result<u32> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let version = number("user_version")?;
    let application = number("application_id")?;
    let n_things: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    match (application, u32::try_from(version), n_things) {
        (APPLICATION, Ok(found), _) if found > LATEST => Err(Error::TooNew {
            found,
            known: LATEST,
        }
        .into()),
        (APPLICATION, Ok(found), 1..) if found > 0 => Ok(found),
        (0, Ok(0), 0) => Ok(0),
        _ => Err(damaged("the file is not a store")),
    }
}

/// Brings a store up to date, a version at a time, each kept whole or not at all,
/// after a copy of what there was. An empty file has nothing to copy, and takes all
/// steps at once, so that nobody ever finds a new store of an earlier version.
pub(super) fn migrate(
    connection: &mut Connection,
    version: u32,
    migrations: &[Step],
    backup: impl Fn(u32) -> PathBuf,
) -> Result<()> {
    if version == 0 {
        return take(connection, migrations, migrations.len() as u32);
    }
    for (from, migration) in (0_u32..).zip(migrations).skip(version as usize) {
        back_up(connection, &backup(from))?;
        take(connection, &[*migration], from + 1)?;
    }
    Ok(())
}

/// Takes these steps to a version, or none of them.
fn take(connection: &mut Connection, steps: &[Step], to: u32) -> Result<()> {
    whole(connection, |connection| {
        for step in steps {
            connection.execute_batch(step.sql)?;
            (step.then)(connection)?;
        }
        connection.pragma_update(None, "application_id", APPLICATION)?;
        connection.pragma_update(None, "user_version", to)?;
        Ok(())
    })
}

/// What was remembered of all search sources was one note: of each source its number and
/// a length, both of four bytes, the lowest first, and so many bytes.
fn split_search_note(connection: &Connection) -> Result<()> {
    let note: Option<Vec<u8>> = connection
        .query_row("SELECT bytes FROM note WHERE name = 'search'", [], |row| {
            row.get(0)
        })
        .optional()?;
    let mut rest = note.as_deref().unwrap_or_default();
    let number = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes);
    let mut insert = connection.prepare(
        "INSERT OR REPLACE INTO memory SELECT ?1, ?2, ?3 \
         WHERE EXISTS (SELECT 1 FROM source WHERE id = ?2)",
    )?;
    while let Some((source, after)) = rest.split_first_chunk()
        && let Some((length, after)) = after.split_first_chunk()
        && let Some((bytes, after)) = after.split_at_checked(number(length) as usize)
    {
        let [kind, source] = memory_key(MemoryOf::Search(SourceId(number(source))));
        insert.execute(params![kind, source, bytes])?;
        rest = after;
    }
    connection.execute("DELETE FROM note WHERE name = 'search'", [])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_is_taken_once_and_after_a_backup() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let backup = |version| folder.path().join(format!("v{version}"));
        let steps = [
            "CREATE TABLE a (x); INSERT INTO a VALUES (1);",
            "CREATE TABLE b AS SELECT x + 1 AS x FROM a; DROP TABLE a;",
            "UPDATE b SET x = x * 10;",
        ]
        .map(Step::sql);
        let mut connection = Connection::open(&path).unwrap();
        let x = |connection: &Connection, table: &str| -> rusqlite::Result<i64> {
            connection.query_row(&format!("SELECT x FROM {table}"), [], |row| row.get(0))
        };
        assert_eq!(version(&connection).unwrap(), 0);
        migrate(&mut connection, 0, &steps[..1], backup).unwrap();
        assert_eq!(version(&connection).unwrap(), 1);
        assert!(!backup(0).exists() && !backup(1).exists());
        migrate(&mut connection, 1, &steps, backup).unwrap();
        assert_eq!(x(&connection, "b"), Ok(20));
        assert_eq!(x(&Connection::open(backup(1)).unwrap(), "a"), Ok(1));
        assert_eq!(x(&Connection::open(backup(2)).unwrap(), "b"), Ok(2));
        migrate(&mut connection, 3, &steps, backup).unwrap();
        assert_eq!(x(&connection, "b"), Ok(20));
    }

    #[test]
    fn an_empty_file_takes_all_steps_at_once_and_without_a_backup() {
        let folder = tempfile::tempdir().unwrap();
        let mut connection = Connection::open(folder.path().join("store.db")).unwrap();
        let backup = |version| folder.path().join(format!("v{version}"));
        let steps = ["CREATE TABLE a (x)", "DROP TABLE b"].map(Step::sql);
        assert!(migrate(&mut connection, 0, &steps, backup).is_err());
        assert_eq!(version(&connection).unwrap(), 0);
        migrate(&mut connection, 0, MIGRATIONS, backup).unwrap();
        assert_eq!(version(&connection).unwrap(), LATEST);
        assert!((0..=LATEST).all(|version| !backup(version).exists()));
    }

    #[test]
    fn a_step_that_fails_leaves_the_store_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let mut connection = Connection::open(folder.path().join("store.db")).unwrap();
        let backup = |version| folder.path().join(format!("v{version}"));
        migrate(
            &mut connection,
            0,
            &["CREATE TABLE a (x)"].map(Step::sql),
            backup,
        )
        .unwrap();
        let steps = ["", "DROP TABLE a; DROP TABLE b;"].map(Step::sql);
        assert!(migrate(&mut connection, 1, &steps, backup).is_err());
        assert_eq!(version(&connection).unwrap(), 1);
        connection.execute_batch("SELECT x FROM a").unwrap();
    }
}
