//! `longshore export`: requests, follows, lists, repeats and cancels exports.

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
use serde::Serialize;
use serde_json::Value;
use url::Url;

pub use self::run::wait;

use self::download::Download;
use self::operator::{List, Repeat};
use self::run::Run;
use self::verify::Verify;
use super::confirm::Consent;
use super::health::local;
use super::ids::object_prefix;
use super::{CommandResult, page_of, print_next, table};
use crate::app::App;
use crate::config::{Config, ConfigError};
use crate::exports::State;

/// Request, follow, list, repeat and cancel exports.
///
/// Some of these commands use the API, and some the database, like the other commands. An empty key
/// (--key "") counts as none.
#[derive(clap::Args)]
#[command(after_help = "Where they read and write:
  run, download                 the API, with a key, for the key's workspace
  list, status, repeat, cancel  the API with a key; without one the database, for operators, over \
all workspaces
  verify                        only the export

Examples:
  longshore export run --fields external_id,email,purchases --output exports \
--key \"$LONGSHORE_KEY\"
  longshore export list --state running")]
pub struct Arguments {
    /// The API's URL [default: LONGSHORE_PUBLIC_URL, otherwise the address in LONGSHORE_LISTEN]
    #[arg(long, global = true, env = "LONGSHORE_URL")]
    url: Option<String>,
    /// An API key with the permission of the export; without one, list, status, repeat and cancel
    /// use the database
    #[arg(long, global = true, env = "LONGSHORE_KEY", hide_env_values = true)]
    key: Option<String>,
    /// Print JSON, one object per line
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Request an export, wait for it, and verify its files; downloads them if it has a URL
    ///
    /// Files in own storage are verified there, with the credentials of this machine. Prints where
    /// the files are.
    #[command(
        after_help = "Examples:\n  longshore export run --fields external_id,custom_attributes.plan \
                      --output exports\n  longshore export run --fields email --segment VIP --dry-run\n  longshore \
                      export run --fields email --allowed-signers acme.allowed_signers \
                      --idempotency-key nightly-2026-11-29 --timeout 2h"
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
    /// From the database, MARK is `stalled` if no worker works on the export, `slow` if its rate is
    /// less than a quarter of that of the latest exports, and `late` if it takes longer than
    /// `export_late_after` of the workspace. The column has the first of them that fits.
    #[command(after_help = "Examples:
  longshore export list --active
  longshore export list --mark stalled --mark late
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
        #[arg(value_parser = object_prefix)]
        prefix: String,
    },
    /// Request an ended export again, with the same request, such as a failed one
    ///
    /// The new export has the same audience, fields, format, destination and callback. An export of
    /// the control group has the users of the group that is active now. Prints the new
    /// object_prefix.
    #[command(after_help = "Examples:
  longshore export repeat 1f0c7a52-3a55-4b0e-9d3e-6f1c5e2b7a10-1795249527
  longshore export repeat --failed --since 1h --dry-run")]
    Repeat(Repeat),
    /// Cancel a queued or running export; uploaded files are deleted
    ///
    /// Asks on a terminal.
    #[command(
        after_help = "Example:\n  longshore export cancel 1f0c7a52-3a55-4b0e-9d3e-6f1c5e2b7a10-1795249527"
    )]
    Cancel {
        /// The export's object_prefix
        #[arg(value_parser = object_prefix)]
        prefix: String,
        #[command(flatten)]
        consent: Consent,
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
        Command::Cancel { prefix, consent } if is_operator => {
            let app = open_database(config).await?;
            return operator::cancel(&app, &prefix, &consent, json).await;
        }
        Command::Repeat(repeat) if is_operator => {
            let app = open_database(config).await?;
            return operator::repeat(&app, repeat, &options_again(&key, None), json).await;
        }
        command => command,
    };
    let options = options_again(&key, url.as_deref());
    let url = url.unwrap_or_else(|| api_url(&config));
    check_access(&url, &key)?;
    let client = Client::new(&url, key)?;
    match command {
        Command::Run(run) => run::run(&client, run, json).await,
        Command::Download(arguments) => download::run(&client, arguments, json).await,
        Command::Verify(_) => Ok(()),
        Command::Repeat(arguments) => {
            repeat(&client, arguments.api_prefix()?, &options, json).await
        }
        Command::List(arguments) => list(&client, &arguments, json).await,
        Command::Status { prefix } => print_export(&client.status(&prefix).await?, json),
        Command::Cancel { prefix, consent } => cancel(&client, &prefix, &consent, json).await,
    }
}

/// Where the processes with these settings serve the API.
fn api_url(config: &Config) -> String {
    match config.public_url {
        Some(_) => config.public_base(),
        None => format!("http://{}", local(config.gateway.listen)),
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

/// The options with which another command uses the same API or database, each after a space. Those
/// that the environment has are left out. A key is not printed.
fn options_again(key: &str, url: Option<&str>) -> String {
    let environment = |name: &str| std::env::var(name).ok();
    missing_options(
        environment("LONGSHORE_KEY").as_deref(),
        environment("LONGSHORE_URL").as_deref(),
        key,
        url,
    )
}

fn missing_options(
    key_in_environment: Option<&str>,
    url_in_environment: Option<&str>,
    key: &str,
    url: Option<&str>,
) -> String {
    let mut options = String::new();
    if let Some(url) = url.filter(|url| url_in_environment != Some(*url)) {
        options += &format!(" --url '{url}'");
    }
    if key_in_environment.unwrap_or_default() != key {
        options += if key.is_empty() { " --key \"\"" } else { " --key KEY" };
    }
    options
}

fn print_export((export, raw): &(Export, Value), json: bool) -> CommandResult {
    table::print_object(json, raw, |_| export.fields())
}

/// Requests an ended export again.
async fn repeat(client: &Client, prefix: &str, options: &str, json: bool) -> CommandResult {
    let (requested, raw) = client.repeat(prefix).await?;
    requested.warnings.iter().for_each(|warning| eprintln!("{warning}"));
    if json {
        println!("{raw}");
    } else {
        print_repeated(&requested.object_prefix, options);
    }
    Ok(())
}

/// Prints the new object_prefix, and the command that shows its status.
fn print_repeated(prefix: &str, options: &str) {
    println!("{prefix}");
    eprintln!("to see its status: longshore export status {prefix}{options}");
}

async fn cancel(client: &Client, prefix: &str, consent: &Consent, json: bool) -> CommandResult {
    let export = client.status(prefix).await?;
    let state = &export.0.state;
    match State::from_name(state) {
        Some(State::Cancelled) if consent.is_dry_run() => {
            return consent.is_given(json, &[already_cancelled(prefix)]).map(drop);
        }
        Some(State::Cancelled) if json => return print_export(&export, json),
        Some(State::Cancelled) => {
            println!("{}", already_cancelled(prefix));
            return Ok(());
        }
        Some(State::Finishing | State::Done | State::Failed) => {
            return Err(format!("{prefix} is {state} and can no longer be cancelled").into());
        }
        Some(State::Queued | State::Planning | State::Running) | None => {}
    }
    if consent.needs_effects() && !consent.is_given(json, &[cancellation(prefix)])? {
        return Ok(());
    }
    print_export(&client.cancel(prefix).await?, json)
}

fn already_cancelled(prefix: &str) -> String {
    format!("{prefix} was already cancelled")
}

/// What a cancellation does.
fn cancellation(prefix: &str) -> String {
    format!("cancels {prefix}: its uploaded files are deleted")
}

async fn list(client: &Client, arguments: &List, json: bool) -> CommandResult {
    let List { after, limit, .. } = arguments;
    let filters = arguments.api_parameters()?;
    let rows = usize::try_from(*limit)?.saturating_add(1);
    let exports = client.list(&filters, after.as_deref(), rows).await?;
    let exports: Vec<Listed> =
        exports.into_iter().map(|(export, raw)| Listed { export, raw }).collect();
    let headers = ["PREFIX", "STATE", "USERS", "FILES", "BYTES", "REQUESTED", "ERROR"];
    let row = |listed: &Listed| listed.export.fields().map(|(_, cell)| cell);
    let (page, last) = page_of(&exports, *limit);
    table::print(json, "exports", headers, page, row)?;
    print_next(last.map(|listed| listed.export.object_prefix.clone()));
    Ok(())
}

/// An export of the API's list; JSON repeats it as it is.
#[derive(Serialize)]
#[serde(transparent)]
struct Listed {
    #[serde(skip)]
    export: Export,
    raw: Value,
}

#[cfg(test)]
mod tests {
    use super::missing_options;

    #[test]
    fn a_hint_has_the_options_that_the_environment_lacks() {
        let url = "http://127.0.0.1:8080";
        for (environment, given, options) in [
            ((None, None), ("", None), ""),
            ((Some(""), None), ("", None), ""),
            ((Some("a"), None), ("", None), " --key \"\""),
            ((Some("a"), Some(url)), ("a", Some(url)), ""),
            ((Some("a"), None), ("b", None), " --key KEY"),
            ((None, None), ("b", Some(url)), " --url 'http://127.0.0.1:8080' --key KEY"),
        ] {
            let found = missing_options(environment.0, environment.1, given.0, given.1);
            assert_eq!(found, options, "{environment:?}, {given:?}");
        }
    }
}
