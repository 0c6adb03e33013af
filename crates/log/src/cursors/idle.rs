//! Idle partitions, whose positions can be compared with the stored ones.
//!
//! The store can lose the last commits in a crash, together with the position. A batch in progress
//! notices it, because its transaction expects the position before it. Without another message,
//! only this comparison does.

use super::ConsumerStatus;
use crate::offsets::GroupOffset;
use crate::partitions::Idle;

/// A partition that is started and not stopped, without a batch in progress.
#[derive(Clone, Debug)]
pub struct IdlePartition {
    /// The position before which everything is done: what a read of the store that starts later
    /// must find.
    pub position: GroupOffset,
    idle: Idle,
}

impl ConsumerStatus {
    /// The idle partitions, at this moment.
    pub fn idle(&self) -> Vec<IdlePartition> {
        let cursors = self.0.lock();
        let idle = self.0.partitions.idle().into_iter();
        let idle = idle.filter_map(|(partition, idle)| {
            let cursor = cursors.get(&partition)?;
            let is_started = cursor.epoch == idle.epoch && cursor.stopped.is_none();
            let next = idle.position.unwrap_or(cursor.start.next);
            let position = GroupOffset { next, ..cursor.start.clone() };
            is_started.then_some(IdlePartition { position, idle })
        });
        idle.collect()
    }

    /// Reads a partition again from the stored position, unless it has changed since
    /// [`idle`](Self::idle); returns whether it does.
    pub fn restart(&self, IdlePartition { position, idle }: &IdlePartition) -> bool {
        self.0.partitions.renew_idle(position.partition, *idle)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::tests::{cursors, message};
    use super::*;

    #[tokio::test]
    async fn idle_partitions_have_the_position_of_what_is_done() {
        let status = ConsumerStatus(Arc::new(cursors()));
        let cursors = &status.0;
        let next = || status.idle().iter().map(|idle| idle.position.next).collect::<Vec<_>>();
        assert_eq!(next(), [5, 5]);
        let batch = cursors.build_batch(cursors.ready(-1)[0], vec![message(5)]).unwrap();
        assert_eq!(next(), [5, 5], "reading ahead is not done");
        assert!(cursors.partitions.start(0, batch.epoch, batch.offset));
        assert_eq!(next(), [5], "a batch in progress notices it itself");
        cursors.partitions.finish(0, batch.epoch, batch.offset, true);
        assert_eq!(next(), [6, 5]);
        cursors.stop(1, "an error");
        assert_eq!(next(), [6]);
    }

    #[tokio::test]
    async fn a_restarted_partition_waits_for_the_stored_position() {
        let status = ConsumerStatus(Arc::new(cursors()));
        let idle = status.idle();
        assert!(status.restart(&idle[0]));
        let assigned: Vec<i32> = status.0.assigned().iter().map(|(number, _)| *number).collect();
        assert_eq!(assigned, [0]);
        assert_eq!(status.0.start(0), None);
        assert!(status.0.start(1).is_some(), "the others continue");
        assert!(!status.restart(&idle[0]), "once");
    }
}
