//! Calls and names that clients of this family of APIs bring along: changes of identities in order
//! with tracking, another name of `service_id`, subscriptions, catalogs, campaigns and schedules.

mod catalogs;
mod identities;
mod sending;
mod subscriptions;
mod unknown_fields;

use longshore::workspaces::keys::PERMISSIONS;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::api::{Api, ApiResponse};
use crate::support::archives;
use crate::support::fleet::{Backend, Fleet};
use crate::support::workspace::WorkspaceFile;

pub const CAMPAIGN: &str = "3c9f0a52-8f1e-4c57-9a3e-0d5b1c2e7f60";
pub const CANVAS: &str = "0b0a6c8e-6d0c-4f39-9d0b-6f0f6f9a2c11";
pub const SEGMENT: &str = "8a1d0f5e-2c3b-4d6a-9e7f-0123456789ab";
pub const GROUP: &str = "7d0c6f5e-4b1a-4e0f-9a55-2f6d1c3b8a90";

pub struct World {
    pub fleet: Fleet,
    pub api: Api,
}

impl World {
    /// With a key for every call, and `more` in the workspace file.
    pub async fn start(more: &[(&str, Value)]) -> Self {
        let fleet = Fleet::start(Backend::Embedded, &[]).await;
        let webhook = json!({ "webhook": {
            "url": "https://hooks.example.com/", "request_method": "POST", "body": "{}",
        } });
        let tier = json!({ "custom_attribute": {
            "custom_attribute_name": "tier", "comparison": "equals", "value": "gold",
        } });
        let file = WorkspaceFile::new("acme")
            .permitted(PERMISSIONS)
            .with(
                "campaigns",
                json!([{ "id": CAMPAIGN, "name": "Welcome", "type": "api", "messages": webhook }]),
            )
            .with("canvases", json!([{ "id": CANVAS, "name": "Spring", "messages": webhook }]))
            .with("segments", json!([{ "id": SEGMENT, "name": "Gold", "audience": tier }]))
            .with(
                "subscription_groups",
                json!([{ "id": GROUP, "channel": "sms", "from": "+15550100" }]),
            );
        let file = more.iter().fold(file, |file, (name, value)| file.with(name, value.clone()));
        let api = fleet.apply(&[file]).await.remove(0);
        Self { fleet, api }
    }

    /// Makes a call that must succeed.
    pub async fn done(&self, path: &str, body: Value) -> Value {
        let answer = self.api.post(path, &body).await;
        assert!(answer.status.is_success(), "{path} {body}: {answer:?}");
        assert_eq!(answer.body["message"], "success", "{answer:?}");
        answer.body
    }

    /// Makes a call that must be refused.
    pub async fn refused(&self, path: &str, body: Value, status: u16, code: &str) {
        refuses(&self.api.post(path, &body).await, status, code);
    }

    pub async fn track(&self, attributes: Value) {
        self.done("/users/track", json!({ "attributes": attributes })).await;
    }

    /// The user's record, once everything is applied; null where nobody has the id.
    pub async fn user(&self, id: &str) -> Value {
        self.fleet.applied().await;
        let output = self.fleet.command(&["users", "show", id, "--json"]).await;
        if output.status.success() {
            serde_json::from_slice(&output.stdout).unwrap()
        } else {
            Value::Null
        }
    }
}

pub fn refuses(answer: &ApiResponse, status: u16, code: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.body["code"], code, "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_name_of_service_id_is_read_and_exported() {
    let world = World::start(&[("aliases", json!({ "service_id": "braze_id" }))]).await;
    world.track(json!([{ "external_id": "ann" }])).await;
    let id = world.user("ann").await["service_id"].clone();
    world.track(json!([{ "braze_id": id, "first_name": "Ann", "tier": 1 }])).await;
    world.track(json!([{ "service_id": id, "last_name": "Lee" }])).await;
    let ann = world.user("ann").await;
    assert_eq!((&ann["first_name"], &ann["last_name"]), (&json!("Ann"), &json!("Lee")));
    assert_eq!(ann["custom_attributes"], json!({ "tier": 1 }));
    let answer = world
        .api
        .post("/users/track", &json!({ "attributes": [{ "braze_id": id, "service_id": id }] }))
        .await;
    assert_eq!(answer.status, 400, "{answer:?}");

    let accepted =
        world.api.export(&json!({ "fields_to_export": ["external_id", "braze_id"] })).await;
    world.api.done(&accepted.prefix).await;
    let files = archives::unzip(&world.api.download(accepted.address()).await);
    let lines: Vec<Value> =
        files.iter().map(|file| serde_json::from_slice(&file.bytes).unwrap()).collect();
    assert_eq!(lines, [json!({ "braze_id": id, "external_id": "ann" })]);
    // None of two lists is lost without a word.
    let both = json!({ "braze_ids": [id], "service_ids": [Uuid::nil()] });
    for path in ["/users/delete", "/users/export/ids"] {
        world.refused(path, both.clone(), 400, "invalid-field").await;
    }
    world.done("/users/delete", json!({ "braze_ids": [id], "service_ids": [] })).await;
    assert_eq!(world.user("ann").await, Value::Null);
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_setting_another_name_is_a_plain_attribute() {
    let world = World::start(&[]).await;
    world.track(json!([{ "external_id": "ann", "braze_id": "x" }])).await;
    assert_eq!(world.user("ann").await["custom_attributes"], json!({ "braze_id": "x" }));
    let body = json!({ "attributes": [{ "braze_id": Uuid::nil() }] });
    world.refused("/users/track", body, 400, "invalid-request").await;
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_is_carried_out_or_refused_and_never_stored() {
    let world = World::start(&[]).await;
    let attributes = json!([
        { "external_id": "ann", "pets": { "$add": [{ "id": 1, "born": { "$time": "2020-01-01" } }] } },
        { "external_id": "ann", "pets": { "$update": [{ "$identifier_key": "id" }] } },
        { "external_id": "ann", "pets": { "$remove": [{ "$identifier_key": "id" }] } },
        { "external_id": "ann", "_merge_objects": true, "a": { "b": 1 } },
        { "external_id": "ann", "push_token_import": true },
        { "external_id": "ann", "_merge_objects": false, "push_token_import": false, "a": 1 },
        { "external_id": "ann", "list": ["a", "b"], "other": { "add": [1, 2], "remove": [1.0] } },
        { "external_id": "ann", "list": { "add": ["c", "d"], "remove": ["b", "d"] } },
    ]);
    let answer = world.done("/users/track", json!({ "attributes": attributes })).await;
    assert_eq!(answer["attributes_processed"], 4, "{answer}");
    let wrong: Vec<i64> =
        answer["errors"].as_array().unwrap().iter().filter_map(|e| e["index"].as_i64()).collect();
    assert_eq!(wrong, [1, 2, 3, 4], "{answer}");
    let pets = json!([{ "id": 1, "born": "2020-01-01T00:00:00.000Z" }]);
    let custom = json!({ "pets": pets, "a": 1, "list": ["a", "c"], "other": [2] });
    assert_eq!(world.user("ann").await["custom_attributes"], custom);
    world.fleet.close().await;
}

/// One group without a state rejects no record, and changes the state of no group.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_state_of_a_group_changes_nothing() {
    const OTHER: &str = "7d0c6f5e-4b1a-4e0f-9a55-2f6d1c3b8a91";
    const THIRD: &str = "7d0c6f5e-4b1a-4e0f-9a55-2f6d1c3b8a92";
    let group = |id: &str, state: Value| json!({ "subscription_group_id": id, "subscription_state": state });
    let world = World::start(&[]).await;
    let groups = [GROUP, OTHER, THIRD].map(|id| group(id, json!("subscribed")));
    world.track(json!([{ "external_id": "ann", "subscription_groups": groups }])).await;
    let states = async || {
        let ann = world.user("ann").await;
        let mut states: Vec<(String, String)> = ann["subscription_groups"]
            .as_array()
            .expect("groups")
            .iter()
            .map(|group| {
                let text = |name: &str| group[name].as_str().expect("a text").to_owned();
                (text("subscription_group_id"), text("subscription_state"))
            })
            .collect();
        states.sort();
        (ann["first_name"].clone(), states)
    };
    let expected = |name: &str, states: [&str; 3]| {
        let states = [GROUP, OTHER, THIRD].into_iter().zip(states);
        let states = states.map(|(id, state)| (id.to_owned(), state.to_owned()));
        (json!(name), states.collect::<Vec<_>>())
    };
    for (n, empty) in [json!(null), json!("")].into_iter().enumerate() {
        let name = format!("tracked {n}");
        let list = |state: &str| json!([group(GROUP, empty.clone()), group(OTHER, json!(state))]);
        let body = json!({ "attributes": [
            { "external_id": "ann", "first_name": name, "subscription_groups": list("unsubscribed") },
            { "external_id": "ann", "subscription_groups": [group(GROUP, empty.clone())] },
        ] });
        let answer = world.done("/users/track", body).await;
        assert_eq!(answer["attributes_processed"], 2, "{answer}");
        let field = "attributes[].subscription_groups[].subscription_state";
        let warning = json!([{ "field": field, "code": "no-state", "count": 2, "index": 0 }]);
        assert_eq!(answer["warnings"], warning);
        let after = ["subscribed", "unsubscribed", "subscribed"];
        assert_eq!(states().await, expected(&name, after));
        // A line of an import.
        let name = format!("imported {n}");
        let line = json!({
            "external_id": "ann", "first_name": name, "subscription_groups": list("unsubscribed"),
        });
        world.fleet.import("acme", &[line.to_string()]).await;
        assert_eq!(states().await, expected(&name, after));
    }
    // Without its field, or with a misspelt one, the group is wrong.
    let wrong = json!([{ "subscription_group_id": GROUP, "state": "unsubscribed" }]);
    let body = json!({ "attributes": [{ "external_id": "ann", "subscription_groups": wrong }] });
    assert_eq!(world.api.post("/users/track", &body).await.status, 400);
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slashes_and_short_offsets_are_tolerated() {
    let world = World::start(&[]).await;
    let event = json!({ "external_id": "ann", "name": "seen", "time": "2020-01-01T01:00:00+1:00" });
    for path in ["/users/track/", "//users//track"] {
        world.done(path, json!({ "events": [event] })).await;
    }
    let answer = world.api.get("//campaigns/list/?page=0").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    world.fleet.close().await;
}
