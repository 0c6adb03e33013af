//! A workspace's own storage: its settings, encrypted at rest, and its clients.

use std::collections::HashMap;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{channels, rows};
use crate::app::App;
use kit::retry::Retry;
use kit::secrets::{SecretError, SecretKey};
use objects::{AzureSettings, ObjectError, Objects, S3Settings};
use store::documents::parsed_secret;
use store::{StoreError, Tx};

/// Maximum number of storages for which a process keeps clients.
const MAX_CLIENTS: usize = 1_000;

/// Clients of workspaces' own storages.
#[derive(Default)]
pub struct Clients(Mutex<HashMap<Uuid, Objects>>);

/// The settings of own storage with its credentials: for encrypted storage and for connecting,
/// never for printing.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Settings {
    S3(S3Settings),
    Azure(AzureSettings),
}

impl Settings {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::S3(_) => "s3",
            Self::Azure(_) => "azure",
        }
    }

    /// Its location as text, without credentials.
    pub fn location(&self) -> String {
        let at = |endpoint: &Option<String>| match endpoint {
            Some(endpoint) => format!(" at {endpoint}"),
            None => String::new(),
        };
        match self {
            Self::S3(s3) => {
                let region = s3.region.as_deref().map(|region| format!(", {region}"));
                let region = region.unwrap_or_default();
                format!("bucket {}{region}{}", s3.bucket, at(&s3.endpoint))
            }
            Self::Azure(azure) => {
                let (account, container) = (&azure.account, &azure.container);
                format!("container {container} of {account}{}", at(&azure.endpoint))
            }
        }
    }

    /// The changes from these settings to `new`, as text without credentials.
    pub fn difference(&self, new: &Self) -> String {
        if self.location() == new.location() {
            return "credentials or addressing changed".into();
        }
        format!("{} -> {}", self.location(), new.location())
    }

    /// Opens the storage. Sends no request yet.
    pub async fn connect(&self) -> Result<Objects, ObjectError> {
        match self {
            Self::S3(s3) => Objects::s3(s3).await,
            Self::Azure(azure) => Objects::azure(azure),
        }
    }
}

/// Why a workspace's own storage cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error(transparent)]
    Objects(#[from] ObjectError),
}

impl Retry for StorageError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Store(error) => error.can_retry(),
            Self::Secret(error) => error.can_retry(),
            Self::Objects(error) => error.can_retry(),
        }
    }

    fn needs_newer_version(&self) -> bool {
        matches!(self, Self::Store(error) if error.needs_newer_version())
    }
}

/// Opens a workspace's own storage with its stored credentials; clients are kept and shared by
/// later calls, because the settings of an id never change.
pub async fn open_storage(app: &App, storage: Uuid) -> Result<Objects, StorageError> {
    if let Some(objects) = app.storage_clients.0.lock().get(&storage) {
        return Ok(objects.clone());
    }
    let mut tx = app.store.snapshot().await?;
    let settings = settings(&mut tx, &app.secrets, storage).await?;
    tx.commit().await?;
    let objects = settings.connect().await?;
    let mut clients = app.storage_clients.0.lock();
    if clients.len() >= MAX_CLIENTS {
        clients.clear();
    }
    clients.insert(storage, objects.clone());
    Ok(objects)
}

/// The settings with an id.
pub async fn settings(
    tx: &mut Tx,
    secrets: &SecretKey,
    id: Uuid,
) -> Result<Settings, StorageError> {
    let (_, sealed) = rows::storage(tx, id)
        .await?
        .ok_or_else(|| StoreError::Corrupt(format!("storages has no row {id}")))?;
    let plain = secrets.open(&id.to_string(), &sealed)?;
    Ok(parsed_secret("storages.config", id, &plain)?)
}

/// Stores settings under a new id.
pub async fn insert(
    tx: &mut Tx,
    secrets: &SecretKey,
    workspace: i32,
    settings: &Settings,
    now: i64,
) -> Result<Uuid, StoreError> {
    let id = Uuid::now_v7();
    let sealed = secrets.seal(&id.to_string(), super::to_json(settings).as_bytes());
    rows::insert_storage(tx, id, workspace, settings.kind(), &sealed, now).await?;
    Ok(id)
}

/// Encrypts all settings again with the current key, so that the previous one is no longer needed.
pub async fn reseal(tx: &mut Tx, secrets: &SecretKey) -> Result<(), StorageError> {
    for (id, sealed) in rows::storages(tx).await? {
        let context = id.to_string();
        let plain = secrets.open(&context, &sealed)?;
        rows::reseal_storage(tx, id, &secrets.seal(&context, &plain)).await?;
    }
    for workspace in rows::list(tx).await? {
        channels::reseal(tx, secrets, workspace.id).await?;
    }
    Ok(())
}
