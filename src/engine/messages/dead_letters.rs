//! Messages that could not be done: kept with the reason until somebody has them tried
//! again or discards them.

use uuid::Uuid;

use super::rows;
pub use super::rows::DeadLetter;
use crate::topics;
use kit::retry::Retry;
use log::{Log, LogError, NewMessage, Topic};
use store::{Store, StoreError};

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
    Log(#[from] LogError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Retry for DeadLetterError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Unknown(_) | Self::Topic { .. } | Self::Refused(_) => false,
            Self::Log(error) => error.can_retry(),
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

/// Appends the message again, then removes the dead letter. Between the two a crash leaves
/// both, and the message is done twice, which is harmless.
pub async fn retry(store: &Store, log: &Log, id: Uuid) -> Result<(), DeadLetterError> {
    let mut tx = store.snapshot().await?;
    let letter = rows::dead_letter(&mut tx, id).await?.ok_or(DeadLetterError::Unknown(id))?;
    drop(tx);
    let Some(topic) = topics::from_name(&letter.topic) else {
        return Err(DeadLetterError::Topic { id, topic: letter.topic });
    };
    log.append(vec![NewMessage {
        topic,
        key: letter.key,
        partition: Some(letter.partition),
        payload: letter.payload,
        request_id: letter.request_id,
    }])
    .await?;
    let mut tx = store.write().await?;
    rows::remove(&mut tx, id).await?;
    Ok(tx.commit().await?)
}

/// Removes the dead letter for good.
pub async fn discard(store: &Store, id: Uuid) -> Result<(), DeadLetterError> {
    let mut tx = store.write().await?;
    if !rows::remove(&mut tx, id).await? {
        return Err(DeadLetterError::Unknown(id));
    }
    Ok(tx.commit().await?)
}
