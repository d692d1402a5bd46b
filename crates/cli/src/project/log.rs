//! `springtide log`: the changes found, newest first.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

use springtide_engine::Polled;
use springtide_engine::settings::SourceSettings;
use springtide_engine::view::{self, ChangeView, FieldChange, change_kind_name, redacted};
use springtide_store::{
    Bodies, Change, ChangeFilter, ChangeKind, ElementId, Moment, Reader, Source, SourceId,
    SourceKind,
};

use super::rows::RowFound;
use super::{Project, element_named, source_named};
use crate::args::project::{ChangeName, Log};
use crate::columns::{Colour, Columns, Side};
use crate::failure::{Failure, Outcome};
use crate::json::Lines;
use crate::moment::{self, brief, relative, seconds_between};
use crate::talk::{Talk, count};

/// Changes in a table for a person.
const DEFAULT_LIMIT: usize = 50;
/// Changes that are read at a time.
const PAGE: usize = 1000;

/// Addresses that are held at a time.
const MOST_LOCATORS: usize = 100_000;

pub(crate) fn run(args: &Log, project: &Project, talk: Talk, colour: Colour) -> Outcome<()> {
    if args.rows {
        return super::rows::log(args, project, talk, colour);
    }
    let now = moment::now();
    let store = project.read()?;
    let sources = store.sources().map_err(|error| project.refuse(&error))?;
    let filter = ChangeFilter {
        source: match &args.source {
            Some(name) => Some(source_named(&sources, name)?.id),
            None => None,
        },
        element: match &args.element {
            Some(text) => Some(element_named(project, &*store, text)?.element.id),
            None => None,
        },
        since: since(args.since.as_deref(), now)?,
    };
    let rows = RowFields::of(project, names_of_rows(&sources))?;
    let names = sources.into_iter().map(|source| (source.id, source.name));
    let mut reader = ChangeReader {
        args,
        project,
        filter,
        names: names.collect(),
        locators: Locators::default(),
        rows,
    };
    let limit = match args.limit {
        Some(limit) => limit,
        None if args.json => usize::MAX,
        None => DEFAULT_LIMIT,
    };
    if args.follow {
        return reader.follow(store, limit, colour);
    }
    let mut lines = args.json.then(Lines::new);
    let mut columns = Columns::new(COLUMNS);
    // First copies of a whole site would hide what changed; whoever names them sees
    // them.
    let folds = !args.json && args.kind.is_empty() && args.element.is_none();
    let (mut n_shown, mut has_more) = (0, false);
    let mut folded = Folded::default();
    reader.newest_first(&*store, None, &mut |change, (source, locator), fields| {
        if let Some(lines) = &mut lines {
            if n_shown == limit {
                return Ok(false);
            }
            n_shown += 1;
            let fields = fields.map(<[FieldChange]>::to_vec);
            lines.push(&ChangeView::new(change, source, locator, fields))?;
            return Ok(true);
        }
        if folds && folded.takes(change) {
            return Ok(true);
        }
        // Those that were folded are still to be shown, before this one.
        if n_shown + folded.n_lines() >= limit {
            has_more = true;
            return Ok(false);
        }
        n_shown += folded.flush(&mut columns, now);
        if folds && change.kind == ChangeKind::Added {
            folded.begin(change, source, locator);
        } else {
            n_shown += 1;
            columns.push(cells(change, source, &with_fields(locator, fields), now));
        }
        Ok(true)
    })?;
    if let Some(lines) = lines {
        return lines.finish();
    }
    folded.flush(&mut columns, now);
    if columns.is_empty() {
        talk.say("no changes were found");
        return Ok(());
    }
    columns.print(colour)?;
    if has_more {
        talk.say("and more; --limit N shows more, --json all");
    }
    Ok(())
}

const COLUMNS: &[(&str, Side)] = &[
    ("found", Side::Right),
    ("kind", Side::Left),
    ("stale for up to", Side::Right),
    ("bytes", Side::Right),
    ("size", Side::Right),
    ("source", Side::Left),
    ("locator", Side::Long),
];

/// How often someone who follows looks for more.
const LOOKS: std::time::Duration = std::time::Duration::from_millis(500);

/// Reads the changes that are wanted.
struct ChangeReader<'a> {
    args: &'a Log,
    project: &'a Project,
    filter: ChangeFilter,
    names: HashMap<SourceId, String>,
    locators: Locators,
    rows: RowFields,
}

/// What is told of a change: the change, its source and its locator, and of a row the
/// fields that changed.
type Each<'a> = dyn FnMut(&Change, (&str, &str), Option<&[FieldChange]>) -> Outcome<bool> + 'a;

impl ChangeReader<'_> {
    /// Calls `each` with changes, the newest first, down to the one with this number,
    /// until it has had enough.
    fn newest_first(
        &mut self,
        store: &dyn Reader,
        down_to: Option<u64>,
        each: &mut Each<'_>,
    ) -> Outcome<()> {
        let mut before = None;
        loop {
            let page = store.changes(&self.filter, before, PAGE);
            let page = page.map_err(|error| self.project.refuse(&error))?;
            for change in &page {
                if down_to.is_some_and(|last| change.number <= last) {
                    return Ok(());
                }
                let kinds = &self.args.kind;
                if !kinds.is_empty() && kinds.iter().all(|kind| of_name(*kind) != change.kind) {
                    continue;
                }
                let locator = self.locators.find(self.project, store, change.element)?;
                if self
                    .args
                    .grep
                    .as_ref()
                    .is_some_and(|text| !locator.contains(text))
                {
                    continue;
                }
                let source = self.names.get(&change.source).map_or("", String::as_str);
                let fields = (self.rows).of_change(self.project, store, source, change)?;
                if !each(change, (source, locator), fields.as_deref())? {
                    return Ok(());
                }
            }
            if page.len() < PAGE {
                return Ok(());
            }
            before = page.last().map(|change| change.number);
            self.locators.forget_many();
        }
    }

    /// Shows the newest, oldest first, and then each as it is found.
    fn follow(&mut self, mut store: Box<dyn Reader>, limit: usize, colour: Colour) -> Outcome<()> {
        let (mut last, mut limit) = (None, limit);
        loop {
            let mut newest = None;
            let mut found = Vec::new();
            self.newest_first(&*store, last, &mut |change, (source, locator), fields| {
                newest = newest.or(Some(change.number));
                let fields = fields.map(<[FieldChange]>::to_vec);
                found.push((
                    change.clone(),
                    source.to_owned(),
                    locator.to_owned(),
                    fields,
                ));
                Ok(found.len() < limit)
            })?;
            last = newest.or(last);
            limit = usize::MAX;
            let now = moment::now();
            let (mut lines, mut columns) = (Lines::new(), Columns::new(COLUMNS));
            for (change, source, locator, fields) in found.iter().rev() {
                let fields = fields.as_deref();
                match self.args.json {
                    true => {
                        let fields = fields.map(<[FieldChange]>::to_vec);
                        lines.push(&ChangeView::new(change, source, locator, fields))?;
                    }
                    false => {
                        columns.push(cells(change, source, &with_fields(locator, fields), now))
                    }
                }
            }
            lines.finish()?;
            if !columns.is_empty() {
                columns.print(colour)?;
            }
            std::thread::sleep(LOOKS);
            // Sources and groups come, and a store may be made again.
            store = self.project.read()?;
            let sources = store
                .sources()
                .map_err(|error| self.project.refuse(&error))?;
            self.rows = RowFields::of(self.project, names_of_rows(&sources))?;
            self.names = sources
                .into_iter()
                .map(|source| (source.id, source.name))
                .collect();
        }
    }
}

/// The names of sources whose elements are rows.
fn names_of_rows(sources: &[Source]) -> impl Iterator<Item = &String> {
    let of_rows = sources.iter().filter(|s| s.kind == SourceKind::Search);
    of_rows.map(|source| &source.name)
}

/// Sources of rows, by name, and what to compare rows by: the bodies of elements that are
/// rows, and the copies of tables.
#[derive(Default)]
pub(super) struct RowFields {
    sources: BTreeSet<String>,
    copies: BTreeMap<String, PathBuf>,
    /// Only where there are rows: those who read make no folders.
    bodies: Option<Bodies<springtide_store::Reading>>,
}

impl RowFields {
    pub(super) fn of<'a>(
        project: &Project,
        of_rows: impl Iterator<Item = &'a String>,
    ) -> Outcome<Self> {
        let sources: BTreeSet<String> = of_rows.cloned().collect();
        let bodies = match sources.is_empty() {
            true => None,
            false => Some(project.bodies()?),
        };
        Ok(Self {
            sources,
            copies: BTreeMap::new(),
            bodies,
        })
    }

    /// The same, with these tables.
    pub(super) fn with_tables(self, sources: &[SourceSettings]) -> Self {
        let copies = sources.iter().filter_map(|source| {
            let table = source.table.as_ref()?;
            Some((source.name.clone(), table.copy.clone()))
        });
        Self {
            copies: copies.collect(),
            ..self
        }
    }

    /// What a poll of a block of a table found to have happened to its rows.
    pub(super) fn rows_of(&self, polled: &Polled) -> Option<Vec<RowFound>> {
        let copy = self.copies.get(&polled.source)?;
        let has_changed = polled.change == Some(ChangeKind::Changed);
        has_changed.then(|| super::rows::found(copy, &polled.source, polled.at))
    }

    /// What was polled, and what has changed in it: in a row, or in the rows of a block.
    pub(super) fn told(&self, polled: &Polled) -> String {
        let told = with_fields(&polled.locator, self.of_poll(polled).as_deref());
        let rows = self.rows_of(polled).unwrap_or_default();
        let rows: Vec<String> = rows.iter().map(ToString::to_string).collect();
        match rows.is_empty() {
            true => told,
            false => format!("{told} {}", rows.join("; ")),
        }
    }

    fn bodies_of(&self, source: &str) -> Option<&Bodies<springtide_store::Reading>> {
        self.bodies
            .as_ref()
            .filter(|_| self.sources.contains(source))
    }

    /// What a change was in a row; nothing if it is of something else.
    fn of_change(
        &self,
        project: &Project,
        store: &dyn Reader,
        source: &str,
        change: &Change,
    ) -> Outcome<Option<Vec<FieldChange>>> {
        let Some(bodies) = self.bodies_of(source) else {
            return Ok(None);
        };
        let fields = view::fields_of(store, bodies, change);
        Ok(Some(fields.map_err(|error| project.refuse(&error))?))
    }

    /// What a poll found to have changed in a row, if it is one, has changed, and both
    /// versions can be read.
    pub(super) fn of_poll(&self, polled: &Polled) -> Option<Vec<FieldChange>> {
        let bodies = self.bodies_of(&polled.source)?;
        let (before, after) = polled.versions?;
        let (before, after) = (bodies.get(before).ok()?, bodies.get(after).ok()?);
        Some(view::fields(&before, &after))
    }
}

/// A row, and what changed in it: `r0102 price 6662 → 7919 (+19 %)`.
pub(super) fn with_fields(locator: &str, fields: Option<&[FieldChange]>) -> String {
    let fields = fields.unwrap_or_default().iter();
    let fields: Vec<String> = fields.map(ToString::to_string).collect();
    match fields.is_empty() {
        true => locator.to_owned(),
        false => format!("{locator} {}", fields.join(", ")),
    }
}

/// First copies one after the other, told as one.
#[derive(Default)]
struct Folded {
    n: usize,
    source: Option<SourceId>,
    /// The newest of them.
    found_at: Option<Moment>,
    first: Vec<String>,
    name: String,
}

impl Folded {
    /// Whether a change is another of them.
    fn takes(&mut self, change: &Change) -> bool {
        let is_more = change.kind == ChangeKind::Added && self.source == Some(change.source);
        self.n += usize::from(is_more);
        is_more
    }

    fn begin(&mut self, change: &Change, source: &str, locator: &str) {
        *self = Self {
            n: 1,
            source: Some(change.source),
            found_at: Some(change.found_at),
            first: vec![locator.to_owned()],
            name: source.to_owned(),
        };
    }

    /// How many lines they take.
    fn n_lines(&self) -> usize {
        usize::from(self.found_at.is_some())
    }

    /// Writes them down, and says in how many lines.
    fn flush(&mut self, columns: &mut Columns, now: Moment) -> usize {
        let Some(found_at) = self.found_at else {
            return 0;
        };
        let what = match self.n {
            1 => self.first.concat(),
            n => format!("{} added (--kind added lists them)", count(n)),
        };
        let nothing = || "-".to_owned();
        columns.push(vec![
            relative(found_at, now),
            "added".to_owned(),
            nothing(),
            nothing(),
            nothing(),
            std::mem::take(&mut self.name),
            what,
        ]);
        *self = Self::default();
        1
    }
}

fn of_name(name: ChangeName) -> ChangeKind {
    match name {
        ChangeName::Changed => ChangeKind::Changed,
        ChangeName::Added => ChangeKind::Added,
        ChangeName::Gone => ChangeKind::Gone,
        ChangeName::Back => ChangeKind::Back,
    }
}

/// The moment that `--since` names.
pub(crate) fn since(text: Option<&str>, now: Moment) -> Outcome<Option<Moment>> {
    text.map(|text| moment_named("--since", text, now))
        .transpose()
}

/// The moment that a flag names.
pub(crate) fn moment_named(flag: &str, text: &str, now: Moment) -> Outcome<Moment> {
    moment::since(text, now).map_err(|cause| {
        let text = crate::table::shorten(text);
        Failure::input(format!("cannot understand {flag}")).cause(format!("`{text}`: {cause}"))
    })
}

/// Addresses of elements, each looked up once as long as there are few.
#[derive(Default)]
struct Locators {
    known: HashMap<ElementId, String>,
}

impl Locators {
    fn find(&mut self, project: &Project, store: &dyn Reader, id: ElementId) -> Outcome<&str> {
        if let std::collections::hash_map::Entry::Vacant(entry) = self.known.entry(id) {
            let kept = store.element(id).map_err(|error| project.refuse(&error))?;
            let locator = kept.map(|kept| redacted(&kept.element.locator).into_owned());
            entry.insert(locator.unwrap_or_default());
        }
        Ok(self.known.get(&id).map_or("", String::as_str))
    }

    fn forget_many(&mut self) {
        if self.known.len() > MOST_LOCATORS {
            self.known.clear();
        }
    }
}

fn cells(change: &Change, source: &str, locator: &str, now: Moment) -> Vec<String> {
    let unknown = || "-".to_owned();
    let age = change
        .previous_poll_at
        .map(|previous| brief(seconds_between(previous, change.found_at)));
    let bytes = match (change.bytes_before, change.bytes_after) {
        (Some(before), Some(after)) if before != after => {
            format!("{:+}", i128::from(after) - i128::from(before))
        }
        (Some(_), Some(_)) => "±0".to_owned(),
        (None, Some(after)) => after.to_string(),
        (Some(before), None) => format!("-{before}"),
        (None, None) => unknown(),
    };
    vec![
        relative(change.found_at, now),
        change_kind_name(change.kind).to_owned(),
        age.unwrap_or_else(unknown),
        bytes,
        change
            .size
            .map_or_else(unknown, |size| format!("{:.0}%", size * 100.0)),
        source.to_owned(),
        locator.to_owned(),
    ]
}
