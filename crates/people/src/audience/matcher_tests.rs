//! Compares the matcher with a simple evaluator that works directly on the JSON tree.

use proptest::prelude::*;
use regex::Regex;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::*;
use crate::users::Recipient;
use crate::users::activity::Activity;
use kit::clock::{format_time, parse_time};
use kit::json::{Tree, TreeObject, canonical};

/// Noon of a day.
const NOW: i64 = 1_795_262_400_000;
const DAY: i64 = 86_400_000;

const NEGATIVE: [(&str, &str); 6] = [
    ("equals", "not_equal"),
    ("equals", "does_not_equal"),
    ("matches_regex", "does_not_match_regex"),
    ("includes_value", "does_not_include_value"),
    ("exists", "does_not_exist"),
    ("is", "is_not"),
];

fn user(profile: Value) -> Recipient {
    let Value::Object(profile) = profile else { panic!("{profile}") };
    let custom = profile.get("custom_attributes").and_then(Value::as_object);
    let custom = custom.map(TreeObject::from).unwrap_or_default().into();
    Recipient { service_id: Uuid::nil(), profile, custom, stopped: None }
}

fn bought(purchases: &[(String, Value)]) -> Vec<u8> {
    let mut activity = Activity::default();
    for (product, properties) in purchases {
        activity.record_purchase(product, NOW, 1, Some(&properties.to_string()));
    }
    activity.encode()
}

/// The matcher's result.
fn holds(tree: &Value, profile: Value, purchases: &[(String, Value)]) -> bool {
    let matcher = Audience::read_segment(&tree.into()).expect("a tree").matcher();
    assert_eq!(matcher.needs_activity(), tree.to_string().contains("purchase_property"));
    let packed = bought(purchases);
    matcher.holds(&user(profile), Some(&Activity::decode(&packed).unwrap()), NOW).unwrap()
}

/// The simple evaluator's result.
fn evaluate(tree: &Value, profile: &Value, purchases: &[(String, Value)]) -> bool {
    let (name, inside) = tree.as_object().unwrap().iter().next().unwrap();
    let nodes = || inside.as_array().unwrap().iter();
    match name.as_str() {
        "AND" => return nodes().all(|node| evaluate(node, profile, purchases)),
        "OR" => return nodes().any(|node| evaluate(node, profile, purchases)),
        _ => {}
    }
    let comparison = inside["comparison"].as_str().unwrap();
    if let Some((positive, _)) = NEGATIVE.iter().find(|(_, negative)| *negative == comparison) {
        let mut positive_leaf = inside.clone();
        positive_leaf["comparison"] = json!(positive);
        return !evaluate(&json!({ name: positive_leaf }), profile, purchases);
    }
    let wanted = &inside["value"];
    match name.as_str() {
        "custom_attribute" => {
            let name = inside["custom_attribute_name"].as_str().unwrap();
            passes(comparison, wanted, &profile["custom_attributes"][name])
        }
        "purchase_property" => purchases.iter().any(|(product, properties)| {
            let is_product = inside["product_id"].as_str().is_none_or(|id| id == product);
            let name = inside["property_name"].as_str().unwrap();
            is_product && passes(comparison, wanted, &properties[name])
        }),
        "last_used_app" => {
            let apps = profile["apps"].as_array().cloned().unwrap_or_default();
            let used = apps.iter().filter_map(|app| parse_time(app["last_used"].as_str()?).ok());
            used.max().is_some_and(|at| passes(comparison, wanted, &json!(format_time(at))))
        }
        "push_subscription_status" => is_status(&profile["push_subscribe"], wanted),
        "email_subscription_status" => is_status(&profile["email_subscribe"], wanted),
        other => panic!("{other}"),
    }
}

fn is_status(stored: &Value, wanted: &Value) -> bool {
    let stored = if stored.is_null() { &json!("subscribed") } else { stored };
    stored == wanted
}

fn passes(comparison: &str, wanted: &Value, value: &Value) -> bool {
    let time = |value: &Value| parse_time(value.as_str()?).ok();
    let both_times = time(wanted).zip(time(value));
    let digits = (value.is_number() && wanted.is_number())
        .then(|| (exact(&value.to_string()), exact(&wanted.to_string())));
    let days = wanted
        .as_i64()
        .filter(|days| (0..10_000).contains(days))
        .zip(time(value))
        .map(|(days, at)| (days * DAY, at));
    match comparison {
        "exists" => !value.is_null(),
        "equals" => match digits {
            Some((value, wanted)) => value == wanted,
            None => value == wanted,
        },
        "includes_value" => value.as_array().is_some_and(|elements| {
            elements.iter().any(|element| passes("equals", wanted, element))
        }),
        "matches_regex" => {
            let regex = Regex::new(wanted.as_str().unwrap()).unwrap();
            value.as_str().is_some_and(|text| regex.is_match(text))
        }
        "greater_than" => digits.is_some_and(|(value, wanted)| value > wanted),
        "greater_than_or_equal_to" => digits.is_some_and(|(value, wanted)| value >= wanted),
        "less_than" => digits.is_some_and(|(value, wanted)| value < wanted),
        "less_than_or_equal_to" => digits.is_some_and(|(value, wanted)| value <= wanted),
        "after" => both_times.is_some_and(|(wanted, value)| value > wanted),
        "before" => both_times.is_some_and(|(wanted, value)| value < wanted),
        "less_than_x_days_ago" => days.is_some_and(|(days, at)| at <= NOW && at > NOW - days),
        "greater_than_x_days_ago" => days.is_some_and(|(days, at)| at < NOW - days),
        "less_than_x_days_in_the_future" => {
            days.is_some_and(|(days, at)| at >= NOW && at < NOW + days)
        }
        "greater_than_x_days_in_the_future" => days.is_some_and(|(days, at)| at > NOW + days),
        other => panic!("{other}"),
    }
}

/// A JSON number of at most seven decimals, in units of the seventh.
fn exact(text: &str) -> i128 {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let fraction = fraction.trim_end_matches('0');
    let digits: i128 = format!("{integer}{fraction}").parse().unwrap();
    let exponent = exponent.parse::<i32>().unwrap() - fraction.len() as i32 + 7;
    digits * 10_i128.pow(exponent.try_into().unwrap())
}

/// Values of attributes and comparisons.
fn any_scalar() -> impl Strategy<Value = Value> {
    let numbers = [
        "0",
        "-0.0",
        "1",
        "1.0",
        "-1",
        "0.5",
        "2.5",
        "1e3",
        "1000",
        "9007199254740992",
        "9007199254740993",
        "9007199254740992.0",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "9.223372036854775807e18",
        "18446744073709551615",
        "18446744073709551616",
        "123456789012345678901234567890",
        "-1e30",
        "1e-7",
    ];
    let texts = ["", "a", "ab", "1", "true", "2026-11-21T12:00:00Z", "2026-11-20", "1e3"];
    let number = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    prop_oneof![
        prop::sample::select(numbers.map(number).to_vec()),
        prop::sample::select(texts.map(Value::from).to_vec()),
        any::<bool>().prop_map(Value::from),
        (-4 * DAY..4 * DAY).prop_map(|away| Value::from(format_time(NOW + away))),
        (-4i64..4).prop_map(|days| Value::from(format_time(NOW + days * DAY))),
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => any_scalar(),
        1 => Just(Value::Null),
        1 => prop::collection::vec(any_scalar(), 0..4).prop_map(Value::from),
        1 => any_scalar().prop_map(|value| json!({ "a": value })),
    ]
}

fn any_name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a".to_owned(), "b".to_owned(), "é".to_owned()])
}

fn any_object() -> impl Strategy<Value = Value> {
    prop::collection::btree_map(any_name(), any_value(), 0..4)
        .prop_map(|members| members.into_iter().collect::<Map<_, _>>().into())
}

fn any_purchases() -> impl Strategy<Value = Vec<(String, Value)>> {
    let purchases = prop::collection::btree_map(any_name(), any_object(), 0..3);
    purchases.prop_map(|products| products.into_iter().collect())
}

fn any_profile() -> impl Strategy<Value = Value> {
    let status =
        prop::option::of(prop::sample::select(vec!["opted_in", "subscribed", "unsubscribed"]));
    let app = prop::option::of(-3 * DAY..3 * DAY).prop_map(|away| match away {
        Some(away) => json!({ "name": "A", "last_used": format_time(NOW + away) }),
        None => json!({ "name": "B" }),
    });
    (any_object(), status.clone(), status, prop::collection::vec(app, 0..3)).prop_map(
        |(attributes, push, email, apps)| {
            let mut profile = json!({ "custom_attributes": attributes, "apps": apps });
            for (name, status) in [("push_subscribe", push), ("email_subscribe", email)] {
                if let Some(status) = status {
                    profile[name] = json!(status);
                }
            }
            profile
        },
    )
}

/// The fields of a condition on a value.
fn any_condition() -> impl Strategy<Value = Value> {
    let condition = |comparisons: &'static [&'static str], value: BoxedStrategy<Value>| {
        (prop::sample::select(comparisons), value)
            .prop_map(|(comparison, value)| json!({ "comparison": comparison, "value": value }))
    };
    let only = |keep: fn(&Value) -> bool| any_scalar().prop_filter("of the type", keep).boxed();
    let time = |value: &Value| value.as_str().is_some_and(|text| parse_time(text).is_ok());
    let patterns = ["", "^a", "b$", "^$", "[0-9]+", "(?i)A", "T12", "(a|b)*c?"];
    prop_oneof![
        condition(&["equals", "not_equal"], only(|value| !value.is_boolean())),
        condition(&["equals", "does_not_equal"], only(Value::is_boolean)),
        condition(&["includes_value", "does_not_include_value"], any_scalar().boxed()),
        condition(
            &["matches_regex", "does_not_match_regex"],
            prop::sample::select(patterns.to_vec()).prop_map(Value::from).boxed()
        ),
        condition(
            &["greater_than", "greater_than_or_equal_to", "less_than", "less_than_or_equal_to"],
            only(Value::is_number)
        ),
        condition(
            &[
                "less_than_x_days_ago",
                "greater_than_x_days_ago",
                "less_than_x_days_in_the_future",
                "greater_than_x_days_in_the_future"
            ],
            (0..5u32).prop_map(Value::from).boxed()
        ),
        condition(&["after", "before"], only(time)),
        condition(&["exists", "does_not_exist"], Just(Value::Null).boxed()),
    ]
}

fn any_leaf() -> impl Strategy<Value = Value> {
    let status = prop::sample::select(vec!["opted_in", "subscribed", "unsubscribed"]);
    let comparison = prop::sample::select(vec!["is", "is_not"]);
    let topic = prop::sample::select(vec!["push_subscription_status", "email_subscription_status"]);
    let sides = prop::sample::select(vec!["after", "before"]);
    prop_oneof![
        4 => (any_name(), any_condition()).prop_map(|(name, mut leaf)| {
            leaf["custom_attribute_name"] = json!(name);
            json!({ "custom_attribute": leaf })
        }),
        3 => (any_name(), prop::option::of(any_name()), any_condition()).prop_map(
            |(name, product, mut leaf)| {
                leaf["property_name"] = json!(name);
                leaf["product_id"] = json!(product);
                json!({ "purchase_property": leaf })
            }
        ),
        1 => (topic, comparison, status).prop_map(|(topic, comparison, status)| {
            json!({ topic: { "comparison": comparison, "value": status } })
        }),
        1 => (sides, -3 * DAY..3 * DAY).prop_map(|(side, away)| json!({ "last_used_app": {
            "comparison": side, "value": format_time(NOW + away)
        }})),
    ]
}

fn any_tree() -> impl Strategy<Value = Value> {
    any_leaf().prop_recursive(4, 16, 3, |inner| {
        let name = prop::sample::select(vec!["AND", "OR"]);
        (name, prop::collection::vec(inner, 1..4)).prop_map(|(name, nodes)| json!({ name: nodes }))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn matches_like_a_simple_evaluator(
        tree in any_tree(), profile in any_profile(), purchases in any_purchases()
    ) {
        let expected = evaluate(&tree, &profile, &purchases);
        prop_assert_eq!(holds(&tree, profile, &purchases), expected);
    }

    #[test]
    fn a_negative_comparison_is_the_complement(
        leaf in any_leaf(), profile in any_profile(), purchases in any_purchases()
    ) {
        let (name, inside) = leaf.as_object().unwrap().iter().next().unwrap();
        let comparison = inside["comparison"].as_str().unwrap();
        for (positive, negative) in NEGATIVE {
            if comparison != positive {
                continue;
            }
            let mut other = inside.clone();
            other["comparison"] = json!(negative);
            let other = json!({ name: other });
            // `does_not_equal` is only for booleans, `not_equal` only for other values.
            if Audience::read_segment(&(&other).into()).is_ok() {
                let expected = !holds(&leaf, profile.clone(), &purchases);
                prop_assert_eq!(holds(&other, profile.clone(), &purchases), expected, "{}", other);
            }
        }
    }

    #[test]
    fn a_tree_of_segments_reads_back(tree in any_tree()) {
        let read = Audience::read_segment(&(&tree).into()).unwrap();
        prop_assert_eq!(Audience::read_segment(&Tree::Object(read.to_json().tree())), Ok(read));
    }

    #[test]
    fn nothing_panics_at_any_time(
        tree in any_tree(), profile in any_profile(), now: i64, packed: Vec<u8>
    ) {
        let matcher = Audience::read_segment(&(&tree).into()).unwrap().matcher();
        let activity = Activity::decode(&packed).ok();
        let _ = matcher.holds(&user(profile), activity.as_ref(), now);
    }
}

fn attribute(comparison: &str, value: Value) -> Value {
    json!({ "custom_attribute": {
        "custom_attribute_name": "x", "comparison": comparison, "value": value
    }})
}

#[test]
fn types_are_never_coerced() {
    let has = |stored: Value| json!({ "custom_attributes": { "x": stored } });
    for (comparison, wanted, stored, expected) in [
        ("equals", json!(1), json!(1.0), true),
        ("equals", json!(1), json!("1"), false),
        ("equals", json!("true"), json!(true), false),
        ("equals", json!("a"), json!(["a"]), false),
        ("not_equal", json!("a"), json!(["a"]), true),
        ("includes_value", json!("a"), json!("a"), false),
        ("includes_value", json!(1), json!(["1", 1.0]), true),
        ("greater_than", json!(1), json!("2"), false),
        ("less_than", json!(9_007_199_254_740_993u64), json!(9_007_199_254_740_992.0), true),
        ("greater_than", json!(9_223_372_036_854_775_807i64), json!(9.3e18), true),
        ("greater_than", json!(u64::MAX), json!(1e300), true),
        ("less_than", json!(i64::MIN), json!(-1e300), true),
        ("matches_regex", json!("^5$"), json!(5), false),
        ("after", json!("2026-11-20"), json!(1_795_262_400_000u64), false),
        ("after", json!("2026-11-20"), json!("2026-11-20T00:00:00:001+0000"), true),
        ("less_than_x_days_ago", json!(1), json!("soon"), false),
        ("exists", json!(null), json!(false), true),
        ("exists", json!(null), json!(""), true),
    ] {
        let tree = attribute(comparison, wanted);
        assert_eq!(holds(&tree, has(stored.clone()), &[]), expected, "{tree} {stored}");
    }
}

#[test]
fn negative_conditions_match_users_without_a_value() {
    for (comparison, value) in [
        ("not_equal", json!("a")),
        ("not_equal", json!(1)),
        ("does_not_equal", json!(true)),
        ("does_not_match_regex", json!("a")),
        ("does_not_include_value", json!("a")),
        ("does_not_exist", json!(null)),
    ] {
        assert!(holds(&attribute(comparison, value.clone()), json!({}), &[]), "{comparison}");
        let property = json!({ "purchase_property": {
            "property_name": "x", "comparison": comparison, "value": value
        }});
        assert!(holds(&property, json!({}), &[]), "{comparison}");
    }
    let status = |comparison: &str, value: &str| json!({ "email_subscription_status": { "comparison": comparison, "value": value } });
    assert!(holds(&status("is", "subscribed"), json!({}), &[]));
    assert!(!holds(&status("is_not", "subscribed"), json!({}), &[]));
    assert!(holds(&status("is_not", "opted_in"), json!({}), &[]));
}

#[test]
fn the_latest_use_of_any_app_counts() {
    let apps = json!({ "apps": [
        { "name": "a", "last_used": "2026-11-01T00:00:00Z" },
        { "name": "b" },
        { "name": "c", "last_used": "2026-11-10T00:00:00Z" },
        { "name": "d", "last_used": "2026-11-05T00:00:00Z" },
    ]});
    let used = |side: &str, day: &str| json!({ "last_used_app": { "comparison": side, "value": format!("2026-11-{day}") } });
    assert!(holds(&used("after", "09"), apps.clone(), &[]));
    assert!(!holds(&used("before", "09"), apps.clone(), &[]));
    assert!(holds(&used("before", "11"), apps, &[]));
    for side in ["after", "before"] {
        assert!(!holds(&used(side, "09"), json!({}), &[]), "nobody knows when");
    }
}

#[test]
fn regexes_match_in_linear_time() {
    let long = |length: usize| json!({ "custom_attributes": { "x": "a".repeat(length) } });
    let tree = attribute("matches_regex", json!("(a|aa)+$"));
    assert!(holds(&tree, long(16 << 10), &[]));
    assert!(!holds(&tree, long((16 << 10) + 1), &[]), "what is longer matches nothing");
    // Exponential for a backtracking engine.
    let tree = attribute("matches_regex", json!("^(((a*)*)*)*b$"));
    assert!(!holds(&tree, long(16 << 10), &[]));
}

#[test]
fn a_trigger_names_properties_that_are_equal() {
    let object = |value: Value| TreeObject::from(value.as_object().unwrap());
    let bought = object(json!({ "size": "L", "n": 1.0, "gift": true, "o": { "a": [1, "b"] } }));
    for (wanted, expected) in [
        (json!({}), true),
        (json!({ "size": "L" }), true),
        (json!({ "size": "l" }), false),
        (json!({ "n": 1 }), true),
        (json!({ "n": "1" }), false),
        (json!({ "gift": 1 }), false),
        (json!({ "size": "L", "other": 1 }), false),
        (json!({ "other": null }), false),
        (json!({ "o": { "a": [1.0, "b"] } }), true),
        (json!({ "o": { "a": [1] } }), false),
        (json!({ "o": {} }), false),
    ] {
        assert_eq!(has_properties(&object(wanted.clone()), &bought), expected, "{wanted}");
    }
}

#[test]
fn numbers_are_compared_to_the_last_digit() {
    let is_true = |comparison: &str, attribute: &str, value: &str| {
        let tree = format!(
            r#"{{"custom_attribute":{{"custom_attribute_name":"x","comparison":"{comparison}","value":{value}}}}}"#
        );
        let matcher = Audience::read(&Tree::parse(&tree).unwrap()).unwrap().matcher();
        let document = format!(r#"{{"custom_attributes":{{"x":{attribute}}}}}"#);
        matcher.holds(&matcher.read(Uuid::nil(), &document).unwrap(), None, NOW).unwrap()
    };
    for (smaller, larger) in [
        ("-9223372036854775809", "-9223372036854775808"),
        ("18446744073709551616", "18446744073709551617"),
        ("9007199254740992.0", "9007199254740993"),
        ("123456789012345678.12345678", "123456789012345678.123456789"),
        ("1e-999999999", "1e-999999998"),
    ] {
        for number in [smaller, larger] {
            assert!(is_true("equals", number, number), "{number}");
            assert!(is_true("includes_value", &format!("[1,{number}]"), number), "{number}");
        }
        for (a, b) in [(smaller, larger), (larger, smaller)] {
            assert!(is_true("not_equal", a, b), "{a} {b}");
            assert!(is_true("does_not_include_value", &format!("[{a}]"), b), "{a} {b}");
        }
        assert!(is_true("greater_than", larger, smaller), "{larger} {smaller}");
        assert!(is_true("less_than_or_equal_to", smaller, larger), "{larger} {smaller}");
        assert!(!is_true("greater_than_or_equal_to", smaller, larger), "{larger} {smaller}");
    }
    assert!(is_true("equals", "5", "5.0") && is_true("equals", "100", "1e2"));
}

#[test]
fn an_audience_is_written_with_all_digits() {
    let leaf = |value: &str| {
        format!(
            r#"{{"custom_attribute":{{"comparison":"equals","custom_attribute_name":"x","value":{value}}}}}"#
        )
    };
    for (value, stored) in [
        ("123456789012345678.123456789", "123456789012345678.123456789"),
        ("18446744073709551617", "18446744073709551617"),
        // Of the same value, as it was always stored.
        ("1.50", "1.5"),
        ("1e2", "100.0"),
    ] {
        let read = Audience::read(&Tree::parse(&leaf(value)).unwrap()).unwrap();
        assert_eq!(read.to_json().as_str(), leaf(stored));
        assert_eq!(serde_json::from_str::<Audience>(&leaf(value)).unwrap(), read);
        assert_eq!(serde_json::to_string(&read).unwrap(), leaf(stored));
    }
}

/// JSON in which equal values often have different spellings.
fn any_spelling() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "null",
        "true",
        "0",
        "-0.0",
        "1",
        "1.0",
        "10e-1",
        "1.5",
        "0.15e1",
        "9007199254740993",
        "9007199254740992.0",
        "9007199254740992",
        "18446744073709551615",
        "18446744073709551616",
        "1.8446744073709551616e19",
        "-9223372036854775808",
        "-9223372036854775809",
        "18446744073709551617",
        "123456789012345678.123456789",
        "123456789012345678.12345679",
        "1e300",
        r#""1""#,
        r#""é""#,
        r#""\u00e9""#,
        r#""a/b""#,
        r#""a\/b""#,
    ]);
    leaf.prop_map(str::to_owned).prop_recursive(2, 8, 2, |inner| {
        let field = || prop::option::of(inner.clone());
        let fields = (field(), field(), any::<bool>());
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3)
                .prop_map(|elements| format!("[{}]", elements.join(","))),
            fields.prop_map(|(a, b, is_reversed)| {
                let a = a.map(|a| format!(r#""a":{a}"#));
                let b = b.map(|b| format!(r#""\u0062":{b}"#));
                let mut fields: Vec<String> = a.into_iter().chain(b).collect();
                if is_reversed {
                    fields.reverse();
                }
                format!("{{{}}}", fields.join(","))
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    /// Changes of arrays compare elements as audiences do.
    #[test]
    fn canonical_texts_are_the_same_for_equal_values(a in any_spelling(), b in any_spelling()) {
        let property = |json: &str| TreeObject::parse(&format!(r#"{{"value":{json}}}"#)).unwrap();
        let is_equal = has_properties(&property(&a), &property(&b));
        prop_assert_eq!(canonical(&a) == canonical(&b), is_equal, "{} {}", a, b);
    }
}
