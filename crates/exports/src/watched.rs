//! Reads the status of the exports that event streams follow: about once a second for each export,
//! for all of its streams in this process.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::sleep;
use uuid::Uuid;

use super::app::App;
use super::status::Status;
use super::streams::StreamSlot;
use super::{Job, Progress, State, list_rows};
use gateway::ApiError;
use runtime::app::queue::held_by;
use runtime::fairness::Holder;
use store::Tx;

/// The first and the longest pause between two reads of an export: the end of a small one should
/// not wait for a second.
const FIRST_PAUSE: Duration = Duration::from_millis(125);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The latest known status of an export.
#[derive(Clone)]
pub struct LatestStatus {
    progress: Progress,
    /// The status as JSON.
    pub json: Arc<str>,
}

impl LatestStatus {
    pub async fn read(
        app: &App,
        tx: &mut Tx,
        job: &Job,
        progress: Progress,
    ) -> Result<Self, ApiError> {
        let status = Status::read(app, tx, job, &progress).await?;
        let json = serde_json::to_string(&status)
            .map_err(|error| ApiError::Internal(format!("the status of an export: {error}")))?;
        // Two plans need not be compared: a plan never changes.
        Ok(Self { progress: Progress { plan: None, ..progress }, json: json.into() })
    }

    /// The progress, without the plan.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    pub fn state(&self) -> State {
        self.progress.state
    }
}

/// The exports that streams follow.
#[derive(Default)]
pub struct WatchedExports(Mutex<HashMap<Uuid, Weak<watch::Sender<LatestStatus>>>>);

impl WatchedExports {
    /// The statuses of an export from now on: `latest`, or what another stream already knows. They
    /// end after a final state.
    pub fn follow(&self, app: &App, job: Job, latest: LatestStatus) -> Statuses {
        let mut exports = self.0.lock();
        if let Some(sender) = exports.get(&job.id).and_then(Weak::upgrade) {
            return sender.subscribe();
        }
        let is_final = latest.state().is_final();
        let (sender, statuses) = watch::channel(latest);
        if !is_final {
            let (app, sender) = (app.clone(), Arc::new(sender));
            exports.insert(job.id, Arc::downgrade(&sender));
            let holder = Holder::Workspace(job.workspace_id);
            tokio::spawn(held_by(holder, async move { watch(&app, &job, &sender).await }));
        }
        statuses
    }

    fn remove(&self, export: Uuid) {
        self.0.lock().remove(&export);
    }

    /// Removes an export that no stream follows; returns whether it did.
    fn remove_abandoned(&self, export: Uuid, sender: &watch::Sender<LatestStatus>) -> bool {
        // With the lock, because a stream may follow it at this moment.
        let mut exports = self.0.lock();
        let is_abandoned = sender.receiver_count() == 0;
        if is_abandoned {
            exports.remove(&export);
        }
        is_abandoned
    }
}

/// The latest status of an export, and its changes.
pub type Statuses = watch::Receiver<LatestStatus>;

/// A stream's view of an export: its status, and its changes while the stream has its slot.
pub struct Follower {
    slot: StreamSlot,
    statuses: Statuses,
}

/// The next thing that a [`Follower`] sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Status,
    /// Another stream of the same client replaces this one.
    Replaced,
    /// The export no longer exists.
    Gone,
}

impl Follower {
    /// Follows an export for a client: a key, or a page of the console.
    pub async fn open(
        app: &App,
        tx: &mut Tx,
        (job, progress): (Job, Progress),
        client: Uuid,
    ) -> Result<Self, ApiError> {
        let latest = LatestStatus::read(app, tx, &job, progress).await?;
        let slot = app.streams.open(app, &job, client)?;
        Ok(Self { slot, statuses: app.watched.follow(app, job, latest) })
    }

    /// The latest status. [`changed`](Self::changed) waits for a later one.
    pub fn latest(&mut self) -> LatestStatus {
        self.statuses.borrow_and_update().clone()
    }

    /// Waits for a change. It can be dropped while it waits.
    pub async fn changed(&mut self) -> Change {
        tokio::select! {
            biased;
            () = self.slot.replaced() => Change::Replaced,
            changed = self.statuses.changed() => {
                if changed.is_ok() { Change::Status } else { Change::Gone }
            }
        }
    }
}

/// Reads an export until its end, or until no stream follows it.
async fn watch(app: &App, job: &Job, sender: &watch::Sender<LatestStatus>) {
    let mut pause = FIRST_PAUSE;
    loop {
        tokio::select! {
            () = sleep(pause) => {}
            () = sender.closed() => {}
        }
        pause = (2 * pause).min(LONGEST_PAUSE);
        if app.watched.remove_abandoned(job.id, sender) {
            return;
        }
        match read(app, job).await {
            Ok(Some(latest)) => {
                let is_final = latest.state().is_final();
                sender.send_if_modified(|known| {
                    let has_changed = latest.progress != known.progress;
                    if has_changed {
                        *known = latest;
                    }
                    has_changed
                });
                if is_final {
                    return app.watched.remove(job.id);
                }
            }
            Ok(None) => return app.watched.remove(job.id),
            // The streams wait: the next read may succeed.
            Err(error) => {
                tracing::debug!(export = %job.id, ?error, "cannot read a followed export");
            }
        }
    }
}

async fn read(app: &App, job: &Job) -> Result<Option<LatestStatus>, ApiError> {
    let mut tx = app.request_queue.snapshot().await?;
    match list_rows::progress(&mut tx, job.id).await? {
        Some(progress) => Ok(Some(LatestStatus::read(app, &mut tx, job, progress).await?)),
        None => Ok(None),
    }
}
