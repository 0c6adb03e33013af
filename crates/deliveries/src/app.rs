//! The state of deliveries between requests.

use std::sync::Arc;

use runtime::fairness::{SLOT_BYTES, SharedMemory};

/// The app with the state of this layer. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<State>);

/// The contents of an [`App`]. It derefs to the [`gateway::app::App`].
#[derive(Clone)]
pub struct State {
    pub gateway: gateway::app::App,
    /// The slots for attempts in this process. A workspace gets at most as many as it leaves free,
    /// so that its slow receivers do not stop the others' deliveries.
    pub(crate) slots: SharedMemory,
}

gateway::layer!(gateway);

impl App {
    pub fn new(gateway: gateway::app::App) -> Self {
        let slots = SharedMemory::halves(2 * gateway.config.deliveries.in_flight * SLOT_BYTES);
        Self(Arc::new(State { gateway, slots }))
    }
}
