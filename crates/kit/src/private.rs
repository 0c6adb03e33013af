//! Files that hold personal data or secrets: for their owner alone.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// Makes a directory that is to hold personal data: for its owner alone. One that is there
/// already stays as it is.
pub fn directory(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// Makes an SQLite database its owner's alone, before it is opened: it holds personal data. The
/// files that SQLite puts next to it become as it is.
pub fn database(file: &Path) -> io::Result<()> {
    // One that is there is not opened: to close it would end SQLite's locks on it in this process.
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(file) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    for end in ["", "-wal", "-shm"] {
        let mut path = file.as_os_str().to_owned();
        path.push(end);
        match fs::set_permissions(&path, Permissions::from_mode(0o600)) {
            // Its owner, who alone may change it, is somebody else.
            Err(error)
                if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) =>
            {
                return Err(error);
            }
            _ => {}
        }
    }
    Ok(())
}
