//! Creates an export from a checked request, or from an earlier export, for the API and the
//! console.

use std::time::Duration;

use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use super::request::{ExportOptions, RequestedUsers, unknown_segment};
use super::{Audience, Job, Progress, State, destination, download, intake, rows, warnings};
use gateway::ApiError;
use gateway::app::App;
use gateway::formats::SuccessText;
use gateway::idempotency::{ChangeTurn, StoredResponse};
use gateway::warnings::{Warning, Warnings};
use gateway::workspaces::{self, Workspace, segments};
use kit::clock::from_ms;
use kit::fail_point;
use runtime::audit::Change;
use runtime::kinds;
use store::Tx;
use store::claims;

/// The entry of a repeated export in the audit log; its details have the former export in
/// [`REPEATS`].
pub(super) const REPEAT: &str = "export.repeat";
pub(super) const REPEATS: &str = "repeats";

pub(super) const NO_GROUP: &str = "The workspace has no active global control group";

/// A job that is written, but not committed.
pub struct NewExport {
    pub job: Job,
    /// The destination: the chosen one, or the kind of the default one.
    destination: String,
    response: StoredResponse,
    /// The object_prefix of the export that it repeats.
    repeats: Option<String>,
}

/// Writes the job of a request, and offers its planning.
pub async fn create(
    app: &App,
    tx: &mut Tx,
    workspace: i32,
    request_id: String,
    users: RequestedUsers,
    options: ExportOptions,
) -> Result<NewExport, ApiError> {
    let now = from_ms(app.database_now(tx).await?);
    let (workspace, audience, segment_id) = resolve(tx, workspace, users).await?;
    let warnings = options.warnings;
    let job = Job {
        id: Uuid::now_v7(),
        workspace_id: workspace.id,
        object_prefix: format!("{}-{}", Uuid::new_v4(), now.as_second()),
        audience,
        segment_id,
        users_per_file: options.users_per_file,
        fields: options.fields,
        format: options.format,
        storage_id: destination::storage(tx, &workspace, options.destination.as_deref()).await?,
        destination: options.destination,
        callback_endpoint: options.callback_endpoint,
        request_id,
        requested_at: now.as_millisecond(),
    };
    intake::insert(app, tx, &job).await?;
    let response = created_response(app, &job, warnings)?;
    let destination = destination::shown(tx, &job).await?;
    Ok(NewExport { job, destination, response, repeats: None })
}

/// Writes a new job with the request of `former`: the same audience, fields, format, destination
/// and callback. A control group is the one that is active now, and the destination's storage the
/// one that is declared now. The job starts as soon as a worker is free; it needs no message in the
/// log. A job that has not ended, or whose default destination has changed, is a conflict.
pub async fn create_again(
    app: &App,
    tx: &mut Tx,
    former: (Job, Progress),
    request_id: String,
) -> Result<NewExport, ApiError> {
    let repeats = former.0.object_prefix.clone();
    let job = request_again(app, tx, former, request_id).await?;
    let response = created_response(app, &job, Vec::new())?;
    let destination = destination::shown(tx, &job).await?;
    Ok(NewExport { job, destination, response, repeats: Some(repeats) })
}

impl NewExport {
    /// What the audit log has about it. The path of its callback may have a secret.
    pub fn change(&self) -> Change {
        let Job { audience, segment_id, fields, format, callback_endpoint, object_prefix, .. } =
            &self.job;
        let callback = callback_endpoint.as_deref().map(runtime::outbound::shown);
        let mut details = json!({
            "audience": audience.name(), "segment_id": segment_id, "fields": fields,
            "format": format.name(), "destination": self.destination, "callback": callback,
        });
        let action = match &self.repeats {
            Some(former) => {
                details[REPEATS] = former.as_str().into();
                REPEAT
            }
            None => "export.request",
        };
        Change { action, object: object_prefix.clone(), details }
    }

    /// Makes the job durable, in the turn of its request, then notifies the workers. Returns the
    /// response, which is stored under the request's key.
    pub async fn commit(self, app: &App, turn: ChangeTurn) -> Result<StoredResponse, ApiError> {
        let Self { job, response, repeats, .. } = self;
        if let Err(error) = turn.commit(response.clone()).await {
            confirm(app, &job, error).await?;
        }
        tracing::info!(
            export = %job.id,
            object_prefix = job.object_prefix,
            repeats,
            "export requested"
        );
        fail_point!("export::requested");
        // The planning of a repeated export is due already.
        if repeats.is_none() {
            intake::announce(app, &job).await;
        }
        Ok(response)
    }
}

/// The job of [`create_again`].
async fn request_again(
    app: &App,
    tx: &mut Tx,
    (former, progress): (Job, Progress),
    request_id: String,
) -> Result<Job, ApiError> {
    if !progress.state.is_final() {
        return Err(not_ended(progress.state));
    }
    let segment_id = former.segment_id;
    let users = match &former.audience {
        Audience::ControlGroup => RequestedUsers::ControlGroup,
        Audience::Segment => RequestedUsers::Segment { segment_id },
        Audience::Connected(conditions) => {
            RequestedUsers::Audience { conditions: conditions.clone(), segment_id }
        }
    };
    let (workspace, audience, segment_id) = resolve(tx, former.workspace_id, users).await?;
    let now = from_ms(app.database_now(tx).await?);
    let job = Job {
        id: Uuid::now_v7(),
        object_prefix: format!("{}-{}", Uuid::new_v4(), now.as_second()),
        audience,
        segment_id,
        storage_id: destination::storage_again(tx, &workspace, &former).await?,
        request_id,
        requested_at: now.as_millisecond(),
        ..former
    };
    rows::insert(tx, &job).await?;
    let claim = claims::Job::new(job.workspace_id, job.id);
    claims::offer(tx, kinds::EXPORT_PLAN, claim, 0, Duration::ZERO).await?;
    Ok(job)
}

/// The error of a repeat of an export that has not ended.
pub(super) fn not_ended(state: State) -> ApiError {
    let state = state.name();
    ApiError::Conflict(format!("The export is {state}: it can be repeated after its end"))
}

/// The workspace, the audience and its segment id, if they exist.
pub(super) async fn resolve(
    tx: &mut Tx,
    workspace: i32,
    users: RequestedUsers,
) -> Result<(Workspace, Audience, Uuid), ApiError> {
    // The caller's copy may be a few seconds old, from before an `apply` that changed the storage.
    let workspace = workspaces::by_id(tx, workspace)
        .await?
        .ok_or_else(|| ApiError::Invalid("The workspace was deleted".into()))?;
    let (audience, segment_id) = match users {
        RequestedUsers::ControlGroup => {
            let group = workspaces::control_group(tx, workspace.id).await?;
            let group = group.ok_or_else(|| ApiError::Invalid(NO_GROUP.into()))?;
            (Audience::ControlGroup, group.segment_id)
        }
        RequestedUsers::Segment { segment_id } => {
            let segment = segments::segment(tx, workspace.id, segment_id).await?;
            segment.ok_or_else(unknown_segment)?;
            (Audience::Segment, segment_id)
        }
        RequestedUsers::Audience { conditions, segment_id } => {
            (Audience::Connected(conditions), segment_id)
        }
    };
    Ok((workspace, audience, segment_id))
}

/// The response to a request.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ExportAccepted")]
pub(super) struct Accepted<'a> {
    message: SuccessText,
    /// A random UUID, and the Unix seconds of the request.
    object_prefix: &'a str,
    /// The download URL. Absent if the files go to own storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// Parts of the request that have no effect; at most 20. Absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Warning>,
}

fn created_response(
    app: &App,
    job: &Job,
    warnings: Vec<Warning>,
) -> Result<StoredResponse, ApiError> {
    let url = job.storage_id.is_none().then(|| download::address(app, &job.object_prefix));
    let mut all = Warnings::from(warnings);
    all.extend(warnings::ignored_format(job.storage_id, job.format).into_iter().collect());
    let body = Accepted {
        message: SuccessText::Success,
        object_prefix: &job.object_prefix,
        url,
        warnings: all.into_vec(),
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
