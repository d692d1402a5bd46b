//! A table of a database in the file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use springtide_engine::settings::{Password, TableSettings};
use springtide_engine::table::{DatabaseAddress, Relation};
use url::Url;

use super::{DEFAULT_TIMEOUT, file};
use crate::table::shorten;

/// How far behind a cursor a row may still appear, where nobody says: longer than most
/// transactions take.
const DEFAULT_LATE: Duration = Duration::from_secs(60);
/// Where copies are that nobody says where to put.
const COPIES: &str = ".springtide/copies";
/// The most rows to an element.
const MOST_ROWS: u32 = 1_000_000;

/// What is wrong, and what to do about it.
type Complaint = (String, &'static str);

/// What an address of a database begins with.
const SCHEMES: [&str; 5] = ["postgres:", "postgresql:", "mysql:", "mariadb:", "sqlite:"];

/// Whether an address is that of a database.
pub(crate) fn is_database(address: &str) -> bool {
    SCHEMES.iter().any(|scheme| address.starts_with(scheme))
}

/// Where a database is. A file is taken from the project's folder.
pub(crate) fn database_address(address: &str, folder: &Path) -> Result<DatabaseAddress, Complaint> {
    if let Some(path) = address.strip_prefix("sqlite:") {
        let path = path.strip_prefix("//").unwrap_or(path);
        if path.is_empty() {
            return Err((
                "url names no file".into(),
                "write sqlite: and a path, such as sqlite:shop.db",
            ));
        }
        return Ok(DatabaseAddress::Sqlite(folder.join(path)));
    }
    let hint = "postgres://user@host/database, mysql://user@host/database or sqlite:FILE";
    if !is_database(address) {
        // It may hold anything, so it is not shown.
        return Err(("url is not a database address".into(), hint));
    }
    let url = Url::parse(address).map_err(|error| (format!("url: {error}"), hint))?;
    if url.password().is_some() {
        return Err((
            "url has a password in it".into(),
            "leave it out, and set password = \"env:NAME\", or \"file:PATH\"",
        ));
    }
    if url.host_str().is_none_or(str::is_empty) && url.query().is_none() {
        return Err(("url names no host".into(), hint));
    }
    Ok(match url.scheme() {
        "mysql" | "mariadb" => DatabaseAddress::MySql(address.to_owned()),
        _ => DatabaseAddress::Postgres(address.to_owned()),
    })
}

/// The name of a table, with or without its schema.
pub(crate) fn parts(table: &str) -> Result<Relation, Complaint> {
    let parts: Vec<String> = table
        .split('.')
        .map(|part| part.trim().to_owned())
        .collect();
    if parts.iter().any(String::is_empty) || parts.len() > 2 {
        return Err((
            format!("table is `{}`", shorten(table)),
            "it is a name, or a schema and a name, such as public.orders",
        ));
    }
    Ok(Relation::Table(parts))
}

/// Where the copy of a source is, if nobody says.
pub(crate) fn default_copy(folder: &Path, name: &str) -> PathBuf {
    folder.join(COPIES).join(format!("{name}.db"))
}

/// What the file says of a table, and secrets that cannot be had.
pub(super) fn settings(
    source: &file::Source,
    name: &str,
    folder: &Path,
) -> Result<(TableSettings, Vec<String>), Complaint> {
    let others = [
        ("file", source.file.is_some()),
        ("list_every", source.list_every.is_some()),
        ("max_depth", source.max_depth.is_some()),
        ("detect.keep", !source.detect.keep.is_empty()),
        ("detect.drop", !source.detect.drop.is_empty()),
        ("allow_private", source.allow_private.is_some()),
    ];
    if let Some((key, _)) = others.iter().find(|(_, is_there)| *is_there) {
        let hint = "leave it out; `columns` says what of a row is kept";
        return Err((format!("`{key}` is not for tables"), hint));
    }
    let Some(url) = &source.url else {
        return Err((
            "there is no `url`".into(),
            "say where the database is, such as url = \"postgres://reader@db.example.org/shop\"",
        ));
    };
    let key = source.key.clone().unwrap_or_default();
    let relation = match (&source.table, &source.query) {
        (Some(table), None) => parts(table)?,
        (None, Some(query)) => {
            if key.is_empty() {
                let hint = "name the columns that are unique together, such as key = [\"region\"]";
                return Err(("a query needs a `key`".into(), hint));
            }
            if source.cursor.is_some() {
                let hint = "what a query returns is read as a whole; leave it out";
                return Err(("`cursor` is for tables".into(), hint));
            }
            let query = query.trim().trim_end_matches(';').trim_end();
            Relation::Query(query.to_owned())
        }
        (Some(_), Some(_)) => {
            let hint = "a source is one or the other";
            return Err(("there is both `table` and `query`".into(), hint));
        }
        (None, None) => {
            let hint = "`springtide add URL` lists the tables that there are";
            return Err(("there is neither `table` nor `query`".into(), hint));
        }
    };
    if let Some(block) = source
        .block
        .filter(|block| *block == 0 || *block > MOST_ROWS)
    {
        let hint = "rows to an element, from 1 to 1000000; 500 is usual";
        return Err((format!("block is {block}"), hint));
    }
    let mut missing = Vec::new();
    let password = source.password.as_ref().map(|secret| secret.reveal(folder));
    let password = match password {
        Some(Ok(password)) => Some(password),
        Some(Err(why)) => {
            missing.push(format!("password: {why}"));
            None
        }
        None => None,
    };
    let seconds = |span: &super::value::PositiveSpan| {
        Duration::try_from_secs_f64(span.0.as_days() * 86_400.0).unwrap_or(Duration::MAX)
    };
    let timeout = source.timeout.as_ref().map_or(DEFAULT_TIMEOUT, seconds);
    if timeout.is_zero() || timeout > Duration::from_secs(86_400) {
        let hint = "the longest that a statement may take, such as 30s";
        return Err(("timeout is nothing, or longer than a day".into(), hint));
    }
    let settings = TableSettings {
        address: database_address(url, folder)?,
        relation,
        password: Password(password),
        key,
        cursor: source.cursor.clone(),
        late: source.late.as_ref().map_or(DEFAULT_LATE, seconds),
        columns: source.columns.clone().unwrap_or_default(),
        block: source.block,
        copy: match &source.copy {
            Some(path) => folder.join(path),
            None => default_copy(folder, name),
        },
        timeout,
    };
    Ok((settings, missing))
}
