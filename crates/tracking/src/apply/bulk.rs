//! Applies the objects of one workspace in bulk. The methods of [`BulkUpdate`] are its phases,
//! called in this order by `Ingest::apply_bulk`.

use std::collections::HashMap;

use super::campaign_rules::CampaignRules;
use super::conversions::Windows;
use super::decisions;
use super::identifier_set::IdentifierSet;
use super::order_time::OrderTime;
use super::tally::Dropped;
use super::triggers::{self, OrderContext, TriggeredOrders};
use super::user_set::{UserIndex, UserSet};
use super::{ApplyError, Ingest, PreparedWorkspace, ReceivedBatch, Tally};
use crate::Kind;
use crate::message::{Event, Object, Purchase};
use gateway::workspaces::Workspace;
use kit::clock::{from_ms, utc_date};
use messages::dispatch;
use people::users::activity::Activity;
use store::claims;
use store::{ByteBudget, Tx};

/// An object, its order, and when it was received, in milliseconds since the epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReceivedObject<'m> {
    pub object: &'m Object<'m>,
    pub at: OrderTime,
    pub received_at: i64,
}

/// What a user did.
#[derive(Debug)]
pub(super) struct UserAction<'m> {
    pub user: UserIndex,
    pub action: Action<'m>,
}

#[derive(Debug)]
pub(super) enum Action<'m> {
    Event(&'m Event<'m>),
    Purchase {
        purchase: &'m Purchase<'m>,
        /// Milliseconds since the epoch.
        received_at: i64,
    },
}

impl<'m> UserAction<'m> {
    fn kind(&self) -> Kind {
        match self.action {
            Action::Event(_) => Kind::Events,
            Action::Purchase { .. } => Kind::Purchases,
        }
    }

    pub fn purchase(&self) -> Option<&'m Purchase<'m>> {
        match self.action {
            Action::Event(_) => None,
            Action::Purchase { purchase, .. } => Some(purchase),
        }
    }
}

/// Batches of one workspace, which one transaction applies.
pub(super) struct BulkUpdate<'a> {
    ingest: &'a Ingest,
    tx: &'a mut Tx,
    workspace: &'a Workspace,
    rules: &'a CampaignRules,
    batches: &'a [ReceivedBatch<'a>],
    objects: Vec<ReceivedObject<'a>>,
    users: UserSet<'a>,
    /// The database's time, in milliseconds since the epoch.
    now: i64,
    /// Grouped by user. Until [`lock_activity`](Self::lock_activity), some users may turn out to be
    /// erased.
    actions: Vec<UserAction<'a>>,
    tally: &'a mut Tally,
}

impl<'a> BulkUpdate<'a> {
    /// Finds the users of the objects, and locks the profiles that may change.
    pub async fn look_up_users(
        ingest: &'a Ingest,
        tx: &'a mut Tx,
        PreparedWorkspace { workspace, rules }: &'a PreparedWorkspace,
        batches: &'a [ReceivedBatch<'a>],
        budget: &'a mut ByteBudget,
        tally: &'a mut Tally,
    ) -> Result<Self, ApplyError> {
        let objects: Vec<ReceivedObject<'a>> = batches
            .iter()
            .flat_map(|ReceivedBatch { batch, at, .. }| {
                let (at, received_at) = (*at, batch.received_at);
                batch.objects.iter().map(move |object| ReceivedObject { object, at, received_at })
            })
            .collect();
        let identifiers =
            ingest.cores.compute_here(workspace.id, || IdentifierSet::from_objects(&objects));
        let ids = &ingest.ids;
        let users = UserSet::look_up(tx, workspace.id, &identifiers, ids, budget).await?;
        let now = claims::now(tx).await?;
        let actions = Vec::with_capacity(objects.len());
        Ok(Self { ingest, tx, workspace, rules, batches, objects, users, now, actions, tally })
    }

    /// Applies the objects in order: changes profiles, and collects events and purchases.
    pub fn change_profiles(&mut self) -> Result<(), ApplyError> {
        for (index, received) in self.objects.iter().enumerate() {
            let ReceivedObject { object, at, received_at } = *received;
            self.users.decide(decisions::by_address(received, self.now));
            if object.address().is_some() {
                self.tally.apply(Kind::Attributes);
                continue;
            }
            let user = match self.users.find_or_create(object, at) {
                Ok(user) => user,
                Err(reason) => {
                    self.tally.drop(object.kind(), reason);
                    continue;
                }
            };
            let action = match object {
                Object::Event(event) => Action::Event(event),
                Object::Purchase(purchase) => Action::Purchase { purchase, received_at },
                Object::Identity(_) => continue,
                Object::Attributes(attributes) => {
                    match self.users.change(user, attributes, at, self.now)? {
                        Ok(mismatches) => {
                            if mismatches > 0 {
                                self.tally.mismatch(mismatches, index, self.users.service_id(user));
                            }
                            self.tally.apply(Kind::Attributes);
                        }
                        Err(reason) => self.tally.drop(Kind::Attributes, reason),
                    }
                    continue;
                }
            };
            self.actions.push(UserAction { user, action });
        }
        let requests =
            self.batches.iter().map(|received| (received.batch.objects.len(), received.request_id));
        self.tally.set_request_of_first_mismatch(requests);
        // A stable sort: keeps each user's order. The next phases need the grouping.
        self.actions.sort_by_key(|action| action.user);
        Ok(())
    }

    /// Locks and reads the activity of users with events or purchases. Drops the actions of users
    /// that do not exist.
    pub async fn lock_activity(&mut self) -> Result<HashMap<UserIndex, Vec<u8>>, ApplyError> {
        let mut users: Vec<UserIndex> = self.actions.iter().map(|action| action.user).collect();
        users.dedup();
        let stored = self.users.lock_activity(self.tx, &users).await?;
        let (users, tally) = (&self.users, &mut *self.tally);
        self.actions.retain(|action| {
            let exists = users.exists(action.user);
            if !exists {
                tally.drop(action.kind(), Dropped::UnknownUser);
            }
            exists
        });
        Ok(stored)
    }

    /// Looks up when purchases of the users count as revenue.
    pub async fn look_up_windows(&mut self) -> Result<Windows, ApplyError> {
        let (workspace, rules) = (self.workspace.id, self.rules);
        Ok(Windows::look_up(self.tx, workspace, rules, &self.actions, &self.users).await?)
    }

    /// Adds the actions to the users' activity; returns the activity that has changed.
    pub fn change_activity(
        &mut self,
        stored: &HashMap<UserIndex, Vec<u8>>,
        windows: &Windows,
    ) -> Result<Vec<(UserIndex, Vec<u8>)>, ApplyError> {
        // If a gateway's clock is ahead, data must not be pruned too early.
        let received_at = self.batches.iter().map(|received| received.batch.received_at).max();
        let today = utc_date(from_ms(received_at.unwrap_or_default().min(self.now)));
        let mut changed = Vec::with_capacity(stored.len());
        for actions in self.actions.chunk_by(|a, b| a.user == b.user) {
            let user = actions[0].user;
            let service_id = self.users.service_id(user);
            let before = stored.get(&user);
            let mut activity = match before {
                Some(body) => {
                    Activity::decode(body).map_err(|why| ApplyError::Activity(service_id, why))?
                }
                None => Activity::default(),
            };
            for action in actions {
                self.tally.apply(action.kind());
                match action.action {
                    Action::Event(event) => record_event(event, &mut activity),
                    Action::Purchase { purchase, .. } => {
                        record_purchase(purchase, &mut activity);
                        if windows.contains(service_id, purchase.time) {
                            record_revenue(purchase, &mut activity, self.workspace, self.tally);
                        } else {
                            self.tally.outside_windows += 1;
                        }
                    }
                }
            }
            activity.prune(today);
            self.tally.names_evicted += activity.prune_names();
            let after = activity.encode();
            if before != Some(&after) {
                changed.push((user, after));
            }
        }
        Ok(changed)
    }

    /// The orders of the campaigns that the purchases start.
    pub fn orders(&self) -> TriggeredOrders {
        let request_id = self.batches.first().map_or("", |first| first.request_id);
        let context = OrderContext { workspace_id: self.workspace.id, now: self.now, request_id };
        triggers::orders(&self.actions, &self.users, self.rules, context)
    }

    /// Writes the changed users, begins the dispatches of the orders, and lists the products that
    /// were bought.
    pub async fn write(
        self,
        activity: Vec<(UserIndex, Vec<u8>)>,
        triggered: TriggeredOrders,
    ) -> Result<(), ApplyError> {
        let Self { ingest, tx, workspace, users, actions, tally, .. } = self;
        tally.users_created += users.write(tx, activity).await?;
        for order in &triggered.orders {
            dispatch::begin(tx, order).await?;
        }
        tally.triggered += triggered.orders.len() as u64;
        tally.stale_triggers += triggered.stale;
        // Locked last, because all users share it.
        let purchases = actions.iter().filter_map(UserAction::purchase);
        let bought: Vec<&str> = purchases.map(|purchase| purchase.product_id.as_ref()).collect();
        let listed = ingest.products.list(tx, workspace.id, bought.into_iter()).await?;
        tally.unlisted += listed.unlisted;
        tally.listed.push(listed);
        Ok(())
    }
}

fn record_event(event: &Event<'_>, activity: &mut Activity<'_>) {
    let properties = event.properties.as_ref().map(|json| json.get());
    activity.record_event(&event.name, event.time, 1, properties);
}

fn record_purchase(purchase: &Purchase<'_>, activity: &mut Activity<'_>) {
    let Purchase { product_id, quantity, time, .. } = purchase;
    let properties = purchase.properties.as_ref().map(|json| json.get());
    activity.record_purchase(product_id, *time, u64::from(*quantity), properties);
}

fn record_revenue(
    Purchase { currency, price, quantity, .. }: &Purchase<'_>,
    activity: &mut Activity<'_>,
    workspace: &Workspace,
    tally: &mut Tally,
) {
    let revenue = price.saturating_mul(i64::from(*quantity));
    if !activity.record_revenue(currency, revenue) {
        tally.revenue_at_maximum += 1;
    }
    if !workspace.has_rate(currency) {
        tally.without_rate(currency);
    }
}
