//! Pools of connections to relays, each reused for several emails.
//!
//! A relay gets a pool with a limited number of connections for sends, and another with as many for
//! transactional emails, which therefore never wait for other emails (`smtp.connections`). A
//! workspace leaves one of them to others with the same relay. Idle connections are closed after a
//! while. A relay that defers the emails of one connection may accept them on another one, so such
//! a connection is closed too.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::time::{sleep, timeout};

use super::connect::{Connector, Timeouts};
use super::connection::Connection;
use super::conversation::{OutgoingEmail, SmtpError, reset_connection, send_email};
use crate::Outcome;
use gateway::workspaces::relay::Relay;
use kit::moment::Moment;
use runtime::app::queue::current_holder;
use runtime::config::{Config, Smtp};
use runtime::fairness::{Reservation, SLOT_BYTES, SharedMemory};
use runtime::outbound::address::NameLookups;

/// Interval between checks for idle connections.
const CLEANUP_INTERVAL: Duration = Duration::from_secs(1);

/// Time limit of QUIT.
const QUIT_TIMEOUT: Duration = Duration::from_secs(2);

/// This process's pools of connections to relays. Cheap to clone.
#[derive(Clone, Default)]
pub struct RelayPools(Arc<Mutex<State>>);

struct State {
    /// By the relay's address, and whether the pool is for transactional emails.
    pools: HashMap<(String, bool), Arc<RelayPool>>,
    has_cleanup_task: bool,
    /// Shared by all pools.
    lookups: NameLookups,
}

impl Default for State {
    fn default() -> Self {
        let lookups = NameLookups::for_operators();
        Self { pools: HashMap::new(), has_cleanup_task: false, lookups }
    }
}

/// A pool of connections to a relay.
struct RelayPool {
    connector: Result<Connector, String>,
    settings: Smtp,
    timeouts: Timeouts,
    slots: SharedMemory,
    /// The connection used last is at the end, and is reused first.
    idle: Mutex<Vec<PooledConnection>>,
}

/// Allows one email to use a connection to a relay.
pub struct RelayPermit {
    pool: Arc<RelayPool>,
    _slot: Reservation,
}

struct PooledConnection {
    connection: Connection,
    opened: Moment,
    used: Moment,
    /// Whether the relay deferred the last email.
    has_deferred: bool,
}

impl RelayPools {
    /// Sends an email to the relay at an address.
    pub async fn send_email(
        &self,
        address: &SecretString,
        is_transactional: bool,
        config: &Config,
        email: &OutgoingEmail,
    ) -> Outcome {
        match self.reserve(address, is_transactional, config).await {
            Ok(permit) => permit.send_email(email).await,
            Err(outcome) => outcome,
        }
    }

    /// Waits for a connection to the relay at an address, for the [holder](current_holder) of this
    /// work. The error is the outcome of the email if no connection becomes free in time.
    pub async fn reserve(
        &self,
        address: &SecretString,
        is_transactional: bool,
        config: &Config,
    ) -> Result<RelayPermit, Outcome> {
        let pool = self.pool(address.expose_secret(), is_transactional, config);
        let slot = pool.slots.reserve(current_holder(), SLOT_BYTES);
        let Ok(slot) = timeout(pool.timeouts.reply, slot).await else {
            return Err(later("all connections to the relay are in use".into()));
        };
        Ok(RelayPermit { pool, _slot: slot })
    }

    fn pool(&self, address: &str, is_transactional: bool, config: &Config) -> Arc<RelayPool> {
        let mut state = self.0.lock();
        let State { pools, has_cleanup_task, lookups } = &mut *state;
        let pool = pools.entry((address.to_owned(), is_transactional));
        let pool =
            pool.or_insert_with(|| Arc::new(RelayPool::new(address, config, lookups.clone())));
        let pool = pool.clone();
        if !std::mem::replace(has_cleanup_task, true) {
            let pools = self.clone();
            tokio::spawn(async move { pools.close_idle_connections().await });
        }
        pool
    }

    /// Closes idle connections, until none is left.
    async fn close_idle_connections(self) {
        loop {
            sleep(CLEANUP_INTERVAL).await;
            let (expired, none_left) = self.take_expired(Moment::now());
            for pooled in expired {
                tokio::spawn(pooled.close());
            }
            if none_left {
                return;
            }
        }
    }

    /// Removes the connections to close; returns whether none is left.
    fn take_expired(&self, now: Moment) -> (Vec<PooledConnection>, bool) {
        let (mut expired, mut state) = (Vec::new(), self.0.lock());
        state.pools.retain(|_, pool| {
            let mut idle = pool.idle.lock();
            expired.extend(idle.extract_if(.., |pooled| pooled.is_expired(&pool.settings, now)));
            // Pools are only handed out under the lock that is held here.
            !idle.is_empty() || Arc::strong_count(pool) > 1
        });
        state.has_cleanup_task = !state.pools.is_empty();
        (expired, state.pools.is_empty())
    }
}

impl RelayPermit {
    pub async fn send_email(&self, email: &OutgoingEmail) -> Outcome {
        match self.pool.send_email(email).await {
            Ok(()) => Outcome::Sent,
            Err(outcome) => outcome,
        }
    }
}

impl PooledConnection {
    fn is_expired(&self, settings: &Smtp, now: Moment) -> bool {
        let since = |then: Moment| now.duration_since(then).as_secs();
        since(self.used) >= settings.idle_seconds || since(self.opened) >= settings.age_seconds
    }

    async fn close(self) {
        // The connection is closed in any case.
        let _ = timeout(QUIT_TIMEOUT, self.connection.quit()).await;
    }
}

impl RelayPool {
    fn new(address: &str, config: &Config, lookups: NameLookups) -> Self {
        let settings = config.smtp.clone();
        let timeouts = Timeouts {
            connect: Duration::from_secs(settings.connect_seconds),
            reply: Duration::from_secs(settings.timeout_seconds),
            accept: Duration::from_secs(settings.accept_seconds),
        };
        Self {
            connector: Relay::parse(address)
                .map(|relay| Connector::new(relay, config, timeouts, lookups)),
            timeouts,
            slots: SharedMemory::leaving(settings.connections * SLOT_BYTES, SLOT_BYTES),
            idle: Mutex::default(),
            settings,
        }
    }

    async fn send_email(&self, email: &OutgoingEmail) -> Result<(), Outcome> {
        let connector = self.connector.as_ref().map_err(|error| later(error.clone()))?;
        let mut idle = self.take_idle();
        loop {
            let is_reused = idle.is_some();
            let mut pooled = match idle {
                Some(pooled) => pooled,
                None => Box::pin(open(connector)).await?,
            };
            let Err(error) = send_email(&mut pooled.connection, email, self.timeouts).await else {
                pooled.has_deferred = false;
                if pooled.connection.is_usable() {
                    self.put_back(pooled);
                } else {
                    pooled.close().await;
                }
                return Ok(());
            };
            if is_reused && error.may_be_expired_connection() {
                idle = self.take_idle();
            } else if is_reused && error.defers_connection() {
                pooled.close().await;
                // Another idle connection may be deferred as well.
                idle = None;
            } else {
                self.keep_or_close(pooled, &error).await;
                // Then a copy may be the cause.
                let is_unclear = error.is_about_all() && !email.copies.is_empty();
                return Err(match error.into() {
                    Outcome::Bounced { reason, .. } if is_unclear => {
                        Outcome::Bounced { reason, address: None }
                    }
                    outcome => outcome,
                });
            }
        }
    }

    /// Keeps a connection on which an email was not accepted, or closes it.
    async fn keep_or_close(&self, mut pooled: PooledConnection, error: &SmtpError) {
        if !error.allows_reuse() {
            return;
        }
        let was_deferred = std::mem::replace(&mut pooled.has_deferred, error.is_deferral());
        if error.defers_connection() || (was_deferred && pooled.has_deferred) {
            pooled.close().await;
        } else if reset_connection(&mut pooled.connection, self.timeouts).await {
            self.put_back(pooled);
        }
    }

    fn take_idle(&self) -> Option<PooledConnection> {
        let now = Moment::now();
        let mut idle = self.idle.lock();
        while let Some(pooled) = idle.pop() {
            if !pooled.is_expired(&self.settings, now) {
                return Some(pooled);
            }
            tokio::spawn(pooled.close());
        }
        None
    }

    fn put_back(&self, mut pooled: PooledConnection) {
        pooled.used = Moment::now();
        self.idle.lock().push(pooled);
    }
}

fn later(reason: String) -> Outcome {
    Outcome::Later { reason, after: None }
}

async fn open(connector: &Connector) -> Result<PooledConnection, SmtpError> {
    let opened = connector.connect().await;
    let outcome = if opened.is_ok() { "opened" } else { "failed" };
    metrics::counter!("longshore_smtp_connections_total", "outcome" => outcome).increment(1);
    let now = Moment::now();
    opened.map(|connection| PooledConnection {
        connection,
        opened: now,
        used: now,
        has_deferred: false,
    })
}
