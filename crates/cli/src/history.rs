//! A recorded history of changes: a folder of three tables, as a world.

use std::collections::HashMap;
use std::path::Path;

use springtide_policy::{Element, Elements, GroupId, Groups, Span};
use springtide_sim::world::{Life, World};

use crate::failure::{Failure, Outcome};
use crate::table::{Batch, Column, Condition, Input, Kind, shorten};
use crate::talk::{Talk, count};

const HOURS_PER_DAY: f64 = 24.0;
/// Ten million hours, or eleven hundred years: what is later is a mistake.
const LAST_HOUR: f64 = 1e7;

/// A directory deeper than this counts as the one that it is in.
const DEEPEST: usize = 16;

/// What was recorded of sites, their pages and the changes of those.
pub(crate) struct History {
    /// What sites are called; their groups have the first numbers.
    site_names: Vec<String>,
    groups: Groups,
    pages: Vec<Page>,
    /// Hours of changes, page by page.
    hours: Vec<f64>,
    n_hours: f64,
}

struct Page {
    group: GroupId,
    created: f64,
    deleted: f64,
    /// Where its changes are in `History::hours`.
    first: usize,
    n_changes: usize,
}

const SITES: [Column; 1] = [Column {
    name: "site_id",
    kind: Kind::Id,
    required: true,
}];

const PAGES: [Column; 6] = [
    Column {
        name: "page_id",
        kind: Kind::Id,
        required: true,
    },
    Column {
        name: "site_id",
        kind: Kind::Id,
        required: true,
    },
    Column {
        name: "path",
        kind: Kind::Text,
        required: true,
    },
    Column {
        name: "created_h",
        kind: Kind::Number(Condition {
            holds: |hour| (0.0..=LAST_HOUR).contains(&hour) || hour == -1.0,
            says: "it is an hour since the start, or -1",
            hint: "give -1 for a page that was there from the start",
        }),
        required: true,
    },
    Column {
        name: "deleted_h",
        kind: Kind::Optional(Condition {
            holds: |hour| (0.0..=LAST_HOUR).contains(&hour),
            says: "it is an hour since the start, or empty",
            hint: "leave it empty for a page that is there at the end",
        }),
        required: true,
    },
    Column {
        name: "n_changes",
        kind: Kind::Optional(Condition {
            holds: |n| n >= 0.0 && n.fract() == 0.0,
            says: "it is a whole number",
            hint: "count the page's rows in the table of changes",
        }),
        required: false,
    },
];

const CHANGES: [Column; 2] = [
    Column {
        name: "page_id",
        kind: Kind::Id,
        required: true,
    },
    Column {
        name: "hour",
        kind: Kind::Number(Condition {
            holds: |hour| (0.0..=LAST_HOUR).contains(&hour),
            says: "an hour is counted from the start, and zero or more",
            hint: "drop the line",
        }),
        required: true,
    },
];

const HINT: &str =
    "a history is a folder with sites.csv, pages.csv and changes.csv, plain, .gz or .zst";

impl History {
    pub(crate) fn read(folder: &Path, talk: Talk) -> Outcome<Self> {
        if !folder.is_dir() {
            return Err(Failure::input(format!("cannot read {}", folder.display()))
                .cause("there is no such folder")
                .hint(HINT));
        }
        let mut reader = HistoryReader::default();
        reader.sites(&table(folder, "sites")?, talk)?;
        reader.pages(&table(folder, "pages")?, talk)?;
        reader.changes(&table(folder, "changes")?, talk)?;
        let history = reader.history;
        talk.explain(format!(
            "{} pages and {} changes in {} hours",
            count(history.pages.len()),
            count(history.hours.len()),
            count(history.n_hours as usize),
        ));
        Ok(history)
    }

    /// What the outermost groups are called, in the order of their numbers.
    pub(crate) fn site_names(&self) -> Vec<String> {
        self.site_names.clone()
    }

    /// How long it is: to the end of the last day with anything in it.
    pub(crate) fn days(&self) -> f64 {
        (self.n_hours / HOURS_PER_DAY).ceil().max(1.0)
    }

    /// The pages that are there at some time of the span, or all the time.
    pub(crate) fn world(&self, span: Span, throughout: bool) -> World {
        let span = span.as_days();
        let n_hours = span * HOURS_PER_DAY;
        let mut elements = Vec::new();
        let mut lives = Vec::new();
        let mut starts = vec![0];
        let mut times = Vec::new();
        for page in &self.pages {
            let is_there = if throughout {
                page.created < 0.0 && page.deleted >= n_hours
            } else {
                page.created < n_hours
            };
            if !is_there {
                continue;
            }
            elements.push(Element {
                group: Some(page.group),
                ..Element::default()
            });
            lives.push(Life {
                born: page.created.max(0.0) / HOURS_PER_DAY,
                died: if page.deleted > n_hours || throughout {
                    f64::INFINITY
                } else {
                    page.deleted / HOURS_PER_DAY
                },
            });
            let hours = &self.hours[page.first..page.first + page.n_changes];
            let within = hours.iter().take_while(|&&hour| hour <= n_hours);
            times.extend(within.map(|hour| hour / HOURS_PER_DAY));
            starts.push(times.len());
        }
        World::recorded(
            elements.into_iter().collect::<Elements>(),
            self.groups.clone(),
            lives,
            (starts, times),
            span,
        )
    }
}

/// One of the three tables, plain or compressed.
fn table(folder: &Path, name: &str) -> Outcome<Input> {
    let names = ["csv", "csv.gz", "csv.zst"].map(|ending| format!("{name}.{ending}"));
    let found = names.iter().map(|name| folder.join(name));
    match found.into_iter().find(|path| path.exists()) {
        Some(path) => Input::new(&path),
        None => Err(Failure::input(format!("cannot read {}", folder.display()))
            .cause(format!(
                "there is no {name}.csv, {name}.csv.gz or {name}.csv.zst"
            ))
            .hint(HINT)),
    }
}

/// A history on its way in.
#[derive(Default)]
struct HistoryReader {
    history: History,
    /// The group of each site, the line that names it, and its pages so far.
    sites: HashMap<String, Site>,
    /// The groups inside others, by name.
    directories: HashMap<(GroupId, String), GroupId>,
    pages: HashMap<String, usize>,
    /// How many changes a page should have, and where that is written.
    promised: Vec<Option<(f64, String)>>,
}

struct Site {
    group: GroupId,
    place: String,
    n_pages: usize,
}

impl Default for History {
    fn default() -> Self {
        Self {
            site_names: Vec::new(),
            groups: Groups::new(),
            pages: Vec::new(),
            hours: Vec::new(),
            n_hours: 0.0,
        }
    }
}

fn refuse(input: &Input, cause: String, hint: &str) -> Failure {
    Failure::input(format!("cannot read {}", input.name))
        .cause(cause)
        .hint(hint)
}

impl HistoryReader {
    fn sites(&mut self, input: &Input, talk: Talk) -> Outcome<()> {
        let reading = talk.progress("reading sites", None);
        input.read(&SITES, &reading, |batch| {
            for row in 0..batch.n_rows {
                let name = cell(&batch, 0, row);
                let place = batch.place(row);
                self.history.site_names.push(name.to_owned());
                let site = Site {
                    group: self.history.groups.add(None),
                    place: place.clone(),
                    n_pages: 0,
                };
                if let Some(first) = self.sites.insert(name.to_owned(), site) {
                    let (name, first) = (shorten(name), first.place);
                    let cause = format!("{place}: site \"{name}\" is already in {first}");
                    return Err(refuse(input, cause, "drop one of the two"));
                }
            }
            Ok(())
        })?;
        if self.sites.is_empty() {
            return Err(refuse(
                input,
                "there are no sites".to_owned(),
                "give one row per site",
            ));
        }
        Ok(())
    }

    fn pages(&mut self, input: &Input, talk: Talk) -> Outcome<()> {
        let reading = talk.progress("reading pages", None);
        input.read(&PAGES, &reading, |batch| {
            for row in 0..batch.n_rows {
                self.page(&batch, row)
                    .map_err(|(cause, hint)| refuse(input, cause, hint))?;
            }
            Ok(())
        })?;
        drop(reading);
        if self.history.pages.is_empty() {
            let cause = "there are no pages".to_owned();
            return Err(refuse(input, cause, "give one row per page"));
        }
        let empty = self.sites.iter().filter(|(_, site)| site.n_pages == 0);
        if let Some((name, site)) = empty.min_by_key(|(_, site)| site.group) {
            let (name, place) = (shorten(name), &site.place);
            let cause = format!("site \"{name}\" ({place} of the sites) has no pages");
            return Err(refuse(input, cause, "give its pages, or drop the site"));
        }
        Ok(())
    }

    fn page(&mut self, batch: &Batch, row: usize) -> Result<(), (String, &'static str)> {
        let (name, site, path) = (
            cell(batch, 0, row),
            cell(batch, 1, row),
            cell(batch, 2, row),
        );
        let place = batch.place(row);
        let Some(site) = self.sites.get_mut(site) else {
            let site = shorten(site);
            let cause = format!("{place}: there is no site \"{site}\"");
            return Err((cause, "add it to the sites, or drop the line"));
        };
        site.n_pages += 1;
        let created = number(batch, 3, row);
        let deleted = number(batch, 4, row);
        if deleted < created {
            let cause =
                format!("{place}: deleted_h is {deleted}, before created_h, which is {created}");
            return Err((cause, "a page is deleted after it was created"));
        }
        let index = self.history.pages.len();
        if self.pages.insert(name.to_owned(), index).is_some() {
            let name = shorten(name);
            let cause = format!("{place}: page \"{name}\" is there already");
            return Err((cause, "ids must be unique; drop one of the two"));
        }
        let promised = number(batch, 5, row);
        self.promised
            .push((!promised.is_nan()).then_some((promised, place)));

        let mut group = site.group;
        let directories = path.split('/').filter(|part| !part.is_empty());
        let n_directories = directories.clone().count().saturating_sub(1);
        for directory in directories.take(n_directories.min(DEEPEST)) {
            let groups = &mut self.history.groups;
            let key = (group, directory.to_owned());
            group = *self
                .directories
                .entry(key)
                .or_insert_with(|| groups.add(Some(group)));
        }
        let known = [created + 1.0, deleted].into_iter();
        self.history.n_hours = known
            .filter(|hour| !hour.is_nan())
            .fold(self.history.n_hours, f64::max);
        self.history.pages.push(Page {
            group,
            created,
            deleted: if deleted.is_nan() {
                f64::INFINITY
            } else {
                deleted
            },
            first: 0,
            n_changes: 0,
        });
        Ok(())
    }

    fn changes(&mut self, input: &Input, talk: Talk) -> Outcome<()> {
        let reading = talk.progress("reading changes", None);
        // The page of the row before, and its last hour.
        let mut last: Option<(String, usize, f64)> = None;
        input.read(&CHANGES, &reading, |batch| {
            for row in 0..batch.n_rows {
                let (name, hour) = (cell(&batch, 0, row), number(&batch, 1, row));
                self.change(&mut last, name, hour)
                    .map_err(|(cause, hint)| {
                        let cause = format!("{}: {cause}", batch.place(row));
                        refuse(input, cause, hint)
                    })?;
            }
            Ok(())
        })?;
        drop(reading);
        let pages = self.history.pages.iter().zip(&self.promised);
        let mut wrong = pages.filter_map(|(page, promised)| {
            let (n, place) = promised.as_ref()?;
            (*n != page.n_changes as f64).then_some((page.n_changes, n, place))
        });
        if let Some((n_found, n_promised, place)) = wrong.next() {
            let others = match wrong.count() {
                0 => String::new(),
                n => format!(" (and {} more)", count(n)),
            };
            talk.say(format!(
                "warning: {} has {n_found} changes of a page that should have {n_promised} by {place} of the pages{others}",
                input.name
            ));
        }
        Ok(())
    }

    fn change(
        &mut self,
        last: &mut Option<(String, usize, f64)>,
        name: &str,
        hour: f64,
    ) -> Result<(), (String, &'static str)> {
        let known = last.as_ref().filter(|(page, ..)| page == name);
        let (index, before) = match known {
            Some(&(_, index, before)) => (index, Some(before)),
            None => {
                let Some(&index) = self.pages.get(name) else {
                    let name = shorten(name);
                    let cause = format!("there is no page \"{name}\"");
                    return Err((cause, "add it to the pages, or drop the line"));
                };
                if self.history.pages[index].n_changes > 0 {
                    let name = shorten(name);
                    let cause = format!("page \"{name}\" comes again after others");
                    return Err((cause, "sort the changes by page, then hour"));
                }
                (index, None)
            }
        };
        if let Some(before) = before.filter(|&before| hour <= before) {
            let cause = format!("hour is {hour} after {before} of the same page");
            return Err((
                cause,
                "hours rise within a page; sort them, and drop those there twice",
            ));
        }
        let page = &mut self.history.pages[index];
        if hour < page.created || hour > page.deleted {
            let (created, deleted) = (page.created, page.deleted);
            let cause = if hour < created {
                format!("hour is {hour}, before the page was created at {created}")
            } else {
                format!("hour is {hour}, after the page was deleted at {deleted}")
            };
            return Err((cause, "a page changes while it is there"));
        }
        if page.n_changes == 0 {
            page.first = self.history.hours.len();
        }
        page.n_changes += 1;
        self.history.hours.push(hour);
        self.history.n_hours = self.history.n_hours.max(hour + 1.0);
        match last {
            Some((page, _, before)) if page == name => *before = hour,
            _ => *last = Some((name.to_owned(), index, hour)),
        }
        Ok(())
    }
}

fn cell(batch: &Batch, column: usize, row: usize) -> &str {
    batch.texts(column).map_or("", |texts| texts.get(row))
}

/// Not a number where there is none.
fn number(batch: &Batch, column: usize, row: usize) -> f64 {
    batch
        .numbers(column)
        .map_or(f64::NAN, |numbers| numbers[row])
}
