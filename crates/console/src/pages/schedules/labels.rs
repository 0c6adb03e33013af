//! How pages name schedules, their states, times and users.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use maud::{Markup, html};
use uuid::Uuid;

use super::Names;
use crate::page::Page;
use crate::pages::labels::{campaign_title, channel_name};
use console_frame::parts::{self, Look, Tone};
use gateway::workspaces::Channel;
use messages::Timing;
use messages::order::Kind;
use sending::schedules::{Contents, Schedule, ScheduleSummary, State};

/// What to do about a schedule that was not sent.
pub const RUNBOOK: &str = "docs/runbooks/schedule-not-sent.md";

/// A worker sends a schedule within a second of its time. One that waits longer than this, in
/// milliseconds, is late.
const LATE_MS: i64 = 60_000;

/// Times that are further away are shown without their distance, in milliseconds.
const NEAR_MS: i64 = 30 * 86_400_000;

/// How a schedule's state is shown.
pub fn look(schedule: &Schedule) -> Look {
    match schedule.state {
        State::Pending => Look::new(Tone::Neutral, "clock", "Upcoming"),
        State::Sending => Look::running("Sending"),
        State::Sent => Look::good("Sent"),
        State::Missed => Look::bad("Missed"),
        State::Cancelling => Look::new(Tone::Warning, "loader-circle", "Cancelling"),
        State::Cancelled => Look::ended("Cancelled"),
    }
}

/// Whether its time has passed, and no worker sends it.
pub fn is_late(schedule: &Schedule, now: i64) -> bool {
    schedule.state == State::Pending
        && schedule.timing == Timing::Instant
        && schedule.time < now.saturating_sub(LATE_MS)
}

pub fn late_mark() -> Markup {
    parts::mark(Tone::Warning, "clock", "late")
}

/// What people call a schedule: the name of its campaign or Canvas.
pub fn title<'a>(names: &'a Names, found: &ScheduleSummary) -> &'a str {
    let name = |id: Uuid| names.campaigns.get(&id).map(String::as_str);
    let is_canvas = found.schedule.canvas_id.is_some();
    let kind = if is_canvas { Kind::Canvas } else { Kind::Schedule };
    campaign_title(found.contents.campaign_id.map(name), Some(kind.into()))
}

/// What it sends, and by which channels.
pub fn kind(ScheduleSummary { schedule, contents }: &ScheduleSummary) -> String {
    let kind = match contents.campaign_id {
        _ if schedule.canvas_id.is_some() => "Canvas",
        Some(_) => "Campaign",
        None => "Messages",
    };
    match &contents.channels {
        Some(names) => format!("{kind} · {}", channels(names)),
        None => kind.to_owned(),
    }
}

/// The channels of its messages, in one line.
fn channels(names: &str) -> String {
    let names = names.split(',').map(|name| match Channel::from_name(name) {
        Some(channel) => channel_name(channel),
        None => name,
    });
    names.collect::<Vec<_>>().join(", ")
}

/// The users of a schedule.
pub fn audience(names: &Names, contents: &Contents) -> String {
    let users = match contents.segment_id {
        _ if !contents.is_broadcast() => {
            parts::count_of(contents.listed_users, "listed user", "listed users")
        }
        Some(id) => match names.segments.get(&id) {
            Some(name) => format!("Segment {name}"),
            None => "Removed segment".to_owned(),
        },
        None if contents.is_limited => return "Audience of the request".to_owned(),
        None => "All users".to_owned(),
    };
    let is_limited =
        contents.is_limited || (!contents.is_broadcast() && contents.segment_id.is_some());
    if is_limited { format!("{users}, limited by an audience") } else { users }
}

/// When a schedule is due: in the person's zone, or at a local time of each user.
pub fn due(page: &Page, schedule: &Schedule) -> Markup {
    let now = page.now_ms();
    html! {
        span { (time(schedule, &page.viewer.preferences.zone)) }
        @match schedule.timing {
            Timing::Instant if schedule.time.saturating_sub(now).saturating_abs() <= NEAR_MS => {
                span.sub { (page.time(schedule.time)) }
            }
            Timing::Instant => {}
            Timing::Local => span.sub { "in each user's zone" },
            Timing::Optimal => span.sub { "at each user's best hour" },
        }
    }
}

/// Its time. A local time is stored as if it were in UTC.
fn time(schedule: &Schedule, zone: &TimeZone) -> String {
    let format = match schedule.timing {
        Timing::Instant => return parts::exact_time(schedule.time, zone),
        Timing::Local => "%Y-%m-%d %H:%M:%S",
        Timing::Optimal => "%Y-%m-%d",
    };
    Timestamp::from_millisecond(schedule.time).map_or_else(
        |_| "unknown".to_owned(),
        |time| time.to_zoned(TimeZone::UTC).strftime(format).to_string(),
    )
}

/// The address of a page of a schedule.
pub fn address(page: &Page, id: Uuid, path: &str) -> String {
    page.workspace_link(&format!("/schedules/{id}{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2021-06-28T17:02:43.032Z.
    const TIME: i64 = 1_624_899_763_032;

    fn schedule(timing: Timing) -> Schedule {
        Schedule {
            id: Uuid::nil(),
            workspace_id: 1,
            workspace: "acme".to_owned(),
            dispatch_id: Uuid::nil(),
            canvas_id: None,
            state: State::Pending,
            timing,
            time: TIME,
            created_at: 0,
            timed_at: 0,
            sent_at: None,
            ended_at: None,
            reached_at: None,
            missed_at: None,
            error: None,
            request_id: String::new(),
            request: String::new(),
        }
    }

    #[test]
    fn local_times_have_no_zone() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        for (timing, expected) in [
            (Timing::Instant, "2021-06-28 19:02:43 CEST"),
            (Timing::Local, "2021-06-28 17:02:43"),
            (Timing::Optimal, "2021-06-28"),
        ] {
            assert_eq!(time(&schedule(timing), &zone), expected);
        }
    }

    #[test]
    fn only_a_pending_instant_is_late() {
        let late = schedule(Timing::Instant);
        assert!(is_late(&late, TIME + LATE_MS + 1) && !is_late(&late, TIME + LATE_MS));
        assert!(!is_late(&schedule(Timing::Local), i64::MAX));
        assert!(!is_late(&Schedule { state: State::Missed, ..late }, i64::MAX));
    }

    #[test]
    fn the_users_are_those_of_the_request() {
        let segment = Uuid::from_u128(7);
        let names = Names {
            campaigns: [(segment, "News".to_owned())].into(),
            segments: [(segment, "Gold".to_owned())].into(),
        };
        let all = Contents {
            campaign_id: None,
            send_id: None,
            channels: Some("apple_push,webhook".to_owned()),
            listed_users: 0,
            segment_id: None,
            is_limited: false,
        };
        let gold = Contents { segment_id: Some(segment), ..all.clone() };
        let limited = Contents { is_limited: true, ..gold.clone() };
        let listed = Contents { listed_users: 2, ..gold.clone() };
        for (contents, expected) in [
            (&all, "All users"),
            (&Contents { is_limited: true, ..all.clone() }, "Audience of the request"),
            (&gold, "Segment Gold"),
            (&Contents { segment_id: Some(Uuid::nil()), ..all.clone() }, "Removed segment"),
            (&limited, "Segment Gold, limited by an audience"),
            (&Contents { segment_id: None, ..listed.clone() }, "2 listed users"),
            (&listed, "2 listed users, limited by an audience"),
        ] {
            assert_eq!(audience(&names, contents), expected);
        }
        let found = |contents| ScheduleSummary { schedule: schedule(Timing::Instant), contents };
        let messages = found(all.clone());
        assert_eq!(kind(&messages), "Messages · Apple push, Webhook");
        assert_eq!(title(&names, &messages), "Without a campaign");
        let campaign = found(Contents { campaign_id: Some(segment), ..all.clone() });
        assert_eq!(kind(&campaign), "Campaign · Apple push, Webhook");
        assert_eq!(title(&names, &campaign), "News");
        let mut removed = found(Contents { campaign_id: Some(Uuid::nil()), channels: None, ..all });
        assert_eq!(title(&names, &removed), "Removed campaign");
        removed.schedule.canvas_id = Some(Uuid::nil());
        assert_eq!(
            (kind(&removed).as_str(), title(&names, &removed)),
            ("Canvas", "Removed Canvas")
        );
    }
}
