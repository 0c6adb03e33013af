//! Erases a user, after a page that says what that means.

use std::collections::BTreeMap;

use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use maud::{Markup, html};
use serde_json::json;
use uuid::Uuid;

use super::{Identified, UserPath, checked_id, identify, merged_page, nobody_page, record_view};
use crate::page::Page;
use console_frame::error::PageError;
use console_frame::form::Form;
use console_frame::parts::{self, Tone, icon};
use console_frame::rights::Right;
use console_frame::shell::{post, workspace_command};
use exports::held::{self, HeldDownload};
use gateway::ApiError;
use people::users::find::FindError;
use people::users::rows::{For, StoredUser};
use sending::erase;

/// The field of the confirmation: the external_id, or a checked box for a user without one.
const CONFIRMATION: &str = "confirmation";
const CONFIRMED: &str = "yes";

/// What an erasure deletes.
const ERASED: [&str; 5] = [
    "The profile: attributes, consent, devices and push tokens",
    "The activity: purchases, events and revenue",
    "All identifiers, and those of users who were merged into this one",
    "The messages, content cards and transactional emails, with their postbacks",
    "The record that the user's email address is unsubscribed",
];

/// What an erasure does not delete, and why.
const KEPT: [(&str, &str); 6] = [
    (
        "Files of exports",
        "Those that are written keep the user. Ask the owner of the storage to remove the user.",
    ),
    ("Backups", "They have the user until you delete them. After a restore, erase the user again."),
    ("Dead letters", "They have the user's data until you retry or discard them."),
    (
        "Schedules for later",
        "They are sent without the user. Workers remove the user from them, usually within an \
         hour.",
    ),
    (
        "A hash of the external_ids, the aliases and the email address",
        "For 30 days, data that was received before the erasure does not create the user again. \
         Schedules that list the user are sent without the user.",
    ),
    ("The service_id in the audit log", "It refers to nothing once the user is erased."),
];

/// `GET /w/{workspace}/users/{id}/erase`.
pub async fn show(page: Page, Path(path): Path<UserPath>) -> Result<Response, PageError> {
    let id = checked_id(&path)?;
    let user = match find(&page, id).await? {
        Identified::User(user) => user,
        Identified::Merged(kept) => return Ok(merged_page(&page, id, kept)),
        Identified::Nobody => return Ok(nobody_page(&page, id)),
    };
    record_shown(&page, id).await?;
    let downloads = downloads(&page, id).await?;
    Ok(page.html(&title(id), content(&page, &user, &downloads, &BTreeMap::new())))
}

/// The downloads of exports that may have the user.
async fn downloads(page: &Page, id: Uuid) -> Result<Vec<HeldDownload>, PageError> {
    let mut tx = page.app.request_queue.snapshot().await?;
    let workspace = page.workspace()?.id;
    let ids = held::ids_of(&mut tx, workspace, id).await?;
    Ok(held::downloads_with(&mut tx, workspace, &ids, page.now_ms()).await?)
}

/// `POST /w/{workspace}/users/{id}/erase`. The user is erased when the browser gets the response.
pub async fn submit(
    page: Page,
    Path(path): Path<UserPath>,
    form: Form,
) -> Result<Response, PageError> {
    let id = checked_id(&path)?;
    let user = match find(&page, id).await? {
        Identified::User(user) => user,
        Identified::Merged(kept) => return Ok(merged_page(&page, id, kept)),
        Identified::Nobody => return Ok(nobody_page(&page, id)),
    };
    if let Err(error) = confirmed(&user, form.value(CONFIRMATION)) {
        record_shown(&page, id).await?;
        let errors = BTreeMap::from([(CONFIRMATION.to_owned(), error.to_owned())]);
        let downloads = downloads(&page, id).await?;
        let shown = page.html(&title(id), content(&page, &user, &downloads, &errors));
        return Ok((StatusCode::UNPROCESSABLE_ENTITY, shown).into_response());
    }
    let workspace = page.workspace()?;
    let entry = page.audit(erase::ACTION, id.to_string(), json!({}));
    match erase::erase_with(&page.app.store, workspace, id.into(), &entry).await {
        // Somebody else was faster.
        Ok(_) | Err(FindError::NotFoundYet(_)) => {}
        Err(FindError::Store(error)) => return Err(error.into()),
        Err(error) => return Err(ApiError::Internal(error.to_string()).into()),
    }
    let workspace = parts::encoded(&workspace.name);
    Ok(page.redirect(&format!("/w/{workspace}/users?erased={id}")))
}

/// Records a view: the form has the external_id for those who may see users.
async fn record_shown(page: &Page, id: Uuid) -> Result<(), PageError> {
    if page.may(Right::UsersView) {
        record_view(page, id, "erase").await?;
    }
    Ok(())
}

async fn find(page: &Page, id: Uuid) -> Result<Identified, PageError> {
    let mut tx = page.app.request_queue.snapshot().await?;
    let found = identify(page, &mut tx, id, For::ReadingKeys).await?;
    tx.commit().await?;
    Ok(found)
}

/// Whether the form confirms the erasure of this user. The form has no spaces around its values.
fn confirmed(user: &StoredUser, value: &str) -> Result<(), &'static str> {
    match &user.external_id {
        Some(external_id) if value == external_id.trim() => Ok(()),
        Some(_) if value.is_empty() => Err("Enter the external_id of the user"),
        Some(_) => Err("This is not the external_id of the user"),
        None if value == CONFIRMED => Ok(()),
        None => Err("Confirm the erasure"),
    }
}

/// Browsers keep it: it has only the id.
fn title(id: Uuid) -> String {
    format!("Erase user {id}")
}

fn content(
    page: &Page,
    user: &StoredUser,
    downloads: &[HeldDownload],
    errors: &BTreeMap<String, String>,
) -> Markup {
    let download_minutes = page.app.config.exports.download_minutes;
    let address = page.workspace_link(&format!("/users/{}", user.service_id));
    html! {
        div.head {
            div.head-title {
                nav.crumbs aria-label="Breadcrumb" {
                    a href=(page.workspace_link("/users")) { "Users" }
                    a href=(address) { "User" }
                }
                h1 { "Erase this user?" }
                p.muted.mono { (user.service_id) }
            }
        }
        @if !errors.is_empty() {
            div.notice.bad role="alert" {
                (icon("circle-alert"))
                div {
                    p {
                        "The erasure is not confirmed. "
                        a href=(format!("#{CONFIRMATION}")) { "Correct it" } "."
                    }
                    p { "Nothing was erased." }
                }
            }
        }
        (parts::notice(Tone::Warning, "One user is erased, and this cannot be undone", html! {
            p { "It happens at once: the page after this one shows the result." }
        }))
        div.columns.two {
            section.panel aria-label="What is erased" {
                div.panel-head { h2 { "What is erased" } }
                div.panel-body { ul.plain-list { @for text in ERASED { li { (text) } } } }
            }
            section.panel aria-label="What remains" {
                div.panel-head { h2 { "What remains, and why" } }
                div.panel-body {
                    dl.facts {
                        @for (kept, why) in KEPT { div.stack { dt { (kept) } dd { (why) } } }
                        @for download in downloads {
                            div.stack {
                                dt { "The download of " span.mono { (download.object_prefix) } }
                                dd { "It may have the user, " (download.until(download_minutes)) "." }
                            }
                        }
                    }
                }
            }
        }
        form.form method="post" action=(format!("{address}/erase")) novalidate {
            (parts::form_token(page))
            (confirmation(page, user, errors))
            div.actions {
                button.button.danger-fill type="submit" { "Erase the user" }
                a.button href=(address) { "Keep the user" }
            }
        }
        (terminal(page, user.service_id))
    }
}

fn confirmation(page: &Page, user: &StoredUser, errors: &BTreeMap<String, String>) -> Markup {
    let is_invalid = errors.contains_key(CONFIRMATION);
    let invalid = is_invalid.then_some("true");
    let described_by = is_invalid.then(|| parts::error_id(CONFIRMATION));
    html! {
        div.field {
            @match &user.external_id {
                Some(external_id) => {
                    label for=(CONFIRMATION) {
                        "To confirm, enter the external_id"
                        @if page.may(Right::UsersView) { ": " bdi { (external_id) } }
                    }
                    input.input id=(CONFIRMATION) name=(CONFIRMATION) required autocomplete="off"
                        autocapitalize="off" spellcheck="false" dir="auto" aria-invalid=[invalid]
                        aria-describedby=[described_by];
                }
                None => {
                    label.check {
                        input type="checkbox" id=(CONFIRMATION) name=(CONFIRMATION) value=(CONFIRMED)
                            required aria-invalid=[invalid] aria-describedby=[described_by];
                        "Erase this user, who has no external_id"
                    }
                }
            }
            (parts::field_error(errors, CONFIRMATION))
        }
    }
}

fn terminal(page: &Page, id: Uuid) -> Markup {
    parts::terminal(
        &post(page, "/users/delete", &json!({ "service_ids": [id] })),
        &workspace_command(page, "users delete", &[], &[&id.to_string()]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_external_id_confirms() {
        let user = |external_id: Option<&str>| StoredUser {
            key: 0,
            service_id: Uuid::nil(),
            external_id: external_id.map(str::to_owned),
            email: Some("ann@acme.example".to_owned()),
            attributes_at: 0,
            doc: String::new(),
        };
        let ann = user(Some(" Ann "));
        assert_eq!(confirmed(&ann, "Ann"), Ok(()));
        for wrong in ["", "ann", CONFIRMED, "ann@acme.example"] {
            assert!(confirmed(&ann, wrong).is_err(), "{wrong}");
        }
        assert_eq!(confirmed(&user(None), CONFIRMED), Ok(()));
        assert!(confirmed(&user(None), "").is_err());
    }
}
