//! Logs that lost messages, or were recreated: their partitions stop until a reset.

use log::Limits;
use longshore::topics;
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::{ClientConfig, Offset as KafkaOffset, TopicPartitionList};
use sqlx::Connection as _;

use super::super::installation::{Installation, longshore};
use super::super::*;
use super::{
    LIMITS, advance, assert_no_batch, batches, next_batch, numbers, once_stopped, reason, texts,
    tracked,
};
use crate::support::{eventually, servers};

on_both!(
    messages_that_the_log_lost_stop_their_partition,
    a_recreated_log_stops_processing_until_a_reset,
);

fn admin() -> AdminClient<DefaultClientContext> {
    ClientConfig::new().set("bootstrap.servers", servers::kafka()).create().unwrap()
}

impl TestLog {
    fn is_kafka(&self) -> bool {
        self.config.log.url.starts_with("kafka")
    }

    fn tracking_topic(&self) -> String {
        format!("{}tracking", self.config.log.topic_prefix)
    }

    /// Removes the messages of a partition before an offset, as by mistake.
    async fn lose(&self, partition: i32, before: i64) {
        if self.is_kafka() {
            let mut list = TopicPartitionList::new();
            let offset = KafkaOffset::Offset(before);
            list.add_partition_offset(&self.tracking_topic(), partition, offset).unwrap();
            let lost = admin().delete_records(&list, &AdminOptions::new()).await.unwrap();
            lost.elements().iter().for_each(|element| element.error().unwrap());
            return;
        }
        let file = format!("sqlite://{}", self.config.data.join("log.db").display());
        let mut file = sqlx::SqliteConnection::connect(&file).await.unwrap();
        sqlx::query("DELETE FROM messages WHERE partition = $1 AND position < $2")
            .bind(partition)
            .bind(before)
            .execute(&mut file)
            .await
            .unwrap();
    }

    /// Loses the log with all that is in it; returns the one made in its place.
    async fn recreate(&self, log: Log) -> Log {
        let former = log.topic_offsets(topics::TRACKING).await.unwrap().id;
        log.close().await;
        if self.is_kafka() {
            delete_topic(&self.tracking_topic()).await;
        }
        for file in ["log.db", "log.db-wal", "log.db-shm"] {
            let _ = std::fs::remove_file(self.config.data.join(file));
        }
        let log = self.open().await;
        until_recreated(&log, &former).await;
        log
    }
}

/// A topic that was deleted is there for a while yet, and is recreated only after that.
async fn until_recreated(log: &Log, former: &str) {
    eventually("it is made anew", async || {
        log.create_topics().await.is_ok()
            && log
                .topic_offsets(topics::TRACKING)
                .await
                .is_ok_and(|topic_offsets| topic_offsets.id != former)
    })
    .await;
}

async fn delete_topic(topic: &str) {
    let deleted = admin().delete_topics(&[topic], &AdminOptions::new()).await.unwrap();
    assert!(deleted.iter().all(Result::is_ok), "{deleted:?}");
}

async fn messages_that_the_log_lost_stop_their_partition(test_log: TestLog) {
    let installation = Installation::new(test_log).await;
    let (store, log) = installation.open().await;
    log.append(tracked(1, 0, 10)).await.unwrap();
    let (mut consumer, _) = batches(&log, &store, Limits { messages: 2, ..LIMITS });
    let (batch, ack) = next_batch(&mut consumer).await;
    assert!(advance(&store, &batch).await);
    drop((ack, consumer));
    installation.test_log.lose(1, 5).await;

    let (mut consumer, statuses) = batches(&log, &store, LIMITS);
    assert_no_batch(&mut consumer).await;
    let stopped = once_stopped(&statuses, 1).await;
    let text = reason(&stopped[0]);
    assert!(text.contains("offset 2") && text.contains("in the log is 5"), "{text}");
    log.close().await;
}

async fn a_recreated_log_stops_processing_until_a_reset(test_log: TestLog) {
    let installation = Installation::new(test_log).await;
    let (store, log) = installation.open().await;
    log.append(tracked(1, 0, 3)).await.unwrap();
    let (mut consumer, _) = batches(&log, &store, LIMITS);
    let (batch, ack) = next_batch(&mut consumer).await;
    assert!(advance(&store, &batch).await);
    ack.done();
    consumer.drain(TIMEOUT).await;

    let log = installation.test_log.recreate(log).await;
    // As far as the previous one, so that the offset alone would not show it.
    log.append(tracked(1, 0, 5)).await.unwrap();
    let (mut consumer, statuses) = batches(&log, &store, LIMITS);
    assert_no_batch(&mut consumer).await;
    let stopped = once_stopped(&statuses, 4).await;
    assert!(stopped.iter().all(|status| reason(status).contains("was recreated")), "{stopped:?}");
    drop(consumer);

    let (ok, printed) = longshore(&installation, &["migrate"]).await;
    assert!(ok, "{printed}");
    let (ok, printed) = longshore(&installation, &["log", "status"]).await;
    assert!(!ok && printed.contains("4 partitions are stopped"), "{printed}");
    let wrong = ["log", "reset", "--topic", "tracking", "--partition", "1", "--to", "6"];
    let (ok, printed) = longshore(&installation, &wrong).await;
    assert!(!ok && printed.contains("6 is outside of the log's offsets, 0 to 5"), "{printed}");
    let to_1 = ["log", "reset", "--topic", "tracking", "--partition", "1", "--to", "1"];
    let (ok, printed) = longshore(&installation, &to_1).await;
    assert!(ok && printed.contains("1 of g: was at 3, continues at 1"), "{printed}");
    let all = ["log", "reset", "--topic", "tracking", "--all", "--to", "latest"];
    let (ok, printed) = longshore(&installation, &all).await;
    assert!(ok && printed.lines().count() == 3, "{printed}");
    let (ok, printed) = longshore(&installation, &["log", "status", "--json"]).await;
    let of_1 = printed.lines().find(|line| line.contains(r#""partition":1"#)).expect("partition 1");
    let of_1: serde_json::Value = serde_json::from_str(of_1).expect("JSON");
    assert!(ok && of_1["stopped"].is_null(), "{printed}");
    for (name, value) in [("next", 1), ("earliest", 0), ("end", 5), ("behind", 4)] {
        assert_eq!(of_1[name], value, "{name}: {of_1}");
    }

    let (mut consumer, _) = batches(&log, &store, LIMITS);
    let (batch, _ack) = next_batch(&mut consumer).await;
    assert_eq!((batch.position.partition, texts(&batch)), (1, numbers(1..5)));
    log.close().await;
}

/// The offsets of the new one may well reach as far: only its id shows it.
#[tokio::test(flavor = "multi_thread")]
async fn consumers_detect_a_recreated_topic() {
    let installation = Installation::new(TestLog::kafka()).await;
    let (store, log) = installation.open().await;
    log.append(tracked(0, 0, 2)).await.unwrap();
    let (mut consumer, statuses) = batches(&log, &store, LIMITS);
    let (batch, ack) = next_batch(&mut consumer).await;
    assert!(advance(&store, &batch).await);
    ack.done();
    let former = log.topic_offsets(topics::TRACKING).await.unwrap().id;
    delete_topic(&installation.test_log.tracking_topic()).await;
    until_recreated(&log, &former).await;
    let stopped = once_stopped(&statuses, 4).await;
    assert!(stopped.iter().all(|status| reason(status).contains("was recreated")), "{stopped:?}");
    drop(consumer);
    log.close().await;
}
