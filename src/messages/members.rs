//! Members of bodies that say what is sent, and to whom, as several calls have them. Every error
//! names the member; an explicit null means absent.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::order::{Named, Who};
use crate::audience::Audience;
use crate::users::identifier::{Identifier, UserAlias};
use crate::users::profile::{Alias, check};
use crate::users::rows::Kind;
use kit::json;

/// Users that one request may name.
pub const MOST_USERS: usize = 50;

/// Bytes of compact JSON of properties, as of those of events.
pub const MOST_PROPERTIES: usize = 50 << 10;

pub type Members = Map<String, Value>;

/// A user who is named; kept as JSON of the names that calls have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum User {
    ExternalUserId(String),
    UserAlias { alias_name: String, alias_label: String },
}

impl User {
    /// What the user is found by.
    pub fn key(&self) -> (Kind, String) {
        match self {
            Self::ExternalUserId(id) => (Kind::ExternalId, id.clone()),
            Self::UserAlias { alias_name, alias_label } => {
                (Kind::Alias, Alias::key_of(alias_label, alias_name))
            }
        }
    }

    pub fn identifier(&self) -> Identifier<'_> {
        match self {
            Self::ExternalUserId(id) => Identifier::ExternalId(id.into()),
            Self::UserAlias { alias_name, alias_label } => Identifier::UserAlias(UserAlias {
                alias_name: alias_name.into(),
                alias_label: alias_label.into(),
            }),
        }
    }
}

impl From<User> for Who {
    fn from(user: User) -> Self {
        match user {
            User::ExternalUserId(id) => Self::ExternalId(id),
            User::UserAlias { alias_name, alias_label } => {
                Self::Alias { label: alias_label, name: alias_name }
            }
        }
    }
}

pub fn member<'a>(members: &'a Members, name: &str) -> Option<&'a Value> {
    members.get(name).filter(|value| !value.is_null())
}

/// A string that may be there.
pub fn text<'a>(members: &'a Members, name: &str) -> Result<Option<&'a str>, String> {
    let text = |value: &'a Value| value.as_str().ok_or_else(|| format!("{name} must be a string"));
    member(members, name).map(text).transpose()
}

pub fn required_text(members: &Members, name: &str) -> Result<String, String> {
    text(members, name)?.map(str::to_owned).ok_or_else(|| format!("{name} is required"))
}

/// A switch that is off where it is not there.
pub fn switch(members: &Members, name: &str) -> Result<bool, String> {
    member(members, name).map_or(Ok(false), |value| {
        value.as_bool().ok_or_else(|| format!("{name} must be true or false"))
    })
}

/// A connected audience that may be there.
pub fn audience(members: &Members, name: &str) -> Result<Option<Audience>, String> {
    let Some(value) = member(members, name) else { return Ok(None) };
    Audience::read(value).map(Some).map_err(|error| match error.path.as_str() {
        "" => format!("{name}: {}", error.text),
        _ => format!("{name}.{error}"),
    })
}

/// An object that may be there.
pub fn object<'a>(members: &'a Members, name: &str) -> Result<Option<&'a Members>, String> {
    let object =
        |value: &'a Value| value.as_object().ok_or_else(|| format!("{name} must be an object"));
    member(members, name).map(object).transpose()
}

/// Properties that may be there; `path` is that of what they are in, with its dot.
pub fn properties(members: &Members, name: &str, path: &str) -> Result<Option<Members>, String> {
    let Some(value) = member(members, name) else { return Ok(None) };
    let properties = value.as_object().ok_or_else(|| format!("{path}{name} must be an object"))?;
    let text = value.to_string();
    if text.len() > MOST_PROPERTIES {
        return Err(format!("{path}{name} must be at most {MOST_PROPERTIES} bytes of JSON"));
    }
    json::check_levels(&text).map_err(|error| format!("{path}{name} {error}"))?;
    Ok(Some(properties.clone()))
}

/// The elements of an array of users, `what` they are, each read with its path; none where there
/// is no array.
pub fn users<T>(
    members: &Members,
    name: &str,
    what: &str,
    read: impl Fn(&Value, &str) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let Some(value) = member(members, name) else { return Ok(Vec::new()) };
    let all = value.as_array().ok_or_else(|| format!("{name} must be an array of {what}"))?;
    if all.len() > MOST_USERS {
        return Err(format!("{name} must have at most {MOST_USERS} users"));
    }
    all.iter().enumerate().map(|(i, one)| read(one, &format!("{name}[{i}]"))).collect()
}

/// Whom a recipient names: exactly one of the two.
pub fn user(members: &Members, path: &str) -> Result<User, String> {
    match (member(members, "external_user_id"), member(members, "user_alias")) {
        (Some(id), None) => {
            identifier(id, &format!("{path}.external_user_id")).map(User::ExternalUserId)
        }
        (None, Some(alias)) => user_alias(alias, &format!("{path}.user_alias")),
        _ => Err(format!("{path} must have one of external_user_id and user_alias")),
    }
}

pub fn user_alias(value: &Value, path: &str) -> Result<User, String> {
    let members = value.as_object().ok_or_else(|| format!("{path} must be an object"))?;
    let part = |name: &str| {
        let path = format!("{path}.{name}");
        let part = member(members, name).ok_or_else(|| format!("{path} is required"))?;
        identifier(part, &path)
    };
    Ok(User::UserAlias { alias_name: part("alias_name")?, alias_label: part("alias_label")? })
}

pub fn identifier(value: &Value, path: &str) -> Result<String, String> {
    let text = value.as_str().ok_or_else(|| format!("{path} must be a string"))?;
    check::identifier_text(text).map_err(|error| format!("{path} {error}"))?;
    Ok(text.to_owned())
}

/// A user who is named and nothing more.
pub fn named(user: User) -> Named {
    Named {
        who: user.into(),
        trigger_properties: None,
        canvas_entry_properties: None,
        event_properties: None,
    }
}
