//! The endpoints of exports; the request for one.

use axum::Extension;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use serde_json::{Map, Value, json};

use super::audience::{CONTROL_GROUP, SEGMENT};
use super::create::{Accepted, NO_GROUP};
use super::request::{
    ExportOptions, ExportRequest, RequestedUsers, SegmentExportRequest, check_address, too_costly,
    unknown_segment,
};
use super::{
    allowed_signers, callback, create, download, dry_run, ids, list, notifications, record_schema,
    repeat, status,
};
use crate::app::App as ExportsApp;
use crate::dry_run::DescribedDryRun;
use gateway::app::App;
use gateway::idempotency::{self, Begun, StoredResponse};
use gateway::openapi::Tag;
use gateway::{
    self, Access, ApiError, Caller, IdempotencyKey, JsonText, Operation, Recording, Routes,
};
use proof::fields;

pub(super) const TAG: Tag = Tag { name: "Exports", about: "Exports of users as files." };

/// The routes of requests for exports.
pub fn request_routes() -> Routes<ExportsApp> {
    let of_control_group = gateway::protected(CONTROL_GROUP, post(request));
    let of_segment = gateway::protected(SEGMENT, post(request_segment));
    Routes::new()
        .route("/users/export/global_control_group", of_control_group, [describe_request()])
        .route("/users/export/segment", of_segment, [describe_segment_request()])
}

/// The other routes of exports.
pub fn routes() -> Routes<App> {
    Routes::new()
        .merge(ids::routes())
        .merge(list::routes())
        .merge(status::routes())
        .merge(repeat::routes())
        .merge(download::routes())
        .merge(record_schema::routes())
        .merge(allowed_signers::routes())
        .with_webhooks([callback::describe(), notifications::describe()])
}

/// What both requests have in common.
fn describe(
    id: &'static str,
    title: &'static str,
    permission: &'static str,
    about: &str,
) -> Operation {
    let files = "One JSON object per line, in files of up to 5,000 users unless `users_per_file` \
                 is set. The files go to `destination`. By default, they go to the workspace's own \
                 storage: Azure if it is the default destination, else S3. Without own storage, \
                 `url` downloads them. If `callback_endpoint` is set, the service sends a signed \
                 POST to it when the export ends.\n\nEach request creates a new export, unless it \
                 repeats the `Idempotency-Key` of an earlier request. With `dry_run`, it creates \
                 nothing: the response estimates the export, and an `Idempotency-Key` has no effect.";
    let operation = Operation::new(Method::POST, id, TAG, title)
        .by(Access::Key(permission))
        .about(format!("{about} {files}"))
        .repeatable()
        .returns::<Accepted<'static>>(StatusCode::CREATED, "The export is accepted.");
    status::with_links(operation)
        .returns::<DescribedDryRun>(StatusCode::OK, "The estimate, if `dry_run` is true.")
        .with_example(dry_run::example())
}

fn describe_request() -> Operation {
    describe(
        "requestExport",
        "Request an export",
        CONTROL_GROUP,
        "Exports every user of the global control group.",
    )
    .takes::<ExportRequest>(
        "Some fields, with a callback",
        json!({
            "fields_to_export": ["external_id", "email", "custom_attributes.loyalty_tier"],
            "callback_endpoint": "https://example.com/exports",
        }),
    )
    .refuses(&ApiError::Invalid(NO_GROUP.into()), "The workspace has no active control group")
}

fn describe_segment_request() -> Operation {
    describe(
        "requestSegmentExport",
        "Request an export of a segment",
        SEGMENT,
        "Exports every user of a segment or of an audience, as of the moment at which the export \
         starts.",
    )
    .takes::<SegmentExportRequest>(
        "A segment",
        json!({
            "segment_id": "3c9f0a52-8f1e-4c57-9a3e-0d5b1c2e7f60",
            "fields_to_export": ["external_id", "email"],
            "users_per_file": 100_000,
        }),
    )
    .refuses(&unknown_segment(), "The segment does not exist")
    .refuses(&too_costly(), "The regular expressions take too long for a dry run")
}

/// `POST /users/export/global_control_group`.
async fn request(
    State(app): State<ExportsApp>,
    Extension(caller): Extension<Caller>,
    key: Option<IdempotencyKey>,
    body: JsonText,
) -> Result<Response, ApiError> {
    let fields = read_fields(&app, &caller, &body)?;
    let request = ExportOptions::read(&fields, check_address(&app))
        .map(|options| (RequestedUsers::ControlGroup, options));
    respond(&app, caller, key, &body, &fields, request).await
}

/// `POST /users/export/segment`.
async fn request_segment(
    State(app): State<ExportsApp>,
    Extension(caller): Extension<Caller>,
    key: Option<IdempotencyKey>,
    body: JsonText,
) -> Result<Response, ApiError> {
    let fields = read_fields(&app, &caller, &body)?;
    let (workspace, check) = (caller.workspace.id, check_address(&app));
    // Compiles regular expressions.
    let read = || ExportOptions::read_with_users(&fields, workspace, check);
    let request = app.cores.compute_here(workspace, read);
    respond(&app, caller, key, &body, &fields, request).await
}

/// The fields of a body, with the workspace's other name for `service_id` noted.
fn read_fields(
    app: &ExportsApp,
    caller: &Caller,
    body: &JsonText,
) -> Result<Map<String, Value>, ApiError> {
    let mut fields = body.object_in_place(app)?;
    fields::note_alias(&mut fields, caller.workspace.aliases.service_id.as_deref());
    Ok(fields)
}

/// The users and the options of a request. Whether they are valid depends on more than the body:
/// the workspace's other name for `service_id`, and the networks that callbacks may reach.
type ReadRequest = Result<(RequestedUsers, ExportOptions), ApiError>;

/// Accepts a request, or estimates its export.
async fn respond(
    app: &ExportsApp,
    caller: Caller,
    key: Option<IdempotencyKey>,
    body: &JsonText,
    fields: &Map<String, Value>,
    mut request: ReadRequest,
) -> Result<Response, ApiError> {
    // A dry run never uses its key, even if the body is invalid.
    if fields.get("dry_run") == Some(&Value::Bool(true)) {
        let (users, options) = request?;
        let estimate = dry_run::run(app, caller.workspace.id, users, options).await?;
        return Ok((Recording::Settled, axum::Json(estimate)).into_response());
    }
    if let Ok((users, options)) = &mut request {
        let unknown =
            dry_run::unknown_attributes(app, caller.workspace.id, users, &options.fields).await;
        options.warnings.extend(unknown);
    }
    match (key, request) {
        // It has no stored response.
        (None, Err(error)) => Err(error),
        (key, request) => Ok(accept(app, caller, key, body, request).await?.into_response()),
    }
}

/// Creates the export; with a key, only once.
async fn accept(
    app: &App,
    caller: Caller,
    key: Option<IdempotencyKey>,
    body: &JsonText,
    request: ReadRequest,
) -> Result<StoredResponse, ApiError> {
    let mut turn = match idempotency::begin_change(app, key, body.as_bytes()).await? {
        Begun::Replay(response) => return Ok(response),
        Begun::Turn(turn) => turn,
    };
    // After the stored response: a body that was valid for it may be invalid now.
    let (users, options) = request?;
    let (workspace, request_id) = (caller.workspace.id, caller.request_id.clone());
    let export = create::create(app, &mut turn.tx, workspace, request_id, users, options).await?;
    let recording = caller.record(&mut turn.tx, export.job.requested_at, export.change()).await?;
    Ok(export.commit(app, turn).await?.recorded(recording))
}
