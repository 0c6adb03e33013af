//! What an export states about itself: the manifest, the checksums and the signature, written when
//! everything else is in place (docs/how-to/verify-an-export.md).
//!
//! All three have the same bytes whenever they are written for an export, so a finisher that
//! follows another one writes them again. The manifest is the last: where it is, the export is
//! complete.

use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use super::error::check_stop;
use super::part_rows::{PartRow, Sha256Hash, Winner};
use super::{Audience, ExportError, Failure, Job, Plan, Progress, download, part, paths};
use gateway::app::App;
use gateway::workspaces::storage::{self, Settings};
use gateway::workspaces::{self, StorageError, segments, signing};
use kit::fail_point;
use objects::{ByteStream, ObjectError, Objects, PutOptions};
use proof::manifest::{self, Counts, ExportAudience, ExportStorage, File, Manifest, UserRange};

/// Files that are read at the same time, if their hash is not known.
const READS_AT_ONCE: usize = 8;

/// Where a finished export's files are.
pub(super) enum Stored {
    /// In own storage.
    Own(Objects),
    /// The ZIP behind `url`.
    Archive { bytes: u64, sha256: Sha256Hash },
}

/// An export whose files are in place.
pub(super) struct StoredExport<'a> {
    pub job: &'a Job,
    pub plan: &'a Plan,
    pub progress: &'a Progress,
    /// All finished parts.
    pub winners: &'a [Winner],
    pub stored: Stored,
}

/// Where a manifest is, and its hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "ExportManifestReference")]
pub struct ManifestReference {
    /// The key in own storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// The URL, without own storage. Valid as long as the export's `url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// Hexadecimal, lower case.
    sha256: String,
}

impl ManifestReference {
    pub fn example() -> Self {
        let url = "https://longshore.example.com/users/export/9d2261c4-4cf3-44b0-909b-455baf540288-1795249898/manifest.json?signature=dqIqj_fo";
        Self {
            key: None,
            url: Some(url.to_owned()),
            sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".to_owned(),
        }
    }

    pub fn new(app: &App, job: &Job, progress: &Progress, sha256: &[u8]) -> Self {
        let is_own = job.storage_id.is_some();
        let date = progress.completion_date().filter(|_| is_own);
        Self {
            key: date.map(|date| paths::own_proof(&job.folder(date), manifest::MANIFEST_SUFFIX)),
            url: (!is_own).then(|| download::address_of_manifest(app, &job.object_prefix)),
            sha256: hex::encode(sha256),
        }
    }

    /// Without the signed URL.
    pub fn without_url(self) -> Self {
        Self { url: None, ..self }
    }
}

impl StoredExport<'_> {
    /// Writes the three objects; returns the hash of the manifest. Checks `stop` between steps.
    pub async fn write_proof(
        &self,
        app: &App,
        stop: &CancellationToken,
    ) -> Result<Sha256Hash, ExportError> {
        let Self { job, progress, .. } = self;
        let manifest = self.manifest(app, stop).await?;
        let bytes = manifest.to_bytes();
        let sha256: Sha256Hash = Sha256::digest(&bytes).into();
        let name = format!("{}{}", job.object_prefix, manifest::MANIFEST_SUFFIX);
        let checksums = manifest.checksums(&name, &hex::encode(sha256));
        let mut tx = app.store.write().await?;
        let now = app.database_now(&mut tx).await?;
        let key = signing::active(&mut tx, &app.secrets, job.workspace_id, now).await;
        let key = key.map_err(signing_error)?;
        tx.commit().await?;
        let signature = key.sign(&bytes);
        for (suffix, content_type, body) in [
            (manifest::CHECKSUMS_SUFFIX, "text/plain; charset=utf-8", checksums.into_bytes()),
            (manifest::SIGNATURE_SUFFIX, "text/plain; charset=utf-8", signature.into_bytes()),
            (manifest::MANIFEST_SUFFIX, "application/json", bytes),
        ] {
            check_stop(stop)?;
            fail_point!("proof::writing");
            let options = PutOptions { content_type, ..PutOptions::default() };
            let written = match (&self.stored, progress.completion_date()) {
                (Stored::Own(objects), Some(date)) => {
                    let path = paths::own_proof(&job.folder(date), suffix);
                    objects.put(&path, body.into(), options).await.map_err(ExportError::Own)
                }
                _ => {
                    let path = paths::private_proof(job.id, suffix);
                    app.objects.put(&path, body.into(), options).await.map_err(ExportError::Objects)
                }
            };
            written?;
        }
        Ok(sha256)
    }

    async fn manifest(&self, app: &App, stop: &CancellationToken) -> Result<Manifest, ExportError> {
        let Self { job, plan, progress, winners, stored } = self;
        let mut tx = app.store.snapshot().await?;
        let workspace = workspaces::by_id(&mut tx, job.workspace_id).await?.ok_or_else(|| {
            ExportError::Permanent(Failure::internal(format!(
                "unknown workspace {}",
                job.workspace_id
            )))
        })?;
        let storage = match job.storage_id {
            Some(id) => location(storage::settings(&mut tx, &app.secrets, id).await?),
            None => ExportStorage::Url,
        };
        drop(tx);
        let (fields, service_id_name) = manifest::requested_fields(&job.fields);
        let exported = winners.iter().map(|winner| count(winner.users)).sum();
        let planned = progress.users.map_or(exported, count);
        let planned = checked_plan(planned, exported, plan.moment.is_some())?;
        let files = match stored {
            Stored::Own(objects) => {
                let mut files = Vec::with_capacity(winners.len());
                for winners in winners.chunks(READS_AT_ONCE) {
                    check_stop(stop)?;
                    let read = winners.iter().map(|winner| self.file(objects, winner));
                    files.extend(futures::future::try_join_all(read).await?);
                }
                files
            }
            Stored::Archive { bytes, sha256 } => vec![archive(job, winners, *bytes, sha256)],
        };
        Ok(Manifest {
            format_version: manifest::FORMAT_VERSION,
            object_prefix: job.object_prefix.clone(),
            workspace: workspace.name,
            audience: audience(job, plan),
            fields,
            service_id_name,
            currency: Some(plan.currency.clone()),
            format: if job.storage_id.is_some() { job.format } else { super::Format::Zip },
            storage,
            requested_at: job.requested_at,
            // A worker of the release before does not write down when it planned.
            planned_at: plan.planned_at.or(progress.started_at).unwrap_or(job.requested_at),
            completed_at: progress.completed_at.unwrap_or(job.requested_at),
            first_day: plan.first_day,
            last_day: plan.last_day,
            record_schema: manifest::RecordSchema::default(),
            counts: Counts { planned, exported, erased: planned - exported },
            files,
        })
    }

    async fn file(&self, objects: &Objects, winner: &Winner) -> Result<File, ExportError> {
        let Self { job, plan, progress, .. } = self;
        let range = Some(range(winner.range));
        // A part whose users were all deleted in the meantime has no file.
        if winner.bytes == 0 {
            return Ok(File { range, ..File::default() });
        }
        let date = progress.completion_date().unwrap_or(plan.upload_date);
        let path = job.file_path(plan, winner.part, date);
        let name = path.strip_prefix(&job.folder(date)).unwrap_or(&path);
        let sha256 = match winner.sha256 {
            Some(sha256) => sha256,
            None => read_hash(objects, &path, winner.bytes).await?,
        };
        Ok(File {
            key: Some(format!("{}/{name}", job.object_prefix)),
            users: count(winner.users),
            bytes: winner.bytes,
            uncompressed_bytes: winner.raw_bytes,
            sha256: Some(hex::encode(sha256)),
            range,
            entries: None,
        })
    }
}

/// An unreadable signing key is nothing that the customer can fix.
fn signing_error(error: StorageError) -> ExportError {
    match error {
        StorageError::Secret(error) => {
            ExportError::Permanent(Failure::internal(format!("the signing key: {error}")))
        }
        error => error.into(),
    }
}

/// The planned users. Without a moment, users who were created during the planning may be in the
/// files.
fn checked_plan(planned: u64, exported: u64, has_moment: bool) -> Result<u64, ExportError> {
    if exported <= planned || !has_moment {
        return Ok(planned.max(exported));
    }
    let detail = format!("{planned} users are planned, and {exported} exported");
    Err(ExportError::Permanent(Failure::internal(detail)))
}

fn audience(job: &Job, plan: &Plan) -> ExportAudience {
    let segment_id = job.segment_id;
    match &job.audience {
        Audience::ControlGroup => {
            ExportAudience::ControlGroup { segment_id, slices: plan.slices.clone() }
        }
        Audience::Connected(audience) => ExportAudience::Audience(audience.clone()),
        Audience::Segment => {
            let is_all = segment_id == segments::all_users_id(job.workspace_id);
            let segment = plan.segment.as_ref();
            ExportAudience::Segment {
                segment_id,
                name: segment.map(|segment| segment.name.clone()).unwrap_or_default(),
                audience: segment.map(|segment| segment.audience.clone()).filter(|_| !is_all),
            }
        }
    }
}

fn location(settings: Settings) -> ExportStorage {
    match settings {
        Settings::S3(s3) => ExportStorage::S3 { bucket: s3.bucket, endpoint: s3.endpoint },
        Settings::Azure(azure) => {
            ExportStorage::Azure { container: azure.container, endpoint: azure.endpoint }
        }
    }
}

/// The hash of a file that a worker of the release before wrote.
async fn read_hash(objects: &Objects, path: &str, bytes: u64) -> Result<Sha256Hash, ExportError> {
    let read = async {
        let mut hash = Sha256::new();
        let mut body = read_counted(objects, path.to_owned(), bytes).await?;
        while let Some(bytes) = body.try_next().await? {
            hash.update(&bytes);
        }
        Ok(hash.finalize().into())
    };
    read.await.map_err(|error| part::unreadable(path, error))
}

fn archive(job: &Job, winners: &[Winner], bytes: u64, sha256: &Sha256Hash) -> File {
    let entry = |winner: &Winner| manifest::Entry {
        name: (winner.bytes > 0).then(|| job.entry_name(winner.part)),
        users: count(winner.users),
        uncompressed_bytes: winner.raw_bytes,
        range: range(winner.range),
    };
    File {
        key: Some(format!("{}{}", job.object_prefix, manifest::ARCHIVE_SUFFIX)),
        users: winners.iter().map(|winner| count(winner.users)).sum(),
        bytes,
        uncompressed_bytes: winners.iter().map(|winner| winner.raw_bytes).sum(),
        sha256: Some(hex::encode(sha256)),
        range: None,
        entries: Some(winners.iter().map(entry).collect()),
    }
}

fn range(part: PartRow) -> UserRange {
    UserRange { after: part.from.into(), up_to: part.to.into() }
}

fn count(users: i64) -> u64 {
    users.max(0).unsigned_abs()
}

/// A stream that fails unless it has `expected` bytes, so that a truncated one never becomes part
/// of a ZIP or of a hash.
pub(super) fn with_length(stream: ByteStream, expected: u64, name: String) -> ByteStream {
    let error = move |actual: u64| {
        ObjectError::Unavailable(
            format!("{name} returned {actual} bytes, expected {expected}").into(),
        )
    };
    futures::stream::try_unfold((stream, 0, error), move |(mut stream, before, error)| async move {
        let Some(chunk) = stream.try_next().await? else {
            return if before == expected { Ok(None) } else { Err(error(before)) };
        };
        let total = before + chunk.len() as u64;
        if total > expected {
            return Err(error(total));
        }
        Ok(Some((chunk, (stream, total, error))))
    })
    .boxed()
}

/// Streams a finished part's object. If it has not the part's length, a retry cannot help:
/// [`ObjectError::Damaged`].
pub(super) async fn read_counted(
    objects: &Objects,
    path: String,
    bytes: u64,
) -> Result<ByteStream, ObjectError> {
    let stream = with_length(objects.get(&path).await?, bytes, path.clone());
    let objects = objects.clone();
    let check = move |error| {
        let (objects, path) = (objects.clone(), path.clone());
        async move {
            match objects.head(&path).await {
                Ok(Some(head)) if head.size != bytes => Err(ObjectError::Damaged(format!(
                    "{path} has {} bytes, but the export wrote {bytes}",
                    head.size
                ))),
                _ => Err(error),
            }
        }
    };
    Ok(stream.or_else(check).boxed())
}

/// The hash of a stream, as it passes.
pub(super) struct PassingHash(Arc<Mutex<Sha256>>);

impl PassingHash {
    /// The stream, and its hash once it is read.
    pub fn attach(stream: ByteStream) -> (ByteStream, Self) {
        let hash = Arc::new(Mutex::new(Sha256::new()));
        let passing = hash.clone();
        let stream = stream.inspect_ok(move |bytes: &Bytes| passing.lock().update(bytes));
        (stream.boxed(), Self(hash))
    }

    pub fn finish(self) -> Sha256Hash {
        self.0.lock().clone().finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cause;
    use kit::secrets::SecretError;

    #[test]
    fn only_plans_without_a_moment_have_more_users() {
        assert_eq!(checked_plan(5, 4, true).unwrap(), 5);
        assert_eq!(checked_plan(5, 6, false).unwrap(), 6);
        let Err(ExportError::Permanent(failure)) = checked_plan(5, 6, true) else { panic!() };
        assert_eq!(failure.cause, Cause::Internal);
    }

    #[test]
    fn an_unreadable_signing_key_is_not_the_customers_storage() {
        let failure = signing_error(StorageError::Secret(SecretError::CannotOpen)).failure();
        assert_eq!(failure.cause, Cause::Internal);
        assert!(failure.detail.contains("LONGSHORE_SECRET_KEY"), "{}", failure.detail);
    }

    async fn read(chunks: &[&'static str], length: u64) -> Result<String, ObjectError> {
        let chunks: Vec<_> =
            chunks.iter().map(|chunk| Ok(Bytes::from_static(chunk.as_bytes()))).collect();
        let stream = futures::stream::iter(chunks).boxed();
        let read: Vec<Bytes> = with_length(stream, length, "a".into()).try_collect().await?;
        Ok(String::from_utf8(read.concat()).unwrap())
    }

    #[tokio::test]
    async fn a_stream_of_another_length_fails() {
        assert_eq!(read(&["", "ab", "c"], 3).await.unwrap(), "abc");
        assert_eq!(read(&[], 0).await.unwrap(), "");
        for (chunks, length) in [(&["ab"][..], 3), (&["ab", "cd"], 3), (&[], 1), (&["a"], 0)] {
            assert!(read(chunks, length).await.is_err(), "{chunks:?} {length}");
        }
    }
}
