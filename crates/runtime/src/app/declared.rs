//! A process's cache of workspaces' declarations, so that a request or a message needs no query.

use std::sync::Arc;
use std::time::Duration;

use futures::TryFutureExt as _;

use kit::retry::Retry as _;
use store::StoreError;
use store::cache::{Cache, CacheSettings};

const RULES: CacheSettings = CacheSettings {
    name: "declaration",
    refresh_after: Duration::from_secs(4),
    // A change takes effect after this time at most.
    wait_after: Duration::from_secs(5),
    read_timeout: Duration::from_secs(2),
    max_age: Duration::MAX,
    give_up: Duration::from_secs(2),
    capacity: 1_000,
    reads: 16,
    // A newer program's declaration must not be ignored.
    keep_on_error: |error| error.can_retry() && !error.needs_newer_version(),
};

/// One kind of declaration, by workspace.
pub struct WorkspaceCache<T>(Arc<Cache<i32, T>>);

impl<T: Send + Sync + 'static> Default for WorkspaceCache<T> {
    fn default() -> Self {
        Self(Cache::new(RULES))
    }
}

impl<T: Send + Sync + 'static> WorkspaceCache<T> {
    /// Makes the next lookup read the declaration of `workspace` from the store, because it was
    /// changed here.
    pub fn evict(&self, workspace: i32) {
        self.0.evict(&workspace);
    }

    /// The declaration of `workspace`, which `read` reads from the store if it is missing or too
    /// old.
    pub fn get<R>(
        &self,
        workspace: i32,
        read: R,
    ) -> impl Future<Output = Result<Arc<T>, StoreError>>
    where
        R: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        self.0.get(workspace, read).map_err(StoreError::Shared)
    }
}
