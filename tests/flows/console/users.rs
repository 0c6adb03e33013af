//! Users on the pages of the console: found, shown, erased; and who looked at them.

use regex::Regex;
use serde_json::{Value, json};

use crate::support::Api;
use crate::support::console::{self, Browser, PageResponse};
use crate::support::eventually;
use crate::support::fleet::{Backend, Fleet};
use crate::support::receiver::Receiver;
use crate::support::workspace::WorkspaceFile;

const USERS: &str = "/w/acme/users";
const SCRIPT: &str = "<script>alert(1)</script>";

/// A fleet with two workspaces, and a client of the first one's API.
async fn start(backend: Backend) -> (Fleet, Api) {
    let fleet = Fleet::start(backend, &console::settings()).await;
    let permissions = ["messages.send", "users.merge"];
    let acme = WorkspaceFile::new("acme").permitted(&permissions).with_percent(None);
    let api = fleet.apply(&[acme, WorkspaceFile::new("beta")]).await.remove(0);
    (fleet, api)
}

async fn import(fleet: &Fleet, users: &[Value]) {
    let lines: Vec<String> = users.iter().map(Value::to_string).collect();
    fleet.import("acme", &lines).await;
}

/// A user with something of everything.
fn ann() -> Value {
    json!({
        "external_id": "ann", "email": "Ann@Bücher.example", "phone": "+4915112345678",
        "first_name": SCRIPT, "last_name": "\u{202E}הלו",
        "user_aliases": [{ "alias_label": "crm", "alias_name": "47:11" }],
        "custom_attributes": { "note": "x".repeat(10_000), "<b>tier": "gold", "nested": { "a": [1] } },
        "apps": [{ "name": "Shop", "platform": "iOS", "sessions": 12 }],
        "devices": [{ "model": "Phone 7" }],
        "push_tokens": [{ "app_id": "app-1", "token": "secret-of-the-device" }],
        "email_subscribe": "unsubscribed",
        "subscription_groups": [
            { "subscription_group_id": "vip-group", "subscription_state": "subscribed" },
        ],
        "total_revenue": 12.5,
        "purchases": [purchase("shoes")],
    })
}

fn purchase(name: &str) -> Value {
    let day = jiff::Zoned::now().with_time_zone(jiff::tz::TimeZone::UTC).date();
    let day = day.yesterday().expect("a date");
    json!({ "name": name, "first": format!("{day}T10:00:00Z"), "last": format!("{day}T12:00:00Z"), "count": 3 })
}

/// The only user with an identifier, as the command finds them.
async fn service_id(fleet: &Fleet, identifier: &str) -> String {
    let found = fleet.run(&["users", "find", identifier, "--workspace", "acme", "--json"]).await;
    let found: Value = serde_json::from_str(&found).expect("one user");
    found["service_id"].as_str().expect("an id").to_owned()
}

async fn find(browser: &Browser, identifier: &str) -> PageResponse {
    browser.post(USERS, &[("identifier", identifier)]).await
}

/// The entries of the console about users, the latest first: action, object and details.
async fn audited(fleet: &Fleet) -> Vec<(String, String, Value)> {
    let entries = super::audited(fleet, "user.").await.into_iter();
    let entries = entries.filter(|entry| entry["actor"] == "console:ana");
    let text = |entry: &Value, name: &str| entry[name].as_str().expect("a text").to_owned();
    entries
        .map(|entry| (text(&entry, "action"), text(&entry, "object"), entry["details"].clone()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_of_a_page_runs_whatever_identifier_it_has() {
    const IDENTIFIER: &str = "-a b'c";
    let (fleet, _) = start(Backend::Embedded).await;
    let browser = Browser::signed_in(&fleet, "ana", "admin").await;
    let page = find(&browser, IDENTIFIER).await;
    let (_, command) = page.text.split_once("longshore users find").expect("a command");
    let arguments = command.split('<').next().expect("the end of the command");
    import(&fleet, &[json!({ "external_id": IDENTIFIER })]).await;
    fleet.shell(&format!("\"$LONGSHORE\" users find{arguments}")).await;
    fleet.close().await;
}

async fn a_user_is_found_by_each_identifier_and_shown(backend: Backend) {
    let (fleet, _) = start(backend).await;
    let twin = json!({ "external_id": "ben", "email": "ANN@xn--bcher-kva.example" });
    import(&fleet, &[ann()]).await;
    let id = service_id(&fleet, "ann").await;
    let page = format!("{USERS}/{id}");
    let browser = Browser::signed_in(&fleet, "ana", "admin").await;
    for identifier in [
        "ann",
        " ann ",
        &id,
        "crm:47:11",
        "ann@bücher.example",
        "ANN@XN--bcher-kva.example",
        "0049 151 1234-5678",
    ] {
        let found = find(&browser, identifier).await;
        assert_eq!((found.status.as_u16(), found.location()), (303, page.as_str()), "{identifier}");
    }
    for (identifier, status) in [("nobody", 200), (SCRIPT, 200), ("", 422), (&"x".repeat(600), 422)]
    {
        let found = find(&browser, identifier).await;
        assert_eq!(found.status, status, "{identifier}: {found:?}");
        assert!(!found.text.contains(SCRIPT), "{}", found.text);
    }
    // Each search is in the audit log, without its text.
    let entries = audited(&fleet).await.into_iter();
    let searches: Vec<(String, Value)> =
        entries.map(|(action, _, found)| (action, found)).collect();
    let search = |users: Value| ("user.search".to_owned(), json!({ "users": users }));
    let mut expected = vec![search(json!([])); 2];
    expected.extend(vec![search(json!([id])); 7]);
    assert_eq!(searches, expected);

    import(&fleet, &[twin]).await;
    let both = find(&browser, "ann@bücher.example").await;
    assert_eq!(both.status, 200, "{both:?}");
    assert!(both.text.contains(&page) && both.text.contains("ben"), "{}", both.text);
    let ben = service_id(&fleet, "ben").await;
    let (action, _, details) = audited(&fleet).await.remove(0);
    let mut ids = [json!(id), json!(ben)];
    ids.sort_by_key(Value::to_string);
    let mut listed = details["users"].as_array().expect("a list").clone();
    listed.sort_by_key(Value::to_string);
    assert_eq!((action.as_str(), listed), ("user.search", ids.to_vec()));

    let shown = browser.get(&page).await;
    assert_eq!(shown.status, 200, "{shown:?}");
    for part in [
        "Ann@Bücher.example",
        "+4915112345678",
        "crm:47:11",
        "&lt;script&gt;",
        "&lt;b&gt;tier",
        "unsubscribed",
        "vip-group",
        "Shop",
        "Phone 7",
        "12.5",
        "shoes",
        "Show all",
    ] {
        assert!(shown.text.contains(part), "{part}: {}", shown.text);
    }
    for part in [SCRIPT, "<b>tier", "secret-of-the-device"] {
        assert!(!shown.text.contains(part), "{part}: {}", shown.text);
    }
    let (_, title) = shown.text.split_once("<title>").expect("a title");
    let (title, _) = title.split_once("</title>").expect("its end");
    assert!(title.contains(&id) && !title.contains("ann"), "browsers keep it: {title}");
    let expected = ("user.view".to_owned(), id.clone(), json!({ "page": "record" }));
    assert_eq!(audited(&fleet).await[0], expected);
    let log = fleet.run(&["audit", "list", "--json"]).await;
    assert!(!log.to_lowercase().contains("cher.example"), "the audit log has an address: {log}");

    for other in [format!("/w/beta/users/{id}"), format!("/w/beta/users/{id}/messages")] {
        assert_eq!(browser.get(&other).await.status, 404, "{other}");
    }
    let elsewhere = browser.post("/w/beta/users", &[("identifier", "ann")]).await;
    assert_eq!(elsewhere.status, 200, "nobody there: {elsewhere:?}");
    for path in ["ann", "%3Cscript%3E", "1f0c7a52-3a55-4b0e-9d3e-6f1c5e2b7a10"] {
        assert_eq!(browser.get(&format!("{USERS}/{path}")).await.status, 404, "{path}");
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_is_found_by_each_identifier_and_shown_embedded() {
    a_user_is_found_by_each_identifier_and_shown(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_is_found_by_each_identifier_and_shown_in_a_fleet() {
    a_user_is_found_by_each_identifier_and_shown(Backend::Fleet(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn activity_has_pages_by_key() {
    let (fleet, _) = start(Backend::Embedded).await;
    let names: Vec<String> = (0..120).map(|number| format!("product-{number:03}")).collect();
    let purchases: Vec<Value> = names.iter().map(|name| purchase(name)).collect();
    import(&fleet, &[json!({ "external_id": "ann", "purchases": purchases })]).await;
    let browser = Browser::signed_in(&fleet, "ana", "admin").await;
    let older = Regex::new(r#"href="([^"]+)#activity" rel="next""#).expect("an expression");
    let product = Regex::new("product-[0-9]{3}").expect("an expression");
    let mut next = Some(format!("{USERS}/{}", service_id(&fleet, "ann").await));
    let (mut found, mut pages) = (Vec::new(), 0);
    while let Some(path) = next {
        assert!(!path.contains("product"), "an address has what the user bought: {path}");
        let page = browser.get(&path).await;
        assert_eq!(page.status, 200, "{page:?}");
        found.extend(product.find_iter(&page.text).map(|name| name.as_str().to_owned()));
        next = older.captures(&page.text).map(|link| link[1].to_owned());
        pages += 1;
    }
    found.sort();
    assert_eq!((found, pages), (names, 3));
    assert_eq!(audited(&fleet).await.len(), pages, "each view is in the audit log");
    let id = service_id(&fleet, "ann").await;
    for query in ["after=x", "after="] {
        assert_eq!(browser.get(&format!("{USERS}/{id}?{query}")).await.status, 400, "{query}");
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_shown_and_why_there_is_none() {
    let (fleet, api) = start(Backend::Embedded).await;
    import(&fleet, &[ann(), json!({ "external_id": "ben" })]).await;
    let receiver = Receiver::start([]).await;
    let webhook = json!({ "url": receiver.url("/hook"), "request_method": "POST", "body": "x" });
    let body = json!({ "external_user_ids": ["ann"], "messages": { "webhook": webhook } });
    let sent = api.post("/messages/send", &body).await;
    assert_eq!(sent.status, 201, "{sent:?}");
    let dispatch = sent.body["dispatch_id"].as_str().expect("an id");
    let browser = Browser::signed_in(&fleet, "ana", "admin").await;
    let of = |id: String| format!("{USERS}/{id}/messages");
    let (ann, ben) = (of(service_id(&fleet, "ann").await), of(service_id(&fleet, "ben").await));
    let send = format!("/w/acme/sends/{dispatch}");
    eventually("the message is sent", || async {
        let page = browser.get(&ann).await;
        page.text.contains("Sent") && page.text.contains(&send)
    })
    .await;
    let why = format!("{ben}?send={dispatch}");
    eventually("the reason is shown", || async {
        let page = browser.get(&why).await;
        assert_eq!(page.status, 200, "{page:?}");
        page.text.contains("not_listed") && !page.text.contains("in_progress")
    })
    .await;
    let page = browser.get(&format!("{ann}?send={dispatch}")).await;
    assert!(page.text.contains(&send) && !page.text.contains("not_listed"), "{}", page.text);
    for unknown in ["0197b6a83c557e119a1f3f0f3c2d6e54", "x", "%3Cscript%3E"] {
        let page = browser.get(&format!("{ann}?send={unknown}")).await;
        assert_eq!(page.status, 422, "{unknown}: {page:?}");
        assert!(!page.text.contains("<script>"), "{}", page.text);
    }
    let (action, _, details) = audited(&fleet).await.remove(0);
    assert_eq!((action.as_str(), details), ("user.view", json!({ "page": "messages" })));
    fleet.close().await;
}

async fn a_user_is_erased_after_a_confirmation(backend: Backend) {
    let (fleet, _) = start(backend).await;
    import(&fleet, &[ann(), json!({ "email": "only@acme.example" })]).await;
    let id = service_id(&fleet, "ann").await;
    // Another user, whose external_id looks like the service_id.
    import(&fleet, &[json!({ "external_id": id, "email": "other@acme.example" })]).await;
    let other = service_id(&fleet, "other@acme.example").await;
    let browser = Browser::signed_in(&fleet, "ana", "admin").await;
    let erase = format!("{USERS}/{id}/erase");
    assert_eq!(browser.get(&erase).await.status, 200);
    for wrong in ["", "yes", "Ann", &id] {
        let refused = browser.post(&erase, &[("confirmation", wrong)]).await;
        assert_eq!(refused.status, 422, "{wrong}: {refused:?}");
    }
    assert_eq!(service_id(&fleet, "ann").await, id, "nothing was erased");
    let erased = browser.post(&erase, &[("confirmation", "ann")]).await;
    assert_eq!(erased.status, 303, "{erased:?}");
    let notice = browser.get(erased.location()).await;
    assert!(notice.text.contains("No user has this service_id"), "{}", notice.text);
    for path in [format!("{USERS}/{id}"), format!("{USERS}/{id}/messages"), erase] {
        assert_eq!(browser.get(&path).await.status, 404, "{path}");
    }
    let gone = fleet.command(&["users", "show", "ann", "--workspace", "acme"]).await;
    assert!(!gone.status.success());
    assert_eq!(browser.get(&format!("{USERS}/{other}")).await.status, 200, "another user");
    // The notice is not about a user who exists.
    let forged = browser.get(&format!("{USERS}?erased={other}")).await;
    assert!(!forged.text.contains("No user has this service_id"), "{}", forged.text);

    let nameless = service_id(&fleet, "only@acme.example").await;
    let erase = format!("{USERS}/{nameless}/erase");
    assert_eq!(browser.post(&erase, &[]).await.status, 422);
    assert_eq!(browser.post(&erase, &[("confirmation", "yes")]).await.status, 303);
    let deletions: Vec<_> = audited(&fleet)
        .await
        .into_iter()
        .filter(|(action, ..)| action == "user.delete")
        .map(|(_, object, details)| (object, details))
        .collect();
    assert_eq!(deletions, [(nameless, json!({})), (id, json!({}))]);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_is_erased_after_a_confirmation_embedded() {
    a_user_is_erased_after_a_confirmation(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_is_erased_after_a_confirmation_in_a_fleet() {
    a_user_is_erased_after_a_confirmation(Backend::Fleet(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_merged_user_leads_to_the_kept_one() {
    let (fleet, api) = start(Backend::Embedded).await;
    import(&fleet, &[json!({ "external_id": "ann" }), json!({ "external_id": "old" })]).await;
    let (kept, merged) = (service_id(&fleet, "ann").await, service_id(&fleet, "old").await);
    let merge = json!({ "merge_updates": [{
        "identifier_to_merge": { "external_id": "old" },
        "identifier_to_keep": { "external_id": "ann" },
    }] });
    assert_eq!(api.post("/users/merge", &merge).await.status, 202);
    fleet.applied().await;
    let browser = Browser::signed_in(&fleet, "ana", "admin").await;
    let found = find(&browser, &merged).await;
    assert_eq!(found.location(), format!("{USERS}/{merged}"));
    for part in ["", "/messages", "/erase"] {
        let page = browser.get(&format!("{USERS}/{merged}{part}")).await;
        assert_eq!(page.status, 200, "{page:?}");
        assert!(page.text.contains(&format!("{USERS}/{kept}\"")), "{}", page.text);
    }
    let entries = audited(&fleet).await;
    assert!(entries.len() == 1 && entries[0].0 == "user.search", "no user was shown: {entries:?}");
    fleet.close().await;
}
