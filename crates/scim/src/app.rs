//! The state of SCIM between requests.

use std::sync::Arc;

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

gateway::layer!(gateway);

impl App {
    pub fn new(gateway: gateway::app::App) -> Self {
        let tokens = Arc::new(Credentials::new(gateway.capacity.look_up_slots.clone()));
        Self(Arc::new(State { gateway, tokens }))
    }
}
