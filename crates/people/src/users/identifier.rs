//! The identifiers of users in requests.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::address;

/// The identifier that decides which user an object belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Identifier<'a> {
    #[serde(borrow)]
    ExternalId(Cow<'a, str>),
    /// Creates no user.
    ServiceId(Uuid),
    /// Always with `update_only`.
    #[serde(borrow)]
    UserAlias(UserAlias<'a>),
    /// Stored unchanged, and compared in lower case.
    #[serde(borrow)]
    Email(Cow<'a, str>),
}

impl Identifier<'_> {
    /// Precedence: if an object has several identifiers, the lowest rank is used.
    pub fn rank(&self) -> u8 {
        match self {
            Self::ExternalId(_) => 0,
            Self::ServiceId(_) => 1,
            Self::UserAlias(_) => 2,
            Self::Email(_) => 3,
        }
    }

    /// A text that is the same for the same identifier, and for no other.
    pub fn key(&self) -> String {
        let rank = self.rank();
        match self {
            Self::ExternalId(id) => format!("{rank}{id}"),
            Self::ServiceId(id) => format!("{rank}{id}"),
            Self::UserAlias(UserAlias { alias_name, alias_label }) => {
                format!("{rank}{alias_label}\u{1f}{alias_name}")
            }
            Self::Email(email) => format!("{rank}{}", address::compared(email)),
        }
    }
}

/// An alias in the form of the API.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct UserAlias<'a> {
    #[serde(borrow)]
    pub alias_name: Cow<'a, str>,
    #[serde(borrow)]
    pub alias_label: Cow<'a, str>,
}
