//! The fields that an import would remove from users, for `--dry-run`.

use std::collections::{BTreeMap, BTreeSet};

use jiff::ToSpan as _;
use jiff::civil::Date;

use crate::users::activity::{Activity, WINDOW_DAYS};
use crate::users::profile::{Field, Profile};
use kit::json::{self, JsonFields};

/// The names of the fields of a record: each custom attribute with its own name.
pub fn names(document: &str, activity: &Activity<'_>, today: Date) -> BTreeSet<String> {
    let profile = Profile::parse(document).unwrap_or_default();
    let mut names = BTreeSet::new();
    for field in Field::ALL.iter().filter(|field| profile.get(**field).is_some()) {
        match (field, profile.get(*field)) {
            (Field::CustomAttributes, Some(value)) => {
                let JsonFields(attributes) = json::parse(value).unwrap_or_default();
                let name = |name: &str| format!("{}.{name}", field.name());
                names.extend(attributes.iter().map(|(attribute, _)| name(attribute)));
            }
            _ => _ = names.insert(field.name().to_owned()),
        }
    }
    let first_day = today.saturating_sub((WINDOW_DAYS - 1).days());
    let present_fields = [
        ("purchases", activity.purchases(first_day, today).next().is_some()),
        ("custom_events", activity.events(first_day, today).next().is_some()),
        ("total_revenue", activity.has_revenue()),
    ];
    names.extend(
        present_fields
            .into_iter()
            .filter(|(_, is_present)| *is_present)
            .map(|(name, _)| name.to_owned()),
    );
    names
}

/// Counts names, of which at most `limit` are different.
pub fn count(
    counts: &mut BTreeMap<String, u64>,
    names: impl IntoIterator<Item = String>,
    limit: usize,
) {
    for name in names {
        if counts.len() < limit || counts.contains_key(&name) {
            *counts.entry(name).or_default() += 1;
        }
    }
}
