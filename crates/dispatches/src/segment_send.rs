//! A send of a campaign to a whole segment, as people begin it in the console and with
//! `longshore campaigns send`: the checks and the dispatch of `POST /campaigns/trigger/send`.

use serde_json::json;
use uuid::Uuid;

use crate::api::send::SEND_ACTION;
use crate::orders::campaign_messages;
use content::campaigns::{self, Campaign, Kind as CampaignKind};
use gateway::ApiError;
use gateway::idempotency::Received;
use gateway::workspaces::Channel;
use gateway::workspaces::settings;
use messages::app::App;
use messages::dispatch::{self, DispatchError, Unsent, WhyNot, explain_unsent};
use messages::order::{Kind, Order};
use messages::request::{CheckedSend, MessageProblem, TriggerRequest};
use people::users::rows::{For, find_users};
use people::users::suppressions;
use runtime::audit::Change;
use store::{StoreError, Tx};

/// A checked send that has not begun.
pub struct SegmentSend {
    pub order: Order,
    /// The errors of message objects that are not sent.
    pub problems: Vec<MessageProblem>,
}

impl SegmentSend {
    /// Checks whether the campaign can be sent to the segment. `actor` is who asks for it.
    pub async fn check(
        app: &App,
        workspace: i32,
        (campaign, segment): (&Campaign, Uuid),
        actor: String,
        request_id: &str,
    ) -> Result<Self, ApiError> {
        if campaign.kind != CampaignKind::Api {
            let kind = campaign.kind.name();
            let text = format!("its type is {kind}, and only campaigns of type api can be sent");
            return Err(ApiError::invalid_field(text));
        }
        let body = json!({
            "campaign_id": campaign.id, "segment_id": segment, "broadcast": true,
        });
        let body = body.as_object().cloned().unwrap_or_default();
        let settings = settings::find(app, workspace).await?;
        let known = campaigns::api_campaigns(app, workspace).await?;
        let messages = campaign_messages(app, workspace, &body).await?;
        // Parses templates.
        let read = || TriggerRequest::read(&body, messages.as_ref(), &settings, &known);
        let checked: CheckedSend = app.cores.compute_here(workspace, read)?;
        let received = Received { id: Uuid::now_v7(), at: app.clock.now_ms() };
        let order = checked.order(Kind::Send, received, workspace, request_id);
        let order = Order { requested_by: Some(actor), ..order };
        Ok(Self { order, problems: checked.problems })
    }

    /// The channels of its messages.
    pub fn channels(&self) -> Vec<Channel> {
        self.order.messages.keys().filter_map(|name| Channel::from_name(name)).collect()
    }

    /// Begins the send, in the caller's transaction. Returns the change for the audit log.
    pub async fn begin(&self, tx: &mut Tx) -> Result<Change, StoreError> {
        let Order { dispatch_id, campaign_id, target, .. } = &self.order;
        dispatch::begin(tx, &self.order).await?;
        let details = json!({ "campaign_id": campaign_id, "segment_id": target.segment_id });
        Ok(Change::new(SEND_ACTION, dispatch_id.simple().to_string(), details))
    }
}

/// How many users of a sample would get nothing, and why.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CheckedUsers {
    pub users: usize,
    /// Users who would get no message by any channel.
    pub left_out: usize,
    /// Numbers of users by channel and reason.
    pub reasons: Vec<(Channel, WhyNot, usize)>,
}

/// Checks some users of a segment, as a send of the campaign by these channels does.
pub async fn check_users(
    app: &App,
    workspace_id: i32,
    campaign: &Campaign,
    channels: &[Channel],
    users: &[Uuid],
) -> Result<CheckedUsers, DispatchError> {
    let settings = settings::find(app, workspace_id).await?;
    let mut tx = app.request_queue.snapshot().await?;
    let users = find_users(&mut tx, workspace_id, users, For::Reading).await?;
    let mut checked = CheckedUsers { users: users.len(), ..CheckedUsers::default() };
    for user in &users {
        let recipient = suppressions::recipient(&mut tx, workspace_id, user).await?;
        let unsent = Unsent {
            workspace_id,
            settings: &settings,
            campaign: Some(campaign),
            channels: channels.to_vec(),
        };
        let found = explain_unsent(app, &mut tx, unsent, &recipient).await?;
        // At most one for each channel.
        checked.left_out += usize::from(found.len() >= channels.len());
        for reason in found {
            let Some(channel) = reason.channel else { continue };
            checked.add(channel, reason.why);
        }
    }
    tx.commit().await?;
    Ok(checked)
}

impl CheckedUsers {
    fn add(&mut self, channel: Channel, why: WhyNot) {
        match self.reasons.iter_mut().find(|(by, known, _)| (*by, *known) == (channel, why)) {
            Some((_, _, count)) => *count += 1,
            None => self.reasons.push((channel, why, 1)),
        }
    }
}
