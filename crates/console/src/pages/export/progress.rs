//! How far an export is: the part of its page that changes while it runs.

use jiff::Timestamp;
use maud::{Markup, html};

use crate::page::Page;
use crate::pages::exports::labels;
use console_frame::parts::{self, icon};
use exports::overview::Mark;
use exports::status::{estimated_end, rate};
use exports::{Job, Progress, State};

/// The state of an export at a moment.
pub struct Moment<'a> {
    pub job: &'a Job,
    pub progress: &'a Progress,
    /// When its users were found, if the page knows.
    pub planned_at: Option<i64>,
    pub marks: &'a [Mark],
    /// Whether it is part of a stream. Without one, nothing is live.
    pub is_live: bool,
}

/// The figures, the bar and the steps.
pub fn figures(page: &Page, moment: &Moment<'_>) -> Markup {
    let Moment { progress, marks, .. } = moment;
    let state = progress.state;
    let bar = format!("bar big {}", labels::tone(state, marks).bar_class());
    html! {
        (headline(progress, moment.is_live))
        @if let Some(users) = progress.users {
            @let done = progress.users_done.max(0);
            @let max = users.max(done);
            // Without users, everything is done.
            progress class=(bar) max=(max.max(1)) value=(if max == 0 { 1 } else { done })
                aria-label="Users exported" { (parts::number(done)) }
        }
        (facts(page, moment))
        (steps(page, moment))
    }
}

fn headline(progress: &Progress, is_live: bool) -> Markup {
    let done = parts::number(progress.users_done);
    let is_open = !progress.state.is_final();
    html! {
        div.hero-top {
            @match (progress.state, progress.users) {
                (State::Done, _) => {
                    p.figure { (done) }
                    p.hero-count {
                        (if progress.users_done == 1 { "user in " } else { "users in " })
                        (parts::count_of(progress.files_done, "file", "files"))
                        @let erased = progress.users.unwrap_or(0) - progress.users_done;
                        @if erased > 0 {
                            span.muted { ", " (parts::number(erased)) " erased since the plan" }
                        }
                    }
                }
                (_, Some(users)) => {
                    p.figure { (parts::percent(progress.users_done, users)) small { "%" } }
                    p.hero-count {
                        b { (done) } span.muted { " of " (parts::count_of(users, "user", "users")) }
                    }
                }
                (state, None) => {
                    p.hero-count {
                        @if is_open { (waiting(state)) } @else { "No users were read" }
                    }
                }
            }
            @if is_open { span.live hidden[!is_live] { "Live" } }
        }
    }
}

/// What an export without a plan waits for.
fn waiting(state: State) -> &'static str {
    if state == State::Queued { "Waits for a worker" } else { "A worker looks for the users" }
}

fn facts(page: &Page, moment: &Moment<'_>) -> Markup {
    let Moment { job, progress, .. } = moment;
    let now = page.now_ms();
    let per_second = |rate: f64| rate.round() as i64;
    let average = || {
        let ms = labels::duration(progress.started_at, progress.finished_at, now)?;
        let ms = (progress.state == State::Done && ms > 0).then_some(ms)?;
        Some(progress.users_done.saturating_mul(1_000) / ms)
    };
    let rate = rate(progress, now);
    let users_per_second = rate.map(|rate| per_second(rate.users_per_second)).or_else(average);
    let bytes_per_second = rate.map(|rate| per_second(rate.bytes_per_second));
    let took = labels::duration(progress.started_at, progress.finished_at, now);
    html! {
        dl.figures {
            @if let Some(rate) = users_per_second {
                div { dt { "Speed" } dd { (parts::number(rate)) " users/s" } }
            }
            @if let Some(end) = estimated_end(progress, now) {
                div { dt { "Expected end" } dd { (page.time(end)) } }
            }
            @match (took, progress.finished_at) {
                (Some(took), Some(_)) => div { dt { "Took" } dd { (parts::duration(took)) } },
                (Some(took), None) => div { dt { "Runs for" } dd { (parts::duration(took)) } },
                (None, None) => div { dt { "Waits since" } dd { (page.time(job.requested_at)) } },
                (None, Some(_)) => {}
            }
            div {
                dt { "Files" }
                dd {
                    (parts::number(progress.files_done))
                    @if let Some(files) = progress.parts.filter(|_| progress.state != State::Done) {
                        span.muted { " of " (parts::number(files)) }
                    }
                }
            }
            div {
                dt { "Written" }
                dd {
                    (parts::bytes(progress.bytes_done))
                    @if let Some(rate) = bytes_per_second {
                        span.muted { " " (parts::bytes(rate)) "/s" }
                    }
                }
            }
            @if let Some(ended) = progress.finished_at {
                div { dt { "Ended" } dd { (page.time(ended)) } }
            }
        }
    }
}

/// A step of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reached {
    Past,
    Now,
    /// The export ended here.
    Failed,
    Next,
}

impl Reached {
    /// Its class, and its icon.
    fn look(self) -> (&'static str, &'static str) {
        match self {
            Self::Past => ("past", "circle-check"),
            Self::Now => ("now", "loader-circle"),
            Self::Failed => ("failed", "circle-x"),
            Self::Next => ("next", "circle"),
        }
    }
}

/// The number of steps before the end.
const STEPS: usize = 4;

/// How far each step is, and the end after them.
fn reached(progress: &Progress) -> [Reached; STEPS + 1] {
    let last = match progress.state {
        State::Queued => 0,
        State::Planning => 1,
        State::Running => 2,
        State::Finishing => 3,
        State::Done => STEPS,
        State::Failed | State::Cancelled => {
            // The furthest step that began.
            let has_begun = [
                progress.started_at.is_some(),
                progress.users.is_some(),
                progress.completed_at.is_some(),
            ];
            has_begun.iter().filter(|has_begun| **has_begun).count()
        }
    };
    let mut steps = [Reached::Next; STEPS + 1];
    steps[..last].fill(Reached::Past);
    steps[last] = match progress.state {
        State::Done => Reached::Past,
        State::Failed | State::Cancelled => Reached::Failed,
        _ => Reached::Now,
    };
    steps
}

fn steps(page: &Page, moment: &Moment<'_>) -> Markup {
    let Moment { job, progress, planned_at, .. } = moment;
    let state = progress.state;
    let end = if state.is_final() { labels::look(state).word } else { "Done" };
    let finishing = if job.storage_id.is_some() { "moves the files" } else { "builds the archive" };
    let steps = [
        ("Queued", Some(job.requested_at), "waits for a worker"),
        ("Planning", progress.started_at, "finds the users"),
        ("Reading", planned_at.or(progress.users.and(progress.started_at)), "writes files"),
        ("Finishing", progress.completed_at, finishing),
        (end, progress.finished_at, ""),
    ];
    let reached = reached(progress);
    html! {
        ol.timeline.flow {
            @for ((name, at, about), reached) in steps.into_iter().zip(reached) {
                @let (class, icon_name) = reached.look();
                @let current = (reached == Reached::Now).then_some("step");
                li class=(class) aria-current=[current] {
                    (icon(icon_name))
                    b { (name) }
                    span {
                        @match at.filter(|_| reached != Reached::Next || state.is_final()) {
                            Some(at) => (clock_time(page, at)),
                            // A step that an ended export did not reach does nothing.
                            None => { @if !state.is_final() { (about) } }
                        }
                    }
                }
            }
        }
    }
}

/// A time of the day in the person's zone; the date is in its title.
pub fn clock_time(page: &Page, ms: i64) -> Markup {
    let zone = &page.viewer.preferences.zone;
    let Ok(at) = Timestamp::from_millisecond(ms) else { return html! { "unknown" } };
    let shown = at.to_zoned(zone.clone()).strftime("%H:%M:%S").to_string();
    html! { time datetime=(at) title=(parts::exact_time(ms, zone)) { (shown) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(state: State, times: [Option<i64>; 3]) -> Progress {
        let [started_at, users, completed_at] = times;
        Progress {
            state,
            plan: None,
            users,
            parts: None,
            parts_left: None,
            users_done: 0,
            files_done: 0,
            bytes_done: 0,
            broken_users: 0,
            started_at,
            late_at: None,
            completed_at,
            finished_at: None,
            expires_at: None,
            archive: None,
            manifest_sha256: None,
            error: None,
        }
    }

    #[test]
    fn an_export_ends_at_the_furthest_step_that_began() {
        use Reached::{Failed, Next, Now, Past};
        for (state, times, expected) in [
            (State::Queued, [None; 3], [Now, Next, Next, Next, Next]),
            (State::Running, [Some(1), Some(9), None], [Past, Past, Now, Next, Next]),
            (State::Done, [Some(1), Some(9), Some(2)], [Past; 5]),
            (State::Cancelled, [None; 3], [Failed, Next, Next, Next, Next]),
            (State::Failed, [Some(1), None, None], [Past, Failed, Next, Next, Next]),
            (State::Failed, [Some(1), Some(9), Some(2)], [Past, Past, Past, Failed, Next]),
        ] {
            assert_eq!(reached(&progress(state, times)), expected, "{state:?} {times:?}");
        }
    }
}
