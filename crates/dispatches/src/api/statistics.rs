//! What a campaign or a Canvas sent.

use std::ops::Range;

use axum::Extension;
use axum::extract::{RawQuery, State as AppState};
use axum::http::{Method, StatusCode};
use axum::routing::get;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use super::TAG;
use super::list::MessageCounts;
use crate::statistics_rows::{self, MAX_SUMMED_DISPATCHES, SendTotals};
use content::campaigns::{self, Kind};
use gateway::formats::SuccessText;
use gateway::workspaces::Channel;
use gateway::{self, Access, ApiError, Caller, Operation, Routes, parameter, time_range};
use messages::app::App;
use messages::dispatch::LeftOut;

const PERMISSION: &str = "campaigns.statistics";

pub(super) fn routes() -> Routes<App> {
    Routes::new().route(
        "/campaigns/statistics",
        gateway::protected(PERMISSION, get(statistics)),
        [describe()],
    )
}

fn describe() -> Operation {
    let counts = json!({
        "sent": 797, "bounced": 6, "unreachable": 2, "aborted": 0, "failed": 0,
    });
    let mut variation = counts.clone();
    variation["channel"] = "email".into();
    variation["delivered"] = 672.into();
    Operation::new(Method::GET, "getCampaignStatistics", TAG, "Get a campaign's statistics")
        .by(Access::Key(PERMISSION))
        .about(
            "`variations` counts all messages of the campaign or Canvas, and is kept for ever. \
             `dispatches` adds up those that are still stored (`messages.keep_days`), in a range \
             of time: the latest 10,000, if there are more. A transactional campaign has none.",
        )
        .requires_in_query(
            "campaign_id",
            "The id of the campaign or Canvas.",
            json!({ "type": "string" }),
        )
        .takes_time_range("dispatches accepted")
        .refuses_some([read("")], "A parameter is missing, invalid or repeated")
        .refuses(&unknown(), "The campaign does not exist")
        .returns::<Statistics>(StatusCode::OK, "The statistics.")
        .with_example(json!({
            "message": "success", "variations": [variation],
            "dispatches": {
                "count": 1, "is_complete": true, "users": 2013, "messages": counts,
                "left_out": {
                    "unknown": 0, "not_in_audience": 1200, "control_group": 0, "too_late": 0,
                    "unsubscribed": 13, "capped": 0,
                },
            },
        }))
}

fn unknown() -> ApiError {
    ApiError::NotFound("No campaign has this campaign_id".into())
}

/// The campaign, if its id can exist, and the range of time. The error names the parameter.
fn read(query: &str) -> Result<(Option<Uuid>, Range<i64>), String> {
    let id = parameter(query, "campaign_id", "an id", |text| Some(text.to_owned()))?;
    let id = id.ok_or("campaign_id is required")?;
    Ok((Uuid::try_parse(&id).ok(), time_range(query)?))
}

async fn statistics(
    AppState(app): AppState<App>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<axum::Json<Statistics>, ApiError> {
    let read = read(query.as_deref().unwrap_or_default()).map_err(ApiError::Invalid)?;
    let ((Some(id), accepted), workspace) = (read, caller.workspace.id) else {
        return Err(unknown());
    };
    let _turn = app.count_turns.wait(workspace).await?;
    let mut tx = app.request_queue.snapshot().await?;
    let variations = statistics_rows::statistics(&mut tx, workspace, Some(id)).await?;
    let kind = campaigns::by_id(&mut tx, workspace, id).await?.map(|campaign| campaign.kind);
    // A deleted campaign still has its statistics, and a new one has none yet.
    if variations.is_empty() && kind.is_none() {
        return Err(unknown());
    }
    let totals = statistics_rows::send_totals(&mut tx, (workspace, id), accepted).await?;
    // A deleted campaign without dispatches may have been a transactional one.
    let has_dispatches = match kind {
        Some(Kind::Transactional) => false,
        Some(Kind::Api | Kind::Triggered | Kind::Canvas) => true,
        None => totals.dispatches > 0,
    };
    Ok(axum::Json(Statistics {
        message: SuccessText::Success,
        variations: variations.into_iter().map(Variation::from).collect(),
        dispatches: has_dispatches.then(|| totals.into()),
    }))
}

/// The messages of a campaign or Canvas.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CampaignStatistics")]
struct Statistics {
    message: SuccessText,
    variations: Vec<Variation>,
    /// Absent for a transactional campaign, whose emails are no dispatches, and for a removed
    /// campaign without stored dispatches in the range of time.
    #[serde(skip_serializing_if = "Option::is_none")]
    dispatches: Option<Dispatches>,
}

/// All messages of a variation by one channel, by outcome. A message that was delivered or bounced
/// later counts as `sent`, too.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "VariationStatistics")]
struct Variation {
    /// Absent for messages without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    message_variation_id: Option<String>,
    #[schemars(with = "String")]
    channel: Channel,
    sent: i64,
    delivered: i64,
    bounced: i64,
    unreachable: i64,
    aborted: i64,
    failed: i64,
}

/// Totals of dispatches.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DispatchTotals")]
struct Dispatches {
    count: i64,
    /// False if older dispatches may be missing: only the latest 10,000 are added up.
    is_complete: bool,
    /// The users that they read; a user counts once for each dispatch.
    users: i64,
    left_out: LeftOut,
    messages: MessageCounts,
}

impl From<statistics_rows::Statistics> for Variation {
    fn from(statistics: statistics_rows::Statistics) -> Self {
        Self {
            message_variation_id: Some(statistics.variation_id).filter(|id| !id.is_empty()),
            channel: statistics.channel,
            sent: statistics.sent,
            delivered: statistics.delivered,
            bounced: statistics.bounced,
            unreachable: statistics.unreachable,
            aborted: statistics.aborted,
            failed: statistics.failed,
        }
    }
}

impl From<SendTotals> for Dispatches {
    fn from(totals: SendTotals) -> Self {
        Self {
            count: totals.dispatches,
            is_complete: totals.dispatches < MAX_SUMMED_DISPATCHES,
            users: totals.users,
            left_out: totals.left_out,
            messages: totals.messages.into(),
        }
    }
}
