//! A transactional email as shown to operators.

use serde::Serialize;
use uuid::Uuid;

use super::{State, rows};
use gateway::workspaces;
use kit::clock::{serialize_optional_time, serialize_time};
use store::{StoreError, Tx};

/// An email and its status. Times are milliseconds since the epoch, and ISO 8601 in JSON.
#[derive(Clone, Debug, Serialize)]
pub struct EmailDetails {
    #[serde(serialize_with = "uuid::serde::simple::serialize")]
    pub id: Uuid,
    /// The workspace's name; none if it was deleted.
    pub workspace: Option<String>,
    /// Distinguishes it from other dispatches.
    pub kind: &'static str,
    pub state: State,
    /// When the email changed to its state.
    #[serde(serialize_with = "serialize_time")]
    pub state_at: i64,
    pub reason: Option<String>,
    pub campaign_id: Uuid,
    pub external_send_id: Option<String>,
    /// Set once the user is known.
    pub service_id: Option<Uuid>,
    pub attempts: i32,
    #[serde(serialize_with = "serialize_time")]
    pub received_at: i64,
    #[serde(serialize_with = "serialize_optional_time")]
    pub sent_at: Option<i64>,
    /// The delivery of the last reported state.
    pub postback_id: Option<Uuid>,
    pub request_id: String,
}

/// The email with this dispatch_id.
pub async fn email_details(
    tx: &mut Tx,
    dispatch_id: Uuid,
) -> Result<Option<EmailDetails>, StoreError> {
    let Some(email) = rows::by_id(tx, dispatch_id).await? else { return Ok(None) };
    let workspace = workspaces::by_id(tx, email.workspace_id).await?;
    Ok(Some(EmailDetails {
        id: email.dispatch_id,
        workspace: workspace.map(|workspace| workspace.name),
        kind: "transactional",
        state: email.state,
        state_at: email.state_at,
        reason: email.reason,
        campaign_id: email.campaign_id,
        external_send_id: email.external_send_id,
        service_id: email.service_id,
        attempts: email.put_off.saturating_add((email.state != State::Processing).into()),
        received_at: email.received_at,
        sent_at: email.sent_at,
        postback_id: email.postback_id,
        request_id: email.request_id,
    }))
}
