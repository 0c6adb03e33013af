//! The SQL of parts: the range of each, the attempt that wrote it, and its errors.

use uuid::Uuid;

use people::users::Position;
use store::claims::Claim;
use store::{StoreError, Tx, from_row, insert_rows, on};

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

/// Marks a part as finished by the claim's attempt.
pub(super) async fn mark_done(
    tx: &mut Tx,
    claim: &Claim,
    result: &PartResult,
) -> Result<(), StoreError> {
    on!(tx, c => sqlx::query(
        "UPDATE export_parts
         SET done = TRUE, attempt = $3, users = $4, raw_bytes = $5, bytes = $6, crc32 = $7
         WHERE job_id = $1 AND part = $2",
    )
    .bind(claim.job).bind(claim.item).bind(claim.attempt)
    .bind(result.users).bind(result.raw_bytes).bind(result.bytes).bind(i64::from(result.crc32))
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
    let rows = on!(tx, c => sqlx::query_as::<_, (i64, i32, i64, i64, i64, i64)>(
        "SELECT part, attempt, users, raw_bytes, bytes, crc32 FROM export_parts
         WHERE job_id = $1 AND done ORDER BY part",
    )
    .bind(job).fetch_all(c).await?);
    rows.into_iter()
        .map(|(part, attempt, users, raw_bytes, bytes, crc32)| {
            let corrupt = |_| StoreError::Corrupt(format!("part {part} of export job {job}"));
            Ok(Winner {
                part,
                attempt,
                users,
                raw_bytes: u64::try_from(raw_bytes).map_err(corrupt)?,
                bytes: u64::try_from(bytes).map_err(corrupt)?,
                crc32: u32::try_from(crc32).map_err(corrupt)?,
            })
        })
        .collect()
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
    on!(tx, c => sqlx::query("DELETE FROM export_parts WHERE job_id = $1")
        .bind(job).execute(c).await?.rows_affected());
    Ok(())
}
