//! `GET /purchases/product_list`.

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::http::{Method, StatusCode};
use axum::routing::get;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::apply::products_page;
use gateway::formats::SuccessText;
use gateway::openapi::Tag;
use gateway::{self, Access, ApiError, Caller, Operation, Routes, query};
use messages::app::App;

const PERMISSION: &str = "purchases.product_list";

/// Number of products per page.
const PAGE: i64 = 100;

const TAG: Tag = Tag { name: "Purchases", about: "What users bought." };

pub(super) fn routes() -> Routes<App> {
    let operation = Operation::new(Method::GET, "listProducts", TAG, "List product ids")
        .by(Access::Key(PERMISSION))
        .about("Lists the first 5,000 products that were bought in the workspace, sorted by name.")
        .takes_page(PAGE, "products")
        .returns::<Products>(StatusCode::OK, "A page of the list.")
        .with_example(json!({ "message": "success", "products": ["shoes", "tea"] }))
        .refuses_some([query::page("page=-1")], "A parameter is invalid or repeated");
    let route = gateway::protected(PERMISSION, get(list));
    Routes::new().route("/purchases/product_list", route, [operation])
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ProductPage")]
struct Products {
    message: SuccessText,
    products: Vec<String>,
}

async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<axum::Json<Products>, ApiError> {
    let page = query::page(query.as_deref().unwrap_or_default()).map_err(ApiError::Invalid)?;
    let mut tx = app.request_queue.snapshot().await?;
    let products =
        products_page(&mut tx, caller.workspace.id, i64::from(page) * PAGE, PAGE).await?;
    Ok(axum::Json(Products { message: SuccessText::Success, products }))
}
