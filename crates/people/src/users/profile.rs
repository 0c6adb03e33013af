//! The stored document: a user's profile as one compact JSON object.
//!
//! Its fields are those of the export's user record (docs/reference/api/user-record.md), with
//! the same names, except `purchases`, `custom_events` and `total_revenue`, which come from the
//! [activity](super::activity); and fields that are stored but never exported. A field without data
//! is absent. Values are JSON texts that were checked once and stay unchanged.

pub mod check;
pub mod codes;
mod document;

use serde_json::value::RawValue;

use kit::json::{self, JsonFields};
use kit::words::about_field;

/// Maximum bytes of a document.
pub const MAX_BYTES: usize = 1 << 20;

/// The name under which a profile has the times of the user's decisions. It is not a [`Field`]:
/// requests and imports cannot set it. Version 0.2.0 keeps it unchanged, like every unknown name.
pub(crate) const DECISION_TIMES: &str = "decision_times";

/// The name under which a profile has the time at which the user's time zone changed, in
/// milliseconds since the epoch; absent if it never did. It is not a [`Field`] either.
pub(crate) const TIME_ZONE_CHANGED_AT: &str = "time_zone_changed_at";

pub use self::document::MergedProfile;
pub use kit::words::MAX_TEXT;

kit::named! {
    /// A field of the stored document, in the order of documents.
    pub enum Field {
        ServiceId = "service_id",
        ExternalId = "external_id",
        UserAliases = "user_aliases",
        RandomBucket = "random_bucket",
        CreatedAt = "created_at",
        Email = "email",
        Phone = "phone",
        FirstName = "first_name",
        LastName = "last_name",
        Gender = "gender",
        Dob = "dob",
        Country = "country",
        Language = "language",
        TimeZone = "time_zone",
        HomeCity = "home_city",
        LastCoordinates = "last_coordinates",
        AttributedCampaign = "attributed_campaign",
        AttributedSource = "attributed_source",
        AttributedAdgroup = "attributed_adgroup",
        AttributedAd = "attributed_ad",
        CustomAttributes = "custom_attributes",
        Apps = "apps",
        Devices = "devices",
        UninstalledAt = "uninstalled_at",
        EmailSubscribe = "email_subscribe",
        PushSubscribe = "push_subscribe",
        PushTokens = "push_tokens",
        SubscriptionGroups = "subscription_groups",
        CurrentLocation = "current_location",
        DateOfFirstSession = "date_of_first_session",
        DateOfLastSession = "date_of_last_session",
        DeprecatedExternalIds = "deprecated_external_ids",
    }
}

impl Field {
    /// Whether the export's user record has the field; the others are only stored.
    pub fn is_exported(self) -> bool {
        !matches!(
            self,
            Self::EmailSubscribe
                | Self::PushSubscribe
                | Self::PushTokens
                | Self::SubscriptionGroups
                | Self::CurrentLocation
                | Self::DateOfFirstSession
                | Self::DateOfLastSession
                | Self::DeprecatedExternalIds
        )
    }
}

/// A name of a user in addition to the external id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Alias {
    pub label: String,
    pub name: String,
}

impl Alias {
    /// The value in `identifiers`: the label, then the name. No alias contains the character
    /// between them.
    pub fn key(&self) -> String {
        Self::key_of(&self.label, &self.name)
    }

    /// The same, from its parts.
    pub fn key_of(label: &str, name: &str) -> String {
        [label, name].join("\u{1f}")
    }
}

/// Why a value is invalid for a field: names the field, but not the value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", about_field(field, reason))]
pub struct FieldError {
    pub field: String,
    pub reason: String,
}

impl FieldError {
    pub fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { field: field.into(), reason: reason.into() }
    }
}

impl kit::retry::Retry for FieldError {}

/// A profile, field by field; each value is its compact JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// In the order of the fields.
    values: Vec<(Field, Box<str>)>,
    /// Fields of a newer program, which this one does not know; their names as JSON.
    more: Vec<(Box<str>, Box<str>)>,
}

impl Profile {
    /// An empty profile with room for this many fields.
    pub fn with_capacity(fields: usize) -> Self {
        let values = Vec::with_capacity(fields.min(Field::ALL.len()));
        Self { values, more: Vec::new() }
    }

    /// Reads a stored document. Fields that this program does not know are kept unchanged; values
    /// are not checked again.
    pub fn parse(document: &str) -> Result<Self, String> {
        let JsonFields(members) = json::parse(document)?;
        let mut profile = Self::with_capacity(members.len());
        for (name, value) in members {
            match Field::from_name(&name) {
                Some(field) => profile.put(field, value.get().to_owned()),
                None => {
                    let quoted = json::quoted(&name);
                    let name = &quoted[1..quoted.len() - 1];
                    profile.more.push((name.into(), value.get().into()));
                }
            }
        }
        Ok(profile)
    }

    /// The value of a field as JSON.
    pub fn get(&self, field: Field) -> Option<&str> {
        self.position(field).ok().map(|index| &*self.values[index].1)
    }

    /// The index of a field; if it is absent, that at which it would be.
    fn position(&self, field: Field) -> Result<usize, usize> {
        self.values.binary_search_by_key(&(field as usize), |(field, _)| *field as usize)
    }

    /// The fields and their values as JSON, in their order; without those of a newer program.
    pub fn fields(&self) -> impl Iterator<Item = (Field, &str)> + Clone {
        self.values.iter().map(|(field, value)| (*field, &**value))
    }

    /// A field that is a string.
    pub fn text(&self, field: Field) -> Option<String> {
        let value = self.get(field)?;
        match json::plain_text(value) {
            Some(text) => Some(text.to_owned()),
            None => serde_json::from_str(value).ok(),
        }
    }

    /// The aliases in order; none if the field is unreadable.
    pub fn aliases(&self) -> Vec<Alias> {
        let value = self.get(Field::UserAliases);
        value.and_then(|value| check::aliases(value).ok()).unwrap_or_default()
    }

    /// Former external ids that still identify the user.
    pub fn deprecated_external_ids(&self) -> Vec<String> {
        let value = self.get(Field::DeprecatedExternalIds);
        value.and_then(|value| serde_json::from_str(value).ok()).unwrap_or_default()
    }

    /// Sets the former external ids; an empty list leaves the field absent.
    pub fn set_deprecated_external_ids(&mut self, ids: &[String]) {
        match ids {
            [] => self.clear(Field::DeprecatedExternalIds),
            _ => self.put(Field::DeprecatedExternalIds, check::texts_json(ids)),
        }
    }

    /// Checks and sets a value. A value without data (null, an empty string, array or object, the
    /// gender `nil`) makes the field absent. `ignored` collects unknown fields inside the value.
    pub fn set(
        &mut self,
        field: Field,
        value: &RawValue,
        ignored: &mut Vec<String>,
    ) -> Result<(), FieldError> {
        match check::value(field, value.get(), ignored)? {
            Some(value) => self.put(field, value),
            None => self.clear(field),
        }
        Ok(())
    }

    /// Sets a field to a string.
    pub fn set_text(&mut self, field: Field, text: &str) {
        self.put(field, json::quoted(text));
    }

    /// Sets the bucket.
    pub fn set_bucket(&mut self, bucket: u16) {
        self.put(Field::RandomBucket, bucket.to_string());
    }

    /// Sets the aliases; an empty list leaves the field absent.
    pub fn set_aliases(&mut self, aliases: &[Alias]) {
        match aliases {
            [] => self.clear(Field::UserAliases),
            _ => self.put(Field::UserAliases, check::aliases_json(aliases)),
        }
    }

    /// Sets a field to checked JSON.
    pub fn set_json(&mut self, field: Field, value: String) {
        self.put(field, value);
    }

    /// Removes a field.
    pub fn clear(&mut self, field: Field) {
        self.replace(field, None);
    }

    /// Removes the fields that do not match; those of a newer program stay.
    pub fn retain(&mut self, matches: impl Fn(Field) -> bool) {
        self.values.retain(|(field, _)| matches(*field));
    }

    /// Sets a field to checked JSON, or removes it; returns its former value.
    pub fn replace(&mut self, field: Field, value: Option<Box<str>>) -> Option<Box<str>> {
        match (self.position(field), value) {
            (Ok(index), Some(value)) => Some(std::mem::replace(&mut self.values[index].1, value)),
            (Ok(index), None) => Some(self.values.remove(index).1),
            (Err(index), Some(value)) => {
                self.values.insert(index, (field, value));
                None
            }
            (Err(_), None) => None,
        }
    }

    /// The times of the user's [decisions](super::consent), as JSON.
    pub fn decision_times(&self) -> Option<&str> {
        self.more().find(|(name, _)| *name == DECISION_TIMES).map(|(_, times)| times)
    }

    /// Sets or removes the times of the user's decisions; returns the former ones.
    pub fn replace_decision_times(&mut self, times: Option<Box<str>>) -> Option<Box<str>> {
        self.replace_more(DECISION_TIMES, times)
    }

    /// Sets when the time zone changed, in milliseconds since the epoch.
    pub fn set_time_zone_changed_at(&mut self, at: i64) {
        self.replace_more(TIME_ZONE_CHANGED_AT, Some(at.to_string().into_boxed_str()));
    }

    /// Removes the times that are not fields of the user record.
    pub fn remove_times(&mut self) {
        self.replace_more(DECISION_TIMES, None);
        self.replace_more(TIME_ZONE_CHANGED_AT, None);
    }

    fn replace_more(&mut self, name: &str, value: Option<Box<str>>) -> Option<Box<str>> {
        let index = self.more.iter().position(|(other, _)| &**other == name);
        match (index, value) {
            (Some(index), Some(value)) => Some(std::mem::replace(&mut self.more[index].1, value)),
            (Some(index), None) => Some(self.more.remove(index).1),
            (None, Some(value)) => {
                self.more.push((name.into(), value));
                None
            }
            (None, None) => None,
        }
    }

    fn put(&mut self, field: Field, value: String) {
        self.replace(field, Some(value.into_boxed_str()));
    }

    /// The size of the document in bytes.
    pub fn bytes(&self) -> usize {
        document::bytes(self.members())
    }

    /// The document.
    pub fn to_document(&self) -> String {
        document::document(self.members())
    }

    /// The names and values of a document.
    fn members(&self) -> impl Iterator<Item = (&str, &str)> + Clone {
        self.fields().map(|(field, value)| (field.name(), value)).chain(self.more())
    }

    fn more(&self) -> impl Iterator<Item = (&str, &str)> + Clone {
        self.more.iter().map(|(name, value)| (&**name, &**value))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The document of one field, or its error.
    fn set(field: Field, json: &str) -> Result<String, String> {
        let mut profile = Profile::default();
        let value: &RawValue = serde_json::from_str(json).map_err(|error| error.to_string())?;
        profile.set(field, value, &mut Vec::new()).map_err(|error| error.to_string())?;
        Ok(profile.get(field).unwrap_or_default().to_owned())
    }

    #[test]
    fn good_values_are_kept_as_they_came() {
        for (field, json) in [
            (Field::Phone, r#""+15550100""#),
            (Field::Dob, r#""1980-02-29""#),
            (Field::Gender, r#""P""#),
            (Field::Country, r#""JP""#),
            (Field::Language, r#""ja""#),
            (Field::TimeZone, r#""Asia/Tokyo""#),
            (Field::Email, r#""Ann.Lee+x@acme.example""#),
            (Field::Email, "\"andré@acme.example\""),
            // The host name has one spelling in DNS.
            (Field::Email, "\"ann@bu\u{308}cher.example\""),
            (Field::LastCoordinates, "[-73.9900,40.7]"),
            (Field::RandomBucket, "9999"),
            (Field::CreatedAt, r#""2021-06-28T17:02:43.032Z""#),
            (Field::UserAliases, r#"[{"alias_name":"a","alias_label":"b"}]"#),
            (
                Field::CustomAttributes,
                r#"{"n":1.10,"big":12345678901234567890,"e":"","f":false,"o":{"a":[null]}}"#,
            ),
            (Field::Devices, r#"[{"model":"m","ad_tracking_enabled":false}]"#),
            (Field::CurrentLocation, r#"{"longitude":1.50,"latitude":-2}"#),
            (Field::PushTokens, r#"[{"app_id":"a","token":"t","kind":"live_activity"}]"#),
            (Field::EmailSubscribe, r#""opted_in""#),
            (
                Field::SubscriptionGroups,
                r#"[{"subscription_group_id":"G 1","subscription_state":"subscribed"}]"#,
            ),
        ] {
            assert_eq!(set(field, json).as_deref(), Ok(json), "{field:?}");
        }
    }

    #[test]
    fn values_are_normalized() {
        for (field, json, stored) in [
            (Field::FirstName, r#""Zo\u00eb""#, r#""Zoë""#),
            (Field::Phone, r#""001 (555) 01-00""#, r#""+15550100""#),
            (
                Field::UninstalledAt,
                r#""2021-06-28 19:02:43+0200""#,
                r#""2021-06-28T17:02:43.000Z""#,
            ),
            (Field::CreatedAt, r#""2021-06-28""#, r#""2021-06-28T00:00:00.000Z""#),
            (
                Field::Apps,
                r#"[{"name":"A","first_used":"2021-06-28T17:02:43:032+0000"}]"#,
                r#"[{"name":"A","first_used":"2021-06-28T17:02:43.032Z"}]"#,
            ),
            (Field::LastCoordinates, "[ 1 , 2 ]", "[1,2]"),
            (Field::CustomAttributes, "{ \"a\" : [ 1 ] , \"b\" : null }", r#"{"a":[1]}"#),
            (
                Field::UserAliases,
                r#"{"alias_label":"b","alias_name":"a"}"#,
                r#"[{"alias_name":"a","alias_label":"b"}]"#,
            ),
            (Field::Apps, r#"[{"sessions":12,"name":"A"}]"#, r#"[{"name":"A","sessions":"12"}]"#),
            (
                Field::SubscriptionGroups,
                r#"[{"subscription_group_id":"7D0C6F5E-4B1A-4E0F-9A55-2F6D1C3B8A90","subscription_state":"subscribed"}]"#,
                r#"[{"subscription_group_id":"7d0c6f5e-4b1a-4e0f-9a55-2f6d1c3b8a90","subscription_state":"subscribed"}]"#,
            ),
        ] {
            assert_eq!(set(field, json).as_deref(), Ok(stored), "{field:?}");
        }
    }

    #[test]
    fn empty_values_are_absent() {
        for (field, json) in [
            (Field::FirstName, "null"),
            (Field::FirstName, r#""""#),
            (Field::Gender, r#""nil""#),
            (Field::Apps, "[]"),
            (Field::CustomAttributes, "{}"),
            (Field::CustomAttributes, r#"{"a":null}"#),
            (Field::UserAliases, "[]"),
        ] {
            assert_eq!(set(field, json).as_deref(), Ok(""), "{field:?}");
        }
    }

    #[test]
    fn bad_values_are_rejected_by_name() {
        let long = format!("\"{}\"", "é".repeat(256));
        for (field, json) in [
            (Field::Phone, r#""0155501""#),
            (Field::Phone, r#""+44 (0)20 7946 0000""#),
            (Field::Phone, r#""+0155501234""#),
            (Field::Phone, r#""+1555010012345678""#),
            (Field::Dob, r#""1981-02-29""#),
            (Field::Dob, r#""31.12.1980""#),
            (Field::Gender, r#""m""#),
            (Field::Country, r#""JPN""#),
            (Field::Language, r#""JA""#),
            (Field::TimeZone, r#""Mars/Base""#),
            (Field::TimeZone, r#""Etc/Unknown""#),
            (Field::Email, r#""nobody""#),
            (Field::Email, r#""a b@acme.example""#),
            (Field::Email, "\"ann\u{200b}@acme.example\""),
            (Field::Email, "\"ann@ac\u{200b}me.example\""),
            (Field::Email, "\"\u{feff}ann@acme.example\""),
            (Field::Email, "\"andre\u{301}@acme.example\""),
            (Field::LastCoordinates, "[1]"),
            (Field::LastCoordinates, "[181,0]"),
            (Field::LastCoordinates, "[0,-90.1]"),
            (Field::RandomBucket, "10000"),
            (Field::RandomBucket, "1.5"),
            (Field::CreatedAt, r#""yesterday""#),
            (Field::ServiceId, r#""123""#),
            (Field::FirstName, "5"),
            (Field::FirstName, long.as_str()),
            (Field::FirstName, r#""a\u0000b""#),
            (Field::ExternalId, r#""a\u001fb""#),
            (Field::UserAliases, r#"[{"alias_name":"a"}]"#),
            (Field::UserAliases, r#""a""#),
            (Field::CustomAttributes, r#"{"":1}"#),
            (Field::CustomAttributes, r#"{"a":1,"a":2}"#),
            (Field::CustomAttributes, r#"{"a":"\ud800"}"#),
            (Field::Apps, r#"[5]"#),
            (Field::Devices, r#"[{"ad_tracking_enabled":"yes"}]"#),
            (Field::PushTokens, r#"[{"app_id":"a"}]"#),
            (Field::PushTokens, r#"[{"app_id":"a","token":"t","kind":"fax"}]"#),
            (Field::SubscriptionGroups, r#"[{"subscription_group_id":"g"}]"#),
            (Field::PushSubscribe, r#""maybe""#),
        ] {
            let error = set(field, json).unwrap_err();
            assert!(error.starts_with(field.name()), "{field:?} {json}: {error}");
        }
    }

    #[test]
    fn a_document_has_every_field_and_reads_back() {
        let mut profile = Profile::default();
        for field in Field::ALL {
            profile.set_text(field, field.name());
            assert_eq!(Field::from_name(field.name()), Some(field));
        }
        assert_eq!(Profile::parse(&profile.to_document()), Ok(profile));
        assert_eq!(Profile::parse("{}"), Ok(Profile::default()));
        assert!(Profile::parse("[]").is_err());
    }

    fn any_json() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("null".to_owned()),
            Just("1.10".to_owned()),
            Just("-1e400".to_owned()),
            any::<String>().prop_map(|text| serde_json::Value::from(text).to_string()),
            Just(r#""\u0000""#.to_owned()),
            Just(r#""2021-06-28T17:02:43.032Z""#.to_owned()),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let name = prop_oneof![
                "alias_name|alias_label|name|token|app_id|longitude|latitude|sessions",
                ".{0,4}",
            ];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4)
                    .prop_map(|items| format!("[ {} ]", items.join(", "))),
                prop::collection::vec((name, inner), 0..4).prop_map(|members| {
                    let members: Vec<_> = members
                        .into_iter()
                        .map(|(n, v)| format!("{} : {v}", serde_json::Value::from(n)))
                        .collect();
                    format!("{{{}}}", members.join(","))
                }),
            ]
        })
    }

    /// A worker of the previous version rewrites the document: unknown fields stay.
    #[test]
    fn members_of_a_newer_program_are_kept() {
        let text = r#"{"first_name":"Ann","of tomorrow":{"a":[1, null]},"a \"quoted\" one":5}"#;
        let mut profile = Profile::parse(text).unwrap();
        assert_eq!(profile.to_document(), text);
        assert_eq!(profile.bytes(), text.len());
        profile.set_text(Field::FirstName, "Bea");
        profile.set_text(Field::Email, "b@acme.example");
        let text = profile.to_document();
        assert_eq!(profile.bytes(), text.len());
        assert!(text.starts_with(r#"{"email":"b@acme.example","first_name":"Bea","of tomorrow":"#));
        assert_eq!(Profile::parse(&text), Ok(profile));
    }

    proptest! {
        #[test]
        fn accepted_values_are_accepted_again(json in any_json()) {
            for field in Field::ALL {
                if let Ok(stored) = set(field, &json)
                    && !stored.is_empty()
                {
                    prop_assert_eq!(set(field, &stored), Ok(stored));
                }
            }
        }

        #[test]
        fn a_uuid_of_a_group_has_one_spelling(id in any::<u128>(), text in ".{0,40}") {
            let id = uuid::Uuid::from_u128(id);
            let (hyphenated, simple) = (id.to_string(), id.simple().to_string());
            let urn = id.urn().to_string();
            for spelling in [&hyphenated, &hyphenated.to_uppercase(), &simple, &urn] {
                prop_assert!(check::group_id(spelling) == hyphenated, "{spelling}");
            }
            let once = check::group_id(&text);
            prop_assert!(check::group_id(&once) == once, "{text}");
        }
    }
}
