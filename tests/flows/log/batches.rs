//! What both logs promise to those who keep their offsets in the store.

mod lost;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use log::message_ids::{self, Scope};
use log::offsets::{self, GroupOffset as Offset};
use log::{Batch, ConsumerStatus, Limits, PartitionStatus};
use longshore::topics;
use sqlx::Connection as _;
use store::{Store, StoreError};
use tokio_util::sync::CancellationToken;

use super::installation::Installation;
use super::*;
use crate::support::proxy::{Proxy, ProxyMode};
use crate::support::stores::{TestStore, on_both_stores};
use crate::support::{eventually, servers};

on_both!(
    each_partition_has_one_batch_in_progress,
    batches_end_at_their_limits,
    offsets_are_read_from_the_store,
    partitions_that_move_are_applied_once,
    revoking_a_partition_waits_for_its_batch,
    an_offset_out_of_range_stops_only_its_partition,
);

const GROUP: &str = "g";
const LIMITS: Limits = Limits { messages: 10, bytes: 1 << 20, in_flight: 4 };

/// `count` messages of a partition, their payloads `from`, `from + 1`, … in decimal.
pub fn tracked(partition: i32, from: usize, count: usize) -> Vec<NewMessage> {
    let payloads = (from..from + count).map(|n| n.to_string());
    payloads.map(|payload| tracking(partition, payload)).collect()
}

pub fn tracking(partition: i32, payload: impl Into<Vec<u8>>) -> NewMessage {
    NewMessage { topic: topics::TRACKING, partition: Some(partition), ..message("k", payload) }
}

fn batches(log: &Log, store: &Store, limits: Limits) -> (Consumer, ConsumerStatus) {
    log.batches(GROUP, topics::TRACKING, store, limits).unwrap()
}

async fn next_batch(consumer: &mut Consumer) -> (Batch, Ack) {
    tokio::time::timeout(TIMEOUT, consumer.next()).await.expect("a batch comes").unwrap()
}

async fn assert_no_batch(consumer: &mut Consumer) {
    if let Ok(Ok((batch, _))) = tokio::time::timeout(QUIET, consumer.next()).await {
        panic!("nothing should come, and this did: {batch:?}");
    }
}

/// Moves the offset as a transaction that applies a batch does; whether it was there.
async fn advance(store: &Store, batch: &Batch) -> bool {
    let mut tx = store.write().await.unwrap();
    let moved = offsets::advance(&mut tx, topics::TRACKING, &batch.position, batch.next()).await;
    tx.commit().await.unwrap();
    moved.unwrap()
}

async fn position(store: &Store, partition: i32) -> Offset {
    let mut tx = store.snapshot().await.unwrap();
    offsets::position(&mut tx, GROUP, topics::TRACKING, partition).await.unwrap().expect("a row")
}

async fn put(store: &Store, offset: &Offset) {
    let mut tx = store.write().await.unwrap();
    assert!(offsets::reset(&mut tx, topics::TRACKING, offset).await.unwrap());
    tx.commit().await.unwrap();
}

fn texts(batch: &Batch) -> Vec<String> {
    batch.messages.iter().map(text).collect()
}

fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|n| n.to_string()).collect()
}

async fn each_partition_has_one_batch_in_progress(test_log: TestLog) {
    let installation = Installation::new(test_log).await;
    let (store, log) = installation.open().await;
    for partition in 0..3 {
        log.append(tracked(partition, 0, 25)).await.unwrap();
    }
    let (mut consumer, statuses) = batches(&log, &store, LIMITS);
    let mut under_way = BTreeMap::new();
    for _ in 0..3 {
        let (batch, ack) = next_batch(&mut consumer).await;
        assert!(batch.is_first);
        assert_eq!(texts(&batch), numbers(0..10));
        assert!(batch.messages.iter().all(|m| m.partition == batch.position.partition));
        assert!(under_way.insert(batch.position.partition, (batch, ack)).is_none());
    }
    assert_no_batch(&mut consumer).await;
    let behind = |statuses: &ConsumerStatus| {
        statuses.partitions(0).iter().map(|s| (s.partition, s.behind)).collect::<Vec<_>>()
    };
    eventually("the ends are known", async || {
        behind(&statuses) == [(0, 25), (1, 25), (2, 25), (3, 0)]
    })
    .await;
    assert!(statuses.partitions(0).iter().all(|s| s.since.is_some() == (s.behind > 0)));

    for range in [10..20, 20..25] {
        let (batch, ack) = under_way.remove(&1).unwrap();
        assert!(advance(&store, &batch).await);
        ack.done();
        let (batch, ack) = next_batch(&mut consumer).await;
        assert_eq!((batch.position.partition, texts(&batch)), (1, numbers(range)));
        assert!(!batch.is_first);
        under_way.insert(1, (batch, ack));
    }
    let (batch, ack) = under_way.remove(&1).unwrap();
    assert_eq!(batch.next(), 25);
    ack.done();
    assert_no_batch(&mut consumer).await;
    assert_eq!(behind(&statuses)[1], (1, 0));
    // New ones come as they are appended.
    log.append(tracked(3, 0, 1)).await.unwrap();
    assert_eq!(next_batch(&mut consumer).await.0.position.partition, 3);
    log.close().await;
}

async fn batches_end_at_their_limits(test_log: TestLog) {
    let installation = Installation::new(test_log).await;
    let (store, log) = installation.open().await;
    let large = |n: u8| tracking(0, vec![n; 300_000]);
    log.append((0..5).map(large).collect()).await.unwrap();
    let limits = Limits { messages: 100, bytes: 700_000, in_flight: 1 };
    let (mut consumer, _) = batches(&log, &store, limits);
    let mut got = Vec::new();
    while got.len() < 5 {
        let (batch, ack) = next_batch(&mut consumer).await;
        // The one that reaches the limit is the last.
        assert!(batch.messages.len() <= 3, "{}", batch.messages.len());
        got.extend(batch.messages.iter().map(|message| message.payload[0]));
        ack.done();
    }
    assert_eq!(got, [0, 1, 2, 3, 4]);
    log.close().await;
}

async fn offsets_are_read_from_the_store(test_log: TestLog) {
    let installation = Installation::new(test_log).await;
    let (store, log) = installation.open().await;
    log.append(tracked(0, 0, 30)).await.unwrap();
    // Said to be done, and committed to the log, but not in the store.
    let (mut consumer, _) = batches(&log, &store, LIMITS);
    let (batch, ack) = next_batch(&mut consumer).await;
    assert!(advance(&store, &batch).await);
    ack.done();
    let (batch, ack) = next_batch(&mut consumer).await;
    assert_eq!(texts(&batch), numbers(10..20));
    ack.done();
    consumer.drain(TIMEOUT).await;

    let (mut consumer, _) = batches(&log, &store, LIMITS);
    let (batch, ack) = next_batch(&mut consumer).await;
    assert_eq!(texts(&batch), numbers(10..20));
    // In the store, and not said to be done.
    assert!(advance(&store, &batch).await);
    assert!(!advance(&store, &batch).await, "the guard lets it through once");
    drop((ack, consumer));

    let (mut consumer, _) = batches(&log, &store, LIMITS);
    assert_eq!(texts(&next_batch(&mut consumer).await.0), numbers(20..30));
    log.close().await;
}

/// Another broker may lead a partition, and have an earlier time.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_back_of_the_logs_clock_changes_no_order() {
    let installation = Installation::new(TestLog::embedded()).await;
    let (store, log) = installation.open().await;
    for n in 0..4 {
        log.append(tracked(0, n, 1)).await.unwrap();
    }
    let file = installation.test_log.config.data.join("log.db");
    let file = format!("sqlite://{}", file.display());
    let mut file = sqlx::SqliteConnection::connect(&file).await.unwrap();
    for (position, appended_at) in [(0, 50_000), (1, 45_000), (2, 44_000), (3, 60_000)] {
        sqlx::query("UPDATE messages SET appended_at = $2 WHERE partition = 0 AND position = $1")
            .bind(position)
            .bind(appended_at)
            .execute(&mut file)
            .await
            .unwrap();
    }
    let mut times = Vec::new();
    let limits = Limits { messages: 2, ..LIMITS };
    // Also by the next consumer.
    for _ in 0..2 {
        let (mut consumer, _) = batches(&log, &store, limits);
        let (batch, _ack) = next_batch(&mut consumer).await;
        times.extend(batch.messages.iter().map(|message| message.log_time.unwrap()));
        let last = batch.messages.last().unwrap();
        let mut tx = store.write().await.unwrap();
        assert!(offsets::advance_past(&mut tx, &batch.position, last).await.unwrap());
        tx.commit().await.unwrap();
    }
    assert_eq!(times, [50_000, 50_001, 50_002, 60_000]);
    log.close().await;
}

/// Applies batches in the background.
struct Applying {
    /// It goes with a batch in hand.
    stop: CancellationToken,
    status: Arc<Mutex<ConsumerStatus>>,
}

impl Applying {
    fn has_partitions(&self) -> bool {
        let status = self.status.lock().unwrap();
        !status.partitions(0).is_empty() || !status.waiting().is_empty()
    }
}

/// Applies batches as the guard lets it; what it applied goes into `applied`.
fn apply(log: &Log, store: &Store, applied: &Arc<Mutex<Vec<(i32, String)>>>) -> Applying {
    let (log, store, applied) = (log.clone(), store.clone(), applied.clone());
    let limits = Limits { messages: 3, ..LIMITS };
    let (mut consumer, status) = batches(&log, &store, limits);
    let (stop, status) = (CancellationToken::new(), Arc::new(Mutex::new(status)));
    let applying = Applying { stop: stop.clone(), status: status.clone() };
    tokio::spawn(async move {
        loop {
            let (batch, ack) = next_batch(&mut consumer).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            if stop.is_cancelled() {
                return;
            }
            if advance(&store, &batch).await {
                let done = batch.messages.iter().map(|m| (m.partition, text(m)));
                applied.lock().unwrap().extend(done);
                ack.done();
            } else {
                drop((ack, consumer));
                let (again, its_status) = batches(&log, &store, limits);
                consumer = again;
                *status.lock().unwrap() = its_status;
            }
        }
    });
    applying
}

async fn partitions_that_move_are_applied_once(test_log: TestLog) {
    let installation = Installation::new(test_log).await;
    let (store, log) = installation.open().await;
    let applied = Arc::default();
    let first = apply(&log, &store, &applied);
    for partition in 0..4 {
        log.append(tracked(partition, 0, 60)).await.unwrap();
    }
    eventually("it works", async || applied.lock().unwrap().len() >= 12).await;
    let others = [apply(&log, &store, &applied), apply(&log, &store, &applied)];
    eventually("partitions move", async || others.iter().any(Applying::has_partitions)).await;
    first.stop.cancel();
    for partition in 0..4 {
        log.append(tracked(partition, 60, 60)).await.unwrap();
    }
    eventually("all are applied", async || applied.lock().unwrap().len() >= 480).await;
    // What is applied again would come before these.
    for partition in 0..4 {
        log.append(tracked(partition, 120, 1)).await.unwrap();
    }
    eventually("the last are applied", async || applied.lock().unwrap().len() >= 484).await;
    others.iter().for_each(|other| other.stop.cancel());
    let mut by_partition: BTreeMap<i32, Vec<String>> = BTreeMap::new();
    for (partition, text) in applied.lock().unwrap().drain(..) {
        by_partition.entry(partition).or_default().push(text);
    }
    assert_eq!(by_partition, (0..4).map(|partition| (partition, numbers(0..121))).collect());
}

async fn revoking_a_partition_waits_for_its_batch(test_log: TestLog) {
    let installation = Installation::new(test_log).await;
    let (store, log) = installation.open().await;
    for partition in 0..4 {
        log.append(tracked(partition, 0, 20)).await.unwrap();
    }
    let (mut first, _) = batches(&log, &store, LIMITS);
    let mut under_way = Vec::new();
    for _ in 0..4 {
        under_way.push(next_batch(&mut first).await);
    }
    let (mut second, _) = batches(&log, &store, LIMITS);
    tokio::time::sleep(QUIET).await;
    for (batch, ack) in under_way {
        assert!(ack.is_assigned(), "it was waited for");
        assert!(advance(&store, &batch).await);
        ack.done();
    }
    let taken = async { while next_batch(&mut first).await.0.position.partition < 4 {} };
    let (batch, ack) = tokio::select! {
        given = next_batch(&mut second) => given,
        () = taken => unreachable!("no partition is so far"),
    };
    assert_eq!(texts(&batch), numbers(10..20));
    assert!(advance(&store, &batch).await && ack.is_assigned());
    log.close().await;
}

/// How the partitions stand once `count` of them are stopped.
async fn once_stopped(statuses: &ConsumerStatus, count: usize) -> Vec<PartitionStatus> {
    let stopped = || {
        let all = statuses.partitions(0).into_iter();
        all.filter(|status| status.stopped.is_some()).collect::<Vec<_>>()
    };
    eventually("they are stopped", async || stopped().len() == count).await;
    stopped()
}

/// The text of a partition that is stopped: it names it, and what to do.
fn reason(status: &PartitionStatus) -> &str {
    let (_, reason) = status.stopped.as_ref().expect("it is stopped");
    let command =
        format!("`longshore log reset --topic tracking --partition {} --to", status.partition);
    assert!(reason.contains(&command), "{reason}");
    reason
}

async fn an_offset_out_of_range_stops_only_its_partition(test_log: TestLog) {
    let installation = Installation::new(test_log).await;
    let (store, log) = installation.open().await;
    let (consumer, statuses) = batches(&log, &store, LIMITS);
    eventually("the partitions are known", async || statuses.partitions(0).len() == 4).await;
    drop(consumer);
    let own = self::position(&store, 2).await;
    put(&store, &Offset { next: 1000, ..own.clone() }).await;
    for partition in 0..4 {
        log.append(tracked(partition, 0, 5)).await.unwrap();
    }

    let (mut consumer, statuses) = batches(&log, &store, LIMITS);
    let mut got = BTreeSet::new();
    for _ in 0..3 {
        let (batch, ack) = next_batch(&mut consumer).await;
        got.insert(batch.position.partition);
        ack.done();
    }
    assert_eq!(got, [0, 1, 3].into());
    assert_no_batch(&mut consumer).await;
    let stopped = once_stopped(&statuses, 1).await;
    let text = reason(&stopped[0]);
    assert!(text.contains("partition 2") && text.contains("offset 1000"), "{text}");
    assert!(text.contains("the log ends at 5"), "{text}");
    assert_eq!(self::position(&store, 2).await.next, 1000, "nothing was reset silently");
    drop(consumer);

    put(&store, &Offset { next: 3, ..own }).await;
    let (mut consumer, _) = batches(&log, &store, LIMITS);
    loop {
        let (batch, ack) = next_batch(&mut consumer).await;
        if batch.position.partition == 2 {
            break assert_eq!(texts(&batch), ["3", "4"]);
        }
        ack.done();
    }
    log.close().await;
}

/// As one is whose leader is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_cannot_be_read_holds_up_no_other() {
    let proxy = Proxy::to_kafka(&servers::kafka()).await;
    let mut installation = Installation::new(TestLog::kafka()).await;
    installation.test_log.config.log.url = format!("kafka://{}", proxy.address());
    let (store, log) = installation.open().await;
    for partition in 0..4 {
        log.append(tracked(partition, 0, 5)).await.unwrap();
    }
    proxy.set(ProxyMode::WithoutOffsetsOf(2));
    let (mut consumer, statuses) = batches(&log, &store, LIMITS);
    let mut got = BTreeSet::new();
    for _ in 0..3 {
        let (batch, ack) = next_batch(&mut consumer).await;
        assert!(advance(&store, &batch).await);
        got.insert(batch.position.partition);
        ack.done();
    }
    assert_eq!((got, statuses.waiting()), ([0, 1, 3].into(), vec![2]));
    log.append(tracked(0, 5, 1)).await.unwrap();
    let (batch, ack) = next_batch(&mut consumer).await;
    assert_eq!((batch.position.partition, texts(&batch)), (0, numbers(5..6)));
    assert!(advance(&store, &batch).await);
    ack.done();

    // Nor does the group wait for it.
    let (mut other, others) = batches(&log, &store, LIMITS);
    let holds = |statuses: &ConsumerStatus| statuses.partitions(0).len() + statuses.waiting().len();
    eventually("they share the partitions", async || (holds(&statuses), holds(&others)) == (2, 2))
        .await;
    proxy.set(ProxyMode::Open);
    let (batch, _ack) = tokio::select! {
        batch = next_batch(&mut consumer) => batch,
        batch = next_batch(&mut other) => batch,
    };
    assert_eq!((batch.position.partition, texts(&batch)), (2, numbers(0..5)));
    assert!(statuses.waiting().is_empty() && others.waiting().is_empty());
    log.close().await;
}

on_both_stores!(ids_are_remembered_once_and_for_their_time,);

async fn ids_are_remembered_once_and_for_their_time(test: TestStore) {
    let scope = |partition| Scope { group: GROUP, topic: topics::TRACKING, partition };
    let [a, b, c] = [1, 2, 3].map(Uuid::from_u128);
    let remember = async |partition, ids: &[(Uuid, i64)]| {
        let mut tx = test.store.write().await?;
        let new = message_ids::remember(&mut tx, scope(partition), ids).await?;
        tx.commit().await?;
        Ok::<_, StoreError>(new)
    };
    assert_eq!(remember(0, &[]).await.unwrap(), [].into());
    assert_eq!(remember(0, &[(b, 20), (a, 10), (b, 20)]).await.unwrap(), [a, b].into());
    assert_eq!(remember(0, &[(a, 11), (c, 30)]).await.unwrap(), [c].into());
    assert_eq!(remember(1, &[(a, 10)]).await.unwrap(), [a].into(), "of another partition");

    let mut tx = test.store.write().await.unwrap();
    assert!(!message_ids::sweep(&mut tx, scope(0), 30).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(remember(0, &[(a, 40), (b, 40), (c, 40)]).await.unwrap(), [a, b].into());
    assert_eq!(remember(1, &[(a, 40)]).await.unwrap(), [].into());
}
