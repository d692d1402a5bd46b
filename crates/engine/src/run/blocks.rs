//! Tables in the loop: which blocks there are, what a poll of one makes of them, and the
//! copies that people read.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use springtide_policy::agenda::Poll;
use springtide_policy::{Span, Time};
use springtide_store::{
    BodyId, ChangeKind, Copy, Element, ElementId, Failure, FailureKind, Kept, Moment, Role,
    SourceId, State, Walk,
};

use super::Engine;
use super::begin::{Address, fail};
use super::conclude::member;
use crate::event::{Event, Polled};
use crate::fetch::FetchFailure;
use crate::keep::{self, Finding, Seen};
use crate::poll::{EndedPoll, PollResult};
use crate::register::table_group;
use crate::settings::TableSettings;
use crate::source::Sighting;
use crate::table::{
    Batch, BlockRead, CONTENT_TYPE, CopiedBlock, CopyFile, CursorRead, CursorState, Range,
    RowChange, Rows, Table, TableRead, TableRequest, TableStatement, Update, Value, cut,
    difference, key_text, limit_of, order,
};
use crate::{Error, clock};

/// Blocks that are next to each other and in one group.
const PER_GROUP: u32 = 32;
/// Blocks that are read at a time when it starts.
const PER_PAGE: usize = 10_000;
/// From so many rows on a read of all of them is something its owner notices.
const MANY_ROWS: usize = 10_000;
/// A poll of a table that failed is tried again after this, in days: a second; and after
/// twice as long with each failure that follows.
const FIRST_RETRY: f64 = 1.0 / 86_400.0;
/// The longest wait between two tries, in days: an hour.
const LONGEST_RETRY: f64 = 1.0 / 24.0;

/// A table that is kept a copy of.
pub(super) struct TableState {
    pub(super) table: Arc<Table>,
    copy: CopyFile,
    pub(super) blocks: BTreeMap<ElementId, Block>,
    /// Blocks by where they begin.
    starts: HashMap<String, ElementId>,
    /// What is to be done to the copy once it is kept.
    pending: Vec<Update>,
    /// How far the cursor has come, if it was polled since the start.
    cursor_high: Option<Value>,
    /// That no index begins with the cursor has been told.
    is_warned: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Block {
    pub(super) range: Range,
    /// How many rows it has, if that is known since the start.
    pub(super) n_rows: Option<usize>,
    /// Its digest has shown that it is not what it was.
    pub(super) differs: bool,
}

/// Which group a new block is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Joins {
    /// That of the block that it is cut from, whose rows it has.
    Whole,
    /// That of the newest blocks: a first pass, or a table that grows, goes on at the end.
    Newest,
}

impl TableState {
    fn set(&mut self, id: ElementId, range: Range, n_rows: Option<usize>) {
        self.forget(id);
        self.starts.insert(start_of(&range), id);
        let differs = false;
        self.blocks.insert(
            id,
            Block {
                range,
                n_rows,
                differs,
            },
        );
    }

    fn forget(&mut self, id: ElementId) {
        if let Some(block) = self.blocks.remove(&id) {
            let start = start_of(&block.range);
            if self.starts.get(&start) == Some(&id) {
                self.starts.remove(&start);
            }
        }
    }

    /// How many of these changes the cursor should have shown, and has not: those of rows
    /// that are gone, or are behind where it has come.
    fn n_missed(&self, columns: &[String], changes: &[RowChange]) -> usize {
        let cursor = self.table.settings.cursor.as_ref();
        let place = cursor.and_then(|name| columns.iter().position(|column| column == name));
        let (Some(place), Some(high)) = (place, &self.cursor_high) else {
            return 0;
        };
        let is_missed = |change: &&RowChange| match &change.after {
            Some(row) => row[place].order(high).is_none_or(Ordering::is_le),
            None => true,
        };
        changes.iter().filter(is_missed).count()
    }

    /// The block after one.
    pub(super) fn next(&self, range: &Range) -> Option<(ElementId, &Block)> {
        let start = key_text(range.to.as_ref()?);
        let id = *self.starts.get(&start)?;
        Some((id, self.blocks.get(&id)?))
    }
}

fn start_of(range: &Range) -> String {
    range
        .from
        .as_ref()
        .map_or_else(String::new, |key| key_text(key))
}

/// At the start.
impl Engine {
    /// Opens the copies of tables, and brings those in step that are not.
    pub(super) fn open_tables(&mut self, now: Moment) -> Result<(), Error> {
        let tables: Vec<(SourceId, TableSettings)> = (self.sources.iter())
            .filter_map(|(id, state)| Some((*id, state.settings.table.clone()?)))
            .collect();
        for (source, settings) in tables {
            let state = &self.sources[&source];
            let contact = self.settings.http.contact.clone();
            let table = Arc::new(Table::new(&state.settings, &settings, contact));
            let copy = CopyFile::open(&settings.copy, &table.name, table.copy_name());
            let copy = copy.map_err(|error| Error::copy(&settings.copy, error))?;
            let mut opened = TableState {
                table,
                copy,
                blocks: BTreeMap::new(),
                starts: HashMap::new(),
                pending: Vec::new(),
                cursor_high: None,
                is_warned: false,
            };
            let (mut kept_blocks, mut cursor) = (Vec::new(), None);
            let mut walk = Walk::new(Some(source), PER_PAGE);
            while let Some(page) = walk.next(self.ledger.store())? {
                for kept in page {
                    match kept.element.role {
                        Role::Listing => cursor = Some(kept),
                        _ if kept.state == State::Gone => {}
                        _ => kept_blocks.push(kept),
                    }
                }
            }
            let copied = self
                .reconcile_copy(&mut opened, &kept_blocks)
                .map_err(|error| Error::copy(&settings.copy, error))?;
            for kept in &kept_blocks {
                if let Some(range) = Range::of_locator(&kept.element.locator) {
                    let id = kept.element.id;
                    opened.set(id, range, copied.get(&id).copied());
                }
            }
            let name = opened.table.name.clone();
            self.tables.insert(source, opened);
            let (host, _) = self.groups_of_block(&name, 0)?;
            let (gap, concurrency) = limit_of(&settings, &self.settings.groups);
            self.agenda.gate_mut().set_limit(host, gap, concurrency);
            self.ensure_cursor(source, &settings, cursor, now)?;
        }
        Ok(())
    }

    /// The outermost group of a table, and that of so many blocks.
    fn groups_of_block(
        &mut self,
        name: &str,
        n_blocks: u32,
    ) -> Result<(springtide_policy::GroupId, springtide_policy::GroupId), Error> {
        let range = format!("{}", n_blocks / PER_GROUP);
        let scheduler = self.agenda.scheduler_mut();
        self.ledger
            .groups_of(&table_group(name), &[range], scheduler)
    }

    /// Sees that there is a cursor where one is wanted, and none where not.
    fn ensure_cursor(
        &mut self,
        source: SourceId,
        settings: &TableSettings,
        cursor: Option<Kept>,
        now: Moment,
    ) -> Result<(), Error> {
        let at = clock::time(now);
        let name = self.tables[&source].table.name.clone();
        let locator = settings
            .cursor
            .as_ref()
            .map(|column| format!("{name}@{column}"));
        if let Some(kept) = &cursor
            && Some(&kept.element.locator) != locator.as_ref()
            && kept.state != State::Gone
        {
            self.retire(
                kept.clone(),
                "the cursor column was changed or removed",
                now,
            );
        }
        let Some(locator) = locator else {
            return Ok(());
        };
        match self.ledger.find(source, &locator)? {
            Some(kept) => {
                if kept.state == State::Gone {
                    self.revive(kept, at);
                }
            }
            None => {
                let (host, _) = self.groups_of_block(&name, 0)?;
                let weight = self.sources[&source].settings.weight as f32;
                let kept = self.ledger.add(Element {
                    id: ElementId(0),
                    source,
                    locator,
                    group: host,
                    host,
                    role: Role::Listing,
                    weight,
                    depth: 0,
                })?;
                let longest = self.longest_listing_wait(source);
                self.agenda.set_listing(kept.element.id, None, longest);
                self.queue_first_poll(&kept, at);
            }
        }
        Ok(())
    }

    /// A new element waits for its first poll.
    fn queue_first_poll(&mut self, kept: &Kept, at: Time) {
        let (host, id) = (kept.element.host, kept.element.id);
        self.new_elements.add(host, id);
        self.agenda.add_new(Some(host), 1, at);
        self.agenda.set_n_known(self.ledger.next_element());
        self.progress.is_first_pass_over = false;
    }

    /// Brings the copy in step with the blocks that are kept, if it is not: a process that
    /// died between keeping something and writing it into the copy left it so. Returns how
    /// many rows blocks have, as far as that is known.
    fn reconcile_copy(
        &mut self,
        opened: &mut TableState,
        blocks: &[Kept],
    ) -> rusqlite::Result<HashMap<ElementId, usize>> {
        let kept: BTreeMap<ElementId, &Copy> = (blocks.iter())
            .filter_map(|kept| Some((kept.element.id, kept.copy.as_ref()?)))
            .collect();
        let known = opened.copy.blocks()?;
        let is_same = known.len() == kept.len()
            && (kept.iter()).all(|(id, copy)| {
                known
                    .get(id)
                    .is_some_and(|(digest, _)| digest[..] == copy.digest[..])
            });
        if is_same {
            let known = known.iter();
            let known = known.filter_map(|(id, (_, n_rows))| Some((*id, (*n_rows)?)));
            return Ok(known.collect());
        }
        let bodies = &self.context.bodies;
        let rows_of = |body: BodyId| Rows::from_body(&bodies.get(body).ok()?);
        let is_known = |id: &ElementId, copy: &Copy| {
            known
                .get(id)
                .is_some_and(|(digest, _)| digest[..] == copy.digest[..])
        };
        // Bodies are called by their digests: those of the copy's blocks say which rows it had.
        let had = known
            .iter()
            .filter(|(id, _)| !kept.get(id).is_some_and(|copy| is_known(id, copy)));
        let had: Option<Vec<BodyId>> = had
            .map(|(_, (digest, _))| Some(BodyId(digest[..].try_into().ok()?)))
            .collect();
        let had = had.filter(|had| had.iter().all(|&body| bodies.contains(body)));
        let mut differing: Vec<(ElementId, &Copy)> = (kept.iter())
            .filter(|(id, copy)| had.is_none() || !is_known(id, copy))
            .map(|(id, copy)| (*id, *copy))
            .collect();
        // The newest says which columns there are.
        differing.sort_by_key(|(_, copy)| copy.fetched_at);
        let all = differing.iter().map(|(_, copy)| *copy).rev();
        let mut all = all.chain(kept.values().copied());
        let newest = all.find_map(|copy| Some((copy, rows_of(copy.body)?)));
        let Some((newest, rows)) = newest else {
            opened.copy.clear()?;
            return Ok(HashMap::new());
        };
        let gone = known.keys().filter(|id| !kept.contains_key(id));
        let now = Update {
            columns: rows.columns,
            key: rows.key,
            columns_before: Vec::new(),
            rows: Vec::new(),
            first: Vec::new(),
            blocks: gone.map(|id| (*id, None)).collect(),
            found_at: newest.fetched_at,
            previous_poll_at: None,
        };
        let blocks = differing
            .iter()
            .filter_map(|(id, copy)| Some((*id, copy.digest, rows_of(copy.body)?)));
        let had = had.map(|had| had.into_iter().filter_map(rows_of));
        let mut n_rows = opened.copy.reconcile(&now, blocks, had)?;
        for (id, (_, rows)) in &known {
            if let (true, Some(rows)) = (kept.contains_key(id), rows) {
                n_rows.entry(*id).or_insert(*rows);
            }
        }
        Ok(n_rows)
    }
}

/// From what the agenda asks for to a statement that may leave.
impl Engine {
    pub(super) fn begin_block(&mut self, poll: Poll, kept: Kept, now: Moment) -> Result<(), Error> {
        let at = clock::time(now);
        let source = kept.element.source;
        let asked = match kept.element.role {
            Role::Listing => {
                let copy = kept.copy.as_ref();
                let body = copy.and_then(|copy| self.context.bodies.get(copy.body).ok());
                let state = body.and_then(|body| CursorState::from_body(&body));
                Some(TableStatement::Cursor(state.unwrap_or_default()))
            }
            _ => self.statement_for(&poll, &kept, at)?,
        };
        let (Some(what), Some(state)) = (asked, self.tables.get(&source)) else {
            self.agenda.give_back(&poll, at);
            let pending = self.pending_poll(kept, Address::nowhere(), &poll, now);
            let failure = FetchFailure::new(FailureKind::Other, "it is not a block of the table");
            return self.conclude(fail(pending, failure, now), now);
        };
        if let TableStatement::Block { others, .. } = &what {
            for (other, _) in others {
                self.agenda.set_under_way(*other);
            }
        }
        let table = Arc::clone(&state.table);
        let mut pending = self.pending_poll(kept, Address::nowhere(), &poll, now);
        pending.table = Some(TableRequest { table, what });
        self.begin(pending);
        Ok(())
    }

    /// What to read for a block: digests, if they will do; else its rows, with those of the
    /// next block if both have become small.
    fn statement_for(
        &self,
        poll: &Poll,
        kept: &Kept,
        at: Time,
    ) -> Result<Option<TableStatement>, Error> {
        let (source, id) = (kept.element.source, kept.element.id);
        let Some(mut range) = Range::of_locator(&kept.element.locator) else {
            return Ok(None);
        };
        let Some(state) = self.tables.get(&source) else {
            return Ok(None);
        };
        let mut others = Vec::new();
        let own = state.blocks.get(&id).and_then(|block| block.n_rows);
        if let (Some(own), Some(own_copy), Some((next, block))) =
            (own, &kept.copy, state.next(&range))
            && let Some(n_rows) = block.n_rows
            && own + n_rows <= state.table.size().to_cut(0) / 2
            && !self.agenda.is_under_way(next)
            && let Some(other) = self.ledger.kept(next)?
            && let Some(copy) = other.copy
            && let n_bytes = (own_copy.n_bytes + copy.n_bytes) as usize
            // By what their own rows have, or they would be cut apart again.
            && let row_bytes = n_bytes.checked_div(own + n_rows).unwrap_or(0)
            && own + n_rows <= state.table.size().to_cut(row_bytes) / 2
        {
            range.to.clone_from(&block.range.to);
            others.push((next, copy));
        } else if let Some(digests) = self.digests_for(poll, kept, &range, at)? {
            return Ok(Some(digests));
        }
        Ok(Some(TableStatement::Block { range, others }))
    }
}

/// From an answer to what follows.
impl Engine {
    pub(super) fn conclude_table(
        &mut self,
        mut ended: EndedPoll,
        now: Moment,
    ) -> Result<(), Error> {
        let read = match &mut ended.found {
            Ok(PollResult::Read(reading)) => reading.table.take(),
            _ => None,
        };
        let others = match ended.poll.table.as_ref().map(|ask| &ask.what) {
            Some(TableStatement::Block { others, .. }) => {
                others.iter().map(|(id, _)| *id).collect()
            }
            _ => Vec::new(),
        };
        for other in &others {
            self.agenda.finish(*other);
        }
        self.progress.n_polls += 1;
        match read.map(|read| *read) {
            Some(TableRead::Block(read)) => self.conclude_block(&ended, *read, &others, now),
            Some(TableRead::Digests(read)) => self.conclude_digests(&ended, read, now),
            Some(TableRead::Cursor(read)) => self.conclude_cursor(&ended, read, now),
            Some(TableRead::NoCursor(why)) => {
                let kept = ended.poll.kept;
                let source = self.ledger.name(kept.element.source);
                self.retire(kept, &why, now);
                let message = why;
                self.pending_events
                    .push(Event::SourceWarned { source, message });
                Ok(())
            }
            None => {
                self.conclude_element(&ended.seen(), now)?;
                Ok(())
            }
        }
    }

    /// When a poll of a table that failed is tried again.
    pub(super) fn table_retry(&self, n_failures: u32, at: Time) -> Time {
        let doubled = FIRST_RETRY * 2_f64.powi(n_failures.clamp(1, 30) as i32 - 1);
        let longest = self.settings.policy.max_interval;
        let longest = longest.map_or(LONGEST_RETRY, |span| span.as_days().min(LONGEST_RETRY));
        let wait = doubled.min(longest).max(FIRST_RETRY / 2.0);
        at + Span::days(wait).expect("a second to an hour")
    }

    fn conclude_block(
        &mut self,
        ended: &EndedPoll,
        read: BlockRead,
        merged: &[ElementId],
        now: Moment,
    ) -> Result<(), Error> {
        let at = clock::time(now);
        let source = ended.poll.kept.element.source;
        let Some(name) = self
            .tables
            .get(&source)
            .map(|state| state.table.name.clone())
        else {
            self.agenda.remove(ended.poll.kept.element.id, at);
            return Ok(());
        };
        let is_first = ended.poll.kept.copy.is_none();
        let n_changed = read.n_changed();
        let has_news = is_first || n_changed > 0 || read.columns != read.columns_before;
        let mut blocks = read.blocks;
        if blocks.is_empty() {
            return Ok(());
        }
        let (range, n_rows, mut sighting) = blocks.remove(index_of_original(&blocks));
        sighting.n_parts = Some(n_changed as u32);
        // The rest of what is known of it stays, whatever its range is now.
        let mut before = ended.poll.kept.clone();
        before.element.locator = range.locator(&name);
        let id = before.element.id;
        let body = sighting.body;
        if !has_news {
            // Its rows are unchanged; only the bounds of blocks moved, which is no change.
            sighting.body = None;
        }
        let seen = Seen {
            before: &before,
            finding: Finding::Here(&sighting),
            ..ended.seen()
        };
        self.conclude_element(&seen, now)?;
        let Some(mut own) = self.ledger.kept(id)? else {
            return Ok(());
        };
        if let (Some(copy), Some(body)) = (&mut own.copy, body) {
            copy.body = body;
            copy.digest = sighting.digest;
            copy.etag.clone_from(&sighting.etag);
            copy.n_bytes = sighting.n_bytes;
            self.ledger.write(own.clone());
        }
        let mut digests = vec![(id, Some(copied(&sighting, n_rows)))];
        self.set_block(source, id, range, Some(n_rows));
        for (range, n_rows, sighting) in blocks {
            let id = self.split_off(&own, &range, &sighting, is_first, now)?;
            digests.push((id, Some(copied(&sighting, n_rows))));
            self.set_block(source, id, range, Some(n_rows));
        }
        match read.rest {
            Some((rest, Some((n_rows, sighting)))) => {
                let id = self.split_off(&own, &rest, &sighting, false, now)?;
                digests.push((id, Some(copied(&sighting, n_rows))));
                self.set_block(source, id, rest, Some(n_rows));
                self.agenda.look_at(id, Some(own.element.host), at);
            }
            Some((rest, None)) => {
                let kept = self.add_block(&own, &rest, Joins::Newest)?;
                self.set_block(source, kept.element.id, rest, None);
                match kept.state {
                    State::Gone => self.revive(kept, at),
                    _ => self.queue_first_poll(&kept, at),
                }
            }
            None => {}
        }
        for &other in merged {
            if let Some(kept) = self.ledger.kept(other)? {
                self.retire(kept, "merged into the block before it", now);
            }
            digests.push((other, None));
            if let Some(state) = self.tables.get_mut(&source) {
                state.forget(other);
            }
        }
        if digests.len() > 1 {
            self.expect();
        }
        if let Some(state) = self.tables.get_mut(&source) {
            if !is_first && read.columns == read.columns_before {
                let n_missed = state.n_missed(&read.columns, &read.rows);
                self.trust.note_cursor(source, 0, n_missed);
            }
            state.pending.push(Update {
                columns: read.columns,
                key: read.key,
                columns_before: read.columns_before,
                rows: read.rows,
                first: read.first,
                blocks: digests,
                found_at: ended.at,
                previous_poll_at: ended.poll.kept.history.synced_at,
            });
        }
        Ok(())
    }

    fn set_block(&mut self, source: SourceId, id: ElementId, range: Range, n_rows: Option<usize>) {
        if let Some(state) = self.tables.get_mut(&source) {
            state.set(id, range, n_rows);
        }
    }

    /// An element for a range that had none of its own, beside the one it was part of.
    fn add_block(&mut self, beside: &Kept, range: &Range, joins: Joins) -> Result<Kept, Error> {
        let source = beside.element.source;
        let (name, n_blocks) = match self.tables.get(&source) {
            Some(state) => (state.table.name.clone(), state.blocks.len() as u32),
            None => (String::new(), 0),
        };
        let locator = range.locator(&name);
        if let Some(kept) = self.ledger.find(source, &locator)? {
            // It was there before, and went into another.
            return Ok(kept);
        }
        let (host, group) = match joins {
            Joins::Whole => (beside.element.host, beside.element.group),
            Joins::Newest => self.groups_of_block(&name, n_blocks)?,
        };
        let kept = self.ledger.add(Element {
            id: ElementId(0),
            locator,
            group,
            host,
            ..beside.element.clone()
        })?;
        self.agenda.set_n_known(self.ledger.next_element());
        Ok(kept)
    }

    /// A part of a block that is a block of its own from now on. What is known of the whole
    /// is known of the part.
    fn split_off(
        &mut self,
        whole: &Kept,
        range: &Range,
        sighting: &Sighting,
        is_first: bool,
        now: Moment,
    ) -> Result<ElementId, Error> {
        let at = clock::time(now);
        let end = Range::of_locator(&whole.element.locator).map(|range| range.to);
        let joins = match is_first || end == Some(None) {
            true => Joins::Newest,
            false => Joins::Whole,
        };
        let before = self.add_block(whole, range, joins)?;
        let id = before.element.id;
        let mut kept = Kept {
            state: State::Ok,
            failure: None,
            n_failures: 0,
            is_unlisted: false,
            copy: whole.copy.as_ref().map(|copy| copy_of_part(copy, sighting)),
            history: whole.history,
            ..before.clone()
        };
        let totals = self.ledger.source(kept.element.source).map(|s| s.totals);
        let n_elements = totals.map_or(0, |totals| totals.n_elements);
        let Element {
            source,
            role,
            weight,
            group,
            ..
        } = kept.element;
        let settings = &self.sources[&source].settings;
        let element = member(settings, role, weight, group, n_elements);
        let whole = whole.element.id;
        self.agenda.join_from(whole, id, element, at, &mut self.rng);
        if let Some(memory) = self.agenda.scheduler().remember(id) {
            kept.history.memory = memory;
        }
        self.ledger.count(&before, &kept, None);
        if is_first {
            let change = keep::change(&before, &kept, now, ChangeKind::Added, None);
            self.ledger.write_change(change);
        }
        self.ledger.write(kept);
        Ok(id)
    }

    /// Whether an element of a table has come to its end.
    pub(super) fn is_retired(&self, kept: &Kept) -> bool {
        let is_of_table = self.tables.contains_key(&kept.element.source);
        is_of_table && kept.state == State::Gone && kept.is_unlisted
    }

    /// Ends an element that was merged into another or is of no more use.
    fn retire(&mut self, before: Kept, why: &str, now: Moment) {
        let mut kept = before.clone();
        kept.state = State::Gone;
        kept.is_unlisted = true;
        kept.copy = None;
        kept.failure = Some(Failure {
            kind: FailureKind::Unlisted,
            message: why.to_owned(),
            at: now,
        });
        self.agenda.remove(kept.element.id, clock::time(now));
        self.ledger.count(&before, &kept, None);
        self.ledger.write(kept);
    }

    /// Has an element that had come to its end polled again.
    fn revive(&mut self, before: Kept, at: Time) {
        let mut kept = before.clone();
        kept.state = State::Failing;
        kept.is_unlisted = false;
        let (id, group) = (kept.element.id, Some(kept.element.host));
        self.ledger.count(&before, &kept, None);
        self.ledger.write(kept);
        self.agenda.look_at(id, group, at);
    }

    /// The event for a block that a statement brought news of without reading it whole.
    pub(super) fn partial_event(&self, kept: &Kept, ended: &EndedPoll) -> Polled {
        Polled {
            element: kept.element.id,
            locator: kept.element.locator.clone(),
            source: self.ledger.name(kept.element.source),
            at: ended.at,
            seconds: clock::millis_between(ended.poll.begun_at, ended.at) as f64 / 1000.0,
            status: None,
            n_bytes: None,
            purpose: ended.poll.purpose,
            change: None,
            differs: false,
            versions: None,
            error: None,
            n_new: self.n_new(),
        }
    }

    /// Takes in the rows that a cursor brought. What it says of a block is not all of it, so
    /// the block is not polled by that; but its copy has them.
    fn conclude_cursor(
        &mut self,
        ended: &EndedPoll,
        read: CursorRead,
        now: Moment,
    ) -> Result<(), Error> {
        let at = clock::time(now);
        let source = ended.poll.kept.element.source;
        self.conclude_element(&ended.seen(), now)?;
        let element = &ended.poll.kept.element;
        if read.is_cut_short {
            self.agenda.look_at(element.id, Some(element.host), at);
        }
        if let Some(state) = self.tables.get_mut(&source) {
            state.cursor_high.clone_from(&read.high);
            let n_rows = state.blocks.values().filter_map(|block| block.n_rows);
            if read.is_indexed == Some(false)
                && !state.is_warned
                && n_rows.sum::<usize>() >= MANY_ROWS
            {
                state.is_warned = true;
                let column = state.table.settings.cursor.as_deref().unwrap_or_default();
                let message = format!(
                    "no index begins with the cursor {column}, so each poll of it may read the \
                     whole table; ask for one, or leave the cursor out"
                );
                let source = self.ledger.name(source);
                self.pending_events
                    .push(Event::SourceWarned { source, message });
            }
        }
        if read.rows.rows.is_empty() {
            return Ok(());
        }
        let mut by_block: BTreeMap<ElementId, Rows> = BTreeMap::new();
        let Some(state) = self.tables.get(&source) else {
            return Ok(());
        };
        let mut blocks: Vec<(&ElementId, &Block)> = state.blocks.iter().collect();
        blocks.sort_by(|(_, a), (_, b)| match (&a.range.from, &b.range.from) {
            (Some(a), Some(b)) => order(a, b).unwrap_or(Ordering::Equal),
            (a, b) => a.is_some().cmp(&b.is_some()),
        });
        for row in &read.rows.rows {
            let key = read.rows.key_of(row);
            let after = blocks.partition_point(|(_, block)| match &block.range.from {
                Some(from) => order(from, &key).is_some_and(Ordering::is_le),
                None => true,
            });
            let Some((id, block)) = after.checked_sub(1).and_then(|at| blocks.get(at)) else {
                continue;
            };
            if block.range.has(&key) == Some(true) {
                let rows = by_block.entry(**id).or_insert_with(|| Rows {
                    rows: Vec::new(),
                    ..read.rows.clone()
                });
                rows.rows.push(row.clone());
            }
        }
        let mut n_shown = 0;
        for (id, rows) in by_block {
            n_shown += self.refresh_block(id, rows, ended, now)?;
        }
        self.trust.note_cursor(source, n_shown, 0);
        Ok(())
    }

    /// Rows of a block as they are now; of the rest of it nothing is said. Says how many of
    /// them are news.
    fn refresh_block(
        &mut self,
        id: ElementId,
        news: Rows,
        ended: &EndedPoll,
        now: Moment,
    ) -> Result<usize, Error> {
        // One that is being read will show them too.
        let kept = self
            .ledger
            .kept(id)?
            .filter(|_| !self.agenda.is_under_way(id));
        let Some((kept, copy)) = kept.and_then(|kept| Some((kept.clone(), kept.copy?))) else {
            return Ok(0);
        };
        let body = self.context.bodies.get(copy.body).ok();
        let before = body.and_then(|body| Rows::from_body(&body));
        let Some(before) = before.filter(|before| before.columns == news.columns) else {
            return Ok(0);
        };
        let mut after = before.clone();
        let places: HashMap<String, usize> = (before.rows.iter().enumerate())
            .map(|(at, row)| (key_text(&before.key_of(row)), at))
            .collect();
        for row in news.rows {
            match places.get(&key_text(&before.key_of(&row))) {
                Some(&at) => after.rows[at] = row,
                None => after.rows.push(row),
            }
        }
        after
            .rows
            .sort_by(|a, b| order(&before.key_of(a), &before.key_of(b)).unwrap_or(Ordering::Equal));
        let rows = difference(&before, vec![after.clone()]);
        if rows.is_empty() {
            return Ok(0);
        }
        let n_news = rows.len();
        let source = kept.element.source;
        let Some(state) = self.tables.get(&source) else {
            return Ok(0);
        };
        let Some(range) = state.blocks.get(&id).map(|block| block.range.clone()) else {
            return Ok(0);
        };
        let (name, size) = (state.table.name.clone(), state.table.size());
        let (columns, key) = (after.columns.clone(), after.key.clone());
        let mut pieces = Vec::new();
        let n_bytes = Batch::of_rows(columns.len(), &after.rows).row_bytes();
        let key_at = |row: usize| after.key_of(&after.rows[row]);
        let cut = cut(
            &range,
            after.rows.len(),
            size.to_cut(n_bytes),
            false,
            key_at,
        );
        for (range, span) in cut.blocks {
            let rows = Rows {
                columns: columns.clone(),
                key: key.clone(),
                rows: after.rows[span].to_vec(),
            };
            let body = rows.to_body();
            let sighting = Sighting {
                body: Some(self.context.bodies.put(&body)?),
                n_bytes: body.len() as u64,
                content_type: Some(CONTENT_TYPE.to_owned()),
                ..Sighting::unchanged(*blake3::hash(&body).as_bytes())
            };
            pieces.push((range, rows.rows.len(), sighting));
        }
        let mut digests = Vec::new();
        if pieces.is_empty() {
            return Ok(0);
        }
        let (range, n_rows, sighting) = pieces.remove(index_of_original(&pieces));
        let mut own = kept.clone();
        own.element.locator = range.locator(&name);
        own.copy = Some(Copy {
            fetched_at: ended.at,
            changed_at: Some(ended.at),
            ..copy_of_part(&copy, &sighting)
        });
        let change = keep::change(&kept, &own, ended.at, ChangeKind::Changed, None);
        self.ledger.write_change(change);
        self.progress.n_changes += 1;
        self.pending_events.push(Event::Polled(Polled {
            n_bytes: Some(sighting.n_bytes),
            change: Some(ChangeKind::Changed),
            versions: sighting.body.map(|body| (copy.body, body)),
            ..self.partial_event(&own, ended)
        }));
        self.ledger.write(own.clone());
        digests.push((id, Some(copied(&sighting, n_rows))));
        self.set_block(source, id, range, Some(n_rows));
        for (range, n_rows, sighting) in pieces {
            let id = self.split_off(&own, &range, &sighting, false, now)?;
            digests.push((id, Some(copied(&sighting, n_rows))));
            self.set_block(source, id, range, Some(n_rows));
        }
        let n_elements = digests.len() as u64 - 1;
        if n_elements > 0 {
            let source = self.ledger.name(source);
            self.pending_events
                .push(Event::Found { source, n_elements });
            self.expect();
        }
        if let Some(state) = self.tables.get_mut(&source) {
            state.pending.push(Update {
                columns_before: columns.clone(),
                columns,
                key,
                rows,
                first: Vec::new(),
                blocks: digests,
                found_at: ended.at,
                previous_poll_at: ended.poll.kept.history.synced_at,
            });
        }
        Ok(n_news)
    }

    /// Copies follow what has been kept.
    pub(super) fn apply_to_copies(&mut self) -> Result<(), Error> {
        for state in self.tables.values_mut() {
            if state.pending.is_empty() {
                continue;
            }
            let updates = std::mem::take(&mut state.pending);
            let applied = state.copy.apply(&updates);
            let path = &state.table.settings.copy;
            applied.map_err(|error| Error::copy(path, error))?;
        }
        Ok(())
    }
}

/// Which part of a block that was cut remains the element it was: the last where the table
/// grows at its end, else the first.
fn index_of_original(parts: &[(Range, usize, Sighting)]) -> usize {
    match parts.last() {
        Some((last, ..)) if last.to.is_none() => parts.len() - 1,
        _ => 0,
    }
}

/// What the copy says of a block.
fn copied(sighting: &Sighting, n_rows: usize) -> CopiedBlock {
    CopiedBlock {
        digest: sighting.digest,
        n_rows,
    }
}

/// The copy of a part of a block that there was a copy of.
fn copy_of_part(whole: &Copy, sighting: &Sighting) -> Copy {
    Copy {
        etag: sighting.etag.clone(),
        digest: sighting.digest,
        body: sighting.body.unwrap_or(whole.body),
        n_bytes: sighting.n_bytes,
        content_type: sighting.content_type.clone(),
        ..whole.clone()
    }
}
