//! A store in one file, by SQLite.
//!
//! One process writes, under a lock that dies with it, which is its lease; any number
//! read beside it.
//! The file is in WAL mode: a commit is one append, which is forced to the disk before
//! the commit returns. A process that is killed, and a machine that dies, leaves whole
//! batches only, and all that were committed.
//!
//! ```text
//! lock                   held by the one who writes
//! store.db, -wal, -shm   the facts
//! store.v1.bak           as it was before it became of version 2
//! ```

mod check;
mod code;
mod counter;
pub(crate) mod fault;
mod locator;
pub(crate) mod lock;
mod read;
pub(crate) mod record;
mod schema;
mod write;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::backup::Backup;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use fault::Fault;
use lock::Lock;

use crate::private;
use crate::{
    Audit, BodyId, Brief, Change, ChangeFilter, ElementId, Error, Fact, Group, GroupId, Host, Kept,
    KeptPoll, MemoryOf, Moment, Numbers, Poll, Problem, Query, Reader, Robots, Source, SourceId,
    Writer,
};

/// Facts, kept by SQLite in a folder: to write and to read them, or only to read.
#[derive(Debug)]
pub struct Sqlite<Access = Writing> {
    connection: Connection,
    /// Let go of after the connection, which is above it.
    access: Access,
}

/// May read.
#[derive(Debug)]
pub struct Reading;

/// May read and write: holds the lock of the folder, and gives out numbers.
#[derive(Debug)]
pub struct Writing {
    lock: Lock,
    numbers: Numbers,
}

const FILE: &str = "store.db";
const LOCK: &str = "lock";
/// What a writer keeps of the file in memory. The trees' upper levels and what was
/// written last fit into this with ten million elements.
const WRITER_CACHE_KIB: i64 = 64 * 1024;
const READER_CACHE_KIB: i64 = 16 * 1024;
/// So many pages are appended before they are put in their places. Polls of a small
/// part of all elements write the same pages again and again, so the later the
/// fewer; more would make the first answers after a crash slow.
const CHECKPOINT_PAGES: i64 = 16 * 1024;
/// The log is cut back to this length once its pages are in place.
const LOG_BYTES: i64 = CHECKPOINT_PAGES * 4096;
/// Readers wait for each other only while a log is recovered or put in place.
const BUSY: Duration = Duration::from_secs(10);
/// There are fewer statements than this.
const STATEMENTS: usize = 96;
/// Pages copied by a backup before others get a turn.
const BACKUP_PAGES: i32 = 4096;

impl Sqlite {
    /// Opens the store in a folder to write and to read, making folder and store if
    /// there are none, and bringing one of an earlier version up to date.
    ///
    /// # Errors
    /// [`Error::InUse`] if another process writes to it, [`Error::TooNew`] if it is
    /// of a later version, [`Error::Damaged`] if it is something else.
    pub fn create_or_open(folder: impl AsRef<Path>) -> Result<Self, Error> {
        let folder = folder.as_ref();
        private::make_folder(folder)?;
        let lock = Lock::take(folder.join(LOCK))?;
        let connection = connect_to_write(folder)?;
        let numbers = counter::numbers(&connection)?;
        Ok(Self {
            connection,
            access: Writing { lock, numbers },
        })
    }

    /// Opens the store in a folder to read, whether or not another process writes
    /// to it.
    ///
    /// # Errors
    /// [`Error::Missing`] if there is none; [`Error::TooNew`] and [`Error::TooOld`]
    /// if it is of another version, [`Error::Damaged`] if it is something else.
    pub fn read_only(folder: impl AsRef<Path>) -> Result<Sqlite<Reading>, Error> {
        let path = folder.as_ref().join(FILE);
        if !path.exists() {
            return Err(Error::Missing(path));
        }
        let connection = connect(&path, OpenFlags::SQLITE_OPEN_READ_ONLY, READER_CACHE_KIB)?;
        let known = schema::LATEST;
        match schema::version(&connection)? {
            0 => Err(Error::Missing(path)),
            found if found < known => Err(Error::TooOld { found, known }),
            _ => Ok(Sqlite {
                connection,
                access: Reading,
            }),
        }
    }

    /// Mends what follows from the rest: records, counts, indices, what is left of
    /// elements and sources that there are not. A copy whose body is missing is forgotten, so
    /// that it is fetched again. Says what was done, in sentences.
    ///
    /// # Errors
    /// If the store cannot be read or written; then it is as it was.
    pub fn repair(
        &mut self,
        has_body: &mut dyn FnMut(BodyId) -> bool,
    ) -> Result<Vec<String>, Error> {
        self.access.lock.check()?;
        Ok(whole(&mut self.connection, |connection| {
            check::repair(connection, has_body)
        })?)
    }

    /// Puts what was appended in its place, and makes sure of it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn checkpoint(&self) -> Result<(), Error> {
        // Answers with a row: whether readers were in the way, which is no harm.
        self.connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .map_err(Fault::from)?;
        Ok(())
    }

    /// Closes the store with nothing left to be put in its place.
    ///
    /// To drop it is safe as well; the next to open it then finds more to do.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn close(self) -> Result<(), Error> {
        self.checkpoint()?;
        let closed = self.connection.close();
        closed.map_err(|(_, error)| Fault::from(error))?;
        Ok(())
    }
}

impl<Access> Sqlite<Access> {
    /// Writes a copy of the store as it is now, while it is being used, to a file
    /// that takes its name when it is whole.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn back_up(&self, to: impl AsRef<Path>) -> Result<(), Error> {
        Ok(back_up(&self.connection, to.as_ref())?)
    }

    /// Goes through everything and lists what is wrong, asking `has_body` for the
    /// bodies that are named. A long list is cut short.
    ///
    /// # Errors
    /// If the store cannot be read at all.
    pub fn check(&self, has_body: &mut dyn FnMut(BodyId) -> bool) -> Result<Vec<Problem>, Error> {
        Ok(check::check(&self.connection, has_body)?)
    }
}

fn connect_to_write(folder: &Path) -> fault::Result<Connection> {
    let path = folder.join(FILE);
    // SQLite gives its other files the modes of this one.
    let made = private::options().append(true).create(true).open(&path);
    made.map_err(|source| Error::file(&path, source))?;
    for name in [FILE, "store.db-wal", "store.db-shm", LOCK] {
        private::tighten(&folder.join(name));
    }
    let mut connection = connect(
        &folder.join(FILE),
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        WRITER_CACHE_KIB,
    )?;
    let version = schema::version(&connection)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    // Else a commit is on the disk when the next checkpoint is: minutes later.
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
    schema::migrate(&mut connection, version, schema::MIGRATIONS, |version| {
        folder.join(format!("store.v{version}.bak"))
    })?;
    Ok(connection)
}

pub(crate) fn connect(path: &Path, flags: OpenFlags, cache_kib: i64) -> fault::Result<Connection> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Else statements are compiled again whenever a parameter that might have made
    // a partial index useful is another: three times the work of a poll.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // Negative: in KiB, not in pages.
    connection.pragma_update(None, "cache_size", -cache_kib)?;
    // A page that cannot be read is then an error, not a signal.
    connection.pragma_update(None, "mmap_size", 0)?;
    // No statement of ours sorts more than a few rows.
    connection.pragma_update(None, "temp_store", "memory")?;
    Ok(connection)
}

/// Does something whole or not at all.
pub(crate) fn whole<T>(
    connection: &mut Connection,
    act: impl FnOnce(&Connection) -> fault::Result<T>,
) -> fault::Result<T> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let done = act(&transaction)?;
    transaction.commit()?;
    Ok(done)
}

fn back_up(from: &Connection, to: &Path) -> fault::Result<()> {
    let mut on_its_way = to.as_os_str().to_owned();
    on_its_way.push(".new");
    let on_its_way = PathBuf::from(on_its_way);
    match fs::remove_file(&on_its_way) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            return Err(Error::file(&on_its_way, source).into());
        }
        _ => {}
    }
    let made = private::options()
        .append(true)
        .create(true)
        .open(&on_its_way);
    made.map_err(|source| Error::file(&on_its_way, source))?;
    let mut copy = Connection::open(&on_its_way)?;
    Backup::new(from, &mut copy)?.run_to_completion(BACKUP_PAGES, Duration::ZERO, None)?;
    copy.close().map_err(|(_, error)| error)?;
    fs::rename(&on_its_way, to).map_err(|source| Error::file(to, source))?;
    Ok(())
}

impl Writer for Sqlite {
    fn commit(&mut self, facts: &[Fact]) -> Result<(), Error> {
        self.access.lock.check()?;
        whole(&mut self.connection, |connection| {
            write::all(connection, facts)
        })?;
        self.access.numbers.take(facts);
        Ok(())
    }

    fn numbers(&self) -> Numbers {
        self.access.numbers.clone()
    }

    fn close(self: Box<Self>) -> Result<(), Error> {
        Self::close(*self)
    }
}

impl<Access: Send> Reader for Sqlite<Access> {
    fn sources(&self) -> Result<Vec<Source>, Error> {
        Ok(read::sources(&self.connection)?)
    }

    fn groups(&self) -> Result<Vec<Group>, Error> {
        Ok(read::groups(&self.connection)?)
    }

    fn groups_by_id(&self, ids: &[GroupId]) -> Result<Vec<Group>, Error> {
        Ok(read::groups_by_id(&self.connection, ids)?)
    }

    fn hosts(&self) -> Result<Vec<Host>, Error> {
        Ok(read::hosts(&self.connection)?)
    }

    fn robots(&self) -> Result<Vec<(GroupId, Vec<Robots>)>, Error> {
        Ok(read::robots(&self.connection)?)
    }

    fn memory(&self, of: MemoryOf) -> Result<Option<Vec<u8>>, Error> {
        Ok(read::memory(&self.connection, of)?)
    }

    fn group_memories(&self) -> Result<Vec<(GroupId, Vec<u8>)>, Error> {
        Ok(read::group_memories(&self.connection)?)
    }

    fn group_memories_by_id(&self, ids: &[GroupId]) -> Result<Vec<(GroupId, Vec<u8>)>, Error> {
        Ok(read::group_memories_by_id(&self.connection, ids)?)
    }

    fn note(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(read::note(&self.connection, name)?)
    }

    fn next_element(&self) -> Result<u32, Error> {
        Ok(read::next_element(&self.connection)?)
    }

    fn element(&self, id: ElementId) -> Result<Option<Kept>, Error> {
        Ok(read::element(&self.connection, id)?)
    }

    fn find(&self, source: SourceId, locator: &str) -> Result<Option<Kept>, Error> {
        Ok(read::find(&self.connection, source, locator)?)
    }

    fn find_ids(
        &self,
        source: SourceId,
        locators: &[&str],
    ) -> Result<Vec<Option<ElementId>>, Error> {
        Ok(read::find_ids(&self.connection, source, locators)?)
    }

    fn redirected_to(
        &self,
        source: SourceId,
        address: &str,
        limit: usize,
    ) -> Result<Vec<ElementId>, Error> {
        let found = read::redirected_to(&self.connection, source, address, limit);
        Ok(found?)
    }

    fn find_all(&self, locator: &str) -> Result<Vec<Kept>, Error> {
        Ok(read::find_all(&self.connection, locator)?)
    }

    fn elements(
        &self,
        source: Option<SourceId>,
        from: ElementId,
        limit: usize,
    ) -> Result<Vec<Kept>, Error> {
        Ok(read::elements(&self.connection, source, from, limit)?)
    }

    fn new_elements(
        &self,
        host: GroupId,
        from: ElementId,
        limit: usize,
    ) -> Result<Vec<ElementId>, Error> {
        Ok(read::new_elements(&self.connection, host, from, limit)?)
    }

    fn n_new(&self) -> Result<Vec<(GroupId, u64)>, Error> {
        Ok(read::n_new(&self.connection)?)
    }

    fn scan(&self, stride: usize, each: &mut dyn FnMut(ElementId, &Brief)) -> Result<(), Error> {
        Ok(read::scan(&self.connection, stride, each)?)
    }

    fn changes(
        &self,
        filter: &ChangeFilter,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Change>, Error> {
        Ok(read::changes(&self.connection, filter, before, limit)?)
    }

    fn changes_after(&self, after: u64, limit: usize) -> Result<Vec<Change>, Error> {
        Ok(read::changes_after(&self.connection, after, limit)?)
    }

    fn polls_after(&self, after: u64, limit: usize) -> Result<Vec<KeptPoll>, Error> {
        Ok(read::polls_after(&self.connection, after, limit)?)
    }

    fn polls(&self, element: ElementId, limit: usize) -> Result<Vec<Poll>, Error> {
        Ok(read::polls(&self.connection, element, limit)?)
    }

    fn failed_polls(&self, source: SourceId, limit: usize) -> Result<Vec<Poll>, Error> {
        Ok(read::failed_polls(&self.connection, source, limit)?)
    }

    fn audits(&self, since: Moment) -> Result<Vec<Audit>, Error> {
        Ok(read::audits(&self.connection, since)?)
    }

    fn latest_polls(&self, limit: usize) -> Result<Vec<Moment>, Error> {
        Ok(read::latest_polls(&self.connection, limit)?)
    }

    fn query(&self, source: SourceId, text: &str) -> Result<Option<Query>, Error> {
        Ok(read::query(&self.connection, source, text)?)
    }

    fn queries(&self, source: SourceId) -> Result<Vec<Query>, Error> {
        Ok(read::queries(&self.connection, source)?)
    }

    fn bodies(&self, each: &mut dyn FnMut(BodyId)) -> Result<(), Error> {
        Ok(read::bodies(&self.connection, each)?)
    }
}
