//! Starts the campaigns whose trigger purchases match (docs/how-to/campaigns.md).
//!
//! Each purchase object starts a campaign once for its user, whatever its quantity. The users of a
//! batch share an order, as far as there is room. A user with two purchases is also in a second
//! order, because a dispatch has one message per user. The orders start in the transaction that
//! counts the purchases, so exactly once.

use std::collections::{BTreeMap, HashMap};

use uuid::Uuid;

use super::bulk::{Action, UserAction};
use super::campaign_rules::{CampaignRules, Triggered};
use super::user_set::UserSet;
use kit::json::TreeObject;
use messages::order::{Kind, Named, Order, SubscriptionState, Target, Who};
use people::audience::has_properties;

/// Maximum number of users of an order, and bytes of their purchases.
const MAX_USERS: usize = 500;
const MAX_BYTES: usize = 1 << 20;

/// The workspace, time and request of applied purchases.
#[derive(Clone, Copy)]
pub(super) struct OrderContext<'a> {
    pub workspace_id: i32,
    /// Milliseconds since the epoch.
    pub now: i64,
    pub request_id: &'a str,
}

/// The orders that purchases start.
#[derive(Debug, Default)]
pub(super) struct TriggeredOrders {
    pub orders: Vec<Order>,
    /// Number of starts that were skipped because the purchases were too old.
    pub stale: u64,
}

/// The orders that actions (grouped by user) start.
pub(super) fn orders(
    actions: &[UserAction<'_>],
    user_set: &UserSet<'_>,
    rules: &CampaignRules,
    context: OrderContext<'_>,
) -> TriggeredOrders {
    if rules.triggered.is_empty() {
        return TriggeredOrders::default();
    }
    let mut starts = Starts::default();
    for UserAction { user, action } in actions {
        if let Action::Purchase { purchase, received_at } = action
            && let Some(campaigns) = rules.triggered.get(purchase.product_id.as_ref())
        {
            let properties = purchase.properties.as_ref().map(|json| json.get());
            let age_ms = received_at.saturating_sub(purchase.time);
            starts.add(campaigns, user_set.service_id(*user), properties, age_ms);
        }
    }
    let stale = starts.stale;
    TriggeredOrders { orders: starts.orders(context), stale }
}

/// A user with a purchase that starts a campaign.
struct Start<'a> {
    user: Uuid,
    /// The purchase's properties as JSON.
    properties: Option<&'a str>,
}

/// Collects the starts of campaigns.
#[derive(Default)]
struct Starts<'a> {
    /// Number of starts so far, by campaign and user.
    counts: HashMap<(Uuid, Uuid), usize>,
    /// By campaign and number of the user's start.
    campaigns: BTreeMap<(Uuid, usize), CampaignStarts<'a>>,
    /// Number of starts that were skipped because the purchases were too old.
    stale: u64,
}

/// Starts that share an order of a campaign, as far as there is room.
struct CampaignStarts<'a> {
    campaign: &'a Triggered,
    starts: Vec<Start<'a>>,
}

impl<'a> Starts<'a> {
    /// Adds a purchase of a user, of the product of some campaigns, with its age when it was
    /// received.
    fn add(
        &mut self,
        campaigns: &'a [Triggered],
        user: Uuid,
        properties: Option<&'a str>,
        age_ms: i64,
    ) {
        let given = properties.and_then(|json| TreeObject::parse(json).ok()).unwrap_or_default();
        let matches = |campaign: &&Triggered| has_properties(&campaign.trigger.properties, &given);
        for campaign in campaigns.iter().filter(matches) {
            if age_ms > campaign.trigger.max_age_ms {
                self.stale += 1;
                continue;
            }
            let count = self.counts.entry((campaign.campaign_id, user)).or_default();
            let same_order = self
                .campaigns
                .entry((campaign.campaign_id, *count))
                .or_insert_with(|| CampaignStarts { campaign, starts: Vec::new() });
            same_order.starts.push(Start { user, properties });
            *count += 1;
        }
    }

    fn orders(self, context: OrderContext<'_>) -> Vec<Order> {
        let mut orders = Vec::new();
        for CampaignStarts { campaign, starts } in self.campaigns.into_values() {
            let mut rest = starts.as_slice();
            while !rest.is_empty() {
                let (first, others) = rest.split_at(fitting(rest));
                orders.push(order(campaign, first, context));
                rest = others;
            }
        }
        orders
    }
}

/// How many of the starts, at least one, fit into an order.
fn fitting(starts: &[Start<'_>]) -> usize {
    let mut bytes = 0;
    let fits = starts.iter().take(MAX_USERS).take_while(|start| {
        bytes += start.properties.map_or(0, str::len);
        bytes <= MAX_BYTES
    });
    fits.count().max(1)
}

fn order(campaign: &Triggered, starts: &[Start<'_>], context: OrderContext<'_>) -> Order {
    let named = |Start { user, properties }: &Start<'_>| Named {
        event_properties: properties.and_then(|json| serde_json::from_str(json).ok()),
        ..Who::ServiceId(*user).into()
    };
    Order {
        // A new id each time: a transaction that was not committed leaves nothing.
        dispatch_id: Uuid::new_v4(),
        workspace_id: context.workspace_id,
        kind: Kind::Triggered,
        campaign_id: Some(campaign.campaign_id),
        send_id: None,
        messages: campaign.messages.clone(),
        target: Target {
            users: starts.iter().map(named).collect(),
            audience: campaign.audience.clone(),
            ..Target::default()
        },
        subscription_state: SubscriptionState::default(),
        ignores_capping: false,
        canvas_entry_properties: None,
        trigger_properties: None,
        accepted_at: context.now,
        requested_by: None,
        request_id: context.request_id.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;
    use content::campaigns::Trigger;
    use kit::json::ObjectText;

    fn campaign(properties: Value) -> Triggered {
        let trigger = json!({ "purchase": { "product_id": "tea", "properties": properties } });
        Triggered {
            campaign_id: Uuid::new_v4(),
            trigger: Trigger::read(&trigger.as_object().unwrap().into()).unwrap(),
            messages: Map::new(),
            audience: Some(everybody()),
        }
    }

    fn everybody() -> ObjectText {
        (&TreeObject::parse(r#"{"AND":[]}"#).unwrap()).into()
    }

    const CONTEXT: OrderContext<'_> = OrderContext { workspace_id: 7, now: 5, request_id: "r" };

    fn users(order: &Order) -> Vec<(Uuid, Option<Value>)> {
        let user = |named: &Named| match named.who {
            Who::ServiceId(id) => {
                let properties = named.event_properties.as_ref();
                (id, properties.map(|all| serde_json::from_str(all.as_str()).unwrap()))
            }
            _ => panic!("{named:?}"),
        };
        order.target.users.iter().map(user).collect()
    }

    #[test]
    fn each_purchase_starts_the_campaign() {
        let campaigns = [campaign(json!({})), campaign(json!({ "size": "L" }))];
        let [all, large] = &campaigns;
        let (ann, bob) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let mut starts = Starts::default();
        for (user, properties) in
            [(ann, Some(r#"{"size":"L"}"#)), (bob, None), (ann, Some(r#"{"size":"S"}"#))]
        {
            starts.add(&campaigns, user, properties, 0);
        }
        let orders = starts.orders(CONTEXT);
        let users_of = |campaign: &Triggered| {
            let own = orders.iter().filter(|order| order.campaign_id == Some(campaign.campaign_id));
            own.map(users).collect::<Vec<_>>()
        };
        let (l, s) = (Some(json!({ "size": "L" })), Some(json!({ "size": "S" })));
        assert_eq!(users_of(all), [vec![(ann, l.clone()), (bob, None)], vec![(ann, s)]]);
        assert_eq!(users_of(large), [vec![(ann, l)]]);
        assert_eq!(orders[0].target.audience, Some(everybody()));
        let ids: std::collections::HashSet<Uuid> = orders.iter().map(|o| o.dispatch_id).collect();
        assert_eq!(ids.len(), 3);
    }

    #[test]
    fn a_purchase_starts_a_campaign_up_to_its_age() {
        let campaigns = [campaign(json!({}))];
        let max_age_ms = campaigns[0].trigger.max_age_ms;
        let mut starts = Starts::default();
        for (user, age_ms) in [(1, -5), (2, max_age_ms), (3, max_age_ms + 1), (4, i64::MAX)] {
            starts.add(&campaigns, Uuid::from_u128(user), None, age_ms);
        }
        assert_eq!(starts.stale, 2);
        let orders = starts.orders(CONTEXT);
        let started: Vec<u128> =
            orders.iter().flat_map(users).map(|(id, _)| id.as_u128()).collect();
        assert_eq!(started, [1, 2]);
    }

    #[test]
    fn no_order_is_giant() {
        let campaigns = [campaign(json!({}))];
        let wide = json!({ "text": "x".repeat(40 << 10) }).to_string();
        for (count, properties, max_users) in
            [(10_000, None, MAX_USERS), (100, Some(wide.as_str()), MAX_BYTES / (40 << 10))]
        {
            let mut starts = Starts::default();
            (0..count).for_each(|n| starts.add(&campaigns, Uuid::from_u128(n), properties, 0));
            let orders = starts.orders(CONTEXT);
            assert_eq!(
                orders.iter().map(|order| order.target.users.len() as u128).sum::<u128>(),
                count
            );
            assert!(orders.iter().all(|order| order.target.users.len() <= max_users));
        }
    }
}
