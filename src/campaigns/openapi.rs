//! `GET /campaigns/list` as it is described.

use axum::http::{Method, StatusCode};
use serde_json::json;

use super::api::{Answer, PAGE, PERMISSION, read};
use crate::gateway::openapi::Tag;
use crate::gateway::openapi::shapes::{Time, schema_of};
use crate::gateway::{Access, Operation};

const TAG: Tag = Tag { name: "Campaigns", about: "What the workspace file declares." };

pub(super) fn list() -> Operation {
    let operation = Operation::new(Method::GET, "listCampaigns", TAG, "The workspace's campaigns")
        .by(Access::Key(PERMISSION))
        .about("In the order in which they were first declared. Canvases are not listed.")
        .in_query(
            "page",
            &format!("Which {PAGE} campaigns; past the end the list is empty."),
            json!({ "type": "integer", "minimum": 0, "default": 0 }),
        )
        .in_query(
            "include_archived",
            "Whether those that are archived are listed, too.",
            json!({ "type": "boolean", "default": false }),
        )
        .in_query(
            "sort_direction",
            "`asc`: the oldest first; `desc`: exactly the reverse.",
            json!({ "enum": ["asc", "desc"], "default": "asc" }),
        )
        .in_query(
            "last_edit.time[gt]",
            "Only campaigns edited later than this time. A `+` in it is written `%2B`.",
            schema_of::<Time>(),
        )
        .answers::<Answer>(
            StatusCode::OK,
            "A page.",
            json!({ "message": "success", "campaigns": [{
                "id": "3c9f0a52-8f1e-4c57-9a3e-0d5b1c2e7f60",
                "last_edited": "2026-11-21T08:00:00.000Z", "name": "Welcome",
                "is_api_campaign": true, "tags": ["onboarding"],
            }] }),
        );
    let wrong = [
        "page=-1",
        "include_archived=1",
        "sort_direction=newest",
        "last_edit.time[gt]=yesterday",
        "page=1&page=1",
    ];
    operation.refuses_some(wrong.map(read), "A parameter is wrong, or is there twice")
}
