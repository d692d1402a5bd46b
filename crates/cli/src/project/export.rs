//! `springtide export`: the copy, or what is known of its elements.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use springtide_engine::view::{ElementFilter, ElementView, Elements, Outlook, digest_text};
use springtide_store::{Kept, Moment, Reader, Source, State};

use super::layout::Layout;
use super::{Project, source_named, sources};
use crate::args::SettingFlags;
use crate::args::project::{Export, ExportForm};
use crate::config::Config;
use crate::failure::{Code, Failure, Outcome};
use crate::json::print_json;
use crate::moment::{self, rfc3339};
use crate::table::{
    Cells, ColumnType, Output, Texts, Unfinished, WholeFile, shorten_to, unwritable,
};
use crate::talk::{Talk, count, plural};

pub(crate) fn run(
    args: &Export,
    project: &Project,
    talk: Talk,
    unfinished: &Unfinished,
) -> Outcome<()> {
    #[derive(Serialize)]
    struct Summary {
        n_elements: u64,
        n_missing: u64,
        /// The first of them.
        missing: Vec<String>,
        to: String,
    }
    if args.form == ExportForm::Rows {
        return super::rows::export(args, project, talk, unfinished);
    }
    let config = project.config(&SettingFlags::default(), talk)?;
    let to = args.to.as_deref().filter(|to| *to != Path::new("-"));
    if args.json && to.is_none() {
        return Err(Failure::input("--json needs somewhere to write to")
            .cause("elements and summary cannot both go to standard output")
            .hint("name a file"));
    }
    let store = project.read()?;
    let sources = sources(project, &*store, &config)?;
    let wanted = ElementFilter {
        source: match &args.source {
            Some(name) => Some(source_named(&sources, name)?.id),
            None => None,
        },
        ..ElementFilter::default()
    };
    let export = Exporter {
        project,
        config: &config,
        store: &*store,
        sources: &sources,
        wanted,
        talk,
        unfinished,
    };
    let mut missing = Missing::default();
    let n_elements = match (args.form, to) {
        (ExportForm::Bodies, None) => {
            return Err(Failure::input("bodies go into a folder")
                .hint("name one: `springtide export bodies copy/`"));
        }
        (ExportForm::Bodies, Some(folder)) => {
            let layout = match args.flat {
                true => Layout::flat(),
                false => Layout::by_host(),
            };
            export.bodies(folder, layout, &mut missing)?
        }
        (ExportForm::Jsonl, to) => export.jsonl(to)?,
        (ExportForm::Csv | ExportForm::Rows, to) => export.csv(to)?,
    };
    if let Some(to) = to {
        let n = plural(n_elements, "element");
        talk.say(format!("wrote {n} to {}", to.display()));
        if args.json {
            print_json(&Summary {
                n_elements,
                n_missing: missing.n,
                missing: missing.locators.clone(),
                to: to.display().to_string(),
            })?;
        }
    }
    missing.check(talk)
}

/// Copies whose bodies are missing or damaged.
#[derive(Default)]
struct Missing {
    n: u64,
    /// The first of them.
    locators: Vec<String>,
}

impl Missing {
    /// How many are named.
    const MOST_NAMED: usize = 1000;

    fn add(&mut self, locator: &str) {
        self.n += 1;
        if self.locators.len() < Self::MOST_NAMED {
            self.locators.push(locator.to_owned());
        }
    }

    /// Names them; the rest is written.
    fn check(&self, talk: Talk) -> Outcome<()> {
        if self.n == 0 {
            return Ok(());
        }
        for locator in &self.locators {
            talk.say(format!("missing: {}", shorten_to(locator, 200)));
        }
        let n = count(usize::try_from(self.n).unwrap_or(usize::MAX));
        let failure = Failure::new(Code::SomeFailed, "not everything could be written");
        Err(failure
            .cause(format!("the bodies of {n} copies are missing or damaged"))
            .hint("the next poll of each fetches it anew; `springtide doctor` says more"))
    }
}

struct Exporter<'a> {
    project: &'a Project,
    config: &'a Config,
    store: &'a dyn Reader,
    sources: &'a [Source],
    wanted: ElementFilter,
    talk: Talk,
    unfinished: &'a Unfinished,
}

/// A line of the manifest.
#[derive(Serialize)]
struct Line<'a> {
    locator: &'a str,
    file: &'a str,
    digest: String,
    #[serde(serialize_with = "moment::serialize")]
    polled_at: Option<Moment>,
    #[serde(serialize_with = "moment::serialize")]
    changed_at: Option<Moment>,
    status: u16,
}

impl Exporter<'_> {
    /// Calls `each` with all that is wanted.
    fn each(&self, each: &mut dyn FnMut(&Kept, &ElementView) -> Outcome<()>) -> Outcome<()> {
        let refuse = |error| self.project.refuse(&error);
        let settings = &self.config.settings;
        let in_source = |source: &&Source| self.wanted.source.is_none_or(|id| id == source.id);
        let total = self.sources.iter().filter(in_source);
        let total = total.map(|source| source.totals.n_elements + source.totals.n_gone);
        let writing = self.talk.progress("writing", Some(total.sum()));
        let mut outlook =
            Outlook::read(self.store, settings, moment::now(), &mut || {}).map_err(refuse)?;
        let mut elements =
            Elements::new(self.store, &mut outlook, self.sources, self.wanted).map_err(refuse)?;
        while let Some(page) = elements.next_page().map_err(refuse)? {
            for (kept, element) in &page {
                writing.advance(1);
                each(kept, element)?;
            }
        }
        Ok(())
    }

    /// Writes copies into a folder; the manifest appears when all are there. Says how
    /// many.
    fn bodies(&self, folder: &Path, mut layout: Layout, missing: &mut Missing) -> Outcome<u64> {
        let failed =
            |path: &Path, error: &std::io::Error| unwritable(&path.display().to_string(), error);
        std::fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
        let bodies = self.project.bodies()?;
        let path = folder.join("manifest.jsonl");
        if path.is_symlink() {
            return Err(failed(&path, &not_followed()));
        }
        let mut manifest = WholeFile::new(Some(&path), self.unfinished)?;
        let mut n = 0;
        let mut made = PathBuf::new();
        self.each(&mut |kept, row| {
            let Some(copy) = kept.copy.as_ref().filter(|_| kept.state != State::Gone) else {
                return Ok(());
            };
            let Ok(body) = bodies.get(copy.body) else {
                missing.add(&row.locator);
                return Ok(());
            };
            let file = layout.name(kept, &row.source, copy);
            let path = folder.join(&file);
            if let Some(parent) = path.parent().filter(|parent| **parent != made) {
                make_folders(folder, parent).map_err(|error| failed(parent, &error))?;
                made = parent.to_owned();
            }
            write_whole(&path, &body).map_err(|error| failed(&path, &error))?;
            n += 1;
            manifest.line(&Line {
                locator: &row.locator,
                file: &file,
                digest: digest_text(&copy.digest),
                polled_at: row.polled_at,
                changed_at: row.changed_at,
                status: copy.status,
            })
        })?;
        manifest.finish()?;
        Ok(n)
    }

    fn jsonl(&self, to: Option<&Path>) -> Outcome<u64> {
        let mut out = WholeFile::new(to, self.unfinished)?;
        let mut n = 0;
        self.each(&mut |_, row| {
            n += 1;
            out.line(row)
        })?;
        out.finish()?;
        Ok(n)
    }

    fn csv(&self, to: Option<&Path>) -> Outcome<u64> {
        /// Rows that are written at a time.
        const BATCH: usize = 10_000;
        let names = [
            "id",
            "source",
            "locator",
            "group",
            "weight",
            "rate_per_day",
            "low_per_day",
            "high_per_day",
            "frequency_per_day",
            "polled_at",
            "changed_at",
            "due_at",
            "reason",
            "n_polls",
            "n_changes",
            "state",
            "error",
        ];
        let columns = names.map(|name| (name, ColumnType::Text));
        let mut output = Output::new(to, &columns, self.unfinished)?;
        let mut batch = names.map(|_| Texts::default());
        let mut n = 0;
        let mut write = |batch: &mut [Texts; 17]| {
            let cells = batch.iter().zip(names);
            let cells = cells.map(|(texts, name)| match FOREIGN.contains(&name) {
                true => Cells::Foreign(texts),
                false => Cells::Texts(texts),
            });
            output.write(&cells.collect::<Vec<_>>())?;
            *batch = names.map(|_| Texts::default());
            Outcome::Ok(())
        };
        self.each(&mut |_, row| {
            n += 1;
            for (texts, cell) in batch.iter_mut().zip(cells(row)) {
                texts.push(&cell);
            }
            if batch[0].len() >= BATCH {
                write(&mut batch)?;
            }
            Ok(())
        })?;
        write(&mut batch)?;
        output.finish()?;
        Ok(n)
    }
}

/// Columns whose texts others have written.
const FOREIGN: [&str; 5] = ["source", "locator", "group", "reason", "error"];

/// The cells of a row; nothing where nothing is known.
fn cells(row: &ElementView) -> [String; 17] {
    let number = |number: Option<f64>| number.map_or_else(String::new, |n| n.to_string());
    let when = |moment: Option<Moment>| moment.map_or_else(String::new, rfc3339);
    let error = row.error.as_ref();
    [
        row.id.to_string(),
        row.source.clone(),
        row.locator.clone(),
        row.group.clone(),
        row.weight.to_string(),
        number(row.rate_per_day.map(|rate| rate.estimate)),
        number(row.rate_per_day.map(|rate| rate.low)),
        number(row.rate_per_day.map(|rate| rate.high)),
        number(row.frequency_per_day),
        when(row.polled_at),
        when(row.changed_at),
        when(row.due_at),
        row.reason.as_deref().unwrap_or_default().to_owned(),
        row.n_polls.to_string(),
        row.n_changes.to_string(),
        row.state.to_owned(),
        error.map_or_else(String::new, |error| {
            format!("{}: {}", error.kind, error.message)
        }),
    ]
}

/// Makes the folders from one down to another. Whoever has put a link there would have us
/// write somewhere else.
fn make_folders(from: &Path, to: &Path) -> io::Result<()> {
    let mut path = from.to_owned();
    for part in to.strip_prefix(from).unwrap_or(to) {
        path.push(part);
        match std::fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_symlink() => return Err(not_followed()),
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => {
                return Err(io::Error::other(
                    "a file is in its way; export into an empty folder",
                ));
            }
            Err(_) => std::fs::create_dir(&path)?,
        }
    }
    Ok(())
}

fn not_followed() -> io::Error {
    io::Error::other("it is a link, and links in an export are not followed")
}

/// Writes a file that appears when it is whole, in the place of what was there: of a link,
/// not of what it points to.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".springtide-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // As for any new file: the user's mask takes away from it.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut file = builder.tempfile_in(path.parent().unwrap_or_else(|| Path::new(".")))?;
    file.write_all(bytes)?;
    file.persist(path)?;
    Ok(())
}
