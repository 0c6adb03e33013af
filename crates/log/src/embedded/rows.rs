//! The embedded log's tables and SQL.

use std::collections::BTreeMap;

use futures::TryStreamExt as _;
use sqlx::{QueryBuilder, Sqlite, SqliteConnection, SqlitePool};
use uuid::Uuid;

use crate::cursors::{OffsetRange, TopicOffsets};
use crate::message::{Message, Topic};
use crate::offsets::GroupOffset;

/// Rows of one statement: the cost is per statement, not per row.
const ROWS: usize = 50;

/// Messages that one [`trim`] checks.
const TRIM: i64 = 1_000;

/// The next offset of each partition.
pub type Positions = BTreeMap<(Topic, i32), i64>;

/// A message with its place.
pub struct Row {
    pub topic: Topic,
    pub partition: i32,
    pub offset: i64,
    pub key: Vec<u8>,
    pub payload: Vec<u8>,
    pub request_id: String,
    pub appended_at: i64,
}

/// Creates missing tables. Returns the partition count stored in the file, which is `partitions`
/// for a new file.
pub async fn create(pool: &SqlitePool, partitions: u32) -> Result<u32, sqlx::Error> {
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
    sqlx::raw_sql(
        "CREATE TABLE IF NOT EXISTS settings (
             name  TEXT PRIMARY KEY,
             value TEXT NOT NULL
         );
         CREATE TABLE IF NOT EXISTS messages (
             id          INTEGER PRIMARY KEY,
             topic       TEXT NOT NULL,
             partition   INTEGER NOT NULL,
             position    INTEGER NOT NULL,
             appended_at INTEGER NOT NULL,
             key         BLOB NOT NULL,
             payload     BLOB NOT NULL,
             request_id  TEXT NOT NULL,
             UNIQUE (topic, partition, position)
         );
         -- The position that the next message of a partition gets, kept when all are trimmed.
         CREATE TABLE IF NOT EXISTS ends (
             topic     TEXT NOT NULL,
             partition INTEGER NOT NULL,
             next      INTEGER NOT NULL,
             PRIMARY KEY (topic, partition)
         ) WITHOUT ROWID;
         -- The position before which a group is done with a partition.
         CREATE TABLE IF NOT EXISTS offsets (
             consumer_group TEXT NOT NULL,
             topic          TEXT NOT NULL,
             partition      INTEGER NOT NULL,
             next           INTEGER NOT NULL,
             PRIMARY KEY (consumer_group, topic, partition)
         ) WITHOUT ROWID;",
    )
    .execute(&mut *tx)
    .await?;
    // The id distinguishes this log from one recreated in its place.
    sqlx::query(
        "INSERT INTO settings (name, value) VALUES ('partitions', $1), ('id', $2)
         ON CONFLICT (name) DO NOTHING",
    )
    .bind(partitions.to_string())
    .bind(Uuid::new_v4().to_string())
    .execute(&mut *tx)
    .await?;
    let fixed = sqlx::query_scalar(PARTITIONS).fetch_one(&mut *tx).await?;
    tx.commit().await?;
    Ok(fixed)
}

const PARTITIONS: &str = "SELECT CAST(value AS INTEGER) FROM settings WHERE name = 'partitions'";

/// The partition count stored in an existing file.
pub async fn partitions(pool: &SqlitePool) -> Result<u32, sqlx::Error> {
    sqlx::query_scalar(PARTITIONS).fetch_one(pool).await
}

/// Gives the log a new id, and records where the log with the former one ended: the messages up to
/// there are those of both.
pub async fn fork(pool: &SqlitePool) -> Result<(), sqlx::Error> {
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
    sqlx::query(
        "INSERT INTO settings (name, value)
         SELECT 'fork.' || value,
                (SELECT json_group_object(topic || '/' || partition, next) FROM ends)
         FROM settings WHERE name = 'id'",
    )
    .execute(&mut *tx)
    .await?;
    sqlx::query("UPDATE settings SET value = $1 WHERE name = 'id'")
        .bind(Uuid::new_v4().to_string())
        .execute(&mut *tx)
        .await?;
    tx.commit().await
}

/// The end of a partition in the log with a former id, when this one was forked from it; none if it
/// was not.
pub async fn fork_end(
    pool: &SqlitePool,
    id: &str,
    topic: Topic,
    partition: i32,
) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar(
        "SELECT coalesce((SELECT ends.value FROM json_each(settings.value) AS ends
                          WHERE ends.key = $2), 0)
         FROM settings WHERE name = 'fork.' || $1",
    )
    .bind(id)
    .bind(format!("{}/{partition}", topic.name()))
    .fetch_optional(pool)
    .await
}

/// When the last message was appended; 0 in a new log. It is also stored separately, because
/// messages are deleted.
pub async fn last_append(c: &mut SqliteConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(
        "SELECT max(coalesce((SELECT CAST(value AS INTEGER) FROM settings
                              WHERE name = 'last_append'), 0),
                    coalesce((SELECT appended_at FROM messages ORDER BY id DESC LIMIT 1), 0))",
    )
    .fetch_one(c)
    .await
}

pub async fn set_last_append(c: &mut SqliteConnection, ms: i64) -> Result<(), sqlx::Error> {
    set(c, "last_append", ms).await
}

/// A number that changes when another connection has changed the file.
pub async fn data_version(c: &mut SqliteConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("PRAGMA data_version").fetch_one(c).await
}

/// Writes a row.
pub async fn probe(c: &mut SqliteConnection, now: i64) -> Result<(), sqlx::Error> {
    set(c, "ready.probe", now).await
}

async fn set(c: &mut SqliteConnection, name: &str, value: i64) -> Result<(), sqlx::Error> {
    sqlx::query(
        "INSERT INTO settings (name, value) VALUES ($1, $2)
         ON CONFLICT (name) DO UPDATE SET value = excluded.value",
    )
    .bind(name)
    .bind(value.to_string())
    .execute(c)
    .await?;
    Ok(())
}

/// The problems that SQLite's own check of the file finds.
pub async fn check(pool: &SqlitePool) -> Result<Vec<String>, sqlx::Error> {
    let lines: Vec<String> = sqlx::query_scalar("PRAGMA quick_check").fetch_all(pool).await?;
    Ok(lines.into_iter().filter(|line| line != "ok").map(|l| format!("log.db: {l}")).collect())
}

/// The end of each partition of the `topics`; ignores partitions that only another program knows.
pub async fn ends(c: &mut SqliteConnection, topics: &[Topic]) -> Result<Positions, sqlx::Error> {
    let rows: Vec<(String, i32, i64)> =
        sqlx::query_as("SELECT topic, partition, next FROM ends").fetch_all(c).await?;
    let ends = rows.into_iter().filter_map(|(name, partition, next)| {
        let topic = topics.iter().find(|topic| topic.name() == name)?;
        Some(((*topic, partition), next))
    });
    Ok(ends.collect())
}

/// A topic's content in the log.
pub async fn topic_offsets(
    pool: &SqlitePool,
    topic: Topic,
    partitions: u32,
) -> Result<TopicOffsets, sqlx::Error> {
    let mut tx = pool.begin().await?;
    let id = sqlx::query_scalar("SELECT value FROM settings WHERE name = 'id'")
        .fetch_one(&mut *tx)
        .await?;
    let ranges: Vec<(i32, i64, i64)> = sqlx::query_as(
        "WITH RECURSIVE numbers (n) AS (
             SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < $2
         ), known (n, next) AS (
             SELECT n, coalesce((SELECT next FROM ends WHERE topic = $1 AND partition = n), 0)
             FROM numbers
         )
         SELECT n, coalesce((SELECT min(position) FROM messages
                             WHERE topic = $1 AND partition = n), next), next
         FROM known",
    )
    .bind(topic.name())
    .bind(partitions)
    .fetch_all(&mut *tx)
    .await?;
    tx.commit().await?;
    let range = |(partition, earliest, end)| OffsetRange { partition, earliest, end };
    Ok(TopicOffsets { id, ranges: ranges.into_iter().map(range).collect() })
}

pub async fn set_ends(c: &mut SqliteConnection, ends: &Positions) -> Result<(), sqlx::Error> {
    let mut query = QueryBuilder::<Sqlite>::new("INSERT INTO ends (topic, partition, next) ");
    query.push_values(ends, |mut values, ((topic, partition), next)| {
        values.push_bind(topic.name()).push_bind(*partition).push_bind(*next);
    });
    query.push(" ON CONFLICT (topic, partition) DO UPDATE SET next = excluded.next");
    query.build().execute(c).await?;
    Ok(())
}

pub async fn insert(c: &mut SqliteConnection, rows: Vec<Row>) -> Result<(), sqlx::Error> {
    let mut rows = rows.into_iter().peekable();
    while rows.peek().is_some() {
        let mut query = QueryBuilder::<Sqlite>::new(
            "INSERT INTO messages
             (topic, partition, position, key, payload, request_id, appended_at) ",
        );
        query.push_values(rows.by_ref().take(ROWS), |mut values, row| {
            values
                .push_bind(row.topic.name())
                .push_bind(row.partition)
                .push_bind(row.offset)
                .push_bind(row.key)
                .push_bind(row.payload)
                .push_bind(row.request_id)
                .push_bind(row.appended_at);
        });
        query.build().execute(&mut *c).await?;
    }
    Ok(())
}

/// Reads messages of a partition from `from` on: up to `limit`, or fewer once they have `enough`
/// bytes of payload.
pub async fn read(
    pool: &SqlitePool,
    topic: Topic,
    partition: i32,
    from: i64,
    limit: usize,
    enough: usize,
) -> Result<Vec<Message>, sqlx::Error> {
    let mut rows = sqlx::query_as::<_, (i64, i64, Vec<u8>, Vec<u8>, String)>(
        "SELECT position, appended_at, key, payload, request_id FROM messages
         WHERE topic = $1 AND partition = $2 AND position >= $3
         ORDER BY position LIMIT $4",
    )
    .bind(topic.name())
    .bind(partition)
    .bind(from)
    .bind(i64::try_from(limit).unwrap_or(i64::MAX))
    .fetch(pool);
    let (mut messages, mut bytes) = (Vec::new(), 0);
    while bytes < enough
        && let Some((offset, appended_at, key, payload, request_id)) = rows.try_next().await?
    {
        bytes += payload.len();
        messages.push(Message {
            topic,
            partition,
            offset,
            appended_at,
            log_time: Some(appended_at),
            key,
            payload,
            request_id,
        });
    }
    Ok(messages)
}

/// Registers a group, starting at the oldest message of each partition if it is new. Returns its
/// position in each.
pub async fn register(
    pool: &SqlitePool,
    group: &str,
    topic: Topic,
    partitions: u32,
) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::query(
        "WITH RECURSIVE numbers (n) AS (
             SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < $3
         )
         INSERT INTO offsets (consumer_group, topic, partition, next)
         SELECT $1, $2, n, 0 FROM numbers WHERE true
         ON CONFLICT (consumer_group, topic, partition) DO NOTHING",
    )
    .bind(group)
    .bind(topic.name())
    .bind(partitions)
    .execute(pool)
    .await?;
    sqlx::query_scalar(
        "SELECT next FROM offsets WHERE consumer_group = $1 AND topic = $2 ORDER BY partition",
    )
    .bind(group)
    .bind(topic.name())
    .fetch_all(pool)
    .await
}

/// Stores a group's position; never moves it back.
pub async fn commit(
    c: &mut SqliteConnection,
    group: &str,
    topic: Topic,
    positions: &[(i32, i64)],
) -> Result<(), sqlx::Error> {
    if positions.is_empty() {
        return Ok(());
    }
    let mut query = QueryBuilder::<Sqlite>::new(
        "INSERT INTO offsets (consumer_group, topic, partition, next) ",
    );
    query.push_values(positions, |mut values, (partition, next)| {
        values.push_bind(group).push_bind(topic.name()).push_bind(*partition).push_bind(*next);
    });
    query.push(
        " ON CONFLICT (consumer_group, topic, partition)
          DO UPDATE SET next = max(next, excluded.next)",
    );
    query.build().execute(c).await?;
    Ok(())
}

/// Moves a group to a position, also back.
pub async fn move_group(
    c: &mut SqliteConnection,
    topic: Topic,
    position: &GroupOffset,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "UPDATE offsets SET next = $4
         WHERE consumer_group = $1 AND topic = $2 AND partition = $3",
    )
    .bind(&position.consumer_group)
    .bind(topic.name())
    .bind(position.partition)
    .bind(position.next)
    .execute(c)
    .await?;
    Ok(())
}

/// Checks some messages after the id `after`, and deletes those appended before `before` that every
/// known group has processed. Returns the id to continue after; none at the end.
pub async fn trim(pool: &SqlitePool, after: i64, before: i64) -> Result<Option<i64>, sqlx::Error> {
    let last: Option<i64> = sqlx::query_scalar(
        "SELECT max(id) FROM (SELECT id, appended_at FROM messages WHERE id > $1
                              ORDER BY id LIMIT $2)
         WHERE appended_at < $3",
    )
    .bind(after)
    .bind(TRIM)
    .bind(before)
    .fetch_one(pool)
    .await?;
    let Some(last) = last else { return Ok(None) };
    let deleted = sqlx::query(
        // CROSS JOIN fixes the order: first the few messages, then the groups' positions.
        "DELETE FROM messages WHERE id IN (
             SELECT messages.id FROM messages
             CROSS JOIN (SELECT topic, partition, min(next) AS next FROM offsets
                         GROUP BY topic, partition) AS done
             WHERE messages.id > $1 AND messages.id <= $2 AND messages.appended_at < $3
               AND done.topic = messages.topic AND done.partition = messages.partition
               AND messages.position < done.next)",
    )
    .bind(after)
    .bind(last)
    .bind(before)
    .execute(pool)
    .await?;
    tracing::debug!(removed = deleted.rows_affected(), "consumed messages deleted");
    Ok(Some(last))
}
