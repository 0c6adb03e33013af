//! The AsyncAPI document against the messages that a gateway appends.

use std::collections::BTreeSet;

use log::{Message, Topic};
use longshore::cli::reference::asyncapi;
use longshore::topics;
use reqwest::Method;
use serde_json::{Value, json};

use super::world::{CATALOG, GROUP, SEGMENT, World};
use crate::support::api::answer;
use crate::support::contract::{Validator, close};
use crate::support::fleet::Backend;
use crate::support::reader::read_topic;

/// Requests that have every kind of message appended.
fn requests() -> Vec<(Method, String, Value)> {
    let ann = json!({ "external_id": "ann" });
    let alias = json!({ "alias_name": "n", "alias_label": "l" });
    let purchase = json!({
        "external_id": "ann", "product_id": "tea", "currency": "EUR", "price": 2.5, "quantity": 2,
        "time": "2026-01-01T00:00:00Z", "app_id": "web", "properties": { "size": "L" },
    });
    let event = json!({
        "user_alias": alias, "name": "seen", "time": "2026-01-01", "properties": { "n": 1.5 },
    });
    let track = json!({
        "attributes": [{
            "external_id": "ann", "email": "ann@acme.example", "phone": null, "tier": "gold",
            "visits": { "inc": 1 }, "tags": { "add": ["a"] }, "old_tags": { "remove": ["b"] },
        }],
        "events": [event],
        "purchases": [purchase, { "email": "ann@acme.example", "product_id": "tea",
            "currency": "EUR", "price": 1, "time": "2026-01-01" }],
    });
    let subscription = json!({
        "subscription_group_id": GROUP, "subscription_state": "subscribed", "external_id": ["ann"],
    });
    let add_alias = json!({ "external_id": "ann", "alias_name": "n", "alias_label": "l" });
    let rename_alias = json!({ "alias_label": "l", "old_alias_name": "n", "new_alias_name": "m" });
    let identify = json!({ "external_id": "bob", "user_alias": alias });
    let merge =
        json!({ "identifier_to_merge": { "external_id": "bob" }, "identifier_to_keep": ann });
    let rename = json!({ "current_external_id": "ann", "new_external_id": "cat" });
    let webhook = json!({ "url": "https://hooks.acme.example/", "request_method": "GET" });
    let send = json!({
        "broadcast": true, "segment_id": SEGMENT, "messages": { "webhook": webhook },
    });
    let recipient = json!({ "external_user_id": "ann", "trigger_properties": { "seats": 2 } });
    let named = json!({
        "external_user_ids": ["bob"], "recipients": [recipient], "messages": { "webhook": webhook },
    });
    let post = |path: &str, body: Value| (Method::POST, path.to_owned(), body);
    let mut all = vec![
        post("/users/track", track),
        post("/subscription/status/set", subscription),
        post("/users/alias/new", json!({ "user_aliases": [add_alias] })),
        post("/users/alias/update", json!({ "alias_updates": [rename_alias] })),
        post("/users/identify", json!({ "aliases_to_identify": [identify] })),
        post("/users/merge", json!({ "merge_updates": [merge] })),
        post("/users/external_ids/rename", json!({ "external_id_renames": [rename] })),
        post("/users/external_ids/remove", json!({ "external_ids": ["ann"] })),
        post("/users/delete", json!({ "external_ids": ["ann"] })),
        post("/messages/send", send),
        post("/messages/send", named),
        post("/users/export/global_control_group", json!({ "fields_to_export": ["email"] })),
    ];
    let items = format!("/catalogs/{CATALOG}/items");
    let item = json!({ "items": [{ "id": "r1", "City": "Oslo", "Rating": 4.5 }] });
    for method in [Method::POST, Method::PUT, Method::PATCH] {
        all.push((method, items.clone(), item.clone()));
    }
    all.push((Method::DELETE, items, json!({ "items": [{ "id": "r1" }] })));
    all
}

/// The payloads of all messages of a topic, as JSON.
async fn payloads(world: &World, topic: Topic) -> Vec<Value> {
    let log = world.fleet.log().await;
    let messages = read_topic(&log, topic).await;
    log.close().await;
    let payload = |message: Message| {
        let text = String::from_utf8(message.payload).expect("UTF-8");
        serde_json::from_str(&text).unwrap_or(Value::String(text))
    };
    messages.into_iter().map(payload).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_match_the_document() {
    let world = World::start(Backend::Embedded).await;
    for (method, path, body) in requests() {
        let response = answer(world.keyed(method.clone(), &path).json(&body)).await;
        assert!(response.status.is_success(), "{method} {path}: {response:?}");
    }
    let mut document = asyncapi::document();
    close(&mut document["components"]["schemas"]);
    let mut seen = BTreeSet::new();
    for &topic in topics::ALL {
        let messages =
            document["channels"][topic.name()]["messages"].as_object().expect("messages");
        let name = messages.keys().next().expect("a message");
        let schema = &document["components"]["messages"][name]["payload"]["schema"];
        let validator = Validator::new(schema, &document);
        let payloads = payloads(&world, topic).await;
        assert!(!payloads.is_empty(), "{topic:?} has no message");
        for payload in payloads {
            validator.check(&payload).unwrap_or_else(|error| panic!("{payload}: {error}"));
            seen.extend(payload["action"].as_str().map(str::to_owned));
            for object in payload["objects"].as_array().into_iter().flatten() {
                let (kind, object) = object.as_object().unwrap().iter().next().unwrap();
                let change = &object["change"];
                let fields =
                    change.as_object().map(|change| change.keys().next().unwrap().as_str());
                seen.extend(change.as_str().or(fields).map(str::to_owned));
                seen.insert(kind.clone());
            }
        }
        // A message that is not of the topic.
        assert!(validator.check(&json!({ "v": 1 })).is_err());
    }
    let expected = [
        "add_alias",
        "attributes",
        "create",
        "delete",
        "erase",
        "event",
        "identify",
        "identity",
        "merge_into",
        "purchase",
        "remove_external_id",
        "rename_alias",
        "rename_external_id",
        "replace",
    ];
    assert_eq!(seen.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    world.fleet.close().await;
}
