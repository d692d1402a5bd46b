//! Running numbers of the store's own.

use rusqlite::{Connection, OptionalExtension, params};

use super::fault::Result;

/// The number of the next element; not given again when elements go.
pub(super) const NEXT_ELEMENT: &str = "next_element";
/// Entries in `locator_new`.
pub(super) const N_LOCATORS_NEW: &str = "n_locators_new";
/// Entries in `locator_young`.
pub(super) const N_LOCATORS_YOUNG: &str = "n_locators_young";

/// A number, 0 if it was never saved.
pub(super) fn load(connection: &Connection, name: &str) -> Result<i64> {
    let value = connection
        .prepare_cached("SELECT value FROM counter WHERE name = ?")?
        .query_row([name], |row| row.get(0))
        .optional()?;
    Ok(value.unwrap_or(0))
}

pub(super) fn save(connection: &Connection, name: &str, value: i64) -> Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO counter (name, value) VALUES (?, ?) \
             ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        )?
        .execute(params![name, value])?;
    Ok(())
}
