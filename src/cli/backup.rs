//! `longshore backup`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{CommandResult, retry, standalone};
use crate::app;
use crate::config::Config;
use crate::setup::restore::{self, Restored, RestoredLog};
use kit::clock::{Clock, format_time, from_ms};
use kit::words::count;
use runtime::{audit, backups};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  $ pg_dump --format=custom --file=longshore.dump \"$LONGSHORE_DATABASE_URL\" && longshore backup record
  $ longshore backup restore /backup/20261122T030000Z")]
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
    Record {
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
    /// Restore a backup of standalone into the data directory, while standalone is stopped
    ///
    /// Replaces the store, and keeps the log of the data directory, which has what was accepted
    /// after the backup: it is applied again at the next start. If that log does not continue the
    /// backup, the command changes nothing and shows why. It sets replaced files aside.
    #[command(after_help = "\
Example:
  $ LONGSHORE_DATA=/var/lib/longshore longshore backup restore /backup/20261122T030000Z")]
    Restore(Restore),
}

#[derive(clap::Args)]
struct Restore {
    /// The folder of the backup
    folder: PathBuf,
    /// Replace a log that does not continue the backup with the log of the backup; what was
    /// accepted after the backup is lost
    #[arg(long)]
    replace_log: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    match arguments.command {
        Command::Record { json } => record(config, json).await,
        Command::Restore(arguments) => restore(&config, &arguments).await,
    }
}

async fn record(config: Config, is_json: bool) -> CommandResult {
    let app = super::open(config).await?;
    let recorded = retry::while_busy(async || {
        let mut tx = app.store.write().await?;
        let at = backups::record(&mut tx).await?;
        tx.commit().await?;
        Ok(at)
    });
    let at = recorded.await?;
    if is_json {
        println!("{}", json!({ "recorded_at": format_time(at) }));
    } else {
        println!("backup recorded at {}", from_ms(at));
    }
    Ok(())
}

/// Records a restore in the restored store.
async fn record_restore(config: &Config, folder: &Path, replace_log: bool) -> CommandResult {
    let store = app::connect(config).await?;
    let mut tx = store.write().await?;
    let details = json!({ "replace_log": replace_log });
    let change = ("backup.restore", folder.display().to_string());
    let now = Clock::system().now_ms();
    audit::record_command(&mut tx, now, None, change, details).await?;
    tx.commit().await?;
    store.close().await;
    Ok(())
}

async fn restore(config: &Config, arguments: &Restore) -> CommandResult {
    let Restore { folder, replace_log, json } = arguments;
    let _lock = standalone::lock(&config.data)?;
    let time = Clock::system().now().strftime("%Y%m%dT%H%M%SZ").to_string();
    let restored = restore::restore(config, folder, *replace_log, time).await?;
    if let Err(error) = record_restore(config, folder, *replace_log).await {
        // As after a backup of a release without the log.
        eprintln!("longshore: the restore is not in the audit log: {error}");
    }
    if *json {
        println!("{}", as_json(folder, &restored));
    } else {
        print(config, folder, &restored);
    }
    eprintln!(
        "before you start standalone: revoke again what was revoked after the backup (`longshore \
         key revoke --from FILE`), and decide about messages that would be sent again"
    );
    Ok(())
}

fn as_json(folder: &Path, restored: &Restored) -> Value {
    let (log, messages) = match restored.log {
        RestoredLog::Kept(messages) => ("kept", messages),
        RestoredLog::FromBackup(messages) => ("from_backup", messages),
    };
    let files = restored.set_aside.iter().map(|file| file.display().to_string());
    json!({
        "backup": folder.display().to_string(),
        "log": log,
        // Those that the next start applies.
        "messages": messages.unsigned_abs(),
        "set_aside": files.collect::<Vec<_>>(),
    })
}

fn print(config: &Config, folder: &Path, restored: &Restored) {
    println!("restored the store of {}", folder.display());
    match restored.log {
        RestoredLog::Kept(messages) => println!(
            "kept the log of {}: the next start applies {} after the backup",
            config.data.display(),
            count(messages.unsigned_abs(), "message")
        ),
        RestoredLog::FromBackup(messages) => println!(
            "restored the log of the backup, too: the next start applies {} of it",
            count(messages.unsigned_abs(), "message")
        ),
    }
    for file in &restored.set_aside {
        println!("set aside {}", file.display());
    }
}
