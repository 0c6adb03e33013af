//! The only task that writes to the embedded log. Commands that arrive during a transaction share
//! the next one.

use std::sync::Arc;

use parking_lot::Mutex;
use sqlx::{SqliteConnection, SqlitePool};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::rows::{self, Positions, Row};
use crate::message::{LogError, NewMessage, Topic};
use kit::clock::Clock;
use kit::fail_point;

/// Maximum number of commands in one transaction, and of message bytes.
const BATCH: usize = 1_000;
const BATCH_BYTES: usize = 8 << 20;

type Reply<T> = oneshot::Sender<Result<T, LogError>>;

/// A command, and where to report that it is durable: a write with its time in the log.
pub enum Command {
    Write(Write, Reply<i64>),
    /// Registers a group. Returns its position in each partition.
    Register {
        group: String,
        topic: Topic,
        reply: Reply<Vec<i64>>,
    },
    /// Deletes some consumed messages appended before a time, continuing after an id. Returns the
    /// id to continue after; none at the end.
    Trim {
        after: i64,
        before: i64,
        reply: Reply<Option<i64>>,
    },
}

/// A command that shares its transaction with others.
pub enum Write {
    Append(Vec<NewMessage>),
    Commit {
        group: String,
        topic: Topic,
        positions: Vec<(i32, i64)>,
    },
    /// Writes the time, to see whether writing works.
    Probe,
}

impl Command {
    fn bytes(&self) -> usize {
        match self {
            Self::Write(Write::Append(messages), _) => messages.iter().map(NewMessage::bytes).sum(),
            _ => 0,
        }
    }
}

/// The end of each partition, as far as this process knows; consumers wait for changes.
pub struct Ends {
    topics: &'static [Topic],
    partitions: u32,
    positions: Mutex<Positions>,
    changed: watch::Sender<()>,
}

impl Ends {
    pub fn new(topics: &'static [Topic], partitions: u32) -> Self {
        Self { topics, partitions, positions: Mutex::default(), changed: watch::Sender::new(()) }
    }

    pub fn topics(&self) -> &'static [Topic] {
        self.topics
    }

    pub fn partitions(&self) -> u32 {
        self.partitions
    }

    pub fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// The offset of the partition's next message.
    pub fn end(&self, topic: Topic, partition: i32) -> i64 {
        let positions = self.positions.lock();
        positions.get(&(topic, partition)).copied().unwrap_or(0)
    }

    /// Publishes durable ends; an older end than the known one has no effect.
    pub fn publish(&self, ends: &Positions) {
        let mut positions = self.positions.lock();
        for (partition, end) in ends {
            let published = positions.entry(*partition).or_insert(0);
            *published = (*published).max(*end);
        }
        drop(positions);
        self.changed.send_replace(());
    }
}

pub struct Writer {
    pool: SqlitePool,
    commands: mpsc::Receiver<Command>,
    published: Arc<Ends>,
    closing: CancellationToken,
    clock: Clock,
    /// The ends after the last write, valid while no other process writes.
    ends: Positions,
    /// The time of the last append, as long as `ends` are valid.
    last_append: i64,
    version: Option<i64>,
}

impl Writer {
    pub fn new(
        pool: SqlitePool,
        commands: mpsc::Receiver<Command>,
        published: Arc<Ends>,
        closing: CancellationToken,
    ) -> Self {
        Self {
            pool,
            commands,
            published,
            closing,
            clock: Clock::system(),
            ends: Positions::new(),
            last_append: 0,
            version: None,
        }
    }

    /// Runs until all senders are gone or the log closes; finishes all earlier commands.
    pub async fn run(mut self) {
        loop {
            let first = tokio::select! {
                biased;
                first = self.commands.recv() => first,
                () = self.closing.cancelled(), if !self.commands.is_closed() => {
                    self.commands.close();
                    continue;
                }
            };
            let Some(first) = first else { break };
            let batch = self.batch(first);
            self.carry_out(batch).await;
        }
        self.pool.close().await;
    }

    /// Collects one transaction: `first`, and the commands that have arrived meanwhile.
    fn batch(&mut self, first: Command) -> Vec<Command> {
        let mut bytes = first.bytes();
        let mut batch = vec![first];
        while batch.len() < BATCH
            && bytes < BATCH_BYTES
            && let Ok(next) = self.commands.try_recv()
        {
            bytes += next.bytes();
            batch.push(next);
        }
        batch
    }

    /// The sender may be gone before the response; that is not an error.
    async fn carry_out(&mut self, batch: Vec<Command>) {
        let (mut writes, mut replies) = (Vec::new(), Vec::new());
        for command in batch {
            match command {
                Command::Write(write, reply) => {
                    writes.push(write);
                    replies.push(reply);
                }
                Command::Register { group, topic, reply } => {
                    let partitions = self.published.partitions();
                    let registered = rows::register(&self.pool, &group, topic, partitions).await;
                    let _ = reply.send(registered.map_err(LogError::from));
                }
                Command::Trim { after, before, reply } => {
                    let trimmed = rows::trim(&self.pool, after, before).await;
                    let _ = reply.send(trimmed.map_err(LogError::from));
                }
            }
        }
        if writes.is_empty() {
            return;
        }
        let result = self.write(writes).await.map_err(LogError::from);
        match &result {
            Ok(_) => self.published.publish(&self.ends),
            Err(error) => {
                // It is unknown how far the write got: read the ends again before the next one.
                self.version = None;
                tracing::warn!(%error, "cannot write to the log");
            }
        }
        for reply in replies {
            let _ = reply.send(result.clone());
        }
    }

    /// Writes together; returns the time of the appends. It is later than that of all appends
    /// before them, also if the clock was set back: nothing that is appended later has an earlier
    /// time. Appends that share a transaction share the time, as no response was sent between them.
    async fn write(&mut self, writes: Vec<Write>) -> Result<i64, sqlx::Error> {
        let mut tx = self.pool.begin_with("BEGIN IMMEDIATE").await?;
        let mut ends = self.current_ends(&mut tx).await?;
        let now = self.clock.now_ms().max(self.last_append + 1);
        let mut changed = Positions::new();
        let mut messages = Vec::new();
        for write in writes {
            match write {
                Write::Append(new) => messages.extend(
                    new.into_iter()
                        .map(|new| self.assign_offset(new, now, &mut ends, &mut changed)),
                ),
                Write::Commit { group, topic, positions } => {
                    rows::commit(&mut tx, &group, topic, &positions).await?;
                }
                Write::Probe => rows::probe(&mut tx, self.clock.now_ms()).await?,
            }
        }
        rows::insert(&mut tx, messages).await?;
        if !changed.is_empty() {
            rows::set_ends(&mut tx, &changed).await?;
            rows::set_last_append(&mut tx, now).await?;
        }
        tx.commit().await?;
        if !changed.is_empty() {
            fail_point!("log::written");
            self.last_append = now;
        }
        self.ends = ends;
        Ok(now)
    }

    async fn current_ends(&mut self, c: &mut SqliteConnection) -> Result<Positions, sqlx::Error> {
        let version = rows::data_version(c).await?;
        if self.version != Some(version) {
            self.ends = rows::ends(c, self.published.topics()).await?;
            self.last_append = rows::last_append(c).await?;
            self.version = Some(version);
        }
        Ok(self.ends.clone())
    }

    /// Gives a message its partition and offset.
    fn assign_offset(
        &self,
        message: NewMessage,
        appended_at: i64,
        ends: &mut Positions,
        changed: &mut Positions,
    ) -> Row {
        let partition = message.partition_of(self.published.partitions());
        let next = ends.entry((message.topic, partition)).or_insert(0);
        let offset = *next;
        *next += 1;
        changed.insert((message.topic, partition), *next);
        Row {
            topic: message.topic,
            partition,
            offset,
            key: message.key,
            payload: message.payload,
            request_id: message.request_id,
            appended_at,
        }
    }
}
