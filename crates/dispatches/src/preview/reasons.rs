//! Why a user would not get a previewed message.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::{Preview, Subject};
use content::campaigns::Campaign;
use gateway::workspaces::settings::Settings;
use messages::app::App;
use messages::channels;
use messages::content::{Message, Rendered};
use messages::dispatch::{DispatchError, Explanation, Unsent, WhyNot, explain_unsent};
use messages::{MessageId, Outgoing};
use people::users::recipient::Recipient;

/// Why a user would not get a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "PreviewReason")]
pub struct Reason {
    #[schemars(extend("enum" = REASONS))]
    pub reason: &'static str,
    /// The reason as a sentence.
    pub text: String,
}

const ARCHIVED: &str = "campaign_archived";
const PAUSED: &str = "campaign_paused";
const UNREACHABLE: &str = "unreachable";

/// All reasons.
const REASONS: [&str; 11] = [
    ARCHIVED,
    PAUSED,
    WhyNot::NotInAudience.name(),
    WhyNot::ControlGroup.name(),
    WhyNot::Unsubscribed.name(),
    WhyNot::NoAddress.name(),
    WhyNot::Suppressed.name(),
    WhyNot::Bounced.name(),
    WhyNot::Capped.name(),
    WhyNot::Unreadable.name(),
    UNREACHABLE,
];

impl Reason {
    /// The reason of a campaign that sends nothing now.
    fn from_campaign(campaign: &Campaign) -> Option<Self> {
        let state = campaign.inactive()?;
        let reason = if campaign.archived { ARCHIVED } else { PAUSED };
        Some(Self { reason, text: format!("The {} is {state}", campaign.kind.label()) })
    }
}

impl From<WhyNot> for Reason {
    fn from(why: WhyNot) -> Self {
        Self { reason: why.name(), text: why.in_words().to_owned() }
    }
}

/// Adds the reasons for which the user would not get the previewed messages, by the checks of a
/// send: each message has one preview. A campaign's messages are subject to its rules.
pub async fn add_reasons(
    app: &App,
    (workspace_id, settings): (i32, &Settings),
    campaign: Option<&Campaign>,
    (messages, subject): (&[Message], &Subject),
    previews: &mut [Preview],
) -> Result<(), DispatchError> {
    let inactive = campaign.and_then(Reason::from_campaign);
    for preview in previews.iter_mut() {
        preview.why_not.extend(inactive.clone());
    }
    let Some(service_id) = subject.service_id else { return Ok(()) };
    let (profile, custom) = (subject.profile.clone(), subject.custom.clone());
    let recipient = Recipient { service_id, profile, custom, stopped: subject.stopped };
    let channels = messages.iter().map(|message| message.channel).collect();
    let unsent = Unsent { workspace_id, settings, campaign, channels };
    let mut tx = app.request_queue.snapshot().await?;
    let reasons = explain_unsent(app, &mut tx, unsent, &recipient).await?;
    tx.commit().await?;
    for (message, preview) in messages.iter().zip(previews) {
        let of_channel =
            |reason: &&Explanation| reason.channel.is_none_or(|channel| channel == message.channel);
        let reasons = reasons.iter().filter(of_channel);
        preview.why_not.extend(reasons.map(|reason| Reason::from(reason.why)));
        if !preview.is_sent() {
            continue;
        }
        let Some(Value::Object(object)) = &preview.rendered else { continue };
        let rendered = Rendered {
            channel: message.channel,
            variation_id: message.variation_id.clone(),
            object: object.clone(),
            extras: preview.message_extras.clone(),
        };
        let outgoing = Outgoing {
            workspace_id,
            settings,
            id: MessageId { dispatch_id: Uuid::nil(), service_id, channel: message.channel },
            recipient: &recipient,
            rendered: &rendered,
            address: None,
            is_transactional: false,
            campaign_id: campaign.map(|campaign| campaign.id),
            send_id: None,
            request_id: "",
        };
        let why = channels::unreachable(app, outgoing).await;
        preview.why_not.extend(why.map(|text| Reason { reason: UNREACHABLE, text }));
    }
    Ok(())
}
