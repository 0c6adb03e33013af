//! The SQL of revoked secrets.

use super::revoked::{KnownCredential, LEAKED, RevokedCredential, RevokedSecret, SecretKind};
use crate::credentials::Hash;
use store::{StoreError, Tx, execute, on};

/// The revoked secret with that hash; none if it is still valid under another name, as after it has
/// moved there.
pub async fn find(
    tx: &mut Tx,
    kind: SecretKind,
    hash: &Hash,
) -> Result<Option<RevokedSecret>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT kind, name, hash, revoked_at
         FROM (SELECT 'key' AS kind, name, hash, revoked_at FROM api_keys
               WHERE hash = $1 AND revoked_at IS NOT NULL
               UNION ALL
               SELECT 'scim_token' AS kind, name, hash, revoked_at FROM scim_tokens
               WHERE hash = $1 AND revoked_at IS NOT NULL
               UNION ALL
               SELECT kind, name, hash, revoked_at FROM revoked_secrets WHERE hash = $1) AS revoked
         WHERE NOT EXISTS (SELECT 1 FROM api_keys
                           WHERE $2 = 'key' AND hash = $1 AND revoked_at IS NULL)
           AND NOT EXISTS (SELECT 1 FROM scim_tokens
                           WHERE $2 = 'scim_token' AND hash = $1 AND revoked_at IS NULL)
         ORDER BY revoked_at DESC LIMIT 1",
    )
    .bind(&hash[..]).bind(kind.name()).fetch_optional(c).await?))
}

/// The keys and tokens that have or had the secret with that hash, the latest revoked one first. A
/// secret that only became public is none.
pub async fn credentials(tx: &mut Tx, hash: &Hash) -> Result<Vec<KnownCredential>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT 'key' AS kind, api_keys.name AS name, workspaces.name AS workspace, revoked_at
         FROM api_keys JOIN workspaces ON workspaces.id = api_keys.workspace_id WHERE hash = $1
         UNION ALL
         SELECT 'scim_token' AS kind, name, NULL AS workspace, revoked_at
         FROM scim_tokens WHERE hash = $1
         UNION ALL
         SELECT kind, name, NULL AS workspace, revoked_at
         FROM revoked_secrets WHERE hash = $1 AND name <> $2
           AND NOT EXISTS (SELECT 1 FROM api_keys WHERE hash = $1)
           AND NOT EXISTS (SELECT 1 FROM scim_tokens WHERE hash = $1)
         ORDER BY revoked_at DESC",
    )
    .bind(&hash[..]).bind(LEAKED).fetch_all(c).await?))
}

/// All revoked secrets, each once, without those that are still valid under another name.
pub async fn list(tx: &mut Tx) -> Result<Vec<RevokedSecret>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT min(kind) AS kind, hash, max(revoked_at) AS revoked_at,
                COALESCE(min(CASE WHEN name <> $1 THEN name END), $1) AS name
         FROM (SELECT 'key' AS kind, name, hash, revoked_at FROM api_keys
               WHERE revoked_at IS NOT NULL
                 AND hash NOT IN (SELECT hash FROM api_keys WHERE revoked_at IS NULL)
               UNION ALL
               SELECT 'scim_token' AS kind, name, hash, revoked_at FROM scim_tokens
               WHERE revoked_at IS NOT NULL
                 AND hash NOT IN (SELECT hash FROM scim_tokens WHERE revoked_at IS NULL)
               UNION ALL
               SELECT kind, name, hash, revoked_at FROM revoked_secrets) AS revoked
         GROUP BY hash ORDER BY max(revoked_at), hash",
    )
    .bind(LEAKED).fetch_all(c).await?))
}

/// Keeps a revoked secret, which no key or token may have had here.
pub(super) async fn insert(tx: &mut Tx, secret: &RevokedSecret) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "INSERT INTO revoked_secrets (hash, kind, name, revoked_at) VALUES ($1, $2, $3, $4)
             ON CONFLICT (hash) DO NOTHING",
        )
        .bind(&secret.hash)
        .bind(secret.kind.name())
        .bind(&secret.name)
        .bind(secret.revoked_at)
    );
    Ok(())
}

/// Revokes the keys and tokens that have the secret, and returns them.
pub(super) async fn revoke_valid(
    tx: &mut Tx,
    secret: &RevokedSecret,
    actor: &str,
) -> Result<Vec<RevokedCredential>, StoreError> {
    let mut revoked: Vec<RevokedCredential> = on!(&mut *tx, c => sqlx::query_as(
        "UPDATE api_keys SET revoked_at = $2, revoked_by = $3 WHERE hash = $1 AND revoked_at IS NULL
         RETURNING 'key' AS kind, id, name, workspace_id",
    )
    .bind(&secret.hash).bind(secret.revoked_at).bind(actor).fetch_all(c).await?);
    let tokens: Vec<RevokedCredential> = on!(&mut *tx, c => sqlx::query_as(
        "UPDATE scim_tokens SET revoked_at = $2 WHERE hash = $1 AND revoked_at IS NULL
         RETURNING 'scim_token' AS kind, id, name, CAST(NULL AS INTEGER) AS workspace_id",
    )
    .bind(&secret.hash).bind(secret.revoked_at).fetch_all(c).await?);
    revoked.extend(tokens);
    Ok(revoked)
}
