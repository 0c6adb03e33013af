//! The state of the console between requests.

use std::sync::Arc;

use crate::fleet::FleetReader;
use gateway::app::App as GatewayApp;

/// The domains' apps on connections of the console's own. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<State>);

/// The contents of an [`App`]. It derefs through the layers: messages, content, gateway, runtime.
#[derive(Clone)]
pub struct State {
    pub messages: messages::app::App,
    pub exports: exports::app::App,
    /// The state of the whole fleet, read for all pages together.
    pub fleet: Arc<FleetReader>,
    /// The path below which the console is served, such as `/console`; empty for `/`.
    pub base_path: String,
}

impl App {
    /// The console's app, on a runtime whose store has [connections of the
    /// console's own](runtime::app::App::for_console).
    pub fn new(runtime: runtime::app::App) -> Self {
        let base_path = runtime.config.console_base_path();
        let gateway = GatewayApp::new(runtime);
        let content = content::app::App::new(gateway.clone());
        Self(Arc::new(State {
            messages: messages::app::App::new(content),
            exports: exports::app::App::new(gateway),
            fleet: Arc::default(),
            base_path,
        }))
    }
}

impl std::ops::Deref for App {
    type Target = State;

    fn deref(&self) -> &State {
        &self.0
    }
}

impl std::ops::Deref for State {
    type Target = messages::app::App;

    fn deref(&self) -> &messages::app::App {
        &self.messages
    }
}
