//! An installation to run parts of Longshore in: a store of its own, settings for tests, and
//! a workspace that is declared as an operator would.

use std::process::Output;

use longshore::app::App;
use longshore::config::Config;
use longshore::setup;
use longshore::workspace_file::{apply, file};

use super::stores::TestStore;
use super::{process, servers};

pub struct Installation {
    pub app: App,
    /// The id of the workspace.
    pub workspace: i32,
    pub store: TestStore,
}

impl Installation {
    /// On `store`, with settings as `change` leaves them, and the workspace that `yaml`
    /// declares.
    pub async fn open(store: TestStore, yaml: &str, change: impl FnOnce(&mut Config)) -> Self {
        servers::install_tls();
        let mut config = store.config.clone();
        change(&mut config);
        let app = App::open(config).await.expect("all opens");
        setup::run(&app).await.expect("it becomes an installation");
        let declared = file::read(yaml, &|_| None).expect("a workspace file");
        let options = longshore::workspace_file::change::Options::default();
        for declaration in &declared.workspaces {
            apply::apply(&app, declaration, options).await.expect("it applies");
        }
        if let Some(company) = &declared.company {
            longshore::workspace_file::company::apply_company(&app, company, options)
                .await
                .expect("it applies");
        }
        let mut tx = app.store.snapshot().await.unwrap();
        let workspace =
            longshore::workspaces::by_name(&mut tx, &declared.workspaces[0].name).await.unwrap();
        Self { workspace: workspace.expect("the workspace").id, app, store }
    }

    /// Applies a file again; returns what changed, and what was noted.
    pub async fn apply(&self, yaml: &str, prune: bool) -> Vec<String> {
        let options =
            longshore::workspace_file::change::Options { dry_run: false, prune, confirmed: false };
        let mut report = Vec::new();
        for declaration in file::read(yaml, &|_| None).expect("a workspace file").workspaces {
            let applied = apply::apply(&self.app, &declaration, options).await.expect("it applies");
            report.extend(applied.changes.iter().map(ToString::to_string));
            report.extend(applied.notes);
        }
        report
    }

    /// Runs a command of the program itself on this installation; whatever its result.
    pub async fn run(&self, arguments: &[&str]) -> Output {
        let mut command = process::command(&self.store.config.data, &self.store.environment());
        command.args(arguments);
        process::output(command).await
    }

    /// The lines that a command printed, which must succeed.
    pub async fn printed(&self, arguments: &[&str]) -> Vec<String> {
        let output = self.run(arguments).await;
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {error}");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        text.lines().map(str::to_owned).collect()
    }
}
