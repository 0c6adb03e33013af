//! An export: its progress, files, deliveries and proof, and what can be done with it.

mod details;
mod live;
mod progress;

use axum::Extension;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Redirect, Response};
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use self::details::{PartsView, Shown};
use self::live::LiveExport;
use crate::page::Page;
use crate::pages::exports::actions::{
    check_callback, count_request, redirect_to_created, redirect_to_export,
};
use console_frame::error::PageError;
use console_frame::form::Form;
use console_frame::parts;
use exports::watched::Follower;
use exports::{Job, Progress, State, create, download as downloads, overview, rows, status};
use gateway::idempotency::{self, Begun, IdempotencyKey};
use gateway::{ApiError, RequestId};
use proof::manifest::is_object_prefix;
use runtime::audit;
use store::Tx;

/// The form's field with the key under which a repeat takes effect once.
pub const KEY_FIELD: &str = "request_key";

/// The export in the path of an address.
#[derive(Deserialize)]
pub struct ExportPath {
    object_prefix: String,
}

/// `GET /w/{workspace}/exports/{object_prefix}`.
pub async fn show(
    page: Page,
    Path(path): Path<ExportPath>,
    view: Result<Query<PartsView>, QueryRejection>,
) -> Result<Response, PageError> {
    let Query(view) = view.map_err(invalid_query)?;
    let prefix = checked_prefix(&path)?;
    let mut tx = page.app.request_queue.snapshot().await?;
    let export = overview::by_prefix(&page.app, &mut tx, prefix).await?;
    let workspace = page.workspace()?.id;
    let export = export.filter(|export| export.job.workspace_id == workspace);
    let export = export.ok_or(PageError::NotFound)?;
    let shown = Shown::read(&page, &mut tx, export, view).await?;
    tx.commit().await?;
    let title = format!("Export of {}", parts::cut(&shown.title));
    Ok(page.html(&title, details::content(&page, &shown)))
}

/// The page that a stream is for: one stream for each.
#[derive(Deserialize)]
pub struct StreamOf {
    view: Uuid,
}

/// `GET /w/{workspace}/exports/{object_prefix}/live`: server-sent events.
pub async fn live(
    page: Page,
    Path(path): Path<ExportPath>,
    stream: Result<Query<StreamOf>, QueryRejection>,
    head: Parts,
) -> Result<Response, PageError> {
    let Query(stream) = stream.map_err(invalid_query)?;
    let mut tx = page.app.request_queue.snapshot().await?;
    let (job, progress) = own_job(&page, &mut tx, &path).await?;
    let planned_at = progress.plan.as_ref().and_then(|plan| plan.planned_at);
    let followed = (job.clone(), progress);
    let follower = Follower::open(&page.app.exports, &mut tx, followed, stream.view, &head).await;
    drop(tx);
    match follower {
        Ok(follower) => {
            Ok(LiveExport::new(page, head, (job, planned_at), follower).into_response())
        }
        // Too many streams are open: the page stays as it is.
        Err(ApiError::Overloaded) => Ok(StatusCode::NO_CONTENT.into_response()),
        Err(error) => Err(error.into()),
    }
}

/// `POST /w/{workspace}/exports/{object_prefix}/cancel`. An export that has ended meanwhile is a
/// conflict.
pub async fn cancel(page: Page, Path(path): Path<ExportPath>) -> Result<Response, PageError> {
    count_export_request(&page, &path).await?;
    let mut tx = page.app.request_queue.write().await?;
    let (job, _) = own_job(&page, &mut tx, &path).await?;
    let (_, change) = status::cancel_job(&page.app, &mut tx, &job).await?;
    page.record(&mut tx, change).await?;
    tx.commit().await?;
    redirect_to_export(&page, &job.object_prefix)
}

/// `POST /w/{workspace}/exports/{object_prefix}/repeat`: requests the export again, once for each
/// form, and shows the new one.
pub async fn repeat(
    page: Page,
    Path(path): Path<ExportPath>,
    Extension(RequestId(request_id)): Extension<RequestId>,
    form: Form,
) -> Result<Response, PageError> {
    let prefix = checked_prefix(&path)?;
    count_export_request(&page, &path).await?;
    // Without a key, as from a program, each request is another one.
    let key = match form.value(KEY_FIELD) {
        "" => None,
        key => {
            let endpoint = "POST console/exports/{object_prefix}/repeat".to_owned();
            Some(IdempotencyKey::new(page.workspace()?.id, endpoint, key)?)
        }
    };
    let mut turn = match idempotency::begin_change(&page.app, key, prefix.as_bytes()).await? {
        Begun::Replay(response) => return redirect_to_created(&page, &response),
        Begun::Turn(turn) => turn,
    };
    let former = own_job(&page, &mut turn.tx, &path).await?;
    let export = create::create_again(&page.app, &mut turn.tx, former, request_id).await?;
    check_callback(&page, &export.job)?;
    page.record(&mut turn.tx, export.change()).await?;
    let response = export.commit(&page.app, turn).await?;
    redirect_to_created(&page, &response)
}

/// `GET /w/{workspace}/exports/{object_prefix}/download`: sends the browser to the signed address,
/// after an entry in the audit log.
pub async fn download(page: Page, Path(path): Path<ExportPath>) -> Result<Response, PageError> {
    let mut tx = page.app.request_queue.write().await?;
    let (job, progress) = own_job(&page, &mut tx, &path).await?;
    if progress.state != State::Done || !status::has_url(&job, &progress, page.now_ms()) {
        return Err(ApiError::Conflict(no_download(&job, &progress)).into());
    }
    let details = json!({ "users": progress.users_done });
    let entry = page.audit("export.download", &job.object_prefix, details);
    audit::record(&mut tx, page.now_ms(), &entry).await?;
    tx.commit().await?;
    Ok(Redirect::to(&downloads::address(&page.app, &job.object_prefix)).into_response())
}

fn invalid_query(error: QueryRejection) -> PageError {
    PageError::Invalid(error.body_text())
}

/// Why an export cannot be downloaded here.
fn no_download(job: &Job, progress: &Progress) -> String {
    let state = progress.state.name();
    match progress.state {
        _ if job.storage_id.is_some() => {
            "The files are in the workspace's own storage: read them there".to_owned()
        }
        State::Done => "The download has expired: repeat the export".to_owned(),
        State::Failed | State::Cancelled => format!("The export is {state}: it has no files"),
        _ => format!("The export is {state}: download it when it is done"),
    }
}

/// Counts a request about an export, as the API does. Before the transaction of its effect: the
/// database of a single process has one writer at a time.
async fn count_export_request(page: &Page, path: &ExportPath) -> Result<(), PageError> {
    let mut tx = page.app.request_queue.snapshot().await?;
    let (job, _) = own_job(page, &mut tx, path).await?;
    tx.commit().await?;
    count_request(page, job.audience.budget()).await
}

/// The `object_prefix` of a path. An invalid one is unknown, without a query.
fn checked_prefix(path: &ExportPath) -> Result<&str, PageError> {
    let prefix = path.object_prefix.as_str();
    is_object_prefix(prefix).then_some(prefix).ok_or(PageError::NotFound)
}

/// The workspace's export of a path.
async fn own_job(
    page: &Page,
    tx: &mut Tx,
    path: &ExportPath,
) -> Result<(Job, Progress), PageError> {
    let workspace = page.workspace()?.id;
    rows::by_prefix(tx, checked_prefix(path)?)
        .await?
        .filter(|(job, _)| job.workspace_id == workspace)
        .ok_or(PageError::NotFound)
}
