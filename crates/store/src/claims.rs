//! Rows distributed among workers: which worker may do which work, and for how long.
//!
//! A row of `claims` is one task: an export's part, its finishing, a delivery. A worker claims a
//! few at a time, and holds them with a lease that it renews while it works. It claims them from
//! the workspace with the fewest in progress, and of its jobs from the one with the fewest: so a
//! workspace with many jobs delays no other. `due_at` is the only time of a row: the earliest time
//! to claim it, or, for a claimed row, the end of the lease. A worker that is too late finds
//! another owner in the row, or no row, and [`finish`] rejects its writes. A finished row is
//! deleted. A program ignores rows of a kind that it does not know; they wait for a program that
//! does.
//!
//! Times are from the database's clock, so that a worker with a wrong clock cannot steal work. When
//! that clock is set forward, nothing is taken over for a while ([`database_clock`]).
//!
//! A worker cannot know that it still holds a row: its lease may have expired while its machine was
//! suspended. So before it starts something that must not happen twice, such as a message, it asks
//! for the row's owner, unless it has done so within [`GUARD_AGE`] ([`check_held`]). Who takes over
//! a held row waits for longer than that ([`TAKEOVER_PAUSE`]).
//!
//! [`database_clock`]: crate::database_clock

mod take;

use std::time::Duration;

use uuid::Uuid;

pub use self::take::{Claimed, Skipped, take, take_except};
use crate::{Store, StoreError, Tx, execute, on};
use kit::clock::millis;
use kit::moment::Moment;
use kit::retry::Retry;

/// The kind of a row. Each kind is claimed separately, so that kinds do not block each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind {
    name: &'static str,
    has_single_task: bool,
}

impl Kind {
    /// A kind whose jobs have many tasks.
    pub const fn new(name: &'static str) -> Self {
        Self { name, has_single_task: false }
    }

    /// A kind whose jobs have a single task: a worker that fails one row of it will likely fail
    /// others.
    pub const fn single_task(name: &'static str) -> Self {
        Self { name, has_single_task: true }
    }

    pub fn name(self) -> &'static str {
        self.name
    }

    /// Whether a job has a single task.
    pub fn has_single_task(self) -> bool {
        self.has_single_task
    }
}

/// A job whose rows are offered.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    id: Uuid,
    workspace: i32,
    receiver: Option<Uuid>,
}

impl Job {
    /// A job of a workspace.
    pub fn new(workspace: i32, id: Uuid) -> Self {
        Self { id, workspace, receiver: None }
    }

    /// With the receiver of its rows, which jobs of several workspaces may share.
    pub fn to_receiver(self, receiver: Uuid) -> Self {
        Self { receiver: Some(receiver), ..self }
    }
}

/// A job of no workspace.
impl From<Uuid> for Job {
    fn from(id: Uuid) -> Self {
        Self::new(NO_WORKSPACE, id)
    }
}

/// The workspace of jobs that have none, and of rows that older programs offer.
const NO_WORKSPACE: i32 = 0;

/// How long the beginning of a read of a row's owner may be ago when its work starts something.
pub const GUARD_AGE: Duration = Duration::from_millis(250);

/// How long the new owner of a row waits that another worker held: until that one starts nothing
/// any more, and as long again, so that it can store what it has done.
pub const TAKEOVER_PAUSE: Duration = Duration::from_millis(500);

/// A row that this worker holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    pub kind: Kind,
    pub job: Uuid,
    /// The job's workspace; 0 if it has none, or if an older program offered the row.
    pub workspace: i32,
    pub item: i64,
    /// Number of the attempt, from 1, and from 1 above the next multiple of `WAIT` after each
    /// [`wait`]. Offering the row again resets it to 1.
    pub attempt: i32,
    /// Whether another worker held the row, whose lease had expired.
    pub is_taken_over: bool,
    /// When it was claimed, or just before.
    pub asked_at: Moment,
    /// Identifies this claim: the row must still have this owner for the claim to be valid.
    owner: Uuid,
}

/// The step of [`Claim::attempt`] that a [`wait`] makes. Attempts mark their writes with their
/// numbers, so these must not be used again: a wait cannot count from 1.
const WAIT: i32 = 10_000;

impl Claim {
    /// What the row has as its owner while the claim is valid.
    pub fn owner(&self) -> Uuid {
        self.owner
    }

    /// The attempts since the last wait, with this one.
    pub fn counted_attempts(&self) -> u32 {
        u32::try_from(self.attempt % WAIT).unwrap_or(u32::MAX)
    }

    /// How often the work has waited.
    pub fn waits(&self) -> u32 {
        u32::try_from(self.attempt / WAIT).unwrap_or_default()
    }

    /// All attempts, if each wait followed one.
    pub fn attempts(&self) -> u32 {
        self.waits().saturating_add(self.counted_attempts())
    }
}

/// The SQL of [`Claim::attempts`], of an expression that is a claim's stored number.
pub fn attempts_sql(attempt: &str) -> String {
    format!("(({attempt}) / {WAIT} + ({attempt}) % {WAIT})")
}

#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// The lease expired and another worker has the row, or the row was withdrawn. The work must
    /// not take effect.
    #[error("the claim was lost to another worker, or withdrawn")]
    Lost,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<sqlx::Error> for ClaimError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

impl Retry for ClaimError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Lost => false,
            Self::Store(error) => error.can_retry(),
        }
    }

    fn needs_newer_version(&self) -> bool {
        matches!(self, Self::Store(error) if error.needs_newer_version())
    }
}

/// The database's clock in milliseconds since the epoch. On PostgreSQL also the time at which the
/// statement began, which can be used with an index; for statements outside of transactions.
#[macro_export]
macro_rules! now_sql {
    (postgres) => {
        "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    };
    (postgres_statement) => {
        "(extract(epoch FROM statement_timestamp()) * 1000)::bigint"
    };
    (sqlite) => {
        "CAST(unixepoch('subsec') * 1000 AS INTEGER)"
    };
}

/// Milliseconds since the epoch by the database's clock.
pub async fn now(tx: &mut Tx) -> Result<i64, StoreError> {
    let sql = if tx.is_postgres() {
        concat!("SELECT ", now_sql!(postgres))
    } else {
        concat!("SELECT ", now_sql!(sqlite))
    };
    Ok(on!(tx, c => sqlx::query_scalar(sql).fetch_one(c).await?))
}

/// Offers one row, to be claimed after `delay`. An existing row stays as it is.
pub async fn offer(
    tx: &mut Tx,
    kind: Kind,
    job: impl Into<Job>,
    item: i64,
    delay: Duration,
) -> Result<(), StoreError> {
    offer_range(tx, kind, job, item..item + 1, delay).await
}

/// Number of offered rows of a job after which PostgreSQL analyzes the table, which takes about 30
/// ms.
const ANALYZE_AFTER: i64 = 500;

/// Lets PostgreSQL analyze the table after `rows` were offered, if they are many. Otherwise its
/// statistics may say that the table has no rows of this kind, and each claim sorts all of them.
/// Runs outside of the transaction that offers the rows, which would block others. If it fails,
/// autovacuum does it later.
pub async fn analyze_if_many(store: &Store, rows: i64) {
    let Store::Postgres { pool, .. } = store else { return };
    if rows >= ANALYZE_AFTER
        && let Err(error) = sqlx::query("ANALYZE claims").execute(pool).await
    {
        tracing::debug!(%error, "cannot analyze the claims table");
    }
}

/// Offers the rows of a whole job, numbered by `items`; call [`analyze_if_many`] after the commit.
pub async fn offer_range(
    tx: &mut Tx,
    kind: Kind,
    job: impl Into<Job>,
    items: std::ops::Range<i64>,
    delay: Duration,
) -> Result<(), StoreError> {
    if items.is_empty() {
        return Ok(());
    }
    let due_at = now(tx).await? + millis(delay);
    insert(tx, kind, job.into(), items, due_at).await
}

/// Offers one row, to be claimed at a time of the database's clock. An existing row stays as it is.
pub async fn offer_at(
    tx: &mut Tx,
    kind: Kind,
    job: impl Into<Job>,
    item: i64,
    due_at: i64,
) -> Result<(), StoreError> {
    insert(tx, kind, job.into(), item..item + 1, due_at).await
}

/// Offers one row for now. An existing row is moved to now, unless a worker holds it or has held
/// it.
pub async fn bring_forward(
    tx: &mut Tx,
    kind: Kind,
    job: impl Into<Job>,
    item: i64,
) -> Result<(), StoreError> {
    let max_attempts = 0;
    offer_now(tx, kind, job.into(), item, max_attempts).await?;
    Ok(())
}

/// Offers one row for now. An existing row is moved to now, unless a worker holds it; its attempts
/// still count. Returns whether it was not due before.
pub async fn make_due(
    tx: &mut Tx,
    kind: Kind,
    job: impl Into<Job>,
    item: i64,
) -> Result<bool, StoreError> {
    offer_now(tx, kind, job.into(), item, i32::MAX).await
}

/// Offers one row for now. An existing row is moved to now if no worker holds it and it has had at
/// most this many attempts. Returns whether the row was changed.
async fn offer_now(
    tx: &mut Tx,
    kind: Kind,
    job: Job,
    item: i64,
    max_attempts: i32,
) -> Result<bool, StoreError> {
    let due_at = now(tx).await?;
    let changed = execute!(
        tx,
        sqlx::query(
            "INSERT INTO claims (kind, job, item, due_at, workspace_id, receiver)
             VALUES ($1, $2, $3, $4, $5, $6)
             ON CONFLICT (kind, job, item) DO UPDATE SET due_at = excluded.due_at
             WHERE claims.owner IS NULL AND claims.attempt <= $7
               AND claims.due_at > excluded.due_at",
        )
        .bind(kind.name())
        .bind(job.id)
        .bind(item)
        .bind(due_at)
        .bind(job.workspace)
        .bind(job.receiver)
        .bind(max_attempts)
    );
    tx.offers(kind);
    Ok(changed == 1)
}

async fn insert(
    tx: &mut Tx,
    kind: Kind,
    job: Job,
    items: std::ops::Range<i64>,
    due_at: i64,
) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "WITH RECURSIVE items AS (
             SELECT CAST($3 AS BIGINT) AS item
             UNION ALL SELECT item + 1 FROM items WHERE item + 1 < $4
         )
         INSERT INTO claims (kind, job, item, due_at, workspace_id, receiver)
         SELECT $1, $2, item, $5, $6, $7 FROM items WHERE true
         ON CONFLICT (kind, job, item) DO NOTHING",
        )
        .bind(kind.name())
        .bind(job.id)
        .bind(items.start)
        .bind(items.end)
        .bind(due_at)
        .bind(job.workspace)
        .bind(job.receiver)
    );
    tx.offers(kind);
    Ok(())
}

/// Extends the lease. On [`ClaimError::Lost`], stop the work.
pub async fn renew(store: &Store, claim: &Claim, lease: Duration) -> Result<(), ClaimError> {
    let mut tx = store.write().await?;
    extend(&mut tx, claim, lease).await?;
    Ok(tx.commit().await?)
}

/// The same in the caller's transaction, which only the owner of the claim may commit.
pub async fn extend(tx: &mut Tx, claim: &Claim, lease: Duration) -> Result<(), ClaimError> {
    set_due(tx, claim, lease, Some(claim.owner), None).await
}

/// Records progress in the transaction that writes it: restarts the lease and the count of
/// attempts. On [`ClaimError::Lost`], write nothing.
pub async fn progress(tx: &mut Tx, claim: &Claim, lease: Duration) -> Result<(), ClaimError> {
    set_due(tx, claim, lease, Some(claim.owner), Some(1)).await
}

/// Offers the row again after `delay`, as if it had never been claimed.
pub async fn offer_again(tx: &mut Tx, claim: &Claim, delay: Duration) -> Result<(), ClaimError> {
    set_due(tx, claim, delay, None, Some(0)).await
}

/// Returns the row to others after `delay`, without counting the attempt. Its number is reused, but
/// earlier numbers never are: earlier attempts mark their writes with theirs, and may still be
/// running.
pub async fn release_uncounted(
    store: &Store,
    claim: &Claim,
    delay: Duration,
) -> Result<(), ClaimError> {
    let mut tx = store.write().await?;
    set_due(&mut tx, claim, delay, None, Some(claim.attempt - 1)).await?;
    Ok(tx.commit().await?)
}

/// Returns the row to others after `delay`, and counts attempts from 1 again.
pub async fn wait(store: &Store, claim: &Claim, delay: Duration) -> Result<(), ClaimError> {
    let mut tx = store.write().await?;
    // The last step leaves room for its attempts; with pauses of a minute, it is months away.
    let steps = (claim.attempt / WAIT + 1).min(i32::MAX / WAIT - 1);
    let next = steps * WAIT;
    set_due(&mut tx, claim, delay, None, Some(next)).await?;
    Ok(tx.commit().await?)
}

/// How often a slow store is asked for the owner of a row.
const CHECKS: usize = 3;

/// Fails if another worker may have the row of a claim that was known to be valid at `asked_at`.
/// Call it before the work starts something that must not happen twice.
pub async fn check_held(store: &Store, claim: &Claim, asked_at: Moment) -> Result<(), ClaimError> {
    let mut asked_at = asked_at;
    for _ in 0..CHECKS {
        if asked_at.elapsed() < GUARD_AGE {
            return Ok(());
        }
        // Before the read: its response may wait while this machine is suspended.
        asked_at = Moment::now();
        let mut tx = store.snapshot().await?;
        let owner: Option<Option<Uuid>> = on!(&mut tx, c => sqlx::query_scalar(
            "SELECT owner FROM claims WHERE kind = $1 AND job = $2 AND item = $3",
        )
        .bind(claim.kind.name())
        .bind(claim.job)
        .bind(claim.item)
        .fetch_optional(c)
        .await?);
        tx.commit().await?;
        if owner.flatten() != Some(claim.owner) {
            return Err(ClaimError::Lost);
        }
    }
    Ok(())
}

/// Deletes the row of a finished task, in the transaction that writes the result. This is the only
/// check that rejects the result of a late worker.
///
/// Compares the owner for the reason given at [`set_due`].
pub async fn finish(tx: &mut Tx, claim: &Claim) -> Result<(), ClaimError> {
    let deleted = execute!(
        tx,
        sqlx::query(
            "DELETE FROM claims WHERE kind = $1 AND job = $2 AND item = $3
             AND owner IS NOT DISTINCT FROM $4",
        )
        .bind(claim.kind.name())
        .bind(claim.job)
        .bind(claim.item)
        .bind(claim.owner)
    );
    if deleted == 1 { Ok(()) } else { Err(ClaimError::Lost) }
}

/// Returns the row for now: any worker may claim it after `delay`, as another attempt.
pub async fn postpone(tx: &mut Tx, claim: &Claim, delay: Duration) -> Result<(), ClaimError> {
    set_due(tx, claim, delay, None, None).await
}

/// [`postpone`] in its own transaction.
pub async fn release(store: &Store, claim: &Claim, delay: Duration) -> Result<(), ClaimError> {
    let mut tx = store.write().await?;
    postpone(&mut tx, claim, delay).await?;
    Ok(tx.commit().await?)
}

/// Withdraws all rows of a job; a worker on one of them finds its claim lost.
pub async fn withdraw(tx: &mut Tx, kind: Kind, job: Uuid) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query("DELETE FROM claims WHERE kind = $1 AND job = $2").bind(kind.name()).bind(job)
    );
    Ok(())
}

/// Withdraws one row in the same way as [`withdraw`].
pub async fn withdraw_one(tx: &mut Tx, kind: Kind, job: Uuid, item: i64) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query("DELETE FROM claims WHERE kind = $1 AND job = $2 AND item = $3")
            .bind(kind.name())
            .bind(job)
            .bind(item)
    );
    Ok(())
}

// The owner is compared so that PostgreSQL does not search `claims_held`, which has all rows that
// were held since the last vacuum.
macro_rules! set_due_sql {
    ($now:expr) => {
        concat!(
            "UPDATE claims SET due_at = ",
            $now,
            " + $5, owner = $6, attempt = COALESCE($7, attempt)
             WHERE kind = $1 AND job = $2 AND item = $3 AND owner IS NOT DISTINCT FROM $4"
        )
    };
}

/// Sets the due time and the owner of a row, and the attempts if given.
async fn set_due(
    tx: &mut Tx,
    claim: &Claim,
    delay: Duration,
    owner: Option<Uuid>,
    attempt: Option<i32>,
) -> Result<(), ClaimError> {
    let sql = if tx.is_postgres() {
        set_due_sql!(now_sql!(postgres))
    } else {
        set_due_sql!(now_sql!(sqlite))
    };
    let updated = execute!(
        tx,
        sqlx::query(sql)
            .bind(claim.kind.name())
            .bind(claim.job)
            .bind(claim.item)
            .bind(claim.owner)
            .bind(millis(delay))
            .bind(owner)
            .bind(attempt)
    );
    if updated != 1 {
        return Err(ClaimError::Lost);
    }
    if owner.is_none() {
        tx.offers(claim.kind);
    }
    Ok(())
}
