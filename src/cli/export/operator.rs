//! The commands of operators, which read the database: exports of all workspaces.

use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::{already_cancelled, cancellation, print_repeated};
use crate::app::App;
use crate::cli::audit;
use crate::cli::confirm::Consent;
use crate::cli::ids::object_prefix;
use crate::cli::print::Results;
use crate::cli::retry::{self, api_error};
use crate::cli::table::{self, Cell, fields, number, optional, progress, text, time, time_in};
use crate::cli::times::{Moment, age, moment};
use crate::cli::{CommandResult, UsageError, find_named, page_of, print, print_next};
use crate::exports::audience::AudienceKind;
use crate::exports::overview::{self, Filter, ListPosition, ListedExport, Mark};
use crate::exports::{Job, State, create, repeat, rows, status};
use kit::clock::from_ms;
use runtime::audit::KEEP_DAYS;
use serde_json::json;
use store::Tx;
use uuid::Uuid;

#[derive(clap::Args)]
pub struct List {
    /// Only exports of this workspace (database only)
    #[arg(long, value_name = "NAME")]
    workspace: Option<String>,
    /// Only exports in this state; repeat it for several (several: database only)
    #[arg(long = "state", value_name = "STATE", value_parser = states())]
    states: Vec<State>,
    /// Only exports that have not ended: queued, planning, running or finishing (database only)
    #[arg(long, conflicts_with = "states")]
    active: bool,
    /// Only exports in progress with this mark; repeat it for several (several: database only)
    #[arg(long = "mark", value_name = "MARK", value_parser = marks())]
    marks: Vec<Mark>,
    /// Only exports of this kind of audience (database only)
    #[arg(long, value_name = "KIND", value_parser = audiences())]
    audience: Option<AudienceKind>,
    /// Only exports that were requested at least this long ago, such as 30m, 2h or 7d (database
    /// only)
    #[arg(long, value_name = "AGE", value_parser = age)]
    older_than: Option<i64>,
    /// Only exports that were requested at most this long ago, or since this time, such as
    /// 2026-11-25T00:00Z (database only)
    #[arg(long, value_name = "AGE|TIME", value_parser = moment)]
    since: Option<Moment>,
    /// Maximum number of exports
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// Only exports after the one with this object_prefix, the last of the previous page
    #[arg(long, value_name = "PREFIX", value_parser = object_prefix)]
    pub after: Option<String>,
}

impl List {
    /// The parameters of the API's list for these filters, each after `&`. Rejects filters that
    /// need the database.
    pub fn api_parameters(&self) -> Result<String, UsageError> {
        let filters = [
            ("--workspace", self.workspace.is_some()),
            ("more than one --state", self.states.len() > 1),
            ("--active", self.active),
            ("more than one --mark", self.marks.len() > 1),
            ("--audience", self.audience.is_some()),
            ("--older-than", self.older_than.is_some()),
            ("--since", self.since.is_some()),
        ];
        if let Some((name, _)) = filters.into_iter().find(|(_, is_set)| *is_set) {
            return Err(UsageError(format!("{name} needs the database: add --key \"\"")));
        }
        let state = self.states.iter().map(|state| format!("&state={}", state.name()));
        let mark = self.marks.iter().map(|mark| format!("&mark={}", mark.name()));
        Ok(state.chain(mark).collect())
    }
}

fn states() -> impl TypedValueParser<Value = State> {
    PossibleValuesParser::new(State::ALL.map(State::name))
        .try_map(|name| State::from_name(&name).ok_or("unknown state"))
}

fn marks() -> impl TypedValueParser<Value = Mark> {
    PossibleValuesParser::new(Mark::ALL.map(Mark::name))
        .try_map(|name| Mark::from_name(&name).ok_or("unknown mark"))
}

fn audiences() -> impl TypedValueParser<Value = AudienceKind> {
    PossibleValuesParser::new(AudienceKind::ALL.map(AudienceKind::name))
        .try_map(|name| AudienceKind::from_name(&name).ok_or("unknown kind of audience"))
}

pub async fn list(app: &App, arguments: List, json: bool) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let now = app.database_now(&mut tx).await?;
    let workspace = find_named(&mut tx, arguments.workspace.as_deref()).await?;
    let before = match &arguments.after {
        Some(prefix) => {
            let found = rows::by_prefix(&mut tx, prefix).await?;
            Some(ListPosition::from(&found.ok_or_else(|| unknown(prefix))?.0))
        }
        None => None,
    };
    let filter = Filter {
        before,
        workspace: workspace.map(|workspace| workspace.id),
        states: if arguments.active { State::unfinished().collect() } else { arguments.states },
        marks: arguments.marks,
        audiences: arguments.audience.map(|kind| vec![kind]),
        since: arguments.since.map(|since| since.at(now)),
        until: arguments.older_than.map(|age| now.saturating_sub(age)),
        limit: i64::from(arguments.limit) + 1,
        ended_since: None,
    };
    let exports = overview::list(&app.gateway, &mut tx, &filter).await?;
    let (page, last) = page_of(&exports, arguments.limit);
    table::print(json, "exports", HEADERS, page, |export| row(export, now))?;
    print_next(last.map(|export| export.job.object_prefix.clone()));
    Ok(())
}

const HEADERS: [&str; 10] = [
    "PREFIX",
    "STATE",
    "WORKSPACE",
    "AUDIENCE",
    "USERS",
    "FILES",
    "REQUESTED",
    "USERS/S",
    "MARK",
    "ERROR",
];

fn row(export: &ListedExport, now: i64) -> [Cell; 10] {
    let done = &export.progress;
    [
        text(&export.job.object_prefix),
        table::state(done.state.name()),
        text(&export.workspace),
        text(export.audience_kind.name()),
        progress(done.users_done, done.users),
        progress(done.files_done, done.parts),
        time(export.job.requested_at),
        optional(export.rate(now).map(|rate| number(rate.users_per_second.round() as i64))),
        optional(export.mark.map(|mark| table::state(mark.name()))),
        optional(export.error().map(text)),
    ]
}

pub async fn status(app: &App, prefix: &str, json: bool) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let export = overview::by_prefix(&app.gateway, &mut tx, prefix).await?;
    let export = export.ok_or_else(|| unknown(prefix))?;
    if json {
        println!("{}", serde_json::to_string(&export)?);
    } else {
        let now = app.database_now(&mut tx).await?;
        print!("{}", details(&export, now)?);
    }
    Ok(())
}

fn details(export: &ListedExport, now: i64) -> serde_json::Result<String> {
    let status = serde_json::to_value(export)?;
    let field = |name: &str| optional(status[name].as_str().map(text));
    let time_of = |name: &str| optional(status[name].as_str().map(time_in));
    let rate = |name: &str| {
        let rate = status["rate"][name].as_f64();
        optional(rate.map(|rate| number(rate.round() as i64)))
    };
    let done = &export.progress;
    Ok(fields([
        ("prefix", field("object_prefix")),
        ("workspace", text(&export.workspace)),
        ("audience", text(export.audience_kind.name())),
        ("state", table::state(done.state.name())),
        ("phase", field("phase")),
        ("mark", optional(export.mark.map(|mark| table::state(mark.name())))),
        ("users", progress(done.users_done, done.users)),
        ("files", progress(done.files_done, done.parts)),
        ("bytes", number(done.bytes_done)),
        ("users/s", rate("users_per_second")),
        ("bytes/s", rate("bytes_per_second")),
        ("tasks held", optional(export.tasks_held.map(number))),
        ("age", text(print::age(from_ms(export.job.requested_at), from_ms(now)))),
        ("requested", time_of("requested_at")),
        ("started", time_of("started_at")),
        ("late since", time_of("late_at")),
        ("finished", time_of("finished_at")),
        ("expected end", time_of("estimated_end")),
        ("url expires", time_of("expires_at")),
        ("error", field("error")),
        ("details", field("error_detail")),
        ("request id", text(&export.job.request_id)),
    ]))
}

/// Cancels an export. One that has ended, or is finishing, stays as it is: an error.
pub async fn cancel(app: &App, prefix: &str, consent: &Consent, json: bool) -> CommandResult {
    if consent.needs_effects() {
        let would_cancel = async || {
            let mut tx = app.store.write().await?;
            // Not committed.
            cancel_in(app, &mut tx, prefix).await
        };
        let (export, was_cancelled) = retry::while_busy(would_cancel).await?;
        let workspace = export.workspace;
        let effect = if was_cancelled {
            already_cancelled(prefix)
        } else {
            format!("{} (workspace {workspace})", cancellation(prefix))
        };
        let is_asked = consent.is_dry_run() || !was_cancelled;
        if is_asked && !consent.is_given(json, &[effect])? {
            return Ok(());
        }
    }
    let cancelled = retry::while_busy(async || {
        let mut tx = app.store.write().await?;
        let cancelled = cancel_in(app, &mut tx, prefix).await?;
        tx.commit().await?;
        Ok(cancelled)
    });
    let (export, was_cancelled) = cancelled.await?;
    app.store.wake().flush().await;
    if json {
        println!("{}", serde_json::to_string(&export)?);
    } else if was_cancelled {
        println!("{}", already_cancelled(prefix));
    } else {
        let (workspace, state) = (&export.workspace, export.progress.state.name());
        println!(
            "{prefix} of the workspace {workspace} is {state} (in the database: no key is set)"
        );
    }
    Ok(())
}

/// The export, and whether it was cancelled before; with an entry in the audit log if not.
async fn cancel_in(app: &App, tx: &mut Tx, prefix: &str) -> CommandResult<(ListedExport, bool)> {
    let (job, _) = rows::by_prefix(tx, prefix).await?.ok_or_else(|| unknown(prefix))?;
    let cancelled = status::cancel_job(&app.gateway, tx, &job).await;
    let (_, change) = cancelled.map_err(|error| api_error(prefix, error))?;
    let was_cancelled = change.is_none();
    audit::record_change(tx, app, Some(job.workspace_id), change).await?;
    let export = overview::by_prefix(&app.gateway, tx, prefix).await?;
    Ok((export.ok_or_else(|| unknown(prefix))?, was_cancelled))
}

#[derive(clap::Args)]
pub struct Repeat {
    /// The export's object_prefix
    #[arg(required_unless_present = "failed", value_parser = object_prefix)]
    prefix: Option<String>,
    /// All that failed since then and that nobody has repeated (database only)
    #[arg(long, requires = "since", conflicts_with = "prefix")]
    failed: bool,
    /// With --failed: how long ago, or since when, they failed; at most 365 days
    #[arg(long, value_name = "AGE|TIME", requires = "failed", value_parser = moment)]
    since: Option<Moment>,
    /// With --failed, only exports of this workspace
    #[arg(long, value_name = "NAME", requires = "failed")]
    workspace: Option<String>,
    /// With --failed, list the exports, and repeat none
    #[arg(long, requires = "failed")]
    dry_run: bool,
}

impl Repeat {
    /// The export that the API repeats.
    pub fn api_prefix(&self) -> Result<&str, UsageError> {
        let needs_database = || UsageError("--failed needs the database: add --key \"\"".into());
        self.prefix.as_deref().ok_or_else(needs_database)
    }
}

/// Requests an ended export again, with the same request, and prints how to see its status with the
/// `options` of this command. Or requests all failed exports again.
pub async fn repeat(app: &App, arguments: Repeat, options: &str, json: bool) -> CommandResult {
    let Some(prefix) = &arguments.prefix else {
        let repeated = repeat_failed(app, &arguments, json).await;
        app.store.wake().flush().await;
        return repeated;
    };
    let export = retry::while_busy(async || repeat_once(app, prefix, false).await).await?;
    app.store.wake().flush().await;
    let export = export.ok_or_else(|| unknown(prefix))?;
    if json {
        println!("{}", serde_json::to_string(&export)?);
    } else {
        print_repeated(&export.job.object_prefix, options);
    }
    Ok(())
}

/// Repeats all failed exports that it can, prints the errors of the others, and fails if there are
/// any.
async fn repeat_failed(app: &App, arguments: &Repeat, json: bool) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let now = app.database_now(&mut tx).await?;
    let workspace = find_named(&mut tx, arguments.workspace.as_deref()).await?;
    let since = arguments.since.map_or(now, |since| since.at(now));
    if now.saturating_sub(since) > KEEP_DAYS * 86_400_000 {
        return Err(UsageError(format!("--since must be within {KEEP_DAYS} days")).into());
    }
    let workspace = workspace.map(|workspace| workspace.id);
    let failed = repeat::failed_since(&app.gateway, &mut tx, workspace, since).await?;
    drop(tx);
    if arguments.dry_run || failed.is_empty() && !json {
        return table::print(json, "exports", HEADERS, &failed, |export| row(export, now));
    }
    let mut results = Results::new(json);
    for former in &failed {
        let prefix = &former.job.object_prefix;
        match retry::while_busy(async || repeat_once(app, prefix, true).await).await {
            Ok(Some(ListedExport { workspace, job: Job { object_prefix, .. }, .. })) => results
                .done(
                    &format!(
                        "{prefix} of the workspace {workspace} is repeated as {object_prefix}"
                    ),
                    json!({
                        "object_prefix": object_prefix, "repeats": prefix, "workspace": workspace,
                    }),
                ),
            // Another command was faster.
            Ok(None) => {}
            Err(error) => results.failed(&format!("longshore: {error}"), prefix, &error),
        }
    }
    results.end("repeated", "were not repeated")
}

/// Creates the new export, with its entry in the audit log. None if `only_failed`, and somebody has
/// repeated the former one.
async fn repeat_once(
    app: &App,
    prefix: &str,
    only_failed: bool,
) -> CommandResult<Option<ListedExport>> {
    let mut tx = app.store.write().await?;
    let former = rows::by_prefix(&mut tx, prefix).await?.ok_or_else(|| unknown(prefix))?;
    if only_failed && !repeat::lock_unrepeated(&mut tx, &former).await? {
        return Ok(None);
    }
    let request_id = Uuid::now_v7().to_string();
    let repeated = create::create_again(&app.gateway, &mut tx, former, request_id).await;
    let repeated = repeated.map_err(|error| api_error(prefix, error))?;
    let workspace = Some(repeated.job.workspace_id);
    audit::record_change(&mut tx, app, workspace, repeated.change()).await?;
    let new_prefix = &repeated.job.object_prefix;
    let export = overview::by_prefix(&app.gateway, &mut tx, new_prefix).await?;
    let export = export.ok_or_else(|| unknown(new_prefix))?;
    tx.commit().await?;
    Ok(Some(export))
}

fn unknown(prefix: &str) -> String {
    format!("no export in this installation has the object_prefix {prefix}")
}
