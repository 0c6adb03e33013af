//! Deletes the files that an export must not leave behind.
//!
//! A worker that was paused beyond its lease may still write files, so they are deleted repeatedly,
//! with growing pauses, until `exports.cleanup_hours` after the job's end. All of them are below
//! prefixes with the job's random id, so no other data is touched.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::error::check_stop;
use super::spill::PIECE_BYTES;
use super::{
    ExportError, Job, Plan, Progress, State, part_rows, paths, rows, stray_files, telemetry,
};
use gateway::app::App;
use gateway::workspaces;
use kit::clock::{hours, millis};
use kit::fail_point;
use kit::retry;
use objects::{ObjectError, Objects};
use proof::manifest;
use store::claims::{self, Claim, ClaimError};

/// The first pause between two passes; it doubles from there.
const PAUSE: Duration = Duration::from_secs(10);
const MAX_BACKOFF: Duration = Duration::from_secs(3 * 3600);

/// Files that are moved or deleted at the same time.
pub(super) const FILES_AT_ONCE: usize = 8;

/// An export, and the claim of the worker that changes its files.
pub(super) struct ClaimedExport<'a> {
    pub app: &'a App,
    pub claim: &'a Claim,
    pub job: &'a Job,
    pub progress: &'a Progress,
    pub stop: &'a CancellationToken,
}

impl ClaimedExport<'_> {
    /// Deletes files from own storage.
    pub async fn delete_files(
        &self,
        objects: &Objects,
        paths: Vec<String>,
    ) -> Result<(), ExportError> {
        futures::stream::iter(paths)
            .map(Ok::<_, ExportError>)
            .try_for_each_concurrent(FILES_AT_ONCE, |path| async move {
                check_stop(self.stop)?;
                objects.delete(&path).await.map_err(ExportError::Own)
            })
            .await
    }

    /// The result of a step without which the export is complete: an error is only logged as
    /// `failed` if the export is done, because later passes try again, or if the credentials lack
    /// the right, which each pass would report.
    pub fn optional<T>(
        &self,
        result: Result<T, ExportError>,
        failed: &str,
    ) -> Result<Option<T>, ExportError> {
        let export = self.job.id;
        match result {
            Ok(value) => return Ok(Some(value)),
            Err(error @ ExportError::Own(ObjectError::Refused(_))) => {
                tracing::debug!(%error, %export, "{failed}");
            }
            Err(error) if self.progress.state == State::Done => {
                tracing::warn!(%error, %export, "{failed}");
            }
            Err(error) => return Err(error),
        }
        Ok(None)
    }
}

/// One pass: deletes leftover files, and either repeats later or is done. Failed deletions are
/// retried in the next pass.
pub async fn clean(app: &App, claim: &Claim, stop: &CancellationToken) -> Result<(), ClaimError> {
    let mut tx = app.store.snapshot().await?;
    let loaded = rows::load(&mut tx, claim.job).await?;
    let now = app.database_now(&mut tx).await?;
    drop(tx);
    let Some((job, progress)) = loaded else { return finish(app, claim).await };
    telemetry::note_request(&job);
    let export = ClaimedExport { app, claim, job: &job, progress: &progress, stop };
    let deleted = stop.run_until_cancelled(delete_leftovers(&export, now)).await;
    let deleted = deleted.unwrap_or(Err(ExportError::Stopped));
    fail_point!("cleanup::removed");
    if let Err(error) = &deleted {
        metrics::counter!("longshore_export_cleanup_failures_total").increment(1);
        tracing::warn!(export = %job.id, %error, "cannot delete all files of an export");
    }
    match next_pass(app, claim, &progress, now, deleted.is_ok()) {
        Some(pause) => {
            let mut tx = app.store.write().await?;
            claims::postpone(&mut tx, claim, pause).await?;
            Ok(tx.commit().await?)
        }
        None => {
            if deleted.is_err() {
                tracing::error!(
                    export = %job.id, object_prefix = job.object_prefix,
                    "gave up deleting the export's files in storage"
                );
            }
            finish(app, claim).await
        }
    }
}

/// The end of the cleanup, which also deletes the job's parts.
async fn finish(app: &App, claim: &Claim) -> Result<(), ClaimError> {
    let mut tx = app.store.write().await?;
    claims::finish(&mut tx, claim).await?;
    part_rows::delete_parts(&mut tx, claim.job).await?;
    Ok(tx.commit().await?)
}

/// The time of the next pass; none when no worker can still write and everything is deleted.
fn next_pass(
    app: &App,
    claim: &Claim,
    progress: &Progress,
    now: i64,
    all_deleted: bool,
) -> Option<Duration> {
    let attempt = u32::try_from(claim.attempt).unwrap_or(u32::MAX);
    let pause = retry::backoff(attempt, PAUSE, MAX_BACKOFF);
    let retention = millis(hours(app.config.exports.cleanup_hours));
    let Some(ended) = progress.finished_at else { return Some(pause) };
    let expires_at = progress.expires_at.unwrap_or(ended);
    if now < expires_at {
        return Some(pause.min(Duration::from_millis((expires_at - now).unsigned_abs())));
    }
    (now < last_pass(ended, expires_at, retention, all_deleted)).then_some(pause)
}

/// When passes end. If the storage rejects deletions: after twice the time, counted from the expiry
/// of the ZIP if that is later, because workers do not delete the ZIP before.
fn last_pass(ended: i64, expires_at: i64, retention: i64, all_deleted: bool) -> i64 {
    if all_deleted { ended + retention } else { ended.max(expires_at) + 2 * retention }
}

async fn delete_leftovers(export: &ClaimedExport<'_>, now: i64) -> Result<(), ExportError> {
    let ClaimedExport { app, job, progress, .. } = *export;
    match (job.storage_id, &progress.plan) {
        (None, _) => clean_private(app, job, progress, now).await,
        // Nothing was written before there was a plan.
        (Some(_), None) => Ok(()),
        (Some(storage), Some(plan)) => {
            let own = clean_own(export, plan, storage).await;
            own.and(clean_pieces(app, job).await)
        }
    }
}

async fn clean_own(
    export: &ClaimedExport<'_>,
    plan: &Plan,
    storage: Uuid,
) -> Result<(), ExportError> {
    let ClaimedExport { app, progress, .. } = *export;
    let dates = dates_to_clean(progress, plan);
    let opened = workspaces::open_storage(app, storage).await.map_err(ExportError::from);
    let opened = if dates.is_empty() {
        // The export is done, and has its files.
        export.optional(opened, "cannot open the storage of an export")?
    } else {
        Some(opened?)
    };
    let Some(objects) = opened else { return Ok(()) };
    for date in dates {
        clean_folder(export, &objects, plan, date).await?;
    }
    if progress.state != State::Done {
        return Ok(());
    }
    if may_have_large_files(progress) {
        abort_uploads(export, &objects).await?;
    }
    let Some(parts) = progress.part_numbers() else { return Ok(()) };
    // All names of the plan: the rows of the parts may be deleted already.
    stray_files::delete(export, &objects, parts.collect()).await
}

/// Aborts the unfinished uploads of a finished export.
async fn abort_uploads(export: &ClaimedExport<'_>, objects: &Objects) -> Result<(), ExportError> {
    let Some(date) = export.progress.completion_date() else { return Ok(()) };
    let aborted = objects.abort_uploads(&export.job.folder(date)).await.map_err(ExportError::Own);
    export.optional(aborted, "cannot abort unfinished uploads").map(drop)
}

/// The pieces of large files in own storage that a killed or paused worker left.
async fn clean_pieces(app: &App, job: &Job) -> Result<(), ExportError> {
    let folder = paths::segments_folder(job.id);
    app.objects.delete_prefix(&folder).await.map(drop).map_err(ExportError::Objects)
}

/// Whether an attempt at a finished export may have uploaded a file in parts. One with few bytes
/// has none, unless many users were erased between two attempts.
fn may_have_large_files(progress: &Progress) -> bool {
    progress.bytes_done >= PIECE_BYTES as i64 / 2
}

/// The segments and the ZIP behind `url`: everything except a ZIP that is still valid.
async fn clean_private(
    app: &App,
    job: &Job,
    progress: &Progress,
    now: i64,
) -> Result<(), ExportError> {
    let is_valid =
        progress.state == State::Done && progress.expires_at.is_some_and(|end| now < end);
    let winner = progress.archive.filter(|_| is_valid);
    let Some(winner) = winner else {
        let folder = paths::private_folder(job.id);
        return app.objects.delete_prefix(&folder).await.map(drop).map_err(ExportError::Objects);
    };
    let segments = paths::segments_folder(job.id);
    app.objects.delete_prefix(&segments).await.map_err(ExportError::Objects)?;
    // By list: the numbers of attempts have gaps of thousands (see [`store::claims::wait`]).
    let (folder, current) = (paths::private_folder(job.id), paths::archive(job.id, winner));
    let found = app.objects.list(&folder).await.map_err(ExportError::Objects)?;
    let archives = found.into_iter().filter(|object| paths::is_archive(job.id, &object.key));
    for archive in archives.filter(|archive| archive.key != current) {
        app.objects.delete(&archive.key).await.map_err(ExportError::Objects)?;
    }
    Ok(())
}

/// The date folders of own storage that must have no file of the job.
fn dates_to_clean(progress: &Progress, plan: &Plan) -> Vec<jiff::civil::Date> {
    let completed = progress.completion_date();
    let mut dates = vec![plan.upload_date];
    dates.extend(completed.filter(|date| *date != plan.upload_date));
    if progress.state == State::Done {
        dates.retain(|date| Some(*date) != completed);
    }
    dates
}

/// Deletes a job's files from one date folder: by prefix, including unfinished uploads; or by name,
/// if the credentials cannot list.
async fn clean_folder(
    export: &ClaimedExport<'_>,
    objects: &Objects,
    plan: &Plan,
    date: jiff::civil::Date,
) -> Result<(), ExportError> {
    let ClaimedExport { job, progress, .. } = *export;
    let folder = job.folder(date);
    for suffix in manifest::ALL_SUFFIXES {
        let path = paths::own_proof(&folder, suffix);
        objects.delete(&path).await.map_err(ExportError::Own)?;
    }
    match objects.delete_prefix(&folder).await {
        Err(ObjectError::Refused(_)) => {}
        result => return result.map(drop).map_err(ExportError::Own),
    }
    let Some(parts) = progress.part_numbers() else { return Ok(()) };
    let paths = parts.map(|part| job.file_path(plan, part, date)).collect();
    export.delete_files(objects, paths).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_deletions_are_retried_for_twice_the_time_after_the_expiry() {
        const HOUR: i64 = 3_600_000;
        assert_eq!(last_pass(HOUR, HOUR, 24 * HOUR, true), 25 * HOUR);
        assert_eq!(last_pass(HOUR, HOUR, 24 * HOUR, false), 49 * HOUR);
        // The ZIP expires after the time for retries of other files.
        assert_eq!(last_pass(HOUR, 73 * HOUR, 24 * HOUR, true), 25 * HOUR);
        assert_eq!(last_pass(HOUR, 73 * HOUR, 24 * HOUR, false), 121 * HOUR);
    }
}
