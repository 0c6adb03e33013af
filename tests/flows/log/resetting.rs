//! `log reset` asks on a terminal, and workers move the position before somebody types a yes.

use std::fs::File;
use std::io::Write as _;
use std::process::Stdio;

use log::offsets::{self, GroupOffset};
use store::Store;

use super::batches::tracked;
use super::installation::{Installation, longshore};
use super::*;
use crate::support::stores::on_pool;
use crate::support::{eventually, process};

on_both!(a_reset_has_at_most_the_effect_that_was_confirmed);

const GROUP: &str = "g";

async fn position(store: &Store) -> GroupOffset {
    let mut tx = store.snapshot().await.unwrap();
    let position = offsets::position(&mut tx, GROUP, topics::TRACKING, 1).await.unwrap();
    position.expect("a row")
}

/// As a worker that applies messages.
async fn advance(store: &Store, next: i64) {
    let position = position(store).await;
    let mut tx = store.write().await.unwrap();
    assert!(offsets::advance(&mut tx, topics::TRACKING, &position, next).await.unwrap());
    tx.commit().await.unwrap();
}

/// Resets the position of partition 1, with a yes after `meanwhile`. Returns the exit status.
async fn reset(
    installation: &Installation,
    to: &str,
    meanwhile: impl Future<Output = ()>,
) -> Option<i32> {
    let directory = &installation.test.config.data;
    let shown = directory.join("shown");
    let arguments = format!("log reset --topic tracking --partition 1 --to {to}");
    let mut command = process::on_terminal(directory, &arguments);
    command.envs(installation.environment());
    command.stdin(Stdio::piped()).stdout(File::create(&shown).unwrap());
    let mut child = command.spawn().expect("script runs");
    let is_asked = || std::fs::read_to_string(&shown).unwrap().contains("[y/N]");
    eventually("it asks", async || is_asked()).await;
    meanwhile.await;
    child.stdin.take().unwrap().write_all(b"y\n").unwrap();
    let ended = tokio::task::spawn_blocking(move || child.wait()).await.unwrap();
    ended.unwrap().code()
}

async fn a_reset_has_at_most_the_effect_that_was_confirmed(test_log: TestLog) {
    let installation = Installation::new(test_log).await;
    let (store, log) = installation.open().await;
    log.append(tracked(1, 0, 9)).await.unwrap();
    let (ok, printed) = longshore(&installation, &["migrate"]).await;
    assert!(ok, "{printed}");
    let id = log.topic_offsets(topics::TRACKING).await.unwrap().id;
    let sql = "INSERT INTO log_offsets (consumer_group, topic, partition, log_id, next)
               VALUES ($1, $2, 1, $3, 1)";
    on_pool!(&store, pool => {
        let begin = sqlx::query(sql).bind(GROUP).bind(topics::TRACKING.name()).bind(id.as_str());
        begin.execute(pool).await.unwrap();
    });

    // Forward when it was asked, and back by now.
    assert_eq!(reset(&installation, "4", advance(&store, 6)).await, Some(1));
    assert_eq!(position(&store).await.next, 6);
    // Back, over more messages than were shown.
    assert_eq!(reset(&installation, "2", advance(&store, 7)).await, Some(1));
    assert_eq!(position(&store).await.next, 7);
    // Forward, over fewer messages than were shown.
    assert_eq!(reset(&installation, "latest", advance(&store, 8)).await, Some(0));
    assert_eq!(position(&store).await.next, 9);
    // Another reset.
    let other = async {
        let to_5 = ["log", "reset", "--topic", "tracking", "--partition", "1", "--to", "5"];
        let (ok, printed) = longshore(&installation, &to_5).await;
        assert!(ok && printed.contains("was at 9, continues at 5"), "{printed}");
    };
    assert_eq!(reset(&installation, "3", other).await, Some(1));
    let position = position(&store).await;
    assert_eq!((position.next, position.resets), (5, 2));
    log.close().await;
}
