//! The state of the sending layer.

use std::ops::Deref;
use std::sync::Arc;

use axum::extract::FromRef;

use crate::inbound::RecentUnsubscribes;

/// The app with the state of this layer. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<State>);

/// The contents of an [`App`]. It derefs to the [`messages::app::App`].
#[derive(Clone)]
pub struct State {
    pub messages: messages::app::App,
    /// Recent uses of unsubscribe links.
    pub(crate) recent_unsubscribes: Arc<RecentUnsubscribes>,
}

impl App {
    pub fn new(messages: messages::app::App) -> Self {
        Self(Arc::new(State { messages, recent_unsubscribes: Arc::default() }))
    }

    /// The same with the resources that are reserved for transactional emails: separate connections
    /// to the store, a separate queue of requests, and separate processor permits.
    pub fn for_transactional(&self) -> Self {
        self.with_runtime(self.runtime.for_transactional())
    }

    /// The same state on another runtime: other resources, another clock.
    pub fn with_runtime(&self, runtime: runtime::app::App) -> Self {
        let messages = self.messages.with_runtime(runtime);
        Self(Arc::new(State { messages, ..State::clone(self) }))
    }
}

impl Deref for App {
    type Target = State;

    fn deref(&self) -> &State {
        &self.0
    }
}

impl Deref for State {
    type Target = messages::app::App;

    fn deref(&self) -> &messages::app::App {
        &self.messages
    }
}

// What the extractors of the gateway need.
impl FromRef<App> for gateway::app::App {
    fn from_ref(app: &App) -> Self {
        app.gateway.clone()
    }
}
