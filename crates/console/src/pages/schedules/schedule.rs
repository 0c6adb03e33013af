//! A schedule: its messages, its audience and its time; and its cancellation.

use std::slice;

use axum::extract::Path;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use super::{Names, labels};
use crate::page::Page;
use crate::pages::segments::{self, conditions};
use console_frame::error::PageError;
use console_frame::parts::{self, Tone, icon};
use console_frame::rights::Right;
use console_frame::shell;
use gateway::ApiError;
use messages::Timing;
use people::audience::Audience;
use sending::schedules::{self, Schedule, ScheduleSummary, State};
use store::{StoreError, Tx};

/// The schedule in the path of an address.
#[derive(Deserialize)]
pub struct SchedulePath {
    id: String,
}

/// A schedule, as its page shows it.
struct Shown {
    found: ScheduleSummary,
    /// The audience of the request, as JSON.
    audience: Option<String>,
    names: Names,
}

/// The workspace's schedule of a path. An invalid id is unknown, without a query.
async fn own_schedule(
    page: &Page,
    tx: &mut Tx,
    path: &SchedulePath,
) -> Result<ScheduleSummary, PageError> {
    let id = Uuid::try_parse(&path.id).map_err(|_| PageError::NotFound)?;
    schedules::summary(tx, page.workspace()?.id, id).await?.ok_or(PageError::NotFound)
}

/// `GET /w/{workspace}/schedules/{id}`.
pub async fn show(page: Page, Path(path): Path<SchedulePath>) -> Result<Response, PageError> {
    let mut tx = page.app.request_queue.snapshot().await?;
    let found = own_schedule(&page, &mut tx, &path).await?;
    let names = Names::read(&mut tx, page.workspace()?.id, slice::from_ref(&found)).await?;
    let audience = if found.contents.is_limited && page.may(Right::SegmentsView) {
        schedules::audience(&mut tx, found.schedule.id).await?
    } else {
        None
    };
    tx.commit().await?;
    let shown = Shown { found, audience, names };
    let title = labels::title(&shown.names, &shown.found);
    let title = format!("Schedule of {}", parts::cut(title));
    Ok(page.html(&title, content(&page, &shown)))
}

/// `POST /w/{workspace}/schedules/{id}/cancel`. A schedule that was sent meanwhile is a conflict.
pub async fn cancel(page: Page, Path(path): Path<SchedulePath>) -> Result<Response, PageError> {
    let mut tx = page.app.request_queue.write().await?;
    let id = own_schedule(&page, &mut tx, &path).await?.schedule.id;
    let cancelled = schedules::cancel(&mut tx, id, page.now_ms()).await;
    let cancelled = cancelled.map_err(not_cancelled)?.ok_or(PageError::NotFound)?;
    if cancelled.state == State::Sent {
        let text = "The schedule has already been sent. Its send may still be cancelled";
        return Err(ApiError::Conflict(text.to_owned()).into());
    }
    page.record(&mut tx, cancelled.change()).await?;
    tx.commit().await?;
    let workspace = parts::encoded(&page.workspace()?.name);
    Ok(page.redirect(&format!("/w/{workspace}/schedules/{id}")))
}

/// A worker that stopped inside a transaction keeps its locks for a minute.
fn not_cancelled(error: StoreError) -> PageError {
    if !error.is_lock_timeout() {
        return error.into();
    }
    let text = "The schedule is not cancelled yet: a worker that does not respond holds it. Go \
                back and cancel it again: the database frees it within a minute";
    ApiError::Conflict(text.to_owned()).into()
}

/// Whether the schedule still sends something.
fn is_open(schedule: &Schedule) -> bool {
    schedule.ended_at.is_none()
}

fn content(page: &Page, shown: &Shown) -> Markup {
    let schedule = &shown.found.schedule;
    html! {
        (head(page, shown))
        (notices(page, schedule))
        div.columns.side-right {
            div.columns {
                (request(page, shown))
                (audience(page, shown))
            }
            (progress(page, schedule))
        }
        (terminal(page, schedule))
    }
}

fn head(page: &Page, Shown { found, names, .. }: &Shown) -> Markup {
    let ScheduleSummary { schedule, contents } = found;
    let question = if schedule.state == State::Pending {
        "Nothing is sent. The schedule cannot be restored."
    } else {
        "Messages that workers already hold may still go out. No others are sent. The schedule \
         cannot be continued."
    };
    html! {
        div.head {
            div.head-title {
                nav.crumbs aria-label="Breadcrumb" {
                    a href=(page.workspace_link("/schedules")) { "Schedules" }
                }
                h1 {
                    (parts::name(labels::title(names, found))) " "
                    (labels::look(schedule).pill())
                }
                p.muted { "To " (parts::name(&labels::audience(names, contents))) }
            }
            div.actions {
                @if schedule.sent_at.is_some() {
                    a.button href=(send_address(page, schedule)) { (icon("send")) "Its send" }
                }
                @if page.may(Right::MessagesCancel) && is_open(schedule) {
                    (parts::confirm(
                        page,
                        &labels::address(page, schedule.id, "/cancel"),
                        "Cancel the schedule",
                        question,
                    ))
                }
            }
        }
    }
}

fn send_address(page: &Page, schedule: &Schedule) -> String {
    page.workspace_link(&format!("/sends/{}", schedule.dispatch_id.simple()))
}

/// What a person has to know first.
fn notices(page: &Page, schedule: &Schedule) -> Markup {
    let send = html! {
        p {
            a href=(send_address(page, schedule)) { "The page of the send" }
            " shows what went out."
        }
    };
    match schedule.state {
        State::Missed => parts::notice(
            Tone::Bad,
            "The schedule was missed: nothing was sent",
            html! {
                @let error = schedule.error.as_deref();
                p { bdi { (parts::cut(error.unwrap_or("Its reason is not known."))) } }
                p { (parts::runbook(labels::RUNBOOK)) }
            },
        ),
        State::Cancelling => parts::notice(
            Tone::Warning,
            "Some messages may still go out",
            html! { p { "Workers hold them. No others are sent." } (send) },
        ),
        State::Cancelled if schedule.sent_at.is_some() => {
            parts::notice(Tone::Neutral, "The schedule was cancelled after it had begun", send)
        }
        State::Cancelled => parts::notice(
            Tone::Neutral,
            "The schedule is cancelled",
            html! { p { "Nothing was sent." } },
        ),
        State::Pending if labels::is_late(schedule, page.now_ms()) => parts::notice(
            Tone::Warning,
            "The schedule is late",
            html! {
                p { "Its time has passed, and no worker has sent it yet." }
                p { (parts::runbook(labels::RUNBOOK)) }
            },
        ),
        State::Pending | State::Sending | State::Sent => html! {},
    }
}

/// What is sent, and when.
fn request(page: &Page, Shown { found, names, .. }: &Shown) -> Markup {
    let ScheduleSummary { schedule, contents } = found;
    let none = || html! { span.muted { "None" } };
    let rows = [
        ("Time", labels::due(page, schedule)),
        (
            "Sends",
            html! {
                (labels::kind(found))
                @if let Some(id) = contents.campaign_id { br; span.mono.muted.small { (id) } }
            },
        ),
        (
            "Users",
            html! {
                (parts::name(&labels::audience(names, contents)))
                @if let Some(id) = contents.segment_id { (segment_link(page, names, id)) }
            },
        ),
        ("Send id", contents.send_id.as_deref().map_or_else(none, parts::name)),
        ("Schedule id", html! { span.mono { (schedule.id) } }),
        ("Dispatch id", html! { span.mono { (schedule.dispatch_id.simple()) } }),
        (
            "Request id",
            html! {
                span.mono { (parts::name(runtime::traces::without_trace(&schedule.request_id))) }
            },
        ),
    ];
    html! {
        section.panel aria-label="Request" {
            div.panel-head { h2 { "Request" } }
            div.panel-body { (parts::facts(&rows)) }
        }
    }
}

fn segment_link(page: &Page, names: &Names, id: Uuid) -> Markup {
    html! {
        br;
        @if page.may(Right::SegmentsView) && names.segments.contains_key(&id) {
            a href=(segments::address(page, id, "")) { "The segment" }
        } @else {
            span.mono.muted.small { (id) }
        }
    }
}

/// The conditions in the request, for a person who may see those of segments.
fn audience(page: &Page, shown: &Shown) -> Markup {
    html! {
        @if shown.found.contents.is_limited {
            section.panel aria-label="Audience" {
                div.panel-head { h2 { "Audience of the request" } }
                div.panel-body {
                    @match &shown.audience {
                        Some(audience) => (conditions::read_json(page, audience, Audience::read)),
                        None => p.muted { "The users are limited by an audience." },
                    }
                }
            }
        }
    }
}

/// What has happened so far.
fn progress(page: &Page, schedule: &Schedule) -> Markup {
    let time = |at: Option<i64>| {
        html! {
            @match at {
                Some(at) => (page.time(at)),
                None => span.muted { "Not yet" },
            }
        }
    };
    let mut rows = vec![
        ("Created", page.time(schedule.created_at)),
        ("Begun", time(schedule.sent_at)),
        ("Ended", time(schedule.ended_at)),
    ];
    if schedule.timing != Timing::Instant {
        // All zones are looked up.
        let (all, past) = page.compute(|| schedule.moments());
        let passed = html! {
            (parts::number(past as i64)) " of " (parts::number(all as i64))
            @if let Some(missed) = schedule.missed_at {
                br; span.muted.small { "missed up to " (page.time(missed)) }
            }
        };
        rows.push(("Times that passed", passed));
    }
    html! {
        section.panel aria-label="Progress" {
            div.panel-head { h2 { "Progress" } }
            div.panel-body { (parts::facts(&rows)) }
            @if schedule.timing != Timing::Instant {
                p.panel-foot {
                    "A local time comes at another moment in each time zone. Each moment sends to \
                     the users who are due then."
                }
            }
        }
    }
}

/// The same from a terminal.
fn terminal(page: &Page, schedule: &Schedule) -> Markup {
    let id = schedule.id;
    let mut command = format!("longshore schedules show {id}");
    let mut curl = String::new();
    if is_open(schedule) {
        command += &format!("\nlongshore schedules cancel {id}");
        curl = match schedule.canvas_id {
            Some(canvas) => shell::post(
                page,
                "/canvas/trigger/schedule/delete",
                &json!({ "canvas_id": canvas, "schedule_id": id }),
            ),
            None => shell::post(page, "/messages/schedule/delete", &json!({ "schedule_id": id })),
        };
    }
    parts::terminal(&curl, &command)
}
