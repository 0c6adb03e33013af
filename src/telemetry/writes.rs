//! Whether the store and the log accept writes, for `/readyz`: reading still works on a full disk,
//! and on a database that is read-only.

use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::app::App;
use log::Log;
use store::{Store, StoreError, settings, within_timeout};

/// The name of the setting that is written.
const PROBE: &str = "ready.probe";

/// Time limit of a write. A slow write is not a failure: others may write much.
const TIMEOUT: Duration = Duration::from_secs(2);

/// For how long a result is used: after writes that succeeded, and after one that failed.
const GOOD_FOR: Duration = Duration::from_secs(5);
const BAD_FOR: Duration = Duration::from_secs(1);

/// The errors of the last writes.
#[derive(Clone, Debug, Default)]
pub struct WriteErrors {
    pub store: Option<String>,
    pub log: Option<String>,
}

impl WriteErrors {
    fn is_any(&self) -> bool {
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
            let limit = if errors.is_any() { BAD_FOR } else { GOOD_FOR };
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
    let log = if store.is_some() || matches!(app.log, Log::Embedded(_)) {
        write_log(&app.log).await
    } else {
        None
    };
    WriteErrors { store, log }
}

async fn write_store(store: &Store, now: i64) -> Option<String> {
    let store = store.clone();
    let write = async move {
        let mut tx = store.write().await?;
        settings::put(&mut tx, PROBE, &now.to_string()).await?;
        tx.commit().await
    };
    match within_timeout(write, tokio::time::sleep(TIMEOUT)).await {
        Ok(()) | Err(StoreError::Timeout) => None,
        Err(error) => Some(error.to_string()),
    }
}

async fn write_log(log: &Log) -> Option<String> {
    let log = log.clone();
    // In its own task, because a write is never dropped halfway.
    let check = tokio::spawn(async move { log.check_writable().await });
    match timeout(TIMEOUT, check).await {
        Ok(Ok(Ok(()))) => None,
        Ok(Ok(Err(error))) => Some(error.to_string()),
        Ok(Err(panic)) => Some(panic.to_string()),
        Err(_) => None,
    }
}
