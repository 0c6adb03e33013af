//! Suppressions that are newer than a restored backup.

use jiff::Timestamp;
use reqwest::Client;
use serde_json::{Value, json};

use super::restore::back_up;
use crate::support::fleet::{Backend, Fleet};
use crate::support::installation::Installation;
use crate::support::scripted_relay::{AcceptedEmail, ScriptedRelay};
use crate::support::stores::{TestStore, on_both_stores, on_pool};
use crate::support::workspace::WorkspaceFile;
use crate::support::{callbacks, eventually};

const GROUP: &str = "7d0c6f5e-4b1a-4e0f-9a55-2f6d1c3b8a90";
const SECRET: &str = "secret-of-the-events-of-the-relay";

/// The states that are known about an address, each with its reason.
async fn states(fleet: &Fleet, address: &str) -> Vec<(String, String)> {
    let checked = fleet.run(&["suppressions", "check", address, "--json"]).await;
    let checked: Value = serde_json::from_str(&checked).expect("JSON");
    let state = |state: &Value| {
        let text = |name: &str| state[name].as_str().expect("a text").to_owned();
        (text("reason"), text("state"))
    };
    checked["states"].as_array().expect("states").iter().map(state).collect()
}

fn known(reason: &str, state: &str) -> (String, String) {
    (reason.to_owned(), state.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_suppressed_after_a_backup_holds_after_its_restore() {
    let relay = ScriptedRelay::start(&[], []).await;
    let workspace = WorkspaceFile::new("acme").with_percent(None).permitted(&["messages.send"]);
    let email = json!({
        "smtp": relay.url("", ""), "from": "hello@acme.example", "events_secret": SECRET,
    });
    let app = "cccc0000-0000-4000-8000-000000000002";
    let apps = json!([{ "id": app, "name": "Acme", "platform": "ios" }]);
    let mut fleet = Fleet::start(Backend::Embedded, &[]).await;
    let workspace = workspace.with("email", email).with("apps", apps);
    let api = fleet.apply(&[workspace]).await.remove(0);
    let user = |id: &str| {
        json!({ "external_id": id, "email": format!("{id}@people.example") }).to_string()
    };
    fleet.import("acme", &[user("ann"), user("carl")]).await;
    // Before the workspace has a key.
    let folder = back_up(&fleet, "kept").await;

    let body = json!({ "external_user_ids": ["ann", "carl"], "messages": { "email": {
        "app_id": app, "from": "hello@acme.example", "subject": "Hi", "body": "<p>Hi</p>",
    } } });
    assert_eq!(api.post("/messages/send", &body).await.status, 201);
    eventually("the emails are there", || async { relay.accepted().len() == 2 }).await;
    let emails = relay.accepted();
    let to = |address: &str| {
        let is_to = |email: &&AcceptedEmail| email.to.iter().any(|to| to.contains(address));
        emails.iter().find(is_to).expect("an email")
    };
    let (email, bounced) = (to("ann@people.example"), to("carl@people.example"));
    let link = email.header("List-Unsubscribe").expect("a link");
    let (_, token) = link.trim_end_matches('>').rsplit_once('/').expect("a token");
    let events = json!({ "events": [
        { "type": "complained", "id": email.header("Message-ID").expect("an id") },
        { "type": "bounced", "id": bounced.header("Message-ID").expect("an id"), "code": "5.1.1" },
    ] });
    let (now, text) = (Timestamp::now().as_second().to_string(), events.to_string());
    let signature = callbacks::sign(SECRET.as_bytes(), "1", &now, text.as_bytes());
    let url = format!("{}/email/events?workspace=acme", fleet.base());
    let request = Client::new().post(url).header("content-type", "application/json");
    let request = request.header("webhook-id", "1").header("webhook-timestamp", now);
    let response = request.header("webhook-signature", signature).body(text).send().await;
    assert_eq!(response.expect("a response").status(), 200);
    fleet.run(&["suppressions", "add", "bob@people.example"]).await;
    fleet.run(&["suppressions", "add", "+1 555 0100", "--group", GROUP]).await;

    fleet.kill("standalone");
    let saved = fleet.run(&["suppressions", "save"]).await;
    assert!(!saved.contains("people.example") && !saved.contains("5550100"), "{saved}");
    let file = fleet.write_file("suppressions.jsonl", saved.as_bytes());
    let file = file.to_str().expect("UTF-8").to_owned();
    fleet.run(&["backup", "restore", folder.to_str().expect("UTF-8")]).await;
    assert_eq!(states(&fleet, "bob@people.example").await, []);
    for _ in 0..2 {
        let restored = fleet.run(&["suppressions", "restore", &file, "--json"]).await;
        let restored: Value = serde_json::from_str(&restored).expect("JSON");
        assert_eq!(restored, json!({ "workspaces": 1, "suppressions": 4 }));
    }
    fleet.launch("standalone").await;
    fleet.applied().await;
    let opt_out = || known("decision", "unsubscribed");
    assert_eq!(states(&fleet, "bob@people.example").await, [opt_out()]);
    assert_eq!(states(&fleet, "+15550100").await, [opt_out()]);
    let complaint = known("complaint", "suppressed");
    assert_eq!(states(&fleet, "ann@people.example").await, std::slice::from_ref(&complaint));
    let bounce = known("bounce", "suppressed");
    assert_eq!(states(&fleet, "carl@people.example").await, [bounce]);
    // A link in an email from before the restore.
    let link = format!("{}/email/unsubscribe/{token}", fleet.base());
    assert_eq!(Client::new().post(link).send().await.expect("a response").status(), 200);
    fleet.applied().await;
    let both = [opt_out(), complaint];
    eventually("the link works", || async { states(&fleet, "ann@people.example").await == both })
        .await;
    let audited = fleet.run(&["audit", "list", "--action", "suppressions.restore", "--json"]).await;
    assert_eq!(audited.lines().count(), 2, "{audited}");
    fleet.close().await;
}

on_both_stores!(World =>
    another_database_gets_all_that_a_file_has,
    a_file_that_is_not_whole_or_not_of_this_installation_changes_nothing,
);

/// Two databases with the same workspaces.
struct World {
    from: Installation,
    to: Installation,
}

const FILE: &str = "workspace: acme\n---\nworkspace: other\n";

impl World {
    async fn new(store: TestStore) -> Self {
        let other = match store.store.is_postgres() {
            true => TestStore::postgres().await,
            false => TestStore::sqlite().await,
        };
        let from = Installation::open(store, FILE, |_| {}).await;
        Self { from, to: Installation::open(other, FILE, |_| {}).await }
    }

    /// Many suppressions in two workspaces, and an opt-out of an earlier release.
    async fn suppress(&self) {
        let emails: Vec<String> = (0..1_500).map(|n| format!("u{n}@people.example")).collect();
        for emails in emails.chunks(500) {
            let emails: Vec<&str> = emails.iter().map(String::as_str).collect();
            let add = [&["suppressions", "add", "--workspace", "acme"][..], &emails].concat();
            self.from.printed(&add).await;
        }
        let add = ["suppressions", "add", "ann@people.example", "--workspace", "other"];
        self.from.printed(&add).await;
        let sql = "INSERT INTO unsubscribed_emails (workspace_id, who, decided_at)
                   SELECT workspace_id, who, 7 FROM suppressions WHERE decided_at > 0
                   ORDER BY who LIMIT 1";
        let store = &self.from.app.store;
        on_pool!(store, pool => sqlx::query(sql).execute(pool).await.map(drop)).unwrap();
    }

    fn write(&self, lines: &[String]) -> String {
        let file = self.to.store.config.data.join("suppressions.jsonl");
        std::fs::write(&file, lines.concat()).unwrap();
        file.to_str().unwrap().to_owned()
    }
}

async fn save(installation: &Installation) -> Vec<String> {
    let lines = installation.printed(&["suppressions", "save"]).await;
    lines.into_iter().map(|line| line + "\n").collect()
}

async fn another_database_gets_all_that_a_file_has(world: World) {
    world.suppress().await;
    let saved = save(&world.from).await;
    // Two workspaces, what is known in them, and the end.
    assert_eq!(saved.len(), 2 + 1_502 + 1);
    let file = world.write(&saved);
    for _ in 0..2 {
        world.to.printed(&["suppressions", "restore", &file]).await;
        assert!(save(&world.to).await == saved, "other suppressions");
    }
    // A later decision holds.
    let lift = ["suppressions", "lift", "u7@people.example", "--workspace", "acme"];
    world.to.printed(&lift).await;
    world.to.printed(&["suppressions", "restore", &file]).await;
    let check = ["suppressions", "check", "u7@people.example", "--workspace", "acme", "--json"];
    let checked: Value = serde_json::from_str(&world.to.printed(&check).await[0]).unwrap();
    assert_eq!(checked["suppressed"], false, "{checked}");
    let of_one = world.from.printed(&["suppressions", "save", "--workspace", "other"]).await;
    assert!((3..=4).contains(&of_one.len()), "{of_one:?}");
}

async fn a_file_that_is_not_whole_or_not_of_this_installation_changes_nothing(world: World) {
    world.suppress().await;
    let saved = save(&world.from).await;
    let last = saved.len() - 1;
    let with = |at: usize, change: &dyn Fn(&mut Vec<String>)| {
        let mut lines = saved.clone();
        change(&mut lines);
        (lines, at + 1)
    };
    let mut files = vec![
        with(last, &|lines| drop(lines.pop())),
        with(last, &|lines| lines[last] = lines[last].trim_end().to_owned()),
        with(last - 1, &|lines| drop(lines.remove(5))),
        with(1_400, &|lines| lines[1_400].insert(1, '"')),
        with(1_400, &|lines| lines[1_400] = lines[1_400].replace("\"scope\"", "\"until\"")),
        with(1_400, &|lines| lines[1_400] = lines[1_400].replace("unsubscribed", "unknown")),
        with(last + 1, &|lines| lines.push("{}\n".to_owned())),
        with(0, &|lines| lines[0] = lines[0].replace("acme", "unknown")),
        with(0, &|lines| drop(lines.remove(0))),
        (vec!["ann@people.example\n".to_owned()], 1),
        (Vec::new(), 1),
    ];
    let none = save(&world.to).await;
    let refused = async |lines: &[String], number: usize| {
        let file = world.write(lines);
        let output = world.to.run(&["suppressions", "restore", &file]).await;
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(&format!("line {number}:")), "{error}");
    };
    for (lines, number) in &files {
        refused(lines, *number).await;
        assert_eq!(save(&world.to).await, none);
    }
    // Another key, and suppressions with it.
    let add = ["suppressions", "add", "ann@people.example", "--workspace", "acme"];
    world.to.printed(&add).await;
    let own = save(&world.to).await;
    files.clear();
    refused(&saved, 1).await;
    assert_eq!(save(&world.to).await, own);
}
