//! Whether the store and the log accept writes, for `/readyz`: reading still works on a full disk,
//! and on a database that is read-only.

use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::app::App;
use log::Log;
use store::{Store, StoreError, inspect, within_timeout};

/// Time limit of a write, and of Kafka's response. A slow write is not a failure: others may write
/// much.
const TIMEOUT: Duration = log::CHECK_TIMEOUT;

/// For how long a result is used: after writes that succeeded, and after one that failed.
const GOOD_FOR: Duration = Duration::from_secs(5);
const BAD_FOR: Duration = Duration::from_secs(1);

/// The errors of the last writes, each as a line of `/readyz`.
#[derive(Clone, Debug, Default)]
pub struct WriteErrors {
    pub store: Option<String>,
    pub log: Option<String>,
}

impl WriteErrors {
    fn has_any(&self) -> bool {
        self.store.is_some() || self.log.is_some()
    }
}

/// Writes once for all requests within a few seconds.
#[derive(Default)]
pub struct WriteCheck(Mutex<Option<(Instant, WriteErrors)>>);

impl WriteCheck {
    /// The errors of the latest writes.
    pub async fn errors(&self, app: &App) -> WriteErrors {
        let mut last = self.0.lock().await;
        if let Some((at, errors)) = &*last {
            let limit = if errors.has_any() { BAD_FOR } else { GOOD_FOR };
            if at.elapsed() < limit {
                return errors.clone();
            }
        }
        let errors = write(app).await;
        *last = Some((Instant::now(), errors.clone()));
        errors
    }
}

/// Kafka is asked only if the store fails: it then decides whether any request can be accepted.
async fn write(app: &App) -> WriteErrors {
    let store = write_store(&app.store, app.clock.now_ms()).await;
    let log =
        if store.is_some() || app.log.is_embedded() { write_log(&app.log).await } else { None };
    WriteErrors { store, log }
}

async fn write_store(store: &Store, now: i64) -> Option<String> {
    let store = store.clone();
    let check = async move { inspect::check_writable(&store, now).await };
    match within_timeout(check, tokio::time::sleep(TIMEOUT)).await {
        Ok(()) | Err(StoreError::Timeout) => None,
        Err(error @ StoreError::ReadOnly(_)) => Some(error.to_string()),
        Err(error) => Some(format!("cannot write to the database: {error}")),
    }
}

async fn write_log(log: &Log) -> Option<String> {
    let checked = log.clone();
    // In its own task, because a write is never dropped halfway.
    let check = tokio::spawn(async move { checked.check_writable().await });
    let error = match timeout(TIMEOUT, check).await {
        Ok(Ok(Ok(()))) => return None,
        Err(_) if log.is_embedded() => return None,
        Err(_) => format!("Kafka did not respond within {TIMEOUT:?}"),
        Ok(Ok(Err(error))) => error.to_string(),
        Ok(Err(panic)) => panic.to_string(),
    };
    Some(format!("cannot append to the log: {error}"))
}
