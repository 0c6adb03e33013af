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
use super::overview::{self, AudienceKind, Filter, Mark};
use super::status::{Status, example_status};
use super::{Job, State as JobState, rows};
use gateway::app::App;
use gateway::paging::{self, CURSOR};
use gateway::{self, Access, ApiError, Caller, Operation, Routes, parameter};

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
    let query = query.as_deref().unwrap_or_default();
    let (limit, after) = read_page(query).map_err(ApiError::Invalid)?;
    let visible = rows::Visible {
        of_control_group: caller.has_permission(CONTROL_GROUP),
        of_segments: caller.has_permission(SEGMENT),
        state: read_state(query).map_err(ApiError::Invalid)?,
    };
    let mark = read_mark(query).map_err(ApiError::Invalid)?;
    let mut tx = app.request_queue.snapshot().await?;
    let workspace = caller.workspace.id;
    let jobs = match mark {
        None => rows::latest(&mut tx, workspace, visible, after, limit).await?,
        Some(mark) => {
            let filter = Filter {
                workspace: Some(workspace),
                states: visible.state.into_iter().collect(),
                marks: vec![mark],
                before: (after != rows::ListPosition::START).then_some(after.id),
                // The permissions decide below which of them are shown.
                limit: u32::MAX,
                ..Filter::default()
            };
            let mut exports = overview::list(&app, &mut tx, &filter).await?;
            exports.retain(|export| is_visible(export.audience_kind, visible));
            exports.truncate(limit as usize);
            exports.into_iter().map(|export| (export.job, export.progress)).collect()
        }
    };
    let is_full = jobs.len() as i64 == limit;
    Ok(axum::Json(Page {
        next_cursor: jobs.last().filter(|_| is_full).map(|(job, _)| cursor_of(job)),
        exports: jobs.iter().map(|(job, progress)| Status::new(&app, job, progress)).collect(),
    }))
}

fn is_visible(audience: AudienceKind, visible: rows::Visible) -> bool {
    match audience {
        AudienceKind::ControlGroup => visible.of_control_group,
        AudienceKind::Segment | AudienceKind::Connected => visible.of_segments,
    }
}

/// The page size and the position after which it starts; the error names the parameter.
fn read_page(query: &str) -> Result<(i64, rows::ListPosition), String> {
    let after = parameter(query, "cursor", CURSOR, read_cursor)?;
    Ok((paging::limit(query)?, after.unwrap_or(rows::ListPosition::START)))
}

/// The state of the exports to list, if the query has one.
fn read_state(query: &str) -> Result<Option<JobState>, String> {
    let names = JobState::ALL.map(JobState::name).join(", ");
    parameter(query, "state", &format!("one of {names}"), JobState::from_name)
}

/// The mark of the exports to list, if the query has one.
fn read_mark(query: &str) -> Result<Option<Mark>, String> {
    let names = Mark::ALL.map(Mark::name).join(", ");
    parameter(query, "mark", &format!("one of {names}"), Mark::from_name)
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
    fn a_state_is_one_of_the_names() {
        assert_eq!(read_state("limit=1"), Ok(None));
        for state in JobState::ALL {
            assert_eq!(read_state(&format!("state={}", state.name())), Ok(Some(state)));
        }
        for wrong in ["state=", "state=Failed", "state=x", "state=done&state=failed"] {
            assert!(read_state(wrong).unwrap_err().starts_with("state "), "{wrong}");
        }
    }

    #[test]
    fn a_mark_is_one_of_the_names() {
        assert_eq!(read_mark("state=done"), Ok(None));
        for mark in Mark::ALL {
            assert_eq!(read_mark(&format!("mark={}", mark.name())), Ok(Some(mark)));
        }
        for wrong in ["mark=", "mark=Slow", "mark=x", "mark=slow&mark=late"] {
            assert!(read_mark(wrong).unwrap_err().starts_with("mark "), "{wrong}");
        }
    }

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
