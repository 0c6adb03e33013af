//! Sends at a local time: the moments at which it occurs, and the moment for each user.
//!
//! A local time occurs at about forty moments, one for each UTC offset that a zone has on that day;
//! a best hour of that day at about two hundred. At each of them a [`Wave`] is sent to the users
//! whose moment has come and who were not sent to yet. So a schedule has a bounded number of steps,
//! however many users there are, and a user whose zone changes between two of them is neither
//! skipped nor sent to twice.
//!
//! A time that a zone skips when its clocks go forward is moved by the skipped time; of a time that
//! occurs twice, the first one counts. A user's best hour is the hour in which they were most often
//! active, in their own zone: the first and the last moment of each day are known for each product
//! and event ([`crate::users::activity`]), and each counts once. Only the hours after the creation
//! of the schedule are considered; of several equal ones the first is used, and without data the
//! given time.

use jiff::civil::{DateTime, Time};
use jiff::tz::{self, TimeZone};

use crate::messages::order::Wave;
use crate::messages::{Timing, When};
use crate::users::Recipient;
use crate::users::activity::Activity;
use kit::clock::from_ms;

const HOURS: i8 = 24;

/// The moments at which a time comes over all zones: ascending, each once, at least one.
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

/// When it is due for a user with this `activity`, for a schedule created at `made_at`. It is one
/// of the [`moments`].
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
    let own = user.time_zone().and_then(|name| TimeZone::get(name).ok());
    let zone = own.as_ref().unwrap_or(workspace_zone);
    if when.timing == Timing::Optimal
        && let Some(activity) = activity
        && let Some(best) = best_moment(when, made_at, activity, zone)
    {
        return best;
    }
    when.in_zone(zone)
}

/// Whether a user is in a wave, unless they were sent to before.
pub fn is_in(
    wave: &Wave,
    user: &Recipient,
    activity: Option<&Activity<'_>>,
    workspace_zone: &TimeZone,
) -> bool {
    let when = When { timing: wave.timing, time: wave.time };
    let due = due(when, wave.made_at, user, activity, workspace_zone);
    // The last wave also includes users whose moment is later in another version of the time zones.
    due > wave.after_ms && (due <= wave.at_ms || wave.is_last)
}

/// The moment of the hour in which most happened, of those after `made_at`.
fn best_moment(when: When, made_at: i64, activity: &Activity<'_>, zone: &TimeZone) -> Option<i64> {
    let mut counts = [0_u32; HOURS as usize];
    for moment in activity.moments() {
        let hour = zone.to_datetime(from_ms(moment)).hour();
        if let Some(count) = usize::try_from(hour).ok().and_then(|hour| counts.get_mut(hour)) {
            *count = count.saturating_add(1);
        }
    }
    let hours = (0..HOURS).zip(counts).filter(|(_, count)| *count > 0);
    let moments = hours.map(|(hour, count)| (when.at_hour(hour, zone), count));
    // Of equals, `max_by_key` returns the last.
    let mut to_come: Vec<(i64, u32)> = moments.filter(|(moment, _)| *moment > made_at).collect();
    to_come.reverse();
    to_come.into_iter().max_by_key(|(_, count)| *count).map(|(moment, _)| moment)
}

impl When {
    fn wall(self) -> DateTime {
        TimeZone::UTC.to_datetime(from_ms(self.time))
    }

    /// When the time on the wall comes in a zone.
    fn in_zone(self, zone: &TimeZone) -> i64 {
        self.comes(self.wall(), zone)
    }

    /// When an hour of its day begins in a zone.
    fn at_hour(self, hour: i8, zone: &TimeZone) -> i64 {
        let time = Time::new(hour, 0, 0, 0).unwrap_or(Time::MIN);
        self.comes(self.wall().date().to_datetime(time), zone)
    }

    /// At the ends of the calendar, where a zone may not have it: as in UTC.
    fn comes(self, wall: DateTime, zone: &TimeZone) -> i64 {
        let moment = zone.to_ambiguous_timestamp(wall).compatible();
        moment.map_or(self.time, |moment| moment.as_millisecond())
    }
}

/// How far a schedule has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Moments up to this one are dealt with.
    pub reached: Option<i64>,
    /// Those up to this one came too late.
    pub missed: Option<i64>,
}

/// The next step of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// To be sent now.
    pub wave: Option<Wave>,
    /// Moments since the last step that are too late to send.
    pub missed: Vec<i64>,
    /// From then on.
    pub progress: Progress,
    /// When the next step is due; none if no moment is left.
    pub next_at: Option<i64>,
}

/// The step at `now` of a schedule created at `made_at`. Moments less than `late_ms` ago are sent
/// in one wave.
pub fn step(when: When, made_at: i64, progress: Progress, now: i64, late_ms: i64) -> Step {
    step_of(moments(when), when, made_at, progress, (now, late_ms))
}

fn step_of(
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
        timing: when.timing,
        time: when.time,
        made_at,
        is_last: next_at.is_none(),
    });
    Step { wave, missed, progress, next_at }
}

#[cfg(test)]
mod tests;
