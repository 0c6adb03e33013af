//! The public keys that sign a workspace's exports, in the format of `ssh-keygen`.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use schemars::JsonSchema;
use serde_json::json;

use super::api::TAG;
use gateway::app::App;
use gateway::workspaces::signing;
use gateway::{ApiError, Operation, Routes};
use store::StoreError;

/// A new key may sign ten seconds after its announcement, so no cache may serve the list without it.
const CACHING: &str = "no-cache";

/// The file of a workspace that was last applied by a release without signing keys.
const NO_KEYS: &str = "# No keys yet: `longshore apply` or the first export creates one.\n";

pub fn routes() -> Routes<App> {
    Routes::new().route(
        "/.well-known/longshore/{workspace}/allowed_signers",
        get(serve),
        [describe()],
    )
}

/// A file for `ssh-keygen -Y verify -f`.
#[derive(JsonSchema)]
#[schemars(with = "String")]
struct AllowedSignersFile;

fn describe() -> Operation {
    Operation::new(Method::GET, "allowedSigners", TAG, "Get the keys that sign exports")
        .about(
            "The public keys of the workspace, one on each line, the newest first: an announced one, \
             which does not sign yet, the active one, and the retired ones with the time until which \
             they are valid. `ssh-keygen -Y verify` reads the file, \
             with the workspace as principal and the namespace `longshore-export`. Anyone may read \
             it: `ip_allowlist` does not apply. Keep your own copy, because whoever can replace the \
             files of an export may also be able to replace this response.",
        )
        .in_path(
            "workspace",
            "The name of the workspace.",
            json!({ "type": "string", "pattern": "^[A-Za-z0-9._-]{1,100}$", "examples": ["acme"] }),
        )
        .returns_as::<AllowedSignersFile>(StatusCode::OK, "The file.", "text/plain")
        .refuses(&unknown(), "Unknown workspace")
}

async fn serve(
    State(app): State<App>,
    workspace: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let Path(name) = workspace.map_err(|_| unknown())?;
    let workspace = app.known_names.find(&app, &name).await?.ok_or_else(unknown)?;
    let file = app.allowed_signers.get(workspace, read(app.clone(), workspace, name)).await?;
    let headers = [(CONTENT_TYPE, "text/plain; charset=utf-8"), (CACHE_CONTROL, CACHING)];
    Ok((headers, file.as_str().to_owned()).into_response())
}

async fn read(app: App, workspace: i32, name: String) -> Result<String, StoreError> {
    let mut tx = app.store.snapshot().await?;
    let keys = signing::list(&mut tx, workspace).await?;
    tx.commit().await?;
    if keys.is_empty() {
        return Ok(NO_KEYS.to_owned());
    }
    Ok(keys.iter().map(|key| format!("{}\n", key.allowed_signer(&name, &app.config))).collect())
}

fn unknown() -> ApiError {
    ApiError::NotFound("Unknown workspace".into())
}
