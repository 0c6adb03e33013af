//! `longshore migrate`.

use std::time::{Duration, Instant};

use super::CommandResult;
use super::progress::{self, Unit};
use crate::app::{App, OpenError};
use crate::config::Config;
use crate::setup::migrations::MIGRATIONS;
use crate::setup::{self, SetupError, SetupResult, Upgrade};
use crate::users::{SLICES, phones};
use kit::retry::Retry;
use serde_json::{Value, json};
use store::migrate::{Pending, Schema};
use store::{StoreError, inspect};

/// How long to wait for a database or a log that is starting.
const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(clap::Args)]
#[command(
    after_help = "Safe to run again, from many processes at the same time, and while gateways and workers of the
previous version run. On a database that a newer version has migrated, it changes nothing and reports
whether this version still works with it. To encrypt the stored secrets again with a new
LONGSHORE_SECRET_KEY, set LONGSHORE_SECRET_KEY_OLD to the previous one.

Examples:
  $ longshore migrate --check
  the database is at schema 15, this version needs 17; `longshore migrate` adds:
    0016 named storages
    0017 notifications
  programs of the previous version continue to run
  $ longshore migrate
  the database and the log are at this version"
)]
pub struct Arguments {
    /// Show what would change, and whether it can; change nothing
    #[arg(long)]
    check: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, thiserror::Error)]
enum MigrateError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Setup(#[from] SetupError),
}

impl Retry for MigrateError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Open(error) => error.can_retry(),
            Self::Store(error) => error.can_retry(),
            Self::Setup(error) => error.can_retry(),
        }
    }
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    if arguments.check {
        return check(config, arguments.json).await;
    }
    let started = Instant::now();
    let result = loop {
        match migrate(&config).await {
            Ok(result) => break result,
            Err(error) if error.can_retry() && started.elapsed() < TIMEOUT => {
                eprintln!("longshore: {error}; retrying");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Err(error) => return Err(error.into()),
        }
    };
    if let Some(note) = &result.note {
        eprintln!("longshore: {note}");
    }
    if arguments.json {
        let SetupResult { schema, rotated, .. } = result;
        println!(
            "{}",
            json!({"schema": schema.at, "own_schema": schema.own, "rotated_secrets": rotated})
        );
        return Ok(());
    }
    if result.schema.is_newer() {
        println!("the database is {}: there is nothing to migrate", result.schema);
    } else {
        println!("the database and the log are at this version");
    }
    if result.rotated {
        println!("the stored secrets are now encrypted with the new LONGSHORE_SECRET_KEY");
    }
    Ok(())
}

/// Fails if `longshore migrate` would.
async fn check(config: Config, json: bool) -> CommandResult {
    let upgrade = match config.missing_installation() {
        Some(missing) => upgrade_without_files(&config, missing).await?,
        None => {
            inspect::inspect_server(&config.database_url()).await?;
            let app = App::open(config).await?;
            let upgrade = setup::upgrade(&app).await;
            app.log.close().await;
            upgrade?
        }
    };
    let Upgrade { pending, rotates_secrets, log_problems } = upgrade;
    let Pending { schema, steps, stops_older_programs } = pending;
    if json {
        let steps: Vec<Value> = steps
            .iter()
            .map(|(version, name)| json!({ "version": version, "name": name }))
            .collect();
        let object = json!({
            "schema": schema.at,
            "own_schema": schema.own,
            "steps": steps,
            "stops_older_programs": stops_older_programs,
            "rotates_secrets": rotates_secrets,
            "log": log_problems,
        });
        println!("{object}");
        return Ok(());
    }
    if schema.is_newer() {
        println!("the database is {schema}: there is nothing to migrate");
    } else if schema.at == 0 {
        println!(
            "there is no installation yet: `longshore migrate` creates the database and the log"
        );
    } else if steps.is_empty() {
        println!("the database is {schema}");
    } else {
        let Schema { at, own, .. } = schema;
        println!(
            "the database is at schema {at}, this version needs {own}; `longshore migrate` adds:"
        );
        for (version, name) in &steps {
            println!("  {version:04} {name}");
        }
        if stops_older_programs {
            println!("programs of previous versions stop: upgrade them all at once");
        } else {
            println!("programs of the previous version continue to run");
        }
    }
    if rotates_secrets {
        println!("the stored secrets would be encrypted with the new LONGSHORE_SECRET_KEY");
    }
    log_problems.iter().for_each(|problem| println!("log: {problem}"));
    Ok(())
}

/// What `longshore migrate` would do without the files of an installation, which opening them would
/// create. `missing` is the error if only some of them are missing.
async fn upgrade_without_files(config: &Config, missing: String) -> CommandResult<Upgrade> {
    let pending = if config.database_file().is_some() {
        MIGRATIONS.pending_without_database()
    } else {
        inspect::inspect_server(&config.database_url()).await?;
        let store = crate::app::connect(config).await?;
        let pending = MIGRATIONS.pending(&store).await;
        store.close().await;
        pending?
    };
    if pending.schema.at > 0 {
        return Err(missing.into());
    }
    let log_problems = if config.log.url == "embedded" {
        Vec::new()
    } else {
        let log = crate::app::open_log(config).await?;
        let problems = log.check(None).await;
        log.close().await;
        problems?
    };
    Ok(Upgrade { pending, rotates_secrets: false, log_problems })
}

async fn migrate(config: &Config) -> Result<SetupResult, MigrateError> {
    // A plain connection first: its error is clearer than that of a pool.
    inspect::inspect_server(&config.database_url()).await?;
    let app = App::open(config.clone()).await?;
    let result = setup::run(&app).await?;
    if !result.schema.is_newer() {
        let mut bar = progress::Progress::begin(Unit::Users);
        let report = |phones::Progress { slice, users }| {
            let work = format!("recording phone numbers, group {} of {SLICES}", slice + 1);
            bar.update(&work, users, None);
        };
        phones::record(&app.store, report).await?;
    }
    Ok(result)
}
