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

/// Deletions by name in progress at the same time.
const REMOVALS_AT_ONCE: usize = 8;

/// One pass: deletes leftover files, and either repeats later or is done. Failed deletions are
/// retried in the next pass.
pub async fn clean(app: &App, claim: &Claim, stop: &CancellationToken) -> Result<(), ClaimError> {
    let mut tx = app.store.snapshot().await?;
    let loaded = rows::load(&mut tx, claim.job).await?;
    let now = app.clock.moved(claims::now(&mut tx).await?);
    drop(tx);
    let Some((job, progress)) = loaded else { return finish(app, claim).await };
    telemetry::note_request(&job);
    let deleted = delete_leftovers(app, claim, &job, &progress, now, stop).await;
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

async fn delete_leftovers(
    app: &App,
    claim: &Claim,
    job: &Job,
    progress: &Progress,
    now: i64,
    stop: &CancellationToken,
) -> Result<(), ExportError> {
    match (job.storage_id, &progress.plan) {
        (None, _) => clean_private(app, job, progress, now).await,
        // Nothing was written before there was a plan.
        (Some(_), None) => Ok(()),
        (Some(storage), Some(plan)) => {
            let own = clean_own(app, claim, job, progress, plan, storage, stop).await;
            own.and(clean_pieces(app, job).await)
        }
    }
}

async fn clean_own(
    app: &App,
    claim: &Claim,
    job: &Job,
    progress: &Progress,
    plan: &Plan,
    storage: Uuid,
    stop: &CancellationToken,
) -> Result<(), ExportError> {
    let dates = dates_to_clean(progress, plan);
    let objects = match workspaces::open_storage(app, storage).await {
        // The export is complete without this.
        Err(error) if dates.is_empty() => {
            tracing::warn!(%error, export = %job.id, "cannot open the storage of an export");
            return Ok(());
        }
        opened => opened?,
    };
    for date in dates {
        clean_folder(&objects, job, plan, progress, date, stop).await?;
    }
    if progress.state != State::Done {
        return Ok(());
    }
    if may_have_large_files(progress) {
        abort_uploads(&objects, job, progress).await;
    }
    let Some(parts) = progress.parts else { return Ok(()) };
    // All names of the plan: the rows of the parts may be deleted already.
    let parts = (1..=parts).collect();
    stray_files::delete(app, claim, &objects, job, progress, parts, stop).await
}

/// Aborts the unfinished uploads of a finished export, which is complete without this.
async fn abort_uploads(objects: &Objects, job: &Job, progress: &Progress) {
    let Some(date) = progress.completion_date() else { return };
    match objects.abort_uploads(&job.folder(date)).await {
        Ok(()) => {}
        // Not every key may list uploads, and each pass would report it.
        Err(error @ ObjectError::Refused(_)) => {
            tracing::debug!(%error, export = %job.id, "cannot abort unfinished uploads");
        }
        Err(error) => {
            tracing::warn!(%error, export = %job.id, "cannot abort unfinished uploads");
        }
    }
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
    // Attempts have ascending numbers, and the one that finished was the last.
    for attempt in 1..winner {
        app.objects.delete(&paths::archive(job.id, attempt)).await.map_err(ExportError::Objects)?;
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
    objects: &Objects,
    job: &Job,
    plan: &Plan,
    progress: &Progress,
    date: jiff::civil::Date,
    stop: &CancellationToken,
) -> Result<(), ExportError> {
    let folder = job.folder(date);
    for suffix in manifest::ALL_SUFFIXES {
        let path = paths::own_proof(&folder, suffix);
        objects.delete(&path).await.map_err(ExportError::Own)?;
    }
    match objects.delete_prefix(&folder).await {
        Err(ObjectError::Refused(_)) => {}
        result => return result.map(drop).map_err(ExportError::Own),
    }
    let parts = 1..progress.parts.unwrap_or(0) + 1;
    futures::stream::iter(parts)
        .map(Ok)
        .try_for_each_concurrent(REMOVALS_AT_ONCE, |part| async move {
            check_stop(stop)?;
            objects.delete(&job.file_path(plan, part, date)).await.map_err(ExportError::Own)
        })
        .await
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
