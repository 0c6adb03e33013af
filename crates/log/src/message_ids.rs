//! Messages that may be appended more than once: their ids are stored, so that they are applied
//! once.
//!
//! The id is the message's key. It does not determine the partition, so such a message has a fixed
//! [partition](crate::message::NewMessage::partition) and is repeated only there.

use std::collections::HashSet;

use uuid::Uuid;

use crate::message::{Message, Topic};
use store::{StoreError, Tx, execute, fetch_listed, insert_rows};

/// Minimum time that an id is stored, in milliseconds since its message was appended, by its
/// gateway's clock and by the database's: twice the lifetime of an Idempotency-Key.
pub const ID_RETENTION_MS: i64 = 48 * 60 * 60 * 1000;

/// Maximum number of ids that one [`sweep`] deletes.
const MAX_SWEPT: i64 = 10_000;

/// The id of a message that may have been appended before; others have none.
///
/// Every key of 16 bytes is an id: of the messages of a partition that have it, only the first is
/// applied. Other keys must have another length.
pub fn id_of(message: &Message) -> Option<Uuid> {
    Uuid::from_slice(&message.key).ok()
}

/// Derives the id of one message from the id of the append, which all its messages share.
pub fn derive_id(append_id: Uuid, number: usize) -> Uuid {
    Uuid::from_u128(append_id.as_u128().wrapping_add(number as u128))
}

/// Where ids are stored: a message is repeated only on its own partition.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    pub group: &'a str,
    pub topic: Topic,
    pub partition: i32,
}

impl<'a> Scope<'a> {
    pub fn new(group: &'a str, message: &Message) -> Self {
        Self { group, topic: message.topic, partition: message.partition }
    }
}

/// Returns the ids that are already stored.
pub async fn known(
    tx: &mut Tx,
    scope: Scope<'_>,
    ids: &[Uuid],
) -> Result<HashSet<Uuid>, StoreError> {
    let known: Vec<Uuid> = fetch_listed!(
        tx,
        query_scalar,
        ids(ids),
        "SELECT id FROM message_ids
         WHERE consumer_group = $2 AND topic = $3 AND partition = $4 AND id",
        scope.group,
        scope.topic.name(),
        scope.partition
    );
    Ok(known.into_iter().collect())
}

/// Stores ids in one statement, each with the time from which its retention counts: when its
/// message was appended, or later. Returns those that are new; a duplicate is returned once.
pub async fn remember(
    tx: &mut Tx,
    scope: Scope<'_>,
    ids: &[(Uuid, i64)],
) -> Result<HashSet<Uuid>, StoreError> {
    // The same order everywhere, so that two consumers do not deadlock.
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    let new = insert_rows!(tx, "message_ids", ids, |new| {
        consumer_group: scope.group,
        topic: scope.topic.name(),
        partition: scope.partition,
        id: new.0,
        appended_at: new.1,
    }, "ON CONFLICT (consumer_group, topic, partition, id) DO NOTHING RETURNING id" => (Uuid,));
    Ok(new.into_iter().map(|(id,)| id).collect())
}

/// Deletes at most [`MAX_SWEPT`] ids whose stored time is before `before`; returns whether more may
/// be left.
pub async fn sweep(tx: &mut Tx, scope: Scope<'_>, before: i64) -> Result<bool, StoreError> {
    let removed = execute!(
        tx,
        sqlx::query(
            "DELETE FROM message_ids
             WHERE consumer_group = $1 AND topic = $2 AND partition = $3 AND id IN (
                 SELECT id FROM message_ids
                 WHERE consumer_group = $1 AND topic = $2 AND partition = $3 AND appended_at < $4
                 ORDER BY appended_at LIMIT $5)",
        )
        .bind(scope.group)
        .bind(scope.topic.name())
        .bind(scope.partition)
        .bind(before)
        .bind(MAX_SWEPT)
    );
    Ok(removed == MAX_SWEPT as u64)
}
