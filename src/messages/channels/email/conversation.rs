//! What is said to a relay about one email, and what its answers mean.

use std::fmt;
use std::time::Duration;

use lettre::Address;
use lettre::transport::smtp::client::AsyncSmtpConnection;
use lettre::transport::smtp::commands::{Data, Mail, Rcpt, Rset};
use lettre::transport::smtp::extension::{Extension, MailBodyParameter, MailParameter};

use super::connect::Patience;
use crate::deliveries::kept;
use crate::messages::Outcome;

/// An email as it is handed over.
#[derive(Clone, Debug)]
pub struct Letter {
    pub from: Address,
    pub to: Address,
    /// Who gets a copy that the recipient does not see.
    pub copies: Vec<Address>,
    pub content: Content,
}

/// What follows DATA, to its last dot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content(String);

impl Content {
    /// Of a message: lines end with CR LF, and none is a dot alone (RFC 5321, 4.5.2).
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
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How far a conversation has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// To the answer to EHLO.
    Connect,
    Tls,
    LogIn,
    From,
    To,
    Data,
    /// The email is with the relay, which has yet to say whether it takes it.
    Accept,
}

impl Step {
    fn in_words(self) -> &'static str {
        match self {
            Self::Connect => "connecting",
            Self::Tls => "STARTTLS",
            Self::LogIn => "AUTH",
            Self::From => "MAIL FROM",
            Self::To => "RCPT TO",
            Self::Data => "DATA",
            Self::Accept => "the email's end",
        }
    }
}

/// Why an email was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The relay said so.
    Answered { step: Step, code: u16, text: String },
    /// There was no answer, or none that could be understood.
    Lost { step: Step, text: String, in_time: bool },
    /// The relay cannot take this address.
    Unfit(&'static str),
}

impl Trouble {
    pub fn lost(step: Step, text: String) -> Self {
        Self::Lost { step, text, in_time: true }
    }

    pub fn of(step: Step, error: &lettre::transport::smtp::Error) -> Self {
        let said = std::error::Error::source(error).map(ToString::to_string);
        match error.status() {
            Some(code) => {
                Self::Answered { step, code: code.into(), text: said.unwrap_or_default() }
            }
            None => Self::lost(step, said.unwrap_or_else(|| error.to_string())),
        }
    }

    /// Whether it shows no more than that a connection was kept for too long: no email was
    /// named on it yet, and another one may do.
    pub fn is_of_a_kept_connection(&self) -> bool {
        match self {
            Self::Answered { step, code, .. } => *step == Step::From && *code == CLOSING,
            Self::Lost { step, in_time, .. } => *step == Step::From && *in_time,
            Self::Unfit(_) => false,
        }
    }

    /// Whether another email can be named on the connection, after a RSET.
    pub fn leaves_connection(&self) -> bool {
        match self {
            Self::Answered { step, code, .. } => *step >= Step::From && *code != CLOSING,
            Self::Unfit(_) => true,
            Self::Lost { .. } => false,
        }
    }
}

/// The relay closes the connection.
const CLOSING: u16 = 421;

/// It wants to know who calls, or does not believe it: nothing that is about one email.
const ABOUT_LOGGING_IN: [u16; 4] = [530, 534, 535, 538];

impl From<Trouble> for Outcome {
    /// What a relay refuses for good once a recipient was named has bounced; what it refuses
    /// about the sender is the message's fault. Everything about the relay itself (that it is
    /// away, its certificate, a password that it does not take) is for its operator to mend
    /// while the message waits. Where the line is lost after the last dot nobody knows whether
    /// the email was taken: it goes again, under the same Message-ID.
    fn from(trouble: Trouble) -> Self {
        let reason = kept(&trouble.to_string());
        match trouble {
            Trouble::Unfit(_) => Self::Unreachable(reason),
            Trouble::Answered { code, .. } if ABOUT_LOGGING_IN.contains(&code) => {
                Self::Later { reason, after: None }
            }
            Trouble::Answered { step, code: 500..=599, .. } if step >= Step::To => {
                Self::Bounced(reason)
            }
            Trouble::Answered { step: Step::From, code: 500..=599, .. } => Self::Failed(reason),
            Trouble::Answered { .. } | Trouble::Lost { .. } => Self::Later { reason, after: None },
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered { step, code, text } => {
                write!(f, "{code} {text} ({})", step.in_words())
            }
            Self::Lost { step, text, .. } => write!(f, "{}: {text}", step.in_words()),
            Self::Unfit(text) => f.write_str(text),
        }
    }
}

/// Does what a step needs, for so long at most.
pub async fn within<T>(
    most: Duration,
    step: Step,
    work: impl Future<Output = Result<T, Trouble>>,
) -> Result<T, Trouble> {
    tokio::time::timeout(most, work).await.unwrap_or_else(|_| {
        let text = format!("no answer within {most:?}");
        Err(Trouble::Lost { step, text, in_time: false })
    })
}

/// Hands an email over; the relay has it once this is answered.
pub async fn hand_over(
    connection: &mut AsyncSmtpConnection,
    letter: &Letter,
    patience: Patience,
) -> Result<(), Trouble> {
    let parameters = parameters(connection, letter)?;
    let mut said = Said { connection, patience };
    said.say(Step::From, Mail::new(Some(letter.from.clone()), parameters)).await?;
    said.say(Step::To, Rcpt::new(letter.to.clone(), Vec::new())).await?;
    for copy in &letter.copies {
        let named = said.say(Step::To, Rcpt::new(copy.clone(), Vec::new())).await;
        match named {
            // The recipient's email does not wait for somebody else's copy.
            Err(Trouble::Answered { code, .. }) if code != CLOSING => {
                tracing::warn!(code, "a copy of an email was refused");
            }
            named => named?,
        }
    }
    said.say(Step::Data, Data).await?;
    said.say(Step::Accept, &letter.content).await
}

/// What must be said of an email beforehand.
fn parameters(
    connection: &AsyncSmtpConnection,
    letter: &Letter,
) -> Result<Vec<MailParameter>, Trouble> {
    let has = |extension| connection.server_info().supports_feature(extension);
    let mut addresses = [&letter.from, &letter.to].into_iter().chain(&letter.copies);
    let mut parameters = Vec::new();
    if addresses.any(|address| !AsRef::<str>::as_ref(address).is_ascii()) {
        if !has(Extension::SmtpUtfEight) {
            return Err(Trouble::Unfit("the relay takes addresses in ASCII only"));
        }
        parameters.push(MailParameter::SmtpUtfEight);
    }
    if !letter.content.is_ascii() {
        if !has(Extension::EightBitMime) {
            return Err(Trouble::Unfit("the relay takes addresses in ASCII only"));
        }
        parameters.push(MailParameter::Body(MailBodyParameter::EightBitMime));
    }
    Ok(parameters)
}

/// Has the relay forget an email that it did not take; whether it goes on.
pub async fn start_over(connection: &mut AsyncSmtpConnection, patience: Patience) -> bool {
    Said { connection, patience }.say(Step::From, Rset).await.is_ok()
}

struct Said<'c> {
    connection: &'c mut AsyncSmtpConnection,
    patience: Patience,
}

impl Said<'_> {
    async fn say(&mut self, step: Step, what: impl fmt::Display) -> Result<(), Trouble> {
        let most = if step == Step::Accept { self.patience.accept } else { self.patience.answer };
        within(most, step, async {
            let answer = self.connection.command(what).await;
            answer.map(drop).map_err(|error| Trouble::of(step, &error))
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn outcome(step: Step, code: u16) -> Outcome {
        Trouble::Answered { step, code, text: "no".into() }.into()
    }

    #[test]
    fn who_is_at_fault_decides() {
        for step in [Step::To, Step::Data, Step::Accept] {
            let reason = format!("550 no ({})", step.in_words());
            assert_eq!(outcome(step, 550), Outcome::Bounced(reason));
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
        let lost = Trouble::lost(Step::Accept, "gone".into());
        assert!(!lost.leaves_connection() && !lost.is_of_a_kept_connection());
        assert!(matches!(Outcome::from(lost), Outcome::Later { .. }));
        assert!(Trouble::lost(Step::From, "gone".into()).is_of_a_kept_connection());
        assert!(!Trouble::lost(Step::To, "gone".into()).is_of_a_kept_connection());
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
        fn nothing_ends_an_email_but_its_end(message in "[.\r\na]{0,40}") {
            let Content(content) = Content::new(&message);
            let (_, rest) = content.split_once("\r\n.\r\n").unwrap();
            prop_assert_eq!(rest, "");
            let without: String = content.split("\r\n").collect();
            prop_assert!(!without.contains(['\r', '\n']));
        }
    }
}
