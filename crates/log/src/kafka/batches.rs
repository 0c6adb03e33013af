//! Consumes from Kafka in batches: each partition has a queue of its own in librdkafka,
//! which fetches no more of it while the queue is full. So a partition whose batch takes long
//! holds up no other, nothing that was fetched is thrown away, and errors name their partition.
//!
//! What is assigned is held at once, so that the group waits for nobody; it is fetched as soon
//! as the cluster has said what it has of it, and the store where it goes on. Neither is waited
//! for: a partition of which one of them says nothing holds up no other.

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
use super::{Settings, describe};
use crate::batch::Fetched;
use crate::consumer::Consumer;
use crate::cursors::{Cursors, Extent, Limits, Standings};
use crate::message::{LogError, Message, Topic};
use crate::offsets::Place;
use store::Store;

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
    producer: &Arc<Producer>,
    group: &str,
    topic: Topic,
    store: &Store,
    limits: Limits,
) -> Result<(Consumer, Standings), LogError> {
    let kbytes = (PREFETCHED_KBYTES / settings.partitions.unsigned_abs().max(1)).max(64);
    let (queue, fetch) = (kbytes.to_string(), (kbytes << 10).to_string());
    let properties = [
        ("queued.max.messages.kbytes", queue.as_str()),
        ("max.partition.fetch.bytes", fetch.as_str()),
    ];
    let member = Member::join(settings, group, topic, &properties)?;
    let partitions = member.partitions.clone();
    let cursors = Arc::new(Cursors::new(group, topic, store.clone(), partitions.clone()));
    // One batch is read ahead of those who take them.
    let (sender, fetched) = mpsc::channel(1);
    let (runtime, standings) = (Handle::current(), Standings(cursors.clone()));
    let producer = producer.clone();
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
            answer: None,
            ask_at: Instant::now(),
            look_at: Instant::now() + LOOK_EVERY,
            ends_at: Instant::now(),
        };
        poller.run();
    })?;
    let source = Box::new(membership);
    Ok((Consumer::new(group, topic, limits.in_flight, fetched, partitions, source), standings))
}

struct Poller {
    held: BTreeMap<i32, Held>,
    member: Member,
    /// Its client is asked about the cluster: that of the member ends with this thread.
    producer: Arc<Producer>,
    topic: Topic,
    limits: Limits,
    cursors: Arc<Cursors>,
    sender: mpsc::Sender<Result<Fetched, LogError>>,
    runtime: Handle,
    /// The partition read last.
    last: i32,
    /// Of a question that is under way, and where the partitions were before it.
    answer: Option<(BTreeMap<i32, Place>, Answer)>,
    ask_at: Instant,
    look_at: Instant,
    ends_at: Instant,
}

/// What the log has; closed without it where that could not be learnt.
type Answer = blocking::Receiver<Extent>;

/// A partition that this member has.
struct Held {
    queue: PartitionQueue<Rebalancer>,
    /// The epoch in which it is fetched; none before it is.
    fetched: Option<u64>,
}

impl Poller {
    fn run(mut self) {
        while self.member.stopping().is_none() && !self.sender.is_closed() && self.serve() {
            if let Some(assigned) = self.member.take_assigned() {
                self.hold(assigned);
            }
            self.held.retain(|partition, _| self.member.partitions.epoch(*partition).is_some());
            self.ask();
            if !self.fetch() {
                break;
            }
            if !self.read() {
                thread::park_timeout(TICK);
            }
            self.note_ends();
            self.member.commit_if_due();
        }
        // The queues hold on to the client, and it leaves the group when the last one lets go.
        self.held.clear();
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

    /// Takes partitions that were assigned and not taken away since.
    fn hold(&mut self, mut assigned: Vec<i32>) {
        assigned.retain(|partition| self.member.partitions.epoch(*partition).is_some());
        for partition in &assigned {
            // Before there is another one for the same partition.
            self.held.remove(partition);
            let queue = self.member.client.split_partition_queue(&self.member.topic, *partition);
            if let Some(mut queue) = queue {
                let polling = thread::current();
                queue.set_nonempty_callback(move || polling.unpark());
                self.held.insert(*partition, Held { queue, fetched: None });
            }
        }
        self.member.hold(&assigned);
        self.ask_at = Instant::now();
    }

    /// Has the cluster asked what it has of the partitions that are not begun, and the store
    /// where they go on; now and then of all of them, whether they can still go on. One question
    /// at a time, in a task of its own: an answer can take long, and database work is not
    /// dropped when this thread must stop.
    fn ask(&mut self) {
        let now = Instant::now();
        if let Some((before, answer)) = &self.answer {
            match answer.try_recv() {
                Err(blocking::TryRecvError::Empty) => return,
                Ok(extent) => self.cursors.compare(before, &extent),
                Err(blocking::TryRecvError::Disconnected) => {}
            }
            self.answer = None;
            self.ask_at = now + PAUSE;
        }
        let waiting = self.cursors.assigned();
        let asked: Vec<i32> = if now >= self.look_at {
            self.look_at = now + LOOK_EVERY;
            self.held.keys().copied().collect()
        } else if now >= self.ask_at {
            waiting.iter().map(|(partition, _)| *partition).collect()
        } else {
            return;
        };
        if !asked.is_empty() {
            self.answer = Some((self.cursors.places(), self.begin(asked, waiting)));
        }
    }

    fn begin(&self, asked: Vec<i32>, waiting: Vec<(i32, u64)>) -> Answer {
        let (producer, topic) = (self.producer.clone(), self.member.topic.clone());
        let (cursors, polling) = (self.cursors.clone(), thread::current());
        let partitions = self.member.partitions.clone();
        let (sender, answer) = blocking::channel();
        self.runtime.spawn(async move {
            // Nothing is waited for any more of what went meanwhile.
            let is_asked = move |partition| {
                asked.contains(&partition) && partitions.epoch(partition).is_some()
            };
            let extent =
                tokio::task::spawn_blocking(move || producer.known_extent(&topic, is_asked));
            let begun = async {
                let extent = extent.await.unwrap_or_else(|_| Err(LogError::closed()))?;
                cursors.begin(&waiting, &extent).await.map(|()| extent)
            };
            match begun.await {
                Ok(extent) => _ = sender.send(extent),
                Err(error) => {
                    tracing::warn!(%error, "waiting to know where the partitions go on");
                    drop(sender);
                }
            }
            polling.unpark();
        });
        answer
    }

    /// Has those fetched of which it is known by now where they go on; `false` once this client
    /// can do no more.
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
        fetched.inspect_err(|error| tracing::error!(%error, "consuming anew")).is_ok()
    }

    /// Reads a batch of each partition that is ready, as far as there is room; whether there
    /// was any.
    fn read(&mut self) -> bool {
        let mut any = false;
        for wanting in self.cursors.wanting(self.last) {
            let Ok(room) = self.sender.try_reserve() else { break };
            let (messages, error) = match self.held.get(&wanting.partition) {
                Some(held) if held.fetched == Some(wanting.epoch) => {
                    take(&held.queue, self.topic, self.limits)
                }
                _ => continue,
            };
            match self.cursors.give_out(wanting, messages) {
                Some(batch) => {
                    self.last = wanting.partition;
                    room.send(Ok(batch));
                    any = true;
                }
                None => drop(room),
            }
            if let Some(error) = error {
                self.failed(wanting.partition, &error);
            }
        }
        any
    }

    /// An offset that is out of range ends the fetching of its partition; other errors pass.
    fn failed(&mut self, partition: i32, error: &KafkaError) {
        tracing::warn!(partition, %error, "a partition could not be read");
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::AutoOffsetReset) {
            self.cursors.stop(partition, "the log gives nothing from there on");
            // That may well have a reason.
            self.look_at = Instant::now();
        }
    }

    /// Notes where the partitions end, as far as their latest fetches told.
    fn note_ends(&mut self) {
        if Instant::now() < self.ends_at {
            return;
        }
        self.ends_at = Instant::now() + ENDS_EVERY;
        for partition in self.held.keys() {
            let client = self.member.client.client();
            if let Some(end) = describe::known_end(client, &self.member.topic, *partition) {
                self.cursors.set_end(*partition, end);
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
