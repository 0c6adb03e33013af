//! The HTML of the overview.

use maud::{Markup, html};

use super::{ExportInProgress, Exports, Overview, SHOWN_EXPORTS, health};
use crate::fleet::{Fleet, MAX_DEAD_LETTERS, MAX_WORK};
use crate::page::Page;
use crate::pages::exports::labels;
use console_frame::parts::{self, icon};
use console_frame::rights::Right;
use dispatches::RecentTotals;
use exports::State;
use exports::overview::ListedExport;

/// The whole page; `past` are the charts of the last 24 hours.
pub(super) fn page(page: &Page, overview: &Overview, past: &Markup) -> Markup {
    let count = overview.workspaces.len() as i64;
    html! {
        div.head {
            div.head-title {
                h1 { "Overview" }
                p.muted { (parts::count_of(count, "workspace", "workspaces")) }
            }
            div.actions { (request_link(page, overview)) }
        }
        // As a grid of its own, so that the parts keep their distance.
        div.columns id="live" hx-get=(page.link("/overview/live")) hx-trigger="every 5s"
            hx-swap="innerMorph"
        {
            (live(page, overview))
        }
        (past)
        (terminal(page))
    }
}

/// In one workspace; with several, the person chooses one first.
fn request_link(page: &Page, overview: &Overview) -> Markup {
    let [workspace] = &*overview.workspaces else { return html! {} };
    html! {
        @if page.viewer.rights.has(Right::ExportsRun, Some(workspace.id)) {
            a.button.primary href=(page.link_in(&workspace.name, "/exports/new")) {
                (icon("plus")) "Request an export"
            }
        }
    }
}

/// The part that changes while one looks.
pub(super) fn live(page: &Page, overview: &Overview) -> Markup {
    let is_empty = overview.exports.is_none()
        && overview.messages.is_none()
        && overview.fleet.is_none()
        && overview.dead_letters.is_empty();
    if is_empty {
        let title = "Nothing to show";
        let text = "You have no right to see exports, messages or the state of the installation. Ask \
                    an operator for a link with another role.";
        return html! { section.panel { (parts::empty(title, text)) } };
    }
    html! {
        (health::panel(page, overview))
        (stats(overview))
        @if let Some(exports) = &overview.exports { (in_progress(page, exports)) }
        @if overview.fleet.is_some() || !overview.dead_letters.is_empty() {
            (waiting_work(overview))
        }
        @if overview.has_more_workspaces {
            p.muted { "Only the first workspaces in which you have rights are shown." }
        }
    }
}

// Numbers -------------------------------------------------------------------------------------

fn stats(overview: &Overview) -> Markup {
    html! {
        section.stats aria-label="Today" {
            @if let Some(exports) = &overview.exports { (exports_stat(exports)) }
            @if let Some(totals) = &overview.messages { (messages_stat(totals)) }
            @if let Some(fleet) = &overview.fleet { (ingestion_stat(fleet)) }
        }
    }
}

fn exports_stat(exports: &Exports) -> Markup {
    let ended = [State::Done, State::Failed, State::Cancelled].map(|state| exports.count(state));
    let [done, failed, cancelled] = ended.map(parts::number);
    let in_progress: i64 = State::unfinished().map(|state| exports.count(state)).sum();
    html! {
        div.stat {
            h2 { "Exports ended today" }
            b {
                @if exports.is_partial { small { "more than " } }
                (parts::number(ended.iter().sum()))
            }
            p { (done) " done, " (failed) " failed, " (cancelled) " cancelled" }
            p { (parts::number(in_progress)) " in progress" }
        }
    }
}

fn messages_stat(totals: &RecentTotals) -> Markup {
    let messages = &totals.messages;
    let not_sent = messages.unreachable + messages.aborted;
    let failed = messages.failed + messages.bounced;
    html! {
        div.stat {
            h2 { "Messages of today’s sends" }
            b {
                @if totals.is_partial() { small { "more than " } }
                (parts::estimate(messages.sent + not_sent + failed))
            }
            p { (parts::estimate(messages.sent)) " sent, " (parts::estimate(failed)) " failed" }
            p { (parts::estimate(not_sent)) " to users without an address, or aborted" }
        }
    }
}

fn ingestion_stat(fleet: &Fleet) -> Markup {
    html! {
        div.stat {
            h2 { "Incoming data" }
            @match &fleet.log {
                None => { b { "Unknown" } p { "The log is unavailable" } }
                Some(log) => {
                    @match log.rate {
                        Some(rate) => b { (parts::number(rate.round() as i64)) " " small { "/s" } },
                        None => b { (parts::estimate(log.behind)) " " small { "waiting" } },
                    }
                    p { (parts::count_of(log.behind, "entry of the log", "entries of the log")) " not applied yet" }
                }
            }
        }
    }
}

// Work ----------------------------------------------------------------------------------------

fn in_progress(page: &Page, exports: &Exports) -> Markup {
    html! {
        section.panel id="exports" {
            div.panel-head {
                h2 { "Exports in progress" }
                noscript { a.link href="" { "Reload" } }
            }
            @if exports.in_progress.is_empty() {
                (parts::empty(
                    "No exports in progress",
                    "An export appears here from its request to its end.",
                ))
            } @else {
                table.list {
                    thead {
                        tr {
                            th scope="col" { "State" }
                            th scope="col" { "Export" }
                            th scope="col" { "Users" }
                            th.num scope="col" { "Speed" }
                            th.num scope="col" { "Requested" }
                        }
                    }
                    tbody {
                        @for shown in exports.in_progress.iter().take(SHOWN_EXPORTS) {
                            (export_row(page, shown))
                        }
                    }
                }
            }
            @if exports.in_progress.len() > SHOWN_EXPORTS {
                p.panel-foot { "Further exports are in progress: see the list of a workspace." }
            }
        }
    }
}

fn export_row(page: &Page, ExportInProgress { export, title }: &ExportInProgress) -> Markup {
    let progress = &export.progress;
    let rate = export.rate(page.now_ms());
    let tone = labels::tone(progress.state, export.marks());
    html! {
        tr id=(format!("row-{}", export.job.id)) {
            td.c-state { (labels::look(progress.state).badge()) (labels::marks(export.marks())) }
            td.c-main {
                a.title id=(format!("x-{}", export.job.id)) href=(export_link(page, export)) {
                    (parts::name(title))
                }
                span.sub { (parts::name(&export.workspace)) }
            }
            td.c-bar {
                @match progress.users {
                    None => span.muted { "Not planned yet" },
                    Some(users) => {
                        (parts::progress_in(tone, progress.users_done, Some(users), "users"))
                    }
                }
            }
            td.num data-label="Speed" {
                @if let Some(rate) = rate {
                    (parts::number(rate.users_per_second.round() as i64)) "/s"
                }
            }
            td.num.c-time { (page.time(export.job.requested_at)) }
        }
    }
}

fn waiting_work(overview: &Overview) -> Markup {
    let mut rows: Vec<(&str, Markup)> = Vec::new();
    if let Some(fleet) = &overview.fleet {
        let oldest = match fleet.oldest_work() {
            Some((kind, ms)) => html! {
                (parts::duration(ms)) " " span.muted { (kind_name(kind)) }
            },
            None => html! { "None" },
        };
        rows.push(("Oldest due work", oldest));
        for work in &fleet.work {
            let counts = html! {
                (counted(work.ready, MAX_WORK)) " due, " (counted(work.held, MAX_WORK)) " in progress"
            };
            rows.push((kind_name(&work.kind), counts));
        }
    }
    if overview.dead_letters.is_empty() {
        rows.push(("Dead letters", html! { "None" }));
    }
    for (workspace, count) in &overview.dead_letters {
        let text = html! {
            (counted(*count, MAX_DEAD_LETTERS)) " "
            span.muted {
                @match workspace {
                    Some(id) => (workspace_name(overview, *id)),
                    None => "of an unknown workspace",
                }
            }
        };
        rows.push(("Dead letters", text));
    }
    html! {
        section.panel id="work" {
            div.panel-head { h2 { "Waiting work" } }
            div.panel-body { (parts::facts(&rows)) }
        }
    }
}

fn terminal(page: &Page) -> Markup {
    let curl = if page.viewer.rights.has(Right::SystemView, None) {
        format!("curl -sS http://{}/metrics", page.app.config.ops.listen)
    } else {
        String::new()
    };
    parts::terminal(&curl, "longshore export list --active --key \"\"")
}

/// A count that stops at a limit: `100+`.
pub(in crate::pages) fn counted(count: i64, limit: i64) -> String {
    if count >= limit { format!("{}+", parts::number(limit)) } else { parts::number(count) }
}

pub(super) fn dead_letters(count: i64) -> String {
    match count {
        1 => "1 dead letter".to_owned(),
        _ => format!("{} dead letters", counted(count, MAX_DEAD_LETTERS)),
    }
}

/// What people call a kind of work.
pub(in crate::pages) fn kind_name(kind: &str) -> &str {
    match kind {
        "export_plan" => "Plans of exports",
        "export_part" => "Parts of exports",
        "export_finish" => "Ends of exports",
        "export_cleanup" => "Removal of export files",
        "delivery" => "Callbacks and notifications",
        "activity_sweep" => "Removal of old activity",
        "schedule" => "Schedules",
        "dispatch_plan" => "Plans of sends",
        "dispatch_part" => "Parts of sends",
        "dispatch_named" => "Sends to named users",
        "transactional" => "Transactional emails",
        other => other,
    }
}

pub(super) fn workspace_name(overview: &Overview, id: i32) -> Markup {
    let workspace = overview.workspaces.iter().find(|workspace| workspace.id == id);
    html! {
        @match workspace {
            Some(workspace) => (parts::name(&workspace.name)),
            // Deleted, or created just now.
            None => { "Workspace " (id) }
        }
    }
}

pub(super) fn link_in(page: &Page, overview: &Overview, workspace: i32, path: &str) -> String {
    let found = overview.workspaces.iter().find(|found| found.id == workspace);
    found.map_or_else(|| "#health".to_owned(), |found| page.link_in(&found.name, path))
}

pub(super) fn export_link(page: &Page, export: &ListedExport) -> String {
    let prefix = parts::encoded(&export.job.object_prefix);
    page.link_in(&export.workspace, &format!("/exports/{prefix}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::kinds;

    #[test]
    fn every_kind_of_work_has_a_name() {
        for kind in kinds::ALL {
            let name = kind_name(kind.name());
            assert!(name.starts_with(char::is_uppercase), "{name}");
        }
    }

    #[test]
    fn counts_at_the_limit_are_not_exact() {
        assert_eq!(counted(9_999, MAX_WORK), "9,999");
        assert_eq!(counted(10_000, MAX_WORK), "10,000+");
        assert_eq!(dead_letters(100), "100+ dead letters");
        assert_eq!(dead_letters(1), "1 dead letter");
        assert_eq!(dead_letters(2), "2 dead letters");
    }
}
