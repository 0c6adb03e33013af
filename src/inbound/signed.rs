//! Who may report: whoever signs the request (Standard Webhooks) with the secret that the
//! workspace declares for it.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};

use crate::app::App;
use crate::credentials::FindError;
use crate::credentials::listing::Listing;
use crate::gateway::{self, ApiError, IdempotencyKey, JsonText};
use crate::outbound::signature::{self, TIMESTAMP};
use crate::workspaces;
use crate::workspaces::settings::{self, Secret, Settings};

/// What signed requests are remembered under.
const ENDPOINT: &str = "signed reports";

/// A body that was signed.
pub struct Signed {
    pub workspace: i32,
    pub body: JsonText,
    /// The same for a request that comes again: whoever has seen one could send it once more for
    /// as long as its time is recent.
    pub key: IdempotencyKey,
}

/// The key of a request by its `webhook-id`. One under which something else comes is another one.
fn key(workspace: i32, headers: &HeaderMap, body: &[u8]) -> IdempotencyKey {
    let id = headers.get(signature::ID).map_or(&[][..], |id| id.as_bytes());
    let digest = Sha256::new().chain_update(Sha256::digest(id)).chain_update(body).finalize();
    let key = BASE64_URL_SAFE_NO_PAD.encode(digest);
    IdempotencyKey { workspace, endpoint: ENDPOINT.into(), key }
}

/// Reads a request that names its workspace and is signed with the secret that `of` chooses.
/// Everything that is wrong with that is the same 401, and a log line says which it was; what can
/// be seen without the body is looked at before it. What is wrong with the request whoever sends
/// it is answered before its workspace is looked up, so that no other answer tells which
/// workspaces there are.
pub async fn read(
    app: &App,
    request: Request,
    of: fn(&Settings) -> Option<&Secret>,
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
    let Some(Secret(secret)) = of(&settings) else {
        gateway::discard(&head, body);
        return Err(refused(Some(workspace), "the workspace declares no secret for it"));
    };
    let headers = head.headers.clone();
    let extensions = head.extensions.clone();
    let body = match JsonText::unproved(Request::from_parts(head, body), app).await {
        Err(
            ApiError::Invalid(_) | ApiError::Field(..) | ApiError::TooLarge | ApiError::TooSlow,
        ) => {
            return Err(refused(Some(workspace), "its body cannot be read"));
        }
        body => body?,
    };
    let now = app.clock.now().as_second();
    match signature::is_signed(secret, &headers, now, body.as_bytes()) {
        true => {
            gateway::prove(&extensions, workspace);
            let key = key(workspace, &headers, body.as_bytes());
            let body = body.proved(app, workspace).await?;
            Ok(Signed { workspace, body, key })
        }
        false => {
            Err(refused(Some(workspace), "it is not signed with the workspace's secret for it"))
        }
    }
}

/// The same for all callers; the operator is told why, and of which workspace where there is one.
fn refused(workspace: Option<i32>, why: &'static str) -> ApiError {
    tracing::warn!(workspace, why, "reports were refused");
    ApiError::Unauthenticated
}

/// The workspace that a request names, with its settings.
async fn signer(app: &App, head: &Parts) -> Result<(i32, Arc<Settings>), ApiError> {
    let name = gateway::parameter(
        head.uri.query().unwrap_or_default(),
        "workspace",
        "a workspace's name",
        |name| Some(name.to_owned()),
    );
    let name = name.ok().flatten().ok_or_else(|| refused(None, "no workspace is named"))?;
    let timestamp = head.headers.get(TIMESTAMP).and_then(|value| value.to_str().ok());
    let timestamp = timestamp.ok_or_else(|| refused(None, "it has no webhook-timestamp"))?;
    if !signature::is_recent(timestamp, app.clock.now().as_second()) {
        return Err(refused(None, "its webhook-timestamp is more than five minutes off"));
    }
    let found = app.kept::<KnownNames>().find(app, &name).await?;
    let workspace = found.ok_or_else(|| refused(None, "there is no such workspace"))?;
    Ok((workspace, settings::of(app, workspace).await?))
}

/// The ids of workspaces by their names, which neither ever changes.
#[derive(Default)]
pub struct KnownNames(Listing<HashMap<String, i32>>);

impl KnownNames {
    async fn find(&self, app: &App, name: &str) -> Result<Option<i32>, ApiError> {
        if let Some(id) = self.0.latest().and_then(|ids| ids.get(name).copied()) {
            return Ok(Some(id));
        }
        Ok(self.read(app).await?.get(name).copied())
    }

    /// Reads them.
    pub async fn read(&self, app: &App) -> Result<Arc<HashMap<String, i32>>, FindError> {
        let store = app.store.clone();
        let ids = self.0.renewed(async move {
            let mut tx = store.snapshot().await?;
            let ids = workspaces::ids(&mut tx).await?;
            tx.commit().await?;
            Ok(ids)
        });
        ids.await
    }
}
