//! The SQL of catalogs and items as people look through them: pages by key, with counts that stop
//! at a limit.

use std::collections::HashMap;

use sqlx::AssertSqlSafe;

use super::Catalog;
use super::rows::catalog;
use store::{StoreError, Tx, fetch_listed, from_row, on};

/// Counting the items of a catalog stops here.
pub const MAX_COUNTED: i64 = 1_000;

/// A catalog, and where its items come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedCatalog {
    pub catalog: Catalog,
    /// Whether the workspace file declares the catalog with a file of items.
    pub has_items_file: bool,
}

const COLUMNS: &str = "id, workspace_id, name, fields, items_hash IS NOT NULL";

type ListedColumns = (i32, i32, String, String, bool);

fn listed(
    (id, workspace, name, fields, has_items_file): ListedColumns,
) -> Result<ListedCatalog, StoreError> {
    let catalog = catalog((id, workspace, name, fields))?;
    Ok(ListedCatalog { catalog, has_items_file })
}

/// A page of a workspace's catalogs, in the order of their names: from this name on.
pub async fn catalogs_from(
    tx: &mut Tx,
    workspace: i32,
    from: &str,
    limit: i64,
) -> Result<Vec<ListedCatalog>, StoreError> {
    let sql = AssertSqlSafe(format!(
        "SELECT {COLUMNS} FROM catalogs
         WHERE workspace_id = $1 AND name >= $2 ORDER BY name LIMIT $3"
    ));
    on!(tx, c => sqlx::query_as::<_, ListedColumns>(sql)
        .bind(workspace).bind(from).bind(limit).fetch_all(c).await?)
    .into_iter()
    .map(listed)
    .collect()
}

/// The catalog of a workspace with that name.
pub async fn find_catalog(
    tx: &mut Tx,
    workspace: i32,
    name: &str,
) -> Result<Option<ListedCatalog>, StoreError> {
    let sql = AssertSqlSafe(format!(
        "SELECT {COLUMNS} FROM catalogs WHERE workspace_id = $1 AND name = $2"
    ));
    on!(tx, c => sqlx::query_as::<_, ListedColumns>(sql)
        .bind(workspace).bind(name).fetch_optional(c).await?)
    .map(listed)
    .transpose()
}

/// The number of items of each of these catalogs, by the catalog's id; [`MAX_COUNTED`] + 1 if there
/// are more than [`MAX_COUNTED`].
pub async fn count_items(tx: &mut Tx, catalogs: &[i32]) -> Result<HashMap<i32, i64>, StoreError> {
    let counted: Vec<(i32, i64)> = fetch_listed!(
        tx,
        query_as,
        plain(catalogs),
        "SELECT id, (SELECT count(*) FROM (SELECT 1 FROM catalog_items
                                           WHERE catalog_id = catalogs.id LIMIT $2) AS counted)
         FROM catalogs WHERE id",
        MAX_COUNTED + 1
    );
    Ok(counted.into_iter().collect())
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
/// `max_bytes` bytes are left out.
pub async fn items_from(
    tx: &mut Tx,
    catalog: i32,
    from: &str,
    max_bytes: i64,
    limit: i64,
) -> Result<Vec<ListedItem>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT item_id, CASE WHEN octet_length(doc) <= $3 THEN doc END AS doc FROM catalog_items
         WHERE catalog_id = $1 AND item_id >= $2 ORDER BY item_id LIMIT $4",
    )
    .bind(catalog).bind(from).bind(max_bytes).bind(limit).fetch_all(c).await?))
}
