//! The SQL of changes that name two users.

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::super::message::Identity;
use store::{StoreError, Tx, on, to_json};

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
