//! Rows of tables: what happened to them (`log --rows`), and the copy (`export rows`).

use std::path::Path;

use serde::Serialize;
use serde_json::value::RawValue;
use springtide_engine::settings::{SourceSettings, TableSettings};
use springtide_engine::table::{ColumnKind, CopyError, CopyReader, RowLogged, Value};
use springtide_engine::view::{self, FieldChange, field_text};
use springtide_store::Moment;

use super::log::since;
use super::{Project, causes};
use crate::args::SettingFlags;
use crate::args::project::{Export, Log};
use crate::columns::{Colour, Columns, Side};
use crate::config::Config;
use crate::failure::{Failure, Outcome};
use crate::json::{Lines, print_json};
use crate::moment::{self, relative};
use crate::table::{Cells, ColumnType, Output, Unfinished, WholeFile};
use crate::talk::{Talk, plural};

/// Rows in a table for a person.
const DEFAULT_LIMIT: usize = 50;
/// Rows that are read at a time.
const PAGE: usize = 1000;

/// Something that happened to a row, as programs see it.
#[derive(Serialize)]
struct Line<'a> {
    source: &'a str,
    key: &'a RawValue,
    kind: &'a str,
    #[serde(serialize_with = "moment::serialize")]
    found_at: Option<Moment>,
    #[serde(serialize_with = "moment::serialize")]
    previous_poll_at: Option<Moment>,
    before: Option<&'a RawValue>,
    after: Option<&'a RawValue>,
    fields: Vec<FieldChange>,
}

/// The tables of a project, or one of them.
fn tables<'a>(
    config: &'a Config,
    name: Option<&str>,
) -> Outcome<Vec<(&'a SourceSettings, &'a TableSettings)>> {
    let sources = config.settings.sources.iter();
    let tables: Vec<_> = sources
        .filter_map(|source| Some((source, source.table.as_ref()?)))
        .filter(|(source, _)| name.is_none_or(|name| source.name == name))
        .collect();
    match (tables.is_empty(), name) {
        (true, Some(name)) => Err(Failure::input(format!("there is no table {name}"))
            .hint("`springtide ls` lists what there is")),
        (true, None) => Err(Failure::input("there are no tables in this project")
            .hint("add one with `springtide add URL --table NAME`")),
        (false, _) => Ok(tables),
    }
}

fn refuse(table: &TableSettings) -> impl Fn(CopyError) -> Failure {
    let path = table.copy.display().to_string();
    move |error| Failure::failed(format!("cannot read the copy {path}")).cause(causes(&error))
}

/// What happened to rows, newest first.
pub(crate) fn log(args: &Log, project: &Project, talk: Talk, colour: Colour) -> Outcome<()> {
    let now = moment::now();
    let config = project.config(&SettingFlags::default(), talk)?;
    let since = since(args.since.as_deref(), now)?;
    let limit = match args.limit {
        Some(limit) => limit,
        None if args.json => usize::MAX,
        None => DEFAULT_LIMIT,
    };
    let mut readers = Vec::new();
    for (source, table) in tables(&config, args.source.as_deref())? {
        if let Some(reader) = CopyReader::open(&table.copy).map_err(refuse(table))? {
            readers.push(Newest {
                source: &source.name,
                table,
                reader,
                page: Vec::new(),
                before: (i64::MAX, i64::MAX),
                since,
            });
        }
    }
    let mut lines = args.json.then(Lines::new);
    let mut columns = Columns::new(&[
        ("found", Side::Right),
        ("kind", Side::Left),
        ("source", Side::Left),
        ("key", Side::Left),
        ("what", Side::Long),
    ]);
    let mut n = 0;
    while n < limit {
        // The newest of all tables comes next.
        let mut newest: Option<(Moment, usize)> = None;
        for (at, reader) in readers.iter_mut().enumerate() {
            let found_at = reader.peek()?;
            if found_at.is_some_and(|found| newest.is_none_or(|(latest, _)| found > latest)) {
                newest = found_at.map(|found| (found, at));
            }
        }
        let Some(row) = newest.and_then(|(_, at)| readers[at].page.pop()) else {
            break;
        };
        let name = |kind: &crate::args::project::ChangeName| format!("{kind:?}").to_lowercase();
        if !args.kind.is_empty() && args.kind.iter().all(|kind| name(kind) != row.kind) {
            continue;
        }
        if args
            .grep
            .as_ref()
            .is_some_and(|text| !row.key.contains(text))
        {
            continue;
        }
        n += 1;
        match &mut lines {
            Some(lines) => lines.push(&line(&row)?)?,
            None => columns.push(vec![
                relative(row.found_at, now),
                row.kind.clone(),
                row.source.clone(),
                row.key.clone(),
                what(&row),
            ]),
        }
    }
    if let Some(lines) = lines {
        return lines.finish();
    }
    if columns.is_empty() {
        talk.say("no rows have changed");
        return Ok(());
    }
    columns.print(colour)
}

/// The log of one table, newest first, a page at a time.
struct Newest<'a> {
    source: &'a str,
    table: &'a TableSettings,
    reader: CopyReader,
    /// The next, the newest of them last.
    page: Vec<RowLogged>,
    before: (i64, i64),
    since: Option<Moment>,
}

impl Newest<'_> {
    fn peek(&mut self) -> Outcome<Option<Moment>> {
        if self.page.is_empty() {
            let page = self.reader.log(self.source, self.since, self.before, PAGE);
            self.page = page.map_err(refuse(self.table))?;
            let last = self.page.last();
            self.before = last.map_or((i64::MIN, 0), |row| (row.found_at.0, row.number));
            self.page.reverse();
        }
        Ok(self.page.last().map(|row| row.found_at))
    }
}

fn line(row: &RowLogged) -> Outcome<Line<'_>> {
    fn of(text: &str) -> Outcome<&RawValue> {
        serde_json::from_str(text).map_err(|error| {
            Failure::failed("the copy is damaged: its log cannot be read").cause(error)
        })
    }
    Ok(Line {
        source: &row.source,
        key: of(&row.key)?,
        kind: &row.kind,
        found_at: Some(row.found_at),
        previous_poll_at: row.previous_poll_at,
        before: row.before.as_deref().map(of).transpose()?,
        after: row.after.as_deref().map(of).transpose()?,
        fields: fields(row),
    })
}

/// The fields in which a row that was there before is another now.
fn fields(row: &RowLogged) -> Vec<FieldChange> {
    match (&row.before, &row.after) {
        (Some(before), Some(after)) => view::fields(before.as_bytes(), after.as_bytes()),
        _ => Vec::new(),
    }
}

/// What is different, for a person: the fields that are, or the first few of a row that
/// comes or goes.
fn what(row: &RowLogged) -> String {
    let object = |text: &str| serde_json::from_str::<serde_json::Map<_, _>>(text).ok();
    let fields: Vec<String> = match (&row.before, &row.after) {
        (Some(_), Some(_)) => fields(row).iter().map(ToString::to_string).collect(),
        (None, Some(only)) | (Some(only), None) => {
            let fields = object(only).unwrap_or_default();
            let few = fields.iter().take(FEW);
            few.map(|(name, value)| format!("{name} {}", field_text(value)))
                .collect()
        }
        (None, None) => Vec::new(),
    };
    fields.join(", ")
}

/// Fields of a row that comes or goes.
const FEW: usize = 4;

/// What happened to a row, told beside the poll that found it.
#[derive(Serialize)]
pub(super) struct RowFound {
    key: Box<RawValue>,
    kind: String,
    fields: Vec<FieldChange>,
}

/// Rows that are told beside one poll.
const MOST_FOUND: usize = 100;

/// What a poll of a table at that moment found to have happened to rows, by the copy at that
/// path, in the order in which it was found; nothing if that cannot be read.
pub(super) fn found(copy: &Path, source: &str, at: Moment) -> Vec<RowFound> {
    let reader = CopyReader::open(copy).ok().flatten();
    let just_then = (at.0.saturating_add(1), i64::MIN);
    let logged = reader.and_then(|reader| {
        let logged = reader.log(source, Some(at), just_then, MOST_FOUND);
        logged.ok()
    });
    let rows = logged.unwrap_or_default().into_iter().rev();
    let rows = rows.filter_map(|row| {
        Some(RowFound {
            fields: fields(&row),
            key: RawValue::from_string(row.key).ok()?,
            kind: row.kind,
        })
    });
    rows.collect()
}

impl std::fmt::Display for RowFound {
    /// `[17] status open → paid`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what: Vec<String> = match self.fields.is_empty() {
            true => vec![self.kind.clone()],
            false => self.fields.iter().map(ToString::to_string).collect(),
        };
        write!(f, "{} {}", self.key, what.join(", "))
    }
}

/// Writes the rows of a copy.
pub(crate) fn export(
    args: &Export,
    project: &Project,
    talk: Talk,
    unfinished: &Unfinished,
) -> Outcome<()> {
    #[derive(Serialize)]
    struct Summary {
        source: String,
        n_rows: u64,
        to: Option<String>,
    }
    let config = project.config(&SettingFlags::default(), talk)?;
    let named = args.to.as_ref().map(|name| name.display().to_string());
    let named = named.or_else(|| args.source.clone());
    let Some(name) = named else {
        return Err(Failure::input("no table is named")
            .hint("name a table: `springtide export rows NAME --out FILE`"));
    };
    let tables = tables(&config, Some(&name))?;
    let Some((source, table)) = tables.first() else {
        return Ok(());
    };
    let to = args.out.as_deref().filter(|to| *to != Path::new("-"));
    if args.json && to.is_none() {
        return Err(Failure::input("--json needs somewhere to write to")
            .cause("rows and summary cannot both go to standard output")
            .hint("name a file with --out"));
    }
    let reader = CopyReader::open(&table.copy).map_err(refuse(table))?;
    let Some(reader) = reader else {
        return Err(Failure::input(format!("there is no copy of {name} yet"))
            .hint("`springtide run` makes it"));
    };
    let copy_name = table.copy_name(&source.name);
    let columns = reader.columns(copy_name).map_err(refuse(table))?;
    let n_rows = match to.is_some_and(is_jsonl) {
        true => jsonl(&reader, copy_name, &columns, to, unfinished)?,
        false => by_column(&reader, copy_name, &columns, to, unfinished)?,
    };
    if let Some(to) = to {
        let n = plural(n_rows, "row");
        talk.say(format!("wrote {n} to {}", to.display()));
        if args.json {
            print_json(&Summary {
                source: name,
                n_rows,
                to: Some(to.display().to_string()),
            })?;
        }
    }
    Ok(())
}

fn is_jsonl(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    matches!(ending, Some("jsonl" | "ndjson" | "json"))
}

/// What goes wrong while rows are written.
struct Stopped(Failure);

impl From<CopyError> for Stopped {
    fn from(error: CopyError) -> Self {
        Self(Failure::failed("cannot read the copy").cause(causes(&error)))
    }
}

fn jsonl(
    reader: &CopyReader,
    name: &str,
    columns: &[String],
    to: Option<&Path>,
    unfinished: &Unfinished,
) -> Outcome<u64> {
    let mut out = WholeFile::new(to, unfinished)?;
    let mut n = 0;
    if !columns.is_empty() {
        let read = reader.rows(name, &mut |row| {
            n += 1;
            let fields = columns.iter().cloned();
            let fields = fields.zip(row.iter().map(Value::to_plain_json));
            let object: serde_json::Map<String, serde_json::Value> = fields.collect();
            out.line(&object).map_err(Stopped)
        });
        read.map_err(|Stopped(failure)| failure)?;
    }
    out.finish()?;
    Ok(n)
}

/// Writes rows as a table: Parquet if the name says so, else CSV.
fn by_column(
    reader: &CopyReader,
    name: &str,
    columns: &[String],
    to: Option<&Path>,
    unfinished: &Unfinished,
) -> Outcome<u64> {
    /// Rows that are written at a time.
    const BATCH: usize = 10_000;
    // Only Parquet has kinds, which take a look at all rows.
    let is_parquet = to.is_some_and(|to| to.extension().is_some_and(|e| e == "parquet"));
    let kinds = match is_parquet {
        true => reader
            .kinds(name, columns)
            .map_err(|error| Stopped::from(error).0)?,
        false => vec![ColumnKind::Texts; columns.len()],
    };
    let held = columns.iter().map(String::as_str);
    let held: Vec<(&str, ColumnType)> = held
        .zip(kinds.into_iter().map(ColumnType::Values))
        .collect();
    let mut output = Output::new(to, &held, unfinished)?;
    let empty = || -> Vec<Vec<Value>> { columns.iter().map(|_| Vec::new()).collect() };
    let mut batch = empty();
    let mut n = 0;
    let mut write = |batch: &mut Vec<Vec<Value>>| {
        let full = std::mem::replace(batch, empty());
        let cells: Vec<Cells<'_>> = full.into_iter().map(Cells::Values).collect();
        output.write(&cells)
    };
    if !columns.is_empty() {
        let read = reader.rows(name, &mut |row| {
            n += 1;
            for (values, value) in batch.iter_mut().zip(row) {
                values.push(value);
            }
            if batch[0].len() >= BATCH {
                return write(&mut batch).map_err(Stopped);
            }
            Ok(())
        });
        read.map_err(|Stopped(failure)| failure)?;
        write(&mut batch)?;
    }
    output.finish()?;
    Ok(n)
}
