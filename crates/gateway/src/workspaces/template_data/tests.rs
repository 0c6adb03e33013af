use serde_json::json;

use super::*;

fn selection(filters: Value, sort: Value) -> CatalogSelection {
    let selection = json!({
        "name": "s", "catalog": "c", "filters": filters, "sort": sort, "limit": 50,
    });
    serde_json::from_value(selection).unwrap()
}

fn item(value: Value) -> TreeObject {
    value.as_object().unwrap().into()
}

#[test]
fn a_filter_compares_a_field() {
    let shoe = item(json!({ "id": "1", "price": 10, "name": "Red shoe", "tags": ["a", 2] }));
    for (field, operator, value, holds) in [
        ("price", "equals", json!(10.0), true),
        ("price", "equals", json!("10"), false),
        ("price", "does_not_equal", json!(11), true),
        ("none", "does_not_equal", json!(11), true),
        ("none", "equals", json!(null), false),
        ("price", "greater_than", json!(9), true),
        ("price", "greater_than", json!(10), false),
        ("price", "greater_than_or_equal", json!(10), true),
        ("price", "less_than", json!(10), false),
        ("price", "less_than_or_equal", json!(10), true),
        ("price", "less_than", json!("11"), false),
        ("name", "less_than", json!("Rz"), true),
        ("name", "contains", json!("shoe"), true),
        ("tags", "contains", json!(2), true),
        ("tags", "does_not_contain", json!("b"), true),
        ("none", "contains", json!("b"), false),
    ] {
        let filter = json!([{ "field": field, "operator": operator, "value": value }]);
        assert_eq!(selection(filter, json!(null)).holds(&shoe), holds, "{field} {operator}");
    }
}

#[test]
fn numbers_are_compared_exactly() {
    let big = TreeObject::parse(r#"{"n":9007199254740993,"m":18446744073709551617.5}"#).unwrap();
    for (field, operator, value, holds) in [
        ("n", "equals", "9007199254740992", false),
        ("n", "equals", "9007199254740993.0", true),
        ("n", "greater_than", "9007199254740992.0", true),
        ("m", "equals", "18446744073709551617.50", true),
        ("m", "greater_than", "18446744073709551617.49", true),
        ("m", "less_than", "18446744073709551617", false),
    ] {
        let text = format!(r#"{{"field":"{field}","operator":"{operator}","value":{value}}}"#);
        let filter: Filter = serde_json::from_str(&text).unwrap();
        assert_eq!(filter.holds(&big), holds, "{field} {operator} {value}");
        let stored = serde_json::to_string(&filter).unwrap();
        assert_eq!(serde_json::from_str::<Filter>(&stored).unwrap(), filter, "{stored}");
    }
}

#[test]
fn times_are_compared_as_times() {
    let event = item(json!({ "at": "2026-11-21T08:05:00.000Z", "text": "2026-11-21" }));
    for (field, operator, value, holds) in [
        ("at", "equals", json!("2026-11-21T09:05:00+01:00"), true),
        ("at", "does_not_equal", json!("2026-11-21T08:05:00Z"), false),
        ("at", "less_than", json!("2026-11-21T09:30:00+02:00"), false),
        ("at", "greater_than", json!("2026-11-21T09:30:00+02:00"), true),
        ("at", "greater_than_or_equal", json!("2026-11-21"), true),
        ("at", "contains", json!("2026-11"), true),
        ("at", "equals", json!("soon"), false),
        ("at", "does_not_equal", json!("soon"), true),
        ("at", "less_than", json!("soon"), false),
        ("at", "less_than", json!(5), false),
        ("text", "equals", json!("2026-11-21T00:00:00.000Z"), false),
        ("text", "equals", json!("2026-11-21"), true),
    ] {
        let filter = json!([{ "field": field, "operator": operator, "value": value }]);
        let selection = selection(filter, json!(null)).with_times(|field| field == "at");
        assert_eq!(selection.holds(&event), holds, "{field} {operator} {value}");
    }
}

#[test]
fn items_are_sorted_by_a_field_and_then_by_id() {
    let order = |sort: Value| {
        let selection = selection(json!([]), sort);
        let mut items = [
            item(json!({ "id": "b", "n": 2 })),
            item(json!({ "id": "c" })),
            item(json!({ "id": "d", "n": 1 })),
            item(json!({ "id": "a", "n": 2 })),
        ];
        items.sort_by(|a, b| selection.compare(a, b));
        items.iter().map(|item| item.get("id").and_then(Tree::as_text).unwrap()).collect::<String>()
    };
    assert_eq!(order(json!(null)), "abcd");
    assert_eq!(order(json!({ "field": "n" })), "dabc");
    assert_eq!(order(json!({ "field": "n", "descending": true })), "abdc");
}

#[test]
fn only_the_hosts_of_the_list_are_allowed() {
    let content: ConnectedContent = serde_json::from_value(json!({
        "hosts": ["API.acme.example", "*.b.example", "c.example:8443", "[2001:db8::1]:90"],
        "requests_per_second": 5,
    }))
    .unwrap();
    assert_eq!(content.requests_per_second, 5);
    for (url, is_allowed) in [
        ("https://api.acme.example/x", true),
        ("http://API.ACME.example", true),
        ("https://api.acme.example:8443/x", false),
        ("https://acme.example/", false),
        ("https://evil-api.acme.example/", false),
        ("https://a.b.example/", true),
        ("https://b.example/", false),
        ("https://xb.example/", false),
        ("https://api.acme.example@evil.example/", false),
        ("https://c.example:8443/", true),
        ("https://c.example/", false),
        ("http://[2001:db8::1]:90/", true),
        ("http://[2001:db8::1]/", false),
    ] {
        assert_eq!(content.allows(&Url::parse(url).unwrap()), is_allowed, "{url}");
    }
    for wrong in ["", "*", "a b", "http://a.example", "a.example/x", "*.*.example", "u@a.example"] {
        assert!(host(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_credential_is_never_printed_and_reads_back() {
    let credential: ContentCredential = serde_json::from_value(json!({
        "name": "crm", "hosts": ["a.example"], "username": "u", "password": "hidden",
    }))
    .unwrap();
    assert!(!format!("{credential:?}").contains("hidden"));
    let stored = serde_json::to_string(&credential).unwrap();
    assert_eq!(serde_json::from_str::<ContentCredential>(&stored).unwrap(), credential);
    assert!(credential.check().is_ok());
    assert!(ContentCredential { password: None, ..credential }.check().is_err());
}
