//! One message on its way to one user by one channel.

use std::fmt;
use std::time::Duration;

use uuid::Uuid;

use super::content::Rendered;
use gateway::workspaces::Channel;
use gateway::workspaces::settings::Settings;
use kit::smtp::AddressBounce;
use people::users::Recipient;
use people::users::suppressions::Hash;

/// Identifies a message: the same for each attempt, so that the receiver can recognize a repeat. A
/// dispatch sends a user at most one message by a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    pub dispatch_id: Uuid,
    pub service_id: Uuid,
    pub channel: Channel,
}

impl fmt::Display for MessageId {
    /// `<dispatch, 32 hex>.<user, 32 hex>.<channel>`: the id for providers and their reports.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (dispatch, user) = (self.dispatch_id.simple(), self.service_id.simple());
        write!(f, "{dispatch}.{user}.{}", self.channel.name())
    }
}

impl MessageId {
    /// Parses an id in this format.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let id = |part: Option<&str>| Uuid::try_parse(part.filter(|id| id.len() == 32)?).ok();
        let (dispatch_id, service_id) = (id(parts.next())?, id(parts.next())?);
        let channel = Channel::from_name(parts.next()?)?;
        parts.next().is_none().then_some(Self { dispatch_id, service_id, channel })
    }
}

/// A message to send.
#[derive(Clone, Copy)]
pub struct Outgoing<'a> {
    pub workspace_id: i32,
    pub settings: &'a Settings,
    pub id: MessageId,
    pub recipient: &'a Recipient,
    pub rendered: &'a Rendered,
    /// The hash of the user's email address, for the link to unsubscribe.
    pub address: Option<Hash>,
    /// Whether it is sent regardless of subscriptions, and without a link to unsubscribe.
    pub is_transactional: bool,
    pub campaign_id: Option<Uuid>,
    pub send_id: Option<&'a str>,
    /// The request that caused it, for log lines.
    pub request_id: &'a str,
}

/// The outcome of sending a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The channel accepted it.
    Sent,
    /// The user cannot be reached by this channel: no address, an invalid number, no device.
    Unreachable(String),
    /// The channel accepted the address but rejected the message permanently (an SMTP reply 5xx to
    /// the recipient or to the content).
    Bounced {
        reason: String,
        /// Whether the address is the cause, and how.
        address: Option<AddressBounce>,
    },
    /// It cannot be sent, and a retry cannot help.
    Failed(String),
    /// Not accepted this time; retried after `after` at the earliest.
    Later { reason: String, after: Option<Duration> },
    /// The channel may have accepted it, but sent no complete response, or a proxy got none from
    /// it; retried with the same id, after `after` at the earliest.
    NoResponse { reason: String, after: Option<Duration> },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back() {
        for channel in Channel::OF_MESSAGES {
            let id = MessageId { dispatch_id: Uuid::new_v4(), service_id: Uuid::now_v7(), channel };
            assert_eq!(MessageId::parse(&id.to_string()), Some(id));
            assert_eq!(MessageId::parse(&format!("{id}.x")), None);
        }
        for wrong in ["", ".", "a.b.email", &format!("{}.{}.fax", "0".repeat(32), "0".repeat(32))] {
            assert_eq!(MessageId::parse(wrong), None, "{wrong}");
        }
    }
}
