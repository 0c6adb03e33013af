//! The limits of requests: memory for bodies, and places for requests in progress.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::{ApiError, count_refused};
use crate::app::App;
use runtime::config::Config;
use runtime::fairness::{Holder, Reservation, SLOT_BYTES, SharedMemory};

/// The limits of requests in this process.
pub struct Budgets {
    /// For requests' bodies (`gateway.memory_bytes`).
    pub bodies: SharedMemory,
    /// For bodies of unauthenticated senders (`gateway.unauthenticated_bytes`).
    pub unauthenticated: SharedMemory,
    /// Places for requests in progress (`gateway.requests_in_flight`).
    pub requests: Arc<Semaphore>,
    /// The holders of these places: a workspace, or all unauthenticated senders together, may use
    /// as many as it leaves free.
    pub shares: SharedMemory,
    /// Half of these places, for single unauthenticated senders.
    pub unauthenticated_requests: SharedMemory,
}

impl Budgets {
    pub fn new(config: &Config) -> Self {
        let places = config.gateway.requests_in_flight;
        Self {
            bodies: SharedMemory::halves(config.gateway.memory_bytes),
            unauthenticated: SharedMemory::eighths(config.gateway.unauthenticated_memory()),
            requests: Arc::new(Semaphore::new(places)),
            shares: SharedMemory::halves(places * SLOT_BYTES),
            unauthenticated_requests: SharedMemory::eighths(places / 2 * SLOT_BYTES),
        }
    }
}

/// A request's share of its workspace's places, held until it ends: one workspace may use as many
/// as it leaves free.
pub fn place(app: &App, workspace: i32) -> Result<Reservation, ApiError> {
    app.budgets.shares.try_reserve(Holder::Workspace(workspace), SLOT_BYTES).ok_or_else(|| {
        count_refused("busy");
        ApiError::Overloaded
    })
}
