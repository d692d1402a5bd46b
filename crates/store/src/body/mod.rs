//! Bodies, by their content.
//!
//! A body is named by the digest of its bytes, so that the same bytes are kept once,
//! whoever names them, and whether a body is as it was written can be told from the body
//! alone. [`Bodies`] keeps them one after another in a few large files, the segments, to
//! which it only appends: a file for each would take four times the disk for small pages
//! and most of the time that keeping them takes, and could not be forced to the disk
//! together.
//!
//! - [`Bodies::put`] takes a body in, and [`Bodies::flush`] makes sure of all that were
//!   put: what a commit names is flushed before it.
//! - An index says where a body is: see `index.rs`. It follows from the segments.
//! - [`Bodies::collect`] finds what nothing names any more. A segment of which much is
//!   dead is rewritten: what lives is appended to the latest, and then its file goes.
//!   Whoever reads meanwhile finds a body in the one place or in the other.
//! - Bodies of earlier versions, a file each, are read where they are, and
//!   [brought over](Bodies::bring_over) a few at a time.

mod collect;
mod index;
mod loose;
mod record;
mod segment;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use collect::{Collection, Freed};
use index::{Entry, Index, name_of};
use record::Header;
pub use record::Packed;
use segment::Place;

use crate::sqlite::Reading;
use crate::sqlite::lock::Lock;
use crate::{Error, private};

/// The name of a body: the BLAKE3 digest of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BodyId(pub [u8; 32]);

impl BodyId {
    /// The name of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(blake3::hash(bytes).into())
    }
}

impl fmt::Display for BodyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The name of a body is 64 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the name of a body is 64 hexadecimal digits")]
pub struct ParseBodyIdError;

impl FromStr for BodyId {
    type Err = ParseBodyIdError;

    fn from_str(text: &str) -> Result<Self, ParseBodyIdError> {
        let digits = text.as_bytes();
        let mut id = [0; 32];
        if digits.len() != 2 * id.len() {
            return Err(ParseBodyIdError);
        }
        let value = |digit: u8| (digit as char).to_digit(16).ok_or(ParseBodyIdError);
        for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = (16 * value(pair[0])? + value(pair[1])?) as u8;
        }
        Ok(Self(id))
    }
}

/// Where bodies are kept: a folder, to add to and to read, or only to read.
///
/// One process adds; any number of threads and processes read beside it. A body is there
/// whole or not at all.
#[derive(Debug)]
pub struct Bodies<Access = Appending> {
    folder: PathBuf,
    /// To look bodies up, if there is an index yet.
    index: Mutex<Option<Index>>,
    /// Segments that have been read.
    files: Mutex<HashMap<u32, Arc<File>>>,
    /// Bodies that are in segments and not in the index, since a machine died: for those
    /// who only read, and cannot mend that.
    beyond: Option<Mutex<HashMap<i64, Vec<Place>>>>,
    /// Whether there may be bodies of an earlier version.
    has_loose: AtomicBool,
    unwritten: Mutex<Unwritten>,
    access: Access,
}

/// May add bodies: holds the lock of their folder.
#[derive(Debug)]
pub struct Appending {
    _lock: Lock,
    /// Taken before `unwritten`, by whoever takes both.
    tail: Mutex<Tail>,
    segment_bytes: u64,
}

/// What is written to.
#[derive(Debug)]
struct Tail {
    index: Index,
    /// The segment that was appended to last.
    file: Option<(u32, File)>,
}

/// What has been put and is not yet in a segment.
#[derive(Debug, Default)]
struct Unwritten {
    filling: Batch,
    /// Being written, or could not be.
    leaving: Option<Arc<Batch>>,
    /// What was put since a collection began, though nothing may name it yet.
    touched: Option<HashSet<i64>>,
}

/// Records that come one after another in a segment.
#[derive(Debug, Default)]
struct Batch {
    segment: u32,
    start: u64,
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    places: HashMap<BodyId, Place>,
    /// Places that are forgotten once this is written.
    dropped: Vec<Entry>,
}

/// A segment that is longer is not appended to: so large that ten million bodies of 2 kB
/// take 80 files, and so small that there is room to rewrite one.
const SEGMENT_BYTES: u64 = 256 << 20;
/// What is put without being flushed is not held in memory beyond this.
const MOST_UNWRITTEN: usize = 16 << 20;

/// How a body was found.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Found {
    Sound(Vec<u8>),
    Damaged,
    Missing,
}

impl Bodies {
    /// The bodies in a folder, to add to them: it is made if there is none.
    ///
    /// What a machine that died left at the end of segments is taken in if it is whole,
    /// and else removed: nothing can have named it. An index that is missing or cannot be
    /// read is made again.
    ///
    /// # Errors
    /// [`Error::InUse`] if another process adds to them; else if they cannot be read or
    /// written.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, Error> {
        let folder = folder.into();
        private::make_folder(&folder)?;
        let lock = Lock::take(folder.join(segment::LOCK))?;
        let mut index = match Index::open(&folder).map_err(Error::from) {
            Err(Error::Damaged(_)) => {
                remove_index(&folder)?;
                Index::open(&folder)?
            }
            index => index?,
        };
        let (segment, start) = recover(&folder, &mut index)?;
        private::persist_names(&folder)?;
        let access = Appending {
            _lock: lock,
            tail: Mutex::new(Tail { index, file: None }),
            segment_bytes: SEGMENT_BYTES,
        };
        let bodies = Self::over(folder, access)?;
        let mut unwritten = lock_of(&bodies.unwritten);
        (unwritten.filling.segment, unwritten.filling.start) = (segment, start);
        drop(unwritten);
        Ok(bodies)
    }

    /// The same with segments of another length, in bytes.
    #[must_use]
    pub fn with_segments_of(mut self, n_bytes: u64) -> Self {
        self.access.segment_bytes = n_bytes;
        self
    }

    /// Makes the index again from what is in the segments.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn reindex(folder: impl Into<PathBuf>) -> Result<Self, Error> {
        let folder = folder.into();
        let lock = Lock::take(folder.join(segment::LOCK))?;
        remove_index(&folder)?;
        drop(lock);
        Self::open(folder)
    }

    /// Takes a body in, unless it is there. One that is damaged is replaced.
    ///
    /// It can be [had](Self::get) from here at once; others find it, and it survives the
    /// death of the process and of the machine, when it has been [flushed](Self::flush).
    ///
    /// # Errors
    /// If it cannot be read whether it is there, or if much was put and cannot be written.
    pub fn put(&self, bytes: &[u8]) -> Result<BodyId, Error> {
        let id = BodyId::of(bytes);
        self.put_record(id, || record::encode(id, bytes, record::LEVEL))?;
        Ok(id)
    }

    /// [Puts](Self::put) a body that has been packed.
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    pub fn put_packed(&self, packed: &Packed) -> Result<(), Error> {
        self.put_record(packed.id, || packed.record.clone())
    }

    fn put_record(&self, id: BodyId, record: impl FnOnce() -> Vec<u8>) -> Result<(), Error> {
        let name = name_of(id);
        // First, so that a collection that has not seen it leaves it from here on.
        if let Some(touched) = &mut lock_of(&self.unwritten).touched {
            touched.insert(name);
        }
        let mut dropped = Vec::new();
        match self.find(id)? {
            Found::Sound(_) => return Ok(()),
            Found::Damaged => {
                dropped = self.damaged_places(id)?;
                loose::remove(&self.folder, id)?;
            }
            Found::Missing => {}
        }
        let record = record();
        let mut unwritten = lock_of(&self.unwritten);
        if !unwritten.holds(id) {
            unwritten.filling.append(id, &record);
        }
        unwritten.filling.dropped.extend(dropped);
        let is_much = unwritten.filling.bytes.len() > MOST_UNWRITTEN;
        drop(unwritten);
        if is_much {
            self.flush()?;
        }
        Ok(())
    }

    /// Forces all that was put to the disk, and lets others find it.
    ///
    /// # Errors
    /// If it cannot be written; it can be tried again.
    pub fn flush(&self) -> Result<(), Error> {
        self.flush_by(&mut lock_of(&self.access.tail))
    }

    fn flush_by(&self, tail: &mut Tail) -> Result<(), Error> {
        loop {
            let mut unwritten = lock_of(&self.unwritten);
            let is_again = unwritten.leaving.is_some();
            let batch = match &unwritten.leaving {
                Some(batch) => Arc::clone(batch),
                None if unwritten.filling.is_empty() => return Ok(()),
                None => {
                    let next = unwritten.filling.next(self.access.segment_bytes);
                    let batch = Arc::new(std::mem::replace(&mut unwritten.filling, next));
                    unwritten.leaving = Some(Arc::clone(&batch));
                    batch
                }
            };
            // Others put more while this is written.
            drop(unwritten);
            self.write(tail, &batch)?;
            lock_of(&self.unwritten).leaving = None;
            if !is_again {
                return Ok(());
            }
        }
    }

    fn write(&self, tail: &mut Tail, batch: &Batch) -> Result<(), Error> {
        if !batch.bytes.is_empty() {
            let path = segment::path(&self.folder, batch.segment);
            let failed = |source| Error::file(&path, source);
            let is_open = matches!(tail.file, Some((segment, _)) if segment == batch.segment);
            if !is_open {
                let file = segment::open_to_append(&self.folder, batch.segment).map_err(failed)?;
                private::persist_names(&self.folder)?;
                tail.file = Some((batch.segment, file));
            }
            if let Some((_, file)) = &mut tail.file {
                file.seek(SeekFrom::Start(batch.start)).map_err(failed)?;
                file.write_all(&batch.bytes).map_err(failed)?;
                file.sync_data().map_err(failed)?;
            }
        }
        let (entries, dropped) = (&batch.entries, &batch.dropped);
        let added = tail.index.add(entries, dropped, batch.segment, batch.end());
        Ok(added?)
    }

    /// Forgets a body, if it is there.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(&self, id: BodyId) -> Result<(), Error> {
        let mut tail = lock_of(&self.access.tail);
        self.flush_by(&mut tail)?;
        let name = name_of(id);
        let mut entries = Vec::new();
        for place in tail.index.find(name)? {
            // Another may begin with the same eight bytes.
            let record = self.record(place).ok();
            if record
                .and_then(|record| record::decode(&record))
                .is_none_or(|(found, _)| found == id)
            {
                entries.push(Entry { name, place });
            }
        }
        tail.index.remove(&entries)?;
        loose::remove(&self.folder, id)
    }

    /// Whether there may be bodies of an earlier version that are still to be brought over.
    pub fn has_old(&self) -> bool {
        self.has_loose.load(Ordering::Relaxed)
    }

    /// Brings bodies of an earlier version into segments, at most so many. Says how many
    /// it were: none once all are there.
    ///
    /// # Errors
    /// If they cannot be read or written.
    pub fn bring_over(&self, limit: usize) -> Result<usize, Error> {
        if !self.has_loose.load(Ordering::Relaxed) {
            return Ok(0);
        }
        let mut ids = Vec::new();
        let mut is_any_left = false;
        loose::walk(&self.folder, &mut |found| {
            if let loose::Loose::Body(id, _) = found {
                if ids.len() >= limit {
                    is_any_left = true;
                    return Ok(loose::Go::Enough);
                }
                // What is damaged is left to `doctor`, and to whoever puts it again.
                if let Some(body) = loose::read(&self.folder, id)? {
                    let record = record::encode(id, &body, record::LEVEL);
                    let mut unwritten = lock_of(&self.unwritten);
                    if !unwritten.holds(id) {
                        unwritten.filling.append(id, &record);
                    }
                    ids.push(id);
                }
            }
            Ok(loose::Go::On)
        })?;
        self.flush()?;
        for id in &ids {
            loose::remove(&self.folder, *id)?;
        }
        if !is_any_left && !loose::is_any(&self.folder)? {
            self.has_loose.store(false, Ordering::Relaxed);
        }
        Ok(ids.len())
    }

    /// Places where something is that is not as it was written, and may have been this.
    fn damaged_places(&self, id: BodyId) -> Result<Vec<Entry>, Error> {
        let name = name_of(id);
        let places = self.look_up(name)?.into_iter();
        let is_damaged = |place: &Place| {
            let record = self.record(*place).ok();
            record.and_then(|record| record::decode(&record)).is_none()
        };
        Ok(places
            .filter(is_damaged)
            .map(|place| Entry { name, place })
            .collect())
    }
}

impl Bodies<Reading> {
    /// The bodies in a folder, to read them beside whoever adds to them; none if there is
    /// no folder.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn read_only(folder: impl Into<PathBuf>) -> Result<Self, Error> {
        let bodies = Self::over(folder.into(), Reading)?;
        Ok(Self {
            beyond: Some(Mutex::default()),
            ..bodies
        })
    }
}

impl<Access> Bodies<Access> {
    /// A body as it was put.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it is not there, or is not what its name says.
    pub fn get(&self, id: BodyId) -> Result<Vec<u8>, Error> {
        match self.find(id)? {
            Found::Sound(body) => Ok(body),
            Found::Damaged => Err(Error::Damaged(format!("body {id} is not as it was kept"))),
            Found::Missing => Err(Error::Damaged(format!("body {id} is missing"))),
        }
    }

    /// Whether a body is there as it was put: all of it is read.
    pub fn is_sound(&self, id: BodyId) -> bool {
        self.get(id).is_ok()
    }

    /// Whether a body is there; not whether it is sound.
    pub fn contains(&self, id: BodyId) -> bool {
        if lock_of(&self.unwritten).holds(id) {
            return true;
        }
        for _ in 0..2 {
            let places = self.look_up(name_of(id)).unwrap_or_default();
            let mut records = places.iter().map(|place| self.record(*place));
            if records.any(|record| {
                let header = record.ok().and_then(|record| Header::of(&record));
                header.is_some_and(|header| header.id == id)
            }) || self.has_loose.load(Ordering::Relaxed) && loose::contains(&self.folder, id)
            {
                return true;
            }
        }
        false
    }

    /// How many bytes they take on the disk, index and all.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn n_bytes(&self) -> Result<u64, Error> {
        let segments = segment::all(&self.folder)?;
        let mut n: u64 = segments.iter().map(|(_, length)| length).sum();
        for ending in ["", "-wal", "-shm"] {
            let path = self.folder.join(format!("{}{ending}", segment::INDEX));
            n += fs::metadata(path).map_or(0, |metadata| metadata.len());
        }
        if self.has_loose.load(Ordering::Relaxed) {
            loose::walk(&self.folder, &mut |found| {
                if let loose::Loose::Body(_, length) | loose::Loose::Begun(_, length) = found {
                    n += length;
                }
                Ok(loose::Go::On)
            })?;
        }
        Ok(n)
    }

    fn find(&self, id: BodyId) -> Result<Found, Error> {
        if let Some(record) = lock_of(&self.unwritten).record(id)
            && let Some((_, body)) = record::decode(&record)
        {
            return Ok(Found::Sound(body));
        }
        let has_loose = self.has_loose.load(Ordering::Relaxed);
        let mut n_tries = 0;
        loop {
            n_tries += 1;
            let mut found = Found::Missing;
            let mut may_have_moved = has_loose;
            for place in self.look_up(name_of(id))? {
                match self.record(place) {
                    Ok(record) => match record::decode(&record) {
                        Some((is, body)) if is == id => return Ok(Found::Sound(body)),
                        // Another that begins with the same eight bytes.
                        Some(_) => {}
                        None => found = Found::Damaged,
                    },
                    Err(error) => match error.kind() {
                        io::ErrorKind::NotFound => may_have_moved = true,
                        io::ErrorKind::UnexpectedEof => found = Found::Damaged,
                        _ => {
                            let path = segment::path(&self.folder, place.segment);
                            return Err(Error::file(&path, error));
                        }
                    },
                }
            }
            if has_loose {
                if let Some(body) = loose::read(&self.folder, id)? {
                    return Ok(Found::Sound(body));
                }
                if loose::contains(&self.folder, id) {
                    found = Found::Damaged;
                }
            }
            if !may_have_moved || n_tries > 1 {
                return Ok(found);
            }
        }
    }

    /// Where a body of this name may be, besides what is not yet written.
    fn look_up(&self, name: i64) -> Result<Vec<Place>, Error> {
        let mut index = lock_of(&self.index);
        if index.is_none() {
            *index = Index::read_only(&self.folder)?;
        }
        let mut places = match &*index {
            Some(index) => index.find(name)?,
            None => Vec::new(),
        };
        if places.is_empty()
            && let Some(beyond) = &self.beyond
        {
            let mut beyond = lock_of(beyond);
            if beyond.is_empty() {
                let ends = match &*index {
                    Some(index) => index.segments()?,
                    None => Vec::new(),
                };
                *beyond = beyond_index(&self.folder, &ends)?;
            }
            places.extend(beyond.get(&name).into_iter().flatten());
        }
        Ok(places)
    }

    /// What is at a place.
    fn record(&self, place: Place) -> io::Result<Vec<u8>> {
        let file = self.file(place.segment)?;
        // Whatever an index says, no more than there is.
        if place.end() > file.metadata()?.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut record = vec![0; usize::try_from(place.length).unwrap_or(usize::MAX)];
        segment::read_at(&file, &mut record, place.offset)?;
        Ok(record)
    }

    fn file(&self, segment: u32) -> io::Result<Arc<File>> {
        if let Some(file) = lock_of(&self.files).get(&segment) {
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(segment::open(&self.folder, segment)?);
        lock_of(&self.files).insert(segment, Arc::clone(&file));
        Ok(file)
    }
}

impl<Access> Bodies<Access> {
    fn over(folder: PathBuf, access: Access) -> Result<Self, Error> {
        Ok(Self {
            index: Mutex::new(Index::read_only(&folder)?),
            files: Mutex::default(),
            beyond: None,
            has_loose: AtomicBool::new(loose::is_any(&folder)?),
            unwritten: Mutex::default(),
            folder,
            access,
        })
    }
}

impl Unwritten {
    fn batches(&self) -> impl Iterator<Item = &Batch> {
        [Some(&self.filling), self.leaving.as_deref()]
            .into_iter()
            .flatten()
    }

    fn holds(&self, id: BodyId) -> bool {
        self.batches().any(|batch| batch.places.contains_key(&id))
    }

    fn record(&self, id: BodyId) -> Option<Vec<u8>> {
        self.batches().find_map(|batch| {
            let place = batch.places.get(&id)?;
            let from = usize::try_from(place.offset - batch.start).ok()?;
            let length = usize::try_from(place.length).ok()?;
            batch.bytes.get(from..from + length).map(<[u8]>::to_vec)
        })
    }
}

impl Batch {
    fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.dropped.is_empty()
    }

    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    fn append(&mut self, id: BodyId, record: &[u8]) {
        let place = Place {
            segment: self.segment,
            offset: self.end(),
            length: record.len() as u64,
        };
        self.bytes.extend_from_slice(record);
        self.entries.push(Entry {
            name: name_of(id),
            place,
        });
        self.places.insert(id, place);
    }

    /// What follows this one.
    fn next(&self, segment_bytes: u64) -> Self {
        let is_full = self.end() >= segment_bytes;
        Self {
            segment: self.segment + u32::from(is_full),
            start: if is_full { 0 } else { self.end() },
            ..Self::default()
        }
    }
}

/// Takes into the index what is in segments beyond it, cuts off what was not written
/// whole, and says where to append.
fn recover(folder: &Path, index: &mut Index) -> Result<(u32, u64), Error> {
    let ends: HashMap<u32, u64> = index.segments()?.into_iter().collect();
    let segments = segment::all(folder)?;
    let mut latest = index.latest_segment()?;
    let mut append_at = None;
    for &(segment, length) in &segments {
        let path = segment::path(folder, segment);
        let failed = |source| Error::file(&path, source);
        private::tighten(&path);
        let end = ends.get(&segment).copied().unwrap_or(0);
        if length > end {
            let file = segment::open_to_append(folder, segment).map_err(failed)?;
            let mut entries = Vec::new();
            let found = segment::scan(&file, end, length, &mut |header, offset, length| {
                let name = name_of(header.id);
                let place = Place {
                    segment,
                    offset,
                    length,
                };
                entries.push(Entry { name, place });
            });
            let whole = found.map_err(failed)?;
            // What is taken in may be named, so it has to stay.
            file.sync_data().map_err(failed)?;
            for entries in entries.chunks(RECOVERED_AT_ONCE) {
                let end = entries.last().map_or(whole, |entry| entry.place.end());
                index.add(entries, &[], segment, end)?;
            }
            if whole < length {
                file.set_len(whole).map_err(failed)?;
                file.sync_data().map_err(failed)?;
            }
            append_at = Some((segment, whole));
        } else if length == end {
            append_at = Some((segment, end));
        } else {
            // Cut short by someone: what is left can be read, but nothing goes there.
            append_at = None;
        }
        latest = latest.max(segment);
    }
    Ok(match append_at {
        Some((segment, end)) if segment == latest && end < SEGMENT_BYTES => (segment, end),
        _ => (latest + 1, 0),
    })
}

/// So many are taken into an index together.
const RECOVERED_AT_ONCE: usize = 100_000;

/// What is in segments beyond the index, by name.
fn beyond_index(folder: &Path, ends: &[(u32, u64)]) -> Result<HashMap<i64, Vec<Place>>, Error> {
    let mut places: HashMap<i64, Vec<Place>> = HashMap::new();
    for (segment, length) in segment::all(folder)? {
        let end = ends.iter().find(|(number, _)| *number == segment);
        let end = end.map_or(0, |(_, end)| *end);
        if length <= end {
            continue;
        }
        let scanned = segment::open(folder, segment).and_then(|file| {
            segment::scan(&file, end, length, &mut |header, offset, length| {
                let place = Place {
                    segment,
                    offset,
                    length,
                };
                places.entry(name_of(header.id)).or_default().push(place);
            })
        });
        match scanned {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            scanned => {
                scanned.map_err(|source| Error::file(&segment::path(folder, segment), source))?;
            }
        }
    }
    Ok(places)
}

fn remove_index(folder: &Path) -> Result<(), Error> {
    for ending in ["", "-wal", "-shm"] {
        let path = folder.join(format!("{}{ending}", segment::INDEX));
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(Error::file(&path, source));
            }
            _ => {}
        }
    }
    Ok(())
}

/// What a thread that panicked held is as whole as what any other holds: nothing is
/// changed in between.
fn lock_of<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
