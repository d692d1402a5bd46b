//! Bodies, by their content.
//!
//! A body is a file whose name is the digest of what it holds, so that the same
//! bytes are kept once, whoever names them, and whether a body is as it was written
//! can be told from the body alone.
//!
//! ```text
//! bodies/3f/9a0c…   kind (1 byte), length (8 bytes, little-endian), bytes
//! bodies/new/…      on its way: takes its name when it is whole
//! ```

use std::cell::RefCell;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use crate::{Error, Problem, private};

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

/// Where bodies are kept: a folder.
///
/// Any number of threads and processes may read; a body is there whole or not at
/// all. What is removed is up to the one who writes the [store](crate::Writer).
#[derive(Debug)]
pub struct Bodies {
    folder: PathBuf,
    /// Begins the names of what this one is writing.
    prefix: String,
    n_begun: AtomicU64,
}

/// What [`Bodies::gc`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Freed {
    /// How many files are gone.
    pub n_files: u64,
    /// How long they were, as kept.
    pub n_bytes: u64,
}

/// Where bodies are until they are whole.
const ON_ITS_WAY: &str = "new";
/// The level that zstd's authors chose as theirs. Higher ones gain a few per cent
/// on pages and take several times as long.
const LEVEL: i32 = 3;
/// Below, there is nothing that zstd could find again.
const LEAST_TO_COMPRESS: usize = 64;
const STORED: u8 = b's';
const COMPRESSED: u8 = b'z';
const HEADER: usize = 9;

impl Bodies {
    /// The bodies in a folder, which is made if there is none.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, Error> {
        let folder = folder.into();
        let on_its_way = folder.join(ON_ITS_WAY);
        private::create_dir_all(&on_its_way).map_err(|source| Error::file(&on_its_way, source))?;
        let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let prefix = format!("{}-{}-", std::process::id(), since.as_nanos());
        Ok(Self {
            folder,
            prefix,
            n_begun: AtomicU64::new(0),
        })
    }

    /// Keeps a body, unless it is there. One that is damaged is replaced.
    ///
    /// When this returns, the body survives the death of the process. It is not
    /// forced to the disk: if the machine dies, [`get`](Self::get) says that the
    /// body is missing or damaged, and it has to be fetched again.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn put(&self, bytes: &[u8]) -> Result<BodyId, Error> {
        let id = BodyId::of(bytes);
        let path = self.path(id);
        if self.is_sound(id) {
            return Ok(id);
        }
        let number = self.n_begun.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}{number}", self.prefix);
        let on_its_way = self.folder.join(ON_ITS_WAY).join(name);
        let written = write(&on_its_way, bytes).and_then(|()| put_in_place(&on_its_way, &path));
        written.map_err(|source| {
            // If even this fails, `check` and `gc` will come across it.
            let _ = fs::remove_file(&on_its_way);
            Error::file(&path, source)
        })?;
        Ok(id)
    }

    /// A body as it was put.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it is not there, or is not what its name says.
    pub fn get(&self, id: BodyId) -> Result<Vec<u8>, Error> {
        match read(&self.path(id)) {
            Ok(Some(bytes)) if BodyId::of(&bytes) == id => Ok(bytes),
            Ok(_) => Err(Error::Damaged(format!("body {id} is not as it was kept"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(Error::Damaged(format!("body {id} is missing")))
            }
            Err(source) => Err(Error::file(&self.path(id), source)),
        }
    }

    /// Whether a body is there as it was put: all of it is read.
    pub fn is_sound(&self, id: BodyId) -> bool {
        self.get(id).is_ok()
    }

    /// Whether a body is there; not whether it is sound.
    pub fn contains(&self, id: BodyId) -> bool {
        fs::metadata(self.path(id)).is_ok_and(|metadata| metadata.len() > 0)
    }

    /// Forgets a body, if it is there.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(&self, id: BodyId) -> Result<(), Error> {
        let path = self.path(id);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(Error::file(&path, source))
            }
            _ => Ok(()),
        }
    }

    /// Reads all there is, and tells `each` what is wrong: bodies that are not what
    /// their names say, bodies that `is_named` does not know, what was begun and
    /// never became whole, and files that should not be there.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn check(
        &self,
        is_named: &mut dyn FnMut(BodyId) -> bool,
        each: &mut dyn FnMut(Problem),
    ) -> Result<(), Error> {
        self.walk(&mut |found| {
            match found {
                Found::Body(id, _) => match self.get(id) {
                    Ok(_) if is_named(id) => {}
                    Ok(_) => each(Problem::BodyUnnamed(id)),
                    Err(Error::Damaged(_)) => each(Problem::BodyDamaged(id)),
                    Err(error) => return Err(error),
                },
                Found::Begun(path, _) | Found::Foreign(path) => each(Problem::StrayFile(path)),
            }
            Ok(())
        })
    }

    /// Removes what `keep` does not name, and what was begun and never became
    /// whole.
    ///
    /// A body is put before the fact that names it is kept, so nothing may be put
    /// meanwhile.
    ///
    /// # Errors
    /// If the folder cannot be read, or a file not removed.
    pub fn gc(&self, keep: &mut dyn FnMut(BodyId) -> bool) -> Result<Freed, Error> {
        let mut freed = Freed::default();
        self.walk(&mut |found| {
            let (path, n_bytes) = match found {
                Found::Body(id, n_bytes) if !keep(id) => (self.path(id), n_bytes),
                Found::Begun(path, n_bytes) => (path, n_bytes),
                Found::Body(..) | Found::Foreign(_) => return Ok(()),
            };
            fs::remove_file(&path).map_err(|source| Error::file(&path, source))?;
            freed.n_files += 1;
            freed.n_bytes += n_bytes;
            Ok(())
        })?;
        Ok(freed)
    }

    fn path(&self, id: BodyId) -> PathBuf {
        let name = id.to_string();
        self.folder.join(&name[..2]).join(&name[2..])
    }

    fn walk(&self, each: &mut dyn FnMut(Found) -> Result<(), Error>) -> Result<(), Error> {
        for folder in entries(&self.folder)? {
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            if !folder.is_dir() {
                each(Found::Foreign(folder))?;
                continue;
            }
            let is_on_its_way = name == ON_ITS_WAY;
            for path in entries(&folder)? {
                let rest = path.file_name().unwrap_or_default().to_string_lossy();
                if is_on_its_way && rest.starts_with(&self.prefix) {
                    continue;
                }
                let Ok(metadata) = fs::metadata(&path) else {
                    continue;
                };
                // Names are written in small letters; the parser takes others too.
                let id = format!("{name}{rest}").parse::<BodyId>().ok();
                let id = id.filter(|id| self.path(*id) == path);
                each(match id {
                    _ if is_on_its_way => Found::Begun(path, metadata.len()),
                    Some(id) if metadata.is_file() => Found::Body(id, metadata.len()),
                    _ => Found::Foreign(path),
                })?;
            }
        }
        Ok(())
    }
}

/// What is in the folder, and how long it is.
enum Found {
    Body(BodyId, u64),
    Begun(PathBuf, u64),
    Foreign(PathBuf),
}

/// What is in a folder, in the order of names; a folder that has gone is empty.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries,
    };
    let paths = entries.and_then(|entries| {
        entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<io::Result<Vec<_>>>()
    });
    let mut paths = paths.map_err(|source| Error::file(folder, source))?;
    paths.sort_unstable();
    Ok(paths)
}

thread_local! {
    /// A context of zstd is most of what compressing a small body takes, so it is
    /// kept.
    static COMPRESSOR: RefCell<Option<zstd::bulk::Compressor<'static>>> =
        const { RefCell::new(None) };
}

/// These bytes compressed, if that makes them shorter.
fn compressed(bytes: &[u8]) -> Option<Vec<u8>> {
    if bytes.len() < LEAST_TO_COMPRESS {
        return None;
    }
    COMPRESSOR.with_borrow_mut(|compressor| {
        if compressor.is_none() {
            *compressor = zstd::bulk::Compressor::new(LEVEL).ok();
        }
        let shorter = compressor.as_mut()?.compress(bytes).ok()?;
        (shorter.len() < bytes.len()).then_some(shorter)
    })
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let shorter = compressed(bytes);
    let (kind, content) = match &shorter {
        Some(shorter) => (COMPRESSED, shorter.as_slice()),
        None => (STORED, bytes),
    };
    let mut file = Vec::with_capacity(HEADER + content.len());
    file.push(kind);
    file.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    file.extend_from_slice(content);
    let mut options = private::options();
    options.write(true).create_new(true);
    options.open(path)?.write_all(&file)
}

fn put_in_place(from: &Path, to: &Path) -> io::Result<()> {
    match (fs::rename(from, to), to.parent()) {
        (Err(error), Some(folder)) if error.kind() == io::ErrorKind::NotFound => {
            private::create_dir_all(folder)?;
            fs::rename(from, to)
        }
        (result, _) => result,
    }
}

/// What is in a file, or nothing if it is not a body. Never more than its header
/// says.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut file = File::open(path)?;
    let mut header = [0; HEADER];
    match file.read_exact(&mut header) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        result => result?,
    }
    let [kind, length @ ..] = header;
    let length = u64::from_le_bytes(length);
    let Some(one_more) = length.checked_add(1) else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    let read = match kind {
        STORED => file.take(one_more).read_to_end(&mut bytes),
        COMPRESSED => {
            let decoder = zstd::stream::read::Decoder::new(file)?;
            // A frame that cannot be decoded is damage, not a failure of the disk.
            match decoder.take(one_more).read_to_end(&mut bytes) {
                Err(_) => return Ok(None),
                read => read,
            }
        }
        _ => return Ok(None),
    };
    let read = read?;
    Ok((read as u64 == length).then_some(bytes))
}
