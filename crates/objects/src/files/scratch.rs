//! Files that are being written, and the leftovers of killed processes.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::{LOCK, is_absent, lock, remove_folder};

const TEMPORARY: &str = ".tmp";

/// A file without its final name; deleted when dropped.
pub struct Temporary(pub PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // After a rename it is gone. A file that cannot be deleted goes with its folder.
        let _ = fs::remove_file(&self.0);
    }
}

/// A folder of temporary files for this process only; deleted when dropped.
pub struct Scratch {
    folder: PathBuf,
    _lock: File,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The next process that opens the root deletes the rest.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Scratch {
    /// Creates a folder, and deletes those of killed processes.
    pub fn create(root: &Path) -> io::Result<Self> {
        let _lock = lock(root)?;
        let folders = root.join(TEMPORARY);
        fs::create_dir_all(&folders)?;
        for entry in fs::read_dir(&folders)? {
            let folder = entry?.path();
            if !is_in_use(&folder)? {
                remove_folder(&folder)?;
            }
        }
        let folder = folders.join(Uuid::new_v4().to_string());
        fs::create_dir(&folder)?;
        Ok(Self { _lock: lock(&folder)?, folder })
    }

    pub fn temporary(&self) -> Temporary {
        Temporary(self.folder.join(Uuid::new_v4().to_string()))
    }
}

/// Whether a running process holds the folder's lock. The caller must hold the root's lock, under
/// which folders are created.
fn is_in_use(folder: &Path) -> io::Result<bool> {
    match File::options().append(true).open(folder.join(LOCK)) {
        Err(error) if is_absent(&error) => Ok(false),
        opened => match opened?.try_lock() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_killed_process_are_swept() {
        let root = tempfile::tempdir().unwrap();
        let living = Scratch::create(root.path()).unwrap();
        let written = living.temporary();
        fs::write(&written.0, b"half").unwrap();
        let killed = root.path().join(TEMPORARY).join("killed");
        fs::create_dir(&killed).unwrap();
        for name in [LOCK, "half"] {
            fs::write(killed.join(name), b"").unwrap();
        }
        drop(Scratch::create(root.path()).unwrap());
        assert!(!killed.exists());
        assert!(written.0.exists());
        drop((living, written));
        assert_eq!(fs::read_dir(root.path().join(TEMPORARY)).unwrap().count(), 0);
    }
}
