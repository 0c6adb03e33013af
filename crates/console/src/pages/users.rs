//! Users: found by an identifier, then a page for each (docs/how-to/console-pages.md). Whoever
//! looks at a user is in the audit log, with the user's service_id.
//!
//! Identifiers are personal data. So the search is a POST: its text is in no address, and so in no
//! log of a proxy and not in the browser's history. Addresses and titles have only the service_id,
//! which refers to nothing once the user is erased.

mod activity;
pub mod erase;
pub mod messages;
mod profile;
pub mod record;

use std::collections::BTreeMap;

use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use crate::page::Page;
use crate::pages::labels;
use console_frame::error::PageError;
use console_frame::form::Form;
use console_frame::parts::{self, Tone, icon};
use console_frame::rights::Right;
use console_frame::shell::workspace_command;
use people::users::rows::{self, For, StoredUser};
use people::users::search::{self, FoundUser, IdentifierKind};
use people::users::{merged_rows, service_id};
use runtime::audit::{self, Entry};
use store::Tx;

/// The field of the search.
const IDENTIFIER: &str = "identifier";

/// The longest identifier: an alias has two parts of 255 characters.
const MAX_IDENTIFIER_CHARS: usize = 511;

/// What an identifier can be.
const KINDS: &str = "An external_id, a service_id, an alias as LABEL:NAME, an email address or a \
                     phone number.";

#[derive(Debug, Default, Deserialize)]
pub struct SearchView {
    /// A user who was erased on the page before; any link can say so.
    erased: Option<Uuid>,
}

/// What the search page shows below its form.
enum Shown<'a> {
    Nothing,
    Erased(Uuid),
    Found { text: &'a str, users: &'a [FoundUser] },
}

/// `GET /w/{workspace}/users`.
pub async fn show(page: Page, Query(view): Query<SearchView>) -> Result<Response, PageError> {
    let shown = match view.erased {
        Some(id) if is_absent(&page, id).await? => Shown::Erased(id),
        _ => Shown::Nothing,
    };
    Ok(page.html("Users", content(&page, "", &shown, &BTreeMap::new())))
}

/// `POST /w/{workspace}/users`: shows the only user with an identifier, or lists all of them.
pub async fn find(page: Page, form: Form) -> Result<Response, PageError> {
    let text = form.value(IDENTIFIER);
    if let Some(error) = invalid(text) {
        let errors = BTreeMap::from([(IDENTIFIER.to_owned(), error)]);
        let content = content(&page, &parts::cut(text), &Shown::Nothing, &errors);
        return Ok((StatusCode::UNPROCESSABLE_ENTITY, page.html("Users", content)).into_response());
    }
    let workspace = page.workspace()?;
    let mut tx = page.app.request_queue.snapshot().await?;
    let users = search::search(&mut tx, workspace.id, text).await?;
    tx.commit().await?;
    let ids: Vec<Uuid> = users.iter().map(|user| user.service_id).collect();
    record_search(&page, &ids).await?;
    if let [user] = users.as_slice() {
        // The page of a merged user shows the user that was kept.
        let merged = Uuid::try_parse(text).ok();
        let merged = merged.filter(|_| user.found_by == IdentifierKind::MergedServiceId);
        let id = merged.unwrap_or(user.service_id);
        return Ok(page.redirect(&format!("/w/{}/users/{id}", parts::encoded(&workspace.name))));
    }
    let shown = Shown::Found { text, users: &users };
    Ok(page.html("Users", content(&page, text, &shown, &BTreeMap::new())))
}

fn invalid(text: &str) -> Option<String> {
    match text.chars().count() {
        0 => Some("Enter an identifier".to_owned()),
        1..=MAX_IDENTIFIER_CHARS => None,
        _ => Some(format!("An identifier has at most {MAX_IDENTIFIER_CHARS} characters")),
    }
}

fn content(
    page: &Page,
    text: &str,
    shown: &Shown<'_>,
    errors: &BTreeMap<String, String>,
) -> Markup {
    let is_invalid = errors.contains_key(IDENTIFIER);
    let described_by =
        if is_invalid { parts::error_id(IDENTIFIER) } else { "identifier-hint".to_owned() };
    html! {
        div.head { div.head-title { h1 { "Users" } } }
        @if let Shown::Erased(id) = shown { (erased(*id)) }
        section.panel aria-label="Find a user" {
            div.panel-head { h2 { "Find a user" } }
            form.panel-body method="post" action=(page.workspace_link("/users")) novalidate {
                (parts::form_token(page))
                div.field.full {
                    label for=(IDENTIFIER) { "Identifier" }
                    input.input id=(IDENTIFIER) name=(IDENTIFIER) value=(text) required
                        autocomplete="off" autocapitalize="off" spellcheck="false" dir="auto"
                        aria-invalid=[is_invalid.then_some("true")] aria-describedby=(described_by);
                    (parts::field_error(errors, IDENTIFIER))
                    p.hint id="identifier-hint" { (KINDS) }
                }
                div.actions {
                    button.button.primary type="submit" { (icon("search")) "Find" }
                }
            }
        }
        @if let Shown::Found { text, users } = shown { (results(page, text, users)) }
        p.hint {
            "The identifier is in no address, so neither proxies nor the browser's history have it. \
             The audit log has which users you look at."
        }
        (terminal(page, text))
    }
}

fn results(page: &Page, text: &str, users: &[FoundUser]) -> Markup {
    html! {
        section.panel aria-label="Result" {
            @if users.is_empty() {
                div.empty role="status" {
                    (icon("inbox"))
                    h2 { "No user has this identifier" }
                    p { "Nothing was found for " b { (parts::name(text)) } "." }
                    p {
                        "The user may not have been imported or tracked yet, may be in another \
                         workspace, or was erased."
                    }
                }
            } @else {
                div.panel-head role="status" {
                    h2 { (users.len()) " users have this identifier" }
                }
                table.list {
                    thead {
                        tr {
                            th scope="col" { "User" }
                            th scope="col" { "Email" }
                            th scope="col" { "Found by" }
                        }
                    }
                    tbody { @for user in users { (row(page, user)) } }
                }
            }
        }
    }
}

fn row(page: &Page, user: &FoundUser) -> Markup {
    html! {
        tr {
            (labels::user_cell(page, user.service_id, user.external_id.as_deref()))
            (labels::email_cell(user.email.as_deref()))
            td data-label="Found by" { code { (user.found_by.name()) } }
        }
    }
}

fn erased(id: Uuid) -> Markup {
    parts::notice(
        Tone::Neutral,
        "No user has this service_id",
        html! {
            p role="status" {
                "If you have just erased the user with the service_id " code { (id) } ", the \
                 erasure is complete: the profile, the activity, the identifiers and the messages \
                 are deleted. The audit log has it as " code { "user.delete" } "."
            }
        },
    )
}

fn terminal(page: &Page, text: &str) -> Markup {
    let identifier = if text.is_empty() { "IDENTIFIER" } else { text };
    parts::terminal("", &workspace_command(page, "users find", &[], &[identifier]))
}

// The user of a path --------------------------------------------------------------------------

/// The user in the path of an address.
#[derive(Deserialize)]
pub struct UserPath {
    id: String,
}

/// A service_id, and the user that it refers to.
enum Identified {
    User(StoredUser),
    /// Merged into the user with this id.
    Merged(Uuid),
    /// Nobody: never created here, or erased.
    Nobody,
}

/// The service_id of a path. An invalid one is unknown, without a query.
fn checked_id(path: &UserPath) -> Result<Uuid, PageError> {
    let id = Uuid::try_parse(&path.id).ok();
    id.filter(|id| service_id::bucket(id).is_some()).ok_or(PageError::NotFound)
}

async fn identify(
    page: &Page,
    tx: &mut Tx,
    id: Uuid,
    purpose: For,
) -> Result<Identified, PageError> {
    let workspace = page.workspace()?.id;
    if let Some(user) = rows::find_users(tx, workspace, &[id], purpose).await?.pop() {
        return Ok(Identified::User(user));
    }
    let kept = merged_rows::present(tx, workspace, id).await?;
    Ok(if kept == id { Identified::Nobody } else { Identified::Merged(kept) })
}

async fn is_absent(page: &Page, id: Uuid) -> Result<bool, PageError> {
    if service_id::bucket(&id).is_none() {
        return Ok(false);
    }
    let mut tx = page.app.request_queue.snapshot().await?;
    let found = identify(page, &mut tx, id, For::ReadingKeys).await?;
    tx.commit().await?;
    Ok(matches!(found, Identified::Nobody))
}

/// The page of an id that was merged into another user's.
fn merged_page(page: &Page, id: Uuid, kept: Uuid) -> Response {
    let content = html! {
        (head(page, id, None, html! {}))
        (parts::notice(Tone::Neutral, "The user was merged", html! {
            p {
                "The user with this service_id was merged into another one, who has the data of \
                 both."
            }
            p.actions {
                a.button href=(page.workspace_link(&format!("/users/{kept}"))) {
                    "Show the user who was kept"
                }
            }
        }))
        (find_terminal(page, id))
    };
    page.html(&format!("User {id}"), content)
}

/// The page of an id that no user has (404).
fn nobody_page(page: &Page, id: Uuid) -> Response {
    let content = html! {
        (head(page, id, None, html! {}))
        section.panel aria-label="No user" {
            div.empty {
                (icon("inbox"))
                h2 { "No user has this service_id" }
                p {
                    "The user was erased or deleted, or is in another workspace. Nothing about the \
                     user is left here."
                }
                @if page.may(Right::AuditView) {
                    p.actions {
                        a.button href=(page.link("/audit?action=user.delete")) {
                            "Erasures in the audit log"
                        }
                    }
                }
            }
        }
        (find_terminal(page, id))
    };
    (StatusCode::NOT_FOUND, page.html(&format!("User {id}"), content)).into_response()
}

fn find_terminal(page: &Page, id: Uuid) -> Markup {
    terminal(page, &id.to_string())
}

/// A part of a user's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tab {
    Record,
    Messages,
}

/// The head of a user's pages. The title is the external_id; that of the document has only the
/// service_id, because browsers keep it.
fn head(page: &Page, id: Uuid, user: Option<(&StoredUser, Tab)>, actions: Markup) -> Markup {
    let external_id = user.and_then(|(user, _)| user.external_id.as_deref());
    html! {
        div.head {
            div.head-title {
                nav.crumbs aria-label="Breadcrumb" {
                    a href=(page.workspace_link("/users")) { "Users" }
                }
                h1 { (parts::name(external_id.unwrap_or("User without external_id"))) }
                p.muted.mono { (id) }
            }
            div.actions { (actions) }
        }
        @if let Some((_, current)) = user {
            nav.chips aria-label="Parts of the user" {
                @for (tab, path, title) in
                    [(Tab::Record, "", "Record"), (Tab::Messages, "/messages", "Messages")]
                {
                    a.chip href=(page.workspace_link(&format!("/users/{id}{path}")))
                        aria-current=[(tab == current).then_some("page")] { (title) }
                }
            }
        }
    }
}

/// Records that the person looks at a user, before the page is shown: if that fails, so does the
/// page.
async fn record_view(page: &Page, id: Uuid, part: &'static str) -> Result<(), PageError> {
    write_entry(page, &page.audit("user.view", id.to_string(), json!({ "page": part }))).await
}

/// Records that the person looked for a user, and which ones were found. Not the text that was
/// entered: it is personal data.
pub async fn record_search(page: &Page, found: &[Uuid]) -> Result<(), PageError> {
    let object = parts::count_of(found.len() as i64, "user", "users");
    write_entry(page, &page.audit("user.search", object, json!({ "users": found }))).await
}

async fn write_entry(page: &Page, entry: &Entry) -> Result<(), PageError> {
    let mut tx = page.app.request_queue.write().await?;
    audit::record(&mut tx, page.now_ms(), entry).await?;
    tx.commit().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_has_a_length() {
        assert!(invalid("").is_some());
        assert!(invalid(&"é".repeat(MAX_IDENTIFIER_CHARS)).is_none());
        assert!(invalid(&"x".repeat(MAX_IDENTIFIER_CHARS + 1)).is_some());
    }

    #[test]
    fn only_service_ids_are_looked_up() {
        let checked = |id: &str| checked_id(&UserPath { id: id.to_owned() });
        let id = service_id::new(1_764_000_000_000, 1, 77, 9);
        assert_eq!(checked(&id.to_string()).ok(), Some(id));
        for other in ["", "ann", "1f0c7a52-3a55-4b0e-9d3e-6f1c5e2b7a10"] {
            assert!(matches!(checked(other), Err(PageError::NotFound)), "{other}");
        }
    }
}
