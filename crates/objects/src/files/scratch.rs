//! Files that are being written, and the leftovers of killed processes.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use uuid::Uuid;

use super::{LOCK, META, is_absent, lock, remove_folder};

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
    root: PathBuf,
    /// None before the first one could be created.
    folder: Mutex<Option<Folder>>,
}

/// A locked folder in [`TEMPORARY`].
struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The next process that opens the root deletes the rest.
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl Scratch {
    /// Without a folder.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), folder: Mutex::default() }
    }

    /// Creates the root and the folder, and deletes the folders of killed processes.
    pub fn create(&self) -> io::Result<()> {
        self.temporary().map(drop)
    }

    /// A name for a new file. Creates the folder if that failed before, and again if something has
    /// deleted it, such as a cleaner of old files: otherwise, every write would fail until a restart.
    pub fn temporary(&self) -> io::Result<Temporary> {
        let mut current = self.folder.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = match &mut *current {
            Some(folder) => folder,
            None => current.insert(first_folder(&self.root)?),
        };
        if !folder.path.join(LOCK).try_exists()? {
            let _lock = lock(&self.root)?;
            let folders = self.root.join(TEMPORARY);
            // Not the root: without its disk, nothing must be written below it.
            if let Err(error) = fs::create_dir(&folders)
                && error.kind() != io::ErrorKind::AlreadyExists
            {
                return Err(error);
            }
            *folder = Folder::create(&folders)?;
            tracing::warn!(folder = %folder.path.display(), "folder of unfinished files recreated");
        }
        Ok(Temporary(folder.path.join(Uuid::new_v4().to_string())))
    }
}

impl Folder {
    /// The caller must hold the root's lock.
    fn create(folders: &Path) -> io::Result<Self> {
        let path = folders.join(Uuid::new_v4().to_string());
        fs::create_dir(&path)?;
        Ok(Self { _lock: lock(&path)?, path })
    }
}

/// Creates the root and a folder in it, and deletes the folders of killed processes.
fn first_folder(root: &Path) -> io::Result<Folder> {
    fs::create_dir_all(root.join(META))?;
    let _lock = lock(root)?;
    let folders = root.join(TEMPORARY);
    fs::create_dir_all(&folders)?;
    for entry in fs::read_dir(&folders)? {
        let folder = entry?.path();
        if !is_in_use(&folder)? {
            remove_folder(&folder)?;
        }
    }
    Folder::create(&folders)
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

    fn scratch(root: &Path) -> Scratch {
        let scratch = Scratch::new(root);
        scratch.create().unwrap();
        scratch
    }

    #[test]
    fn a_deleted_folder_is_created_again() {
        let root = tempfile::tempdir().unwrap();
        let scratch = scratch(root.path());
        let folders = root.path().join(TEMPORARY);
        let own_folder = || fs::read_dir(&folders).unwrap().next().unwrap().unwrap().path();
        for deletes_all in [true, false] {
            let deleted = if deletes_all { folders.clone() } else { own_folder() };
            fs::remove_dir_all(deleted).unwrap();
            fs::write(&scratch.temporary().unwrap().0, b"whole").unwrap();
            // The next process keeps the new folder, too.
            Scratch::new(root.path()).create().unwrap();
            fs::write(&scratch.temporary().unwrap().0, b"whole").unwrap();
            assert_eq!(fs::read_dir(&folders).unwrap().count(), 1);
        }
        fs::remove_dir_all(root.path()).unwrap();
        assert!(scratch.temporary().is_err());
    }

    #[test]
    fn files_of_a_killed_process_are_swept() {
        let root = tempfile::tempdir().unwrap();
        let living = scratch(root.path());
        let written = living.temporary().unwrap();
        fs::write(&written.0, b"half").unwrap();
        let killed = root.path().join(TEMPORARY).join("killed");
        fs::create_dir(&killed).unwrap();
        for name in [LOCK, "half"] {
            fs::write(killed.join(name), b"").unwrap();
        }
        Scratch::new(root.path()).create().unwrap();
        assert!(!killed.exists());
        assert!(written.0.exists());
        drop((living, written));
        assert_eq!(fs::read_dir(root.path().join(TEMPORARY)).unwrap().count(), 0);
    }
}
