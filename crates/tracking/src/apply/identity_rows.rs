//! The SQL of changes that name two users.

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::super::message::Identity;
use store::{StoreError, Tx, from_row, on, to_json};

/// The user that was found, if any.
pub(super) type Found = Option<Uuid>;

/// A change of which both copies were reached: the users that its names identified there, and when
/// the log got each copy, in milliseconds since the epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reached {
    pub first: Found,
    pub second: Found,
    pub first_at: i64,
    pub second_at: i64,
}

impl Reached {
    /// When the log had both copies. Whatever was received after the response is later.
    pub fn both_at(&self) -> i64 {
        self.first_at.max(self.second_at)
    }
}

#[derive(Debug)]
struct Row {
    received_at: i64,
    copies: i16,
    first_user: Found,
    second_user: Found,
    first_at: Option<i64>,
    second_at: Option<i64>,
}
from_row! { Row { received_at, copies, first_user, second_user, first_at, second_at } }

/// Records that a copy of a change, which the log got at a time, was reached, and which user its
/// name identified at this position in the log. Returns both users once the other copy was reached,
/// too. Repeated copies have no effect.
pub(super) async fn reach(
    tx: &mut Tx,
    workspace: i32,
    identity: &Identity<'_>,
    received_at: i64,
    at: i64,
    user: Found,
) -> Result<Option<Reached>, StoreError> {
    let (copies, first, second) =
        if identity.is_second { (2, None, user) } else { (1, user, None) };
    let (first_at, second_at) =
        if identity.is_second { (None, Some(at)) } else { (Some(at), None) };
    let row: Option<Row> = on!(tx, c => sqlx::query_as(
        "INSERT INTO identity_changes
             (workspace_id, change, received_at, copies, first_user, second_user, first_at,
              second_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
         ON CONFLICT (workspace_id, change) DO UPDATE
         SET copies = identity_changes.copies | excluded.copies,
             first_user = COALESCE(identity_changes.first_user, excluded.first_user),
             second_user = COALESCE(identity_changes.second_user, excluded.second_user),
             first_at = COALESCE(identity_changes.first_at, excluded.first_at),
             second_at = COALESCE(identity_changes.second_at, excluded.second_at)
         WHERE identity_changes.copies & excluded.copies = 0
         RETURNING received_at, copies, first_user, second_user, first_at, second_at",
    )
    .bind(workspace)
    .bind(&key(identity, received_at)?[..])
    .bind(at)
    .bind(copies)
    .bind(first)
    .bind(second)
    .bind(first_at)
    .bind(second_at)
    .fetch_optional(c)
    .await?);
    // A worker of an earlier release stores no time of its copy.
    Ok(row.filter(|row| row.copies == 3).map(|row| Reached {
        first: row.first_user,
        second: row.second_user,
        first_at: row.first_at.unwrap_or(row.received_at),
        second_at: row.second_at.unwrap_or(row.received_at),
    }))
}

/// The common key of both copies of a change: a hash, so that no identifier is readable.
fn key(identity: &Identity<'_>, received_at: i64) -> Result<[u8; 32], StoreError> {
    let text = to_json(&(received_at, &identity.user, &identity.change))?;
    Ok(Sha256::digest(text).into())
}
