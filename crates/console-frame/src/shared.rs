//! What open pages read together: an update shows what another update has just read, so the cost of
//! updates does not grow with the number of open pages.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use crate::page::Page;
use gateway::COMPANY;
use runtime::app::queue::held_by;
use runtime::fairness::Holder;
use store::StoreError;
use store::cache::{Cache, CacheSettings};

/// How long updates show what was read for one of them.
const MAX_AGE: Duration = Duration::from_secs(2);

/// Time limit of a read, and of the pages that wait for it.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads of one kind at the same time; the console has few connections.
const READS: usize = 2;

/// Values by key, each read once for all pages that need it at the same time.
pub struct Shared<K, V>(Arc<Cache<K, V>>);

impl<K, V> Shared<K, V>
where
    K: Copy + Debug + Eq + Hash + Send + 'static,
    V: Send + Sync + 'static,
{
    /// Keeps at most `capacity` values. `name` is for the log.
    pub fn new(name: &'static str, capacity: usize) -> Self {
        Self::with_max_age(name, capacity, MAX_AGE)
    }

    pub fn with_max_age(name: &'static str, capacity: usize, max_age: Duration) -> Self {
        Self(Cache::new(CacheSettings {
            name,
            refresh_after: max_age,
            wait_after: max_age,
            read_timeout: READ_TIMEOUT,
            max_age,
            give_up: READ_TIMEOUT,
            capacity,
            reads: READS,
            // A page reports the error, and an update leaves the page as it is.
            keep_on_error: |_| false,
        }))
    }

    /// The value for all pages.
    pub async fn get(
        &self,
        key: K,
        read: impl Future<Output = Result<V, StoreError>> + Send + 'static,
    ) -> Result<Arc<V>, StoreError> {
        // On the heap: such reads are large, and each function that passes them on would copy them.
        let read = Box::pin(held_by(Holder::Workspace(COMPANY), read));
        self.0.get(key, read).await.map_err(StoreError::Shared)
    }

    /// The value for a page: a new one if a person loads the page, because the person may have just
    /// changed it; the one of all pages for an update.
    pub async fn get_for(
        &self,
        page: &Page,
        key: K,
        read: impl Future<Output = Result<V, StoreError>> + Send + 'static,
    ) -> Result<Arc<V>, StoreError> {
        if page.is_update { self.get(key, read).await } else { Box::pin(read).await.map(Arc::new) }
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    #[tokio::test]
    async fn a_value_is_read_again_after_a_while() {
        let shared = Shared::new("number", 1);
        assert_eq!(*shared.get(1, ready(Ok(1))).await.unwrap(), 1);
        assert_eq!(*shared.get(1, ready(Ok(2))).await.unwrap(), 1);
        let shared = Shared::with_max_age("number", 1, Duration::ZERO);
        assert_eq!(*shared.get(1, ready(Ok(1))).await.unwrap(), 1);
        assert_eq!(*shared.get(1, ready(Ok(2))).await.unwrap(), 2);
        let down = ready(Err(StoreError::Timeout));
        assert!(shared.get(1, down).await.is_err());
    }
}
