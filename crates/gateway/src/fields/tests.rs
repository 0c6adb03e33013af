use serde_json::json;

use super::*;
use crate::formats::{Identifier, List, Time, UserAlias};

#[derive(Debug, Deserialize)]
struct Request {
    name: Identifier,
    flag: Option<bool>,
    times: Option<List<Time, 1, 2>>,
    aliases: Option<Vec<UserAlias>>,
    any: Option<Value>,
}

fn refusal(fields: &Value) -> (Code, String) {
    match read::<Request>(fields.as_object().unwrap()) {
        Err(ApiError::Field(code, text)) => (code, text),
        other => panic!("{fields}: {other:?}"),
    }
}

#[test]
fn whole_numbers_are_read_in_any_notation() {
    #[derive(Debug, Deserialize)]
    struct Page {
        limit: u64,
        other: Value,
    }
    for (number, expected) in [
        ("7", Some(7)),
        ("7.0", Some(7)),
        ("70e-1", Some(7)),
        ("7.5", None),
        ("-7.0", None),
        ("\"7\"", None),
    ] {
        let text = format!("{{\"limit\":{number},\"other\":7.0}}");
        let page = read::<Page>(&super::super::value::object(&text).unwrap()).ok();
        assert_eq!(page.as_ref().map(|page| page.limit), expected, "{number}");
        assert!(page.is_none_or(|page| page.other.is_f64()));
    }
}

#[test]
fn selectors_are_in_the_order_of_the_alphabet() {
    assert!(SELECTORS.is_sorted());
}

#[test]
fn reads_fields_and_ignores_others() {
    let any = json!({ "a": [1, -1, 1.5, "x", true, null, {}] });
    let fields = json!({
        "name": "n", "flag": null, "times": ["2021-06-28"], "any": any, "other": 1,
    });
    let request: Request = read(fields.as_object().unwrap()).unwrap();
    assert_eq!((request.name.0.as_str(), request.flag), ("n", None));
    assert_eq!(request.times.unwrap().0, [Time(1_624_838_400_000)]);
    assert!(request.aliases.is_none() && request.any == Some(any));
}

#[test]
fn null_of_a_required_field_is_a_missing_field_whatever_its_type() {
    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only its errors matter")]
    struct Required {
        map: Map<String, Value>,
        any: Value,
        maps: Vec<Map<String, Value>>,
        inner: Option<Inner>,
    }
    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only its errors matter")]
    struct Inner {
        any: Value,
    }
    let valid = json!({ "map": { "a": null }, "any": 1, "maps": [], "inner": { "any": 1 } });
    let required: Required = read(valid.as_object().unwrap()).unwrap();
    assert_eq!(required.map["a"], Value::Null, "a map keeps its own");
    for (path, value, text) in [
        ("/map", json!(null), "map is required"),
        ("/any", json!(null), "any is required"),
        ("/maps", json!([null]), "maps[0] is required"),
        ("/inner/any", json!(null), "inner.any is required"),
    ] {
        let mut fields = valid.clone();
        *fields.pointer_mut(path).unwrap() = value;
        match read::<Required>(fields.as_object().unwrap()) {
            Err(ApiError::Field(Code::MissingField, message)) => assert_eq!(message, text),
            other => panic!("{fields}: {other:?}"),
        }
    }
}

#[test]
fn rejects_what_would_limit_the_request_unless_the_type_reads_it() {
    #[derive(Debug, Deserialize)]
    struct Users {
        external_ids: Option<Vec<String>>,
        groups: Option<Vec<Group>>,
        data: Option<Map<String, Value>>,
    }
    #[derive(Debug, Deserialize)]
    struct Group {
        email: Option<String>,
    }
    #[derive(Debug, Deserialize)]
    struct Limit {
        segment_id: String,
    }
    let refusal = |fields: Value| match read::<Users>(fields.as_object().unwrap()) {
        Err(ApiError::Field(Code::InvalidField, text)) => Some(text),
        Ok(_) => None,
        other => panic!("{fields}: {other:?}"),
    };
    for (fields, name) in [
        (json!({ "phone": "+15550100" }), "phone"),
        (json!({ "external_ids": ["a"], "dry_run": true }), "dry_run"),
        (json!({ "external_ids": ["a"], "dry_run": "true" }), "dry_run"),
        (json!({ "external_ids": ["a"], "segment_id": "s" }), "segment_id"),
        (
            json!({ "groups": [{ "email": "a@b.example", "external_id": "a" }] }),
            "groups[0].external_id",
        ),
    ] {
        assert_eq!(refusal(fields).unwrap(), format!("{name} {NO_SELECTOR}"));
    }
    for fields in [
        json!({ "external_ids": ["a"], "since": null, "recipients": [], "other": 1 }),
        json!({ "external_ids": ["a"], "dry_run": false }),
        json!({ "data": { "phone": "+15550100", "dry_run": true } }),
    ] {
        assert_eq!(refusal(fields), None);
    }
    let both = json!({ "external_ids": ["a"], "segment_id": "s" });
    let (users, limit) = read_both::<Users, Limit>(both.as_object().unwrap()).unwrap();
    assert!(users.external_ids.is_some() && limit.segment_id == "s");
    assert!(users.groups.is_none() && users.data.is_none());
    let report = json!({ "groups": [{ "email": "a@b.example", "phone": "1" }], "since": 1 });
    let report: Users = read_report(report.as_object().unwrap()).unwrap();
    assert!(report.groups.unwrap()[0].email.is_some());
}

#[test]
fn the_same_values_are_set_for_every_reader() {
    #[derive(Debug, Deserialize)]
    struct Tree {}
    #[derive(Debug, Deserialize)]
    struct Text {
        #[serde(default, rename = "since")]
        _since: UnsetSelector,
    }
    for (value, is_set) in [
        ("null", false),
        ("false", false),
        ("[ ]", false),
        ("true", true),
        ("0", true),
        ("\"\"", true),
        ("\"false\"", true),
        ("[null]", true),
        ("{}", true),
    ] {
        let text = format!("{{\"since\": {value}}}");
        let object = super::super::value::object(&text).unwrap();
        assert_eq!(read::<Tree>(&object).is_err(), is_set, "{value}");
        assert_eq!(serde_json::from_str::<Text>(&text).is_err(), is_set, "{value}");
        let fields = json::fields(&text, 1).unwrap();
        let found = unsupported_selector(&fields, &[]);
        assert_eq!(found, is_set.then_some("since"), "{value}");
        assert_eq!(unsupported_selector(&fields, &["since"]), None);
    }
}

#[test]
fn data_for_templates_keeps_its_text() {
    #[derive(Deserialize)]
    struct Properties {
        trigger_properties: Option<kit::json::TreeObject>,
    }
    let read = |text: &str| {
        let read = read::<Properties>(&super::super::value::object(text).unwrap());
        read.map(|read| read.trigger_properties.map(|object| object.to_json()))
            .map_err(|error| error.message().into_owned())
    };
    for text in [r#"{"z":1.10,"a":[{"y":1,"b":12345678901234567890123}]}"#, "{}"] {
        let body = format!("{{\"trigger_properties\": {text}}}");
        assert_eq!(read(&body), Ok(Some(text.to_owned())));
    }
    assert_eq!(read(r#"{"trigger_properties":null}"#), Ok(None));
    for other in ["5", "[]", "\"{}\""] {
        let error = read(&format!("{{\"trigger_properties\":{other}}}"));
        assert_eq!(error, Err("trigger_properties must be an object".to_owned()), "{other}");
    }
}

#[test]
fn names_the_field_that_is_wrong() {
    for (change, code, text) in [
        (json!({ "name": null }), Code::MissingField, "name is required"),
        (json!({ "name": 5 }), Code::InvalidField, "name must be a string"),
        (json!({ "name": "" }), Code::InvalidField, "name is empty"),
        (json!({ "name": "a\n" }), Code::InvalidField, "name contains a control character"),
        (json!({ "flag": 1 }), Code::InvalidField, "flag must be true or false"),
        (json!({ "times": {} }), Code::InvalidField, "times must be an array"),
        (json!({ "times": [] }), Code::InvalidField, "times must have 1 to 2 elements"),
        (json!({ "times": [5] }), Code::InvalidField, "times[0] must be a string"),
        (json!({ "times": ["soon"] }), Code::InvalidField, "times[0]: expected a date"),
        (
            json!({ "aliases": [{ "alias_name": "a" }] }),
            Code::MissingField,
            "aliases[0].alias_label is required",
        ),
        (
            json!({ "aliases": [{ "alias_name": "a", "alias_label": 1 }] }),
            Code::InvalidField,
            "aliases[0].alias_label must be a string",
        ),
        (json!({ "aliases": [["a", "b"]] }), Code::InvalidField, "aliases[0] must be an object"),
    ] {
        let mut fields = json!({ "name": "n" });
        for (name, value) in change.as_object().unwrap() {
            fields[name] = value.clone();
        }
        let (given, said) = refusal(&fields);
        assert!(given == code && said.starts_with(text), "{fields}: {given:?} {said}");
    }
    assert_eq!(refusal(&json!({})), (Code::MissingField, "name is required".to_owned()));
}

/// Fields of a request that sends.
#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "only whether it is read matters")]
struct Send {
    campaign_id: Option<String>,
    broadcast: Option<bool>,
    audience: Option<Value>,
    recipients: Option<Vec<Value>>,
    segment_id: Option<String>,
    email: Option<String>,
}

fn read_send(fields: &Value) -> Result<Vec<String>, (Code, String)> {
    match read_request::<Send>(fields.as_object().unwrap()) {
        Ok((_, warnings)) => Ok(warnings.iter().map(Warning::to_line).collect()),
        Err(ApiError::Field(code, text)) => Err((code, text)),
        Err(error) => panic!("{fields}: {error:?}"),
    }
}

#[test]
fn fields_that_resemble_a_selecting_one_are_rejected() {
    const NAMES: &str = "audiance Audience audi_ence recipents recipient_ids segmentId segmnt_id \
        brodcast emial mail segment users user_ids userIds to list_id listId usres \
        external_user_idz dryrun dry-run";
    for name in NAMES.split(' ') {
        let (code, text) = read_send(&json!({ "campaign_id": "c", name: "x" })).expect_err(name);
        assert_eq!(code, Code::UnknownField, "{name}");
        assert!(text.starts_with(&format!("{name}: unknown field; ")), "{text}");
        // A field without a value selects nobody.
        assert!(read_send(&json!({ name: null })).is_ok(), "{name}");
    }
    let (_, text) = read_send(&json!({ "audiance": {} })).unwrap_err();
    assert_eq!(text, "audiance: unknown field; did you mean audience?");
    let (_, text) = read_send(&json!({ "segmentId": "x" })).unwrap_err();
    assert_eq!(text, "segmentId: unknown field; did you mean segment_id?");
    // These have an error of their own.
    let (code, text) = read_send(&json!({ "external_user_ids": ["x"] })).unwrap_err();
    assert_eq!(
        (code, text.as_str()),
        (Code::InvalidField, "external_user_ids is not supported by this request")
    );
}

#[test]
fn unknown_fields_are_rejected_if_many_users_are_selected() {
    let by_audience = json!({ "audience": { "OR": [] } });
    for many in [json!({ "broadcast": true }), json!({ "segment_id": "s" }), by_audience] {
        let with = |name: &str, value: Value| {
            let mut fields = many.clone();
            fields[name] = value;
            read_send(&fields)
        };
        let (code, text) = with("comment", json!("x")).unwrap_err();
        assert_eq!(code, Code::UnknownField);
        assert!(text.starts_with("comment: unknown field; this request reads campaign_id, "));
        // The sender may have meant to reach nobody.
        for value in [json!([]), json!(null), json!(false)] {
            assert_eq!(with("audiance", value.clone()).unwrap_err().0, Code::UnknownField);
            assert_eq!(with("external_user_ids", value).unwrap_err().0, Code::InvalidField);
        }
        for name in FIELDS_OF_FAMILY {
            let warning = format!("{name}: unknown field, ignored");
            assert_eq!(with(name, json!("x")), Ok(vec![warning]));
            assert_eq!(with(name, json!(null)), Ok(vec![]));
        }
        assert_eq!(with("dry_run", json!(false)), Ok(vec![]));
        let listed = with("recipients", json!([{ "external_user_id": "a" }]));
        assert_eq!(listed, Ok(vec![]));
    }
}

#[test]
fn limits_of_a_request_to_everybody_are_not_null() {
    for (broadcast, is_accepted) in [(json!(true), false), (json!(false), true)] {
        for name in ["audience", "segment_id"] {
            let fields = json!({ "broadcast": broadcast, name: null });
            let read = read_send(&fields).map_err(|(code, _)| code);
            assert_eq!(read, if is_accepted { Ok(vec![]) } else { Err(Code::InvalidField) });
        }
        // They exclude each other, so no list was lost.
        let fields = json!({ "broadcast": broadcast, "recipients": null });
        assert_eq!(read_send(&fields), Ok(vec![]));
    }
}

#[test]
fn other_unknown_fields_are_named_in_warnings() {
    const NAMES: &str = "comment comments attachments override_frequency_capping api_key content \
        context details payment element price tags external_send_id zones contract phase notes title";
    for name in NAMES.split(' ') {
        assert_eq!(
            read_send(&json!({ "broadcast": false, name: "x" })),
            Ok(vec![format!("{name}: unknown field, ignored")])
        );
    }
    assert_eq!(read_send(&json!({ "campaign_id": "c", "segment_id": null })), Ok(vec![]));
}
