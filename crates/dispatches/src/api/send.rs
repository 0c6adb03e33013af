//! A send to the recipients of a dispatch, such as an apology.
//!
//! The new dispatch and the response are one transaction. From there, it is a dispatch like others:
//! each of its users gets one message by each channel, however often a worker ends.

use axum::Extension;
use axum::extract::State as AppState;
use axum::http::{Method, StatusCode};
use axum::routing::post;
use serde_json::json;
use uuid::Uuid;

use super::{DispatchId, TAG, id_in_path, unknown};
use crate::orders::{Sent, count_accepted, describe_message_errors};
use crate::{DispatchSummary, summary_of_workspace};
use content::campaigns;
use gateway::idempotency::{self, Begun, Received, StoredResponse};
use gateway::workspaces::settings;
use gateway::{
    self, Access, ApiError, Caller, IdempotencyKey, JsonText, Operation, Recording, Routes,
};
use kit::fail_point;
use messages::app::App;
use messages::dispatch;
use messages::dispatch::state::State;
use messages::order::{Kind, Order};
use messages::recipient::Members;
use messages::request::{CheckedSend, RecipientsSendRequest, fill_email};
use runtime::audit::{self, Change, Entry};
use store::Tx;

const PERMISSION: &str = "messages.dispatches.send";

/// The action in the audit log.
pub const SEND_ACTION: &str = "dispatch.send";

const ROUTE: &str = "/messages/dispatches/{dispatch_id}/send";

pub(super) fn routes() -> Routes<App> {
    Routes::new().route(ROUTE, gateway::protected(PERMISSION, post(send)), [describe()])
}

fn describe() -> Operation {
    let operation = Operation::new(
        Method::POST,
        "sendToRecipients",
        TAG,
        "Send to the recipients of a dispatch",
    )
    .by(Access::Key(PERMISSION))
    .about(
        "For an apology to those who got a wrong message, for example. The dispatch must have \
         ended, so that its recipients are known: cancel it first, if necessary. Each of its \
         recipients with one of the `outcomes` gets each message once. By default, these are all \
         who have the message, or may have it. The new dispatch has a \
         `dispatch_id` of its own. Send an `Idempotency-Key`: without one, a repeat is another send. \
         Counts against the rate limit `messages.send.audience`.",
    )
    .repeatable()
    .takes::<RecipientsSendRequest>(
        "An apology",
        json!({
            "outcomes": ["sent", "delivered", "may_have_been_sent"], "send_id": "apology",
            "messages": { "webhook": {
                "url": "https://hooks.acme.example/{{${user_id}}}", "request_method": "POST",
                "body": "{\"text\": \"Please ignore our last message.\"}",
            } },
        }),
    )
    .returns::<Sent>(StatusCode::CREATED, "The send is durable.");
    id_in_path(describe_message_errors(operation))
        .refuses(&in_progress(State::Running), "The dispatch has not ended")
}

fn in_progress(state: State) -> ApiError {
    let advice = match state {
        State::Planning | State::Running => "wait for its end, or cancel it first",
        _ => "wait until may_still_be_sent is 0",
    };
    ApiError::Conflict(format!("The dispatch is {}: {advice}", state.name()))
}

async fn send(
    AppState(app): AppState<App>,
    Extension(caller): Extension<Caller>,
    DispatchId(id): DispatchId,
    key: Option<IdempotencyKey>,
    body: JsonText,
) -> Result<StoredResponse, ApiError> {
    let Caller { workspace, request_id, .. } = &caller;
    let checked = check(&app, workspace.id, id, body.object_in_place(&app)?).await;
    let key = key.map(|key| key.within(&id.simple().to_string()));
    let past = (workspace.id, id);
    let entry = caller.entry(Change::new(SEND_ACTION, "", json!({})));
    let keyed = (key, body.as_bytes());
    let response = send_once(&app, past, checked, keyed, request_id, entry).await?;
    Ok(response.recorded(Recording::Settled))
}

/// The key of a command that sends the same request to the recipients of a workspace's dispatch:
/// one key for both.
pub fn key(workspace: i32, dispatch: Uuid, value: &str) -> Result<IdempotencyKey, ApiError> {
    let key = IdempotencyKey::new(workspace, format!("{} {ROUTE}", Method::POST), value)?;
    Ok(key.within(&dispatch.simple().to_string()))
}

/// Begins the dispatch of a checked request, in one transaction with the response and with `entry`
/// of the audit log, whose object is the new dispatch; with the key of an earlier request with the
/// same body, returns its response.
pub async fn send_once(
    app: &App,
    (workspace, dispatch): (i32, Uuid),
    checked: Result<CheckedSend, ApiError>,
    (key, body): (Option<IdempotencyKey>, &[u8]),
    request_id: &str,
    mut entry: Entry,
) -> Result<StoredResponse, ApiError> {
    let mut turn = match idempotency::begin_change(app, key, body).await? {
        Begun::Replay(response) => return Ok(response),
        Begun::Turn(turn) => turn,
    };
    // After the stored response: a body that was valid for it may be invalid now.
    let checked = checked?;
    let past = summary_of_workspace(&mut turn.tx, workspace, dispatch).await?;
    let past = past.ok_or_else(unknown)?;
    let received = Received { id: Uuid::now_v7(), at: app.clock.now_ms() };
    let order = checked.order(Kind::Send, received, workspace, request_id);
    let order = Order { requested_by: Some(entry.actor.clone()), ..order };
    begin(&mut turn.tx, &past, &order).await?;
    let sent = Sent::new(order.dispatch_id, &checked);
    entry.object = order.dispatch_id.simple().to_string();
    entry.details["recipients_of"] = dispatch.simple().to_string().into();
    audit::record(&mut turn.tx, received.at, &entry).await?;
    let response = turn.commit(StoredResponse::json(StatusCode::CREATED, &sent)?).await?;
    fail_point!("dispatch::to_recipients");
    count_accepted(Kind::Send);
    Ok(response)
}

/// Checks the fields of a request to send to the recipients of a workspace's dispatch.
pub async fn check(
    app: &App,
    workspace: i32,
    dispatch: Uuid,
    mut fields: Members,
) -> Result<CheckedSend, ApiError> {
    let settings = settings::find(app, workspace).await?;
    let campaigns = campaigns::api_campaigns(app, workspace).await?;
    fill_email(app, workspace, &mut fields).await?;
    // Parses templates.
    let read = || RecipientsSendRequest::read(&fields, dispatch, &settings, &campaigns);
    app.cores.compute_here(workspace, read)
}

/// Begins the dispatch of a checked request, in the caller's transaction.
async fn begin(tx: &mut Tx, past: &DispatchSummary, order: &Order) -> Result<(), ApiError> {
    let DispatchSummary { id, state, .. } = *past;
    if state == State::Failed {
        // Otherwise messages that workers are storing would not be counted.
        dispatch::wait_for_batches(tx, id).await?;
    }
    // A failed dispatch may have messages in flight, too, whose outcome is not known yet.
    if !state.is_final() || (state == State::Failed && dispatch::count_in_flight(tx, id).await? > 0)
    {
        return Err(in_progress(state));
    }
    Ok(dispatch::begin(tx, order).await?)
}
