//! The products that were bought in a workspace (docs/how-to/console-pages.md).

use axum::extract::RawQuery;
use axum::response::Response;
use maud::{Markup, html};

use crate::page::Page;
use console_frame::error::PageError;
use console_frame::lists::KeyedView;
use console_frame::parts;
use console_frame::shell::{KEY_HEADER, api};
use tracking::apply::products_from;

/// Products on a page.
const PAGE: usize = 100;

/// `GET /w/{workspace}/products`.
pub async fn list(page: Page, RawQuery(query): RawQuery) -> Result<Response, PageError> {
    let view = KeyedView::read(query.as_deref().unwrap_or_default());
    let workspace = page.workspace()?.id;
    let mut tx = page.app.request_queue.snapshot().await?;
    let found = products_from(&mut tx, workspace, view.start(), PAGE as i64 + 1).await?;
    tx.commit().await?;
    let (products, next) = view.page(found, PAGE, |product| product);
    Ok(page.html("Products", content(&page, &view, &products, next.as_deref())))
}

fn content(page: &Page, view: &KeyedView, products: &[String], next: Option<&str>) -> Markup {
    let path = page.workspace_link("/products");
    html! {
        div.head {
            div.head-title {
                h1 { "Products" }
                p.muted {
                    "The first 5,000 products that were bought. Purchases and revenue are counted for \
                     each user, and are on the user's page."
                }
            }
        }
        (view.search_form(&path, "Name begins with"))
        section.panel aria-label="Products" {
            @if products.is_empty() {
                (empty(view))
            } @else {
                table.list.dense {
                    thead { tr { th scope="col" { "Product" } } }
                    tbody {
                        @for product in products {
                            tr { td.c-full.c-wrap { (parts::name(product)) } }
                        }
                    }
                }
            }
            (view.pager(&path, "By name", next))
        }
        (parts::terminal(
            &format!("curl -sS {} {KEY_HEADER}", api(page, "/purchases/product_list?page=0")),
            "",
        ))
    }
}

fn empty(view: &KeyedView) -> Markup {
    if !view.search.is_empty() {
        let text = format!("No product begins with {}.", parts::cut(&view.search));
        return parts::empty("No products here", &text);
    }
    if !view.is_first() {
        return parts::empty("No products here", "The list ends before this page.");
    }
    parts::empty("No products", "A product appears here once a purchase of it was tracked.")
}
