//! Brings the store in step with the settings: which sources there are, and which
//! elements lists name.
//!
//! [`reconcile`] does it for all sources, [`import`] adds the addresses of one [`List`].
//! Both ask nobody. A list of any length is read twice, once to see what can be used of it
//! and once to take that in, so a list that is refused leaves everything as it was; of each
//! address sixteen bytes are held.
//!
//! Running totals count elements that have a copy: listings are polled, but are not
//! counted among the elements.

mod groups;
mod list;
mod rows;

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::UNIX_EPOCH;

use springtide_store::{
    Element, ElementId, Fact, Failure, FailureKind, Kept, Moment, Numbers, Reader, Role, Source,
    SourceId, SourceKind, State, Totals, Walk, Writer,
};
use url::Url;

use crate::fetch::{group_of, locator};
use crate::settings::{FeedEntries, GroupRule, ListSettings, Settings, SourceSettings};
use crate::source::list::ListedUrl;
use crate::table::Relation;
use crate::view::{count, plural};
pub(crate) use groups::GroupIds;
pub use list::{LeftOut, List, ListColumns, ListError};
use rows::{FollowedRows, add_search, add_table};
pub(crate) use rows::{feed_group, search_group, table_group};

/// Why the store could not be brought in step.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] springtide_store::Error),
    /// A list cannot be read.
    #[error(transparent)]
    List(#[from] ListError),
}

/// What has come of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reconciled {
    /// Sources that are new in the store.
    pub n_sources_added: usize,
    /// What lists that were read have brought, by name.
    pub imported: Vec<(String, Imported)>,
    /// Lists that could not be read, by name, and why.
    pub failed: Vec<(String, String)>,
}

/// What a list has brought.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Imported {
    /// Addresses in it.
    pub n_lines: u64,
    /// Elements that are new.
    pub n_added: u64,
    /// Addresses that were there before, in the list or in the source.
    pub n_known: u64,
    /// Elements that it no longer names.
    pub n_unlisted: u64,
    /// Addresses beyond the most that the source may have.
    pub n_left_out: u64,
    /// Lines that could not be used.
    pub n_bad: u64,
    /// The first of them.
    pub left_out: Vec<LeftOut>,
}

/// How far it has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// So many more lines have been checked.
    Checked(u64),
    /// So many more lines, of so many in all, have been taken in.
    Taken(u64, u64),
}

/// Facts that are kept together. Large enough that a transaction costs little, small
/// enough to hold.
const BATCH: usize = 10_000;
/// Lines that could not be used and are told of.
const MOST_LEFT_OUT: usize = 1000;
/// Lines between two words about progress.
const STRIDE: u64 = 10_000;

/// Brings the sources in the store in step with the settings.
///
/// # Errors
/// If the store fails. A list that cannot be read is an error of its source, and no
/// reason to stop.
pub fn reconcile(
    store: &mut dyn Writer,
    settings: &Settings,
    now: Moment,
    progress: &mut dyn FnMut(Step),
) -> Result<Reconciled, Error> {
    let mut reconciled = Reconciled::default();
    let mut notes = Notes::read(store)?;
    let mut group_ids = None;
    regroup(store, &settings.groups, &mut notes)?;

    let known = store.sources()?;
    let (mut facts, mut kept) = (Vec::new(), Vec::new());
    for source in &known {
        // One that is not in the settings stays as it is, until someone removes it.
        let Some(wanted) = settings.sources.iter().find(|s| s.name == source.name) else {
            continue;
        };
        if is_same(wanted, source) && has_same_entries(store, wanted, source)? {
            kept.push(source.id);
        } else {
            facts.push(Fact::SourceRemoved(source.id));
            notes.forget(source.id);
        }
    }
    if !facts.is_empty() {
        facts.push(notes.fact());
        store.commit(&facts)?;
    }

    for wanted in &settings.sources {
        let known = known
            .iter()
            .find(|source| source.name == wanted.name && kept.contains(&source.id));
        let source = match known {
            Some(source) => source.clone(),
            None => {
                let source = Source {
                    id: store.numbers().source()?,
                    name: wanted.name.clone(),
                    kind: wanted.kind,
                    url: identity_of(wanted),
                    added_at: now,
                    totals: Totals::default(),
                    error: None,
                };
                reconciled.n_sources_added += 1;
                notes.set(source.id, Note::new(wanted.weight));
                let group_ids = get_or_read(&mut group_ids, store)?;
                add_source(store, settings, wanted, source, group_ids, &notes)?
            }
        };
        if let Some(search) = &wanted.search {
            let group_ids = get_or_read(&mut group_ids, store)?;
            let rows = FollowedRows {
                wanted,
                path: &search.rows,
                now,
            };
            rows.follow(store, &source, group_ids, &mut notes, &mut reconciled)?;
        } else if let (SourceKind::List, Some(path)) = (wanted.kind, &wanted.file) {
            let group_ids = get_or_read(&mut group_ids, store)?;
            let list = Followed {
                wanted,
                path,
                settings,
                now,
            };
            list.follow(
                store,
                source,
                group_ids,
                &mut notes,
                &mut reconciled,
                progress,
            )?;
        } else {
            reweigh(store, &source, wanted.weight, &mut notes)?;
        }
    }
    Ok(reconciled)
}

/// Adds the addresses of a list to a source that is in the store.
///
/// # Errors
/// If the store fails, or if the list cannot be read or has no line that can be used (or,
/// if it is read strictly, one that cannot); then nothing of it is taken in.
pub fn import(
    store: &mut dyn Writer,
    settings: &Settings,
    source: &Source,
    weight: f64,
    list: &List,
    progress: &mut dyn FnMut(Step),
) -> Result<Imported, Error> {
    let mut group_ids = GroupIds::read(store)?;
    let intake = Intake {
        groups: &settings.groups,
        weight,
        max_elements: u64::MAX,
        drops_unlisted: None,
    };
    intake.take(store, source.clone(), list, &mut group_ids, progress)
}

/// What makes a source the one it is, as the store keeps it: where it is.
fn identity_of(source: &SourceSettings) -> String {
    match (&source.file, &source.table) {
        (Some(path), _) => path.display().to_string(),
        // Other rows, or rows by other keys, are another source.
        (None, Some(table)) => {
            let relation = match &table.relation {
                Relation::Table(parts) => parts.join("."),
                Relation::Query(query) => query.clone(),
            };
            match table.key.is_empty() {
                true => format!("{}#{relation}", source.url),
                false => format!("{}#{relation} by {}", source.url, table.key.join(", ")),
            }
        }
        (None, None) => source.url.clone(),
    }
}

/// Whether a source is still what it was. Another address is another source; the file
/// of a list may move, and a search box be asked in another way, since their elements
/// stay what they are.
fn is_same(wanted: &SourceSettings, source: &Source) -> bool {
    let may_move = matches!(wanted.kind, SourceKind::List | SourceKind::Search);
    wanted.kind == source.kind && (may_move || identity_of(wanted) == source.url)
}

/// Whether the elements of a feed are what its entries are to be: pages, or the entries
/// themselves. If not, they are of no use.
fn has_same_entries(
    store: &dyn Reader,
    wanted: &SourceSettings,
    source: &Source,
) -> Result<bool, Error> {
    if wanted.kind != SourceKind::Feed {
        return Ok(true);
    }
    let first = store.elements(Some(source.id), ElementId(0), 2)?;
    let mut roles = first.iter().map(|kept| kept.element.role);
    let role = roles.find(|&role| role != Role::Listing);
    let is_content = wanted.entries == FeedEntries::Content;
    Ok(role.is_none_or(|role| (role == Role::Entry) == is_content))
}

fn get_or_read<'a>(
    group_ids: &'a mut Option<GroupIds>,
    store: &dyn Writer,
) -> Result<&'a mut GroupIds, Error> {
    match group_ids {
        Some(group_ids) => Ok(group_ids),
        none => Ok(none.insert(GroupIds::read(store)?)),
    }
}

/// Writes a new source down, with the element that it starts from.
fn add_source(
    store: &mut dyn Writer,
    settings: &Settings,
    wanted: &SourceSettings,
    mut source: Source,
    group_ids: &mut GroupIds,
    notes: &Notes,
) -> Result<Source, Error> {
    let role = match wanted.kind {
        SourceKind::Page => Some(Role::Page),
        SourceKind::Sitemap | SourceKind::Feed => Some(Role::Listing),
        SourceKind::Site => Some(Role::Hub),
        SourceKind::List | SourceKind::Search | SourceKind::Table => None,
    };
    let mut facts = vec![notes.fact()];
    if wanted.kind == SourceKind::Search {
        return add_search(store, wanted, source, group_ids, facts);
    }
    if wanted.kind == SourceKind::Table {
        return add_table(store, wanted, source, group_ids, facts);
    }
    if let (Some(role), Ok(url)) = (role, locator(&wanted.url)) {
        let (host, group) = groups_of(&url, None, &settings.groups, group_ids, &mut facts)?;
        let id = store.numbers().element()?;
        if role != Role::Listing {
            source.totals.n_elements = 1;
            source.totals.n_new = 1;
        }
        facts.push(Fact::Source(source.clone()));
        facts.push(Fact::Element(Element {
            id,
            source: source.id,
            locator: url.into(),
            group,
            host,
            role,
            weight: wanted.weight as f32,
            depth: 0,
        }));
    } else {
        facts.push(Fact::Source(source.clone()));
    }
    facts.push(Fact::Totals(source.id, source.totals));
    store.commit(&facts)?;
    Ok(source)
}

/// A list that is followed: read again whenever its file has changed.
struct Followed<'a> {
    wanted: &'a SourceSettings,
    path: &'a Path,
    settings: &'a Settings,
    now: Moment,
}

impl Followed<'_> {
    fn follow(
        &self,
        store: &mut dyn Writer,
        mut source: Source,
        group_ids: &mut GroupIds,
        notes: &mut Notes,
        reconciled: &mut Reconciled,
        progress: &mut dyn FnMut(Step),
    ) -> Result<(), Error> {
        let stamp = Stamp::of(self.path, &self.wanted.list);
        let note = notes.get(source.id);
        let is_read = note.is_some_and(|note| {
            note.stamp.is_some() && note.stamp == stamp && note.weight == self.wanted.weight
        });
        if is_read {
            return Ok(());
        }
        let intake = Intake {
            groups: &self.settings.groups,
            weight: self.wanted.weight,
            max_elements: self.wanted.max_elements,
            drops_unlisted: Some(self.now),
        };
        let list = List::file(self.path.to_owned()).read_as(&self.wanted.list);
        match intake.take(store, source.clone(), &list, group_ids, progress) {
            Ok(imported) => {
                let weight = self.wanted.weight;
                notes.set(source.id, Note { stamp, weight });
                let identity = identity_of(self.wanted);
                let mut facts = vec![notes.fact()];
                let failure = imported.lines_left_out().map(|lines| Failure {
                    kind: FailureKind::List,
                    message: format!("{}: {lines}", self.path.display()),
                    at: self.now,
                });
                if source.error.is_some() || failure.is_some() {
                    facts.push(Fact::SourceError(source.id, failure));
                }
                let name = self.wanted.name.clone();
                reconciled.imported.push((name, imported));
                if source.url != identity {
                    // Its totals are what they have become, not what they were.
                    let now = store.sources()?.into_iter().find(|s| s.id == source.id);
                    source = now.unwrap_or(source);
                    source.url = identity;
                    facts.insert(0, Fact::Source(source));
                }
                store.commit(&facts)?;
                Ok(())
            }
            Err(Error::List(error)) => {
                let message = match &error {
                    ListError::Read(cause) => format!("{}: {cause}", self.path.display()),
                    error => format!("{}: {error}", self.path.display()),
                };
                reconciled
                    .failed
                    .push((self.wanted.name.clone(), message.clone()));
                let failure = Failure {
                    kind: FailureKind::List,
                    message,
                    at: self.now,
                };
                store.commit(&[Fact::SourceError(source.id, Some(failure))])?;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

/// Lines left out that the error of a source names.
const MOST_NAMED: usize = 3;

impl Imported {
    /// The lines that could not be used and why, in a sentence; nothing if all could.
    pub(crate) fn lines_left_out(&self) -> Option<String> {
        let first = self.left_out.iter().take(MOST_NAMED);
        let named: Vec<String> = first.map(ToString::to_string).collect();
        let n_more = self.n_bad.checked_sub(named.len() as u64)?;
        let more = match n_more {
            0 => String::new(),
            n => format!("; and {} more", count(n as usize)),
        };
        let n = plural(self.n_bad, "line");
        (self.n_bad > 0).then(|| format!("{n} left out: {}{more}", named.join("; ")))
    }
}

/// How a list is taken in.
struct Intake<'a> {
    groups: &'a [GroupRule],
    weight: f64,
    max_elements: u64,
    /// Elements that it does not name are no longer wanted, as of then.
    drops_unlisted: Option<Moment>,
}

/// Addresses by a digest, sorted, each once; and what has been seen of each.
struct Addresses {
    keys: Vec<u128>,
    /// It is in the store, or was met in the list.
    is_known: Vec<bool>,
    /// It was in the store before.
    is_old: Vec<bool>,
}

impl Addresses {
    fn position(&self, locator: &str) -> Option<usize> {
        self.keys.binary_search(&key_of(locator)).ok()
    }
}

/// Half a digest: no two addresses have the same.
fn key_of(locator: &str) -> u128 {
    let digest = blake3::hash(locator.as_bytes());
    let (half, _) = digest.as_bytes().split_at(16);
    half.iter()
        .fold(0, |key, &byte| key << 8 | u128::from(byte))
}

/// What the reading thread hands to the writing one.
struct Batch {
    facts: Vec<Fact>,
    n_lines: u64,
    n_added: u64,
    /// Elements that were there before, with a weight of their own.
    weights: Vec<(String, f32)>,
}

impl Intake<'_> {
    fn take(
        &self,
        store: &mut dyn Writer,
        source: Source,
        list: &List,
        group_ids: &mut GroupIds,
        progress: &mut dyn FnMut(Step),
    ) -> Result<Imported, Error> {
        let mut imported = Imported::default();
        let mut addresses = check(list, &mut imported, progress)?;
        let mut totals = source.totals;
        self.match_existing(store, &source, &mut addresses, &mut totals, &mut imported)?;

        let numbers = store.numbers();
        let room = self
            .max_elements
            .saturating_sub(totals.n_elements + totals.n_gone);
        // Two at a time: while one is written, the next is read.
        let (batches, ready) = sync_channel::<Result<Batch, Error>>(2);
        let reading = SecondReading {
            intake: self,
            source: source.id,
            room,
            numbers,
        };
        let addresses = &mut addresses;
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                match reading.read(list, addresses, group_ids, &batches) {
                    Ok(n_left_out) => n_left_out,
                    Err(error) => {
                        // If nobody listens any more, they know of an error of their own.
                        let _ = batches.send(Err(error));
                        0
                    }
                }
            });
            let written = write(store, &source, ready, totals, &mut imported, progress);
            imported.n_left_out = thread.join().unwrap_or(0);
            written
        })?;
        imported.n_known = imported
            .n_lines
            .saturating_sub(imported.n_added + imported.n_left_out);
        Ok(imported)
    }

    /// Marks the addresses that the source has already, and drops or brings back
    /// elements as the list has it.
    fn match_existing(
        &self,
        store: &mut dyn Writer,
        source: &Source,
        addresses: &mut Addresses,
        totals: &mut Totals,
        imported: &mut Imported,
    ) -> Result<(), Error> {
        let mut walk = Walk::new(Some(source.id), BATCH);
        while let Some(page) = walk.next(store)? {
            let mut facts = Vec::new();
            for mut kept in page {
                match addresses.position(&kept.element.locator) {
                    Some(position) => {
                        addresses.is_known[position] = true;
                        addresses.is_old[position] = true;
                        if kept.is_unlisted {
                            bring_back(&mut kept, totals);
                            facts.push(Fact::Kept(Box::new(kept)));
                        }
                    }
                    None => {
                        if let (Some(now), false) = (self.drops_unlisted, kept.is_unlisted) {
                            leave_out(&mut kept, totals, now);
                            imported.n_unlisted += 1;
                            facts.push(Fact::Kept(Box::new(kept)));
                        }
                    }
                }
            }
            if !facts.is_empty() {
                facts.push(Fact::Totals(source.id, *totals));
                store.commit(&facts)?;
            }
        }
        Ok(())
    }
}

/// An element that its list no longer names is not polled any more.
fn leave_out(kept: &mut Kept, totals: &mut Totals, now: Moment) {
    if kept.state != State::Gone {
        let less = |count: &mut u64| *count = count.saturating_sub(1);
        less(&mut totals.n_elements);
        match kept.state {
            State::New => less(&mut totals.n_new),
            State::Failing => less(&mut totals.n_failing),
            State::Blocked => less(&mut totals.n_blocked),
            State::Ok | State::Gone => {}
        }
        totals.n_gone += 1;
    }
    kept.state = State::Gone;
    kept.is_unlisted = true;
    kept.failure = Some(Failure {
        kind: FailureKind::Unlisted,
        message: "no longer in its list".to_owned(),
        at: now,
    });
}

fn bring_back(kept: &mut Kept, totals: &mut Totals) {
    if kept.state == State::Gone {
        kept.state = if kept.copy.is_some() {
            State::Ok
        } else {
            State::New
        };
        kept.failure = None;
        kept.n_failures = 0;
        totals.n_gone = totals.n_gone.saturating_sub(1);
        totals.n_elements += 1;
        if kept.state == State::New {
            totals.n_new += 1;
        }
    }
    kept.is_unlisted = false;
}

/// Reads a list for the first time: what can be used of it, and what cannot.
fn check(
    list: &List,
    imported: &mut Imported,
    progress: &mut dyn FnMut(Step),
) -> Result<Addresses, Error> {
    let mut keys = Vec::new();
    let mut n_lines = 0;
    let (n_bad, left_out) = (&mut imported.n_bad, &mut imported.left_out);
    let listed = list.read(|bad| {
        *n_bad += 1;
        if left_out.len() < MOST_LEFT_OUT {
            left_out.push(bad);
        }
    })?;
    for listed in listed {
        let (url, _) = listed?;
        keys.push(key_of(url.as_str()));
        n_lines += 1;
        if n_lines % STRIDE == 0 {
            progress(Step::Checked(STRIDE));
        }
    }
    if keys.is_empty() {
        let error = match imported.left_out.first() {
            Some(first) => ListError::Unusable(first.clone()),
            None => ListError::Empty,
        };
        return Err(error.into());
    }
    keys.sort_unstable();
    keys.dedup();
    let addresses = Addresses {
        is_known: vec![false; keys.len()],
        is_old: vec![false; keys.len()],
        keys,
    };
    imported.n_lines = n_lines;
    Ok(addresses)
}

/// Reads a list for the second time, and makes facts of it.
struct SecondReading<'a> {
    intake: &'a Intake<'a>,
    source: SourceId,
    room: u64,
    numbers: Numbers,
}

impl SecondReading<'_> {
    /// Says how many addresses found no room.
    fn read(
        &self,
        list: &List,
        addresses: &mut Addresses,
        group_ids: &mut GroupIds,
        batches: &SyncSender<Result<Batch, Error>>,
    ) -> Result<u64, Error> {
        let mut batch = Batch::new();
        let (mut n_added, mut n_left_out) = (0, 0);
        for listed in list.read(|_| ())? {
            let (url, listed) = listed?;
            batch.n_lines += 1;
            // A list that changes while it is read brings nothing new.
            let Some(position) = addresses.position(url.as_str()) else {
                continue;
            };
            if addresses.is_known[position] {
                let is_first = std::mem::take(&mut addresses.is_old[position]);
                if is_first && (listed.weight.is_some() || self.intake.drops_unlisted.is_some()) {
                    let weight = self.weight(&listed);
                    batch.weights.push((url.into(), weight));
                }
            } else if n_added >= self.room {
                n_left_out += 1;
            } else {
                addresses.is_known[position] = true;
                let facts = &mut batch.facts;
                let (host, group) = groups_of(
                    &url,
                    listed.group.as_deref(),
                    self.intake.groups,
                    group_ids,
                    facts,
                )?;
                let id = self.numbers.element()?;
                n_added += 1;
                batch.n_added += 1;
                facts.push(Fact::Element(Element {
                    id,
                    source: self.source,
                    locator: url.into(),
                    group,
                    host,
                    role: Role::Page,
                    weight: self.weight(&listed),
                    depth: 0,
                }));
            }
            if batch.n_lines as usize >= BATCH {
                let full = std::mem::replace(&mut batch, Batch::new());
                if batches.send(Ok(full)).is_err() {
                    // The other side has met an error and says so itself.
                    return Ok(n_left_out);
                }
            }
        }
        let _ = batches.send(Ok(batch));
        Ok(n_left_out)
    }

    fn weight(&self, listed: &ListedUrl) -> f32 {
        (self.intake.weight * listed.weight.unwrap_or(1.0)) as f32
    }
}

impl Batch {
    fn new() -> Self {
        Self {
            facts: Vec::with_capacity(BATCH + BATCH / 4),
            n_lines: 0,
            n_added: 0,
            weights: Vec::new(),
        }
    }
}

/// Writes batch after batch, each whole.
fn write(
    store: &mut dyn Writer,
    source: &Source,
    batches: Receiver<Result<Batch, Error>>,
    mut totals: Totals,
    imported: &mut Imported,
    progress: &mut dyn FnMut(Step),
) -> Result<(), Error> {
    for batch in batches {
        let mut batch = batch?;
        for (locator, weight) in batch.weights {
            if let Some(kept) = store.find(source.id, &locator)?
                && kept.element.weight != weight
            {
                let element = Element {
                    weight,
                    ..kept.element
                };
                batch.facts.push(Fact::Element(element));
            }
        }
        if !batch.facts.is_empty() {
            totals.n_elements += batch.n_added;
            totals.n_new += batch.n_added;
            batch.facts.push(Fact::Totals(source.id, totals));
            store.commit(&batch.facts)?;
        }
        imported.n_added += batch.n_added;
        progress(Step::Taken(batch.n_lines, imported.n_lines));
    }
    Ok(())
}

/// The groups of an address. A group of one's own takes the place of directories, within
/// the group that limits are keyed on.
fn groups_of(
    url: &Url,
    own: Option<&str>,
    rules: &[GroupRule],
    group_ids: &mut GroupIds,
    facts: &mut Vec<Fact>,
) -> Result<(springtide_store::GroupId, springtide_store::GroupId), Error> {
    let path = group_of(url, rules);
    let found = match own {
        Some(own) => group_ids.find(&path.key, std::iter::once(own), facts),
        None => {
            let directories = path.directories.iter().map(String::as_str);
            group_ids.find(&path.key, directories, facts)
        }
    };
    Ok(found?)
}

/// Gives all elements of a source another weight, if the source has another.
fn reweigh(
    store: &mut dyn Writer,
    source: &Source,
    weight: f64,
    notes: &mut Notes,
) -> Result<(), Error> {
    let before = notes.get(source.id).map_or(weight, |note| note.weight);
    if before == weight {
        return Ok(());
    }
    let mut walk = Walk::new(Some(source.id), BATCH);
    while let Some(page) = walk.next(store)? {
        let facts: Vec<Fact> = page
            .into_iter()
            .map(|kept| {
                let mut element = kept.element;
                // Weights of their own stay in proportion.
                element.weight = if before > 0.0 {
                    (f64::from(element.weight) * (weight / before)) as f32
                } else {
                    weight as f32
                };
                Fact::Element(element)
            })
            .collect();
        if !facts.is_empty() {
            store.commit(&facts)?;
        }
    }
    notes.set(source.id, Note::new(weight));
    store.commit(&[notes.fact()])?;
    Ok(())
}

/// Puts elements into other groups if the rules are not what they were.
fn regroup(store: &mut dyn Writer, rules: &[GroupRule], notes: &mut Notes) -> Result<(), Error> {
    let keys: Vec<_> = rules
        .iter()
        .map(|rule| (&rule.pattern, &rule.key))
        .collect();
    let digest = *blake3::hash(format!("{keys:?}").as_bytes()).as_bytes();
    if notes.rules == digest {
        return Ok(());
    }
    let groups = store.groups()?;
    // Rows and entries are not grouped by their addresses.
    let is_search = |source: &Source| source.kind == SourceKind::Search;
    let sources = store.sources()?.into_iter().filter(is_search);
    let searches: Vec<SourceId> = sources.map(|source| source.id).collect();
    let mut group_ids = GroupIds::read(store)?;
    let mut walk = Walk::new(None, BATCH);
    while let Some(page) = walk.next(store)? {
        let mut facts = Vec::new();
        for kept in page {
            if searches.contains(&kept.element.source) || kept.element.role == Role::Entry {
                continue;
            }
            let Ok(url) = locator(&kept.element.locator) else {
                continue;
            };
            let key = group_of(&url, rules).key;
            // What is inside stays: it may be a group of the element's own.
            let mut inner = Vec::new();
            let mut group = Some(kept.element.group);
            while let Some(known) = group.and_then(|id| groups.get(id.number() as usize)) {
                group = known.parent;
                if group.is_some() {
                    inner.push(known.name.as_str());
                }
            }
            let inner = inner.into_iter().rev();
            let (host, group) = group_ids.find(&key, inner, &mut facts)?;
            if (host, group) != (kept.element.host, kept.element.group) {
                facts.push(Fact::Element(Element {
                    host,
                    group,
                    ..kept.element
                }));
            }
        }
        if !facts.is_empty() {
            store.commit(&facts)?;
        }
    }
    notes.rules = digest;
    store.commit(&[notes.fact()])?;
    Ok(())
}

/// What was last done for each source, so that it is done again only when there is a
/// reason.
#[derive(Debug, Default)]
struct Notes {
    /// A digest of the rules that elements are grouped by.
    rules: [u8; 32],
    sources: Vec<(SourceId, Note)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Note {
    /// The file of a list when it was read.
    stamp: Option<Stamp>,
    /// The weight that its elements have been given.
    weight: f64,
}

/// A file is what it was if it is as long and as old, and is read in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    n_bytes: u64,
    /// When it was written; mixed with how it is read, if that is not the usual way.
    modified_ns: u64,
}

impl Stamp {
    fn of(path: &Path, list: &ListSettings) -> Option<Self> {
        let metadata = path.metadata().ok()?;
        let modified = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        let way = match *list == ListSettings::default() {
            true => 0,
            false => key_of(&format!("{list:?}")) as u64,
        };
        Some(Self {
            n_bytes: metadata.len(),
            modified_ns: u64::try_from(modified.as_nanos()).ok()? ^ way,
        })
    }
}

impl Note {
    fn new(weight: f64) -> Self {
        let stamp = None;
        Self { stamp, weight }
    }
}

impl Notes {
    const NAME: &'static str = "register";
    /// A source's number, length, time and weight; a length of all ones is none.
    const ENTRY: usize = 4 + 8 + 8 + 8;

    fn read(store: &dyn Reader) -> Result<Self, Error> {
        let bytes = store.note(Self::NAME)?.unwrap_or_default();
        let Some((rules, entries)) = bytes.split_first_chunk::<32>() else {
            return Ok(Self::default());
        };
        let number = |bytes: &[u8]| {
            let mut all = [0; 8];
            all[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(all)
        };
        let entry = |entry: &[u8]| {
            let n_bytes = number(&entry[4..12]);
            let stamp = (n_bytes != u64::MAX).then(|| Stamp {
                n_bytes,
                modified_ns: number(&entry[12..20]),
            });
            let weight = f64::from_bits(number(&entry[20..28]));
            (SourceId(number(&entry[..4]) as u32), Note { stamp, weight })
        };
        Ok(Self {
            rules: *rules,
            sources: entries.chunks_exact(Self::ENTRY).map(entry).collect(),
        })
    }

    fn fact(&self) -> Fact {
        let mut bytes = self.rules.to_vec();
        for (source, note) in &self.sources {
            let (n_bytes, modified_ns) = match note.stamp {
                Some(stamp) => (stamp.n_bytes, stamp.modified_ns),
                None => (u64::MAX, 0),
            };
            bytes.extend(source.0.to_le_bytes());
            bytes.extend(n_bytes.to_le_bytes());
            bytes.extend(modified_ns.to_le_bytes());
            bytes.extend(note.weight.to_bits().to_le_bytes());
        }
        Fact::Note(Self::NAME, Some(bytes))
    }

    fn get(&self, source: SourceId) -> Option<Note> {
        let mut found = self.sources.iter().filter(|(id, _)| *id == source);
        found.next().map(|(_, note)| *note)
    }

    fn set(&mut self, source: SourceId, note: Note) {
        self.forget(source);
        self.sources.push((source, note));
    }

    fn forget(&mut self, source: SourceId) {
        self.sources.retain(|(id, _)| *id != source);
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use springtide_policy::{Objective, Span};
    use springtide_store::Memory;

    use super::*;
    use crate::settings::{
        AllowPrivate, BudgetSettings, FirstPass, GroupKey, HttpSettings, PolicyName, PolicySettings,
    };

    fn settings(sources: Vec<SourceSettings>) -> Settings {
        Settings {
            budget: BudgetSettings {
                per_day: 100.0,
                burst: None,
                window: None,
                audit: 0.02,
                first_pass: FirstPass::Free,
            },
            policy: PolicySettings {
                name: PolicyName::Learned,
                objective: Objective::Freshness,
                max_interval: None,
                cycle: Span::days(30.0).unwrap(),
            },
            http: HttpSettings {
                contact: None,
                timeout: std::time::Duration::from_secs(30),
                max_body: 10_000_000,
                allow_private: AllowPrivate::None,
            },
            groups: Vec::new(),
            sources,
        }
    }

    fn source(name: &str, kind: SourceKind, url: &str, file: Option<PathBuf>) -> SourceSettings {
        SourceSettings {
            name: name.into(),
            kind,
            url: url.into(),
            file,
            list: ListSettings::default(),
            is_paused: false,
            weight: 1.0,
            list_every: None,
            keep: Vec::new(),
            drop: Vec::new(),
            max_elements: u64::MAX,
            max_depth: 5,
            entries: crate::settings::FeedEntries::Pages,
            allow_private: None,
            search: None,
            table: None,
            retain: Default::default(),
        }
    }

    fn run(store: &mut Memory, settings: &Settings) -> Reconciled {
        reconcile(store, settings, Moment(1), &mut |_| {}).unwrap()
    }

    /// All elements of the store: locator, weight, state.
    fn elements(store: &Memory) -> Vec<(String, f32, State)> {
        let all = store.elements(None, ElementId(0), usize::MAX).unwrap();
        all.into_iter()
            .map(|kept| (kept.element.locator, kept.element.weight, kept.state))
            .collect()
    }

    #[test]
    fn sources_come_stay_and_start_from_an_element() {
        let mut store = Memory::new();
        let page = source("page", SourceKind::Page, "http://a.example/x/y", None);
        let sitemap = source("map", SourceKind::Sitemap, "http://a.example/s.xml", None);
        let both = settings(vec![page.clone(), sitemap]);
        assert_eq!(run(&mut store, &both).n_sources_added, 2);
        assert_eq!(run(&mut store, &both), Reconciled::default());
        let sources = store.sources().unwrap();
        assert_eq!(sources[0].totals.n_elements, 1);
        assert_eq!(sources[1].totals.n_elements, 0, "a listing has no copy");
        assert_eq!(elements(&store).len(), 2);

        // Without the sitemap in the settings, all that is known of it is kept.
        assert_eq!(
            run(&mut store, &settings(vec![page.clone()])),
            Reconciled::default()
        );
        assert_eq!(store.sources().unwrap().len(), 2);
        assert_eq!(elements(&store).len(), 2);

        // Another address under the name is another source.
        let other = source("map", SourceKind::Sitemap, "http://a.example/t.xml", None);
        let reconciled = run(&mut store, &settings(vec![page, other]));
        assert_eq!(reconciled.n_sources_added, 1);
        assert_eq!(store.sources().unwrap().len(), 2);
        assert_eq!(elements(&store)[1].0, "http://a.example/t.xml");
    }

    #[test]
    fn a_followed_list_is_read_again_when_it_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("urls.csv");
        std::fs::write(
            &path,
            "url,weight\nhttp://a.example/1,2\nhttp://a.example/2,\n",
        )
        .unwrap();
        let mut store = Memory::new();
        let mut list = source("list", SourceKind::List, "", Some(path.clone()));
        let imported = &run(&mut store, &settings(vec![list.clone()])).imported[0].1;
        assert_eq!((imported.n_lines, imported.n_added), (2, 2));
        let again = run(&mut store, &settings(vec![list.clone()])).imported;
        assert_eq!(again, [], "it was not read");

        std::fs::write(
            &path,
            "url,weight\nhttp://a.example/1,5\nhttp://a.example/33,\n",
        )
        .unwrap();
        let imported = &run(&mut store, &settings(vec![list.clone()])).imported[0].1;
        assert_eq!(
            (imported.n_added, imported.n_known, imported.n_unlisted),
            (1, 1, 1)
        );
        let wanted = [
            ("http://a.example/1".to_owned(), 5.0, State::New),
            ("http://a.example/2".to_owned(), 1.0, State::Gone),
            ("http://a.example/33".to_owned(), 1.0, State::New),
        ];
        assert_eq!(elements(&store), wanted);
        let totals = store.sources().unwrap()[0].totals;
        assert_eq!((totals.n_elements, totals.n_new, totals.n_gone), (2, 2, 1));

        // Back in the list, and everything twice as important.
        std::fs::write(&path, "http://a.example/1\nhttp://a.example/2\n\n").unwrap();
        list.weight = 2.0;
        run(&mut store, &settings(vec![list]));
        let wanted = [
            ("http://a.example/1".to_owned(), 2.0, State::New),
            ("http://a.example/2".to_owned(), 2.0, State::New),
            ("http://a.example/33".to_owned(), 1.0, State::Gone),
        ];
        assert_eq!(elements(&store), wanted);
    }

    #[test]
    fn a_list_that_cannot_be_read_is_an_error_of_its_source_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("urls.txt");
        let list = source("list", SourceKind::List, "", Some(path.clone()));
        let page = source("page", SourceKind::Page, "http://a.example/", None);
        let mut settings = settings(vec![list, page]);
        settings.sources[0].list.is_strict = true;
        let mut store = Memory::new();
        let reconciled = run(&mut store, &settings);
        assert_eq!(
            (reconciled.n_sources_added, reconciled.failed.len()),
            (2, 1)
        );
        assert!(store.sources().unwrap()[0].error.is_some());

        std::fs::write(&path, "http://a.example/1\nnonsense\n").unwrap();
        let failed = run(&mut store, &settings).failed;
        assert!(failed[0].1.contains("line 2: \"nonsense\""), "{failed:?}");
        assert_eq!(elements(&store).len(), 1, "nothing of it was taken in");

        // As long and as old, and read in another way.
        settings.sources[0].list.is_strict = false;
        let reconciled = run(&mut store, &settings);
        assert_eq!((reconciled.failed.len(), elements(&store).len()), (0, 2));
        let error = store.sources().unwrap()[0].error.clone().unwrap();
        let left_out = "1 line left out: line 2: \"nonsense\" is not an http or https address";
        assert!(error.message.contains(left_out), "{}", error.message);
        assert_eq!(run(&mut store, &settings), Reconciled::default());

        std::fs::write(&path, "http://a.example/1\n").unwrap();
        run(&mut store, &settings);
        assert_eq!(store.sources().unwrap()[0].error, None);
        assert_eq!(elements(&store).len(), 2);
    }

    #[test]
    fn an_address_is_taken_in_once_however_often_it_is_listed() {
        let mut store = Memory::new();
        let settings = settings(vec![source("list", SourceKind::List, "", None)]);
        run(&mut store, &settings);
        let known = store.sources().unwrap().remove(0);
        let lines: String = (0..25_000)
            .map(|i| format!("http://host{}.example/d/{}\n", i % 3, i % 12_000))
            .collect();
        let list = List::memory(lines.into());
        let imported = import(&mut store, &settings, &known, 1.0, &list, &mut |_| {}).unwrap();
        assert_eq!((imported.n_lines, imported.n_added), (25_000, 12_000));
        let known = store.sources().unwrap().remove(0);
        assert_eq!(known.totals.n_elements, 12_000);
        let again = import(&mut store, &settings, &known, 1.0, &list, &mut |_| {}).unwrap();
        assert_eq!((again.n_added, again.n_known), (0, 25_000));
        // Three hosts, each with one directory.
        assert_eq!(store.groups().unwrap().len(), 6);
    }

    #[test]
    fn other_rules_put_elements_into_other_groups() {
        let mut store = Memory::new();
        let page = source("page", SourceKind::Page, "http://a.example/x/y", None);
        let mut settings = settings(vec![page]);
        run(&mut store, &settings);
        settings.groups.push(GroupRule {
            pattern: "a.example".into(),
            key: GroupKey::Name("ours".into()),
            gap: Span::ZERO,
            concurrency: 1,
        });
        run(&mut store, &settings);
        let kept = store.element(ElementId(0)).unwrap().unwrap();
        let groups = store.groups().unwrap();
        let group = &groups[kept.element.group.number() as usize];
        let host = &groups[kept.element.host.number() as usize];
        assert_eq!((group.name.as_str(), host.name.as_str()), ("x", "ours"));
        assert_eq!(group.parent, Some(host.id));
    }

    #[test]
    fn notes_read_back_as_they_were_written() {
        let mut store = Memory::new();
        let mut notes = Notes::default();
        notes.rules[3] = 7;
        notes.set(SourceId(5), Note::new(0.5));
        let stamp = Some(Stamp {
            n_bytes: 1,
            modified_ns: 2,
        });
        notes.set(SourceId(6), Note { stamp, weight: 1.0 });
        store.commit(&[notes.fact()]).unwrap();
        let read = Notes::read(&store).unwrap();
        assert_eq!((read.rules, read.sources), (notes.rules, notes.sources));
    }
}
