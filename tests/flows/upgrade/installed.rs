//! An installation within this process, with everything in progress that there is: the source of a
//! release's corpus.

mod declared;

use std::net::SocketAddr;

use log::{NewMessage, offsets};
use longshore::app::App;
use longshore::topics;
use longshore::worker::{self, Role};
use longshore::{documented_routes, gateway};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use self::declared::{APP, CANVAS, RECEIPT, SEGMENT, SMS_GROUP, TOKEN, WELCOME};
use crate::support::api::answer;
use crate::support::installation::Installation;
use crate::support::receiver::{Receiver, ScriptedResponse};
use crate::support::scripted_relay::ScriptedRelay;
use crate::support::stores::TestStore;
use crate::support::{Api, eventually, process, stores};

pub use self::declared::{KEY, SIGNS};

/// What every corpus is sealed with: of nobody's installation.
pub const SECRET_KEY: &str = "Y29ycHVzIG9mIGEgcmVsZWFzZSwgbm9ib2R5J3Mga2U=";

/// Users; the last one is erased.
pub const USERS: usize = 24;

/// Where its receivers are, which rows name: an address of this machine that nobody else has.
#[derive(Clone, Copy)]
pub struct ReceiverAddresses(pub u8);

impl ReceiverAddresses {
    pub fn new(is_postgres: bool) -> Self {
        Self(if is_postgres { 2 } else { 1 })
    }

    pub fn http(self) -> SocketAddr {
        SocketAddr::from(([127, 83, 0, self.0], 42_583))
    }

    pub fn mail(self) -> SocketAddr {
        SocketAddr::from(([127, 83, 0, self.0], 42_525))
    }

    fn url(self, path: &str) -> String {
        format!("http://{}{path}", self.http())
    }

    fn webhook(self, body: &str) -> Value {
        json!({ "url": self.url("/hook"), "request_method": "POST", "body": body })
    }
}

pub struct Installed {
    pub installation: Installation,
    pub receivers: ReceiverAddresses,
    pub api: Api,
    base: String,
    stop: CancellationToken,
}

impl Installed {
    /// With all that is declared, users, and a gateway; nobody works.
    pub async fn new(store: TestStore) -> Self {
        let receivers = ReceiverAddresses::new(store.config.database.url.is_some());
        let installation = Installation::open(store, "workspace: acme", |config| {
            config.secret_key = Some(SECRET_KEY.to_owned().into());
            config.gateway.listen = SocketAddr::from(([127, 0, 0, 1], 0));
            config.allow_private = vec!["127.0.0.0/8".parse().unwrap()];
            config.exports.users_per_file = 2;
            config.exports.parts_in_flight = 1;
            config.worker.poll_ms = 20;
            config.deliveries.retry_ms = 500;
        })
        .await;
        let app = &installation.app;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let base = format!("http://{}", listener.local_addr().expect("an address"));
        let router = gateway::router(app.gateway.clone(), documented_routes(app));
        let stop = CancellationToken::new();
        tokio::spawn(gateway::serve(app.gateway.clone(), router, listener, stop.clone()));
        let installed = Self { api: Api::new(&base, KEY), base, installation, receivers, stop };
        installed.declare().await;
        installed
    }

    async fn declare(&self) {
        let directory = &self.installation.store.config.data;
        let write = |name: &str, text: &str| {
            let file = directory.join(name);
            std::fs::write(&file, text).expect("the file is written");
            file.display().to_string()
        };
        write(
            "restaurants.ndjson",
            "{\"id\":\"r1\",\"City\":\"Oslo\",\"Rating\":4.5}\n{\"id\":\"r2\",\"City\":\"Rome\"}\n",
        );
        self.run(&["apply", &write("acme.yaml", &self.receivers.file())]).await;
        let users: Vec<String> = (0..USERS).map(|n| user(n).to_string()).collect();
        self.run(&["import", &write("users.ndjson", &(users.join("\n") + "\n"))]).await;
        self.run(&["invalid-numbers", "add", &write("numbers.txt", "+15550199\n")]).await;
        for name in ["restaurants.ndjson", "acme.yaml", "users.ndjson", "numbers.txt"] {
            std::fs::remove_file(directory.join(name)).expect("it is removed");
        }
    }

    /// Runs a command of the binary, with the key of the corpus.
    async fn run(&self, arguments: &[&str]) {
        let mut environment = self.installation.store.environment();
        environment.insert("LONGSHORE_SECRET_KEY".into(), SECRET_KEY.into());
        environment.insert("LONGSHORE_ALLOW_PRIVATE".into(), "127.0.0.0/8".into());
        let data = &self.installation.store.config.data;
        let mut command = process::command(data, &environment);
        command.args(arguments);
        let output = process::output(command).await;
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {error}");
    }

    pub fn app(&self) -> &App {
        &self.installation.app
    }

    pub fn database_url(&self) -> String {
        self.app().config.database_url()
    }

    async fn wait_for_count(&self, sql: &'static str, wanted: impl Fn(i64) -> bool) {
        stores::wait_for_count(&self.database_url(), sql, wanted).await;
    }

    /// Works in this process until `done`.
    async fn work(&self, roles: &[Role], done: impl Future<Output = ()>) {
        let stop = CancellationToken::new();
        let working = tokio::spawn({
            let (app, roles, stop) = (self.app().clone(), roles.to_vec(), stop.clone());
            async move { worker::run(app, &roles, stop).await }
        });
        done.await;
        stop.cancel();
        working.await.expect("no panic").expect("it works");
    }

    pub async fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.api.post(path, body).await;
        assert_eq!(answer.status, 201, "{path} {answer:?}");
        assert!(answer.body["errors"].is_null(), "{path} {answer:?}");
        answer.body
    }

    async fn applied(&self) {
        let app = self.app();
        for topic in [topics::TRACKING, topics::CATALOGS, topics::MESSAGES] {
            let end: i64 = app
                .log
                .topic_offsets(topic)
                .await
                .unwrap()
                .ranges
                .iter()
                .map(|range| range.end)
                .sum();
            eventually("all is applied", || async {
                let mut tx = app.store.snapshot().await.unwrap();
                let positions = offsets::positions(&mut tx, topic).await.unwrap();
                positions.iter().map(|position| position.next).sum::<i64>() == end
            })
            .await;
        }
    }

    /// What was done before: there are results of every kind. Answers the receiver, which takes
    /// nothing more.
    pub async fn past(&self) -> Receiver {
        let receiver = Receiver::start_at(self.receivers.http(), []).await;
        let relay = ScriptedRelay::start_at(self.receivers.mail(), &[], []).await;
        self.work(&Role::ALL, async {
            self.post("/users/track", &json!({
                "attributes": (0..6).map(|n| json!({ "external_id": id(n), "visits": { "inc": 1 } }))
                    .collect::<Vec<_>>(),
                "events": [{ "external_id": id(1), "name": "seen", "time": now(),
                             "properties": { "page": 7 } }],
                "purchases": [
                    { "external_id": id(1), "product_id": "tea", "currency": "EUR", "price": 2,
                      "quantity": 2, "time": now(), "properties": { "leaf": "green" } },
                    { "external_id": id(2), "product_id": "shoes", "currency": "USD", "price": 50,
                      "time": now(), "properties": { "size": "XL" } },
                ],
            }))
            .await;
            self.edit(json!([{ "id": "r1", "Rating": 4.7 }, { "id": "nobody", "Rating": 1 }])).await;
            self.applied().await;
            self.post("/messages/send", &json!({
                "broadcast": true, "segment_id": SEGMENT, "campaign_id": WELCOME,
                "messages": {
                    "webhook": self.receivers.webhook("past {{${external_id}}}"),
                    "email": { "app_id": APP, "from": "Acme <hello@acme.example>",
                               "subject": "past {{${external_id}}}", "body": "Hello" },
                    "content_card": { "type": "CLASSIC", "title": "past", "description": "Hello",
                                      "expire_at": "2127-01-01T00:00:00Z" },
                    "sms": { "subscription_group_id": SMS_GROUP, "app_id": APP, "body": "past" },
                },
            }))
            .await;
            self.receipt("past", 3).await;
            let body = json!({
                "schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"],
                "userName": "bob@acme.example", "name": { "givenName": "Bob", "familyName": "Lee" },
                "department": "CRM",
            });
            let call = reqwest::Client::new()
                .request(Method::POST, format!("{}/scim/v2/Users", self.base))
                .bearer_auth(TOKEN)
                .header("X-Request-Origin", "corpus")
                .json(&body);
            let made = answer(call).await;
            assert_eq!(made.status, 201, "{made:?}");
            let callback = self.receivers.url("/callback");
            let body = json!({ "fields_to_export": ["external_id", "purchases"],
                               "callback_endpoint": callback });
            let prefix = self.api.export(&body).await.prefix;
            self.api.done(&prefix).await;
            self.damaged().await;
            self.wait_for_count("SELECT count(*) FROM dead_letters", |count| count == 1).await;
            self.wait_for_count("SELECT count(*) FROM console_log", |count| count == 1).await;
            self.settled().await;
        })
        .await;
        self.run(&["users", "delete", &id(USERS - 1), "--workspace", "acme"]).await;
        drop(relay);
        receiver.script(std::iter::repeat_n(ScriptedResponse::Status(503), 10_000));
        receiver
    }

    /// Nothing is left to be done.
    async fn settled(&self) {
        for sql in [
            "SELECT count(*) FROM claims WHERE kind NOT IN ('export_cleanup', 'activity_sweep')",
            "SELECT count(*) FROM messages WHERE state IN ('pending', 'waiting')",
            "SELECT count(*) FROM deliveries WHERE state = 'pending'",
            "SELECT count(*) FROM transactional_emails WHERE state = 'processing'",
        ] {
            self.wait_for_count(sql, |count| count == 0).await;
        }
    }

    async fn damaged(&self) {
        let message = NewMessage {
            topic: topics::TRACKING,
            key: Vec::new(),
            partition: Some(0),
            payload: b"{damaged".to_vec(),
            request_id: "damaged".to_owned(),
        };
        self.app().log.append(vec![message]).await.expect("it is appended");
    }

    async fn edit(&self, items: Value) {
        let path = "/catalogs/restaurants/items";
        let answer = self.api.patch(path, &json!({ "items": items })).await;
        assert_eq!(answer.status, 202, "{answer:?}");
    }

    async fn receipt(&self, order: &str, n: usize) {
        let body = json!({
            "external_send_id": format!("send-{order}"),
            "trigger_properties": { "order": order },
            "recipient": { "external_user_id": id(n), "attributes": { "first_name": order } },
        });
        self.post(&format!("/transactional/v1/campaigns/{RECEIPT}/send"), &body).await;
    }

    /// What is begun and came to no end, for want of those who receive it, and in the middle.
    pub async fn under_way(&self) {
        self.work(&Role::ALL, async {
            self.post(
                "/messages/send",
                &json!({
                    "external_user_ids": [id(1), id(2)],
                    "messages": {
                        "webhook": self.receivers.webhook("begun {{${external_id}}}"),
                        "email": { "app_id": APP, "from": "Acme <hello@acme.example>",
                                   "subject": "begun {{${external_id}}}", "body": "Hello" },
                    },
                }),
            )
            .await;
            self.receipt("begun", 4).await;
            let body = json!({ "fields_to_export": ["external_id"],
                               "callback_endpoint": self.receivers.url("/callback-begun") });
            let prefix = self.api.export(&body).await.prefix;
            self.api.done(&prefix).await;
            self.wait_for_count("SELECT count(*) FROM messages WHERE state = 'waiting'", |n| {
                n == 4
            })
            .await;
            self.wait_for_count(
                "SELECT count(*) FROM deliveries WHERE state = 'pending' AND attempts > 0",
                |n| n == 1,
            )
            .await;
            self.wait_for_count(
                "SELECT count(*) FROM transactional_emails
                 WHERE state = 'processing' AND put_off > 0",
                |n| n == 1,
            )
            .await;
        })
        .await;
        let body = json!({ "fields_to_export": ["external_id", "total_revenue"] });
        let prefix = self.api.export(&body).await.prefix;
        let parts =
            "SELECT count(*) FROM export_parts AS p JOIN export_jobs AS j ON j.id = p.job_id
                     WHERE p.done AND j.state = 'running'";
        self.work(&[Role::Exports], self.wait_for_count(parts, |done| done > 0)).await;
        let status = self.api.status(&prefix).await;
        assert_eq!(status["state"], "running", "it is too fast: run it again");
    }

    /// Calls of every shape, which nobody has worked on.
    pub async fn called(&self) {
        let by = |n: usize| {
            [
                json!({ "external_id": id(n) }),
                json!({ "email": email(n) }),
                json!({ "user_alias": { "alias_name": format!("card {n}"), "alias_label": "crm" } }),
            ]
        };
        for (n, who) in by(5).into_iter().enumerate() {
            let with = |members: Value| {
                let mut object = who.clone();
                object.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
                object
            };
            let body = json!({
                "attributes": [with(json!({
                    "first_name": "Five", "phone": null, "color": "red", "old": null,
                    "visits": { "inc": 1 }, "tags": { "add": ["new"] },
                    "_update_existing_only": true,
                }))],
                "events": [with(json!({ "name": "seen", "time": now(), "app_id": APP,
                                        "properties": { "page": n } }))],
                "purchases": [with(json!({ "product_id": "tea", "currency": "USD", "price": 1.5,
                    "quantity": 2, "time": now(), "app_id": APP, "properties": { "n": n } }))],
            });
            self.post("/users/track", &body).await;
        }
        self.post(
            "/users/track",
            &json!({
                "attributes": [{ "external_id": "new", "tags": { "remove": ["x"] } }],
                "purchases": [{ "external_id": id(6), "product_id": "shoes", "currency": "USD",
                                "price": 40, "time": now(), "properties": { "size": "XL" } }],
            }),
        )
        .await;
        self.keyed("answered").await;
        self.keyed("left").await;
        self.edit(json!([{ "id": "r2", "Rating": 3.5, "City": "Roma", "Opened_at": null }])).await;
        let gold = json!({ "custom_attribute": {
            "custom_attribute_name": "tier", "comparison": "equals", "value": "gold",
        } });
        self.post("/messages/send", &json!({
            "external_user_ids": [id(7)],
            "recipients": [
                { "external_user_id": id(7), "trigger_properties": { "n": 7 } },
                { "user_alias": { "alias_name": "card 8", "alias_label": "crm" } },
            ],
            "messages": { "webhook":
                self.receivers.webhook("named {{${external_id}}} {{api_trigger_properties.${n}}}") },
        }))
        .await;
        self.post(
            "/messages/send",
            &json!({
                "broadcast": true, "segment_id": SEGMENT, "audience": { "AND": [gold] },
                "send_id": "spring", "recipient_subscription_state": "all",
                "override_frequency_capping": true, "campaign_id": WELCOME,
                "messages": { "webhook": self.receivers.webhook("all {{${external_id}}}") },
            }),
        )
        .await;
        self.post(
            "/messages/live_activity/start",
            &json!({
                "app_id": APP, "activity_id": "order-7", "activity_attributes_type": "Delivery",
                "activity_attributes": { "order": 7 }, "content_state": { "eta": "12:15" },
                "notification": { "alert": { "title": "On its way", "body": "live" } },
                "external_user_ids": [id(9)],
            }),
        )
        .await;
        self.receipt("called", 10).await;
        let soon = later(60);
        self.post(
            "/messages/schedule/create",
            &json!({
                "schedule": { "time": soon }, "external_user_ids": [id(11)],
                "messages": { "webhook": self.receivers.webhook("scheduled {{${external_id}}}") },
            }),
        )
        .await;
        self.post("/canvas/trigger/schedule/create", &json!({
            "canvas_id": CANVAS, "schedule": { "time": soon },
            "canvas_entry_properties": { "n": 1 },
            "recipients": [{ "external_user_id": id(12), "canvas_entry_properties": { "n": 12 } }],
        }))
        .await;
        self.post(
            "/canvas/trigger/schedule/create",
            &json!({
                "canvas_id": CANVAS, "broadcast": true,
                "schedule": { "time": later(300 * 86_400), "in_local_time": true },
            }),
        )
        .await;
        self.api.export(&json!({ "fields_to_export": ["external_id"] })).await;
        // The gateway was lost before it could keep the response.
        let left = "UPDATE idempotency_claims SET status = NULL, answer = NULL, leased_until = 0
                    WHERE key = 'left'";
        assert_eq!(stores::execute(&self.database_url(), left).await, 1);
    }

    async fn keyed(&self, key: &str) {
        let answer = keyed(&self.api, key).await;
        assert_eq!(answer.0, 201, "{answer:?}");
    }

    /// Ends all of it; the rows and files stay.
    pub async fn close(&self) {
        self.stop.cancel();
        self.app().log.close().await;
        for store in self.app().stores() {
            store.close().await;
        }
    }
}

/// A call under a key, the same each time.
pub async fn keyed(api: &Api, key: &str) -> (u16, Value) {
    let n = if key == "left" { 14 } else { 13 };
    let body = json!({ "attributes": [{ "external_id": id(n), "visits": { "inc": 1 } }] });
    let call = api.request(Method::POST, "/users/track").header("idempotency-key", key);
    let answer = answer(call.json(&body)).await;
    (answer.status.as_u16(), answer.body)
}

pub fn id(n: usize) -> String {
    format!("u{n}")
}

fn email(n: usize) -> String {
    format!("u{n}@acme.example")
}

fn user(n: usize) -> Value {
    json!({
        "external_id": id(n), "email": email(n), "phone": format!("+1555000{n:04}"),
        "user_aliases": [{ "alias_name": format!("card {n}"), "alias_label": "crm" }],
        "push_tokens": [
            { "app_id": APP, "token": format!("token-{n}"), "device_id": "d" },
            { "app_id": APP, "token": format!("start-{n}"), "device_id": "d",
              "kind": "live_activity" },
        ],
        "subscription_groups": [{ "subscription_group_id": SMS_GROUP,
                                  "subscription_state": "subscribed" }],
        "custom_attributes": { "tier": if n.is_multiple_of(2) { "gold" } else { "tin" } },
    })
}

fn now() -> String {
    jiff::Timestamp::now().to_string()
}

fn later(seconds: i64) -> String {
    (jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds)).to_string()
}
