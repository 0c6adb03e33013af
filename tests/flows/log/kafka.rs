//! What only Kafka can go wrong with: brokers and topics.

use std::time::{Duration, Instant};

use log::{Limits, LogError};
use longshore::topics;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;

use super::*;
use crate::support::reader::read_topic;
use crate::support::stores::TestStore;
use crate::support::{eventually, servers};

#[tokio::test(flavor = "multi_thread")]
async fn appends_without_a_broker_time_out() {
    let mut test_log = TestLog::kafka();
    test_log.config.log.url = "kafka://127.0.0.1:9".into();
    test_log.config.log.append_timeout_ms = 800;
    let log = longshore::app::open_log(&test_log.config).await.unwrap();
    let begun = Instant::now();
    let error = log.append(numbered("a", 3)).await.unwrap_err();
    assert!(matches!(error, LogError::Unavailable(_)), "{error}");
    // Far below the limit that is usual.
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    let lines = log.check(None).await.unwrap().join("\n");
    assert!(lines.contains("cannot reach broker 127.0.0.1:9"), "{lines}");
    let (writable, offsets) =
        tokio::join!(log.check_writable(), log.topic_offsets(topics::TRACKING));
    for error in [writable.unwrap_err(), offsets.unwrap_err()] {
        assert!(matches!(error, LogError::Unavailable(_)), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_existing_topic_has_offsets() {
    let mut test_log = TestLog::kafka();
    let log = longshore::app::open_log(&test_log.config).await.unwrap();
    for _ in 0..2 {
        let error = log.topic_offsets(topics::TRACKING).await.unwrap_err();
        assert!(error.to_string().contains("longshore migrate"), "{error}");
    }
    log.create_topics().await.unwrap();
    log.append(numbered("a", 3)).await.unwrap();
    eventually("every partition has a leader", async || {
        let offsets = log.topic_offsets(topics::TRACKING).await;
        offsets.is_ok_and(|offsets| {
            let ends = offsets.ranges.iter().map(|range| range.end);
            ends.len() == 4 && ends.sum::<i64>() == 3
        })
    })
    .await;
    // A missing partition is an error, too.
    test_log.config.log.partitions = 5;
    let log = longshore::app::open_log(&test_log.config).await.unwrap();
    let error = log.topic_offsets(topics::TRACKING).await.unwrap_err();
    assert!(matches!(error, LogError::Unavailable(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_check_reports_topic_differences() {
    let mut test_log = TestLog::kafka();
    let log = longshore::app::open_log(&test_log.config).await.unwrap();
    let lines = log.check(None).await.unwrap().join("\n");
    assert!(lines.contains("does not exist: run `longshore migrate`"), "{lines}");

    // With fewer brokers than requested replicas, fewer are created, and a message reports it.
    test_log.config.log.replication = 3;
    let log = test_log.open().await;
    let note = log.create_topics().await.unwrap().expect("a note");
    assert!(note.contains("log.replication is 3, and the cluster has 1 broker:"), "{note}");
    let lines = log.check(None).await.unwrap();
    assert_eq!(lines.len(), topics::ALL.len(), "{lines:?}");
    for line in &lines {
        assert!(line.contains("has 1 replica but log.replication is 3"), "{lines:?}");
        assert!(line.contains("set log.replication to 1"), "{lines:?}");
    }

    test_log.config.log.replication = 1;
    assert!(test_log.open().await.check(None).await.unwrap().is_empty());
    test_log.config.log.partitions = 5;
    // The advice is a number that `migrate` accepts.
    for (fixed, advice) in [
        (None, "before the first `longshore migrate`, set log.partitions to 4:"),
        (Some(4), "set log.partitions to 4"),
        (Some(5), "fixed the number at 5. Delete the topic"),
    ] {
        let lines = test_log.open().await.check(fixed).await.unwrap();
        assert_eq!(lines.len(), topics::ALL.len(), "{lines:?}");
        for line in &lines {
            assert!(line.contains("has 4 partitions and log.partitions is 5: "), "{lines:?}");
            assert!(line.contains(advice), "{lines:?}");
        }
    }
    let refused = test_log.open().await.check_partitions().await.unwrap_err();
    assert!(matches!(&refused, LogError::Settings(text) if text.contains("to 4:")), "{refused}");
    test_log.config.log.partitions = 4;
    test_log.open().await.check_partitions().await.unwrap();
}

/// The order of changes is that of the log's time, which earlier topics do not have.
#[tokio::test(flavor = "multi_thread")]
async fn migrate_gives_existing_topics_the_time_of_the_log() {
    let test_log = TestLog::kafka();
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", servers::kafka()).create().unwrap();
    let prefix = &test_log.config.log.topic_prefix;
    let names: Vec<String> =
        topics::ALL.iter().map(|topic| format!("{prefix}{}", topic.name())).collect();
    let earlier = |name| {
        NewTopic::new(name, 4, TopicReplication::Fixed(1))
            .set("retention.ms", "-1")
            .set("max.message.bytes", "6000000")
            .set("segment.ms", "43200000")
            .set("message.timestamp.type", "CreateTime")
            .set("unclean.leader.election.enable", "true")
    };
    let created: Vec<NewTopic<'_>> = names.iter().map(|name| earlier(name)).collect();
    for result in admin.create_topics(&created, &AdminOptions::new()).await.unwrap() {
        result.unwrap();
    }
    let log = longshore::app::open_log(&test_log.config).await.unwrap();
    eventually("the topics are known", async || {
        let lines = log.check(None).await.unwrap();
        !lines.iter().any(|line| line.contains("does not exist"))
    })
    .await;
    let lines = log.check(None).await.unwrap();
    for name in &names {
        for part in ["message.timestamp.type CreateTime: ", "unclean.leader.election.enable true: "]
        {
            let is_about = |line: &&String| line.contains(name.as_str()) && line.contains(part);
            let line = lines.iter().find(is_about);
            let line = line.unwrap_or_else(|| panic!("{name}: {part}: {lines:?}"));
            assert!(line.contains("run `longshore migrate`"), "{line}");
        }
    }
    assert_eq!(log.append(numbered("a", 1)).await.unwrap(), [None]);
    assert_eq!(log.create_topics().await.unwrap(), None);
    eventually("the properties are known", async || log.check(None).await.unwrap().is_empty())
        .await;
    eventually("the broker has the property", async || {
        log.append(numbered("a", 1)).await.unwrap().iter().all(Option::is_some)
    })
    .await;
    let times = log.append(numbered("a", 2)).await.unwrap();
    let messages = read_topic(&log, topics::TRACKING).await;
    assert_eq!(messages[0].log_time, None);
    let last: Vec<Option<i64>> = messages.iter().rev().take(2).map(|m| m.log_time).collect();
    assert_eq!(last, [times[1], times[0]]);
    // It changes nothing else.
    let topic = [ResourceSpecifier::Topic(&names[0])];
    let described = admin.describe_configs(&topic, &AdminOptions::new()).await.unwrap();
    let described = described.into_iter().next().unwrap().unwrap();
    let segment = described.get("segment.ms").and_then(|entry| entry.value.clone());
    assert_eq!(segment.as_deref(), Some("43200000"));
    log.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_check_suggests_tls_and_sasl_settings() {
    let mut test_log = TestLog::kafka();
    for (name, value) in [
        ("security.protocol", "SASL_PLAINTEXT"),
        ("sasl.mechanism", "PLAIN"),
        ("sasl.username", "somebody"),
        ("sasl.password", "hidden"),
    ] {
        test_log.config.log.kafka.insert(name.into(), value.into());
    }
    let error = longshore::app::open_log(&test_log.config)
        .await
        .unwrap()
        .check(None)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("TLS and SASL") && !error.contains("hidden"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_property_is_refused() {
    let mut test_log = TestLog::kafka();
    test_log.config.log.kafka.insert("no.such.property".into(), "secret".into());
    let error = longshore::app::open_log(&test_log.config).await.err().unwrap();
    assert!(matches!(&error, LogError::Settings(text) if text.contains("no.such.property")));
    assert!(!error.to_string().contains("secret"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_waits_for_its_topic() {
    let test_log = TestLog::kafka();
    let log = longshore::app::open_log(&test_log.config).await.unwrap();
    let store = TestStore::sqlite().await;
    let limits = Limits { messages: 1, bytes: 1, in_flight: 1 };
    let (mut consumer, _) = log.batches("g", topics::TRACKING, &store.store, limits).unwrap();
    let error = tokio::time::timeout(TIMEOUT, consumer.next()).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("longshore migrate"), "{error}");
    log.create_topics().await.unwrap();
    log.append(numbered("a", 1)).await.unwrap();
    let begun = Instant::now();
    loop {
        match tokio::time::timeout(TIMEOUT, consumer.next()).await.unwrap() {
            Ok((batch, _)) => break assert_eq!(text(&batch.messages[0]), "0"),
            Err(error) => assert!(begun.elapsed() < TIMEOUT, "{error}"),
        }
    }
}
