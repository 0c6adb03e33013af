//! `longshore export verify`: checks completed exports, without an installation.

use std::path::{Path, PathBuf};

use indicatif::HumanBytes;
use serde_json::json;
use url::Url;

use super::client;
use crate::cli::progress::{Progress, Unit};
use crate::cli::{CommandResult, Error};
use crate::config::ConfigError;
use kit::secrets::SecretKey;
use kit::sshsig::AllowedSigners;
use kit::words::count;
use objects::{ObjectError, Objects};
use proof::verify::source::ExportAddress;
use proof::verify::{self, Report, Source, Trust, VerifyError};

#[derive(clap::Args)]
pub(super) struct Verify {
    /// A directory or a manifest in it; the url of an export; or the folder of an export in an
    /// object storage, s3://… or azure://… with the parameters of LONGSHORE_OBJECTS_URL
    target: String,
    #[command(flatten)]
    keys: Keys,
    /// Do not check the signature
    #[arg(long, conflicts_with_all = ["allowed_signers", "public_key"])]
    unsigned: bool,
    /// Also read every record
    #[arg(long)]
    records: bool,
}

/// The keys that may sign.
#[derive(clap::Args)]
pub(super) struct Keys {
    /// File with the keys that may sign, as for ssh-keygen
    #[arg(long, value_name = "FILE", conflicts_with = "public_key")]
    allowed_signers: Option<PathBuf>,
    /// The only key that may sign, such as "ssh-ed25519 AAAA…"
    #[arg(long, value_name = "KEY")]
    public_key: Option<String>,
}

impl Keys {
    /// None: no keys are given.
    pub(super) fn read(&self) -> Result<Option<Trust>, ConfigError> {
        if let Some(key) = &self.public_key {
            let key = key.parse();
            let key = key.map_err(|error| problem(format!("--public-key: {error}")))?;
            return Ok(Some(Trust::Key(key)));
        }
        let Some(file) = &self.allowed_signers else { return Ok(None) };
        let at = |error: &dyn std::fmt::Display| {
            problem(format!("--allowed-signers {}: {error}", file.display()))
        };
        let text = std::fs::read_to_string(file).map_err(|error| at(&error))?;
        let signers = AllowedSigners::parse(&text).map_err(|error| at(&error))?;
        if signers.0.is_empty() {
            return Err(at(&"has no ssh-ed25519 keys"));
        }
        Ok(Some(Trust::Signers(signers)))
    }
}

fn problem(text: impl Into<String>) -> ConfigError {
    ConfigError { problems: vec![text.into()] }
}

pub(super) async fn run(arguments: Verify, as_json: bool) -> CommandResult {
    let given = if arguments.unsigned { Some(Trust::Unsigned) } else { arguments.keys.read()? };
    let target = Target::open(&arguments.target).await?;
    let trust = given.or_else(|| target.gateway());
    let trust = trust.ok_or_else(|| {
        problem(
            "set --allowed-signers or --public-key, or skip the signature with --unsigned. The \
             gateway serves the keys of a workspace at \
             /.well-known/longshore/WORKSPACE/allowed_signers",
        )
    })?;
    let prefixes = match &target.object_prefix {
        Some(prefix) => [prefix.clone()].into(),
        None => target.source.exports().await?,
    };
    if prefixes.is_empty() {
        let target = without_secrets(&arguments.target);
        return Err(format!("{target} has no export").into());
    }
    let mut reports = Vec::new();
    for prefix in &prefixes {
        let report = check(&target.source, prefix, &trust, arguments.records).await?;
        if !as_json {
            print(&report);
        }
        reports.push(report);
    }
    let invalid = reports.iter().filter(|report| !report.is_valid()).count();
    if as_json {
        println!("{}", json!({ "valid": invalid == 0, "exports": reports }));
    }
    match invalid {
        0 => Ok(()),
        _ => {
            Err(format!("{invalid} of {} not valid", count(reports.len() as u64, "export")).into())
        }
    }
}

/// Verifies one export with a progress bar.
pub(super) async fn check(
    source: &Source,
    prefix: &str,
    trust: &Trust,
    reads_records: bool,
) -> Result<Report, VerifyError> {
    let mut progress = Progress::begin(Unit::Bytes);
    let update = |done, total| progress.update("verifying", done, Some(total));
    verify::verify(source, prefix, trust, reads_records, update).await
}

fn print(report: &Report) {
    if report.is_valid() {
        println!("{}: {}", report.object_prefix, summary(report));
        return;
    }
    report.differences.iter().for_each(|difference| println!("{difference}"));
    if report.differences.len() == verify::MAX_DIFFERENCES {
        println!("further differences of {} are not listed", report.object_prefix);
    }
}

/// Such as `verified: 5,001 users in 2 files, 12.00 MiB, signed by SHA256:…`.
pub(super) fn summary(report: &Report) -> String {
    let users = count(report.users, "user");
    let (files, bytes) = (count(report.files, "file"), HumanBytes(report.bytes));
    let records = if report.records { ", every record read" } else { "" };
    let signature = match &report.signer {
        Some(signer) if signer.pinned => format!("signed by {}", signer.fingerprint),
        Some(signer) => {
            format!("signed by {} (as served by the gateway, not pinned)", signer.fingerprint)
        }
        None => "signature not checked".to_owned(),
    };
    format!("verified: {users} in {files}, {bytes}{records}, {signature}")
}

/// The differences of an invalid export, after a text.
pub(super) fn differences(text: &str, report: &Report) -> String {
    let differences = report.differences.iter().map(|difference| format!("\n  {difference}"));
    format!("{text}:{}", differences.collect::<String>())
}

/// A target without what may be the parameters of a URL.
fn without_secrets(target: &str) -> &str {
    target.split_once('?').map_or(target, |(address, _)| address)
}

/// What is to be verified.
pub(super) struct Target {
    pub(super) source: Source,
    /// None: all exports there.
    object_prefix: Option<String>,
}

impl Target {
    pub(super) async fn open(text: &str) -> CommandResult<Self> {
        match text.split_once("://") {
            Some(("http" | "https", _)) => Self::url(text),
            Some(("s3" | "azure", _)) => Self::objects(text).await,
            _ => Self::path(Path::new(text)),
        }
    }

    fn url(text: &str) -> CommandResult<Self> {
        let address = Url::parse(text).ok().and_then(ExportAddress::new);
        let address = address.ok_or_else(|| {
            problem(
                "TARGET: expected the url of an export: \
                 https://…/users/export/OBJECT_PREFIX/download?signature=…",
            )
        })?;
        let client = client::http_client().build()?;
        Ok(Self { source: Source::Url { client, address }, object_prefix: None })
    }

    /// A folder, or an object in it.
    async fn objects(text: &str) -> CommandResult<Self> {
        let mut url =
            Url::parse(text).map_err(|error| problem(format!("TARGET: not a URL: {error}")))?;
        let name = url.path_segments().and_then(|mut segments| segments.next_back());
        let object_prefix = name.and_then(verify::prefix_in_name).map(str::to_owned);
        if object_prefix.is_some()
            && let Ok(mut segments) = url.path_segments_mut()
        {
            segments.pop();
        }
        // It signs URLs of files, which are not needed here.
        let unused = SecretKey::parse(&SecretKey::generate(), None)?;
        let objects = Objects::open(url.as_str(), &unused).await.map_err(|error| match error {
            ObjectError::Settings(text) => Error::from(problem(format!("TARGET: {text}"))),
            error => error.into(),
        })?;
        Ok(Self { source: Source::Objects(objects), object_prefix })
    }

    /// A directory, or a file in it.
    fn path(path: &Path) -> CommandResult<Self> {
        if path.is_dir() {
            return Ok(Self { source: Source::Directory(path.to_owned()), object_prefix: None });
        }
        let name = path.file_name().and_then(|name| name.to_str());
        let object_prefix = name.and_then(verify::prefix_in_name).filter(|_| path.is_file());
        let object_prefix = object_prefix.ok_or_else(|| {
            problem(format!(
                "TARGET: {} is neither a directory, nor a manifest of an export, nor a URL with \
                 http, https, s3 or azure",
                without_secrets(&path.to_string_lossy())
            ))
        })?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = parent.unwrap_or(Path::new(".")).to_owned();
        let object_prefix = Some(object_prefix.to_owned());
        Ok(Self { source: Source::Directory(directory), object_prefix })
    }

    /// The gateway that serves the export also serves the keys.
    fn gateway(&self) -> Option<Trust> {
        let Source::Url { client, address } = &self.source else { return None };
        Some(Trust::Gateway { client: client.clone(), base: address.gateway() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(result: CommandResult<Target>) -> String {
        let error = result.err().expect("not a target");
        error.downcast::<ConfigError>().expect("a usage error").problems.join(", ")
    }

    #[test]
    fn files_of_an_export_lead_to_their_directory() {
        let directory = tempfile::tempdir().unwrap();
        let target = Target::path(directory.path()).unwrap();
        assert_eq!(target.object_prefix, None);
        for name in ["p-1.manifest.json", "p-1.zip", "p-1.SHA256SUMS"] {
            let path = directory.path().join(name);
            assert!(problems(Target::path(&path)).contains("neither"), "{name} does not exist");
            std::fs::write(&path, "").unwrap();
            let target = Target::path(&path).unwrap();
            assert_eq!(target.object_prefix.as_deref(), Some("p-1"));
            assert!(matches!(target.source, Source::Directory(found) if found == directory.path()));
        }
        std::fs::write(directory.path().join("users.csv"), "").unwrap();
        problems(Target::path(&directory.path().join("users.csv")));
    }

    #[tokio::test]
    async fn objects_lead_to_their_folder() {
        let query = "?endpoint=http://127.0.0.1:9&access_key_id=a&secret_access_key=b";
        for (path, prefix) in [("x/p-1.manifest.json", Some("p-1")), ("x/", None), ("x", None)] {
            let target = Target::objects(&format!("s3://bucket/{path}{query}")).await.unwrap();
            assert_eq!(target.object_prefix.as_deref(), prefix);
        }
        problems(Target::objects("s3://bucket/x?colour=red").await);
    }

    #[test]
    fn one_key_or_a_file_of_keys_is_read() {
        let read = |allowed_signers, public_key: Option<&str>| {
            Keys { allowed_signers, public_key: public_key.map(str::to_owned) }.read()
        };
        assert!(matches!(read(None, None), Ok(None)));
        assert!(read(None, Some("ssh-rsa AAAA")).is_err());
        assert!(read(Some("/nowhere/at/all".into()), None).is_err());
        let empty = tempfile::NamedTempFile::new().unwrap();
        assert!(read(Some(empty.path().into()), None).is_err());
    }
}
