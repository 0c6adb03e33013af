//! The list of a workspace's exports (docs/reference/api/exports.md).

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::http::{Method, StatusCode};
use axum::routing::get;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use super::api::TAG;
use super::audience::{CONTROL_GROUP, PERMISSIONS, SEGMENT};
use super::status::{Status, example_status};
use super::{Job, rows};
use gateway::app::App;
use gateway::{self, Access, ApiError, Caller, Operation, Routes, parameter};

/// Default and maximum number of jobs on a page of the list.
const PAGE: i64 = 20;
const LARGEST_PAGE: i64 = 100;

pub(super) fn routes() -> Routes<App> {
    let exports = gateway::protected_by_any(PERMISSIONS, get(list));
    Routes::new().route("/users/export", exports, [describe_list()])
}

fn describe_list() -> Operation {
    let limit = json!({
        "type": "integer", "minimum": 1, "maximum": LARGEST_PAGE, "default": PAGE,
    });
    let operation = Operation::new(Method::GET, "listExports", TAG, "List exports, newest first")
        .by(Access::AnyKey(&PERMISSIONS))
        .in_query("limit", "Number of exports per page.", limit)
        .in_query(
            "cursor",
            "The `next_cursor` of the previous page.",
            json!({ "type": "string", "minLength": 1 }),
        )
        .returns::<Page>(StatusCode::OK, "A page.")
        .with_example(
            json!({ "exports": [example_status()], "next_cursor": "MTc5NTI0OTc2ODkxMCAwMWEx" }),
        );
    let wrong = ["limit=0"];
    operation.refuses_some(wrong.map(read_page), "A parameter is invalid or repeated")
}

/// `GET /users/export?limit&cursor`: newest first.
async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<axum::Json<Page>, ApiError> {
    let (limit, after) =
        read_page(query.as_deref().unwrap_or_default()).map_err(ApiError::Invalid)?;
    let visible = rows::Visible {
        of_control_group: caller.has_permission(CONTROL_GROUP),
        of_segments: caller.has_permission(SEGMENT),
    };
    let mut tx = app.request_queue.snapshot().await?;
    let jobs = rows::latest(&mut tx, caller.workspace.id, visible, after, limit).await?;
    let is_full = jobs.len() as i64 == limit;
    Ok(axum::Json(Page {
        next_cursor: jobs.last().filter(|_| is_full).map(|(job, _)| cursor_of(job)),
        exports: jobs.iter().map(|(job, progress)| Status::new(&app, job, progress)).collect(),
    }))
}

/// The page size and the position after which it starts; the error names the parameter.
fn read_page(query: &str) -> Result<(i64, rows::ListPosition), String> {
    let expected = format!("a whole number from 1 to {LARGEST_PAGE}");
    let limit = parameter(query, "limit", &expected, |text| {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        let limit = text.parse().ok().filter(|_| is_number);
        limit.filter(|limit| (1..=LARGEST_PAGE).contains(limit))
    })?;
    let after = parameter(query, "cursor", "a next_cursor of this list", read_cursor)?;
    Ok((limit.unwrap_or(PAGE), after.unwrap_or(rows::ListPosition::START)))
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

fn cursor_of(job: &Job) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(format!("{} {}", job.requested_at, job.id))
}

fn read_cursor(text: &str) -> Option<rows::ListPosition> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
    let (requested_at, id) = std::str::from_utf8(&bytes).ok()?.split_once(' ')?;
    Some(rows::ListPosition {
        requested_at: requested_at.parse().ok()?,
        id: Uuid::try_parse(id).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Audience, Format};

    #[test]
    fn cursors_survive_a_round_trip() {
        let id = Uuid::new_v4();
        let job = Job {
            id,
            workspace_id: 1,
            object_prefix: "p".into(),
            audience: Audience::ControlGroup,
            segment_id: id,
            users_per_file: None,
            fields: vec![],
            format: Format::Zip,
            storage_id: None,
            destination: None,
            callback_endpoint: None,
            request_id: "r".into(),
            requested_at: -5,
        };
        assert_eq!(
            read_cursor(&cursor_of(&job)),
            Some(rows::ListPosition { requested_at: -5, id })
        );
        for wrong in ["", "!", "MTI", &BASE64_URL_SAFE_NO_PAD.encode("1 x")] {
            assert_eq!(read_cursor(wrong), None, "{wrong:?}");
        }
    }
}
