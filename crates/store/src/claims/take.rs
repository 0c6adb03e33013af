//! Which rows a worker claims next, and claiming them.

use std::time::Duration;

use serde_json::Value;
use sqlx::SqlitePool;
use uuid::Uuid;

use super::{Claim, Kind};
use crate::{Store, StoreError, Tx, now_sql};
use kit::clock::millis;
use kit::moment::Moment;

// $1 is the kind.
//
// Uses the smallest `due_at`, so that PostgreSQL uses the index. For an EXISTS it may scan the
// table from its start, where the deleted rows are. Searches for other jobs before and after the
// first one, because its index entries may point to many removed rows.
macro_rules! due_jobs_sql {
    ($now:expr) => {
        concat!(
            "WITH next AS MATERIALIZED (
                 SELECT due_at - ",
            $now,
            " AS pause, job, workspace_id
                 FROM claims WHERE kind = $1 ORDER BY due_at LIMIT 1)
             SELECT ",
            $now,
            ", pause, job, workspace_id, CASE WHEN pause <= 0 THEN
                 (SELECT job FROM claims
                  WHERE kind = $1 AND job < next.job ORDER BY job DESC LIMIT 1) IS NULL
                 AND (SELECT job FROM claims
                      WHERE kind = $1 AND job > next.job ORDER BY job LIMIT 1) IS NULL
                 ELSE FALSE END
             FROM (SELECT 1) AS one LEFT JOIN next ON TRUE"
        )
    };
}

// $1 is the kind, $2 the limit of a receiver, $3 the jobs to skip, $4 the limit of a workspace at
// one receiver, $5 the workspaces to skip.
//
// The first due row of a job stands for all of them. If few rows are due, only these are read: most
// jobs may wait, such as those that clean up after a day. Otherwise one row of each job is read,
// because the first due rows may all be of one job. Sums are joined, because a subquery for each job
// would read all rows in progress again.
macro_rules! next_sql {
    ($now:expr, $jobs:literal, $workspaces:literal, $least:literal) => {
        concat!(
            "WITH RECURSIVE due_rows AS MATERIALIZED (
                 SELECT job, workspace_id, receiver, due_at FROM claims
                 WHERE kind = $1 AND due_at <= ",
            $now,
            "    ORDER BY due_at LIMIT 100
             ), are_many AS MATERIALIZED (
                 SELECT count(*) = 100 AS are_many FROM due_rows
             ), jobs AS (
                 SELECT (SELECT job FROM claims WHERE kind = $1 ORDER BY job LIMIT 1) AS job
                 FROM are_many WHERE are_many
                 UNION ALL
                 SELECT (SELECT job FROM claims
                         WHERE kind = $1 AND job > jobs.job ORDER BY job LIMIT 1)
                 FROM jobs WHERE jobs.job IS NOT NULL
             ), due AS MATERIALIZED (
                 SELECT job,
                        (SELECT workspace_id FROM claims
                         WHERE kind = $1 AND job = jobs.job ORDER BY due_at LIMIT 1)
                            AS workspace_id,
                        (SELECT receiver FROM claims
                         WHERE kind = $1 AND job = jobs.job ORDER BY due_at LIMIT 1) AS receiver
                 FROM jobs WHERE job IS NOT NULL AND ",
            $jobs,
            " AND (
                     SELECT due_at FROM claims
                     WHERE kind = $1 AND job = jobs.job ORDER BY due_at LIMIT 1) <= ",
            $now,
            "    UNION ALL
                 SELECT job, workspace_id, receiver
                 FROM (SELECT job, workspace_id, receiver,
                              row_number() OVER (PARTITION BY job ORDER BY due_at)
                                  AS number_in_job
                       FROM due_rows CROSS JOIN are_many WHERE NOT are_many) AS of_job
                 WHERE number_in_job = 1 AND ",
            $jobs,
            "
             ), workspaces AS MATERIALIZED (
                 SELECT workspace_id, random() AS turn FROM due WHERE ",
            $workspaces,
            "    GROUP BY workspace_id
             ), busy AS MATERIALIZED (
                 SELECT job, workspace_id, receiver, count(*) AS held FROM claims
                 WHERE kind = $1 AND owner IS NOT NULL AND due_at > ",
            $now,
            "    GROUP BY job, workspace_id, receiver
             ), by_job AS (
                 SELECT job, CAST(sum(held) AS BIGINT) AS held FROM busy GROUP BY job
             ), by_workspace AS (
                 SELECT workspace_id, CAST(sum(held) AS BIGINT) AS held
                 FROM busy GROUP BY workspace_id
             ), by_receiver AS (
                 SELECT COALESCE(receiver, job) AS receiver, CAST(sum(held) AS BIGINT) AS held
                 FROM busy GROUP BY COALESCE(receiver, job)
             ), by_both AS (
                 SELECT workspace_id, receiver, CAST(sum(held) AS BIGINT) AS held
                 FROM busy WHERE receiver IS NOT NULL GROUP BY workspace_id, receiver
             ), candidates AS (
                 SELECT due.job, due.receiver, due.workspace_id, workspaces.turn,
                        COALESCE(by_workspace.held, 0) AS of_workspace,
                        COALESCE(by_job.held, 0) AS of_job,
                        ",
            $least,
            "($2 - COALESCE(by_receiver.held, 0),
                            CASE WHEN due.receiver IS NULL THEN $2
                                 ELSE $4 - COALESCE(by_both.held, 0) END) AS room
                 FROM due
                 JOIN workspaces ON workspaces.workspace_id = due.workspace_id
                 LEFT JOIN by_workspace ON by_workspace.workspace_id = due.workspace_id
                 LEFT JOIN by_job ON by_job.job = due.job
                 LEFT JOIN by_receiver
                     ON by_receiver.receiver = COALESCE(due.receiver, due.job)
                 LEFT JOIN by_both ON by_both.receiver = due.receiver
                     AND by_both.workspace_id = due.workspace_id
             )
             SELECT job, workspace_id, receiver, room,
                    (SELECT count(DISTINCT workspace_id) FROM due) = 1 AS is_only_workspace
             FROM candidates WHERE room > 0
             ORDER BY of_workspace, turn, of_job, random() LIMIT 1"
        )
    };
}

// $1 is the kind, $2 the limit of a receiver, $3 the receiver, $4 the workspace, $5 its limit at
// the receiver.
macro_rules! claimable_sql {
    ($now:expr, $least:literal) => {
        concat!(
            "SELECT ",
            $least,
            "($2 - count(*), $5 - count(CASE WHEN workspace_id = $4 THEN 1 END))
             FROM claims WHERE kind = $1 AND COALESCE(receiver, job) = $3
               AND owner IS NOT NULL AND due_at > ",
            $now
        )
    };
}

// $1 is the kind, $2 the job, $3 the limit, $4 the lease in milliseconds, $5 the owner, $6 the time
// up to which held rows are taken over.
macro_rules! take_sql {
    ($now:expr, $lock:literal, $is_picked:literal, $was_held:literal) => {
        concat!(
            "WITH picked AS (
                 SELECT item, owner IS NOT NULL AS was_held FROM claims
                 WHERE kind = $1 AND job = $2 AND due_at <= ",
            $now,
            "    AND (owner IS NULL OR ",
            $now,
            " <= $6)
                 ORDER BY due_at, item LIMIT $3 ",
            $lock,
            ")
             UPDATE claims SET due_at = $4 + ",
            $now,
            ", owner = $5, attempt = attempt + 1
             WHERE kind = $1 AND job = $2 AND item ",
            $is_picked,
            " RETURNING item, attempt, workspace_id, ",
            $was_held
        )
    };
}

macro_rules! update {
    ($sql:expr, $kind:expr, $job:expr, $limit:expr, $lease:expr, $owner:expr, $until:expr) => {
        sqlx::query_as::<_, TakenRow>($sql)
            .bind($kind.name())
            .bind($job)
            .bind($limit)
            .bind(millis($lease))
            .bind($owner)
            .bind($until)
    };
}

/// Number of jobs to try: others may have claimed all rows of a job, or locked them. Many workers
/// may compete for small jobs while a large job has rows for all.
const MAX_JOBS_TRIED: usize = 8;

/// The result of a query for work.
#[derive(Debug, Default)]
pub struct Claimed {
    pub claims: Vec<Claim>,
    /// The time until the next row of the kind is due, including leases. Zero if a due row cannot
    /// be claimed now. None if there are no rows, or all are of a workspace to skip or that of the
    /// claims.
    pub next: Option<Duration>,
    /// No row of another workspace than that of the claims was due, except of skipped jobs.
    pub is_only_workspace: bool,
}

/// What a worker does not claim for now.
#[derive(Clone, Copy, Debug, Default)]
pub struct Skipped<'a> {
    pub jobs: &'a [Uuid],
    pub workspaces: &'a [i32],
}

/// [`take_except`] without workspaces to skip.
pub async fn take(
    store: &Store,
    kind: Kind,
    limit: u32,
    per_receiver: u32,
    lease: Duration,
    avoided: &[Uuid],
) -> Result<Claimed, StoreError> {
    let skipped = Skipped { jobs: avoided, workspaces: &[] };
    take_except(store, kind, limit, per_receiver, lease, skipped).await
}

/// Claims up to `limit` rows of `kind`, all of one job that is not skipped: of the workspace with
/// the fewest rows in progress, the job with the fewest.
///
/// A receiver has at most `per_receiver` rows in progress, of all jobs together; a job without a
/// receiver counts as one. A workspace gets one fewer of a receiver, if that is not zero, so that
/// its slow rows never use them all.
///
/// Uses two or three short statements, because the fleet does this for each row: a single statement
/// took 7 ms when a job had 4,000 rows.
pub async fn take_except(
    store: &Store,
    kind: Kind,
    limit: u32,
    per_receiver: u32,
    lease: Duration,
    skipped: Skipped<'_>,
) -> Result<Claimed, StoreError> {
    let mut tried = skipped.jobs.to_vec();
    let is_limited = per_receiver != u32::MAX;
    for _ in 0..MAX_JOBS_TRIED {
        let due = due_jobs(store, kind).await?;
        let next = match due {
            DueJobs::Later(next) => return Ok(Claimed { next, ..Claimed::default() }),
            DueJobs::Only(_, workspace) if skipped.workspaces.contains(&workspace) => {
                return Ok(Claimed::default());
            }
            // Usually there is only one job.
            DueJobs::Only(job, workspace) if !is_limited && !tried.contains(&job) => {
                Some(NextJob::only(job, workspace))
            }
            DueJobs::Only(..) | DueJobs::Several => {
                next_job(store, kind, per_receiver, &tried, skipped.workspaces).await?
            }
        };
        let Some(next) = next else { break };
        let claims = if is_limited {
            take_limited(store, kind, &next, per_receiver, limit, lease).await?
        } else {
            let limit = next.claimable.min(limit.into());
            take_of_job(store, kind, next.job, limit, lease).await?
        };
        if !claims.is_empty() {
            let next_row = (due == DueJobs::Several).then_some(Duration::ZERO);
            let is_only_workspace = next.is_only_workspace;
            return Ok(Claimed { claims, next: next_row, is_only_workspace });
        }
        tried.push(next.job);
    }
    Ok(Claimed { next: Some(Duration::ZERO), ..Claimed::default() })
}

/// A job to claim rows of.
struct NextJob {
    job: Uuid,
    workspace: i32,
    receiver: Option<Uuid>,
    /// How many rows of it may be claimed.
    claimable: i64,
    /// Of the jobs that are due and not skipped.
    is_only_workspace: bool,
}

impl NextJob {
    /// The only job of a kind without a limit of receivers.
    fn only(job: Uuid, workspace: i32) -> Self {
        Self { job, workspace, receiver: None, claimable: i64::MAX, is_only_workspace: true }
    }
}

/// The rows of a receiver that one workspace may have in progress.
fn per_workspace(per_receiver: u32) -> i64 {
    i64::from(per_receiver.saturating_sub(1).max(1))
}

/// Whether rows of a kind are due.
#[derive(Debug, PartialEq, Eq)]
enum DueJobs {
    /// A row of the only job with rows of the kind, of this workspace, is due.
    Only(Uuid, i32),
    /// A row is due, and several jobs have rows of the kind, due or not.
    Several,
    /// No row is due; the next one will be after this time.
    Later(Option<Duration>),
}

/// The pause until the first row is due, its job and workspace, and whether it is due and of the
/// only job.
type FirstRow = (i64, Uuid, i32, bool);

/// The database's time, and the first row if there is one.
type Poll = (i64, Option<i64>, Option<Uuid>, Option<i32>, bool);

impl DueJobs {
    fn new(row: Option<FirstRow>) -> Self {
        match row {
            None => Self::Later(None),
            Some((..=0, job, workspace, true)) => Self::Only(job, workspace),
            Some((..=0, ..)) => Self::Several,
            Some((pause, ..)) => Self::Later(Some(Duration::from_millis(pause.unsigned_abs()))),
        }
    }
}

/// Whether a row of a kind is due, or when: the only query of an idle worker, which also compares
/// the clocks. On SQLite it never waits for the write lock.
async fn due_jobs(store: &Store, kind: Kind) -> Result<DueJobs, StoreError> {
    const POSTGRES: &str = due_jobs_sql!(now_sql!(postgres_statement));
    const SQLITE: &str = due_jobs_sql!(now_sql!(sqlite));
    let asked = Moment::now();
    let (now, pause, job, workspace, is_only): Poll = match store {
        Store::Postgres { pool, .. } => {
            sqlx::query_as(POSTGRES).bind(kind.name()).fetch_one(pool).await?
        }
        Store::Sqlite { read, .. } => {
            sqlx::query_as(SQLITE).bind(kind.name()).fetch_one(read).await?
        }
    };
    store.database_clock().compare(now, asked);
    let first = pause.zip(job).zip(workspace);
    Ok(DueJobs::new(first.map(|((pause, job), workspace)| (pause, job, workspace, is_only))))
}

/// The job to claim rows of; none if all are skipped, or their receivers have no room.
async fn next_job(
    store: &Store,
    kind: Kind,
    per_receiver: u32,
    tried: &[Uuid],
    workspaces: &[i32],
) -> Result<Option<NextJob>, StoreError> {
    const POSTGRES: &str = next_sql!(
        now_sql!(postgres_statement),
        "job <> ALL ($3)",
        "workspace_id <> ALL ($5)",
        "LEAST"
    );
    const SQLITE: &str = next_sql!(
        now_sql!(sqlite),
        "job NOT IN (SELECT unhex(value) FROM json_each($3))",
        "workspace_id NOT IN (SELECT value FROM json_each($5))",
        "MIN"
    );
    type Row = (Uuid, i32, Option<Uuid>, i64, bool);
    let per_workspace = per_workspace(per_receiver);
    let per_receiver = i64::from(per_receiver);
    let row: Option<Row> = match store {
        Store::Postgres { pool, .. } => {
            let query = sqlx::query_as(POSTGRES).bind(kind.name()).bind(per_receiver).bind(tried);
            query.bind(per_workspace).bind(workspaces).fetch_optional(pool).await?
        }
        Store::Sqlite { read, .. } => {
            let tried: Value = tried.iter().map(|job| job.simple().to_string()).collect();
            let workspaces = Value::from(workspaces).to_string();
            let query =
                sqlx::query_as(SQLITE).bind(kind.name()).bind(per_receiver).bind(tried.to_string());
            query.bind(per_workspace).bind(workspaces).fetch_optional(read).await?
        }
    };
    Ok(row.map(|(job, workspace, receiver, claimable, is_only_workspace)| NextJob {
        job,
        workspace,
        receiver,
        claimable,
        is_only_workspace,
    }))
}

/// [`take_of_job`] for a job whose receiver is limited. On PostgreSQL, workers that claim for a
/// receiver do so one after another, since each must count what the others claimed. SQLite has one
/// worker.
async fn take_limited(
    store: &Store,
    kind: Kind,
    next: &NextJob,
    per_receiver: u32,
    limit: u32,
    lease: Duration,
) -> Result<Vec<Claim>, StoreError> {
    const CLAIMABLE: &str = claimable_sql!(now_sql!(postgres_statement), "LEAST");
    let Store::Postgres { .. } = store else {
        return take_of_job(store, kind, next.job, next.claimable.min(limit.into()), lease).await;
    };
    let receiver = next.receiver.unwrap_or(next.job);
    let own_limit = match next.receiver {
        Some(_) => per_workspace(per_receiver),
        None => per_receiver.into(),
    };
    let mut tx = store.write().await?;
    let Tx::Postgres(connection) = &mut tx else { return Ok(Vec::new()) };
    // Any number does: two receivers with the same one only wait for each other.
    sqlx::query("SELECT pg_advisory_xact_lock($1)")
        .bind(receiver.as_u64_pair().0 as i64)
        .execute(&mut **connection)
        .await?;
    let claimable: i64 = sqlx::query_scalar(CLAIMABLE)
        .bind(kind.name())
        .bind(i64::from(per_receiver))
        .bind(receiver)
        .bind(next.workspace)
        .bind(own_limit)
        .fetch_one(&mut **connection)
        .await?;
    let (owner, asked_at) = (Uuid::new_v4(), Moment::now());
    let until = store.database_clock().takes_over_until(lease);
    let limit = claimable.clamp(0, limit.into());
    let query = update!(TAKE_POSTGRES, kind, next.job, limit, lease, owner, until);
    let rows = query.fetch_all(&mut **connection).await?;
    tx.commit().await?;
    Ok(into_claims(kind, next.job, (owner, asked_at), rows, &[]))
}

/// Claims rows of a job.
async fn take_of_job(
    store: &Store,
    kind: Kind,
    job: Uuid,
    limit: i64,
    lease: Duration,
) -> Result<Vec<Claim>, StoreError> {
    const SQLITE: &str = take_sql!(now_sql!(sqlite), "", "IN (SELECT item FROM picked)", "FALSE");
    let (owner, asked_at) = (Uuid::new_v4(), Moment::now());
    let until = store.database_clock().takes_over_until(lease);
    // SQLite cannot return the old values of a row, and only one process uses it.
    let (rows, expired) = match store {
        Store::Postgres { pool, .. } => {
            let query = update!(TAKE_POSTGRES, kind, job, limit, lease, owner, until);
            (query.fetch_all(pool).await?, Vec::new())
        }
        Store::Sqlite { read, write, .. } => {
            let expired = expired_items(read, kind, job).await?;
            let query = update!(SQLITE, kind, job, limit, lease, owner, until);
            (query.fetch_all(write).await?, expired)
        }
    };
    Ok(into_claims(kind, job, (owner, asked_at), rows, &expired))
}

// An array, because PostgreSQL might reverse the order of a join.
const TAKE_POSTGRES: &str = take_sql!(
    now_sql!(postgres_statement),
    "FOR UPDATE SKIP LOCKED",
    "= ANY (ARRAY(SELECT item FROM picked))",
    "item = ANY (ARRAY(SELECT item FROM picked WHERE was_held))"
);

/// A claimed row: its item, attempt and workspace, and whether another worker held it.
type TakenRow = (i64, i32, i32, bool);

/// The claims of rows that were taken; counts those that other workers held.
fn into_claims(
    kind: Kind,
    job: Uuid,
    (owner, asked_at): (Uuid, Moment),
    rows: Vec<TakenRow>,
    expired: &[i64],
) -> Vec<Claim> {
    let mut taken_over = 0;
    let mut claims: Vec<Claim> = rows
        .into_iter()
        .map(|(item, attempt, workspace, was_held)| {
            let is_taken_over = was_held || expired.contains(&item);
            taken_over += u64::from(is_taken_over);
            Claim { kind, job, workspace, item, attempt, is_taken_over, asked_at, owner }
        })
        .collect();
    if taken_over > 0 {
        metrics::counter!("longshore_claims_taken_over_total", "kind" => kind.name())
            .increment(taken_over);
    }
    claims.sort_by_key(|claim| claim.item);
    claims
}

/// The rows of a job whose lease expired while a worker held them. Without the name of the index,
/// SQLite reads all waiting rows of the job: with 48,000 of them, each take took 48 ms, not 0.02.
async fn expired_items(pool: &SqlitePool, kind: Kind, job: Uuid) -> Result<Vec<i64>, StoreError> {
    Ok(sqlx::query_scalar(concat!(
        "SELECT item FROM claims INDEXED BY claims_held
         WHERE kind = $1 AND job = $2 AND owner IS NOT NULL AND due_at <= ",
        now_sql!(sqlite)
    ))
    .bind(kind.name())
    .bind(job)
    .fetch_all(pool)
    .await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_poll_returns_when_the_next_row_is_due() {
        let job = Uuid::from_u128(1);
        let row = |pause, is_only| DueJobs::new(Some((pause, job, 3, is_only)));
        assert_eq!([row(0, false), row(-7, false)], [(); 2].map(|()| DueJobs::Several));
        assert_eq!([row(0, true), row(-7, true)], [(); 2].map(|()| DueJobs::Only(job, 3)));
        assert_eq!(row(7, false), DueJobs::Later(Some(Duration::from_millis(7))));
        assert_eq!(DueJobs::new(None), DueJobs::Later(None));
    }
}
