//! Files and folders that are nobody else's: copies may be of what only their owner may see.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

use crate::Error;

/// Makes a folder, and those above it, for its owner alone (0700); what is there is left
/// as it is.
///
/// # Errors
/// If it cannot be made.
pub fn create_dir_all(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    builder.create(path)
}

/// Makes a folder of ours, if there is none, such that it is there after the machine has
/// died, and takes from others what an earlier version left them.
pub(crate) fn make_folder(path: &Path) -> Result<(), Error> {
    let is_new = !path.exists();
    create_dir_all(path).map_err(|source| Error::file(path, source))?;
    tighten(path);
    match path.parent() {
        Some(parent) if is_new => persist_names(parent),
        _ => Ok(()),
    }
}

/// Makes sure that the names in a folder are on the disk.
pub(crate) fn persist_names(folder: &Path) -> Result<(), Error> {
    // Elsewhere a folder cannot be opened, and names are written with what they name.
    #[cfg(unix)]
    {
        // A relative path of one name has a parent without any.
        let folder = match folder.as_os_str().is_empty() {
            true => Path::new("."),
            false => folder,
        };
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|source| Error::file(folder, source))?;
    }
    #[cfg(not(unix))]
    let _ = folder;
    Ok(())
}

/// Options to make files with that are for their owner alone (0600).
pub(crate) fn options() -> OpenOptions {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "there are no modes"))]
    let mut options = File::options();
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options
}

/// Takes from others what an earlier version left them, if the file is ours.
pub(crate) fn tighten(path: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        if let Ok(metadata) = fs::metadata(path) {
            let mode = metadata.permissions().mode();
            if mode & 0o077 != 0 {
                // Of someone else's file the modes are theirs to set.
                let _ = fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o700));
            }
        }
    }
    #[cfg(not(unix))]
    let _ = path;
}
