//! A process's cache of workspaces' declarations, so that a request or a message needs no query.

use std::sync::Arc;
use std::time::Duration;

use kit::retry::Retry as _;
use store::StoreError;
use store::cache::{Cache, Rules};

const RULES: Rules = Rules {
    name: "declaration",
    fresh: Duration::from_secs(4),
    // A change takes effect after this time at most.
    confirmed: Duration::from_secs(5),
    read_timeout: Duration::from_secs(2),
    kept: Duration::MAX,
    give_up: Duration::from_secs(2),
    most: 1_000,
    reads: 16,
    // A newer program's declaration must not be ignored.
    survives: |error| error.can_retry() && !error.needs_newer(),
};

/// One kind of declaration, by workspace.
pub struct Declared<T>(Arc<Cache<i32, T>>);

impl<T: Send + Sync + 'static> Default for Declared<T> {
    fn default() -> Self {
        Self(Cache::new(RULES))
    }
}

impl<T: Send + Sync + 'static> Declared<T> {
    /// Has the next look read what `workspace` declares: it was changed here.
    pub fn forget(&self, workspace: i32) {
        self.0.forget(&workspace);
    }

    /// The declaration of `workspace`, which `read` reads from the store if it is missing or too
    /// old.
    pub async fn of(
        &self,
        workspace: i32,
        read: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<Arc<T>, StoreError> {
        self.0.get(workspace, read).await.map_err(StoreError::Shared)
    }
}
