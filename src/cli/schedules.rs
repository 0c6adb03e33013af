//! `longshore schedules`.

use uuid::Uuid;

use super::{CommandResult, ListArguments, find_named, print};
use crate::app::App;
use crate::config::Config;
use crate::messages::Timing;
use crate::schedules::{self, Filter, Schedule, State};
use kit::clock::{format_seconds, format_time};

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
    /// Cancel schedules; of a send under way, messages in flight are still sent, and no others
    #[command(after_help = "Example:
  longshore schedules cancel 0197b6a8-3c55-7e11-9a1f-3f0f3c2d6e54")]
    Cancel(Cancel),
}

#[derive(clap::Args)]
struct Show {
    /// The schedule_id
    id: Uuid,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Cancel {
    /// The schedule_ids
    #[arg(required = true, value_name = "ID")]
    ids: Vec<Uuid>,
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
    let ListArguments { state, workspace, limit, json } = arguments;
    let mut tx = app.store.snapshot().await?;
    find_named(&mut tx, workspace.as_deref()).await?;
    let found = schedules::list(&mut tx, &Filter { state, workspace, limit }).await?;
    let heading = format!("{:<36}  {:<9}  {:<26}  {:<12}  OF", "ID", "STATE", "TIME", "WORKSPACE");
    print::rows(json, &heading, &found, line)
}

async fn show(app: &App, arguments: Show) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let found = schedules::by_id(&mut tx, arguments.id).await?;
    let schedule = found.ok_or_else(|| unknown(arguments.id))?;
    print::object(arguments.json, &schedule, details)
}

/// Cancels all schedules that it can, prints the errors of the others, and fails if there are any.
async fn cancel(app: &App, arguments: Cancel) -> CommandResult {
    let mut failed = 0;
    for id in &arguments.ids {
        let mut tx = app.store.write().await?;
        let state = schedules::cancel(&mut tx, *id, app.clock.now_ms()).await?;
        tx.commit().await?;
        match state {
            Some(State::Cancelling) => println!(
                "{id} cancelling: messages in flight are still sent; `longshore schedules show \
                 {id}` shows when it is cancelled"
            ),
            Some(State::Cancelled) => println!("{id} cancelled"),
            Some(State::Missed) => println!("{id} was missed: no message is sent"),
            state => {
                failed += 1;
                let why = state.map_or_else(|| unknown(*id), |_| format!("{id} was already sent"));
                eprintln!("longshore: {why}");
            }
        }
    }
    app.store.wake().flush().await;
    print::all_done(failed, arguments.ids.len(), "were not cancelled")
}

fn unknown(id: Uuid) -> String {
    format!("unknown schedule {id}: see `longshore schedules list`")
}

fn line(schedule: &Schedule) -> String {
    format!(
        "{:<36}  {:<9}  {:<26}  {:<12}  {}",
        schedule.id,
        schedule.state.name(),
        time(schedule),
        schedule.workspace,
        subject(schedule),
    )
}

fn details(schedule: &Schedule) -> String {
    print::fields([
        ("id", schedule.id.to_string()),
        ("dispatch id", schedule.dispatch_id.simple().to_string()),
        ("workspace", schedule.workspace.clone()),
        ("of", subject(schedule)),
        ("canvas", canvas(schedule)),
        ("state", schedule.state.name().to_owned()),
        ("time", time(schedule)),
        ("created", format_time(schedule.created_at)),
        ("begun", moment(schedule.sent_at)),
        ("moments", moments(schedule)),
        ("ended", moment(schedule.ended_at)),
        ("error", schedule.error.clone().unwrap_or_else(|| "-".to_owned())),
        ("request id", schedule.request_id.clone()),
        ("request", schedule.request.clone()),
    ])
}

fn moment(ms: Option<i64>) -> String {
    ms.map_or("-".to_owned(), format_time)
}

/// How many of its due times have passed.
fn moments(schedule: &Schedule) -> String {
    let (all, past) = schedule.moments();
    let missed = schedule.missed_at.map(|at| format!(", missed up to {}", format_time(at)));
    format!("{past} of {all}{}", missed.unwrap_or_default())
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

fn canvas(schedule: &Schedule) -> String {
    schedule.canvas_id.map_or("-".to_owned(), |id| id.to_string())
}

/// In whole seconds: in UTC, or as a local time.
fn time(schedule: &Schedule) -> String {
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
        assert_eq!(time(&schedule(Timing::Instant)), "2021-06-28T17:02:43Z");
        assert_eq!(time(&schedule(Timing::Local)), "2021-06-28T17:02:43 local");
        let send = schedule(Timing::Instant);
        assert_eq!(subject(&send), "send");
        let id = Uuid::nil();
        let campaign =
            Schedule { request: format!(r#"{{"campaign_id": "{id}"}}"#), ..send.clone() };
        assert_eq!(subject(&campaign), format!("campaign {id}"));
        assert_eq!(subject(&Schedule { canvas_id: Some(id), ..send }), format!("canvas {id}"));
    }
}
