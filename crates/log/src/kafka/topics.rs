//! Creates the topics, and says in words how they differ from what they should be.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::error::RDKafkaErrorCode;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::{
    BackgroundDrop, MAX_BATCH_BYTES, Settings, Tracing, create as create_client, describe,
    unavailable,
};
use crate::cursors::Extent;
use crate::message::{LogError, Topic};
use kit::words::count;

type Admin = Arc<BackgroundDrop<AdminClient<Tracing>>>;

/// How long an answer of the cluster may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Between looks for topics that were created.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What the cluster says of itself.
struct Cluster {
    brokers: usize,
    topics: BTreeMap<String, TopicState>,
}

struct TopicState {
    partitions: usize,
    /// The fewest copies that a partition has, and how many partitions lack some of theirs.
    replication: usize,
    behind: usize,
}

/// Creates the topics that are missing; answers what the operator should know.
pub(super) async fn create(settings: &Settings) -> Result<Option<String>, LogError> {
    let admin = admin(settings)?;
    let cluster = describe_cluster(&admin).await?;
    let (replication, note) = attainable_replication(settings, cluster.brokers);
    let min_in_sync = min_in_sync(replication).to_string();
    let max_bytes = MAX_BATCH_BYTES.to_string();
    let names: Vec<String> = settings.topics.iter().map(|topic| settings.topic(*topic)).collect();
    let missing: Vec<_> = names
        .iter()
        .filter(|name| !cluster.topics.contains_key(*name))
        .map(|name| {
            NewTopic::new(name, settings.partitions, TopicReplication::Fixed(replication))
                .set("cleanup.policy", "delete")
                // No outage outlasts it.
                .set("retention.ms", "-1")
                .set("retention.bytes", "-1")
                // What is old is told by the brokers' clocks, and not by each gateway's own.
                .set("message.timestamp.type", "LogAppendTime")
                // What is worked on is removed by whole segments, which end once a day.
                .set("segment.ms", "86400000")
                .set("max.message.bytes", &max_bytes)
                .set("min.insync.replicas", &min_in_sync)
        })
        .collect();
    if missing.is_empty() {
        return Ok(note);
    }
    let options =
        AdminOptions::new().request_timeout(Some(PATIENCE * 2)).operation_timeout(Some(PATIENCE));
    for result in admin.create_topics(&missing, &options).await.map_err(unavailable)? {
        match result {
            Ok(topic) => tracing::info!(topic, "topic created"),
            // Another process was first.
            Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((topic, code)) => {
                return Err(LogError::Unavailable(format!(
                    "topic {topic} could not be created: {code}"
                )));
            }
        }
    }
    until_known(&admin, &names).await?;
    Ok(note)
}

/// Waits until a broker knows the topics. Their creation is answered before, and who consumes
/// them in between is told that they do not exist; it then goes on by itself, so that it is no
/// error when they are not known in time.
async fn until_known(admin: &Admin, names: &[String]) -> Result<(), LogError> {
    let known = async {
        loop {
            let cluster = describe_cluster(admin).await?;
            if names.iter().all(|name| cluster.topics.contains_key(name)) {
                return Ok(());
            }
            sleep(LOOK_EVERY).await;
        }
    };
    timeout(PATIENCE, known).await.unwrap_or_else(|_| {
        tracing::warn!("the topics were created, and a broker does not know them yet");
        Ok(())
    })
}

/// What is wrong, a line each.
pub(super) async fn check(settings: &Settings) -> Result<Vec<String>, LogError> {
    let mut lines = unreachable_brokers(&settings.brokers).await;
    if lines.len() == addresses(&settings.brokers).count() {
        return Ok(lines);
    }
    let admin = admin(settings)?;
    let cluster = match describe_cluster(&admin).await {
        Ok(cluster) => cluster,
        Err(LogError::Unavailable(reason)) if lines.is_empty() => {
            return Err(LogError::Unavailable(format!(
                "{reason}, though connections are accepted: is it TLS or SASL that one side does \
                 not expect?"
            )));
        }
        Err(error) => {
            lines.push(error.to_string());
            return Ok(lines);
        }
    };
    for topic in settings.topics {
        let name = settings.topic(*topic);
        let Some(state) = cluster.topics.get(&name) else {
            lines.push(format!("topic {name} does not exist: run `longshore migrate`"));
            continue;
        };
        lines.extend(wrong_shape(settings, &name, state, cluster.brokers));
        lines.extend(wrong_properties(&admin, &name, state.replication).await?);
    }
    Ok(lines)
}

/// What the cluster has of a topic.
pub(super) async fn extent(settings: &Settings, topic: Topic) -> Result<Extent, LogError> {
    let (admin, name, partitions) = (admin(settings)?, settings.topic(topic), settings.partitions);
    tokio::task::spawn_blocking(move || describe::extent(admin.inner(), &name, 0..partitions))
        .await
        .map_err(|error| LogError::Unavailable(error.to_string()))?
}

fn wrong_shape(settings: &Settings, name: &str, state: &TopicState, brokers: usize) -> Vec<String> {
    let mut lines = Vec::new();
    if state.partitions != settings.partitions as usize {
        lines.push(format!(
            "topic {name} has {} partitions and log.partitions is {}: set it to {0}, since more \
             partitions would break the order of keys",
            state.partitions, settings.partitions
        ));
    }
    if state.replication < settings.replication as usize {
        lines.push(format!(
            "topic {name} is kept {} and log.replication is {} (the cluster has {}): a broker \
             that is lost may lose messages; give the topic more copies with \
             kafka-reassign-partitions, or set log.replication to {} if that is meant",
            count(state.replication as u64, "time"),
            settings.replication,
            count(brokers as u64, "broker"),
            state.replication
        ));
    }
    if state.behind > 0 {
        lines.push(format!(
            "topic {name}: {} of {} partitions lack copies that are up to date: a broker is down \
             or slow",
            state.behind, state.partitions
        ));
    }
    lines
}

async fn wrong_properties(
    admin: &Admin,
    name: &str,
    replication: usize,
) -> Result<Vec<String>, LogError> {
    let options = AdminOptions::new().request_timeout(Some(PATIENCE));
    let topic = [ResourceSpecifier::Topic(name)];
    let answers = admin.describe_configs(&topic, &options).await.map_err(unavailable)?;
    let mut lines = Vec::new();
    for answer in answers {
        let described = match answer {
            Ok(described) => described,
            Err(code) => {
                lines.push(format!("topic {name} cannot be described: {code}"));
                continue;
            }
        };
        let properties = described.entry_map();
        let value = |property: &str| properties.get(property).and_then(|p| p.value.as_deref());
        let number = |property: &str| value(property)?.parse::<i64>().ok();
        // -1 is for ever.
        if number("retention.ms").is_some_and(|ms| ms >= 0) {
            lines.push(format!(
                "topic {name} has retention.ms {}: messages that an outage holds up longer are \
                 lost; set it to -1",
                value("retention.ms").unwrap_or_default()
            ));
        }
        if number("retention.bytes").is_some_and(|bytes| bytes >= 0) {
            lines.push(format!(
                "topic {name} has a limit of retention.bytes: messages that wait may be lost; set \
                 it to -1"
            ));
        }
        if value("cleanup.policy").is_some_and(|policy| policy.contains("compact")) {
            lines.push(format!(
                "topic {name} is compacted, which loses messages: set \
                 cleanup.policy to delete"
            ));
        }
        if number("max.message.bytes").is_some_and(|bytes| bytes < MAX_BATCH_BYTES as i64) {
            lines.push(format!(
                "topic {name} has max.message.bytes {}: large messages are refused; set it to \
                 {MAX_BATCH_BYTES}",
                value("max.message.bytes").unwrap_or_default()
            ));
        }
        let wanted = min_in_sync(replication as i32);
        if number("min.insync.replicas").is_some_and(|count| count < i64::from(wanted)) {
            lines.push(format!(
                "topic {name} has min.insync.replicas {}: an append may live on one broker only; \
                 set it to {wanted}",
                value("min.insync.replicas").unwrap_or_default()
            ));
        }
    }
    Ok(lines)
}

/// The copies that this cluster can keep, and what to say where these are too few.
fn attainable_replication(settings: &Settings, brokers: usize) -> (i32, Option<String>) {
    let brokers = i32::try_from(brokers).unwrap_or(i32::MAX).max(1);
    let note = (settings.replication > brokers).then(|| {
        format!(
            "log.replication is {}, and the cluster has {}: new topics get no more copies than \
             that, and a broker that is lost may lose messages; `longshore doctor` says how each \
             topic is kept",
            settings.replication,
            count(brokers.unsigned_abs().into(), "broker")
        )
    });
    (settings.replication.min(brokers), note)
}

/// Copies that must have a message before its append is answered.
fn min_in_sync(replication: i32) -> i32 {
    if replication >= 3 { 2 } else { 1 }
}

pub(super) fn admin(settings: &Settings) -> Result<Admin, LogError> {
    let client = create_client(&settings.client(&[], &[]), Tracing)?;
    Ok(Arc::new(BackgroundDrop::new(client)))
}

/// Asks the cluster, which blocks.
async fn describe_cluster(admin: &Admin) -> Result<Cluster, LogError> {
    let admin = admin.clone();
    tokio::task::spawn_blocking(move || {
        let metadata = admin.inner().fetch_metadata(None, PATIENCE).map_err(unavailable)?;
        let known = metadata.topics().iter().filter(|topic| topic.error().is_none());
        let topics = known
            .map(|topic| {
                let partitions = topic.partitions();
                let state = TopicState {
                    partitions: partitions.len(),
                    replication: partitions.iter().map(|p| p.replicas().len()).min().unwrap_or(0),
                    behind: partitions
                        .iter()
                        .filter(|p| p.isr().len() < p.replicas().len())
                        .count(),
                };
                (topic.name().to_owned(), state)
            })
            .collect();
        Ok(Cluster { brokers: metadata.brokers().len(), topics })
    })
    .await
    .map_err(|error| LogError::Unavailable(error.to_string()))?
}

/// What is wrong with each broker that cannot be reached, all of them tried at the same time.
async fn unreachable_brokers(brokers: &str) -> Vec<String> {
    let tried = addresses(brokers).map(|address| async move {
        match timeout(PATIENCE / 3, TcpStream::connect(&address)).await {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(format!("broker {address} cannot be reached: {error}")),
            Err(_) => Some(format!("broker {address} does not answer")),
        }
    });
    join_all(tried).await.into_iter().flatten().collect()
}

fn addresses(brokers: &str) -> impl Iterator<Item = String> {
    brokers.split(',').map(str::trim).map(|broker| match broker.contains(':') {
        true => broker.to_owned(),
        false => format!("{broker}:9092"),
    })
}
