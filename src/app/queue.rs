//! Requests that wait for the store.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

use store::{Store, StoreError, Tx};

/// Requests that wait at the same time, for seconds if the store is down. They occupy resources
/// that requests without the store need, so there are few.
const PLACES: usize = 64;

/// How long a request waits for a place; after that, the store is down or overloaded.
const TIMEOUT: Duration = Duration::from_millis(500);

/// The queue of requests for the store. Cheap to clone.
#[derive(Clone)]
pub struct StoreQueue {
    store: Store,
    places: Arc<Semaphore>,
}

impl StoreQueue {
    pub fn new(store: Store) -> Self {
        Self { store, places: Arc::new(Semaphore::new(PLACES)) }
    }

    /// [`Store::snapshot`].
    pub async fn snapshot(&self) -> Result<Tx, StoreError> {
        self.pass(self.store.snapshot()).await
    }

    /// [`Store::write`].
    pub async fn write(&self) -> Result<Tx, StoreError> {
        self.pass(self.store.write()).await
    }

    /// Runs a statement that is a transaction by itself.
    pub async fn pass<T>(
        &self,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        // The semaphore is never closed.
        let place = timeout(TIMEOUT, self.places.acquire()).await;
        let Ok(Ok(_place)) = place else {
            metrics::counter!("longshore_http_refused_total", "reason" => "store").increment(1);
            return Err(StoreError::Timeout);
        };
        work.await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[tokio::test]
    async fn a_full_queue_rejects_requests() {
        let directory = tempfile::tempdir().unwrap();
        let config = Config { data: directory.path().to_owned(), ..Config::default() };
        let queue = StoreQueue::new(Store::connect(&config.database_url(), 16).await.unwrap());
        let waiting: Vec<_> = (0..PLACES)
            .map(|_| {
                let queue = queue.clone();
                tokio::spawn(
                    async move { queue.pass(std::future::pending::<Result<(), _>>()).await },
                )
            })
            .collect();
        while queue.places.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert!(matches!(queue.pass(async { Ok(()) }).await, Err(StoreError::Timeout)));
        waiting[0].abort();
        assert!(queue.pass(async { Ok(()) }).await.is_ok());
    }
}
