//! Reads what the log has of a topic.

use std::time::Duration;

use log::{Consumer, Limits, Log, Message, Topic};
use uuid::Uuid;

use super::stores::TestStore;

/// A consumer that continues from what it acknowledged, for as long as it lives. Its offsets are in
/// a store of its own.
pub struct Reader {
    consumer: Consumer,
    _store: TestStore,
}

impl Reader {
    /// Of a group that is new, from the oldest message on; one message at a time of each partition.
    pub async fn new(log: &Log, group: &str, topic: Topic) -> Self {
        let store = TestStore::sqlite().await;
        let limits = Limits { messages: 1, bytes: 1, in_flight: 1_000 };
        let (consumer, _) = log.batches(group, topic, &store.store, limits).expect("a consumer");
        Self { consumer, _store: store }
    }

    /// The next message, acknowledged; none if none comes within `timeout`.
    pub async fn next(&mut self, timeout: Duration) -> Option<Message> {
        let next = tokio::time::timeout(timeout, self.consumer.next()).await.ok()?;
        let (mut batch, ack) = next.expect("the log answers");
        ack.done();
        batch.messages.pop()
    }

    /// Ends once what was acknowledged is stored in the log.
    pub async fn close(self) {
        self.consumer.drain(Duration::from_secs(60)).await;
    }
}

/// The messages that a topic has now.
pub async fn read_topic(log: &Log, topic: Topic) -> Vec<Message> {
    let mut reader = Reader::new(log, &format!("looks-on-{}", Uuid::new_v4()), topic).await;
    let topic_offsets = log.topic_offsets(topic).await.expect("the log answers");
    let all: i64 = topic_offsets.ranges.iter().map(|range| range.end).sum();
    let mut messages = Vec::new();
    while (messages.len() as i64) < all {
        messages.push(reader.next(Duration::from_secs(60)).await.expect("a message comes"));
    }
    messages
}
