//! Objects as files of a directory, for one machine: the gateway serves them through signed URLs
//! that expire.
//!
//! An object is a file with the object's path below the root. Its metadata are in a JSON file with
//! the same path below `.meta/`. Files in progress are in `.tmp/`, in a folder of the process that
//! writes them. A file never changes once it has its name: it is written, synced and then renamed.
//! So a reader sees a whole object or none, and a copy can be another link to the same file.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt as _;
use tokio_util::io::ReaderStream;

use super::stream::{stopping, wrong_size};
use super::{ByteStream, Entry, Head, HeadPredicate, ObjectError, Put, PutOptions, content_type};
use kit::secrets::SecretKey;

mod address;
mod scratch;

pub use address::{Download, SignatureError};
use scratch::{Scratch, Temporary};

const META: &str = ".meta";
/// Held in the root while objects are renamed or deleted.
const LOCK: &str = ".lock";
const READ_BUFFER: usize = 256 * 1024;

/// A directory of objects.
#[derive(Clone)]
pub struct Files {
    root: PathBuf,
    scratch: Arc<Scratch>,
    secrets: SecretKey,
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file://{}", self.root.display())
    }
}

/// The metadata file of an object.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Sidecar {
    content_type: String,
    metadata: BTreeMap<String, String>,
}

impl Files {
    /// Opens the directory, creates it if needed, and deletes the unfinished files of killed
    /// processes.
    pub async fn open(root: PathBuf, secrets: SecretKey) -> Result<Self, ObjectError> {
        blocking(move || {
            let files = Self { scratch: Arc::new(Scratch::new(&root)), root, secrets };
            match files.scratch.create() {
                Err(error) if !is_full(&error) => Err(files.error("open", error)),
                // What reads no objects, such as a list of exports, needs no space. The first write
                // tries again.
                Ok(()) | Err(_) => Ok(files),
            }
        })
        .await
    }

    pub(super) async fn put(
        &self,
        path: &str,
        body: Bytes,
        options: &PutOptions,
    ) -> Result<Put, ObjectError> {
        let (path, sidecar, if_absent) = (checked_path(path)?, sidecar(options), options.if_absent);
        self.with_files("write", move |files| {
            let temporary = files.scratch.temporary()?;
            write_synced(&temporary.0, &body)?;
            files.name(temporary, &path, Some(sidecar), if_absent)
        })
        .await
    }

    pub(super) async fn put_stream(
        &self,
        path: &str,
        size: u64,
        mut body: ByteStream,
        options: &PutOptions,
    ) -> Result<Put, ObjectError> {
        let (path, sidecar, if_absent) = (checked_path(path)?, sidecar(options), options.if_absent);
        let failed = |error| self.error("write", error);
        let temporary = self.scratch.temporary().map_err(failed)?;
        let mut file = tokio::fs::File::create_new(&temporary.0).await.map_err(failed)?;
        let mut received = 0;
        while let Some(bytes) = body.try_next().await? {
            file.write_all(&bytes).await.map_err(failed)?;
            received += bytes.len() as u64;
            if received > size {
                return Err(wrong_size(received, size));
            }
        }
        if received != size {
            return Err(wrong_size(received, size));
        }
        file.flush().await.map_err(failed)?;
        file.sync_all().await.map_err(failed)?;
        self.with_files("write", move |files| {
            files.name(temporary, &path, Some(sidecar), if_absent)
        })
        .await
    }

    pub(super) async fn head(&self, path: &str) -> Result<Option<Head>, ObjectError> {
        let path = checked_path(path)?;
        self.with_files("read", move |files| {
            let Some(size) = size_of(&files.root.join(&path))? else { return Ok(None) };
            Ok(Some(head(size, files.sidecar(&path)?.as_ref())))
        })
        .await
    }

    pub(super) async fn get(&self, path: &str) -> Result<ByteStream, ObjectError> {
        let name = self.root.join(checked_path(path)?);
        let file = match tokio::fs::File::open(name).await {
            Err(error) if is_absent(&error) => return Err(ObjectError::NotFound(path.into())),
            opened => opened.map_err(|error| self.error("read", error))?,
        };
        let files = self.clone();
        let bytes = ReaderStream::with_capacity(file, READ_BUFFER);
        Ok(bytes.map_err(move |error| files.error("read", error)).boxed())
    }

    /// The copy is a hard link if the file system supports it.
    pub(super) async fn copy(
        &self,
        from: &str,
        to: &str,
        accepts: HeadPredicate<'_>,
    ) -> Result<(), ObjectError> {
        let (source, to) = (checked_path(from)?, checked_path(to)?);
        let copied = self.with_files("copy", move |files| {
            // It can need the lock itself.
            let temporary = files.scratch.temporary()?;
            // Ensures that the metadata belong to the file.
            let _lock = lock(&files.root)?;
            let file = files.root.join(&source);
            let Some(size) = size_of(&file)? else { return Ok(None) };
            if fs::hard_link(&file, &temporary.0).is_err() {
                fs::copy(&file, &temporary.0)?;
                File::open(&temporary.0)?.sync_all()?;
            }
            Ok(Some((temporary, size, files.sidecar(&source)?)))
        });
        let copied =
            copied.await?.filter(|(_, size, sidecar)| accepts(&head(*size, sidecar.as_ref())));
        let (temporary, _, sidecar) =
            copied.ok_or_else(|| ObjectError::NotFound(from.to_owned()))?;
        self.with_files("copy", move |files| files.name(temporary, &to, sidecar, false)).await?;
        Ok(())
    }

    pub(super) async fn list(&self, prefix: &str) -> Result<Vec<Entry>, ObjectError> {
        let prefix = prefix.to_owned();
        self.with_files("list", move |files| files.entries(&prefix)).await
    }

    pub(super) async fn delete(&self, path: &str) -> Result<(), ObjectError> {
        let path = checked_path(path)?;
        self.with_files("delete", move |files| files.remove(&path)).await
    }

    pub(super) async fn delete_prefix(&self, prefix: &str) -> Result<u64, ObjectError> {
        let folder = checked_path(prefix.strip_suffix('/').unwrap_or(prefix))?;
        let prefix = prefix.to_owned();
        self.with_files("delete", move |files| {
            let _lock = lock(&files.root)?;
            let count = files.entries(&prefix)?.len() as u64;
            // Deletes all the metadata, including those that a killed process left without an
            // object.
            for top in [files.root.clone(), files.root.join(META)] {
                remove_folder(&top.join(&folder))?;
                prune(&top.join(&folder), &top);
            }
            Ok(count)
        })
        .await
    }

    /// Runs `work` on a thread that may block on the disk; once started, it always finishes.
    async fn with_files<T: Send + 'static>(
        &self,
        action: &'static str,
        work: impl FnOnce(&Self) -> io::Result<T> + Send + 'static,
    ) -> Result<T, ObjectError> {
        let files = self.clone();
        blocking(move || work(&files).map_err(|error| files.error(action, error))).await
    }

    /// Gives a finished file its name. Writes its metadata first, so that every visible object has
    /// them. Renaming and deleting need the lock: metadata must belong to the file with the name,
    /// even if two writers compete, and no folder may disappear under a file.
    fn name(
        &self,
        temporary: Temporary,
        path: &Path,
        sidecar: Option<Sidecar>,
        if_absent: bool,
    ) -> io::Result<Put> {
        let (file, sidecar_path) = (self.root.join(path), self.sidecar_path(path));
        let draft = match sidecar {
            Some(sidecar) => {
                let draft = self.scratch.temporary()?;
                write_synced(&draft.0, &serde_json::to_vec(&sidecar)?)?;
                Some(draft)
            }
            None => None,
        };
        let _lock = lock(&self.root)?;
        if if_absent && file.try_exists()? {
            return Ok(Put::Exists);
        }
        match draft {
            Some(draft) => {
                self.make_parents(&sidecar_path)?;
                fs::rename(&draft.0, &sidecar_path)?;
                sync_parent(&sidecar_path)?;
            }
            None => remove_if_there(&sidecar_path)?,
        }
        self.make_parents(&file)?;
        fs::rename(&temporary.0, &file)?;
        sync_parent(&file)?;
        Ok(Put::Written)
    }

    /// Deletes an object, then its metadata, then folders that became empty.
    fn remove(&self, path: &Path) -> io::Result<()> {
        let _lock = lock(&self.root)?;
        let (file, sidecar_path) = (self.root.join(path), self.sidecar_path(path));
        for (file, top) in [(file, self.root.clone()), (sidecar_path, self.root.join(META))] {
            remove_if_there(&file)?;
            prune(&file, &top);
        }
        Ok(())
    }

    fn sidecar_path(&self, path: &Path) -> PathBuf {
        let mut name = self.root.join(META).join(path).into_os_string();
        name.push(".json");
        name.into()
    }

    fn sidecar(&self, path: &Path) -> io::Result<Option<Sidecar>> {
        match fs::read(self.sidecar_path(path)) {
            Err(error) if is_absent(&error) => Ok(None),
            read => Ok(Some(serde_json::from_slice(&read?)?)),
        }
    }

    fn make_parents(&self, file: &Path) -> io::Result<()> {
        let Some(parent) = file.parent() else { return Ok(()) };
        if parent.is_dir() {
            return Ok(());
        }
        fs::create_dir_all(parent)?;
        let folders = parent.ancestors().take_while(|folder| folder.starts_with(&self.root));
        folders.map(File::open).try_for_each(|folder| folder?.sync_all())
    }

    fn entries(&self, prefix: &str) -> io::Result<Vec<Entry>> {
        // The common folder; the rest of the prefix is the beginning of a name in it.
        let folder = prefix.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut entries = Vec::new();
        if folder.is_empty() || checked_path(folder).is_ok() {
            self.walk(folder, &mut entries)?;
        }
        entries.retain(|entry| entry.key.starts_with(prefix));
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(entries)
    }

    fn walk(&self, folder: &str, entries: &mut Vec<Entry>) -> io::Result<()> {
        let children = match fs::read_dir(self.root.join(folder)) {
            Err(error) if is_absent(&error) => return Ok(()),
            children => children?,
        };
        for entry in children {
            let entry = entry?;
            let name = entry.file_name();
            // Names that begin with a dot are no objects; names that are not UTF-8 were not written
            // by us.
            let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else { continue };
            let key = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
            if entry.file_type()?.is_dir() {
                self.walk(&key, entries)?;
            } else if let Some(size) = size_of(&entry.path())? {
                entries.push(Entry { key, size });
            }
        }
        Ok(())
    }

    fn error(&self, action: &str, error: io::Error) -> ObjectError {
        io_error(&self.root, action, error)
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

fn head(size: u64, sidecar: Option<&Sidecar>) -> Head {
    Head { size, metadata: sidecar.map(|sidecar| sidecar.metadata.clone()).unwrap_or_default() }
}

/// Describes an error of the disk.
fn io_error(root: &Path, action: &str, error: io::Error) -> ObjectError {
    let root = root.display();
    match error.kind() {
        _ if is_full(&error) => ObjectError::Unavailable(
            format!("the disk of {root} is full: free some space, and work continues").into(),
        ),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => ObjectError::Refused(
            format!("no permission to {action} files in {root}: {error}").into(),
        ),
        _ => ObjectError::Unavailable(format!("cannot {action} files in {root}: {error}").into()),
    }
}

/// Excludes threads as well as processes: each holder opens its own file handle.
fn lock(folder: &Path) -> io::Result<File> {
    let file = File::options().create(true).append(true).open(folder.join(LOCK))?;
    file.lock()?;
    Ok(file)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ObjectError> + Send + 'static,
) -> Result<T, ObjectError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| stopping())?
}

fn sidecar(options: &PutOptions) -> Sidecar {
    Sidecar { content_type: content_type(options).to_owned(), metadata: options.metadata.clone() }
}

/// Converts an object's path to a file's path: names of letters, digits, `-`, `_` and `.` that do
/// not begin with a dot. So a path cannot leave the root or lead to anything but an object.
fn checked_path(path: &str) -> Result<PathBuf, ObjectError> {
    let serves = |name: &str| {
        !name.is_empty()
            && name.len() <= 200
            && !name.starts_with('.')
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
    };
    if path.split('/').all(serves) {
        Ok(path.into())
    } else {
        Err(ObjectError::Refused(format!("{path:?} is not a valid object path").into()))
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// The size of an object; none for a folder.
fn size_of(file: &Path) -> io::Result<Option<u64>> {
    match fs::metadata(file) {
        Err(error) if is_absent(&error) => Ok(None),
        metadata => Ok(Some(metadata?).filter(|file| file.is_file()).map(|file| file.len())),
    }
}

fn write_synced(name: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(name)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn sync_parent(file: &Path) -> io::Result<()> {
    file.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
}

fn remove_if_there(file: &Path) -> io::Result<()> {
    if_there(fs::remove_file(file))
}

fn remove_folder(folder: &Path) -> io::Result<()> {
    if_there(fs::remove_dir_all(folder))
}

fn if_there(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if !is_absent(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Deletes the empty folders above `file`, up to `top`.
fn prune(file: &Path, top: &Path) {
    let folders = file.ancestors().skip(1).take_while(|folder| *folder != top);
    for folder in folders {
        // Fails if the folder is not empty, which is the usual end.
        if fs::remove_dir(folder).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn secrets() -> SecretKey {
        SecretKey::parse(&SecretKey::generate(), None).unwrap()
    }

    async fn files(root: &Path) -> Files {
        Files::open(root.to_owned(), secrets()).await.unwrap()
    }

    #[test]
    fn unsafe_paths_are_rejected() {
        for path in [
            "",
            "/",
            "/etc/passwd",
            "..",
            "a/../b",
            "a/..",
            "./a",
            "a//b",
            "a/",
            ".meta/a",
            ".tmp/x",
            "a/.meta/b",
            "a\\b",
            "a%2e%2e",
            "a\0b",
            "a b",
            "é",
            ".lock",
        ] {
            assert!(checked_path(path).is_err(), "{path:?}");
        }
        assert!(checked_path("exports/0b1c/parts/000001.2").is_ok());
    }

    proptest! {
        #[test]
        fn a_safe_path_is_made_of_plain_names_only(path in "[a./%\\\\~-]{0,12}") {
            if let Ok(path) = checked_path(&path) {
                prop_assert!(path.components().all(|c| matches!(c, std::path::Component::Normal(_))));
            }
        }
    }

    #[tokio::test]
    async fn metadata_that_lost_their_object_go_with_the_folder() {
        let directory = tempfile::tempdir().unwrap();
        let files = files(directory.path()).await;
        // The state that a killed process leaves between the two renames.
        files.put("a/b/1", Bytes::new(), &PutOptions::default()).await.unwrap();
        fs::remove_dir_all(directory.path().join("a")).unwrap();
        assert!(files.sidecar_path(Path::new("a/b/1")).exists());
        assert_eq!(files.delete_prefix("a/").await.unwrap(), 0);
        assert!(fs::read_dir(directory.path().join(META)).unwrap().next().is_none());
    }

    #[tokio::test]
    async fn folders_go_with_their_last_object() {
        let directory = tempfile::tempdir().unwrap();
        let files = files(directory.path()).await;
        let options = PutOptions::default();
        for path in ["a/b/c/1", "a/2"] {
            files.put(path, Bytes::new(), &options).await.unwrap();
        }
        files.delete("a/b/c/1").await.unwrap();
        assert!(directory.path().join("a/2").exists());
        assert!(!directory.path().join("a/b").exists());
        assert_eq!(files.delete_prefix("a/").await.unwrap(), 1);
        let names: Vec<_> = fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert!(names.iter().all(|name| name.starts_with('.')), "{names:?}");
        assert!(fs::read_dir(directory.path().join(META)).unwrap().next().is_none());
    }

    #[tokio::test]
    async fn a_full_disk_can_be_tried_again_and_a_read_only_one_not() {
        use kit::retry::Retry as _;
        let directory = tempfile::tempdir().unwrap();
        let files = files(directory.path()).await;
        let full = files.error("write", io::Error::from(ErrorKind::StorageFull));
        assert!(full.can_retry() && full.to_string().contains("is full"));
        assert!(!files.error("write", io::Error::from(ErrorKind::PermissionDenied)).can_retry());
    }
}
