//! Why a document cannot be applied.

use uuid::Uuid;

use crate::file::FileError;
use content::catalogs::items::ItemsError;
use gateway::workspaces::keys::KeyError;
use gateway::workspaces::storage::StorageError;
use kit::retry::Retry;
use objects::ObjectError;
use scim::tokens::TokenError;
use store::StoreError;

/// Why a document cannot be applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("key {name}: {error}")]
    Key { name: String, error: KeyError },
    #[error("key {0}: `key create` created a key with this name; revoke it first")]
    NotDeclared(String),
    #[error("app {0}: another workspace has an app with this id")]
    AppTaken(Uuid),
    #[error(
        "control_group.percent is {wanted} but the active group has {active}. A new percentage \
         needs a new group, with a new segment id. Set {active} in the file, or run `longshore \
         control-group renew --percent {wanted}` first"
    )]
    Percent { active: i32, wanted: i32 },
    #[error("scim_token {name}: {error}")]
    Token { name: String, error: TokenError },
    #[error("scim_token {0}: `scim-token create` created a token with this name; revoke it first")]
    TokenNotDeclared(String),
    #[error(
        "dashboard_user {0}: a user that the file does not declare has this name; delete the user \
         over SCIM first, or remove it from the file"
    )]
    UserNotDeclared(String),
    #[error("{label}: unknown workspace {workspace}")]
    NoWorkspace { label: String, workspace: String },
    /// `label` is the storage's path in the file.
    #[error("{label}: {error}")]
    Probe { label: String, error: ObjectError },
    #[error(transparent)]
    Catalogs(#[from] DeclareError),
    /// The workspace, as declared, cannot send the campaigns' messages.
    #[error(transparent)]
    Messages(#[from] FileError),
    #[error(
        "webhooks.secret and {0} are the same: use different secrets, because message senders \
         choose the content that webhooks.secret signs"
    )]
    SharedSecret(&'static str),
    #[error(
        "notify[{index}].email requires {missing}: the workspace's relay sends the notifications"
    )]
    NoRelay { index: usize, missing: &'static str },
    #[error("{0} was changed by another process at the same time: apply again")]
    ChangedConcurrently(String),
    #[error(
        "this would remove what is being sent: {0}. To confirm, run the command again with --yes, \
         or wait until the sends have ended"
    )]
    RunningSends(String),
}

impl From<StoreError> for ApplyError {
    fn from(error: StoreError) -> Self {
        Self::Storage(error.into())
    }
}

impl Retry for ApplyError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Storage(error) => error.can_retry(),
            Self::Key { error, .. } => error.can_retry(),
            Self::Probe { error, .. } => error.can_retry(),
            Self::Catalogs(error) => error.can_retry(),
            Self::Messages(error) => error.can_retry(),
            Self::ChangedConcurrently(_) => true,
            Self::Token { error, .. } => error.can_retry(),
            Self::NotDeclared(_)
            | Self::AppTaken(_)
            | Self::Percent { .. }
            | Self::TokenNotDeclared(_)
            | Self::UserNotDeclared(_)
            | Self::NoWorkspace { .. }
            | Self::NoRelay { .. }
            | Self::RunningSends(_)
            | Self::SharedSecret(_) => false,
        }
    }
}

/// Why a catalog cannot be applied.
#[derive(Debug, thiserror::Error)]
pub enum DeclareError {
    #[error("catalog {catalog}: {error}")]
    Items { catalog: String, error: ItemsError },
    #[error(
        "catalog {catalog}: field {field} has type {stored} but the file declares {declared}, which \
         may not fit the existing items: declare a field with another name, or delete the items \
         first (apply the file without `items`, with --prune)"
    )]
    Type { catalog: String, field: String, stored: &'static str, declared: &'static str },
    #[error("catalog {0}: its items or their file changed at the same time: apply again")]
    ChangedConcurrently(String),
    #[error("cannot read item {0}: {1}")]
    Unreadable(String, serde_json::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Retry for DeclareError {
    fn can_retry(&self) -> bool {
        match self {
            Self::ChangedConcurrently(_) => true,
            Self::Store(error) => error.can_retry(),
            Self::Items { .. } | Self::Type { .. } | Self::Unreadable(..) => false,
        }
    }
}
