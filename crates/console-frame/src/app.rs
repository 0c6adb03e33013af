//! The state of the console that every request needs.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::form::FormSlots;
use crate::oidc::provider::Provider;
use crate::permissions::PermissionTable;
use crate::session;
use crate::shared::Shared;
use gateway::workspaces;
use store::StoreError;

/// The state for sign-in and for every page. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<State>);

/// The contents of an [`App`]. It derefs to the [`gateway::app::App`].
pub struct State {
    pub gateway: gateway::app::App,
    /// The forms that are read at the same time.
    pub forms: FormSlots,
    /// The writes of a session's last use at the same time: each has a connection, also while it
    /// waits.
    pub(crate) use_writes: Arc<Semaphore>,
    /// The rights that permissions of dashboard users grant.
    pub permissions: PermissionTable,
    /// The identity provider, if there is one.
    pub oidc: Option<Provider>,
    /// The path below which the console is served, such as `/console`; empty for `/`.
    pub base_path: String,
    /// The ids of all workspaces by name, which every page reads.
    workspaces: Shared<(), HashMap<String, i32>>,
}

gateway::layer!(@deref gateway);

impl App {
    /// The state on a runtime whose store has [connections of the console's
    /// own](runtime::app::App::for_console).
    pub fn new(gateway: gateway::app::App) -> Self {
        Self(Arc::new(State {
            forms: FormSlots::default(),
            use_writes: Arc::new(Semaphore::new(session::USE_WRITES)),
            permissions: PermissionTable::from_config(&gateway.config),
            oidc: Provider::from_config(&gateway.config),
            base_path: gateway.config.console_base_path(),
            workspaces: Shared::new("names of workspaces", 1),
            gateway,
        }))
    }

    /// The ids of all workspaces by name, as they were at most a few seconds ago.
    pub async fn workspaces(&self) -> Result<Arc<HashMap<String, i32>>, StoreError> {
        let app = self.clone();
        let read = async move {
            let mut tx = app.request_queue.snapshot().await?;
            let ids = workspaces::ids(&mut tx).await?;
            tx.commit().await?;
            Ok(ids)
        };
        self.workspaces.get((), read).await
    }
}
