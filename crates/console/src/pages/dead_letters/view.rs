//! The HTML of dead letters.

use maud::{Markup, html};

use super::{Done, Key, Listed, path};
use crate::page::Page;
use console_frame::page::VisibleWorkspace;
use console_frame::parts::{self, Look, Tone, icon};
use console_frame::rights::Right;
use console_frame::shell::{KEY_HEADER, api};
use gateway::paging;
use runtime::engine::batches::dead_letters::ListedDeadLetter;
use runtime::topics;
use runtime::traces::without_trace;

const RUNBOOK: &str = "docs/runbooks/dead-letters.md";

/// What the messages of a topic are.
pub fn kind(topic: &str) -> &'static str {
    match topics::from_name(topic) {
        Some(topics::TRACKING) => "Tracked data",
        Some(topics::CATALOGS) => "Catalog edits",
        Some(topics::MESSAGES) => "Send request",
        Some(topics::EXPORTS) => "Export",
        _ => "Message of another version",
    }
}

/// The list.
pub fn list(page: &Page, listed: &Listed) -> Markup {
    let address = |key: Option<&Key>| {
        let query = key.map_or_else(String::new, |key| format!("?before={}", paging::cursor(key)));
        page.link(&path(page, &query))
    };
    let newer = listed.before.map(|_| address(None));
    let older = listed.last.as_ref().map(|last| address(Some(last)));
    html! {
        div.head {
            div.head-title {
                h1 { "Dead letters" }
                p.muted { "Accepted messages that could not be applied. They are kept until somebody \
                           retries or discards them." }
            }
        }
        (notice(listed.done))
        section.panel id="dead-letters" aria-label="Dead letters" {
            @if listed.dead_letters.is_empty() {
                (parts::empty(
                    "No dead letters",
                    "A message whose data is wrong, or that ended its worker repeatedly, appears here.",
                ))
            } @else {
                table.list {
                    thead {
                        tr {
                            th scope="col" { "What" }
                            th scope="col" { "Reason" }
                            @if page.workspace_if_any().is_none() {
                                th scope="col" { "Workspace" }
                            }
                            th.num.c-wide scope="col" { "Partition" }
                            th.num.c-wide scope="col" { "Offset" }
                            th.num scope="col" { "Attempts" }
                            th.num scope="col" { "Since" }
                        }
                    }
                    tbody {
                        @for dead_letter in &listed.dead_letters { (row(page, dead_letter, &listed.workspaces)) }
                    }
                }
                p.panel-foot { (parts::runbook(RUNBOOK)) }
            }
            (parts::pager(newer.as_deref(), older.as_deref()))
        }
        (list_terminal(page))
    }
}

fn row(page: &Page, dead_letter: &ListedDeadLetter, workspaces: &[VisibleWorkspace]) -> Markup {
    let address = page.link(&path(page, &format!("/{}", dead_letter.id)));
    html! {
        tr {
            td.c-state {
                a.title id=(format!("x-{}", dead_letter.id)) href=(address) { (kind(&dead_letter.topic)) }
            }
            td.c-text { (parts::name(&dead_letter.reason)) }
            @if page.workspace_if_any().is_none() {
                td data-label="Workspace" { (workspace(dead_letter, workspaces)) }
            }
            td.num.c-wide data-label="Partition" { (dead_letter.partition) }
            td.num.c-wide data-label="Offset" { (dead_letter.position) }
            td.num data-label="Attempts" { (parts::number(dead_letter.attempts.into())) }
            td.num.c-time { (page.time(dead_letter.created_at)) }
        }
    }
}

fn workspace(dead_letter: &ListedDeadLetter, workspaces: &[VisibleWorkspace]) -> Markup {
    let found = workspaces.iter().find(|found| Some(found.id) == dead_letter.workspace_id);
    html! {
        @match (found, dead_letter.workspace_id) {
            (Some(found), _) => (parts::name(&found.name)),
            (None, Some(id)) => { "Workspace " (id) }
            (None, None) => span.muted { "Unknown" },
        }
    }
}

/// What the action before this page did.
fn notice(done: Option<Done>) -> Markup {
    let Some(done) = done else { return html! {} };
    let (tone, title, text) = match done {
        Done::Applied => (
            Tone::Good,
            "It was applied",
            "Its data took effect, and it is no longer a dead letter.",
        ),
        Done::Discarded => (Tone::Good, "It was discarded", "Its data is deleted permanently."),
        Done::Failed => (
            Tone::Bad,
            "It failed again",
            "What could be applied was applied. The rest stays a dead letter, with its new reason.",
        ),
    };
    parts::notice(tone, title, html! { p { (text) } })
}

// One dead letter ----------------------------------------------------------------------------

/// A dead letter with what can be done.
pub fn details(
    page: &Page,
    dead_letter: &ListedDeadLetter,
    workspaces: &[VisibleWorkspace],
    done: Option<Done>,
) -> Markup {
    html! {
        div.head {
            div.head-title {
                (crumbs(page, None))
                h1 {
                    (kind(&dead_letter.topic)) " "
                    (Look::bad("Not applied").pill())
                }
            }
            div.actions { (actions(page, dead_letter)) }
        }
        (notice(done))
        section.panel id="dead-letter" {
            div.panel-head { h2 { "Reason" } }
            div.panel-body {
                pre.code { (dead_letter.reason) }
                p { (parts::runbook(RUNBOOK)) }
            }
        }
        section.panel id="message" {
            div.panel-head { h2 { "Message" } }
            div.panel-body { (facts(page, dead_letter, workspaces)) }
        }
        (terminal(page, dead_letter))
    }
}

fn crumbs(page: &Page, dead_letter: Option<&ListedDeadLetter>) -> Markup {
    html! {
        nav.crumbs aria-label="Breadcrumb" {
            a href=(page.link(&path(page, ""))) { "Dead letters" }
            @if let Some(dead_letter) = dead_letter {
                a href=(page.link(&path(page, &format!("/{}", dead_letter.id)))) {
                    (kind(&dead_letter.topic))
                }
            }
        }
    }
}

fn actions(page: &Page, dead_letter: &ListedDeadLetter) -> Markup {
    let address = |action: &str| page.link(&path(page, &format!("/{}{action}", dead_letter.id)));
    html! {
        @if page.may(Right::UsersView) {
            a.button href=(address("/payload")) { "Show the payload" }
        }
        @if page.may(Right::DeadLettersManage) {
            form method="post" action=(address("/retry")) {
                (parts::form_token(page))
                button.button.primary type="submit" { (icon("rotate-ccw")) "Apply it now" }
            }
            (parts::confirm(
                page,
                &address("/discard"),
                "Discard",
                "Its data is deleted permanently, and is never applied. You cannot undo this.",
            ))
        }
    }
}

fn facts(page: &Page, dead_letter: &ListedDeadLetter, workspaces: &[VisibleWorkspace]) -> Markup {
    let position = format!("partition {}, offset {}", dead_letter.partition, dead_letter.position);
    parts::facts(&[
        ("Workspace", workspace(dead_letter, workspaces)),
        ("Topic", html! { (parts::name(&dead_letter.topic)) ", " (position) }),
        ("Consumer group", parts::name(&dead_letter.consumer_group)),
        ("Attempts", html! { (parts::number(dead_letter.attempts.into())) }),
        ("Dead letter since", page.time(dead_letter.created_at)),
        ("Size", html! { (parts::bytes(dead_letter.bytes)) }),
        (
            "Request id",
            html! { span.mono { (parts::name(without_trace(&dead_letter.request_id))) } },
        ),
        ("Id", html! { span.mono { (dead_letter.id) } }),
    ])
}

fn list_terminal(page: &Page) -> Markup {
    match page.workspace_if_any() {
        // The command lists those of the whole installation.
        Some(_) => {
            parts::terminal(&format!("curl -sS {} {KEY_HEADER}", api(page, "/dead_letters")), "")
        }
        None => parts::terminal("", "longshore dead-letters list"),
    }
}

fn terminal(page: &Page, dead_letter: &ListedDeadLetter) -> Markup {
    let id = dead_letter.id;
    let curl = match dead_letter.workspace_id {
        // With a key of its workspace.
        Some(_) => {
            let address = api(page, &format!("/dead_letters/{id}"));
            format!(
                "curl -sS {address} {KEY_HEADER}\ncurl -sS -X POST {address}/retry {KEY_HEADER}\n\
                 curl -sS -X DELETE {address} {KEY_HEADER}"
            )
        }
        None => String::new(),
    };
    let command = format!(
        "longshore dead-letters show {id}\nlongshore dead-letters retry {id}\n\
         longshore dead-letters discard {id}"
    );
    parts::terminal(&curl, &command)
}

/// The page with the payload.
pub fn payload(page: &Page, dead_letter: &ListedDeadLetter) -> Markup {
    let read = dead_letter.beginning.len() as i64;
    html! {
        div.head {
            div.head-title {
                (crumbs(page, Some(dead_letter)))
                h1 { "Payload" }
                p.muted { "It has personal data: the audit log has that you looked at it." }
            }
        }
        section.panel id="payload" aria-label="Payload" {
            div.panel-body {
                pre.code { (dead_letter.beginning_text()) }
                @if read < dead_letter.bytes {
                    p.muted {
                        "These are the first " (parts::bytes(read)) " of " (parts::bytes(dead_letter.bytes))
                        "."
                    }
                }
            }
        }
        (parts::terminal("", &format!("longshore dead-letters show {}", dead_letter.id)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topic_has_a_name() {
        let names: Vec<&str> = topics::ALL.iter().map(|topic| kind(topic.name())).collect();
        let other = kind("other");
        assert!(names.iter().all(|name| *name != other), "{names:?}");
    }
}
