//! Requests an ended export again, for a customer or an operator (docs/runbooks/export-failed.md).

use axum::Extension;
use axum::extract::State as AppState;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing::post;

use super::api::TAG;
use super::audience::PERMISSIONS;
use super::create::{Accepted, not_ended};
use super::request::unknown_segment;
use super::status::{ObjectPrefix, own_job, prefix_in_path, unknown, with_links};
use super::{State, create, destination};
use gateway::app::App;
use gateway::idempotency::{self, Begun, StoredResponse};
use gateway::workspaces::storage::{S3, URL};
use gateway::{self, Access, ApiError, Caller, IdempotencyKey, NoFields, Operation, Routes};

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
