//! The SQL of channels, subscription groups and segments.

use uuid::Uuid;

use super::Segment;
use crate::workspaces::settings::SubscriptionGroup;
use store::{StoreError, Tx, execute, fetch_listed, from_row, on};

from_row! { SubscriptionGroup { id, channel, from } }
from_row! { Segment { id, name } json { audience } }

/// The encrypted parts of a workspace's channels, by their paths.
pub(crate) async fn channels(
    tx: &mut Tx,
    workspace: i32,
) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT path, config FROM channels WHERE workspace_id = $1 ORDER BY path",
    )
    .bind(workspace).fetch_all(c).await?))
}

/// One encrypted part of a workspace's channels.
pub(crate) async fn channel(
    tx: &mut Tx,
    workspace: i32,
    path: &str,
) -> Result<Option<Vec<u8>>, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "SELECT config FROM channels WHERE workspace_id = $1 AND path = $2",
    )
    .bind(workspace).bind(path).fetch_optional(c).await?))
}

pub(crate) async fn put_channel(
    tx: &mut Tx,
    workspace: i32,
    path: &str,
    sealed: &[u8],
) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "INSERT INTO channels (workspace_id, path, config) VALUES ($1, $2, $3)
             ON CONFLICT (workspace_id, path) DO UPDATE SET config = excluded.config",
        )
        .bind(workspace)
        .bind(path)
        .bind(sealed)
    );
    Ok(())
}

pub async fn delete_channel(tx: &mut Tx, workspace: i32, path: &str) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query("DELETE FROM channels WHERE workspace_id = $1 AND path = $2")
            .bind(workspace)
            .bind(path)
    );
    Ok(())
}

pub async fn subscription_groups(
    tx: &mut Tx,
    workspace: i32,
) -> Result<Vec<SubscriptionGroup>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT id, channel, sender AS \"from\" FROM subscription_groups
         WHERE workspace_id = $1 ORDER BY id",
    )
    .bind(workspace).fetch_all(c).await?))
}

pub async fn put_subscription_group(
    tx: &mut Tx,
    workspace: i32,
    group: &SubscriptionGroup,
) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "INSERT INTO subscription_groups (workspace_id, id, channel, sender)
             VALUES ($1, $2, $3, $4)
             ON CONFLICT (workspace_id, id) DO UPDATE SET
                 channel = excluded.channel, sender = excluded.sender",
        )
        .bind(workspace)
        .bind(group.id)
        .bind(group.channel.name())
        .bind(&group.from)
    );
    Ok(())
}

pub async fn delete_subscription_group(
    tx: &mut Tx,
    workspace: i32,
    id: Uuid,
) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query("DELETE FROM subscription_groups WHERE workspace_id = $1 AND id = $2")
            .bind(workspace)
            .bind(id)
    );
    Ok(())
}

/// The segments that the workspace file declares, by name.
pub async fn segments(tx: &mut Tx, workspace: i32) -> Result<Vec<Segment>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT id, name, audience FROM segments WHERE workspace_id = $1 ORDER BY name, id",
    )
    .bind(workspace).fetch_all(c).await?))
}

/// The segments that the workspace file declares, by name, after the one with this name and id.
pub(crate) async fn segments_after(
    tx: &mut Tx,
    workspace: i32,
    (name, id): (&str, Uuid),
    limit: i64,
) -> Result<Vec<Segment>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT id, name, audience FROM segments
         WHERE workspace_id = $1 AND (name, id) > ($2, $3) ORDER BY name, id LIMIT $4",
    )
    .bind(workspace).bind(name).bind(id).bind(limit).fetch_all(c).await?))
}

/// The ids and names of the segments that the workspace file declares, by name.
pub(crate) async fn segment_names(
    tx: &mut Tx,
    workspace: i32,
) -> Result<Vec<(Uuid, String)>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT id, name FROM segments WHERE workspace_id = $1 ORDER BY name, id",
    )
    .bind(workspace).fetch_all(c).await?))
}

/// The number of segments that the workspace file declares.
pub(crate) async fn count_segments(tx: &mut Tx, workspace: i32) -> Result<i64, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar("SELECT count(*) FROM segments WHERE workspace_id = $1")
        .bind(workspace).fetch_one(c).await?))
}

/// The ids and names of those of these segments that the workspace file declares.
pub(crate) async fn segment_names_of(
    tx: &mut Tx,
    workspace: i32,
    ids: &[Uuid],
) -> Result<Vec<(Uuid, String)>, StoreError> {
    Ok(fetch_listed!(
        tx,
        query_as,
        ids(ids),
        "SELECT id, name FROM segments WHERE workspace_id = $2 AND id",
        workspace
    ))
}

/// The ids of the segments that the workspace file declares.
pub(crate) async fn segment_ids(tx: &mut Tx, workspace: i32) -> Result<Vec<Uuid>, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar("SELECT id FROM segments WHERE workspace_id = $1")
        .bind(workspace).fetch_all(c).await?))
}

/// A declared segment.
pub(crate) async fn segment(
    tx: &mut Tx,
    workspace: i32,
    id: Uuid,
) -> Result<Option<Segment>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT id, name, audience FROM segments WHERE workspace_id = $1 AND id = $2",
    )
    .bind(workspace).bind(id).fetch_optional(c).await?))
}

pub async fn put_segment(tx: &mut Tx, workspace: i32, segment: &Segment) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "INSERT INTO segments (workspace_id, id, name, audience) VALUES ($1, $2, $3, $4)
             ON CONFLICT (workspace_id, id) DO UPDATE SET
                 name = excluded.name, audience = excluded.audience",
        )
        .bind(workspace)
        .bind(segment.id)
        .bind(&segment.name)
        .bind(segment.audience.as_str())
    );
    Ok(())
}

pub async fn delete_segment(tx: &mut Tx, workspace: i32, id: Uuid) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query("DELETE FROM segments WHERE workspace_id = $1 AND id = $2")
            .bind(workspace)
            .bind(id)
    );
    Ok(())
}
