//! Files and folders that are nobody else's: copies may be of what only their owner may see.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

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
