//! WhatsApp messages are sent now, and cannot be scheduled.

use serde_json::{Value, json};

use super::sending::{CAMPAIGN, Sending, campaign, from_now};
use crate::support::fleet::Backend;

const GROUP: &str = "bbbb0000-0000-4000-8000-00000000000a";

#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_with_a_whats_app_message_is_sent_but_not_scheduled() {
    let sending = Sending::start(Backend::Embedded, &[], |receiver| {
        let provider = json!({
            "url": receiver.url("/whats_app"), "secret": "a-secret-of-more-than-24-bytes,-plain",
        });
        let group = json!({ "id": GROUP, "channel": "whats_app", "from": "+15550100" });
        let message = json!({
            "app_id": "a", "subscription_group_id": GROUP, "message_type": "text",
            "message": { "body": "hello" },
        });
        vec![
            ("providers", json!({ "whats_app": provider })),
            ("subscription_groups", json!([group])),
            ("campaigns", campaign(&json!({ "whats_app": message }))),
        ]
    })
    .await;
    let group = json!({ "subscription_group_id": GROUP, "subscription_state": "subscribed" });
    let ann = json!({
        "external_id": "ann", "phone": "+442000000010", "subscription_groups": [group],
    });
    sending.fleet.import("acme", &[ann.to_string()]).await;
    let recipients = json!([{ "external_user_id": "ann" }]);
    sending.trigger(&recipients).await;
    let request = sending.receiver.wait_for(1).await.remove(0);
    let message: Value = serde_json::from_slice(&request.body).expect("JSON");
    assert_eq!(message["channel"], "whats_app", "{message}");
    assert_eq!(message["message"]["message"]["body"], "hello", "{message}");
    let when = json!({ "time": from_now(600_000).to_string() });
    let body = json!({ "campaign_id": CAMPAIGN, "recipients": recipients, "schedule": when });
    let answer = sending.api.post("/campaigns/trigger/schedule/create", &body).await;
    assert_eq!(answer.status, 400, "{answer:?}");
    assert_eq!(answer.body["errors"][0]["path"], "messages.whats_app", "{answer:?}");
    sending.fleet.close().await;
}
