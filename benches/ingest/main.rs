//! How fast what is tracked becomes activity and profiles: `scripts/bench ingest`.
//!
//! Everything is local and real: a gateway and a worker of the release build, Kafka, PostgreSQL.
//! Purchases are measured from the first call to the last one visible, and from a topic that is
//! full when the worker starts; changes of attributes from a full topic. For comparison, the bound,
//! in the same run: as many rows of as many batches read under lock and upserted, and nothing else.

mod bound;
#[path = "../figures.rs"]
mod figures;
mod installation;
#[path = "../load/mod.rs"]
#[allow(dead_code, reason = "it is used otherwise as well")]
mod load;
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

use clap::Parser;

use crate::bound::Bound;
use crate::figures::Figures;
use crate::installation::{Installation, Speed};
use crate::load::Kind;

#[derive(Parser)]
struct Arguments {
    /// How many users
    #[arg(long, default_value_t = 50_000)]
    users: usize,
    /// How many purchases, and changes of attributes, are measured at a time
    #[arg(long, default_value_t = 600_000)]
    objects: usize,
    /// How often each is measured; the median counts
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Partitions of the topic
    #[arg(long, default_value_t = 16)]
    partitions: u32,
    #[command(flatten)]
    common: load::Common,
}

#[tokio::main]
async fn main() {
    let arguments = Arguments::parse();
    println!("{} users are imported…", arguments.users);
    let mut installation = Installation::with_users(
        arguments.users,
        load::settings(arguments.partitions, &arguments.common.set),
    )
    .await;
    let mut bound = Bound::new(&installation).await;
    let title = format!("{} users, {} objects a time", arguments.users, arguments.objects);
    let mut figures = Figures::new(title);
    for run in 1..=arguments.runs {
        println!("run {run} of {}", arguments.runs);
        for (kind, name) in [(Kind::Purchase, "purchases"), (Kind::Attributes, "attributes")] {
            let fed = installation.drain_full_topic(kind, arguments.objects).await;
            let batches = bound.batches().await;
            let (rows, per_second) = bound.measure(kind, &batches).await;
            let all = arguments.objects as f64;
            let figures_of_bound = vec![
                ("objects/s", all / (rows as f64 / per_second)),
                ("rows/s", per_second),
                ("objects/row", all / rows as f64),
            ];
            let of_bound = |speed: &Speed| ("of bound", speed.per_second / figures_of_bound[0].1);
            let figures_of = |speed: &Speed| {
                vec![
                    ("objects/s", speed.per_second),
                    of_bound(speed),
                    ("worker cores", speed.worker_cores),
                    ("worker MB", (speed.worker_peak >> 20) as f64),
                ]
            };
            figures.add(&format!("{name}, from a full topic"), figures_of(&fed));
            if kind == Kind::Purchase {
                let speed = installation.end_to_end(kind, arguments.objects).await;
                figures.add(&format!("{name}, end to end"), figures_of(&speed));
                bound.skip().await;
            }
            figures.add(&format!("{name}, bound"), figures_of_bound);
        }
    }
    figures.print();
    println!(
        "\nof bound: speed as a share of that of the same rows of the same batches read under lock and\n\
         upserted, and nothing else."
    );
    if let Some(file) = arguments.common.json {
        figures.write(&file);
    }
    installation.close().await;
}
