//! The developer console: past sends to segments, each on one page, with a link to the send.

use std::collections::BTreeSet;

use regex::Regex;
use serde_json::json;

use super::execute;
use crate::messages::sending::{Sending, message};
use crate::support::console::{self, Browser};
use crate::support::eventually;
use crate::support::fleet::{Backend, Fleet};
use crate::support::workspace::WorkspaceFile;

const DEVELOPER: &str = "/w/acme/developer";
const SEGMENT: &str = "bbbb0000-0000-4000-8000-000000000004";
const HOSTILE: &str = "<script>alert(1)</script>";

async fn a_send_to_a_segment_is_recorded(backend: Backend) {
    let sending = Sending::start(backend, &console::settings(), |_| {
        let everybody = json!({ "email_subscription_status": {
            "comparison": "is_not", "value": "opted_in",
        } });
        vec![("segments", json!([{ "id": SEGMENT, "name": HOSTILE, "audience": everybody }]))]
    })
    .await;
    sending.import(&[("ann", None), ("ben", None)]).await;
    let mut messages = message(&sending.receiver, "hello");
    messages["webhook"]["request_headers"] = json!({ "Authorization": "Bearer s3cret" });
    let body = json!({ "broadcast": true, "segment_id": SEGMENT, "messages": messages });
    let sent = sending.api.post("/messages/send", &body).await;
    assert_eq!(sent.status, 201, "{sent:?}");
    let id = sent.body["dispatch_id"].as_str().expect("a dispatch_id");
    let vera = Browser::signed_in(&sending.fleet, "vera", "viewer").await;
    let link = format!("href=\"/w/acme/sends/{id}\"");
    eventually("the send is recorded", async || vera.get(DEVELOPER).await.text.contains(&link))
        .await;
    let page = vera.get(DEVELOPER).await.text;
    assert!(page.contains("&lt;script&gt;") && !page.contains(HOSTILE), "{page}");
    assert!(page.contains(r#"data-label="Sent">2<"#), "{page}");
    assert!(!page.contains("s3cret"), "{page}");
    assert_eq!(vera.get(&format!("/w/acme/sends/{id}")).await.status, 200);
    sending.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_to_a_segment_is_recorded_on_sqlite() {
    a_send_to_a_segment_is_recorded(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_to_a_segment_is_recorded_on_postgres() {
    a_send_to_a_segment_is_recorded(Backend::Fleet(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_record_is_on_one_page() {
    const RECORDS: usize = 120;
    let fleet = Fleet::start(Backend::Embedded, &console::settings()).await;
    fleet.apply(&[WorkspaceFile::new("acme"), WorkspaceFile::new("beta")]).await;
    // Several ended at the same time.
    let added = execute(
        &fleet,
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 120)
         INSERT INTO console_log (dispatch_id, workspace_id, at, record)
         SELECT randomblob(16), (SELECT id FROM workspaces WHERE name = 'acme'), i / 3, $1 FROM n",
        r#"{"call": "send", "results": {"users": 1}}"#,
    )
    .await;
    assert_eq!(added, RECORDS as u64);
    // One whose results cannot be read, and one with long messages, are on it, too.
    let unknown = r#"{"results": {"users": "many"}}"#;
    execute(&fleet, "UPDATE console_log SET record = $1 WHERE at = 0", unknown).await;
    let long =
        json!({ "messages": "x".repeat(100_000), "results": { "users": 4_321 } }).to_string();
    execute(&fleet, "UPDATE console_log SET record = $1 WHERE at = 1", &long).await;
    let vera = Browser::signed_in(&fleet, "vera", "viewer").await;
    let link = Regex::new(r#"href="/w/acme/sends/([0-9a-f]{32})""#).expect("an expression");
    let next = Regex::new(r#"href="([^"]+)" rel="next""#).expect("an expression");
    let (mut found, mut path) = (Vec::new(), DEVELOPER.to_owned());
    let mut has_long = false;
    loop {
        let page = vera.get(&path).await;
        assert_eq!(page.status, 200, "{page:?}");
        has_long |= page.text.contains(">4,321<");
        found.extend(link.captures_iter(&page.text).map(|link| link[1].to_owned()));
        let Some(address) = next.captures(&page.text) else { break };
        path = address[1].replace("&amp;", "&");
    }
    assert!(has_long && found.len() == RECORDS, "{has_long}, {}", found.len());
    assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), RECORDS);
    // A page cannot start after a record of another workspace.
    let other = vera.get(&format!("/w/beta/developer?before={}", found[0])).await;
    assert!(other.status == 200 && !link.is_match(&other.text), "{other:?}");
    assert_eq!(vera.get(&format!("{DEVELOPER}?before=x")).await.status, 400);
    fleet.close().await;
}
