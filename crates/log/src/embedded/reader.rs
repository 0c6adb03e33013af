//! Reads for one consumer: message by message, or in batches.

use std::sync::Arc;
use std::time::Duration;

use sqlx::SqlitePool;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::group::Group;
use super::writer::Ends;
use super::{Embedded, rows};
use crate::batches::{Batch, Cursors, Limits, Standings};
use crate::consumer::{Consumer, Fetched};
use crate::message::{LogError, Message, REVOKE_WAIT};
use kit::retry;
use store::Store;

/// The most messages that are read at once, one by one.
const READ: usize = 64;

/// Bytes of payload after which a read of messages ends, though it may be short of its limit.
const READ_BYTES: usize = 4 << 20;

/// How messages are read.
trait Read: Send + 'static {
    type Content: Send + 'static;

    /// The next ones, no more than there is `room` for; none if there are none now.
    fn read(
        &mut self,
        room: usize,
    ) -> impl Future<Output = Result<Option<Vec<Fetched<Self::Content>>>, LogError>> + Send;
}

/// Starts a consumer of messages, and the task that reads for it.
pub fn messages(log: &Embedded, group: &Arc<Group>, in_flight: usize) -> Consumer {
    let (membership, partitions) = group.join(log);
    let (sender, fetched) = mpsc::channel(in_flight.clamp(1, READ));
    let from = Origin::new(log, group);
    let read = Messages { from: from.clone(), member: membership.id };
    log.shared.tasks.spawn(run(from, read, sender, log.shared.closing.clone()));
    let source = Box::new(membership);
    Consumer::new(&group.name, group.topic, in_flight, fetched, partitions, source)
}

/// Starts a consumer of batches, and the task that reads for it.
pub fn batches(
    log: &Embedded,
    group: &Arc<Group>,
    store: &Store,
    limits: Limits,
) -> (Consumer<Batch>, Standings) {
    let (membership, partitions) = group.join(log);
    let cursors =
        Arc::new(Cursors::new(&group.name, group.topic, store.clone(), partitions.clone()));
    // One batch is read ahead of those who take them.
    let (sender, fetched) = mpsc::channel(1);
    let from = Origin::new(log, group);
    let read = Batches { from: from.clone(), cursors: cursors.clone(), limits, last: -1 };
    log.shared.tasks.spawn(run(from, read, sender, log.shared.closing.clone()));
    let source = Box::new(membership);
    let consumer =
        Consumer::new(&group.name, group.topic, limits.in_flight, fetched, partitions, source);
    (consumer, Standings(cursors))
}

/// Where messages are read from.
#[derive(Clone)]
struct Origin {
    group: Arc<Group>,
    pool: SqlitePool,
    ends: Arc<Ends>,
}

impl Origin {
    fn new(log: &Embedded, group: &Arc<Group>) -> Self {
        let (pool, ends) = (log.shared.read.clone(), log.shared.ends.clone());
        Self { group: group.clone(), pool, ends }
    }
}

/// Reads ahead as far as the consumer's channel has room, until the consumer is gone or the
/// log closes.
async fn run<R: Read>(
    from: Origin,
    mut read: R,
    sender: mpsc::Sender<Result<Fetched<R::Content>, LogError>>,
    closing: CancellationToken,
) {
    let mut appended = from.ends.subscribe();
    let mut changed = from.group.subscribe();
    let mut failures = 0;
    loop {
        let room = tokio::select! {
            room = sender.reserve() => room,
            () = closing.cancelled() => return,
        };
        let Ok(room) = room else { return };
        // Marked as seen before looking: what comes in between wakes again.
        appended.borrow_and_update();
        changed.borrow_and_update();
        // The room reserved, and what is left beside it.
        match read.read(1 + sender.capacity()).await {
            Ok(Some(messages)) => {
                failures = 0;
                drop(room);
                for message in messages {
                    // Only this task sends, so the room that was seen is still there.
                    let _ = sender.try_send(Ok(message));
                }
            }
            Ok(None) => {
                drop(room);
                tokio::select! {
                    _ = appended.changed() => {}
                    _ = changed.changed() => {}
                    () = sleep(REVOKE_WAIT / 4), if from.group.is_moving() => {}
                    () = sender.closed() => return,
                    () = closing.cancelled() => return,
                }
            }
            Err(error) => {
                failures += 1;
                room.send(Err(error));
                let (base, cap) = (Duration::from_millis(100), Duration::from_secs(10));
                retry::wait(retry::pause(failures, base, cap), &closing).await;
            }
        }
    }
}

struct Messages {
    from: Origin,
    member: u64,
}

impl Read for Messages {
    type Content = Message;

    async fn read(&mut self, room: usize) -> Result<Option<Vec<Fetched<Message>>>, LogError> {
        let Origin { group, pool, ends } = &self.from;
        group.share().await?;
        let Some(stretch) = group.next_stretch(self.member, ends) else { return Ok(None) };
        let (partition, epoch) = (stretch.partition, stretch.epoch);
        let limit = room.min(READ);
        let messages =
            rows::read(pool, group.topic, partition, stretch.from, limit, READ_BYTES).await?;
        // Nothing there, though the partition ends later: it was trimmed.
        let next = messages.last().map_or(stretch.end, |message| message.offset + 1);
        group.read(&stretch, next);
        Ok(Some(messages.into_iter().map(|message| Fetched::message(message, epoch)).collect()))
    }
}

struct Batches {
    from: Origin,
    cursors: Arc<Cursors>,
    limits: Limits,
    /// The partition read last.
    last: i32,
}

impl Read for Batches {
    type Content = Batch;

    async fn read(&mut self, _room: usize) -> Result<Option<Vec<Fetched<Batch>>>, LogError> {
        let Origin { group, pool, ends } = &self.from;
        group.share().await?;
        let assigned = self.cursors.assigned();
        if !assigned.is_empty() {
            let extent = rows::extent(pool, group.topic, ends.partitions()).await?;
            self.cursors.begin(&assigned, &extent).await?;
        }
        for wanting in self.cursors.wanting(self.last) {
            let end = ends.end(group.topic, wanting.partition);
            self.cursors.set_end(wanting.partition, end);
            if wanting.from >= end {
                continue;
            }
            let Limits { messages, bytes, .. } = self.limits;
            let (topic, partition) = (group.topic, wanting.partition);
            let read = rows::read(pool, topic, partition, wanting.from, messages, bytes).await?;
            if read.first().is_none_or(|message| message.offset != wanting.from) {
                self.cursors.stop(partition, "the message there is not in the log any more");
                continue;
            }
            if let Some(batch) = self.cursors.give_out(wanting, read) {
                self.last = partition;
                return Ok(Some(vec![batch]));
            }
        }
        Ok(None)
    }
}
