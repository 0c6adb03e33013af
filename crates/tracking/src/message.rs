//! The message from the gateway to the workers: the objects of one request that belong to one
//! partition, checked and normalized, so that a worker only applies them.
//!
//! A message is a [`Batch`] as compact JSON, which an operator can read and a worker decodes
//! without copying:
//!
//! ```json
//! {"v":1,"workspace":7,"received_at":1624899763032,"objects":[
//!   {"attributes":{"user":{"external_id":"ann"},"fields":{"first_name":"Ann","phone":null},
//!                  "custom":{"tier":"gold","old":null},"inc":{"visits":1}}},
//!   {"event":{"user":{"email":"bob@acme.example"},"name":"seen","time":1624899763000}},
//!   {"purchase":{"user":{"user_alias":{"alias_name":"c","alias_label":"crm"}},
//!                "update_only":true,"product_id":"tea","currency":"EUR","price":2500000,
//!                "quantity":2,"time":1624899763000,"properties":{"size":"L"}}}]}
//! ```
//!
//! An earlier version ignores fields that a later one adds; a change that it must not ignore gets
//! another `v`.

use std::borrow::Cow;
use std::fmt;

use schemars::JsonSchema;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::Kind;
use log::{PayloadError, payload};
use people::users::consent::is_empty_state;
use people::users::identifier::{Identifier, UserAlias};
use people::users::profile::Field;
use runtime::topics;

/// The newest version that this program writes and reads. A batch has the oldest version that can
/// express it, so that earlier programs can read it if possible.
pub const VERSION: u32 = 2;

/// The objects of one request that belong to one partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Batch<'a> {
    /// 2 if an object has `groups` or is an `identity`, else 1.
    pub v: u32,
    /// The workspace's id in the store.
    pub workspace: i32,
    /// When the gateway accepted the request, in milliseconds since the epoch. No time of an object
    /// is later.
    pub received_at: i64,
    /// The objects, in the order in which they are applied.
    #[serde(borrow)]
    pub objects: Vec<Object<'a>>,
}

impl<'a> Batch<'a> {
    pub fn new(workspace: i32, received_at: i64, objects: Vec<Object<'a>>) -> Self {
        let v = objects.iter().map(Object::version).max().unwrap_or(1);
        Self { v, workspace, received_at, objects }
    }

    /// Reads a payload; borrows strings without escapes from it.
    pub fn decode(payload: &'a [u8]) -> Result<Self, PayloadError> {
        let mut batch =
            payload::read(topics::TRACKING, VERSION, payload, |batch: &Self| Some(batch.v))?;
        batch.objects.iter_mut().for_each(Object::remove_empty_states);
        Ok(batch)
    }
}

/// The name of the field with the objects in a payload.
pub const OBJECTS: &str = "objects";

/// One object of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Object<'a> {
    #[serde(borrow)]
    Attributes(Attributes<'a>),
    #[serde(borrow)]
    Event(Event<'a>),
    #[serde(borrow)]
    Purchase(Purchase<'a>),
    /// Requires version 2. A message with an identity change has no other kinds of objects.
    #[serde(borrow)]
    Identity(Identity<'a>),
}

impl<'a> Object<'a> {
    /// The array of the request that had the object.
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Attributes(_) | Self::Identity(_) => Kind::Attributes,
            Self::Event(_) => Kind::Events,
            Self::Purchase(_) => Kind::Purchases,
        }
    }

    pub fn user(&self) -> &Identifier<'a> {
        match self {
            Self::Attributes(attributes) => &attributes.user,
            Self::Event(event) => &event.user,
            Self::Purchase(purchase) => &purchase.user,
            Self::Identity(identity) => &identity.user,
        }
    }

    /// The address that the object is about, instead of a user.
    pub fn address(&self) -> Option<&DecidedAddress<'a>> {
        match self {
            Self::Attributes(attributes) => attributes.address.as_ref(),
            Self::Event(_) | Self::Purchase(_) | Self::Identity(_) => None,
        }
    }

    /// Whether the object is dropped if the user does not exist, instead of creating the user.
    pub fn update_only(&self) -> bool {
        match self {
            Self::Attributes(attributes) => attributes.update_only,
            Self::Event(event) => event.update_only,
            Self::Purchase(purchase) => purchase.update_only,
            Self::Identity(_) => true,
        }
    }

    /// Removes fields with states that have no state. Earlier programs wrote them.
    fn remove_empty_states(&mut self) {
        let Self::Attributes(Attributes { fields, .. }) = self else { return };
        fields.0.retain(|(name, value)| {
            !Field::from_name(name).is_some_and(|field| is_empty_state(field, value.get()))
        });
    }

    /// The oldest version of a batch that can have the object.
    fn version(&self) -> u32 {
        match self {
            Self::Identity(_) => 2,
            Self::Attributes(attributes) if !attributes.groups.is_empty() => 2,
            _ => 1,
        }
    }
}

/// Changes of a user's profile. Each name occurs only once in all of its fields together, except
/// that it can be in both `add` and `remove`, which then have no element in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Attributes<'a> {
    #[serde(borrow)]
    pub user: Identifier<'a>,
    /// If true, no user is created.
    #[serde(default, skip_serializing_if = "is_false")]
    pub update_only: bool,
    /// Fields of the profile by name, with values in the stored form; null removes a field, except
    /// one with subscription states.
    #[serde(default, borrow, skip_serializing_if = "Entries::is_empty")]
    pub fields: Entries<'a>,
    /// Custom attributes to set, with unchanged values; null removes an attribute.
    #[serde(default, borrow, skip_serializing_if = "Entries::is_empty")]
    pub custom: Entries<'a>,
    /// Numbers to add to custom attributes.
    #[serde(default, borrow, skip_serializing_if = "Entries::is_empty")]
    pub inc: Entries<'a>,
    /// Arrays of elements to add to custom attributes that are arrays.
    #[serde(default, borrow, skip_serializing_if = "Entries::is_empty")]
    pub add: Entries<'a>,
    /// Arrays of elements to remove from custom attributes that are arrays.
    #[serde(default, borrow, skip_serializing_if = "Entries::is_empty")]
    pub remove: Entries<'a>,
    /// States in subscription groups, by group id; other groups do not change. Requires version 2.
    #[serde(default, borrow, skip_serializing_if = "Entries::is_empty")]
    pub groups: Entries<'a>,
    /// If it is there, the states are decisions about this address, and no user changes. Earlier
    /// versions do not know the field: for them, `user` has the email, or no user.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub address: Option<DecidedAddress<'a>>,
}

/// The address that a decision is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DecidedAddress<'a> {
    Email(#[serde(borrow)] Cow<'a, str>),
    /// In E.164, with its plus.
    Phone(#[serde(borrow)] Cow<'a, str>),
    /// The [hash](people::users::suppressions::Key::hash) of an email address, in hexadecimal.
    EmailHash(#[serde(borrow)] Cow<'a, str>),
}

impl Attributes<'static> {
    /// States of emails (`email_subscribe`) and of groups that are decided about an address.
    pub fn about_address(
        address: DecidedAddress<'static>,
        fields: Entries<'static>,
        groups: Entries<'static>,
    ) -> Self {
        let user = match &address {
            DecidedAddress::Email(email) => Identifier::Email(email.clone()),
            DecidedAddress::Phone(_) | DecidedAddress::EmailHash(_) => {
                Identifier::ServiceId(Uuid::nil())
            }
        };
        Self { address: Some(address), ..Self::states(user, fields, groups) }
    }

    /// States of emails (`email_subscribe`) and of groups of an existing user.
    pub fn states(
        user: Identifier<'static>,
        fields: Entries<'static>,
        groups: Entries<'static>,
    ) -> Self {
        Self {
            user,
            update_only: true,
            fields,
            custom: Entries::default(),
            inc: Entries::default(),
            add: Entries::default(),
            remove: Entries::default(),
            groups,
            address: None,
        }
    }
}

/// A change of a user's identifiers. If it names two users, it is in the partitions of both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Identity<'a> {
    #[serde(borrow)]
    pub user: Identifier<'a>,
    #[serde(borrow)]
    pub change: IdentityChange<'a>,
    /// Whether this is the copy for the partition of the other user.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_second: bool,
    /// Whether nothing changes if `user` identifies several users. Workers of earlier versions
    /// choose one of them.
    #[serde(default, skip_serializing_if = "is_false")]
    pub needs_one_match: bool,
}

impl<'a> Identity<'a> {
    pub fn new(user: Identifier<'a>, change: IdentityChange<'a>) -> Self {
        Self { user, change, is_second: false, needs_one_match: false }
    }

    /// The other user that the change names.
    pub fn other(&self) -> Option<Identifier<'a>> {
        match &self.change {
            IdentityChange::MergeInto(kept) => Some(kept.clone()),
            IdentityChange::Identify(id) | IdentityChange::RenameExternalId(id) => {
                Some(Identifier::ExternalId(id.clone()))
            }
            IdentityChange::Erase
            | IdentityChange::AddAlias(_)
            | IdentityChange::RenameAlias(_)
            | IdentityChange::RemoveExternalId => None,
        }
    }

    /// The user whose partition this copy is in.
    pub fn partition_identifier(&self) -> Identifier<'a> {
        self.other().filter(|_| self.is_second).unwrap_or_else(|| self.user.clone())
    }

    /// The copies of the change, one for each user that it names.
    pub fn copies(self) -> impl Iterator<Item = Self> {
        let second = self.other().map(|_| Self { is_second: true, ..self.clone() });
        std::iter::once(self).chain(second)
    }
}

/// The change of an identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IdentityChange<'a> {
    /// The user is deleted.
    Erase,
    /// The user gets an alias. If the alias itself identifies the user, the user is created.
    #[serde(borrow)]
    AddAlias(UserAlias<'a>),
    /// The alias that identifies the user gets this name.
    #[serde(borrow)]
    RenameAlias(Cow<'a, str>),
    /// The user, who has no external id, gets this one, or is merged into the user who has it.
    #[serde(borrow)]
    Identify(Cow<'a, str>),
    /// The user is merged into this one.
    #[serde(borrow)]
    MergeInto(Identifier<'a>),
    /// The user gets this external id. The former one still identifies the user.
    #[serde(borrow)]
    RenameExternalId(Cow<'a, str>),
    /// This former external id no longer identifies the user.
    RemoveExternalId,
}

/// Something that a user did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Event<'a> {
    #[serde(borrow)]
    pub user: Identifier<'a>,
    /// If true, no user is created.
    #[serde(default, skip_serializing_if = "is_false")]
    pub update_only: bool,
    /// 1 to 255 characters.
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    /// Milliseconds since the epoch.
    pub time: i64,
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub app_id: Option<Cow<'a, str>>,
    /// A non-empty object without null values.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub properties: Option<Json<'a>>,
}

/// A purchase of `quantity` units.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Purchase<'a> {
    #[serde(borrow)]
    pub user: Identifier<'a>,
    /// If true, no user is created.
    #[serde(default, skip_serializing_if = "is_false")]
    pub update_only: bool,
    /// 1 to 255 characters.
    #[serde(borrow)]
    pub product_id: Cow<'a, str>,
    /// An active code of ISO 4217, in upper case.
    #[serde(borrow)]
    pub currency: Cow<'a, str>,
    /// Price of one unit, in millionths of the currency, from 0.
    pub price: i64,
    /// 1 to 100.
    pub quantity: u8,
    /// Milliseconds since the epoch.
    pub time: i64,
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub app_id: Option<Cow<'a, str>>,
    /// A non-empty object without null values.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub properties: Option<Json<'a>>,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// A value as compact JSON that every reader can parse. In fields of messages, always an object.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(with = "Map<String, Value>", inline)]
pub struct Json<'a>(Cow<'a, RawValue>);

impl<'a> Json<'a> {
    /// Compacts JSON text; the error has the position where it is invalid.
    pub fn compact(json: Cow<'a, str>) -> Result<Self, String> {
        match json {
            Cow::Borrowed(json) => serde_json::from_str(json).map(Cow::Borrowed),
            Cow::Owned(json) => RawValue::from_string(json).map(Cow::Owned),
        }
        .map(Self)
        .map_err(|error| error.to_string())
    }

    pub fn get(&self) -> &str {
        self.0.get()
    }
}

impl PartialEq for Json<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Json<'_> {}

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Json<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&RawValue>::deserialize(deserializer).map(|json| Self(Cow::Borrowed(json)))
    }
}

/// Names and values in order; an object in the message.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(with = "Map<String, Value>", inline)]
pub struct Entries<'a>(pub Vec<(Cow<'a, str>, Json<'a>)>);

impl Entries<'_> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Entries<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor;

        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some((Name(name), value)) = map.next_entry()? {
                    entries.push((name, value));
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(EntriesVisitor)
    }
}

/// Borrowed if possible; serde never borrows a plain [`Cow`] as a map's key.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = concat!(
        r#"{"v":1,"workspace":7,"received_at":1624899763032,"objects":["#,
        r#"{"attributes":{"user":{"external_id":"ann"},"fields":{"first_name":"Ann","phone":null},"#,
        r#""custom":{"tier":"gold","old":null},"inc":{"visits":1},"add":{"a":[1]},"remove":{"b":[{}]}}},"#,
        r#"{"event":{"user":{"email":"Bob@acme.example"},"name":"seen","time":1624899763000}},"#,
        r#"{"event":{"user":{"service_id":"0190b9a6-1c00-7000-8000-000000000000"},"name":"\"","time":1,"app_id":"x"}},"#,
        r#"{"purchase":{"user":{"user_alias":{"alias_name":"c","alias_label":"crm"}},"update_only":true,"#,
        r#""product_id":"tea","currency":"EUR","price":2500000,"quantity":2,"time":-5,"properties":{"n":1.10}}}]}"#,
    );

    #[test]
    fn encoded_values_are_decoded() {
        let batch = Batch::decode(EXAMPLE.as_bytes()).unwrap();
        assert_eq!(serde_json::to_string(&batch).unwrap(), EXAMPLE);
        let Object::Purchase(tea) = &batch.objects[3] else { panic!("{:?}", batch.objects[3]) };
        assert_eq!((tea.price, tea.quantity, tea.update_only), (2_500_000, 2, true));
        assert_eq!(tea.properties.as_ref().map(Json::get), Some(r#"{"n":1.10}"#));
        let only: Vec<bool> = batch.objects.iter().map(Object::update_only).collect();
        assert_eq!(only, [false, false, false, true]);
    }

    /// Earlier programs wrote them.
    #[test]
    fn fields_without_a_state_are_not_read() {
        let payload = br#"{"v":1,"workspace":7,"received_at":5,"objects":[{"attributes":{
            "user":{"external_id":"a"},"fields":{"email_subscribe":null,"push_subscribe":"",
            "subscription_groups":[],"phone":null,"push_tokens":[]}}}]}"#;
        let batch = Batch::decode(payload).unwrap();
        let Object::Attributes(attributes) = &batch.objects[0] else { panic!("{batch:?}") };
        let names: Vec<&str> = attributes.fields.0.iter().map(|(name, _)| name.as_ref()).collect();
        assert_eq!(names, ["phone", "push_tokens"]);
    }

    #[test]
    fn texts_without_escapes_are_borrowed() {
        let batch = Batch::decode(EXAMPLE.as_bytes()).unwrap();
        let Object::Attributes(ann) = &batch.objects[0] else { panic!("{:?}", batch.objects[0]) };
        assert!(matches!(ann.user, Identifier::ExternalId(Cow::Borrowed("ann"))));
        assert!(matches!(ann.custom.0[0], (Cow::Borrowed("tier"), Json(Cow::Borrowed(_)))));
        let Object::Event(seen) = &batch.objects[1] else { panic!("{:?}", batch.objects[1]) };
        assert!(matches!(seen.name, Cow::Borrowed("seen")));
        let Object::Purchase(tea) = &batch.objects[3] else { panic!("{:?}", batch.objects[3]) };
        assert!(matches!(tea.properties, Some(Json(Cow::Borrowed(_)))));
        let Identifier::UserAlias(alias) = &tea.user else { panic!("{:?}", tea.user) };
        assert!(matches!(alias.alias_name, Cow::Borrowed("c")));
    }

    #[test]
    fn a_change_of_identity_is_of_a_version_of_its_own() {
        let user = Identifier::ExternalId("ann".into());
        let change = IdentityChange::MergeInto(Identifier::ExternalId("bob".into()));
        let copies = Identity::new(user, change).copies().map(Object::Identity).collect();
        let batch = Batch::new(7, 5, copies);
        let text = serde_json::to_string(&batch).unwrap();
        let copy = r#"{"identity":{"user":{"external_id":"ann"},"change":{"merge_into":{"external_id":"bob"}}"#;
        let expected = format!(
            r#"{{"v":2,"workspace":7,"received_at":5,"objects":[{copy}}}}},{copy},"is_second":true}}}}]}}"#
        );
        assert_eq!(text, expected);
        assert_eq!(Batch::decode(text.as_bytes()).unwrap(), batch);
    }

    #[test]
    fn fields_of_later_versions_are_ignored_and_other_versions_rejected() {
        let more = EXAMPLE.replacen("\"v\":1,", "\"v\":1,\"more\":{},", 1);
        assert!(Batch::decode(more.as_bytes()).is_ok());
        for (payload, version) in [
            (EXAMPLE.replacen("\"v\":1", "\"v\":4", 1), 4),
            (r#"{"v":3,"objects":{}}"#.to_owned(), 3),
        ] {
            let error = Batch::decode(payload.as_bytes()).unwrap_err();
            assert!(matches!(error, PayloadError::Newer { topic: topics::TRACKING, .. }));
            assert!(error.to_string().contains(&format!("has version {version},")), "{error}");
        }
        for damaged in ["", "{}", r#"{"v":1}"#, "[1]", "\u{0}"] {
            let error = Batch::decode(damaged.as_bytes()).unwrap_err();
            assert!(matches!(error, PayloadError::Damaged { .. }), "{damaged:?}: {error}");
        }
    }
}
