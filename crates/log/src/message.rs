//! Messages of the log, its settings and its errors.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use kit::retry::Retry;

/// Maximum size of a message's key, payload and request id together, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 5 << 20;

/// How long a partition that moves to another consumer waits for its running work. Work that is not
/// done by then is repeated, possibly while it still runs.
pub(crate) const REVOKE_WAIT: Duration = Duration::from_secs(5);

/// Interval between commits of done work.
pub(crate) const COMMIT_INTERVAL: Duration = Duration::from_millis(200);

/// A topic of messages. Its name in Kafka is [`Settings::topic_prefix`] and its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Topic {
    name: &'static str,
}

impl Topic {
    pub const fn new(name: &'static str) -> Self {
        Self { name }
    }

    pub fn name(self) -> &'static str {
        self.name
    }
}

/// The location and the settings of the log.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// `embedded`, or `kafka://host:port,host:port`.
    pub url: String,
    /// Partitions of each topic, 1 to 1,024. The first `migrate` fixes it.
    pub partitions: u32,
    /// Prefix of the names of topics and consumer groups, so that installations can share a
    /// cluster.
    pub topic_prefix: String,
    /// Number of replicas of each partition that `migrate` requests from Kafka. A cluster with
    /// fewer brokers gets one replica for each broker: `migrate` reports it, and `doctor` fails.
    pub replication: u16,
    /// Minimum number of days that messages stay in the log. A message that is not applied yet
    /// stays longer.
    pub keep_days: u32,
    /// Milliseconds that an append may take. If a gateway is lost during a request with an
    /// `Idempotency-Key`, another gateway can complete that request after twice this time.
    pub append_timeout_ms: u64,
    /// librdkafka properties, for producers and consumers alike. In the environment, write `_` for
    /// each dot: `LONGSHORE_LOG__KAFKA__SASL_PASSWORD` is `sasl.password`.
    #[serde(default, skip_serializing)]
    pub kafka: BTreeMap<String, String>,
}

/// Properties that librdkafka accepts under another name, each with the one that is used here.
const ALIASES: &[(&str, &str)] = &[
    ("compression.type", "compression.codec"),
    ("delivery.timeout.ms", "message.timeout.ms"),
    ("fetch.message.max.bytes", "max.partition.fetch.bytes"),
    ("max.in.flight.requests.per.connection", "max.in.flight"),
    ("message.send.max.retries", "retries"),
    ("metadata.broker.list", "bootstrap.servers"),
    ("queue.buffering.max.ms", "linger.ms"),
    ("request.required.acks", "acks"),
    ("sasl.mechanisms", "sasl.mechanism"),
    ("sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.id"),
    ("sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.client.secret"),
    ("topic.acks", "acks"),
    ("topic.auto.offset.reset", "auto.offset.reset"),
    ("topic.delivery.timeout.ms", "message.timeout.ms"),
    ("topic.message.timeout.ms", "message.timeout.ms"),
    ("topic.request.required.acks", "acks"),
];

impl Settings {
    /// The librdkafka properties, with one name for each: librdkafka would apply the values of two
    /// names in a random order. The error names a property that is set under two names.
    pub fn kafka_properties(&self) -> Result<BTreeMap<String, String>, String> {
        let mut properties = BTreeMap::new();
        for (name, value) in &self.kafka {
            let alias = ALIASES.iter().find(|(alias, _)| *alias == name.as_str());
            let used = alias.map_or(name.as_str(), |(_, used)| *used);
            if properties.insert(used.to_owned(), value.clone()).is_some() {
                return Err(format!(
                    "log.kafka sets {used} twice, because librdkafka has two names for it: remove \
                     one"
                ));
            }
        }
        Ok(properties)
    }
}

/// A message to append.
#[derive(Clone, Debug)]
pub struct NewMessage {
    pub topic: Topic,
    /// Messages of one key are on one partition. A key of 16 bytes is an id: repeats of the message
    /// are dropped (see [`id_of`](crate::message_ids::id_of)).
    pub key: Vec<u8>,
    /// A fixed partition instead of the key's: 0 to one less than [`Settings::partitions`].
    pub partition: Option<i32>,
    pub payload: Vec<u8>,
    /// The request that caused it; follows the message into the work.
    pub request_id: String,
}

impl NewMessage {
    /// Its partition, with `partitions` in total.
    pub(crate) fn partition_of(&self, partitions: u32) -> i32 {
        self.partition.unwrap_or_else(|| partition_of(&self.key, partitions))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.key.len() + self.payload.len() + self.request_id.len()
    }
}

/// When the log got each message of an append: none for a message to a topic that `migrate` has not
/// changed yet.
pub type LogTimes = Vec<Option<i64>>;

/// A message as consumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub topic: Topic,
    pub partition: i32,
    pub offset: i64,
    /// Milliseconds since the epoch; the same each time the message is read.
    pub appended_at: i64,
    /// The time by which the message is ordered: that of the log, and not before the messages with
    /// smaller offsets in its partition, unless the log's clock was wrong. None if `appended_at` is
    /// the time of the process that appended it: to a topic that `migrate` has not changed yet.
    pub log_time: Option<i64>,
    pub key: Vec<u8>,
    pub payload: Vec<u8>,
    pub request_id: String,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum LogError {
    #[error("cannot reach the log: {0}")]
    Unavailable(String),
    #[error("the log rejected the message: {0}")]
    Refused(String),
    #[error("invalid log settings: {0}")]
    Settings(String),
}

impl LogError {
    pub(crate) fn closed() -> Self {
        Self::Unavailable("it was closed".into())
    }
}

/// The partition of `key`: stable while the count is.
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
