//! The request of `POST /users/export/ids`.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::request::FieldNames;
use crate::warnings;
use gateway::ApiError;
use gateway::formats::{Identifier, List, UserAlias};
use gateway::warnings::Warning;
use people::users::mentions::Mention;
use people::users::selector::{self, Email, Phone, ServiceId};
use proof::fields::{self, FieldSet};

/// Maximum number of identifiers in a request.
const MAX: usize = 50;

/// The fields that name users.
const NAMING: &str = "external_ids, service_ids, user_aliases, email_addresses and phones";

/// Names that other requests, or others of this family of APIs, have for these fields. If one of
/// them were ignored, the response would lack a user without a word.
const OTHER_NAMES: [(&str, &str); 8] = [
    ("external_id", "external_ids"),
    ("external_user_id", "external_ids"),
    ("external_user_ids", "external_ids"),
    ("user_alias", "user_aliases"),
    ("email", "email_addresses"),
    ("emails", "email_addresses"),
    ("phone_number", "phones"),
    ("phone_numbers", "phones"),
];

/// Users to export, by 1 to 50 identifiers in total.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "ExportUsersRequest")]
pub struct UsersRequest {
    external_ids: Option<List<Identifier, 0, MAX>>,
    service_ids: Option<List<ServiceId, 0, MAX>>,
    user_aliases: Option<List<UserAlias, 0, MAX>>,
    /// Compared in lower case. The two spellings of an international host name are equal.
    email_addresses: Option<List<Email, 0, MAX>>,
    phones: Option<List<Phone, 0, MAX>>,
    /// One more service_id.
    service_id: Option<ServiceId>,
    /// One more email address, as client libraries of the family name it.
    email_address: Option<Email>,
    /// One more phone number, as client libraries of the family name it.
    phone: Option<Phone>,
    /// Without it: all fields, except those that an export contains only on request.
    fields_to_export: Option<FieldNames>,
}

fn all<T, const N: usize>(list: Option<&List<T, 0, N>>) -> &[T] {
    list.map_or(&[], |List(all)| all)
}

impl UsersRequest {
    /// The identifiers, each with what `invalid_user_ids` has for it.
    pub fn mentions(&self) -> Vec<(Mention<'_>, Value)> {
        let external_ids = all(self.external_ids.as_ref()).iter();
        let external_ids = external_ids.map(|Identifier(id)| (Mention::ExternalId(id), json!(id)));
        let service_ids = all(self.service_ids.as_ref()).iter().chain(&self.service_id);
        let service_ids =
            service_ids.map(|ServiceId { text, id }| (Mention::ServiceId(*id), json!(text)));
        let aliases = all(self.user_aliases.as_ref()).iter().map(|alias| {
            let UserAlias { alias_name: Identifier(name), alias_label: Identifier(label) } = alias;
            (Mention::Alias { label, name }, json!(alias))
        });
        let emails = all(self.email_addresses.as_ref()).iter().chain(&self.email_address);
        let emails = emails.map(|Email(email)| (Mention::Email(email), json!(email)));
        let phones = all(self.phones.as_ref()).iter().chain(&self.phone);
        let phones = phones.map(|Phone { text, number }| (Mention::Phone(number), json!(text)));
        external_ids.chain(service_ids).chain(aliases).chain(emails).chain(phones).collect()
    }

    /// The custom attributes that are requested by their names.
    pub fn attributes(&self) -> Vec<String> {
        let names = self.fields_to_export.as_ref().map_or(&[][..], |FieldNames(names)| names);
        warnings::named_attributes(names)
    }

    /// The requested fields.
    pub fn fields(&self) -> Result<FieldSet, ApiError> {
        let set = match &self.fields_to_export {
            Some(FieldNames(names)) => FieldSet::parse(names),
            None => FieldSet::parse(&fields::record().map(str::to_owned).collect::<Vec<_>>()),
        };
        set.map_err(|error| ApiError::invalid_field(format!("fields_to_export {error}")))
    }
}

/// Reads the fields of a request; returns the warnings about unknown ones.
pub fn read(
    mut members: Map<String, Value>,
    alias: Option<&str>,
) -> Result<(UsersRequest, Vec<Warning>), ApiError> {
    fields::note_alias(&mut members, alias);
    selector::rename_alias(&mut members, alias)?;
    check_names(&members)?;
    let (request, warnings) = gateway::fields::read_request::<UsersRequest>(&members)?;
    if (1..=MAX).contains(&request.mentions().len()) {
        Ok((request, warnings))
    } else {
        Err(ApiError::invalid_field(format!("{NAMING} must have 1 to {MAX} users in total")))
    }
}

/// Rejects fields that seem to name users, and names the right field.
fn check_names(members: &Map<String, Value>) -> Result<(), ApiError> {
    let known = gateway::fields::names::<UsersRequest>();
    let set = members.iter().filter(|(_, value)| selector::is_set(value));
    let set = set.map(|(name, _)| name.as_str());
    for name in set.filter(|name| !known.contains(name)) {
        let other = OTHER_NAMES.iter().find(|(other, _)| *other == name).map(|(_, right)| *right);
        let right = match other {
            Some(right) => right.to_owned(),
            None if name.ends_with("_id") || name.ends_with("_ids") => {
                NAMING.replace(" and ", " or ")
            }
            None => continue,
        };
        let text = format!("{name} is not supported by this request: use {right}");
        return Err(ApiError::invalid_field(text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use gateway::Code;

    fn refused(body: Value, alias: Option<&str>) -> (Code, String) {
        let error = read(body.as_object().unwrap().clone(), alias).unwrap_err();
        (error.code(), error.message().into_owned())
    }

    #[test]
    fn identifiers_are_read_in_the_order_of_their_fields() {
        let id = "018bcfe5-6800-7000-8001-000000000001";
        let body = json!({
            "phones": ["15550100"], "email_addresses": ["Ann@acme.example"], "service_ids": [id],
            "user_aliases": [{ "alias_name": "7", "alias_label": "crm" }],
            "external_ids": ["ann", "ann"], "unknown": 1, "email_address": "bob@acme.example",
        });
        let (request, _) = read(body.as_object().unwrap().clone(), None).unwrap();
        let (mentions, given): (Vec<_>, Vec<_>) = request.mentions().into_iter().unzip();
        assert_eq!(
            mentions,
            [
                Mention::ExternalId("ann"),
                Mention::ExternalId("ann"),
                Mention::ServiceId(id.parse().unwrap()),
                Mention::Alias { label: "crm", name: "7" },
                Mention::Email("Ann@acme.example"),
                Mention::Email("bob@acme.example"),
                Mention::Phone("+15550100"),
            ]
        );
        let alias = json!({ "alias_name": "7", "alias_label": "crm" });
        let (ann, bob) = (json!("Ann@acme.example"), json!("bob@acme.example"));
        assert_eq!(
            given,
            [json!("ann"), json!("ann"), json!(id), alias, ann, bob, json!("15550100")]
        );
        assert!(request.fields().unwrap().members().eq(fields::record().collect::<BTreeSet<_>>()));
    }

    #[test]
    fn the_alias_of_service_id_names_users_and_the_field() {
        let id = "018bcfe5-6800-7000-8001-000000000001";
        let body = json!({ "their_ids": [id], "fields_to_export": ["their_id"] });
        let (request, _) = read(body.as_object().unwrap().clone(), Some("their_id")).unwrap();
        assert_eq!(request.mentions().len(), 1);
        assert!(request.fields().unwrap().service_id_names().eq(["their_id"]));
        let aliased = json!({ "their_id": id });
        let (request, _) = read(aliased.as_object().unwrap().clone(), Some("their_id")).unwrap();
        assert_eq!(request.mentions().len(), 1);
        assert_eq!(refused(aliased, None).0, Code::InvalidField);
        for alias in ["their_id", "uid"] {
            let both = json!({ "service_ids": [id], format!("{alias}s"): [id] });
            assert_eq!(refused(both, Some(alias)).0, Code::InvalidField);
        }
        let empty = json!({ "service_ids": [], "their_ids": [id] });
        let (request, _) = read(empty.as_object().unwrap().clone(), Some("their_id")).unwrap();
        assert_eq!(request.mentions().len(), 1);
    }

    #[test]
    fn other_names_of_fields_are_refused_with_the_right_one() {
        for (name, right) in OTHER_NAMES {
            let (code, text) = refused(json!({ "external_ids": ["a"], name: "b" }), None);
            assert!(code == Code::InvalidField && text.starts_with(name), "{text}");
            assert!(text.ends_with(right), "{text}");
        }
        for name in ["device_id", "their_id", "segment_id", "segment_ids", "since", "audience"] {
            let (code, text) = refused(json!({ "external_ids": ["a"], name: "b" }), None);
            assert!(code == Code::InvalidField && text.starts_with(name), "{text}");
        }
    }

    #[test]
    fn wrong_identifiers_are_named() {
        for (body, beginning) in [
            (json!({}), "external_ids, "),
            (json!({ "external_ids": [], "phones": null }), "external_ids, "),
            (json!({ "external_ids": vec!["a"; 51] }), "external_ids must have at most 50"),
            (
                json!({ "external_ids": vec!["a"; 49], "phones": ["+15550100", "+15550100"] }),
                "external_ids, ",
            ),
            (json!({ "external_ids": "a" }), "external_ids must be an array"),
            (json!({ "external_ids": ["a", ""] }), "external_ids[1]"),
            (json!({ "service_ids": ["a"] }), "service_ids[0]"),
            (json!({ "email_addresses": ["a@b.example", "a"] }), "email_addresses[1]"),
            (json!({ "phones": ["+1 555"] }), "phones[0]"),
            (json!({ "phone": ["+15550100"] }), "phone "),
            (json!({ "external_ids": ["a"], "fields_to_export": [] }), "fields_to_export"),
            (json!({ "external_ids": ["a"], "fields_to_export": ["x"] }), "fields_to_export"),
        ] {
            let (code, text) = refused(body.clone(), None);
            assert!(code == Code::InvalidField && text.starts_with(beginning), "{body}: {text}");
        }
    }
}
