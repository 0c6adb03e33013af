//! Compares the projector with a simple one: parse, filter, compare.

use proptest::prelude::*;
use proptest::sample::subsequence;
use serde_json::{Value, json};

use super::*;
use kit::clock;
use proof::fields::record;

const SERVICE: Uuid = Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0001);
const DAY_MS: i64 = 86_400_000;
/// 2026-11-21, at midnight.
const TODAY: i64 = 20_778 * DAY_MS;

/// Stored, but not exported without a request, or at all.
const NEVER: [&str; 5] =
    ["push_tokens", "email_subscribe", "subscription_groups", "Email", "custom_attributes.a"];

/// Names of custom attributes that are easily confused.
const NAMES: [&str; 12] = [
    "a",
    "A",
    "a ",
    "a.b",
    "b",
    "",
    "größe",
    "漢字",
    "quo\"te",
    "back\\slash",
    "email",
    "line\nbreak",
];

fn plan() -> Plan {
    let last_day = clock::utc_date(clock::from_ms(TODAY));
    Plan {
        slices: vec![0],
        members: None,
        segment: None,
        planned_at: None,
        moment: None,
        youngest: Uuid::max(),
        first_day: last_day.checked_sub(jiff::Span::new().days(89)).unwrap(),
        last_day,
        upload_date: last_day,
        seed: Uuid::nil(),
        currency: "USD".into(),
        exchange_rates: BTreeMap::from([("EUR".into(), 1_080_000)]),
    }
}

fn project<S: AsRef<str>>(
    fields: &[S],
    doc: &str,
    activity: Option<&[u8]>,
) -> Result<String, Broken> {
    let fields: Vec<String> = fields.iter().map(|field| field.as_ref().to_owned()).collect();
    let projector = Projector::new(&FieldSet::parse(&fields).unwrap(), &plan());
    let mut out = b"before".to_vec();
    let result = projector.line(&UserRow { service_id: SERVICE, doc, activity }, &mut out);
    let out = String::from_utf8(out).unwrap();
    let line = out.strip_prefix("before").unwrap();
    if result.is_err() {
        assert_eq!(line, "");
    }
    result.map(|()| {
        let line = line.strip_suffix('\n').expect("a line ends");
        assert!(!line.contains(['\n', '\r', '\t']), "{line:?}");
        line.to_owned()
    })
}

#[test]
fn stored_times_are_normalized() {
    for (field, doc, line) in [
        ("created_at", r#"{"created_at":"2021-06-28T19:02:43+0200"}"#, "2021-06-28T17:02:43.000Z"),
        ("uninstalled_at", r#"{"uninstalled_at":"2021-06-28"}"#, "2021-06-28T00:00:00.000Z"),
        ("created_at", r#"{"created_at":"some day"}"#, "some day"),
    ] {
        let expected = format!(r#"{{"{field}":"{line}"}}"#);
        assert_eq!(project(&[field], doc, None), Ok(expected), "{doc}");
    }
    let apps = |time: &str| {
        format!(
            r#"{{"apps":[{{"name":"first_used","first_used":"{time}","last_used":"{time}"}}]}}"#
        )
    };
    let stored = apps("2021-06-28 17:02:43Z").replace("\":\"2021", "\" : \"2021");
    let expected = apps("2021-06-28T17:02:43.000Z");
    assert_eq!(project(&["apps"], &stored, None), Ok(expected.clone()));
    assert_eq!(project(&["apps"], &expected, None), Ok(expected));
}

#[test]
fn no_object_of_a_line_has_a_name_twice() {
    let doc =
        r#"{"custom_attributes":{"o":{"a":1,"b":{"x":1,"x":2},"a":3},"l":[{"a":1,"a":2}],"n":1}}"#;
    let all_attributes = r#"{"custom_attributes":{"o":{"b":{"x":2},"a":3},"l":[{"a":2}],"n":1}}"#;
    assert_eq!(project(&["custom_attributes"], doc, None).as_deref(), Ok(all_attributes));
    let list_only = r#"{"custom_attributes":{"l":[{"a":2}]}}"#;
    assert_eq!(project(&["custom_attributes.l"], doc, None).as_deref(), Ok(list_only));
}

/// The fields of an object in order.
#[derive(Debug, PartialEq)]
struct Ordered(Vec<(String, Value)>);

impl<'de> serde::Deserialize<'de> for Ordered {
    fn deserialize<D: de::Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Ordered;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Ordered(members))
            }
        }
        json.deserialize_map(Members)
    }
}

fn ordered(json: &str) -> Ordered {
    serde_json::from_str(json).unwrap()
}

fn is_nothing(value: &Value) -> bool {
    *value == Value::Null || [json!(""), json!([]), json!({})].contains(value)
}

/// The expected fields of a line, from a document without activity.
fn reference(fields: &[String], doc: &str) -> Ordered {
    let wanted = |name: &str| fields.iter().any(|field| field == name);
    let mut line = Vec::new();
    for (name, mut value) in ordered(doc).0 {
        if name == "custom_attributes" && !wanted(&name) {
            if let Value::Object(attributes) = &mut value {
                attributes.retain(|name, _| wanted(&format!("custom_attributes.{name}")));
            }
        } else if !wanted(&name) || !record().any(|member| member == name) {
            continue;
        }
        if !is_nothing(&value) {
            line.push((name, value));
        }
    }
    if wanted("service_id") && !line.iter().any(|(name, _)| name == "service_id") {
        line.push(("service_id".into(), json!(SERVICE)));
    }
    Ordered(line)
}

/// A JSON notation: which characters are escaped, and the white space between tokens.
#[derive(Clone, Debug)]
struct Style {
    escape: bool,
    space: &'static str,
}

fn write_string(text: &str, style: &Style, out: &mut String) {
    if !style.escape {
        out.push_str(&serde_json::to_string(text).unwrap());
        return;
    }
    let units = text.encode_utf16().map(|unit| format!("\\u{unit:04x}"));
    out.push_str(&format!("\"{}\"", units.collect::<String>()));
}

fn write_value(value: &Value, style: &Style, out: &mut String) {
    let separate = |out: &mut String, token: char| {
        out.push_str(style.space);
        out.push(token);
        out.push_str(style.space);
    };
    match value {
        Value::String(text) => write_string(text, style, out),
        Value::Array(items) => {
            separate(out, '[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    separate(out, ',');
                }
                write_value(item, style, out);
            }
            separate(out, ']');
        }
        Value::Object(members) => {
            let members: Vec<_> = members.iter().collect();
            write_object(&members, style, out);
        }
        plain => out.push_str(&plain.to_string()),
    }
}

fn write_object(members: &[(&String, &Value)], style: &Style, out: &mut String) {
    out.push_str(&format!("{{{}", style.space));
    for (index, (name, value)) in members.iter().enumerate() {
        if index > 0 {
            out.push_str(&format!("{0},{0}", style.space));
        }
        write_string(name, style, out);
        out.push_str(&format!("{0}:{0}", style.space));
        write_value(value, style, out);
    }
    out.push_str(&format!("{}}}", style.space));
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9f64).prop_map(Value::from),
        "[ -~äß漢😀\"\\\\\n\t{}\\[\\],:]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z\"é ]{0,4}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn attributes() -> impl Strategy<Value = Value> {
    let members = prop::collection::btree_map(prop::sample::select(&NAMES[..]), value(), 0..8);
    prop_oneof![
        8 => members.prop_map(|m| m.into_iter().map(|(n, v)| (n.to_owned(), v)).collect()),
        1 => Just(Value::Null),
    ]
}

fn style() -> impl Strategy<Value = Style> {
    (any::<bool>(), prop::sample::select(vec!["", "", "\n", "\r\n\t "]))
        .prop_map(|(escape, space)| Style { escape, space })
}

fn document() -> impl Strategy<Value = String> {
    let stored: Vec<&str> = record()
        .filter(|name| ![CUSTOM_ATTRIBUTES, PURCHASES, CUSTOM_EVENTS, TOTAL_REVENUE].contains(name))
        .chain(NEVER)
        .collect();
    let members = prop::collection::btree_map(prop::sample::select(stored), value(), 0..20);
    (members, prop::option::of(attributes()))
        .prop_map(|(members, attributes)| {
            let members = members.into_iter().map(|(name, value)| (name.to_owned(), value));
            let attributes = attributes.map(|value| (CUSTOM_ATTRIBUTES.to_owned(), value));
            members.chain(attributes).collect::<Vec<_>>()
        })
        .prop_shuffle()
        .prop_flat_map(|members| (Just(members), style()))
        .prop_map(|(members, style)| {
            let members: Vec<_> = members.iter().map(|(name, value)| (name, value)).collect();
            let mut doc = String::new();
            write_object(&members, &style, &mut doc);
            doc
        })
}

fn fields() -> impl Strategy<Value = Vec<String>> {
    let names: Vec<_> = NAMES
        .into_iter()
        .filter(|n| !n.is_empty())
        .map(|n| format!("custom_attributes.{n}"))
        .collect();
    let members: Vec<_> = record().map(str::to_owned).collect();
    let count = (members.len(), names.len());
    (subsequence(members, 1..=count.0), subsequence(names, 0..=count.1))
        .prop_map(|(members, names)| members.into_iter().chain(names).collect())
}

proptest! {
    #[test]
    fn the_plainest_projector_gives_the_same(doc in document(), fields in fields()) {
        let line = project(&fields, &doc, None).unwrap();
        prop_assert_eq!(ordered(&line), reference(&fields, &doc), "{}", line);
    }

    #[test]
    fn damaged_documents_fail_or_match_the_reference(
        doc in document(),
        fields in fields(),
        cut: prop::sample::Index,
        garbage in prop::option::of("[ -~]"),
    ) {
        let end = (0..=cut.index(doc.len())).rev().find(|end| doc.is_char_boundary(*end)).unwrap();
        let doc = format!("{}{}", &doc[..end], garbage.unwrap_or_default());
        match serde_json::from_str::<Ordered>(&doc) {
            Err(_) => prop_assert!(project(&fields, &doc, None).is_err()),
            // A parsed document may still have invalid custom_attributes.
            Ok(_) => if let Ok(line) = project(&fields, &doc, None) {
                prop_assert_eq!(ordered(&line), reference(&fields, &doc));
            },
        }
    }
}

#[test]
fn values_stay_as_they_are_written() {
    let doc = r#"{"x":1,"last_coordinates":[1.10,-0.0,1E5],"random_bucket":12345678901234567890123,
        "custom_attributes":{"n":1.50,"e":"\u00e9\/","o":{"b": 1,"a":[ ]}},"first_name":"Zo\u00eb "}"#;
    let fields = ["last_coordinates", "random_bucket", "custom_attributes", "first_name"];
    assert_eq!(
        project(&fields, doc, None).unwrap(),
        r#"{"last_coordinates":[1.10,-0.0,1E5],"random_bucket":12345678901234567890123,"custom_attributes":{"n":1.50,"e":"\u00e9\/","o":{"b":1,"a":[]}},"first_name":"Zo\u00eb "}"#
    );
    let attributes = ["custom_attributes.e", "custom_attributes.n"];
    assert_eq!(
        project(&attributes, doc, None).unwrap(),
        r#"{"custom_attributes":{"n":1.50,"e":"\u00e9\/"}}"#
    );
}

#[test]
fn users_without_requested_fields_are_empty_objects() {
    let doc = r#"{"email":"","apps":[ ],"custom_attributes":{"a":1},"dob":null}"#;
    let fields = ["email", "apps", "dob", "phone", "purchases", "custom_attributes.b"];
    assert_eq!(project(&fields, doc, None).unwrap(), "{}");
    assert_eq!(project(&fields, "{}", Some(&Activity::default().encode())).unwrap(), "{}");
}

#[test]
fn custom_attributes_keep_empty_and_false_values() {
    let doc = r#"{"custom_attributes":{"a":"","b":false,"c":[],"d":0}}"#;
    assert_eq!(project(&["custom_attributes"], doc, None).unwrap(), doc);
    let fields = ["a", "b", "c", "d"].map(|name| format!("custom_attributes.{name}"));
    assert_eq!(project(&fields, doc, None).unwrap(), doc);
}

#[test]
fn service_id_falls_back_to_the_row() {
    let fields = ["service_id", "email"];
    let doc = r#"{"service_id":"x","email":"e"}"#;
    assert_eq!(project(&fields, doc, None).unwrap(), doc);
    let line = project(&fields, r#"{"email":"e"}"#, None).unwrap();
    assert_eq!(line, format!(r#"{{"email":"e","service_id":"{SERVICE}"}}"#));
}

#[test]
fn service_id_has_each_requested_name() {
    let fields = ["email", "service_id\u{1f}their_id", "service_id"];
    let line = project(&fields, r#"{"service_id":"x","email":"e"}"#, None).unwrap();
    assert_eq!(line, r#"{"service_id":"x","their_id":"x","email":"e"}"#);
    let line = project(&fields, r#"{"email":"e"}"#, None).unwrap();
    assert_eq!(line, format!(r#"{{"email":"e","service_id":"{SERVICE}","their_id":"{SERVICE}"}}"#));
}

#[test]
fn activity_of_the_document_is_not_exported_twice() {
    let mut activity = Activity::default();
    activity.record_purchase("p", TODAY, 1, None);
    let doc = r#"{"purchases":[{"name":"stale"}],"total_revenue":9}"#;
    let line = project(&["purchases", "total_revenue"], doc, Some(&activity.encode())).unwrap();
    let day = "2026-11-21T00:00:00.000Z";
    assert_eq!(
        line,
        format!(r#"{{"purchases":[{{"name":"p","first":"{day}","last":"{day}","count":1}}]}}"#)
    );
}

#[test]
fn activity_is_that_of_the_window() {
    let mut activity = Activity::default();
    // The first and the last moment of the window, and those beyond.
    for at in [TODAY - 89 * DAY_MS - 1, TODAY - 89 * DAY_MS, TODAY + 32, TODAY + DAY_MS] {
        activity.record_purchase("Tea \"No. 1\"", at, 2, None);
        activity.record_event("seen", at, 1, None);
    }
    activity.record_event("earlier", TODAY - 90 * DAY_MS, 1, None);
    activity.record_event("later", TODAY + DAY_MS, 1, None);
    let (first, last) = ("2026-08-24T00:00:00.000Z", "2026-11-21T00:00:00.032Z");
    let packed = activity.encode();
    let line = project(&["purchases", "custom_events"], "{}", Some(&packed)).unwrap();
    let expected = json!({
        "purchases": [{"name": "Tea \"No. 1\"", "first": first, "last": last, "count": 4}],
        "custom_events": [{"name": "seen", "first": first, "last": last, "count": 2}],
    });
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), expected);
    let line = project(&["custom_events"], "{}", Some(&packed)).unwrap();
    assert!(line.contains("custom_events") && !line.contains("purchases"));
}

#[test]
fn summaries_are_written_as_they_serialize() {
    for name in ["p", "", "a \"name\"\n\u{1f}é"] {
        for (first, last) in [(0, TODAY), (i64::MIN, i64::MAX)] {
            let summary = Summary { name, first, last, count: u64::MAX };
            let mut out = Vec::new();
            push_summary(summary, &mut out).unwrap();
            let written = String::from_utf8(out).unwrap();
            assert_eq!(written, serde_json::to_string(&summary).unwrap());
        }
    }
}

#[test]
fn revenue_is_converted_exactly() {
    let mut activity = Activity::default();
    let total = |activity: &Activity<'_>| {
        project(&["total_revenue"], "{}", Some(&activity.encode())).unwrap()
    };
    assert_eq!(total(&activity), "{}");
    activity.record_revenue("USD", 1_700_000);
    assert_eq!(total(&activity), r#"{"total_revenue":1.7}"#);
    activity.record_revenue("EUR", 10_000_000);
    assert_eq!(total(&activity), r#"{"total_revenue":12.5}"#);
    // Without a rate: not included in the sum.
    activity.record_revenue("JPY", 10_000_000);
    assert_eq!(total(&activity), r#"{"total_revenue":12.5}"#);
}

#[test]
fn broken_users_are_reported_without_their_data() {
    let fields = ["email", "custom_attributes.a", "purchases"];
    for doc in [
        "",
        "null",
        "[]",
        r#""secret""#,
        r#"{"email":"secret"#,
        r#"{"email":"secret"} x"#,
        r#"{"custom_attributes":"secret"}"#,
        r#"{"phone":secret}"#,
    ] {
        let broken = project(&fields, doc, None).unwrap_err();
        assert_eq!(broken.service_id, SERVICE);
        assert!(!broken.reason.contains("secret"), "{}", broken.reason);
    }
    let broken = project(&fields, "{}", Some(&[9, 9])).unwrap_err();
    assert!(broken.reason.contains("activity"), "{}", broken.reason);
    // Activity that is not requested is not read.
    assert_eq!(project(&["email"], "{}", Some(&[9, 9])).unwrap(), "{}");
}
