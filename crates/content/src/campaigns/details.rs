//! `GET /campaigns/details`, `GET /segments/list` and `GET /segments/details`.

use std::collections::BTreeMap;

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::http::{Method, StatusCode};
use axum::routing::get;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Kind, rows};
use crate::app::App;
use gateway::formats::SuccessText;
use gateway::openapi::Tag;
use gateway::workspaces::segments;
use gateway::{self, Access, ApiError, Caller, Operation, Routes, parameter, query};
use kit::clock::serialize_time;

const DETAILS: &str = "campaigns.details";
const SEGMENTS: &str = "segments.list";
const SEGMENT: &str = "segments.details";

/// Number of segments per page.
const PAGE: usize = 100;

const SEGMENTS_TAG: Tag = Tag {
    name: "Segments",
    about: "What the workspace file declares, and the segment of all users.",
};

/// ID in the examples.
const EXAMPLE: &str = "3c9f0a52-8f1e-4c57-9a3e-0d5b1c2e7f60";

pub(super) fn routes() -> Routes<App> {
    Routes::new()
        .route("/campaigns/details", gateway::protected(DETAILS, get(details)), [describe()])
        .route("/segments/list", gateway::protected(SEGMENTS, get(segments)), [describe_list()])
        .route("/segments/details", gateway::protected(SEGMENT, get(segment)), [describe_segment()])
}

/// The required id of a query; none if it is not a UUID, because then nothing can match.
fn id(query: Option<&str>, name: &str) -> Result<Option<Uuid>, String> {
    let id = parameter(query.unwrap_or_default(), name, "an id", |text| Some(text.to_owned()))?;
    let id = id.ok_or_else(|| format!("{name} is required"))?;
    Ok(Uuid::try_parse(&id).ok())
}

// Campaigns ----------------------------------------------------------------------------------

fn describe() -> Operation {
    Operation::new(Method::GET, "getCampaign", super::api::TAG, "Get a campaign")
        .by(Access::Key(DETAILS))
        .requires_in_query("campaign_id", "The id of the campaign.", json!({ "type": "string" }))
        .returns::<Details>(StatusCode::OK, "The campaign.")
        .with_example(json!({
            "message": "success", "created_at": "2026-11-20T08:00:00.000Z",
            "updated_at": "2026-11-21T08:00:00.000Z", "archived": false, "draft": false,
            "enabled": true, "name": "Welcome", "description": "",
            "schedule_type": "api_triggered", "channels": ["email"], "tags": ["onboarding"],
            "teams": [], "messages": { "email": { "channel": "email", "name": "" } },
            "conversion_behaviors": [],
        }))
        .refuses_some([id(None, "campaign_id")], "campaign_id is missing")
        .refuses(&no_campaign(), "The campaign does not exist")
}

fn no_campaign() -> ApiError {
    ApiError::NotFound("No campaign has this campaign_id".into())
}

/// A campaign as the workspace file declares it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CampaignDetails")]
struct Details {
    message: SuccessText,
    /// When it was first declared.
    #[serde(serialize_with = "serialize_time")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    created_at: i64,
    /// When its declaration last changed.
    #[serde(serialize_with = "serialize_time")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    updated_at: i64,
    archived: bool,
    /// Always false.
    draft: bool,
    /// Whether the campaign is neither archived nor paused.
    enabled: bool,
    name: String,
    /// Always empty.
    description: &'static str,
    #[schemars(extend("enum" = ["api_triggered", "action_based"]))]
    schedule_type: &'static str,
    channels: Vec<String>,
    tags: Vec<String>,
    /// Always empty.
    teams: [&'static str; 0],
    /// Keyed by `message_variation_id`, or by channel for messages without one.
    messages: BTreeMap<String, Message>,
    /// Always empty.
    conversion_behaviors: [&'static str; 0],
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CampaignMessage")]
struct Message {
    channel: String,
    /// Always empty.
    name: &'static str,
}

async fn details(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<axum::Json<Details>, ApiError> {
    let id = id(query.as_deref(), "campaign_id").map_err(ApiError::Invalid)?;
    let (id, workspace) = (id.ok_or_else(no_campaign)?, caller.workspace.id);
    let mut tx = app.request_queue.snapshot().await?;
    let campaign = rows::by_id(&mut tx, workspace, id).await?;
    let campaign =
        campaign.filter(|campaign| campaign.kind != Kind::Canvas).ok_or_else(no_campaign)?;
    let times = rows::times(&mut tx, workspace, id).await?;
    let (created_at, updated_at) = times.ok_or_else(no_campaign)?;
    let is_email = campaign.content.contains_key("email");
    let own = campaign.messages().into_iter().flatten();
    let mut messages: BTreeMap<String, Message> = own
        .map(|(channel, message)| {
            let variation = message.get("message_variation_id").and_then(Value::as_str);
            let message = Message { channel: channel.clone(), name: "" };
            (variation.unwrap_or(channel).to_owned(), message)
        })
        .collect();
    if is_email && campaign.kind == Kind::Transactional {
        let message = Message { channel: "email".to_owned(), name: "" };
        messages.insert("email".to_owned(), message);
    }
    let mut channels: Vec<String> =
        messages.values().map(|message| message.channel.clone()).collect();
    channels.sort();
    Ok(axum::Json(Details {
        message: SuccessText::Success,
        created_at,
        updated_at,
        archived: campaign.archived,
        draft: false,
        enabled: campaign.inactive().is_none(),
        name: campaign.name,
        description: "",
        schedule_type: match campaign.kind {
            Kind::Triggered => "action_based",
            _ => "api_triggered",
        },
        channels,
        tags: campaign.tags,
        teams: [],
        messages,
        conversion_behaviors: [],
    }))
}

// Segments -----------------------------------------------------------------------------------

fn describe_list() -> Operation {
    Operation::new(Method::GET, "listSegments", SEGMENTS_TAG, "List segments")
        .by(Access::Key(SEGMENTS))
        .about(
            "Sorted by name. Every workspace has a segment with the name `All users`, which its \
             file does not declare.",
        )
        .takes_page(PAGE as i64, "segments")
        .in_query(
            "sort_direction",
            "`asc` sorts by name; `desc` is the reverse order.",
            json!({ "enum": ["asc", "desc"], "default": "asc" }),
        )
        .returns::<SegmentPage>(StatusCode::OK, "A page of the list.")
        .with_example(json!({ "message": "success", "segments": [{
            "id": EXAMPLE, "name": "Gold", "analytics_tracking_enabled": false, "tags": [],
        }] }))
        .refuses_some([page("page=-1")], "A parameter is invalid or repeated")
}

#[derive(Serialize, JsonSchema)]
struct SegmentPage {
    message: SuccessText,
    segments: Vec<SegmentEntry>,
}

/// A segment that the workspace file declares.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Segment")]
struct SegmentEntry {
    id: Uuid,
    name: String,
    /// Always false.
    analytics_tracking_enabled: bool,
    /// Always empty.
    tags: [&'static str; 0],
}

fn page(query: &str) -> Result<(usize, bool), String> {
    let page = query::page(query)?;
    let is_reverse = parameter(query, "sort_direction", "asc or desc", |text| match text {
        "asc" => Some(false),
        "desc" => Some(true),
        _ => None,
    })?;
    Ok((page as usize, is_reverse.unwrap_or_default()))
}

async fn segments(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<axum::Json<SegmentPage>, ApiError> {
    let (page, is_reverse) =
        page(query.as_deref().unwrap_or_default()).map_err(ApiError::Invalid)?;
    let mut tx = app.request_queue.snapshot().await?;
    let mut segments = segments::segments(&mut tx, caller.workspace.id).await?;
    if is_reverse {
        segments.reverse();
    }
    let entry = |segment: gateway::workspaces::Segment| SegmentEntry {
        id: segment.id,
        name: segment.name,
        analytics_tracking_enabled: false,
        tags: [],
    };
    let segments = segments.into_iter().skip(page.saturating_mul(PAGE)).take(PAGE);
    let segments = segments.map(entry).collect();
    Ok(axum::Json(SegmentPage { message: SuccessText::Success, segments }))
}

fn describe_segment() -> Operation {
    Operation::new(Method::GET, "getSegment", SEGMENTS_TAG, "Get a segment")
        .by(Access::Key(SEGMENT))
        .requires_in_query("segment_id", "The id of the segment.", json!({ "type": "string" }))
        .returns::<SegmentDetails>(StatusCode::OK, "The segment.")
        .with_example(json!({
            "message": "success", "name": "Gold", "description": "",
            "text_description": "{\"custom_attribute\":{}}", "tags": [], "teams": [],
        }))
        .refuses_some([id(None, "segment_id")], "segment_id is missing")
        .refuses(&no_segment(), "The segment does not exist")
}

/// A segment as the workspace file declares it.
#[derive(Serialize, JsonSchema)]
struct SegmentDetails {
    message: SuccessText,
    name: String,
    /// Always empty.
    description: &'static str,
    /// The connected audience, as JSON.
    text_description: String,
    /// Always empty.
    tags: [&'static str; 0],
    /// Always empty.
    teams: [&'static str; 0],
}

fn no_segment() -> ApiError {
    ApiError::NotFound("No segment has this segment_id".into())
}

async fn segment(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<axum::Json<SegmentDetails>, ApiError> {
    let id = id(query.as_deref(), "segment_id").map_err(ApiError::Invalid)?;
    let id = id.ok_or_else(no_segment)?;
    let mut tx = app.request_queue.snapshot().await?;
    let mut segments = segments::segments(&mut tx, caller.workspace.id).await?.into_iter();
    let segment = segments.find(|segment| segment.id == id).ok_or_else(no_segment)?;
    Ok(axum::Json(SegmentDetails {
        message: SuccessText::Success,
        name: segment.name,
        description: "",
        text_description: segment.audience.to_string(),
        tags: [],
        teams: [],
    }))
}
