//! What waits, and for what: without dead letters, and without holding up others.

use super::*;

on_both!(
    database_errors_are_reported_and_retried,
    isolated_messages_do_not_wait_for_stuck_partitions,
    temporary_failures_block_only_their_partition,
);

async fn database_errors_are_reported_and_retried(test_log: TestLog) {
    let installation = prepared(test_log).await;
    let (store, log) = installation.open().await;
    let do_both = async |sqls: [&'static str; 2]| {
        for sql in sqls {
            on_pool!(&store, pool => { sqlx::raw_sql(sql).execute(pool).await.unwrap(); });
        }
    };
    // Of the kind that no list of transient errors names.
    let (break_it, mend_it) = if store.is_postgres() {
        (
            [
                "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
                 $$BEGIN RAISE 'a plan is stale' USING ERRCODE = '0A000'; END$$",
                "CREATE TRIGGER fails BEFORE INSERT ON tally EXECUTE FUNCTION fail()",
            ],
            ["DROP TRIGGER fails ON tally", "DROP FUNCTION fail"],
        )
    } else {
        (
            ["ALTER TABLE tally RENAME TO other", "SELECT 1"],
            ["ALTER TABLE other RENAME TO tally", "SELECT 1"],
        )
    };
    do_both(break_it).await;
    log.append(tracked(0, 0, 10)).await.unwrap();
    let running = Running::start(&installation.test_log.config, Tally::default()).await;
    eventually("it is told", async || {
        let notices = running.app.health_warnings.all().join("\n");
        notices.contains("partition 0 of tracking waits at offset 0: the database: ")
    })
    .await;
    assert_eq!((buried(&store).await.len(), next(&store, 0).await), (0, 0));
    do_both(mend_it).await;
    until_applied(&store, 10).await;
    eventually("it is taken back", async || running.app.health_warnings.all().is_empty()).await;
    running.stop().await;
    log.close().await;
}

async fn isolated_messages_do_not_wait_for_stuck_partitions(test_log: TestLog) {
    let installation = prepared(test_log).await;
    let (store, log) = installation.open().await;
    log.append(vec![tracking(0, "fail")]).await.unwrap();
    let handler = Tally::default();
    let running = Running::start(&installation.test_log.config, handler.clone()).await;
    eventually("it is tried", async || handler.begun.load(Ordering::SeqCst) >= 2).await;
    // Begun twice by workers that ended.
    log.append(tracked(1, 0, 10)).await.unwrap();
    running.stop().await;
    let all = read_all(&log, |all| all.len() >= 11).await;
    let first = all.iter().find(|message| (message.partition, message.offset) == (1, 0)).unwrap();
    let sql = "INSERT INTO message_attempts VALUES ($1, 'tracking', 1, 0, $2, 2, 0)";
    for removed in ["DELETE FROM tally", "UPDATE log_offsets SET next = 0"] {
        on_pool!(&store, pool => { sqlx::query(removed).execute(pool).await.unwrap(); });
    }
    on_pool!(&store, pool => {
        sqlx::query(sql).bind(GROUP).bind(first.appended_at).execute(pool).await.unwrap();
    });
    let running = Running::start(&installation.test_log.config, handler.clone()).await;
    until_applied(&store, 10).await;
    log.append(tracked(2, 0, 10)).await.unwrap();
    until_applied(&store, 20).await;
    eventually("the note of who was alone is gone", async || notes(&store).await == 1).await;
    running.stop().await;
    assert_eq!((buried(&store).await.len(), notes(&store).await), (0, 0));
    log.close().await;
}

async fn temporary_failures_block_only_their_partition(test_log: TestLog) {
    let installation = prepared(test_log).await;
    let (store, log) = installation.open().await;
    log.append(vec![tracking(0, "fail"), tracking(0, "behind")]).await.unwrap();
    for partition in 1..4 {
        log.append(tracked(partition, 0, 50)).await.unwrap();
    }
    let handler = Tally::default();
    let running = Running::start(&installation.test_log.config, handler.clone()).await;
    until_applied(&store, 150).await;
    assert_eq!(next(&store, 0).await, 0, "nothing is passed over");
    handler.healed.store(true, Ordering::SeqCst);
    until_applied(&store, 152).await;
    running.stop().await;
    assert_eq!((buried(&store).await.len(), notes(&store).await), (0, 0));
    log.close().await;
}

/// A way to the database can end at any time; here it does again and again.
#[tokio::test(flavor = "multi_thread")]
async fn database_outages_are_waited_out() {
    let mut installation = prepared(TestLog::kafka()).await;
    let (store, log) = installation.open().await;
    let address = installation.test_log.config.database.url.clone().unwrap();
    let proxy = Proxy::to(address.expose_secret()).await;
    let way = proxy.instead_of(address.expose_secret());
    installation.test_log.config.database.url = Some(way.into());

    proxy.set(ProxyMode::Closed);
    for partition in 0..4 {
        log.append(tracked(partition, 0, 300)).await.unwrap();
    }
    let running = Running::start(&installation.test_log.config, Tally::default()).await;
    tokio::time::sleep(QUIET).await;
    for _ in 0..5 {
        proxy.set(ProxyMode::Open);
        tokio::time::sleep(Duration::from_millis(300)).await;
        proxy.set(ProxyMode::Closed);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    proxy.set(ProxyMode::Open);
    until_applied(&store, 1_200).await;
    running.stop().await;
    assert!(buried(&store).await.is_empty());
    log.close().await;
}
