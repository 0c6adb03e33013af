//! What the log has of tracking, and what consumers that remember ids apply of it.

use std::time::Duration;

use log::message_ids::{self, Scope};
use log::{Log, Message};
use longshore::topics;
use uuid::Uuid;

use super::reader::Reader;
use super::stores::TestStore;

/// How long what was acknowledged may take to be given out.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How long nothing more is waited for.
const QUIET: Duration = Duration::from_millis(500);

/// Every message of tracking in a log, for a group of its own: until they are whole, and what
/// comes soon after.
pub async fn read_all(log: &Log, is_complete: impl Fn(&[Message]) -> bool) -> Vec<Message> {
    let group = format!("looks-on-{}", Uuid::new_v4());
    let mut reader = Reader::new(log, &group, topics::TRACKING).await;
    let mut messages = Vec::new();
    loop {
        let timeout = if is_complete(&messages) { QUIET } else { TIMEOUT };
        let Some(message) = reader.next(timeout).await else { break };
        messages.push(message);
    }
    assert!(is_complete(&messages), "no more than {} messages came: {messages:?}", messages.len());
    messages
}

/// A consumer that remembers ids.
pub struct DeduplicatingConsumer(TestStore);

impl DeduplicatingConsumer {
    pub async fn new() -> Self {
        Self(TestStore::sqlite().await)
    }

    /// The messages that it applies: those without an id, and of each id the first.
    pub async fn applied<'a>(&self, messages: &'a [Message]) -> Vec<&'a Message> {
        let mut applied = Vec::new();
        let mut tx = self.0.store.write().await.unwrap();
        for message in messages {
            let Some(id) = message_ids::id_of(message) else {
                applied.push(message);
                continue;
            };
            let scope = Scope::new("remembers", message);
            let ids = [(id, message.appended_at)];
            if message_ids::remember(&mut tx, scope, &ids).await.unwrap().contains(&id) {
                applied.push(message);
            }
        }
        tx.commit().await.unwrap();
        applied
    }
}
