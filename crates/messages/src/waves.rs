//! Sends at a local time: all moments at which that time occurs, and the moment for each user.
//!
//! A local time occurs at about forty moments, one for each UTC offset that a zone has on that day;
//! best hours of that day occur at about two hundred. At each of them a [`Wave`] is sent to the
//! users whose moment came since the wave before. So a schedule has a limited number of steps,
//! however many users there are. A user who is excluded at their moment is not checked again: the
//! messages would come hours late.
//!
//! A user who moves to another zone between two waves can have a moment there that is past. The
//! next wave includes such users, so that they are not skipped. If an earlier one included them,
//! too, their messages are stored already, and not sent twice.
//!
//! A time that a zone skips when its clocks go forward is moved by the skipped time. If a time
//! occurs twice, the first one counts. A user's best hour is the hour in which the user was most
//! often active, in the user's own zone. The first and the last moment of each day are known for
//! each product and event ([`people::users::activity`]), and each counts once. Only hours after the
//! creation of the schedule are considered. Of several equal hours the first is used; without data,
//! the given time. Activity since the UTC day on which the day of the schedule begins anywhere does
//! not count, because it could move a user's hour while the waves are sent.

use std::ops::Range;

use jiff::civil::{DateTime, Time};
use jiff::tz::{self, TimeZone};

use crate::order::Wave;
use crate::{Timing, When};
use kit::clock::from_ms;
use kit::zones;
use people::users::Recipient;
use people::users::activity::Activity;

const HOURS: i8 = 24;
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// Days whose activity counts for a best hour: fewer than are kept
/// ([`people::users::activity::KEPT_DAYS`]), because waves are sent on up to three days.
const BEST_HOUR_DAYS: i64 = 95;

/// How long before a wave's moment a user may have moved without being read as moved: the time at
/// which a change is applied is that at which its transaction began.
const MOVE_MARGIN_MS: i64 = 5 * 60 * 1_000;

/// The moments at which a local time occurs in any zone: ascending, each once, at least one.
pub fn moments(when: When) -> Vec<i64> {
    if when.timing == Timing::Instant {
        return vec![when.time];
    }
    let zones = tz::db().available().filter_map(|name| tz::db().get(name.as_str()).ok());
    let mut moments: Vec<i64> = [TimeZone::UTC]
        .into_iter()
        .chain(zones)
        .flat_map(|zone| {
            let hours = if when.timing == Timing::Optimal { 0..HOURS } else { 0..0 };
            let hours: Vec<i64> = hours.map(|hour| when.at_hour(hour, &zone)).collect();
            hours.into_iter().chain([when.in_zone(&zone)])
        })
        .collect();
    moments.sort_unstable();
    moments.dedup();
    moments
}

/// When a schedule created at `made_at` is due for a user with this `activity`: one of the
/// [`moments`].
pub fn due(
    when: When,
    made_at: i64,
    user: &Recipient,
    activity: Option<&Activity<'_>>,
    workspace_zone: &TimeZone,
) -> i64 {
    if when.timing == Timing::Instant {
        return when.time;
    }
    let user_zone = user.time_zone().and_then(zones::zone);
    let zone = user_zone.as_ref().unwrap_or(workspace_zone);
    if when.timing == Timing::Optimal
        && let Some(activity) = activity
        && let Some(best) = best_moment(when, made_at, activity, zone)
    {
        return best;
    }
    when.in_zone(zone)
}

/// How a user relates to a wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// The wave is sent to the user.
    Included,
    /// The user's moment is one of those that were missed since the last wave that was sent.
    TooLate,
    /// The user belongs to another wave.
    OtherWave,
}

/// Whether a user is in a wave.
pub fn membership(
    wave: &Wave,
    user: &Recipient,
    activity: Option<&Activity<'_>>,
    workspace_zone: &TimeZone,
) -> Membership {
    let when = When { timing: wave.timing, time: wave.time };
    let due = due(when, wave.made_at, user, activity, workspace_zone);
    if due <= wave.after_ms {
        let is_counted = wave.sent_before_ms.is_some_and(|sent| due <= sent);
        return if is_counted { Membership::OtherWave } else { Membership::TooLate };
    }
    let was_included =
        wave.previous_ms.is_some_and(|previous| due <= previous && !has_moved(user, previous));
    // The last wave also includes users whose moment is later in another version of the time zones.
    if !was_included && (due <= wave.at_ms || wave.is_last) {
        Membership::Included
    } else {
        Membership::OtherWave
    }
}

/// Whether a wave at a moment may have read a user with another time zone than the present one.
fn has_moved(user: &Recipient, wave_at: i64) -> bool {
    let moved_at = user.time_zone_changed_at();
    moved_at.is_some_and(|moved_at| moved_at > wave_at.saturating_sub(MOVE_MARGIN_MS))
}

/// The moment of the hour with the most activity, of the hours after `made_at`.
fn best_moment(when: When, made_at: i64, activity: &Activity<'_>, zone: &TimeZone) -> Option<i64> {
    let mut counts = [0_u32; HOURS as usize];
    let days = when.activity_days();
    for moment in activity.moments().filter(|moment| days.contains(moment)) {
        let hour = zone.to_datetime(from_ms(moment)).hour();
        if let Some(count) = usize::try_from(hour).ok().and_then(|hour| counts.get_mut(hour)) {
            *count = count.saturating_add(1);
        }
    }
    let hours = (0..HOURS).zip(counts).filter(|(_, count)| *count > 0);
    let moments = hours.map(|(hour, count)| (when.at_hour(hour, zone), count));
    // If several are equal, `max_by_key` returns the last one.
    let mut to_come: Vec<(i64, u32)> = moments.filter(|(moment, _)| *moment > made_at).collect();
    to_come.reverse();
    to_come.into_iter().max_by_key(|(_, count)| *count).map(|(moment, _)| moment)
}

impl When {
    /// The time whose activity counts for a best hour: UTC days that do not change any more, and are
    /// kept until all waves are sent.
    fn activity_days(self) -> Range<i64> {
        let first = self.earliest();
        let end = first.saturating_sub(first.rem_euclid(DAY_MS));
        end.saturating_sub(BEST_HOUR_DAYS * DAY_MS)..end
    }

    fn wall_time(self) -> DateTime {
        TimeZone::UTC.to_datetime(from_ms(self.time))
    }

    /// When the local time occurs in a zone.
    fn in_zone(self, zone: &TimeZone) -> i64 {
        self.instant_in(self.wall_time(), zone)
    }

    /// When an hour of its day begins in a zone.
    fn at_hour(self, hour: i8, zone: &TimeZone) -> i64 {
        let time = Time::new(hour, 0, 0, 0).unwrap_or(Time::MIN);
        self.instant_in(self.wall_time().date().to_datetime(time), zone)
    }

    /// If the zone does not have the time, at the ends of the calendar, uses UTC.
    fn instant_in(self, wall_time: DateTime, zone: &TimeZone) -> i64 {
        let moment = zone.to_ambiguous_timestamp(wall_time).compatible();
        moment.map_or(self.time, |moment| moment.as_millisecond())
    }
}

/// The progress of a schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Moments up to this one are processed.
    pub reached: Option<i64>,
    /// Moments up to this one were missed.
    pub missed: Option<i64>,
}

/// The next step of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The wave to send now.
    pub wave: Option<Wave>,
    /// Moments since the last step that are too late, and not sent.
    pub missed: Vec<i64>,
    /// The progress after this step.
    pub progress: Progress,
    /// When the next step is due; none if no moment is left.
    pub next_at: Option<i64>,
}

impl Step {
    /// Counts the moment of the wave as missed instead of sending it.
    pub fn miss_wave(&mut self) {
        if let Some(wave) = self.wave.take() {
            self.missed.push(wave.at_ms);
            self.progress.missed = Some(wave.at_ms);
        }
    }
}

/// The step at `now` of a schedule created at `made_at`. Moments less than `late_ms` ago are sent
/// in one wave.
pub fn step(when: When, made_at: i64, progress: Progress, now: i64, late_ms: i64) -> Step {
    step_through(moments(when), when, made_at, progress, (now, late_ms))
}

/// The step of a schedule with these moments.
fn step_through(
    mut moments: Vec<i64>,
    when: When,
    made_at: i64,
    progress: Progress,
    (now, late_ms): (i64, i64),
) -> Step {
    let next_at = moments.iter().copied().find(|moment| *moment > now);
    let reached = progress.reached;
    moments.retain(|moment| *moment <= now && reached.is_none_or(|reached| *moment > reached));
    let is_late = |moment: &i64| now.saturating_sub(*moment) >= late_ms;
    let (missed, timely): (Vec<i64>, Vec<i64>) = moments.into_iter().partition(is_late);
    let progress = Progress {
        reached: timely.last().or(missed.last()).copied().or(reached),
        missed: missed.last().copied().or(progress.missed),
    };
    let wave = timely.last().map(|at_ms| Wave {
        at_ms: *at_ms,
        after_ms: progress.missed.unwrap_or(i64::MIN),
        previous_ms: reached,
        sent_before_ms: None,
        timing: when.timing,
        time: when.time,
        made_at,
        is_last: next_at.is_none(),
    });
    Step { wave, missed, progress, next_at }
}

#[cfg(test)]
mod tests;
