//! The state of exports between requests.

use std::ops::Deref;
use std::sync::Arc;

use axum::extract::FromRef;

use crate::dry_run::DryRunSlots;
use crate::streams::OpenStreams;
use crate::watched::WatchedExports;

/// The app with the state of this layer. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<State>);

/// The contents of an [`App`]. It derefs to the [`gateway::app::App`].
#[derive(Clone)]
pub struct State {
    pub gateway: gateway::app::App,
    pub(crate) streams: Arc<OpenStreams>,
    /// The exports that these streams follow.
    pub(crate) watched: Arc<WatchedExports>,
    pub(crate) dry_runs: Arc<DryRunSlots>,
}

impl App {
    pub fn new(gateway: gateway::app::App) -> Self {
        Self(Arc::new(State {
            gateway,
            streams: Arc::default(),
            watched: Arc::default(),
            dry_runs: Arc::default(),
        }))
    }

    /// The same state on another runtime: other resources, another clock.
    pub fn with_runtime(&self, runtime: runtime::app::App) -> Self {
        let gateway = self.gateway.with_runtime(runtime);
        Self(Arc::new(State { gateway, ..State::clone(self) }))
    }
}

impl Deref for App {
    type Target = State;

    fn deref(&self) -> &State {
        &self.0
    }
}

impl Deref for State {
    type Target = gateway::app::App;

    fn deref(&self) -> &gateway::app::App {
        &self.gateway
    }
}

// What the extractors of the gateway need.
impl FromRef<App> for gateway::app::App {
    fn from_ref(app: &App) -> Self {
        app.gateway.clone()
    }
}
