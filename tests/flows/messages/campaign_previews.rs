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
