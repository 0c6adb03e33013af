//! API keys.

use ipnet::IpNet;
use uuid::Uuid;

use super::Workspace;
use crate::app::App;
use crate::store::StoreError;

/// A key that is known and not revoked.
#[derive(Clone, Debug)]
pub struct KeyMatch {
    pub workspace: Workspace,
    pub key_id: Uuid,
    pub permissions: Vec<String>,
    pub allow: Vec<IpNet>,
}

/// The key whose secret is `presented`, if there is one and it is not revoked.
pub async fn find(_app: &App, _presented: &str) -> Result<Option<KeyMatch>, StoreError> {
    todo!()
}
