//! Connects to a relay as its URL says.
//!
//! Certificates are always checked, against the system's roots (`SSL_CERT_FILE` overrides them).

use std::time::Duration;

use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use secrecy::ExposeSecret as _;
use tokio::net::TcpStream;
use tokio::sync::OnceCell;

use super::conversation::{SmtpError, Step, within};
use crate::workspaces::relay::{Login, Relay, Tls};

/// Connects to a relay.
pub struct Connector {
    relay: Relay,
    hello: ClientId,
    timeouts: Timeouts,
    /// Created when first needed, because that reads the system's certificates.
    tls: OnceCell<TlsParameters>,
}

/// The time limits of a relay.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    pub connect: Duration,
    pub reply: Duration,
    pub accept: Duration,
}

impl Connector {
    /// `hello` is our name for EHLO.
    pub fn new(relay: Relay, hello: ClientId, timeouts: Timeouts) -> Self {
        Self { relay, hello, timeouts, tls: OnceCell::new() }
    }

    /// Connects and logs in, so that an email can be sent next.
    pub async fn connect(&self) -> Result<AsyncSmtpConnection, SmtpError> {
        let (most, tls) = (self.timeouts.connect, self.relay.tls);
        let connecting = async {
            match tls {
                Tls::Wrapped => self.wrapped().await,
                Tls::Required | Tls::Opportunistic | Tls::None => self.plain().await,
            }
        };
        let mut connection = within(most, Step::Connect, connecting).await?;
        let offered = connection.can_starttls();
        if tls == Tls::Required && !offered {
            let text = match self.relay.login {
                Some(_) => {
                    "the relay does not offer STARTTLS, which is required to send a password"
                }
                None => "the relay does not offer STARTTLS",
            };
            return Err(SmtpError::lost(Step::Tls, text.into()));
        }
        if offered && tls != Tls::None {
            within(most, Step::Tls, async {
                let starting = connection.starttls(self.tls().await?, &self.hello);
                starting.await.map_err(|error| SmtpError::of(Step::Tls, &error))
            })
            .await?;
        }
        self.log_in(&mut connection).await?;
        Ok(connection)
    }

    async fn wrapped(&self) -> Result<AsyncSmtpConnection, SmtpError> {
        let server = (self.relay.host.as_str(), self.relay.port);
        let (most, tls) = (Some(self.timeouts.connect), Some(self.tls().await?));
        AsyncSmtpConnection::connect_tokio1(server, most, &self.hello, tls, None)
            .await
            .map_err(|error| SmtpError::of(Step::Connect, &error))
    }

    async fn plain(&self) -> Result<AsyncSmtpConnection, SmtpError> {
        let stream = self.stream().await;
        let stream = stream.map_err(|error| SmtpError::lost(Step::Connect, error.to_string()))?;
        AsyncSmtpConnection::connect_with_transport(Box::new(stream), &self.hello)
            .await
            .map_err(|error| SmtpError::of(Step::Connect, &error))
    }

    /// A connection with TCP_NODELAY.
    async fn stream(&self) -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect((self.relay.host.as_str(), self.relay.port)).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    async fn tls(&self) -> Result<TlsParameters, SmtpError> {
        let made = self.tls.get_or_try_init(|| async {
            let host = self.relay.host.clone();
            tokio::task::spawn_blocking(move || TlsParameters::builder(host).build_rustls())
                .await
                .map_err(|error| SmtpError::lost(Step::Tls, error.to_string()))?
                .map_err(|error| SmtpError::of(Step::Tls, &error))
        });
        made.await.cloned()
    }

    async fn log_in(&self, connection: &mut AsyncSmtpConnection) -> Result<(), SmtpError> {
        let Some(Login { user, password }) = &self.relay.login else { return Ok(()) };
        let password = password.expose_secret().to_owned();
        let credentials = Credentials::new(user.clone(), password);
        within(self.timeouts.reply, Step::LogIn, async {
            let said = connection.auth(&[Mechanism::Plain, Mechanism::Login], &credentials).await;
            said.map(drop).map_err(|error| SmtpError::of(Step::LogIn, &error))
        })
        .await
    }
}
