//! Primary values, empty ones, and those with a format.

use super::*;

#[test]
fn at_most_one_value_is_primary() {
    let email = |name: &str, primary: Value| {
        let value = format!("{name}@acme.example");
        json!({ "value": value, "type": name, "primary": primary })
    };
    let all = ["emails", "phoneNumbers", "ims", "addresses", "roles", "entitlements"];
    for name in all {
        let value = |kind: &str| json!({ "type": kind, "primary": true });
        let user = patched(json!([
            { "op": "add", "path": name, "value": [value("a")] },
            { "op": "add", "path": name, "value": [value("b")] },
        ]));
        let expected = json!([{ "type": "a", "primary": false }, value("b")]);
        assert_eq!(user.unwrap()[name], expected, "{name}");
    }
    let former = json!([email("work", true.into()), email("home", false.into())]);
    let switched = json!([email("work", false.into()), email("home", true.into())]);
    let two = json!({ "op": "add", "path": "emails", "value": former });
    let home = "emails[type eq \"home\"]";
    let home_primary = format!("{home}.primary");
    for operation in [
        json!({ "op": "add", "path": home_primary, "value": "True" }),
        json!({ "op": "replace", "path": home_primary, "value": true }),
        json!({ "op": "add", "path": home, "value": { "primary": true } }),
        json!({ "op": "replace", "path": home, "value": email("home", true.into()) }),
        json!({ "op": "replace", "value": { &home_primary: "true" } }),
        json!({ "op": "replace", "path": "emails", "value": switched }),
    ] {
        let user = patched(json!([two, operation])).unwrap();
        assert_eq!(user["emails"], switched, "{operation}");
    }
    // A value that is primary already stays so, and other changes move nothing.
    for operation in [
        json!({ "op": "add", "path": "emails", "value": [email("work", "True".into())] }),
        json!({ "op": "replace", "path": home_primary, "value": false }),
        json!({ "op": "replace", "path": format!("{home}.type"), "value": "home" }),
    ] {
        let user = patched(json!([two, operation])).unwrap();
        assert_eq!(user["emails"], former, "{operation}");
    }
    // A filter that no value matches describes a new value.
    let path = "emails[type eq \"other\" and primary eq true].value";
    let new = json!({ "op": "add", "path": path, "value": "o@acme.example" });
    let emails = patched(json!([two, new])).unwrap()["emails"].take();
    let primary = emails.as_array().unwrap().iter().map(|email| email["primary"] == true);
    assert!(primary.eq([false, false, true]), "{emails}");

    let both = json!([email("work", true.into()), email("home", "true".into())]);
    for operation in [
        json!({ "op": "add", "path": "emails", "value": both }),
        json!({ "op": "replace", "value": { "emails": both } }),
    ] {
        assert_eq!(refused(operation.clone()), ScimType::InvalidValue, "{operation}");
    }
    let everywhere = json!({ "op": "replace", "path": "emails.primary", "value": true });
    assert!(patched(json!([two, everywhere])).is_err());
}

#[test]
fn an_empty_manager_is_none() {
    let manager = format!("{}:manager", schema::ENTERPRISE);
    let set =
        json!({ "op": "add", "path": manager, "value": { "value": "7", "displayName": "Bo" } });
    let pointer = format!("/{}/manager", schema::ENTERPRISE);
    for value in [json!(""), json!({}), json!({ "value": "" }), json!(null)] {
        let unset = json!({ "op": "replace", "path": manager, "value": value });
        let user = patched(json!([set, unset])).unwrap();
        assert_eq!(user.pointer(&pointer), None, "{unset}");
        assert_eq!(user.get(schema::ENTERPRISE), None, "{unset}");
    }
    let unset = json!({ "op": "replace", "path": format!("{manager}.value"), "value": "" });
    assert_eq!(patched(json!([set, unset])).unwrap().pointer(&pointer), None);
}

#[test]
fn values_have_the_format_of_their_attribute() {
    for (path, good, bad) in [
        ("profileUrl", "https://acme.example/ann", "not a uri"),
        ("photos", "https://acme.example/ann.png", "ann.png"),
        ("emails", "ann@acme.example", "ann"),
        ("emails[type eq \"work\"].value", "ann@acme.example", "a b"),
    ] {
        let operation = |value: &str| json!({ "op": "add", "path": path, "value": value });
        assert!(patched(json!([operation(good)])).is_ok(), "{path}");
        assert_eq!(refused(operation(bad)), ScimType::InvalidValue, "{path}");
    }
    let cleared = json!({ "op": "replace", "path": "profileUrl", "value": "" });
    becomes(cleared, "/profileUrl", Value::Null);
}

#[test]
fn stored_values_without_their_format_are_left_out() {
    let stored = json!({
        "userName": "ann", "profileUrl": "not a uri", "title": "a b",
        "emails": [{ "value": "ann", "type": "work" }, { "value": "ann@acme.example" }],
        "roles": [{ "value": "a", "primary": true }, { "value": "b", "primary": true }],
        schema::ENTERPRISE: { "manager": { "value": "7", "$ref": "a b" } },
    });
    let Value::Object(stored) = stored else { panic!() };
    let read = Value::from(USERS.read_stored(stored).unwrap());
    let expected = json!({
        "userName": "ann", "title": "a b",
        "emails": [{ "type": "work" }, { "value": "ann@acme.example" }],
        "roles": [{ "value": "a", "primary": false }, { "value": "b", "primary": true }],
        schema::ENTERPRISE: { "manager": { "value": "7" } },
    });
    assert_eq!(read, expected);
}
