//! The document in itself, and as it is served: routes, schemas and examples.

use std::collections::BTreeSet;

use flate2::read::GzDecoder;
use longshore::cli::reference;
use reqwest::Method;
use serde_json::{Value, json};

use super::world::World;
use super::{filled, takes_key};
use crate::support::contract::{CONTRACT, Validator};
use crate::support::fleet::Backend;

#[tokio::test(flavor = "multi_thread")]
async fn the_document_has_every_route_and_no_other() {
    let world = World::start(Backend::Embedded).await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let call = client.get(format!("{}/openapi.json", world.fleet.base()));
    // The gateway creates it for the first request.
    let (served, gzip) = tokio::join!(
        world.keyless(Method::GET, "/openapi.json"),
        call.header("accept-encoding", "gzip").send()
    );
    let gzip = gzip.unwrap();
    // Samples have the address of the server.
    let address = CONTRACT.document["servers"][0]["url"].as_str().unwrap();
    let paths = served.body["paths"].to_string().replace(world.fleet.base(), address);
    assert_eq!(paths, CONTRACT.document["paths"].to_string());
    assert_eq!(served.body["servers"], json!([{ "url": world.fleet.base() }]));
    let mut for_generators = world.keyless(Method::GET, "/openapi-3.0.json").await.body;
    assert_eq!(for_generators["servers"], served.body["servers"]);
    assert_eq!(for_generators["info"]["description"], served.body["info"]["description"]);
    for_generators["servers"] = CONTRACT.document["servers"].clone();
    for_generators["info"]["description"] = CONTRACT.document["info"]["description"].clone();
    assert_eq!(for_generators.to_string(), reference::openapi30().to_string());
    // Compressed it is the same.
    assert_eq!(gzip.headers()["content-encoding"], "gzip");
    for headers in [&served.headers, gzip.headers()] {
        let vary: Vec<_> = headers.get_all("vary").iter().collect();
        assert_eq!(vary, ["accept-encoding"]);
    }
    let gzip = gzip.bytes().await.unwrap();
    let document: Value = serde_json::from_reader(GzDecoder::new(&gzip[..])).unwrap();
    assert_eq!(document, served.body);
    for (path, operations) in CONTRACT.document["paths"].as_object().unwrap() {
        let mut methods: BTreeSet<String> =
            operations.as_object().unwrap().keys().map(|name| name.to_uppercase()).collect();
        if methods.contains("GET") {
            methods.insert("HEAD".into());
        }
        let options = world.keyless(Method::OPTIONS, &filled(path)).await;
        assert_eq!(options.status, 204, "{path}");
        let allowed = options.headers["allow"].to_str().unwrap().split(',').map(str::to_owned);
        assert_eq!(allowed.collect::<BTreeSet<_>>(), methods, "{path}");
    }
    for (path, method, operation) in CONTRACT.operations() {
        let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
        let answer = world.keyless(method.clone(), &filled(path)).await;
        let needs_key = operation["security"] != json!([]);
        assert_eq!(answer.status == 401, needs_key, "{method} {path}: {answer:?}");
        assert_ne!(answer.body["message"], "Unknown path", "{method} {path}");
    }
    world.fleet.close().await;
}

#[test]
fn operations_have_ids_of_their_own() {
    let ids: Vec<&str> = CONTRACT
        .operations()
        .map(|(_, _, operation)| operation["operationId"].as_str().unwrap())
        .collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
    let links = CONTRACT.document.to_string();
    for (_, _, operation) in CONTRACT.operations() {
        for (_, response) in operation["responses"].as_object().unwrap() {
            let targets = CONTRACT.resolve(response)["links"].as_object();
            for (target, link) in targets.into_iter().flatten() {
                assert!(ids.contains(&target.as_str()), "{target}");
                assert!(link.get("requestBody").is_none(), "generators refuse {target}: {link}");
            }
        }
    }
    assert!(links.contains("\"links\""));
}

/// Visits the keywords of all schemas and their parts, but not the names of properties.
fn for_each_keyword(value: &Value, visit: &mut impl FnMut(&str, &Value, &Value)) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                visit(name, field, value);
                match (name.as_str(), field) {
                    ("properties", Value::Object(properties)) => {
                        properties.values().for_each(|schema| for_each_keyword(schema, visit));
                    }
                    _ => for_each_keyword(field, visit),
                }
            }
        }
        Value::Array(elements) => {
            elements.iter().for_each(|element| for_each_keyword(element, visit))
        }
        _ => {}
    }
}

#[test]
fn the_document_for_generators_has_no_keyword_of_later_versions() {
    const LATER: [&str; 25] = [
        // Generators make a set of enums of it that does not compile.
        "uniqueItems",
        "const",
        "$defs",
        "examples",
        "webhooks",
        "$id",
        "$schema",
        "$comment",
        "$anchor",
        "$dynamicRef",
        "if",
        "then",
        "else",
        "prefixItems",
        "contains",
        "minContains",
        "maxContains",
        "propertyNames",
        "patternProperties",
        "dependentRequired",
        "dependentSchemas",
        "unevaluatedItems",
        "unevaluatedProperties",
        "contentMediaType",
        "contentEncoding",
    ];
    let document = reference::openapi30();
    assert_eq!(document["openapi"], "3.0.3");
    let mut keywords = 0;
    for_each_keyword(&document, &mut |name, value, schema| {
        keywords += 1;
        assert!(!LATER.contains(&name), "{name}: {schema}");
        match name {
            "type" => assert!(value.is_string() && value != "null", "{schema}"),
            "exclusiveMinimum" | "exclusiveMaximum" => assert!(value.is_boolean(), "{schema}"),
            "$ref" => assert_eq!(schema.as_object().unwrap().len(), 1, "{schema}"),
            "nullable" => {
                assert!(schema.get("type").is_some() || schema.get("allOf").is_some(), "{schema}")
            }
            _ => {}
        }
    });
    assert!(keywords > 5_000, "{keywords}");
}

/// Pages show a description once more for each alternative next to it, and generators fail on
/// several types in one.
#[test]
fn schemas_are_as_pages_and_generators_read_them() {
    let mut schemas = 0;
    for_each_keyword(&CONTRACT.document, &mut |name, value, schema| {
        let alternatives = || value.as_array().into_iter().flatten();
        schemas += 1;
        match name {
            "type" => {
                assert!(alternatives().filter(|kind| *kind != "null").count() < 2, "{schema}")
            }
            "anyOf" | "oneOf" => {
                assert!(
                    schema.get("properties").is_none() || schema["description"].is_null(),
                    "{schema}"
                );
                for part in alternatives() {
                    let about = &CONTRACT.resolve(part)["description"];
                    assert!(about.is_null() || *about != schema["description"], "{schema}");
                }
            }
            _ => {}
        }
        if name == "type" && value.to_string().contains("\"array\"") {
            assert!(schema.get("items").or(schema.get("prefixItems")).is_some(), "{schema}");
        }
    });
    assert!(schemas > 5_000, "{schemas}");
}

#[test]
fn both_documents_have_the_same_operations() {
    let document_30 = reference::openapi30();
    let shape = |document: &Value| {
        let mut operations = Vec::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                let names = |value: &Value| -> Vec<String> {
                    value.as_object().into_iter().flat_map(|map| map.keys().cloned()).collect()
                };
                let parameters = operation["parameters"].as_array().unwrap().iter();
                let parameters =
                    parameters.map(|parameter| parameter.get("name").unwrap_or(&parameter["$ref"]));
                // A part of a file is the same to generators.
                let mut statuses = names(&operation["responses"]);
                statuses.retain(|status| status != "206");
                operations.push(json!({
                    "operation": [path, method, operation["operationId"]],
                    "parameters": parameters.collect::<Vec<_>>(),
                    "bodies": names(&operation["requestBody"]["content"]),
                    "statuses": statuses,
                    "security": operation["security"],
                }));
            }
        }
        operations
    };
    assert_eq!(shape(&document_30), shape(&CONTRACT.document));
    let has_partial_content = |document: &Value| document["paths"].to_string().contains("\"206\"");
    assert!(has_partial_content(&CONTRACT.document) && !has_partial_content(&document_30));
}

#[test]
fn every_example_is_of_its_schema() {
    let mut examples = 0;
    let mut check = |media: &Value, location: &str| {
        let validator = Validator::new(&media["schema"], &CONTRACT.document);
        let many = media["examples"].as_object().into_iter().flat_map(|all| all.values());
        let many = many.map(|example| &example["value"]);
        for example in media.get("example").into_iter().chain(many) {
            examples += 1;
            assert_eq!(validator.check(example), Ok(()), "{location}: {example}");
        }
    };
    for (path, method, operation) in CONTRACT.operations() {
        let bodies = operation["requestBody"]["content"].as_object();
        for media in bodies.into_iter().flat_map(|content| content.values()) {
            check(media, &format!("{method} {path}"));
        }
        for (status, response) in operation["responses"].as_object().unwrap() {
            let content = CONTRACT.resolve(response)["content"].as_object();
            for media in content.into_iter().flat_map(|content| content.values()) {
                check(media, &format!("{method} {path} {status}"));
            }
        }
    }
    assert!(examples > 60, "{examples}");
}

#[test]
fn each_change_by_post_or_patch_takes_a_key() {
    // They change nothing, or recognize a repeat by its `webhook-id` or by the user's state.
    const OTHERS: [&str; 11] = [
        "countSegment",
        "exportUsers",
        "listUserMessages",
        "previewTemplates",
        "reportEmails",
        "reportMessages",
        "sampleSegment",
        "search",
        "searchGroups",
        "searchUsers",
        "unsubscribe",
    ];
    let changes = CONTRACT.operations().filter(|(_, method, operation)| {
        ["post", "patch"].contains(method) && !takes_key(operation)
    });
    let without_key = changes.map(|(_, _, operation)| operation["operationId"].as_str().unwrap());
    assert_eq!(without_key.collect::<BTreeSet<_>>(), BTreeSet::from(OTHERS));
    let edits = CONTRACT.operations().filter(|(path, method, _)| {
        path.starts_with("/catalogs/") && path.contains("/items") && *method != "get"
    });
    let takes_key: Vec<bool> = edits.map(|(_, _, edit)| takes_key(edit)).collect();
    assert_eq!(takes_key, [true; 8]);
}

/// A key of one request is refused with the body of another.
#[test]
fn each_example_of_a_body_has_a_key_of_its_own() {
    let mut seen = BTreeSet::new();
    for (path, method, operation) in CONTRACT.operations() {
        let parameters = operation["parameters"].as_array().unwrap();
        let is_key = |parameter: &&Value| CONTRACT.resolve(parameter)["name"] == "Idempotency-Key";
        let Some(key) = parameters.iter().find(is_key) else { continue };
        let keys = CONTRACT.resolve(key)["examples"].as_object().unwrap();
        let media = operation["requestBody"]["content"]["application/json"].as_object();
        let bodies = media.map_or(1, |media| media["examples"].as_object().unwrap().len());
        assert_eq!(keys.len(), bodies, "{method} {path}");
        for example in keys.values() {
            assert!(seen.insert(example["value"].to_string()), "{method} {path}: {example}");
        }
    }
    assert!(seen.len() > 8, "{seen:?}");
}
