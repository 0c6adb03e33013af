//! A gateway's cache of catalog definitions, so that an edit needs no query.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Catalog, rows};
use crate::app::App;
use store::StoreError;

/// All catalogs of a workspace by name, so that unknown names need no query either.
pub type Catalogs = BTreeMap<String, Arc<Catalog>>;

/// The catalog with that name, if it exists.
pub async fn find(
    app: &App,
    workspace: i32,
    name: &str,
) -> Result<Option<Arc<Catalog>>, StoreError> {
    let catalogs = app.catalogs.get(workspace, read(app.clone(), workspace)).await?;
    Ok(catalogs.get(name).cloned())
}

/// Drops the cached catalogs, so that the next lookup sees the changes of a request.
pub fn evict(app: &App, workspace: i32) {
    app.catalogs.evict(workspace);
}

async fn read(app: App, workspace: i32) -> Result<Catalogs, StoreError> {
    let mut tx = app.store.snapshot().await?;
    let catalogs = rows::list(&mut tx, workspace).await?;
    tx.commit().await?;
    let by_name = |catalog: Catalog| (catalog.name.clone(), Arc::new(catalog));
    Ok(catalogs.into_iter().map(by_name).collect())
}
