//! Verifies completed exports: the signature of the manifest, then everything that the manifest
//! states (docs/how-to/verify-an-export.md). Needs no installation.
//!
//! | module | is about |
//! |---|---|
//! | this file | [`verify`]: one export, in the order of the checks |
//! | [`source`], `http` | where the objects of an export are |
//! | [`trust`] | whose signature counts |
//! | `content`, `records`, `lines` | a file: its bytes, its records, how they are read |
//!
//! Files are read in parallel and in pieces. Local files, streams of an object storage and
//! downloads are read by the same code.

mod content;
mod http;
mod lines;
mod records;
pub mod source;
#[cfg(test)]
mod tests;
pub mod trust;

use std::collections::BTreeSet;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::task::JoinError;

use super::Format;
use super::manifest::{
    ARCHIVE_SUFFIX, CHECKSUMS_SUFFIX, Difference, DifferenceKind, ExportStorage, MANIFEST_SUFFIX,
    Manifest, ManifestError, SIGNATURE_SUFFIX, SignedFor,
};
use content::{FileCheck, Meter};
use kit::retry::Retry;
use records::RecordRules;
pub use source::{Source, SourceError};
pub use trust::{Signer, Trust, TrustError};

/// Differences that are reported; the rest is not looked for.
pub const MAX_DIFFERENCES: usize = 20;

/// Maximum size of a manifest: more than 400 bytes for each of a million files.
pub const MAX_MANIFEST: u64 = 512 << 20;
/// Maximum size of a checksum file; a line is shorter than an entry of the manifest.
const MAX_CHECKSUMS: u64 = MAX_MANIFEST;
const MAX_SIGNATURE: u64 = 64 << 10;

/// Interval between reports of progress.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);

/// The result for one export.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "ExportVerification")]
pub struct Report {
    pub object_prefix: String,
    /// From the manifest; trust it only if there are no differences.
    pub workspace: String,
    /// Whose signature the manifest has; none if the signature was not checked.
    pub signer: Option<Signer>,
    pub users: u64,
    pub files: u64,
    /// The bytes of the files.
    pub bytes: u64,
    /// Whether every record was read.
    pub records: bool,
    /// The first differences, in the order of the checks.
    pub differences: Vec<Difference>,
}

impl Report {
    pub fn is_valid(&self) -> bool {
        self.differences.is_empty()
    }
}

/// Why an export cannot be verified.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error("{name}: {error}")]
    Manifest { name: String, error: ManifestError },
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error("the manifest requests unknown fields: it {0}")]
    Fields(String),
    #[error("a check ended unexpectedly: {0}")]
    Task(#[from] JoinError),
}

impl Retry for VerifyError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Source(error) => error.can_retry(),
            Self::Manifest { error, .. } => error.can_retry(),
            Self::Trust(error) => error.can_retry(),
            Self::Fields(_) | Self::Task(_) => false,
        }
    }
}

/// Verifies the export with this `object_prefix`. `progress` gets the read and the expected bytes.
///
/// A wrong signature or a manifest that contradicts itself ends the check: nothing else that the
/// manifest states would prove anything. So does a link, a device or a pipe in place of a file.
pub async fn verify(
    source: &Source,
    object_prefix: &str,
    trust: &Trust,
    reads_records: bool,
    progress: impl FnMut(u64, u64),
) -> Result<Report, VerifyError> {
    match check(source, object_prefix, trust, reads_records, progress).await {
        Err(VerifyError::Source(SourceError::NotAFile(name))) => {
            let missing = Difference::new(name, DifferenceKind::Missing, "not a regular file");
            Ok(Report::without_manifest(object_prefix, String::new(), missing))
        }
        result => result,
    }
}

async fn check(
    source: &Source,
    object_prefix: &str,
    trust: &Trust,
    reads_records: bool,
    progress: impl FnMut(u64, u64),
) -> Result<Report, VerifyError> {
    let name = format!("{object_prefix}{MANIFEST_SUFFIX}");
    let Some(bytes) = source.read(&name, MAX_MANIFEST).await? else {
        source.check_address().await?;
        let missing = Difference::new(name, DifferenceKind::Missing, "");
        return Ok(Report::without_manifest(object_prefix, String::new(), missing));
    };
    let unreadable = |error| VerifyError::Manifest { name: name.clone(), error };
    let signed_for = SignedFor::parse(&bytes).map_err(unreadable)?;
    let signature_name = format!("{object_prefix}{SIGNATURE_SUFFIX}");
    let signature = match trust {
        Trust::Unsigned => None,
        _ => source.read(&signature_name, MAX_SIGNATURE).await?,
    };
    let checked = trust.check(&signed_for, &bytes, &signature_name, signature.as_deref()).await?;
    let signer = match checked {
        Ok(signer) => signer,
        Err(difference) => {
            let workspace = signed_for.workspace;
            return Ok(Report::without_manifest(object_prefix, workspace, difference));
        }
    };
    let manifest = Manifest::parse(&bytes).map_err(unreadable)?;
    let mut report = Report::new(object_prefix, &manifest, reads_records);
    report.signer = signer;
    if manifest.object_prefix != object_prefix {
        let detail = format!("is the manifest of another export, {:?}", manifest.object_prefix);
        report.add(&name, DifferenceKind::Manifest, detail);
    }
    report.differences.extend(manifest.check());
    if !report.is_valid() {
        return Ok(report.shortened());
    }
    check_checksums(source, &manifest, &bytes, &mut report).await?;
    report.differences.extend(check_files(source, &manifest, reads_records, progress).await?);
    report.differences.extend(added_objects(source, &manifest).await?);
    Ok(report.shortened())
}

impl Report {
    fn new(object_prefix: &str, manifest: &Manifest, records: bool) -> Self {
        let files = manifest.files.iter().filter(|file| file.key.is_some());
        Self {
            object_prefix: object_prefix.to_owned(),
            workspace: manifest.workspace.clone(),
            signer: None,
            users: manifest.counts.exported,
            files: files.clone().count() as u64,
            bytes: files.map(|file| file.bytes).fold(0, u64::saturating_add),
            records,
            differences: Vec::new(),
        }
    }

    /// An export without a manifest that counts is not complete.
    fn without_manifest(object_prefix: &str, workspace: String, difference: Difference) -> Self {
        Self {
            object_prefix: object_prefix.to_owned(),
            workspace,
            signer: None,
            users: 0,
            files: 0,
            bytes: 0,
            records: false,
            differences: vec![difference],
        }
    }

    fn add(&mut self, file: &str, kind: DifferenceKind, detail: impl Into<String>) {
        self.differences.push(Difference::new(file, kind, detail));
    }

    fn shortened(mut self) -> Self {
        self.differences.truncate(MAX_DIFFERENCES);
        self
    }
}

/// The checksum file has no signature of its own, so it must be the one that the manifest implies.
async fn check_checksums(
    source: &Source,
    manifest: &Manifest,
    manifest_bytes: &[u8],
    report: &mut Report,
) -> Result<(), SourceError> {
    let name = manifest.sibling(CHECKSUMS_SUFFIX);
    let expected =
        manifest.checksums(&manifest.sibling(MANIFEST_SUFFIX), &content::sha256(manifest_bytes));
    match source.read(&name, MAX_CHECKSUMS).await? {
        None => report.add(&name, DifferenceKind::Missing, ""),
        Some(found) if found != expected.as_bytes() => {
            report.add(&name, DifferenceKind::Checksums, "differs from the hashes in the manifest");
        }
        Some(_) => {}
    }
    Ok(())
}

/// Checks the files on all cores, until there are enough differences. These are in the order of the
/// manifest.
async fn check_files(
    source: &Source,
    manifest: &Manifest,
    reads_records: bool,
    mut progress: impl FnMut(u64, u64),
) -> Result<Vec<Difference>, VerifyError> {
    let rules = reads_records.then(|| RecordRules::new(manifest)).transpose();
    let rules = rules.map_err(VerifyError::Fields)?.map(Arc::new);
    let expected_bytes = manifest.files.iter().map(|file| file.bytes).fold(0, u64::saturating_add);
    let is_archive = manifest.storage == ExportStorage::Url;
    let format = if is_archive { Format::Zip } else { manifest.format };
    let meter = Arc::new(Meter::default());
    let stop = StopOnDrop(Arc::default());
    let checks = manifest.files.iter().filter_map(|file| {
        let key = file.key.clone()?;
        let check = FileCheck {
            key,
            file: file.clone(),
            format,
            rules: rules.clone(),
            meter: meter.clone(),
            stop: stop.0.clone(),
        };
        Some(check.run(source))
    });
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    // In order: the differences that are reported do not depend on which file was faster.
    let mut results = futures::stream::iter(checks).buffered(cores * 2);
    let mut ticks = tokio::time::interval(REPORT_INTERVAL);
    let mut differences = Vec::new();
    loop {
        tokio::select! {
            result = results.try_next() => match result? {
                Some(found) => differences.extend(found),
                None => break,
            },
            _ = ticks.tick() => progress(meter.bytes(), expected_bytes),
        }
        if differences.len() >= MAX_DIFFERENCES {
            break;
        }
    }
    Ok(differences)
}

/// Ends the work of threads whose result nobody waits for.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Objects that begin with the export's object_prefix, in its folder or next to it, and that are
/// neither its proof nor in the manifest: a reader would take them for data.
async fn added_objects(
    source: &Source,
    manifest: &Manifest,
) -> Result<Vec<Difference>, SourceError> {
    let listed: BTreeSet<&str> =
        manifest.files.iter().filter_map(|file| file.key.as_deref()).collect();
    let proof = [MANIFEST_SUFFIX, SIGNATURE_SUFFIX, CHECKSUMS_SUFFIX];
    let proof = proof.map(|suffix| manifest.sibling(suffix));
    let found = source.list(&manifest.object_prefix).await?.into_iter();
    let added = found.filter(|key| !listed.contains(key.as_str()) && !proof.contains(key));
    let added = added.take(MAX_DIFFERENCES);
    Ok(added.map(|key| Difference::new(key, DifferenceKind::Added, "")).collect())
}

/// The `object_prefix` in the name of one of an export's objects.
pub fn prefix_in_name(name: &str) -> Option<&str> {
    let suffixes = [SIGNATURE_SUFFIX, MANIFEST_SUFFIX, CHECKSUMS_SUFFIX, ARCHIVE_SUFFIX];
    let prefix = suffixes.into_iter().find_map(|suffix| name.strip_suffix(suffix));
    prefix.filter(|prefix| !prefix.is_empty())
}
