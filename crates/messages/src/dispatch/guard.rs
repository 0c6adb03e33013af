//! Checks before each message that its dispatch has not ended meanwhile, and that the turn of its
//! part is not over.
//!
//! A cancelled dispatch wakes the workers that send it ([`kinds::DISPATCH_END`]). Without the
//! signal, a worker notices the end after [`MAX_AGE`], because it sends nothing on an older state.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, watch};
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::rows;
use crate::app::App;
use kit::retry;
use runtime::kinds;
use store::{StoreError, within_timeout};

/// How long a part may start messages, from the first ones on. Then it yields, once the messages in
/// progress have an outcome: its receivers may be slow, and others wait.
const TURN: Duration = Duration::from_secs(30);

/// How long a state that was read allows messages.
const MAX_AGE: Duration = Duration::from_millis(250);

/// Pause after the store could not be read; messages wait meanwhile.
pub(super) const PAUSE: Duration = Duration::from_millis(250);

/// Allows messages of a dispatch while it is running, in the turn of a part. One for each claimed
/// part.
pub(super) struct Guard {
    app: App,
    dispatch: Uuid,
    /// Cancelled when no other message may start: the worker must stop, or the dispatch has ended.
    halt: CancellationToken,
    turn: Turn,
    last: Mutex<LastState>,
}

/// When a dispatch was last read as running.
pub(super) struct LastState {
    read_at: Instant,
    wakes: watch::Receiver<()>,
}

impl LastState {
    /// For a dispatch that is read after this.
    pub fn new(app: &App) -> Self {
        Self { read_at: Instant::now(), wakes: app.store.wake().subscribe(kinds::DISPATCH_END) }
    }
}

/// The turn of a part. It begins with its first messages: rendering them may take long, and each
/// turn must send some.
struct Turn {
    length: Duration,
    /// None before the turn has begun.
    end: OnceLock<Instant>,
}

impl Turn {
    fn new(length: Duration) -> Self {
        Self { length, end: OnceLock::new() }
    }

    /// Begins, unless it has begun.
    fn begin(&self) {
        self.end.get_or_init(|| Instant::now() + self.length);
    }

    fn is_over(&self) -> bool {
        self.end.get().is_some_and(|end| Instant::now() >= *end)
    }

    /// Waits for the end of a turn that has begun.
    async fn over(&self) {
        match self.end.get() {
            Some(end) => sleep_until((*end).into()).await,
            None => std::future::pending().await,
        }
    }
}

impl Guard {
    /// `stop` is cancelled when the worker must stop.
    pub fn new(app: &App, dispatch: Uuid, last: LastState, stop: &CancellationToken) -> Self {
        let (halt, turn) = (stop.child_token(), Turn::new(TURN));
        Self { app: app.clone(), dispatch, halt, turn, last: Mutex::new(last) }
    }

    /// Cancelled when no other message may start.
    pub fn halt(&self) -> &CancellationToken {
        &self.halt
    }

    /// Begins the turn, unless it has begun.
    pub fn begin_turn(&self) {
        self.turn.begin();
    }

    /// Whether the part must yield: messages that have not started wait for its next turn.
    pub fn is_turn_over(&self) -> bool {
        self.turn.is_over()
    }

    /// Waits until a message of a turn that has begun may no longer start. The end of the turn does
    /// not stop one in progress: if it took as long in each turn, it would never be sent.
    pub async fn closed(&self, is_in_progress: bool) {
        tokio::select! {
            () = self.halt.cancelled() => {}
            () = self.turn.over(), if !is_in_progress => {}
        }
    }

    /// Whether a message may start now. Waits while the store cannot be read.
    pub async fn allows(&self) -> bool {
        let mut last = self.last.lock().await;
        while !self.halt.is_cancelled() {
            // The signal's sender belongs to the store.
            let is_woken = last.wakes.has_changed().unwrap_or(true);
            if last.read_at.elapsed() < MAX_AGE && !is_woken {
                return true;
            }
            // Before the read, so that a later end is read again.
            last.wakes.mark_unchanged();
            let began = Instant::now();
            match self.is_running().await {
                Ok(true) => last.read_at = began,
                Ok(false) => self.halt.cancel(),
                Err(error) => {
                    tracing::debug!(%error, "cannot read the state of a dispatch");
                    retry::wait(PAUSE, &self.halt).await;
                }
            }
        }
        false
    }

    async fn is_running(&self) -> Result<bool, StoreError> {
        let (store, dispatch) = (self.app.store.clone(), self.dispatch);
        let reading = async move { rows::is_running(&mut store.snapshot().await?, dispatch).await };
        within_timeout(reading, self.halt.cancelled()).await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_turn_begins_with_its_first_messages() {
        let turn = Turn::new(Duration::ZERO);
        assert!(!turn.is_over(), "the first messages are not rendered yet");
        assert!(turn.over().now_or_never().is_none());
        turn.begin();
        assert!(turn.is_over());
        turn.over().await;
    }

    #[tokio::test]
    async fn later_messages_do_not_extend_a_turn() {
        let turn = Turn::new(TURN);
        turn.begin();
        assert!(!turn.is_over() && turn.over().now_or_never().is_none());
        let end = turn.end.get().copied();
        turn.begin();
        assert_eq!(turn.end.get().copied(), end);
    }
}
