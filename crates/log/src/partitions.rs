//! The partitions of a consumer, each with its batch in progress and the position before which all
//! is done.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

use parking_lot::{Condvar, Mutex, MutexGuard};

/// The partitions of a consumer.
///
/// Each assignment starts a new epoch of a partition. Reports about a batch of another epoch are
/// ignored, because another consumer may have the partition by now.
pub(super) struct Partitions {
    assignments: Mutex<Assignments>,
    finished: Condvar,
    /// Called whenever work has ended, and when a partition is to be read again.
    on_finish: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Partitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Partitions").field("state", &self.assignments).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Assignments {
    partitions: BTreeMap<i32, PartitionState>,
    epochs: u64,
}

#[derive(Debug)]
struct PartitionState {
    epoch: u64,
    stopped: bool,
    /// The last offset of the batch in progress; there is at most one.
    in_progress: Option<i64>,
    /// The offset before which everything is done; none before the first batch.
    position: Option<i64>,
    committed: Option<i64>,
}

/// A partition without a batch in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Idle {
    pub epoch: u64,
    /// The offset before which everything is done; none before the first batch.
    pub position: Option<i64>,
}

impl Assignments {
    fn assign(&mut self, partition: i32) -> u64 {
        self.epochs += 1;
        let epoch = self.epochs;
        let state = PartitionState {
            epoch,
            stopped: false,
            in_progress: None,
            position: None,
            committed: None,
        };
        self.partitions.insert(partition, state);
        epoch
    }
}

impl PartitionState {
    fn idle(&self) -> Option<Idle> {
        let idle = Idle { epoch: self.epoch, position: self.position };
        self.in_progress.is_none().then_some(idle)
    }
}

impl Partitions {
    pub fn new(on_finish: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            assignments: Mutex::default(),
            finished: Condvar::new(),
            on_finish: Box::new(on_finish),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Assignments> {
        self.assignments.lock()
    }

    /// Starts an epoch of `partition`.
    pub fn assign(&self, partition: i32) -> u64 {
        self.lock().assign(partition)
    }

    /// Starts another epoch of `partition`, unless this one has ended.
    pub fn renew(&self, partition: i32, epoch: u64) {
        self.renew_if(partition, |state| state.epoch == epoch);
    }

    /// The same for an idle partition; `false` if it has changed since.
    pub fn renew_idle(&self, partition: i32, idle: Idle) -> bool {
        self.renew_if(partition, |state| state.idle() == Some(idle))
    }

    fn renew_if(&self, partition: i32, matches: impl FnOnce(&PartitionState) -> bool) -> bool {
        let mut assignments = self.lock();
        let is_same = assignments
            .partitions
            .get(&partition)
            .is_some_and(|state| !state.stopped && matches(state));
        if is_same {
            assignments.assign(partition);
        }
        drop(assignments);
        if is_same {
            (self.on_finish)();
        }
        is_same
    }

    /// The partitions whose messages may be read and that have no batch in progress.
    pub fn idle(&self) -> Vec<(i32, Idle)> {
        let assignments = self.lock();
        let open = assignments.partitions.iter().filter(|(_, state)| !state.stopped);
        open.filter_map(|(partition, state)| Some((*partition, state.idle()?))).collect()
    }

    /// The epoch of `partition`, while its messages may be read.
    pub fn epoch(&self, partition: i32) -> Option<u64> {
        self.lock()
            .partitions
            .get(&partition)
            .filter(|state| !state.stopped)
            .map(|state| state.epoch)
    }

    /// The partitions whose messages may be read, each with its epoch.
    pub fn open(&self) -> Vec<(i32, u64)> {
        let assignments = self.lock();
        let open = assignments.partitions.iter().filter(|(_, state)| !state.stopped);
        open.map(|(partition, state)| (*partition, state.epoch)).collect()
    }

    /// Whether `partition` is still held in this epoch.
    pub fn holds(&self, partition: i32, epoch: u64) -> bool {
        self.lock().partitions.get(&partition).is_some_and(|state| state.epoch == epoch)
    }

    /// Records a started batch that ends with `offset`; `false` if it must not start.
    pub fn start(&self, partition: i32, epoch: u64, offset: i64) -> bool {
        match self.lock().partitions.get_mut(&partition) {
            Some(state) if state.epoch == epoch && !state.stopped => {
                state.in_progress = Some(offset);
                true
            }
            _ => false,
        }
    }

    /// Records the end of a batch: done, or to be repeated.
    pub fn finish(&self, partition: i32, epoch: u64, offset: i64, is_done: bool) {
        if let Some(state) = self.lock().partitions.get_mut(&partition)
            && state.epoch == epoch
        {
            state.in_progress = None;
            if is_done {
                state.position = Some(offset + 1);
            }
        }
        self.finished.notify_all();
        (self.on_finish)();
    }

    /// Stops reading these partitions.
    pub fn stop(&self, partitions: &[i32]) {
        let mut assignments = self.lock();
        for partition in partitions {
            if let Some(state) = assignments.partitions.get_mut(partition) {
                state.stopped = true;
            }
        }
    }

    /// Stops reading all partitions.
    pub fn stop_all(&self) {
        self.lock().partitions.values_mut().for_each(|state| state.stopped = true);
    }

    pub fn is_busy(&self, partition: i32) -> bool {
        self.lock().partitions.get(&partition).is_some_and(|state| state.in_progress.is_some())
    }

    pub fn any_busy(&self) -> bool {
        self.lock().partitions.values().any(|state| state.in_progress.is_some())
    }

    /// Blocks this thread until no batch of `partitions` is in progress, or until `deadline`.
    pub fn wait_idle(&self, partitions: &[i32], deadline: Instant) {
        let mut assignments = self.lock();
        let busy = |assignments: &Assignments| {
            partitions.iter().any(|partition| {
                assignments
                    .partitions
                    .get(partition)
                    .is_some_and(|state| state.in_progress.is_some())
            })
        };
        while busy(&assignments) {
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return;
            }
            self.finished.wait_for(&mut assignments, remaining);
        }
    }

    /// Releases `partition`; returns the position before which all is done, if this epoch did any
    /// work.
    pub fn revoke(&self, partition: i32) -> Option<i64> {
        self.lock().partitions.remove(&partition)?.position
    }

    /// The position before which `partition` is done, if this epoch did any work.
    pub fn position(&self, partition: i32) -> Option<i64> {
        self.lock().partitions.get(&partition)?.position
    }

    /// The positions that have moved since [`committed`](Self::committed).
    pub fn to_commit(&self) -> Vec<(i32, i64)> {
        let assignments = self.lock();
        let moved = assignments.partitions.iter().filter_map(|(partition, state)| {
            let position = state.position?;
            (state.committed < Some(position)).then_some((*partition, position))
        });
        moved.collect()
    }

    /// Records stored positions.
    pub fn committed(&self, positions: &[(i32, i64)]) {
        let mut assignments = self.lock();
        for (partition, position) in positions {
            if let Some(state) = assignments.partitions.get_mut(partition) {
                state.committed = state.committed.max(Some(*position));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partitions() -> Partitions {
        Partitions::new(|| {})
    }

    #[test]
    fn acknowledgements_of_another_epoch_are_ignored() {
        let partitions = partitions();
        let first = partitions.assign(3);
        assert!(partitions.start(3, first, 10));
        assert_eq!(partitions.revoke(3), None);
        let second = partitions.assign(3);
        partitions.finish(3, first, 10, true);
        assert!(!partitions.start(3, first, 11));
        assert!(partitions.start(3, second, 10));
        assert!(partitions.is_busy(3));
        assert!(partitions.to_commit().is_empty());
        partitions.finish(3, second, 10, true);
        assert_eq!(partitions.to_commit(), [(3, 11)]);
        partitions.committed(&[(3, 11)]);
        assert!(partitions.to_commit().is_empty());
    }

    #[test]
    fn only_an_unchanged_idle_partition_is_renewed() {
        let partitions = partitions();
        let epoch = partitions.assign(0);
        let (_, at_first) = partitions.idle()[0];
        assert_eq!(at_first, Idle { epoch, position: None });
        assert!(partitions.start(0, epoch, 5));
        assert_eq!(partitions.idle(), []);
        assert!(!partitions.renew_idle(0, at_first), "a batch is in progress");
        partitions.finish(0, epoch, 5, true);
        assert!(!partitions.renew_idle(0, at_first), "a batch was done in between");
        let (_, idle) = partitions.idle()[0];
        assert!(partitions.renew_idle(0, idle) && partitions.epoch(0) != Some(epoch));
        assert_eq!(partitions.position(0), None, "the stored position decides");
        assert!(!partitions.start(0, epoch, 6), "what was read ahead is dropped");
        assert!(!partitions.renew_idle(0, idle), "it has another epoch");
        partitions.stop(&[0]);
        assert_eq!(partitions.idle(), [], "another consumer gets it");
    }

    #[test]
    fn stopped_partitions_give_no_work_and_still_acknowledge() {
        let partitions = partitions();
        let epoch = partitions.assign(0);
        assert!(partitions.start(0, epoch, 5));
        partitions.stop(&[0]);
        assert!(!partitions.start(0, epoch, 6));
        assert_eq!(partitions.epoch(0), None);
        partitions.finish(0, epoch, 5, true);
        partitions.wait_idle(&[0], Instant::now());
        assert_eq!(partitions.revoke(0), Some(6));
    }
}
