//! Whether everything is as it should be, and mending what is not.

use std::collections::HashSet;

use rusqlite::{Connection, Row, Rows, params};

use super::fault::{Fault, Result};
use super::locator::{self, Locators, candidates};
use super::record::{self, Decoded};
use super::{counter, read};
use crate::{BodyId, Brief, Element, ElementId, Error, GroupId, History, Kept, Problem};

/// Nobody reads more.
const MOST_PROBLEMS: usize = 1000;

pub(super) fn check(
    connection: &Connection,
    has_body: &mut dyn FnMut(BodyId) -> bool,
) -> Result<Vec<Problem>> {
    let mut problems = Problems(Vec::new());
    // If pages are broken, what is read from them says nothing.
    if let Err(error) = check_pages(connection, &mut problems) {
        problems.add_failure(error)?;
    }
    if problems.0.is_empty() {
        let checks = [
            check_elements,
            check_groups,
            check_counts,
            check_orphans,
            check_queries,
            check_memories,
        ];
        for check in checks {
            if let Err(error) = check(connection, &mut problems) {
                problems.add_failure(error)?;
            }
        }
        let missing = |problem| problems.add(problem);
        if let Err(error) = missing_bodies(connection, has_body, missing) {
            problems.add_failure(error)?;
        }
    }
    Ok(problems.0)
}

pub(super) fn repair(
    connection: &Connection,
    has_body: &mut dyn FnMut(BodyId) -> bool,
) -> Result<Vec<String>> {
    let mut done = Vec::new();
    let mut say = |n: usize, what: &str| {
        if n > 0 {
            done.push(format!("{n} {what}"));
        }
    };
    let mut pages = Problems(Vec::new());
    check_pages(connection, &mut pages)?;
    if !pages.0.is_empty() {
        connection.execute_batch("REINDEX")?;
        say(
            pages.0.len(),
            "faults of the database: built its indices again",
        );
    }
    say(repair_records(connection)?, "records written again");
    say(
        repair_locators(connection)?,
        "elements can be found by their locators again",
    );
    say(repair_counts(connection)?, "counts corrected");
    for (table, what) in ORPHANS {
        let statement = format!(
            "DELETE FROM {table} WHERE NOT EXISTS (SELECT 1 FROM element WHERE id = {table}.element)"
        );
        let what = format!("{what}s of unknown elements, removed");
        say(connection.execute(&statement, [])?, &what);
    }
    say(
        connection.execute(
            "DELETE FROM query WHERE NOT EXISTS (SELECT 1 FROM source WHERE id = query.source)",
            [],
        )?,
        "queries of unknown sources, removed",
    );
    say(
        connection.execute(
            "DELETE FROM memory WHERE kind = 2 \
             AND NOT EXISTS (SELECT 1 FROM source WHERE id = number)",
            [],
        )?,
        "memories of unknown sources, removed",
    );
    let mut missing = Vec::new();
    missing_bodies(connection, has_body, |problem| missing.push(problem))?;
    say(
        missing.len(),
        "bodies are missing: forgot the copies and versions",
    );
    for problem in missing {
        if let Problem::BodyMissing { element, body } = problem {
            connection.execute(
                "DELETE FROM copy WHERE element = ? AND body = ?",
                params![element.0, body.0],
            )?;
            connection.execute(
                "UPDATE change SET body = NULL WHERE element = ? AND body = ?",
                params![element.0, body.0],
            )?;
        }
    }
    Ok(done)
}

/// What was found so far, cut short.
struct Problems(Vec<Problem>);

impl Problems {
    fn add(&mut self, problem: Problem) {
        if self.0.len() < MOST_PROBLEMS {
            self.0.push(problem);
        } else if self.0.len() == MOST_PROBLEMS {
            self.0.push(Problem::More);
        }
    }

    /// What the database says of its own damage is a finding.
    fn add_failure(&mut self, fault: Fault) -> Result<()> {
        match fault.into() {
            Error::Damaged(what) => {
                self.add(Problem::Database(what));
                Ok(())
            }
            error => Err(error.into()),
        }
    }
}

fn check_pages(connection: &Connection, problems: &mut Problems) -> Result<()> {
    let mut statement = connection.prepare("PRAGMA integrity_check(100)")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let line: String = row.get(0)?;
        if line != "ok" {
            problems.add(Problem::Database(line));
        }
    }
    Ok(())
}

fn check_elements(connection: &Connection, problems: &mut Problems) -> Result<()> {
    let sources = numbers(connection, "SELECT id FROM source")?;
    let groups = numbers(connection, "SELECT id FROM element_group")?;
    let next = counter::load(connection, counter::NEXT_ELEMENT)?;
    let mut find = connection.prepare(concat!("SELECT ?2 IN ", candidates!()))?;
    compare(connection, &mut |finding| {
        let element = match finding {
            Finding::Wrong(problem) => {
                problems.add(problem);
                return Ok(());
            }
            Finding::Element(element) => element,
        };
        let id = element.id;
        if !sources.contains(&element.source.0) {
            problems.add(Problem::SourceMissing(id, element.source));
        }
        let outer = (element.host != element.group).then_some(element.host);
        for group in [element.group].into_iter().chain(outer) {
            if !groups.contains(&group.number()) {
                problems.add(Problem::GroupMissing(id, group));
            }
        }
        if i64::from(id.0) >= next {
            problems.add(Problem::NumberTaken(id));
        }
        let is_found: bool = find
            .query_row(params![locator::hash(&element.locator), id.0], |row| {
                row.get(0)
            })?;
        if !is_found {
            problems.add(Problem::NotFound(id));
        }
        Ok(())
    })
}

/// What a walk along elements and records comes across.
enum Finding<'a> {
    Element(&'a Element),
    Wrong(Problem),
}

/// Walks along elements and records side by side, in the order of numbers.
fn compare(connection: &Connection, each: &mut dyn FnMut(Finding<'_>) -> Result<()>) -> Result<()> {
    let mut chunks = connection.prepare("SELECT id, bytes FROM chunk ORDER BY id")?;
    let mut chunks = Records::new(chunks.query([])?);
    let mut elements = connection.prepare(read::ALL_WRITTEN)?;
    let mut elements = elements.query([])?;
    let mut problems = Vec::new();
    while let Some(row) = elements.next()? {
        let id = ElementId(row.get(0)?);
        let record = chunks.of(id, &mut problems)?;
        let written = read::written(row).map_err(Error::from);
        match (&written, record) {
            (Ok(kept), Decoded::Of(brief)) => {
                let history = History::default();
                if (Brief { history, ..brief }) != kept.brief() {
                    problems.push(Problem::RecordDiffers(id));
                }
            }
            (Ok(_), Decoded::None | Decoded::Damaged) => {
                problems.push(Problem::RecordMissing(id));
            }
            (Err(error), _) => problems.push(Problem::RowDamaged {
                element: id,
                reason: match error {
                    Error::Damaged(what) => what.clone(),
                    error => error.to_string(),
                },
            }),
        }
        for problem in problems.drain(..) {
            each(Finding::Wrong(problem))?;
        }
        if let Ok(kept) = written {
            each(Finding::Element(&kept.element))?;
        }
    }
    chunks.finish(&mut problems)?;
    problems
        .into_iter()
        .try_for_each(|problem| each(Finding::Wrong(problem)))
}

/// Records, asked for in the order of numbers; tells of those nobody asked for.
struct Records<'a> {
    rows: Rows<'a>,
    /// The chunk that the last row held.
    chunk: Option<(u32, Vec<u8>)>,
    /// From here on, records of that chunk have not been asked for.
    index: usize,
    is_done: bool,
}

impl<'a> Records<'a> {
    fn new(rows: Rows<'a>) -> Self {
        Self {
            rows,
            chunk: None,
            index: 0,
            is_done: false,
        }
    }

    fn of(&mut self, element: ElementId, problems: &mut Vec<Problem>) -> Result<Decoded> {
        let wanted = record::chunk_of(element);
        while !self.is_done && self.chunk.as_ref().is_none_or(|(id, _)| *id < wanted) {
            self.advance(problems)?;
        }
        let index = record::place_of(element) / record::LENGTH;
        match &self.chunk {
            Some((id, _)) if *id == wanted => {
                self.pass(index, problems);
                self.index = index + 1;
                Ok(self.record(index))
            }
            _ => Ok(Decoded::None),
        }
    }

    fn finish(&mut self, problems: &mut Vec<Problem>) -> Result<()> {
        while !self.is_done {
            self.advance(problems)?;
        }
        Ok(())
    }

    /// To the next chunk.
    fn advance(&mut self, problems: &mut Vec<Problem>) -> Result<()> {
        self.pass(record::PER_CHUNK as usize, problems);
        self.index = 0;
        self.chunk = match self.rows.next()? {
            Some(row) => Some(chunk(row, problems)?),
            None => {
                self.is_done = true;
                None
            }
        };
        Ok(())
    }

    /// Past records that were not asked for: there should be none.
    fn pass(&mut self, to: usize, problems: &mut Vec<Problem>) {
        let Some(chunk) = self.chunk.as_ref().map(|(id, _)| *id) else {
            return;
        };
        for index in self.index..to {
            if let (Decoded::Of(_) | Decoded::Damaged, Some(element)) =
                (self.record(index), record::element_at(chunk, index))
            {
                problems.push(Problem::RecordAlone(element));
            }
        }
        self.index = to;
    }

    fn record(&self, index: usize) -> Decoded {
        let place = index * record::LENGTH;
        let bytes = self.chunk.as_ref().map_or(&[][..], |(_, bytes)| bytes);
        bytes
            .get(place..place + record::LENGTH)
            .map_or(Decoded::None, record::decode)
    }
}

/// A chunk; one that is none has no records.
fn chunk(row: &Row<'_>, problems: &mut Vec<Problem>) -> Result<(u32, Vec<u8>)> {
    let id: u32 = row.get(0)?;
    let bytes: Vec<u8> = row.get(1).unwrap_or_default();
    if bytes.len() == record::CHUNK {
        return Ok((id, bytes));
    }
    let first = id.saturating_mul(record::PER_CHUNK);
    problems.push(Problem::RecordsDamaged {
        first: ElementId(first),
        last: ElementId(first.saturating_add(record::PER_CHUNK - 1)),
    });
    Ok((id, Vec::new()))
}

fn check_groups(connection: &Connection, problems: &mut Problems) -> Result<()> {
    let mut statement = connection.prepare(
        "SELECT id, parent FROM element_group \
         WHERE parent IS NOT NULL AND parent NOT IN (SELECT id FROM element_group)",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (group, parent) = (read::group_id(row, 0)?, read::group_id(row, 1)?);
        problems.add(Problem::ParentMissing(group, parent));
    }
    Ok(())
}

fn check_counts(connection: &Connection, problems: &mut Problems) -> Result<()> {
    for (host, kept, found) in wrong_counts(connection)? {
        problems.add(Problem::CountWrong { host, kept, found });
    }
    Ok(())
}

/// Hosts whose running count of new elements is not what there is.
fn wrong_counts(connection: &Connection) -> Result<Vec<(GroupId, i64, i64)>> {
    let mut statement = connection.prepare(
        "SELECT host, sum(kept), sum(found) FROM (\
         SELECT host, n AS kept, 0 AS found FROM new_elements \
         UNION ALL SELECT host, 0, count(*) FROM element WHERE state = 0 GROUP BY host) \
         GROUP BY host HAVING sum(kept) <> sum(found) ORDER BY host",
    )?;
    let counts = statement.query_map([], |row| {
        Ok((read::group_id(row, 0)?, row.get(1)?, row.get(2)?))
    })?;
    Ok(counts.collect::<Result<_, _>>()?)
}

/// What is kept of elements elsewhere, and what it is called.
const ORPHANS: [(&str, &str); 3] = [("copy", "copy"), ("poll", "poll"), ("change", "change")];

fn check_orphans(connection: &Connection, problems: &mut Problems) -> Result<()> {
    for (table, what) in ORPHANS {
        let mut statement = connection.prepare(&format!(
            "SELECT DISTINCT element FROM {table} \
             WHERE NOT EXISTS (SELECT 1 FROM element WHERE id = {table}.element) LIMIT ?"
        ))?;
        let mut rows = statement.query([MOST_PROBLEMS as i64])?;
        while let Some(row) = rows.next()? {
            let element = ElementId(row.get(0)?);
            problems.add(Problem::Orphan { what, element });
        }
    }
    Ok(())
}

fn check_queries(connection: &Connection, problems: &mut Problems) -> Result<()> {
    let mut statement = connection.prepare(
        "SELECT DISTINCT source FROM query \
         WHERE NOT EXISTS (SELECT 1 FROM source WHERE id = query.source) LIMIT ?",
    )?;
    let mut rows = statement.query([MOST_PROBLEMS as i64])?;
    while let Some(row) = rows.next()? {
        problems.add(Problem::QueriesAlone(row.get(0)?));
    }
    Ok(())
}

fn check_memories(connection: &Connection, problems: &mut Problems) -> Result<()> {
    let mut statement = connection.prepare(
        "SELECT number FROM memory WHERE kind = 2 \
         AND NOT EXISTS (SELECT 1 FROM source WHERE id = number) LIMIT ?",
    )?;
    let mut rows = statement.query([MOST_PROBLEMS as i64])?;
    while let Some(row) = rows.next()? {
        problems.add(Problem::MemoryAlone(row.get(0)?));
    }
    Ok(())
}

fn missing_bodies(
    connection: &Connection,
    has_body: &mut dyn FnMut(BodyId) -> bool,
    mut each: impl FnMut(Problem),
) -> Result<()> {
    let mut statement = connection.prepare(
        "SELECT element, body FROM copy \
         UNION ALL SELECT element, body FROM change WHERE body IS NOT NULL",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (element, body) = (ElementId(row.get(0)?), BodyId(row.get(1)?));
        if !has_body(body) {
            each(Problem::BodyMissing { element, body });
        }
    }
    Ok(())
}

/// Writes records that are not as their elements, from those; what polls showed is
/// taken from a record that can be read, else from the polls.
fn repair_records(connection: &Connection) -> Result<usize> {
    let mut wrong = Vec::new();
    let mut bad_chunks = Vec::new();
    compare(connection, &mut |finding| {
        match finding {
            Finding::Wrong(
                Problem::RecordMissing(id) | Problem::RecordAlone(id) | Problem::RecordDiffers(id),
            ) => wrong.push(id),
            Finding::Wrong(Problem::RecordsDamaged { first, .. }) => {
                bad_chunks.push(record::chunk_of(first));
            }
            _ => {}
        }
        Ok(())
    })?;
    // Its elements are among those without a record.
    for chunk in bad_chunks {
        connection.execute("DELETE FROM chunk WHERE id = ?", [chunk])?;
    }
    for &id in &wrong {
        repair_record(connection, id)?;
    }
    Ok(wrong.len())
}

fn repair_record(connection: &Connection, id: ElementId) -> Result<()> {
    let mut statement = connection.prepare_cached(read::WRITTEN)?;
    let mut rows = statement.query([id.0])?;
    let kept: Option<Kept> = match rows.next()? {
        Some(row) => Some(read::written(row)?),
        None => None,
    };
    let mut chunk: Vec<u8> = connection
        .prepare_cached("SELECT bytes FROM chunk WHERE id = ?")?
        .query_row([record::chunk_of(id)], |row| row.get(0))
        .or_else(|error| match error {
            rusqlite::Error::QueryReturnedNoRows => Ok(vec![0; record::CHUNK]),
            error => Err(error),
        })?;
    chunk.resize(record::CHUNK, 0);
    let place = record::place_of(id);
    let record = &mut chunk[place..place + record::LENGTH];
    let encoded = match (kept, record::decode(record)) {
        (Some(kept), Decoded::Of(old)) => record::encode(&Brief {
            history: old.history,
            ..kept.brief()
        }),
        (Some(kept), _) => record::encode(&Brief {
            history: history(connection, id)?,
            ..kept.brief()
        }),
        (None, _) => record::NONE,
    };
    record.copy_from_slice(&encoded);
    connection
        .prepare_cached("INSERT OR REPLACE INTO chunk (id, bytes) VALUES (?, ?)")?
        .execute(params![record::chunk_of(id), chunk])?;
    Ok(())
}

/// What polls showed of an element; what a scheduler made of it is lost.
fn history(connection: &Connection, element: ElementId) -> Result<History> {
    // Outcomes below 4 are answers, and 2 is a change: see code.rs.
    let history = connection
        .prepare_cached(
            "SELECT min(CASE WHEN outcome < 4 THEN at END), max(at), \
             max(CASE WHEN outcome < 4 THEN at END), count(*), \
             count(CASE WHEN outcome = 2 THEN 1 END) FROM poll WHERE element = ?",
        )?
        .query_row([element.0], |row| {
            Ok(History {
                first_polled_at: row.get(0)?,
                polled_at: row.get(1)?,
                synced_at: row.get(2)?,
                n_polls: row.get(3)?,
                n_changes: row.get(4)?,
                memory: History::default().memory,
            })
        })?;
    Ok(history)
}

/// Builds the trees of locators again if an element is not in them.
fn repair_locators(connection: &Connection) -> Result<usize> {
    let mut lost = 0;
    {
        let mut find = connection.prepare(concat!("SELECT ?2 IN ", candidates!()))?;
        let mut statement = connection.prepare("SELECT id, locator FROM element")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (id, text): (u32, String) = (row.get(0)?, row.get(1)?);
            let is_found: bool =
                find.query_row(params![locator::hash(&text), id], |row| row.get(0))?;
            lost += usize::from(!is_found);
        }
    }
    if lost > 0 {
        connection.execute_batch(
            "DELETE FROM locator_new; DELETE FROM locator_young; DELETE FROM locator_old;",
        )?;
        let mut locators = Locators::empty();
        let mut statement = connection.prepare("SELECT id, locator FROM element ORDER BY id")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let text: String = row.get(1)?;
            locators.add(connection, ElementId(row.get(0)?), &text)?;
        }
        locators.save(connection)?;
    }
    Ok(lost)
}

fn repair_counts(connection: &Connection) -> Result<usize> {
    let wrong = wrong_counts(connection)?;
    for (host, _, found) in &wrong {
        connection.execute(
            "INSERT OR REPLACE INTO new_elements (host, n) VALUES (?, ?)",
            params![host.number(), found],
        )?;
    }
    let last: Option<u32> =
        connection.query_row("SELECT max(id) FROM element", [], |row| row.get(0))?;
    let next = last.map_or(0, |last| i64::from(last) + 1);
    let is_low = counter::load(connection, counter::NEXT_ELEMENT)? < next;
    if is_low {
        counter::save(connection, counter::NEXT_ELEMENT, next)?;
    }
    Ok(wrong.len() + usize::from(is_low))
}

fn numbers(connection: &Connection, statement: &str) -> Result<HashSet<u32>> {
    let mut statement = connection.prepare(statement)?;
    let numbers = statement.query_map([], |row| row.get(0))?;
    Ok(numbers.collect::<Result<_, _>>()?)
}
