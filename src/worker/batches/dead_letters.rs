//! Trying a dead letter of a topic again whose messages are applied exactly once.

use std::time::Duration;

use tokio::time::sleep;
use uuid::Uuid;

use super::Handler;
use crate::log::{Message, Topic};
use crate::retry::{self, Retry as _};
use crate::store::Store;
use crate::worker::messages::dead_letters::{DeadLetter, DeadLetterError};
use crate::worker::messages::rows;

/// Tries, as long as only somebody else's locks are in the way.
const TRIES: u32 = 5;

/// Applies the message in the transaction that removes the dead letter: appending it again
/// could double it, should the command end between the two. It is applied after what came
/// later, as it would be if it were appended again.
pub async fn retry<H: Handler>(
    store: &Store,
    handler: &H,
    id: Uuid,
) -> Result<(), DeadLetterError> {
    let letter = rows::dead_letter(&mut store.snapshot().await?, id).await?;
    let message = message(letter.ok_or(DeadLetterError::Unknown(id))?)?;
    let (mut tries, mut unanswered) = (0, false);
    loop {
        match once(store, handler, id, &message, &mut unanswered).await {
            Ok(false) if !unanswered => return Err(DeadLetterError::Unknown(id)),
            // Gone by a commit whose answer was lost.
            Ok(_) => return Ok(()),
            Err(error) => {
                tries += 1;
                if !error.can_retry() || tries == TRIES {
                    return Err(DeadLetterError::Refused(error.to_string()));
                }
                let base = Duration::from_millis(100);
                sleep(retry::pause(tries, base, Duration::from_secs(2))).await;
            }
        }
    }
}

/// Whether the dead letter was still there. `unanswered` says from then on that it may be gone
/// by this.
async fn once<H: Handler>(
    store: &Store,
    handler: &H,
    id: Uuid,
    message: &Message,
    unanswered: &mut bool,
) -> Result<bool, H::Error> {
    let prepared = handler.prepare(std::slice::from_ref(message)).await?;
    let mut tx = store.write().await?;
    let applied = handler.apply(&mut tx, &prepared).await?;
    if !rows::remove(&mut tx, id).await? {
        return Ok(false);
    }
    *unanswered = true;
    tx.commit().await?;
    handler.applied(applied);
    Ok(true)
}

fn message(letter: DeadLetter) -> Result<Message, DeadLetterError> {
    let Some(topic) = Topic::from_name(&letter.topic) else {
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
