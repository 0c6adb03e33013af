//! The exports of a workspace, newest first (docs/how-to/console.md).

pub(super) mod actions;
pub(crate) mod labels;

use std::borrow::Cow;
use std::sync::Arc;

use axum::extract::RawQuery;
use axum::http::HeaderMap;
use axum::response::Response;
use maud::{Markup, html};
use url::form_urlencoded;
use uuid::Uuid;

use self::labels::AudienceNames;
use crate::app::App;
use crate::page::Page;
use console_frame::error::PageError;
use console_frame::lists::first_rows;
use console_frame::page::update;
use console_frame::parts::{self, icon};
use console_frame::rights::Right;
use console_frame::shared::Shared;
use console_frame::shell::{KEY_HEADER, api, workspace_command};
use exports::State;
use exports::overview::{self, Filter, ListPosition, ListedExport, Mark};
use store::StoreError;

/// Exports on a page.
const PAGE: usize = 50;

/// Lists that are kept for updates.
const MAX_KEPT_LISTS: usize = 32;

/// The value of `state` for exports that have not ended.
const IN_PROGRESS: &str = "in-progress";

/// Which exports a page has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Selection {
    All,
    InProgress,
    State(State),
    Mark(Mark),
}

/// The selections that the page offers.
const OFFERED: [Selection; 8] = [
    Selection::All,
    Selection::InProgress,
    Selection::State(State::Done),
    Selection::State(State::Failed),
    Selection::State(State::Cancelled),
    Selection::Mark(Mark::Stalled),
    Selection::Mark(Mark::Slow),
    Selection::Mark(Mark::Late),
];

impl Selection {
    /// Its parameter in the query.
    fn query(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::All => None,
            Self::InProgress => Some(("state", IN_PROGRESS)),
            Self::State(state) => Some(("state", state.name())),
            Self::Mark(mark) => Some(("mark", mark.name())),
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::All => "All",
            Self::InProgress => "In progress",
            Self::State(state) => labels::look(state).word,
            Self::Mark(Mark::Stalled) => "Stalled",
            Self::Mark(Mark::Slow) => "Slow",
            Self::Mark(Mark::Late) => "Late",
        }
    }

    /// What would be in an empty list.
    fn about(self) -> Cow<'static, str> {
        let text = match self {
            Self::All => {
                "An export writes the users of a segment or of the control group to files. All \
                 exports appear here, also those that the API or the command line requested."
            }
            Self::InProgress => "Exports appear here from their request to their end.",
            Self::State(_) => "Exports appear here while they are in this state.",
            Self::Mark(mark) => {
                let reason = labels::mark_reason(mark);
                return format!("An export is {} if {reason}.", mark.name()).into();
            }
        };
        text.into()
    }

    fn filter(self) -> Filter {
        match self {
            Self::All => Filter::default(),
            Self::InProgress => {
                Filter { states: State::unfinished().collect(), ..Filter::default() }
            }
            Self::State(state) => Filter { states: vec![state], ..Filter::default() },
            Self::Mark(mark) => Filter { marks: vec![mark], ..Filter::default() },
        }
    }
}

/// The view that an address selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct View {
    selection: Selection,
    /// Only exports that are older than the one at this position.
    before: Option<ListPosition>,
}

impl View {
    /// Unknown parameters are ignored; the error names the parameter and the value.
    fn read(query: &str) -> Result<Self, String> {
        let mut view = Self { selection: Selection::All, before: None };
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match name.as_ref() {
                "state" if value == IN_PROGRESS => view.selection = Selection::InProgress,
                "state" => {
                    let state = State::from_name(&value).ok_or_else(|| {
                        let names = State::ALL.map(State::name).join(", ");
                        format!("state must be {IN_PROGRESS} or one of {names}, not {value:?}")
                    })?;
                    view.selection = Selection::State(state);
                }
                "mark" => {
                    let mark = Mark::from_name(&value).ok_or_else(|| {
                        let names = Mark::ALL.map(Mark::name).join(", ");
                        format!("mark must be one of {names}, not {value:?}")
                    })?;
                    view.selection = Selection::Mark(mark);
                }
                "before" => {
                    view.before = Some(ListPosition::from_cursor(&value).ok_or_else(|| {
                        format!("before must be the end of a page of this list, not {value:?}")
                    })?);
                }
                _ => {}
            }
        }
        Ok(view)
    }

    /// The address of the view.
    fn address(self, page: &Page) -> String {
        let before = self.before.map(ListPosition::cursor);
        let parameters = self.selection.query().into_iter();
        let parameters = parameters.chain(before.as_deref().map(|before| ("before", before)));
        let query =
            form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
        let question = if query.is_empty() { "" } else { "?" };
        page.workspace_link(&format!("/exports{question}{query}"))
    }
}

/// The exports of a page.
pub struct ExportList {
    exports: Vec<ListedExport>,
    has_more: bool,
    names: AudienceNames,
}

/// The workspace, the selection as it is in the query, and the position before the first export.
type ListKey = (i32, Option<(&'static str, &'static str)>, Option<ListPosition>);

/// The lists that open pages read together.
pub struct ExportLists(Shared<ListKey, ExportList>);

impl Default for ExportLists {
    fn default() -> Self {
        Self(Shared::new("list of exports", MAX_KEPT_LISTS))
    }
}

/// A page of the list.
struct Listed {
    view: View,
    list: Arc<ExportList>,
}

/// `GET /w/{workspace}/exports`.
pub async fn list(
    page: Page,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, PageError> {
    let view = View::read(query.as_deref().unwrap_or_default()).map_err(PageError::Invalid)?;
    let workspace = page.workspace()?.id;
    let key = (workspace, view.selection.query(), view.before);
    let read = read_list(page.app.clone(), workspace, view);
    let list = page.app.export_lists.0.get_for(&page, key, read).await?;
    let listed = Listed { view, list };
    let table = table(&page, &listed);
    if page.is_update {
        return Ok(update(&headers, table));
    }
    Ok(page.html("Exports", content(&page, &listed, &table)))
}

async fn read_list(app: App, workspace: i32, view: View) -> Result<ExportList, StoreError> {
    let filter = Filter {
        workspace: Some(workspace),
        before: view.before,
        limit: PAGE as i64 + 1,
        ..view.selection.filter()
    };
    let mut tx = app.request_queue.snapshot().await?;
    let exports = overview::list(&app, &mut tx, &filter).await?;
    let (exports, has_more) = first_rows(exports, PAGE);
    let segments: Vec<Uuid> = exports.iter().map(|export| export.job.segment_id).collect();
    let names = AudienceNames::read(&mut tx, workspace, &segments).await?;
    tx.commit().await?;
    Ok(ExportList { exports, has_more, names })
}

fn content(page: &Page, listed: &Listed, table: &Markup) -> Markup {
    let selection = listed.view.selection;
    html! {
        div.head {
            div.head-title { h1 { "Exports" } }
            div.actions { (request_link(page)) }
        }
        nav.chips aria-label="Filter" {
            @for offered in OFFERED {
                @let view = View { selection: offered, before: None };
                @let current = (offered == selection).then_some("true");
                a.chip href=(view.address(page)) aria-current=[current] { (offered.title()) }
            }
        }
        (table)
        (terminal(page, selection))
    }
}

fn request_link(page: &Page) -> Markup {
    html! {
        @if page.may(Right::ExportsRun) {
            a.button.primary href=(page.workspace_link("/exports/new")) {
                (icon("plus")) "Request an export"
            }
        }
    }
}

/// The part of the page that is updated while an export is in progress.
fn table(page: &Page, listed: &Listed) -> Markup {
    let Listed { view, list, .. } = listed;
    let exports = &list.exports;
    let last =
        exports.last().filter(|_| list.has_more).map(|export| ListPosition::from(&export.job));
    let runs = exports.iter().any(|export| !export.progress.state.is_final());
    let newest = View { before: None, ..*view };
    let newer = view.before.map(|_| newest.address(page));
    let older = last.map(|last| View { before: Some(last), ..*view }.address(page));
    html! {
        section.panel id="exports" aria-label="Exports" {
            @if runs {
                // Without JavaScript, nothing updates the list.
                span.live id="exports-live" hidden[!page.is_update]
                    hx-get=(view.address(page)) hx-trigger="every 3s"
                    hx-target="#exports" hx-swap="outerMorph" { "Live" }
            }
            @if exports.is_empty() {
                @if view.selection == Selection::All && view.before.is_none() {
                    (parts::empty("No exports yet", &view.selection.about()))
                } @else {
                    (parts::empty("No exports here", &view.selection.about()))
                }
            } @else {
                table.list {
                    thead {
                        tr {
                            th scope="col" { "State" }
                            th scope="col" { "Export" }
                            th scope="col" { "Users" }
                            th.num.c-wide scope="col" { "Files" }
                            th.num.c-wide scope="col" { "Size" }
                            th.num scope="col" { "Speed or time" }
                            th.num scope="col" { "Requested" }
                        }
                    }
                    tbody {
                        @for export in exports { (row(page, listed, export)) }
                    }
                }
            }
            (parts::pager(newer.as_deref(), older.as_deref()))
        }
    }
}

fn row(page: &Page, listed: &Listed, export: &ListedExport) -> Markup {
    let ListedExport { job, progress, .. } = export;
    let now = page.now_ms();
    let address = page.workspace_link(&format!("/exports/{}", job.object_prefix));
    let has_files = progress.files_done > 0;
    let speed = match export.rate(now) {
        Some(rate) => {
            format!("{} users/s", parts::number(rate.users_per_second.round() as i64))
        }
        None => labels::duration(progress.started_at, progress.finished_at, now)
            .map_or_else(String::new, parts::duration),
    };
    html! {
        tr {
            td.c-state { (labels::look(progress.state).badge()) (labels::marks(export.marks())) }
            td.c-main {
                a.title id=(format!("x-{}", job.object_prefix)) href=(address) {
                    (parts::name(&listed.list.names.title(job, None)))
                }
                span.mono.sub { (job.object_prefix) }
            }
            td.c-bar { (users(export)) }
            td.num.c-wide data-label="Files" {
                (parts::number(progress.files_done))
                @if let Some(parts) = progress.parts.filter(|_| !progress.state.is_final()) {
                    span.muted { " of " (parts::number(parts)) }
                }
            }
            td.num.c-wide data-label="Size" {
                @if has_files { (parts::bytes(progress.bytes_done)) }
            }
            td.num data-label="Speed or time" { (speed) }
            td.num.c-time { (page.time(job.requested_at)) }
        }
    }
}

/// The users who are done, with a bar from the plan on.
fn users(export: &ListedExport) -> Markup {
    let progress = &export.progress;
    let done = progress.users_done.max(0);
    match progress.users {
        None if progress.state.is_final() => html! { span.muted { "Not planned" } },
        None => html! { span.muted { "Not planned yet" } },
        // Its bar would always be full.
        Some(_) if progress.state == State::Done => html! {
            (parts::number(done)) span.phone.muted { " users" }
        },
        Some(users) => {
            let tone = labels::tone(progress.state, export.marks());
            parts::progress_in(tone, done, Some(users), "users")
        }
    }
}

/// The same list from a terminal. The API has no filter for marks.
fn terminal(page: &Page, selection: Selection) -> Markup {
    let (state, option) = match selection {
        Selection::All => (String::new(), String::new()),
        Selection::InProgress => (String::new(), " --active".to_owned()),
        Selection::State(state) => {
            (format!("&state={}", state.name()), format!(" --state={}", state.name()))
        }
        Selection::Mark(mark) => (String::new(), format!(" --mark={}", mark.name())),
    };
    let address = api(page, &format!("/users/export?limit={PAGE}{state}"));
    parts::terminal(
        &format!("curl -sS {address} {KEY_HEADER}"),
        &workspace_command(page, &format!("export list{option} --key \"\""), &[], &[]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_offered_view_is_read_from_its_query() {
        for selection in OFFERED {
            let query = selection.query().map(|(name, value)| format!("{name}={value}"));
            let read = View::read(&query.unwrap_or_default()).unwrap();
            assert_eq!(read, View { selection, before: None });
        }
        let before = ListPosition { requested_at: 7, id: Uuid::from_u128(7) };
        let query = format!("before={}&other=1&state=failed", before.cursor());
        let selection = Selection::State(State::Failed);
        assert_eq!(View::read(&query), Ok(View { selection, before: Some(before) }));
    }

    #[test]
    fn errors_name_the_parameter_and_the_value() {
        for (query, name) in [
            ("state=lost", "state "),
            ("state=", "state "),
            ("mark=<script>", "mark "),
            ("before=1", "before "),
        ] {
            let error = View::read(query).unwrap_err();
            assert!(error.starts_with(name), "{query}: {error}");
            assert!(error.contains(query.split_once('=').unwrap().1), "{error}");
        }
    }
}
