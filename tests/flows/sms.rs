//! Invalid phone numbers: put on the list by the operator, taken off it by the API; on SQLite
//! and on PostgreSQL.

use serde_json::{Value, json};

use crate::support::installation::Installation;
use crate::support::local_api::LocalApi;
use crate::support::stores::{TestStore, on_both_stores};

on_both_stores!(World =>
    numbers_are_listed_and_removed_by_the_api,
    a_request_with_a_bad_number_removes_nothing,
    a_list_longer_than_a_page_is_whole,
);

const KEY: &str = "key-that-may-remove-numbers";
const OTHER_KEY: &str = "key-of-the-other-workspace";
const REMOVE: &str = "/sms/invalid_phone_numbers/remove";

struct World {
    installation: Installation,
    api: LocalApi,
}

impl World {
    async fn new(store: TestStore) -> Self {
        let workspace = |name: &str, secret: &str| {
            let permissions = ["sms.invalid_phone_numbers.remove"];
            let key = json!({ "name": "k", "secret": secret, "permissions": permissions });
            json!({ "workspace": name, "keys": [key] }).to_string()
        };
        let file = [workspace("acme", KEY), workspace("other", OTHER_KEY)].join("\n---\n");
        let installation = Installation::open(store, &file, |_| {}).await;
        Self { api: LocalApi::new(&installation.app, KEY), installation }
    }

    /// Puts lines on the list of a workspace.
    async fn add(&self, workspace: &str, lines: &str) -> std::process::Output {
        let file = self.installation.store.config.data.join("numbers.txt");
        std::fs::write(&file, lines).unwrap();
        let file = file.to_str().unwrap();
        let arguments = ["invalid-numbers", "add", file, "--workspace", workspace, "--json"];
        self.installation.run(&arguments).await
    }

    async fn listed(&self, workspace: &str) -> Vec<String> {
        let list = ["invalid-numbers", "list", "--workspace", workspace, "--json"];
        let lines = self.installation.printed(&[&list[..], &["--limit", "5000"]].concat()).await;
        let lines = lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.map(|line| line["number"].as_str().unwrap().to_owned()).collect()
    }
}

fn printed(output: &std::process::Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

async fn numbers_are_listed_and_removed_by_the_api(world: World) {
    let output = world.add("acme", "+1 (555) 01-01\n001.555.0100\n\nabc\n+15550102\n").await;
    assert!(!output.status.success());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("numbers.txt:4: \"abc\" is not a valid phone number"), "{error}");
    assert_eq!(printed(&output), json!({ "added": 3, "already_there": 0, "bad": 1 }));
    let output = world.add("acme", "+15550101\n+15550103\n").await;
    assert!(output.status.success());
    assert_eq!(printed(&output), json!({ "added": 1, "already_there": 1, "bad": 0 }));
    world.add("other", "+15550100\n").await;
    let all = ["+15550100", "+15550101", "+15550102", "+15550103"];
    assert_eq!(world.listed("acme").await, all);

    // One with its plus, one without, one twice, and one that is not on the list.
    let numbers =
        json!({ "phone_numbers": ["+1/5550100", "15550102", "+15550102", "+4930000000"] });
    let success = (201, json!({ "message": "success" }));
    assert_eq!(world.api.post(REMOVE, &numbers).await, success);
    assert_eq!(world.listed("acme").await, ["+15550101", "+15550103"]);
    assert_eq!(world.listed("other").await, ["+15550100"]);

    // Under a key a repeat does nothing, whatever has been added since.
    let number = json!({ "phone_numbers": ["+15550101"] });
    assert_eq!(world.api.post_once(REMOVE, "k", &number).await, success);
    world.add("acme", "+15550101\n").await;
    assert_eq!(world.api.post_once(REMOVE, "k", &number).await, success);
    assert_eq!(world.listed("acme").await, ["+15550101", "+15550103"]);
    assert_eq!(world.api.post_once(REMOVE, "k", &numbers).await.0, 422);

    let arguments = ["invalid-numbers", "remove", "1 555-0101", "+15550109", "--workspace", "acme"];
    assert_eq!(world.installation.printed(&arguments).await, ["1 number removed"]);
    assert_eq!(world.listed("acme").await, ["+15550103"]);
    let arguments = ["invalid-numbers", "remove", "555", "--workspace", "acme"];
    assert_eq!(world.installation.run(&arguments).await.status.code(), Some(2));
}

async fn a_request_with_a_bad_number_removes_nothing(world: World) {
    world.add("acme", "+15550100\n").await;
    for (numbers, named) in [
        (json!(["+15550100", "555"]), "phone_numbers[1]: \"555\" is not a valid phone number"),
        (json!(["+15550100", 5]), "phone_numbers[1] must be a string"),
        (json!([]), "phone_numbers must have 1 to 50 elements"),
        (json!(vec!["+15550100"; 51]), "phone_numbers must have 1 to 50 elements"),
        (json!("+15550100"), "phone_numbers must be an array"),
        (json!(null), "phone_numbers is required"),
    ] {
        let body = json!({ "phone_numbers": numbers, "phone_number": ["+15550100"] });
        let text = world.api.refusal(REMOVE, &body, 400).await;
        assert!(text.starts_with(named), "{text}");
    }
    assert_eq!(world.listed("acme").await, ["+15550100"]);
}

async fn a_list_longer_than_a_page_is_whole(world: World) {
    let numbers: Vec<String> = (0..2_345).map(|number| format!("+1555{number:07}")).collect();
    let output = world.add("acme", &numbers.join("\n")).await;
    assert_eq!(printed(&output), json!({ "added": 2_345, "already_there": 0, "bad": 0 }));
    assert_eq!(world.listed("acme").await, numbers);
}
