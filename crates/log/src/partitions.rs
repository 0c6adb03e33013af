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
    state: Mutex<Assignments>,
    finished: Condvar,
    /// Called whenever work has ended, and when a partition is to be read again.
    on_finish: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Partitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Partitions").field("state", &self.state).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Assignments {
    held: BTreeMap<i32, PartitionState>,
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
        let held = PartitionState {
            epoch,
            stopped: false,
            in_progress: None,
            position: None,
            committed: None,
        };
        self.held.insert(partition, held);
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
        Self { state: Mutex::default(), finished: Condvar::new(), on_finish: Box::new(on_finish) }
    }

    fn lock(&self) -> MutexGuard<'_, Assignments> {
        self.state.lock()
    }

    /// Starts an epoch of `partition`.
    pub fn assign(&self, partition: i32) -> u64 {
        self.lock().assign(partition)
    }

    /// Starts another epoch of `partition`, unless this one has ended.
    pub fn renew(&self, partition: i32, epoch: u64) {
        self.renew_if(partition, |held| held.epoch == epoch);
    }

    /// The same for an idle partition; `false` if it has changed since.
    pub fn renew_idle(&self, partition: i32, idle: Idle) -> bool {
        self.renew_if(partition, |held| held.idle() == Some(idle))
    }

    fn renew_if(&self, partition: i32, matches: impl FnOnce(&PartitionState) -> bool) -> bool {
        let mut state = self.lock();
        let is_same = state.held.get(&partition).is_some_and(|held| !held.stopped && matches(held));
        if is_same {
            state.assign(partition);
        }
        drop(state);
        if is_same {
            (self.on_finish)();
        }
        is_same
    }

    /// The partitions whose messages may be read and that have no batch in progress.
    pub fn idle(&self) -> Vec<(i32, Idle)> {
        let state = self.lock();
        let open = state.held.iter().filter(|(_, held)| !held.stopped);
        open.filter_map(|(partition, held)| Some((*partition, held.idle()?))).collect()
    }

    /// The epoch of `partition`, while its messages may be read.
    pub fn epoch(&self, partition: i32) -> Option<u64> {
        self.lock().held.get(&partition).filter(|held| !held.stopped).map(|held| held.epoch)
    }

    /// The partitions whose messages may be read, each with its epoch.
    pub fn open(&self) -> Vec<(i32, u64)> {
        let state = self.lock();
        let open = state.held.iter().filter(|(_, held)| !held.stopped);
        open.map(|(partition, held)| (*partition, held.epoch)).collect()
    }

    /// Whether `partition` is still held in this epoch.
    pub fn holds(&self, partition: i32, epoch: u64) -> bool {
        self.lock().held.get(&partition).is_some_and(|held| held.epoch == epoch)
    }

    /// Records a started batch that ends with `offset`; `false` if it must not start.
    pub fn start(&self, partition: i32, epoch: u64, offset: i64) -> bool {
        match self.lock().held.get_mut(&partition) {
            Some(held) if held.epoch == epoch && !held.stopped => {
                held.in_progress = Some(offset);
                true
            }
            _ => false,
        }
    }

    /// Records the end of a batch: done, or to be repeated.
    pub fn finish(&self, partition: i32, epoch: u64, offset: i64, done: bool) {
        if let Some(held) = self.lock().held.get_mut(&partition)
            && held.epoch == epoch
        {
            held.in_progress = None;
            if done {
                held.position = Some(offset + 1);
            }
        }
        self.finished.notify_all();
        (self.on_finish)();
    }

    /// Stops reading these partitions.
    pub fn stop(&self, partitions: &[i32]) {
        let mut state = self.lock();
        for partition in partitions {
            if let Some(held) = state.held.get_mut(partition) {
                held.stopped = true;
            }
        }
    }

    /// Stops reading all partitions.
    pub fn stop_all(&self) {
        self.lock().held.values_mut().for_each(|held| held.stopped = true);
    }

    pub fn is_busy(&self, partition: i32) -> bool {
        self.lock().held.get(&partition).is_some_and(|held| held.in_progress.is_some())
    }

    pub fn any_busy(&self) -> bool {
        self.lock().held.values().any(|held| held.in_progress.is_some())
    }

    /// Blocks this thread until no batch of `partitions` is in progress, or until `deadline`.
    pub fn wait_idle(&self, partitions: &[i32], deadline: Instant) {
        let mut state = self.lock();
        let busy = |state: &Assignments| {
            partitions
                .iter()
                .any(|partition| state.held.get(partition).is_some_and(|h| h.in_progress.is_some()))
        };
        while busy(&state) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            self.finished.wait_for(&mut state, left);
        }
    }

    /// Releases `partition`; returns the position before which all is done, if this epoch did any
    /// work.
    pub fn revoke(&self, partition: i32) -> Option<i64> {
        self.lock().held.remove(&partition)?.position
    }

    /// The position before which `partition` is done, if this epoch did any work.
    pub fn position(&self, partition: i32) -> Option<i64> {
        self.lock().held.get(&partition)?.position
    }

    /// The positions that have moved since [`committed`](Self::committed).
    pub fn to_commit(&self) -> Vec<(i32, i64)> {
        let state = self.lock();
        let moved = state.held.iter().filter_map(|(partition, held)| {
            let position = held.position?;
            (held.committed < Some(position)).then_some((*partition, position))
        });
        moved.collect()
    }

    /// Records stored positions.
    pub fn committed(&self, positions: &[(i32, i64)]) {
        let mut state = self.lock();
        for (partition, position) in positions {
            if let Some(held) = state.held.get_mut(partition) {
                held.committed = held.committed.max(Some(*position));
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
