//! Fields that a request does not read: rejected if they could select users, else named in
//! `warnings`.

use longshore::workspaces::keys::PERMISSIONS;
use reqwest::Method;
use serde_json::{Value, json};

use super::{CAMPAIGN, CANVAS, GROUP, SEGMENT, World};
use crate::support::api::answer;
use crate::support::eventually;
use crate::support::workspace::WorkspaceFile;

/// A body with more fields.
fn with(body: &Value, more: Value) -> Value {
    let mut body = body.clone();
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// A request with effects, to which the workspace says yes.
fn requests() -> Vec<(&'static str, Value)> {
    let webhook = json!({ "webhook": {
        "url": "https://hooks.example.com/", "request_method": "POST", "body": "{}",
    } });
    let recipients = json!([{ "external_user_id": "ann" }]);
    let schedule = json!({ "time": "2127-01-01T09:00:00Z" });
    let alias = json!({ "alias_name": "a", "alias_label": "crm" });
    vec![
        ("/campaigns/trigger/send", json!({ "campaign_id": CAMPAIGN, "recipients": recipients })),
        ("/messages/send", json!({ "external_user_ids": ["ann"], "messages": webhook })),
        ("/canvas/trigger/send", json!({ "canvas_id": CANVAS, "recipients": recipients })),
        (
            "/messages/schedule/create",
            json!({ "external_user_ids": ["ann"], "messages": webhook, "schedule": schedule }),
        ),
        (
            "/campaigns/trigger/schedule/create",
            json!({ "campaign_id": CAMPAIGN, "recipients": recipients, "schedule": schedule }),
        ),
        (
            "/canvas/trigger/schedule/create",
            json!({ "canvas_id": CANVAS, "recipients": recipients, "schedule": schedule }),
        ),
        ("/users/export/ids", json!({ "external_ids": ["ann"] })),
        ("/users/delete", json!({ "external_ids": ["nobody"] })),
        (
            "/users/identify",
            json!({ "aliases_to_identify": [{ "external_id": "x", "user_alias": alias }] }),
        ),
        (
            "/users/merge",
            json!({ "merge_updates": [{
                "identifier_to_merge": { "external_id": "x" },
                "identifier_to_keep": { "external_id": "y" },
            }] }),
        ),
        ("/users/alias/new", json!({ "user_aliases": [alias] })),
        (
            "/users/external_ids/rename",
            json!({ "external_id_renames": [
                { "current_external_id": "x", "new_external_id": "y" },
            ] }),
        ),
        ("/users/external_ids/remove", json!({ "external_ids": ["x"] })),
        (
            "/subscription/status/set",
            json!({
                "subscription_group_id": GROUP, "subscription_state": "subscribed",
                "external_id": ["ann"],
            }),
        ),
        (
            "/v2/subscription/status/set",
            json!({ "subscription_groups": [{
                "subscription_group_id": GROUP, "subscription_state": "subscribed",
                "external_ids": ["ann"],
            }] }),
        ),
        ("/email/status", json!({ "email": "a@b.example", "subscription_state": "unsubscribed" })),
        ("/suppressions/add", json!({ "emails": ["a@b.example"] })),
        ("/suppressions/lift", json!({ "emails": ["a@b.example"] })),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_misspelt_selection_of_users_is_rejected_and_a_comment_is_named() {
    let world = World::start(&[]).await;
    world.track(json!([{ "external_id": "ann" }])).await;
    world.user("ann").await;
    let comment = json!([{ "field": "comment", "code": "unknown-field", "count": 1 }]);
    for (path, body) in requests() {
        for name in ["audiance", "segmentId", "segment", "users", "user_ids", "to", "list_id"] {
            let body = with(&body, json!({ name: ["x"] }));
            // That request has more such names, and says which field is right.
            let has_own_error = path == "/users/export/ids" && name.contains("_id");
            let code = if has_own_error { "invalid-field" } else { "unknown-field" };
            world.refused(path, body, 400, code).await;
        }
        let body = with(&body, json!({ "comment": "secret" }));
        let request = world.api.request(Method::POST, path).header("idempotency-key", path);
        let first = answer(request.json(&body)).await;
        assert!(first.status.is_success(), "{path}: {first:?}");
        assert_eq!(first.body["warnings"], comment, "{path}");
        if path != "/users/export/ids" {
            let request = world.api.request(Method::POST, path).header("idempotency-key", path);
            assert_eq!(answer(request.json(&body)).await.body, first.body, "{path}");
        }
    }
    // Without such a field, responses are those of the family.
    for (path, body) in requests() {
        let response = world.api.post(path, &body).await;
        assert!(response.body.get("warnings").is_none(), "{path}: {response:?}");
    }
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn suppressing_reads_only_its_fields_and_repeats_its_response() {
    let mut world = World::start(&[]).await;
    const ADD: &str = "/suppressions/add";
    let add = json!({ "phones": ["+1 555 0101"], "subscription_group_id": GROUP });
    for name in ["email", "phone", "phone_number", "Phones"] {
        let more = with(&add, json!({ name: ["+15550102"] }));
        let response = world.api.post(ADD, &more).await;
        assert_eq!(response.status, 400, "{name}: {response:?}");
    }
    world.refused(ADD, with(&add, json!({ "mail": ["a@b.example"] })), 400, "unknown-field").await;
    for (body, code) in [
        (json!({}), "missing-field"),
        (json!({ "emails": [] }), "missing-field"),
        (json!({ "phones": ["+15550101"] }), "missing-field"),
        (json!({ "emails": ["a"] }), "invalid-field"),
        (json!({ "phones": ["555"], "subscription_group_id": GROUP }), "invalid-field"),
    ] {
        world.refused(ADD, body, 400, code).await;
    }
    let repeat = async |world: &World| {
        let request = world.api.request(Method::POST, ADD).header("idempotency-key", "stop");
        answer(request.json(&add)).await
    };
    let first = repeat(&world).await;
    assert_eq!((first.status.as_u16(), first.body.get("warnings")), (201, None), "{first:?}");
    // The group is removed: the request would be rejected now, but its response is stored.
    let file = WorkspaceFile::new("acme").permitted(PERMISSIONS);
    let file = file.with("subscription_groups", json!([]));
    world.api = world.fleet.apply(std::slice::from_ref(&file)).await.remove(0);
    world.fleet.prune(&[file]).await;
    eventually("the group is removed", || async {
        world.api.post(ADD, &add).await.body["code"] == "invalid-field"
    })
    .await;
    let second = repeat(&world).await;
    assert_eq!((second.status, second.body), (first.status, first.body));
    world.fleet.close().await;
}

/// Requests to all users, or to those of a segment or an audience.
fn requests_to_many() -> Vec<(&'static str, Value)> {
    let webhook = json!({ "webhook": {
        "url": "https://hooks.example.com/", "request_method": "POST", "body": "{}",
    } });
    let audience = json!({ "custom_attribute": {
        "custom_attribute_name": "tier", "comparison": "equals", "value": "gold",
    } });
    let schedule = json!({ "time": "2127-01-01T09:00:00Z" });
    vec![
        ("/campaigns/trigger/send", json!({ "campaign_id": CAMPAIGN, "broadcast": true })),
        (
            "/campaigns/trigger/schedule/create",
            json!({ "campaign_id": CAMPAIGN, "broadcast": true, "schedule": schedule }),
        ),
        ("/canvas/trigger/send", json!({ "canvas_id": CANVAS, "broadcast": true })),
        ("/messages/send", json!({ "audience": audience, "broadcast": true, "messages": webhook })),
        (
            "/users/export/segment",
            json!({ "segment_id": SEGMENT, "fields_to_export": ["external_id"] }),
        ),
        (
            "/users/export/segment",
            json!({ "audience": audience, "fields_to_export": ["external_id"] }),
        ),
        ("/users/export/global_control_group", json!({ "fields_to_export": ["external_id"] })),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_to_everybody_has_no_unknown_fields() {
    let world = World::start(&[]).await;
    for (path, body) in requests_to_many() {
        let response = world.api.post(path, &with(&body, json!({ "audiance": {} }))).await;
        assert_eq!(response.status, 400, "{path}: {response:?}");
        assert_eq!(response.body["code"], "unknown-field", "{path}");
        let text = response.body["message"].as_str().unwrap();
        assert!(text.starts_with("audiance: unknown field; "), "{text}");
        assert_eq!(text.contains("did you mean audience?"), !path.ends_with("_group"), "{text}");
        world.refused(path, with(&body, json!({ "comment": 1 })), 400, "unknown-field").await;
        // The sender may have meant to reach nobody.
        for nothing in [json!(null), json!([]), json!(false)] {
            let body = with(&body, json!({ "audiance": nothing, "segmnt": nothing }));
            world.refused(path, body, 400, "unknown-field").await;
        }
        world.refused(path, with(&body, json!({ "emails": [] })), 400, "invalid-field").await;
        for limit in ["audience", "segment_id"] {
            if body.get("broadcast").is_some() {
                let body = with(&body, json!({ limit: null }));
                world.refused(path, body, 400, "invalid-field").await;
            }
        }
        // Other APIs of the family have these.
        let known = json!({ "attachments": [], "override_frequency_capping": true });
        let response = world.api.post(path, &with(&body, known)).await;
        assert_eq!(response.status, 201, "{path}: {response:?}");
        let fields = response.body["warnings"].as_array().unwrap().iter();
        let fields: Vec<&Value> = fields.map(|warning| &warning["field"]).collect();
        let count = if path == "/messages/send" { 1 } else { 2 };
        assert_eq!(fields, ["attachments", "override_frequency_capping"][..count], "{path}");
    }
    let email = json!({ "custom_attribute": {
        "custom_attribute_name": "email", "comparison": "exists",
    } });
    let body = json!({ "campaign_id": CAMPAIGN, "broadcast": true, "audience": email });
    let sent = world.done("/campaigns/trigger/send", body).await;
    let warning = json!([
        { "field": "audience.custom_attribute.email", "code": "profile-field", "count": 1 },
    ]);
    assert_eq!(sent["warnings"], warning);
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_misspelt_condition_reaches_nobody() {
    let world = World::start(&[]).await;
    let leaf = json!({
        "custom_attribute_name": "tier", "comparison": "equals", "value": "gold", "negate": true,
    });
    let leaf = json!({ "AND": [{ "custom_attribute": leaf }] });
    let lost = json!({ "NOT": null, "custom_attribute": {
        "custom_attribute_name": "tier", "comparison": "exists",
    } });
    let schedule = json!({ "time": "2127-01-01T09:00:00Z" });
    for audience in [&leaf, &lost] {
        for (path, body) in requests_to_many().into_iter().chain([
            (
                "/canvas/trigger/schedule/create",
                json!({ "canvas_id": CANVAS, "broadcast": true, "schedule": schedule }),
            ),
            ("/segments/size", json!({ "audience": null })),
            ("/segments/sample", json!({ "audience": null })),
        ]) {
            if !path.ends_with("_group") && body.get("segment_id").is_none() {
                let body = with(&body, json!({ "audience": audience }));
                world.refused(path, body, 400, "invalid-field").await;
            }
        }
        let segments = json!([{ "id": SEGMENT, "name": "Gold", "audience": audience }]);
        let file = WorkspaceFile::new("acme").permitted(PERMISSIONS).with("segments", segments);
        let path = world.fleet.write_file("next.yaml", file.document().as_bytes());
        let applied = world.fleet.command(&["apply", path.to_str().unwrap()]).await;
        let error = String::from_utf8_lossy(&applied.stderr).into_owned();
        assert!(!applied.status.success() && error.contains("segments[0].audience"), "{error}");
    }
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sizes_and_samples_name_what_has_no_effect() {
    let world = World::start(&[]).await;
    world.track(json!([{ "external_id": "ann", "color": "red" }])).await;
    world.user("ann").await;
    let email = json!({ "custom_attribute": {
        "custom_attribute_name": "email", "comparison": "exists",
    } });
    let codes = |answer: &Value| -> Vec<(String, String)> {
        let warnings = answer["warnings"].as_array().cloned().unwrap_or_default().into_iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        warnings.map(|warning| (text(&warning["field"]), text(&warning["code"]))).collect()
    };
    let expected = |field: &str, code: &str| vec![(field.to_owned(), code.to_owned())];
    for path in ["/segments/size", "/segments/sample"] {
        let answer = world.done(path, json!({ "audience": email })).await;
        let field = "audience.custom_attribute.email";
        assert_eq!(codes(&answer), expected(field, "profile-field"), "{answer}");
        let body = json!({ "segment_id": SEGMENT, "audiance": email });
        let answer = world.done(path, body).await;
        assert_eq!(codes(&answer), expected("audiance", "unknown-field"), "{answer}");
        let answer = world.done(path, json!({ "segment_id": SEGMENT })).await;
        assert!(answer.get("warnings").is_none(), "{answer}");
    }
    // Nobody is in the segment. Ann has a color.
    let fields = json!(["custom_attributes.color", "custom_attributes.colour"]);
    let body = json!({ "segment_id": SEGMENT, "fields_to_export": fields });
    let expected = expected("fields_to_export.custom_attributes.colour", "unknown-attribute");
    let sample = world.done("/segments/sample", body.clone()).await;
    assert_eq!(sample["users"], json!([]), "{sample}");
    assert_eq!(codes(&sample), expected, "{sample}");
    let estimate =
        world.done("/users/export/segment", with(&body, json!({ "dry_run": true }))).await;
    assert_eq!(codes(&estimate), expected, "{estimate}");
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tracked_values_without_effect_are_named() {
    let world = World::start(&[]).await;
    let purchase = json!({
        "external_id": "ann", "product_id": "tea", "currency": "NOK", "price": 1,
        "time": "2026-01-01T00:00:00Z",
    });
    let body = json!({
        "attributes": [{ "external_id": "ann", "push_subscribe": "" }],
        "purchases": [purchase], "atributes": [],
    });
    let answer = world.done("/users/track", body).await;
    let codes: Vec<(&str, &str)> = answer["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|warning| (warning["field"].as_str().unwrap(), warning["code"].as_str().unwrap()))
        .collect();
    assert_eq!(
        codes,
        [
            ("atributes", "unknown-field"),
            ("attributes[].push_subscribe", "no-state"),
            ("purchases[].currency", "no-exchange-rate"),
        ]
    );
    world.fleet.close().await;
}

/// One sync with empty columns re-subscribes nobody.
#[tokio::test(flavor = "multi_thread")]
async fn empty_values_end_no_opt_out() {
    let world = World::start(&[]).await;
    let groups = json!([{ "subscription_group_id": GROUP, "subscription_state": "subscribed" }]);
    world
        .track(json!([{
            "external_id": "ann", "email": "ann@example.com", "push_subscribe": "unsubscribed",
            "subscription_groups": groups,
        }]))
        .await;
    world.user("ann").await;
    let status = json!({ "email": "ann@example.com", "subscription_state": "unsubscribed" });
    world.done("/email/status", status).await;
    let before = world.user("ann").await;
    for value in [json!(null), json!("")] {
        let answer = world
            .done(
                "/users/track",
                json!({ "attributes": [
                { "external_id": "ann", "email_subscribe": value, "push_subscribe": value,
                  "subscription_groups": value },
                { "external_id": "ann", "subscription_groups": [] },
            ] }),
            )
            .await;
        let fields: Vec<&Value> = answer["warnings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|warning| &warning["field"])
            .collect();
        assert_eq!(fields.len(), 3, "{answer}");
        let after = world.user("ann").await;
        for field in ["email_subscribe", "push_subscribe", "subscription_groups"] {
            assert!(!before[field].is_null(), "{before}");
            assert_eq!(after[field], before[field], "{value} {field}");
        }
    }
    world.fleet.close().await;
}
