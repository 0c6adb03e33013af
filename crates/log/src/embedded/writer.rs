//! The one task that writes to the embedded log: whatever has come in while it wrote goes
//! into its next transaction together.

use std::sync::Arc;

use parking_lot::Mutex;
use sqlx::{SqliteConnection, SqlitePool};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::rows::{self, Positions, Row};
use crate::message::{LogError, NewMessage, Topic};
use kit::clock::Clock;
use kit::fail_point;

/// Commands of one transaction at most, and bytes of messages after which it is full.
const BATCH: usize = 1_000;
const BATCH_BYTES: usize = 8 << 20;

type Reply<T> = oneshot::Sender<Result<T, LogError>>;

/// Something to do, and where to say that it is durable.
pub enum Command {
    Write(Write, Reply<()>),
    /// Makes a group known; answers where it is in each partition.
    Register {
        group: String,
        topic: Topic,
        reply: Reply<Vec<i64>>,
    },
    /// Removes some consumed messages appended before a time, going on after an id; answers
    /// the id to go on after, none at the end.
    Trim {
        after: i64,
        before: i64,
        reply: Reply<Option<i64>>,
    },
}

/// What shares a transaction with others.
pub enum Write {
    Append(Vec<NewMessage>),
    Commit { group: String, topic: Topic, positions: Vec<(i32, i64)> },
}

impl Command {
    fn bytes(&self) -> usize {
        match self {
            Self::Write(Write::Append(messages), _) => messages.iter().map(NewMessage::bytes).sum(),
            _ => 0,
        }
    }
}

/// Where each partition ends, as far as this process knows; consumers wait on it.
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

    /// The offset that the next message of the partition will get.
    pub fn end(&self, topic: Topic, partition: i32) -> i64 {
        let positions = self.positions.lock();
        positions.get(&(topic, partition)).copied().unwrap_or(0)
    }

    /// Tells of ends that are durable; an older one than is known says nothing.
    pub fn publish(&self, ends: &Positions) {
        let mut positions = self.positions.lock();
        for (partition, end) in ends {
            let known = positions.entry(*partition).or_insert(0);
            *known = (*known).max(*end);
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
    /// The ends as last written, good for as long as no other process has written since.
    ends: Positions,
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
            version: None,
        }
    }

    /// Writes until nobody is left to ask, or the log closes; what came before is written.
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

    /// What goes into one transaction: `first`, and what has come in meanwhile.
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

    /// Who asked may have gone away by the time of the answer: that is no error.
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
                    let done = rows::register(&self.pool, &group, topic, partitions).await;
                    let _ = reply.send(done.map_err(LogError::from));
                }
                Command::Trim { after, before, reply } => {
                    let done = rows::trim(&self.pool, after, before).await;
                    let _ = reply.send(done.map_err(LogError::from));
                }
            }
        }
        if writes.is_empty() {
            return;
        }
        let result = self.write(writes).await.map_err(LogError::from);
        match &result {
            Ok(()) => self.published.publish(&self.ends),
            Err(error) => {
                // How far it got is not known: read the ends again before the next one.
                self.version = None;
                tracing::warn!(%error, "the log could not be written");
            }
        }
        for reply in replies {
            let _ = reply.send(result.clone());
        }
    }

    async fn write(&mut self, writes: Vec<Write>) -> Result<(), sqlx::Error> {
        let mut tx = self.pool.begin_with("BEGIN IMMEDIATE").await?;
        let mut ends = self.current_ends(&mut tx).await?;
        let mut changed = Positions::new();
        let mut messages = Vec::new();
        for write in writes {
            match write {
                Write::Append(new) => messages
                    .extend(new.into_iter().map(|new| self.place(new, &mut ends, &mut changed))),
                Write::Commit { group, topic, positions } => {
                    rows::commit(&mut tx, &group, topic, &positions).await?;
                }
            }
        }
        rows::insert(&mut tx, messages).await?;
        rows::set_ends(&mut tx, &changed).await?;
        tx.commit().await?;
        if !changed.is_empty() {
            fail_point!("log::written");
        }
        self.ends = ends;
        Ok(())
    }

    async fn current_ends(&mut self, c: &mut SqliteConnection) -> Result<Positions, sqlx::Error> {
        let version = rows::data_version(c).await?;
        if self.version != Some(version) {
            self.ends = rows::ends(c, self.published.topics()).await?;
            self.version = Some(version);
        }
        Ok(self.ends.clone())
    }

    /// Gives a message its partition and offset.
    fn place(&self, message: NewMessage, ends: &mut Positions, changed: &mut Positions) -> Row {
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
            appended_at: self.clock.now_ms(),
        }
    }
}
