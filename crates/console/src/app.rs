//! The state of the console between requests.

use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::fleet::FleetReader;
use crate::form::FormSlots;
use crate::oidc::provider::Provider;
use crate::pages::{ExportLists, NewSecrets, OverviewReads, SendReads, SystemReads};
use crate::permissions::PermissionTable;
use crate::session;
use gateway::ApiError;
use gateway::app::App as GatewayApp;

/// Applies dead letters. The program implements it, because only it knows the handlers of all topics.
pub trait RetryDeadLetter: Send + Sync {
    /// Applies a dead letter, and removes it in the same transaction, in a turn of `workspace`. One that
    /// fails again is a conflict.
    fn retry(&self, workspace: i32, id: Uuid) -> BoxFuture<'static, Result<(), ApiError>>;
}

/// The domains' apps on connections of the console's own. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<State>);

/// The contents of an [`App`]. It derefs through the layers: messages, content, gateway, runtime.
pub struct State {
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
    /// The forms that are read at the same time.
    pub forms: FormSlots,
    /// The writes of a session's last use at the same time: each has a connection, also while it
    /// waits.
    pub(crate) use_writes: Arc<Semaphore>,
    pub dead_letters: Arc<dyn RetryDeadLetter>,
    /// The rights that permissions of dashboard users grant.
    pub permissions: PermissionTable,
    /// The identity provider, if there is one.
    pub oidc: Option<Provider>,
    /// The path below which the console is served, such as `/console`; empty for `/`.
    pub base_path: String,
}

impl App {
    /// The console's app, on a runtime whose store has [connections of the
    /// console's own](runtime::app::App::for_console).
    pub fn new(runtime: runtime::app::App, dead_letters: Arc<dyn RetryDeadLetter>) -> Self {
        let base_path = runtime.config.console_base_path();
        let permissions = PermissionTable::from_config(&runtime.config);
        let oidc = Provider::from_config(&runtime.config);
        let gateway = GatewayApp::new(runtime);
        let content = content::app::App::new(gateway.clone());
        Self(Arc::new(State {
            messages: messages::app::App::new(content),
            exports: exports::app::App::new(gateway),
            fleet: FleetReader::default(),
            overview: OverviewReads::default(),
            export_lists: ExportLists::default(),
            sends: SendReads::default(),
            system: SystemReads::default(),
            new_secrets: NewSecrets::default(),
            forms: FormSlots::default(),
            use_writes: Arc::new(Semaphore::new(session::USE_WRITES)),
            dead_letters,
            permissions,
            oidc,
            base_path,
        }))
    }
}

impl std::ops::Deref for App {
    type Target = State;

    fn deref(&self) -> &State {
        &self.0
    }
}

impl std::ops::Deref for State {
    type Target = messages::app::App;

    fn deref(&self) -> &messages::app::App {
        &self.messages
    }
}
