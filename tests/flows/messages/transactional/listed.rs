//! Transactional emails are found where people look for sends: in the list of dispatches over HTTP,
//! on the command line and in the console.

use serde_json::{Value, json};

use super::{RECEIPT, Scene, to};
use crate::support::console::{self, Browser};
use crate::support::eventually;
use crate::support::fleet::Backend;

const LIST: &str = "/messages/dispatches";
const ABORTS: &str = "aaaa0000-0000-4000-8000-000000000004";

fn ids(dispatches: &[Value], field: &str) -> Vec<String> {
    dispatches.iter().map(|found| found[field].as_str().expect("an id").to_owned()).collect()
}

async fn emails_are_found_by_kind_and_by_campaign(backend: Backend) {
    let scene = Scene::with(backend, [], &console::settings()).await;
    let mut sent = Vec::new();
    for user in ["ann", "ben", "cyd"] {
        sent.push(scene.sent(&to(user, json!({ "external_send_id": user }))).await);
    }
    let aborted = super::dispatch_id(&scene.send_to(ABORTS, &to("dan", json!({}))).await, 201);
    scene.taken(3).await;
    sent.reverse();
    let found = |query: String| {
        let api = &scene.api;
        async move {
            let page = api.get(&format!("{LIST}?{query}")).await;
            assert_eq!(page.status, 200, "{page:?}");
            page.body["dispatches"].as_array().expect("a list").clone()
        }
    };
    eventually("all emails are settled", || async {
        found("kind=transactional&state=running".into()).await.is_empty()
    })
    .await;

    // The campaign alone leads to its emails, latest first.
    let of_campaign = found(format!("campaign_id={RECEIPT}")).await;
    assert_eq!(ids(&of_campaign, "dispatch_id"), sent);
    let email = &of_campaign[0];
    for (field, value) in [
        ("kind", json!("transactional")),
        ("state", json!("done")),
        ("campaign_name", json!("Receipt")),
        ("send_id", json!("cyd")),
        ("channels", json!(["email"])),
        ("users", json!({ "checked": 1, "total": 1, "matched": 1 })),
    ] {
        assert_eq!(email[field], value, "{field}: {email}");
    }
    assert_eq!(email["messages"]["sent"], 1, "{email}");
    let all = found("kind=transactional".into()).await;
    assert_eq!(ids(&all, "dispatch_id"), [vec![aborted.clone()], sent.clone()].concat());
    assert_eq!(all[0]["messages"]["aborted"], 1, "{}", all[0]);
    for none in [
        String::new(),
        format!("campaign_id={RECEIPT}&kind=send"),
        format!("campaign_id={RECEIPT}&state=failed"),
        format!("campaign_id={RECEIPT}&until=2026-01-01"),
    ] {
        assert!(found(none.clone()).await.is_empty(), "{none}");
    }
    let wrong = scene.api.get(&format!("{LIST}?kind=email")).await;
    assert_eq!(wrong.status, 400, "{wrong:?}");
    assert_eq!(wrong.body["code"], "invalid-request", "{wrong:?}");

    // In pages.
    let (mut paged, mut query) = (Vec::new(), format!("campaign_id={RECEIPT}&limit=2"));
    loop {
        let page = scene.api.get(&format!("{LIST}?{query}")).await;
        paged.extend(ids(page.body["dispatches"].as_array().expect("a list"), "dispatch_id"));
        let Some(cursor) = page.body["next_cursor"].as_str() else { break };
        query = format!("campaign_id={RECEIPT}&limit=2&cursor={cursor}");
    }
    assert_eq!(paged, sent);

    let listed = async |more: &[&str]| {
        let arguments = [&["dispatches", "list", "--json"][..], more].concat();
        let printed = scene.fleet.run(&arguments).await;
        let lines = printed.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        ids(&lines.collect::<Vec<Value>>(), "id")
    };
    assert_eq!(listed(&["--campaign", "Receipt", "--since", "1h"]).await, sent);
    assert_eq!(listed(&["--kind", "transactional", "--limit", "1"]).await, [aborted.as_str()]);
    let rest = listed(&["--kind", "transactional", "--after", &sent[0]]).await;
    assert_eq!(rest, sent[1..]);
    assert!(listed(&[]).await.is_empty());

    let browser = Browser::signed_in(&scene.fleet, "vera", "viewer").await;
    for query in [format!("campaign={RECEIPT}"), "kind=transactional".into()] {
        let page = browser.get(&format!("/w/acme/sends?{query}")).await;
        assert_eq!(page.status, 200, "{page:?}");
        for id in &sent {
            assert!(page.text.contains(&format!("row-{id}")), "{}", page.text);
            assert!(!page.text.contains(&format!("/sends/{id}")), "{}", page.text);
        }
    }
    let page = browser.get("/w/acme/sends").await;
    assert!(!page.text.contains(&sent[0]), "{}", page.text);
    scene.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn emails_are_found_by_kind_and_by_campaign_embedded() {
    emails_are_found_by_kind_and_by_campaign(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn emails_are_found_by_kind_and_by_campaign_in_a_fleet() {
    emails_are_found_by_kind_and_by_campaign(Backend::Fleet(1)).await;
}
