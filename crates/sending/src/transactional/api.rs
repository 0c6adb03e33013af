//! `POST /transactional/v1/campaigns/{campaign_id}/send`.

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::routing::post;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use super::request::{Request, TransactionalSend};
use super::rows::{self, Email};
use super::{State as EmailState, postbacks, time};
use crate::app::App;
use content::campaigns::{self, Campaign, Kind};
use dispatches::orders::DISPATCH_ID;
use gateway::idempotency::{self, Begun, StoredResponse};
use gateway::openapi::Tag;
use gateway::warnings::Warned;
use gateway::workspaces::to_json;
use gateway::{self, Access, ApiError, Caller, IdempotencyKey, JsonText, Operation, Routes};
use kit::clock::hours;
use kit::fail_point;
use kit::json::ObjectText;
use store::StoreError;

const PERMISSION: &str = "transactional.send";

/// The errors of this request (docs/reference/api/transactional.md).
const BAD_ID: &str = "campaign_id must be a string of the campaign api identifier";
const UNKNOWN: &str = "Campaign does not exist";
const NOT_TRANSACTIONAL: &str = "The campaign is not a transactional campaign. Only transactional \
     campaigns may use this endpoint";
const ARCHIVED: &str = "The campaign is archived. Unarchive the campaign in order for trigger \
     requests to take effect.";
const PAUSED: &str = "The campaign is paused. Resume the campaign in order for trigger requests to \
     take effect.";
const QUEUED: &str = "The external reference has been queued. Please retry to obtain send_id.";

const TAG: Tag =
    Tag { name: "Transactional email", about: "One email to one user, sent immediately." };

/// The route of transactional emails.
pub fn routes() -> Routes<App> {
    let send = gateway::protected(PERMISSION, post(send));
    Routes::new()
        .route("/transactional/v1/campaigns/{campaign_id}/send", send, [describe()])
        .with_webhooks([postbacks::describe()])
}

fn describe() -> Operation {
    const { assert!(rows::KEY_LIFETIME.as_secs() == hours(24).as_secs()) };
    let invalid = |text: &str| ApiError::Invalid(text.into());
    Operation::new(Method::POST, "sendTransactional", TAG, "Send a transactional email")
        .by(Access::Key(PERMISSION))
        .about(
            "Sends the email of a transactional campaign to one user, whatever the user's \
             subscription state. There is no rate limit: emails above the hourly number that the \
             campaign's package covers are also sent.\n\nThe attributes are written before the \
             email is rendered, so that its template can use them. If there are attributes, an \
             unknown external_user_id creates a user.\n\nAn `external_send_id` identifies its send \
             for 24 hours: a repeated request sends no email and returns the current status of the \
             first send.\n\nThe service reports each status of the email (`sent`, `processed`, \
             `delivered`, `bounced` and `aborted`), in order, with a POST to the workspace's \
             `email.status_postback`.",
        )
        .in_path(
            "campaign_id",
            "The id of a transactional campaign from the workspace file.",
            json!({ "type": "string", "format": "uuid", "examples": ["7d0c41a8-3f5e-4b7a-9c1d-2e6f8a90b1c2"] }),
        )
        .repeatable()
        .takes::<TransactionalSend>(
            "A receipt",
            json!({
                "external_send_id": "b3JkZXItMTAwNA==",
                "trigger_properties": { "order": 1004, "total": "59.90 EUR" },
                "recipient": {
                    "external_user_id": "ann",
                    "attributes": { "first_name": "Ann", "email": "ann@example.com" },
                },
            }),
        )
        .returns::<Warned<Sent<'_>>>(
            StatusCode::CREATED,
            "The request is durable; the email will be sent.",
        )
        .returns::<Warned<Sent<'_>>>(
            StatusCode::OK,
            "The `external_send_id` was used before; no email is sent.",
        )
        .refuses(&bad_id(), "The campaign_id is not a UUID")
        .refuses(
            &queued(),
            "The external_send_id was used in the last 24 hours, and the status of that send is \
             not available",
        )
        .refuses(
            &ApiError::NotFound(UNKNOWN.into()),
            "No campaign in this workspace has this campaign_id",
        )
        .refuses(&invalid(NOT_TRANSACTIONAL), "The campaign is not transactional")
        .refuses(&invalid(ARCHIVED), "The campaign is archived")
        .refuses(&invalid(PAUSED), "The campaign is paused")
}

/// A send and its current status. Times have the format `2026-11-21T08:00:00.120+00:00`.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TransactionalSent")]
struct Sent<'a> {
    #[schemars(regex(pattern = DISPATCH_ID))]
    dispatch_id: String,
    status: EmailState,
    metadata: SentMetadata<'a>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct SentMetadata<'a> {
    campaign_api_id: Uuid,
    #[serde(skip_serializing_if = "Option::is_none")]
    external_send_id: Option<&'a str>,
    #[schemars(extend("format" = "date-time"))]
    received_at: String,
    #[schemars(extend("format" = "date-time"))]
    enqueued_at: String,
}

async fn send(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    campaign_id: Result<Path<String>, PathRejection>,
    key: Option<IdempotencyKey>,
    body: JsonText,
) -> Result<StoredResponse, ApiError> {
    let received_at = app.clock.now_ms();
    let campaign_id = campaign_id.ok().and_then(|Path(id)| Uuid::try_parse(&id).ok());
    let campaign_id = campaign_id.ok_or_else(bad_id)?;
    let members = body.object_in_place(&app)?;
    let request = Request::read(&members, caller.workspace.id, received_at);
    drop(members);
    let key = key.map(|key| key.within(&campaign_id.to_string()));
    let app = app.for_transactional();
    let mut turn = match idempotency::begin_change(&app, key, body.as_bytes()).await? {
        Begun::Replay(response) => return Ok(response),
        Begun::Turn(turn) => turn,
    };
    // After the stored response: a body that was valid for it may be invalid now.
    let request = request?;
    let (workspace, dispatch_id) = (caller.workspace.id, Uuid::new_v4());
    if let Some(id) = &request.external_send_id {
        let is_new = rows::take_key(&mut turn.tx, workspace, id, dispatch_id).await;
        if is_new.as_ref().is_err_and(StoreError::is_lock_timeout) {
            return Err(queued());
        }
        if !is_new? {
            // A repeat gets its response even if the campaign has changed.
            let email = rows::by_key(&mut turn.tx, workspace, id).await?.ok_or_else(queued)?;
            count("repeated");
            return turn
                .commit(StoredResponse::json(
                    StatusCode::OK,
                    &Warned { response: sent_response(&email), warnings: request.warnings },
                )?)
                .await;
        }
    }
    let campaign = campaigns::by_id(&mut turn.tx, workspace, campaign_id).await?;
    check(campaign.as_ref())?;
    let recipient = to_json(&request.recipient);
    let new = rows::New {
        dispatch_id,
        workspace_id: workspace,
        campaign_id,
        external_send_id: request.external_send_id.as_deref(),
        recipient: &recipient,
        attributes: request.attributes.as_deref(),
        trigger_properties: request.trigger_properties.as_ref().map(ObjectText::as_str),
        request_id: &caller.request_id,
        received_at,
        enqueued_at: app.clock.now_ms().max(received_at),
    };
    rows::insert(&mut turn.tx, &new).await?;
    let sent = Sent {
        dispatch_id: new.dispatch_id.simple().to_string(),
        status: EmailState::Processing,
        metadata: SentMetadata {
            campaign_api_id: new.campaign_id,
            external_send_id: new.external_send_id,
            received_at: time(new.received_at),
            enqueued_at: time(new.enqueued_at),
        },
    };
    let answer = Warned { response: sent, warnings: request.warnings };
    let response = turn.commit(StoredResponse::json(StatusCode::CREATED, &answer)?).await?;
    count("new");
    fail_point!("transactional::written");
    Ok(response)
}

/// Rejects a campaign that is not transactional, archived or paused.
fn check(campaign: Option<&Campaign>) -> Result<(), ApiError> {
    // Canvases are stored as campaigns, but cannot be sent here.
    let campaign = campaign.filter(|campaign| campaign.kind != Kind::Canvas);
    let campaign = campaign.ok_or_else(|| ApiError::NotFound(UNKNOWN.into()))?;
    let text = match campaign {
        Campaign { kind, .. } if *kind != Kind::Transactional => NOT_TRANSACTIONAL,
        Campaign { archived: true, .. } => ARCHIVED,
        Campaign { paused: true, .. } => PAUSED,
        _ => return Ok(()),
    };
    Err(ApiError::Invalid(text.into()))
}

fn bad_id() -> ApiError {
    ApiError::Invalid(BAD_ID.into())
}

/// The error if the external_send_id is known but its email does not exist yet, or no longer
/// exists.
fn queued() -> ApiError {
    ApiError::Invalid(QUEUED.into())
}

/// The response for an email in its current state.
fn sent_response(email: &Email) -> Sent<'_> {
    Sent {
        dispatch_id: email.dispatch_id.simple().to_string(),
        status: email.state,
        metadata: SentMetadata {
            campaign_api_id: email.campaign_id,
            external_send_id: email.external_send_id.as_deref(),
            received_at: time(email.received_at),
            enqueued_at: time(email.enqueued_at),
        },
    }
}

fn count(outcome: &'static str) {
    metrics::counter!("longshore_transactional_requests_total", "outcome" => outcome).increment(1);
}
