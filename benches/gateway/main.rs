//! How fast the gateway takes purchases: calls of one and of 75, on many connections, each durable
//! in Kafka (acks=all) before its response; and what the checks before it cost: `scripts/bench
//! gateway`.

mod checks;
#[path = "../figures.rs"]
mod figures;
#[allow(dead_code, reason = "it makes other calls as well")]
#[path = "../load/mod.rs"]
mod load;
#[allow(
    dead_code,
    unused_macros,
    unused_imports,
    reason = "the tests' support serves more than this"
)]
#[path = "../../tests/flows/support/mod.rs"]
mod support;

use std::net::SocketAddr;
use std::time::Duration;

use clap::Parser;

use crate::checks::Checks;
use crate::figures::Figures;
use crate::load::{Kind, Requests, send_for, use_key};
use crate::support::WorkspaceFile;
use crate::support::fleet::{Backend, Fleet};

/// Objects of a call, and how many different calls there are of them.
const CASES: [(&str, usize, usize); 2] =
    [("calls of one purchase", 1, 50_000), ("calls of 75 purchases", 75, 4_000)];

const WARM_UP: Duration = Duration::from_secs(3);

#[derive(Parser)]
struct Arguments {
    /// How long each is measured
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// How often each is measured; the median counts
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Partitions of the topic
    #[arg(long, default_value_t = 16)]
    partitions: u32,
    /// Connections, each with one call at a time
    #[arg(long, default_value_t = load::CONNECTIONS)]
    connections: usize,
    #[command(flatten)]
    common: load::Common,
}

#[tokio::main]
async fn main() {
    let arguments = Arguments::parse();
    let settings = load::settings(arguments.partitions, &arguments.common.set);
    let fleet = Fleet::start_with(Backend::Fleet(0), &[], |all| all.extend(settings)).await;
    let workspaces = [WorkspaceFile::new("bench").unlimited(), checks::workspace()];
    let [api, limited] = fleet.apply(&workspaces).await.try_into().ok().expect("one for each");
    let address: SocketAddr =
        fleet.base().trim_start_matches("http://").parse().expect("an address");
    let customers: Vec<String> = (0..50_000).map(|n| format!("customer-{n:08}")).collect();
    let mut calls = Requests::new(1, &customers, address, api.key());
    let cases = CASES
        .map(|(name, objects, count)| (name, objects, calls.make(count, Kind::Purchase, objects)));
    use_key(address, &cases[0].2).await;
    let mut checks = Checks::start(&fleet, limited.key(), &customers).await;
    let Arguments { partitions, connections, .. } = arguments;
    let time = Duration::from_secs(arguments.seconds);
    let mut figures = Figures::new(format!("{connections} connections, {partitions} partitions"));
    for run in 1..=arguments.runs {
        println!("run {run} of {}", arguments.runs);
        for (name, objects, calls) in &cases {
            send_for(WARM_UP, connections, address, calls.clone()).await;
            fleet.reset_peak("gateway");
            let cpu = fleet.cpu("gateway");
            let sent = send_for(time, connections, address, calls.clone()).await;
            let cpu = fleet.cpu("gateway") - cpu;
            let per_second = sent.calls() as f64 / sent.seconds;
            figures.add(
                name,
                vec![
                    ("calls/s", per_second),
                    ("objects/s", per_second * *objects as f64),
                    ("p50 ms", sent.percentile(50)),
                    ("p99 ms", sent.percentile(99)),
                    ("cores", cpu.as_secs_f64() / sent.seconds),
                    ("resident MB", (fleet.peak("gateway") >> 20) as f64),
                ],
            );
        }
        checks.run(time, connections, &mut figures).await;
    }
    figures.print();
    if let Some(file) = arguments.common.json {
        figures.write(&file);
    }
    checks.stop().await;
    fleet.close().await;
}
