//! `fields_to_export`: the fields of a user's record in an export.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use gateway::workspaces::is_field_alias;
use kit::words::beginning;
use people::users::profile::Field;

/// The fields that come from a user's activity, not from the document.
pub const PURCHASES: &str = "purchases";
pub const CUSTOM_EVENTS: &str = "custom_events";
pub const TOTAL_REVENUE: &str = "total_revenue";

/// The field for which a workspace may have another name.
pub const SERVICE_ID: &str = "service_id";

/// Prefix of a stored field name that was requested by its alias.
const ALIASED: &str = "service_id\u{1f}";

/// Rewrites the workspace's other name for `service_id` in a request, so that the worker knows both
/// the field and its requested name.
pub fn note_alias(body: &mut Map<String, Value>, alias: Option<&str>) {
    let names = body.get_mut("fields_to_export").and_then(Value::as_array_mut);
    let Some((alias, names)) = alias.zip(names) else { return };
    for name in names.iter_mut().filter(|name| name.as_str() == Some(alias)) {
        *name = stored_name(alias, Some(alias)).into();
    }
}

/// The stored name of a requested one: marked if it is the workspace's other name for `service_id`.
pub fn stored_name(name: &str, alias: Option<&str>) -> String {
    if alias == Some(name) { format!("{ALIASED}{name}") } else { name.to_owned() }
}

/// The requested name in a stored one, if it is the workspace's other name for `service_id`.
pub fn alias_in(stored: &str) -> Option<&str> {
    stored.strip_prefix(ALIASED)
}

/// The only field that can also be exported in part, as `custom_attributes.<name>`.
pub const CUSTOM_ATTRIBUTES: &str = "custom_attributes";

pub const ACTIVITY_FIELDS: [&str; 3] = [PURCHASES, CUSTOM_EVENTS, TOTAL_REVENUE];

/// Maximum number of names in `fields_to_export`, and bytes of all of them.
pub const MAX_NAMES: usize = 1_000;
pub const MAX_BYTES: usize = 64 << 10;

/// Unknown names that an error shows.
const MAX_UNKNOWN_SHOWN: usize = 10;

/// Characters of each that an error shows.
const MAX_NAME_SHOWN: usize = 64;

/// The user record of the API (docs/reference/api/user-record.md): the fields of documents,
/// then those from activity.
pub fn record() -> impl Iterator<Item = &'static str> {
    let stored = Field::ALL.iter().filter(|field| field.is_exported());
    stored.map(|field| field.name()).chain(ACTIVITY_FIELDS)
}

/// Fields that no export contains unless they are requested: the user's consent.
pub const ON_REQUEST: [&str; 3] =
    [Field::EmailSubscribe.name(), Field::PushSubscribe.name(), Field::SubscriptionGroups.name()];

/// All fields that can be requested by their names.
pub fn exportable() -> impl Iterator<Item = &'static str> {
    record().chain(ON_REQUEST)
}

/// Checks the size of `fields_to_export`. The error follows the field's name.
fn check_size(names: &[impl AsRef<str>]) -> Result<(), String> {
    let bytes: usize = names.iter().map(|name| name.as_ref().len()).sum();
    if names.len() <= MAX_NAMES && bytes <= MAX_BYTES {
        return Ok(());
    }
    Err(format!("must have at most {MAX_NAMES} names and {MAX_BYTES} bytes in total"))
}

/// The requested fields, checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// Names of [`exportable`].
    members: BTreeSet<&'static str>,
    /// Names of single custom attributes; none if all of them are requested.
    attributes: BTreeSet<String>,
    /// The names under which `service_id` was requested: its own, the workspace's other one, or
    /// both.
    service_id_names: BTreeSet<String>,
}

impl FieldSet {
    /// Checks `fields_to_export`. Duplicates are allowed. The error follows the field's name.
    pub fn parse(names: &[String]) -> Result<Self, String> {
        if names.is_empty() {
            return Err("must contain at least one field".into());
        }
        check_size(names)?;
        let mut set = Self::default();
        let mut unknown: Vec<&str> = Vec::new();
        for name in names {
            if !set.add(name) && !unknown.contains(&name.as_str()) {
                unknown.push(name);
            }
        }
        if !unknown.is_empty() {
            let shown = unknown.iter().take(MAX_UNKNOWN_SHOWN);
            let names: Vec<String> =
                shown.map(|name| format!("{:?}", beginning(name, MAX_NAME_SHOWN))).collect();
            let more = if unknown.len() > MAX_UNKNOWN_SHOWN { " and more" } else { "" };
            let names = names.join(", ");
            return Err(format!("contains unknown fields: {names}{more}"));
        }
        if set.wants(CUSTOM_ATTRIBUTES) {
            set.attributes.clear();
        }
        Ok(set)
    }

    /// False for an unknown field.
    fn add(&mut self, name: &str) -> bool {
        if let Some(member) = exportable().find(|member| *member == name) {
            self.members.insert(member);
            if member == SERVICE_ID {
                self.service_id_names.insert(member.to_owned());
            }
            return true;
        }
        if let Some(alias) = alias_in(name) {
            self.members.insert(SERVICE_ID);
            self.service_id_names.insert(alias.to_owned());
            return is_field_alias(alias);
        }
        let attribute =
            name.strip_prefix(CUSTOM_ATTRIBUTES).and_then(|rest| rest.strip_prefix('.'));
        match attribute {
            Some(attribute) if !attribute.is_empty() => {
                self.attributes.insert(attribute.to_owned());
                true
            }
            _ => false,
        }
    }

    /// Whether an [exportable] field is requested as a whole.
    pub fn wants(&self, member: &str) -> bool {
        self.members.contains(member)
    }

    /// The requested fields, as named in [`exportable`].
    pub fn members(&self) -> impl Iterator<Item = &'static str> {
        self.members.iter().copied()
    }

    /// The names of `service_id` in lines; none if it was not requested.
    pub fn service_id_names(&self) -> impl Iterator<Item = &str> {
        self.service_id_names.iter().map(String::as_str)
    }

    /// The custom attributes that are requested individually.
    pub fn attributes(&self) -> &BTreeSet<String> {
        &self.attributes
    }

    /// Whether a line depends on what was decided about the user's addresses.
    pub fn needs_addresses(&self) -> bool {
        self.wants("email_subscribe") || self.wants("subscription_groups")
    }

    /// Whether users' activity must be read.
    pub fn needs_activity(&self) -> bool {
        ACTIVITY_FIELDS.iter().any(|member| self.wants(member))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(names: &[&str]) -> Result<FieldSet, String> {
        FieldSet::parse(&names.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn every_field_of_the_record_can_be_exported() {
        let record: Vec<&str> = record().collect();
        assert_eq!(record.len(), 27);
        let set = parse(&record).unwrap();
        assert!(set.members().eq(record.into_iter().collect::<BTreeSet<_>>()));
        assert!(set.needs_activity());
    }

    #[test]
    fn consent_is_exported_only_on_request() {
        assert!(record().all(|member| !ON_REQUEST.contains(&member)));
        let set = parse(&ON_REQUEST).unwrap();
        assert!(set.members().eq(BTreeSet::from(ON_REQUEST)));
        assert!(!set.needs_activity());
    }

    #[test]
    fn only_derived_fields_need_activity() {
        assert!(!parse(&["email", "custom_attributes", "apps"]).unwrap().needs_activity());
        for member in ["purchases", "custom_events", "total_revenue"] {
            assert!(parse(&["email", member]).unwrap().needs_activity(), "{member}");
        }
    }

    #[test]
    fn service_id_can_be_exported_under_another_name() {
        let mut body = serde_json::json!({ "fields_to_export": ["email", "their_id", 5] });
        let body = body.as_object_mut().unwrap();
        note_alias(body, None);
        assert_eq!(body["fields_to_export"][1], "their_id");
        note_alias(body, Some("their_id"));
        let aliased = body["fields_to_export"][1].as_str().unwrap();
        for (names, expected) in [
            (&["email"][..], &[""; 0][..]),
            (&["email", SERVICE_ID], &[SERVICE_ID]),
            (&["email", aliased], &["their_id"]),
            (&[aliased, SERVICE_ID, aliased], &[SERVICE_ID, "their_id"]),
        ] {
            let set = parse(names).unwrap();
            assert!(set.service_id_names().eq(expected.iter().copied()), "{names:?}");
            assert_eq!(set.wants(SERVICE_ID), !expected.is_empty(), "{names:?}");
        }
        assert!(parse(&["service_id\u{1f}a\"b"]).is_err());
    }

    #[test]
    fn duplicates_do_no_harm() {
        let once = parse(&["email", "custom_attributes.a"]).unwrap();
        let often = parse(&["custom_attributes.a", "email", "email", "custom_attributes.a"]);
        assert_eq!(often.unwrap(), once);
    }

    #[test]
    fn one_attribute_is_named_after_the_first_dot() {
        let set = parse(&["custom_attributes.a.b", "custom_attributes.größe"]).unwrap();
        assert!(set.attributes().iter().eq(["a.b", "größe"]));
        assert!(!set.wants(CUSTOM_ATTRIBUTES));
        let set = parse(&["custom_attributes.a", "custom_attributes"]).unwrap();
        assert!(set.wants(CUSTOM_ATTRIBUTES) && set.attributes().is_empty());
    }

    #[test]
    fn unknown_fields_are_named_in_the_error() {
        assert!(parse(&[]).is_err());
        let message = parse(&[
            "email",
            "push_tokens",
            "Email",
            "",
            "custom_attributes.",
            "custom_attributesx",
            "push_tokens",
        ])
        .unwrap_err();
        assert_eq!(
            message,
            "contains unknown fields: \"push_tokens\", \"Email\", \"\", \"custom_attributes.\", \
             \"custom_attributesx\""
        );
        assert!(parse(&[&"x".repeat(10_000)]).unwrap_err().len() < 200, "only its beginning");
    }

    #[test]
    fn no_request_is_too_much_work() {
        assert!(check_size(&["x"; MAX_NAMES]).is_ok());
        let longest = "x".repeat(MAX_BYTES);
        assert!(check_size(&[&longest]).is_ok());
        for names in [&["x"; MAX_NAMES + 1][..], &[&longest, "x"]] {
            let message = check_size(names).unwrap_err();
            assert!(message.contains("1000"), "{message}");
        }
        let unknown: Vec<String> = (0..500).map(|n| format!("field-{n}")).collect();
        let message = FieldSet::parse(&unknown).unwrap_err();
        assert!(message.contains("\"field-9\" and more"), "{message}");
    }
}
