//! What others are sent, as it is described: messages for providers, webhooks' headers, states of
//! transactional emails, and the end of exports.

use serde_json::json;

use super::providers::{Handed, Said};
use crate::gateway::openapi::shapes::shape;
use crate::gateway::openapi::{SENT_TO_OTHERS, Webhook};
use kit::clock::format_time;

const MESSAGE: &str =
    "0192f1d0c3a47b0e8f5a3c9d2e1b0a96.0190b9a61c0070008000000000000000.apple_push";

/// All of them.
pub fn webhooks() -> [Webhook; 2] {
    [provider(), postback()]
}

fn provider() -> Webhook {
    let device = json!({
        "app_id": "5d3f1a52-8f1e-4c57-9a3e-0d5b1c2e7f60", "token": "740f4707bebcf74f",
        "device_id": null,
    });
    let push = json!({
        "id": MESSAGE, "channel": "apple_push", "dispatch_id": "0192f1d0c3a47b0e8f5a3c9d2e1b0a96",
        "send_id": null, "campaign_id": "3c9f0a52-8f1e-4c57-9a3e-0d5b1c2e7f60",
        "message_variation_id": null, "app_id": null,
        "user": { "service_id": "0190b9a6-1c00-7000-8000-000000000000", "external_id": "ann" },
        "to": { "tokens": [device] },
        "message": { "alert": "Hello Ann", "badge": 1 },
        "sent_at": format_time(1_795_249_898_032),
    });
    let sms = json!({
        "id": MESSAGE.replace("apple_push", "sms"), "channel": "sms",
        "dispatch_id": "0192f1d0c3a47b0e8f5a3c9d2e1b0a96", "send_id": "winter-2026",
        "campaign_id": null, "message_variation_id": null, "app_id": "web",
        "user": { "service_id": "0190b9a6-1c00-7000-8000-000000000000", "external_id": null },
        "to": { "phone": "+15550101", "from": "+15550100" },
        "message": {
            "subscription_group_id": "b8f1c1de-2f0a-4d0e-9a53-4a8f0a1c7d11", "app_id": "web",
            "body": "Your table is ready.",
        },
        "sent_at": format_time(1_795_249_898_032),
    });
    Webhook::new::<Handed<'static>>(
        "providerMessage",
        SENT_TO_OTHERS,
        "A message for the provider of push, SMS or WhatsApp",
    )
    .about(
        "To `providers.push.url`, `providers.sms.url` or `providers.whats_app.url` of the \
         workspace, signed with the `secret` beside it. A message is for one user; live \
         activities go to `push`. Where an answer is lost the same message comes again: \
         `webhook-id`, which is `id`, tells that it is one.\n\nWhat becomes of it later is \
         reported to `POST /feedback/{provider}`.",
    )
    .example("A push message", push)
    .example("A text message", sms)
    .answered_with::<Said>("2XX", "It was taken. A body may say whom it could not reach.")
    .answered_with::<Said>(
        "404",
        "Nobody is there: with a body that says so, as with 2XX. Without one it is as 4XX.",
    )
    .answered_with::<Said>("410", "As 404.")
    .answered("408", "As 5XX.")
    .answered("429", "As 5XX.")
    .answered("4XX", "It is not taken and never will be; it does not come again.")
    .answered(
        "5XX",
        "Not this time: it comes again after `Retry-After`, of an hour at most, or after a pause \
         that grows, for as long as the operator has set. So does what is not answered in time.",
    )
}

shape! {
    /// A state that a transactional email has come to.
    StatusPostback = |_| {
        let time = |about: &str| json!({
            "type": "string", "format": "date-time", "description": about,
        });
        json!({
            "type": "object",
            "properties": {
                "dispatch_id": { "type": "string", "description": "As the call was answered." },
                "status": { "enum": ["sent", "processed", "aborted", "delivered", "bounced"] },
                "metadata": {
                    "type": "object",
                    "properties": {
                        "external_send_id": {
                            "type": "string", "description": "Where the call gave one.",
                        },
                        "campaign_api_id": { "type": "string", "format": "uuid" },
                        "received_at": time("Of `sent`: when the call was received."),
                        "enqueued_at": time("Of `sent`: when it was put into the queue."),
                        "executed_at": time("Of `sent`: when it was taken out of it."),
                        "sent_at": time("Of `sent`: when the relay had taken it."),
                        "processed_at": time("Of `processed`."),
                        "delivered_at": time("Of `delivered`."),
                        "bounced_at": time("Of `bounced`."),
                        "aborted_at": time("Of `aborted`."),
                        "reason": {
                            "type": "string",
                            "description": "Of `aborted` and `bounced`: why it was not sent, or \
                                            what the recipient's provider said.",
                        },
                    },
                    "required": ["campaign_api_id"],
                },
            },
            "required": ["dispatch_id", "status", "metadata"],
        })
    }
}

fn postback() -> Webhook {
    let sent = json!({
        "dispatch_id": "0192f1d0c3a47b0e8f5a3c9d2e1b0a96", "status": "sent",
        "metadata": {
            "external_send_id": "order-17", "campaign_api_id": "3c9f0a52-8f1e-4c57-9a3e-0d5b1c2e7f60",
            "received_at": "2026-11-21T08:58:41.000+00:00",
            "enqueued_at": "2026-11-21T08:58:41.003+00:00",
            "executed_at": "2026-11-21T08:58:41.021+00:00",
            "sent_at": "2026-11-21T08:58:41.064+00:00",
        },
    });
    let bounced = json!({
        "dispatch_id": "0192f1d0c3a47b0e8f5a3c9d2e1b0a96", "status": "bounced",
        "metadata": {
            "campaign_api_id": "3c9f0a52-8f1e-4c57-9a3e-0d5b1c2e7f60",
            "bounced_at": "2026-11-21T08:58:43.000+00:00", "reason": "550 No such user here",
        },
    });
    Webhook::new::<StatusPostback>(
        "statusPostback",
        SENT_TO_OTHERS,
        "The state that a transactional email has come to",
    )
    .about(
        "To `email.status_postback.url` of the workspace, signed with the `secret` beside it; \
         those of one email in their order.",
    )
    .example("The relay has it", sent)
    .example("The recipient's provider refuses it", bounced)
    .retried()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::messages::MessageId;

    #[test]
    fn examples_name_messages_and_webhooks_have_names_of_their_own() {
        assert!(MessageId::parse(MESSAGE).is_some());
        assert_eq!(webhooks().map(|one| one.name()).into_iter().collect::<BTreeSet<_>>().len(), 2);
    }
}
