//! Object storage: S3 and compatible stores, Azure Blob Storage, and files, behind one interface.
//! An object's name is its path below the storage's prefix.
//!
//! | module | is about |
//! |---|---|
//! | this file | [`Objects`]: the operations; their errors |
//! | [`settings`] | the location of objects, and its credentials |
//! | `s3`, `azure` | the remote stores, with the features of these names; no type of an SDK is visible outside |
//! | [`files`] | a directory, served by the gateway through signed URLs |
//! | `stream`, `failure`, `bounds`, `proxy` | what the remote stores share: parts and digests of large objects, failures, bounds of responses, the proxy of the operator's |
//! | [`probe`] | tests of a newly declared storage |
//!
//! It promises: a written object is complete and durable, or it does not exist
//! ([`Objects::put`]). Errors never contain credentials. The SDKs' own log lines about requests are
//! suppressed, because at `debug` they print signatures, tokens and bodies.
//!
//! Start with [`Objects`].

#![cfg_attr(
    not(all(feature = "s3", feature = "azure")),
    allow(dead_code, reason = "the stores share it")
)]

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::stream::BoxStream;

use kit::retry::Retry;
use kit::secrets::SecretKey;

#[cfg_attr(not(feature = "azure"), path = "without_azure.rs")]
mod azure;
mod bounds;
mod failure;
pub mod files;
pub mod probe;
mod proxy;
#[cfg_attr(not(feature = "s3"), path = "without_s3.rs")]
mod s3;
pub mod settings;
mod stream;

pub use files::Files;
use proxy::Proxy;
use settings::Location;
pub use settings::{AzureSettings, S3Settings};

/// An object storage. Cheap to clone. Its text shows the location, never the credentials.
#[derive(Clone, Debug)]
pub enum Objects {
    S3(Arc<s3::S3>),
    Azure(Arc<azure::Azure>),
    Files(Arc<Files>),
}

/// An error with a text for the operator, without credentials. [`ObjectError::for_customer`] is the
/// text for others.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// Unreachable, busy, full, or failing: a later attempt may succeed.
    #[error("{0}")]
    Unavailable(Reason),
    /// Rejected because of this machine's clock.
    #[error("{0}")]
    Clock(Reason),
    /// An operator must fix something first; the text says what.
    #[error("{0}")]
    Refused(Reason),
    #[error("no such object: {0}")]
    NotFound(String),
    /// An object is not the one that was written.
    #[error("{0}")]
    Damaged(String),
    #[error("object storage settings: {0}")]
    Settings(String),
}

impl ObjectError {
    /// The text for the customer whose storage it is: without the storage's address and without the
    /// state of the network, which are the operator's business.
    pub fn for_customer(&self) -> String {
        match self {
            Self::Unavailable(reason) | Self::Clock(reason) | Self::Refused(reason) => {
                reason.for_customer().to_owned()
            }
            Self::NotFound(_) | Self::Damaged(_) => self.to_string(),
            Self::Settings(_) => UNUSABLE.to_owned(),
        }
    }
}

/// The text for customers of a failure that only the operator can look into.
const UNUSABLE: &str = "the storage cannot be used at the moment";

/// Why a request failed: for the operator, and for a customer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    text: String,
    /// What the customer may know of it, if anything.
    customer: Option<String>,
}

impl Reason {
    /// What the store at `location` responded. Customers do not see the location.
    fn at(location: &impl fmt::Display, text: impl Into<String>) -> Self {
        let customer = text.into();
        Self { text: format!("{location}: {customer}"), customer: Some(customer) }
    }

    /// A sentence about an error: `sentence` gets its text.
    fn about(error: &ObjectError, sentence: impl Fn(&str) -> String) -> Self {
        let customer = Some(sentence(&error.for_customer()));
        Self { text: sentence(&error.to_string()), customer }
    }

    /// Adds a sentence, which the customer may know.
    pub fn with(self, sentence: &str) -> Self {
        let customer = format!("{}. {sentence}", self.for_customer());
        Self { text: format!("{}. {sentence}", self.text), customer: Some(customer) }
    }

    /// The text for the customer.
    pub fn for_customer(&self) -> &str {
        self.customer.as_deref().unwrap_or(UNUSABLE)
    }
}

/// The text for the operator.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Self { text, customer: None }
    }
}

impl From<&str> for Reason {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl Retry for ObjectError {
    fn can_retry(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Clock(_))
    }

    fn is_clock_error(&self) -> bool {
        matches!(self, Self::Clock(_))
    }
}

/// Why a store cannot hold export files.
const NO_CONDITIONAL_WRITES: &str = "the store does not support conditional writes (PutObject \
                                     with If-None-Match: *), so a paused worker could replace a \
                                     file that is already counted; use a store that supports them";

#[derive(Clone, Debug, Default)]
pub struct PutOptions {
    /// `application/octet-stream` when empty.
    pub content_type: &'static str,
    /// Short names (lower case letters, digits, `_`) and printable ASCII values that are stored
    /// with the object; 2 KiB in total.
    pub metadata: BTreeMap<String, String>,
    /// Write only if no object with this key exists.
    pub if_absent: bool,
    /// The SHA-256 of the object, if it is known. S3 needs it for [`Objects::put`], which otherwise
    /// computes it.
    pub sha256: Option<[u8; 32]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    Written,
    /// Only with `if_absent`: an object with this key existed and was not changed.
    Exists,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub size: u64,
    pub metadata: BTreeMap<String, String>,
}

/// Whether an object is the right one.
pub type HeadPredicate<'a> = &'a (dyn Fn(&Head) -> bool + Sync);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Without the storage's prefix.
    pub key: String,
    pub size: u64,
}

pub type ByteStream = BoxStream<'static, Result<Bytes, ObjectError>>;

/// Sizes at which large objects are split. The defaults suit every store; tests use smaller ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Size of an upload's part in bytes, unless that makes more than 10,000 parts.
    pub part: u64,
    /// Maximum bytes that one request copies. Larger objects are copied in parts (S3) or
    /// asynchronously (Azure).
    pub copy: u64,
    /// Entries per page of a list, at most 1,000.
    pub page: u16,
}

const MIB: u64 = 1024 * 1024;

/// Size of an upload's part by default.
const PART_BYTES: u64 = 8 * MIB;

/// The memory of an upload of a stream: the parts in progress, and the one that is being filled.
pub const STREAM_MEMORY_BYTES: usize = (stream::PARTS_IN_FLIGHT + 1) * PART_BYTES as usize;

/// Calls the method of the current storage. The futures are boxed because the SDKs' futures are
/// large, and the compiler cannot prove that they are `Send` across another crate's spawn.
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
    /// Opens `file:///DIR`, `s3://bucket/prefix?…` or `azure://container/prefix?…`; the query
    /// parameters are those of [`S3Settings`] and [`AzureSettings`]. Sends no request. An invalid
    /// URL is [`ObjectError::Settings`], and so is a proxy that cannot be used. Uses `HTTPS_PROXY` of
    /// the environment for https endpoints.
    pub async fn open(url: &str, secrets: &SecretKey) -> Result<Self, ObjectError> {
        match Location::parse(url)? {
            Location::Files(root) => {
                Ok(Self::Files(Arc::new(Files::open(root, secrets.clone()).await?)))
            }
            Location::S3(settings) => Self::s3_behind(&settings, Proxy::from_environment()?).await,
            Location::Azure(settings) => Self::azure_behind(&settings, Proxy::from_environment()?),
        }
    }

    /// A declared bucket, without a proxy. Sends no request.
    pub async fn s3(settings: &S3Settings) -> Result<Self, ObjectError> {
        Self::s3_behind(settings, None).await
    }

    async fn s3_behind(settings: &S3Settings, proxy: Option<Proxy>) -> Result<Self, ObjectError> {
        // S3 copies at most 5 GiB in one request.
        let sizes = Sizes { part: PART_BYTES, copy: 5 * 1024 * MIB, page: 1000 };
        Ok(Self::S3(Arc::new(s3::S3::open(settings, sizes, proxy).await?)))
    }

    /// A declared container, without a proxy. Sends no request.
    pub fn azure(settings: &AzureSettings) -> Result<Self, ObjectError> {
        Self::azure_behind(settings, None)
    }

    fn azure_behind(settings: &AzureSettings, proxy: Option<Proxy>) -> Result<Self, ObjectError> {
        // Azure copies at most 256 MiB synchronously.
        let sizes = Sizes { part: PART_BYTES, copy: 256 * MIB, page: 1000 };
        Ok(Self::Azure(Arc::new(azure::Azure::open(settings, sizes, proxy)?)))
    }

    /// The same storage with other sizes; no effect on files.
    pub fn with_sizes(mut self, sizes: Sizes) -> Self {
        match &mut self {
            Self::S3(s3) => Arc::make_mut(s3).set_sizes(sizes),
            Self::Azure(azure) => Arc::make_mut(azure).set_sizes(sizes),
            Self::Files(_) => {}
        }
        self
    }

    /// Writes an object atomically: durable and visible when this returns, or not written at all.
    pub async fn put(
        &self,
        key: &str,
        body: Bytes,
        options: PutOptions,
    ) -> Result<Put, ObjectError> {
        check_metadata(&options.metadata)?;
        on_each!(self, backend => backend.put(key, body, &options))
    }

    /// Writes a large object from a stream, in parts of equal size; at most
    /// [`STREAM_MEMORY_BYTES`] of it are in memory. `body` must have exactly `size` bytes. If it
    /// fails or is cancelled, nothing is left behind.
    ///
    /// Without `if_absent`, the key must belong to the caller: another writer of the same key at
    /// the same time may fail. With `if_absent`, several writers are safe. For their sake, Azure
    /// keeps the invisible blocks of a failed one until it discards them, within a week.
    pub async fn put_stream(
        &self,
        key: &str,
        size: u64,
        body: ByteStream,
        options: PutOptions,
    ) -> Result<Put, ObjectError> {
        check_metadata(&options.metadata)?;
        on_each!(self, backend => backend.put_stream(key, size, body, &options))
    }

    /// The properties of an object, if it exists. If the credentials may not list, S3 does not show
    /// whether it does: [`ObjectError::Refused`] can mean that it does not, also from other reads.
    pub async fn head(&self, key: &str) -> Result<Option<Head>, ObjectError> {
        on_each!(self, backend => backend.head(key))
    }

    /// Streams the bytes of an object. [`ObjectError::NotFound`] if it does not exist.
    pub async fn get(&self, key: &str) -> Result<ByteStream, ObjectError> {
        on_each!(self, backend => backend.get(key))
    }

    /// Copies the object at `from` if the caller `accepts` it, even if another object replaces it
    /// meanwhile. Copies within the same storage, on the server, with the metadata. Replaces an
    /// object at `to`. [`ObjectError::NotFound`] if no accepted object exists.
    pub async fn copy(
        &self,
        from: &str,
        to: &str,
        accepts: HeadPredicate<'_>,
    ) -> Result<(), ObjectError> {
        on_each!(self, backend => backend.copy(from, to, accepts))
    }

    /// Lists all objects whose path begins with `prefix`, in order of path.
    pub async fn list(&self, prefix: &str) -> Result<Vec<Entry>, ObjectError> {
        on_each!(self, backend => backend.list(prefix))
    }

    /// Deletes an object; a missing object is not an error.
    pub async fn delete(&self, key: &str) -> Result<(), ObjectError> {
        on_each!(self, backend => backend.delete(key))
    }

    /// Deletes everything below `prefix`, which ends with a slash. On S3 also deletes unfinished
    /// uploads if the store lists them (MinIO does not). Returns the number of objects. Azure
    /// discards unfinished uploads after a week.
    pub async fn delete_prefix(&self, prefix: &str) -> Result<u64, ObjectError> {
        if prefix.len() < 2 || !prefix.ends_with('/') {
            return Err(ObjectError::Settings(format!(
                "{prefix:?} is not a folder that can be removed"
            )));
        }
        on_each!(self, backend => backend.delete_prefix(prefix))
    }

    /// Deletes the unfinished uploads of objects below `prefix`, if the store lists them (S3, but
    /// not MinIO). Azure discards them after a week.
    pub async fn abort_uploads(&self, prefix: &str) -> Result<(), ObjectError> {
        match self {
            Self::S3(s3) => s3.abort_below(prefix).boxed().await,
            // Files in progress are deleted with their process.
            Self::Azure(_) | Self::Files(_) => Ok(()),
        }
    }

    /// Whether the store itself rejects an upload in parts with `if_absent` because the object at
    /// `key` exists. A test: if not, `body` replaces the object.
    async fn rejects_upload(&self, key: &str, body: Bytes) -> Result<bool, ObjectError> {
        match self {
            Self::S3(s3) => s3.rejects_upload(key, body).boxed().await,
            // They check the condition of every write in the same way.
            Self::Azure(_) | Self::Files(_) => Ok(true),
        }
    }

    /// A URL at which anyone can GET the object for `valid` (S3: at most 7 days), offered as
    /// `file_name`. For files, a path and query below the gateway's public URL, which
    /// [`Files::verify`] reads. Sends no request.
    pub async fn signed_get(
        &self,
        key: &str,
        valid: Duration,
        file_name: &str,
    ) -> Result<String, ObjectError> {
        on_each!(self, backend => backend.signed_get(key, valid, file_name))
    }
}

/// The location, for an operator.
impl fmt::Display for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::S3(s3) => fmt::Debug::fmt(s3, f),
            Self::Azure(azure) => fmt::Debug::fmt(azure, f),
            Self::Files(files) => fmt::Debug::fmt(files, f),
        }
    }
}

/// Allows only metadata that every store keeps unchanged, so that no code works with only one
/// store.
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
            return Err(ObjectError::Settings(format!("metadata {name:?} cannot be stored")));
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

/// The Content-Disposition that offers a response as a file with that name (RFC 6266).
pub fn content_disposition(file_name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ' ');
    let ascii: String = file_name.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    if ascii == file_name {
        return format!("attachment; filename=\"{ascii}\"");
    }
    let encoded = percent_encoded(file_name);
    format!("attachment; filename=\"{ascii}\"; filename*=UTF-8''{encoded}")
}

/// Encodes every character with a meaning in a URL or a header (RFC 3986).
fn percent_encoded(text: &str) -> String {
    let encoded = text.bytes().map(|b| match b {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b'~' => {
            char::from(b).to_string()
        }
        _ => format!("%{b:02X}"),
    });
    encoded.collect()
}

/// `prefix/path`, or only the path without a prefix.
fn below(prefix: &str, path: &str) -> String {
    if prefix.is_empty() { path.to_owned() } else { format!("{prefix}/{path}") }
}

/// The path of an object whose full name is `full`: the reverse of [`below`].
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
    fn customers_see_no_location() {
        let location = "s3://exports at http://10.0.0.7:9000";
        let refused = Reason::at(&location, "access denied");
        let limit = Reason::about(&ObjectError::Refused(refused.clone()), |error| {
            format!("cannot read ({error})")
        });
        assert_eq!(limit.for_customer(), "cannot read (access denied)");
        assert!(limit.to_string().contains(location));
        let error = ObjectError::Refused(refused.with("Grant it."));
        assert_eq!(error.for_customer(), "access denied. Grant it.");
        assert!(error.to_string().contains(location));
        let unreached = format!("cannot reach {location}: connection refused");
        for error in [
            ObjectError::Unavailable(unreached.clone().into()),
            ObjectError::Settings(unreached.clone()),
        ] {
            assert_eq!(error.for_customer(), UNUSABLE);
            assert!(error.to_string().contains(&unreached));
        }
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
    fn prefixes_are_added_and_removed() {
        for (prefix, path, full) in [("", "a/b", "a/b"), ("x/y", "a/b", "x/y/a/b")] {
            assert_eq!(below(prefix, path), full);
            assert_eq!(without(prefix, full), path);
        }
    }
}
