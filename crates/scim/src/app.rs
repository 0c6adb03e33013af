//! The state of SCIM between requests.

use std::ops::Deref;
use std::sync::Arc;

use axum::extract::FromRef;

use crate::tokens::TokenMatch;
use runtime::credentials::Credentials;

/// The app with the state of this layer. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<State>);

/// The contents of an [`App`]. It derefs to the [`gateway::app::App`].
#[derive(Clone)]
pub struct State {
    pub gateway: gateway::app::App,
    /// SCIM tokens.
    pub tokens: Arc<Credentials<TokenMatch>>,
}

impl App {
    pub fn new(gateway: gateway::app::App) -> Self {
        Self(Arc::new(State { gateway, tokens: Arc::default() }))
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
