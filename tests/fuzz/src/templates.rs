//! Templates, and the message objects that contain them.

use std::sync::LazyLock;

use kit::json::TreeObject;
use serde_json::{Map, Value, json};

use super::{Accepted, NOW, body, refused, seeds, text};
use longshore::messages::content;
use longshore::messages::content::{Content, MessageSource, Problem, Rendered};
use longshore::messages::personalization::{NAMES, Scope};
use longshore::users::recipient::CustomAttributes;
use longshore::workspaces::Channel;
use longshore::workspaces::settings::{Email, Secret, Settings, SignedAddress, SubscriptionGroup};
use template::{Data, MAX_OUTPUT, RenderBudget, Stop, Template, View};

/// A workspace with every channel.
static SETTINGS: LazyLock<Settings> = LazyLock::new(|| {
    let provider = || SignedAddress::new("https://provider.example/", Secret(vec![7; 24]));
    let group = |channel| SubscriptionGroup { id: seeds::ID, channel, from: "+15550100".into() };
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
        subscription_groups: vec![group(Channel::Sms), group(Channel::WhatsApp)],
        ..Settings::default()
    }
});

/// A user with extreme values.
static PROFILE: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    let numbers =
        json!([i64::MIN, i64::MAX, -1, 0, 1, f64::MAX, f64::MIN_POSITIVE, -0.0, u64::MAX]);
    let texts = json!(["", " ", "\n", "{{ x }}", "%", "é\u{301}", "a\r\nBcc: b", "1e999", "-9"]);
    members(json!({
        "external_id": "{% abort_message %}",
        "email": "a@b.example\r\nBcc: c@d.example",
        "first_name": "\u{0}\u{202e}<script>",
        "dob": "0000-00-00",
        "time_zone": "../../etc/passwd",
        "custom_attributes": {
            "numbers": numbers, "texts": texts, "mixed": [numbers, texts, null, true, {}],
            "long": "a, ".repeat(10_000), "many": vec![0; 1_000],
            "deep": { "deep": { "deep": [[[[{ "size": [], "first": null }]]]] } },
        },
    }))
});

/// The same with the digits of its numbers.
static TREE: LazyLock<TreeObject> =
    LazyLock::new(|| TreeObject::parse(&json!(*PROFILE).to_string()).unwrap_or_default());

static CUSTOM: LazyLock<CustomAttributes> = LazyLock::new(|| TREE.clone().into());

fn members(object: Value) -> Map<String, Value> {
    match object {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

fn scope() -> Scope<'static> {
    Scope {
        event_properties: Some(CUSTOM.get()),
        api_trigger_properties: Some(&TREE),
        custom: Some(&CUSTOM),
        ..Scope::from_profile(&PROFILE, NOW)
    }
}

/// The profile without changes.
struct Profile;

impl Data for Profile {
    fn field(&self, name: &str) -> View<'_> {
        PROFILE.get(name).into()
    }

    fn object(&self, name: &str) -> View<'_> {
        match name {
            "custom_attribute" => PROFILE.get("custom_attributes").into(),
            _ => View::Object(&PROFILE),
        }
    }
}

pub fn template(bytes: &[u8]) -> Option<Accepted> {
    let source = text(bytes)?;
    let template = match Template::parse(source, &NAMES) {
        Ok(template) => template,
        Err(error) => {
            let line = source.split('\n').nth(error.line - 1).expect("a line of the source");
            assert!((1..=line.chars().count() + 1).contains(&error.column), "{error}");
            super::check_reason(&error.text);
            return None;
        }
    };
    // Without the guard, so that a panic is seen.
    let rendered = template.render_within(&Profile, &mut RenderBudget::new(NOW));
    match &rendered {
        Ok(text) => assert!(text.len() <= MAX_OUTPUT),
        Err(Stop::Aborted(reason) | Stop::Failed(reason)) => super::check_reason(reason),
        Err(Stop::Needs(request)) => panic!("all requests are answered: {request:?}"),
    }
    assert_eq!(
        rendered,
        template.render_within(&Profile, &mut RenderBudget::new(NOW)),
        "twice the same"
    );
    if let Some(mistake) = template.mistake() {
        super::check_reason(&mistake.text);
    }
    if let Some(text) = template.as_text() {
        assert_eq!(rendered.as_deref(), Ok(text));
    }
    Some(Accepted)
}

/// The field `messages` of a request, or the message of a live activity.
pub fn message_objects(bytes: &[u8]) -> Option<Accepted> {
    let members = match body(bytes)?.object() {
        Ok(members) => members,
        Err(error) => return refused(&error),
    };
    match Content::live_activity(&members, MessageSource::Stored) {
        Ok(content) => content.messages().iter().for_each(check_rendered),
        Err(problem) => check_problem(&problem),
    }
    let (content, kept, problems) = Content::read(&members, MessageSource::Send, &SETTINGS);
    problems.iter().for_each(check_problem);
    let (again, same, none) = Content::read(&kept, MessageSource::Stored, &SETTINGS);
    assert_eq!((&same, &none[..]), (&kept, &[][..]), "what is taken is taken again");
    assert_eq!(content.messages().len(), again.messages().len());
    for (message, again) in content.messages().iter().zip(again.messages()) {
        check_rendered(message);
        assert_eq!(message.render(&scope()), again.render(&scope()));
    }
    problems.is_empty().then_some(Accepted)
}

fn check_problem(problem: &Problem) {
    super::check_reason(&problem.text);
    assert!(!problem.path.is_empty());
}

fn check_rendered(message: &content::Message) {
    let Rendered { channel, object, .. } = match message.render(&scope()) {
        Ok(rendered) => rendered,
        Err(Stop::Aborted(reason) | Stop::Failed(reason)) => {
            assert!(!reason.contains("could not be rendered"), "a panic: {reason}");
            return super::check_reason(&reason);
        }
        Err(Stop::Needs(request)) => panic!("all requests are answered: {request:?}"),
    };
    assert!(object.values().all(|value| !value.is_null()), "null is absent");
    if channel == Channel::LiveActivity {
        return;
    }
    for name in ["from", "reply_to", "bcc", "url", "subject"] {
        let is_line =
            |value: &Value| value.as_str().is_none_or(|text| !text.contains(['\r', '\n']));
        let is_known = matches!(
            (channel, name),
            (Channel::Email, "from" | "reply_to" | "bcc" | "subject") | (Channel::Webhook, "url")
        );
        assert!(!is_known || object.get(name).is_none_or(is_line), "{name}");
    }
}
