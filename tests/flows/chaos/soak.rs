//! The mixed load at one rate for an hour, without faults: what each process has resident in
//! the end is what it had after a while. `scripts/chaos soak` runs it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::load::Load;
use super::stage::{Plan, Stage};
use super::{count, number, seed};

const SAMPLE: Duration = Duration::from_secs(5);

/// By how much the median of the last quarter may be above that of the second: a tenth, and
/// this.
const ALLOWANCE: u64 = 16 << 20;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes an hour: scripts/chaos soak"]
async fn on_request() {
    let (minutes, seed) = (number("MINUTES").unwrap_or(60), seed());
    println!("{minutes} minutes");
    let stage = Stage::new(Plan {
        seed,
        users: count("USERS", 10_000),
        pace: count("PACE", 100) as u32,
        ahead: Duration::from_secs(60),
        settings: vec![("LONGSHORE_LOG__PARTITIONS", "6".to_owned())],
        with_clocks: false,
    })
    .await;
    let (begun, time) = (Instant::now(), Duration::from_secs(minutes * 60));
    let mut load = Load::start(stage.world.clone());
    let mut samples: BTreeMap<String, Vec<(f64, u64)>> = BTreeMap::new();
    let mut last_check = Instant::now();
    while begun.elapsed() < time {
        tokio::time::sleep(SAMPLE).await;
        for (name, bytes) in stage.herd.resident() {
            let hours = begun.elapsed().as_secs_f64() / 3_600.0;
            samples.entry(name).or_default().push((hours, bytes));
        }
        load.check();
        if last_check.elapsed() > SAMPLE * 6 {
            stage.check_exports().await;
            last_check = Instant::now();
        }
    }
    let tally = stage.world.gates.take_tally();
    load.stop().await;
    let grown = table(&samples);
    println!("{} calls, {} sent again, {} failed", tally.calls, tally.retries, tally.failed);
    println!("{}", stage.check().await);
    assert!(grown.is_empty(), "these have grown: {grown:?}");
    assert_eq!(tally.failed, 0, "{:?}", tally.reasons);
}

/// Prints what each process had resident; returns those that have grown.
fn table(samples: &BTreeMap<String, Vec<(f64, u64)>>) -> Vec<&str> {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let mut grown = Vec::new();
    println!();
    println!(
        "| process | start, MiB | second quarter | third quarter | last quarter | end | slope of the last half, MiB/h | verdict |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for (name, samples) in samples {
        let quarter = |n: usize| {
            let length = samples.len() / 4;
            median(&samples[n * length..(n + 1) * length])
        };
        let quarters = [quarter(1), quarter(2), quarter(3)];
        let is_flat = quarters[2] <= quarters[0] + quarters[0] / 10 + ALLOWANCE;
        let verdict = if is_flat { "flat" } else { "GROWS" };
        let [second, third, last] = quarters.map(mib);
        println!(
            "| {name} | {:.1} | {second:.1} | {third:.1} | {last:.1} | {:.1} | {:+.1} | {verdict} |",
            mib(samples[0].1),
            mib(samples[samples.len() - 1].1),
            slope(&samples[samples.len() / 2..]),
        );
        grown.extend((!is_flat).then_some(name.as_str()));
    }
    println!();
    grown
}

fn median(samples: &[(f64, u64)]) -> u64 {
    let mut bytes: Vec<u64> = samples.iter().map(|(_, bytes)| *bytes).collect();
    bytes.sort_unstable();
    *bytes.get(bytes.len() / 2).expect("samples: run it for longer")
}

/// Of the line through the samples that has the least squares, in MiB an hour.
fn slope(samples: &[(f64, u64)]) -> f64 {
    let count = samples.len() as f64;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let (x, y) = samples.iter().fold((0.0, 0.0), |(x, y), (at, of)| (x + at, y + mib(*of)));
    let (x, y) = (x / count, y / count);
    let (over, under) = samples.iter().fold((0.0, 0.0), |(over, under), (at, of)| {
        (over + (at - x) * (mib(*of) - y), under + (at - x) * (at - x))
    });
    if under == 0.0 { 0.0 } else { over / under }
}
