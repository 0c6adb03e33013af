//! Email templates of the workspace file, from the request to the relay: what a template gives,
//! what the request overrides, and whose text is sent after the template changed.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::support::api::ApiResponse;
use crate::support::fleet::{Backend, Fleet};
use crate::support::process::free_port;
use crate::support::scripted_relay::{AcceptedEmail, ScriptedRelay};
use crate::support::{Api, WorkspaceFile, eventually};

const SEND: &str = "/messages/send";
const PREVIEW: &str = "/templates/preview";
const SCHEDULE: &str = "/messages/schedule/create";
const UPDATE: &str = "/messages/schedule/update";
const WELCOME: &str = "dddd0000-0000-4000-8000-00000000000a";
const UNKNOWN: &str = "dddd0000-0000-4000-8000-00000000000b";
const CAMPAIGN: &str = "aaaa0000-0000-4000-8000-000000000001";
const RECEIPT: &str = "aaaa0000-0000-4000-8000-000000000002";

/// The template, with some other fields.
fn template(change: Value) -> Value {
    let mut template = json!({
        "id": WELCOME, "name": "Welcome", "subject": "Welcome {{${first_name}}}",
        "body": "<p>Body for {{${first_name}}}</p>", "plaintext_body": "Text for {{${first_name}}}",
        "from": "Acme <hello@acme.example>", "headers": { "X-Kind": "welcome" },
    });
    template.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    template
}

fn file(relay: &str) -> WorkspaceFile {
    let email = json!({ "app_id": "web", "email_template_id": WELCOME });
    WorkspaceFile::new("acme")
        .with_percent(None)
        .permitted(&[
            "messages.send",
            "messages.schedule.create",
            "messages.schedule.update",
            "templates.preview",
            "campaigns.trigger.send",
            "transactional.send",
        ])
        .with("email", json!({ "smtp": relay, "from": "Other <other@acme.example>" }))
        .with("email_templates", json!([template(json!({}))]))
        .with(
            "campaigns",
            json!([
                {
                    "id": CAMPAIGN, "name": "News", "type": "api", "messages": { "email": email },
                },
                {
                    "id": RECEIPT, "name": "Receipt", "type": "transactional",
                    "email": { "email_template_id": WELCOME, "subject": "Receipt" },
                },
            ]),
        )
}

/// A request with an email of the template, and other fields of the email object.
fn body(change: Value) -> Value {
    let mut email = json!({ "app_id": "web", "email_template_id": WELCOME });
    email.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    json!({ "external_user_ids": ["ann"], "messages": { "email": email } })
}

fn scheduled(change: Value) -> Value {
    let mut body = body(change);
    body["schedule"] = json!({ "time": "2127-01-01T09:00:00Z" });
    body
}

fn previewed(change: Value) -> Value {
    json!({ "external_user_id": "ann", "messages": body(change)["messages"] })
}

/// A change of a schedule.
fn update(id: &Value, change: Value) -> Value {
    json!({ "schedule_id": id, "messages": body(change)["messages"] })
}

async fn start(file: &WorkspaceFile) -> (Fleet, Api) {
    let settings = [("LONGSHORE_MESSAGES__RETRY_MS", "50".to_owned())];
    let fleet = Fleet::start(Backend::Embedded, &settings).await;
    let api = fleet.apply(std::slice::from_ref(file)).await.remove(0);
    let ann = json!({ "external_id": "ann", "first_name": "Ann", "email": "ann@people.example" });
    fleet.import("acme", &[ann.to_string()]).await;
    (fleet, api)
}

fn accepted(answer: &ApiResponse) {
    assert_eq!(answer.status, 201, "{answer:?}");
    assert!(answer.body.get("errors").is_none(), "{answer:?}");
}

/// The email that a relay takes next, after `before` others.
async fn next_email(relay: &ScriptedRelay, before: usize) -> AcceptedEmail {
    eventually("the email is sent", || async { relay.accepted().len() > before }).await;
    relay.accepted()[before].clone()
}

/// The email object of the only schedule.
async fn email_of_schedule(fleet: &Fleet) -> Value {
    let listed = fleet.run(&["schedules", "list", "--json"]).await;
    let schedule: Value = serde_json::from_str(listed.trim()).expect("one schedule");
    schedule["request"]["messages"]["email"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_email_gets_the_fields_that_it_does_not_set() {
    let relay = ScriptedRelay::start(&[], []).await;
    let (fleet, api) = start(&file(&relay.url("", ""))).await;
    accepted(&api.post(SEND, &body(json!({ "subject": null }))).await);
    let email = next_email(&relay, 0).await;
    assert_eq!(email.header("Subject").as_deref(), Some("Welcome Ann"));
    assert_eq!(email.header("From").as_deref(), Some("Acme <hello@acme.example>"));
    assert_eq!(email.header("X-Kind").as_deref(), Some("welcome"));
    assert!(email.text.contains("Body for Ann") && email.text.contains("Text for Ann"));

    let own = json!({
        "email_template_id": WELCOME.to_uppercase(), "subject": "Own", "body": "<p>Own body</p>",
        "from": "own@acme.example", "headers": {},
    });
    accepted(&api.post(SEND, &body(own)).await);
    let email = next_email(&relay, 1).await;
    assert_eq!(email.header("Subject").as_deref(), Some("Own"));
    assert_eq!((email.from.as_str(), email.header("X-Kind")), ("own@acme.example", None));
    assert!(email.text.contains("Own body"), "{}", email.text);
    // The plain text of the template belongs to its own body.
    assert!(!email.text.contains("for Ann"), "{}", email.text);

    let trigger = json!({ "campaign_id": CAMPAIGN, "recipients": [{ "external_user_id": "ann" }] });
    accepted(&api.post("/campaigns/trigger/send", &trigger).await);
    let email = next_email(&relay, 2).await;
    assert_eq!(email.header("Subject").as_deref(), Some("Welcome Ann"));

    let path = format!("/transactional/v1/campaigns/{RECEIPT}/send");
    accepted(&api.post(&path, &json!({ "recipient": { "external_user_id": "ann" } })).await);
    let email = next_email(&relay, 3).await;
    assert_eq!(email.header("Subject").as_deref(), Some("Receipt"));
    // The sender of the template goes before that of the workspace.
    assert_eq!(email.header("From").as_deref(), Some("Acme <hello@acme.example>"));
    assert!(email.text.contains("Body for Ann"), "{}", email.text);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_email_templates_are_rejected() {
    let (fleet, api) = start(&file("smtp://relay.acme.example:587")).await;
    let created = api.post(SCHEDULE, &scheduled(json!({}))).await;
    accepted(&created);
    let before = email_of_schedule(&fleet).await;
    for id in [json!(UNKNOWN), json!("welcome"), json!(5)] {
        for mut change in [json!({}), json!({ "from": "a@acme.example", "body": "b" })] {
            change["email_template_id"] = id.clone();
            for (path, body) in [
                (SEND, body(change.clone())),
                (PREVIEW, previewed(change.clone())),
                (SCHEDULE, scheduled(change.clone())),
                (UPDATE, update(&created.body["schedule_id"], change.clone())),
            ] {
                let answer = api.post(path, &body).await;
                assert_eq!(answer.status, 400, "{path} {change}: {answer:?}");
                assert_eq!(answer.body["code"], "invalid-request", "{path}: {answer:?}");
                let path = &answer.body["errors"][0]["path"];
                assert_eq!(path, "messages.email.email_template_id", "{answer:?}");
            }
        }
    }
    assert_eq!(email_of_schedule(&fleet).await, before);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_email_template_changes_nothing_that_was_accepted() {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let first = file(&format!("smtp://{address}"));
    let (fleet, api) = start(&first).await;
    // The relay is down.
    let retried = body(json!({}));
    let send = || {
        let request = api.request(reqwest::Method::POST, SEND).header("idempotency-key", "once");
        crate::support::api::answer(request.json(&retried))
    };
    let accepted_first = send().await;
    accepted(&accepted_first);
    let created = api.post(SCHEDULE, &scheduled(json!({}))).await;
    accepted(&created);
    let email = email_of_schedule(&fleet).await;
    assert_eq!(email["subject"], "Welcome {{${first_name}}}");
    // Workers of every version read it.
    assert!(email.get("email_template_id").is_none(), "{email}");

    let changed = template(json!({ "subject": "Changed", "body": "Changed" }));
    fleet.apply(&[first.clone().with("email_templates", json!([changed]))]).await;
    let preview = api.post(PREVIEW, &previewed(json!({}))).await;
    assert_eq!(preview.body["previews"][0]["rendered"]["subject"], "Changed", "{preview:?}");
    assert_eq!(email_of_schedule(&fleet).await, email);
    assert_eq!(send().await.body, accepted_first.body);

    let relay = ScriptedRelay::start_at(address, &[], []).await;
    let sent = next_email(&relay, 0).await;
    assert_eq!(sent.header("Subject").as_deref(), Some("Welcome Ann"));
    assert!(sent.text.contains("Body for Ann"), "{}", sent.text);
    // A new request gets the new text, and so does a campaign.
    let update = update(&created.body["schedule_id"], json!({}));
    accepted(&api.post(UPDATE, &update).await);
    assert_eq!(email_of_schedule(&fleet).await["subject"], "Changed");
    let trigger = json!({ "campaign_id": CAMPAIGN, "recipients": [{ "external_user_id": "ann" }] });
    accepted(&api.post("/campaigns/trigger/send", &trigger).await);
    let sent = next_email(&relay, 1).await;
    assert_eq!(sent.header("Subject").as_deref(), Some("Changed"));
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn apply_lists_and_prunes_email_templates() {
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    let apply = async |file: &WorkspaceFile, more: &[&str]| {
        let path = fleet.write_file("acme.yaml", file.document().as_bytes());
        fleet.run(&[&["apply", path.to_str().unwrap()], more].concat()).await
    };
    let first = file("smtp://relay.acme.example:587");
    for more in [&["--dry-run"][..], &[]] {
        let said = apply(&first, more).await;
        assert!(said.contains("+ email_template Welcome"), "{said}");
    }
    assert!(!apply(&first, &[]).await.contains("email_template"));
    let changed = json!([template(json!({ "subject": "Changed" }))]);
    let said = apply(&first.clone().with("email_templates", changed), &[]).await;
    // The receipt has its own subject.
    for change in ["~ email_template Welcome (subject)", "~ campaign News (messages)"] {
        assert!(said.contains(change), "{change}: {said}");
    }
    assert!(!said.contains("campaign Receipt"), "{said}");

    let without = first.clone().with("email_templates", json!([]));
    let said = apply(&without, &[]).await;
    assert!(said.contains("email_template Welcome is no longer in the file"), "{said}");
    // Its campaigns still use it.
    let path = fleet.write_file("acme.yaml", without.document().as_bytes());
    let refused = fleet.command(&["apply", path.to_str().unwrap(), "--prune"]).await;
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success(), "{error}");
    for path in
        ["campaigns[0].messages.email.email_template_id", "campaigns[1].email.email_template_id"]
    {
        assert!(error.contains(path), "{path}: {error}");
    }
    let said = apply(&without.with("campaigns", json!([])), &["--prune"]).await;
    assert!(said.contains("- email_template Welcome"), "{said}");
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn apply_refuses_email_templates_that_no_email_could_use() {
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    let no_body = || {
        let mut template = template(json!({}));
        template.as_object_mut().unwrap().remove("body");
        template
    };
    for (templates, part) in [
        (json!([template(json!({ "body": "{% if %}" }))]), "email_templates[0].body: line 1, "),
        (
            json!([template(json!({ "subject": "{{${frist_name}}}" }))]),
            "email_templates[0].subject: line 1, column 3",
        ),
        (json!([template(json!({ "body": "" }))]), "email_templates[0].body: "),
        (json!([template(json!({ "body": 5 }))]), "email_templates[0].body: "),
        (json!([no_body()]), "email_templates[0]"),
        (json!([template(json!({ "from": "nobody" }))]), "email_templates[0].from: "),
        (json!([template(json!({ "headers": { "From": "x" } }))]), "email_templates[0].headers."),
        (json!([template(json!({ "id": "welcome" }))]), "email_templates[0].id: "),
        (json!([template(json!({ "app_id": "web" }))]), "email_templates[0].app_id: "),
        (json!([template(json!({})), template(json!({}))]), "email_templates[1].id: "),
        (
            json!([template(json!({ "body": "x".repeat((1 << 20) + 1) }))]),
            "email_templates[0].body: ",
        ),
    ] {
        let file = file("smtp://relay.acme.example:587").with("email_templates", templates);
        let path = fleet.write_file("wrong.yaml", file.document().as_bytes());
        let said = fleet.command(&["apply", path.to_str().unwrap()]).await;
        let error = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(!said.status.success() && error.contains(part), "{part}: {error:.600}");
    }
    fleet.close().await;
}
