//! `POST /messages/live_activity/start`: check, append, answer.

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::middleware::map_response;
use axum::response::Response;
use axum::routing::post;
use serde::Serialize;
use serde_json::{Value, json};

use super::openapi;
use super::request::Start;
use crate::app::App;
use crate::gateway::error::Said;
use crate::gateway::idempotency::Received;
use crate::gateway::{self, ApiError, Caller, IdempotencyKey, JsonText, Routes, idempotency};
use crate::workspaces::settings;
use log::NewMessage;

pub(super) const PERMISSION: &str = "messages.live_activity.start";

/// The route of live activities.
pub fn routes() -> Routes {
    let route = gateway::protected(PERMISSION, post(start));
    let route = route.route_layer(map_response(reword));
    Routes::new().route("/messages/live_activity/start", route, [openapi::start()])
}

/// The body of this call's 400.
pub(super) fn in_its_words(said: &str) -> Value {
    json!({ "error": said })
}

/// Has a 400 say what is wrong in the body that it has here, whoever refuses; the other errors
/// are those of every call.
async fn reword(mut response: Response) -> Response {
    if response.status() == StatusCode::BAD_REQUEST
        && let Some(Said(said)) = response.extensions_mut().remove()
    {
        *response.body_mut() = Body::from(in_its_words(&said).to_string());
    }
    response
}

async fn start(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    key: Option<IdempotencyKey>,
    body: JsonText,
) -> Result<Response, ApiError> {
    let members = body.object_beside(&app)?;
    let settings = settings::of(&app, caller.workspace.id).await?;
    // Regular expressions of an audience are compiled.
    let start = app.cores.compute_here(|| Start::read(&members, &settings));
    let work = Work { caller, start, partitions: app.config.log.partitions };
    idempotency::append(app, key, body, work).await
}

#[derive(Serialize)]
struct Answer {
    message: &'static str,
}

/// A start that was asked for.
struct Work {
    caller: Caller,
    /// As the body is read now. What is refused may have been taken the first time.
    start: Result<Start, String>,
    /// Of the log.
    partitions: u32,
}

impl idempotency::Work for Work {
    type Answer = Answer;
    const STATUS: StatusCode = StatusCode::CREATED;

    fn read(
        &self,
        _: &JsonText,
        received: Received,
    ) -> Result<(Answer, Vec<NewMessage>), ApiError> {
        let start = self.start.as_ref().map_err(|text| ApiError::Invalid(text.clone()))?;
        let order = start.order(received.id, &self.caller, received.at);
        Ok((Answer { message: "success" }, vec![order.to_log(self.partitions)?]))
    }

    fn taken(&self, _: &Answer) {}
}
