//! The user of a request that is about one user, by an identifier of any kind.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::mentions::Mention;
use super::profile::check;
use gateway::ApiError;
use gateway::formats::{Identifier, UserAlias};

/// The fields of a [`UserSelector`].
pub const FIELDS: [&str; 5] = ["external_id", "service_id", "user_alias", "email", "phone"];

/// One user. Exactly one of the fields is set.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct UserSelector {
    external_id: Option<Identifier>,
    /// The `service_id` of a merged user identifies the user who was kept.
    service_id: Option<ServiceId>,
    user_alias: Option<UserAlias>,
    /// Compared in lower case.
    email: Option<Email>,
    phone: Option<Phone>,
}

impl UserSelector {
    /// The name of the field that is set, and the user that it mentions.
    pub fn mention(&self) -> Result<(&'static str, Mention<'_>), ApiError> {
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
        let mut set = FIELDS
            .into_iter()
            .zip(mentions)
            .filter_map(|(name, mention)| mention.map(|mention| (name, mention)));
        match (set.next(), set.next()) {
            (Some(only), None) => Ok(only),
            _ => {
                let names = FIELDS.join(", ");
                Err(ApiError::invalid_field(format!("Exactly one of {names} is required")))
            }
        }
    }
}

/// Renames the workspace's other name for `service_id`, if it has one, in the fields of a request.
pub fn rename_alias(fields: &mut Map<String, Value>, alias: Option<&str>) {
    const SERVICE_ID: &str = "service_id";
    if let Some(alias) = alias
        && !fields.contains_key(SERVICE_ID)
        && let Some(id) = fields.remove(alias)
    {
        fields.insert(SERVICE_ID.to_owned(), id);
    }
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

/// A phone number in E.164; the plus may be missing.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", inline, extend("pattern" = r"^\+?[0-9]{7,15}$"))]
pub struct Phone {
    pub text: String,
    /// With its plus.
    pub number: String,
}

impl TryFrom<String> for Phone {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let digits = text.strip_prefix('+').unwrap_or(&text);
        if !(7..=15).contains(&digits.len()) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err("must be a phone number: + and 7 to 15 digits");
        }
        Ok(Self { number: format!("+{digits}"), text })
    }
}

#[cfg(test)]
mod tests {
    use gateway::Code;
    use serde_json::json;

    use super::*;

    fn read(body: &Value, alias: Option<&str>) -> Result<(String, String), (Code, String)> {
        let mut fields = body.as_object().unwrap().clone();
        rename_alias(&mut fields, alias);
        let read = gateway::fields::read::<UserSelector>(&fields);
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
        ] {
            let expected = (field.to_owned(), format!("{mention:?}"));
            assert_eq!(read(&json!({ field: value, "other": 1 }), None), Ok(expected));
        }
        let expected =
            ("service_id".to_owned(), format!("{:?}", Mention::ServiceId(id.parse().unwrap())));
        assert_eq!(read(&json!({ "their_id": id }), Some("their_id")), Ok(expected));
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
}
