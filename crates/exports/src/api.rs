//! The endpoints of exports: request, status, list, cancel.

use axum::Extension;
use axum::extract::{FromRequestParts, Path, RawQuery, State};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::routing::{any, get, post};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::fields;
use super::request::{ExportOptions, ExportRequest};
use super::{
    Job, Progress, State as JobState, callback, download, intake, part_rows, rows, state, warnings,
};
use gateway::app::App;
use gateway::formats::SuccessText;
use gateway::idempotency::{self, Begun, StoredResponse};
use gateway::openapi::Tag;
use gateway::workspaces;
use gateway::{
    self, Access, ApiError, Caller, IdempotencyKey, JsonText, Operation, Routes, parameter,
};
use kit::clock::format_time;
use kit::fail_point;
use runtime::outbound;
use store::Tx;

/// The permission of every endpoint here.
const PERMISSION: &str = "users.export.global_control_group";

/// Default and maximum number of jobs on a page of the list.
const PAGE: i64 = 20;
const LARGEST_PAGE: i64 = 100;

/// Ids of unreadable users that a status shows.
const BROKEN_USERS_SHOWN: i64 = 100;

/// Paths of related endpoints that would match an `object_prefix`, and do not exist here.
const RESERVED: [&str; 2] = ["/users/export/ids", "/users/export/segment"];

const NO_GROUP: &str = "The workspace has no active global control group";

pub(super) const TAG: Tag =
    Tag { name: "Exports", about: "Exports of the global control group's users as files." };

/// The `object_prefix` of the examples.
const PREFIX: &str = "9d2261c4-4cf3-44b0-909b-455baf540288-1795249898";

/// The routes of exports.
pub fn routes() -> Routes<App> {
    let protected = |route| gateway::protected(PERMISSION, route);
    let export = protected(get(status).delete(cancel));
    let new_export = protected(post(request));
    RESERVED
        .iter()
        .fold(Routes::new(), |routes, path| routes.route(path, any(gateway::no_path), []))
        .route("/users/export/global_control_group", new_export, [describe_request()])
        .route("/users/export", protected(get(list)), [describe_list()])
        .route("/users/export/{object_prefix}", export, [describe_status(), describe_cancel()])
        .merge(download::routes())
        .with_webhooks([callback::describe()])
}

pub(super) fn prefix_in_path(operation: Operation) -> Operation {
    let schema = json!({
        "type": "string", "examples": [PREFIX],
        "pattern": "^[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}-[0-9]{1,19}$",
    });
    operation.in_path(
        "object_prefix",
        "The `object_prefix` from the response to the \
                                        request.",
        schema,
    )
}

fn describe_request() -> Operation {
    Operation::new(Method::POST, "requestExport", TAG, "Request an export")
        .by(Access::Key(PERMISSION))
        .about(
            "Exports every user of the global control group, one JSON object per line, in files \
             of up to 5,000 users. The files go to the workspace's own storage (Azure if it is \
             the default destination, else S3). Without own storage, `url` downloads them. If \
             `callback_endpoint` is set, the service sends a signed POST to it when the export \
             ends.\n\nEach request creates a new export, unless it repeats the `Idempotency-Key` \
             of an earlier request.",
        )
        .repeatable()
        .takes::<ExportRequest>(
            "Some fields, with a callback",
            json!({
                "fields_to_export": ["external_id", "email", "custom_attributes.loyalty_tier"],
                "callback_endpoint": "https://example.com/exports",
            }),
        )
        .returns::<Accepted<'static>>(StatusCode::CREATED, "The export is accepted.")
        .with_link(
            "exportStatus",
            json!({ "parameters": { "object_prefix": "$response.body#/object_prefix" } }),
        )
        .with_link(
            "cancelExport",
            json!({ "parameters": { "object_prefix": "$response.body#/object_prefix" } }),
        )
        .refuses(&ApiError::Invalid(NO_GROUP.into()), "The workspace has no active control group")
}

fn example_status() -> Value {
    json!({
        "object_prefix": PREFIX, "state": JobState::Done.name(),
        "users": { "done": 2013, "total": 2013 }, "files": { "done": 1, "total": 1 },
        "bytes": 66425, "requested_at": "2026-11-21T08:29:28.910Z",
        "started_at": "2026-11-21T08:29:28.916Z", "finished_at": "2026-11-21T08:29:29.052Z",
        "expires_at": "2026-11-21T12:29:29.052Z",
    })
}

fn describe_status() -> Operation {
    let operation = Operation::new(Method::GET, "exportStatus", TAG, "Get the status of an export")
        .by(Access::Key(PERMISSION))
        .returns::<Status>(StatusCode::OK, "The status.")
        .with_example(example_status())
        .refuses(&unknown(), "No export in this workspace has this object_prefix");
    prefix_in_path(operation)
}

fn describe_cancel() -> Operation {
    let operation = Operation::new(Method::DELETE, "cancelExport", TAG, "Cancel an export")
        .by(Access::Key(PERMISSION))
        .about(
            "Cancels an export that is queued, planning or running. Its files are deleted, and no \
             callback is sent. The export stays in the list. Cancelling it again returns the same \
             response.",
        )
        .returns::<Status>(StatusCode::OK, "The status.")
        .with_example(example_status())
        .refuses(&unknown(), "No export in this workspace has this object_prefix")
        .refuses(&ended(JobState::Done), "The export has ended or is finishing");
    prefix_in_path(operation)
}

fn describe_list() -> Operation {
    let limit = json!({
        "type": "integer", "minimum": 1, "maximum": LARGEST_PAGE, "default": PAGE,
    });
    let operation = Operation::new(Method::GET, "listExports", TAG, "List exports, newest first")
        .by(Access::Key(PERMISSION))
        .in_query("limit", "Number of exports per page.", limit)
        .in_query(
            "cursor",
            "The `next_cursor` of the previous page.",
            json!({ "type": "string", "minLength": 1 }),
        )
        .returns::<Page>(StatusCode::OK, "A page.")
        .with_example(
            json!({ "exports": [example_status()], "next_cursor": "MTc5NTI0OTc2ODkxMCAwMWEx" }),
        );
    let wrong = ["limit=0"];
    operation.refuses_some(wrong.map(read_page), "A parameter is invalid or repeated")
}

/// `POST /users/export/global_control_group`.
async fn request(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    key: Option<IdempotencyKey>,
    body: JsonText,
) -> Result<StoredResponse, ApiError> {
    let check_address =
        |address: &str| outbound::check_address(address, &app.config).map(String::from);
    let mut members = body.object_in_place(&app)?;
    fields::note_alias(&mut members, caller.workspace.aliases.service_id.as_deref());
    let options = ExportOptions::read(&members, check_address)?;
    accept(&app, caller, key, &body, options).await
}

/// The response to a request.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ExportAccepted")]
struct Accepted<'a> {
    message: SuccessText,
    /// A random UUID, and the Unix seconds of the request.
    object_prefix: &'a str,
    /// The download URL. Present only without own storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// Warnings about parts of the request that have no effect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

/// Makes the job durable, then notifies the workers; with a key, only once.
async fn accept(
    app: &App,
    caller: Caller,
    key: Option<IdempotencyKey>,
    body: &JsonText,
    options: ExportOptions,
) -> Result<StoredResponse, ApiError> {
    let mut turn = match idempotency::begin_change(app, key, body.as_bytes()).await? {
        Begun::Replay(response) => return Ok(response),
        Begun::Turn(turn) => turn,
    };
    let warnings = options.warnings.clone();
    let job = create_job(app, &mut turn.tx, caller, options).await?;
    let response = created_response(app, &job, warnings)?;
    if let Err(error) = turn.commit(response.clone()).await {
        confirm(app, &job, error).await?;
    }
    tracing::info!(export = %job.id, object_prefix = job.object_prefix, "export requested");
    fail_point!("export::requested");
    intake::announce(app, &job).await;
    Ok(response)
}

/// Writes a job, and offers its planning.
async fn create_job(
    app: &App,
    tx: &mut Tx,
    caller: Caller,
    options: ExportOptions,
) -> Result<Job, ApiError> {
    let now = app.clock.now();
    // The caller's copy may be a few seconds old, from before an `apply` that changed the storage.
    let workspace = workspaces::by_id(tx, caller.workspace.id)
        .await?
        .ok_or_else(|| ApiError::Invalid("The workspace was deleted".into()))?;
    let group = workspaces::control_group(tx, workspace.id)
        .await?
        .ok_or_else(|| ApiError::Invalid(NO_GROUP.into()))?;
    let job = Job {
        id: Uuid::now_v7(),
        workspace_id: workspace.id,
        object_prefix: format!("{}-{}", Uuid::new_v4(), now.as_second()),
        segment_id: group.segment_id,
        fields: options.fields,
        format: options.format,
        storage_id: workspace.own_storage(),
        callback_endpoint: options.callback_endpoint,
        request_id: caller.request_id,
        requested_at: now.as_millisecond(),
    };
    intake::insert(app, tx, &job).await?;
    Ok(job)
}

fn created_response(
    app: &App,
    job: &Job,
    mut warnings: Vec<String>,
) -> Result<StoredResponse, ApiError> {
    let url = job.storage_id.is_none().then(|| download::address(app, &job.object_prefix));
    warnings.extend(warnings::ignored_format(job));
    let body = Accepted {
        message: SuccessText::Success,
        object_prefix: &job.object_prefix,
        url,
        warnings,
    };
    StoredResponse::json(StatusCode::CREATED, &body)
}

/// Checks whether the job exists after a failed commit: if only the response was lost, an error
/// would make the client request a second export.
async fn confirm(app: &App, job: &Job, error: ApiError) -> Result<(), ApiError> {
    if matches!(error, ApiError::Unavailable(_)) {
        let mut tx = app.request_queue.snapshot().await?;
        if rows::load(&mut tx, job.id).await?.is_some() {
            tracing::warn!(export = %job.id, "the commit succeeded although its response was lost");
            return Ok(());
        }
    }
    Err(error)
}

/// The `object_prefix` in a path. An invalid one is unknown, without a query.
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
    let mut tx = app.request_queue.snapshot().await?;
    let (job, progress) = own_job(&mut tx, &caller, &object_prefix).await?;
    let broken = match progress.broken_users {
        0 => Vec::new(),
        _ => part_rows::broken_users(&mut tx, job.id, BROKEN_USERS_SHOWN).await?,
    };
    let mut status = Status::new(&job, &progress, app.clock.now_ms());
    status.broken_users = broken.into_iter().map(|(service_id, _)| service_id).collect();
    Ok(axum::Json(status))
}

/// `DELETE /users/export/{object_prefix}`: cancels; uploaded files are deleted.
async fn cancel(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    ObjectPrefix(object_prefix): ObjectPrefix,
) -> Result<axum::Json<Status>, ApiError> {
    let mut tx = app.request_queue.write().await?;
    let (job, _) = own_job(&mut tx, &caller, &object_prefix).await?;
    let cancelled = state::cancel(&app, &mut tx, &job).await?;
    let (job, progress) = own_job(&mut tx, &caller, &object_prefix).await?;
    if !cancelled && progress.state != JobState::Cancelled {
        return Err(ended(progress.state));
    }
    tx.commit().await?;
    Ok(axum::Json(Status::new(&job, &progress, app.clock.now_ms())))
}

fn ended(state: JobState) -> ApiError {
    let state = state.name();
    ApiError::Conflict(format!("The export is {state} and can no longer be cancelled"))
}

/// `GET /users/export?limit&cursor`: newest first.
async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<axum::Json<Page>, ApiError> {
    let (limit, after) =
        read_page(query.as_deref().unwrap_or_default()).map_err(ApiError::Invalid)?;
    let mut tx = app.request_queue.snapshot().await?;
    let jobs = rows::latest(&mut tx, caller.workspace.id, after, limit).await?;
    let now = app.clock.now_ms();
    let is_full = jobs.len() as i64 == limit;
    Ok(axum::Json(Page {
        next_cursor: jobs.last().filter(|_| is_full).map(|(job, _)| cursor_of(job)),
        exports: jobs.iter().map(|(job, progress)| Status::new(job, progress, now)).collect(),
    }))
}

/// The page size and the position after which it starts; the error names the parameter.
fn read_page(query: &str) -> Result<(i64, rows::ListPosition), String> {
    let expected = format!("a whole number from 1 to {LARGEST_PAGE}");
    let limit = parameter(query, "limit", &expected, |text| {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        let limit = text.parse().ok().filter(|_| is_number);
        limit.filter(|limit| (1..=LARGEST_PAGE).contains(limit))
    })?;
    let after = parameter(query, "cursor", "a next_cursor of this list", read_cursor)?;
    Ok((limit.unwrap_or(PAGE), after.unwrap_or(rows::ListPosition::START)))
}

/// A page of the list.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ExportPage")]
struct Page {
    exports: Vec<Status>,
    /// Cursor of the next page; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

fn cursor_of(job: &Job) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(format!("{} {}", job.requested_at, job.id))
}

fn read_cursor(text: &str) -> Option<rows::ListPosition> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
    let (requested_at, id) = std::str::from_utf8(&bytes).ok()?.split_once(' ')?;
    Some(rows::ListPosition {
        requested_at: requested_at.parse().ok()?,
        id: Uuid::try_parse(id).ok()?,
    })
}

/// The caller's job with that prefix; a job of another workspace is unknown.
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

/// The status of an export. Times are ISO 8601 in UTC.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ExportStatus")]
struct Status {
    object_prefix: String,
    /// The last three are final. In the state `finishing`, all files are written and are moved to
    /// their final location.
    #[schemars(extend("enum" = JobState::ALL.map(JobState::name)))]
    state: &'static str,
    users: DoneOf,
    files: DoneOf,
    /// Bytes of the written files.
    bytes: i64,
    #[schemars(extend("format" = "date-time"))]
    requested_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    started_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    finished_at: Option<String>,
    /// The expected end at the current speed. Present while the export is running, once some users
    /// are done.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    estimated_end: Option<String>,
    /// When the download URL expires. Present only without own storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    expires_at: Option<String>,
    /// Why the export failed. While it is in progress: why its files cannot be stored at the
    /// moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The service_ids of the first users whose stored profile is unreadable. Not included in the
    /// list of exports.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = BROKEN_USERS_SHOWN))]
    broken_users: Vec<Uuid>,
}

#[derive(Serialize, JsonSchema)]
struct DoneOf {
    #[schemars(range(min = 0))]
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
            error: progress.error.clone().filter(|_| progress.state.has_error()),
            broken_users: Vec::new(),
        }
    }
}

/// The expected end of a running job at its current speed.
fn estimated_end(progress: &Progress, now: i64) -> Option<i64> {
    if progress.state != JobState::Running || progress.users_done <= 0 {
        return None;
    }
    let (started, users) = (progress.started_at?, progress.users?);
    let users_left = users.saturating_sub(progress.users_done).max(0) as f64;
    let per_user = now.saturating_sub(started).max(0) as f64 / progress.users_done as f64;
    Some(now.saturating_add((users_left * per_user) as i64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;

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
    fn the_end_is_estimated_from_the_progress() {
        // 200 users took 10 seconds, so 800 take 40.
        assert_eq!(estimated_end(&running(), 1_010_000), Some(1_050_000));
        let nothing_yet = Progress { users_done: 0, ..running() };
        assert_eq!(estimated_end(&nothing_yet, 1_010_000), None);
        let done = Progress { state: JobState::Done, ..running() };
        assert_eq!(estimated_end(&done, 1_010_000), None);
        // More than were planned, and a clock that was set back.
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
    fn cursors_survive_a_round_trip() {
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
        assert_eq!(
            read_cursor(&cursor_of(&job)),
            Some(rows::ListPosition { requested_at: -5, id })
        );
        for wrong in ["", "!", "MTI", &BASE64_URL_SAFE_NO_PAD.encode("1 x")] {
            assert_eq!(read_cursor(wrong), None, "{wrong:?}");
        }
    }
}
