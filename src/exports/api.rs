//! The calls of exports: ask for one, watch it, cancel it.

use std::collections::BTreeMap;

use axum::extract::{FromRequestParts, Path, Query, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::routing::{get, post};
use axum::{Extension, Router};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::fields::{self, FieldSet};
use super::{Format, Job, Progress, State as JobState, download, part_rows, requeue, rows, state};
use crate::app::App;
use crate::clock::format_time;
use crate::deliveries;
use crate::faults::fail_point;
use crate::gateway::{self, ApiError, Caller};
use crate::retry::Retry as _;
use crate::store::{StoreError, Tx};
use crate::workspaces;

/// The permission of every call here (Authentication: permissions).
const PERMISSION: &str = "users.export.global_control_group";

/// Jobs on a page of the list, unless asked for otherwise, and at most.
const PAGE: i64 = 20;
const LARGEST_PAGE: i64 = 100;

/// Ids of broken users that a status shows.
const BROKEN_USERS_SHOWN: i64 = 100;

/// The routes of exports.
pub fn routes() -> Router<App> {
    let protected = |route| gateway::protected(PERMISSION, route);
    Router::new()
        .route("/users/export/global_control_group", protected(post(request)))
        .route("/users/export", protected(get(list)))
        .route("/users/export/{object_prefix}", protected(get(status).delete(cancel)))
        .merge(download::routes())
}

/// `POST /users/export/global_control_group` (operation 2).
async fn request(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    gateway::Json(body): gateway::Json<Map<String, Value>>,
) -> Result<(StatusCode, axum::Json<Answer>), ApiError> {
    let check_address =
        |address: &str| deliveries::check_address(address, &app.config).map(String::from);
    let wanted = Wanted::read(&body, check_address)?;
    let answer = accept(&app, caller, wanted).await?;
    Ok((StatusCode::CREATED, axum::Json(answer)))
}

/// The answer to a request.
#[derive(Serialize)]
struct Answer {
    message: &'static str,
    object_prefix: String,
    /// Only without own storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
}

/// A request's members, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    fields: Vec<String>,
    format: Format,
    callback_endpoint: Option<String>,
}

impl Wanted {
    /// Reads the members of a request; the error names the member. Unknown ones are
    /// ignored, and an explicit null means absent.
    fn read(
        body: &Map<String, Value>,
        check_address: impl Fn(&str) -> Result<String, String>,
    ) -> Result<Self, ApiError> {
        let member = |name: &str| body.get(name).filter(|value| !value.is_null());
        Ok(Self {
            fields: read_fields(member("fields_to_export"))?,
            format: read_format(member("output_format"))?,
            callback_endpoint: read_callback(member("callback_endpoint"), check_address)?,
        })
    }
}

fn invalid(text: impl Into<String>) -> ApiError {
    ApiError::Invalid(text.into())
}

fn read_fields(value: Option<&Value>) -> Result<Vec<String>, ApiError> {
    let value = value.ok_or_else(|| invalid("fields_to_export is required"))?;
    let wrong = || invalid("fields_to_export must be an array of strings");
    let names = value.as_array().ok_or_else(wrong)?;
    let names: Option<Vec<&str>> = names.iter().map(Value::as_str).collect();
    let names = names.ok_or_else(wrong)?;
    // Before anything is done with them: they are kept, and read by every part.
    fields::check_size(&names).map_err(ApiError::Invalid)?;
    let names: Vec<String> = names.into_iter().map(String::from).collect();
    FieldSet::parse(&names).map_err(ApiError::Invalid)?;
    Ok(names)
}

fn read_format(value: Option<&Value>) -> Result<Format, ApiError> {
    let Some(value) = value else { return Ok(Format::default()) };
    let format = value.as_str().and_then(Format::parse);
    format.ok_or_else(|| invalid("output_format must be zip or gzip"))
}

/// The address as it reads once it is parsed, which is what is called: the raw text may hold
/// characters that no address has.
fn read_callback(
    value: Option<&Value>,
    check_address: impl Fn(&str) -> Result<String, String>,
) -> Result<Option<String>, ApiError> {
    let Some(value) = value else { return Ok(None) };
    let address = value.as_str().ok_or_else(|| invalid("callback_endpoint must be a string"))?;
    if address.is_empty() {
        return Ok(None);
    }
    let address = check_address(address);
    address.map(Some).map_err(|error| invalid(format!("callback_endpoint: {error}")))
}

/// Makes the job durable, then tells the workers.
async fn accept(app: &App, caller: Caller, wanted: Wanted) -> Result<Answer, ApiError> {
    let now = app.clock.now();
    let mut tx = app.store.write().await?;
    // The caller's may be a few seconds old, and be from before an `apply` that moved exports.
    let workspace = workspaces::by_id(&mut tx, caller.workspace.id)
        .await?
        .ok_or_else(|| invalid("The workspace is gone"))?;
    let group = workspaces::control_group(&mut tx, workspace.id)
        .await?
        .ok_or_else(|| invalid("The workspace has no active global control group"))?;
    let job = Job {
        id: Uuid::now_v7(),
        workspace_id: workspace.id,
        object_prefix: format!("{}-{}", Uuid::new_v4(), now.as_second()),
        segment_id: group.segment_id,
        fields: wanted.fields,
        format: wanted.format,
        storage_id: workspace.own_storage(),
        callback_endpoint: wanted.callback_endpoint,
        request_id: caller.request_id,
        requested_at: now.as_millisecond(),
    };
    rows::insert(&mut tx, &job).await?;
    if let Err(error) = tx.commit().await {
        confirm(app, &job, error).await?;
    }
    tracing::info!(export = %job.id, object_prefix = job.object_prefix, "export requested");
    fail_point!("export::requested");
    requeue::announce(app, &job).await;
    let url = job.storage_id.is_none().then(|| download::address(app, &job.object_prefix));
    Ok(Answer { message: "success", object_prefix: job.object_prefix, url })
}

/// Looks for the job where its commit failed: one that is there although its answer was lost
/// is not refused, or the client would ask for a second one.
async fn confirm(app: &App, job: &Job, error: StoreError) -> Result<(), ApiError> {
    if error.can_retry() {
        let mut tx = app.store.snapshot().await?;
        if rows::load(&mut tx, job.id).await?.is_some() {
            tracing::warn!(export = %job.id, %error, "committed, though the answer was lost");
            return Ok(());
        }
    }
    Err(error.into())
}

/// The `object_prefix` in a path. What cannot be one is as unknown as one that nobody has,
/// without asking the store.
pub(super) struct ObjectPrefix(pub String);

impl<S: Send + Sync> FromRequestParts<S> for ObjectPrefix {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        path.ok()
            .filter(|Path(text)| is_object_prefix(text))
            .map(|Path(text)| Self(text))
            .ok_or_else(unknown)
    }
}

/// Whether it is `<uuid>-<unix seconds>`.
fn is_object_prefix(text: &str) -> bool {
    text.rsplit_once('-')
        .is_some_and(|(id, seconds)| Uuid::try_parse(id).is_ok() && seconds.parse::<u64>().is_ok())
}

fn unknown() -> ApiError {
    ApiError::NotFound("No export has this object_prefix".into())
}

/// `GET /users/export/{object_prefix}`.
async fn status(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    ObjectPrefix(object_prefix): ObjectPrefix,
) -> Result<axum::Json<Status>, ApiError> {
    let mut tx = app.store.snapshot().await?;
    let (job, progress) = own_job(&mut tx, &caller, &object_prefix).await?;
    let broken = match progress.broken_users {
        0 => Vec::new(),
        _ => part_rows::broken_users(&mut tx, job.id, BROKEN_USERS_SHOWN).await?,
    };
    let mut status = Status::new(&job, &progress, app.clock.now_ms());
    status.broken_users = broken.into_iter().map(|(service_id, _)| service_id).collect();
    Ok(axum::Json(status))
}

/// `DELETE /users/export/{object_prefix}`: cancels; what was uploaded is removed.
async fn cancel(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    ObjectPrefix(object_prefix): ObjectPrefix,
) -> Result<axum::Json<Status>, ApiError> {
    let mut tx = app.store.write().await?;
    let (job, _) = own_job(&mut tx, &caller, &object_prefix).await?;
    let cancelled = state::cancel(&app, &mut tx, &job).await?;
    let (job, progress) = own_job(&mut tx, &caller, &object_prefix).await?;
    if !cancelled && progress.state != JobState::Cancelled {
        let state = progress.state.name();
        return Err(ApiError::Conflict(format!(
            "The export is {state} and cannot be cancelled any more"
        )));
    }
    tx.commit().await?;
    Ok(axum::Json(Status::new(&job, &progress, app.clock.now_ms())))
}

/// `GET /users/export?limit&cursor`: latest first.
async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Result<axum::Json<Page>, ApiError> {
    let limit = query.get("limit").map_or(Ok(PAGE), |limit| {
        limit.parse().ok().filter(|limit| (1..=LARGEST_PAGE).contains(limit)).ok_or_else(|| {
            invalid(format!("limit must be a whole number from 1 to {LARGEST_PAGE}"))
        })
    })?;
    let after = query.get("cursor").map_or(Ok((i64::MAX, Uuid::max())), |cursor| {
        read_cursor(cursor).ok_or_else(|| invalid("cursor must be a next_cursor of this list"))
    })?;
    let mut tx = app.store.snapshot().await?;
    let jobs = rows::latest(&mut tx, caller.workspace.id, after, limit).await?;
    let now = app.clock.now_ms();
    let full = jobs.len() as i64 == limit;
    Ok(axum::Json(Page {
        next_cursor: jobs.last().filter(|_| full).map(|(job, _)| cursor_of(job)),
        exports: jobs.iter().map(|(job, progress)| Status::new(job, progress, now)).collect(),
    }))
}

/// A page of the list.
#[derive(Serialize)]
struct Page {
    exports: Vec<Status>,
    /// Asks for what follows; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

fn cursor_of(job: &Job) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(format!("{} {}", job.requested_at, job.id))
}

fn read_cursor(text: &str) -> Option<rows::After> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
    let (requested_at, id) = std::str::from_utf8(&bytes).ok()?.split_once(' ')?;
    Some((requested_at.parse().ok()?, Uuid::try_parse(id).ok()?))
}

/// The caller's job of that prefix; one of another workspace is as unknown as none.
async fn own_job(
    tx: &mut Tx,
    caller: &Caller,
    object_prefix: &str,
) -> Result<(Job, Progress), ApiError> {
    rows::by_prefix(tx, object_prefix)
        .await?
        .filter(|(job, _)| job.workspace_id == caller.workspace.id)
        .ok_or_else(unknown)
}

/// How far an export is. Times are ISO 8601 in UTC.
#[derive(Serialize)]
struct Status {
    object_prefix: String,
    state: &'static str,
    users: DoneOf,
    files: DoneOf,
    /// Bytes of the files that are written.
    bytes: i64,
    requested_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    estimated_end: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The first of the users whose stored profile cannot be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    broken_users: Vec<Uuid>,
}

#[derive(Serialize)]
struct DoneOf {
    done: i64,
    /// Absent until the export is planned.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<i64>,
}

impl Status {
    fn new(job: &Job, progress: &Progress, now: i64) -> Self {
        Self {
            object_prefix: job.object_prefix.clone(),
            state: progress.state.name(),
            users: DoneOf { done: progress.users_done, total: progress.users },
            files: DoneOf { done: progress.files_done, total: progress.parts },
            bytes: progress.bytes_done,
            requested_at: format_time(job.requested_at),
            started_at: progress.started_at.map(format_time),
            finished_at: progress.finished_at.map(format_time),
            estimated_end: estimated_end(progress, now).map(format_time),
            expires_at: progress.expires_at.map(format_time),
            error: progress.error.clone(),
            broken_users: Vec::new(),
        }
    }
}

/// When a running job would end if it went on as it did.
fn estimated_end(progress: &Progress, now: i64) -> Option<i64> {
    if progress.state != JobState::Running || progress.users_done <= 0 {
        return None;
    }
    let (started, users) = (progress.started_at?, progress.users?);
    let left = users.saturating_sub(progress.users_done).max(0) as f64;
    let per_user = now.saturating_sub(started).max(0) as f64 / progress.users_done as f64;
    Some(now.saturating_add((left * per_user) as i64))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(body: Value) -> Result<Wanted, String> {
        let Value::Object(body) = body else { panic!("{body}") };
        let check = |address: &str| match address.starts_with("https://") {
            true => Ok(address.to_owned()),
            false => Err("an https address is meant".to_owned()),
        };
        Wanted::read(&body, check).map_err(|error| match error {
            ApiError::Invalid(text) => text,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn what_is_left_out_has_its_default() {
        let fields = vec!["email".to_owned(), "custom_attributes.tier".to_owned()];
        let bare = Wanted { fields: fields.clone(), format: Format::Zip, callback_endpoint: None };
        let nothing = json!({
            "fields_to_export": fields, "output_format": null, "callback_endpoint": null,
            "unknown": {"a": 1}
        });
        assert_eq!(read(nothing), Ok(bare.clone()));
        let empty = json!({ "fields_to_export": fields, "callback_endpoint": "" });
        assert_eq!(read(empty), Ok(bare));
        let full = json!({
            "fields_to_export": fields, "output_format": "gzip", "callback_endpoint": "https://a.b/c"
        });
        let callback_endpoint = Some("https://a.b/c".to_owned());
        assert_eq!(read(full), Ok(Wanted { fields, format: Format::Gzip, callback_endpoint }));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (member, wrong) in [
            ("fields_to_export", json!(null)),
            ("fields_to_export", json!([])),
            ("fields_to_export", json!("email")),
            ("fields_to_export", json!(["email", 1])),
            ("fields_to_export", json!(["e-mail"])),
            ("fields_to_export", json!(["custom_attributes."])),
            ("output_format", json!("rar")),
            ("output_format", json!(1)),
            ("fields_to_export", json!(vec!["email"; 1_001])),
            ("fields_to_export", json!(["x".repeat(64 << 10), "y"])),
            ("callback_endpoint", json!(["https://a.b"])),
            ("callback_endpoint", json!("ftp://a.b")),
        ] {
            let mut body = json!({ "fields_to_export": ["email"] });
            body[member] = wrong.clone();
            let text = read(body).expect_err(&wrong.to_string());
            assert!(text.contains(member), "{wrong}: {text}");
        }
        assert!(read(json!({})).unwrap_err().contains("fields_to_export"));
    }

    fn running() -> Progress {
        Progress {
            state: JobState::Running,
            plan: None,
            users: Some(1_000),
            parts: Some(10),
            parts_left: Some(8),
            users_done: 200,
            files_done: 2,
            bytes_done: 1,
            broken_users: 0,
            started_at: Some(1_000_000),
            completed_at: None,
            finished_at: None,
            expires_at: None,
            archive: None,
            error: None,
        }
    }

    #[test]
    fn the_end_is_estimated_from_what_was_done() {
        // 200 users took 10 seconds, so 800 take 40.
        assert_eq!(estimated_end(&running(), 1_010_000), Some(1_050_000));
        let nothing_yet = Progress { users_done: 0, ..running() };
        assert_eq!(estimated_end(&nothing_yet, 1_010_000), None);
        let done = Progress { state: JobState::Done, ..running() };
        assert_eq!(estimated_end(&done, 1_010_000), None);
        // More than were planned, and a clock that went backwards.
        let more = Progress { users_done: 1_001, ..running() };
        assert_eq!(estimated_end(&more, 999_000), Some(999_000));
    }

    #[test]
    fn a_prefix_has_one_shape() {
        assert!(is_object_prefix("9d2261c4-4cf3-44b0-909b-455baf540288-1795249898"));
        for other in
            ["", "unknown", "\0", "9d2261c4-4cf3-44b0-909b-455baf540288", "x-1795249898", "-1"]
        {
            assert!(!is_object_prefix(other), "{other:?}");
        }
    }

    #[test]
    fn a_cursor_comes_back_as_it_was() {
        let id = Uuid::new_v4();
        let job = Job {
            id,
            workspace_id: 1,
            object_prefix: "p".into(),
            segment_id: id,
            fields: vec![],
            format: Format::Zip,
            storage_id: None,
            callback_endpoint: None,
            request_id: "r".into(),
            requested_at: -5,
        };
        assert_eq!(read_cursor(&cursor_of(&job)), Some((-5, id)));
        for wrong in ["", "!", "MTI", &BASE64_URL_SAFE_NO_PAD.encode("1 x")] {
            assert_eq!(read_cursor(wrong), None, "{wrong:?}");
        }
    }
}
