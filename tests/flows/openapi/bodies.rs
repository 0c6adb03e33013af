//! The schemas of request bodies against the bodies that the API accepts.

use serde_json::{Value, json};

use super::UNKNOWN;
use crate::support::contract::{CONTRACT, Validator};

#[test]
fn schemas_match_the_accepted_bodies() {
    let past = "2020-01-01T00:00:00Z";
    let purchase = |change: Value| {
        let mut purchase = json!({
            "external_id": "ann", "product_id": "shoes", "currency": "EUR", "price": 1, "time": past,
        });
        let object = purchase.as_object_mut().unwrap();
        object.extend(change.as_object().unwrap().clone());
        object.retain(|_, value| *value != json!("absent"));
        purchase
    };
    let attributes = |change: Value| {
        let mut attributes = json!({ "external_id": "ann" });
        attributes.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        attributes
    };
    for (schema, body, is_accepted) in [
        ("TrackRequest", json!({}), false),
        ("TrackRequest", json!({ "purchases": [{}, purchase(json!({}))] }), true),
        ("TrackRequest", json!({ "purchases": [{}], "events": null }), false),
        ("TrackRequest", json!({ "purchases": vec![purchase(json!({})); 75] }), true),
        ("TrackRequest", json!({ "purchases": vec![purchase(json!({})); 76] }), false),
        ("PurchaseObject", purchase(json!({ "quantity": 100, "other": {} })), true),
        ("PurchaseObject", purchase(json!({ "quantity": 101 })), false),
        ("PurchaseObject", purchase(json!({ "quantity": null, "app_id": null })), true),
        ("PurchaseObject", purchase(json!({ "price": -1 })), false),
        ("PurchaseObject", purchase(json!({ "price": 9e12 })), true),
        ("PurchaseObject", purchase(json!({ "price": 9e12, "quantity": 100 })), false),
        ("PurchaseObject", purchase(json!({ "currency": "DEM" })), false),
        ("PurchaseObject", purchase(json!({ "currency": "eur" })), false),
        ("PurchaseObject", purchase(json!({ "time": "absent" })), false),
        ("PurchaseObject", purchase(json!({ "time": "2021-06-28T17:02:43:032+0000" })), true),
        ("PurchaseObject", purchase(json!({ "time": "yesterday" })), false),
        ("PurchaseObject", purchase(json!({ "time": "2020-02-29T17:02:43-18:00" })), true),
        ("PurchaseObject", purchase(json!({ "time": "2020-02-29T17:02:43-18:01" })), false),
        ("PurchaseObject", purchase(json!({ "properties": { "a": [{ "b": null }] } })), true),
        ("PurchaseObject", purchase(json!({ "properties": { "price": 1 } })), false),
        ("PurchaseObject", purchase(json!({ "properties": { "$a": 1 } })), false),
        ("PurchaseObject", purchase(json!({ "properties": { "a": "x".repeat(256) } })), false),
        ("PurchaseObject", purchase(json!({ "external_id": null })), false),
        ("PurchaseObject", purchase(json!({ "external_id": null, "email": "a@b" })), true),
        ("PurchaseObject", purchase(json!({ "service_id": "no uuid" })), true),
        ("PurchaseObject", purchase(json!({ "external_id": "", "email": "a@b" })), false),
        ("AttributeObject", attributes(json!({ "tier": "gold", "n": { "inc": 1 } })), true),
        ("AttributeObject", attributes(json!({ "n": { "inc": "1" } })), false),
        ("AttributeObject", attributes(json!({ "n": { "inc": 1, "add": [] } })), false),
        ("AttributeObject", attributes(json!({ "n": { "add": [1], "remove": [2] } })), true),
        ("AttributeObject", attributes(json!({ "n": { "$add": [1], "remove": [2] } })), true),
        ("AttributeObject", attributes(json!({ "n": { "add": [1], "$add": [2] } })), false),
        ("AttributeObject", attributes(json!({ "n": { "inc": 1, "remove": [] } })), false),
        ("AttributeObject", attributes(json!({ "n": { "inc": 1, "more": 1 } })), true),
        ("AttributeObject", attributes(json!({ "gender": "nil", "phone": "", "dob": null })), true),
        ("AttributeObject", attributes(json!({ "dob": "2001-02-29" })), false),
        ("AttributeObject", attributes(json!({ "purchases": [] })), false),
        ("AttributeObject", attributes(json!({ "email": "no address" })), false),
        ("AttributeObject", attributes(json!({ "email": "a@b.co>" })), false),
        ("AttributeObject", attributes(json!({ "email": "a@b@c.co" })), false),
        ("AttributeObject", attributes(json!({ "email": "a@-b.co" })), false),
        ("AttributeObject", attributes(json!({ "email": "o'x+y..z@bücher.example" })), true),
        ("AttributeObject", attributes(json!({ "country": "NO", "language": "nb" })), true),
        ("AttributeObject", attributes(json!({ "country": "ZZ" })), false),
        ("AttributeObject", attributes(json!({ "language": "zz" })), false),
        ("ScheduleUpdate", json!({ "schedule_id": "a", "schedule": null }), false),
        ("ScheduleUpdate", json!({ "schedule_id": "a", "messages": null }), false),
        (
            "ScheduleUpdate",
            json!({ "schedule_id": "a", "schedule": { "time": "2127-01-01T09:00:00Z" } }),
            true,
        ),
        ("ExportRequest", json!({ "fields_to_export": ["email", "custom_attributes.x"] }), true),
        ("ExportRequest", json!({ "fields_to_export": [] }), false),
        ("ExportRequest", json!({ "fields_to_export": ["e-mail"] }), false),
        ("ExportRequest", json!({ "fields_to_export": ["email"], "destination": "lake-2" }), true),
        ("ExportRequest", json!({ "fields_to_export": ["email"], "destination": "Lake" }), false),
        (
            "ExportRequest",
            json!({ "fields_to_export": ["email"], "callback_endpoint": "https://a.example/x?y" }),
            true,
        ),
        ("ExportRequest", callback(json!("ftp://a.example")), false),
        ("ExportRequest", callback(json!(null)), true),
        ("ExportRequest", callback(json!("")), true),
        ("ExportRequest", callback(json!("https://Hooks.Example.COM/x")), true),
        ("ExportRequest", callback(json!("http://a.example:65535/")), true),
        ("ExportRequest", callback(json!("http://a.example:65536/")), false),
        ("ExportRequest", callback(json!("https://3scale.1and1.example/")), true),
        ("ExportRequest", callback(json!("https://*.example.com/")), false),
        ("ExportRequest", callback(json!("http://localhost:1/")), false),
        ("SearchRequest", search(json!({ "attributes": ["id"], "count": null })), true),
        ("SearchRequest", search(json!({ "attributes": vec!["id"; 101] })), false),
        ("SearchRequest", search(json!({ "excludedAttributes": vec!["id"; 101] })), false),
        (
            "SearchRequest",
            search(json!({ "attributes": ["id"], "excludedAttributes": ["id"] })),
            false,
        ),
        ("SearchRequest", search(json!({ "attributes": [], "excludedAttributes": ["id"] })), true),
        ("TransactionalSend", json!({ "recipient": { "external_user_id": "ann" } }), true),
        ("TransactionalSend", json!({ "recipient": {} }), false),
        (
            "TransactionalSend",
            json!({ "recipient": { "external_user_id": "a", "attributes": { "tier": 1 } } }),
            true,
        ),
        (
            "TransactionalSend",
            json!({ "recipient": { "external_user_id": "a", "attributes": { "external_id": "b" } } }),
            false,
        ),
        (
            "TransactionalSend",
            json!({ "recipient": { "external_user_id": "a" }, "external_send_id": "aZ09-_+\\/=" }),
            true,
        ),
        (
            "TransactionalSend",
            json!({ "recipient": { "external_user_id": "a" }, "external_send_id": "a b" }),
            false,
        ),
        ("PhoneNumbers", json!({ "phone_numbers": ["+15550100", "15550100"] }), true),
        ("PhoneNumbers", json!({ "phone_numbers": ["555"] }), false),
        ("PhoneNumbers", json!({ "phone_numbers": vec!["+15550100"; 51] }), false),
        ("EditRequest", json!({ "items": [{ "id": "a-1", "b": { "c": [null] } }] }), true),
        ("EditRequest", json!({ "items": [{ "id": "a b" }] }), false),
        ("EditRequest", json!({ "items": [{ "id": "a", "b": { "c.d": 1 } }] }), false),
        ("SendRequest", send(json!({ "external_user_ids": ["ann"] })), true),
        ("SendRequest", send(json!({ "external_user_ids": vec!["ann"; 51] })), false),
        ("SendRequest", send(json!({ "external_user_ids": [""] })), false),
        ("SendRequest", send(json!({ "external_user_ids": ["a"], "broadcast": true })), false),
        ("SendRequest", send(json!({ "recipients": [{ "external_user_id": "a" }] })), false),
        (
            "SendRequest",
            send(json!({
                "recipients": [{ "external_user_id": "a" }], "external_user_ids": ["b"],
            })),
            true,
        ),
        (
            "SendRequest",
            send(json!({
                "recipients": [{ "external_user_id": "a" }],
                "segment_id": "5f0e6b1a-9c3d-4e7f-8a2b-1c0d9e8f7a6b",
            })),
            true,
        ),
        ("SendRequest", send(json!({ "recipients": [{}] })), false),
        ("SendRequest", send(json!({ "broadcast": true })), false),
        ("SendRequest", send(json!({ "segment_id": UNKNOWN })), false),
        ("SendRequest", send(json!({ "segment_id": UNKNOWN, "broadcast": true })), true),
        ("SendRequest", send(json!({ "audience": exists(), "broadcast": true })), true),
        (
            "SendRequest",
            send(json!({ "audience": exists(), "broadcast": true, "user_aliases": [] })),
            true,
        ),
        (
            "SendRequest",
            send(json!({ "audience": exists(), "broadcast": true, "segment_id": null })),
            false,
        ),
        (
            "SendRequest",
            send(json!({ "audience": exists(), "external_user_ids": ["a"], "messages": null })),
            false,
        ),
        ("SendRequest", send(json!({ "external_user_ids": ["a"], "send_id": "é" })), false),
        ("SendRequest", email(json!({ "from": "a@acme.example", "body": "b" })), true),
        ("SendRequest", email(json!({ "from": "a@acme.example" })), false),
        ("SendRequest", email(json!({ "email_template_id": UNKNOWN })), true),
        ("SendRequest", email(json!({ "email_template_id": UNKNOWN, "subject": null })), true),
        ("SendRequest", email(json!({ "email_template_id": null })), false),
        (
            "ScheduleMessagesRequest",
            send(json!({ "external_user_ids": ["a"], "schedule": { "time": past } })),
            true,
        ),
        ("ScheduleMessagesRequest", send(json!({ "external_user_ids": ["a"] })), false),
        (
            "ScheduleMessagesRequest",
            json!({ "external_user_ids": ["a"], "schedule": { "time": past } }),
            false,
        ),
        (
            "ScheduleMessagesRequest",
            json!({
                "external_user_ids": ["a"], "schedule": { "time": past }, "campaign_id": UNKNOWN,
            }),
            true,
        ),
        ("ConnectedAudience", json!({ "AND": [{ "OR": [exists()] }] }), true),
        ("ConnectedAudience", json!({ "AND": [] }), false),
        ("ConnectedAudience", json!({ "AND": [exists()], "OR": [exists()] }), false),
        ("ConnectedAudience", json!({ "last_used_app": { "comparison": "is" } }), false),
        ("ConnectedAudience", json!({ "custom_attribute": negated("value") }), true),
        ("ConnectedAudience", json!({ "custom_attribute": negated("negate") }), false),
        (
            "ConnectedAudience",
            json!({ "custom_attribute": negated("value"), "OR": null, "AND": null }),
            true,
        ),
        ("ConnectedAudience", json!({ "custom_attribute": negated("value"), "NOT": null }), false),
    ] {
        let schema = &CONTRACT.document["components"]["schemas"][schema];
        let checked = Validator::new(schema, &CONTRACT.document).check(&body);
        assert_eq!(checked.is_ok(), is_accepted, "{body}: {checked:?}");
    }
}

/// An export with this callback address.
fn callback(address: Value) -> Value {
    json!({ "fields_to_export": ["email"], "callback_endpoint": address })
}

/// A search with these fields.
fn search(mut fields: Value) -> Value {
    fields["schemas"] = json!(["urn:ietf:params:scim:api:messages:2.0:SearchRequest"]);
    fields
}

/// A send with these fields.
fn send(fields: Value) -> Value {
    let mut send = json!({
        "messages": { "webhook": { "url": "https://a.example/", "request_method": "GET" } },
    });
    for (name, value) in fields.as_object().unwrap() {
        send[name] = value.clone();
    }
    send
}

/// A send of an email with these fields.
fn email(fields: Value) -> Value {
    let mut email = json!({ "app_id": "web" });
    email.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    send(json!({ "external_user_ids": ["a"], "messages": { "email": email } }))
}

/// A condition on a custom attribute, with null in one more field.
fn negated(field: &str) -> Value {
    let mut condition = exists()["custom_attribute"].take();
    condition[field] = Value::Null;
    condition
}

/// An audience with a custom attribute.
fn exists() -> Value {
    json!({ "custom_attribute": { "custom_attribute_name": "x", "comparison": "exists" } })
}
