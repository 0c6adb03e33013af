//! Reads batches for one consumer.

use std::sync::Arc;
use std::time::Duration;

use sqlx::SqlitePool;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::group::Group;
use super::writer::Ends;
use super::{Embedded, rows};
use crate::batch::Fetched;
use crate::consumer::Consumer;
use crate::cursors::{ConsumerStatus, Cursors, Limits};
use crate::message::{LogError, REVOKE_WAIT};
use kit::retry;
use store::Store;

/// Starts a consumer of batches, and the task that reads for it.
pub fn batches(
    log: &Embedded,
    group: &Arc<Group>,
    store: &Store,
    limits: Limits,
) -> (Consumer, ConsumerStatus) {
    let (membership, partitions) = group.join(log);
    let cursors =
        Arc::new(Cursors::new(&group.name, group.topic, store.clone(), partitions.clone()));
    // One batch is read ahead of the consumer.
    let (sender, fetched) = mpsc::channel(1);
    let reader = Reader {
        group: group.clone(),
        pool: log.shared.read.clone(),
        ends: log.shared.ends.clone(),
        cursors: cursors.clone(),
        limits,
        last: -1,
    };
    log.shared.tasks.spawn(run(reader, sender, log.shared.closing.clone()));
    let source = Box::new(membership);
    let consumer =
        Consumer::new(&group.name, group.topic, limits.in_flight, fetched, partitions, source);
    (consumer, ConsumerStatus(cursors))
}

struct Reader {
    group: Arc<Group>,
    pool: SqlitePool,
    ends: Arc<Ends>,
    cursors: Arc<Cursors>,
    limits: Limits,
    /// The partition read last.
    last: i32,
}

/// Reads ahead while the consumer's channel has room, until the consumer or the log is closed.
async fn run(
    mut reader: Reader,
    sender: mpsc::Sender<Result<Fetched, LogError>>,
    closing: CancellationToken,
) {
    let mut appended = reader.ends.subscribe();
    let mut changed = reader.group.subscribe();
    let mut failures = 0;
    loop {
        let permit = tokio::select! {
            permit = sender.reserve() => permit,
            () = closing.cancelled() => return,
        };
        let Ok(permit) = permit else { return };
        // Marked as seen before reading, so that an append in between wakes it again.
        appended.borrow_and_update();
        changed.borrow_and_update();
        match reader.read().await {
            Ok(Some(batch)) => {
                failures = 0;
                permit.send(Ok(batch));
            }
            Ok(None) => {
                drop(permit);
                tokio::select! {
                    _ = appended.changed() => {}
                    _ = changed.changed() => {}
                    () = sleep(REVOKE_WAIT / 4), if reader.group.is_moving() => {}
                    () = sender.closed() => return,
                    () = closing.cancelled() => return,
                }
            }
            Err(error) => {
                failures += 1;
                permit.send(Err(error));
                let (base, cap) = (Duration::from_millis(100), Duration::from_secs(10));
                retry::wait(retry::backoff(failures, base, cap), &closing).await;
            }
        }
    }
}

impl Reader {
    /// The next batch, if there is one now.
    async fn read(&mut self) -> Result<Option<Fetched>, LogError> {
        let Self { group, pool, ends, .. } = self;
        group.share().await?;
        let assigned = self.cursors.assigned();
        if !assigned.is_empty() {
            let topic_offsets = rows::topic_offsets(pool, group.topic, ends.partitions()).await?;
            self.cursors.begin(&assigned, &topic_offsets).await?;
        }
        for ready in self.cursors.ready(self.last) {
            let end = ends.end(group.topic, ready.partition);
            self.cursors.set_end(ready.partition, end);
            if ready.from >= end {
                continue;
            }
            let Limits { messages, bytes, .. } = self.limits;
            let (topic, partition) = (group.topic, ready.partition);
            let read = rows::read(pool, topic, partition, ready.from, messages, bytes).await?;
            if read.first().is_none_or(|message| message.offset != ready.from) {
                self.cursors.stop(partition, "the message was deleted from the log");
                continue;
            }
            if let Some(batch) = self.cursors.build_batch(ready, read) {
                self.last = partition;
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }
}
