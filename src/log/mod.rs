//! The log: append and consume. Kafka for a fleet, a table in a SQLite file of its own
//! alone; the same semantics.
//!
//! A message belongs to the partition of its key, and messages of a partition are given
//! out in order. The consumers of a group share the partitions; each group sees every
//! message. What a group has done with is written down only after the work, and in order:
//! a message comes again unless it and all before it on its partition were acknowledged.
//!
//! A group whose messages must be applied exactly once takes [`Batch`]es instead, and keeps
//! its [`offsets`] in the store, where they move with what the messages do.
//!
#![doc = include_str!("README.md")]

mod batches;
mod consumer;
mod embedded;
mod kafka;
pub mod message_ids;
pub mod offsets;
mod ordered;
pub mod payload;

use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

pub use batches::{Batch, Extent, Limits, Range, Standing, Standings, obstacle};
pub use consumer::{Ack, Consumer};
pub use payload::PayloadError;

use self::offsets::Place;
use crate::config::Config;
use crate::retry::Retry;
use crate::store::Store;

/// The most that a message's key, payload and request id may have together, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 5 << 20;

/// How long a partition that goes to another consumer waits for the work under way on it.
/// What is not done by then is given out again, perhaps while it still runs.
const REVOKE_WAIT: Duration = Duration::from_secs(5);

/// How often done work is written down.
const COMMIT_EVERY: Duration = Duration::from_millis(200);

/// What messages are about. Its name in Kafka is `Config::log.topic_prefix` and
/// [`name`](Self::name).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Topic {
    /// Exports that wait to be planned; key and payload are the job's id.
    Exports,
    /// What `POST /users/track` took in: [`Batch`](crate::tracking::message::Batch)es.
    Tracking,
    /// What `PATCH /catalogs/{catalog_name}/items` took in:
    /// [`Edit`](crate::catalogs::message::Edit)s.
    Catalogs,
    /// What `POST /messages/send` took in: [`Order`](crate::messages::order::Order)s.
    Messages,
    /// Transactional emails that wait; see [`Wake`](crate::messages::transactional::queue::Wake).
    Transactional,
}

impl Topic {
    pub const ALL: &[Self] =
        &[Self::Exports, Self::Tracking, Self::Catalogs, Self::Messages, Self::Transactional];

    pub fn name(self) -> &'static str {
        match self {
            Self::Exports => "exports",
            Self::Tracking => "tracking",
            Self::Catalogs => "catalogs",
            Self::Messages => "messages",
            Self::Transactional => "transactional",
        }
    }

    /// Whether it is taken in [`Batch`]es, by a group whose [`offsets`] are in the store.
    pub fn is_batched(self) -> bool {
        match self {
            Self::Tracking | Self::Catalogs | Self::Messages => true,
            Self::Exports | Self::Transactional => false,
        }
    }

    /// The topic of that [`name`](Self::name).
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|topic| topic.name() == name)
    }
}

/// A message to append.
#[derive(Clone, Debug)]
pub struct NewMessage {
    pub topic: Topic,
    /// Messages of one key stay in order, on one partition.
    pub key: Vec<u8>,
    /// The partition that it belongs to whatever its key: 0 to one less than
    /// `Config::log.partitions`.
    pub partition: Option<i32>,
    pub payload: Vec<u8>,
    /// The request that caused it; follows the message into the work.
    pub request_id: String,
}

impl NewMessage {
    /// The partition that it belongs to, of so many.
    fn partition_of(&self, partitions: u32) -> i32 {
        self.partition.unwrap_or_else(|| partition_of(&self.key, partitions))
    }

    fn bytes(&self) -> usize {
        self.key.len() + self.payload.len() + self.request_id.len()
    }
}

/// A message as consumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub topic: Topic,
    pub partition: i32,
    pub offset: i64,
    /// Milliseconds since the epoch, and the same each time the message is given out.
    pub appended_at: i64,
    pub key: Vec<u8>,
    pub payload: Vec<u8>,
    pub request_id: String,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum LogError {
    #[error("the log cannot be reached: {0}")]
    Unavailable(String),
    #[error("the log refused the message: {0}")]
    Refused(String),
    #[error("the log's settings: {0}")]
    Settings(String),
}

impl LogError {
    fn closed() -> Self {
        Self::Unavailable("it was closed".into())
    }
}

/// A partition for `key`: the same for ever, as long as the count is.
pub fn partition_of(key: &[u8], partitions: u32) -> i32 {
    let hash = Sha256::digest(key);
    let number = u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]);
    (number % partitions.max(1)) as i32
}

impl Retry for LogError {
    fn can_retry(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

/// The log. Cheap to clone.
#[derive(Clone)]
pub enum Log {
    Embedded(embedded::Embedded),
    Kafka(kafka::Kafka),
}

impl Log {
    /// Opens the log of `config.log.url`: the embedded one's file is made where it is
    /// missing, Kafka is not spoken to before it is needed.
    pub async fn open(config: &Config) -> Result<Self, LogError> {
        if config.log.url == "embedded" {
            Ok(Self::Embedded(embedded::Embedded::open(config).await?))
        } else {
            Ok(Self::Kafka(kafka::Kafka::open(config)?))
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
    /// `config.log.append_timeout_ms`. After an error some may be in the log: appending
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

    /// A consumer of `topic` for `group`; several share the partitions among them. A group
    /// that is new starts with the oldest message. At most `in_flight` messages are given
    /// out and not yet acknowledged. To be called on the runtime.
    pub fn consumer(
        &self,
        group: &str,
        topic: Topic,
        in_flight: usize,
    ) -> Result<Consumer, LogError> {
        match self {
            Self::Embedded(embedded) => embedded.consumer(group, topic, in_flight),
            Self::Kafka(kafka) => kafka.consumer(group, topic, in_flight),
        }
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
    ) -> Result<(Consumer<Batch>, Standings), LogError> {
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
    /// of the store, where they are kept there ([`Topic::is_batched`]): what the store has not
    /// applied stays, whatever was told to Kafka. The embedded log removes them by itself.
    pub async fn trim(
        &self,
        group: &str,
        topic: Topic,
        places: Option<&[Place]>,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogs::message::Edit;
    use crate::exports::requeue::job_of;
    use crate::messages::order::in_log::{decode, encode};
    use crate::messages::transactional::queue::Wake;
    use crate::tracking::message::Batch;

    const PAGE: &str = include_str!("README.md");

    /// The example in the section of a topic.
    fn example(topic: Topic) -> &'static str {
        let section = PAGE.split_once(&format!("\n## `{}`\n", topic.name())).expect("a section").1;
        let (_, block) = section.split_once("```").expect("an example");
        let (example, _) = block.split_once("```").expect("its end");
        example.split_once('\n').expect("a language").1.trim_end()
    }

    #[test]
    fn examples_are_messages_as_they_are_written() {
        for topic in Topic::ALL.iter().copied() {
            let example = example(topic);
            let written = match topic {
                Topic::Tracking => {
                    serde_json::to_string(&Batch::decode(example.as_bytes()).unwrap()).unwrap()
                }
                Topic::Catalogs => {
                    serde_json::to_string(&Edit::decode(example.as_bytes()).unwrap()).unwrap()
                }
                Topic::Messages => {
                    let order = decode(example.as_bytes()).unwrap();
                    String::from_utf8(encode(&order)).unwrap()
                }
                Topic::Transactional => {
                    let wake: Wake = serde_json::from_str(example).unwrap();
                    serde_json::to_string(&wake).unwrap()
                }
                Topic::Exports => {
                    let message = Message {
                        topic,
                        partition: 0,
                        offset: 0,
                        appended_at: 0,
                        key: Vec::new(),
                        payload: example.as_bytes().to_vec(),
                        request_id: String::new(),
                    };
                    job_of(&message).unwrap().to_string()
                }
            };
            assert_eq!(written, example);
            assert!(PAGE.contains(&format!("\n| `{}` |", topic.name())), "{topic:?}");
        }
        assert!(PAGE.contains(&format!("at most {} MiB", MAX_MESSAGE_BYTES >> 20)));
    }
}
