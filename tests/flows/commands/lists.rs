//! What lists print, and how commands check ids.

use serde_json::{Value, json};

use super::{longshore, text};
use crate::support::fleet::{Backend, Fleet};
use crate::support::storage::TestStorage;
use crate::support::workspace::WorkspaceFile;

/// Checked before anything is opened or requested.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_id_is_answered_with_the_form_of_a_right_one() {
    for arguments in [
        &["schedules", "show", "nope"][..],
        &["schedules", "cancel", "nope"],
        &["dispatches", "show", "nope"],
        &["dispatches", "cancel", "nope"],
        &["messages", "ann", "--dispatch", "nope"],
        &["messages", "ann", "--after", "nope"],
        &["cards", "ann", "--after", "nope"],
        &["deliveries", "show", "nope"],
        &["deliveries", "resend", "nope"],
        &["dead-letters", "show", "nope"],
        &["dead-letters", "retry", "nope"],
        &["dead-letters", "discard", "nope"],
        &["export", "status", "nope"],
        &["export", "cancel", "nope"],
        &["export", "download", "nope"],
        &["export", "list", "--after", "nope"],
        &["audit", "list", "--after", "nope"],
        &["console", "sign-out", "nope"],
        &["console", "sessions", "--after", "nope"],
    ] {
        let output = longshore(arguments).await;
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(", such as ") && error.contains("see `longshore "), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn workspaces_show_what_is_configured_without_secrets() {
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    let storage = TestStorage::s3().await;
    let sms = json!({ "url": "https://sms.example.com/send?key=hidden-key" });
    let files = [
        WorkspaceFile::new("acme").with("providers", json!({ "sms": sms })),
        WorkspaceFile::new("beta").with_storage(&storage).with_named_storage("lake", &storage),
    ];
    fleet.apply(&files).await;
    fleet.import("acme", &[r#"{"external_id":"ann"}"#.to_owned()]).await;
    let listed = fleet.run(&["workspaces", "list", "--json"]).await;
    let listed: Vec<Value> =
        listed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let names: Vec<&Value> = listed.iter().map(|listed| &listed["name"]).collect();
    assert_eq!(names, ["acme", "beta"]);
    let storages = listed[1]["storages"].as_array().expect("a list").iter();
    let storages: Vec<_> = storages.map(|found| (&found["name"], &found["is_default"])).collect();
    assert_eq!(storages, [(&json!("s3"), &json!(true)), (&json!("lake"), &json!(false))]);
    let after = fleet.run(&["workspaces", "list", "--after", "acme", "--json"]).await;
    assert_eq!(after.lines().count(), 1, "{after}");
    let first = fleet.command(&["workspaces", "list", "--limit", "1", "--json"]).await;
    assert_eq!(text(&first.stdout).lines().count(), 1, "{}", text(&first.stdout));
    assert!(text(&first.stderr).contains("--after acme"), "{}", text(&first.stderr));

    let shown = fleet.run(&["workspaces", "show", "acme", "--json"]).await;
    let acme: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(acme["channels"], json!({ "providers.sms": "https://sms.example.com" }));
    assert_eq!((&acme["storages"], &acme["users"]["estimated"]), (&json!([]), &json!(1)));
    assert_eq!((&acme["segments"], &acme["keys"]), (&json!(1), &json!(["integrator"])));
    let actor = acme["applied_by"].as_str().expect("an actor");
    assert!(actor.starts_with("command:") && acme["applied_at"].is_string(), "{acme}");
    let details = fleet.run(&["workspaces", "show", "acme"]).await;
    for printed in [&shown, &details] {
        assert!(printed.contains("sms.example.com") && !printed.contains("hidden"), "{printed}");
    }
    let of_beta = fleet.run(&["workspaces", "show", "beta"]).await;
    for printed in [shown, details, of_beta] {
        fleet.assert_no_secret_in("workspaces show", &printed);
    }
    assert!(!fleet.command(&["workspaces", "show", "nobody"]).await.status.success());
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_tables_for_people_and_json_lines_for_programs() {
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    fleet.apply(&[WorkspaceFile::new("acme")]).await;
    for (arguments, heading) in [
        (&["key", "list"][..], "ID"),
        (&["signing-key", "list"], "ID"),
        (&["workspaces", "list"], "NAME"),
        (&["doctor"], "STATE"),
    ] {
        let table = fleet.run(arguments).await;
        assert!(table.starts_with(heading) && table.lines().count() > 1, "{arguments:?}: {table}");
        assert!(!table.contains('\u{1b}'), "a pipe has no colours: {table:?}");
        assert!(!table.contains(" \n"), "no line ends with a space: {table:?}");
        let json = fleet.run(&[arguments, &["--json"]].concat()).await;
        assert_eq!(json.lines().count() + 1, table.lines().count(), "{arguments:?}: {json}");
        for line in json.lines() {
            let object: Value = serde_json::from_str(line).expect("JSON");
            assert!(object.is_object(), "{arguments:?}: {line}");
        }
    }
    // An empty list is nothing on standard output.
    for arguments in [
        &["dispatches", "list"][..],
        &["schedules", "list"],
        &["deliveries", "list"],
        &["dead-letters", "list"],
        &["scim-token", "list"],
        &["catalogs", "list"],
        &["invalid-numbers", "list"],
        &["console", "sessions"],
        &["console-log"],
        &["sla"],
        &["export", "list"],
    ] {
        for arguments in [arguments.to_vec(), [arguments, &["--json"]].concat()] {
            let output = fleet.command(&arguments).await;
            let error = text(&output.stderr);
            assert!(output.status.success(), "{arguments:?}: {error}");
            assert_eq!(text(&output.stdout), "", "{arguments:?}");
            let is_table = !arguments.contains(&"--json");
            assert_eq!(error.contains("No "), is_table, "{arguments:?}: {error}");
        }
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_continues_after_the_last_row_of_the_previous_one() {
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    fleet.apply(&[WorkspaceFile::new("acme")]).await;
    let file = fleet.directory().join("numbers.txt");
    std::fs::write(&file, "+15550101\n+15550102\n+15550103\n").expect("the file is written");
    let file = file.to_str().expect("a path of ASCII");
    fleet.run(&["invalid-numbers", "add", file]).await;
    let list = ["invalid-numbers", "list", "--limit", "2", "--json"];
    let first = fleet.command(&list).await;
    let numbers = |json: &str| -> Vec<String> {
        let objects = json.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        objects.map(|row: serde_json::Value| row["number"].as_str().expect("text").into()).collect()
    };
    assert_eq!(numbers(&text(&first.stdout)), ["+15550101", "+15550102"]);
    assert!(text(&first.stderr).contains("--after +15550102"), "{}", text(&first.stderr));
    let next = fleet.run(&[&list[..], &["--after", "+15550102"]].concat()).await;
    assert_eq!(numbers(&next), ["+15550103"]);
    let complete = fleet.command(&["invalid-numbers", "list", "--limit", "3", "--json"]).await;
    assert_eq!(numbers(&text(&complete.stdout)).len(), 3);
    assert_eq!(text(&complete.stderr), "", "a list that ends with its page does not continue");
    let wrong = fleet.command(&[&list[..], &["--after", "nope"]].concat()).await;
    assert_eq!(wrong.status.code(), Some(2), "{}", text(&wrong.stderr));
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_continues_after_a_row_that_left_the_list() {
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    let ids = ["cccc0000-0000-4000-8000-000000000001", "cccc0000-0000-4000-8000-000000000002"];
    let file = WorkspaceFile::new("acme");
    let apply = async |is_archived: bool| {
        let campaigns = json!([
            { "id": ids[0], "name": "Old", "type": "api", "archived": is_archived },
            { "id": ids[1], "name": "New", "type": "api" },
        ]);
        fleet.apply(&[file.clone().with("campaigns", campaigns)]).await;
    };
    let listed = async |more: &[&str]| -> Vec<String> {
        let list = ["campaigns", "list", "--limit", "1", "--json"];
        let printed = fleet.run(&[&list[..], more].concat()).await;
        let objects = printed.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        objects.map(|row: Value| row["id"].as_str().expect("text").into()).collect()
    };
    apply(false).await;
    assert_eq!(listed(&[]).await, [ids[0]]);
    apply(true).await;
    assert_eq!(listed(&["--after", ids[0]]).await, [ids[1]]);
    fleet.close().await;
}
