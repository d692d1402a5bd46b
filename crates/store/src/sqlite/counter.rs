//! Running numbers of the store's own.

use rusqlite::{Connection, OptionalExtension, params};

use super::fault::{Result, damaged};
use crate::Numbers;

/// The number of the next element; not given again when elements go.
pub(super) const NEXT_ELEMENT: &str = "next_element";
/// The number of the next source; not given again when sources go. In stores of
/// earlier versions it is missing until the next source is added.
pub(super) const NEXT_SOURCE: &str = "next_source";
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

/// The numbers that come next.
pub(super) fn numbers(connection: &Connection) -> Result<Numbers> {
    let after = |statement: &str| -> Result<i64> {
        Ok(connection.query_row(statement, [], |row| row.get(0))?)
    };
    let number =
        |next: i64| u32::try_from(next).map_err(|_| damaged(format!("the next number is {next}")));
    let source = after("SELECT coalesce(max(id) + 1, 0) FROM source")?;
    let group = after("SELECT coalesce(max(id) + 1, 0) FROM element_group")?;
    let element = after("SELECT coalesce(max(id) + 1, 0) FROM element")?;
    Ok(Numbers::starting_at(
        number(source.max(load(connection, NEXT_SOURCE)?))?,
        number(group)?,
        number(element.max(load(connection, NEXT_ELEMENT)?))?,
    ))
}

/// Saves a number unless one that is higher is there.
pub(super) fn raise(connection: &Connection, name: &str, value: i64) -> Result<()> {
    if load(connection, name)? < value {
        save(connection, name, value)?;
    }
    Ok(())
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
