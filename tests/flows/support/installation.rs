//! An installation to run parts of Longshore in: a store of its own, settings for tests, and
//! a workspace that is declared as an operator would.

use longshore::app::App;
use longshore::config::Config;
use longshore::workspaces::{apply, file};

use super::servers;
use super::stores::TestStore;

pub struct Installation {
    pub app: App,
    /// The id of the workspace.
    pub workspace: i32,
    _store: TestStore,
}

impl Installation {
    /// On `store`, with settings as `change` leaves them, and the workspace that `yaml`
    /// declares.
    pub async fn open(store: TestStore, yaml: &str, change: impl FnOnce(&mut Config)) -> Self {
        servers::install_tls();
        let mut config = store.config.clone();
        change(&mut config);
        let app = App::open(config).await.expect("all opens");
        let declared = file::read(yaml, &|_| None).expect("a workspace file");
        for declaration in &declared {
            apply::apply(&app, declaration, apply::Options::default()).await.expect("it applies");
        }
        let mut tx = app.store.snapshot().await.unwrap();
        let workspace = longshore::workspaces::by_name(&mut tx, &declared[0].name).await.unwrap();
        Self { workspace: workspace.expect("the workspace").id, app, _store: store }
    }
}
