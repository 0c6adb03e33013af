//! Previews of what a declared campaign would send to a user: over HTTP and by the command.

use serde_json::{Value, json};

use crate::support::fleet::{Backend, Fleet};
use crate::support::{Api, WorkspaceFile};

const PREVIEW: &str = "/templates/preview";
const NEWS: &str = "aaaa0000-0000-4000-8000-000000000001";
const RECEIPT: &str = "aaaa0000-0000-4000-8000-000000000002";
const EMPTY: &str = "aaaa0000-0000-4000-8000-000000000003";
const SPRING: &str = "aaaa0000-0000-4000-8000-000000000004";
const UNKNOWN: &str = "aaaa0000-0000-4000-8000-00000000000f";

fn webhook(text: &str) -> Value {
    json!({
        "url": "https://hooks.acme.example/s3cret", "request_method": "POST", "body": text,
        "request_headers": { "Authorization": "Bearer s3cret" },
    })
}

fn file(name: &str) -> WorkspaceFile {
    WorkspaceFile::new(name).with_percent(None).permitted(&["templates.preview"])
}

/// A workspace with campaigns of several types and states, and three users.
async fn start(backend: Backend) -> (Fleet, Api, Api) {
    let fleet = Fleet::start(backend, &[]).await;
    let code = "{% if ${first_name} == 'Bob' %}{% abort_message('no Bob') %}{% endif %}\
                Hi {{${first_name}}}, {{api_trigger_properties.${code}}}";
    let acme = file("acme")
        .with("email", json!({ "smtp": "smtp://relay.acme.example", "from": "a@acme.example" }))
        .with(
            "campaigns",
            json!([
                {
                    "id": NEWS, "name": "News", "type": "api", "paused": true,
                    "messages": { "webhook": webhook(code) },
                },
                {
                    "id": RECEIPT, "name": "Receipt", "type": "transactional",
                    "email": { "subject": "Receipt for {{${first_name}}}", "body": "<p>Thanks</p>" },
                },
                { "id": EMPTY, "name": "Empty", "type": "api" },
            ]),
        )
        .with(
            "canvases",
            json!([{ "id": SPRING, "name": "Spring", "messages": { "webhook": webhook("Hello") } }]),
        );
    let [acme, beta]: [Api; 2] =
        fleet.apply(&[acme, file("beta")]).await.try_into().ok().expect("two");
    let users = [
        json!({ "external_id": "ann", "first_name": "Ann", "email": "ann@acme.example",
                "phone": "+4915112345678",
                "user_aliases": [{ "alias_name": "7", "alias_label": "crm" }] }),
        json!({ "external_id": "bob", "first_name": "Bob", "email": "shared@acme.example" }),
        json!({ "external_id": "cid", "first_name": "Cid", "email": "shared@acme.example" }),
    ];
    fleet.import("acme", &users.map(|user| user.to_string())).await;
    (fleet, acme, beta)
}

const PROMO: &str = "aaaa0000-0000-4000-8000-000000000005";
const SHOES: &str = "aaaa0000-0000-4000-8000-000000000006";
const OLD: &str = "aaaa0000-0000-4000-8000-000000000007";
const GROUP: &str = "cccc0000-0000-4000-8000-000000000001";

/// What the address to unsubscribe is in each preview.
const LINK: &str = "https://longshore.example.com/api/email/unsubscribe/preview";

/// The reasons of a preview, for each message in order.
fn reasons(previews: &[Value]) -> Vec<Vec<&str>> {
    previews
        .iter()
        .map(|preview| {
            let all = preview["why_not"].as_array().map(Vec::as_slice).unwrap_or_default();
            all.iter().map(|why| why["reason"].as_str().expect("a reason")).collect()
        })
        .collect()
}

/// A message that cannot reach the user is shown with the reason, and is not a success.
#[tokio::test(flavor = "multi_thread")]
async fn a_preview_says_why_a_user_would_not_get_it() {
    let public_url = ("LONGSHORE_PUBLIC_URL", "https://longshore.example.com/api".to_owned());
    let fleet = Fleet::start(Backend::Embedded, &[public_url]).await;
    let link = "<a href=\"{{${set_user_to_unsubscribed_url}}}\">no more</a>";
    let email = json!({ "app_id": "web", "from": "a@acme.example", "subject": "Hi", "body": link });
    let push = json!({ "alert": "Hi" });
    let sms = json!({ "subscription_group_id": GROUP, "app_id": "web", "body": "Hi" });
    let provider = json!({ "url": "https://provider.acme.example/" });
    let messages = json!({ "email": email, "apple_push": push, "sms": sms });
    let gold = json!({ "custom_attribute": {
        "custom_attribute_name": "tier", "comparison": "equals", "value": "gold",
    } });
    let campaign = |id: &str, more: Value| {
        let mut campaign = json!({ "id": id, "name": id, "type": "api",
                                   "messages": { "email": email } });
        campaign.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        campaign
    };
    let acme = file("acme")
        .with_percent(Some(100))
        .with("email", json!({ "smtp": "smtp://relay.acme.example", "from": "a@acme.example" }))
        .with("providers", json!({ "push": provider, "sms": provider }))
        .with("subscription_groups", json!([{ "id": GROUP, "channel": "sms", "from": "ACME" }]))
        .with("frequency_capping", json!([{ "messages": 1, "days": 7, "channel": "email" }]))
        .with(
            "campaigns",
            json!([
                campaign(PROMO, json!({ "messages": messages })),
                campaign(NEWS, json!({ "paused": true })),
                campaign(OLD, json!({ "archived": true })),
                campaign(SHOES, json!({
                    "type": "triggered", "audience": gold,
                    "trigger": { "purchase": { "product_id": "shoes" } },
                })),
                { "id": RECEIPT, "name": "Receipt", "type": "transactional",
                  "email": { "subject": "Thanks", "body": link } },
            ]),
        )
        .with(
            "canvases",
            json!([{ "id": SPRING, "name": "Spring", "messages": { "email": email } }]),
        );
    let acme = fleet.apply(&[acme]).await.remove(0);
    let token = json!([{ "app_id": "ios", "token": "t1" }]);
    let groups = json!([{ "subscription_group_id": GROUP, "subscription_state": "subscribed" }]);
    let users = [
        json!({ "external_id": "ann", "email": "ann@acme.example" }),
        json!({ "external_id": "bob", "email": "bob@acme.example",
                "email_subscribe": "unsubscribed" }),
        json!({ "external_id": "cid", "phone": "+4915112345678" }),
        json!({ "external_id": "dan", "phone": "+4915112345679", "push_tokens": token,
                "subscription_groups": groups, "email": "dan@acme.example",
                "push_subscribe": "unsubscribed" }),
    ];
    fleet.import("acme", &users.map(|user| user.to_string())).await;

    let preview = async |campaign: &str, user: &str| {
        let body = json!({ "campaign_id": campaign, "external_user_id": user });
        let shown = previews(&acme, &body).await;
        // All messages are shown.
        assert!(shown.iter().all(|preview| preview["rendered"].is_object()), "{shown:?}");
        // The command says the same, and fails if a message would not be sent.
        let command = ["campaigns", "preview", campaign, "--user", user, "--json"];
        let output = fleet.command(&command).await;
        let printed = String::from_utf8(output.stdout).expect("UTF-8");
        let printed: Vec<Value> =
            printed.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
        assert_eq!(printed, shown, "{campaign} for {user}");
        let are_sent = shown.iter().all(|preview| preview.get("why_not").is_none());
        assert_eq!(output.status.success(), are_sent, "{campaign} for {user}");
        shown
    };
    // In the order of the file's fields: apple_push, email, sms.
    for (user, expected) in [
        ("ann", [vec!["no_address"], vec![], vec!["no_address"]]),
        ("bob", [vec!["no_address"], vec!["unsubscribed"], vec!["no_address"]]),
        ("cid", [vec!["no_address"], vec!["no_address"], vec!["unreachable"]]),
    ] {
        let shown = preview(PROMO, user).await;
        let channels: Vec<&Value> = shown.iter().map(|preview| &preview["channel"]).collect();
        assert_eq!(channels, ["apple_push", "email", "sms"]);
        assert_eq!(reasons(&shown), expected, "{user}: {shown:?}");
    }
    let shown = preview(PROMO, "dan").await;
    assert_eq!(reasons(&shown)[1..], [vec![""; 0], vec![]], "{shown:?}");
    assert_eq!(reasons(&shown)[0].len(), 1, "{shown:?}");
    for (campaign, user, expected) in [
        (NEWS, "ann", vec!["campaign_paused"]),
        (NEWS, "bob", vec!["campaign_paused", "unsubscribed"]),
        (OLD, "ann", vec!["campaign_archived"]),
        // Everybody is in the control group, which requests of campaigns do not exclude.
        (SPRING, "ann", vec!["control_group"]),
        (SHOES, "ann", vec!["not_in_audience"]),
        // Sent whatever the subscription is.
        (RECEIPT, "bob", vec![]),
        (RECEIPT, "cid", vec!["no_address"]),
    ] {
        let shown = preview(campaign, user).await;
        assert_eq!(reasons(&shown), [expected], "{campaign} for {user}: {shown:?}");
    }

    // The address to unsubscribe is that of nobody, in previews of every kind.
    for campaign in [NEWS, RECEIPT, SPRING] {
        let shown = preview(campaign, "ann").await;
        let body = shown[0]["rendered"]["body"].as_str().expect("a body");
        assert_eq!(body, format!("<a href=\"{LINK}\">no more</a>"), "{campaign}");
    }
    let template = json!({ "template": "{{${set_user_to_unsubscribed_url}}}" });
    assert_eq!(previews(&acme, &template).await[0]["rendered"], LINK);
    let url = format!("{}/email/unsubscribe/preview", fleet.base());
    let client = reqwest::Client::new();
    for request in [client.get(&url), client.post(&url)] {
        let answer = request.send().await.expect("a response");
        assert_eq!(answer.status(), 410);
        assert!(answer.text().await.expect("a text").contains("unsubscribes nobody"));
    }
    let ann = fleet.run(&["users", "show", "ann", "--json"]).await;
    assert!(!ann.contains("unsubscribed"), "{ann}");

    // Messages of a request, too.
    let body = json!({ "messages": { "email": email }, "external_user_id": "bob" });
    assert_eq!(reasons(&previews(&acme, &body).await), [vec!["unsubscribed"]]);
    let body = json!({ "messages": { "email": email }, "external_user_id": "ann",
                       "attributes": { "email": "x" } });
    assert_eq!(reasons(&previews(&acme, &body).await), [vec!["unreachable"]]);
    fleet.close().await;
}

async fn previews(api: &Api, body: &Value) -> Vec<Value> {
    let preview = api.post(PREVIEW, body).await;
    assert_eq!(preview.status, 200, "{body}: {preview:?}");
    preview.body["previews"].as_array().expect("an array").clone()
}

async fn http_and_the_command_render_the_same(backend: Backend) {
    let (fleet, acme, _) = start(backend).await;
    let properties = r#"{"code":"X"}"#;
    for (campaign, user) in [(NEWS, "ann"), (NEWS, "bob"), (RECEIPT, "ann"), (SPRING, "cid")] {
        let command = ["campaigns", "preview", campaign, "--user", user, "--workspace", "acme"];
        let more = ["--trigger-properties", properties, "--json"];
        let printed = fleet.command(&[&command[..], &more].concat()).await.stdout;
        let printed = String::from_utf8(printed).expect("UTF-8");
        let mut printed: Vec<Value> =
            printed.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
        assert_eq!(printed.len(), 1, "{campaign}: {printed:?}");
        let body = json!({
            "campaign_id": campaign, "external_user_id": user,
            "api_trigger_properties": { "code": "X" },
        });
        // Except what the campaign declares for its receiver alone.
        if let Some(Value::Object(webhook)) = printed[0].get_mut("rendered")
            && campaign != RECEIPT
        {
            assert_eq!(webhook["request_headers"]["Authorization"], "Bearer s3cret");
            webhook["url"] = "https://hooks.acme.example".into();
            webhook["request_headers"]["Authorization"] = "***".into();
        }
        assert_eq!(previews(&acme, &body).await, printed, "{campaign} for {user}");
    }
    let of = |campaign: &str, user: &str| {
        json!({ "campaign_id": campaign, "external_id": user,
                "api_trigger_properties": { "code": "X" } })
    };
    // A paused campaign, too.
    let shown = previews(&acme, &of(NEWS, "ann")).await;
    assert_eq!(shown[0]["rendered"]["body"], "Hi Ann, X", "{shown:?}");
    assert_eq!(previews(&acme, &of(NEWS, "bob")).await[0]["aborted"], "no Bob");
    let shown = previews(&acme, &of(RECEIPT, "ann")).await;
    assert_eq!(shown[0]["rendered"]["subject"], "Receipt for Ann", "{shown:?}");
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http_and_the_command_render_the_same_on_sqlite() {
    http_and_the_command_render_the_same(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http_and_the_command_render_the_same_on_postgres() {
    http_and_the_command_render_the_same(Backend::Fleet(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preview_takes_each_identifier_of_a_user() {
    let (fleet, acme, beta) = start(Backend::Embedded).await;
    let alias = json!({ "alias_name": "7", "alias_label": "crm" });
    for (field, value) in [
        ("external_user_id", json!("ann")),
        ("external_id", json!("ann")),
        ("user_alias", alias.clone()),
        ("email", json!("ANN@acme.example")),
        ("phone", json!("+4915112345678")),
        ("phone", json!("4915112345678")),
        ("phone", json!("0049 (151) 1234-5678")),
    ] {
        let shown =
            previews(&acme, &json!({ "template": "{{${first_name}}}", field: value })).await;
        assert_eq!(shown[0]["rendered"], "Ann", "{field}: {value}");
    }
    let template = "x";
    for (api, body, code) in [
        (&acme, json!({ "template": template, "external_user_id": "nobody" }), "invalid-field"),
        (&acme, json!({ "template": template, "email": "nobody@acme.example" }), "invalid-field"),
        (&beta, json!({ "template": template, "email": "ann@acme.example" }), "invalid-field"),
        (&acme, json!({ "template": template, "phone": "555" }), "invalid-field"),
        (&acme, json!({ "template": template, "email": "shared@acme.example" }), "invalid-request"),
        (
            &acme,
            json!({ "template": template, "external_user_id": "ann", "user_alias": alias }),
            "invalid-field",
        ),
        (
            &acme,
            json!({ "template": template, "external_user_id": "ann", "external_id": "ann" }),
            "invalid-field",
        ),
        (&acme, json!({ "campaign_id": UNKNOWN }), "invalid-field"),
        (&acme, json!({ "campaign_id": "News" }), "invalid-field"),
        (&acme, json!({ "campaign_id": EMPTY }), "invalid-field"),
        (&beta, json!({ "campaign_id": NEWS }), "invalid-field"),
        (&acme, json!({ "campaign_id": NEWS, "template": template }), "invalid-field"),
        (
            &acme,
            json!({ "campaign_id": NEWS, "messages": { "webhook": webhook("x") } }),
            "invalid-field",
        ),
    ] {
        let refused = api.post(PREVIEW, &body).await;
        assert_eq!(refused.status, 400, "{body}: {refused:?}");
        assert_eq!(refused.body["code"], code, "{body}: {refused:?}");
    }
    fleet.close().await;
}
