//! Reading facts: one function for each question.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::code::{PurposeColumn, memory_key, pause_named};
use super::counter;
use super::fault::{Fault, Result, damaged};
use super::locator::{self, candidates};
use super::record::{self, Decoded};
use crate::{
    Audit, BodyId, Brief, Change, ChangeFilter, Copy, Element, ElementId, Failure, Group, GroupId,
    History, Host, Kept, KeptPoll, MemoryOf, Moment, Poll, Query, Redirect, Robots, RobotsAnswer,
    Source, SourceId, Totals,
};

pub(super) fn sources(connection: &Connection) -> Result<Vec<Source>> {
    let mut statement = connection.prepare_cached(
        "SELECT id, name, kind, url, added_at, n_elements, n_new, n_failing, n_blocked, n_gone, \
         n_polls, n_changes, error_kind, error_message, error_at FROM source ORDER BY id",
    )?;
    let sources = statement.query_map([], |row| {
        Ok(Source {
            id: row.get(0)?,
            name: row.get(1)?,
            kind: row.get(2)?,
            url: row.get(3)?,
            added_at: row.get(4)?,
            totals: Totals {
                n_elements: row.get(5)?,
                n_new: row.get(6)?,
                n_failing: row.get(7)?,
                n_blocked: row.get(8)?,
                n_gone: row.get(9)?,
                n_polls: row.get(10)?,
                n_changes: row.get(11)?,
            },
            error: failure(row, 12)?,
        })
    })?;
    Ok(sources.collect::<Result<_, _>>()?)
}

pub(super) fn groups(connection: &Connection) -> Result<Vec<Group>> {
    let mut statement =
        connection.prepare_cached("SELECT id, parent, name FROM element_group ORDER BY id")?;
    let groups = statement.query_map([], group)?;
    Ok(groups.collect::<Result<_, _>>()?)
}

pub(super) fn groups_by_id(connection: &Connection, ids: &[GroupId]) -> Result<Vec<Group>> {
    let mut statement =
        connection.prepare_cached("SELECT id, parent, name FROM element_group WHERE id = ?")?;
    let mut groups = Vec::with_capacity(ids.len());
    for id in ids {
        groups.extend(statement.query_row([id.number()], group).optional()?);
    }
    Ok(groups)
}

pub(super) fn hosts(connection: &Connection) -> Result<Vec<Host>> {
    let mut statement = connection.prepare_cached(
        "SELECT group_id, requested_at, not_before, not_before_reason, n_failures FROM host \
         ORDER BY group_id",
    )?;
    let hosts = statement.query_map([], |row| {
        Ok(Host {
            group: group_id(row, 0)?,
            requested_at: row.get(1)?,
            not_before: row.get(2)?,
            pause: row.get::<_, Option<String>>(3)?.map(pause_named),
            n_failures: row.get(4)?,
        })
    })?;
    Ok(hosts.collect::<Result<_, _>>()?)
}

pub(super) fn robots(connection: &Connection) -> Result<Vec<(GroupId, Vec<Robots>)>> {
    let mut robots: BTreeMap<GroupId, Vec<Robots>> = BTreeMap::new();
    let mut statement = connection.prepare_cached(
        "SELECT group_id, origin, fetched_at, answer, rules FROM robots ORDER BY number",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let answer = match (row.get(3)?, row.get(4)?) {
            (0_u8, Some(rules)) => RobotsAnswer::Rules(rules),
            (1, None) => RobotsAnswer::None,
            (2, None) => RobotsAnswer::Unreachable,
            _ => return Err(damaged("a robots.txt cannot be read")),
        };
        robots.entry(group_id(row, 0)?).or_default().push(Robots {
            origin: row.get(1)?,
            fetched_at: row.get(2)?,
            answer,
        });
    }
    Ok(robots.into_iter().collect())
}

/// The number by which an answer is written.
pub(super) fn robots_code(answer: &RobotsAnswer) -> u8 {
    match answer {
        RobotsAnswer::Rules(_) => 0,
        RobotsAnswer::None => 1,
        RobotsAnswer::Unreachable => 2,
    }
}

pub(super) fn memory(connection: &Connection, of: MemoryOf) -> Result<Option<Vec<u8>>> {
    let mut statement = connection.prepare_cached(MEMORY)?;
    let bytes = statement.query_row(memory_key(of), |row| row.get(0));
    Ok(bytes.optional()?)
}

const MEMORY: &str = "SELECT bytes FROM memory WHERE kind = ? AND number = ?";

pub(super) fn group_memories(connection: &Connection) -> Result<Vec<(GroupId, Vec<u8>)>> {
    let mut statement = connection
        .prepare_cached("SELECT number, bytes FROM memory WHERE kind = 3 ORDER BY number")?;
    let memories = statement.query_map([], |row| Ok((group_id(row, 0)?, row.get(1)?)))?;
    Ok(memories.collect::<Result<_, _>>()?)
}

pub(super) fn group_memories_by_id(
    connection: &Connection,
    ids: &[GroupId],
) -> Result<Vec<(GroupId, Vec<u8>)>> {
    let mut memories = Vec::with_capacity(ids.len());
    for &id in ids {
        let memory = memory(connection, MemoryOf::Group(id))?;
        memories.extend(memory.map(|memory| (id, memory)));
    }
    Ok(memories)
}

pub(super) fn note(connection: &Connection, name: &str) -> Result<Option<Vec<u8>>> {
    let mut statement = connection.prepare_cached("SELECT bytes FROM note WHERE name = ?")?;
    Ok(statement.query_row([name], |row| row.get(0)).optional()?)
}

pub(super) fn next_element(connection: &Connection) -> Result<u32> {
    let next = counter::load(connection, counter::NEXT_ELEMENT)?;
    u32::try_from(next).map_err(|_| damaged(format!("the next element is {next}")))
}

/// What is known of an element but for its record.
macro_rules! written {
    () => {
        "e.id, e.source, e.locator, e.group_id, e.host, e.role, e.weight, e.depth, e.state, \
         e.failure_kind, e.failure_message, e.failure_at, e.n_failures, e.is_unlisted, \
         c.status, c.etag, c.last_modified, c.content_type, c.digest, c.body, c.n_bytes, \
         c.fetched_at, c.changed_at, c.location, c.sketch, \
         c.redirect_to, c.redirect_first_at, c.redirect_last_at, c.n_redirects, c.is_move"
    };
}

/// All that is known of elements, in one statement, so that a reader beside the
/// writer never sees the halves of two commits.
macro_rules! kept {
    ($rest:expr) => {
        concat!(
            "SELECT ",
            written!(),
            ", k.bytes FROM element e LEFT JOIN copy c ON c.element = e.id \
             LEFT JOIN chunk k ON k.id = e.id / 60 ",
            $rest
        )
    };
}

// The statement above has the number written out.
const _: () = assert!(record::PER_CHUNK == 60);

pub(super) const WRITTEN: &str = concat!(
    "SELECT ",
    written!(),
    " FROM element e LEFT JOIN copy c ON c.element = e.id WHERE e.id = ?"
);

/// [`WRITTEN`] for all elements, in the order of their numbers.
pub(super) const ALL_WRITTEN: &str = concat!(
    "SELECT ",
    written!(),
    " FROM element e LEFT JOIN copy c ON c.element = e.id ORDER BY e.id"
);

/// A row of [`WRITTEN`], with an empty history.
pub(super) fn written(row: &Row<'_>) -> Result<Kept> {
    let status: Option<u16> = row.get(14)?;
    let copy = match status {
        Some(status) => Some(Copy {
            status,
            etag: row.get(15)?,
            last_modified: row.get(16)?,
            content_type: row.get(17)?,
            digest: row.get(18)?,
            body: BodyId(row.get(19)?),
            n_bytes: row.get(20)?,
            fetched_at: row.get(21)?,
            changed_at: row.get(22)?,
            location: row.get(23)?,
            sketch: row.get(24)?,
            redirect: redirect(row)?,
        }),
        None => None,
    };
    Ok(Kept {
        element: Element {
            id: ElementId(row.get(0)?),
            source: row.get(1)?,
            locator: row.get(2)?,
            group: group_id(row, 3)?,
            host: group_id(row, 4)?,
            role: row.get(5)?,
            weight: row.get(6)?,
            depth: row.get(7)?,
        },
        state: row.get(8)?,
        failure: failure(row, 9)?,
        n_failures: row.get(12)?,
        is_unlisted: row.get(13)?,
        copy,
        history: History::default(),
    })
}

fn redirect(row: &Row<'_>) -> Result<Option<Redirect>> {
    let Some(to) = row.get(25)? else {
        return Ok(None);
    };
    Ok(Some(Redirect {
        to,
        first_at: row.get(26)?,
        last_at: row.get(27)?,
        n_polls: row.get(28)?,
        is_move: row.get(29)?,
    }))
}

fn kept(row: &Row<'_>) -> Result<Kept> {
    let mut kept = written(row)?;
    let id = kept.element.id;
    let bytes = row.get_ref(30)?.as_blob_or_null();
    let bytes = bytes.map_err(rusqlite::Error::from)?.unwrap_or_default();
    let place = record::place_of(id);
    let record = bytes.get(place..place + record::LENGTH);
    match record.map(record::decode) {
        Some(Decoded::Of(brief)) => kept.history = brief.history,
        _ => return Err(no_record(id)),
    }
    Ok(kept)
}

pub(super) fn no_record(element: ElementId) -> Fault {
    damaged(format!("element {} has no record", element.0))
}

pub(super) fn bad_chunk(chunk: u32) -> Fault {
    let first = chunk.saturating_mul(record::PER_CHUNK);
    let last = first.saturating_add(record::PER_CHUNK - 1);
    damaged(format!(
        "the records of elements {first} to {last} cannot be read"
    ))
}

fn query_kept(
    connection: &Connection,
    statement: &str,
    parameters: impl rusqlite::Params,
) -> Result<Vec<Kept>> {
    let mut statement = connection.prepare_cached(statement)?;
    let mut rows = statement.query(parameters)?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        all.push(kept(row)?);
    }
    Ok(all)
}

pub(super) fn element(connection: &Connection, id: ElementId) -> Result<Option<Kept>> {
    Ok(query_kept(connection, kept!("WHERE e.id = ?"), [id.0])?.pop())
}

pub(super) fn find(
    connection: &Connection,
    source: SourceId,
    locator: &str,
) -> Result<Option<Kept>> {
    let statement = kept!(concat!(
        "WHERE e.id IN ",
        candidates!(),
        // The sign keeps the index of sources out of it.
        " AND e.locator = ?2 AND +e.source = ?3 ORDER BY e.id LIMIT 1"
    ));
    let parameters = params![locator::hash(locator), locator, source];
    Ok(query_kept(connection, statement, parameters)?.pop())
}

pub(super) fn find_ids(
    connection: &Connection,
    source: SourceId,
    locators: &[&str],
) -> Result<Vec<Option<ElementId>>> {
    // Locks are taken once, not for each.
    let transaction = connection.unchecked_transaction()?;
    let mut statement = connection.prepare_cached(concat!(
        "SELECT min(e.id) FROM ",
        candidates!(),
        " l CROSS JOIN element e ON e.id = l.element WHERE e.locator = ?2 AND +e.source = ?3"
    ))?;
    // In the order of the trees, where neighbours share pages.
    let mut hashes: Vec<(i64, usize)> = locators
        .iter()
        .enumerate()
        .map(|(index, locator)| (locator::hash(locator), index))
        .collect();
    hashes.sort_unstable();
    let mut ids = vec![None; locators.len()];
    for (hash, index) in hashes {
        let parameters = params![hash, locators[index], source];
        let id: Option<u32> = statement.query_row(parameters, |row| row.get(0))?;
        ids[index] = id.map(ElementId);
    }
    drop(statement);
    transaction.commit()?;
    Ok(ids)
}

pub(super) fn redirected_to(
    connection: &Connection,
    source: SourceId,
    address: &str,
    limit: usize,
) -> Result<Vec<ElementId>> {
    let mut statement = connection.prepare_cached(
        "SELECT c.element FROM copy c CROSS JOIN element e ON e.id = c.element \
         WHERE c.redirect_to = ?1 AND +e.source = ?2 ORDER BY c.element LIMIT ?3",
    )?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let ids = statement.query_map(params![address, source, limit], |row| row.get(0))?;
    ids.map(|id| Ok(ElementId(id?))).collect()
}

pub(super) fn find_all(connection: &Connection, locator: &str) -> Result<Vec<Kept>> {
    let statement = kept!(concat!(
        "WHERE e.id IN ",
        candidates!(),
        " AND e.locator = ?2 ORDER BY e.id"
    ));
    query_kept(
        connection,
        statement,
        params![locator::hash(locator), locator],
    )
}

pub(super) fn elements(
    connection: &Connection,
    source: Option<SourceId>,
    from: ElementId,
    limit: usize,
) -> Result<Vec<Kept>> {
    let limit = at_most(limit);
    match source {
        Some(source) => query_kept(
            connection,
            kept!("WHERE e.source = ? AND e.id >= ? ORDER BY e.id LIMIT ?"),
            params![source, from.0, limit],
        ),
        None => query_kept(
            connection,
            kept!("WHERE e.id >= ? ORDER BY e.id LIMIT ?"),
            params![from.0, limit],
        ),
    }
}

pub(super) fn new_elements(
    connection: &Connection,
    host: GroupId,
    from: ElementId,
    limit: usize,
) -> Result<Vec<ElementId>> {
    let mut statement = connection.prepare_cached(
        "SELECT id FROM element WHERE state = 0 AND host = ? AND id >= ? ORDER BY id LIMIT ?",
    )?;
    let ids = statement.query_map(params![host.number(), from.0, at_most(limit)], |row| {
        row.get(0).map(ElementId)
    })?;
    Ok(ids.collect::<Result<_, _>>()?)
}

pub(super) fn n_new(connection: &Connection) -> Result<Vec<(GroupId, u64)>> {
    let mut statement =
        connection.prepare_cached("SELECT host, n FROM new_elements WHERE n > 0 ORDER BY host")?;
    let counts = statement.query_map([], |row| Ok((group_id(row, 0)?, row.get(1)?)))?;
    Ok(counts.collect::<Result<_, _>>()?)
}

pub(super) fn scan(
    connection: &Connection,
    stride: usize,
    each: &mut dyn FnMut(ElementId, &Brief),
) -> Result<()> {
    if stride <= 1 {
        let mut statement = connection.prepare_cached("SELECT id, bytes FROM chunk ORDER BY id")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            scan_chunk(row, each)?;
        }
        return Ok(());
    }
    // To walk past a chunk is to read its page, so the others are not walked past.
    let last: Option<u32> = connection
        .prepare_cached("SELECT max(id) FROM chunk")?
        .query_row([], |row| row.get(0))?;
    let Some(last) = last else { return Ok(()) };
    let mut statement = connection.prepare_cached("SELECT id, bytes FROM chunk WHERE id = ?")?;
    for chunk in (0..=last).step_by(stride) {
        let mut rows = statement.query([chunk])?;
        if let Some(row) = rows.next()? {
            scan_chunk(row, each)?;
        }
    }
    Ok(())
}

fn scan_chunk(row: &Row<'_>, each: &mut dyn FnMut(ElementId, &Brief)) -> Result<()> {
    let chunk = row.get(0)?;
    let bytes = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
    if bytes.len() != record::CHUNK {
        return Err(bad_chunk(chunk));
    }
    for (index, record) in bytes.chunks_exact(record::LENGTH).enumerate() {
        match (record::decode(record), record::element_at(chunk, index)) {
            (Decoded::None, _) => {}
            (Decoded::Of(brief), Some(element)) => each(element, &brief),
            _ => return Err(bad_chunk(chunk)),
        }
    }
    Ok(())
}

pub(super) fn changes(
    connection: &Connection,
    filter: &ChangeFilter,
    before: Option<u64>,
    limit: usize,
) -> Result<Vec<Change>> {
    macro_rules! changes {
        ($which:literal) => {
            concat!(
                "SELECT number, element, source, found_at, previous_poll_at, kind, bytes_before, \
                 bytes_after, digest, body, content_type, size, version FROM change \
                 WHERE number >= ?1 AND number < ?2 AND found_at >= ?3 \
                 AND (?4 IS NULL OR source = ?4) AND (?5 IS NULL OR element = ?5) ",
                $which,
                " ORDER BY number DESC LIMIT ?6"
            )
        };
    }
    let statement = match (filter.source, filter.element) {
        (_, Some(_)) => changes!("AND element = ?5"),
        (Some(_), None) => changes!("AND source = ?4"),
        (None, None) => changes!(""),
    };
    let first = match filter.since {
        Some(since) => first_change_since(connection, since)?,
        None => 0,
    };
    let before = before.map_or(i64::MAX, |before| i64::try_from(before).unwrap_or(i64::MAX));
    let mut statement = connection.prepare_cached(statement)?;
    let changes = statement.query_map(
        params![
            first,
            before,
            filter.since.map_or(i64::MIN, |since| since.0),
            filter.source,
            filter.element.map(|element| element.0),
            at_most(limit),
        ],
        change,
    )?;
    Ok(changes.collect::<Result<_, _>>()?)
}

fn change(row: &Row<'_>) -> rusqlite::Result<Change> {
    let body: Option<[u8; 32]> = row.get(9)?;
    Ok(Change {
        number: row.get(0)?,
        element: ElementId(row.get(1)?),
        source: row.get(2)?,
        found_at: row.get(3)?,
        previous_poll_at: row.get(4)?,
        kind: row.get(5)?,
        bytes_before: row.get(6)?,
        bytes_after: row.get(7)?,
        digest: row.get(8)?,
        body: body.map(BodyId),
        content_type: row.get(10)?,
        size: row.get(11)?,
        version: row.get(12)?,
    })
}

pub(super) fn changes_after(
    connection: &Connection,
    after: u64,
    limit: usize,
) -> Result<Vec<Change>> {
    let mut statement = connection.prepare_cached(
        "SELECT number, element, source, found_at, previous_poll_at, kind, bytes_before, \
         bytes_after, digest, body, content_type, size, version FROM change \
         WHERE number > ? ORDER BY number LIMIT ?",
    )?;
    let changes = statement.query_map(params![after, at_most(limit)], change)?;
    Ok(changes.collect::<Result<_, _>>()?)
}

pub(super) fn polls_after(
    connection: &Connection,
    after: u64,
    limit: usize,
) -> Result<Vec<KeptPoll>> {
    let mut statement = connection.prepare_cached(
        "SELECT number, source, at FROM poll WHERE number > ? ORDER BY number LIMIT ?",
    )?;
    let polls = statement.query_map(params![after, at_most(limit)], |row| {
        Ok(KeptPoll {
            number: row.get(0)?,
            source: row.get(1)?,
            at: row.get(2)?,
        })
    })?;
    Ok(polls.collect::<Result<_, _>>()?)
}

/// A number below which no change was found since then, by halving.
fn first_change_since(connection: &Connection, since: Moment) -> Result<i64> {
    let last: Option<i64> = connection
        .prepare_cached("SELECT max(number) FROM change")?
        .query_row([], |row| row.get(0))?;
    let mut statement = connection.prepare_cached(
        "SELECT number, latest_at FROM change WHERE number >= ? ORDER BY number LIMIT 1",
    )?;
    let (mut low, mut high) = (0, last.unwrap_or(0));
    while low < high {
        let middle = low + (high - low) / 2;
        let found = statement
            .query_row([middle], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        match found {
            Some((number, latest_at)) if Moment(latest_at) < since => {
                let number: i64 = number;
                low = number.saturating_add(1);
            }
            _ => high = middle,
        }
    }
    Ok(low)
}

macro_rules! poll {
    ($rest:literal) => {
        concat!(
            "SELECT element, source, begun_at, at, since, outcome, status, error, purpose, \
             is_counted, age_ms FROM poll ",
            $rest
        )
    };
}

fn poll(row: &Row<'_>) -> rusqlite::Result<Poll> {
    Ok(Poll {
        element: ElementId(row.get(0)?),
        source: row.get(1)?,
        begun_at: row.get(2)?,
        at: row.get(3)?,
        since: row.get(4)?,
        outcome: row.get(5)?,
        status: row.get(6)?,
        error: row.get(7)?,
        purpose: row.get::<_, PurposeColumn>(8)?.0,
        is_counted: row.get(9)?,
        age_ms: row.get(10)?,
    })
}

pub(super) fn polls(
    connection: &Connection,
    element: ElementId,
    limit: usize,
) -> Result<Vec<Poll>> {
    let mut statement =
        connection.prepare_cached(poll!("WHERE element = ? ORDER BY number DESC LIMIT ?"))?;
    let polls = statement.query_map(params![element.0, at_most(limit)], poll)?;
    Ok(polls.collect::<Result<_, _>>()?)
}

pub(super) fn failed_polls(
    connection: &Connection,
    source: SourceId,
    limit: usize,
) -> Result<Vec<Poll>> {
    let mut statement = connection.prepare_cached(poll!(
        "WHERE source = ? AND error IS NOT NULL ORDER BY number DESC LIMIT ?"
    ))?;
    let polls = statement.query_map(params![source, at_most(limit)], poll)?;
    Ok(polls.collect::<Result<_, _>>()?)
}

pub(super) fn audits(connection: &Connection, since: Moment) -> Result<Vec<Audit>> {
    let mut statement =
        connection.prepare_cached(poll!("WHERE purpose = 1 AND at >= ? ORDER BY at, number"))?;
    let mut rows = statement.query([since])?;
    let mut audits = Vec::new();
    while let Some(row) = rows.next()? {
        audits.extend(poll(row)?.audit());
    }
    Ok(audits)
}

pub(super) fn latest_polls(connection: &Connection, limit: usize) -> Result<Vec<Moment>> {
    let mut statement = connection.prepare_cached(
        "SELECT begun_at FROM poll WHERE is_counted = 1 ORDER BY begun_at DESC LIMIT ?",
    )?;
    let moments = statement.query_map([at_most(limit)], |row| row.get(0))?;
    Ok(moments.collect::<Result<_, _>>()?)
}

const QUERY: &str =
    "SELECT source, text, asked_at, n_requests, total, n_results, n_ours, note, memory FROM query";

pub(super) fn queries(connection: &Connection, source: SourceId) -> Result<Vec<Query>> {
    let mut statement =
        connection.prepare_cached(&format!("{QUERY} WHERE source = ? ORDER BY text"))?;
    let queries = statement.query_map([source], query_in)?;
    Ok(queries.collect::<Result<_, _>>()?)
}

pub(super) fn query(
    connection: &Connection,
    source: SourceId,
    text: &str,
) -> Result<Option<Query>> {
    let mut statement =
        connection.prepare_cached(&format!("{QUERY} WHERE source = ? AND text = ?"))?;
    Ok(statement.query_row((source, text), query_in).optional()?)
}

fn query_in(row: &Row<'_>) -> rusqlite::Result<Query> {
    let total: Option<i64> = row.get(4)?;
    Ok(Query {
        source: row.get(0)?,
        text: row.get(1)?,
        asked_at: row.get(2)?,
        n_requests: row.get(3)?,
        total: total.map(i64::cast_unsigned),
        n_results: row.get(5)?,
        n_ours: row.get(6)?,
        note: row.get(7)?,
        memory: row.get(8)?,
    })
}

pub(super) fn bodies(connection: &Connection, each: &mut dyn FnMut(BodyId)) -> Result<()> {
    let mut statement = connection.prepare_cached(
        "SELECT body FROM copy UNION ALL SELECT body FROM change WHERE body IS NOT NULL",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        each(BodyId(row.get(0)?));
    }
    Ok(())
}

fn group(row: &Row<'_>) -> rusqlite::Result<Group> {
    let parent: Option<u32> = row.get(1)?;
    let parent = match parent {
        Some(_) => Some(group_id(row, 1)?),
        None => None,
    };
    Ok(Group {
        id: group_id(row, 0)?,
        parent,
        name: row.get(2)?,
    })
}

pub(super) fn group_id(row: &Row<'_>, column: usize) -> rusqlite::Result<GroupId> {
    let number = row.get(column)?;
    GroupId::new(number)
        .ok_or_else(|| rusqlite::Error::IntegralValueOutOfRange(column, number.into()))
}

fn failure(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Failure>> {
    let kind = row.get(column)?;
    Ok(match kind {
        Some(kind) => Some(Failure {
            kind,
            message: row.get(column + 1)?,
            at: row.get(column + 2)?,
        }),
        None => None,
    })
}

fn at_most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
