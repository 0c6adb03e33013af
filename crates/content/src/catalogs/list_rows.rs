//! The SQL of catalogs and items as people look through them: pages by key, with counts that stop at
//! a limit.

use super::Catalog;
use super::rows::catalog;
use store::{StoreError, Tx, from_row, on};

/// Counting the items of a catalog stops here.
pub const MAX_COUNTED: i64 = 10_000;

/// A catalog, and what a list shows about its items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedCatalog {
    pub catalog: Catalog,
    /// Whether the workspace file declares the catalog with a file of items.
    pub has_items_file: bool,
    /// Number of items; [`MAX_COUNTED`] + 1 if there are more than that.
    pub items: i64,
}

/// A page of a workspace's catalogs, in the order of their names: from this name on.
pub async fn catalogs_from(
    tx: &mut Tx,
    workspace: i32,
    from: &str,
    limit: i64,
) -> Result<Vec<ListedCatalog>, StoreError> {
    on!(tx, c => sqlx::query_as::<_, (i32, String, String, bool, i64)>(
        "SELECT id, name, fields, items_hash IS NOT NULL,
                (SELECT count(*) FROM (SELECT 1 FROM catalog_items
                                       WHERE catalog_id = catalogs.id LIMIT $4) AS counted)
         FROM catalogs WHERE workspace_id = $1 AND name >= $2 ORDER BY name LIMIT $3",
    )
    .bind(workspace).bind(from).bind(limit).bind(MAX_COUNTED + 1).fetch_all(c).await?)
    .into_iter()
    .map(|(id, name, fields, has_items_file, items)| {
        let catalog = catalog((id, workspace, name, fields))?;
        Ok(ListedCatalog { catalog, has_items_file, items })
    })
    .collect()
}

/// The catalog of a workspace with that name.
pub async fn find_catalog(
    tx: &mut Tx,
    workspace: i32,
    name: &str,
) -> Result<Option<ListedCatalog>, StoreError> {
    let found = catalogs_from(tx, workspace, name, 1).await?.pop();
    Ok(found.filter(|found| found.catalog.name == name))
}

/// An item in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedItem {
    pub item_id: String,
    /// Its values, a JSON object; none if it is too long for the list.
    pub doc: Option<String>,
}
from_row! { ListedItem { item_id, doc } }

/// A page of a catalog's items, in the order of their ids: from this id on. Documents of more than
/// `max_chars` characters are left out.
pub async fn items_from(
    tx: &mut Tx,
    catalog: i32,
    from: &str,
    max_chars: i64,
    limit: i64,
) -> Result<Vec<ListedItem>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT item_id, CASE WHEN length(doc) <= $3 THEN doc END AS doc FROM catalog_items
         WHERE catalog_id = $1 AND item_id >= $2 ORDER BY item_id LIMIT $4",
    )
    .bind(catalog).bind(from).bind(max_chars).bind(limit).fetch_all(c).await?))
}
