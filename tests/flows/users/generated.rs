//! Generated users: the same for the same seed, valid, and like real ones.

use std::collections::{BTreeMap, HashSet};

use jiff::civil::{Date, date};
use kit::clock::parse_time;
use longshore::users::generate::Users;
use longshore::users::profile::Field;
use longshore::users::record::{self, Record, RecordContext};

const AS_OF: Date = date(2024, 5, 1);

fn lines(users: &mut Users, numbers: std::ops::Range<u64>) -> Vec<String> {
    numbers
        .map(|number| {
            let mut line = String::new();
            users.write(number, &mut line);
            line
        })
        .collect()
}

#[test]
fn the_same_seed_and_date_give_the_same_users() {
    let all = lines(&mut Users::new(7, AS_OF), 0..200);
    assert_eq!(lines(&mut Users::new(7, AS_OF), 0..200), all);
    assert_eq!(lines(&mut Users::new(7, AS_OF), 150..200), all[150..]);
    assert_ne!(lines(&mut Users::new(8, AS_OF), 0..200), all);
    assert_ne!(lines(&mut Users::new(7, date(2024, 5, 2)), 0..200), all);
}

#[test]
fn generated_users_survive_an_import() {
    let now_ms = parse_time(&AS_OF.to_string()).unwrap();
    for line in lines(&mut Users::new(7, AS_OF), 0..2_000) {
        let context = RecordContext { now_ms, currency: "USD", service_id_alias: None };
        let record = Record::parse(&line, &context).unwrap_or_else(|e| panic!("{e}: {line}"));
        assert_eq!(record.ignored, Vec::<String>::new());
        let document = record.profile.to_document();
        let out = record::show(&document, &record.activity, AS_OF, "USD", &BTreeMap::new());
        let value = |json: &str| serde_json::from_str::<serde_json::Value>(json).unwrap();
        assert_eq!(value(&out), value(&line));
        // The texts of equal values may still differ in the notation of numbers.
        let attributes = record.profile.get(Field::CustomAttributes).unwrap_or_default();
        assert!(line.contains(attributes), "{line}");
    }
}

#[test]
fn users_are_lifelike() {
    let lines = lines(&mut Users::new(1, AS_OF), 0..5_000);
    let bytes: usize = lines.iter().map(String::len).sum();
    let average = bytes / lines.len();
    assert!((1_300..=1_500).contains(&average), "{average} bytes a record");
    let mut fields = HashSet::new();
    let (mut external_ids, mut emails) = (HashSet::new(), HashSet::new());
    for line in &lines {
        let user: BTreeMap<String, serde_json::Value> = serde_json::from_str(line).unwrap();
        for (seen, name) in [(&mut external_ids, "external_id"), (&mut emails, "email")] {
            assert!(user.get(name).is_none_or(|id| seen.insert(id.to_string())), "{line}");
        }
        fields.extend(user.into_keys());
    }
    for field in Field::ALL.iter().filter(|field| field.is_exported()) {
        assert!(fields.contains(field.name()), "{field:?}");
    }
    for name in ["purchases", "custom_events", "total_revenue"] {
        assert!(fields.contains(name), "{name}");
    }
    let sizes: Vec<usize> = lines.iter().map(String::len).collect();
    assert!(sizes.iter().any(|size| *size < 500) && sizes.iter().any(|size| *size > 3_000));
}
