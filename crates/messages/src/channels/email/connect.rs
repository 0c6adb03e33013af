//! Connects to a relay as its URL says.
//!
//! Certificates are always checked, against the system's roots (`SSL_CERT_FILE` overrides them).

use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use url::Host;

use super::connection::{ByteStream, Connection};
use super::conversation::{SmtpError, Step, within};
use gateway::workspaces::relay::{Relay, Tls};
use runtime::config::Config;
use runtime::outbound::address::NameLookups;

/// Connects to a relay.
pub struct Connector {
    relay: Relay,
    /// The name in EHLO.
    hello: String,
    timeouts: Timeouts,
    lookups: NameLookups,
    /// Created when first needed, because that reads the system's certificates.
    tls: OnceCell<TlsConnector>,
}

/// The time limits of a relay.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    pub connect: Duration,
    pub reply: Duration,
    pub accept: Duration,
}

impl Connector {
    pub fn new(relay: Relay, config: &Config, timeouts: Timeouts, lookups: NameLookups) -> Self {
        Self { relay, hello: hello(config), timeouts, lookups, tls: OnceCell::new() }
    }

    /// Connects and logs in, so that an email can be sent next.
    pub async fn connect(&self) -> Result<Connection, SmtpError> {
        let (limit, tls) = (self.timeouts.connect, self.relay.tls);
        let mut connection = within(limit, Step::Connect, self.open()).await?;
        let offered = !connection.is_encrypted() && connection.extensions().starttls;
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
            connection = within(limit, Step::Tls, self.start_tls(connection)).await?;
        }
        if let Some(login) = &self.relay.login {
            within(self.timeouts.reply, Step::LogIn, connection.log_in(login)).await?;
        }
        Ok(connection)
    }

    async fn open(&self) -> Result<Connection, SmtpError> {
        let stream = self.stream().await;
        let stream = stream.map_err(|error| SmtpError::lost(Step::Connect, error.to_string()))?;
        let (stream, is_encrypted) = match self.relay.tls {
            Tls::Wrapped => (self.encrypt(Step::Connect, stream).await?, true),
            Tls::Required | Tls::Opportunistic | Tls::None => (stream, false),
        };
        Connection::open(stream, is_encrypted, &self.hello).await
    }

    /// A connection with TCP_NODELAY.
    async fn stream(&self) -> std::io::Result<Box<dyn ByteStream>> {
        let addresses = self.lookups.look_up_relay(&self.relay.host, self.relay.port).await?;
        let stream = TcpStream::connect(addresses.as_slice()).await?;
        stream.set_nodelay(true)?;
        Ok(Box::new(stream))
    }

    async fn start_tls(&self, connection: Connection) -> Result<Connection, SmtpError> {
        let stream = connection.ask_for_tls().await.inspect_err(|error| {
            let relay = self.relay.address();
            tracing::warn!(relay, %error, "cannot start TLS with the relay");
        })?;
        let stream = self.encrypt(Step::Tls, stream).await?;
        Connection::open_over_tls(stream, &self.hello).await
    }

    async fn encrypt(
        &self,
        step: Step,
        stream: Box<dyn ByteStream>,
    ) -> Result<Box<dyn ByteStream>, SmtpError> {
        let lost = |error: String| SmtpError::lost(step, error);
        let connector = self.tls.get_or_try_init(|| async {
            let connector = tokio::task::spawn_blocking(tls_connector).await;
            connector.map_err(|error| lost(error.to_string()))?.map_err(lost)
        });
        let name = ServerName::try_from(self.relay.host.clone());
        let name = name.map_err(|error| lost(error.to_string()))?;
        let stream = connector.await?.connect(name, stream).await;
        Ok(Box::new(stream.map_err(|error| lost(error.to_string()))?))
    }
}

fn tls_connector() -> Result<TlsConnector, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let errors: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        return Err(format!(
            "no certificate authorities found on this machine: set SSL_CERT_FILE {}",
            errors.join("; ")
        ));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The name for EHLO: the API's host name, else the machine's.
fn hello(config: &Config) -> String {
    let url = config.public_url.as_ref();
    match url.and_then(|url| url.host()) {
        Some(Host::Domain(name)) if name.contains('.') => name.to_owned(),
        Some(Host::Ipv4(address)) => format!("[{address}]"),
        Some(Host::Ipv6(address)) => format!("[IPv6:{address}]"),
        _ => {
            let machine = rustix::system::uname();
            let name = machine.nodename().to_str().ok().filter(|name| is_name(name));
            name.unwrap_or("localhost").to_owned()
        }
    }
}

fn is_name(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    !text.is_empty() && text.bytes().all(is_allowed)
}
