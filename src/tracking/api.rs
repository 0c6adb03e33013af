//! `POST /users/track` (operation 1): check, append, answer.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Extension, Router};

use super::intake::{self, Answer, Intake, Request};
use super::{Kind, telemetry};
use crate::app::App;
use crate::gateway::{self, ApiError, Caller, JsonText};

const PERMISSION: &str = "users.track";

/// Bodies of more bytes are read on a thread that may compute: it takes more than a fraction
/// of a millisecond.
const INLINE_BYTES: usize = 64 << 10;

/// The routes of tracking.
pub fn routes() -> Router<App> {
    Router::new().route("/users/track", gateway::protected(PERMISSION, post(track)))
}

async fn track(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    body: JsonText,
) -> Result<(StatusCode, axum::Json<Answer>), ApiError> {
    let request = Request {
        workspace: caller.workspace.id,
        received_at: app.clock.now_ms(),
        partitions: app.config.log.partitions,
        request_id: caller.request_id,
    };
    let Intake { answer, messages } = read(&app, body, request).await?;
    app.log.append(messages).await?;
    for kind in Kind::ALL {
        telemetry::taken(kind, answer.processed(kind));
    }
    Ok((StatusCode::CREATED, axum::Json(answer)))
}

async fn read(app: &App, body: JsonText, request: Request) -> Result<Intake, ApiError> {
    if body.bytes() <= INLINE_BYTES {
        return intake::read(&body, &request);
    }
    let cores = app.cores.clone();
    let read = move || cores.compute(|| intake::read(&body, &request));
    let read = tokio::task::spawn_blocking(read).await;
    read.unwrap_or_else(|error| Err(ApiError::Internal(format!("reading a body: {error}"))))
}
