//! `POST /users/track`: check, append, answer.

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{MethodRouter, post};

use super::intake::{self, Answer, Intake, Request};
use super::{Kind, openapi, telemetry};
use crate::app::App;
use crate::gateway::idempotency::Received;
use crate::gateway::{self, ApiError, Caller, IdempotencyKey, JsonText, Routes, idempotency};
use log::NewMessage;

pub(super) const PERMISSION: &str = "users.track";

pub const PATH: &str = "/users/track";

/// The routes of tracking.
pub fn routes() -> Routes {
    let route = gateway::protected(PERMISSION, unprotected());
    Routes::new().route(PATH, route, [openapi::track()])
}

/// The call without its key: whoever serves it says who the [`Caller`] is.
pub fn unprotected() -> MethodRouter<App> {
    post(track)
}

async fn track(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    key: Option<IdempotencyKey>,
    body: JsonText,
) -> Result<Response, ApiError> {
    let track = Track {
        workspace: caller.workspace.id,
        partitions: app.config.log.partitions,
        request_id: caller.request_id,
    };
    idempotency::append(app, key, body, track).await
}

struct Track {
    workspace: i32,
    partitions: u32,
    request_id: String,
}

impl idempotency::Work for Track {
    type Answer = Answer;
    const STATUS: StatusCode = StatusCode::CREATED;

    fn read(
        &self,
        body: &JsonText,
        received: Received,
    ) -> Result<(Answer, Vec<NewMessage>), ApiError> {
        let request = Request {
            workspace: self.workspace,
            received_at: received.at,
            partitions: self.partitions,
            request_id: self.request_id.clone(),
        };
        let Intake { answer, messages } = intake::read(body, &request)?;
        Ok((answer, messages))
    }

    fn taken(&self, answer: &Answer) {
        for kind in Kind::ALL {
            telemetry::taken(kind, answer.processed(kind));
        }
        telemetry::refused(&answer.refused);
    }
}
