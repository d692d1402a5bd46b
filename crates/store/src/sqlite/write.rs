//! Keeping facts: one function for each.

use std::collections::{BTreeMap, HashMap};

use rusqlite::{Connection, OptionalExtension, params};

use super::code::{PurposeColumn, memory_key, pause_name};
use super::fault::Result;
use super::locator::Locators;
use super::record::{self, Decoded};
use super::{counter, read};
use crate::{
    Brief, Change, Copy, Element, ElementId, Fact, Failure, FailureKind, Group, GroupId, History,
    Host, Kept, MemoryOf, Poll, Query, Robots, RobotsAnswer, Source, SourceId, State, Totals,
};

/// Records of a source that is removed are cleared in chunks of this many elements,
/// so that memory does not grow with the source.
const CLEARED_AT_ONCE: usize = 10_000;

/// Keeps these facts, inside a transaction.
pub(super) fn all<'a>(connection: &'a Connection, facts: &'a [Fact]) -> Result<()> {
    let mut batch = Batch {
        connection,
        chunks: BTreeMap::new(),
        hosts: BTreeMap::new(),
        memories: BTreeMap::new(),
        n_new: HashMap::new(),
        locators: Locators::load(connection)?,
        next_element: counter::load(connection, counter::NEXT_ELEMENT)?,
        next_source: 0,
    };
    let next_element = batch.next_element;
    for fact in facts {
        batch.keep(fact)?;
    }
    batch.write_chunks()?;
    batch.write_n_new()?;
    for host in batch.hosts.values() {
        batch.host(host)?;
    }
    for (of, bytes) in &batch.memories {
        batch.memory(*of, bytes)?;
    }
    batch.locators.save(connection)?;
    if batch.next_element != next_element {
        counter::save(connection, counter::NEXT_ELEMENT, batch.next_element)?;
    }
    if batch.next_source > 0 {
        counter::raise(connection, counter::NEXT_SOURCE, batch.next_source)?;
    }
    Ok(())
}

/// A batch of facts on its way. What several of them change is written once.
struct Batch<'a> {
    connection: &'a Connection,
    /// Chunks with records that differ from what is written.
    chunks: BTreeMap<u32, Vec<u8>>,
    /// What was said last of hosts, and is to be remembered: polls of one host come
    /// together.
    hosts: BTreeMap<GroupId, &'a Host>,
    memories: BTreeMap<MemoryOf, &'a [u8]>,
    /// How many more new elements hosts have than is written.
    n_new: HashMap<GroupId, i64>,
    locators: Locators,
    /// Above all elements that there are or ever were.
    next_element: i64,
    /// Above all sources of this batch.
    next_source: i64,
}

impl<'a> Batch<'a> {
    fn keep(&mut self, fact: &'a Fact) -> Result<()> {
        match fact {
            Fact::Source(source) => self.source(source),
            Fact::SourceRemoved(source) => self.source_removed(*source),
            Fact::Totals(source, totals) => self.totals(*source, totals),
            Fact::SourceError(source, failure) => self.source_error(*source, failure.as_ref()),
            Fact::Group(group) => self.group(group),
            Fact::Element(element) => self.element(element),
            Fact::Kept(kept) => self.kept(kept),
            Fact::Poll(poll) => self.poll(poll),
            Fact::Change(change) => self.change(change),
            Fact::ChangeForgotten(number) => {
                self.forget("DELETE FROM change WHERE number = ?", *number)
            }
            Fact::VersionForgotten(number) => {
                self.forget("UPDATE change SET body = NULL WHERE number = ?", *number)
            }
            Fact::PollForgotten(number) => {
                self.forget("DELETE FROM poll WHERE number = ?", *number)
            }
            Fact::Query(query) => self.query(query),
            Fact::Host(host) => {
                self.hosts.insert(host.group, host);
                Ok(())
            }
            Fact::Robots(group, robots) => self.robots(*group, robots),
            Fact::Memory(of, bytes) => {
                self.memories.insert(*of, bytes);
                Ok(())
            }
            Fact::Note(name, bytes) => self.note(name, bytes.as_deref()),
        }
    }

    fn source(&mut self, source: &Source) -> Result<()> {
        self.next_source = self.next_source.max(i64::from(source.id.0) + 1);
        let totals = &source.totals;
        let (kind, message, at) = parts(source.error.as_ref());
        self.connection
            .prepare_cached(
                "INSERT OR REPLACE INTO source (id, name, kind, url, added_at, n_elements, n_new, \
                 n_failing, n_blocked, n_gone, n_polls, n_changes, error_kind, error_message, \
                 error_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            )?
            .execute(params![
                source.id,
                source.name,
                source.kind,
                source.url,
                source.added_at,
                totals.n_elements,
                totals.n_new,
                totals.n_failing,
                totals.n_blocked,
                totals.n_gone,
                totals.n_polls,
                totals.n_changes,
                kind,
                message,
                at,
            ])?;
        Ok(())
    }

    fn source_removed(&mut self, source: SourceId) -> Result<()> {
        let connection = self.connection;
        let mut from = 0;
        loop {
            let elements = connection
                .prepare_cached(
                    "SELECT id, host, state = 0 FROM element WHERE source = ? AND id >= ? \
                     ORDER BY id LIMIT ?",
                )?
                .query_map(params![source, from, CLEARED_AT_ONCE as i64], |row| {
                    let is_new: bool = row.get(2)?;
                    Ok((ElementId(row.get(0)?), read::group_id(row, 1)?, is_new))
                })?
                .collect::<Result<Vec<_>, _>>()?;
            for &(element, host, is_new) in &elements {
                self.put_record(element, &record::NONE)?;
                if is_new {
                    *self.n_new.entry(host).or_default() -= 1;
                }
            }
            self.write_chunks()?;
            match elements.last() {
                Some(&(last, ..)) => from = i64::from(last.0) + 1,
                None => break,
            }
        }
        let of = MemoryOf::Search(source);
        self.memories.remove(&of);
        connection
            .prepare_cached("DELETE FROM memory WHERE kind = ? AND number = ?")?
            .execute(memory_key(of))?;
        for statement in [
            "DELETE FROM copy WHERE element IN (SELECT id FROM element WHERE source = ?)",
            "DELETE FROM poll WHERE element IN (SELECT id FROM element WHERE source = ?)",
            "DELETE FROM change WHERE source = ?",
            "DELETE FROM element WHERE source = ?",
            "DELETE FROM query WHERE source = ?",
            "DELETE FROM source WHERE id = ?",
        ] {
            connection.prepare_cached(statement)?.execute([source])?;
        }
        Ok(())
    }

    fn totals(&self, source: SourceId, totals: &Totals) -> Result<()> {
        self.connection
            .prepare_cached(
                "UPDATE source SET n_elements = ?, n_new = ?, n_failing = ?, n_blocked = ?, \
                 n_gone = ?, n_polls = ?, n_changes = ? WHERE id = ?",
            )?
            .execute(params![
                totals.n_elements,
                totals.n_new,
                totals.n_failing,
                totals.n_blocked,
                totals.n_gone,
                totals.n_polls,
                totals.n_changes,
                source,
            ])?;
        Ok(())
    }

    fn source_error(&self, source: SourceId, failure: Option<&Failure>) -> Result<()> {
        let (kind, message, at) = parts(failure);
        self.connection
            .prepare_cached(
                "UPDATE source SET error_kind = ?, error_message = ?, error_at = ? WHERE id = ?",
            )?
            .execute(params![kind, message, at, source])?;
        Ok(())
    }

    fn group(&self, group: &Group) -> Result<()> {
        self.connection
            .prepare_cached(
                "INSERT OR REPLACE INTO element_group (id, parent, name) VALUES (?, ?, ?)",
            )?
            .execute(params![
                group.id.number(),
                group.parent.map(GroupId::number),
                group.name
            ])?;
        Ok(())
    }

    fn element(&mut self, element: &Element) -> Result<()> {
        match self.written(element.id)? {
            Some(old) => {
                if old.element != *element {
                    self.describe(&old.element, element)?;
                    self.count_new(&old, -1);
                    let history = self.history(element.id)?;
                    let kept = Kept {
                        element: element.clone(),
                        ..old
                    };
                    self.count_new(&kept, 1);
                    self.put_brief(&kept, history)?;
                }
                Ok(())
            }
            None => self.insert(&Kept::new(element.clone())),
        }
    }

    fn kept(&mut self, kept: &Kept) -> Result<()> {
        let Some(old) = self.written(kept.element.id)? else {
            return self.insert(kept);
        };
        if old.element != kept.element {
            self.describe(&old.element, &kept.element)?;
        }
        let standing = |kept: &Kept| (kept.state, kept.n_failures, kept.is_unlisted);
        if standing(&old) != standing(kept) || old.failure != kept.failure {
            self.stand(kept)?;
        }
        if old.copy != kept.copy {
            self.copy(kept.element.id, kept.copy.as_ref())?;
        }
        self.count_new(&old, -1);
        self.count_new(kept, 1);
        self.put_brief(kept, kept.history)
    }

    /// What is written of an element, but for its record.
    fn written(&self, element: ElementId) -> Result<Option<Kept>> {
        // Nearly all elements that come in great numbers are new.
        if i64::from(element.0) >= self.next_element {
            return Ok(None);
        }
        let mut statement = self.connection.prepare_cached(read::WRITTEN)?;
        let mut rows = statement.query([element.0])?;
        let row = rows.next()?;
        row.map(|row| read::written(row)).transpose()
    }

    fn insert(&mut self, kept: &Kept) -> Result<()> {
        let element = &kept.element;
        let (kind, message, at) = parts(kept.failure.as_ref());
        self.connection
            .prepare_cached(
                "INSERT INTO element (id, source, locator, group_id, host, role, weight, depth, \
                 state, failure_kind, failure_message, failure_at, n_failures, is_unlisted) \
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            )?
            .execute(params![
                element.id.0,
                element.source,
                element.locator,
                element.group.number(),
                element.host.number(),
                element.role,
                element.weight,
                element.depth,
                kept.state,
                kind,
                message,
                at,
                kept.n_failures,
                kept.is_unlisted,
            ])?;
        self.locators
            .add(self.connection, element.id, &element.locator)?;
        if kept.copy.is_some() {
            self.copy(element.id, kept.copy.as_ref())?;
        }
        self.count_new(kept, 1);
        self.next_element = self.next_element.max(i64::from(element.id.0) + 1);
        self.put_brief(kept, kept.history)
    }

    fn describe(&mut self, old: &Element, element: &Element) -> Result<()> {
        self.connection
            .prepare_cached(
                "UPDATE element SET source = ?, locator = ?, group_id = ?, host = ?, role = ?, \
                 weight = ?, depth = ? WHERE id = ?",
            )?
            .execute(params![
                element.source,
                element.locator,
                element.group.number(),
                element.host.number(),
                element.role,
                element.weight,
                element.depth,
                element.id.0,
            ])?;
        if old.locator != element.locator {
            self.locators
                .add(self.connection, element.id, &element.locator)?;
        }
        Ok(())
    }

    fn stand(&self, kept: &Kept) -> Result<()> {
        let (kind, message, at) = parts(kept.failure.as_ref());
        self.connection
            .prepare_cached(
                "UPDATE element SET state = ?, failure_kind = ?, failure_message = ?, \
                 failure_at = ?, n_failures = ?, is_unlisted = ? WHERE id = ?",
            )?
            .execute(params![
                kept.state,
                kind,
                message,
                at,
                kept.n_failures,
                kept.is_unlisted,
                kept.element.id.0,
            ])?;
        Ok(())
    }

    fn copy(&self, element: ElementId, copy: Option<&Copy>) -> Result<()> {
        let Some(copy) = copy else {
            self.connection
                .prepare_cached("DELETE FROM copy WHERE element = ?")?
                .execute([element.0])?;
            return Ok(());
        };
        let redirect = copy.redirect.as_ref();
        self.connection
            .prepare_cached(
                "INSERT OR REPLACE INTO copy (element, status, etag, last_modified, content_type, \
                 digest, body, n_bytes, fetched_at, changed_at, location, sketch, redirect_to, \
                 redirect_first_at, redirect_last_at, n_redirects, is_move) \
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            )?
            .execute(params![
                element.0,
                copy.status,
                copy.etag,
                copy.last_modified,
                copy.content_type,
                copy.digest,
                copy.body.0,
                copy.n_bytes,
                copy.fetched_at,
                copy.changed_at,
                copy.location,
                copy.sketch,
                redirect.map(|redirect| &redirect.to),
                redirect.map(|redirect| redirect.first_at),
                redirect.map(|redirect| redirect.last_at),
                redirect.map(|redirect| redirect.n_polls),
                redirect.map(|redirect| redirect.is_move),
            ])?;
        Ok(())
    }

    fn poll(&self, poll: &Poll) -> Result<()> {
        self.connection
            .prepare_cached(
                "INSERT INTO poll (element, source, begun_at, at, since, outcome, status, error, \
                 purpose, is_counted, age_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            )?
            .execute(params![
                poll.element.0,
                poll.source,
                poll.begun_at,
                poll.at,
                poll.since,
                poll.outcome,
                poll.status,
                poll.error,
                PurposeColumn(poll.purpose),
                poll.is_counted,
                poll.age_ms,
            ])?;
        Ok(())
    }

    fn forget(&self, statement: &str, number: u64) -> Result<()> {
        let mut statement = self.connection.prepare_cached(statement)?;
        statement.execute([number])?;
        Ok(())
    }

    fn change(&self, change: &Change) -> Result<()> {
        self.connection
            .prepare_cached(
                "INSERT INTO change (element, source, found_at, latest_at, previous_poll_at, kind, \
                 bytes_before, bytes_after, digest, body, content_type, size, version) VALUES (?1, ?2, ?3, \
                 max(?3, coalesce((SELECT latest_at FROM change ORDER BY number DESC LIMIT 1), ?3)), \
                 ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, (?8 IS NOT NULL OR ?9 IS NOT NULL) + coalesce( \
                 (SELECT version FROM change WHERE element = ?1 ORDER BY number DESC LIMIT 1), 0))",
            )?
            .execute(params![
                change.element.0,
                change.source,
                change.found_at,
                change.previous_poll_at,
                change.kind,
                change.bytes_before,
                change.bytes_after,
                change.digest,
                change.body.map(|body| body.0),
                change.content_type,
                change.size,
            ])?;
        Ok(())
    }

    fn query(&self, query: &Query) -> Result<()> {
        self.connection
            .prepare_cached(
                "INSERT OR REPLACE INTO query (source, text, asked_at, n_requests, total, \
                 n_results, n_ours, note, memory) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            )?
            .execute(params![
                query.source,
                query.text,
                query.asked_at,
                query.n_requests,
                // A server may say anything, and a batch must not fail for it.
                query.total.map(u64::cast_signed),
                query.n_results,
                query.n_ours,
                query.note,
                query.memory,
            ])?;
        Ok(())
    }

    fn host(&self, host: &Host) -> Result<()> {
        // Earlier programs wrote hosts with their robots.txt, and told by the digest whether
        // those have to be written. One that is wrong makes them write.
        self.connection
            .prepare_cached(
                "INSERT OR REPLACE INTO host (group_id, requested_at, not_before, \
                 not_before_reason, n_failures, robots_digest) VALUES (?, ?, ?, ?, ?, x'')",
            )?
            .execute(params![
                host.group.number(),
                host.requested_at,
                host.not_before,
                host.pause.map(pause_name),
                host.n_failures,
            ])?;
        Ok(())
    }

    fn robots(&self, group: GroupId, robots: &[Robots]) -> Result<()> {
        self.connection
            .prepare_cached("DELETE FROM robots WHERE group_id = ?")?
            .execute([group.number()])?;
        let mut statement = self.connection.prepare_cached(
            "INSERT INTO robots (group_id, origin, fetched_at, answer, rules) \
             VALUES (?, ?, ?, ?, ?)",
        )?;
        for robots in robots {
            let rules = match &robots.answer {
                RobotsAnswer::Rules(rules) => Some(rules),
                RobotsAnswer::None | RobotsAnswer::Unreachable => None,
            };
            statement.execute(params![
                group.number(),
                robots.origin,
                robots.fetched_at,
                read::robots_code(&robots.answer),
                rules,
            ])?;
        }
        Ok(())
    }

    fn memory(&self, of: MemoryOf, bytes: &[u8]) -> Result<()> {
        let [kind, number] = memory_key(of);
        // What is the same is told with every batch, and writes no page.
        self.connection
            .prepare_cached(
                "INSERT INTO memory (kind, number, bytes) VALUES (?, ?, ?) \
                 ON CONFLICT (kind, number) DO UPDATE SET bytes = excluded.bytes \
                 WHERE bytes <> excluded.bytes",
            )?
            .execute(params![kind, number, bytes])?;
        Ok(())
    }

    fn note(&self, name: &str, bytes: Option<&[u8]>) -> Result<()> {
        match bytes {
            Some(bytes) => self
                .connection
                .prepare_cached("INSERT OR REPLACE INTO note (name, bytes) VALUES (?, ?)")?
                .execute(params![name, bytes])?,
            None => self
                .connection
                .prepare_cached("DELETE FROM note WHERE name = ?")?
                .execute([name])?,
        };
        Ok(())
    }

    fn count_new(&mut self, kept: &Kept, by: i64) {
        if kept.state == State::New {
            *self.n_new.entry(kept.element.host).or_default() += by;
        }
    }

    fn history(&mut self, element: ElementId) -> Result<History> {
        let place = record::place_of(element);
        let chunk = self.chunk(record::chunk_of(element))?;
        match record::decode(&chunk[place..place + record::LENGTH]) {
            Decoded::Of(brief) => Ok(brief.history),
            Decoded::None | Decoded::Damaged => Err(read::no_record(element)),
        }
    }

    fn put_brief(&mut self, kept: &Kept, history: History) -> Result<()> {
        let brief = Brief {
            history,
            ..kept.brief()
        };
        self.put_record(kept.element.id, &record::encode(&brief))
    }

    fn put_record(&mut self, element: ElementId, record: &[u8; record::LENGTH]) -> Result<()> {
        let place = record::place_of(element);
        let chunk = self.chunk(record::chunk_of(element))?;
        chunk[place..place + record::LENGTH].copy_from_slice(record);
        Ok(())
    }

    /// A chunk, to be written at the end; of the right length.
    fn chunk(&mut self, id: u32) -> Result<&mut [u8]> {
        use std::collections::btree_map::Entry;
        match self.chunks.entry(id) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => {
                let bytes: Option<Vec<u8>> = self
                    .connection
                    .prepare_cached("SELECT bytes FROM chunk WHERE id = ?")?
                    .query_row([id], |row| row.get(0))
                    .optional()?;
                let bytes = bytes.unwrap_or_else(|| vec![0; record::CHUNK]);
                if bytes.len() != record::CHUNK {
                    return Err(read::bad_chunk(id));
                }
                Ok(entry.insert(bytes))
            }
        }
    }

    fn write_chunks(&mut self) -> Result<()> {
        for (id, bytes) in std::mem::take(&mut self.chunks) {
            if bytes.iter().all(|byte| *byte == 0) {
                self.connection
                    .prepare_cached("DELETE FROM chunk WHERE id = ?")?
                    .execute([id])?;
            } else {
                self.connection
                    .prepare_cached(
                        "INSERT INTO chunk (id, bytes) VALUES (?, ?) \
                         ON CONFLICT (id) DO UPDATE SET bytes = excluded.bytes",
                    )?
                    .execute(params![id, bytes])?;
            }
        }
        Ok(())
    }

    fn write_n_new(&mut self) -> Result<()> {
        for (host, by) in std::mem::take(&mut self.n_new) {
            if by != 0 {
                self.connection
                    .prepare_cached(
                        "INSERT INTO new_elements (host, n) VALUES (?, ?) \
                         ON CONFLICT (host) DO UPDATE SET n = n + excluded.n",
                    )?
                    .execute(params![host.number(), by])?;
            }
        }
        Ok(())
    }
}

fn parts(failure: Option<&Failure>) -> (Option<FailureKind>, Option<&str>, Option<i64>) {
    match failure {
        Some(failure) => (
            Some(failure.kind),
            Some(&failure.message),
            Some(failure.at.0),
        ),
        None => (None, None, None),
    }
}
