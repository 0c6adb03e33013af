//! Messages that could not be done: kept with the reason until somebody has them tried again or
//! discards them.

use std::time::Duration;

use tokio::time::sleep;
use uuid::Uuid;

use super::Handler;
use super::failure::Failure;
use super::parts::{Failed, Parts};
use super::rows;
pub use super::rows::DeadLetter;
use crate::topics;
use kit::retry::{self, Retry};
use log::{Message, Topic};
use store::{Store, StoreError};

/// Tries, as long as only somebody else's locks are in the way.
const TRIES: u32 = 5;

/// Dead letters read at once.
const PAGE: i64 = 100;

/// What can go wrong with a dead letter.
#[derive(Debug, thiserror::Error)]
pub enum DeadLetterError {
    #[error("no dead letter has the id {0}")]
    Unknown(Uuid),
    #[error("dead letter {id} is of topic {topic}, which this version does not have")]
    Topic { id: Uuid, topic: String },
    #[error("it still cannot be done: {0}")]
    Refused(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Retry for DeadLetterError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Unknown(_) | Self::Topic { .. } | Self::Refused(_) => false,
            Self::Store(error) => error.can_retry(),
        }
    }
}

/// The dead letters that come after `after`, oldest first, some at a time; none when there
/// are no more.
pub async fn page(
    store: &Store,
    after: Option<&DeadLetter>,
) -> Result<Vec<DeadLetter>, StoreError> {
    let mut tx = store.snapshot().await?;
    rows::dead_letters(&mut tx, after.map(|letter| (letter.created_at, letter.id)), PAGE).await
}

/// The topic of a dead letter, which says how it is tried again.
pub async fn topic(store: &Store, id: Uuid) -> Result<Topic, DeadLetterError> {
    let letter = rows::dead_letter(&mut store.snapshot().await?, id).await?;
    let letter = letter.ok_or(DeadLetterError::Unknown(id))?;
    let unknown = DeadLetterError::Topic { id, topic: letter.topic.clone() };
    topics::from_name(&letter.topic).ok_or(unknown)
}

/// Applies the message in the transaction that removes the dead letter: appending it again
/// could double it, should the command end between the two. It is applied after what came
/// later, as it would be if it were appended again. What of it still cannot be done stays a
/// dead letter.
pub async fn retry<H: Handler>(
    store: &Store,
    handler: &H,
    id: Uuid,
) -> Result<(), DeadLetterError> {
    let (mut tries, mut unanswered) = (0, false);
    loop {
        // Each time anew: a try that was not answered, or somebody else's, may have done some.
        let text = match find(store, id).await {
            Ok(None) if unanswered => return Ok(()),
            Ok(None) => return Err(DeadLetterError::Unknown(id)),
            Ok(Some(letter)) => {
                match once(store, handler, id, &message(letter)?, &mut unanswered).await {
                    Ok(None) => return Ok(()),
                    Ok(Some(failed)) => return Err(DeadLetterError::Refused(failed.told())),
                    Err(Failure::Lasting(text) | Failure::Newer(text)) => {
                        return Err(DeadLetterError::Refused(text));
                    }
                    Err(Failure::Passing(text) | Failure::TooMuch(text)) => text,
                    Err(Failure::Moved) => "somebody else tries it, too".to_owned(),
                    Err(Failure::Stopped) => "it was stopped".to_owned(),
                }
            }
            Err(error) => error.to_string(),
        };
        tries += 1;
        if tries == TRIES {
            return Err(DeadLetterError::Refused(text));
        }
        let base = Duration::from_millis(100);
        sleep(retry::pause(tries, base, Duration::from_secs(2))).await;
    }
}

async fn find(store: &Store, id: Uuid) -> Result<Option<DeadLetter>, StoreError> {
    rows::dead_letter(&mut store.snapshot().await?, id).await
}

/// What of the message could not be done; [`Failure::Moved`] if the dead letter is another one
/// by now. `unanswered` says from then on that it may be gone by this.
async fn once<H: Handler>(
    store: &Store,
    handler: &H,
    id: Uuid,
    message: &Message,
    unanswered: &mut bool,
) -> Result<Option<Failed>, Failure> {
    let split = handler.split(message);
    let parts = Parts::prepare(handler, message, &split).await?;
    let mut tx = store.write().await?;
    let (applied, failed) = parts.apply(handler, &mut tx).await?;
    let left = failed.as_ref().map(|failed| (&failed.message, failed.reason.as_str()));
    if !rows::settle(&mut tx, id, message, left).await? {
        return Err(Failure::Moved);
    }
    *unanswered |= failed.is_none();
    tx.commit().await?;
    applied.into_iter().for_each(|applied| handler.applied(applied));
    Ok(failed)
}

fn message(letter: DeadLetter) -> Result<Message, DeadLetterError> {
    let Some(topic) = topics::from_name(&letter.topic) else {
        return Err(DeadLetterError::Topic { id: letter.id, topic: letter.topic });
    };
    Ok(Message {
        topic,
        partition: letter.partition,
        offset: letter.position,
        appended_at: letter.appended_at,
        key: letter.key,
        payload: letter.payload,
        request_id: letter.request_id,
    })
}

/// Removes the dead letter for good.
pub async fn discard(store: &Store, id: Uuid) -> Result<(), DeadLetterError> {
    let mut tx = store.write().await?;
    if !rows::remove(&mut tx, id).await? {
        return Err(DeadLetterError::Unknown(id));
    }
    Ok(tx.commit().await?)
}
