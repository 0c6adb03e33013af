//! The workspace's deliveries: listed, shown, sent again (docs/reference/api/deliveries.md).

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State as AppState};
use axum::http::{Method, StatusCode};
use axum::routing::{get, post};
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use url::Url;
use uuid::Uuid;

use super::list_rows::{self, Key, Selection};
use super::{
    DeliveryError, EXPORT_CALLBACK, KINDS, MAILTO, State, receiver, resend_for_workspace, rows,
    shown_receiver, webhook_id,
};
use gateway::app::App;
use gateway::idempotency::{self, Begun, StoredResponse};
use gateway::openapi::Tag;
use gateway::paging::{self, Paging};
use gateway::{
    Access, ApiError, Caller, IdempotencyKey, NoFields, Operation, Routes, name_parameter,
    parameter, protected, time_range,
};
use kit::clock::{serialize_optional_time, serialize_time};
use store::{Tx, from_row};

const LIST: &str = "deliveries.list";
const GET: &str = "deliveries.get";
const RESEND: &str = "deliveries.resend";

const TAG: Tag = Tag {
    name: "Deliveries",
    about: "Callbacks, status postbacks and notifications of the workspace.",
};

/// Bytes of an id and of a receiver beyond which no delivery has them.
const MAX_SUBJECT: usize = 255;
const MAX_RECEIVER: usize = 2_048;

/// The routes of deliveries.
pub fn routes() -> Routes<App> {
    Routes::new()
        .route("/deliveries", protected(LIST, get(list)), [describe_list()])
        .route("/deliveries/{id}", protected(GET, get(show)), [describe_show()])
        .route("/deliveries/{id}/resend", protected(RESEND, post(resend)), [describe_resend()])
}

fn describe_list() -> Operation {
    Operation::new(Method::GET, "listDeliveries", TAG, "List deliveries, newest first")
        .by(Access::Key(LIST))
        .about(
            "A page can have fewer deliveries than `limit`, even none, although others follow: \
             continue while there is a `next_cursor`.",
        )
        .takes_cursor("deliveries")
        .in_query(
            "state",
            "Only deliveries in this state.",
            json!({ "enum": State::ALL.map(State::name) }),
        )
        .in_query("kind", "Only deliveries of this kind.", json!({ "enum": KINDS }))
        .in_query(
            "receiver",
            "Only deliveries to this receiver: the URL of a server, without a path, or `mailto:` \
             and an address.",
            json!({ "type": "string", "minLength": 1 }),
        )
        .in_query(
            "subject",
            "Only deliveries about this subject: the `object_prefix` of an export, or the \
             `dispatch_id` of a transactional email.",
            json!({ "type": "string", "minLength": 1 }),
        )
        .takes_time_range("deliveries created")
        .returns::<DeliveryPage>(StatusCode::OK, "A page.")
        .with_example(json!({ "deliveries": [example()], "next_cursor": "WzE3OTUyNDk3Njg5MTBd" }))
}

fn describe_show() -> Operation {
    let mut delivery = example();
    delivery["body"] =
        json!("{\"success\":true,\"url\":\"https://longshore.example.com/x?signature=***\"}");
    id_in_path(
        Operation::new(Method::GET, "getDelivery", TAG, "Get a delivery").by(Access::Key(GET)),
    )
    .about(
        "The `body` may have personal data. In place of the signature of a download address, it \
         has `***`: `GET /users/export/{object_prefix}` returns the address.",
    )
    .returns::<DeliveryDetails>(StatusCode::OK, "The delivery.")
    .with_example(delivery)
    .refuses(&unknown(), "No delivery of this workspace has this id")
}

fn describe_resend() -> Operation {
    let mut delivery = example();
    delivery["state"] = State::Pending.name().into();
    let operation = Operation::new(Method::POST, "resendDelivery", TAG, "Send a delivery again");
    id_in_path(operation.by(Access::Key(RESEND)))
        .about(
            "Sends a delivery that has ended, delivered or given up, with the same `webhook-id` \
             and a new time limit. Receivers recognize the repeat by this id. A pending delivery \
             is sent at once, instead of at `next_at`, and keeps its time limit. If it is being \
             sent at this moment, the request has no effect.",
        )
        .repeatable()
        .takes_no_fields()
        .returns::<DeliveryEntry>(StatusCode::OK, "The delivery is pending again.")
        .with_example(delivery)
        .refuses(&unknown(), "No delivery of this workspace has this id")
        .refuses(&waiting(), "The delivery waits for the delivery before it")
}

fn id_in_path(operation: Operation) -> Operation {
    let schema = json!({ "type": "string", "format": "uuid" });
    operation.in_path("id", "The id of the delivery.", schema)
}

fn example() -> Value {
    json!({
        "id": "0197b6a8-3c55-7e11-9a1f-3f0f3c2d6e54",
        "webhook_id": "msg_0197b6a83c557e119a1f3f0f3c2d6e54", "kind": EXPORT_CALLBACK,
        "subject": "9d2261c4-4cf3-44b0-909b-455baf540288-1795249898",
        "receiver": "https://example.com", "state": State::GivenUp.name(), "attempts": 31,
        "created_at": "2026-11-21T08:29:29.052Z", "retry_until": "2026-11-22T08:29:29.052Z",
        "finished_at": "2026-11-22T08:29:29.052Z", "last_status": 410,
        "last_error": "410 Gone: no such hook",
    })
}

fn unknown() -> ApiError {
    ApiError::NotFound("No delivery has this id".into())
}

fn waiting() -> ApiError {
    ApiError::Conflict(
        "The delivery waits for the delivery before it about the same subject: resend that one"
            .into(),
    )
}

// List ---------------------------------------------------------------------------------------

/// A page of the list.
#[derive(Serialize, JsonSchema)]
struct DeliveryPage {
    deliveries: Vec<DeliveryEntry>,
    /// Cursor of the next page; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// A delivery of the workspace.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Delivery")]
struct DeliveryEntry {
    #[serde(flatten)]
    delivery: ListedDelivery,
    /// The header `webhook-id`, the same in each attempt.
    webhook_id: String,
    /// The server of the URL, without the path; or `mailto:` and the address of an email.
    receiver: String,
}

impl From<ListedDelivery> for DeliveryEntry {
    fn from(delivery: ListedDelivery) -> Self {
        Self { webhook_id: delivery.message_id(), receiver: delivery.receiver(), delivery }
    }
}

/// A delivery, without its body.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ListedDelivery {
    pub id: Uuid,
    #[schemars(extend("enum" = KINDS))]
    pub kind: String,
    /// The `object_prefix` of an export, or the `dispatch_id` of a transactional email.
    pub subject: String,
    /// May hold secrets: [`receiver`](Self::receiver) is for people.
    #[serde(skip)]
    url: String,
    /// `pending`: waiting for the first or the next attempt. `given_up`: not accepted before
    /// `retry_until`.
    #[schemars(with = "String", extend("enum" = State::ALL.map(State::name)))]
    pub state: State,
    #[schemars(range(min = 0))]
    pub attempts: i32,
    #[serde(serialize_with = "serialize_time")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub created_at: i64,
    /// When attempts end.
    #[serde(serialize_with = "serialize_time")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub retry_until: i64,
    /// When the next attempt is due. Present while the delivery is pending.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "serialize_optional_time")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub next_at: Option<i64>,
    /// When it was delivered or given up.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "serialize_optional_time")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub finished_at: Option<i64>,
    /// The status of the last response. Absent without a response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_status: Option<i32>,
    /// Why the last attempt failed, with the beginning of the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

impl ListedDelivery {
    /// The `webhook-id`: the same for every attempt.
    pub fn message_id(&self) -> String {
        webhook_id(self.id)
    }

    /// The server of the URL, without the path; or `mailto:` and the address of an email.
    pub fn receiver(&self) -> String {
        shown_receiver(&self.url)
    }
}

from_row! {
    ListedDelivery {
        id, kind, subject, url, state, attempts, created_at, retry_until, next_at, finished_at,
        last_status, last_error,
    }
}

/// `GET /deliveries`.
async fn list(
    AppState(app): AppState<App>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<Json<DeliveryPage>, ApiError> {
    let workspace = caller.workspace.id;
    let query = query.unwrap_or_default();
    let Paging { limit, after } = Paging::<Key>::read(&query).map_err(ApiError::Invalid)?;
    let selection = read_selection(&query).map_err(ApiError::Invalid)?;
    let mut tx = app.request_queue.snapshot().await?;
    let page = list_rows::list_for_workspace(&mut tx, workspace, &selection, after, limit).await?;
    tx.commit().await?;
    let deliveries = page.deliveries.into_iter().map(DeliveryEntry::from).collect();
    Ok(Json(DeliveryPage { deliveries, next_cursor: page.next.as_ref().map(paging::cursor) }))
}

/// Reads the filters; the error names the invalid one.
fn read_selection(query: &str) -> Result<Selection, String> {
    let is_text = |text: &str, max: usize| text.len() <= max && !text.contains('\0');
    Ok(Selection {
        state: name_parameter(query, "state", State::ALL, State::name)?,
        kind: name_parameter(query, "kind", KINDS, |kind| kind)?,
        subject: parameter(query, "subject", "an object_prefix or a dispatch_id", |text| {
            Some(text.to_owned()).filter(|text| is_text(text, MAX_SUBJECT))
        })?,
        receiver: parameter(
            query,
            "receiver",
            "a URL without a path, or mailto: and an address",
            |text| {
                let is_receiver = text.starts_with(MAILTO) || is_server(text);
                (is_receiver && is_text(text, MAX_RECEIVER)).then(|| receiver(text))
            },
        )?,
        created: time_range(query)?,
    })
}

/// Whether it is the URL of a server, as the list shows it.
fn is_server(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        ["http", "https"].contains(&url.scheme())
            && url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none()
    })
}

// One delivery -------------------------------------------------------------------------------

/// A delivery with its body.
#[derive(Serialize, JsonSchema)]
struct DeliveryDetails {
    #[serde(flatten)]
    delivery: DeliveryEntry,
    /// The JSON body. For an email, its recipients and text. The signatures of download addresses
    /// are masked.
    body: String,
}

/// `GET /deliveries/{id}`.
async fn show(
    AppState(app): AppState<App>,
    Extension(caller): Extension<Caller>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<DeliveryDetails>, ApiError> {
    let id = read_id(id)?;
    let mut tx = app.request_queue.snapshot().await?;
    let delivery = find_own(&mut tx, &caller, id).await?;
    let found = rows::find_for_workspace(&mut tx, caller.workspace.id, id).await?;
    tx.commit().await?;
    let body = found.ok_or_else(unknown)?.shown_body();
    Ok(Json(DeliveryDetails { delivery: delivery.into(), body }))
}

/// `POST /deliveries/{id}/resend`.
async fn resend(
    AppState(app): AppState<App>,
    Extension(caller): Extension<Caller>,
    key: Option<IdempotencyKey>,
    id: Result<Path<String>, PathRejection>,
    body: NoFields,
) -> Result<StoredResponse, ApiError> {
    let id = read_id(id)?;
    let key = key.map(|key| key.within(&id.to_string()));
    let mut turn = match idempotency::begin_change(&app, key, body.as_bytes()).await? {
        Begun::Replay(response) => return Ok(response),
        Begun::Turn(turn) => turn,
    };
    let tx = &mut turn.tx;
    let change = resend_for_workspace(&app, tx, caller.workspace.id, id).await?;
    let recording = caller.record(tx, app.clock.now_ms(), change).await?;
    let reopened = DeliveryEntry::from(find_own(tx, &caller, id).await?);
    let response = turn.commit(StoredResponse::json(StatusCode::OK, &reopened)?).await?;
    tracing::info!(delivery = %id, "delivery sent again by request");
    Ok(response.recorded(recording))
}

/// A delivery's id, or its webhook-id; anything else is unknown, without a query.
fn read_id(id: Result<Path<String>, PathRejection>) -> Result<Uuid, ApiError> {
    let Path(text) = id.map_err(|_| unknown())?;
    let id = Uuid::try_parse(text.strip_prefix("msg_").unwrap_or(&text));
    id.map_err(|_| unknown())
}

/// The caller's delivery with that id; that of another workspace is unknown.
async fn find_own(tx: &mut Tx, caller: &Caller, id: Uuid) -> Result<ListedDelivery, ApiError> {
    list_rows::find(tx, caller.workspace.id, id).await?.ok_or_else(unknown)
}

impl From<DeliveryError> for ApiError {
    fn from(error: DeliveryError) -> Self {
        match error {
            DeliveryError::Unknown(_) => unknown(),
            DeliveryError::Waiting(_) => waiting(),
            DeliveryError::Store(error) => error.into(),
            DeliveryError::Claim(error) => Self::Unavailable(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn filters_are_read() {
        let server = Some(receiver("https://hooks.example/path?secret"));
        for query in
            ["receiver=https://hooks.example", "receiver=https%3A%2F%2FHOOKS.example%3A443%2F"]
        {
            assert_eq!(read_selection(query).map(|read| read.receiver), Ok(server), "{query}");
        }
        let email = read_selection("receiver=mailto:ops@acme.example").unwrap();
        assert_eq!(email.receiver, Some(receiver("mailto:ops@acme.example")));
        let read = read_selection("state=given_up&subject=x&since=2026-11-21&until=2026-11-22");
        let day = 86_400_000;
        let read = read.unwrap();
        assert_eq!((read.state, read.subject.as_deref()), (Some(State::GivenUp), Some("x")));
        assert_eq!(read.created.end - read.created.start, day);
        let all = read_selection("other=1").unwrap();
        assert_eq!(all.created, i64::MIN..i64::MAX);
        assert_eq!(all, Selection::default());
        let callbacks = read_selection("kind=export_callback").unwrap();
        assert_eq!(callbacks.kind, Some(EXPORT_CALLBACK));
    }

    #[test]
    fn errors_name_the_invalid_filter() {
        for (query, name) in [
            ("state=lost", "state "),
            ("state=", "state "),
            ("kind=callback", "kind "),
            ("subject=%00", "subject "),
            ("receiver=hooks.example", "receiver "),
            ("receiver=https://hooks.example/path", "receiver "),
            ("receiver=ftp://hooks.example", "receiver "),
            ("since=yesterday", "since"),
            ("until=1&until=2", "until "),
            ("since=2026-11-22&until=2026-11-21", "since "),
        ] {
            let error = read_selection(query).unwrap_err();
            assert!(error.starts_with(name), "{query}: {error}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(query in "(state|kind|receiver|subject|since|until|[=&%:/0-9a-f.-]|\\PC)*") {
            let _ = read_selection(&query);
        }
    }
}
