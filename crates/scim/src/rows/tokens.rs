//! The SQL of SCIM tokens.

use std::collections::HashSet;

use ipnet::IpNet;
use uuid::Uuid;

use crate::tokens::{NewToken, TokenInfo, TokenMatch};
use gateway::workspaces::to_json;
use runtime::credentials::Hash;
use store::documents::parsed;
use store::{StoreError, Tx, execute, from_row, on};

/// The active token of that hash.
pub(crate) async fn token(tx: &mut Tx, hash: &[u8]) -> Result<Option<TokenMatch>, StoreError> {
    let row: Option<(Uuid, String, String, bool)> = on!(tx, c => sqlx::query_as(
        "SELECT id, name, allow, requires_origin FROM scim_tokens
         WHERE hash = $1 AND revoked_at IS NULL",
    )
    .bind(hash).fetch_optional(c).await?);
    row.map(|(id, name, allow, requires_origin)| {
        let allow = parsed("scim_tokens.allow", id, &allow)?;
        Ok(TokenMatch { id, name, allow, requires_origin })
    })
    .transpose()
}

/// The hashes of all active tokens.
pub(crate) async fn token_hashes(tx: &mut Tx) -> Result<HashSet<Hash>, StoreError> {
    let hashes: Vec<Vec<u8>> = on!(tx, c => sqlx::query_scalar(
        "SELECT hash FROM scim_tokens WHERE revoked_at IS NULL",
    )
    .fetch_all(c).await?);
    Ok(hashes.into_iter().filter_map(|hash| hash.try_into().ok()).collect())
}

/// Writes a token; returns false if an active one has that name or that secret.
pub(crate) async fn insert_token(
    tx: &mut Tx,
    hash: &[u8],
    token: NewToken<'_>,
    now: i64,
) -> Result<bool, StoreError> {
    let inserted = execute!(
        tx,
        sqlx::query(
            "INSERT INTO scim_tokens
                 (id, name, hash, allow, requires_origin, declared, created_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING",
        )
        .bind(Uuid::now_v7())
        .bind(token.name)
        .bind(hash)
        .bind(to_json(token.allow))
        .bind(token.requires_origin)
        .bind(token.declared)
        .bind(now)
    );
    Ok(inserted == 1)
}

/// Changes the allowed networks of a token, and whether its requests need `X-Request-Origin`.
pub async fn update_token(
    tx: &mut Tx,
    id: Uuid,
    allow: &[IpNet],
    requires_origin: bool,
) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query("UPDATE scim_tokens SET allow = $2, requires_origin = $3 WHERE id = $1")
            .bind(id)
            .bind(to_json(allow))
            .bind(requires_origin)
    );
    Ok(())
}

from_row! {
    TokenInfo {
        id, name, hash, requires_origin, declared, created_at, last_used_at, revoked_at,
    } json { allow }
}

/// All tokens, including revoked ones.
pub async fn tokens(tx: &mut Tx) -> Result<Vec<TokenInfo>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT id, name, hash, allow, requires_origin, declared, created_at, last_used_at,
             revoked_at
         FROM scim_tokens ORDER BY name, created_at, id",
    )
    .fetch_all(c).await?))
}

/// Revokes a token; false if it was already revoked.
pub async fn revoke_token(tx: &mut Tx, id: Uuid, now: i64) -> Result<bool, StoreError> {
    let revoked = execute!(
        tx,
        sqlx::query("UPDATE scim_tokens SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL")
            .bind(id)
            .bind(now)
    );
    Ok(revoked == 1)
}

pub(crate) async fn token_used(tx: &mut Tx, id: Uuid, now: i64) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "UPDATE scim_tokens SET last_used_at = $2
             WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < $2)",
        )
        .bind(id)
        .bind(now)
    );
    Ok(())
}
