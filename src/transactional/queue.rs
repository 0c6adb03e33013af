//! The message that wakes a worker: appended when an email is taken in, and again for as long as
//! it waits.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use uuid::Uuid;

use super::{rows, sla};
use crate::app::App;
use crate::topics;
use kit::clock::{hours, millis};
use kit::retry::{self, Retry};
use log::{LogError, Message, NewMessage, PayloadError, payload};
use store::StoreError;
use store::claims;

/// How long a call waits for its message to be appended. The email is durable by then.
const PATIENCE: Duration = Duration::from_secs(2);

/// Between looks for emails that wait, and for what is to be forgotten.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const FORGET_EVERY: Duration = Duration::from_secs(60);

/// Which email waits: the payload of a message of [`topics::TRANSACTIONAL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wake {
    v: u32,
    pub workspace: i32,
    #[serde(serialize_with = "uuid::serde::simple::serialize")]
    pub dispatch_id: Uuid,
}

const VERSION: u32 = 1;

#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Log(#[from] LogError),
}

impl Retry for QueueError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Store(error) => error.can_retry(),
            Self::Log(error) => error.can_retry(),
        }
    }
}

impl Wake {
    pub fn new(workspace: i32, dispatch_id: Uuid) -> Self {
        Self { v: VERSION, workspace, dispatch_id }
    }

    /// What a message says.
    pub fn read(message: &Message) -> Result<Self, PayloadError> {
        payload::read(topics::TRANSACTIONAL, VERSION, &message.payload, |wake: &Self| Some(wake.v))
    }

    fn message(self, request_id: &str) -> NewMessage {
        NewMessage {
            topic: topics::TRANSACTIONAL,
            key: self.dispatch_id.as_bytes().to_vec(),
            partition: None,
            payload: serde_json::to_vec(&self).unwrap_or_default(),
            request_id: request_id.to_owned(),
        }
    }
}

/// Appends the message of an email that was taken in. Where that takes long it goes on by itself,
/// and where it fails the email waits until it is [appended again](again).
pub async fn announce(app: &App, wake: Wake, request_id: &str) {
    let (log, message) = (app.log.clone(), wake.message(request_id));
    let append = async move {
        if let Err(error) = log.append(vec![message]).await {
            tracing::warn!(%error, "the email waits for its message");
        }
    };
    let append = tokio::spawn(append.in_current_span());
    if tokio::time::timeout(PATIENCE, append).await.is_err() {
        tracing::warn!("the log takes long; the email waits for its message");
    }
}

/// Appends the messages of emails again that wait for too long: nobody was told of them, or they
/// were put off until now, or who had them is gone. Answers how many. A repeat is harmless.
pub async fn again(app: &App) -> Result<usize, QueueError> {
    // An idle SQLite never takes the write lock for this.
    let mut tx = app.store.snapshot().await?;
    if !rows::any_waiting(&mut tx).await? {
        return Ok(0);
    }
    drop(tx);
    let patience = Duration::from_secs(app.config.transactional.requeue_seconds);
    let mut tx = app.store.write().await?;
    let now = claims::now(&mut tx).await?;
    let waiting = rows::waiting(&mut tx, now, patience).await?;
    tx.commit().await?;
    let messages = waiting.iter().map(|waiting| {
        Wake::new(waiting.workspace_id, waiting.dispatch_id).message(&waiting.request_id)
    });
    app.log.append(messages.collect()).await?;
    Ok(waiting.len())
}

/// Has waiting emails appended again, old ones forgotten, and the SLA told, until `shutdown`.
pub async fn keep(app: App, shutdown: CancellationToken) {
    let urgent = app.urgent();
    let mut forgot: Option<tokio::time::Instant> = None;
    while !shutdown.is_cancelled() {
        match again(&urgent).await {
            Ok(0) => {}
            Ok(emails) => tracing::info!(emails, "waiting emails were appended again"),
            Err(error) => tracing::warn!(%error, "cannot look for emails that wait"),
        }
        if forgot.is_none_or(|at| at.elapsed() >= FORGET_EVERY) {
            forgot = Some(tokio::time::Instant::now());
            if let Err(error) = forget(&app, &shutdown).await {
                tracing::warn!(%error, "old emails cannot be forgotten yet");
            }
            if let Err(error) = sla::tell(&app).await {
                tracing::warn!(%error, "the SLA cannot be told");
            }
        }
        retry::wait(LOOK_EVERY, &shutdown).await;
    }
}

/// Removes emails that were settled long ago, and keys that hold no more.
async fn forget(app: &App, shutdown: &CancellationToken) -> Result<(), StoreError> {
    let mut tx = app.store.snapshot().await?;
    let now = claims::now(&mut tx).await?;
    let days = u64::from(app.config.transactional.keep_days);
    let (emails, keys) = (now - millis(hours(24 * days)), now - millis(rows::KEY_HOLDS));
    let mut more = rows::any_old(&mut tx, emails, keys).await?;
    drop(tx);
    while more && !shutdown.is_cancelled() {
        let mut tx = app.store.write().await?;
        rows::forget(&mut tx, emails, keys).await?;
        more = rows::any_old(&mut tx, emails, keys).await?;
        tx.commit().await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_which_email_waits() {
        let wake = Wake::new(7, Uuid::from_u128(5));
        let new = wake.message("r");
        let text = r#"{"v":1,"workspace":7,"dispatch_id":"00000000000000000000000000000005"}"#;
        assert_eq!(String::from_utf8(new.payload.clone()).unwrap(), text);
        let read = |payload: &[u8]| {
            Wake::read(&Message {
                topic: new.topic,
                partition: 0,
                offset: 0,
                appended_at: 0,
                key: Vec::new(),
                payload: payload.to_vec(),
                request_id: String::new(),
            })
        };
        assert_eq!(read(&new.payload), Ok(wake));
        assert!(read(text.replace("\"v\":1", "\"v\":2").as_bytes()).is_err());
        assert!(read(b"x").is_err());
    }
}
