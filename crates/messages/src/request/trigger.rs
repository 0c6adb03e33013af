//! Requests that send the messages of a campaign.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::super::content::MessageSource;
use super::super::order::{Named, SubscriptionState, Target};
use super::super::recipient::{IDENTIFIER_FIELDS, MAX_USERS, Members, Properties, User};
use super::{CheckedSend, SendId, audience_warnings, campaign, contents, no_message, segment};
use crate::When;
use crate::when::ScheduleObject;
use content::campaigns::ApiCampaigns;
use gateway::formats::{Identifier, List, UserAlias, exactly_one};
use gateway::workspaces::settings::Settings;
use gateway::{ApiError, fields};
use kit::json::ObjectText;
use people::audience::Audience;

/// A send of a campaign. The users are `recipients`, optionally limited to a segment or an audience;
/// or, with `broadcast`, a segment, an audience or all users.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct TriggerRequest {
    /// The id of a campaign of type `api` that declares messages.
    #[schemars(with = "Uuid")]
    campaign_id: String,
    send_id: Option<SendId>,
    /// Templates can read these as `api_trigger_properties`. A recipient's own `trigger_properties`
    /// override them. At most 50 KiB of JSON.
    trigger_properties: Option<Properties>,
    #[schemars(extend("default" = false))]
    broadcast: Option<bool>,
    /// The id of a segment that the workspace file declares. Limits the users, like `audience`.
    #[schemars(with = "Option<Uuid>")]
    segment_id: Option<String>,
    audience: Option<Audience>,
    recipients: Option<List<TriggerRecipient, 0, MAX_USERS>>,
}

/// A user, identified by exactly one of `external_user_id` and `user_alias`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(transform = exactly_one(IDENTIFIER_FIELDS))]
struct TriggerRecipient {
    external_user_id: Option<Identifier>,
    user_alias: Option<UserAlias>,
    trigger_properties: Option<Properties>,
    /// Not supported: must be absent or empty. Write attributes with `POST /users/track` first.
    #[schemars(with = "Option<Members>")]
    attributes: Option<Box<RawValue>>,
}

/// A scheduled send of a campaign, with users as for an immediate send.
#[derive(Debug, JsonSchema)]
pub struct ScheduleCampaignRequest {
    #[serde(flatten)]
    _send: TriggerRequest,
    #[serde(flatten)]
    _time: ScheduleTime,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ScheduleTime {
    #[schemars(with = "ScheduleObject")]
    schedule: When,
}

impl ScheduleCampaignRequest {
    /// Reads a body of `POST /campaigns/trigger/schedule/create`. Does not check whether the time
    /// is in the past.
    pub fn read(
        body: &Members,
        declared: Option<&Map<String, Value>>,
        settings: &Settings,
        campaigns: &ApiCampaigns,
    ) -> Result<(When, CheckedSend), ApiError> {
        let ((request, ScheduleTime { schedule }), warnings) =
            fields::read_request_both::<TriggerRequest, ScheduleTime>(body)?;
        let checked = request.checked(declared, MessageSource::Schedule, settings, campaigns)?;
        Ok((schedule, checked.with_unknown_fields(warnings)))
    }
}

impl TriggerRequest {
    /// Reads a body of `POST /campaigns/trigger/send`. `declared` are the message objects of its
    /// campaign.
    pub fn read(
        body: &Members,
        declared: Option<&Map<String, Value>>,
        settings: &Settings,
        campaigns: &ApiCampaigns,
    ) -> Result<CheckedSend, ApiError> {
        let (request, warnings) = fields::read_request::<Self>(body)?;
        let checked = request.checked(declared, MessageSource::Send, settings, campaigns)?;
        Ok(checked.with_unknown_fields(warnings))
    }

    fn checked(
        self,
        declared: Option<&Map<String, Value>>,
        source: MessageSource,
        settings: &Settings,
        campaigns: &ApiCampaigns,
    ) -> Result<CheckedSend, ApiError> {
        let invalid = |text: String| Err(ApiError::invalid_field(text));
        let campaign = campaign(Some(&self.campaign_id), campaigns)?.map(|(id, _)| id);
        let segment_id = segment(self.segment_id.as_deref(), settings)?;
        let common = self.trigger_properties.map(|Properties(common)| common.tree());
        let (mut users, mut seen) = (Vec::new(), HashSet::new());
        let recipients = self.recipients.unwrap_or_default().0;
        for (index, recipient) in recipients.into_iter().enumerate() {
            if recipient.attributes.is_some_and(|attributes| attributes.get() != "{}") {
                return invalid(format!("recipients[{index}].attributes is not supported here"));
            }
            let user = User::from_fields(recipient.external_user_id, recipient.user_alias)
                .map_err(|why| ApiError::invalid_field(format!("recipients[{index}] {why}")))?;
            let own = recipient.trigger_properties.map(|Properties(own)| own);
            let trigger_properties = match (&common, own) {
                (Some(common), Some(own)) => Some(ObjectText::from(&common.merged(&own.tree()))),
                (Some(common), None) => Some(ObjectText::from(common)),
                (None, own) => own,
            };
            let named = Named { trigger_properties, ..user.into() };
            if seen.insert(named.who.clone()) {
                users.push(named);
            }
        }
        match (self.broadcast.unwrap_or_default(), users.is_empty()) {
            (true, false) => {
                return invalid("broadcast must not be true if users are given".into());
            }
            (false, true) => {
                return invalid("recipients is required, unless broadcast is true".into());
            }
            _ => {}
        }
        let declared = declared.ok_or_else(|| no_message("the campaign declares no messages"))?;
        let (_, messages, problems) = contents(Some(declared), source, settings)?;
        let warnings = audience_warnings(self.audience.as_ref());
        let audience = self.audience.map(|audience| audience.to_json());
        Ok(CheckedSend {
            send_id: self.send_id.map(|SendId(id)| id),
            problems,
            warnings,
            campaign_id: campaign,
            target: Target { users, segment_id, audience, recipients_of: None },
            messages,
            subscription_state: SubscriptionState::default(),
            ignores_capping: false,
            trigger_properties: common,
        })
    }
}
