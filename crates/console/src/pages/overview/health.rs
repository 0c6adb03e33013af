//! The health line of the overview: what needs a look, and where it is shown.

use maud::{Markup, html};

use super::view::{counted, dead_letters, export_link, kind_name, link_in, workspace_name};
use super::{ExportInProgress, Exports, MAX_FAILURES, Overview, SHOWN_EXPORTS, SHOWN_FAILURES};
use crate::fleet::Fleet;
use crate::page::Page;
use crate::pages::exports::labels;
use console_frame::parts::{self, icon};
use console_frame::rights::Right;
use deliveries::STATUS_POSTBACK;
use exports::overview::Mark;
use exports::storage_health::{OBJECTS, WAITING, WaitingExport};

const STORAGE_RUNBOOK: &str = "docs/runbooks/object-storage-unavailable.md";

/// Something that needs a look.
struct Cause {
    is_bad: bool,
    title: String,
    /// Where it is shown.
    href: String,
    text: Markup,
    /// The page of the book.
    runbook: &'static str,
}

/// The line above everything else: that all is well, or what needs a look.
pub fn panel(page: &Page, overview: &Overview) -> Markup {
    let causes = causes(page, overview);
    if causes.is_empty() {
        let oldest = overview.fleet.as_ref().and_then(|fleet| fleet.oldest_work());
        return html! {
            section.panel.health id="health" {
                div.panel-head {
                    h2 { (icon("circle-check")) "All work is moving" }
                    @if let Some((_, ms)) = oldest {
                        p.muted { "The oldest waiting work has been due for " (parts::duration(ms)) }
                    }
                }
            }
        };
    }
    let title = parts::count_of(causes.len() as i64, "thing needs a look", "things need a look");
    html! {
        section.panel.health.warn id="health" {
            div.panel-head {
                h2 { (icon("triangle-alert")) (title) }
            }
            ul.causes { @for cause in &causes { (cause_item(cause)) } }
        }
    }
}

fn cause_item(cause: &Cause) -> Markup {
    let (class, icon_name) =
        if cause.is_bad { (Some("bad"), "circle-alert") } else { (None, "triangle-alert") };
    html! {
        li class=[class] {
            (icon(icon_name))
            div {
                a href=(cause.href) { (cause.title) }
                p { (cause.text) }
            }
            (parts::runbook(cause.runbook))
        }
    }
}

/// The most urgent ones first: what has stopped, then what failed, then what is slow.
fn causes(page: &Page, overview: &Overview) -> Vec<Cause> {
    let mut causes = Vec::new();
    if let Some(fleet) = &overview.fleet {
        add_fleet(&mut causes, fleet);
    }
    for (subject, warning) in &overview.warnings {
        let (title, runbook) = match *subject {
            // Below, with links to the exports.
            WAITING => continue,
            OBJECTS => ("The storage of exports is unavailable", STORAGE_RUNBOOK),
            _ => ("A warning of this process", "docs/runbooks/index.md"),
        };
        let text = html! { (parts::name(warning)) };
        causes.push(Cause {
            is_bad: true,
            title: title.into(),
            href: "#work".into(),
            text,
            runbook,
        });
    }
    if let Some(exports) = &overview.exports {
        add_exports(&mut causes, page, overview, exports);
    }
    add_given_up(&mut causes, page, overview);
    for (workspace, count) in &overview.dead_letters {
        causes.push(Cause {
            is_bad: false,
            title: format!("{} could not be applied", dead_letters(*count)),
            href: "#work".into(),
            text: html! {
                @match workspace {
                    Some(id) => (workspace_name(overview, *id)),
                    None => "Of an unknown workspace",
                }
            },
            runbook: "docs/runbooks/dead-letters.md",
        });
    }
    causes
}

fn add_fleet(causes: &mut Vec<Cause>, fleet: &Fleet) {
    let mut add = |title: String, text: Markup, runbook| {
        let href = "#work".to_owned();
        causes.push(Cause { is_bad: true, title, href, text, runbook });
    };
    match &fleet.log {
        None => add(
            "The log is unavailable".into(),
            html! { "Accepted data waits until it is available again." },
            "docs/runbooks/kafka-unavailable.md",
        ),
        Some(log) => {
            for reason in &log.stopped {
                add(
                    "A partition of the log stopped".into(),
                    html! { (parts::name(reason)) },
                    "docs/runbooks/partition-stopped.md",
                );
            }
        }
    }
    for (work, ms) in fleet.late_work() {
        let (title, runbook) = if work.held == 0 {
            (
                "Work waits, and no worker takes it",
                "docs/runbooks/alerts/LongshoreWorkNotClaimed.md",
            )
        } else {
            ("Work waits for too long", "docs/runbooks/alerts/LongshoreWorkLate.md")
        };
        let text = html! {
            (kind_name(&work.kind)) ": the oldest has been due for " (parts::duration(ms))
        };
        add(title.into(), text, runbook);
    }
}

fn add_exports(causes: &mut Vec<Cause>, page: &Page, overview: &Overview, exports: &Exports) {
    for waiting in &exports.waiting {
        causes.push(waits_for_storage(page, waiting));
    }
    for ExportInProgress { export, title } in exports.in_progress.iter().take(SHOWN_EXPORTS) {
        let Some(mark) = export.mark else { continue };
        causes.push(Cause {
            is_bad: mark == Mark::Stalled,
            title: format!("An export is {}", mark.name()),
            href: export_link(page, export),
            text: html! {
                (parts::name(&export.workspace)) ": " (parts::name(title))
                ", " (labels::mark_reason(mark))
            },
            runbook: "docs/runbooks/export-slow.md",
        });
    }
    for failed in exports.failed.iter().take(SHOWN_FAILURES) {
        let path = format!("/exports/{}", parts::encoded(&failed.object_prefix));
        causes.push(Cause {
            is_bad: true,
            title: "An export failed".into(),
            href: link_in(page, overview, failed.workspace_id, &path),
            text: html! {
                (workspace_name(overview, failed.workspace_id)) ", "
                (page.time(failed.finished_at))
                @if let Some(error) = &failed.error { ": " (parts::name(error)) }
            },
            runbook: "docs/runbooks/export-failed.md",
        });
    }
    let hidden = exports.failed.len().saturating_sub(SHOWN_FAILURES);
    if hidden > 0 {
        let noun = if hidden == 1 { "export" } else { "exports" };
        let count = counted(hidden as i64, (MAX_FAILURES - SHOWN_FAILURES) as i64);
        causes.push(Cause {
            is_bad: false,
            title: format!("{count} other {noun} failed today"),
            href: "#exports".into(),
            text: html! { "The latest ones are listed above." },
            runbook: "docs/runbooks/export-failed.md",
        });
    }
}

fn waits_for_storage(page: &Page, waiting: &WaitingExport) -> Cause {
    let path = format!("/exports/{}", parts::encoded(&waiting.object_prefix));
    Cause {
        is_bad: true,
        title: "An export waits for its storage".into(),
        href: page.link_in(&waiting.workspace, &path),
        text: html! { (parts::name(&waiting.workspace)) ": " (parts::name(&waiting.error)) },
        runbook: STORAGE_RUNBOOK,
    }
}

/// One for each workspace, with its latest delivery.
fn add_given_up(causes: &mut Vec<Cause>, page: &Page, overview: &Overview) {
    let given_up = &overview.given_up;
    let mut workspaces: Vec<i32> = given_up.iter().map(|delivery| delivery.workspace_id).collect();
    workspaces.sort_unstable();
    workspaces.dedup();
    for workspace in workspaces {
        let mut of_workspace =
            given_up.iter().filter(|delivery| delivery.workspace_id == workspace);
        let Some(latest) = of_workspace.next() else { continue };
        let count = 1 + of_workspace.count() as i64;
        let may_see_export = page.viewer.rights.has(Right::ExportsView, Some(workspace));
        let href = if latest.kind != STATUS_POSTBACK && may_see_export {
            let path = format!("/exports/{}", parts::encoded(&latest.subject));
            link_in(page, overview, workspace, &path)
        } else {
            "#health".to_owned()
        };
        causes.push(Cause {
            is_bad: false,
            title: format!(
                "{} given up",
                parts::count_of(count, "delivery was", "deliveries were")
            ),
            href,
            text: html! {
                (workspace_name(overview, workspace)) ", the latest one " (page.time(latest.finished_at))
            },
            runbook: "docs/runbooks/callbacks-given-up.md",
        });
    }
}
