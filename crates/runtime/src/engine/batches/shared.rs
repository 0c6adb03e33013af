//! State and options that all batches of a runner share.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::RwLock;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::failure::Failure;
use super::{Handler, Options};
use crate::app::App;
use kit::moment::Moment;
use log::message_ids::{self, ID_RETENTION_MS, Scope};
use log::offsets::GroupOffset;
use log::{Batch, Topic};
use store::claims;
use store::{StoreError, within_timeout};

/// Time limit of a transaction, from a connection to its commit. One that takes longer runs to its
/// end: the guard shows whether it was committed.
pub(super) const TIMEOUT: Duration = Duration::from_secs(120);

/// Interval between deletions of old message ids.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// State that all batches of a runner share.
pub(super) struct Shared<H> {
    pub app: App,
    pub group: &'static str,
    pub handler: H,
    pub options: Options,
    /// Held for reading by each attempt; for writing by one that must run alone. Never held while
    /// waiting for something else.
    pub alone: RwLock<()>,
    /// The time of the last deletion of ids, by partition.
    pub swept: Mutex<HashMap<i32, Moment>>,
    /// The causes of waiting partitions, for operators.
    pub waiting: Mutex<BTreeMap<i32, String>>,
    pub shutdown: CancellationToken,
}

/// How messages are tried.
#[derive(Clone, Debug)]
pub(super) enum ApplyMode {
    Together,
    /// A message part by part: failing parts become dead letters.
    InParts,
    /// The message becomes a dead letter without an attempt.
    DeadLetter(String),
}

impl ApplyMode {
    /// The next one after a message failed permanently.
    pub(super) fn after(&self, reason: String) -> Self {
        match self {
            Self::Together => Self::InParts,
            Self::InParts | Self::DeadLetter(_) => Self::DeadLetter(reason),
        }
    }
}

impl<H> Shared<H> {
    /// Waits for `lock`, unless the worker must stop before.
    pub(super) async fn unless_stopped<T>(
        &self,
        lock: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        tokio::select! {
            biased;
            locked = lock => Ok(locked),
            () = self.shutdown.cancelled() => Err(Failure::Stopped),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<i32, String>> {
        self.waiting.lock()
    }

    pub(super) fn set_waiting(&self, topic: Topic, position: &GroupOffset, error: &str) {
        let (topic, GroupOffset { partition, next, .. }) = (topic.name(), position);
        let text = format!("partition {partition} of {topic} waits at offset {next}: {error}");
        self.waiting().insert(*partition, text);
    }

    pub(super) fn clear_waiting(&self, partition: i32) {
        self.waiting().remove(&partition);
    }

    /// The causes of waiting partitions, one per line.
    pub fn waiting_reasons(&self) -> Vec<String> {
        self.waiting().values().cloned().collect()
    }
}

impl<H: Handler> Shared<H> {
    /// Regularly deletes old message ids: once they are old both by the messages' own time and by
    /// the database's clock.
    pub(super) async fn sweep_ids(self: &Arc<Self>, batch: &Batch) {
        let (first, partition) = (&batch.messages[0], batch.position.partition);
        {
            let mut swept = self.swept.lock();
            let now = Moment::now();
            if swept.get(&partition).is_some_and(|last| now.duration_since(*last) < SWEEP_INTERVAL)
            {
                return;
            }
            swept.insert(partition, now);
        }
        let (shared, topic, appended_at) = (self.clone(), first.topic, first.appended_at);
        let sweep = async move {
            let scope = Scope { group: shared.group, topic, partition };
            loop {
                let mut tx = shared.app.store.write().await?;
                let now = appended_at.min(claims::now(&mut tx).await?);
                let before = now.saturating_sub(ID_RETENTION_MS);
                let more = message_ids::sweep(&mut tx, scope, before).await?;
                tx.commit().await?;
                if !more {
                    return Ok(());
                }
            }
        };
        let swept: Result<(), StoreError> = within_timeout(sweep, sleep(TIMEOUT)).await;
        if let Err(error) = swept {
            tracing::warn!(%error, "cannot delete old message IDs; retrying later");
        }
    }
}
