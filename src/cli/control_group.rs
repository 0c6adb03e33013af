//! `longshore control-group`.

use serde_json::json;

use super::{CommandResult, WorkspaceArgument};
use crate::app::App;
use crate::config::Config;
use crate::workspace_file::apply::large_group_note;
use crate::workspaces::groups::{self, ControlGroup};
use crate::workspaces::{Workspace, control_group};

#[derive(clap::Args)]
#[command(after_help = "\
Example:
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
    /// Create a new group of randomly chosen users with a new segment id, and activate it
    #[command(after_help = "Example:\n  $ longshore control-group renew --percent 10")]
    Renew(Renew),
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
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    let app = super::open(config).await?;
    match arguments.command {
        Command::Show(arguments) => show(&app, arguments).await,
        Command::Renew(arguments) => renew(&app, arguments).await,
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
    print(&workspace, &group, users, arguments.json);
    Ok(())
}

async fn renew(app: &App, arguments: Renew) -> CommandResult {
    let mut tx = app.store.write().await?;
    let workspace = arguments.workspace.find(&mut tx).await?;
    let now = app.clock.now_ms();
    let group = groups::renew(&mut tx, workspace.id, arguments.percent, now).await?;
    tx.commit().await?;
    // Counted afterwards, so that no other transaction waits for it.
    let mut tx = app.store.snapshot().await?;
    let users = groups::users(&mut tx, workspace.id, &group).await?;
    tx.commit().await?;
    print(&workspace, &group, users, arguments.json);
    if let Some(note) = large_group_note(arguments.percent) {
        eprintln!("{note}");
    }
    eprintln!(
        "if the workspace file declares control_group, change its percent to {}",
        group.percent
    );
    Ok(())
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

fn print(workspace: &Workspace, group: &ControlGroup, users: i64, json: bool) {
    if json {
        let line = json!({
            "workspace": workspace.name,
            "segment_id": group.segment_id,
            "percent": group.percent,
            "slices": group.slices,
            "users": users,
        });
        println!("{line}");
        return;
    }
    println!("workspace   {}", workspace.name);
    println!("segment id  {}", group.segment_id);
    println!("percent     {}", group.percent);
    println!("buckets     {}", buckets(&group.slices));
    println!("users       {users}");
}

#[cfg(test)]
mod tests {
    #[test]
    fn adjoining_slices_are_one_range() {
        let all: Vec<i16> = (0..100).collect();
        assert_eq!(super::buckets(&all), "0-9999");
        assert_eq!(super::buckets(&[3, 7, 8, 99]), "300-399, 700-899, 9900-9999");
    }
}
