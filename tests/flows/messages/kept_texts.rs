//! A send keeps the text and the content blocks that it began with, whatever is applied meanwhile.
//! `apply` names the sends and schedules that it touches.

use std::process::Output;

use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::sending::{CAMPAIGN, CANVAS, Sending, campaign, from_now, message, slow};
use crate::support::WorkspaceFile;
use crate::support::eventually;
use crate::support::fleet::Backend;
use crate::support::receiver::Receiver;

const SEGMENT: &str = "bbbb0000-0000-4000-8000-000000000004";
const USERS: usize = 300;
const HOUR: i64 = 3_600_000;

const TEXT: &str = "first {{campaign.${name}}} {{content_blocks.${outer}}}";

fn blocks(outer: &str, inner: &str) -> Value {
    json!({ "outer": format!("{outer}{{{{content_blocks.${{inner}}}}}}"), "inner": inner })
}

/// A campaign with content blocks, and slow sends.
async fn start(backend: Backend, users: usize) -> Sending {
    let settings = [
        ("LONGSHORE_MESSAGES__PART_USERS", "100".to_owned()),
        ("LONGSHORE_MESSAGES__BATCH_USERS", "10".to_owned()),
        ("LONGSHORE_MESSAGES__PARTS_IN_FLIGHT", "1".to_owned()),
        ("LONGSHORE_MESSAGES__SENDS_IN_FLIGHT", "2".to_owned()),
        ("LONGSHORE_WORKER__LEASE_MS", "1000".to_owned()),
    ];
    let sending = Sending::start(backend, &settings, |receiver| {
        vec![
            ("campaigns", campaign(&message(receiver, TEXT))),
            ("content_blocks", blocks("a", "1")),
        ]
    })
    .await;
    let ids: Vec<String> = (0..users).map(|number| format!("u{number}")).collect();
    let users: Vec<(&str, Option<&str>)> = ids.iter().map(|id| (id.as_str(), None)).collect();
    sending.import(&users).await;
    sending
}

/// Sends the campaign to everybody; returns the dispatch's id once some have a message.
async fn begin(sending: &Sending) -> String {
    sending.receiver.script(slow(100));
    let body = json!({ "campaign_id": CAMPAIGN, "broadcast": true });
    let sent = sending.api.post("/campaigns/trigger/send", &body).await;
    assert_eq!(sent.status, 201, "{sent:?}");
    sending.receiver.wait_for(5).await;
    sent.body["dispatch_id"].as_str().expect("a dispatch_id").to_owned()
}

/// The same workspace with another text, other blocks, and another name of the campaign.
fn changed(workspace: &WorkspaceFile, receiver: &Receiver) -> WorkspaceFile {
    let mut campaigns = campaign(&message(receiver, &TEXT.replace("first", "second")));
    campaigns[0]["name"] = "Renamed".into();
    workspace.clone().with("campaigns", campaigns).with("content_blocks", blocks("b", "2"))
}

/// The same workspace without the campaign and the blocks.
fn emptied(workspace: &WorkspaceFile) -> WorkspaceFile {
    workspace.clone().with("campaigns", json!([])).with("content_blocks", json!({}))
}

async fn apply(sending: &Sending, file: &WorkspaceFile, options: &[&str]) -> Output {
    let path = sending.fleet.write_file("next.yaml", file.document().as_bytes());
    let path = path.to_str().expect("a path of ASCII");
    sending.fleet.command(&[&["apply", path], options].concat()).await
}

fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn assert_has(text: &str, parts: &[String]) {
    for part in parts {
        assert!(text.contains(part), "{part}: {text}");
    }
}

async fn show(sending: &Sending, dispatch: &str) -> Value {
    let shown = sending.fleet.run(&["dispatches", "show", dispatch, "--json"]).await;
    serde_json::from_str(&shown).expect("JSON")
}

/// All texts that users got, each once.
fn texts(sending: &Sending) -> Vec<String> {
    let mut texts: Vec<String> = sending.texts().into_iter().map(|(_, text)| text).collect();
    texts.sort();
    texts.dedup();
    texts
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_ends_with_its_text_without_its_campaign_standalone() {
    a_send_ends_with_its_text_without_its_campaign(Backend::Embedded, "standalone").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_ends_with_its_text_without_its_campaign_in_a_fleet() {
    a_send_ends_with_its_text_without_its_campaign(Backend::Fleet(1), "worker-1").await;
}

async fn a_send_ends_with_its_text_without_its_campaign(backend: Backend, worker: &str) {
    let mut sending = start(backend, USERS).await;
    let dispatch = begin(&sending).await;
    let next = changed(&sending.workspace, &sending.receiver);
    let of_send = |what: &str| {
        format!(
            "! running sends {what} (1) continue with the text that they began with: {dispatch}"
        )
    };
    let said = printed(&apply(&sending, &next, &["--dry-run"]).await);
    let touched = ["of campaign Renamed", "with content block inner", "with content block outer"];
    assert_has(&said, &touched.map(of_send));
    let said = printed(&apply(&sending, &next, &["--json"]).await);
    let said: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(said["touched"].as_array().map(Vec::len), Some(3), "{said}");

    // A script must confirm that it removes what is being sent.
    let next = emptied(&sending.workspace);
    let said = printed(&apply(&sending, &next, &["--prune", "--dry-run"]).await);
    assert_has(&said, &[of_send("of campaign Renamed")]);
    let refused = apply(&sending, &next, &["--prune"]).await;
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success(), "{refused:?}");
    assert_has(&error, &["of campaign Renamed (1)".into(), dispatch.clone(), "--yes".into()]);
    assert!(sending.fleet.run(&["campaigns", "list"]).await.contains("Renamed"));
    let said = printed(&apply(&sending, &next, &["--prune", "--yes"]).await);
    assert_has(&said, &["- campaign Renamed".into(), of_send("of campaign Renamed")]);
    assert!(show(&sending, &dispatch).await["finished_at"].is_null(), "the send was too fast");

    // Nor does its text depend on the worker.
    sending.fleet.kill(worker);
    sending.receiver.clear_script();
    sending.fleet.launch(worker).await;
    sending.at_rest(USERS).await;
    eventually("it is done", || async { show(&sending, &dispatch).await["state"] == "done" }).await;
    let shown = show(&sending, &dispatch).await;
    for name in ["users", "walked", "sent"] {
        assert_eq!(shown[name], USERS, "{name}: {shown}");
    }
    assert_eq!(texts(&sending), ["first Hello a1"]);
    assert_eq!(sending.texts().len(), USERS);
    sending.fleet.close().await;
}

/// As in a rolling upgrade: a send that an earlier version began has nothing of its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_send_of_an_earlier_version_reads_what_is_declared() {
    let sending = start(Backend::Embedded, USERS).await;
    let dispatch = begin(&sending).await;
    sending.execute("UPDATE dispatches SET kept = NULL").await;
    let next = emptied(&sending.workspace);
    let said = printed(&apply(&sending, &next, &["--prune", "--dry-run"]).await);
    let fails = "will fail, because an earlier version began them";
    assert_has(&said, &[format!("running sends of campaign Hello (1) {fails}: {dispatch}")]);
    printed(&apply(&sending, &changed(&sending.workspace, &sending.receiver), &[]).await);
    // Until every worker knows what is declared.
    tokio::time::sleep(std::time::Duration::from_secs(6)).await;
    sending.receiver.clear_script();
    sending.at_rest(USERS).await;
    // Its order has the text. A part reads the rest when it starts.
    let texts = texts(&sending);
    assert_eq!(texts.first().map(String::as_str), Some("first Hello a1"), "{texts:?}");
    assert_eq!(texts.last().map(String::as_str), Some("first Renamed b2"), "{texts:?}");
    assert_eq!(show(&sending, &dispatch).await["state"], "done");
    sending.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn apply_names_the_pending_schedules_that_it_touches() {
    let sending = start(Backend::Embedded, 2).await;
    let everybody = json!({ "email_subscription_status": {
        "comparison": "is_not", "value": "opted_in",
    } });
    let segments = json!([{ "id": SEGMENT, "name": "Gold", "audience": everybody }]);
    let workspace = sending.workspace.clone().with("segments", segments);
    printed(&apply(&sending, &workspace, &[]).await);
    let schedule = json!({ "time": from_now(HOUR).to_string() });
    // The gateway knows the new segment some seconds after it was applied.
    let schedules = |path: &'static str, body: Value| {
        let api = &sending.api;
        async move {
            let mut answer = api.post(path, &body).await;
            for _ in 0..100 {
                if answer.status == 201 {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                answer = api.post(path, &body).await;
            }
            assert_eq!(answer.status, 201, "{answer:?}");
            answer.body["schedule_id"].as_str().expect("a schedule_id").to_owned()
        }
    };
    let body = json!({ "campaign_id": CAMPAIGN, "broadcast": true, "schedule": schedule });
    let of_campaign = schedules("/campaigns/trigger/schedule/create", body).await;
    let of_canvas = sending.schedule(schedule.clone()).await;
    let body = json!({ "segment_id": SEGMENT, "broadcast": true, "schedule": schedule,
                       "messages": message(&sending.receiver, "hi") });
    let of_segment = schedules("/messages/schedule/create", body).await;

    let line = |what: &str, outcome: &str, id: &str| {
        format!("! pending schedules {what} (1) {outcome}: {id}")
    };
    let mut paused = workspace.clone();
    let canvas = json!({ "id": CANVAS, "name": "Onboarding",
                         "messages": message(&sending.receiver, "other") });
    let mut campaigns = campaign(&message(&sending.receiver, TEXT));
    campaigns[0]["paused"] = true.into();
    paused = paused.with("canvases", json!([canvas])).with("campaigns", campaigns);
    paused = paused.with("content_blocks", blocks("a", "2"));
    let said = printed(&apply(&sending, &paused, &["--dry-run"]).await);
    assert_has(
        &said,
        &[
            line("of campaign Hello", "will be missed while it is paused", &of_campaign),
            line("of Canvas Onboarding", "will have the new text", &of_canvas),
            line("with content block inner", "will have the new text", &of_campaign),
        ],
    );
    // The schedule has the messages of its request.
    let other = changed(&workspace, &sending.receiver).with("content_blocks", blocks("a", "1"));
    let said = printed(&apply(&sending, &other, &["--dry-run"]).await);
    assert!(!said.contains("pending schedules"), "{said}");

    // Nothing of it is being sent, so a script need not confirm.
    let bare = emptied(&workspace).with("canvases", json!([])).with("segments", json!([]));
    let said = printed(&apply(&sending, &bare, &["--prune"]).await);
    let missed = "will be missed, because it is removed";
    let fails = "will fail, because it is removed";
    assert_has(
        &said,
        &[
            line("of campaign Hello", missed, &of_campaign),
            line("of Canvas Onboarding", "are cancelled", &of_canvas),
            line("for segment Gold", fails, &of_segment),
            line("with content block inner", fails, &of_campaign),
        ],
    );
    let shown = sending.shown(&of_canvas).await;
    assert_eq!(shown["state"], "cancelled", "{shown}");
    assert_eq!(shown["error"], "the Canvas was removed from the workspace file", "{shown}");
    sending.pass(HOUR).await;
    sending.state(&of_campaign, "missed").await;
    let shown = sending.shown(&of_campaign).await;
    assert_eq!(shown["error"], "the campaign was removed", "{shown}");
    assert!(sending.sent().is_empty());
    sending.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn later_waves_have_the_text_of_the_first() {
    let sending = Sending::start(Backend::Embedded, &[], |receiver| {
        let text = "hello {{canvas.${name}}} {{content_blocks.${outer}}}";
        let canvas = json!({ "id": CANVAS, "name": "Onboarding",
                             "messages": message(receiver, text) });
        vec![
            ("canvases", json!([canvas])),
            ("content_blocks", blocks("a", "1")),
            ("time_zone", json!("Asia/Kathmandu")),
        ]
    })
    .await;
    sending.import(&[("now", Some("Asia/Kathmandu")), ("later", Some("Asia/Karachi"))]).await;
    let zone = TimeZone::get("Asia/Kathmandu").expect("a known zone");
    let (_, id) = sending
        .schedule_soon(
            |due| json!({ "time": zone.to_datetime(due).to_string(), "in_local_time": true }),
        )
        .await;
    sending.at_rest(1).await;
    let bare = sending.workspace.clone().with("canvases", json!([]));
    let bare = bare.with("content_blocks", json!({}));
    let said = printed(&apply(&sending, &bare, &["--prune", "--yes"]).await);
    assert_has(&said, &["! running sends of Canvas Onboarding (1) continue".into()]);
    assert_eq!(sending.shown(&id).await["state"], "sending", "later zones wait");
    sending.pass(45 * 60_000 - 500).await;
    sending.at_rest(2).await;
    assert_eq!(texts(&sending), ["hello Onboarding a1"]);
    assert_eq!(sending.users(), ["later", "now"]);
    sending.pass(24 * HOUR).await;
    eventually("it is over", || async { !sending.shown(&id).await["ended_at"].is_null() }).await;
    sending
        .wait_for_count("SELECT count(*) FROM dispatches WHERE state = 'done'", |n| n == 1)
        .await;
    sending.fleet.close().await;
}
