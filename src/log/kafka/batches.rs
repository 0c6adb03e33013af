//! Consumes from Kafka in batches: each partition has a queue of its own in librdkafka,
//! which fetches no more of it while the queue is full. So a partition whose batch takes long
//! holds up no other, nothing that was fetched is thrown away, and errors name their partition.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc as blocking;
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::consumer::Consumer as _;
use rdkafka::consumer::base_consumer::PartitionQueue;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{Offset, TopicPartitionList};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::member::{Member, Offsets, Rebalancer, TICK, explain, owned};
use super::{Settings, describe};
use crate::log::batches::{Batch, Cursors, Extent, Limits, Standings};
use crate::log::consumer::{Consumer, Fetched, Source};
use crate::log::{LogError, Message, Topic};
use crate::store::Store;

/// Payloads that librdkafka may hold of all partitions of a topic, should one consumer have
/// them all, before it asks for as much again. Small messages take twice their payload.
const PREFETCHED_KBYTES: u32 = 12 << 10;

/// Between looks at the topic: one that was made anew answers fetches as if nothing was.
const LOOK_EVERY: Duration = Duration::from_secs(15);

/// Between looks at where the partitions end.
const ENDS_EVERY: Duration = Duration::from_secs(1);

/// Before the cluster or the store is asked again where partitions go on.
const PAUSE: Duration = Duration::from_secs(1);

pub(super) fn open(
    settings: &Settings,
    group: &str,
    topic: Topic,
    store: &Store,
    limits: Limits,
) -> Result<(Consumer<Batch>, Standings), LogError> {
    let kbytes = (PREFETCHED_KBYTES / settings.partitions.unsigned_abs().max(1)).max(64);
    let (queue, fetch) = (kbytes.to_string(), (kbytes << 10).to_string());
    let properties = [
        ("queued.max.messages.kbytes", queue.as_str()),
        ("max.partition.fetch.bytes", fetch.as_str()),
    ];
    let member = Member::join(settings, group, topic, Offsets::Elsewhere, &properties)?;
    let partitions = member.partitions.clone();
    let cursors = Arc::new(Cursors::new(group, topic, store.clone(), partitions.clone()));
    // One batch is read ahead of those who take them.
    let (sender, fetched) = mpsc::channel(1);
    let (runtime, standings) = (Handle::current(), Standings(cursors.clone()));
    let membership = member.spawn(move |member| {
        let poller = Poller {
            queues: BTreeMap::new(),
            member,
            topic,
            limits,
            cursors,
            sender,
            runtime,
            last: -1,
            look_at: Instant::now() + LOOK_EVERY,
            ends_at: Instant::now(),
        };
        poller.run();
    })?;
    let source = Source::Kafka(membership);
    Ok((Consumer::new(group, topic, limits.in_flight, fetched, partitions, source), standings))
}

struct Poller {
    queues: BTreeMap<i32, PartitionQueue<Rebalancer>>,
    member: Member,
    topic: Topic,
    limits: Limits,
    cursors: Arc<Cursors>,
    sender: mpsc::Sender<Result<Fetched<Batch>, LogError>>,
    runtime: Handle,
    /// The partition read last.
    last: i32,
    look_at: Instant,
    ends_at: Instant,
}

impl Poller {
    fn run(mut self) {
        while self.member.stopping().is_none() && !self.sender.is_closed() && self.serve() {
            if self.member.take_assigned() {
                self.begin();
            }
            self.queues.retain(|partition, _| self.member.partitions.epoch(*partition).is_some());
            if !self.read() {
                thread::park_timeout(TICK);
            }
            self.look();
            self.member.commit_if_due();
        }
        // They hold on to the client, and it leaves the group when the last one lets go.
        self.queues.clear();
        self.member.finish();
    }

    /// Serves the group's events, up to one that assigns; `false` once this client can do no
    /// more.
    fn serve(&self) -> bool {
        while let Some(event) = self.member.client.poll(Duration::ZERO) {
            let Err(error) = event else {
                // Each partition was given its queue before it was fetched.
                tracing::error!("a message came beside its partition's queue: consuming anew");
                return false;
            };
            let (error, fatal) = explain(error);
            // Who has no room for it has messages to work on.
            let _ = self.sender.try_send(Err(error));
            if fatal {
                return false;
            }
        }
        true
    }

    /// Has the partitions that were assigned fetched from where the store says. The group's
    /// events wait meanwhile, as they would in its callback.
    fn begin(&mut self) {
        let assigned = self.cursors.assigned();
        while let Err(error) = self.ask(&assigned) {
            tracing::warn!(%error, "waiting to know where the partitions go on");
            thread::park_timeout(PAUSE);
            if self.member.stopping().is_some() || self.sender.is_closed() {
                break;
            }
        }
        let mut list = TopicPartitionList::with_capacity(assigned.len());
        let mut stopped = TopicPartitionList::new();
        for (partition, _) in assigned {
            let queue = self.member.client.split_partition_queue(&self.member.topic, partition);
            if let Some(mut queue) = queue {
                let polling = thread::current();
                queue.set_nonempty_callback(move || polling.unpark());
                self.queues.insert(partition, queue);
            }
            let start = self.cursors.start(partition);
            let offset = start.map_or(Offset::End, Offset::Offset);
            // The only error is an offset that none can be.
            let _ = list.add_partition_offset(&self.member.topic, partition, offset);
            if start.is_none() {
                stopped.add_partition(&self.member.topic, partition);
            }
        }
        self.member.assign(&list);
        if stopped.count() > 0
            && let Err(error) = self.member.client.pause(&stopped)
        {
            tracing::debug!(%error, "a stopped partition is fetched, and nobody reads it");
        }
    }

    /// Asks the cluster what it has of the partitions, and the store where they go on.
    fn ask(&self, assigned: &[(i32, u64)]) -> Result<(), LogError> {
        if assigned.is_empty() {
            return Ok(());
        }
        let extent = self.extent(assigned.iter().map(|(partition, _)| *partition))?;
        let (cursors, assigned) = (self.cursors.clone(), assigned.to_vec());
        let (sender, answer) = blocking::channel();
        // In a task of its own: database work is not dropped when this thread must stop.
        self.runtime.spawn(async move {
            let _ = sender.send(cursors.begin(&assigned, &extent).await);
        });
        loop {
            match answer.recv_timeout(TICK) {
                Ok(begun) => return begun,
                Err(blocking::RecvTimeoutError::Timeout) if self.member.stopping().is_none() => {}
                Err(_) => return Err(LogError::closed()),
            }
        }
    }

    fn extent(&self, partitions: impl IntoIterator<Item = i32>) -> Result<Extent, LogError> {
        describe::extent(self.member.client.client(), &self.member.topic, partitions)
    }

    /// Reads a batch of each partition that is ready, as far as there is room; whether there
    /// was any.
    fn read(&mut self) -> bool {
        let mut any = false;
        for wanting in self.cursors.wanting(self.last) {
            let Ok(room) = self.sender.try_reserve() else { break };
            let (messages, error) = match self.queues.get(&wanting.partition) {
                Some(queue) => take(queue, self.topic, self.limits),
                None => continue,
            };
            if let Some(batch) = self.cursors.give_out(wanting, messages) {
                self.last = wanting.partition;
                room.send(Ok(batch));
                any = true;
            }
            if let Some(error) = error {
                self.failed(wanting.partition, &error);
            }
        }
        any
    }

    /// An offset that is out of range ends the fetching of its partition; other errors pass.
    fn failed(&self, partition: i32, error: &KafkaError) {
        tracing::warn!(partition, %error, "a partition could not be read");
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::AutoOffsetReset) {
            if let Ok(extent) = self.extent(self.queues.keys().copied()) {
                self.cursors.compare(&extent);
            }
            self.cursors.stop(partition, "the log gives nothing from there on");
        }
    }

    /// Looks now and then whether the topic is still the same one, and where it ends.
    fn look(&mut self) {
        let now = Instant::now();
        if now >= self.ends_at {
            self.ends_at = now + ENDS_EVERY;
            for partition in self.queues.keys() {
                let client = self.member.client.client();
                if let Some(end) = describe::known_end(client, &self.member.topic, *partition) {
                    self.cursors.set_end(*partition, end);
                }
            }
        }
        if now >= self.look_at && !self.queues.is_empty() {
            self.look_at = now + LOOK_EVERY;
            match self.extent(self.queues.keys().copied()) {
                Ok(extent) => self.cursors.compare(&extent),
                Err(error) => tracing::debug!(%error, "the topic could not be looked at"),
            }
        }
    }
}

/// What waits in a queue, up to the limits; and an error that came instead of more.
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
