//! Applies tracking messages to profiles and activity, a batch of messages at a time.
//!
//! ```text
//! messages ── decode ── find users (bulk) ── profiles, in order ── activity (bulk) ── rows
//! ```
//!
//! A batch reads and writes with one statement per kind of row, each user once, and writes only
//! changes. Locks are acquired in the order identifiers (and [emails](people::users::name_locks)
//! with which users are created), profiles, activity, each in the order of their keys. The only
//! lock out of order is on activity that another partition has just created: if two transactions
//! deadlock there, one is retried.
//!
//! Every purchase counts as revenue, unless the workspace declares [conversion
//! windows](conversions); some of them [start campaigns](triggers), whose dispatches begin in the
//! same transaction.

mod campaign_rules;
mod conversions;
mod custom;
mod decimal;
pub mod draft;
mod identifier_set;
mod identity;
mod identity_rows;
mod opt_outs;
mod products;
mod rows;
mod tally;
mod triggers;
mod user_set;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::civil::Date;
use uuid::Uuid;

use self::campaign_rules::{CampaignRules, KnownCampaignRules};
use self::conversions::Windows;
use self::identifier_set::IdentifierSet;
pub use self::identity::EraseHook;
use self::identity::Identities;
use self::products::Products;
pub(super) use self::rows::products_page;
pub(super) use self::tally::{Dropped, Tally};
use self::user_set::UserSet;
use super::Kind;
use super::message::{Batch, Event, OBJECTS, Object, Purchase};
use gateway::workspaces::{self, Workspace};
use kit::clock::{from_ms, utc_date};
use kit::compute::Cores;
use kit::retry::Retry;
use log::{Message, PayloadError};
use messages::app::App;
use messages::dispatch;
use people::users::activity::{Activity, ActivityError};
use people::users::service_id::Generator;
use runtime::engine::batches::{Handler, arrays};
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
    erase_hook: EraseHook,
}

/// A parsed message, and the id of its request.
struct Received<'m> {
    batch: Batch<'m>,
    request_id: &'m str,
}

impl Received<'_> {
    /// Whether it has identity changes, and so no other objects.
    fn changes_identities(&self) -> bool {
        matches!(self.batch.objects.first(), Some(Object::Identity(_)))
    }
}

/// Readable messages, and the data known before their transaction.
pub struct Prepared<'m> {
    /// Batches of the same workspace are adjacent.
    batches: Vec<Received<'m>>,
    workspaces: BTreeMap<i32, (Workspace, Arc<CampaignRules>)>,
}

impl Ingest {
    pub fn new(app: &App) -> Self {
        Self {
            store: app.store.clone(),
            cores: app.cores.clone(),
            ids: Generator::default(),
            products: Products::default(),
            rules: KnownCampaignRules::default(),
            erase_hook: |_, _, _| Box::pin(async { Ok(()) }),
        }
    }

    /// The same, with a function that removes other data of a removed user.
    pub fn with_erase_hook(self, erase_hook: EraseHook) -> Self {
        Self { erase_hook, ..self }
    }

    async fn workspaces(
        &self,
        ids: impl Iterator<Item = i32>,
    ) -> Result<BTreeMap<i32, (Workspace, Arc<CampaignRules>)>, ApplyError> {
        let mut found = BTreeMap::new();
        let mut tx = self.store.snapshot().await?;
        for id in ids {
            if let std::collections::btree_map::Entry::Vacant(entry) = found.entry(id) {
                let workspace = workspaces::by_id(&mut tx, id).await?;
                let workspace = workspace.ok_or(ApplyError::Workspace(id))?;
                entry.insert((workspace, self.rules.of(&mut tx, id).await?));
            }
        }
        Ok(found)
    }

    /// Applies one batch of attributes that is not from the log, in the caller's transaction.
    pub(super) async fn apply_one(
        &self,
        tx: &mut Tx,
        batch: Batch<'_>,
    ) -> Result<Tally, ApplyError> {
        let id = batch.workspace;
        let workspace = workspaces::by_id(tx, id).await?.ok_or(ApplyError::Workspace(id))?;
        // Campaign rules concern only purchases, and there are none.
        let (rules, mut room) = (CampaignRules::default(), ByteBudget::unlimited());
        let (mut tally, received) = (Tally::default(), [Received { batch, request_id: "" }]);
        self.apply_to(tx, (&workspace, &rules), &received, &mut room, &mut tally).await?;
        Ok(tally)
    }

    /// Applies identity changes, one after the other.
    async fn apply_identities(
        &self,
        tx: &mut Tx,
        batch: &Batch<'_>,
        tally: &mut Tally,
    ) -> Result<(), ApplyError> {
        let now = claims::now(tx).await?;
        let today = utc_date(from_ms(batch.received_at.min(now)));
        let (workspace, ids, erase_hook) = (batch.workspace, &self.ids, self.erase_hook);
        let mut identities = Identities { tx, workspace, ids, erase_hook, today, now, created: 0 };
        for object in &batch.objects {
            let Object::Identity(identity) = object else { continue };
            match identities.apply(identity, batch.received_at).await? {
                Some(Ok(())) => tally.apply(object.kind()),
                Some(Err(why)) => tally.drop(object.kind(), why),
                None => {}
            }
        }
        tally.users_created += identities.created;
        Ok(())
    }

    async fn apply_to(
        &self,
        tx: &mut Tx,
        (workspace, rules): (&Workspace, &CampaignRules),
        batches: &[Received<'_>],
        room: &mut ByteBudget,
        tally: &mut Tally,
    ) -> Result<(), ApplyError> {
        let objects: Vec<(i64, &Object<'_>)> = batches
            .iter()
            .flat_map(|Received { batch, .. }| {
                batch.objects.iter().map(|object| (batch.received_at, object))
            })
            .collect();
        let identifier_set = self.cores.compute_here(|| IdentifierSet::of(&objects));
        let mut user_set =
            UserSet::look_up(tx, workspace.id, &identifier_set, &self.ids, room).await?;
        let now = claims::now(tx).await?;
        let mut actions =
            self.cores.compute_here(|| apply_objects(&objects, now, &mut user_set, tally))?;
        tally.name_request(batches.iter().map(|of| (of.batch.objects.len(), of.request_id)));
        actions.sort_by_key(|(place, _)| *place);
        let mut places: Vec<usize> = actions.iter().map(|(place, _)| *place).collect();
        places.dedup();
        let bodies = user_set.activity(tx, &places).await?;
        // If a gateway's clock is ahead, data must not be pruned too early.
        let today = batches.iter().map(|of| of.batch.received_at).max().unwrap_or_default();
        let today = utc_date(from_ms(today.min(now)));
        let windows = Windows::look_up(tx, workspace.id, rules, &actions, &user_set).await?;
        let activity = self.cores.compute_here(|| {
            fold(&actions, &user_set, &bodies, (workspace, &windows, today), tally)
        })?;
        let request_id = batches.first().map_or("", |first| first.request_id);
        let place = triggers::OrderContext { workspace_id: workspace.id, now, request_id };
        let (orders, stale) =
            self.cores.compute_here(|| triggers::orders(&actions, &user_set, rules, place));
        let bought = actions.iter().filter_map(|(place, action)| match action {
            UserAction::Purchase(purchase, _) if user_set.is_known(*place) => {
                Some(purchase.product_id.as_ref())
            }
            _ => None,
        });
        let bought: Vec<&str> = bought.collect();
        tally.users_created += user_set.write(tx, activity).await?;
        for order in &orders {
            dispatch::begin(tx, order).await?;
        }
        tally.triggered += orders.len() as u64;
        tally.stale_triggers += stale;
        // Locked last, because all users share it.
        let listed = self.products.list(tx, workspace.id, bought.into_iter()).await?;
        tally.unlisted += listed.unlisted;
        tally.listed.push(listed);
        Ok(())
    }
}

impl Handler for Ingest {
    type Error = ApplyError;
    type Prepared<'m> = Prepared<'m>;
    type Applied = Tally;

    async fn prepare<'m>(&self, messages: &'m [Message]) -> Result<Prepared<'m>, ApplyError> {
        let batches = self.cores.compute_here(|| decode(messages))?;
        let objects: usize = batches.iter().map(|of| of.batch.objects.len()).sum();
        if objects > MAX_OBJECTS && messages.len() > 1 {
            return Err(StoreError::TooLarge.into());
        }
        let workspaces = self.workspaces(batches.iter().map(|of| of.batch.workspace)).await?;
        Ok(Prepared { batches, workspaces })
    }

    async fn apply(&self, tx: &mut Tx, prepared: &Self::Prepared<'_>) -> Result<Tally, ApplyError> {
        let mut tally = Tally::default();
        let mut room = match prepared.batches.as_slice() {
            [of] if of.batch.objects.len() == 1 => ByteBudget::unlimited(),
            _ => ByteBudget::new(MAX_BYTES),
        };
        for batches in prepared.batches.chunk_by(|a, b| a.batch.workspace == b.batch.workspace) {
            let id = batches[0].batch.workspace;
            let (workspace, rules) =
                prepared.workspaces.get(&id).ok_or(ApplyError::Workspace(id))?;
            let is_bulk = |of: &Received<'_>| !of.changes_identities();
            for batches in batches.chunk_by(|one, other| is_bulk(one) && is_bulk(other)) {
                if is_bulk(&batches[0]) {
                    self.apply_to(tx, (workspace, rules), batches, &mut room, &mut tally).await?;
                } else {
                    self.apply_identities(tx, &batches[0].batch, &mut tally).await?;
                }
            }
        }
        Ok(tally)
    }

    fn split(&self, message: &Message) -> Vec<Message> {
        self.cores.compute_here(|| arrays::split(message, OBJECTS))
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
fn decode(messages: &[Message]) -> Result<Vec<Received<'_>>, PayloadError> {
    let batches = messages.iter().map(|message| {
        let request_id = message.request_id.as_str();
        Ok(Received { batch: Batch::decode(&message.payload)?, request_id })
    });
    let mut batches = batches.collect::<Result<Vec<_>, _>>()?;
    batches.sort_by_key(|of| of.batch.workspace);
    Ok(batches)
}

/// An event or a purchase of a user, by their index among the users.
enum UserAction<'a> {
    Event(&'a Event<'a>),
    /// A purchase, and when it was received, in milliseconds since the epoch.
    Purchase(&'a Purchase<'a>, i64),
}

impl UserAction<'_> {
    fn kind(&self) -> Kind {
        match self {
            Self::Event(_) => Kind::Events,
            Self::Purchase(..) => Kind::Purchases,
        }
    }
}

/// Applies objects in order: changes profiles, and collects events and purchases.
fn apply_objects<'a>(
    objects: &[(i64, &'a Object<'a>)],
    now: i64,
    user_set: &mut UserSet<'a>,
    tally: &mut Tally,
) -> Result<Vec<(usize, UserAction<'a>)>, ApplyError> {
    let mut actions = Vec::with_capacity(objects.len());
    for (at, (received_at, object)) in objects.iter().enumerate() {
        if let Object::Attributes(attributes) = object {
            user_set.decide_by_address(attributes, *received_at, now)?;
        }
        let place = match user_set.find_or_create(object, *received_at) {
            Ok(place) => place,
            Err(why) => {
                tally.drop(object.kind(), why);
                continue;
            }
        };
        match object {
            Object::Event(event) => actions.push((place, UserAction::Event(event))),
            Object::Identity(_) => {}
            Object::Purchase(purchase) => {
                actions.push((place, UserAction::Purchase(purchase, *received_at)));
            }
            Object::Attributes(attributes) => {
                match user_set.change(place, attributes, *received_at, now)? {
                    Ok(mismatches) => {
                        if mismatches > 0 {
                            tally.mismatch(mismatches, at, user_set.service_id(place));
                        }
                        tally.apply(Kind::Attributes);
                    }
                    Err(why) => tally.drop(Kind::Attributes, why),
                }
            }
        }
    }
    Ok(actions)
}

/// Adds actions (grouped by user) to activity; returns the changed activity by index of the user.
fn fold(
    actions: &[(usize, UserAction<'_>)],
    user_set: &UserSet<'_>,
    bodies: &HashMap<usize, Vec<u8>>,
    (workspace, windows, today): (&Workspace, &Windows, Date),
    tally: &mut Tally,
) -> Result<Vec<(usize, Vec<u8>)>, ApplyError> {
    let mut changed = Vec::with_capacity(bodies.len());
    for actions in actions.chunk_by(|(one, _), (other, _)| one == other) {
        let place = actions[0].0;
        if !user_set.is_known(place) {
            actions.iter().for_each(|(_, action)| tally.drop(action.kind(), Dropped::UnknownUser));
            continue;
        }
        let before = bodies.get(&place);
        let mut activity = match before {
            Some(body) => Activity::decode(body)
                .map_err(|why| ApplyError::Activity(user_set.service_id(place), why))?,
            None => Activity::default(),
        };
        for (_, action) in actions {
            let counts = |time| windows.contains(user_set.service_id(place), time);
            record(action, &mut activity, workspace, counts, tally);
        }
        activity.prune(today);
        tally.names_forgotten += activity.prune_names();
        let after = activity.encode();
        if before != Some(&after) {
            changed.push((place, after));
        }
    }
    Ok(changed)
}

/// Adds an event or purchase to activity; `counts` decides whether a purchase counts as revenue.
fn record(
    action: &UserAction<'_>,
    activity: &mut Activity<'_>,
    workspace: &Workspace,
    counts: impl Fn(i64) -> bool,
    tally: &mut Tally,
) {
    tally.apply(action.kind());
    match action {
        UserAction::Event(event) => {
            let properties = event.properties.as_ref().map(|json| json.get());
            activity.record_event(&event.name, event.time, 1, properties);
        }
        UserAction::Purchase(purchase, _) => {
            let Purchase { product_id, currency, price, quantity, time, .. } = purchase;
            let properties = purchase.properties.as_ref().map(|json| json.get());
            activity.record_purchase(product_id, *time, u64::from(*quantity), properties);
            if !counts(*time) {
                tally.outside_windows += 1;
                return;
            }
            let revenue = price.saturating_mul(i64::from(*quantity));
            if !activity.record_revenue(currency, revenue) {
                tally.revenue_at_maximum += 1;
            }
            let has_rate = workspace.exchange_rates.contains_key(currency.as_ref());
            if !has_rate && *currency != workspace.currency {
                tally.without_rate(currency);
            }
        }
    }
}
