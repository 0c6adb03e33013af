//! Whether a user may get messages, and by which channels.

use uuid::Uuid;

use super::job::{Job, NoRecipient};
use super::state::RowState;
use crate::order::{SubscriptionState, Wave};
use gateway::workspaces::Channel;
use people::users::Recipient;
use people::users::activity::Activity;
use people::users::recipient::Subscription;
use people::users::suppressions::{AddressStates, Reason};

/// The reason for failed messages to a user with damaged data.
const UNREADABLE_PROFILE: &str = "cannot read the user's stored profile";
const UNREADABLE_ACTIVITY: &str = "cannot read the user's stored activity";

/// A user as recipient, or why the user is not one.
pub(super) fn read_recipient(
    job: &Job,
    service_id: Uuid,
    doc: &str,
    activity: Option<&[u8]>,
    addresses: &AddressStates,
    wave: Option<&Wave>,
    now: i64,
) -> Result<Recipient, NoRecipient> {
    let activity = activity.map(Activity::decode).transpose().map_err(|error| {
        tracing::error!(user = %service_id, %error, "activity unreadable");
        NoRecipient::Unreadable(UNREADABLE_ACTIVITY)
    })?;
    job.recipient(service_id, doc, activity.as_ref(), addresses, wave, now)
}

/// Reads a user, with what applies to the user's addresses; the error is the reason, for the
/// operator, why the profile is unreadable.
pub(super) fn read_user(
    service_id: Uuid,
    doc: &str,
    addresses: &AddressStates,
) -> Result<Recipient, &'static str> {
    let mut user =
        Recipient::read(service_id, doc).map_err(|error| unreadable_profile(service_id, &error))?;
    addresses.apply(&mut user, doc);
    Ok(user)
}

/// Logs that a profile is unreadable; returns the reason for the operator.
pub(super) fn unreadable_profile(service_id: Uuid, error: &serde_json::Error) -> &'static str {
    tracing::error!(user = %service_id, %error, "profile unreadable");
    UNREADABLE_PROFILE
}

/// Whether a user's subscription allows a message, with the order's `required` state. SMS and
/// WhatsApp have subscription groups, which their channels check. Other channels have no
/// subscriptions.
pub(super) fn is_subscribed(
    user: &Recipient,
    channel: Channel,
    required: SubscriptionState,
) -> bool {
    let state = match channel {
        Channel::Email => user.email_subscription(),
        push if push.is_push() => user.push_subscription(),
        _ => return true,
    };
    match required {
        SubscriptionState::All => true,
        SubscriptionState::Subscribed => state != Subscription::Unsubscribed,
        SubscriptionState::OptedIn => state == Subscription::OptedIn,
    }
}

/// Why a channel cannot reach a user with any message.
pub(super) fn without_address(user: &Recipient, channel: Channel) -> Option<&'static str> {
    match channel {
        Channel::Email if user.stopped.is_some() => {
            user.stopped.map(|stop| stopped_in_words(stop.reason))
        }
        Channel::Email if user.email().is_none() => Some("no email address"),
        Channel::Sms | Channel::WhatsApp if user.phone().is_none() => Some("no phone number"),
        push if push.is_push() && user.push_tokens().next().is_none() => Some("no push token"),
        _ => None,
    }
}

/// Why no email is sent to an address.
pub fn stopped_in_words(reason: Reason) -> &'static str {
    match reason {
        Reason::Complaint => "a recipient at this address reported an email as spam",
        Reason::Bounce => "an email to this address bounced",
        Reason::Decision => "the address is unsubscribed",
    }
}

/// The outcome of a message whose user is gone.
pub(super) const DELETED: (RowState, &str) =
    (RowState::Failed, "the user was deleted or merged, or the message was deleted");

/// The reason for failed messages to a listed user whose own properties are unknown.
pub(super) const UNKNOWN_ENTRY: &str =
    "the request no longer identifies the user, so the user's properties are unknown";

/// Checks whether a stored message may still be sent to its user, `None` if the user no longer
/// exists. The error is the outcome of a message that may not.
pub(super) fn check_again(
    user: Option<Result<&Recipient, &'static str>>,
    channel: Channel,
    required: SubscriptionState,
) -> Result<(), (RowState, &'static str)> {
    match user {
        None => Err(DELETED),
        Some(Err(why)) => Err((RowState::Failed, why)),
        Some(Ok(user)) if is_subscribed(user, channel, required) => match user.stopped {
            Some(stop) if channel == Channel::Email => {
                Err((RowState::Unreachable, stopped_in_words(stop.reason)))
            }
            _ => Ok(()),
        },
        Some(Ok(_)) => Err((RowState::Unreachable, "the user has unsubscribed")),
    }
}
