//! What nothing names any more: finding it, and giving back the room that it takes.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::ops::{ControlFlow, Deref};

use super::index::{Cursor, Entry, Index, name_of};
use super::record::{self, Header};
use super::segment::{self, Place};
use super::{Batch, Bodies, BodyId, Tail, lock_of, loose};
use crate::{Error, Problem};

/// A collection under way: first it is told what is named, then it sweeps.
///
/// Bodies are put before the facts that name them are kept. What is put after a collection
/// has begun is left alone; whoever put something before has to have it named by then.
#[derive(Debug)]
pub struct Collection<Of: Deref<Target = Bodies>> {
    bodies: Of,
    marks: Marks,
}

/// What a collection freed, or would.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Freed {
    /// How many bodies are gone.
    pub n_bodies: u64,
    /// How many bytes of the disk are free again.
    pub n_bytes: u64,
}

/// Entries that are looked at in one step.
const PER_STEP: usize = 2_000;
/// Bytes that are moved in one step.
const BYTES_PER_STEP: u64 = 1 << 20;
/// Segments that are rewritten for one walk over the index, so that the list of what
/// lives in them stays small.
const SEGMENTS_AT_ONCE: usize = 4;
/// Entries that a check reads in the order of their places.
const PER_CHECK: usize = 1 << 18;

impl Bodies {
    /// Begins a collection. There is one at a time.
    ///
    /// # Errors
    /// As for [`Collection::begin`].
    pub fn collect(&self) -> Result<Collection<&Self>, Error> {
        Collection::begin(self)
    }
}

impl<Of: Deref<Target = Bodies>> Drop for Collection<Of> {
    fn drop(&mut self) {
        lock_of(&self.bodies.unwritten).touched = None;
    }
}

impl<Of: Deref<Target = Bodies>> Collection<Of> {
    /// Begins a collection. There is one at a time.
    ///
    /// # Errors
    /// [`Error::InUse`] if there is one; if the index cannot be read.
    pub fn begin(bodies: Of) -> Result<Self, Error> {
        let n = lock_of(&bodies.access.tail).index.n_entries()?;
        let marks = Marks::for_about(n);
        let mut unwritten = lock_of(&bodies.unwritten);
        if unwritten.touched.is_some() {
            return Err(Error::InUse);
        }
        unwritten.touched = Some(HashSet::new());
        drop(unwritten);
        Ok(Self { bodies, marks })
    }

    /// A body is named.
    pub fn mark(&mut self, id: BodyId) {
        self.marks.add(name_of(id));
    }

    /// Forgets what was not marked, and rewrites segments of which at least this share is
    /// dead. All in small steps: `between` is called after each, while others may read and
    /// put, and may end it. What was done so far stays done.
    ///
    /// # Errors
    /// If something cannot be read or written.
    pub fn sweep(
        &self,
        least_dead: f64,
        between: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<Freed, Error> {
        let mut freed = Freed::default();
        let ended = self.forget(&mut freed, between)?;
        self.loose(&mut |path, n_bytes| {
            fs::remove_file(path).map_err(|source| Error::file(path, source))?;
            freed.n_bodies += 1;
            freed.n_bytes += n_bytes;
            Ok(())
        })?;
        if ended.is_break() {
            return Ok(freed);
        }
        loop {
            let Some(worst) = self.worst(least_dead, between)? else {
                break;
            };
            if worst.is_empty() {
                break;
            }
            for (segment, living) in worst {
                if self.rewrite(segment, &living, between)?.is_break() {
                    return Ok(freed);
                }
                let path = segment::path(&self.bodies.folder, segment);
                let length = fs::metadata(&path).map_or(0, |metadata| metadata.len());
                let living: u64 = living.iter().map(|entry| entry.place.length).sum();
                freed.n_bytes += length.saturating_sub(living);
                self.remove_segment(segment)?;
            }
        }
        Ok(freed)
    }

    /// Takes out of the index what was not marked.
    fn forget(
        &self,
        freed: &mut Freed,
        between: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Error> {
        let mut cursor = Cursor::default();
        loop {
            let mut tail = self.tail();
            let mut entries = tail.index.walk(&mut cursor, PER_STEP)?;
            if entries.is_empty() {
                return Ok(ControlFlow::Continue(()));
            }
            // Held until it is done: whoever puts one of these afterwards looks for it
            // afterwards, and finds that it is not there.
            let unwritten = lock_of(&self.bodies.unwritten);
            entries.retain(|entry| !self.lives(entry.name, unwritten.touched.as_ref()));
            freed.n_bodies += entries.len() as u64;
            tail.index.remove(&entries)?;
            drop(unwritten);
            drop(tail);
            if between().is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }

    /// The segments of which most is dead, with what lives in them in the order of places;
    /// nothing if it was ended.
    fn worst(
        &self,
        least_dead: f64,
        between: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<Option<BTreeMap<u32, Vec<Entry>>>, Error> {
        let mut living: BTreeMap<u32, u64> = BTreeMap::new();
        let is_over = self.walk(between, &mut |entry| {
            *living.entry(entry.place.segment).or_default() += entry.place.length;
        })?;
        if is_over.is_break() {
            return Ok(None);
        }
        self.seal_if_dead(&living, least_dead)?;
        let latest = lock_of(&self.bodies.unwritten).filling.segment;
        let mut dead: Vec<(u64, u32)> = Vec::new();
        for (segment, length) in segment::all(&self.bodies.folder)? {
            let n_dead = length.saturating_sub(living.get(&segment).copied().unwrap_or(0));
            if segment < latest && is_dead_enough(n_dead, length, least_dead) {
                dead.push((n_dead, segment));
            }
        }
        dead.sort_unstable();
        let worst = dead.iter().rev().take(SEGMENTS_AT_ONCE);
        let mut worst: BTreeMap<u32, Vec<Entry>> =
            worst.map(|(_, segment)| (*segment, Vec::new())).collect();
        if worst.is_empty() {
            return Ok(Some(worst));
        }
        let is_over = self.walk(between, &mut |entry| {
            if let Some(entries) = worst.get_mut(&entry.place.segment) {
                entries.push(entry);
            }
        })?;
        for entries in worst.values_mut() {
            entries.sort_unstable_by_key(|entry| entry.place);
            entries.dedup();
        }
        Ok(is_over.is_continue().then_some(worst))
    }

    /// If much of the segment that is appended to is dead, no more is appended to it.
    fn seal_if_dead(&self, living: &BTreeMap<u32, u64>, least_dead: f64) -> Result<(), Error> {
        let mut tail = self.tail();
        self.bodies.flush_by(&mut tail)?;
        let mut unwritten = lock_of(&self.bodies.unwritten);
        let filling = &unwritten.filling;
        // What is put now lives, and is not counted.
        let n_living = living.get(&filling.segment).copied().unwrap_or(0);
        let n_dead = filling.start.saturating_sub(n_living);
        if filling.is_empty() && is_dead_enough(n_dead, filling.start, least_dead) {
            unwritten.filling = Batch {
                segment: filling.segment + 1,
                ..Batch::default()
            };
        }
        Ok(())
    }

    /// Appends what lives in a segment to the latest.
    fn rewrite(
        &self,
        segment: u32,
        living: &[Entry],
        between: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Error> {
        let mut rest = living;
        while !rest.is_empty() {
            let mut n_bytes = 0;
            let n = rest.iter().take_while(|entry| {
                let is_first = n_bytes == 0;
                n_bytes += entry.place.length;
                is_first || n_bytes <= BYTES_PER_STEP
            });
            let (step, after) = rest.split_at(n.count());
            rest = after;
            let mut records = Vec::with_capacity(step.len());
            for entry in step {
                match self.bodies.record(entry.place) {
                    Ok(record) => records.push((entry, record)),
                    // As lost as it was before.
                    Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {}
                    Err(source) => {
                        let path = segment::path(&self.bodies.folder, segment);
                        return Err(Error::file(&path, source));
                    }
                }
            }
            let mut tail = self.tail();
            {
                let mut unwritten = lock_of(&self.bodies.unwritten);
                let filling = &mut unwritten.filling;
                for (entry, record) in &records {
                    // Damaged or not, it stays what it is, as long as it can be told what
                    // that was; the next to ask for it sees.
                    if let Some(header) = Header::of(record)
                        && name_of(header.id) == entry.name
                        && !filling.places.contains_key(&header.id)
                    {
                        filling.append(header.id, record);
                    }
                }
                filling.dropped.extend_from_slice(step);
            }
            self.bodies.flush_by(&mut tail)?;
            drop(tail);
            if between().is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn remove_segment(&self, segment: u32) -> Result<(), Error> {
        let mut tail = self.tail();
        tail.index.remove_segment(segment)?;
        if matches!(tail.file, Some((open, _)) if open == segment) {
            tail.file = None;
        }
        lock_of(&self.bodies.files).remove(&segment);
        let path = segment::path(&self.bodies.folder, segment);
        fs::remove_file(&path).map_err(|source| Error::file(&path, source))
    }

    fn walk(
        &self,
        between: &mut dyn FnMut() -> ControlFlow<()>,
        each: &mut dyn FnMut(Entry),
    ) -> Result<ControlFlow<()>, Error> {
        let mut cursor = Cursor::default();
        loop {
            let entries = self.tail().index.walk(&mut cursor, PER_STEP)?;
            if entries.is_empty() {
                return Ok(ControlFlow::Continue(()));
            }
            entries.into_iter().for_each(&mut *each);
            if between().is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }

    /// Files of an earlier version that are not needed, and how long they are.
    fn loose(
        &self,
        each: &mut dyn FnMut(&std::path::Path, u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let folder = &self.bodies.folder;
        loose::walk(folder, &mut |found| {
            let (path, n_bytes) = match found {
                loose::Loose::Body(id, n_bytes) => {
                    let unwritten = lock_of(&self.bodies.unwritten);
                    if self.lives(name_of(id), unwritten.touched.as_ref()) {
                        return Ok(loose::Go::On);
                    }
                    (loose::path(folder, id), n_bytes)
                }
                loose::Loose::Begun(path, n_bytes) => (path, n_bytes),
                loose::Loose::Foreign(_) => return Ok(loose::Go::On),
            };
            each(&path, n_bytes)?;
            Ok(loose::Go::On)
        })
    }

    fn lives(&self, name: i64, touched: Option<&HashSet<i64>>) -> bool {
        self.marks.contains(name) || touched.is_some_and(|touched| touched.contains(&name))
    }

    fn tail(&self) -> std::sync::MutexGuard<'_, Tail> {
        lock_of(&self.bodies.access.tail)
    }
}

fn is_dead_enough(n_dead: u64, length: u64, least_dead: f64) -> bool {
    n_dead > 0 && n_dead as f64 >= least_dead * length as f64
}

impl<Access> Bodies<Access> {
    /// Reads all there is, and tells `each` what is wrong: bodies that are not what
    /// their names say, bodies that `is_named` does not know, what was begun and
    /// never became whole, and files that should not be there.
    ///
    /// Of a damaged body whose name is damaged as well, only the first eight bytes of the
    /// name are told.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn check(
        &self,
        is_named: &mut dyn FnMut(BodyId) -> bool,
        each: &mut dyn FnMut(Problem),
    ) -> Result<(), Error> {
        let damage = lock_of(&self.index).as_ref().and_then(Index::damage);
        match damage {
            Some(damage) => each(Problem::IndexDamaged(damage)),
            None => self.check_segments(is_named, each)?,
        }
        loose::walk(&self.folder, &mut |found| {
            match found {
                loose::Loose::Body(id, _) => match loose::read(&self.folder, id)? {
                    Some(_) if is_named(id) => {}
                    Some(_) => each(Problem::BodyUnnamed(id)),
                    None if loose::contains(&self.folder, id) => each(Problem::BodyDamaged(id)),
                    // An empty file never was one.
                    None => each(Problem::StrayFile(loose::path(&self.folder, id))),
                },
                loose::Loose::Begun(path, _) | loose::Loose::Foreign(path) => {
                    each(Problem::StrayFile(path));
                }
            }
            Ok(loose::Go::On)
        })
    }

    /// What a collection would free if these alone were named.
    ///
    /// # Errors
    /// If the index or the folder cannot be read.
    pub fn unnamed(&self, named: &HashSet<BodyId>) -> Result<Freed, Error> {
        let names: HashSet<i64> = named.iter().map(|id| name_of(*id)).collect();
        let mut freed = Freed::default();
        let mut cursor = Cursor::default();
        loop {
            let entries = match &*lock_of(&self.index) {
                Some(index) => index.walk(&mut cursor, PER_STEP)?,
                None => Vec::new(),
            };
            if entries.is_empty() {
                break;
            }
            for entry in entries {
                if !names.contains(&entry.name) {
                    freed.n_bodies += 1;
                    freed.n_bytes += entry.place.length;
                }
            }
        }
        loose::walk(&self.folder, &mut |found| {
            match found {
                loose::Loose::Body(id, _) if named.contains(&id) => {}
                loose::Loose::Body(_, n_bytes) | loose::Loose::Begun(_, n_bytes) => {
                    freed.n_bodies += 1;
                    freed.n_bytes += n_bytes;
                }
                loose::Loose::Foreign(_) => {}
            }
            Ok(loose::Go::On)
        })?;
        Ok(freed)
    }

    fn check_segments(
        &self,
        is_named: &mut dyn FnMut(BodyId) -> bool,
        each: &mut dyn FnMut(Problem),
    ) -> Result<(), Error> {
        let mut cursor = Cursor::default();
        loop {
            let mut entries = match &*lock_of(&self.index) {
                Some(index) => index.walk(&mut cursor, PER_CHECK)?,
                None => Vec::new(),
            };
            if entries.is_empty() {
                return Ok(());
            }
            entries.sort_unstable_by_key(|entry| entry.place);
            for entry in entries {
                match self.seen_at(entry) {
                    (id, true) if is_named(id) => {}
                    (id, true) => each(Problem::BodyUnnamed(id)),
                    // It may have been moved or forgotten since.
                    (id, false) if self.is_at(entry)? => each(Problem::BodyDamaged(id)),
                    _ => {}
                }
            }
        }
    }

    /// What is at the place of an entry, and whether it is as it was written.
    fn seen_at(&self, entry: Entry) -> (BodyId, bool) {
        let record = self.record(entry.place).unwrap_or_default();
        let header = Header::of(&record).filter(|header| name_of(header.id) == entry.name);
        match header {
            Some(header) => (header.id, record::decode(&record).is_some()),
            None => {
                let mut id = [0; 32];
                id[..8].copy_from_slice(&entry.name.to_le_bytes());
                (BodyId(id), false)
            }
        }
    }

    /// Whether the index still says so.
    fn is_at(&self, entry: Entry) -> Result<bool, Error> {
        let places: Vec<Place> = self.look_up(entry.name)?;
        Ok(places.contains(&entry.place))
    }
}

/// Names that were marked: a Bloom filter, since ten million names would take 100 MB.
/// Fewer than one in a thousand is taken for marked that is not, and stays until the next
/// collection.
#[derive(Debug)]
struct Marks {
    bits: Vec<u64>,
}

/// For each body.
const BITS: u64 = 16;
/// So many bits are set for each.
const BITS_SET: u64 = 8;
/// So that of few bodies none is mistaken.
const LEAST_WORDS: u64 = 1 << 13;

impl Marks {
    fn for_about(n: u64) -> Self {
        let n_words = (n.saturating_mul(BITS) / 64).max(LEAST_WORDS);
        Self {
            bits: vec![0; usize::try_from(n_words).unwrap_or(usize::MAX)],
        }
    }

    fn add(&mut self, name: i64) {
        for (word, bit) in self.places(name) {
            self.bits[word] |= bit;
        }
    }

    fn contains(&self, name: i64) -> bool {
        let mut places = self.places(name);
        places.all(|(word, bit)| self.bits[word] & bit != 0)
    }

    /// Names are digests, so their halves are two hashes of them.
    fn places(&self, name: i64) -> impl Iterator<Item = (usize, u64)> + use<> {
        let name = name.cast_unsigned();
        let (first, step) = (name >> 32, name & 0xffff_ffff | 1);
        let n_bits = self.bits.len() as u64 * 64;
        (0..BITS_SET).map(move |index| {
            let bit = (first.wrapping_mul(0x9e37_79b9).wrapping_add(index * step)) % n_bits;
            ((bit / 64) as usize, 1 << (bit % 64))
        })
    }
}
