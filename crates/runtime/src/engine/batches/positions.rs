//! Compares the stored positions with those of this worker.
//!
//! The guard of a batch's transaction notices a difference at the partition's next message. A
//! partition without messages needs this comparison: after a crash of the database, its last
//! messages may have to be applied again, and nothing else would start that.

use std::future::pending;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::Handler;
use kit::moment::Moment;
use log::offsets::{self, GroupOffset};
use log::{ConsumerStatus, IdlePartition, PartitionStatus, Topic};
use store::{Store, StoreError, within_timeout};

/// Interval between comparisons, if no connection was lost and no partition is stopped.
const INTERVAL: Duration = Duration::from_secs(5);

/// Time limit for the store to return the positions.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Why a stored position is not the expected one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Difference {
    /// It went back: the database crashed, or a standby or a backup has replaced it.
    LostCommits,
    /// An operator has reset it.
    Reset,
    /// Another worker has applied messages.
    Advanced,
}

impl Difference {
    /// Why `stored` is not `expected`.
    pub fn between(expected: &GroupOffset, stored: Option<&GroupOffset>) -> Self {
        match stored {
            Some(stored) if stored.resets > expected.resets => Self::Reset,
            Some(stored) if stored.next > expected.next => Self::Advanced,
            _ => Self::LostCommits,
        }
    }

    /// Logs it, and counts lost commits.
    pub fn report(self, topic: Topic, expected: &GroupOffset, stored: Option<&GroupOffset>) {
        let GroupOffset { partition, next: to, .. } = expected;
        let (topic, from) = (topic.name(), stored.map(|stored| stored.next));
        match self {
            Self::LostCommits => {
                tracing::warn!(
                    topic,
                    partition,
                    from,
                    to,
                    "the database lost commits; applying their messages again"
                );
                metrics::counter!("longshore_log_reverted_total", "topic" => topic).increment(1);
            }
            Self::Reset => {
                tracing::info!(topic, partition, from, to, "an operator reset the partition");
            }
            Self::Advanced => tracing::info!(
                topic,
                partition,
                from,
                to,
                "another worker has applied messages of the partition"
            ),
        }
    }
}

/// Regular comparisons for one consumer.
pub(super) struct Positions {
    store: Store,
    group: &'static str,
    topic: Topic,
    /// The query in progress, if any.
    query: JoinSet<Result<Vec<GroupOffset>, StoreError>>,
    /// The positions before the query, of idle and of stopped partitions.
    idle: Vec<IdlePartition>,
    stopped: Vec<GroupOffset>,
    query_at: Moment,
    /// The connection for notifications shows when the database is back.
    connection: Option<watch::Receiver<bool>>,
}

impl Positions {
    pub fn new(store: &Store, group: &'static str, topic: Topic) -> Self {
        Self {
            store: store.clone(),
            group,
            topic,
            query: JoinSet::new(),
            idle: Vec::new(),
            stopped: Vec::new(),
            query_at: Moment::now() + INTERVAL,
            connection: store.wake().connection(),
        }
    }

    /// Begins a query if one is due: regularly, after a lost connection, and while a partition is
    /// stopped.
    pub fn query_if_due(&mut self, partitions: &[PartitionStatus], statuses: &ConsumerStatus) {
        let connection = self.connection.as_mut();
        let is_changed = connection.is_some_and(|listening| {
            let is_changed = listening.has_changed().unwrap_or(false);
            listening.mark_unchanged();
            is_changed
        });
        if is_changed {
            self.query_at = Moment::now();
        }
        let is_any_stopped = partitions.iter().any(|status| status.stopped.is_some());
        if !self.query.is_empty() || (!self.query_at.remaining().is_zero() && !is_any_stopped) {
            return;
        }
        // Before the query, so that it sees what is done now.
        self.idle = statuses.idle();
        let stopped = partitions.iter().filter_map(|status| status.stopped.as_ref());
        self.stopped = stopped.map(|(position, _)| position.clone()).collect();
        if self.idle.is_empty() && self.stopped.is_empty() {
            return;
        }
        let (store, topic) = (self.store.clone(), self.topic);
        let positions =
            async move { offsets::positions(&mut store.snapshot().await?, topic).await };
        self.query.spawn(within_timeout(positions, sleep(TIMEOUT)));
    }

    /// The result of the query in progress; waits forever if there is none. Safe to cancel.
    pub async fn read(&mut self) -> Result<Vec<GroupOffset>, StoreError> {
        match self.query.join_next().await {
            Some(read) => read.unwrap_or(Err(StoreError::Timeout)),
            None => pending().await,
        }
    }

    /// Restarts the idle partitions whose stored position differs. Returns whether a stopped one
    /// was reset.
    pub fn compare(
        &mut self,
        read: Result<Vec<GroupOffset>, StoreError>,
        statuses: &ConsumerStatus,
        handler: &impl Handler,
    ) -> bool {
        let stored = match read {
            Ok(stored) => stored,
            Err(error) => {
                // The next report begins another query.
                tracing::debug!(%error, "cannot compare the partitions' positions; retrying");
                return false;
            }
        };
        self.query_at = Moment::now() + INTERVAL;
        for idle in std::mem::take(&mut self.idle) {
            let expected = &idle.position;
            let stored = stored.iter().find(|stored| {
                stored.consumer_group == self.group && stored.partition == expected.partition
            });
            if stored == Some(expected) {
                continue;
            }
            let difference = Difference::between(expected, stored);
            if difference == Difference::LostCommits {
                handler.lost_commits();
            }
            if statuses.restart(&idle) {
                difference.report(self.topic, expected, stored);
            }
        }
        self.stopped.iter().any(|position| !stored.contains(position))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_that_went_back_was_lost_unless_it_was_reset() {
        let position = |next, resets, log_id: &str| GroupOffset {
            consumer_group: "g".into(),
            partition: 0,
            log_id: log_id.into(),
            next,
            resets,
        };
        let expected = position(7, 1, "log");
        let difference = |stored: &GroupOffset| Difference::between(&expected, Some(stored));
        assert_eq!(difference(&position(6, 1, "log")), Difference::LostCommits);
        assert_eq!(Difference::between(&expected, None), Difference::LostCommits);
        assert_eq!(difference(&position(7, 1, "restored")), Difference::LostCommits);
        assert_eq!(difference(&position(7, 0, "log")), Difference::LostCommits);
        assert_eq!(difference(&position(8, 1, "log")), Difference::Advanced);
        assert_eq!(difference(&position(6, 2, "log")), Difference::Reset);
        assert_eq!(difference(&position(7, 2, "new")), Difference::Reset);
    }
}
