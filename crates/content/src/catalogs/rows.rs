//! The SQL of catalogs, in bulk: one statement per kind, whatever the number of rows.
//!
//! Applying edits takes a shared lock on the catalogs, declaring them takes an exclusive one, so
//! that no catalog changes during an edit. The item's version detects conflicting edits.

use futures::TryStreamExt as _;
use sqlx::QueryBuilder;

use super::items::ItemDocument;
use super::{Catalog, Field};
use store::documents::parsed;
use store::retention::OldRows;
use store::{
    ByteBudget, StoreError, Tx, execute, fetch_listed, from_row, insert_rows, old_rows, on, to_json,
};

/// The class of the catalogs' advisory locks in PostgreSQL; the other part is the id. Advisory
/// locks are granted in the order of their requests; a shared row lock is granted immediately if
/// others share it, so that an exclusive request could wait forever.
const LOCK_CLASS: i32 = 0x6361_7461;

// Catalogs -----------------------------------------------------------------------------

/// A catalog, and its loaded items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredCatalog {
    pub catalog: Catalog,
    /// Hash of the last loaded file.
    pub items_hash: Option<Vec<u8>>,
    pub items: i64,
    /// How many of the items are missing in the last loaded file.
    pub stale_items: i64,
}

pub(super) type CatalogColumns = (i32, i32, String, String);

pub(super) fn catalog(
    (id, workspace, name, fields): CatalogColumns,
) -> Result<Catalog, StoreError> {
    let fields: Vec<Field> = parsed("catalogs.fields", id, &fields)?;
    Ok(Catalog { id, workspace, name, fields: fields.into() })
}

/// The catalogs of a workspace, by name.
pub async fn list(tx: &mut Tx, workspace: i32) -> Result<Vec<Catalog>, StoreError> {
    on!(tx, c => sqlx::query_as::<_, CatalogColumns>(
        "SELECT id, workspace_id, name, fields FROM catalogs WHERE workspace_id = $1 ORDER BY name",
    )
    .bind(workspace).fetch_all(c).await?)
    .into_iter()
    .map(catalog)
    .collect()
}

/// The catalogs of a workspace, by name, each with the number of its items.
pub async fn counted(tx: &mut Tx, workspace: i32) -> Result<Vec<(Catalog, i64)>, StoreError> {
    on!(tx, c => sqlx::query_as::<_, (i32, String, String, i64)>(
        "SELECT id, name, fields,
                (SELECT count(*) FROM catalog_items WHERE catalog_id = catalogs.id)
         FROM catalogs WHERE workspace_id = $1 ORDER BY name",
    )
    .bind(workspace).fetch_all(c).await?)
    .into_iter()
    .map(|(id, name, fields, items)| Ok((catalog((id, workspace, name, fields))?, items)))
    .collect()
}

/// The catalogs of a workspace, by name, with their loaded items.
pub async fn stored(tx: &mut Tx, workspace: i32) -> Result<Vec<StoredCatalog>, StoreError> {
    on!(tx, c => sqlx::query_as::<_, (i32, String, String, Option<Vec<u8>>, i64, i64)>(
        "SELECT id, name, fields, items_hash,
                (SELECT count(*) FROM catalog_items WHERE catalog_id = catalogs.id),
                (SELECT count(*) FROM catalog_items
                 WHERE catalog_id = catalogs.id AND load <> catalogs.load)
         FROM catalogs WHERE workspace_id = $1 ORDER BY name",
    )
    .bind(workspace).fetch_all(c).await?)
    .into_iter()
    .map(|(id, name, fields, items_hash, items, stale_items)| {
        let catalog = catalog((id, workspace, name, fields))?;
        Ok(StoredCatalog { catalog, items_hash, items, stale_items })
    })
    .collect()
}

/// The ids of the catalogs of a workspace, and their names.
pub async fn names(tx: &mut Tx, workspace: i32) -> Result<Vec<(i32, String)>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as("SELECT id, name FROM catalogs WHERE workspace_id = $1")
        .bind(workspace).fetch_all(c).await?))
}

/// The number of catalogs of a workspace.
pub async fn count(tx: &mut Tx, workspace: i32) -> Result<i64, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar("SELECT count(*) FROM catalogs WHERE workspace_id = $1")
        .bind(workspace).fetch_one(c).await?))
}

/// Blocks edits of the given catalogs (in the order of their ids) until the end of this
/// transaction.
pub async fn lock(tx: &mut Tx, ids: &[i32]) -> Result<(), StoreError> {
    const LOCK: &str = "SELECT pg_advisory_xact_lock($1, id) FROM unnest($2::integer[]) AS c (id)";
    take_locks(tx, LOCK, ids).await
}

/// Returns those of the given catalogs (in the order of their ids) that exist. They cannot be
/// declared again before the end of the transaction.
pub async fn share(tx: &mut Tx, ids: &[i32]) -> Result<Vec<Catalog>, StoreError> {
    const LOCK: &str =
        "SELECT pg_advisory_xact_lock_shared($1, id) FROM unnest($2::integer[]) AS c (id)";
    take_locks(tx, LOCK, ids).await?;
    let rows: Vec<CatalogColumns> = fetch_listed!(
        tx,
        query_as,
        plain(ids),
        "SELECT id, workspace_id, name, fields FROM catalogs WHERE id"
    );
    rows.into_iter().map(catalog).collect()
}

/// The catalogs of a workspace with these names, each with when it was created.
pub async fn named(
    tx: &mut Tx,
    workspace: i32,
    names: &[&str],
) -> Result<Vec<(i32, String, i64)>, StoreError> {
    Ok(fetch_listed!(
        tx,
        query_as,
        plain(names),
        "SELECT id, name, created_at FROM catalogs WHERE workspace_id = $2 AND name",
        workspace
    ))
}

/// Takes locks one after the other. SQLite has one writer at a time, and needs no locks.
async fn take_locks(tx: &mut Tx, sql: &'static str, ids: &[i32]) -> Result<(), StoreError> {
    if let Tx::Postgres(tx) = tx {
        sqlx::query(sql).bind(LOCK_CLASS).bind(ids).execute(&mut **tx).await?;
    }
    Ok(())
}

/// Creates a catalog; returns its id.
pub async fn insert(
    tx: &mut Tx,
    workspace: i32,
    name: &str,
    fields: &[Field],
    now: i64,
) -> Result<i32, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "INSERT INTO catalogs (workspace_id, name, fields, created_at)
         VALUES ($1, $2, $3, $4) RETURNING id",
    )
    .bind(workspace).bind(name).bind(to_json(&fields)?).bind(now).fetch_one(c).await?))
}

pub async fn set_fields(tx: &mut Tx, id: i32, fields: &[Field]) -> Result<(), StoreError> {
    let fields = to_json(&fields)?;
    execute!(
        tx,
        sqlx::query("UPDATE catalogs SET fields = $2 WHERE id = $1").bind(id).bind(fields)
    );
    Ok(())
}

/// Deletes a catalog. Its items and the records of its edits, possibly millions, are deleted later.
pub async fn delete(tx: &mut Tx, id: i32) -> Result<(), StoreError> {
    execute!(tx, sqlx::query("DELETE FROM catalogs WHERE id = $1").bind(id));
    Ok(())
}

// Items --------------------------------------------------------------------------------

/// An item as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredItem {
    pub catalog_id: i32,
    pub item_id: String,
    /// The last load of its catalog that included it.
    pub load: i32,
    /// Number of its changes.
    pub version: i64,
    /// Its values, a JSON object.
    pub doc: String,
}
from_row! { StoredItem { catalog_id, item_id, load, version, doc } }

/// An item without its document if there is no room for it.
type Found = (i32, String, i32, i64, Option<String>);

/// Returns those of the given items (by catalog and id) that exist, if there is room for their
/// documents.
pub async fn find_items(
    tx: &mut Tx,
    keys: &[(i32, &str)],
    budget: &mut ByteBudget,
) -> Result<Vec<StoredItem>, StoreError> {
    // The limit forces an index lookup for each item. The total size is known without reading the
    // documents.
    const POSTGRES: &str = "SELECT found.catalog_id, found.item_id, found.load, found.version,
             CASE WHEN sum(octet_length(found.doc)) OVER () <= $3 THEN found.doc END
         FROM unnest($1::integer[], $2::text[]) AS wanted (catalog_id, item_id)
         CROSS JOIN LATERAL (
             SELECT catalog_id, item_id, load, version, doc FROM catalog_items
             WHERE catalog_id = wanted.catalog_id AND item_id = wanted.item_id
             LIMIT 1) AS found";
    // SQLite reads the items one by one.
    const SQLITE: &str =
        "SELECT items.catalog_id, items.item_id, items.load, items.version, items.doc
         FROM json_each($1) AS wanted CROSS JOIN catalog_items AS items
         WHERE items.catalog_id = wanted.value ->> 0
           AND items.item_id = wanted.value ->> 1";
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let mut items = Vec::with_capacity(keys.len());
    let max_bytes = i64::try_from(budget.remaining()).unwrap_or(i64::MAX);
    let mut take = |(catalog_id, item_id, load, version, doc): Found| {
        let doc = doc.ok_or(StoreError::TooLarge)?;
        budget.take(doc.len())?;
        items.push(StoredItem { catalog_id, item_id, load, version, doc });
        Ok::<_, StoreError>(())
    };
    match tx {
        Tx::Postgres(tx) => {
            let (catalogs, ids): (Vec<i32>, Vec<&str>) = keys.iter().copied().unzip();
            let query = sqlx::query_as::<_, Found>(POSTGRES).bind(catalogs).bind(ids);
            let mut rows = query.bind(max_bytes).fetch(&mut **tx);
            while let Some(row) = rows.try_next().await? {
                take(row)?;
            }
        }
        Tx::Sqlite(tx) => {
            let keys = to_json(&keys)?;
            let mut rows = sqlx::query_as::<_, Found>(SQLITE).bind(keys).fetch(&mut **tx);
            while let Some(row) = rows.try_next().await? {
                take(row)?;
            }
        }
    }
    Ok(items)
}

/// Writes items that had the previous version, in the order of their keys; returns how many. Skips
/// items that another transaction has changed since.
pub async fn update_items(tx: &mut Tx, items: &[StoredItem]) -> Result<u64, StoreError> {
    // An insert uses only the index; for an update of some items the planner would scan the whole
    // table.
    const ON_CONFLICT: &str = "ON CONFLICT (catalog_id, item_id) DO UPDATE SET
             doc = excluded.doc, version = excluded.version
         WHERE catalog_items.version = excluded.version - 1";
    write_items(tx, items, ON_CONFLICT).await
}

/// Deletes an item in the version that was read. Returns false if another writer has changed it
/// since.
pub async fn delete_item(tx: &mut Tx, item: &StoredItem) -> Result<bool, StoreError> {
    const DELETE: &str = "DELETE FROM catalog_items
         WHERE catalog_id = $1 AND item_id = $2 AND version = $3";
    Ok(execute!(
        tx,
        sqlx::query(DELETE).bind(item.catalog_id).bind(&item.item_id).bind(item.version)
    ) == 1)
}

/// A load replaces existing items completely.
const ON_LOAD: &str = "ON CONFLICT (catalog_id, item_id) DO UPDATE SET
         doc = excluded.doc, load = excluded.load, version = catalog_items.version + 1";

/// Writes the items of a load, in the order of their keys.
pub async fn load_items(tx: &mut Tx, items: &[StoredItem]) -> Result<(), StoreError> {
    write_items(tx, items, ON_LOAD).await.map(|_| ())
}

async fn write_items(
    tx: &mut Tx,
    items: &[StoredItem],
    on_conflict: &'static str,
) -> Result<u64, StoreError> {
    Ok(insert_rows!(tx, "catalog_items", items, |item| {
        catalog_id: item.catalog_id,
        item_id: item.item_id.as_str(),
        load: item.load,
        version: item.version,
        doc: item.doc.as_str(),
    }, on_conflict))
}

/// Starts a load; returns its number.
pub async fn begin_load(
    tx: &mut Tx,
    id: i32,
    items_hash: Option<&[u8]>,
) -> Result<i32, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "UPDATE catalogs SET load = load + 1, items_hash = $2 WHERE id = $1 RETURNING load",
    )
    .bind(id).bind(items_hash).fetch_one(c).await?))
}

/// Creates a temporary table for the items of files, so that reading them blocks no other
/// transaction. For PostgreSQL; SQLite's only writer blocks others anyway.
pub async fn begin_staging(tx: &mut Tx) -> Result<(), StoreError> {
    const CREATE: &str = "CREATE TEMPORARY TABLE staged_items (
             catalog TEXT NOT NULL, item_id TEXT COLLATE \"C\" NOT NULL, doc TEXT NOT NULL)
         ON COMMIT DROP";
    execute!(tx, sqlx::query(CREATE));
    Ok(())
}

/// Stages items of a catalog's file, by id and document.
pub async fn stage_items(
    tx: &mut Tx,
    catalog: &str,
    items: &[ItemDocument],
) -> Result<(), StoreError> {
    const INSERT: &str = "INSERT INTO staged_items (catalog, item_id, doc)
         SELECT $1, item.* FROM unnest($2::text[], $3::text[]) AS item";
    if let Tx::Postgres(tx) = tx {
        let (ids, docs): (Vec<&str>, Vec<&str>) =
            items.iter().map(|item| (item.id.as_str(), item.doc.as_str())).unzip();
        sqlx::query(INSERT).bind(catalog).bind(ids).bind(docs).execute(&mut **tx).await?;
    }
    Ok(())
}

/// Indexes the staged items by catalog.
pub async fn end_staging(tx: &mut Tx) -> Result<(), StoreError> {
    execute!(tx, sqlx::query("CREATE INDEX ON staged_items (catalog, item_id)"));
    Ok(())
}

/// Writes the staged items of a load, like [`load_items`].
pub async fn load_staged(tx: &mut Tx, id: i32, catalog: &str, load: i32) -> Result<(), StoreError> {
    let mut sql =
        QueryBuilder::new("INSERT INTO catalog_items (catalog_id, item_id, load, version, doc) ");
    sql.push("SELECT ").push_bind(id).push(", item_id, ").push_bind(load);
    sql.push(", 0, doc FROM staged_items WHERE catalog = ").push_bind(catalog);
    sql.push(" ORDER BY item_id ").push(ON_LOAD);
    if let Tx::Postgres(tx) = tx {
        sql.build().execute(&mut **tx).await?;
    }
    Ok(())
}

/// Deletes the items that the last load did not include.
pub async fn delete_stale_items(tx: &mut Tx, id: i32) -> Result<u64, StoreError> {
    Ok(execute!(
        tx,
        sqlx::query(
            "DELETE FROM catalog_items WHERE catalog_id = $1
               AND load <> (SELECT load FROM catalogs WHERE id = $1)",
        )
        .bind(id)
    ))
}

/// Items of a catalog in the order of their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemPage {
    pub items: Vec<StoredItem>,
    pub has_more: bool,
}

/// Maximum bytes of a page's documents, except for one larger item alone.
const MAX_PAGE_BYTES: usize = 4 << 20;

/// A page of at most `limit` items after an id; fewer if their documents are large.
pub async fn items_after(
    tx: &mut Tx,
    catalog: i32,
    after: &str,
    limit: i64,
) -> Result<ItemPage, StoreError> {
    // PostgreSQL knows the sizes without reading the documents.
    const POSTGRES: &str = "SELECT catalog_id, item_id, load, version,
             CASE WHEN bytes - octet_length(doc) < $4 THEN doc END
         FROM (SELECT catalog_id, item_id, load, version, doc,
                      sum(octet_length(doc)) OVER (ORDER BY item_id) AS bytes
               FROM (SELECT catalog_id, item_id, load, version, doc FROM catalog_items
                     WHERE catalog_id = $1 AND item_id > $2
                     ORDER BY item_id LIMIT $3) AS page) AS page
         ORDER BY item_id";
    // SQLite reads the items one by one.
    const SQLITE: &str = "SELECT catalog_id, item_id, load, version, doc FROM catalog_items
         WHERE catalog_id = $1 AND item_id > $2 ORDER BY item_id LIMIT $3";
    let (mut page, mut bytes) = (ItemPage::default(), 0);
    // Whether the page continues.
    let mut add = |(catalog_id, item_id, load, version, doc): Found| {
        let is_full = page.items.len() as i64 == limit || bytes >= MAX_PAGE_BYTES;
        let Some(doc) = doc.filter(|_| !is_full) else {
            page.has_more = true;
            return false;
        };
        bytes += doc.len();
        page.items.push(StoredItem { catalog_id, item_id, load, version, doc });
        true
    };
    match tx {
        Tx::Postgres(tx) => {
            let query = sqlx::query_as::<_, Found>(POSTGRES).bind(catalog).bind(after);
            let found = query.bind(limit + 1).bind(MAX_PAGE_BYTES as i64).fetch_all(&mut **tx);
            let _is_whole = found.await?.into_iter().all(add);
        }
        Tx::Sqlite(tx) => {
            let query = sqlx::query_as::<_, Found>(SQLITE).bind(catalog).bind(after);
            let mut rows = query.bind(limit + 1).fetch(&mut **tx);
            while let Some(row) = rows.try_next().await? {
                if !add(row) {
                    break;
                }
            }
        }
    }
    Ok(page)
}

// Edits --------------------------------------------------------------------------------

/// The outcome for the items of one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditRow {
    pub catalog_id: i32,
    pub request_id: String,
    pub received_at: i64,
    pub applied: i32,
    /// Number of unknown items.
    pub unknown: i32,
    /// The ids of the first unknown items, as a JSON array.
    pub unknown_ids: String,
    pub applied_at: i64,
}
from_row! {
    EditRow {
        catalog_id, request_id, received_at, applied, unknown, unknown_ids, applied_at,
    }
}

pub async fn insert_edits(tx: &mut Tx, edits: &[EditRow]) -> Result<(), StoreError> {
    insert_rows!(tx, "catalog_edits", edits, |edit| {
        catalog_id: edit.catalog_id,
        request_id: edit.request_id.as_str(),
        received_at: edit.received_at,
        applied: edit.applied,
        unknown: edit.unknown,
        unknown_ids: edit.unknown_ids.as_str(),
        applied_at: edit.applied_at,
    }, "");
    Ok(())
}

/// The latest records of a catalog, newest first; only those after the request `after` in this
/// order. The records of a request are adjacent.
pub async fn latest_edits(
    tx: &mut Tx,
    catalog: i32,
    after: Option<&str>,
    limit: i64,
) -> Result<Vec<EditRow>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT catalog_id, request_id, received_at, applied, unknown, unknown_ids, applied_at
         FROM catalog_edits
         WHERE catalog_id = $1
           AND ($2 IS NULL OR (received_at, request_id)
                              < ((SELECT min(received_at) FROM catalog_edits
                                  WHERE catalog_id = $1 AND request_id = $2), $2))
         ORDER BY received_at DESC, request_id DESC LIMIT $3",
    )
    .bind(catalog).bind(after).bind(limit).fetch_all(c).await?))
}

/// The ids of all catalogs.
pub async fn ids(tx: &mut Tx) -> Result<Vec<i32>, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar("SELECT id FROM catalogs ORDER BY id").fetch_all(c).await?))
}

/// The ids of the catalogs with records of edits; some may be deleted.
pub async fn edited(tx: &mut Tx) -> Result<Vec<i32>, StoreError> {
    // An index lookup for each catalog, instead of a scan of every record.
    Ok(on!(tx, c => sqlx::query_scalar(
        "WITH RECURSIVE edited (id) AS (
             SELECT min(catalog_id) FROM catalog_edits
             UNION ALL
             SELECT (SELECT min(catalog_id) FROM catalog_edits WHERE catalog_id > edited.id)
             FROM edited WHERE edited.id IS NOT NULL)
         SELECT id FROM edited WHERE id IS NOT NULL",
    )
    .fetch_all(c).await?))
}

/// The ids of the catalogs with items; some may be deleted.
pub async fn filled(tx: &mut Tx) -> Result<Vec<i32>, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "WITH RECURSIVE filled (id) AS (
             SELECT min(catalog_id) FROM catalog_items
             UNION ALL
             SELECT (SELECT min(catalog_id) FROM catalog_items WHERE catalog_id > filled.id)
             FROM filled WHERE filled.id IS NOT NULL)
         SELECT id FROM filled WHERE id IS NOT NULL",
    )
    .fetch_all(c).await?))
}

/// Items of a catalog.
pub const ITEMS: OldRows = old_rows!("catalog_items", "catalog_id = $1", 10_000);

/// Records of a catalog's edits that were received before a time.
pub const OLD_EDITS: OldRows =
    old_rows!("catalog_edits", "catalog_id = $1 AND received_at < $2", 10_000);
