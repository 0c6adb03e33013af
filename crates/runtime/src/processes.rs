//! The processes of the installation: each stores that it runs, for people who look after it.

use std::time::Duration;

use serde::Serialize;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::audit::host;
use crate::process_rows as rows;
use kit::clock::serialize_time;
use kit::retry;
use store::{Store, StoreError, claims, within_timeout};

pub use crate::process_rows::list;

/// How often a process stores that it runs.
const EVERY: Duration = Duration::from_secs(20);

/// A process that was not seen for this long has probably ended without a clean stop, or cannot
/// write to the database. In milliseconds.
const MISSING_AFTER: i64 = 60_000;

/// How long a missing process is listed, in milliseconds.
const KEEP: i64 = 60 * 60 * 1_000;

/// Time limit of the last write of a process.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

/// A process. Times are milliseconds since the epoch by the database's clock, and ISO 8601 in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Process {
    pub id: Uuid,
    /// The machine, or the pod.
    pub host: String,
    /// Its number on the host.
    pub pid: i64,
    /// `gateway`, `standalone`, and the roles of its workers, separated by commas.
    pub roles: String,
    pub version: String,
    #[serde(serialize_with = "serialize_time")]
    pub started_at: i64,
    #[serde(serialize_with = "serialize_time")]
    pub seen_at: i64,
}

impl Process {
    /// This process; its times are those of the first [`announce`].
    pub fn this(roles: &[&str]) -> Self {
        Self {
            id: Uuid::now_v7(),
            host: host().unwrap_or_else(|| "unknown".to_owned()),
            pid: std::process::id().into(),
            roles: roles.join(","),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: 0,
            seen_at: 0,
        }
    }

    /// Whether it was not seen for longer than between two writes.
    pub fn is_missing(&self, now: i64) -> bool {
        now.saturating_sub(self.seen_at) > MISSING_AFTER
    }
}

/// Stores again and again that a process runs, until `stop`.
pub async fn announce(store: Store, process: Process, stop: CancellationToken) {
    let mut started_at = None;
    while !stop.is_cancelled() {
        match announce_once(&store, &process, started_at).await {
            Ok(at) => started_at = Some(started_at.unwrap_or(at)),
            // Whatever needs the database reports that it is down.
            Err(error) => tracing::debug!(%error, "cannot store that this process runs"),
        }
        retry::wait(EVERY, &stop).await;
    }
}

/// Also deletes the rows of processes that have been missing for long. Returns the time.
async fn announce_once(
    store: &Store,
    process: &Process,
    started_at: Option<i64>,
) -> Result<i64, StoreError> {
    let mut tx = store.write().await?;
    let now = claims::now(&mut tx).await?;
    rows::put(&mut tx, process, started_at.unwrap_or(now), now).await?;
    rows::delete_old(&mut tx, now - KEEP).await?;
    tx.commit().await?;
    Ok(now)
}

/// A process ends: it is not listed any more. If the database is down, the process is listed as
/// missing.
pub async fn leave(store: &Store, id: Uuid) {
    let store = store.clone();
    let delete = async move {
        let mut tx = store.write().await?;
        rows::delete(&mut tx, id).await?;
        tx.commit().await
    };
    if let Err(error) = within_timeout(delete, sleep(LEAVE_TIMEOUT)).await {
        tracing::debug!(%error, "cannot store that this process ends");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_missing_after_several_writes_that_did_not_come() {
        let process = Process { seen_at: 1_000, ..Process::this(&["gateway", "exports"]) };
        assert_eq!(process.roles, "gateway,exports");
        assert!(!process.is_missing(21_000) && !process.is_missing(0));
        assert!(process.is_missing(1_001 + MISSING_AFTER));
    }
}
