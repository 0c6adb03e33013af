//! `longshore processes`.

use super::CommandResult;
use super::table::{self, Cell, measure, state, text, time};
use crate::config::Config;
use runtime::processes::{self, Process};
use store::claims;

/// List the processes of the installation: gateways, workers, `standalone`
///
/// A process stores every 20 seconds that it runs. One that ended without a clean stop is shown as
/// `missing` for an hour.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  longshore processes --json | jq -r .version | sort | uniq -c")]
pub struct Arguments {
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    let app = super::open(config).await?;
    let mut tx = app.store.snapshot().await?;
    let now = claims::now(&mut tx).await?;
    let found = processes::list(&mut tx).await?;
    tx.commit().await?;
    let headers = ["STATE", "HOST", "PID", "VERSION", "STARTED", "LAST SEEN", "ROLES"];
    table::print(arguments.json, "processes", headers, &found, |process| row(process, now))
}

fn row(process: &Process, now: i64) -> [Cell; 7] {
    [
        state(if process.is_missing(now) { "missing" } else { "active" }),
        text(&process.host),
        measure(process.pid),
        text(&process.version),
        time(process.started_at),
        time(process.seen_at),
        text(&process.roles),
    ]
}
