//! Applies edits to items, a batch of messages at a time.
//!
//! ```text
//! messages ── decode ── catalogs (share) ── items (read) ── merge, in order ── items, records
//! ```
//!
//! Items are read and written with one statement a batch, each once, and only what changed. An item
//! always uses one partition, whose offset is locked while it is applied, so no other worker edits
//! it at the same time, except for the retry of a dead letter: the item's version shows the
//! conflict, and one of the two is retried.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use super::coerce::coerce;
use super::message::{Action, Edit, ITEMS, Values};
use super::rows::{self, EditRow, StoredItem};
use super::{Catalog, Fields};
use crate::app::App;
use kit::clock::Clock;
use kit::compute::{Cores, NO_WORKSPACE};
use kit::retry::Retry;
use log::{Message, PayloadError};
use runtime::engine::batches::{Handler, arrays};
use store::{ByteBudget, StoreError, Tx};

/// Why messages could not be applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error(transparent)]
    Message(#[from] PayloadError),
    #[error("cannot read item {id} of catalog {catalog}: {why}")]
    Item { catalog: i32, id: String, why: String },
    /// The next attempt reads the new state.
    #[error("another worker edited the item at the same time")]
    ConcurrentEdit,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Retry for ApplyError {
    fn can_retry(&self) -> bool {
        match self {
            Self::ConcurrentEdit => true,
            Self::Store(error) => error.can_retry(),
            Self::Message(error) => error.can_retry(),
            Self::Item { .. } => false,
        }
    }

    fn is_too_large(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_too_large())
    }

    fn needs_newer_version(&self) -> bool {
        match self {
            Self::Store(error) => error.needs_newer_version(),
            Self::Message(error) => error.needs_newer_version(),
            Self::ConcurrentEdit | Self::Item { .. } => false,
        }
    }
}

/// Limits of one transaction, unless it has a single item: items, and bytes of their documents,
/// each of which is in memory about three times while it changes.
const MAX_ITEMS: usize = 16_000;
const MAX_BYTES: usize = 8 << 20;

/// Ids of unknown items in a record.
const MAX_UNKNOWN: usize = 10;

/// Applies messages of [`topics::CATALOGS`](runtime::topics::CATALOGS).
pub struct ApplyEdits {
    cores: Cores,
    clock: Clock,
}

impl ApplyEdits {
    pub fn new(app: &App) -> Self {
        Self { cores: app.cores.clone(), clock: app.clock.clone() }
    }
}

/// Readable messages, each with the id of its request.
pub struct Prepared<'m>(Vec<(Edit<'m>, &'m str)>);

/// The outcome for items.
#[derive(Debug, Default)]
pub struct Tally {
    applied: u64,
    unknown: u64,
}

impl Handler for ApplyEdits {
    type Error = ApplyError;
    type Prepared<'m> = Prepared<'m>;
    type Applied = Tally;

    async fn prepare<'m>(&self, messages: &'m [Message]) -> Result<Prepared<'m>, ApplyError> {
        let decode = |message: &'m Message| {
            Ok((Edit::decode(&message.payload)?, message.request_id.as_str()))
        };
        let edits: Vec<(Edit<'m>, &str)> = self.cores.compute_here(NO_WORKSPACE, || {
            messages.iter().map(decode).collect::<Result<_, ApplyError>>()
        })?;
        match count(&edits) {
            0..=MAX_ITEMS => Ok(Prepared(edits)),
            _ => Err(StoreError::TooLarge.into()),
        }
    }

    async fn apply(&self, tx: &mut Tx, prepared: &Self::Prepared<'_>) -> Result<Tally, ApplyError> {
        let Prepared(edits) = prepared;
        let catalogs = Catalogs::share(tx, edits).await?;
        let mut budget =
            if count(edits) == 1 { ByteBudget::unlimited() } else { ByteBudget::new(MAX_BYTES) };
        let stored = rows::find_items(tx, &keys(edits, &catalogs), &mut budget).await?;
        let now = self.clock.now_ms();
        let outcome =
            self.cores.compute_here(NO_WORKSPACE, || merge(edits, &catalogs, &stored, now))?;
        if rows::update_items(tx, &outcome.changed).await? != outcome.changed.len() as u64 {
            return Err(ApplyError::ConcurrentEdit);
        }
        for item in &outcome.deleted {
            if !rows::delete_item(tx, item).await? {
                return Err(ApplyError::ConcurrentEdit);
            }
        }
        rows::insert_edits(tx, &outcome.records).await?;
        Ok(outcome.tally)
    }

    fn split(&self, message: &Message) -> Vec<Message> {
        self.cores.compute_here(NO_WORKSPACE, || arrays::split(message, ITEMS))
    }

    fn join(&self, parts: &[&Message]) -> Message {
        arrays::join(parts, ITEMS)
    }

    fn applied(&self, tally: Tally) {
        metrics::counter!("longshore_catalog_items_applied_total").increment(tally.applied);
        metrics::counter!("longshore_catalog_items_unknown_total").increment(tally.unknown);
    }
}

fn count(edits: &[(Edit<'_>, &str)]) -> usize {
    edits.iter().map(|(edit, _)| edit.items.len()).sum()
}

/// The catalogs of edits, locked against other declarations.
#[derive(Default)]
struct Catalogs {
    by_id: BTreeMap<i32, Catalog>,
    /// New catalogs that have the name of a deleted one: id and time of creation.
    by_name: BTreeMap<(i32, String), (i32, i64)>,
}

impl Catalogs {
    async fn share(tx: &mut Tx, edits: &[(Edit<'_>, &str)]) -> Result<Self, StoreError> {
        let mut catalogs = Self::default();
        catalogs.add(tx, edits.iter().map(|(edit, _)| edit.catalog).collect()).await?;
        let mut deleted: BTreeMap<i32, Vec<&str>> = BTreeMap::new();
        for (edit, _) in edits {
            if let Some(name) = edit.name.as_deref().filter(|_| catalogs.by_own_id(edit).is_none())
            {
                deleted.entry(edit.workspace).or_default().push(name);
            }
        }
        for (workspace, names) in deleted {
            let named = rows::named(tx, workspace, &names).await?;
            catalogs.add(tx, named.iter().map(|(id, ..)| *id).collect()).await?;
            let named = named
                .into_iter()
                .map(|(id, name, created_at)| ((workspace, name), (id, created_at)));
            catalogs.by_name.extend(named);
        }
        Ok(catalogs)
    }

    async fn add(&mut self, tx: &mut Tx, mut ids: Vec<i32>) -> Result<(), StoreError> {
        ids.sort_unstable();
        ids.dedup();
        let shared = rows::share(tx, &ids).await?;
        self.by_id.extend(shared.into_iter().map(|catalog| (catalog.id, catalog)));
        Ok(())
    }

    fn by_own_id(&self, edit: &Edit<'_>) -> Option<&Catalog> {
        self.by_id.get(&edit.catalog).filter(|catalog| catalog.workspace == edit.workspace)
    }

    /// The catalog of an edit, if it still exists in the workspace. Otherwise the catalog that had
    /// the name when the edit was accepted: a gateway can cache the former one for some seconds.
    fn find(&self, edit: &Edit<'_>) -> Option<&Catalog> {
        self.by_own_id(edit).or_else(|| {
            let name = edit.name.as_deref()?.to_owned();
            let (id, created_at) = self.by_name.get(&(edit.workspace, name))?;
            self.by_id.get(id).filter(|_| *created_at <= edit.received_at)
        })
    }
}

/// The items of the edits, each once, in the order of their keys; none for a deleted catalog.
fn keys<'p>(edits: &'p [(Edit<'_>, &str)], catalogs: &Catalogs) -> Vec<(i32, &'p str)> {
    let edits = edits.iter().filter_map(|(edit, _)| Some((catalogs.find(edit)?.id, edit)));
    let mut keys: Vec<(i32, &str)> = edits
        .flat_map(|(id, edit)| edit.items.iter().map(move |item| (id, item.id.as_ref())))
        .collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// The result of edits.
#[derive(Default)]
struct Outcome {
    /// Items in the order of their keys.
    changed: Vec<StoredItem>,
    /// The items to delete, as read.
    deleted: Vec<StoredItem>,
    records: Vec<EditRow>,
    tally: Tally,
}

/// An item with its merged edits.
#[derive(Default)]
struct MergedItem<'a> {
    stored: Option<&'a StoredItem>,
    /// None if the item does not exist.
    values: Option<Values<'a>>,
    changed: bool,
}

impl<'a> MergedItem<'a> {
    /// Applies an edit to the item. Returns false if the item is missing, or already exists,
    /// contrary to the action.
    fn edit(&mut self, action: Action, newer: Values<'a>) -> bool {
        self.changed |= match (action, &mut self.values) {
            (Action::Update, Some(values)) => values.merge(&newer),
            (Action::Update | Action::Delete, None) | (Action::Create, Some(_)) => return false,
            (Action::Delete, values) => values.take().is_some(),
            (Action::Create | Action::Replace, values) => {
                values.insert(Values::default()).merge(&newer);
                true
            }
        };
        true
    }
}

/// Merges edits, in order, into the existing items.
fn merge(
    edits: &[(Edit<'_>, &str)],
    catalogs: &Catalogs,
    stored: &[StoredItem],
    now: i64,
) -> Result<Outcome, ApplyError> {
    let mut items = stored
        .iter()
        .map(|stored| {
            let values =
                serde_json::from_str(&stored.doc).map_err(|why| unreadable(stored, &why))?;
            let merged = MergedItem { stored: Some(stored), values: Some(values), changed: false };
            Ok(((stored.catalog_id, stored.item_id.as_str()), merged))
        })
        .collect::<Result<HashMap<_, _>, ApplyError>>()?;
    let mut outcome = Outcome::default();
    for (edit, request_id) in edits {
        let Some(catalog) = catalogs.find(edit) else {
            outcome.tally.unknown += edit.items.len() as u64;
            continue;
        };
        let mut unknown = Vec::new();
        for item in &edit.items {
            let merged = items.entry((catalog.id, item.id.as_ref())).or_default();
            if !merged.edit(edit.action, fitting(&item.values, &catalog.fields)) {
                unknown.push(item.id.as_ref());
            }
        }
        let applied = edit.items.len() - unknown.len();
        outcome.tally.applied += applied as u64;
        outcome.tally.unknown += unknown.len() as u64;
        outcome.records.push(EditRow {
            catalog_id: catalog.id,
            request_id: (*request_id).to_owned(),
            received_at: edit.received_at,
            applied: applied as i32,
            unknown: unknown.len() as i32,
            unknown_ids: to_json(&&unknown[..unknown.len().min(MAX_UNKNOWN)]),
            applied_at: now,
        });
    }
    for ((catalog_id, item_id), merged) in items.into_iter().filter(|(_, merged)| merged.changed) {
        let (load, version) =
            merged.stored.map_or((0, 0), |stored| (stored.load, stored.version + 1));
        match (merged.values, merged.stored) {
            (Some(values), _) => {
                let (item_id, doc) = (item_id.to_owned(), to_json(&values));
                outcome.changed.push(StoredItem { catalog_id, item_id, load, version, doc });
            }
            (None, stored) => outcome.deleted.extend(stored.cloned()),
        }
    }
    outcome
        .changed
        .sort_unstable_by(|a, b| (a.catalog_id, &a.item_id).cmp(&(b.catalog_id, &b.item_id)));
    Ok(outcome)
}

/// The values whose fields the catalog still has, coerced to the current types. The catalog may
/// have been declared again after the gateway checked the values.
fn fitting<'a>(values: &'a Values<'_>, fields: &Fields) -> Values<'a> {
    let fits = |(name, value): &'a (Cow<'_, str>, Cow<'_, serde_json::value::RawValue>)| {
        let kind = fields.kind(name)?;
        let value = match value.get() {
            "null" => Cow::Borrowed(value.as_ref()),
            _ => coerce(kind, value)?,
        };
        Some((Cow::Borrowed(name.as_ref()), value))
    };
    Values(values.0.iter().filter_map(fits).collect())
}

fn unreadable(stored: &StoredItem, why: &serde_json::Error) -> ApplyError {
    let (catalog, id) = (stored.catalog_id, stored.item_id.clone());
    ApplyError::Item { catalog, id, why: why.to_string() }
}

/// Strings and raw JSON values always serialize.
fn to_json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("JSON from JSON")
}
