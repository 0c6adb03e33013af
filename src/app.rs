//! What every part of the program is given.

use std::ops::Deref;
use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::config::{Config, ConfigError};
use crate::deliveries::Sender;
use crate::gateway::StoreQueue;
use crate::gateway::limits::Limits;
use crate::gateway::memory::{PLACE, SharedMemory};
use crate::messages::channels::Channels;
use crate::messages::inbound::{Appends, KnownNames};
use crate::telemetry::fleet::Fleet;
use crate::telemetry::notices::Notices;
use crate::{topics, workspaces};
use kit::bell::Bell;
use kit::clock::Clock;
use kit::compute::{Cores, Memory};
use kit::retry::Retry;
use kit::secrets::SecretKey;
use log::{Log, LogError};
use objects::{ObjectError, Objects};
use store::{Store, StoreError};

/// The settings and the connections made from them. Cheap to clone: each call has some.
#[derive(Clone)]
pub struct App(Arc<Parts>);

/// What an [`App`] is of.
#[derive(Clone)]
pub struct Parts {
    pub config: Arc<Config>,
    pub store: Store,
    pub log: Log,
    /// Where exports without own storage are built.
    pub objects: Objects,
    pub secrets: SecretKey,
    /// What callbacks are sent with.
    pub sender: Sender,
    pub clock: Clock,
    pub cores: Cores,
    /// For users' data (`exports.memory_bytes`).
    pub memory: Memory,
    /// For requests' bodies (`gateway.memory_bytes`).
    pub bodies: SharedMemory,
    /// For bodies of senders who have not proved who they are (`gateway.unauthenticated_bytes`).
    pub unproved: SharedMemory,
    /// Places for requests under way (`gateway.requests_in_flight`).
    pub requests: Arc<Semaphore>,
    /// Who has these places: a workspace, or all senders who have not proved who they are, may have
    /// as many as it leaves free.
    pub shares: SharedMemory,
    /// Half of these places, which single senders have who have not proved who they are.
    pub unproved_requests: SharedMemory,
    /// Where calls of the API wait for the store.
    pub calls: StoreQueue,
    /// What only transactional emails use.
    pub reserved: Reserved,
    /// Rung when something was done in this process.
    pub bell: Bell,
    /// What an operator should look at.
    pub notices: Notices,
    /// What is known of the work of the whole fleet.
    pub fleet: Fleet,
    /// What is kept between calls about workspaces.
    pub kept: workspaces::Kept,
    /// What is left of budgets of requests.
    pub limits: Limits,
    /// What is kept between messages.
    pub channels: Channels,
    /// The workspaces that reports came for.
    pub names: Arc<KnownNames>,
    /// Who unsubscribed lately.
    pub unsubscribing: Arc<Appends>,
}

/// What is kept free for what nothing else may delay.
#[derive(Clone)]
pub struct Reserved {
    pub store: Store,
    pub calls: StoreQueue,
    pub cores: Cores,
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    // Not transparent: the command line looks for it among the causes.
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

/// Connects to the store, without looking at its schema.
pub async fn connect(config: &Config) -> Result<Store, StoreError> {
    Store::connect(&config.database_url(), config.database.max_connections).await
}

/// Opens the log, without creating topics.
pub async fn open_log(config: &Config) -> Result<Log, LogError> {
    Log::open(&config.log, &config.data, topics::ALL).await
}

impl App {
    /// Opens the store, the log and the objects. Looks at no schema and creates no topic.
    pub async fn open(config: Config) -> Result<Self, OpenError> {
        let secrets = config.secret_key()?;
        let store = connect(&config).await?;
        let reserved =
            store.reserve(&config.database_url(), config.database.transactional_connections)?;
        let log = open_log(&config).await?;
        let objects = Objects::open(&config.objects_url(), &secrets).await?;
        let sender = Sender::new(&config);
        let memory = Memory::new(config.exports.memory_bytes);
        let bodies = SharedMemory::halves(config.gateway.memory_bytes);
        let unproved = SharedMemory::eighths(config.gateway.unproved_bytes());
        let places = config.gateway.requests_in_flight;
        let requests = Arc::new(Semaphore::new(places));
        let shares = SharedMemory::halves(places * PLACE);
        let unproved_requests = SharedMemory::eighths(places / 2 * PLACE);
        let threads = config.worker.compute_threads;
        Ok(Self(Arc::new(Parts {
            config: Arc::new(config),
            calls: StoreQueue::new(store.clone()),
            reserved: Reserved {
                calls: StoreQueue::new(reserved.clone()),
                store: reserved,
                cores: Cores::new(threads),
            },
            store,
            log,
            objects,
            secrets,
            sender,
            clock: Clock::system(),
            cores: Cores::new(threads),
            memory,
            bodies,
            unproved,
            requests,
            shares,
            unproved_requests,
            bell: Bell::default(),
            notices: Notices::default(),
            fleet: Fleet::default(),
            kept: workspaces::Kept::default(),
            limits: Limits::default(),
            channels: Channels::default(),
            names: Arc::default(),
            unsubscribing: Arc::default(),
        })))
    }

    /// The same for what nothing else may delay: with connections to the store, a queue of calls
    /// and room on the processors that all else leaves alone.
    pub fn urgent(&self) -> Self {
        let Reserved { store, calls, cores } = self.reserved.clone();
        Self(Arc::new(Parts { store, calls, cores, ..Parts::clone(self) }))
    }

    /// The same with another clock.
    pub fn with_clock(&self, clock: Clock) -> Self {
        Self(Arc::new(Parts { clock, ..Parts::clone(self) }))
    }
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}
