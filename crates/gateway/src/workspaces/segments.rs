//! Segments: those of the workspace file, and the one that every workspace has.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{Segment, channel_rows};
use kit::derived_ids;
use kit::json::ObjectText;
use store::{StoreError, Tx};

/// The name of the built-in segment.
pub const ALL_USERS: &str = "All users";

/// The id of the built-in segment of all users: always the same for a workspace.
pub fn all_users_id(workspace: i32) -> Uuid {
    derived_ids::v8(&[b"segment of all users", &workspace.to_be_bytes()])
}

/// The built-in segment of all users. Its audience is one that includes everybody.
fn all_users(workspace: i32) -> Segment {
    let subscribed = |comparison: &str| json!({ "email_subscription_status": { "comparison": comparison, "value": "subscribed" } });
    let everybody = Map::from_iter([(
        "OR".to_owned(),
        Value::from(vec![subscribed("is"), subscribed("is_not")]),
    )]);
    Segment {
        id: all_users_id(workspace),
        name: ALL_USERS.to_owned(),
        audience: ObjectText::from(&everybody),
    }
}

/// All segments of a workspace, by name.
pub async fn segments(tx: &mut Tx, workspace: i32) -> Result<Vec<Segment>, StoreError> {
    let mut segments = channel_rows::segments(tx, workspace).await?;
    segments.push(all_users(workspace));
    segments.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
    Ok(segments)
}

/// A page of the segments of a workspace: the built-in one, then the others by name. `after` is the
/// name and the id of the last declared segment of the page before; none for the first page.
pub async fn page(
    tx: &mut Tx,
    workspace: i32,
    after: Option<(&str, Uuid)>,
    limit: i64,
) -> Result<Vec<Segment>, StoreError> {
    let mut page = if after.is_none() { vec![all_users(workspace)] } else { Vec::new() };
    let (start, limit) = (after.unwrap_or(("", Uuid::nil())), limit - page.len() as i64);
    page.extend(channel_rows::segments_after(tx, workspace, start, limit).await?);
    Ok(page)
}

/// The ids and names of all segments of a workspace: the built-in one, then the others by name.
pub async fn names(tx: &mut Tx, workspace: i32) -> Result<Vec<(Uuid, String)>, StoreError> {
    let mut names = vec![(all_users_id(workspace), ALL_USERS.to_owned())];
    names.extend(channel_rows::segment_names(tx, workspace).await?);
    Ok(names)
}

/// The number of segments of a workspace, with the built-in one.
pub async fn count(tx: &mut Tx, workspace: i32) -> Result<i64, StoreError> {
    Ok(1 + channel_rows::count_segments(tx, workspace).await?)
}

/// The names of those of these segments that the workspace has, by their ids.
pub async fn names_of(
    tx: &mut Tx,
    workspace: i32,
    ids: &[Uuid],
) -> Result<HashMap<Uuid, String>, StoreError> {
    let mut names = HashMap::from([(all_users_id(workspace), ALL_USERS.to_owned())]);
    names.extend(channel_rows::segment_names_of(tx, workspace, ids).await?);
    Ok(names)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_all_users_never_changes() {
        let id = |text: &str| Uuid::parse_str(text).unwrap();
        assert_eq!(all_users_id(1), id("e9f56388-3194-8c59-b962-6161b59818e5"));
        assert_eq!(all_users_id(7), id("e003c454-a769-89d7-a447-52441ff43e31"));
    }
}
