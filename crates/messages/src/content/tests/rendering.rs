use super::*;

fn render(messages: Value, profile: Value) -> Result<Map<String, Value>, Stop> {
    let (content, _, problems) = read(messages);
    assert_eq!(problems, []);
    let [message] = content.messages() else { panic!("one message") };
    let profile = object(profile);
    let scope = Scope::from_profile(&profile, 0);
    message.render(&scope).map(|rendered| rendered.object)
}

#[test]
fn all_texts_are_rendered_but_identifiers() {
    let profile = json!({ "first_name": "Ann", "custom_attributes": { "n": 2 } });
    let name = "{{${first_name}}}";
    let rendered = render(
        json!({ "email": {
            "app_id": name, "message_variation_id": name, "from": format!("{name} <a@b.example>"),
            "subject": name, "body": format!("{name}!"), "preheader": null,
            "headers": { "X-A": name, "X-B": null },
            "extras": { "a": [name, 1, null, { name: name }] },
            "unknown": { "deep": [[name]], "kept": null }, "count": 5,
        } }),
        profile,
    );
    assert_eq!(
        Value::Object(rendered.unwrap()),
        json!({
            "app_id": name, "message_variation_id": name, "from": "Ann <a@b.example>",
            "subject": "Ann", "body": "Ann!",
            "headers": { "X-A": "Ann" },
            "extras": { "a": ["Ann", 1, null, { name: "Ann" }] },
            "unknown": { "deep": [["Ann"]], "kept": null }, "count": 5,
        })
    );
    let (content, _, _) = read(message_with("email", json!({ "message_variation_id": "v1" })));
    assert_eq!(content.messages()[0].variation_id.as_deref(), Some("v1"));
}

#[test]
fn no_profile_adds_a_line_to_a_header_or_an_address() {
    let email = |member: &str| message_with("email", json!({ member: "{{${first_name}}}" }));
    for evil in ["a@b.example\r\nBcc: all@c.example", "a\nb", "a\0b", "a\u{85}b"] {
        for member in ["from", "reply_to", "bcc"] {
            let stop = render(email(member), json!({ "first_name": evil }));
            assert_eq!(stop, Err(Stop::Failed(format!("{member} must be one line"))));
        }
        let headers = json!({ "headers": { "X-A": "b {{${first_name}}}" } });
        let stop = render(message_with("email", headers), json!({ "first_name": evil }));
        assert_eq!(stop, Err(Stop::Failed("headers: X-A must be one line".into())));
        let url = json!({ "url": "https://example.com/{{${first_name}}}" });
        let stop = render(message_with("webhook", url), json!({ "first_name": evil }));
        assert_eq!(stop, Err(Stop::Failed("url must be one line".into())));
    }
    let subject = render(email("subject"), json!({ "first_name": " Ann\r\n Lee\n" })).unwrap();
    assert_eq!(subject["subject"], "Ann Lee");
    let around = render(
        message_with("email", json!({ "from": "\n{{${first_name}}}\n" })),
        json!({ "first_name": "a@b.example" }),
    );
    assert_eq!(around.unwrap()["from"], "a@b.example");
}

#[test]
fn an_abort_and_a_bound_end_the_whole_message() {
    let abort = message_with("email", json!({ "subject": "{% abort_message('no name') %}" }));
    assert_eq!(render(abort, json!({})), Err(Stop::Aborted("no name".into())));
    let long = "{% for i in (1..200000) %}{% endfor %}";
    let twice = message_with("email", json!({ "subject": long, "body": long, "preheader": long }));
    let stop = render(twice, json!({})).unwrap_err();
    assert!(
        matches!(stop, Stop::Failed(text) if text.ends_with("the template takes more than 500000 steps"))
    );
}
