//! Requests that send Canvases, now or later, and the routes of all schedules.

use axum::Extension;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::routing::post;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use super::change::no_canvas;
use super::request::{CanvasKey, CanvasRequest, CanvasSendRequest, ScheduledCanvas, Target};
use super::{broadcasts, change, create, rows};
use crate::app::App;
use content::campaigns;
use dispatches::orders::{DISPATCH_ID, SCHEDULE, describe_schedule, describe_schedule_campaign};
use gateway::formats::SuccessText;
use gateway::idempotency::{self, Begun, StoredResponse};
use gateway::openapi::Tag;
use gateway::warnings::Warning;
use gateway::{self, Access, ApiError, Caller, IdempotencyKey, JsonText, Operation, Routes};
use messages::when::PAST;
use messages::{Timing, When};
use store::Tx;

const CREATE: &str = "canvas.trigger.schedule.create";
const SEND: &str = "canvas.trigger.send";
const CAMPAIGN: &str = "campaigns.trigger.schedule.create";

const TAG: Tag = Tag { name: "Canvas schedules", about: "Scheduled sends of a Canvas." };

/// The Canvas in the examples.
const CANVAS: &str = "0b0a6c8e-6d0c-4f39-9d0b-6f0f6f9a2c11";

/// The routes of schedules.
pub fn routes() -> Routes<App> {
    let create = gateway::protected(CREATE, post(create));
    let send = gateway::protected(SEND, post(send));
    let later = |permission, endpoint: create::Endpoint| {
        gateway::protected(permission, post(create::schedule).layer(Extension(endpoint)))
    };
    let (own, campaign) = (create::Endpoint::Messages, create::Endpoint::Campaign);
    Routes::new()
        .route("/canvas/trigger/schedule/create", create, [describe_create()])
        .route("/canvas/trigger/send", send, [describe_send()])
        .route("/messages/schedule/create", later(SCHEDULE, own), [describe_schedule()])
        .route(
            "/campaigns/trigger/schedule/create",
            later(CAMPAIGN, campaign),
            [describe_schedule_campaign(CAMPAIGN)],
        )
        .merge(change::routes())
        .merge(broadcasts::routes())
}

fn describe_create() -> Operation {
    Operation::new(Method::POST, "scheduleCanvas", TAG, "Schedule a Canvas")
        .by(Access::Key(CREATE))
        .about(
            "Schedules the Canvas for listed users, an audience, or all users outside of the \
             global control group. The Canvas is sent once, within a second of its time, with the \
             messages that it declares at that time. If the service is down at that time and \
             starts again within an hour, the Canvas is sent then; otherwise it is missed.",
        )
        .repeatable()
        .takes::<CanvasRequest>(
            "To one user, at 9:00 local time",
            json!({
                "canvas_id": CANVAS,
                "schedule": { "time": "2127-01-01T09:00:00", "in_local_time": true },
                "recipients": [
                    { "external_user_id": "ann", "trigger_properties": { "seats": 2 } },
                ],
                "canvas_entry_properties": { "city": "Oslo" },
            }),
        )
        .returns::<Scheduled>(StatusCode::CREATED, "The Canvas is scheduled.")
        .refuses(&no_canvas(), "No Canvas in this workspace has this canvas_id")
        .refuses(
            &ApiError::Invalid(PAST.into()),
            "The time is in the past, in every time zone for a local time",
        )
}

fn describe_send() -> Operation {
    Operation::new(Method::POST, "sendCanvas", TAG, "Send a Canvas now")
        .by(Access::Key(SEND))
        .about("Starts to send the Canvas within a second.")
        .repeatable()
        .takes::<CanvasSendRequest>(
            "To one user",
            json!({ "canvas_id": CANVAS, "recipients": [{ "external_user_id": "ann" }] }),
        )
        .returns::<Scheduled>(StatusCode::CREATED, "The request is durable.")
        .refuses(&no_canvas(), "No Canvas in this workspace has this canvas_id")
}

/// The response to an accepted schedule.
#[derive(Serialize, JsonSchema)]
struct Scheduled {
    #[schemars(regex(pattern = DISPATCH_ID))]
    dispatch_id: String,
    schedule_id: Uuid,
    message: SuccessText,
    /// Parts of the request that have no effect; at most 20.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Warning>,
}

async fn create(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    key: Option<IdempotencyKey>,
    body: JsonText,
) -> Result<StoredResponse, ApiError> {
    let members = body.object_in_place(&app)?;
    // Regular expressions of an audience are compiled.
    let workspace = caller.workspace.id;
    let request = app.cores.compute_here(workspace, || CanvasRequest::read(&members)).map(
        |(CanvasRequest { canvas: ScheduledCanvas { canvas_id, schedule }, target }, warnings)| {
            AcceptedCanvas { canvas_id, when: Some(schedule), target, warnings }
        },
    );
    accept(&app, caller, key, &body, request).await
}

async fn send(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    key: Option<IdempotencyKey>,
    body: JsonText,
) -> Result<StoredResponse, ApiError> {
    let members = body.object_in_place(&app)?;
    let workspace = caller.workspace.id;
    let request = app.cores.compute_here(workspace, || CanvasSendRequest::read(&members)).map(
        |(CanvasSendRequest { canvas: CanvasKey { canvas_id }, target }, warnings)| {
            AcceptedCanvas { canvas_id, when: None, target, warnings }
        },
    );
    accept(&app, caller, key, &body, request).await
}

/// A checked request.
struct AcceptedCanvas {
    canvas_id: String,
    /// None to send now.
    when: Option<When>,
    target: Target,
    warnings: Vec<Warning>,
}

/// Writes a schedule; without a time, it is due now.
async fn accept(
    app: &App,
    caller: Caller,
    key: Option<IdempotencyKey>,
    body: &JsonText,
    request: Result<AcceptedCanvas, ApiError>,
) -> Result<StoredResponse, ApiError> {
    let mut turn = match idempotency::begin_change(app, key, body.as_bytes()).await? {
        Begun::Replay(response) => return Ok(response),
        Begun::Turn(turn) => turn,
    };
    // After the stored response: a body that was valid for it may be invalid now.
    let AcceptedCanvas { canvas_id, when, mut target, warnings } = request?;
    // The database's clock, by which it will be sent, whatever a gateway's own clock shows.
    let now = app.database_now(&mut turn.tx).await?;
    if when.is_some_and(|when| when.is_past(now)) {
        return Err(ApiError::Invalid(PAST.into()));
    }
    let is_send = when.is_none();
    let when = when.unwrap_or(When { timing: Timing::Instant, time: now });
    let canvas_id = find_canvas(&mut turn.tx, &caller, &canvas_id).await?;
    target.requested_by = Some(caller.actor());
    let new = new_schedule(&caller, canvas_id, when, &target, now)?;
    super::insert(&mut turn.tx, &new).await?;
    // A send has a history of its own.
    let change = (!is_send).then(|| new.change());
    let recording = caller.record(&mut turn.tx, now, change).await?;
    let scheduled = Scheduled {
        dispatch_id: new.dispatch_id.simple().to_string(),
        schedule_id: new.id,
        message: SuccessText::Success,
        warnings,
    };
    let response = turn.commit(StoredResponse::json(StatusCode::CREATED, &scheduled)?).await?;
    tracing::info!(schedule = %new.id, canvas = %canvas_id, "Canvas scheduled");
    Ok(response.recorded(recording))
}

fn new_schedule(
    caller: &Caller,
    canvas_id: Uuid,
    when: When,
    target: &Target,
    now: i64,
) -> Result<rows::New, ApiError> {
    let target = serde_json::to_string(target)
        .map_err(|error| ApiError::Internal(format!("cannot write a schedule: {error}")))?;
    Ok(rows::New {
        id: Uuid::now_v7(),
        workspace_id: caller.workspace.id,
        dispatch_id: Uuid::new_v4(),
        canvas_id: Some(canvas_id),
        when,
        request: target,
        request_id: caller.request_id.clone(),
        created_at: now,
    })
}

/// The caller's Canvas with that id. A value that is not a UUID counts as unknown.
async fn find_canvas(tx: &mut Tx, caller: &Caller, id: &str) -> Result<Uuid, ApiError> {
    let id = Uuid::try_parse(id).map_err(|_| no_canvas())?;
    let is_there = campaigns::has_canvas(tx, caller.workspace.id, id).await?;
    is_there.then_some(id).ok_or_else(no_canvas)
}
