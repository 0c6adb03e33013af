//! `longshore users`: one user's stored record; erasure with all that belongs to it.

use super::CommandResult;
use crate::clock::Clock;
use crate::config::Config;
use crate::store::{Store, migrate};
use crate::users::{Target, erase, record, target};

#[derive(clap::Args)]
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
        /// The workspace; may be left out where there is only one
        #[arg(long, value_name = "NAME")]
        workspace: Option<String>,
        /// One line of JSON, as `import` takes it
        #[arg(long)]
        json: bool,
    },
    /// Erase users with all that belongs to them
    #[command(after_help = "Example:\n  longshore users delete customer-17 customer-18")]
    Delete {
        /// External_ids, service_ids or emails
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
        /// The workspace; may be left out where there is only one
        #[arg(long, value_name = "NAME")]
        workspace: Option<String>,
        /// One line of JSON: who was erased and who was not, and why
        #[arg(long)]
        json: bool,
    },
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    let store = Store::connect(&config).await?;
    migrate::check(&store).await?;
    let result = match arguments.command {
        Command::Show { id, workspace, json } => {
            let target = target(&store, workspace.as_deref()).await?;
            show(&store, &target, &id, json).await
        }
        Command::Delete { ids, workspace, json } => {
            let target = target(&store, workspace.as_deref()).await?;
            delete(&store, &target, &ids, json).await
        }
    };
    store.close().await;
    result
}

async fn show(store: &Store, target: &Target, id: &str, json: bool) -> CommandResult {
    let shown = erase::show(store, &Clock::system(), target, id).await?;
    println!("{}", if json { shown } else { record::pretty(&shown) });
    Ok(())
}

async fn delete(store: &Store, target: &Target, ids: &[String], json: bool) -> CommandResult {
    let (mut erased, mut failed) = (Vec::new(), Vec::new());
    for id in ids {
        match erase::erase(store, target, id).await {
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
    match failed.len() {
        0 => Ok(()),
        failed => Err(format!("{failed} of {} were not erased", ids.len()).into()),
    }
}
