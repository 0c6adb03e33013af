//! Segments on the pages of the console: their conditions, how many users they have, and some of
//! these users.

use serde_json::{Value, json};
use uuid::Uuid;

use super::audited;
use crate::support::WorkspaceFile;
use crate::support::console::{self, Browser};
use crate::support::fleet::{Backend, Fleet};
use longshore::gateway::paging;

const GOLD: &str = "bbbb0000-0000-4000-8000-000000000011";
const HOSTILE: &str = "\"><script>alert(1)</script>";
const SEGMENTS: &str = "/w/acme/segments";

fn tier(value: &str) -> Value {
    json!({ "custom_attribute": {
        "custom_attribute_name": "tier", "comparison": "equals", "value": value,
    } })
}

fn has(attribute: &str) -> Value {
    json!({ "custom_attribute": { "custom_attribute_name": attribute, "comparison": "exists" } })
}

/// Two workspaces, of which `acme` has these segments.
async fn start(backend: Backend, segments: Value) -> Fleet {
    let fleet = Fleet::start(backend, &console::settings()).await;
    let acme = WorkspaceFile::new("acme").with("segments", segments);
    fleet.apply(&[acme, WorkspaceFile::new("beta")]).await;
    fleet
}

async fn a_segment_is_understood_counted_and_exported(backend: Backend) {
    let audience = json!({ "AND": [tier("gold"), { "OR": [has("visits"), has(HOSTILE)] }] });
    let segment = json!({ "id": GOLD, "name": HOSTILE, "audience": audience });
    let fleet = start(backend, json!([segment])).await;
    let users = ["ann", "bob", "cyd"].map(|id| {
        let tier = if id == "cyd" { "silver" } else { "gold" };
        let attributes = json!({ "tier": tier, "visits": 1 });
        json!({ "external_id": id, "custom_attributes": attributes }).to_string()
    });
    fleet.import("acme", &users).await;
    let path = format!("{SEGMENTS}/{GOLD}");

    let viewer = Browser::signed_in(&fleet, "vera", "viewer").await;
    let list = viewer.get(SEGMENTS).await;
    for part in ["All users", "Built in", "&lt;script&gt;", "3 conditions", "Workspace file", &path]
    {
        assert!(list.text.contains(part), "{part}: {}", list.text);
    }
    let page = viewer.get(&path).await;
    for part in ["All of:", "Any of:", "tier", "has a value", "Count the users", "segments count"] {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    for text in [&list.text, &page.text] {
        assert!(!text.contains("<script>alert"), "{text}");
    }
    for offered in ["exports/new?segment_id", "/sample"] {
        assert!(!page.text.contains(offered), "a viewer may not: {}", page.text);
    }
    let counted = viewer.get(&format!("{path}?count=1")).await;
    assert!(counted.text.contains("<b>2</b>"), "{}", counted.text);
    assert_eq!(viewer.get(&format!("{path}/sample")).await.status, 403);

    let operator = Browser::signed_in(&fleet, "olga", "operator").await;
    let page = operator.get(&path).await;
    let form = format!("/w/acme/exports/new?segment_id={GOLD}");
    assert!(page.text.contains(&form) && !page.text.contains("/sample"), "{}", page.text);
    let form = operator.get(&form).await;
    assert!(form.text.contains(&format!("<option value=\"{GOLD}\" selected>")), "{}", form.text);
    assert_eq!(operator.get(&format!("{path}/sample")).await.status, 403);

    assert!(audited(&fleet, "segment.").await.is_empty());
    let admin = Browser::signed_in(&fleet, "ana", "admin").await;
    let sample = admin.get(&format!("{path}/sample")).await;
    assert_eq!(sample.text.matches("/w/acme/users/").count(), 2, "{}", sample.text);
    for (name, is_there) in [("ann", true), ("bob", true), ("cyd", false)] {
        assert_eq!(sample.text.contains(&format!(">{name}<")), is_there, "{}", sample.text);
    }
    let entries = audited(&fleet, "segment.").await;
    assert_eq!(entries.len(), 1, "{entries:?}");
    let entry = &entries[0];
    assert_eq!((&entry["action"], &entry["object"]), (&json!("segment.sample"), &json!(GOLD)));
    assert_eq!(entry["actor"], "console:ana", "{entry}");
    assert_eq!(entry["details"]["users"].as_array().map(Vec::len), Some(2), "{entry}");
    assert!(!entry.to_string().contains("ann"), "{entry}");

    for path in [
        format!("/w/beta/segments/{GOLD}"),
        format!("/w/beta/segments/{GOLD}/sample"),
        format!("{SEGMENTS}/{}", Uuid::new_v4()),
        format!("{SEGMENTS}/gold"),
    ] {
        assert_eq!(admin.get(&path).await.status, 404, "{path}");
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_segment_is_understood_counted_and_exported_embedded() {
    a_segment_is_understood_counted_and_exported(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_segment_is_understood_counted_and_exported_in_a_fleet() {
    a_segment_is_understood_counted_and_exported(Backend::Fleet(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_has_pages_by_name() {
    let segment = |number: usize| {
        let name = format!("s{number:02}");
        json!({ "id": Uuid::new_v4(), "name": name, "audience": tier("gold") })
    };
    let fleet = start(Backend::Embedded, (0..60).map(segment).collect()).await;
    let browser = Browser::signed_in(&fleet, "vera", "viewer").await;
    let (mut names, mut path) = (Vec::new(), SEGMENTS.to_owned());
    loop {
        let page = browser.get(&path).await;
        assert_eq!(page.status, 200, "{page:?}");
        let found: Vec<String> = page
            .text
            .split("<bdi>")
            .filter_map(|text| Some(text.split_once("</bdi>")?.0.to_owned()))
            .filter(|name| name == "All users" || name.starts_with('s'))
            .collect();
        assert!(found.len() <= 50, "{found:?}");
        names.extend(found);
        let Some((before, _)) = page.text.split_once("\" rel=\"next\"") else { break };
        let (_, next) = before.rsplit_once("href=\"").expect("an address");
        assert_ne!(path, next);
        next.clone_into(&mut path);
    }
    let mut expected = vec!["All users".to_owned()];
    expected.extend((0..60).map(|number| format!("s{number:02}")));
    assert_eq!(names, expected);
    let after = |name: &str| {
        let cursor = paging::cursor(&(name, Uuid::nil()));
        let path = format!("{SEGMENTS}?after={cursor}");
        let browser = &browser;
        async move { browser.get(&path).await }
    };
    assert!(after("z").await.text.contains("No segments here"));
    assert_eq!(after("a\0").await.status, 400);
    assert_eq!(browser.get(&format!("{SEGMENTS}?after=x")).await.status, 400);
    fleet.close().await;
}
