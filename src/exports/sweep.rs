//! Jobs whose message was lost between the row and the log, or given up.

use std::time::Duration;

use uuid::Uuid;

use crate::app::App;
use crate::log::{LogError, Message, NewMessage, Topic};
use crate::retry::Retry;
use crate::store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Log(#[from] LogError),
}

impl Retry for SweepError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Store(error) => error.can_retry(),
            Self::Log(error) => error.can_retry(),
        }
    }
}

/// The message that a job waits to be planned.
pub fn message(job: Uuid, request_id: &str) -> NewMessage {
    let id = job.to_string().into_bytes();
    NewMessage {
        topic: Topic::Exports,
        key: id.clone(),
        payload: id,
        request_id: request_id.to_owned(),
    }
}

/// The job that such a message is about.
pub fn job_of(message: &Message) -> Option<Uuid> {
    Uuid::try_parse_ascii(&message.payload).ok()
}

/// Appends the messages of jobs again that have waited too long to be planned; answers
/// how many. To be called every now and then; planning one twice is harmless.
pub async fn requeue(app: &App) -> Result<usize, SweepError> {
    let now = app.clock.now_ms();
    let patience = Duration::from_secs(app.config.exports.requeue_seconds);
    let before = now - i64::try_from(patience.as_millis()).unwrap_or(i64::MAX / 4);
    // An idle SQLite never takes the write lock for this.
    let mut tx = app.store.snapshot().await?;
    if !super::rows::any_waiting(&mut tx, before).await? {
        return Ok(0);
    }
    drop(tx);
    let mut tx = app.store.write().await?;
    let waiting = super::rows::requeue(&mut tx, before, now).await?;
    tx.commit().await?;
    if !waiting.is_empty() {
        tracing::warn!(jobs = waiting.len(), "appending the messages of waiting exports again");
        let messages = waiting.iter().map(|(job, request_id)| message(*job, request_id));
        app.log.append(messages.collect()).await?;
    }
    Ok(waiting.len())
}
