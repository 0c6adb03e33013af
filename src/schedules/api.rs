//! `POST /canvas/trigger/schedule/create` and `…/delete`, and the route of scheduled messages.

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use serde_json::{Value, json};
use uuid::Uuid;

use super::messages;
use super::request::{self, CanvasRequest};
use super::{State as ScheduleState, cancel, openapi, rows};
use crate::app::App;
use crate::campaigns;
use crate::gateway::idempotency::{self, Answer};
use crate::gateway::{self, ApiError, Caller, IdempotencyKey, JsonText, Routes};
use crate::messages::api::SCHEDULE;
use crate::messages::when::PAST;
use store::Tx;
use store::claims;

pub(super) const CREATE: &str = "canvas.trigger.schedule.create";
pub(super) const DELETE: &str = "canvas.trigger.schedule.delete";

pub(super) const SENT: &str = "The schedule has been sent already";

/// The routes of schedules.
pub fn routes() -> Routes {
    let create = gateway::protected(CREATE, post(create));
    let delete = gateway::protected(DELETE, post(delete));
    let messages = gateway::protected(SCHEDULE, post(messages::schedule));
    Routes::new()
        .route("/canvas/trigger/schedule/create", create, [openapi::create()])
        .route("/canvas/trigger/schedule/delete", delete, [openapi::delete()])
        .route("/messages/schedule/create", messages, [crate::messages::openapi::schedule()])
}

async fn create(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    key: Option<IdempotencyKey>,
    body: JsonText,
) -> Result<Answer, ApiError> {
    let members = body.object_beside(&app)?;
    // Regular expressions of an audience are compiled.
    let request = app.cores.compute_here(|| CanvasRequest::read(&members));
    let request = request.map_err(ApiError::Invalid)?;
    let clock = app.clock.clone();
    idempotency::transact(&app, key.as_ref(), body.as_bytes(), |tx| {
        Box::pin(async move {
            // The clock that it will be sent by, whatever a gateway's own shows.
            let now = clock.moved(claims::now(tx).await?);
            // Under a key, a repeat of what was taken in time is no longer looked at here.
            if request.when.is_past(now) {
                return Err(ApiError::Invalid(PAST.into()));
            }
            let canvas_id = find_canvas(tx, &caller, &request.canvas_id).await?;
            let new = new_schedule(caller, canvas_id, &request, now)?;
            super::insert(tx, &new).await?;
            tracing::info!(schedule = %new.id, canvas = %canvas_id, "a Canvas was scheduled");
            Ok(created(json!({
                "dispatch_id": new.dispatch_id.simple().to_string(),
                "schedule_id": new.id,
                "message": "success",
            })))
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
        when: request.when,
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
    let (canvas_id, schedule_id) = request::read_delete(&members).map_err(ApiError::Invalid)?;
    let now = app.clock.now_ms();
    idempotency::transact(&app, key.as_ref(), body.as_bytes(), |tx| {
        Box::pin(async move {
            let canvas_id = find_canvas(tx, &caller, &canvas_id).await?;
            let schedule_id = find_schedule(tx, &caller, canvas_id, &schedule_id).await?;
            if cancel(tx, schedule_id, now).await? == Some(ScheduleState::Sent) {
                return Err(ApiError::Invalid(SENT.into()));
            }
            tracing::info!(schedule = %schedule_id, "a Canvas's schedule was cancelled");
            Ok(created(json!({ "message": "success" })))
        })
    })
    .await
}

fn created(body: Value) -> Answer {
    Answer { status: StatusCode::CREATED, body: body.to_string() }
}

pub(super) fn no_canvas() -> ApiError {
    ApiError::NotFound("No Canvas has this canvas_id".into())
}

pub(super) fn no_schedule() -> ApiError {
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
