//! The SQL of signing keys.

use uuid::Uuid;

use super::signing::KeyRow;
use store::{StoreError, Tx, execute, from_row, on};

from_row! { KeyRow { id, public_key, created_at, retired_at } }

/// The id, the public key and the encrypted private key of the key that is active at a time.
pub(super) async fn active(
    tx: &mut Tx,
    workspace: i32,
    time: i64,
) -> Result<Option<(Uuid, Vec<u8>, Vec<u8>)>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT id, public_key, private_key FROM signing_keys
         WHERE workspace_id = $1 AND (retired_at IS NULL OR retired_at > $2)
         ORDER BY CASE WHEN retired_at IS NULL THEN 1 ELSE 0 END, retired_at, id LIMIT 1",
    )
    .bind(workspace).bind(time).fetch_optional(c).await?))
}

/// Writes a key; false if the workspace has one already that no other one follows.
pub(super) async fn insert(
    tx: &mut Tx,
    id: Uuid,
    workspace: i32,
    public_key: &[u8],
    sealed: &[u8],
    now: i64,
) -> Result<bool, StoreError> {
    let inserted = execute!(
        tx,
        sqlx::query(
            "INSERT INTO signing_keys (id, workspace_id, public_key, private_key, created_at)
             VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (workspace_id) WHERE retired_at IS NULL DO NOTHING",
        )
        .bind(id)
        .bind(workspace)
        .bind(public_key)
        .bind(sealed)
        .bind(now)
    );
    Ok(inserted == 1)
}

/// Retires the key that no other one follows, from a time on.
pub(super) async fn retire(tx: &mut Tx, workspace: i32, time: i64) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "UPDATE signing_keys SET retired_at = $2
             WHERE workspace_id = $1 AND retired_at IS NULL",
        )
        .bind(workspace)
        .bind(time)
    );
    Ok(())
}

/// Retires the active key not later than at a time, if its retirement is announced; false if it is
/// not.
pub(super) async fn bring_forward(
    tx: &mut Tx,
    workspace: i32,
    now: i64,
    time: i64,
) -> Result<bool, StoreError> {
    let announced = execute!(
        tx,
        sqlx::query(
            "UPDATE signing_keys
             SET retired_at = CASE WHEN retired_at > $3 THEN $3 ELSE retired_at END
             WHERE workspace_id = $1 AND retired_at > $2",
        )
        .bind(workspace)
        .bind(now)
        .bind(time)
    );
    Ok(announced > 0)
}

/// The keys of a workspace, the newest first.
pub(super) async fn list(tx: &mut Tx, workspace: i32) -> Result<Vec<KeyRow>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT id, public_key, created_at, retired_at FROM signing_keys
         WHERE workspace_id = $1
         ORDER BY CASE WHEN retired_at IS NULL THEN 0 ELSE 1 END, retired_at DESC, id DESC",
    )
    .bind(workspace).fetch_all(c).await?))
}

/// The encrypted private keys of all workspaces.
pub(super) async fn sealed(tx: &mut Tx) -> Result<Vec<(Uuid, Vec<u8>)>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as("SELECT id, private_key FROM signing_keys ORDER BY id")
        .fetch_all(c).await?))
}

/// Writes the same private key, encrypted again.
pub(super) async fn reseal(tx: &mut Tx, id: Uuid, sealed: &[u8]) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query("UPDATE signing_keys SET private_key = $2 WHERE id = $1").bind(id).bind(sealed)
    );
    Ok(())
}
