//! The SQL of a job's counts: of parts left, users, files and bytes, in shards.

use uuid::Uuid;

use super::part_rows::PartResult;
use store::{StoreError, Tx, from_row, insert_rows, on};

/// Parts per shard of a job's counts, and the maximum number of shards: finishing a part locks its
/// shard until the commit, and with one shard a whole fleet would wait for it.
const PARTS_PER_SHARD: i64 = 16;
const MAX_SHARDS: i64 = 64;

/// Number of a job's count shards; none without parts. Without own storage there are few parts, and
/// their total bytes must be known.
pub(super) fn shards(parts: i64, has_own_storage: bool) -> i64 {
    match (parts, has_own_storage) {
        (0, _) => 0,
        (_, true) => (1 + parts / PARTS_PER_SHARD).min(MAX_SHARDS),
        (_, false) => 1,
    }
}

/// Writes the shards of a job that begins to run.
pub(super) async fn insert(
    tx: &mut Tx,
    job: Uuid,
    parts: i64,
    shards: i64,
) -> Result<(), StoreError> {
    // The numbers up to `parts` with this remainder.
    let parts_left = |shard| parts / shards + i64::from(shard != 0 && shard <= parts % shards);
    let new: Vec<i64> = (0..shards).collect();
    insert_rows!(tx, "export_counts", new, |shard| {
        job_id: job,
        shard: *shard,
        parts_left: parts_left(*shard),
    }, "");
    Ok(())
}

/// The total of a shard after one more part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counted {
    pub parts_left: i64,
    /// Bytes of files so far; with one shard, of the job.
    pub bytes_done: i64,
    /// Maximum bytes of the job's ZIP; none with own storage.
    pub bytes_limit: Option<i64>,
}
from_row! { Counted { parts_left, bytes_done, bytes_limit } }

/// Counts one part of a running job as done. None: the job is no longer running, as far as visible
/// without waiting for the transaction that ends it, which withdraws the claim.
pub(super) async fn count_part(
    tx: &mut Tx,
    id: Uuid,
    part: i64,
    result: &PartResult,
) -> Result<Option<Counted>, StoreError> {
    let broken = i64::try_from(result.broken.len()).unwrap_or(i64::MAX);
    Ok(on!(tx, c => sqlx::query_as::<_, Counted>(
        "UPDATE export_counts
         SET parts_left = parts_left - 1,
             files_done = files_done + CASE WHEN $4 > 0 THEN 1 ELSE 0 END,
             users_done = users_done + $3, bytes_done = bytes_done + $4,
             broken_users = broken_users + $5
         WHERE job_id = $1 AND parts_left > 0
           AND shard = $2 % (SELECT shards FROM export_jobs WHERE id = $1 AND state = 'running')
         RETURNING parts_left, bytes_done,
             (SELECT export_bytes_limit
              FROM workspaces JOIN export_jobs ON workspaces.id = workspace_id
              WHERE export_jobs.id = $1 AND storage_id IS NULL) AS bytes_limit",
    )
    .bind(id).bind(part).bind(result.users).bind(result.bytes).bind(broken)
    .fetch_optional(c).await?))
}

/// Counts one shard of a running job as done; returns how many are left. None: the job is no longer
/// running.
pub(super) async fn count_shard(tx: &mut Tx, id: Uuid) -> Result<Option<i64>, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "UPDATE export_jobs SET shards_left = shards_left - 1
         WHERE id = $1 AND state = 'running' AND shards_left > 0
         RETURNING shards_left",
    )
    .bind(id).fetch_optional(c).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_parts_are_counted_in_several_shards() {
        for (parts, with_own, without) in [
            (0, 0, 0),
            (1, 1, 1),
            (15, 1, 1),
            (16, 2, 1),
            (1_007, 63, 1),
            (1_008, 64, 1),
            (1_024, 64, 1),
            (100_000, 64, 1),
        ] {
            assert_eq!((shards(parts, true), shards(parts, false)), (with_own, without), "{parts}");
        }
    }
}
