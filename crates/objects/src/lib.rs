//! Object storage: S3 and what is compatible with it, Azure Blob Storage, and files, behind
//! one face. An object is named by its path below the storage's own prefix.
//!
//! | module | is about |
//! |---|---|
//! | [`settings`] | where objects are kept, with which credentials |
//! | [`files`] | a directory, served by the gateway through signed addresses |
//! | [`probe`] | what works with a storage that was just declared |
//!
//! No text of an error holds credentials, and what the SDKs would log about requests is not
//! logged: at `debug` they print signatures, tokens and bodies.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::stream::BoxStream;

use kit::retry::Retry;
use kit::secrets::SecretKey;

mod azure;
mod failure;
pub mod files;
pub mod probe;
mod s3;
pub mod settings;
mod stream;

pub use files::Files;
use settings::Location;
pub use settings::{AzureSettings, S3Settings};

/// A place to keep objects. Cheap to clone; printed it says where, never with what
/// credentials.
#[derive(Clone, Debug)]
pub enum Objects {
    S3(Arc<s3::S3>),
    Azure(Arc<azure::Azure>),
    Files(Arc<Files>),
}

/// What went wrong, with a text for the operator that holds no credentials.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// Not reached, busy, full, or failing on its side: later it may work.
    #[error("{0}")]
    Unavailable(String),
    /// Refused for the time that this machine's clock shows.
    #[error("{0}")]
    Clock(String),
    /// Somebody must mend something first; the text says what.
    #[error("{0}")]
    Refused(String),
    #[error("no such object: {0}")]
    NotFound(String),
    #[error("object storage settings: {0}")]
    Settings(String),
}

impl Retry for ObjectError {
    fn can_retry(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Clock(_))
    }

    fn blames_clock(&self) -> bool {
        matches!(self, Self::Clock(_))
    }
}

/// Why a store cannot hold the files of exports.
const NO_CONDITIONAL_WRITES: &str = "the store has no conditional writes (PutObject with If-None-Match: *), so a worker that was \
     paused could replace a file that is counted already; use a store that has them";

#[derive(Clone, Debug, Default)]
pub struct PutOptions {
    /// `application/octet-stream` when empty.
    pub content_type: &'static str,
    /// Short names (lower case letters, digits, `_`) and printable ASCII values that stay
    /// with the object; 2 KiB in all.
    pub metadata: BTreeMap<String, String>,
    /// Write only where no object of that key exists.
    pub if_absent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    Written,
    /// Only with `if_absent`: an object of that key was there, and was left as it is.
    Exists,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub size: u64,
    pub metadata: BTreeMap<String, String>,
}

/// Says of an object whether it is the one that is meant.
pub type Wanted<'a> = &'a (dyn Fn(&Head) -> bool + Sync);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Without the storage's own prefix, as the functions take it.
    pub key: String,
    pub size: u64,
}

pub type ByteStream = BoxStream<'static, Result<Bytes, ObjectError>>;

/// Where large things are cut. The defaults suit every store; smaller ones let a test see
/// the cuts without gigabytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of an upload's part, unless that made more than 10,000 of them.
    pub part: u64,
    /// Bytes that are copied by one request; what is larger is copied in parts (S3) or
    /// waited for (Azure).
    pub copy: u64,
    /// Entries of one page of a list, at most 1,000.
    pub page: u16,
}

const MIB: u64 = 1024 * 1024;

/// Asks whichever storage it is. The futures are boxed: the SDKs' are large, and of such as
/// these the compiler cannot see through another's spawn that they may change threads.
macro_rules! on_each {
    ($objects:expr, $backend:ident => $call:expr) => {
        match $objects {
            Objects::S3($backend) => $call.boxed().await,
            Objects::Azure($backend) => $call.boxed().await,
            Objects::Files($backend) => $call.boxed().await,
        }
    };
}

impl Objects {
    /// Opens `file:///DIR`, `s3://bucket/prefix?…` or `azure://container/prefix?…`; the names
    /// in the query are those of [`S3Settings`] and [`AzureSettings`]. Asks nothing of the
    /// storage yet. An address that cannot be meant is [`ObjectError::Settings`].
    pub async fn open(url: &str, secrets: &SecretKey) -> Result<Self, ObjectError> {
        match Location::parse(url)? {
            Location::Files(root) => {
                Ok(Self::Files(Arc::new(Files::open(root, secrets.clone()).await?)))
            }
            Location::S3(settings) => Self::s3(&settings).await,
            Location::Azure(settings) => Self::azure(&settings),
        }
    }

    /// A bucket as declared. Asks nothing of it yet.
    pub async fn s3(settings: &S3Settings) -> Result<Self, ObjectError> {
        // The largest object that S3 copies by one request has 5 GiB.
        let sizes = Sizes { part: 8 * MIB, copy: 5 * 1024 * MIB, page: 1000 };
        Ok(Self::S3(Arc::new(s3::S3::open(settings, sizes).await?)))
    }

    /// A container as declared. Asks nothing of it yet.
    pub fn azure(settings: &AzureSettings) -> Result<Self, ObjectError> {
        // The largest blob that Azure copies while the request waits has 256 MiB.
        let sizes = Sizes { part: 8 * MIB, copy: 256 * MIB, page: 1000 };
        Ok(Self::Azure(Arc::new(azure::Azure::open(settings, sizes)?)))
    }

    /// The same storage with other sizes; files have none.
    pub fn with_sizes(self, sizes: Sizes) -> Self {
        match self {
            Self::S3(s3) => Self::S3(Arc::new(s3.with_sizes(sizes))),
            Self::Azure(azure) => Self::Azure(Arc::new(azure.with_sizes(sizes))),
            Self::Files(files) => Self::Files(files),
        }
    }

    /// Writes an object whole. Durable and visible at once, or not there at all.
    pub async fn put(
        &self,
        key: &str,
        body: Bytes,
        options: PutOptions,
    ) -> Result<Put, ObjectError> {
        check_metadata(&options.metadata)?;
        on_each!(self, backend => backend.put(key, body, &options))
    }

    /// Writes a large object whose bytes come one after the other, in parts of equal size;
    /// a few parts are in memory at once. `body` must have exactly `size` bytes. On failure,
    /// also when the call is dropped half way, nothing stays behind.
    ///
    /// The key must be the caller's own: another writer of the same key at the same time may
    /// fail. `if_absent` cannot be asked for here.
    pub async fn put_stream(
        &self,
        key: &str,
        size: u64,
        body: ByteStream,
        options: PutOptions,
    ) -> Result<(), ObjectError> {
        check_metadata(&options.metadata)?;
        if options.if_absent {
            return Err(ObjectError::Settings("a stream cannot be put if absent".into()));
        }
        on_each!(self, backend => backend.put_stream(key, size, body, &options))
    }

    pub async fn head(&self, key: &str) -> Result<Option<Head>, ObjectError> {
        on_each!(self, backend => backend.head(key))
    }

    /// The bytes of an object, as they come. [`ObjectError::NotFound`] if there is none.
    pub async fn get(&self, key: &str) -> Result<ByteStream, ObjectError> {
        on_each!(self, backend => backend.get(key))
    }

    /// Copies the object at `from` that is `wanted`, and no other that comes in its place
    /// meanwhile: within the same storage, at the server, with the metadata. What was at `to`
    /// is replaced. [`ObjectError::NotFound`] if there is none that is wanted.
    pub async fn copy(&self, from: &str, to: &str, wanted: Wanted<'_>) -> Result<(), ObjectError> {
        on_each!(self, backend => backend.copy(from, to, wanted))
    }

    /// Every object whose path begins with `prefix`, in order of path.
    pub async fn list(&self, prefix: &str) -> Result<Vec<Entry>, ObjectError> {
        on_each!(self, backend => backend.list(prefix))
    }

    /// Removes an object; one that is not there is no error.
    pub async fn delete(&self, key: &str) -> Result<(), ObjectError> {
        on_each!(self, backend => backend.delete(key))
    }

    /// Removes everything below `prefix`, which ends with a slash, and on S3 unfinished uploads
    /// where the store lists them (MinIO does not); answers how many objects there were. Azure
    /// discards unfinished uploads by itself after a week.
    pub async fn delete_prefix(&self, prefix: &str) -> Result<u64, ObjectError> {
        if prefix.len() < 2 || !prefix.ends_with('/') {
            return Err(ObjectError::Settings(format!("{prefix:?} is no folder to remove")));
        }
        on_each!(self, backend => backend.delete_prefix(prefix))
    }

    /// An address at which anybody can GET the object for `valid` (S3: 7 days at most),
    /// offered as `file_name`. Of files, a path and query below the gateway's public address,
    /// which [`Files::verify`] reads. Asks nothing of the storage.
    pub async fn signed_get(
        &self,
        key: &str,
        valid: Duration,
        file_name: &str,
    ) -> Result<String, ObjectError> {
        on_each!(self, backend => backend.signed_get(key, valid, file_name))
    }
}

/// Where it is, for an operator.
impl fmt::Display for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::S3(s3) => fmt::Debug::fmt(s3, f),
            Self::Azure(azure) => fmt::Debug::fmt(azure, f),
            Self::Files(files) => fmt::Debug::fmt(files, f),
        }
    }
}

/// What every store keeps as it is, so that nothing works on one and not on another.
fn check_metadata(metadata: &BTreeMap<String, String>) -> Result<(), ObjectError> {
    let name_serves = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    let value_serves = |value: &str| {
        value.bytes().all(|b| (b' '..=b'~').contains(&b))
            && value.trim() == value
            && !value.is_empty()
    };
    for (name, value) in metadata {
        if !name_serves(name) || !value_serves(value) {
            return Err(ObjectError::Settings(format!("metadata {name:?} cannot be kept")));
        }
    }
    if metadata.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() > 2048 {
        return Err(ObjectError::Settings("more than 2 KiB of metadata".into()));
    }
    Ok(())
}

fn content_type(options: &PutOptions) -> &'static str {
    match options.content_type {
        "" => "application/octet-stream",
        given => given,
    }
}

/// The Content-Disposition that offers an answer as a file of that name (RFC 6266).
pub fn content_disposition(file_name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ' ');
    let ascii: String = file_name.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    if ascii == file_name {
        return format!("attachment; filename=\"{ascii}\"");
    }
    let encoded = percent_encoded(file_name);
    format!("attachment; filename=\"{ascii}\"; filename*=UTF-8''{encoded}")
}

/// With nothing left that an address or a header could take for its own (RFC 3986).
fn percent_encoded(text: &str) -> String {
    let encoded = text.bytes().map(|b| match b {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b'~' => {
            char::from(b).to_string()
        }
        _ => format!("%{b:02X}"),
    });
    encoded.collect()
}

/// `prefix/path`, or the path alone where there is no prefix.
fn below(prefix: &str, path: &str) -> String {
    if prefix.is_empty() { path.to_owned() } else { format!("{prefix}/{path}") }
}

/// The path of what lies at `full`: the reverse of [`below`].
fn without(prefix: &str, full: &str) -> String {
    let inner = full.strip_prefix(prefix).unwrap_or(full);
    inner.strip_prefix('/').filter(|_| !prefix.is_empty()).unwrap_or(inner).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_that_some_store_would_change_is_refused() {
        let check = |name: &str, value: &str| {
            check_metadata(&BTreeMap::from([(name.to_owned(), value.to_owned())])).is_ok()
        };
        assert!(check("raw_bytes", "12 and more"));
        for (name, value) in [
            ("Rows", "1"),
            ("a-b", "1"),
            ("", "1"),
            ("1a", "1"),
            ("a", ""),
            ("a", " b"),
            ("a", "é"),
            ("a", "1\n"),
        ] {
            assert!(!check(name, value), "{name:?}: {value:?}");
        }
        assert!(!check("a", &"x".repeat(2048)));
    }

    #[test]
    fn a_file_name_cannot_leave_its_header() {
        assert_eq!(content_disposition("a-1.zip"), "attachment; filename=\"a-1.zip\"");
        assert_eq!(
            content_disposition("é\"\r\n.zip"),
            "attachment; filename=\"____.zip\"; filename*=UTF-8''%C3%A9%22%0D%0A.zip"
        );
    }

    #[test]
    fn prefixes_come_and_go() {
        for (prefix, path, full) in [("", "a/b", "a/b"), ("x/y", "a/b", "x/y/a/b")] {
            assert_eq!(below(prefix, path), full);
            assert_eq!(without(prefix, full), path);
        }
    }
}
