//! Scheduled sends on the pages of the console: what is due when, and its cancellation.

use serde_json::{Value, json};
use uuid::Uuid;

use super::audited;
use crate::messages::sending::{CAMPAIGN, CANVAS, CREATE, Sending, message};
use crate::support::console::{self, Browser};
use crate::support::fleet::Backend;
use crate::support::{WorkspaceFile, eventually};

const SEGMENT: &str = "bbbb0000-0000-4000-8000-000000000003";
const HOSTILE: &str = "\"><script>alert(1)</script>";
const SCHEDULES: &str = "/w/acme/schedules";

async fn start(backend: Backend) -> Sending {
    Sending::start(backend, &console::settings(), |receiver| {
        let audience = json!({ "email_subscription_status": {
            "comparison": "is_not", "value": "opted_in",
        } });
        let campaign = json!({ "id": CAMPAIGN, "name": HOSTILE, "type": "api",
                               "messages": message(receiver, "hello") });
        vec![
            ("segments", json!([{ "id": SEGMENT, "name": "Gold", "audience": audience }])),
            ("campaigns", json!([campaign])),
        ]
    })
    .await
}

/// Schedules the campaign for the segment at a time; returns the schedule's id.
async fn schedule(sending: &Sending, time: &str) -> String {
    schedule_text(sending, time, "hello").await
}

async fn schedule_text(sending: &Sending, time: &str, text: &str) -> String {
    let body = json!({
        "campaign_id": CAMPAIGN, "broadcast": true, "segment_id": SEGMENT,
        "messages": message(&sending.receiver, text), "schedule": { "time": time },
    });
    id(sending, "/messages/schedule/create", &body).await
}

async fn id(sending: &Sending, path: &str, body: &Value) -> String {
    let response = sending.api.post(path, body).await;
    assert_eq!(response.status, 201, "{response:?}");
    response.body["schedule_id"].as_str().expect("a schedule_id").to_owned()
}

fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part}: {text}");
    }
}

async fn a_schedule_is_found_and_cancelled(backend: Backend) {
    let sending = start(backend).await;
    // Its messages are long, and have the escape of a character that PostgreSQL does not store.
    let text = format!("\u{0}{}", "x".repeat(100_000));
    let later = schedule_text(&sending, "2099-01-02T01:00:00+01:00", &text).await;
    let tier = json!({ "custom_attribute": {
        "custom_attribute_name": "tier", "comparison": "equals", "value": "gold",
    } });
    let canvas = json!({
        "canvas_id": CANVAS, "schedule": { "time": "2099-01-01T09:30:00", "in_local_time": true },
        "recipients": [{ "external_user_id": "u-ann" }, { "external_user_id": "u-bob" }],
        "audience": tier,
    });
    let sooner = id(&sending, CREATE, &canvas).await;
    sending.fleet.apply(&[sending.workspace.clone(), WorkspaceFile::new("beta")]).await;

    let viewer = Browser::signed_in(&sending.fleet, "vera", "viewer").await;
    let list = viewer.get(SCHEDULES).await.text;
    assert_has(
        &list,
        &[
            "&lt;script&gt;",
            "Campaign · Webhook",
            "Segment Gold",
            "2099-01-02 00:00:00 UTC",
            "Onboarding",
            "2 listed users, limited by an audience",
            "2099-01-01 09:30:00",
        ],
    );
    for state in ["pending", "sending"] {
        let command = format!("longshore schedules list --workspace=acme --state={state}");
        assert!(list.contains(&command), "{command}: {list}");
    }
    assert!(!list.contains("<script>alert") && !list.contains("u-ann"), "{list}");
    let position = |id: &str| list.find(id).unwrap_or_else(|| panic!("{id}: {list}"));
    assert!(position(&sooner) < position(&later), "in the order of their times: {list}");
    let page = viewer.get(&format!("{SCHEDULES}/{sooner}")).await.text;
    assert_has(&page, &["Upcoming", "tier", "Times that passed", "canvas/trigger/schedule/delete"]);
    assert!(!page.contains("u-ann") && !page.contains("Cancel the schedule"), "{page}");
    let path = format!("{SCHEDULES}/{later}");
    let page = viewer.get(&path).await.text;
    let segment = format!("/w/acme/segments/{SEGMENT}");
    assert_has(&page, &["&lt;script&gt;", &segment, "messages/schedule/delete"]);
    let cancel = format!("{path}/cancel");
    assert_eq!(viewer.post(&cancel, &[]).await.status, 403);

    let browser = Browser::signed_in(&sending.fleet, "olga", "operator").await;
    assert_has(&browser.get(&path).await.text, &["Cancel the schedule", &cancel]);
    for _ in 0..2 {
        let cancelled = browser.post(&cancel, &[]).await;
        assert_eq!((cancelled.status.as_u16(), cancelled.location()), (303, path.as_str()));
    }
    assert_has(&browser.get(&path).await.text, &["Cancelled", "Nothing was sent"]);
    let list = browser.get(SCHEDULES).await.text;
    assert!(list.contains(&sooner) && !list.contains(&later), "{list}");
    let entries = audited(&sending.fleet, "schedule.cancel").await;
    assert_eq!(entries.len(), 1, "{entries:?}");
    let entry = &entries[0];
    assert_eq!((&entry["actor"], &entry["object"]), (&json!("console:olga"), &json!(later)));
    assert_eq!(entry["details"], json!({ "before": "pending", "after": "cancelled" }));

    for id in [sooner.clone(), Uuid::new_v4().to_string(), "x".to_owned()] {
        let workspace = if id == sooner { "beta" } else { "acme" };
        let path = format!("/w/{workspace}/schedules/{id}");
        assert_eq!(browser.get(&path).await.status, 404, "{path}");
        assert_eq!(browser.post(&format!("{path}/cancel"), &[]).await.status, 404, "{path}");
    }
    assert_eq!(sending.shown(&sooner).await["state"], "pending");
    let other = browser.get("/w/beta/schedules").await;
    assert_has(&other.text, &["No upcoming schedules"]);
    sending.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_is_found_and_cancelled_embedded() {
    a_schedule_is_found_and_cancelled(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_is_found_and_cancelled_in_a_fleet() {
    a_schedule_is_found_and_cancelled(Backend::Fleet(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sent_schedule_links_to_its_send_and_cannot_be_cancelled() {
    let sending = start(Backend::Embedded).await;
    sending.import(&[("ann", None)]).await;
    let (_, id) = sending.schedule_soon(|due| json!({ "time": due.to_string() })).await;
    sending.state(&id, "sent").await;
    let browser = Browser::signed_in(&sending.fleet, "olga", "operator").await;
    let path = format!("{SCHEDULES}/{id}");
    let page = browser.get(&path).await.text;
    assert!(!page.contains("Cancel the schedule"), "{page}");
    let (_, send) = page.split_once("/w/acme/sends/").expect("a link to the send");
    let send = format!("/w/acme/sends/{}", send.split('"').next().expect("the end of the link"));
    eventually("the send is done", || async {
        browser.get(&send).await.text.contains("</svg>Done</span>")
    })
    .await;
    assert_eq!(browser.post(&format!("{path}/cancel"), &[]).await.status, 409);
    assert!(audited(&sending.fleet, "schedule.cancel").await.is_empty());
    sending.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missed_schedules_are_shown_with_their_reason() {
    let sending = start(Backend::Embedded).await;
    let missed = schedule(&sending, "2099-01-01T00:00:00Z").await;
    let browser = Browser::signed_in(&sending.fleet, "vera", "viewer").await;
    let list = format!("{SCHEDULES}?show=missed");
    assert_has(&browser.get(&list).await.text, &["No missed schedules"]);
    let sql = "UPDATE schedules
               SET state = 'missed', ended_at = created_at, error = '<b>no worker</b>'";
    sending.execute(sql).await;
    assert_has(&browser.get(&list).await.text, &["Missed", &missed]);
    assert_has(&browser.get(SCHEDULES).await.text, &["No upcoming schedules"]);
    let page = browser.get(&format!("{SCHEDULES}/{missed}")).await.text;
    assert_has(&page, &["&lt;b&gt;no worker", "docs/runbooks/schedule-not-sent.md"]);
    assert_eq!(browser.get(&format!("{SCHEDULES}?show=all")).await.status, 400);
    sending.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_schedules_has_pages() {
    let sending = start(Backend::Embedded).await;
    let mut ids = Vec::new();
    for minute in 0..51 {
        ids.push(schedule(&sending, &format!("2099-01-01T00:{minute:02}:00Z")).await);
    }
    let browser = Browser::signed_in(&sending.fleet, "vera", "viewer").await;
    let first = browser.get(SCHEDULES).await.text;
    assert!(ids[..50].iter().all(|id| first.contains(id)) && !first.contains(&ids[50]), "{first}");
    let (_, after) = first.split_once("schedules?after=").expect("another page");
    let after = after.split('"').next().expect("the end of the address");
    let second = browser.get(&format!("{SCHEDULES}?after={after}")).await.text;
    assert!(second.contains(&ids[50]) && !second.contains(&ids[49]), "{second}");
    assert_eq!(browser.get(&format!("{SCHEDULES}?after=x")).await.status, 400);
    sending.fleet.close().await;
}
