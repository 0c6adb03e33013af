//! Reads and checks requests to start a live activity (docs/reference/api/live-activities.md).
//!
//! A start is an order like that of `/messages/send`, with one message by a separate channel: it
//! passes through the same log, is dispatched to users in the same way, and is sent to the push
//! provider with the tokens that start activities of the app.

use schemars::JsonSchema;
use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use uuid::Uuid;

use gateway::formats::{Identifier, List, Time, exactly_one};
use gateway::warnings::{Warning, Warnings};
use gateway::workspaces::Channel;
use gateway::workspaces::settings::Settings;
use gateway::workspaces::{DeclaredApp, Platform};
use gateway::{ApiError, Caller, fields};
use kit::json;
use messages::content::{Content, MessageSource};
use messages::order::{Kind, Order, SubscriptionState, Target};
use messages::recipient::{MAX_USERS, Members, User};
use messages::request::segment;
use people::audience::Audience;

/// Maximum bytes of compact JSON. Apple's push service accepts 4 KB and rejects more.
const MAX_BYTES: usize = 50 << 10;

/// The fields that select the users.
const OPTIONS: &[&str] = &["external_user_ids", "custom_audience", "segment_id"];

/// The activity to start, its app, and its users: exactly one of `external_user_ids`,
/// `custom_audience` and `segment_id` is required.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "LiveActivityStart", transform = exactly_one(OPTIONS))]
pub struct StartRequest {
    /// The id of an iOS app that the workspace file declares.
    #[schemars(with = "Uuid")]
    app_id: String,
    activity_id: Identifier,
    /// One of the app's `activity_types`.
    activity_attributes_type: String,
    #[schemars(description = format!(
        "Attributes, content state and alert together can have at most {MAX_BYTES} bytes of JSON. \
         Apple's push service accepts 4 KB."
    ))]
    activity_attributes: Members,
    /// The initial state, in the shape of the app's `ContentState`.
    content_state: Members,
    /// When the activity is removed from the screen; a past time removes it immediately.
    dismissal_date: Option<Time>,
    /// When the content counts as outdated.
    stale_date: Option<Time>,
    notification: Notification,
    /// The external ids of users.
    external_user_ids: Option<List<Identifier, 1, MAX_USERS>>,
    custom_audience: Option<Audience>,
    /// The id of a segment that the workspace file declares.
    #[schemars(with = "Option<Uuid>")]
    segment_id: Option<String>,
}

/// The notification when the activity starts. The alert should have a title and a body. Each is a
/// string, which is a Liquid template, or an object with the key of a localized string of the app,
/// such as `{"loc-key": "ON_ITS_WAY"}`. Other fields of the alert are sent unchanged. If the alert
/// is a string, it is the body.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "LiveActivityNotification")]
struct Notification {
    alert: Alert,
    /// The sound, if the alert has none.
    sound: Option<String>,
}

/// The alert in the format of ActivityKit.
#[derive(Debug, JsonSchema)]
#[schemars(with = "Value", inline, extend("anyOf" = [
    { "type": "object", "properties": {
        "title": { "type": ["string", "object", "null"] },
        "body": { "type": ["string", "object", "null"] },
    } },
    { "type": "string" },
]))]
struct Alert(Members);

/// The fields of an alert with its texts.
const TEXTS: [&str; 2] = ["title", "body"];

impl<'de> Deserialize<'de> for Alert {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut alert = match Value::deserialize(deserializer)? {
            body @ Value::String(_) => Members::from_iter([("body".to_owned(), body)]),
            Value::Object(alert) => alert,
            Value::Null => Members::new(),
            _ => return Err(D::Error::custom("must be an object or a string")),
        };
        for name in TEXTS {
            match alert.get_mut(name) {
                Some(Value::Object(text)) => text.retain(|_, value| !value.is_null()),
                None | Some(Value::String(_) | Value::Null) => {}
                Some(_) => {
                    let text = format!(".{name} must be a string or an object");
                    return Err(D::Error::custom(text));
                }
            }
        }
        let is_empty_text = |name: &String, value: &Value| {
            TEXTS.contains(&name.as_str()) && value.as_object().is_some_and(Members::is_empty)
        };
        alert.retain(|name, value| !value.is_null() && !is_empty_text(name, value));
        if alert.is_empty() {
            // An alert of nulls is like one that is null.
            return Err(D::Error::invalid_type(Unexpected::Unit, &"an object or a string"));
        }
        Ok(Self(alert))
    }
}

/// A checked request.
#[derive(Debug, PartialEq)]
pub struct Start {
    /// The id of an iOS app of the workspace.
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
    /// Fields that have no effect.
    pub warnings: Vec<Warning>,
}

impl StartRequest {
    /// Reads the fields of a body.
    pub fn read(body: &Members, settings: &Settings) -> Result<Start, ApiError> {
        let (request, warnings) = fields::read_request::<Self>(body)?;
        let mut start = request.start(settings)?;
        let mut all = Warnings::from(warnings);
        all.extend(start.warnings);
        start.warnings = all.into_vec();
        Ok(start)
    }

    fn start(self, settings: &Settings) -> Result<Start, ApiError> {
        let app = app(&self.app_id, &settings.apps)?;
        if !app.activity_types.contains(&self.activity_attributes_type) {
            let text = "activity_attributes_type is not one of the app's activity_types";
            return Err(ApiError::invalid_field(text));
        }
        let (ids, audience) = (self.external_user_ids, self.custom_audience);
        let given = [ids.is_some(), audience.is_some(), self.segment_id.is_some()];
        if given.into_iter().filter(|is_given| *is_given).count() != 1 {
            let text = format!("exactly one of {} is required", OPTIONS.join(", "));
            return Err(ApiError::invalid_field(text));
        }
        let users = ids.map_or_else(Vec::new, |ids| ids.0).into_iter();
        let Notification { alert: Alert(mut alert), sound } = self.notification;
        // Other pushes have the sound next to the alert.
        if let Some(sound) = sound {
            alert.entry("sound").or_insert_with(|| sound.into());
        }
        let warnings =
            audience.as_ref().map_or_else(Vec::new, |audience| audience.warnings(OPTIONS[1]));
        let start = Start {
            app_id: app.id,
            activity_id: self.activity_id.0,
            target: Target {
                users: users.map(|id| User::ExternalUserId(id).into()).collect(),
                segment_id: segment(self.segment_id.as_deref(), settings)?,
                audience: audience.map(|audience| audience.to_json()),
                recipients_of: None,
            },
            attributes_type: self.activity_attributes_type,
            attributes: self.activity_attributes,
            content_state: self.content_state,
            dismissal_date: self.dismissal_date.map(|Time(ms)| ms),
            stale_date: self.stale_date.map(|Time(ms)| ms),
            alert,
            warnings,
        };
        start.check(settings)?;
        Ok(start)
    }
}

impl Start {
    fn check(&self, settings: &Settings) -> Result<(), ApiError> {
        let message = self.message(0);
        Content::live_activity(&message, MessageSource::Send)
            .map_err(|problem| ApiError::invalid_field(problem.to_string()))?;
        let text = Value::from(message).to_string();
        if text.len() > MAX_BYTES {
            let text = format!("the activity must be at most {MAX_BYTES} bytes of JSON");
            return Err(ApiError::invalid_field(text));
        }
        json::check_depth(&text)
            .map_err(|error| ApiError::invalid_field(format!("the activity {error}")))?;
        match settings.without(Channel::LiveActivity) {
            Some(why) => Err(ApiError::Invalid(format!("No live activity can be started: {why}"))),
            None => Ok(()),
        }
    }

    /// The order of an accepted start.
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
            // A live activity concerns what the user is doing at the moment.
            ignores_capping: true,
            canvas_entry_properties: None,
            trigger_properties: None,
            accepted_at,
            requested_by: Some(caller.actor()),
            request_id: caller.request_id.clone(),
        }
    }

    /// The message object: the activity and its app, and `aps` for ActivityKit's push-to-start,
    /// with times in seconds.
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

fn app<'a>(id: &str, apps: &'a [DeclaredApp]) -> Result<&'a DeclaredApp, ApiError> {
    let id = Uuid::try_parse(id).ok();
    let app = apps.iter().find(|app| Some(app.id) == id && app.platform == Platform::Ios);
    app.ok_or_else(|| ApiError::invalid_field("app_id does not match an iOS app in this workspace"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use gateway::Code;
    use gateway::workspaces::settings::{Secret, SignedAddress};
    use kit::json::ObjectText;
    use messages::order::Who;

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
        let url = "https://push.acme.example";
        Settings {
            push: Some(SignedAddress::new(url, Secret(vec![7; 32]))),
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
        StartRequest::read(&body(members), &settings())
            .map_err(|error| error.message().into_owned())
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
    fn an_alert_of_nulls_is_missing() {
        let null_text = json!({ "loc-key": null });
        for alert in [
            json!({}),
            json!({ "title": null, "body": null, "sound": null }),
            json!({ "title": null_text, "body": {} }),
        ] {
            let body = body(json!({ "notification": { "alert": alert, "sound": "a.aiff" } }));
            let error = StartRequest::read(&body, &settings()).unwrap_err();
            assert!(matches!(error, ApiError::Field(Code::MissingField, _)), "{alert}: {error:?}");
            assert_eq!(error.message(), "notification.alert is required");
        }
        let text = json!({ "title": null_text, "body": { "loc-key": "B", "loc-args": null } });
        let start = read(json!({ "notification": { "alert": text } })).unwrap();
        assert_eq!(Value::from(start.alert), json!({ "body": { "loc-key": "B" } }));
    }

    #[test]
    fn exactly_one_target_is_accepted() {
        let leaf = json!({ "custom_attribute": {
            "custom_attribute_name": "x", "comparison": "exists"
        } });
        let only = |name: &str, value: Value| {
            read(json!({ "external_user_ids": null, name: value })).map(|start| start.target)
        };
        let segment = only("segment_id", KNOWN.into()).unwrap();
        assert_eq!(segment.segment_id, KNOWN.parse().ok());
        assert_eq!(
            only("custom_audience", leaf.clone()).unwrap().audience,
            leaf.as_object().map(ObjectText::from)
        );
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
    fn errors_name_the_invalid_field() {
        for (members, text) in [
            (json!({ "app_id": "x" }), "app_id does not match"),
            // An Android app's.
            (json!({ "app_id": KNOWN }), "app_id does not match"),
            (json!({ "activity_attributes_type": "Other" }), "activity_attributes_type is not"),
            (json!({ "content_state": { "a": "x".repeat(MAX_BYTES) } }), "the activity must be at"),
            (json!({ "stale_date": "soon" }), "stale_date: expected a date and time in ISO 8601"),
            (
                json!({ "notification": { "alert": { "body": "a\n {{ x" } } }),
                "notification.alert.body: line 2",
            ),
            (json!({ "external_user_ids": [] }), "external_user_ids must have 1 to 50"),
            (json!({ "external_user_ids": vec!["a"; 51] }), "external_user_ids must have 1 to 50"),
            (
                json!({ "external_user_ids": null, "custom_audience": { "AND": [] } }),
                "custom_audience.AND: expected a non-empty array",
            ),
            (
                json!({ "external_user_ids": null, "custom_audience": [] }),
                "custom_audience: expected an",
            ),
            (
                json!({ "external_user_ids": null, "segment_id": "vip" }),
                "segment_id does not match",
            ),
            (json!({ "external_user_ids": null, "segment_id": APP }), "segment_id does not match"),
        ] {
            let error = read(members.clone()).unwrap_err();
            assert!(error.starts_with(text), "{members}: {error}");
        }
        assert!(read(json!({ "external_user_ids": vec!["a"; 50] })).is_ok());
        let without = Settings { push: None, ..settings() };
        let error = StartRequest::read(&body(json!({})), &without).unwrap_err();
        assert!(error.message().ends_with("declares no providers.push"), "{error:?}");
    }

    proptest! {
        #[test]
        fn never_panics(time in "[0-9TZ:+. -]{0,30}|\\PC*", accepted: i64) {
            if let Ok(start) = read(json!({ "stale_date": time, "dismissal_date": time })) {
                let message = start.message(accepted);
                prop_assert_eq!(&message["aps"]["stale-date"], &message["aps"]["dismissal-date"]);
            }
        }
    }
}
