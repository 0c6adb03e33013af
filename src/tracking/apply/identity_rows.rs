//! The SQL of changes that name two users, and of merged users.

use std::collections::HashMap;

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::super::message::Identity;
use store::{StoreError, Tx, execute, on, to_json};

/// The user that was found, if any.
pub(super) type Found = Option<Uuid>;

/// Records that a copy of a change was reached, and which user its name identified at this position
/// in the log. Returns both users once the other copy was reached, too. Repeated copies have no
/// effect.
pub(super) async fn reach(
    tx: &mut Tx,
    workspace: i32,
    identity: &Identity<'_>,
    received_at: i64,
    user: Found,
) -> Result<Option<(Found, Found)>, StoreError> {
    let (copies, first, second) =
        if identity.is_second { (2, None, user) } else { (1, user, None) };
    let reached: Option<(i16, Found, Found)> = on!(tx, c => sqlx::query_as(
        "INSERT INTO identity_changes
             (workspace_id, change, received_at, copies, first_user, second_user)
         VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (workspace_id, change) DO UPDATE
         SET copies = identity_changes.copies | excluded.copies,
             first_user = COALESCE(identity_changes.first_user, excluded.first_user),
             second_user = COALESCE(identity_changes.second_user, excluded.second_user)
         WHERE identity_changes.copies & excluded.copies = 0
         RETURNING copies, first_user, second_user",
    )
    .bind(workspace)
    .bind(&key(identity, received_at)?[..])
    .bind(received_at)
    .bind(copies)
    .bind(first)
    .bind(second)
    .fetch_optional(c)
    .await?);
    Ok(reached.filter(|(copies, ..)| *copies == 3).map(|(_, first, second)| (first, second)))
}

/// The common key of both copies of a change: a hash, so that no identifier is readable.
fn key(identity: &Identity<'_>, received_at: i64) -> Result<[u8; 32], StoreError> {
    let text = to_json(&(received_at, &identity.user, &identity.change))?;
    Ok(Sha256::digest(text).into())
}

/// Stores that a user was merged into another one.
pub(super) async fn add_merged(
    tx: &mut Tx,
    workspace: i32,
    gone: Uuid,
    kept: Uuid,
    merged_at: i64,
) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "INSERT INTO merged_users (workspace_id, service_id, kept_as, merged_at)
             VALUES ($1, $2, $3, $4)",
        )
        .bind(workspace)
        .bind(gone)
        .bind(kept)
        .bind(merged_at)
    );
    Ok(())
}

/// The users into which these were merged recently.
pub(super) async fn find_merged(
    tx: &mut Tx,
    workspace: i32,
    ids: &[Uuid],
) -> Result<HashMap<Uuid, Uuid>, StoreError> {
    let mut merged: HashMap<Uuid, Uuid> = HashMap::new();
    let mut wanted = ids.to_vec();
    while !wanted.is_empty() {
        let found = kept_as(tx, workspace, &wanted).await?;
        // The user into which one was merged may itself have been merged since.
        for kept in merged.values_mut() {
            *kept = found.get(kept).copied().unwrap_or(*kept);
        }
        wanted = found.values().copied().collect();
        let asked = found.into_iter().filter(|(gone, _)| ids.contains(gone));
        merged.extend(asked.collect::<Vec<_>>());
    }
    Ok(merged)
}

async fn kept_as(
    tx: &mut Tx,
    workspace: i32,
    ids: &[Uuid],
) -> Result<HashMap<Uuid, Uuid>, StoreError> {
    let rows: Vec<(Uuid, Uuid)> = match tx {
        Tx::Postgres(tx) => {
            sqlx::query_as(
                "SELECT service_id, kept_as FROM merged_users
                 WHERE workspace_id = $1 AND service_id = ANY($2)",
            )
            .bind(workspace)
            .bind(ids)
            .fetch_all(&mut **tx)
            .await?
        }
        Tx::Sqlite(tx) => {
            sqlx::query_as(
                "SELECT service_id, kept_as FROM merged_users
                 WHERE workspace_id = $1
                   AND service_id IN (SELECT unhex(wanted.value, '-') FROM json_each($2) AS wanted)",
            )
            .bind(workspace)
            .bind(to_json(ids)?)
            .fetch_all(&mut **tx)
            .await?
        }
    };
    Ok(rows.into_iter().collect())
}
