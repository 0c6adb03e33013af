//! The log: append and consume. Kafka for a fleet, a table in its own SQLite file for standalone;
//! both with the same semantics.
//!
//! | module | is about |
//! |---|---|
//! | this file | [`Log`]: opens either log, appends, starts consumers |
//! | `message` | messages, settings and errors |
//! | `consumer`, `batch` | what a consumer returns: batches, each with its acknowledgement |
//! | `cursors`, `partitions` | a consumer's position in each partition; the batches in progress |
//! | [`offsets`] | the groups' positions in the store |
//! | `partition_clock` | the times by which a partition's messages are ordered |
//! | [`lag`] | how far they are behind the end of the log |
//! | [`message_ids`] | ids of messages that may be appended more than once |
//! | [`payload`] | reads payloads by their version |
//! | `embedded`, `kafka` | the two logs; Kafka with the feature `kafka` |
//!
//! A message belongs to the partition of its key, and messages of a partition are returned in
//! order, in [`Batch`]es. The consumers of a group share the partitions; each group gets every
//! message.
//!
//! It promises: an appended message is durable, and follows those of its key that were durable
//! before its append began. A group's [`offsets`] are in the store and move in the transaction that
//! applies the messages: so each message is applied exactly once.
//!
//! Start with [`Log::append`] and [`Consumer::next`].

#![cfg_attr(not(feature = "kafka"), allow(dead_code, reason = "both logs share it"))]

mod batch;
mod consumer;
mod cursors;
mod embedded;
#[cfg_attr(not(feature = "kafka"), path = "without_kafka.rs")]
mod kafka;
pub mod lag;
mod message;
pub mod message_ids;
pub mod offsets;
mod partition_clock;
mod partitions;
pub mod payload;

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use metrics::{Counter, Histogram};

pub use batch::Batch;
pub use consumer::{Ack, Consumer};
pub use cursors::{
    ConsumerStatus, IdlePartition, Limits, OffsetRange, PartitionStatus, TopicOffsets, stop_reason,
};
pub use embedded::LogFile;
pub use message::{
    LogError, LogTimes, MAX_MESSAGE_BYTES, Message, NewMessage, Settings, Topic, partition_of,
};
pub use payload::PayloadError;

use self::offsets::GroupOffset;
use store::Store;

/// Time limit of [`Log::check_writable`] with Kafka.
pub const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// The metrics of a log's appends. A look-up by label takes longer than recording, so each is
/// created once, by the first append with its outcome. The recorder must be installed before.
struct AppendMetrics {
    ok: LazyLock<OutcomeMetrics>,
    error: LazyLock<OutcomeMetrics>,
}

struct OutcomeMetrics {
    seconds: Histogram,
    messages: Counter,
}

impl Default for AppendMetrics {
    fn default() -> Self {
        Self {
            ok: LazyLock::new(|| OutcomeMetrics::new("ok")),
            error: LazyLock::new(|| OutcomeMetrics::new("error")),
        }
    }
}

impl OutcomeMetrics {
    fn new(outcome: &'static str) -> Self {
        Self {
            seconds: metrics::histogram!("longshore_log_append_seconds", "outcome" => outcome),
            messages: metrics::counter!("longshore_log_appended_total", "outcome" => outcome),
        }
    }
}

/// The log. Cheap to clone.
#[derive(Clone)]
pub struct Log {
    backend: Backend,
    metrics: Arc<AppendMetrics>,
}

#[derive(Clone)]
enum Backend {
    Embedded(embedded::Embedded),
    Kafka(kafka::Kafka),
}

impl Log {
    /// Opens the log of [`Settings::url`] for all `topics`. Creates the embedded log's file in the
    /// folder `data` if it is missing; connects to Kafka only when needed.
    pub async fn open(
        settings: &Settings,
        data: &Path,
        topics: &'static [Topic],
    ) -> Result<Self, LogError> {
        let backend = if settings.url == "embedded" {
            Backend::Embedded(embedded::Embedded::open(settings, data, topics).await?)
        } else {
            Backend::Kafka(kafka::Kafka::open(settings, topics)?)
        };
        Ok(Self { backend, metrics: Arc::default() })
    }

    /// Whether it is in a file of its own, not in Kafka.
    pub fn is_embedded(&self) -> bool {
        matches!(self.backend, Backend::Embedded(_))
    }

    /// Creates the missing topics (`migrate`), and waits until they are usable. Safe to run from
    /// many processes. Returns a message for the operator, if needed.
    pub async fn create_topics(&self) -> Result<Option<String>, LogError> {
        match &self.backend {
            // Opening has already created everything.
            Backend::Embedded(_) => Ok(None),
            Backend::Kafka(kafka) => kafka.create_topics().await,
        }
    }

    /// The problems of the topics, one per line (`doctor`).
    pub async fn check(&self, fixed: Option<u32>) -> Result<Vec<String>, LogError> {
        match &self.backend {
            Backend::Embedded(embedded) => embedded.check().await,
            Backend::Kafka(kafka) => kafka.check(fixed).await,
        }
    }

    /// Fails if topics exist whose number of partitions is not the configured one.
    pub async fn check_partitions(&self) -> Result<(), LogError> {
        match &self.backend {
            // It is checked when the log opens.
            Backend::Embedded(_) => Ok(()),
            Backend::Kafka(kafka) => kafka.check_partitions().await,
        }
    }

    /// Whether messages can be appended: writes to the embedded log, or waits for a response of
    /// Kafka, for [`CHECK_TIMEOUT`] at most.
    pub async fn check_writable(&self) -> Result<(), LogError> {
        match &self.backend {
            Backend::Embedded(embedded) => embedded.check_writable().await,
            Backend::Kafka(kafka) => kafka.check_writable().await,
        }
    }

    /// Appends all messages. Returns once every message is durable, within
    /// [`Settings::append_timeout_ms`]. After an error, some may be in the log: consumers must
    /// tolerate that the same messages are appended again.
    pub async fn append(&self, messages: Vec<NewMessage>) -> Result<LogTimes, LogError> {
        if let Some(message) = messages.iter().find(|m| m.bytes() > MAX_MESSAGE_BYTES) {
            return Err(LogError::Refused(format!(
                "it has {} bytes; the maximum is {MAX_MESSAGE_BYTES}",
                message.bytes()
            )));
        }
        if messages.is_empty() {
            return Ok(LogTimes::new());
        }
        let count = messages.len() as u64;
        let began = Instant::now();
        let result = match &self.backend {
            Backend::Embedded(embedded) => embedded.append(messages).await,
            Backend::Kafka(kafka) => kafka.append(messages).await,
        };
        let metrics = if result.is_ok() { &self.metrics.ok } else { &self.metrics.error };
        metrics.seconds.record(began.elapsed());
        metrics.messages.increment(count);
        result
    }

    /// Returns [`Batch`]es of `topic` for `group`, whose [`offsets`] are in `store`; several
    /// consumers share the partitions. A new group starts with the oldest message. A partition that
    /// cannot continue is stopped, without effect on others. Done work is also committed to the
    /// log, for monitoring and trimming. Call it on the runtime.
    pub fn batches(
        &self,
        group: &str,
        topic: Topic,
        store: &Store,
        limits: Limits,
    ) -> Result<(Consumer, ConsumerStatus), LogError> {
        match &self.backend {
            Backend::Embedded(embedded) => embedded.batches(group, topic, store, limits),
            Backend::Kafka(kafka) => kafka.batches(group, topic, store, limits),
        }
    }

    /// A topic's content in the log.
    pub async fn topic_offsets(&self, topic: Topic) -> Result<TopicOffsets, LogError> {
        match &self.backend {
            Backend::Embedded(embedded) => embedded.topic_offsets(topic).await,
            Backend::Kafka(kafka) => kafka.topic_offsets(topic).await,
        }
    }

    /// Deletes messages of `topic` that were appended before `before`, in milliseconds since the
    /// epoch, and that `group` has processed; returns their number. `positions` are the topic's
    /// offsets in the store: messages that the store has not applied stay, whatever was committed
    /// to Kafka. The embedded log deletes them by itself.
    pub async fn trim(
        &self,
        group: &str,
        topic: Topic,
        positions: &[GroupOffset],
        before: i64,
    ) -> Result<u64, LogError> {
        match &self.backend {
            Backend::Embedded(_) => Ok(0),
            Backend::Kafka(kafka) => kafka.trim(group, topic, positions, before).await,
        }
    }

    /// Stores done work and closes; later appends fail.
    pub async fn close(&self) {
        match &self.backend {
            Backend::Embedded(embedded) => embedded.close().await,
            Backend::Kafka(kafka) => kafka.close().await,
        }
    }
}
