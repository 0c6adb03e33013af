//! The sends of a workspace, newest first (docs/how-to/console-pages.md).

pub mod new;
pub mod preview;
mod query;
pub mod recipients;
pub mod send;

use std::sync::Arc;

use axum::extract::RawQuery;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use maud::{Markup, html};
use url::form_urlencoded;
use uuid::Uuid;

use self::query::{Errors, ListKey, View};
use self::send::{SendKey, Shown};
use crate::app::App;
use crate::page::Page;
use crate::pages::labels;
use console_frame::error::PageError;
use console_frame::page::update;
use console_frame::parts::{self, icon};
use console_frame::rights::Right;
use console_frame::shared::Shared;
use console_frame::shell::{KEY_HEADER, api, workspace_command};
use content::campaigns;
use dispatches::{DispatchPage, DispatchSummary, Filter, ListedKind};
use messages::dispatch::State;
use store::StoreError;

/// Sends on a page.
const PAGE: i64 = 50;

/// Lists, and sends, that are kept for updates.
const MAX_KEPT: usize = 32;

/// What the pages about sends read together.
pub struct SendReads {
    lists: Shared<ListKey, DispatchPage>,
    pages: Shared<SendKey, Option<Shown>>,
}

impl Default for SendReads {
    fn default() -> Self {
        Self { lists: Shared::new("list of sends", MAX_KEPT), pages: Shared::new("send", MAX_KEPT) }
    }
}

/// A page of the list.
struct Listed {
    view: View,
    errors: Errors,
    page: Arc<DispatchPage>,
    /// The ids and names of the workspace's campaigns, by name. An update needs none.
    campaigns: Vec<(Uuid, String)>,
}

/// `GET /w/{workspace}/sends`. With an invalid filter, the form is shown again (422).
pub async fn list(
    page: Page,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, PageError> {
    let zone = &page.viewer.preferences.zone;
    let read = View::read(query.as_deref().unwrap_or_default(), zone);
    let (view, errors) = read.map_err(PageError::Invalid)?;
    let workspace = page.workspace()?.id;
    let found = if errors.is_empty() {
        let read = read_list(page.app.clone(), view.filter(workspace, PAGE));
        page.app.sends.lists.get_for(&page, view.key(workspace), read).await?
    } else {
        Arc::new(DispatchPage { dispatches: Vec::new(), next: None })
    };
    let mut listed = Listed { view, errors, page: found, campaigns: Vec::new() };
    let table = table(&page, &listed);
    if page.is_update {
        return Ok(update(&headers, table));
    }
    let mut tx = page.app.request_queue.snapshot().await?;
    listed.campaigns = campaigns::names(&mut tx, workspace).await?;
    tx.commit().await?;
    let response = page.html("Sends", content(&page, &listed, &table));
    if listed.errors.is_empty() {
        Ok(response)
    } else {
        Ok((StatusCode::UNPROCESSABLE_ENTITY, response).into_response())
    }
}

async fn read_list(app: App, filter: Filter) -> Result<DispatchPage, StoreError> {
    let mut tx = app.request_queue.snapshot().await?;
    let found = dispatches::list(&mut tx, &filter).await?;
    tx.commit().await?;
    Ok(found)
}

fn content(page: &Page, listed: &Listed, table: &Markup) -> Markup {
    html! {
        div.head {
            div.head-title { h1 { "Sends" } }
            div.actions {
                @if page.may(Right::UsersView) {
                    a.button href=(page.workspace_link("/preview")) {
                        (icon("search")) "Preview messages"
                    }
                }
                @if new::is_offered(page) {
                    a.button.primary href=(page.workspace_link("/sends/new")) {
                        (icon("send")) "Send a campaign"
                    }
                }
            }
        }
        (states(page, &listed.view))
        (filters(page, listed))
        (table)
        (terminal(page, &listed.view))
    }
}

/// The states as links, which keep the rest of the filter.
fn states(page: &Page, view: &View) -> Markup {
    let offered = [
        None,
        Some(State::Planning),
        Some(State::Running),
        Some(State::Done),
        Some(State::Failed),
        Some(State::Cancelling),
        Some(State::Cancelled),
    ];
    html! {
        nav.chips aria-label="Filter by state" {
            @for state in offered {
                @let other = View { state, after: None, ..view.clone() };
                @let current = (state == view.state).then_some("true");
                a.chip href=(other.address(page)) aria-current=[current] {
                    (state.map_or("All", |state| labels::look(state).word))
                }
            }
        }
    }
}

fn filters(page: &Page, listed: &Listed) -> Markup {
    let Listed { view, errors, campaigns, .. } = listed;
    let zone = &page.viewer.preferences.zone;
    let error_id = |field: &str| errors.contains_key(field).then(|| parts::error_id(field));
    let is_invalid = |field: &str| errors.contains_key(field).then_some("true");
    let time = |at: Option<i64>| at.map_or_else(String::new, |at| query::local(at, zone));
    let is_known = |id: Uuid| campaigns.iter().any(|(known, _)| *known == id);
    html! {
        form.filters method="get" action=(page.workspace_link("/sends")) {
            @if let Some(state) = view.state {
                input type="hidden" name="state" value=(state.name());
            }
            div.field {
                label.hint for="campaign" { "Campaign" }
                select.input id="campaign" name="campaign"
                    aria-describedby=[error_id("campaign")]
                    aria-invalid=[is_invalid("campaign")]
                {
                    option value="" { "All campaigns" }
                    @if let Some(id) = view.campaign.filter(|id| !is_known(*id)) {
                        option value=(id) selected { "Removed campaign or Canvas " (id) }
                    }
                    @for (id, name) in campaigns {
                        option value=(id) selected[view.campaign == Some(*id)] { (parts::cut(name)) }
                    }
                }
                (parts::field_error(errors, "campaign"))
            }
            div.field {
                label.hint for="kind" { "Started by" }
                select.input id="kind" name="kind" {
                    option value="" { "All but transactional emails" }
                    @for kind in ListedKind::ALL {
                        option value=(kind.name()) selected[view.kind == Some(kind)] {
                            (labels::cause(kind))
                        }
                    }
                }
            }
            @for (field, label, at) in [("since", "From", view.since), ("until", "Before", view.until)] {
                div.field {
                    label.hint for=(field) { (label) }
                    input.input id=(field) name=(field) type="datetime-local" value=(time(at))
                        aria-describedby=[error_id(field)] aria-invalid=[is_invalid(field)];
                    (parts::field_error(errors, field))
                }
            }
            button.button type="submit" { (icon("search")) "Filter" }
        }
    }
}

/// The part of the page that is updated while a send is in progress.
fn table(page: &Page, listed: &Listed) -> Markup {
    let Listed { view, page: found, .. } = listed;
    let DispatchPage { dispatches, next } = &**found;
    let runs = dispatches.iter().any(|send| !send.state.is_final());
    let newest = View { after: None, ..view.clone() };
    let newer = view.after.map(|_| newest.address(page));
    let older = next.map(|after| View { after: Some(after), ..view.clone() }.address(page));
    html! {
        section.panel id="sends" aria-label="Sends" {
            @if runs {
                // Without JavaScript, nothing updates the list.
                span.live id="sends-live" hidden[!page.is_update]
                    hx-get=(view.address(page)) hx-trigger="every 3s"
                    hx-target="#sends" hx-swap="outerMorph" { "Live" }
            }
            @if dispatches.is_empty() {
                (empty(listed))
            } @else {
                table.list {
                    thead {
                        tr {
                            th scope="col" { "State" }
                            th scope="col" { "Send" }
                            th scope="col" { "To" }
                            th scope="col" { "Users" }
                            th.num scope="col" { "Sent" }
                            th.num scope="col" { "Failed" }
                            th.num scope="col" { "Accepted" }
                        }
                    }
                    tbody { @for send in dispatches { (row(page, send)) } }
                }
            }
            (parts::pager(newer.as_deref(), older.as_deref()))
        }
    }
}

fn empty(listed: &Listed) -> Markup {
    if !listed.errors.is_empty() {
        return parts::empty("No sends", "Correct the filter above.");
    }
    if listed.page.next.is_some() {
        let text = "None of the sends that were read match the filter. Continue with older ones.";
        return parts::empty("No sends here", text);
    }
    if listed.view.is_filtered() || listed.view.after.is_some() {
        return parts::empty("No sends here", "No send matches the filter.");
    }
    parts::empty(
        "No sends yet",
        "A send appears here once a worker has read its request, its schedule is due, or a purchase \
         starts a campaign. To see transactional emails, choose them or their campaign above.",
    )
}

fn row(page: &Page, send: &DispatchSummary) -> Markup {
    let id = send.id.simple();
    let messages = &send.messages;
    html! {
        tr id=(format!("row-{id}")) {
            td.c-state { (labels::look(send.state).badge()) }
            td.c-main {
                @if send.kind == ListedKind::Transactional {
                    // It has no page: that of its user has it.
                    (parts::name(labels::title(send)))
                    span.mono.sub { (id) }
                } @else {
                    a.title id=(format!("s-{id}")) href=(labels::address(page, send.id, "")) {
                        (parts::name(labels::title(send)))
                    }
                }
                span.sub {
                    (labels::cause(send.kind))
                    @if let Some(send_id) = &send.send_id { " · " (parts::name(send_id)) }
                }
            }
            td.c-to data-label="To" {
                (parts::name(&labels::audience(&send.audience, send.users)))
                span.sub { (labels::channels(&send.channels.0)) }
            }
            td.c-users data-label="Users" { (users(send)) }
            td.num data-label="Sent" { (parts::number(messages.sent)) }
            td.num data-label="Failed" { (parts::number(messages.failed + messages.bounced)) }
            td.num.c-time { (page.time(send.accepted_at)) }
        }
    }
}

/// The size of a send; until its end, with a bar.
fn users(send: &DispatchSummary) -> Markup {
    if send.state == State::Planning && send.users == 0 {
        return html! { span.muted { "Not counted yet" } };
    }
    if send.state != State::Done {
        return parts::progress_in(
            labels::look(send.state).tone,
            send.walked,
            Some(send.users),
            "checked",
        );
    }
    html! {
        (parts::count_of(send.matched, "user", "users"))
        @if send.matched != send.walked {
            span.sub { "of " (parts::number(send.walked)) " checked" }
        }
    }
}

/// The same list from a terminal.
fn terminal(page: &Page, view: &View) -> Markup {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("limit", &PAGE.to_string()).extend_pairs(view.parameters("campaign_id"));
    let address = api(page, &format!("/messages/dispatches?{}", query.finish()));
    let parameters = view.parameters("campaign");
    let options: Vec<_> = parameters.iter().map(|(name, value)| (*name, &**value)).collect();
    let command = workspace_command(page, "dispatches list", &options, &[]);
    parts::terminal(&format!("curl -sS {address} {KEY_HEADER}"), &command)
}
