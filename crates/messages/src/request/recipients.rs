//! Requests that send to the recipients of an earlier dispatch.

use schemars::JsonSchema;
use serde::Deserialize;
use uuid::Uuid;

use super::super::content::{MessageSource, Messages};
use super::super::order::{PastRecipients, SubscriptionState, Target};
use super::super::recipient::Members;
use super::{CheckedSend, SendId, campaign, check_variations, contents};
use crate::message_outcome::OutcomeFilter;
use content::campaigns::ApiCampaigns;
use gateway::formats::List;
use gateway::workspaces::settings::Settings;
use gateway::{ApiError, fields};

/// Selects the messages that their users have, or may have.
const REACHED: [OutcomeFilter; 3] =
    [OutcomeFilter::Sent, OutcomeFilter::Delivered, OutcomeFilter::MayHaveBeenSent];

/// The messages, and which recipients of the earlier dispatch get them.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RecipientsSendRequest {
    #[schemars(with = "Messages")]
    messages: Option<Messages>,
    /// The users for which the dispatch has a message with one of these outcomes.
    /// `may_have_been_sent`: a message that was not accepted, as far as is known, but may have
    /// arrived.
    #[schemars(extend("default" = REACHED))]
    outcomes: Option<List<FinalOutcome, 1, { OutcomeFilter::FINAL.len() }>>,
    /// The id of a campaign of type `api`; the messages count in its statistics.
    #[schemars(with = "Option<Uuid>")]
    campaign_id: Option<String>,
    /// Your own identifier of the send; returned in the response.
    send_id: Option<SendId>,
    /// Which users get emails and push messages, as for `POST /messages/send`.
    #[schemars(extend("default" = SubscriptionState::default()))]
    recipient_subscription_state: Option<SubscriptionState>,
    /// If true, frequency capping does not apply.
    #[schemars(extend("default" = false))]
    override_frequency_capping: Option<bool>,
}

/// Selects messages of a dispatch that has ended.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", inline, extend(
    "enum" = OutcomeFilter::FINAL.map(OutcomeFilter::name),
))]
struct FinalOutcome(OutcomeFilter);

impl TryFrom<String> for FinalOutcome {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let outcome = OutcomeFilter::FINAL.into_iter().find(|outcome| outcome.name() == name);
        outcome.map(Self).ok_or_else(|| {
            let names = OutcomeFilter::FINAL.map(OutcomeFilter::name).join(", ");
            format!("must be one of {names}")
        })
    }
}

impl RecipientsSendRequest {
    /// Reads a body of `POST /messages/dispatches/{dispatch_id}/send`.
    pub fn read(
        body: &Members,
        dispatch_id: Uuid,
        settings: &Settings,
        campaigns: &ApiCampaigns,
    ) -> Result<CheckedSend, ApiError> {
        let (request, warnings) = fields::read_request_to_many::<Self>(body)?;
        let messages = request.messages.map(|Messages(messages)| messages);
        let campaign = campaign(request.campaign_id.as_deref(), campaigns)?;
        let (_, messages, problems) = contents(messages.as_ref(), MessageSource::Send, settings)?;
        if let Some((_, campaign)) = campaign {
            check_variations(&messages, campaign)?;
        }
        let mut outcomes = match request.outcomes {
            Some(List(outcomes)) => {
                outcomes.into_iter().map(|FinalOutcome(outcome)| outcome).collect()
            }
            None => REACHED.to_vec(),
        };
        outcomes.sort_unstable();
        outcomes.dedup();
        let recipients_of = Some(PastRecipients { dispatch_id, outcomes });
        Ok(CheckedSend {
            send_id: request.send_id.map(|SendId(id)| id),
            problems,
            warnings,
            campaign_id: campaign.map(|(id, _)| id),
            target: Target { recipients_of, ..Target::default() },
            messages,
            subscription_state: request.recipient_subscription_state.unwrap_or_default(),
            ignores_capping: request.override_frequency_capping.unwrap_or_default(),
            trigger_properties: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(fields: &Value) -> Result<PastRecipients, ApiError> {
        let webhook = json!({ "url": "https://hooks.acme.example/", "request_method": "GET" });
        let mut body = json!({ "messages": { "webhook": webhook } });
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let (settings, campaigns) = (Settings::default(), ApiCampaigns::default());
        let body = body.as_object().unwrap();
        let checked = RecipientsSendRequest::read(body, Uuid::nil(), &settings, &campaigns)?;
        Ok(checked.target.recipients_of.expect("recipients of a dispatch"))
    }

    #[test]
    fn those_who_may_have_a_message_are_the_default() {
        assert_eq!(read(&json!({})).unwrap().outcomes, REACHED);
        let outcomes = json!({ "outcomes": ["failed", "bounced", "failed"] });
        let failed = [OutcomeFilter::Bounced, OutcomeFilter::Failed];
        assert_eq!(read(&outcomes).unwrap().outcomes, failed);
    }

    #[test]
    fn invalid_outcomes_are_rejected() {
        for outcomes in [json!([]), json!(["waiting"]), json!(["lost"]), json!("sent"), json!([1])]
        {
            let error = read(&json!({ "outcomes": outcomes })).expect_err("it is rejected");
            assert_eq!(error.code(), gateway::Code::InvalidField, "{outcomes}");
        }
    }

    /// Without `outcomes`, the request is to everybody who has a message.
    #[test]
    fn unknown_fields_are_rejected() {
        for name in ["outcome", "Outcomes", "states", "limit", "comment"] {
            let error = read(&json!({ name: null })).expect_err(name);
            assert_eq!(error.code(), gateway::Code::UnknownField, "{name}");
        }
        assert!(read(&json!({ "outcomes": null, "attachments": [] })).is_ok());
    }

    /// A field that would limit another request is not ignored.
    #[test]
    fn other_selections_of_users_and_dry_runs_are_rejected() {
        for fields in [
            json!({ "external_user_ids": ["ann"] }),
            json!({ "segment_id": Uuid::nil() }),
            json!({ "audience": {} }),
            json!({ "recipients": [] }),
            json!({ "dry_run": true }),
        ] {
            let error = read(&fields).expect_err("it is rejected");
            assert_eq!(error.code(), gateway::Code::InvalidField, "{fields}");
        }
    }
}
