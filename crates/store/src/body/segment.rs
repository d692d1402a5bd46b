//! Segments: files that only grow, with one record after another.
//!
//! ```text
//! bodies/000001.seg   the first segment
//! bodies/index.db     where in them a body is: see index.rs
//! bodies/lock         held by the one who writes
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::record::{self, Header};
use crate::{Error, private};

pub(super) const INDEX: &str = "index.db";
pub(super) const LOCK: &str = "lock";
const ENDING: &str = ".seg";
/// Records are looked for so many bytes at a time.
const STRIDE: u64 = 1 << 20;

/// Where a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place {
    pub(super) segment: u32,
    pub(super) offset: u64,
    pub(super) length: u64,
}

impl Place {
    pub(super) fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }
}

pub(super) fn path(folder: &Path, segment: u32) -> PathBuf {
    folder.join(format!("{segment:06}{ENDING}"))
}

/// Whether a file of this name is ours to have in the folder of bodies.
pub(super) fn is_ours(name: &str) -> bool {
    name == LOCK || name.starts_with(INDEX) || number_of(name).is_some()
}

fn number_of(name: &str) -> Option<u32> {
    let number = name.strip_suffix(ENDING)?.parse().ok()?;
    (name == format!("{number:06}{ENDING}")).then_some(number)
}

/// All segments in a folder, in their order, and how long they are.
pub(super) fn all(folder: &Path) -> Result<Vec<(u32, u64)>, Error> {
    let failed = |source| Error::file(folder, source);
    let mut found = Vec::new();
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        entries => entries.map_err(failed)?,
    };
    for entry in entries {
        let entry = entry.map_err(failed)?;
        if let Some(number) = number_of(&entry.file_name().to_string_lossy())
            // One that has gone meanwhile was rewritten.
            && let Ok(metadata) = fs::symlink_metadata(entry.path())
        {
            found.push((number, metadata.len()));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Opens a segment to read it.
pub(super) fn open(folder: &Path, segment: u32) -> io::Result<File> {
    open_itself(&path(folder, segment), File::options().read(true))
}

/// Opens a segment to append to it, making it if there is none.
pub(super) fn open_to_append(folder: &Path, segment: u32) -> io::Result<File> {
    let mut options = private::options();
    options.read(true).write(true).create(true).truncate(false);
    open_itself(&path(folder, segment), &options)
}

/// Opens a file, and not one that a link sends us on to: what is behind it may be anyone's.
fn open_itself(path: &Path, options: &OpenOptions) -> io::Result<File> {
    let refused = || io::Error::new(io::ErrorKind::InvalidInput, "is a link, or not a file");
    let is_link = |metadata: &fs::Metadata| !metadata.is_file();
    // Before, so that nothing is made behind a link; afterwards, since it may have become one.
    if fs::symlink_metadata(path).is_ok_and(|metadata| is_link(&metadata)) {
        return Err(refused());
    }
    let file = options.open(path)?;
    match is_link(&fs::symlink_metadata(path)?) {
        true => Err(refused()),
        false => Ok(file),
    }
}

/// All that is in a file that is not a link.
pub(super) fn read_whole(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_itself(path, File::options().read(true))?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads all of `bytes` from a place in a file, whoever else reads it.
pub(super) fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset);
    #[cfg(windows)]
    {
        let (mut done, mut offset) = (0, offset);
        while done < bytes.len() {
            let n = std::os::windows::fs::FileExt::seek_read(file, &mut bytes[done..], offset)?;
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            (done, offset) = (done + n, offset + n as u64);
        }
        Ok(())
    }
}

/// Tells `each` of the records in a segment from an offset on, each as it was written,
/// and gives the end of the last: what comes after it was not written whole.
pub(super) fn scan(
    file: &File,
    from: u64,
    length: u64,
    each: &mut dyn FnMut(Header, u64, u64),
) -> io::Result<u64> {
    let mut window = Vec::new();
    let mut start = from;
    let mut at = from;
    while at < length {
        let rest = &window[(at - start).min(window.len() as u64) as usize..];
        let header = Header::of(rest);
        let whole = header.and_then(|header| header.record_length());
        let wanted = whole.unwrap_or(record::HEADER as u64);
        if wanted > length - at {
            break;
        }
        if (rest.len() as u64) < wanted {
            let n = wanted.max(STRIDE).min(length - at);
            window.resize(n as usize, 0);
            read_at(file, &mut window, at)?;
            start = at;
            continue;
        }
        match (header, record::decode(&rest[..wanted as usize])) {
            (Some(header), Some(_)) => each(header, at, wanted),
            _ => break,
        }
        at += wanted;
    }
    Ok(at)
}
