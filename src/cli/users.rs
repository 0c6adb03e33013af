//! `longshore users`: shows or erases one user.

use super::{CommandResult, WorkspaceArgument, print};
use crate::app::App;
use crate::config::Config;
use crate::erase;
use crate::users::find;
use crate::users::record;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  longshore users show ann@acme.example
  longshore users delete customer-17 customer-18")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Show one user's stored record
    #[command(after_help = "Example:\n  longshore users show ann@acme.example")]
    Show {
        /// An external_id, a service_id or an email
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        workspace: WorkspaceArgument,
        /// Print one line of JSON, in the format of `import`
        #[arg(long)]
        json: bool,
    },
    /// Erase users with all their data
    #[command(after_help = "Example:\n  longshore users delete customer-17 customer-18")]
    Delete {
        /// External_ids, service_ids or emails
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
        #[command(flatten)]
        workspace: WorkspaceArgument,
        /// Print one JSON object per line: erased or not, and why
        #[arg(long)]
        json: bool,
    },
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    let app = super::open(config).await?;
    match arguments.command {
        Command::Show { id, workspace, json } => show(&app, &workspace, &id, json).await,
        Command::Delete { ids, workspace, json } => delete(&app, &workspace, &ids, json).await,
    }
}

async fn show(app: &App, workspace: &WorkspaceArgument, id: &str, json: bool) -> CommandResult {
    let workspace = workspace.find(&mut app.store.snapshot().await?).await?;
    let shown = find::show(&app.store, &app.clock, &workspace, id).await?;
    println!("{}", if json { shown } else { record::pretty(&shown) });
    Ok(())
}

async fn delete(
    app: &App,
    workspace: &WorkspaceArgument,
    ids: &[String],
    json: bool,
) -> CommandResult {
    let workspace = workspace.find(&mut app.store.snapshot().await?).await?;
    let (mut erased, mut failed) = (Vec::new(), Vec::new());
    for id in ids {
        match erase::erase(&app.store, &workspace, id).await {
            Ok(service_id) => {
                if !json {
                    println!("erased {id} ({service_id})");
                }
                erased.push(service_id);
            }
            Err(error) => {
                if !json {
                    eprintln!("not erased: {error}");
                }
                failed.push(serde_json::json!({"id": id, "reason": error.to_string()}));
            }
        }
    }
    if json {
        println!("{}", serde_json::json!({"erased": erased, "failed": failed}));
    }
    print::all_done(failed.len(), ids.len(), "were not erased")
}
