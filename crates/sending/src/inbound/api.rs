//! The routes for status reports and unsubscribe links.

use axum::extract::{Path, Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde_json::json;

use super::events::EmailEvents;
use super::feedback::{FeedbackRequest, PROVIDERS};
use super::unsubscribe::WINDOW;
use super::{events, feedback, signed, unsubscribe};
use crate::app::App;
use gateway::formats::Success;
use gateway::openapi::Tag;
use gateway::{self, Access, ApiError, Operation, RequestId, Routes};
use messages::channels::providers;
use messages::unsubscribe_token;

const TAG: Tag =
    Tag { name: "Reports", about: "Status reports of providers and relays, and unsubscribing." };

/// Ids in the examples.
const MESSAGE: &str = "0192f1d0c3a47b0e8f5a3c9d2e1b0a96.0190b9a61c0070008000000000000000.sms";
const MESSAGE_ID: &str =
    "<0192f1d0c3a47b0e8f5a3c9d2e1b0a96.0190b9a61c0070008000000000000000@acme.example>";

/// The routes.
pub fn routes() -> Routes<App> {
    let unsubscribe = get(ask).post(unsubscribe);
    Routes::new()
        .route("/feedback/{provider}", post(feedback), [describe_feedback()])
        .route("/email/events", post(events), [describe_events()])
        .route("/email/unsubscribe/{token}", unsubscribe, [describe_ask(), describe_unsubscribe()])
        .with_webhooks([providers::describe()])
}

fn with_signature_parameters(operation: Operation) -> Operation {
    let header = |operation: Operation, name: &str, about: &str| {
        operation.parameter(json!({
            "in": "header", "name": name, "required": true, "description": about,
            "schema": { "type": "string", "minLength": 1 },
        }))
    };
    let operation = operation.parameter(json!({
        "in": "query", "name": "workspace", "required": true,
        "schema": { "type": "string", "minLength": 1, "examples": ["acme"] },
        "description": "The workspace that sent the messages.",
    }));
    let operation = header(
        operation,
        "webhook-id",
        "An id chosen by the sender, unique for each request. A repeat within a day has no effect.",
    );
    header(
        operation,
        "webhook-timestamp",
        "Time of the signature, in seconds since the Unix epoch.",
    )
}

fn describe_feedback() -> Operation {
    let operation = Operation::new(
        Method::POST,
        "reportMessages",
        TAG,
        "Report the status of push, SMS and WhatsApp messages",
    )
    .by(Access::Signed("providers.feedback_secret"))
    .about(
        "The workspace's provider sends these reports. An invalid number gets no more messages \
         until it is removed from the list (`POST /sms/invalid_phone_numbers/remove`). A device \
         that is no longer registered is removed from the user's profile. An opt-out, such as a \
         reply of STOP, holds for the number, and so for all users who have it, now or later; \
         `push` does not take it. Reports about unknown \
         messages are ignored. If one report is invalid, none is applied.",
    )
    .in_path("provider", "The provider that sends the reports.", json!({ "enum": PROVIDERS }))
    .takes::<FeedbackRequest>(
        "A number, a device and a message",
        json!({ "reports": [
            { "type": "invalid_number", "number": "+15550100" },
            {
                "type": "unregistered_device", "id": MESSAGE, "token": "740f4707bebcf74f",
                "app_id": "app",
            },
            { "type": "failed", "id": MESSAGE, "reason": "blocked by the carrier" },
        ] }),
    )
    .returns_success(StatusCode::OK, "All reports are applied.")
    .refuses(&no_provider(), "Unknown provider");
    with_signature_parameters(operation)
}

fn describe_events() -> Operation {
    let operation = Operation::new(
        Method::POST,
        "reportEmails",
        TAG,
        "Report the status of emails",
    )
    .by(Access::Signed("email.events_secret"))
    .about(
        "The relay, or a program that forwards its events, sends these reports. A new status of a \
         transactional email is sent to the workspace as a postback. Repeated events and events of \
         unknown emails are ignored. If one event is invalid, none is applied.",
    )
    .takes::<EmailEvents>(
        "A delivered and a bounced email",
        json!({ "events": [
                { "type": "delivered", "id": MESSAGE_ID, "at": "2026-11-21T08:58:43Z" },
                { "type": "bounced", "id": MESSAGE_ID, "code": 550, "reason": "Unknown user" },
            ] }),
    )
    .returns_success(StatusCode::OK, "All reports are applied.");
    with_signature_parameters(operation)
}

/// An HTML page.
#[derive(JsonSchema)]
#[schemars(with = "String")]
struct UnsubscribePage;

fn with_token(operation: Operation) -> Operation {
    operation
        .in_path(
            "token",
            "Identifies the user and the address; part of the email's `List-Unsubscribe` header.",
            json!({ "type": "string", "pattern": "^([A-Za-z0-9_-]{70}|[A-Za-z0-9_-]{112})$" }),
        )
        .returns_as::<UnsubscribePage>(
            StatusCode::GONE,
            "The user no longer exists and gets no emails, or the address is from a preview.",
            "text/html",
        )
        .refuses(&no_link(), "The token is invalid")
}

fn describe_ask() -> Operation {
    let operation = Operation::new(
        Method::GET,
        "askToUnsubscribe",
        TAG,
        "Show the unsubscribe page",
    )
    .about(
        "Opening the page does not unsubscribe, because mail programs and filters open every link.",
    )
    .returns_as::<UnsubscribePage>(StatusCode::OK, "A page with a button.", "text/html");
    with_token(operation)
}

fn describe_unsubscribe() -> Operation {
    let operation = Operation::new(Method::POST, "unsubscribe", TAG, "Unsubscribe from emails")
        .about(
            "One-click unsubscribe (RFC 8058): the address that got the email is unsubscribed, and \
             so are all users who have it, now or later. If the user has another address now, that \
             one stays as it is. If the user was merged into another one, that user is \
             unsubscribed. The body is ignored; repeats have no effect.",
        )
        .refuses(
            &ApiError::RateLimited(WINDOW / 1_000),
            "The token was used several times in an hour, and the first request is still being \
             applied",
        )
        .returns_as::<UnsubscribePage>(
            StatusCode::OK,
            "The request is durable and takes effect within seconds.",
            "text/html",
        );
    with_token(operation)
}

async fn feedback(
    State(app): State<App>,
    Path(provider): Path<String>,
    request: Request,
) -> Result<Json<Success>, ApiError> {
    if !PROVIDERS.contains(&provider.as_str()) {
        let (head, body) = request.into_parts();
        gateway::discard(&head, body);
        return Err(no_provider());
    }
    let signed = signed::read(&app, request, |settings| settings.feedback_secret.as_ref()).await?;
    let signed::Signed { workspace, body, key } = signed;
    let reports = feedback::read(&body, app.clock.now_ms())?;
    feedback::apply(&app, workspace, &provider, &key, &reports).await?;
    Ok(Json(Success::default()))
}

fn no_provider() -> ApiError {
    let providers = PROVIDERS.join(", ");
    ApiError::NotFound(format!("Unknown provider; expected one of {providers}"))
}

async fn events(State(app): State<App>, request: Request) -> Result<Json<Success>, ApiError> {
    let signed =
        signed::read(&app, request, |settings| settings.email.as_ref()?.events_secret.as_ref());
    let signed::Signed { workspace, body, key } = signed.await?;
    let updates = events::read(&body, app.clock.now_ms())?;
    events::apply(&app, workspace, &key, &updates).await?;
    Ok(Json(Success::default()))
}

/// Does not unsubscribe, because some programs open every link in an email.
async fn ask(State(app): State<App>, Path(token): Path<String>) -> Result<Response, ApiError> {
    if token == unsubscribe_token::PREVIEW {
        return Ok(preview_link());
    }
    let recipient = unsubscribe_token::read(&app.secrets, &token).ok_or_else(no_link)?;
    if unsubscribe::link(&app, &recipient).await.is_none() {
        return Ok(dead_link());
    }
    Ok(page(
        "<p>Do you want to stop receiving emails?</p>\n<form \
         method=\"post\"><button>Unsubscribe</button></form>",
    ))
}

async fn unsubscribe(
    State(app): State<App>,
    Extension(RequestId(request_id)): Extension<RequestId>,
    Path(token): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    // The body has no information beyond the token.
    let (head, body) = request.into_parts();
    gateway::discard(&head, body);
    if token == unsubscribe_token::PREVIEW {
        return Ok(preview_link());
    }
    let recipient = unsubscribe_token::read(&app.secrets, &token).ok_or_else(no_link)?;
    let user = (recipient.workspace, recipient.user);
    let recent = &app.recent_unsubscribes;
    recent.take_post(user, app.clock.now_ms())?;
    let Some(link) = unsubscribe::link(&app, &recipient).await else {
        return Ok(dead_link());
    };
    if !link.is_unsubscribed {
        recent.take(user, app.clock.now_ms())?;
    } else if !recent.take_repeat(user, app.clock.now_ms()) {
        return Ok(unsubscribed());
    }
    let unsubscribed_link =
        unsubscribe::unsubscribe(&app, recipient.workspace, link, request_id).await;
    if let Err(error) = unsubscribed_link {
        // While the log is unavailable, repeats must not use up the allowed appends.
        recent.give_back(user);
        return Err(error);
    }
    Ok(unsubscribed())
}

fn unsubscribed() -> Response {
    page("<p>You are unsubscribed.</p>")
}

/// The response to a link that can do nothing. It must not look like success, because the person
/// may get emails as another user.
fn dead_link() -> Response {
    let text = "<p>This link no longer works: the profile that got the email was deleted. If you \
                still receive emails, use the link in a newer one.</p>";
    (StatusCode::GONE, page(text)).into_response()
}

/// The response to the address in previews. It must not look like success.
fn preview_link() -> Response {
    let text = "<p>This link is part of a preview, and unsubscribes nobody. The link in the email \
                that a person gets does.</p>";
    (StatusCode::GONE, page(text)).into_response()
}

fn no_link() -> ApiError {
    ApiError::NotFound("This is not a valid unsubscribe link".into())
}

fn page(content: &str) -> Response {
    let html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"robots\" content=\"noindex\">\n<title>Unsubscribe</title>\n\
         <style>body {{ font: 1.1em sans-serif; margin: 4em auto; max-width: 30em; padding: 0 1em }} \
         button {{ font: inherit; padding: .5em 1em }}</style>\n{content}\n</html>\n"
    );
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CACHE_CONTROL, "no-store"),
        (
            CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; \
             frame-ancestors 'none'",
        ),
    ];
    (headers, html).into_response()
}
