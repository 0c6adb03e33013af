//! `longshore schedules`.

use serde_json::json;
use uuid::Uuid;

use super::audit;
use super::ids::schedule_id;
use super::print::Results;
use super::table::{self, Cell, optional, state, text, time};
use super::{CommandResult, ListArguments, find_named, retry};
use crate::app::App;
use crate::config::Config;
use crate::messages::Timing;
use crate::schedules::{self, Filter, Schedule, State};
use kit::clock::format_seconds;

/// List, show and cancel scheduled sends.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  longshore schedules list --state pending
  longshore schedules show 0197b6a8-3c55-7e11-9a1f-3f0f3c2d6e54
  longshore schedules cancel 0197b6a8-3c55-7e11-9a1f-3f0f3c2d6e54")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List the latest schedules
    #[command(after_help = "Example:
  longshore schedules list --workspace acme --state pending --limit 20")]
    List(ListArguments<State>),
    /// Show one schedule with its request
    #[command(after_help = "Example:
  longshore schedules show 0197b6a8-3c55-7e11-9a1f-3f0f3c2d6e54 --json")]
    Show(Show),
    /// Cancel schedules; of a send under way, messages that workers already hold may still go out
    #[command(after_help = "Example:
  longshore schedules cancel 0197b6a8-3c55-7e11-9a1f-3f0f3c2d6e54")]
    Cancel(Cancel),
}

#[derive(clap::Args)]
struct Show {
    /// The schedule_id
    #[arg(value_parser = schedule_id)]
    id: Uuid,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Cancel {
    /// The schedule_ids
    #[arg(required = true, value_name = "ID", value_parser = schedule_id)]
    ids: Vec<Uuid>,
    /// Print one JSON object: the schedules with their states, and the others with the reasons
    #[arg(long)]
    json: bool,
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    let app = super::open(config).await?;
    match arguments.command {
        Command::List(arguments) => list(&app, arguments).await,
        Command::Show(arguments) => show(&app, arguments).await,
        Command::Cancel(arguments) => cancel(&app, arguments).await,
    }
}

async fn list(app: &App, arguments: ListArguments<State>) -> CommandResult {
    let ListArguments { state, workspace, page } = arguments;
    let after = page.after(schedule_id)?;
    let mut tx = app.store.snapshot().await?;
    find_named(&mut tx, workspace.as_deref()).await?;
    if let Some(id) = after {
        schedules::by_id(&mut tx, id).await?.ok_or_else(|| unknown(id))?;
    }
    let filter = Filter { state, workspace, after, limit: page.rows_to_read() };
    let found = schedules::list(&mut tx, &filter).await?;
    let headers = ["ID", "STATE", "TIME", "WORKSPACE", "OF"];
    page.print_page("schedules", headers, &found, |schedule| schedule.id.to_string(), row)
}

async fn show(app: &App, arguments: Show) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let found = schedules::by_id(&mut tx, arguments.id).await?;
    let schedule = found.ok_or_else(|| unknown(arguments.id))?;
    table::print_object(arguments.json, &schedule, details)
}

/// Cancels all schedules that it can, prints the errors of the others, and fails if there are any.
async fn cancel(app: &App, arguments: Cancel) -> CommandResult {
    let mut results = Results::new(arguments.json);
    for id in &arguments.ids {
        let reason = match retry::while_busy(async || cancel_one(app, *id).await).await {
            Ok(Some(state @ (State::Cancelling | State::Cancelled | State::Missed))) => {
                results.done(&cancelled(*id, state), json!({"id": id, "state": state.name()}));
                continue;
            }
            Ok(Some(_)) => format!("{id} was already sent"),
            Ok(None) => unknown(*id),
            Err(error) => format!("{id}: {error}"),
        };
        results.failed(&format!("longshore: {reason}"), id, &reason);
    }
    app.store.wake().flush().await;
    results.end("schedules", "were not cancelled")
}

/// Cancels a schedule, with its entry in the audit log. Returns its state, if there is such a
/// schedule.
async fn cancel_one(app: &App, id: Uuid) -> CommandResult<Option<State>> {
    let mut tx = app.store.write().await?;
    let cancelled = schedules::cancel(&mut tx, id, app.clock.now_ms()).await?;
    if let Some(cancelled) = &cancelled {
        let workspace = Some(cancelled.schedule.workspace_id);
        audit::record_change(&mut tx, app, workspace, cancelled.change()).await?;
    }
    tx.commit().await?;
    Ok(cancelled.map(|cancelled| cancelled.state))
}

/// What the state of a cancelled schedule means.
fn cancelled(id: Uuid, state: State) -> String {
    match state {
        State::Cancelling => format!(
            "{id} cancelling: messages that workers already hold may still go out; `longshore \
             schedules show {id}` shows when it is cancelled"
        ),
        State::Missed => format!("{id} was missed: no message is sent"),
        state => format!("{id} {}", state.name()),
    }
}

fn unknown(id: Uuid) -> String {
    format!("unknown schedule {id}: see `longshore schedules list`")
}

fn row(schedule: &Schedule) -> [Cell; 5] {
    [
        text(schedule.id),
        state(schedule.state.name()),
        text(due_time(schedule)),
        text(&schedule.workspace),
        text(subject(schedule)),
    ]
}

fn details(schedule: &Schedule) -> [(&'static str, Cell); 18] {
    [
        ("id", text(schedule.id)),
        ("dispatch id", text(schedule.dispatch_id.simple())),
        ("workspace", text(&schedule.workspace)),
        ("of", text(subject(schedule))),
        ("canvas", optional(schedule.canvas_id.map(text))),
        ("state", state(schedule.state.name())),
        ("time", text(due_time(schedule))),
        ("created", time(schedule.created_at)),
        ("begun", optional(schedule.sent_at.map(time))),
        ("due times", text(due_times(schedule))),
        ("next due time", optional(schedule.next_at().map(time))),
        ("last due time", optional(schedule.last_at().map(time))),
        ("too late", optional(too_late(schedule).map(text))),
        ("ended", optional(schedule.ended_at.map(time))),
        ("error", optional(schedule.error.as_ref().map(text))),
        ("requested by", optional(requested_by(schedule).map(text))),
        ("request id", text(&schedule.request_id)),
        ("request", text(&schedule.request)),
    ]
}

/// How many of its due times have passed.
fn due_times(schedule: &Schedule) -> String {
    let (all, past) = schedule.moments();
    let missed = schedule.missed_at.map(|at| format!(", missed up to {}", format_seconds(at)));
    format!("{past} of {all}{}", missed.unwrap_or_default())
}

/// Who gets nothing, because the local time had passed in their zone.
fn too_late(schedule: &Schedule) -> Option<String> {
    let before = schedule.missed_at.filter(|_| schedule.timing == Timing::Local)?;
    let offset = schedule.time.saturating_sub(before) / 60_000;
    let (sign, offset) = (if offset < 0 { '-' } else { '+' }, offset.abs());
    Some(format!(
        "users at UTC{sign}{:02}:{:02} and further east: their time was {} or earlier",
        offset / 60,
        offset % 60,
        format_seconds(before)
    ))
}

/// Who asked for it, as in the audit log.
fn requested_by(schedule: &Schedule) -> Option<String> {
    let request: serde_json::Value = serde_json::from_str(&schedule.request).unwrap_or_default();
    request["requested_by"].as_str().map(str::to_owned)
}

/// Its subject: a Canvas or a campaign with its id, or a send without one.
fn subject(schedule: &Schedule) -> String {
    let request: serde_json::Value = serde_json::from_str(&schedule.request).unwrap_or_default();
    match (schedule.canvas_id, request["campaign_id"].as_str()) {
        (Some(id), _) => format!("canvas {id}"),
        (None, Some(id)) => format!("campaign {id}"),
        (None, None) => "send".into(),
    }
}

/// In whole seconds: in UTC, or as a local time.
fn due_time(schedule: &Schedule) -> String {
    let time = format_seconds(schedule.time);
    match schedule.timing {
        Timing::Instant => time,
        timing => format!("{} {}", time.trim_end_matches('Z'), timing.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_times_show_no_zone() {
        let schedule = |timing| Schedule {
            id: Uuid::nil(),
            workspace_id: 1,
            workspace: "acme".into(),
            dispatch_id: Uuid::nil(),
            canvas_id: None,
            state: State::Pending,
            timing,
            time: 1_624_899_763_032,
            created_at: 0,
            timed_at: 0,
            sent_at: None,
            ended_at: None,
            reached_at: None,
            missed_at: None,
            error: None,
            request_id: "r".into(),
            request: "{}".into(),
        };
        assert_eq!(due_time(&schedule(Timing::Instant)), "2021-06-28T17:02:43Z");
        assert_eq!(due_time(&schedule(Timing::Local)), "2021-06-28T17:02:43 local");
        let missed_at = Some(1_624_899_763_032 - 330 * 60_000);
        let local = Schedule { missed_at, ..schedule(Timing::Local) };
        let late = "users at UTC+05:30 and further east: their time was 2021-06-28T11:32:43Z or \
                    earlier";
        assert_eq!(too_late(&local).as_deref(), Some(late));
        assert_eq!(too_late(&schedule(Timing::Local)), None);
        let send = schedule(Timing::Instant);
        assert_eq!(subject(&send), "send");
        let id = Uuid::nil();
        let campaign =
            Schedule { request: format!(r#"{{"campaign_id": "{id}"}}"#), ..send.clone() };
        assert_eq!(subject(&campaign), format!("campaign {id}"));
        assert_eq!(subject(&Schedule { canvas_id: Some(id), ..send }), format!("canvas {id}"));
    }
}
