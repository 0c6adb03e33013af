//! The embedded log's file, without the tasks of an open log: nothing is deleted from it.

use std::path::Path;

use sqlx::SqlitePool;
use sqlx::sqlite::SqliteConnectOptions;

use super::rows;
use crate::cursors::TopicOffsets;
use crate::message::{LogError, Topic};
use crate::offsets::GroupOffset;
use store::sqlite_pool;

/// An existing file of the embedded log, which no process uses.
pub struct LogFile {
    pool: SqlitePool,
    partitions: u32,
}

impl LogFile {
    pub async fn open(file: &Path) -> Result<Self, LogError> {
        let options = SqliteConnectOptions::new().filename(file);
        let pool = sqlite_pool().max_connections(1).connect_with(options).await?;
        let partitions = rows::partitions(&pool).await?;
        Ok(Self { pool, partitions })
    }

    /// The problems that SQLite's own check of the file finds.
    pub async fn check(&self) -> Result<Vec<String>, LogError> {
        Ok(rows::check(&self.pool).await?)
    }

    /// A topic's content.
    pub async fn topic_offsets(&self, topic: Topic) -> Result<TopicOffsets, LogError> {
        Ok(rows::topic_offsets(&self.pool, topic, self.partitions).await?)
    }

    /// Gives a copy of a log a new id, because from now on the copy and the original get different
    /// messages. Positions in the original do not have this id.
    pub async fn fork(&self) -> Result<(), LogError> {
        Ok(rows::fork(&self.pool).await?)
    }

    /// The end of a partition when this log was forked from the log with that id; none if it was
    /// not.
    pub async fn fork_end(
        &self,
        id: &str,
        topic: Topic,
        partition: i32,
    ) -> Result<Option<i64>, LogError> {
        Ok(rows::fork_end(&self.pool, id, topic, partition).await?)
    }

    /// Moves groups to `positions`, also back, so that the messages after them are not deleted
    /// before they are applied.
    pub async fn move_groups(
        &self,
        topic: Topic,
        positions: &[GroupOffset],
    ) -> Result<(), LogError> {
        let mut tx = self.pool.begin().await?;
        for position in positions {
            rows::move_group(&mut tx, topic, position).await?;
        }
        Ok(tx.commit().await?)
    }

    pub async fn close(self) {
        self.pool.close().await;
    }
}
