//! The status of an export: GET returns it, DELETE cancels the export
//! (docs/reference/api/exports.md).

use axum::Extension;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::routing::get;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::api::TAG;
use super::audience::PERMISSIONS;
use super::proof_objects::ManifestReference;
use super::{Audience, Job, Progress, State as JobState, download, part_rows, paths, rows, state};
use gateway::app::App;
use gateway::workspaces::storage::{self, StorageError};
use gateway::{self, Access, ApiError, Caller, NoFields, Operation, Recording, Routes};
use kit::clock::format_time;
use proof::manifest::is_object_prefix;
use runtime::audit::Change;
use store::{StoreError, Tx};

/// Ids of unreadable users that a status shows.
const BROKEN_USERS_SHOWN: i64 = 100;

/// The `object_prefix` of the examples.
pub(super) const PREFIX: &str = "9d2261c4-4cf3-44b0-909b-455baf540288-1795249898";

pub(super) fn routes() -> Routes<App> {
    let export = gateway::protected_by_any(PERMISSIONS, get(status).delete(cancel));
    Routes::new().route(
        "/users/export/{object_prefix}",
        export,
        [describe_status(), describe_cancel()],
    )
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

/// Adds what can be done with the export that a response names.
pub(super) fn with_links(operation: Operation) -> Operation {
    let prefix = json!({ "parameters": { "object_prefix": "$response.body#/object_prefix" } });
    operation.with_link("exportStatus", prefix.clone()).with_link("cancelExport", prefix)
}

pub(super) fn example_status() -> Value {
    json!({
        "object_prefix": PREFIX, "state": JobState::Done.name(), "audience": "segment",
        "segment_id": "3c9f0a52-8f1e-4c57-9a3e-0d5b1c2e7f60",
        "users": { "done": 2013, "total": 2013 }, "files": { "done": 1, "total": 1 },
        "bytes": 66425, "requested_at": "2026-11-21T08:29:28.910Z",
        "started_at": "2026-11-21T08:29:28.916Z", "finished_at": "2026-11-21T08:29:29.052Z",
        "url": format!("https://longshore.example.com/users/export/{PREFIX}/download?signature=x"),
        "expires_at": "2026-11-21T12:29:29.052Z",
    })
}

fn describe_status() -> Operation {
    let operation = Operation::new(Method::GET, "exportStatus", TAG, "Get the status of an export")
        .by(Access::AnyKey(&PERMISSIONS))
        .returns::<Status>(StatusCode::OK, "The status.")
        .with_example(example_status())
        .refuses(&unknown(), "No export in this workspace has this object_prefix");
    prefix_in_path(operation)
}

fn describe_cancel() -> Operation {
    let operation = Operation::new(Method::DELETE, "cancelExport", TAG, "Cancel an export")
        .by(Access::AnyKey(&PERMISSIONS))
        .about(
            "Cancels an export that is queued, planning or running. Its files are deleted, and no \
             callback is sent. The export stays in the list. Cancelling it again returns the same \
             response.",
        )
        .takes_no_fields()
        .returns::<Status>(StatusCode::OK, "The status.")
        .with_example(example_status())
        .refuses(&unknown(), "No export in this workspace has this object_prefix")
        .refuses(&ended(JobState::Done), "The export has ended or is finishing");
    prefix_in_path(operation)
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

pub(super) fn unknown() -> ApiError {
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
    Ok(axum::Json(Status::read(&app, &mut tx, &job, &progress).await?))
}

/// `DELETE /users/export/{object_prefix}`: cancels; uploaded files are deleted.
async fn cancel(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    ObjectPrefix(object_prefix): ObjectPrefix,
    _: NoFields,
) -> Result<(Recording, axum::Json<Status>), ApiError> {
    let mut tx = app.request_queue.write().await?;
    let (job, _) = own_job(&mut tx, &caller, &object_prefix).await?;
    let (progress, change) = cancel_job(&app, &mut tx, &job).await?;
    let now = app.clock.now_ms();
    let recording = caller.record(&mut tx, now, change).await?;
    tx.commit().await?;
    // The time decides nothing in the status of a cancelled export.
    Ok((recording, axum::Json(Status::new(&app, &job, &progress, now))))
}

/// Cancels an export in the caller's transaction. One that was cancelled before does not change;
/// one that has ended otherwise, or is finishing, is a conflict. Returns the progress, and the
/// change for the audit log.
pub async fn cancel_job(
    app: &App,
    tx: &mut Tx,
    job: &Job,
) -> Result<(Progress, Option<Change>), ApiError> {
    let before = state::cancel(app, tx, job).await?;
    let (_, progress) = rows::load(tx, job.id).await?.ok_or_else(unknown)?;
    if before.is_none() && progress.state != JobState::Cancelled {
        return Err(ended(progress.state));
    }
    let change = before.and_then(|before| {
        let (before, after) = (before.name(), progress.state.name());
        Change::from_states("export.cancel", &*job.object_prefix, before, after)
    });
    Ok((progress, change))
}

fn ended(state: JobState) -> ApiError {
    let state = state.name();
    ApiError::Conflict(format!("The export is {state} and can no longer be cancelled"))
}

/// The caller's job with that prefix; a job of another workspace is unknown, and so is one that the
/// key may not request.
pub(super) async fn own_job(
    tx: &mut Tx,
    caller: &Caller,
    object_prefix: &str,
) -> Result<(Job, Progress), ApiError> {
    rows::by_prefix(tx, object_prefix)
        .await?
        .filter(|(job, _)| job.workspace_id == caller.workspace.id)
        .filter(|(job, _)| caller.has_permission(job.audience.permission()))
        .ok_or_else(unknown)
}

/// The status of an export. Times are ISO 8601 in UTC.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "ExportStatus")]
pub struct Status {
    object_prefix: String,
    /// The last three are final. In the state `finishing`, all files are written and are moved to
    /// their final location.
    #[schemars(extend("enum" = JobState::ALL.map(JobState::name)))]
    state: &'static str,
    /// The current work: `queued` waits for a worker, `planning` divides the users into files,
    /// `reading` reads users and writes files. While finishing, `moving` moves the files to the
    /// folder of the day of completion, and `archiving` creates the ZIP behind `url`; both then
    /// write the manifest. Absent after the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = Phase::ALL.map(Phase::name)))]
    phase: Option<&'static str>,
    /// Its users: the global control group, a segment, or a connected audience.
    #[schemars(extend("enum" = Audience::NAMES))]
    audience: &'static str,
    /// The segment in the paths of the files.
    segment_id: Uuid,
    /// The `destination` of the request. Absent if the request had none.
    #[serde(skip_serializing_if = "Option::is_none")]
    destination: Option<String>,
    users: DoneOf,
    files: DoneOf,
    /// Bytes of the written files.
    bytes: i64,
    /// The average since `started_at`. Present while the export is running.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<Rate>,
    #[schemars(extend("format" = "date-time"))]
    requested_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    started_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    finished_at: Option<String>,
    /// When Longshore noticed that the export takes longer than `export_late_after` of the
    /// workspace. Absent if it does not; present after the end of a late export.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    late_at: Option<String>,
    /// The expected end at the current speed. Present while the export is running, once some users
    /// are done.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    estimated_end: Option<String>,
    /// The download URL, as in the response to the request. Absent if the files go to own storage,
    /// and after the URL expires, or the export fails or is cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "uri"))]
    url: Option<String>,
    /// Where the files are in own storage, once the export is done: the folder of the day, as
    /// `longshore export verify` reads it, without credentials. Not included in the list of exports.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        example = "s3://acme-exports/segment-export/4c1f1d4e-5a0b-4a53-9a43-5fb4d2a6c3d1/2026-11-21?region=eu-west-1"
    )]
    location: Option<String>,
    /// The manifest, once the export is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    manifest: Option<ManifestReference>,
    /// When the download URL expires. Absent if the files go to own storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    expires_at: Option<String>,
    /// Why the export failed. While it is in progress: the last error of the storage, until a file
    /// is stored again.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The service_ids of the first users whose stored profile is unreadable. Not included in the
    /// list of exports.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = BROKEN_USERS_SHOWN))]
    broken_users: Vec<Uuid>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
struct DoneOf {
    #[schemars(range(min = 0))]
    done: i64,
    /// Absent until the export is planned.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<i64>,
}

/// The speed of a running export.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "ExportRate")]
pub struct Rate {
    #[schemars(range(min = 0))]
    pub users_per_second: f64,
    /// Bytes of the written files.
    #[schemars(range(min = 0))]
    pub bytes_per_second: f64,
}

store::text_enum! {
    /// The current work of a job that has not ended.
    enum Phase {
        Queued = "queued",
        Planning = "planning",
        Reading = "reading",
        Moving = "moving",
        Archiving = "archiving",
    }
}

impl Phase {
    fn current(job: &Job, state: JobState) -> Option<Self> {
        match state {
            JobState::Queued => Some(Self::Queued),
            JobState::Planning => Some(Self::Planning),
            JobState::Running => Some(Self::Reading),
            JobState::Finishing if job.storage_id.is_some() => Some(Self::Moving),
            JobState::Finishing => Some(Self::Archiving),
            JobState::Done | JobState::Failed | JobState::Cancelled => None,
        }
    }
}

impl Status {
    /// The status without the ids of unreadable users.
    pub fn new(app: &App, job: &Job, progress: &Progress, now: i64) -> Self {
        let url = has_url(job, progress, now).then(|| download::address(app, &job.object_prefix));
        Self {
            object_prefix: job.object_prefix.clone(),
            state: progress.state.name(),
            phase: Phase::current(job, progress.state).map(Phase::name),
            audience: job.audience.name(),
            segment_id: job.segment_id,
            destination: job.destination.clone(),
            users: DoneOf { done: progress.users_done, total: progress.users },
            files: DoneOf { done: progress.files_done, total: progress.parts },
            bytes: progress.bytes_done,
            rate: rate(progress, now),
            requested_at: format_time(job.requested_at),
            started_at: progress.started_at.map(format_time),
            finished_at: progress.finished_at.map(format_time),
            late_at: progress.late_at.map(format_time),
            estimated_end: estimated_end(progress, now).map(format_time),
            location: None,
            manifest: manifest(app, job, progress, now),
            url,
            expires_at: progress.expires_at.map(format_time),
            error: progress.error.clone().filter(|_| progress.state.has_error()),
            broken_users: Vec::new(),
        }
    }

    /// The status without URLs that need no key.
    pub(super) fn without_urls(self) -> Self {
        let manifest = self.manifest.map(ManifestReference::without_url);
        Self { url: None, manifest, ..self }
    }

    /// The status as GET returns it.
    pub(super) async fn read(
        app: &App,
        tx: &mut Tx,
        job: &Job,
        progress: &Progress,
    ) -> Result<Self, StoreError> {
        let broken = match progress.broken_users {
            0 => Vec::new(),
            _ => part_rows::broken_users(tx, job.id, BROKEN_USERS_SHOWN).await?,
        };
        let broken_users = broken.into_iter().map(|(service_id, _)| service_id).collect();
        let location = location(app, tx, job, progress).await?;
        let now = app.database_now(tx).await?;
        Ok(Self { broken_users, location, ..Self::new(app, job, progress, now) })
    }
}

/// Where a finished export is in own storage.
async fn location(
    app: &App,
    tx: &mut Tx,
    job: &Job,
    progress: &Progress,
) -> Result<Option<String>, StoreError> {
    let (Some(storage), JobState::Done) = (job.storage_id, progress.state) else { return Ok(None) };
    let Some(date) = progress.completion_date() else { return Ok(None) };
    match storage::settings(tx, &app.secrets, storage).await {
        Ok(settings) => Ok(Some(paths::own_address(&settings, job.segment_id, date))),
        Err(StorageError::Store(error)) => Err(error),
        Err(error) => {
            tracing::warn!(object_prefix = job.object_prefix, %error, "cannot read a storage");
            Ok(None)
        }
    }
}

/// The manifest of a finished export, as long as it is there.
fn manifest(app: &App, job: &Job, progress: &Progress, now: i64) -> Option<ManifestReference> {
    let sha256 = progress.manifest_sha256.as_deref()?;
    let is_there = progress.expires_at.is_none_or(|end| now < end);
    is_there.then(|| ManifestReference::new(app, job, progress, sha256))
}

/// Whether the download URL works, or will work.
pub fn has_url(job: &Job, progress: &Progress, now: i64) -> bool {
    let is_lost = matches!(progress.state, JobState::Failed | JobState::Cancelled);
    job.storage_id.is_none() && !is_lost && progress.expires_at.is_none_or(|end| now < end)
}

/// The average speed of a running job.
pub fn rate(progress: &Progress, now: i64) -> Option<Rate> {
    if progress.state != JobState::Running {
        return None;
    }
    let elapsed = now.saturating_sub(progress.started_at?);
    // With one decimal place: more would only differ at each look.
    let per_second = |done: i64| (done.max(0) as f64 * 10_000.0 / elapsed as f64).round() / 10.0;
    (elapsed > 0).then(|| Rate {
        users_per_second: per_second(progress.users_done),
        bytes_per_second: per_second(progress.bytes_done),
    })
}

/// The expected end of a running job at its current speed.
pub fn estimated_end(progress: &Progress, now: i64) -> Option<i64> {
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
    use crate::{Audience, Format};

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
            late_at: None,
            completed_at: None,
            finished_at: None,
            expires_at: None,
            archive: None,
            manifest_sha256: None,
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

    fn job(storage_id: Option<Uuid>) -> Job {
        Job {
            id: Uuid::nil(),
            workspace_id: 1,
            object_prefix: PREFIX.into(),
            audience: Audience::ControlGroup,
            segment_id: Uuid::nil(),
            users_per_file: None,
            fields: vec![],
            format: Format::Zip,
            storage_id,
            destination: None,
            callback_endpoint: None,
            request_id: "r".into(),
            requested_at: 0,
        }
    }

    #[test]
    fn the_rate_is_that_of_a_running_export() {
        let rate_of = |progress: &Progress, now| {
            rate(progress, now).map(|rate| (rate.users_per_second, rate.bytes_per_second))
        };
        assert_eq!(rate_of(&running(), 1_010_000), Some((20.0, 0.1)));
        assert_eq!(rate_of(&running(), 1_030_000), Some((6.7, 0.0)));
        // No time has passed, or the clock was set back.
        assert_eq!(rate_of(&running(), 1_000_000), None);
        assert_eq!(rate_of(&running(), 999_000), None);
        let ended = Progress { state: JobState::Finishing, ..running() };
        assert_eq!(rate_of(&ended, 1_010_000), None);
    }

    #[test]
    fn the_phase_says_what_finishing_does() {
        let name = |storage, state| Phase::current(&job(storage), state).map(Phase::name);
        assert_eq!(name(None, JobState::Running), Some("reading"));
        assert_eq!(name(None, JobState::Finishing), Some("archiving"));
        assert_eq!(name(Some(Uuid::nil()), JobState::Finishing), Some("moving"));
        for state in JobState::ALL {
            assert_eq!(name(None, state).is_none(), state.is_final(), "{state:?}");
        }
    }

    #[test]
    fn a_status_has_a_url_until_it_expires() {
        let with = |state, expires_at| Progress { state, expires_at, ..running() };
        let (own, none) = (job(Some(Uuid::nil())), job(None));
        assert!(has_url(&none, &with(JobState::Queued, None), 5));
        assert!(has_url(&none, &with(JobState::Done, Some(6)), 5));
        assert!(!has_url(&none, &with(JobState::Done, Some(5)), 5));
        assert!(!has_url(&none, &with(JobState::Failed, None), 5));
        assert!(!has_url(&none, &with(JobState::Cancelled, None), 5));
        assert!(!has_url(&own, &with(JobState::Done, None), 5));
    }
}
