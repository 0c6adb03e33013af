//! Sends on the pages of the console: found, watched, cancelled, their recipients listed; and what
//! a campaign would send to a user.

use reqwest::Method;
use serde_json::{Value, json};

use super::audited;
use crate::messages::sending::{CAMPAIGN, Sending, message, slow};
use crate::support::console::{self, Browser, PageResponse};
use crate::support::fleet::Backend;
use crate::support::receiver::ScriptedResponse;
use crate::support::{WorkspaceFile, eventually};

const SEGMENT: &str = "bbbb0000-0000-4000-8000-000000000003";
const HOSTILE: &str = "\"><script>alert(1)</script>";
const SENDS: &str = "/w/acme/sends";
const PREVIEW: &str = "/w/acme/preview";

/// An installation with `users` users, all of them in the segment, and a campaign with this name.
async fn start(backend: Backend, users: usize, campaign: &str) -> Sending {
    let sending = Sending::start(backend, &console::settings(), |receiver| {
        let everybody = json!({ "email_subscription_status": {
            "comparison": "is_not", "value": "opted_in",
        } });
        let mut messages = message(receiver, "Hi {{api_trigger_properties.${code}}}");
        messages["webhook"]["url"] = "https://hooks.acme.example/s3cret".into();
        messages["webhook"]["request_headers"] = json!({ "Authorization": "Bearer s3cret" });
        let campaign =
            json!({ "id": CAMPAIGN, "name": campaign, "type": "api", "messages": messages });
        vec![
            ("segments", json!([{ "id": SEGMENT, "name": "Gold", "audience": everybody }])),
            ("campaigns", json!([campaign])),
        ]
    })
    .await;
    let ids: Vec<String> = (0..users).map(|number| format!("u{number:04}")).collect();
    let users: Vec<(&str, Option<&str>)> = ids.iter().map(|id| (id.as_str(), None)).collect();
    sending.import(&users).await;
    sending
}

/// Sends to the segment, or to these users; returns the dispatch's id.
async fn send(sending: &Sending, users: &[&str]) -> String {
    let mut body = json!({
        "campaign_id": CAMPAIGN, "send_id": "spring",
        "messages": message(&sending.receiver, "hello"),
    });
    if users.is_empty() {
        body["broadcast"] = true.into();
        body["segment_id"] = SEGMENT.into();
    } else {
        body["external_user_ids"] = json!(users);
    }
    let sent = sending.api.post("/messages/send", &body).await;
    assert_eq!(sent.status, 201, "{sent:?}");
    sent.body["dispatch_id"].as_str().expect("a dispatch_id").to_owned()
}

/// The page of a send once it has this state.
async fn when(browser: &Browser, id: &str, state: &str) -> PageResponse {
    let path = format!("{SENDS}/{id}");
    let pill = format!("</svg>{state}</span>");
    eventually(&format!("{id} is {state}"), || async {
        browser.get(&path).await.text.contains(&pill)
    })
    .await;
    browser.get(&path).await
}

fn assert_has(page: &PageResponse, parts: &[&str]) {
    assert_eq!(page.status, 200, "{page:?}");
    for part in parts {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
}

async fn a_send_is_found_watched_and_cancelled(backend: Backend) {
    let sending = start(backend, 1_000, HOSTILE).await;
    for _ in 0..3 {
        sending.receiver.script(slow(100));
    }
    let id = send(&sending, &[]).await;
    sending.receiver.wait_for(20).await;
    let browser = Browser::signed_in(&sending.fleet, "ana", "operator").await;
    let path = format!("{SENDS}/{id}");
    let list = browser.get(SENDS).await;
    let parts = ["Segment Gold", "Webhook", "spring", "Running", "&lt;script&gt;", path.as_str()];
    assert_has(&list, &parts);
    assert!(!list.text.contains("<script>alert"), "{}", list.text);
    let page = when(&browser, &id, "Running").await;
    assert_has(&page, &["Cancel the send", "longshore dispatches cancel", "&lt;script&gt;"]);
    assert!(!page.text.contains("<script>alert"), "{}", page.text);
    assert!(!page.text.contains("/recipients\""), "an operator sees no users: {}", page.text);

    // The part that an open page loads again.
    for path in [SENDS, path.as_str()] {
        let update = || browser.request(Method::GET, path).header("hx-request", "true");
        let part = browser.send(path, update()).await;
        assert!(part.status == 200 && !part.text.contains("<html"), "{part:?}");
        assert!(part.headers.contains_key("etag"), "{part:?}");
    }

    let cancel = format!("{path}/cancel");
    let cancelled = browser.post(&cancel, &[]).await;
    assert_eq!((cancelled.status.as_u16(), cancelled.location()), (303, path.as_str()));
    let page = when(&browser, &id, "Cancelled").await;
    assert_has(&page, &["Nothing more goes out", "were never reached"]);
    assert!(!page.text.contains("Cancel the send"), "{}", page.text);
    let arrived = sending.sent().len();
    assert_eq!(browser.post(&cancel, &[]).await.status, 303, "it is cancelled already");
    let entries = audited(&sending.fleet, "dispatch.").await;
    assert_eq!(entries.len(), 1, "{entries:?}");
    let entry = &entries[0];
    assert_eq!((&entry["actor"], &entry["object"]), (&json!("console:ana"), &json!(id)));
    assert_eq!(entry["details"]["before"], "running", "{entry}");
    let after = entry["details"]["after"].as_str().expect("a state");
    assert!(["cancelling", "cancelled"].contains(&after), "{entry}");
    let Sending { fleet, receiver, .. } = sending;
    fleet.close().await;
    assert_eq!(receiver.received().len(), arrived, "messages arrived later");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_is_found_watched_and_cancelled_embedded() {
    a_send_is_found_watched_and_cancelled(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_is_found_watched_and_cancelled_in_a_fleet() {
    a_send_is_found_watched_and_cancelled(Backend::Fleet(1)).await;
}

async fn its_outcomes_reasons_and_recipients_are_shown(backend: Backend) {
    let sending = start(backend, 10, "News").await;
    sending.receiver.script((0..3).map(|_| ScriptedResponse::Status(400)));
    let id = send(&sending, &[]).await;
    let files = [sending.workspace.clone(), WorkspaceFile::new("beta")];
    sending.fleet.apply(&files).await;
    let browser = Browser::signed_in(&sending.fleet, "ana", "admin").await;
    let page = when(&browser, &id, "Done").await;
    let listed = send(&sending, &["u0001", "nobody"]).await;
    let path = format!("{SENDS}/{id}");
    let failed = format!("{path}/recipients?outcome=failed");
    assert_has(&page, &["In the audience", "All messages", "Reasons", "responded 400", &failed]);
    // A receiver's response can name a user.
    let viewer = Browser::signed_in(&sending.fleet, "vera", "viewer").await;
    let shown = viewer.get(&path).await;
    assert_has(&shown, &["Reasons", "users.view"]);
    assert!(!shown.text.contains("responded 400"), "{}", shown.text);
    assert_eq!(browser.post(&format!("{path}/cancel"), &[]).await.status, 409);
    let counted = browser.get(&format!("{path}?count=1")).await;
    assert_has(&counted, &["All messages", &failed]);
    let page = when(&browser, &listed, "Done").await;
    assert_has(&page, &["2 listed users", "Unknown"]);

    let recipients = browser.get(&failed).await;
    assert_eq!(recipients.status, 200, "{recipients:?}");
    assert_eq!(recipients.text.matches("/w/acme/users/").count(), 3, "{}", recipients.text);
    let all = browser.get(&format!("{path}/recipients")).await;
    assert_eq!(all.text.matches("/w/acme/users/").count(), 10, "{}", all.text);
    assert_has(&all, &["u0000", "u0009"]);
    let entries = audited(&sending.fleet, "dispatch.recipients").await;
    let outcomes: Vec<&Value> = entries.iter().map(|entry| &entry["details"]["outcome"]).collect();
    assert_eq!(outcomes, ["all", "failed"], "{entries:?}");
    assert!(entries.iter().all(|entry| entry["object"] == *id), "{entries:?}");
    assert!(!json!(entries).to_string().contains("u0000"), "{entries:?}");

    for (path, status) in [
        (format!("{path}/recipients?outcome=lost"), 400),
        (format!("{path}/recipients?cursor=x"), 400),
        (format!("{SENDS}/{}", "0".repeat(32)), 404),
        (format!("{SENDS}/{id}0"), 404),
        (format!("/w/beta/sends/{id}"), 404),
        (format!("/w/beta/sends/{id}/recipients"), 404),
    ] {
        let page = browser.get(&path).await;
        assert_eq!(page.status, status, "{path}: {page:?}");
    }
    assert_eq!(browser.post(&format!("/w/beta/sends/{id}/cancel"), &[]).await.status, 404);
    let other = browser.get("/w/beta/sends").await;
    assert_has(&other, &["No sends yet"]);
    sending.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn its_outcomes_reasons_and_recipients_are_shown_embedded() {
    its_outcomes_reasons_and_recipients_are_shown(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn its_outcomes_reasons_and_recipients_are_shown_in_a_fleet() {
    its_outcomes_reasons_and_recipients_are_shown(Backend::Fleet(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_is_filtered_and_has_pages() {
    let sending = start(Backend::Embedded, 1, "News").await;
    let mut last = String::new();
    for _ in 0..51 {
        last = send(&sending, &["u0000"]).await;
    }
    let browser = Browser::signed_in(&sending.fleet, "ana", "viewer").await;
    when(&browser, &last, "Done").await;
    let rows = |page: &PageResponse| page.text.matches("<tr id=\"row-").count();
    let first = browser.get(SENDS).await;
    assert_eq!(rows(&first), 50, "{}", first.text);
    let (_, after) = first.text.split_once("cursor=").expect("an older page");
    let cursor = after.split('"').next().expect("the end of the address");
    assert_eq!(rows(&browser.get(&format!("{SENDS}?cursor={cursor}")).await), 1);
    for (query, count) in [
        (format!("campaign={CAMPAIGN}"), 50),
        (format!("campaign={SEGMENT}"), 0),
        ("state=failed".to_owned(), 0),
        ("since=2199-01-01T00:00".to_owned(), 0),
        ("since=2001-01-01T00:00&until=2199-01-01".to_owned(), 50),
        ("state=&campaign=&since=&until=".to_owned(), 50),
    ] {
        let page = browser.get(&format!("{SENDS}?{query}")).await;
        assert_eq!((page.status.as_u16(), rows(&page)), (200, count), "{query}: {}", page.text);
    }
    for (query, status, part) in [
        ("since=yesterday", 422, "since-error"),
        ("since=2026-01-02&until=2026-01-01", 422, "until-error"),
        ("campaign=%3Cscript%3E", 422, "campaign-error"),
        ("state=lost", 400, "state must be"),
        ("cursor=x", 400, "cursor must be"),
    ] {
        let page = browser.get(&format!("{SENDS}?{query}")).await;
        assert_eq!(page.status, status, "{query}: {page:?}");
        assert!(page.text.contains(part) && !page.text.contains("<script>"), "{}", page.text);
    }
    sending.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preview_shows_what_a_user_would_get_and_sends_nothing() {
    let sending = start(Backend::Embedded, 2, HOSTILE).await;
    let browser = Browser::signed_in(&sending.fleet, "ana", "admin").await;
    let form = browser.get(&format!("{PREVIEW}?campaign={CAMPAIGN}")).await;
    assert_has(&form, &["&lt;script&gt;", "selected"]);
    let values = [
        ("campaign", CAMPAIGN),
        ("user", "u0001"),
        ("trigger_properties", r#"{"code":"<b>X</b>"}"#),
    ];
    let page = browser.post(PREVIEW, &values).await;
    assert_has(&page, &["Would be sent", "Hi &lt;b&gt;X&lt;/b&gt;", "https://hooks.acme.example"]);
    assert!(!page.text.contains("s3cret") && !page.text.contains("<script>a"), "{}", page.text);
    let entries = audited(&sending.fleet, "user.preview").await;
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert_eq!(entries[0]["details"]["campaign_id"], CAMPAIGN, "{entries:?}");
    assert!(!json!(entries).to_string().contains("u0001"), "{entries:?}");

    // What would not be sent is shown with the reason.
    let messages = message(&sending.receiver, "Hi {{api_trigger_properties.${code}}}");
    let paused = json!([{ "id": CAMPAIGN, "name": HOSTILE, "type": "api", "paused": true,
                          "messages": messages }]);
    sending.fleet.apply(&[sending.workspace.clone().with("campaigns", paused)]).await;
    let page = browser.post(PREVIEW, &values).await;
    let expected = ["Would not be sent", "The campaign is paused", "Hi &lt;b&gt;X&lt;/b&gt;"];
    assert_has(&page, &expected);
    assert!(!page.text.contains("Would be sent"), "{}", page.text);

    // All errors at once, next to their fields; what was entered stays.
    let wrong = [("campaign", "x"), ("user", "nobody"), ("event_properties", "[1]")];
    let page = browser.post(PREVIEW, &wrong).await;
    assert_eq!(page.status, 422, "{page:?}");
    for part in ["campaign-error", "user-error", "event_properties-error", "nobody", "[1]"] {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    assert_eq!(audited(&sending.fleet, "user.preview").await.len(), 2);
    let entries = audited(&sending.fleet, "user.search").await;
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert_eq!(entries[0]["details"], json!({ "users": [] }), "{entries:?}");
    assert!(sending.sent().is_empty(), "a preview sends nothing");
    let viewer = Browser::signed_in(&sending.fleet, "vera", "viewer").await;
    assert_eq!(viewer.get(PREVIEW).await.status, 403);
    sending.fleet.close().await;
}
