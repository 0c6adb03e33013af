//! Push, SMS and WhatsApp: what providers are given, and what their answers bring about.

use longshore::messages::Outcome;
use longshore::workspaces::Channel;
use longshore::workspaces::settings::{Secret, SignedAddress, SubscriptionGroup};
use longshore::workspaces::{DeclaredApp, Platform};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Message, SECRET, World};
use crate::support::callbacks::verified;
use crate::support::receiver::{Receiver, ScriptedResponse};
use crate::support::stores::{TestStore, on_both_stores};

on_both_stores!(
    pushes_reach_the_devices_of_their_platform,
    texts_reach_subscribers_of_the_group,
    answers_decide,
    invalid_tokens_from_a_provider_are_removed,
    invalid_numbers_receive_no_further_messages,
);

const IOS: Uuid = Uuid::from_u128(1);
const WEB: Uuid = Uuid::from_u128(2);
const GROUP: Uuid = Uuid::from_u128(3);

async fn world(store: TestStore, receiver: &Receiver) -> World {
    let mut world = World::new(store).await;
    let provider = || Some(SignedAddress::new(receiver.url("/provider"), Secret(SECRET.to_vec())));
    let app = |id, platform| DeclaredApp {
        id,
        name: "Acme".into(),
        platform,
        bundle_id: None,
        activity_types: Vec::new(),
    };
    let settings = &mut world.settings;
    (settings.push, settings.sms, settings.whats_app) = (provider(), provider(), None);
    settings.apps = vec![app(IOS, Platform::Ios), app(WEB, Platform::Web)];
    settings.subscription_groups =
        vec![SubscriptionGroup { id: GROUP, channel: Channel::Sms, from: "+15550100".into() }];
    world
}

fn devices() -> Value {
    json!({ "external_id": "ann", "push_tokens": [
        { "app_id": IOS.to_string(), "token": "phone", "device_id": "d1" },
        { "app_id": IOS.to_string(), "token": "starts", "kind": "live_activity" },
        { "app_id": WEB.to_string(), "token": "browser" },
        { "app_id": "label", "token": "other" },
    ] })
}

fn text(profile: Value) -> Message {
    let object = json!({
        "app_id": "app", "subscription_group_id": GROUP.to_string(), "body": "Ready",
    });
    Message::new(Channel::Sms, object, profile)
}

fn subscribed(phone: &str) -> Value {
    json!({ "phone": phone, "subscription_groups": [
        { "subscription_group_id": GROUP.to_string(), "subscription_state": "subscribed" },
    ] })
}

async fn pushes_reach_the_devices_of_their_platform(store: TestStore) {
    let receiver = Receiver::start([]).await;
    let world = world(store, &receiver).await;
    let tokens = |body: &Value| {
        let tokens = body["to"]["tokens"].as_array().unwrap().iter();
        tokens.map(|token| token["token"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let alert = json!({ "alert": "Hello", "badge": 1 });
    for (channel, object, expected) in [
        (Channel::ApplePush, alert.clone(), vec!["phone"]),
        (Channel::WebPush, alert.clone(), vec!["browser"]),
        (Channel::ApplePush, json!({ "alert": "Hello", "app_id": "label" }), vec!["other"]),
        (Channel::LiveActivity, json!({ "app_id": IOS.to_string() }), vec!["starts"]),
    ] {
        let message = Message::new(channel, object.clone(), devices());
        assert_eq!(world.send(&message).await, Outcome::Sent);
        let received = receiver.received().pop().unwrap();
        let body = verified(&received, SECRET);
        assert_eq!(received.header("webhook-id"), message.id.to_string());
        assert_eq!(tokens(&body), expected, "{body}");
        assert_eq!(body["id"], message.id.to_string());
        assert_eq!(body["channel"], channel.name());
        assert_eq!(body["dispatch_id"], message.id.dispatch_id.simple().to_string());
        assert_eq!((&body["send_id"], &body["campaign_id"]), (&json!("winter"), &json!(null)));
        assert_eq!(body["user"]["service_id"], message.id.service_id.to_string());
        assert_eq!(body["user"]["external_id"], "ann");
        assert_eq!((&body["message"], body.get("message_extras")), (&object, None));
    }
    let before = receiver.received().len();
    for (channel, profile) in
        [(Channel::AndroidPush, devices()), (Channel::ApplePush, json!({ "external_id": "bob" }))]
    {
        let outcome = world.send(&Message::new(channel, alert.clone(), profile)).await;
        assert!(matches!(outcome, Outcome::Unreachable(_)), "{outcome:?}");
    }
    assert_eq!(receiver.received().len(), before);
}

async fn texts_reach_subscribers_of_the_group(store: TestStore) {
    let receiver = Receiver::start([]).await;
    let world = world(store, &receiver).await;
    let mut message = text(subscribed("+15550101"));
    message.rendered.extras.insert("plan".into(), "gold".into());
    assert_eq!(world.send(&message).await, Outcome::Sent);
    let body = verified(&receiver.received()[0], SECRET);
    assert_eq!(body["message_extras"], json!({ "plan": "gold" }));
    assert_eq!(body["to"], json!({ "phone": "+15550101", "from": "+15550100" }));
    let unsubscribed = json!({ "phone": "+15550101", "subscription_groups": [
        { "subscription_group_id": GROUP.to_string(), "subscription_state": "unsubscribed" },
    ] });
    let mut without = subscribed("");
    without.as_object_mut().unwrap().remove("phone");
    let mut other_group = text(subscribed("+15550101"));
    other_group.rendered.object["subscription_group_id"] = json!(Uuid::from_u128(4).to_string());
    // An earlier version stored any spelling of the group's id.
    let simple = GROUP.simple().to_string();
    let respelled = |profile: &Value| -> Value {
        serde_json::from_str(&profile.to_string().replace(&GROUP.to_string(), &simple)).unwrap()
    };
    let mut both = subscribed("+15550101");
    let other = respelled(&unsubscribed)["subscription_groups"][0].clone();
    both["subscription_groups"].as_array_mut().unwrap().push(other);
    let none = [
        text(respelled(&unsubscribed)),
        text(both),
        text(unsubscribed),
        text(json!({ "phone": "+15550101" })),
        text(without),
        other_group,
    ];
    for message in none {
        let outcome = world.send(&message).await;
        assert!(matches!(outcome, Outcome::Unreachable(_)), "{outcome:?}");
    }
    // A channel without its provider, whatever the message.
    let whats_app = Message::new(Channel::WhatsApp, json!({}), json!({}));
    assert!(matches!(world.send(&whats_app).await, Outcome::Failed(_)));
    assert_eq!(receiver.received().len(), 1);
    assert_eq!(world.send(&text(respelled(&subscribed("+15550101")))).await, Outcome::Sent);
}

async fn answers_decide(store: TestStore) {
    let receiver = Receiver::start([]).await;
    let world = world(store, &receiver).await;
    let message = text(subscribed("+15550101"));
    for (answer, is_later) in [
        (ScriptedResponse::Status(408), true),
        (ScriptedResponse::Status(429), true),
        (ScriptedResponse::Status(503), true),
        (ScriptedResponse::Status(400), false),
        (ScriptedResponse::Status(403), false),
        (ScriptedResponse::Status(404), false),
        (ScriptedResponse::Says(410, "gone".into()), false),
        (ScriptedResponse::Redirect("http://127.0.0.1:1/".into()), false),
    ] {
        receiver.script([answer.clone()]);
        let outcome = world.send(&message).await;
        assert_eq!(matches!(outcome, Outcome::Later { .. }), is_later, "{answer:?}: {outcome:?}");
        assert_eq!(matches!(outcome, Outcome::Failed(_)), !is_later, "{answer:?}: {outcome:?}");
    }
    for answer in [
        ScriptedResponse::Hang,
        ScriptedResponse::Close,
        ScriptedResponse::Status(502),
        ScriptedResponse::Status(504),
    ] {
        receiver.script([answer.clone()]);
        let outcome = world.send(&message).await;
        assert!(matches!(outcome, Outcome::NoResponse { .. }), "{answer:?}: {outcome:?}");
    }
    // However often it was sent, it was one message.
    assert_eq!(world.send(&message).await, Outcome::Sent);
    let received = receiver.received();
    assert!(received.iter().all(|request| request.header("webhook-id") == message.id.to_string()));
    // A private network that nobody has allowed is for an operator to allow.
    let store = crate::support::stores::TestStore::sqlite().await;
    let mut world = World::with(store, |config| config.allow_private.clear()).await;
    world.settings.sms = Some(SignedAddress::new(receiver.url("/"), Secret(Vec::new())));
    world.settings.subscription_groups =
        vec![SubscriptionGroup { id: GROUP, channel: Channel::Sms, from: "+15550100".into() }];
    let outcome = world.send(&message).await;
    assert!(
        matches!(&outcome, Outcome::Later { reason, .. } if reason.contains("loopback")),
        "{outcome:?}"
    );
    assert_eq!(receiver.received().len(), received.len());
}

/// A user who is stored, with two devices.
async fn stored(world: &World) -> (Uuid, Value) {
    let record = json!({ "external_id": "ann", "first_name": "Ann", "push_tokens": [
        { "app_id": IOS.to_string(), "token": "old" },
        { "app_id": IOS.to_string(), "token": "new" },
    ] });
    let file = world.installation.store.config.data.join("users.ndjson");
    std::fs::write(&file, record.to_string()).unwrap();
    world.installation.printed(&["import", file.to_str().unwrap()]).await;
    let shown = show(world).await;
    (shown["service_id"].as_str().unwrap().parse().unwrap(), shown)
}

async fn show(world: &World) -> Value {
    let lines = world.installation.printed(&["users", "show", "ann", "--json"]).await;
    serde_json::from_str(&lines[0]).unwrap()
}

async fn invalid_tokens_from_a_provider_are_removed(store: TestStore) {
    let receiver = Receiver::start([]).await;
    let world = world(store, &receiver).await;
    let (service_id, profile) = stored(&world).await;
    let push = |profile: Value| {
        Message::to(service_id, Channel::ApplePush, json!({ "alert": "Hello" }), profile)
    };
    let says = |status, tokens: &[&str]| {
        ScriptedResponse::Says(status, json!({ "invalid_tokens": tokens }).to_string())
    };
    // One of them is gone: the other one has it.
    receiver.script([says(200, &["old", "never-ours"])]);
    assert_eq!(world.send(&push(profile.clone())).await, Outcome::Sent);
    let after = show(&world).await;
    assert_eq!(after["push_tokens"], json!([{ "app_id": IOS.to_string(), "token": "new" }]));
    assert_eq!(after["first_name"], "Ann");
    // Said again of what is gone already, it changes nothing.
    receiver.script([says(200, &["old"])]);
    assert_eq!(world.send(&push(profile)).await, Outcome::Sent);
    assert_eq!(show(&world).await, after);
    receiver.script([says(410, &["new"])]);
    let outcome = world.send(&push(after)).await;
    assert!(matches!(outcome, Outcome::Bounced { .. }), "{outcome:?}");
    assert_eq!(show(&world).await.get("push_tokens"), None);
}

async fn invalid_numbers_receive_no_further_messages(store: TestStore) {
    let receiver = Receiver::start([]).await;
    let world = world(store, &receiver).await;
    let message = text(subscribed("+15550101"));
    receiver.script([ScriptedResponse::Says(200, r#"{"invalid_number":true}"#.into())]);
    assert!(matches!(world.send(&message).await, Outcome::Bounced { .. }));
    let outcome = world.send(&message).await;
    assert!(
        matches!(&outcome, Outcome::Unreachable(why) if why.contains("invalid")),
        "{outcome:?}"
    );
    assert_eq!(receiver.received().len(), 1);
    let listed = world.installation.printed(&["invalid-numbers", "list", "--json"]).await;
    assert!(listed.len() == 1 && listed[0].contains("15550101"), "{listed:?}");
    world.installation.printed(&["invalid-numbers", "remove", "+15550101"]).await;
    assert_eq!(world.send(&message).await, Outcome::Sent);
}
