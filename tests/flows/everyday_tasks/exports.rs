//! Exports by the commands that use the API, and by those that use the database.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::api::answer;
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
    let files = [WorkspaceFile::new("acme"), WorkspaceFile::new("beta")];
    let [api, other]: [Api; 2] = fleet.apply(&files).await.try_into().ok().expect("two");
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
    // With a key over the API, for the key's workspace only.
    let repeat = async |key: &str| {
        fleet.command(&["export", "repeat", second, "--url", fleet.base(), "--key", key]).await
    };
    let repeated = repeat(api.key()).await;
    assert!(repeated.status.success(), "{repeated:?}");
    let third = String::from_utf8(repeated.stdout).unwrap();
    assert_ne!(third.trim(), second);
    assert_eq!(api.done(third.trim()).await["users"], first_status["users"]);
    let hint = String::from_utf8(repeated.stderr).unwrap();
    let expected = format!("export status {} --url '{}' --key KEY", third.trim(), fleet.base());
    assert!(hint.contains(&expected) && !hint.contains(api.key()), "{hint}");
    assert_eq!(repeat(other.key()).await.status.code(), Some(1), "another workspace");
    assert_eq!(repeat("no-key").await.status.code(), Some(1));
    // The command in the hint works as it is, also where a key would select the API.
    for key in [None, Some("key-of-another-installation")] {
        let run = async |arguments: &[&str]| {
            let mut command = process::command(fleet.directory(), fleet.environment());
            command.args(arguments);
            key.iter().for_each(|key| _ = command.env("LONGSHORE_KEY", key));
            process::output(command).await
        };
        let repeated = run(&["export", "repeat", &first, "--key", ""]).await;
        let hint = String::from_utf8(repeated.stderr).unwrap();
        let (_, line) = hint.split_once(": longshore ").expect("a command");
        let arguments: Vec<&str> =
            line.split_whitespace().map(|word| word.trim_matches('"')).collect();
        let shown = run(&arguments).await;
        assert!(shown.status.success(), "{line}: {shown:?}");
    }
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

async fn failed_exports_are_repeated_together(backend: Backend) {
    let fleet = Fleet::start(backend, &[]).await;
    let files = [WorkspaceFile::new("acme"), WorkspaceFile::new("beta")];
    let limited = files.clone().map(|file| file.with("export_limits", json!({ "users": 1 })));
    let [acme, beta]: [Api; 2] = fleet.apply(&limited).await.try_into().ok().expect("two");
    let users = ["ann", "bob", "cid"].map(|id| json!({ "external_id": id }).to_string());
    for workspace in ["acme", "beta"] {
        fleet.import(workspace, &users).await;
    }
    let body = json!({ "fields_to_export": ["external_id"] });
    let mut failed = Vec::new();
    for api in [&acme, &acme, &beta] {
        let prefix = api.export(&body).await.prefix;
        api.failed(&prefix).await;
        failed.push(prefix);
    }
    // The first one was repeated alone, and failed again.
    let path = format!("/users/export/{}/repeat", failed[0]);
    let alone = answer(acme.request(Method::POST, &path)).await.body["object_prefix"]
        .as_str()
        .unwrap()
        .to_owned();
    acme.failed(&alone).await;
    let (second, of_beta) = (&failed[1], &failed[2]);
    let repeat = async |options: &[&str]| {
        let command = ["export", "repeat", "--failed", "--json", "--key", ""];
        let printed = fleet.run(&[&command, options].concat()).await;
        printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    };
    let listed = async |options: &[&str]| {
        let found = repeat(&[options, &["--dry-run"]].concat()).await;
        let prefixes = found.iter().map(|export| export["object_prefix"].as_str().unwrap());
        prefixes.map(str::to_owned).collect::<Vec<String>>()
    };
    let all = [second, of_beta, &alone].map(String::clone);
    assert_eq!(listed(&["--since", "1h"]).await, all);
    assert_eq!(
        listed(&["--since", "1h", "--workspace", "beta"]).await,
        std::slice::from_ref(of_beta)
    );
    assert!(listed(&["--since", "2100-01-01T00:00Z"]).await.is_empty());
    assert_eq!(listed(&["--since", "1h"]).await, all, "a dry run repeats nothing");

    fleet.apply(&files.map(|file| file.with("export_limits", json!({ "users": 9 })))).await;
    let of_acme = ["--since", "1h", "--workspace", "acme"];
    // Two at once: each export is repeated by one of them.
    let (one, other) = tokio::join!(repeat(&of_acme), repeat(&of_acme));
    let repeated: Vec<&Value> =
        one.iter().chain(&other).flat_map(|done| done["repeated"].as_array().unwrap()).collect();
    let mut former: Vec<&str> =
        repeated.iter().map(|done| done["repeats"].as_str().unwrap()).collect();
    former.sort_unstable();
    let mut expected = [second.as_str(), alone.as_str()];
    expected.sort_unstable();
    assert_eq!(former, expected, "{repeated:?}");
    for done in repeated {
        let status = acme.done(done["object_prefix"].as_str().unwrap()).await;
        assert_eq!((&status["users"]["done"], &done["workspace"]), (&json!(3), &json!("acme")));
    }
    let nothing = json!({ "repeated": [], "failed": [] });
    assert_eq!(repeat(&of_acme).await, std::slice::from_ref(&nothing));
    let rest = repeat(&["--since", "1h"]).await.remove(0);
    assert_eq!(rest["repeated"][0]["repeats"], json!(of_beta), "{rest}");
    assert_eq!(rest["repeated"].as_array().unwrap().len(), 1, "{rest}");
    beta.done(rest["repeated"][0]["object_prefix"].as_str().unwrap()).await;
    assert_eq!(repeat(&["--since", "1h"]).await, [nothing]);
    for wrong in [
        &["--failed"][..],
        &["--failed", "--since", "366d"],
        &["--failed", "--since", "1h", second],
        &["--failed", "--since", "1h", "--key", acme.key(), "--url", fleet.base()],
        &["--dry-run", second],
        &[],
    ] {
        let refused = fleet.command(&[&["export", "repeat"], wrong].concat()).await;
        assert_eq!(refused.status.code(), Some(2), "{wrong:?}: {refused:?}");
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_exports_are_repeated_together_on_sqlite() {
    failed_exports_are_repeated_together(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_exports_are_repeated_together_by_a_fleet() {
    failed_exports_are_repeated_together(Backend::Fleet(1)).await;
}
