//! `GET /campaigns/list` and `GET /canvas/list`.

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::http::{Method, StatusCode};
use axum::routing::get;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use super::rows::{self, Filter, Listed};
use super::{Kind, details};
use crate::app::App;
use gateway::formats::{SuccessText, Time, schema_of};
use gateway::openapi::Tag;
use gateway::{
    self, Access, ApiError, Caller, Operation, Routes, parameter, query, time_parameter,
};
use kit::clock::serialize_time;

const PERMISSION: &str = "campaigns.list";
const CANVASES: &str = "canvas.list";

/// The id in the examples.
const EXAMPLE: &str = "3c9f0a52-8f1e-4c57-9a3e-0d5b1c2e7f60";

/// Number of campaigns per page.
const PAGE: i64 = 100;

pub(super) const TAG: Tag =
    Tag { name: "Campaigns", about: "Campaigns that the workspace file declares." };

/// The routes of campaigns and Canvases.
pub fn routes() -> Routes<App> {
    let campaigns = describe::<CampaignPage>(
        Operation::new(Method::GET, "listCampaigns", TAG, "List campaigns")
            .by(Access::Key(PERMISSION))
            .about("Ordered by the time when each was first declared. Canvases are not listed."),
    )
    .with_example(json!({ "message": "success", "campaigns": [{
        "id": EXAMPLE, "last_edited": "2026-11-21T08:00:00.000Z", "name": "Welcome",
        "is_api_campaign": true, "tags": ["onboarding"],
    }] }));
    let canvases = describe::<CanvasPage>(
        Operation::new(Method::GET, "listCanvases", TAG, "List Canvases")
            .by(Access::Key(CANVASES))
            .about("Ordered by the time when each was first declared."),
    )
    .with_example(json!({ "message": "success", "canvases": [{
        "id": EXAMPLE, "last_edited": "2026-11-21T08:00:00.000Z", "name": "Welcome",
        "tags": ["onboarding"],
    }] }));
    Routes::new()
        .route("/campaigns/list", gateway::protected(PERMISSION, get(list)), [campaigns])
        .route("/canvas/list", gateway::protected(CANVASES, get(list_canvases)), [canvases])
        .merge(details::routes())
}

fn describe<Page: JsonSchema>(operation: Operation) -> Operation {
    operation
        .takes_page(PAGE, "entries")
        .in_query(
            "include_archived",
            "Whether to include archived campaigns.",
            json!({ "type": "boolean", "default": false }),
        )
        .in_query(
            "sort_direction",
            "`asc`: oldest first; `desc`: newest first.",
            json!({ "enum": ["asc", "desc"], "default": "asc" }),
        )
        .in_query(
            "last_edit.time[gt]",
            "Return only entries edited after this time. Encode a `+` as `%2B`.",
            schema_of::<Time>(),
        )
        .refuses_some(["page=-1"].map(read), "A parameter is invalid or repeated")
        .returns::<Page>(StatusCode::OK, "A page of the list.")
}

async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<axum::Json<CampaignPage>, ApiError> {
    let page = page(&app, &caller, query, false).await?;
    let campaigns = page.into_iter().map(Entry::from).collect();
    Ok(axum::Json(CampaignPage { message: SuccessText::Success, campaigns }))
}

async fn list_canvases(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<axum::Json<CanvasPage>, ApiError> {
    let page = page(&app, &caller, query, true).await?;
    let canvases = page.into_iter().map(CanvasEntry::from).collect();
    Ok(axum::Json(CanvasPage { message: SuccessText::Success, canvases }))
}

async fn page(
    app: &App,
    caller: &Caller,
    query: Option<String>,
    canvases: bool,
) -> Result<Vec<Listed>, ApiError> {
    let filter = read(query.as_deref().unwrap_or_default()).map_err(ApiError::Invalid)?;
    let mut tx = app.request_queue.snapshot().await?;
    let filter = Filter { canvases, ..filter };
    Ok(rows::page(&mut tx, caller.workspace.id, &filter, PAGE).await?)
}

#[derive(Serialize, JsonSchema)]
struct CanvasPage {
    message: SuccessText,
    #[schemars(length(max = PAGE))]
    canvases: Vec<CanvasEntry>,
}

/// A Canvas that the workspace file declares.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Canvas")]
struct CanvasEntry {
    id: Uuid,
    /// When its declaration in the file last changed.
    #[serde(serialize_with = "serialize_time")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    last_edited: i64,
    name: String,
    tags: Vec<String>,
}

impl From<Listed> for CanvasEntry {
    fn from(Listed { id, name, tags, edited_at, .. }: Listed) -> Self {
        Self { id, last_edited: edited_at, name, tags }
    }
}

#[derive(Serialize, JsonSchema)]
struct CampaignPage {
    message: SuccessText,
    #[schemars(length(max = PAGE))]
    campaigns: Vec<Entry>,
}

/// A campaign that the workspace file declares.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Campaign")]
struct Entry {
    id: Uuid,
    /// When its declaration in the file last changed.
    #[serde(serialize_with = "serialize_time")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    last_edited: i64,
    name: String,
    /// Whether it is of the type `api`.
    is_api_campaign: bool,
    tags: Vec<String>,
}

impl From<Listed> for Entry {
    fn from(Listed { id, kind, name, tags, edited_at }: Listed) -> Self {
        let is_api_campaign = kind == Kind::Api;
        Self { id, last_edited: edited_at, name, is_api_campaign, tags }
    }
}

/// Parses the parameters; the error names the invalid one. Ignores unknown parameters.
pub fn read(query: &str) -> Result<Filter, String> {
    let page = query::page(query)?;
    let archived_too =
        parameter(query, "include_archived", "true or false", |text| text.parse().ok())?;
    let newest_first = parameter(query, "sort_direction", "asc or desc", |text| match text {
        "asc" => Some(false),
        "desc" => Some(true),
        _ => None,
    })?;
    let edited_after = time_parameter(query, "last_edit.time[gt]")?;
    Ok(Filter {
        archived_too: archived_too.unwrap_or(false),
        edited_after: edited_after.unwrap_or(i64::MIN),
        newest_first: newest_first.unwrap_or(false),
        offset: i64::from(page) * PAGE,
        canvases: false,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: Filter = Filter {
        archived_too: false,
        edited_after: i64::MIN,
        newest_first: false,
        offset: 0,
        canvases: false,
    };

    #[test]
    fn parameters_are_read() {
        for (query, filter) in [
            ("", ALL),
            ("other=1&other=&another", ALL),
            ("page=3", Filter { offset: 300, ..ALL }),
            ("page=007&sort_direction=asc", Filter { offset: 700, ..ALL }),
            (
                "sort_direction=desc&include_archived=true",
                Filter { archived_too: true, newest_first: true, ..ALL },
            ),
            ("include_archived=false", ALL),
            (
                "last_edit.time[gt]=2021-06-28T17:02:43",
                Filter { edited_after: 1_624_899_763_000, ..ALL },
            ),
            (
                "last_edit.time%5Bgt%5D=2021-06-28T19%3A02%3A43%2B0200",
                Filter { edited_after: 1_624_899_763_000, ..ALL },
            ),
        ] {
            assert_eq!(read(query), Ok(filter), "{query}");
        }
        let far = read("page=99999999999999999999999999").unwrap();
        assert_eq!(far.offset, i64::from(u32::MAX) * PAGE);
    }

    #[test]
    fn errors_name_the_invalid_field() {
        for (query, text) in [
            ("page=", "page must be a whole number from 0"),
            ("page", "page must be"),
            ("page=-1", "page must be"),
            ("page=1.0", "page must be"),
            ("page=+1", "page must be"),
            ("page=%2B1", "page must be"),
            ("page=1&page=1", "page is given more than once"),
            ("include_archived=TRUE", "include_archived must be true or false"),
            ("include_archived=1", "include_archived must be"),
            ("sort_direction=newest", "sort_direction must be asc or desc"),
            ("sort_direction=", "sort_direction must be"),
            ("last_edit.time[gt]=yesterday", "last_edit.time[gt]: expected a date and time"),
            ("last_edit.time[gt]=", "last_edit.time[gt] must be"),
            (
                "last_edit.time[gt]=2021-06-28&last_edit.time%5Bgt%5D=2021-06-28",
                "last_edit.time[gt] is given more than once",
            ),
        ] {
            let error = read(query).expect_err(query);
            assert!(error.starts_with(text), "{query}: {error}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(query in "(page|include_archived|last_edit|sort_direction|[=&%0-9a-fT:.-]|\\PC)*") {
            let _ = read(&query);
        }
    }
}
