//! `POST /messages/live_activity/start`: check, append, respond.

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::middleware::map_response;
use axum::response::Response;
use axum::routing::post;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::live_activity::StartRequest;
use gateway::error::ErrorMessage;
use gateway::formats::Success;
use gateway::idempotency::{Begun, Received, StoredResponse};
use gateway::openapi::Tag;
use gateway::warnings::Warned;
use gateway::workspaces::settings;
use gateway::{
    self, Access, ApiError, Caller, Code, IdempotencyKey, JsonText, Operation, Routes, idempotency,
};
use messages::app::App;
use messages::request::UNKNOWN_SEGMENT;

const PERMISSION: &str = "messages.live_activity.start";

const TAG: Tag = Tag { name: "Live activities", about: "Live activities of iOS apps." };

/// The route of live activities.
pub fn routes() -> Routes<App> {
    let route = gateway::protected(PERMISSION, post(start));
    let route = route.route_layer(map_response(with_own_body));
    Routes::new().route("/messages/live_activity/start", route, [describe()])
}

fn describe() -> Operation {
    Operation::new(Method::POST, "startLiveActivity", TAG, "Start a live activity")
        .by(Access::Key(PERMISSION))
        .about(
            "Starts the activity on the devices of users with a `live_activity` token for the app, \
             through the push provider. The response is sent once the request is durable; the \
             activity starts soon after. Users who have unsubscribed from push messages are \
             skipped. Frequency capping does not apply.",
        )
        .repeatable()
        .takes::<StartRequest>(
            "For one user",
            json!({
                "app_id": "7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33",
                "activity_id": "order-1907",
                "activity_attributes_type": "DeliveryAttributes",
                "activity_attributes": { "restaurant": "Corner Café" },
                "content_state": { "courier": "Ola", "minutes": 25 },
                "stale_date": "2127-01-01T12:30:00Z",
                "notification": {
                    "alert": { "title": "On its way", "body": "25 minutes to go" },
                },
                "external_user_ids": ["ann"],
            }),
        )
        .returns::<Warned<Success>>(StatusCode::CREATED, "The request is durable.")
        .refuses(
            &ApiError::invalid_field(UNKNOWN_SEGMENT),
            "No segment in this workspace has this segment_id",
        )
        .refuses_as::<LiveActivityError>(
            StatusCode::BAD_REQUEST,
            |body| json!({ "error": body["message"], "code": body["code"] }),
        )
}

/// An error.
#[derive(Serialize, JsonSchema)]
struct LiveActivityError {
    /// The text of the error, for people to read.
    error: String,
    code: Code,
}

/// Converts every 400 to this endpoint's own body. Other errors have the common format.
async fn with_own_body(mut response: Response) -> Response {
    if response.status() == StatusCode::BAD_REQUEST
        && let Some(ErrorMessage { message, code }) = response.extensions_mut().remove()
    {
        let body = LiveActivityError { error: message, code };
        *response.body_mut() = Body::from(json!(body).to_string());
    }
    response
}

async fn start(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    key: Option<IdempotencyKey>,
    body: JsonText,
) -> Result<StoredResponse, ApiError> {
    let turn = match idempotency::begin_append(&app, key, body).await? {
        Begun::Replay(response) => return Ok(response),
        Begun::Turn(turn) => turn,
    };
    let members = turn.in_place(JsonText::object)?;
    let settings = settings::find(&app, caller.workspace.id).await?;
    // Regular expressions of an audience are compiled.
    let start =
        app.cores.compute_here(caller.workspace.id, || StartRequest::read(&members, &settings));
    let start = start.map_err(|error| turn.rejected(error))?;
    let Received { id, at } = turn.received();
    let warnings = start.warnings.clone();
    let message = start.order(id, &caller, at).to_log(app.config.log.partitions)?;
    let answer = Warned { response: Success::default(), warnings };
    let response = StoredResponse::json(StatusCode::CREATED, &answer)?;
    turn.append(vec![message], response).await
}
