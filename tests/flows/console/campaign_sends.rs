//! A campaign is sent to a segment from the console: checked before, once for each form, and only by
//! people who may.

use regex::Regex;
use serde_json::{Value, json};

use super::audited;
use crate::messages::sending::{CAMPAIGN, Sending, message};
use crate::support::console::{self, Browser, PageResponse};
use crate::support::eventually;
use crate::support::fleet::Backend;

const SEGMENT: &str = "bbbb0000-0000-4000-8000-000000000003";
const PAUSED: &str = "bbbb0000-0000-4000-8000-000000000004";
const THANKS: &str = "bbbb0000-0000-4000-8000-000000000005";
const EMPTY: &str = "bbbb0000-0000-4000-8000-000000000006";
const UNKNOWN: &str = "bbbb0000-0000-4000-8000-00000000000f";
const HOSTILE: &str = "\"><script>alert(1)</script>";
const NEW: &str = "/w/acme/sends/new";

/// Three users in the segment, and campaigns of which one can be sent.
async fn start(backend: Backend) -> Sending {
    let sending = Sending::start(backend, &console::settings(), |receiver| {
        let everybody = json!({ "email_subscription_status": {
            "comparison": "is_not", "value": "opted_in",
        } });
        let messages = message(receiver, "hello");
        let purchase = json!({ "purchase": { "product_id": "shoes" } });
        vec![
            ("frequency_capping", json!([{ "messages": 1, "days": 1 }])),
            ("segments", json!([{ "id": SEGMENT, "name": HOSTILE, "audience": everybody }])),
            ("campaigns", json!([
                { "id": CAMPAIGN, "name": HOSTILE, "type": "api", "messages": messages },
                { "id": PAUSED, "name": "Paused", "type": "api", "paused": true, "messages": messages },
                { "id": THANKS, "name": "Thanks", "type": "triggered", "trigger": purchase,
                  "messages": messages },
                { "id": EMPTY, "name": "Empty", "type": "api" },
            ])),
        ]
    })
    .await;
    sending.import(&[("ann", None), ("ben", None), ("cyd", None)]).await;
    sending
}

fn review(campaign: &str, segment: &str) -> String {
    format!("{NEW}?campaign={campaign}&segment_id={segment}")
}

/// The key of the form on a page; none if the page offers no send.
fn request_key(page: &PageResponse) -> Option<String> {
    let input = Regex::new(r#"name="request_key" value="([^"]+)""#).expect("an expression");
    input.captures(&page.text).map(|found| found[1].to_owned())
}

async fn dispatches(sending: &Sending) -> Vec<Value> {
    let printed = sending.fleet.run(&["dispatches", "list", "--json"]).await;
    printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

async fn a_campaign_is_checked_and_sent_once(backend: Backend) {
    let sending = start(backend).await;
    let browser = Browser::signed_in(&sending.fleet, "ana", "operator").await;
    for path in ["/w/acme/sends", &format!("/w/acme/segments/{SEGMENT}")] {
        assert!(browser.get(path).await.text.contains("/sends/new"), "{path} offers a send");
    }
    let form = browser.get(&format!("{NEW}?segment_id={SEGMENT}")).await;
    assert_eq!((form.status.as_u16(), request_key(&form)), (200, None), "{form:?}");
    let page = browser.get(&review(CAMPAIGN, SEGMENT)).await;
    assert_eq!(page.status, 200, "{page:?}");
    for part in ["<b>3</b>", "Webhook", "0 of 3 checked users", "campaigns send", "&lt;script&gt;"]
    {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    assert!(!page.text.contains("<script>alert"), "{}", page.text);
    assert!(dispatches(&sending).await.is_empty(), "a check sends nothing");

    let (key, token) = (request_key(&page).expect("a form"), browser.form_token().await);
    let form = [
        ("form_token", token.as_str()),
        ("request_key", key.as_str()),
        ("campaign", CAMPAIGN),
        ("segment_id", SEGMENT),
    ];
    // A double click, and a reload later.
    let (first, second) = tokio::join!(browser.submit(NEW, &form), browser.submit(NEW, &form));
    assert_eq!(first.status, 303, "{first:?}");
    let third = browser.submit(NEW, &form).await;
    for repeat in [&second, &third] {
        assert_eq!((repeat.status.as_u16(), repeat.location()), (303, first.location()));
    }
    let id = first.location().strip_prefix("/w/acme/sends/").expect("the page of a send");
    assert_eq!(browser.get(first.location()).await.status, 200);
    eventually("the send is done", || async {
        dispatches(&sending).await.iter().all(|send| send["state"] == "done")
    })
    .await;
    let mut users: Vec<String> = sending.sent().into_iter().map(|sent| sent.user).collect();
    users.sort();
    assert_eq!(users, ["ann", "ben", "cyd"]);
    let sends = dispatches(&sending).await;
    assert_eq!(sends.len(), 1, "{sends:?}");
    assert_eq!(sends[0]["requested_by"], "console:ana", "{sends:?}");
    let entries = audited(&sending.fleet, "dispatch.send").await;
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert_eq!((&entries[0]["actor"], &entries[0]["object"]), (&json!("console:ana"), &json!(id)));
    let details = json!({ "campaign_id": CAMPAIGN, "segment_id": SEGMENT });
    assert_eq!(entries[0]["details"], details, "{entries:?}");

    // What frequency capping leaves out is known before.
    let page = browser.get(&review(CAMPAIGN, SEGMENT)).await;
    assert!(page.text.contains("3 of 3 checked users would get nothing"), "{}", page.text);
    assert!(page.text.contains("Frequency capping"), "{}", page.text);
    sending.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_is_checked_and_sent_once_embedded() {
    a_campaign_is_checked_and_sent_once(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_is_checked_and_sent_once_in_a_fleet() {
    a_campaign_is_checked_and_sent_once(Backend::Fleet(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_sent_is_named_and_not_offered() {
    let sending = start(Backend::Embedded).await;
    let browser = Browser::signed_in(&sending.fleet, "ana", "admin").await;
    for (campaign, segment, field, reason) in [
        (PAUSED, SEGMENT, "campaign", "is paused"),
        (THANKS, SEGMENT, "campaign", "triggered"),
        (EMPTY, SEGMENT, "campaign", "declares no messages"),
        (UNKNOWN, SEGMENT, "campaign", "Choose a campaign"),
        (CAMPAIGN, UNKNOWN, "segment_id", "Choose a segment"),
        (CAMPAIGN, "", "segment_id", "Choose a segment"),
    ] {
        let key = "0197b6a8-3c55-7e11-9a1f-3f0f3c2d6e54";
        let form = [("campaign", campaign), ("segment_id", segment), ("request_key", key)];
        for page in [browser.get(&review(campaign, segment)).await, browser.post(NEW, &form).await]
        {
            assert_eq!(page.status, 422, "{page:?}");
            let error = format!("id=\"{field}-error\"");
            assert!(page.text.contains(&error) && page.text.contains(reason), "{}", page.text);
            assert_eq!(request_key(&page), None, "{}", page.text);
        }
    }
    // Without the key of a form, a repeat would be another send.
    let form = [("campaign", CAMPAIGN), ("segment_id", SEGMENT)];
    assert_eq!(browser.post(NEW, &form).await.status, 400);
    let foreign = browser.submit(NEW, &form).await;
    assert_eq!(foreign.status, 403, "without the token of the session: {foreign:?}");

    let viewer = Browser::signed_in(&sending.fleet, "vera", "viewer").await;
    for path in ["/w/acme/sends", &format!("/w/acme/segments/{SEGMENT}")] {
        assert!(!viewer.get(path).await.text.contains("/sends/new"), "{path}");
    }
    let page = viewer.get(&review(CAMPAIGN, SEGMENT)).await;
    assert_eq!(page.status, 403, "{page:?}");
    assert!(page.text.contains("messages.send"), "{}", page.text);
    assert_eq!(viewer.post(NEW, &form).await.status, 403);
    assert!(dispatches(&sending).await.is_empty());
    assert!(sending.sent().is_empty());
    sending.fleet.close().await;
}
