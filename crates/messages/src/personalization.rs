//! The names that templates of messages can use, and where their values come from
//! (docs/reference/templates.md).

use std::cell::OnceCell;

use serde_json::{Map, Value};
use template::{Answer, Data, MemberNames, Names, Object, Request, View};

use super::external::Answers;
use super::unsubscribe_token;
use crate::app::App;
use gateway::workspaces::Aliases;
use gateway::workspaces::settings::Settings;
use kit::json::TreeObject;
use people::users::profile::check::group_id;
use people::users::recipient::CustomAttributes;

type Members = Map<String, Value>;

const CUSTOM_ATTRIBUTES: &str = "custom_attributes";

/// Names of fields in templates that differ from the names in profiles.
const ALIASES: [(&str, &str); 6] = [
    ("user_id", "external_id"),
    ("email_address", "email"),
    ("phone_number", "phone"),
    ("date_of_birth", "dob"),
    ("city", "home_city"),
    ("random_bucket_number", "random_bucket"),
];

/// Names of a device's fields in templates, and in profiles.
const DEVICE: [(&str, &str); 7] = [
    ("id", "device_id"),
    ("carrier", "carrier"),
    ("idfa", "idfa"),
    ("model", "model"),
    ("os", "os"),
    ("google_ad_id", "google_ad_id"),
    ("roku_ad_id", "roku_ad_id"),
];

/// All names. Names without a value in this file are known and empty.
pub const NAMES: Names<'static> = Names {
    fields: &[
        "service_id",
        "external_id",
        "user_id",
        "user_aliases",
        "random_bucket",
        "random_bucket_number",
        "created_at",
        "email",
        "email_address",
        "phone",
        "phone_number",
        "first_name",
        "last_name",
        "gender",
        "dob",
        "date_of_birth",
        "country",
        "language",
        "time_zone",
        "home_city",
        "city",
        "last_coordinates",
        "attributed_campaign",
        "attributed_source",
        "attributed_adgroup",
        "attributed_ad",
        "custom_attributes",
        "apps",
        "devices",
        "uninstalled_at",
        "email_subscribe",
        "push_subscribe",
        "push_tokens",
        "subscription_groups",
        "current_location",
        "date_of_first_session",
        "date_of_last_session",
        "last_used_app_date",
        "most_recent_app_version",
        "most_recent_locale",
        "most_recent_location",
        "set_user_to_unsubscribed_url",
        "unsubscribe_url",
        "set_user_to_subscribed_url",
        "set_user_to_opted_in_url",
        "set_user_to_one_click_list_unsubscribe",
    ],
    alias: None,
    objects: &[
        Object { name: "custom_attribute", members: MemberNames::Any },
        Object { name: "event_properties", members: MemberNames::Any },
        Object { name: "api_trigger_properties", members: MemberNames::Any },
        Object { name: "canvas_entry_properties", members: MemberNames::Any },
        Object { name: "subscribed_state", members: MemberNames::Spelled(group_id) },
        Object { name: "most_recently_used_device", members: MemberNames::Named(DEVICE_NAMES) },
        Object { name: "targeted_device", members: MemberNames::Named(DEVICE_NAMES) },
        Object {
            name: "campaign",
            members: MemberNames::Named(&[
                "name",
                "api_id",
                "dispatch_id",
                "message_name",
                "message_api_id",
            ]),
        },
        Object {
            name: "canvas",
            members: MemberNames::Named(&["name", "api_id", "variant_name", "variant_api_id"]),
        },
        Object { name: "card", members: MemberNames::Named(&["name", "api_id"]) },
        Object { name: "app", members: MemberNames::Named(&["name", "api_id"]) },
        Object {
            name: "sms",
            members: MemberNames::Named(&["inbound_message_body", "inbound_media_urls"]),
        },
        Object {
            name: "whats_app",
            members: MemberNames::Named(&["inbound_message_body", "inbound_media_urls"]),
        },
    ],
    blocks: None,
    sources: None,
    is_open: false,
};

/// All names, and the other sources that templates of a workspace can read.
pub fn names(settings: &Settings) -> Names<'_> {
    let alias = alias(&settings.aliases);
    Names { alias, blocks: Some(&settings.blocks), sources: Some(settings), ..NAMES }
}

/// The workspace's own name of `service_id`, and that name.
pub fn alias(aliases: &Aliases) -> Option<(&str, &'static str)> {
    aliases.service_id.as_deref().map(|alias| (alias, "service_id"))
}

const DEVICE_NAMES: &[&str] = &[
    "id",
    "carrier",
    "idfa",
    "model",
    "os",
    "google_ad_id",
    "roku_ad_id",
    "platform",
    "foreground_push_enabled",
];

/// The data for rendering a user's message.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    /// A stored profile: `{{${first_name}}}`, `{{custom_attribute.${n}}}`.
    pub profile: &'a Members,
    /// Its custom attributes; if absent, they are read from the profile.
    pub custom: Option<&'a CustomAttributes>,
    /// `{{event_properties.${p}}}`
    pub event_properties: Option<&'a TreeObject>,
    pub api_trigger_properties: Option<&'a TreeObject>,
    pub canvas_entry_properties: Option<&'a TreeObject>,
    /// `{{campaign.${name}}}`, `{{canvas.${name}}}`
    pub origin: Option<&'a Origin>,
    pub unsubscribe: Option<Unsubscribe<'a>>,
    /// Set in previews, whose address to unsubscribe does nothing.
    pub preview: Option<&'a App>,
    /// Responses to the templates' requests; without them, requests return nothing.
    pub answers: Option<&'a Answers>,
    /// The current time, in milliseconds since the epoch.
    pub now: i64,
}

/// The campaign or Canvas of a message.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    pub is_canvas: bool,
    /// The id of the campaign or the Canvas.
    pub api_id: Option<String>,
    pub name: Option<String>,
    pub dispatch_id: String,
}

/// The user who can unsubscribe from the message.
#[derive(Clone, Copy)]
pub struct Unsubscribe<'a> {
    pub app: &'a App,
    pub recipient: unsubscribe_token::Recipient,
}

impl<'a> Scope<'a> {
    /// A scope with only the profile.
    pub fn from_profile(profile: &'a Members, now: i64) -> Self {
        Self {
            profile,
            custom: None,
            event_properties: None,
            api_trigger_properties: None,
            canvas_entry_properties: None,
            origin: None,
            unsubscribe: None,
            preview: None,
            answers: None,
            now,
        }
    }

    /// The data of one message.
    pub fn data(&self, variation_id: Option<&'a str>) -> MessageData<'a> {
        MessageData { scope: *self, variation_id, unsubscribe_url: OnceCell::new() }
    }
}

/// The data for rendering one message.
pub struct MessageData<'a> {
    scope: Scope<'a>,
    variation_id: Option<&'a str>,
    /// Created when a template uses it.
    unsubscribe_url: OnceCell<String>,
}

impl Data for MessageData<'_> {
    fn field(&self, name: &str) -> View<'_> {
        let profile = self.scope.profile;
        if name == CUSTOM_ATTRIBUTES {
            return self.custom();
        }
        if let Some(value) = profile.get(name) {
            return View::Json(value);
        }
        match name {
            "last_used_app_date" => {
                last_used_app(profile).and_then(|app| app.get("last_used")).into()
            }
            "most_recent_app_version" => {
                last_used_app(profile).and_then(|app| app.get("version")).into()
            }
            "set_user_to_unsubscribed_url" | "unsubscribe_url" => {
                if let Some(app) = self.scope.preview {
                    let url = || unsubscribe_token::preview_url(app);
                    return View::Text(self.unsubscribe_url.get_or_init(url));
                }
                let Some(Unsubscribe { app, recipient }) = self.scope.unsubscribe else {
                    return View::Nothing;
                };
                let url = || unsubscribe_token::url(app, &recipient);
                View::Text(self.unsubscribe_url.get_or_init(url))
            }
            name => match ALIASES.iter().find(|(alias, _)| *alias == name) {
                Some((_, field)) => profile.get(*field).into(),
                None => View::Nothing,
            },
        }
    }

    fn object(&self, name: &str) -> View<'_> {
        let scope = &self.scope;
        match name {
            "custom_attribute" => self.custom(),
            "event_properties" => scope.event_properties.into(),
            "api_trigger_properties" => scope.api_trigger_properties.into(),
            "canvas_entry_properties" => scope.canvas_entry_properties.into(),
            "subscribed_state" => subscribed_state(scope.profile),
            "most_recently_used_device" => {
                let Some(device) = objects(scope.profile, "devices").last() else {
                    return View::Nothing;
                };
                let member =
                    |(name, stored): (&'static str, &str)| (name, device.get(stored).into());
                View::Members(DEVICE.into_iter().map(member).collect())
            }
            "campaign" => self.campaign(),
            "canvas" => {
                let Some(origin) = scope.origin.filter(|origin| origin.is_canvas) else {
                    return View::Nothing;
                };
                View::Members(vec![
                    ("name", text(origin.name.as_deref())),
                    ("api_id", text(origin.api_id.as_deref())),
                ])
            }
            _ => View::Nothing,
        }
    }

    fn answer<'d>(&'d self, request: &Request) -> Option<&'d Answer> {
        match self.scope.answers {
            Some(answers) => answers.get(request),
            None => Some(&Answer::Nothing),
        }
    }
}

impl MessageData<'_> {
    fn custom(&self) -> View<'_> {
        match self.scope.custom.map(CustomAttributes::get) {
            Some(custom) if !custom.is_empty() => View::TreeObject(custom),
            _ => self.scope.profile.get(CUSTOM_ATTRIBUTES).into(),
        }
    }

    fn campaign(&self) -> View<'_> {
        let Some(origin) = self.scope.origin else { return View::Nothing };
        let mut members = vec![
            ("dispatch_id", View::Text(&origin.dispatch_id)),
            ("message_api_id", text(self.variation_id)),
        ];
        if !origin.is_canvas {
            members.push(("name", text(origin.name.as_deref())));
            members.push(("api_id", text(origin.api_id.as_deref())));
        }
        View::Members(members)
    }
}

fn text(text: Option<&str>) -> View<'_> {
    text.map_or(View::Nothing, View::Text)
}

/// `email_global`, and each subscription group by its id.
fn subscribed_state(profile: &Members) -> View<'_> {
    let email = profile.get("email_subscribe").map_or(View::Text("subscribed"), View::Json);
    let groups = objects(profile, "subscription_groups").filter_map(|group| {
        let id = group.get("subscription_group_id")?.as_str()?;
        Some((id, group.get("subscription_state").into()))
    });
    View::Members([("email_global", email)].into_iter().chain(groups).collect())
}

fn last_used_app(profile: &Members) -> Option<&Members> {
    let last_used =
        |app: &&Members| app.get("last_used").and_then(Value::as_str).map(str::to_owned);
    objects(profile, "apps").filter(|app| app.contains_key("last_used")).max_by_key(last_used)
}

fn objects<'p>(profile: &'p Members, field: &str) -> impl Iterator<Item = &'p Members> {
    let list = profile.get(field).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_object)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use template::Template;

    use uuid::Uuid;

    use super::*;
    use people::users::Recipient;
    use people::users::profile::Field;

    fn render(source: &str, profile: Value, origin: Option<&Origin>) -> String {
        let Value::Object(profile) = profile else { panic!("no object") };
        let template = Template::parse(source, &NAMES).unwrap();
        assert_eq!(template.mistake(), None, "{source}");
        let scope = Scope { origin, ..Scope::from_profile(&profile, 0) };
        template.render(&scope.data(Some("v1")), 0).unwrap()
    }

    #[test]
    fn every_field_of_a_profile_has_a_name() {
        // Former external ids must not be shown to anyone.
        let is_shown = |field: &Field| *field != Field::DeprecatedExternalIds;
        for field in Field::ALL.into_iter().filter(is_shown) {
            assert!(NAMES.fields.contains(&field.name()), "{}", field.name());
        }
        for (alias, field) in ALIASES {
            assert!(NAMES.fields.contains(&alias) && NAMES.fields.contains(&field), "{alias}");
        }
    }

    #[test]
    fn fields_have_the_names_of_the_family() {
        let profile = json!({
            "external_id": "ann", "email": "ann@example.com", "phone": "+15550100",
            "dob": "1990-05-17", "home_city": "Oslo", "random_bucket": 4711,
        });
        let source = "{{${user_id}}} {{${email_address}}} {{${phone_number}}} {{${date_of_birth}}} \
                      {{${city}}} {{${random_bucket_number}}}";
        let expected = "ann ann@example.com +15550100 1990-05-17 Oslo 4711";
        assert_eq!(render(source, profile, None), expected);
    }

    #[test]
    fn custom_attributes_keep_their_order_and_digits() {
        let document = r#"{"custom_attributes":{"z":1.10,"a":{"y":12345678901234567890,"b":[]}}}"#;
        let custom = Recipient::read(Uuid::nil(), document).unwrap().custom;
        let profile = Members::new();
        let scope = Scope { custom: Some(&custom), ..Scope::from_profile(&profile, 0) };
        let source = "{{custom_attribute.${z}}} {{custom_attribute.${a}}} \
                      {% for pair in custom_attribute %}{{pair[0]}}{% endfor %} \
                      {{${custom_attributes}.z | plus: 1}}";
        let template = Template::parse(source, &NAMES).unwrap();
        let expected = r#"1.10 {"y":12345678901234567890,"b":[]} za 2.1"#;
        assert_eq!(template.render(&scope.data(None), 0).unwrap(), expected);
    }

    #[test]
    fn apps_devices_and_groups_have_personalization_names() {
        let profile = json!({
            "apps": [
                { "name": "web", "version": "1.0", "last_used": "2024-01-01T00:00:00.000Z" },
                { "name": "ios", "version": "2.0", "last_used": "2025-01-01T00:00:00.000Z" },
                { "name": "tv", "version": "3.0" },
            ],
            "devices": [{ "model": "Old" }, { "model": "Phone 9", "device_id": "d", "os": "17" }],
            "subscription_groups": [
                { "subscription_group_id": "7d0c6f5e-4b1a-4e0f-9a55-2f6d1c3b8a90",
                  "subscription_state": "unsubscribed" },
            ],
        });
        let source = "{{${last_used_app_date} | date: '%Y'}} {{${most_recent_app_version}}} \
                      {{most_recently_used_device.${model}}} {{most_recently_used_device.${id}}} \
                      [{{most_recently_used_device.${platform}}}] {{subscribed_state.${email_global}}} \
                      {{subscribed_state.${7D0C6F5E-4B1A-4E0F-9A55-2F6D1C3B8A90}}}";
        let expected = "2025 2.0 Phone 9 d [] subscribed unsubscribed";
        assert_eq!(render(source, profile, None), expected);
        assert_eq!(render(source, json!({}), None), "    [] subscribed ");
    }

    #[test]
    fn a_campaign_and_a_canvas_have_their_names() {
        let origin = |is_canvas| Origin {
            is_canvas,
            api_id: Some("id-1".into()),
            name: Some("Spring".into()),
            dispatch_id: "d1".into(),
        };
        let source = "{{campaign.${name}}}|{{campaign.${api_id}}}|{{campaign.${dispatch_id}}}|\
                      {{campaign.${message_api_id}}}|{{canvas.${name}}}|{{canvas.${api_id}}}";
        assert_eq!(render(source, json!({}), Some(&origin(false))), "Spring|id-1|d1|v1||");
        assert_eq!(render(source, json!({}), Some(&origin(true))), "||d1|v1|Spring|id-1");
        assert_eq!(render(source, json!({}), None), "|||||");
    }
}
