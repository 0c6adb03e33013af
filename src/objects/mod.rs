//! Object storage: S3 and what is compatible with it, Azure Blob Storage, and files, behind
//! one face.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;

use crate::retry::Retry;
use crate::secrets::SecretKey;

pub mod key;

pub use key::ObjectKey;

/// A place to keep objects. Cheap to clone.
#[derive(Clone, Debug)]
pub enum Objects {}

/// What went wrong, with a text for the operator that holds no credentials.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    #[error("{0}")]
    Unavailable(String),
    #[error("{0}")]
    Refused(String),
    #[error("no such object: {0}")]
    NotFound(String),
    #[error("object storage settings: {0}")]
    Settings(String),
}

impl Retry for ObjectError {
    fn can_retry(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

#[derive(Clone, Debug, Default)]
pub struct PutOptions {
    pub content_type: &'static str,
    /// Short ASCII names and values that stay with the object.
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: String,
    pub size: u64,
}

pub type ByteStream = BoxStream<'static, Result<Bytes, ObjectError>>;

impl Objects {
    /// Opens `file:///DIR`, `s3://bucket/prefix?…` or `azure://container/prefix?…`.
    pub async fn open(_url: &str, _secrets: &SecretKey) -> Result<Self, ObjectError> {
        todo!()
    }

    pub async fn put(
        &self,
        _key: &ObjectKey,
        _body: Bytes,
        _options: PutOptions,
    ) -> Result<Put, ObjectError> {
        todo!()
    }

    /// Writes a large object whose bytes come one after the other, in parts of equal size.
    /// On failure nothing stays behind.
    pub async fn put_stream(
        &self,
        _key: &ObjectKey,
        _size: u64,
        _body: ByteStream,
        _options: PutOptions,
    ) -> Result<(), ObjectError> {
        todo!()
    }

    pub async fn head(&self, _key: &ObjectKey) -> Result<Option<Head>, ObjectError> {
        todo!()
    }

    pub async fn get(&self, _key: &ObjectKey) -> Result<ByteStream, ObjectError> {
        todo!()
    }

    /// Copies within the same storage, at the server, with the metadata.
    pub async fn copy(&self, _from: &ObjectKey, _to: &ObjectKey) -> Result<(), ObjectError> {
        todo!()
    }

    pub async fn list(&self, _prefix: &str) -> Result<Vec<Entry>, ObjectError> {
        todo!()
    }

    /// Removes an object; one that is not there is no error.
    pub async fn delete(&self, _key: &ObjectKey) -> Result<(), ObjectError> {
        todo!()
    }

    /// Removes everything below `prefix`, unfinished uploads too; answers how many.
    pub async fn delete_prefix(&self, _prefix: &str) -> Result<u64, ObjectError> {
        todo!()
    }

    /// An address at which anybody can GET the object for `valid`, offered as `file_name`.
    /// Of files, a path and query below the gateway's public address.
    pub async fn signed_get(
        &self,
        _key: &ObjectKey,
        _valid: Duration,
        _file_name: &str,
    ) -> Result<String, ObjectError> {
        todo!()
    }
}
