//! A part of an export: read, projected, compressed, written, counted.
//!
//! Two workers may process the same part if one was paused beyond its lease. In own storage both
//! write the same name, but only if it does not exist: the second one uses the first one's file,
//! with the data in its metadata. Without own storage each attempt has its own name. In both cases
//! only the worker with the valid claim is counted.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::archive::Shape;
use super::error::check_stop;
use super::members::{Members, Selection};
use super::pack::{self, PackSpec, PackedPart};
use super::part_rows::{self, PartResult, PartRow, Sha256Hash, Winner};
use super::spill::{LargeFile, Spill};
use super::{ExportError, Failure, Format, Job, Plan, paths, rows, state, telemetry};
use gateway::app::App;
use gateway::workspaces;
use kit::clock;
use kit::fail_point;
use kit::moment::Moment;
use objects::{Head, ObjectError, Objects, Put, PutOptions, probe};
use proof::fields::FieldSet;
use store::StoreError;
use store::claims::{self, Claim};
use store::documents::unknown;

/// Processes the claimed part. Drops the claim if the job is no longer running.
///
/// Checks `stop` between steps; [`ExportError::Stopped`] leaves the claim unchanged.
pub async fn run(app: &App, claim: &Claim, stop: &CancellationToken) -> Result<(), ExportError> {
    match Task::load(app, claim).await? {
        Some(task) => task.run(app, stop).await,
        None => {
            let mut tx = app.store.write().await?;
            claims::finish(&mut tx, claim).await?;
            Ok(tx.commit().await?)
        }
    }
}

/// A part with its context.
struct Task {
    claim: Claim,
    job: Job,
    plan: Plan,
    part: PartRow,
    selection: Arc<Selection>,
    fields: FieldSet,
}

impl Task {
    /// None if there is nothing left to do.
    async fn load(app: &App, claim: &Claim) -> Result<Option<Self>, ExportError> {
        let row = rows::part_to_do(&app.store, claim.job, claim.item).await?;
        let Some((job, plan, part)) = row else { return Ok(None) };
        telemetry::note_request(&job);
        let fields = FieldSet::parse(&job.fields)
            .map_err(|_| unknown("export_jobs.fields", job.id, &job.fields.join(", ")))?;
        let selection = Arc::new(selection(app, claim, &plan).await?);
        Ok(Some(Self { claim: *claim, job, plan, part, selection, fields }))
    }

    async fn run(&self, app: &App, stop: &CancellationToken) -> Result<(), ExportError> {
        // First of all, because users need not be read if the credentials do not work.
        let objects = match self.job.storage_id {
            Some(storage) => workspaces::open_storage(app, storage).await?,
            None => app.objects.clone(),
        };
        if self.claim.waits() > 0 {
            let error = if self.is_own() { ExportError::Own } else { ExportError::Objects };
            probe::is_back(&objects, self.job.id).await.map_err(error)?;
        }
        let spec = self.spec(app);
        let result = self.write(app, &objects, &spec, stop).await;
        // The file is complete, or another attempt begins with the users again.
        spec.spill.delete().await;
        let result = result?;
        fail_point!("part::uploaded");
        check_stop(stop)?;
        let mut tx = app.store.write_by_keys().await?;
        state::part_done(app, &mut tx, &self.claim, &result).await?;
        tx.commit().await?;
        fail_point!("part::done");
        tracing::debug!(users = result.users, bytes = result.bytes, "export part completed");
        Ok(())
    }

    async fn write(
        &self,
        app: &App,
        objects: &Objects,
        spec: &PackSpec,
        stop: &CancellationToken,
    ) -> Result<PartResult, ExportError> {
        let packed = pack::pack(app, spec, stop).await?;
        check_stop(stop)?;
        fail_point!("part::packed");
        self.store(objects, packed, stop).await
    }

    fn spec(&self, app: &App) -> PackSpec {
        let Claim { job, item: part, attempt, .. } = self.claim;
        PackSpec {
            workspace: self.job.workspace_id,
            plan: self.plan.clone(),
            part: self.part,
            selection: self.selection.clone(),
            fields: self.fields.clone(),
            shape: self.shape(),
            entry_name: self.job.entry_name(self.claim.item),
            time: clock::from_ms(self.job.requested_at),
            spill: Spill::new(app.objects.clone(), paths::pieces(job, part, attempt)),
        }
    }

    fn is_own(&self) -> bool {
        self.job.storage_id.is_some()
    }

    fn shape(&self) -> Shape {
        match self.job.format {
            _ if !self.is_own() => Shape::Segment,
            Format::Zip => Shape::Zip,
            Format::Gzip => Shape::Gzip,
        }
    }

    /// Writes the file. A part without users writes none (its result has 0 bytes), unless an
    /// earlier attempt may have written one: then an empty file takes the name, so that a paused
    /// worker cannot. A part with unreadable users writes none either, because the job fails: a
    /// later attempt, after their repair, could otherwise use that incomplete file.
    async fn store(
        &self,
        objects: &Objects,
        packed: PackedPart,
        stop: &CancellationToken,
    ) -> Result<PartResult, ExportError> {
        let PackedPart { mut file, spill, sha256, users, broken, reserved } = packed;
        let is_empty = users == 0 && (!self.is_own() || self.claim.attempt == 1);
        if is_empty || !broken.is_empty() {
            let broken = broken.into_iter().map(|user| (user.service_id, user.reason)).collect();
            return Ok(PartResult { broken, ..PartResult::default() });
        }
        let result = PartResult {
            users,
            raw_bytes: signed(file.raw_bytes),
            bytes: signed(file.stored_bytes()),
            crc32: file.crc32,
            sha256,
            broken: Vec::new(),
        };
        let began = Moment::now();
        let result = match LargeFile::from_packed(&mut file, spill) {
            Some(file) => self.upload_large(objects, &file, result, stop).await?,
            None => self.upload(objects, Bytes::from(file.bytes), result).await?,
        };
        telemetry::stage("upload", began.elapsed(), result.bytes.unsigned_abs());
        drop(reserved);
        Ok(result)
    }

    async fn upload(
        &self,
        objects: &Objects,
        body: Bytes,
        result: PartResult,
    ) -> Result<PartResult, ExportError> {
        let part = self.claim.item;
        let content_type = content_type(self.shape());
        if self.is_own() {
            let path = self.job.file_path(&self.plan, part, self.plan.upload_date);
            return write_once(objects, &path, content_type, body, result).await;
        }
        let path = paths::segment(self.job.id, part, self.claim.attempt);
        let options = PutOptions { content_type, sha256: result.sha256, ..PutOptions::default() };
        objects.put(&path, body, options).await.map_err(ExportError::Objects)?;
        Ok(result)
    }

    /// [`upload`](Self::upload) for a file in pieces.
    async fn upload_large(
        &self,
        objects: &Objects,
        file: &LargeFile,
        mut result: PartResult,
        stop: &CancellationToken,
    ) -> Result<PartResult, ExportError> {
        let part = self.claim.item;
        let sha256 = file.hash(stop).await?;
        result.sha256 = Some(sha256);
        let content_type = content_type(self.shape());
        let mut options = PutOptions { content_type, ..PutOptions::default() };
        if self.is_own() {
            let path = self.job.file_path(&self.plan, part, self.plan.upload_date);
            options = PutOptions { metadata: to_metadata(&result), if_absent: true, ..options };
            let put = file.upload(objects, &path, options, sha256, stop, ExportError::Own).await?;
            return written_or_earlier(objects, &path, put, result).await;
        }
        let path = paths::segment(self.job.id, part, self.claim.attempt);
        file.upload(objects, &path, options, sha256, stop, ExportError::Objects).await?;
        Ok(result)
    }
}

/// How the part finds its users: those that the plan wrote down, if it did.
async fn selection(app: &App, claim: &Claim, plan: &Plan) -> Result<Selection, ExportError> {
    let Some(attempt) = plan.members else { return Ok(Selection::All) };
    let members = part_rows::members(&app.store, claim.job, attempt, claim.item).await?;
    let members = members.ok_or_else(|| {
        let (part, job) = (claim.item, claim.job);
        StoreError::Corrupt(format!("the members of part {part} of export job {job}"))
    })?;
    Ok(Members::decode(&members)?.selection())
}

/// Writes a part's file with the name that all attempts share, and `result` as its metadata. If an
/// earlier attempt was faster, returns the result in its metadata.
pub async fn write_once(
    objects: &Objects,
    path: &str,
    content_type: &'static str,
    body: Bytes,
    result: PartResult,
) -> Result<PartResult, ExportError> {
    let options = PutOptions {
        content_type,
        metadata: to_metadata(&result),
        if_absent: true,
        sha256: result.sha256,
    };
    let put = objects.put(path, body, options).await.map_err(ExportError::Own)?;
    written_or_earlier(objects, path, put, result).await
}

/// `result`, or that of the earlier attempt whose file exists.
async fn written_or_earlier(
    objects: &Objects,
    path: &str,
    put: Put,
    result: PartResult,
) -> Result<PartResult, ExportError> {
    if put == Put::Written {
        return Ok(result);
    }
    let head = match objects.head(path).await {
        Ok(Some(head)) => head,
        Ok(None) => return Err(ExportError::Transient(Failure::vanished(path))),
        // Its users and bytes may differ from these, so they would be unknown.
        Err(error) => return Err(unreadable(path, error)),
    };
    let earlier = from_metadata(&head);
    let earlier = earlier.ok_or_else(|| ExportError::Permanent(Failure::file_conflict(path)))?;
    tracing::info!(path, "reused a file from an earlier attempt");
    Ok(earlier)
}

/// The error of own storage from which a file of the export cannot be read; says what to grant.
pub(super) fn unreadable(path: &str, error: ObjectError) -> ExportError {
    ExportError::Own(match error {
        ObjectError::Refused(reason) => ObjectError::Refused(reason.with(&format!(
            "{path} already exists, and Longshore must read it: grant the right to read files \
             (s3:GetObject in S3, read in an Azure SAS)"
        ))),
        error => error,
    })
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn content_type(shape: Shape) -> &'static str {
    match shape {
        Shape::Zip => "application/zip",
        Shape::Gzip => "application/gzip",
        Shape::Segment => "application/octet-stream",
    }
}

// The metadata of a file. Names without separators: Azure does not allow hyphens, and some proxies
// drop headers with underscores.
const USERS: &str = "users";
const RAW_BYTES: &str = "rawbytes";
const BYTES: &str = "bytes";
const CRC32: &str = "crc32";
const SHA256: &str = "sha256";

fn to_metadata(result: &PartResult) -> BTreeMap<String, String> {
    let value = |name: &str, value: i64| (name.to_owned(), value.to_string());
    let mut metadata: BTreeMap<String, String> = [
        value(USERS, result.users),
        value(RAW_BYTES, result.raw_bytes),
        value(BYTES, result.bytes),
        value(CRC32, result.crc32.into()),
    ]
    .into();
    metadata.extend(result.sha256.map(|hash| (SHA256.to_owned(), hex::encode(hash))));
    metadata
}

fn read_hash(text: &str) -> Option<Sha256Hash> {
    hex::decode(text).ok()?.try_into().ok()
}

/// Whether a file is the one with which a part was counted.
pub(super) fn is_file_of(head: &Head, winner: &Winner) -> bool {
    from_metadata(head).is_some_and(|file| {
        let file = (file.users, file.raw_bytes, file.bytes, file.crc32);
        file == (winner.users, signed(winner.raw_bytes), signed(winner.bytes), winner.crc32)
    })
}

/// None if the metadata are not from [`to_metadata`], or do not fit an object of this size.
fn from_metadata(head: &Head) -> Option<PartResult> {
    let count =
        |name: &str| head.metadata.get(name)?.parse::<i64>().ok().filter(|value| *value >= 0);
    let result = PartResult {
        users: count(USERS)?,
        raw_bytes: count(RAW_BYTES)?,
        bytes: count(BYTES)?,
        crc32: u32::try_from(count(CRC32)?).ok()?,
        // A worker of the release before does not write it.
        sha256: head.metadata.get(SHA256).and_then(|hash| read_hash(hash)),
        broken: Vec::new(),
    };
    (result.bytes == signed(head.size)).then_some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result() -> PartResult {
        PartResult {
            users: 5_000,
            raw_bytes: 7_000_000,
            bytes: 12,
            crc32: u32::MAX,
            sha256: Some([7; 32]),
            broken: vec![],
        }
    }

    #[test]
    fn file_metadata_survives_a_round_trip() {
        let head = Head { size: 12, metadata: to_metadata(&result()) };
        assert_eq!(from_metadata(&head), Some(result()));
    }

    #[test]
    fn objects_with_invalid_metadata_are_not_part_files() {
        let valid = Head { size: 12, metadata: to_metadata(&result()) };
        assert_eq!(from_metadata(&Head { size: 11, ..valid.clone() }), None);
        for name in [USERS, RAW_BYTES, BYTES, CRC32] {
            for wrong in [None, Some("-1"), Some("many"), Some("99999999999999999999")] {
                let mut head = valid.clone();
                head.metadata.remove(name);
                head.metadata.extend(wrong.map(|value| (name.to_owned(), value.to_owned())));
                assert_eq!(from_metadata(&head), None, "{name} {wrong:?}");
            }
        }
    }

    #[test]
    fn refused_reads_name_the_right_to_grant() {
        let refused = |error| unreadable("a/b.zip", error).failure().message;
        let message = refused(ObjectError::Refused("access denied".into()));
        assert!(message.contains("s3:GetObject") && message.contains("a/b.zip"), "{message}");
        let other = refused(ObjectError::Unavailable("connection reset".into()));
        assert!(!other.contains("s3:GetObject"), "{other}");
    }
}
