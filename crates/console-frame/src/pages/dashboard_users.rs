//! The dashboard users of SCIM: who may sign in with the identity provider, and what they may do.

use std::collections::HashMap;

use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;
use url::form_urlencoded::Serializer;
use uuid::Uuid;

use crate::error::PageError;
use crate::lists::first_rows;
use crate::page::Page;
use crate::parts::{self, Look};
use crate::rights::{Right, RightSet, Rights};
use gateway::workspaces;
use scim::permissions::Permissions;
use scim::sign_in::{self, DashboardUser};

/// Rows on a page.
const PAGE: usize = 50;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct UsersQuery {
    /// The last user of the previous page.
    after: Option<Uuid>,
}

/// `GET /people/users`, in the order of their creation.
pub async fn list(
    page: Page,
    query: Result<Query<UsersQuery>, QueryRejection>,
) -> Result<Response, PageError> {
    let Query(query) = query.map_err(|error| PageError::Invalid(error.body_text()))?;
    let mut tx = page.app.request_queue.snapshot().await?;
    let found = sign_in::list(&mut tx, query.after, PAGE as i64 + 1).await?;
    let workspaces = workspaces::ids(&mut tx).await?;
    tx.commit().await?;
    let (users, has_more) = first_rows(found, PAGE);
    let next = users.last().filter(|_| has_more).map(|last| format!("?after={}", last.id));
    let first = query.after.map(|_| page.link("/people/users"));
    let content = html! {
        div.head {
            div.head-title {
                h1 { "Dashboard users" }
                p.muted {
                    "They come from SCIM or from the workspace file. "
                    @match &page.app.oidc {
                        Some(provider) => {
                            "Active ones sign in with " (provider.client.host())
                            ", with the rights of their permissions."
                        },
                        None => "To let them sign in, set console.oidc.issuer.",
                    }
                }
            }
        }
        section.panel aria-label="Dashboard users" {
            table.list {
                thead {
                    tr {
                        th { "User" }
                        th { "State" }
                        th { "Rights" }
                        th { "Last sign-in" }
                        th { span.hidden-label { "Sessions" } }
                    }
                }
                tbody { @for user in &users { (row(&page, user, &workspaces)) } }
            }
            @if users.is_empty() {
                (parts::empty(
                    "No dashboard users",
                    "A user appears here when an identity provider creates it over SCIM, or when \
                     the company document of the workspace file declares it.",
                ))
            }
            (pager(first.as_deref(), next.as_deref()))
        }
        (parts::terminal("", "longshore console users\nlongshore console rights --permissions"))
    };
    Ok(page.html("Dashboard users", content))
}

fn row(page: &Page, user: &DashboardUser, workspaces: &HashMap<String, i32>) -> Markup {
    let rights = page.app.permissions.rights(&user.permissions, workspaces);
    let person = Serializer::new(String::new()).append_pair("person", &user.user_name).finish();
    let state = if user.is_active { Look::good("Active") } else { Look::ended("Inactive") };
    html! {
        tr {
            td.c-main {
                span.title { (parts::name(user.display_name.as_deref().unwrap_or(&user.user_name))) }
                @if user.display_name.is_some() { span.sub { (parts::name(&user.user_name)) } }
            }
            td data-label="State" { (state.badge()) }
            td data-label="Rights" { (rights_in_words(page, user, &rights, workspaces)) }
            td data-label="Last sign-in" {
                @match user.last_sign_in_at {
                    Some(at) => (page.time(at)),
                    None => span.muted { "Never" },
                }
            }
            td.c-end.c-full {
                a.button href=(page.link(&format!("/people/sessions?{person}"))) {
                    "Sessions" span.hidden-label { " of " (parts::cut(&user.user_name)) }
                }
            }
        }
    }
}

/// The rights of a user: everywhere, in each workspace, and the permissions that grant nothing.
fn rights_in_words(
    page: &Page,
    user: &DashboardUser,
    rights: &Rights,
    workspaces: &HashMap<String, i32>,
) -> Markup {
    let mut names: Vec<(&String, &RightSet)> = workspaces
        .iter()
        .filter_map(|(name, id)| Some((name, rights.in_workspaces.get(id)?)))
        .collect();
    names.sort_by_key(|(name, _)| *name);
    let without_effect = without_effect(page, &user.permissions);
    html! {
        @if rights.everywhere.is_empty() && names.is_empty() { span.muted { "None" } }
        @if !rights.everywhere.is_empty() {
            span.sub { "Everywhere: " (words(&rights.everywhere)) }
        }
        @for (name, set) in names {
            span.sub { "In " (parts::name(name)) ": " (words(set)) }
        }
        @if !without_effect.is_empty() {
            span.sub { "Without effect: " (parts::name(&without_effect.join(", "))) }
        }
    }
}

fn words(set: &RightSet) -> String {
    let rights = Right::ALL.into_iter().filter(|right| set.has(*right));
    let rights: Vec<&str> = rights.map(Right::name).collect();
    if rights.len() == Right::ALL.len() { "every right".to_owned() } else { rights.join(", ") }
}

/// The names of permissions that grant no right, each once.
fn without_effect<'a>(page: &Page, permissions: &'a Permissions) -> Vec<&'a str> {
    let groups = permissions.app_group.iter();
    let names = groups.flat_map(|group| &group.app_group_permissions);
    let names = permissions.company_permissions.iter().chain(names).map(String::as_str);
    let mut names: Vec<&str> = names.filter(|name| !page.app.permissions.grants(name)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The links to other pages of the list, which begins with the oldest user.
fn pager(first: Option<&str>, next: Option<&str>) -> Markup {
    html! {
        @if first.is_some() || next.is_some() {
            nav.pager aria-label="Pages" {
                span { "Oldest first" }
                span.actions {
                    @if let Some(address) = first { a.button href=(address) { "First page" } }
                    @if let Some(address) = next {
                        a.button href=(address) rel="next" { "Next" (parts::icon("chevron-right")) }
                    }
                }
            }
        }
    }
}
