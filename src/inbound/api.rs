//! The routes of what comes back.

use axum::extract::{Path, Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json};
use serde_json::{Value, json};

use super::Appends;
use super::{events, feedback, openapi, signed, unsubscribe};
use crate::app::App;
use crate::gateway::{self, ApiError, RequestId, Routes};
use crate::messages::unsubscribe_token;

/// The routes.
pub fn routes() -> Routes {
    let unsubscribe = get(ask).post(unsubscribe);
    Routes::new()
        .route("/feedback/{provider}", post(feedback), [openapi::feedback()])
        .route("/email/events", post(events), [openapi::events()])
        .route("/email/unsubscribe/{token}", unsubscribe, [openapi::ask(), openapi::unsubscribe()])
        .tells(crate::messages::channels::openapi::webhooks())
}

async fn feedback(
    State(app): State<App>,
    Path(provider): Path<String>,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    if !feedback::PROVIDERS.contains(&provider.as_str()) {
        let (head, body) = request.into_parts();
        gateway::discard(&head, body);
        return Err(no_provider());
    }
    let signed = signed::read(&app, request, |settings| settings.feedback_secret.as_ref()).await?;
    let signed::Signed { workspace, body, key } = signed;
    let read = feedback::read(&body, app.clock.now_ms())?;
    feedback::apply(&app, workspace, &key, &read).await?;
    Ok(success())
}

pub(super) fn no_provider() -> ApiError {
    let providers = feedback::PROVIDERS.join(", ");
    ApiError::NotFound(format!("There is no such provider; there are: {providers}"))
}

async fn events(State(app): State<App>, request: Request) -> Result<Json<Value>, ApiError> {
    let signed =
        signed::read(&app, request, |settings| settings.email.as_ref()?.events_secret.as_ref());
    let signed::Signed { workspace, body, key } = signed.await?;
    let news = events::read(&body, app.clock.now_ms())?;
    events::apply(&app, workspace, &key, &news).await?;
    Ok(success())
}

fn success() -> Json<Value> {
    Json(json!({ "message": "success" }))
}

/// Changes nothing: whatever looks at links in emails comes here.
async fn ask(State(app): State<App>, Path(token): Path<String>) -> Result<Response, ApiError> {
    unsubscribe_token::read(&app.secrets, &token).ok_or_else(no_link)?;
    Ok(page(
        "<p>Do you want no more emails?</p>\n\
         <form method=\"post\"><button>Unsubscribe</button></form>",
    ))
}

async fn unsubscribe(
    State(app): State<App>,
    Extension(RequestId(request_id)): Extension<RequestId>,
    Path(token): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    // What is in it says nothing that the token does not.
    let (head, body) = request.into_parts();
    gateway::discard(&head, body);
    let whose = unsubscribe_token::read(&app.secrets, &token).ok_or_else(no_link)?;
    let appends = app.kept::<Appends>();
    appends.take_post(whose, app.clock.now_ms())?;
    if !unsubscribe::is_done(&app, whose).await {
        appends.take(whose, app.clock.now_ms())?;
        if let Err(error) = unsubscribe::unsubscribe(&app, whose, request_id).await {
            // While the log is unavailable, repeats must not use up what they may append after.
            appends.give_back(whose);
            return Err(error);
        }
    }
    Ok(page("<p>You are unsubscribed.</p>"))
}

pub(super) fn no_link() -> ApiError {
    ApiError::NotFound("This is no link to unsubscribe by".into())
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
