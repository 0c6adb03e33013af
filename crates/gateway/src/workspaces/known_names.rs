//! The names of workspaces in requests without a key.

use std::collections::HashMap;
use std::sync::Arc;

use crate::ApiError;
use crate::app::App;
use runtime::credentials::FindError;
use runtime::credentials::listing::CachedList;

/// The ids of workspaces by name; neither ever changes.
#[derive(Default)]
pub struct KnownNames(CachedList<HashMap<String, i32>>);

impl KnownNames {
    pub async fn find(&self, app: &App, name: &str) -> Result<Option<i32>, ApiError> {
        if let Some(id) = self.0.latest().and_then(|ids| ids.get(name).copied()) {
            return Ok(Some(id));
        }
        Ok(self.read(app).await?.get(name).copied())
    }

    /// Reads the ids from the store.
    pub async fn read(&self, app: &App) -> Result<Arc<HashMap<String, i32>>, FindError> {
        let store = app.store.clone();
        let ids = self.0.refresh(async move {
            let mut tx = store.snapshot().await?;
            let ids = super::ids(&mut tx).await?;
            tx.commit().await?;
            Ok(ids)
        });
        ids.await
    }
}
