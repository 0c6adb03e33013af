//! A member of a consumer group: follows its assignments, commits, and leaves.
//!
//! Offsets are committed explicitly, each the offset of the next message to read.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rdkafka::consumer::{
    BaseConsumer, CommitMode, Consumer as _, ConsumerContext, RebalanceProtocol,
};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers as _, Message as _, Timestamp};
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{ClientConfig, ClientContext, Offset, Statistics, TopicPartitionList};
use tokio::sync::oneshot;

use super::{MAX_BATCH_BYTES, REQUEST_ID, Settings, Tracing, create, unavailable};
use crate::consumer::Source;
use crate::message::{COMMIT_INTERVAL, LogError, Message, REVOKE_WAIT, Topic};
use crate::partitions::Partitions;

/// The maximum time that the thread waits without checking for other work.
pub(super) const TICK: Duration = Duration::from_millis(100);

/// The consumer's handle to the polling thread; when dropped, the thread stops immediately.
pub struct Membership {
    stop_by: Arc<Mutex<Option<Instant>>>,
    thread: Thread,
    ended: Option<oneshot::Receiver<()>>,
}

impl Source for Membership {
    fn wake(&self) {
        self.thread.unpark();
    }

    fn drain(
        mut self: Box<Self>,
        _: Arc<Partitions>,
        deadline: Duration,
    ) -> BoxFuture<'static, ()> {
        self.stop(Instant::now() + deadline);
        let ended = self.ended.take();
        async move {
            if let Some(ended) = ended {
                // Unreachable brokers must not delay the stop.
                let _ = tokio::time::timeout(deadline + REVOKE_WAIT, ended).await;
            }
            drop(self);
        }
        .boxed()
    }
}

impl Membership {
    fn stop(&self, by: Instant) {
        self.stop_by.lock().get_or_insert(by);
        self.thread.unpark();
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.stop(Instant::now());
    }
}

/// A member of a consumer group, for the thread that polls.
pub(super) struct Member {
    /// Nothing that outlives it shares it: when dropped, it leaves the group.
    pub client: Arc<BaseConsumer<Rebalancer>>,
    pub partitions: Arc<Partitions>,
    /// The topic's name in Kafka.
    pub topic: String,
    stop_by: Arc<Mutex<Option<Instant>>>,
    thread: Arc<OnceLock<Thread>>,
    commit_at: Instant,
}

impl Member {
    /// Subscribes to `topic`; `properties` override the usual ones.
    pub fn join(
        settings: &Settings,
        group: &str,
        topic: Topic,
        properties: &[(&str, &str)],
    ) -> Result<Self, LogError> {
        let thread = Arc::new(OnceLock::<Thread>::new());
        let polling = thread.clone();
        let on_finish = move || polling.get().into_iter().for_each(Thread::unpark);
        let partitions = Arc::new(Partitions::new(on_finish));
        let stop_by = Arc::new(Mutex::new(None));
        let group_id = settings.group(group);
        let rebalancer = Rebalancer {
            partitions: partitions.clone(),
            assigned: Mutex::default(),
            committing: AtomicBool::new(false),
            stop_by: stop_by.clone(),
        };
        let config = config(settings, &group_id, properties);
        let client: BaseConsumer<Rebalancer> = create(&config, rebalancer)?;
        let topic = settings.topic(topic);
        client.subscribe(&[&topic]).map_err(unavailable)?;
        let client = Arc::new(client);
        Ok(Self { client, partitions, topic, stop_by, thread, commit_at: Instant::now() })
    }

    /// Starts a thread for `poll`, which must end with [`finish`](Self::finish).
    pub fn spawn(self, poll: impl FnOnce(Self) + Send + 'static) -> Result<Membership, LogError> {
        let (stop_by, polling) = (self.stop_by.clone(), self.thread.clone());
        let (end, ended) = oneshot::channel();
        let thread = thread::Builder::new()
            .name("kafka-consumer".into())
            .spawn(move || {
                polling.get_or_init(thread::current);
                poll(self);
                let _ = end.send(());
            })
            .map_err(|error| LogError::Unavailable(format!("cannot start a thread: {error}")))?;
        Ok(Membership { stop_by, thread: thread.thread().clone(), ended: Some(ended) })
    }

    /// The deadline to stop, once a stop was requested.
    pub fn stopping(&self) -> Option<Instant> {
        *self.stop_by.lock()
    }

    /// The newly assigned partitions, if any, which must be passed to [`hold`](Self::hold).
    pub fn take_assigned(&self) -> Option<Vec<i32>> {
        let context = self.client.context();
        context.assigned.lock().take()
    }

    /// Accepts assigned partitions without fetching them. They already have their own queues, so
    /// librdkafka knows them; paused first, they are never fetched. The offset must be a number,
    /// although it is not used: a logical offset would be resolved, possibly after
    /// [`fetch`](Self::fetch), and then be used.
    pub fn hold(&self, partitions: &[i32]) {
        let mut list = TopicPartitionList::with_capacity(partitions.len());
        for partition in partitions {
            // It can only fail for an invalid offset.
            let _ = list.add_partition_offset(&self.topic, *partition, Offset::Offset(0));
        }
        if let Err(error) = self.client.pause(&list) {
            tracing::debug!(%error, "fetched partitions before a reader was ready");
        }
        follow(&self.client, &list);
    }

    /// Fetches held partitions, each from an offset on, whatever was fetched before.
    pub fn fetch(&self, from: &[(i32, i64)]) -> KafkaResult<()> {
        let mut list = TopicPartitionList::with_capacity(from.len());
        for (partition, offset) in from {
            list.add_partition_offset(&self.topic, *partition, Offset::Offset(*offset))?;
        }
        self.client.incremental_unassign(&list)?;
        self.client.incremental_assign(&list)?;
        self.client.resume(&list)
    }

    pub fn commit_if_due(&mut self) {
        let committing = &self.client.context().committing;
        if Instant::now() < self.commit_at || committing.load(Ordering::Acquire) {
            return;
        }
        self.commit_at = Instant::now() + COMMIT_INTERVAL;
        let positions = self.partitions.to_commit();
        if positions.is_empty() {
            return;
        }
        committing.store(true, Ordering::Release);
        if let Err(error) = commit(&self.client, &positions, CommitMode::Async) {
            self.client.context().committing.store(false, Ordering::Release);
            tracing::warn!(%error, "cannot commit offsets; retrying");
        }
    }

    /// Waits for running work, still polling, commits and leaves the group.
    pub fn finish(self) {
        self.partitions.stop_all();
        let _ = self.client.assignment().and_then(|list| self.client.pause(&list));
        let by = *self.stop_by.lock().get_or_insert_with(Instant::now);
        while self.partitions.any_busy() && Instant::now() < by {
            let _ = self.client.poll(TICK / 5);
        }
        commit_now(&self.client, &self.partitions);
    }
}

fn config(settings: &Settings, group: &str, properties: &[(&str, &str)]) -> ClientConfig {
    let receive = (MAX_BATCH_BYTES * 4).to_string();
    let usual = [
        ("fetch.max.bytes", receive.as_str()),
        ("fetch.wait.max.ms", "100"),
        ("session.timeout.ms", "10000"),
        ("heartbeat.interval.ms", "2000"),
    ];
    let fixed = [
        ("group.id", group),
        // The other strategies stop all partitions whenever one moves or starts later.
        ("partition.assignment.strategy", "cooperative-sticky"),
        ("enable.auto.commit", "false"),
        ("enable.auto.offset.store", "false"),
        ("auto.offset.reset", "error"),
    ];
    settings.client(&[&usual, properties].concat(), &fixed)
}

/// Follows the group's assignments, on the polling thread.
pub(super) struct Rebalancer {
    partitions: Arc<Partitions>,
    /// An assignment waiting for [`Member::hold`].
    assigned: Mutex<Option<Vec<i32>>>,
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
        if matches!(error, RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) {
            let numbers = numbers(list);
            for partition in &numbers {
                self.partitions.assign(*partition);
            }
            // A leaving member accepts no assignment.
            if self.stopping().is_none() {
                *self.assigned.lock() = Some(numbers);
            } else {
                follow(client, list);
            }
            return;
        }
        self.revoke(client, &numbers(list));
        let unassigned = match client.rebalance_protocol() {
            RebalanceProtocol::Cooperative => client.incremental_unassign(list),
            _ => client.unassign(),
        };
        if let Err(error) = unassigned {
            tracing::error!(%error, "cannot release partitions");
        }
    }

    fn commit_callback(&self, result: KafkaResult<()>, offsets: &TopicPartitionList) {
        self.committing.store(false, Ordering::Release);
        match result {
            Ok(()) => self.partitions.committed(&positions(offsets)),
            Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::NoOffset)) => {}
            Err(error) => tracing::warn!(%error, "cannot commit offsets; retrying"),
        }
    }
}

impl Rebalancer {
    fn stopping(&self) -> Option<Instant> {
        *self.stop_by.lock()
    }

    /// Revokes partitions: stops reading them, waits for running work, commits.
    fn revoke(&self, client: &BaseConsumer<Self>, revoked: &[i32]) {
        self.partitions.stop(revoked);
        // Other members may already have lost partitions; waiting and committing would be too late.
        if !client.assignment_lost() {
            let deadline = Instant::now() + REVOKE_WAIT;
            let by = self.stopping().map_or(deadline, |by| by.min(deadline));
            self.partitions.wait_idle(revoked, by);
            commit_now(client, &self.partitions);
        }
        for partition in revoked {
            self.partitions.revoke(*partition);
        }
    }
}

/// Has librdkafka fetch what the group assigned.
fn follow(client: &BaseConsumer<Rebalancer>, list: &TopicPartitionList) {
    let assigned = match client.rebalance_protocol() {
        RebalanceProtocol::Cooperative => client.incremental_assign(list),
        _ => client.assign(list),
    };
    if let Err(error) = assigned {
        tracing::error!(%error, "cannot apply the group's new assignment");
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

/// Commits done work and waits for the response.
fn commit_now(client: &BaseConsumer<Rebalancer>, partitions: &Partitions) {
    let positions = partitions.to_commit();
    let result = commit(client, &positions, CommitMode::Sync);
    match result {
        Ok(()) => partitions.committed(&positions),
        Err(error) => tracing::warn!(%error, "cannot commit offsets; messages will be processed \
                                              again"),
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

/// Converts an error for the consumer, and returns whether this client is unusable.
pub(super) fn explain(error: KafkaError) -> (LogError, bool) {
    let fatal = matches!(error, KafkaError::MessageConsumptionFatal(_));
    let error = match error.rdkafka_error_code() {
        Some(RDKafkaErrorCode::UnknownTopic | RDKafkaErrorCode::UnknownTopicOrPartition) => {
            LogError::Unavailable("the topic does not exist: run `longshore migrate`".into())
        }
        _ => unavailable(error),
    };
    (error, fatal)
}

pub(super) fn owned(message: &BorrowedMessage<'_>, topic: Topic) -> Message {
    let request_id = message
        .headers()
        .and_then(|headers| headers.iter().find(|header| header.key == REQUEST_ID))
        .and_then(|header| header.value)
        .map_or_else(String::new, |value| String::from_utf8_lossy(value).into_owned());
    let time = message.timestamp();
    Message {
        topic,
        partition: message.partition(),
        offset: message.offset(),
        appended_at: time.to_millis().unwrap_or(0),
        log_time: match time {
            Timestamp::LogAppendTime(ms) => Some(ms),
            Timestamp::CreateTime(_) | Timestamp::NotAvailable => None,
        },
        key: message.key().unwrap_or_default().to_vec(),
        payload: message.payload().unwrap_or_default().to_vec(),
        request_id,
    }
}
