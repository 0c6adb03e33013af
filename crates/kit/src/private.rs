//! Files that hold personal data or secrets: only their owner can read them.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// Creates a directory for personal data that only its owner can read. An existing directory stays
/// as it is.
pub fn directory(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// The user of this process, whose permissions count.
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Creates an SQLite database that only its owner can read, before it is opened, because it holds
/// personal data. SQLite gives the files next to it the same mode.
pub fn database(file: &Path) -> io::Result<()> {
    // An existing one is not opened, because closing it would release SQLite's locks in this
    // process.
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(file) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    for end in ["", "-wal", "-shm"] {
        let mut path = file.as_os_str().to_owned();
        path.push(end);
        match fs::set_permissions(&path, Permissions::from_mode(0o600)) {
            // Another user owns the file, and only the owner may change its mode.
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
