//! `longshore import`: users from newline-delimited JSON.

use std::fs::File;
use std::io::{IsTerminal as _, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{HumanCount, ProgressBar, ProgressStyle};

use super::CommandResult;
use crate::clock::Clock;
use crate::config::Config;
use crate::store::{Store, migrate};
use crate::users::import::{Importer, Input, Progress, Summary};
use crate::users::target;

/// Between plain lines of progress, where there is no terminal.
const PLAIN_LINES: Duration = Duration::from_secs(5);

/// One export record a line. A record that names an existing profile (service_id,
/// external_id, alias, then email) replaces its fields; any other makes a profile. Bad lines
/// are told with file and line number, and the rest go in. Run again, an import doubles
/// nobody.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  longshore generate --users 50000 | longshore import -")]
pub struct Arguments {
    /// Files of newline-delimited JSON; `-` is standard input, `.gz` is unpacked
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The workspace; may be left out where there is only one
    #[arg(long, value_name = "NAME")]
    workspace: Option<String>,
    /// The summary as JSON
    #[arg(long)]
    json: bool,
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    let read = Arc::new(AtomicU64::new(0));
    let (mut inputs, mut size) = (Vec::new(), Some(0));
    for file in &arguments.files {
        let (input, bytes) = open(file, &read)?;
        inputs.push(input);
        size = size.zip(bytes).map(|(size, bytes)| size + bytes);
    }
    let store = Store::connect(&config).await?;
    migrate::check(&store).await?;
    let target = target(&store, arguments.workspace.as_deref()).await?;
    let mut report = Report::new(read, size);
    let importer = Importer::new(store.clone(), Clock::system(), target);
    let result = importer.run(inputs, |progress| report.tell(&progress)).await;
    let seconds = report.finish();
    store.close().await;
    let summary = result.map_err(|error| {
        format!("{error}\nwhat was written stays; run the same import again to finish it")
    })?;
    print(&summary, seconds, arguments.json);
    match summary.bad {
        0 => Ok(()),
        1 => Err("1 line did not go in".into()),
        bad => Err(format!("{} lines did not go in", HumanCount(bad)).into()),
    }
}

fn open(file: &Path, read: &Arc<AtomicU64>) -> Result<(Input, Option<u64>), String> {
    if file == Path::new("-") {
        let counted = Counted { inner: std::io::stdin(), read: read.clone() };
        return Ok((Input::new("-", counted), None));
    }
    let name = file.display().to_string();
    let opened = File::open(file).map_err(|error| format!("{name}: {error}"))?;
    let metadata = opened.metadata().map_err(|error| format!("{name}: {error}"))?;
    if metadata.is_dir() {
        return Err(format!("{name}: is a directory"));
    }
    let bytes = metadata.is_file().then_some(metadata.len());
    Ok((Input::new(&name, Counted { inner: opened, read: read.clone() }), bytes))
}

/// Counts what is read, for the bar.
struct Counted<R> {
    inner: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// A bar on a terminal, plain lines elsewhere; bad lines above either.
struct Report {
    bar: ProgressBar,
    plain: bool,
    read: Arc<AtomicU64>,
    started: Instant,
    told: Instant,
}

impl Report {
    /// `size` is how many bytes there are to read, where that is known.
    fn new(read: Arc<AtomicU64>, size: Option<u64>) -> Self {
        let plain = !std::io::stderr().is_terminal();
        let bar = match (plain, size) {
            (true, _) => ProgressBar::hidden(),
            (false, Some(size)) => ProgressBar::new(size)
                .with_style(style("{bar:30} {percent}%  {msg}  about {eta} left")),
            (false, None) => ProgressBar::new_spinner().with_style(style("{spinner} {msg}")),
        };
        Self { bar, plain, read, started: Instant::now(), told: Instant::now() }
    }

    fn tell(&mut self, progress: &Progress<'_>) {
        match progress {
            Progress::Bad(bad) => {
                self.bar.suspend(|| eprintln!("{}:{}: {}", bad.file, bad.line, bad.reason));
            }
            Progress::Written(summary) => {
                let users = summary.created + summary.replaced;
                let rate = users as f64 / self.started.elapsed().as_secs_f64().max(0.001);
                let text =
                    format!("{} users, {} a second", HumanCount(users), HumanCount(rate as u64));
                if self.plain && self.told.elapsed() >= PLAIN_LINES {
                    eprintln!("{text}");
                    self.told = Instant::now();
                }
                self.bar.set_position(self.read.load(Ordering::Relaxed));
                self.bar.set_message(text);
            }
        }
    }

    /// Takes the bar away; answers how many seconds it took.
    fn finish(self) -> f64 {
        self.bar.finish_and_clear();
        self.started.elapsed().as_secs_f64()
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn print(summary: &Summary, seconds: f64, json: bool) {
    let users = summary.created + summary.replaced;
    let rate = (users as f64 / seconds.max(0.001)) as u64;
    if json {
        let mut value = serde_json::json!(summary);
        value["seconds"] = seconds.into();
        value["users_per_second"] = rate.into();
        println!("{value}");
        return;
    }
    println!(
        "{} users in {seconds:.1} s, {} a second: {} new, {} replaced, {} bad lines",
        HumanCount(users),
        HumanCount(rate),
        HumanCount(summary.created),
        HumanCount(summary.replaced),
        HumanCount(summary.bad),
    );
    for (name, lines) in &summary.ignored {
        println!(
            "not a member of a user's record, left out: {name} ({} times)",
            HumanCount(*lines)
        );
    }
}
