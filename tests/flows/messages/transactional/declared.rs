//! Emails are rendered with what the workspace declares when they are sent.

use serde_json::{Value, json};

use super::{RECEIPT, Scene, dispatch_id, path, to, workspace};
use crate::support::eventually;
use crate::support::fleet::Backend;

fn campaigns(body: &str) -> Value {
    let email = json!({ "from": "Acme <hello@acme.example>", "subject": "Hello", "body": body });
    json!([{
        "id": RECEIPT, "name": "Receipt", "type": "transactional", "sla_per_hour": 2,
        "email": email,
    }])
}

#[tokio::test(flavor = "multi_thread")]
async fn emails_have_the_content_blocks_that_were_applied_last() {
    let scene = Scene::new(Backend::Embedded, []).await;
    // So that the worker has read the settings.
    scene.sent(&to("ann", json!({}))).await;
    scene.taken(1).await;
    let file = workspace("acme", &scene.relay, &scene.receiver, &scene.secret)
        .with("campaigns", campaigns("{{content_blocks.${footer}}}"))
        .with("content_blocks", json!({ "footer": "<p>first</p>" }));
    let api = scene.fleet.apply(std::slice::from_ref(&file)).await.remove(0);
    let answer = api.post(&path(RECEIPT), &to("ann", json!({}))).await;
    let dispatch = dispatch_id(&answer, 201);
    assert_eq!(scene.first_postback(&dispatch).await["status"], "sent");
    assert!(scene.taken(2).await[1].text.contains("first"));

    // Only the block changes.
    let file = file.with("content_blocks", json!({ "footer": "<p>second</p>" }));
    scene.fleet.apply(&[file]).await;
    eventually("emails have the new block", || async {
        let before = scene.relay.accepted().len();
        dispatch_id(&api.post(&path(RECEIPT), &to("ann", json!({}))).await, 201);
        scene.taken(before + 1).await[before].text.contains("second")
    })
    .await;
    scene.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_address_to_unsubscribe_works_in_emails() {
    let scene = Scene::new(Backend::Embedded, []).await;
    let file = workspace("acme", &scene.relay, &scene.receiver, &scene.secret)
        .with("campaigns", campaigns("<p>[{{${set_user_to_unsubscribed_url}}}]</p>"));
    let api = scene.fleet.apply(std::slice::from_ref(&file)).await.remove(0);
    dispatch_id(&api.post(&path(RECEIPT), &to("ann", json!({}))).await, 201);
    let text = scene.taken(1).await[0].text.replace("=\r\n", "");
    let (_, after) = text.split_once("/email/unsubscribe/").expect(&text);
    let (token, _) = after.split_once(']').expect(&text);
    assert_ne!(token, "preview", "{text}");
    let url = format!("{}/email/unsubscribe/{token}", scene.fleet.base());
    let answer = reqwest::get(&url).await.expect("a response");
    assert_eq!(answer.status(), 200, "{token}");
    scene.fleet.close().await;
}
