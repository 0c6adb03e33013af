//! Creates the topics, and reports how they differ from the required settings.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::error::RDKafkaErrorCode;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::alter::set_properties;
use super::{
    BackgroundDrop, MAX_BATCH_BYTES, Settings, Tracing, create as create_client, unavailable,
};
use crate::message::LogError;
use kit::words::count;

type Admin = Arc<BackgroundDrop<AdminClient<Tracing>>>;

/// Time limit of a response from the cluster.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);

/// Interval between checks for created topics.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The cluster's description.
struct Cluster {
    brokers: usize,
    topics: BTreeMap<String, TopicState>,
}

struct TopicState {
    partitions: usize,
    /// The lowest replica count of a partition, and the number of under-replicated partitions.
    replication: usize,
    behind: usize,
}

/// Properties that `migrate` also sets in existing topics: the order of changes depends on them.
/// Where `is_created` is false, they are the broker's default, and some clusters allow no value for
/// a topic.
struct OrderProperty {
    name: &'static str,
    value: &'static str,
    is_created: bool,
    /// What another value leads to.
    risk: &'static str,
}

const ORDER_PROPERTIES: [OrderProperty; 2] = [
    OrderProperty {
        name: "message.timestamp.type",
        value: "LogAppendTime",
        is_created: true,
        risk: "a gateway with a wrong clock changes the order of opt-outs, deletions and other \
               changes",
    },
    OrderProperty {
        name: "unclean.leader.election.enable",
        value: "false",
        is_created: false,
        risk: "a broker that was behind can become the leader, and confirmed messages are lost",
    },
];

/// Creates the missing topics, and sets the [`ORDER_PROPERTIES`] of others. Returns messages for
/// the operator, if needed.
pub(super) async fn create(settings: &Settings) -> Result<Option<String>, LogError> {
    let admin = admin(settings)?;
    let cluster = describe_cluster(&admin).await?;
    let (replication, note) = attainable_replication(settings, cluster.brokers);
    let min_in_sync = min_in_sync(replication).to_string();
    let max_bytes = MAX_BATCH_BYTES.to_string();
    let names: Vec<String> = settings.topics.iter().map(|topic| settings.topic(*topic)).collect();
    let (existing, missing): (Vec<&String>, Vec<&String>) =
        names.iter().partition(|name| cluster.topics.contains_key(*name));
    let mut notes: Vec<String> = note.into_iter().collect();
    for name in existing {
        notes.extend(set_order(&admin, name).await?);
    }
    let note = (!notes.is_empty()).then(|| notes.join("\n"));
    let missing: Vec<_> = missing
        .into_iter()
        .map(|name| {
            let topic =
                NewTopic::new(name, settings.partitions, TopicReplication::Fixed(replication))
                    .set("cleanup.policy", "delete")
                    // Messages must outlive any outage.
                    .set("retention.ms", "-1")
                    .set("retention.bytes", "-1")
                    // Whole segments are deleted after processing, and one ends each day.
                    .set("segment.ms", "86400000")
                    .set("max.message.bytes", &max_bytes)
                    .set("min.insync.replicas", &min_in_sync);
            let properties = ORDER_PROPERTIES.iter().filter(|property| property.is_created);
            properties.fold(topic, |topic, property| topic.set(property.name, property.value))
        })
        .collect();
    if missing.is_empty() {
        return Ok(note);
    }
    let options =
        AdminOptions::new().request_timeout(Some(TIMEOUT * 2)).operation_timeout(Some(TIMEOUT));
    for result in admin.create_topics(&missing, &options).await.map_err(unavailable)? {
        match result {
            Ok(topic) => tracing::info!(topic, "topic created"),
            // Another process was faster.
            Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((topic, code)) => {
                return Err(LogError::Unavailable(format!("cannot create topic {topic}: {code}")));
            }
        }
    }
    wait_for_topics(&admin, &names).await?;
    Ok(note)
}

/// Sets the [`ORDER_PROPERTIES`] of a topic that has other values. Returns what an operator must
/// do, if the cluster does not allow the change.
async fn set_order(admin: &Admin, name: &str) -> Result<Vec<String>, LogError> {
    let described = match properties(admin, name).await? {
        Ok(described) => described,
        // `doctor` reports it.
        Err(_) => return Ok(Vec::new()),
    };
    let mut notes = Vec::new();
    for property in ORDER_PROPERTIES {
        if described.get(property.name).is_none_or(|value| value == property.value) {
            continue;
        }
        let (admin, topic) = (admin.clone(), name.to_owned());
        let set = tokio::task::spawn_blocking(move || {
            set_properties(admin.inner(), &topic, &[(property.name, property.value)])
        });
        match set.await.map_err(|error| LogError::Unavailable(error.to_string()))? {
            Ok(()) => tracing::info!(topic = name, "{} set to {}", property.name, property.value),
            Err(LogError::Refused(reason)) => notes.push(format!(
                "topic {name}: cannot set {} to {}: {reason}. Set it yourself: else {}",
                property.name, property.value, property.risk
            )),
            Err(error) => return Err(error),
        }
    }
    Ok(notes)
}

/// The properties of a topic with their values, or why the cluster does not describe them.
async fn properties(
    admin: &Admin,
    name: &str,
) -> Result<Result<BTreeMap<String, String>, RDKafkaErrorCode>, LogError> {
    let options = AdminOptions::new().request_timeout(Some(TIMEOUT));
    let topic = [ResourceSpecifier::Topic(name)];
    let answers = admin.describe_configs(&topic, &options).await.map_err(unavailable)?;
    let mut properties = BTreeMap::new();
    for answer in answers {
        match answer {
            Ok(described) => properties
                .extend(described.entries.into_iter().filter_map(|e| Some((e.name, e.value?)))),
            Err(code) => return Ok(Err(code)),
        }
    }
    Ok(Ok(properties))
}

/// Waits until a broker knows the topics: their creation is confirmed before that, and consumers
/// would get an error in between. They recover by themselves, so a time-out is not an error.
async fn wait_for_topics(admin: &Admin, names: &[String]) -> Result<(), LogError> {
    let known = async {
        loop {
            let cluster = describe_cluster(admin).await?;
            if names.iter().all(|name| cluster.topics.contains_key(name)) {
                return Ok(());
            }
            sleep(CHECK_INTERVAL).await;
        }
    };
    timeout(TIMEOUT, known).await.unwrap_or_else(|_| {
        tracing::warn!("topics created; waiting until every broker knows them");
        Ok(())
    })
}

/// Fails if topics exist with another number of partitions than the configured one.
pub(super) async fn check_partitions(settings: &Settings) -> Result<(), LogError> {
    let cluster = describe_cluster(&admin(settings)?).await?;
    for topic in settings.topics {
        let name = settings.topic(*topic);
        let state = cluster.topics.get(&name);
        if let Some(problem) =
            state.and_then(|state| other_partitions(settings, &name, state, None))
        {
            return Err(LogError::Settings(problem));
        }
    }
    Ok(())
}

/// That a topic has another number of partitions, and how to fix it. `fixed` is the number that the
/// installation must keep, if it is known.
fn other_partitions(
    settings: &Settings,
    name: &str,
    state: &TopicState,
    fixed: Option<u32>,
) -> Option<String> {
    let (has, configured) = (state.partitions, settings.partitions);
    if has == configured as usize {
        return None;
    }
    let fix = match fixed {
        Some(fixed) if fixed as usize == has => format!("set log.partitions to {has}"),
        Some(fixed) => format!(
            "the first `longshore migrate` fixed the number at {fixed}. Delete the topic if it has \
             no messages, and run `longshore migrate`"
        ),
        None => format!(
            "before the first `longshore migrate`, set log.partitions to {has}: more partitions \
             would break the order of keys"
        ),
    };
    Some(format!("topic {name} has {has} partitions and log.partitions is {configured}: {fix}"))
}

/// The problems, one per line. `fixed` is the number of partitions that the installation must keep,
/// if it is known.
pub(super) async fn check(
    settings: &Settings,
    fixed: Option<u32>,
) -> Result<Vec<String>, LogError> {
    let mut lines = unreachable_brokers(&settings.brokers).await;
    if lines.len() == addresses(&settings.brokers).count() {
        return Ok(lines);
    }
    let admin = admin(settings)?;
    let cluster = match describe_cluster(&admin).await {
        Ok(cluster) => cluster,
        Err(LogError::Unavailable(reason)) if lines.is_empty() => {
            return Err(LogError::Unavailable(format!(
                "{reason}, but connections are accepted: check that both sides use the same TLS \
                 and SASL settings"
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
        lines.extend(other_partitions(settings, &name, state, fixed));
        lines.extend(wrong_shape(settings, &name, state, cluster.brokers));
        lines.extend(wrong_properties(&admin, &name, state.replication).await?);
    }
    Ok(lines)
}

fn wrong_shape(settings: &Settings, name: &str, state: &TopicState, brokers: usize) -> Vec<String> {
    let mut lines = Vec::new();
    if state.replication < settings.replication as usize {
        lines.push(format!(
            "topic {name} has {} but log.replication is {} (the cluster has {}): losing a broker \
             can lose messages. Add replicas with kafka-reassign-partitions, or set \
             log.replication to {} if this is intended",
            count(state.replication as u64, "replica"),
            settings.replication,
            count(brokers as u64, "broker"),
            state.replication
        ));
    }
    if state.behind > 0 {
        lines.push(format!(
            "topic {name}: {} of {} partitions are under-replicated: a broker is down or slow",
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
    let properties = match properties(admin, name).await? {
        Ok(properties) => properties,
        Err(code) => return Ok(vec![format!("cannot describe topic {name}: {code}")]),
    };
    let mut lines = Vec::new();
    let value = |property: &str| properties.get(property).map(String::as_str);
    let number = |property: &str| value(property)?.parse::<i64>().ok();
    for OrderProperty { name: property, value: required, risk, .. } in ORDER_PROPERTIES {
        if let Some(other) = value(property).filter(|value| *value != required) {
            lines.push(format!(
                "topic {name} has {property} {other}: {risk}; run `longshore migrate`, or set it \
                 to {required}"
            ));
        }
    }
    // -1 means forever.
    if number("retention.ms").is_some_and(|ms| ms >= 0) {
        lines.push(format!(
            "topic {name} has retention.ms {}: messages delayed longer by an outage are lost; \
             set it to -1",
            value("retention.ms").unwrap_or_default()
        ));
    }
    if number("retention.bytes").is_some_and(|bytes| bytes >= 0) {
        lines.push(format!(
            "topic {name} has a retention.bytes limit: waiting messages can be lost; set it \
             to -1"
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
            "topic {name} has max.message.bytes {}: large messages are rejected; set it to \
             {MAX_BATCH_BYTES}",
            value("max.message.bytes").unwrap_or_default()
        ));
    }
    let required = min_in_sync(replication as i32);
    if number("min.insync.replicas").is_some_and(|count| count < i64::from(required)) {
        lines.push(format!(
            "topic {name} has min.insync.replicas {}: an append may be on one broker only; \
             set it to {required}",
            value("min.insync.replicas").unwrap_or_default()
        ));
    }
    Ok(lines)
}

/// The replica count that this cluster supports, and a message if it is too low.
fn attainable_replication(settings: &Settings, brokers: usize) -> (i32, Option<String>) {
    let brokers = i32::try_from(brokers).unwrap_or(i32::MAX).max(1);
    let note = (settings.replication > brokers).then(|| {
        format!(
            "log.replication is {}, and the cluster has {}: new topics get no more replicas than \
             that, and losing a broker can lose messages; `longshore doctor` shows the replicas \
             of each topic",
            settings.replication,
            count(brokers.unsigned_abs().into(), "broker")
        )
    });
    (settings.replication.min(brokers), note)
}

/// Replicas that must have a message before its append is confirmed.
fn min_in_sync(replication: i32) -> i32 {
    if replication >= 3 { 2 } else { 1 }
}

pub(super) fn admin(settings: &Settings) -> Result<Admin, LogError> {
    let client = create_client(&settings.client(&[], &[]), Tracing)?;
    Ok(Arc::new(BackgroundDrop::new(client)))
}

/// Queries the cluster; blocks.
async fn describe_cluster(admin: &Admin) -> Result<Cluster, LogError> {
    let admin = admin.clone();
    tokio::task::spawn_blocking(move || {
        let metadata = admin.inner().fetch_metadata(None, TIMEOUT).map_err(unavailable)?;
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

/// The error of each unreachable broker; all are tried at the same time.
async fn unreachable_brokers(brokers: &str) -> Vec<String> {
    let tried = addresses(brokers).map(|address| async move {
        match timeout(TIMEOUT / 3, TcpStream::connect(&address)).await {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(format!("cannot reach broker {address}: {error}")),
            Err(_) => Some(format!("broker {address} does not respond")),
        }
    });
    join_all(tried).await.into_iter().flatten().collect()
}

fn addresses(brokers: &str) -> impl Iterator<Item = String> {
    brokers.split(',').map(str::trim).map(|broker| {
        if broker.contains(':') { broker.to_owned() } else { format!("{broker}:9092") }
    })
}
