//! What both logs promise to those who append and consume.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use log::{Log, LogError, MAX_MESSAGE_BYTES};
use longshore::topics;
use sqlx::Connection as _;

use super::*;
use crate::support::eventually;

on_both!(
    the_whole_content_arrives,
    a_key_stays_in_order_with_several_consumers,
    each_group_sees_everything,
    what_was_not_acknowledged_comes_again_after_a_restart,
    a_dropped_consumer_gives_its_messages_to_the_next,
    no_more_than_allowed_is_in_flight,
    a_consumer_that_joins_while_others_work_loses_nothing,
    workers_that_stall_get_everything_in_the_end,
    messages_have_a_size_limit,
    two_thousand_concurrent_appends_are_all_durable,
    a_closed_log_says_so,
);

async fn the_whole_content_arrives(place: Place) {
    let log = place.open().await;
    let sent: Vec<NewMessage> = (0..50u8)
        .map(|n| NewMessage {
            topic: topics::TRANSACTIONAL,
            key: vec![n, 0, 255],
            partition: None,
            payload: (0..=n).rev().collect(),
            request_id: format!("räq-{n}"),
        })
        .collect();
    log.append(sent.clone()).await.unwrap();
    let mut consumer = consumer(&log, "g", 4);
    let mut got = take(&mut consumer, sent.len()).await;
    got.sort_by(|a, b| a.key.cmp(&b.key));
    for (got, sent) in got.iter().zip(&sent) {
        assert_eq!(got.topic, sent.topic);
        assert_eq!((&got.key, &got.payload), (&sent.key, &sent.payload));
        assert_eq!(got.request_id, sent.request_id);
    }
    assert_quiet(&mut consumer).await;
}

/// What consumers did, in the order of the doing.
type Record = Arc<Mutex<Vec<(usize, String, usize)>>>;

/// Works on messages one at a time until aborted.
fn work(log: &Log, number: usize, record: &Record, pause: Duration) -> tokio::task::JoinHandle<()> {
    let (mut consumer, record) = (consumer(log, "g", 4), record.clone());
    tokio::spawn(async move {
        loop {
            let (message, ack) = next(&mut consumer).await;
            tokio::time::sleep(pause).await;
            let key = String::from_utf8(message.key.clone()).unwrap();
            record.lock().unwrap().push((number, key, text(&message).parse().unwrap()));
            ack.done();
        }
    })
}

async fn until_recorded(record: &Record, keys: usize, count: usize) {
    let begun = Instant::now();
    loop {
        let seen: HashSet<_> =
            record.lock().unwrap().iter().map(|(_, key, n)| (key.clone(), *n)).collect();
        if seen.len() == keys * count {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "only {} of {}", seen.len(), keys * count);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Repeats are allowed where a partition moved; what is seen first must be in order.
fn assert_in_order(record: &Record, count: usize) {
    let mut of_key: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (_, key, n) in record.lock().unwrap().iter() {
        let seen = of_key.entry(key.clone()).or_default();
        if !seen.contains(n) {
            seen.push(*n);
        }
    }
    for (key, seen) in of_key {
        assert_eq!(seen, (0..count).collect::<Vec<_>>(), "order of {key}");
    }
}

fn interleaved(keys: usize, count: usize) -> Vec<NewMessage> {
    rounds(keys, 0..count)
}

fn rounds(keys: usize, numbers: Range<usize>) -> Vec<NewMessage> {
    numbers
        .flat_map(|n| (0..keys).map(move |key| message(&format!("key-{key}"), n.to_string())))
        .collect()
}

async fn a_key_stays_in_order_with_several_consumers(place: Place) {
    let log = place.open().await;
    let record = Record::default();
    let workers: Vec<_> =
        (0..3).map(|n| work(&log, n, &record, Duration::from_millis(1))).collect();
    for chunk in interleaved(20, 30).chunks(37) {
        log.append(chunk.to_vec()).await.unwrap();
    }
    until_recorded(&record, 20, 30).await;
    assert_in_order(&record, 30);
    workers.iter().for_each(|worker| worker.abort());
}

async fn each_group_sees_everything(place: Place) {
    let log = place.open().await;
    log.append(numbered("a", 20)).await.unwrap();
    for group in ["first", "second"] {
        let mut consumer = consumer(&log, group, 8);
        let got: Vec<_> = take(&mut consumer, 20).await.iter().map(text).collect();
        assert_eq!(got, (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
        assert_quiet(&mut consumer).await;
    }
}

async fn what_was_not_acknowledged_comes_again_after_a_restart(place: Place) {
    let log = place.open().await;
    log.append(numbered("a", 6)).await.unwrap();
    let mut first = consumer(&log, "g", 10);
    let mut acks = Vec::new();
    for n in 0..6 {
        let (message, ack) = next(&mut first).await;
        assert_eq!(text(&message), n.to_string());
        acks.push(Some(ack));
    }
    // Out of order: 2 is a gap, so 3 must come again although it is done.
    for n in [3, 1, 0] {
        acks[n].take().unwrap().done();
    }
    first.drain(Duration::from_millis(300)).await;
    drop(acks);
    log.close().await;

    let log = place.open().await;
    let mut second = consumer(&log, "g", 10);
    let got: Vec<_> = take(&mut second, 4).await.iter().map(text).collect();
    assert_eq!(got, ["2", "3", "4", "5"]);
    second.drain(PATIENCE).await;

    let mut third = consumer(&log, "g", 10);
    log.append(vec![message("a", "6")]).await.unwrap();
    assert_eq!(text(&take(&mut third, 1).await[0]), "6");
    assert_quiet(&mut third).await;
    log.close().await;
}

async fn a_dropped_consumer_gives_its_messages_to_the_next(place: Place) {
    let log = place.open().await;
    log.append(numbered("a", 4)).await.unwrap();
    let mut first = consumer(&log, "g", 10);
    let (_, done) = next(&mut first).await;
    let (_, held) = next(&mut first).await;
    done.done();
    drop(first);

    let mut second = consumer(&log, "g", 10);
    let (again, ack) = next(&mut second).await;
    assert_eq!(text(&again), "1");
    assert!(!held.is_ours() && ack.is_ours());
    // Too late: it says nothing about the message that another has now.
    held.done();
    drop((ack, second));

    let mut third = consumer(&log, "g", 10);
    let got: Vec<_> = take(&mut third, 3).await.iter().map(text).collect();
    assert_eq!(got, ["1", "2", "3"]);
}

async fn no_more_than_allowed_is_in_flight(place: Place) {
    let log = place.open().await;
    log.append(interleaved(10, 2)).await.unwrap();
    let mut consumer = consumer(&log, "g", 3);
    let mut acks = Vec::new();
    for _ in 0..3 {
        acks.push(next(&mut consumer).await.1);
    }
    assert_quiet(&mut consumer).await;
    acks.pop().unwrap().done();
    acks.push(next(&mut consumer).await.1);
    assert_quiet(&mut consumer).await;
    acks.into_iter().for_each(log::Ack::done);
    take(&mut consumer, 16).await;
    assert_quiet(&mut consumer).await;
}

async fn a_consumer_that_joins_while_others_work_loses_nothing(place: Place) {
    let log = place.open().await;
    let record = Record::default();
    let mut count = 20;
    log.append(interleaved(20, count)).await.unwrap();
    let first = work(&log, 1, &record, Duration::from_millis(8));
    eventually("it works", || async { record.lock().unwrap().len() >= 40 }).await;
    let second = work(&log, 2, &record, Duration::from_millis(8));
    let begun = Instant::now();
    // More comes until both have taken part, however long the joining takes.
    while !record.lock().unwrap().iter().any(|(worker, ..)| *worker == 2) {
        assert!(begun.elapsed() < PATIENCE, "the second one gets nothing");
        log.append(rounds(20, count..count + 1)).await.unwrap();
        count += 1;
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    until_recorded(&record, 20, count).await;
    assert_in_order(&record, count);
    // Work under way was waited for: nothing had to be done twice.
    assert_eq!(record.lock().unwrap().len(), 20 * count);
    first.abort();
    second.abort();
}

async fn workers_that_stall_get_everything_in_the_end(place: Place) {
    let log = place.open().await;
    log.append(numbered("a", 300)).await.unwrap();
    let mut consumer = consumer(&log, "g", 2);
    let (first, ack) = next(&mut consumer).await;
    assert_eq!(text(&first), "0");
    // Long enough for what reads ahead to be full and to hold back.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    ack.done();
    let got: Vec<_> = take(&mut consumer, 299).await.iter().map(text).collect();
    assert_eq!(got, (1..300).map(|n| n.to_string()).collect::<Vec<_>>());
    assert_quiet(&mut consumer).await;
}

async fn messages_have_a_size_limit(place: Place) {
    let log = place.open().await;
    let mut largest = message("a", vec![]);
    let rest = largest.key.len() + largest.request_id.len();
    largest.payload = vec![7; MAX_MESSAGE_BYTES - rest];
    let mut larger = largest.clone();
    larger.payload.push(7);
    let error = log.append(vec![message("b", "x"), larger]).await.unwrap_err();
    assert!(matches!(error, LogError::Refused(_)), "{error}");
    log.append(vec![largest.clone()]).await.unwrap();
    let mut consumer = consumer(&log, "g", 2);
    assert_eq!(take(&mut consumer, 1).await[0].payload, largest.payload);
    assert_quiet(&mut consumer).await;
}

async fn two_thousand_concurrent_appends_are_all_durable(place: Place) {
    let log = place.open().await;
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
    let log = place.open().await;
    let mut consumer = consumer(&log, "g", 64);
    let got: BTreeSet<usize> =
        take(&mut consumer, 2_000).await.iter().map(|m| text(m).parse().unwrap()).collect();
    assert_eq!(got, (0..2_000).collect());
    assert_quiet(&mut consumer).await;
}

async fn a_closed_log_says_so(place: Place) {
    let log = place.open().await;
    log.append(numbered("a", 1)).await.unwrap();
    log.close().await;
    let error = log.append(numbered("a", 1)).await.unwrap_err();
    assert!(matches!(error, LogError::Unavailable(_)), "{error}");
}

#[tokio::test]
async fn the_partition_count_of_an_embedded_log_stays() {
    let mut place = Place::embedded();
    place.open().await.close().await;
    place.config.log.partitions = 8;
    let error = longshore::app::open_log(&place.config).await.err().unwrap().to_string();
    assert!(error.contains("log.partitions is 8") && error.contains("with 4"), "{error}");
}

#[tokio::test]
async fn consumed_messages_of_an_embedded_log_are_trimmed() {
    let mut place = Place::embedded();
    place.config.log.keep_days = 0;
    let log = place.open().await;
    log.append(numbered("a", 10)).await.unwrap();
    let mut slow = consumer(&log, "slow", 20);
    take(&mut slow, 4).await;
    slow.drain(PATIENCE).await;
    let mut fast = consumer(&log, "fast", 20);
    take(&mut fast, 10).await;
    fast.drain(PATIENCE).await;
    log.close().await;

    // Trimming is looked for at the start: what both are done with goes, soon.
    let log = place.open().await;
    let begun = Instant::now();
    let file = format!("sqlite://{}", place.config.data.join("log.db").display());
    let mut file = sqlx::SqliteConnection::connect(&file).await.unwrap();
    let mut kept = 10;
    while kept != 6 {
        kept =
            sqlx::query_scalar("SELECT count(*) FROM messages").fetch_one(&mut file).await.unwrap();
        assert!(begun.elapsed() < PATIENCE, "{kept} messages are kept");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut new = consumer(&log, "new", 20);
    assert_eq!(text(&take(&mut new, 1).await[0]), "4");
    let mut slow = consumer(&log, "slow", 20);
    let got: Vec<_> = take(&mut slow, 6).await.iter().map(text).collect();
    assert_eq!(got, ["4", "5", "6", "7", "8", "9"]);
    log.close().await;
}
