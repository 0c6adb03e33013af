//! Appends to Kafka with an idempotent producer that waits for all in-sync replicas.
//!
//! A broker rejects a batch that does not follow the one before it. But if it has no record of the
//! producer in a partition, it accepts any batch. So while a partition gets a new leader, the first
//! batch can be rejected and the second, already on its way, accepted. librdkafka then reports both
//! as written, and the first is lost (KAFKA-15591). Therefore the first message to a [`partition`]
//! is sent alone; others follow once the broker has confirmed it.
//!
//! librdkafka sends a request for each partition. So while many messages are in flight, others wait
//! some milliseconds for more to their partition: fewer requests have a higher throughput. While few
//! are in flight, waiting gains nothing, and messages are sent at once. Each of these two
//! [`lane`]s has its own producer. The gathering one is created when it is first needed, because a
//! producer has threads, connections and memory of its own.
//!
//! An append follows those that were confirmed before it began. The order of others is open: they
//! may use different producers. One that has failed may still be written later.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::try_join_all;
use parking_lot::Mutex;
use rdkafka::client as native;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, Message as _, OwnedHeaders, Timestamp};
use rdkafka::producer::{BaseRecord, Producer as _, ProducerContext};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout_at};

use self::lane::{Client, Confirmed, Lane, LaneKind};
use self::partition::{ExclusiveSend, Partitions};
use super::{
    MAX_BATCH_BYTES, REQUEST_ID, RESPONSE_TIMEOUT, Settings, Tracing, describe, unavailable,
};
use crate::TopicOffsets;
use crate::message::{LogError, LogTimes, NewMessage, Topic};
use kit::fail_point;
use kit::log_limit::LogLimit;

mod lane;
mod partition;

/// With more messages in flight, an append waits for others. Measured on two cores and 16
/// partitions: without the wait, one client makes 12 times as many requests a second, and 64 clients
/// make a tenth fewer; with 75 objects for all partitions in each request, a third fewer.
const FEW: usize = 32;

static NO_GATHERING: LogLimit = LogLimit::new();

/// Pause when librdkafka's queue is full.
const FULL_PAUSE: Duration = Duration::from_millis(10);

/// For how long others wait behind a message that has no space in the queue. The messages of a
/// partition without a leader keep their space until they time out; others must not wait for that.
const MAX_TURN: Duration = Duration::from_secs(1);

/// The times of the log at which the messages of a request were appended; 0 if one is not known.
type Times = Arc<[AtomicI64]>;

/// A message, with its index in its request.
type Indexed<'a> = (usize, &'a NewMessage);

/// The messages of one append. They share one result, so that the caller is woken once for all
/// partitions.
pub(super) struct Append {
    /// Messages that are not durable yet.
    pending: AtomicUsize,
    /// None once the result was sent.
    answer: Mutex<Option<oneshot::Sender<KafkaResult<()>>>>,
    /// The time of the client's last confirmation.
    confirmed: Confirmed,
    partitions: Arc<Partitions>,
    times: Times,
    /// The partitions of its messages.
    topic_partitions: Vec<(Topic, i32)>,
    /// Held until its only message is confirmed or has failed, even if the caller has stopped
    /// waiting.
    _alone: Option<ExclusiveSend>,
}

impl Append {
    fn new(
        messages: &[Indexed<'_>],
        client: &Client,
        times: &Times,
        alone: Option<ExclusiveSend>,
    ) -> (Arc<Self>, oneshot::Receiver<KafkaResult<()>>) {
        let (sender, answer) = oneshot::channel();
        let topic_partition =
            |(_, message): &Indexed<'_>| (message.topic, client.partitions.partition_of(message));
        let append = Self {
            pending: AtomicUsize::new(messages.len()),
            answer: Mutex::new(Some(sender)),
            confirmed: client.confirmed.clone(),
            partitions: client.partitions.clone(),
            times: times.clone(),
            topic_partitions: messages.iter().map(topic_partition).collect(),
            _alone: alone,
        };
        (Arc::new(append), answer)
    }

    fn answer(&self, result: KafkaResult<()>) {
        let sender = self.answer.lock().take();
        // The receiver is gone if its time was over.
        sender.map(|sender| sender.send(result));
    }
}

impl ProducerContext for Tracing {
    type DeliveryOpaque = Box<(Arc<Append>, usize)>;

    fn delivery(&self, delivered: &DeliveryResult<'_>, sent: Self::DeliveryOpaque) {
        let (append, index) = *sent;
        match delivered {
            Ok(message) => {
                if let Timestamp::LogAppendTime(ms) = message.timestamp() {
                    append.times[index].store(ms, Ordering::Release);
                }
                *append.confirmed.lock() = Some(Instant::now());
                fail_point!("log::delivered");
                if append.pending.fetch_sub(1, Ordering::AcqRel) == 1 {
                    append.partitions.confirmed(&append.topic_partitions);
                    append.answer(Ok(()));
                }
            }
            Err((error, _)) => append.answer(Err(error.clone())),
        }
    }
}

pub(super) struct Producer {
    settings: Arc<Settings>,
    /// Messages of appends that have not ended.
    in_flight: AtomicUsize,
    prompt: Lane,
    gathering: Lane,
}

/// Counts the messages of an append until it has ended or was given up.
struct InFlight<'a> {
    all: &'a AtomicUsize,
    messages: usize,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.all.fetch_sub(self.messages, Ordering::Relaxed);
    }
}

impl Producer {
    pub fn new(settings: Arc<Settings>) -> Result<Self, LogError> {
        let (prompt, gathering) = (Lane::new(LaneKind::Prompt), Lane::new(LaneKind::Gathering));
        // Fails for invalid settings now, and not at the first append.
        prompt.current(&settings)?;
        Ok(Self { settings, in_flight: AtomicUsize::new(0), prompt, gathering })
    }

    pub async fn append(&self, messages: &[NewMessage]) -> Result<LogTimes, LogError> {
        let others = self.in_flight.fetch_add(messages.len(), Ordering::Relaxed);
        let _in_flight = InFlight { all: &self.in_flight, messages: messages.len() };
        let (lane, client) = self.lane(others)?;
        let began = Instant::now();
        let deadline = began + self.settings.timeout;
        let times: Times = messages.iter().map(|_| AtomicI64::new(0)).collect();
        let sent = timeout_at(deadline, self.send_all(&client, messages, &times)).await;
        let result = sent.unwrap_or_else(|_| {
            Err(LogError::Unavailable(format!(
                "Kafka did not confirm the messages within {:?}",
                self.settings.timeout
            )))
        });
        if result.is_err() {
            let ran_out_of_time = Instant::now() >= deadline;
            let is_stuck = ran_out_of_time && client.is_stuck_since(began);
            lane.replace_if_broken(&self.settings, &client, is_stuck);
        }
        let times = times.iter().map(|ms| Some(ms.load(Ordering::Acquire)).filter(|ms| *ms > 0));
        result.map(|()| times.collect())
    }

    /// The lane of an append, and its client, while so many `others` are in flight.
    fn lane(&self, others: usize) -> Result<(&Lane, Arc<Client>), LogError> {
        if others >= FEW {
            match self.gathering.current(&self.settings) {
                Ok(client) => return Ok((&self.gathering, client)),
                // Its settings are valid, so a thread or a file is missing for now.
                Err(LogError::Settings(reason)) => {
                    if let Some(skipped) = NO_GATHERING.skipped() {
                        tracing::warn!(reason, skipped, "cannot create a second Kafka producer");
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok((&self.prompt, self.prompt.current(&self.settings)?))
    }

    /// A topic's content; see [`describe::topic_offsets`].
    pub fn topic_offsets(&self, topic: Topic) -> Result<TopicOffsets, LogError> {
        let (name, partitions) = (self.settings.topic(topic), 0..self.settings.partitions);
        self.query(|client| describe::topic_offsets(client, &name, partitions))
    }

    /// The offsets of some partitions of a topic; see [`describe::known_topic_offsets`].
    pub fn known_topic_offsets(
        &self,
        topic: &str,
        is_requested: impl Fn(i32) -> bool,
    ) -> Result<TopicOffsets, LogError> {
        self.query(|client| describe::known_topic_offsets(client, topic, is_requested))
    }

    /// Waits for a response of a broker, unless a message was confirmed recently; blocks for twice
    /// `timeout` at most. All topics are requested, because a broker may create a missing topic
    /// that is requested by name.
    pub fn check_response(&self, timeout: Duration) -> Result<(), LogError> {
        let client = self.prompt.current(&self.settings)?;
        let confirmed = [client.last_confirmed(), self.gathering.last_confirmed()];
        // The request would wait behind messages that a slow broker has not confirmed yet.
        if confirmed.into_iter().flatten().any(|at| at.elapsed() < self.settings.timeout) {
            return Ok(());
        }
        self.responds(&client, timeout)
    }

    /// Queries the cluster, and replaces a client that fails because it reaches no broker: a worker
    /// may append nothing, so no append notices it.
    fn query<T>(
        &self,
        query: impl FnOnce(&native::Client<Tracing>) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        let client = self.prompt.current(&self.settings)?;
        let result = query(client.producer.client());
        if result.is_err() {
            // Only the reason of the query counts.
            let _ = self.responds(&client, RESPONSE_TIMEOUT);
        }
        result
    }

    /// Waits for a response of a broker; without one, replaces a client that is stuck.
    fn responds(&self, client: &Arc<Client>, timeout: Duration) -> Result<(), LogError> {
        let began = Instant::now();
        let ask = || client.producer.client().fetch_metadata(None, timeout);
        // The first may have gone to a broker that hangs.
        ask().or_else(|_| ask()).map(drop).map_err(|error| {
            let is_stuck = client.is_stuck_since(began);
            self.prompt.replace_if_broken(&self.settings, client, is_stuck);
            unavailable(error)
        })
    }

    /// Sends all, in order within each partition.
    async fn send_all(
        &self,
        client: &Client,
        messages: &[NewMessage],
        times: &Times,
    ) -> Result<(), LogError> {
        let (mut first, mut rest) = (BTreeMap::new(), Vec::new());
        for (index, message) in messages.iter().enumerate() {
            let topic_partition = (message.topic, client.partitions.partition_of(message));
            match first.entry(topic_partition) {
                Entry::Vacant(entry) if !client.partitions.is_known(topic_partition) => {
                    entry.insert((index, message));
                }
                _ => rest.push((index, message)),
            }
        }
        if !first.is_empty() {
            let first = first.into_iter().map(async |(topic_partition, message)| {
                let Some(alone) = client.partitions.alone(topic_partition).await else {
                    return Ok(Some(message));
                };
                let sent = self.send_together(client, &[message], times, Some(alone)).await;
                sent.map(|()| None)
            });
            // Messages whose partition was meanwhile confirmed by another append.
            let mut known: Vec<Indexed<'_>> =
                try_join_all(first).await?.into_iter().flatten().collect();
            known.append(&mut rest);
            rest = known;
        }
        if rest.is_empty() { Ok(()) } else { self.send_together(client, &rest, times, None).await }
    }

    /// Sends messages, then waits for all, so that they share batches.
    async fn send_together(
        &self,
        client: &Client,
        messages: &[Indexed<'_>],
        times: &Times,
        alone: Option<ExclusiveSend>,
    ) -> Result<(), LogError> {
        let (append, answer) = Append::new(messages, client, times, alone);
        // Otherwise smaller messages would always take the space before a large one fits.
        let mut turn = Some(client.turn.lock().await);
        let end = Instant::now() + MAX_TURN.min(self.settings.timeout / 10);
        for (index, message) in messages {
            let topic = self.settings.topic(message.topic);
            while let Err(error) = send(client, &topic, message, (append.clone(), *index)) {
                match error.rdkafka_error_code() {
                    Some(RDKafkaErrorCode::QueueFull) => {
                        if Instant::now() >= end {
                            drop(turn.take());
                        }
                        sleep(FULL_PAUSE).await;
                    }
                    Some(RDKafkaErrorCode::MessageSizeTooLarge) => {
                        return Err(LogError::Refused(format!(
                            "it is larger than {MAX_BATCH_BYTES} bytes"
                        )));
                    }
                    _ => return Err(self.explain(error)),
                }
            }
        }
        drop(turn);
        match answer.await {
            Ok(delivered) => delivered.map_err(|error| self.explain(error)),
            Err(_) => Err(LogError::closed()),
        }
    }

    fn explain(&self, error: KafkaError) -> LogError {
        match error.rdkafka_error_code() {
            // The broker rejected a batch, which may have messages of several appends. None is
            // larger than a topic must allow.
            Some(RDKafkaErrorCode::MessageSizeTooLarge | RDKafkaErrorCode::InvalidMessageSize) => {
                LogError::Unavailable(
                    "max.message.bytes of the topic is too low: run `longshore doctor`".into(),
                )
            }
            Some(RDKafkaErrorCode::UnknownTopic | RDKafkaErrorCode::UnknownTopicOrPartition) => {
                LogError::Unavailable("the topic does not exist: run `longshore migrate`".into())
            }
            _ => unavailable(error),
        }
    }

    pub async fn close(&self) {
        let timeout = self.settings.timeout;
        tokio::join!(self.prompt.close(timeout), self.gathering.close(timeout));
    }
}

fn send(
    client: &Client,
    topic: &str,
    message: &NewMessage,
    append: (Arc<Append>, usize),
) -> KafkaResult<()> {
    let request_id = Header { key: REQUEST_ID, value: Some(&message.request_id) };
    let mut record = BaseRecord::with_opaque_to(topic, Box::new(append))
        .key(&message.key)
        .payload(&message.payload)
        .headers(OwnedHeaders::new_with_capacity(1).insert(request_id));
    record.partition = Some(client.partitions.partition_of(message));
    client.producer.send(record).map_err(|(error, _)| error)
}

#[cfg(test)]
mod tests;
