//! The place of `s3` in a program that is built without S3. No value of [`S3`] exists, so its
//! methods never run.

use std::ops::Deref;

use bytes::Bytes;

use super::proxy::Proxy;
use super::{Files, ObjectError, S3Settings, Sizes};

/// A bucket, which this program cannot reach.
#[derive(Clone, Debug)]
pub enum S3 {}

impl S3 {
    pub(super) async fn open(
        _: &S3Settings,
        _: Sizes,
        _: Option<Proxy>,
    ) -> Result<Self, ObjectError> {
        Err(ObjectError::Settings(
            "this program was built without S3; `cargo build --locked` includes it".into(),
        ))
    }

    pub(super) fn set_sizes(&mut self, _: Sizes) {
        match *self {}
    }

    pub(super) async fn abort_below(&self, _: &str) -> Result<(), ObjectError> {
        match *self {}
    }

    pub(super) async fn rejects_upload(&self, _: &str, _: Bytes) -> Result<bool, ObjectError> {
        match *self {}
    }
}

/// The other methods have the types of those of files.
impl Deref for S3 {
    type Target = Files;

    fn deref(&self) -> &Files {
        match *self {}
    }
}
