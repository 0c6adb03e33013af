//! A workspace's own storage: its settings, encrypted at rest, and its clients.

use std::collections::HashMap;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{channels, rows, signing};
use crate::app::App;
use kit::retry::Retry;
use kit::secrets::{SecretError, SecretKey};
use objects::{AzureSettings, ObjectError, Objects, S3Settings};
use store::documents::parsed_secret;
use store::{StoreError, Tx};

/// Maximum number of named storages of a workspace.
pub const MAX_NAMED: usize = 20;

/// Maximum length of the name of a storage.
pub const MAX_NAME: usize = 64;

/// The `destination` of an export that has a download URL.
pub const URL: &str = "url";

/// The kinds of the storages in `storage`, which are also their names in requests.
pub const S3: &str = "s3";
pub const AZURE: &str = "azure";

/// Names that have a meaning in requests, so no named storage can have them.
pub const RESERVED_NAMES: [&str; 3] = [URL, S3, AZURE];

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
            Self::S3(_) => S3,
            Self::Azure(_) => AZURE,
        }
    }

    /// The bucket and its region, or the container: what every key of the workspace may see.
    pub fn container(&self) -> String {
        match self {
            Self::S3(s3) => {
                let region = s3.region.as_deref().map(|region| format!(", {region}"));
                format!("bucket {}{}", s3.bucket, region.unwrap_or_default())
            }
            Self::Azure(azure) => format!("container {}", azure.container),
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
                let key = s3.sse_kms_key_id.as_deref().map(|key| format!(", KMS key {key}"));
                let key = key.unwrap_or_default();
                format!("bucket {}{region}{}{key}", s3.bucket, at(&s3.endpoint))
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

/// A storage that requests choose by its name (`storages` in the workspace file).
#[derive(Clone, PartialEq, Eq)]
pub struct NamedStorage {
    pub name: String,
    pub settings: Settings,
}

/// Whether a text has the form of a storage's name.
pub fn is_name(text: &str) -> bool {
    let is_allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(is_allowed)
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

    fn is_clock_error(&self) -> bool {
        matches!(self, Self::Objects(error) if error.is_clock_error())
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
    let (_, sealed) = stored(tx, id).await?;
    let plain = secrets.open(&id.to_string(), &sealed)?;
    Ok(parsed_secret("storages.config", id, &plain)?)
}

/// The kind of the settings with an id.
pub async fn kind(tx: &mut Tx, id: Uuid) -> Result<String, StoreError> {
    let (kind, _) = stored(tx, id).await?;
    Ok(kind)
}

/// The kind and the sealed settings with an id.
async fn stored(tx: &mut Tx, id: Uuid) -> Result<(String, Vec<u8>), StoreError> {
    let found = rows::storage(tx, id).await?;
    found.ok_or_else(|| StoreError::Corrupt(format!("storages has no row {id}")))
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

/// The named storages of a workspace, by name.
pub async fn named(
    tx: &mut Tx,
    secrets: &SecretKey,
    workspace: i32,
) -> Result<Vec<NamedStorage>, StorageError> {
    let mut all = Vec::new();
    for (name, id) in rows::named_storages(tx, workspace).await? {
        all.push(NamedStorage { name, settings: settings(tx, secrets, id).await? });
    }
    Ok(all)
}

/// Encrypts all stored secrets again with the current key, so that the previous one is no longer
/// needed.
pub async fn reseal(tx: &mut Tx, secrets: &SecretKey) -> Result<(), StorageError> {
    let workspaces = rows::list(tx).await?;
    for workspace in &workspaces {
        // An `apply` at the same time is not undone.
        rows::lock(tx, workspace.id).await?;
    }
    for (id, sealed) in rows::storages(tx).await? {
        let context = id.to_string();
        let plain = secrets.open(&context, &sealed)?;
        rows::reseal_storage(tx, id, &secrets.seal(&context, &plain)).await?;
    }
    for workspace in workspaces {
        channels::reseal(tx, secrets, workspace.id).await?;
    }
    signing::reseal(tx, secrets).await
}
