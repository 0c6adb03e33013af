//! Each task of the page: its lines are typed, and have the effects that it promises.

use std::fs;

use reqwest::header::ETAG;
use serde_json::{Value, json};

use super::{Task, USERS, World};
use crate::messages::sending::message;
use crate::support::{Api, eventually};
use crate::upgrade::restore::back_up;

/// The lines of a task: as many as the check types.
fn exactly<const N: usize>(lines: &[String]) -> [&str; N] {
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    lines.try_into().unwrap_or_else(|lines| panic!("not {N} lines: {lines:?}"))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("a text: {value}")).to_owned()
}

fn array(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("an array: {value}"))
}

pub async fn check(world: &mut World, task: &Task) {
    match &*task.name {
        "See a declared campaign and its results" => campaign(world, task).await,
        "Preview a campaign for a user" => preview(world, task).await,
        "Find a user by any identifier" => find_user(world, task).await,
        "See what a user got, and why not" => messages_of_user(world, task).await,
        "See who got a send, by outcome" => recipients(world, task).await,
        "Recognise the wrong send" => recognise(world, task).await,
        "Stop it, and see what still goes out" => stop(world, task).await,
        "Apologise to those who got it" => apologise(world, task).await,
        "Send a campaign to a segment" => send_campaign(world, task).await,
        "List and count segments" => count_segments(world, task).await,
        "See some users of a segment" => sample_segment(world, task).await,
        "Export a segment" => export_segment(world, task).await,
        "Verify a delivered file" => verify(world, task).await,
        "Continue an interrupted download" => continue_download(world, task).await,
        "Repeat a failed export" => repeat_export(world, task).await,
        "List all slow exports of all workspaces" => slow_exports(world, task).await,
        "Revoke a leaked key for ever" => revoke_key(world, task).await,
        "Preview a new control group" => preview_control_group(world, task).await,
        "Restore yesterday's backup" => restore(world, task).await,
        "See what is configured where" => configuration(world, task).await,
        "Check an upgrade before you run it" => check_upgrade(world, task).await,
        name => panic!("no check of the task {name:?}"),
    }
}

// Campaigns and users ------------------------------------------------------------------------

async fn campaign(world: &World, task: &Task) {
    let [show] = exactly(&task.commands);
    let shown = world.object(show).await;
    assert_eq!((&shown["state"], &shown["results"][0]["sent"]), (&json!("active"), &json!(2)));
    let [details, statistics] = exactly(&task.requests);
    assert_eq!(world.request(details).await["name"], "Welcome");
    assert_eq!(world.request(statistics).await["variations"][0]["sent"], 2);
}

async fn preview(world: &World, task: &Task) {
    let [command] = exactly(&task.commands);
    assert_eq!(world.object(command).await["rendered"]["body"], "Hi Ann");
    let [request] = exactly(&task.requests);
    let previews = world.request(request).await["previews"].clone();
    assert_eq!(previews[0]["rendered"]["body"], "Hi Ann", "{previews}");
}

async fn find_user(world: &World, task: &Task) {
    let [command] = exactly(&task.commands);
    let found = world.object(command).await;
    assert_eq!(found["found_by"], "phone", "{found}");
    let [request] = exactly(&task.requests);
    let users = world.request(request).await["users"].clone();
    assert_eq!(users[0]["external_id"], "ann", "{users}");
    assert_eq!(users[0]["service_id"], found["service_id"]);
}

async fn messages_of_user(world: &World, task: &Task) {
    let [all, of_send] = exactly(&task.commands);
    let messages = world.objects(all).await;
    assert_eq!(
        (&messages[0]["dispatch_id"], &messages[0]["state"]),
        (&json!(world.to_ann), &json!("sent"))
    );
    let reasons = world.objects(of_send).await;
    assert_eq!((reasons.len(), &reasons[0]["why_not"]), (1, &json!("not_listed")), "{reasons:?}");
    let [all, of_send] = exactly(&task.requests);
    let messages = world.request(all).await["messages"].clone();
    assert_eq!(
        (&messages[0]["dispatch_id"], &messages[0]["outcome"]),
        (&json!(world.to_ann), &json!("sent"))
    );
    assert_eq!(world.request(of_send).await["why_not"][0]["reason"], "not_listed");
}

// Sends --------------------------------------------------------------------------------------

async fn recipients(world: &mut World, task: &Task) {
    world.begin_wrong_send().await;
    let [command] = exactly(&task.commands);
    let [request] = exactly(&task.requests);
    let page = world.request(request).await;
    for found in [&world.objects(command).await[..], array(&page["recipients"])] {
        assert!(!found.is_empty());
        assert!(found.iter().all(|recipient| recipient["outcome"] == "sent"), "{found:?}");
    }
}

async fn recognise(world: &World, task: &Task) {
    let wrong = &*world.names["SEND"];
    let [command] = exactly(&task.commands);
    let listed = world.objects(command).await;
    let found = listed.iter().find(|dispatch| dispatch["id"] == wrong).expect("the send");
    let [request] = exactly(&task.requests);
    let page = world.request(request).await;
    let listed = array(&page["dispatches"]);
    let same = listed.iter().find(|dispatch| dispatch["dispatch_id"] == wrong).expect("the send");
    assert_eq!(
        (&found["campaign"], &same["campaign_name"]),
        (&json!("Welcome"), &json!("Welcome"))
    );
    for dispatch in [found, same] {
        assert_eq!(dispatch["audience"]["segment_name"], "Berlin", "{dispatch}");
        assert!(["planning", "running"].contains(&&*text(&dispatch["state"])), "{dispatch}");
    }
}

async fn stop(world: &World, task: &Task) {
    let [cancel, show] = exactly(&task.commands);
    world.typed(cancel).await;
    eventually("nothing more goes out", || async {
        let shown = world.object(show).await;
        shown["state"] == "cancelled" && shown["may_still_be_sent"] == 0
    })
    .await;
    assert!(world.users_with("wrong").len() < USERS, "the send was complete before");
    // The request has no effect now.
    let [request] = exactly(&task.requests);
    assert_eq!(world.request(request).await["state"], "cancelled");
}

/// The request repeats the command with the same key, so nobody gets a second apology.
async fn apologise(world: &World, task: &Task) {
    world.receiver.clear_script();
    let apology = json!({ "messages": message(&world.receiver, "sorry") });
    world.fleet.write_file("apology.json", apology.to_string().as_bytes());
    let [command] = exactly(&task.commands);
    let sent = world.object(command).await;
    let [request] = exactly(&task.requests);
    assert_eq!(world.request(request).await["dispatch_id"], sent["dispatch_id"]);
    world.wait_until_done(&text(&sent["dispatch_id"])).await;
    let outcomes = "longshore dispatches recipients SEND --limit 10000 \
                    --outcome sent,delivered,may_have_been_sent";
    let recipients = world.objects(outcomes).await;
    let mut users: Vec<String> =
        recipients.iter().map(|recipient| text(&recipient["external_user_id"])).collect();
    users.sort();
    assert_eq!(world.users_with("sorry"), users);
}

/// Nobody receives what the campaign sends.
async fn send_campaign(world: &World, task: &Task) {
    let [command] = exactly(&task.commands);
    let [request] = exactly(&task.requests);
    for sent in [world.object(command).await, world.request(request).await] {
        let id = text(&sent["dispatch_id"]);
        let path = format!("/messages/dispatches/{id}");
        eventually("the send is stored", || async { world.api.get(&path).await.status == 200 })
            .await;
        let send = world.api.get(&path).await.body;
        assert_eq!(
            (&send["campaign_name"], &send["audience"]["segment_name"]),
            (&json!("Welcome"), &json!("Berlin"))
        );
        world.fleet.run(&["dispatches", "cancel", &id]).await;
    }
}

// Segments -----------------------------------------------------------------------------------

async fn count_segments(world: &World, task: &Task) {
    let [list, count] = exactly(&task.commands);
    let is_berlin = |segment: &Value| segment["name"] == "Berlin";
    assert!(world.objects(list).await.iter().any(is_berlin));
    assert_eq!(world.object(count).await["users"]["estimated"], USERS);
    let [list, count] = exactly(&task.requests);
    assert!(array(&world.request(list).await["segments"]).iter().any(is_berlin));
    assert_eq!(world.request(count).await["size"]["estimated"], USERS);
}

async fn sample_segment(world: &World, task: &Task) {
    let [command] = exactly(&task.commands);
    assert_eq!(world.objects(command).await.len(), 5);
    let [request] = exactly(&task.requests);
    assert_eq!(array(&world.request(request).await["users"]).len(), 5);
}

async fn export_segment(world: &mut World, task: &Task) {
    let [command] = exactly(&task.commands);
    let export = world.object(command).await;
    assert_eq!((&export["state"], &export["users"]["done"]), (&json!("done"), &json!(USERS)));
    world.names.insert("EXPORT", text(&export["object_prefix"]));
    let [request] = exactly(&task.requests);
    let requested = world.request(request).await;
    let done = world.api.done(&text(&requested["object_prefix"])).await;
    assert_eq!(done["users"]["done"], USERS, "{done}");
}

// Exports ------------------------------------------------------------------------------------

async fn verify(world: &World, task: &Task) {
    let keys = format!("{}/.well-known/longshore/acme/allowed_signers", world.fleet.base());
    let keys = reqwest::get(keys).await.expect("a response").bytes().await.expect("a body");
    world.fleet.write_file("allowed_signers", &keys);
    let [command] = exactly(&task.commands);
    let report = world.object(command).await;
    assert_eq!(
        (&report["valid"], &report["exports"][0]["object_prefix"]),
        (&json!(true), &json!(world.names["EXPORT"]))
    );
    assert!(task.requests.is_empty(), "it is of a file");
}

/// As if the command, and then curl, had been interrupted in the middle. `export_proof::` has the
/// proof that the command does not begin again.
async fn continue_download(world: &mut World, task: &Task) {
    let prefix = world.names["EXPORT"].clone();
    let [status, curl] = exactly(&task.requests);
    let export = world.request(status).await;
    assert_eq!(export["state"], "done", "{export}");
    let url = text(&export["url"]);
    let response = reqwest::get(&url).await.expect("a response");
    let etag = response.headers()[ETAG].as_bytes().to_vec();
    world.names.insert("URL", url);

    let exports = world.fleet.directory().join("exports");
    let file = exports.join(format!("{prefix}.zip"));
    let bytes = fs::read(&file).expect("the file");
    let half = &bytes[..bytes.len() / 2];
    let part = exports.join(format!(".{prefix}.part"));
    fs::create_dir(&part).expect("a directory");
    fs::write(part.join(format!("{prefix}.zip")), half).expect("a file");
    fs::write(part.join("etag"), etag).expect("a file");
    fs::remove_file(&file).expect("it is removed");
    let [command] = exactly(&task.commands);
    assert_eq!(world.object(command).await["state"], "done");
    assert!(fs::read(&file).expect("the file") == bytes, "another file");

    let copy = world.fleet.write_file("export.zip", half);
    world.typed(curl).await;
    assert!(fs::read(copy).expect("the file") == bytes, "another file");
}

async fn repeat_export(world: &World, task: &Task) {
    let [command] = exactly(&task.commands);
    let [request] = exactly(&task.requests);
    for repeated in [world.object(command).await, world.request(request).await] {
        let prefix = text(&repeated["object_prefix"]);
        assert_ne!(prefix, world.names["EXPORT"]);
        assert_eq!(world.api.done(&prefix).await["users"]["done"], USERS);
    }
}

/// All exports here have ended. `export_list::` has those with marks.
async fn slow_exports(world: &World, task: &Task) {
    let [command] = exactly(&task.commands);
    assert_eq!(world.objects(command).await, [] as [Value; 0]);
    let [request] = exactly(&task.requests);
    assert_eq!(world.request(request).await["exports"], json!([]));
}

// The installation ---------------------------------------------------------------------------

async fn revoke_key(world: &mut World, task: &Task) {
    let mut secrets = Vec::new();
    for name in ["leaked", "old-app"] {
        let create = ["key", "create", "--name", name, "--permission", "users.track"];
        secrets.push(world.fleet.run(&create).await.trim().to_owned());
    }
    world.fleet.write_file("leaked.txt", secrets[0].as_bytes());
    world.names.insert("NAME", "old-app".into());
    let [by_secret, by_name] = exactly(&task.commands);
    assert_eq!(world.object(by_secret).await["revoked"], json!(["leaked"]));
    world.typed(by_name).await;
    for secret in secrets {
        let api = Api::new(world.fleet.base(), &secret);
        let body = json!({ "attributes": [{ "external_id": "eve" }] });
        eventually("the key is refused", || async {
            api.post("/users/track", &body).await.status == 401
        })
        .await;
    }
}

async fn preview_control_group(world: &World, task: &Task) {
    let before = world.fleet.control_group("acme").await;
    let [command] = exactly(&task.commands);
    assert_eq!(world.object(command).await["dry_run"], true);
    assert_eq!(world.fleet.control_group("acme").await, before);
}

/// A user who was erased after the backup is back.
async fn restore(world: &mut World, task: &Task) {
    let folder = back_up(&world.fleet, "kept").await;
    world.names.insert("FOLDER", folder.display().to_string());
    world.fleet.run(&["users", "delete", "cid"]).await;
    world.fleet.kill("standalone");
    let [command] = exactly(&task.commands);
    world.typed(command).await;
    world.fleet.run(&["users", "show", "cid"]).await;
    world.fleet.launch("standalone").await;
}

async fn configuration(world: &World, task: &Task) {
    let [show, settings] = exactly(&task.commands);
    let shown = world.object(show).await;
    assert_eq!(shown["keys"], json!(["integrator"]), "{shown}");
    let settings = world.objects(settings).await;
    let listen = settings.iter().find(|setting| setting["name"] == "gateway.listen");
    assert_eq!(listen.expect("the setting")["origin"], "environment");
}

async fn check_upgrade(world: &World, task: &Task) {
    let [command] = exactly(&task.commands);
    let check = world.object(command).await;
    assert_eq!((&check["schema"], &check["steps"]), (&check["own_schema"], &json!([])), "{check}");
}
