//! Messages that may be appended more than once: their ids are remembered, so that they are
//! applied once.
//!
//! The id is the message's key. That says nothing of its partition, so such a message is one
//! for a [partition](crate::message::NewMessage::partition) of its own, and comes again there only.

use std::collections::HashSet;

use uuid::Uuid;

use crate::message::{Message, Topic};
use store::{StoreError, Tx, execute, insert_rows, to_json};

/// How long an id is remembered at least, in milliseconds since its message was appended, by
/// its gateway's clock and by the database's: twice as long as an Idempotency-Key holds
/// (src/gateway/README.md, Sending a call again).
pub const REMEMBERED: i64 = 48 * 60 * 60 * 1000;

/// Ids removed by one [`sweep`].
const SWEEP: i64 = 10_000;

/// The id of a message that may have been appended before; others have none.
pub fn id_of(message: &Message) -> Option<Uuid> {
    Uuid::from_slice(&message.key).ok()
}

/// The id of one of the messages that are appended together, from an id of all of them.
pub fn numbered(all: Uuid, number: usize) -> Uuid {
    Uuid::from_u128(all.as_u128().wrapping_add(number as u128))
}

/// Where ids are remembered: a message comes again on its own partition only.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    pub group: &'a str,
    pub topic: Topic,
    pub partition: i32,
}

impl<'a> Scope<'a> {
    pub fn of(group: &'a str, message: &Message) -> Self {
        Self { group, topic: message.topic, partition: message.partition }
    }
}

/// Which of some ids are remembered.
pub async fn known(
    tx: &mut Tx,
    scope: Scope<'_>,
    ids: &[Uuid],
) -> Result<HashSet<Uuid>, StoreError> {
    let known: Vec<Uuid> = match tx {
        Tx::Postgres(tx) => {
            sqlx::query_scalar(
                "SELECT id FROM message_ids
                 WHERE consumer_group = $1 AND topic = $2 AND partition = $3 AND id = ANY($4)",
            )
            .bind(scope.group)
            .bind(scope.topic.name())
            .bind(scope.partition)
            .bind(ids)
            .fetch_all(&mut **tx)
            .await?
        }
        Tx::Sqlite(tx) => {
            sqlx::query_scalar(
                "SELECT id FROM message_ids
                 WHERE consumer_group = $1 AND topic = $2 AND partition = $3
                 AND id IN (SELECT unhex(value, '-') FROM json_each($4))",
            )
            .bind(scope.group)
            .bind(scope.topic.name())
            .bind(scope.partition)
            .bind(to_json(ids)?)
            .fetch_all(&mut **tx)
            .await?
        }
    };
    Ok(known.into_iter().collect())
}

/// Remembers ids, each with the time at which its message was appended, in one statement;
/// answers those that were not known. An id that is given twice is answered once.
pub async fn remember(
    tx: &mut Tx,
    scope: Scope<'_>,
    ids: &[(Uuid, i64)],
) -> Result<HashSet<Uuid>, StoreError> {
    // In one order, so that two consumers do not wait for each other.
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

/// Forgets ids of messages appended before `before`, some at a time; whether more are left.
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
        .bind(SWEEP)
    );
    Ok(removed == SWEEP as u64)
}
