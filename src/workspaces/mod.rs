//! Workspaces and what their file declares: keys, storage, control group.

pub mod keys;

use std::collections::BTreeMap;

use ipnet::IpNet;
use uuid::Uuid;

use crate::app::App;
use crate::objects::{ObjectError, Objects};
use crate::store::{StoreError, Tx};

/// A workspace: the space that a key belongs to.
#[derive(Clone, Debug)]
pub struct Workspace {
    pub id: i32,
    pub name: String,
    /// ISO 4217.
    pub currency: String,
    /// How many millionths of `currency` one of the other currency is.
    pub exchange_rates: BTreeMap<String, i64>,
    pub ip_allowlist: Vec<IpNet>,
    /// Users and bytes that an export without own storage may have.
    pub export_users_limit: i64,
    pub export_bytes_limit: i64,
    pub s3_storage: Option<Uuid>,
    pub azure_storage: Option<Uuid>,
    pub azure_is_default: bool,
}

impl Workspace {
    /// Where exports go now: Azure if it is the default destination, else S3, else neither.
    pub fn own_storage(&self) -> Option<Uuid> {
        self.azure_storage.filter(|_| self.azure_is_default).or(self.s3_storage)
    }
}

/// The global control group: the slices (hundreds of `random_bucket`) that belong to it.
#[derive(Clone, Debug)]
pub struct ControlGroup {
    pub segment_id: Uuid,
    pub percent: i32,
    /// Ascending, each 0 to 99.
    pub slices: Vec<i16>,
}

pub async fn by_id(_tx: &mut Tx, _id: i32) -> Result<Option<Workspace>, StoreError> {
    todo!()
}

pub async fn by_name(_tx: &mut Tx, _name: &str) -> Result<Option<Workspace>, StoreError> {
    todo!()
}

/// The active control group of a workspace.
pub async fn control_group(
    _tx: &mut Tx,
    _workspace: i32,
) -> Result<Option<ControlGroup>, StoreError> {
    todo!()
}

/// What went wrong on the way to a workspace's own storage.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Secret(#[from] crate::secrets::SecretError),
    #[error(transparent)]
    Objects(#[from] ObjectError),
}

impl crate::retry::Retry for StorageError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Store(error) => error.can_retry(),
            Self::Secret(error) => error.can_retry(),
            Self::Objects(error) => error.can_retry(),
        }
    }
}

/// Opens a workspace's own storage with its stored credentials; clients are kept and
/// shared by later calls.
pub async fn open_storage(_app: &App, _storage: Uuid) -> Result<Objects, StorageError> {
    todo!()
}

/// The key that signs a workspace's callbacks (the bytes behind `whsec_…`).
pub async fn callback_secret(_app: &App, _workspace: i32) -> Result<Vec<u8>, StorageError> {
    todo!()
}
