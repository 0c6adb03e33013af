//! Where the objects of exports are: a directory, an object storage, or a gateway.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use bytes::{Buf as _, Bytes};
use futures::{StreamExt as _, TryStreamExt as _};
use rustix::fs::OFlags;
use tokio::runtime::Handle;

use super::http::{self, Chunks};
pub use super::http::{ExportAddress, HttpError};
use super::prefix_in_name;
use crate::manifest::{ARCHIVE_SUFFIX, is_object_prefix};
use kit::retry::Retry;
use objects::{Entry, ObjectError, Objects};

/// Where the objects of exports are. Names are relative to the folder of the manifests.
#[derive(Clone, Debug)]
pub enum Source {
    Directory(PathBuf),
    Objects(Objects),
    Url { client: reqwest::Client, address: ExportAddress },
}

/// Why a source cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error("{name}: {error}")]
    Read { name: String, error: io::Error },
    #[error("{0} is too large")]
    TooLarge(String),
    /// A link, a device or a pipe: reading it may lead elsewhere, or never end.
    #[error("{0} is not a regular file")]
    NotAFile(String),
    #[error(transparent)]
    Objects(ObjectError),
    #[error("{name}: {error}")]
    Http { name: String, error: HttpError },
}

impl Retry for SourceError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Read { error, .. } => can_retry_read(error),
            Self::TooLarge(_) | Self::NotAFile(_) => false,
            Self::Objects(error) => error.can_retry(),
            Self::Http { error, .. } => error.can_retry(),
        }
    }
}

/// Whether a stream from an object storage or a gateway failed for a reason that may pass.
fn can_retry_read(error: &io::Error) -> bool {
    let Some(cause) = error.get_ref() else { return false };
    match cause.downcast_ref::<ObjectError>() {
        Some(error) => error.can_retry(),
        None => cause.is::<reqwest::Error>(),
    }
}

/// An object that is read by a thread.
pub(super) type Reader = Box<dyn Read + Send>;

impl Source {
    /// The object_prefix of each export that has an object or a folder, also without a manifest: in
    /// order.
    pub async fn exports(&self) -> Result<BTreeSet<String>, SourceError> {
        let names = match self {
            Self::Url { address, .. } => return Ok([address.object_prefix().to_owned()].into()),
            Self::Directory(directory) => names_in(directory).await?,
            Self::Objects(objects) => {
                let entries = objects.list("").await.map_err(SourceError::Objects)?;
                entries.into_iter().map(|entry| entry.key).collect()
            }
        };
        let prefix = |name: &String| {
            let name = name.split_once('/').map_or(name.as_str(), |(folder, _)| folder);
            let prefix = prefix_in_name(name).unwrap_or(name);
            // Other archives and folders may be there, too.
            let is_proof = prefix != name && !name.ends_with(ARCHIVE_SUFFIX);
            (is_proof || is_object_prefix(prefix)).then(|| prefix.to_owned())
        };
        Ok(names.iter().filter_map(prefix).collect())
    }

    /// The content of a small object; none if it does not exist.
    pub async fn read(&self, name: &str, max: u64) -> Result<Option<Vec<u8>>, SourceError> {
        let mut chunks = match self {
            Self::Url { client, address } => {
                let Some(address) = address.address_of(name) else { return Ok(None) };
                let content = http::fetch_with_retries(client, address, max).await;
                return content.map_err(|error| http_error(name, error));
            }
            Self::Directory(directory) => return read_file(directory, name, max),
            Self::Objects(objects) => match open_object(objects, name).await? {
                Some(chunks) => chunks,
                None => return Ok(None),
            },
        };
        let mut content = Vec::new();
        while let Some(chunk) = chunks.try_next().await.map_err(|error| at(name, error))? {
            content.extend_from_slice(&chunk);
            if content.len() as u64 > max {
                return Err(SourceError::TooLarge(name.to_owned()));
            }
        }
        Ok(Some(content))
    }

    /// An error if a gateway does not serve the export: the signature of its address is wrong, or
    /// no export has its object_prefix.
    pub(super) async fn check_address(&self) -> Result<(), SourceError> {
        let Self::Url { client, address } = self else { return Ok(()) };
        let name = format!("{}{ARCHIVE_SUFFIX}", address.object_prefix());
        let Some(archive) = address.address_of(&name) else { return Ok(()) };
        http::check_exists(client, archive).await.map_err(|error| http_error(&name, error))
    }

    /// A reader of an object, for a thread; none if the object does not exist.
    pub(super) async fn open(&self, name: &str) -> Result<Option<Reader>, SourceError> {
        let chunks = match self {
            Self::Directory(directory) => {
                let file = open_file(directory, name)?;
                return Ok(file.map(|(file, _)| Box::new(file) as Reader));
            }
            Self::Objects(objects) => open_object(objects, name).await?,
            Self::Url { client, address } => match address.address_of(name) {
                Some(address) => http::open_stream(client, address)
                    .await
                    .map_err(|error| http_error(name, error))?,
                None => None,
            },
        };
        let reader =
            |chunks| ChunkReader { handle: Handle::current(), chunks, current: Bytes::new() };
        Ok(chunks.map(|chunks| Box::new(reader(chunks)) as Reader))
    }

    /// The size of an object, if it is known without reading it.
    pub(super) fn size(&self, name: &str) -> Option<u64> {
        let Self::Directory(directory) = self else { return None };
        open_file(directory, name).ok()?.map(|(_, size)| size)
    }

    /// All that has a name of an export: the objects in its folder, and what is next to the folder.
    /// A gateway has none.
    pub(super) async fn list(&self, object_prefix: &str) -> Result<Vec<String>, SourceError> {
        let directory = match self {
            Self::Url { .. } => return Ok(Vec::new()),
            Self::Objects(objects) => {
                let entries = objects.list(object_prefix).await.map_err(SourceError::Objects)?;
                // Some tools create an empty object for a folder.
                let is_folder = |entry: &Entry| entry.key.ends_with('/') && entry.size == 0;
                let files = entries.into_iter().filter(|entry| !is_folder(entry));
                return Ok(files.map(|entry| entry.key).collect());
            }
            Self::Directory(directory) => directory,
        };
        let mut names = names_in(directory).await?;
        names.retain(|name| name.starts_with(object_prefix) && name != object_prefix);
        let folder = directory.join(object_prefix);
        match missing_as_none(tokio::fs::symlink_metadata(&folder).await) {
            Ok(Some(metadata)) if metadata.is_dir() => {
                let files = names_in(&folder).await?.into_iter();
                names.extend(files.map(|name| format!("{object_prefix}/{name}")));
                Ok(names)
            }
            Ok(None) => Ok(names),
            Ok(Some(_)) => Err(SourceError::NotAFile(object_prefix.to_owned())),
            Err(error) => Err(at(object_prefix, error)),
        }
    }
}

fn at(name: &str, error: io::Error) -> SourceError {
    SourceError::Read { name: name.to_owned(), error }
}

fn http_error(name: &str, error: HttpError) -> SourceError {
    SourceError::Http { name: name.to_owned(), error }
}

fn missing_as_none<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The names of the files and folders in a directory, in order.
async fn names_in(directory: &Path) -> Result<Vec<String>, SourceError> {
    let read = async {
        let mut names = Vec::new();
        let mut entries = tokio::fs::read_dir(directory).await?;
        while let Some(entry) = entries.next_entry().await? {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    };
    read.await.map_err(|error| at(&directory.display().to_string(), error))
}

/// Opens a file below a directory, and returns its size; none if it does not exist. Follows no
/// links, and opens no devices or pipes: an archive from elsewhere may have them.
fn open_file(directory: &Path, name: &str) -> Result<Option<(File, u64)>, SourceError> {
    let special = || SourceError::NotAFile(name.to_owned());
    let folders = name.match_indices('/').map(|(end, _)| directory.join(&name[..end]));
    for folder in folders {
        let found = missing_as_none(std::fs::symlink_metadata(folder));
        match found.map_err(|error| at(name, error))? {
            None => return Ok(None),
            Some(metadata) if metadata.is_dir() => {}
            Some(_) => return Err(special()),
        }
    }
    let path = directory.join(name);
    let opened = missing_as_none(open_only_file(&path));
    let Some(file) = opened.map_err(|error| match std::fs::symlink_metadata(&path) {
        Ok(metadata) if !metadata.is_file() => special(),
        _ => at(name, error),
    })?
    else {
        return Ok(None);
    };
    let metadata = file.metadata().map_err(|error| at(name, error))?;
    if metadata.is_file() { Ok(Some((file, metadata.len()))) } else { Err(special()) }
}

fn open_only_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true);
    // Without NONBLOCK, a pipe would wait for its writer.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.custom_flags(flags.bits().cast_signed());
    options.open(path)
}

fn read_file(directory: &Path, name: &str, max: u64) -> Result<Option<Vec<u8>>, SourceError> {
    let Some((file, _)) = open_file(directory, name)? else { return Ok(None) };
    let mut content = Vec::new();
    file.take(max + 1).read_to_end(&mut content).map_err(|error| at(name, error))?;
    if content.len() as u64 > max {
        return Err(SourceError::TooLarge(name.to_owned()));
    }
    Ok(Some(content))
}

async fn open_object(objects: &Objects, name: &str) -> Result<Option<Chunks>, SourceError> {
    match objects.get(name).await {
        Ok(stream) => Ok(Some(stream.map_err(io::Error::other).boxed())),
        Err(ObjectError::NotFound(_)) => Ok(None),
        Err(error) => Err(SourceError::Objects(error)),
    }
}

/// Reads pieces from a thread that may block.
struct ChunkReader {
    handle: Handle,
    chunks: Chunks,
    current: Bytes,
}

impl Read for ChunkReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.handle.block_on(self.chunks.try_next())? {
                Some(chunk) => self.current = chunk,
                None => return Ok(0),
            }
        }
        let count = self.current.len().min(buffer.len());
        self.current.copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}
