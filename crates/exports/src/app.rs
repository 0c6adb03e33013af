//! The state of exports between requests.

use std::sync::Arc;

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

gateway::layer!(gateway);

impl App {
    pub fn new(gateway: gateway::app::App) -> Self {
        let dry_runs = Arc::new(DryRunSlots::new(&gateway.cores));
        Self(Arc::new(State {
            gateway,
            streams: Arc::default(),
            watched: Arc::default(),
            dry_runs,
        }))
    }
}
