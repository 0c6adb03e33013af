//! Catalogs and products on the pages of the console.

use regex::Regex;
use serde_json::{Value, json};

use crate::support::console::{self, Browser};
use crate::support::fleet::{Backend, Fleet};
use crate::support::{Api, WorkspaceFile, eventually};

const HOSTILE: &str = "<script>alert(1)</script>";
const CATALOGS: &str = "/w/acme/catalogs";
const ITEMS: usize = 60;

/// An item with a value of each kind, and others with a name only.
fn items() -> Vec<Value> {
    let mut items: Vec<Value> =
        (0..ITEMS).map(|number| json!({ "id": format!("r{number}"), HOSTILE: "Oslo" })).collect();
    items[7] = json!({
        "id": "r7", HOSTILE: format!("\u{202E}{HOSTILE}"), "Rating": 4.50, "Open": true,
        "Opened_at": "2021-06-28T19:02:43+0200", "Tags": ["<b>new"], "Note": "x".repeat(5_000),
    });
    items
}

/// An installation with a catalog of items, an empty one, and another workspace.
async fn start(backend: Backend) -> (Fleet, Api) {
    let fleet = Fleet::start(backend, &console::settings()).await;
    let lines: Vec<String> = items().iter().map(Value::to_string).collect();
    fleet.write_file("items.ndjson", lines.join("\n").as_bytes());
    let field = |name: &str, kind: &str| json!({ "name": name, "type": kind });
    let fields = [
        field(HOSTILE, "string"),
        field("Rating", "number"),
        field("Opened_at", "time"),
        field("Open", "boolean"),
        field("Tags", "array"),
        field("Note", "string"),
        field("Missing", "object"),
    ];
    let acme = WorkspaceFile::new("acme")
        .with(
            "catalogs",
            json!([
                { "name": "restaurants", "fields": fields, "items": "items.ndjson" },
                { "name": "empty", "fields": [field("City", "string")] },
            ]),
        )
        .with(
            "catalog_selections",
            json!([{ "name": "best-of-oslo", "catalog": "restaurants", "limit": 3 }]),
        );
    let api = fleet.apply(&[acme, WorkspaceFile::new("beta")]).await.remove(0);
    (fleet, api)
}

/// What the links with this beginning lead to, on all pages of a list.
async fn linked(browser: &Browser, list: &str, link: &str) -> Vec<String> {
    let link = Regex::new(&format!(r#"href="{link}([^"?]+)""#)).expect("an expression");
    let next = Regex::new(r#"href="([^"]+)" rel="next""#).expect("an expression");
    let (mut found, mut path) = (Vec::new(), list.to_owned());
    loop {
        let page = browser.get(&path).await;
        assert_eq!(page.status, 200, "{path}: {page:?}");
        assert!(!page.text.contains(HOSTILE), "{path}: {}", page.text);
        found.extend(link.captures_iter(&page.text).map(|link| link[1].to_owned()));
        let Some(address) = next.captures(&page.text) else { return found };
        path = address[1].replace("&amp;", "&");
    }
}

async fn catalogs_and_their_items_are_shown(backend: Backend) {
    let (fleet, _) = start(backend).await;
    let viewer = Browser::signed_in(&fleet, "vera", "viewer").await;
    let list = viewer.get(CATALOGS).await.text;
    assert_eq!(linked(&viewer, CATALOGS, "/w/acme/catalogs/").await, ["empty", "restaurants"]);
    assert_eq!(list.matches("Declared in the workspace file").count(), 1, "{list}");
    assert!(list.contains(">60<") && list.contains("longshore catalogs list"), "{list}");

    let restaurants = format!("{CATALOGS}/restaurants");
    let page = viewer.get(&restaurants).await.text;
    for part in ["7 fields", "60 items", "best-of-oslo", "&lt;script&gt;", "boolean"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let mut expected: Vec<String> = (0..ITEMS).map(|number| format!("r{number}")).collect();
    expected.sort();
    let link = "/w/acme/catalogs/restaurants/";
    assert_eq!(linked(&viewer, &restaurants, link).await, expected);
    for (search, expected) in [
        ("r7", vec!["r7"]),
        ("r5", vec!["r5", "r50", "r51", "r52", "r53", "r54", "r55", "r56", "r57", "r58", "r59"]),
        ("x", vec![]),
        ("%3Cscript%3Ealert(1)%3C/script%3E", vec![]),
    ] {
        let list = format!("{restaurants}?search={search}");
        assert_eq!(linked(&viewer, &list, link).await, expected, "{search}");
    }

    let item = viewer.get(&format!("{restaurants}/r7")).await.text;
    for part in [
        "2021-06-28 17:02:43 UTC",
        "[&quot;&lt;b&gt;new&quot;]",
        "4.5",
        "Show all",
        "&lt;script&gt;",
        "longshore catalogs items --workspace=acme --id=r7 restaurants",
    ] {
        assert!(item.contains(part), "{part}: {item}");
    }
    assert!(!item.contains(HOSTILE) && !item.contains("<b>new"), "{item}");
    assert!(viewer.get(&format!("{CATALOGS}/empty")).await.text.contains("No items"));
    for path in [
        "/w/beta/catalogs/restaurants",
        "/w/beta/catalogs/restaurants/r7",
        "/w/acme/catalogs/nowhere",
        "/w/acme/catalogs/nowhere/r7",
        "/w/acme/catalogs/restaurants/r60",
        "/w/acme/catalogs/%3Cscript%3E",
    ] {
        let response = viewer.get(path).await;
        assert_eq!(response.status, 404, "{path}: {response:?}");
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn catalogs_and_their_items_are_shown_on_sqlite() {
    catalogs_and_their_items_are_shown(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn catalogs_and_their_items_are_shown_on_postgres() {
    catalogs_and_their_items_are_shown(Backend::Fleet(1)).await;
}

/// The names in the list of products.
fn products(page: &str) -> Vec<String> {
    let name =
        Regex::new(r#"<td class="c-full c-wrap"><bdi>([^<]*)</bdi>"#).expect("an expression");
    name.captures_iter(page).map(|name| name[1].to_owned()).collect()
}

async fn bought_products_are_listed(backend: Backend) {
    let (fleet, api) = start(backend).await;
    let purchase = |product: &str| {
        json!({ "external_id": "ann", "product_id": product, "currency": "USD", "price": 1.5,
                "time": "2026-01-02T03:04:05Z" })
    };
    let bought = ["tea", "Tea", "tea pot", HOSTILE].map(purchase);
    let tracked = api.post("/users/track", &json!({ "purchases": bought })).await;
    assert_eq!(tracked.status, 201, "{tracked:?}");
    let viewer = Browser::signed_in(&fleet, "vera", "viewer").await;
    eventually("the products are listed", async || {
        products(&viewer.get("/w/acme/products").await.text).len() == 4
    })
    .await;
    let page = viewer.get("/w/acme/products").await.text;
    let hostile = "&lt;script&gt;alert(1)&lt;/script&gt;";
    assert_eq!(products(&page), [hostile, "Tea", "tea", "tea pot"]);
    assert!(!page.contains(HOSTILE), "{page}");
    for (query, expected) in [
        ("search=tea", vec!["tea", "tea pot"]),
        ("search=tea&from=tea+pot", vec!["tea pot"]),
        ("from=Tea", vec!["Tea", "tea", "tea pot"]),
        ("search=coffee", vec![]),
    ] {
        let page = viewer.get(&format!("/w/acme/products?{query}")).await.text;
        assert_eq!(products(&page), expected, "{query}");
    }
    assert!(products(&viewer.get("/w/beta/products").await.text).is_empty());
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bought_products_are_listed_on_sqlite() {
    bought_products_are_listed(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bought_products_are_listed_on_postgres() {
    bought_products_are_listed(Backend::Fleet(1)).await;
}
