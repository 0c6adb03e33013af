//! The downloads that may still have a user who is erased.

use serde::Serialize;
use uuid::Uuid;

use super::rows;
use kit::clock::{format_seconds, serialize_optional_time};
use people::users::{merged_rows, service_id};
use runtime::kinds;
use store::{StoreError, Tx, on};

/// A user can be created before a plan by the clock of another machine.
const CLOCK_DIFFERENCE: i64 = 10 * 60 * 1_000;

/// A download with files that may have a user: parts of the user's range that are written, or
/// begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HeldDownload {
    pub object_prefix: String,
    /// None: the export has not ended.
    #[serde(serialize_with = "serialize_optional_time")]
    pub expires_at: Option<i64>,
}

impl HeldDownload {
    /// Such as `until 2026-11-21T09:29:28Z`.
    pub fn until(&self, download_minutes: u64) -> String {
        match self.expires_at {
            Some(end) => format!("until {}", format_seconds(end)),
            None => format!("until {download_minutes} minutes after the export ends"),
        }
    }
}

/// The ids under which a user may be in files: the user's own, and those of users who were merged into
/// the user.
pub async fn ids_of(tx: &mut Tx, workspace: i32, user: Uuid) -> Result<Vec<Uuid>, StoreError> {
    let merged = merged_rows::merged_into(tx, workspace, &[user]).await?;
    Ok(merged.into_keys().chain([user]).collect())
}

/// The downloads that work now, or will, and may have one of the users; oldest first.
pub async fn downloads_with(
    tx: &mut Tx,
    workspace: i32,
    users: &[Uuid],
    now: i64,
) -> Result<Vec<HeldDownload>, StoreError> {
    let mut found = Vec::new();
    for id in users {
        let slice = service_id::slice(id)?;
        let jobs: Vec<Uuid> = on!(tx, c => sqlx::query_scalar(
            "SELECT id FROM export_jobs
             WHERE workspace_id = $1 AND storage_id IS NULL AND state NOT IN ('failed', 'cancelled')
               AND (finished_at IS NULL OR expires_at > $2)
               AND EXISTS (SELECT 1 FROM export_parts
                   WHERE job_id = export_jobs.id
                     AND (from_slice, from_id) < ($3, $4) AND (to_slice, to_id) >= ($3, $4)
                     AND CASE WHEN done THEN users > 0
                         ELSE EXISTS (SELECT 1 FROM claims WHERE kind = $5 AND job = job_id
                                      AND item = part AND owner IS NOT NULL) END)",
        )
        .bind(workspace).bind(now).bind(slice).bind(id).bind(kinds::EXPORT_PART.name())
        .fetch_all(c).await?);
        for job in jobs {
            let Some((job, progress)) = rows::load(tx, job).await? else { continue };
            let may_have = progress.plan.is_none_or(|plan| {
                let planned_at = plan.planned_at.unwrap_or(i64::MAX - CLOCK_DIFFERENCE);
                plan.slices.contains(&slice)
                    && service_id::millis(id) <= planned_at + CLOCK_DIFFERENCE
            });
            if may_have {
                found.push((job.requested_at, job.object_prefix, progress.expires_at));
            }
        }
    }
    found.sort();
    found.dedup();
    let downloads = found.into_iter();
    Ok(downloads
        .map(|(_, object_prefix, expires_at)| HeldDownload { object_prefix, expires_at })
        .collect())
}
