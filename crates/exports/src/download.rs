//! `url`: a signed URL of the gateway, usable by anyone who has it. It reports an unfinished
//! export, and redirects to a short-lived URL of the storage after that, until it expires.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use axum::body::Body;
use axum::extract::{Query, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde_json::{Value, json};
use tower::ServiceExt as _;
use tower_http::services::ServeFile;

use super::api::TAG;
use super::conditions::{self, FileState};
use super::status::{ObjectPrefix, prefix_in_path};
use super::{Job, Progress, paths, range, rows};
use gateway::app::App;
use gateway::workspaces;
use gateway::{self, ADDRESS_REFUSED, ApiError, Operation, Routes};
use objects::files::SignatureError;
use objects::{Objects, content_disposition};
use proof::manifest;
use store::Tx;

/// The purpose of the signatures.
const PURPOSE: &str = "export download";

const EXPIRED: &str = "The download URL has expired";

/// The maximum lifetime of the storage's URL.
const MAX_STORAGE_LIFETIME: Duration = Duration::from_secs(15 * 60);

pub fn routes() -> Routes<App> {
    Routes::new()
        .route(
            "/users/export/{object_prefix}/download",
            route(Download::Archive),
            [describe_download()],
        )
        .route(
            "/users/export/{object_prefix}/manifest.json",
            route(Download::Proof(manifest::MANIFEST_SUFFIX)),
            [describe_manifest()],
        )
        .route(
            "/users/export/{object_prefix}/SHA256SUMS",
            route(Download::Proof(manifest::CHECKSUMS_SUFFIX)),
            [describe_checksums()],
        )
        .route(
            "/users/export/{object_prefix}/manifest.json.sig",
            route(Download::Proof(manifest::SIGNATURE_SUFFIX)),
            [describe_signature()],
        )
        .route("/objects/{*path}", get(serve), [describe_serve()])
}

/// The description of [`ADDRESS_REFUSED`] for downloads.
const SENDER_REFUSED: &str = "The sender's address is not on the workspace's `ip_allowlist`";

fn describe_download() -> Operation {
    describe(
        "downloadExport",
        "Download an export",
        "The `url` in the response to an export request without own storage: one ZIP with all \
         files. The URL is signed: anyone who has it can download until it expires, from the \
         addresses on the workspace's `ip_allowlist`. Store this URL, not the one that it redirects \
         to.",
    )
}

fn describe_manifest() -> Operation {
    describe(
        "downloadExportManifest",
        "Download the manifest of an export",
        "States what the export without own storage has: its users, and the size and hash of its \
         ZIP. The signature is that of the download URL.",
    )
}

fn describe_checksums() -> Operation {
    describe(
        "downloadExportChecksums",
        "Download the checksums of an export",
        "The hashes of the ZIP and of the manifest, as `sha256sum -c` reads them. The signature is \
         that of the download URL.",
    )
}

fn describe_signature() -> Operation {
    describe(
        "downloadExportSignature",
        "Download the signature of a manifest",
        "The signature of the manifest, as `ssh-keygen -Y verify` reads it, in the namespace \
         `longshore-export`. The `signature` in the query is that of the download URL.",
    )
}

fn describe(id: &'static str, title: &'static str, about: &'static str) -> Operation {
    let operation = Operation::new(Method::GET, id, TAG, title)
        .about(about)
        .in_query("signature", "The signature of the URL.", json!({ "type": "string" }))
        .returns_empty(
            StatusCode::FOUND,
            "Redirects to a short-lived URL of the storage. Follow the redirect.",
        )
        .with_header("Location", "A short-lived URL.", json!({ "type": "string", "format": "uri" }))
        .refuses(&not_found(), "The signature is invalid or missing, or the export lacks this file")
        .refuses(&ApiError::Forbidden(ADDRESS_REFUSED), SENDER_REFUSED);
    let ends = [super::State::Running, super::State::Failed, super::State::Cancelled];
    let refusals = ends.into_iter().filter_map(not_yet).chain([ApiError::Forbidden(EXPIRED)]);
    let operation = refusals.fold(operation, |operation, error| {
        operation.refuses(&error, "The export is not ready, or failed, or was cancelled")
    });
    prefix_in_path(operation)
}

/// The bytes of a file.
#[derive(JsonSchema)]
#[schemars(with = "Value", rename = "File")]
struct File;

fn describe_serve() -> Operation {
    let file = |operation: Operation, status, about| {
        operation.returns_as::<File>(status, about, "application/zip")
    };
    let operation = Operation::new(
        Method::GET,
        "downloadFile",
        TAG,
        "Download a file from the gateway's own storage",
    )
    .about(
        "A download redirects here if the service stores objects as files. The URL is signed and \
         short-lived; clients do not construct it. One range of bytes can be requested, also with \
         `If-Range` and the `ETag` or the date of `Last-Modified`. Any other `Range` is ignored. \
         `If-Match`, `If-Unmodified-Since`, `If-None-Match` and `If-Modified-Since` are honored.",
    )
    .in_path("path", "The file's path, with slashes.", json!({ "type": "string", "minLength": 1 }))
    .refuses(&not_found(), "The signature is invalid or missing, or the file does not exist")
    .refuses(&ApiError::Forbidden(EXPIRED), "The URL has expired")
    .refuses(&ApiError::Forbidden(ADDRESS_REFUSED), SENDER_REFUSED)
    .returns_empty(
        StatusCode::NOT_MODIFIED,
        "`If-None-Match` has the file's `ETag`, or the file has not changed since \
         `If-Modified-Since`.",
    )
    .returns_empty(
        StatusCode::PRECONDITION_FAILED,
        "`If-Match` does not have the file's `ETag`, or the file has changed since \
         `If-Unmodified-Since`.",
    )
    .returns_empty(StatusCode::RANGE_NOT_SATISFIABLE, "The range is outside the file.");
    let operation = file(operation, StatusCode::OK, "The file.");
    file(operation, StatusCode::PARTIAL_CONTENT, "The requested range.")
}

/// The download URL of an export.
pub fn address(app: &App, object_prefix: &str) -> String {
    signed_address(app, object_prefix, "download")
}

/// The URL of the manifest of an export without own storage.
pub fn address_of_manifest(app: &App, object_prefix: &str) -> String {
    signed_address(app, object_prefix, "manifest.json")
}

fn signed_address(app: &App, object_prefix: &str, file: &str) -> String {
    let tag = app.secrets.derive(PURPOSE, &[object_prefix.as_bytes()]);
    let signature = BASE64_URL_SAFE_NO_PAD.encode(tag);
    let base = public_base(app);
    format!("{base}/users/export/{object_prefix}/{file}?signature={signature}")
}

/// Whether `signature` is valid for the export's URL.
fn is_signed(app: &App, object_prefix: &str, signature: &str) -> bool {
    BASE64_URL_SAFE_NO_PAD
        .decode(signature)
        .is_ok_and(|tag| app.secrets.verify(PURPOSE, &[object_prefix.as_bytes()], &tag))
}

fn public_base(app: &App) -> String {
    app.config.public_base()
}

/// What is downloaded.
#[derive(Clone, Copy)]
enum Download {
    Archive,
    /// The object that proves the export, by its suffix.
    Proof(&'static str),
}

/// The route of a download.
fn route(kind: Download) -> MethodRouter<App> {
    get(move |State(app): State<App>, object_prefix, Query(query), head: Parts| async move {
        download(app, object_prefix, query, head, kind).await
    })
}

async fn download(
    app: App,
    object_prefix: Result<ObjectPrefix, ApiError>,
    query: BTreeMap<String, String>,
    head: Parts,
    kind: Download,
) -> Result<Response, ApiError> {
    let ObjectPrefix(object_prefix) = object_prefix.map_err(|_| not_found())?;
    let signature = query.get("signature").map_or("", String::as_str);
    if !is_signed(&app, &object_prefix, signature) {
        return Err(not_found());
    }
    let mut tx = app.request_queue.snapshot().await?;
    // The URL of a deleted export expired long ago.
    let found = rows::by_prefix(&mut tx, &object_prefix).await?;
    let (job, progress) = found.ok_or(ApiError::Forbidden(EXPIRED))?;
    check_sender(&app, &mut tx, &head, &job).await?;
    let now = app.database_now(&mut tx).await?;
    drop(tx);
    let (attempt, lifetime) = valid_download(&progress, now)?;
    let (path, suffix) = match kind {
        Download::Archive => (paths::archive(job.id, attempt), manifest::ARCHIVE_SUFFIX),
        // The release before wrote no manifests.
        Download::Proof(_) if progress.manifest_sha256.is_none() => return Err(not_found()),
        Download::Proof(suffix) => (paths::private_proof(job.id, suffix), suffix),
    };
    redirect(&app, &path, lifetime, &format!("{object_prefix}{suffix}")).await
}

/// Rejects a sender that is not on the workspace's `ip_allowlist`, like every other endpoint.
async fn check_sender(app: &App, tx: &mut Tx, head: &Parts, job: &Job) -> Result<(), ApiError> {
    let workspace = workspaces::by_id(tx, job.workspace_id).await?.ok_or_else(not_found)?;
    gateway::check_address(app, head, &[&workspace.ip_allowlist])
}

/// The attempt with the ZIP behind the URL, and how long the URL is valid.
fn valid_download(progress: &Progress, now: i64) -> Result<(i32, Duration), ApiError> {
    if let Some(error) = not_yet(progress.state) {
        return Err(error);
    }
    // With own storage there is no URL, whatever its signature.
    let (Some(attempt), Some(expires_at)) = (progress.archive, progress.expires_at) else {
        return Err(not_found());
    };
    match u64::try_from(expires_at - now) {
        Ok(remaining_ms) if remaining_ms > 0 => Ok((attempt, Duration::from_millis(remaining_ms))),
        _ => Err(ApiError::Forbidden(EXPIRED)),
    }
}

/// The error for a state without a download; none if there is one.
fn not_yet(state: super::State) -> Option<ApiError> {
    use super::State as S;
    Some(ApiError::Forbidden(match state {
        S::Queued | S::Planning | S::Running | S::Finishing => {
            "The export is not ready yet; retry this URL later"
        }
        S::Failed => "The export failed; see `error` in GET /users/export/{object_prefix}",
        S::Cancelled => "The export was cancelled",
        S::Done => return None,
    }))
}

async fn redirect(
    app: &App,
    path: &str,
    lifetime: Duration,
    file_name: &str,
) -> Result<Response, ApiError> {
    let lifetime = lifetime.min(MAX_STORAGE_LIFETIME);
    let address = app.objects.signed_get(path, lifetime, file_name).await?;
    // For files, it is a path below our own URL.
    let address = if address.starts_with('/') { public_base(app) + &address } else { address };
    let location = HeaderValue::try_from(address)
        .map_err(|_| ApiError::Internal("the storage URL is not a valid header value".into()))?;
    let headers = [
        (header::LOCATION, location),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((StatusCode::FOUND, headers).into_response())
}

/// Serves an object from a file, at a URL from [`Objects::signed_get`]: whole or in ranges, so that
/// clients can resume downloads.
async fn serve(State(app): State<App>, request: Request) -> Result<Response, ApiError> {
    let Objects::Files(files) = &app.objects else { return Err(not_found()) };
    let uri = request.uri();
    let path = uri.path().strip_prefix("/objects/").ok_or_else(not_found)?;
    // These URLs are signed and checked by the system's clock.
    let download =
        files.verify(path, uri.query().unwrap_or_default(), Timestamp::now()).map_err(|error| {
            match error {
                SignatureError::Malformed | SignatureError::Wrong => not_found(),
                SignatureError::Expired => ApiError::Forbidden(EXPIRED),
            }
        })?;
    let job = paths::job_of_download(path).ok_or_else(not_found)?;
    let (mut head, body) = request.into_parts();
    let mut tx = app.request_queue.snapshot().await?;
    let (job, _) = rows::load(&mut tx, job).await?.ok_or_else(not_found)?;
    check_sender(&app, &mut tx, &head, &job).await?;
    drop(tx);
    let state = file_state(&download.file).await.ok_or_else(not_found)?;
    let disposition = HeaderValue::try_from(content_disposition(&download.name))
        .map_err(|_| ApiError::Internal("the file name is not a valid header value".into()))?;
    let etag = HeaderValue::try_from(state.etag())
        .map_err(|_| ApiError::Internal("the ETag is not a valid header value".into()))?;
    let mut response = match conditions::status(&head.headers, state) {
        Some(status) => status.into_response(),
        None => {
            // The file server would check them again, without regard to `If-Match`.
            head.headers.remove(header::IF_UNMODIFIED_SINCE);
            head.headers.remove(header::IF_MODIFIED_SINCE);
            range::normalize(&head.method, &mut head.headers, state);
            send(&download.file, Request::from_parts(head, body)).await?
        }
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_DISPOSITION, disposition);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::ETAG, etag);
    Ok(response)
}

async fn send(file: &Path, request: Request) -> Result<Response, ApiError> {
    match ServeFile::new(file).oneshot(request).await {
        Ok(response) if response.status() == StatusCode::NOT_FOUND => Err(not_found()),
        Ok(response) => Ok(response.map(Body::new)),
        Err(never) => match never {},
    }
}

/// The state of a file; none if it is missing.
async fn file_state(file: &Path) -> Option<FileState> {
    let metadata = tokio::fs::metadata(file).await.ok()?;
    let modified = metadata.modified().ok()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(FileState { length: metadata.len(), modified })
}

fn not_found() -> ApiError {
    ApiError::NotFound("Unknown download".into())
}
