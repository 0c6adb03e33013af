//! Works on claimed rows: takes them as places come free, renews their leases, and deals
//! with what fails.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt as _;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use uuid::Uuid;

use crate::claims::{self, Claim, ClaimError, Kind};
use crate::retry::{self, Retry};
use crate::store::{Store, StoreError};

/// What is done with the rows of one kind.
pub trait Work: Send + Sync + 'static {
    type Error: Retry + Display + Send + Sync;

    const KIND: Kind;

    /// Does the work of one row and removes it with [`claims::finish`] in the transaction
    /// that writes the result. Between steps it looks at `stop`, and when that is
    /// cancelled (the claim was lost, or the worker must end) it may return early with
    /// anything.
    fn run(
        &self,
        claim: &Claim,
        stop: &CancellationToken,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// The row cannot be done: `error` is permanent, or was the last attempt's; without
    /// one, every attempt ended its worker before it could say why. Must remove the row.
    fn give_up(
        &self,
        claim: &Claim,
        error: Option<&Self::Error>,
    ) -> impl Future<Output = Result<(), ClaimError>> + Send;
}

/// How the rows of one kind are shared.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Rows of this worker under way at once.
    pub in_flight: usize,
    /// Rows of one job under way at once, over the fleet.
    pub per_job: u32,
    /// Tries of a row; when the last one fails the work gives up.
    pub attempts: u32,
    /// The first pause between tries; it doubles up to [`LONGEST_PAUSE`].
    pub pause: Duration,
    pub lease: Duration,
    /// Between looks for rows while idle.
    pub poll: Duration,
    /// For what is under way when the worker must end.
    pub drain: Duration,
}

/// The longest pause between two tries of a row.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// After the drain's end, how long stopped work may take to return.
const GRACE: Duration = Duration::from_secs(3);

/// Rung when something was done, since that may have offered new rows: loops of the same
/// process look at once instead of at their next poll.
#[derive(Clone)]
pub struct Bell(watch::Sender<()>);

impl Default for Bell {
    fn default() -> Self {
        Self(watch::Sender::new(()))
    }
}

impl Bell {
    pub fn ring(&self) {
        self.0.send_replace(());
    }
}

/// Takes and works until `shutdown`, then finishes or hands back what is under way.
pub async fn run<W: Work>(
    store: Store,
    work: Arc<W>,
    terms: Terms,
    bell: Bell,
    shutdown: CancellationToken,
) {
    let owner = Uuid::new_v4();
    let stop = CancellationToken::new();
    let mut rings = bell.0.subscribe();
    let mut tasks = JoinSet::new();
    let mut failures = 0;
    while !shutdown.is_cancelled() {
        rings.mark_unchanged();
        let wait = match take(&store, W::KIND, owner, terms, terms.in_flight - tasks.len()).await {
            Ok(claims) if claims.is_empty() => {
                terms.poll.mul_f64(rand::rng().random_range(0.8..1.2))
            }
            Ok(claims) => {
                failures = 0;
                for claim in claims {
                    let one =
                        One { store: store.clone(), work: work.clone(), terms, bell: bell.clone() };
                    let span = tracing::info_span!(
                        "claim", kind = W::KIND.name(), job = %claim.job, item = claim.item,
                        attempt = claim.attempt,
                        // Known once the work has loaded its job.
                        request_id = tracing::field::Empty,
                    );
                    tasks.spawn(one.run(claim, stop.child_token()).instrument(span));
                }
                continue;
            }
            Err(error) => {
                failures += 1;
                tracing::warn!(kind = W::KIND.name(), %error, "cannot look for work");
                retry::pause(failures, terms.poll, Duration::from_secs(10))
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => {}
            _ = tasks.join_next(), if !tasks.is_empty() => {}
            _ = rings.changed(), if tasks.len() < terms.in_flight => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
    drain(tasks, stop, terms.drain).await;
}

async fn take(
    store: &Store,
    kind: Kind,
    owner: Uuid,
    terms: Terms,
    free: usize,
) -> Result<Vec<Claim>, StoreError> {
    // A few at a time, so that other workers and other jobs get theirs.
    let limit = u32::try_from(free.min(4)).unwrap_or(4);
    if limit == 0 {
        return Ok(Vec::new());
    }
    claims::take(store, kind, owner, limit, terms.per_job, terms.lease).await
}

async fn drain(mut tasks: JoinSet<()>, stop: CancellationToken, deadline: Duration) {
    let all_done = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(deadline, all_done).await.is_ok() {
        return;
    }
    stop.cancel();
    let all_stopped = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(GRACE, all_stopped).await.is_err() {
        tracing::warn!(left = tasks.len(), "work did not stop in time; its leases will run out");
    }
}

/// One row's work, from taking to the end.
struct One<W> {
    store: Store,
    work: Arc<W>,
    terms: Terms,
    bell: Bell,
}

impl<W: Work> One<W> {
    async fn run(self, claim: Claim, stop: CancellationToken) {
        let settled = if self.attempt(&claim) > self.terms.attempts {
            tracing::error!("every attempt ended its worker");
            self.work.give_up(&claim, None).await
        } else {
            self.try_once(claim, stop).await
        };
        match settled {
            Ok(()) => {}
            Err(ClaimError::Lost) => tracing::info!("the claim was lost on the way"),
            Err(error) => tracing::warn!(%error, "cannot settle a claim; its lease will run out"),
        }
        self.bell.ring();
    }

    async fn try_once(&self, claim: Claim, stop: CancellationToken) -> Result<(), ClaimError> {
        let renewal = CancellationToken::new();
        let renewing = tokio::spawn(renew(
            self.store.clone(),
            claim,
            self.terms.lease,
            stop.clone(),
            renewal.clone(),
        ));
        // In a task of its own, so that a panic ends this row's try and nothing else.
        let (work, token) = (self.work.clone(), stop.clone());
        let result = tokio::spawn(
            async move { work.run(&claim, &token).await }.instrument(tracing::Span::current()),
        )
        .await;
        renewal.cancel();
        let _ = renewing.await;
        match result {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => self.failed(&claim, &error, stop.is_cancelled()).await,
            Err(panic) => {
                tracing::error!(%panic, "the work panicked");
                self.put_off(&claim, self.pause(&claim)).await
            }
        }
    }

    async fn failed(
        &self,
        claim: &Claim,
        error: &W::Error,
        stopped: bool,
    ) -> Result<(), ClaimError> {
        if stopped {
            tracing::info!(%error, "stopped; handing back");
            return self.put_off(claim, Duration::ZERO).await;
        }
        let last = self.attempt(claim) >= self.terms.attempts;
        if error.can_retry() && !last {
            let pause = self.pause(claim);
            tracing::warn!(%error, pause_ms = pause.as_millis() as u64, "failed; will try again");
            return self.put_off(claim, pause).await;
        }
        tracing::error!(%error, last, "failed for good");
        self.work.give_up(claim, Some(error)).await
    }

    fn attempt(&self, claim: &Claim) -> u32 {
        u32::try_from(claim.attempt).unwrap_or(u32::MAX)
    }

    fn pause(&self, claim: &Claim) -> Duration {
        retry::pause(self.attempt(claim), self.terms.pause, LONGEST_PAUSE)
    }

    async fn put_off(&self, claim: &Claim, delay: Duration) -> Result<(), ClaimError> {
        let mut tx = self.store.write().await?;
        claims::put_off(&mut tx, claim, delay).await?;
        Ok(tx.commit().await?)
    }
}

/// Renews a lease until `done`. Cancels `stop` when the claim is lost, or when the lease
/// must be taken for lost because the store could not be reached for as long.
async fn renew(
    store: Store,
    claim: Claim,
    lease: Duration,
    stop: CancellationToken,
    done: CancellationToken,
) {
    let mut held_until = Instant::now() + lease;
    loop {
        tokio::select! {
            () = done.cancelled() => return,
            () = tokio::time::sleep(lease / 3) => {}
        }
        let asked = Instant::now();
        match claims::renew(&store, &claim, lease).await {
            Ok(()) => held_until = asked + lease,
            Err(ClaimError::Lost) => return stop.cancel(),
            Err(ClaimError::Store(error)) => {
                tracing::warn!(%error, "cannot renew a lease");
                if Instant::now() >= held_until {
                    return stop.cancel();
                }
            }
        }
    }
}
