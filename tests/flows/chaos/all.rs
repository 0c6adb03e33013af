//! Everything at once: a mixed load on a fleet whose servers, processes and clocks fail one
//! after another, and come back. `scripts/chaos all` runs it.

use std::time::{Duration, Instant};

use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;

use super::faults::{self, Fault, REMEDIES};
use super::gates::Tally;
use super::load::Load;
use super::recovery::{Recovery, recovered};
use super::stage::{Plan, Stage};
use super::{Servers, count, number, seed};

/// How long calm weather lasts before a fault.
const CALM: Duration = Duration::from_secs(3);

/// Settings of the fleet: leases and sessions that a pause outlasts, and short pauses between
/// tries, so that what recovers is seen to do so.
fn settings() -> Vec<(&'static str, String)> {
    [
        ("LONGSHORE_LOG__PARTITIONS", "6"),
        ("LONGSHORE_LOG__APPEND_TIMEOUT_MS", "5000"),
        ("LONGSHORE_LOG__KAFKA__SESSION_TIMEOUT_MS", "10000"),
        ("LONGSHORE_LOG__KAFKA__HEARTBEAT_INTERVAL_MS", "2000"),
        ("LONGSHORE_WORKER__LEASE_MS", "5000"),
        ("LONGSHORE_EXPORTS__USERS_PER_FILE", "1000"),
        ("LONGSHORE_EXPORTS__REQUEUE_SECONDS", "5"),
        ("LONGSHORE_MESSAGES__RETRY_MS", "500"),
        ("LONGSHORE_DELIVERIES__RETRY_MS", "500"),
        ("LONGSHORE_DELIVERIES__TIMEOUT_SECONDS", "5"),
    ]
    .map(|(name, value)| (name, value.to_owned()))
    .into()
}

/// A line of the table.
struct Line {
    fault: String,
    lasted: Duration,
    recovery: Recovery,
    tally: Tally,
}

/// The faults that `CHAOS_FAULTS` names, with commas between; all where it is not set.
fn wanted() -> Vec<(String, Fault)> {
    let all = faults::all();
    let Ok(names) = std::env::var("CHAOS_FAULTS") else { return all };
    let find = |name: &str| {
        let found = all.iter().find(|(known, _)| known == name.trim());
        let known = || all.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
        found.cloned().unwrap_or_else(|| panic!("CHAOS_FAULTS: {name} is none of {}", known()))
    };
    names.split(',').map(find).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "breaks servers: scripts/chaos all"]
async fn on_request() {
    tokio::select! {
        () = run() => {}
        // What is in progress is dropped, and the servers are as before.
        _ = tokio::signal::ctrl_c() => panic!("interrupted"),
    }
}

async fn run() {
    let (minutes, seed) = (number("MINUTES").unwrap_or(30), seed());
    let (begun, time) = (Instant::now(), Duration::from_secs(minutes * 60));
    let mut random = StdRng::seed_from_u64(seed);
    println!("{minutes} minutes");
    assert!(faults::have_disks(), "the servers need disks of their own: scripts/chaos all");
    let stage = Stage::new(Plan {
        seed,
        users: count("USERS", 2_000),
        pace: count("PACE", 100) as u32,
        ahead: Duration::from_secs(if minutes < 10 { 20 } else { 120 }),
        settings: settings(),
        with_clocks: true,
    })
    .await;
    let servers = Servers::new(REMEDIES);
    let mut load = Load::start(stage.world.clone());
    println!("the load begins after {:.0} s", begun.elapsed().as_secs_f64());
    let before = recovered(&stage).await;
    println!("at first: {}", before.words());
    stage.world.gates.take_tally();

    let mut lines = Vec::new();
    for round in 1.. {
        let mut order = wanted();
        order.shuffle(&mut random);
        let names: Vec<&str> = order.iter().map(|(name, _)| name.as_str()).collect();
        println!("round {round}: {}", names.join(", "));
        for (name, fault) in order {
            if round > 1 && begun.elapsed() > time {
                break;
            }
            tokio::time::sleep(CALM).await;
            lines.push(endure(&stage, &servers, name, fault, &mut random).await);
            load.check();
            stage.check_exports().await;
        }
        if begun.elapsed() > time {
            break;
        }
    }
    load.stop().await;
    println!("the load ends after {:.0} s", begun.elapsed().as_secs_f64());
    table(&lines);
    let rolled = lines.iter().filter(|line| line.fault == "rolling-restart");
    for line in rolled {
        assert_eq!(line.tally.failed, 0, "rolling restart: {:?}", line.tally.reasons);
    }
    println!("{}", stage.check().await);
}

async fn endure(
    stage: &Stage,
    servers: &Servers,
    fault: String,
    kind: Fault,
    random: &mut StdRng,
) -> Line {
    println!("{fault}");
    stage.world.gates.take_tally();
    let since = Instant::now();
    kind.happen(stage, servers, random).await;
    let lasted = since.elapsed();
    let recovery = recovered(stage).await;
    let tally = stage.world.gates.take_tally();
    println!("  {:.1} s; {}; {:?}", lasted.as_secs_f64(), recovery.words(), tally.reasons);
    Line { fault, lasted, recovery, tally }
}

impl Recovery {
    fn words(&self) -> String {
        let seconds = |time: Duration| time.as_secs_f64();
        format!(
            "calls after {:.1} s, lag {:.1} s, export {:.1} s, messages {:.1} s",
            seconds(self.calls),
            seconds(self.lag),
            seconds(self.export),
            seconds(self.messages)
        )
    }
}

fn table(lines: &[Line]) {
    println!();
    println!(
        "| fault | lasted, s | calls, s | lag, s | export, s | messages, s | calls made | sent again | failed |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for Line { fault, lasted, recovery, tally } in lines {
        let seconds = [*lasted, recovery.calls, recovery.lag, recovery.export, recovery.messages]
            .map(|time| format!("{:.1}", time.as_secs_f64()))
            .join(" | ");
        let Tally { calls, retries, failed, .. } = tally;
        println!("| {fault} | {seconds} | {calls} | {retries} | {failed} |");
    }
    println!();
}
