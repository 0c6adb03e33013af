//! The SMTP conversation about one email, and the meaning of its replies.

use std::fmt;
use std::time::Duration;

use lettre::Address;

use super::connect::Timeouts;
use super::connection::{Connection, Extensions};
use crate::Outcome;
use kit::smtp::AddressBounce;
use runtime::outbound::stored_text;

/// An email to send.
#[derive(Clone, Debug)]
pub struct OutgoingEmail {
    pub from: Address,
    pub to: Address,
    /// Addresses that get a blind copy.
    pub copies: Vec<Address>,
    pub content: Content,
}

/// The content after DATA, including the last dot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content(String);

impl Content {
    /// Encodes a message: lines end with CR LF, and no line is a single dot (RFC 5321, 4.5.2).
    pub fn new(message: &str) -> Self {
        let mut content = String::with_capacity(message.len() + message.len() / 64 + 5);
        let message = message.replace("\r\n", "\n");
        let message = message.strip_suffix('\n').unwrap_or(&message);
        for line in message.split(['\n', '\r']) {
            if line.starts_with('.') {
                content.push('.');
            }
            content.push_str(line);
            content.push_str("\r\n");
        }
        content.push_str(".\r\n");
        Self(content)
    }

    pub fn is_ascii(&self) -> bool {
        self.0.is_ascii()
    }

    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// The step of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Connecting, up to the response to EHLO.
    Connect,
    Tls,
    LogIn,
    From,
    To,
    Data,
    /// The relay has received the email, and has not yet accepted it.
    Accept,
}

impl Step {
    fn label(self) -> &'static str {
        match self {
            Self::Connect => "connecting",
            Self::Tls => "STARTTLS",
            Self::LogIn => "AUTH",
            Self::From => "MAIL FROM",
            Self::To => "RCPT TO",
            Self::Data => "DATA",
            Self::Accept => "end of data",
        }
    }
}

/// Why the relay did not accept an email.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SmtpError {
    /// The relay replied with an error.
    Rejected { step: Step, code: u16, text: String },
    /// There was no reply, or an unreadable one.
    Lost { step: Step, text: String, in_time: bool },
    /// The relay does not support the recipient's address.
    UnsupportedAddress(&'static str),
    /// The relay does not support the message or the workspace's setting, for any recipient.
    Unsupported(&'static str),
}

impl SmtpError {
    pub fn lost(step: Step, text: String) -> Self {
        Self::Lost { step, text, in_time: true }
    }

    /// Whether the cause may be only an expired connection: no email was started on it, and a new
    /// connection may work.
    pub fn may_be_expired_connection(&self) -> bool {
        match self {
            Self::Rejected { step, code, .. } => *step == Step::From && *code == CLOSING,
            Self::Lost { step, in_time, .. } => *step == Step::From && *in_time,
            Self::UnsupportedAddress(_) | Self::Unsupported(_) => false,
        }
    }

    /// Whether the relay does not accept the email now, but may accept it later.
    pub fn is_deferral(&self) -> bool {
        match self {
            Self::Rejected { code, .. } => {
                matches!(code, 400..=499) || LOGIN_ERROR_CODES.contains(code)
            }
            Self::Lost { .. } | Self::UnsupportedAddress(_) | Self::Unsupported(_) => false,
        }
    }

    /// Whether the relay defers emails before it knows the recipient. The cause may be only this
    /// connection, such as a limit of emails for each.
    pub fn defers_connection(&self) -> bool {
        let is_sender = matches!(self, Self::Rejected { step: Step::From, .. });
        is_sender && self.is_deferral()
    }

    /// Whether the reply is about all recipients of an email.
    pub fn is_about_all(&self) -> bool {
        matches!(self, Self::Rejected { step, .. } if *step > Step::To)
    }

    /// Whether the connection can be used for another email, after a RSET.
    pub fn allows_reuse(&self) -> bool {
        match self {
            Self::Rejected { step, code, .. } => *step >= Step::From && *code != CLOSING,
            Self::UnsupportedAddress(_) | Self::Unsupported(_) => true,
            Self::Lost { .. } => false,
        }
    }
}

/// The relay closes the connection.
const CLOSING: u16 = 421;

/// The relay requires a login, or rejects it; this does not concern a single email.
const LOGIN_ERROR_CODES: [u16; 4] = [530, 534, 535, 538];

impl From<SmtpError> for Outcome {
    /// A permanent rejection after RCPT TO is a bounce; a rejection of the sender fails the
    /// message. Problems of the relay itself (it is down, its certificate, a rejected password)
    /// must be fixed by its operator while the message waits. If the connection is lost once the
    /// content has begun, it is unknown whether the email was accepted. It is sent again, with the
    /// same Message-ID.
    fn from(error: SmtpError) -> Self {
        let reason = stored_text(&error.to_string());
        match error {
            SmtpError::UnsupportedAddress(_) => Self::Unreachable(reason),
            SmtpError::Unsupported(_) => Self::Failed(reason),
            SmtpError::Rejected { code, .. } if LOGIN_ERROR_CODES.contains(&code) => {
                Self::Later { reason, after: None }
            }
            SmtpError::Rejected { step, code: 500..=599, text } if step >= Step::To => {
                Self::Bounced { reason, address: AddressBounce::from_reply(&text) }
            }
            SmtpError::Rejected { step: Step::From, code: 500..=599, .. } => Self::Failed(reason),
            SmtpError::Lost { step: Step::Accept, .. } => Self::NoResponse { reason, after: None },
            SmtpError::Rejected { .. } | SmtpError::Lost { .. } => {
                Self::Later { reason, after: None }
            }
        }
    }
}

impl fmt::Display for SmtpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected { step, code, text } if text.is_empty() => {
                write!(f, "{code} ({})", step.label())
            }
            Self::Rejected { step, code, text } => {
                write!(f, "{code} {text} ({})", step.label())
            }
            Self::Lost { step, text, .. } => write!(f, "{}: {text}", step.label()),
            Self::UnsupportedAddress(text) | Self::Unsupported(text) => f.write_str(text),
        }
    }
}

/// Runs a step within its time limit.
pub async fn within<T>(
    limit: Duration,
    step: Step,
    work: impl Future<Output = Result<T, SmtpError>>,
) -> Result<T, SmtpError> {
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
        let text = format!("no response within {limit:?}");
        Err(SmtpError::Lost { step, text, in_time: false })
    })
}

/// Sends an email; the relay has accepted it when this returns.
pub async fn send_email(
    connection: &mut Connection,
    email: &OutgoingEmail,
    timeouts: Timeouts,
) -> Result<(), SmtpError> {
    let parameters = parameters(connection, email)?;
    let sender = format!("MAIL FROM:<{}>{parameters}", email.from);
    let Timeouts { reply, accept, .. } = timeouts;
    within(reply, Step::From, connection.command(Step::From, &sender)).await?;
    let recipient = |address: &Address| format!("RCPT TO:<{address}>");
    within(reply, Step::To, connection.command(Step::To, &recipient(&email.to))).await?;
    for copy in &email.copies {
        let command = recipient(copy);
        match within(reply, Step::To, connection.command(Step::To, &command)).await {
            // The recipient's email does not depend on a copy.
            Err(SmtpError::Rejected { code, .. }) if code != CLOSING => {
                tracing::warn!(code, "copy of an email rejected");
            }
            result => drop(result?),
        }
    }
    within(reply, Step::Data, connection.ask_for_data()).await?;
    within(accept, Step::Accept, connection.send_content(&email.content)).await
}

/// The parameters of MAIL FROM.
fn parameters(connection: &Connection, email: &OutgoingEmail) -> Result<String, SmtpError> {
    let (needs_utf8, needs_mime) = required_extensions(email, connection.extensions())?;
    let utf8 = if needs_utf8 { " SMTPUTF8" } else { "" };
    let mime = if needs_mime { " BODY=8BITMIME" } else { "" };
    Ok(format!("{utf8}{mime}"))
}

/// Whether an email needs SMTPUTF8, and whether it needs 8BITMIME. If the relay does not support
/// them, only a recipient's address makes the recipient unreachable; anything else fails the
/// message.
fn required_extensions(
    email: &OutgoingEmail,
    offered: Extensions,
) -> Result<(bool, bool), SmtpError> {
    let is_ascii = |address: &Address| AsRef::<str>::as_ref(address).is_ascii();
    let without_utf8 = if !is_ascii(&email.from) {
        Some(SmtpError::Unsupported(
            "from has characters outside ASCII, but the relay does not support SMTPUTF8",
        ))
    } else if !email.copies.iter().all(is_ascii) {
        Some(SmtpError::Unsupported(
            "bcc has characters outside ASCII, but the relay does not support SMTPUTF8",
        ))
    } else if !is_ascii(&email.to) {
        Some(SmtpError::UnsupportedAddress(
            "the user's email address has characters outside ASCII, but the relay does not \
             support SMTPUTF8",
        ))
    } else {
        None
    };
    let needs_utf8 = without_utf8.is_some();
    if let Some(error) = without_utf8.filter(|_| !offered.smtputf8) {
        return Err(error);
    }
    let needs_mime = !email.content.is_ascii();
    if needs_mime && !offered.eight_bit_mime {
        return Err(SmtpError::Unsupported(
            "the email has characters outside ASCII in its headers, but the relay does not \
             support 8BITMIME",
        ));
    }
    Ok((needs_utf8, needs_mime))
}

/// Makes the relay drop an email that it did not accept; returns whether the connection is usable.
pub async fn reset_connection(connection: &mut Connection, timeouts: Timeouts) -> bool {
    within(timeouts.reply, Step::From, connection.command(Step::From, "RSET")).await.is_ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn outcome(step: Step, code: u16) -> Outcome {
        SmtpError::Rejected { step, code, text: "no".into() }.into()
    }

    #[test]
    fn the_step_and_code_determine_the_outcome() {
        for step in [Step::To, Step::Data, Step::Accept] {
            let reason = format!("550 no ({})", step.label());
            assert_eq!(outcome(step, 550), Outcome::Bounced { reason, address: None });
            assert!(matches!(outcome(step, 451), Outcome::Later { .. }));
        }
        assert!(matches!(outcome(Step::From, 553), Outcome::Failed(_)));
        for (step, code) in [
            (Step::Connect, 554),
            (Step::Tls, 554),
            (Step::LogIn, 535),
            (Step::From, 451),
            (Step::From, 530),
            (Step::To, 530),
        ] {
            assert!(matches!(outcome(step, code), Outcome::Later { .. }), "{step:?} {code}");
        }
        let lost = SmtpError::lost(Step::Accept, "gone".into());
        assert!(!lost.allows_reuse() && !lost.may_be_expired_connection());
        assert!(matches!(Outcome::from(lost), Outcome::NoResponse { .. }));
        let lost = SmtpError::lost(Step::Data, "gone".into());
        assert!(matches!(Outcome::from(lost), Outcome::Later { .. }), "no content was sent");
        let bare = SmtpError::Rejected { step: Step::To, code: 550, text: String::new() };
        let reason = "550 (RCPT TO)".into();
        assert_eq!(Outcome::from(bare), Outcome::Bounced { reason, address: None });
        assert!(SmtpError::lost(Step::From, "gone".into()).may_be_expired_connection());
        assert!(!SmtpError::lost(Step::To, "gone".into()).may_be_expired_connection());
    }

    #[test]
    fn only_the_recipients_own_address_bounces() {
        let (plain, foreign) = ("ann@acme.example", "änn@acme.example");
        let email = |from: &str, to: &str, copy: &str, content: &str| OutgoingEmail {
            from: from.parse().unwrap(),
            to: to.parse().unwrap(),
            copies: vec![copy.parse().unwrap()],
            content: Content::new(content),
        };
        let none = Extensions::default();
        let utf8 = Extensions { smtputf8: true, ..none };
        let all = Extensions { eight_bit_mime: true, ..utf8 };
        let needs = |email: OutgoingEmail, offered| {
            required_extensions(&email, offered).map_err(Outcome::from)
        };
        let reason = |outcome: Result<_, Outcome>| match outcome {
            Err(Outcome::Failed(why)) => format!("failed: {why}"),
            Err(Outcome::Unreachable(why)) => format!("unreachable: {why}"),
            other => format!("{other:?}"),
        };
        assert_eq!(needs(email(plain, plain, plain, "a"), none), Ok((false, false)));
        for (email, begins) in [
            (email(foreign, plain, plain, "a"), "failed: from "),
            (email(foreign, foreign, foreign, "a"), "failed: from "),
            (email(plain, plain, foreign, "a"), "failed: bcc "),
            (email(plain, foreign, plain, "a"), "unreachable: the user's "),
        ] {
            let without = reason(needs(email.clone(), none));
            assert!(without.starts_with(begins) && without.contains("SMTPUTF8"), "{without}");
            assert_eq!(needs(email, utf8), Ok((true, false)));
        }
        for to in [plain, foreign] {
            let without = reason(needs(email(plain, to, plain, "ä"), utf8));
            assert!(without.starts_with("failed: ") && without.contains("8BITMIME"), "{without}");
            assert_eq!(needs(email(plain, to, plain, "ä"), all), Ok((to == foreign, true)));
        }
    }

    #[test]
    fn lines_end_as_they_must() {
        for (message, content) in [
            ("", "\r\n.\r\n"),
            ("a\r\n", "a\r\n.\r\n"),
            ("a\nb\rc", "a\r\nb\r\nc\r\n.\r\n"),
            (".\r\n..a\r\n.", "..\r\n...a\r\n..\r\n.\r\n"),
        ] {
            assert_eq!(Content::new(message).0, content, "{message:?}");
        }
    }

    proptest! {
        #[test]
        fn only_the_terminator_ends_an_email(message in "[.\r\na]{0,40}") {
            let Content(content) = Content::new(&message);
            let (_, rest) = content.split_once("\r\n.\r\n").unwrap();
            prop_assert_eq!(rest, "");
            let without: String = content.split("\r\n").collect();
            prop_assert!(!without.contains(['\r', '\n']));
        }
    }
}
