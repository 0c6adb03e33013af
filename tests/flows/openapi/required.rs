//! Required fields of every request: null is the same as absent, and both are rejected.

use reqwest::Method;
use serde_json::{Value, json};

use super::filled;
use super::world::{CATALOG, RECEIPT, World};
use crate::support::api::{ApiResponse, answer};
use crate::support::contract::CONTRACT;
use crate::support::fleet::Backend;

/// A field of an example that its schema requires.
struct Field {
    pointer: String,
    /// Whether it is required in every form of the request.
    always: bool,
}

/// Adds the required fields of a value, and of the values in it.
fn add_required(schema: &Value, value: &Value, at: &Field, fields: &mut Vec<Field>) {
    let schema = CONTRACT.resolve(schema);
    let inside = |name: &str, always: bool| {
        let name = name.replace('~', "~0").replace('/', "~1");
        Field { pointer: format!("{}/{name}", at.pointer), always }
    };
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let field = inside(name, at.always);
        let is_known = fields.iter().any(|known| known.pointer == field.pointer);
        if value.get(name).is_some() && !is_known {
            fields.push(field);
        }
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = value.get(name) {
            add_required(property, value, &inside(name, at.always), fields);
        }
    }
    for (index, element) in value.as_array().into_iter().flatten().enumerate() {
        add_required(&schema["items"], element, &inside(&index.to_string(), at.always), fields);
    }
    for (keyword, always) in [("allOf", at.always), ("anyOf", false), ("oneOf", false)] {
        for part in schema[keyword].as_array().into_iter().flatten() {
            add_required(part, value, &Field { pointer: at.pointer.clone(), always }, fields);
        }
    }
    // Conditions on the fields.
    if schema.get("else").is_some() {
        let at = Field { pointer: at.pointer.clone(), always: false };
        add_required(&schema["if"], value, &at, fields);
    }
}

/// The example with a field that is null, and without the field.
fn null_and_absent(example: &Value, pointer: &str) -> [Value; 2] {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let name = name.replace("~1", "/").replace("~0", "~");
    [Some(Value::Null), None].map(|new| {
        let mut body = example.clone();
        let parent = body.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        match new {
            Some(new) => drop(parent.insert(name.clone(), new)),
            None => drop(parent.remove(&name)),
        }
        body
    })
}

async fn send(world: &World, method: &Method, path: &str, body: &Value) -> ApiResponse {
    if path.starts_with("/feedback") || path.starts_with("/email/events") {
        let signed = world.signed(path, &body.to_string());
        return answer(signed.header("content-type", "application/json")).await;
    }
    let request = world.keyed(method.clone(), path);
    answer(request.header("x-request-origin", "idp.acme.example").json(body)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn null_of_a_required_field_is_a_missing_field_in_every_request() {
    let world = World::start(Backend::Embedded).await;
    let mut ids = Vec::new();
    for (endpoint, body) in [
        ("/Users", json!({ "userName": "null@acme.example" })),
        ("/Groups", json!({ "displayName": "null" })),
    ] {
        let mut body = body;
        let kind = endpoint.trim_matches(['/', 's']);
        body["schemas"] = json!([format!("urn:ietf:params:scim:schemas:core:2.0:{kind}")]);
        let made = answer(world.scim(Method::POST, endpoint).json(&body)).await;
        ids.push((endpoint, made.body["id"].as_str().unwrap().to_owned()));
    }
    let (mut checked, mut missing) = (0, 0);
    for (path, method, operation) in CONTRACT.operations() {
        let Some(content) = operation["requestBody"]["content"].as_object() else { continue };
        let media = content.values().next().unwrap();
        let example = media["examples"]["1"]["value"].clone();
        let mut fields = Vec::new();
        let root = Field { pointer: String::new(), always: true };
        add_required(&media["schema"], &example, &root, &mut fields);
        let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
        let is_scim = path.starts_with("/scim");
        let mut path = path.replace("{campaign_id}", RECEIPT);
        for (endpoint, id) in &ids {
            if path.contains(endpoint) {
                path = path.replace("{id}", id);
            }
        }
        let path = filled(&path).replace("/none", &format!("/{CATALOG}"));
        for Field { pointer, always } in fields {
            // Without it another form of the request is valid, and a repeat has another result.
            if !always && is_scim {
                continue;
            }
            let [null, absent] = null_and_absent(&example, &pointer);
            let null = send(&world, &method, &path, &null).await;
            let absent = send(&world, &method, &path, &absent).await;
            let said = |answer: &ApiResponse| {
                let body = &answer.body;
                let text = if body["error"].is_null() { &body["message"] } else { &body["error"] };
                (answer.status.as_u16(), body["code"].clone(), text.clone())
            };
            let location = format!("{method} {path} {pointer}: {null:?}");
            assert_eq!(said(&null), said(&absent), "{location}");
            // Objects that are rejected leave the others of the request as they are.
            let is_partly = path == "/users/track" && null.body["errors"].is_array();
            assert!(!always || null.status == 400 || is_partly, "{location}");
            checked += 1;
            missing += usize::from(null.body["code"] == "missing-field");
        }
    }
    assert!(checked > 90 && missing > 50, "{checked} fields, {missing} missing");
    world.fleet.close().await;
}
