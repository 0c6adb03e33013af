use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::fields::{FieldSet, exportable};

fn reader(names: &[&str]) -> RecordReader {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    RecordReader::new(FieldSet::parse(&names).unwrap())
}

fn everything() -> RecordReader {
    reader(&exportable().collect::<Vec<_>>())
}

fn full() -> Value {
    json!({
        "service_id": "0190a0b0-c0d0-7000-8000-000000000001", "external_id": "u",
        "user_aliases": [{ "alias_name": "a", "alias_label": "b" }], "random_bucket": 9999,
        "created_at": "2021-06-28T17:02:43.032Z", "email": "ann@example.com",
        "phone": "+15550100", "first_name": "Zoë", "last_name": "Lee", "gender": "P",
        "dob": "1980-02-29", "country": "JP", "language": "ja", "time_zone": "Asia/Tokyo",
        "home_city": "Kyoto", "last_coordinates": [-73.99, 40], "attributed_campaign": "c",
        "attributed_source": "s", "attributed_adgroup": "g", "attributed_ad": "a",
        "custom_attributes": { "n": 1.1, "o": { "a": [null, ""] }, "": false },
        "apps": [{ "name": "A", "sessions": "12", "first_used": "2021-06-28T17:02:43.032Z" }, {}],
        "devices": [{ "model": "m", "ad_tracking_enabled": false }],
        "uninstalled_at": "2021-06-28T17:02:43.032Z",
        "purchases": [{
            "name": "p", "first": "2021-06-28T17:02:43.032Z", "last": "2021-06-28T17:02:43.032Z",
            "count": 3,
        }],
        "custom_events": [], "total_revenue": 12.5, "email_subscribe": "opted_in",
        "push_subscribe": "unsubscribed",
        "subscription_groups": [
            { "subscription_group_id": "g", "subscription_state": "subscribed" },
        ],
    })
}

#[test]
fn the_schema_has_the_fields_that_can_be_exported() {
    let schema = json!(schema());
    let described: BTreeSet<&str> =
        schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(described, exportable().collect());
    assert_eq!(schema["version"], SCHEMA_VERSION);
    assert_eq!(schema.get("required"), None);
    assert!(!schema.to_string().contains("\"null\""), "absent fields are not null");
    assert_eq!(full().as_object().unwrap().len(), described.len());
}

#[test]
fn a_full_and_an_empty_record_are_read() {
    let record = everything().read(full().to_string().as_bytes()).unwrap();
    assert_eq!(record.random_bucket.0, Some(Bucket(9999)));
    assert_eq!(record.custom_attributes.0.unwrap().0.len(), 3);
    let empty = reader(&["email"]).read(b"{}").unwrap();
    assert_eq!(empty.email.0, None);
}

#[test]
fn times_of_the_whole_calendar_are_read() {
    let schema = json!(schema());
    let pattern = schema["properties"]["created_at"]["pattern"].as_str().unwrap();
    let pattern = regex::Regex::new(pattern).unwrap();
    for ms in [i64::MIN, -63_549_360_000_000, 0, i64::MAX] {
        let time = kit::clock::format_time(ms);
        assert!(pattern.is_match(&time), "{time}");
        let line = json!({ "created_at": time }).to_string();
        assert!(everything().read(line.as_bytes()).is_ok(), "{line}");
    }
}

#[test]
fn each_field_has_its_type() {
    for (name, value) in [
        ("service_id", json!("123")),
        ("external_id", json!(5)),
        ("email", json!(null)),
        ("user_aliases", json!([{ "alias_name": "a" }])),
        ("random_bucket", json!(10_000)),
        ("random_bucket", json!("5")),
        ("created_at", json!("2021-06-28T17:02:43Z")),
        ("created_at", json!("2021-13-28T17:02:43.032Z")),
        ("created_at", json!("-0044-03-15T00:00:00.000Z")),
        ("created_at", json!("-000044-13-15T00:00:00.000Z")),
        ("gender", json!("m")),
        ("dob", json!("29.02.1980")),
        ("last_coordinates", json!([1])),
        ("custom_attributes", json!([])),
        ("apps", json!([{ "sessions": 12 }])),
        ("devices", json!([{ "imei": "1" }])),
        ("purchases", json!([{ "name": "p", "count": 1 }])),
        ("total_revenue", json!("12.5")),
        ("push_subscribe", json!("subscribed_in")),
        ("subscription_groups", json!({})),
    ] {
        let line = json!({ name: value }).to_string();
        let error = everything().read(line.as_bytes()).unwrap_err();
        assert!(error.contains("(column "), "{line}: {error}");
    }
}

#[test]
fn broken_lines_are_reported() {
    for line in
        ["", "null", "[]", "{", "{}{}", "{} x", r#"{"email":"a","email":"b"}"#, r#"{"a":1}"#]
    {
        assert!(reader(&["email"]).read(line.as_bytes()).is_err(), "{line:?}");
    }
    let twice = br#"{"custom_attributes":{"a":1,"a":2}}"#;
    assert!(reader(&["custom_attributes"]).read(twice).is_err());
    assert!(reader(&["email"]).read(b"{\"email\":\"\xff\"}").unwrap_err().contains("UTF-8"));
    let value = reader(&["gender"]).read(br#"{"gender":"secret"}"#).unwrap_err();
    assert!(!value.contains("secret"), "{value}");
}

#[test]
fn only_requested_fields_are_allowed() {
    let line = full().to_string();
    assert!(reader(&["email"]).read(line.as_bytes()).unwrap_err().contains("did not request"));
    let some = reader(&["custom_attributes.a"]);
    assert!(some.read(br#"{"custom_attributes":{"a":1}}"#).is_ok());
    let error = some.read(br#"{"custom_attributes":{"a":1,"b":1}}"#).unwrap_err();
    assert!(error.contains("custom_attributes.b"), "{error}");
}

#[test]
fn service_id_is_read_under_its_requested_name() {
    let aliased = reader(&["service_id\u{1f}their_id"]);
    let id = Uuid::from_u128(7);
    let line = |name: &str| json!({ name: id }).to_string();
    assert_eq!(aliased.read(line("their_id").as_bytes()).unwrap().service_id.0, Some(id));
    assert!(aliased.read(line("service_id").as_bytes()).is_err());
    assert!(reader(&["service_id"]).read(line("their_id").as_bytes()).is_err());
    assert!(aliased.has_ids() && !reader(&["email"]).has_ids());
    // Requested under both names: a worker of an earlier release wrote only one.
    let both = reader(&["service_id", "service_id\u{1f}their_id"]);
    for names in [&["service_id", "their_id"][..], &["their_id", "service_id"], &["their_id"]] {
        let fields: Vec<String> = names.iter().map(|name| format!("\"{name}\":\"{id}\"")).collect();
        let line = format!("{{{}}}", fields.join(","));
        assert_eq!(both.read(line.as_bytes()).unwrap().service_id.0, Some(id), "{line}");
    }
    for twice in ["service_id", "their_id"] {
        let line = format!("{{\"{twice}\":\"{id}\",\"{twice}\":\"{id}\"}}");
        assert!(both.read(line.as_bytes()).is_err(), "{line}");
    }
    assert!(both.read(br#"{"service_id":null,"their_id":null}"#).is_err());
}
