//! The capacity of a process for requests: memory for bodies, and slots for requests in progress.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::{ApiError, count_refused};
use crate::app::App;
use runtime::config::Config;
use runtime::fairness::{Holder, Reservation, SLOT_BYTES, SharedMemory};

/// The capacity of this process for requests.
pub struct RequestCapacity {
    /// Memory for bodies (`gateway.memory_bytes`).
    pub body_memory: SharedMemory,
    /// Memory for bodies of unauthenticated senders (`gateway.unauthenticated_bytes`).
    pub unauthenticated_body_memory: SharedMemory,
    /// Slots for requests in progress (`gateway.requests_in_flight`).
    pub slots: Arc<Semaphore>,
    /// The holders of these slots: a workspace, or all unauthenticated senders together, may use
    /// as many as it leaves free.
    pub slot_shares: SharedMemory,
    /// Half of these slots, for single unauthenticated senders.
    pub unauthenticated_slots: SharedMemory,
    /// A quarter of these slots, for requests that share the look-up of a new key or token.
    pub look_up_slots: Arc<Semaphore>,
    /// Slots for open event streams, an eighth of the connections (`gateway.connections`).
    pub stream_slots: SharedMemory,
}

impl RequestCapacity {
    pub fn new(config: &Config) -> Self {
        let slots = config.gateway.requests_in_flight;
        Self {
            body_memory: SharedMemory::halves(config.gateway.memory_bytes),
            unauthenticated_body_memory: SharedMemory::eighths(
                config.gateway.unauthenticated_memory(),
            ),
            slots: Arc::new(Semaphore::new(slots)),
            slot_shares: SharedMemory::halves(slots * SLOT_BYTES),
            unauthenticated_slots: SharedMemory::eighths(slots / 2 * SLOT_BYTES),
            look_up_slots: Arc::new(Semaphore::new(slots / 4)),
            stream_slots: SharedMemory::halves(config.gateway.connections / 8 * SLOT_BYTES),
        }
    }
}

/// Reserves one of its workspace's slots for a request, which holds it until it ends. A workspace
/// may use as many slots as it leaves free.
pub fn reserve_slot(app: &App, workspace: i32) -> Result<Reservation, ApiError> {
    reserve(&app.capacity.slot_shares, workspace)
}

/// Reserves one of its workspace's slots for an event stream, which outlives its request's slot.
pub fn reserve_stream(app: &App, workspace: i32) -> Result<Reservation, ApiError> {
    reserve(&app.capacity.stream_slots, workspace)
}

fn reserve(slots: &SharedMemory, workspace: i32) -> Result<Reservation, ApiError> {
    slots.try_reserve(Holder::Workspace(workspace), SLOT_BYTES).ok_or_else(|| {
        count_refused("busy");
        ApiError::Overloaded
    })
}

/// Turns at expensive work. A workspace may have as many as it leaves free: one of three, two of
/// four.
pub struct Turns(SharedMemory);

impl Turns {
    /// How long a request waits for its turn.
    const WAIT: Duration = Duration::from_secs(5);

    pub fn new(count: usize) -> Self {
        Self(SharedMemory::halves(count * SLOT_BYTES))
    }

    /// A turn of the workspace, if one is free.
    pub fn try_take(&self, workspace: i32) -> Option<Reservation> {
        self.0.try_reserve(Holder::Workspace(workspace), SLOT_BYTES)
    }

    /// Waits for a turn of the workspace; 503 if that takes too long.
    pub async fn wait(&self, workspace: i32) -> Result<Reservation, ApiError> {
        let turn = self.0.reserve(Holder::Workspace(workspace), SLOT_BYTES);
        timeout(Self::WAIT, turn).await.map_err(|_| {
            count_refused("turns");
            ApiError::Overloaded
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_leaves_turns_to_others() {
        let turns = Turns::new(3);
        let take = |workspace| turns.try_take(workspace);
        let first = take(1);
        assert!(first.is_some() && take(1).is_none());
        assert!(take(2).is_some(), "others have theirs");
        drop(first);
        assert!(take(1).is_some());
    }
}
