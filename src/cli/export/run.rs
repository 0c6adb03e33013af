//! `longshore export run`: requests an export, follows it, and verifies its files: those behind its
//! URL, which it downloads, or those in own storage.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::client::{Body, Client, ClientError, Export};
use super::download::{self, print_result};
use super::dry_run;
use super::verify::{self, Keys, Target};
use crate::cli::progress::{Progress, Unit};
use crate::cli::times::age;
use crate::cli::{CommandResult, ids};
use crate::shutdown;
use kit::lists;
use proof::verify::Trust;

/// Interval between checks of an export's state.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

#[derive(clap::Args)]
pub(super) struct Run {
    /// Fields to export: fields of the user record, custom_attributes or custom_attributes.<name>.
    /// Separated by commas; a name with a comma is in double quotes, as in CSV. May be repeated
    #[arg(long, value_name = "NAME,…", required = true)]
    fields: Vec<Names>,
    /// Segment to export, by its id or name; without it and --audience, the global control group. A
    /// name needs a key with the permission segments.list
    #[arg(long, value_name = "SEGMENT")]
    segment: Option<String>,
    /// File with the connected audience to export, as JSON; - reads standard input
    #[arg(long, value_name = "FILE", conflicts_with = "segment")]
    audience: Option<PathBuf>,
    /// Destination: the name of a storage, s3, azure or url
    #[arg(long, value_name = "NAME")]
    destination: Option<String>,
    /// Maximum number of users in a file
    #[arg(long, value_name = "N")]
    users_per_file: Option<u32>,
    /// Format of files in own storage: zip or gzip
    #[arg(long)]
    format: Option<String>,
    /// Directory for the downloaded file
    #[arg(long, value_name = "DIR", default_value = ".")]
    output: PathBuf,
    /// URL that receives a callback when the export ends
    #[arg(long, value_name = "URL")]
    callback: Option<String>,
    #[command(flatten)]
    keys: Keys,
    /// Idempotency-Key of the request: the same command with the same key follows the same export
    #[arg(long, value_name = "KEY", conflicts_with = "dry_run")]
    idempotency_key: Option<String>,
    /// How long to wait for the end of the export, such as 30m; it continues afterwards
    #[arg(long, value_name = "TIME", value_parser = age)]
    timeout: Option<i64>,
    /// Create nothing: print an estimate of users, files, bytes and seconds, and test whether the
    /// destination can be written to; exits with 1 if it cannot
    #[arg(long)]
    dry_run: bool,
}

/// Names of fields, as a [list](lists).
#[derive(Clone, Debug)]
struct Names(Vec<String>);

impl FromStr for Names {
    type Err = String;

    fn from_str(list: &str) -> Result<Self, String> {
        lists::split(list).map(Self)
    }
}

pub(super) async fn run(client: &Client, run: Run, json: bool) -> CommandResult {
    // Checked before the export is requested: later would be too late.
    let output = run.output.display();
    if !run.dry_run {
        tokio::fs::create_dir_all(&run.output)
            .await
            .map_err(|error| format!("--output {output}: {error}"))?;
    }
    let trust = run.keys.read()?;
    let mut body = body(&run)?;
    if let Some(segment) = &run.segment {
        body.set("segment_id", &segment_id(client, segment).await?)?;
    }
    if run.dry_run {
        return dry_run::run(client, body, json).await;
    }
    let requested = client.request(&body, run.idempotency_key.as_deref()).await?;
    let prefix = &requested.object_prefix;
    eprintln!("requested {prefix}");
    requested.warnings.iter().for_each(|warning| eprintln!("{warning}"));
    // Printed now, because a killed process cannot print it.
    let later = match &requested.url {
        Some(_) => {
            format!("to download it later: longshore export download {prefix} --output {output}")
        }
        None => format!("to see its status: longshore export status {prefix}"),
    };
    eprintln!("{later}");
    let hint =
        || format!("the export continues; {later}; to cancel it: longshore export cancel {prefix}");
    let limit = run.timeout.map_or(Duration::MAX, |ms| Duration::from_millis(ms.unsigned_abs()));
    let ended = tokio::time::timeout(limit, wait(client, prefix));
    let ended = shutdown::with_hint(ended, hint).await?;
    let (export, raw) = ended.map_err(|_| format!("--timeout has passed: {}", hint()))??;
    let Some(url) = &requested.url else {
        return end_in_own_storage(client, &export, &raw, trust, json).await;
    };
    let downloaded = download::fetch_or_hint(client, url, &run.output, &export, trust).await?;
    let file = downloaded.archive;
    eprintln!("export done: {}: {}", export.contents(), file.display());
    eprintln!("{}", downloaded.summary);
    print_result(&raw, Some(&file), json)
}

/// Prints where the files of a completed export are, and verifies them there. This needs credentials
/// of the storage, which are those of this machine: without `trust`, a storage that cannot be read
/// from here is not an error.
async fn end_in_own_storage(
    client: &Client,
    export: &Export,
    raw: &Value,
    trust: Option<Trust>,
    json: bool,
) -> CommandResult {
    let prefix = &export.object_prefix;
    // Gateways of 0.2.0 do not return it.
    let Some(location) = raw["location"].as_str() else {
        eprintln!("export done: {}, in the workspace's own storage", export.contents());
        return print_result(raw, None, json);
    };
    eprintln!("export done: {}, in {location}", export.contents());
    let is_pinned = trust.is_some();
    let trust = trust.unwrap_or_else(|| client.as_trusted_gateway());
    let verified = async {
        let target = Target::open(location).await?;
        CommandResult::Ok(verify::check(&target.source, prefix, &trust, true).await?)
    };
    match verified.await {
        Ok(report) if report.is_valid() => eprintln!("{}", verify::summary(&report)),
        Ok(report) => {
            return Err(verify::differences("the files are not the export", &report).into());
        }
        Err(error) => {
            let text = format!(
                "not verified: {error}. With credentials of the storage: longshore export verify \
                 '{location}' --allowed-signers FILE"
            );
            if is_pinned {
                return Err(text.into());
            }
            eprintln!("{text}");
        }
    }
    if json {
        return print_result(raw, None, json);
    }
    println!("{location}");
    Ok(())
}

/// The id of the segment with an id or a name. The API checks whether an id exists.
async fn segment_id(client: &Client, segment: &str) -> CommandResult<String> {
    if Uuid::parse_str(segment).is_ok() {
        return Ok(segment.to_owned());
    }
    let all = client.segments().await.map_err(|error| {
        format!(
            "--segment {segment}: cannot look up the name: {error}. `longshore segments list` shows \
             the ids"
        )
    })?;
    let found = ids::find(all, segment, ("segment", "segments list"), |segment| {
        (segment.id, segment.name.as_str())
    })?;
    Ok(found.id.to_string())
}

fn body(run: &Run) -> CommandResult<Body> {
    let fields: Vec<&String> = run.fields.iter().flat_map(|Names(names)| names).collect();
    let mut body = Body::default();
    body.set("fields_to_export", &fields)?;
    let texts = [
        ("destination", &run.destination),
        ("output_format", &run.format),
        ("callback_endpoint", &run.callback),
    ];
    for (field, text) in texts {
        if let Some(text) = text {
            body.set(field, text)?;
        }
    }
    if let Some(users) = run.users_per_file {
        body.set("users_per_file", &users)?;
    }
    if let Some(file) = &run.audience {
        let path = if file.as_os_str() == "-" { Path::new("/dev/stdin") } else { file };
        let audience = std::fs::read_to_string(path)
            .map_err(|error| format!("--audience {}: {error}", file.display()))?;
        let audience: Box<RawValue> = serde_json::from_str(&audience)
            .map_err(|error| format!("--audience {}: {error}", file.display()))?;
        body.set("audience", &audience)?;
    }
    Ok(body)
}

/// Waits until the export is done; returns its last status. Follows its events, or polls its status
/// if there are none.
pub async fn wait(client: &Client, prefix: &str) -> CommandResult<(Export, Value)> {
    let mut progress = Shown { progress: Progress::begin(Unit::Users), error: None };
    let mut has_events = true;
    loop {
        let (export, raw) = client.status_with_retries(prefix).await?;
        match export.state.as_str() {
            "done" => return Ok((export, raw)),
            "failed" => return Err(format!("the export failed: {}", export.error_text()).into()),
            "cancelled" => return Err("the export was cancelled".into()),
            _ => progress.update(&export),
        }
        let followed = if has_events {
            follow(client, prefix, &mut progress).await
        } else {
            Followed::Unavailable
        };
        has_events = followed != Followed::Unavailable;
        if followed != Followed::ToTheEnd {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// What people see of an export in progress.
struct Shown {
    progress: Progress,
    /// The error of its storage that was shown.
    error: Option<String>,
}

impl Shown {
    fn update(&mut self, export: &Export) {
        if let Some(error) = &export.error
            && self.error.as_ref() != Some(error)
        {
            self.progress.line(&format!("the export retries: {error}"));
        }
        self.error.clone_from(&export.error);
        self.progress.update(&export.state, export.users.done, export.users.total);
    }
}

/// How a stream of events ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Followed {
    ToTheEnd,
    /// Before the export: another stream can continue.
    Interrupted,
    /// There is none, or it has no events. Or a stream of another client with the same key replaced
    /// it, which the next one would replace.
    Unavailable,
}

/// Reports progress from the export's events.
async fn follow(client: &Client, prefix: &str, progress: &mut Shown) -> Followed {
    let mut events = match client.events(prefix).await {
        Ok(events) => events,
        // The service is older than the stream, or has no slot for it.
        Err(ClientError::Refused { .. }) => return Followed::Unavailable,
        Err(_) => return Followed::Interrupted,
    };
    let mut has_status = false;
    while let Some(event) = events.next().await {
        match event.name.as_str() {
            "status" => {
                if let Ok(export) = serde_json::from_str(&event.data) {
                    has_status = true;
                    progress.update(&export);
                }
            }
            "end" => return Followed::ToTheEnd,
            "replaced" => return Followed::Unavailable,
            _ => {}
        }
    }
    if has_status { Followed::Interrupted } else { Followed::Unavailable }
}
