//! The state of the console between requests.

use std::sync::Arc;

use axum::extract::FromRef;
use futures::future::BoxFuture;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::fleet::FleetReader;
use crate::pages::{ExportLists, NewSecrets, OverviewReads, SendReads, SystemReads};
use crate::routes;
use gateway::ApiError;
use runtime::audit::Entry;

/// Applies dead letters. The program implements it, because only it knows the handlers of all
/// topics.
pub trait RetryDeadLetter: Send + Sync {
    /// Applies a dead letter, and removes it in the same transaction, in a turn of `workspace`. The
    /// transaction also writes `entry`, with the result. One that fails again is a conflict.
    fn retry(
        &self,
        workspace: i32,
        id: Uuid,
        entry: Entry,
    ) -> BoxFuture<'static, Result<(), ApiError>>;
}

/// The domains' apps on connections of the console's own. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<State>);

/// The contents of an [`App`]. It derefs to the [`console_frame::App`].
pub struct State {
    pub console_frame: console_frame::App,
    pub messages: messages::app::App,
    pub exports: exports::app::App,
    /// The state of the whole fleet, read for all pages together.
    pub fleet: FleetReader,
    /// What the overviews of all people read together.
    pub overview: OverviewReads,
    /// What the lists of exports read together.
    pub export_lists: ExportLists,
    /// What the pages about sends read together.
    pub sends: SendReads,
    /// What the pages of the system read together.
    pub system: SystemReads,
    /// The secrets of keys that were just created.
    pub new_secrets: NewSecrets,
    pub dead_letters: Arc<dyn RetryDeadLetter>,
}

gateway::layer!(@deref console_frame);

impl App {
    /// The console's app, on a runtime whose store has [connections of the
    /// console's own](runtime::app::App::for_console).
    pub fn new(runtime: runtime::app::App, dead_letters: Arc<dyn RetryDeadLetter>) -> Self {
        let gateway = gateway::app::App::new(runtime);
        let content = content::app::App::new(gateway.clone());
        Self(Arc::new(State {
            console_frame: console_frame::App::new(gateway.clone()),
            messages: messages::app::App::new(content),
            exports: exports::app::App::new(gateway),
            fleet: FleetReader::default(),
            overview: OverviewReads::default(),
            export_lists: ExportLists::default(),
            sends: SendReads::default(),
            system: SystemReads::default(),
            new_secrets: NewSecrets::default(),
            dead_letters,
        }))
    }

    /// Serves the console until `shutdown`. Then waits for requests in progress, as the API does.
    pub async fn serve(self, listener: TcpListener, shutdown: CancellationToken) {
        console_frame::serve::serve(routes::all(), self, listener, shutdown).await;
    }
}

impl FromRef<App> for console_frame::App {
    fn from_ref(app: &App) -> Self {
        app.console_frame.clone()
    }
}
