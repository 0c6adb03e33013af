use super::*;

const NOW: i64 = 1_764_000_000_000;

fn relative(distance: i64) -> String {
    relative_time(NOW - distance, NOW).unwrap_or_default()
}

#[test]
fn times_are_relative_with_the_exact_one_in_the_zone() {
    assert_eq!(relative(0), "just now");
    assert_eq!(relative(-4_999), "just now");
    assert_eq!(relative(5_000), "5 s ago");
    assert_eq!(relative(59_999), "59 s ago");
    assert_eq!(relative(60_000), "1 min ago");
    assert_eq!(relative(3 * 60_000 + 1), "3 min ago");
    assert_eq!(relative(-3 * 60_000), "in 3 min");
    assert_eq!(relative(23 * 3_600_000), "23 h ago");
    assert_eq!(relative(47 * 3_600_000), "1 day ago");
    assert_eq!(relative(30 * 86_400_000), "30 days ago");
    assert_eq!(relative_time(NOW - 31 * 86_400_000, NOW), None);

    let zone = TimeZone::get("Europe/Berlin").unwrap();
    let shown = time(NOW - 180_000, NOW, &zone).into_string();
    assert_eq!(
        shown,
        "<time datetime=\"2025-11-24T15:57:00Z\" title=\"2025-11-24 16:57:00 CET\">3 min ago\
         </time>"
    );
    let summer = exact_time(1_751_371_200_000, &zone);
    assert_eq!(summer, "2025-07-01 14:00:00 CEST");
    let old = time(0, NOW, &zone).into_string();
    assert!(old.contains(">1970-01-01 01:00<"), "{old}");
}

#[test]
fn impossible_times_are_unknown() {
    for ms in [i64::MIN, i64::MAX] {
        assert_eq!(time(ms, NOW, &TimeZone::UTC).into_string(), "unknown");
        assert_eq!(exact_time(ms, &TimeZone::UTC), "unknown");
    }
}

#[test]
fn durations_have_two_units() {
    let of_seconds = |seconds: i64| duration(seconds * 1_000);
    assert_eq!((duration(-5), duration(999)), ("0 ms".into(), "999 ms".into()));
    assert_eq!((duration(1_000), duration(1_250)), ("1 s".into(), "1.2 s".into()));
    assert_eq!((of_seconds(59), of_seconds(60)), ("59 s".into(), "1 min".into()));
    assert_eq!((of_seconds(61), of_seconds(7_500)), ("1 min 1 s".into(), "2 h 5 min".into()));
    assert_eq!((of_seconds(86_400), of_seconds(100_000)), ("1 d".into(), "1 d 3 h".into()));
}

#[test]
fn numbers_have_separators() {
    let cases = [
        (0, "0"),
        (999, "999"),
        (1_000, "1,000"),
        (-12_345, "-12,345"),
        (1_234_567, "1,234,567"),
        (i64::MAX, "9,223,372,036,854,775,807"),
        (i64::MIN, "-9,223,372,036,854,775,808"),
    ];
    for (n, text) in cases {
        assert_eq!(number(n), text);
    }
}

#[test]
fn large_counts_are_estimates() {
    let cases = [
        (-1, "-1"),
        (9_999, "9,999"),
        (10_000, "10,000"),
        (10_001, "≈ 10,000"),
        (12_345, "≈ 12,300"),
        (2_999_999, "≈ 2,990,000"),
    ];
    for (n, text) in cases {
        assert_eq!(estimate(n), text);
    }
}

#[test]
fn sizes_have_their_largest_unit() {
    let cases = [
        (-1, "0 B"),
        (999, "999 B"),
        (1_000, "1.0 kB"),
        (1_250_000, "1.2 MB"),
        (99_990_000, "99.9 MB"),
        (150_000_000, "150 MB"),
        (999_999_999, "999 MB"),
        (1_000_000_000, "1.0 GB"),
        (i64::MAX, "9.2 EB"),
    ];
    for (n, text) in cases {
        assert_eq!(bytes(n), text, "{n}");
    }
}

#[test]
fn a_segment_cannot_leave_its_place_in_the_path() {
    assert_eq!(encoded("a-b_c.d~1"), "a-b_c.d~1");
    assert_eq!(encoded("a/../b?c#d e%"), "a%2F..%2Fb%3Fc%23d%20e%25");
    assert_eq!(encoded("ü"), "%C3%BC");
}

#[test]
fn hostile_names_are_text_and_long_ones_are_cut() {
    let hostile = "<script>alert('x')</script>\" hx-on:click=\"y";
    let shown = name(hostile).into_string();
    assert!(!shown.contains("<script") && !shown.contains("\" hx-on"), "{shown}");
    assert!(!shown.contains("title="), "{shown}");
    let long = "ä".repeat(300);
    let shown = name(&long).into_string();
    assert!(shown.contains(&format!("title=\"{long}\"")), "{shown}");
    assert!(shown.contains(&format!(">{}…<", "ä".repeat(200))), "{shown}");
    let mut errors = BTreeMap::new();
    errors.insert("fields".to_owned(), "<b>".to_owned());
    let message = field_error(&errors, "fields").into_string();
    assert!(message.contains("id=\"fields-error\"") && message.contains("&lt;b&gt;"), "{message}");
    assert_eq!(field_error(&errors, "format").into_string(), "");
}

#[test]
fn progress_stays_within_its_bar() {
    let shown = |done, total| progress_in(Tone::Running, done, total, "users").into_string();
    let half = shown(1_000, Some(2_000));
    assert!(half.contains("max=\"2000\" value=\"1000\"") && half.contains(">50%<"), "{half}");
    assert!(half.contains("1,000 ") && half.contains("of 2,000 users"), "{half}");
    assert!(shown(300, Some(200)).contains("max=\"200\" value=\"200\""));
    assert!(shown(999_999, Some(1_000_000)).contains(">99%<"));
    assert!(shown(i64::MAX, Some(i64::MAX)).contains(">100%<"));
    for unknown in [None, Some(0), Some(-1)] {
        let shown = shown(1_234, unknown);
        assert!(shown.contains("1,234 ") && !shown.contains("<progress"), "{shown}");
    }
}

#[test]
fn icons_are_drawn_in_the_page() {
    assert!(ICONS.len() > 20, "{}", ICONS.len());
    assert!(ICONS.contains_key("mark"));
    let drawn = icon("circle-check").into_string();
    assert!(drawn.contains("aria-hidden") && drawn.contains("<path"), "{drawn}");
    for (drawing, (view_box, _)) in ICONS.values().map(|icon| (icon.1, icon)) {
        assert!(!drawing.is_empty() && view_box.starts_with("0 0 "));
        assert!(!drawing.contains("style=") && !drawing.contains("script"), "{drawing}");
    }
}

#[test]
fn states_have_an_icon_and_a_word() {
    let shown = badge(Tone::Bad, "circle-x", "Failed").into_string();
    assert!(shown.contains("state-bad") && shown.contains("<svg") && shown.contains("Failed"));
}
