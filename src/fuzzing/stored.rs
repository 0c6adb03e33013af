//! The files of operators, and what the store keeps packed.

use super::catalogs::{CATALOG, check_values};
use super::{NOW, text};
use crate::catalogs::check;
use crate::users::activity::Activity;
use crate::users::profile::Profile;
use crate::users::record::{self, Record};
use crate::workspace_file::file;
use kit::clock::{from_ms, utc_date};

const CURRENCY: &str = "USD";

pub fn workspace_file(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    match file::read(text, &|name| (name == "SECRET").then(|| "x".repeat(40))) {
        Ok(declared) => assert!(!declared.workspaces.is_empty() || declared.company.is_some()),
        Err(error) => {
            assert!(!error.problems.is_empty());
            // An operator's own file may be repeated at any length.
            assert!(error.problems.iter().all(|problem| !problem.text.is_empty()));
        }
    }
}

/// A line of `import`, and one of a catalog's items.
pub fn import_line(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    match check::line(text, &CATALOG.fields) {
        Ok(item) => check_values(&item),
        Err(reason) => assert!(!reason.is_empty()),
    }
    let record = match Record::parse(text, NOW, CURRENCY) {
        Ok(record) => record,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let document = record.profile.to_document();
    assert_eq!(Profile::parse(&document).as_ref(), Ok(&record.profile));
    assert_eq!(Activity::decode(&record.activity.encode()).as_ref(), Ok(&record.activity));
    show(&document, &record.activity);
}

pub fn activity(bytes: &[u8]) {
    let Ok(mut activity) = Activity::decode(bytes) else { return };
    assert_eq!(Activity::decode(&activity.encode()).as_ref(), Ok(&activity));
    show("{}", &activity);
    activity.record_event("seen", NOW, 1, None);
    activity.record_purchase("tea", NOW, 3, Some("{}"));
    activity.record_revenue(CURRENCY, i64::MAX);
    activity.prune(utc_date(from_ms(NOW)));
    activity.prune_names();
    assert_eq!(Activity::decode(&activity.encode()).as_ref(), Ok(&activity));
}

/// What an export has of it is JSON.
fn show(document: &str, activity: &Activity<'_>) {
    let today = utc_date(from_ms(NOW));
    let shown = record::show(document, activity, today, CURRENCY, &Default::default());
    serde_json::from_str::<serde::de::IgnoredAny>(&shown).expect("a user is JSON");
}
