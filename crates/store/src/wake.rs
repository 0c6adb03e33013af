//! Wakes the loops that claim rows of a kind, here and in other processes.
//!
//! A commit wakes the loops of the kinds that it offers ([`Tx::commit`](crate::Tx::commit)). On
//! PostgreSQL it also notifies other processes, after the commit and on a separate connection,
//! because PostgreSQL commits transactions with notifications one after the other. A lost
//! notification costs one poll interval.
//!
//! Behind a pooler in transaction mode, `LISTEN` would stay on a connection of the server that the
//! pooler gives to others, whose work then fails. So it is only sent after a
//! [test](Peers::is_pooled).

use std::collections::{BTreeSet, HashMap};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgListener, PgPoolOptions};
use sqlx::{Connection as _, Error, PgExecutor, Row as _};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::claims::Kind;
use crate::database_clock::DatabaseClock;
use crate::{StoreError, pools};
use kit::retry;

/// The only notification channel of PostgreSQL.
const CHANNEL: &str = "longshore_wake";

/// Interval between two notifications of a process: kinds in between share the next one.
const GATHER: Duration = Duration::from_millis(5);

/// The same after a failed one.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Time limit for PostgreSQL to send a notification, and to deliver it.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Interval between tests whether notifications arrive.
const PROBE_INTERVAL: Duration = Duration::from_secs(30);

/// The payload of a test, instead of a kind.
const PROBE: &str = "";

/// Number of tests for a pooler in transaction mode. While other clients use the pooler, a single
/// test can fail to detect it.
const POOLER_TESTS: usize = 5;

/// Pauses before the listener connects again.
const INITIAL_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// Wakes loops by the kind of their rows. Cheap to clone.
#[derive(Clone, Debug)]
pub struct WakeSignal(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    loops: Mutex<HashMap<&'static str, watch::Sender<()>>>,
    peers: Option<Peers>,
    clock: DatabaseClock,
}

/// The connection to other processes.
#[derive(Debug)]
struct Peers {
    options: PgConnectOptions,
    /// Distinguishes its own notifications from those of other processes.
    sender: String,
    outbox: Mutex<Outbox>,
    /// Used by the only task that sends.
    connection: tokio::sync::Mutex<Option<PgConnection>>,
    /// Set when a notification of this process has come back.
    echo: watch::Sender<()>,
    is_listening: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Outbox {
    kinds: BTreeSet<&'static str>,
    is_sending: bool,
}

impl WakeSignal {
    /// Wakes loops of this process only.
    pub fn local() -> Self {
        Self(Arc::new(Shared {
            loops: Mutex::default(),
            peers: None,
            clock: DatabaseClock::default(),
        }))
    }

    /// Also wakes the loops of other processes on the same database.
    pub(crate) fn postgres(options: PgConnectOptions) -> Self {
        let peers = Peers {
            options: options.application_name(pools::WAKE),
            sender: Uuid::new_v4().simple().to_string(),
            outbox: Mutex::default(),
            connection: tokio::sync::Mutex::default(),
            echo: watch::Sender::new(()),
            is_listening: watch::Sender::new(false),
        };
        Self(Arc::new(Shared {
            loops: Mutex::default(),
            peers: Some(peers),
            clock: DatabaseClock::default(),
        }))
    }

    /// The clock of the database, whose step wakes all who hold leases.
    pub fn clock(&self) -> &DatabaseClock {
        &self.0.clock
    }

    /// Wakes the loops of a kind, because there may be rows for them.
    pub fn wake(&self, kind: Kind) {
        self.wake_here(kind.name());
        self.wake_peers(kind.name());
    }

    /// Changes whenever the loops of a kind are woken.
    pub fn subscribe(&self, kind: Kind) -> watch::Receiver<()> {
        self.0.loops.lock().entry(kind.name()).or_default().subscribe()
    }

    /// Whether an offer of any process wakes the loops here.
    pub fn is_listening(&self) -> bool {
        self.0.peers.as_ref().is_none_or(|peers| *peers.is_listening.borrow())
    }

    /// Changes when the connection that listens to other processes is lost, and when it works; none
    /// if there are no other processes.
    pub fn connection(&self) -> Option<watch::Receiver<bool>> {
        self.0.peers.as_ref().map(|peers| peers.is_listening.subscribe())
    }

    fn wake_here(&self, kind: &str) {
        if let Some(signal) = self.0.loops.lock().get(kind) {
            signal.send_replace(());
        }
    }

    fn wake_peers(&self, kind: &'static str) {
        let Some(peers) = &self.0.peers else { return };
        let mut outbox = peers.outbox.lock();
        outbox.kinds.insert(kind);
        if !std::mem::replace(&mut outbox.is_sending, true) {
            let signal = self.clone();
            tokio::spawn(async move { signal.send().await });
        }
    }

    /// Sends the queued notifications, a few milliseconds apart, until the queue is empty.
    async fn send(self) {
        let Some(peers) = &self.0.peers else { return };
        while let Some(kinds) = peers.take_outbox() {
            let sent = timeout(TIMEOUT, peers.notify(&kinds)).await;
            let pause = match sent.map_err(|_| StoreError::Timeout) {
                Ok(Ok(())) => GATHER,
                Ok(Err(error)) | Err(error) => {
                    tracing::debug!(%error, "cannot notify other processes of new work");
                    AFTER_FAILURE
                }
            };
            sleep(pause).await;
        }
    }

    /// Waits a short time for the queue to be sent; for a process that ends.
    pub async fn flush(&self) {
        let Some(peers) = &self.0.peers else { return };
        let sent = async {
            while peers.outbox.lock().is_sending {
                sleep(GATHER).await;
            }
        };
        let _in_time = timeout(AFTER_FAILURE, sent).await;
        *peers.connection.lock().await = None;
    }

    /// Listens to other processes until `stop`. If notifications do not arrive, retries after
    /// growing pauses.
    pub async fn listen(&self, stop: CancellationToken) {
        let Some(peers) = &self.0.peers else { return };
        let mut failures = 0;
        while !stop.is_cancelled() {
            let error = tokio::select! {
                error = self.listen_once(peers) => error,
                () = stop.cancelled() => break,
            };
            if *peers.is_listening.borrow() {
                failures = 0;
            }
            self.set_listening(peers, false);
            if failures == 0 {
                tracing::warn!(%error, "notifications do not arrive; polling for work more often");
            }
            failures += 1;
            retry::wait(retry::backoff(failures, INITIAL_BACKOFF, MAX_BACKOFF), &stop).await;
        }
    }

    /// Whether notifications arrive, or why they do not: a pooler in transaction mode, for example.
    pub async fn check_notifications(&self) -> Result<(), StoreError> {
        let Some(peers) = &self.0.peers else { return Ok(()) };
        let mut is_listening = peers.is_listening.subscribe();
        tokio::select! {
            error = self.listen_once(peers) => Err(error),
            _works = is_listening.wait_for(|is_listening| *is_listening) => Ok(()),
            () = sleep(TIMEOUT) => Err(StoreError::Timeout),
        }
    }

    /// Returns the error that ended it.
    async fn listen_once(&self, peers: &Peers) -> StoreError {
        let mut listener = match timeout(TIMEOUT, peers.listener()).await {
            Ok(Ok(listener)) => listener,
            Ok(Err(error)) => return error,
            Err(_) => return StoreError::Timeout,
        };
        let receiving = async {
            loop {
                match listener.try_recv().await {
                    Ok(Some(notification)) => self.receive(peers, notification.payload()),
                    Ok(None) => return Error::Io(ErrorKind::UnexpectedEof.into()).into(),
                    Err(error) => return error.into(),
                }
            }
        };
        // It also detects a connection that was cut silently.
        let probing = async {
            loop {
                let mut echo = peers.echo.subscribe();
                self.wake_peers(PROBE);
                // Another notification may arrive before it.
                if timeout(2 * TIMEOUT, echo.changed()).await.is_err() {
                    return StoreError::Timeout;
                }
                self.set_listening(peers, true);
                sleep(PROBE_INTERVAL).await;
            }
        };
        tokio::select! {
            error = receiving => error,
            error = probing => error,
        }
    }

    fn receive(&self, peers: &Peers, payload: &str) {
        match payload.split_once('@') {
            Some((_, sender)) if sender == peers.sender => peers.echo.send_replace(()),
            Some((kind, _)) => self.wake_here(kind),
            None => {}
        }
    }

    /// When the state changes, wakes all loops: they may have missed something, or must poll more
    /// often.
    fn set_listening(&self, peers: &Peers, is_listening: bool) {
        if peers.is_listening.send_replace(is_listening) != is_listening {
            self.0.loops.lock().values().for_each(|signal| signal.send_replace(()));
        }
    }
}

impl Peers {
    /// None if the queue is empty: the next sender must start the task.
    fn take_outbox(&self) -> Option<Vec<&'static str>> {
        let mut outbox = self.outbox.lock();
        outbox.is_sending = !outbox.kinds.is_empty();
        outbox.is_sending.then(|| std::mem::take(&mut outbox.kinds).into_iter().collect())
    }

    async fn notify(&self, kinds: &[&'static str]) -> Result<(), StoreError> {
        let mut idle = self.connection.lock().await;
        if let Some(mut connection) = idle.take()
            && self.notify_on(&mut connection, kinds).await.is_ok()
        {
            *idle = Some(connection);
            return Ok(());
        }
        let mut connection = PgConnection::connect_with(&self.options).await?;
        self.notify_on(&mut connection, kinds).await?;
        *idle = Some(connection);
        Ok(())
    }

    async fn notify_on(&self, connection: &mut PgConnection, kinds: &[&str]) -> Result<(), Error> {
        sqlx::query("SELECT pg_notify($1, kind || '@' || $2) FROM unnest($3::text[]) AS kind")
            .bind(CHANNEL)
            .bind(&self.sender)
            .bind(kinds)
            .execute(connection)
            .await?;
        Ok(())
    }

    /// Uses new connections, because the last ones may hang.
    async fn listener(&self) -> Result<PgListener, StoreError> {
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .max_lifetime(None)
            .idle_timeout(None)
            .connect_lazy_with(self.options.clone());
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.eager_reconnect(false);
        if self.is_pooled(&mut listener).await? {
            return Err(StoreError::Pooled);
        }
        listener.listen(CHANNEL).await?;
        Ok(listener)
    }

    /// Whether a pooler gives the listener's connection of the server to other clients between two
    /// statements, or another one to the listener.
    async fn is_pooled(&self, listener: &mut PgListener) -> Result<bool, Error> {
        let mut idle = self.connection.lock().await;
        *idle = None;
        let mut blocker = PgConnection::connect_with(&self.options).await?;
        for _ in 0..POOLER_TESTS {
            let before = backend(&mut *listener).await?;
            // It keeps a connection until its transaction ends.
            sqlx::raw_sql("BEGIN").execute(&mut blocker).await?;
            if backend(&mut blocker).await? == before || backend(&mut *listener).await? != before {
                return Ok(true);
            }
            sqlx::raw_sql("ROLLBACK").execute(&mut blocker).await?;
        }
        *idle = Some(blocker);
        Ok(false)
    }
}

/// The server's process behind a connection. Not a prepared statement, which poolers may reject.
async fn backend(connection: impl PgExecutor<'_>) -> Result<i32, Error> {
    sqlx::raw_sql("SELECT pg_backend_pid()").fetch_one(connection).await?.try_get(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPORTS: Kind = Kind::new("exports");
    const SENDS: Kind = Kind::new("sends");

    #[test]
    fn wakes_the_loops_of_one_kind() {
        let signal = WakeSignal::local();
        let (mut exports, sends) = (signal.subscribe(EXPORTS), signal.subscribe(SENDS));
        let same = signal.subscribe(EXPORTS);
        signal.wake(EXPORTS);
        let are_woken = [&exports, &same, &sends].map(|signal| signal.has_changed().unwrap());
        assert_eq!(are_woken, [true, true, false]);
        exports.mark_unchanged();
        assert!(!exports.has_changed().unwrap());
        assert!(signal.is_listening());
    }

    #[tokio::test]
    async fn a_notification_wakes_only_its_kind_and_only_in_other_processes() {
        let signal = WakeSignal::postgres(PgConnectOptions::new_without_pgpass());
        let peers = signal.0.peers.as_ref().unwrap();
        let (exports, sends) = (signal.subscribe(EXPORTS), signal.subscribe(SENDS));
        for payload in [format!("exports@{}", peers.sender), "unknown@x".into(), "exports".into()] {
            signal.receive(peers, &payload);
        }
        assert!(!exports.has_changed().unwrap() && !sends.has_changed().unwrap());
        signal.receive(peers, "exports@another process");
        assert!(exports.has_changed().unwrap() && !sends.has_changed().unwrap());
        assert!(!signal.is_listening());
        signal.set_listening(peers, true);
        assert!(signal.is_listening() && sends.has_changed().unwrap());
    }

    #[test]
    fn work_offered_meanwhile_joins_the_next_notification() {
        let signal = WakeSignal::postgres(PgConnectOptions::new_without_pgpass());
        let peers = signal.0.peers.as_ref().unwrap();
        peers.outbox.lock().is_sending = true;
        for kind in [SENDS, EXPORTS, SENDS] {
            signal.wake(kind);
        }
        assert_eq!(peers.take_outbox().unwrap(), ["exports", "sends"]);
        assert_eq!(peers.take_outbox(), None);
        assert!(!peers.outbox.lock().is_sending);
    }
}
