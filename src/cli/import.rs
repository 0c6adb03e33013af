//! `longshore import`: users from newline-delimited JSON.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use indicatif::HumanCount;

use super::progress::{self, Unit};
use super::{CommandResult, WorkspaceArgument};
use crate::config::Config;
use crate::shutdown;
use crate::users::import::{Importer, Input, Progress, Summary};
use crate::words::count;

/// What is said of an import that came to no end.
const STAYS: &str = "what was written stays; run the same import again to finish it";

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
    #[command(flatten)]
    workspace: WorkspaceArgument,
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
    let app = super::open(config).await?;
    let workspace = arguments.workspace.find(&mut app.store.snapshot().await?).await?;
    let mut shown = progress::Progress::begin(Unit::Bytes);
    let importer = Importer::new(app.store.clone(), app.clock.clone(), workspace);
    let work = importer.run(inputs, |told| match told {
        Progress::Bad(bad) => shown.line(&format!("{}:{}: {}", bad.file, bad.line, bad.reason)),
        Progress::Written(summary) => {
            let users = count(summary.created + summary.replaced, "user");
            shown.update(&users, read.load(Ordering::Relaxed), size);
        }
    });
    let result = shutdown::with_hint(work, || STAYS.to_owned()).await?;
    let seconds = shown.seconds();
    drop(shown);
    let summary = result.map_err(|error| format!("{error}\n{STAYS}"))?;
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

/// Counts what is read, for the progress.
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
        "{} in {seconds:.1} s, {} a second: {} new, {} replaced, {}",
        count(users, "user"),
        HumanCount(rate),
        HumanCount(summary.created),
        HumanCount(summary.replaced),
        count(summary.bad, "bad line"),
    );
    for (name, lines) in &summary.ignored {
        println!("not a member of a user's record, left out: {name} ({})", count(*lines, "time"));
    }
}
