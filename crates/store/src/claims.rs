//! Rows distributed among workers: which worker may do which work, and for how long.
//!
//! A row of `claims` is one task: an export's part, its finishing, a delivery. A worker claims a
//! few at a time, from the job with the fewest in progress, and holds them with a lease that it
//! renews while it works. `due_at` is the only time of a row: the earliest time to claim it, or,
//! for a claimed row, the end of the lease. A worker that is too late finds another owner in the
//! row, or no row, and [`finish`] rejects its writes. A finished row is deleted. A program ignores
//! rows of a kind that it does not know; they wait for a program that does.
//!
//! Times are from the database's clock, so that a worker with a wrong clock cannot steal work.

use std::time::Duration;

use serde_json::Value;
use sqlx::SqlitePool;
use uuid::Uuid;

use crate::{Store, StoreError, Tx, execute, on};
use kit::clock::millis;
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

/// A row that this worker holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    pub kind: Kind,
    pub job: Uuid,
    pub item: i64,
    /// Number of the attempt, from 1. Offering the row again resets it to 1.
    pub attempt: i32,
    /// Identifies this claim: the row must still have this owner for the claim to be valid.
    owner: Uuid,
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
    job: Uuid,
    item: i64,
    delay: Duration,
) -> Result<(), StoreError> {
    offer_range(tx, kind, job, item..item + 1, delay).await
}

/// Number of offered rows of a job after which PostgreSQL analyzes the table, which takes about 30
/// ms.
const MANY: i64 = 500;

/// Lets PostgreSQL analyze the table after `rows` were offered, if they are many. Otherwise its
/// statistics may say that the table has no rows of this kind, and each claim sorts all of them.
/// Runs outside of the transaction that offers the rows, which would block others. If it fails,
/// autovacuum does it later.
pub async fn analyze_if_many(store: &Store, rows: i64) {
    let Store::Postgres { pool, .. } = store else { return };
    if rows >= MANY
        && let Err(error) = sqlx::query("ANALYZE claims").execute(pool).await
    {
        tracing::debug!(%error, "cannot analyze the claims table");
    }
}

/// Offers the rows of a whole job, numbered by `items`; call [`analyze_if_many`] after the commit.
pub async fn offer_range(
    tx: &mut Tx,
    kind: Kind,
    job: Uuid,
    items: std::ops::Range<i64>,
    delay: Duration,
) -> Result<(), StoreError> {
    if items.is_empty() {
        return Ok(());
    }
    let due_at = now(tx).await? + millis(delay);
    insert(tx, kind, job, items, due_at).await
}

/// Offers one row, to be claimed at a time of the database's clock. An existing row stays as it is.
pub async fn offer_at(
    tx: &mut Tx,
    kind: Kind,
    job: Uuid,
    item: i64,
    due_at: i64,
) -> Result<(), StoreError> {
    insert(tx, kind, job, item..item + 1, due_at).await
}

/// Offers one row for now. An existing row is moved to now, unless a worker holds it or has held
/// it.
pub async fn bring_forward(
    tx: &mut Tx,
    kind: Kind,
    job: Uuid,
    item: i64,
) -> Result<(), StoreError> {
    let due_at = now(tx).await?;
    execute!(
        tx,
        sqlx::query(
            "INSERT INTO claims (kind, job, item, due_at) VALUES ($1, $2, $3, $4)
             ON CONFLICT (kind, job, item) DO UPDATE SET due_at = excluded.due_at
             WHERE claims.owner IS NULL AND claims.attempt = 0
               AND claims.due_at > excluded.due_at",
        )
        .bind(kind.name())
        .bind(job)
        .bind(item)
        .bind(due_at)
    );
    tx.offers(kind);
    Ok(())
}

async fn insert(
    tx: &mut Tx,
    kind: Kind,
    job: Uuid,
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
         INSERT INTO claims (kind, job, item, due_at)
         SELECT $1, $2, item, $5 FROM items WHERE true
         ON CONFLICT (kind, job, item) DO NOTHING",
        )
        .bind(kind.name())
        .bind(job)
        .bind(items.start)
        .bind(items.end)
        .bind(due_at)
    );
    tx.offers(kind);
    Ok(())
}

// Uses the smallest `due_at`, so that PostgreSQL uses the index. For an EXISTS it may scan the
// table from its start, where the deleted rows are.
macro_rules! due_jobs_sql {
    ($now:expr) => {
        concat!(
            "WITH next AS MATERIALIZED (
                 SELECT (SELECT due_at FROM claims WHERE kind = $1 ORDER BY due_at LIMIT 1) - ",
            $now,
            " AS pause)
             SELECT pause,
                    CASE WHEN pause <= 0 THEN
                        (SELECT job FROM claims WHERE kind = $1 ORDER BY job LIMIT 1) END,
                    CASE WHEN pause <= 0 THEN
                        (SELECT job FROM claims WHERE kind = $1 ORDER BY job DESC LIMIT 1) END
             FROM next WHERE pause IS NOT NULL"
        )
    };
}

macro_rules! next_sql {
    ($now:expr, $others:literal) => {
        concat!(
            "WITH RECURSIVE jobs AS (
                 SELECT (SELECT job FROM claims WHERE kind = $1 ORDER BY job LIMIT 1) AS job
                 UNION ALL
                 SELECT (SELECT job FROM claims
                         WHERE kind = $1 AND job > jobs.job ORDER BY job LIMIT 1)
                 FROM jobs WHERE jobs.job IS NOT NULL
             ), due AS MATERIALIZED (
                 SELECT job, (SELECT count(*) FROM claims
                              WHERE kind = $1 AND job = jobs.job
                                AND owner IS NOT NULL AND due_at > ",
            $now,
            ") AS held
                 FROM jobs WHERE job IS NOT NULL AND ",
            $others,
            " AND (
                     SELECT due_at FROM claims
                     WHERE kind = $1 AND job = jobs.job ORDER BY due_at LIMIT 1) <= ",
            $now,
            ")
             SELECT job, held FROM due WHERE held < $2 ORDER BY held, random() LIMIT 1"
        )
    };
}

macro_rules! take_sql {
    ($now:expr, $lock:literal, $is_picked:literal, $was_held:literal) => {
        concat!(
            "WITH picked AS (
                 SELECT item, owner IS NOT NULL AS was_held FROM claims
                 WHERE kind = $1 AND job = $2 AND due_at <= ",
            $now,
            "    ORDER BY due_at, item LIMIT $3 ",
            $lock,
            ")
             UPDATE claims SET due_at = $4 + ",
            $now,
            ", owner = $5, attempt = attempt + 1
             WHERE kind = $1 AND job = $2 AND item ",
            $is_picked,
            " RETURNING item, attempt, ",
            $was_held
        )
    };
}

/// Number of jobs to try: others may have claimed all rows of a job, or locked them.
const LOOKS: usize = 3;

/// The result of a query for work.
#[derive(Debug, Default)]
pub struct Claimed {
    pub claims: Vec<Claim>,
    /// If no row was claimed: the time until the next row of the kind is due, including leases.
    /// Zero if a due row cannot be claimed now. None if there are no rows.
    pub next: Option<Duration>,
}

/// Claims up to `limit` rows of `kind`, all of one job that is not in `avoided`: the job with the
/// fewest rows in progress. A job has at most `per_job` rows in progress (or one round more if two
/// workers claim at the same moment).
///
/// Uses two or three short statements without a transaction, because the fleet does this for each
/// row: a single statement took 7 ms when a job had 4,000 rows.
pub async fn take(
    store: &Store,
    kind: Kind,
    limit: u32,
    per_job: u32,
    lease: Duration,
    avoided: &[Uuid],
) -> Result<Claimed, StoreError> {
    let mut tried = avoided.to_vec();
    for _ in 0..LOOKS {
        let (first, last) = match due_jobs(store, kind).await? {
            DueJobs::Due(first, last) => (first, last),
            DueJobs::Later(next) => return Ok(Claimed { claims: Vec::new(), next }),
        };
        // Usually there is only one job.
        let next = match first == last && per_job == u32::MAX && tried.is_empty() {
            true => Some((first, 0)),
            false => next_job(store, kind, per_job, &tried).await?,
        };
        let Some((job, held)) = next else { break };
        let room = i64::from(per_job) - held;
        let claims = take_of(store, kind, job, room.min(limit.into()), lease).await?;
        if !claims.is_empty() {
            return Ok(Claimed { claims, next: None });
        }
        tried.push(job);
    }
    Ok(Claimed { claims: Vec::new(), next: Some(Duration::ZERO) })
}

/// The rows of a kind.
#[derive(Debug, PartialEq, Eq)]
enum DueJobs {
    /// A row is due; these are the first and the last job with due rows.
    Due(Uuid, Uuid),
    /// No row is due; the next one will be after this time.
    Later(Option<Duration>),
}

impl DueJobs {
    fn new(found: Option<(i64, Option<Uuid>, Option<Uuid>)>) -> Self {
        match found {
            Some((..=0, Some(first), Some(last))) => Self::Due(first, last),
            // Other workers claimed all of them in between.
            Some((..=0, ..)) | None => Self::Later(None),
            Some((pause, ..)) => Self::Later(Some(Duration::from_millis(pause.unsigned_abs()))),
        }
    }
}

/// Whether a row of a kind is due, or when: the only query of an idle worker. On SQLite it never
/// waits for the write lock.
async fn due_jobs(store: &Store, kind: Kind) -> Result<DueJobs, StoreError> {
    const POSTGRES: &str = due_jobs_sql!(now_sql!(postgres_statement));
    const SQLITE: &str = due_jobs_sql!(now_sql!(sqlite));
    Ok(DueJobs::new(match store {
        Store::Postgres { pool, .. } => {
            sqlx::query_as(POSTGRES).bind(kind.name()).fetch_optional(pool).await?
        }
        Store::Sqlite { read, .. } => {
            sqlx::query_as(SQLITE).bind(kind.name()).fetch_optional(read).await?
        }
    }))
}

/// The job with the fewest rows in progress, of those with a due row and below the limit, and the
/// number of these rows; ignores the jobs that were tried.
async fn next_job(
    store: &Store,
    kind: Kind,
    per_job: u32,
    tried: &[Uuid],
) -> Result<Option<(Uuid, i64)>, StoreError> {
    const POSTGRES: &str = next_sql!(now_sql!(postgres_statement), "job <> ALL ($3)");
    const SQLITE: &str =
        next_sql!(now_sql!(sqlite), "job NOT IN (SELECT unhex(value) FROM json_each($3))");
    let per_job = i64::from(per_job);
    Ok(match store {
        Store::Postgres { pool, .. } => {
            let query = sqlx::query_as(POSTGRES).bind(kind.name()).bind(per_job).bind(tried);
            query.fetch_optional(pool).await?
        }
        Store::Sqlite { read, .. } => {
            let tried: Value = tried.iter().map(|job| job.simple().to_string()).collect();
            let query = sqlx::query_as(SQLITE).bind(kind.name()).bind(per_job);
            query.bind(tried.to_string()).fetch_optional(read).await?
        }
    })
}

async fn take_of(
    store: &Store,
    kind: Kind,
    job: Uuid,
    limit: i64,
    lease: Duration,
) -> Result<Vec<Claim>, StoreError> {
    // An array, because PostgreSQL might reverse the order of a join.
    const POSTGRES: &str = take_sql!(
        now_sql!(postgres_statement),
        "FOR UPDATE SKIP LOCKED",
        "= ANY (ARRAY(SELECT item FROM picked))",
        "item = ANY (ARRAY(SELECT item FROM picked WHERE was_held))"
    );
    const SQLITE: &str = take_sql!(now_sql!(sqlite), "", "IN (SELECT item FROM picked)", "FALSE");
    let owner = Uuid::new_v4();
    macro_rules! taken {
        ($sql:expr, $by:expr) => {
            sqlx::query_as::<_, (i64, i32, bool)>($sql)
                .bind(kind.name())
                .bind(job)
                .bind(limit)
                .bind(millis(lease))
                .bind(owner)
                .fetch_all($by)
                .await?
        };
    }
    // SQLite cannot return the old values of a row, and only one process uses it.
    let (rows, out_of_time) = match store {
        Store::Postgres { pool, .. } => (taken!(POSTGRES, pool), Vec::new()),
        Store::Sqlite { read, write, .. } => {
            let out_of_time = out_of_time(read, kind, job).await?;
            (taken!(SQLITE, write), out_of_time)
        }
    };
    let mut taken_over = 0;
    let mut claims: Vec<Claim> = rows
        .into_iter()
        .map(|(item, attempt, was_held)| {
            taken_over += u64::from(was_held || out_of_time.contains(&item));
            Claim { kind, job, item, attempt, owner }
        })
        .collect();
    if taken_over > 0 {
        metrics::counter!("longshore_claims_taken_over_total", "kind" => kind.name())
            .increment(taken_over);
    }
    claims.sort_by_key(|claim| claim.item);
    Ok(claims)
}

/// The rows of a job whose lease expired while a worker held them.
async fn out_of_time(pool: &SqlitePool, kind: Kind, job: Uuid) -> Result<Vec<i64>, StoreError> {
    Ok(sqlx::query_scalar(concat!(
        "SELECT item FROM claims WHERE kind = $1 AND job = $2 AND owner IS NOT NULL AND due_at <= ",
        now_sql!(sqlite)
    ))
    .bind(kind.name())
    .bind(job)
    .fetch_all(pool)
    .await?)
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
    finish(tx, claim).await?;
    Ok(offer(tx, claim.kind, claim.job, claim.item, delay).await?)
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

/// Deletes the row of a finished task, in the transaction that writes the result. This is the only
/// check that rejects the result of a late worker.
///
/// Compares the owner for the reason given at [`set_due`].
pub async fn finish(tx: &mut Tx, claim: &Claim) -> Result<(), ClaimError> {
    let gone = execute!(
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
    if gone == 1 { Ok(()) } else { Err(ClaimError::Lost) }
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

/// Withdraws the rows of a job that no worker has claimed. A worker that holds one finishes it.
pub async fn withdraw_unheld(tx: &mut Tx, kind: Kind, job: Uuid) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query("DELETE FROM claims WHERE kind = $1 AND job = $2 AND owner IS NULL")
            .bind(kind.name())
            .bind(job)
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
    let held = execute!(
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
    if held != 1 {
        return Err(ClaimError::Lost);
    }
    if owner.is_none() {
        tx.offers(claim.kind);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_poll_returns_when_the_next_row_is_due() {
        let (first, last) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let due = |pause| DueJobs::new(Some((pause, Some(first), Some(last))));
        assert_eq!([due(0), due(-7)], [(); 2].map(|()| DueJobs::Due(first, last)));
        let later = DueJobs::Later(Some(Duration::from_millis(7)));
        assert_eq!(DueJobs::new(Some((7, None, None))), later);
        assert_eq!(DueJobs::new(None), DueJobs::Later(None));
        assert_eq!(DueJobs::new(Some((0, None, None))), DueJobs::Later(None));
    }
}
