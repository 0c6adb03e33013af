//! The handler whose messages the runner applies.

use std::fmt;
use std::future::pending;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use kit::retry::Retry;
use log::Message;
use longshore::engine::batches::Handler;
use store::{StoreError, Tx};

use crate::log::text;

/// Why a message is not applied.
#[derive(Debug)]
pub enum HandlerError {
    Transient,
    TooLarge,
    Permanent,
    Store(StoreError),
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transient => f.write_str("not now"),
            Self::TooLarge => f.write_str("too much"),
            Self::Permanent => f.write_str("never"),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl Retry for HandlerError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Transient | Self::TooLarge => true,
            Self::Permanent => false,
            Self::Store(error) => error.can_retry(),
        }
    }

    fn is_too_large(&self) -> bool {
        match self {
            Self::TooLarge => true,
            Self::Store(error) => error.is_too_large(),
            Self::Transient | Self::Permanent => false,
        }
    }
}

impl From<StoreError> for HandlerError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Counts each part of a payload (`one & another`) in a table, which shows what was applied
/// twice; and does what it says.
#[derive(Clone, Default)]
pub struct Tally {
    pub begun: Arc<AtomicUsize>,
    /// What is refused, fails or hangs succeeds from now on.
    pub healed: Arc<AtomicBool>,
    /// Number of times that it had to clear its caches.
    pub reverted: Arc<AtomicUsize>,
}

const COUNT: &str = "INSERT INTO tally (payload, n) VALUES ($1, 1)
                     ON CONFLICT (payload) DO UPDATE SET n = tally.n + 1";

impl Handler for Tally {
    type Error = HandlerError;
    type Prepared<'m> = Vec<String>;
    type Applied = ();

    async fn prepare(&self, messages: &[Message]) -> Result<Vec<String>, HandlerError> {
        let parts = messages.iter().flat_map(|message| self.split(message));
        Ok(parts.map(|part| format!("{}/{}", part.partition, text(&part))).collect())
    }

    fn split(&self, message: &Message) -> Vec<Message> {
        let payload = text(message);
        let part = |part: &str| Message { payload: part.into(), ..message.clone() };
        payload.split(" & ").map(part).collect()
    }

    fn join(&self, parts: &[&Message]) -> Message {
        let texts: Vec<String> = parts.iter().map(|part| text(part)).collect();
        Message { payload: texts.join(" & ").into_bytes(), ..parts[0].clone() }
    }

    async fn apply(&self, tx: &mut Tx, payloads: &Self::Prepared<'_>) -> Result<(), HandlerError> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let healed = self.healed.load(Ordering::SeqCst);
        for payload in payloads {
            let done = match tx {
                Tx::Postgres(tx) => sqlx::query(COUNT).bind(payload).execute(&mut **tx).await.err(),
                Tx::Sqlite(tx) => sqlx::query(COUNT).bind(payload).execute(&mut **tx).await.err(),
            };
            if let Some(error) = done {
                return Err(StoreError::from(error).into());
            }
            let (_, asked) = payload.split_once('/').unwrap();
            match asked.split(' ').next().unwrap() {
                "fail" if !healed => return Err(HandlerError::Transient),
                "refuse" if !healed => return Err(HandlerError::Permanent),
                "few" if payloads.len() > 3 => return Err(HandlerError::TooLarge),
                "large" if !healed => return Err(HandlerError::TooLarge),
                "hang" if !healed => pending().await,
                "panic" => panic!("this one"),
                "kill" => {
                    let id = std::process::id().to_string();
                    Command::new("kill").args(["-s", "KILL", &id]).status().unwrap();
                    pending().await
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn lost_commits(&self) {
        self.reverted.fetch_add(1, Ordering::SeqCst);
    }
}
