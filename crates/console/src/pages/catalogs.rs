//! The catalogs of a workspace, with their fields and items (docs/how-to/console-pages.md). Pages
//! only show them: customers' servers and the workspace file change them.

pub mod catalog;
pub mod item;

use std::collections::HashMap;

use axum::extract::RawQuery;
use axum::response::Response;
use maud::{Markup, html};

use crate::page::Page;
use console_frame::error::PageError;
use console_frame::lists::KeyedView;
use console_frame::parts::{self, Tone};
use console_frame::shell::{KEY_HEADER, api, workspace_command};
use content::catalogs::Type;
use content::catalogs::list_rows::{self, ListedCatalog, MAX_COUNTED};
use kit::clock::parse_time;
use store::Tx;

/// Catalogs on a page: few, because the items of each are counted.
const PAGE: usize = 25;

/// Fields that a catalog in the list names.
const NAMED_FIELDS: usize = 5;

/// `GET /w/{workspace}/catalogs`.
pub async fn list(page: Page, RawQuery(query): RawQuery) -> Result<Response, PageError> {
    let view = KeyedView::read(query.as_deref().unwrap_or_default());
    // The column `name` may have another order than that of the bytes, so there is no search.
    let view = KeyedView { search: String::new(), ..view };
    let workspace = page.workspace()?.id;
    let mut tx = page.app.request_queue.snapshot().await?;
    let found = list_rows::catalogs_from(&mut tx, workspace, view.start(), PAGE as i64 + 1).await?;
    let (catalogs, next) = view.page(found, PAGE, |found| &found.catalog.name);
    let ids: Vec<i32> = catalogs.iter().map(|listed| listed.catalog.id).collect();
    let counts = list_rows::count_items(&mut tx, &ids).await?;
    tx.commit().await?;
    Ok(page.html("Catalogs", content(&page, &view, &catalogs, &counts, next.as_deref())))
}

fn content(
    page: &Page,
    view: &KeyedView,
    catalogs: &[ListedCatalog],
    counts: &HashMap<i32, i64>,
    next: Option<&str>,
) -> Markup {
    html! {
        div.head {
            div.head-title {
                h1 { "Catalogs" }
                p.muted { "Items with fields, which messages can contain." }
            }
        }
        section.panel aria-label="Catalogs" {
            @if catalogs.is_empty() {
                (parts::empty(
                    "No catalogs",
                    "Catalogs that the workspace file declares, or that the API creates, appear here.",
                ))
            } @else {
                table.list {
                    thead {
                        tr {
                            th scope="col" { "Catalog" }
                            th.num scope="col" { "Fields" }
                            th.num scope="col" { "Items" }
                        }
                    }
                    tbody {
                        @for listed in catalogs {
                            @let count = counts.get(&listed.catalog.id).copied().unwrap_or_default();
                            (row(page, listed, count))
                        }
                    }
                }
            }
            (view.pager(&page.workspace_link("/catalogs"), "By name", next))
        }
        (terminal(page, "", &workspace_command(page, "catalogs list", &[], &[])))
    }
}

fn row(page: &Page, listed: &ListedCatalog, count: i64) -> Markup {
    let fields = listed.catalog.fields.all();
    let names = fields.iter().take(NAMED_FIELDS).map(|field| field.name.as_str());
    let names = names.collect::<Vec<_>>().join(", ");
    html! {
        tr {
            td.c-main.wide {
                a.title href=(address(page, &listed.catalog.name, "")) {
                    (parts::name(&listed.catalog.name))
                }
                span.sub {
                    (parts::name(&names))
                    @if fields.len() > NAMED_FIELDS { ", …" }
                }
                @if listed.has_items_file { div.marks { (declared()) } }
            }
            td.num data-label="Fields" { (parts::number(fields.len() as i64)) }
            td.num data-label="Items" { (items(count)) }
        }
    }
}

/// The address of a catalog's page, or of a path below it.
fn address(page: &Page, catalog: &str, path: &str) -> String {
    page.workspace_link(&format!("/catalogs/{}{path}", parts::encoded(catalog)))
}

/// A number of items, which were counted up to a limit.
fn items(count: i64) -> String {
    if count > MAX_COUNTED {
        format!("over {}", parts::number(MAX_COUNTED))
    } else {
        parts::number(count)
    }
}

/// The mark of what only the workspace file can change.
fn declared() -> Markup {
    parts::mark(Tone::Neutral, "scroll-text", "Declared in the workspace file")
}

/// A value of an item. Times are in the person's zone.
fn value(page: &Page, kind: Option<Type>, json: &str) -> Markup {
    let text = parts::json_text(json);
    match parse_time(&text) {
        Ok(at) if kind == Some(Type::Time) => {
            html! { time datetime=(text) { (parts::exact_time(at, &page.viewer.preferences.zone)) } }
        }
        _ => parts::json_value(json),
    }
}

/// The workspace's catalog of a path.
async fn own_catalog(page: &Page, tx: &mut Tx, name: &str) -> Result<ListedCatalog, PageError> {
    let found = list_rows::find_catalog(tx, page.workspace()?.id, name).await?;
    found.ok_or(PageError::NotFound)
}

/// The command that lists the items of a catalog.
fn items_command(page: &Page, options: &[(&str, &str)], catalog: &str) -> String {
    workspace_command(page, "catalogs items", options, &[catalog])
}

/// The same from a terminal: a path below `/catalogs`, and a command.
fn terminal(page: &Page, path: &str, command: &str) -> Markup {
    let address = api(page, &format!("/catalogs{path}"));
    parts::terminal(&format!("curl -sS {address} {KEY_HEADER}"), command)
}
