//! Files in the folder of an export that it does not count.
//!
//! A database that loses its last commits (a failover to an asynchronous standby, a restored
//! backup) can lose a plan whose files are already in own storage. The export is planned again,
//! with other names, because its parts may have other users. Whoever reads all files of the folder
//! would have users twice. So files of the lost plan are deleted before the export is complete, and
//! again in the passes of the [cleanup](super::cleanup), because a worker may still write them.

use std::collections::HashSet;

use uuid::Uuid;

use super::cleanup::ClaimedExport;
use super::{ExportError, Job};
use objects::Objects;
use store::claims;

/// Deletes the files of other plans from the folder of the completion. Those of `parts` stay. Does
/// nothing if the credentials cannot list.
pub(super) async fn delete(
    export: &ClaimedExport<'_>,
    objects: &Objects,
    parts: Vec<i64>,
) -> Result<(), ExportError> {
    let ClaimedExport { app, claim, job, progress, .. } = *export;
    let (Some(plan), Some(date)) = (&progress.plan, progress.completion_date()) else {
        return Ok(());
    };
    let folder = job.folder(date);
    let listed = objects.list(&folder).await.map_err(ExportError::Own);
    let listed = export.optional(listed, "cannot list the files of an export")?;
    let Some(entries) = listed else { return Ok(()) };
    let counted: HashSet<String> =
        parts.into_iter().map(|part| job.file_path(plan, part, date)).collect();
    let mut keys: Vec<String> = entries.into_iter().map(|entry| entry.key).collect();
    keys.retain(|key| is_named_like_a_file(job, &folder, key) && !counted.contains(key));
    if keys.is_empty() {
        return Ok(());
    }
    // After the list: a worker of the lost plan, which does not count the files of the second one,
    // finds its claim lost.
    claims::renew(&app.store, claim, app.config.lease()).await?;
    tracing::warn!(export = %job.id, files = keys.len(), "deleting the files of a lost plan");
    export.delete_files(objects, keys).await
}

/// Whether an object in the folder has the name of a part's file, of whatever plan. Customers may
/// write others there, such as `_SUCCESS`.
fn is_named_like_a_file(job: &Job, folder: &str, key: &str) -> bool {
    let name = key.strip_prefix(folder).and_then(|name| name.split_once('.'));
    name.is_some_and(|(name, extension)| {
        let is_id = Uuid::try_parse(name).is_ok_and(|id| id.to_string() == name);
        is_id && extension == job.format.extension()
    })
}
