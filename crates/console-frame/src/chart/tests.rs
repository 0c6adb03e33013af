use super::*;
use runtime::history::{Step, Window};

static UTC: TimeZone = TimeZone::UTC;

const MINUTE: i64 = 60_000;

fn times(bins: i64) -> Times {
    let window = Window { step: Step::Minute, start: 0, end: bins * MINUTE, bin_ms: MINUTE };
    Times {
        rows: Times::rows_by(&window, &TimeZone::UTC, "%H:%M"),
        window,
        bin: "a minute",
        labels: vec!["00:00".to_owned(), "00:04".to_owned()],
    }
}

fn chart<'a>(times: &'a Times, unit: Unit, series: &[&[Option<i64>]]) -> Chart<'a> {
    let names = ["Sent", "Failed"];
    let series = series.iter().zip(names);
    Chart {
        id: "messages",
        title: "Messages",
        unit,
        rollup: if unit == Unit::Count { Rollup::Sum } else { Rollup::Max },
        series: series.map(|(values, name)| Series { name, values: values.to_vec() }).collect(),
        times,
        since: None,
        zone: &UTC,
    }
}

fn panel(chart: &Chart<'_>) -> String {
    chart.panel(html! {}).into_string()
}

#[test]
fn the_axis_ends_at_a_round_number_with_a_round_half() {
    let ends = [0, 1, 2, 3, 9, 11, 61, 999, 1_000, 1_001].map(|max| Unit::Count.axis_end(max));
    assert_eq!(ends, [2, 2, 2, 4, 10, 20, 80, 1_000, 1_000, 2_000]);
    assert_eq!(Unit::Count.axis_end(i64::MAX), i64::MAX);
    let day = 24 * 60 * MINUTE;
    let ends = [0, 2_001, 59_000, 61_000, 11 * MINUTE, 3 * day, 71 * day];
    let ends = ends.map(|max| Unit::Duration.axis_end(max));
    assert_eq!(ends, [2_000, 10_000, MINUTE, 2 * MINUTE, 20 * MINUTE, 4 * day, 80 * day]);
    assert_eq!(Unit::Duration.axis_end(i64::MAX), i64::MAX);
}

#[test]
fn numbers_of_the_axis_are_short() {
    let written = [0, 999, 1_000, 1_500, 40_000, 2_000_000, 3_000_000_000, i64::MAX];
    let written = written.map(|value| Unit::Count.short(value));
    assert_eq!(written, ["0", "999", "1k", "1.5k", "40k", "2M", "3B", "9223372.0T"]);
    assert_eq!(Unit::Duration.short(20 * MINUTE), "20 min");
}

#[test]
fn a_gap_is_drawn_and_is_not_zero() {
    let times = times(5);
    let values = [None, Some(4), None, Some(0), None];
    let text = panel(&chart(&times, Unit::Count, &[&values]));
    assert!(text.contains(r#"class="gap" d="M400.0 0H600.0V100H400.0z""#), "{text}");
    assert!(text.contains("Not recorded"), "{text}");
    assert!(text.contains("Sent: 4 in total, at most 4 in a minute, now 0."), "{text}");
    assert_eq!(text.matches('–').count(), 3, "{text}");
    // One bar: a zero has none.
    assert!(text.contains(r#"d="M200.0 100.0V0.0H360.0V100.0z""#), "{text}");
}

#[test]
fn failures_are_on_top() {
    let times = times(1);
    let text = panel(&chart(&times, Unit::Count, &[&[Some(6)], &[Some(2)]]));
    assert!(text.contains(r#"d="M0.0 100.0V25.0H800.0V100.0z""#), "{text}");
    assert!(text.contains(r#"class="second" d="M0.0 25.0V0.0H800.0V25.0z""#), "{text}");
    assert!(text.contains("Failed: 2 in total"), "{text}");
}

#[test]
fn a_single_value_zeros_and_huge_values_are_drawn_inside() {
    let times = times(3);
    for values in [[Some(1), None, None], [Some(0); 3], [Some(i64::MAX); 3], [Some(-1); 3]] {
        let chart = chart(&times, Unit::Count, &[&values, &values]);
        let text = panel(&chart);
        assert!(text.contains("role=\"img\"") && !text.contains("NaN"), "{text}");
        let bars = chart.bars(0, chart.unit.axis_end(chart.height(0))) + &chart.gaps();
        assert!(!bars.contains('-'), "nothing is outside: {bars}");
    }
    // Something is visible, however little it is.
    let little = chart(&times, Unit::Count, &[&[Some(1), Some(1_000_000), None]]);
    assert!(little.bars(0, 1_000_000).starts_with("M0.0 100.0V99.0"));
}

#[test]
fn without_values_the_beginning_of_the_history_is_shown() {
    let times = times(2);
    let mut empty = chart(&times, Unit::Duration, &[&[None, None]]);
    assert!(panel(&empty).contains("No values yet"));
    empty.since = Some(3_600_000);
    let text = panel(&empty);
    assert!(
        text.contains("The history begins 1970-01-01 01:00 UTC")
            && !text.contains("<svg class=\"chart")
    );
    assert!(!text.contains("<table"), "{text}");
}

#[test]
fn rows_are_the_bins_with_the_same_label() {
    let window =
        Window { step: Step::Minute, start: 58 * MINUTE, end: 62 * MINUTE, bin_ms: MINUTE };
    let rows = Times::rows_by(&window, &TimeZone::UTC, "%H:00");
    assert_eq!(rows, [("00:00".to_owned(), 0..2), ("01:00".to_owned(), 2..4)]);
    // An hour that occurs twice is two rows.
    let zone = TimeZone::get("Europe/Berlin").unwrap();
    let start = 1_761_436_800_000; // 2025-10-26T00:00:00Z, 2:00 in summer time.
    let window = Window { step: Step::Hour, start, end: start + 120 * MINUTE, bin_ms: 60 * MINUTE };
    let rows = Times::rows_by(&window, &zone, "%H:00 %Z");
    assert_eq!(rows, [("02:00 CEST".to_owned(), 0..1), ("02:00 CET".to_owned(), 1..2)]);
}
