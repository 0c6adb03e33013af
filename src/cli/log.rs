//! `longshore log`.

use std::str::FromStr;

use clap::Subcommand;
use serde::Serialize;
use serde_json::json;

use super::audit;
use super::confirm::Consent;
use super::table::{self, Cell, measure, number, optional, state, text};
use super::{CommandResult, retry};
use crate::app::App;
use crate::config::Config;
use crate::topics;
use kit::words::count;
use log::lag::{self, PartitionLag, TopicLag};
use log::offsets::{self, GroupOffset};
use log::{OffsetRange, Topic};

#[derive(clap::Args)]
#[command(after_help = "Example:\n  longshore log status")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show the partitions that are behind or stopped: the group's position, its lag, and the
    /// reason
    ///
    /// The stopped ones are first, then those that are furthest behind. For the topics whose
    /// messages are applied exactly once, because their offsets are in the database. Exits with 1
    /// if a partition is stopped.
    #[command(after_help = "Examples:\n  longshore log status\n  \
                      longshore log status --json | jq 'select(.stopped)'")]
    Status {
        /// Also show the partitions that are up to date; with --json, they always are
        #[arg(long)]
        all: bool,
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Set the position of stopped partitions
    ///
    /// Workers can keep running: they continue at the new position within seconds. Messages between
    /// the old and a later position are never applied; messages after an earlier position are
    /// applied again, and count twice. Asks on a terminal.
    #[command(
        after_help = "Examples:\n  longshore log reset --topic tracking --partition 3 --to latest --dry-run\n  \
                      longshore log reset --topic tracking --all --to earliest"
    )]
    Reset(Reset),
}

#[derive(clap::Args)]
struct Reset {
    /// The topic, as `status` shows it
    #[arg(long, value_name = "TOPIC", value_parser = topic)]
    topic: Topic,
    #[command(flatten)]
    which: Which,
    /// `earliest`: the oldest message in the log; `latest`: after the newest one; or an offset
    #[arg(long, value_name = "OFFSET")]
    to: To,
    #[command(flatten)]
    consent: Consent,
    /// Print one JSON object per partition
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct Which {
    /// The partitions
    #[arg(long = "partition", value_name = "N")]
    partitions: Vec<i32>,
    /// All stopped partitions
    #[arg(long)]
    all: bool,
}

fn topic(name: &str) -> Result<Topic, String> {
    topics::from_name(name).ok_or_else(|| {
        let known: Vec<_> = topics::ALL.iter().map(|topic| topic.name()).collect();
        format!("expected one of {}", known.join(", "))
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    Earliest,
    Latest,
    Offset(i64),
}

impl FromStr for To {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "earliest" => Ok(Self::Earliest),
            "latest" => Ok(Self::Latest),
            _ => text.parse().map(Self::Offset).map_err(|_| {
                "expected earliest, latest, or an offset that is a whole number".to_owned()
            }),
        }
    }
}

impl To {
    /// The offset, within the offsets of the log.
    fn within(self, range: &OffsetRange) -> Result<i64, String> {
        match self {
            Self::Earliest => Ok(range.earliest),
            Self::Latest => Ok(range.end),
            Self::Offset(offset) if (range.earliest..=range.end).contains(&offset) => Ok(offset),
            Self::Offset(offset) => Err(format!(
                "partition {}: {offset} is outside of the log's offsets, {} to {}",
                range.partition, range.earliest, range.end
            )),
        }
    }
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    let app = super::open(config).await?;
    let result = match arguments.command {
        Command::Status { all, json } => status(&app, all, json).await,
        Command::Reset(reset) => self::reset(&app, &reset).await,
    };
    app.log.close().await;
    result
}

/// A partition as it is printed.
#[derive(Serialize)]
struct Status {
    topic: &'static str,
    group: String,
    partition: i32,
    next: i64,
    earliest: Option<i64>,
    end: Option<i64>,
    behind: Option<i64>,
    /// Why it is stopped.
    stopped: Option<String>,
}

impl From<PartitionLag> for Status {
    fn from(lag: PartitionLag) -> Self {
        Self {
            topic: lag.topic.name(),
            partition: lag.position.partition,
            next: lag.position.next,
            earliest: lag.range.map(|range| range.earliest),
            end: lag.range.map(|range| range.end),
            behind: lag.behind(),
            group: lag.position.consumer_group,
            stopped: lag.stopped,
        }
    }
}

fn row(status: &Status) -> [Cell; 9] {
    [
        text(status.topic),
        number(status.partition),
        text(&status.group),
        state(if status.stopped.is_some() { "stopped" } else { "active" }),
        // To copy, as `--to` reads them.
        measure(status.next),
        optional(status.earliest.map(measure)),
        optional(status.end.map(measure)),
        optional(status.behind.map(number)),
        optional(status.stopped.as_ref().map(text)),
    ]
}

/// The topics whose offsets are in the store: those that were consumed.
async fn consumed(app: &App, topics: &[Topic]) -> CommandResult<Vec<TopicLag>> {
    let mut tx = app.store.snapshot().await?;
    let mut positions = offsets::positions_by_topic(&mut tx, topics).await?;
    tx.commit().await?;
    positions.retain(|(_, positions)| !positions.is_empty());
    Ok(lag::read(&app.log, positions).await?)
}

/// Prints the partitions that are stopped or behind, and in JSON or with `all` the others too.
async fn status(app: &App, all: bool, json: bool) -> CommandResult {
    let topics = consumed(app, topics::ALL).await?.into_iter();
    let mut lags: Vec<PartitionLag> = topics.flat_map(|topic| topic.partitions).collect();
    lag::sort_by_urgency(&mut lags);
    let stopped = lags.iter().filter(|lag| lag.stopped.is_some()).count();
    let (hidden, shown): (Vec<_>, Vec<_>) =
        lags.into_iter().partition(|lag| !all && !json && lag.is_up_to_date());
    let shown: Vec<Status> = shown.into_iter().map(Status::from).collect();
    if hidden.is_empty() || !shown.is_empty() {
        let headers =
            ["TOPIC", "PARTITION", "GROUP", "STATE", "NEXT", "EARLIEST", "END", "BEHIND", "REASON"];
        table::print(json, "consumer groups", headers, &shown, row)?;
    }
    if !hidden.is_empty() {
        eprintln!("{}", up_to_date(hidden.len(), shown.is_empty()));
    }
    match stopped {
        0 => Ok(()),
        1 => Err("one partition is stopped: see `longshore log reset --help`".into()),
        count => {
            Err(format!("{count} partitions are stopped: see `longshore log reset --help`").into())
        }
    }
}

/// The sentence about partitions that are not listed.
fn up_to_date(hidden: usize, is_all: bool) -> String {
    match (hidden, is_all) {
        (1, true) => "The only partition is up to date.".to_owned(),
        (_, true) => format!("All {hidden} partitions are up to date."),
        (1, false) => "1 other is up to date: see --all.".to_owned(),
        (_, false) => format!("{hidden} others are up to date: see --all."),
    }
}

/// What a reset of a partition does.
fn effect(line: &PartitionLag, next: i64) -> String {
    let GroupOffset { consumer_group: group, partition, next: former, .. } = &line.position;
    let moved = next.saturating_sub(*former);
    // The log may have lost some of them.
    let result = match moved {
        0 => "nothing changes".to_owned(),
        1.. => format!("up to {} are never applied", count(moved.unsigned_abs(), "message")),
        ..0 => format!(
            "up to {} may be applied again, and count twice",
            count(moved.unsigned_abs(), "message")
        ),
    };
    let topic = line.topic.name();
    format!("{topic} {partition} of {group}: is at {former}, continues at {next}; {result}")
}

/// What a reset of several partitions does.
fn total(chosen: &[(&PartitionLag, i64)]) -> String {
    let (mut skipped, mut repeated) = (0, 0);
    for (line, next) in chosen {
        let moved = next.saturating_sub(line.position.next);
        skipped += u64::try_from(moved).unwrap_or_default();
        repeated += if moved < 0 { moved.unsigned_abs() } else { 0 };
    }
    format!(
        "moves {}: in total, up to {} are never applied, and up to {} may be applied again, and \
         count twice",
        count(chosen.len() as u64, "position"),
        count(skipped, "message"),
        count(repeated, "message")
    )
}

/// Whether a reset to `next` still goes in the direction that was found for `shown`. If it was
/// confirmed, which can take hours, it must not repeat more messages than it showed.
fn is_as_shown(shown: &GroupOffset, current: &GroupOffset, next: i64, was_confirmed: bool) -> bool {
    let is_same = (&current.log_id, current.resets) == (&shown.log_id, shown.resets);
    let goes_back = next <= shown.next && !was_confirmed;
    is_same && (current.next == shown.next || goes_back || current.next <= next)
}

/// Moves the positions in one transaction, with their entries in the audit log. Returns the former
/// positions.
async fn move_positions(
    app: &App,
    topic: Topic,
    log_id: &str,
    chosen: &[(&PartitionLag, i64)],
    was_confirmed: bool,
) -> CommandResult<Vec<i64>> {
    let mut tx = app.store.write().await?;
    let mut former_positions = Vec::with_capacity(chosen.len());
    for (line, next) in chosen {
        let GroupOffset { consumer_group: group, partition, next: shown, .. } = &line.position;
        let current = offsets::lock(&mut tx, group, topic, *partition).await?;
        let is_as_shown =
            |current: &GroupOffset| is_as_shown(&line.position, current, *next, was_confirmed);
        let Some(current) = current.filter(is_as_shown) else {
            return Err(format!(
                "{} {partition} of {group}: the position moved meanwhile, from {shown}; nothing \
                 was changed. Run the command again, or with --yes if it keeps moving",
                topic.name()
            )
            .into());
        };
        let former = current.next;
        let position = GroupOffset { log_id: log_id.to_owned(), next: *next, ..current };
        offsets::reset(&mut tx, topic, &position).await?;
        let change = ("log.reset", format!("{} {partition} of {group}", topic.name()));
        let details = json!({ "before": { "next": former }, "after": { "next": next } });
        audit::record(&mut tx, app, None, change, details).await?;
        former_positions.push(former);
    }
    tx.commit().await?;
    Ok(former_positions)
}

async fn reset(app: &App, reset: &Reset) -> CommandResult {
    let Some(TopicLag { offsets, partitions: lines }) = consumed(app, &[reset.topic]).await?.pop()
    else {
        return Err(
            format!("{} was never consumed: no position to reset", reset.topic.name()).into()
        );
    };
    let mut chosen = Vec::new();
    for line in &lines {
        let partition = line.position.partition;
        let is_chosen = if reset.which.all {
            line.stopped.is_some()
        } else {
            reset.which.partitions.contains(&partition)
        };
        if is_chosen {
            let range = line.range.ok_or(format!("unknown partition {partition}"))?;
            chosen.push((line, reset.to.within(&range)?));
        }
    }
    if let Some(unknown) = reset
        .which
        .partitions
        .iter()
        .find(|wanted| !chosen.iter().any(|(line, _)| line.position.partition == **wanted))
    {
        return Err(format!("partition {unknown} was never consumed").into());
    }
    let mut effects: Vec<String> = chosen.iter().map(|(line, next)| effect(line, *next)).collect();
    if effects.len() > 1 && !reset.json {
        effects.insert(0, total(&chosen));
    }
    if !chosen.is_empty() && !reset.consent.is_given(reset.json, &effects)? {
        return Ok(());
    }
    let log_id = &offsets.id;
    let was_confirmed = reset.consent.needs_effects();
    let former_positions = retry::while_busy(async || {
        move_positions(app, reset.topic, log_id, &chosen, was_confirmed).await
    })
    .await?;
    for ((line, next), former) in chosen.iter().zip(former_positions) {
        let GroupOffset { consumer_group: group, partition, .. } = &line.position;
        let topic = reset.topic.name();
        if reset.json {
            let position = json!({
                "topic": topic, "partition": partition, "group": group,
                "former": former, "next": next,
            });
            println!("{position}");
        } else {
            println!("{topic} {partition} of {group}: was at {former}, continues at {next}");
        }
    }
    if chosen.is_empty() {
        eprintln!("No stopped partitions.");
    }
    Ok(())
}
