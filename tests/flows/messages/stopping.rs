//! Opt-outs by a reply to a message, such as STOP, which the provider reports.

use jiff::Timestamp;
use reqwest::Client;
use serde_json::{Value, json};

use super::sending::Sending;
use crate::support::callbacks;
use crate::support::fleet::Backend;

const NEWS: &str = "bbbb0000-0000-4000-8000-00000000000a";
const OFFERS: &str = "bbbb0000-0000-4000-8000-00000000000b";
const CHATS: &str = "bbbb0000-0000-4000-8000-00000000000c";
const SECRET: &str = "secret-of-the-providers-feedback";

struct World(Sending);

impl World {
    async fn start(backend: Backend) -> Self {
        let sending = Sending::start(backend, &[], |receiver| {
            let secret = "a-secret-of-more-than-24-bytes,-plain";
            let provider = json!({ "url": receiver.url("/phone"), "secret": secret });
            let group = |id: &str, channel: &str| json!({ "id": id, "channel": channel, "from": "+15550199" });
            vec![
                (
                    "providers",
                    json!({ "sms": provider, "whats_app": provider, "feedback_secret": SECRET }),
                ),
                (
                    "subscription_groups",
                    json!([group(NEWS, "sms"), group(OFFERS, "sms"), group(CHATS, "whats_app")]),
                ),
            ]
        });
        Self(sending.await)
    }

    fn user(id: &str, phone: &str) -> Value {
        let groups = [NEWS, OFFERS, CHATS].map(
            |group| json!({ "subscription_group_id": group, "subscription_state": "subscribed" }),
        );
        json!({ "external_id": id, "phone": phone, "subscription_groups": groups })
    }

    /// Reports what a provider got; returns the status and the code.
    async fn report(&self, provider: &str, id: &str, reports: Value) -> (u16, Value) {
        let (now, text) = (Timestamp::now().as_second(), json!({ "reports": reports }).to_string());
        let signature = callbacks::sign(SECRET.as_bytes(), id, &now.to_string(), text.as_bytes());
        let url = format!("{}/feedback/{provider}?workspace=acme", self.0.fleet.base());
        let request = Client::new().post(url).header("content-type", "application/json");
        let request = request.header("webhook-id", id).header("webhook-timestamp", now);
        let request = request.header("webhook-signature", signature).body(text);
        let response = request.send().await.expect("a response");
        let status = response.status().as_u16();
        (status, response.json::<Value>().await.expect("JSON")["code"].take())
    }

    /// The users who get a message of a group.
    async fn reached(&self, channel: &str, group: &str, users: &[&str]) -> Vec<String> {
        let before = self.0.receiver.received().len();
        let mut message = json!({ "app_id": "a", "subscription_group_id": group, "body": "Hi" });
        if channel == "whats_app" {
            message["message_type"] = "text".into();
            message["message"] = json!({ "body": message["body"].take() });
            message.as_object_mut().unwrap().remove("body");
        }
        let body = json!({ "external_user_ids": users, "messages": { channel: message } });
        let sent = self.0.api.post("/messages/send", &body).await;
        assert_eq!(sent.status, 201, "{sent:?}");
        self.0.fleet.applied().await;
        self.0.all_ended().await;
        let requests = self.0.receiver.received().split_off(before);
        let to = |request: &crate::support::receiver::Received| {
            let body: Value = serde_json::from_slice(&request.body).expect("JSON");
            body["user"]["external_id"].as_str().expect("an external id").to_owned()
        };
        let mut users: Vec<String> = requests.iter().map(to).collect();
        users.sort();
        users
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_holds_for_the_number_standalone() {
    a_stop_holds_for_the_number(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_holds_for_the_number_in_a_fleet() {
    a_stop_holds_for_the_number(Backend::Fleet(1)).await;
}

async fn a_stop_holds_for_the_number(backend: Backend) {
    let world = World::start(backend).await;
    let fleet = &world.0.fleet;
    let lines = [World::user("ann", "+1 (555) 01-00"), World::user("cid", "+15550101")];
    fleet.import("acme", &lines.map(|line| line.to_string())).await;
    let stop = |number: &str| json!({ "type": "unsubscribed", "number": number });
    let with = |mut report: Value, name: &str, value: &str| {
        report[name] = value.into();
        report
    };
    let ahead = with(stop("001 555-0100"), "at", "2100-01-01T00:00:00Z");
    let news = json!([with(ahead, "subscription_group_id", &NEWS.to_uppercase())]);
    for _ in 0..2 {
        assert_eq!(world.report("sms", "1", news.clone()).await.0, 200);
    }
    // Of one who comes later, too.
    let body = json!({ "attributes": [World::user("bob", "1.555.0100")] });
    assert_eq!(world.0.api.post("/users/track", &body).await.status, 201);
    fleet.applied().await;
    let shown = fleet.run(&["users", "show", "bob", "--json"]).await;
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(shown["phone"], "+15550100");
    let all = ["ann", "bob", "cid"];
    assert_eq!(world.reached("sms", NEWS, &all).await, ["cid"]);
    assert_eq!(world.reached("sms", OFFERS, &all).await, all);
    // The time of an opt-out is not in the future, so a person's later wish ends it.
    fleet.run(&["suppressions", "lift", "+1 555 0100", "--group", NEWS]).await;
    assert_eq!(world.reached("sms", NEWS, &all).await, all);
    assert_eq!(world.report("sms", "1", news).await.0, 200);
    assert_eq!(world.reached("sms", NEWS, &all).await, all);
    // Without a group, those of the channel.
    assert_eq!(world.report("sms", "2", json!([stop("+15550100")])).await.0, 200);
    for group in [NEWS, OFFERS] {
        assert_eq!(world.reached("sms", group, &all).await, ["cid"]);
    }
    assert_eq!(world.reached("whats_app", CHATS, &all).await, all);
    // If one report is invalid, none is stored.
    for (provider, wrong) in [
        ("push", stop("+15550101")),
        ("sms", with(stop("+15550101"), "subscription_group_id", CHATS)),
        ("sms", with(stop("+15550101"), "subscription_group_id", "news")),
        ("sms", json!({ "type": "unsubscribed" })),
        ("sms", stop("STOP")),
    ] {
        let reports = json!([stop("+15550101"), wrong]);
        let rejected = (400, json!("invalid-field"));
        assert_eq!(world.report(provider, "3", reports.clone()).await, rejected, "{reports}");
    }
    assert_eq!(world.reached("sms", NEWS, &all).await, ["cid"]);
    world.0.fleet.close().await;
}
