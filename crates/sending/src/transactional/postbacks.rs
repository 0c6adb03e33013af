//! The postback of each state (docs/reference/api/transactional.md): its body, and its
//! delivery, in the transaction that changes the state. Postbacks of one email are sent in order.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use super::rows::Email;
use super::{State, time};
use crate::app::App;
use deliveries::{NewDelivery, STATUS_POSTBACK};
use gateway::openapi::{SENT_TO_OTHERS, Webhook};
use gateway::workspaces::settings::Settings;
use store::{StoreError, Tx};

/// A new state of a transactional email.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "StatusPostback")]
pub struct Postback<'a> {
    /// The `dispatch_id` in the response to the request.
    dispatch_id: String,
    #[schemars(with = "String", extend("enum" = &State::ALL[1..]))]
    status: State,
    metadata: Metadata<'a>,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(inline)]
struct Metadata<'a> {
    /// Only if the request had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    external_send_id: Option<&'a str>,
    campaign_api_id: Uuid,
    /// Only for `sent`: when the request was received.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    received_at: Option<String>,
    /// Only for `sent`: when the email was put into the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    enqueued_at: Option<String>,
    /// Only for `sent`: when processing began.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    executed_at: Option<String>,
    /// Only for `sent`: when the relay accepted the email.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    sent_at: Option<String>,
    /// Only for `processed`: when the relay processed the email.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    processed_at: Option<String>,
    /// Only for `delivered`: when the recipient's provider accepted the email.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    delivered_at: Option<String>,
    /// Only for `bounced`: when the email bounced.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    bounced_at: Option<String>,
    /// Only for `aborted`: when the email was aborted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    aborted_at: Option<String>,
    /// Only for `aborted` and `bounced`: why the email was not sent, or the error of the relay or
    /// the recipient's provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

impl<'a> Postback<'a> {
    /// Creates the postback for an email's new state, with its time and optional reason.
    pub fn new(email: &'a Email, state: State, at: i64, reason: Option<&'a str>) -> Self {
        let mut metadata = Metadata {
            external_send_id: email.external_send_id.as_deref(),
            campaign_api_id: email.campaign_id,
            ..Metadata::default()
        };
        let reached = Some(time(at));
        match state {
            State::Processing => {}
            State::Sent => {
                metadata.received_at = Some(time(email.received_at));
                metadata.enqueued_at = Some(time(email.enqueued_at));
                metadata.executed_at = email.executed_at.map(time);
                metadata.sent_at = reached;
            }
            State::Processed => metadata.processed_at = reached,
            State::Delivered => metadata.delivered_at = reached,
            State::Bounced => {
                metadata.bounced_at = reached;
                metadata.reason = reason;
            }
            State::Aborted => {
                metadata.aborted_at = reached;
                metadata.reason = reason;
            }
        }
        Self { dispatch_id: email.dispatch_id.simple().to_string(), status: state, metadata }
    }
}

/// Describes the postback for the API reference.
pub(super) fn describe() -> Webhook {
    let sent = json!({
        "dispatch_id": "0192f1d0c3a47b0e8f5a3c9d2e1b0a96", "status": "sent",
        "metadata": {
            "external_send_id": "order-17",
            "campaign_api_id": "3c9f0a52-8f1e-4c57-9a3e-0d5b1c2e7f60",
            "received_at": "2026-11-21T08:58:41.000+00:00",
            "enqueued_at": "2026-11-21T08:58:41.003+00:00",
            "executed_at": "2026-11-21T08:58:41.021+00:00",
            "sent_at": "2026-11-21T08:58:41.064+00:00",
        },
    });
    Webhook::new::<Postback<'_>>(
        "statusPostback",
        SENT_TO_OTHERS,
        "New status of a transactional email",
    )
    .about(
        "Sent to the workspace's `email.status_postback.url`, and signed with the `secret` next to \
         that URL. The postbacks of one email are sent in order.",
    )
    .example("The relay accepted the email", sent)
    .retried()
}

/// Stores the delivery of a state after that of the previous one; none if the workspace declares no
/// `email.status_postback`.
pub async fn enqueue(
    tx: &mut Tx,
    app: &App,
    settings: &Settings,
    email: &Email,
    postback: &Postback<'_>,
) -> Result<Option<Uuid>, StoreError> {
    let declared = settings.email.as_ref().and_then(|email| email.status_postback.as_ref());
    let Some(declared) = declared else { return Ok(None) };
    let delivery = NewDelivery {
        workspace_id: email.workspace_id,
        kind: STATUS_POSTBACK,
        subject: postback.dispatch_id.clone(),
        follows: email.postback_id,
        url: declared.url.clone(),
        body: serde_json::to_string(postback)
            .map_err(|error| StoreError::Corrupt(format!("a postback: {error}")))?,
        request_id: email.request_id.clone(),
    };
    deliveries::enqueue(tx, &app.config, &app.clock, delivery).await.map(Some)
}

#[cfg(test)]
pub mod tests {
    use serde_json::Value;

    use super::*;

    pub fn email() -> Email {
        Email {
            dispatch_id: Uuid::from_u128(5),
            workspace_id: 7,
            campaign_id: Uuid::from_u128(6),
            external_send_id: Some("order-1".into()),
            request_id: "r".into(),
            state: State::Processing,
            reason: None,
            recipient: None,
            trigger_properties: None,
            attributes: None,
            service_id: None,
            received_at: 1_598_900_321_000,
            enqueued_at: 1_598_900_321_001,
            accepted_at: None,
            executed_at: Some(1_598_900_321_002),
            sent_at: None,
            state_at: 0,
            put_off: 0,
            postback_id: None,
            address: None,
        }
    }

    /// Each state has the members of the guide's table, and no other.
    #[test]
    fn each_state_has_its_members() {
        let mut email = email();
        let at = 1_598_900_321_003;
        let when = "2020-08-31T18:58:41.003+00:00";
        for (state, own) in [
            (
                State::Sent,
                json!({
                    "received_at": "2020-08-31T18:58:41.000+00:00",
                    "enqueued_at": "2020-08-31T18:58:41.001+00:00",
                    "executed_at": "2020-08-31T18:58:41.002+00:00",
                    "sent_at": when,
                }),
            ),
            (State::Processed, json!({ "processed_at": when })),
            (State::Delivered, json!({ "delivered_at": when })),
            (State::Bounced, json!({ "bounced_at": when, "reason": "why" })),
            (State::Aborted, json!({ "aborted_at": when, "reason": "why" })),
        ] {
            let mut metadata = json!({
                "external_send_id": "order-1",
                "campaign_api_id": "00000000-0000-0000-0000-000000000006",
            });
            for (name, value) in own.as_object().unwrap() {
                metadata[name] = value.clone();
            }
            let expected = json!({
                "dispatch_id": "00000000000000000000000000000005",
                "status": state.name(),
                "metadata": metadata,
            });
            let postback = Postback::new(&email, state, at, Some("why"));
            assert_eq!(serde_json::to_value(&postback).unwrap(), expected);
        }
        email.external_send_id = None;
        let postback = serde_json::to_value(Postback::new(&email, State::Sent, at, None)).unwrap();
        assert_eq!(postback["metadata"]["external_send_id"], Value::Null);
        assert_eq!(postback["metadata"].as_object().unwrap().len(), 5);
    }
}
