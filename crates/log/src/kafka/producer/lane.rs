//! A producer of librdkafka: its creation, and its replacement once it can send nothing more.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use rdkafka::producer::{Producer as _, ThreadedProducer};
use tokio::time::Instant;

use super::partition::Partitions;
use crate::kafka::{BackgroundDrop, MAX_BATCH_BYTES, Settings, Tracing, create};
use crate::message::LogError;

/// Memory limit of each lane's producer for messages to send.
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
    /// Held while messages of an append are put into the queue, or wait for space there.
    pub(super) turn: tokio::sync::Mutex<()>,
    pub(super) producer: BackgroundDrop<ThreadedProducer<Tracing>>,
}

impl Client {
    pub(super) fn new(
        settings: &Settings,
        kind: LaneKind,
        confirm_timeout: Duration,
    ) -> Result<Self, LogError> {
        let producer = BackgroundDrop::new(producer(settings, kind)?);
        let partitions = Arc::new(Partitions::new(settings.topics, settings.partitions));
        Ok(Self {
            created: Instant::now(),
            confirmed: Arc::default(),
            confirm_timeout,
            partitions,
            turn: tokio::sync::Mutex::default(),
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

/// Which messages a lane is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum LaneKind {
    /// Each is sent at once.
    Prompt,
    /// Each waits for others to its partition, for `linger.ms`.
    Gathering,
}

/// A client, and the next one that replaces it.
pub(super) struct Lane {
    kind: LaneKind,
    pub(super) state: RwLock<State>,
}

pub(super) enum State {
    /// Nothing has needed a client yet.
    Unused,
    Open(Arc<Client>),
    Closed,
}

impl Lane {
    pub(super) fn new(kind: LaneKind) -> Self {
        Self { kind, state: RwLock::new(State::Unused) }
    }

    /// Its client. Creates the first one, which needs no response of a broker. If that fails, the
    /// next call tries it again.
    pub(super) fn current(&self, settings: &Settings) -> Result<Arc<Client>, LogError> {
        if let State::Open(client) = &*self.state.read() {
            return Ok(client.clone());
        }
        let mut state = self.state.write();
        match &*state {
            State::Unused => {
                let client = Arc::new(Client::new(settings, self.kind, settings.timeout)?);
                *state = State::Open(client.clone());
                Ok(client)
            }
            State::Open(client) => Ok(client.clone()),
            State::Closed => Err(LogError::closed()),
        }
    }

    /// When its client's last message was confirmed.
    pub(super) fn last_confirmed(&self) -> Option<Instant> {
        match &*self.state.read() {
            State::Open(client) => client.last_confirmed(),
            State::Unused | State::Closed => None,
        }
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
        let mut state = self.state.write();
        if !matches!(&*state, State::Open(client) if Arc::ptr_eq(client, failed)) {
            return;
        }
        tracing::warn!(reason, lane = ?self.kind, "replacing the Kafka producer");
        let timeout = failed.next_confirm_timeout(settings.timeout);
        match Client::new(settings, self.kind, timeout) {
            Ok(new) => *state = State::Open(Arc::new(new)),
            Err(error) => tracing::error!(%error, "cannot create a new Kafka producer"),
        }
    }

    pub(super) async fn close(&self, timeout: Duration) {
        let state = mem::replace(&mut *self.state.write(), State::Closed);
        let State::Open(client) = state else { return };
        let flushed = tokio::task::spawn_blocking(move || client.producer.flush(timeout));
        if let Ok(Err(error)) = flushed.await {
            tracing::warn!(%error, "cannot flush the Kafka producer");
        }
    }
}

fn producer(settings: &Settings, kind: LaneKind) -> Result<ThreadedProducer<Tracing>, LogError> {
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
        ("acks", "all"),
        ("message.max.bytes", max_bytes.as_str()),
        ("message.timeout.ms", timeout_ms.as_str()),
    ];
    if let LaneKind::Prompt = kind {
        fixed.push(("linger.ms", "0"));
    }
    let mut client = settings.client(&defaults, &fixed);
    // It stays false, its default, whatever the operator sets: a rejected batch would end the
    // producer. librdkafka warns if it is set, even to false.
    client.remove("enable.gapless.guarantee");
    create(&client, Tracing)
}
