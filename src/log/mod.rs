//! The log: append and consume. Kafka for a fleet, a table in a SQLite file of its own
//! alone; the same semantics.

use std::time::Duration;

use crate::config::Config;
use crate::retry::Retry;

/// What messages are about. Its name in the log is `Config::log.topic_prefix` and this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    /// Exports that wait to be planned; key and payload are the job's id.
    Exports,
}

/// A message to append.
#[derive(Clone, Debug)]
pub struct NewMessage {
    pub topic: Topic,
    /// Messages of one key stay in order, on one partition.
    pub key: Vec<u8>,
    pub payload: Vec<u8>,
    /// The request that caused it; follows the message into the work.
    pub request_id: String,
}

/// A message as consumed.
#[derive(Clone, Debug)]
pub struct Message {
    pub topic: Topic,
    pub partition: i32,
    pub offset: i64,
    pub key: Vec<u8>,
    pub payload: Vec<u8>,
    pub request_id: String,
}

#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("the log cannot be reached: {0}")]
    Unavailable(String),
    #[error("the log refused the message: {0}")]
    Refused(String),
    #[error("the log's settings: {0}")]
    Settings(String),
}

impl Retry for LogError {
    fn can_retry(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

/// The log. Cheap to clone.
#[derive(Clone)]
pub struct Log {}

impl Log {
    pub async fn open(_config: &Config) -> Result<Self, LogError> {
        todo!()
    }

    /// Creates the topics that are missing (`migrate`). Safe to run from many processes.
    pub async fn create_topics(&self) -> Result<(), LogError> {
        todo!()
    }

    /// What is wrong with the topics, a line each (`doctor`); none when all is well.
    pub async fn check(&self) -> Result<Vec<String>, LogError> {
        todo!()
    }

    /// Appends all; returns once every message is durable. After an error some may be in
    /// the log: appending the same again must be harmless to whoever consumes them.
    pub async fn append(&self, _messages: Vec<NewMessage>) -> Result<(), LogError> {
        todo!()
    }

    /// A consumer of `topic` for `group`; several share the partitions among them.
    pub fn consumer(
        &self,
        _group: &str,
        _topic: Topic,
        _in_flight: usize,
    ) -> Result<Consumer, LogError> {
        todo!()
    }

    pub async fn close(&self) {
        todo!()
    }
}

pub struct Consumer {}

impl Consumer {
    /// The next message, with its acknowledgement; waits while too many are under way.
    /// May be dropped while waiting.
    pub async fn next(&mut self) -> Result<(Message, Ack), LogError> {
        todo!()
    }

    /// Takes no more, waits up to `deadline` for what is under way, commits and leaves.
    pub async fn drain(self, _deadline: Duration) {
        todo!()
    }
}

/// Says that a message's work is done. Dropped unsaid, the message comes again after the
/// next rebalance or restart.
pub struct Ack {}

impl Ack {
    pub fn done(self) {
        todo!()
    }
}
