//! What comes back, on a running installation: reports of providers and of the relay, each counted
//! once however often it comes, and users who want no more emails.

use jiff::Timestamp;
use longshore::messages::unsubscribe_token;
use reqwest::{Client, Method, Response};
use serde_json::{Value, json};

use crate::support::fleet::{Backend, Fleet};
use crate::support::proxy::{Proxy, ProxyMode};
use crate::support::receiver::Receiver;
use crate::support::scripted_relay::{Action, ScriptedRelay, Step};
use crate::support::{Api, WorkspaceFile, callbacks, eventually, servers};

const CAMPAIGN: &str = "cccc0000-0000-4000-8000-000000000001";
const IOS: &str = "cccc0000-0000-4000-8000-000000000002";

const FEEDBACK_SECRET: &str = "secret-of-the-providers-feedback";
const EVENTS_SECRET: &str = "secret-of-the-events-of-the-relay";

struct World {
    fleet: Fleet,
    api: Api,
    relay: ScriptedRelay,
    provider: Receiver,
}

impl World {
    async fn start(backend: Backend) -> Self {
        Self::with(backend, &[]).await
    }

    async fn with(backend: Backend, settings: &[(&str, String)]) -> Self {
        let (relay, provider) = (ScriptedRelay::start(&[], []).await, Receiver::start([]).await);
        let workspace = WorkspaceFile::new("acme")
            .with_percent(None)
            .permitted(&[
                "messages.send",
                "users.track",
                "users.merge",
                "users.delete",
                "email.status",
            ])
            .with("campaigns", json!([{ "id": CAMPAIGN, "name": "Welcome", "type": "api" }]))
            .with("apps", json!([{ "id": IOS, "name": "Acme", "platform": "ios" }]))
            .with(
                "email",
                json!({
                    "smtp": relay.url("", ""), "from": "hello@acme.example",
                    "events_secret": EVENTS_SECRET,
                }),
            )
            .with(
                "providers",
                json!({
                    "push": { "url": provider.url("/push"), "secret": "secret-of-the-push-provider" },
                    "feedback_secret": FEEDBACK_SECRET,
                }),
            );
        let fleet = Fleet::start(backend, settings).await;
        let api = fleet.apply(&[workspace]).await.remove(0);
        let ann = json!({
            "external_id": "ann", "email": "ann@people.example", "first_name": "Ann",
            "push_tokens": [
                { "app_id": IOS, "token": "old" }, { "app_id": IOS, "token": "new" },
            ],
        });
        fleet.import("acme", &[ann.to_string()]).await;
        Self { fleet, api, relay, provider }
    }

    /// Sends Ann an email and a push message; answers their ids, as the relay and the provider
    /// were given them.
    async fn send(&self) -> (String, String) {
        let body = json!({
            "external_user_ids": ["ann"], "campaign_id": CAMPAIGN,
            "messages": {
                "email": {
                    "app_id": IOS, "from": "hello@acme.example", "subject": "Hi",
                    "body": "<p>Hi</p>",
                },
                "apple_push": { "alert": "Hi" },
            },
        });
        let (emails, pushes) = (self.relay.accepted().len(), self.provider.received().len());
        let answer = self.api.post("/messages/send", &body).await;
        assert!(answer.status.is_success(), "{answer:?}");
        let received = self.provider.wait_for(pushes + 1).await;
        eventually("the email is there", || async { self.relay.accepted().len() > emails }).await;
        let email = self.relay.accepted().pop().expect("an email");
        let id = email.header("Message-ID").expect("a Message-ID");
        (id, received[pushes].header("webhook-id").to_owned())
    }

    async fn ann(&self) -> Value {
        let shown = self.fleet.run(&["users", "show", "ann", "--json"]).await;
        serde_json::from_str(&shown).expect("JSON")
    }

    /// Sent, delivered and bounced, by a channel.
    async fn counts(&self, channel: &str) -> [i64; 3] {
        let lines = self.fleet.run(&["campaigns", "stats", CAMPAIGN, "--json"]).await;
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let found = lines.into_iter().find(|line| line["channel"] == channel);
        ["sent", "delivered", "bounced"]
            .map(|name| found.as_ref().map_or(0, |line| line[name].as_i64().expect("a number")))
    }

    /// Signs a report and makes it.
    async fn report(&self, path: &str, secret: &str, body: &Value) -> u16 {
        let (now, text) = (Timestamp::now().as_second(), body.to_string());
        let signature = sign(secret, "report-1", now, &text);
        self.post(path, ["report-1", &now.to_string(), &signature], text).await.status().as_u16()
    }

    async fn post(&self, path: &str, [id, time, signature]: [&str; 3], body: String) -> Response {
        let request = Client::new().post(format!("{}{path}", self.fleet.base()));
        let request = request.header("webhook-id", id).header("webhook-timestamp", time);
        let request = request.header("webhook-signature", signature);
        let request = request.header("content-type", "application/json");
        request.body(body).send().await.expect("an answer")
    }
}

fn sign(secret: &str, id: &str, time: i64, body: &str) -> String {
    callbacks::sign(secret.as_bytes(), id, &time.to_string(), body.as_bytes())
}

const PUSH: &str = "/feedback/push?workspace=acme";
const EVENTS: &str = "/email/events?workspace=acme";

async fn reports_are_applied_once(backend: Backend) {
    let world = World::start(backend).await;
    let (email, push) = world.send().await;
    // The outcome of them; said twice it is known once.
    let delivered = json!({ "reports": [{ "type": "delivered", "id": push }] });
    let bounced = json!({ "events": [
        { "type": "processed", "id": email },
        { "type": "delivered", "id": email },
        { "type": "bounced", "id": email, "code": 550, "reason": "No such user" },
        { "type": "bounced", "id": "<of-others@acme.example>" },
    ] });
    for _ in 0..2 {
        assert_eq!(world.report(PUSH, FEEDBACK_SECRET, &delivered).await, 200);
        assert_eq!(world.report(EVENTS, EVENTS_SECRET, &bounced).await, 200);
    }
    eventually("all is counted", || async {
        world.counts("apple_push").await == [1, 1, 0] && world.counts("email").await == [1, 0, 1]
    })
    .await;
    // A device that is gone is removed from the profile, and an invalid number is listed.
    let gone = json!({ "reports": [
        { "type": "unregistered_device", "id": push, "token": "old", "app_id": IOS },
        { "type": "unregistered_device", "id": push, "token": "never-there" },
        { "type": "invalid_number", "number": "+15550177" },
    ] });
    for _ in 0..2 {
        assert_eq!(world.report(PUSH, FEEDBACK_SECRET, &gone).await, 200);
        let ann = world.ann().await;
        assert_eq!(ann["push_tokens"], json!([{ "app_id": IOS, "token": "new" }]));
        assert_eq!(ann["first_name"], "Ann");
    }
    let listed = world.fleet.run(&["invalid-numbers", "list", "--json"]).await;
    assert!(listed.lines().count() == 1 && listed.contains("15550177"), "{listed}");
    // A device that was registered again after the message stays.
    let again = json!({
        "external_id": "ann", "email": "ann@people.example", "first_name": "Ann",
        "push_tokens": [{ "app_id": IOS, "token": "old" }],
    });
    world.fleet.import("acme", &[again.to_string()]).await;
    let late = json!({ "reports": [
        { "type": "unregistered_device", "id": push, "token": "old" },
        { "type": "failed", "id": push },
    ] });
    assert_eq!(world.report(PUSH, FEEDBACK_SECRET, &late).await, 200);
    assert_eq!(world.ann().await["push_tokens"].as_array().map(Vec::len), Some(2));
    // The address bounced.
    world.fleet.run(&["suppressions", "lift", "ann@people.example"]).await;
    let (_, push) = world.send().await;
    let now = json!({ "reports": [{ "type": "unregistered_device", "id": push, "token": "old" }] });
    assert_eq!(world.report(PUSH, FEEDBACK_SECRET, &now).await, 200);
    assert_eq!(world.ann().await["push_tokens"].as_array().map(Vec::len), Some(1));
    // Anything wrong in one: nothing of it is written.
    let wrong = json!({ "reports": [
        { "type": "unregistered_device", "id": push, "token": "new" }, { "type": "read" },
    ] });
    assert_eq!(world.report(PUSH, FEEDBACK_SECRET, &wrong).await, 400);
    assert_eq!(world.ann().await["push_tokens"].as_array().map(Vec::len), Some(1));
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_email_that_the_relay_rejected_was_not_sent() {
    let world = World::start(Backend::Embedded).await;
    world.relay.script([(Step::To, Action::Reply(550, "5.1.1 no such user"))]);
    let body = json!({
        "external_user_ids": ["ann"], "campaign_id": CAMPAIGN,
        "messages": { "email": {
            "app_id": IOS, "from": "hello@acme.example", "subject": "Hi", "body": "<p>Hi</p>",
        } },
    });
    let answer = world.api.post("/messages/send", &body).await;
    assert!(answer.status.is_success(), "{answer:?}");
    eventually("it has bounced", || async { world.counts("email").await == [0, 0, 1] }).await;
    let listed = world.fleet.run(&["messages", "ann", "--json"]).await;
    let listed: Value = serde_json::from_str(&listed).expect("one message");
    assert_eq!(
        (&listed["state"], &listed["sent_at"]),
        (&json!("bounced"), &Value::Null),
        "{listed}"
    );
    world.fleet.close().await;
}

/// Whoever has seen a signed request can send it again for as long as its time is recent.
async fn a_replayed_report_undoes_nothing(backend: Backend) {
    let world = World::start(backend).await;
    let body = json!({ "reports": [{ "type": "invalid_number", "number": "+15550177" }] });
    let (now, text) = (Timestamp::now().as_second(), body.to_string());
    let report = async |id: &str| {
        let signature = sign(FEEDBACK_SECRET, id, now, &text);
        let answer = world.post(PUSH, [id, &now.to_string(), &signature], text.clone()).await;
        assert_eq!(answer.status(), 200, "{id}");
        world.fleet.run(&["invalid-numbers", "list", "--json"]).await.lines().count()
    };
    assert_eq!(report("first").await, 1);
    world.fleet.run(&["invalid-numbers", "remove", "+15550177"]).await;
    assert_eq!(report("first").await, 0, "a replay put the number on the list again");
    // What the provider says again counts.
    assert_eq!(report("second").await, 1);
    world.fleet.close().await;
}

async fn unsigned_reports_are_rejected(backend: Backend) {
    let world = World::start(backend).await;
    let (_, push) = world.send().await;
    let gone = json!({ "reports": [
        { "type": "unregistered_device", "id": push, "token": "old" },
    ] });
    for (path, secret) in [
        (PUSH, EVENTS_SECRET),
        (PUSH, ""),
        ("/feedback/push", FEEDBACK_SECRET),
        ("/feedback/push?workspace=", FEEDBACK_SECRET),
        ("/feedback/push?workspace=other", FEEDBACK_SECRET),
        ("/feedback/push?workspace=acme&workspace=acme", FEEDBACK_SECRET),
        (EVENTS, FEEDBACK_SECRET),
    ] {
        assert_eq!(world.report(path, secret, &gone).await, 401, "{path} {secret}");
    }
    assert_eq!(world.report("/feedback/fax?workspace=acme", FEEDBACK_SECRET, &gone).await, 404);
    let (now, text) = (Timestamp::now().as_second(), gone.to_string());
    for (time, body) in [(now - 400, &text), (now + 400, &text), (now, &text.replace("old", "new"))]
    {
        let signature = sign(FEEDBACK_SECRET, "a", time, &text);
        let answer = world.post(PUSH, ["a", &time.to_string(), &signature], body.clone()).await;
        assert_eq!(answer.status(), 401, "{time}");
    }
    let unsigned = Client::new().post(format!("{}{PUSH}", world.fleet.base())).json(&gone);
    assert_eq!(unsigned.send().await.unwrap().status(), 401);
    // Only the operator sees the reason, not the caller.
    eventually("all reasons are logged", || async {
        let printed = world.fleet.printed();
        let refused = printed.lines().filter(|line| line.contains("reports rejected"));
        let refused = refused.collect::<String>();
        [
            "the workspace is missing",
            "unknown workspace",
            "webhook-timestamp is missing",
            "differs by more than five minutes",
            "does not match the workspace's secret",
        ]
        .iter()
        .all(|why| refused.contains(why))
    })
    .await;
    assert_eq!(world.ann().await["push_tokens"].as_array().map(Vec::len), Some(2));
    // One of several signatures does, as while the secret is changed.
    let signature = format!("v1,AAAA {}", sign(FEEDBACK_SECRET, "a", now, &text));
    let answer = world.post(PUSH, ["a", &now.to_string(), &signature], text).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(world.ann().await["push_tokens"].as_array().map(Vec::len), Some(1));
    world.fleet.close().await;
}

async fn one_click_unsubscribes(backend: Backend) {
    let world = World::start(backend).await;
    world.send().await;
    let email = world.relay.accepted().pop().expect("an email");
    assert_eq!(
        email.header("List-Unsubscribe-Post").as_deref(),
        Some("List-Unsubscribe=One-Click")
    );
    let link = email.header("List-Unsubscribe").expect("a link");
    let link = link.trim_matches(['<', '>']).to_owned();
    assert!(link.starts_with(world.fleet.base()), "{link}");
    let call = |method: Method, url: String| async move {
        let form = "List-Unsubscribe=One-Click";
        let request = Client::new().request(method, url).body(form);
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let response = request.send().await.expect("an answer");
        (response.status().as_u16(), response.text().await.expect("a text"))
    };
    // Looking at it changes nothing.
    let (status, page) = call(Method::GET, link.clone()).await;
    assert!(status == 200 && page.contains("<form method=\"post\">"), "{page}");
    assert_eq!(call(Method::HEAD, link.clone()).await.0, 200);
    world.fleet.applied().await;
    assert_eq!(world.ann().await.get("email_subscribe"), None);
    // A link that somebody has made up.
    let last = if link.ends_with('A') { "B" } else { "A" };
    let forged = format!("{}{last}", &link[..link.len() - 1]);
    for method in [Method::GET, Method::POST] {
        assert_eq!(call(method, forged.clone()).await.0, 404);
    }
    for _ in 0..2 {
        assert_eq!(call(Method::POST, link.clone()).await.0, 200);
    }
    world.fleet.applied().await;
    assert_eq!(world.ann().await["email_subscribe"], "unsubscribed");
    assert_eq!(world.ann().await["first_name"], "Ann");
    world.fleet.close().await;
}

/// A POST of one-click unsubscribing; returns its status.
async fn unsubscribe(link: &str) -> u16 {
    let request = Client::new().post(link).body("List-Unsubscribe=One-Click");
    request.send().await.expect("an answer").status().as_u16()
}

impl World {
    /// The address in an email's `List-Unsubscribe`.
    async fn link(&self) -> String {
        self.send().await;
        let email = self.relay.accepted().pop().expect("an email");
        let link = email.header("List-Unsubscribe").expect("a link");
        link.trim_matches(['<', '>']).to_owned()
    }

    /// How many messages were appended by such addresses.
    async fn unsubscribed(&self, gateway: &str) -> u64 {
        let metrics = self.fleet.metrics(gateway).await;
        let name = "longshore_message_reports_total{type=\"unsubscribed\"} ";
        let count = metrics.lines().find_map(|line| line.strip_prefix(name));
        count.map_or(0, |count| count.parse().expect("a number"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_works_for_its_address_when_its_user_is_merged_or_erased() {
    let world = World::start(Backend::Embedded).await;
    let link = world.link().await;
    let bob = json!({ "external_id": "bob", "first_name": "Bob" });
    world.fleet.import("acme", &[bob.to_string()]).await;
    let merge = json!({ "merge_updates": [{
        "identifier_to_merge": { "external_id": "ann" },
        "identifier_to_keep": { "external_id": "bob" },
    }] });
    let answer = world.api.post("/users/merge", &merge).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    world.fleet.applied().await;
    assert_eq!(unsubscribe(&link).await, 200);
    world.fleet.applied().await;
    let shown = world.fleet.run(&["users", "show", "bob", "--json"]).await;
    let bob: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(bob["email_subscribe"], "unsubscribed");
    assert_eq!(bob["email"], "ann@people.example");
    // Nobody has the address, but the link unsubscribes it for all who will get it.
    let status = json!({ "email": "ann@people.example", "subscription_state": "subscribed" });
    assert_eq!(world.api.post("/email/status", &status).await.status, 201);
    let delete = json!({ "external_ids": ["bob"] });
    assert_eq!(world.api.post("/users/delete", &delete).await.status, 201);
    world.fleet.applied().await;
    let page = Client::new().get(&link).send().await.expect("an answer");
    assert_eq!(page.status(), 200);
    assert!(page.text().await.expect("a text").contains("<form"));
    assert_eq!(unsubscribe(&link).await, 200);
    world.fleet.applied().await;
    let ann = json!({ "external_id": "again", "email": "Ann@people.example" });
    world.fleet.import("acme", &[ann.to_string()]).await;
    let shown = world.fleet.run(&["users", "show", "again", "--json"]).await;
    let again: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(again["email_subscribe"], "unsubscribed");
    // A link of an earlier release has no address, so nobody is left who could be unsubscribed. The
    // response must not look like success.
    let key = world.fleet.config().secret_key().expect("a secret key");
    let token = link.rsplit('/').next().expect("a token");
    let recipient = unsubscribe_token::read(&key, token).expect("a valid token");
    let earlier = unsubscribe_token::Recipient { address: None, ..recipient };
    let earlier = link.replace(token, &unsubscribe_token::token(&key, &earlier));
    assert_eq!(unsubscribe(&earlier).await, 410);
    let page = Client::new().get(&earlier).send().await.expect("an answer");
    assert_eq!(page.status(), 410);
    assert!(!page.text().await.expect("a text").contains("<form"));
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_reaches_users_with_the_other_spelling_of_the_address() {
    let world = World::start(Backend::Embedded).await;
    let user = |id: &str, email: &str| json!({ "external_id": id, "email": email }).to_string();
    let users = [user("ann", "ann@bücher.example"), user("bob", "ann@xn--bcher-kva.example")];
    world.fleet.import("acme", &users).await;
    let link = world.link().await;
    assert_eq!(unsubscribe(&link).await, 200);
    world.fleet.applied().await;
    let shown = world.fleet.run(&["users", "show", "bob", "--json"]).await;
    let bob: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(bob["email_subscribe"], "unsubscribed");
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unsubscribing_again_appends_a_bounded_amount() {
    let world = World::start(Backend::Embedded).await;
    let link = world.link().await;
    assert_eq!(unsubscribe(&link).await, 200);
    world.fleet.applied().await;
    for _ in 0..20 {
        assert_eq!(unsubscribe(&link).await, 200);
    }
    // An older change could still wait in the log, so a few repeats are appended, too.
    assert_eq!(world.unsubscribed("standalone").await, 4);
    // Who has subscribed since can unsubscribe again.
    let status = json!({ "email": "ann@people.example", "subscription_state": "subscribed" });
    let answer = world.api.post("/email/status", &status).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    world.fleet.applied().await;
    assert_eq!(unsubscribe(&link).await, 200);
    world.fleet.applied().await;
    assert_eq!(world.ann().await["email_subscribe"], "unsubscribed");
    assert_eq!(world.unsubscribed("standalone").await, 5);
    // Each repeat looks the user up: one address has so many a minute.
    let mut statuses = Vec::new();
    while statuses.len() < 100 && !statuses.contains(&429) {
        statuses.push(unsubscribe(&link).await);
    }
    assert_eq!(statuses.pop(), Some(429));
    assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
    world.fleet.close().await;
}

/// What the log does not accept does not count among the messages that one address may append.
#[tokio::test(flavor = "multi_thread")]
async fn unsubscribing_works_after_the_log_recovers() {
    let broker = Proxy::to_kafka(&servers::kafka()).await;
    let log = format!("kafka://{}", broker.address());
    let settings =
        [("LONGSHORE_LOG_URL", log), ("LONGSHORE_LOG__APPEND_TIMEOUT_MS", "800".to_owned())];
    let world = World::with(Backend::Fleet(1), &settings).await;
    let link = world.link().await;
    broker.set(ProxyMode::Refused);
    for _ in 0..7 {
        assert_eq!(unsubscribe(&link).await, 503);
    }
    broker.set(ProxyMode::Open);
    eventually("the user can unsubscribe", async || unsubscribe(&link).await == 200).await;
    world.fleet.applied().await;
    assert_eq!(world.ann().await["email_subscribe"], "unsubscribed");
    world.fleet.close().await;
}

/// Other workspaces' objects may be before it.
#[tokio::test(flavor = "multi_thread")]
async fn unsubscribing_does_not_wait_for_the_log() {
    let mut world = World::start(Backend::Fleet(1)).await;
    let link = world.link().await;
    world.fleet.terminate("worker-1").await;
    let subscribed = json!({ "external_id": "ann", "email_subscribe": "subscribed" });
    let answer = world.api.post("/users/track", &json!({ "attributes": [subscribed] })).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(unsubscribe(&link).await, 200);
    eventually("ann is unsubscribed", async || {
        world.ann().await["email_subscribe"] == "unsubscribed"
    })
    .await;
    for _ in 0..20 {
        assert_eq!(unsubscribe(&link).await, 200);
    }
    assert_eq!(world.unsubscribed("gateway").await, 4);
    world.fleet.launch("worker-1").await;
    world.fleet.applied().await;
    assert_eq!(world.ann().await["email_subscribe"], "unsubscribed");
    world.fleet.close().await;
}

macro_rules! on_both {
    ($($test:ident $on_fleet:ident,)+) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $on_fleet() {
            $test(Backend::Fleet(1)).await;
        })+

        mod standalone {
            use super::*;

            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::$test(Backend::Embedded).await;
            })+
        }
    };
}

on_both!(
    reports_are_applied_once reports_to_a_fleet_are_applied_once,
    a_replayed_report_undoes_nothing a_report_replayed_at_a_fleet_undoes_nothing,
    one_click_unsubscribes one_click_unsubscribes_at_a_fleet,
);

#[tokio::test(flavor = "multi_thread")]
async fn unsigned_requests_report_nothing() {
    unsigned_reports_are_rejected(Backend::Embedded).await;
}
