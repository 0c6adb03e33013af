//! The context that every part of the program gets.

pub mod declared;
pub mod notices;
pub mod queue;

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use parking_lot::RwLock;

use self::notices::HealthWarnings;
use self::queue::StoreQueue;
use crate::config::{Config, ConfigError};
use crate::topics;
use kit::clock::Clock;
use kit::compute::{Cores, Memory};
use kit::retry::Retry;
use kit::secrets::SecretKey;
use log::{Log, LogError};
use objects::{ObjectError, Objects};
use store::{Store, StoreError};

/// The settings and the connections made from them. Cheap to clone: each request has one.
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
    pub memory: Memory,
    /// The queue of API requests that wait for the store.
    pub request_queue: StoreQueue,
    /// Resources for transactional emails only.
    pub reserved: TransactionalResources,
    /// Conditions that an operator should check.
    pub health_warnings: HealthWarnings,
    singletons: Arc<RwLock<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>>,
}

/// Resources that are reserved, so that other work cannot delay their users.
#[derive(Clone)]
pub struct TransactionalResources {
    pub store: Store,
    pub request_queue: StoreQueue,
    pub cores: Cores,
}

/// A value that a process has only one of, for its lifetime: clients, caches, limits.
pub trait Singleton: Send + Sync + 'static {
    fn from_config(config: &Config) -> Self;
}

impl<T: Default + Send + Sync + 'static> Singleton for T {
    fn from_config(_: &Config) -> Self {
        Self::default()
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
        let reserved =
            store.reserve(&config.database_url(), config.database.transactional_connections)?;
        let log = open_log(&config).await?;
        let objects = Objects::open(&config.objects_url(), &secrets).await?;
        let memory = Memory::new(config.exports.memory_bytes);
        let threads = config.worker.compute_threads;
        Ok(Self(Arc::new(AppState {
            config: Arc::new(config),
            request_queue: StoreQueue::new(store.clone()),
            reserved: TransactionalResources {
                request_queue: StoreQueue::new(reserved.clone()),
                store: reserved,
                cores: Cores::new(threads),
            },
            store,
            log,
            objects,
            secrets,
            clock: Clock::system(),
            cores: Cores::new(threads),
            memory,
            health_warnings: HealthWarnings::default(),
            singletons: Arc::default(),
        })))
    }

    /// The process's value of a type, created at the first use. So a module that needs state
    /// between requests declares it where it is used, and this layer knows nothing of it.
    pub fn singleton<T: Singleton>(&self) -> Arc<T> {
        let kind = TypeId::of::<T>();
        let known = self.singletons.read().get(&kind).cloned();
        let kept = known.unwrap_or_else(|| {
            let made: Arc<dyn Any + Send + Sync> = Arc::new(T::from_config(&self.config));
            let mut all = self.singletons.write();
            // If two threads create one, the first one stays.
            all.entry(kind).or_insert(made).clone()
        });
        kept.downcast().unwrap_or_else(|_| unreachable!("it is kept under its own type"))
    }

    /// The same with the reserved resources: separate connections to the store, a separate queue of
    /// requests, and separate processor permits.
    pub fn for_transactional(&self) -> Self {
        let TransactionalResources { store, request_queue, cores } = self.reserved.clone();
        Self(Arc::new(AppState { store, request_queue, cores, ..AppState::clone(self) }))
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
