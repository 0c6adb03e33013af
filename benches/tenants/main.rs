//! Measures what a workspace that does all that its key allows costs the others: `scripts/bench
//! tenants`.
//!
//! Everything is local and real: a gateway and a worker, Kafka, PostgreSQL. The other workspaces
//! track, export and send at an even pace, quietly at first. Then one workspace sends patterns,
//! templates, exports and schedules as fast as it can. What it has piled up stays when the next of
//! these begins.

#[path = "../figures.rs"]
mod figures;
mod hostile;
#[allow(dead_code, reason = "it makes other calls as well")]
#[path = "../load/mod.rs"]
mod load;
mod others;
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

use std::time::Duration;

use clap::Parser;
use sqlx::PgPool;
use uuid::Uuid;

use crate::figures::Figures;
use crate::hostile::{Activity, Hostile, SlowStorage};
use crate::others::{Latencies, Others};
use crate::support::WorkspaceFile;
use crate::support::fleet::{Backend, Fleet};

/// How many times its quiet value a p99 may be.
const MAX_RATIO: f64 = 2.0;

#[derive(Parser)]
struct Arguments {
    /// Workspaces next to the hostile one
    #[arg(long, default_value_t = 200)]
    workspaces: usize,
    /// How long each activity is measured
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// How often it is measured; the median counts
    #[arg(long, default_value_t = 1)]
    runs: usize,
    /// Connections of the hostile workspace
    #[arg(long, default_value_t = 16)]
    connections: usize,
    /// How many times slower than usual the other workspaces work, on a busy machine
    #[arg(long, default_value_t = 1)]
    slower: u32,
    /// Partitions of each topic
    #[arg(long, default_value_t = 16)]
    partitions: u32,
    #[command(flatten)]
    common: load::Common,
}

fn workspace(name: &str) -> WorkspaceFile {
    WorkspaceFile::new(name).with_percent(None).permitted(&[
        "users.track",
        "users.export.segment",
        "messages.send",
        "messages.schedule.create",
        "segments.size",
        "segments.sample",
    ])
}

#[tokio::main]
async fn main() {
    let arguments = Arguments::parse();
    let settings = load::settings(arguments.partitions, &arguments.common.set);
    let fleet = Fleet::start_with(Backend::Fleet(1), &[], |all| all.extend(settings)).await;
    let names = (0..arguments.workspaces).map(|n| format!("other-{n}"));
    let mut files: Vec<WorkspaceFile> = names.map(|name| workspace(&name)).collect();
    let storage = SlowStorage::new().await;
    files.push(storage.declared(workspace("hostile")));
    let mut apis = fleet.apply(&files).await;
    let api = apis.pop().expect("the last one");
    let hostile = Hostile::new(api, arguments.connections, storage).await;
    fleet.import("hostile", &hostile.users()).await;
    let others = Others::new(apis, arguments.slower).await;
    fleet.applied().await;
    let pool = PgPool::connect(&fleet.database_url()).await.expect("PostgreSQL answers");

    let time = Duration::from_secs(arguments.seconds);
    let title = format!("{} workspaces next to a hostile one", arguments.workspaces);
    let mut figures = Figures::new(title);
    others.measure(Duration::from_secs(5)).await;
    for run in 1..=arguments.runs {
        println!("run {run} of {}", arguments.runs);
        settle::settle(&pool).await;
        let quiet = others.measure(time).await;
        add(&mut figures, "quiet", &quiet, &quiet);
        for activity in Activity::ALL {
            let working = hostile.begin(activity);
            let measured = others.measure(time).await;
            println!("  the hostile workspace got {} responses", working.end().await);
            add(&mut figures, activity.name(), &measured, &quiet);
        }
    }
    figures.print();
    println!(
        "\nratio: of the p99 to the quiet one, which may be {MAX_RATIO}; late: refused, or no end within\n\
         a minute, of all."
    );
    if let Some(file) = arguments.common.json {
        figures.write(&file);
    }
    pool.close().await;
    fleet.close().await;
}

fn add(figures: &mut Figures, case: &str, measured: &Latencies, quiet: &Latencies) {
    let kinds = [
        ("calls", &measured.calls, &quiet.calls),
        ("exports", &measured.exports, &quiet.exports),
        ("messages", &measured.messages, &quiet.messages),
    ];
    for (kind, measured, quiet) in kinds {
        let p99 = measured.percentile(99);
        let run = vec![
            ("p50 ms", measured.percentile(50)),
            ("p99 ms", p99),
            ("ratio", p99 / quiet.percentile(99)),
            ("late", measured.late as f64),
            ("of all", measured.count() as f64),
        ];
        figures.add(&format!("{kind}, {case}"), run);
    }
}

/// An id in a URL.
fn unique() -> String {
    Uuid::new_v4().simple().to_string()
}
