//! When something is to be sent (src/gateway/README.md, Scheduling a Canvas).

use serde_json::Value;

use kit::clock::{parse_time, parse_wall_time};
use store::text_enum;

const HOUR_MS: i64 = 3_600_000;

/// What is answered where a time has passed.
pub(crate) const PAST: &str = "schedule.time is in the past";

/// The last zone in which a time comes is 12 hours behind UTC.
const LAST_ZONE_MS: i64 = 12 * HOUR_MS;

/// No zone is further ahead of it.
const FIRST_ZONE_MS: i64 = 15 * HOUR_MS;

text_enum! {
    /// What a time means.
    pub enum Timing {
        /// One point in time for everyone.
        Instant = "instant",
        /// A time on the wall, in each user's own zone.
        Local = "local",
        /// The time of that day that is best for each user, in their own zone.
        Optimal = "optimal",
    }
}

/// When something is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct When {
    pub timing: Timing,
    /// Milliseconds since the epoch: of a time on the wall, as if in UTC.
    pub time: i64,
}

impl When {
    /// Reads a Schedule object; the error names the member. Where both switches are set the
    /// optimal time is meant.
    pub fn read(value: &Value) -> Result<Self, String> {
        let members = value.as_object().ok_or("schedule must be an object")?;
        let switch = |name: &str| match members.get(name) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(is_on)) => Ok(*is_on),
            Some(_) => Err(format!("schedule.{name} must be true or false")),
        };
        let timing = match (switch("at_optimal_time")?, switch("in_local_time")?) {
            (true, _) => Timing::Optimal,
            (false, true) => Timing::Local,
            (false, false) => Timing::Instant,
        };
        let text = match members.get("time") {
            None | Some(Value::Null) => return Err("schedule.time is required".into()),
            Some(text) => text.as_str().ok_or("schedule.time must be a string")?,
        };
        let read = if timing == Timing::Instant { parse_time } else { parse_wall_time };
        let time = read(text).map_err(|error| format!("schedule.time: {error}"))?;
        Ok(Self { timing, time })
    }

    /// A moment before which it comes to nobody.
    pub fn earliest(self) -> i64 {
        let of_day = self.time.rem_euclid(24 * HOUR_MS);
        match self.timing {
            Timing::Instant => self.time,
            Timing::Local => self.time.saturating_sub(FIRST_ZONE_MS),
            Timing::Optimal => self.time.saturating_sub(of_day + FIRST_ZONE_MS),
        }
    }

    /// Whether it is past, in every zone where that counts.
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
    use serde_json::json;

    use super::*;

    const TIME: &str = "2026-11-21T10:00:00-05:00";
    const NOON_UTC: i64 = 1_795_262_400_000;

    #[test]
    fn a_time_is_one_for_everyone_or_on_everyones_wall() {
        let read = |value: Value| When::read(&value).unwrap();
        let instant =
            read(json!({ "time": TIME, "in_local_time": false, "at_optimal_time": null }));
        assert_eq!(instant, When { timing: Timing::Instant, time: NOON_UTC + 3 * HOUR_MS });
        let local = read(json!({ "time": TIME, "in_local_time": true }));
        assert_eq!(local, When { timing: Timing::Local, time: NOON_UTC - 2 * HOUR_MS });
        let optimal = read(json!({ "time": TIME, "at_optimal_time": true, "in_local_time": true }));
        assert_eq!(optimal, When { timing: Timing::Optimal, ..local });
    }

    #[test]
    fn a_time_on_the_wall_is_past_once_it_is_past_everywhere() {
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
    fn what_is_wrong_is_named() {
        for (value, text) in [
            (json!([]), "schedule must be an object"),
            (json!({}), "schedule.time is required"),
            (json!({ "time": null }), "schedule.time is required"),
            (json!({ "time": 5 }), "schedule.time must be a string"),
            (json!({ "time": "soon" }), "schedule.time: expected a date and time in ISO 8601"),
            (json!({ "time": TIME, "in_local_time": "yes" }), "schedule.in_local_time must be"),
            (json!({ "time": TIME, "at_optimal_time": 1 }), "schedule.at_optimal_time must be"),
        ] {
            let error = When::read(&value).unwrap_err();
            assert!(error.starts_with(text), "{value}: {error}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(time in "[0-9TZ:+. -]{0,30}|\\PC*", local: bool, now: i64) {
            if let Ok(when) = When::read(&json!({ "time": time, "in_local_time": local })) {
                when.is_past(now);
            }
        }
    }
}
