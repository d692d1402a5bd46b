//! Bodies as earlier versions kept them: a file each.
//!
//! ```text
//! bodies/3f/9a0c…   kind (1 byte), length (8 bytes, little-endian), bytes
//! bodies/new/…      what was on its way
//! ```
//!
//! They are read where they are, and come into segments a few at a time.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{BodyId, record, segment};
use crate::Error;

/// Where bodies were until they were whole.
const ON_ITS_WAY: &str = "new";
const HEADER: usize = 9;

/// What is in the folder besides segments, and how long it is.
pub(super) enum Loose {
    Body(BodyId, u64),
    Begun(PathBuf, u64),
    Foreign(PathBuf),
}

/// Whether there may be such bodies.
pub(super) fn is_any(folder: &Path) -> Result<bool, Error> {
    let names = entries(folder)?;
    Ok(names.iter().any(|path| is_shelf(path)))
}

pub(super) fn path(folder: &Path, id: BodyId) -> PathBuf {
    let name = id.to_string();
    folder.join(&name[..2]).join(&name[2..])
}

/// A body; nothing if there is none, or none that is as it was written.
pub(super) fn read(folder: &Path, id: BodyId) -> Result<Option<Vec<u8>>, Error> {
    let path = path(folder, id);
    let file = match segment::read_whole(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|source| Error::file(&path, source))?,
    };
    Ok(decode(&file).filter(|body| BodyId::of(body) == id))
}

fn decode(file: &[u8]) -> Option<Vec<u8>> {
    let (header, kept) = file.split_at_checked(HEADER)?;
    let (&kind, length) = header.split_first()?;
    let length = u64::from_le_bytes(length.try_into().ok()?);
    record::unpack(kind, length, kept)
}

/// Whether a body is there; not whether it is sound.
pub(super) fn contains(folder: &Path, id: BodyId) -> bool {
    fs::symlink_metadata(path(folder, id))
        .is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0)
}

/// Removes a body, if it is there, and its folder if that was the last in it.
pub(super) fn remove(folder: &Path, id: BodyId) -> Result<(), Error> {
    let path = path(folder, id);
    match fs::remove_file(&path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            return Err(Error::file(&path, source));
        }
        _ => {}
    }
    if let Some(shelf) = path.parent() {
        // It is not empty, or not there.
        let _ = fs::remove_dir(shelf);
    }
    Ok(())
}

/// Tells `each` of all there is until it says that this is enough.
pub(super) fn walk(
    folder: &Path,
    each: &mut dyn FnMut(Loose) -> Result<Go, Error>,
) -> Result<(), Error> {
    for shelf in entries(folder)? {
        let name = shelf.file_name().unwrap_or_default().to_string_lossy();
        if segment::is_ours(&name) {
            continue;
        }
        if !is_shelf(&shelf) {
            if each(Loose::Foreign(shelf))? == Go::Enough {
                return Ok(());
            }
            continue;
        }
        for path in entries(&shelf)? {
            let rest = path.file_name().unwrap_or_default().to_string_lossy();
            let Ok(metadata) = fs::symlink_metadata(&path) else {
                continue;
            };
            // Names are written in small letters; the parser takes others too.
            let id = format!("{name}{rest}").parse::<BodyId>().ok();
            let id = id.filter(|id| self::path(folder, *id) == path);
            let found = match id {
                _ if name == ON_ITS_WAY => Loose::Begun(path, metadata.len()),
                Some(id) if metadata.is_file() => Loose::Body(id, metadata.len()),
                _ => Loose::Foreign(path),
            };
            if each(found)? == Go::Enough {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Whether a walk goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Go {
    On,
    Enough,
}

/// Whether bodies of an earlier version may be in there.
fn is_shelf(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_named_so =
        name == ON_ITS_WAY || name.len() == 2 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_named_so && fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
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
