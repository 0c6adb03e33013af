//! The list of exports: its pages, its filters, its updates, and hostile names in it.

use std::collections::BTreeSet;

use regex::Regex;
use reqwest::Method;
use serde_json::json;

use super::{GOLD, NEW, address, created, fleet, segments, workspace};
use crate::support::console::Browser;
use crate::support::eventually;
use crate::support::fleet::Backend;

const LIST: &str = "/w/acme/exports";

/// The exports in a page, in its order.
fn prefixes(page: &str) -> Vec<String> {
    let link =
        Regex::new(r#"class="title"[^>]* href="/w/acme/exports/([^"]+)""#).expect("an expression");
    link.captures_iter(page).map(|link| link[1].to_owned()).collect()
}

/// The link to older exports.
fn older(page: &str) -> Option<String> {
    let link = Regex::new(r#"href="([^"]+)" rel="next""#).expect("an expression");
    link.captures(page).map(|link| link[1].replace("&amp;", "&"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_has_every_export_once_newest_first_and_is_filtered() {
    let (mut fleet, api) = fleet(Backend::Fleet(1), workspace("acme")).await;
    let browser = Browser::signed_in(&fleet, "ana", "viewer").await;
    let empty = browser.get(LIST).await;
    assert!(empty.text.contains("No exports yet"), "{empty:?}");
    fleet.stop("worker-1");
    let mut requested = Vec::new();
    for _ in 0..120 {
        requested.push(api.export(&json!({ "fields_to_export": ["email"] })).await.prefix);
    }
    requested.reverse();
    let cancelled = [requested[3].clone(), requested[99].clone()];
    for prefix in &cancelled {
        assert_eq!(api.delete(&format!("/users/export/{prefix}")).await.status, 200);
    }

    let (mut listed, mut sizes, mut next) = (Vec::new(), Vec::new(), Some(LIST.to_owned()));
    while let Some(path) = next {
        let page = browser.get(&path).await;
        assert_eq!(page.status, 200, "{page:?}");
        let found = prefixes(&page.text);
        sizes.push(found.len());
        listed.extend(found);
        next = older(&page.text);
    }
    assert_eq!(sizes, [50, 50, 20]);
    assert_eq!(listed, requested);

    let filtered = async |query: &str| {
        let page = browser.get(&format!("{LIST}?{query}")).await;
        assert_eq!(page.status, 200, "{page:?}");
        prefixes(&page.text)
    };
    assert_eq!(filtered("state=cancelled").await, cancelled);
    assert_eq!(filtered("state=failed").await, Vec::<String>::new());
    let open: BTreeSet<String> = filtered("state=in-progress").await.into_iter().collect();
    assert_eq!(open.len(), 50);
    assert!(cancelled.iter().all(|prefix| !open.contains(prefix)));
    assert_eq!(filtered("mark=late").await, Vec::<String>::new());
    for wrong in ["state=lost", "mark=%3Cscript%3E", "before=1"] {
        let page = browser.get(&format!("{LIST}?{wrong}")).await;
        assert_eq!(page.status, 400, "{wrong}: {page:?}");
        assert!(!page.text.contains("<script>alert"), "{page:?}");
    }
    for prefix in &requested {
        api.delete(&format!("/users/export/{prefix}")).await;
    }
    fleet.resume("worker-1");
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_is_updated_only_while_something_runs_and_not_sent_again_unchanged() {
    let (mut fleet, api) = fleet(Backend::Fleet(1), workspace("acme")).await;
    let browser = Browser::signed_in(&fleet, "ana", "viewer").await;
    fleet.stop("worker-1");
    let prefix = api.export_all().await.prefix;
    let page = browser.get(LIST).await;
    assert!(page.text.contains("hx-trigger=\"every"), "{page:?}");
    fleet.resume("worker-1");
    api.done(&prefix).await;
    let update = async |tag: Option<&str>| {
        let mut request = browser.request(Method::GET, LIST).header("hx-request", "true");
        if let Some(tag) = tag {
            request = request.header("if-none-match", tag);
        }
        request.send().await.expect("a response")
    };
    let response = update(None).await;
    assert_eq!(response.headers()["cache-control"], "private, no-cache");
    let text = response.text().await.expect("a text");
    assert!(text.starts_with("<section") && text.contains(&prefix), "{text}");
    assert!(!text.contains("every"), "nothing runs: {text}");
    // How long ago the request was is a part of the list.
    eventually("it is unchanged", || async {
        let response = update(None).await;
        let tag = response.headers()["etag"].to_str().expect("ASCII").to_owned();
        let again = update(Some(&tag)).await;
        again.status() == 304
    })
    .await;
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_names_are_text() {
    let long = "x".repeat(255);
    let names = ["<script>alert(1)</script>", "\u{202e}gnp.exe", "'; DROP TABLE users; --", &long];
    let (fleet, api) = fleet(Backend::Embedded, workspace("acme")).await;
    let browser = Browser::signed_in(&fleet, "ana", "admin").await;
    let callback = format!("https://hooks.acme.example/?{}", "<b>".repeat(600));
    for name in names {
        fleet.apply(&[workspace("acme").with("segments", segments(name))]).await;
        let form = [
            ("audience", "segment"),
            ("segment_id", &GOLD.to_string()),
            ("field", "email"),
            ("callback_endpoint", &callback),
        ];
        let prefix = created(&browser.post(NEW, &form).await);
        for path in [LIST, NEW, &address(&prefix)] {
            let page = browser.get(path).await;
            assert_eq!(page.status, 200, "{page:?}");
            assert!(!page.text.contains("<script>alert"), "{path}: {}", page.text);
            assert!(!page.text.contains("<b><b>"), "{path}: {}", page.text);
            // Its direction ends with it.
            let shown = page.text.contains('\u{202e}');
            assert!(!shown || path == NEW || page.text.contains("<bdi"), "{path}: {}", page.text);
        }
        browser.post(&format!("{}/cancel", address(&prefix)), &[]).await;
    }
    let list = browser.get(LIST).await;
    assert!(list.text.contains("Segment x") || list.text.contains("Segment xx"), "{list:?}");
    // An address that is longer than any is refused, and shown as it was given.
    let too_long = format!("https://a.example/{}", "y".repeat(10_000));
    let form =
        [("audience", "control_group"), ("field", "email"), ("callback_endpoint", &too_long)];
    let page = browser.post(NEW, &form).await;
    assert_eq!(page.status, 422, "{page:?}");
    assert!(page.text.contains(&too_long), "the form keeps its values");
    drop(api);
    fleet.close().await;
}
