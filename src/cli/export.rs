//! `longshore export`: requests, follows, lists and cancels exports.

mod archive;
pub mod client;
pub mod download;
mod dry_run;
mod events;
mod operator;
mod run;
mod verify;

use client::{Client, Export};
use reqwest::header::HeaderValue;
use serde_json::Value;
use url::Url;

pub use self::run::wait;

use self::download::Download;
use self::operator::List;
use self::run::Run;
use self::verify::Verify;
use super::CommandResult;
use crate::app::App;
use crate::config::{Config, ConfigError};

/// Request, follow, list and cancel exports.
///
/// With a key, these commands use the API, for the key's workspace. Without a key, list, status and
/// cancel read the database, like the other commands: for operators, over all workspaces. An empty
/// key (--key "") counts as none.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  longshore export run --fields external_id,email,purchases --output exports \
--key \"$LONGSHORE_KEY\"
  longshore export list --state running")]
pub struct Arguments {
    /// The API's URL
    #[arg(long, global = true, env = "LONGSHORE_URL", default_value = "http://127.0.0.1:8080")]
    url: String,
    /// An API key with the permission of the export; without one, list, status and cancel read the
    /// database
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
                      --output exports\n  longshore export run --fields email --dry-run"
    )]
    Run(Run),
    /// Download an export that has a URL, and verify it; continues an interrupted download
    ///
    /// Waits for the export if it is not done yet. Writes the archive, its manifest, checksums and
    /// signature.
    #[command(after_help = "Example:\n  longshore export download \
                      1f0c7a52-3a55-4b0e-9d3e-6f1c5e2b7a10-1795249527 --output exports")]
    Download(Download),
    /// Verify completed exports: signature, hashes, counts and ranges
    ///
    /// Needs no installation and no key of the API. Exits with 1 if an export differs from its
    /// manifest, and lists the first differences.
    #[command(after_help = "Examples:
  longshore export verify exports --allowed-signers allowed_signers
  longshore export verify \"$EXPORT_URL\" --records
  longshore export verify \"s3://acme-exports/segment-export/SEGMENT_ID/2026-11-21?region=eu-west-1\" \\
    --public-key \"ssh-ed25519 AAAA…\"")]
    Verify(Verify),
    /// List exports, latest first: of all workspaces, or of the key's
    ///
    /// From the database, MARK is `stalled` if no worker works on the export, and `slow` if its rate
    /// is less than a quarter of that of the latest exports.
    #[command(after_help = "Examples:
  longshore export list --workspace acme --state running --state finishing
  longshore export list --older-than 2h --state running --json
  longshore export list --limit 5 --key \"$LONGSHORE_KEY\"")]
    List(List),
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

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    let Arguments { url, key, json, command } = arguments;
    let command = match command {
        Command::Verify(arguments) => return verify::run(arguments, json).await,
        command => command,
    };
    let key = key.unwrap_or_default();
    let is_operator = key.is_empty();
    let command = match command {
        Command::List(list) if is_operator => {
            return operator::list(&open_database(config).await?, list, json).await;
        }
        Command::Status { prefix } if is_operator => {
            return operator::status(&open_database(config).await?, &prefix, json).await;
        }
        Command::Cancel { prefix } if is_operator => {
            return operator::cancel(&open_database(config).await?, &prefix, json).await;
        }
        command => command,
    };
    check_access(&url, &key)?;
    let client = Client::new(&url, key)?;
    match command {
        Command::Run(run) => run::run(&client, run, json).await,
        Command::Download(arguments) => download::run(&client, arguments, json).await,
        Command::Verify(_) => Ok(()),
        Command::List(arguments) => {
            arguments.check_for_api()?;
            list(&client, arguments.limit, json).await
        }
        Command::Status { prefix } => print_export(&client.status(&prefix).await?, json),
        Command::Cancel { prefix } => print_export(&client.cancel(&prefix).await?, json),
    }
}

async fn open_database(config: Config) -> CommandResult<App> {
    if let Some(missing) = config.missing_installation() {
        return Err(format!("{missing}. To use the API instead, set --key or LONGSHORE_KEY").into());
    }
    super::open(config).await
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

fn print_export((export, raw): &(Export, Value), json: bool) -> CommandResult {
    if json {
        println!("{raw}");
    } else {
        println!("{}", export.line());
    }
    Ok(())
}

async fn list(client: &Client, limit: u32, json: bool) -> CommandResult {
    let exports = client.list(usize::try_from(limit)?).await?;
    if json {
        let raw: Vec<&Value> = exports.iter().map(|(_, raw)| raw).collect();
        println!("{}", serde_json::to_string(&raw)?);
    } else {
        exports.iter().for_each(|(export, _)| println!("{}", export.line()));
    }
    Ok(())
}
