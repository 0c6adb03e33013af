//! The page of an export: what it knows, and its sections.

mod deliveries_section;
mod files_section;
mod proof_section;
mod request_section;

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde::Deserialize;
use uuid::Uuid;

use super::KEY_FIELD;
use super::live::{CLOSE, ENDED, STATE_ID};
use super::progress::{Moment, figures};
use crate::page::Page;
use crate::pages::exports::labels::{self, AudienceNames};
use console_frame::error::PageError;
use console_frame::lists::first_rows;
use console_frame::parts::{self, Tone, icon};
use console_frame::rights::Right;
use console_frame::shell::{KEY_HEADER, api, command};
use deliveries::Delivery;
use exports::overview::ListedExport;
use exports::rows::{self, ListedPart};
use exports::{State, status};
use gateway::workspaces::signing::{self, SigningKeyInfo};
use gateway::workspaces::storage::{self, Settings};
use store::{StoreError, Tx};

/// Files of an export on a page, and unreadable users.
const FILES: usize = 50;
const BROKEN_USERS: i64 = 100;

/// How long after an event its deliveries can have been created, in milliseconds, and how long
/// before: the clock may be set.
const DELIVERED_WITHIN: i64 = 60_000;
const CLOCK_DIFFERENCE: i64 = 5_000;

/// The events of an update that failed, which is then repeated. Not those of the stream, which
/// opens itself again.
const AFTER_ERROR: &str = "htmx:response:error from:self delay:3s, htmx:error from:self delay:3s";

/// Which files the page lists.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct PartsView {
    /// Only those after this one.
    after: Option<i64>,
    /// Whether only those with more than one attempt; any value.
    retried: Option<u8>,
}

/// An export, as its page shows it.
pub struct Shown {
    pub export: ListedExport,
    /// What people call its users.
    pub title: String,
    /// Where its files go; none: to the gateway, for a download.
    destination: Option<Settings>,
    view: PartsView,
    files: Vec<ListedPart>,
    has_more_files: bool,
    broken_users: Vec<(Uuid, String)>,
    deliveries: Vec<Delivery>,
    /// The key that signed it.
    signing_key: Option<SigningKeyInfo>,
}

impl Shown {
    pub async fn read(
        page: &Page,
        tx: &mut Tx,
        export: ListedExport,
        view: PartsView,
    ) -> Result<Self, PageError> {
        let (job, progress) = (&export.job, &export.progress);
        let names = AudienceNames::read(tx, job.workspace_id, &[job.segment_id]).await?;
        let planned = progress.plan.as_ref().and_then(|plan| plan.segment.as_ref());
        let title = names.title(job, planned.map(|segment| segment.name.as_str()));
        let destination = match job.storage_id {
            // The page works without the settings.
            Some(id) => storage::settings(tx, &page.app.secrets, id).await.ok(),
            None => None,
        };
        let after = view.after.unwrap_or(0);
        let is_retried = view.retried.is_some();
        let files = rows::list_parts(tx, job.id, is_retried, after, FILES as i64 + 1).await?;
        let (files, has_more_files) = first_rows(files, FILES);
        let broken_users = match progress.broken_users {
            0 => Vec::new(),
            _ => rows::broken_users(tx, job.id, BROKEN_USERS).await?,
        };
        let deliveries = deliveries_of(tx, &export).await?;
        let signing_key = match progress.manifest_sha256 {
            Some(_) => signing_key(tx, &export).await?,
            None => None,
        };
        Ok(Self {
            title,
            destination,
            view,
            files,
            has_more_files,
            broken_users,
            deliveries,
            signing_key,
            export,
        })
    }

    fn moment(&self) -> Moment<'_> {
        let ListedExport { job, progress, .. } = &self.export;
        let planned_at = progress.plan.as_ref().and_then(|plan| plan.planned_at);
        Moment { job, progress, planned_at, marks: self.export.marks(), is_live: false }
    }

    fn address(&self, page: &Page, action: &str) -> String {
        page.workspace_link(&format!("/exports/{}{action}", self.export.job.object_prefix))
    }
}

/// The deliveries about an export: created when it became late, and at its end.
async fn deliveries_of(tx: &mut Tx, export: &ListedExport) -> Result<Vec<Delivery>, StoreError> {
    let (job, progress) = (&export.job, &export.progress);
    let mut found = BTreeMap::new();
    for at in [progress.late_at, progress.finished_at].into_iter().flatten() {
        let times = at - CLOCK_DIFFERENCE..at + DELIVERED_WITHIN;
        for delivery in deliveries::about(tx, job.workspace_id, &job.object_prefix, times).await? {
            found.insert((delivery.created_at, delivery.id), delivery);
        }
    }
    Ok(found.into_values().collect())
}

/// The key that was active at the end of an export.
async fn signing_key(
    tx: &mut Tx,
    export: &ListedExport,
) -> Result<Option<SigningKeyInfo>, StoreError> {
    let Some(ended) = export.progress.finished_at else { return Ok(None) };
    let keys = signing::list(tx, export.job.workspace_id).await?;
    Ok(keys.into_iter().rfind(|key| {
        key.retired_at.is_none_or(|retired_at| ended < retired_at) && key.signs_from <= ended
    }))
}

pub fn content(page: &Page, shown: &Shown) -> Markup {
    let progress = &shown.export.progress;
    let runs = !progress.state.is_final();
    html! {
        // After the end of the stream, the whole part is loaded again: with other actions. Elements
        // that are in both keep the focus.
        div.columns id="export" hx-get=[runs.then(|| shown.address(page, ""))]
            hx-trigger=[runs.then(|| format!("{ENDED}, {AFTER_ERROR}"))]
            hx-select=[runs.then_some("#export")] hx-swap=[runs.then_some("outerMorph")]
        {
            (head(page, shown))
            (notices(page, shown))
            (progress_section(page, shown))
            div.columns.side-right {
                div.columns {
                    (files_section::section(page, shown))
                    (files_section::broken_users(page, shown))
                    (deliveries_section::section(page, shown))
                    (proof_section::section(page, shown))
                }
                (request_section::section(page, shown))
            }
            (terminal(page, shown))
        }
    }
}

fn head(page: &Page, shown: &Shown) -> Markup {
    let state = shown.export.progress.state;
    html! {
        div.head {
            div.head-title {
                nav.crumbs aria-label="Breadcrumb" {
                    a href=(page.workspace_link("/exports")) { "Exports" }
                }
                h1 {
                    (parts::name(&shown.title)) " "
                    span id=(STATE_ID) role="status" { (labels::look(state).pill()) }
                }
                (labels::marks(shown.export.marks()))
            }
            div.actions { (actions(page, shown)) }
        }
    }
}

fn actions(page: &Page, shown: &Shown) -> Markup {
    let (job, progress) = (&shown.export.job, &shown.export.progress);
    let now = page.now_ms();
    let may_run = page.may(Right::ExportsRun);
    let is_download = progress.state == State::Done && status::has_url(job, progress, now);
    let can_cancel = matches!(progress.state, State::Queued | State::Planning | State::Running);
    html! {
        @if is_download && page.may(Right::ExportsDownload) {
            a.button.primary href=(shown.address(page, "/download")) {
                (icon("download")) "Download"
            }
        }
        @if may_run && progress.state.is_final() {
            form method="post" action=(shown.address(page, "/repeat")) {
                (parts::form_token(page))
                // The same form requests one export, however often it is sent.
                input type="hidden" name=(KEY_FIELD) value=(Uuid::new_v4());
                button.button type="submit" { (icon("rotate-ccw")) "Repeat" }
            }
        }
        @if may_run && can_cancel {
            (parts::confirm(
                page,
                &shown.address(page, "/cancel"),
                "Cancel the export",
                "Its files are removed, and no callback is sent. You can repeat the export later.",
            ))
        }
    }
}

/// What a person has to know first: the error, and why the export needs a look.
fn notices(page: &Page, shown: &Shown) -> Markup {
    let export = &shown.export;
    let state = export.progress.state;
    // The customer's text is for everyone who sees the export.
    let detail = export.error_detail.as_deref().filter(|_| page.may(Right::SystemView));
    let error = export.error().map(|error| {
        html! {
            p { bdi { (error) } }
            // Often, the customer's text has it already.
            @if let Some(detail) = detail.filter(|detail| !error.contains(*detail)) {
                p.small { span.muted { "For operators: " } bdi { (detail) } }
            }
            @let runbook = if state == State::Failed {
                "docs/runbooks/export-failed.md"
            } else {
                "docs/runbooks/object-storage-unavailable.md"
            };
            p { (parts::runbook(runbook)) }
        }
    });
    html! {
        @if let Some(error) = error {
            @if state == State::Failed {
                (parts::notice(Tone::Bad, "The export failed", error))
            } @else {
                (parts::notice(Tone::Warning, "The storage fails, and attempts continue", error))
            }
        }
        @for mark in export.marks() {
            @let title = format!("The export is {}", mark.name());
            (parts::notice(Tone::Warning, &title, html! {
                p { "Reason: " (labels::mark_reason(*mark)) "." }
                p { (parts::runbook("docs/runbooks/export-slow.md")) }
            }))
        }
    }
}

fn progress_section(page: &Page, shown: &Shown) -> Markup {
    let runs = !shown.export.progress.state.is_final();
    // One stream for each page, also if several show the same export.
    let stream = runs.then(|| shown.address(page, &format!("/live?view={}", Uuid::new_v4())));
    html! {
        section.panel id="progress" aria-label="Progress" {
            div.panel-body.hero hx-sse:connect=[stream] hx-sse:close=[runs.then_some(CLOSE)]
                hx-swap=[runs.then_some("innerMorph")]
            {
                (figures(page, &shown.moment()))
            }
        }
    }
}

/// The same from a terminal.
fn terminal(page: &Page, shown: &Shown) -> Markup {
    let command = |words| command(words, &[], &[&shown.export.job.object_prefix]);
    let state = shown.export.progress.state;
    let export = api(page, &format!("/users/export/{}", shown.export.job.object_prefix));
    let mut curl = format!("curl -sS {export} {KEY_HEADER}");
    let mut commands = command("export status");
    if state.is_final() {
        curl += &format!("\ncurl -sS -X POST {export}/repeat {KEY_HEADER}");
        commands += &format!("\n{}", command("export repeat"));
    } else {
        curl += &format!("\ncurl -sSN {export}/events {KEY_HEADER}");
        curl += &format!("\ncurl -sS -X DELETE {export} {KEY_HEADER}");
        commands += &format!("\n{}", command("export cancel"));
    }
    parts::terminal(&curl, &commands)
}
