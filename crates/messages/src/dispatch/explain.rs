//! Why a user got no message of a dispatch, and why a user would get none in a preview. Exclusions are counted, and not stored for each user,
//! so this repeats the checks of the dispatch with the user's data of now.

use uuid::Uuid;

use super::capping::Allowance;
use super::error::DispatchError;
use super::job::{self, Job, NoRecipient};
use super::left_out::Exclusion;
use super::message_rows::PartContext;
use super::named::resolve;
use super::part_rows;
use super::past_rows;
use super::recipient::{is_subscribed, read_recipient, read_user, without_address};
use super::rows::{self, Dispatch};
use super::state::State;
use crate::app::App;
use crate::order::{Named, SubscriptionState, Wave};
use content::campaigns::{self, Campaign};
use gateway::workspaces;
use gateway::workspaces::Channel;
use gateway::workspaces::settings::Settings;
use people::audience::{Audience, Matcher};
use people::users::Recipient;
use people::users::activity::Activity;
use people::users::large_rows;
use people::users::rows::{For, find_users};
use people::users::suppressions::{AddressStates, Reason};
use store::{Tx, text_enum};

text_enum! {
    /// A reason for which a user gets no message, or none by a channel.
    pub enum WhyNot {
        /// Not all users have been processed yet.
        InProgress = "in_progress",
        /// The dispatch is at local times, and that of the user is still to come.
        NotYetDue = "not_yet_due",
        /// The user's local time had passed when the dispatch could start.
        TooLate = "too_late",
        Failed = "dispatch_failed",
        Cancelled = "dispatch_cancelled",
        /// The request named other users.
        NotListed = "not_listed",
        /// The user was created after the dispatch began.
        CreatedLater = "created_later",
        NotInAudience = "not_in_audience",
        ControlGroup = "control_group",
        Unsubscribed = "unsubscribed",
        /// A recipient at the address complained.
        Suppressed = "suppressed",
        /// An email to the address bounced.
        Bounced = "bounced",
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
            Self::NotYetDue => "The user's local time is still to come",
            Self::TooLate => "The user's local time had passed when the dispatch could start",
            Self::Failed | Self::Cancelled => "The dispatch ended before it reached all users",
            Self::NotListed => "The request named other users",
            Self::CreatedLater => "The user was created after the dispatch began",
            Self::NotInAudience => "The user does not match the segment or the audience",
            Self::ControlGroup => "The user is in the global control group",
            Self::Unsubscribed => "The subscription does not allow the message of this channel",
            Self::Suppressed => "A recipient at the email address complained",
            Self::Bounced => "An email to the email address bounced",
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
    /// When the user is due, if the reason is the user's local time, or when emails are sent again
    /// after a bounce: milliseconds since the epoch.
    pub due_at: Option<i64>,
}

impl From<WhyNot> for Explanation {
    fn from(why: WhyNot) -> Self {
        Self { why, channel: None, due_at: None }
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
    let waves = if is_new { rows::waves(tx, dispatch).await? } else { Vec::new() };
    let bodies = if is_new && job.needs_activity(waves.last()) {
        large_rows::bodies(tx, workspace, &[user]).await?
    } else {
        Vec::new()
    };
    let activity = bodies.first().map(|(_, body)| body.as_slice());
    let Some(stored) = users.first() else { return Ok(Some(reasons)) };
    let (now, documents) = (app.clock.now_ms(), [(user, stored.doc.as_str())].into_iter());
    let addresses = AddressStates::look_up(tx, workspace, documents).await?;
    let checked = if is_new {
        read_recipient(&job, user, &stored.doc, activity, &addresses, None, now)
    } else {
        read_user(user, &stored.doc, &addresses).map_err(NoRecipient::Unreadable)
    };
    let (recipient, exclusion) = match checked {
        // Audiences are checked before the whole document is read.
        Err(NoRecipient::Excluded(exclusion)) => {
            (read_user(user, &stored.doc, &addresses).ok(), by_exclusion(exclusion))
        }
        // The dispatch fails because of it.
        Err(NoRecipient::Costly(_)) => (read_user(user, &stored.doc, &addresses).ok(), None),
        checked => (checked.ok(), None),
    };
    let Some(recipient) = recipient else {
        reasons.push(WhyNot::Unreadable.into());
        return Ok(Some(reasons));
    };
    reasons.extend(exclusion.map(Explanation::from));
    if let Some(wave) = waves.last() {
        by_local_time(&mut reasons, &waves, job.due(wave, &recipient, activity));
    }
    let (order, mut allowance) = (&job.order, None);
    if job.is_capped() {
        let context = PartContext { workspace, dispatch, campaign: order.campaign_id, part: 0 };
        let rules = &job.settings.frequency_capping;
        allowance = Some(Allowance::at(tx, context, rules, user, order.accepted_at).await?);
    }
    let channels = job.content.messages().iter().map(|message| message.channel);
    let channels = channels.filter(|channel| !received.contains(channel));
    reasons.extend(by_channel(&recipient, channels, order.subscription_state, allowance));
    // The list was removed. Nothing excluded the user, who would have a message even without an
    // address, so the list did not have the user.
    if listed.is_some_and(|listed| listed.is_empty())
        && reasons.iter().all(|reason| reason.why == WhyNot::NoAddress)
    {
        reasons.push(WhyNot::NotListed.into());
    }
    Ok(Some(reasons))
}

/// A message that nobody has asked to send yet.
pub struct Unsent<'a> {
    pub workspace_id: i32,
    pub settings: &'a Settings,
    /// The campaign or Canvas that declares it.
    pub campaign: Option<&'a Campaign>,
    pub channels: Vec<Channel>,
}

/// The reasons for which a user would not get messages that are sent to the user now, by the checks
/// of [`explain`]. Whether the campaign is active is not one of them.
pub async fn explain_unsent(
    app: &App,
    tx: &mut Tx,
    unsent: Unsent<'_>,
    user: &Recipient,
) -> Result<Vec<Explanation>, DispatchError> {
    let Unsent { workspace_id: workspace, settings, campaign, channels } = unsent;
    let (id, now) = (user.service_id, app.clock.now_ms());
    let kind = campaign.map(|campaign| campaign.kind);
    let mut reasons = Vec::new();
    if matches!(kind, Some(campaigns::Kind::Canvas | campaigns::Kind::Triggered)) {
        let group = workspaces::control_group(tx, workspace).await?;
        let slices = group.map(|group| group.slices).unwrap_or_default();
        let tree = campaign.and_then(Campaign::audience);
        let audiences: Vec<Matcher> = tree
            .map(|tree| {
                let read = || job::matcher(Audience::read(&(&tree).into()), "audience");
                app.cores.compute_here(workspace, read)
            })
            .transpose()?
            .into_iter()
            .collect();
        let exclusion = exclusion(tx, (workspace, id), &audiences, &slices, now).await?;
        reasons.extend(exclusion.map(Explanation::from));
    }
    let is_transactional = kind == Some(campaigns::Kind::Transactional);
    let required =
        if is_transactional { SubscriptionState::All } else { SubscriptionState::default() };
    let rules = &settings.frequency_capping;
    let mut allowance = None;
    if let Some(campaign) = campaign.filter(|_| !is_transactional && !rules.is_empty()) {
        let context =
            PartContext { workspace, dispatch: Uuid::nil(), campaign: Some(campaign.id), part: 0 };
        allowance = Some(Allowance::at(tx, context, rules, id, now).await?);
    }
    reasons.extend(by_channel(user, channels.into_iter(), required, allowance));
    Ok(reasons)
}

/// Why an existing user is not a recipient of a send to these audiences without these slices.
async fn exclusion(
    tx: &mut Tx,
    (workspace, user): (i32, Uuid),
    audiences: &[Matcher],
    excluded_slices: &[i16],
    now: i64,
) -> Result<Option<WhyNot>, DispatchError> {
    let users = find_users(tx, workspace, &[user], For::Reading).await?;
    let Some(stored) = users.first() else { return Ok(None) };
    let bodies = if audiences.iter().any(Matcher::needs_activity) {
        large_rows::bodies(tx, workspace, &[user]).await?
    } else {
        Vec::new()
    };
    let activity = bodies.first().map(|(_, body)| Activity::decode(body)).transpose();
    let Ok(activity) = activity else { return Ok(Some(WhyNot::Unreadable)) };
    let users = (user, stored.doc.as_str());
    let addresses = AddressStates::look_up(tx, workspace, std::iter::once(users)).await?;
    let checked =
        job::check_user(audiences, excluded_slices, users, activity.as_ref(), &addresses, now);
    Ok(match checked {
        Ok(()) => None,
        Err(NoRecipient::Excluded(exclusion)) => by_exclusion(exclusion),
        Err(NoRecipient::Unreadable(_)) => Some(WhyNot::Unreadable),
        Err(NoRecipient::Costly(error)) => return Err(error.into()),
    })
}

/// Why a user gets no message by some of these channels.
fn by_channel(
    user: &Recipient,
    channels: impl Iterator<Item = Channel>,
    required: SubscriptionState,
    mut allowance: Option<Allowance<'_>>,
) -> Vec<Explanation> {
    let mut reasons = Vec::new();
    for channel in channels {
        let stop = user.stopped.filter(|_| channel == Channel::Email);
        let why = if !is_subscribed(user, channel, required) {
            WhyNot::Unsubscribed
        } else if let Some(stop) = stop {
            if stop.reason == Reason::Bounce { WhyNot::Bounced } else { WhyNot::Suppressed }
        } else if without_address(user, channel).is_some() {
            WhyNot::NoAddress
        } else if allowance
            .as_mut()
            .is_some_and(|allowance| !allowance.take(user.service_id, channel))
        {
            WhyNot::Capped
        } else {
            continue;
        };
        let due_at = stop.and_then(|stop| stop.until).filter(|_| why == WhyNot::Bounced);
        reasons.push(Explanation { why, channel: Some(channel), due_at });
    }
    reasons
}

/// Adds the reason that a user who is due at this time got nothing yet, or nothing at all, from
/// these waves of a dispatch.
fn by_local_time(reasons: &mut Vec<Explanation>, waves: &[Wave], due_at: i64) {
    let wave = waves.iter().find(|wave| due_at <= wave.at_ms || wave.is_last);
    let why = match wave {
        None => WhyNot::NotYetDue,
        Some(wave) if due_at <= wave.after_ms => WhyNot::TooLate,
        Some(_) => return,
    };
    // The dispatch runs on, but not for this user; or it ended before the user's time.
    if why == WhyNot::TooLate {
        reasons.retain(|reason| reason.why != WhyNot::InProgress);
    } else if let Some(reason) = reasons.iter().position(|reason| reason.why == WhyNot::InProgress)
    {
        reasons.remove(reason);
    } else {
        // The last waves were missed. A dispatch that ended early has its own reason.
        let ended_early =
            |reason: &Explanation| matches!(reason.why, WhyNot::Failed | WhyNot::Cancelled);
        if !reasons.iter().any(ended_early) {
            let why = WhyNot::TooLate;
            reasons.insert(0, Explanation { why, channel: None, due_at: Some(due_at) });
        }
        return;
    }
    reasons.insert(0, Explanation { why, channel: None, due_at: Some(due_at) });
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
        Exclusion::OtherWave | Exclusion::TooLate => None,
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
