//! Deliveries: listed and shown without secrets, sent again, and only those of the workspace.

use longshore::app::App;
use longshore::deliveries::{self, NewDelivery};
use regex::Regex;
use serde_json::json;
use uuid::Uuid;

use super::{audited, workspace_id};
use crate::support::console::{self, Browser};
use crate::support::fleet::{Backend, Fleet};
use crate::support::receiver::{Receiver, ScriptedResponse};
use crate::support::{WorkspaceFile, eventually};

const SUBJECT: &str = "<script>alert(1)</script>";

async fn enqueue(app: &App, workspace_id: i32, subject: &str, url: String) -> Uuid {
    let mut tx = app.store.write().await.expect("a transaction");
    let delivery = NewDelivery {
        workspace_id,
        kind: deliveries::EXPORT_CALLBACK,
        subject: subject.into(),
        follows: None,
        url,
        body: r#"{"success":true,"url":"https://h/download?signature=hidden"}"#.into(),
        request_id: "request-1".into(),
    };
    let id = deliveries::enqueue(&mut tx, &app.config, &app.clock, delivery).await.expect("stored");
    tx.commit().await.expect("a commit");
    id
}

async fn a_delivery_is_shown_and_sent_again(backend: Backend) {
    let fleet = Fleet::start(backend, &console::settings()).await;
    fleet.apply(&[WorkspaceFile::new("acme"), WorkspaceFile::new("beta")]).await;
    let [acme, beta] = [workspace_id(&fleet, "acme").await, workspace_id(&fleet, "beta").await];
    let app = App::open(fleet.config()).await.expect("all opens");
    let receiver = Receiver::start([ScriptedResponse::Says(500, "<b>no disk</b>".into())]).await;
    let id = enqueue(&app, acme, SUBJECT, receiver.url("/hidden-path?token=hidden")).await;
    let path = format!("/w/acme/deliveries/{id}");
    let olga = Browser::signed_in(&fleet, "olga", "operator").await;

    eventually("the first attempt failed", async || {
        olga.get(&path).await.text.contains("The receiver has an error")
    })
    .await;
    let shown = olga.get(&path).await.text;
    assert!(shown.contains("&lt;b&gt;no disk") && !shown.contains("<b>no disk"), "{shown}");
    for secret in ["hidden-path", "=hidden", "signature"] {
        assert!(!shown.contains(secret), "{secret}: {shown}");
    }
    assert!(shown.contains("docs/runbooks/callbacks-given-up.md"), "{shown}");
    let list = olga.get("/w/acme/deliveries").await.text;
    assert!(list.contains(&format!("href=\"{path}\"")) && !list.contains("<script>a"), "{list}");
    assert!(!list.contains("hidden-path") && list.contains("500"), "{list}");

    // Before the next attempt is due; and once more after its end, with the same webhook-id.
    for count in [2, 3] {
        let sent = olga.post(&format!("{path}/resend"), &[]).await;
        assert_eq!(sent.status, 303, "{sent:?}");
        assert!(sent.location().starts_with(&path), "{sent:?}");
        assert_eq!(olga.get(sent.location()).await.status, 200);
        let received = receiver.wait_for(count).await;
        let ids = received.iter().map(|request| request.header("webhook-id").to_owned());
        assert!(ids.collect::<Vec<_>>().windows(2).all(|pair| pair[0] == pair[1]));
        eventually("it is delivered", async || {
            olga.get("/w/acme/deliveries?state=delivered").await.text.contains(&id.to_string())
        })
        .await;
    }
    let entries = audited(&fleet, "delivery.").await;
    assert_eq!(entries.len(), 2, "{entries:?}");
    for (entry, before) in entries.iter().zip(["delivered", "pending"]) {
        assert_eq!(entry["action"], "delivery.resend");
        assert_eq!(entry["actor"], "console:olga");
        assert_eq!((&entry["workspace"], &entry["object"]), (&json!("acme"), &json!(id)));
        assert_eq!(entry["details"], json!({ "before": before, "after": "pending" }));
    }

    // The body may have personal data.
    let body = format!("{path}/body");
    assert_eq!(olga.get(&body).await.status, 403);
    let ana = Browser::signed_in(&fleet, "ana", "admin").await;
    let shown = ana.get(&body).await.text;
    assert!(shown.contains("success") && shown.contains("signature=***"), "{shown}");
    assert!(!shown.contains("hidden-path") && !shown.contains("=hidden"), "{shown}");
    let entries = audited(&fleet, "delivery.body").await;
    assert_eq!(entries[0]["actor"], "console:ana", "{entries:?}");

    let other = enqueue(&app, beta, "other", receiver.url("/")).await;
    for (path, status) in [
        (format!("/w/acme/deliveries/{other}"), 404),
        (format!("/w/acme/deliveries/{other}/body"), 404),
        ("/w/acme/deliveries/7".into(), 404),
        ("/w/acme/deliveries?state=lost".into(), 400),
        ("/w/acme/deliveries?kind=%3Cscript%3E".into(), 400),
        ("/w/acme/deliveries?before=1".into(), 400),
    ] {
        let response = ana.get(&path).await;
        assert_eq!(response.status, status, "{path}: {response:?}");
        assert!(!response.text.contains("<script>"), "{path}: {}", response.text);
    }
    assert_eq!(ana.post(&format!("/w/acme/deliveries/{other}/resend"), &[]).await.status, 404);
    for (query, is_listed) in [
        ("kind=export_callback", true),
        ("kind=slack_notification", false),
        ("subject=%3Cscript%3Ealert(1)%3C/script%3E", true),
        ("subject=other", false),
    ] {
        let list = ana.get(&format!("/w/acme/deliveries?{query}")).await;
        assert_eq!(list.text.contains(&id.to_string()), is_listed, "{query}: {list:?}");
    }
    app.log.close().await;
    app.store.close().await;
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_is_shown_and_sent_again_on_sqlite() {
    a_delivery_is_shown_and_sent_again(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_is_shown_and_sent_again_on_postgres() {
    a_delivery_is_shown_and_sent_again(Backend::Fleet(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_delivery_is_on_one_page_of_the_list() {
    let fleet = Fleet::start(Backend::Embedded, &console::settings()).await;
    fleet.apply(&[WorkspaceFile::new("acme")]).await;
    let acme = workspace_id(&fleet, "acme").await;
    let app = App::open(fleet.config()).await.expect("all opens");
    let receiver = Receiver::start([]).await;
    let mut expected = Vec::new();
    for number in 0..51 {
        let id = enqueue(&app, acme, &format!("subject-{number}"), receiver.url("/")).await;
        expected.insert(0, id.to_string());
    }
    let ana = Browser::signed_in(&fleet, "ana", "viewer").await;
    let link = Regex::new(r#"href="/w/acme/deliveries/([0-9a-f-]{36})""#).expect("an expression");
    let next = Regex::new(r#"href="([^"]+)" rel="next""#).expect("an expression");
    let (mut found, mut path) = (Vec::new(), "/w/acme/deliveries".to_owned());
    loop {
        let page = ana.get(&path).await;
        found.extend(link.captures_iter(&page.text).map(|link| link[1].to_owned()));
        let Some(address) = next.captures(&page.text) else { break };
        path = address[1].replace("&amp;", "&");
    }
    assert_eq!(found, expected);
    app.log.close().await;
    app.store.close().await;
    fleet.close().await;
}
