mod email_templates;
mod properties;
mod rendering;

use serde_json::json;
use uuid::Uuid;

use super::*;
use gateway::workspaces::settings::{Email, Secret, Settings, SignedAddress, SubscriptionGroup};

const GROUP: Uuid = Uuid::from_u128(0x5a5a);

fn settings() -> Settings {
    let provider = || SignedAddress::new("https://provider.example", Secret(vec![1; 24]));
    let group = |channel| SubscriptionGroup { id: GROUP, channel, from: "+15550100".into() };
    Settings {
        email: Some(Email {
            smtp: "smtp://relay.example".into(),
            from: None,
            status_postback: None,
            events_secret: None,
            bounce_days: 90,
        }),
        push: Some(provider()),
        sms: Some(provider()),
        whats_app: Some(provider()),
        subscription_groups: vec![group(Channel::Sms)],
        allow_private: vec!["10.1.0.0/16".parse().unwrap()],
        ..Settings::default()
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        other => panic!("{other} is no object"),
    }
}

fn read(messages: Value) -> (Content, Map<String, Value>, Vec<Problem>) {
    Content::read(&object(messages), MessageSource::Send, &settings())
}

/// One message object of each channel, with all required fields.
fn complete() -> Value {
    json!({
        "apple_push": { "alert": { "title": "Hi", "body": "{{${first_name}}}" }, "badge": 1 },
        "android_push": { "alert": "a", "title": "t" },
        "kindle_push": { "alert": "a", "title": "t" },
        "web_push": { "alert": "a", "title": "t" },
        "email": { "app_id": "app", "from": "A <a@acme.example>", "body": "<p>{{${first_name}}}</p>" },
        "webhook": { "url": "https://example.com/{{${user_id}}}", "request_method": "POST" },
        "content_card": {
            "type": "CLASSIC", "title": "t", "description": "d", "time_to_live": 60,
        },
        "sms": { "app_id": "app", "subscription_group_id": GROUP, "body": "b" },
    })
}

/// A message object of a channel, with some fields changed.
fn message_with(channel: &str, change: Value) -> Value {
    let mut message = object(complete()[channel].clone());
    message.extend(object(change));
    json!({ channel: message })
}

/// The errors of a message object with one change.
fn problems(channel: &str, change: Value) -> Vec<String> {
    let (content, accepted, problems) = read(message_with(channel, change));
    assert_eq!(content.messages().len(), accepted.len());
    assert_eq!(problems.is_empty(), accepted.len() == 1);
    problems
        .iter()
        .map(|problem| format!("{problem}{}", if problem.is_fatal { "!" } else { "" }))
        .collect()
}

fn check(channel: &str, cases: &[(Value, &str)]) {
    for (change, expected) in cases {
        let expected = format!("messages.{channel}{expected}");
        assert_eq!(problems(channel, change.clone()), [expected], "{change}");
    }
}

#[test]
fn complete_messages_are_accepted_for_every_channel() {
    let (content, accepted, problems) = read(complete());
    assert_eq!(problems, []);
    assert_eq!(Value::Object(accepted.clone()), complete());
    let channels: Vec<&str> =
        content.messages().iter().map(|message| message.channel.name()).collect();
    assert!(channels.iter().eq(accepted.keys()), "{channels:?}");
}

#[test]
fn seconds_are_whole_numbers_in_any_notation() {
    let (content, accepted, problems) =
        read(message_with("content_card", json!({ "time_to_live": 60.0 })));
    assert_eq!((content.messages().len(), problems), (1, Vec::new()));
    assert_eq!(Value::Object(accepted), message_with("content_card", json!({})));
}

#[test]
fn a_member_that_is_required_and_missing_is_named() {
    let required = [
        ("apple_push", &["alert"][..]),
        ("android_push", &["alert", "title"]),
        ("kindle_push", &["alert", "title"]),
        ("web_push", &["alert", "title"]),
        ("email", &["app_id", "from", "body"]),
        ("webhook", &["url", "request_method"]),
        ("content_card", &["type", "title", "description"]),
        ("sms", &["subscription_group_id", "body", "app_id"]),
    ];
    for (channel, names) in required {
        for name in names {
            check(
                channel,
                &[(json!({ *name: null }), &format!(".{name}: required field is missing"))],
            );
            let (_, accepted, problems) = read(message_with(channel, json!({ *name: 5 })));
            assert!(accepted.is_empty(), "{channel}.{name}");
            assert_eq!(problems[0].path, format!("messages.{channel}.{name}"));
            assert!(!problems[0].is_fatal);
        }
    }
}

#[test]
fn members_have_their_types() {
    check(
        "email",
        &[
            (json!({ "subject": 5 }), ".subject: expected a string"),
            (json!({ "body": "" }), ".body must not be empty"),
            (json!({ "headers": [] }), ".headers: expected an object of at most 50 strings"),
            (json!({ "headers": { "X A": "b" } }), ".headers.X A: invalid header name"),
            (
                json!({ "headers": { "Bcc": "b" } }),
                ".headers.Bcc: this header is reserved for the service",
            ),
            (json!({ "headers": { "X-A": 5 } }), ".headers.X-A: expected a string"),
            (json!({ "headers": { "X-A": "a\nBcc: b" } }), ".headers.X-A must be one line"),
            (json!({ "from": "a@b.example\nBcc: c" }), ".from must be one line"),
            (json!({ "extras": "x" }), ".extras: expected an object"),
            (json!({ "app_id": "" }), ".app_id: expected a string of 1 to 255 characters"),
            (
                json!({ "message_variation_id": "x".repeat(256) }),
                ".message_variation_id: expected a string of 1 to 255 characters",
            ),
        ],
    );
    check("apple_push", &[(json!({ "alert": [] }), ".alert: expected a string or an object")]);
    check(
        "webhook",
        &[
            (
                json!({ "request_method": "PATCH" }),
                ".request_method: expected one of GET, POST, PUT, DELETE",
            ),
            (
                json!({ "request_headers": "x" }),
                ".request_headers: expected an object of at most 50 strings",
            ),
            (
                json!({ "request_headers": { "Host": "b" } }),
                ".request_headers.Host: this header is reserved for the service",
            ),
        ],
    );
    check(
        "content_card",
        &[
            (
                json!({ "type": "classic" }),
                ".type: expected one of CLASSIC, CAPTIONED_IMAGE, BANNER",
            ),
            (
                json!({ "time_to_live": 0 }),
                ".time_to_live: expected a whole number of seconds from 1 to 3153600000",
            ),
            (
                json!({ "time_to_live": 1.5 }),
                ".time_to_live: expected a whole number of seconds from 1 to 3153600000",
            ),
            (
                json!({ "time_to_live": null }),
                ": exactly one of time_to_live and expire_at is required",
            ),
            (
                json!({ "expire_at": "2126-01-01" }),
                ": exactly one of time_to_live and expire_at is required",
            ),
            (
                json!({ "time_to_live": null, "expire_at": "soon" }),
                ".expire_at: expected a date and time in ISO 8601",
            ),
        ],
    );
    assert!(
        problems(
            "content_card",
            json!({ "time_to_live": null, "expire_at": "2126-01-01T00:00:00Z" })
        )
        .is_empty()
    );
    assert!(
        problems(
            "content_card",
            json!({ "time_to_live": null, "expire_at": "{{ 'now' | date: '%F' }}" })
        )
        .is_empty()
    );
    check(
        "sms",
        &[
            (json!({ "subscription_group_id": "x" }), ".subscription_group_id: expected a UUID"),
            (
                json!({ "subscription_group_id": Uuid::nil() }),
                ".subscription_group_id: does not match a sms subscription group in this workspace",
            ),
        ],
    );
    let (_, _, problems) = read(json!({ "email": "x", "sms": null }));
    assert_eq!(problems[0].to_string(), "messages.email: expected an object");
    assert_eq!(problems.len(), 1);
}

#[test]
fn invalid_channels_do_not_affect_the_others() {
    let mut messages = object(complete());
    messages.insert("fax".into(), json!({}));
    messages.insert("live_activity".into(), json!({ "a": 1 }));
    messages["email"]["from"] = Value::Null;
    let no_push = Settings { push: None, ..settings() };
    let (content, accepted, problems) = Content::read(&messages, MessageSource::Send, &no_push);
    let paths: Vec<&str> = problems.iter().map(|problem| &*problem.path).collect();
    let expected = [
        "android_push",
        "apple_push",
        "email.from",
        "fax",
        "kindle_push",
        "live_activity",
        "web_push",
    ];
    assert_eq!(paths, expected.map(|name| format!("messages.{name}")));
    assert!(problems.iter().all(|problem| !problem.is_fatal));
    assert_eq!(problems[0].text, "the workspace declares no providers.push");
    assert!(problems[3].text.starts_with("unknown channel; expected one of apple_push, "));
    assert_eq!(accepted.keys().collect::<Vec<_>>(), ["content_card", "sms", "webhook"]);
    assert_eq!(content.messages().len(), 3);
}

#[test]
fn whats_app_is_sent_and_not_scheduled() {
    let message = json!({ "whats_app": {
        "app_id": "app", "subscription_group_id": GROUP, "message_type": "template_message",
        "message": { "body": ["{{${first_name}}}"] },
    } });
    let settings = Settings {
        subscription_groups: vec![SubscriptionGroup {
            id: GROUP,
            channel: Channel::WhatsApp,
            from: "+1".into(),
        }],
        ..settings()
    };
    for (source, is_accepted) in
        [(MessageSource::Send, true), (MessageSource::Schedule, false), (MessageSource::File, true)]
    {
        let (content, accepted, problems) =
            Content::read(&object(message.clone()), source, &settings);
        assert_eq!((accepted.len(), problems.len()), if is_accepted { (1, 0) } else { (0, 1) });
        assert_eq!(content.messages().len(), accepted.len());
    }
}

#[test]
fn a_template_that_does_not_parse_condemns_all() {
    let (content, accepted, problems) = read(json!({
        "email": {
            "app_id": "a", "from": "{{", "body": "a\n {{ x | nope }}", "deep": [{ "a": "{% if %}" }],
        },
        "android_push": { "alert": "a", "title": "t" },
    }));
    let mut texts: Vec<String> = problems.iter().map(Problem::to_string).collect();
    texts.sort();
    assert_eq!(
        texts,
        [
            "messages.email.body: line 2, column 9: unknown filter `nope`",
            "messages.email.deep[0].a: line 1, column 7: a value is missing",
            "messages.email.from: line 1, column 1: `{{` is not closed",
        ]
    );
    assert!(problems.iter().all(|problem| problem.is_fatal));
    assert_eq!((content.messages().len(), accepted.len()), (1, 1));
}

#[test]
fn a_mistake_in_a_template_condemns_all_where_it_is_new() {
    let messages =
        object(message_with("android_push", json!({ "alert": "{{${frist_name}}}{{ 1 }}" })));
    for (source, is_accepted) in [
        (MessageSource::Send, false),
        (MessageSource::Schedule, false),
        (MessageSource::File, false),
        (MessageSource::Stored, true),
    ] {
        let (content, accepted, problems) = Content::read(&messages, source, &settings());
        assert_eq!(
            (content.messages().len(), accepted.len()),
            (is_accepted.into(), is_accepted.into())
        );
        assert!(problems.iter().all(|problem| problem.is_fatal), "{source:?}");
        let text = problems.first().map(|problem| problem.text.as_str());
        assert!(text.is_none_or(|text| text.contains("`${first_name}`")), "{source:?}");
        let profile = Map::new();
        for message in content.messages() {
            let rendered = message.render(&Scope::from_profile(&profile, 0)).unwrap();
            assert_eq!(rendered.object["alert"], "1");
        }
    }
}

#[test]
fn extras_of_all_texts_go_with_the_message() {
    let (content, ..) = read(message_with(
        "android_push",
        json!({
            "alert": "a{% message_extras :key a :value 1 %}",
            "title": "{% message_extras :key b :value {{${first_name}}} %}b",
        }),
    ));
    let profile = object(json!({ "first_name": "Ann" }));
    let rendered = content.messages()[0].render(&Scope::from_profile(&profile, 0)).unwrap();
    assert_eq!((&rendered.object["alert"], &rendered.object["title"]), (&json!("a"), &json!("b")));
    assert_eq!(json!(rendered.extras), json!({ "a": "1", "b": "Ann" }));
}

#[test]
fn a_private_address_condemns_all_where_it_is_literal() {
    for (url, wrong) in [
        ("http://127.0.0.1/", "must not point to a loopback address"),
        ("http://[::ffff:10.0.0.1]/", "must not point to a private address"),
        (" http://localhost/ ", "must not point to a loopback address"),
        ("{% raw %}http://10.0.0.1/{% endraw %}", "must not point to a private address"),
        ("ftp://example.com", "must begin with http:// or https://"),
        ("example", "must begin with http:// or https://"),
    ] {
        check("webhook", &[(json!({ "url": url }), &format!(".url {wrong}!"))]);
    }
    let templates = ["http://{{${city}}}/", "{{${city}}}"];
    for url in ["https://example.com", "http://10.1.0.1/x"].into_iter().chain(templates) {
        assert!(problems("webhook", json!({ "url": url })).is_empty(), "{url}");
    }
}

#[test]
fn sizes_are_bounded() {
    let many = vec![json!(1); MAX_VALUES];
    check(
        "android_push",
        &[(json!({ "extra": many }), ".extra[998]: a message can have at most 1000 values")],
    );
    let long = "x".repeat(MAX_BYTES);
    check(
        "android_push",
        &[(json!({ "zz": long }), ".zz: a message can have at most 1048576 bytes of text")],
    );
    check(
        "android_push",
        &[(
            json!({ "alert": format!("{{{{ x }}}}{}", "x".repeat(template::MAX_SOURCE)) }),
            ".alert: line 1, column 1: a template can have at most 262144 bytes!",
        )],
    );
    let mut deep = json!("x");
    for _ in 0..MAX_DEPTH {
        deep = json!([deep]);
    }
    let (_, accepted, problems) = read(message_with("android_push", json!({ "extra": deep })));
    assert!(accepted.is_empty() && problems[0].text == "a message can nest at most 32 levels");
}

#[test]
fn only_live_activity_alerts_have_templates() {
    let activity = |alert: Value| {
        let activity = json!({
            "activity_id": "{{ 1 }}", "nothing": null,
            "aps": { "content-state": { "a": "{{ 2 }}", "b": null }, "alert": alert },
        });
        Content::live_activity(&object(activity), MessageSource::Send)
    };
    let content = activity(json!({ "title": "{{ 3 }}", "body": "b" })).unwrap();
    let [message] = content.messages() else { panic!("one message") };
    assert_eq!((message.channel, &message.variation_id), (Channel::LiveActivity, &None));
    let nobody = Map::new();
    let scope = Scope::from_profile(&nobody, 0);
    assert_eq!(
        Value::Object(message.render(&scope).unwrap().object),
        json!({
            "activity_id": "{{ 1 }}",
            "aps": {
                "content-state": { "a": "{{ 2 }}", "b": null },
                "alert": { "title": "3", "body": "b" },
            },
        })
    );
    let problem = activity(json!({ "title": "{{" })).unwrap_err();
    assert_eq!(
        problem.to_string(),
        "notification.alert.title: line 1, column 1: `{{` is not closed"
    );
}

#[test]
fn the_documentation_states_the_message_limits() {
    let page =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/templates.md"));
    let [values, depth, bytes] = [MAX_VALUES, MAX_DEPTH, MAX_BYTES]
        .map(|bound| kit::words::count(bound as u64, "").trim_end_matches([' ', 's']).to_owned());
    let row = format!("a message object | {values} values, {depth} levels, {bytes} bytes of text");
    assert!(page.contains(&row), "{row}");
}

#[test]
fn the_schema_describes_every_field() {
    use schemars::JsonSchema as _;

    let schema = Messages::json_schema(&mut schemars::SchemaGenerator::default());
    let schema = schema.as_value();
    for channel in Channel::OF_MESSAGES {
        assert!(schema["properties"][channel.name()]["description"].is_string());
        // One of these must be valid.
        let mut any = schema["anyOf"].as_array().unwrap().iter();
        let schema = any.find(|schema| schema["required"] == json!([channel.name()]));
        let message = &schema.unwrap()["properties"][channel.name()];
        for field in table::known_fields(channel) {
            assert_eq!(message["properties"][field.name]["description"], field.about);
            // An email with an email template can lack some of them.
            let required = match channel {
                Channel::Email => &message["anyOf"][0]["required"],
                _ => &message["required"],
            };
            let required = required.as_array().unwrap();
            assert_eq!(required.contains(&field.name.into()), field.is_required, "{}", field.name);
        }
    }
}
