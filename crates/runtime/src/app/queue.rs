//! Requests that wait for the store.

use std::time::Duration;

use tokio::time::timeout;

use crate::fairness::{Holder, SLOT_BYTES, SharedMemory};
use store::{Store, StoreError, Tx};

/// Requests that wait at the same time, for seconds if the store is down. They occupy resources
/// that requests without the store need, so there are few. A workspace gets at most as many as it
/// leaves free.
const SLOTS: usize = 64;

/// How long a request waits for a slot; after that, the store is down or overloaded.
const TIMEOUT: Duration = Duration::from_millis(500);

/// The queue of requests for the store. Cheap to clone.
#[derive(Clone)]
pub struct StoreQueue {
    store: Store,
    slots: SharedMemory,
}

tokio::task_local! {
    static HOLDER: Holder;
}

/// Does work whose slots are this holder's: in the queue, and for
/// [lookups of names](crate::outbound::address::NameLookups). Without one, they are those of
/// unauthenticated senders.
pub fn held_by<T>(holder: Holder, work: impl Future<Output = T>) -> impl Future<Output = T> {
    HOLDER.scope(holder, work)
}

/// The holder of the work that this task does.
pub fn current_holder() -> Holder {
    HOLDER.try_with(|holder| *holder).unwrap_or(Holder::Unauthenticated)
}

impl StoreQueue {
    pub fn new(store: Store) -> Self {
        Self { store, slots: SharedMemory::halves(SLOTS * SLOT_BYTES) }
    }

    /// [`Store::snapshot`].
    pub async fn snapshot(&self) -> Result<Tx, StoreError> {
        self.run(self.store.snapshot()).await
    }

    /// [`Store::write`].
    pub async fn write(&self) -> Result<Tx, StoreError> {
        self.run(self.store.write()).await
    }

    /// Runs a statement that is a transaction by itself.
    pub async fn run<T>(
        &self,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let slot = timeout(TIMEOUT, self.slots.reserve(current_holder(), SLOT_BYTES)).await;
        let Ok(_slot) = slot else {
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
    async fn a_workspace_leaves_places_of_the_queue_to_others() {
        let directory = tempfile::tempdir().unwrap();
        let config = Config { data: directory.path().to_owned(), ..Config::default() };
        let queue = StoreQueue::new(Store::connect(&config.database_url(), 16).await.unwrap());
        let (busy, other) = (Holder::Workspace(1), Holder::Workspace(2));
        let wait = |holder| {
            let queue = queue.clone();
            let forever =
                async move { queue.run(std::future::pending::<Result<(), StoreError>>()).await };
            tokio::spawn(held_by(holder, forever))
        };
        let waiting: Vec<_> = (0..SLOTS / 2).map(|_| wait(busy)).collect();
        while queue.slots.used_and_limit().0 < SLOTS / 2 * SLOT_BYTES {
            tokio::task::yield_now().await;
        }
        let run_as = |holder| held_by(holder, queue.run(async { Ok(()) }));
        assert!(matches!(run_as(busy).await, Err(StoreError::Timeout)));
        assert!(run_as(other).await.is_ok());
        assert!(queue.run(async { Ok(()) }).await.is_ok(), "a sender without a key");
        waiting[0].abort();
        assert!(run_as(busy).await.is_ok());
    }
}
