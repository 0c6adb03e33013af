//! Reads from a stored document only what an audience asks for: a whole profile takes five times
//! as long, and an export reads millions.

use std::collections::BTreeSet;
use std::fmt;

use serde::Deserializer as _;
use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::Audience;
use crate::users::Recipient;
use crate::users::recipient::CustomAttributes;
use kit::json::{Tree, TreeObject};

const CUSTOM_ATTRIBUTES: &str = "custom_attributes";
const PUSH: &str = "push_subscribe";
const EMAIL: &str = "email_subscribe";
const APPS: &str = "apps";

/// The fields that an audience reads.
#[derive(Debug, Default)]
pub(super) struct Fields {
    /// Fields of the document that are read as a whole.
    names: BTreeSet<&'static str>,
    attributes: BTreeSet<String>,
}

impl Fields {
    pub fn in_audience(audience: &Audience) -> Self {
        let mut fields = Self::default();
        fields.add(audience);
        fields
    }

    fn add(&mut self, audience: &Audience) {
        match audience {
            Audience::And(nodes) | Audience::Or(nodes) => {
                nodes.iter().for_each(|node| self.add(node));
            }
            Audience::CustomAttribute { name, .. } => {
                self.attributes.insert(name.clone());
            }
            Audience::PushSubscriptionStatus(_) => {
                self.names.insert(PUSH);
            }
            Audience::EmailSubscriptionStatus(_) => {
                self.names.insert(EMAIL);
            }
            Audience::LastUsedApp(_) => {
                self.names.insert(APPS);
            }
            Audience::PurchaseProperty { .. } => {}
        }
    }

    /// Whether a field depends on the user's addresses.
    pub fn needs_addresses(&self) -> bool {
        self.names.contains(EMAIL)
    }

    /// The user with only these fields.
    pub fn read(&self, service_id: Uuid, document: &str) -> Result<Recipient, serde_json::Error> {
        let mut json = serde_json::Deserializer::from_str(document);
        let (profile, custom) = json.deserialize_map(self)?;
        json.end()?;
        Ok(Recipient { service_id, profile, custom, stopped: None })
    }
}

impl<'de> Visitor<'de> for &Fields {
    type Value = (Map<String, Value>, CustomAttributes);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a user's document")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut profile, mut custom) = (Map::new(), CustomAttributes::default());
        let is_wanted = |name: &str| {
            self.names.contains(name) || name == CUSTOM_ATTRIBUTES && !self.attributes.is_empty()
        };
        while let Some(name) = map.next_key_seed(Name(is_wanted))? {
            match name {
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
                Some(name) if name == CUSTOM_ATTRIBUTES => {
                    custom = map.next_value_seed(Attributes(&self.attributes))?.into();
                }
                Some(name) => {
                    profile.insert(name, map.next_value()?);
                }
            }
        }
        Ok((profile, custom))
    }
}

/// Reads `custom_attributes`: those with these names.
struct Attributes<'f>(&'f BTreeSet<String>);

impl<'de> DeserializeSeed<'de> for Attributes<'_> {
    type Value = TreeObject;

    fn deserialize<D: de::Deserializer<'de>>(self, json: D) -> Result<TreeObject, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Attributes<'_> {
    type Value = TreeObject;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of custom attributes")
    }

    fn visit_unit<E>(self) -> Result<TreeObject, E> {
        Ok(TreeObject::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TreeObject, A::Error> {
        let mut attributes = Vec::new();
        while let Some(name) = map.next_key_seed(Name(|name: &str| self.0.contains(name)))? {
            match name {
                Some(name) => {
                    let value = Tree::from_raw(map.next_value::<&RawValue>()?);
                    attributes.push((name.into(), value.map_err(de::Error::custom)?));
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(TreeObject::new(attributes))
    }
}

/// Reads a key: its text if it is one of the fields.
struct Name<W>(W);

impl<'de, W: Fn(&str) -> bool> DeserializeSeed<'de> for Name<W> {
    type Value = Option<String>;

    fn deserialize<D: de::Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl<W: Fn(&str) -> bool> Visitor<'_> for Name<W> {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field's name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok((self.0)(name).then(|| name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const DOCUMENT: &str = r#"{"email":"a@b","custom_attributes":{"tier":"gold","tier":"silver",
        "visits":[{"x":1}]},"email_subscribe":"opted_in","apps":[{"last_used":"x"}]}"#;

    /// The kept fields and custom attributes.
    fn read(audience: Value) -> (Value, String) {
        let audience = Audience::read(&(&audience).into()).unwrap();
        let user = Fields::in_audience(&audience).read(Uuid::nil(), DOCUMENT).unwrap();
        (user.profile.into(), user.custom.get().to_json())
    }

    #[test]
    fn only_what_the_audience_reads_is_kept() {
        let tier = json!({ "custom_attribute": {
            "custom_attribute_name": "tier", "comparison": "exists" } });
        let email =
            json!({ "email_subscription_status": { "comparison": "is", "value": "opted_in" } });
        let (silver, opted_in) =
            (r#"{"tier":"silver"}"#.to_owned(), json!({ "email_subscribe": "opted_in" }));
        assert_eq!(read(tier.clone()), (json!({}), silver.clone()));
        assert_eq!(read(email.clone()), (opted_in.clone(), "{}".to_owned()));
        assert_eq!(read(json!({ "AND": [tier, { "OR": [email] }] })), (opted_in, silver));
    }

    #[test]
    fn a_document_that_is_not_json_is_an_error() {
        let tier = json!({ "custom_attribute": {
            "custom_attribute_name": "tier", "comparison": "exists" } });
        let fields = Fields::in_audience(&Audience::read(&(&tier).into()).unwrap());
        for document in ["", "{", "[]", r#"{"custom_attributes":{"#, r#"{"a":1} x"#] {
            assert!(fields.read(Uuid::nil(), document).is_err(), "{document}");
        }
        let null = r#"{"custom_attributes":null}"#;
        assert!(fields.read(Uuid::nil(), null).is_ok());
    }
}
