//! The log in Apache Kafka, through rdkafka, which only this module uses.

mod alter;
mod batches;
mod describe;
mod member;
mod producer;
mod topics;
mod trim;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::config::{ClientConfig, FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::error::KafkaError;
use rdkafka::{ClientContext, Statistics};
use tokio::runtime::Handle;

use self::producer::Producer;
use super::consumer::Consumer;
use super::cursors::{ConsumerStatus, Limits, TopicOffsets};
use super::offsets::GroupOffset;
use crate::CHECK_TIMEOUT;
use crate::message::{LogError, LogTimes, MAX_MESSAGE_BYTES, NewMessage, Topic};
use kit::log_limit::LogLimit;
use store::Store;

/// The header that carries a message's request id.
const REQUEST_ID: &str = "request_id";

/// The largest batch that brokers accept: a message of the largest size, and Kafka's overhead.
const MAX_BATCH_BYTES: usize = MAX_MESSAGE_BYTES + (16 << 10);

/// Time limit of the response that shows whether a client reaches a broker. Without it, a client
/// that has lost all brokers is replaced.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The log in Kafka. Cheap to clone.
#[derive(Clone)]
pub struct Kafka {
    settings: Arc<Settings>,
    producer: Arc<Producer>,
}

/// How to reach the brokers, and the settings of the topics.
struct Settings {
    brokers: String,
    topics: &'static [Topic],
    topic_prefix: String,
    partitions: i32,
    replication: i32,
    timeout: Duration,
    /// The operator's; see [`kafka_properties`](crate::message::Settings::kafka_properties).
    properties: BTreeMap<String, String>,
}

impl Settings {
    fn topic(&self, topic: Topic) -> String {
        format!("{}{}", self.topic_prefix, topic.name())
    }

    fn group(&self, name: &str) -> String {
        format!("{}{name}", self.topic_prefix)
    }

    /// Builds a client's properties: `defaults`, overridden by the operator's, overridden by those
    /// that the log's guarantees need.
    fn client(&self, defaults: &[(&str, &str)], fixed: &[(&str, &str)]) -> ClientConfig {
        let mut client = ClientConfig::new();
        client.set("client.id", "longshore").set("topic.metadata.refresh.interval.ms", "60000");
        for (name, value) in defaults {
            client.set(*name, *value);
        }
        for (name, value) in &self.properties {
            client.set(name, value);
        }
        client.set("bootstrap.servers", &self.brokers);
        for (name, value) in fixed {
            client.set(*name, *value);
        }
        client.set_log_level(RDKafkaLogLevel::Info);
        client
    }
}

impl Kafka {
    pub(super) fn open(
        log: &crate::message::Settings,
        topics: &'static [Topic],
    ) -> Result<Self, LogError> {
        let brokers = log.url.trim_start_matches("kafka://").trim_end_matches('/');
        if brokers.is_empty() {
            return Err(LogError::Settings("log.url: expected kafka://host:port,…".into()));
        }
        let settings = Arc::new(Settings {
            brokers: brokers.to_owned(),
            topics,
            topic_prefix: log.topic_prefix.clone(),
            partitions: i32::try_from(log.partitions).unwrap_or(i32::MAX),
            replication: i32::from(log.replication),
            timeout: Duration::from_millis(log.append_timeout_ms.max(1)),
            properties: log.kafka_properties().map_err(LogError::Settings)?,
        });
        let producer = Arc::new(Producer::new(settings.clone())?);
        Ok(Self { settings, producer })
    }

    pub(super) async fn append(&self, messages: Vec<NewMessage>) -> Result<LogTimes, LogError> {
        self.producer.append(&messages).await
    }

    pub(super) fn batches(
        &self,
        group: &str,
        topic: Topic,
        store: &Store,
        limits: Limits,
    ) -> Result<(Consumer, ConsumerStatus), LogError> {
        batches::open(&self.settings, &self.producer, group, topic, store, limits)
    }

    pub(super) async fn topic_offsets(&self, topic: Topic) -> Result<TopicOffsets, LogError> {
        self.query(move |producer| producer.topic_offsets(topic)).await
    }

    pub(super) async fn trim(
        &self,
        group: &str,
        topic: Topic,
        positions: &[GroupOffset],
        before: i64,
    ) -> Result<u64, LogError> {
        trim::trim(&self.settings, group, topic, positions, before).await
    }

    pub(super) async fn create_topics(&self) -> Result<Option<String>, LogError> {
        topics::create(&self.settings).await
    }

    pub(super) async fn check(&self, fixed: Option<u32>) -> Result<Vec<String>, LogError> {
        topics::check(&self.settings, fixed).await
    }

    pub(super) async fn check_partitions(&self) -> Result<(), LogError> {
        topics::check_partitions(&self.settings).await
    }

    pub(super) async fn check_writable(&self) -> Result<(), LogError> {
        // Two brokers may be asked, and the error of the second must be in time.
        self.query(|producer| producer.check_response(CHECK_TIMEOUT * 9 / 20)).await
    }

    /// Queries the cluster with the producer, which exists anyway: another client would have
    /// threads and connections of its own.
    async fn query<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Producer) -> Result<T, LogError> + Send + 'static,
    ) -> Result<T, LogError> {
        let producer = self.producer.clone();
        tokio::task::spawn_blocking(move || query(&producer))
            .await
            .map_err(|error| LogError::Unavailable(error.to_string()))?
    }

    pub(super) async fn close(&self) {
        self.producer.close().await;
    }
}

/// Creates a client. The error names wrong properties without their values, because some are
/// secrets.
fn create<C, T>(config: &ClientConfig, context: C) -> Result<T, LogError>
where
    C: ClientContext,
    T: FromClientConfigAndContext<C>,
{
    T::from_config_and_context(config, context).map_err(|error| match error {
        KafkaError::ClientConfig(_, _, name, _) => LogError::Settings(format!(
            "[log.kafka] {name}: unknown property of librdkafka, or invalid value"
        )),
        other => LogError::Settings(format!("[log.kafka]: {other}")),
    })
}

/// A client of librdkafka. Dropping it joins its threads, which must not block the runtime, so it
/// is dropped on a blocking thread.
struct BackgroundDrop<T: Send + 'static>(
    /// None only while it is dropped.
    Option<T>,
);

impl<T: Send + 'static> BackgroundDrop<T> {
    fn new(client: T) -> Self {
        Self(Some(client))
    }
}

impl<T: Send + 'static> Deref for BackgroundDrop<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("present until dropped")
    }
}

impl<T: Send + 'static> Drop for BackgroundDrop<T> {
    fn drop(&mut self) {
        let client = self.0.take();
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn_blocking(move || drop(client));
        }
    }
}

fn unavailable(error: KafkaError) -> LogError {
    LogError::Unavailable(match error.rdkafka_error_code() {
        Some(code) => code.to_string(),
        None => error.to_string(),
    })
}

/// The lines about connections, each of which librdkafka repeats for each broker, client and attempt.
static CONNECTION_FAILED: LogLimit = LogLimit::new();
static CLIENT_FAILED: LogLimit = LogLimit::new();

/// Forwards librdkafka's messages to the program's log.
#[derive(Clone)]
struct Tracing;

impl ClientContext for Tracing {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        if facility == "FAIL" {
            if let Some(skipped) = CONNECTION_FAILED.skipped() {
                tracing::warn!(target: "librdkafka", facility, skipped, "{text}");
            }
            return;
        }
        match level {
            RDKafkaLogLevel::Emerg
            | RDKafkaLogLevel::Alert
            | RDKafkaLogLevel::Critical
            | RDKafkaLogLevel::Error => tracing::error!(target: "librdkafka", facility, "{text}"),
            RDKafkaLogLevel::Warning => tracing::warn!(target: "librdkafka", facility, "{text}"),
            RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => {
                tracing::info!(target: "librdkafka", facility, "{text}");
            }
            RDKafkaLogLevel::Debug => tracing::debug!(target: "librdkafka", facility, "{text}"),
        }
    }

    fn stats(&self, _: Statistics) {}

    fn error(&self, error: KafkaError, reason: &str) {
        if let Some(skipped) = CLIENT_FAILED.skipped() {
            tracing::warn!(target: "librdkafka", %error, skipped, "{reason}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_does_not_override_a_fixed_property() {
        let names = ["request.required.acks", "metadata.broker.list", "delivery.timeout.ms"];
        let log = crate::message::Settings {
            url: "kafka://127.0.0.1:1".into(),
            partitions: 1,
            topic_prefix: "t.".into(),
            replication: 1,
            keep_days: 1,
            append_timeout_ms: 1000,
            kafka: names.map(|name| (name.to_owned(), "1".to_owned())).into(),
        };
        let kafka = Kafka::open(&log, &[]).unwrap();
        let fixed = [("acks", "all"), ("message.timeout.ms", "1000")];
        let client = kafka.settings.client(&[], &fixed);
        assert!(names.iter().all(|name| client.get(name).is_none()));
        assert_eq!(client.get("acks"), Some("all"));
        assert_eq!(client.get("bootstrap.servers"), Some("127.0.0.1:1"));
        assert_eq!(client.get("message.timeout.ms"), Some("1000"));
    }
}
