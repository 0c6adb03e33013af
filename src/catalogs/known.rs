//! The definitions that a gateway keeps, so that an edit asks the store for nothing.
//!
//! All catalogs of a workspace are kept together: names that it does not have cost no look
//! into the store either. They are read again after [`KEPT_FOR`], by one call while the others
//! go on with what is known; while the store is away that goes on to count.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Catalog, rows};
use crate::app::App;
use crate::retry::Retry as _;
use crate::store::{StoreError, answered};

/// How long a process goes on with definitions that were just changed, at most.
const KEPT_FOR: Duration = Duration::from_secs(5);

/// How long the store may take where something is known already.
const PATIENCE: Duration = Duration::from_secs(2);

/// Workspaces whose catalogs are kept.
const KEPT: usize = 1_000;

type Catalogs = Arc<BTreeMap<String, Arc<Catalog>>>;

/// The catalogs that this process knows, by workspace.
#[derive(Default)]
pub struct KnownCatalogs(Mutex<HashMap<i32, (Instant, Catalogs)>>);

/// What is known of a workspace.
enum Known {
    Nothing,
    Fresh(Catalogs),
    /// To be read again by whoever is told so; the next one is told after another while.
    Due(Catalogs),
}

/// The catalog of that name, if the workspace has one.
pub async fn find(
    app: &App,
    workspace: i32,
    name: &str,
) -> Result<Option<Arc<Catalog>>, StoreError> {
    let known = &app.kept.catalogs;
    let catalogs = match known.get(workspace, Instant::now()) {
        Known::Fresh(catalogs) => catalogs,
        Known::Nothing => {
            let read = read(app, workspace).await?;
            known.put(workspace, Instant::now(), read)
        }
        Known::Due(old) => {
            let (owned, patience) = (app.clone(), tokio::time::sleep(PATIENCE));
            match answered(async move { read(&owned, workspace).await }, patience).await {
                Ok(read) => known.put(workspace, Instant::now(), read),
                Err(error) if error.can_retry() => {
                    tracing::warn!(%error, "catalogs could not be read again: going on with them");
                    old
                }
                Err(error) => return Err(error),
            }
        }
    };
    Ok(catalogs.get(name).cloned())
}

async fn read(app: &App, workspace: i32) -> Result<Catalogs, StoreError> {
    let mut tx = app.store.snapshot().await?;
    let catalogs = rows::of_workspace(&mut tx, workspace).await?;
    tx.commit().await?;
    let by_name = |catalog: Catalog| (catalog.name.clone(), Arc::new(catalog));
    Ok(Arc::new(catalogs.into_iter().map(by_name).collect()))
}

impl KnownCatalogs {
    fn get(&self, workspace: i32, now: Instant) -> Known {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match known.get_mut(&workspace) {
            None => Known::Nothing,
            Some((since, catalogs)) if now.duration_since(*since) < KEPT_FOR => {
                Known::Fresh(catalogs.clone())
            }
            Some((since, catalogs)) => {
                *since = now;
                Known::Due(catalogs.clone())
            }
        }
    }

    fn put(&self, workspace: i32, now: Instant, catalogs: Catalogs) -> Catalogs {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KEPT {
            known.retain(|_, (since, _)| now.duration_since(*since) < KEPT_FOR);
        }
        if known.len() >= KEPT {
            known.clear();
        }
        known.insert(workspace, (now, catalogs.clone()));
        catalogs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_reads_again_while_the_others_go_on() {
        let (known, now) = (KnownCatalogs::default(), Instant::now());
        assert!(matches!(known.get(1, now), Known::Nothing));
        known.put(1, now, Catalogs::default());
        assert!(matches!(known.get(1, now + KEPT_FOR / 2), Known::Fresh(_)));
        assert!(matches!(known.get(2, now), Known::Nothing));
        assert!(matches!(known.get(1, now + KEPT_FOR), Known::Due(_)));
        assert!(matches!(known.get(1, now + KEPT_FOR), Known::Fresh(_)));
        assert!(matches!(known.get(1, now + KEPT_FOR * 2), Known::Due(_)));
    }
}
