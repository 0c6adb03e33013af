//! When each message of a group may start.
//!
//! A message needs a permit for its workspace in the turn of its part, a user who still wants it,
//! and a dispatch that has not ended ([`Guard`]).

use std::sync::Arc;

use tokio::sync::Mutex;

use super::guard::Guard;
use super::state::RowState;
use super::waiting_users::WaitingUsers;
use crate::app::App;
use crate::order::Order;
use gateway::workspaces::Channel;
use people::users::Recipient;
use runtime::fairness::{Holder, Reservation, SLOT_BYTES, SharedMemory};

/// A value for a message; or the outcome of one that can no longer be sent.
type Checked<T> = Result<T, (RowState, &'static str)>;

/// The messages of a group that have not started.
pub(super) struct Starts<'a> {
    app: &'a App,
    order: &'a Order,
    guard: &'a Guard,
    /// Permits for messages in progress.
    sends: &'a SharedMemory,
    /// Held by the message that waits for a permit. The others hold none while it reads users again.
    turn: Mutex<()>,
    users: Mutex<WaitingUsers>,
}

impl<'a> Starts<'a> {
    pub fn new(
        app: &'a App,
        order: &'a Order,
        guard: &'a Guard,
        sends: &'a SharedMemory,
        users: WaitingUsers,
    ) -> Self {
        Self { app, order, guard, sends, turn: Mutex::default(), users: Mutex::new(users) }
    }

    /// Waits for the permit of a message. None when it may no longer start ([`Guard::closed`]).
    pub async fn reserve(
        &self,
        message: usize,
        channel: Channel,
        is_in_progress: bool,
    ) -> Option<Checked<Reservation>> {
        let workspace = Holder::Workspace(self.order.workspace_id);
        let _turn = self.turn.lock().await;
        let permit = tokio::select! {
            biased;
            () = self.guard.closed(is_in_progress) => return None,
            permit = self.sends.reserve(workspace, SLOT_BYTES) => permit,
        };
        let mut users = self.users.lock().await;
        self.refresh(&mut users, message).await;
        Some(self.latest(&users, message, channel).map(|_| permit))
    }

    /// Checks a message just before it is sent: an email may have waited for a connection since it
    /// has a permit. Returns its user if that one was read again. None when no other message may
    /// start.
    pub async fn start(
        &self,
        message: usize,
        channel: Channel,
    ) -> Option<Checked<Option<Arc<Recipient>>>> {
        let mut users = self.users.lock().await;
        while self.guard.allows().await {
            // The guard may have waited for the store.
            if users.is_fresh(message) {
                return Some(self.latest(&users, message, channel));
            }
            self.refresh(&mut users, message).await;
        }
        None
    }

    async fn refresh(&self, users: &mut WaitingUsers, message: usize) {
        users.refresh(self.app, self.order.workspace_id, message, self.guard.halt()).await;
    }

    fn latest(
        &self,
        users: &WaitingUsers,
        message: usize,
        channel: Channel,
    ) -> Checked<Option<Arc<Recipient>>> {
        users.latest(message, channel, self.order.subscription_state)
    }
}
