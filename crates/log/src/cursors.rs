//! Consuming in batches, for groups whose offsets the [store keeps](super::offsets): the position
//! of each assigned partition, what was read of it, and why it stopped.
//!
//! Each partition has one batch in progress; the next one is read when it is done.

mod idle;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use self::idle::IdlePartition;
use parking_lot::{Mutex, MutexGuard};

use super::batch::{Batch, Fetched};
use super::offsets::{self, GroupOffset};
use super::partition_clock::PartitionClock;
use super::partitions::Partitions;
use crate::message::{LogError, Message, Topic};
use kit::clock::millis;
use store::Store;

/// How long a partition stays stopped without a reason visible in the log, before it is tried
/// again.
const STOPPED_RETRY: Duration = Duration::from_secs(60);

/// Limits on the size and number of batches.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Messages of a batch.
    pub messages: usize,
    /// Bytes of a batch's payloads, without its last message.
    pub bytes: usize,
    /// Batches of this consumer in progress at the same time.
    pub in_flight: usize,
}

/// A topic's content in the log.
#[derive(Clone, Debug)]
pub struct TopicOffsets {
    /// Distinguishes it from a topic that was recreated.
    pub id: String,
    pub ranges: Vec<OffsetRange>,
}

/// The offsets of a partition in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetRange {
    pub partition: i32,
    pub earliest: i64,
    /// The offset that the next message gets.
    pub end: i64,
}

/// Why a group cannot continue at `position`, if it cannot.
pub fn stop_reason(position: &GroupOffset, topic_offsets: &TopicOffsets) -> Option<String> {
    if position.log_id != topic_offsets.id {
        let text = "the log or its topic was recreated, so the stored offset is not valid";
        return Some(text.to_owned());
    }
    let mut ranges = topic_offsets.ranges.iter();
    match ranges.find(|range| range.partition == position.partition) {
        None => Some("the partition does not exist in the log".to_owned()),
        Some(range) if position.next < range.earliest => Some(format!(
            "the oldest message in the log is {}, so some messages were deleted before they were \
             applied",
            range.earliest
        )),
        Some(range) if position.next > range.end => Some(format!(
            "the log ends at {}: it lost messages or was restored to an older state",
            range.end
        )),
        Some(_) => None,
    }
}

/// The operator's message about a partition that cannot continue.
fn stopped(topic: Topic, position: &GroupOffset, reason: &str) -> String {
    let (topic, partition, next) = (topic.name(), position.partition, position.next);
    format!(
        "partition {partition} of {topic} is stopped at offset {next}: {reason}. Choose where to \
         continue: `longshore log reset --topic {topic} --partition {partition} --to earliest` \
         applies every message in the log, `--to latest` skips them"
    )
}

/// A consumer's state in an assigned partition.
#[derive(Clone, Debug)]
pub struct PartitionStatus {
    pub partition: i32,
    /// Messages that are not done.
    pub behind: i64,
    /// When the oldest of them was appended, in milliseconds since the epoch. Before it is read:
    /// when it was first noticed, or when the message before it was appended, whichever is later.
    /// None at the end of the log.
    pub since: Option<i64>,
    /// The position where it cannot continue, and why.
    pub stopped: Option<(GroupOffset, String)>,
}

/// Reports a consumer's state in its assigned partitions.
#[derive(Clone)]
pub struct ConsumerStatus(pub(super) Arc<Cursors>);

impl ConsumerStatus {
    /// The state of the started partitions; `now` is in milliseconds since the epoch.
    pub fn partitions(&self, now: i64) -> Vec<PartitionStatus> {
        self.0.statuses(now)
    }

    /// The partitions whose position is not known yet.
    pub fn waiting(&self) -> Vec<i32> {
        self.0.assigned().into_iter().map(|(partition, _)| partition).collect()
    }
}

/// A consumer's position in each partition; its source moves it.
pub(super) struct Cursors {
    pub group: String,
    pub topic: Topic,
    store: Store,
    partitions: Arc<Partitions>,
    cursors: Mutex<BTreeMap<i32, Cursor>>,
}

struct Cursor {
    epoch: u64,
    start: GroupOffset,
    /// The offset up to which messages were read.
    next: i64,
    /// The time of the last message before it.
    clock: PartitionClock,
    end: i64,
    /// When unread messages were first noticed.
    behind_since: Option<Instant>,
    /// When the first and last messages of the latest batch were appended.
    times: Option<(i64, i64)>,
    stopped: Option<StopReason>,
}

struct StopReason {
    text: String,
    /// When it stopped, if the log shows no reason: the cause may be temporary.
    temporary_since: Option<Instant>,
}

/// A partition whose next batch can be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadyPartition {
    pub partition: i32,
    pub epoch: u64,
    pub from: i64,
}

impl Cursors {
    pub fn new(group: &str, topic: Topic, store: Store, partitions: Arc<Partitions>) -> Self {
        Self { group: group.to_owned(), topic, store, partitions, cursors: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<i32, Cursor>> {
        self.cursors.lock()
    }

    /// The partitions that were assigned but not started, each with its epoch.
    pub fn assigned(&self) -> Vec<(i32, u64)> {
        let cursors = self.lock();
        let mut open = self.partitions.open();
        open.retain(|(partition, epoch)| cursors.get(partition).is_none_or(|c| c.epoch != *epoch));
        open
    }

    /// Reads the positions of partitions from the store, for those that the log has described.
    /// Stops the ones that cannot continue.
    pub async fn begin(
        &self,
        assigned: &[(i32, u64)],
        topic_offsets: &TopicOffsets,
    ) -> Result<(), LogError> {
        if assigned.is_empty() {
            return Ok(());
        }
        let begun = offsets::begin(&self.store, &self.group, self.topic, topic_offsets).await;
        let mut positions = begun.map_err(|error| {
            LogError::Unavailable(format!("cannot read the group's position: {error}"))
        })?;
        for OffsetRange { partition, end, .. } in &topic_offsets.ranges {
            let epoch = assigned.iter().find(|(assigned, _)| assigned == partition);
            let Some(((_, epoch), (start, clock))) = epoch.zip(positions.remove(partition)) else {
                continue;
            };
            let stop_reason = stop_reason(&start, topic_offsets);
            let mut cursor = Cursor::new(*epoch, start, clock);
            cursor.moved(*end);
            if let Some(reason) = stop_reason {
                cursor.stop(self.topic, &reason, None);
            }
            self.lock().insert(*partition, cursor);
        }
        Ok(())
    }

    /// The start offset and epoch of a readable partition; none if it is stopped.
    pub fn start(&self, partition: i32) -> Option<(u64, i64)> {
        let cursors = self.lock();
        let cursor = cursors.get(&partition).filter(|cursor| cursor.stopped.is_none())?;
        (self.partitions.epoch(partition) == Some(cursor.epoch))
            .then_some((cursor.epoch, cursor.next))
    }

    /// The partitions without a batch in progress. Those after `last` come first, so that they take
    /// turns.
    pub fn ready(&self, last: i32) -> Vec<ReadyPartition> {
        let mut cursors = self.lock();
        cursors.retain(|partition, cursor| self.partitions.holds(*partition, cursor.epoch));
        let idle = cursors.iter().filter(|(partition, cursor)| {
            cursor.stopped.is_none()
                && self.partitions.epoch(**partition) == Some(cursor.epoch)
                && cursor.done_offset(&self.partitions) == cursor.next
        });
        let mut ready: Vec<_> = idle
            .map(|(partition, c)| ReadyPartition {
                partition: *partition,
                epoch: c.epoch,
                from: c.next,
            })
            .collect();
        let split = ready.partition_point(|ready| ready.partition <= last);
        ready.rotate_left(split);
        ready
    }

    /// Makes a batch of the messages read; none if there are none, or if the partition was revoked
    /// meanwhile. If the messages do not start at the expected offset, the partition stops, because
    /// messages would be skipped. For the same reason a batch ends before the first gap, and the
    /// next one finds the gap. Gaps are always errors: the topics are neither compacted nor written
    /// in Kafka transactions.
    pub fn build_batch(&self, from: ReadyPartition, mut messages: Vec<Message>) -> Option<Fetched> {
        let first = messages.first()?;
        let mut cursors = self.lock();
        let cursor =
            cursors.get_mut(&from.partition).filter(|cursor| cursor.epoch == from.epoch)?;
        if first.offset != cursor.next {
            let reason = format!("the log returned offset {} instead", first.offset);
            cursor.stop(self.topic, &reason, Some(Instant::now()));
            return None;
        }
        let unbroken = messages
            .iter()
            .zip(cursor.next..)
            .take_while(|(message, offset)| message.offset == *offset);
        messages.truncate(unbroken.count());
        for message in &mut messages {
            message.log_time = message.log_time.map(|time| cursor.clock.next(time));
        }
        let (first, last) = (messages.first()?, messages.last()?);
        let offset = last.offset;
        let position = cursor.read_position();
        cursor.times = Some((first.appended_at, last.appended_at));
        cursor.next = offset + 1;
        cursor.moved(offset + 1);
        Some(Fetched {
            partition: from.partition,
            epoch: from.epoch,
            offset,
            batch: Batch { is_first: position == cursor.start, position, messages },
        })
    }

    /// Sets the end of the log.
    pub fn set_end(&self, partition: i32, end: i64) {
        if let Some(cursor) = self.lock().get_mut(&partition) {
            cursor.moved(end);
        }
    }

    /// Stops a partition of which the log returns no more messages.
    pub fn stop(&self, partition: i32, reason: &str) {
        if let Some(cursor) = self.lock().get_mut(&partition) {
            cursor.stop(self.topic, reason, Some(Instant::now()));
        }
    }

    /// The offset up to which each partition was read.
    pub fn positions(&self) -> BTreeMap<i32, GroupOffset> {
        self.lock().iter().map(|(partition, cursor)| (*partition, cursor.read_position())).collect()
    }

    /// Stops the partitions that cannot continue in the described log. Restarts a stopped one if
    /// the log shows no reason. The description was made after the partitions were at `before`, so
    /// a partition that has moved since is fine.
    pub fn compare(&self, before: &BTreeMap<i32, GroupOffset>, topic_offsets: &TopicOffsets) {
        let mut cursors = self.lock();
        for OffsetRange { partition, end, .. } in &topic_offsets.ranges {
            let Some(cursor) = cursors.get_mut(partition) else { continue };
            cursor.moved(*end);
            let former =
                before.get(partition).and_then(|position| stop_reason(position, topic_offsets));
            match former.and(stop_reason(&cursor.read_position(), topic_offsets)) {
                Some(reason) => cursor.stop(self.topic, &reason, None),
                None if cursor.may_be_tried() && !self.partitions.is_busy(*partition) => {
                    self.partitions.renew(*partition, cursor.epoch);
                }
                None => {}
            }
        }
    }

    fn statuses(&self, now: i64) -> Vec<PartitionStatus> {
        let cursors = self.lock();
        let held =
            cursors.iter().filter(|(partition, c)| self.partitions.holds(**partition, c.epoch));
        held.map(|(partition, cursor)| cursor.status(*partition, &self.partitions, now)).collect()
    }
}

impl Cursor {
    /// Starts at `start`, and takes that for the end of the log until the end is known.
    fn new(epoch: u64, start: GroupOffset, clock: PartitionClock) -> Self {
        let (next, behind_since, times, stopped) = (start.next, None, None, None);
        Self { epoch, start, next, clock, end: next, behind_since, times, stopped }
    }

    /// The offset up to which it was read.
    fn read_position(&self) -> GroupOffset {
        GroupOffset { next: self.next, ..self.start.clone() }
    }

    /// Records that the log ends at `end` or later, or that more was read.
    fn moved(&mut self, end: i64) {
        self.end = self.end.max(end);
        self.behind_since = if self.end > self.next {
            self.behind_since.or_else(|| Some(Instant::now()))
        } else {
            None
        };
    }

    /// Stops it, unless it is stopped. A permanent reason replaces a temporary one.
    fn stop(&mut self, topic: Topic, reason: &str, temporary_since: Option<Instant>) {
        let is_news =
            |stop: &StopReason| stop.temporary_since.is_some() && temporary_since.is_none();
        if self.stopped.as_ref().is_none_or(is_news) {
            let text = stopped(topic, &self.read_position(), reason);
            tracing::error!("{text}");
            self.stopped = Some(StopReason { text, temporary_since });
        }
    }

    /// Whether a temporary cause may be gone.
    fn may_be_tried(&self) -> bool {
        let temporary_since = self.stopped.as_ref().and_then(|stop| stop.temporary_since);
        temporary_since.is_some_and(|since| since.elapsed() >= STOPPED_RETRY)
    }

    /// The offset before which everything is done.
    fn done_offset(&self, partitions: &Partitions) -> i64 {
        partitions.position(self.start.partition).unwrap_or(self.start.next)
    }

    fn status(&self, partition: i32, partitions: &Partitions, now: i64) -> PartitionStatus {
        let done = self.done_offset(partitions);
        let behind = (self.end - done).max(0);
        let noticed_at = self.behind_since.map(|since| now.saturating_sub(millis(since.elapsed())));
        let oldest = match self.times {
            Some((first, _)) if done < self.next => Some(first),
            Some((_, last)) => noticed_at.map(|noticed_at| noticed_at.max(last)),
            None => noticed_at,
        };
        let position = GroupOffset { next: done, ..self.start.clone() };
        PartitionStatus {
            partition,
            behind,
            since: oldest.filter(|_| behind > 0),
            stopped: self.stopped.as_ref().map(|stop| (position, stop.text.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use store::wake::WakeSignal;

    use super::*;

    fn topic_offsets(end: i64) -> TopicOffsets {
        let range = |partition| OffsetRange { partition, earliest: 0, end };
        TopicOffsets { id: "log".into(), ranges: [0, 1].map(range).into() }
    }

    /// Two partitions, both at 5.
    pub(super) fn cursors() -> Cursors {
        let pool = sqlx::PgPool::connect_lazy("postgres://nobody").unwrap();
        let store = Store::Postgres { pool, wake: WakeSignal::local() };
        let partitions = Arc::new(Partitions::new(|| {}));
        let cursors = Cursors::new("g", Topic::new("tracking"), store, partitions.clone());
        for partition in 0..2 {
            let epoch = partitions.assign(partition);
            let (consumer_group, log_id) = ("g".into(), "log".into());
            let start = GroupOffset { consumer_group, partition, log_id, next: 5, resets: 0 };
            let clock = PartitionClock::default();
            cursors.lock().insert(partition, Cursor::new(epoch, start, clock));
        }
        cursors
    }

    /// A message whose append time is its number.
    pub(super) fn message(offset: i64) -> Message {
        Message {
            topic: Topic::new("tracking"),
            partition: 0,
            offset,
            appended_at: offset,
            log_time: Some(offset),
            key: Vec::new(),
            payload: Vec::new(),
            request_id: String::new(),
        }
    }

    /// Sets the end of the log.
    fn compare_with_end(cursors: &Cursors, end: i64) {
        cursors.compare(&cursors.positions(), &topic_offsets(end));
    }

    fn stop_long_ago(cursors: &Cursors, partition: i32) {
        cursors.stop(partition, "an error");
        let mut at = cursors.lock();
        let stop = at.get_mut(&partition).unwrap().stopped.as_mut().unwrap();
        stop.temporary_since = Some(Instant::now() - STOPPED_RETRY);
    }

    #[tokio::test]
    async fn lag_is_known_without_fetching() {
        let cursors = cursors();
        compare_with_end(&cursors, 12);
        let behind: Vec<i64> = cursors.statuses(0).iter().map(|s| s.behind).collect();
        assert_eq!(behind, [7, 7]);
    }

    #[tokio::test]
    async fn the_oldest_unread_message_has_a_time() {
        const NOW: i64 = 10_000_000;
        let cursors = cursors();
        let since = || cursors.statuses(NOW)[0].since;
        assert_eq!(since(), None);
        let batch =
            cursors.build_batch(cursors.ready(-1)[0], vec![message(5), message(6)]).unwrap();
        assert!(cursors.partitions.start(0, batch.epoch, batch.offset));
        assert_eq!(since(), Some(5), "the batch in progress was read");
        compare_with_end(&cursors, 7);
        cursors.partitions.finish(0, batch.epoch, batch.offset, true);
        assert_eq!(since(), None, "all is done");
        // The last one is hours old; the next one has just arrived.
        compare_with_end(&cursors, 8);
        let noticed_at = since().unwrap();
        assert!((NOW - 60_000..=NOW).contains(&noticed_at), "{noticed_at}");
        cursors.lock().get_mut(&0).unwrap().times = Some((NOW - 2, NOW - 1));
        cursors.lock().get_mut(&0).unwrap().behind_since = Some(Instant::now() - STOPPED_RETRY);
        assert_eq!(since(), Some(NOW - 1), "it came after the one before it");
    }

    #[tokio::test]
    async fn partitions_that_advance_during_the_check_continue() {
        let cursors = cursors();
        let before = cursors.positions();
        cursors.lock().get_mut(&0).unwrap().next = 9;
        cursors.compare(&before, &topic_offsets(7));
        assert_eq!(cursors.start(0).map(|(_, next)| next), Some(9));
        cursors.compare(&cursors.positions(), &topic_offsets(7));
        assert_eq!(cursors.start(0), None);
    }

    #[tokio::test]
    async fn messages_that_begin_elsewhere_are_not_given_out() {
        for (first, is_given) in [(5, true), (6, false), (4, false)] {
            let cursors = cursors();
            let ready = cursors.ready(-1)[0];
            let batch = cursors.build_batch(ready, vec![message(first), message(first + 1)]);
            assert_eq!(batch.is_some(), is_given, "from {first}");
            let stopped = cursors.statuses(0).remove(0).stopped;
            assert_eq!(stopped.is_none(), is_given, "{stopped:?}");
            if is_given {
                assert_eq!(cursors.lock()[&0].next, 7);
            } else {
                assert_eq!(cursors.lock()[&0].next, 5, "it continues there");
            }
        }
    }

    #[tokio::test]
    async fn a_batch_ends_before_a_gap_and_before_a_repeat() {
        for offsets in [[5, 6, 8], [5, 6, 6]] {
            let cursors = cursors();
            let read = offsets.map(message).into();
            let batch = cursors.build_batch(cursors.ready(-1)[0], read).unwrap();
            assert_eq!((batch.offset, batch.batch.messages.len()), (6, 2));
            assert_eq!(cursors.lock()[&0].next, 7);
        }
    }

    #[tokio::test]
    async fn only_a_resolved_stop_is_retried() {
        let cursors = cursors();
        cursors.stop(0, "an error");
        compare_with_end(&cursors, 7);
        assert_eq!((cursors.assigned(), cursors.start(0)), (vec![], None), "not at once");
        stop_long_ago(&cursors, 0);
        stop_long_ago(&cursors, 1);
        compare_with_end(&cursors, 3);
        let text = |status: PartitionStatus| status.stopped.unwrap().1;
        assert!(text(cursors.statuses(0).remove(0)).contains("the log ends at 3"));
        compare_with_end(&cursors, 7);
        assert_eq!(cursors.assigned(), [], "missing messages would be skipped");

        let cursors = self::cursors();
        stop_long_ago(&cursors, 1);
        let epoch = cursors.partitions.epoch(1).unwrap();
        assert!(cursors.partitions.start(1, epoch, 4));
        compare_with_end(&cursors, 7);
        assert_eq!(cursors.assigned(), [], "work on it is in progress");
        cursors.partitions.finish(1, epoch, 4, true);
        compare_with_end(&cursors, 7);
        assert!(matches!(cursors.assigned()[..], [(1, renewed)] if renewed != epoch));
        assert_eq!(cursors.start(0).map(|(_, next)| next), Some(5));
    }
}
