//! Who may write: the one who holds the lock of the folder.

use std::fs::{self, File, Metadata, TryLockError};
use std::io;
use std::path::PathBuf;

use crate::{Error, private};

/// Held by the writer for as long as it lives; the system lets go of it however the
/// process ends.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
    path: PathBuf,
    identity: Identity,
}

impl Lock {
    /// Takes the lock, which is a file that is made if there is none.
    pub(crate) fn take(path: PathBuf) -> Result<Self, Error> {
        let failed = |source| Error::file(&path, source);
        let mut options = private::options();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::InUse),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        let identity = identity(&file.metadata().map_err(failed)?);
        Ok(Self {
            file,
            path,
            identity,
        })
    }

    /// That the lock still keeps others out. It does not once its file was removed or
    /// replaced: whoever comes next would lock another.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match fs::metadata(&self.path) {
            Ok(metadata) if identity(&metadata) == self.identity => Ok(()),
            Ok(_) => Err(Error::LeaseLost),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Error::LeaseLost),
            Err(source) => Err(Error::file(&self.path, source)),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file is not enough while another thread starts a process: until
        // that has become another program, it has the file as well, and the next to
        // come would find the store in use.
        let _ = self.file.unlock();
    }
}

/// Which file it is, whatever its name.
#[cfg(unix)]
type Identity = (u64, u64);

#[cfg(unix)]
fn identity(metadata: &Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

/// Elsewhere a file that is open cannot be replaced.
#[cfg(not(unix))]
type Identity = ();

#[cfg(not(unix))]
fn identity(_: &Metadata) -> Identity {}
