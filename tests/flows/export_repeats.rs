//! A request of an export that is sent again under its `Idempotency-Key`; on SQLite and on
//! PostgreSQL.

use futures::future::join_all;
use longshore::exports::overview::{self, Filter};
use serde_json::json;

use crate::support::api::EXPORT;
use crate::support::installation::Installation;
use crate::support::local_api::LocalApi;
use crate::support::stores::{TestStore, on_both_stores};

on_both_stores!(World => an_export_is_accepted_once,);

const KEY: &str = "key-that-may-export-all-it-wants";

const WORKSPACE: &str = "
workspace: acme
control_group: {percent: 5}
keys:
  - name: integrator
    secret: key-that-may-export-all-it-wants
    permissions: [users.export.global_control_group]
";

struct World {
    installation: Installation,
    api: LocalApi,
}

impl World {
    async fn new(store: TestStore) -> Self {
        let installation = Installation::open(store, WORKSPACE, |_| {}).await;
        installation.app.log.create_topics().await.unwrap();
        Self { api: LocalApi::new(&installation.app, KEY), installation }
    }

    async fn exports(&self) -> Vec<String> {
        let app = &self.installation.app;
        let mut tx = app.store.snapshot().await.unwrap();
        let workspace = Some(self.installation.workspace);
        let filter = Filter { workspace, limit: 100, ..Filter::default() };
        let jobs = overview::jobs(&app.gateway, &mut tx, &filter).await.unwrap();
        jobs.into_iter().map(|(job, _)| job.object_prefix).collect()
    }
}

async fn an_export_is_accepted_once(world: World) {
    let asked = json!({ "fields_to_export": ["email"] });
    // At once, and one after the other.
    let calls = (0..6).map(|_| world.api.post_once(EXPORT, "k", &asked));
    let mut answers = join_all(calls).await;
    answers.push(world.api.post_once(EXPORT, "k", &asked).await);
    let first = answers[0].clone();
    assert_eq!(first.0, 201, "{first:?}");
    assert!(answers.iter().all(|answer| *answer == first), "{answers:?}");
    assert_eq!(world.exports().await, [first.1["object_prefix"].as_str().unwrap()]);
    assert!(first.1["url"].is_string(), "{first:?}");

    let other = json!({ "fields_to_export": ["email", "phone"] });
    assert_eq!(world.api.post_once(EXPORT, "k", &other).await.0, 422);
    // What is refused is not kept, and another key is another export, as none is.
    let bad = json!({ "fields_to_export": [] });
    assert_eq!(world.api.post_once(EXPORT, "l", &bad).await.0, 400);
    assert_eq!(world.api.post_once(EXPORT, "l", &asked).await.0, 201);
    assert_eq!(world.api.post(EXPORT, &asked).await.0, 201);
    assert_eq!(world.exports().await.len(), 3);
    world.installation.app.log.close().await;
}
