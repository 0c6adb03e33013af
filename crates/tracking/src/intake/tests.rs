use std::collections::BTreeMap;

use serde_json::Value;

use super::*;
use crate::message::Batch;
use kit::json;

mod any;
mod limits;
mod partitions;

const NOW: i64 = 1_700_000_000_000;

fn request() -> Request {
    Request { workspace: 7, received_at: NOW, partitions: 8, request_id: "r".into(), alias: None }
}

/// The response and the messages as text by partition, or the status's message and its errors.
type Outcome = Result<(Value, BTreeMap<i32, String>), (String, Vec<Value>)>;

fn track(body: impl Into<String>) -> Outcome {
    match read(&JsonText::from(body.into()), &request(), |currency| currency != "NOK") {
        Ok(Intake { answer, messages }) => {
            let by_partition = messages.into_iter().map(|message| {
                assert_eq!((message.topic.name(), message.request_id.as_str()), ("tracking", "r"));
                (message.partition.unwrap(), String::from_utf8(message.payload).unwrap())
            });
            Ok((serde_json::to_value(answer).unwrap(), by_partition.collect()))
        }
        Err(ApiError::Invalid(message) | ApiError::Field(_, message)) => Err((message, Vec::new())),
        Err(ApiError::InvalidMany(message, errors)) => Err((message, errors)),
        Err(other) => panic!("{other:?}"),
    }
}

/// The only object of a message that must be the only one.
fn accepted(kind: Kind, object: &str) -> String {
    let (mut answer, messages) = track(format!(r#"{{"{}":[{object}]}}"#, kind.name())).unwrap();
    // Those have a test of their own.
    answer.as_object_mut().unwrap().remove("warnings");
    let counter = format!("{}_processed", kind.name());
    assert_eq!(answer, json!({ "message": "success", counter: 1 }), "{object}");
    let payload = messages.into_values().next().unwrap();
    let begin = format!(r#"{{"v":1,"workspace":7,"received_at":{NOW},"objects":["#);
    let objects = payload.strip_prefix(&begin).unwrap_or_else(|| panic!("{payload}"));
    objects.strip_suffix("]}").unwrap().to_owned()
}

/// The errors of a rejected object; the rest of the request is accepted.
fn rejected(kind: Kind, object: &str) -> Vec<String> {
    let array = kind.name();
    let name = if kind == Kind::Events { "purchases" } else { "events" };
    let good = match kind {
        Kind::Events => purchase(""),
        _ => r#"{"external_id":"good","name":"n","time":"2023-01-01"}"#.to_owned(),
    };
    let body = format!(r#"{{"{array}":[{object}],"{name}":[{good}]}}"#);
    let (answer, messages) = track(body).unwrap_or_else(|error| panic!("{object}: {error:?}"));
    assert_eq!(answer[format!("{array}_processed")], 0, "{object}: {answer}");
    assert_eq!(answer[format!("{name}_processed")], 1, "{object}: {answer}");
    assert_eq!(messages.len(), 1);
    let (message, errors) = track(format!(r#"{{"{array}":[{object}]}}"#)).unwrap_err();
    assert_eq!(message, NOTHING_VALID);
    assert_eq!(answer["errors"], json!(errors), "{object}");
    let texts = errors.into_iter().map(|error| {
        assert_eq!((&error["input_array"], &error["index"]), (&json!(array), &json!(0)));
        error["type"].as_str().unwrap().to_owned()
    });
    texts.collect()
}

fn purchase(more: &str) -> String {
    let comma = if more.is_empty() { "" } else { "," };
    format!(
        r#"{{"external_id":"e","product_id":"tea","currency":"USD","price":1,"time":"2023-01-01"{comma}{more}}}"#
    )
}

/// A purchase with one field replaced.
fn with(name: &str, value: &str) -> String {
    let mut members: BTreeMap<&str, &str> = [
        ("external_id", r#""e""#),
        ("product_id", r#""tea""#),
        ("currency", r#""USD""#),
        ("price", "1"),
        ("time", r#""2023-01-01""#),
    ]
    .into();
    members.insert(name, value);
    let members: Vec<_> =
        members.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", members.join(","))
}

fn batches(payloads: &BTreeMap<i32, String>) -> Vec<Batch<'_>> {
    payloads.values().map(|payload| Batch::decode(payload.as_bytes()).unwrap()).collect()
}

#[test]
fn objects_become_one_form() {
    for (kind, object, message) in [
        (
            Kind::Purchases,
            r#" { "external_id" : "e", "email": "a@b", "product_id": "t\u00eaa", "currency": "EUR",
                  "price": 2.5e0, "quantity": 2, "time": "2021-06-28T19:02:43.032+0200",
                  "app_id": "x", "unknown": {}, "service_id": null,
                  "properties": { "a" : [ 1.10 , {"b": "2021-06-28"} ], "gone": null, "c": "d" } } "#,
            r#"{"purchase":{"user":{"external_id":"e"},"product_id":"têa","currency":"EUR","price":2500000,"quantity":2,"time":1624899763032,"app_id":"x","properties":{"a":[1.10,{"b":"2021-06-28"}],"c":"d"}}}"#,
        ),
        (
            Kind::Purchases,
            r#"{"user_alias":{"alias_label":"l","alias_name":"n","x":1},"_update_existing_only":false,
                "email":"a@b","product_id":"p","currency":"JPY","price":-0.0,
                "time":"2999-01-01T00:00:00:000Z","properties":{"gone":null}}"#,
            r#"{"purchase":{"user":{"user_alias":{"alias_name":"n","alias_label":"l"}},"update_only":true,"product_id":"p","currency":"JPY","price":0,"quantity":1,"time":1700000000000}}"#,
        ),
        (
            Kind::Events,
            r#"{"service_id":"0190B9A6-1C00-7000-8000-000000000000","email":"a@b","name":"seen",
                "time":"1969-12-31T23:59:59Z","_update_existing_only":true,
                "properties":{"price":1,"at":"2021-06-28T17:02:43:032+0000"}}"#,
            r#"{"event":{"user":{"service_id":"0190b9a6-1c00-7000-8000-000000000000"},"update_only":true,"name":"seen","time":-1000,"properties":{"price":1,"at":"2021-06-28T17:02:43:032+0000"}}}"#,
        ),
        (
            Kind::Attributes,
            r#"{"external_id":"e","email":"A@b","first_name":"Zo\u00eb","phone":null,"gender":"nil",
                "created_at":null,"email_subscribe":"opted_in",
                "current_location":{"latitude":2,"longitude":1,"x":3},"date_of_last_session":"2023-01-01",
                "push_tokens":[{"token":"t","app_id":"a"}],
                "tier":"","on":false,"old":null,"list":[ 1 ],"visits":{"inc":-1.5},
                "more":{"add":["a"]},"less":{"remove":[{}]},
                "both":{"remove":["a\/b",1.0],"$add":["a/b",1,"c"]},"object":{"inc":1,"x":2},"none":{},
                "custom_attributes":{"deep":{"add":[]},"n":1.10}}"#,
            r#"{"attributes":{"user":{"external_id":"e"},"fields":{"email":"A@b","first_name":"Zoë","phone":null,"gender":null,"email_subscribe":"opted_in","current_location":{"longitude":1,"latitude":2},"date_of_last_session":"2023-01-01T00:00:00.000Z","push_tokens":[{"app_id":"a","token":"t"}]},"custom":{"tier":"","on":false,"old":null,"list":[1],"object":{"inc":1,"x":2},"none":{},"n":1.10},"inc":{"visits":-1.5},"add":{"more":["a"],"both":["c"],"deep":[]},"remove":{"less":[{}],"both":["a\/b",1.0]}}}"#,
        ),
        (
            Kind::Attributes,
            r#"{"email":"a@b","custom_attributes":null}"#,
            r#"{"attributes":{"user":{"email":"a@b"}}}"#,
        ),
    ] {
        assert_eq!(accepted(kind, object), message);
    }
}

#[test]
fn errors_name_the_field() {
    let long = format!("\"{}\"", "é".repeat(256));
    for (name, value, error) in [
        ("external_id", "5", "external_id: expected a string"),
        ("external_id", r#""""#, "external_id is empty"),
        ("external_id", r#""a\u0007""#, "external_id contains a control character"),
        ("external_id", r#""a\u0000""#, "external_id has a NUL character"),
        ("external_id", r#""\ud800""#, "external_id "),
        ("external_id", &long, "external_id has more than 255 characters"),
        ("service_id", r#""x""#, "service_id: expected a UUID"),
        ("user_alias", r#""x""#, "user_alias: expected an object"),
        ("user_alias", r#"{"alias_name":"x"}"#, "user_alias.alias_label is missing"),
        ("user_alias", r#"{"alias_label":"x","alias_name":""}"#, "user_alias.alias_name is empty"),
        (
            "user_alias",
            r#"{"alias_label":"x","alias_label":"x","alias_name":"y"}"#,
            "user_alias: alias_label: duplicate field",
        ),
        (
            "user_alias",
            r#"{"alias_label":"x","alias_name":"y","z":{},"z":{}}"#,
            "user_alias: z: duplicate field",
        ),
        ("email", r#""nobody""#, "email: expected an email address"),
        ("email", "[]", "email: expected a string"),
        ("app_id", "5", "app_id: expected a string"),
        ("product_id", "null", "product_id is required"),
        ("product_id", r#""""#, "product_id: expected 1 to 255 characters"),
        ("product_id", "7", "product_id: expected a string"),
        ("product_id", &long, "product_id has more than 255 characters"),
        ("currency", "null", "currency is required"),
        ("currency", r#""usd""#, "currency: "),
        ("currency", r#""HRK""#, "currency: HRK was replaced by EUR"),
        ("currency", r#""XTS""#, "currency: XTS is not a currency for payments"),
        ("currency", r#""Euro""#, "currency: expected an ISO 4217 code"),
        ("price", "null", "price is required"),
        ("price", r#""1.5""#, "price: expected a number"),
        ("price", "true", "price: expected a number"),
        ("price", "-0.00000001", "price must not be negative"),
        ("price", "1e400", "price is too large"),
        ("price", "9223372036855", "price is too large"),
        ("price", "9223372036854", "price is too large: price times quantity must be below"),
        ("quantity", "0", "quantity: expected a whole number from 1 to 100"),
        ("quantity", "101", "quantity: "),
        ("quantity", "-1", "quantity: "),
        ("quantity", "1.5", "quantity: "),
        ("quantity", "100.0000000000000000001", "quantity: "),
        ("quantity", "0.99999999999999999999", "quantity: "),
        ("quantity", "101e0", "quantity: "),
        ("quantity", "\"1\"", "quantity: "),
        ("quantity", "18446744073709551617", "quantity: "),
        ("time", "null", "time is required"),
        ("time", "1624899763", "time: expected a string"),
        ("time", r#""yesterday""#, "time: expected a date and time in ISO 8601"),
        ("time", r#""2021-02-29T00:00:00Z""#, "time: "),
        ("time", r#""2026-11-15T10:20:30[Mars/Base]""#, "time: unknown time zone [Mars/Base]"),
        ("time", r#""2026-11-15T10:20:30+25:00""#, "time: the offset +25 is beyond 18 hours"),
        ("other", r#"{"a":[{"b":1,"b":2}]}"#, "b: duplicate field"),
        ("_update_existing_only", "1", "_update_existing_only: expected a boolean"),
        ("properties", "[]", "properties: expected an object"),
        ("properties", r#""x""#, "properties: expected an object"),
        ("properties", r#"{"":1}"#, "properties.: a property has an empty name"),
        ("properties", r#"{"$a":1}"#, "properties.$a: the name begins with a dollar sign"),
        ("properties", r#"{"price":1}"#, "properties.price: the name is reserved"),
        ("properties", r#"{"a":1,"a":1}"#, "properties: a: duplicate field"),
        ("properties", r#"{"a":1e999}"#, "properties.a "),
        ("properties", r#"{"a":"\u0000"}"#, "properties.a has a NUL character"),
        ("properties", r#"{"a":["\udc00"]}"#, "properties.a "),
        (
            "properties",
            r#"{"a":["2021-06-28T17:02:43Z"]}"#,
            "properties.a has a datetime inside an array",
        ),
        ("properties", r#"{"a":{"b":[{"c":"2021-06-28 17:02"}]}}"#, "properties.a has a datetime"),
        ("properties", r#"{"a":["2021-06-28T17:02:43:032+0000"]}"#, "properties.a has a datetime"),
    ] {
        let mut object = with(name, value);
        if ["service_id", "user_alias", "email"].contains(&name) {
            // In addition to a stronger identifier it identifies nobody, whatever its value is.
            if error.contains("duplicate field") {
                assert_eq!(rejected(Kind::Purchases, &object), [error], "{value}");
            } else {
                accepted(Kind::Purchases, &object);
            }
            object = object.replace(r#""external_id":"e""#, r#""external_id":null"#);
        }
        let errors = rejected(Kind::Purchases, &object);
        assert_eq!(errors.len(), 1, "{name} {value}: {errors:?}");
        assert!(errors[0].starts_with(error), "{name} {value}: {errors:?}");
    }
    let nested = |depth: usize| format!(r#"{{"a":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
    accepted(Kind::Purchases, &with("properties", &nested(100)));
    let errors = rejected(Kind::Purchases, &with("properties", &nested(101)));
    assert!(errors[0].starts_with("properties.a is nested too deeply"), "{errors:?}");
    let long_property = format!(r#"{{"a":{long},{long}:1}}"#);
    let errors = rejected(Kind::Purchases, &with("properties", &long_property));
    assert_eq!(errors[0], "properties.a has more than 255 characters");
    assert!(errors[1].ends_with("…: the name has more than 255 characters"), "{errors:?}");
    let hundred = |price: &str| {
        let price = format!("\"price\":{price}");
        purchase(r#""quantity":100"#).replace("\"price\":1", &price)
    };
    assert!(accepted(Kind::Purchases, &hundred("92233720368.53")).contains("92233720368530000"));
    let errors = rejected(Kind::Purchases, &hundred("92233720368.54"));
    assert!(errors[0].starts_with("price is too large"), "{errors:?}");
    assert!(
        accepted(Kind::Purchases, &with("price", "9223372036853.999999"))
            .contains("9223372036853999999")
    );
}

#[test]
fn attributes_and_events_have_their_own_rules() {
    let long = format!("\"{}\"", "x".repeat(256));
    for (kind, object, error) in [
        (Kind::Events, r#"{"external_id":"e","time":"2023-01-01"}"#.to_owned(), "name is required"),
        (Kind::Events, r#"{"external_id":"e","name":"n"}"#.into(), "time is required"),
        (
            Kind::Events,
            format!(r#"{{"external_id":"e","name":{long},"time":"2023-01-01"}}"#),
            "name has more",
        ),
        (
            Kind::Events,
            r#"{"name":"n","time":"2023-01-01"}"#.into(),
            "an external_id, a service_id, a user_alias or an email is required",
        ),
        (Kind::Attributes, r#"{"first_name":"Ann"}"#.into(), "an external_id, "),
        (
            Kind::Attributes,
            r#"{"external_id":"e","user_aliases":[]}"#.into(),
            "user_aliases cannot be set",
        ),
        (
            Kind::Attributes,
            r#"{"external_id":"e","total_revenue":1}"#.into(),
            "total_revenue cannot be set",
        ),
        (
            Kind::Attributes,
            r#"{"external_id":"e","dob":"1.1.2000"}"#.into(),
            "dob: expected a date YYYY-MM-DD",
        ),
        (
            Kind::Attributes,
            r#"{"external_id":"e","push_tokens":[{"app_id":"a"}]}"#.into(),
            "push_tokens[0].token is missing",
        ),
        (
            Kind::Attributes,
            r#"{"external_id":"e","push_tokens":"x"}"#.into(),
            "push_tokens: expected an array",
        ),
        (
            Kind::Attributes,
            r#"{"external_id":"e","first_name":5}"#.into(),
            "first_name: expected a string",
        ),
        (Kind::Attributes, r#"{"external_id":"e","":1}"#.into(), "custom_attributes"),
        (Kind::Attributes, format!(r#"{{"external_id":"e",{long}:1}}"#), "custom_attributes"),
        (
            Kind::Attributes,
            r#"{"external_id":"e","a":{"inc":"1"}}"#.into(),
            "custom_attributes.a: inc: expected a number",
        ),
        (
            Kind::Attributes,
            r#"{"external_id":"e","a":{"add":1}}"#.into(),
            "custom_attributes.a: add: expected an array",
        ),
        (
            Kind::Attributes,
            r#"{"external_id":"e","a":{"add":[],"$add":[],"remove":[]}}"#.into(),
            "custom_attributes.a: expected one of",
        ),
        (
            Kind::Attributes,
            r#"{"external_id":"e","a":{"inc":1,"remove":[]}}"#.into(),
            "custom_attributes.a: expected one of",
        ),
        (
            Kind::Attributes,
            r#"{"external_id":"e","a":{"add":[],"remove":1}}"#.into(),
            "custom_attributes.a: remove: expected an array",
        ),
        (Kind::Attributes, r#"{"external_id":"e","a":"\ud800"}"#.into(), "custom_attributes.a "),
        (
            Kind::Attributes,
            r#"{"external_id":"e","custom_attributes":[]}"#.into(),
            "custom_attributes: expected an object",
        ),
        (
            Kind::Attributes,
            r#"{"external_id":"e","a":1,"custom_attributes":{"a":2}}"#.into(),
            "custom_attributes.a: duplicate field",
        ),
        (Kind::Attributes, r#"{"external_id":"e","a":1,"a":2}"#.into(), "a: duplicate field"),
        (
            Kind::Attributes,
            format!(r#"{{"external_id":"e","a":"{}"}}"#, "x".repeat(1 << 20)),
            "the object is larger than 1024 KiB",
        ),
    ] {
        let errors = rejected(kind, &object);
        assert!(errors[0].starts_with(error), "{error}: {errors:?}");
    }
}

#[test]
fn each_error_of_an_object_is_reported_once() {
    let rejected = |object: &str| rejected(Kind::Attributes, object);
    let email = "email: expected an email address";
    assert_eq!(rejected(r#"{"external_id":"e","email":"nobody"}"#), [email]);
    assert_eq!(
        rejected(r#"{"email":"nobody","dob":"x"}"#),
        [email, "dob: expected a date YYYY-MM-DD"]
    );
    let both = rejected(r#"{"first_name":5}"#);
    assert!(both[0].ends_with("is required") && both[1].starts_with("first_name: "), "{both:?}");
    let removed = accepted(Kind::Attributes, r#"{"external_id":"e","email":""}"#);
    assert!(removed.contains(r#""fields":{"email":null}"#), "{removed}");
}

#[test]
fn all_errors_are_reported_and_valid_objects_accepted() {
    let body = format!(
        r#"{{"attributes":[5,{{"external_id":"a","dob":"x"}}],
            "purchases":[{{"price":-1,"quantity":0}},{},[],null],"events":[],"unknown":[1]}}"#,
        purchase("")
    );
    let (answer, messages) = track(body).unwrap();
    let error = |array: &str, index: usize, text: &str| json!({ "type": text, "input_array": array, "index": index });
    let nobody = "an external_id, a service_id, a user_alias or an email is required";
    let quantity = "quantity: expected a whole number from 1 to 100";
    let not_an_object = "the object: expected an object";
    assert_eq!(
        answer,
        json!({
            "message": "success", "attributes_processed": 0, "events_processed": 0,
            "purchases_processed": 1,
            "warnings": [{ "field": "unknown", "code": "unknown-field", "count": 1 }],
            "errors": [
                error("attributes", 0, not_an_object),
                error("attributes", 1, "dob: expected a date YYYY-MM-DD"),
                error("purchases", 0, nobody),
                error("purchases", 0, "product_id is required"),
                error("purchases", 0, "currency is required"),
                error("purchases", 0, "price must not be negative"),
                error("purchases", 0, quantity),
                error("purchases", 0, "time is required"),
                error("purchases", 2, not_an_object),
                error("purchases", 3, not_an_object),
            ]
        })
    );
    assert_eq!(messages.len(), 1);
    let bad: Vec<_> = (0..30).map(|n| format!("\"${n}\":1")).collect();
    let errors = rejected(Kind::Purchases, &with("properties", &format!("{{{}}}", bad.join(","))));
    assert_eq!(errors.len(), 10, "no more than this of one object");
}

#[test]
fn requests_without_valid_objects_are_rejected() {
    for body in ["{}", r#"{"purchases":null}"#, r#"{"events":[],"attributes":[]}"#, r#"{"x":1}"#] {
        assert_eq!(track(body), Err((NOTHING_VALID.to_owned(), Vec::new())), "{body}");
    }
    let many = |objects: usize| {
        let purchases = vec![purchase(""); objects].join(",");
        format!(r#"{{"purchases":[{purchases}],"events":[]}}"#)
    };
    assert_eq!(track(many(75)).unwrap().0["purchases_processed"], 75);
    assert_eq!(track(many(76)), Err(("Max Input Length Exceeded".to_owned(), Vec::new())));
    for (body, part) in [
        (r#"{"purchases":{}}"#, "purchases must be an array of objects"),
        (r#"{"events":"x"}"#, "events must be an array of objects"),
        (r#"{"events":[],"events":[]}"#, "events: duplicate field"),
        (r#"{"events":5,}"#, "not valid JSON"),
        ("[]", "must be a JSON object"),
    ] {
        let (message, errors) = track(body).unwrap_err();
        assert!(message.contains(part) && errors.is_empty(), "{body}: {message}");
    }
    let long = format!(r#"{{"events":"{}"}}"#, "x".repeat(100_000));
    assert!(track(long).unwrap_err().0.len() < 200, "an error repeats no long value");
}

/// The messages of a body, decoded, by partition.
#[test]
fn a_whole_number_may_have_a_point() {
    for quantity in ["2.0", "2e0", "0.2e1", "20E-1"] {
        let object = accepted(Kind::Purchases, &with("quantity", quantity));
        assert!(object.contains("\"quantity\":2,"), "{object}");
    }
}

#[test]
fn future_times_count_as_now() {
    for (time, ms) in [
        ("2999-01-01", NOW),
        ("2023-11-14T22:13:20.001Z", NOW),
        ("2023-11-14T22:13:19.999Z", NOW - 1),
    ] {
        let object = accepted(Kind::Purchases, &with("time", &format!("\"{time}\"")));
        assert!(object.contains(&format!("\"time\":{ms}")), "{object}");
    }
}

#[test]
fn what_selects_users_elsewhere_is_rejected_here() {
    let event = |more: &str| format!(r#"{{"name":"n","time":"2023-01-01",{more}}}"#);
    let not = "is not supported by this request";
    for name in ["external_ids", "segment_id", "recipients", "since"] {
        let object = event(&format!(r#""external_id":"a","{name}":["b"]"#));
        assert_eq!(rejected(Kind::Events, &object), [format!("{name} {not}")]);
        let body = format!(r#"{{"events":[{}],"{name}":"b"}}"#, event(r#""external_id":"a""#));
        assert_eq!(track(body).unwrap_err().0, format!("{name} {not}"));
        let body = format!(r#"{{"events":[{}],"{name}":null}}"#, event(r#""external_id":"a""#));
        assert!(track(body).is_ok());
    }
    let event_of_a = event(r#""external_id":"a""#);
    for value in ["true", "\"false\"", "0"] {
        let body = format!(r#"{{"dry_run":{value},"events":[{event_of_a}]}}"#);
        assert_eq!(track(body).unwrap_err().0, format!("dry_run {not}"), "{value}");
    }
    let body = format!(r#"{{"dry_run":false,"events":[{event_of_a}],"recipients":[ ]}}"#);
    assert!(track(body).is_ok(), "it limits nothing");
    let purchase = |more: &str| {
        format!(r#"{{"product_id":"p","currency":"USD","price":1,"time":"2023-01-01",{more}}}"#)
    };
    for identifiers in [
        r#""phone":"+15550100""#,
        r#""external_id":"a","phone":"+15550100""#,
        r#""user_alias":{"alias_name":"n","alias_label":"l"},"phone":"+15550100""#,
    ] {
        for (kind, object) in
            [(Kind::Events, event(identifiers)), (Kind::Purchases, purchase(identifiers))]
        {
            assert_eq!(rejected(kind, &object), [format!("phone {not}")]);
        }
    }
    let inside = r#""user_alias":{"alias_name":"n","alias_label":"l","external_id":"a"}"#;
    assert_eq!(rejected(Kind::Events, &event(inside)), [format!("user_alias: external_id {not}")]);
    accepted(Kind::Events, &event(r#""external_id":"a","phone":null,"external_ids":[ ]"#));
    // In attributes, names are those of the profile's fields, or the customer's own.
    let by_phone = rejected(Kind::Attributes, r#"{"phone":"+15550100"}"#);
    assert!(by_phone[0].ends_with("users are not found by phone"), "{by_phone:?}");
    accepted(Kind::Attributes, r#"{"external_id":"a","phone":"+15550100","segment_id":"s"}"#);
}

#[test]
fn what_has_no_effect_is_named() {
    let attributes = |fields: &str| format!(r#"{{"external_id":"a","n":1,{fields}}}"#);
    let objects = [
        attributes(r#""tier":null"#),
        attributes(r#""email_subscribe":null,"push_subscribe":"""#),
        attributes(r#""email_subscribe":"","subscription_groups":[],"phone":null"#),
        attributes(
            r#""subscription_groups":[{"subscription_group_id":null,"subscription_state":null},{"subscription_group_id":"g","subscription_state":""}]"#,
        ),
    ];
    let purchases = [
        purchase(""),
        with("currency", r#""NOK""#),
        purchase(r#""quanttiy":2,"coupon":null"#),
        with("currency", r#""NOK""#),
    ];
    let body = format!(
        r#"{{"attributes":[{}],"purchases":[{}],"atributes":[],"partner":"x","comment":null}}"#,
        objects.join(","),
        purchases.join(","),
    );
    let (answer, messages) = track(body).unwrap();
    let warning = |field: &str, code: &str, count: usize, index: usize| json!({ "field": field, "code": code, "count": count, "index": index });
    assert_eq!(
        answer["warnings"],
        json!([
            {
                "field": "atributes", "code": "unknown-field", "count": 1,
                "message": "did you mean attributes?",
            },
            { "field": "partner", "code": "unknown-field", "count": 1 },
            warning("attributes[].email_subscribe", "no-state", 2, 1),
            warning("attributes[].push_subscribe", "no-state", 1, 1),
            warning("attributes[].subscription_groups", "no-state", 1, 2),
            warning("attributes[].subscription_groups[].subscription_state", "no-state", 1, 3),
            warning("purchases[].currency", "no-exchange-rate", 2, 1),
            warning("purchases[].quanttiy", "unknown-field", 1, 2),
        ])
    );
    let texts: Vec<&String> = messages.values().collect();
    let has = |text: &str| texts.iter().any(|message| message.contains(text));
    assert!(has(r#""phone":null"#) && !has("_subscribe") && !has("subscription_groups"));
    // The same with many objects.
    let many: Vec<String> = (0..25).map(|n| format!(r#""unknown{n}":1"#)).collect();
    let body = format!(r#"{{"purchases":[{}]}}"#, purchase(&many.join(",")));
    assert_eq!(track(body).unwrap().0["warnings"].as_array().unwrap().len(), 20);
}
