//! What more workers bring: `scripts/bench scale`.
//!
//! Three parts, each on the real servers. `workers`: one to four processes of the release
//! build, with a thread that computes in each, export the same users; then the same at a
//! quarter of a processor each, so that the processors of a small machine are not what ends
//! it. `fleet`: fifty workers whose claims, rows and counting are real, and whose parts are a
//! sleep of as long as a part takes on one thread, so that it shows what the database bears.
//! `planning`: what an export costs before its first part.

mod database;
mod fleet;
mod jobs;
mod machine;
mod planning;
mod simulated;
mod throttle;
mod workers;

#[path = "../figures.rs"]
#[allow(dead_code, reason = "several are written to one file here")]
mod figures;
#[path = "../settle.rs"]
mod settle;
#[allow(
    dead_code,
    unused_macros,
    unused_imports,
    reason = "the tests' support serves more than this"
)]
#[path = "../../tests/flows/support/mod.rs"]
mod support;

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

use crate::figures::Figures;
use crate::workers::Workers;

/// What a part takes on one thread where that is not measured in the same run.
const USUAL_PART: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Section {
    Workers,
    Fleet,
    Planning,
}

#[derive(Parser)]
struct Arguments {
    /// What is measured [default: everything]
    #[arg(value_enum)]
    sections: Vec<Section>,
    /// How many users are really there
    #[arg(long, default_value_t = 300_000)]
    users: usize,
    /// How many users the simulated exports have
    #[arg(long, default_value_t = 20_000_000)]
    fleet_users: i64,
    /// How many simulated workers
    #[arg(long, value_delimiter = ',', default_value = "1,10,25,50")]
    workers: Vec<usize>,
    /// What a simulated part takes, in milliseconds [default: what one worker took]
    #[arg(long)]
    part_ms: Option<u64>,
    /// How often each is measured; the median counts
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Where to write the figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Given by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main]
async fn main() {
    let arguments = Arguments::parse();
    let is_wanted =
        |section| arguments.sections.is_empty() || arguments.sections.contains(&section);
    let (mut figures, mut part) = (Vec::new(), None);
    if is_wanted(Section::Workers) || is_wanted(Section::Planning) {
        println!("{} users are imported…", arguments.users);
        let mut workers = Workers::with_users(arguments.users).await;
        if is_wanted(Section::Workers) {
            let (measured, of_part) = workers.measure(arguments.runs).await;
            figures.push(measured);
            part = Some(of_part);
        }
        if is_wanted(Section::Planning) {
            figures.push(planning::measure(&mut workers, arguments.runs).await);
        }
        workers.close().await;
    }
    if is_wanted(Section::Fleet) {
        let part = arguments.part_ms.map(Duration::from_millis).or(part).unwrap_or(USUAL_PART);
        let plan = fleet::Plan {
            users: arguments.fleet_users,
            workers: arguments.workers,
            part,
            runs: arguments.runs,
        };
        figures.push(fleet::measure(&plan).await);
    }
    figures.iter().for_each(Figures::print);
    if let Some(file) = arguments.json {
        let all: Vec<_> = figures.iter().map(Figures::to_json).collect();
        let text = serde_json::to_string_pretty(&all).expect("plain values are JSON");
        std::fs::write(file, text + "\n").expect("the file is written");
    }
}
