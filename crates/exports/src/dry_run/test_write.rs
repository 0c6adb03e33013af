//! A test write to the destination of an export.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use uuid::Uuid;

use crate::Failure;
use gateway::ApiError;
use gateway::app::App;
use gateway::workspaces::{StorageError, open_storage};
use objects::{Reason, probe};
use runtime::fairness::Reservation;
use store::StoreError;

/// How long the response waits for the test.
const TIMEOUT: Duration = Duration::from_secs(20);

/// When a test ends that the response did not wait for, and that may still delete its object.
const LAST_TIMEOUT: Duration = Duration::from_secs(60);

/// The operator knows why from the log and `/readyz`.
const NO_URL: &str = "The service cannot store files for download URLs at the moment. Please try \
                      again later.";

/// The result of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tested {
    /// Writable, with the limits that exports will have.
    Writable(Vec<String>),
    /// Not writable, and why, for the customer.
    Refused(String),
}

/// A running test. It continues if nobody waits for it, so that its object is deleted.
pub(super) struct TestWrite(JoinHandle<Result<Tested, StoreError>>);

impl TestWrite {
    /// Starts a test, which holds `slot` to its end. Without a storage, it tests where the files
    /// behind URLs are written.
    pub fn start(app: &App, storage: Option<Uuid>, slot: Reservation) -> Self {
        let app = app.clone();
        Self(tokio::spawn(async move {
            let _slot = slot;
            let tested = timeout(LAST_TIMEOUT, async {
                match storage {
                    Some(storage) => own_storage(&app, storage).await,
                    None => Ok(build_storage(&app).await),
                }
            });
            tested.await.unwrap_or_else(|_| Ok(too_slow(storage.is_some())))
        }))
    }

    /// The result of the test for the same storage.
    pub async fn result(self, is_own: bool) -> Result<Tested, ApiError> {
        match timeout(TIMEOUT, self.0).await {
            Ok(Ok(tested)) => Ok(tested?),
            Ok(Err(panic)) => Err(ApiError::Internal(format!("a test write panicked: {panic}"))),
            Err(_) => Ok(too_slow(is_own)),
        }
    }
}

fn too_slow(is_own: bool) -> Tested {
    let seconds = TIMEOUT.as_secs();
    Tested::Refused(if is_own {
        format!("Your cloud storage did not respond within {seconds} seconds.")
    } else {
        NO_URL.into()
    })
}

async fn own_storage(app: &App, storage: Uuid) -> Result<Tested, StoreError> {
    let objects = match open_storage(app, storage).await {
        Ok(objects) => objects,
        Err(StorageError::Store(error)) => return Err(error),
        Err(error) => return Ok(refused(Failure::storage(&error))),
    };
    Ok(match probe::own_storage(&objects).await {
        Ok(limits) => {
            for limit in &limits {
                tracing::warn!(%storage, %limit, "a storage does not support everything");
            }
            let for_customer = |limit: &Reason| limit.for_customer().to_owned();
            Tested::Writable(limits.iter().map(for_customer).collect())
        }
        Err(error) => refused(Failure::objects(&error, true)),
    })
}

/// The customer gets the message, and the log the details.
fn refused(failure: Failure) -> Tested {
    tracing::warn!(detail = failure.detail, "cannot write to a workspace's own storage");
    Tested::Refused(failure.message)
}

async fn build_storage(app: &App) -> Tested {
    match probe::can_write(&app.objects, Uuid::new_v4()).await {
        Ok(()) => Tested::Writable(Vec::new()),
        Err(error) => {
            tracing::warn!(%error, "cannot write objects");
            Tested::Refused(NO_URL.into())
        }
    }
}
