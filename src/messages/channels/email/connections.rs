//! Connections to relays, reused for several emails.
//!
//! A relay gets a limited number for sends, and as many again for transactional emails, which
//! therefore never wait for the others (`smtp.connections`). Idle connections are closed after a
//! while.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lettre::transport::smtp::client::AsyncSmtpConnection;
use lettre::transport::smtp::extension::ClientId;
use parking_lot::Mutex;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use url::Host;

use super::connect::{Connector, Timeouts};
use super::conversation::{Letter, SmtpError, hand_over, start_over};
use crate::config::{Config, Smtp};
use crate::messages::Outcome;
use crate::workspaces::relay::Relay;

/// Between looks for connections that are not used.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long a relay may take to say goodbye.
const GOODBYE: Duration = Duration::from_secs(2);

/// The relays of this process. Cheap to clone.
#[derive(Clone, Default)]
pub struct Relays(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// By address, and whether for transactional emails.
    lanes: HashMap<(String, bool), Arc<Lane>>,
    is_looked_after: bool,
}

/// The connections to a relay.
struct Lane {
    connector: Result<Connector, String>,
    settings: Smtp,
    timeouts: Timeouts,
    places: Semaphore,
    /// The one used last is at the end, and is used next.
    unused: Mutex<Vec<Kept>>,
}

struct Kept {
    connection: AsyncSmtpConnection,
    opened: Instant,
    used: Instant,
}

impl Relays {
    /// Sends an email to the relay at an address.
    pub async fn hand_over(
        &self,
        address: &SecretString,
        is_transactional: bool,
        config: &Config,
        letter: &Letter,
    ) -> Outcome {
        let lane = self.lane(address.expose_secret(), is_transactional, config);
        match lane.hand_over(letter).await {
            Ok(()) => Outcome::Sent,
            Err(outcome) => outcome,
        }
    }

    fn lane(&self, address: &str, is_transactional: bool, config: &Config) -> Arc<Lane> {
        let mut state = self.0.lock();
        let lane = state.lanes.entry((address.to_owned(), is_transactional));
        let lane = lane.or_insert_with(|| Arc::new(Lane::new(address, config))).clone();
        if !std::mem::replace(&mut state.is_looked_after, true) {
            let relays = self.clone();
            tokio::spawn(async move { relays.look_after().await });
        }
        lane
    }

    /// Closes idle connections, until none is left.
    async fn look_after(self) {
        loop {
            sleep(LOOK_EVERY).await;
            let (old, is_all) = self.old(Instant::now());
            for kept in old {
                tokio::spawn(kept.close());
            }
            if is_all {
                return;
            }
        }
    }

    /// Removes the connections to close; returns whether none is left.
    fn old(&self, now: Instant) -> (Vec<Kept>, bool) {
        let (mut old, mut state) = (Vec::new(), self.0.lock());
        state.lanes.retain(|_, lane| {
            let mut unused = lane.unused.lock();
            old.extend(unused.extract_if(.., |kept| kept.is_old(&lane.settings, now)));
            // A lane is only obtained with the lock that is held here.
            !unused.is_empty() || Arc::strong_count(lane) > 1
        });
        state.is_looked_after = !state.lanes.is_empty();
        (old, state.lanes.is_empty())
    }
}

impl Kept {
    fn is_old(&self, settings: &Smtp, now: Instant) -> bool {
        let since = |then: Instant| now.saturating_duration_since(then).as_secs();
        since(self.used) >= settings.idle_seconds || since(self.opened) >= settings.age_seconds
    }

    async fn close(mut self) {
        // The connection ends, whatever the response is.
        let _ = timeout(GOODBYE, self.connection.quit()).await;
    }
}

impl Lane {
    fn new(address: &str, config: &Config) -> Self {
        let settings = config.smtp.clone();
        let timeouts = Timeouts {
            connect: Duration::from_secs(settings.connect_seconds),
            answer: Duration::from_secs(settings.timeout_seconds),
            accept: Duration::from_secs(settings.accept_seconds),
        };
        Self {
            connector: Relay::parse(address)
                .map(|relay| Connector::new(relay, hello(config), timeouts)),
            timeouts,
            places: Semaphore::new(settings.connections),
            unused: Mutex::default(),
            settings,
        }
    }

    async fn hand_over(&self, letter: &Letter) -> Result<(), Outcome> {
        let later = |reason: String| Outcome::Later { reason, after: None };
        let connector = self.connector.as_ref().map_err(|error| later(error.clone()))?;
        // The semaphore is never closed.
        let place = timeout(self.timeouts.answer, self.places.acquire()).await;
        let Ok(Ok(_place)) = place else {
            return Err(later("all connections to the relay are in use".into()));
        };
        loop {
            let unused = self.take_unused();
            let is_used = unused.is_some();
            let mut kept = match unused {
                Some(kept) => kept,
                None => open(connector).await?,
            };
            let handed = hand_over(&mut kept.connection, letter, self.timeouts).await;
            match handed {
                Err(trouble) if is_used && trouble.is_of_a_kept_connection() => {}
                Ok(()) => {
                    self.keep(kept);
                    return Ok(());
                }
                Err(trouble) => {
                    let goes_on = trouble.leaves_connection()
                        && start_over(&mut kept.connection, self.timeouts).await;
                    if goes_on {
                        self.keep(kept);
                    }
                    return Err(trouble.into());
                }
            }
        }
    }

    fn take_unused(&self) -> Option<Kept> {
        let now = Instant::now();
        let mut unused = self.unused.lock();
        while let Some(kept) = unused.pop() {
            if !kept.is_old(&self.settings, now) {
                return Some(kept);
            }
            tokio::spawn(kept.close());
        }
        None
    }

    fn keep(&self, mut kept: Kept) {
        kept.used = Instant::now();
        self.unused.lock().push(kept);
    }
}

async fn open(connector: &Connector) -> Result<Kept, SmtpError> {
    let opened = connector.connect().await;
    let outcome = if opened.is_ok() { "opened" } else { "failed" };
    metrics::counter!("longshore_smtp_connections_total", "outcome" => outcome).increment(1);
    let now = Instant::now();
    opened.map(|connection| Kept { connection, opened: now, used: now })
}

/// The name for EHLO: the API's host name, else that of the machine.
fn hello(config: &Config) -> ClientId {
    let url = config.public_url.as_ref();
    match url.and_then(|url| url.host()) {
        Some(Host::Domain(name)) if name.contains('.') => ClientId::Domain(name.to_owned()),
        Some(Host::Ipv4(address)) => ClientId::Ipv4(address),
        Some(Host::Ipv6(address)) => ClientId::Ipv6(address),
        _ => match ClientId::default() {
            ClientId::Domain(name) if !is_name(&name) => ClientId::Domain("localhost".into()),
            hello => hello,
        },
    }
}

fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    !text.is_empty() && text.bytes().all(plain)
}
