//! Send requests that are rejected, as a whole or for some of their messages.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    ARCHIVED, CAMPAIGN, CANVAS, OTHER_KEY, PAUSED, SEGMENT, SEGMENT_OF_OTHERS, SEND, TRANSACTIONAL,
    VARIATION, World, body, tier, to, webhook,
};
use crate::support::stores::on_both_stores;

on_both_stores!(World =>
    invalid_recipients_are_rejected,
    undeclared_segments_and_campaigns_are_rejected,
    members_that_are_wrong_are_refused_by_name,
    invalid_messages_are_reported_and_the_others_accepted,
    a_template_that_is_wrong_condemns_the_whole,
    invalid_addresses_are_rejected_unless_templates,
    a_variation_that_the_campaign_lacks_is_refused,
    hostile_bodies_do_no_harm,
);

async fn invalid_recipients_are_rejected(world: World) {
    let alias = json!({ "alias_name": "n", "alias_label": "l" });
    let recipient = json!({ "external_user_id": "ann" });
    let nobody =
        "at least one of external_user_ids, user_aliases, segment_id and audience is required";
    let broadcast_error = "Set broadcast to true";
    let both = "broadcast must not be true if users are given";
    for (asked, text) in [
        (to(json!({})), nobody),
        (to(json!({ "broadcast": true })), nobody),
        (to(json!({ "recipients": [], "user_aliases": [] })), nobody),
        // They add to users who are named, and do not replace them.
        (to(json!({ "recipients": [recipient] })), nobody),
        (to(json!({ "recipients": [recipient], "external_user_ids": [] })), nobody),
        (to(json!({ "segment_id": SEGMENT })), broadcast_error),
        (to(json!({ "audience": tier(), "broadcast": false })), broadcast_error),
        (body(json!({ "external_user_ids": [], "segment_id": SEGMENT })), broadcast_error),
        (body(json!({ "broadcast": true })), both),
        (to(json!({ "broadcast": true, "user_aliases": [alias] })), both),
        (to(json!({ "broadcast": true, "segment_id": SEGMENT, "recipients": [recipient] })), both),
        (body(json!({ "broadcast": "true" })), "broadcast must be true or false"),
        (
            body(json!({ "external_user_ids": vec!["ann"; 51] })),
            "external_user_ids must have at most 50 elements",
        ),
        (
            body(json!({
                "external_user_ids": vec!["ann"; 20], "user_aliases": vec![alias.clone(); 20],
                "recipients": vec![recipient.clone(); 11],
            })),
            "external_user_ids, user_aliases and recipients must have at most 50 users in total",
        ),
    ] {
        let said = world.api.refusal(SEND, &asked, 400).await;
        assert!(said.starts_with(text), "{asked}: {said}");
    }
    let fifty = body(json!({
        "external_user_ids": vec!["ann"; 20], "user_aliases": vec![alias; 20],
        "recipients": vec![recipient; 10],
    }));
    world.taken(&fifty).await;
    assert_eq!(world.orders().await.len(), 1);
}

async fn undeclared_segments_and_campaigns_are_rejected(world: World) {
    let unknown = Uuid::new_v4().to_string();
    let no_segment = "segment_id does not match a segment in this workspace";
    for id in [&unknown, SEGMENT_OF_OTHERS, "VIP", "", CAMPAIGN] {
        let said = world.api.refusal(SEND, &body(json!({ "segment_id": id })), 400).await;
        assert_eq!(said, no_segment, "{id}");
    }
    for id in [&unknown, "Welcome", "", TRANSACTIONAL, CANVAS, SEGMENT] {
        let said = world.api.refusal(SEND, &body(json!({ "campaign_id": id })), 400).await;
        assert_eq!(said, "Invalid Campaign ID", "{id}");
    }
    for (id, text) in [
        (
            ARCHIVED,
            "The campaign is archived. Unarchive the campaign in order for trigger requests to take effect.",
        ),
        (
            PAUSED,
            "The campaign is paused. Resume the campaign in order for trigger requests to take effect.",
        ),
    ] {
        let said = world.api.refusal(SEND, &body(json!({ "campaign_id": id })), 400).await;
        assert_eq!(said, text);
    }
    let other = world.api.with_key(OTHER_KEY);
    assert_eq!(other.refusal(SEND, &body(json!({ "segment_id": SEGMENT })), 400).await, no_segment);
    assert!(world.orders().await.is_empty());
}

async fn members_that_are_wrong_are_refused_by_name(world: World) {
    let large =
        json!({ "external_user_id": "a", "trigger_properties": { "x": "y".repeat(51_200) } });
    let nested: Value =
        serde_json::from_str(&format!("{}{}", "[".repeat(110), "]".repeat(110))).unwrap();
    let deep = json!({ "external_user_id": "a", "trigger_properties": { "x": nested } });
    let alias = json!({ "alias_name": "n", "alias_label": "l" });
    for (members, text) in [
        (json!({ "external_user_ids": "ann" }), "external_user_ids must be an array"),
        (json!({ "external_user_ids": ["ann", 5] }), "external_user_ids[1] must be a string"),
        (json!({ "external_user_ids": [""] }), "external_user_ids[0] is empty"),
        (json!({ "external_user_ids": ["a\u{0}"] }), "external_user_ids[0] contains a control"),
        (json!({ "external_user_ids": ["é".repeat(256)] }), "external_user_ids[0] has more than"),
        (json!({ "user_aliases": {} }), "user_aliases must be an array"),
        (json!({ "user_aliases": ["n"] }), "user_aliases[0] must be an object"),
        (
            json!({ "user_aliases": [{ "alias_name": "n" }] }),
            "user_aliases[0].alias_label is required",
        ),
        (json!({ "recipients": ["ann"] }), "recipients[0] must be an object"),
        (
            json!({ "recipients": [{}] }),
            "recipients[0] must have exactly one of external_user_id and user_alias",
        ),
        (
            json!({ "recipients": [{ "external_user_id": "a", "user_alias": alias }] }),
            "recipients[0] must have exactly one of",
        ),
        (
            json!({ "recipients": [{ "external_user_id": "a", "trigger_properties": 1 }] }),
            "recipients[0].trigger_properties must be an object",
        ),
        (json!({ "recipients": [large] }), "recipients[0].trigger_properties must be at most"),
        (json!({ "recipients": [deep] }), "recipients[0].trigger_properties is nested too deeply"),
        (json!({ "segment_id": 5 }), "segment_id must be a string"),
        (json!({ "campaign_id": {} }), "campaign_id must be a string"),
        (json!({ "send_id": 5 }), "send_id must be a string"),
        (json!({ "send_id": "" }), "send_id must be 1 to 64 printable ASCII characters"),
        (json!({ "send_id": "x".repeat(65) }), "send_id must be 1 to 64"),
        (json!({ "send_id": "é" }), "send_id must be 1 to 64"),
        (json!({ "send_id": "a\n" }), "send_id must be 1 to 64"),
        (json!({ "override_frequency_capping": 1 }), "override_frequency_capping must be true or"),
        (
            json!({ "recipient_subscription_state": "none" }),
            "recipient_subscription_state must be one of opted_in, subscribed and all",
        ),
        (json!({ "audience": [] }), "audience: expected an object with one condition"),
        (
            json!({ "audience": { "OR": [{ "AND": [] }] } }),
            "audience.OR[0].AND: expected a non-empty array",
        ),
        (json!({ "audience": { "purchase_property": {} } }), "audience: unknown condition"),
        (json!({ "messages": [] }), "messages must be an object"),
    ] {
        let said = world.api.refusal(SEND, &body(members.clone()), 400).await;
        assert!(said.starts_with(text), "{members}: {said}");
    }
    // What another call has means nothing here.
    world.taken(&body(json!({ "override_messaging_limits": 1, "schedule": 5 }))).await;
    let longest = body(json!({ "send_id": "x".repeat(64) }));
    assert_eq!(world.taken(&longest).await["send_id"], "x".repeat(64));
}

async fn invalid_messages_are_reported_and_the_others_accepted(world: World) {
    let push = json!({ "alert": "Hi" });
    let asked = body(json!({ "messages": { "apple_push": push, "webhook": webhook("x") } }));
    let answer = world.taken(&asked).await;
    let errors = answer["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 1, "{answer}");
    assert_eq!(errors[0]["path"], "messages.apple_push");
    assert!(errors[0]["type"].as_str().unwrap().contains("providers.push"), "{answer}");
    let order = world.order().await;
    assert_eq!(Value::from(order.messages), json!({ "webhook": webhook("x") }));

    for messages in [json!(null), json!({}), json!({ "webhook": null }), json!({ "fax": {} })] {
        let said = world.api.refusal(SEND, &body(json!({ "messages": messages })), 400).await;
        assert!(said.starts_with("No message to send: messages"), "{messages}: {said}");
        let (_, answer) = world.api.post(SEND, &body(json!({ "messages": messages }))).await;
        let path = answer["errors"][0]["path"].as_str().unwrap_or_default();
        assert!(path.starts_with("messages"), "{answer}");
    }
    let nothing = body(json!({ "messages": { "apple_push": push, "email": {} } }));
    let (status, answer) = world.api.post(SEND, &nothing).await;
    assert_eq!(status, 400, "{answer}");
    assert_eq!(answer["code"], "invalid-request", "{answer}");
    let paths: BTreeSet<&str> =
        answer["errors"].as_array().unwrap().iter().map(|e| e["path"].as_str().unwrap()).collect();
    assert!(paths.contains("messages.apple_push"), "{answer}");
    assert!(paths.iter().any(|path| path.starts_with("messages.email")), "{answer}");
    assert_eq!(world.orders().await.len(), 1);
}

async fn a_template_that_is_wrong_condemns_the_whole(world: World) {
    let with = |hook: Value| {
        let mut messages = json!({ "email": {
            "app_id": "a", "from": "a@acme.example", "subject": "s", "body": "b",
        } });
        messages["webhook"] = hook;
        body(json!({ "messages": messages }))
    };
    let (status, answer) = world.api.post(SEND, &with(webhook("a\n{% if x %}"))).await;
    assert_eq!(status, 400, "{answer}");
    let said = answer["message"].as_str().unwrap();
    assert!(said.starts_with("messages.webhook.body: line "), "{said}");
    assert!(said.contains("column"), "{said}");
    assert_eq!(answer["errors"][0]["path"], "messages.webhook.body");
    for mistake in ["{{${frist_name}}}", "{{ first_name }}", "{{campaign.${nmae}}}"] {
        let (status, answer) = world.api.post(SEND, &with(webhook(mistake))).await;
        assert_eq!(status, 400, "{answer}");
        let said = answer["message"].as_str().unwrap();
        assert!(said.starts_with("messages.webhook.body: line 1, column "), "{said}");
        assert!(said.contains("name}`?"), "{said}");
    }
    let mut private = webhook("x");
    private["url"] = json!("http://10.0.0.1/");
    let (status, answer) = world.api.post(SEND, &with(private)).await;
    assert_eq!(status, 400, "{answer}");
    assert_eq!(answer["errors"][0]["path"], "messages.webhook.url");
    assert!(world.orders().await.is_empty());
}

async fn invalid_addresses_are_rejected_unless_templates(world: World) {
    let with = |member: &str, value: &str| {
        let mut email = json!({ "app_id": "a", "from": "a@acme.example", "body": "b" });
        email[member] = json!(value);
        body(json!({ "messages": { "email": email, "webhook": webhook("x") } }))
    };
    let eleven = ["a@b.example"; 11].join(", ");
    let template = "{{custom_attribute.${sender}}}";
    for (member, value) in [
        ("from", "nobody"),
        ("from", "a@b@c.example"),
        ("from", "Acme <hello@>"),
        ("from", " "),
        ("from", "a@b.example, c@d.example"),
        ("reply_to", "help"),
        ("bcc", "archive"),
        ("bcc", "a@b.example, archive"),
        ("bcc", &eleven),
    ] {
        for path in [SEND, "/messages/schedule/create"] {
            let mut asked = with(member, value);
            asked["schedule"] = json!({ "time": "2127-01-01T09:00:00Z" });
            let (status, answer) = world.api.post(path, &asked).await;
            assert_eq!(status, 400, "{member} {value}: {answer}");
            let path = format!("messages.email.{member}");
            assert_eq!(answer["errors"][0]["path"], path, "{answer}");
            assert!(answer["message"].as_str().unwrap().starts_with(&path), "{answer}");
        }
    }
    for (member, value) in [
        ("from", "Acme Inc <hello@acme.example>"),
        ("from", "änn@bücher.example"),
        ("from", template),
        ("reply_to", ""),
        ("reply_to", template),
        ("bcc", "a@b.example, C <c@d.example>"),
        ("bcc", "{% if custom_attribute.${copies} %}a@b.example{% endif %}"),
    ] {
        world.taken(&with(member, value)).await;
    }
    assert_eq!(world.orders().await.len(), 7);
}

async fn a_variation_that_the_campaign_lacks_is_refused(world: World) {
    let with_variation = |campaign: Option<&str>, variation: Value| {
        let mut hook = webhook("x");
        hook["message_variation_id"] = variation;
        body(json!({ "campaign_id": campaign, "messages": { "webhook": hook } }))
    };
    for unknown in ["vvvv", "cccc0000-0000-4000-8000-000000000009"] {
        for path in [SEND, "/messages/schedule/create"] {
            let mut asked = with_variation(Some(CAMPAIGN), json!(unknown));
            asked["schedule"] = json!({ "time": "2127-01-01T09:00:00Z" });
            let (status, answer) = world.api.post(path, &asked).await;
            assert_eq!(status, 400, "{answer}");
            let path = "messages.webhook.message_variation_id";
            assert_eq!(answer["errors"][0]["path"], path, "{answer}");
        }
    }
    assert!(world.orders().await.is_empty());
    world.taken(&with_variation(Some(CAMPAIGN), json!(VARIATION))).await;
    world.taken(&with_variation(Some(CAMPAIGN), json!(VARIATION.to_ascii_uppercase()))).await;
    world.taken(&with_variation(Some(CAMPAIGN), Value::Null)).await;
    // Of no campaign it is a label that nothing is kept under.
    world.taken(&with_variation(None, json!("vvvv"))).await;
}

async fn hostile_bodies_do_no_harm(world: World) {
    let nested = |depth: usize| {
        let open = r#"{"AND":["#.repeat(depth);
        let close = "]}".repeat(depth);
        let leaf = tier().to_string();
        format!(r#"{{"broadcast":true,"messages":{{}},"audience":{open}{leaf}{close}}}"#)
    };
    let pattern = |pattern: &str| {
        to(json!({ "broadcast": true, "audience": { "custom_attribute": {
            "custom_attribute_name": "x", "comparison": "matches_regex", "value": pattern,
        } } }))
        .to_string()
    };
    for (text, part) in [
        (nested(10_000), "is nested too deeply"),
        (nested(40), "an audience can nest at most 32 levels"),
        (format!(r#"{{"messages":{}"#, "[".repeat(100_000)), "not valid JSON"),
        (
            format!(r#"{{"external_user_ids":[{}1]}}"#, "1,".repeat(30_000)),
            "more than 30000 values",
        ),
        (format!(r#"{{"external_user_ids":[{}1]}}"#, "1,".repeat(10_000)), "at most 50 elements"),
        (r#"{"$serde_json::private::RawValue":"{}"}"#.into(), "has a field named"),
        (pattern("(a{1000}){1000}"), "the regular expression is too large"),
        (pattern("(?=a)"), "is not a valid regular expression"),
        (r#"{"send_id":"\ud800"}"#.into(), "send_id has half of a surrogate pair"),
        (
            r#"{"messages":{"email":{"subject":1e400}}}"#.into(),
            "messages.email.subject has a number",
        ),
        ("[]".into(), "must be a JSON object"),
        ("".into(), "not valid JSON"),
    ] {
        let (status, answer) = world.api.post_text(SEND, text).await;
        assert_eq!(status, 400, "{part}: {answer}");
        assert!(answer["message"].as_str().unwrap().contains(part), "{part}: {answer}");
    }
    assert!(world.orders().await.is_empty());
}
