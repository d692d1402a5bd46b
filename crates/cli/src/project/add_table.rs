//! `springtide add` of a table: what there is in a database, and what of it is to be kept.

use std::path::Path;

use serde::Serialize;
use springtide_engine::settings::{SourceSettings, TableSettings};
use springtide_engine::table::{self, AvailableTable, Found, Relation};
use springtide_engine::view::redacted;
use springtide_store::SourceKind;
use toml_edit::{Array, Value};

use super::{Project, init};
use crate::args::SettingFlags;
use crate::args::project::Add;
use crate::columns::{Colour, Columns, Side};
use crate::config::edit::{Editor, NewSource};
use crate::config::table::{database_address, default_copy, parts};
use crate::config::value::Secret;
use crate::config::{self, DEFAULT_BUDGET};
use crate::failure::{Failure, Outcome};
use crate::json::print_json;
use crate::live;
use crate::moment::brief;
use crate::table::{Unfinished, shorten, shorten_to, write_whole};
use crate::talk::{Talk, count, plural};

/// How long a database may take to say what it has.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

pub(crate) fn run(
    args: &Add,
    named: Option<&Path>,
    talk: Talk,
    colour: Colour,
    unfinished: &Unfinished,
) -> Outcome<()> {
    let [url] = &args.urls[..] else {
        return Err(Failure::input("tables are added one by one")
            .hint("give one address of a database, and --table NAME"));
    };
    let refuse = |(why, hint): (String, &'static str)| {
        Failure::input(format!("cannot add {}", shorten(&redacted(url))))
            .cause(why)
            .hint(hint)
    };
    let there = Project::look(named)?;
    let folder = match (&there, named) {
        (Some(project), _) => project.folder.clone(),
        (None, Some(folder)) => folder.to_owned(),
        (None, None) => std::path::PathBuf::from("."),
    };
    let config = match &there {
        Some(project) => project.config(&args.http.as_settings(), talk)?,
        None => config::defaults(&args.http.as_settings())?,
    };
    let password = match &args.table.password {
        Some(secret) => {
            let secret = Secret::from(secret.clone());
            if matches!(secret, Secret::Plain(_)) {
                return Err(Failure::input("--password takes no password")
                    .cause("others could read it from the list of processes")
                    .hint("say where it is: env:NAME or file:PATH"));
            }
            let revealed = secret.reveal(&folder);
            Some(revealed.map_err(|why| Failure::input("cannot use --password").cause(why))?)
        }
        None => None,
    };
    let mut settings = TableSettings {
        address: database_address(url, &folder).map_err(refuse)?,
        relation: Relation::Table(Vec::new()),
        password: springtide_engine::settings::Password(password),
        key: args.table.key.clone(),
        cursor: args.table.cursor.clone(),
        late: std::time::Duration::ZERO,
        columns: Vec::new(),
        block: None,
        copy: std::path::PathBuf::new(),
        timeout: TIMEOUT,
    };
    let contact = config.settings.http.contact.clone();
    let Some(named_table) = &args.table.table else {
        return list(url, &settings, contact, args, talk, colour);
    };
    settings.relation = parts(named_table).map_err(refuse)?;
    let known = |source: &&SourceSettings| {
        source.url == *url
            && source
                .table
                .as_ref()
                .is_some_and(|t| t.relation == settings.relation)
    };
    if let Some(known) = config.settings.sources.iter().find(known) {
        talk.say(format!("{named_table} is there already, as {}", known.name));
        return Ok(());
    }
    let found = match args.offline {
        true => None,
        false => Some(ask(url, talk, table::inspect(&settings, contact))?),
    };
    let name = name(args, named_table, &config)?;
    settings.copy = default_copy(&folder, &name);
    let source = Added {
        name: name.clone(),
        kind: "table",
        url: url.clone(),
        table: named_table.clone(),
        size: found.as_ref().and_then(|found| found.size).map(|size| {
            let gap = table::gap(&settings, &config.settings.groups);
            TableSize {
                n_rows: size.n_rows,
                n_blocks: size.n_blocks,
                first_pass_seconds: size.n_statements * gap.as_days() * 86_400.0,
            }
        }),
        found: found.map(Into::into),
        copy: settings.copy.display().to_string(),
    };
    if !args.dry_run {
        write(
            args,
            url,
            named_table,
            &name,
            there,
            &folder,
            (talk, unfinished),
        )?;
    }
    if args.json {
        return print_json(&[source]);
    }
    source.say(args.dry_run, talk);
    if !args.dry_run {
        if config.is_budget_assumed && args.budget.is_none() {
            talk.say(format!("no budget is set; {DEFAULT_BUDGET}/day is assumed"));
        }
        talk.say("next: `springtide run`");
    }
    Ok(())
}

/// Asks a database, and says what went wrong if that fails.
fn ask<T>(
    url: &str,
    talk: Talk,
    asked: impl Future<Output = Result<T, springtide_engine::fetch::FetchFailure>>,
) -> Outcome<T> {
    let looking = talk.progress("looking", None);
    let answered = live::runtime()?.block_on(asked);
    drop(looking);
    answered.map_err(|failure| {
        Failure::input(format!("cannot read {}", shorten(&redacted(url))))
            .cause(shorten_to(&failure.message, 300))
            .hint("check address, user and password; --offline adds it without asking")
    })
}

/// Lists the tables that may be read.
fn list(
    url: &str,
    settings: &TableSettings,
    contact: Option<String>,
    args: &Add,
    talk: Talk,
    colour: Colour,
) -> Outcome<()> {
    let tables = ask(url, talk, table::tables(settings, contact))?;
    if args.json {
        let tables: Vec<Offered> = tables.into_iter().map(Into::into).collect();
        return print_json(&tables);
    }
    if tables.is_empty() {
        talk.say("there are no tables that may be read");
        return Ok(());
    }
    let mut columns = Columns::new(&[
        ("table", Side::Left),
        ("rows, about", Side::Right),
        ("key", Side::Left),
        ("cursor, maybe", Side::Left),
    ]);
    for listed in &tables {
        let found = &listed.found;
        let or_none = |names: &[String]| match names.is_empty() {
            true => "-".to_owned(),
            false => names.join(", "),
        };
        columns.push(vec![
            listed.name.clone(),
            match (listed.n_rows, listed.is_view) {
                (_, true) => "a view".to_owned(),
                (Some(n), false) => count(n as usize),
                (None, false) => "?".to_owned(),
            },
            or_none(&found.key),
            or_none(&found.cursors),
        ]);
    }
    columns.print(colour)?;
    talk.say("nothing was added; name one with --table");
    Ok(())
}

/// What a source is called: what was asked for, or else the table.
fn name(args: &Add, table: &str, config: &config::Config) -> Outcome<String> {
    let sources = &config.settings.sources;
    let taken = |name: &str| sources.iter().any(|source| source.name == name);
    if let Some(name) = &args.name {
        config::check_name(name).map_err(|why| {
            Failure::input("bad --name")
                .cause(why)
                .hint("letters, digits, `-`, `_` and `.` make a name")
        })?;
        return match taken(name) {
            true => Err(Failure::input(format!("there is a source {name} already"))
                .hint("give another --name")),
            false => Ok(name.clone()),
        };
    }
    let base = table.rsplit('.').next().unwrap_or(table);
    let plain = |c: char| {
        if c.is_alphanumeric() || c == '_' {
            c
        } else {
            '-'
        }
    };
    let base: String = base.chars().map(plain).collect();
    let base = base.trim_matches('-');
    let base = if base.is_empty() { "table" } else { base };
    let numbered = (2..).map(|n| format!("{base}-{n}"));
    let mut names = std::iter::once(base.to_owned()).chain(numbered);
    Ok(names.find(|name| !taken(name)).unwrap_or_default())
}

/// Writes the source into the file and the store, or leaves both as they were.
fn write(
    args: &Add,
    url: &str,
    table: &str,
    name: &str,
    there: Option<Project>,
    folder: &Path,
    (talk, unfinished): (Talk, &Unfinished),
) -> Outcome<()> {
    let mut others: Vec<(&'static str, Value)> = vec![("table", table.into())];
    if let Some(password) = &args.table.password {
        others.push(("password", password.as_str().into()));
    }
    if !args.table.key.is_empty() {
        others.push(("key", Array::from_iter(&args.table.key).into()));
    }
    if let Some(cursor) = &args.table.cursor {
        others.push(("cursor", cursor.as_str().into()));
    }
    let source = NewSource {
        name: name.to_owned(),
        kind: springtide_engine::view::kind_name(SourceKind::Table),
        url: Some(url.to_owned()),
        file: None,
        weight: args.weight,
        others,
    };
    let Some(project) = there else {
        let file = folder.join(config::FILE);
        let had_store = folder.join(super::STORE).exists();
        let budget = args.budget.map(|budget| budget.0.to_string());
        let contact = args.http.contact.as_deref();
        let made = init::make(folder, budget.as_deref(), contact, unfinished);
        let added = made.and_then(|project| add(&project, args, &source, talk, unfinished));
        match &added {
            Ok(()) => talk.say(format!("made {}", file.display())),
            // What was made for nothing goes again.
            Err(_) => {
                let _ = std::fs::remove_file(&file);
                if !had_store {
                    let _ = std::fs::remove_dir_all(folder.join(super::STORE));
                }
            }
        }
        return added;
    };
    let before = std::fs::read_to_string(project.folder.join(config::FILE));
    let added = add(&project, args, &source, talk, unfinished);
    if added.is_err()
        && let Ok(before) = before
    {
        write_whole(&project.folder.join(config::FILE), &before, unfinished)?;
    }
    added
}

fn add(
    project: &Project,
    args: &Add,
    source: &NewSource,
    talk: Talk,
    unfinished: &Unfinished,
) -> Outcome<()> {
    let mut store = project.write()?;
    let mut editor = Editor::open(&project.folder)?;
    if let Some(budget) = args.budget {
        editor.set_budget(&budget.0.to_string())?;
    }
    if let Some(contact) = &args.http.contact {
        editor.set_contact(contact)?;
    }
    editor.add_source(source)?;
    editor.write(&project.folder, unfinished)?;
    let config = project.config(&SettingFlags::default(), Talk::Quiet)?;
    project.reconcile(&mut store, &config, talk)?;
    Ok(())
}

/// A table that could be added.
#[derive(Serialize)]
struct Offered {
    table: String,
    n_rows: Option<f64>,
    is_view: bool,
    #[serde(flatten)]
    found: TableColumns,
}

#[derive(Serialize)]
struct TableColumns {
    columns: Vec<String>,
    key: Vec<String>,
    cursors: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_cursor_indexed: Option<bool>,
}

impl From<Found> for TableColumns {
    fn from(found: Found) -> Self {
        Self {
            columns: found.columns,
            key: found.key,
            cursors: found.cursors,
            is_cursor_indexed: found.is_cursor_indexed,
        }
    }
}

impl From<AvailableTable> for Offered {
    fn from(listed: AvailableTable) -> Self {
        Self {
            table: listed.name,
            n_rows: listed.n_rows,
            is_view: listed.is_view,
            found: listed.found.into(),
        }
    }
}

/// A table that was added.
#[derive(Serialize)]
struct Added {
    name: String,
    kind: &'static str,
    url: String,
    table: String,
    #[serde(flatten)]
    found: Option<TableColumns>,
    #[serde(flatten)]
    size: Option<TableSize>,
    copy: String,
}

/// How large it is, about, and how long a first pass takes at the least, by what the
/// database may be asked.
#[derive(Serialize)]
struct TableSize {
    n_rows: f64,
    n_blocks: f64,
    first_pass_seconds: f64,
}

impl Added {
    fn say(&self, is_dry: bool, talk: Talk) {
        let would = if is_dry { "would add" } else { "added" };
        let (name, kind, table) = (&self.name, self.kind, &self.table);
        talk.say(format!(
            "{would} {name} ({kind}): {table} of {}",
            shorten_to(&self.url, 200)
        ));
        if let Some(found) = &self.found {
            talk.say(format!("  {:12}{}", "columns", found.columns.len()));
            talk.say(format!("  {:12}{}", "key", found.key.join(", ")));
            if let Some(size) = &self.size {
                let (n_rows, n_blocks) = (count(size.n_rows as usize), size.n_blocks as u64);
                let blocks = plural(n_blocks, "block");
                talk.say(format!("  {:12}about {n_rows}, in {blocks}", "rows"));
                let seconds = size.first_pass_seconds;
                if seconds >= 1.0 {
                    talk.say(format!("  {:12}{} or more", "first pass", brief(seconds)));
                }
            }
            if found.is_cursor_indexed == Some(false) {
                let note = "no index begins with it: each poll of it may read the whole table";
                talk.say(format!("  {:12}{note}", "cursor"));
            }
            if !found.cursors.is_empty() {
                let cursors = found.cursors.join(", ");
                talk.say(format!("  {:12}{cursors}", "cursor?"));
            }
        }
        talk.say(format!("  {:12}{}", "copy", self.copy));
    }
}
