//! A rolling upgrade from another version, and back, under the mixed load: the gateways and workers
//! of the version before are replaced one after another, both work side by side for a while, and
//! then it is taken back. No request fails that is repeated at another gateway, and in the end all
//! is as it was acknowledged. `scripts/chaos upgrade` runs it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::WORKERS;
use super::load::Load;
use super::recovery::recovered;
use super::stage::{GATEWAYS, Plan, Stage};
use super::{count, number, seed};
use crate::support::process;

/// How long both versions work side by side, when half of the processes are replaced.
fn overlap() -> Duration {
    Duration::from_secs(number("BESIDE_SECONDS").unwrap_or(20))
}

fn settings() -> Vec<(&'static str, String)> {
    [
        ("LONGSHORE_LOG__PARTITIONS", "6"),
        ("LONGSHORE_EXPORTS__USERS_PER_FILE", "500"),
        ("LONGSHORE_EXPORTS__REQUEUE_SECONDS", "5"),
        ("LONGSHORE_MESSAGES__RETRY_MS", "500"),
        ("LONGSHORE_DELIVERIES__RETRY_MS", "500"),
    ]
    .map(|(name, value)| (name, value.to_owned()))
    .into()
}

/// The binary of the version before.
fn previous() -> PathBuf {
    let path = std::env::var_os("CHAOS_PREVIOUS");
    let path = PathBuf::from(path.expect("CHAOS_PREVIOUS: the binary of another version"));
    assert!(path.is_file(), "CHAOS_PREVIOUS: {} is no file", path.display());
    path
}

/// Runs a command of a binary that must succeed, with the settings of the installation.
async fn run(stage: &Stage, binary: &Path, words: &[&str]) {
    let (directory, environment) = (stage.fleet.directory(), stage.fleet.environment());
    let name = binary.to_str().expect("a path of ASCII");
    let mut command = process::program(name, directory, environment);
    command.args(words);
    let output = process::output(command).await;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let error = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    assert!(output.status.success(), "{name} {words:?}: {said}\n{error}");
    println!("  {} {}: {said}", short(binary), words.join(" "));
}

fn short(binary: &Path) -> &'static str {
    if binary == Path::new(process::BINARY) { "this version" } else { "the version before" }
}

/// Has a process continue as another version.
async fn replace(stage: &Stage, name: &str, binary: &Path) {
    let since = Instant::now();
    stage.herd.set_binary(name, binary);
    stage.herd.terminate(name).await;
    let ended = since.elapsed();
    stage.herd.start(name);
    stage.herd.ready(name).await;
    println!(
        "  {name} is {}: ended after {:.1} s, ready after {:.1} s",
        short(binary),
        ended.as_secs_f64(),
        since.elapsed().as_secs_f64()
    );
}

/// Replaces all by another version, in this order, with a while in the middle in which both work.
async fn roll(stage: &Stage, names: &[&str], binary: &Path) {
    for (number, name) in names.iter().enumerate() {
        if number == names.len().div_ceil(2) {
            tokio::time::sleep(overlap()).await;
        }
        replace(stage, name, binary).await;
    }
    tokio::time::sleep(overlap()).await;
    let recovery = recovered(stage).await;
    println!(
        "  messages wait {:.1} s, exports take {:.1} s",
        recovery.messages.as_secs_f64(),
        recovery.export.as_secs_f64()
    );
    stage.check_exports().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "wants the binary of another version: scripts/chaos upgrade"]
async fn on_request() {
    let (before, this) = (previous(), Path::new(process::BINARY));
    let begun = Instant::now();
    let stage = Stage::new(Plan {
        seed: seed(),
        users: count("USERS", 2_000),
        pace: count("PACE", 100) as u32,
        ahead: Duration::from_secs(20),
        settings: settings(),
        with_clocks: false,
    })
    .await;
    let upwards: Vec<&str> = WORKERS.iter().chain(&GATEWAYS).copied().collect();
    let downwards: Vec<&str> = GATEWAYS.iter().chain(&WORKERS).copied().collect();
    // The database is migrated first, and what runs on it is still the version before.
    run(&stage, &before, &["migrate"]).await;
    for name in &downwards {
        replace(&stage, name, &before).await;
    }
    let mut load = Load::start(stage.world.clone());
    let recovery = recovered(&stage).await;
    println!("the load runs; an export takes {:.1} s", recovery.export.as_secs_f64());
    stage.world.gates.take_tally();
    for (step, names, binary) in [
        ("upgrade: workers, then gateways", &upwards, this),
        ("rollback: gateways, then workers", &downwards, before.as_path()),
        ("upgrade again", &upwards, this),
    ] {
        println!("{step}");
        run(&stage, binary, &["migrate"]).await;
        roll(&stage, names, binary).await;
        load.check();
        let tally = stage.world.gates.take_tally();
        println!(
            "  {} calls, {} made once more, {} failed {:?}",
            tally.calls, tally.retries, tally.failed, tally.reasons
        );
        assert_eq!(tally.failed, 0, "{step}: {:?}", tally.reasons);
    }
    load.stop().await;
    println!("the load ends after {:.0} s", begun.elapsed().as_secs_f64());
    println!("{}", stage.check().await);
}
