//! Opt-outs of email addresses and of phone numbers: they hold for each user who has the address,
//! whoever unsubscribed it.

use std::collections::BTreeSet;

use longshore::workspaces::keys::PERMISSIONS;
use reqwest::Client;
use serde_json::{Value, json};

use crate::support::archives;
use crate::support::fleet::{Backend, Fleet};
use crate::support::receiver::Receiver;
use crate::support::scripted_relay::ScriptedRelay;
use crate::support::stores;
use crate::support::{Api, WorkspaceFile};

const APP: &str = "cccc0000-0000-4000-8000-000000000002";
const GROUP: &str = "7d0c6f5e-4b1a-4e0f-9a55-2f6d1c3b8a90";

/// A mailbox that several users have.
const SHARED: &str = "family@people.example";

struct World {
    fleet: Fleet,
    api: Api,
    relay: ScriptedRelay,
    provider: Receiver,
}

impl World {
    async fn start(users: &[Value]) -> Self {
        let (relay, provider) = (ScriptedRelay::start(&[], []).await, Receiver::start([]).await);
        let sms = json!({ "url": provider.url("/sms"), "secret": "secret-of-the-sms-provider" });
        let workspace = WorkspaceFile::new("acme")
            .with_percent(None)
            .permitted(PERMISSIONS)
            .with("apps", json!([{ "id": APP, "name": "Acme", "platform": "ios" }]))
            .with("email", json!({ "smtp": relay.url("", ""), "from": "hello@acme.example" }))
            .with("providers", json!({ "sms": sms }))
            .with(
                "subscription_groups",
                json!([{ "id": GROUP, "channel": "sms", "from": "+15550100" }]),
            );
        let fleet = Fleet::start(Backend::Embedded, &[]).await;
        let api = fleet.apply(&[workspace]).await.remove(0);
        let world = Self { fleet, api, relay, provider };
        world.import(users).await;
        world
    }

    async fn import(&self, users: &[Value]) {
        let lines: Vec<String> = users.iter().map(Value::to_string).collect();
        self.fleet.import("acme", &lines).await;
    }

    /// Makes a call that must succeed, and waits until it is applied.
    async fn done(&self, path: &str, body: Value) {
        let answer = self.api.post(path, &body).await;
        assert!(answer.status.is_success(), "{path} {body}: {answer:?}");
        self.fleet.applied().await;
    }

    async fn track(&self, attributes: Value) {
        self.done("/users/track", json!({ "attributes": [attributes] })).await;
    }

    async fn email_status(&self, email: &str, state: &str) {
        self.done("/email/status", json!({ "email": email, "subscription_state": state })).await;
    }

    async fn send(&self, users: &[&str], channel: &str, message: Value) {
        let body = json!({ "external_user_ids": users, "messages": { channel: message } });
        let answer = self.api.post("/messages/send", &body).await;
        assert!(answer.status.is_success(), "{answer:?}");
        self.fleet.applied().await;
        let open = "SELECT (SELECT count(*) FROM dispatch_parts WHERE is_done = FALSE)
                         + (SELECT count(*) FROM dispatches WHERE plans_left > 0)";
        stores::wait_for_count(&self.fleet.database_url(), open, |count| count == 0).await;
    }

    /// Sends an email to each user; returns the addresses that got one.
    async fn mailed(&self, users: &[&str]) -> BTreeSet<String> {
        let before = self.relay.accepted().len();
        let email = json!({
            "app_id": APP, "from": "hello@acme.example", "subject": "Hi", "body": "<p>Hi</p>",
        });
        self.send(users, "email", email).await;
        let header = |name: &str| {
            self.relay.accepted()[before..]
                .iter()
                .map(|email| email.header(name).expect("a header"))
                .collect()
        };
        header("To")
    }

    /// Sends an SMS to each user; returns the users who got one.
    async fn texted(&self, users: &[&str]) -> BTreeSet<String> {
        let before = self.provider.received().len();
        let sms = json!({ "subscription_group_id": GROUP, "app_id": APP, "body": "Hi" });
        self.send(users, "sms", sms).await;
        let user = |body: &[u8]| {
            let body: Value = serde_json::from_slice(body).expect("JSON");
            body["user"]["external_id"].as_str().expect("an id").to_owned()
        };
        self.provider.received()[before..].iter().map(|received| user(&received.body)).collect()
    }

    /// The link in the last email.
    fn link(&self) -> String {
        let email = self.relay.accepted().pop().expect("an email");
        let link = email.header("List-Unsubscribe").expect("a link");
        link.trim_matches(['<', '>']).to_owned()
    }

    /// The states of users and numbers in the group, by a query.
    async fn group_states(&self, query: &str) -> Value {
        let path = format!("/subscription/status/get?subscription_group_id={GROUP}&{query}");
        let answer = self.api.get(&path).await;
        assert_eq!(answer.status, 200, "{query}: {answer:?}");
        answer.body["status"].clone()
    }

    async fn state(&self, user: &str) -> Value {
        let shown = self.fleet.run(&["users", "show", user, "--json"]).await;
        serde_json::from_str::<Value>(&shown).expect("JSON")["email_subscribe"].clone()
    }
}

fn user(id: &str, email: &str) -> Value {
    json!({ "external_id": id, "email": email })
}

fn texts(id: &str, phone: &str) -> Value {
    let group = json!({ "subscription_group_id": GROUP, "subscription_state": "subscribed" });
    json!({ "external_id": id, "phone": phone, "subscription_groups": [group] })
}

fn set<const N: usize>(members: [&str; N]) -> BTreeSet<String> {
    members.into_iter().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_opt_out_of_one_user_stops_the_mailbox_of_all() {
    let world = World::start(&[user("ann", SHARED), user("bob", "Family@people.example")]).await;
    assert_eq!(world.mailed(&["ann", "bob"]).await.len(), 2);
    world.email_status(SHARED, "unsubscribed").await;
    assert_eq!(world.mailed(&["ann", "bob"]).await, set([]));
    world.email_status(SHARED, "subscribed").await;
    assert_eq!(world.mailed(&["ann", "bob"]).await.len(), 2);

    world.track(json!({ "external_id": "ann", "email_subscribe": "unsubscribed" })).await;
    assert_eq!(world.mailed(&["ann", "bob"]).await, set([]));
    // A nightly list of what each user chose subscribes no mailbox again, by whatever identifier.
    for name in ["ann", "bob"] {
        world.track(json!({ "external_id": name, "email_subscribe": "subscribed" })).await;
    }
    world.track(json!({ "email": SHARED, "email_subscribe": "opted_in" })).await;
    world
        .import(&[
            json!({ "external_id": "bob", "email": SHARED, "email_subscribe": "subscribed" }),
        ])
        .await;
    assert_eq!(world.mailed(&["ann", "bob"]).await, set([]));
    // Also not when all who have it are erased and imported again.
    world.done("/users/delete", json!({ "external_ids": ["ann", "bob"] })).await;
    world.import(&[user("ann", SHARED), user("cay", SHARED)]).await;
    assert_eq!(world.mailed(&["ann", "cay"]).await, set([]));
    assert_eq!(world.state("ann").await, "unsubscribed");
    world.email_status(SHARED, "opted_in").await;
    assert_eq!(world.mailed(&["ann", "cay"]).await.len(), 1);
    assert_eq!(world.state("ann").await, "opted_in");
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_in_an_email_to_an_old_address_stops_the_old_address() {
    const OLD: &str = "old@people.example";
    const NEW: &str = "new@people.example";
    let world = World::start(&[user("ann", OLD)]).await;
    assert_eq!(world.mailed(&["ann"]).await, set([OLD]));
    let link = world.link();
    world.track(user("ann", NEW)).await;
    world.track(user("bob", OLD)).await;
    assert_eq!(world.mailed(&["ann", "bob"]).await, set([NEW, OLD]));
    let answer = Client::new().post(&link).send().await.expect("an answer");
    assert_eq!(answer.status(), 200);
    world.fleet.applied().await;
    assert_eq!(world.mailed(&["ann", "bob"]).await, set([NEW]));
    // Who gets the old address later gets no emails, either; and the link works without the user.
    world.track(user("cay", OLD)).await;
    assert_eq!(world.mailed(&["cay"]).await, set([]));
    world.email_status(OLD, "subscribed").await;
    assert_eq!(world.mailed(&["cay"]).await, set([OLD]));
    world.done("/users/delete", json!({ "external_ids": ["ann"] })).await;
    let answer = Client::new().post(&link).send().await.expect("an answer");
    assert_eq!(answer.status(), 200);
    world.fleet.applied().await;
    assert_eq!(world.mailed(&["bob", "cay"]).await, set([]));
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_opt_out_of_one_user_stops_texts_to_the_number() {
    const NUMBER: &str = "+442000000010";
    const OTHER: &str = "+442000000011";
    let users = [texts("ann", NUMBER), texts("bob", NUMBER), texts("cay", OTHER)];
    let world = World::start(&users).await;
    let all = ["ann", "bob", "cay"];
    assert_eq!(world.texted(&all).await, set(all));
    let group =
        |state: &str| json!({ "subscription_group_id": GROUP, "subscription_state": state });
    let out = json!([group("unsubscribed")]);
    world.track(json!({ "external_id": "ann", "subscription_groups": out })).await;
    assert_eq!(world.texted(&all).await, set(["cay"]));
    assert_eq!(world.group_states("external_id=bob").await, json!({ "bob": "Unsubscribed" }));
    // A user's own state does not end it. It is known when nobody has the number.
    let by = |name: &str, value: Value, state: &str| {
        let mut body = group(state);
        body[name] = value;
        body
    };
    world.done("/subscription/status/set", by("external_id", json!("bob"), "subscribed")).await;
    assert_eq!(world.texted(&all).await, set(["cay"]));
    world.done("/users/delete", json!({ "external_ids": ["ann", "bob"] })).await;
    let spellings = ["+442000000010", "+44 20 0000 0010", "00442000000010", "44 (20) 0000-0010"];
    for text in spellings {
        let query: String = url::form_urlencoded::byte_serialize(text.as_bytes()).collect();
        let states = world.group_states(&format!("phone={query}")).await;
        assert_eq!(states, json!({ text: "Unsubscribed" }), "{text}");
    }
    world.import(&users[..2]).await;
    assert_eq!(world.texted(&all).await, set(["cay"]));
    // By the number itself, in any spelling.
    for (text, is_subscribed) in spellings.into_iter().zip([true, false].into_iter().cycle()) {
        let state = if is_subscribed { "subscribed" } else { "unsubscribed" };
        world.done("/subscription/status/set", by("phone", json!([text]), state)).await;
        let expected = if is_subscribed { set(all) } else { set(["cay"]) };
        assert_eq!(world.texted(&all).await, expected, "{text} {state}");
    }
    let mut many = by("phones", json!(["0044 2000000010", OTHER]), "subscribed");
    world.done("/v2/subscription/status/set", json!({ "subscription_groups": [many] })).await;
    assert_eq!(world.texted(&all).await, set(all));
    many = by("phones", json!([OTHER]), "unsubscribed");
    world.done("/v2/subscription/status/set", json!({ "subscription_groups": [many] })).await;
    assert_eq!(world.texted(&all).await, set(["ann", "bob"]));
    // What is no number is refused.
    for (name, wrong) in [("phone", json!("12")), ("phone", json!(["+44 20 0000 0010 x"]))] {
        let answer =
            world.api.post("/subscription/status/set", &by(name, wrong, "subscribed")).await;
        assert_eq!((answer.status.as_u16(), &answer.body["code"]), (400, &json!("invalid-field")));
    }
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn audiences_count_users_of_an_unsubscribed_address_as_unsubscribed() {
    let users = [user("ann", SHARED), user("bob", SHARED), user("cay", "cay@people.example")];
    let world = World::start(&users).await;
    world.track(json!({ "external_id": "bob", "email_subscribe": "opted_in" })).await;
    world.email_status(SHARED, "unsubscribed").await;
    for (state, expected) in
        [("unsubscribed", set(["ann", "bob"])), ("subscribed", set(["cay"])), ("opted_in", set([]))]
    {
        let condition = json!({ "comparison": "is", "value": state });
        let mut body = json!({
            "fields_to_export": ["external_id", "email_subscribe"],
            "audience": { "email_subscription_status": condition },
        });
        let answer = world.api.post("/users/export/segment", &body).await;
        assert!(answer.status.is_success(), "{answer:?}");
        let prefix = answer.body["object_prefix"].as_str().expect("an object_prefix");
        world.api.done(prefix).await;
        let url = answer.body["url"].as_str();
        let ids: BTreeSet<String> = match url {
            Some(url) if !expected.is_empty() => {
                let files = archives::unzip(&world.api.download(url).await);
                let lines = files.iter().flat_map(|file| file.bytes.split(|byte| *byte == b'\n'));
                let lines = lines.filter(|line| !line.is_empty());
                lines
                    .map(|line| {
                        let line: Value = serde_json::from_slice(line).expect("JSON");
                        if state == "unsubscribed" {
                            assert_eq!(line["email_subscribe"], "unsubscribed", "{line}");
                        }
                        line["external_id"].as_str().expect("an id").to_owned()
                    })
                    .collect()
            }
            _ => BTreeSet::new(),
        };
        assert_eq!(ids, expected, "{state}");
        body["dry_run"] = true.into();
        let dry = world.api.post("/users/export/segment", &body).await;
        assert_eq!(dry.body["users"]["estimated"], expected.len(), "{dry:?}");
    }
    world.fleet.close().await;
}
