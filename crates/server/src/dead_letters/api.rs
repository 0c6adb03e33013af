//! The workspace's dead letters: listed, shown, retried, discarded
//! (docs/reference/api/dead-letters.md).

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::http::{Method, StatusCode};
use axum::routing::{get, post};
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{failed_again, retry_in_turn, unknown};
use crate::app::App;
use gateway::formats::Success;
use gateway::idempotency::{self, KeyedResponse, StoredResponse};
use gateway::openapi::Tag;
use gateway::paging::{self, Paging};
use gateway::{Access, ApiError, Caller, IdempotencyKey, NoFields, Operation, Recording, Routes};
use kit::clock::serialize_time;
use runtime::audit::Change;
use runtime::engine::batches::dead_letters::{self, ListedDeadLetter};

const LIST: &str = "dead_letters.list";
const GET: &str = "dead_letters.get";
const RETRY: &str = "dead_letters.retry";
const DISCARD: &str = "dead_letters.discard";

const TAG: Tag = Tag {
    name: "Dead letters",
    about: "Accepted data and send requests of the workspace that could not be applied.",
};

/// Maximum number of bytes of a payload in a response.
const PAYLOAD_BYTES: i32 = 64 << 10;

/// The creation and the id of a dead letter: its position in the list.
type Key = (i64, Uuid);

/// The routes of dead letters.
pub fn routes() -> Routes<App> {
    // Each method has its own permission.
    let by_id = gateway::protected(GET, get(show))
        .merge(gateway::protected(DISCARD, axum::routing::delete(discard)));
    Routes::new()
        .route("/dead_letters", gateway::protected(LIST, get(list)), [describe_list()])
        .route("/dead_letters/{id}", by_id, [describe_show(), describe_discard()])
        .route(
            "/dead_letters/{id}/retry",
            gateway::protected(RETRY, post(retry)),
            [describe_retry()],
        )
}

fn describe_list() -> Operation {
    Operation::new(Method::GET, "listDeadLetters", TAG, "List dead letters, oldest first")
        .by(Access::Key(LIST))
        .takes_cursor("dead letters")
        .returns::<DeadLetterPage>(StatusCode::OK, "A page.")
        .with_example(json!({ "dead_letters": [example()], "next_cursor": "WzE3OTUyNDk3Njg5MTBd" }))
}

fn describe_show() -> Operation {
    let mut dead_letter = example();
    dead_letter["payload"] =
        json!("{\"v\":1,\"workspace\":7,\"received_at\":1795249769052,\"objects\":[]}");
    dead_letter["is_truncated"] = json!(false);
    let operation = Operation::new(Method::GET, "getDeadLetter", TAG, "Get a dead letter");
    id_in_path(operation.by(Access::Key(GET)))
        .about(
            "The `payload` has the personal data of the objects that could not be applied. That of \
             a send request has the messages with their addresses and headers.",
        )
        .returns::<DeadLetterDetails>(StatusCode::OK, "The dead letter.")
        .with_example(dead_letter)
}

fn describe_retry() -> Operation {
    let operation = Operation::new(Method::POST, "retryDeadLetter", TAG, "Apply a dead letter");
    id_in_path(operation.by(Access::Key(RETRY)))
        .about(
            "Applies the objects once, after everything that was accepted in the meantime. Objects \
             that fail again stay in the dead letter. After 503, retry it: what was applied is not \
             applied again.",
        )
        .repeatable()
        .takes_no_fields()
        .returns_success(StatusCode::OK, "It is applied, and no longer a dead letter.")
        .refuses(&failed_again(), "It failed again")
}

fn describe_discard() -> Operation {
    let operation =
        Operation::new(Method::DELETE, "discardDeadLetter", TAG, "Delete a dead letter");
    id_in_path(operation.by(Access::Key(DISCARD)))
        .about("Deletes the objects permanently. They are never applied.")
        .takes_no_fields()
        .returns_success(StatusCode::OK, "It is deleted.")
}

fn id_in_path(operation: Operation) -> Operation {
    let schema = json!({ "type": "string", "format": "uuid" });
    operation
        .in_path("id", "The id of the dead letter.", schema)
        .refuses(&unknown(), "No dead letter of this workspace has this id")
}

fn example() -> Value {
    json!({
        "id": "01927b3e-5a1c-7cc3-98c4-dc0c0c07398f", "topic": "tracking",
        "request_id": "0190b9a6-1c00-7000-8000-000000000000",
        "reason": "purchases[0]: the stored activity of the user is damaged", "attempts": 1,
        "created_at": "2026-11-21T08:29:29.052Z", "bytes": 412,
    })
}

/// A page of the list.
#[derive(Serialize, JsonSchema)]
struct DeadLetterPage {
    dead_letters: Vec<DeadLetterEntry>,
    /// Cursor of the next page; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// Accepted data, or a send request, that could not be applied.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DeadLetter")]
struct DeadLetterEntry {
    id: Uuid,
    /// What it has: `tracking` attributes, events, purchases, and changes of identities;
    /// `catalogs` edits of items; `messages` a send request.
    topic: String,
    /// The `X-Request-Id` of the request that was accepted.
    request_id: String,
    /// Why it could not be applied.
    reason: String,
    #[schemars(range(min = 0))]
    attempts: i32,
    #[serde(serialize_with = "serialize_time")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    created_at: i64,
    /// Bytes of the payload.
    #[schemars(range(min = 0))]
    bytes: i64,
}

impl From<ListedDeadLetter> for DeadLetterEntry {
    fn from(listed: ListedDeadLetter) -> Self {
        let ListedDeadLetter {
            id, topic, mut request_id, reason, attempts, created_at, bytes, ..
        } = listed;
        // The rest is the trace.
        request_id.truncate(request_id.find(';').unwrap_or(request_id.len()));
        Self { id, topic, request_id, reason, attempts, created_at, bytes }
    }
}

/// A dead letter with its payload.
#[derive(Serialize, JsonSchema)]
struct DeadLetterDetails {
    #[serde(flatten)]
    dead_letter: DeadLetterEntry,
    /// The message of the log, JSON; at most its first 64 KiB.
    payload: String,
    /// Whether `payload` has only the beginning.
    is_truncated: bool,
}

/// `GET /dead_letters`.
async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<Json<DeadLetterPage>, ApiError> {
    let query = query.unwrap_or_default();
    let Paging { limit, after } = Paging::<Key>::read(&query).map_err(ApiError::Invalid)?;
    let mut tx = app.request_queue.snapshot().await?;
    let workspace = caller.workspace.id;
    let found = dead_letters::list_for_workspace(&mut tx, workspace, after, limit + 1).await?;
    tx.commit().await?;
    let (page, next) = paging::page_of(found, limit, |listed| (listed.created_at, listed.id));
    Ok(Json(DeadLetterPage {
        dead_letters: page.into_iter().map(DeadLetterEntry::from).collect(),
        next_cursor: next.as_ref().map(paging::cursor),
    }))
}

/// `GET /dead_letters/{id}`.
async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<DeadLetterDetails>, ApiError> {
    let found = find_own(&app, &caller, read_id(id)?, PAYLOAD_BYTES).await?;
    let is_truncated = found.bytes > i64::from(PAYLOAD_BYTES);
    let payload = found.beginning_text();
    Ok(Json(DeadLetterDetails { dead_letter: found.into(), payload, is_truncated }))
}

/// `POST /dead_letters/{id}/retry`.
async fn retry(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    key: Option<IdempotencyKey>,
    id: Result<Path<String>, PathRejection>,
    body: NoFields,
) -> Result<StoredResponse, ApiError> {
    let id = read_id(id)?;
    let key = key.map(|key| key.within(&id.to_string()));
    match (retry_once(&app, &caller, id, key.clone(), &body).await, key) {
        // The request with the first response removed it.
        (Err(ApiError::NotFound(_)), Some(key)) => {
            let first = idempotency::first_response(&app, &key, body.as_bytes()).await?;
            first.ok_or_else(unknown)
        }
        (retried, _) => retried,
    }
}

/// Applies the dead letter; with a key, the response is stored in the same transaction.
async fn retry_once(
    app: &App,
    caller: &Caller,
    id: Uuid,
    key: Option<IdempotencyKey>,
    body: &NoFields,
) -> Result<StoredResponse, ApiError> {
    find_own(app, caller, id, 0).await?;
    let entry = caller.entry(Change::new("dead_letter.retry", id.to_string(), json!({})));
    let response = StoredResponse::json(StatusCode::OK, &Success::default())?;
    let response = response.recorded(Recording::Settled);
    let keyed = key.map(|key| KeyedResponse::new(app, key, body.as_bytes(), response.clone()));
    retry_in_turn(app.clone(), caller.workspace.id, id, entry, keyed).await?;
    tracing::info!(dead_letter = %id, "dead letter applied by request");
    Ok(response)
}

/// `DELETE /dead_letters/{id}`.
async fn discard(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    id: Result<Path<String>, PathRejection>,
    _: NoFields,
) -> Result<(Recording, Json<Success>), ApiError> {
    let id = read_id(id)?;
    let mut tx = app.request_queue.write().await?;
    if !dead_letters::remove(&mut tx, Some(caller.workspace.id), id).await? {
        return Err(unknown());
    }
    let change = Change::new("dead_letter.discard", id.to_string(), json!({}));
    let recording = caller.record(&mut tx, app.clock.now_ms(), change).await?;
    tx.commit().await?;
    tracing::info!(dead_letter = %id, "dead letter discarded by request");
    Ok((recording, Json(Success::default())))
}

fn read_id(id: Result<Path<String>, PathRejection>) -> Result<Uuid, ApiError> {
    let Path(text) = id.map_err(|_| unknown())?;
    Uuid::try_parse(&text).map_err(|_| unknown())
}

/// The caller's dead letter with that id, and the beginning of its payload; that of another
/// workspace is unknown.
async fn find_own(
    app: &App,
    caller: &Caller,
    id: Uuid,
    payload_bytes: i32,
) -> Result<ListedDeadLetter, ApiError> {
    let mut tx = app.request_queue.snapshot().await?;
    let workspace = Some(caller.workspace.id);
    let found = dead_letters::find_listed(&mut tx, workspace, id, payload_bytes).await?;
    tx.commit().await?;
    found.ok_or_else(unknown)
}
