//! Deletes messages that were processed long ago.

use std::collections::BTreeMap;

use rdkafka::admin::AdminOptions;
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{Offset, TopicPartitionList};

use super::topics::{TIMEOUT, admin};
use super::{Settings, Tracing, create, describe, unavailable};
use crate::cursors::{OffsetRange, stop_reason};
use crate::message::{LogError, Topic};
use crate::offsets::GroupOffset;

impl ConsumerContext for Tracing {}

/// Implements [`Log::trim`](crate::Log::trim).
pub(super) async fn trim(
    settings: &Settings,
    group: &str,
    topic: Topic,
    positions: &[GroupOffset],
    before: i64,
) -> Result<u64, LogError> {
    let (name, partitions) = (settings.topic(topic), settings.partitions);
    let client = settings.client(&[], &[("group.id", &settings.group(group))]);
    let topic_name = name.clone();
    let query = move || -> Result<_, LogError> {
        // It only queries, and is no part of the group.
        let consumer: BaseConsumer<Tracing> = create(&client, Tracing)?;
        let topic_offsets = describe::topic_offsets(consumer.client(), &topic_name, 0..partitions)?;
        let at = |offset| -> Result<_, KafkaError> {
            let mut list = TopicPartitionList::new();
            let mut partitions = topic_offsets.ranges.iter().map(|range| range.partition);
            partitions.try_for_each(|p| list.add_partition_offset(&topic_name, p, offset))?;
            Ok(list)
        };
        let committed = at(Offset::Invalid)
            .and_then(|list| consumer.committed_offsets(list, TIMEOUT))
            .map_err(unavailable)?;
        let recent = at(Offset::Offset(before))
            .and_then(|list| consumer.offsets_for_times(list, TIMEOUT))
            .map_err(unavailable)?;
        Ok((topic_offsets, committed, recent))
    };
    let (topic_offsets, committed, recent) = tokio::task::spawn_blocking(query)
        .await
        .map_err(|error| LogError::Unavailable(error.to_string()))??;
    let (committed, recent) = (offsets(&committed), offsets(&recent));
    // The store does not know the applied position of a stopped partition.
    let own = positions.iter().filter(|position| position.consumer_group == group);
    let known = own.filter(|position| stop_reason(position, &topic_offsets).is_none());
    let applied: BTreeMap<i32, i64> =
        known.map(|position| (position.partition, position.next)).collect();
    let old = |range: &OffsetRange| {
        let partition = range.partition;
        let Some(Offset::Offset(mut end)) = committed.get(&partition).copied() else {
            return None;
        };
        match recent.get(&partition)? {
            Offset::Offset(first) => end = end.min(*first),
            // No recent message.
            Offset::End => {}
            _ => return None,
        }
        end = end.min(*applied.get(&partition)?);
        (end > range.earliest).then_some(end)
    };
    let (mut list, mut messages) = (TopicPartitionList::new(), 0);
    for range in &topic_offsets.ranges {
        if let Some(end) = old(range) {
            list.add_partition_offset(&name, range.partition, Offset::Offset(end))
                .map_err(unavailable)?;
            messages += (end - range.earliest).unsigned_abs();
        }
    }
    if messages > 0 {
        remove(settings, &list).await?;
    }
    Ok(messages)
}

/// The offsets of the partitions that the cluster returned.
fn offsets(list: &TopicPartitionList) -> BTreeMap<i32, Offset> {
    let elements = list.elements();
    let returned = elements.iter().filter(|partition| partition.error().is_ok());
    returned.map(|partition| (partition.partition(), partition.offset())).collect()
}

/// Deletes everything before the offsets.
async fn remove(settings: &Settings, offsets: &TopicPartitionList) -> Result<(), LogError> {
    let options =
        AdminOptions::new().request_timeout(Some(TIMEOUT * 2)).operation_timeout(Some(TIMEOUT));
    let answer = admin(settings)?.delete_records(offsets, &options).await.map_err(refused)?;
    answer.elements().iter().try_for_each(|partition| partition.error().map_err(refused))
}

fn refused(error: KafkaError) -> LogError {
    match error.rdkafka_error_code() {
        Some(
            code @ (RDKafkaErrorCode::TopicAuthorizationFailed
            | RDKafkaErrorCode::ClusterAuthorizationFailed),
        ) => LogError::Refused(format!(
            "{code}: allow the workers the operation Delete on the topics, or delete old records \
             yourself"
        )),
        _ => unavailable(error),
    }
}
