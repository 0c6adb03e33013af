//! Brings an installation to this version, and checks at a start that it is there.

use crate::app::App;
use crate::log::LogError;
use crate::retry::Retry;
use crate::store::settings::{self, Sealed, SettingsError};
use crate::store::{self, StoreError};
use crate::workspaces::storage::{self, StorageError};

#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(transparent)]
    Log(#[from] LogError),
}

impl Retry for SetupError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Store(error) => error.can_retry(),
            Self::Settings(error) => error.can_retry(),
            Self::Storage(error) => error.can_retry(),
            Self::Log(error) => error.can_retry(),
        }
    }
}

/// What [`run`] did beside bringing everything to this version.
#[derive(Debug)]
pub struct Done {
    /// The stored secrets were sealed anew, because the secret key was rotated.
    pub rotated: bool,
    /// What the operator should know of the log.
    pub note: Option<String>,
}

/// Migrates the database, writes down what is fixed from the first time on, and creates the
/// topics. Safe to run from many processes at once, and again.
pub async fn run(app: &App) -> Result<Done, SetupError> {
    store::migrate::run(&app.store).await?;
    let mut tx = app.store.write().await?;
    settings::fix_partitions(&mut tx, app.config.log.partitions).await?;
    let rotated = settings::fix_secret_key(&mut tx, &app.secrets).await? == Sealed::Old;
    if rotated {
        storage::reseal(&mut tx, &app.secrets).await?;
        settings::put_secret_key(&mut tx, &app.secrets).await?;
    }
    tx.commit().await?;
    let note = app.log.create_topics().await?;
    if let Some(note) = &note {
        tracing::warn!("{note}");
    }
    Ok(Done { rotated, note })
}

/// Refuses to start on another schema, another number of partitions or another secret key
/// than this installation's; the error says what to run or to set. A data directory that is
/// new is made ready by whichever command comes first.
pub async fn check(app: &App) -> Result<(), SetupError> {
    if store::migrate::is_new_directory(&app.store).await? {
        run(app).await?;
    }
    store::migrate::check(&app.store).await?;
    let mut tx = app.store.snapshot().await?;
    settings::check_partitions(&mut tx, app.config.log.partitions).await?;
    settings::check_secret_key(&mut tx, &app.secrets).await?;
    tx.commit().await?;
    Ok(())
}
