//! `POST /transactional/v1/campaigns/{campaign_id}/send` on running installations, with a real
//! relay and a real receiver of postbacks.

#[cfg(debug_assertions)]
mod crashes;
mod declared;
mod listed;
mod merging;
mod postbacks;
mod sweeping;

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::api::{ApiResponse, answer};
use crate::support::fleet::{Backend, Fleet};
use crate::support::receiver::Receiver;
use crate::support::scripted_relay::{AcceptedEmail, Action, ScriptedRelay, Step};
use crate::support::{Api, WorkspaceFile, callbacks, eventually};

const RECEIPT: &str = "7d0c41a8-3f5e-4b7a-9c1d-2e6f8a90b1c2";
const OTHERS: [(&str, &str); 5] = [
    ("aaaa0000-0000-4000-8000-000000000001", "api"),
    ("aaaa0000-0000-4000-8000-000000000002", "archived"),
    ("aaaa0000-0000-4000-8000-000000000003", "paused"),
    ("aaaa0000-0000-4000-8000-000000000004", "aborts"),
    ("aaaa0000-0000-4000-8000-000000000005", "canvas"),
];

/// A running installation that has a relay and a receiver of postbacks.
pub struct Scene {
    pub fleet: Fleet,
    pub api: Api,
    pub relay: ScriptedRelay,
    pub receiver: Receiver,
    /// What postbacks are signed with.
    pub secret: Vec<u8>,
}

impl Scene {
    pub async fn new(backend: Backend, script: impl IntoIterator<Item = Action>) -> Self {
        Self::with(backend, script, &[]).await
    }

    pub async fn with(
        backend: Backend,
        script: impl IntoIterator<Item = Action>,
        settings: &[(&str, String)],
    ) -> Self {
        Self::on(Fleet::start(backend, settings).await, script).await
    }

    pub async fn on(fleet: Fleet, script: impl IntoIterator<Item = Action>) -> Self {
        let ends = script.into_iter().map(|does| (Step::End, does));
        let (relay, receiver) = (ScriptedRelay::start(&[], ends).await, Receiver::start([]).await);
        let secret = Uuid::new_v4().into_bytes().repeat(2);
        let workspace = workspace("acme", &relay, &receiver, &secret);
        let api = fleet.apply(&[workspace]).await.remove(0);
        Self { fleet, api, relay, receiver, secret }
    }

    pub async fn send(&self, body: &Value) -> ApiResponse {
        self.send_to(RECEIPT, body).await
    }

    pub async fn send_to(&self, campaign: &str, body: &Value) -> ApiResponse {
        self.api.post(&path(campaign), body).await
    }

    /// Sends what must be taken; returns the dispatch_id.
    pub async fn sent(&self, body: &Value) -> String {
        dispatch_id(&self.send(body).await, 201)
    }

    /// The postbacks so far, by dispatch, in the order in which they came first.
    pub fn postbacks(&self) -> BTreeMap<String, Vec<Value>> {
        let mut by_dispatch: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        let mut ids = std::collections::HashSet::new();
        for request in self.receiver.received() {
            let body = callbacks::verified(&request, &self.secret);
            if ids.insert(request.header("webhook-id").to_owned()) {
                let dispatch = body["dispatch_id"].as_str().expect("a dispatch_id").to_owned();
                by_dispatch.entry(dispatch).or_default().push(body);
            }
        }
        by_dispatch
    }

    /// Waits for the first postback of a dispatch.
    pub async fn first_postback(&self, dispatch: &str) -> Value {
        let told = || self.postbacks().remove(dispatch).map(|all| all[0].clone());
        eventually("the state is told", || async { told().is_some() }).await;
        told().expect("it is there")
    }

    /// Waits until the relay has taken so many emails.
    pub async fn taken(&self, count: usize) -> Vec<AcceptedEmail> {
        let condition = format!("{count} emails are taken");
        eventually(&condition, || async { self.relay.accepted().len() >= count }).await;
        self.relay.accepted()
    }

    pub async fn users(&self) -> Vec<Value> {
        self.api.exported().await
    }
}

fn path(campaign: &str) -> String {
    format!("/transactional/v1/campaigns/{campaign}/send")
}

fn workspace(
    name: &str,
    relay: &ScriptedRelay,
    receiver: &Receiver,
    secret: &[u8],
) -> WorkspaceFile {
    let email = |body: &str| {
        json!({
            "from": "Acme <hello@acme.example>",
            "subject": "Order {{api_trigger_properties.${order}}} of {{${first_name}}}",
            "body": body,
        })
    };
    let campaign = |(id, name): (&str, &str)| {
        let mut campaign = json!({
            "id": id, "name": name, "type": "transactional", "sla_per_hour": 2,
            "archived": name == "archived", "paused": name == "paused",
        });
        match name {
            "api" => campaign["type"] = "api".into(),
            "aborts" => campaign["email"] = email("{% abort_message(\"not today\") %}"),
            _ => campaign["email"] = email("<p>{{custom_attribute.${tier} | default: 'none'}}</p>"),
        }
        if name == "api" {
            campaign.as_object_mut().unwrap().remove("sla_per_hour");
        }
        campaign
    };
    let campaigns: Vec<Value> =
        OTHERS[..4].iter().copied().chain([(RECEIPT, "Receipt")]).map(campaign).collect();
    let secret = format!("whsec_{}", BASE64_STANDARD.encode(secret));
    WorkspaceFile::new(name)
        .permitted(&[
            "campaigns.statistics",
            "transactional.send",
            "users.track",
            "users.merge",
            "users.export.global_control_group",
            "messages.dispatches.list",
        ])
        .with("campaigns", json!(campaigns))
        .with("canvases", json!([{ "id": OTHERS[4].0, "name": "canvas" }]))
        .with(
            "email",
            json!({
                "smtp": relay.url("", ""), "from": "Acme <hello@acme.example>",
                "status_postback": { "url": receiver.url("/states"), "secret": secret },
            }),
        )
}

/// To a user created or changed by it.
pub fn to(user: &str, more: Value) -> Value {
    let mut body = json!({
        "recipient": {
            "external_user_id": user,
            "attributes": { "email": format!("{user}@acme.example"), "first_name": user },
        },
        "trigger_properties": { "order": 1004 },
    });
    for (name, value) in more.as_object().expect("members") {
        body[name] = value.clone();
    }
    body
}

#[track_caller]
pub fn dispatch_id(answer: &ApiResponse, status: u16) -> String {
    assert_eq!(answer.status, status, "{answer:?}");
    answer.body["dispatch_id"].as_str().expect("a dispatch_id").to_owned()
}

/// Each Message-ID once, and how often it came.
pub fn by_id(emails: &[AcceptedEmail]) -> BTreeMap<String, usize> {
    let mut ids = BTreeMap::new();
    for email in emails {
        *ids.entry(email.header("Message-ID").expect("a Message-ID")).or_default() += 1;
    }
    ids
}

/// A sync with empty columns re-subscribes nobody, whatever request brings it.
#[tokio::test(flavor = "multi_thread")]
async fn empty_states_in_attributes_decide_nothing() {
    let scene = Scene::new(Backend::Embedded, []).await;
    let out = "unsubscribed";
    let states = |state: Value| json!({ "email_subscribe": state, "push_subscribe": state, "subscription_groups": state });
    let mut ann = states(json!(out));
    ann["external_id"] = "ann".into();
    ann["email"] = "ann@acme.example".into();
    ann["subscription_groups"] =
        json!([{ "subscription_group_id": RECEIPT, "subscription_state": out }]);
    scene.fleet.import("acme", &[ann.to_string()]).await;
    let shown = async || {
        let shown = scene.fleet.run(&["users", "show", "ann", "--json"]).await;
        let shown: Value = serde_json::from_str(&shown).expect("JSON");
        ["email_subscribe", "push_subscribe", "subscription_groups"].map(|name| shown[name].clone())
    };
    let before = shown().await;
    assert_eq!(before[0], out, "{before:?}");
    for empty in [json!(null), json!("")] {
        let mut body = to("ann", json!({}));
        let attributes = body["recipient"]["attributes"].as_object_mut().unwrap();
        attributes.extend(states(empty.clone()).as_object().unwrap().clone());
        let answer = scene.send(&body).await;
        let dispatch = dispatch_id(&answer, 201);
        let mut fields: Vec<String> = answer.body["warnings"]
            .as_array()
            .expect("warnings")
            .iter()
            .map(|warning| {
                assert_eq!(warning["code"], "no-state", "{answer:?}");
                warning["field"].as_str().unwrap().to_owned()
            })
            .collect();
        fields.sort();
        let names = ["email_subscribe", "push_subscribe", "subscription_groups"];
        assert_eq!(fields, names.map(|name| format!("recipient.attributes.{name}")));
        assert_eq!(scene.first_postback(&dispatch).await["status"], "sent");
        // The same inside a group.
        let group = json!([{ "subscription_group_id": RECEIPT, "subscription_state": empty }]);
        let attributes = json!({ "subscription_groups": group });
        let answer = scene
            .send(&to(
                "ann",
                json!({ "recipient": {
            "external_user_id": "ann", "attributes": attributes,
        } }),
            ))
            .await;
        let dispatch = dispatch_id(&answer, 201);
        let name = "recipient.attributes.subscription_groups[].subscription_state";
        let warning = json!([{ "field": name, "code": "no-state", "count": 1 }]);
        assert_eq!(answer.body["warnings"], warning);
        assert_eq!(scene.first_postback(&dispatch).await["status"], "sent");
        // A group whose state is missing is an error: the name of the field may be misspelt.
        body["recipient"]["attributes"]["subscription_groups"] =
            json!([{ "subscription_group_id": RECEIPT, "state": out }]);
        assert_eq!(scene.send(&body).await.status, 400);
        scene.fleet.applied().await;
        assert_eq!(shown().await, before, "{empty}");
    }
    scene.fleet.close().await;
}

async fn an_email_is_sent_at_once_with_its_attributes(backend: Backend) {
    let scene = Scene::new(backend, []).await;
    let mut body = to("ann", json!({ "external_send_id": r"b3JkZXI\-_+/=" }));
    body["recipient"]["attributes"]["tier"] = json!("gold");
    // The number keeps its digits.
    let text = body.to_string().replace("\"gold\"", "1.10");
    let answer = scene.api.post_text(&path(RECEIPT), text).await;
    let dispatch = dispatch_id(&answer, 201);
    assert_eq!(dispatch.len(), 32);
    let metadata = &answer.body["metadata"];
    assert_eq!(answer.body["status"], "processing");
    assert_eq!(metadata["campaign_api_id"], RECEIPT);
    assert_eq!(metadata["external_send_id"], r"b3JkZXI\-_+/=");
    let received = metadata["received_at"].as_str().unwrap();
    assert!(received.len() == 29 && received.ends_with("+00:00"), "{received}");

    let email = scene.taken(1).await.remove(0);
    assert_eq!(email.to, ["ann@acme.example"]);
    assert_eq!(email.header("subject").as_deref(), Some("Order 1004 of ann"));
    assert!(email.text.contains("<p>1.10</p>"), "{}", email.text);
    assert!(email.header("Message-ID").unwrap().contains(&dispatch), "{}", email.text);
    assert_eq!(email.header("list-unsubscribe"), None);

    let told = scene.first_postback(&dispatch).await;
    assert_eq!(told["status"], "sent");
    let told = &told["metadata"];
    let mut names: Vec<&String> = told.as_object().unwrap().keys().collect();
    names.sort();
    let expected = [
        "campaign_api_id",
        "enqueued_at",
        "executed_at",
        "external_send_id",
        "received_at",
        "sent_at",
    ];
    assert_eq!(names, expected);
    for name in ["received_at", "enqueued_at", "campaign_api_id", "external_send_id"] {
        assert_eq!(told[name], metadata[name], "{name}");
    }
    let times = ["received_at", "enqueued_at", "executed_at", "sent_at"].map(|name| &told[name]);
    assert!(times.is_sorted_by_key(|time| time.as_str()), "{times:?}");

    // Its campaign counts it, and has no dispatches.
    let statistics = format!("/campaigns/statistics?campaign_id={RECEIPT}");
    eventually("the campaign counts the email", || async {
        let statistics = scene.api.get(&statistics).await.body;
        assert!(statistics.get("dispatches").is_none(), "{statistics}");
        statistics["variations"][0]["sent"] == 1
    })
    .await;

    // The same reference is the same send, as it is by now.
    let again = scene.send(&body).await;
    assert_eq!(dispatch_id(&again, 200), dispatch);
    assert_eq!((&again.body["status"], &again.body["metadata"]), (&json!("sent"), metadata));
    let other = to("bob", json!({ "external_send_id": r"b3JkZXI\-_+/=" }));
    assert_eq!(dispatch_id(&scene.send_to(OTHERS[2].0, &other).await, 200), dispatch);

    let users = scene.users().await;
    let [ann] = users.as_slice() else { panic!("{users:?}") };
    assert_eq!((&ann["external_id"], &ann["first_name"]), (&json!("ann"), &json!("ann")));
    assert_eq!(ann["custom_attributes"]["tier"], 1.1);
    assert_eq!(scene.relay.accepted().len(), 1);
    let shown = scene.fleet.run(&["campaigns", "show", RECEIPT, "--json"]).await;
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    let results = &shown["results"][0];
    assert_eq!((&results["channel"], &results["sent"]), (&json!("email"), &json!(1)), "{shown}");
    scene.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_email_is_sent_at_once_standalone() {
    an_email_is_sent_at_once_with_its_attributes(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_email_is_sent_at_once_in_a_fleet() {
    an_email_is_sent_at_once_with_its_attributes(Backend::Fleet(2)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejections_use_the_documented_texts() {
    let scene = Scene::new(Backend::Embedded, []).await;
    let ann = to("ann", json!({ "external_send_id": "once" }));
    let [api, archived, paused, _, canvas] = OTHERS.map(|(id, _)| id);
    for (campaign, status, text) in [
        ("Receipt", 400, "campaign_id must be a string of the campaign api identifier"),
        ("%FF", 400, "campaign_id must be a string of the campaign api identifier"),
        (canvas, 404, "Campaign does not exist"),
        (&Uuid::new_v4().to_string(), 404, "Campaign does not exist"),
        (
            api,
            400,
            "The campaign is not a transactional campaign. Only transactional campaigns may use \
             this endpoint",
        ),
        (
            archived,
            400,
            "The campaign is archived. Unarchive the campaign in order for trigger requests to \
             take effect.",
        ),
        (
            paused,
            400,
            "The campaign is paused. Resume the campaign in order for trigger requests to take \
             effect.",
        ),
    ] {
        let answer = scene.send_to(campaign, &ann).await;
        assert_eq!((answer.status.as_u16(), answer.body["message"].as_str()), (status, Some(text)));
    }
    for (body, text) in [
        (json!({}), "recipient is required"),
        (
            json!({ "recipient": {
                "external_user_id": "a",
                "user_alias": { "alias_name": "a", "alias_label": "l" },
            } }),
            "must have exactly one of",
        ),
        (to("ann", json!({ "external_send_id": "a b" })), "external_send_id must be"),
    ] {
        scene.send(&body).await.refuses(400, text);
    }
    let stranger = Api::new(scene.fleet.base(), "no-key");
    let refused = stranger.post(&path(RECEIPT), &ann).await;
    assert_eq!(refused.body["message"], "Error authenticating credentials");
    // Nothing of all that took the reference.
    scene.sent(&ann).await;
    // A reference whose send nobody knows any more.
    let forget = "DELETE FROM transactional_emails WHERE external_send_id = 'once'";
    scene.taken(1).await;
    crate::support::stores::execute(&scene.fleet.database_url(), forget).await;
    let queued = "The external reference has been queued. Please retry to obtain send_id.";
    let answer = scene.send(&ann).await;
    assert_eq!((answer.status.as_u16(), answer.body["message"].as_str()), (400, Some(queued)));
    // After its day the reference is free again.
    let day = "UPDATE transactional_keys SET taken_at = taken_at - 86400000";
    crate::support::stores::execute(&scene.fleet.database_url(), day).await;
    scene.sent(&ann).await;
    scene.taken(2).await;
    scene.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn undispatchable_emails_are_aborted_with_a_reason() {
    let scene = Scene::new(Backend::Embedded, []).await;
    let aborted = async |campaign: &str, body: Value| {
        let dispatch = dispatch_id(&scene.send_to(campaign, &body).await, 201);
        let told = scene.first_postback(&dispatch).await;
        assert_eq!(told["status"], "aborted", "{told}");
        let metadata = told["metadata"].as_object().unwrap();
        let names: Vec<&str> = metadata.keys().map(String::as_str).collect();
        assert!(["aborted_at", "campaign_api_id", "reason"].iter().all(|n| names.contains(n)));
        assert_eq!(names.len(), 3, "{told}");
        metadata["reason"].as_str().expect("a reason").to_owned()
    };
    let unknown = json!({ "recipient": { "external_user_id": "nobody" } });
    assert_eq!(aborted(RECEIPT, unknown).await, "User not emailable");
    let alias = json!({ "alias_name": "nobody", "alias_label": "crm" });
    let attributes = json!({ "email": "nobody@acme.example" });
    let unknown = json!({ "recipient": { "user_alias": alias, "attributes": attributes } });
    assert_eq!(aborted(RECEIPT, unknown).await, "User not emailable");
    let silent = json!({ "recipient": { "external_user_id": "bob", "attributes": {} } });
    assert_eq!(aborted(RECEIPT, silent).await, "User not emailable");
    assert_eq!(aborted(OTHERS[3].0, to("ann", json!({}))).await, "not today");
    assert!(scene.relay.accepted().is_empty());
    // The attributes were written all the same, and an alias creates no user.
    let users = scene.users().await;
    let mut users: Vec<&str> =
        users.iter().map(|user| user["external_id"].as_str().unwrap()).collect();
    users.sort_unstable();
    assert_eq!(users, ["ann", "bob"]);
    scene.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_emails_of_inactive_campaigns_are_aborted() {
    let script = (0..50).map(|_| Action::Reply(451, "4.3.0 try again later"));
    let scene = Scene::new(Backend::Embedded, script).await;
    for (column, reason) in [("archived", "Campaign is archived"), ("paused", "Campaign is paused")]
    {
        let set = |value: &str| -> &'static str {
            format!("UPDATE campaigns SET {column} = {value} WHERE name = 'Receipt'").leak()
        };
        let tries =
            || scene.relay.received_commands().iter().filter(|line| *line == "DATA").count();
        let before = tries();
        let dispatch = scene.sent(&to("ann", json!({}))).await;
        eventually("it was tried once", || async { tries() > before }).await;
        crate::support::stores::execute(&scene.fleet.database_url(), set("TRUE")).await;
        let told = scene.first_postback(&dispatch).await;
        assert_eq!(told["status"], "aborted", "{told}");
        assert_eq!(told["metadata"]["reason"], reason, "{told}");
        crate::support::stores::execute(&scene.fleet.database_url(), set("FALSE")).await;
    }
    assert!(scene.relay.accepted().is_empty());
    scene.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn relay_replies_set_the_email_status() {
    let script = [Action::Reply(451, "4.3.0 try again later"), Action::AcceptAndClose];
    let scene = Scene::new(Backend::Embedded, script).await;
    let dispatch = scene.sent(&to("ann", json!({}))).await;
    let told = scene.first_postback(&dispatch).await;
    assert_eq!(told["status"], "sent", "{told}");
    // Taken twice, and under one id.
    let taken = scene.relay.accepted();
    assert_eq!((taken.len(), by_id(&taken).len()), (2, 1));
    assert_eq!(scene.relay.received_commands().iter().filter(|line| *line == "DATA").count(), 3);
    scene.relay.script([(Step::End, Action::Reply(550, "5.1.1 no such user"))]);
    let dispatch = scene.sent(&to("bob", json!({}))).await;
    let told = scene.first_postback(&dispatch).await;
    assert_eq!(told["status"], "bounced", "{told}");
    let reason = told["metadata"]["reason"].as_str().unwrap();
    assert!(reason.contains("550") && reason.contains("no such user"), "{reason}");
    // The operator is shown the same.
    let shown = scene.fleet.run(&["dispatches", "show", &dispatch, "--json"]).await;
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!((&shown["kind"], &shown["state"]), (&json!("transactional"), &json!("bounced")));
    assert_eq!((&shown["reason"], &shown["attempts"]), (&json!(reason), &json!(1)));
    let text = scene.fleet.run(&["dispatches", "show", &dispatch]).await;
    assert!(text.contains(RECEIPT) && text.contains(reason), "{text}");
    let listed = scene.fleet.run(&["messages", "bob", "--json"]).await;
    let listed: Value = serde_json::from_str(&listed).expect("one message");
    assert_eq!((&listed["dispatch_id"], &listed["channel"]), (&json!(dispatch), &json!("email")));
    assert_eq!((&listed["state"], &listed["reason"]), (&json!("bounced"), &json!(reason)));
    assert!(listed["sent_at"].is_null(), "{listed}");
    let deliveries = ["deliveries", "list", "--subject", &dispatch, "--json"];
    let deliveries = scene.fleet.run(&deliveries).await;
    let delivery: Value = serde_json::from_str(&deliveries).expect("one delivery");
    assert_eq!(delivery["id"], shown["postback_id"]);
    let printed = scene.fleet.printed();
    let settled = printed.lines().find(|line| line.contains("settled") && line.contains(&dispatch));
    assert!(settled.is_some_and(|line| line.contains("no such user")), "{settled:?}");
    scene.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_under_an_idempotency_key_is_one_send() {
    let scene = Scene::new(Backend::Embedded, []).await;
    let call = async |campaign: &str| {
        let request = scene.api.request(Method::POST, &path(campaign));
        answer(request.header("idempotency-key", "k").json(&to("ann", json!({})))).await
    };
    let first = call(RECEIPT).await;
    let again = call(RECEIPT).await;
    assert_eq!((dispatch_id(&first, 201), &first.body), (dispatch_id(&again, 201), &again.body));
    // Another campaign is another thing.
    let other = dispatch_id(&call(OTHERS[3].0).await, 201);
    assert_eq!(scene.first_postback(&other).await["status"], "aborted");
    scene.first_postback(&dispatch_id(&first, 201)).await;
    assert_eq!(scene.relay.accepted().len(), 1);
    scene.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sla_counts_covered_and_other_emails() {
    let scene = Scene::new(Backend::Embedded, []).await;
    for number in 0..5 {
        scene.sent(&to(&format!("u{number}"), json!({}))).await;
    }
    scene.taken(5).await;
    eventually("all are noted", || async { scene.postbacks().len() == 5 }).await;
    // One of those that are covered took more than its minute.
    let late = "UPDATE transactional_emails SET sent_at = received_at + 60001
                WHERE received_at = (SELECT min(received_at) FROM transactional_emails)";
    let changed = crate::support::stores::execute(&scene.fleet.database_url(), late).await;
    assert_eq!(changed, 1);
    // What the relay refuses was passed on, and is not late when its minute is over.
    scene.relay.script([(Step::End, Action::Reply(550, "5.1.1 no such user"))]);
    let refused = scene.sent(&to("u5", json!({}))).await;
    assert_eq!(scene.first_postback(&refused).await["status"], "bounced");
    let aged = "UPDATE transactional_emails
                SET received_at = received_at - 120000, state_at = state_at - 120000
                WHERE state = 'bounced' AND sent_at IS NULL";
    let changed = crate::support::stores::execute(&scene.fleet.database_url(), aged).await;
    assert_eq!(changed, 1);
    let printed = scene.fleet.run(&["sla", "--workspace", "acme", "--json"]).await;
    let hours: Vec<Value> =
        printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let sum = |name: &str| hours.iter().map(|hour| hour[name].as_i64().unwrap()).sum::<i64>();
    assert_eq!((sum("emails"), sum("within_minute")), (6, 5), "{printed}");
    // An hour can end in the middle of it.
    if let [hour] = hours.as_slice() {
        assert_eq!((&hour["covered"], &hour["beyond"]), (&json!(2), &json!(4)));
        assert_eq!((&hour["covered_share"], &hour["share"]), (&json!(0.5), &json!(5.0 / 6.0)));
        assert_eq!((&hour["campaign_id"], &hour["sla_per_hour"]), (&json!(RECEIPT), &json!(2)));
    }
    let shown = scene.fleet.run(&["sla"]).await;
    assert!(shown.contains("83.33%") || hours.len() > 1, "{shown}");
    let metrics = scene.fleet.metrics("standalone").await;
    assert!(
        metrics.contains("longshore_transactional_handover_seconds_bucket{le=\"60\"} 5"),
        "{metrics}"
    );
    scene.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_can_serve_only_transactional_emails() {
    let mut scene = Scene::new(Backend::Fleet(0), []).await;
    let dispatch = scene.sent(&to("ann", json!({}))).await;
    scene.fleet.launch_roles("worker-1", "transactional").await;
    scene.taken(1).await;
    scene.fleet.launch_roles("worker-2", "deliveries").await;
    assert_eq!(scene.first_postback(&dispatch).await["status"], "sent");
    scene.fleet.close().await;
}
