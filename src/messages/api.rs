//! `POST /messages/send`.

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::members::Members;
use super::order::Kind;
use super::request::{self, Refused, Wanted};
use super::{live_activity, openapi};
use crate::app::App;
use crate::campaigns;
use crate::gateway::idempotency::{self, Received};
use crate::gateway::{self, ApiError, Caller, IdempotencyKey, JsonText, Routes, limits};
use crate::workspaces::Budget;
use crate::workspaces::settings;
use log::NewMessage;

pub(super) const SEND: &str = "messages.send";
pub(crate) const SCHEDULE: &str = "messages.schedule.create";

/// The routes of messages.
pub fn routes() -> Routes {
    let send = gateway::protected(SEND, post(send));
    Routes::new()
        .route("/messages/send", send, [openapi::send()])
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
    let campaigns = campaigns::of_calls(&app, caller.workspace.id).await?;
    // Regular expressions are compiled, and templates are read.
    let wanted = app.cores.compute_here(|| request::read_send(&members, &settings, &campaigns));
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
pub(crate) struct Taken {
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
    pub(crate) fn new(dispatch_id: Uuid, schedule_id: Option<Uuid>, wanted: &Wanted) -> Self {
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

pub(crate) fn count(kind: Kind) {
    metrics::counter!("longshore_orders_total", "kind" => kind.name()).increment(1);
}
