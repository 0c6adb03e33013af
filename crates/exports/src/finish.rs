//! Finishes an export when all parts are done. Finishing is claimed and leased like any other work,
//! so another finisher replaces one that dies, and every step may be repeated.
//!
//! With own storage, files that were uploaded on another day are moved to the folder of the day of
//! completion, and files of a lost plan are deleted there. Without, the parts' segments become the
//! ZIP behind `url`. Then what proves the export is written, the manifest last. One transaction
//! marks the job as done, and stores its callback and notifications.

use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::archive::{self, Entry};
use super::callback::Callback;
use super::cleanup::{ClaimedExport, FILES_AT_ONCE};
use super::error::check_stop;
use super::part_rows::{self, Sha256Hash, Winner};
use super::proof_objects::{ManifestReference, PassingHash, Stored, StoredExport, read_counted};
use super::{
    ExportError, Failure, Job, Plan, Progress, State, callback, download, late, notifications,
    part, paths, rows, stray_files, telemetry,
};
use gateway::app::App;
use gateway::workspaces;
use gateway::workspaces::notify::Event;
use kit::clock::{from_ms, millis};
use kit::fail_point;
use kit::retry::Retry as _;
use objects::{ByteStream, Head, ObjectError, Objects, PutOptions};
use runtime::history::{self, Metric};
use runtime::kinds;
use store::claims::{self, Claim};

/// Segments that are opened ahead of the current one.
const SEGMENTS_AHEAD: usize = 2;

/// Unreadable users whose ids the customer gets.
const BROKEN_USERS_REPORTED: i64 = 20;

/// Finishes a job, from `finishing` to `done`. Checks `stop` between steps.
pub async fn finish(app: &App, claim: &Claim, stop: &CancellationToken) -> Result<(), ExportError> {
    let mut tx = app.store.snapshot().await?;
    let (job, progress) = rows::load(&mut tx, claim.job).await?.ok_or(ExportError::Lost)?;
    telemetry::note_request(&job);
    let winners = part_rows::winners(&mut tx, claim.job).await?;
    let broken = part_rows::broken_users(&mut tx, claim.job, BROKEN_USERS_REPORTED).await?;
    drop(tx);
    if progress.state != State::Finishing {
        return Err(ExportError::Lost);
    }
    if progress.broken_users > 0 {
        let failure = Failure::broken_users(progress.broken_users, &broken);
        return Err(ExportError::Permanent(failure));
    }
    let plan = consistent_plan(&progress, &winners)?;
    fail_point!("finish::begun");
    // A part whose users were all deleted in the meantime has no file.
    let files: Vec<Winner> = winners.iter().filter(|winner| winner.bytes > 0).copied().collect();
    let (stored, archive) = match job.storage_id {
        Some(storage) => {
            let objects = workspaces::open_storage(app, storage).await?;
            let export = ClaimedExport { app, claim, job: &job, progress: &progress, stop };
            move_files(&export, &objects, plan, &files).await?;
            let parts = files.iter().map(|winner| winner.part).collect();
            stray_files::delete(&export, &objects, parts).await?;
            (Stored::Own(objects), None)
        }
        None => (build_archive(app, claim, &job, files, stop).await?, Some(claim.attempt)),
    };
    let export = StoredExport { job: &job, plan, progress: &progress, winners: &winners, stored };
    let manifest = export.write_proof(app, stop).await?;
    fail_point!("finish::stored");
    complete(app, claim, &job, &progress, manifest, archive).await
}

/// The plan, if the number of finished parts matches it.
fn consistent_plan<'a>(
    progress: &'a Progress,
    winners: &[Winner],
) -> Result<&'a Plan, ExportError> {
    let inconsistent = |detail: String| ExportError::Permanent(Failure::internal(detail));
    let (done, parts) = (winners.len(), progress.parts);
    if parts != Some(done as i64) {
        return Err(inconsistent(format!("{done} of {parts:?} parts are done")));
    }
    let plan = progress.plan.as_ref();
    plan.ok_or_else(|| inconsistent("a job in finishing has no plan".into()))
}

/// Moves the files that were uploaded with another date to the day of completion: copies all, then
/// deletes the old names.
async fn move_files(
    export: &ClaimedExport<'_>,
    objects: &Objects,
    plan: &Plan,
    winners: &[Winner],
) -> Result<(), ExportError> {
    let ClaimedExport { job, progress, stop, .. } = *export;
    let Some(date) = progress.completion_date().filter(|date| *date != plan.upload_date) else {
        return Ok(());
    };
    let name = |winner: &Winner, date| job.file_path(plan, winner.part, date);
    let moves: Vec<(&Winner, String, String)> = winners
        .iter()
        .map(|winner| (winner, name(winner, plan.upload_date), name(winner, date)))
        .collect();
    tracing::info!(files = moves.len(), from = %plan.upload_date, to = %date, "moving files");
    futures::stream::iter(&moves)
        .map(Ok::<_, ExportError>)
        .try_for_each_concurrent(FILES_AT_ONCE, |(winner, from, to)| async move {
            check_stop(stop)?;
            copy_once(objects, winner, from, to).await
        })
        .await?;
    fail_point!("finish::copied");
    let moved = moves.into_iter().map(|(_, from, _)| from).collect();
    export.delete_files(objects, moved).await
}

/// Copies the part's counted file. If the old name has another file, an earlier attempt already
/// moved it, and a paused worker wrote that file.
async fn copy_once(
    objects: &Objects,
    winner: &Winner,
    from: &str,
    to: &str,
) -> Result<(), ExportError> {
    let is_ours = |head: &Head| part::is_file_of(head, winner);
    let error = match objects.copy(from, to, &is_ours).await {
        // Without the right to list, S3 refuses to look at a missing file.
        Err(error @ (ObjectError::NotFound(_) | ObjectError::Refused(_))) => error,
        copied => return copied.map_err(ExportError::Own),
    };
    match objects.head(to).await {
        Ok(Some(head)) if is_ours(&head) => Ok(()),
        Err(error) if error.can_retry() => Err(ExportError::Own(error)),
        _ => Err(ExportError::Own(error)),
    }
}

/// Writes the ZIP with a name of this attempt: the parts' segments unchanged, in order, and the
/// central directory.
async fn build_archive(
    app: &App,
    claim: &Claim,
    job: &Job,
    winners: Vec<Winner>,
    stop: &CancellationToken,
) -> Result<Stored, ExportError> {
    let entries: Vec<Entry> = winners
        .iter()
        .map(|winner| Entry {
            name: job.entry_name(winner.part),
            crc32: winner.crc32,
            raw_bytes: winner.raw_bytes,
            stored_bytes: winner.bytes,
        })
        .collect();
    let directory = archive::central_directory(&entries, from_ms(job.requested_at));
    let segments: u64 = entries.iter().map(|entry| entry.stored_bytes).sum();
    let size = segments + directory.len() as u64;
    let body = segments_of(app.objects.clone(), job.id, winners, stop.clone())
        .chain(futures::stream::once(async { Ok(Bytes::from(directory)) }))
        .boxed();
    let (body, hash) = PassingHash::attach(body);
    let options = PutOptions { content_type: "application/zip", ..PutOptions::default() };
    let archive = paths::archive(job.id, claim.attempt);
    let result = app.objects.put_stream(&archive, size, body, options).await;
    check_stop(stop)?;
    result.map_err(ExportError::Objects)?;
    Ok(Stored::Archive { bytes: size, sha256: hash.finish() })
}

/// The parts' segments, one after the other; ends with an error if a stop is requested.
fn segments_of(
    objects: Objects,
    job: Uuid,
    winners: Vec<Winner>,
    stop: CancellationToken,
) -> ByteStream {
    futures::stream::iter(winners)
        .map(move |winner| {
            let objects = objects.clone();
            let Winner { part, attempt, bytes, .. } = winner;
            async move { read_counted(&objects, paths::segment(job, part, attempt), bytes).await }
        })
        .buffered(SEGMENTS_AHEAD)
        .try_flatten()
        .and_then(move |bytes| {
            let stopped = stop.is_cancelled();
            let stopped =
                stopped.then(|| ObjectError::Unavailable(ExportError::Stopped.to_string().into()));
            std::future::ready(stopped.map_or(Ok(bytes), Err))
        })
        .boxed()
}

/// `finishing` to `done`, with the callback and the notifications, in one transaction.
async fn complete(
    app: &App,
    claim: &Claim,
    job: &Job,
    progress: &Progress,
    manifest: Sha256Hash,
    archive: Option<i32>,
) -> Result<(), ExportError> {
    let lifetime = Duration::from_secs(app.config.exports.download_minutes * 60);
    let mut tx = app.store.write().await?;
    let now = app.database_now(&mut tx).await?;
    let expires_at = archive.map(|_| now + millis(lifetime));
    late::mark_in(app, &mut tx, job.id, now).await?;
    if !rows::complete(&mut tx, job.id, &manifest, archive, expires_at, now).await? {
        return Err(ExportError::Lost);
    }
    claims::finish(&mut tx, claim).await?;
    let leftovers = claims::Job::new(job.workspace_id, job.id);
    claims::offer(&mut tx, kinds::EXPORT_CLEANUP, leftovers, 0, Duration::ZERO).await?;
    let url = archive.map(|_| download::address(app, &job.object_prefix));
    callback::enqueue(
        app,
        &mut tx,
        job,
        &Callback::done(url, ManifestReference::new(app, job, progress, &manifest)),
    )
    .await?;
    let done = Progress { state: State::Done, ..progress.clone() };
    notifications::enqueue(app, &mut tx, job, &done, Event::Done).await?;
    let counted = [(Metric::ExportsDone, 1), (Metric::UsersExported, progress.users_done)];
    history::count(&mut tx, job.workspace_id, &counted).await?;
    tx.commit().await?;
    fail_point!("finish::done");
    telemetry::ended(job, State::Done, "none", now);
    telemetry::delivered(progress.files_done, progress.users_done, progress.bytes_done);
    tracing::info!(
        export = %job.id,
        object_prefix = job.object_prefix,
        users = progress.users_done,
        files = progress.files_done,
        bytes = progress.bytes_done,
        "export completed"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part_rows::PartResult;
    use kit::secrets::SecretKey;

    /// Another finisher copied the file and deleted its old name, and a paused worker wrote it
    /// again.
    #[tokio::test]
    async fn a_moved_file_is_not_replaced_by_a_sleepers() {
        let directory = tempfile::tempdir().unwrap();
        let secrets = SecretKey::parse(&SecretKey::generate(), None).unwrap();
        let url = format!("file://{}", directory.path().display());
        let objects = Objects::open(&url, &secrets).await.unwrap();
        let path = |day| {
            let folder = paths::own_folder(Uuid::nil(), jiff::civil::date(2026, 11, day), "prefix");
            format!("{folder}name.zip")
        };
        let (from, to) = (path(21), path(22));
        let write = |body: &'static str, users| {
            let bytes = body.len() as i64;
            let sha256 = Some([1; 32]);
            let result =
                PartResult { users, raw_bytes: 9, bytes, crc32: 1, sha256, broken: vec![] };
            part::write_once(&objects, &from, "application/zip", body.into(), result)
        };
        let position = people::users::Position::START;
        let winner = Winner {
            part: 1,
            attempt: 1,
            users: 5,
            raw_bytes: 9,
            bytes: 4,
            crc32: 1,
            sha256: Some([1; 32]),
            range: part_rows::PartRow { from: position, to: position },
        };
        write("ours", 5).await.unwrap();
        copy_once(&objects, &winner, &from, &to).await.unwrap();
        objects.delete(&from).await.unwrap();
        // The moved file stays, whether the old name is missing or has another file.
        copy_once(&objects, &winner, &from, &to).await.unwrap();
        write("theirs", 4).await.unwrap();
        copy_once(&objects, &winner, &from, &to).await.unwrap();
        let moved: Vec<Bytes> = objects.get(&to).await.unwrap().try_collect().await.unwrap();
        assert_eq!(moved.concat(), b"ours");
        // Or if the storage refuses to look at it; but only while the moved file exists.
        let refused = "not a path";
        copy_once(&objects, &winner, refused, &to).await.unwrap();
        objects.delete(&to).await.unwrap();
        let error = copy_once(&objects, &winner, refused, &to).await.unwrap_err();
        assert!(matches!(error, ExportError::Own(ObjectError::Refused(_))), "{error:?}");
    }
}
