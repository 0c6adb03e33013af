//! A fleet and a standalone that have done something of everything, so that what they show of it
//! is there.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use log::NewMessage;
use longshore::topics;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::api::answer;
use crate::support::fleet::{Backend, Fleet};
use crate::support::receiver::{Receiver, ScriptedResponse};
use crate::support::scripted_relay::{Action, ScriptedRelay, Step};
use crate::support::{Api, WorkspaceFile, callbacks, eventually, stores};

const RECEIPT: &str = "eeee0000-0000-4000-8000-000000000001";
const EVENTS_SECRET: &str = "secret-of-the-events-of-the-relay";
const POSTBACK_SECRET: &str = "secret-of-the-states-of-emails";

pub struct World {
    fleet: Fleet,
    alone: Fleet,
    acme: Api,
    /// Of a workspace whose exports may have one user.
    small: Api,
    relay: ScriptedRelay,
    /// Of messages.
    hooks: Receiver,
    /// Of callbacks and status postbacks.
    receiver: Receiver,
}

impl World {
    pub async fn start() -> Self {
        let settings = [
            ("LONGSHORE_OPS__WATCH_SECONDS", "1".to_owned()),
            ("LONGSHORE_DELIVERIES__RETRY_MS", "50".to_owned()),
            ("LONGSHORE_MESSAGES__RETRY_MS", "50".to_owned()),
        ];
        // The relay does not take the second email the first time.
        let ends = [Action::Delay(std::time::Duration::ZERO), Action::Reply(451, "later")];
        let relay = ScriptedRelay::start(&[], ends.map(|does| (Step::End, does))).await;
        let (hooks, receiver) = tokio::join!(Receiver::start([]), Receiver::start([]));
        let (fleet, alone) = tokio::join!(
            Fleet::start(Backend::Fleet(1), &settings),
            Fleet::start(Backend::Embedded, &settings)
        );
        let items = [json!({ "id": "r1", "City": "Oslo" }), json!({ "id": "r2", "City": "Bern" })];
        fleet.write_file("items.ndjson", items.map(|item| item.to_string()).join("\n").as_bytes());
        let small = WorkspaceFile::new("small").with("export_limits", json!({ "users": 1 }));
        let apis = fleet.apply(&[acme(&relay, &receiver), small]).await;
        let [acme, small] = apis.try_into().unwrap_or_else(|_| panic!("two workspaces"));
        Self { fleet, alone, acme, small, relay, hooks, receiver }
    }

    /// The fleet is where deploy/kubernetes has one.
    pub fn installations(&self) -> BTreeMap<&str, Vec<String>> {
        [("longshore", self.fleet.ops_addresses()), ("alone", self.alone.ops_addresses())].into()
    }

    /// Everything but what would be trouble.
    pub async fn work(&self) {
        for workspace in ["acme", "small"] {
            let users = ["ann", "bob"].map(|id| {
                json!({ "external_id": id, "email": format!("{id}@people.example") }).to_string()
            });
            self.fleet.import(workspace, &users).await;
        }
        self.track().await;
        self.edit().await;
        tokio::join!(self.send(), self.send_emails(), self.refuse(), self.bury());
        self.export().await;
        self.fleet.run(&["backup", "record"]).await;
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let answer = self.acme.post(path, &body).await;
        assert!(answer.status.is_success(), "{path}: {answer:?}");
        answer.body
    }

    async fn track(&self) {
        let tracked = json!({
            "attributes": [
                { "external_id": "ann", "first_name": "Ann" },
                { "external_id": "cy", "first_name": "Cy" },
                { "external_id": "nobody", "_update_existing_only": true, "first_name": "N" },
                { "first_name": "of nobody" },
            ],
            "events": [{ "external_id": "ann", "name": "came", "time": "2026-01-01T00:00:00Z" }],
            // There is no rate for this currency.
            "purchases": [{
                "external_id": "ann", "product_id": "tea", "currency": "JPY", "price": 150,
                "time": Timestamp::now().to_string(),
            }],
        });
        self.post("/users/track", tracked.clone()).await;
        for _ in 0..2 {
            let request = self.acme.request(Method::POST, "/users/track").json(&tracked);
            answer(request.header("idempotency-key", "the-same")).await;
        }
        self.fleet.applied().await;
    }

    async fn edit(&self) {
        let items = "/catalogs/restaurants/items";
        let edits =
            json!({ "items": [{ "id": "r1", "City": "Rome" }, { "id": "r9", "City": "X" }] });
        let taken = self.acme.patch(items, &edits).await;
        assert_eq!(taken.status, 202, "{taken:?}");
        let refused = self.acme.patch("/catalogs/hotels/items", &edits).await;
        assert_eq!(refused.status, 404, "{refused:?}");
    }

    /// Messages to users by webhook, one of them not taken the first time, and a schedule.
    async fn send(&self) {
        self.hooks.script([ScriptedResponse::Status(503)]);
        let hook = json!({
            "url": self.hooks.url("/"), "request_method": "POST", "body": "hello",
        });
        let users = json!({
            "external_user_ids": ["ann", "bob", "nobody"], "messages": { "webhook": hook },
        });
        self.post("/messages/send", users.clone()).await;
        let mut later = users;
        let soon = Timestamp::now() + SignedDuration::from_secs(5);
        later["schedule"] = json!({ "time": soon.to_string() });
        self.post("/messages/schedule/create", later).await;
        self.hooks.wait_for(5).await;
    }

    /// Transactional emails: two are what the campaign's package covers.
    async fn send_emails(&self) {
        for (number, user) in ["ann", "bob", "ann"].into_iter().enumerate() {
            let body = json!({
                "recipient": { "external_user_id": user },
                "external_send_id": format!("email-{number}"),
            });
            self.post(&format!("/transactional/v1/campaigns/{RECEIPT}/send"), body).await;
        }
        eventually("the emails are taken", || async { self.relay.accepted().len() >= 3 }).await;
        let id = self.relay.accepted()[0].header("Message-ID").expect("a Message-ID");
        let text = json!({ "events": [{ "type": "delivered", "id": id }] }).to_string();
        let now = Timestamp::now().as_second().to_string();
        let signature = callbacks::sign(EVENTS_SECRET.as_bytes(), "1", &now, text.as_bytes());
        let address = format!("{}/email/events?workspace=acme", self.fleet.base());
        let request = reqwest::Client::new().post(address).body(text);
        let request = request.header("webhook-id", "1").header("webhook-timestamp", now);
        let request = request.header("webhook-signature", signature);
        let answer = request.header("content-type", "application/json").send().await;
        assert_eq!(answer.expect("an answer").status(), 200);
    }

    /// A call more than the budget has.
    async fn refuse(&self) {
        let limit = || async { self.acme.get("/campaigns/list").await.status.as_u16() };
        assert_eq!((limit().await, limit().await), (200, 429));
    }

    /// A message that no worker can read.
    async fn bury(&self) {
        let message = NewMessage {
            topic: topics::TRACKING,
            key: b"ann".to_vec(),
            partition: None,
            payload: b"no objects".to_vec(),
            request_id: "buried".into(),
        };
        self.fleet.log().await.append(vec![message]).await.expect("it is appended");
        self.fleet.applied().await;
    }

    /// An export with a callback that is given up, and one of too many users.
    async fn export(&self) {
        let fields = json!(["external_id", "total_revenue"]);
        let body =
            json!({ "fields_to_export": fields, "callback_endpoint": self.receiver.url("/ok") });
        self.acme.done(&self.acme.export(&body).await.prefix).await;
        let told = || self.receiver.received().iter().any(|it| it.uri.path() == "/ok");
        eventually("the callback is there", || async { told() }).await;

        self.receiver.script(std::iter::repeat_n(ScriptedResponse::Status(503), 100_000));
        let body =
            json!({ "fields_to_export": fields, "callback_endpoint": self.receiver.url("/no") });
        self.acme.done(&self.acme.export(&body).await.prefix).await;
        let refused = || self.receiver.received().iter().any(|it| it.uri.path() == "/no");
        eventually("the callback was refused", || async { refused() }).await;
        // As if a day had passed.
        let database = self.fleet.database_url();
        let over = "UPDATE deliveries SET retry_until = 0 WHERE state = 'pending'";
        stores::execute(&database, over).await;
        let given_up = "SELECT count(*) FROM deliveries WHERE state = 'given_up'";
        stores::wait_for_count(&database, given_up, |count| count > 0).await;

        let body = json!({ "fields_to_export": ["external_id"] });
        self.small.failed(&self.small.export(&body).await.prefix).await;
    }

    pub async fn close(self) {
        tokio::join!(self.fleet.close(), self.alone.close());
    }
}

fn acme(relay: &ScriptedRelay, receiver: &Receiver) -> WorkspaceFile {
    let email =
        json!({ "from": "hello@acme.example", "subject": "Thanks", "body": "<p>Thanks</p>" });
    let receipt = json!({
        "id": RECEIPT, "name": "Receipt", "type": "transactional", "sla_per_hour": 2, "email": email,
    });
    let catalog = json!({
        "name": "restaurants", "items": "items.ndjson",
        "fields": [{ "name": "City", "type": "string" }],
    });
    WorkspaceFile::new("acme")
        .permitted(&[
            "users.export.global_control_group",
            "users.track",
            "catalogs.update_items",
            "campaigns.list",
            "messages.send",
            "messages.schedule.create",
            "transactional.send",
        ])
        .with("campaigns", json!([receipt]))
        .with("catalogs", json!([catalog]))
        .with("rate_limits", json!({ "campaigns.list": { "requests": 1, "seconds": 3600 } }))
        .with(
            "email",
            json!({
                "smtp": relay.url("", ""), "from": "hello@acme.example",
                "events_secret": EVENTS_SECRET,
                "status_postback": { "url": receiver.url("/states"), "secret": POSTBACK_SECRET },
            }),
        )
}
