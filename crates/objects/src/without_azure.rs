//! The place of `azure` in a program that is built without Azure. No value of [`Azure`] exists, so
//! its methods never run.

use std::ops::Deref;

use super::proxy::Proxy;
use super::{AzureSettings, Files, ObjectError, Sizes};

/// A container, which this program cannot reach.
#[derive(Clone, Debug)]
pub enum Azure {}

impl Azure {
    pub(super) fn open(_: &AzureSettings, _: Sizes, _: Option<Proxy>) -> Result<Self, ObjectError> {
        Err(ObjectError::Settings(
            "this program was built without Azure; `cargo build --locked` includes it".into(),
        ))
    }

    pub(super) fn set_sizes(&mut self, _: Sizes) {
        match *self {}
    }
}

/// The other methods have the types of those of files.
impl Deref for Azure {
    type Target = Files;

    fn deref(&self) -> &Files {
        match *self {}
    }
}
