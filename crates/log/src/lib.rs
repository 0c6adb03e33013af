//! The log: append and consume. Kafka for a fleet, a table in a SQLite file of its own
//! alone; the same semantics.
//!
//! A message belongs to the partition of its key, and messages of a partition are given
//! out in order, in [`Batch`]es. The consumers of a group share the partitions; each group sees
//! every message. A group keeps its [`offsets`] in the store, where they move in the transaction
//! that writes what the messages do: so each message is applied exactly once.

mod batch;
mod consumer;
mod cursors;
mod embedded;
mod kafka;
mod message;
pub mod message_ids;
pub mod offsets;
mod partitions;
pub mod payload;

use std::path::Path;
use std::time::Instant;

pub use batch::Batch;
pub use consumer::{Ack, Consumer};
pub use cursors::{Extent, Limits, Range, Standing, Standings, obstacle};
pub use message::{
    LogError, MAX_MESSAGE_BYTES, Message, NewMessage, Settings, Topic, partition_of,
};
pub use payload::PayloadError;

use self::offsets::Place;
use store::Store;

/// The log. Cheap to clone.
#[derive(Clone)]
pub enum Log {
    Embedded(embedded::Embedded),
    Kafka(kafka::Kafka),
}

impl Log {
    /// Opens the log of [`Settings::url`] for all `topics` that there are: the embedded one's file
    /// is made in the folder `data` where it is missing, Kafka is not spoken to before it is needed.
    pub async fn open(
        settings: &Settings,
        data: &Path,
        topics: &'static [Topic],
    ) -> Result<Self, LogError> {
        if settings.url == "embedded" {
            Ok(Self::Embedded(embedded::Embedded::open(settings, data, topics).await?))
        } else {
            Ok(Self::Kafka(kafka::Kafka::open(settings, topics)?))
        }
    }

    /// Creates the topics that are missing (`migrate`), and waits until they can be used. Safe to
    /// run from many processes. Answers what the operator should know of them, if anything.
    pub async fn create_topics(&self) -> Result<Option<String>, LogError> {
        match self {
            // Opening made all there is to make.
            Self::Embedded(_) => Ok(None),
            Self::Kafka(kafka) => kafka.create_topics().await,
        }
    }

    /// What is wrong with the topics, a line each (`doctor`); none when all is well.
    pub async fn check(&self) -> Result<Vec<String>, LogError> {
        match self {
            Self::Embedded(embedded) => embedded.check().await,
            Self::Kafka(kafka) => kafka.check().await,
        }
    }

    /// Appends all; returns once every message is durable, and within
    /// [`Settings::append_timeout_ms`]. After an error some may be in the log: appending
    /// the same again must be harmless to whoever consumes them.
    pub async fn append(&self, messages: Vec<NewMessage>) -> Result<(), LogError> {
        if let Some(message) = messages.iter().find(|m| m.bytes() > MAX_MESSAGE_BYTES) {
            return Err(LogError::Refused(format!(
                "it has {} bytes, and {MAX_MESSAGE_BYTES} are the most",
                message.bytes()
            )));
        }
        if messages.is_empty() {
            return Ok(());
        }
        let count = messages.len() as u64;
        let began = Instant::now();
        let result = match self {
            Self::Embedded(embedded) => embedded.append(messages).await,
            Self::Kafka(kafka) => kafka.append(messages).await,
        };
        let outcome = if result.is_ok() { "ok" } else { "error" };
        metrics::histogram!("longshore_log_append_seconds", "outcome" => outcome)
            .record(began.elapsed());
        metrics::counter!("longshore_log_appended_total", "outcome" => outcome).increment(count);
        result
    }

    /// Gives out [`Batch`]es of `topic` for `group`, whose [`offsets`] are in `store`; several
    /// consumers share the partitions among them. A group that is new starts with the oldest
    /// message. A partition that cannot go on where it was is stopped, alone. What is done is
    /// written down in the log as well, for those who look at it from outside and for
    /// trimming. To be called on the runtime.
    pub fn batches(
        &self,
        group: &str,
        topic: Topic,
        store: &Store,
        limits: Limits,
    ) -> Result<(Consumer, Standings), LogError> {
        match self {
            Self::Embedded(embedded) => embedded.batches(group, topic, store, limits),
            Self::Kafka(kafka) => kafka.batches(group, topic, store, limits),
        }
    }

    /// What the log has of a topic.
    pub async fn extent(&self, topic: Topic) -> Result<Extent, LogError> {
        match self {
            Self::Embedded(embedded) => embedded.extent(topic).await,
            Self::Kafka(kafka) => kafka.extent(topic).await,
        }
    }

    /// Removes messages of `topic` that were appended before `before`, in milliseconds since the
    /// epoch, and that `group` is done with; answers how many. `places` are the topic's offsets
    /// of the store: what the store has not applied stays, whatever was told to Kafka. The embedded
    /// log removes them by itself.
    pub async fn trim(
        &self,
        group: &str,
        topic: Topic,
        places: &[Place],
        before: i64,
    ) -> Result<u64, LogError> {
        match self {
            Self::Embedded(_) => Ok(0),
            Self::Kafka(kafka) => kafka.trim(group, topic, places, before).await,
        }
    }

    /// Writes down what is done and lets go; later appends fail.
    pub async fn close(&self) {
        match self {
            Self::Embedded(embedded) => embedded.close().await,
            Self::Kafka(kafka) => kafka.close().await,
        }
    }
}
