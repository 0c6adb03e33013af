use jiff::Timestamp;
use proptest::prelude::*;

use super::super::{format_time, from_ms};
use super::*;

#[test]
fn hours_of_an_offset_may_have_one_digit() {
    for (text, same) in [
        ("2013-07-16T19:20:30+1:00", "2013-07-16T19:20:30+01:00"),
        ("2013-07-16 19:20:30.5-9:30", "2013-07-16T19:20:30.5-09:30"),
    ] {
        assert_eq!(parse_time(text), parse_time(same), "{text}");
        assert!(parse_time(text).is_ok() && parse_wall_time(text).is_ok(), "{text}");
    }
    for text in ["2013-07-16T19:20:30+1", "2013-07-16T19:20:30+é:00", "2013-07-16T1:20+:00"] {
        assert!(parse_time(text).is_err(), "{text}");
    }
}

#[test]
fn a_time_on_the_wall_is_read_without_its_zone() {
    for text in [
        "2021-06-28T17:02:43.032Z",
        "2021-06-28t17:02:43.032z",
        "2021-06-28T17:02:43.032",
        "2021-06-28 17:02:43.032-0700",
        "2021-06-28T17:02:43.032+02:00[Europe/Berlin]",
        "2021-06-28T17:02:43:032+0200",
        "+002021-06-28T17:02:43.032+14:00",
    ] {
        assert_eq!(parse_wall_time(text), Ok(1_624_899_763_032), "{text}");
    }
    assert_eq!(parse_wall_time("2021-06-28"), Ok(1_624_838_400_000));
    for text in ["", "tomorrow", "2021-06-28T17:02:43+9999", "2021-06-28TZ", "T"] {
        assert!(parse_wall_time(text).is_err(), "{text}");
    }
}

#[test]
fn times_are_read_in_every_form() {
    for (text, ms) in [
        ("2021-06-28T17:02:43.032Z", 1_624_899_763_032),
        ("2021-06-28T19:02:43.032+0200", 1_624_899_763_032),
        ("2021-06-28T19:02:43.032+02:00", 1_624_899_763_032),
        ("2021-06-28T17:02:43", 1_624_899_763_000),
        ("2021-06-28", 1_624_838_400_000),
        ("2021-06-28T17:02:43:032+0000", 1_624_899_763_032),
        ("2021-06-28T19:02:43:032+0200", 1_624_899_763_032),
        ("2021-06-28T17:02:43:032Z", 1_624_899_763_032),
    ] {
        assert_eq!(parse_time(text), Ok(ms), "{text}");
        assert_eq!(is_date_and_time(text), text.contains('T'), "{text}");
    }
    for text in [
        "28/06/2021",
        "",
        "2021-06-28T17:02:43:03+0000",
        "2021-06-28T17:02:43:0320+0000",
        "2021-06-28T17:02:43:",
        "2021-02-30T00:00:00Z",
        "2021-06-28 to 30",
        "1 T",
        "éééééééééééé",
    ] {
        assert!(parse_time(text).is_err(), "{text}");
        assert!(!is_date_and_time(text), "{text}");
    }
}

fn ms(text: &str) -> i64 {
    text.parse::<Timestamp>().unwrap().as_millisecond()
}

#[test]
fn a_zone_in_brackets_decides_the_instant() {
    for (text, instant) in [
        ("2026-11-15T10:20:30[America/New_York]", "2026-11-15T15:20:30Z"),
        ("2026-11-15T10:20:30[!America/New_York]", "2026-11-15T15:20:30Z"),
        ("2026-11-15t10:20:30[AMERICA/new_york]", "2026-11-15T15:20:30Z"),
        ("2026-11-15 10:20:30-05:00[America/New_York]", "2026-11-15T15:20:30Z"),
        ("2026-11-15T10:20:30-0500[America/New_York][u-ca=iso8601]", "2026-11-15T15:20:30Z"),
        ("2026-11-15T10:20:30[+05:00]", "2026-11-15T05:20:30Z"),
        ("2026-11-15T10:20:30+05:00[+05:00]", "2026-11-15T05:20:30Z"),
        ("2026-11-15T10:20:30:000[Asia/Tokyo]", "2026-11-15T01:20:30Z"),
        ("2026-11-15T10:20:30-5:00[America/New_York]", "2026-11-15T15:20:30Z"),
        ("2026-11-15[America/New_York]", "2026-11-15T05:00:00Z"),
        // The local offset is unknown.
        ("2026-11-15T10:20:30Z[America/New_York]", "2026-11-15T10:20:30Z"),
        ("2026-11-15T10:20:30-00:00[America/New_York]", "2026-11-15T10:20:30Z"),
        ("2026-11-15T10:20:30[u-ca=gregory]", "2026-11-15T10:20:30Z"),
        // A skipped time is moved forward; of a repeated one, the first counts.
        ("2026-03-08T02:30:00[America/New_York]", "2026-03-08T07:30:00Z"),
        ("2026-11-01T01:30:00[America/New_York]", "2026-11-01T05:30:00Z"),
        ("2026-11-01T01:30:00-04:00[America/New_York]", "2026-11-01T05:30:00Z"),
        ("2026-11-01T01:30:00-05:00[America/New_York]", "2026-11-01T06:30:00Z"),
        // Local mean time, which may be stated in whole minutes.
        ("1800-01-01T00:00:00+00:53[Europe/Berlin]", "1799-12-31T23:06:32Z"),
        ("1800-01-01T00:00:00+00:53:28[Europe/Berlin]", "1799-12-31T23:06:32Z"),
    ] {
        assert_eq!(parse_time(text), Ok(ms(instant)), "{text}");
    }
}

#[test]
fn errors_say_what_is_rejected() {
    for (text, part) in [
        ("2026-11-15T10:20:30[Nonsense/Zone]", "unknown time zone [Nonsense/Zone]"),
        ("2026-11-15T10:20:30Z[Etc/Unknown]", "unknown time zone [Etc/Unknown]"),
        ("2026-11-15T10:20:30[+ab]", "unknown time zone [+ab]"),
        ("2026-11-15T10:20:30Z[]", "unknown time zone []"),
        (
            "2026-11-15T10:20:30+05:00[America/New_York]",
            "the offset +05 is not one of America/New_York",
        ),
        ("2026-11-15T10:20:30+00:00[Europe/Paris]", "the offset +00 is not one of Europe/Paris"),
        ("2026-11-15T10:20:30+04:00[+05:00]", "the offset +04 is not one of +05:00"),
        (
            "2026-03-08T02:30:00-05:00[America/New_York]",
            "the offset -05 is not one of America/New_York",
        ),
        ("2026-11-15T10:20:30Z[!foo=bar]", "annotation [!foo=bar]"),
        ("2026-11-15T10:20:30Z[foo=bar]", "annotation [foo=bar]"),
        ("2026-11-15T10:20:30Z[u-ca=hebrew]", "annotation [u-ca=hebrew]"),
        ("2026-11-15T10:20:30Z[Europe/Paris][Europe/Paris]", "annotation [Europe/Paris]"),
        ("2026-11-15T10:20:30Z[u-ca=iso8601][Europe/Paris]", "annotation [Europe/Paris]"),
        ("2026-11-15T10:20:30Z[u-ca=iso8601][u-ca=gregory]", "annotation [u-ca=gregory]"),
        ("2026-11-15T10:20:30+25:00", "the offset +25 is beyond 18 hours"),
        ("2026-11-15T10:20:30+18:01", "the offset +18:01 is beyond 18 hours"),
        ("2026-11-15T10:20:30-18:00:01", "the offset -18:00:01 is beyond 18 hours"),
        ("2026-11-15T10:20:30[-18:01]", "the offset -18:01 is beyond 18 hours"),
        ("2026-11-15T10:20:60Z", "second 60"),
        ("2026-11-30T23:58:60Z", "second 60"),
        ("2026-11-29T23:59:60Z", "second 60"),
        ("2026-11-30T23:59:60+01:00", "second 60"),
        ("20261115T102060", "second 60"),
        ("9999-12-31T23:59:59-00:01", "after 9999-12-31T23:59:59.999Z"),
        ("9999-12-31T23:59:59[America/New_York]", "after 9999-12-31T23:59:59.999Z"),
        ("-009999-01-01T00:00:00+00:01", "before the year -9999"),
        ("10000-01-01T00:00:00Z", "ISO 8601"),
        ("2026-11-15T24:00:00Z", "ISO 8601"),
        ("2026-11-15T10:20:61Z", "ISO 8601"),
        ("2026-11-15T10:20:30Z[Europe/Paris", "ISO 8601"),
        ("2026-11-15T10:20:30Z[Europe/Paris]x", "ISO 8601"),
        ("[Europe/Paris]", "ISO 8601"),
    ] {
        let error = parse_time(text).expect_err(text);
        assert!(error.contains(part), "{text}: {error}");
        assert!(!is_date_and_time(text), "{text}");
    }
}

#[test]
fn the_calendar_has_all_of_its_last_day() {
    for text in [
        "9999-12-31T23:59:59.999Z",
        "9999-12-31T23:59:59.999999999Z",
        "9999-12-31T18:59:59.999-05:00",
        "9999-12-31T18:59:59.999[America/New_York]",
    ] {
        assert_eq!(parse_time(text), Ok(253_402_300_799_999), "{text}");
    }
    assert_eq!(
        format_time(parse_time("9999-12-30T22:00:01Z").unwrap()),
        "9999-12-30T22:00:01.000Z"
    );
}

#[test]
fn second_60_counts_as_59_where_a_leap_second_can_be() {
    for (text, same) in [
        ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59Z"),
        ("2017-01-01T00:59:60+01:00", "2016-12-31T23:59:59Z"),
        ("2026-02-28T23:59:60.5Z", "2026-02-28T23:59:59.5Z"),
        ("2026-02-28T23:59:60:500Z", "2026-02-28T23:59:59.5Z"),
        ("20161231T235960Z", "2016-12-31T23:59:59Z"),
        ("2016-12-31T18:59:60[America/New_York]", "2016-12-31T23:59:59Z"),
    ] {
        assert_eq!(parse_time(text), Ok(ms(same)), "{text}");
    }
}

#[test]
fn a_date_in_a_zone_has_no_time_of_day() {
    assert!(!is_date_and_time("2026-11-15[Asia/Tokyo]"));
    assert!(is_date_and_time("2026-11-15T00:00[Asia/Tokyo]"));
}

/// A zone, and a text of a time in it.
fn any_zone() -> impl Strategy<Value = String> {
    let names: Vec<String> = jiff::tz::db().available().map(|name| name.to_string()).collect();
    prop::sample::select(names)
}

proptest! {
    #[test]
    fn a_time_with_its_zone_is_its_instant(
        ms in -62_135_596_800_000_i64..=253_402_207_200_000, name in any_zone()
    ) {
        let zoned = from_ms(ms).to_zoned(zones::zone(&name).unwrap());
        prop_assert_eq!(parse_time(&zoned.to_string()), Ok(ms), "{}", zoned);
        // Without the offset, the zone decides; of a repeated time, the first one counts.
        let local = format!("{}[{name}]", zoned.datetime());
        let first = zoned.time_zone().to_ambiguous_zoned(zoned.datetime()).compatible().unwrap();
        prop_assert_eq!(parse_time(&local), Ok(first.timestamp().as_millisecond()), "{}", local);
        // The local time does not depend on the zone.
        let wall = parse_wall_time(&zoned.datetime().to_string());
        prop_assert_eq!(parse_wall_time(&local), wall.clone());
        prop_assert_eq!(parse_wall_time(&zoned.to_string()), wall);
    }

    #[test]
    fn an_offset_of_another_zone_is_rejected(
        ms in 0_i64..4_102_444_800_000, name in any_zone(), minutes in -1_080_i32..=1_080
    ) {
        let offset = Offset::from_seconds(minutes * 60).unwrap();
        let zone = zones::zone(&name).unwrap();
        let text = format!("{:.3}[{name}]", from_ms(ms).display_with_offset(offset));
        let is_its_own = zone.to_offset(from_ms(ms)).round(jiff::Unit::Minute).unwrap() == offset;
        prop_assert_eq!(parse_time(&text).is_ok(), is_its_own, "{}", text);
    }

    #[test]
    fn a_stored_time_is_read_as_it_was(ms in -377_705_116_800_000_i64..=253_402_300_799_999) {
        prop_assert_eq!(parse_time(&format_time(ms)), Ok(ms));
    }

    #[test]
    fn never_panics(text in "[0-9TZ:+. \\[\\]!a-zA-Z/=-]{0,40}|\\PC*") {
        if let Ok(ms) = parse_time(&text) {
            prop_assert_eq!(parse_time(&format_time(ms)), Ok(ms));
        }
    }
}

proptest! {
    #[test]
    fn times_as_they_are_stored_are_read_like_any_other(
        text in r"[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9]:[0-6][0-9]\.[0-9]{3}Z",
    ) {
        let read = WrittenTime::read(&text);
        let read = read.and_then(|WrittenTime { local, offset, .. }| instant(local, offset));
        prop_assert_eq!(parse_time(&text), read.clone());
        let stored = read.map(|time| Cow::Owned(format_time(time)));
        prop_assert_eq!(normalize_time(text.as_str().into()), stored);
    }
}
