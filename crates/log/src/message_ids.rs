//! Messages that may be appended more than once: their ids are remembered, so that they are
//! applied once.
//!
//! The id is the message's key. That says nothing of its partition, so such a message is one
//! for a [partition](crate::message::NewMessage::partition) of its own, and comes again there only.

use std::collections::HashSet;

use uuid::Uuid;

use crate::message::{Message, Topic};
use store::{StoreError, Tx, execute, to_json};

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
            let ids: Vec<_> = ids.iter().map(|id| id.simple().to_string()).collect();
            let ids = to_json(&ids)?;
            sqlx::query_scalar(
                "SELECT id FROM message_ids
                 WHERE consumer_group = $1 AND topic = $2 AND partition = $3
                 AND id IN (SELECT unhex(value) FROM json_each($4))",
            )
            .bind(scope.group)
            .bind(scope.topic.name())
            .bind(scope.partition)
            .bind(ids)
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
    if ids.is_empty() {
        return Ok(HashSet::new());
    }
    let new: Vec<Uuid> = match tx {
        Tx::Postgres(tx) => {
            let (ids, times): (Vec<Uuid>, Vec<i64>) = ids.iter().copied().unzip();
            sqlx::query_scalar(
                "INSERT INTO message_ids (consumer_group, topic, partition, id, appended_at)
                 SELECT $1, $2, $3, id, appended_at
                 FROM unnest($4::uuid[], $5::bigint[]) AS new (id, appended_at) ORDER BY id
                 ON CONFLICT (consumer_group, topic, partition, id) DO NOTHING RETURNING id",
            )
            .bind(scope.group)
            .bind(scope.topic.name())
            .bind(scope.partition)
            .bind(ids)
            .bind(times)
            .fetch_all(&mut **tx)
            .await?
        }
        Tx::Sqlite(tx) => {
            let pairs: Vec<_> = ids.iter().map(|(id, at)| (id.simple().to_string(), at)).collect();
            let pairs = to_json(&pairs)?;
            sqlx::query_scalar(
                "INSERT INTO message_ids (consumer_group, topic, partition, id, appended_at)
                 SELECT $1, $2, $3, unhex(new.value ->> 0), new.value ->> 1
                 FROM json_each($4) AS new WHERE true
                 ON CONFLICT (consumer_group, topic, partition, id) DO NOTHING RETURNING id",
            )
            .bind(scope.group)
            .bind(scope.topic.name())
            .bind(scope.partition)
            .bind(pairs)
            .fetch_all(&mut **tx)
            .await?
        }
    };
    Ok(new.into_iter().collect())
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
