//! What the workspace file declares of messages: applied by the program itself, kept sealed, read
//! by those who send, tried by `doctor`; on SQLite and on PostgreSQL.

use std::process::Output;
use std::sync::Arc;

use kit::secrets::SecretKey;
use longshore::app::App;
use longshore::campaigns;
use longshore::setup;
use longshore::workspace_file::apply::apply;
use longshore::workspace_file::change::Options;
use longshore::workspace_file::file;
use longshore::workspaces::Channel;
use longshore::workspaces::settings;
use longshore::workspaces::{self, by_name};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use store::Store;
use uuid::Uuid;

use crate::support::receiver::{Receiver, ScriptedResponse};
use crate::support::scripted_relay::{Action, ScriptedRelay, Step};
use crate::support::stores::{TestStore, on_both_stores};
use crate::support::{eventually, process, servers};

on_both_stores!(World =>
    applying_is_idempotent_and_prune_removes_the_rest,
    secrets_are_neither_printed_nor_stored_as_they_are,
    sending_uses_the_applied_settings,
    invalid_declared_messages_are_rejected_with_their_path,
    doctor_tries_relays_and_providers_and_sends_nothing,
);

const SEGMENT: Uuid = Uuid::from_u128(0x5e6);
const GROUP: Uuid = Uuid::from_u128(0x6809);
const CAMPAIGN: Uuid = Uuid::from_u128(0xca4);
const PASSWORD: &str = "hidden-password";
const SECRET: &str = "hidden-secret-that-signs";

/// An installation of its own.
struct World {
    app: App,
    test: TestStore,
}

impl World {
    async fn new(test: TestStore) -> Self {
        servers::install_tls();
        let app = App::open(test.config.clone()).await.unwrap();
        setup::run(&app).await.unwrap();
        Self { app, test }
    }

    /// Runs the program itself; networks of this machine may be reached if so wanted.
    async fn run(&self, arguments: &[&str], allow: bool) -> Output {
        let mut environment = self.test.environment();
        if allow {
            environment.insert("LONGSHORE_ALLOW_PRIVATE".into(), "127.0.0.0/8".into());
        }
        let mut command = process::command(&self.test.config.data, &environment);
        command.args(arguments).env("SMTP_PASSWORD", PASSWORD).env("SECRET", SECRET);
        process::output(command).await
    }

    /// Applies a file by the program itself; what it printed, or its error.
    async fn apply(&self, file: &Value, options: &[&str]) -> Result<String, String> {
        let path = self.test.config.data.join("acme.yaml");
        std::fs::write(&path, file.to_string()).unwrap();
        let arguments = [&["apply", path.to_str().unwrap()], options].concat();
        let output = self.run(&arguments, false).await;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, error) = (text(&output.stdout), text(&output.stderr));
        for text in [&out, &error] {
            assert!(!text.contains("hidden"), "a secret was printed: {text}");
        }
        if output.status.success() { Ok(out) } else { Err(error) }
    }

    /// Applies a file in this process.
    async fn apply_here(&self, file: &Value, prune: bool) -> Result<(), String> {
        let environment = |name: &str| match name {
            "SMTP_PASSWORD" => Some(PASSWORD.to_owned()),
            "SECRET" => Some(SECRET.to_owned()),
            _ => None,
        };
        let declared = file::read(&file.to_string(), &environment).unwrap();
        let options = Options { dry_run: false, prune, confirmed: false };
        let applied = apply(&self.app, &declared.workspaces[0], options).await;
        applied.map(drop).map_err(|error| error.to_string())
    }

    async fn workspace(&self) -> i32 {
        let mut tx = self.app.store.snapshot().await.unwrap();
        by_name(&mut tx, "acme").await.unwrap().unwrap().id
    }

    async fn segment(&self, id: Uuid) -> Option<Value> {
        let workspace = self.workspace().await;
        let mut tx = self.app.store.snapshot().await.unwrap();
        let segment = workspaces::segments::segment(&mut tx, workspace, id).await.unwrap();
        segment.map(|segment| segment.audience.as_str().parse().unwrap())
    }

    /// Every row that may have something of it, as bytes.
    async fn everything_stored(&self) -> Vec<u8> {
        let mut all = Vec::new();
        match &self.app.store {
            Store::Postgres { pool, .. } => {
                let mut connection = pool.acquire().await.unwrap();
                for table in ["workspaces", "channels", "subscription_groups", "segments"] {
                    let sql = format!("COPY {table} TO STDOUT (FORMAT binary)");
                    let rows = connection.copy_out_raw(&sql).await.unwrap();
                    let rows: Vec<_> = futures::TryStreamExt::try_collect(rows).await.unwrap();
                    all.extend(rows.concat());
                }
            }
            Store::Sqlite { .. } => {
                for entry in std::fs::read_dir(&self.test.config.data).unwrap() {
                    let path = entry.unwrap().path();
                    // Not the workspace file itself.
                    if path.is_file() && path.extension().is_none_or(|end| end != "yaml") {
                        all.extend(std::fs::read(path).unwrap());
                    }
                }
            }
        }
        all
    }

    /// What `doctor` finds of channels, by what it tried.
    async fn doctor(&self, allow: bool) -> Vec<Value> {
        let output = self.run(&["doctor", "--json"], allow).await;
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(!text.contains("hidden"), "a secret was printed: {text}");
        assert!(text.contains("links in emails"), "{text}");
        let all = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let found: Vec<Value> =
            all.filter(|found| found["what"].as_str().unwrap().ends_with(" of acme")).collect();
        let all_ok = found.iter().all(|found| found["ok"] == true);
        assert_eq!(output.status.success(), all_ok, "{text}");
        found
    }
}

fn audience() -> Value {
    json!({ "AND": [{ "email_subscription_status": { "comparison": "is", "value": "opted_in" } }] })
}

/// A workspace that can send by everything but WhatsApp.
fn acme() -> Value {
    json!({
        "workspace": "acme",
        "frequency_capping": [{ "messages": 5, "days": 7, "channel": "email" }],
        "segments": [{ "id": SEGMENT, "name": "VIP", "audience": audience() }],
        "subscription_groups": [{ "id": GROUP, "channel": "sms", "from": "+15550100" }],
        "email": {
            "smtp": "smtp://acme:${SMTP_PASSWORD}@relay.acme.example",
            "from": "Acme <hello@acme.example>",
            "status_postback": { "url": "https://acme.example/status", "secret": "${SECRET}" },
        },
        "providers": {
            "push": { "url": "https://push.example/?token=hidden-token", "secret": "${SECRET}" },
            "sms": { "url": "http://10.0.0.1/sms", "secret": "${SECRET}" },
            "feedback_secret": "${SECRET}",
        },
        "callbacks": { "secret": "whsec_Zm91ci1hbmQtdHdlbnR5LWJ5dGVzLW9yLXNv" },
    })
}

fn with(mut file: Value, name: &str, value: Value) -> Value {
    file[name] = value;
    file
}

/// The changes and notes among what `apply` printed.
fn lines(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("  ")).collect()
}

async fn applying_is_idempotent_and_prune_removes_the_rest(world: World) {
    const PRIVATE: &str = "! providers.sms.url must not point to a private address: no \
                           message is sent there, unless LONGSHORE_ALLOW_PRIVATE contains its \
                           network";
    const LINKS: &str = "! public_url (LONGSHORE_PUBLIC_URL) is not set: the unsubscribe \
                         links in emails would not work";
    let dry = world.apply(&acme(), &["--dry-run"]).await.unwrap();
    let said = world.apply(&acme(), &[]).await.unwrap();
    assert_eq!(
        lines(&said),
        [
            "+ workspace acme",
            "+ callbacks.secret",
            "+ webhooks.secret (generated: the file has none)",
            "+ email (smtp://relay.acme.example:587)",
            "+ providers.push (https://push.example)",
            "+ providers.sms (http://10.0.0.1)",
            "+ providers.feedback_secret",
            &format!("+ subscription_group {GROUP} (sms from +15550100)"),
            &format!("+ segment VIP ({SEGMENT})"),
            PRIVATE,
            LINKS,
        ]
    );
    assert_eq!(lines(&dry), lines(&said));
    let again = world.apply(&acme(), &[]).await.unwrap();
    assert_eq!(lines(&again), ["= no changes", PRIVATE, LINKS]);

    let mut other = acme();
    other["frequency_capping"] = json!([{ "messages": 9, "days": 1 }]);
    other["email"]["from"] = Value::Null;
    other["email"]["smtp"] = json!("smtps://acme:${SMTP_PASSWORD}@relay.acme.example");
    other["providers"]["sms"]["url"] = json!("https://sms.example/");
    other["subscription_groups"][0]["from"] = json!("12345");
    other["segments"][0]["name"] = json!("Very important");
    let said = world.apply(&other, &[]).await.unwrap();
    assert_eq!(
        lines(&said),
        [
            "~ frequency_capping (5 in 7 days by email -> 9 in 1 days)",
            "~ email (from, smtp)",
            "~ providers.sms (url)",
            &format!("~ subscription_group {GROUP} (sms from +15550100 -> sms from 12345)"),
            "~ segment Very important (was VIP)",
            LINKS,
        ]
    );

    // What is left out stays, but for the rules of capping.
    let bare = json!({ "workspace": "acme" });
    let said = world.apply(&bare, &[]).await.unwrap();
    let gone = [
        "email",
        "providers.push",
        "providers.sms",
        "providers.feedback_secret",
        &format!("subscription_group {GROUP}"),
        "segment Very important",
    ];
    let notes =
        gone.map(|declared| format!("! {declared} is no longer in the file: --prune removes it"));
    let capping = "~ frequency_capping (9 in 1 days -> none)".to_owned();
    assert_eq!(lines(&said), [&[capping], notes.as_slice()].concat());
    assert_eq!(world.segment(SEGMENT).await, Some(audience()));
    let dry = world.apply(&bare, &["--prune", "--dry-run"]).await.unwrap();
    assert_eq!(world.segment(SEGMENT).await, Some(audience()));
    let said = world.apply(&bare, &["--prune"]).await.unwrap();
    assert_eq!(lines(&dry), lines(&said));
    let ended: Vec<&str> = lines(&said)
        .into_iter()
        .map(|line| line.strip_prefix("- ").unwrap().split(" (").next().unwrap())
        .collect();
    assert_eq!(ended, gone);
    assert_eq!(world.segment(SEGMENT).await, None);
    let again = world.apply(&bare, &["--prune"]).await.unwrap();
    assert_eq!(lines(&again), ["= no changes"]);
}

async fn secrets_are_neither_printed_nor_stored_as_they_are(world: World) {
    world.apply(&acme(), &["--json"]).await.unwrap();
    let stored = world.everything_stored().await;
    let is_there = |text: &str| stored.windows(text.len()).any(|part| part == text.as_bytes());
    // What is no secret is found, so the search works.
    assert!(is_there("+15550100") && is_there("opted_in"));
    for secret in [PASSWORD, SECRET, "hidden-token", "push.example", "relay.acme.example"] {
        assert!(!is_there(secret), "{secret} is stored as it is");
    }

    // They open under a key that took the place of the former.
    let workspace = world.workspace().await;
    let mut config = world.test.config.clone();
    config.secret_key_old = config.secret_key.replace(SecretKey::generate().into());
    let both = App::open(config.clone()).await.unwrap();
    assert!(setup::run(&both).await.unwrap().rotated);
    config.secret_key_old = None;
    let new = App::open(config).await.unwrap();
    let found = settings::find(&new, workspace).await.unwrap();
    let email = found.email.as_ref().unwrap();
    assert!(email.smtp.expose_secret().contains(PASSWORD));
    assert_eq!(
        email.status_postback.as_ref().unwrap().secret,
        Some(settings::Secret(SECRET.into()))
    );
    // A reader with the previous key gets that error, and no details.
    let error = settings::find(&world.app, workspace).await.unwrap_err().to_string();
    assert!(error.contains("LONGSHORE_SECRET_KEY") && !error.contains("hidden"), "{error}");
}

async fn sending_uses_the_applied_settings(world: World) {
    let campaign = json!({
        "id": CAMPAIGN, "name": "Receipt", "type": "transactional",
        "email": { "subject": "Your order", "body": "Thank you." },
    });
    world.apply(&with(acme(), "campaigns", json!([campaign])), &[]).await.unwrap();
    let workspace = world.workspace().await;
    let found = settings::find(&world.app, workspace).await.unwrap();
    let relay = found.email.as_ref().unwrap().relay().unwrap();
    assert_eq!(relay.login.unwrap().password.expose_secret(), PASSWORD);
    assert_eq!(
        found.provider(Channel::WebPush).unwrap().secret,
        Some(settings::Secret(SECRET.into()))
    );
    assert_eq!(found.feedback_secret.as_ref().unwrap().0, SECRET.as_bytes());
    assert!(found.without(Channel::Sms).is_none() && found.without(Channel::WhatsApp).is_some());
    assert_eq!(found.subscription_groups[0].id, GROUP);
    assert_eq!(found.frequency_capping[0].channel, Some(Channel::Email));

    let mut tx = world.app.store.snapshot().await.unwrap();
    let receipt = campaigns::by_id(&mut tx, workspace, CAMPAIGN).await.unwrap().unwrap();
    assert!(campaigns::by_id(&mut tx, workspace, SEGMENT).await.unwrap().is_none());
    assert!(campaigns::by_id(&mut tx, workspace + 1, CAMPAIGN).await.unwrap().is_none());
    assert!(
        workspaces::segments::segment(&mut tx, workspace + 1, SEGMENT).await.unwrap().is_none()
    );
    drop(tx);
    let email = &receipt.email(&found).unwrap()["email"];
    assert_eq!(email["from"], "Acme <hello@acme.example>");
    assert_eq!((&email["subject"], &email["body"]), (&json!("Your order"), &json!("Thank you.")));

    // Nobody asks the store each time, and a change is known soon.
    let again = settings::find(&world.app, workspace).await.unwrap();
    assert!(Arc::ptr_eq(&found, &again));
    world.apply(&json!({ "workspace": "acme" }), &["--prune"]).await.unwrap();
    eventually("the email is gone", || async {
        settings::find(&world.app, workspace).await.unwrap().email.is_none()
    })
    .await;
    // Of nobody there is nothing.
    assert!(settings::find(&world.app, workspace + 1).await.unwrap().email.is_none());
}

async fn invalid_declared_messages_are_rejected_with_their_path(world: World) {
    let campaign = |messages: Value| json!([{ "id": CAMPAIGN, "name": "n", "type": "api", "messages": messages }]);
    let email = |body: &str| json!({ "email": { "app_id": "web", "from": "a@acme.example", "body": body } });
    let whats_app = json!({ "whats_app": {
        "app_id": "web", "subscription_group_id": GROUP, "message_type": "text", "message": {},
    } });
    for (messages, path, text) in [
        (email("a\n {{ b"), "campaigns[0].messages.email.body: ", "line 2, column 2"),
        (json!({ "email": { "body": "x" } }), "campaigns[0].messages.email.app_id: ", "missing"),
        (json!({ "fax": {} }), "campaigns[0].messages.fax: ", "unknown channel"),
        (whats_app, "campaigns[0].messages.whats_app: ", "declares no providers.whats_app"),
        (
            json!({ "sms": { "app_id": "web", "subscription_group_id": SEGMENT, "body": "x" } }),
            "campaigns[0].messages.sms.subscription_group_id: ",
            "does not match a",
        ),
    ] {
        let error = world.apply_here(&with(acme(), "campaigns", campaign(messages)), false).await;
        let error = error.unwrap_err();
        let line = error.lines().find(|line| line.contains(path));
        let line = line.unwrap_or_else(|| panic!("{path}: {error}"));
        assert!(line.contains("line 1: ") && line.contains(text), "{line}");
        let mut tx = world.app.store.snapshot().await.unwrap();
        assert!(by_name(&mut tx, "acme").await.unwrap().is_none(), "it left something");
    }
    let of_variation = |declared: Uuid, named: Uuid| {
        let mut campaign = campaign(email("x"));
        campaign[0]["variations"] = json!([{ "id": declared }]);
        campaign[0]["messages"]["email"]["message_variation_id"] = json!(named);
        with(acme(), "campaigns", campaign)
    };
    let error = world.apply_here(&of_variation(SEGMENT, GROUP), false).await.unwrap_err();
    assert!(error.contains("email.message_variation_id: "), "{error}");
    world.apply_here(&of_variation(SEGMENT, SEGMENT), false).await.unwrap();

    // What was declared before counts as long as it is not pruned.
    let canvases = json!([{ "id": SEGMENT, "name": "c", "messages": { "web_push": { "alert": "a", "title": "t" } } }]);
    let bare = with(json!({ "workspace": "acme" }), "canvases", canvases);
    let error = world.apply_here(&bare, true).await.unwrap_err();
    assert!(error.contains("canvases[0].messages.web_push: "), "{error}");
    world.apply_here(&bare, false).await.unwrap();

    // An email without a sender of its own needs one of the workspace.
    let mut file = acme();
    file["email"]["from"] = Value::Null;
    file["campaigns"] =
        json!([{ "id": GROUP, "name": "r", "type": "transactional", "email": { "body": "x" } }]);
    let error = world.apply_here(&file, false).await.unwrap_err();
    assert!(error.contains("campaigns[0].email.from: "), "{error}");
}

/// The commands to a relay, by their first words.
fn commands_to(relay: &ScriptedRelay) -> Vec<String> {
    let word = |line: &String| line.split(' ').next().unwrap_or_default().to_owned();
    relay.received_commands().iter().map(word).collect()
}

async fn doctor_tries_relays_and_providers_and_sends_nothing(world: World) {
    const LOGINS: &str = "AUTH PLAIN LOGIN";
    let relay = ScriptedRelay::start(&[LOGINS], []).await;
    let closed = process::free_port();
    let provider = Receiver::start([]).await;
    let file = |smtp: &str, push: &str| {
        let email = json!({ "smtp": smtp });
        let push = json!({ "url": push, "secret": SECRET });
        let file = with(json!({ "workspace": "acme" }), "email", email);
        with(file, "providers", json!({ "push": push }))
    };
    let login = |relay: &ScriptedRelay| relay.url(&format!("acme:{PASSWORD}@"), "?tls=none");
    let text = |found: &Value| found["text"].as_str().unwrap().to_owned();

    provider.script([ScriptedResponse::Status(405)]);
    world.apply_here(&file(&login(&relay), &provider.url("/push")), false).await.unwrap();
    let [email, push] = world.doctor(true).await.try_into().unwrap();
    assert!(email["ok"] == true && push["ok"] == true, "{email} {push}");
    assert!(text(&email).ends_with("accepts emails, with the login, without TLS"), "{email}");
    assert_eq!(commands_to(&relay), ["EHLO", "AUTH", "NOOP", "QUIT"]);
    let [asked] = provider.received().try_into().unwrap();
    assert_eq!((asked.method.as_str(), asked.body.len()), ("HEAD", 0));
    assert!(asked.headers.get("webhook-signature").is_none());

    // Without TLS a password stays here.
    let plain = relay.url(&format!("acme:{PASSWORD}@"), "");
    provider.script([ScriptedResponse::Status(503)]);
    world.apply_here(&file(&plain, &provider.url("/push")), false).await.unwrap();
    let [email, push] = world.doctor(true).await.try_into().unwrap();
    assert!(email["ok"] == false && text(&email).contains("STARTTLS"), "{email}");
    assert!(email["fix"].as_str().unwrap().contains("?tls=none"), "{email}");
    assert!(!commands_to(&relay)[4..].contains(&"AUTH".to_owned()));
    assert!(push["ok"] == false && text(&push).contains("503"), "{push}");

    let no = (Step::LogIn, Action::Reply(535, "5.7.8 not you"));
    let refusing = ScriptedRelay::start(&[LOGINS], [no]).await;
    let moved = ScriptedResponse::Redirect("http://127.0.0.1:1/".into());
    provider.script([moved]);
    world.apply_here(&file(&login(&refusing), &provider.url("/push")), false).await.unwrap();
    let [email, push] = world.doctor(true).await.try_into().unwrap();
    assert!(email["ok"] == false && text(&email).contains("535 5.7.8 not you"), "{email}");
    assert!(email["fix"].as_str().unwrap().contains("user and password"), "{email}");
    assert!(push["ok"] == false && push["fix"].as_str().unwrap().contains("redirects"), "{push}");

    // Nobody is there, and nobody may be asked.
    world
        .apply_here(&file(&format!("smtp://127.0.0.1:{closed}"), &provider.url("/push")), false)
        .await
        .unwrap();
    let before = provider.received().len();
    let [email, push] = world.doctor(false).await.try_into().unwrap();
    assert!(email["ok"] == false && email["fix"].as_str().unwrap().contains("email.smtp"));
    let fix = push["fix"].as_str().unwrap();
    assert!(push["ok"] == false && fix.contains("LONGSHORE_ALLOW_PRIVATE"), "{push}");
    assert_eq!(provider.received().len(), before);
}
