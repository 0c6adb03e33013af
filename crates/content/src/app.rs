//! The state of campaigns and catalogs between requests.

use std::sync::Arc;

use crate::campaigns::ApiCampaigns;
use crate::catalogs::known::Catalogs;
use runtime::app::declared::WorkspaceCache;

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
}

gateway::layer!(gateway);

impl App {
    pub fn new(gateway: gateway::app::App) -> Self {
        Self(Arc::new(State { gateway, catalogs: Arc::default(), api_campaigns: Arc::default() }))
    }
}
