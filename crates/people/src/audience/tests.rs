use kit::json::Tree;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn leaf(comparison: &str, value: Value) -> Value {
    json!({ "custom_attribute": {
        "custom_attribute_name": "tier", "comparison": comparison, "value": value
    }})
}

fn read(value: &Value) -> Result<Audience, AudienceError> {
    Audience::read(&value.into())
}

fn read_segment(value: &Value) -> Result<Audience, AudienceError> {
    Audience::read_segment(&value.into())
}

fn written(audience: &Audience) -> Value {
    audience.to_json().as_str().parse().unwrap()
}

fn error_text(value: &Value) -> String {
    read(value).expect_err(&value.to_string()).to_string()
}

#[test]
fn a_tree_is_read_and_written_back() {
    let tree = json!({ "AND": [
        leaf("includes_value", json!("gold")),
        { "OR": [
            { "push_subscription_status": { "comparison": "is", "value": "opted_in" } },
            { "email_subscription_status": { "comparison": "is_not", "value": "unsubscribed" } },
            { "last_used_app": { "comparison": "after", "value": "2026-11-01T00:00:00+0100" } },
        ]},
        leaf("less_than_x_days_ago", json!(3)),
        leaf("equals", json!(2.5)),
        { "custom_attribute": { "custom_attribute_name": "x", "comparison": "exists" } },
    ]});
    let read = read(&tree).unwrap();
    assert_eq!(written(&read), tree);
    let Audience::And(nodes) = &read else { panic!("{read:?}") };
    let Audience::CustomAttribute { name, condition } = &nodes[0] else { panic!("{read:?}") };
    assert_eq!((name.as_str(), condition.comparison), ("tier", Comparison::IncludesValue));
    assert_eq!(condition.operand, Operand::Text("gold".into()));
}

#[test]
fn comparisons_accept_only_their_types() {
    let text = json!("2026-11-01T00:00:00Z");
    let (number, boolean, days) = (json!(1.5), json!(true), json!(7));
    let takes: [(&str, &[&Value]); 19] = [
        ("equals", &[&text, &number, &boolean, &days]),
        ("not_equal", &[&text, &number, &days]),
        ("does_not_equal", &[&boolean]),
        ("matches_regex", &[&text]),
        ("does_not_match_regex", &[&text]),
        ("includes_value", &[&text, &number, &boolean, &days]),
        ("does_not_include_value", &[&text, &number, &boolean, &days]),
        ("greater_than", &[&number, &days]),
        ("greater_than_or_equal_to", &[&number, &days]),
        ("less_than", &[&number, &days]),
        ("less_than_or_equal_to", &[&number, &days]),
        ("less_than_x_days_ago", &[&days]),
        ("greater_than_x_days_ago", &[&days]),
        ("less_than_x_days_in_the_future", &[&days]),
        ("greater_than_x_days_in_the_future", &[&days]),
        ("after", &[&text]),
        ("before", &[&text]),
        ("exists", &[]),
        ("does_not_exist", &[]),
    ];
    let (none, list, object) = (Value::Null, json!(["a"]), json!({ "a": 1 }));
    for (comparison, accepted) in takes {
        for value in [&text, &number, &boolean, &days, &list, &object, &none] {
            let needs_none = accepted.is_empty() && value.is_null();
            let read = read(&leaf(comparison, value.clone()));
            assert_eq!(
                read.is_ok(),
                accepted.contains(&value) || needs_none,
                "{comparison} {value}"
            );
        }
    }
}

#[test]
fn days_are_whole_numbers_in_any_notation() {
    let comparison = "less_than_x_days_ago";
    let days = read(&leaf(comparison, json!(7.0))).unwrap();
    assert_eq!(written(&days), leaf(comparison, json!(7)));
    assert!(read(&leaf(comparison, json!(7.5))).is_err());
}

#[test]
fn errors_name_the_path() {
    let inside = |node: Value| json!({ "AND": [leaf("exists", Value::Null), { "OR": [node] }] });
    let two = json!({ "AND": [leaf("exists", Value::Null)], "OR": [leaf("exists", Value::Null)] });
    for (tree, expected) in [
        (json!([]), "expected an object with one condition"),
        (json!({}), "a node must have exactly one field, one of AND, OR, "),
        (two, "a node must have exactly one field"),
        (json!({ "AND": [] }), "AND: expected a non-empty array of conditions"),
        (json!({ "OR": {} }), "OR: expected a non-empty array"),
        (inside(json!({ "NOT": [] })), "AND[1].OR[0]: unknown condition; expected one of AND"),
        (inside(json!({ "purchase_property": {} })), "AND[1].OR[0]: unknown condition"),
        (inside(json!({ "last_used_app": [] })), "AND[1].OR[0].last_used_app: expected an object"),
        (
            json!({ "custom_attribute": { "comparison": "exists" } }),
            "custom_attribute.custom_attribute_name: expected a string of 1 to 255",
        ),
        (
            leaf("is", json!("x")),
            "custom_attribute.comparison: expected one of equals, not_equal, ",
        ),
        (
            leaf("after", json!("soon")),
            "custom_attribute.value: expected a date and time in ISO 8601",
        ),
        (leaf("after", json!(5)), "custom_attribute.value: after takes a date and time"),
        (
            leaf("equals", json!([1])),
            "custom_attribute.value: equals takes a string or a number or true",
        ),
        (
            leaf("less_than_x_days_ago", json!(-1)),
            "custom_attribute.value: less_than_x_days_ago takes",
        ),
        (
            leaf("matches_regex", json!("a(")),
            "custom_attribute.value: is not a valid regular expression: unclosed group",
        ),
        (
            leaf("matches_regex", json!("(a{1000}){1000}")),
            "custom_attribute.value: the regular expression is too large",
        ),
        (
            leaf("matches_regex", json!("a".repeat(256))),
            "custom_attribute.value: a regular expression can have at most 255",
        ),
        (
            json!({ "push_subscription_status": { "comparison": "is", "value": "maybe" } }),
            "push_subscription_status.value: is takes one of opted_in, subscribed, unsubscribed",
        ),
    ] {
        let text = error_text(&tree);
        assert!(text.starts_with(expected), "{tree}\n{text}");
    }
}

#[test]
fn unknown_fields_are_rejected_in_new_trees() {
    for value in [json!(true), json!(null)] {
        let mut tree = json!({ "OR": [leaf("equals", json!("gold"))] });
        tree["OR"][0]["custom_attribute"]["negate"] = value;
        assert!(read(&tree).is_ok() && read_segment(&tree).is_ok(), "stored ones are read: {tree}");
        let tree: Tree = (&tree).into();
        for error in [Audience::read_new(&tree), Audience::read_new_segment(&tree)] {
            let text = error.unwrap_err().to_string();
            let expected = "OR[0].custom_attribute.negate: unknown field; expected custom_att";
            assert!(text.starts_with(expected), "{text}");
        }
    }
    let mut tree = leaf("equals", json!("gold"));
    tree["AND"] = json!(null);
    assert!(Audience::read_new(&(&tree).into()).is_ok());
    tree["NOT"] = json!(null);
    assert!(Audience::read_new(&(&tree).into()).is_err() && read(&tree).is_ok());
}

#[test]
fn a_segment_may_ask_for_purchases_and_an_audience_may_not() {
    let leaf = |members: Value| {
        let mut leaf = json!({ "property_name": "size", "comparison": "equals", "value": "L" });
        leaf.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        json!({ "OR": [{ "purchase_property": leaf }] })
    };
    for tree in [leaf(json!({})), leaf(json!({ "product_id": "tea" }))] {
        assert_eq!(written(&read_segment(&tree).unwrap()), tree);
        let text = error_text(&tree);
        assert!(text.starts_with("OR[0]: unknown condition; expected one of"), "{text}");
        assert!(!text.contains("purchase_property"), "{text}");
    }
    let error_text = |tree| read_segment(&tree).unwrap_err().to_string();
    for (members, expected) in [
        (json!({ "property_name": "" }), "property_name: expected a string of 1 to 255"),
        (json!({ "product_id": 5 }), "product_id: expected a string of 1 to 255"),
        (json!({ "comparison": "is" }), "comparison: expected one of equals, "),
        (json!({ "value": [] }), "value: equals takes"),
    ] {
        let text = error_text(leaf(members));
        assert!(text.starts_with(&format!("OR[0].purchase_property.{expected}")), "{text}");
    }
    assert!(error_text(json!({ "NOT": 1 })).ends_with("last_used_app, purchase_property"));
}

#[test]
fn depth_and_number_are_bounded() {
    let nested =
        |levels| (1..levels).fold(leaf("exists", Value::Null), |node, _| json!({ "AND": [node] }));
    assert!(read(&nested(32)).is_ok());
    assert!(error_text(&nested(33)).ends_with(": an audience can nest at most 32 levels"));
    let wide = |conditions| json!({ "OR": vec![leaf("exists", Value::Null); conditions] });
    assert!(read(&wide(250)).is_ok());
    assert!(error_text(&wide(251)).ends_with("at most 250 conditions"));
}

/// JSON of meaningful names and values, combined randomly.
fn any_json() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "AND",
        "OR",
        "custom_attribute",
        "custom_attribute_name",
        "comparison",
        "value",
        "push_subscription_status",
        "last_used_app",
        "equals",
        "exists",
        "is",
        "after",
        "opted_in",
        "2026-11-01T00:00:00Z",
        "matches_regex",
        "(",
        "",
    ]);
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
    ];
    scalar.prop_recursive(6, 64, 4, move |inner| {
        let name = prop_oneof![word.clone().prop_map(str::to_owned), "\\PC{0,4}"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(name, inner, 0..4)
                .prop_map(|members| members.into_iter().collect()),
        ]
    })
}

/// Valid trees.
fn any_tree() -> impl Strategy<Value = Value> {
    let scalar = || {
        prop_oneof![
            "\\PC{0,12}".prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            // Few enough digits for a number that a test reads back.
            (-1e9..1e9f64).prop_map(|number| Value::from((number * 1e3).round() / 1e3)),
        ]
    };
    let attribute = |comparisons: &'static [&'static str], value: BoxedStrategy<Value>| {
        ("\\PC{1,20}", prop::sample::select(comparisons), value).prop_map(
            |(name, comparison, value)| {
                json!({ "custom_attribute": {
                    "custom_attribute_name": name, "comparison": comparison, "value": value
                }})
            },
        )
    };
    let time = (0..4_000_000_000_000i64).prop_map(|ms| Value::from(kit::clock::format_time(ms)));
    let status = prop::sample::select(vec!["opted_in", "subscribed", "unsubscribed"]);
    let leaf = prop_oneof![
        attribute(&["equals", "not_equal", "includes_value"], scalar().boxed()),
        attribute(&["does_not_equal", "equals"], any::<bool>().prop_map(Value::from).boxed()),
        attribute(&["less_than_x_days_ago"], any::<u32>().prop_map(Value::from).boxed()),
        attribute(&["after", "before"], time.clone().boxed()),
        attribute(
            &["matches_regex"],
            "[a-z.*+]?[a-z]{0,9}"
                .prop_filter_map("a pattern", |text| {
                    regex::Regex::new(&text).ok().map(|_| Value::from(text))
                })
                .boxed()
        ),
        "\\PC{1,20}".prop_map(|name| json!({ "custom_attribute": {
            "custom_attribute_name": name, "comparison": "does_not_exist"
        }})),
        status.prop_map(|value| json!({ "email_subscription_status": {
            "comparison": "is_not", "value": value
        }})),
        time.prop_map(
            |value| json!({ "last_used_app": { "comparison": "before", "value": value } })
        ),
    ];
    leaf.prop_recursive(8, 64, 4, |inner| {
        let name = prop::sample::select(vec!["AND", "OR"]);
        (name, prop::collection::vec(inner, 1..4)).prop_map(|(name, nodes)| json!({ name: nodes }))
    })
}

proptest! {
    #[test]
    fn valid_audiences_are_read_and_written_unchanged(tree in any_tree()) {
        let read = read(&tree).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(written(&read), tree);
    }

    #[test]
    fn accepted_audiences_survive_a_round_trip(value in any_json()) {
        if let Ok(read) = read(&value) {
            let written: Tree = serde_json::from_str(read.to_json().as_str()).unwrap();
            prop_assert_eq!(Audience::read(&written), Ok(read));
        }
    }
}
