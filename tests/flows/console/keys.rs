//! API keys on the pages of the console: created, used at once, revoked, and refused.

use regex::Regex;
use reqwest::StatusCode;
use serde_json::{Value, json};
use uuid::Uuid;

use super::audited;
use crate::support::console::{self, Browser, PageResponse};
use crate::support::fleet::{Backend, Fleet};
use crate::support::workspace::WorkspaceFile;
use crate::support::{Api, eventually};

const KEYS: &str = "/w/acme/keys";
const NEW: &str = "/w/acme/keys/new";

/// A fleet with the workspaces acme and globex, and clients of their APIs.
async fn fleet(backend: Backend) -> (Fleet, Vec<Api>) {
    let fleet = Fleet::start(backend, &console::settings()).await;
    let files =
        ["acme", "globex"].map(|name| WorkspaceFile::new(name).permitted(&["segments.list"]));
    let apis = fleet.apply(&files).await;
    (fleet, apis)
}

/// The first value of an attribute, such as `value`, after a text.
fn value_after(page: &PageResponse, text: &str, attribute: &str) -> Option<String> {
    let expression = format!(r#"{}[^>]*? {attribute}="([^"]*)""#, regex::escape(text));
    let found = Regex::new(&expression).expect("an expression").captures(&page.text)?;
    Some(found[1].to_owned())
}

/// The key of a new form, under which it takes effect once.
async fn request_key(browser: &Browser) -> String {
    let page = browser.get(NEW).await;
    value_after(&page, r#"name="request_key""#, "value").unwrap_or_else(|| panic!("{page:?}"))
}

/// The secret on the page after a key is created.
fn secret(page: &PageResponse) -> Option<String> {
    value_after(page, r#"id="secret""#, "value")
}

/// Creates a key on the page; returns the secret.
async fn create(browser: &Browser, name: &str, permissions: &[&str]) -> String {
    let mut form = vec![("name", name)];
    form.extend(permissions.iter().map(|permission| ("permission", *permission)));
    let page = browser.post(NEW, &form).await;
    assert_eq!(page.status, 200, "{page:?}");
    secret(&page).unwrap_or_else(|| panic!("{page:?}"))
}

/// The keys that the command lists.
async fn keys(fleet: &Fleet) -> Vec<Value> {
    let printed = fleet.run(&["key", "list", "--workspace", "acme", "--json"]).await;
    printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

async fn find(fleet: &Fleet, name: &str) -> Value {
    let found = keys(fleet).await.into_iter().find(|key| key["name"] == name);
    found.unwrap_or_else(|| panic!("no key {name}"))
}

fn address(key: &Value) -> String {
    format!("{KEYS}/{}", key["id"].as_str().expect("an id"))
}

/// The status of a request with a secret.
async fn status(fleet: &Fleet, secret: &str) -> StatusCode {
    Api::new(fleet.base(), secret).get("/segments/list").await.status
}

async fn a_key_is_created_used_and_revoked(backend: Backend) {
    let (fleet, _) = fleet(backend).await;
    let browser = Browser::signed_in(&fleet, "ana", "admin").await;
    let form = [
        ("name", "nightly <b>job</b>"),
        ("permission", "segments.list"),
        ("group", "exports"),
        ("allow", "127.0.0.0/8\r\n::1"),
    ];
    let page = browser.post(NEW, &form).await;
    assert_eq!(page.status, 200, "{page:?}");
    assert!(page.text.contains("nightly &lt;b&gt;job"), "{}", page.text);
    let secret = secret(&page).expect("a secret");
    // A refused request is not recorded as its use: that would hide the next one for a minute.
    assert_eq!(Api::new(fleet.base(), &secret).get("/catalogs").await.status, 403);
    assert_eq!(status(&fleet, &secret).await, 200, "it works at once");

    let key = find(&fleet, form[0].1).await;
    let permissions = json!([
        "segments.list",
        "users.export.global_control_group",
        "users.export.ids",
        "users.export.segment",
    ]);
    assert_eq!((&key["permissions"], &key["declared"]), (&permissions, &json!(false)));
    assert_eq!(key["allow"], json!(["127.0.0.0/8", "::1/128"]));

    // Its use is on the pages, with the permission.
    let address = address(&key);
    eventually("the use is stored", || async {
        find(&fleet, form[0].1).await["last_permission"] == "segments.list"
    })
    .await;
    for (path, part) in [
        (address.clone(), "</time><br><code class=\"muted\">segments.list</code>"),
        (format!("{address}/revoke"), "</time>, for <code>segments.list</code>"),
    ] {
        let page = browser.get(&path).await;
        assert!(page.status == 200 && page.text.contains(part), "{part}: {page:?}");
        assert!(!page.text.contains(&secret), "{}", page.text);
    }
    assert_eq!(keys(&fleet).await.len(), 2, "asking revokes nothing");

    let revoked = browser.post(&format!("{address}/revoke"), &[]).await;
    assert_eq!((revoked.status.as_u16(), revoked.location()), (303, address.as_str()));
    eventually("it is refused", || async { status(&fleet, &secret).await == 401 }).await;
    // Again: nothing changes, and the question leads to the key.
    let again = browser.post(&format!("{address}/revoke"), &[]).await;
    assert_eq!((again.status.as_u16(), again.location()), (303, address.as_str()));
    assert_eq!(browser.get(&format!("{address}/revoke")).await.status, 303);
    let page = browser.get(&format!("{KEYS}?state=revoked")).await;
    assert!(page.text.contains("nightly &lt;b&gt;") && page.text.contains("console:ana"));
    assert!(!browser.get(KEYS).await.text.contains("nightly"));
    assert_eq!(find(&fleet, form[0].1).await["revoked_by"], "console:ana");

    let mut entries = audited(&fleet, "key.").await;
    // The request without the permission.
    entries.retain(|entry| entry["action"] != "key.refused");
    let actions: Vec<&Value> = entries.iter().map(|entry| &entry["action"]).collect();
    assert_eq!(actions, ["key.revoke", "key.create"]);
    for entry in &entries {
        assert_eq!((&entry["actor"], &entry["workspace"]), (&json!("console:ana"), &json!("acme")));
        assert_eq!(entry["details"]["id"], key["id"]);
    }
    assert_eq!(entries[0]["details"]["before"]["permissions"], permissions);
    assert_eq!(entries[0]["details"]["after"], json!({ "state": "revoked" }));
    assert_eq!(entries[1]["details"]["after"]["permissions"], permissions);
    assert!(!json!(entries).to_string().contains(&secret), "{entries:?}");
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_created_used_and_revoked_embedded() {
    a_key_is_created_used_and_revoked(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_created_used_and_revoked_in_a_fleet() {
    a_key_is_created_used_and_revoked(Backend::Fleet(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_use_that_several_permissions_allow_names_none() {
    let (fleet, _) = fleet(Backend::Embedded).await;
    let browser = Browser::signed_in(&fleet, "ana", "admin").await;
    for (name, permissions, expected) in [
        (
            "several",
            &["users.export.global_control_group", "users.export.segment"][..],
            Value::Null,
        ),
        ("one", &["users.export.segment"][..], json!("users.export.segment")),
    ] {
        let secret = create(&browser, name, permissions).await;
        assert_eq!(Api::new(fleet.base(), &secret).get("/users/export").await.status, 200);
        eventually("the use is stored", || async {
            find(&fleet, name).await["last_used_at"].is_string()
        })
        .await;
        assert_eq!(find(&fleet, name).await["last_permission"], expected, "{name}");
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_is_sent_twice_creates_one_key() {
    let (fleet, _) = fleet(Backend::Embedded).await;
    let browser = Browser::signed_in(&fleet, "ana", "admin").await;
    let other = Browser::signed_in(&fleet, "bob", "admin").await;
    let key = request_key(&browser).await;
    let token = browser.form_token().await;
    let fields = [("request_key", key.as_str()), ("name", "app"), ("permission", "segments.list")];
    let form = [&[("form_token", token.as_str())][..], &fields].concat();
    let (first, second) = tokio::join!(browser.submit(NEW, &form), browser.submit(NEW, &form));
    // Whichever response the browser shows has the secret.
    let shown = secret(&first).expect("a secret");
    assert_eq!(secret(&second), Some(shown.clone()));
    assert_eq!(status(&fleet, &shown).await, 200);
    assert_eq!(audited(&fleet, "key.create").await.len(), 1);
    // The same form of another session has none.
    let repeated = other.post(NEW, &fields).await;
    assert_eq!((repeated.status.as_u16(), secret(&repeated)), (200, None), "{repeated:?}");
    assert!(!repeated.text.contains(&shown), "{}", repeated.text);
    let revoke = format!("href=\"{}/revoke\"", address(&find(&fleet, "app").await));
    assert!(repeated.text.contains(&revoke), "{}", repeated.text);
    // Nor is it anywhere else, and the name is used.
    for path in [KEYS, &address(&find(&fleet, "app").await), "/audit"] {
        assert!(!browser.get(path).await.text.contains(&shown), "{path}");
    }
    let taken = browser.post(NEW, &[("name", "app"), ("group", "users")]).await;
    assert_eq!(taken.status, 422, "{taken:?}");
    assert!(taken.text.contains("id=\"name-error\""), "{}", taken.text);
    assert_eq!(keys(&fleet).await.len(), 2);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_form_has_its_errors_next_to_the_fields() {
    let (fleet, _) = fleet(Backend::Embedded).await;
    let browser = Browser::signed_in(&fleet, "ana", "admin").await;
    let hostile = "\"><script>alert(1)</script>\u{202e}".repeat(400);
    for (form, invalid) in [
        (vec![], &["name", "permission"][..]),
        (
            vec![("name", hostile.as_str()), ("permission", &hostile), ("allow", &hostile)],
            &["name", "permission", "allow"][..],
        ),
        (vec![("name", "app"), ("group", "users"), ("allow", "::1\n10.0.0.0/33")], &["allow"][..]),
        (vec![("name", "app\u{202e}"), ("group", "users")], &["name"][..]),
        (vec![("name", "018f0000-0000-7000-8000-000000000000"), ("group", "users")], &["name"][..]),
    ] {
        let page = browser.post(NEW, &form).await;
        assert_eq!(page.status, 422, "{page:?}");
        for field in ["name", "permission", "allow"] {
            let is_invalid = page.text.contains(&format!("id=\"{field}-error\""));
            assert_eq!(is_invalid, invalid.contains(&field), "{field}: {}", page.text);
            assert_eq!(page.text.contains(&format!("href=\"#{field}\"")), is_invalid, "{field}");
        }
        assert!(!page.text.contains("<script>alert"), "{}", page.text);
    }
    // What was entered stays.
    let form =
        [("name", "app"), ("group", "catalogs"), ("permission", "users.track"), ("allow", "x")];
    let page = browser.post(NEW, &form).await;
    for input in [r#"value="app""#, r#"value="catalogs" checked"#, r#"value="users.track" checked"#]
    {
        assert!(page.text.contains(input), "{input}: {}", page.text);
    }
    assert_eq!(keys(&fleet).await.len(), 1);
    assert!(audited(&fleet, "key.").await.is_empty());
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_in_pages_by_name_and_those_of_another_workspace_do_not_exist() {
    let (fleet, _) = fleet(Backend::Embedded).await;
    let browser = Browser::signed_in(&fleet, "ana", "admin").await;
    let link = Regex::new(r#"/w/acme/keys/([0-9a-f-]{36})""#).expect("an expression");
    let next = Regex::new(r#"href="([^"]+)" rel="next""#).expect("an expression");
    let listed = async |path: &str| {
        let page = browser.get(path).await;
        assert_eq!(page.status, 200, "{page:?}");
        let ids = link.captures_iter(&page.text).map(|found| found[1].to_owned());
        let next = next.captures(&page.text).map(|found| found[1].replace("&amp;", "&"));
        (ids.collect::<Vec<_>>(), next)
    };
    for number in 0..52 {
        create(&browser, &format!("key {number:02}"), &["users.track"]).await;
    }
    let mut names: Vec<Value> = keys(&fleet).await;
    names.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    let expected: Vec<&str> = names.iter().map(|key| key["id"].as_str().expect("an id")).collect();
    let (first, address) = listed(KEYS).await;
    let (rest, end) = listed(&address.expect("there are more")).await;
    assert_eq!((first.len(), rest.len(), end), (50, 3, None));
    assert_eq!([first, rest].concat(), expected);

    for id in &expected[..51] {
        browser.post(&format!("{KEYS}/{id}/revoke"), &[]).await;
    }
    let (first, address) = listed(&format!("{KEYS}?state=revoked")).await;
    let (rest, end) = listed(&address.expect("there are more")).await;
    let latest: Vec<&str> = expected[..51].iter().rev().copied().collect();
    assert_eq!(
        ([first, rest].concat(), end),
        (latest.iter().map(|id| (*id).to_owned()).collect(), None)
    );
    assert_eq!(listed(KEYS).await.0, expected[51..]);

    let last = expected[52];
    for path in [format!("/w/globex/keys/{last}"), format!("/w/globex/keys/{last}/revoke")] {
        assert_eq!(browser.get(&path).await.status, 404, "{path}");
    }
    assert_eq!(browser.post(&format!("/w/globex/keys/{last}/revoke"), &[]).await.status, 404);
    for path in [format!("{KEYS}/{}", Uuid::nil()), format!("{KEYS}/x"), format!("{KEYS}/%00")] {
        assert_eq!(browser.get(&path).await.status, 404, "{path}");
    }
    for query in ["?state=all", "?after=x"] {
        assert_eq!(browser.get(&format!("{KEYS}{query}")).await.status, 400, "{query}");
    }
    assert_eq!(listed(KEYS).await.0, expected[51..]);
    fleet.close().await;
}

/// A key of the workspace file can be revoked. The page says what a later `apply` does.
#[tokio::test(flavor = "multi_thread")]
async fn a_declared_key_is_marked_and_can_be_revoked() {
    let (fleet, apis) = fleet(Backend::Embedded).await;
    let browser = Browser::signed_in(&fleet, "ana", "admin").await;
    let secret = create(&browser, "by hand", &["segments.list"]).await;
    let keys = keys(&fleet).await;
    let declared = keys.iter().find(|key| key["declared"] == true).expect("a declared key");
    let mark = "Declared in the workspace file";
    assert_eq!(browser.get(KEYS).await.text.matches(mark).count(), 1);
    let question = browser.get(&format!("{}/revoke", address(declared))).await;
    assert!(question.text.contains(mark), "{}", question.text);
    let by_hand = browser.get(&address(&find(&fleet, "by hand").await)).await;
    assert!(!by_hand.text.contains(mark) && by_hand.text.contains("--prune"), "{}", by_hand.text);

    let revoked = browser.post(&format!("{}/revoke", address(declared)), &[]).await;
    assert_eq!(revoked.status, 303, "{revoked:?}");
    let own = apis[0].key();
    eventually("it is refused", || async { status(&fleet, own).await == 401 }).await;
    assert_eq!(status(&fleet, &secret).await, 200, "the other key is valid");
    fleet.close().await;
}

/// A file can move a secret to another name: the page of the revoked key leads to the key that has
/// it.
#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_key_leads_to_the_key_that_has_its_secret() {
    let fleet = Fleet::start(Backend::Embedded, &console::settings()).await;
    let file = WorkspaceFile::new("acme").permitted(&["segments.list"]);
    fleet.apply(std::slice::from_ref(&file)).await;
    let former = address(&keys(&fleet).await[0]);
    let key = json!({ "name": "moved", "secret": file.key, "permissions": ["segments.list"] });
    fleet.prune(&[file.clone().with("keys", json!([key]))]).await;
    let moved = address(&find(&fleet, "moved").await);
    let browser = Browser::signed_in(&fleet, "ana", "admin").await;
    let link = format!("href=\"{moved}\"");
    let page = browser.get(&former).await;
    assert!(page.status == 200 && page.text.contains(&link), "{page:?}");
    assert_eq!(status(&fleet, &file.key).await, 200);

    assert_eq!(browser.post(&format!("{moved}/revoke"), &[]).await.status, 303);
    let page = browser.get(&former).await;
    assert!(page.status == 200 && !page.text.contains(&link), "{page:?}");
    fleet.close().await;
}
