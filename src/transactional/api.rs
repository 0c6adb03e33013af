//! `POST /transactional/v1/campaigns/{campaign_id}/send`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
use crate::campaigns::{self, Campaign, Kind};
use crate::gateway::idempotency::{self, Answer};
use crate::gateway::openapi::Tag;
use crate::gateway::{self, Access, ApiError, Caller, IdempotencyKey, JsonText, Operation, Routes};
use crate::messages::api::DISPATCH_ID;
use crate::workspaces::to_json;
use kit::clock::hours;
use kit::fail_point;
use store::{StoreError, Tx};

const PERMISSION: &str = "transactional.send";

/// The errors of this call (src/gateway/README.md, Sending a transactional email).
const BAD_ID: &str = "campaign_id must be a string of the campaign api identifier";
const UNKNOWN: &str = "Campaign does not exist";
const NOT_TRANSACTIONAL: &str = "The campaign is not a transactional campaign. Only transactional \
     campaigns may use this endpoint";
const ARCHIVED: &str = "The campaign is archived. Unarchive the campaign in order for trigger \
     requests to take effect.";
const PAUSED: &str = "The campaign is paused. Resume the campaign in order for trigger requests to \
     take effect.";
const QUEUED: &str = "The external reference has been queued. Please retry to obtain send_id.";

const TAG: Tag = Tag { name: "Transactional email", about: "One email to one user, at once." };

/// The route of transactional emails.
pub fn routes() -> Routes {
    let send = gateway::protected(PERMISSION, post(send));
    Routes::new()
        .route("/transactional/v1/campaigns/{campaign_id}/send", send, [describe()])
        .tells([postbacks::describe()])
}

fn describe() -> Operation {
    const { assert!(rows::KEY_HOLDS.as_secs() == hours(24).as_secs()) };
    let refused = |text: &str| ApiError::Invalid(text.into());
    Operation::new(Method::POST, "sendTransactional", TAG, "Send a transactional email")
        .by(Access::Key(PERMISSION))
        .about(
            "The email of a transactional campaign goes to one user, whatever they subscribe \
             to. Not counted against any limit: beyond what the campaign's package covers in \
             an hour emails are sent all the same.\n\nThe attributes are written before the \
             email is rendered, so its template has them; with attributes, an external_user_id \
             that nobody has creates a user.\n\nAn `external_send_id` stands for its send for 24 \
             hours: sent again, nothing is sent, and the answer is that of the first send as \
             it is by now.\n\nThe email's states are reported to the address that the workspace \
             declares as `email.status_postback`, by a POST for each of the states `sent`, \
             `processed`, `delivered`, `bounced` and `aborted` that it comes to, in their order.",
        )
        .in_path(
            "campaign_id",
            "Of a transactional campaign that the workspace file declares.",
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
        .answers::<Sent<'_>>(StatusCode::CREATED, "It is to be sent.")
        .answers::<Sent<'_>>(
            StatusCode::OK,
            "The `external_send_id` had its send before; nothing is sent.",
        )
        .refuses(&bad_id(), "The campaign_id is not a UUID")
        .refuses(
            &queued(),
            "The external_send_id had its send in the last 24 hours, of which nothing is \
             known yet, or no more",
        )
        .refuses(&ApiError::NotFound(UNKNOWN.into()), "The workspace has no such campaign")
        .refuses(&refused(NOT_TRANSACTIONAL), "The campaign is of another type")
        .refuses(&refused(ARCHIVED), "The campaign is archived")
        .refuses(&refused(PAUSED), "The campaign is paused")
}

/// A send, and how far it has come. Times are like `2026-11-21T08:00:00.120+00:00`.
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
) -> Result<Answer, ApiError> {
    let received_at = app.clock.now_ms();
    let campaign_id = campaign_id.ok().and_then(|Path(id)| Uuid::try_parse(&id).ok());
    let campaign_id = campaign_id.ok_or_else(bad_id)?;
    let members = body.object_beside(&app)?;
    let request = Request::read(&members, caller.workspace.id, received_at)?;
    drop(members);
    let key = key.map(|key| key.within(&campaign_id.to_string()));
    let app = app.urgent();
    let is_new = Arc::new(AtomicBool::new(false));
    let call = Call {
        app: app.clone(),
        caller,
        campaign_id,
        dispatch_id: Uuid::new_v4(),
        received_at,
        request,
        is_new: is_new.clone(),
    };
    let answer = idempotency::transact(&app, key.as_ref(), body.as_bytes(), |tx| {
        Box::pin(async move { call.take_in(tx).await })
    })
    .await?;
    if is_new.load(Ordering::Relaxed) {
        count("new");
        fail_point!("transactional::written");
    }
    Ok(answer)
}

/// A call that was read.
struct Call {
    app: App,
    caller: Caller,
    campaign_id: Uuid,
    dispatch_id: Uuid,
    received_at: i64,
    request: Request,
    /// Set where it made an email.
    is_new: Arc<AtomicBool>,
}

impl Call {
    /// Writes the email, or answers for the one that has its external_send_id: what was sent once
    /// gets its answer whatever has become of the campaign.
    async fn take_in(&self, tx: &mut Tx) -> Result<Answer, ApiError> {
        let workspace = self.caller.workspace.id;
        if let Some(id) = &self.request.external_send_id {
            let taken = rows::take_key(tx, workspace, id, self.dispatch_id).await;
            if taken.as_ref().is_err_and(StoreError::is_locked_out) {
                return Err(queued());
            }
            if !taken? {
                let email = rows::by_key(tx, workspace, id).await?.ok_or_else(queued)?;
                count("repeated");
                return Answer::of(StatusCode::OK, &told(&email));
            }
        }
        let campaign = campaigns::by_id(tx, workspace, self.campaign_id).await?;
        check(campaign.as_ref())?;
        let recipient = to_json(&self.request.recipient);
        let trigger_properties = self.request.trigger_properties.as_ref().map(to_json);
        let new = rows::New {
            dispatch_id: self.dispatch_id,
            workspace_id: workspace,
            campaign_id: self.campaign_id,
            external_send_id: self.request.external_send_id.as_deref(),
            recipient: &recipient,
            attributes: self.request.attributes.as_deref(),
            trigger_properties: trigger_properties.as_deref(),
            request_id: &self.caller.request_id,
            received_at: self.received_at,
            enqueued_at: self.app.clock.now_ms().max(self.received_at),
        };
        rows::insert(tx, &new).await?;
        self.is_new.store(true, Ordering::Relaxed);
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
        Answer::of(StatusCode::CREATED, &sent)
    }
}

/// Refuses a campaign that sends no transactional emails, or none now.
fn check(campaign: Option<&Campaign>) -> Result<(), ApiError> {
    // A Canvas is kept as a campaign, and is none.
    let campaign = campaign.filter(|campaign| campaign.kind != Kind::Canvas);
    let campaign = campaign.ok_or_else(|| ApiError::NotFound(UNKNOWN.into()))?;
    let refused = match campaign {
        Campaign { kind, .. } if *kind != Kind::Transactional => NOT_TRANSACTIONAL,
        Campaign { archived: true, .. } => ARCHIVED,
        Campaign { paused: true, .. } => PAUSED,
        _ => return Ok(()),
    };
    Err(ApiError::Invalid(refused.into()))
}

fn bad_id() -> ApiError {
    ApiError::Invalid(BAD_ID.into())
}

/// The external_send_id is known, and its email is not: not yet, or no more.
fn queued() -> ApiError {
    ApiError::Invalid(QUEUED.into())
}

/// The answer for an email as it is now.
fn told(email: &Email) -> Sent<'_> {
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
    metrics::counter!("longshore_transactional_calls_total", "outcome" => outcome).increment(1);
}
