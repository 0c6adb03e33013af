//! Reads the status of the exports that event streams follow: about once a second for each export,
//! for all of its streams in this process. A [`Follower`] has what all these streams wait for.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::http::request::Parts;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep};
use uuid::Uuid;

use super::app::App;
use super::status::Status;
use super::streams::StreamSlot;
use super::{Job, Progress, State, list_rows};
use gateway::{ApiError, Connection};
use runtime::app::queue::held_by;
use runtime::fairness::Holder;
use store::Tx;

/// The first and the longest pause between two reads of an export: the end of a small one should
/// not wait for a second.
const FIRST_PAUSE: Duration = Duration::from_millis(125);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A started export without a change is sent again after this time: its speed and its expected end
/// depend on the time. With [`LONGEST_PAUSE`], that is every five seconds.
const SEND_INTERVAL: Duration = Duration::from_secs(4);

/// Interval between checks whether the client may still see the export: whoever loses access loses
/// it within five seconds.
pub const CHECK_INTERVAL: Duration = Duration::from_secs(4);

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

    /// Whether the export had come less far than in another status. None of these values falls.
    fn is_older_than(&self, other: &Self) -> bool {
        let reached = |Progress { state, files_done, users_done, .. }: &Progress| {
            (State::ALL.iter().position(|known| known == state), *files_done, *users_done)
        };
        reached(&self.progress) < reached(&other.progress)
    }
}

/// The exports that streams follow.
#[derive(Default)]
pub struct WatchedExports(Mutex<HashMap<Uuid, Weak<watch::Sender<LatestStatus>>>>);

impl WatchedExports {
    /// The statuses of an export from now on: `latest`, or what another stream already knows, if it
    /// is not older. They end after a final state.
    pub fn follow(&self, app: &App, job: Job, latest: LatestStatus) -> Statuses {
        let mut exports = self.0.lock();
        if let Some(sender) = exports.get(&job.id).and_then(Weak::upgrade) {
            // The client may have seen a newer status than the other streams know.
            sender.send_if_modified(|known| {
                let is_older = known.is_older_than(&latest);
                if is_older {
                    *known = latest;
                }
                is_older
            });
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

/// A stream's view of an export: its status, its changes, and the ends of the stream.
pub struct Follower {
    slot: StreamSlot,
    statuses: Statuses,
    connection: Option<Connection>,
    check: Interval,
}

/// The next thing that a [`Follower`] sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The latest status: it changed, or depends on the time.
    Status,
    /// The connection should close.
    Closing,
    /// The client may no longer see the export.
    Refused,
    /// Another stream of the same client replaces this one.
    Replaced,
    /// The export no longer exists.
    Gone,
}

impl Follower {
    /// Follows an export for a client: a key, or a page of the console. `head` is that of the
    /// stream's request.
    pub async fn open(
        app: &App,
        tx: &mut Tx,
        (job, progress): (Job, Progress),
        client: Uuid,
        head: &Parts,
    ) -> Result<Self, ApiError> {
        let latest = LatestStatus::read(app, tx, &job, progress).await?;
        let slot = app.streams.open(app, &job, client)?;
        let mut check = interval_at(Instant::now() + CHECK_INTERVAL, CHECK_INTERVAL);
        check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let connection = head.extensions.get().cloned();
        Ok(Self { slot, statuses: app.watched.follow(app, job, latest), connection, check })
    }

    /// The latest status. [`changed`](Self::changed) waits for a later one.
    pub fn latest(&mut self) -> LatestStatus {
        self.statuses.borrow_and_update().clone()
    }

    /// Waits for a change. Asks every [`CHECK_INTERVAL`] whether the client may still see the
    /// export. It can be dropped while it waits.
    pub async fn changed<F>(&mut self, is_allowed: impl Fn() -> F) -> Change
    where
        F: Future<Output = bool>,
    {
        loop {
            tokio::select! {
                biased;
                () = should_close(self.connection.as_ref()) => return Change::Closing,
                () = self.slot.replaced() => return Change::Replaced,
                // Before the statuses: also a client of an export that changes all the time is
                // checked.
                _ = self.check.tick() => {}
                changed = self.statuses.changed() => {
                    return if changed.is_ok() { Change::Status } else { Change::Gone };
                }
            }
            if !is_allowed().await {
                return Change::Refused;
            }
        }
    }
}

/// Waits until the connection should close.
async fn should_close(connection: Option<&Connection>) {
    match connection {
        Some(connection) => connection.should_close().await,
        None => std::future::pending().await,
    }
}

/// Reads an export until its end, or until no stream follows it.
async fn watch(app: &App, job: &Job, sender: &watch::Sender<LatestStatus>) {
    let mut pause = FIRST_PAUSE;
    let mut sent_at = Instant::now();
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
                let is_started = latest.progress.started_at.is_some();
                let is_due = is_started && sent_at.elapsed() >= SEND_INTERVAL;
                let is_sent = sender.send_if_modified(|known| {
                    // A stream that was opened during the read may know more.
                    if latest.is_older_than(known) {
                        return false;
                    }
                    let has_changed = latest.progress != known.progress;
                    if has_changed || is_due {
                        *known = latest;
                    }
                    has_changed || is_due
                });
                if is_sent {
                    sent_at = Instant::now();
                }
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
