//! The setting of dispatch tests, and their users.

use std::collections::BTreeMap;
use std::io::Cursor;

use longshore::dispatches::{self, DispatchSummary};
use longshore::messages::dispatch;
use longshore::messages::dispatch::state::State;
use longshore::messages::order::{Kind, Named, Order, SubscriptionState, Target, Who};
use longshore::users::import::{Importer, Input};
use longshore::worker::{self, Role};
use longshore::workspaces::{self, Workspace};
use serde_json::{Value, json};
use store::StoreError;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::receiver::Receiver;
use crate::support::scripted_relay::ScriptedRelay;
use crate::support::stores::TestStore;

pub const CAMPAIGN: &str = "4f0e6b1a-9c3d-4e7f-8a2b-1c0d9e8f7a61";
pub const VARIATION: &str = "4f0e6b1a-9c3d-4e7f-8a2b-1c0d9e8f7a62";
pub const SEGMENT: &str = "4f0e6b1a-9c3d-4e7f-8a2b-1c0d9e8f7a63";
pub const NOT_LARGE: &str = "4f0e6b1a-9c3d-4e7f-8a2b-1c0d9e8f7a65";
pub const SMS_GROUP: &str = "4f0e6b1a-9c3d-4e7f-8a2b-1c0d9e8f7a66";
pub const WHATS_APP_GROUP: &str = "4f0e6b1a-9c3d-4e7f-8a2b-1c0d9e8f7a67";
pub const APP: &str = "4f0e6b1a-9c3d-4e7f-8a2b-1c0d9e8f7a64";

/// A workspace whose webhooks a real receiver takes, and a worker in this process.
pub struct World {
    pub installation: Installation,
    pub workspace: Workspace,
    pub receiver: Receiver,
    pub relay: ScriptedRelay,
    stop: CancellationToken,
    worker: Option<JoinHandle<()>>,
}

fn file(receiver: &Receiver, relay: &ScriptedRelay) -> Value {
    let even = json!({ "custom_attribute": {
        "custom_attribute_name": "is_even", "comparison": "equals", "value": true,
    } });
    let large = json!({ "purchase_property": {
        "property_name": "size", "comparison": "not_equal", "value": "L",
    } });
    let provider = |path: &str| json!({ "url": receiver.url(path), "secret": "a-secret-of-more-than-24-bytes,-plain" });
    let group =
        |id: &str, channel: &str| json!({ "id": id, "channel": channel, "from": "+15550100" });
    json!({
        "workspace": "acme",
        "control_group": { "percent": 50 },
        "segments": [
            { "id": SEGMENT, "name": "Even", "audience": even },
            { "id": NOT_LARGE, "name": "Not large", "audience": large },
        ],
        "subscription_groups": [group(SMS_GROUP, "sms"), group(WHATS_APP_GROUP, "whats_app")],
        "email": { "smtp": relay.url("", "") },
        "apps": [{ "id": APP, "name": "A", "platform": "ios" }],
        "campaigns": [{
            "id": CAMPAIGN, "name": "Welcome", "type": "api", "variations": [{ "id": VARIATION }],
        }],
        "frequency_capping": [{ "messages": 2, "days": 7, "channel": "webhook" }],
        "providers": {
            "push": provider("/push"), "sms": provider("/sms"), "whats_app": provider("/whats_app"),
        },
    })
}

impl World {
    pub async fn new(store: TestStore) -> Self {
        let (receiver, relay) = (Receiver::start([]).await, ScriptedRelay::start(&[], []).await);
        let installation =
            Installation::open(store, &file(&receiver, &relay).to_string(), |config| {
                config.allow_private = vec!["127.0.0.0/8".parse().unwrap()];
                config.worker.poll_ms = 20;
                config.messages.part_users = 10;
                config.messages.batch_users = 3;
                config.messages.retry_ms = 50;
            })
            .await;
        let mut tx = installation.app.store.snapshot().await.unwrap();
        let workspace = workspaces::by_id(&mut tx, installation.workspace).await.unwrap().unwrap();
        drop(tx);
        let mut world = Self {
            installation,
            workspace,
            receiver,
            relay,
            stop: CancellationToken::new(),
            worker: None,
        };
        world.work();
        world
    }

    /// Applies the workspace file with a change.
    pub async fn apply(&self, change: impl FnOnce(&mut Value)) {
        let mut file = file(&self.receiver, &self.relay);
        change(&mut file);
        self.installation.apply(&file.to_string(), false).await;
    }

    /// The records of the developer console, the latest first.
    pub async fn records(&self) -> Vec<Value> {
        let lines = self.installation.printed(&["console-log", "--json"]).await;
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub fn work(&mut self) {
        let (app, stop) = (self.installation.app.clone(), self.stop.clone());
        self.worker = Some(tokio::spawn(async move {
            worker::run(app, &[Role::Messages], stop).await.unwrap();
        }));
    }

    /// Ends the worker.
    pub async fn rest(&mut self) {
        self.stop.cancel();
        self.worker.take().expect("a worker").await.unwrap();
        self.stop = CancellationToken::new();
    }

    pub async fn close(mut self) {
        self.receiver.release();
        self.rest().await;
        self.installation.app.log.close().await;
    }

    pub async fn import(&self, records: &[Value]) {
        let lines: Vec<String> = records.iter().map(Value::to_string).collect();
        let input = Input::new("records", Cursor::new(lines.join("\n").into_bytes()));
        let app = &self.installation.app;
        let importer = Importer::new(app.store.clone(), app.clock.clone(), self.workspace.clone());
        let summary = importer.run(vec![input], |_| {}).await.unwrap();
        assert_eq!((summary.lines, summary.bad), (records.len() as u64, 0));
    }

    /// Users u0 and on, of which every second one is in the segment.
    pub async fn create_users(&self, users: usize) {
        let record = |number: usize| {
            json!({
                "external_id": format!("u{number}"),
                "custom_attributes": { "is_even": number.is_multiple_of(2) },
            })
        };
        self.import(&(0..users).map(record).collect::<Vec<_>>()).await;
    }

    /// An order of a webhook, for everybody.
    pub fn order(&self) -> Order {
        let webhook = json!({
            "url": self.receiver.url("/hook"),
            "request_method": "POST",
            "body": "{{${external_id}}} {{api_trigger_properties.${word}}}",
            "message_variation_id": VARIATION,
        });
        Order {
            dispatch_id: Uuid::new_v4(),
            workspace_id: self.installation.workspace,
            kind: Kind::Send,
            campaign_id: None,
            send_id: None,
            messages: json!({ "webhook": webhook }).as_object().unwrap().clone(),
            target: Target::default(),
            subscription_state: SubscriptionState::Subscribed,
            ignores_capping: false,
            canvas_entry_properties: None,
            trigger_properties: None,
            accepted_at: self.installation.app.clock.now_ms(),
            requested_by: None,
            request_id: "request-7".into(),
        }
    }

    pub fn campaign(&self) -> Order {
        Order { campaign_id: Some(CAMPAIGN.parse().unwrap()), ..self.order() }
    }

    pub async fn begin(&self, order: &Order) {
        let mut tx = self.installation.app.store.write().await.unwrap();
        dispatch::begin(&mut tx, order).await.unwrap();
        tx.commit().await.unwrap();
    }

    pub async fn shown(&self, order: &Order) -> DispatchSummary {
        let mut tx = self.installation.app.store.snapshot().await.unwrap();
        dispatches::summary(&mut tx, order.dispatch_id).await.unwrap().expect("a dispatch")
    }

    /// Begins an order and waits until it is done.
    pub async fn send(&self, order: &Order) -> DispatchSummary {
        self.begin(order).await;
        self.ends(order, State::Done).await
    }

    pub async fn ends(&self, order: &Order, state: State) -> DispatchSummary {
        eventually(&format!("it is {state:?}"), || async {
            let shown = self.shown(order).await;
            assert!(!shown.state.is_final() || shown.state == state, "{shown:?}");
            shown.state == state
        })
        .await;
        self.shown(order).await
    }

    /// What the receiver got: the bodies by the ids that they came under.
    pub fn received(&self) -> BTreeMap<String, String> {
        let received = self.receiver.received();
        let body_by_id = |request: &crate::support::receiver::Received| {
            let body = String::from_utf8(request.body.to_vec()).unwrap();
            (request.header("webhook-id").to_owned(), body)
        };
        received.iter().map(body_by_id).collect()
    }

    pub fn bodies(&self) -> Vec<String> {
        let mut bodies: Vec<String> =
            self.received().into_values().map(|body| body.trim().to_owned()).collect();
        bodies.sort();
        bodies
    }

    pub async fn statistics(&self) -> Value {
        let mut tx = self.installation.app.store.snapshot().await.unwrap();
        let found =
            dispatches::statistics(&mut tx, self.installation.workspace, None).await.unwrap();
        serde_json::to_value(found).unwrap()
    }

    pub async fn service_id(&self, external_id: &str) -> Uuid {
        let (store, clock) = (&self.installation.app.store, &self.installation.app.clock);
        let shown =
            longshore::users::find::show(store, clock, &self.workspace, external_id).await.unwrap();
        let shown: Value = serde_json::from_str(&shown).unwrap();
        shown["service_id"].as_str().unwrap().parse().unwrap()
    }

    pub async fn receipts(&self, user: Uuid) -> Result<usize, StoreError> {
        let mut tx = self.installation.app.store.snapshot().await?;
        let receipts = dispatch::receipts(&mut tx, self.installation.workspace, &[user], 0).await?;
        Ok(receipts.len())
    }
}

pub fn named(who: Who, word: &str) -> Named {
    Named {
        who,
        trigger_properties: serde_json::from_value(json!({ "word": word })).unwrap(),
        canvas_entry_properties: None,
        event_properties: None,
    }
}

pub fn external(id: &str) -> Who {
    Who::ExternalId(id.to_owned())
}

pub fn to_users(users: Vec<Named>) -> Target {
    Target { users, ..Target::default() }
}

pub fn segment() -> Option<Uuid> {
    Some(SEGMENT.parse().unwrap())
}
