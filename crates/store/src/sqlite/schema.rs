//! The versions of the schema, and how a store comes from one to the next.

use std::path::PathBuf;

use rusqlite::{Connection, TransactionBehavior};

use super::back_up;
use crate::Error;

/// What makes a store of version n one of version n + 1, from n = 0, which is an
/// empty file. What is listed here has been used and does not change any more.
pub(super) const MIGRATIONS: &[&str] = &[include_str!("v1.sql")];
/// The version of a store that has gone through all of them.
pub(super) const LATEST: u32 = MIGRATIONS.len() as u32;
/// Marks the file as ours: "spri".
const APPLICATION: i64 = 0x7370_7269;

/// The version of a store; 0 for an empty file.
///
/// # Errors
/// If it is of a version that is not known yet, or not a store.
pub(super) fn version(connection: &Connection) -> Result<u32, Error> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let version = number("user_version")?;
    let application = number("application_id")?;
    let n_things: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    match (application, u32::try_from(version), n_things) {
        (APPLICATION, Ok(found), _) if found > LATEST => Err(Error::TooNew {
            found,
            known: LATEST,
        }),
        (APPLICATION, Ok(found), 1..) if found > 0 => Ok(found),
        (0, Ok(0), 0) => Ok(0),
        _ => Err(Error::Damaged("the file is not a store".into())),
    }
}

/// Brings a store up to date, a version at a time, each kept whole or not at all,
/// after a copy of what there was.
pub(super) fn migrate(
    connection: &mut Connection,
    version: u32,
    migrations: &[&str],
    backup: impl Fn(u32) -> PathBuf,
) -> Result<(), Error> {
    for (from, migration) in (0_u32..).zip(migrations).skip(version as usize) {
        if from > 0 {
            back_up(connection, &backup(from))?;
        }
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(migration)?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(None, "user_version", from + 1)?;
        transaction.commit()?;
    }
    Ok(())
}
