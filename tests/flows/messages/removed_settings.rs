//! `apply` names the running sends and pending schedules that lose their channel, subscription
//! group, app or data, and removes these only after a confirmation.

use std::process::Output;

use serde_json::{Value, json};

use super::sending::{Sending, from_now, message, slow};
use crate::support::fleet::Backend;
use crate::support::{WorkspaceFile, eventually};

const GROUP: &str = "7d0c6f5e-4b1a-4e0f-9a55-2f6d1c3b8a90";
const OTHER_GROUP: &str = "7d0c6f5e-4b1a-4e0f-9a55-2f6d1c3b8a91";
const APP: &str = "5d3f1a52-8f1e-4c57-9a3e-0d5b1c2e7f60";
const OTHER_APP: &str = "5d3f1a52-8f1e-4c57-9a3e-0d5b1c2e7f61";
const USERS: usize = 600;
const HOUR: i64 = 3_600_000;

fn groups(ids: &[&str]) -> Value {
    ids.iter().map(|id| json!({ "id": id, "channel": "sms", "from": "+15550100" })).collect()
}

fn apps(apps: &[(&str, &str)]) -> Value {
    let app =
        |(id, platform): &(&str, &str)| json!({ "id": id, "name": platform, "platform": platform });
    apps.iter().map(app).collect()
}

fn selections(names: &[&str]) -> Value {
    names.iter().map(|name| json!({ "name": name, "catalog": "games", "limit": 2 })).collect()
}

async fn start() -> Sending {
    let settings = [
        ("LONGSHORE_MESSAGES__PART_USERS", "100".to_owned()),
        ("LONGSHORE_MESSAGES__BATCH_USERS", "10".to_owned()),
        ("LONGSHORE_MESSAGES__SENDS_IN_FLIGHT", "2".to_owned()),
    ];
    let sending = Sending::start(Backend::Embedded, &settings, |receiver| {
        let provider =
            |path: &str| json!({ "url": receiver.url(path), "secret": "a-secret-of-the-provider" });
        vec![
            ("providers", json!({ "sms": provider("/sms"), "push": provider("/push") })),
            ("subscription_groups", groups(&[GROUP, OTHER_GROUP])),
            ("apps", apps(&[(APP, "ios"), (OTHER_APP, "android")])),
            (
                "catalogs",
                json!([{ "name": "games", "fields": [
                { "name": "title", "type": "string" }, { "name": "price", "type": "number" },
            ] }]),
            ),
            ("catalog_selections", selections(&["cheap", "other"])),
        ]
    })
    .await;
    let ids: Vec<String> = (0..USERS).map(|number| format!("u{number}")).collect();
    let users: Vec<(&str, Option<&str>)> = ids.iter().map(|id| (id.as_str(), None)).collect();
    sending.import(&users).await;
    sending
}

/// A webhook with a selection, an SMS and a push message.
fn messages(sending: &Sending) -> Value {
    let text = "{% catalog_selection_items games cheap %}{{ items.size }}";
    let mut messages = message(&sending.receiver, text);
    messages["sms"] = json!({ "app_id": "app", "subscription_group_id": GROUP, "body": "b" });
    messages["apple_push"] = json!({ "alert": "a" });
    messages
}

fn everybody() -> Value {
    json!({ "email_subscription_status": { "comparison": "is_not", "value": "opted_in" } })
}

async fn apply(sending: &Sending, file: &WorkspaceFile, options: &[&str]) -> Output {
    let path = sending.fleet.write_file("next.yaml", file.document().as_bytes());
    let path = path.to_str().expect("a path of ASCII");
    sending.fleet.command(&[&["apply", path], options].concat()).await
}

/// The lines about sends and schedules.
async fn touched(sending: &Sending, file: &WorkspaceFile, options: &[&str]) -> Vec<String> {
    let output = apply(sending, file, &[options, &["--json"]].concat()).await;
    assert!(output.status.success(), "{output:?}");
    let applied: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let lines = applied["touched"].as_array().expect("lines").iter();
    lines.map(|line| line.as_str().expect("a line").to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_of_running_sends_are_removed_after_a_confirmation() {
    let sending = start().await;
    let send = |more: Value| {
        let mut body = json!({ "audience": everybody(), "broadcast": true });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let schedule = json!({ "time": from_now(HOUR).to_string() });
    let sms = json!({ "sms": messages(&sending)["sms"] });
    let body = send(json!({ "messages": sms, "schedule": schedule }));
    let scheduled = sending.api.post("/messages/schedule/create", &body).await;
    assert_eq!(scheduled.status, 201, "{scheduled:?}");
    let schedule = scheduled.body["schedule_id"].as_str().expect("an id").to_owned();
    sending.receiver.script(slow(400));
    let sent =
        sending.api.post("/messages/send", &send(json!({ "messages": messages(&sending) }))).await;
    assert_eq!(sent.status, 201, "{sent:?}");
    sending.receiver.wait_for(5).await;
    let dispatch = sent.body["dispatch_id"].as_str().expect("a dispatch_id");

    // What they do not use.
    let workspace = &sending.workspace;
    let unused = workspace.clone().with("subscription_groups", groups(&[GROUP]));
    let unused = unused.with("apps", apps(&[(APP, "ios")]));
    let unused = unused.with("catalog_selections", selections(&["cheap"]));
    let lines = touched(&sending, &unused, &["--prune", "--dry-run"]).await;
    assert_eq!(lines, Vec::<String>::new());

    let of_send = |what: &str, outcome: &str| {
        format!("running sends with {what} (1) {outcome}, because it is removed: {dispatch}")
    };
    let of_schedule = |what: &str| {
        format!("pending schedules with {what} (1) will fail, because it is removed: {schedule}")
    };
    let group = format!("subscription_group {GROUP}");
    let lost = "will not send these messages";
    let push = json!({ "push": { "url": sending.receiver.url("/push") } });
    let cases = [
        (
            unused.clone().with("subscription_groups", json!([])),
            vec![of_send(&group, lost), of_schedule(&group)],
        ),
        (
            unused.clone().with("providers", push),
            vec![of_send("providers.sms", lost), of_schedule("providers.sms")],
        ),
        (
            unused.clone().with("apps", json!([])),
            vec![of_send("app ios", "will not reach its devices")],
        ),
    ];
    for (file, expected) in &cases {
        let lines = touched(&sending, file, &["--prune", "--dry-run"]).await;
        assert_eq!(&lines, expected);
        // A script must confirm.
        let refused = apply(&sending, file, &["--prune"]).await;
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(error.contains(&expected[0]) && error.contains("--yes"), "{error}");
        // Without --prune, nothing is removed.
        assert_eq!(touched(&sending, file, &["--dry-run"]).await, Vec::<String>::new());
    }
    let without_data = unused.clone().with("catalog_selections", json!([]));
    let lines = touched(&sending, &without_data, &["--prune", "--dry-run"]).await;
    let [line] = lines.as_slice() else { panic!("{lines:?}") };
    assert!(line.starts_with("running sends with other data (1) will not have it: "), "{line}");
    assert!(line.contains("`cheap`") && line.ends_with(dispatch), "{line}");

    let shown = sending.fleet.run(&["dispatches", "show", dispatch, "--json"]).await;
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    assert!(shown["finished_at"].is_null(), "the send was too fast: {shown}");
    let (file, expected) = &cases[0];
    assert_eq!(&touched(&sending, file, &["--prune", "--yes"]).await, expected);
    sending.receiver.clear_script();
    eventually("it is done", || async {
        let shown = sending.fleet.run(&["dispatches", "show", dispatch, "--json"]).await;
        serde_json::from_str::<Value>(&shown).expect("JSON")["state"] == "done"
    })
    .await;
    sending.fleet.close().await;
}
