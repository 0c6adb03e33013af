//! Listed users in requests, and properties for their templates.

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::order::{Named, Who};
use gateway::formats::{Identifier, UserAlias};
use kit::json::{self, ObjectText, TreeObject};
use people::users::identifier;
use people::users::profile::Alias;
use people::users::rows::Kind;

/// Maximum number of users in one request.
pub const MAX_USERS: usize = 50;

/// Maximum bytes of properties as compact JSON, as for those of events.
pub const MAX_PROPERTIES_BYTES: usize = 50 << 10;

/// The fields of a JSON object.
pub type Members = Map<String, Value>;

/// Bytes of an escape for one byte, as in `\u0041`.
const MAX_ESCAPE_BYTES: usize = 6;

/// Properties for templates. Held as text, because a request can have those of many users.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(
    with = "Members",
    inline,
    description = format!("At most {MAX_PROPERTIES_BYTES} bytes of JSON."),
)]
pub struct Properties(pub ObjectText);

impl<'de> Deserialize<'de> for Properties {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let too_large =
            || D::Error::custom(format!("must be at most {MAX_PROPERTIES_BYTES} bytes of JSON"));
        let json = <Box<RawValue>>::deserialize(deserializer)?;
        let json = json::compacted(json.get());
        // Before it is parsed: parsing takes many times the memory of the text.
        if json.len() > MAX_PROPERTIES_BYTES * MAX_ESCAPE_BYTES {
            return Err(too_large());
        }
        let properties = ObjectText::from(&TreeObject::read::<D::Error>(&json)?);
        if properties.as_str().len() > MAX_PROPERTIES_BYTES {
            return Err(too_large());
        }
        json::check_depth(properties.as_str()).map_err(D::Error::custom)?;
        Ok(Self(properties))
    }
}

/// A listed user; stored as JSON with the names of the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum User {
    ExternalUserId(Identifier),
    UserAlias(UserAlias),
}

/// The fields of which a recipient has exactly one.
pub const IDENTIFIER_FIELDS: &[&str] = &["external_user_id", "user_alias"];

impl User {
    /// The user of a recipient, which must have exactly one of the two fields.
    pub fn from_fields(id: Option<Identifier>, alias: Option<UserAlias>) -> Result<Self, String> {
        match (id, alias) {
            (Some(id), None) => Ok(Self::ExternalUserId(id)),
            (None, Some(alias)) => Ok(Self::UserAlias(alias)),
            _ => Err(format!("must have exactly one of {}", IDENTIFIER_FIELDS.join(" and "))),
        }
    }

    /// The identifier of the user in the store.
    pub fn key(&self) -> (Kind, String) {
        match self {
            Self::ExternalUserId(id) => (Kind::ExternalId, id.0.clone()),
            Self::UserAlias(UserAlias { alias_name, alias_label }) => {
                (Kind::Alias, Alias::key_of(&alias_label.0, &alias_name.0))
            }
        }
    }

    /// The identifier of the user, as in attribute objects.
    pub fn identifier(&self) -> identifier::Identifier<'_> {
        match self {
            Self::ExternalUserId(id) => identifier::Identifier::ExternalId((&id.0).into()),
            Self::UserAlias(UserAlias { alias_name, alias_label }) => {
                identifier::Identifier::UserAlias(identifier::UserAlias {
                    alias_name: (&alias_name.0).into(),
                    alias_label: (&alias_label.0).into(),
                })
            }
        }
    }
}

impl From<User> for Who {
    fn from(user: User) -> Self {
        match user {
            User::ExternalUserId(id) => Self::ExternalId(id.0),
            User::UserAlias(UserAlias { alias_name, alias_label }) => {
                Self::Alias { label: alias_label.0, name: alias_name.0 }
            }
        }
    }
}

impl From<User> for Named {
    /// A user without further data.
    fn from(user: User) -> Self {
        Who::from(user).into()
    }
}
