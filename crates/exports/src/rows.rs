//! The SQL of jobs. Every change of state is one guarded statement: it checks the previous state,
//! and returns whether it changed it.
//!
//! A transaction that writes several of them writes to a part first, then to a shard of the counts,
//! to the job, and to its claims, so that transactions do not deadlock.

use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::count_rows;
use super::part_rows::PartColumns;
use super::{Audience, Failure, Format, Job, Plan, Progress, State};
use runtime::kinds;
use store::documents::{parsed, unknown};
use store::retention::OldRows;
use store::{Store, StoreError, Tx, execute, from_row, old_rows, on, to_json};

pub use super::part_rows::{
    ListedPart, PartResult, PartRow, Winner, broken_users, insert_parts, list_parts, winners,
};

/// The stored columns of a request.
struct JobColumns {
    id: Uuid,
    workspace_id: i32,
    object_prefix: String,
    audience: Option<String>,
    segment_id: Uuid,
    users_per_file: Option<i64>,
    fields: String,
    format: String,
    storage_id: Option<Uuid>,
    destination: Option<String>,
    callback_endpoint: Option<String>,
    request_id: String,
    requested_at: i64,
}
from_row! {
    JobColumns {
        id, workspace_id, object_prefix, audience, segment_id, users_per_file, fields, format,
        storage_id, destination, callback_endpoint, request_id, requested_at,
    }
}

pub(super) struct JobRow {
    job: JobColumns,
    state: String,
    plan: Option<String>,
    users: Option<i64>,
    parts: Option<i64>,
    parts_left: Option<i64>,
    users_done: i64,
    files_done: i64,
    bytes_done: i64,
    broken_users: i64,
    started_at: Option<i64>,
    late_at: Option<i64>,
    completed_at: Option<i64>,
    finished_at: Option<i64>,
    expires_at: Option<i64>,
    archive: Option<i32>,
    manifest_sha256: Option<Vec<u8>>,
    error: Option<String>,
}
from_row! {
    JobRow {
        state, plan, users, parts, parts_left, users_done, files_done, bytes_done, broken_users,
        started_at, late_at, completed_at, finished_at, expires_at, archive,
        manifest_sha256, error,
    } flatten { job }
}

/// The query of [`JobRow`]s; `clauses` follow FROM.
fn select_jobs(clauses: &str) -> AssertSqlSafe<String> {
    select_jobs_with("fields", "plan", clauses)
}

/// The same without the large columns: no fields, and no plan.
pub(super) fn select_small_jobs(clauses: &str) -> AssertSqlSafe<String> {
    select_jobs_with("'[]'", "CAST(NULL AS TEXT)", clauses)
}

fn select_jobs_with(fields: &str, plan: &str, clauses: &str) -> AssertSqlSafe<String> {
    let parts_left = sum_of_shards("parts_left");
    let users_done = sum_of_shards("users_done");
    let files_done = sum_of_shards("files_done");
    let bytes_done = sum_of_shards("bytes_done");
    let broken_users = sum_of_shards("broken_users");
    AssertSqlSafe(format!(
        "SELECT id, workspace_id, object_prefix, audience, segment_id, users_per_file, state,
             {fields} AS fields, format, storage_id, destination, callback_endpoint, request_id,
             requested_at, {plan} AS plan, users, parts,
             CASE WHEN parts IS NOT NULL THEN {parts_left} END AS parts_left,
             {users_done} AS users_done, {files_done} AS files_done, {bytes_done} AS bytes_done,
             {broken_users} AS broken_users,
             started_at, late_at, completed_at, finished_at, expires_at, archive, manifest_sha256,
             error
         FROM export_jobs {clauses}"
    ))
}

/// The SQL of a job's sum over its count shards.
fn sum_of_shards(column: &str) -> String {
    format!(
        "CAST(coalesce((SELECT sum({column}) FROM export_counts WHERE job_id = export_jobs.id), 0) \
         AS BIGINT)"
    )
}

/// Writes a new job, in state `queued`.
pub async fn insert(tx: &mut Tx, job: &Job) -> Result<(), StoreError> {
    let fields = to_json(&job.fields)?;
    let audience = match &job.audience {
        Audience::ControlGroup => None,
        audience => Some(to_json(audience)?),
    };
    on!(tx, c => sqlx::query(
        "INSERT INTO export_jobs (id, workspace_id, object_prefix, segment_id, state, fields,
                                  format, storage_id, callback_endpoint, request_id,
                                  requested_at, queued_at, destination, audience, users_per_file)
         VALUES ($1, $2, $3, $4, 'queued', $5, $6, $7, $8, $9, $10, $10, $11, $12, $13)",
    )
    .bind(job.id).bind(job.workspace_id).bind(&job.object_prefix).bind(job.segment_id)
    .bind(fields).bind(stored_format(&job.audience, job.format)).bind(job.storage_id).bind(&job.callback_endpoint)
    .bind(&job.request_id).bind(job.requested_at).bind(&job.destination)
    .bind(audience).bind(job.users_per_file.map(i64::from))
    .execute(c).await?.rows_affected());
    Ok(())
}

/// Before the format of an export of other users than the control group: programs of the release
/// before leave an export with an unknown format to newer ones.
const OF_AUDIENCE: &str = "audience:";

pub(super) fn stored_format(audience: &Audience, format: Format) -> String {
    let prefix = if *audience == Audience::ControlGroup { "" } else { OF_AUDIENCE };
    format!("{prefix}{}", format.name())
}

pub async fn load(tx: &mut Tx, id: Uuid) -> Result<Option<(Job, Progress)>, StoreError> {
    on!(tx, c => sqlx::query_as::<_, JobRow>(select_jobs("WHERE id = $1"))
        .bind(id).fetch_optional(c).await?)
    .map(read)
    .transpose()
}

struct PartToDo {
    job: JobColumns,
    plan: Option<String>,
    part: PartColumns,
}
from_row! { PartToDo { plan } flatten { job, part } }

const PART_TO_DO: &str = "
    SELECT id, workspace_id, object_prefix, audience, segment_id, users_per_file, fields, format,
           storage_id, destination, callback_endpoint, request_id, requested_at, plan,
           from_slice, from_id, to_slice, to_id
    FROM export_jobs JOIN export_parts ON job_id = id
    WHERE id = $1 AND state = 'running' AND part = $2 AND NOT done";

/// The data of a running job for one of its parts, and the part's range. None: the part is done, or
/// the job is not running or does not exist.
///
/// One statement without a transaction, because the fleet does this for each part.
pub async fn part_to_do(
    store: &Store,
    id: Uuid,
    part: i64,
) -> Result<Option<(Job, Plan, PartRow)>, StoreError> {
    let row: Option<PartToDo> = match store {
        Store::Postgres { pool, .. } => {
            sqlx::query_as(PART_TO_DO).bind(id).bind(part).fetch_optional(pool).await?
        }
        Store::Sqlite { read, .. } => {
            sqlx::query_as(PART_TO_DO).bind(id).bind(part).fetch_optional(read).await?
        }
    };
    let Some(PartToDo { job, plan, part }) = row else { return Ok(None) };
    let job = read_job(job)?;
    let corrupt = || StoreError::Corrupt(format!("the plan of export job {id}"));
    let plan = read_plan(id, plan.as_deref())?.ok_or_else(corrupt)?;
    Ok(Some((job, plan, part.into())))
}

/// A job of any workspace by its `object_prefix`.
pub async fn by_prefix(
    tx: &mut Tx,
    object_prefix: &str,
) -> Result<Option<(Job, Progress)>, StoreError> {
    on!(tx, c => sqlx::query_as::<_, JobRow>(select_jobs("WHERE object_prefix = $1"))
        .bind(object_prefix).fetch_optional(c).await?)
    .map(read)
    .transpose()
}

/// The slices of a control group, even if it is no longer active.
pub async fn control_group_slices(
    tx: &mut Tx,
    workspace: i32,
    segment_id: Uuid,
) -> Result<Option<Vec<i16>>, StoreError> {
    let slices = on!(tx, c => sqlx::query_scalar::<_, String>(
        "SELECT slices FROM control_groups WHERE workspace_id = $1 AND segment_id = $2",
    )
    .bind(workspace).bind(segment_id).fetch_optional(c).await?);
    let Some(slices) = slices else { return Ok(None) };
    let mut slices: Vec<i16> = serde_json::from_str(&slices)
        .map_err(|_| StoreError::Corrupt(format!("slices of control group {segment_id}")))?;
    slices.sort_unstable();
    Ok(Some(slices))
}

/// Marks that planning began; `false` if there is nothing to plan.
pub async fn begin_planning(tx: &mut Tx, id: Uuid, now: i64) -> Result<bool, StoreError> {
    let begun = execute!(
        tx,
        sqlx::query(
            "UPDATE export_jobs SET state = 'planning', started_at = COALESCE(started_at, $2)
             WHERE id = $1 AND state IN ('queued', 'planning')",
        )
        .bind(id)
        .bind(now)
    );
    Ok(begun == 1)
}

/// The job's workspace, if the job still needs a plan; this cannot change until the transaction's
/// end.
pub async fn needs_planning(tx: &mut Tx, id: Uuid) -> Result<Option<i32>, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "UPDATE export_jobs SET state = state
         WHERE id = $1 AND state IN ('queued', 'planning') RETURNING workspace_id",
    )
    .bind(id).fetch_optional(c).await?))
}

/// `queued` or `planning` to `running`, with the final plan.
pub async fn begin_running(
    tx: &mut Tx,
    job: &Job,
    plan: &Plan,
    users: i64,
    parts: i64,
    now: i64,
) -> Result<bool, StoreError> {
    let shards = count_rows::shards(parts, job.storage_id.is_some());
    let plan = to_json(plan)?;
    let begun = on!(tx, c => sqlx::query(
        "UPDATE export_jobs
         SET state = 'running', plan = $2, users = $3, parts = $4,
             started_at = COALESCE(started_at, $5), shards = $6, shards_left = $6
         WHERE id = $1 AND state IN ('queued', 'planning')",
    )
    .bind(job.id).bind(plan).bind(users).bind(parts).bind(now).bind(shards)
    .execute(c).await?.rows_affected());
    if begun == 0 {
        return Ok(false);
    }
    count_rows::insert(tx, job.id, parts, shards).await?;
    Ok(true)
}

/// Whether the job is running; if so, this cannot change until the transaction's end.
pub async fn is_running(tx: &mut Tx, id: Uuid) -> Result<bool, StoreError> {
    let locked = execute!(
        tx,
        sqlx::query("UPDATE export_jobs SET state = state WHERE id = $1 AND state = 'running'")
            .bind(id)
    );
    Ok(locked == 1)
}

/// Locks a failed job: whoever repeats all failed jobs at the same time waits for this transaction.
pub(super) async fn lock_failed(tx: &mut Tx, id: Uuid) -> Result<bool, StoreError> {
    let locked = execute!(
        tx,
        sqlx::query("UPDATE export_jobs SET state = state WHERE id = $1 AND state = 'failed'")
            .bind(id)
    );
    Ok(locked == 1)
}

/// `running` to `finishing`: the completion, whose day dates the files. Returns the workspace.
pub async fn begin_finishing(tx: &mut Tx, id: Uuid, now: i64) -> Result<Option<i32>, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "UPDATE export_jobs SET state = 'finishing', completed_at = $2
         WHERE id = $1 AND state = 'running' AND shards_left = 0 RETURNING workspace_id",
    )
    .bind(id).bind(now).fetch_optional(c).await?))
}

/// `finishing` to `done`, with the hash of the manifest. `archive` is the attempt that wrote the
/// ZIP behind `url`, and `expires_at` the end of its URL; none with own storage.
pub async fn complete(
    tx: &mut Tx,
    id: Uuid,
    manifest_sha256: &[u8],
    archive: Option<i32>,
    expires_at: Option<i64>,
    now: i64,
) -> Result<bool, StoreError> {
    let changed = on!(tx, c => sqlx::query(
        "UPDATE export_jobs
         SET state = 'done', archive = $2, expires_at = $3, finished_at = $4,
             manifest_sha256 = $5, error = NULL, error_detail = NULL
         WHERE id = $1 AND state = 'finishing'",
    )
    .bind(id).bind(archive).bind(expires_at).bind(now).bind(manifest_sha256)
    .execute(c).await?.rows_affected());
    Ok(changed == 1)
}

/// Any state that is not final to `failed`, with the texts for the customer and the operator.
pub async fn fail(tx: &mut Tx, id: Uuid, failure: &Failure, now: i64) -> Result<bool, StoreError> {
    let changed = on!(tx, c => sqlx::query(
        "UPDATE export_jobs
         SET state = 'failed', error = $2, error_detail = $3, finished_at = $4
         WHERE id = $1 AND state IN ('queued', 'planning', 'running', 'finishing')",
    )
    .bind(id).bind(&failure.message).bind(&failure.detail).bind(now)
    .execute(c).await?.rows_affected());
    Ok(changed == 1)
}

/// Any state before `finishing` to `cancelled`. Returns the state before, if it was one of them.
pub async fn cancel(tx: &mut Tx, id: Uuid, now: i64) -> Result<Option<State>, StoreError> {
    // Locks the row: the state cannot change any more before it is cancelled.
    let before: Option<State> = on!(&mut *tx, c => sqlx::query_scalar(
        "UPDATE export_jobs SET state = state
         WHERE id = $1 AND state IN ('queued', 'planning', 'running') RETURNING state",
    )
    .bind(id).fetch_optional(c).await?);
    if before.is_some() {
        execute!(
            tx,
            sqlx::query(
                "UPDATE export_jobs
                 SET state = 'cancelled', finished_at = $2, error = NULL, error_detail = NULL
                 WHERE id = $1",
            )
            .bind(id)
            .bind(now)
        );
    }
    Ok(before)
}

/// Jobs that need a plan but have no claim for it.
pub async fn without_plan_claim(tx: &mut Tx) -> Result<Vec<Uuid>, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "SELECT id FROM export_jobs
         WHERE state IN ('queued', 'planning')
           AND NOT EXISTS (SELECT 1 FROM claims WHERE kind = $1 AND job = export_jobs.id)
         ORDER BY id",
    )
    .bind(kinds::EXPORT_PLAN.name()).fetch_all(c).await?))
}

/// Jobs of a workspace (`$1`) that ended before a time (`$2`), whose URLs expired before it, and
/// whose cleanup has ended. An index has the time of the request. Counts and unreadable users, of
/// which there can be many, are deleted with their job.
pub(super) const OLD: OldRows = old_rows!(
    "export_jobs",
    "workspace_id = $1 AND requested_at < $2 AND finished_at < $2
     AND coalesce(expires_at, finished_at) < $2
     AND (SELECT job FROM claims
          WHERE kind = 'export_cleanup' AND job = export_jobs.id LIMIT 1) IS NULL",
    1
);

fn read_job(row: JobColumns) -> Result<Job, StoreError> {
    let id = row.id;
    let fields = parsed("export_jobs.fields", id, &row.fields)?;
    let format = row.format.strip_prefix(OF_AUDIENCE).unwrap_or(&row.format);
    let format =
        Format::from_name(format).ok_or_else(|| unknown("export_jobs.format", id, &row.format))?;
    let audience = row.audience.map(|audience| parsed("export_jobs.audience", id, &audience));
    Ok(Job {
        id,
        workspace_id: row.workspace_id,
        object_prefix: row.object_prefix,
        audience: audience.transpose()?.unwrap_or_default(),
        segment_id: row.segment_id,
        users_per_file: row.users_per_file.and_then(|users| u32::try_from(users).ok()),
        fields,
        format,
        storage_id: row.storage_id,
        destination: row.destination,
        callback_endpoint: row.callback_endpoint,
        request_id: row.request_id,
        requested_at: row.requested_at,
    })
}

fn read_plan(id: Uuid, plan: Option<&str>) -> Result<Option<Plan>, StoreError> {
    plan.map(|plan| parsed("export_jobs.plan", id, plan)).transpose()
}

pub(super) fn read(row: JobRow) -> Result<(Job, Progress), StoreError> {
    let job = read_job(row.job)?;
    let state = State::from_name(&row.state)
        .ok_or_else(|| unknown("export_jobs.state", job.id, &row.state))?;
    let plan = read_plan(job.id, row.plan.as_deref())?;
    let progress = Progress {
        state,
        plan,
        users: row.users,
        parts: row.parts,
        parts_left: row.parts_left,
        users_done: row.users_done,
        files_done: row.files_done,
        bytes_done: row.bytes_done,
        broken_users: row.broken_users,
        started_at: row.started_at,
        late_at: row.late_at,
        completed_at: row.completed_at,
        finished_at: row.finished_at,
        expires_at: row.expires_at,
        archive: row.archive,
        manifest_sha256: row.manifest_sha256,
        error: row.error,
    };
    Ok((job, progress))
}
