//! Makes the corpus of this release: `scripts/corpus` (tests/upgrade/README.md).

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;
use sqlx::Connection as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};

use super::corpus::{Line, Object, folder, receivers, written};
use super::dump;
use super::installed::{Installed, ReceiverAddresses};
use crate::support::stores::TestStore;

/// The messages of an embedded log behind the first so many, in the order in which they were
/// appended; `count` is how many there are in all.
pub async fn messages(data: &Path, behind: i64) -> Vec<Line> {
    let options = SqliteConnectOptions::new().filename(data.join("log.db"));
    let mut log = SqliteConnection::connect_with(&options).await.expect("the log opens");
    type Row = (String, i32, Vec<u8>, Vec<u8>, String);
    let rows: Vec<Row> = sqlx::query_as(
        "SELECT topic, partition, key, payload, request_id FROM messages WHERE id > $1 ORDER BY id",
    )
    .bind(behind)
    .fetch_all(&mut log)
    .await
    .expect("messages");
    log.close().await.expect("it closes");
    rows.into_iter()
        .map(|(topic, partition, key, payload, request_id)| Line {
            topic,
            partition,
            key: BASE64_STANDARD.encode(key),
            payload: String::from_utf8(payload).expect("UTF-8"),
            request_id,
        })
        .collect()
}

fn objects(folder: &Path) -> Vec<Object> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(next) else { continue };
        for path in entries.map(|entry| entry.expect("an entry").path()) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = BASE64_STANDARD.encode(std::fs::read(&path).expect("an object"));
            let path: PathBuf = path.strip_prefix(folder).expect("below").to_owned();
            found.push(Object { path, bytes });
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

async fn make(store: TestStore, to: &Path) {
    let is_postgres = store.config.database.url.is_some();
    // Nobody else may listen where nobody is to.
    drop(receivers(ReceiverAddresses::new(is_postgres)).await);
    let installed = Installed::new(store).await;
    let data = installed.app().config.data.clone();
    let receiver = installed.past().await;
    installed.under_way().await;
    drop(receiver);
    let before = messages(&data, 0).await.len() as i64;
    installed.called().await;
    let database = installed.database_url();
    installed.close().await;
    let own = to.join(if is_postgres { "postgres" } else { "sqlite" });
    std::fs::create_dir_all(&own).expect("the folder");
    let write = |name: &str, text: String| std::fs::write(to.join(name), text).expect("a file");
    if is_postgres {
        write("postgres/store.sql", dump::of_database(&database).await);
        write("messages.ndjson", written(&messages(&data, before).await));
    } else {
        write("sqlite/store.sql", dump::of_file(&data.join("store.db")).await);
        write("sqlite/log.sql", dump::of_file(&data.join("log.db")).await);
    }
    let objects = written(&objects(&data.join("objects")));
    std::fs::write(own.join("objects.ndjson"), objects).expect("a file");
    let now = jiff::Timestamp::now().as_millisecond();
    write("about.json", json!({ "made_at": now }).to_string() + "\n");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "writes the corpus of this release: scripts/corpus"]
async fn corpus_on_request() {
    let to = folder().join(env!("CARGO_PKG_VERSION"));
    std::fs::create_dir_all(&to).expect("the folder");
    make(TestStore::sqlite().await, &to).await;
    make(TestStore::postgres().await, &to).await;
    println!("{} holds what this release leaves", to.display());
}
