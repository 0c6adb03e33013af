//! Emails, sent to the workspace's relay by SMTP. The relay signs and paces them.
//!
//! | module | is about |
//! |---|---|
//! | `compose` | the email of a rendered message object |
//! | `notification` | the email of a notification about an export |
//! | `header` | header fields |
//! | `connections` | pools of connections to each relay; sends an email on one of them |
//! | `connect` | opens a connection: TLS, login |
//! | `conversation` | the SMTP conversation about one email, and the outcome of its replies |
//! | `connection` | commands and their replies on one connection |
//!
//! Start with [`send`].

mod compose;
mod connect;
mod connection;
mod connections;
mod conversation;
mod header;
mod notification;

pub(super) use compose::{check_header, check_header_value, recipient};
pub use compose::{check_mailbox, check_mailboxes};
pub use connect::{Connector, Timeouts};
pub use connections::{RelayPermit, RelayPools};
pub use conversation::{SmtpError, Step};

use crate::app::App;
use crate::{MessageId, Outcome, Outgoing};
use gateway::workspaces::Channel;

/// Sends an email to the relay; without a `permit`, waits for a connection.
pub async fn send(app: &App, message: &Outgoing<'_>, permit: Option<&RelayPermit>) -> Outcome {
    let Some(settings) = &message.settings.email else {
        return Outcome::Failed("the workspace declares no email".into());
    };
    let email = match compose::compose(app, message, settings) {
        Ok(email) => email,
        Err(outcome) => return outcome,
    };
    match permit {
        Some(permit) => permit.send_email(&email).await,
        None => {
            let is_transactional = message.is_transactional;
            app.relays.send_email(&settings.smtp, is_transactional, &app.config, &email).await
        }
    }
}

/// The Message-ID without its brackets: the same for each attempt.
fn message_id(id: &MessageId, host: &str) -> String {
    format!("{}.{}@{host}", id.dispatch_id.simple(), id.service_id.simple())
}

/// Parses a message's id, or the Message-ID of its email.
pub fn parse_message_id(text: &str) -> Option<MessageId> {
    let text = text.trim();
    let text = text.strip_prefix('<').and_then(|text| text.strip_suffix('>')).unwrap_or(text);
    let Some((local, _)) = text.split_once('@') else { return MessageId::parse(text) };
    MessageId::parse(&format!("{local}.{}", Channel::Email.name()))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn the_message_id_identifies_an_email() {
        let (dispatch_id, service_id) = (Uuid::now_v7(), Uuid::now_v7());
        let id = MessageId { dispatch_id, service_id, channel: Channel::Email };
        let message_id = message_id(&id, "acme.example");
        for text in [id.to_string(), message_id.clone(), format!(" <{message_id}> ")] {
            assert_eq!(parse_message_id(&text), Some(id), "{text}");
        }
        for other in ["", "<>", "@", "<a@b>", "a.b@c", &message_id[1..]] {
            assert_eq!(parse_message_id(other), None, "{other}");
        }
    }
}
