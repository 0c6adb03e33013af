//! `POST /messages/send` and `POST /messages/schedule/create`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::members::Members;
use super::order::Kind;
use super::request::{self, Refused, Wanted};
use super::{live_activity, openapi, settings};
use crate::app::App;
use crate::gateway::idempotency::{self, Answer, Received};
use crate::gateway::{self, ApiError, Caller, IdempotencyKey, JsonText, Routes, limits};
use crate::workspaces::Budget;
use crate::{campaigns, schedules};
use log::NewMessage;
use store::claims;

pub(super) const SEND: &str = "messages.send";
pub(super) const SCHEDULE: &str = "messages.schedule.create";

/// The routes of messages.
pub fn routes() -> Routes {
    let send = gateway::protected(SEND, post(send));
    let schedule = gateway::protected(SCHEDULE, post(schedule));
    Routes::new()
        .route("/messages/send", send, [openapi::send()])
        .route("/messages/schedule/create", schedule, [openapi::schedule()])
        .merge(live_activity::api::routes())
}

/// Counts the call against the budget that its body says, and answers it.
async fn send(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    key: Result<Option<IdempotencyKey>, ApiError>,
    body: Result<JsonText, ApiError>,
) -> Response {
    let read = body.and_then(|body| Ok((body.object_beside(&app)?, body)));
    let budget =
        read.as_ref().map_or(Budget::MessagesSend, |(members, _)| request::budget(members));
    let limit = caller.workspace.rate_limit(budget);
    let standing = limits::count(&app, caller.workspace.id, budget, limit).await;
    let answer = match (standing.retry_after, key, read) {
        (Some(seconds), ..) => Err(ApiError::RateLimited(seconds)),
        (None, Ok(key), Ok((members, body))) => take(app, caller, key, members, body).await,
        (None, Err(error), _) | (None, _, Err(error)) => Err(error),
    };
    let mut response = answer.into_response();
    standing.write(response.headers_mut());
    response
}

async fn take(
    app: App,
    caller: Caller,
    key: Option<IdempotencyKey>,
    members: Members,
    body: JsonText,
) -> Result<Response, ApiError> {
    let settings = settings::of(&app, caller.workspace.id).await?;
    // Regular expressions are compiled, and templates are read.
    let wanted = app.cores.compute_here(|| request::read_send(&members, &settings));
    let send = Send { caller, wanted, partitions: app.config.log.partitions };
    idempotency::append(app, key, body, send).await
}

/// A send that was asked for.
struct Send {
    caller: Caller,
    /// As the body is read now: what is refused may have been taken the first time.
    wanted: Result<Wanted, Refused>,
    /// Of the log.
    partitions: u32,
}

/// What is answered.
#[derive(Serialize)]
struct Taken {
    /// 32 hexadecimal digits.
    dispatch_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule_id: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    send_id: Option<String>,
    message: &'static str,
    /// Of message objects that are left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<Value>,
}

impl Taken {
    fn new(dispatch_id: Uuid, schedule_id: Option<Uuid>, wanted: &Wanted) -> Self {
        Self {
            dispatch_id: dispatch_id.simple().to_string(),
            schedule_id,
            send_id: wanted.send_id.clone(),
            message: "success",
            errors: wanted.problems.clone(),
        }
    }
}

impl idempotency::Work for Send {
    type Answer = Taken;
    const STATUS: StatusCode = StatusCode::CREATED;

    /// The same body comes to the same order as long as the workspace declares the same.
    fn read(&self, _: &JsonText, received: Received) -> Result<(Taken, Vec<NewMessage>), ApiError> {
        let wanted = self.wanted.as_ref().map_err(Refused::clone)?;
        let Caller { workspace, request_id, .. } = &self.caller;
        let order = wanted.order(Kind::Send, received, workspace.id, request_id);
        let taken = Taken::new(order.dispatch_id, None, wanted);
        Ok((taken, vec![order.to_log(self.partitions)?]))
    }

    fn taken(&self, _: &Taken) {
        count(Kind::Send);
    }
}

async fn schedule(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    key: Option<IdempotencyKey>,
    body: JsonText,
) -> Result<Answer, ApiError> {
    let members = body.object_beside(&app)?;
    let settings = settings::of(&app, caller.workspace.id).await?;
    let declared = declared(&app, &caller, &members).await?;
    let request =
        app.cores.compute_here(|| request::read_schedule(&members, declared.as_ref(), &settings));
    let clock = app.clock.clone();
    let is_new = Arc::new(AtomicBool::new(false));
    let made = is_new.clone();
    let answer = idempotency::transact(&app, key.as_ref(), body.as_bytes(), |tx| {
        Box::pin(async move {
            // Under a key, a repeat of what was taken is no longer looked at here.
            let (when, wanted) = request?;
            // The clock that it will be sent by, whatever a gateway's own shows.
            let now = clock.moved(claims::now(tx).await?);
            if when.is_past(now) {
                return Err(ApiError::Invalid(schedules::api::PAST.into()));
            }
            let received = Received { id: Uuid::now_v7(), at: now };
            let Caller { workspace, request_id, .. } = caller;
            let order = wanted.order(Kind::Schedule, received, workspace.id, &request_id);
            let new = schedules::New {
                id: Uuid::now_v7(),
                workspace_id: workspace.id,
                dispatch_id: order.dispatch_id,
                canvas_id: None,
                when,
                request: to_json(&order)?,
                request_id,
                created_at: now,
            };
            schedules::insert(tx, &new).await?;
            tracing::info!(schedule = %new.id, "messages were scheduled");
            made.store(true, Ordering::Relaxed);
            let taken = Taken::new(new.dispatch_id, Some(new.id), &wanted);
            Ok::<_, ApiError>(Answer { status: StatusCode::CREATED, body: to_json(&taken)? })
        })
    })
    .await?;
    if is_new.load(Ordering::Relaxed) {
        count(Kind::Schedule);
    }
    Ok(answer)
}

/// The message objects that a campaign declares, where the call has none of its own.
async fn declared(
    app: &App,
    caller: &Caller,
    members: &Members,
) -> Result<Option<Map<String, Value>>, ApiError> {
    let Some(id) = request::campaign_asked(members) else { return Ok(None) };
    let mut tx = app.calls.snapshot().await?;
    let campaign = campaigns::by_id(&mut tx, caller.workspace.id, id).await?;
    let messages = campaign.and_then(|mut campaign| campaign.content.remove("messages"));
    Ok(match messages {
        Some(Value::Object(messages)) => Some(messages),
        _ => None,
    })
}

fn to_json(value: &impl Serialize) -> Result<String, ApiError> {
    serde_json::to_string(value)
        .map_err(|error| ApiError::Internal(format!("what was asked cannot be written: {error}")))
}

fn count(kind: Kind) {
    metrics::counter!("longshore_orders_total", "kind" => kind.name()).increment(1);
}
