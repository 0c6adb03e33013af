//! The API keys of a workspace: listed, created, revoked (docs/how-to/api-keys.md).

pub mod create;
mod form;
pub mod key;
mod permissions;

use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;
use uuid::Uuid;

use crate::page::Page;
use console_frame::error::PageError;
use console_frame::lists::first_rows;
use console_frame::parts::{self, Tone, icon};
use console_frame::shell::workspace_command;
use gateway::workspaces::keys::{self, KeyInfo};
use runtime::config::network::networks;

pub use self::create::NewSecrets;

/// Keys on a page.
const PAGE: usize = 50;

/// The value of `state` for revoked keys.
const REVOKED: &str = "revoked";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct KeysQuery {
    /// Empty for active keys.
    state: String,
    /// The last key of the page before.
    after: Option<Uuid>,
}

impl KeysQuery {
    fn is_revoked(&self) -> bool {
        self.state == REVOKED
    }
}

/// `GET /w/{workspace}/keys`: active keys by name, or revoked ones, the latest first.
pub async fn list(
    page: Page,
    query: Result<Query<KeysQuery>, QueryRejection>,
) -> Result<Response, PageError> {
    let Query(query) = query.map_err(|error| PageError::Invalid(error.body_text()))?;
    if !query.state.is_empty() && !query.is_revoked() {
        let text = format!("state must be {REVOKED} or absent, not {:?}", query.state);
        return Err(PageError::Invalid(text));
    }
    let workspace = page.workspace()?.id;
    let limit = PAGE as i64 + 1;
    let mut tx = page.app.request_queue.snapshot().await?;
    let found = if query.is_revoked() {
        keys::revoked(&mut tx, workspace, query.after, limit).await?
    } else {
        keys::active(&mut tx, workspace, query.after, limit).await?
    };
    tx.commit().await?;
    let (found, has_more) = first_rows(found, PAGE);
    Ok(page.html("API keys", content(&page, &query, &found, has_more)))
}

fn content(page: &Page, query: &KeysQuery, found: &[KeyInfo], has_more: bool) -> Markup {
    let is_revoked = query.is_revoked();
    let address = page.workspace_link("/keys");
    let revoked_address = format!("{address}?state={REVOKED}");
    let current = |is_current: bool| is_current.then_some("true");
    html! {
        div.head {
            div.head-title {
                h1 { "API keys" }
                p.muted {
                    "Programs use the API of this workspace with them. Give each program its own key."
                }
            }
            div.actions {
                a.button.primary href=(page.workspace_link("/keys/new")) {
                    (icon("plus")) "Create a key"
                }
            }
        }
        nav.chips aria-label="Filter" {
            a.chip href=(address) aria-current=[current(!is_revoked)] { "Active" }
            a.chip href=(revoked_address) aria-current=[current(is_revoked)] { "Revoked" }
        }
        section.panel aria-label="API keys" {
            @if found.is_empty() {
                (empty(is_revoked))
            } @else {
                (table(page, is_revoked, found))
            }
            (pager(page, query, found, has_more))
        }
        (terminal(page, is_revoked))
    }
}

fn empty(is_revoked: bool) -> Markup {
    if is_revoked {
        parts::empty(
            "No revoked keys",
            "A key appears here when it is revoked, with who did it. Its secret is refused for ever.",
        )
    } else {
        parts::empty(
            "No keys",
            "Keys appear here when somebody creates them on this page or with longshore key create, \
             and when the workspace file declares them.",
        )
    }
}

fn table(page: &Page, is_revoked: bool, found: &[KeyInfo]) -> Markup {
    html! {
        table.list {
            thead {
                tr {
                    th scope="col" { "Key" }
                    th scope="col" { "Permissions" }
                    th.c-wide scope="col" { "From" }
                    th.num scope="col" { "Created" }
                    th.num scope="col" { "Last used" }
                    @if is_revoked { th scope="col" { "Revoked" } }
                }
            }
            tbody { @for key in found { (row(page, is_revoked, key)) } }
        }
    }
}

fn row(page: &Page, is_revoked: bool, key: &KeyInfo) -> Markup {
    html! {
        tr {
            td.c-main {
                a.title href=(page.workspace_link(&format!("/keys/{}", key.id))) {
                    (parts::name(&key.name))
                }
                @if key.declared {
                    div.marks { (parts::mark(Tone::Neutral, "scroll-text", DECLARED)) }
                }
            }
            td.c-text data-label="Permissions" {
                (parts::cut(&permissions::summary(&key.permissions)))
            }
            td.c-wide data-label="From" { (parts::cut(&networks(&key.allow))) }
            td.num data-label="Created" { (page.time(key.created_at)) }
            td.num data-label="Last used" {
                (last_use(page, key))
            }
            @if is_revoked {
                td.c-to data-label="Revoked" {
                    @if let Some(at) = key.revoked_at { (page.time(at)) }
                    span.sub { (revoker(key)) }
                }
            }
        }
    }
}

/// The mark of a key that the workspace file declares.
const DECLARED: &str = "Declared in the workspace file";

fn last_use(page: &Page, key: &KeyInfo) -> Markup {
    match key.last_used_at {
        Some(at) => page.time(at),
        None => html! { span.muted { "Never" } },
    }
}

/// Who revoked a key, as the audit log has it.
fn revoker(key: &KeyInfo) -> Markup {
    match &key.revoked_by {
        Some(actor) => html! { "by " (parts::name(actor)) },
        None => html! { "(person not recorded)" },
    }
}

fn pager(page: &Page, query: &KeysQuery, found: &[KeyInfo], has_more: bool) -> Markup {
    let address = page.workspace_link("/keys");
    let (first, separator, order) = if query.is_revoked() {
        (format!("{address}?state={REVOKED}"), '&', "Latest first")
    } else {
        (address, '?', "By name")
    };
    let next = found.last().filter(|_| has_more);
    let next = next.map(|last| format!("{first}{separator}after={}", last.id));
    parts::key_pager(order, query.after.map(|_| first.as_str()), next.as_deref())
}

fn terminal(page: &Page, is_revoked: bool) -> Markup {
    let words = if is_revoked { "key list --revoked" } else { "key list" };
    parts::terminal("", &workspace_command(page, words, &[], &[]))
}

/// What a later `apply` does with the key.
fn apply_text(is_declared: bool) -> &'static str {
    if is_declared {
        "To change its permissions and networks, edit the file and apply it. If you revoke the key \
         here, apply refuses the file until it has another secret or no longer has the key."
    } else {
        "The workspace file does not declare it: apply never changes or revokes it, also with \
         --prune. apply refuses a file that declares another key with this name."
    }
}
