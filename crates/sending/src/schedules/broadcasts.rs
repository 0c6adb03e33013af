//! `GET /messages/scheduled_broadcasts`.

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::http::{Method, StatusCode};
use axum::routing::get;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use super::{ScheduleSummary, summary_rows};
use crate::app::App;
use content::campaigns;
use gateway::formats::{SuccessText, Time, schema_of};
use gateway::openapi::Tag;
use gateway::{self, Access, ApiError, Caller, Operation, Routes, time_parameter};
use kit::clock::serialize_time;
use messages::Timing;

const PERMISSION: &str = "messages.schedule_broadcasts";

/// Maximum number of schedules that are read.
const MAX_SCHEDULES: i64 = 1_000;

const TAG: Tag = Tag { name: "Schedules", about: "Scheduled sends." };

pub(super) fn routes() -> Routes<App> {
    let id = "listScheduledBroadcasts";
    let operation = Operation::new(Method::GET, id, TAG, "List scheduled broadcasts")
        .by(Access::Key(PERMISSION))
        .about(format!(
            "Lists campaigns and Canvases that are scheduled for a segment or audience, in the \
             order of their times. Searches only the workspace's next {MAX_SCHEDULES} schedules."
        ))
        .requires_in_query(
            "end_time",
            "Return only broadcasts at or before this time.",
            schema_of::<Time>(),
        )
        .returns::<Listed>(StatusCode::OK, "The broadcasts.")
        .with_example(json!({ "message": "success", "scheduled_broadcasts": [{
            "name": "Welcome", "id": "3c9f0a52-8f1e-4c57-9a3e-0d5b1c2e7f60", "type": "Campaign",
            "tags": ["onboarding"], "next_send_time": "2026-11-21T08:00:00.000Z",
            "schedule_type": "local_time_zones",
        }] }))
        .refuses_some([read("")], "end_time is missing or invalid");
    let route = gateway::protected(PERMISSION, get(list));
    Routes::new().route("/messages/scheduled_broadcasts", route, [operation])
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ScheduledBroadcasts")]
struct Listed {
    message: SuccessText,
    scheduled_broadcasts: Vec<Broadcast>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ScheduledBroadcast")]
struct Broadcast {
    name: String,
    /// ID of the campaign or the Canvas.
    id: Uuid,
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["Campaign", "Canvas"]))]
    kind: &'static str,
    tags: Vec<String>,
    /// When the campaign or Canvas is sent next. A local time is shown as if it were in UTC.
    #[serde(serialize_with = "serialize_time")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    next_send_time: i64,
    #[schemars(extend("enum" = ["time_based", "local_time_zones", "intelligent_delivery"]))]
    schedule_type: &'static str,
}

fn read(query: &str) -> Result<i64, String> {
    time_parameter(query, "end_time")?.ok_or_else(|| "end_time is required".to_owned())
}

async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<axum::Json<Listed>, ApiError> {
    let until = read(query.as_deref().unwrap_or_default()).map_err(ApiError::Invalid)?;
    let mut tx = app.request_queue.snapshot().await?;
    let pending = summary_rows::pending(&mut tx, caller.workspace.id, until, MAX_SCHEDULES).await?;
    let declared = campaigns::stored(&mut tx, caller.workspace.id).await?;
    let mut scheduled_broadcasts = Vec::new();
    for ScheduleSummary { schedule, contents } in pending {
        let Some(id) = contents.campaign_id.filter(|_| contents.is_broadcast()) else { continue };
        let Some(campaign) = declared.iter().find(|campaign| campaign.id == id) else { continue };
        scheduled_broadcasts.push(Broadcast {
            name: campaign.name.clone(),
            id,
            kind: if schedule.canvas_id.is_some() { "Canvas" } else { "Campaign" },
            tags: campaign.tags.clone(),
            next_send_time: schedule.time,
            schedule_type: match schedule.timing {
                Timing::Instant => "time_based",
                Timing::Local => "local_time_zones",
                Timing::Optimal => "intelligent_delivery",
            },
        });
    }
    Ok(axum::Json(Listed { message: SuccessText::Success, scheduled_broadcasts }))
}
