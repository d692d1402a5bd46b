//! Where bodies are, by the first eight bytes of their names.
//!
//! A table of SQLite beside the segments, because it is found whole by every process
//! that reads, at any moment, and whatever happens to the one who writes. It follows from
//! the segments, so it is not forced to the disk with every batch: it says how far into
//! each segment it goes, and what comes after that is read from the segment when it is
//! next opened.
//!
//! Names fall anywhere among those there are. In one tree of ten million, every insertion
//! would write a page of its own; so they go into a small tree first, from there into a
//! larger one, and from there into the one that holds most. What moves on is a stretch of
//! names that are next to each other, as many as came in, so that no batch has to wait
//! for a million of them. A lookup asks all three.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use super::BodyId;
use super::segment::{self, Place};
use crate::sqlite::fault::{Fault, Result};
use crate::{Error, private, sqlite};

/// The trees, from the smallest on.
const TREES: [&str; 3] = ["place_new", "place_young", "place_old"];
/// How many there are in the smaller ones before they move on: these take some 400
/// and 7,000 pages.
const MOST: [i64; 2] = [1 << 16, 1 << 20];
/// At the least, so many move on at once.
const LEAST_MOVED: i64 = 64;
const VERSION: i64 = 1;
const CACHE_KIB: i64 = 16 * 1024;
/// What is not yet in its place is what may have to be read from segments again after
/// the machine has died.
const CHECKPOINT_PAGES: i64 = 4096;

const SCHEMA: &str = "
    CREATE TABLE segment (number INTEGER PRIMARY KEY, end INTEGER NOT NULL);
    CREATE TABLE tree (name TEXT PRIMARY KEY, n INTEGER NOT NULL, next INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE place_new (
        name INTEGER NOT NULL, segment INTEGER NOT NULL, offset INTEGER NOT NULL,
        length INTEGER NOT NULL, PRIMARY KEY (name, segment, offset)) WITHOUT ROWID;
    CREATE TABLE place_young (
        name INTEGER NOT NULL, segment INTEGER NOT NULL, offset INTEGER NOT NULL,
        length INTEGER NOT NULL, PRIMARY KEY (name, segment, offset)) WITHOUT ROWID;
    CREATE TABLE place_old (
        name INTEGER NOT NULL, segment INTEGER NOT NULL, offset INTEGER NOT NULL,
        length INTEGER NOT NULL, PRIMARY KEY (name, segment, offset)) WITHOUT ROWID;
    INSERT INTO tree VALUES ('place_new', 0, -9223372036854775808);
    INSERT INTO tree VALUES ('place_young', 0, -9223372036854775808);
    INSERT INTO tree VALUES ('place_old', 0, -9223372036854775808);
    -- Its end is the number of the latest segment: numbers are not given twice.
    INSERT INTO segment VALUES (0, 0);
    PRAGMA user_version = 1;
";

/// A body, and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub(super) name: i64,
    pub(super) place: Place,
}

/// What a body is found by.
pub(super) fn name_of(id: BodyId) -> i64 {
    let [a, b, c, d, e, f, g, h, ..] = id.0;
    i64::from_le_bytes([a, b, c, d, e, f, g, h])
}

/// How far a walk over all entries has come.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cursor {
    tree: usize,
    after: Option<(i64, u32, u64)>,
}

#[derive(Debug)]
pub(super) struct Index {
    connection: Connection,
}

impl Index {
    /// Opens the index to read it, if there is one.
    pub(super) fn read_only(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(segment::INDEX);
        if !is_file(&path)? {
            return Ok(None);
        }
        let connection = sqlite::connect(&path, OpenFlags::SQLITE_OPEN_READ_ONLY, CACHE_KIB)?;
        match version(&connection)? {
            // Someone is about to make it.
            0 => Ok(None),
            _ => Ok(Some(Self { connection })),
        }
    }

    /// Opens the index to write it, making it if there is none.
    pub(super) fn open(folder: &Path) -> Result<Self> {
        let path = folder.join(segment::INDEX);
        is_file(&path)?;
        // SQLite gives its other files the modes of this one.
        let made = private::options().append(true).create(true).open(&path);
        made.map_err(|source| Error::file(&path, source))?;
        let mut connection = sqlite::connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE, CACHE_KIB)?;
        let version = version(&connection)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "normal")?;
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        if version == 0 {
            sqlite::whole(&mut connection, |connection| {
                Ok(connection.execute_batch(SCHEMA)?)
            })?;
        }
        Ok(Self { connection })
    }

    /// Where a body of this name may be.
    pub(super) fn find(&self, name: i64) -> Result<Vec<Place>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT segment, offset, length FROM place_new WHERE name = ?1 \
             UNION ALL SELECT segment, offset, length FROM place_young WHERE name = ?1 \
             UNION ALL SELECT segment, offset, length FROM place_old WHERE name = ?1",
        )?;
        let places = statement.query_map([name], |row| {
            Ok(Place {
                segment: row.get(0)?,
                offset: row.get(1)?,
                length: row.get(2)?,
            })
        })?;
        Ok(places.collect::<Result<_, _>>()?)
    }

    /// How far into each segment the index goes.
    pub(super) fn segments(&self) -> Result<Vec<(u32, u64)>> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT number, end FROM segment WHERE number > 0 ORDER BY number")?;
        let segments = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(segments.collect::<Result<_, _>>()?)
    }

    /// How many entries there are.
    pub(super) fn n_entries(&self) -> Result<u64> {
        let n: i64 = self
            .connection
            .query_row("SELECT sum(n) FROM tree", [], |row| row.get(0))?;
        Ok(n.max(0).cast_unsigned())
    }

    /// The number of the latest segment that there ever was.
    pub(super) fn latest_segment(&self) -> Result<u32> {
        let latest = self
            .connection
            .prepare_cached("SELECT end FROM segment WHERE number = 0")?
            .query_row([], |row| row.get(0))
            .optional()?;
        Ok(latest.unwrap_or(0))
    }

    /// Takes in what was appended to a segment up to its end, and forgets places.
    pub(super) fn add(
        &mut self,
        entries: &[Entry],
        dropped: &[Entry],
        segment: u32,
        end: u64,
    ) -> Result<()> {
        sqlite::whole(&mut self.connection, |connection| {
            let mut trees = Trees::load(connection)?;
            {
                let mut insert = connection.prepare_cached(
                    "INSERT OR IGNORE INTO place_new (name, segment, offset, length) \
                     VALUES (?, ?, ?, ?)",
                )?;
                for Entry { name, place } in entries {
                    let Place {
                        segment,
                        offset,
                        length,
                    } = place;
                    let n = insert.execute(params![name, segment, offset, length])?;
                    trees.n[0] += n as i64;
                }
            }
            trees.remove(connection, dropped)?;
            trees.move_on(connection, entries.len() as i64)?;
            trees.save(connection)?;
            connection
                .prepare_cached("INSERT OR REPLACE INTO segment (number, end) VALUES (?, ?)")?
                .execute(params![segment, end])?;
            connection
                .prepare_cached("UPDATE segment SET end = ? WHERE number = 0 AND end < ?1")?
                .execute([segment])?;
            Ok(())
        })
    }

    /// Forgets places.
    pub(super) fn remove(&mut self, dropped: &[Entry]) -> Result<()> {
        if dropped.is_empty() {
            return Ok(());
        }
        sqlite::whole(&mut self.connection, |connection| {
            let mut trees = Trees::load(connection)?;
            trees.remove(connection, dropped)?;
            trees.save(connection)
        })
    }

    /// Forgets a segment, so that it is forgotten even if the machine dies: its file may
    /// be removed.
    pub(super) fn remove_segment(&mut self, segment: u32) -> Result<()> {
        self.connection.pragma_update(None, "synchronous", "full")?;
        let removed = self
            .connection
            .prepare_cached("DELETE FROM segment WHERE number = ?")?
            .execute([segment]);
        self.connection
            .pragma_update(None, "synchronous", "normal")?;
        removed?;
        Ok(())
    }

    /// What is wrong with it, if anything is.
    pub(super) fn damage(&self) -> Option<String> {
        let checked = self
            .connection
            .query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
        match checked {
            Ok(found) => (found != "ok").then_some(found),
            Err(error) => Some(error.to_string()),
        }
    }

    /// The next entries, at most so many, in three runs in the order of names: what moves
    /// on meanwhile is met all the same, if perhaps twice.
    pub(super) fn walk(&self, cursor: &mut Cursor, limit: usize) -> Result<Vec<Entry>> {
        while let Some(tree) = TREES.get(cursor.tree) {
            let (name, segment, offset) = cursor.after.unwrap_or((i64::MIN, 0, 0));
            let mut statement = self.connection.prepare_cached(&format!(
                "SELECT name, segment, offset, length FROM {tree} \
                 WHERE (name, segment, offset) > (?, ?, ?) \
                 ORDER BY name, segment, offset LIMIT ?"
            ))?;
            let entries = statement
                .query_map(params![name, segment, offset, limit as i64], |row| {
                    Ok(Entry {
                        name: row.get(0)?,
                        place: Place {
                            segment: row.get(1)?,
                            offset: row.get(2)?,
                            length: row.get(3)?,
                        },
                    })
                })?
                .collect::<Result<Vec<_>, _>>()?;
            match entries.last() {
                Some(Entry { name, place }) => {
                    cursor.after = Some((*name, place.segment, place.offset));
                    return Ok(entries);
                }
                None => {
                    *cursor = Cursor {
                        tree: cursor.tree + 1,
                        after: None,
                    }
                }
            }
        }
        Ok(Vec::new())
    }
}

/// How many there are in each tree, and where what moves on next begins.
struct Trees {
    n: [i64; 3],
    next: [i64; 3],
}

impl Trees {
    fn load(connection: &Connection) -> Result<Self> {
        let mut trees = Self {
            n: [0; 3],
            next: [i64::MIN; 3],
        };
        let mut statement = connection.prepare_cached("SELECT n, next FROM tree WHERE name = ?")?;
        for (index, tree) in TREES.iter().enumerate() {
            let found = statement.query_row([tree], |row| Ok((row.get(0)?, row.get(1)?)));
            (trees.n[index], trees.next[index]) = found?;
        }
        Ok(trees)
    }

    fn save(&self, connection: &Connection) -> Result<()> {
        let mut statement =
            connection.prepare_cached("UPDATE tree SET n = ?, next = ? WHERE name = ?")?;
        for (index, tree) in TREES.iter().enumerate() {
            statement.execute(params![self.n[index], self.next[index], tree])?;
        }
        Ok(())
    }

    fn remove(&mut self, connection: &Connection, dropped: &[Entry]) -> Result<()> {
        for (index, tree) in TREES.iter().enumerate() {
            let mut delete = connection.prepare_cached(&format!(
                "DELETE FROM {tree} WHERE name = ? AND segment = ? AND offset = ?"
            ))?;
            for Entry { name, place } in dropped {
                let n = delete.execute(params![name, place.segment, place.offset])?;
                self.n[index] -= n as i64;
            }
        }
        Ok(())
    }

    /// Where a tree has more than it should, as many go on as came in.
    fn move_on(&mut self, connection: &Connection, n_new: i64) -> Result<()> {
        for (index, most) in MOST.into_iter().enumerate() {
            if self.n[index] <= most {
                continue;
            }
            let (from, to) = (TREES[index], TREES[index + 1]);
            let n = (self.n[index] - most).max(n_new).max(LEAST_MOVED);
            let first = self.next[index];
            // The last that moves on; none if there are fewer until the end.
            let last: Option<i64> = connection
                .prepare_cached(&format!(
                    "SELECT name FROM {from} WHERE name >= ? ORDER BY name LIMIT 1 OFFSET ?"
                ))?
                .query_row([first, n - 1], |row| row.get(0))
                .optional()?;
            let end = last.unwrap_or(i64::MAX);
            let n_moved = connection
                .prepare_cached(&format!(
                    "INSERT OR IGNORE INTO {to} SELECT * FROM {from} WHERE name BETWEEN ? AND ? \
                     ORDER BY name"
                ))?
                .execute([first, end])?;
            let n_removed = connection
                .prepare_cached(&format!("DELETE FROM {from} WHERE name BETWEEN ? AND ?"))?
                .execute([first, end])?;
            self.n[index] -= n_removed as i64;
            self.n[index + 1] += n_moved as i64;
            self.next[index] = end.checked_add(1).unwrap_or(i64::MIN);
        }
        Ok(())
    }
}

/// Whether there is such a file; a link is none of ours.
fn is_file(path: &Path) -> Result<bool> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_file() => Ok(true),
        Ok(_) => {
            let refused =
                std::io::Error::new(std::io::ErrorKind::InvalidInput, "is a link, or not a file");
            Err(Error::file(path, refused).into())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(Error::file(path, source).into()),
    }
}

fn version(connection: &Connection) -> Result<i64> {
    let found = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if found > VERSION {
        let (found, known) = (found as u32, VERSION as u32);
        return Err(Fault::from(Error::TooNew { found, known }));
    }
    Ok(found)
}
