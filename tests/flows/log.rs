//! The log, over both backends, and the runner that takes batches from it.

mod appending;
mod applying;
mod batches;
mod installation;
mod kafka;
mod resetting;
mod trimming;

use std::time::Duration;

use log::{Ack, Consumer, Log, Message, NewMessage, Topic};
use longshore::config::Config;
use longshore::topics;
use tempfile::TempDir;
use uuid::Uuid;

use crate::support::reader::Reader;
use crate::support::servers;
use crate::support::temporary::Temporary;

/// Longer than anything here takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(180);

/// How long to look for something that must not come.
const QUIET: Duration = Duration::from_millis(700);

/// A log of its own, which can be opened again and again.
struct TestLog {
    config: Config,
    _directory: TempDir,
    _topics: Option<Temporary>,
}

impl TestLog {
    fn embedded() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut config = Config { data: directory.path().to_owned(), ..Config::default() };
        config.log.partitions = 4;
        Self { config, _directory: directory, _topics: None }
    }

    fn kafka() -> Self {
        let mut test_log = Self::embedded();
        test_log.config.log.url = format!("kafka://{}", servers::kafka());
        test_log.config.log.topic_prefix = format!("t{}.", Uuid::new_v4().simple());
        test_log.config.log.replication = 1;
        test_log._topics = Some(Temporary::Topics(test_log.config.log.topic_prefix.clone()));
        test_log
    }

    /// As a process that starts does.
    async fn open(&self) -> Log {
        let log = longshore::app::open_log(&self.config).await.unwrap();
        log.create_topics().await.unwrap();
        log
    }
}

/// One suite over both backends. Behind `long on_kafka:` are tests that run on Kafka only with
/// `--all`.
macro_rules! on_both {
    (long on_kafka: $($name:ident),* $(,)?) => {
        mod on_embedded {
            $($crate::log::test_on!(embedded, $name);)*
        }
        mod on_kafka {
            $($crate::log::test_on!(kafka, $name, #[ignore = "scripts/test --all"]);)*
        }
    };
    ($($name:ident),* $(,)?) => {
        mod on_embedded {
            $($crate::log::test_on!(embedded, $name);)*
        }
        mod on_kafka {
            $($crate::log::test_on!(kafka, $name);)*
        }
    };
}

macro_rules! test_on {
    ($backend:ident, $name:ident $(, #[$attribute:meta])?) => {
        #[tokio::test(flavor = "multi_thread")]
        $(#[$attribute])?
        async fn $name() {
            super::$name($crate::log::TestLog::$backend()).await;
        }
    };
}
use on_both;
use test_on;

fn message(key: &str, payload: impl Into<Vec<u8>>) -> NewMessage {
    NewMessage {
        topic: topics::TRACKING,
        key: key.as_bytes().to_vec(),
        partition: None,
        payload: payload.into(),
        request_id: format!("request-of-{key}"),
    }
}

/// `count` messages of one key, their payloads 0, 1, 2, … in decimal.
fn numbered(key: &str, count: usize) -> Vec<NewMessage> {
    (0..count).map(|n| message(key, n.to_string())).collect()
}

/// A reader of the topic of [`message`].
async fn reader(log: &Log, group: &str) -> Reader {
    Reader::new(log, group, topics::TRACKING).await
}

/// Takes the next `count` messages.
async fn take(reader: &mut Reader, count: usize) -> Vec<Message> {
    let mut taken = Vec::new();
    while taken.len() < count {
        taken.push(reader.next(TIMEOUT).await.expect("a message comes"));
    }
    taken
}

fn text(message: &Message) -> String {
    String::from_utf8(message.payload.clone()).unwrap()
}
