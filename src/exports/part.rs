//! A part of an export: read, projected, compressed, written, counted.
//!
//! A part can be worked on by two workers at once, when one slept through its lease. In own
//! storage both write the same name, and only where nothing is there: who comes second takes
//! over what the first one wrote, from its metadata. Without own storage each attempt has a
//! name of its own. Either way one of them is counted, the one whose claim still stands.

use std::collections::BTreeMap;
use std::time::Instant;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::archive::Shape;
use super::error::go_on;
use super::fields::FieldSet;
use super::pack::{self, Order, PackedPart};
use super::part_rows::{PartResult, PartRow, Winner};
use super::{ExportError, Failure, Format, Job, Plan, paths, rows, state, telemetry};
use crate::app::App;
use crate::workspaces;
use kit::clock;
use kit::fail_point;
use objects::{Head, ObjectError, Objects, Put, PutOptions};
use store::claims::{self, Claim};
use store::documents::unknown;

/// Does the claimed part. Of a job that is not running any more the claim is dropped.
///
/// `stop` is looked at between steps; [`ExportError::Stopped`] then leaves the claim as it is.
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

/// A part and what it belongs to.
struct Task {
    claim: Claim,
    job: Job,
    plan: Plan,
    part: PartRow,
    fields: FieldSet,
}

impl Task {
    /// None where there is nothing left to do.
    async fn load(app: &App, claim: &Claim) -> Result<Option<Self>, ExportError> {
        let found = rows::part_to_do(&app.store, claim.job, claim.item).await?;
        let Some((job, plan, part)) = found else { return Ok(None) };
        telemetry::note_request(&job);
        let fields = FieldSet::parse(&job.fields)
            .map_err(|_| unknown("export_jobs.fields", job.id, &job.fields.join(", ")))?;
        Ok(Some(Self { claim: *claim, job, plan, part, fields }))
    }

    async fn run(&self, app: &App, stop: &CancellationToken) -> Result<(), ExportError> {
        // First of all, since credentials that do not work need no users read.
        let objects = match self.job.storage_id {
            Some(storage) => workspaces::open_storage(app, storage).await?,
            None => app.objects.clone(),
        };
        let packed = pack::pack(app, &self.order(), stop).await?;
        go_on(stop)?;
        fail_point!("part::packed");
        let result = self.store(&objects, packed).await?;
        fail_point!("part::uploaded");
        go_on(stop)?;
        let mut tx = app.store.write_by_keys().await?;
        state::part_done(app, &mut tx, &self.claim, &result).await?;
        tx.commit().await?;
        fail_point!("part::done");
        tracing::debug!(users = result.users, bytes = result.bytes, "a part is done");
        Ok(())
    }

    fn order(&self) -> Order {
        Order {
            workspace: self.job.workspace_id,
            plan: self.plan.clone(),
            part: self.part,
            fields: self.fields.clone(),
            shape: self.shape(),
            entry_name: self.job.entry_name(self.claim.item),
            time: clock::from_ms(self.job.requested_at),
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

    /// Writes the file. A part without users leaves none (its result has 0 bytes), as long
    /// as no earlier attempt can have left one: else the name is taken, so that a sleeper
    /// finds it taken. Nor does a part with broken users, for which the job fails: a file
    /// that lacks them could be taken over by an attempt that finds them mended.
    async fn store(
        &self,
        objects: &Objects,
        packed: PackedPart,
    ) -> Result<PartResult, ExportError> {
        let PackedPart { file, users, broken, reserved } = packed;
        let is_empty = users == 0 && (!self.is_own() || self.claim.attempt == 1);
        if is_empty || !broken.is_empty() {
            let broken = broken.into_iter().map(|user| (user.service_id, user.reason)).collect();
            return Ok(PartResult { broken, ..PartResult::default() });
        }
        let result = PartResult {
            users,
            raw_bytes: signed(file.raw_bytes),
            bytes: signed(file.bytes.len() as u64),
            crc32: file.crc32,
            broken: Vec::new(),
        };
        let began = Instant::now();
        let result = self.upload(objects, Bytes::from(file.bytes), result).await?;
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
        let options = PutOptions { content_type, ..PutOptions::default() };
        objects.put(&path, body, options).await.map_err(ExportError::Objects)?;
        Ok(result)
    }
}

/// Writes a part's file under the name that all attempts at it share, with `result` as its
/// metadata. Where an earlier attempt was first, the answer is what its file says of itself,
/// or `result` where the credentials may not look.
pub async fn write_once(
    objects: &Objects,
    path: &str,
    content_type: &'static str,
    body: Bytes,
    result: PartResult,
) -> Result<PartResult, ExportError> {
    let options = PutOptions { content_type, metadata: to_metadata(&result), if_absent: true };
    if objects.put(path, body, options).await.map_err(ExportError::Own)? == Put::Written {
        return Ok(result);
    }
    let head = match objects.head(path).await {
        Ok(Some(head)) => head,
        Ok(None) => return Err(ExportError::Transient(Failure::vanished(path))),
        // A key that may only write: what is there has the same range of users.
        Err(ObjectError::Refused(_)) => return Ok(result),
        Err(error) => return Err(ExportError::Own(error)),
    };
    let earlier = from_metadata(&head);
    let earlier = earlier.ok_or_else(|| ExportError::Permanent(Failure::in_the_way(path)))?;
    tracing::info!(path, "taken over from an earlier attempt");
    Ok(earlier)
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

// What a file says of itself. Names without separators: Azure takes no hyphens, and some
// proxies drop headers with underscores.
const USERS: &str = "users";
const RAW_BYTES: &str = "rawbytes";
const BYTES: &str = "bytes";
const CRC32: &str = "crc32";

fn to_metadata(result: &PartResult) -> BTreeMap<String, String> {
    let value = |name: &str, value: i64| (name.to_owned(), value.to_string());
    [
        value(USERS, result.users),
        value(RAW_BYTES, result.raw_bytes),
        value(BYTES, result.bytes),
        value(CRC32, result.crc32.into()),
    ]
    .into()
}

/// Whether a file is the one that a part was counted with.
pub(super) fn is_file_of(head: &Head, winner: &Winner) -> bool {
    from_metadata(head).is_some_and(|file| {
        let file = (file.users, file.raw_bytes, file.bytes, file.crc32);
        file == (winner.users, signed(winner.raw_bytes), signed(winner.bytes), winner.crc32)
    })
}

/// None where the metadata is not [`to_metadata`]'s, or not that of an object of this size.
fn from_metadata(head: &Head) -> Option<PartResult> {
    let count =
        |name: &str| head.metadata.get(name)?.parse::<i64>().ok().filter(|value| *value >= 0);
    let result = PartResult {
        users: count(USERS)?,
        raw_bytes: count(RAW_BYTES)?,
        bytes: count(BYTES)?,
        crc32: u32::try_from(count(CRC32)?).ok()?,
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
            broken: vec![],
        }
    }

    #[test]
    fn a_file_tells_what_is_in_it() {
        let head = Head { size: 12, metadata: to_metadata(&result()) };
        assert_eq!(from_metadata(&head), Some(result()));
    }

    #[test]
    fn what_another_wrote_is_not_taken_for_a_file() {
        let whole = Head { size: 12, metadata: to_metadata(&result()) };
        assert_eq!(from_metadata(&Head { size: 11, ..whole.clone() }), None);
        for name in [USERS, RAW_BYTES, BYTES, CRC32] {
            for wrong in [None, Some("-1"), Some("many"), Some("99999999999999999999")] {
                let mut head = whole.clone();
                head.metadata.remove(name);
                head.metadata.extend(wrong.map(|value| (name.to_owned(), value.to_owned())));
                assert_eq!(from_metadata(&head), None, "{name} {wrong:?}");
            }
        }
    }
}
