use proptest::prelude::*;

use super::*;

fn all(activity: &Activity<'_>) -> Vec<(String, i64, i64, u64)> {
    let ever = (date(-9999, 1, 1), date(9999, 12, 31));
    activity
        .purchases(ever.0, ever.1)
        .chain(activity.events(ever.0, ever.1))
        .map(|s| (s.name.to_owned(), s.first, s.last, s.count))
        .collect()
}

#[derive(Clone, Debug)]
enum Step {
    Purchase(String, i64, u64),
    Event(String, i64, u64),
    Revenue(String, i64),
}

#[test]
fn activity_of_another_user_is_added() {
    let record = |all: &[(&str, i64, &str)]| {
        let mut activity = Activity::default();
        for (name, at, properties) in all {
            activity.record_event(name, *at, 1, Some(properties));
            activity.record_revenue("EUR", 5);
        }
        activity
    };
    let (first, second) = ([("b", 9, "1"), ("c", 3, "2")], [("a", 1, "3"), ("b", 7, "4")]);
    let mut merged = record(&first);
    merged.absorb(&record(&second));
    let mut both = second.to_vec();
    both.extend(first);
    assert_eq!(merged, record(&both));
    merged.absorb(&Activity::default());
    assert_eq!(merged, record(&both));
}

fn step() -> impl Strategy<Value = Step> {
    let time = 1_600_000_000_000..1_620_000_000_000i64;
    prop_oneof![
        ("[a-cé]{0,2}", time.clone(), 0..5u64).prop_map(|(n, t, c)| Step::Purchase(n, t, c)),
        ("[a-c]{0,2}", time, 1..5u64).prop_map(|(n, t, c)| Step::Event(n, t, c)),
        ("EUR|USD|JPY", 0..i64::MAX).prop_map(|(c, m)| Step::Revenue(c, m)),
    ]
}

fn activity(steps: &[Step]) -> Activity<'static> {
    let mut activity = Activity::default();
    for step in steps {
        match step {
            Step::Purchase(name, at, count) => {
                activity.record_purchase(name, *at, *count, None);
            }
            Step::Event(name, at, count) => activity.record_event(name, *at, *count, None),
            Step::Revenue(currency, m) => _ = activity.record_revenue(currency, *m),
        }
    }
    activity
}

proptest! {
    #[test]
    fn the_order_of_recording_does_not_matter(
        (steps, shuffled) in prop::collection::vec(step(), 0..40)
            .prop_flat_map(|steps| (Just(steps.clone()), Just(steps).prop_shuffle()))
    ) {
        prop_assert_eq!(activity(&steps), activity(&shuffled));
    }

    #[test]
    fn encoded_activity_is_decoded(steps in prop::collection::vec(step(), 0..40)) {
        let activity = activity(&steps);
        let bytes = activity.encode();
        prop_assert_eq!(Activity::decode(&bytes), Ok(activity));
    }

    #[test]
    fn any_bytes_are_read_or_rejected(
        steps in prop::collection::vec(step(), 0..10),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        tail in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let mut bytes = activity(&steps).encode();
        bytes.extend(&tail);
        for (index, byte) in flips {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        if let Ok(activity) = Activity::decode(&bytes) {
            let again = activity.encode();
            prop_assert_eq!(Activity::decode(&again), Ok(activity.clone()));
        }
    }

    #[test]
    fn windows_count_only_their_days(
        times in prop::collection::vec(1_600_000_000_000..1_620_000_000_000i64, 0..40),
        from in 0..300i64,
        days in 0..300i64,
    ) {
        let mut activity = Activity::default();
        times.iter().for_each(|at| activity.record_event("e", *at, 1, None));
        let first_day = date(2020, 8, 1) + jiff::Span::new().days(from);
        let last_day = first_day + jiff::Span::new().days(days);
        let day = |at: i64| kit::clock::utc_date(kit::clock::from_ms(at));
        let inside: Vec<i64> = times
            .iter()
            .copied()
            .filter(|at| (first_day..=last_day).contains(&day(*at)))
            .collect();
        let seen: Vec<_> = activity.events(first_day, last_day).collect();
        match (inside.iter().min(), inside.iter().max()) {
            (Some(&first), Some(&last)) => prop_assert_eq!(
                seen,
                [Summary { name: "e", first, last, count: inside.len() as u64 }]
            ),
            _ => prop_assert!(seen.is_empty()),
        }
    }
}

#[test]
fn hostile_lengths_are_rejected() {
    // A list of 2^63 series, a name of 2^62 bytes.
    for hostile in [
        &[1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f][..],
        &[1, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f, b'a'][..],
        &[1, 1, 1, b'a', 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f][..],
    ] {
        assert!(matches!(Activity::decode(hostile), Err(ActivityError::Damaged(_))));
    }
    assert!(Activity::decode(&[]).is_err());
    assert_eq!(Activity::decode(&[9, 0]), Err(ActivityError::Version(9)));
}

#[test]
fn old_days_are_pruned_and_revenue_stays() {
    let today = date(2024, 5, 1);
    let noon = |days_ago: i64| (day_number(today) - days_ago) * DAY_MS + DAY_MS / 2;
    let mut activity = Activity::default();
    for days_ago in [0, 99, 100, 200] {
        activity.record_purchase("shoes", noon(days_ago), 1, None);
    }
    activity.record_event("seen", noon(100), 1, None);
    activity.record_revenue("EUR", 5);
    assert!(activity.prune(today));
    assert!(!activity.prune(today));
    assert_eq!(all(&activity), [("shoes".to_owned(), noon(99), noon(0), 2)]);
    assert_eq!(activity.revenue().collect::<Vec<_>>(), [("EUR", 5)]);
}

#[test]
fn the_latest_properties_of_a_name_are_kept_up_to_a_limit() {
    let mut activity = Activity::default();
    activity.record_purchase("tea", 50, 1, Some("{\"n\":2}"));
    activity.record_purchase("tea", 49, 1, Some("{\"n\":1}"));
    activity.record_event("tea", 7, 1, Some("{}"));
    let bytes = activity.encode();
    let mut read = Activity::decode(&bytes).unwrap();
    assert_eq!(read, activity);
    assert_eq!(read.purchase_properties("tea"), Some((50, "{\"n\":2}")));
    assert_eq!(read.event_properties("tea"), Some((7, "{}")));
    assert_eq!(read.purchase_properties("milk"), None);
    // The latest had none.
    read.record_purchase("tea", 50, 1, None);
    assert_eq!(read.purchase_properties("tea"), None);

    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_PROPERTIES / 3));
    for (name, at) in [("b", 3), ("a", 2), ("c", 1)] {
        read.record_purchase(name, at, 1, Some(&large));
    }
    assert!(read.prune(date(1970, 1, 1)));
    assert!(!read.prune(date(1970, 1, 1)));
    let has_properties = |name| read.purchase_properties(name).is_some();
    assert_eq!(["a", "b", "c"].map(has_properties), [true, true, false]);
    assert_eq!(read.event_properties("tea"), Some((7, "{}")));
}

#[test]
fn the_oldest_names_are_evicted() {
    let mut activity = Activity::default();
    activity.record_revenue("EUR", 5);
    for n in 0..20_000 {
        // The later half happened first.
        let at = DAY_MS * if n < 10_000 { 1 } else { 0 };
        activity.record_purchase(&format!("{n:0>50}"), at, 1, None);
        activity.record_event(&format!("{n:0>50}"), at + 1, 1, None);
    }
    let before = activity.clone();
    let removed = activity.prune_names();
    assert_eq!(activity.prune_names(), 0);
    let remaining = activity.purchases.len() + activity.events.len();
    assert_eq!(remaining + removed as usize, 40_000);
    // As many as there is room for, the latest ones.
    assert!((20_000..30_000).contains(&remaining), "{remaining}");
    assert!(activity.purchases.iter().zip(&before.purchases).take(10_000).all(|(a, b)| a == b));
    assert!(activity.events.iter().zip(&before.events).take(10_000).all(|(a, b)| a == b));
    let packed = activity.encode();
    assert!(packed.len() <= MAX_BYTES, "{}", packed.len());
    assert_eq!(Activity::decode(&packed).unwrap(), activity);
    assert_eq!(activity.revenue().collect::<Vec<_>>(), [("EUR", 5)]);
}

#[test]
fn revenue_stays_at_its_maximum() {
    let mut activity = Activity::default();
    assert!(activity.record_revenue("EUR", i64::MAX - 1));
    assert!(activity.record_revenue("EUR", 1));
    assert!(!activity.record_revenue("EUR", 1) && activity.record_revenue("USD", 1));
    assert_eq!(activity.revenue().collect::<Vec<_>>(), [("EUR", i64::MAX), ("USD", 1)]);
}

#[test]
fn revenue_is_summed_at_the_rates_known() {
    let rates = BTreeMap::from([("EUR".to_owned(), 1_080_000)]);
    assert_eq!(Activity::default().total_revenue("USD", &rates), None);
    let mut activity = Activity::default();
    for (currency, millionths) in [("USD", 2_000_000), ("EUR", 10_000_000), ("JPY", 7)] {
        activity.record_revenue(currency, millionths);
    }
    let total = Revenue { millionths: 12_800_000, uncounted: vec!["JPY"] };
    assert_eq!(activity.total_revenue("USD", &rates), Some(total));
    assert_eq!([5, 15, 25, -5].map(|n| divide_half_even(n, 10)), [0, 2, 2, 0]);
}
