//! What both logs promise to those who append.

use std::collections::BTreeSet;
use std::time::Instant;

use log::{LogError, MAX_MESSAGE_BYTES};
use longshore::topics;
use sqlx::Connection as _;

use super::*;

on_both!(
    the_whole_content_arrives,
    each_group_sees_everything,
    messages_have_a_size_limit,
    two_thousand_concurrent_appends_are_all_durable,
    a_closed_log_is_unavailable,
);

async fn the_whole_content_arrives(test_log: TestLog) {
    let log = test_log.open().await;
    let sent: Vec<NewMessage> = (0..50u8)
        .map(|n| NewMessage {
            topic: topics::TRACKING,
            key: vec![n, 0, 255],
            partition: None,
            payload: (0..=n).rev().collect(),
            request_id: format!("räq-{n}"),
        })
        .collect();
    log.append(sent.clone()).await.unwrap();
    let mut reader = reader(&log, "g").await;
    let mut got = take(&mut reader, sent.len()).await;
    got.sort_by(|a, b| a.key.cmp(&b.key));
    for (got, sent) in got.iter().zip(&sent) {
        assert_eq!(got.topic, sent.topic);
        assert_eq!((&got.key, &got.payload), (&sent.key, &sent.payload));
        assert_eq!(got.request_id, sent.request_id);
    }
    assert!(reader.next(QUIET).await.is_none());
}

async fn each_group_sees_everything(test_log: TestLog) {
    let log = test_log.open().await;
    log.append(numbered("a", 20)).await.unwrap();
    for group in ["first", "second"] {
        let mut reader = reader(&log, group).await;
        let got: Vec<_> = take(&mut reader, 20).await.iter().map(text).collect();
        assert_eq!(got, (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
        assert!(reader.next(QUIET).await.is_none());
    }
}

async fn messages_have_a_size_limit(test_log: TestLog) {
    let log = test_log.open().await;
    let mut largest = message("a", vec![]);
    let rest = largest.key.len() + largest.request_id.len();
    largest.payload = vec![7; MAX_MESSAGE_BYTES - rest];
    let mut larger = largest.clone();
    larger.payload.push(7);
    let error = log.append(vec![message("b", "x"), larger]).await.unwrap_err();
    assert!(matches!(error, LogError::Refused(_)), "{error}");
    log.append(vec![largest.clone()]).await.unwrap();
    let mut reader = reader(&log, "g").await;
    assert_eq!(take(&mut reader, 1).await[0].payload, largest.payload);
    assert!(reader.next(QUIET).await.is_none());
}

async fn two_thousand_concurrent_appends_are_all_durable(test_log: TestLog) {
    let log = test_log.open().await;
    let mut appends = tokio::task::JoinSet::new();
    for n in 0..2_000 {
        let log = log.clone();
        appends.spawn(async move {
            log.append(vec![message(&format!("key-{}", n % 97), n.to_string())]).await
        });
    }
    while let Some(append) = appends.join_next().await {
        append.unwrap().unwrap();
    }
    // Dropped as by a process that ends, and opened by another.
    drop(log);
    let log = test_log.open().await;
    let mut reader = reader(&log, "g").await;
    let got: BTreeSet<usize> =
        take(&mut reader, 2_000).await.iter().map(|m| text(m).parse().unwrap()).collect();
    assert_eq!(got, (0..2_000).collect());
    assert!(reader.next(QUIET).await.is_none());
}

async fn a_closed_log_is_unavailable(test_log: TestLog) {
    let log = test_log.open().await;
    log.append(numbered("a", 1)).await.unwrap();
    log.close().await;
    let error = log.append(numbered("a", 1)).await.unwrap_err();
    assert!(matches!(error, LogError::Unavailable(_)), "{error}");
}

#[tokio::test]
async fn the_partition_count_of_an_embedded_log_stays() {
    let mut test_log = TestLog::embedded();
    test_log.open().await.close().await;
    test_log.config.log.partitions = 8;
    let error = longshore::app::open_log(&test_log.config).await.err().unwrap().to_string();
    assert!(error.contains("log.partitions is 8") && error.contains("with 4"), "{error}");
}

#[tokio::test]
async fn consumed_messages_of_an_embedded_log_are_trimmed() {
    let mut test_log = TestLog::embedded();
    test_log.config.log.keep_days = 0;
    let log = test_log.open().await;
    log.append(numbered("a", 10)).await.unwrap();
    let mut slow = reader(&log, "slow").await;
    take(&mut slow, 4).await;
    slow.close().await;
    let mut fast = reader(&log, "fast").await;
    take(&mut fast, 10).await;
    fast.close().await;
    log.close().await;

    // Trimming is looked for at the start: what both are done with goes, soon.
    let log = test_log.open().await;
    let begun = Instant::now();
    let file = format!("sqlite://{}", test_log.config.data.join("log.db").display());
    let mut file = sqlx::SqliteConnection::connect(&file).await.unwrap();
    let mut kept = 10;
    while kept != 6 {
        kept =
            sqlx::query_scalar("SELECT count(*) FROM messages").fetch_one(&mut file).await.unwrap();
        assert!(begun.elapsed() < TIMEOUT, "{kept} messages are kept");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut new = reader(&log, "new").await;
    assert_eq!(text(&take(&mut new, 1).await[0]), "4");
    let mut slow = reader(&log, "slow").await;
    let got: Vec<_> = take(&mut slow, 6).await.iter().map(text).collect();
    assert_eq!(got, ["4", "5", "6", "7", "8", "9"]);
    log.close().await;
}
