//! What every part of the program gets: settings, connections, and state between requests.
//!
//! A layer that needs more state has an `App` of its own in its `app.rs`: named fields, and the
//! `App` of the layer below, to which it derefs. The program assembles them when it starts.

pub mod declared;
pub mod notices;
pub mod queue;

use std::ops::Deref;
use std::sync::Arc;

use self::notices::HealthWarnings;
use self::queue::StoreQueue;
use crate::config::{Config, ConfigError};
use crate::fairness::SharedMemory;
use crate::outbound::Sender;
use crate::topics;
use kit::clock::Clock;
use kit::compute::Cores;
use kit::retry::Retry;
use kit::secrets::SecretKey;
use log::{Log, LogError};
use objects::{ObjectError, Objects};
use store::pools::ReservedFor;
use store::{Store, StoreError, Tx, claims};

/// Two for each of three statements, and as many for statements that nobody waits for any more.
const CLAIM_CONNECTIONS: u32 = 12;

/// Memory that a part of an export may need. The parts of one workspace leave this much to others:
/// they hold theirs for as long as their storage is slow.
const MAX_PART_BYTES: usize = 48 << 20;

/// The settings, and what is made from them. Cheap to clone: each request has one.
#[derive(Clone)]
pub struct App(Arc<AppState>);

/// The contents of an [`App`].
#[derive(Clone)]
pub struct AppState {
    pub config: Arc<Config>,
    pub store: Store,
    pub log: Log,
    /// The storage where exports without own storage are built.
    pub objects: Objects,
    pub secrets: SecretKey,
    pub clock: Clock,
    pub cores: Cores,
    /// Memory for users' data (`exports.memory_bytes`).
    pub memory: SharedMemory,
    /// The queue of API requests that wait for the store.
    pub request_queue: StoreQueue,
    /// For transactional emails only, so that other work cannot delay them.
    pub transactional: SeparateStore,
    pub transactional_cores: Cores,
    /// For the console only, so that open pages cannot delay requests of the API.
    pub console: SeparateStore,
    /// For the claims of requests with an `Idempotency-Key` only.
    pub claims: SeparateStore,
    /// Conditions that an operator should check.
    pub health_warnings: HealthWarnings,
    /// The client of every request to a URL from outside.
    pub sender: Sender,
}

/// The store with separate connections, and the queue of requests that wait for these.
#[derive(Clone)]
pub struct SeparateStore {
    pub store: Store,
    pub request_queue: StoreQueue,
}

impl SeparateStore {
    fn new(store: Store) -> Self {
        Self { request_queue: StoreQueue::new(store.clone()), store }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    // Not transparent: the command line searches the causes for it.
    #[error("{0}")]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Objects(#[from] ObjectError),
}

impl Retry for OpenError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Config(error) => error.can_retry(),
            Self::Store(error) => error.can_retry(),
            Self::Log(error) => error.can_retry(),
            Self::Objects(error) => error.can_retry(),
        }
    }
}

/// Connects to the store, without checking its schema.
pub async fn connect(config: &Config) -> Result<Store, StoreError> {
    Store::connect(&config.database_url(), config.database.max_connections).await
}

/// Opens the log, without creating topics.
pub async fn open_log(config: &Config) -> Result<Log, LogError> {
    Log::open(&config.log, &config.data, topics::ALL).await
}

impl App {
    /// Opens the store, the log and the objects. Checks no schema and creates no topic.
    pub async fn open(config: Config) -> Result<Self, OpenError> {
        let secrets = config.secret_key()?;
        let store = connect(&config).await?;
        let reserve = |connections, reserved_for| {
            SeparateStore::new(store.reserve(connections, reserved_for))
        };
        let log = open_log(&config).await?;
        let objects = Objects::open(&config.objects_url(), &secrets).await?;
        let memory = SharedMemory::leaving(config.exports.memory_bytes, MAX_PART_BYTES);
        let threads = config.worker.compute_threads;
        Ok(Self(Arc::new(AppState {
            sender: Sender::new(&config),
            transactional: reserve(
                config.database.transactional_connections,
                ReservedFor::Transactional,
            ),
            transactional_cores: Cores::new(threads),
            console: reserve(config.console.connections, ReservedFor::Console),
            claims: reserve(CLAIM_CONNECTIONS, ReservedFor::Claims),
            config: Arc::new(config),
            request_queue: StoreQueue::new(store.clone()),
            store,
            log,
            objects,
            secrets,
            clock: Clock::system(),
            cores: Cores::new(threads),
            memory,
            health_warnings: HealthWarnings::default(),
        })))
    }

    /// The store with each set of its connections, the main one first. With SQLite, some are the
    /// same.
    pub fn stores(&self) -> [&Store; 4] {
        [&self.store, &self.transactional.store, &self.console.store, &self.claims.store]
    }

    /// The same with the resources of transactional emails: separate connections to the store, a
    /// separate queue of requests, and separate processor permits.
    pub fn for_transactional(&self) -> Self {
        let SeparateStore { store, request_queue } = self.transactional.clone();
        let cores = self.transactional_cores.clone();
        Self(Arc::new(AppState { store, request_queue, cores, ..AppState::clone(self) }))
    }

    /// The same with the console's resources: separate connections to the store, and a separate
    /// queue of requests.
    pub fn for_console(&self) -> Self {
        let SeparateStore { store, request_queue } = self.console.clone();
        Self(Arc::new(AppState { store, request_queue, ..AppState::clone(self) }))
    }

    /// Milliseconds since the epoch by the database's clock. All processes share it, so the wrong
    /// clock of a machine changes neither what is stored nor what has expired.
    pub async fn database_now(&self, tx: &mut Tx) -> Result<i64, StoreError> {
        Ok(self.clock.moved(claims::now(tx).await?))
    }

    /// The same with another clock.
    pub fn with_clock(&self, clock: Clock) -> Self {
        Self(Arc::new(AppState { clock, ..AppState::clone(self) }))
    }
}

impl Deref for App {
    type Target = AppState;

    fn deref(&self) -> &AppState {
        &self.0
    }
}
