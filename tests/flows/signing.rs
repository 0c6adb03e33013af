//! Which secret signs what, as receivers see it: a signature that was obtained for one purpose is
//! worth nothing for another.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use crate::support::fleet::{Backend, Fleet};
use crate::support::receiver::{Received, Receiver};
use crate::support::{Api, WorkspaceFile, callbacks, user_records};

const FORGED: &str = r#"{"success": true, "url": "https://evil.example/users.zip"}"#;

/// Whether one of a request's signatures is by the secret.
fn is_signed_by(secret: &[u8], received: &Received) -> bool {
    let (id, time) = (received.header("webhook-id"), received.header("webhook-timestamp"));
    let signature = callbacks::sign(secret, id, time, &received.body);
    received.header("webhook-signature").split(' ').any(|given| given == signature)
}

/// The bytes behind a secret that `apply` printed.
fn bytes(secret: &Value) -> Vec<u8> {
    let text = secret.as_str().and_then(|text| text.strip_prefix("whsec_"));
    BASE64_STANDARD.decode(text.expect("a secret is shown")).expect("base64")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_of_a_message_does_not_pass_for_a_callback() {
    let receiver = Receiver::start([]).await;
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    let former = b"the former secret of callbacks".to_vec();
    let workspace = WorkspaceFile::new("acme")
        .permitted(&["messages.send", "users.export.global_control_group"]);
    let mut document: Value = serde_json::from_str(&workspace.document()).expect("JSON");
    document["callbacks"]["secret_old"] =
        format!("whsec_{}", BASE64_STANDARD.encode(&former)).into();
    document["providers"] = json!({ "push": { "url": receiver.url("/push") } });
    let file = fleet.write_file("acme.yaml", document.to_string().as_bytes());
    let file = file.to_str().expect("a path of ASCII");
    let applied = fleet.run(&["apply", file, "--json"]).await;
    let applied: Value = serde_json::from_str(&applied).expect("JSON");
    let secrets = applied["secrets"].as_object().expect("the secrets that were made");
    let paths: Vec<&String> = secrets.keys().collect();
    assert_eq!(paths, ["providers.push.secret", "webhooks.secret"]);
    let made = [&secrets["webhooks.secret"], &secrets["providers.push.secret"]].map(bytes);
    let [webhooks, push] = &made;
    assert_ne!(webhooks, push);
    // They are shown once.
    let again: Value =
        serde_json::from_str(&fleet.run(&["apply", file, "--json"]).await).expect("JSON");
    assert_eq!((&again["changes"], &again["secrets"]), (&json!([]), &json!({})));
    fleet.import("acme", &[user_records::simple(0, 1)]).await;
    let user: Value = serde_json::from_str(&user_records::simple(0, 1)).expect("JSON");

    let api = Api::new(fleet.base(), &workspace.key);
    let webhook = json!({ "url": receiver.url("/hook"), "request_method": "POST", "body": FORGED });
    let body = json!({
        "external_user_ids": [user["external_id"]], "messages": { "webhook": webhook },
    });
    let answer = api.post("/messages/send", &body).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let webhook = receiver.wait_for(1).await.remove(0);
    assert_eq!(webhook.body, FORGED.as_bytes());
    assert!(is_signed_by(webhooks, &webhook));
    for other in [&workspace.callback_secret, &former, push] {
        assert!(!is_signed_by(other, &webhook), "a webhook is signed by another purpose's secret");
    }

    let callback = receiver.url("/callback");
    let wanted = json!({ "fields_to_export": ["email"], "callback_endpoint": callback });
    api.done(&api.export(&wanted).await.prefix).await;
    let told = callbacks::callback_at(&receiver, "/callback", &workspace.callback_secret).await;
    assert_eq!(told["success"], true);
    let received = receiver.received();
    let callback =
        received.iter().find(|request| request.uri.path() == "/callback").expect("it came");
    // While a secret is changed both sign.
    assert!(is_signed_by(&former, callback));
    assert!(!made.iter().any(|secret| is_signed_by(secret, callback)));
    fleet.close().await;
}
