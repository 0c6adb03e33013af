//! One catalog: its fields, its selections and its items in pages.

use axum::extract::{Path, RawQuery};
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use super::{address, declared, items, items_command, own_catalog, terminal, value};
use crate::page::Page;
use console_frame::error::PageError;
use console_frame::lists::KeyedView;
use console_frame::parts;
use content::catalogs::list_rows::{self, ListedCatalog, ListedItem};
use content::catalogs::{Field, Type};
use gateway::workspaces::template_data::CatalogSelection;
use gateway::workspaces::template_rows;
use kit::json::{self, JsonFields};

/// Items on a page.
const PAGE: usize = 50;

/// Fields that the list of items has as columns.
const COLUMNS: usize = 3;

/// The list shows the values of items up to this size, in bytes.
const MAX_LISTED_BYTES: i64 = 16_000;

/// Fields that are shown at once.
const FIRST_FIELDS: usize = 25;

/// The catalog in the path of an address.
#[derive(Deserialize)]
pub struct CatalogPath {
    catalog: String,
}

/// What the page shows.
struct Shown {
    listed: ListedCatalog,
    /// Number of its items, counted up to a limit.
    count: i64,
    selections: Vec<CatalogSelection>,
    view: KeyedView,
    items: Vec<ListedItem>,
    /// The id at which the next page begins.
    next: Option<String>,
}

/// `GET /w/{workspace}/catalogs/{catalog}`.
pub async fn show(
    page: Page,
    Path(path): Path<CatalogPath>,
    RawQuery(query): RawQuery,
) -> Result<Response, PageError> {
    let view = KeyedView::read(query.as_deref().unwrap_or_default());
    let mut tx = page.app.request_queue.snapshot().await?;
    let listed = own_catalog(&page, &mut tx, &path.catalog).await?;
    let (workspace, name) = (page.workspace()?.id, &listed.catalog.name);
    let selections = template_rows::selections_of(&mut tx, workspace, name).await?;
    let id = listed.catalog.id;
    let count = list_rows::count_items(&mut tx, &[id]).await?.remove(&id).unwrap_or_default();
    let limit = PAGE as i64 + 1;
    let found = list_rows::items_from(&mut tx, id, view.start(), MAX_LISTED_BYTES, limit).await?;
    tx.commit().await?;
    let (items, next) = view.page(found, PAGE, |item| &item.item_id);
    let shown = Shown { listed, count, selections, view, items, next };
    let title = format!("Catalog {}", parts::cut(&shown.listed.catalog.name));
    Ok(page.html(&title, content(&page, &shown)))
}

fn content(page: &Page, shown: &Shown) -> Markup {
    let Shown { listed, count, view, .. } = shown;
    let name = &listed.catalog.name;
    let fields = listed.catalog.fields.all();
    let path = address(page, name, "");
    html! {
        div.head {
            div.head-title {
                nav.crumbs aria-label="Breadcrumb" {
                    a href=(page.workspace_link("/catalogs")) { "Catalogs" }
                }
                h1 { (parts::name(name)) }
                p.muted {
                    (parts::count_of(fields.len() as i64, "field", "fields")) " · "
                    @if *count == 1 { "1 item" } @else { (items(*count)) " items" }
                }
                @if listed.has_items_file { div.marks { (declared()) } }
            }
        }
        div.columns.side-right {
            div.columns {
                (view.search_form(&path, "Item id begins with"))
                (item_list(page, shown, &path))
            }
            div.columns {
                (field_list(fields))
                @if !shown.selections.is_empty() { (selection_list(&shown.selections)) }
            }
        }
        (terminal(page, &format!("/{name}/items"), &items_command(page, &[], name)))
    }
}

fn item_list(page: &Page, shown: &Shown, path: &str) -> Markup {
    let fields = shown.listed.catalog.fields.all();
    let columns = &fields[..fields.len().min(COLUMNS)];
    html! {
        section.panel aria-label="Items" {
            div.panel-head {
                h2 { "Items" }
                @if fields.len() > COLUMNS {
                    span.hint { "with their first " (COLUMNS) " fields" }
                }
            }
            @if shown.items.is_empty() {
                (empty(&shown.view))
            } @else {
                table.list.items {
                    thead {
                        tr {
                            th scope="col" { "id" }
                            @for field in columns {
                                th.num[field.kind == Type::Number] scope="col" {
                                    span.clamp { (parts::name(&field.name)) }
                                }
                            }
                        }
                    }
                    tbody {
                        @for item in &shown.items {
                            (item_row(page, &shown.listed.catalog.name, item, columns))
                        }
                    }
                }
            }
            (shown.view.pager(path, "By id", shown.next.as_deref()))
        }
    }
}

fn empty(view: &KeyedView) -> Markup {
    if !view.search.is_empty() {
        let text = format!("No id begins with {}.", parts::cut(&view.search));
        return parts::empty("No items here", &text);
    }
    if !view.is_first() {
        return parts::empty("No items here", "The last items of the catalog were deleted.");
    }
    parts::empty(
        "No items",
        "Items of the catalog's file, and those that the API creates, appear here.",
    )
}

fn item_row(page: &Page, catalog: &str, item: &ListedItem, columns: &[Field]) -> Markup {
    let doc = item.doc.as_deref().unwrap_or("{}");
    let values: JsonFields<'_> = json::parse(doc).unwrap_or_default();
    html! {
        tr {
            td.c-full {
                a.title href=(address(page, catalog, &format!("/{}", parts::encoded(&item.item_id)))) {
                    (parts::name(&item.item_id))
                }
                @if item.doc.is_none() { span.sub { "Too long for the list" } }
            }
            @for field in columns {
                td.num[field.kind == Type::Number] data-label=(parts::cut(&field.name)) {
                    @if let Some(json) = values.get(&field.name) {
                        span.clamp { (short_value(page, field.kind, json)) }
                    }
                }
            }
        }
    }
}

/// A value in a row: not more than its beginning.
fn short_value(page: &Page, kind: Type, json: &str) -> Markup {
    match kind {
        Type::Time => value(page, Some(kind), json),
        _ => parts::name(&parts::json_text(json)),
    }
}

fn field_list(fields: &[Field]) -> Markup {
    let (first, rest) = fields.split_at(fields.len().min(FIRST_FIELDS));
    html! {
        section.panel aria-label="Fields" {
            div.panel-head { h2 { "Fields" } span.hint { "in addition to id" } }
            @if fields.is_empty() {
                div.panel-body { p.muted { "None: items have only an id." } }
            } @else {
                (field_table(first))
                @if !rest.is_empty() {
                    details.more {
                        summary.panel-foot { "Show " (parts::number(rest.len() as i64)) " more" }
                        (field_table(rest))
                    }
                }
            }
        }
    }
}

fn field_table(fields: &[Field]) -> Markup {
    html! {
        table.list.dense.attributes {
            thead { tr { th scope="col" { "Field" } th.c-kind scope="col" { "Type" } } }
            tbody {
                @for field in fields {
                    tr {
                        td.c-wrap { (parts::name(&field.name)) }
                        td { code { (field.kind.name()) } }
                    }
                }
            }
        }
    }
}

fn selection_list(selections: &[CatalogSelection]) -> Markup {
    html! {
        section.panel aria-label="Selections" {
            div.panel-head { h2 { "Selections" } span.hint { "for messages" } }
            div.panel-body {
                div.marks { (declared()) }
                dl.facts {
                    @for selection in selections {
                        div.stack {
                            dt { (parts::name(&selection.name)) }
                            dd {
                                "At most " (parts::count_of(selection.limit.into(), "item", "items"))
                                @if !selection.filters.is_empty() {
                                    ", with "
                                    (parts::count_of(
                                        selection.filters.len() as i64, "condition", "conditions",
                                    ))
                                }
                                @if let Some(sort) = &selection.sort {
                                    ", by " bdi { (parts::cut(&sort.field)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
