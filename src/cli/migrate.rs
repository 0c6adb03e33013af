//! `longshore migrate`.

use std::time::{Duration, Instant};

use super::CommandResult;
use crate::app::{App, OpenError};
use crate::config::Config;
use crate::setup::{self, SetupError};
use kit::retry::Retry;
use store::{StoreError, inspect};

/// How long a database or a log that is just being started is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(clap::Args)]
#[command(after_help = "\
Safe to run again, from many processes at once, and beside running gateways and workers of the
version before. On a database that a newer version has brought further it does nothing, and says
whether this version still runs on it. Give LONGSHORE_SECRET_KEY_OLD beside a new
LONGSHORE_SECRET_KEY, and the stored secrets are sealed anew.

Example:
  $ longshore migrate
  the database and the log are at this version")]
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
    let done = loop {
        match migrate(&config).await {
            Ok(done) => break done,
            Err(error) if error.can_retry() && started.elapsed() < PATIENCE => {
                eprintln!("longshore: {error}; trying again");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Err(error) => return Err(error.into()),
        }
    };
    match done.schema.is_newer() {
        false => println!("the database and the log are at this version"),
        true => println!("the database is {}: there is nothing to migrate", done.schema),
    }
    if let Some(note) = done.note {
        eprintln!("longshore: {note}");
    }
    if done.rotated {
        println!("the stored secrets are sealed with the new LONGSHORE_SECRET_KEY");
    }
    Ok(())
}

async fn migrate(config: &Config) -> Result<setup::Done, MigrateError> {
    // A plain connection first: its error says more than that of a pool.
    inspect::reach(&config.database_url()).await?;
    let app = App::open(config.clone()).await?;
    Ok(setup::run(&app).await?)
}
