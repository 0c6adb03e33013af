//! Permanent bounces, on a running installation: which addresses get no more emails, and when the
//! relay is the cause.

use jiff::Timestamp;
use reqwest::Client;
use serde_json::{Value, json};

use crate::support::fleet::{Backend, Fleet};
use crate::support::scripted_relay::{Action, ScriptedRelay, Step};
use crate::support::{Api, WorkspaceFile, callbacks, eventually};

const RECEIPT: &str = "dddd0000-0000-4000-8000-000000000001";
const APP: &str = "dddd0000-0000-4000-8000-000000000002";
const SECRET: &str = "secret-of-the-events-of-the-relay";
const UNKNOWN: Action = Action::Reply(550, "5.1.1 no such user");

struct World {
    fleet: Fleet,
    api: Api,
    relay: ScriptedRelay,
}

fn workspace(relay: &ScriptedRelay, bounce_days: Value) -> WorkspaceFile {
    let email = json!({
        "smtp": relay.url("", ""), "from": "hello@acme.example", "events_secret": SECRET,
        "bounce_days": bounce_days,
    });
    let receipt = json!({
        "id": RECEIPT, "name": "Receipt", "type": "transactional",
        "email": { "subject": "Receipt", "body": "<p>Thanks</p>" },
    });
    WorkspaceFile::new("acme")
        .with_percent(None)
        .permitted(&[
            "messages.send",
            "users.track",
            "transactional.send",
            "suppressions.list",
            "suppressions.edit",
        ])
        .with("apps", json!([{ "id": APP, "name": "Acme", "platform": "ios" }]))
        .with("campaigns", json!([receipt]))
        .with("email", email)
}

impl World {
    async fn start(backend: Backend, users: usize) -> Self {
        Self::with(backend, users, json!(null)).await
    }

    async fn with(backend: Backend, users: usize, bounce_days: Value) -> Self {
        let relay = ScriptedRelay::start(&[], []).await;
        let fleet = Fleet::start(backend, &[]).await;
        let api = fleet.apply(&[workspace(&relay, bounce_days)]).await.remove(0);
        let record = |number: usize| {
            json!({ "external_id": format!("u{number}"), "email": address(number) }).to_string()
        };
        fleet.import("acme", &(0..users).map(record).collect::<Vec<_>>()).await;
        Self { fleet, api, relay }
    }

    /// Sends users an email; returns the dispatch, once it has ended.
    async fn send(&self, users: impl IntoIterator<Item = usize>) -> Value {
        let ids: Vec<String> = users.into_iter().map(|number| format!("u{number}")).collect();
        let email = json!({
            "app_id": APP, "from": "hello@acme.example", "subject": "Hi", "body": "<p>Hi</p>",
        });
        let body = json!({ "external_user_ids": ids, "messages": { "email": email } });
        let sent = self.api.post("/messages/send", &body).await;
        assert_eq!(sent.status, 201, "{sent:?}");
        let id = sent.body["dispatch_id"].as_str().expect("a dispatch_id").to_owned();
        eventually("the send is done", || async { self.dispatch(&id).await["state"] == "done" })
            .await;
        self.dispatch(&id).await
    }

    async fn dispatch(&self, id: &str) -> Value {
        let output = self.fleet.command(&["dispatches", "show", id, "--json"]).await;
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    /// Sends a transactional email; returns its state, once it has one.
    async fn receipt(&self, user: usize) -> Value {
        let body = json!({ "recipient": { "external_user_id": format!("u{user}") } });
        let path = format!("/transactional/v1/campaigns/{RECEIPT}/send");
        let sent = self.api.post(&path, &body).await;
        assert_eq!(sent.status, 201, "{sent:?}");
        let id = sent.body["dispatch_id"].as_str().expect("a dispatch_id").to_owned();
        eventually("the email has a state", || async {
            !matches!(self.dispatch(&id).await["state"].as_str(), None | Some("processing"))
        })
        .await;
        self.dispatch(&id).await
    }

    /// The bounce of an address, if it has one.
    async fn bounce(&self, address: &str) -> Option<Value> {
        let path = format!("/suppressions/check?email={address}");
        let checked = self.api.get(&path).await;
        assert_eq!(checked.status, 200, "{checked:?}");
        let states = checked.body["states"].as_array().expect("states");
        let bounce = states.iter().find(|state| state["reason"] == "bounce").cloned();
        let is_suppressed = states.iter().any(|state| state["state"] == "suppressed");
        assert_eq!(checked.body["suppressed"], is_suppressed, "{checked:?}");
        bounce
    }

    /// Those of the users whose addresses are suppressed.
    async fn suppressed(&self, users: impl IntoIterator<Item = usize>) -> Vec<usize> {
        let mut suppressed = Vec::new();
        for user in users {
            if self.bounce(&address(user)).await.is_some() {
                suppressed.push(user);
            }
        }
        suppressed
    }

    /// Reports about the last email to a user.
    async fn report(&self, user: usize, event: Value) {
        self.report_about(&self.message_id(&address(user)), event).await;
    }

    fn message_id(&self, address: &str) -> String {
        let accepted = self.relay.accepted();
        let email = accepted.iter().rfind(|email| email.to == [address]).expect("an email");
        email.header("Message-ID").expect("a Message-ID")
    }

    async fn report_about(&self, id: &str, mut event: Value) {
        event["id"] = id.into();
        let body = json!({ "events": [event] }).to_string();
        let now = Timestamp::now().as_second().to_string();
        let report = uuid::Uuid::new_v4().to_string();
        let signature = callbacks::sign(SECRET.as_bytes(), &report, &now, body.as_bytes());
        let url = format!("{}/email/events?workspace=acme", self.fleet.base());
        let request = Client::new().post(url).header("webhook-id", report);
        let request = request.header("webhook-timestamp", now);
        let request = request.header("webhook-signature", signature);
        let answer = request.header("content-type", "application/json").body(body).send().await;
        assert_eq!(answer.expect("an answer").status(), 200);
    }
}

fn address(user: usize) -> String {
    format!("u{user}@people.example")
}

fn bounced(code: Value, reason: Value) -> Value {
    json!({ "type": "bounced", "code": code, "reason": reason })
}

async fn an_unknown_address_gets_no_more_emails(backend: Backend) {
    let world = World::start(backend, 4).await;
    world.relay.script([(Step::To, UNKNOWN)]);
    let sent = world.send([0]).await;
    let bounce = world.bounce(&address(0)).await.expect("a bounce");
    assert_eq!(bounce["state"], "suppressed");
    assert_eq!(bounce["dispatch_id"], sent["id"], "{sent}");
    let time = |name: &str| bounce[name].as_str().unwrap().parse::<Timestamp>().unwrap();
    assert_eq!((time("until").as_second() - time("at").as_second()) / 86_400, 90);

    // Neither sends nor transactional emails, and the operator sees why.
    let next = world.send([0]).await;
    assert_eq!(world.receipt(0).await["state"], "aborted");
    assert!(world.relay.accepted().is_empty());
    let id = next["id"].as_str().unwrap();
    let why = world.fleet.run(&["messages", "u0", "--dispatch", id, "--why", "--json"]).await;
    let counts = world.fleet.run(&["suppressions", "count", "--json"]).await;
    assert!(counts.contains(r#""reason":"bounce""#), "{counts}");
    let recipients = world.fleet.run(&["dispatches", "recipients", id, "--json"]).await;
    assert!(why.contains(r#""bounced""#) || recipients.contains("bounced"), "{why} {recipients}");
    // A decision does not end it.
    let status = json!({ "attributes": [{ "external_id": "u0", "email_subscribe": "opted_in" }] });
    assert_eq!(world.api.post("/users/track", &status).await.status, 201);
    world.fleet.applied().await;
    assert!(world.bounce(&address(0)).await.is_some());
    let lifted = world.api.post("/suppressions/lift", &json!({ "emails": [address(0)] })).await;
    assert_eq!(lifted.status, 201, "{lifted:?}");
    assert!(world.bounce(&address(0)).await.is_none());
    world.send([0]).await;
    assert_eq!(world.receipt(0).await["state"], "sent");
    assert_eq!(world.relay.accepted().len(), 2);

    // The reply to the content counts, too. Other rejections do not.
    world.relay.script([(Step::End, Action::Reply(550, "5.2.1 disabled"))]);
    world.send([1]).await;
    world.relay.script([(Step::To, Action::Reply(550, "5.7.1 blocked"))]);
    world.send([2]).await;
    world.relay.script([(Step::To, Action::Reply(550, "no such user"))]);
    world.send([3]).await;
    assert_eq!(world.suppressed(0..4).await, [1]);
    // So do transactional emails.
    world.relay.script([(Step::To, Action::Reply(556, "5.1.10 null MX"))]);
    assert_eq!(world.receipt(2).await["state"], "bounced");
    assert_eq!(world.suppressed(0..4).await, [1, 2]);
    world.fleet.close().await;
}

async fn reports_about_an_address_suppress_it(backend: Backend) {
    let cases = [
        (json!("5.1.1"), json!(null), true),
        (json!(550), json!("5.1.10 null MX"), true),
        (json!(550), json!("No such user"), true),
        (json!(null), json!(null), true),
        (json!(550), json!("5.7.1 blocked"), false),
        (json!("5.2.2"), json!("mailbox full"), false),
        (json!(554), json!("rejected"), false),
        (json!(450), json!("later"), false),
    ];
    let world = World::start(backend, cases.len() + 2).await;
    let mut expected = Vec::new();
    for (user, (code, reason, is_suppressed)) in cases.iter().enumerate() {
        world.send([user]).await;
        for _ in 0..2 {
            world.report(user, bounced(code.clone(), reason.clone())).await;
        }
        expected.extend(is_suppressed.then_some(user));
    }
    assert_eq!(world.suppressed(0..cases.len()).await, expected);

    // A report is about the address to which the email went, whoever has which one now.
    for (user, event) in [
        (cases.len(), bounced(json!("5.1.1"), json!(null))),
        (cases.len() + 1, json!({ "type": "complained" })),
    ] {
        world.send([user]).await;
        let new = format!("new{user}@people.example");
        let moves = json!({ "attributes": [{ "external_id": format!("u{user}"), "email": new }] });
        assert_eq!(world.api.post("/users/track", &moves).await.status, 201);
        world.fleet.applied().await;
        world.report(user, event).await;
        let check = async |email: &str| {
            let checked = world.api.get(&format!("/suppressions/check?email={email}")).await;
            checked.body["suppressed"].clone()
        };
        assert_eq!(check(&address(user)).await, true, "{user}");
        assert_eq!(check(&new).await, false, "{user}");
    }
    // And one about a transactional email.
    let user = cases.len();
    assert_eq!(world.receipt(user).await["state"], "sent");
    let new = format!("new{user}@people.example");
    let unknown = format!("<{}.{}@acme.example>", "0".repeat(32), "0".repeat(32));
    world.report_about(&unknown, bounced(json!("5.1.1"), json!(null))).await;
    assert!(world.bounce(&new).await.is_none());
    world.report_about(&world.message_id(&new), bounced(json!(551), json!(null))).await;
    assert!(world.bounce(&new).await.is_some());
    world.fleet.close().await;
}

async fn many_failures_alike_suppress_nobody(backend: Backend) {
    let world = World::start(backend, 42).await;
    world.relay.script(std::iter::repeat_n((Step::To, UNKNOWN), 3));
    let sent = world.send(0..20).await;
    assert_eq!(world.suppressed(0..20).await, [0_usize; 0]);
    let note = sent["note"].as_str().unwrap_or_default();
    assert!(note.contains("relay") && note.contains("5.1.1"), "{sent}");

    // One of twenty is the fault of the address, also if others fail otherwise.
    world.relay.script([(Step::To, UNKNOWN), (Step::To, Action::Reply(550, "5.2.1 disabled"))]);
    let sent = world.send(0..20).await;
    assert_eq!(sent["note"], Value::Null, "{sent}");
    assert_eq!(world.suppressed(0..20).await.len(), 2);

    // Reports come later, one after the other.
    let sent = world.send(20..40).await;
    let unknown = bounced(json!("5.1.1"), json!(null));
    world.report(20, unknown.clone()).await;
    assert_eq!(world.suppressed(20..40).await, [20]);
    for user in [20, 21, 22, 22] {
        world.report(user, unknown.clone()).await;
    }
    assert_eq!(world.suppressed(20..40).await, [0_usize; 0]);
    world.report(23, bounced(json!(550), json!(null))).await;
    assert_eq!(world.suppressed(20..40).await, [23], "it failed otherwise");
    let id = sent["id"].as_str().unwrap();
    assert!(world.dispatch(id).await["note"].as_str().unwrap().contains("relay"));

    // Transactional emails of an hour.
    world.relay.script(std::iter::repeat_n((Step::To, UNKNOWN), 2));
    assert_eq!(world.receipt(40).await["state"], "bounced");
    assert_eq!(world.suppressed(40..42).await, [40]);
    assert_eq!(world.receipt(41).await["state"], "bounced");
    assert_eq!(world.suppressed(40..42).await, [0_usize; 0]);
    world.fleet.close().await;
}

async fn the_workspace_sets_the_period(backend: Backend) {
    let world = World::with(backend, 2, json!(0)).await;
    world.relay.script([(Step::To, UNKNOWN)]);
    world.send([0]).await;
    world.send([1]).await;
    world.report(1, bounced(json!("5.1.1"), json!(null))).await;
    assert_eq!(world.suppressed(0..2).await, [0_usize; 0]);
    assert_eq!(world.relay.accepted().len(), 1);
    world.fleet.close().await;

    let world = World::with(backend, 1, json!(7)).await;
    world.relay.script([(Step::To, UNKNOWN)]);
    world.send([0]).await;
    let bounce = world.bounce(&address(0)).await.expect("a bounce");
    let time = |name: &str| bounce[name].as_str().unwrap().parse::<Timestamp>().unwrap();
    assert_eq!((time("until").as_second() - time("at").as_second()) / 86_400, 7);
    world.fleet.close().await;
}

macro_rules! on_both {
    ($($test:ident),+ $(,)?) => {
        mod standalone {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::$test(super::Backend::Embedded).await;
            })+
        }
        mod in_a_fleet {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::$test(super::Backend::Fleet(1)).await;
            })+
        }
    };
}

on_both!(
    an_unknown_address_gets_no_more_emails,
    reports_about_an_address_suppress_it,
    many_failures_alike_suppress_nobody,
    the_workspace_sets_the_period,
);
