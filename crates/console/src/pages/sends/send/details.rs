//! The page of a send: its head, what a person has to know first, and its sections.

use maud::{Markup, html};

use super::{Shown, funnel};
use crate::page::Page;
use crate::pages::labels;
use crate::pages::sends::recipients;
use console_frame::parts::{self, Tone, icon};
use console_frame::rights::Right;
use console_frame::shell::{KEY_HEADER, api};
use dispatches::ListedKind;
use dispatches::{MAX_COUNTED_MESSAGES, Reason};
use messages::dispatch::{MessageOutcome, OutcomeFilter, State};

/// The part of the page that is updated while the send runs: everything.
pub fn content(page: &Page, shown: &Shown) -> Markup {
    html! {
        div.columns id="send" {
            (head(page, shown))
            (notices(page, shown))
            (progress(page, shown))
            div.columns.side-right {
                div.columns {
                    (funnel::section(page, shown))
                    (reasons(page, shown))
                }
                (request(page, shown))
            }
            (terminal(page, shown))
        }
    }
}

fn head(page: &Page, shown: &Shown) -> Markup {
    let send = &shown.send;
    html! {
        div.head {
            div.head-title {
                nav.crumbs aria-label="Breadcrumb" {
                    a href=(page.workspace_link("/sends")) { "Sends" }
                }
                h1 {
                    (parts::name(labels::title(send))) " "
                    span id="state" role="status" { (labels::look(send.state).pill()) }
                }
                p.muted {
                    "To " (parts::name(&labels::audience(&send.audience, send.users))) ", "
                    (page.time(send.accepted_at))
                    // Without JavaScript, nothing updates the page.
                    @if shown.runs() && !shown.is_full {
                        span.live id="send-live" hidden[!page.is_update]
                            hx-get=(shown.address(page, "")) hx-trigger="every 3s"
                            hx-target="#send" hx-swap="outerMorph" { "Live" }
                    }
                }
            }
            div.actions {
                @if recipients::may_view(page) {
                    a.button href=(shown.address(page, "/recipients")) {
                        (icon("users")) "Recipients"
                    }
                    @if let Some(id) = send.campaign_id.filter(|_| send.campaign.is_some()) {
                        a.button href=(page.workspace_link(&format!("/preview?campaign={id}"))) {
                            (icon("search")) "Preview"
                        }
                    }
                }
                @if page.may(Right::MessagesCancel) && is_open(send.state) {
                    (parts::confirm(
                        page,
                        &shown.address(page, "/cancel"),
                        "Cancel the send",
                        "Messages that workers already hold may still go out: this page then shows \
                         how many. No others are sent. Messages that have left cannot be taken \
                         back, and the send cannot be continued.",
                    ))
                }
            }
        }
    }
}

fn is_open(state: State) -> bool {
    matches!(state, State::Planning | State::Running)
}

/// What still goes out, and what may have gone out.
fn notices(page: &Page, shown: &Shown) -> Markup {
    let send = &shown.send;
    let in_flight = shown.in_flight();
    let uncertain = shown.may_have_been_sent();
    html! {
        @if send.state == State::Failed {
            (parts::notice(Tone::Bad, "The send failed", html! {
                p { bdi { (send.note.as_deref().unwrap_or("Its reason is not known.")) } }
                p { (parts::runbook("docs/runbooks/user-got-no-message.md")) }
            }))
        }
        @if in_flight > 0 || send.state == State::Cancelling {
            @let count = parts::count_of(in_flight, "message", "messages");
            (parts::notice(Tone::Warning, &format!("At most {count} may still go out"), html! {
                p {
                    "Workers hold them. They drop those that they have not started, usually at \
                     once, so far fewer go out. All others are not sent."
                }
                @if send.state == State::Cancelling {
                    p { "Then the state is cancelled, and nothing more goes out." }
                }
                p { (parts::runbook("docs/runbooks/stop-a-wrong-send.md")) }
            }))
        } @else if send.state == State::Cancelled {
            (parts::notice(Tone::Neutral, "Nothing more goes out", html! {
                p {
                    (parts::count_of(send.messages.sent, "message was", "messages were"))
                    " sent before the cancellation took effect. "
                    (parts::count_of(send.users - send.walked, "user was", "users were"))
                    " never reached."
                }
                @if send.messages.sent > 0 {
                    p { (parts::runbook("docs/runbooks/stop-a-wrong-send.md")) }
                }
            }))
        }
        @if uncertain > 0 {
            @let count = parts::count_of(uncertain, "message", "messages");
            (parts::notice(Tone::Warning, &format!("{count} may have been sent"), html! {
                p {
                    "Their receiver did not respond, or a worker was lost before it stored their \
                     outcome. Most count as cancelled or failed, but their users may have them."
                }
                @if recipients::may_view(page) {
                    @let filter = OutcomeFilter::MayHaveBeenSent.name();
                    p {
                        a href=(shown.address(page, &format!("/recipients?outcome={filter}"))) {
                            "Their recipients"
                        }
                    }
                }
            }))
        }
    }
}

/// How far the send is.
fn progress(page: &Page, shown: &Shown) -> Markup {
    let send = &shown.send;
    let now = page.now_ms();
    let bar = format!("bar big {}", labels::look(send.state).tone.bar_class());
    let failed = send.messages.failed + send.messages.bounced;
    let took = send.started_at.map(|started| (send.finished_at.unwrap_or(now) - started).max(0));
    html! {
        section.panel id="progress" aria-label="Progress" {
            div.panel-body.hero {
                div.hero-top {
                    p.figure { (parts::number(send.messages.sent)) }
                    p.hero-count {
                        (if send.messages.sent == 1 { "message sent" } else { "messages sent" })
                        @if send.state != State::Done {
                            span.muted {
                                ", " (parts::number(send.walked)) " of "
                                (parts::count_of(send.users, "user", "users")) " checked"
                            }
                        }
                    }
                }
                @if send.users > 0 {
                    progress class=(bar) max=(send.users) value=(send.walked.clamp(0, send.users))
                        aria-label="Users checked" { (parts::number(send.walked)) }
                }
                dl.figures {
                    div { dt { "In the audience" } dd { (parts::number(send.matched)) } }
                    @if send.waiting_users() > 0 {
                        div {
                            dt { "Users waiting for their local time" }
                            dd { (parts::number(send.waiting_users())) }
                        }
                    }
                    div { dt { "Failed or bounced" } dd { (parts::number(failed)) } }
                    @if let Some(waiting) = shown.count(MessageOutcome::Waiting).filter(|count| *count > 0) {
                        div { dt { "Waiting" } dd { (parts::number(waiting)) } }
                    }
                    div { dt { "Accepted" } dd { (page.time(send.accepted_at)) } }
                    @match (took, send.finished_at) {
                        (Some(took), Some(_)) => div { dt { "Took" } dd { (parts::duration(took)) } },
                        (Some(took), None) => div { dt { "Runs for" } dd { (parts::duration(took)) } },
                        (None, _) => {}
                    }
                    @if let Some(ended) = send.finished_at {
                        div { dt { "Ended" } dd { (page.time(ended)) } }
                    }
                }
            }
        }
    }
}

/// Why messages have their outcomes. What receivers respond and what templates say can name a user,
/// so others see only how many messages have a reason.
fn reasons(page: &Page, shown: &Shown) -> Markup {
    let has_texts = recipients::may_view(page);
    let is_same = |a: &Reason, b: &Reason| {
        !has_texts && (a.channel, a.state.as_str()) == (b.channel, b.state.as_str())
    };
    let ended_early = shown.send.state.is_early_end();
    let with_outcome = |reason: &Reason| MessageOutcome::from_row(&reason.state, ended_early);
    let is_partial =
        shown.reasons.first().is_some_and(|first| first.counted_messages >= MAX_COUNTED_MESSAGES);
    html! {
        @if !shown.reasons.is_empty() {
            section.panel id="reasons" {
                div.panel-head { h2 { "Reasons" } }
                table.list {
                    thead {
                        tr {
                            th scope="col" { "Outcome" }
                            th scope="col" { "Channel" }
                            @if has_texts { th scope="col" { "Reason" } }
                            th.num scope="col" { "Messages" }
                        }
                    }
                    tbody {
                        @for reasons in shown.reasons.chunk_by(is_same) {
                            @let reason = &reasons[0];
                            @let messages = reasons.iter().map(|reason| reason.messages).sum();
                            tr {
                                td data-label="Outcome" {
                                    @match with_outcome(reason) {
                                        Some(outcome) => (labels::outcome_look(outcome).badge()),
                                        None => (parts::name(&reason.state)),
                                    }
                                }
                                td data-label="Channel" { (labels::channel_name(reason.channel)) }
                                @if has_texts {
                                    td.c-text data-label="Reason" { (parts::name(&reason.reason)) }
                                }
                                td.num data-label="Messages" { (parts::number(messages)) }
                            }
                        }
                    }
                }
                p.panel-foot {
                    "The most frequent reasons for each channel and outcome"
                    @if is_partial || shown.outcomes.is_none() { " of the latest messages" }
                    ". "
                    @if !has_texts { "To read the reasons, you need the right " code { "users.view" } ". " }
                    (parts::runbook("docs/runbooks/user-got-no-message.md"))
                }
            }
        }
    }
}

/// What was requested.
fn request(page: &Page, shown: &Shown) -> Markup {
    let send = &shown.send;
    let left = send.parts - send.parts_left;
    let rows = [
        ("Campaign", campaign(page, shown)),
        ("Audience", audience(page, shown)),
        ("Channels", html! { (labels::channels(&send.channels.0)) }),
        ("Started by", html! { (labels::cause(send.kind)) }),
        (
            "Send id",
            html! {
                @match &send.send_id {
                    Some(id) => (parts::name(id)),
                    None => span.muted { "None" },
                }
            },
        ),
        ("Parts", html! { (parts::number(left)) " of " (parts::number(send.parts)) " done" }),
        (
            "Started",
            html! {
                @match send.started_at {
                    Some(at) => (page.time(at)),
                    None => span.muted { "Not yet" },
                }
            },
        ),
        (
            "Requested by",
            html! {
                @match &send.requested_by {
                    Some(actor) => (parts::name(actor)),
                    None => span.muted { "Not recorded" },
                }
            },
        ),
        ("Dispatch id", labels::id(send.id)),
        (
            "Request id",
            html! { span.mono { (parts::name(runtime::traces::without_trace(&send.request_id))) } },
        ),
    ];
    html! {
        section.panel {
            div.panel-head { h2 { "Request" } }
            div.panel-body { (parts::facts(&rows)) }
        }
    }
}

fn campaign(page: &Page, shown: &Shown) -> Markup {
    let Some(id) = shown.send.campaign_id else { return html! { span.muted { "None" } } };
    html! {
        (parts::name(labels::title(&shown.send)))
        br; a href=(page.workspace_link(&format!("/sends?campaign={id}"))) { "All its sends" }
        br; span.mono.muted.small { (id) }
        @if shown.send.kind == ListedKind::Triggered {
            br; span.muted.small { "Each purchase starts another send: to stop them, pause it." }
        }
    }
}

fn audience(page: &Page, shown: &Shown) -> Markup {
    let send = &shown.send;
    let audience = &send.audience;
    html! {
        (parts::name(&labels::audience(audience, send.users)))
        @if let Some(id) = &audience.segment_id { br; span.mono.muted.small { (id) } }
        @if let Some(id) = &audience.dispatch_id {
            br; a href=(page.workspace_link(&format!("/sends/{}", parts::encoded(id)))) { "The other send" }
            br; span.muted.small { (audience.outcomes.join(", ")) }
        }
    }
}

/// The same from a terminal.
fn terminal(page: &Page, shown: &Shown) -> Markup {
    let id = shown.send.id.simple();
    let send = api(page, &format!("/messages/dispatches/{id}"));
    let mut curl = format!("curl -sS {send} {KEY_HEADER}");
    let mut command = format!("longshore dispatches show {id}");
    if is_open(shown.send.state) {
        curl += &format!("\ncurl -sS -X DELETE {send} {KEY_HEADER}");
        command += &format!("\nlongshore dispatches cancel {id}");
    } else {
        curl += &format!("\ncurl -sS {send}/recipients {KEY_HEADER}");
        command += &format!("\nlongshore dispatches recipients {id}");
    }
    parts::terminal(&curl, &command)
}
