//! Offsets in the store. They move in the transaction that applies the messages: exactly once,
//! however often a worker is killed or a partition moves.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::TopicOffsets;
use crate::message::{Message, Topic};
use crate::partition_clock::PartitionClock;
use store::{Store, StoreError, Tx, execute, from_row, on};

/// A group's position in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupOffset {
    pub consumer_group: String,
    pub partition: i32,
    /// The [`TopicOffsets::id`] of the log that `next` belongs to.
    pub log_id: String,
    pub next: i64,
    /// How often an operator has reset the position.
    pub resets: i32,
}
from_row! { GroupOffset { consumer_group, partition, log_id, next, resets } }

/// The offsets of `topic`, by group and partition.
pub async fn positions(tx: &mut Tx, topic: Topic) -> Result<Vec<GroupOffset>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT consumer_group, partition, log_id, next, resets FROM log_offsets
         WHERE topic = $1 ORDER BY consumer_group, partition",
    )
    .bind(topic.name()).fetch_all(c).await?))
}

/// [`positions`] of each of `topics`.
pub async fn positions_by_topic(
    tx: &mut Tx,
    topics: &[Topic],
) -> Result<Vec<(Topic, Vec<GroupOffset>)>, StoreError> {
    let mut by_topic = Vec::with_capacity(topics.len());
    for topic in topics {
        by_topic.push((*topic, positions(tx, *topic).await?));
    }
    Ok(by_topic)
}

macro_rules! position_of_group {
    ($lock:literal) => {
        concat!(
            "SELECT consumer_group, partition, log_id, next, resets FROM log_offsets
             WHERE consumer_group = $1 AND topic = $2 AND partition = $3",
            $lock
        )
    };
}

/// The position of `group` in one partition; none if it has never consumed it.
pub async fn position(
    tx: &mut Tx,
    group: &str,
    topic: Topic,
    partition: i32,
) -> Result<Option<GroupOffset>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(position_of_group!(""))
        .bind(group).bind(topic.name()).bind(partition).fetch_optional(c).await?))
}

/// [`position`]. Locks its row: it does not move before the end of this transaction.
pub async fn lock(
    tx: &mut Tx,
    group: &str,
    topic: Topic,
    partition: i32,
) -> Result<Option<GroupOffset>, StoreError> {
    let sql =
        if tx.is_postgres() { position_of_group!(" FOR UPDATE") } else { position_of_group!("") };
    Ok(on!(tx, c => sqlx::query_as(sql)
        .bind(group).bind(topic.name()).bind(partition).fetch_optional(c).await?))
}

/// The positions of `group` in the partitions of `topic_offsets`, with the times of the messages
/// before them; new ones start at the oldest message in the log.
pub(super) async fn begin(
    store: &Store,
    group: &str,
    topic: Topic,
    topic_offsets: &TopicOffsets,
) -> Result<BTreeMap<i32, (GroupOffset, PartitionClock)>, StoreError> {
    let mut tx = store.write().await?;
    let mut positions = group_positions(&mut tx, group, topic).await?;
    let mut clocks = clocks(&mut tx, group, topic).await?;
    for range in &topic_offsets.ranges {
        if let Entry::Vacant(entry) = positions.entry(range.partition) {
            let position = GroupOffset {
                consumer_group: group.to_owned(),
                partition: range.partition,
                log_id: topic_offsets.id.clone(),
                next: range.earliest,
                resets: 0,
            };
            put_if_absent(&mut tx, topic, &position).await?;
            entry.insert(position);
        }
    }
    tx.commit().await?;
    let mut clock = |partition| clocks.remove(&partition).unwrap_or_default();
    Ok(positions.into_iter().map(|(partition, at)| (partition, (at, clock(partition)))).collect())
}

async fn clocks(
    tx: &mut Tx,
    group: &str,
    topic: Topic,
) -> Result<BTreeMap<i32, PartitionClock>, StoreError> {
    let rows: Vec<(i32, i64, i64)> = on!(tx, c => sqlx::query_as(
        "SELECT partition, last_appended_at, last_log_time FROM log_offsets
         WHERE consumer_group = $1 AND topic = $2 AND last_appended_at IS NOT NULL
           AND last_log_time IS NOT NULL",
    )
    .bind(group).bind(topic.name()).fetch_all(c).await?);
    let clock =
        |(partition, appended_at, log_time)| (partition, PartitionClock { appended_at, log_time });
    Ok(rows.into_iter().map(clock).collect())
}

async fn group_positions(
    tx: &mut Tx,
    group: &str,
    topic: Topic,
) -> Result<BTreeMap<i32, GroupOffset>, StoreError> {
    let positions = positions(tx, topic).await?.into_iter();
    let own = positions.filter(|position| position.consumer_group == group);
    Ok(own.map(|position| (position.partition, position)).collect())
}

/// Another worker may have been faster: the check in [`advance`] notices.
async fn put_if_absent(
    tx: &mut Tx,
    topic: Topic,
    position: &GroupOffset,
) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "INSERT INTO log_offsets (consumer_group, topic, partition, log_id, next)
             VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (consumer_group, topic, partition) DO NOTHING",
        )
        .bind(&position.consumer_group)
        .bind(topic.name())
        .bind(position.partition)
        .bind(&position.log_id)
        .bind(position.next)
    );
    Ok(())
}

/// Moves a group from `position` to `next`, and keeps the row locked until the transaction ends.
/// Returns `false` without a change if the group is no longer at `position`.
pub async fn advance(
    tx: &mut Tx,
    topic: Topic,
    position: &GroupOffset,
    next: i64,
) -> Result<bool, StoreError> {
    advance_to(tx, topic, position, next, None).await
}

/// [`advance`] to the offset after a message. The messages after it are ordered after it.
pub async fn advance_past(
    tx: &mut Tx,
    position: &GroupOffset,
    last: &Message,
) -> Result<bool, StoreError> {
    let times = last.log_time.map(|log_time| (last.appended_at, log_time));
    advance_to(tx, last.topic, position, last.offset + 1, times).await
}

async fn advance_to(
    tx: &mut Tx,
    topic: Topic,
    position: &GroupOffset,
    next: i64,
    times: Option<(i64, i64)>,
) -> Result<bool, StoreError> {
    let (appended_at, log_time) = times.unzip();
    let moved = execute!(
        tx,
        sqlx::query(
            "UPDATE log_offsets
             SET next = $6, last_appended_at = COALESCE($7, last_appended_at),
                 last_log_time = COALESCE($8, last_log_time)
             WHERE consumer_group = $1 AND topic = $2 AND partition = $3 AND log_id = $4
               AND next = $5",
        )
        .bind(&position.consumer_group)
        .bind(topic.name())
        .bind(position.partition)
        .bind(&position.log_id)
        .bind(position.next)
        .bind(next)
        .bind(appended_at)
        .bind(log_time)
    );
    Ok(moved == 1)
}

/// Moves a group to `position`, wherever it is; `false` if it has never consumed the partition.
pub async fn reset(tx: &mut Tx, topic: Topic, position: &GroupOffset) -> Result<bool, StoreError> {
    let changed = execute!(
        tx,
        sqlx::query(
            "UPDATE log_offsets SET log_id = $4, next = $5, resets = resets + 1
             WHERE consumer_group = $1 AND topic = $2 AND partition = $3",
        )
        .bind(&position.consumer_group)
        .bind(topic.name())
        .bind(position.partition)
        .bind(&position.log_id)
        .bind(position.next)
    );
    Ok(changed == 1)
}
