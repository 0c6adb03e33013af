//! Why a user got no message of a dispatch. Exclusions are counted, and not stored for each user,
//! so this repeats the checks of the dispatch with the user's data of now.

use uuid::Uuid;

use super::capping::Allowance;
use super::error::DispatchError;
use super::job::{Job, NoRecipient};
use super::left_out::Exclusion;
use super::message_rows::PartContext;
use super::named::resolve;
use super::part_rows;
use super::past_rows;
use super::recipient::{is_subscribed, read_recipient, read_user, without_address};
use super::rows::{self, Dispatch};
use super::state::State;
use crate::app::App;
use crate::order::Named;
use gateway::workspaces::Channel;
use people::users::large_rows;
use people::users::rows::{For, find_users};
use store::{Tx, text_enum};

text_enum! {
    /// A reason for which a user gets no message, or none by a channel.
    pub enum WhyNot {
        /// Not all users have been processed yet.
        InProgress = "in_progress",
        Failed = "dispatch_failed",
        Cancelled = "dispatch_cancelled",
        /// The request named other users.
        NotListed = "not_listed",
        /// The user was created after the dispatch began.
        CreatedLater = "created_later",
        NotInAudience = "not_in_audience",
        ControlGroup = "control_group",
        Unsubscribed = "unsubscribed",
        /// The user has no email address, phone number or push token.
        NoAddress = "no_address",
        /// Frequency capping.
        Capped = "capped",
        /// The stored user is damaged.
        Unreadable = "unreadable",
        /// What the dispatch needs was deleted: its campaign, its segment or its channels'
        /// settings.
        Deleted = "deleted",
    }
}

impl WhyNot {
    /// The sentence of docs/reference/api/user-messages.md.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::InProgress => "Not all users of the dispatch have been checked yet",
            Self::Failed | Self::Cancelled => "The dispatch ended before it reached all users",
            Self::NotListed => "The request named other users",
            Self::CreatedLater => "The user was created after the dispatch began",
            Self::NotInAudience => "The user does not match the segment or the audience",
            Self::ControlGroup => "The user is in the global control group",
            Self::Unsubscribed => "The subscription does not allow the message of this channel",
            Self::NoAddress => {
                "The user has no email address, phone number or push token for this channel"
            }
            Self::Capped => "Frequency capping did not allow another message by this channel",
            Self::Unreadable => "The stored user is damaged",
            Self::Deleted => {
                "The campaign, the segment or the settings of the channels no longer exist"
            }
        }
    }
}

/// A reason that applies now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explanation {
    pub why: WhyNot,
    /// The channel, if the reason does not apply to all of them.
    pub channel: Option<Channel>,
}

impl From<WhyNot> for Explanation {
    fn from(why: WhyNot) -> Self {
        Self { why, channel: None }
    }
}

/// The reasons for which an existing user has no message of a dispatch by each of its channels
/// except those in `received`. None if the workspace has no such dispatch.
pub async fn explain(
    app: &App,
    tx: &mut Tx,
    (workspace, user): (i32, Uuid),
    dispatch: Uuid,
    received: &[Channel],
) -> Result<Option<Vec<Explanation>>, DispatchError> {
    let found = rows::load(tx, dispatch).await?;
    let Some(found) = found.filter(|found| found.order.workspace_id == workspace) else {
        return Ok(None);
    };
    let mut reasons: Vec<Explanation> = Vec::new();
    let (is_new, mut listed) = (received.is_empty(), None);
    if is_new {
        listed = part_rows::listed(tx, dispatch).await?;
        let found = by_dispatch(tx, &found, listed.as_deref(), user).await?;
        reasons.extend(found.into_iter().map(Explanation::from));
    }
    let job = match Job::load(app, tx, found).await {
        Ok(job) => job,
        Err(DispatchError::Permanent(_)) => {
            reasons.push(WhyNot::Deleted.into());
            return Ok(Some(reasons));
        }
        Err(error) => return Err(error),
    };
    let users = find_users(tx, workspace, &[user], For::Reading).await?;
    let bodies = if is_new && job.needs_activity(None) {
        large_rows::bodies(tx, workspace, &[user]).await?
    } else {
        Vec::new()
    };
    let activity = bodies.first().map(|(_, body)| body.as_slice());
    let Some(stored) = users.first() else { return Ok(Some(reasons)) };
    let checked = if is_new {
        read_recipient(&job, user, &stored.doc, activity, None, app.clock.now_ms())
    } else {
        read_user(user, &stored.doc).map_err(NoRecipient::Unreadable)
    };
    let (recipient, exclusion) = match checked {
        // Audiences are checked before the whole document is read.
        Err(NoRecipient::Excluded(exclusion)) => {
            (read_user(user, &stored.doc).ok(), by_exclusion(exclusion))
        }
        checked => (checked.ok(), None),
    };
    let Some(recipient) = recipient else {
        reasons.push(WhyNot::Unreadable.into());
        return Ok(Some(reasons));
    };
    reasons.extend(exclusion.map(Explanation::from));
    let mut allowance = None;
    if job.is_capped() {
        let order = &job.order;
        let context = PartContext { workspace, dispatch, campaign: order.campaign_id, part: 0 };
        let rules = &job.settings.frequency_capping;
        allowance = Some(Allowance::at(tx, context, rules, user, order.accepted_at).await?);
    }
    let channels = job.content.messages().iter().map(|message| message.channel);
    for channel in channels.filter(|channel| !received.contains(channel)) {
        let why = if !is_subscribed(&recipient, channel, job.order.subscription_state) {
            WhyNot::Unsubscribed
        } else if without_address(&recipient, channel).is_some() {
            WhyNot::NoAddress
        } else if allowance.as_mut().is_some_and(|allowance| !allowance.take(user, channel)) {
            WhyNot::Capped
        } else {
            continue;
        };
        reasons.push(Explanation { why, channel: Some(channel) });
    }
    // The list was removed. Nothing excluded the user, who would have a message even without an
    // address, so the list did not have the user.
    if listed.is_some_and(|listed| listed.is_empty())
        && reasons.iter().all(|reason| reason.why == WhyNot::NoAddress)
    {
        reasons.push(WhyNot::NotListed.into());
    }
    Ok(Some(reasons))
}

/// The reasons that do not depend on the user's data.
async fn by_dispatch(
    tx: &mut Tx,
    dispatch: &Dispatch,
    listed: Option<&[Named]>,
    user: Uuid,
) -> Result<Vec<WhyNot>, DispatchError> {
    let Dispatch { order, state, youngest, .. } = dispatch;
    let state = match state {
        State::Planning | State::Running => Some(WhyNot::InProgress),
        State::Failed => Some(WhyNot::Failed),
        State::Cancelling | State::Cancelled => Some(WhyNot::Cancelled),
        State::Done => None,
    };
    let excluded = match listed {
        Some([]) => None,
        Some(listed) => {
            let resolved = resolve(tx, order.workspace_id, listed).await?;
            let is_listed = resolved.users.iter().any(|(id, _)| *id == user);
            (!is_listed).then_some(WhyNot::NotListed)
        }
        None => match &order.target.recipients_of {
            Some(past) => {
                let workspace = order.workspace_id;
                let is_listed = past_rows::is_past_recipient(tx, workspace, past, user).await?;
                (!is_listed).then_some(WhyNot::NotListed)
            }
            None => youngest.filter(|youngest| user > *youngest).map(|_| WhyNot::CreatedLater),
        },
    };
    Ok(state.into_iter().chain(excluded).collect())
}

fn by_exclusion(exclusion: Exclusion) -> Option<WhyNot> {
    match exclusion {
        Exclusion::OtherWave => None,
        Exclusion::NotInAudience => Some(WhyNot::NotInAudience),
        Exclusion::ControlGroup => Some(WhyNot::ControlGroup),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_those_of_the_documentation() {
        let page = include_str!("../../../../docs/reference/api/user-messages.md");
        let page = page.replace('`', "");
        for why in WhyNot::ALL {
            let sentence = why.in_words();
            let row = page.lines().find(|line| line.starts_with('|') && line.contains(sentence));
            assert!(row.expect(sentence).contains(why.name()), "{sentence}");
        }
    }
}
