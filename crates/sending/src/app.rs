//! The state of the sending layer.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

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
    /// Schedules that ended before this time were visited by a sweep of this process.
    pub(crate) schedules_swept_to: Arc<AtomicI64>,
}

gateway::layer!(messages);

impl App {
    pub fn new(messages: messages::app::App) -> Self {
        Self(Arc::new(State {
            messages,
            recent_unsubscribes: Arc::default(),
            schedules_swept_to: Arc::default(),
        }))
    }

    /// The same with the resources that are reserved for transactional emails: separate connections
    /// to the store, a separate queue of requests, and separate processor permits.
    pub fn for_transactional(&self) -> Self {
        self.with_runtime(self.runtime.for_transactional())
    }
}
