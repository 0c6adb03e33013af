//! `POST /canvas/trigger/schedule/create` and `…/delete`, and the route of scheduled messages.

use axum::Extension;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::routing::post;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use super::messages;
use super::request::{CanvasRequest, Deletion};
use super::{State as ScheduleState, cancel, rows};
use crate::app::App;
use crate::campaigns;
use crate::gateway::formats::{Success, SuccessText};
use crate::gateway::idempotency::{self, Answer};
use crate::gateway::openapi::Tag;
use crate::gateway::{
    self, Access, ApiError, Caller, IdempotencyKey, JsonText, Operation, Routes, fields,
};
use crate::messages::api::{DISPATCH_ID, SCHEDULE, describe_schedule};
use crate::messages::when::PAST;
use store::Tx;
use store::claims;

const CREATE: &str = "canvas.trigger.schedule.create";
const DELETE: &str = "canvas.trigger.schedule.delete";

const SENT: &str = "The schedule has been sent already";

const TAG: Tag =
    Tag { name: "Canvas schedules", about: "Sends of a Canvas that wait for their time." };

/// Of the examples.
const CANVAS: &str = "0b0a6c8e-6d0c-4f39-9d0b-6f0f6f9a2c11";

/// The routes of schedules.
pub fn routes() -> Routes {
    let create = gateway::protected(CREATE, post(create));
    let delete = gateway::protected(DELETE, post(delete));
    let messages = gateway::protected(SCHEDULE, post(messages::schedule));
    Routes::new()
        .route("/canvas/trigger/schedule/create", create, [describe_create()])
        .route("/canvas/trigger/schedule/delete", delete, [describe_delete()])
        .route("/messages/schedule/create", messages, [describe_schedule()])
}

fn describe_create() -> Operation {
    Operation::new(Method::POST, "scheduleCanvas", TAG, "Schedule a Canvas")
        .by(Access::Key(CREATE))
        .about(
            "For users, for an audience, or for everybody who is not in the global control group. \
             It is sent once, within a second of its time, as the Canvas is declared then. One \
             whose time passes while nothing can send it is sent afterwards if it is less than an \
             hour late, and else is missed.",
        )
        .repeatable()
        .takes::<CanvasRequest>(
            "One user, on their morning",
            json!({
                "canvas_id": CANVAS,
                "schedule": { "time": "2127-01-01T09:00:00", "in_local_time": true },
                "recipients": [
                    { "external_user_id": "ann", "trigger_properties": { "seats": 2 } },
                ],
                "canvas_entry_properties": { "city": "Oslo" },
            }),
        )
        .answers::<Scheduled>(StatusCode::CREATED, "It is scheduled.")
        .with_link(
            "deleteSchedule",
            json!({ "requestBody": {
                "canvas_id": "$request.body#/canvas_id",
                "schedule_id": "$response.body#/schedule_id",
            } }),
        )
        .refuses(&no_canvas(), "The workspace has no such Canvas")
        .refuses(
            &ApiError::Invalid(PAST.into()),
            "The time is past, in every zone where that counts",
        )
}

/// What was scheduled.
#[derive(Serialize, JsonSchema)]
struct Scheduled {
    #[schemars(regex(pattern = DISPATCH_ID))]
    dispatch_id: String,
    schedule_id: Uuid,
    message: SuccessText,
}

fn describe_delete() -> Operation {
    Operation::new(Method::POST, "deleteSchedule", TAG, "Cancel a Canvas's schedule")
        .by(Access::Key(DELETE))
        .about(
            "Cancelling again gives the same answer. Of what is being sent, the part that is not \
             sent yet is kept back as far as that can be done.",
        )
        .repeatable()
        .takes::<Deletion>(
            "A schedule",
            json!({ "canvas_id": CANVAS, "schedule_id": "019a9f3e-7c11-7d22-8e33-9f44a055b166" }),
        )
        .answers_success(StatusCode::CREATED, "It is cancelled.")
        .refuses(&no_canvas(), "The workspace has no such Canvas")
        .refuses(&no_schedule(), "The Canvas has no such schedule")
        .refuses(&ApiError::Invalid(SENT.into()), "It was sent")
}

async fn create(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    key: Option<IdempotencyKey>,
    body: JsonText,
) -> Result<Answer, ApiError> {
    let members = body.object_beside(&app)?;
    // Regular expressions of an audience are compiled.
    let request = app.cores.compute_here(|| CanvasRequest::read(&members))?;
    let clock = app.clock.clone();
    idempotency::transact(&app, key.as_ref(), body.as_bytes(), |tx| {
        Box::pin(async move {
            // The clock that it will be sent by, whatever a gateway's own shows.
            let now = clock.moved(claims::now(tx).await?);
            // Under a key, a repeat of what was taken in time is no longer looked at here.
            if request.what.schedule.is_past(now) {
                return Err(ApiError::Invalid(PAST.into()));
            }
            let canvas_id = find_canvas(tx, &caller, &request.what.canvas_id).await?;
            let new = new_schedule(caller, canvas_id, &request, now)?;
            super::insert(tx, &new).await?;
            tracing::info!(schedule = %new.id, canvas = %canvas_id, "a Canvas was scheduled");
            let scheduled = Scheduled {
                dispatch_id: new.dispatch_id.simple().to_string(),
                schedule_id: new.id,
                message: SuccessText::Success,
            };
            Answer::of(StatusCode::CREATED, &scheduled)
        })
    })
    .await
}

fn new_schedule(
    caller: Caller,
    canvas_id: Uuid,
    request: &CanvasRequest,
    now: i64,
) -> Result<rows::New, ApiError> {
    let target = serde_json::to_string(&request.target)
        .map_err(|error| ApiError::Internal(format!("a schedule cannot be written: {error}")))?;
    Ok(rows::New {
        id: Uuid::now_v7(),
        workspace_id: caller.workspace.id,
        dispatch_id: Uuid::new_v4(),
        canvas_id: Some(canvas_id),
        when: request.what.schedule,
        request: target,
        request_id: caller.request_id,
        created_at: now,
    })
}

async fn delete(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    key: Option<IdempotencyKey>,
    body: JsonText,
) -> Result<Answer, ApiError> {
    let members = body.object_beside(&app)?;
    let Deletion { canvas_id, schedule_id } = fields::read(&members)?;
    let now = app.clock.now_ms();
    idempotency::transact(&app, key.as_ref(), body.as_bytes(), |tx| {
        Box::pin(async move {
            let canvas_id = find_canvas(tx, &caller, &canvas_id).await?;
            let schedule_id = find_schedule(tx, &caller, canvas_id, &schedule_id).await?;
            if cancel(tx, schedule_id, now).await? == Some(ScheduleState::Sent) {
                return Err(ApiError::Invalid(SENT.into()));
            }
            tracing::info!(schedule = %schedule_id, "a Canvas's schedule was cancelled");
            Answer::of(StatusCode::CREATED, &Success::default())
        })
    })
    .await
}

fn no_canvas() -> ApiError {
    ApiError::NotFound("No Canvas has this canvas_id".into())
}

fn no_schedule() -> ApiError {
    ApiError::NotFound("No schedule of this Canvas has this schedule_id".into())
}

/// The caller's Canvas of that id. What is no UUID is as unknown as one that nobody has.
async fn find_canvas(tx: &mut Tx, caller: &Caller, id: &str) -> Result<Uuid, ApiError> {
    let id = Uuid::try_parse(id).map_err(|_| no_canvas())?;
    let is_there = campaigns::has_canvas(tx, caller.workspace.id, id).await?;
    is_there.then_some(id).ok_or_else(no_canvas)
}

/// The Canvas's schedule of that id, likewise.
async fn find_schedule(
    tx: &mut Tx,
    caller: &Caller,
    canvas_id: Uuid,
    id: &str,
) -> Result<Uuid, ApiError> {
    let id = Uuid::try_parse(id).map_err(|_| no_schedule())?;
    let schedule = rows::by_id(tx, id).await?.ok_or_else(no_schedule)?;
    let is_own =
        schedule.workspace_id == caller.workspace.id && schedule.canvas_id == Some(canvas_id);
    is_own.then_some(id).ok_or_else(no_schedule)
}
