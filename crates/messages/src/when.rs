//! The time of a schedule (docs/reference/api/canvas.md).

use schemars::JsonSchema;
use serde::Deserialize;

use gateway::formats::Time;
use kit::clock::{parse_time, parse_wall_time};
use store::text_enum;

const HOUR_MS: i64 = 3_600_000;

/// The error for a past time.
pub const PAST: &str = "schedule.time is in the past";

/// The last zone in which a local time occurs is 12 hours behind UTC.
const LAST_ZONE_MS: i64 = 12 * HOUR_MS;

/// No zone is further ahead of UTC.
const FIRST_ZONE_MS: i64 = 15 * HOUR_MS;

text_enum! {
    /// How a schedule's time applies to users.
    pub enum Timing {
        /// One point in time for everyone.
        Instant = "instant",
        /// A local time, in each user's own zone.
        Local = "local",
        /// The best hour of that day for each user, in the user's own zone.
        Optimal = "optimal",
    }
}

/// The time of a schedule, and how it applies to users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "ScheduleObject")]
pub struct When {
    pub timing: Timing,
    /// Milliseconds since the epoch; a local time is stored as if it were in UTC.
    pub time: i64,
}

/// When to send. A local time is in the past once it has passed in every time zone.
#[derive(Deserialize, JsonSchema)]
pub struct ScheduleObject {
    #[schemars(with = "Time")]
    time: String,
    /// If true, the zone in `time` is ignored: the time is in each user's time zone, or in the
    /// workspace's if the user has none. If a user's time was an hour or more in the past when the
    /// schedule was created, the user gets no message.
    #[schemars(extend("default" = false))]
    in_local_time: Option<bool>,
    /// If true, like `in_local_time`, but at the hour of that day in which the user was most often
    /// active, of the hours still to come. Users without activity get the message at the given
    /// time. Takes precedence over `in_local_time`.
    #[schemars(extend("default" = false))]
    at_optimal_time: Option<bool>,
}

impl TryFrom<ScheduleObject> for When {
    type Error = String;

    fn try_from(object: ScheduleObject) -> Result<Self, String> {
        let ScheduleObject { time, in_local_time, at_optimal_time } = object;
        let timing = match (at_optimal_time, in_local_time) {
            (Some(true), _) => Timing::Optimal,
            (_, Some(true)) => Timing::Local,
            _ => Timing::Instant,
        };
        let read = if timing == Timing::Instant { parse_time } else { parse_wall_time };
        let time = read(&time).map_err(|error| format!(".time: {error}"))?;
        Ok(Self { timing, time })
    }
}

impl When {
    /// No user is due before this moment.
    pub fn earliest(self) -> i64 {
        let time_of_day = self.time.rem_euclid(24 * HOUR_MS);
        match self.timing {
            Timing::Instant => self.time,
            Timing::Local => self.time.saturating_sub(FIRST_ZONE_MS),
            Timing::Optimal => self.time.saturating_sub(time_of_day + FIRST_ZONE_MS),
        }
    }

    /// Whether the time has passed; a local time, in every zone.
    pub fn is_past(self, now: i64) -> bool {
        match self.timing {
            Timing::Instant => self.time < now,
            Timing::Local | Timing::Optimal => self.time.saturating_add(LAST_ZONE_MS) < now,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::*;
    use gateway::fields;

    #[derive(Debug, Deserialize)]
    struct Request {
        schedule: When,
    }

    fn read(schedule: Value) -> Result<When, String> {
        let read = fields::read(&Map::from_iter([("schedule".to_owned(), schedule)]));
        read.map(|Request { schedule }| schedule).map_err(|error| error.message().into_owned())
    }

    const TIME: &str = "2026-11-21T10:00:00-05:00";
    const NOON_UTC: i64 = 1_795_262_400_000;

    #[test]
    fn a_time_is_an_instant_or_local_to_each_user() {
        let read = |value: Value| read(value).unwrap();
        let instant =
            read(json!({ "time": TIME, "in_local_time": false, "at_optimal_time": null }));
        assert_eq!(instant, When { timing: Timing::Instant, time: NOON_UTC + 3 * HOUR_MS });
        let local = read(json!({ "time": TIME, "in_local_time": true }));
        assert_eq!(local, When { timing: Timing::Local, time: NOON_UTC - 2 * HOUR_MS });
        let time = "2026-11-21T10:00:00[America/New_York]";
        assert_eq!(read(json!({ "time": time })), instant);
        assert_eq!(read(json!({ "time": time, "in_local_time": true })), local);
        let optimal = read(json!({ "time": TIME, "at_optimal_time": true, "in_local_time": true }));
        assert_eq!(optimal, When { timing: Timing::Optimal, ..local });
    }

    #[test]
    fn a_local_time_is_past_once_it_is_past_in_every_zone() {
        let at = |timing| When { timing, time: NOON_UTC };
        assert!(
            !at(Timing::Instant).is_past(NOON_UTC) && at(Timing::Instant).is_past(NOON_UTC + 1)
        );
        for timing in [Timing::Local, Timing::Optimal] {
            let last = NOON_UTC + 12 * HOUR_MS;
            assert!(!at(timing).is_past(last) && at(timing).is_past(last + 1), "{timing:?}");
        }
    }

    #[test]
    fn errors_name_the_invalid_field() {
        for (value, text) in [
            (json!([]), "schedule must be an object"),
            (json!({}), "schedule.time is required"),
            (json!({ "time": null }), "schedule.time is required"),
            (json!({ "time": 5 }), "schedule.time must be a string"),
            (json!({ "time": "soon" }), "schedule.time: expected a date and time in ISO 8601"),
            (
                json!({ "time": "2026-11-21T10:00:00[Mars/Base]", "in_local_time": true }),
                "schedule.time: unknown time zone [Mars/Base]",
            ),
            (
                json!({ "time": TIME, "in_local_time": "yes" }),
                "schedule.in_local_time must be true",
            ),
            (json!({ "time": TIME, "at_optimal_time": 1 }), "schedule.at_optimal_time must be"),
        ] {
            let error = read(value.clone()).unwrap_err();
            assert!(error.starts_with(text), "{value}: {error}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(time in "[0-9TZ:+. -]{0,30}|\\PC*", local: bool, now: i64) {
            if let Ok(when) = read(json!({ "time": time, "in_local_time": local })) {
                when.is_past(now);
            }
        }
    }
}
