//! The partitions in which the brokers know a producer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::Instant;

use crate::message::{NewMessage, Topic};

/// How long a partition counts as known after a confirmation. By default, brokers drop the state of
/// a producer that has sent nothing for a day. Sending alone once more costs one round trip.
const KNOWN: Duration = Duration::from_secs(60);

/// The right to send the only message to a partition.
pub(super) type ExclusiveSend = OwnedMutexGuard<()>;

/// The partitions of all topics, for one producer.
pub(super) struct Partitions {
    created: Instant,
    /// The number of partitions of each topic.
    count: i32,
    topics: &'static [Topic],
    states: Vec<Partition>,
}

#[derive(Default)]
struct Partition {
    /// When the last message was confirmed: milliseconds since the producer's creation, plus one; 0
    /// before the first.
    confirmed: AtomicU64,
    alone: Arc<Mutex<()>>,
}

impl Partitions {
    pub fn new(topics: &'static [Topic], count: i32) -> Self {
        let count = count.max(1);
        let states =
            (0..topics.len() * count.unsigned_abs() as usize).map(|_| Partition::default());
        Self { created: Instant::now(), count, topics, states: states.collect() }
    }

    /// The partition that a message belongs to.
    pub fn partition_of(&self, message: &NewMessage) -> i32 {
        message.partition_of(self.count.unsigned_abs())
    }

    /// None for a partition that does not exist, which librdkafka rejects.
    fn get(&self, (topic, partition): (Topic, i32)) -> Option<&Partition> {
        let index = usize::try_from(partition).ok().filter(|_| partition < self.count)?;
        let topic = self.topics.iter().position(|known| *known == topic)?;
        self.states.get(topic * self.count.unsigned_abs() as usize + index)
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.created.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
    }

    /// Whether several messages may be in flight to a partition.
    pub fn is_known(&self, topic_partition: (Topic, i32)) -> bool {
        self.get(topic_partition).is_none_or(|partition| {
            let confirmed = partition.confirmed.load(Ordering::Acquire);
            confirmed > 0 && Duration::from_millis(self.millis().saturating_sub(confirmed)) < KNOWN
        })
    }

    /// Waits for the right to send the only message to a partition; none if the partition is known
    /// by then.
    pub async fn alone(&self, topic_partition: (Topic, i32)) -> Option<ExclusiveSend> {
        let alone = self.get(topic_partition)?.alone.clone().lock_owned().await;
        (!self.is_known(topic_partition)).then_some(alone)
    }

    /// Records that the brokers have confirmed messages to these partitions.
    pub fn confirmed(&self, topic_partitions: &[(Topic, i32)]) {
        let now = self.millis();
        for partition in
            topic_partitions.iter().filter_map(|topic_partition| self.get(*topic_partition))
        {
            partition.confirmed.store(now, Ordering::Release);
        }
    }
}
