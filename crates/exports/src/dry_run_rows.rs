//! The SQL of dry runs: what past exports say about the next one.

use uuid::Uuid;

use super::State;
use store::{StoreError, Tx, on};

/// How many of the latest exports are searched.
const SEARCHED: i64 = 200;

/// How many past exports an estimate uses.
const USED: i64 = 5;

/// Users of an export below which most of its time is that of its start and end.
const MIN_USERS: i64 = 1_000;

/// Users, bytes of the files and milliseconds of an export that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PastExport {
    pub users: i64,
    pub bytes: i64,
    pub ms: i64,
}

/// What past exports of the same request have in common.
pub(super) struct SameRequest<'a> {
    pub workspace: i32,
    pub segment_id: Uuid,
    /// The fields, as stored.
    pub fields: &'a str,
    pub users_per_file: Option<u32>,
    /// The format, as stored. The ZIP behind `url` has only one.
    pub format: &'a str,
    pub has_own_storage: bool,
    /// The earliest time of the request.
    pub since: i64,
}

/// The latest exports of the same request.
pub(super) async fn past_exports(
    tx: &mut Tx,
    request: &SameRequest<'_>,
) -> Result<Vec<PastExport>, StoreError> {
    let found: Vec<(i64, i64, i64)> = on!(tx, c => sqlx::query_as(
        "SELECT users, finished_at - started_at,
             CAST(coalesce((SELECT sum(bytes_done) FROM export_counts WHERE job_id = latest.id), 0)
                  AS BIGINT)
         FROM (SELECT id, users, state, segment_id, fields, users_per_file, format, storage_id,
                      started_at, finished_at, requested_at
               FROM export_jobs WHERE workspace_id = $1
               ORDER BY requested_at DESC, id DESC LIMIT $2) AS latest
         WHERE state = $3 AND users > 0 AND segment_id = $4 AND fields = $5
           AND coalesce(users_per_file, 0) = $6 AND requested_at >= $7 AND finished_at > started_at
           AND (storage_id IS NOT NULL) = $9 AND (storage_id IS NULL OR format = $10)
         ORDER BY requested_at DESC, id DESC LIMIT $8",
    )
    .bind(request.workspace).bind(SEARCHED).bind(State::Done.name()).bind(request.segment_id)
    .bind(request.fields).bind(i64::from(request.users_per_file.unwrap_or(0)))
    .bind(request.since).bind(USED).bind(request.has_own_storage).bind(request.format)
    .fetch_all(c).await?);
    Ok(found.into_iter().map(|(users, ms, bytes)| PastExport { users, bytes, ms }).collect())
}

/// Users, milliseconds and stored fields of the largest of the installation's latest exports whose
/// plan did not need to read the users.
pub(super) async fn speeds(tx: &mut Tx) -> Result<Vec<(i64, i64, String)>, StoreError> {
    // Ids are in the order of the requests.
    Ok(on!(tx, c => sqlx::query_as(
        r#"SELECT users, finished_at - started_at, fields
         FROM (SELECT id, users, state, fields, plan, started_at, finished_at
               FROM export_jobs ORDER BY id DESC LIMIT $1) AS latest
         WHERE state = $2 AND users >= $3 AND finished_at > started_at
           AND plan NOT LIKE '%"members":%'
         ORDER BY users DESC, id DESC LIMIT $4"#,
    )
    .bind(SEARCHED).bind(State::Done.name()).bind(MIN_USERS).bind(4 * USED).fetch_all(c).await?))
}

/// Exports of the workspace that have not ended. A customer learns nothing about others.
pub(super) async fn unfinished(tx: &mut Tx, workspace: i32) -> Result<i64, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "SELECT count(*) FROM export_jobs WHERE finished_at IS NULL AND workspace_id = $1",
    )
    .bind(workspace).fetch_one(c).await?))
}
