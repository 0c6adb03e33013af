//! The state of the program: the layers' states, assembled.

use std::ops::Deref;
use std::sync::Arc;

use axum::extract::FromRef;

use gateway::memory::Turns;
use kit::clock::Clock;
pub use runtime::app::{OpenError, connect, open_log};
use runtime::config::Config;

/// Retries of dead letters in this process at the same time: each may hold a message of 5 MiB, and
/// what is read of it. One workspace has one of them.
const DEAD_LETTER_RETRIES: usize = 3;

/// Everything that a process has only one of. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<State>);

/// The contents of an [`App`]. It derefs through the layers: sending, messages, content, gateway,
/// runtime.
#[derive(Clone)]
pub struct State {
    // All share the same gateway state.
    pub exports: exports::app::App,
    pub sending: sending::app::App,
    pub scim: scim::app::App,
    /// The requests that retry dead letters.
    pub dead_letter_turns: Arc<Turns>,
}

impl App {
    /// Opens the store, the log and the objects. Checks no schema and creates no topic.
    pub async fn open(config: Config) -> Result<Self, OpenError> {
        let runtime = runtime::app::App::open(config).await?;
        let gateway = gateway::app::App::new(runtime);
        let content = content::app::App::new(gateway.clone());
        let messages = messages::app::App::new(content);
        Ok(Self(Arc::new(State {
            exports: exports::app::App::new(gateway.clone()),
            sending: sending::app::App::new(messages),
            scim: scim::app::App::new(gateway),
            dead_letter_turns: Arc::new(Turns::new(DEAD_LETTER_RETRIES)),
        })))
    }

    /// The same with another clock.
    pub fn with_clock(&self, clock: Clock) -> Self {
        let runtime = self.runtime.with_clock(clock);
        Self(Arc::new(State {
            exports: self.exports.with_runtime(runtime.clone()),
            sending: self.sending.with_runtime(runtime.clone()),
            scim: self.scim.with_runtime(runtime),
            dead_letter_turns: self.dead_letter_turns.clone(),
        }))
    }
}

impl Deref for App {
    type Target = State;

    fn deref(&self) -> &State {
        &self.0
    }
}

/// Serves the gateway's extractors.
impl FromRef<App> for gateway::app::App {
    fn from_ref(app: &App) -> Self {
        app.gateway.clone()
    }
}

impl Deref for State {
    type Target = sending::app::App;

    fn deref(&self) -> &sending::app::App {
        &self.sending
    }
}
