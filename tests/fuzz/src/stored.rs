//! Operators' files, and packed data of the store.

use super::catalogs::{CATALOG, check_values};
use super::{Accepted, NOW, text};
use kit::clock::{from_ms, utc_date};
use longshore::catalogs::check;
use longshore::users::activity::Activity;
use longshore::users::profile::Profile;
use longshore::users::record::{self, Record, RecordContext};
use longshore::workspace_file::file;

const CURRENCY: &str = "USD";

pub fn workspace_file(bytes: &[u8]) -> Option<Accepted> {
    match file::read(text(bytes)?, &|name| (name == "SECRET").then(|| "x".repeat(40))) {
        Ok(declared) => {
            assert!(!declared.workspaces.is_empty() || declared.company.is_some());
            Some(Accepted)
        }
        Err(error) => {
            assert!(!error.problems.is_empty());
            // An operator's own file may be repeated at any length.
            assert!(error.problems.iter().all(|problem| !problem.text.is_empty()));
            None
        }
    }
}

/// A line of `import`, and one of a catalog's items.
pub fn import_line(bytes: &[u8]) -> Option<Accepted> {
    let text = text(bytes)?;
    match check::line(text, &CATALOG.fields) {
        Ok(item) => check_values(&item),
        Err(reason) => assert!(!reason.is_empty()),
    }
    let context =
        RecordContext { now_ms: NOW, currency: CURRENCY, service_id_alias: Some("their_id") };
    let record = match Record::parse(text, &context) {
        Ok(record) => record,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return None;
        }
    };
    let document = record.profile.to_document();
    assert_eq!(Profile::parse(&document).as_ref(), Ok(&record.profile));
    assert_eq!(Activity::decode(&record.activity.encode()).as_ref(), Ok(&record.activity));
    show(&document, &record.activity);
    Some(Accepted)
}

pub fn activity(bytes: &[u8]) -> Option<Accepted> {
    let mut activity = Activity::decode(bytes).ok()?;
    assert_eq!(Activity::decode(&activity.encode()).as_ref(), Ok(&activity));
    show("{}", &activity);
    activity.record_event("seen", NOW, 1, None);
    activity.record_purchase("tea", NOW, 3, Some("{}"));
    activity.record_revenue(CURRENCY, i64::MAX);
    activity.prune(utc_date(from_ms(NOW)));
    activity.prune_names();
    assert_eq!(Activity::decode(&activity.encode()).as_ref(), Ok(&activity));
    Some(Accepted)
}

/// Its output in an export is JSON.
fn show(document: &str, activity: &Activity<'_>) {
    let today = utc_date(from_ms(NOW));
    let shown = record::show(document, activity, today, CURRENCY, &Default::default());
    serde_json::from_str::<serde::de::IgnoredAny>(&shown).expect("a user is JSON");
}
