//! `longshore control-group`.

use serde_json::json;
use uuid::Uuid;

use super::audit;
use super::confirm::Consent;
use super::ids::group_id;
use super::{CommandResult, WorkspaceArgument, retry, table};
use crate::app::App;
use crate::config::Config;
use crate::workspace_file::apply::large_group_note;
use crate::workspaces::groups::{self, ControlGroup};
use crate::workspaces::{Workspace, control_group};
use kit::clock::format_seconds;
use kit::words::{count, grouped};
use store::Tx;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  $ longshore control-group show
  $ longshore control-group renew --percent 10")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Show the active group: segment id, percentage, buckets, current users
    #[command(after_help = "Example:\n  $ longshore control-group show --workspace acme --json")]
    Show(Show),
    /// List the groups that the workspace has and had, latest first
    #[command(after_help = "Example:\n  $ longshore control-group list --workspace acme")]
    List(Show),
    /// Create a new group of randomly chosen users with a new segment id, and activate it
    ///
    /// Asks on a terminal. The former group is kept: `control-group activate` makes it the active
    /// one again.
    #[command(after_help = "Examples:
  $ longshore control-group renew --percent 10 --dry-run
  $ longshore control-group renew --percent 10")]
    Renew(Renew),
    /// Activate a former group again, with its segment id and users, such as after a wrong renew
    #[command(after_help = "Example:
  $ longshore control-group activate 3c9f0a52-8f1e-4c57-9a3e-0d5b1c2e7f60")]
    Activate(Activate),
}

#[derive(clap::Args)]
struct Show {
    #[command(flatten)]
    workspace: WorkspaceArgument,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Renew {
    /// Percentage of the users, a whole number; usually 1 to 15
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..=100))]
    percent: i32,
    #[command(flatten)]
    workspace: WorkspaceArgument,
    #[command(flatten)]
    consent: Consent,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Activate {
    /// The segment id of the group, as `list` shows it
    #[arg(value_parser = group_id)]
    segment_id: Uuid,
    #[command(flatten)]
    workspace: WorkspaceArgument,
    #[command(flatten)]
    consent: Consent,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    let app = super::open(config).await?;
    match arguments.command {
        Command::Show(arguments) => show(&app, arguments).await,
        Command::List(arguments) => list(&app, arguments).await,
        Command::Renew(arguments) => renew(&app, arguments).await,
        Command::Activate(arguments) => activate(&app, arguments).await,
    }
}

async fn show(app: &App, arguments: Show) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let workspace = arguments.workspace.find(&mut tx).await?;
    let group = control_group(&mut tx, workspace.id).await?.ok_or_else(|| {
        format!(
            "workspace {} has no control group: declare control_group in its file, or run \
             `longshore control-group renew --percent P`",
            workspace.name
        )
    })?;
    let users = groups::users(&mut tx, workspace.id, &group).await?;
    tx.commit().await?;
    print(&workspace, &group, users, arguments.json)
}

async fn renew(app: &App, arguments: Renew) -> CommandResult {
    let Renew { percent, workspace, consent, json } = arguments;
    let note = large_group_note(percent);
    if consent.needs_effects() {
        let mut tx = app.store.snapshot().await?;
        let workspace = workspace.find(&mut tx).await?;
        let mut effects = former_group(&mut tx, &workspace).await?;
        let all = groups::all_users(&mut tx, workspace.id).await?;
        effects.push(format!(
            "the new group will have {percent}%, about {} of {}, chosen at random, and a new \
             segment id",
            share(all, percent),
            count(all.unsigned_abs(), "user")
        ));
        effects.extend(note.clone());
        drop(tx);
        if !consent.is_given(json, &effects)? {
            return Ok(());
        }
    }
    let renewed = retry::while_busy(async || {
        let mut tx = app.store.write().await?;
        let workspace = workspace.find(&mut tx).await?;
        let former = control_group(&mut tx, workspace.id).await?;
        let group = groups::renew(&mut tx, workspace.id, percent, app.clock.now_ms()).await?;
        let groups = (former.as_ref(), &group);
        record(&mut tx, app, &workspace, "control_group.renew", groups).await?;
        tx.commit().await?;
        Ok((workspace, former, group))
    });
    let (workspace, former, group) = renewed.await?;
    changed(app, &workspace, &group, json).await?;
    note.iter().for_each(|note| eprintln!("{note}"));
    if let Some(ControlGroup { segment_id, .. }) = former {
        let name = &workspace.name;
        eprintln!("to undo it: longshore control-group activate {segment_id} --workspace {name}");
    }
    Ok(())
}

async fn activate(app: &App, arguments: Activate) -> CommandResult {
    let Activate { segment_id, workspace, consent, json } = arguments;
    if consent.needs_effects() {
        let mut tx = app.store.snapshot().await?;
        let workspace = workspace.find(&mut tx).await?;
        let known = groups::known_groups(&mut tx, workspace.id).await?;
        let known = known.into_iter().find(|known| known.segment_id == segment_id);
        let known = known.ok_or_else(|| unknown(segment_id, &workspace))?;
        let effects = if known.active {
            vec![format!("{segment_id} is already active: nothing changes")]
        } else {
            let created = format_seconds(known.created_at);
            let again = format!(
                "{segment_id} ({}%, created {created}) will be active again",
                known.percent
            );
            [former_group(&mut tx, &workspace).await?, vec![again]].concat()
        };
        drop(tx);
        if !consent.is_given(json, &effects)? {
            return Ok(());
        }
    }
    let activated = retry::while_busy(async || {
        let mut tx = app.store.write().await?;
        let workspace = workspace.find(&mut tx).await?;
        let former = control_group(&mut tx, workspace.id).await?;
        let group = groups::activate(&mut tx, workspace.id, segment_id).await?;
        let group = group.ok_or_else(|| unknown(segment_id, &workspace))?;
        let groups = (former.as_ref(), &group);
        record(&mut tx, app, &workspace, "control_group.activate", groups).await?;
        tx.commit().await?;
        Ok((workspace, group))
    });
    let (workspace, group) = activated.await?;
    changed(app, &workspace, &group, json).await
}

/// Writes the change from one group to another into the audit log.
async fn record(
    tx: &mut Tx,
    app: &App,
    workspace: &Workspace,
    action: &'static str,
    (former, new): (Option<&ControlGroup>, &ControlGroup),
) -> CommandResult {
    let state =
        |group: &ControlGroup| json!({ "segment_id": group.segment_id, "percent": group.percent });
    let details = json!({ "before": former.map(state), "after": state(new) });
    let change = (action, new.segment_id.to_string());
    audit::record(tx, app, Some(workspace.id), change, details).await
}

fn unknown(segment_id: Uuid, workspace: &Workspace) -> String {
    let name = &workspace.name;
    format!(
        "workspace {name} never had the control group {segment_id}: see `longshore control-group \
         list --workspace {name}`"
    )
}

/// What happens to the active group, if there is one.
async fn former_group(tx: &mut Tx, workspace: &Workspace) -> CommandResult<Vec<String>> {
    let Some(group) = control_group(tx, workspace.id).await? else {
        return Ok(vec![format!("workspace {} has no control group yet", workspace.name)]);
    };
    let users = groups::users(tx, workspace.id, &group).await?;
    let ControlGroup { segment_id, percent, .. } = group;
    let users = count(users.unsigned_abs(), "user");
    Ok(vec![
        format!(
            "the control group {segment_id} of workspace {} ({percent}%, {users}) will no longer \
             be active: campaigns will reach its users again, and new exports will have the users \
             of the other group",
            workspace.name
        ),
        "exports that were requested before will continue with it".to_owned(),
    ])
}

/// A percentage of the users, with thousands separators.
fn share(users: i64, percent: i32) -> String {
    grouped((i128::from(users) * i128::from(percent) + 50) / 100)
}

/// Prints the group that is active now.
async fn changed(
    app: &App,
    workspace: &Workspace,
    group: &ControlGroup,
    json: bool,
) -> CommandResult {
    // Counted afterwards, so that no other transaction waits for it.
    let mut tx = app.store.snapshot().await?;
    let users = groups::users(&mut tx, workspace.id, group).await?;
    tx.commit().await?;
    print(workspace, group, users, json)?;
    eprintln!(
        "if the workspace file declares control_group, change its percent to {}",
        group.percent
    );
    Ok(())
}

async fn list(app: &App, arguments: Show) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let workspace = arguments.workspace.find(&mut tx).await?;
    let known = groups::known_groups(&mut tx, workspace.id).await?;
    let headers = ["SEGMENT ID", "PERCENT", "STATE", "CREATED"];
    table::print(arguments.json, "control groups", headers, &known, |known| {
        [
            table::text(known.segment_id),
            table::number(known.percent),
            table::optional(known.active.then(|| table::state("active"))),
            table::time(known.created_at),
        ]
    })
}

/// The slices as ranges of buckets; adjacent ones are one range.
fn buckets(slices: &[i16]) -> String {
    let runs = slices.chunk_by(|slice, next| slice + 1 == *next);
    let ranges = runs.filter_map(|run| {
        let (first, last) = (run.first()?, run.last()?);
        Some(format!("{}-{}", first * 100, last * 100 + 99))
    });
    ranges.collect::<Vec<_>>().join(", ")
}

fn print(workspace: &Workspace, group: &ControlGroup, users: i64, json: bool) -> CommandResult {
    let object = json!({
        "workspace": workspace.name,
        "segment_id": group.segment_id,
        "percent": group.percent,
        "slices": group.slices,
        "users": users,
    });
    table::print_object(json, &object, |_| {
        [
            ("workspace", table::text(&workspace.name)),
            ("segment id", table::text(group.segment_id)),
            ("percent", table::number(group.percent)),
            ("buckets", table::text(buckets(&group.slices))),
            ("users", table::number(users)),
        ]
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_share_is_rounded() {
        assert_eq!(super::share(1_990, 10), "199");
        assert_eq!(super::share(19_999, 50), "10,000");
        assert_eq!(super::share(1, 1), "0");
        assert_eq!(super::share(0, 100), "0");
    }

    #[test]
    fn adjoining_slices_are_one_range() {
        let all: Vec<i16> = (0..100).collect();
        assert_eq!(super::buckets(&all), "0-9999");
        assert_eq!(super::buckets(&[3, 7, 8, 99]), "300-399, 700-899, 9900-9999");
    }
}
