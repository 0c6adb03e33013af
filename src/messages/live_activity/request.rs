//! What a call asks to be started (src/gateway/README.md, Starting a live activity).

use serde_json::{Value, json};
use uuid::Uuid;

use crate::gateway::Caller;
use crate::messages::content::{Content, Place};
use crate::messages::members::{self, Members, User, member};
use crate::messages::order::{Kind, Order, SubscriptionState, Target};
use crate::messages::request::segment;
use crate::workspaces::Channel;
use crate::workspaces::settings::Settings;
use crate::workspaces::{DeclaredApp, Platform};
use kit::clock::parse_time;
use kit::json;

/// Bytes of compact JSON of what the push service is given: it takes 4 KB itself, and says so.
pub(super) const MOST_BYTES: usize = 50 << 10;

/// The ways to say for whom.
const USERS: &str = "external_user_ids";
const AUDIENCE: &str = "custom_audience";
const SEGMENT: &str = "segment_id";
const OPTIONS: [&str; 3] = [USERS, AUDIENCE, SEGMENT];

/// A start, checked.
#[derive(Debug, PartialEq)]
pub(crate) struct Start {
    /// Of an iOS app of the workspace.
    pub app_id: Uuid,
    pub activity_id: String,
    pub target: Target,
    attributes_type: String,
    attributes: Members,
    content_state: Members,
    /// Both in milliseconds since the epoch.
    dismissal_date: Option<i64>,
    stale_date: Option<i64>,
    alert: Members,
}

impl Start {
    /// Reads the members of a body; the error names the one that is wrong. Unknown ones are
    /// ignored, and an explicit null means absent.
    pub fn read(body: &Members, settings: &Settings) -> Result<Self, String> {
        let app = app(body, &settings.apps)?;
        let attributes_type = attributes_type(body, app)?;
        let activity_id = member(body, "activity_id").ok_or("activity_id is required")?;
        let activity_id = members::identifier(activity_id, "activity_id")?;
        let start = Self {
            app_id: app.id,
            activity_id,
            target: target(body, settings)?,
            attributes_type,
            attributes: object(body, "activity_attributes")?,
            content_state: object(body, "content_state")?,
            dismissal_date: time(body, "dismissal_date")?,
            stale_date: time(body, "stale_date")?,
            alert: alert(&object(body, "notification")?)?,
        };
        let message = start.message(0);
        Content::live_activity(&message, Place::Send)
            .map_err(|problem| format!("{}: {}", problem.path, problem.text))?;
        let text = Value::from(message).to_string();
        if text.len() > MOST_BYTES {
            return Err(format!("the activity must be at most {MOST_BYTES} bytes of JSON"));
        }
        json::check_levels(&text).map_err(|error| format!("the activity {error}"))?;
        match settings.without(Channel::LiveActivity) {
            Some(why) => Err(format!("No live activity can be started: {why}")),
            None => Ok(start),
        }
    }

    /// What it orders, once it is accepted.
    pub fn order(&self, dispatch_id: Uuid, caller: &Caller, accepted_at: i64) -> Order {
        let message = self.message(accepted_at).into();
        Order {
            dispatch_id,
            workspace_id: caller.workspace.id,
            kind: Kind::LiveActivity,
            campaign_id: None,
            send_id: None,
            messages: Members::from_iter([(Channel::LiveActivity.name().to_owned(), message)]),
            target: self.target.clone(),
            subscription_state: SubscriptionState::Subscribed,
            // It is about what the user does just now.
            ignores_capping: true,
            canvas_entry_properties: None,
            accepted_at,
            request_id: caller.request_id.clone(),
        }
    }

    /// The message object: what is started in which app, and `aps` as ActivityKit's
    /// push-to-start has it, whose times are seconds.
    pub fn message(&self, accepted_at: i64) -> Members {
        let mut aps = json!({
            "timestamp": seconds(accepted_at),
            "event": "start",
            "content-state": self.content_state,
            "attributes-type": self.attributes_type,
            "attributes": self.attributes,
            "alert": self.alert,
        });
        for (name, date) in
            [("stale-date", self.stale_date), ("dismissal-date", self.dismissal_date)]
        {
            if let Some(ms) = date {
                aps[name] = seconds(ms).into();
            }
        }
        Members::from_iter([
            ("app_id".to_owned(), self.app_id.to_string().into()),
            ("activity_id".to_owned(), self.activity_id.as_str().into()),
            ("activity_attributes_type".to_owned(), self.attributes_type.as_str().into()),
            ("aps".to_owned(), aps),
        ])
    }
}

fn seconds(ms: i64) -> i64 {
    ms.div_euclid(1_000)
}

fn app<'a>(body: &Members, apps: &'a [DeclaredApp]) -> Result<&'a DeclaredApp, String> {
    let id = Uuid::try_parse(&members::required_text(body, "app_id")?).ok();
    let app = apps.iter().find(|app| Some(app.id) == id && app.platform == Platform::Ios);
    app.ok_or_else(|| "app_id is that of no iOS app of the workspace".to_owned())
}

fn attributes_type(body: &Members, app: &DeclaredApp) -> Result<String, String> {
    let name = members::required_text(body, "activity_attributes_type")?;
    match app.activity_types.contains(&name) {
        true => Ok(name),
        false => Err("activity_attributes_type is none that the app declares".into()),
    }
}

/// Exactly one of the three ways to say for whom.
fn target(body: &Members, settings: &Settings) -> Result<Target, String> {
    let is_given = |name: &&&str| member(body, name).is_some();
    if OPTIONS.iter().filter(is_given).count() != 1 {
        return Err(format!("exactly one of {} must be given", OPTIONS.join(", ")));
    }
    let external_id = |id: &Value, path: &str| {
        members::identifier(id, path).map(|id| members::named(User::ExternalUserId(id)))
    };
    let target = Target {
        users: members::users(body, USERS, "strings", external_id)?,
        segment_id: segment(body, settings)?,
        audience: members::audience(body, AUDIENCE)?.map(|audience| audience.to_json()),
    };
    match member(body, USERS) {
        Some(_) if target.users.is_empty() => Err(format!("{USERS} must not be empty")),
        _ => Ok(target),
    }
}

/// The alert as ActivityKit has it. Title and body should be there, as texts, which are
/// templates, or as what names them in the app's languages; of a text alone the body is made.
fn alert(notification: &Members) -> Result<Members, String> {
    let alert = member(notification, "alert").ok_or("notification.alert is required")?;
    let mut alert = match alert {
        Value::String(_) => Members::from_iter([("body".to_owned(), alert.clone())]),
        Value::Object(members) => members.clone(),
        _ => return Err("notification.alert must be an object or a string".into()),
    };
    alert.retain(|_, value| !value.is_null());
    for name in ["title", "body"] {
        let value = alert.get(name);
        if value.is_some_and(|value| !value.is_string() && !value.is_object()) {
            return Err(format!("notification.alert.{name} must be a string or an object"));
        }
    }
    // Pushes of other kinds have it beside the alert.
    if let Some(sound) = member(notification, "sound") {
        if !sound.is_string() {
            return Err("notification.sound must be a string".into());
        }
        alert.entry("sound").or_insert_with(|| sound.clone());
    }
    Ok(alert)
}

fn object(body: &Members, name: &str) -> Result<Members, String> {
    members::object(body, name)?.cloned().ok_or_else(|| format!("{name} is required"))
}

fn time(body: &Members, name: &str) -> Result<Option<i64>, String> {
    let Some(text) = members::text(body, name)? else { return Ok(None) };
    parse_time(text).map(Some).map_err(|error| format!("{name}: {error}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::messages::order::Who;
    use crate::workspaces::settings::{Provider, Secret};

    const APP: &str = "7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33";
    /// A segment, and an Android app.
    const KNOWN: &str = "5f0e6b1a-9c3d-4e7f-8a2b-1c0d9e8f7a6b";

    fn settings() -> Settings {
        let app = |id: &str, platform| DeclaredApp {
            id: id.parse().unwrap(),
            name: "Acme".into(),
            platform,
            bundle_id: None,
            activity_types: vec!["DeliveryAttributes".into()],
        };
        let url = "https://push.acme.example".into();
        Settings {
            push: Some(Provider { url, signing: Secret(vec![7; 32]).into() }),
            apps: vec![app(APP, Platform::Ios), app(KNOWN, Platform::Android)],
            segments: [KNOWN.parse().unwrap()].into(),
            ..Settings::default()
        }
    }

    fn body(members: Value) -> Members {
        let mut body = json!({
            "app_id": APP,
            "activity_id": "order-7",
            "activity_attributes_type": "DeliveryAttributes",
            "activity_attributes": { "order": 7 },
            "content_state": { "eta": "10:15" },
            "notification": { "alert": { "title": "On its way", "body": "Here at 10:15" } },
            "external_user_ids": ["ann"],
        });
        for (name, value) in members.as_object().unwrap() {
            body[name] = value.clone();
        }
        let Value::Object(body) = body else { unreachable!() };
        body
    }

    fn read(members: Value) -> Result<Start, String> {
        Start::read(&body(members), &settings())
    }

    #[test]
    fn the_message_is_a_push_to_start() {
        let start = read(json!({
            "app_id": APP.to_uppercase(),
            "stale_date": "2026-11-21T13:00:00+0100",
            "dismissal_date": "1969-12-31T23:59:59.5Z",
            "notification": { "alert": { "title": "T", "body": null, "more": [1] }, "sound": "a.aiff" },
            "unknown": 5,
        }));
        let message = start.unwrap().message(1_795_262_400_999);
        let expected = json!({
            "app_id": APP,
            "activity_id": "order-7",
            "activity_attributes_type": "DeliveryAttributes",
            "aps": {
                "timestamp": 1_795_262_400,
                "event": "start",
                "content-state": { "eta": "10:15" },
                "attributes-type": "DeliveryAttributes",
                "attributes": { "order": 7 },
                "alert": { "title": "T", "more": [1], "sound": "a.aiff" },
                "stale-date": 1_795_262_400,
                "dismissal-date": -1,
            },
        });
        assert_eq!(Value::from(message), expected);
        let plain = read(json!({ "notification": { "alert": "Here" } })).unwrap().message(0);
        assert_eq!(plain["aps"]["alert"], json!({ "body": "Here" }));
        assert_eq!(plain["aps"].get("stale-date"), None);
    }

    #[test]
    fn one_option_says_for_whom() {
        let leaf = json!({ "custom_attribute": {
            "custom_attribute_name": "x", "comparison": "exists"
        } });
        let only = |name: &str, value: Value| {
            read(json!({ "external_user_ids": null, name: value })).map(|start| start.target)
        };
        let segment = only("segment_id", KNOWN.into()).unwrap();
        assert_eq!(segment.segment_id, KNOWN.parse().ok());
        assert_eq!(only("custom_audience", leaf.clone()).unwrap().audience, Some(leaf.clone()));
        let users = only("external_user_ids", json!(["a", "b"])).unwrap().users;
        assert_eq!(users[1].who, Who::ExternalId("b".into()));
        for more in [
            json!({ "segment_id": KNOWN }),
            json!({ "custom_audience": leaf }),
            json!({ "external_user_ids": null }),
        ] {
            let error = read(more).unwrap_err();
            assert!(error.starts_with("exactly one of external_user_ids, "), "{error}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (members, text) in [
            (json!({ "app_id": null }), "app_id is required"),
            (json!({ "app_id": 5 }), "app_id must be a string"),
            (json!({ "app_id": "x" }), "app_id is that of no iOS app"),
            // An Android app's.
            (json!({ "app_id": KNOWN }), "app_id is that of no iOS app"),
            (json!({ "activity_id": null }), "activity_id is required"),
            (json!({ "activity_id": "" }), "activity_id is empty"),
            (json!({ "activity_attributes_type": "Other" }), "activity_attributes_type is none"),
            (json!({ "activity_attributes": null }), "activity_attributes is required"),
            (json!({ "activity_attributes": [] }), "activity_attributes must be an object"),
            (json!({ "content_state": "x" }), "content_state must be an object"),
            (
                json!({ "content_state": { "a": "x".repeat(MOST_BYTES) } }),
                "the activity must be at",
            ),
            (json!({ "dismissal_date": 5 }), "dismissal_date must be a string"),
            (json!({ "stale_date": "soon" }), "stale_date: expected a date and time in ISO 8601"),
            (json!({ "notification": null }), "notification is required"),
            (json!({ "notification": {} }), "notification.alert is required"),
            (json!({ "notification": { "alert": 5 } }), "notification.alert must be an object"),
            (
                json!({ "notification": { "alert": { "title": 5 } } }),
                "notification.alert.title must be a string",
            ),
            (
                json!({ "notification": { "alert": { "body": "a\n {{ x" } } }),
                "notification.alert.body: line 2",
            ),
            (
                json!({ "notification": { "alert": {}, "sound": 1 } }),
                "notification.sound must be a string",
            ),
            (json!({ "external_user_ids": "ann" }), "external_user_ids must be an array"),
            (json!({ "external_user_ids": [] }), "external_user_ids must not be empty"),
            (
                json!({ "external_user_ids": vec!["a"; 51] }),
                "external_user_ids must have at most 50",
            ),
            (json!({ "external_user_ids": ["a", 5] }), "external_user_ids[1] must be a string"),
            (json!({ "external_user_ids": ["a\u{0}"] }), "external_user_ids[0] has a control"),
            (
                json!({ "external_user_ids": null, "custom_audience": { "AND": [] } }),
                "custom_audience.AND: expected an array",
            ),
            (
                json!({ "external_user_ids": null, "custom_audience": [] }),
                "custom_audience: expected an",
            ),
            (json!({ "external_user_ids": null, "segment_id": 5 }), "segment_id must be a string"),
            (json!({ "external_user_ids": null, "segment_id": "vip" }), "segment_id is that of no"),
            (json!({ "external_user_ids": null, "segment_id": APP }), "segment_id is that of no"),
        ] {
            let error = read(members.clone()).unwrap_err();
            assert!(error.starts_with(text), "{members}: {error}");
        }
        assert!(read(json!({ "external_user_ids": vec!["a"; 50] })).is_ok());
        let without = Settings { push: None, ..settings() };
        let error = Start::read(&body(json!({})), &without).unwrap_err();
        assert!(error.ends_with("declares no providers.push"), "{error}");
    }

    proptest! {
        #[test]
        fn nothing_panics(time in "[0-9TZ:+. -]{0,30}|\\PC*", accepted: i64) {
            if let Ok(start) = read(json!({ "stale_date": time, "dismissal_date": time })) {
                let message = start.message(accepted);
                prop_assert_eq!(&message["aps"]["stale-date"], &message["aps"]["dismissal-date"]);
            }
        }
    }
}
