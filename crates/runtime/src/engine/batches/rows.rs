//! The SQL of dead letters, and of records of messages in progress.
//!
//! A message is identified by its place in the log and the time at which it was appended: after a
//! log or a topic was lost and created again, its offsets repeat.

use uuid::Uuid;

use log::Message;
use store::{StoreError, Tx, execute, from_row, on};

/// The stored workspace of a dead letter without one: an unreadable message, or one of `exports`,
/// which has only an id. No workspace has this number.
const NO_WORKSPACE: i32 = 0;

/// A dead letter and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    pub id: Uuid,
    /// None if it is not determined yet; of no workspace if the message does not have one.
    pub workspace_id: Option<i32>,
    pub consumer_group: String,
    pub topic: String,
    pub partition: i32,
    /// The message's offset.
    pub position: i64,
    /// When it was appended, in milliseconds since the epoch.
    pub appended_at: i64,
    /// See [`Message::log_time`].
    pub log_time: Option<i64>,
    pub key: Vec<u8>,
    pub payload: Vec<u8>,
    pub request_id: String,
    pub reason: String,
    pub attempts: i32,
    /// Milliseconds since the epoch.
    pub created_at: i64,
}
from_row! {
    DeadLetter {
        id, workspace_id, consumer_group, topic, partition, position, appended_at, log_time,
        key, payload, request_id, reason, attempts, created_at,
    }
}

/// The record of a message: the number of its starts without a clean end, and how many of them were
/// alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempts {
    pub count: i32,
    pub alone: i32,
}

pub async fn attempts(tx: &mut Tx, group: &str, message: &Message) -> Result<Attempts, StoreError> {
    let attempts = on!(tx, c => sqlx::query_as::<_, (i32, i32)>(
        "SELECT attempts, alone FROM message_attempts
         WHERE consumer_group = $1 AND topic = $2 AND partition = $3 AND position = $4
           AND appended_at = $5",
    )
    .bind(group).bind(message.topic.name()).bind(message.partition).bind(message.offset)
    .bind(message.appended_at)
    .fetch_optional(c).await?);
    Ok(attempts.map_or_else(Attempts::default, |(count, alone)| Attempts { count, alone }))
}

/// Records another start of a message.
pub async fn record_start(
    tx: &mut Tx,
    group: &str,
    message: &Message,
    alone: bool,
) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "INSERT INTO message_attempts
         (consumer_group, topic, partition, position, appended_at, attempts, alone)
         VALUES ($1, $2, $3, $4, $5, 1, $6)
         ON CONFLICT (consumer_group, topic, partition, position, appended_at)
         DO UPDATE SET attempts = message_attempts.attempts + 1,
             alone = message_attempts.alone + excluded.alone",
        )
        .bind(group)
        .bind(message.topic.name())
        .bind(message.partition)
        .bind(message.offset)
        .bind(message.appended_at)
        .bind(i32::from(alone))
    );
    Ok(())
}

/// Deletes the record of a message after a clean end.
pub async fn delete_attempts(
    tx: &mut Tx,
    group: &str,
    message: &Message,
) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "DELETE FROM message_attempts
         WHERE consumer_group = $1 AND topic = $2 AND partition = $3 AND position = $4
           AND appended_at = $5",
        )
        .bind(group)
        .bind(message.topic.name())
        .bind(message.partition)
        .bind(message.offset)
        .bind(message.appended_at)
    );
    Ok(())
}

/// Stores a dead letter. An existing one stays as it is.
pub async fn insert_dead_letter(
    tx: &mut Tx,
    group: &str,
    message: &Message,
    reason: &str,
    attempts: i32,
    now_ms: i64,
) -> Result<(), StoreError> {
    let (reason, request_id) = (without_nul(reason), without_nul(&message.request_id));
    let workspace = workspace_of(&message.payload);
    execute!(
        tx,
        sqlx::query(
            "INSERT INTO dead_letters
         (id, consumer_group, topic, partition, position, appended_at, key, payload, request_id,
          reason, attempts, created_at, workspace_id, log_time)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
         ON CONFLICT (consumer_group, topic, partition, position, appended_at) DO NOTHING",
        )
        .bind(Uuid::now_v7())
        .bind(group)
        .bind(message.topic.name())
        .bind(message.partition)
        .bind(message.offset)
        .bind(message.appended_at)
        .bind(message.key.as_slice())
        .bind(message.payload.as_slice())
        .bind(request_id.as_str())
        .bind(reason.as_str())
        .bind(attempts)
        .bind(now_ms)
        .bind(workspace)
        .bind(message.log_time)
    );
    Ok(())
}

/// The workspace in a payload that is JSON. Its name there differs between topics.
fn workspace_of(payload: &[u8]) -> i32 {
    #[derive(serde::Deserialize)]
    struct Head {
        #[serde(alias = "workspace_id")]
        workspace: i32,
    }
    serde_json::from_slice(payload).map_or(NO_WORKSPACE, |Head { workspace }| workspace)
}

/// PostgreSQL does not allow NUL in text.
fn without_nul(text: &str) -> String {
    text.replace('\0', "␀")
}

/// Deletes a retried dead letter, or keeps the parts that failed, with the reason; `false` if it
/// has changed meanwhile.
pub async fn settle(
    tx: &mut Tx,
    id: Uuid,
    tried: &Message,
    remaining: Option<(&Message, &str)>,
) -> Result<bool, StoreError> {
    let tried = tried.payload.as_slice();
    let changed = match remaining {
        None => {
            let sql = "DELETE FROM dead_letters WHERE id = $1 AND payload = $2";
            execute!(tx, sqlx::query(sql).bind(id).bind(tried))
        }
        Some((message, reason)) => {
            let sql = "UPDATE dead_letters SET payload = $3, reason = $4
                       WHERE id = $1 AND payload = $2";
            let (payload, reason) = (message.payload.as_slice(), without_nul(reason));
            execute!(tx, sqlx::query(sql).bind(id).bind(tried).bind(payload).bind(reason.as_str()))
        }
    };
    Ok(changed == 1)
}

/// The dead letters after one, oldest first.
pub async fn dead_letters(
    tx: &mut Tx,
    after: Option<(i64, Uuid)>,
    limit: i64,
) -> Result<Vec<DeadLetter>, StoreError> {
    let (after_at, after_id) = after.unwrap_or((i64::MIN, Uuid::nil()));
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT id, workspace_id, consumer_group, topic, partition, position, appended_at,
                log_time, key, payload, request_id, reason, attempts, created_at
         FROM dead_letters WHERE (created_at, id) > ($1, $2) ORDER BY created_at, id LIMIT $3",
    )
    .bind(after_at).bind(after_id).bind(limit).fetch_all(c).await?))
}

pub async fn dead_letter(tx: &mut Tx, id: Uuid) -> Result<Option<DeadLetter>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT id, workspace_id, consumer_group, topic, partition, position, appended_at,
                log_time, key, payload, request_id, reason, attempts, created_at
         FROM dead_letters WHERE id = $1",
    )
    .bind(id).fetch_optional(c).await?))
}

// Lists ------------------------------------------------------------------------------------

/// A dead letter with only the beginning of its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedDeadLetter {
    pub id: Uuid,
    /// None if the message has none, or if it is not determined yet.
    pub workspace_id: Option<i32>,
    pub consumer_group: String,
    pub topic: String,
    pub partition: i32,
    /// The message's offset.
    pub position: i64,
    pub request_id: String,
    pub reason: String,
    pub attempts: i32,
    /// Milliseconds since the epoch.
    pub created_at: i64,
    /// The size of the payload.
    pub bytes: i64,
    pub beginning: Vec<u8>,
}
from_row! {
    ListedDeadLetter {
        id, workspace_id, consumer_group, topic, partition, position, request_id, reason, attempts,
        created_at, bytes, beginning,
    }
}

/// The columns of a [`ListedDeadLetter`], with this many bytes of its payload.
macro_rules! listed {
    ($bytes:literal, $rest:literal) => {
        concat!(
            "SELECT id, nullif(workspace_id, 0) AS workspace_id, consumer_group, topic, partition,
                    position, request_id, reason, attempts, created_at,
                    CAST(length(payload) AS BIGINT) AS bytes, substr(payload, 1, ",
            $bytes,
            ") AS beginning FROM dead_letters WHERE ",
            $rest
        )
    };
}

/// A workspace's dead letters after one, oldest first; nothing of their payloads.
pub async fn list_for_workspace(
    tx: &mut Tx,
    workspace: i32,
    after: Option<(i64, Uuid)>,
    limit: i64,
) -> Result<Vec<ListedDeadLetter>, StoreError> {
    let (after_at, after_id) = after.unwrap_or((i64::MIN, Uuid::nil()));
    Ok(on!(tx, c => sqlx::query_as(listed!(
        "0",
        "workspace_id = $1 AND (created_at, id) > ($2, $3) ORDER BY created_at, id LIMIT $4"
    ))
    .bind(workspace).bind(after_at).bind(after_id).bind(limit).fetch_all(c).await?))
}

/// The dead letters before one, newest first, of a workspace or of the whole installation; nothing
/// of their payloads.
pub async fn list_newest(
    tx: &mut Tx,
    workspace: Option<i32>,
    before: Option<(i64, Uuid)>,
    limit: i64,
) -> Result<Vec<ListedDeadLetter>, StoreError> {
    let (before_at, before_id) = before.unwrap_or((i64::MAX, Uuid::max()));
    let Some(workspace) = workspace else {
        // Their ids are in the order of time, and have an index.
        let sql = listed!("0", "id < $1 ORDER BY id DESC LIMIT $2");
        return Ok(on!(tx, c => sqlx::query_as(sql)
            .bind(before_id).bind(limit).fetch_all(c).await?));
    };
    Ok(on!(tx, c => sqlx::query_as(listed!(
        "0",
        "workspace_id = $1 AND (created_at, id) < ($2, $3)
         ORDER BY created_at DESC, id DESC LIMIT $4"
    ))
    .bind(workspace).bind(before_at).bind(before_id).bind(limit).fetch_all(c).await?))
}

/// A dead letter, of a workspace or of the whole installation, with at most this many bytes of its
/// payload.
pub async fn find(
    tx: &mut Tx,
    workspace: Option<i32>,
    id: Uuid,
    payload_bytes: i32,
) -> Result<Option<ListedDeadLetter>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(listed!(
        "$3",
        "id = $2 AND ($1 IS NULL OR workspace_id = $1)"
    ))
    .bind(workspace).bind(id).bind(payload_bytes).fetch_optional(c).await?))
}

/// Deletes a dead letter, of a workspace or of the whole installation; `false` if the id is unknown
/// there.
pub async fn remove(tx: &mut Tx, workspace: Option<i32>, id: Uuid) -> Result<bool, StoreError> {
    let sql = "DELETE FROM dead_letters WHERE id = $2 AND ($1 IS NULL OR workspace_id = $1)";
    Ok(execute!(tx, sqlx::query(sql).bind(workspace).bind(id)) == 1)
}

/// Dead letters whose workspace is not determined, with their payloads.
pub async fn without_workspace(
    tx: &mut Tx,
    limit: i64,
) -> Result<Vec<(Uuid, Vec<u8>)>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT id, payload FROM dead_letters WHERE workspace_id IS NULL LIMIT $1",
    )
    .bind(limit).fetch_all(c).await?))
}

/// Stores the workspace in a dead letter's payload.
pub async fn set_workspace(tx: &mut Tx, id: Uuid, payload: &[u8]) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query("UPDATE dead_letters SET workspace_id = $2 WHERE id = $1")
            .bind(id)
            .bind(workspace_of(payload))
    );
    Ok(())
}

/// The number of dead letters of each workspace, each counted up to `limit`. None for those whose
/// workspace is unknown. Reads only an index.
pub async fn count_by_workspace(
    tx: &mut Tx,
    limit: i64,
) -> Result<Vec<(Option<i32>, i64)>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "WITH RECURSIVE ids AS (
             SELECT (SELECT workspace_id FROM dead_letters WHERE workspace_id > $2
                     ORDER BY workspace_id LIMIT 1) AS id
             UNION ALL
             SELECT (SELECT workspace_id FROM dead_letters WHERE workspace_id > ids.id
                     ORDER BY workspace_id LIMIT 1)
             FROM ids WHERE ids.id IS NOT NULL
         )
         SELECT id, (SELECT count(*) FROM (
                         SELECT created_at FROM dead_letters WHERE workspace_id = ids.id
                         LIMIT $1) AS counted)
         FROM ids WHERE id IS NOT NULL
         UNION ALL
         SELECT NULL, letters FROM (
             SELECT (SELECT count(*) FROM (
                         SELECT created_at FROM dead_letters WHERE workspace_id = $2
                         LIMIT $1) AS counted)
                  + (SELECT count(*) FROM (
                         SELECT created_at FROM dead_letters WHERE workspace_id IS NULL
                         LIMIT $1) AS counted) AS letters) AS of_unknown
         WHERE letters > 0",
    )
    .bind(limit)
    .bind(NO_WORKSPACE)
    .fetch_all(c)
    .await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_that_of_the_payload() {
        for (payload, workspace) in [
            (r#"{"v":1,"workspace":7,"objects":[]}"#, 7),
            (r#"{"v":1,"dispatch_id":"0192","workspace_id":8,"messages":{}}"#, 8),
            (r#"{"v":1,"objects":[{"workspace":9}]}"#, NO_WORKSPACE),
            (r#"{"v":1,"workspace":"7"}"#, NO_WORKSPACE),
            ("019a9f3e-7c11-7d22-8e33-9f44a055b166", NO_WORKSPACE),
            ("", NO_WORKSPACE),
        ] {
            assert_eq!(workspace_of(payload.as_bytes()), workspace, "{payload}");
        }
    }
}
