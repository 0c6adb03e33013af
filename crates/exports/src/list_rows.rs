//! The SQL of lists, of a workspace or over all, and of what they show next to the jobs.

use std::collections::HashMap;

use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::audience::AudienceKind;
use super::overview::{Filter, ListPosition};
use super::rows::{JobRow, read, select_small_jobs};
use super::{Job, Progress, State};
use runtime::kinds;
use store::claims::Kind;
use store::{StoreError, Tx, now_sql, on};

/// The kinds of claims with which workers bring a job to its end.
const WORK: [Kind; 3] = [kinds::EXPORT_PLAN, kinds::EXPORT_PART, kinds::EXPORT_FINISH];

/// Ended jobs whose speed is compared, and the minimum number of their users: the speed of a small
/// job is mostly that of its start and end.
const COMPARED_JOBS: i64 = 20;
const COMPARED_USERS: i64 = 1_000;

/// How many of the latest jobs are searched for them.
const SEARCHED_JOBS: i64 = 1_000;

/// The progress of a job, without its plan.
pub(super) async fn progress(tx: &mut Tx, id: Uuid) -> Result<Option<Progress>, StoreError> {
    let row = on!(tx, c => sqlx::query_as::<_, JobRow>(select_small_jobs("WHERE id = $1"))
        .bind(id).fetch_optional(c).await?);
    Ok(row.map(read).transpose()?.map(|(_, progress)| progress))
}

/// The jobs that match the filter, newest first, without large columns (fields and plan).
pub(super) async fn list(tx: &mut Tx, filter: &Filter) -> Result<Vec<(Job, Progress)>, StoreError> {
    let states: Vec<String> =
        filter.states.iter().map(|state| format!("'{}'", state.name())).collect();
    let states = if states.is_empty() {
        String::new()
    } else {
        format!("AND state IN ({})", states.join(", "))
    };
    let audiences = filter.audiences.as_deref().map(audience_condition).unwrap_or_default();
    // Exports in progress are few: their own index is enough.
    let open = if filter.is_open() { "AND finished_at IS NULL" } else { "" };
    let ended = match filter.ended_since {
        Some(since) => format!("AND finished_at >= {since}"),
        None => String::new(),
    };
    // Ids are in the order of the requests. Each order is that of an index, and only the jobs that
    // are found get their sums.
    let (workspace, before, order) = match filter.workspace {
        Some(_) => {
            ("workspace_id = $1", "(requested_at, id) < ($5, $6)", "requested_at DESC, id DESC")
        }
        None => ("$1 IS NULL AND $5 IS NOT NULL", "id < $6", "id DESC"),
    };
    let clauses = format!(
        "WHERE id IN (SELECT id FROM export_jobs
             WHERE {workspace} AND requested_at >= $2 AND requested_at <= $3
               AND {before} {open} {ended} {states} {audiences}
             ORDER BY {order} LIMIT $4)
         ORDER BY {order}"
    );
    let before = filter.before.unwrap_or(ListPosition::START);
    on!(tx, c => sqlx::query_as::<_, JobRow>(select_small_jobs(&clauses))
        .bind(filter.workspace).bind(filter.since.unwrap_or(i64::MIN))
        .bind(filter.until.unwrap_or(i64::MAX)).bind(filter.limit)
        .bind(before.requested_at).bind(before.id)
        .fetch_all(c).await?)
    .into_iter()
    .map(read)
    .collect()
}

/// The condition for jobs with these kinds of audiences.
fn audience_condition(kinds: &[AudienceKind]) -> String {
    let conditions = kinds.iter().map(|kind| match kind {
        AudienceKind::ControlGroup => "audience IS NULL",
        AudienceKind::Segment => r#"audience = '"segment"'"#,
        AudienceKind::Connected => "audience LIKE '{%'",
    });
    let conditions: Vec<&str> = ["FALSE"].into_iter().chain(conditions).collect();
    format!("AND ({})", conditions.join(" OR "))
}

/// How many claims of each job workers hold now.
pub(super) async fn held_claims(tx: &mut Tx) -> Result<HashMap<Uuid, i64>, StoreError> {
    let now = if tx.is_postgres() { now_sql!(postgres) } else { now_sql!(sqlite) };
    let kinds = WORK.map(|kind| format!("'{}'", kind.name())).join(", ");
    let sql = format!(
        "SELECT job, count(*) FROM claims
         WHERE kind IN ({kinds}) AND owner IS NOT NULL AND due_at > {now} GROUP BY job"
    );
    Ok(on!(tx, c => sqlx::query_as::<_, (Uuid, i64)>(AssertSqlSafe(sql.clone()))
        .fetch_all(c).await?)
    .into_iter()
    .collect())
}

/// Users and milliseconds of the latest jobs that are done.
pub(super) async fn latest_speeds(tx: &mut Tx) -> Result<Vec<(i64, i64)>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as::<_, (i64, i64)>(
        "SELECT users, completed_at - started_at
         FROM (SELECT id, users, state, started_at, completed_at
               FROM export_jobs ORDER BY id DESC LIMIT $4) AS latest
         WHERE state = $1 AND users >= $2 AND completed_at > started_at
         ORDER BY id DESC LIMIT $3",
    )
    .bind(State::Done.name()).bind(COMPARED_USERS).bind(COMPARED_JOBS).bind(SEARCHED_JOBS)
    .fetch_all(c).await?))
}

/// The operator's text of a job's error.
pub(super) async fn error_detail(tx: &mut Tx, id: Uuid) -> Result<Option<String>, StoreError> {
    let detail: Option<Option<String>> = on!(tx, c => sqlx::query_scalar(
        "SELECT error_detail FROM export_jobs WHERE id = $1",
    )
    .bind(id).fetch_optional(c).await?);
    Ok(detail.flatten())
}
