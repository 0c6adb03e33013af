//! A user as messages see them: the stored profile, and the addresses in it.

use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::profile::{Field, Profile, TIME_ZONE_CHANGED_AT, check};
use super::suppressions;
use kit::clock::parse_time;
use kit::json::TreeObject;

/// The fields of a profile that channels use to reach a user.
const CONTACT_FIELDS: [&str; 7] = [
    "external_id",
    "email",
    "phone",
    "email_subscribe",
    "push_subscribe",
    "subscription_groups",
    "push_tokens",
];

/// The state in a subscription group of a user who gets its messages.
const SUBSCRIBED: &str = "subscribed";

/// The member of a stored document that has the custom attributes.
const CUSTOM_ATTRIBUTES: &str = "custom_attributes";

/// A possible recipient of messages.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipient {
    pub service_id: Uuid,
    /// The stored profile ([`crate::users::profile`]), without its custom attributes.
    pub profile: Map<String, Value>,
    pub custom: CustomAttributes,
    /// Why no message may be sent to the email address, whatever the user decided.
    pub stopped: Option<suppressions::Stop>,
}

/// Custom attributes with the order of their fields and the digits of their numbers, which the
/// profile's tree does not keep. Parsed when a template uses them: that takes as long as the rest of
/// a profile.
#[derive(Clone, Debug, Default)]
pub struct CustomAttributes {
    json: Box<str>,
    tree: OnceLock<TreeObject>,
}

impl CustomAttributes {
    pub fn get(&self) -> &TreeObject {
        self.tree.get_or_init(|| TreeObject::parse(&self.json).unwrap_or_default())
    }
}

impl From<TreeObject> for CustomAttributes {
    fn from(tree: TreeObject) -> Self {
        Self { json: Box::default(), tree: tree.into() }
    }
}

impl PartialEq for CustomAttributes {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

/// A stored document.
struct Document {
    profile: Map<String, Value>,
    custom: CustomAttributes,
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Document;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a user's document")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Document, A::Error> {
                let (mut profile, mut custom) = (Map::new(), CustomAttributes::default());
                while let Some(name) = map.next_key::<String>()? {
                    if name == CUSTOM_ATTRIBUTES {
                        custom.json = map.next_value::<&RawValue>()?.get().into();
                    } else {
                        profile.insert(name, map.next_value()?);
                    }
                }
                Ok(Document { profile, custom })
            }
        }

        json.deserialize_map(Members)
    }
}

/// A user's subscription state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subscription {
    OptedIn,
    Subscribed,
    Unsubscribed,
}

/// A device that push messages go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushToken<'a> {
    pub app_id: &'a str,
    pub token: &'a str,
    pub device_id: Option<&'a str>,
    /// Whether it starts live activities; otherwise it shows alerts.
    pub is_live_activity: bool,
}

impl Recipient {
    /// Reads a stored document.
    pub fn read(service_id: Uuid, document: &str) -> Result<Self, serde_json::Error> {
        let Document { mut profile, custom } = serde_json::from_str(document)?;
        spell_group_ids(&mut profile);
        Ok(Self { service_id, profile, custom, stopped: None })
    }

    /// Reads only the fields that channels need to send a rendered message: addresses and
    /// subscriptions.
    pub fn read_contact(service_id: Uuid, document: &str) -> Result<Self, serde_json::Error> {
        let fields: HashMap<String, &RawValue> = serde_json::from_str(document)?;
        let mut profile = Map::new();
        for name in CONTACT_FIELDS {
            if let Some(value) = fields.get(name) {
                profile.insert(name.to_owned(), serde_json::from_str(value.get())?);
            }
        }
        spell_group_ids(&mut profile);
        Ok(Self { service_id, profile, custom: CustomAttributes::default(), stopped: None })
    }

    /// Replaces the subscription states by those of a profile.
    pub(super) fn set_states(&mut self, states: &Profile) {
        for field in [Field::EmailSubscribe, Field::PushSubscribe, Field::SubscriptionGroups] {
            match states.get(field).and_then(|json| serde_json::from_str(json).ok()) {
                Some(value) => self.profile.insert(field.name().to_owned(), value),
                None => self.profile.remove(field.name()),
            };
        }
        spell_group_ids(&mut self.profile);
    }

    pub fn text(&self, field: &str) -> Option<&str> {
        self.profile.get(field)?.as_str()
    }

    pub fn external_id(&self) -> Option<&str> {
        self.text("external_id")
    }

    pub fn email(&self) -> Option<&str> {
        self.text("email")
    }

    /// The number in E.164, with its plus.
    pub fn phone(&self) -> Option<&str> {
        self.text("phone")
    }

    /// IANA name.
    pub fn time_zone(&self) -> Option<&str> {
        self.text("time_zone")
    }

    /// When the time zone changed, in milliseconds since the epoch; none if it never did.
    pub fn time_zone_changed_at(&self) -> Option<i64> {
        self.profile.get(TIME_ZONE_CHANGED_AT)?.as_i64()
    }

    /// The subscription to emails; `subscribed` if nothing else is known.
    pub fn email_subscription(&self) -> Subscription {
        self.subscription("email_subscribe")
    }

    /// The subscription to push messages; `subscribed` if nothing else is known.
    pub fn push_subscription(&self) -> Subscription {
        self.subscription("push_subscribe")
    }

    fn subscription(&self, field: &str) -> Subscription {
        match self.text(field) {
            Some("opted_in") => Subscription::OptedIn,
            Some("unsubscribed") => Subscription::Unsubscribed,
            _ => Subscription::Subscribed,
        }
    }

    /// When any known app was last used, in milliseconds since the epoch.
    pub fn last_used_app(&self) -> Option<i64> {
        let time = |app: &Map<String, Value>| parse_time(app.get("last_used")?.as_str()?).ok();
        self.objects("apps").filter_map(time).max()
    }

    /// Whether the user is in a subscription group (of SMS or WhatsApp).
    pub fn is_in_group(&self, id: &str) -> bool {
        self.group_state(id) == Some(SUBSCRIBED)
    }

    /// The user's state in a subscription group, if there is one. If several are stored, the first
    /// other one than `subscribed`.
    pub fn group_state(&self, id: &str) -> Option<&str> {
        let id = check::group_id(id);
        let groups = self.objects("subscription_groups");
        let mut states = groups.filter_map(|group| state_in(group, &id));
        let first = states.next()?;
        let mut all = std::iter::once(first).chain(states);
        all.find(|state| *state != SUBSCRIBED).or(Some(first))
    }

    pub fn push_tokens(&self) -> impl Iterator<Item = PushToken<'_>> {
        self.objects("push_tokens").filter_map(|token| {
            let text = |name: &str| token.get(name).and_then(Value::as_str);
            Some(PushToken {
                app_id: text("app_id")?,
                token: text("token")?,
                device_id: text("device_id"),
                is_live_activity: text("kind") == Some("live_activity"),
            })
        })
    }

    fn objects(&self, field: &str) -> impl Iterator<Item = &Map<String, Value>> {
        self.profile
            .get(field)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_object)
    }
}

/// Spells the ids of subscription groups [as they are compared](check::group_id): earlier versions
/// stored any spelling. If a group is there twice, the first entry that is not `subscribed` is read
/// first, also by templates.
fn spell_group_ids(profile: &mut Map<String, Value>) {
    let groups = profile.get_mut("subscription_groups").and_then(Value::as_array_mut);
    let Some(groups) = groups else { return };
    for group in groups.iter_mut() {
        if let Some(Value::String(id)) = group.get_mut("subscription_group_id") {
            *id = check::group_id(id).into_owned();
        }
    }
    groups.sort_by_key(|group| group["subscription_state"] == SUBSCRIBED);
}

/// The state that an entry of `subscription_groups` has, if it is of that group.
fn state_in<'a>(group: &'a Map<String, Value>, id: &str) -> Option<&'a str> {
    let is_same = group.get("subscription_group_id").and_then(Value::as_str) == Some(id);
    group.get("subscription_state").and_then(Value::as_str).filter(|_| is_same)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_contact_has_the_addresses_and_subscriptions_of_its_profile() {
        let document = json!({
            "external_id": "ann", "email": "ann@a.example", "phone": "+442000000010",
            "email_subscribe": "unsubscribed", "push_subscribe": "opted_in",
            "subscription_groups": [
                { "subscription_group_id": "g", "subscription_state": "subscribed" },
            ],
            "push_tokens": [{ "app_id": "a", "token": "t", "device_id": "d" }],
            "first_name": "Ann", "custom_attributes": { "a": 1 },
        });
        let document = document.to_string();
        let user = Recipient::read(Uuid::nil(), &document).unwrap();
        let contact = Recipient::read_contact(Uuid::nil(), &document).unwrap();
        assert_eq!(
            (contact.external_id(), contact.email(), contact.phone()),
            (Some("ann"), Some("ann@a.example"), Some("+442000000010"))
        );
        assert_eq!(contact.email_subscription(), Subscription::Unsubscribed);
        assert_eq!(contact.push_subscription(), Subscription::OptedIn);
        assert!(contact.is_in_group("g") && !contact.is_in_group("h"));
        assert!(contact.push_tokens().eq(user.push_tokens()));
        assert_eq!(contact.text("first_name"), None);
        assert!(Recipient::read_contact(Uuid::nil(), "{").is_err());
    }

    #[test]
    fn a_group_is_found_by_each_spelling_that_earlier_versions_stored() {
        const ID: &str = "7d0c6f5e-4b1a-4e0f-9a55-2f6d1c3b8a90";
        let group = |id: &str, state: &str| -> Value {
            json!({ "subscription_group_id": id, "subscription_state": state })
        };
        for spelling in
            [ID, "7D0C6F5E-4B1A-4E0F-9A55-2F6D1C3B8A90", "7d0c6f5e4b1a4e0f9a552f6d1c3b8a90"]
        {
            for (first, other, state) in [
                ("subscribed", "subscribed", "subscribed"),
                ("subscribed", "unsubscribed", "unsubscribed"),
                ("unsubscribed", "subscribed", "unsubscribed"),
            ] {
                let groups = [group("G", "unsubscribed"), group(spelling, first), group(ID, other)];
                let document = json!({ "subscription_groups": groups }).to_string();
                for user in [
                    Recipient::read(Uuid::nil(), &document).unwrap(),
                    Recipient::read_contact(Uuid::nil(), &document).unwrap(),
                ] {
                    assert_eq!(user.group_state(ID), Some(state), "{document}");
                    assert_eq!(user.is_in_group(ID), state == "subscribed", "{document}");
                    assert_eq!(
                        (user.group_state("G"), user.group_state("g")),
                        (Some("unsubscribed"), None)
                    );
                }
            }
        }
    }
}
