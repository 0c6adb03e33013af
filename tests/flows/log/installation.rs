//! An installation whose log is looked at from inside.

use std::collections::BTreeMap;

use log::Log;
use store::Store;

use super::*;
use crate::support::process;
use crate::support::stores::TestStore;

/// A store and a log of their own: SQLite with the embedded log, PostgreSQL with Kafka.
pub struct Installation {
    pub test_log: TestLog,
    pub test: TestStore,
}

impl Installation {
    pub async fn new(mut test_log: TestLog) -> Self {
        let test = match test_log.config.log.url.as_str() {
            "embedded" => TestStore::sqlite().await,
            _ => TestStore::postgres().await,
        };
        test_log.config = Config { log: test_log.config.log, ..test.config.clone() };
        test_log.open().await.close().await;
        Self { test_log, test }
    }

    /// The settings as a process is given them.
    pub fn environment(&self) -> BTreeMap<String, String> {
        let log = &self.test_log.config.log;
        let mut environment = self.test.environment();
        let own = [
            ("LONGSHORE_LOG_URL", log.url.clone()),
            ("LONGSHORE_LOG__TOPIC_PREFIX", log.topic_prefix.clone()),
            ("LONGSHORE_LOG__REPLICATION", log.replication.to_string()),
        ];
        environment.extend(own.map(|(name, value)| (name.to_owned(), value)));
        environment
    }

    /// As a process that starts does.
    pub async fn open(&self) -> (Store, Log) {
        let log = longshore::app::open_log(&self.test_log.config).await.unwrap();
        (longshore::app::connect(&self.test_log.config).await.unwrap(), log)
    }
}

/// A command next to a running installation, as an operator types it.
pub async fn longshore(installation: &Installation, arguments: &[&str]) -> (bool, String) {
    let mut command = process::command(&installation.test.config.data, &installation.environment());
    command.args(arguments);
    let output = process::output(command).await;
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}
