//! The state of sending between messages.

use std::sync::Arc;

use crate::channels::cards::CardWriter;
use crate::channels::email::RelayPools;
use crate::external::catalog::CatalogReads;
use crate::external::content::Fetches;
use gateway::memory::Turns;

/// Requests of this process that count the messages of dispatches at the same time: each holds a
/// connection to the database for up to some seconds. A workspace has half of them.
const COUNTS: usize = 4;

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
    /// The requests that count the messages of dispatches.
    pub count_turns: Arc<Turns>,
    /// The requests whose opt-outs are applied immediately.
    pub opt_out_turns: Arc<Turns>,
}

gateway::layer!(content);

impl App {
    pub fn new(content: content::app::App) -> Self {
        Self(Arc::new(State {
            content,
            relays: Arc::default(),
            cards: Arc::default(),
            fetches: Arc::default(),
            catalog_reads: Arc::default(),
            count_turns: Arc::new(Turns::new(COUNTS)),
            opt_out_turns: Arc::new(Turns::new(OPT_OUTS)),
        }))
    }
}
