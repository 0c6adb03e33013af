//! The state of sending between messages.

use std::ops::Deref;
use std::sync::Arc;

use axum::extract::FromRef;

use crate::channels::cards::CardWriter;
use crate::channels::email::RelayPools;
use crate::external::catalog::CatalogReads;
use crate::external::content::Fetches;

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
}

impl App {
    pub fn new(content: content::app::App) -> Self {
        Self(Arc::new(State {
            content,
            relays: Arc::default(),
            cards: Arc::default(),
            fetches: Arc::default(),
            catalog_reads: Arc::default(),
        }))
    }

    /// The same state on another runtime: other resources, another clock.
    pub fn with_runtime(&self, runtime: runtime::app::App) -> Self {
        let content = self.content.with_runtime(runtime);
        Self(Arc::new(State { content, ..State::clone(self) }))
    }
}

impl Deref for App {
    type Target = State;

    fn deref(&self) -> &State {
        &self.0
    }
}

impl Deref for State {
    type Target = content::app::App;

    fn deref(&self) -> &content::app::App {
        &self.content
    }
}

// What the extractors of the gateway need.
impl FromRef<App> for gateway::app::App {
    fn from_ref(app: &App) -> Self {
        app.gateway.clone()
    }
}
