//! Consumes from Kafka: a thread polls and hands messages over, works on none itself, and
//! goes on polling while the workers are busy, so that the group never misses it.
//!
//! Offsets are committed explicitly, each the offset of the next message to read.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rdkafka::consumer::{
    BaseConsumer, CommitMode, Consumer as _, ConsumerContext, RebalanceProtocol,
};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers as _, Message as _};
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{ClientContext, Offset, Statistics, TopicPartitionList};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot, watch};

use super::{MAX_BATCH_BYTES, QUEUE_KBYTES, REQUEST_ID, Settings, Tracing, create, unavailable};
use crate::log::consumer::{Consumer, Fetched, Source};
use crate::log::ordered::Partitions;
use crate::log::{COMMIT_EVERY, LogError, Message, REVOKE_WAIT, Topic};

/// The longest that the thread waits for anything before it looks around.
const TICK: Duration = Duration::from_millis(100);

/// How long the workers may leave the hand-over full before the partitions are paused:
/// pausing throws away what librdkafka has fetched, so short waits are sat out.
const STALL: Duration = Duration::from_secs(1);

/// Messages waiting to be taken, beside those under way.
const HAND_OVER: usize = 64;

/// What the consumer side has of the polling thread; dropped, the thread stops at once.
pub struct Membership {
    stop_by: Arc<Mutex<Option<Instant>>>,
    thread: Thread,
    ended: Option<oneshot::Receiver<()>>,
}

impl Membership {
    /// Says that a message was taken, so there is room for another.
    pub fn wake(&self) {
        self.thread.unpark();
    }

    fn stop(&self, by: Instant) {
        self.stop_by.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(by);
        self.thread.unpark();
    }

    /// Takes no more, waits up to `deadline` for what is under way, commits and leaves.
    pub async fn drain(mut self, deadline: Duration) {
        self.stop(Instant::now() + deadline);
        if let Some(ended) = self.ended.take() {
            // Brokers that are gone must not hold up whoever stops.
            let _ = tokio::time::timeout(deadline + REVOKE_WAIT, ended).await;
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.stop(Instant::now());
    }
}

pub(super) fn open(
    settings: &Settings,
    group: &str,
    topic: Topic,
    in_flight: usize,
) -> Result<Consumer, LogError> {
    let partitions = Arc::new(Partitions::new(watch::Sender::new(())));
    let stop_by = Arc::new(Mutex::new(None));
    let group_id = format!("{}{group}", settings.topic_prefix);
    let rebalancer = Rebalancer {
        partitions: partitions.clone(),
        committing: AtomicBool::new(false),
        stop_by: stop_by.clone(),
    };
    let client: BaseConsumer<Rebalancer> = create(&client(settings, &group_id), rebalancer)?;
    client.subscribe(&[&settings.topic(topic)]).map_err(unavailable)?;
    let (sender, fetched) = mpsc::channel(in_flight.clamp(1, HAND_OVER));
    let (end, ended) = oneshot::channel();
    let poller = Poller {
        client,
        topic,
        partitions: partitions.clone(),
        sender,
        waiting: VecDeque::new(),
        stop_by: stop_by.clone(),
        full_since: None,
        paused: false,
        commit_at: Instant::now(),
    };
    let thread = thread::Builder::new()
        .name("kafka-consumer".into())
        .spawn(move || {
            poller.run();
            let _ = end.send(());
        })
        .map_err(|error| LogError::Unavailable(format!("no thread could be started: {error}")))?;
    let membership = Membership { stop_by, thread: thread.thread().clone(), ended: Some(ended) };
    let source = Source::Kafka(membership);
    Ok(Consumer::new(group, topic, in_flight, fetched, partitions, source))
}

fn client(settings: &Settings, group: &str) -> rdkafka::ClientConfig {
    let receive = (MAX_BATCH_BYTES * 4).to_string();
    let defaults = [
        ("partition.assignment.strategy", "cooperative-sticky"),
        ("queued.max.messages.kbytes", QUEUE_KBYTES),
        ("fetch.max.bytes", receive.as_str()),
        ("fetch.wait.max.ms", "100"),
        ("session.timeout.ms", "10000"),
        ("heartbeat.interval.ms", "2000"),
    ];
    let fixed = [
        ("group.id", group),
        ("enable.auto.commit", "false"),
        ("enable.auto.offset.store", "false"),
        ("auto.offset.reset", "earliest"),
    ];
    settings.client(&defaults, &fixed)
}

/// Follows the group's assignments, on the polling thread.
struct Rebalancer {
    partitions: Arc<Partitions>,
    committing: AtomicBool,
    stop_by: Arc<Mutex<Option<Instant>>>,
}

impl ClientContext for Rebalancer {
    fn log(&self, level: rdkafka::config::RDKafkaLogLevel, facility: &str, text: &str) {
        Tracing.log(level, facility, text);
    }

    fn stats(&self, _: Statistics) {}

    fn error(&self, error: KafkaError, reason: &str) {
        Tracing.error(error, reason);
    }
}

impl ConsumerContext for Rebalancer {
    fn rebalance(
        &self,
        client: &BaseConsumer<Self>,
        error: RDKafkaRespErr,
        list: &mut TopicPartitionList,
    ) {
        let cooperative = matches!(client.rebalance_protocol(), RebalanceProtocol::Cooperative);
        let result = match error {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => {
                for partition in numbers(list) {
                    self.partitions.assign(partition);
                }
                if cooperative { client.incremental_assign(list) } else { client.assign(list) }
            }
            _ => {
                self.revoke(client, &numbers(list));
                if cooperative { client.incremental_unassign(list) } else { client.unassign() }
            }
        };
        if let Err(error) = result {
            tracing::error!(%error, "the group's assignment could not be followed");
        }
    }

    fn commit_callback(&self, result: KafkaResult<()>, offsets: &TopicPartitionList) {
        self.committing.store(false, Ordering::Release);
        match result {
            Ok(()) => self.partitions.committed(&positions(offsets)),
            Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::NoOffset)) => {}
            Err(error) => tracing::warn!(%error, "offsets could not be committed yet"),
        }
    }
}

impl Rebalancer {
    /// Lets partitions go: gives out no more of them, waits for what is under way, commits.
    fn revoke(&self, client: &BaseConsumer<Self>, revoked: &[i32]) {
        self.partitions.stop(revoked);
        // Others may have lost ones already: waiting and committing would come too late.
        if !client.assignment_lost() {
            let patience = Instant::now() + REVOKE_WAIT;
            let stop_by = *self.stop_by.lock().unwrap_or_else(PoisonError::into_inner);
            self.partitions.wait_idle(revoked, stop_by.map_or(patience, |by| by.min(patience)));
            commit_now(client, &self.partitions);
        }
        for partition in revoked {
            self.partitions.revoke(*partition);
        }
    }
}

fn numbers(list: &TopicPartitionList) -> Vec<i32> {
    list.elements().iter().map(|element| element.partition()).collect()
}

fn positions(list: &TopicPartitionList) -> Vec<(i32, i64)> {
    let elements = list.elements();
    let committed = elements.iter().filter(|element| element.error().is_ok());
    committed.filter_map(|e| Some((e.partition(), e.offset().to_raw()?))).collect()
}

/// Commits what is done and waits for the answer.
fn commit_now(client: &BaseConsumer<Rebalancer>, partitions: &Partitions) {
    let positions = partitions.to_commit();
    let result = commit(client, &positions, CommitMode::Sync);
    match result {
        Ok(()) => partitions.committed(&positions),
        Err(error) => tracing::warn!(%error, "offsets were not committed: messages come again"),
    }
}

fn commit(
    client: &BaseConsumer<Rebalancer>,
    positions: &[(i32, i64)],
    mode: CommitMode,
) -> KafkaResult<()> {
    if positions.is_empty() {
        return Ok(());
    }
    let topics = client.subscription()?;
    let Some(topic) = topics.elements().first().map(|element| element.topic().to_owned()) else {
        return Ok(());
    };
    let mut list = TopicPartitionList::with_capacity(positions.len());
    for (partition, position) in positions {
        list.add_partition_offset(&topic, *partition, Offset::Offset(*position))?;
    }
    client.commit(&list, mode)
}

struct Poller {
    client: BaseConsumer<Rebalancer>,
    topic: Topic,
    partitions: Arc<Partitions>,
    sender: mpsc::Sender<Result<Fetched, LogError>>,
    /// Messages that found no room yet.
    waiting: VecDeque<Fetched>,
    stop_by: Arc<Mutex<Option<Instant>>>,
    full_since: Option<Instant>,
    paused: bool,
    commit_at: Instant,
}

impl Poller {
    fn run(mut self) {
        let mut usable = true;
        while usable && self.stopping().is_none() && !self.sender.is_closed() {
            if self.hand_over() {
                self.resume();
                usable = self.poll();
            } else if self.full_since.get_or_insert_with(Instant::now).elapsed() < STALL {
                thread::park_timeout(TICK);
            } else {
                if !self.paused {
                    self.pause();
                }
                usable = self.poll();
            }
            self.commit_if_due();
        }
        self.finish();
    }

    fn stopping(&self) -> Option<Instant> {
        *self.stop_by.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands over what waits, as far as there is room; says whether nothing waits any more.
    fn hand_over(&mut self) -> bool {
        while let Some(fetched) = self.waiting.pop_front() {
            match self.sender.try_send(Ok(fetched)) {
                Ok(()) | Err(TrySendError::Closed(_)) => {}
                Err(TrySendError::Full(unsent)) => {
                    self.waiting.extend(unsent);
                    self.waiting.rotate_right(1);
                    return false;
                }
            }
        }
        self.full_since = None;
        true
    }

    /// Takes one message or serves one event; `false` once this client can do no more.
    fn poll(&mut self) -> bool {
        match self.client.poll(TICK) {
            None => {}
            Some(Ok(message)) => {
                if let Some(epoch) = self.partitions.epoch(message.partition()) {
                    let message = owned(&message, self.topic);
                    self.waiting.push_back(Fetched { message, epoch });
                }
                if self.paused {
                    // It is of a partition that was assigned after the others were paused.
                    self.pause();
                }
            }
            Some(Err(error)) => {
                let fatal = matches!(error, KafkaError::MessageConsumptionFatal(_));
                let error = match error.rdkafka_error_code() {
                    Some(
                        RDKafkaErrorCode::UnknownTopic | RDKafkaErrorCode::UnknownTopicOrPartition,
                    ) => LogError::Unavailable(
                        "the topic does not exist: run `longshore migrate`".into(),
                    ),
                    _ => unavailable(error),
                };
                // Who has no room for it has messages to work on.
                let _ = self.sender.try_send(Err(error));
                return !fatal;
            }
        }
        true
    }

    fn pause(&mut self) {
        let paused = self.client.assignment().and_then(|list| self.client.pause(&list));
        self.paused |= paused.is_ok();
    }

    fn resume(&mut self) {
        if self.paused {
            let resumed = self.client.assignment().and_then(|list| self.client.resume(&list));
            self.paused = resumed.is_err();
        }
    }

    fn commit_if_due(&mut self) {
        let committing = &self.client.context().committing;
        if Instant::now() < self.commit_at || committing.load(Ordering::Acquire) {
            return;
        }
        self.commit_at = Instant::now() + COMMIT_EVERY;
        let positions = self.partitions.to_commit();
        if positions.is_empty() {
            return;
        }
        committing.store(true, Ordering::Release);
        if let Err(error) = commit(&self.client, &positions, CommitMode::Async) {
            self.client.context().committing.store(false, Ordering::Release);
            tracing::warn!(%error, "offsets could not be committed yet");
        }
    }

    /// Waits for what is under way, still polling, commits and leaves the group.
    fn finish(mut self) {
        self.partitions.stop_all();
        self.pause();
        let by = *self
            .stop_by
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert_with(Instant::now);
        while self.partitions.any_busy() && Instant::now() < by {
            let _ = self.client.poll(TICK / 5);
        }
        commit_now(&self.client, &self.partitions);
    }
}

fn owned(message: &BorrowedMessage<'_>, topic: Topic) -> Message {
    let request_id = message
        .headers()
        .and_then(|headers| headers.iter().find(|header| header.key == REQUEST_ID))
        .and_then(|header| header.value)
        .map_or_else(String::new, |value| String::from_utf8_lossy(value).into_owned());
    Message {
        topic,
        partition: message.partition(),
        offset: message.offset(),
        appended_at: message.timestamp().to_millis().unwrap_or(0),
        key: message.key().unwrap_or_default().to_vec(),
        payload: message.payload().unwrap_or_default().to_vec(),
        request_id,
    }
}
