//! Whether everything is as it should be, and mending what is not.

use rusqlite::Connection;

use crate::{BodyId, Error, Problem};

pub(super) fn check(
    connection: &Connection,
    _has_body: &mut dyn FnMut(BodyId) -> bool,
) -> Result<Vec<Problem>, Error> {
    let mut problems = Vec::new();
    let mut statement = connection.prepare("PRAGMA integrity_check(100)")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let line: String = row.get(0)?;
        if line != "ok" {
            problems.push(Problem::Database(line));
        }
    }
    Ok(problems)
}

pub(super) fn repair(
    _connection: &Connection,
    _has_body: &mut dyn FnMut(BodyId) -> bool,
) -> Result<Vec<String>, Error> {
    Ok(Vec::new())
}
