use std::slice;

use proptest::prelude::*;

use super::*;
use crate::catalogs::{Field, Type};

fn fields() -> Fields {
    let field = |(name, kind): (&str, Type)| Field { name: name.to_owned(), kind };
    [
        ("City", Type::String),
        ("Rating", Type::Number),
        ("Open", Type::Boolean),
        ("Created_at", Type::Time),
        ("Address", Type::Object),
        ("Tags", Type::Array),
    ]
    .map(field)
    .to_vec()
    .into()
}

fn read(json: &str) -> Result<String, Vec<Value>> {
    let raw: &RawValue = serde_json::from_str(json).unwrap();
    let items = super::items(Some(raw), Some(&fields())).map_err(|faults| faults.errors())?;
    Ok(serde_json::to_string(&items).unwrap())
}

/// Code, parameter and values of each error.
fn refused(json: &str) -> Vec<(String, String, Vec<String>)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let texts = |value: &Value| value.as_array().unwrap().iter().map(text).collect::<Vec<_>>();
    let errors = read(json).unwrap_err();
    let members = ["id", "message", "parameter_values", "parameters"];
    for error in &errors {
        let names: Vec<_> = error.as_object().unwrap().keys().collect();
        assert_eq!(names, members);
        assert_eq!(texts(&error["parameters"]).len(), 1);
    }
    let parts = |error: &Value| {
        let parameter = texts(&error["parameters"]).remove(0);
        (text(&error["id"]), parameter, texts(&error["parameter_values"]))
    };
    errors.iter().map(parts).collect()
}

fn message(json: &str, code: Code) -> String {
    let errors = read(json).unwrap_err();
    let error = errors.iter().find(|error| error["id"] == json!(code)).unwrap();
    error["message"].as_str().unwrap().to_owned()
}

fn nested(levels: usize) -> String {
    format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels))
}

#[test]
fn invalid_items_have_their_error_code() {
    let item = |value: &str| format!(r#"[{{"id":"a",{value}}}]"#);
    let long = "x".repeat(251);
    let many: Vec<String> = (0..51).map(|n| format!(r#"{{"id":"i{n}"}}"#)).collect();
    for (json, code, parameter, values) in [
        ("{}".to_owned(), "item-array-invalid", "items", &["an object"][..]),
        ("null".to_owned(), "item-array-invalid", "items", &["null"]),
        ("\"a\"".to_owned(), "item-array-invalid", "items", &["a string"]),
        ("[]".to_owned(), "item-array-invalid", "items", &["[]"]),
        (r#"[{"id":"a"},7,[]]"#.to_owned(), "item-array-invalid", "items", &["1", "2"]),
        (r#"[{"id":"a","City":"x","City":"y"}]"#.to_owned(), "item-array-invalid", "items", &["0"]),
        (
            r#"[{"id":"b"},{"id":"a","Address":{"x":[{"y":1,"y":2}]}}]"#.to_owned(),
            "item-array-invalid",
            "items",
            &["1"],
        ),
        (format!("[{}]", many.join(",")), "request-includes-too-many-items", "items", &["51"]),
        (
            r#"[{"id":"a"},{"City":"x"},{"id":null}]"#.into(),
            "items-missing-ids",
            "items",
            &["1", "2"],
        ),
        (r#"[{"id":7},{"id":["a"]}]"#.to_owned(), "ids-not-strings", "id", &["7", "[\"a\"]"]),
        (
            r#"[{"id":"a b"},{"id":""},{"id":"é"}]"#.to_owned(),
            "invalid-ids",
            "id",
            &["a b", "", "é"],
        ),
        (r#"[{"id":"a\u0000"}]"#.to_owned(), "invalid-ids", "id", &[r#""a\u0000""#]),
        (r#"[{"id":"a"},{"id":"b"},{"id":"\u0061"}]"#.to_owned(), "ids-not-unique", "id", &["a"]),
        (item(r#""Citty":1"#), "invalid-fields", "id", &["a"]),
        (item(r#""Address":{"a":[{"b.c":1}]}"#), "invalid-keys-in-value-object", "id", &["a"]),
        (item(r#""Tags":[{"\u0024add":["x"]}]"#), "invalid-keys-in-value-object", "id", &["a"]),
        (
            item(&format!(r#""Address":{}"#, nested(51))),
            "too-deep-nesting-in-value-object",
            "id",
            &["a"],
        ),
        (item(&format!(r#""City":"{}""#, "é".repeat(5_001))), "items-too-large", "id", &["a"]),
        (item(&format!(r#""Tags":["{}"]"#, "x".repeat(4_997))), "items-too-large", "id", &["a"]),
        (item(r#""Rating":"many""#), "unable-to-coerce-value", "id", &["a"]),
        (item(r#""City":"\u0000""#), "unable-to-coerce-value", "id", &["a"]),
        (item(r#""City":["\ud800"]"#), "unable-to-coerce-value", "id", &["a"]),
        (item(r#""City":1e999"#), "unable-to-coerce-value", "id", &["a"]),
    ] {
        let begin: String = json.chars().take(60).collect();
        let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
        let expected = (code.to_owned(), parameter.to_owned(), values);
        assert_eq!(refused(&json), [expected], "{begin}");
    }
    let shown = format!("{}…", &long[..250]);
    let too_large = ("ids-too-large".to_owned(), "id".to_owned(), vec![shown]);
    assert_eq!(refused(&format!(r#"[{{"id":"{long}"}}]"#)), [too_large]);
}

#[test]
fn one_response_has_every_error() {
    let large = "x".repeat(5_001);
    let items: Vec<String> = [
        r#"{"id":"a","Nope":1,"Rating":"x","$add":["y"]}"#.to_owned(),
        r#"{"id":"a","Address":{"b.c":1}}"#.to_owned(),
        format!(r#"{{"id":"{}"}}"#, "!".repeat(251)),
        format!(r#"{{"City":"{large}"}}"#),
        format!(r#"{{"id":5,"Address":{}}}"#, nested(51)),
        "7".to_owned(),
    ]
    .into_iter()
    .chain((0..45).map(|n| format!(r#"{{"id":"i{n}"}}"#)))
    .collect();
    let found = refused(&format!("[{}]", items.join(",")));
    let codes: Vec<&str> = found.iter().map(|(code, ..)| code.as_str()).collect();
    assert_eq!(
        codes,
        [
            "item-array-invalid",
            "request-includes-too-many-items",
            "items-missing-ids",
            "ids-not-strings",
            "ids-too-large",
            "invalid-ids",
            "ids-not-unique",
            "invalid-fields",
            "invalid-keys-in-value-object",
            "too-deep-nesting-in-value-object",
            "items-too-large",
            "unable-to-coerce-value",
        ]
    );
}

#[test]
fn one_value_can_have_several_errors() {
    let codes = |value: &str| -> Vec<String> {
        let found = refused(&format!(r#"[{{"id":"a",{value}}}]"#));
        found.into_iter().map(|(code, ..)| code).collect()
    };
    let deep = |inner: &str| format!("{}{inner}{}", "[".repeat(100_000), "]".repeat(100_000));
    let (fields, keys, levels, large, kind) = (
        "invalid-fields",
        "invalid-keys-in-value-object",
        "too-deep-nesting-in-value-object",
        "items-too-large",
        "unable-to-coerce-value",
    );
    for (value, expected) in [
        (format!(r#""Tags":{}"#, deep("1")), &[levels, large][..]),
        (format!(r#""Rating":{}"#, deep(r#"{"a.b":1}"#)), &[keys, levels, large, kind]),
        (format!(r#""No.pe":{}"#, nested(51)), &[fields, keys, levels]),
        (format!(r#""City":"\u0000{}""#, "x".repeat(5_000)), &[large, kind]),
        (format!(r#""Rating":{}"#, "9".repeat(5_001)), &[large, kind]),
        (r#""Tags":[{"a.b":"\ud800"}]"#.to_owned(), &[keys, kind]),
        (r#""Address":{"\u0000":1}"#.to_owned(), &[keys, kind]),
        // serde_json's `RawValue` would read such an object as JSON within JSON.
        (
            r#""Address":{"x":{"$serde_json::private::RawValue":"!"},"a.b":1,"$c":2}"#.to_owned(),
            &[keys, kind],
        ),
        (r#""Address":{"$serde_json::private::RawValue":"{}"}"#.to_owned(), &[keys, kind]),
        (r#""City":"x","City":[],"Nope":1"#.to_owned(), &["item-array-invalid", fields, kind]),
    ] {
        let begin: String = value.chars().take(60).collect();
        assert_eq!(codes(&value), expected, "{begin}");
    }
    let found = refused(&format!(r#"[{{"id":"\u0000{}"}}]"#, "x".repeat(250)));
    let found: Vec<_> = found.iter().map(|(code, ..)| code.as_str()).collect();
    assert_eq!(found, ["ids-too-large", "invalid-ids"]);
}

#[test]
fn without_a_catalog_the_rest_is_checked() {
    let errors = |json: &str| {
        let raw: &RawValue = serde_json::from_str(json).unwrap();
        let mut faults = super::items(Some(raw), None).err().unwrap_or_default();
        faults.note_no_catalog("nobody");
        faults.errors()
    };
    let not_found = json!({
        "id": "catalog-not-found", "message": "Could not find catalog",
        "parameters": ["catalog_name"], "parameter_values": ["nobody"]
    });
    assert_eq!(errors(r#"[{"id":"a","Whatever":{"x":1}}]"#), slice::from_ref(&not_found));
    let found = errors(&format!(r#"[{{"a.b":1}},{{"id":"a","b":{}}}]"#, nested(51)));
    assert_eq!(found[0], not_found);
    let codes: Vec<_> = found[1..].iter().map(|error| error["id"].as_str().unwrap()).collect();
    let expected =
        ["items-missing-ids", "invalid-keys-in-value-object", "too-deep-nesting-in-value-object"];
    assert_eq!(codes, expected);
}

#[test]
fn items_have_a_limit_of_fields() {
    let item = |members: usize| {
        let members: Vec<String> = (0..members - 1).map(|n| format!(r#""{n}":1"#)).collect();
        refused(&format!(r#"[{{"id":"a",{}}}]"#, members.join(",")))
    };
    assert_eq!(item(MAX_JSON_FIELDS)[0].0, "invalid-fields");
    let too_many = ("item-array-invalid".to_owned(), "items".to_owned(), vec!["0".to_owned()]);
    assert_eq!(item(MAX_JSON_FIELDS + 1), [too_many]);
}

#[test]
fn a_body_without_items_gets_the_same_error_format() {
    let errors = Faults::no_items("it ends at line 1 column 2".to_owned()).errors();
    let expected = json!({
        "id": "item-array-invalid", "message": "it ends at line 1 column 2",
        "parameters": ["items"], "parameter_values": []
    });
    assert_eq!(errors, [expected]);
}

#[test]
fn messages_name_fields_and_values_and_stay_short() {
    let many: Vec<String> = (0..40).map(|n| format!(r#""{n}{}":1"#, "y".repeat(400))).collect();
    let json = format!(r#"[{{"id":"a",{}}}]"#, many.join(","));
    let text = message(&json, Code::InvalidFields);
    assert!(text.starts_with("Fields do not exist in the catalog: \"0y"), "{text}");
    assert!(text.ends_with(" and more") && text.len() < 4_000, "{text}");
    for (item, code, expected) in [
        (
            r#""Rating":"x""#,
            Code::UnableToCoerce,
            r#""Rating" is a number field; "x" cannot be read as a number"#,
        ),
        (
            r#""Tags":{"a" : 1},"Open":5"#,
            Code::UnableToCoerce,
            "\"Tags\" is an array field; {\"a\":1} cannot be read as an array. \
             \"Open\" is a boolean field; 5 cannot be read as a boolean",
        ),
        (
            r#""Address":[{"a.b":1}],"$c":2"#,
            Code::InvalidKeys,
            r#"Keys must not contain . or $: "a.b" in Address, "$c""#,
        ),
    ] {
        assert_eq!(message(&format!(r#"[{{"id":"a",{item}}}]"#), code), expected);
    }
    let reason = kit::clock::parse_time("2026-02-30").unwrap_err();
    assert_eq!(
        message(r#"[{"id":"a","Created_at":"2026-02-30"}]"#, Code::UnableToCoerce),
        format!(r#""Created_at" is a time field; "2026-02-30" cannot be read as a time: {reason}"#)
    );
    let long = format!(r#"[{{"id":"a","Rating":"{}"}}]"#, "x".repeat(4_000));
    assert!(message(&long, Code::UnableToCoerce).len() < 200);
}

#[test]
fn values_at_the_limits_are_accepted() {
    let text = "é".repeat(5_000);
    let id = "x".repeat(250);
    for value in [
        format!(r#""City":"{text}""#),
        format!(r#""Tags": [ "{}" ] "#, "x".repeat(4_996)),
        format!(r#""Address":{}"#, nested(50)),
        r#""City":null,"Rating":null"#.to_owned(),
    ] {
        assert!(read(&format!(r#"[{{"id":"{id}",{value}}}]"#)).is_ok(), "{value}");
    }
    let fifty: Vec<String> = (0..50).map(|n| format!(r#"{{"id":"i-{n}_"}}"#)).collect();
    assert!(read(&format!("[{}]", fifty.join(","))).is_ok());
}

#[test]
fn values_are_coerced_and_nulls_kept() {
    let read = read(
        r#"[{"id":"a","City":7,"Rating":"4.50","Open":"true","Created_at":"2021-06-28",
             "Address":{ "street" : null },"Tags":null}]"#,
    );
    assert_eq!(
        read.unwrap(),
        "[{\"id\":\"a\",\"values\":{\"City\":\"7\",\"Rating\":4.50,\"Open\":true,\
         \"Created_at\":\"2021-06-28T00:00:00.000Z\",\"Address\":{\"street\":null},\"Tags\":null}}]"
    );
}

#[test]
fn invalid_lines_are_reported() {
    let fields = fields();
    assert_eq!(line(r#" {"id":"a","City":"x"} "#, &fields).unwrap().id, "a");
    for (json, part) in [
        ("{", "is not valid JSON"),
        ("7", "a non-empty array of objects"),
        (r#"{"City":"x"}"#, "Every item must have an id"),
        (r#"{"id":"a b","Nope":1}"#, "only letters"),
        (r#"{"id":"a b","Nope":1}"#, "\"Nope\""),
    ] {
        let error = line(json, &fields).unwrap_err();
        assert!(error.contains(part), "{json}: {error}");
    }
}

proptest! {
    #[test]
    fn never_panics(text in "(\\PC|[\\[\\]{},:\"0-9$.])*") {
        let _ = line(&text, &fields());
        if let Ok(raw) = serde_json::from_str::<&RawValue>(&text) {
            let _ = super::items(Some(raw), Some(&fields()));
            let _ = super::items(Some(raw), None);
        }
    }
}
