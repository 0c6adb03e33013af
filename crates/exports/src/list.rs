//! The list of a workspace's exports (docs/reference/api/exports.md).

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::http::{Method, StatusCode};
use axum::routing::get;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::api::TAG;
use super::audience::{AudienceKind, PERMISSIONS};
use super::overview::{self, Filter, ListPosition, Mark};
use super::status::{Status, example_status};
use super::{Job, Progress, State as JobState};
use gateway::app::App;
use gateway::paging::{self, CURSOR};
use gateway::{self, Access, ApiError, Caller, Operation, Routes, name_parameter, parameter};

pub(super) fn routes() -> Routes<App> {
    let exports = gateway::protected_by_any(PERMISSIONS, get(list));
    Routes::new().route("/users/export", exports, [describe_list()])
}

fn describe_list() -> Operation {
    Operation::new(Method::GET, "listExports", TAG, "List exports, newest first")
        .by(Access::AnyKey(&PERMISSIONS))
        .takes_cursor("exports")
        .in_query(
            "state",
            "Only exports in this state.",
            json!({ "enum": JobState::ALL.map(JobState::name) }),
        )
        .in_query(
            "mark",
            "Only exports in progress with this mark.",
            json!({ "enum": Mark::ALL.map(Mark::name) }),
        )
        .returns::<Page>(StatusCode::OK, "A page.")
        .with_example(
            json!({ "exports": [example_status()], "next_cursor": "MTc5NTI0OTc2ODkxMCAwMWEx" }),
        )
}

/// `GET /users/export?limit&cursor&state&mark`: newest first.
async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<axum::Json<Page>, ApiError> {
    let filter = read(query.as_deref().unwrap_or_default()).map_err(ApiError::Invalid)?;
    let is_visible = |kind: &AudienceKind| caller.has_permission(kind.permission());
    let filter = Filter {
        workspace: Some(caller.workspace.id),
        audiences: Some(AudienceKind::ALL.into_iter().filter(is_visible).collect()),
        ..filter
    };
    let mut tx = app.request_queue.snapshot().await?;
    let one_more = Filter { limit: filter.limit + 1, ..filter.clone() };
    let found = overview::jobs(&app, &mut tx, &one_more).await?;
    let (jobs, next) = paging::page_of(found, filter.limit, |(job, _)| ListPosition::from(job));
    let now = app.database_now(&mut tx).await?;
    let status = |(job, progress): &(Job, Progress)| Status::new(&app, job, progress, now);
    Ok(axum::Json(Page {
        next_cursor: next.map(ListPosition::cursor),
        exports: jobs.iter().map(status).collect(),
    }))
}

/// Reads the parameters; the error names the invalid one. Ignores unknown parameters.
fn read(query: &str) -> Result<Filter, String> {
    let before = parameter(query, "cursor", CURSOR, ListPosition::from_cursor)?;
    let limit = paging::limit(query)?;
    let state = name_parameter(query, "state", JobState::ALL, JobState::name)?;
    let mark = name_parameter(query, "mark", Mark::ALL, Mark::name)?;
    Ok(Filter {
        before,
        limit,
        states: state.into_iter().collect(),
        marks: mark.into_iter().collect(),
        ..Filter::default()
    })
}

/// A page of the list.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ExportPage")]
struct Page {
    exports: Vec<Status>,
    /// Cursor of the next page; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_invalid_parameter() {
        for (query, name) in [
            ("cursor=x", "cursor "),
            ("limit=101", "limit "),
            ("state=Failed", "state "),
            ("state=done&state=failed", "state "),
            ("mark=Slow", "mark "),
            ("mark=slow&mark=late", "mark "),
        ] {
            let error = read(query).expect_err(query);
            assert!(error.starts_with(name), "{query}: {error}");
        }
        let filter = read("state=failed&mark=late&limit=7").unwrap();
        assert_eq!((filter.states, filter.marks), (vec![JobState::Failed], vec![Mark::Late]));
        assert_eq!((filter.limit, filter.before), (7, None));
    }
}
