//! Catalogs and items, made, read and removed by calls.

use longshore::workspaces::keys::PERMISSIONS;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::PgPool;

use super::{World, refuses};
use crate::support::WorkspaceFile;
use crate::support::api::{ApiResponse, answer};
use crate::support::fleet::{Backend, Fleet};
use crate::support::stores::wait_until_blocked;

impl World {
    async fn call(&self, method: Method, path: &str, body: Value) -> ApiResponse {
        answer(self.api.request(method, path).json(&body)).await
    }

    async fn items(&self) -> Vec<Value> {
        self.fleet.applied().await;
        let (mut items, mut path) = (Vec::new(), "/catalogs/cafes/items".to_owned());
        loop {
            let page = self.api.get(&path).await;
            assert_eq!(page.status, 200, "{page:?}");
            items.extend(page.body["items"].as_array().unwrap().clone());
            let Some(link) = page.headers.get("link") else { return items };
            let link = link.to_str().unwrap();
            path = link[1..].split('>').next().unwrap().to_owned();
        }
    }
}

fn cafes() -> Value {
    json!({ "catalogs": [{ "name": "cafes", "fields": [
        { "name": "id", "type": "string" }, { "name": "City", "type": "string" },
        { "name": "Rating", "type": "number" },
    ] }] })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_is_created_filled_read_and_deleted() {
    let world = World::start(&[]).await;
    world.done("/catalogs", cafes()).await;
    world.refused("/catalogs", cafes(), 409, "conflict").await;
    let no_id =
        json!({ "catalogs": [{ "name": "b", "fields": [{ "name": "a", "type": "string" }] }] });
    world.refused("/catalogs", no_id, 400, "invalid-field").await;
    let many = |from: usize| {
        let items = (from..from + 50).map(|n| json!({ "id": format!("c{n:03}"), "City": "Oslo" }));
        json!({ "items": items.collect::<Vec<_>>() })
    };
    const ITEMS: &str = "/catalogs/cafes/items";
    for from in [0, 50, 100] {
        world.done(ITEMS, many(from)).await;
    }
    let ids: Vec<Value> = world.items().await.iter().map(|item| item["id"].clone()).collect();
    assert_eq!(ids.len(), 150);
    assert_eq!((&ids[0], &ids[149]), (&json!("c000"), &json!("c149")));

    let listed = world.api.get("/catalogs").await;
    assert_eq!(listed.body["catalogs"][0]["num_items"], 150, "{listed:?}");
    assert_eq!(listed.body["catalogs"][0]["fields"][0], json!({ "name": "id", "type": "string" }));

    let gone = world.call(Method::DELETE, ITEMS, many(50)).await;
    assert_eq!(gone.status, 202, "{gone:?}");
    assert_eq!(world.items().await.len(), 100);
    let gone = world.call(Method::DELETE, "/catalogs/cafes", Value::Null).await;
    assert_eq!(gone.status, 202, "{gone:?}");
    refuses(&world.api.get(ITEMS).await, 404, "not-found");
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_item_is_edited_by_its_path() {
    let world = World::start(&[]).await;
    world.done("/catalogs", cafes()).await;
    const ITEM: &str = "/catalogs/cafes/items/one";
    let fields = |fields: Value| json!({ "items": [fields] });
    let edit = async |method: Method, body: Value, status: u16| {
        let answer = world.call(method, ITEM, body).await;
        assert_eq!(answer.status, status, "{answer:?}");
    };
    refuses(&world.api.get(ITEM).await, 404, "not-found");
    // What is not there is not edited; what is there is not created again.
    edit(Method::PATCH, fields(json!({ "City": "Rome" })), 202).await;
    edit(Method::POST, fields(json!({ "City": "Oslo", "Rating": "4.5" })), 202).await;
    edit(Method::POST, fields(json!({ "City": "Rome" })), 202).await;
    edit(Method::PATCH, fields(json!({ "Rating": 5 })), 202).await;
    let item = || json!({ "id": "one", "City": "Oslo", "Rating": 5 });
    assert_eq!(world.items().await, [item()]);
    assert_eq!(world.api.get(ITEM).await.body["items"], json!([item()]));
    edit(Method::PUT, fields(json!({ "City": "Rome" })), 202).await;
    assert_eq!(world.items().await, [json!({ "id": "one", "City": "Rome" })]);
    edit(Method::PUT, fields(json!({ "Name": "x" })), 400).await;
    edit(Method::PUT, fields(json!({ "id": "other" })), 400).await;
    edit(Method::PUT, json!({ "items": [] }), 400).await;
    edit(Method::DELETE, Value::Null, 202).await;
    assert!(world.items().await.is_empty());
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_catalogs_of_one_name_that_are_created_together_one_is_refused() {
    let fleet = Fleet::start(Backend::Fleet(1), &[]).await;
    let file = WorkspaceFile::new("acme").permitted(PERMISSIONS);
    let api = fleet.apply(&[file]).await.remove(0);
    let pool = PgPool::connect(&fleet.database_url()).await.unwrap();
    let mut other = pool.begin().await.unwrap();
    let insert = "INSERT INTO catalogs (workspace_id, name, fields, created_at)
                  SELECT id, 'cafes', '[]', 0 FROM workspaces";
    sqlx::query(insert).execute(&mut *other).await.unwrap();
    let creating = tokio::spawn(answer(api.request(Method::POST, "/catalogs").json(&cafes())));
    // The request waits for the other transaction.
    wait_until_blocked(&pool).await;
    other.commit().await.unwrap();
    refuses(&creating.await.unwrap(), 409, "conflict");
    fleet.close().await;
}
