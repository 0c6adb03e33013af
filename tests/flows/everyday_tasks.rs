//! What operators and marketers do every day, each by at most two commands.

mod asking;
mod exports;
mod typed;

use std::process::Output;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::installation::Installation;
use crate::support::process;
use crate::support::stores::{TestStore, execute, on_both_stores};

on_both_stores!(World =>
    a_declared_campaign_is_shown_with_its_results_and_previewed,
    a_user_is_found_by_any_identifier,
    a_segment_is_listed_counted_and_sampled,
    a_wrong_renew_is_seen_before_and_undone_after,
    a_dry_run_of_an_erasure_erases_nobody,
    a_leaked_key_is_revoked_by_its_secret,
    an_upgrade_is_checked_before,
);

const WELCOME: &str = "3c9f0a52-8f1e-4c57-9a3e-0d5b1c2e7f60";
const SEGMENT: &str = "5c9f0a52-8f1e-4c57-9a3e-0d5b1c2e7f61";
const SECRET: &str = "a-secret-that-will-be-public";

/// A workspace with a campaign, a segment, a key and a control group, and three users.
struct World {
    installation: Installation,
}

fn file(percent: u8) -> Value {
    json!({
        "workspace": "acme",
        "currency": "USD",
        "control_group": { "percent": percent },
        "keys": [{ "name": "app", "secret": SECRET, "permissions": ["users.track"] }],
        "segments": [{
            "id": SEGMENT,
            "name": "Berlin",
            "audience": { "AND": [{ "custom_attribute": {
                "custom_attribute_name": "city", "comparison": "equals", "value": "Berlin",
            } }] },
        }],
        "campaigns": [{
            "id": WELCOME,
            "name": "Welcome",
            "type": "api",
            "messages": { "webhook": {
                "url": "https://hooks.acme.example/welcome",
                "request_method": "POST",
                "body": "{% if ${first_name} == 'Bob' %}{% abort_message('no Bob') %}{% endif %}Hi {{${first_name}}}, {{api_trigger_properties.${code}}}",
            } },
        }],
    })
}

impl World {
    async fn new(store: TestStore) -> Self {
        let installation = Installation::open(store, &file(5).to_string(), |_| {}).await;
        let world = Self { installation };
        let users = [
            json!({
                "external_id": "ann", "email": "Ann@acme.example", "first_name": "Ann",
                "phone": "+4915112345678", "custom_attributes": { "city": "Berlin" },
                "user_aliases": [{ "alias_name": "47:11", "alias_label": "crm" }],
            }),
            json!({ "external_id": "bob", "first_name": "Bob", "custom_attributes": { "city": "Berlin" } }),
            json!({ "external_id": "cid", "custom_attributes": { "city": "Oslo" } }),
        ];
        let lines: Vec<String> = users.iter().map(Value::to_string).collect();
        world.write("users.ndjson", &lines.join("\n"));
        world.run(&["import", "users.ndjson"]).await;
        world
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.installation.store.config.data.join(name), text).unwrap();
    }

    /// What a command printed, which must succeed.
    async fn run(&self, arguments: &[&str]) -> String {
        self.installation.printed(arguments).await.join("\n")
    }

    /// The objects that a command printed, one on each line.
    async fn objects(&self, arguments: &[&str]) -> Vec<Value> {
        let lines = self.installation.printed(&[arguments, &["--json"]].concat()).await;
        lines.iter().map(|line| serde_json::from_str(line).expect(line)).collect()
    }

    async fn status(&self, arguments: &[&str]) -> Option<i32> {
        self.output(arguments).await.status.code()
    }

    async fn output(&self, arguments: &[&str]) -> Output {
        self.installation.run(arguments).await
    }
}

async fn a_declared_campaign_is_shown_with_its_results_and_previewed(world: World) {
    let listed = world.objects(&["campaigns", "list"]).await;
    assert_eq!(listed.len(), 1);
    assert_eq!((&listed[0]["id"], &listed[0]["name"]), (&json!(WELCOME), &json!("Welcome")));
    assert!(world.run(&["campaigns", "list"]).await.contains("active"));

    for campaign in ["Welcome", WELCOME] {
        let shown = world.objects(&["campaigns", "show", campaign]).await.remove(0);
        assert_eq!((&shown["type"], &shown["state"]), (&json!("api"), &json!("active")));
        assert_eq!(shown["results"], json!([]), "nothing was sent yet");
        assert!(world.run(&["campaigns", "show", campaign]).await.contains("no messages yet"));
        assert!(shown["messages"]["webhook"].is_object(), "{shown}");
    }
    let added = "INSERT INTO campaign_statistics (workspace_id, campaign_id, variation_id, channel,
                     sent, delivered, bounced, unreachable, aborted, failed)
                 SELECT workspace_id, id, '', 'webhook', 1234, 0, 0, 0, 0, 0 FROM campaigns";
    execute(&world.installation.app.config.database_url(), added).await;
    let shown = world.objects(&["campaigns", "show", "Welcome"]).await.remove(0);
    assert_eq!(shown["results"][0]["sent"], 1234, "{shown}");
    assert!(world.run(&["campaigns", "show", "Welcome"]).await.contains("1,234"));

    let send = ["campaigns", "send", "Welcome", "--segment", "Berlin"];
    let dry = world.objects(&[&send[..], &["--dry-run"]].concat()).await.remove(0);
    let effect = dry["effects"][0].as_str().expect("an effect");
    assert!(effect.contains("by webhook to the segment Berlin: 2 users"), "{dry}");
    assert!(world.objects(&["dispatches", "list"]).await.is_empty(), "nothing was sent");
    let sent = world.objects(&send).await.remove(0);
    let listed = world.objects(&["dispatches", "list", "--campaign", "Welcome"]).await;
    assert_eq!((listed.len(), &listed[0]["id"]), (1, &sent["dispatch_id"]), "{listed:?}");
    let actor = listed[0]["requested_by"].as_str().expect("an actor");
    assert!(actor.starts_with("command:"), "{actor}");
    assert_eq!(listed[0]["audience"]["segment_name"], "Berlin", "{listed:?}");

    let preview = ["campaigns", "preview", "Welcome", "--trigger-properties", r#"{"code":"X"}"#];
    let of = |user| [&preview[..], &["--user", user]].concat();
    let shown = world.objects(&of("ann@acme.example")).await.remove(0);
    assert_eq!(shown["rendered"]["body"], "Hi Ann, X", "{shown}");
    assert_eq!(world.status(&of("bob")).await, Some(1), "the message would be aborted");
    let output = world.output(&["campaigns", "show", "welcome", "--workspace", "acme"]).await;
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("Welcome") && error.contains("--workspace acme"), "{error}");
    for unknown in [&["campaigns", "show", "Nope"][..], &of("nobody")] {
        assert_eq!(world.status(unknown).await, Some(1), "{unknown:?}");
    }
}

async fn a_user_is_found_by_any_identifier(world: World) {
    let ann = world.objects(&["users", "show", "ann"]).await.remove(0);
    let id = ann["service_id"].as_str().expect("an id");
    for (text, found_by) in [
        ("ann", "external_id"),
        (id, "service_id"),
        ("crm:47:11", "user_alias"),
        ("ann@ACME.example", "email"),
        ("+4915112345678", "phone"),
        ("0049 151 1234-5678", "phone"),
    ] {
        let found = world.objects(&["users", "find", text]).await;
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert_eq!(
            (&found[0]["service_id"], &found[0]["found_by"]),
            (&json!(id), &json!(found_by))
        );
        // The other commands about a user take the same.
        let shown = world.objects(&["users", "show", text]).await.remove(0);
        assert_eq!(shown["service_id"], id, "{text}");
        let preview = ["campaigns", "preview", "Welcome", "--user", text];
        for command in [&["messages", text][..], &["cards", text], &preview] {
            assert_eq!(world.status(command).await, Some(0), "{command:?}");
        }
    }
    for unknown in ["nobody", "crm:4711", "+4915100000000", &Uuid::new_v4().to_string()] {
        assert_eq!(world.status(&["users", "find", unknown]).await, Some(1), "{unknown}");
        let output = world.output(&["messages", unknown]).await;
        assert_eq!(output.status.code(), Some(1), "{unknown}");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains("longshore users find"), "{error}");
    }
    let twins = ["dan", "eve"]
        .map(|id| json!({ "external_id": id, "phone": "+4915199999999" }).to_string());
    world.write("twins.ndjson", &twins.join("\n"));
    world.run(&["import", "twins.ndjson"]).await;
    let output = world.output(&["messages", "+4915199999999"]).await;
    assert_eq!(output.status.code(), Some(1), "two users have the number");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    for user in world.objects(&["users", "find", "+4915199999999"]).await {
        assert!(error.contains(user["service_id"].as_str().expect("an id")), "{error}");
    }
}

async fn a_segment_is_listed_counted_and_sampled(world: World) {
    let listed = world.objects(&["segments", "list"]).await;
    let names: Vec<&Value> = listed.iter().map(|segment| &segment["name"]).collect();
    assert_eq!(names, ["All users", "Berlin"]);
    let first = world.objects(&["segments", "list", "--limit", "1"]).await;
    assert_eq!(first, listed[..1]);
    let after = first[0]["id"].as_str().unwrap();
    let second = world.objects(&["segments", "list", "--limit", "1", "--after", after]).await;
    assert_eq!(second, listed[1..]);
    for (segment, users) in [("Berlin", 2), (SEGMENT, 2), ("All users", 3)] {
        let exact = world.objects(&["segments", "count", segment, "--exact"]).await.remove(0);
        assert_eq!(
            (&exact["users"]["estimated"], &exact["users"]["exact"]),
            (&json!(users), &json!(true))
        );
        let counted = world.objects(&["segments", "count", segment]).await.remove(0);
        assert_eq!(counted["users"]["estimated"], users, "{counted}");
        let sample = world.objects(&["segments", "sample", segment]).await;
        assert_eq!(sample.len(), users, "{segment}");
    }
    let sample = world.objects(&["segments", "sample", "Berlin", "--limit", "1"]).await;
    assert_eq!(sample.len(), 1);
    assert_eq!(world.status(&["segments", "count", "Nope"]).await, Some(1));
}

async fn a_wrong_renew_is_seen_before_and_undone_after(world: World) {
    let active = async || world.objects(&["control-group", "show"]).await.remove(0);
    let former = active().await;
    let dry = ["control-group", "renew", "--percent", "10", "--dry-run"];
    assert_eq!(world.objects(&dry).await[0]["dry_run"], true);
    assert!(world.run(&dry).await.contains(former["segment_id"].as_str().unwrap()));
    assert_eq!(active().await, former, "a dry run changes nothing");

    world.run(&["control-group", "renew", "--percent", "10"]).await;
    let renewed = active().await;
    assert_eq!(renewed["percent"], 10);
    assert_ne!(renewed["segment_id"], former["segment_id"]);
    let listed = world.objects(&["control-group", "list"]).await;
    let states: Vec<(&Value, &Value)> =
        listed.iter().map(|group| (&group["segment_id"], &group["active"])).collect();
    assert_eq!(states.len(), 2);
    assert!(states.contains(&(&renewed["segment_id"], &json!(true))), "{states:?}");
    assert!(states.contains(&(&former["segment_id"], &json!(false))), "{states:?}");

    let former_id = former["segment_id"].as_str().unwrap();
    world.run(&["control-group", "activate", former_id, "--dry-run"]).await;
    assert_eq!(active().await, renewed);
    // A repeat changes nothing.
    for _ in 0..2 {
        world.run(&["control-group", "activate", former_id]).await;
        assert_eq!(active().await, former, "the same users with the same segment id");
    }
    let unknown = Uuid::new_v4().to_string();
    assert_eq!(world.status(&["control-group", "activate", &unknown]).await, Some(1));
    assert_eq!(world.status(&["control-group", "activate", "nope"]).await, Some(2));
}

async fn a_dry_run_of_an_erasure_erases_nobody(world: World) {
    let dry = world.run(&["users", "delete", "ann", "bob", "--dry-run"]).await;
    assert!(dry.contains("ann") && dry.contains("bob"), "{dry}");
    world.run(&["users", "show", "ann"]).await;
    let twice = world.objects(&["users", "delete", "ann", "ann", "--dry-run"]).await.remove(0);
    assert_eq!(twice["effects"].as_array().map(Vec::len), Some(1), "{twice}");
    let unknown = ["users", "delete", "ann", "nobody", "--dry-run"];
    assert_eq!(world.status(&unknown).await, Some(1), "one of them does not exist");
    world.run(&["users", "delete", "ann"]).await;
    assert_eq!(world.status(&["users", "show", "ann"]).await, Some(1));
}

async fn a_leaked_key_is_revoked_by_its_secret(world: World) {
    world.write("leaked", &format!("{SECRET}\n"));
    let revoke = ["key", "revoke", "--secret", "leaked"];
    let dry = world.run(&[&revoke[..], &["--dry-run"]].concat()).await;
    assert!(dry.contains("key app of acme"), "{dry}");
    assert_eq!(world.objects(&["key", "list"]).await[0]["revoked_at"], Value::Null);

    let revoked = world.objects(&revoke).await.remove(0);
    assert_eq!(revoked["revoked"], json!(["app"]));
    assert_eq!(revoked["credentials"][0]["workspace"], "acme", "{revoked}");
    let keys = world.objects(&["key", "list"]).await;
    assert!(keys[0]["revoked_at"].is_string(), "{keys:?}");

    // The list of revoked keys has who did it, and so has the audit log.
    let listed = world.objects(&["key", "list", "--revoked"]).await;
    assert_eq!((listed.len(), &listed[0]["name"]), (1, &json!("app")), "{listed:?}");
    let recorded = world.objects(&["audit", "list", "--action", "key.revoke"]).await;
    assert_eq!((recorded.len(), &recorded[0]["object"]), (1, &json!("app")), "{recorded:?}");
    assert_eq!(recorded[0]["workspace"], "acme");
    assert!(recorded[0]["actor"].as_str().is_some_and(|actor| actor.starts_with("command:")));
    assert_eq!(listed[0]["revoked_by"], recorded[0]["actor"]);
    let kept: Value = serde_json::from_str(&world.run(&["key", "revocations"]).await).unwrap();
    assert_eq!(kept["name"], "app");

    // A repeat changes nothing, and is no error.
    let again = world.objects(&revoke).await.remove(0);
    assert_eq!(again["revoked"], json!([]));
    assert_eq!(again["credentials"][0]["revoked_at"], keys[0]["revoked_at"], "{again}");

    // A secret that no key has may be incomplete: an error, also of a repeat. It can never become
    // one of a key.
    world.write("leaked", "another-secret-that-is-public");
    for _ in 0..2 {
        assert_eq!(world.status(&[&revoke[..], &["--dry-run"]].concat()).await, Some(1));
        assert_eq!(world.status(&revoke).await, Some(1));
    }
    for secret in [SECRET, "another-secret-that-is-public"] {
        let mut file = file(5);
        file["keys"] = json!([{ "name": "new", "secret": secret, "permissions": ["users.track"] }]);
        world.write("acme.yaml", &file.to_string());
        assert_eq!(world.status(&["apply", "acme.yaml"]).await, Some(1), "{secret}");
    }

    let stored = world.run(&["key", "revocations"]).await;
    world.write("leaked", "too-short");
    assert_eq!(world.status(&revoke).await, Some(1));
    let typed = ["key", "revoke", "--secret", "a-secret-in-place-of-a-file"];
    let output = world.output(&typed).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(!String::from_utf8_lossy(&output.stderr).contains(typed[3]), "{output:?}");
    assert_eq!(world.run(&["key", "revocations"]).await, stored, "nothing was stored");
}

async fn an_upgrade_is_checked_before(world: World) {
    let check = async || world.objects(&["migrate", "--check"]).await.remove(0);
    let now = check().await;
    assert_eq!((&now["schema"], &now["steps"]), (&now["own_schema"], &json!([])), "{now}");
    // As a database that the previous release migrated.
    let forget = "DELETE FROM _sqlx_migrations
                  WHERE version = (SELECT max(version) FROM _sqlx_migrations)";
    execute(&world.installation.app.config.database_url(), forget).await;
    for _ in 0..2 {
        let before = check().await;
        assert_eq!(before["steps"].as_array().map(Vec::len), Some(1), "{before}");
        assert_eq!(before["stops_older_programs"], false);
    }
    assert!(world.run(&["migrate", "--check"]).await.contains("longshore migrate"));
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_are_shown_with_their_origin() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(directory.path().join("longshore.toml"), "[worker]\nlease_ms = 20000\n")
        .unwrap();
    let mut command = process::command(directory.path(), &Default::default());
    command.env("LONGSHORE_LISTEN", "127.0.0.1:8090");
    command.env("LONGSHORE_DATABASE_URL", "sqlite:///secret-place/store.db");
    command.args(["config", "show", "--set", "--json"]);
    let output = process::output(command).await;
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains("secret-place"), "{text}");
    let mut origins: Vec<(String, String)> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|setting| {
            let text = |name: &str| setting[name].as_str().unwrap().to_owned();
            (text("name"), text("origin"))
        })
        .collect();
    origins.sort();
    let expected = [
        ("database.url", "environment"),
        ("gateway.listen", "environment"),
        ("worker.lease_ms", "file"),
    ];
    let expected = expected.map(|(name, origin)| (name.to_owned(), origin.to_owned()));
    assert_eq!(origins, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_settings_are_shown_among_the_others() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(directory.path().join("longshore.toml"), "[worker]\nlease_ms = \"soon\"\n")
        .unwrap();
    let mut command = process::command(directory.path(), &Default::default());
    command.args(["config", "show", "--json"]);
    let output = process::output(command).await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let settings: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let invalid = settings.iter().filter(|setting| setting["invalid"] == true);
    let names: Vec<&Value> = invalid.map(|setting| &setting["name"]).collect();
    assert_eq!(names, ["worker.lease_ms"]);
    assert!(settings.len() > 20, "{text}");
}

/// Shells run it at their start, in any folder.
#[tokio::test(flavor = "multi_thread")]
async fn completions_need_no_valid_settings() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(directory.path().join("longshore.toml"), "nonsense").unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let mut command = process::command(directory.path(), &Default::default());
        command.args(["completions", shell]);
        let output = process::output(command).await;
        assert!(output.status.success(), "{output:?}");
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(script.contains("control-group") && script.contains("send"), "{shell}");
    }
}
