//! `longshore export`: asks the API for an export, watches it, and fetches and verifies
//! what is behind a download address.

mod client;
mod verify;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use super::CommandResult;
use crate::config::Config;
use client::{Client, Export};

/// Between looks at an export's state.
const LOOK: Duration = Duration::from_millis(500);

/// Between lines where there is no terminal.
const LINE: Duration = Duration::from_secs(5);

/// Ask the API for exports of the global control group, watch and cancel them.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  longshore export run --fields external_id,email,purchases \
                        --output exports --key \"$LONGSHORE_KEY\"")]
pub struct Arguments {
    /// The API's address
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
    /// Ask for an export, wait for it, and fetch and verify it where it has an address
    Run(Run),
    /// The workspace's exports, latest first
    List {
        /// How many, at most
        #[arg(long, default_value_t = 20)]
        limit: usize,
    },
    /// How far an export is
    Status {
        /// The export's object_prefix
        prefix: String,
    },
    /// Cancel an export that is not yet finishing; what was uploaded is removed
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
    /// What to export: names of the user record, custom_attributes or custom_attributes.<name>
    #[arg(long, value_delimiter = ',', required = true)]
    fields: Vec<String>,
    /// How files in own storage are packed: zip or gzip
    #[arg(long)]
    format: Option<String>,
    /// Where to put the file behind a download address
    #[arg(long, value_name = "DIR", default_value = ".")]
    output: PathBuf,
    /// An address that is called when the export is ready
    #[arg(long, value_name = "URL")]
    callback: Option<String>,
}

pub async fn run(_config: Config, arguments: Arguments) -> CommandResult {
    let key = arguments.key.ok_or("an API key is needed: --key or LONGSHORE_KEY")?;
    let client = Client::new(&arguments.url, key)?;
    let json = arguments.json;
    match arguments.command {
        Command::Run(run) => run_export(&client, run, json).await,
        Command::List { limit } => list(&client, limit, json).await,
        Command::Status { prefix } => print_one(&client.status(&prefix).await?, json),
        Command::Cancel { prefix } => print_one(&client.cancel(&prefix).await?, json),
    }
}

async fn run_export(client: &Client, run: Run, json: bool) -> CommandResult {
    let mut body = json!({ "fields_to_export": run.fields });
    if let Some(format) = run.format {
        body["output_format"] = format.into();
    }
    if let Some(callback) = run.callback {
        body["callback_endpoint"] = callback.into();
    }
    let requested = client.request(&body).await?;
    eprintln!("requested {}", requested.object_prefix);
    let (export, raw) = watch(client, &requested.object_prefix).await?;
    match export.state.as_str() {
        "done" => {}
        "failed" => return Err(format!("the export failed: {}", export.error_text()).into()),
        state => return Err(format!("the export is {state}").into()),
    }
    let Some(url) = requested.url else {
        eprintln!(
            "done: {} users in {} files, in the workspace's own storage",
            export.users.done, export.files.done
        );
        return print_result(&raw, None, json);
    };
    let file = fetch(client, &url, &requested.object_prefix, &run.output, &export).await?;
    eprintln!(
        "done: {} users in {} files, each checked: {}",
        export.users.done,
        export.files.done,
        file.display()
    );
    print_result(&raw, Some(&file), json)
}

/// Standard output: the file's path, or with `json` all that is known.
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

/// Waits until the export has ended.
async fn watch(
    client: &Client,
    prefix: &str,
) -> Result<(Export, Value), Box<dyn std::error::Error + Send + Sync>> {
    let mut shown = Shown::new("users");
    loop {
        let (export, raw) = client.status(prefix).await?;
        shown.update(&export.state, export.users.done, export.users.total);
        if matches!(export.state.as_str(), "done" | "failed" | "cancelled") {
            shown.end();
            return Ok((export, raw));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Fetches under a temporary name, verifies, and only then gives the file its own.
async fn fetch(
    client: &Client,
    url: &str,
    prefix: &str,
    directory: &Path,
    export: &Export,
) -> Result<PathBuf, Box<dyn std::error::Error + Send + Sync>> {
    tokio::fs::create_dir_all(directory).await?;
    let file = directory.join(format!("{prefix}.zip"));
    let draft = directory.join(format!(".{prefix}.zip.part"));
    let fetched = async {
        let mut shown = Shown::new("bytes");
        client.fetch(url, &draft, |done, total| shown.update("fetching", done, total)).await?;
        shown.end();
        let (path, users, files) = (draft.clone(), export.users.done, export.files.done);
        tokio::task::spawn_blocking(move || verify::archive(&path, files, users)).await??;
        tokio::fs::rename(&draft, &file).await?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    }
    .await;
    if let Err(error) = fetched {
        // The reason counts, not whether the draft could be removed.
        let _ = tokio::fs::remove_file(&draft).await;
        return Err(error);
    }
    Ok(file)
}

fn print_one((export, raw): &(Export, Value), json: bool) -> CommandResult {
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

/// Progress with rate and estimated end: a bar on a terminal, a line every now and then
/// elsewhere.
struct Shown {
    bar: Option<ProgressBar>,
    unit: &'static str,
    began: Instant,
    line: Option<(String, Instant)>,
}

impl Shown {
    fn new(unit: &'static str) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let counts = match unit {
                "bytes" => "{bytes}/{total_bytes}  {bytes_per_sec}",
                _ => "{human_pos}/{human_len}  {per_sec}",
            };
            let template = format!("{{msg:10}} {{bar:32}} {counts}  {{eta}} left");
            let style = ProgressStyle::with_template(&template);
            ProgressBar::no_length()
                .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Self { bar, unit, began: Instant::now(), line: None }
    }

    fn update(&mut self, what: &str, done: u64, total: Option<u64>) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_owned());
            total.into_iter().for_each(|total| bar.set_length(total));
            bar.set_position(done);
            return;
        }
        let now = Instant::now();
        let due = self.line.as_ref().is_none_or(|(last, at)| last != what || now >= *at + LINE);
        if due {
            eprintln!("{what}: {}", self.counts(done, total));
            self.line = Some((what.to_owned(), now));
        }
    }

    fn counts(&self, done: u64, total: Option<u64>) -> String {
        let Some(total) = total else { return format!("{done} {}", self.unit) };
        let seconds = self.began.elapsed().as_secs_f64();
        let rate = done as f64 / seconds.max(0.001);
        let left = total.saturating_sub(done) as f64 / rate.max(1.0);
        format!("{done}/{total} {}, {rate:.0}/s, {left:.0} s left", self.unit)
    }

    fn end(&self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}
