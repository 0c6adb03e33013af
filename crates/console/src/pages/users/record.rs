//! A user's record and activity.

use axum::extract::{Path, Query};
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use super::activity::{self, ActivityView};
use super::profile::Shown;
use super::{
    Identified, Tab, UserPath, checked_id, head, identify, merged_page, nobody_page, profile,
    record_view,
};
use crate::page::Page;
use console_frame::error::PageError;
use console_frame::parts::{self, Tone};
use console_frame::rights::Right;
use console_frame::shell::{post, workspace_command};
use gateway::{paging, workspaces};
use people::users::activity::timeline::Key;
use people::users::activity::{Activity, ActivityError};
use people::users::activity_rows;
use people::users::profile::Profile;
use people::users::rows::For;
use people::users::suppressions::AddressStates;

/// Which activity a page has.
#[derive(Debug, Default, Deserialize)]
pub struct RecordQuery {
    /// Only what is older than the entry with this key.
    after: Option<String>,
}

/// `GET /w/{workspace}/users/{id}`.
pub async fn show(
    page: Page,
    Path(path): Path<UserPath>,
    Query(query): Query<RecordQuery>,
) -> Result<Response, PageError> {
    let id = checked_id(&path)?;
    let after = query.after.map(|after| {
        let invalid = || PageError::Invalid(format!("after must be {}", paging::CURSOR));
        paging::read_cursor(&after).ok_or_else(invalid)
    });
    let after = after.transpose()?;
    let workspace = page.workspace()?.id;
    let mut tx = page.app.request_queue.snapshot().await?;
    let user = match identify(&page, &mut tx, id, For::Reading).await? {
        Identified::User(user) => user,
        Identified::Merged(kept) => return Ok(merged_page(&page, id, kept)),
        Identified::Nobody => return Ok(nobody_page(&page, id)),
    };
    let body = activity_rows::find_activity(&mut tx, workspace, id).await?;
    let control_group = workspaces::control_group(&mut tx, workspace).await?;
    let documents = [(id, user.doc.as_str())].into_iter();
    let addresses = AddressStates::look_up(&mut tx, workspace, documents).await?;
    tx.commit().await?;
    record_view(&page, id, "record").await?;
    let address = addresses.of_user(id).cloned();
    let shown = Shown { user, control_group, address };
    let activity = body.as_deref().map_or_else(|| Ok(Activity::default()), Activity::decode);
    Ok(page.html(&format!("User {id}"), content(&page, &shown, &activity, after)))
}

fn content(
    page: &Page,
    shown: &Shown,
    activity: &Result<Activity<'_>, ActivityError>,
    after: Option<Key>,
) -> Markup {
    let user = &shown.user;
    let profile = Profile::parse(&user.doc);
    html! {
        (head(page, user.service_id, Some((user, Tab::Record)), actions(page, user.service_id)))
        @if let Err(error) = &profile { (damaged("The profile is damaged", error)) }
        @if let Err(error) = activity {
            (damaged("The activity cannot be read", &error.to_string()))
        }
        div.columns.side-right {
            div.columns {
                @if let Ok(activity) = activity {
                    @let view =
                        ActivityView { id: user.service_id, activity, profile: profile.as_ref().ok(), after };
                    (activity::sums(page, activity))
                    (activity::timeline(page, &view))
                }
                @if let Ok(profile) = &profile {
                    (profile::custom_attributes(profile))
                    (profile::apps(page, profile))
                    (profile::devices(page, profile))
                }
            }
            @if let Ok(profile) = &profile {
                div.columns { (profile::side(page, shown, profile)) }
            }
        }
        (terminal(page, user.service_id))
    }
}

fn damaged(title: &str, error: &str) -> Markup {
    parts::notice(
        Tone::Bad,
        title,
        html! {
            p { bdi { (parts::cut(error)) } }
            p { "Import the record of this service_id again, or erase the user." }
            p { (parts::runbook("docs/runbooks/export-failed.md")) }
        },
    )
}

fn actions(page: &Page, id: Uuid) -> Markup {
    html! {
        @if page.may(Right::UsersErase) {
            a.button.danger href=(page.workspace_link(&format!("/users/{id}/erase"))) {
                "Erase the user"
            }
        }
    }
}

fn terminal(page: &Page, id: Uuid) -> Markup {
    parts::terminal(
        &post(page, "/users/export/ids", &json!({ "service_ids": [id] })),
        &workspace_command(page, "users show", &[], &[&id.to_string()]),
    )
}
