//! `longshore segments`: the segments of a workspace, their size, and some of their users.

use clap::Subcommand;
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use super::{CommandResult, PageArguments, WorkspaceArgument, ids, table};
use crate::app::App;
use crate::config::Config;
use crate::exports::dry_run::{count_segment, sample_segment};
use crate::users::find::{self, FindError};
use crate::users::rows::{For, find_users};
use crate::workspaces::{Segment, Workspace, segments};
use kit::json::ObjectText;
use kit::words::grouped;
use store::Tx;

/// List segments, count their users, and show some of them.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  longshore segments list
  longshore segments count Berlin
  longshore segments sample Berlin --limit 5")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the segments of a workspace, by name
    #[command(after_help = "Example:\n  longshore segments list --workspace acme --json")]
    List(List),
    /// Count the users of a segment; in a large workspace, estimate them from a sample
    #[command(after_help = "Examples:
  longshore segments count Berlin --json
  longshore segments count Berlin --exact")]
    Count(Count),
    /// Show some users of a segment, chosen at random
    ///
    /// Searches a sample of the workspace's users: all of them in a small workspace. With --json,
    /// prints the whole records, in the format of `import`.
    #[command(after_help = "Example:\n  longshore segments sample Berlin --limit 5 --json")]
    Sample(Sample),
}

#[derive(clap::Args)]
struct Count {
    /// The id or the name of the segment
    #[arg(value_name = "SEGMENT")]
    segment: String,
    /// Read all users of the workspace instead of a sample: in a large one, this takes minutes
    #[arg(long)]
    exact: bool,
    #[command(flatten)]
    workspace: WorkspaceArgument,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Sample {
    /// The id or the name of the segment
    #[arg(value_name = "SEGMENT")]
    segment: String,
    /// Maximum number of users
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    limit: u32,
    #[command(flatten)]
    workspace: WorkspaceArgument,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct List {
    #[command(flatten)]
    workspace: WorkspaceArgument,
    #[command(flatten)]
    page: PageArguments,
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    let app = super::open(config).await?;
    match arguments.command {
        Command::List(arguments) => list(&app, arguments).await,
        Command::Count(arguments) => count(&app, arguments).await,
        Command::Sample(arguments) => sample(&app, arguments).await,
    }
}

async fn count(app: &App, Count { segment, exact, workspace, json }: Count) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let (workspace, segment) = find(&mut tx, &workspace, &segment).await?;
    drop(tx);
    let sample = if exact {
        count_segment(&app.exports, workspace.id, segment.id).await
    } else {
        sample_segment(&app.exports, workspace.id, segment.id, 0).await
    };
    let sample = sample.map_err(|error| error.message().into_owned())?;
    if json {
        let (id, name) = (&segment.id, &segment.name);
        println!("{}", json!({ "id": id, "name": name, "users": sample.users }));
        return Ok(());
    }
    let users = grouped(sample.users.estimated);
    let users = match sample.users.between {
        _ if sample.users.exact => format!("{users}  (counted)"),
        Some([low, high]) => {
            let (low, high) = (grouped(low), grouped(high));
            format!("{users}  (estimated): {low} to {high}, with 95% confidence")
        }
        None => format!("{users}  (estimated)"),
    };
    let fields = [
        ("id", table::text(segment.id)),
        ("name", table::text(&segment.name)),
        ("users", table::text(users)),
    ];
    print!("{}", table::fields(fields));
    Ok(())
}

/// A user in a sample.
#[derive(Serialize)]
struct Row {
    service_id: Uuid,
    external_id: Option<String>,
    email: Option<String>,
}

async fn sample(app: &App, arguments: Sample) -> CommandResult {
    let Sample { segment, limit, workspace, json } = arguments;
    let mut tx = app.store.snapshot().await?;
    let (workspace, segment) = find(&mut tx, &workspace, &segment).await?;
    drop(tx);
    let sample = sample_segment(&app.exports, workspace.id, segment.id, limit as usize).await;
    let ids = sample.map_err(|error| error.message().into_owned())?.service_ids;
    if json {
        for id in ids {
            match find::show(&app.store, &app.clock, &workspace, id).await {
                Ok(record) => println!("{record}"),
                // Erased since.
                Err(FindError::NotFound(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        return Ok(());
    }
    let mut tx = app.store.snapshot().await?;
    let users = find_users(&mut tx, workspace.id, &ids, For::ReadingKeys).await?;
    let users: Vec<Row> = users
        .into_iter()
        .map(|user| Row {
            service_id: user.service_id,
            external_id: user.external_id,
            email: user.email,
        })
        .collect();
    table::print(false, "users", ["SERVICE ID", "EXTERNAL ID", "EMAIL"], &users, |user| {
        [
            table::text(user.service_id),
            table::optional(user.external_id.as_ref().map(table::text)),
            table::optional(user.email.as_ref().map(table::text)),
        ]
    })
}

/// A segment in the list.
#[derive(Serialize)]
struct ListedSegment {
    id: Uuid,
    name: String,
    audience: ObjectText,
}

async fn list(app: &App, List { workspace, page }: List) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let workspace = workspace.find(&mut tx).await?;
    let segments = segments::segments(&mut tx, workspace.id).await?;
    let segments: Vec<ListedSegment> = segments
        .into_iter()
        .map(|Segment { id, name, audience }| ListedSegment { id, name, audience })
        .collect();
    let id = |segment: &ListedSegment| segment.id.to_string();
    page.print("segments", ["ID", "NAME"], &segments, id, |segment| {
        [table::text(segment.id), table::text(&segment.name)]
    })
}

/// The workspace, and its segment with an id or a name.
pub async fn find(
    tx: &mut Tx,
    workspace: &WorkspaceArgument,
    text: &str,
) -> CommandResult<(Workspace, Segment)> {
    let found = workspace.find(tx).await?;
    let all = segments::segments(tx, found.id).await?;
    let list = workspace.command("segments list");
    let segment =
        ids::find(all, text, ("segment", &list), |segment| (segment.id, segment.name.as_str()))?;
    Ok((found, segment))
}
