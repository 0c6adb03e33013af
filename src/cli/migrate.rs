//! `longshore migrate`.

use std::time::{Duration, Instant};

use super::CommandResult;
use super::progress::{self, Unit};
use crate::app::{App, OpenError};
use crate::config::Config;
use crate::setup::{self, SetupError};
use crate::users::{SLICES, phones};
use kit::retry::Retry;
use store::{StoreError, inspect};

/// How long to wait for a database or a log that is starting.
const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(clap::Args)]
#[command(
    after_help = "Safe to run again, from many processes at the same time, and while gateways and workers of the
previous version run. On a database that a newer version has migrated, it changes nothing and reports
whether this version still works with it. To encrypt the stored secrets again with a new
LONGSHORE_SECRET_KEY, set LONGSHORE_SECRET_KEY_OLD to the previous one.

Example:
  $ longshore migrate
  the database and the log are at this version"
)]
pub struct Arguments {}

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

pub async fn run(config: Config, _arguments: Arguments) -> CommandResult {
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
    if result.schema.is_newer() {
        println!("the database is {}: there is nothing to migrate", result.schema);
    } else {
        println!("the database and the log are at this version");
    }
    if let Some(note) = result.note {
        eprintln!("longshore: {note}");
    }
    if result.rotated {
        println!("the stored secrets are now encrypted with the new LONGSHORE_SECRET_KEY");
    }
    Ok(())
}

async fn migrate(config: &Config) -> Result<setup::SetupResult, MigrateError> {
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
