//! The SQL of records of erased users.

use std::borrow::Cow;

use sha2::{Digest as _, Sha256};

use super::address;
use log::message_ids::ID_RETENTION_MS;
use runtime::topics;
use store::{StoreError, Tx, execute, fetch_listed, on};

/// A name with which a user can be created again, or listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    ExternalId,
    Email,
    /// The [key](super::profile::Alias::key) of an alias. Schedules can list users by it.
    Alias,
}

impl Name {
    /// The spellings of a name that rows can have.
    pub fn spellings(self, value: &str) -> Vec<Cow<'_, str>> {
        match self {
            Self::Email => address::spellings(value),
            Self::ExternalId | Self::Alias => vec![Cow::Borrowed(value)],
        }
    }
}

/// The stored records of an erased name, one for each of its spellings.
pub fn name_hashes(name: Name, value: &str) -> Vec<[u8; 32]> {
    name.spellings(value).iter().map(|spelling| name_hash(name, spelling)).collect()
}

/// The stored record of a spelling of a name: a hash, so that the name is not readable.
pub fn name_hash(name: Name, value: &str) -> [u8; 32] {
    let kind = match name {
        Name::ExternalId => 1,
        Name::Email => 2,
        Name::Alias => 3,
    };
    hash(kind, value)
}

/// The hash of a phone number in E.164.
pub(super) fn phone_hash(number: &str) -> [u8; 32] {
    hash(4, number)
}

fn hash(kind: u8, value: &str) -> [u8; 32] {
    Sha256::new().chain_update([kind]).chain_update(value).finalize().into()
}

/// Stores that the user of an identifier was erased at a time (milliseconds since the epoch).
pub async fn add(
    tx: &mut Tx,
    workspace: i32,
    name_hash: [u8; 32],
    erased_at: i64,
) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "INSERT INTO erased (workspace_id, who, erased_at) VALUES ($1, $2, $3)
             ON CONFLICT (workspace_id, who) DO UPDATE SET erased_at = excluded.erased_at
             WHERE erased.erased_at < excluded.erased_at",
        )
        .bind(workspace)
        .bind(&name_hash[..])
        .bind(erased_at)
    );
    Ok(())
}

/// The times of erasure of those among `name_hashes`.
pub async fn find(
    tx: &mut Tx,
    workspace: i32,
    name_hashes: &[[u8; 32]],
) -> Result<Vec<(Vec<u8>, i64)>, StoreError> {
    Ok(fetch_listed!(
        tx,
        query_as,
        hashes(name_hashes),
        "SELECT who, erased_at FROM erased WHERE workspace_id = $2 AND who",
        workspace
    ))
}

/// Deletes records of erasures and of changes of two users before a time, unless an older dead
/// letter can still be retried: including the time in which a message can be repeated before its
/// append.
pub async fn delete_old(tx: &mut Tx, before: i64) -> Result<(), StoreError> {
    let waiting = "SELECT min(appended_at) - $2 FROM dead_letters WHERE topic = $1";
    let oldest: Option<i64> = on!(tx, c => sqlx::query_scalar(waiting)
        .bind(topics::TRACKING.name())
        .bind(ID_RETENTION_MS)
        .fetch_one(c)
        .await?);
    let before = oldest.map_or(before, |oldest| oldest.min(before));
    for sql in [
        "DELETE FROM erased WHERE erased_at < $1",
        "DELETE FROM identity_changes WHERE received_at < $1",
    ] {
        execute!(tx, sqlx::query(sql).bind(before));
    }
    Ok(())
}
