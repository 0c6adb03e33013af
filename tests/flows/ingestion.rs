//! Tracking from the gateway's response to what an export shows, by real processes: every object
//! once, whatever ends when.

use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::fleet::{Backend, Fleet};
use crate::support::stores::execute;
use crate::support::{Api, WorkspaceFile};

const TRACK: &str = "/users/track";

struct Scene {
    fleet: Fleet,
    api: Api,
}

impl Scene {
    async fn new(backend: Backend) -> Self {
        Self::failing(backend, None).await
    }

    /// With a process and its fail points.
    async fn failing(backend: Backend, failing: Option<(&str, &str)>) -> Self {
        let settings = [
            ("LONGSHORE_WORKER__LEASE_MS", "1000".to_owned()),
            ("LONGSHORE_WORKER__DRAIN_SECONDS", "2".to_owned()),
        ];
        let mut fleet = Fleet::prepare(backend, &settings, |_| {}).await;
        let api = fleet.apply(&[WorkspaceFile::new("acme")]).await.remove(0);
        fleet.launch_all(failing).await;
        Self { fleet, api }
    }

    /// A request of which everything is taken.
    async fn track(&self, body: &Value) {
        let answer = self.api.post(TRACK, body).await;
        assert_eq!((answer.status.as_u16(), answer.body.get("errors")), (201, None), "{answer:?}");
    }

    async fn show(&self, id: &str) -> Option<Value> {
        let output = self.fleet.command(&["users", "show", id, "--json"]).await;
        output.status.success().then(|| serde_json::from_slice(&output.stdout).expect("JSON"))
    }
}

fn purchase(user: usize, product: &str) -> Value {
    json!({
        "external_id": format!("user-{user}"), "product_id": product, "currency": "USD",
        "price": 1.25, "quantity": 2, "time": jiff::Timestamp::now().to_string(),
    })
}

/// What users did, as the export has it.
fn count(users: &[Value], array: &str) -> u64 {
    let entries = users.iter().filter_map(|user| user[array].as_array()).flatten();
    entries.map(|entry| entry["count"].as_u64().expect("a count")).sum()
}

async fn a_request_with_everything(backend: Backend) {
    let scene = Scene::new(backend).await;
    scene
        .fleet
        .import(
            "acme",
            &[json!({
                "external_id": "ann", "email": "ann@acme.example",
                "user_aliases": [{"alias_name": "a", "alias_label": "crm"}],
                "custom_attributes": {"visits": 1, "list": ["x"], "old": true},
            })
            .to_string()],
        )
        .await;
    let time = "2021-06-28T17:02:43:032+0200";
    let now = jiff::Timestamp::now().to_string();
    let alias = json!({"alias_name": "a", "alias_label": "crm"});
    scene
        .track(&json!({
            "attributes": [
                {"external_id": "ann", "first_name": "Ann", "visits": {"inc": 2}, "old": null,
                 "list": {"add": ["y"]}, "nested": {"deep": [1.10]}},
                {"external_id": "bea", "email": "Bea@acme.example", "email_subscribe": "opted_in"},
                {"external_id": "nobody", "_update_existing_only": true, "first_name": "No"},
            ],
            "events": [
                {"user_alias": alias, "name": "seen", "time": now, "properties": {"a": [1]}},
                {"email": "bea@acme.example", "name": "seen", "time": now},
                {"external_id": "ann", "name": "long ago", "time": time},
            ],
            "purchases": [
                {"user_alias": alias, "product_id": "tea", "currency": "USD", "price": 1.10,
                 "quantity": 3, "time": now, "properties": {"products": [{"name": "tea"}]}},
                {"external_id": "ann", "product_id": "tea", "currency": "USD", "price": 0.2, "time": now},
                {"email": "cay@acme.example", "product_id": "milk", "currency": "EUR", "price": 1, "time": now},
            ],
        }))
        .await;
    scene.fleet.applied().await;
    let mut exported = scene.api.exported().await;
    exported.sort_by_key(|user| user["external_id"].to_string());
    let [ann, bea, cay] = exported.as_slice() else { panic!("{exported:?}") };
    assert_eq!(
        ann["custom_attributes"],
        json!({"visits": 3, "list": ["x", "y"], "nested": {"deep": [1.1]}})
    );
    assert_eq!((&ann["first_name"], &ann["total_revenue"]), (&json!("Ann"), &json!(3.5)));
    assert_eq!(ann["purchases"].as_array().map(Vec::len), Some(1));
    assert_eq!(ann["purchases"][0]["count"], 4);
    assert_eq!(ann["custom_events"].as_array().map(Vec::len), Some(1), "{ann}");
    assert_eq!(bea["email"], "Bea@acme.example");
    assert_eq!(bea["custom_events"][0]["count"], 1);
    assert_eq!(cay["email"], "cay@acme.example");
    assert_eq!((&cay["purchases"][0]["count"], &cay["total_revenue"]), (&json!(1), &json!(0)));
    for (id, user) in [("ann", ann), ("bea", bea), ("cay@acme.example", cay)] {
        let mut shown = scene.show(id).await.expect("a user");
        assert_eq!(shown.get("email_subscribe").is_some(), id == "bea");
        shown.as_object_mut().expect("an object").remove("email_subscribe");
        assert_eq!(&shown, user);
    }
    scene.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_everything_standalone() {
    a_request_with_everything(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_everything_by_a_fleet() {
    a_request_with_everything(Backend::Fleet(2)).await;
}

/// What was applied when an export is asked for is in it, whatever else is tracked meanwhile.
async fn an_export_shows_all_that_was_applied(backend: Backend) {
    const USERS: usize = 150;
    let scene = Scene::new(backend).await;
    for round in 1..=4 {
        let requests = (0..12).map(|request| {
            let purchases = (0..75).map(|at| purchase((request * 75 + at) % USERS, "tea"));
            let body = json!({ "purchases": purchases.collect::<Vec<_>>() });
            let scene = &scene;
            async move { scene.track(&body).await }
        });
        join_all(requests).await;
        scene.fleet.applied().await;
        let later = json!({ "purchases": [purchase(round, "milk")] });
        let (users, ()) = tokio::join!(scene.api.exported(), scene.track(&later));
        assert_eq!(users.len(), USERS);
        for user in users {
            let bought = user["purchases"].as_array().expect("purchases");
            let tea = bought.iter().find(|purchase| purchase["name"] == "tea").expect("tea");
            assert_eq!(tea["count"], round * 12, "in round {round}: {user}");
        }
    }
    scene.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_shows_all_that_was_applied_standalone() {
    an_export_shows_all_that_was_applied(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_shows_all_that_was_applied_by_a_fleet() {
    an_export_shows_all_that_was_applied(Backend::Fleet(2)).await;
}

/// A message that cannot be applied is kept aside, and applied once when it can be.
async fn a_poisonous_message(backend: Backend) {
    let scene = Scene::new(backend).await;
    let visit = json!({"attributes": [{"external_id": "ann", "visits": {"inc": 1}}]});
    scene.track(&visit).await;
    scene.fleet.applied().await;
    let database = scene.fleet.database_url();
    execute(&database, "UPDATE users SET doc = 'broken' WHERE external_id = 'ann'").await;
    for user in 0..40 {
        scene.track(&json!({"purchases": [purchase(user, "tea")]})).await;
        if user == 20 {
            // Of a message that many others are in, only ann's objects cannot be applied.
            let others: Vec<Value> = (40..80).map(|user| purchase(user, "tea")).collect();
            scene.track(&json!({"attributes": visit["attributes"], "purchases": others})).await;
        }
    }
    scene.fleet.applied().await;
    let letters = scene.fleet.run(&["dead-letters", "list", "--json"]).await;
    let letter: Value = serde_json::from_str(&letters).expect("one letter");
    assert!(letter["reason"].as_str().expect("a text").contains("cannot read"), "{letter}");

    let id = letter["id"].as_str().expect("an id");
    let retry = ["dead-letters", "retry", id, "--json"];
    let refused = scene.fleet.command(&retry).await;
    assert!(!refused.status.success(), "{refused:?}");
    let refused: Value = serde_json::from_slice(&refused.stdout).expect("JSON");
    assert_eq!((&refused["applied"], &refused["failed"][0]["id"]), (&json!([]), &json!(id)));
    let mended = r#"UPDATE users SET doc = '{"external_id":"ann","custom_attributes":{"visits":1}}'
                    WHERE external_id = 'ann'"#;
    execute(&database, mended).await;
    let applied: Value = serde_json::from_str(&scene.fleet.run(&retry).await).expect("JSON");
    assert_eq!(applied, json!({ "applied": [id], "failed": [] }));
    assert!(!scene.fleet.command(&["dead-letters", "retry", id]).await.status.success());
    assert_eq!(scene.show("ann").await.expect("a user")["custom_attributes"]["visits"], 2);
    let users = scene.api.exported().await;
    assert_eq!((users.len(), count(&users, "purchases")), (81, 160), "the neighbours are applied");
    scene.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poisonous_message_standalone() {
    a_poisonous_message(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poisonous_message_in_a_fleet() {
    a_poisonous_message(Backend::Fleet(1)).await;
}

/// The worker ends at `point`, and another continues: everything counts once.
#[cfg(debug_assertions)]
async fn killed_at(backend: Backend, name: &str, point: &str) {
    let mut scene = Scene::failing(backend, Some((name, &format!("{point}=kill")))).await;
    let mut taken = 0;
    for _ in 0..20 {
        let purchases: Vec<Value> = (0..30).map(|user| purchase(user, "tea")).collect();
        let request = scene.api.request(Method::POST, TRACK).json(&json!({"purchases": purchases}));
        // Alone, the gateway ends with the worker.
        match request.send().await {
            Ok(answer) => {
                assert_eq!(answer.status(), 201);
                taken += 60;
            }
            Err(_) => break,
        }
    }
    scene.fleet.wait_until_exited(name).await;
    scene.fleet.launch(name).await;
    scene.fleet.applied().await;
    let users = scene.api.exported().await;
    assert_eq!(users.len(), 30);
    // A request without a response may have been taken.
    let counted = count(&users, "purchases");
    let unanswered = if backend == Backend::Embedded { 60 } else { 0 };
    assert!((taken..=taken + unanswered).contains(&counted), "{counted} of {taken}");
    let revenue: f64 = users.iter().map(|user| user["total_revenue"].as_f64().unwrap()).sum();
    assert!((revenue - 1.25 * counted as f64).abs() < 1e-6, "{revenue}");
    scene.fleet.close().await;
}

#[cfg(debug_assertions)]
crate::support::killed! {
    #[ignore = "scripts/test --all"]
    before_a_batch_is_committed: Backend::Fleet(1), "worker-1", "batch::applied@2";
    #[ignore = "scripts/test --all"]
    after_a_batch_is_committed: Backend::Fleet(1), "worker-1", "batch::committed@2";
    before_a_batch_is_acknowledged: Backend::Fleet(1), "worker-1", "batch::done@2";
    before_a_batch_is_committed_standalone: Backend::Embedded, "standalone", "batch::applied@2";
    after_a_batch_is_committed_standalone: Backend::Embedded, "standalone", "batch::committed@2";
}
