//! The state of the gateway between requests, and the [`layer!`](crate::layer!) of the layers
//! above.

use std::sync::Arc;

use crate::idempotency::ClaimBatches;
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
    /// The statements of requests with an `Idempotency-Key`.
    pub(crate) claim_batches: Arc<ClaimBatches>,
    /// The rate limits.
    pub limits: Arc<Limits>,
    pub refused_requests: Arc<RefusedRequests>,
    /// The channel settings of workspaces.
    pub settings: Arc<WorkspaceCache<Settings>>,
    /// The files of the keys that sign workspaces' exports.
    pub allowed_signers: Arc<WorkspaceCache<String>>,
    /// Clients of workspaces' own storages.
    pub(crate) storage_clients: Arc<Clients>,
}

impl App {
    pub fn new(runtime: runtime::app::App) -> Self {
        let capacity = Arc::new(RequestCapacity::new(&runtime.config));
        Self(Arc::new(State {
            keys: Arc::new(Credentials::new(capacity.look_up_slots.clone())),
            known_names: Arc::default(),
            capacity,
            claim_batches: Arc::new(ClaimBatches::new(&runtime.claims.store)),
            limits: Arc::default(),
            refused_requests: Arc::default(),
            settings: Arc::default(),
            allowed_signers: Arc::default(),
            storage_clients: Arc::default(),
            runtime,
        }))
    }
}

crate::layer!(runtime);

/// Connects the `App` and the `State` of a layer to the layer below, whose crate and whose field in
/// `State` have the same name. The app derefs through all layers, moves to another runtime, and, in
/// the layers above the gateway, serves the gateway's extractors.
#[macro_export]
macro_rules! layer {
    (runtime) => {
        impl App {
            /// The same state on another runtime: other resources, another clock.
            pub fn with_runtime(&self, runtime: runtime::app::App) -> Self {
                Self(Arc::new(State { runtime, ..State::clone(self) }))
            }
        }

        $crate::layer!(@deref runtime);
    };
    ($below:ident) => {
        impl App {
            /// The same state on another runtime: other resources, another clock.
            pub fn with_runtime(&self, runtime: runtime::app::App) -> Self {
                let $below = self.$below.with_runtime(runtime);
                Self(Arc::new(State { $below, ..State::clone(self) }))
            }
        }

        $crate::layer!(@deref $below);

        impl axum::extract::FromRef<App> for $crate::app::App {
            fn from_ref(app: &App) -> Self {
                app.gateway.clone()
            }
        }
    };
    (@deref $below:ident) => {
        impl std::ops::Deref for App {
            type Target = State;

            fn deref(&self) -> &State {
                &self.0
            }
        }

        impl std::ops::Deref for State {
            type Target = $below::app::App;

            fn deref(&self) -> &$below::app::App {
                &self.$below
            }
        }
    };
}
