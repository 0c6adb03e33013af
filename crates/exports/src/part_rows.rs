//! The SQL of parts: the range of each, the attempt that wrote it, and its errors.

use sqlx::AssertSqlSafe;
use uuid::Uuid;

use people::users::Position;
use runtime::kinds;
use store::claims::{self, Claim};
use store::{Store, StoreError, Tx, from_row, insert_rows, now_sql, on};

/// The range of a part: the users after `from`, up to and including `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartRow {
    pub from: Position,
    pub to: Position,
}

/// The stored columns.
pub(super) struct PartColumns {
    from_slice: i16,
    from_id: Uuid,
    to_slice: i16,
    to_id: Uuid,
}
from_row! { PartColumns { from_slice, from_id, to_slice, to_id } }

impl From<PartColumns> for PartRow {
    fn from(row: PartColumns) -> Self {
        Self {
            from: Position { slice: row.from_slice, service_id: row.from_id },
            to: Position { slice: row.to_slice, service_id: row.to_id },
        }
    }
}

/// A SHA-256.
pub type Sha256Hash = [u8; 32];

/// The result of a part.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PartResult {
    pub users: i64,
    /// Bytes of the lines.
    pub raw_bytes: i64,
    /// Bytes of the written object.
    pub bytes: i64,
    /// CRC-32 of the lines.
    pub crc32: u32,
    /// Of the written object; none if it is from a program of the release before.
    pub sha256: Option<Sha256Hash>,
    /// Users whose stored document is unreadable, and why.
    pub broken: Vec<(Uuid, String)>,
}

/// A finished part, and the attempt that finished it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Winner {
    pub part: i64,
    pub attempt: i32,
    pub users: i64,
    pub raw_bytes: u64,
    pub bytes: u64,
    pub crc32: u32,
    pub sha256: Option<Sha256Hash>,
    /// The range that the part was planned for.
    pub range: PartRow,
}

/// The stored columns of a [`Winner`].
struct WinnerColumns {
    part: i64,
    attempt: i32,
    users: i64,
    raw_bytes: i64,
    bytes: i64,
    crc32: i64,
    sha256: Option<Vec<u8>>,
    range: PartColumns,
}
from_row! {
    WinnerColumns { part, attempt, users, raw_bytes, bytes, crc32, sha256 } flatten { range }
}

/// Writes a job's parts, numbered from 1: part n ends with `ends[n - 1]` and starts after the one
/// before; the first starts after `from`.
pub async fn insert_parts(
    tx: &mut Tx,
    job: Uuid,
    from: Position,
    ends: &[Position],
) -> Result<(), StoreError> {
    struct NewPart<'p> {
        number: i64,
        from: &'p Position,
        to: &'p Position,
    }
    let starts = std::iter::once(&from).chain(ends);
    let new: Vec<NewPart<'_>> = (1..)
        .zip(starts.zip(ends))
        .map(|(number, (from, to))| NewPart { number, from, to })
        .collect();
    insert_rows!(tx, "export_parts", new, |part| {
        job_id: job,
        part: part.number,
        from_slice: part.from.slice,
        from_id: part.from.service_id,
        to_slice: part.to.slice,
        to_id: part.to.service_id,
    }, "");
    Ok(())
}

/// Writes the [members](super::members) of some parts, as the claim's attempt at planning found
/// them.
pub(super) async fn put_members(
    tx: &mut Tx,
    claim: &Claim,
    parts: &[(i64, Vec<u8>)],
) -> Result<(), StoreError> {
    insert_rows!(tx, "export_members", parts, |part| {
        job_id: claim.job,
        attempt: claim.attempt,
        part: part.0,
        users: part.1.as_slice(),
    }, "ON CONFLICT (job_id, attempt, part) DO UPDATE SET users = excluded.users");
    Ok(())
}

/// The stored members of a part.
pub(super) async fn members(
    store: &Store,
    job: Uuid,
    attempt: i32,
    part: i64,
) -> Result<Option<Vec<u8>>, StoreError> {
    const MEMBERS: &str =
        "SELECT users FROM export_members WHERE job_id = $1 AND attempt = $2 AND part = $3";
    Ok(match store {
        Store::Postgres { pool, .. } => {
            sqlx::query_scalar(MEMBERS)
                .bind(job)
                .bind(attempt)
                .bind(part)
                .fetch_optional(pool)
                .await?
        }
        Store::Sqlite { read, .. } => {
            sqlx::query_scalar(MEMBERS)
                .bind(job)
                .bind(attempt)
                .bind(part)
                .fetch_optional(read)
                .await?
        }
    })
}

/// Marks a part as finished by the claim's attempt.
pub(super) async fn mark_done(
    tx: &mut Tx,
    claim: &Claim,
    result: &PartResult,
) -> Result<(), StoreError> {
    on!(tx, c => sqlx::query(
        "UPDATE export_parts
         SET done = TRUE, attempt = $3, users = $4, raw_bytes = $5, bytes = $6, crc32 = $7,
             sha256 = $8
         WHERE job_id = $1 AND part = $2",
    )
    .bind(claim.job).bind(claim.item).bind(claim.attempt)
    .bind(result.users).bind(result.raw_bytes).bind(result.bytes).bind(i64::from(result.crc32))
    .bind(result.sha256.as_ref().map(|hash| hash.as_slice()))
    .execute(c).await?.rows_affected());
    insert_rows!(tx, "export_broken_users", result.broken, |broken| {
        job_id: claim.job,
        service_id: broken.0,
        reason: broken.1.as_str(),
    }, "ON CONFLICT (job_id, service_id) DO NOTHING");
    Ok(())
}

/// A job's finished parts, in order.
pub async fn winners(tx: &mut Tx, job: Uuid) -> Result<Vec<Winner>, StoreError> {
    let rows = on!(tx, c => sqlx::query_as::<_, WinnerColumns>(
        "SELECT part, attempt, users, raw_bytes, bytes, crc32, sha256,
                from_slice, from_id, to_slice, to_id
         FROM export_parts WHERE job_id = $1 AND done ORDER BY part",
    )
    .bind(job).fetch_all(c).await?);
    rows.into_iter()
        .map(|row| {
            let corrupt = || StoreError::Corrupt(format!("part {} of export job {job}", row.part));
            Ok(Winner {
                part: row.part,
                attempt: row.attempt,
                users: row.users,
                raw_bytes: u64::try_from(row.raw_bytes).map_err(|_| corrupt())?,
                bytes: u64::try_from(row.bytes).map_err(|_| corrupt())?,
                crc32: u32::try_from(row.crc32).map_err(|_| corrupt())?,
                sha256: row
                    .sha256
                    .map(|hash| Sha256Hash::try_from(hash).map_err(|_| corrupt()))
                    .transpose()?,
                range: row.range.into(),
            })
        })
        .collect()
}

/// A part in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedPart {
    pub part: i64,
    pub done: bool,
    /// Of a finished part.
    pub users: Option<i64>,
    pub bytes: Option<i64>,
    /// Attempts that have begun. A finished part: the one that finished it.
    pub attempts: i32,
    /// Whether a worker works on it.
    pub is_held: bool,
}
from_row! { ListedPart { part, done, users, bytes, attempts, is_held } }

/// The parts of a job after `after`, in order; only those that needed more than one attempt, if
/// `is_retried`. A job that has ended keeps its parts until they are cleaned up.
pub async fn list_parts(
    tx: &mut Tx,
    job: Uuid,
    is_retried: bool,
    after: i64,
    limit: i64,
) -> Result<Vec<ListedPart>, StoreError> {
    const ATTEMPT: &str =
        "CASE WHEN done THEN export_parts.attempt ELSE coalesce(claims.attempt, 0) END";
    let attempts = claims::attempts_sql(ATTEMPT);
    let now = if tx.is_postgres() { now_sql!(postgres) } else { now_sql!(sqlite) };
    let retried = if is_retried { format!("AND {attempts} > 1") } else { String::new() };
    let sql = format!(
        "SELECT part, done, users, bytes, {attempts} AS attempts,
                coalesce(owner IS NOT NULL AND due_at > {now}, FALSE) AS is_held
         FROM export_parts LEFT JOIN claims ON kind = $4 AND job = job_id AND item = part
         WHERE job_id = $1 AND part > $2 {retried}
         ORDER BY part LIMIT $3"
    );
    Ok(on!(tx, c => sqlx::query_as(AssertSqlSafe(sql.clone()))
        .bind(job).bind(after).bind(limit).bind(kinds::EXPORT_PART.name())
        .fetch_all(c).await?))
}

/// The first users of a job whose document is unreadable, and why.
pub async fn broken_users(
    tx: &mut Tx,
    job: Uuid,
    limit: i64,
) -> Result<Vec<(Uuid, String)>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as::<_, (Uuid, String)>(
        "SELECT service_id, reason FROM export_broken_users
         WHERE job_id = $1 ORDER BY service_id LIMIT $2",
    )
    .bind(job).bind(limit).fetch_all(c).await?))
}

/// Deletes the parts of a job that no longer needs them.
pub async fn delete_parts(tx: &mut Tx, job: Uuid) -> Result<(), StoreError> {
    for statement in [
        "DELETE FROM export_members WHERE job_id = $1",
        "DELETE FROM export_parts WHERE job_id = $1",
    ] {
        on!(tx, c => sqlx::query(statement).bind(job).execute(c).await?.rows_affected());
    }
    Ok(())
}
