//! Checks before each message that its dispatch has not ended meanwhile, that no other worker has
//! its part, and that the turn of the part is not over.
//!
//! A cancelled dispatch wakes the workers that send it ([`kinds::DISPATCH_END`]). Without the
//! signal, a worker notices the end, and another owner of its claim, after [`GUARD_AGE`], because
//! it sends nothing on an older state.

use std::sync::OnceLock;
use std::time::Duration;

use tokio::sync::{Mutex, watch};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::rows;
use crate::app::App;
use kit::moment::Moment;
use kit::retry;
use runtime::kinds;
use store::claims::{Claim, GUARD_AGE};
use store::{StoreError, within_timeout};

/// How long a part may start messages, from the first ones on. Then it yields, once the messages in
/// progress have an outcome: its receivers may be slow, and others wait.
const TURN: Duration = Duration::from_secs(30);

/// Pause after the store could not be read; messages wait meanwhile.
pub(super) const PAUSE: Duration = Duration::from_millis(250);

/// Allows messages of a dispatch while it is running and this worker has the claim of the part, in
/// the turn of the part. One for each claimed part.
pub(super) struct Guard {
    app: App,
    dispatch: Uuid,
    claim: Claim,
    /// Cancelled when no other message may start: the worker must stop, the dispatch has ended, or
    /// another worker has the claim.
    halt: CancellationToken,
    turn: Turn,
    last: Mutex<LastState>,
}

/// When a dispatch was last read as running, and the claim as this worker's.
pub(super) struct LastState {
    read_at: Moment,
    wakes: watch::Receiver<()>,
}

impl LastState {
    /// For a claim whose dispatch is read after this.
    pub fn new(app: &App, claim: &Claim) -> Self {
        Self { read_at: claim.asked_at, wakes: app.store.wake().subscribe(kinds::DISPATCH_END) }
    }
}

/// The turn of a part. It begins with its first messages: rendering them may take long, and each
/// turn must send some.
struct Turn {
    length: Duration,
    /// None before the turn has begun.
    end: OnceLock<Moment>,
}

impl Turn {
    fn new(length: Duration) -> Self {
        Self { length, end: OnceLock::new() }
    }

    /// Begins, unless it has begun.
    fn begin(&self) {
        self.end.get_or_init(|| Moment::now() + self.length);
    }

    fn is_over(&self) -> bool {
        self.end.get().is_some_and(|end| end.remaining().is_zero())
    }

    /// Waits for the end of a turn that has begun.
    async fn over(&self) {
        match self.end.get() {
            // Even a sleep of no time is pending at first, and then a message would start.
            Some(_) if self.is_over() => {}
            Some(end) => sleep(end.remaining()).await,
            None => std::future::pending().await,
        }
    }
}

impl Guard {
    /// `stop` is cancelled when the worker must stop.
    pub fn new(
        app: &App,
        dispatch: Uuid,
        claim: Claim,
        last: LastState,
        stop: &CancellationToken,
    ) -> Self {
        let (halt, turn) = (stop.child_token(), Turn::new(TURN));
        Self { app: app.clone(), dispatch, claim, halt, turn, last: Mutex::new(last) }
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
            if last.read_at.elapsed() < GUARD_AGE && !is_woken {
                return true;
            }
            // Before the read, so that a later end is read again.
            last.wakes.mark_unchanged();
            let began = Moment::now();
            match self.may_send().await {
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

    /// Also compares the clocks: a worker that is busy with messages may not query for work.
    async fn may_send(&self) -> Result<bool, StoreError> {
        let (store, dispatch, claim) = (self.app.store.clone(), self.dispatch, self.claim);
        let reading = async move {
            let mut tx = store.snapshot().await?;
            let asked = Moment::now();
            let (now, may_send) = rows::may_send(&mut tx, dispatch, &claim).await?;
            store.database_clock().compare(now, asked);
            Ok(may_send)
        };
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
