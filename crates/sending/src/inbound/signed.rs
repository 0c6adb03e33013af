//! Authentication of reports: the request must be signed (Standard Webhooks) with the secret that
//! the workspace declares.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};

use crate::app::App;
use gateway::workspaces::settings::{self, Secret, Settings};
use gateway::{self, ApiError, IdempotencyKey, JsonText};
use runtime::outbound::signature::{self, TIMESTAMP};

/// The idempotency scope of signed requests.
const ENDPOINT: &str = "signed reports";

/// A body that was signed.
pub struct Signed {
    pub workspace: i32,
    pub body: JsonText,
    /// The idempotency key of the request, because an eavesdropper could replay the request while
    /// its timestamp is recent.
    pub key: IdempotencyKey,
}

/// The key of a request by its `webhook-id`. A different body gives a different key.
fn key(workspace: i32, headers: &HeaderMap, body: &[u8]) -> IdempotencyKey {
    let id = headers.get(signature::ID).map_or(&[][..], |id| id.as_bytes());
    let digest = Sha256::new().chain_update(Sha256::digest(id)).chain_update(body).finalize();
    let key = BASE64_URL_SAFE_NO_PAD.encode(digest);
    IdempotencyKey { workspace, endpoint: ENDPOINT.into(), key }
}

/// Reads a request with a workspace, signed with the secret that `find_secret` returns. Every
/// authentication error is the same 401, and a log line has the reason. Checks that do not need the
/// body run before it is read. General errors of the request are reported before its workspace is
/// looked up, so that no other response reveals which workspaces exist.
pub async fn read(
    app: &App,
    request: Request,
    find_secret: fn(&Settings) -> Option<&Secret>,
) -> Result<Signed, ApiError> {
    let (head, body) = request.into_parts();
    let found = match JsonText::check_head(&head, &body, app) {
        Ok(()) => signer(app, &head).await,
        Err(error) => Err(error),
    };
    let (workspace, settings) = match found {
        Ok(found) => found,
        Err(error) => {
            gateway::discard(&head, body);
            return Err(error);
        }
    };
    let Some(Secret(secret)) = find_secret(&settings) else {
        gateway::discard(&head, body);
        return Err(unauthenticated(
            Some(workspace),
            "the workspace declares no secret for this request",
        ));
    };
    let headers = head.headers.clone();
    let extensions = head.extensions.clone();
    let body = match JsonText::unauthenticated(Request::from_parts(head, body), app).await {
        Err(
            ApiError::Invalid(_) | ApiError::Field(..) | ApiError::TooLarge | ApiError::TooSlow,
        ) => {
            return Err(unauthenticated(Some(workspace), "cannot read the request's body"));
        }
        body => body?,
    };
    let now = app.clock.now().as_second();
    if !signature::is_signed(secret, &headers, now, body.as_bytes()) {
        let reason = "its signature does not match the workspace's secret";
        return Err(unauthenticated(Some(workspace), reason));
    }
    gateway::mark_authenticated(&extensions, workspace);
    let key = key(workspace, &headers, body.as_bytes());
    let body = body.authenticated(app, workspace).await?;
    Ok(Signed { workspace, body, key })
}

/// The same error for all callers; the operator sees the reason, and the workspace if it exists.
fn unauthenticated(workspace: Option<i32>, why: &'static str) -> ApiError {
    tracing::warn!(workspace, why, "reports rejected");
    ApiError::Unauthenticated
}

/// The workspace of a request, with its settings.
async fn signer(app: &App, head: &Parts) -> Result<(i32, Arc<Settings>), ApiError> {
    let name = gateway::parameter(
        head.uri.query().unwrap_or_default(),
        "workspace",
        "a workspace's name",
        |name| Some(name.to_owned()),
    );
    let name =
        name.ok().flatten().ok_or_else(|| unauthenticated(None, "the workspace is missing"))?;
    let timestamp = head.headers.get(TIMESTAMP).and_then(|value| value.to_str().ok());
    let timestamp =
        timestamp.ok_or_else(|| unauthenticated(None, "webhook-timestamp is missing"))?;
    if !signature::is_recent(timestamp, app.clock.now().as_second()) {
        return Err(unauthenticated(None, "webhook-timestamp differs by more than five minutes"));
    }
    let found = app.known_names.find(app, &name).await?;
    let workspace = found.ok_or_else(|| unauthenticated(None, "unknown workspace"))?;
    Ok((workspace, settings::find(app, workspace).await?))
}
