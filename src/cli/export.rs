//! `longshore export`: requests an export from the API, follows it, and downloads and verifies the
//! file behind its URL.

pub mod client;
mod verify;

use std::path::{Path, PathBuf};
use std::time::Duration;

use client::{Client, Export};
use reqwest::header::HeaderValue;
use serde_json::{Value, json};
use url::Url;

use super::progress::{Progress, Unit};
use super::{CommandResult, Error};
use crate::config::{Config, ConfigError};
use crate::shutdown;

/// Interval between checks of an export's state.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Request, follow and cancel exports of the global control group with the API.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  longshore export run --fields external_id,email,purchases \
                        --output exports --key \"$LONGSHORE_KEY\"")]
pub struct Arguments {
    /// The API's URL
    #[arg(long, global = true, env = "LONGSHORE_URL", default_value = "http://127.0.0.1:8080")]
    url: String,
    /// An API key with the permission users.export.global_control_group
    #[arg(long, global = true, env = "LONGSHORE_KEY", hide_env_values = true)]
    key: Option<String>,
    /// Print JSON, for scripts
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Request an export, wait for it, and download and verify its file if it has a URL
    #[command(
        after_help = "Example:\n  longshore export run --fields external_id,custom_attributes.plan \
                      --output exports"
    )]
    Run(Run),
    /// List the workspace's exports, latest first
    #[command(after_help = "Example:\n  longshore export list --limit 5")]
    List {
        /// Maximum number of exports
        #[arg(long, default_value_t = 20)]
        limit: usize,
    },
    /// Show the status of an export
    #[command(
        after_help = "Example:\n  longshore export status 1f0c7a52-3a55-4b0e-9d3e-6f1c5e2b7a10-1795249527"
    )]
    Status {
        /// The export's object_prefix
        prefix: String,
    },
    /// Cancel an export that is not finishing yet; uploaded files are deleted
    #[command(
        after_help = "Example:\n  longshore export cancel 1f0c7a52-3a55-4b0e-9d3e-6f1c5e2b7a10-1795249527"
    )]
    Cancel {
        /// The export's object_prefix
        prefix: String,
    },
}

#[derive(clap::Args)]
struct Run {
    /// Fields to export: fields of the user record, custom_attributes or custom_attributes.<name>
    #[arg(long, value_delimiter = ',', required = true)]
    fields: Vec<String>,
    /// Format of files in own storage: zip or gzip
    #[arg(long)]
    format: Option<String>,
    /// Directory for the downloaded file
    #[arg(long, value_name = "DIR", default_value = ".")]
    output: PathBuf,
    /// URL that receives a callback when the export ends
    #[arg(long, value_name = "URL")]
    callback: Option<String>,
}

pub async fn run(_config: Config, arguments: Arguments) -> CommandResult {
    let key = arguments.key.unwrap_or_default();
    check_access(&arguments.url, &key)?;
    let client = Client::new(&arguments.url, key)?;
    let json = arguments.json;
    match arguments.command {
        Command::Run(run) => run_export(&client, run, json).await,
        Command::List { limit } => list(&client, limit, json).await,
        Command::Status { prefix } => print_export(&client.status(&prefix).await?, json),
        Command::Cancel { prefix } => print_export(&client.cancel(&prefix).await?, json),
    }
}

/// Rejects arguments that cannot make a valid request.
fn check_access(url: &str, key: &str) -> Result<(), ConfigError> {
    let mut problems = Vec::new();
    if !Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https")) {
        problems.push("--url (LONGSHORE_URL): expected a URL such as http://127.0.0.1:8080");
    }
    if key.is_empty() {
        problems.push("an API key is required: use --key or LONGSHORE_KEY");
    } else if HeaderValue::from_bytes(key.as_bytes()).is_err() {
        problems.push("--key (LONGSHORE_KEY): contains a line feed or another control character");
    }
    let problems: Vec<String> = problems.into_iter().map(str::to_owned).collect();
    if problems.is_empty() { Ok(()) } else { Err(ConfigError { problems }) }
}

async fn run_export(client: &Client, run: Run, json: bool) -> CommandResult {
    // Checked before the export is requested: later would be too late.
    let output = run.output.display();
    tokio::fs::create_dir_all(&run.output)
        .await
        .map_err(|error| format!("--output {output}: {error}"))?;
    let mut body = json!({ "fields_to_export": run.fields });
    if let Some(format) = run.format {
        body["output_format"] = format.into();
    }
    if let Some(callback) = run.callback {
        body["callback_endpoint"] = callback.into();
    }
    let requested = client.request(&body).await?;
    let prefix = &requested.object_prefix;
    eprintln!("requested {prefix}");
    requested.warnings.iter().for_each(|warning| eprintln!("{warning}"));
    let hint = || format!("the export continues; to cancel it: longshore export cancel {prefix}");
    let (export, raw) = shutdown::with_hint(wait(client, prefix), hint).await??;
    let Some(url) = &requested.url else {
        eprintln!("export done: {}, in the workspace's own storage", export.contents());
        return print_result(&raw, None, json);
    };
    let file = fetch(client, url, &run.output, &export).await?;
    eprintln!("export done: {}, verified: {}", export.contents(), file.display());
    print_result(&raw, Some(&file), json)
}

/// Standard output: the file's path, or all known data with `json`.
fn print_result(raw: &Value, file: Option<&Path>, json: bool) -> CommandResult {
    if json {
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

/// Waits until the export is done; returns its last status.
pub async fn wait(client: &Client, prefix: &str) -> CommandResult<(Export, Value)> {
    let mut progress = Progress::begin(Unit::Users);
    loop {
        let (export, raw) = client.status_with_retries(prefix).await?;
        match export.state.as_str() {
            "done" => return Ok((export, raw)),
            "failed" => return Err(format!("the export failed: {}", export.error_text()).into()),
            "cancelled" => return Err("the export was cancelled".into()),
            state => progress.update(state, export.users.done, export.users.total),
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Downloads to a temporary name, verifies, and only then renames the file.
async fn fetch(
    client: &Client,
    url: &str,
    directory: &Path,
    export: &Export,
) -> CommandResult<PathBuf> {
    let prefix = &export.object_prefix;
    let file = directory.join(format!("{prefix}.zip"));
    let draft = directory.join(format!(".{prefix}.zip.part"));
    let fetched = async {
        let mut progress = Progress::begin(Unit::Bytes);
        client.fetch(url, &draft, |done, total| progress.update("fetching", done, total)).await?;
        drop(progress);
        let (path, users, files) = (draft.clone(), export.users.done, export.files.done);
        tokio::task::spawn_blocking(move || verify::archive(&path, files, users)).await??;
        tokio::fs::rename(&draft, &file).await?;
        Ok::<_, Error>(())
    };
    let hint = || {
        let _ = std::fs::remove_file(&draft);
        "the export is done, but the download failed: the partial file was deleted".to_owned()
    };
    if let Err(error) = shutdown::with_hint(fetched, hint).await? {
        // Report the reason, even if the temporary file cannot be deleted.
        let _ = tokio::fs::remove_file(&draft).await;
        return Err(error);
    }
    Ok(file)
}

fn print_export((export, raw): &(Export, Value), json: bool) -> CommandResult {
    if json {
        println!("{raw}");
    } else {
        println!("{}", export.line());
    }
    Ok(())
}

async fn list(client: &Client, limit: usize, json: bool) -> CommandResult {
    let exports = client.list(limit).await?;
    if json {
        let raw: Vec<&Value> = exports.iter().map(|(_, raw)| raw).collect();
        println!("{}", serde_json::to_string(&raw)?);
    } else {
        exports.iter().for_each(|(export, _)| println!("{}", export.line()));
    }
    Ok(())
}
