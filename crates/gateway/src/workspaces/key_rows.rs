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
        id, workspace, name, hash, declared, created_at, last_used_at, revoked_at,
    } json { permissions, allow }
}

/// The keys of one workspace, or of all, including revoked ones.
pub async fn list(tx: &mut Tx, workspace: Option<i32>) -> Result<Vec<KeyInfo>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT k.id, w.name AS workspace, k.name, k.hash, k.permissions, k.allow, k.declared,
                k.created_at, k.last_used_at, k.revoked_at
         FROM api_keys k JOIN workspaces w ON w.id = k.workspace_id
         WHERE $1 IS NULL OR k.workspace_id = $1
         ORDER BY w.name, k.name, k.created_at, k.id",
    )
    .bind(workspace).fetch_all(c).await?))
}

/// Revokes a key; false if it was already revoked.
pub async fn revoke(tx: &mut Tx, id: Uuid, now: i64) -> Result<bool, StoreError> {
    let revoked = on!(tx, c => sqlx::query(
        "UPDATE api_keys SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL",
    )
    .bind(id).bind(now).execute(c).await?.rows_affected());
    Ok(revoked == 1)
}

pub(crate) async fn used(tx: &mut Tx, id: Uuid, now: i64) -> Result<(), StoreError> {
    on!(tx, c => sqlx::query(
        "UPDATE api_keys SET last_used_at = $2
         WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < $2)",
    )
    .bind(id).bind(now).execute(c).await?.rows_affected());
    Ok(())
}
