//! The message that a job waits to be planned: appended when the job is made, and again for
//! as long as nobody plans it.

use crate::topics;
use std::time::Duration;

use tracing::Instrument as _;
use uuid::Uuid;

use super::{ExportError, Job, rows};
use crate::app::App;
use kit::clock::millis;
use log::{Message, NewMessage, PayloadError, payload};

/// How long a caller waits for its message to be appended. The job is durable by then.
const PATIENCE: Duration = Duration::from_secs(2);

fn message(job: Uuid, request_id: &str) -> NewMessage {
    let id = job.to_string().into_bytes();
    NewMessage {
        topic: topics::EXPORTS,
        key: id.clone(),
        partition: None,
        payload: id,
        request_id: request_id.to_owned(),
    }
}

/// The job that such a message is about. A payload that says its version, as those of the other
/// topics do, is a newer program's.
pub fn job_of(message: &Message) -> Result<Uuid, PayloadError> {
    const NO_VERSION: u32 = 0;
    Uuid::try_parse_ascii(&message.payload).or_else(|_| {
        let payload = message.payload.as_slice();
        payload::read(topics::EXPORTS, NO_VERSION, payload, |_: &Uuid| None)
    })
}

/// Appends the message of a new job. Where that takes long it goes on by itself, and where
/// it fails [`requeue`] appends again: an error would only make the client ask for a second
/// export.
pub(super) async fn announce(app: &App, job: &Job) {
    let (log, message) = (app.log.clone(), message(job.id, &job.request_id));
    let append = async move {
        if let Err(error) = log.append(vec![message]).await {
            tracing::warn!(%error, "the export waits for its message");
        }
    };
    let append = tokio::spawn(append.in_current_span());
    if tokio::time::timeout(PATIENCE, append).await.is_err() {
        tracing::warn!("the log takes long; the export waits for its message");
    }
}

/// Appends the messages of jobs again that have waited too long to be planned; answers
/// how many. To be called every now and then; planning one twice is harmless. A job whose
/// planning came to no end before waits longer each time.
pub async fn requeue(app: &App) -> Result<usize, ExportError> {
    let now = app.clock.now_ms();
    let patience = millis(Duration::from_secs(app.config.exports.requeue_seconds));
    // An idle SQLite never takes the write lock for this.
    let mut tx = app.store.snapshot().await?;
    if !rows::any_waiting(&mut tx, now - patience).await? {
        return Ok(0);
    }
    drop(tx);
    let mut tx = app.store.write().await?;
    let waiting = rows::requeue(&mut tx, now, patience).await?;
    tx.commit().await?;
    if !waiting.is_empty() {
        tracing::warn!(jobs = waiting.len(), "appending the messages of waiting exports again");
        let messages = waiting.iter().map(|(job, request_id)| message(*job, request_id));
        app.log.append(messages.collect()).await?;
    }
    Ok(waiting.len())
}
