//! The SQL of API keys.

use std::collections::HashSet;
use std::sync::Arc;

use ipnet::IpNet;
use uuid::Uuid;

use super::keys::{KeyInfo, KeyMatch, NewKey};
use super::rows;
use super::to_json;
use runtime::credentials::Hash;
use store::documents::parsed;
use store::{StoreError, Tx, from_row, on};

/// The active key with that hash, and its workspace.
pub(crate) async fn find(tx: &mut Tx, hash: &[u8]) -> Result<Option<KeyMatch>, StoreError> {
    let row: Option<(Uuid, i32, String, String, String)> = on!(&mut *tx, c => sqlx::query_as(
        "SELECT id, workspace_id, name, permissions, allow FROM api_keys
         WHERE hash = $1 AND revoked_at IS NULL",
    )
    .bind(hash).fetch_optional(c).await?);
    let Some((id, workspace_id, name, permissions, allow)) = row else { return Ok(None) };
    let Some(workspace) = rows::by_id(tx, workspace_id).await? else { return Ok(None) };
    Ok(Some(KeyMatch {
        workspace: Arc::new(workspace),
        key_id: id,
        name: name.into(),
        permissions: parsed::<Vec<String>>("api_keys.permissions", id, &permissions)?.into(),
        allow: parsed("api_keys.allow", id, &allow)?,
    }))
}

/// The hashes of all active keys.
pub(crate) async fn hashes(tx: &mut Tx) -> Result<HashSet<Hash>, StoreError> {
    let hashes: Vec<Vec<u8>> = on!(tx, c => sqlx::query_scalar(
        "SELECT hash FROM api_keys WHERE revoked_at IS NULL",
    )
    .fetch_all(c).await?);
    Ok(hashes.into_iter().filter_map(|hash| hash.try_into().ok()).collect())
}

/// Writes a key; false if an active key has the same name in the workspace, or the same secret in
/// any workspace.
pub(crate) async fn insert(
    tx: &mut Tx,
    id: Uuid,
    hash: &[u8],
    key: &NewKey<'_>,
    now: i64,
) -> Result<bool, StoreError> {
    let inserted = on!(tx, c => sqlx::query(
        "INSERT INTO api_keys
             (id, workspace_id, name, hash, permissions, allow, declared, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
         ON CONFLICT DO NOTHING",
    )
    .bind(id).bind(key.workspace).bind(key.name).bind(hash)
    .bind(to_json(key.permissions)).bind(to_json(key.allow)).bind(key.declared).bind(now)
    .execute(c).await?.rows_affected());
    Ok(inserted == 1)
}

/// Changes the permissions and addresses of an active key.
pub async fn update(
    tx: &mut Tx,
    id: Uuid,
    permissions: &[String],
    allow: &[IpNet],
) -> Result<(), StoreError> {
    on!(tx, c => sqlx::query("UPDATE api_keys SET permissions = $2, allow = $3 WHERE id = $1")
        .bind(id).bind(to_json(permissions)).bind(to_json(allow))
        .execute(c).await?.rows_affected());
    Ok(())
}

from_row! {
    KeyInfo {
        id, workspace, name, hash, declared, created_at, last_used_at, last_permission, revoked_at,
        revoked_by,
    } json { permissions, allow }
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT k.id, w.name AS workspace, k.name, k.hash, k.permissions, k.allow, k.declared,
                    k.created_at, k.last_used_at,
                    CASE WHEN k.last_permission_at = k.last_used_at THEN k.last_permission END
                        AS last_permission,
                    k.revoked_at, k.revoked_by
             FROM api_keys k JOIN workspaces w ON w.id = k.workspace_id WHERE ",
            $rest
        )
    };
}

/// The keys of one workspace, or of all, including revoked ones.
pub async fn list(tx: &mut Tx, workspace: Option<i32>) -> Result<Vec<KeyInfo>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(select!(
        "$1 IS NULL OR k.workspace_id = $1 ORDER BY w.name, k.name, k.created_at, k.id"
    ))
    .bind(workspace).fetch_all(c).await?))
}

/// The first `limit` active keys of a workspace by their names, after the key with the id `after`.
pub async fn active(
    tx: &mut Tx,
    workspace: i32,
    after: Option<Uuid>,
    limit: i64,
) -> Result<Vec<KeyInfo>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(select!(
        "k.workspace_id = $1 AND k.revoked_at IS NULL
           AND k.name > COALESCE(
               (SELECT name FROM api_keys WHERE id = $2 AND workspace_id = $1), '')
         ORDER BY k.name LIMIT $3"
    ))
    .bind(workspace).bind(after).bind(limit).fetch_all(c).await?))
}

/// The latest `limit` revoked keys of a workspace, the latest first, before the key with the id
/// `before`.
pub async fn revoked(
    tx: &mut Tx,
    workspace: i32,
    before: Option<Uuid>,
    limit: i64,
) -> Result<Vec<KeyInfo>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(select!(
        "k.workspace_id = $1 AND k.revoked_at IS NOT NULL
           AND (k.revoked_at, k.id)
               < (COALESCE((SELECT revoked_at FROM api_keys WHERE id = $2 AND workspace_id = $1), $3),
                  COALESCE($2, $4))
         ORDER BY k.revoked_at DESC, k.id DESC LIMIT $5"
    ))
    .bind(workspace).bind(before).bind(i64::MAX).bind(Uuid::max()).bind(limit)
    .fetch_all(c).await?))
}

/// The key with an id in a workspace, also a revoked one.
pub async fn by_id(tx: &mut Tx, workspace: i32, id: Uuid) -> Result<Option<KeyInfo>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(select!("k.workspace_id = $1 AND k.id = $2"))
        .bind(workspace).bind(id).fetch_optional(c).await?))
}

/// The active key of a workspace that has the secret of `key`, which is revoked: the workspace file
/// moved it to another name.
pub async fn with_same_secret(
    tx: &mut Tx,
    workspace: i32,
    key: &KeyInfo,
) -> Result<Option<KeyInfo>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(select!(
        "k.workspace_id = $1 AND k.hash = $2 AND k.revoked_at IS NULL"
    ))
    .bind(workspace).bind(&key.hash).fetch_optional(c).await?))
}

/// Revokes a key; false if it was already revoked. `actor` is who does it, as the audit log has it.
pub async fn revoke(tx: &mut Tx, id: Uuid, now: i64, actor: &str) -> Result<bool, StoreError> {
    let revoked = on!(tx, c => sqlx::query(
        "UPDATE api_keys SET revoked_at = $2, revoked_by = $3
         WHERE id = $1 AND revoked_at IS NULL",
    )
    .bind(id).bind(now).bind(actor).execute(c).await?.rows_affected());
    Ok(revoked == 1)
}

/// Stores the use of a key at a time, and the permission if it is known, unless a later use is
/// stored. The time is also that of the permission: older versions write only `last_used_at`.
pub(crate) async fn used(
    tx: &mut Tx,
    id: Uuid,
    permission: Option<&str>,
    now: i64,
) -> Result<(), StoreError> {
    on!(tx, c => sqlx::query(
        "UPDATE api_keys SET last_used_at = $2, last_permission = $3, last_permission_at = $2
         WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < $2)",
    )
    .bind(id).bind(now).bind(permission).execute(c).await?.rows_affected());
    Ok(())
}
