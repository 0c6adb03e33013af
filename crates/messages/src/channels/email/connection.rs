//! A connection to a relay: commands and their replies, in clear text or over TLS.
//!
//! The relay speaks only when it is asked. Anything that it sends in addition could be taken for
//! the reply to a later command, so it ends the connection.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures::FutureExt as _;
use secrecy::ExposeSecret as _;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};

use super::conversation::{Content, SmtpError, Step};
use gateway::workspaces::relay::Login;
use kit::smtp::reply::{MAX_LINE_BYTES, Reply};

/// What a connection sends and receives through.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

/// The relay sent more than the requested reply.
const UNREQUESTED: &str = "the relay sent a reply that was not requested";

/// The end of a reply is missing, so the beginning of the next one cannot be found.
const UNREAD: &str = "the relay's last reply was not read to its end";

const CLOSED: &str = "the relay closed the connection";

/// A relay does not know EHLO.
const UNKNOWN_COMMAND: [u16; 2] = [500, 502];

pub struct Connection {
    stream: BufReader<Box<dyn ByteStream>>,
    is_encrypted: bool,
    extensions: Extensions,
    /// Whether every reply was read to its end.
    is_usable: bool,
}

/// What a relay offers in its reply to EHLO, as far as it is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extensions {
    pub starttls: bool,
    pub smtputf8: bool,
    pub eight_bit_mime: bool,
    pub auth_plain: bool,
    pub auth_login: bool,
}

impl Extensions {
    fn read(reply: &Reply) -> Self {
        let mut extensions = Self::default();
        for line in &reply.lines {
            let line = line.to_ascii_uppercase();
            // Some old relays write `AUTH=PLAIN`.
            let mut words = line.split([' ', '\t', '=']).filter(|word| !word.is_empty());
            match words.next() {
                Some("STARTTLS") => extensions.starttls = true,
                Some("SMTPUTF8") => extensions.smtputf8 = true,
                Some("8BITMIME") => extensions.eight_bit_mime = true,
                Some("AUTH") => {
                    for mechanism in words {
                        extensions.auth_plain |= mechanism == "PLAIN";
                        extensions.auth_login |= mechanism == "LOGIN";
                    }
                }
                _ => {}
            }
        }
        extensions
    }
}

impl Connection {
    /// Reads the greeting, and sends EHLO with the name `hello`.
    pub async fn open(
        stream: Box<dyn ByteStream>,
        is_encrypted: bool,
        hello: &str,
    ) -> Result<Self, SmtpError> {
        let mut connection = Self::new(stream, is_encrypted);
        let greeting = connection.reply(Step::Connect).await?;
        expect_class(2, Step::Connect, &greeting)?;
        connection.say_hello(Step::Connect, hello).await?;
        Ok(connection)
    }

    fn new(stream: Box<dyn ByteStream>, is_encrypted: bool) -> Self {
        let stream = BufReader::with_capacity(MAX_LINE_BYTES, stream);
        Self { stream, is_encrypted, extensions: Extensions::default(), is_usable: true }
    }

    /// Whether another command can be sent.
    pub fn is_usable(&self) -> bool {
        self.is_usable
    }

    pub fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    pub fn extensions(&self) -> Extensions {
        self.extensions
    }

    /// Asks for TLS; returns the stream on which the handshake begins. An attacker in the network
    /// can have sent what comes before that, so it must not be used inside TLS.
    pub async fn ask_for_tls(mut self) -> Result<Box<dyn ByteStream>, SmtpError> {
        self.command(Step::Tls, "STARTTLS").await?;
        self.expect_silence(Step::Tls)?;
        Ok(self.stream.into_inner())
    }

    /// Sends EHLO again, over TLS: what the relay offered before does not count.
    pub async fn open_over_tls(
        stream: Box<dyn ByteStream>,
        hello: &str,
    ) -> Result<Self, SmtpError> {
        let mut connection = Self::new(stream, true);
        connection.say_hello(Step::Tls, hello).await?;
        Ok(connection)
    }

    async fn say_hello(&mut self, step: Step, hello: &str) -> Result<(), SmtpError> {
        self.extensions = match self.command(step, &format!("EHLO {hello}")).await {
            Ok(reply) => Extensions::read(&reply),
            Err(SmtpError::Rejected { code, .. }) if UNKNOWN_COMMAND.contains(&code) => {
                self.command(step, &format!("HELO {hello}")).await?;
                Extensions::default()
            }
            Err(error) => return Err(error),
        };
        Ok(())
    }

    pub async fn log_in(&mut self, login: &Login) -> Result<(), SmtpError> {
        let Login { user, password } = login;
        let password = password.expose_secret();
        let encoded = |text: &str| BASE64_STANDARD.encode(text);
        if self.extensions.auth_plain {
            let response = encoded(&format!("\0{user}\0{password}"));
            let reply = self.exchange(Step::LogIn, &format!("AUTH PLAIN {response}")).await?;
            return expect_class(2, Step::LogIn, &reply);
        }
        if !self.extensions.auth_login {
            let text = "the relay offers neither AUTH PLAIN nor AUTH LOGIN";
            return Err(SmtpError::lost(Step::LogIn, text.into()));
        }
        // It asks for the user name, then for the password.
        for line in ["AUTH LOGIN", &encoded(user)] {
            let reply = self.exchange(Step::LogIn, line).await?;
            expect_class(3, Step::LogIn, &reply)?;
        }
        self.command(Step::LogIn, &encoded(password)).await.map(drop)
    }

    /// Sends a command that the relay completes with its reply.
    pub async fn command(&mut self, step: Step, command: &str) -> Result<Reply, SmtpError> {
        let reply = self.exchange(step, command).await?;
        expect_class(2, step, &reply)?;
        Ok(reply)
    }

    /// Asks to send an email's content, which must follow.
    pub async fn ask_for_data(&mut self) -> Result<(), SmtpError> {
        let reply = self.exchange(Step::Data, "DATA").await?;
        expect_class(3, Step::Data, &reply)
    }

    /// Sends the content; the relay has accepted the email when this returns.
    pub async fn send_content(&mut self, content: &Content) -> Result<(), SmtpError> {
        // Nothing of the content was sent yet.
        self.expect_silence(Step::Data)?;
        self.write(Step::Accept, content.as_bytes()).await?;
        let reply = self.reply(Step::Accept).await?;
        expect_class(2, Step::Accept, &reply)
    }

    /// Whether the relay responds.
    pub async fn is_alive(&mut self) -> bool {
        self.command(Step::From, "NOOP").await.is_ok()
    }

    pub async fn quit(mut self) {
        // The connection ends in any case.
        let _ = self.command(Step::From, "QUIT").await;
        let _ = self.stream.shutdown().await;
    }

    /// Sends a command; returns the reply if it is no error.
    async fn exchange(&mut self, step: Step, command: &str) -> Result<Reply, SmtpError> {
        self.expect_silence(step)?;
        let is_line = !command.contains(['\r', '\n']);
        debug_assert!(is_line, "a command is one line");
        if !is_line {
            return Err(SmtpError::Unsupported("an address contains a line break"));
        }
        self.write(step, format!("{command}\r\n").as_bytes()).await?;
        self.reply(step).await
    }

    /// Checks what has arrived, without waiting for more.
    fn expect_silence(&mut self, step: Step) -> Result<(), SmtpError> {
        if !self.is_usable {
            return Err(SmtpError::lost(step, UNREAD.into()));
        }
        let why = match self.stream.fill_buf().now_or_never() {
            None => return Ok(()),
            Some(Ok([])) => CLOSED.to_owned(),
            Some(Ok(_)) => UNREQUESTED.to_owned(),
            Some(Err(error)) => error.to_string(),
        };
        Err(SmtpError::lost(step, why))
    }

    async fn write(&mut self, step: Step, bytes: &[u8]) -> Result<(), SmtpError> {
        let written = async {
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        };
        let written: std::io::Result<()> = written.await;
        written.map_err(|error| SmtpError::lost(step, error.to_string()))
    }

    async fn reply(&mut self, step: Step) -> Result<Reply, SmtpError> {
        let reply = Reply::read(&mut self.stream).await;
        let reply = reply.map_err(|error| SmtpError::lost(step, error.to_string()))?;
        self.is_usable &= reply.unread_reason.is_none();
        match (reply.code, &reply.unread_reason) {
            (400.., _) => Err(SmtpError::Rejected { step, code: reply.code, text: reply.text() }),
            // The text of the last reply is not needed: the relay has accepted the email.
            (_, Some(why)) if step != Step::Accept => Err(SmtpError::lost(step, why.clone())),
            _ => Ok(reply),
        }
    }
}

/// A reply of another class than the command can have is not a reply to it.
fn expect_class(digit: u16, step: Step, reply: &Reply) -> Result<(), SmtpError> {
    if reply.is_class(digit) {
        Ok(())
    } else {
        let text = format!("unexpected reply {} {}", reply.code, reply.text());
        Err(SmtpError::lost(step, text.trim_end().to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt as _, DuplexStream, duplex};

    use super::*;

    /// Sends `replies`, one for each line that it reads after the greeting; returns the lines.
    fn relay(replies: &'static [&'static [u8]]) -> (DuplexStream, tokio::task::JoinHandle<String>) {
        let (ours, theirs) = duplex(64 << 10);
        let serving = tokio::spawn(async move {
            let (mut stream, mut heard) = (BufReader::new(theirs), String::new());
            for (index, reply) in replies.iter().enumerate() {
                if index > 0 && stream.read_line(&mut heard).await.unwrap_or_default() == 0 {
                    break;
                }
                if stream.write_all(reply).await.is_err() {
                    break;
                }
            }
            // What comes after the last reply.
            while stream.read_line(&mut heard).await.is_ok_and(|count| count > 0) {}
            heard
        });
        (ours, serving)
    }

    async fn open(stream: DuplexStream) -> Result<Connection, SmtpError> {
        Connection::open(Box::new(stream), false, "me.example").await
    }

    #[tokio::test]
    async fn extensions_are_read_whatever_their_case_and_bytes() {
        let (stream, _) = relay(&[
            b"220\r\n",
            b"250-gr\xfc\xdfe\r\n250-starttls\r\n250-AUTH=LOGIN\r\n250-Auth Plain X\r\n250 8BITMIME\r\n",
        ]);
        let extensions = open(stream).await.unwrap().extensions();
        let expected = Extensions {
            starttls: true,
            smtputf8: false,
            eight_bit_mime: true,
            auth_plain: true,
            auth_login: true,
        };
        assert_eq!(extensions, expected);
    }

    #[tokio::test]
    async fn a_relay_without_ehlo_is_greeted_with_helo() {
        let (stream, heard) = relay(&[b"220 a\r\n", b"502 what?\r\n", b"250 a\r\n"]);
        let connection = open(stream).await.unwrap();
        assert_eq!(connection.extensions(), Extensions::default());
        drop(connection);
        assert_eq!(heard.await.unwrap(), "EHLO me.example\r\nHELO me.example\r\n");
    }

    #[tokio::test]
    async fn nothing_that_was_sent_before_tls_is_used_inside() {
        let (stream, heard) = relay(&[
            b"220 a\r\n",
            b"250-a\r\n250 STARTTLS\r\n",
            b"220 ready\r\n250-a\r\n250 AUTH PLAIN\r\n235 welcome\r\n",
        ]);
        let error = open(stream).await.unwrap().ask_for_tls().await.err().unwrap();
        assert_eq!(error, SmtpError::lost(Step::Tls, UNREQUESTED.into()));
        assert!(heard.await.unwrap().ends_with("STARTTLS\r\n"));
    }

    #[tokio::test]
    async fn an_additional_reply_is_not_taken_for_the_next_one() {
        let (stream, heard) = relay(&[b"220 a\r\n", b"250 a\r\n", b"250 a\r\n250 b\r\n"]);
        let mut connection = open(stream).await.unwrap();
        connection.command(Step::From, "MAIL FROM:<a@b.example>").await.unwrap();
        let error = connection.command(Step::To, "RCPT TO:<a@b.example>").await.unwrap_err();
        assert_eq!(error, SmtpError::lost(Step::To, UNREQUESTED.into()));
        drop(connection);
        assert!(!heard.await.unwrap().contains("RCPT"));
    }

    #[tokio::test]
    async fn an_additional_reply_does_not_decide_about_the_content() {
        let replies: &[&[u8]] = &[b"220 a\r\n", b"250 a\r\n", b"354 go\r\n250 queued\r\n"];
        let (stream, _) = relay(replies);
        let mut connection = open(stream).await.unwrap();
        connection.ask_for_data().await.unwrap();
        let error = connection.expect_silence(Step::Accept).unwrap_err();
        assert_eq!(error, SmtpError::lost(Step::Accept, UNREQUESTED.into()));
    }

    #[tokio::test]
    async fn a_late_reply_is_not_taken_for_the_next_one() {
        let (ours, theirs) = tokio::io::duplex(1_000);
        let mut relay = BufReader::new(theirs);
        relay.write_all(b"220 a\r\n").await.unwrap();
        let opening = tokio::spawn(open(ours));
        relay.read_line(&mut String::new()).await.unwrap();
        relay.write_all(b"250 a\r\n").await.unwrap();
        let mut connection = opening.await.unwrap().unwrap();
        // In another packet than the reply before.
        relay.write_all(b"250 late\r\n").await.unwrap();
        let error = connection.command(Step::From, "MAIL FROM:<a@b.example>").await.unwrap_err();
        assert_eq!(error, SmtpError::lost(Step::From, UNREQUESTED.into()));
    }

    #[tokio::test]
    async fn a_reply_of_another_class_is_not_success() {
        let (stream, _) = relay(&[b"220 a\r\n", b"250 a\r\n", b"354 a\r\n", b"250 a\r\n"]);
        let mut connection = open(stream).await.unwrap();
        let error = connection.command(Step::From, "MAIL FROM:<a@b.example>").await.unwrap_err();
        assert_eq!(error, SmtpError::lost(Step::From, "unexpected reply 354 a".into()));
        let error = connection.ask_for_data().await.unwrap_err();
        assert_eq!(error, SmtpError::lost(Step::Data, "unexpected reply 250 a".into()));
    }

    #[tokio::test]
    async fn the_mechanisms_of_a_login_are_plain_and_login() {
        let login = Login { user: "ann".into(), password: "pass-word".to_owned().into() };
        let (stream, heard) = relay(&[b"220\r\n", b"250 AUTH LOGIN PLAIN\r\n", b"235\r\n"]);
        open(stream).await.unwrap().log_in(&login).await.unwrap();
        assert!(heard.await.unwrap().ends_with("AUTH PLAIN AGFubgBwYXNzLXdvcmQ=\r\n"));
        let (stream, heard) = relay(&[
            b"220\r\n",
            b"250 AUTH LOGIN\r\n",
            b"334 VXNlcm5hbWU6\r\n",
            b"334\r\n",
            b"235 f\xfcr\r\n",
        ]);
        open(stream).await.unwrap().log_in(&login).await.unwrap();
        assert!(heard.await.unwrap().ends_with("AUTH LOGIN\r\nYW5u\r\ncGFzcy13b3Jk\r\n"));
        let (stream, heard) = relay(&[b"220\r\n", b"250 AUTH X\r\n"]);
        let error = open(stream).await.unwrap().log_in(&login).await.unwrap_err();
        assert!(error.to_string().contains("neither AUTH PLAIN nor AUTH LOGIN"), "{error}");
        assert!(!heard.await.unwrap().contains("AUTH"));
    }
}
