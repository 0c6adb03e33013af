//! The state of sending between messages.

use std::sync::Arc;

use tokio::task::spawn_blocking;

use crate::channels::cards::CardWriter;
use crate::channels::email::RelayPools;
use crate::external::catalog::CatalogReads;
use crate::external::content::Fetches;
use gateway::memory::Turns;
use runtime::fairness::{Holder, Reservation, SLOT_BYTES, SharedMemory};

/// Requests of this process whose opt-outs are applied immediately at the same time: each holds a
/// connection to the database. A workspace has half of them.
const OPT_OUTS: usize = 4;

/// The app with the state of this layer. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<State>);

/// The contents of an [`App`]. It derefs to the [`content::app::App`].
#[derive(Clone)]
pub struct State {
    pub content: content::app::App,
    /// Connections to the relays.
    pub(crate) relays: Arc<RelayPools>,
    /// Content cards that wait to be stored.
    pub(crate) cards: Arc<CardWriter>,
    /// Responses for `connected_content`.
    pub(crate) fetches: Arc<Fetches>,
    /// Items and selections that templates read.
    pub(crate) catalog_reads: Arc<CatalogReads>,
    /// The computations for messages that use a compute thread or wait for one. Each workspace has
    /// at most as many as it has threads, so that few threads wait.
    compute_turns: SharedMemory,
    /// The requests whose opt-outs are applied immediately.
    pub opt_out_turns: Arc<Turns>,
}

gateway::layer!(content);

impl App {
    pub fn new(content: content::app::App) -> Self {
        let compute_turns = SharedMemory::each(content.cores.count() * SLOT_BYTES);
        Self(Arc::new(State {
            content,
            compute_turns,
            relays: Arc::default(),
            cards: Arc::default(),
            fetches: Arc::default(),
            catalog_reads: Arc::default(),
            opt_out_turns: Arc::new(Turns::new(OPT_OUTS)),
        }))
    }

    /// Waits until a computation for messages of this workspace may use or wait for a compute
    /// thread.
    pub(crate) async fn compute_turn(&self, workspace: i32) -> Reservation {
        self.compute_turns.reserve(Holder::Workspace(workspace), SLOT_BYTES).await
    }

    /// Runs a computation for messages of a workspace on a compute thread.
    pub(crate) async fn compute<T: Send + 'static>(
        &self,
        workspace: i32,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let (turn, cores) = (self.compute_turn(workspace).await, self.cores.clone());
        let computing = spawn_blocking(move || {
            // Kept also if nobody waits for the result any more.
            let _turn = turn;
            cores.compute_slice(workspace, work)
        });
        computing.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }
}
