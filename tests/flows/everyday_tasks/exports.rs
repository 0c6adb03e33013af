//! Exports by the commands that use the API, and by those that use the database.

use std::collections::BTreeMap;

use serde_json::json;

use crate::support::fleet::{Backend, Fleet};
use crate::support::process;
use crate::support::{Api, WorkspaceFile};

/// The settings of a service on the same machine are enough.
#[tokio::test(flavor = "multi_thread")]
async fn commands_find_the_api_by_the_settings_of_the_processes() {
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    let api = fleet.apply(&[WorkspaceFile::new("acme")]).await.remove(0);
    let export = api.export_all().await;
    api.done(&export.prefix).await;
    let base = fleet.base().to_owned();
    let address = base.strip_prefix("http://").expect("an address");
    let (_, port) = address.rsplit_once(':').expect("a port");
    for (name, value) in [
        ("LONGSHORE_PUBLIC_URL", base.clone()),
        ("LONGSHORE_LISTEN", format!("127.0.0.1:{port}")),
        ("LONGSHORE_LISTEN", format!("0.0.0.0:{port}")),
        ("LONGSHORE_URL", base.clone()),
    ] {
        let environment = BTreeMap::from([(name.to_owned(), value.clone())]);
        let mut command = process::command(fleet.directory(), &environment);
        command.args(["export", "status", &export.prefix, "--json", "--key", api.key()]);
        let output = process::output(command).await;
        assert!(output.status.success(), "{name}={value}: {output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(&export.prefix), "{name}={value}: {text}");
    }
    fleet.close().await;
}

async fn a_repeated_export_has_the_same_request(backend: Backend) {
    let fleet = Fleet::start(backend, &[]).await;
    let api: Api = fleet.apply(&[WorkspaceFile::new("acme")]).await.remove(0);
    let users = ["ann", "bob", "cid"].map(|id| json!({ "external_id": id }).to_string());
    fleet.import("acme", &users).await;
    let body = json!({ "fields_to_export": ["external_id"], "users_per_file": 2 });
    let first = api.export(&body).await.prefix;
    let first_status = api.done(&first).await;
    let printed = fleet.run(&["export", "repeat", &first]).await;
    let second = printed.trim();
    assert_ne!(second, first);
    let second_status = api.done(second).await;
    for field in ["audience", "segment_id", "users", "files"] {
        assert_eq!(second_status[field], first_status[field], "{field}");
    }
    let unknown = "1f0c7a52-3a55-4b0e-9d3e-6f1c5e2b7a10-1795249527";
    assert_eq!(fleet.command(&["export", "repeat", unknown]).await.status.code(), Some(1));
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ended_export_is_repeated_on_sqlite() {
    a_repeated_export_has_the_same_request(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ended_export_is_repeated_by_a_fleet() {
    a_repeated_export_has_the_same_request(Backend::Fleet(1)).await;
}
