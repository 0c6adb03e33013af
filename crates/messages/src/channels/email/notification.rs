//! The emails of notifications (`notify` of the workspace file): plain text, to one address, from
//! the sender of the workspace.

use std::time::{Duration, SystemTime};

use lettre::address::Envelope;
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Message, SinglePart};

use super::compose::{in_one_line, mailbox};
use super::conversation::{Content, OutgoingEmail};
use super::header;
use crate::Outcome;
use crate::app::App;
use deliveries::{EmailSender, NotificationEmail};
use runtime::outbound::Failure;

/// The reply code of a relay that accepted an email.
const ACCEPTED: u16 = 250;

impl EmailSender for App {
    async fn send_email(&self, email: &NotificationEmail<'_>) -> Result<u16, Failure> {
        let written = write(email, self.clock.now_ms()).map_err(Failure::no_response)?;
        // The connections of transactional emails: a large send does not delay a notification.
        let sent = self.relays.send_email(&email.settings.smtp, true, &self.config, &written);
        match sent.await {
            Outcome::Sent => Ok(ACCEPTED),
            Outcome::Later { reason, after } | Outcome::NoResponse { reason, after } => {
                Err(Failure { retry_after: after, ..Failure::no_response(reason) })
            }
            Outcome::Unreachable(reason)
            | Outcome::Bounced { reason, .. }
            | Outcome::Failed(reason) => Err(Failure::no_response(reason)),
        }
    }
}

fn write(email: &NotificationEmail<'_>, now_ms: i64) -> Result<OutgoingEmail, String> {
    let from = email.settings.from.as_deref();
    let from = from.ok_or("the workspace declares no email.from, the sender of notifications")?;
    let from = mailbox(from).map_err(|why| format!("email.from: {why}"))?;
    let to = mailbox(email.to).map_err(|why| format!("notify: {why}"))?;
    let failed = |error: &dyn std::fmt::Display| format!("cannot write the email: {error}");
    let envelope = Envelope::new(Some(from.email.clone()), vec![to.email.clone()])
        .map_err(|error| failed(&error))?;
    let now = Duration::from_millis(u64::try_from(now_ms).unwrap_or_default());
    let name = HeaderName::new_from_ascii_str;
    // Prevents automatic replies, such as those about a holiday (RFC 3834).
    let automatic = HeaderValue::new(name("Auto-Submitted"), "auto-generated".into());
    let written = Message::builder()
        .envelope(envelope)
        .date(SystemTime::UNIX_EPOCH + now)
        .message_id(Some(format!("<{}@{}>", email.id, from.email.domain())))
        .raw_header(header::mailbox("From", &from))
        .raw_header(header::mailbox("To", &to))
        .raw_header(header::text(name("Subject"), &in_one_line(&email.content.subject)))
        .raw_header(automatic)
        .singlepart(SinglePart::plain(email.content.text.clone()))
        .map_err(|error| failed(&error))?;
    let written = String::from_utf8(written.formatted()).map_err(|error| failed(&error))?;
    let content = Content::new(&written);
    Ok(OutgoingEmail { from: from.email, to: to.email, copies: Vec::new(), content })
}

#[cfg(test)]
mod tests {
    use deliveries::EmailContent;
    use gateway::workspaces::settings::Email;

    use super::*;

    fn settings(from: Option<&str>) -> Email {
        Email {
            smtp: "smtp://relay.example".into(),
            from: from.map(str::to_owned),
            status_postback: None,
            events_secret: None,
            bounce_days: 90,
        }
    }

    fn email<'a>(settings: &'a Email, to: &'a str, subject: &str) -> NotificationEmail<'a> {
        let content = EmailContent { subject: subject.into(), text: ".\r\né < é".into() };
        NotificationEmail { settings, to, id: "msg_7".into(), content }
    }

    #[test]
    fn an_attempt_that_is_repeated_writes_the_same_email() {
        let settings = settings(Some("Acme <exports@acme.example>"));
        let written = || write(&email(&settings, "ops@acme.example", "a\r\nBcc: b"), 7).unwrap();
        let text = String::from_utf8(written().content.as_bytes().to_vec()).unwrap();
        assert_eq!(written().content, written().content);
        assert!(text.contains("Message-ID: <msg_7@acme.example>\r\n"), "{text}");
        assert!(text.contains("To: ops@acme.example\r\n"), "{text}");
        assert!(text.contains("Auto-Submitted: auto-generated\r\n"), "{text}");
        assert!(!text.contains("\r\nBcc:") && text.is_ascii(), "{text}");
    }

    #[test]
    fn a_sender_and_an_address_are_required() {
        let (with, without) = (settings(Some("a@acme.example")), settings(None));
        assert!(write(&email(&without, "ops@acme.example", "s"), 7).is_err());
        assert!(write(&email(&with, "ops", "s"), 7).is_err());
    }
}
