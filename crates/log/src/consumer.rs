//! The common interface of both logs' consumers: batches, each with its acknowledgement.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::batch::{Batch, Fetched};
use super::partitions::Partitions;
use crate::message::{LogError, Topic};

/// Feeds a consumer: its membership in the group. When dropped, it leaves immediately.
pub(super) trait Source: Send + Sync {
    /// A batch was consumed, so there is room for another.
    fn wake(&self) {}

    /// Stops reading, waits up to `deadline` for running work, commits and leaves.
    fn drain(
        self: Box<Self>,
        partitions: Arc<Partitions>,
        deadline: Duration,
    ) -> BoxFuture<'static, ()>;
}

/// Returns the messages of the assigned partitions, in order, as [`Batch`]es. When dropped without
/// [`drain`](Self::drain), it leaves its group immediately, and unacknowledged messages go to the
/// next consumer.
pub struct Consumer {
    topic: &'static str,
    group: String,
    fetched: mpsc::Receiver<Result<Fetched, LogError>>,
    in_flight: Arc<Semaphore>,
    partitions: Arc<Partitions>,
    source: Box<dyn Source>,
}

impl Consumer {
    pub(super) fn new(
        group: &str,
        topic: Topic,
        in_flight: usize,
        fetched: mpsc::Receiver<Result<Fetched, LogError>>,
        partitions: Arc<Partitions>,
        source: Box<dyn Source>,
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

    /// Returns the next batch with its acknowledgement; waits while too many are in progress. Safe
    /// to cancel. After an error it may be called again, unless the consumer [is
    /// closed](Self::is_closed).
    pub async fn next(&mut self) -> Result<(Batch, Ack), LogError> {
        // The permit comes first: cancelling must not lose a batch.
        let permit =
            self.in_flight.clone().acquire_owned().await.map_err(|_| LogError::closed())?;
        loop {
            let Fetched { batch, partition, epoch, offset } =
                self.fetched.recv().await.ok_or_else(LogError::closed)??;
            self.source.wake();
            if self.partitions.start(partition, epoch, offset) {
                metrics::counter!(
                    "longshore_log_consumed_total",
                    "topic" => self.topic, "group" => self.group.clone()
                )
                .increment(batch.messages.len() as u64);
                let ack = Ack {
                    partitions: self.partitions.clone(),
                    partition,
                    offset,
                    epoch,
                    done: false,
                    _permit: permit,
                };
                return Ok((batch, ack));
            }
        }
    }

    /// Whether no more batches can come: the caller must create another consumer.
    pub fn is_closed(&self) -> bool {
        self.fetched.is_closed()
    }

    /// Stops reading, waits up to `deadline` for running work, commits and leaves.
    pub async fn drain(self, deadline: Duration) {
        self.source.drain(self.partitions, deadline).await;
    }
}

/// Acknowledges a batch. If dropped without that, the batch is processed again after the next
/// rebalance or restart.
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

    /// The batch is not done: its partition is read again from the stored position.
    pub fn restart(self) {
        let (partitions, partition, epoch) = (self.partitions.clone(), self.partition, self.epoch);
        drop(self);
        partitions.renew(partition, epoch);
    }

    /// Whether the partition still belongs to this consumer. If not, another one processes the
    /// batch, and [`done`](Self::done) has no effect.
    pub fn is_assigned(&self) -> bool {
        self.partitions.holds(self.partition, self.epoch)
    }
}

impl Drop for Ack {
    fn drop(&mut self) {
        self.partitions.finish(self.partition, self.epoch, self.offset, self.done);
    }
}
