//! The HTML of the state of the installation.

use maud::{Markup, html};
use url::Url;

use super::{Shown, View};
use crate::fleet::{LogState, MAX_WORK};
use crate::page::Page;
use crate::pages::overview::view::{counted, kind_name};
use console_frame::parts::{self, Look, Tone};
use log::lag::PartitionLag;
use runtime::config::Config;
use runtime::outbound::HIDDEN;
use runtime::processes::Process;
use runtime::work_rows::{Lease, Work};

/// Partitions on the page.
const MAX_PARTITIONS: usize = 500;

/// The release of this process.
const VERSION: &str = env!("CARGO_PKG_VERSION");

impl View {
    fn address(self, page: &Page) -> String {
        page.link(if self.all.is_some() { "/system?all=1" } else { "/system" })
    }
}

/// The whole page; `past` is the lag of the last 24 hours.
pub fn content(page: &Page, shown: &Shown, past: &Markup) -> Markup {
    html! {
        div.head {
            div.head-title {
                h1 { "System" }
                p.muted { "The processes of the installation, and what they work on." }
            }
        }
        div.columns id="system" hx-get=(shown.view.address(page)) hx-trigger="every 5s"
            hx-swap="innerMorph"
        {
            (live(page, shown))
        }
        (past)
        (settings(&page.app.config))
        (terminal(page))
    }
}

/// The part that changes while one looks.
pub fn live(page: &Page, shown: &Shown) -> Markup {
    html! {
        (warnings(shown))
        (processes(page, shown))
        (log(page, shown))
        (work(&shown.fleet.work, shown.fleet.now))
        (leases(page, shown))
        (storage(page, shown))
    }
}

/// What needs a look first.
fn warnings(shown: &Shown) -> Markup {
    let stopped = shown.fleet.log.iter().flat_map(|log| &log.stopped);
    html! {
        @if shown.fleet.log.is_none() {
            (parts::notice(Tone::Bad, "The log is unavailable", html! {
                p { "Accepted data waits until it is available again." }
                p { (parts::runbook("docs/runbooks/kafka-unavailable.md")) }
            }))
        }
        @for reason in stopped {
            (parts::notice(Tone::Bad, "A partition of the log stopped", html! {
                p { (parts::name(reason)) }
                p { (parts::runbook("docs/runbooks/partition-stopped.md")) }
            }))
        }
        @for warning in &shown.warnings {
            (parts::notice(Tone::Warning, "A warning of this process", html! {
                p { (parts::name(warning)) }
                p { (parts::runbook("docs/runbooks/index.md")) }
            }))
        }
    }
}

// Processes ----------------------------------------------------------------------------------

fn processes(page: &Page, shown: &Shown) -> Markup {
    let processes = &shown.system.processes;
    html! {
        section.panel id="processes" {
            div.panel-head {
                h2 { "Processes" }
                noscript { a.link href="" { "Reload" } }
            }
            @if processes.is_empty() {
                (parts::empty(
                    "No processes yet",
                    "A process appears here within a minute of its start.",
                ))
            } @else {
                table.list {
                    thead {
                        tr {
                            th scope="col" { "State" }
                            th scope="col" { "Process" }
                            th scope="col" { "Version" }
                            th.num scope="col" { "Started" }
                            th.num scope="col" { "Last seen" }
                        }
                    }
                    tbody {
                        @for process in processes {
                            (process_row(page, process, shown.system.now))
                        }
                    }
                }
            }
        }
    }
}

fn process_row(page: &Page, process: &Process, now: i64) -> Markup {
    html! {
        tr id=(format!("process-{}", process.id)) {
            td.c-state {
                @if process.is_missing(now) {
                    (Look::bad("Missing").badge())
                } @else {
                    (Look::good("Runs").badge())
                }
            }
            td.c-main.wide {
                b.title { (parts::name(&process.host)) " " span.muted { (process.pid) } }
                span.sub { (parts::name(&process.roles.replace(',', ", "))) }
            }
            td data-label="Version" {
                (parts::name(&process.version))
                @if process.version != VERSION {
                    div.marks { (parts::mark(Tone::Warning, "triangle-alert", "other version")) }
                }
            }
            td.num data-label="Started" { (page.time(process.started_at)) }
            td.num.c-time { (page.time(process.seen_at)) }
        }
    }
}

// Log ----------------------------------------------------------------------------------------

fn log(page: &Page, shown: &Shown) -> Markup {
    let Some(log) = &shown.fleet.log else { return html! {} };
    let hidden = hidden(log, shown.view);
    let rows = log.partitions.len() - hidden;
    html! {
        section.panel id="log" {
            div.panel-head {
                h2 { "Log" }
                p.muted {
                    (parts::count_of(log.behind, "message", "messages")) " to process"
                }
            }
            @if rows > 0 {
                table.list.dense {
                    thead {
                        tr {
                            th scope="col" { "State" }
                            th scope="col" { "Partition" }
                            th.c-wide scope="col" { "Group" }
                            th.num.c-wide scope="col" { "Next" }
                            th.num.c-wide scope="col" { "End" }
                            th.num scope="col" { "Behind" }
                        }
                    }
                    tbody {
                        @for lag in log.partitions[..rows].iter().take(MAX_PARTITIONS) {
                            (partition_row(lag))
                        }
                    }
                }
            }
            (log_foot(page, shown.view, rows, hidden))
        }
    }
}

/// The partitions that are not listed because they are up to date. They are the last ones.
fn hidden(log: &LogState, view: View) -> usize {
    if view.all.is_some() {
        return 0;
    }
    log.partitions.iter().filter(|lag| lag.is_up_to_date()).count()
}

fn log_foot(page: &Page, view: View, rows: usize, hidden: usize) -> Markup {
    let text = match (rows, hidden) {
        (0, 0) => "Nothing was consumed yet.".to_owned(),
        (0, 1) => "The only partition is up to date.".to_owned(),
        (0, hidden) => format!("All {hidden} partitions are up to date."),
        (_, 1) => "1 other is up to date.".to_owned(),
        (_, hidden) => format!("{hidden} others are up to date."),
    };
    html! {
        p.panel-foot {
            @if rows > MAX_PARTITIONS {
                "Only the first " (MAX_PARTITIONS) " of " (rows) " partitions are listed. "
            }
            @if view.all.is_some() {
                a href=(View::default().address(page)) { "Hide partitions that are up to date" }
            } @else {
                (text)
                @if hidden > 0 { " " a href=(View { all: Some(1) }.address(page)) { "Show all" } }
            }
        }
    }
}

fn partition_row(lag: &PartitionLag) -> Markup {
    let position = &lag.position;
    let (topic, partition) = (lag.topic.name(), position.partition);
    let badge = match lag.behind() {
        None => Look::bad("Stopped").badge(),
        Some(0) => Look::good("Up to date").badge(),
        Some(_) => Look::running("Behind").badge(),
    };
    html! {
        tr id=(format!("partition-{topic}-{partition}-{}", position.consumer_group)) {
            td.c-state { (badge) }
            td.c-main { (topic) " " (partition) }
            td.c-wide data-label="Group" { (parts::name(&position.consumer_group)) }
            td.num.c-wide data-label="Next" { (position.next) }
            td.num.c-wide data-label="End" { @if let Some(range) = lag.range { (range.end) } }
            td.num data-label="Behind" {
                @if let Some(behind) = lag.behind() { (parts::number(behind)) }
            }
        }
    }
}

// Work ---------------------------------------------------------------------------------------

fn work(work: &[Work], now: i64) -> Markup {
    html! {
        section.panel id="work" {
            div.panel-head { h2 { "Waiting work" } }
            @if work.is_empty() {
                (parts::empty("No waiting work", "Work appears here until a worker has finished it."))
            } @else {
                table.list.dense {
                    thead {
                        tr {
                            th scope="col" { "Kind" }
                            th.num scope="col" { "Due" }
                            th.num scope="col" { "In progress" }
                            th.num scope="col" { "Oldest due for" }
                        }
                    }
                    tbody {
                        @for work in work {
                            tr {
                                td.c-main { (kind_name(&work.kind)) }
                                td.num data-label="Due" { (counted(work.ready, MAX_WORK)) }
                                td.num data-label="In progress" { (counted(work.held, MAX_WORK)) }
                                td.num data-label="Oldest due for" {
                                    @if let Some(since) = work.since {
                                        (parts::duration(now.saturating_sub(since)))
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn leases(page: &Page, shown: &Shown) -> Markup {
    let leases = &shown.system.leases;
    html! {
        section.panel id="leases" {
            div.panel-head { h2 { "Work in progress" } }
            @if leases.is_empty() {
                (parts::empty(
                    "No work in progress",
                    "Work appears here while a worker holds it with a lease.",
                ))
            } @else {
                table.list.dense {
                    thead {
                        tr {
                            th scope="col" { "Work" }
                            th scope="col" { "Workspace" }
                            th.c-wide scope="col" { "Job" }
                            th.num.c-wide scope="col" { "Item" }
                            th.num scope="col" { "Attempt" }
                            th.num scope="col" { "Lease" }
                        }
                    }
                    tbody { @for lease in leases { (lease_row(page, shown, lease)) } }
                }
            }
            @if shown.system.has_more {
                p.panel-foot { "Only the first " (leases.len()) " are listed." }
            }
        }
    }
}

fn lease_row(page: &Page, shown: &Shown, lease: &Lease) -> Markup {
    let workspace = shown.workspaces.iter().find(|found| Some(found.id) == lease.workspace_id);
    let left = lease.expires_at.saturating_sub(shown.system.now);
    html! {
        tr {
            td.c-main { (kind_name(&lease.kind)) }
            td data-label="Workspace" {
                @if let Some(workspace) = workspace {
                    a href=(page.link_in(&workspace.name, "/exports")) {
                        (parts::name(&workspace.name))
                    }
                } @else if let Some(id) = lease.workspace_id {
                    "Workspace " (id)
                }
            }
            td.mono.c-wide data-label="Job" { (lease.job) }
            td.num.c-wide data-label="Item" { (lease.item) }
            td.num data-label="Attempt" { (lease.attempt) }
            td.num data-label="Lease" {
                @if left > 0 {
                    (parts::duration(left)) " left"
                } @else {
                    (parts::mark(Tone::Warning, "triangle-alert", "expired"))
                }
            }
        }
    }
}

// Storage and settings -----------------------------------------------------------------------

fn storage(page: &Page, shown: &Shown) -> Markup {
    let config = &page.app.config;
    let log = if shown.fleet.log.is_some() { "" } else { ", unavailable" };
    let database = match config.database_file() {
        Some(file) => format!("SQLite, {}", file.display()),
        None => without_secrets(&config.database_url()),
    };
    let backup = match shown.system.last_backup {
        Some(at) => page.time(at),
        None => html! { "None was recorded" },
    };
    html! {
        section.panel id="storage" {
            div.panel-head { h2 { "Where the data is" } }
            div.panel-body {
                (parts::facts(&[
                    ("Database", html! { span.mono { (database) } }),
                    ("Log", html! { span.mono { (config.log.url) } (log) }),
                    ("Files of exports", html! {
                        span.mono { (without_secrets(&config.objects_url())) }
                    }),
                    ("Last backup", backup),
                ]))
            }
        }
    }
}

/// A URL without what may be a secret: credentials and parameters.
fn without_secrets(url: &str) -> String {
    let Ok(mut url) = Url::parse(url) else { return HIDDEN.to_owned() };
    url.set_query(None);
    url.set_fragment(None);
    // Without a host, there are none.
    let _ = url.set_password(None);
    let _ = url.set_username("");
    url.into()
}

fn list(values: &[impl ToString]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The settings of this process that matter most. They do not change while it runs.
fn settings(config: &Config) -> Markup {
    let rows: [(&str, String); 11] = [
        ("public_url", config.public_base()),
        ("gateway.listen", config.gateway.listen.to_string()),
        ("ops.listen", config.ops.listen.to_string()),
        ("console.public_url", config.console_url().to_string()),
        ("database.max_connections", config.database.max_connections.to_string()),
        ("log.partitions", config.log.partitions.to_string()),
        ("log.keep_days", config.log.keep_days.to_string()),
        ("exports.download_minutes", config.exports.download_minutes.to_string()),
        ("deliveries.retry_hours", config.deliveries.retry_hours.to_string()),
        ("allow_private", list(&config.allow_private)),
        ("trusted_proxies", list(&config.trusted_proxies)),
    ];
    html! {
        section.panel id="settings" {
            div.panel-head {
                h2 { "Settings" }
                p.muted { "Of the process that serves this page, version " (VERSION) "." }
            }
            div.panel-body {
                dl.facts {
                    @for (name, value) in rows {
                        div {
                            dt { code { (name) } }
                            dd { @if value.is_empty() { "None" } @else { (parts::name(&value)) } }
                        }
                    }
                }
            }
        }
    }
}

fn terminal(page: &Page) -> Markup {
    parts::terminal(
        &format!("curl -sS http://{}/readyz", page.app.config.ops.listen),
        "longshore processes\nlongshore log status\nlongshore doctor\nlongshore config show",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_shown_without_credentials_and_parameters() {
        for (url, shown) in [
            (
                "postgres://ann:hidden@db.example:5433/longshore?sslpassword=hidden",
                "postgres://db.example:5433/longshore",
            ),
            ("s3://bucket/prefix?access_key_id=a&secret_access_key=hidden", "s3://bucket/prefix"),
            ("file:///var/lib/longshore/objects", "file:///var/lib/longshore/objects"),
            ("hidden", "***"),
        ] {
            assert_eq!(without_secrets(url), shown);
        }
    }
}
