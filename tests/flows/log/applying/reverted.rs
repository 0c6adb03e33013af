//! Positions that change while a runner works: the database lost its last commits, or an operator
//! reset a partition.

use store::StoreError;

use super::*;

on_both!(
    lost_commits_are_repeated_without_another_message,
    a_batch_notices_lost_commits_before_it,
    an_idle_partition_follows_a_reset,
);

/// Takes back what was applied of a partition from an offset on, as a crash of the database does.
async fn revert(store: &Store, partition: i32, next: i64) -> Result<(), StoreError> {
    let mut tx = store.write().await?;
    let position = offsets::position(&mut tx, GROUP, topics::TRACKING, partition).await?;
    let position = position.expect("it was applied");
    let set = "UPDATE log_offsets SET next = $1 WHERE partition = $2 AND consumer_group = $3";
    let undo = "DELETE FROM tally WHERE payload = $1";
    store::execute!(&mut tx, sqlx::query(set).bind(next).bind(partition).bind(GROUP));
    for number in next..position.next {
        let payload = format!("{partition}/{number}");
        store::execute!(&mut tx, sqlx::query(undo).bind(payload));
    }
    tx.commit().await
}

async fn lost_commits_are_repeated_without_another_message(test_log: TestLog) {
    let installation = prepared(test_log).await;
    let (store, log) = installation.open().await;
    let metrics = telemetry::metrics::recorder::install().unwrap();
    let handler = Tally::default();
    let running = Running::start(&installation.test_log.config, handler.clone()).await;
    for partition in 0..2 {
        log.append(tracked(partition, 0, 5)).await.unwrap();
    }
    until_applied(&store, 10).await;
    for next in [2, 0] {
        let before = handler.reverted.load(Ordering::SeqCst);
        revert(&store, 0, next).await.unwrap();
        until_applied(&store, 10).await;
        assert!(handler.reverted.load(Ordering::SeqCst) > before, "it clears its caches");
    }
    assert_eq!([next(&store, 0).await, next(&store, 1).await], [5, 5]);
    assert!(metrics.render().contains("longshore_log_reverted_total{topic=\"tracking\"}"));
    // The partition continues as usual.
    log.append(tracked(0, 5, 5)).await.unwrap();
    until_applied(&store, 15).await;
    running.stop().await;
    assert_eq!((buried(&store).await.len(), notes(&store).await), (0, 0));
    log.close().await;
}

async fn a_batch_notices_lost_commits_before_it(test_log: TestLog) {
    let installation = prepared(test_log).await;
    let (store, log) = installation.open().await;
    let handler = Tally::default();
    let running = Running::start(&installation.test_log.config, handler.clone()).await;
    log.append(tracked(0, 0, 5)).await.unwrap();
    until_applied(&store, 5).await;
    revert(&store, 0, 3).await.unwrap();
    log.append(tracked(0, 5, 5)).await.unwrap();
    until_applied(&store, 10).await;
    assert!(handler.reverted.load(Ordering::SeqCst) > 0, "it clears its caches");
    running.stop().await;
    assert_eq!((buried(&store).await.len(), notes(&store).await), (0, 0));
    log.close().await;
}

async fn an_idle_partition_follows_a_reset(test_log: TestLog) {
    let installation = prepared(test_log).await;
    let (store, log) = installation.open().await;
    let handler = Tally::default();
    let running = Running::start(&installation.test_log.config, handler.clone()).await;
    log.append(tracked(1, 0, 3)).await.unwrap();
    until_applied(&store, 3).await;
    let (ok, printed) = longshore(&installation, &["migrate"]).await;
    assert!(ok, "{printed}");
    let to_1 = ["log", "reset", "--topic", "tracking", "--partition", "1", "--to", "1"];
    let dry_run = [&to_1[..], &["--dry-run"]].concat();
    let (ok, printed) = longshore(&installation, &dry_run).await;
    assert!(ok, "{printed}");
    let mut tx = store.snapshot().await.unwrap();
    let position = offsets::position(&mut tx, GROUP, topics::TRACKING, 1).await.unwrap();
    assert_eq!(position.map(|position| position.next), Some(3), "a dry run resets nothing");
    drop(tx);
    let (ok, printed) = longshore(&installation, &to_1).await;
    assert!(ok, "{printed}");
    eventually("the messages are applied again", async || {
        tally(&store).await.values().copied().collect::<Vec<_>>() == [1, 2, 2]
    })
    .await;
    assert_eq!(handler.reverted.load(Ordering::SeqCst), 0, "the database lost nothing");
    running.stop().await;
    log.close().await;
}
