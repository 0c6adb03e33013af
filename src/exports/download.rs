//! `url`: an address of the gateway that anybody may open who has it. It is signed, says
//! when the export is not ready yet, and redirects to a short-lived address of the
//! storage from then on until it expires.

use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::Deserialize;

use super::{Job, Progress, rows};
use crate::app::App;
use crate::gateway::ApiError;
use crate::objects::ObjectKey;

/// What signatures of download addresses are derived for.
const PURPOSE: &str = "export download";

/// The longest that an address of the storage is valid.
const STORAGE_ADDRESS_VALID: Duration = Duration::from_secs(15 * 60);

pub fn routes() -> Router<App> {
    Router::new().route("/users/export/{object_prefix}/download", get(download))
}

/// The download address of an export.
pub fn address(app: &App, object_prefix: &str) -> String {
    let tag = app.secrets.derive(PURPOSE, &[object_prefix.as_bytes()]);
    let signature = BASE64_URL_SAFE_NO_PAD.encode(tag);
    let base = public_base(app);
    format!("{base}/users/export/{object_prefix}/download?signature={signature}")
}

/// Whether `signature` is that of the export's address.
fn is_signed(app: &App, object_prefix: &str, signature: &str) -> bool {
    BASE64_URL_SAFE_NO_PAD
        .decode(signature)
        .is_ok_and(|tag| app.secrets.verify(PURPOSE, &[object_prefix.as_bytes()], &tag))
}

fn public_base(app: &App) -> String {
    app.config.public_base(app.config.gateway.listen)
}

#[derive(Deserialize)]
struct Signature {
    #[serde(default)]
    signature: String,
}

async fn download(
    State(app): State<App>,
    Path(object_prefix): Path<String>,
    Query(Signature { signature }): Query<Signature>,
) -> Result<Response, ApiError> {
    if !is_signed(&app, &object_prefix, &signature) {
        return Err(not_found());
    }
    let (job, progress) = super::api::to_the_end({
        let app = app.clone();
        async move {
            let mut tx = app.store.snapshot().await?;
            Ok(rows::by_prefix(&mut tx, &object_prefix).await?)
        }
    })
    .await?
    .ok_or_else(not_found)?;
    let (attempt, valid) = what_is_valid(&app, &progress)?;
    let key = ObjectKey::ExportArchive { job: job.id, attempt };
    redirect(&app, &key, valid, &job).await
}

/// The attempt whose ZIP is behind the address, and for how long.
fn what_is_valid(app: &App, progress: &Progress) -> Result<(i32, Duration), ApiError> {
    use super::State as S;
    match (progress.state, progress.archive, progress.expires_at) {
        (S::Queued | S::Planning | S::Running | S::Finishing, ..) => {
            Err(ApiError::Forbidden("The export is not ready yet; its address works once it is"))
        }
        (S::Failed, ..) => Err(ApiError::Forbidden(
            "The export failed; GET /users/export/{object_prefix} says why",
        )),
        (S::Cancelled, ..) => Err(ApiError::Forbidden("The export was cancelled")),
        (S::Done, Some(attempt), Some(expires_at)) => {
            match u64::try_from(expires_at - app.clock.now_ms()) {
                Ok(left) if left > 0 => Ok((attempt, Duration::from_millis(left))),
                _ => Err(ApiError::Forbidden("The download address has expired")),
            }
        }
        // With own storage there is no address, whatever its signature.
        (S::Done, ..) => Err(not_found()),
    }
}

async fn redirect(
    app: &App,
    key: &ObjectKey,
    valid: Duration,
    job: &Job,
) -> Result<Response, ApiError> {
    let file_name = format!("{}.zip", job.object_prefix);
    let valid = valid.min(STORAGE_ADDRESS_VALID);
    let address = app.objects.signed_get(key, valid, &file_name).await?;
    // Of files, it is a path below our own address.
    let address = if address.starts_with('/') { public_base(app) + &address } else { address };
    let location = HeaderValue::try_from(address)
        .map_err(|_| ApiError::Internal("a storage address that is no header value".into()))?;
    let headers = [
        (header::LOCATION, location),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((StatusCode::FOUND, headers).into_response())
}

fn not_found() -> ApiError {
    ApiError::NotFound("No such download".into())
}
