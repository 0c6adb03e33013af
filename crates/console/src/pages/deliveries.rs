//! The callbacks, postbacks and notifications of a workspace, newest first
//! (docs/how-to/console-pages.md).

mod details;
pub(super) mod labels;

use axum::extract::{Path, RawQuery};
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;
use url::form_urlencoded;
use uuid::Uuid;

use super::exports::actions::count_request;
use crate::page::Page;
use console_frame::error::PageError;
use console_frame::parts::{self, icon};
use console_frame::shell::{KEY_HEADER, api, workspace_command};
use deliveries::{Delivery, DeliveryPage, KINDS, Key, ListedDelivery, Selection, State};
use gateway::workspaces::Budget;
use gateway::{ApiError, paging};
use runtime::audit::Change;
use store::Tx;

/// Deliveries on a page.
const PAGE: i64 = 50;

/// The longest id of a subject.
const MAX_SUBJECT: usize = 255;

/// The view that an address selects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct View {
    state: Option<State>,
    kind: Option<&'static str>,
    /// The id of an export or of an email; empty for all.
    subject: String,
    /// Only deliveries that are older than this one.
    before: Option<Key>,
}

impl View {
    /// Unknown parameters are ignored; the error names the parameter and the value.
    fn read(query: &str) -> Result<Self, String> {
        let mut view = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let value = value.trim();
            match name.as_ref() {
                // The form sends empty fields.
                _ if value.is_empty() => {}
                "state" => {
                    let state = State::from_name(value).ok_or_else(|| {
                        let names = State::ALL.map(State::name).join(", ");
                        format!("state must be one of {names}, not {value:?}")
                    })?;
                    view.state = Some(state);
                }
                "kind" => {
                    let kind = KINDS.into_iter().find(|kind| *kind == value);
                    view.kind = Some(kind.ok_or_else(|| {
                        format!("kind must be one of {}, not {value:?}", KINDS.join(", "))
                    })?);
                }
                "subject" if value.len() <= MAX_SUBJECT => view.subject = value.to_owned(),
                "subject" => {
                    return Err(format!("subject must have at most {MAX_SUBJECT} bytes"));
                }
                "before" => {
                    view.before = Some(paging::read_cursor(value).ok_or_else(|| {
                        format!("before must be the end of a page of this list, not {value:?}")
                    })?);
                }
                _ => {}
            }
        }
        Ok(view)
    }

    fn is_filtered(&self) -> bool {
        self.state.is_some() || self.kind.is_some() || !self.subject.is_empty()
    }

    fn selection(&self) -> Selection {
        Selection {
            state: self.state,
            kind: self.kind,
            subject: Some(self.subject.clone()).filter(|subject| !subject.is_empty()),
            ..Selection::default()
        }
    }

    /// The filters as parameters of a query, which the API has too.
    fn filters(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let state = self.state.map(|state| ("state", state.name()));
        let kind = self.kind.map(|kind| ("kind", kind));
        let subject = (!self.subject.is_empty()).then_some(("subject", &*self.subject));
        state.into_iter().chain(kind).chain(subject)
    }

    /// The address of the view.
    fn address(&self, page: &Page) -> String {
        let before = self.before.as_ref().map(paging::cursor);
        let parameters = self.filters().chain(before.as_deref().map(|before| ("before", before)));
        let query =
            form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
        let question = if query.is_empty() { "" } else { "?" };
        page.workspace_link(&format!("/deliveries{question}{query}"))
    }
}

/// `GET /w/{workspace}/deliveries`.
pub async fn list(page: Page, RawQuery(query): RawQuery) -> Result<Response, PageError> {
    let view = View::read(query.as_deref().unwrap_or_default()).map_err(PageError::Invalid)?;
    let workspace = page.workspace()?.id;
    let mut tx = page.app.request_queue.snapshot().await?;
    let selection = view.selection();
    let found =
        deliveries::list_for_workspace(&mut tx, workspace, &selection, view.before, PAGE).await?;
    tx.commit().await?;
    Ok(page.html("Deliveries", content(&page, &view, &found)))
}

fn content(page: &Page, view: &View, found: &DeliveryPage) -> Markup {
    html! {
        div.head {
            div.head-title {
                h1 { "Deliveries" }
                p.muted { "Callbacks, status postbacks and notifications, with their attempts." }
            }
        }
        nav.chips aria-label="State" {
            @for state in [None].into_iter().chain(State::ALL.map(Some)) {
                @let offered = View { state, before: None, ..view.clone() };
                @let current = (state == view.state).then_some("true");
                a.chip href=(offered.address(page)) aria-current=[current] {
                    (state.map_or("All", |state| labels::look(state).word))
                }
            }
        }
        (filters(page, view))
        (table(page, view, found))
        (terminal(page, view))
    }
}

fn filters(page: &Page, view: &View) -> Markup {
    html! {
        form.filters method="get" action=(page.workspace_link("/deliveries")) {
            @if let Some(state) = view.state {
                input type="hidden" name="state" value=(state.name());
            }
            label.field {
                span.hint { "Kind" }
                select.input name="kind" {
                    option value="" { "All" }
                    @for kind in KINDS {
                        option value=(kind) selected[view.kind == Some(kind)] {
                            (labels::kind(kind))
                        }
                    }
                }
            }
            label.field {
                span.hint { "Export or email" }
                input.input name="subject" value=(view.subject) autocomplete="off"
                    spellcheck="false" maxlength=(MAX_SUBJECT);
            }
            button.button type="submit" { (icon("search")) "Filter" }
        }
    }
}

fn table(page: &Page, view: &View, found: &DeliveryPage) -> Markup {
    let newest = View { before: None, ..view.clone() };
    let newer = view.before.map(|_| newest.address(page));
    let older = found.next.map(|key| View { before: Some(key), ..view.clone() }.address(page));
    html! {
        section.panel id="deliveries" aria-label="Deliveries" {
            @if found.deliveries.is_empty() {
                (empty(view, found.next.is_some()))
            } @else {
                table.list {
                    thead {
                        tr {
                            th scope="col" { "State" }
                            th scope="col" { "To" }
                            th.c-wide scope="col" { "About" }
                            th.num scope="col" { "Attempts" }
                            th.num scope="col" { "Status" }
                            th.num.c-wide scope="col" { "Next or ended" }
                            th.num scope="col" { "Created" }
                        }
                    }
                    tbody {
                        @for delivery in &found.deliveries { (row(page, delivery)) }
                    }
                }
            }
            (parts::pager(newer.as_deref(), older.as_deref()))
        }
    }
}

/// A page without deliveries: with a filter, others may follow.
fn empty(view: &View, has_more: bool) -> Markup {
    let (title, text) = if has_more {
        ("No deliveries here", "None of the latest ones match. Continue with older ones.")
    } else if view.is_filtered() {
        ("No deliveries here", "None match the filter.")
    } else {
        (
            "No deliveries yet",
            "The callbacks of exports, the postbacks of transactional emails and the notifications \
             that the workspace file declares appear here.",
        )
    };
    parts::empty(title, text)
}

fn row(page: &Page, delivery: &ListedDelivery) -> Markup {
    html! {
        tr {
            td.c-state { (labels::look(delivery.state).badge()) }
            td.c-main {
                a.title id=(format!("x-{}", delivery.id)) href=(address(page, delivery.id, "")) {
                    (labels::kind(&delivery.kind))
                }
                span.mono.sub { (parts::name(&delivery.receiver())) }
            }
            td.c-main.c-wide data-label="About" {
                span.mono.sub { (parts::name(&delivery.subject)) }
            }
            td.num data-label="Attempts" { (parts::number(delivery.attempts.into())) }
            td.num data-label="Status" {
                @if let Some(status) = delivery.last_status { (status) }
            }
            td.num.c-wide data-label="Next or ended" {
                @if let Some(at) = delivery.finished_at.or(delivery.next_at) { (page.time(at)) }
            }
            td.num.c-time { (page.time(delivery.created_at)) }
        }
    }
}

/// The same list from a terminal. The command has no filter for kinds.
fn terminal(page: &Page, view: &View) -> Markup {
    let query = form_urlencoded::Serializer::new(format!("/deliveries?limit={PAGE}&"))
        .extend_pairs(view.filters())
        .finish();
    let query = query.trim_end_matches('&');
    let options: Vec<_> = view.filters().filter(|(name, _)| *name != "kind").collect();
    let command = workspace_command(page, "deliveries list", &options, &[]);
    parts::terminal(&format!("curl -sS {} {KEY_HEADER}", api(page, query)), &command)
}

// One delivery -------------------------------------------------------------------------------

/// The delivery in the path of an address.
#[derive(Deserialize)]
pub struct DeliveryPath {
    id: String,
}

/// The address of a delivery, or of an action on it.
fn address(page: &Page, id: Uuid, action: &str) -> String {
    page.workspace_link(&format!("/deliveries/{id}{action}"))
}

/// `GET /w/{workspace}/deliveries/{id}`.
pub async fn show(
    page: Page,
    Path(path): Path<DeliveryPath>,
    RawQuery(query): RawQuery,
) -> Result<Response, PageError> {
    let mut tx = page.app.request_queue.snapshot().await?;
    let delivery = own_delivery(&page, &mut tx, &path).await?;
    tx.commit().await?;
    let was_resent = query.as_deref() == Some(details::RESENT);
    let title = format!("{} to {}", labels::kind(&delivery.kind), delivery.shown_url());
    Ok(page.html(&parts::cut(&title), details::content(&page, &delivery, was_resent)))
}

/// `GET /w/{workspace}/deliveries/{id}/body`: after an entry in the audit log, because it may have
/// personal data.
pub async fn body(page: Page, Path(path): Path<DeliveryPath>) -> Result<Response, PageError> {
    let mut tx = page.app.request_queue.write().await?;
    let delivery = own_delivery(&page, &mut tx, &path).await?;
    let change = Change::new("delivery.body", delivery.id.to_string(), json!({}));
    page.record(&mut tx, change).await?;
    tx.commit().await?;
    Ok(page.html("Body of a delivery", details::body(&page, &delivery)))
}

/// `POST /w/{workspace}/deliveries/{id}/resend`.
pub async fn resend(page: Page, Path(path): Path<DeliveryPath>) -> Result<Response, PageError> {
    let id = checked_id(&path)?;
    count_request(&page, Budget::Others).await?;
    let workspace = page.workspace()?;
    let mut tx = page.app.request_queue.write().await?;
    let resent = deliveries::resend_for_workspace(&page.app, &mut tx, workspace.id, id).await;
    page.record(&mut tx, resent.map_err(ApiError::from)?).await?;
    tx.commit().await?;
    let workspace = parts::encoded(&workspace.name);
    Ok(page.redirect(&format!("/w/{workspace}/deliveries/{id}?{}", details::RESENT)))
}

/// The id of a path. An invalid one is unknown, without a query.
fn checked_id(path: &DeliveryPath) -> Result<Uuid, PageError> {
    Uuid::try_parse(&path.id).map_err(|_| PageError::NotFound)
}

/// The workspace's delivery of a path.
async fn own_delivery(
    page: &Page,
    tx: &mut Tx,
    path: &DeliveryPath,
) -> Result<Delivery, PageError> {
    let id = checked_id(path)?;
    let found = deliveries::find_for_workspace(tx, page.workspace()?.id, id).await?;
    found.ok_or(PageError::NotFound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_offered_view_is_read_from_its_query() {
        for state in State::ALL {
            let read = View::read(&format!("state={}&kind=&subject=", state.name())).unwrap();
            assert_eq!(read, View { state: Some(state), ..View::default() });
        }
        for kind in KINDS {
            let read = View::read(&format!("kind={kind}")).unwrap();
            assert_eq!(read, View { kind: Some(kind), ..View::default() });
        }
        let before: Key = (7, Uuid::from_u128(7));
        let query = format!("subject=+x%26y+&before={}&other=1", paging::cursor(&before));
        let expected = View { subject: "x&y".into(), before: Some(before), ..View::default() };
        assert_eq!(View::read(&query), Ok(expected));
    }

    #[test]
    fn errors_name_the_parameter() {
        let long = format!("subject={}", "x".repeat(256));
        for (query, name) in [
            ("state=lost", "state "),
            ("kind=<script>", "kind "),
            ("before=1", "before "),
            (&long, "subject "),
        ] {
            let error = View::read(query).unwrap_err();
            assert!(error.starts_with(name), "{query}: {error}");
        }
    }
}
