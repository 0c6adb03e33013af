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

/// After this time a part yields, once the messages in progress have an outcome: its receivers may
/// be slow, and others wait.
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
    /// None before the first messages of the turn are sent: rendering them may take long, and each
    /// turn must send some.
    turn_end: OnceLock<Instant>,
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

impl Guard {
    /// `stop` is cancelled when the worker must stop.
    pub fn new(app: &App, dispatch: Uuid, last: LastState, stop: &CancellationToken) -> Self {
        let (halt, turn_end) = (stop.child_token(), OnceLock::new());
        Self { app: app.clone(), dispatch, halt, turn_end, last: Mutex::new(last) }
    }

    /// Cancelled when no other message may start.
    pub fn halt(&self) -> &CancellationToken {
        &self.halt
    }

    /// Begins the turn, unless it has begun.
    pub fn begin_turn(&self) {
        self.turn_end.get_or_init(|| Instant::now() + TURN);
    }

    /// Whether the part must yield: messages that have not started wait for its next turn.
    pub fn is_turn_over(&self) -> bool {
        self.turn_end.get().is_some_and(|end| Instant::now() >= *end)
    }

    /// Waits until a message of a turn that has begun may no longer start. The end of the turn does
    /// not stop one in progress: if it took as long in each turn, it would never be sent.
    pub async fn closed(&self, is_in_progress: bool) {
        let turn_over = async {
            match self.turn_end.get() {
                Some(end) => sleep_until((*end).into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.halt.cancelled() => {}
            () = turn_over, if !is_in_progress => {}
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
