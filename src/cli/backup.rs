//! `longshore backup`.

use super::CommandResult;
use crate::config::Config;
use crate::telemetry::fleet;
use kit::clock::from_ms;

#[derive(clap::Args)]
#[command(after_help = "\
Example:
  $ pg_dump --format=custom --file=longshore.dump \"$LONGSHORE_DATABASE_URL\" && longshore backup record")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Record that a backup has just completed
    ///
    /// Run it after each successful backup. The time is stored in the database and shown by the
    /// metric longshore_backup_last_success_timestamp_seconds. Alerts fire if it is too long ago.
    #[command(after_help = "Example:\n  $ longshore backup record")]
    Record,
}

pub async fn run(
    config: Config,
    Arguments { command: Command::Record }: Arguments,
) -> CommandResult {
    let app = super::open(config).await?;
    let mut tx = app.store.write().await?;
    let at = fleet::record_backup(&mut tx).await?;
    tx.commit().await?;
    println!("backup recorded at {}", from_ms(at));
    Ok(())
}
