//! `POST /transactional/v1/campaigns/{campaign_id}/send`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use serde_json::{Value, json};
use uuid::Uuid;

use super::request::Request;
use super::rows::{self, Email};
use super::{State as EmailState, openapi, time};
use crate::app::App;
use crate::campaigns::{self, Campaign, Kind};
use crate::gateway::idempotency::{self, Answer};
use crate::gateway::{self, ApiError, Caller, IdempotencyKey, JsonText, Routes};
use crate::workspaces::to_json;
use kit::fail_point;
use store::{StoreError, Tx};

pub(super) const PERMISSION: &str = "transactional.send";

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

/// The route of transactional emails.
pub fn routes() -> Routes {
    let send = gateway::protected(PERMISSION, post(send));
    Routes::new().route("/transactional/v1/campaigns/{campaign_id}/send", send, [openapi::send()])
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
    let request = Request::read(&members, caller.workspace.id, received_at);
    let request = request.map_err(ApiError::Invalid)?;
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
                return Ok(Answer { status: StatusCode::OK, body: told(&email).to_string() });
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
        let answer = answer(
            new.dispatch_id,
            EmailState::Processing,
            (new.campaign_id, new.external_send_id),
            (new.received_at, new.enqueued_at),
        );
        Ok(Answer { status: StatusCode::CREATED, body: answer.to_string() })
    }
}

/// Refuses a campaign that sends no transactional emails, or none now.
pub(super) fn check(campaign: Option<&Campaign>) -> Result<(), ApiError> {
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

pub(super) fn bad_id() -> ApiError {
    ApiError::Invalid(BAD_ID.into())
}

/// The external_send_id is known, and its email is not: not yet, or no more.
pub(super) fn queued() -> ApiError {
    ApiError::Invalid(QUEUED.into())
}

/// What is said of an email as it is now.
fn told(email: &Email) -> Value {
    answer(
        email.dispatch_id,
        email.state,
        (email.campaign_id, email.external_send_id.as_deref()),
        (email.received_at, email.enqueued_at),
    )
}

pub(super) fn answer(
    dispatch_id: Uuid,
    state: EmailState,
    (campaign_id, external_send_id): (Uuid, Option<&str>),
    (received_at, enqueued_at): (i64, i64),
) -> Value {
    let mut metadata = json!({
        "campaign_api_id": campaign_id,
        "received_at": time(received_at),
        "enqueued_at": time(enqueued_at),
    });
    if let Some(id) = external_send_id {
        metadata["external_send_id"] = id.into();
    }
    json!({
        "dispatch_id": dispatch_id.simple().to_string(),
        "status": state,
        "metadata": metadata,
    })
}

fn count(outcome: &'static str) {
    metrics::counter!("longshore_transactional_calls_total", "outcome" => outcome).increment(1);
}
