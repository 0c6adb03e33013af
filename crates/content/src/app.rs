//! The state of campaigns and catalogs between requests.

use std::sync::Arc;

use crate::campaigns::ApiCampaigns;
use crate::catalogs::known::Catalogs;
use gateway::memory::Turns;
use runtime::app::declared::WorkspaceCache;

/// Requests of this process that count catalog items or the messages of dispatches at the same
/// time: each holds a connection to the database for up to some seconds. A workspace has half of
/// them.
const COUNTS: usize = 4;

/// The app with the state of this layer. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<State>);

/// The contents of an [`App`]. It derefs to the [`gateway::app::App`].
#[derive(Clone)]
pub struct State {
    pub gateway: gateway::app::App,
    pub catalogs: Arc<WorkspaceCache<Catalogs>>,
    /// The campaigns that requests may use.
    pub api_campaigns: Arc<WorkspaceCache<ApiCampaigns>>,
    /// The requests that count many rows.
    pub count_turns: Arc<Turns>,
}

gateway::layer!(gateway);

impl App {
    pub fn new(gateway: gateway::app::App) -> Self {
        Self(Arc::new(State {
            gateway,
            catalogs: Arc::default(),
            api_campaigns: Arc::default(),
            count_turns: Arc::new(Turns::new(COUNTS)),
        }))
    }
}
