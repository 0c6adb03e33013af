//! Appends to Kafka with an idempotent producer that waits for all in-sync replicas.
//!
//! A broker rejects a batch that does not follow the one before it. But if it has no record of the
//! producer in a partition, it accepts any batch. So while a partition gets a new leader, the first
//! batch can be rejected and the second, already on its way, accepted. librdkafka then reports both
//! as written, and the first is lost (KAFKA-15591). Therefore the first message to a [`partition`]
//! is sent alone; others follow once the broker has confirmed it.
//!
//! librdkafka sends a request for each partition. So while many appends are in flight, their
//! messages wait some milliseconds for others: fewer requests have a higher throughput. While few
//! are in flight, waiting gains nothing, and their messages are sent at once. Each of these two
//! [`lane`]s has its own producer. The gathering one is created when it is first needed, because a
//! producer has threads, connections and memory of its own.
//!
//! An append follows those that were confirmed before it began. The order of others is open: they
//! may use different producers. One that has failed may still be written later.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::try_join_all;
use parking_lot::Mutex;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer as _, ProducerContext};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout_at};

use self::lane::{Client, Confirmed, Lane, LaneKind};
use self::partition::{ExclusiveSend, Partitions};
use super::{MAX_BATCH_BYTES, REQUEST_ID, Settings, Tracing, describe, unavailable};
use crate::TopicOffsets;
use crate::message::{LogError, NewMessage, Topic};
use kit::fail_point;
use kit::log_limit::LogLimit;

mod lane;
mod partition;

/// With more appends in flight, messages wait for others. Measured on two cores and 16 partitions:
/// without the wait, one client makes 12 times as many requests a second, and 64 clients make a
/// tenth fewer.
const FEW: usize = 32;

static NO_GATHERING: LogLimit = LogLimit::new();

/// Pause when librdkafka's queue is full.
const FULL_PAUSE: Duration = Duration::from_millis(10);

/// For how long others wait behind a message that has no space in the queue. The messages of a
/// partition without a leader keep their space until they time out; others must not wait for that.
const MAX_TURN: Duration = Duration::from_secs(1);

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
    /// The partitions of its messages.
    topic_partitions: Vec<(Topic, i32)>,
    /// Held until its only message is confirmed or has failed, even if the caller has stopped
    /// waiting.
    _alone: Option<ExclusiveSend>,
}

impl Append {
    fn new(
        messages: &[&NewMessage],
        client: &Client,
        alone: Option<ExclusiveSend>,
    ) -> (Arc<Self>, oneshot::Receiver<KafkaResult<()>>) {
        let (sender, answer) = oneshot::channel();
        let topic_partition =
            |message: &&NewMessage| (message.topic, client.partitions.partition_of(message));
        let append = Self {
            pending: AtomicUsize::new(messages.len()),
            answer: Mutex::new(Some(sender)),
            confirmed: client.confirmed.clone(),
            partitions: client.partitions.clone(),
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
    type DeliveryOpaque = Arc<Append>;

    fn delivery(&self, delivered: &DeliveryResult<'_>, append: Arc<Append>) {
        match delivered {
            Ok(_) => {
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
    in_flight: AtomicUsize,
    prompt: Lane,
    gathering: Lane,
}

/// Counts an append until it has ended or was given up.
struct InFlight<'a>(&'a AtomicUsize);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Producer {
    pub fn new(settings: Arc<Settings>) -> Result<Self, LogError> {
        let (prompt, gathering) = (Lane::new(LaneKind::Prompt), Lane::new(LaneKind::Gathering));
        // Fails for invalid settings now, and not at the first append.
        prompt.current(&settings)?;
        Ok(Self { settings, in_flight: AtomicUsize::new(0), prompt, gathering })
    }

    pub async fn append(&self, messages: &[NewMessage]) -> Result<(), LogError> {
        let others = self.in_flight.fetch_add(1, Ordering::Relaxed);
        let _in_flight = InFlight(&self.in_flight);
        let (lane, client) = self.lane(others)?;
        let began = Instant::now();
        let deadline = began + self.settings.timeout;
        let result =
            timeout_at(deadline, self.send_all(&client, messages)).await.unwrap_or_else(|_| {
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
        result
    }

    /// The lane of an append, and its client. `others` are in flight.
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
        let (client, name) = (self.prompt.current(&self.settings)?, self.settings.topic(topic));
        let partitions = 0..self.settings.partitions;
        describe::topic_offsets(client.producer.client(), &name, partitions)
    }

    /// The offsets of some partitions of a topic; see [`describe::known_topic_offsets`].
    pub fn known_topic_offsets(
        &self,
        topic: &str,
        is_requested: impl Fn(i32) -> bool,
    ) -> Result<TopicOffsets, LogError> {
        let client = self.prompt.current(&self.settings)?;
        describe::known_topic_offsets(client.producer.client(), topic, is_requested)
    }

    /// Waits for a response of a broker, unless a message was confirmed recently; blocks. All topics
    /// are requested, because a broker may create a missing topic that is requested by name.
    pub fn check_response(&self, timeout: Duration) -> Result<(), LogError> {
        let client = self.prompt.current(&self.settings)?;
        let confirmed = [client.last_confirmed(), self.gathering.last_confirmed()];
        // The request would wait behind messages that a slow broker has not confirmed yet.
        if confirmed.into_iter().flatten().any(|at| at.elapsed() < self.settings.timeout) {
            return Ok(());
        }
        let ask = || client.producer.client().fetch_metadata(None, timeout);
        // The first may have gone to a broker that hangs.
        ask().or_else(|_| ask()).map(drop).map_err(unavailable)
    }

    /// Sends all, in order within each partition.
    async fn send_all(&self, client: &Client, messages: &[NewMessage]) -> Result<(), LogError> {
        let (mut first, mut rest) = (BTreeMap::new(), Vec::new());
        for message in messages {
            let topic_partition = (message.topic, client.partitions.partition_of(message));
            match first.entry(topic_partition) {
                Entry::Vacant(entry) if !client.partitions.is_known(topic_partition) => {
                    entry.insert(message);
                }
                _ => rest.push(message),
            }
        }
        if !first.is_empty() {
            let first = first.into_iter().map(async |(topic_partition, message)| {
                let Some(alone) = client.partitions.alone(topic_partition).await else {
                    return Ok(Some(message));
                };
                self.send_together(client, &[message], Some(alone)).await.map(|()| None)
            });
            // Messages whose partition was meanwhile confirmed by another append.
            let mut known: Vec<&NewMessage> =
                try_join_all(first).await?.into_iter().flatten().collect();
            known.append(&mut rest);
            rest = known;
        }
        if rest.is_empty() { Ok(()) } else { self.send_together(client, &rest, None).await }
    }

    /// Sends messages, then waits for all, so that they share batches.
    async fn send_together(
        &self,
        client: &Client,
        messages: &[&NewMessage],
        alone: Option<ExclusiveSend>,
    ) -> Result<(), LogError> {
        let (append, answer) = Append::new(messages, client, alone);
        // Otherwise smaller messages would always take the space before a large one fits.
        let mut turn = Some(client.turn.lock().await);
        let end = Instant::now() + MAX_TURN.min(self.settings.timeout / 10);
        for message in messages {
            let topic = self.settings.topic(message.topic);
            while let Err(error) = send(client, &topic, message, append.clone()) {
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
    append: Arc<Append>,
) -> KafkaResult<()> {
    let request_id = Header { key: REQUEST_ID, value: Some(&message.request_id) };
    let mut record = BaseRecord::with_opaque_to(topic, append)
        .key(&message.key)
        .payload(&message.payload)
        .headers(OwnedHeaders::new_with_capacity(1).insert(request_id));
    record.partition = Some(client.partitions.partition_of(message));
    client.producer.send(record).map_err(|(error, _)| error)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use futures::FutureExt as _;
    use rdkafka::mocking::MockCluster;
    use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

    use super::lane::{MAX_TIMEOUT, State};
    use super::*;

    fn settings(properties: &[(&str, &str)]) -> Arc<Settings> {
        Arc::new(Settings {
            brokers: "127.0.0.1:1".into(),
            topics: TOPICS,
            topic_prefix: "t.".into(),
            partitions: 1,
            replication: 1,
            timeout: Duration::from_millis(200),
            properties: properties
                .iter()
                .map(|(n, v)| ((*n).into(), (*v).into()))
                .collect::<BTreeMap<_, _>>(),
        })
    }

    fn prompt(producer: &Producer) -> Arc<Client> {
        producer.prompt.current(&producer.settings).unwrap()
    }

    fn is_unused(lane: &Lane) -> bool {
        matches!(*lane.state.read(), State::Unused)
    }

    const TOPICS: &[Topic] = &[Topic::new("exports")];

    fn message() -> NewMessage {
        NewMessage {
            topic: TOPICS[0],
            key: vec![1],
            partition: None,
            payload: vec![],
            request_id: String::new(),
        }
    }

    #[tokio::test]
    async fn a_broken_producer_is_replaced() {
        let producer = Producer::new(settings(&[])).unwrap();
        let native = prompt(&producer);
        let reason = c"on purpose";
        // SAFETY: the client is alive, and the text ends with a NUL.
        unsafe {
            rdkafka::bindings::rd_kafka_test_fatal_error(
                native.producer.client().native_ptr(),
                rdkafka::types::RDKafkaRespErr::RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER,
                reason.as_ptr(),
            );
        }
        assert!(native.producer.client().fatal_error().is_some());
        let error = producer.append(&[message()]).await.unwrap_err();
        assert!(matches!(error, LogError::Unavailable(_)), "{error}");
        assert!(prompt(&producer).producer.client().fatal_error().is_none());
    }

    /// No server listens on this address.
    #[tokio::test]
    async fn replaced_producers_have_longer_timeouts() {
        let producer = Producer::new(settings(&[])).unwrap();
        let first = prompt(&producer);
        let messages = [message()];
        let appends = (0..3).map(|_| producer.append(&messages));
        for result in futures::future::join_all(appends).await {
            assert!(matches!(result, Err(LogError::Unavailable(_))), "{result:?}");
        }
        let second = prompt(&producer);
        assert!(!Arc::ptr_eq(&first, &second));
        assert_eq!(second.confirm_timeout, 2 * first.confirm_timeout, "it was replaced once");
        // A holder of the first client does not replace the second.
        producer.prompt.replace_if_broken(&producer.settings, &first, true);
        assert!(Arc::ptr_eq(&second, &prompt(&producer)));
        // A client that rejects a too large message is not replaced either.
        let large = NewMessage { payload: vec![0; 2 * MAX_BATCH_BYTES], ..message() };
        let error = producer.append(&[large]).await.unwrap_err();
        assert!(matches!(error, LogError::Refused(_)), "{error}");
        assert!(Arc::ptr_eq(&second, &prompt(&producer)));
    }

    /// The brokers reject a first message while the partition gets a leader, and others follow
    /// right after it. librdkafka's mock cluster accepts those, like Kafka.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_rejected_first_message_is_not_lost_to_those_after_it() {
        const APPENDS: usize = 8;
        let cluster = MockCluster::new(1).unwrap();
        let slow = Duration::from_millis(50);
        cluster.broker_round_trip_time(1, slow).unwrap();
        cluster.create_topic("t.exports", 2, 1).unwrap();
        let settings = Settings {
            brokers: cluster.bootstrap_servers(),
            partitions: 2,
            timeout: Duration::from_secs(30),
            ..Arc::into_inner(settings(&[])).unwrap()
        };
        let producer = Producer::new(Arc::new(settings)).unwrap();
        let written = || {
            let client = prompt(&producer);
            client.producer.client().fetch_watermarks("t.exports", 0, MAX_TIMEOUT).unwrap().1
        };
        let to = |partition| NewMessage { partition: Some(partition), ..message() };
        // It has its number and knows the leader; the next append is sent immediately.
        producer.append(&[to(1)]).await.unwrap();
        assert_eq!(written(), 0);
        let rejected = RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION;
        cluster.request_errors(RDKafkaApiKey::Produce, &[rejected]);
        let appends = (0..APPENDS).map(async |number| {
            sleep(slow / 5 * u32::try_from(number).unwrap()).await;
            let payload = vec![u8::try_from(number).unwrap()];
            producer.append(&[NewMessage { payload, ..to(0) }]).await
        });
        for appended in futures::future::join_all(appends).await {
            appended.unwrap();
        }
        assert_eq!(written(), i64::try_from(APPENDS).unwrap());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn messages_wait_for_others_while_many_are_in_flight() {
        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic("t.exports", 1, 1).unwrap();
        let settings = Settings {
            brokers: cluster.bootstrap_servers(),
            timeout: Duration::from_secs(30),
            ..Arc::into_inner(settings(&[])).unwrap()
        };
        let producer = Producer::new(Arc::new(settings)).unwrap();
        let messages = [message()];
        let appends =
            |count| futures::future::join_all((0..count).map(|_| producer.append(&messages)));
        assert!(appends(FEW).await.into_iter().all(|appended| appended.is_ok()));
        assert!(is_unused(&producer.gathering));
        assert!(appends(2 * FEW).await.into_iter().all(|appended| appended.is_ok()));
        let gathering = producer.gathering.current(&producer.settings).unwrap();
        assert!(gathering.last_confirmed().is_some());
        // One that is given up is not in flight any more.
        let mut given_up = Box::pin(appends(2 * FEW));
        assert!((&mut given_up).now_or_never().is_none());
        assert!(producer.in_flight.load(Ordering::Relaxed) > FEW);
        drop(given_up);
        assert_eq!(producer.in_flight.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_large_message_gets_space_while_small_ones_are_sent() {
        let cluster = MockCluster::new(1).unwrap();
        cluster.broker_round_trip_time(1, Duration::from_millis(20)).unwrap();
        cluster.create_topic("t.exports", 1, 1).unwrap();
        let settings = Settings {
            brokers: cluster.bootstrap_servers(),
            timeout: Duration::from_secs(20),
            ..Arc::into_inner(settings(&[("queue.buffering.max.kbytes", "64")])).unwrap()
        };
        let producer = Producer::new(Arc::new(settings)).unwrap();
        let of_size = |bytes| [NewMessage { payload: vec![0; bytes], ..message() }];
        let (small, large) = (of_size(16 << 10), of_size(60 << 10));
        // Others may follow immediately.
        producer.append(&small).await.unwrap();
        let is_done = AtomicBool::new(false);
        let all_small = futures::future::join_all((0..16).map(async |_| {
            while !is_done.load(Ordering::Relaxed) {
                producer.append(&small).await.unwrap();
            }
        }));
        let append_large = async {
            let appended = producer.append(&large).await;
            is_done.store(true, Ordering::Relaxed);
            appended
        };
        let (_, appended) = tokio::join!(all_small, append_large);
        appended.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn messages_of_a_batch_that_a_broker_rejects_can_be_sent_again() {
        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic("t.exports", 1, 1).unwrap();
        let settings = Settings {
            brokers: cluster.bootstrap_servers(),
            timeout: Duration::from_secs(30),
            ..Arc::into_inner(settings(&[])).unwrap()
        };
        let producer = Producer::new(Arc::new(settings)).unwrap();
        let rejected = RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE;
        cluster.request_errors(RDKafkaApiKey::Produce, &[rejected]);
        let error = producer.append(&[message()]).await.unwrap_err();
        assert!(error.to_string().contains("max.message.bytes"), "{error}");
        assert!(matches!(error, LogError::Unavailable(_)), "{error}");
        producer.append(&[message()]).await.unwrap();
    }

    #[tokio::test]
    async fn a_lane_that_cannot_be_created_is_tried_again_until_it_is_closed() {
        let producer = Producer::new(settings(&[])).unwrap();
        let with = |settings, producer| Producer {
            settings,
            // The next append is gathered.
            in_flight: AtomicUsize::new(FEW),
            ..producer
        };
        let producer = with(settings(&[("no.such.property", "1")]), producer);
        let error = producer.append(&[message()]).await.unwrap_err();
        assert!(matches!(error, LogError::Unavailable(_)), "{error}");
        assert!(is_unused(&producer.gathering));
        let producer = with(settings(&[]), producer);
        producer.append(&[message()]).await.unwrap_err();
        assert!(!is_unused(&producer.gathering));
        producer.close().await;

        let producer = with(settings(&[]), Producer::new(settings(&[])).unwrap());
        producer.close().await;
        let error = producer.append(&[message()]).await.unwrap_err();
        assert!(matches!(error, LogError::Unavailable(_)), "{error}");
        assert!(matches!(*producer.gathering.state.read(), State::Closed));
    }

    #[tokio::test]
    async fn a_producer_is_stuck_when_nothing_is_confirmed_since_an_append_began() {
        let client =
            Client::new(&settings(&[]), LaneKind::Prompt, Duration::from_secs(3600)).unwrap();
        let began = client.created + Duration::from_millis(10);
        assert!(!client.is_stuck_since(began), "it still may take its time");
        *client.confirmed.lock() = Some(began);
        assert!(!client.is_stuck_since(began), "others were confirmed");
        *client.confirmed.lock() = Some(began - Duration::from_millis(1));
        assert!(client.is_stuck_since(began));
        assert_eq!(client.next_confirm_timeout(Duration::from_secs(5)), Duration::from_secs(5));
    }

    #[test]
    fn a_wrong_property_is_named_and_its_value_is_not() {
        for (name, value) in [("sasl.pasword", "hidden"), ("security.protocol", "hidden")] {
            let error = Producer::new(settings(&[(name, value)])).err().unwrap().to_string();
            assert!(error.contains(name) && !error.contains("hidden"), "{error}");
        }
    }
}
