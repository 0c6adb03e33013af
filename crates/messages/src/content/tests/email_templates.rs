//! Email objects with an email template. A known one was replaced by its fields.

use super::*;

const PATH: &str = "messages.email.email_template_id";

#[test]
fn an_email_with_an_unknown_template_fails_the_request() {
    for id in [json!(Uuid::max()), json!("welcome"), json!(""), json!(5)] {
        for change in [json!({}), json!({ "body": null })] {
            let mut email = message_with("email", change);
            email["email"]["email_template_id"] = id.clone();
            email["sms"] = complete()["sms"].clone();
            for source in [MessageSource::Send, MessageSource::Schedule, MessageSource::File] {
                let (_, accepted, problems) =
                    Content::read(&object(email.clone()), source, &settings());
                assert!(!accepted.contains_key("email"), "{id}");
                assert_eq!(problems.len(), 1, "{problems:?}");
                assert!(problems[0].path == PATH && problems[0].is_fatal, "{problems:?}");
            }
        }
    }
    let (_, accepted, problems) = read(message_with("email", json!({ "email_template_id": null })));
    assert!(accepted.contains_key("email") && problems.is_empty(), "{problems:?}");
}

#[test]
fn an_id_that_an_earlier_version_accepted_is_ignored() {
    let email = object(message_with("email", json!({ "email_template_id": Uuid::max() })));
    let (content, accepted, problems) = Content::read(&email, MessageSource::Stored, &settings());
    assert_eq!((content.messages().len(), accepted, problems), (1, email, Vec::new()));
}

#[test]
fn a_template_has_the_fields_of_an_email_object() {
    // It is that of the types that read the file.
    let schema =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/workspace.schema.json"));
    let schema: Value = serde_json::from_str(schema).unwrap();
    let declared = schema["$defs"]["EmailTemplate"]["properties"].as_object().unwrap();
    let only_in_messages = ["app_id", "message_variation_id"];
    for field in table::known_fields(Channel::Email) {
        let is_declared = declared.contains_key(field.name);
        assert_eq!(is_declared, !only_in_messages.contains(&field.name), "{}", field.name);
    }
}

#[test]
fn a_template_has_the_limits_of_an_email_object() {
    let paths = |fields: Value| {
        let wrong = check_email_template(&object(fields), "t", &settings()).into_iter();
        wrong.map(|problem| problem.path).collect::<Vec<_>>()
    };
    let valid = json!({
        "body": "{{${first_name}}}", "subject": "", "from": "a@acme.example",
        "headers": { "X-Order": "17" }, "extras": { "a": [1] },
    });
    assert_eq!(paths(valid), Vec::<String>::new());
    for (fields, path) in [
        (json!({}), "t.body"),
        (json!({ "body": null }), "t.body"),
        (json!({ "body": "" }), "t.body"),
        (json!({ "body": 5 }), "t.body"),
        (json!({ "body": "{% if %}" }), "t.body"),
        (json!({ "body": "{{${frist_name}}}" }), "t.body"),
        (json!({ "body": "b", "subject": ["a"] }), "t.subject"),
        (json!({ "body": "b", "preheader": "{{" }), "t.preheader"),
        (json!({ "body": "b", "from": "nobody" }), "t.from"),
        (json!({ "body": "b", "headers": { "From": "x" } }), "t.headers.From"),
    ] {
        assert_eq!(paths(fields.clone()), [path], "{fields}");
    }
}
