//! A producer of librdkafka, and its replacement once it can send nothing more.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use rdkafka::producer::{Producer as _, ThreadedProducer};
use tokio::time::Instant;

use super::partition::Partitions;
use crate::kafka::{BackgroundDrop, MAX_BATCH_BYTES, Settings, Tracing, create};
use crate::message::LogError;

/// Memory limit of each of the two producers for messages to send.
const QUEUE_KBYTES: &str = "8192";

/// Maximum wait for a new producer's first confirmation.
pub(super) const MAX_TIMEOUT: Duration = Duration::from_secs(60);

/// When the last message was confirmed, in any partition; none before the first.
pub(super) type Confirmed = Arc<Mutex<Option<Instant>>>;

/// librdkafka's producer.
pub(super) struct Client {
    pub(super) created: Instant,
    pub(super) confirmed: Confirmed,
    /// Time limit for the first confirmation: DNS, TLS and logins may be slow.
    pub(super) confirm_timeout: Duration,
    pub(super) partitions: Arc<Partitions>,
    pub(super) producer: BackgroundDrop<ThreadedProducer<Tracing>>,
}

impl Client {
    pub(super) fn new(
        settings: &Settings,
        linger: Linger,
        confirm_timeout: Duration,
    ) -> Result<Self, LogError> {
        let producer = BackgroundDrop::new(producer(settings, linger)?);
        let partitions = Arc::new(Partitions::new(settings.topics, settings.partitions));
        Ok(Self {
            created: Instant::now(),
            confirmed: Arc::default(),
            confirm_timeout,
            partitions,
            producer,
        })
    }

    pub(super) fn last_confirmed(&self) -> Option<Instant> {
        *self.confirmed.lock()
    }

    /// Whether its time limit has passed without a confirmation since `began`.
    pub(super) fn is_stuck_since(&self, began: Instant) -> bool {
        match self.last_confirmed() {
            None => self.created.elapsed() >= self.confirm_timeout,
            Some(last) => last < began,
        }
    }

    /// Time limit of the next client: longer if this one never got a confirmation.
    pub(super) fn next_confirm_timeout(&self, timeout: Duration) -> Duration {
        match self.last_confirmed() {
            None => (self.confirm_timeout * 2).min(MAX_TIMEOUT),
            Some(_) => timeout,
        }
    }
}

/// Whether a message waits for others to the same partition.
#[derive(Clone, Copy, Debug)]
pub(super) enum Linger {
    None,
    /// For `linger.ms`.
    Some,
}

/// A client, and the next one that replaces it.
pub(super) struct Lane {
    linger: Linger,
    /// None once closed.
    client: RwLock<Option<Arc<Client>>>,
}

impl Lane {
    pub(super) fn new(settings: &Settings, linger: Linger) -> Result<Self, LogError> {
        let client = Client::new(settings, linger, settings.timeout)?;
        Ok(Self { linger, client: RwLock::new(Some(Arc::new(client))) })
    }

    pub(super) fn current(&self) -> Result<Arc<Client>, LogError> {
        let client = self.client.read();
        client.clone().ok_or_else(LogError::closed)
    }

    /// Replaces an unusable client. An idempotent producer that has lost its sequence can send
    /// nothing more. The same holds for one without a confirmation for the time limit of a message:
    /// after messages have timed out, librdkafka sends nothing until all requests in progress have
    /// a response. Without the replacement, appends failed for minutes after a broker paused, until
    /// the process was restarted.
    pub(super) fn replace_if_broken(
        &self,
        settings: &Settings,
        failed: &Arc<Client>,
        is_stuck: bool,
    ) {
        let reason = match failed.producer.client().fatal_error() {
            Some((code, reason)) => format!("{code}: {reason}"),
            None if is_stuck => "Kafka confirmed no message recently".to_owned(),
            None => return,
        };
        let mut current = self.client.write();
        if !current.as_ref().is_some_and(|client| Arc::ptr_eq(client, failed)) {
            return;
        }
        tracing::warn!(reason, linger = ?self.linger, "replacing the Kafka producer");
        let timeout = failed.next_confirm_timeout(settings.timeout);
        match Client::new(settings, self.linger, timeout) {
            Ok(new) => *current = Some(Arc::new(new)),
            Err(error) => tracing::error!(%error, "cannot create a new Kafka producer"),
        }
    }

    pub(super) async fn close(&self, timeout: Duration) {
        let client = self.client.write().take();
        let flushed = tokio::task::spawn_blocking(move || {
            client.map_or(Ok(()), |client| client.producer.flush(timeout))
        });
        if let Ok(Err(error)) = flushed.await {
            tracing::warn!(%error, "cannot flush the Kafka producer");
        }
    }
}

fn producer(settings: &Settings, linger: Linger) -> Result<ThreadedProducer<Tracing>, LogError> {
    let max_bytes = MAX_BATCH_BYTES.to_string();
    let timeout_ms = settings.timeout.as_millis().to_string();
    let defaults = [
        // Kafka's own clients have the same default.
        ("linger.ms", "5"),
        ("compression.codec", "none"),
        ("queue.buffering.max.kbytes", QUEUE_KBYTES),
    ];
    let mut fixed = vec![
        ("enable.idempotence", "true"),
        // It would make the producer use another sequence number, which the brokers do not know.
        ("enable.gapless.guarantee", "false"),
        ("acks", "all"),
        ("message.max.bytes", max_bytes.as_str()),
        ("message.timeout.ms", timeout_ms.as_str()),
    ];
    if let Linger::None = linger {
        fixed.push(("linger.ms", "0"));
    }
    create(&settings.client(&defaults, &fixed), Tracing)
}
