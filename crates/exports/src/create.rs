//! Creates an export from a checked request, or from an earlier export, for the API and the console.

use serde_json::{Value, json};
use uuid::Uuid;

use super::request::{ExportOptions, RequestedUsers};
use super::{Job, Progress, api, destination, intake, repeat};
use gateway::ApiError;
use gateway::app::App;
use gateway::idempotency::{ChangeTurn, StoredResponse};
use kit::fail_point;
use store::Tx;

/// A job that is written, but not committed.
pub struct NewExport {
    pub job: Job,
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
    let now = app.clock.now();
    let (workspace, audience, segment_id) = api::resolve(tx, workspace, users).await?;
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
    let response = api::created_response(app, &job, warnings)?;
    Ok(NewExport { job, response, repeats: None })
}

/// Writes the job that requests an ended export again ([`repeat::request_again`]).
pub async fn create_again(
    app: &App,
    tx: &mut Tx,
    former: (Job, Progress),
    request_id: String,
) -> Result<NewExport, ApiError> {
    let repeats = former.0.object_prefix.clone();
    let job = repeat::request_again(app, tx, former, request_id).await?;
    let response = api::created_response(app, &job, Vec::new())?;
    Ok(NewExport { job, response, repeats: Some(repeats) })
}

/// What the audit log has about a requested export. The address of its callback may have a secret.
pub fn audit_details(job: &Job, repeats: Option<&str>) -> Value {
    let mut details = json!({
        "audience": job.audience.name(),
        "segment_id": job.segment_id,
        "destination": job.destination,
    });
    if let Some(repeats) = repeats {
        details["repeats"] = repeats.into();
    }
    details
}

impl NewExport {
    /// [`audit_details`] of the export.
    pub fn audit_details(&self) -> Value {
        audit_details(&self.job, self.repeats.as_deref())
    }

    /// Makes the job durable, in the turn of its request, then notifies the workers. Returns the
    /// response, which is stored under the request's key.
    pub async fn commit(self, app: &App, turn: ChangeTurn) -> Result<StoredResponse, ApiError> {
        let Self { job, response, repeats } = self;
        if let Err(error) = turn.commit(response.clone()).await {
            api::confirm(app, &job, error).await?;
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
