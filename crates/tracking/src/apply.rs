//! Applies tracking messages to profiles and activity, a batch of messages at a time.
//!
//! ```text
//! messages ── decode ── find users (bulk) ── profiles, in order ── activity (bulk) ── rows
//! ```
//!
//! A [`BulkUpdate`] reads and writes with one statement per kind of row, each user once, and writes
//! only changes. Locks are acquired in the order identifiers (and
//! [emails](people::users::name_locks) with which users are created), profiles, activity, each in
//! the order of their keys. The only lock out of order is on activity that another partition has
//! just created: if two transactions deadlock there, one is retried.
//!
//! Every purchase counts as revenue, unless the workspace declares [conversion
//! windows](conversions); some of them [start campaigns](triggers), whose dispatches begin in the
//! same transaction.

mod bulk;
mod campaign_rules;
mod conversions;
mod custom;
mod decimal;
mod decisions;
pub mod draft;
mod identifier_set;
mod identity;
mod identity_rows;
pub(super) mod order_time;
mod products;
mod rows;
mod tally;
mod triggers;
mod user_set;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use uuid::Uuid;

use self::bulk::BulkUpdate;
use self::campaign_rules::{CampaignRules, KnownCampaignRules};
use self::identity::Identities;
pub use self::identity::UserHooks;
use self::order_time::OrderTime;
use self::products::Products;
pub use self::rows::products_from;
pub(super) use self::rows::products_page;
pub(super) use self::tally::{Dropped, Tally};
use super::message::{Batch, OBJECTS, Object};
use gateway::workspaces::{self, Workspace};
use kit::clock::{from_ms, utc_date};
use kit::compute::{Cores, NO_WORKSPACE};
use kit::retry::Retry;
use log::{Message, PayloadError};
use messages::app::App;
use people::users::activity::ActivityError;
use people::users::service_id::Generator;
use runtime::engine::batches::{Handler, arrays};
use runtime::history::{self, Metric};
use store::claims;
use store::{ByteBudget, Store, StoreError, Tx};

/// Why messages could not be applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error(transparent)]
    Message(#[from] PayloadError),
    #[error("unknown workspace {0}")]
    Workspace(i32),
    #[error("cannot read the profile of {0}: {1}")]
    Profile(Uuid, String),
    #[error("the activity of {0}: {1}")]
    Activity(Uuid, ActivityError),
    #[error("an identifier belongs to {0}, which has no profile")]
    NoProfile(Uuid),
    /// The next attempt reads the new state.
    #[error("a user was erased or their email address changed at the same time")]
    Changed,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Retry for ApplyError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Changed => true,
            Self::Store(error) => error.can_retry(),
            Self::Message(error) => error.can_retry(),
            Self::Activity(_, error) => error.can_retry(),
            Self::Workspace(_) | Self::Profile(..) | Self::NoProfile(_) => false,
        }
    }

    fn is_too_large(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_too_large())
    }

    fn needs_newer_version(&self) -> bool {
        match self {
            Self::Store(error) => error.needs_newer_version(),
            Self::Message(error) => error.needs_newer_version(),
            Self::Activity(_, error) => error.needs_newer_version(),
            Self::Changed | Self::Workspace(_) | Self::Profile(..) | Self::NoProfile(_) => false,
        }
    }
}

/// Limits of one transaction: the number of objects, unless it has a single message; and, unless it
/// has a single object, the bytes of documents and activity. Each of these is in memory about three
/// times while it changes.
const MAX_OBJECTS: usize = 8_000;
const MAX_BYTES: usize = 8 << 20;

/// Applies messages of [`topics::TRACKING`](runtime::topics::TRACKING).
pub struct Ingest {
    store: Store,
    cores: Cores,
    ids: Generator,
    products: Products,
    rules: KnownCampaignRules,
    hooks: UserHooks,
}

/// A parsed message, its order, and the id of its request.
struct ReceivedBatch<'m> {
    batch: Batch<'m>,
    at: OrderTime,
    request_id: &'m str,
}

impl ReceivedBatch<'_> {
    /// Whether it has identity changes, and so no other objects.
    fn changes_identities(&self) -> bool {
        matches!(self.batch.objects.first(), Some(Object::Identity(_)))
    }
}

/// Readable messages, and the data known before their transaction.
pub struct Prepared<'m> {
    /// Batches of the same workspace are adjacent.
    batches: Vec<ReceivedBatch<'m>>,
    workspaces: BTreeMap<i32, PreparedWorkspace>,
}

struct PreparedWorkspace {
    workspace: Workspace,
    rules: Arc<CampaignRules>,
}

impl Ingest {
    pub fn new(app: &App) -> Self {
        Self {
            store: app.store.clone(),
            cores: app.cores.clone(),
            ids: Generator::default(),
            products: Products::default(),
            rules: KnownCampaignRules::default(),
            hooks: UserHooks::default(),
        }
    }

    /// The same, with changes of other data of erased and merged users.
    pub fn with_hooks(self, hooks: UserHooks) -> Self {
        Self { hooks, ..self }
    }

    async fn workspaces(
        &self,
        ids: impl Iterator<Item = i32>,
    ) -> Result<BTreeMap<i32, PreparedWorkspace>, ApplyError> {
        let mut found = BTreeMap::new();
        let mut tx = self.store.snapshot().await?;
        for id in ids {
            if let Entry::Vacant(entry) = found.entry(id) {
                let workspace = workspaces::by_id(&mut tx, id).await?;
                let workspace = workspace.ok_or(ApplyError::Workspace(id))?;
                let rules = self.rules.look_up(&mut tx, id).await?;
                entry.insert(PreparedWorkspace { workspace, rules });
            }
        }
        Ok(found)
    }

    /// Applies batches of attributes of a workspace without the log, in the caller's transaction.
    pub(super) async fn apply_now(
        &self,
        tx: &mut Tx,
        batches: Vec<(Batch<'_>, OrderTime)>,
        budget: &mut ByteBudget,
    ) -> Result<Tally, ApplyError> {
        let mut tally = Tally::default();
        let Some(id) = batches.first().map(|(batch, _)| batch.workspace) else {
            return Ok(tally);
        };
        let workspace = workspaces::by_id(tx, id).await?.ok_or(ApplyError::Workspace(id))?;
        // Campaign rules concern only purchases, and there are none.
        let workspace = PreparedWorkspace { workspace, rules: Arc::default() };
        let batches = batches.into_iter();
        let batches: Vec<ReceivedBatch<'_>> =
            batches.map(|(batch, at)| ReceivedBatch { batch, at, request_id: "" }).collect();
        self.apply_bulk(tx, &workspace, &batches, budget, &mut tally).await?;
        Ok(tally)
    }

    /// Applies identity changes, one after the other.
    async fn apply_identities(
        &self,
        tx: &mut Tx,
        ReceivedBatch { batch, at, .. }: &ReceivedBatch<'_>,
        tally: &mut Tally,
    ) -> Result<(), ApplyError> {
        let now = claims::now(tx).await?;
        let today = utc_date(from_ms(batch.received_at.min(now)));
        let (workspace, ids, hooks) = (batch.workspace, &self.ids, self.hooks);
        let latest = at.latest(now);
        let mut identities =
            Identities { tx, workspace, ids, hooks, today, now, latest, created: 0 };
        for object in &batch.objects {
            let Object::Identity(identity) = object else { continue };
            match identities.apply(identity, batch.received_at, *at).await? {
                Some(Ok(())) => tally.apply(object.kind()),
                Some(Err(reason)) => tally.drop(object.kind(), reason),
                None => {}
            }
        }
        tally.users_created += identities.created;
        Ok(())
    }

    /// Applies objects other than identity changes, all of them together.
    async fn apply_bulk(
        &self,
        tx: &mut Tx,
        workspace: &PreparedWorkspace,
        batches: &[ReceivedBatch<'_>],
        budget: &mut ByteBudget,
        tally: &mut Tally,
    ) -> Result<(), ApplyError> {
        let mut update =
            BulkUpdate::look_up_users(self, tx, workspace, batches, budget, tally).await?;
        self.cores.compute_here(workspace.workspace.id, || update.change_profiles())?;
        let stored = update.lock_activity().await?;
        let windows = update.look_up_windows().await?;
        let activity = self
            .cores
            .compute_here(workspace.workspace.id, || update.change_activity(&stored, &windows))?;
        let orders = self.cores.compute_here(workspace.workspace.id, || update.orders());
        update.write(activity, orders).await
    }
}

impl Handler for Ingest {
    type Error = ApplyError;
    type Prepared<'m> = Prepared<'m>;
    type Applied = Tally;

    async fn prepare<'m>(&self, messages: &'m [Message]) -> Result<Prepared<'m>, ApplyError> {
        let batches = self.cores.compute_here(NO_WORKSPACE, || decode(messages))?;
        let objects: usize = batches.iter().map(|received| received.batch.objects.len()).sum();
        if objects > MAX_OBJECTS && messages.len() > 1 {
            return Err(StoreError::TooLarge.into());
        }
        let workspaces =
            self.workspaces(batches.iter().map(|received| received.batch.workspace)).await?;
        Ok(Prepared { batches, workspaces })
    }

    async fn apply(&self, tx: &mut Tx, prepared: &Self::Prepared<'_>) -> Result<Tally, ApplyError> {
        let mut tally = Tally::default();
        let mut budget = match prepared.batches.as_slice() {
            [received] if received.batch.objects.len() == 1 => ByteBudget::unlimited(),
            _ => ByteBudget::new(MAX_BYTES),
        };
        for batches in prepared.batches.chunk_by(|a, b| a.batch.workspace == b.batch.workspace) {
            let id = batches[0].batch.workspace;
            let workspace = prepared.workspaces.get(&id).ok_or(ApplyError::Workspace(id))?;
            let applied_before = tally.objects_applied();
            let is_bulk = |received: &ReceivedBatch<'_>| !received.changes_identities();
            for batches in batches.chunk_by(|a, b| is_bulk(a) && is_bulk(b)) {
                if is_bulk(&batches[0]) {
                    self.apply_bulk(tx, workspace, batches, &mut budget, &mut tally).await?;
                } else {
                    self.apply_identities(tx, &batches[0], &mut tally).await?;
                }
            }
            let applied = (tally.objects_applied() - applied_before) as i64;
            history::count(tx, id, &[(Metric::ObjectsApplied, applied)]).await?;
        }
        Ok(tally)
    }

    fn split(&self, message: &Message) -> Vec<Message> {
        self.cores.compute_here(NO_WORKSPACE, || arrays::split(message, OBJECTS))
    }

    fn join(&self, parts: &[&Message]) -> Message {
        arrays::join(parts, OBJECTS)
    }

    fn lost_commits(&self) {
        self.products.clear();
    }

    fn applied(&self, mut tally: Tally) {
        let listed = std::mem::take(&mut tally.listed);
        listed.into_iter().for_each(|listed| self.products.learn(listed));
        tally.emit();
    }
}

/// Parses messages; those of a workspace are adjacent, in their order.
fn decode(messages: &[Message]) -> Result<Vec<ReceivedBatch<'_>>, PayloadError> {
    let batches = messages.iter().map(|message| {
        let batch = Batch::decode(&message.payload)?;
        let at = OrderTime::of_message(message, batch.received_at);
        Ok(ReceivedBatch { batch, at, request_id: &message.request_id })
    });
    let mut batches = batches.collect::<Result<Vec<_>, _>>()?;
    batches.sort_by_key(|received| received.batch.workspace);
    Ok(batches)
}
