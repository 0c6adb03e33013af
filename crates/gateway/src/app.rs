//! The state of the gateway between requests.

use std::ops::Deref;
use std::sync::Arc;

use crate::deliveries::DeliverySlots;
use crate::limits::Limits;
use crate::memory::RequestCapacity;
use crate::refused::RefusedRequests;
use crate::workspaces::keys::KeyMatch;
use crate::workspaces::known_names::KnownNames;
use crate::workspaces::settings::Settings;
use crate::workspaces::storage::Clients;
use runtime::app::declared::WorkspaceCache;
use runtime::credentials::Credentials;

/// The app with the state of this layer. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<State>);

/// The contents of an [`App`]. It derefs to the [`runtime::app::App`].
#[derive(Clone)]
pub struct State {
    pub runtime: runtime::app::App,
    /// API keys.
    pub keys: Arc<Credentials<KeyMatch>>,
    /// The ids of workspaces, by the names in requests without a key.
    pub known_names: Arc<KnownNames>,
    /// The limits of requests in progress.
    pub capacity: Arc<RequestCapacity>,
    /// The rate limits.
    pub limits: Arc<Limits>,
    pub refused_requests: Arc<RefusedRequests>,
    /// The channel settings of workspaces.
    pub settings: Arc<WorkspaceCache<Settings>>,
    /// The files of the keys that sign workspaces' exports.
    pub allowed_signers: Arc<WorkspaceCache<String>>,
    /// Clients of workspaces' own storages.
    pub(crate) storage_clients: Arc<Clients>,
    pub(crate) delivery_slots: Arc<DeliverySlots>,
}

impl App {
    pub fn new(runtime: runtime::app::App) -> Self {
        Self(Arc::new(State {
            keys: Arc::default(),
            known_names: Arc::default(),
            capacity: Arc::new(RequestCapacity::new(&runtime.config)),
            limits: Arc::default(),
            refused_requests: Arc::default(),
            settings: Arc::default(),
            allowed_signers: Arc::default(),
            storage_clients: Arc::default(),
            delivery_slots: Arc::new(DeliverySlots::new(&runtime.config)),
            runtime,
        }))
    }

    /// The same state on another runtime: other resources, another clock.
    pub fn with_runtime(&self, runtime: runtime::app::App) -> Self {
        Self(Arc::new(State { runtime, ..State::clone(self) }))
    }
}

impl Deref for App {
    type Target = State;

    fn deref(&self) -> &State {
        &self.0
    }
}

impl Deref for State {
    type Target = runtime::app::App;

    fn deref(&self) -> &runtime::app::App {
        &self.runtime
    }
}
