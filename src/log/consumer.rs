//! What both logs give to those who consume: messages, each with its acknowledgement.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::ordered::Partitions;
use super::{LogError, Message, Topic, embedded, kafka};

/// A message on its way to [`Consumer::next`], with the epoch of its partition.
pub(super) struct Fetched {
    pub message: Message,
    pub epoch: u64,
}

/// What feeds a consumer, and is told when it ends.
pub(super) enum Source {
    Embedded(embedded::Membership),
    Kafka(kafka::Membership),
}

/// Gives out the messages of the partitions that it holds, in order. Dropped without
/// [`drain`](Self::drain), it leaves its group at once, and what was not acknowledged goes
/// to the next consumer.
pub struct Consumer {
    topic: &'static str,
    group: String,
    fetched: mpsc::Receiver<Result<Fetched, LogError>>,
    in_flight: Arc<Semaphore>,
    partitions: Arc<Partitions>,
    source: Source,
}

impl Consumer {
    pub(super) fn new(
        group: &str,
        topic: Topic,
        in_flight: usize,
        fetched: mpsc::Receiver<Result<Fetched, LogError>>,
        partitions: Arc<Partitions>,
        source: Source,
    ) -> Self {
        let in_flight = Arc::new(Semaphore::new(in_flight.max(1)));
        Self {
            topic: topic.name(),
            group: group.to_owned(),
            fetched,
            in_flight,
            partitions,
            source,
        }
    }

    /// The next message, with its acknowledgement; waits while too many are under way.
    /// May be dropped while waiting. After an error it may be called again, unless the
    /// consumer [is closed](Self::is_closed).
    pub async fn next(&mut self) -> Result<(Message, Ack), LogError> {
        // The permit first: a message that was taken must not be lost with a dropped wait.
        let permit =
            self.in_flight.clone().acquire_owned().await.map_err(|_| LogError::closed())?;
        loop {
            let Fetched { message, epoch } =
                self.fetched.recv().await.ok_or_else(LogError::closed)??;
            if let Source::Kafka(membership) = &self.source {
                membership.wake();
            }
            if self.partitions.start(message.partition, epoch, message.offset) {
                metrics::counter!(
                    "longshore_log_consumed_total",
                    "topic" => self.topic, "group" => self.group.clone()
                )
                .increment(1);
                let ack = Ack {
                    partitions: self.partitions.clone(),
                    partition: message.partition,
                    offset: message.offset,
                    epoch,
                    done: false,
                    _permit: permit,
                };
                return Ok((message, ack));
            }
        }
    }

    /// Whether no message can come any more: another consumer must be made.
    pub fn is_closed(&self) -> bool {
        self.fetched.is_closed()
    }

    /// Takes no more, waits up to `deadline` for what is under way, commits and leaves.
    pub async fn drain(self, deadline: Duration) {
        match self.source {
            Source::Embedded(membership) => membership.drain(&self.partitions, deadline).await,
            Source::Kafka(membership) => membership.drain(deadline).await,
        }
    }
}

/// Says that a message's work is done. Dropped unsaid, the message comes again after the
/// next rebalance or restart.
#[derive(Debug)]
pub struct Ack {
    partitions: Arc<Partitions>,
    partition: i32,
    epoch: u64,
    offset: i64,
    done: bool,
    _permit: OwnedSemaphorePermit,
}

impl Ack {
    pub fn done(mut self) {
        self.done = true;
    }

    /// Whether the message is still this consumer's. If not, another one works on it, or
    /// will, and [`done`](Self::done) says nothing.
    pub fn is_ours(&self) -> bool {
        self.partitions.holds(self.partition, self.epoch)
    }
}

impl Drop for Ack {
    fn drop(&mut self) {
        self.partitions.finish(self.partition, self.epoch, self.offset, self.done);
    }
}
