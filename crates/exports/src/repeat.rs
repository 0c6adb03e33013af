//! Requests an ended export again, for a customer or an operator (docs/runbooks/export-failed.md).

use std::time::Duration;

use axum::Extension;
use axum::extract::State as AppState;
use axum::http::{Method, StatusCode};
use axum::routing::post;
use uuid::Uuid;

use super::api::{self, Accepted, TAG};
use super::audience::PERMISSIONS;
use super::request::{RequestedUsers, unknown_segment};
use super::status::{ObjectPrefix, own_job, prefix_in_path, unknown, with_links};
use super::{Audience, Job, Progress, State, create, destination, rows};
use gateway::app::App;
use gateway::idempotency::{self, Begun, StoredResponse};
use gateway::{
    self, Access, ApiError, Caller, IdempotencyKey, NoFields, Operation, RequestBudget, Routes,
};
use runtime::kinds;
use store::Tx;
use store::claims;

pub(super) fn routes() -> Routes<App> {
    let route = gateway::protected_by_one_of(PERMISSIONS, post(repeat));
    Routes::new().route("/users/export/{object_prefix}/repeat", route, [describe()])
}

fn describe() -> Operation {
    let operation = Operation::new(Method::POST, "repeatExport", TAG, "Repeat an export")
        .by(Access::OneOf(&PERMISSIONS))
        .about(
            "Requests an export that has ended again, such as a failed or cancelled one: with the \
             same audience, fields, format, destination and callback. The new export has the users \
             of now. The key must have the permission to request such an export. An \
             `Idempotency-Key` is of one export: with another `object_prefix`, it is rejected.",
        )
        .repeatable()
        .takes_no_fields()
        .returns::<Accepted<'static>>(StatusCode::CREATED, "The new export is accepted.")
        .refuses(&unknown_segment(), "The segment no longer exists")
        .refuses(&unknown(), "No export in this workspace has this object_prefix")
        .refuses(&in_progress(State::Running), "The export has not ended");
    prefix_in_path(with_links(operation))
}

fn in_progress(state: State) -> ApiError {
    let state = state.name();
    ApiError::Conflict(format!("The export is {state}: it can be repeated after its end"))
}

/// `POST /users/export/{object_prefix}/repeat`.
async fn repeat(
    AppState(app): AppState<App>,
    Extension(caller): Extension<Caller>,
    Extension(request_budget): Extension<RequestBudget>,
    key: Option<IdempotencyKey>,
    ObjectPrefix(object_prefix): ObjectPrefix,
    _: NoFields,
) -> Result<StoredResponse, ApiError> {
    // A key also repeats only what it may request if the response is a stored one.
    let mut tx = app.request_queue.snapshot().await?;
    let (former, _) = own_job(&mut tx, &caller, &object_prefix).await?;
    tx.commit().await?;
    request_budget.count(former.audience.budget()).await?;
    let mut turn = match idempotency::begin_change(&app, key, object_prefix.as_bytes()).await? {
        Begun::Replay(response) => return Ok(response),
        Begun::Turn(turn) => turn,
    };
    let former = own_job(&mut turn.tx, &caller, &object_prefix).await?;
    let request_id = caller.request_id.clone();
    let export = create::create_again(&app, &mut turn.tx, former, request_id).await?;
    let (job, details) = (&export.job, export.audit_details());
    let change = ("export.repeat", &*job.object_prefix);
    caller.record(&mut turn.tx, job.requested_at, change, details).await?;
    export.commit(&app, turn).await
}

/// Writes a new job with the request of `former`: the same audience, fields, format, destination and
/// callback. A control group is the one that is active now, and the destination's storage the one
/// that is declared now. The job starts as soon as a worker is free; it needs no message in the log.
/// A job that has not ended is a conflict.
pub async fn request_again(
    app: &App,
    tx: &mut Tx,
    (former, progress): (Job, Progress),
    request_id: String,
) -> Result<Job, ApiError> {
    if !progress.state.is_final() {
        return Err(in_progress(progress.state));
    }
    let segment_id = former.segment_id;
    let users = match &former.audience {
        Audience::ControlGroup => RequestedUsers::ControlGroup,
        Audience::Segment => RequestedUsers::Segment { segment_id },
        Audience::Connected(conditions) => {
            RequestedUsers::Audience { conditions: conditions.clone(), segment_id }
        }
    };
    let (workspace, audience, segment_id) = api::resolve(tx, former.workspace_id, users).await?;
    let now = app.clock.now();
    let job = Job {
        id: Uuid::now_v7(),
        object_prefix: format!("{}-{}", Uuid::new_v4(), now.as_second()),
        audience,
        segment_id,
        storage_id: destination::storage(tx, &workspace, former.destination.as_deref()).await?,
        request_id,
        requested_at: now.as_millisecond(),
        ..former
    };
    rows::insert(tx, &job).await?;
    let claim = claims::Job::new(job.workspace_id, job.id);
    claims::offer(tx, kinds::EXPORT_PLAN, claim, 0, Duration::ZERO).await?;
    Ok(job)
}
