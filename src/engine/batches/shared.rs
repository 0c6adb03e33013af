//! What all batches of a runner share, and how they are tried.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::RwLock;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::failure::Failure;
use super::{Handler, Options};
use crate::app::App;
use log::message_ids::{self, REMEMBERED, Scope};
use log::offsets::Place;
use log::{Batch, Topic};
use store::claims;
use store::{StoreError, answered};

/// How long a transaction may take, from a connection to its commit. One that takes longer
/// is left to its end: the guard tells whether it came to one.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// Between looks for remembered ids that are too old.
const SWEEP_EVERY: Duration = Duration::from_secs(10 * 60);

/// What all batches of a runner share.
pub(super) struct Shared<H> {
    pub app: App,
    pub group: &'static str,
    pub handler: H,
    pub options: Options,
    /// Held for reading by a try; for writing by one that must be alone. Nobody who waits
    /// for something else has it.
    pub alone: RwLock<()>,
    /// By partition: when ids were swept.
    pub swept: Mutex<HashMap<i32, Instant>>,
    /// What partitions wait for, told to operators.
    pub waiting: Mutex<BTreeMap<i32, String>>,
    pub shutdown: CancellationToken,
}

/// How messages are tried.
#[derive(Clone, Debug)]
pub(super) enum Manner {
    Together,
    /// A message part by part: what fails of it is buried.
    InParts,
    /// A message is buried untried.
    Bury(String),
}

impl Manner {
    /// The next one for a message that failed for good.
    pub(super) fn after(&self, reason: String) -> Self {
        match self {
            Self::Together => Self::InParts,
            Self::InParts | Self::Bury(_) => Self::Bury(reason),
        }
    }
}

impl<H> Shared<H> {
    /// What `lock` waits for, unless the worker must end before.
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

    pub(super) fn waits(&self, topic: Topic, place: &Place, error: &str) {
        let (topic, Place { partition, next, .. }) = (topic.name(), place);
        let text = format!("partition {partition} of {topic} waits at offset {next}: {error}");
        self.waiting().insert(*partition, text);
    }

    pub(super) fn goes_on(&self, partition: i32) {
        self.waiting().remove(&partition);
    }

    /// What partitions wait for, a line each.
    pub fn told(&self) -> Vec<String> {
        self.waiting().values().cloned().collect()
    }
}

impl<H: Handler> Shared<H> {
    /// Forgets the ids of messages that are long past, now and then: by the messages' time,
    /// but not before they are past by the database's clock, too.
    pub(super) async fn sweep_ids(self: &Arc<Self>, batch: &Batch) {
        let (first, partition) = (&batch.messages[0], batch.place.partition);
        {
            let mut swept = self.swept.lock();
            let now = Instant::now();
            if swept.get(&partition).is_some_and(|last| now.duration_since(*last) < SWEEP_EVERY) {
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
                let before = now.saturating_sub(REMEMBERED);
                let more = message_ids::sweep(&mut tx, scope, before).await?;
                tx.commit().await?;
                if !more {
                    return Ok(());
                }
            }
        };
        let swept: Result<(), StoreError> = answered(sweep, sleep(PATIENCE)).await;
        if let Err(error) = swept {
            tracing::warn!(%error, "ids of messages could not be swept; later again");
        }
    }
}
