//! A key, and its revocation, after a page that says what stops working.

use axum::extract::Path;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;
use url::form_urlencoded::Serializer;
use uuid::Uuid;

use super::{DECLARED, apply_text, last_use, permissions, revoker};
use crate::page::Page;
use console_frame::error::PageError;
use console_frame::parts::{self, Look, Tone};
use console_frame::rights::Right;
use console_frame::shell::workspace_command;
use gateway::workspaces::Workspace;
use gateway::workspaces::budgets::Budget;
use gateway::workspaces::keys::{self, KeyInfo};
use runtime::config::network::networks;
use store::Tx;

/// Why a key may have other uses than the one that a page shows.
const RECORDED: &str = "Each gateway records at most one use in a minute.";

#[derive(Debug, Deserialize)]
pub struct KeyPath {
    /// As it is in the address.
    id: String,
}

/// `GET /w/{workspace}/keys/{id}`.
pub async fn show(page: Page, Path(path): Path<KeyPath>) -> Result<Response, PageError> {
    let workspace = page.workspace()?;
    let mut tx = page.app.request_queue.snapshot().await?;
    let key = own_key(&page, &mut tx, &path).await?;
    let heir = match key.revoked_at {
        Some(_) => keys::with_same_secret(&mut tx, workspace.id, &key).await?,
        None => None,
    };
    tx.commit().await?;
    let content = content(&page, workspace, &key, heir.as_ref());
    Ok(page.html(&format!("API key {}", parts::cut(&key.name)), content))
}

/// `GET /w/{workspace}/keys/{id}/revoke`: asks first.
pub async fn ask(page: Page, Path(path): Path<KeyPath>) -> Result<Response, PageError> {
    let mut tx = page.app.request_queue.snapshot().await?;
    let key = own_key(&page, &mut tx, &path).await?;
    tx.commit().await?;
    if key.revoked_at.is_some() {
        return redirect_to(&page, key.id);
    }
    Ok(page.html(&format!("Revoke {}", parts::cut(&key.name)), question(&page, &key)))
}

/// `POST /w/{workspace}/keys/{id}/revoke`. A key that is revoked already stays as it is.
pub async fn revoke(page: Page, Path(path): Path<KeyPath>) -> Result<Response, PageError> {
    let app = &page.app;
    let mut tx = app.request_queue.write().await?;
    let key = own_key(&page, &mut tx, &path).await?;
    let (now, actor) = (page.now_ms(), page.actor());
    if keys::revoke_by_id(&mut tx, key.id, now, &actor).await? {
        page.record(&mut tx, key.revocation()).await?;
        tx.commit().await?;
    }
    redirect_to(&page, key.id)
}

/// The workspace's key of a path.
async fn own_key(page: &Page, tx: &mut Tx, path: &KeyPath) -> Result<KeyInfo, PageError> {
    let id = Uuid::try_parse(&path.id).map_err(|_| PageError::NotFound)?;
    keys::by_id(tx, page.workspace()?.id, id).await?.ok_or(PageError::NotFound)
}

fn redirect_to(page: &Page, id: Uuid) -> Result<Response, PageError> {
    let workspace = parts::encoded(&page.workspace()?.name);
    Ok(page.redirect(&format!("/w/{workspace}/keys/{id}")))
}

/// `heir` is the active key that now has its secret.
fn content(page: &Page, workspace: &Workspace, key: &KeyInfo, heir: Option<&KeyInfo>) -> Markup {
    let is_active = key.revoked_at.is_none();
    html! {
        div.head {
            div.head-title {
                (crumbs(page, None))
                h1 {
                    (parts::name(&key.name))
                    @if is_active {
                        (Look::good("Active").pill())
                    } @else {
                        (Look::ended("Revoked").pill())
                    }
                }
            }
            @if is_active {
                div.actions {
                    a.button.danger href=(page.workspace_link(&format!("/keys/{}/revoke", key.id))) {
                        "Revoke"
                    }
                }
            }
        }
        @if let Some(at) = key.revoked_at {
            (revoked_notice(page, key, at, heir))
        } @else if key.declared {
            (parts::notice(Tone::Neutral, DECLARED, html! { p { (apply_text(true)) } }))
        }
        div.columns.two {
            section.panel aria-label="Permissions" {
                div.panel-head { h2 { "Permissions" } }
                div.panel-body { (permissions::list(&key.permissions)) }
            }
            section.panel aria-label="About the key" {
                div.panel-head { h2 { "About the key" } }
                div.panel-body {
                    (about(page, key))
                    @if is_active && !key.declared { p.muted.small { (apply_text(false)) } }
                    (audit_link(page))
                }
            }
        }
        (limits(workspace, key))
        (terminal(page, key))
    }
}

/// What the revocation at `at` means for requests with the secret.
fn revoked_notice(page: &Page, key: &KeyInfo, at: i64, heir: Option<&KeyInfo>) -> Markup {
    let revoked = html! { "Revoked " (page.time(at)) " " (revoker(key)) ". " };
    if let Some(heir) = heir {
        let address = page.workspace_link(&format!("/keys/{}", heir.id));
        return parts::notice(
            Tone::Warning,
            "Requests with its secret are accepted",
            html! {
                p {
                    (revoked) "Its secret is now that of the key "
                    a href=(address) { (parts::name(&heir.name)) } ": revoke that one."
                }
            },
        );
    }
    parts::notice(
        Tone::Neutral,
        "Requests with this key get 401",
        html! {
            p {
                (revoked) "Gateways refuse it within five seconds of that. Its secret is refused for \
                           ever."
            }
        },
    )
}

/// The way back to the list, and to the key from its question.
fn crumbs(page: &Page, key: Option<&KeyInfo>) -> Markup {
    html! {
        nav.crumbs aria-label="Breadcrumb" {
            a href=(page.workspace_link("/keys")) { "API keys" }
            @if let Some(key) = key {
                a href=(page.workspace_link(&format!("/keys/{}", key.id))) { "Key" }
            }
        }
    }
}

fn about(page: &Page, key: &KeyInfo) -> Markup {
    let mut rows = vec![
        ("Id", html! { code { (key.id) } }),
        ("Allowed from", html! { (parts::cut(&networks(&key.allow))) }),
        ("Created", page.time(key.created_at)),
        (
            "Last used",
            html! {
                (last_use(page, key))
                @if let Some(permission) = &key.last_permission {
                    br; code.muted { (parts::cut(permission)) }
                }
                @if key.last_used_at.is_some() { br; span.muted.small { (RECORDED) } }
            },
        ),
    ];
    if let Some(at) = key.revoked_at {
        rows.push(("Revoked", html! { (page.time(at)) br; (revoker(key)) }));
    }
    parts::facts(&rows)
}

/// The keys' entries in the audit log, for a person who may see it.
fn audit_link(page: &Page) -> Markup {
    let workspace = page.workspace_if_any().map_or("", |workspace| &workspace.name);
    let pairs = [("action", "key."), ("workspace", workspace)];
    let query = Serializer::new(String::new()).extend_pairs(pairs).finish();
    html! {
        @if page.viewer.rights.has(Right::AuditView, None) {
            p.small {
                a href=(page.link(&format!("/audit?{query}"))) {
                    "Changes of keys in the audit log"
                }
            }
        }
    }
}

/// The limits of the workspace that requests with the key count against.
fn limits(workspace: &Workspace, key: &KeyInfo) -> Markup {
    let used: Vec<Budget> = key
        .permissions
        .iter()
        .flat_map(|permission| Budget::all_from_permission(permission))
        .collect();
    let budgets = Budget::OF_WORKSPACES.into_iter().filter(|budget| used.contains(budget));
    html! {
        @if !used.is_empty() {
            section.panel aria-label="Rate limits" {
                div.panel-head {
                    h2 { "Rate limits" }
                    p.muted.small { "All keys of the workspace share them. The workspace file sets them." }
                }
                table.list.dense {
                    thead {
                        tr {
                            th scope="col" { "Limit" }
                            th.num scope="col" { "Requests" }
                            th.num scope="col" { "In" }
                        }
                    }
                    tbody {
                        @for budget in budgets {
                            @let limit = workspace.rate_limit(budget);
                            tr {
                                td.c-main.wide { code { (budget.name()) } }
                                td.num data-label="Requests" { (parts::number(limit.requests.into())) }
                                td.num data-label="In" {
                                    (parts::duration(i64::from(limit.seconds) * 1_000))
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn question(page: &Page, key: &KeyInfo) -> Markup {
    let address = page.workspace_link(&format!("/keys/{}", key.id));
    html! {
        div.head {
            div.head-title {
                (crumbs(page, Some(key)))
                h1 { span { "Revoke " (parts::name(&key.name)) "?" } }
            }
        }
        (last_use_notice(page, key))
        div.columns.two {
            section.panel aria-label="What stops working" {
                div.panel-head { h2 { "Requests that stop working" } }
                div.panel-body { (permissions::list(&key.permissions)) }
            }
            section.panel aria-label="What happens" {
                div.panel-head { h2 { "What happens" } }
                div.panel-body {
                    ul.plain-list {
                        li { "Within five seconds, all gateways refuse requests with this key (401)." }
                        li { "Work that was accepted before continues." }
                        li { "Other keys of the workspace do not change." }
                        li { "Its secret is refused for ever, also in a workspace file." }
                        @if key.declared { li { (DECLARED) ": " (apply_text(true)) } }
                        li {
                            "A backup from before has the key as valid. Keep the list of revoked \
                             secrets: " code { "longshore key revocations" } "."
                        }
                    }
                    p.small { (parts::runbook("docs/runbooks/leaked-key.md")) }
                }
            }
        }
        form.form method="post" action=(format!("{address}/revoke")) {
            (parts::form_token(page))
            div.actions {
                button.button.danger-fill type="submit" { "Revoke the key" }
                a.button href=(address) { "Keep the key" }
            }
        }
        (terminal(page, key))
    }
}

/// Whether somebody uses the key.
fn last_use_notice(page: &Page, key: &KeyInfo) -> Markup {
    let Some(at) = key.last_used_at else {
        return parts::notice(
            Tone::Neutral,
            "No use is recorded",
            html! {
                p {
                    "Refused requests are not recorded. A use that could not be written is missing. \
                     If a program may have the key, give the program another one first."
                }
            },
        );
    };
    parts::notice(
        Tone::Warning,
        "The program that uses this key gets 401 from now on",
        html! {
            p {
                "The last recorded request came " (page.time(at))
                @if let Some(permission) = &key.last_permission {
                    ", for " code { (parts::cut(permission)) }
                }
                ". " (RECORDED) " Requests for its other permissions may come, too. To change keys \
                 without an interruption, give the program another key first."
            }
        },
    )
}

fn terminal(page: &Page, key: &KeyInfo) -> Markup {
    let command = if key.revoked_at.is_some() {
        workspace_command(page, "key list --revoked", &[], &[])
    } else {
        workspace_command(page, "key revoke", &[], &[&key.id.to_string()])
    };
    parts::terminal("", &command)
}
