//! The embedded log: a table in its own SQLite file (`log.db` in the data directory), so that a
//! bulk write to the store delays no append.
//!
//! One task writes, and many appends share one transaction. The consumers of this process share the
//! partitions and are woken by each append.

mod file;
mod group;
mod reader;
mod rows;
mod writer;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use self::group::Group;
use self::writer::{Command, Ends, Write, Writer};
use super::consumer::Consumer;
use super::cursors::{ConsumerStatus, Limits, TopicOffsets};
use crate::message::{LogError, LogTimes, NewMessage, Settings, Topic};
use kit::clock::Clock;
use kit::private;
use store::{Store, in_words, sqlite_pool};

pub use file::LogFile;

/// Interval between deletions of messages that every group has processed.
const TRIM_INTERVAL: Duration = Duration::from_secs(600);

/// Interval between checks whether another process, such as a command next to `standalone`, has
/// appended. This process's own appends need no check.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

impl From<sqlx::Error> for LogError {
    fn from(error: sqlx::Error) -> Self {
        Self::Unavailable(format!("log.db: {}", in_words(&error)))
    }
}

/// The embedded log. Cheap to clone; the last one dropped ends its tasks.
#[derive(Clone)]
pub struct Embedded {
    shared: Arc<Shared>,
}

struct Shared {
    read: SqlitePool,
    commands: mpsc::Sender<Command>,
    ends: Arc<Ends>,
    append_timeout: Duration,
    groups: Mutex<HashMap<(String, Topic), Arc<Group>>>,
    tasks: TaskTracker,
    closing: CancellationToken,
    _close_on_drop: DropGuard,
}

impl Embedded {
    pub(super) async fn open(
        settings: &Settings,
        data: &Path,
        topics: &'static [Topic],
    ) -> Result<Self, LogError> {
        private::directory(data).map_err(|error| {
            LogError::Settings(format!("cannot use the data directory {}: {error}", data.display()))
        })?;
        let file = data.join("log.db");
        private::database(&file).map_err(sqlx::Error::Io)?;
        let options = SqliteConnectOptions::new()
            .filename(&file)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            // NORMAL would lose acknowledged appends after a power failure.
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(Duration::from_secs(30));
        let write = sqlite_pool()
            .max_connections(1)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_with(options.clone())
            .await?;
        let partitions = rows::create(&write, settings.partitions).await?;
        if partitions != settings.partitions {
            return Err(LogError::Settings(format!(
                "log.partitions is {}, but {} was created with {partitions}. The number cannot \
                 change: keys would move to other partitions and lose their order. Set it back to \
                 {partitions}",
                settings.partitions,
                file.display(),
            )));
        }
        let read = sqlite_pool()
            .max_connections(4)
            .connect_with(options.pragma("query_only", "ON"))
            .await?;
        Ok(Self::start(write, read, settings, topics))
    }

    fn start(
        write: SqlitePool,
        read: SqlitePool,
        settings: &Settings,
        topics: &'static [Topic],
    ) -> Self {
        let (commands, receiver) = mpsc::channel(1024);
        let ends = Arc::new(Ends::new(topics, settings.partitions));
        let closing = CancellationToken::new();
        let tasks = TaskTracker::new();
        let writer = Writer::new(write, receiver, ends.clone(), closing.clone());
        tasks.spawn(writer.run());
        tasks.spawn(watch_file(read.clone(), ends.clone(), closing.clone()));
        let keep_ms = i64::from(settings.keep_days) * DAY_MS;
        tasks.spawn(trim(commands.clone(), keep_ms, closing.clone()));
        Self {
            shared: Arc::new(Shared {
                read,
                commands,
                ends,
                append_timeout: Duration::from_millis(settings.append_timeout_ms),
                groups: Mutex::default(),
                tasks,
                _close_on_drop: closing.clone().drop_guard(),
                closing,
            }),
        }
    }

    pub(super) async fn append(&self, messages: Vec<NewMessage>) -> Result<LogTimes, LogError> {
        let (limit, count) = (self.shared.append_timeout, messages.len());
        let write = write(&self.shared.commands, Write::Append(messages));
        let written = timeout(limit, write).await.unwrap_or_else(|_| {
            Err(LogError::Unavailable(format!("no write to log.db completed within {limit:?}")))
        });
        written.map(|at| vec![Some(at); count])
    }

    pub(super) async fn check_writable(&self) -> Result<(), LogError> {
        write(&self.shared.commands, Write::Probe).await.map(drop)
    }

    pub(super) async fn check(&self) -> Result<Vec<String>, LogError> {
        Ok(rows::check(&self.shared.read).await?)
    }

    pub(super) fn batches(
        &self,
        group: &str,
        topic: Topic,
        store: &Store,
        limits: Limits,
    ) -> Result<(Consumer, ConsumerStatus), LogError> {
        Ok(reader::batches(self, &self.group(group, topic)?, store, limits))
    }

    pub(super) async fn topic_offsets(&self, topic: Topic) -> Result<TopicOffsets, LogError> {
        Ok(rows::topic_offsets(&self.shared.read, topic, self.shared.ends.partitions()).await?)
    }

    fn group(&self, name: &str, topic: Topic) -> Result<Arc<Group>, LogError> {
        if self.shared.closing.is_cancelled() {
            return Err(LogError::closed());
        }
        let mut groups = self.shared.groups.lock();
        let group = groups.entry((name.to_owned(), topic)).or_insert_with(|| {
            let group = Arc::new(Group::new(name, topic, self.shared.commands.clone()));
            let commits = group::commit_regularly(group.clone(), self.shared.closing.clone());
            self.shared.tasks.spawn(commits);
            group
        });
        Ok(group.clone())
    }

    pub(super) async fn close(&self) {
        let groups: Vec<_> = {
            let groups = self.shared.groups.lock();
            groups.values().cloned().collect()
        };
        for group in groups {
            if let Err(error) = group.commit().await {
                tracing::warn!(%error, "cannot store which messages are done; they will be \
                                        processed again");
            }
        }
        self.shared.closing.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
        self.shared.read.close().await;
    }
}

/// Sends a command to the writer, which runs it even if the caller has stopped waiting. Returns the
/// time of an append.
async fn write(commands: &mpsc::Sender<Command>, write: Write) -> Result<i64, LogError> {
    let (reply, answer) = oneshot::channel();
    commands.send(Command::Write(write, reply)).await.map_err(|_| LogError::closed())?;
    answer.await.map_err(|_| LogError::closed())?
}

/// Notices appends of other processes.
async fn watch_file(read: SqlitePool, ends: Arc<Ends>, closing: CancellationToken) {
    let mut version = None;
    let mut connection = None;
    let mut ticks = interval(CHECK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !closing.is_cancelled() {
        if let Err(error) = publish_if_changed(&read, &mut connection, &mut version, &ends).await {
            tracing::warn!(%error, "cannot read log.db");
            connection = None;
        }
        tokio::select! {
            _ = ticks.tick() => {}
            () = closing.cancelled() => {}
        }
    }
}

/// The version depends on the connection, so each check uses the same one.
async fn publish_if_changed(
    read: &SqlitePool,
    connection: &mut Option<sqlx::pool::PoolConnection<sqlx::Sqlite>>,
    last_version: &mut Option<i64>,
    ends: &Ends,
) -> Result<(), sqlx::Error> {
    if connection.is_none() {
        *connection = Some(read.acquire().await?);
        *last_version = None;
    }
    let Some(connection) = connection else { return Ok(()) };
    let version = rows::data_version(connection).await?;
    if *last_version != Some(version) {
        ends.publish(&rows::ends(connection, ends.topics()).await?);
        *last_version = Some(version);
    }
    Ok(())
}

/// Deletes messages that every group has processed and that are older than `keep_ms`.
async fn trim(commands: mpsc::Sender<Command>, keep_ms: i64, closing: CancellationToken) {
    let clock = Clock::system();
    let mut ticks = interval(TRIM_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = closing.cancelled() => return,
        }
        if let Err(error) = trim_all(&commands, clock.now_ms() - keep_ms).await
            && !closing.is_cancelled()
        {
            tracing::warn!(%error, "cannot delete consumed messages");
        }
    }
}

/// Deletes in small steps, by id, so that appends can run in between.
async fn trim_all(commands: &mpsc::Sender<Command>, before: i64) -> Result<(), LogError> {
    let mut next = Some(i64::MIN);
    while let Some(after) = next {
        let (reply, answer) = oneshot::channel();
        let command = Command::Trim { after, before, reply };
        commands.send(command).await.map_err(|_| LogError::closed())?;
        next = answer.await.map_err(|_| LogError::closed())??;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::partition_of;

    const TOPIC: Topic = Topic::new("exports");

    fn settings() -> Settings {
        Settings {
            url: "embedded".into(),
            partitions: 4,
            topic_prefix: String::new(),
            replication: 1,
            keep_days: 3,
            append_timeout_ms: 10_000,
            kafka: Default::default(),
        }
    }

    async fn open(directory: &tempfile::TempDir) -> Embedded {
        Embedded::open(&settings(), directory.path(), &[TOPIC]).await.unwrap()
    }

    fn message(payload: Vec<u8>) -> Vec<NewMessage> {
        vec![NewMessage {
            topic: TOPIC,
            key: b"k".to_vec(),
            partition: None,
            payload,
            request_id: "r".into(),
        }]
    }

    /// The first bytes of the messages, in order.
    async fn payloads(log: &Embedded) -> Vec<u8> {
        let partition = partition_of(b"k", 4);
        let read = rows::read(&log.shared.read, TOPIC, partition, 0, 100, usize::MAX).await;
        read.unwrap().iter().map(|message| message.payload[0]).collect()
    }

    #[tokio::test]
    async fn a_full_disk_fails_the_append_and_room_heals_it() {
        let directory = tempfile::tempdir().unwrap();
        open(&directory).await.close().await;
        let options = || {
            SqliteConnectOptions::new()
                .filename(directory.path().join("log.db"))
                .journal_mode(SqliteJournalMode::Wal)
        };
        // SQLite reports a file that may not grow like a full disk.
        let write = sqlite_pool()
            .max_connections(1)
            .connect_with(options().pragma("max_page_count", "40"))
            .await
            .unwrap();
        let read = sqlite_pool().connect_with(options()).await.unwrap();
        let log = Embedded::start(write.clone(), read, &settings(), &[TOPIC]);

        log.append(message(vec![1; 1000])).await.unwrap();
        let error = log.append(message(vec![2; 1 << 20])).await.unwrap_err();
        assert!(
            matches!(&error, LogError::Unavailable(text) if text.contains("free some space")),
            "{error}"
        );
        log.append(message(vec![3; 1000])).await.unwrap();

        sqlx::query("PRAGMA max_page_count = 100000").execute(&write).await.unwrap();
        log.append(message(vec![4; 1 << 20])).await.unwrap();

        assert_eq!(payloads(&log).await, [1, 3, 4]);
        log.close().await;
    }

    #[tokio::test]
    async fn no_append_is_earlier_than_those_before() {
        let directory = tempfile::tempdir().unwrap();
        let log = open(&directory).await;
        let file = SqliteConnectOptions::new().filename(directory.path().join("log.db"));
        let file = sqlite_pool().connect_with(file).await.unwrap();
        log.append(message(vec![1])).await.unwrap();
        // An earlier release appended it, while the clock was ahead.
        let ahead = 4_102_444_800_000_i64;
        sqlx::query("UPDATE messages SET appended_at = $1")
            .bind(ahead)
            .execute(&file)
            .await
            .unwrap();
        let times = log.append([message(vec![2]), message(vec![3])].concat()).await.unwrap();
        assert_eq!(times, [Some(ahead + 1); 2]);
        log.close().await;
        sqlx::query("DELETE FROM messages").execute(&file).await.unwrap();
        let log = open(&directory).await;
        assert_eq!(log.append(message(vec![4])).await.unwrap(), [Some(ahead + 2)]);
        log.close().await;
    }

    #[tokio::test]
    async fn appends_of_another_process_are_seen() {
        let directory = tempfile::tempdir().unwrap();
        let log = open(&directory).await;
        let mut ends = log.shared.ends.subscribe();
        // A second instance on the same file acts as another process.
        let other_process = open(&directory).await;
        other_process.append(message(vec![1])).await.unwrap();
        let arrived = async {
            while log.shared.ends.end(TOPIC, partition_of(b"k", 4)) < 1 {
                ends.changed().await.unwrap();
            }
        };
        timeout(Duration::from_secs(20), arrived).await.unwrap();
        log.append(message(vec![2])).await.unwrap();
        assert_eq!(payloads(&log).await, [1, 2]);
        log.close().await;
        other_process.close().await;
    }
}
