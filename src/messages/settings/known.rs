//! The settings that a process keeps, so that a message asks the store for nothing.
//!
//! They are read again after [`KEPT_FOR`], by one call while the others go on with what is
//! known; while the store is away that goes on to count.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Settings;
use crate::app::App;
use crate::retry::Retry as _;
use crate::store::{StoreError, answered};
use crate::workspaces;

/// How long a process goes on with settings that were just changed, at most.
const KEPT_FOR: Duration = Duration::from_secs(5);

/// How long the store may take where something is known already, and how long the first of
/// all reads is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Workspaces whose settings are kept.
const KEPT: usize = 1_000;

/// The settings that this process knows, by workspace.
#[derive(Default)]
pub struct KnownSettings {
    by_workspace: Mutex<HashMap<i32, (Instant, Arc<Settings>)>>,
    /// Whose turn it is to read what is not known at all.
    first: tokio::sync::Mutex<()>,
}

/// What is known of a workspace.
enum Known {
    Nothing,
    Fresh(Arc<Settings>),
    /// To be read again by whoever is told so; the next one is told after another while.
    Due(Arc<Settings>),
}

/// What a workspace sends by; nothing at all where there is no such workspace.
pub async fn of(app: &App, workspace: i32) -> Result<Arc<Settings>, StoreError> {
    let known = &app.kept.settings;
    match known.get(workspace, Instant::now()) {
        Known::Fresh(settings) => Ok(settings),
        Known::Nothing => first(app, workspace).await,
        Known::Due(old) => {
            let (owned, patience) = (app.clone(), tokio::time::sleep(PATIENCE));
            match answered(async move { read(&owned, workspace).await }, patience).await {
                Ok(read) => Ok(known.put(workspace, Instant::now(), read)),
                Err(error) if error.can_retry() => {
                    tracing::warn!(%error, "channels could not be read again: going on with them");
                    Ok(old)
                }
                Err(error) => Err(error),
            }
        }
    }
}

/// Reads what is not known yet: one at a time, so that those who come together ask once.
async fn first(app: &App, workspace: i32) -> Result<Arc<Settings>, StoreError> {
    let known = &app.kept.settings;
    let turn = tokio::time::timeout(PATIENCE, known.first.lock()).await;
    let _turn = turn.map_err(|_| StoreError::Silent)?;
    match known.get(workspace, Instant::now()) {
        Known::Fresh(settings) | Known::Due(settings) => Ok(settings),
        Known::Nothing => {
            let read = read(app, workspace).await?;
            Ok(known.put(workspace, Instant::now(), read))
        }
    }
}

async fn read(app: &App, workspace: i32) -> Result<Arc<Settings>, StoreError> {
    let mut tx = app.store.snapshot().await?;
    let (secrets, config) = (&app.secrets, &app.config);
    let settings = workspaces::channels::settings(&mut tx, secrets, config, workspace).await?;
    tx.commit().await?;
    Ok(Arc::new(settings))
}

impl KnownSettings {
    fn get(&self, workspace: i32, now: Instant) -> Known {
        let mut known = self.by_workspace.lock().unwrap_or_else(PoisonError::into_inner);
        match known.get_mut(&workspace) {
            None => Known::Nothing,
            Some((since, settings)) if now.duration_since(*since) < KEPT_FOR => {
                Known::Fresh(settings.clone())
            }
            Some((since, settings)) => {
                *since = now;
                Known::Due(settings.clone())
            }
        }
    }

    fn put(&self, workspace: i32, now: Instant, settings: Arc<Settings>) -> Arc<Settings> {
        let mut known = self.by_workspace.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KEPT {
            known.retain(|_, (since, _)| now.duration_since(*since) < KEPT_FOR);
        }
        if known.len() >= KEPT {
            known.clear();
        }
        known.insert(workspace, (now, settings.clone()));
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_reads_again_while_the_others_go_on() {
        let (known, now) = (KnownSettings::default(), Instant::now());
        assert!(matches!(known.get(1, now), Known::Nothing));
        known.put(1, now, Arc::default());
        assert!(matches!(known.get(1, now + KEPT_FOR / 2), Known::Fresh(_)));
        assert!(matches!(known.get(2, now), Known::Nothing));
        assert!(matches!(known.get(1, now + KEPT_FOR), Known::Due(_)));
        assert!(matches!(known.get(1, now + KEPT_FOR), Known::Fresh(_)));
        assert!(matches!(known.get(1, now + KEPT_FOR * 2), Known::Due(_)));
    }
}
