//! Dead letters: listed everywhere and in one workspace, applied and discarded, their payload only
//! for those who may see users.

use longshore::app::App;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{audited, execute, workspace_id};
use crate::support::WorkspaceFile;
use crate::support::console::{self, Browser};
use crate::support::fleet::{Backend, Fleet};
use crate::support::stores::on_pool;

/// Stores a dead letter.
async fn bury(app: &App, position: i64, workspace: Option<i32>, payload: &str) -> String {
    let id = Uuid::now_v7();
    let sql = "INSERT INTO dead_letters
                   (id, consumer_group, topic, partition, position, appended_at, key, payload,
                    request_id, reason, attempts, created_at, workspace_id)
               VALUES ($1, 'ingest', 'tracking', 3, $2, 0, $4, $4, 'request-1;trace',
                       '<script>alert(1)</script>', 1, $2, $3)";
    on_pool!(&app.store, pool => {
        let insert = sqlx::query(sql).bind(id).bind(position).bind(workspace.unwrap_or(0));
        insert.bind(payload.as_bytes()).execute(pool).await.map(drop)
    })
    .expect("an insert");
    id.to_string()
}

/// A message that creates a user.
fn creating(workspace: i32, user: &str) -> String {
    let object = json!({ "attributes": { "user": { "external_id": user }, "fields": {} } });
    json!({ "v": 1, "workspace": workspace, "received_at": 1_795_262_400_000_i64,
            "objects": [object] })
    .to_string()
}

/// A person with rights in one workspace.
async fn person_of(fleet: &Fleet, workspace: i32, rights: &[&str]) -> Browser {
    let browser = Browser::signed_in(fleet, "ben", "viewer").await;
    let rights = json!({ "everywhere": [], "in_workspaces": { workspace.to_string(): rights } });
    let sql = "UPDATE console_sessions SET rights = $1 WHERE person = 'ben'";
    assert_eq!(execute(fleet, sql, &rights.to_string()).await, 1);
    browser
}

async fn dead_letters_are_applied_and_discarded(backend: Backend) {
    let fleet = Fleet::start(backend, &console::settings()).await;
    let exporting = ["users.export.ids"];
    let files = [WorkspaceFile::new("acme").permitted(&exporting), WorkspaceFile::new("beta")];
    let api = fleet.apply(&files).await.remove(0);
    let [acme, beta] = [workspace_id(&fleet, "acme").await, workspace_id(&fleet, "beta").await];
    let app = App::open(fleet.config()).await.expect("all opens");
    let risen = bury(&app, 1, Some(acme), &creating(acme, "risen")).await;
    let damaged = format!(r#"{{"v":1,"workspace":{acme},"objects":7}}"#);
    let damaged = bury(&app, 2, Some(acme), &damaged).await;
    let unwanted = bury(&app, 3, Some(acme), &creating(acme, "unwanted")).await;
    let of_beta = bury(&app, 4, Some(beta), &creating(beta, "other")).await;
    let nobodys = bury(&app, 5, None, "no message").await;

    let vera = Browser::signed_in(&fleet, "vera", "operator").await;
    let ana = Browser::signed_in(&fleet, "ana", "admin").await;
    let list = vera.get("/dead-letters").await.text;
    let places: Vec<Option<usize>> = [&nobodys, &of_beta, &unwanted, &damaged, &risen]
        .map(|id| list.find(&format!("href=\"/dead-letters/{id}\"")))
        .to_vec();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "newest first: {list}");
    assert!(!list.contains("<script>a") && list.contains("&lt;script&gt;alert"), "{list}");
    assert!(!list.contains("risen\""), "a list has no personal data: {list}");
    let path = |id: &str| format!("/dead-letters/{id}");
    let shown = vera.get(&path(&risen)).await.text;
    assert!(shown.contains("partition 3, offset 1") && !shown.contains("trace"), "{shown}");
    assert!(!shown.contains("external_id"), "{shown}");

    // Only whoever may see users sees the payload, and only an admin changes anything.
    let payload = |id: &str| format!("{}/payload", path(id));
    assert_eq!(vera.get(&payload(&risen)).await.status, 403);
    let shown = ana.get(&payload(&risen)).await.text;
    assert!(shown.contains("external_id"), "{shown}");
    for action in ["retry", "discard"] {
        let refused = vera.post(&format!("{}/{action}", path(&risen)), &[]).await;
        assert_eq!(refused.status, 403, "{refused:?}");
    }

    let act = async |id: &str, action: &str| {
        let done = ana.post(&format!("{}/{action}", path(id)), &[]).await;
        assert_eq!(done.status, 303, "{action}: {done:?}");
        let page = ana.get(done.location()).await;
        assert_eq!(page.status, 200, "{page:?}");
        page.text
    };
    let users = async |name: &str| -> Value {
        let body = json!({ "external_ids": [name], "fields_to_export": ["external_id"] });
        api.post("/users/export/ids", &body).await.body["users"].clone()
    };
    let after = act(&risen, "retry").await;
    assert!(after.contains("It was applied") && !after.contains(&risen), "{after}");
    assert_eq!(users("risen").await.as_array().map(Vec::len), Some(1));
    let after = act(&damaged, "retry").await;
    assert!(after.contains("It failed again") && after.contains(&damaged), "{after}");
    let after = act(&unwanted, "discard").await;
    assert!(after.contains("It was discarded") && !after.contains(&unwanted), "{after}");
    assert_eq!(users("unwanted").await, json!([]));
    for id in [&risen, &unwanted] {
        for action in ["retry", "discard"] {
            let gone = ana.post(&format!("{}/{action}", path(id)), &[]).await;
            assert_eq!(gone.status, 404, "{gone:?}");
        }
    }

    let entries = audited(&fleet, "dead_letter.").await;
    let found: Vec<[&Value; 4]> = entries
        .iter()
        .map(|entry| ["action", "object", "workspace", "actor"].map(|name| &entry[name]))
        .collect();
    let entry =
        |action: &str, id: &str| [json!(action), json!(id), json!("acme"), json!("console:ana")];
    let expected = [
        entry("dead_letter.discard", &unwanted),
        entry("dead_letter.retry", &damaged),
        entry("dead_letter.retry", &risen),
        entry("dead_letter.payload", &risen),
    ];
    assert_eq!(found, expected.each_ref().map(|entry| entry.each_ref()));
    let results: Vec<&Value> =
        entries.iter().map(|entry| &entry["details"]["result"]).filter(|r| !r.is_null()).collect();
    assert_eq!(results, ["failed", "applied"]);
    assert!(!json!(entries).to_string().contains("external_id"), "{entries:?}");

    // A person with rights in one workspace acts on its dead letters, and knows of no others.
    let rights = ["system.view", "users.view", "dead_letters.manage"];
    let ben = person_of(&fleet, beta, &rights).await;
    let list = ben.get("/w/beta/dead-letters").await.text;
    assert!(list.contains(&of_beta) && !list.contains(&damaged), "{list}");
    assert!(!list.contains(&nobodys) && !list.contains("acme"), "{list}");
    assert_eq!(ben.get("/dead-letters").await.status, 403);
    assert_eq!(ben.get(&path(&of_beta)).await.status, 403);
    assert_eq!(ben.get("/w/acme/dead-letters").await.status, 404);
    for id in [&damaged, &nobodys, &"7".to_owned()] {
        let path = format!("/w/beta/dead-letters/{id}");
        assert_eq!(ben.get(&path).await.status, 404, "{path}");
        assert_eq!(ben.get(&format!("{path}/payload")).await.status, 404, "{path}");
        assert_eq!(ben.post(&format!("{path}/retry"), &[]).await.status, 404, "{path}");
        assert_eq!(ben.post(&format!("{path}/discard"), &[]).await.status, 404, "{path}");
    }
    let done = ben.post(&format!("/w/beta/dead-letters/{of_beta}/discard"), &[]).await;
    assert!(done.location().starts_with("/w/beta/dead-letters?"), "{done:?}");
    let left = ana.get("/dead-letters").await.text;
    assert!(left.contains(&damaged) && left.contains(&nobodys) && !left.contains(&of_beta));
    app.log.close().await;
    app.store.close().await;
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_applied_and_discarded_on_sqlite() {
    dead_letters_are_applied_and_discarded(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_applied_and_discarded_on_postgres() {
    dead_letters_are_applied_and_discarded(Backend::Fleet(1)).await;
}
