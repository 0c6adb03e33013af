//! One item of a catalog, with all of its fields.

use axum::extract::Path;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use super::{address, items_command, own_catalog, terminal, value};
use crate::page::Page;
use console_frame::error::PageError;
use console_frame::parts;
use content::catalogs::rows::{self, StoredItem};
use content::catalogs::{Catalog, Type};
use kit::json::{self, JsonFields};
use store::ByteBudget;

/// Fields that are shown at once.
const FIRST_FIELDS: usize = 50;

/// The item in the path of an address.
#[derive(Deserialize)]
pub struct ItemPath {
    catalog: String,
    item: String,
}

/// `GET /w/{workspace}/catalogs/{catalog}/{item}`.
pub async fn show(page: Page, Path(path): Path<ItemPath>) -> Result<Response, PageError> {
    let mut tx = page.app.request_queue.snapshot().await?;
    let catalog = own_catalog(&page, &mut tx, &path.catalog).await?.catalog;
    let key = (catalog.id, path.item.as_str());
    let found = rows::find_items(&mut tx, &[key], &mut ByteBudget::unlimited()).await?.pop();
    tx.commit().await?;
    let item = found.ok_or(PageError::NotFound)?;
    let title = format!("Item {}", parts::cut(&item.item_id));
    Ok(page.html(&title, content(&page, &catalog, &item)))
}

fn content(page: &Page, catalog: &Catalog, item: &StoredItem) -> Markup {
    let (name, id) = (&catalog.name, &item.item_id);
    let values: JsonFields<'_> = json::parse(&item.doc).unwrap_or_default();
    let fields = fields(catalog, &values);
    let (first, rest) = fields.split_at(fields.len().min(FIRST_FIELDS));
    html! {
        div.head {
            div.head-title {
                nav.crumbs aria-label="Breadcrumb" {
                    a href=(page.workspace_link("/catalogs")) { "Catalogs" }
                    a href=(address(page, name, "")) { (parts::name(name)) }
                }
                h1 { (parts::name(id)) }
                p.muted { "Item of a catalog" }
            }
        }
        section.panel aria-label="Fields" {
            div.panel-head { h2 { "Fields" } }
            @if fields.is_empty() {
                (parts::empty("No fields", "The catalog has no fields: items have only an id."))
            } @else {
                (table(page, first))
                @if !rest.is_empty() {
                    details.more {
                        summary.panel-foot { "Show " (parts::number(rest.len() as i64)) " more" }
                        (table(page, rest))
                    }
                }
            }
        }
        (terminal(
            page,
            &format!("/{name}/items/{id}"),
            &items_command(page, &[("id", id)], name),
        ))
    }
}

/// A field of the item.
struct ShownField<'a> {
    name: &'a str,
    /// None if the catalog does not have the field.
    kind: Option<Type>,
    /// Its value as JSON.
    value: Option<&'a str>,
}

/// The catalog's fields in their order, then values of fields that it no longer has.
fn fields<'a>(catalog: &'a Catalog, values: &'a JsonFields<'_>) -> Vec<ShownField<'a>> {
    let declared = catalog.fields.all().iter().map(|field| ShownField {
        name: &field.name,
        kind: Some(field.kind),
        value: values.get(&field.name),
    });
    let others = values.0.iter().filter(|(name, _)| catalog.fields.kind(name).is_none());
    let others =
        others.map(|(name, json)| ShownField { name, kind: None, value: Some(json.get()) });
    declared.chain(others).collect()
}

fn table(page: &Page, fields: &[ShownField<'_>]) -> Markup {
    html! {
        table.list.dense.attributes {
            thead {
                tr {
                    th scope="col" { "Field" }
                    th.c-kind scope="col" { "Type" }
                    th scope="col" { "Value" }
                }
            }
            tbody {
                @for field in fields {
                    tr {
                        td.c-wrap { (parts::name(field.name)) }
                        td {
                            @match field.kind {
                                Some(kind) => { code { (kind.name()) } }
                                None => { span.muted { "removed" } }
                            }
                        }
                        td.c-full {
                            @match field.value {
                                Some(json) => (value(page, field.kind, json)),
                                None => { span.muted { "None" } }
                            }
                        }
                    }
                }
            }
        }
    }
}
