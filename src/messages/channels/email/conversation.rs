//! What is said to a relay about one email, and what its answers mean.

use std::fmt;
use std::time::Duration;

use lettre::Address;
use lettre::transport::smtp::client::AsyncSmtpConnection;
use lettre::transport::smtp::commands::{Data, Mail, Rcpt, Rset};
use lettre::transport::smtp::extension::{Extension, MailBodyParameter, MailParameter};

use super::connect::Patience;
use crate::messages::Outcome;
use crate::outbound::kept;

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
    /// The relay cannot take the recipient's address.
    Unfit(&'static str),
    /// It cannot take what the message or the workspace has, whoever the recipient is.
    Unsupported(&'static str),
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
            Self::Unfit(_) | Self::Unsupported(_) => false,
        }
    }

    /// Whether another email can be named on the connection, after a RSET.
    pub fn leaves_connection(&self) -> bool {
        match self {
            Self::Answered { step, code, .. } => *step >= Step::From && *code != CLOSING,
            Self::Unfit(_) | Self::Unsupported(_) => true,
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
            Trouble::Unsupported(_) => Self::Failed(reason),
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
            Self::Unfit(text) | Self::Unsupported(text) => f.write_str(text),
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
    let info = Offered { utf8: has(Extension::SmtpUtfEight), mime: has(Extension::EightBitMime) };
    let (needs_utf8, needs_mime) = needed(letter, info)?;
    let utf8 = needs_utf8.then_some(MailParameter::SmtpUtfEight);
    let mime = needs_mime.then_some(MailParameter::Body(MailBodyParameter::EightBitMime));
    Ok(utf8.into_iter().chain(mime).collect())
}

/// What a relay offers of what emails may need.
#[derive(Clone, Copy)]
struct Offered {
    utf8: bool,
    mime: bool,
}

/// Whether an email needs SMTPUTF8, and 8BITMIME. Where the relay lacks what it needs, the
/// recipient is at fault only for an address of their own.
fn needed(letter: &Letter, offered: Offered) -> Result<(bool, bool), Trouble> {
    let is_ascii = |address: &Address| AsRef::<str>::as_ref(address).is_ascii();
    let own = [
        (is_ascii(&letter.from), "from has characters outside ASCII, and the relay lacks SMTPUTF8"),
        (
            letter.copies.iter().all(is_ascii),
            "bcc has characters outside ASCII, and the relay lacks SMTPUTF8",
        ),
    ];
    let is_own = own.iter().find(|(is_ascii, _)| !is_ascii);
    let needs_utf8 = is_own.is_some() || !is_ascii(&letter.to);
    match is_own {
        Some((_, why)) if !offered.utf8 => return Err(Trouble::Unsupported(why)),
        None if needs_utf8 && !offered.utf8 => {
            return Err(Trouble::Unfit(
                "the user's email address has characters outside ASCII, and the relay lacks \
                 SMTPUTF8",
            ));
        }
        _ => {}
    }
    let needs_mime = !letter.content.is_ascii();
    match needs_mime && !offered.mime {
        true => Err(Trouble::Unsupported(
            "the email has characters outside ASCII in its headers, and the relay lacks 8BITMIME",
        )),
        false => Ok((needs_utf8, needs_mime)),
    }
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
    fn the_recipient_is_at_fault_for_an_address_of_their_own_alone() {
        let (plain, foreign) = ("ann@acme.example", "änn@acme.example");
        let letter = |from: &str, to: &str, copy: &str, content: &str| Letter {
            from: from.parse().unwrap(),
            to: to.parse().unwrap(),
            copies: vec![copy.parse().unwrap()],
            content: Content::new(content),
        };
        let none = Offered { utf8: false, mime: false };
        let (utf8, all) = (Offered { utf8: true, ..none }, Offered { utf8: true, mime: true });
        let needs = |letter: Letter, offered| match needed(&letter, offered) {
            Ok(needs) => Ok(needs),
            Err(trouble) => Err(Outcome::from(trouble)),
        };
        let reason = |outcome: Result<_, Outcome>| match outcome {
            Err(Outcome::Failed(why)) => format!("failed: {why}"),
            Err(Outcome::Unreachable(why)) => format!("unreachable: {why}"),
            other => format!("{other:?}"),
        };
        assert_eq!(needs(letter(plain, plain, plain, "a"), none), Ok((false, false)));
        for (letter, begins) in [
            (letter(foreign, plain, plain, "a"), "failed: from "),
            (letter(foreign, foreign, foreign, "a"), "failed: from "),
            (letter(plain, plain, foreign, "a"), "failed: bcc "),
            (letter(plain, foreign, plain, "a"), "unreachable: the user's "),
        ] {
            let without = reason(needs(letter.clone(), none));
            assert!(without.starts_with(begins) && without.contains("SMTPUTF8"), "{without}");
            assert_eq!(needs(letter, utf8), Ok((true, false)));
        }
        for to in [plain, foreign] {
            let without = reason(needs(letter(plain, to, plain, "ä"), utf8));
            assert!(without.starts_with("failed: ") && without.contains("8BITMIME"), "{without}");
            assert_eq!(needs(letter(plain, to, plain, "ä"), all), Ok((to == foreign, true)));
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
        fn nothing_ends_an_email_but_its_end(message in "[.\r\na]{0,40}") {
            let Content(content) = Content::new(&message);
            let (_, rest) = content.split_once("\r\n.\r\n").unwrap();
            prop_assert_eq!(rest, "");
            let without: String = content.split("\r\n").collect();
            prop_assert!(!without.contains(['\r', '\n']));
        }
    }
}
