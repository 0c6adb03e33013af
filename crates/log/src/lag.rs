//! How far the groups are behind the end of the log, for operators.

use std::cmp::Reverse;

use crate::cursors::{OffsetRange, TopicOffsets, stop_reason};
use crate::message::Topic;
use crate::offsets::GroupOffset;
use crate::{Log, LogError};

/// The groups' positions in a topic, and the offsets that the log has there.
#[derive(Clone, Debug)]
pub struct TopicLag {
    pub offsets: TopicOffsets,
    /// Every partition that a group has consumed.
    pub partitions: Vec<PartitionLag>,
}

impl TopicLag {
    /// Messages to process; unknown if a partition is stopped.
    pub fn behind(&self) -> Option<i64> {
        self.partitions.iter().map(PartitionLag::behind).sum()
    }
}

/// Compares [positions](crate::offsets::positions_by_topic) with the log.
pub async fn read(
    log: &Log,
    positions: Vec<(Topic, Vec<GroupOffset>)>,
) -> Result<Vec<TopicLag>, LogError> {
    let mut lags = Vec::with_capacity(positions.len());
    for (topic, positions) in positions {
        let offsets = log.topic_offsets(topic).await?;
        let lag = |position| PartitionLag::new(topic, position, &offsets);
        let partitions = positions.into_iter().map(lag).collect();
        lags.push(TopicLag { offsets, partitions });
    }
    Ok(lags)
}

/// A group's position in a partition, and the offsets that the log has there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionLag {
    pub topic: Topic,
    pub position: GroupOffset,
    /// None if the partition does not exist in the log.
    pub range: Option<OffsetRange>,
    /// Why the group cannot continue.
    pub stopped: Option<String>,
}

impl PartitionLag {
    pub fn new(topic: Topic, position: GroupOffset, topic_offsets: &TopicOffsets) -> Self {
        let range = topic_offsets.ranges.iter().find(|range| range.partition == position.partition);
        Self {
            topic,
            range: range.copied(),
            stopped: stop_reason(&position, topic_offsets),
            position,
        }
    }

    /// Messages to process; unknown for a stopped partition.
    pub fn behind(&self) -> Option<i64> {
        let range = self.range.filter(|_| self.stopped.is_none());
        range.map(|range| range.end - self.position.next)
    }

    /// Whether the group has processed everything.
    pub fn is_up_to_date(&self) -> bool {
        self.behind() == Some(0)
    }
}

/// Sorts partitions for people: the stopped ones first, then the furthest behind; otherwise they
/// stay in their order.
pub fn sort_by_urgency(partitions: &mut [PartitionLag]) {
    // None for stopped ones.
    partitions.sort_by_key(|lag| lag.behind().map(Reverse));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stopped_partitions_are_first_then_those_that_are_behind() {
        let offsets = TopicOffsets {
            id: "log".into(),
            ranges: (0..4)
                .map(|partition| OffsetRange { partition, earliest: 0, end: 10 })
                .collect(),
        };
        let lag = |partition, next| {
            let position = GroupOffset {
                consumer_group: "g".into(),
                partition,
                log_id: "log".into(),
                next,
                resets: 0,
            };
            PartitionLag::new(Topic::new("t"), position, &offsets)
        };
        let mut partitions = [lag(0, 10), lag(1, 8), lag(2, 99), lag(3, 1), lag(4, 0)];
        sort_by_urgency(&mut partitions);
        let order = partitions.iter().map(|lag| (lag.position.partition, lag.behind()));
        let expected = [(2, None), (4, None), (3, Some(9)), (1, Some(2)), (0, Some(0))];
        assert_eq!(order.collect::<Vec<_>>(), expected);
        assert!(partitions[4].is_up_to_date() && !partitions[0].is_up_to_date());
    }
}
