//! `longshore export download`: downloads the archive behind an export's `url`, continues where an
//! earlier download stopped, and verifies it. `export run` ends in the same way.
//!
//! Until all is verified, everything is in a folder of its own, `.<object_prefix>.part`. A repeated
//! download continues there.

mod transfer;

use std::path::{Path, PathBuf};

use indicatif::HumanBytes;
use serde_json::Value;
use tokio::fs;
use url::Url;

use super::client::{Client, Export};
use super::verify::{self, Keys};
use super::{archive, wait};
use crate::cli::ids::object_prefix;
use crate::cli::progress::{Progress, Unit};
use crate::cli::{CommandResult, Error};
use crate::shutdown;
use proof::manifest::{ARCHIVE_SUFFIX, CHECKSUMS_SUFFIX, MANIFEST_SUFFIX, SIGNATURE_SUFFIX};
use proof::verify::source::ExportAddress;
use proof::verify::{Source, Trust};

/// The objects next to the archive. The manifest is the last one to get its name.
const PROOFS: [&str; 3] = [CHECKSUMS_SUFFIX, SIGNATURE_SUFFIX, MANIFEST_SUFFIX];

#[derive(clap::Args)]
pub(super) struct Download {
    /// The export's object_prefix
    #[arg(value_parser = object_prefix)]
    prefix: String,
    /// Directory for the downloaded files
    #[arg(long, value_name = "DIR", default_value = ".")]
    output: PathBuf,
    #[command(flatten)]
    keys: Keys,
}

/// Waits for the export if it is not done yet.
pub(super) async fn run(client: &Client, arguments: Download, as_json: bool) -> CommandResult {
    let Download { prefix, output, keys } = arguments;
    let trust = keys.read()?;
    let hint = || "the export continues".to_owned();
    let (export, raw) = shutdown::with_hint(wait(client, &prefix), hint).await??;
    let url = raw["url"].as_str().ok_or_else(|| without_url(&prefix, &raw))?;
    let downloaded = fetch_or_hint(client, url, &output, &export, trust).await?;
    eprintln!("{}: {}", downloaded.archive.display(), downloaded.summary);
    print_result(&raw, Some(&downloaded.archive), as_json)
}

/// Why a completed export has no download URL.
fn without_url(prefix: &str, status: &Value) -> String {
    match status["expires_at"].as_str() {
        Some(time) => format!("the url of {prefix} expired at {time}: request a new export"),
        None => format!(
            "{prefix} has no url: its files are in the workspace's own storage. To verify them \
             there: longshore export verify s3://… or azure://…"
        ),
    }
}

/// Standard output: the file's path, or all known data with `json`.
pub(super) fn print_result(raw: &Value, file: Option<&Path>, as_json: bool) -> CommandResult {
    if as_json {
        let mut raw = raw.clone();
        if let Some(file) = file {
            raw["file"] = file.display().to_string().into();
        }
        println!("{raw}");
    } else if let Some(file) = file {
        println!("{}", file.display());
    }
    Ok(())
}

/// A verified archive.
pub struct Downloaded {
    pub archive: PathBuf,
    /// Such as `verified: 5,001 users in 1 file, 12.00 MiB, signed by SHA256:…`.
    pub summary: String,
}

/// [`fetch`], which an interruption ends with the command that continues it.
pub(super) async fn fetch_or_hint(
    client: &Client,
    url: &str,
    directory: &Path,
    export: &Export,
    trust: Option<Trust>,
) -> CommandResult<Downloaded> {
    let prefix = &export.object_prefix;
    let keys = if trust.is_some() { ", with the same keys" } else { "" };
    let hint = || {
        let output = directory.display();
        format!("to continue: longshore export download {prefix} --output {output}{keys}")
    };
    shutdown::with_hint(fetch(client, url, directory, export, trust), hint).await?
}

/// Downloads a completed export into a directory, and verifies it with every record. Without
/// `trust`, the API's keys count. A repeated download continues an interrupted one.
pub async fn fetch(
    client: &Client,
    url: &str,
    directory: &Path,
    export: &Export,
    trust: Option<Trust>,
) -> CommandResult<Downloaded> {
    let needs_manifest = trust.is_some() || export.manifest.is_some();
    let trust = trust.unwrap_or_else(|| client.as_trusted_gateway());
    Task { client, url, directory, export, trust, needs_manifest }.run().await
}

struct Task<'t> {
    client: &'t Client,
    url: &'t str,
    directory: &'t Path,
    export: &'t Export,
    trust: Trust,
    /// Whether an archive without a manifest is refused. Such an archive has no signature, so keys
    /// that the caller gave require a manifest.
    needs_manifest: bool,
}

impl Task<'_> {
    async fn run(&self) -> CommandResult<Downloaded> {
        let archive = self.directory.join(self.name(ARCHIVE_SUFFIX));
        if fs::try_exists(&archive).await? {
            return self.verify_existing(archive).await;
        }
        let folder = self.directory.join(format!(".{}.part", self.export.object_prefix));
        fs::create_dir_all(&folder)
            .await
            .map_err(|error| format!("--output {}: {error}", self.directory.display()))?;
        // An earlier release kept the ETag there, and nothing else may have a name of the export.
        let _ = fs::remove_file(folder.join(self.name(".etag"))).await;
        let draft = folder.join(self.name(ARCHIVE_SUFFIX));
        let earlier = transfer::downloaded(&draft).await;
        let mut progress = Progress::continue_after(Unit::Bytes, earlier);
        if earlier > 0 {
            progress.line(&format!("continuing an earlier download of {}", HumanBytes(earlier)));
        }
        transfer::continue_download(self.client, self.url, &draft, |done, total| {
            progress.update("downloading", done, total);
        })
        .await?;
        drop(progress);
        let has_manifest = self.fetch_proofs(&folder).await?;
        let verified = if has_manifest {
            self.verify(&folder).await
        } else {
            self.check_archive(&draft).await
        };
        let summary = match verified {
            Ok(summary) => summary,
            Err(Unverified::Wrong(error)) => {
                // To continue it would be in vain.
                let _ = fs::remove_dir_all(&folder).await;
                return Err(error);
            }
            Err(Unverified::Unknown(error)) => return Err(error),
        };
        // The archive last: where it is, everything is.
        for suffix in PROOFS.into_iter().filter(|_| has_manifest).chain([ARCHIVE_SUFFIX]) {
            let name = self.name(suffix);
            fs::rename(folder.join(&name), self.directory.join(&name)).await?;
        }
        fs::remove_dir_all(&folder).await?;
        Ok(Downloaded { archive, summary })
    }

    /// The name of an object of the export.
    fn name(&self, suffix: &str) -> String {
        format!("{}{suffix}", self.export.object_prefix)
    }

    /// An earlier download was complete.
    async fn verify_existing(&self, archive: PathBuf) -> CommandResult<Downloaded> {
        let has_manifest = fs::try_exists(self.directory.join(self.name(MANIFEST_SUFFIX))).await?;
        let verified = if has_manifest {
            self.verify(self.directory).await
        } else {
            self.check_archive(&archive).await
        };
        match verified {
            Ok(summary) => Ok(Downloaded { archive, summary }),
            Err(Unverified::Wrong(error) | Unverified::Unknown(error)) => Err(format!(
                "{} exists: {error}. To download it again, delete this file",
                archive.display()
            )
            .into()),
        }
    }

    /// Downloads manifest, checksums and signature. Returns whether there is a manifest: an export
    /// that a worker of an earlier release completed has none.
    async fn fetch_proofs(&self, folder: &Path) -> CommandResult<bool> {
        let address = Url::parse(self.url).ok().and_then(ExportAddress::new);
        let address = address.ok_or("the API's url is not the url of an export")?;
        let source = Source::Url { client: self.client.http().clone(), address };
        let mut has_manifest = false;
        for suffix in PROOFS {
            let name = self.name(suffix);
            let content = source.read(&name, proof::verify::MAX_MANIFEST).await?;
            if let Some(content) = content {
                fs::write(folder.join(&name), content).await?;
                has_manifest |= suffix == MANIFEST_SUFFIX;
            }
        }
        Ok(has_manifest)
    }

    async fn verify(&self, folder: &Path) -> Result<String, Unverified> {
        let source = Source::Directory(folder.to_owned());
        let report = verify::check(&source, &self.export.object_prefix, &self.trust, true).await;
        let report = report.map_err(|error| Unverified::Unknown(error.into()))?;
        if report.is_valid() {
            return Ok(verify::summary(&report));
        }
        let error = verify::differences("the download is not the export", &report);
        Err(Unverified::Wrong(error.into()))
    }

    /// The check without a manifest.
    async fn check_archive(&self, archive: &Path) -> Result<String, Unverified> {
        if self.needs_manifest {
            let name = self.name(MANIFEST_SUFFIX);
            let error = format!("{name} is missing, so the archive cannot be verified");
            return Err(Unverified::Unknown(error.into()));
        }
        let (path, users, files) =
            (archive.to_owned(), self.export.users.done, self.export.files.done);
        let check = tokio::task::spawn_blocking(move || archive::check(&path, files, users));
        match check.await {
            Ok(Ok(())) => Ok(format!(
                "{}, checked without a manifest: an earlier release completed this export",
                self.export.contents()
            )),
            Ok(Err(error)) => Err(Unverified::Wrong(error.into())),
            Err(error) => Err(Unverified::Unknown(error.into())),
        }
    }
}

/// Why a download is not verified.
enum Unverified {
    /// It is not the export.
    Wrong(Error),
    /// The check could not be made.
    Unknown(Error),
}
