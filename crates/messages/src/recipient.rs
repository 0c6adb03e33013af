//! Listed users in requests, and properties for their templates.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::order::{Named, Who};
use gateway::formats::{Identifier, UserAlias};
use kit::json::{self, TreeObject};
use people::users::identifier;
use people::users::profile::Alias;
use people::users::rows::Kind;

/// Maximum number of users in one request.
pub const MAX_USERS: usize = 50;

/// Maximum bytes of properties as compact JSON, as for those of events.
pub const MAX_PROPERTIES_BYTES: usize = 50 << 10;

/// The fields of a JSON object.
pub type Members = Map<String, Value>;

/// Properties for templates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "TreeObject")]
#[schemars(
    with = "Members",
    inline,
    description = format!("At most {MAX_PROPERTIES_BYTES} bytes of JSON."),
)]
pub struct Properties(pub TreeObject);

impl TryFrom<TreeObject> for Properties {
    type Error = String;

    fn try_from(properties: TreeObject) -> Result<Self, String> {
        let text = properties.to_json();
        if text.len() > MAX_PROPERTIES_BYTES {
            return Err(format!("must be at most {MAX_PROPERTIES_BYTES} bytes of JSON"));
        }
        json::check_depth(&text)?;
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

impl From<User> for Named {
    /// A user without further data.
    fn from(user: User) -> Self {
        let who = match user {
            User::ExternalUserId(id) => Who::ExternalId(id.0),
            User::UserAlias(UserAlias { alias_name, alias_label }) => {
                Who::Alias { label: alias_label.0, name: alias_name.0 }
            }
        };
        Self {
            who,
            trigger_properties: None,
            canvas_entry_properties: None,
            event_properties: None,
        }
    }
}
