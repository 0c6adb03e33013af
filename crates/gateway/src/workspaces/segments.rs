//! Segments: those of the workspace file, and the one that every workspace has.

use serde_json::json;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::{Segment, channel_rows};
use store::{StoreError, Tx};

/// The name of the built-in segment.
pub const ALL_USERS: &str = "All users";

/// The id of the built-in segment of all users: always the same for a workspace.
pub fn all_users_id(workspace: i32) -> Uuid {
    let hash = Sha256::new()
        .chain_update(b"segment of all users")
        .chain_update(workspace.to_be_bytes())
        .finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// The built-in segment of all users. Its audience is one that includes everybody.
fn all_users(workspace: i32) -> Segment {
    let subscribed = |comparison: &str| json!({ "email_subscription_status": { "comparison": comparison, "value": "subscribed" } });
    Segment {
        id: all_users_id(workspace),
        name: ALL_USERS.to_owned(),
        audience: json!({ "OR": [subscribed("is"), subscribed("is_not")] }),
    }
}

/// All segments of a workspace, by name.
pub async fn segments(tx: &mut Tx, workspace: i32) -> Result<Vec<Segment>, StoreError> {
    let mut segments = channel_rows::segments(tx, workspace).await?;
    segments.push(all_users(workspace));
    segments.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
    Ok(segments)
}

/// The ids of all segments of a workspace.
pub(crate) async fn segment_ids(tx: &mut Tx, workspace: i32) -> Result<Vec<Uuid>, StoreError> {
    let mut ids = channel_rows::segment_ids(tx, workspace).await?;
    ids.push(all_users_id(workspace));
    Ok(ids)
}

/// The segment of a workspace with that id.
pub async fn segment(tx: &mut Tx, workspace: i32, id: Uuid) -> Result<Option<Segment>, StoreError> {
    if id == all_users_id(workspace) {
        return Ok(Some(all_users(workspace)));
    }
    channel_rows::segment(tx, workspace, id).await
}
