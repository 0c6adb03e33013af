//! The commands of operators, which read the database: exports of all workspaces.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use jiff::Timestamp;
use serde_json::Value;

use crate::app::App;
use crate::cli::{CommandResult, find_named, print};
use crate::config::ConfigError;
use crate::exports::overview::{self, AudienceKind, Filter, ListedExport, Mark};
use crate::exports::{State, rows, state};
use kit::clock::from_ms;

#[derive(clap::Args)]
pub struct List {
    /// Only exports of this workspace (database only)
    #[arg(long, value_name = "NAME")]
    workspace: Option<String>,
    /// Only exports in this state; repeat it for several (database only)
    #[arg(long = "state", value_name = "STATE", value_parser = states())]
    states: Vec<State>,
    /// Only exports of this kind of audience (database only)
    #[arg(long, value_name = "KIND", value_parser = audiences())]
    audience: Option<AudienceKind>,
    /// Only exports that were requested at least this long ago, such as 30m, 2h or 7d (database
    /// only)
    #[arg(long, value_name = "AGE", value_parser = age)]
    older_than: Option<i64>,
    /// Only exports that were requested at most this long ago, or since this time, such as
    /// 2026-11-25T00:00Z (database only)
    #[arg(long, value_name = "AGE|TIME", value_parser = since)]
    since: Option<Since>,
    /// Maximum number of exports
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub limit: u32,
}

impl List {
    /// Rejects filters that the API does not have.
    pub fn check_for_api(&self) -> Result<(), ConfigError> {
        let filters = [
            ("--workspace", self.workspace.is_some()),
            ("--state", !self.states.is_empty()),
            ("--audience", self.audience.is_some()),
            ("--older-than", self.older_than.is_some()),
            ("--since", self.since.is_some()),
        ];
        let problems: Vec<String> = filters
            .into_iter()
            .filter(|(_, is_set)| *is_set)
            .map(|(name, _)| {
                format!("{name} needs the database: omit --key, or unset LONGSHORE_KEY")
            })
            .collect();
        if problems.is_empty() { Ok(()) } else { Err(ConfigError { problems }) }
    }
}

/// The earliest time of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Since {
    /// Milliseconds before now.
    Age(i64),
    /// Milliseconds since the epoch.
    Time(i64),
}

fn states() -> impl TypedValueParser<Value = State> {
    PossibleValuesParser::new(State::ALL.map(State::name))
        .try_map(|name| State::from_name(&name).ok_or("unknown state"))
}

fn audiences() -> impl TypedValueParser<Value = AudienceKind> {
    PossibleValuesParser::new(AudienceKind::ALL.map(AudienceKind::name))
        .try_map(|name| AudienceKind::from_name(&name).ok_or("unknown kind of audience"))
}

/// An age in milliseconds.
fn age(text: &str) -> Result<i64, String> {
    let expected = || format!("{text:?} must be a number with the unit s, m, h or d, such as 2h");
    let unit_ms = match text.chars().last() {
        Some('s') => 1_000,
        Some('m') => 60_000,
        Some('h') => 3_600_000,
        Some('d') => 86_400_000,
        _ => return Err(expected()),
    };
    let number: u32 = text[..text.len() - 1].parse().map_err(|_| expected())?;
    Ok(i64::from(number) * unit_ms)
}

fn since(text: &str) -> Result<Since, String> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(Since::Time(time.as_millisecond()));
    }
    age(text)
        .map(Since::Age)
        .map_err(|error| format!("{error}, or a time such as 2026-11-25T00:00Z"))
}

pub async fn list(app: &App, arguments: List, json: bool) -> CommandResult {
    let now = app.clock.now_ms();
    let mut tx = app.store.snapshot().await?;
    let workspace = find_named(&mut tx, arguments.workspace.as_deref()).await?;
    let filter = Filter {
        workspace: workspace.map(|workspace| workspace.id),
        states: arguments.states,
        audience: arguments.audience,
        since: arguments.since.map(|since| match since {
            Since::Age(age) => now.saturating_sub(age),
            Since::Time(time) => time,
        }),
        until: arguments.older_than.map(|age| now.saturating_sub(age)),
        limit: arguments.limit,
    };
    let exports = overview::list(&app.gateway, &mut tx, &filter).await?;
    let heading = format!(
        "{:<47}  {:<9}  {:<12}  {:<13}  {:>17}  {:>11}  {:>12}  {:>9}  {:<7}  ERROR",
        "PREFIX", "STATE", "WORKSPACE", "AUDIENCE", "USERS", "FILES", "AGE", "USERS/S", "MARK"
    );
    print::rows(json, &heading, &exports, |export| line(export, now))
}

fn line(export: &ListedExport, now: i64) -> String {
    let progress = &export.progress;
    format!(
        "{:<47}  {:<9}  {:<12}  {:<13}  {:>17}  {:>11}  {:>12}  {:>9}  {:<7}  {}",
        export.job.object_prefix,
        progress.state.name(),
        export.workspace,
        export.audience_kind.name(),
        done_of(progress.users_done, progress.users),
        done_of(progress.files_done, progress.parts),
        print::age(from_ms(export.job.requested_at), from_ms(now)),
        export.rate(now).map_or("-".into(), |rate| format!("{:.0}", rate.users_per_second)),
        export.mark.map_or("-", Mark::name),
        print::last_column(export.error()),
    )
}

fn done_of(done: i64, total: Option<i64>) -> String {
    total.map_or_else(|| done.to_string(), |total| format!("{done}/{total}"))
}

pub async fn status(app: &App, prefix: &str, json: bool) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let export = overview::by_prefix(&app.gateway, &mut tx, prefix).await?;
    let export = export.ok_or_else(|| unknown(prefix))?;
    if json {
        println!("{}", serde_json::to_string_pretty(&export)?);
    } else {
        print!("{}", details(&export, app.clock.now_ms())?);
    }
    Ok(())
}

fn details(export: &ListedExport, now: i64) -> serde_json::Result<String> {
    let status = serde_json::to_value(export)?;
    let text = |name: &str| status[name].as_str().unwrap_or("-").to_owned();
    let progress = &export.progress;
    let rate = |rate: &Value| rate.as_f64().map_or("-".into(), |rate| format!("{rate:.0}"));
    Ok(print::fields([
        ("prefix", text("object_prefix")),
        ("workspace", export.workspace.clone()),
        ("audience", export.audience_kind.name().to_owned()),
        ("state", text("state")),
        ("phase", text("phase")),
        ("mark", export.mark.map_or("-", Mark::name).to_owned()),
        ("users", done_of(progress.users_done, progress.users)),
        ("files", done_of(progress.files_done, progress.parts)),
        ("bytes", progress.bytes_done.to_string()),
        ("users/s", rate(&status["rate"]["users_per_second"])),
        ("bytes/s", rate(&status["rate"]["bytes_per_second"])),
        ("tasks held", export.tasks_held.map_or("-".into(), |held| held.to_string())),
        ("age", print::age(from_ms(export.job.requested_at), from_ms(now))),
        ("requested", text("requested_at")),
        ("started", text("started_at")),
        ("late since", text("late_at")),
        ("finished", text("finished_at")),
        ("expected end", text("estimated_end")),
        ("url expires", text("expires_at")),
        ("error", text("error")),
        ("details", text("error_detail")),
        ("request id", export.job.request_id.clone()),
    ]))
}

/// Cancels an export. One that has ended, or is finishing, stays as it is: an error.
pub async fn cancel(app: &App, prefix: &str, json: bool) -> CommandResult {
    let mut tx = app.store.write().await?;
    let (job, _) = rows::by_prefix(&mut tx, prefix).await?.ok_or_else(|| unknown(prefix))?;
    let is_cancelled = state::cancel(&app.gateway, &mut tx, &job).await?;
    let export = overview::by_prefix(&app.gateway, &mut tx, prefix).await?;
    let export = export.ok_or_else(|| unknown(prefix))?;
    tx.commit().await?;
    app.store.wake().flush().await;
    if !is_cancelled && export.progress.state != State::Cancelled {
        let state = export.progress.state.name();
        return Err(format!("{prefix} is {state} and can no longer be cancelled").into());
    }
    if json {
        println!("{}", serde_json::to_string_pretty(&export)?);
    } else {
        let (workspace, state) = (&export.workspace, export.progress.state.name());
        println!(
            "{prefix} of the workspace {workspace} is {state} (in the database: no key is set)"
        );
    }
    Ok(())
}

fn unknown(prefix: &str) -> String {
    format!("no export in this installation has the object_prefix {prefix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_a_unit() {
        assert_eq!(age("90s"), Ok(90_000));
        assert_eq!(age("2h"), Ok(7_200_000));
        assert_eq!(age("7d"), Ok(604_800_000));
        for wrong in ["", "h", "2", "-2h", "2.5h", "2H", "2µ", "99999999999d"] {
            assert!(age(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn since_takes_an_age_or_a_time() {
        assert_eq!(since("30m"), Ok(Since::Age(1_800_000)));
        assert_eq!(since("1970-01-01T00:00:01Z"), Ok(Since::Time(1_000)));
        assert!(since("yesterday").is_err());
    }
}
