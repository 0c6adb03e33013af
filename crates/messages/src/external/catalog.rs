//! Items of the workspace's own catalogs.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use serde_json::json;
use template::{Answer, Request, Stop};

use super::{External, RenderError};
use content::catalogs::{ID, Type, known, rows};
use gateway::workspaces::template_data::CatalogSelection;
use kit::json::{Tree, TreeObject};
use runtime::cache::{Cache, Key};
use store::{ByteBudget, StoreError};

/// How long items and selections are cached.
const ITEMS_AGE: Duration = Duration::from_secs(5);
const SELECTION_AGE: Duration = Duration::from_secs(60);

/// Maximum bytes of the items of one request.
const MAX_BYTES: usize = 4 << 20;

/// Maximum bytes of the first items of a selection while it is read: later ones may be smaller.
const MAX_SORTED: usize = 4 * MAX_BYTES;

/// Maximum number of items that a selection scans.
const MAX_SCANNED: usize = 100_000;

/// Number of items that are read at a time.
const PAGE_ITEMS: i64 = 500;

type Found = Result<Arc<Answer>, RenderError>;

/// This process's cache of catalog reads.
#[derive(Default)]
pub struct CatalogReads(Cache<CacheKey, Found>);

#[derive(Clone, PartialEq, Eq, Hash)]
struct CacheKey {
    workspace: i32,
    request: Request,
    /// What a selection declares, which `apply` can change.
    selection: Option<String>,
}

impl Key for CacheKey {
    fn workspace(&self) -> i32 {
        self.workspace
    }
}

/// The existing items among `ids`, in the order of `ids`.
pub async fn items(external: &External<'_>, catalog: &str, ids: &[String]) -> Found {
    let request = Request::Items { catalog: catalog.to_owned(), ids: ids.to_vec() };
    let bytes = request.bytes();
    let read = async move { with_size(read_items(external, catalog, ids).await, bytes) }.boxed();
    let key = CacheKey { workspace: external.workspace_id, request, selection: None };
    external.app.catalog_reads.0.get(key, ITEMS_AGE, read).await
}

/// The items of a selection.
pub async fn selection(
    external: &External<'_>,
    catalog: &str,
    name: &str,
    warnings: &mut Vec<String>,
) -> Found {
    let Some(selection) = external.settings.selection(catalog, name) else {
        warnings.push(format!("catalog {catalog} has no selection {name} in this workspace"));
        return Ok(Arc::new(Answer::Nothing));
    };
    let request = Request::Selection { catalog: catalog.to_owned(), name: name.to_owned() };
    let bytes = request.bytes();
    let read = async move { with_size(read_selection(external, selection).await, bytes) }.boxed();
    let selection = Some(json!(selection).to_string());
    let key = CacheKey { workspace: external.workspace_id, request, selection };
    external.app.catalog_reads.0.get(key, SELECTION_AGE, read).await
}

/// A result and its size for the cache, with that of its request. A failure that a retry may repair
/// has no size and is not cached.
fn with_size(
    items: Result<Vec<TreeObject>, StoreError>,
    request_bytes: usize,
) -> (Found, Option<usize>) {
    match items {
        Ok(items) => {
            let bytes = items.iter().map(size_of_object).sum::<usize>();
            let items = items.into_iter().map(Tree::Object).collect();
            (Ok(Arc::new(Answer::Json(Tree::Array(items)))), Some(request_bytes + bytes))
        }
        Err(StoreError::TooLarge) => {
            let text = format!(
                "the catalog items have more than {MAX_BYTES} bytes in total, or a selection \
                 reads more than {MAX_SCANNED} items or sorts more than {MAX_SORTED} bytes of them"
            );
            let bytes = request_bytes + text.len();
            (Err(RenderError::Stopped(Stop::Failed(text))), Some(bytes))
        }
        Err(error) => {
            tracing::warn!(%error, "cannot read a catalog for a template");
            let reason = "cannot read the catalog".to_owned();
            (Err(RenderError::Later { reason, after: None, is_counted: false }), None)
        }
    }
}

/// Approximate size of a value in bytes.
fn size(value: &Tree) -> usize {
    match value {
        Tree::Text(text) | Tree::Number(text) => VALUE_BYTES + text.len(),
        Tree::Array(list) => list.iter().map(size).sum::<usize>() + VALUE_BYTES,
        Tree::Object(object) => size_of_object(object),
        Tree::Null | Tree::Bool(_) => VALUE_BYTES,
    }
}

/// Approximate size of a value without its texts, in bytes.
const VALUE_BYTES: usize = 64;

fn size_of_object(object: &TreeObject) -> usize {
    object.iter().map(|(name, value)| name.len() + size(value)).sum::<usize>() + VALUE_BYTES
}

async fn read_items(
    external: &External<'_>,
    catalog: &str,
    ids: &[String],
) -> Result<Vec<TreeObject>, StoreError> {
    let (app, mut budget) = (external.app, ByteBudget::new(MAX_BYTES));
    let Some(catalog) = known::find(app, external.workspace_id, catalog).await? else {
        return Ok(Vec::new());
    };
    let mut distinct: Vec<&str> = ids.iter().map(String::as_str).collect();
    distinct.sort_unstable();
    distinct.dedup();
    let wanted: Vec<(i32, &str)> = distinct.into_iter().map(|id| (catalog.id, id)).collect();
    let mut tx = app.store.snapshot().await?;
    let found = rows::find_items(&mut tx, &wanted, &mut budget).await?;
    tx.commit().await?;
    let mut by_id = HashMap::new();
    for item in found {
        by_id.insert(item.item_id.clone(), template_value(&item)?);
    }
    Ok(ids.iter().filter_map(|id| by_id.get(id)).cloned().collect())
}

/// An item for templates and the conditions of selections: its id, then its fields in their order.
fn template_value(item: &rows::StoredItem) -> Result<TreeObject, StoreError> {
    let fields = TreeObject::parse(&item.doc).map_err(|error| corrupt(item, &error))?;
    let id = TreeObject::new([(ID.into(), Tree::Text(item.item_id.as_str().into()))]);
    Ok(id.merged(&fields))
}

fn corrupt(item: &rows::StoredItem, error: &dyn Display) -> StoreError {
    StoreError::Corrupt(format!("catalog item {}: {error}", item.item_id))
}

/// Reads the whole catalog in pages, each in its own short transaction.
async fn read_selection(
    external: &External<'_>,
    selection: &CatalogSelection,
) -> Result<Vec<TreeObject>, StoreError> {
    let app = external.app;
    let Some(catalog) = known::find(app, external.workspace_id, &selection.catalog).await? else {
        return Ok(Vec::new());
    };
    let is_time = |field: &str| catalog.fields.kind(field) == Some(Type::Time);
    let selection = selection.clone().with_times(is_time);
    let (mut chosen, mut after, mut scanned) = (Vec::new(), String::new(), 0);
    let mut has_more = true;
    while has_more {
        let mut tx = app.store.snapshot().await?;
        let page = rows::items_after(&mut tx, catalog.id, &after, PAGE_ITEMS).await?;
        tx.commit().await?;
        let Some(last) = page.items.last() else { break };
        after.clone_from(&last.item_id);
        scanned += page.items.len();
        if scanned > MAX_SCANNED {
            return Err(StoreError::TooLarge);
        }
        has_more = page.has_more;
        let choose = || choose(&mut chosen, page.items, &selection);
        app.cores.compute_here(external.workspace_id, choose)?;
        tokio::task::yield_now().await;
    }
    let chosen: Vec<TreeObject> = chosen.into_iter().map(|(item, _)| item).collect();
    if chosen.iter().map(size_of_object).sum::<usize>() > MAX_BYTES {
        return Err(StoreError::TooLarge);
    }
    Ok(chosen)
}

/// An item, and the bytes of its stored text.
type ParsedItem = (TreeObject, usize);

/// Adds those of the items that belong to the selection, and keeps the first of all.
fn choose(
    chosen: &mut Vec<ParsedItem>,
    items: Vec<rows::StoredItem>,
    selection: &CatalogSelection,
) -> Result<(), StoreError> {
    for item in items {
        let fields = template_value(&item)?;
        if selection.holds(&fields) {
            chosen.push((fields, item.doc.len()));
        }
    }
    chosen.sort_by(|(a, _), (b, _)| selection.compare(a, b));
    chosen.truncate(selection.limit as usize);
    let bytes = chosen.iter().map(|(_, bytes)| bytes).sum::<usize>();
    if bytes > MAX_SORTED { Err(StoreError::TooLarge) } else { Ok(()) }
}
