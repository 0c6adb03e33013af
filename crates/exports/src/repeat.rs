//! Requests an ended export again, for a customer or an operator (docs/runbooks/export-failed.md).

use std::collections::HashSet;

use axum::Extension;
use axum::extract::State as AppState;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing::post;

use super::api::TAG;
use super::audience::PERMISSIONS;
use super::create::{Accepted, REPEAT, REPEATS, not_ended};
use super::overview::{self, Filter, ListedExport};
use super::request::unknown_segment;
use super::status::{ObjectPrefix, own_job, prefix_in_path, unknown, with_links};
use super::{Job, Progress, State, create, destination, rows};
use gateway::app::App;
use gateway::idempotency::{self, Begun, StoredResponse};
use gateway::workspaces::storage::{S3, URL};
use gateway::{self, Access, ApiError, Caller, IdempotencyKey, NoFields, Operation, Routes};
use runtime::audit;
use store::{StoreError, Tx};

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
             of now. The key must have the permission to request such an export.",
        )
        .repeatable()
        .takes_no_fields()
        .returns::<Accepted<'static>>(StatusCode::CREATED, "The new export is accepted.")
        .refuses(&unknown_segment(), "The segment no longer exists")
        .refuses(&unknown(), "No export in this workspace has this object_prefix")
        .refuses(&not_ended(State::Running), "The export has not ended")
        .refuses(&destination::changed(S3, URL), "The default destination has changed");
    prefix_in_path(with_links(operation))
}

/// `POST /users/export/{object_prefix}/repeat`.
async fn repeat(
    AppState(app): AppState<App>,
    Extension(caller): Extension<Caller>,
    key: Option<IdempotencyKey>,
    ObjectPrefix(object_prefix): ObjectPrefix,
    body: NoFields,
) -> Result<Response, ApiError> {
    // A key also repeats only what it may request if the response is a stored one.
    let mut tx = app.request_queue.snapshot().await?;
    let (former, _) = own_job(&mut tx, &caller, &object_prefix).await?;
    tx.commit().await?;
    let budget = former.audience.budget();
    let keyed = (key.map(|key| key.within(&object_prefix)), body.as_bytes());
    let accepted = accept(&app, &caller, keyed, &object_prefix);
    Ok(gateway::count_and_handle(&app, &caller.workspace, budget, accepted).await)
}

/// Creates the new export; with a key, only once.
async fn accept(
    app: &App,
    caller: &Caller,
    (key, body): (Option<IdempotencyKey>, &[u8]),
    object_prefix: &str,
) -> Result<StoredResponse, ApiError> {
    let mut turn = match idempotency::begin_change(app, key, body).await? {
        Begun::Replay(response) => return Ok(response),
        Begun::Turn(turn) => turn,
    };
    let former = own_job(&mut turn.tx, caller, object_prefix).await?;
    let request_id = caller.request_id.clone();
    let export = create::create_again(app, &mut turn.tx, former, request_id).await?;
    let recording = caller.record(&mut turn.tx, export.job.requested_at, export.change()).await?;
    Ok(export.commit(app, turn).await?.recorded(recording))
}

/// The exports that failed since a time and that nobody has repeated, the earliest first. The time
/// must not be before the audit log's first entries ([`audit::KEEP_DAYS`]).
pub async fn failed_since(
    app: &App,
    tx: &mut Tx,
    workspace: Option<i32>,
    since: i64,
) -> Result<Vec<ListedExport>, StoreError> {
    let (states, ended_since) = (vec![State::Failed], Some(since));
    let filter = Filter { workspace, states, ended_since, limit: i64::MAX, ..Filter::default() };
    let mut failed = overview::list(app, tx, &filter).await?;
    let repeated = repeated_since(tx, workspace, since).await?;
    failed.retain(|export| !repeated.contains(&export.job.object_prefix));
    failed.sort_by_key(|export| (export.progress.finished_at, export.job.id));
    Ok(failed)
}

/// Whether an export failed and nobody has repeated it. If so, whoever asks at the same time waits for
/// this transaction.
pub async fn lock_unrepeated(
    tx: &mut Tx,
    (job, progress): &(Job, Progress),
) -> Result<bool, StoreError> {
    if !rows::lock_failed(tx, job.id).await? {
        return Ok(false);
    }
    let since = progress.finished_at.unwrap_or(job.requested_at);
    let repeated = repeated_since(tx, Some(job.workspace_id), since).await?;
    Ok(!repeated.contains(&job.object_prefix))
}

/// The exports that were repeated since a time.
async fn repeated_since(
    tx: &mut Tx,
    workspace_id: Option<i32>,
    since: i64,
) -> Result<HashSet<String>, StoreError> {
    let (action, since) = (Some(REPEAT.to_owned()), Some(since));
    let filter =
        audit::Filter { workspace_id, action, since, limit: i64::MAX, ..audit::Filter::default() };
    let entries = audit::list(tx, &filter).await?;
    let former = entries.iter().filter_map(|entry| entry.details[REPEATS].as_str());
    Ok(former.map(str::to_owned).collect())
}
