use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::*;
use people::users::recipient::CustomAttributes;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;

/// The local time in a text.
fn wall(timing: Timing, text: &str) -> When {
    When { timing, time: ms(&format!("{text}Z")) }
}

fn ms(text: &str) -> i64 {
    text.parse::<Timestamp>().unwrap().as_millisecond()
}

fn user(zone: Option<&str>) -> Recipient {
    let zone = zone.map(|zone| ("time_zone".to_owned(), Value::from(zone)));
    Recipient {
        service_id: Uuid::nil(),
        profile: Map::from_iter(zone),
        custom: CustomAttributes::default(),
        stopped: None,
    }
}

/// A user who moved to a zone at a time.
fn moved(zone: &str, at: i64) -> Recipient {
    let mut user = user(Some(zone));
    user.profile.insert("time_zone_changed_at".to_owned(), at.into());
    user
}

fn active_at(times: &[&str]) -> Vec<u8> {
    let mut activity = Activity::default();
    for (number, time) in times.iter().enumerate() {
        activity.record_event(&format!("e{number}"), ms(time), 1, None);
    }
    activity.encode()
}

fn zones() -> Vec<String> {
    tz::db().available().map(|name| name.to_string()).collect()
}

#[test]
fn local_times_are_due_per_time_zone() {
    let when = wall(Timing::Local, "2026-11-21T10:00:00");
    let due_in = |zone| due(when, 0, &user(zone), None, &TimeZone::get("Asia/Tokyo").unwrap());
    for (zone, utc) in [
        (Some("Europe/Berlin"), "2026-11-21T09:00:00Z"),
        (Some("America/New_York"), "2026-11-21T15:00:00Z"),
        (Some("Asia/Kathmandu"), "2026-11-21T04:15:00Z"),
        (Some("Pacific/Kiritimati"), "2026-11-20T20:00:00Z"),
        (Some("Etc/GMT+12"), "2026-11-21T22:00:00Z"),
        // The zone of the workspace.
        (None, "2026-11-21T01:00:00Z"),
        (Some("Mars/Base"), "2026-11-21T01:00:00Z"),
    ] {
        assert_eq!(due_in(zone), ms(utc), "{zone:?}");
    }
    let moments = moments(when);
    assert_eq!(moments.first(), Some(&ms("2026-11-20T20:00:00Z")));
    assert_eq!(moments.last(), Some(&ms("2026-11-21T22:00:00Z")));
    assert!((30..60).contains(&moments.len()), "{}", moments.len());
}

#[test]
fn local_times_are_resolved_at_clock_changes() {
    let due_in_berlin = |text| due(wall(Timing::Local, text), 0, &user(None), None, &berlin());
    assert_eq!(due_in_berlin("2026-03-29T02:30:00"), ms("2026-03-29T01:30:00Z"));
    assert_eq!(due_in_berlin("2026-10-25T02:30:00"), ms("2026-10-25T00:30:00Z"));
}

fn berlin() -> TimeZone {
    TimeZone::get("Europe/Berlin").unwrap()
}

#[test]
fn the_best_hour_is_that_of_most_activity_in_the_users_zone() {
    let when = wall(Timing::Optimal, "2026-11-21T18:00:00");
    let due_for = |times: &[&str], made_at: &str| {
        let packed = active_at(times);
        let activity = Activity::decode(&packed).unwrap();
        due(when, ms(made_at), &user(None), Some(&activity), &berlin())
    };
    // 20 and 21 o'clock in Berlin, by its summer time and its winter time.
    let evenings = [
        "2026-10-01T18:10:00Z",
        "2026-11-02T19:59:59Z",
        "2026-11-03T20:00:00Z",
        "2026-11-04T20:30:00Z",
        "2026-11-05T19:00:00Z",
    ];
    assert_eq!(due_for(&evenings, "2026-11-20T00:00:00Z"), ms("2026-11-21T19:00:00Z"));
    // Both hours are equal: the first one that is still to come.
    assert_eq!(due_for(&evenings[1..], "2026-11-20T00:00:00Z"), ms("2026-11-21T19:00:00Z"));
    assert_eq!(due_for(&evenings[1..], "2026-11-21T19:30:00Z"), ms("2026-11-21T20:00:00Z"));
    assert_eq!(due_for(&evenings, "2026-11-21T20:30:00Z"), ms("2026-11-21T17:00:00Z"));
    // No activity is known: the given time.
    assert_eq!(due_for(&[], "2026-11-20T00:00:00Z"), ms("2026-11-21T17:00:00Z"));
    // Activity while the messages are sent does not move the hour.
    let mut later = evenings.to_vec();
    later.extend(["2026-11-20T00:00:00Z", "2026-11-20T00:01:00Z", "2026-11-21T00:00:00Z"]);
    assert_eq!(due_for(&later, "2026-11-19T00:00:00Z"), ms("2026-11-21T19:00:00Z"));
    assert_eq!(due_for(&later[5..], "2026-11-19T00:00:00Z"), ms("2026-11-21T17:00:00Z"));
    let before = ["2026-11-19T23:59:59Z"];
    assert_eq!(due_for(&before, "2026-11-19T00:00:00Z"), ms("2026-11-20T23:00:00Z"));
    // Days that may be deleted while the messages are sent do not count.
    let due_by = |time| due_for(&[time], "2026-11-19T00:00:00Z");
    assert_eq!(due_by("2026-08-17T00:00:00Z"), ms("2026-11-21T01:00:00Z"));
    assert_eq!(due_by("2026-08-16T23:59:59Z"), ms("2026-11-21T17:00:00Z"));
    let moments = moments(when);
    assert!((100..300).contains(&moments.len()), "{}", moments.len());
}

#[test]
fn slightly_late_waves_are_sent_at_once() {
    let when = wall(Timing::Local, "2026-11-21T10:00:00");
    let all = moments(when);
    let now = ms("2026-11-21T04:20:00Z");
    let made_at = ms("2026-11-21T04:19:00Z");
    let first = step(when, made_at, Progress::default(), now, HOUR);
    let wave = first.wave.unwrap();
    // The latest due moment is Kathmandu's. Moments an hour ago or earlier are missed.
    assert_eq!((wave.at_ms, wave.is_last), (ms("2026-11-21T04:15:00Z"), false));
    assert_eq!(first.progress.missed, Some(wave.after_ms));
    assert!(now - wave.after_ms >= HOUR && first.missed.last() == Some(&wave.after_ms));
    assert!(is_included(&wave, &user(Some("Asia/Kathmandu")), None, &TimeZone::UTC));
    assert!(is_included(&wave, &user(Some("Asia/Dhaka")), None, &TimeZone::UTC));
    assert!(!is_included(&wave, &user(Some("Asia/Tokyo")), None, &TimeZone::UTC));
    assert!(!is_included(&wave, &user(Some("Asia/Kolkata")), None, &TimeZone::UTC));
    assert_eq!(first.next_at, Some(ms("2026-11-21T04:30:00Z")));

    // The next one includes only users whose time came since, and those who moved there since.
    let second = step(when, made_at, first.progress, now + 20 * MINUTE, HOUR).wave.unwrap();
    assert_eq!(second.previous_ms, Some(wave.at_ms));
    assert!(is_included(&second, &user(Some("Asia/Kolkata")), None, &TimeZone::UTC));
    // Tokyo's moment was missed.
    for (zone, is_timely) in [("Asia/Kathmandu", true), ("Asia/Dhaka", true), ("Asia/Tokyo", false)]
    {
        assert!(!is_included(&second, &user(Some(zone)), None, &TimeZone::UTC), "{zone}");
        assert!(
            !is_included(&second, &moved(zone, made_at - HOUR), None, &TimeZone::UTC),
            "{zone}"
        );
        assert_eq!(
            is_included(&second, &moved(zone, now), None, &TimeZone::UTC),
            is_timely,
            "{zone}"
        );
    }
    // Those of version 0.2.0 include all users whose time has come.
    let mut stored = serde_json::to_value(second).unwrap();
    stored.as_object_mut().unwrap().remove("previous_ms");
    let stored: Wave = serde_json::from_value(stored).unwrap();
    assert_eq!(stored, Wave { previous_ms: None, ..second });
    assert!(is_included(&stored, &user(Some("Asia/Dhaka")), None, &TimeZone::UTC));

    // Again at the same time there is nothing to do.
    let again = step(when, made_at, first.progress, now, HOUR);
    assert_eq!((again.wave, again.missed.len()), (None, 0));
    assert_eq!((again.progress, again.next_at), (first.progress, first.next_at));
    // The last one, after a long time.
    let end = *all.last().unwrap();
    let last = step(when, made_at, first.progress, end, HOUR);
    assert!(last.wave.is_some_and(|wave| wave.is_last && wave.at_ms == end));
    assert_eq!((last.next_at, last.missed.len() > 10), (None, true));
    let never = step(when, made_at, first.progress, end + HOUR, HOUR);
    assert_eq!((never.wave, never.next_at), (None, None));
}

#[test]
fn users_of_a_wave_that_is_not_sent_are_too_late_for_the_next() {
    let when = wall(Timing::Local, "2026-11-21T10:00:00");
    let now = ms("2026-11-21T04:20:00Z");
    let mut first = step(when, now - MINUTE, Progress::default(), now, HOUR);
    let (at_ms, missed) = (first.wave.unwrap().at_ms, first.missed.len());
    first.miss_wave();
    assert_eq!((first.wave, first.missed.len()), (None, missed + 1));
    let expected = Progress { reached: Some(at_ms), missed: Some(at_ms) };
    assert_eq!(first.progress, expected);
    let second = step(when, now - MINUTE, first.progress, now + 20 * MINUTE, HOUR).wave.unwrap();
    for (zone, is_timely) in [("Asia/Kathmandu", false), ("Asia/Kolkata", true)] {
        assert_eq!(
            is_included(&second, &user(Some(zone)), None, &TimeZone::UTC),
            is_timely,
            "{zone}"
        );
    }
}

#[test]
fn an_instant_has_one_wave() {
    let when = When { timing: Timing::Instant, time: 1_000 * HOUR };
    let at = |now| step(when, 0, Progress::default(), now, HOUR);
    assert_eq!(at(when.time - 1).wave, None);
    assert_eq!(at(when.time - 1).next_at, Some(when.time));
    for late in [0, HOUR - 1] {
        let step = at(when.time + late);
        assert!(step.wave.is_some_and(|wave| wave.is_last) && step.missed.is_empty());
        assert_eq!(step.next_at, None);
    }
    let missed = at(when.time + HOUR);
    assert_eq!((missed.wave, missed.missed), (None, vec![when.time]));
}

/// Runs the waves of a schedule: whenever one is due, and again after pauses. Returns them, and the
/// missed moments.
fn waves(when: When, made_at: i64, pauses: &[i64]) -> (Vec<Wave>, Vec<i64>) {
    let (mut progress, mut waves, mut missed) = (Progress::default(), Vec::new(), Vec::new());
    let (mut now, moments) = (made_at, moments(when));
    for turn in 0.. {
        let step = step_through(moments.clone(), when, made_at, progress, (now, HOUR));
        waves.extend(step.wave);
        missed.extend(step.missed);
        progress = step.progress;
        match step.next_at {
            // Immediately or some time later, as for workers.
            Some(next) => now = next + pauses[turn % pauses.len()],
            None => break,
        }
    }
    (waves, missed)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Around days on which many zones change their clocks, and others. So a user who is excluded
    /// counts once, and gets nothing later. The moments between two waves can be missed.
    #[test]
    fn each_user_is_in_exactly_one_wave(
        day in prop::sample::select(vec![
            "2026-03-08", "2026-03-29", "2026-04-05", "2026-10-04", "2026-10-25", "2026-11-01",
            "2026-07-15", "2011-12-30", "2028-02-29",
        ]),
        minutes in 0..1440_i64,
        is_optimal: bool,
        moments_of_activity in prop::collection::vec(0..(86_400_000_i64 * 20), 0..6),
        pauses in prop::collection::vec(0..2 * HOUR, 1..4),
        zones in prop::sample::subsequence(zones(), 40),
    ) {
        let timing = if is_optimal { Timing::Optimal } else { Timing::Local };
        let mut when = wall(timing, &format!("{day}T00:00:00"));
        when.time += minutes * MINUTE;
        let made_at = when.time - 72 * HOUR;
        let mut activity = Activity::default();
        for moment in moments_of_activity {
            activity.record_purchase("p", made_at - moment, 1, None);
        }
        let packed = activity.encode();
        let activity = Activity::decode(&packed).unwrap();
        let ((waves, missed), moments) = (waves(when, made_at, &pauses), moments(when));
        prop_assert!(when.earliest() <= moments[0]);
        prop_assert!(!missed.is_empty() || waves.last().unwrap().is_last);
        prop_assert_eq!(missed.is_empty(), pauses.iter().all(|pause| *pause < HOUR));
        prop_assert!(waves.is_sorted_by(|a, b| a.at_ms < b.at_ms));
        prop_assert!(waves.len() <= moments.len());
        for zone in zones {
            let user = user(Some(&zone));
            let due = due(when, made_at, &user, Some(&activity), &TimeZone::UTC);
            prop_assert!(moments.binary_search(&due).is_ok(), "{zone} {due}");
            let includes = |wave: &Wave| is_included(wave, &user, Some(&activity), &TimeZone::UTC);
            let including: Vec<usize> = (0..waves.len()).filter(|n| includes(&waves[*n])).collect();
            if missed.contains(&due) {
                prop_assert!(including.is_empty(), "{zone} was sent to late: {including:?}");
                continue;
            }
            prop_assert_eq!(including.len(), 1, "{}: {:?}", zone, including);
            let index = including[0];
            prop_assert!(waves[index].at_ms >= due);
            prop_assert!(index == 0 || waves[index - 1].at_ms < due, "{zone} was sent to late");
        }
    }

    /// A user who moves between waves, before their moment, is still in exactly one of them: the
    /// next one, or that of their moment in the new zone.
    #[test]
    fn users_who_change_time_zone_are_in_a_wave(
        minutes in 0..1440_i64,
        from in prop::sample::select(zones()),
        to in prop::sample::select(zones()),
        moved_before in 0..60_usize,
    ) {
        let mut when = wall(Timing::Local, "2026-10-25T00:00:00");
        when.time += minutes * MINUTE;
        let made_at = when.time - 72 * HOUR;
        let (waves, _) = waves(when, made_at, &[0]);
        let moved_at = match moved_before {
            0 => made_at,
            number => waves.get(number - 1).map_or(i64::MAX, |wave| wave.at_ms + 1),
        };
        let (before, after) = (user(Some(&from)), moved(&to, moved_at));
        let (early, late) = waves.split_at(moved_before.min(waves.len()));
        let count = |waves: &[Wave], user: &Recipient| {
            waves.iter().filter(|wave| is_included(wave, user, None, &TimeZone::UTC)).count()
        };
        let sent = count(early, &before);
        prop_assert!(sent <= 1);
        if sent == 0 {
            prop_assert_eq!(count(late, &after), 1);
            let due = due(when, made_at, &after, None, &TimeZone::UTC);
            let is_past = early.last().is_some_and(|wave| due <= wave.at_ms);
            prop_assert!(!is_past || is_included(&late[0], &after, None, &TimeZone::UTC));
        }
    }

    #[test]
    fn never_panics(time: i64, made_at: i64, now: i64, reached: Option<i64>, late: u32) {
        let progress = Progress { reached, missed: reached };
        for timing in [Timing::Instant, Timing::Local, Timing::Optimal] {
            let when = When { timing, time };
            step(when, made_at, progress, now, late.into());
            when.earliest();
            when.activity_days();
            due(when, made_at, &user(None), None, &TimeZone::UTC);
        }
    }
}

fn is_included(
    wave: &Wave,
    user: &Recipient,
    activity: Option<&Activity<'_>>,
    zone: &TimeZone,
) -> bool {
    membership(wave, user, activity, zone) == Membership::Included
}

#[test]
fn each_user_counts_in_one_wave() {
    let when = wall(Timing::Local, "2026-11-21T10:00:00");
    let (now, made_at) = (ms("2026-11-21T04:20:00Z"), ms("2026-11-21T04:19:00Z"));
    let first = step(when, made_at, Progress::default(), now, HOUR);
    let second = step(when, made_at, first.progress, now + 20 * MINUTE, HOUR);
    // Nothing is sent for two hours.
    let third = step(when, made_at, second.progress, now + 140 * MINUTE, HOUR);
    let mut sent_before_ms = None;
    let waves = [first, second, third].map(|step| {
        let wave = Wave { sent_before_ms, ..step.wave.unwrap() };
        sent_before_ms = Some(wave.at_ms);
        wave
    });
    let memberships =
        |zone: &str| waves.map(|wave| membership(&wave, &user(Some(zone)), None, &TimeZone::UTC));
    use Membership::{Included, OtherWave, TooLate};
    assert_eq!(memberships("Asia/Tokyo"), [TooLate, OtherWave, OtherWave]);
    assert_eq!(memberships("Asia/Kathmandu"), [Included, OtherWave, OtherWave]);
    assert_eq!(memberships("Asia/Kolkata"), [OtherWave, Included, OtherWave]);
    assert_eq!(memberships("Asia/Karachi"), [OtherWave, OtherWave, TooLate]);
    assert_eq!(memberships("Asia/Dubai"), [OtherWave, OtherWave, Included]);
    assert_eq!(memberships("Europe/London"), [OtherWave, OtherWave, OtherWave]);
}
