//! A place to run parts of Longshore in: a store of its own, settings for tests, and a
//! workspace that is declared as an operator would.

use longshore::app::App;
use longshore::config::Config;
use longshore::workspaces::{apply, file};

use super::stores::TestStore;

pub struct Place {
    pub app: App,
    /// The id of the workspace.
    pub workspace: i32,
    store: TestStore,
}

impl Place {
    /// On `store`, with settings as `change` leaves them, and the workspace that `yaml`
    /// declares.
    pub async fn open(store: TestStore, yaml: &str, change: impl FnOnce(&mut Config)) -> Self {
        // What `main` does first; a second time it is there already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut config = store.config.clone();
        change(&mut config);
        let app = App::open(config).await.expect("all opens");
        let declared = file::read(yaml, &|_| None).expect("a workspace file");
        for declaration in &declared {
            apply::apply(&app, declaration, apply::Options::default()).await.expect("it applies");
        }
        let mut tx = app.store.snapshot().await.unwrap();
        let workspace = longshore::workspaces::by_name(&mut tx, &declared[0].name).await.unwrap();
        tx.commit().await.unwrap();
        Self { workspace: workspace.expect("the workspace").id, app, store }
    }

    pub async fn close(self) {
        self.app.store.close().await;
        self.store.close().await;
    }
}

/// Makes a test on SQLite of each function that takes a store.
macro_rules! on_sqlite {
    ($($test:ident,)+) => {
        mod on_sqlite {
            $(#[tokio::test]
            async fn $test() {
                super::$test($crate::support::stores::TestStore::sqlite().await).await;
            })+
        }
    };
}

/// Makes a test on PostgreSQL of each function that takes a store.
macro_rules! on_postgres {
    ($($test:ident,)+) => {
        mod on_postgres {
            $(#[tokio::test]
            async fn $test() {
                super::$test($crate::support::stores::TestStore::postgres().await).await;
            })+
        }
    };
}
pub(crate) use {on_postgres, on_sqlite};
