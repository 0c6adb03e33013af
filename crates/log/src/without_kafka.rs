//! The place of `kafka` in a program that is built without Kafka. No value of [`Kafka`] exists, so
//! its methods never run.

use std::ops::Deref;

use super::embedded::Embedded;
use super::offsets::GroupOffset;
use crate::message::{LogError, Settings, Topic};

/// The log in Kafka, which this program does not have.
#[derive(Clone)]
pub enum Kafka {}

impl Kafka {
    pub(super) fn open(_: &Settings, _: &'static [Topic]) -> Result<Self, LogError> {
        Err(LogError::Settings(
            "log.url: this program was built without Kafka; `cargo build --locked` includes it"
                .into(),
        ))
    }

    pub(super) async fn create_topics(&self) -> Result<Option<String>, LogError> {
        match *self {}
    }

    pub(super) async fn check(&self, _: Option<u32>) -> Result<Vec<String>, LogError> {
        match *self {}
    }

    pub(super) async fn check_partitions(&self) -> Result<(), LogError> {
        match *self {}
    }

    pub(super) async fn trim(
        &self,
        _: &str,
        _: Topic,
        _: &[GroupOffset],
        _: i64,
    ) -> Result<u64, LogError> {
        match *self {}
    }
}

/// The other methods have the types of those of the embedded log.
impl Deref for Kafka {
    type Target = Embedded;

    fn deref(&self) -> &Embedded {
        match *self {}
    }
}
