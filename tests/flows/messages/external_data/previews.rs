//! Previews of messages.

use serde_json::{Value, json};

use super::{PREVIEW, World, ann};

#[tokio::test(flavor = "multi_thread")]
async fn previews_show_the_rendered_message() {
    let world = World::start(&[ann()]).await;
    let post = async |body: Value| world.api.post(PREVIEW, &body).await;
    let answer = post(json!({
        "template": "{{${first_name}}} {{custom_attribute.${n}}} {{api_trigger_properties.${a}}}\
                     {{event_properties.${b}}}{{canvas_entry_properties.${c}}}\
                     {% message_extras :key k :value v %}",
        "external_user_id": "ann", "attributes": { "n": 5 },
        "api_trigger_properties": { "a": 1 }, "event_properties": { "b": 2 },
        "canvas_entry_properties": { "c": 3 },
    }))
    .await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(
        answer.body["previews"],
        json!([{ "rendered": "Ann 5 123", "message_extras": { "k": "v" } }])
    );
    let digits = r#"{"template":"{{custom_attribute.${o}}} {{custom_attribute.${n}}}",
        "attributes":{"o":{"z":1.10,"a":2},"n":9223372036854775808}}"#;
    let answer = world.api.post_text(PREVIEW, digits.to_owned()).await;
    let rendered = r#"{"z":1.10,"a":2} 9223372036854775808"#;
    assert_eq!(answer.body["previews"], json!([{ "rendered": rendered }]));
    let mut messages = world.message("Hi {{${first_name}}}");
    messages["apple_push"] = json!({ "alert": "x" });
    let answer = post(json!({ "messages": messages, "attributes": { "first_name": "Bo" } })).await;
    assert_eq!(answer.body["previews"][0]["channel"], "webhook", "{answer:?}");
    assert_eq!(answer.body["previews"][0]["rendered"]["body"], "Hi Bo");
    assert_eq!(answer.body["errors"][0]["path"], "messages.apple_push");
    for (body, code, part) in [
        (json!({ "template": "ab{{ x" }), "invalid-request", "template: line 1, column 3"),
        (
            json!({ "template": "{{${frist_name}}}" }),
            "invalid-request",
            "template: line 1, column 3",
        ),
        (
            json!({ "messages": world.message("{% if %}") }),
            "invalid-request",
            "messages.webhook.body: line 1",
        ),
        (json!({}), "invalid-request", ""),
        (json!({ "template": 5 }), "invalid-field", "template"),
        (
            json!({ "template": "x", "external_user_id": "nobody" }),
            "invalid-field",
            "external_user_id",
        ),
    ] {
        let answer = post(body.clone()).await;
        answer.refuses(400, part);
        assert_eq!(answer.body["code"], code, "{body}: {answer:?}");
    }
    let failing = format!("{{% connected_content {} %}}", world.server.url("/500"));
    let answer = post(json!({ "template": failing })).await;
    assert_eq!(answer.body["previews"], json!([{ "rendered": "" }]));
    assert!(answer.body["warnings"][0].as_str().unwrap().contains("500"), "{answer:?}");
    assert!(world.texts().is_empty(), "nothing is sent");
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preview_needs_its_permission() {
    let world = World::start_with(&[ann()], |file| file.permitted(&["messages.send"])).await;
    let answer = world.api.post(PREVIEW, &json!({ "template": "x" })).await;
    assert_eq!(
        (answer.status.as_u16(), &answer.body["permission"]),
        (403, &json!(PREVIEW_PERMISSION))
    );
    world.close().await;
}

const PREVIEW_PERMISSION: &str = "templates.preview";
