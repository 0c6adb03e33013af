//! Migrates an installation to this version, and checks at each start that this program may run on
//! it.

pub mod fixed;
pub mod migrations;
pub mod restore;

use self::fixed::{FixedError, Sealed};
use self::migrations::MIGRATIONS;
use crate::app::App;
use gateway::workspaces::storage::{self, StorageError};
use kit::retry::Retry;
use log::LogError;
use store::StoreError;
use store::migrate::{Pending, Schema};

#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Fixed(#[from] FixedError),
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(transparent)]
    Log(#[from] LogError),
    /// This program does not know every secret in the schema of a newer one.
    #[error(
        "only the newest version can rotate the secret key: run `longshore migrate` of the \
         version with schema {0}, with both keys"
    )]
    Rotation(i64),
}

impl Retry for SetupError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Store(error) => error.can_retry(),
            Self::Fixed(error) => error.can_retry(),
            Self::Storage(error) => error.can_retry(),
            Self::Log(error) => error.can_retry(),
            Self::Rotation(_) => false,
        }
    }
}

/// What [`run`] did, and found.
#[derive(Debug)]
pub struct SetupResult {
    /// This program's, or a newer one that it may run on.
    pub schema: Schema,
    /// The stored secrets were encrypted again, because the secret key was rotated.
    pub rotated: bool,
    /// A message for the operator about the log.
    pub note: Option<String>,
}

/// Migrates the database, stores the fixed settings at the first run, and creates the topics. Safe
/// to run repeatedly, and from many processes at the same time.
pub async fn run(app: &App) -> Result<SetupResult, SetupError> {
    let schema = MIGRATIONS.run(&app.store).await?;
    // Otherwise a number would be stored for ever that the topics do not have.
    if fixed::stored_partitions(&mut app.store.snapshot().await?).await?.is_none() {
        app.log.check_partitions().await?;
    }
    let mut tx = app.store.write().await?;
    fixed::fix_partitions(&mut tx, app.config.log.partitions).await?;
    let rotated = fixed::fix_secret_key(&mut tx, &app.secrets).await? == Sealed::Old;
    if rotated && schema.is_newer() {
        return Err(SetupError::Rotation(schema.at));
    }
    if rotated {
        storage::reseal(&mut tx, &app.secrets).await?;
        fixed::put_secret_key(&mut tx, &app.secrets).await?;
    }
    tx.commit().await?;
    let note = app.log.create_topics().await?;
    if let Some(note) = &note {
        tracing::warn!("{note}");
    }
    Ok(SetupResult { schema, rotated, note })
}

/// What [`run`] would change.
#[derive(Debug)]
pub struct Upgrade {
    pub pending: Pending,
    /// Whether the stored secrets would be encrypted again.
    pub rotates_secrets: bool,
    /// What is missing or wrong in the log; missing topics would be created.
    pub log_problems: Vec<String>,
}

/// Checks whether [`run`] can succeed, and what it would change. Changes nothing.
pub async fn upgrade(app: &App) -> Result<Upgrade, SetupError> {
    let pending = MIGRATIONS.pending(&app.store).await?;
    let (mut rotates_secrets, mut partitions) = (false, None);
    // An empty database has no values yet that must be kept.
    if pending.schema.at > 0 {
        let mut tx = app.store.snapshot().await?;
        fixed::check_partitions(&mut tx, app.config.log.partitions).await?;
        partitions = Some(app.config.log.partitions);
        rotates_secrets = fixed::check_secret_key(&mut tx, &app.secrets).await? == Sealed::Old;
        tx.commit().await?;
    }
    if rotates_secrets && pending.schema.is_newer() {
        return Err(SetupError::Rotation(pending.schema.at));
    }
    let log_problems = app.log.check(partitions).await?;
    Ok(Upgrade { pending, rotates_secrets, log_problems })
}

/// Rejects a schema that this program may not run on, and a partition count or secret key that
/// differs from this installation's; the error says what to run or to set. Sets up a new data
/// directory.
pub async fn check(app: &App) -> Result<Schema, SetupError> {
    if MIGRATIONS.is_new_directory(&app.store).await? {
        run(app).await?;
    }
    let schema = MIGRATIONS.check(&app.store).await?;
    let mut tx = app.store.snapshot().await?;
    fixed::check_partitions(&mut tx, app.config.log.partitions).await?;
    fixed::check_secret_key(&mut tx, &app.secrets).await?;
    tx.commit().await?;
    Ok(schema)
}
