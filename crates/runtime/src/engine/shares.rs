//! Works on claimed rows: claims them when it has capacity, renews their leases, and handles
//! failures.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use rand::RngExt as _;
use tokio::task::{Id, JoinSet};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use uuid::Uuid;

use crate::fairness::Share;
use kit::clock::millis;
use kit::moment::Moment;
use kit::retry::{self, Retry};
use store::claims::{self, Claim, ClaimError, Claimed, Kind, Skipped};
use store::{Store, StoreError, within_timeout};

/// The work on the rows of one kind.
pub trait Handler: Send + Sync + 'static {
    type Error: Retry + Display + Send + Sync;

    const KIND: Kind;

    /// Does the work of one row and deletes it with [`claims::finish`] in the transaction that
    /// writes the result. Checks `stop` between steps; when it is cancelled (the claim was lost, or
    /// the worker must stop) it may return early with any result.
    fn handle(
        &self,
        claim: &Claim,
        stop: &CancellationToken,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// The work cannot succeed: `error` is permanent, or came from the last attempt; without an
    /// error, the worker was lost in every attempt. Must settle the row: delete it, or delay it.
    fn give_up(
        &self,
        claim: &Claim,
        error: Option<&Self::Error>,
    ) -> impl Future<Output = Result<(), ClaimError>> + Send;
}

/// How the rows of one kind are shared.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Rows of this worker in progress. A workspace has at most as many as it leaves free, so that
    /// several workspaces whose work hangs do not stop the work of others.
    pub in_flight: usize,
    /// The most rows of one workspace, if that is fewer.
    pub per_workspace: usize,
    /// Rows for one receiver in progress, in the whole fleet.
    pub per_receiver: u32,
    /// Attempts at a row; after the last failure the work is given up.
    pub attempts: u32,
    /// The first pause between attempts; it doubles up to [`MAX_BACKOFF`].
    pub pause: Duration,
    pub lease: Duration,
    /// Poll interval of an idle worker if offers of other processes do not wake it; otherwise
    /// [`WOKEN_POLL_FACTOR`] times as long.
    pub poll: Duration,
    /// Time limit for work in progress when the worker must stop.
    pub drain: Duration,
}

impl Options {
    /// With this many rows of one workspace in progress, also if another one has one, and twice as
    /// many and one of all.
    pub fn with_workspace_limit(self, per_workspace: usize) -> Self {
        let in_flight = per_workspace.saturating_mul(2).saturating_add(1);
        Self { in_flight, per_workspace, ..self }
    }

    /// How many more rows a workspace with `held` rows may have while `free` rows are free.
    fn left_to(&self, held: usize, free: usize) -> usize {
        let share = Share::halves(self.per_workspace);
        // The first one may take the last row that is free.
        share.more(held, false, free).max(share.more(held, held == 0, free.min(1)))
    }
}

/// The longest pause between two attempts at a row.
pub const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// How many times less often an idle loop polls if offers wake it.
const WOKEN_POLL_FACTOR: u32 = 10;

/// The first pause after a wake-up that found no work; it doubles with each, to
/// [`MAX_EMPTY_BACKOFF`]. When a row wakes a whole fleet, all workers but one find nothing.
const INITIAL_EMPTY_BACKOFF: Duration = Duration::from_millis(5);
const MAX_EMPTY_BACKOFF: Duration = Duration::from_millis(500);

/// How long a row that this worker cannot process stays unclaimed.
const UNPROCESSABLE_PAUSE: Duration = Duration::from_secs(5);

/// How long a worker skips a job that only a newer worker can process.
const NEWER_PAUSE: Duration = Duration::from_secs(5);

/// The same for a job that failed because of this machine's clock.
const CLOCK_PAUSE: Duration = Duration::from_secs(15);

/// A clock that differs this much from the database's is wrong.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(60);

/// How long stopped work may take to return after the end of the drain.
const GRACE: Duration = Duration::from_secs(3);

/// Time limit of a response from the store, before its connection counts as dead.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The maximum time that an attempt may hold a row: work that hangs must not hold it forever.
const MAX_ATTEMPT_TIME: Duration = Duration::from_secs(2 * 60 * 60);

/// Works until `shutdown`, then finishes or returns the work in progress.
pub async fn run<H: Handler>(
    store: Store,
    handler: Arc<H>,
    options: Options,
    shutdown: CancellationToken,
) {
    let stop = CancellationToken::new();
    let avoided = Avoided::default();
    let mut wakes = store.wake().subscribe(H::KIND);
    let mut tasks = Tasks::default();
    let mut failures = 0;
    // Consecutive wake-ups that found no work.
    let (mut is_woken, mut empty_wakeups) = (false, 0);
    while !shutdown.is_cancelled() {
        wakes.mark_unchanged();
        let capacity = tasks.capacity(options);
        let wait =
            match claim_rows(&store, H::KIND, options, capacity, avoided.jobs(), &shutdown).await {
                Ok(claimed) if claimed.claims.is_empty() => {
                    empty_wakeups = if is_woken { empty_wakeups + 1 } else { 0 };
                    idle_pause(claimed.next, options, store.wake().is_listening())
                }
                Ok(claimed) => {
                    (failures, is_woken, empty_wakeups) = (0, false, 0);
                    let workspace = claimed.claims.last().map(|claim| claim.workspace);
                    for claim in claimed.claims {
                        let task = ClaimTask {
                            store: store.clone(),
                            handler: handler.clone(),
                            options,
                            avoided: avoided.clone(),
                        };
                        let span = tracing::info_span!(
                            "claim", kind = H::KIND.name(), job = %claim.job, item = claim.item,
                            attempt = claim.attempts(),
                            // Known once the work has loaded its job.
                            request_id = tracing::field::Empty,
                        );
                        tasks.spawn(
                            claim.workspace,
                            task.run(claim, stop.child_token()).instrument(span),
                        );
                    }
                    let is_full = workspace.is_some_and(|id| tasks.left_to(id, options) == 0);
                    if !(claimed.is_only_workspace && is_full) {
                        continue;
                    }
                    idle_pause(claimed.next, options, store.wake().is_listening())
                }
                Err(error) => {
                    failures += 1;
                    tracing::warn!(kind = H::KIND.name(), %error, "cannot query for work");
                    retry::backoff(failures, options.poll, Duration::from_secs(10))
                }
            };
        let has_capacity = tasks.running.len() < options.in_flight;
        let woken = async {
            let next_query = Moment::now() + empty_wakeup_pause(empty_wakeups);
            // The sender belongs to the store.
            let _changed = wakes.changed().await;
            sleep(next_query.remaining()).await;
        };
        is_woken = false;
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = tasks.next_ended(), if !tasks.running.is_empty() => {}
            () = woken, if has_capacity => is_woken = true,
            () = sleep(wait) => {}
        }
    }
    drain(tasks.running, stop, options.drain).await;
}

/// The rows of this worker in progress, one task each.
#[derive(Default)]
struct Tasks {
    running: JoinSet<()>,
    workspaces: HashMap<Id, i32>,
}

impl Tasks {
    fn spawn(&mut self, workspace: i32, work: impl Future<Output = ()> + Send + 'static) {
        let task = self.running.spawn(work);
        self.workspaces.insert(task.id(), workspace);
    }

    async fn next_ended(&mut self) {
        if let Some(ended) = self.running.join_next_with_id().await {
            self.workspaces.remove(&ended.map_or_else(|error| error.id(), |(id, ())| id));
        }
    }

    /// How many more rows of a workspace may be claimed.
    fn left_to(&self, workspace: i32, options: Options) -> usize {
        let held = self.workspaces.values().filter(|id| **id == workspace).count();
        options.left_to(held, options.in_flight.saturating_sub(self.running.len()))
    }

    /// What may be claimed next.
    fn capacity(&self, options: Options) -> Capacity {
        let mut counts: HashMap<i32, usize> = HashMap::new();
        self.workspaces.values().for_each(|id| *counts.entry(*id).or_default() += 1);
        let free = options.in_flight.saturating_sub(self.running.len());
        let (full, open): (Vec<_>, Vec<_>) =
            counts.into_iter().partition(|(_, count)| options.left_to(*count, free) == 0);
        // The rows may be of any workspace that is not full.
        let rows = open.iter().map(|(_, count)| options.left_to(*count, free));
        Capacity {
            rows: rows.fold(options.left_to(0, free), usize::min),
            full: full.into_iter().map(|(workspace, _)| workspace).collect(),
        }
    }
}

/// What a worker may claim.
struct Capacity {
    /// Rows of any workspace that is not full.
    rows: usize,
    /// Workspaces with as many rows in progress as they may have.
    full: Vec<i32>,
}

/// How long an idle loop waits, unless it is woken: until the next row is due.
fn idle_pause(next: Option<Duration>, options: Options, is_woken: bool) -> Duration {
    let (poll, is_due) = (options.poll, next == Some(Duration::ZERO));
    let longest = if is_woken && !is_due {
        // A worker that polls once per lease knows the end of every lease in time.
        poll.saturating_mul(WOKEN_POLL_FACTOR).min(options.lease.max(poll))
    } else {
        poll
    };
    let pause = longest.mul_f64(rand::rng().random_range(0.8..1.0));
    next.filter(|_| !is_due).map_or(pause, |next| next.min(pause))
}

/// The minimum time between a query without a result and the next one for a wake-up.
fn empty_wakeup_pause(empty_wakeups: u32) -> Duration {
    match empty_wakeups {
        0 => Duration::ZERO,
        count => retry::backoff(count, INITIAL_EMPTY_BACKOFF, MAX_EMPTY_BACKOFF),
    }
}

async fn claim_rows(
    store: &Store,
    kind: Kind,
    options: Options,
    capacity: Capacity,
    avoided: Vec<Uuid>,
    shutdown: &CancellationToken,
) -> Result<Claimed, StoreError> {
    // A few at a time, so that other workers and other jobs get theirs.
    let limit = u32::try_from(capacity.rows.min(4)).unwrap_or(4);
    if limit == 0 {
        return Ok(Claimed::default());
    }
    let store = store.clone();
    let taking = async move {
        let skipped = Skipped { jobs: &avoided, workspaces: &capacity.full };
        let Options { per_receiver, lease, .. } = options;
        claims::take_except(&store, kind, limit, per_receiver, lease, skipped).await
    };
    let timeout = async {
        retry::wait(TIMEOUT, shutdown).await;
        // A stopping worker still waits a little, to return its claimed rows.
        sleep(GRACE).await;
    };
    within_timeout(taking, timeout).await
}

async fn drain(mut tasks: JoinSet<()>, stop: CancellationToken, deadline: Duration) {
    let all_done = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(deadline, all_done).await.is_ok() {
        return;
    }
    stop.cancel();
    let all_stopped = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(GRACE, all_stopped).await.is_err() {
        tracing::warn!(left = tasks.len(), "work did not stop in time; its leases will expire");
    }
}

/// Jobs that this worker cannot process for now, each with the time until which it skips them.
#[derive(Clone, Default)]
struct Avoided(Arc<Mutex<HashMap<Uuid, Moment>>>);

impl Avoided {
    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, Moment>> {
        self.0.lock()
    }

    fn add(&self, job: Uuid, pause: Duration) {
        self.lock().insert(job, Moment::now() + pause);
    }

    fn jobs(&self) -> Vec<Uuid> {
        let mut jobs = self.lock();
        jobs.retain(|_, until| !until.remaining().is_zero());
        jobs.keys().copied().collect()
    }
}

/// The work on one row, from its claim to its end.
struct ClaimTask<H> {
    store: Store,
    handler: Arc<H>,
    options: Options,
    avoided: Avoided,
}

impl<H: Handler> ClaimTask<H> {
    async fn run(self, claim: Claim, stop: CancellationToken) {
        let settled = if claim.counted_attempts() > self.options.attempts {
            tracing::error!("giving up: the worker was lost in every attempt");
            self.handler.give_up(&claim, None).await
        } else {
            self.try_once(claim, stop).await
        };
        match settled {
            Ok(()) => {}
            Err(ClaimError::Lost) => tracing::info!("the claim was lost meanwhile"),
            Err(error) => tracing::warn!(%error, "cannot settle a claim; its lease will expire"),
        }
        // For a receiver at its limit, another row can be claimed now.
        if self.options.per_receiver != u32::MAX {
            self.store.wake().wake(H::KIND);
        }
    }

    async fn try_once(&self, claim: Claim, stop: CancellationToken) -> Result<(), ClaimError> {
        let renewed = CancellationToken::new();
        let (store, lease) = (self.store.clone(), self.options.lease);
        let renewing = renew(store, claim, lease, stop.clone(), renewed.clone());
        tokio::spawn(renewing.in_current_span());
        let _renewed = renewed.drop_guard();
        // In its own task, so that a panic ends only this row's attempt.
        let (handler, token) = (self.handler.clone(), stop.clone());
        let work = async move {
            if claim.is_taken_over {
                retry::wait(claims::TAKEOVER_PAUSE, &token).await;
            }
            handler.handle(&claim, &token).await
        };
        let work = tokio::spawn(work.in_current_span());
        let hangs = async {
            stop.cancelled().await;
            sleep(TIMEOUT).await;
        };
        let result = tokio::select! {
            result = work => result,
            // It continues, because database work is never dropped halfway, but its slot is free.
            () = hangs => {
                tracing::error!("the work did not stop when requested");
                return Err(ClaimError::Lost);
            }
        };
        match result {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => self.handle_failure(&claim, &error, stop.is_cancelled()).await,
            Err(panic) => {
                tracing::error!(%panic, "the work panicked");
                self.release(&claim, self.pause(&claim)).await
            }
        }
    }

    async fn handle_failure(
        &self,
        claim: &Claim,
        error: &H::Error,
        stopped: bool,
    ) -> Result<(), ClaimError> {
        if stopped {
            tracing::info!(%error, "work stopped; returned to the queue");
            return self.release(claim, Duration::ZERO).await;
        }
        if error.needs_newer_version() {
            tracing::warn!(%error, "left for a newer worker");
            return self.leave(claim, NEWER_PAUSE).await;
        }
        if error.is_clock_error() && self.is_clock_wrong().await {
            tracing::error!(%error, "left for a worker with a correct clock");
            return self.leave(claim, CLOCK_PAUSE).await;
        }
        if error.waits() {
            let pause = self.pause(claim);
            tracing::warn!(%error, ?pause, "attempt failed; waiting");
            return self.wait(claim, pause).await;
        }
        let last = claim.counted_attempts() >= self.options.attempts;
        if error.can_retry() && !last {
            let pause = self.pause(claim);
            tracing::warn!(%error, ?pause, "attempt failed; retrying");
            return self.release(claim, pause).await;
        }
        let given_up = self.handler.give_up(claim, Some(error)).await;
        // A lost claim is not a failure: its new owner decides how it ends.
        if !matches!(given_up, Err(ClaimError::Lost)) {
            tracing::error!(%error, last, "work failed permanently");
        }
        given_up
    }

    fn pause(&self, claim: &Claim) -> Duration {
        retry::backoff(claim.attempts(), self.options.pause, MAX_BACKOFF)
    }

    /// Whether this machine's clock is wrong compared with the database's. If it is right, every
    /// worker would be rejected.
    async fn is_clock_wrong(&self) -> bool {
        let store = self.store.clone();
        let query = async move { claims::now(&mut store.snapshot().await?).await };
        match within_timeout(query, sleep(TIMEOUT)).await {
            Ok(now) => (now - Timestamp::now().as_millisecond()).abs() > millis(MAX_CLOCK_SKEW),
            Err(error) => {
                tracing::warn!(%error, "cannot read the database's clock");
                false
            }
        }
    }

    /// Leaves the row, and for `pause` the rest of its job, to other workers.
    async fn leave(&self, claim: &Claim, pause: Duration) -> Result<(), ClaimError> {
        if claim.kind.has_single_task() {
            self.avoided.add(claim.job, pause);
        }
        let (store, claim) = (self.store.clone(), *claim);
        let leaving =
            async move { claims::release_uncounted(&store, &claim, UNPROCESSABLE_PAUSE).await };
        within_timeout(leaving, sleep(TIMEOUT)).await
    }

    async fn wait(&self, claim: &Claim, delay: Duration) -> Result<(), ClaimError> {
        let (store, claim) = (self.store.clone(), *claim);
        let waiting = async move { claims::wait(&store, &claim, delay).await };
        within_timeout(waiting, sleep(TIMEOUT)).await
    }

    async fn release(&self, claim: &Claim, delay: Duration) -> Result<(), ClaimError> {
        let (store, claim) = (self.store.clone(), *claim);
        let releasing = async move { claims::release(&store, &claim, delay).await };
        within_timeout(releasing, sleep(TIMEOUT)).await
    }
}

/// Renews a lease until `done`: regularly, and at once when the database's clock was set forward.
/// Cancels `stop` when the claim is lost, when the store was unreachable for as long as the lease,
/// or when the attempt has lasted too long.
async fn renew(
    store: Store,
    claim: Claim,
    lease: Duration,
    stop: CancellationToken,
    done: CancellationToken,
) {
    let began = Moment::now();
    let mut held_until = began + lease;
    let mut steps = store.database_clock().steps();
    while began.elapsed() < MAX_ATTEMPT_TIME {
        tokio::select! {
            () = retry::wait(lease / 3, &done) => {}
            // The sender belongs to the store.
            _ = steps.changed() => {}
        }
        if done.is_cancelled() {
            return;
        }
        let renewed_at = Moment::now();
        let store = store.clone();
        let renewing = async move { claims::renew(&store, &claim, lease).await };
        match within_timeout(renewing, sleep(held_until.remaining())).await {
            Ok(()) => held_until = renewed_at + lease,
            Err(ClaimError::Lost) => return stop.cancel(),
            Err(ClaimError::Store(error)) => {
                tracing::warn!(%error, "cannot renew a lease");
                if held_until.remaining().is_zero() {
                    return stop.cancel();
                }
            }
        }
    }
    tracing::error!("the work takes too long; its lease is no longer renewed");
    stop.cancel();
}

#[cfg(test)]
mod tests;
