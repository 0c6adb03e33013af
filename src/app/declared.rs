//! What a process keeps of what workspaces declare, so that a call and a message ask the store
//! for nothing.
//!
//! It is read again after [`KEPT_FOR`], by one call while the others go on with what is known;
//! while the store is away that goes on to count.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kit::retry::Retry as _;
use store::{StoreError, answered};

/// How long a process goes on with what was just changed, at most.
const KEPT_FOR: Duration = Duration::from_secs(5);

/// How long the store may take where something is known already, and how long the first of
/// all reads is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Workspaces of which it is kept.
const KEPT: usize = 1_000;

/// Workspaces that are read for the first time at once.
const TURNS: usize = 16;

/// One thing that workspaces declare, by workspace.
pub struct Declared<T> {
    by_workspace: Mutex<HashMap<i32, (Instant, Arc<T>)>>,
    /// Whose turn it is to read what is not known at all; workspaces share these.
    first: [tokio::sync::Mutex<()>; TURNS],
}

/// What is known of a workspace.
enum Known<T> {
    Nothing,
    Fresh(Arc<T>),
    /// To be read again by whoever is told so; the next one is told after another while.
    Due(Arc<T>),
}

impl<T: Send + Sync + 'static> Default for Declared<T> {
    fn default() -> Self {
        Self { by_workspace: Mutex::default(), first: Default::default() }
    }
}

impl<T: Send + Sync + 'static> Declared<T> {
    /// What `workspace` declares, which `read` reads from the store where that is due.
    pub async fn of(
        &self,
        workspace: i32,
        read: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<Arc<T>, StoreError> {
        match self.get(workspace, Instant::now()) {
            Known::Fresh(declared) => Ok(declared),
            Known::Nothing => self.first(workspace, read).await,
            Known::Due(old) => match answered(read, tokio::time::sleep(PATIENCE)).await {
                Ok(read) => Ok(self.put(workspace, Instant::now(), read)),
                // What a newer program declared must not be passed over.
                Err(error) if error.can_retry() && !error.needs_newer() => {
                    tracing::warn!(
                        %error, workspace,
                        "what is declared could not be read again: going on with what is known"
                    );
                    Ok(old)
                }
                Err(error) => Err(error),
            },
        }
    }

    /// Reads what is not known yet: one at a time, so that those who come together ask once.
    async fn first(
        &self,
        workspace: i32,
        read: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<Arc<T>, StoreError> {
        let turn = &self.first[workspace.unsigned_abs() as usize % TURNS];
        let turn = tokio::time::timeout(PATIENCE, turn.lock()).await;
        let _turn = turn.map_err(|_| StoreError::Silent)?;
        match self.get(workspace, Instant::now()) {
            Known::Fresh(declared) | Known::Due(declared) => Ok(declared),
            Known::Nothing => {
                let read = answered(read, tokio::time::sleep(PATIENCE)).await?;
                Ok(self.put(workspace, Instant::now(), read))
            }
        }
    }

    fn get(&self, workspace: i32, now: Instant) -> Known<T> {
        let mut known = self.by_workspace.lock().unwrap_or_else(PoisonError::into_inner);
        match known.get_mut(&workspace) {
            None => Known::Nothing,
            Some((since, declared)) if now.duration_since(*since) < KEPT_FOR => {
                Known::Fresh(declared.clone())
            }
            Some((since, declared)) => {
                *since = now;
                Known::Due(declared.clone())
            }
        }
    }

    fn put(&self, workspace: i32, now: Instant, declared: T) -> Arc<T> {
        let declared = Arc::new(declared);
        let mut known = self.by_workspace.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KEPT {
            known.retain(|_, (since, _)| now.duration_since(*since) < KEPT_FOR);
        }
        if known.len() >= KEPT
            && let Some((&oldest, _)) = known.iter().min_by_key(|(_, (since, _))| *since)
        {
            known.remove(&oldest);
        }
        known.insert(workspace, (now, declared.clone()));
        declared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_reads_again_while_the_others_go_on() {
        let (known, now) = (Declared::default(), Instant::now());
        assert!(matches!(known.get(1, now), Known::Nothing));
        known.put(1, now, "a");
        assert!(matches!(known.get(1, now + KEPT_FOR / 2), Known::Fresh(_)));
        assert!(matches!(known.get(2, now), Known::Nothing));
        assert!(matches!(known.get(1, now + KEPT_FOR), Known::Due(_)));
        assert!(matches!(known.get(1, now + KEPT_FOR), Known::Fresh(_)));
        assert!(matches!(known.get(1, now + KEPT_FOR * 2), Known::Due(_)));
    }
}
