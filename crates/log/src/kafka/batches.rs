//! Consumes from Kafka in batches. Each partition has its own queue in librdkafka, which stops
//! fetching the partition while the queue is full. So a slow batch of one partition delays no
//! other, no fetched message is dropped, and errors name their partition.
//!
//! Assigned partitions are held immediately, so that the group does not wait. Fetching starts once
//! the cluster has described the partition and the store has its position. Neither blocks: a
//! partition without them delays no other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc as blocking;
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::consumer::Consumer as _;
use rdkafka::consumer::base_consumer::PartitionQueue;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::member::{Member, Rebalancer, TICK, explain, owned};
use super::producer::Producer;
use super::{RESPONSE_TIMEOUT, Settings, describe};
use crate::batch::Fetched;
use crate::consumer::Consumer;
use crate::cursors::{ConsumerStatus, Cursors, Limits, TopicOffsets};
use crate::message::{LogError, Message, Topic};
use crate::offsets::GroupOffset;
use store::Store;

/// Payload bytes that librdkafka may hold for all partitions of a topic, if one consumer has them
/// all, before it fetches as much again. Small messages take twice their payload.
const PREFETCHED_KBYTES: u32 = 12 << 10;

/// Interval between checks of the topic: fetches from a recreated topic do not fail.
const CHECK_INTERVAL: Duration = Duration::from_secs(15);

/// Interval between updates of the partitions' ends.
const ENDS_INTERVAL: Duration = Duration::from_secs(1);

/// Pause before the cluster or the store is queried again for positions.
const PAUSE: Duration = Duration::from_secs(1);

pub(super) fn open(
    settings: &Settings,
    producer: &Arc<Producer>,
    group: &str,
    topic: Topic,
    store: &Store,
    limits: Limits,
) -> Result<(Consumer, ConsumerStatus), LogError> {
    let kbytes = (PREFETCHED_KBYTES / settings.partitions.unsigned_abs().max(1)).max(64);
    let (queue, fetch) = (kbytes.to_string(), (kbytes << 10).to_string());
    let properties = [
        ("queued.max.messages.kbytes", queue.as_str()),
        ("max.partition.fetch.bytes", fetch.as_str()),
    ];
    let member = Member::join(settings, group, topic, &properties)?;
    let partitions = member.partitions.clone();
    let cursors = Arc::new(Cursors::new(group, topic, store.clone(), partitions.clone()));
    // One batch is read ahead of the consumer.
    let (sender, fetched) = mpsc::channel(1);
    let (runtime, statuses) = (Handle::current(), ConsumerStatus(cursors.clone()));
    let (producer, timeout) = (producer.clone(), settings.timeout);
    let membership = member.spawn(move |member| {
        let poller = Poller {
            held: BTreeMap::new(),
            member,
            producer,
            topic,
            limits,
            cursors,
            sender,
            runtime,
            last: -1,
            pending: None,
            query_at: Instant::now(),
            check_at: Instant::now() + CHECK_INTERVAL,
            ends_at: Instant::now(),
            unreachable_since: None,
            timeout,
        };
        poller.run();
    })?;
    let source = Box::new(membership);
    Ok((Consumer::new(group, topic, limits.in_flight, fetched, partitions, source), statuses))
}

struct Poller {
    held: BTreeMap<i32, Held>,
    member: Member,
    /// Its client queries the cluster; the member's own client ends with this thread.
    producer: Arc<Producer>,
    topic: Topic,
    limits: Limits,
    cursors: Arc<Cursors>,
    sender: mpsc::Sender<Result<Fetched, LogError>>,
    runtime: Handle,
    /// The partition read last.
    last: i32,
    /// A query in progress, and the positions before it.
    pending: Option<(BTreeMap<i32, GroupOffset>, PendingOffsets)>,
    query_at: Instant,
    check_at: Instant,
    ends_at: Instant,
    /// When this client lost its last broker; none once one has answered.
    unreachable_since: Option<Instant>,
    /// The time limit of an append, after which producers are replaced, too.
    timeout: Duration,
}

/// The topic's content; closed without a value if it could not be read.
type PendingOffsets = blocking::Receiver<TopicOffsets>;

/// A partition assigned to this member.
struct Held {
    queue: PartitionQueue<Rebalancer>,
    /// The epoch for which it is fetched; none before.
    fetched: Option<u64>,
}

impl Poller {
    fn run(mut self) {
        while self.member.stopping().is_none()
            && !self.sender.is_closed()
            && self.serve()
            && self.reaches_brokers()
        {
            if let Some(assigned) = self.member.take_assigned() {
                self.hold(assigned);
            }
            self.held.retain(|partition, _| self.member.partitions.epoch(*partition).is_some());
            self.query_offsets();
            if !self.fetch() {
                break;
            }
            if !self.read() {
                thread::park_timeout(TICK);
            }
            self.note_ends();
            self.member.commit_if_due();
        }
        // The queues keep the client alive, and it leaves the group only when the last one is
        // dropped.
        self.held.clear();
        self.member.finish();
    }

    /// Handles the group's events, up to an assignment; `false` once this client is unusable.
    fn serve(&mut self) -> bool {
        while let Some(event) = self.member.client.poll(Duration::ZERO) {
            let Err(error) = event else {
                // Each partition gets its queue before it is fetched.
                tracing::error!(
                    "message arrived outside its partition's queue; restarting the consumer"
                );
                return false;
            };
            if error.rdkafka_error_code() == Some(RDKafkaErrorCode::AllBrokersDown) {
                self.unreachable_since.get_or_insert_with(Instant::now);
            }
            let (error, fatal) = explain(error);
            // If the channel is full, the consumer has messages to work on.
            let _ = self.sender.try_send(Err(error));
            if fatal {
                return false;
            }
        }
        true
    }

    /// Whether a broker is connected, or was recently. librdkafka reads certificates, keys and
    /// passwords only once: a client whose credentials were renewed must be replaced.
    fn reaches_brokers(&mut self) -> bool {
        if self.unreachable_since.is_none_or(|since| since.elapsed() < self.timeout) {
            return true;
        }
        self.unreachable_since = None;
        // While no broker is connected, the thread has nothing else to do.
        let response =
            self.member.client.fetch_metadata(Some(&self.member.topic), RESPONSE_TIMEOUT);
        response.inspect_err(|error| tracing::warn!(%error, "replacing the Kafka consumer")).is_ok()
    }

    /// Holds partitions that were assigned and not revoked since.
    fn hold(&mut self, mut assigned: Vec<i32>) {
        assigned.retain(|partition| self.member.partitions.epoch(*partition).is_some());
        for partition in &assigned {
            // Must happen before the same partition gets a new one.
            self.held.remove(partition);
            let queue = self.member.client.split_partition_queue(&self.member.topic, *partition);
            if let Some(mut queue) = queue {
                let polling = thread::current();
                queue.set_nonempty_callback(move || polling.unpark());
                self.held.insert(*partition, Held { queue, fetched: None });
            }
        }
        self.member.hold(&assigned);
        self.query_at = Instant::now();
    }

    /// Queries the cluster and the store for the positions of the partitions that have not started;
    /// regularly also of all, to check that they can continue. One query at a time, in its own
    /// task: a response can take long, and database work must not be dropped when this thread
    /// stops.
    fn query_offsets(&mut self) {
        let now = Instant::now();
        if let Some((before, pending)) = &self.pending {
            match pending.try_recv() {
                Err(blocking::TryRecvError::Empty) => return,
                Ok(topic_offsets) => self.cursors.compare(before, &topic_offsets),
                Err(blocking::TryRecvError::Disconnected) => {}
            }
            self.pending = None;
            self.query_at = now + PAUSE;
        }
        let waiting = self.cursors.assigned();
        let requested: Vec<i32> = if now >= self.check_at {
            self.check_at = now + CHECK_INTERVAL;
            self.held.keys().copied().collect()
        } else if now >= self.query_at {
            waiting.iter().map(|(partition, _)| *partition).collect()
        } else {
            return;
        };
        if !requested.is_empty() {
            self.pending = Some((self.cursors.positions(), self.begin(requested, waiting)));
        }
    }

    fn begin(&self, requested: Vec<i32>, waiting: Vec<(i32, u64)>) -> PendingOffsets {
        let (producer, topic) = (self.producer.clone(), self.member.topic.clone());
        let (cursors, polling) = (self.cursors.clone(), thread::current());
        let partitions = self.member.partitions.clone();
        let (sender, pending) = blocking::channel();
        self.runtime.spawn(async move {
            // A revoked partition is not waited for.
            let is_requested = move |partition| {
                requested.contains(&partition) && partitions.epoch(partition).is_some()
            };
            let topic_offsets = tokio::task::spawn_blocking(move || {
                producer.known_topic_offsets(&topic, is_requested)
            });
            let begun = async {
                let topic_offsets =
                    topic_offsets.await.unwrap_or_else(|_| Err(LogError::closed()))?;
                cursors.begin(&waiting, &topic_offsets).await.map(|()| topic_offsets)
            };
            match begun.await {
                Ok(topic_offsets) => _ = sender.send(topic_offsets),
                Err(error) => {
                    tracing::warn!(%error, "cannot read the partitions' positions; retrying");
                    drop(sender);
                }
            }
            polling.unpark();
        });
        pending
    }

    /// Starts fetching the partitions whose position is known by now; `false` once this client is
    /// unusable.
    fn fetch(&mut self) -> bool {
        let mut from = Vec::new();
        for (partition, held) in &mut self.held {
            let Some((epoch, start)) = self.cursors.start(*partition) else { continue };
            if held.fetched != Some(epoch) {
                held.fetched = Some(epoch);
                from.push((*partition, start));
            }
        }
        let fetched = if from.is_empty() { Ok(()) } else { self.member.fetch(&from) };
        fetched
            .inspect_err(|error| tracing::error!(%error, "cannot fetch; restarting the consumer"))
            .is_ok()
    }

    /// Reads a batch of each ready partition while there is room; returns whether there was any.
    fn read(&mut self) -> bool {
        let mut has_read = false;
        for ready in self.cursors.ready(self.last) {
            let Ok(permit) = self.sender.try_reserve() else { break };
            let (messages, error) = match self.held.get(&ready.partition) {
                Some(held) if held.fetched == Some(ready.epoch) => {
                    take(&held.queue, self.topic, self.limits)
                }
                _ => continue,
            };
            match self.cursors.build_batch(ready, messages) {
                Some(batch) => {
                    self.last = ready.partition;
                    permit.send(Ok(batch));
                    has_read = true;
                }
                None => drop(permit),
            }
            if let Some(error) = error {
                self.failed(ready.partition, &error);
            }
        }
        has_read
    }

    /// An offset out of range stops fetching its partition; other errors are temporary.
    fn failed(&mut self, partition: i32, error: &KafkaError) {
        tracing::warn!(partition, %error, "cannot read a partition");
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::AutoOffsetReset) {
            self.cursors.stop(partition, "the log returned no message at this offset or after it");
            // The topic may have changed, so check it now.
            self.check_at = Instant::now();
        }
    }

    /// Records the partitions' ends from their latest fetches.
    fn note_ends(&mut self) {
        if Instant::now() < self.ends_at {
            return;
        }
        self.ends_at = Instant::now() + ENDS_INTERVAL;
        for partition in self.held.keys() {
            let client = self.member.client.client();
            if let Some(end) = describe::known_end(client, &self.member.topic, *partition) {
                self.cursors.set_end(*partition, end);
            }
        }
    }
}

/// Reads the messages in a queue, up to the limits, and an error that ended them.
fn take(
    queue: &PartitionQueue<Rebalancer>,
    topic: Topic,
    limits: Limits,
) -> (Vec<Message>, Option<KafkaError>) {
    let (mut messages, mut bytes) = (Vec::new(), 0);
    while messages.len() < limits.messages && bytes < limits.bytes {
        match queue.poll(Duration::ZERO) {
            Some(Ok(message)) => {
                let message = owned(&message, topic);
                bytes += message.payload.len();
                messages.push(message);
            }
            Some(Err(error)) => return (messages, Some(error)),
            None => break,
        }
    }
    (messages, None)
}
