//! What a record keeps of the stored profile that it replaces.
//!
//! Exports never contain consent, push tokens and some other fields unless they are requested. So
//! the stored value stays unless the record names the field, and `unsubscribed` stays even if the
//! record has another state.

use crate::users::consent::{self, Consent};
use crate::users::profile::{Field, Profile};
use crate::users::tokens;

/// The part of a stored profile that a record does not replace.
pub fn part(mut profile: Profile) -> Profile {
    profile.retain(|field| !field.is_exported() && field != Field::DeprecatedExternalIds);
    profile
}

/// Which addresses a record changes.
#[derive(Clone, Copy, Debug, Default)]
pub struct AddressChanges {
    pub email: bool,
    pub phone: bool,
}

/// The part of a profile that the next record does not replace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    pub profile: Profile,
    /// States that stay `unsubscribed` although the record has another one.
    pub overruled: u64,
    /// The decisions in the profile.
    pub consent: Consent,
}

/// The stored part after a record that is imported at a time.
pub fn after(stored: &Profile, record: &Profile, changes: AddressChanges, at: i64) -> Kept {
    let mut profile = stored.clone();
    let mut consent = Consent::read(stored);
    if changes.email {
        consent.changed_email(at);
    }
    if changes.phone {
        consent.changed_phone(at);
    }
    let overruled = consent.import(record, at);
    consent.write(&mut profile);
    let is_kept = |field: Field| !field.is_exported() && !consent::is_state(field);
    for (field, value) in record.fields().filter(|(field, _)| is_kept(*field)) {
        let value = match (field, stored.get(field)) {
            (Field::DeprecatedExternalIds, _) => continue,
            (Field::PushTokens, Some(stored)) => tokens::merged(value, stored),
            _ => value.to_owned(),
        };
        profile.set_json(field, value);
    }
    Kept { profile, overruled, consent }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(json: &str) -> Profile {
        Profile::parse(json).unwrap()
    }

    #[test]
    fn fields_that_exports_do_not_contain_are_kept() {
        let stored = profile(
            r#"{"first_name":"Ann","email_subscribe":"unsubscribed","push_tokens":[{"app_id":"a","token":"t"}],"current_location":{"longitude":1,"latitude":2},"deprecated_external_ids":["x"],"newer":1}"#,
        );
        let kept = part(stored);
        assert_eq!(
            kept.to_document(),
            r#"{"email_subscribe":"unsubscribed","push_tokens":[{"app_id":"a","token":"t"}],"current_location":{"longitude":1,"latitude":2},"newer":1}"#
        );
        let same = after(&kept, &profile(r#"{"first_name":"Bea"}"#), AddressChanges::default(), 5);
        assert_eq!((&same.profile, same.overruled), (&kept, 0));
        let record = profile(
            r#"{"push_tokens":[{"app_id":"a","token":"u"},{"app_id":"A","token":"t","device_id":"d"}],"current_location":{"longitude":3,"latitude":4}}"#,
        );
        assert_eq!(
            after(&kept, &record, AddressChanges::default(), 5).profile.to_document(),
            r#"{"email_subscribe":"unsubscribed","push_tokens":[{"app_id":"a","token":"u"},{"app_id":"A","token":"t","device_id":"d"}],"current_location":{"longitude":3,"latitude":4},"newer":1}"#
        );
    }

    #[test]
    fn unsubscribed_wins_over_another_state() {
        let group = |id: &str, state: &str| {
            format!(r#"{{"subscription_group_id":"{id}","subscription_state":"{state}"}}"#)
        };
        let states = |email: &str, own_group: &str| {
            profile(&format!(
                r#"{{"email_subscribe":"{email}","subscription_groups":[{},{}]}}"#,
                group("g", own_group),
                group(own_group, "subscribed"),
            ))
        };
        for (stored, record, after_both, overruled) in [
            ("unsubscribed", "subscribed", "unsubscribed", 2),
            ("unsubscribed", "unsubscribed", "unsubscribed", 0),
            ("subscribed", "unsubscribed", "unsubscribed", 0),
        ] {
            let both = after(
                &states(stored, stored),
                &states(record, record),
                AddressChanges::default(),
                5,
            );
            assert_eq!(both.overruled, overruled, "{stored} {record}");
            let email = both.profile.text(Field::EmailSubscribe);
            assert_eq!(email.as_deref(), Some(after_both));
            let groups = both.profile.get(Field::SubscriptionGroups).unwrap();
            assert!(groups.contains(&group("g", after_both)), "{groups}");
            assert!(groups.contains(&group(stored, "subscribed")), "{groups}");
            assert!(groups.contains(&group(record, "subscribed")), "{groups}");
        }
    }
}
