//! Campaigns: declared, kept by `apply`, listed by the API; on SQLite and on PostgreSQL.

use jiff::Timestamp;
use longshore::campaigns;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::installation::Installation;
use crate::support::local_api::LocalApi;
use crate::support::stores::{TestStore, on_both_stores};

on_both_stores!(World =>
    pages_follow_the_order_of_creation_both_ways,
    archived_and_earlier_edited_campaigns_are_omitted,
    applying_keeps_times_of_campaigns,
    bad_parameters_are_named,
    declarations_are_stored_as_written,
    names_that_are_used_twice_are_noted,
);

const KEY: &str = "key-that-may-list-campaigns";
const LIST: &str = "/campaigns/list";
const START: i64 = 1_795_262_400_000;

struct World {
    installation: Installation,
    api: LocalApi,
}

fn id(number: usize) -> Uuid {
    Uuid::from_u128(0xaaaa_0000_0000_4000_8000_0000_0000_0000 + number as u128)
}

fn campaign(number: usize) -> Value {
    json!({ "id": id(number), "name": format!("Campaign {number}"), "type": "api" })
}

/// A workspace file with keys alone.
fn keys() -> Value {
    json!({
        "workspace": "acme",
        "email": { "smtp": "smtp://relay.acme.example" },
        "keys": [
            { "name": "lists", "secret": KEY, "permissions": ["campaigns.list"] },
            { "name": "other", "secret": "key-that-may-only-track", "permissions": ["users.track"] },
        ],
    })
}

/// A workspace file with these campaigns.
fn file(campaigns: &[Value]) -> String {
    let mut file = keys();
    file["campaigns"] = json!(campaigns);
    file["canvases"] = json!([{ "id": id(999_999), "name": "Onboarding" }]);
    file.to_string()
}

impl World {
    async fn new(store: TestStore) -> Self {
        let installation = Installation::open(store, &keys().to_string(), |config| {
            // Else `apply` notes that links in emails lead nowhere.
            config.public_url = Some("https://api.acme.example".parse().unwrap());
        })
        .await;
        installation.app.clock.set(Timestamp::from_millisecond(START).unwrap());
        let api = LocalApi::new(&installation.app, KEY);
        Self { installation, api }
    }

    /// Applies a file with these campaigns, so many hours after the start.
    async fn apply(&self, hours: i64, campaigns: &[Value], prune: bool) -> Vec<String> {
        self.installation
            .app
            .clock
            .set(Timestamp::from_millisecond(START + hours * 3_600_000).unwrap());
        self.installation.apply(&file(campaigns), prune).await
    }

    async fn list(&self, query: &str) -> Vec<Value> {
        let (status, body) = self.api.get(&format!("{LIST}{query}")).await;
        assert_eq!((status, &body["message"]), (200, &json!("success")), "{query}: {body}");
        body["campaigns"].as_array().unwrap_or_else(|| panic!("{body}")).clone()
    }

    async fn names(&self, query: &str) -> Vec<String> {
        let listed = self.list(query).await;
        listed.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
    }
}

fn names(numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
    numbers.into_iter().map(|number| format!("Campaign {number}")).collect()
}

async fn pages_follow_the_order_of_creation_both_ways(world: World) {
    assert!(world.list("").await.is_empty());
    let mut all: Vec<Value> = (0..150).map(campaign).collect();
    world.apply(0, &all, false).await;
    // Later ones are behind, wherever the file has them.
    all.splice(0..0, (150..205).map(campaign));
    world.apply(1, &all, false).await;

    assert_eq!(world.names("").await, names(0..100));
    assert_eq!(world.names("?page=1").await, names(100..200));
    assert_eq!(world.names("?page=2&sort_direction=asc").await, names(200..205));
    assert_eq!(world.names("?page=3").await, names([]));
    for far in ["4294967296", "9223372036854775808", "99999999999999999999"] {
        assert_eq!(world.names(&format!("?page={far}")).await, names([]));
    }
    // The other way round is the reverse, also of those that were declared together.
    let newest_first = (0..205).rev();
    for page in 0..3 {
        let expected = names(newest_first.clone().skip(100 * page).take(100));
        let listed = world.names(&format!("?sort_direction=desc&page={page}")).await;
        assert_eq!(listed, expected, "{page}");
    }

    // Those of another workspace are its own.
    let other = "workspace: other\nkeys: [{name: k, secret: key-of-another-workspace, \
                 permissions: [campaigns.list]}]\n";
    world.installation.apply(other, false).await;
    let (status, body) = world.api.with_key("key-of-another-workspace").get(LIST).await;
    assert_eq!((status, body), (200, json!({ "message": "success", "campaigns": [] })));
    let (status, _) = world.api.with_key("key-that-may-only-track").get(LIST).await;
    assert_eq!(status, 403);
}

async fn archived_and_earlier_edited_campaigns_are_omitted(world: World) {
    let mut all: Vec<Value> = (0..5).map(campaign).collect();
    (all[1]["archived"], all[3]["type"]) = (json!(true), json!("transactional"));
    all[3]["email"] = json!({ "from": "hello@acme.example", "body": "Thanks." });
    (all[2]["tags"], all[2]["paused"]) = (json!(["onboarding", "b"]), json!(true));
    world.apply(0, &all, false).await;
    all[4]["name"] = json!("Campaign 44");
    world.apply(1, &all, false).await;

    let listed = world.list("").await;
    let entry = |number: usize, name: &str, edited: &str, is_api: bool, tags: Value| {
        json!({ "id": id(number), "name": name, "last_edited": edited,
                "is_api_campaign": is_api, "tags": tags })
    };
    let (noon, one_o_clock) = ("2026-11-21T12:00:00.000Z", "2026-11-21T13:00:00.000Z");
    let at = |listed: &Value| listed["last_edited"].as_str().unwrap()[..13].to_owned();
    assert_eq!(at(&listed[0]), noon[..13]);
    assert_eq!(at(&listed[3]), one_o_clock[..13]);
    let with_whole_hour = |entry: &Value| {
        let mut entry = entry.clone();
        entry["last_edited"] = json!(format!("{}:00:00.000Z", at(&entry)));
        entry
    };
    assert_eq!(
        listed.iter().map(with_whole_hour).collect::<Vec<_>>(),
        [
            entry(0, "Campaign 0", noon, true, json!([])),
            entry(2, "Campaign 2", noon, true, json!(["onboarding", "b"])),
            entry(3, "Campaign 3", noon, false, json!([])),
            entry(4, "Campaign 44", one_o_clock, true, json!([])),
        ]
    );
    assert_eq!(world.names("?include_archived=false").await.len(), 4);
    assert_eq!(world.names("?include_archived=true").await, names([0, 1, 2, 3, 44]));
    let after = "?last_edit.time[gt]";
    assert_eq!(world.names(&format!("{after}=2026-11-21T12:30:00")).await, names([44]));
    assert_eq!(world.names(&format!("{after}=2026-11-21T11:00:00")).await.len(), 4);
    // Later than, and not at, the time that the list shows.
    let last = listed[3]["last_edited"].as_str().unwrap();
    assert_eq!(world.names(&format!("{after}={last}")).await, names([]));
}

async fn applying_keeps_times_of_campaigns(world: World) {
    let mut all: Vec<Value> = (0..3).map(campaign).collect();
    let url = "https://acme.example/hook";
    let webhook = json!({ "url": url, "request_method": "POST", "body": "a" });
    all[1]["messages"] = json!({ "webhook": webhook });
    let said = world.apply(0, &all, false).await;
    assert!(said.contains(&format!("+ campaign Campaign 1 ({})", id(1))), "{said:?}");
    assert!(said.contains(&format!("+ canvas Onboarding ({})", id(999_999))), "{said:?}");
    let first = world.list("").await;

    // The order of members means nothing, nor does that of campaigns that are there.
    let webhook = json!({ "body": "a", "request_method": "POST", "url": url });
    all[1]["messages"] = json!({ "webhook": webhook });
    all.reverse();
    assert_eq!(world.apply(1, &all, true).await, Vec::<String>::new());
    assert_eq!(world.list("").await, first);

    all[1]["messages"]["webhook"]["body"] = json!("c");
    assert_eq!(world.apply(2, &all, false).await, ["~ campaign Campaign 1 (messages)"]);
    let second = world.list("").await;
    assert_eq!((&second[0], &second[2]), (&first[0], &first[2]));
    assert!(second[1]["last_edited"].as_str() > first[1]["last_edited"].as_str());

    all.pop();
    let note = "campaign Campaign 0 is no longer in the file: --prune removes it";
    assert_eq!(world.apply(3, &all, false).await, [note]);
    assert_eq!(world.list("").await, second);
    assert_eq!(world.apply(3, &all, true).await, [format!("- campaign Campaign 0 ({})", id(0))]);
    all.push(campaign(0));
    world.apply(4, &all, false).await;
    assert_eq!(world.names("").await, names([1, 2, 0]));
}

async fn bad_parameters_are_named(world: World) {
    for (query, named) in [
        ("page=-1", "page"),
        ("page=", "page"),
        ("page=0&page=1", "page"),
        ("include_archived=yes", "include_archived"),
        ("sort_direction=up", "sort_direction"),
        ("last_edit.time%5Bgt%5D=never", "last_edit.time[gt]"),
    ] {
        let (status, body) = world.api.get(&format!("{LIST}?{query}")).await;
        assert_eq!(status, 400, "{query}");
        assert!(body["message"].as_str().unwrap().starts_with(named), "{query}: {body}");
    }
}

async fn declarations_are_stored_as_written(world: World) {
    let yaml = format!(
        "workspace: acme
email: {{smtp: 'smtp://relay.acme.example'}}
campaigns:
  - id: {}
    name: Thanks
    type: triggered
    variations: [{{id: {}, share: 0.5}}]
    trigger: {{purchase: {{product_id: shoes}}}}
    audience: {{push_subscription_status: {{comparison: is, value: opted_in}}}}
    conversion_window: 3d
    messages:
      email: {{app_id: web, from: a@acme.example, body: 'Dear {{{{${{first_name}}}}}}', count: 3,
              note: ~, 7: yes}}
canvases:
  - id: {}
    name: Welcome
    messages: {{webhook: {{url: 'https://acme.example/', request_method: GET}}}}
    conversion_window: 12h
",
        id(1),
        id(2),
        id(3)
    );
    world.installation.apply(&yaml, true).await;
    let mut tx = world.installation.app.store.snapshot().await.unwrap();
    let stored = campaigns::stored(&mut tx, world.installation.workspace).await.unwrap();
    drop(tx);
    let content: Vec<Value> = stored.iter().map(|entry| json!(entry.content)).collect();
    assert_eq!(content[0]["messages"]["email"]["body"], "Dear {{${first_name}}}");
    assert_eq!(content[0]["messages"]["email"]["count"], 3);
    assert_eq!(content[0]["messages"]["email"]["note"], Value::Null);
    assert_eq!(content[0]["variations"], json!([{ "id": id(2), "share": 0.5 }]));
    assert_eq!(content[0]["trigger"], json!({ "purchase": { "product_id": "shoes" } }));
    assert_eq!(content[0]["conversion_window"], "3d");
    assert_eq!(
        content[1],
        json!({
            "messages": { "webhook": { "url": "https://acme.example/", "request_method": "GET" } },
            "conversion_window": "12h",
        })
    );
    assert_eq!(world.installation.apply(&yaml, true).await, Vec::<String>::new());
}

async fn names_that_are_used_twice_are_noted(world: World) {
    let mut twin = campaign(2);
    twin["name"] = campaign(1)["name"].clone();
    let applied = world.installation.apply(&file(&[campaign(1), twin]), false).await;
    let expected = format!(r#"2 campaigns have the name "Campaign 1": {}, {}"#, id(1), id(2));
    assert!(applied.contains(&expected), "{applied:?}");
}
