//! How long it takes until all is as before: from the moment that a fault is over.

use std::path::Path;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::WORKERS;
use super::load::{self, PLAIN};
use super::stage::Stage;
use crate::support::process;

/// How long any of it may take: the pauses between tries grow with the fault, and double.
const TIMEOUT: Duration = Duration::from_secs(240);

const LOOK: Duration = Duration::from_millis(200);

/// Each since the fault was over.
#[derive(Clone, Copy, Debug)]
pub struct Recovery {
    /// Each gateway had answered calls of every frequent kind with 2xx that began after it.
    pub calls: Duration,
    /// All that the log had then was applied.
    pub lag: Duration,
    /// An export that was asked for then was done.
    pub export: Duration,
    /// All messages and callbacks that were due then had come.
    pub messages: Duration,
}

/// Waits until all has recovered from a fault that is over now.
pub async fn recovered(stage: &Stage) -> Recovery {
    let since = Instant::now();
    stage.world.gates.look_for_success();
    let (calls, lag, export, messages) =
        tokio::join!(calls(stage, since), lag(stage), export(stage), messages(stage));
    stage.herd.all_ready().await;
    let after = |at: Instant| at.saturating_duration_since(since);
    Recovery {
        calls: after(calls),
        lag: after(lag),
        export: after(export),
        messages: after(messages),
    }
}

async fn calls(stage: &Stage, since: Instant) -> Instant {
    loop {
        match stage.world.gates.all_succeeded() {
            Ok(at) => return at,
            Err(missing) => assert!(since.elapsed() < TIMEOUT, "no call succeeds: {missing:?}"),
        }
        tokio::time::sleep(LOOK / 4).await;
    }
}

/// A partition of a topic, where its group continues, and where the log ends.
struct GroupPosition {
    partition: String,
    next: i64,
    end: i64,
}

/// Where the groups are; none while that is unknown.
async fn positions(stage: &Stage) -> Result<Vec<GroupPosition>, String> {
    let output = stage.world.operator.command(&["log", "status", "--json"]).await;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!("{text}{}", String::from_utf8_lossy(&output.stderr)));
    }
    let position = |line: &str| -> Result<GroupPosition, String> {
        let line: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let number = |name: &str| line[name].as_i64().ok_or_else(|| format!("no {name}: {line}"));
        let partition = format!("{} {}", line["topic"], line["partition"]);
        Ok(GroupPosition { partition, next: number("next")?, end: number("end")? })
    };
    let positions = text.lines().map(position).collect::<Result<Vec<_>, String>>()?;
    // Before 0.2.0, workers kept their places in `exports` in Kafka alone. That they read it shows
    // in the export that is done.
    let is_kept = |position: &GroupPosition| {
        !position.partition.contains("exports") || !has_earlier_workers(stage)
    };
    Ok(positions.into_iter().filter(is_kept).collect())
}

fn has_earlier_workers(stage: &Stage) -> bool {
    WORKERS.iter().any(|worker| stage.herd.binary(worker) != Path::new(process::BINARY))
}

async fn lag(stage: &Stage) -> Instant {
    let (since, mut ends) = (Instant::now(), None);
    loop {
        let why = match positions(stage).await {
            Err(why) => why,
            Ok(positions) => {
                let ends: &Vec<(String, i64)> = ends.get_or_insert_with(|| {
                    positions
                        .iter()
                        .map(|position| (position.partition.clone(), position.end))
                        .collect()
                });
                let is_behind = |(partition, end): &&(String, i64)| {
                    positions
                        .iter()
                        .any(|position| position.partition == *partition && position.next < *end)
                };
                match ends.iter().find(is_behind) {
                    None => return Instant::now(),
                    Some((partition, end)) => format!("partition {partition} is not at {end} yet"),
                }
            }
        };
        assert!(since.elapsed() < TIMEOUT, "messages are not applied: {why}");
        tokio::time::sleep(LOOK).await;
    }
}

async fn export(stage: &Stage) -> Instant {
    let body = json!({ "fields_to_export": crate::support::api::ALL_FIELDS });
    load::run_export(&stage.world, PLAIN, &body, None).await;
    Instant::now()
}

async fn messages(stage: &Stage) -> Instant {
    stage.all_received(Timestamp::now().as_millisecond(), TIMEOUT).await;
    Instant::now()
}
