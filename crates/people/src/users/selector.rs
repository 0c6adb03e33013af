//! The user of a request that is about one user, by an identifier of any kind.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::mentions::{self, Mention, MentionError};
use super::profile::check;
use super::rows::{self, For, StoredUser};
use gateway::ApiError;
use gateway::formats::{Identifier, UserAlias};
use kit::phone;
use store::Tx;

/// The ids of users with the same address that an error names.
const NAMED_USERS: usize = 10;

/// The fields of a [`UserSelector`].
pub const FIELDS: [&str; 5] = ["external_id", "service_id", "user_alias", "email", "phone"];

/// One user. Exactly one of the fields is set.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct UserSelector {
    external_id: Option<Identifier>,
    /// The `service_id` of a merged user identifies the user who was kept.
    service_id: Option<ServiceId>,
    user_alias: Option<UserAlias>,
    /// Compared in lower case. The two spellings of an international host name are equal.
    email: Option<Email>,
    phone: Option<Phone>,
}

impl UserSelector {
    /// The name of the field that is set, and the user that it mentions.
    pub fn mention(&self) -> Result<(&'static str, Mention<'_>), ApiError> {
        let mut set = self.mentions();
        match (set.next(), set.next()) {
            (Some(only), None) => Ok(only),
            _ => {
                let names = FIELDS.join(", ");
                Err(ApiError::invalid_field(format!("Exactly one of {names} is required")))
            }
        }
    }

    /// The same for every field that is set, for requests that need none.
    pub fn mentions(&self) -> impl Iterator<Item = (&'static str, Mention<'_>)> {
        let Self { external_id, service_id, user_alias, email, phone } = self;
        let mentions = [
            external_id.as_ref().map(|Identifier(id)| Mention::ExternalId(id)),
            service_id.as_ref().map(|id| Mention::ServiceId(id.id)),
            user_alias.as_ref().map(|alias| Mention::Alias {
                label: &alias.alias_label.0,
                name: &alias.alias_name.0,
            }),
            email.as_ref().map(|Email(email)| Mention::Email(email)),
            phone.as_ref().map(|phone| Mention::Phone(&phone.number)),
        ];
        FIELDS
            .into_iter()
            .zip(mentions)
            .filter_map(|(name, mention)| mention.map(|mention| (name, mention)))
    }
}

/// The only user that a field mentions. An address or a number of several users is an error.
pub async fn find(
    tx: &mut Tx,
    workspace: i32,
    (field, mention): (&str, Mention<'_>),
    purpose: For,
) -> Result<Option<StoredUser>, ApiError> {
    let found = mentions::find(tx, workspace, &[mention]).await.map_err(|error| match error {
        error @ MentionError::TooMany => ApiError::Invalid(error.to_string()),
        MentionError::Store(error) => error.into(),
    })?;
    let ids: Vec<Uuid> = found.into_iter().flatten().collect::<BTreeSet<_>>().into_iter().collect();
    match ids[..] {
        [] => Ok(None),
        [id] => Ok(rows::find_users(tx, workspace, &[id], purpose).await?.pop()),
        _ => Err(several(field, &ids)),
    }
}

/// The error if several users have an address or a number.
pub fn several(field: &str, ids: &[Uuid]) -> ApiError {
    let (users, first_ids) = (ids.len(), first_ids(ids));
    ApiError::Invalid(format!("{users} users have this {field}. Use a service_id: {first_ids}"))
}

/// The first ids, for an error.
pub(super) fn first_ids(ids: &[Uuid]) -> String {
    let texts: Vec<String> = ids.iter().take(NAMED_USERS).map(Uuid::to_string).collect();
    let more = if ids.len() > NAMED_USERS { ", …" } else { "" };
    texts.join(", ") + more
}

/// Renames the workspace's other name for `service_id`, if it has one, in the fields of a request;
/// also with an `s` at its end, for several ids. A field must not be set under both names: one of
/// the values would be lost.
pub fn rename_alias(fields: &mut Map<String, Value>, alias: Option<&str>) -> Result<(), ApiError> {
    let Some(alias) = alias else { return Ok(()) };
    for (other, name) in [(alias.to_owned(), "service_id"), (format!("{alias}s"), "service_ids")] {
        let Some(value) = fields.remove(&other) else { continue };
        if !fields.get(name).is_some_and(is_set) {
            fields.insert(name.to_owned(), value);
        } else if is_set(&value) {
            let text = format!("{other} must not be set together with {name}");
            return Err(ApiError::invalid_field(text));
        }
    }
    Ok(())
}

/// Whether a field names users. An empty array names nobody.
pub fn is_set(value: &Value) -> bool {
    !value.is_null() && value.as_array().is_none_or(|all| !all.is_empty())
}

/// A service_id, and its text in the request.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "Uuid", inline)]
pub struct ServiceId {
    pub text: String,
    pub id: Uuid,
}

impl TryFrom<String> for ServiceId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let id = Uuid::try_parse(&text).map_err(|_| "must be a UUID")?;
        Ok(Self { text, id })
    }
}

/// An email address.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", inline)]
pub struct Email(pub String);

impl TryFrom<String> for Email {
    type Error = String;

    fn try_from(email: String) -> Result<Self, String> {
        check::email(&email).map(|()| Self(email))
    }
}

/// A phone number with 7 to 15 digits. It may begin with `+`, `00` or the country code, and have
/// spaces and the characters `-./()` between its digits.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", inline, extend(
    "pattern" = phone::PATTERN, "not" = { "pattern": phone::TRUNK_PREFIX },
))]
pub struct Phone {
    pub text: String,
    /// With its plus.
    pub number: String,
}

impl TryFrom<String> for Phone {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let number = phone::e164(&text).ok_or("must be a phone number: + and 7 to 15 digits")?;
        Ok(Self { text, number })
    }
}

#[cfg(test)]
mod tests {
    use gateway::Code;
    use serde_json::json;

    use super::*;

    fn read(body: &Value, alias: Option<&str>) -> Result<(String, String), (Code, String)> {
        let mut fields = body.as_object().unwrap().clone();
        let renamed = rename_alias(&mut fields, alias);
        let read = renamed.and_then(|()| gateway::fields::read::<UserSelector>(&fields));
        read.and_then(|selector| {
            let (name, mention) = selector.mention()?;
            Ok((name.to_owned(), format!("{mention:?}")))
        })
        .map_err(|error| (error.code(), error.message().into_owned()))
    }

    #[test]
    fn a_user_has_one_identifier_of_any_kind() {
        let id = "018bcfe5-6800-7000-8001-000000000001";
        let alias = json!({ "alias_name": "7", "alias_label": "crm" });
        for (field, value, mention) in [
            ("external_id", json!("ann"), Mention::ExternalId("ann")),
            ("service_id", json!(id), Mention::ServiceId(id.parse().unwrap())),
            ("user_alias", alias, Mention::Alias { label: "crm", name: "7" }),
            ("email", json!("Ann@acme.example"), Mention::Email("Ann@acme.example")),
            ("phone", json!("15550100"), Mention::Phone("+15550100")),
            ("phone", json!("001 (555) 01-00"), Mention::Phone("+15550100")),
        ] {
            let expected = (field.to_owned(), format!("{mention:?}"));
            assert_eq!(read(&json!({ field: value, "other": 1 }), None), Ok(expected));
        }
        let expected =
            ("service_id".to_owned(), format!("{:?}", Mention::ServiceId(id.parse().unwrap())));
        for body in [
            json!({ "their_id": id }),
            json!({ "their_id": id, "service_id": null }),
            json!({ "their_id": null, "service_id": id }),
            json!({ "their_id": id, "their_ids": [] }),
        ] {
            assert_eq!(read(&body, Some("their_id")).as_ref(), Ok(&expected), "{body}");
        }
        for body in [
            json!({ "their_id": id, "service_id": id }),
            json!({ "their_id": id, "their_ids": [id] }),
        ] {
            let (code, _) = read(&body, Some("their_id")).unwrap_err();
            assert_eq!(code, Code::InvalidField, "{body}");
        }
    }

    #[test]
    fn several_ids_have_one_name() {
        let renamed = |body: Value| {
            let mut fields = body.as_object().unwrap().clone();
            rename_alias(&mut fields, Some("uid")).map(|()| Value::from(fields)).ok()
        };
        for (body, expected) in [
            (json!({ "uids": ["a"] }), Some(json!({ "service_ids": ["a"] }))),
            (json!({ "uids": ["a"], "service_ids": [] }), Some(json!({ "service_ids": ["a"] }))),
            (json!({ "uids": [], "service_ids": ["a"] }), Some(json!({ "service_ids": ["a"] }))),
            (json!({ "uids": ["a"], "service_ids": ["b"] }), None),
        ] {
            assert_eq!(renamed(body.clone()), expected, "{body}");
        }
    }

    #[test]
    fn other_identifiers_are_rejected() {
        for body in [
            json!({}),
            json!({ "external_id": null }),
            json!({ "external_id": "a", "email": "a@b.example" }),
            json!({ "external_id": "" }),
            json!({ "external_id": 7 }),
            json!({ "external_ids": ["a"] }),
            json!({ "service_id": "a" }),
            json!({ "email": "a" }),
            json!({ "phone": "555" }),
            json!({ "user_alias": { "alias_name": "7" } }),
        ] {
            assert!(read(&body, None).is_err(), "{body}");
        }
    }

    #[test]
    fn few_of_many_users_are_named() {
        let ids: Vec<Uuid> = (0..20).map(Uuid::from_u128).collect();
        let text = several("phone", &ids).message().into_owned();
        assert!(text.starts_with("20 users have this phone"), "{text}");
        assert_eq!(text.matches("00000000-").count(), NAMED_USERS, "{text}");
    }
}
