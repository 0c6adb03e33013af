//! Messages that could not be processed: stored with the reason until an operator retries or
//! discards them.

use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Handler;
use super::failure::Failure;
use super::parts::{Failed, Parts};
use super::rows;
pub use super::rows::{
    DeadLetter, ListedDeadLetter, count_by_workspace, find as find_listed, list_for_workspace,
    list_newest, remove,
};
use crate::audit::{self, Entry};
use crate::topics;
use kit::retry::{self, Retry};
use log::{Message, Topic};
use store::{Store, StoreError, Tx, claims};

/// Dead letters whose workspace is determined in one transaction: each may have 5 MiB.
const UNDETERMINED: i64 = 10;

/// Maximum number of attempts while another process holds the locks.
const TRIES: u32 = 5;

/// Dead letters read together.
const PAGE: i64 = 100;

impl ListedDeadLetter {
    /// The read part of the payload as text. It may end in the middle of a character.
    pub fn beginning_text(&self) -> String {
        let payload = &self.beginning;
        match std::str::from_utf8(payload) {
            Ok(text) => text.to_owned(),
            Err(error) if error.error_len().is_none() => {
                String::from_utf8_lossy(&payload[..error.valid_up_to()]).into_owned()
            }
            Err(_) => String::from_utf8_lossy(payload).into_owned(),
        }
    }
}

/// The errors of dead letters.
#[derive(Debug, thiserror::Error)]
pub enum DeadLetterError {
    #[error("unknown dead letter {0}")]
    Unknown(Uuid),
    #[error("dead letter {id} belongs to topic {topic}, which this version does not support")]
    Topic { id: Uuid, topic: String },
    #[error("it failed again: {0}")]
    Refused(String),
    /// A later retry may succeed.
    #[error("it could not be applied now: {0}")]
    Unfinished(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Retry for DeadLetterError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Unknown(_) | Self::Topic { .. } | Self::Refused(_) => false,
            Self::Unfinished(_) => true,
            Self::Store(error) => error.can_retry(),
        }
    }
}

/// The dead letters after `after`, oldest first, one page; empty at the end.
pub async fn page(
    store: &Store,
    after: Option<&DeadLetter>,
) -> Result<Vec<DeadLetter>, StoreError> {
    let mut tx = store.snapshot().await?;
    rows::dead_letters(
        &mut tx,
        after.map(|dead_letter| (dead_letter.created_at, dead_letter.id)),
        PAGE,
    )
    .await
}

pub async fn by_id(store: &Store, id: Uuid) -> Result<DeadLetter, DeadLetterError> {
    let dead_letter = rows::dead_letter(&mut store.snapshot().await?, id).await?;
    dead_letter.ok_or(DeadLetterError::Unknown(id))
}

/// The topic of a dead letter, which decides how it is retried.
pub async fn topic(store: &Store, id: Uuid) -> Result<Topic, DeadLetterError> {
    let dead_letter = by_id(store, id).await?;
    let unknown = DeadLetterError::Topic { id, topic: dead_letter.topic.clone() };
    topics::from_name(&dead_letter.topic).ok_or(unknown)
}

/// Applies the message in the transaction that deletes the dead letter: appending it again could
/// apply it twice, if the command ended in between. It is applied after later messages, as it would
/// be if it were appended again. Parts that still fail stay a dead letter. The transaction also
/// writes the entry of the audit log, with the `result`: `applied`, `partly_applied` or `failed`.
/// An attempt that changes nothing has none. If nothing failed, `on_applied` also runs in the
/// transaction.
pub async fn retry<H: Handler>(
    store: &Store,
    handler: &H,
    id: Uuid,
    entry: &Entry,
    on_applied: &impl AsyncFn(&mut Tx) -> Result<(), StoreError>,
) -> Result<(), DeadLetterError> {
    let (mut tries, mut maybe_applied) = (0, false);
    loop {
        // Read each time: an earlier attempt without a response, or another process, may have
        // applied parts.
        let error = match find(store, id).await {
            Ok(None) if maybe_applied => return Ok(()),
            Ok(None) => return Err(DeadLetterError::Unknown(id)),
            Ok(Some(dead_letter)) => {
                let message = message(dead_letter)?;
                let tried =
                    try_once(store, handler, id, &message, entry, on_applied, &mut maybe_applied);
                match tried.await {
                    Ok(None) => return Ok(()),
                    Ok(Some(failed)) => return Err(DeadLetterError::Refused(failed.into_reason())),
                    Err(Failure::Permanent(text)) => return Err(DeadLetterError::Refused(text)),
                    Err(Failure::Newer(text)) => return Err(DeadLetterError::Unfinished(text)),
                    Err(Failure::TooLarge(text)) => DeadLetterError::Refused(text),
                    Err(Failure::Transient(text)) => DeadLetterError::Unfinished(text),
                    Err(Failure::OffsetMoved) => {
                        DeadLetterError::Unfinished("another process is retrying it".into())
                    }
                    Err(Failure::Stopped) => {
                        DeadLetterError::Unfinished("the retry was stopped".into())
                    }
                }
            }
            Err(error) => DeadLetterError::Store(error),
        };
        tries += 1;
        if tries == TRIES {
            return Err(error);
        }
        let base = Duration::from_millis(100);
        sleep(retry::backoff(tries, base, Duration::from_secs(2))).await;
    }
}

async fn find(store: &Store, id: Uuid) -> Result<Option<DeadLetter>, StoreError> {
    rows::dead_letter(&mut store.snapshot().await?, id).await
}

/// The parts of the message that failed; [`Failure::OffsetMoved`] if the dead letter has changed
/// meanwhile. Sets `maybe_applied` once the attempt may have taken effect without a response.
async fn try_once<H: Handler>(
    store: &Store,
    handler: &H,
    id: Uuid,
    message: &Message,
    entry: &Entry,
    on_applied: &impl AsyncFn(&mut Tx) -> Result<(), StoreError>,
    maybe_applied: &mut bool,
) -> Result<Option<Failed>, Failure> {
    let split = handler.split(message);
    let parts = Parts::prepare(handler, message, &split).await?;
    let mut tx = store.write().await?;
    let (applied, failed) = parts.apply(handler, &mut tx).await?;
    let remaining = failed.as_ref().map(|failed| (&failed.message, failed.reason.as_str()));
    if !rows::settle(&mut tx, id, message, remaining).await? {
        return Err(Failure::OffsetMoved);
    }
    let now = claims::now(&mut tx).await?;
    audit::record(&mut tx, now, &with_result(entry, failed.as_ref())).await?;
    if failed.is_none() {
        on_applied(&mut tx).await?;
        *maybe_applied = true;
    }
    tx.commit().await?;
    applied.into_iter().for_each(|applied| handler.applied(applied));
    Ok(failed)
}

fn with_result(entry: &Entry, failed: Option<&Failed>) -> Entry {
    let result = match failed {
        None => "applied",
        Some(Failed { is_all: false, .. }) => "partly_applied",
        Some(Failed { is_all: true, .. }) => "failed",
    };
    let mut entry = entry.clone();
    entry.details["result"] = Value::from(result);
    entry
}

fn message(dead_letter: DeadLetter) -> Result<Message, DeadLetterError> {
    let Some(topic) = topics::from_name(&dead_letter.topic) else {
        return Err(DeadLetterError::Topic { id: dead_letter.id, topic: dead_letter.topic });
    };
    Ok(Message {
        topic,
        partition: dead_letter.partition,
        offset: dead_letter.position,
        appended_at: dead_letter.appended_at,
        log_time: dead_letter.log_time,
        key: dead_letter.key,
        payload: dead_letter.payload,
        request_id: dead_letter.request_id,
    })
}

/// Deletes the dead letter permanently, with an entry in the audit log.
pub async fn discard(store: &Store, id: Uuid, entry: &Entry) -> Result<(), DeadLetterError> {
    let mut tx = store.write().await?;
    if !rows::remove(&mut tx, None, id).await? {
        return Err(DeadLetterError::Unknown(id));
    }
    let now = claims::now(&mut tx).await?;
    audit::record(&mut tx, now, entry).await?;
    Ok(tx.commit().await?)
}

/// Determines the workspaces of dead letters that programs of the release before wrote.
pub async fn determine_workspaces(
    store: &Store,
    stop: &CancellationToken,
) -> Result<(), StoreError> {
    while !stop.is_cancelled() {
        let found = rows::without_workspace(&mut store.snapshot().await?, UNDETERMINED).await?;
        if found.is_empty() {
            break;
        }
        let mut tx = store.write().await?;
        for (id, payload) in &found {
            rows::set_workspace(&mut tx, *id, payload).await?;
        }
        tx.commit().await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_ends_with_a_whole_character() {
        for (bytes, text) in [
            (&b"{}"[..], "{}"),
            (b"", ""),
            ("aé".as_bytes(), "aé"),
            (&"aé".as_bytes()[..2], "a"),
            (b"a\xff!", "a\u{fffd}!"),
        ] {
            let listed = ListedDeadLetter {
                id: Uuid::nil(),
                workspace_id: None,
                consumer_group: "ingest".into(),
                topic: "tracking".into(),
                partition: 0,
                position: 0,
                request_id: String::new(),
                reason: String::new(),
                attempts: 1,
                created_at: 0,
                bytes: bytes.len() as i64,
                beginning: bytes.to_vec(),
            };
            assert_eq!(listed.beginning_text(), text, "{bytes:?}");
        }
    }
}
