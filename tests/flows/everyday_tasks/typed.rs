//! docs/how-to/everyday-tasks.md, typed as it stands on a running installation: each task by its
//! commands and by its requests, in the order of the page. A new task of the page needs checks in
//! [`checks`].

mod checks;

use std::collections::{BTreeMap, BTreeSet};

use regex::{Captures, Regex};
use serde_json::{Value, json};

use crate::messages::sending::{message, slow};
use crate::support::files::{project, read};
use crate::support::fleet::{Backend, Fleet};
use crate::support::process::{self, BINARY};
use crate::support::receiver::{Receiver, ScriptedResponse};
use crate::support::{Api, WorkspaceFile, eventually};

const CAMPAIGN: &str = "3c9f0a52-8f1e-4c57-9a3e-0d5b1c2e7f60";
const SEGMENT: &str = "5c9f0a52-8f1e-4c57-9a3e-0d5b1c2e7f61";

/// Users of the segment, Ann among them.
const USERS: usize = 1_501;

/// The permissions that the requests of the page need, and the sends of the test.
const PERMISSIONS: [&str; 16] = [
    "campaigns.details",
    "campaigns.statistics",
    "templates.preview",
    "users.export.ids",
    "users.messages",
    "messages.send",
    "campaigns.trigger.send",
    "messages.dispatches.recipients",
    "messages.dispatches.list",
    "messages.dispatches.get",
    "messages.dispatches.cancel",
    "messages.dispatches.send",
    "segments.list",
    "segments.size",
    "segments.sample",
    "users.export.segment",
];

/// A row of a table of the page, and the lines below the table that it refers to.
struct Task {
    name: String,
    commands: Vec<String>,
    requests: Vec<String>,
}

fn code_spans(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

fn first_block(text: &str) -> &str {
    let block = text.split_once("```sh\n").and_then(|(_, rest)| rest.split_once("```"));
    block.map_or("", |(block, _)| block)
}

/// How a table names a line: its method and path, or `url` for a download.
fn operation(line: &str) -> String {
    let Some(request) = line.strip_prefix("api ") else { return "url".into() };
    let words: Vec<&str> = request.split(' ').collect();
    let path = words[1].trim_matches(['\'', '"']).split('?').next().unwrap_or_default();
    format!("{} {path}", words[0])
}

fn tasks_in(section: &str) -> Vec<Task> {
    let lines: Vec<&str> = first_block(section).lines().collect();
    let is_task = |line: &&str| line.starts_with("| ") && !line.starts_with("| Task ");
    let tasks: Vec<Task> = (section.lines().filter(is_task))
        .map(|row| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let commands = code_spans(cells[2]).into_iter().map(str::to_owned).collect();
            let mut requests = Vec::new();
            for name in code_spans(cells[3]) {
                let name = name.split('?').next().unwrap_or_default();
                let named = lines.iter().filter(|line| operation(line) == name);
                let before = requests.len();
                requests.extend(named.map(|line| (*line).to_owned()));
                assert!(requests.len() > before, "no line of {}: {name}", cells[1]);
            }
            Task { name: cells[1].to_owned(), commands, requests }
        })
        .collect();
    let typed: usize = tasks.iter().map(|task| task.requests.len()).sum();
    assert_eq!(typed, lines.len(), "a line belongs to no task: {lines:?}");
    tasks
}

/// An installation with a campaign and a segment, in which two sends have ended: one to Ann, and
/// one to somebody else.
struct World {
    fleet: Fleet,
    api: Api,
    receiver: Receiver,
    /// The function of the shell that sends requests, as the page defines it.
    function: String,
    /// What the names in capitals on the page are replaced with.
    names: BTreeMap<&'static str, String>,
    /// The id of the send to Ann.
    to_ann: String,
}

fn workspace() -> WorkspaceFile {
    let berlin = json!({ "custom_attribute": {
        "custom_attribute_name": "city", "comparison": "equals", "value": "Berlin" } });
    let welcome = json!({ "webhook": {
        "url": "https://hooks.acme.example/welcome", "request_method": "POST",
        "body": "Hi {{${first_name}}}" } });
    WorkspaceFile::new("acme")
        .with_percent(Some(5))
        .permitted(&PERMISSIONS)
        .with("segments", json!([{ "id": SEGMENT, "name": "Berlin", "audience": berlin }]))
        .with(
            "campaigns",
            json!([{ "id": CAMPAIGN, "name": "Welcome", "type": "api", "messages": welcome }]),
        )
}

fn users() -> Vec<String> {
    let ann = json!({
        "external_id": "ann", "email": "ann@acme.example", "first_name": "Ann",
        "phone": "+4915112345678", "custom_attributes": { "city": "Berlin" },
    });
    let cid = json!({ "external_id": "cid", "custom_attributes": { "city": "Oslo" } });
    let others = (1..USERS).map(|number| {
        json!({ "external_id": format!("u{number}"), "custom_attributes": { "city": "Berlin" } })
    });
    [ann, cid].into_iter().chain(others).map(|user| user.to_string()).collect()
}

impl World {
    async fn start(page: &str) -> Self {
        // Small batches, so that a send under way already has outcomes.
        let settings = [("LONGSHORE_MESSAGES__BATCH_USERS", "6".to_owned())];
        let fleet = Fleet::start(Backend::Embedded, &settings).await;
        let api = fleet.apply(&[workspace()]).await.remove(0);
        fleet.import("acme", &users()).await;
        let receiver = Receiver::start([]).await;
        let names = BTreeMap::from([("CAMPAIGN", CAMPAIGN.into()), ("SEGMENT", SEGMENT.into())]);
        let function = first_block(page).to_owned();
        assert!(function.starts_with("api()"), "{function}");
        let mut world = Self { fleet, api, receiver, function, names, to_ann: String::new() };
        world.to_ann = world.send("hello", json!({ "external_user_ids": ["ann"] })).await;
        let to_cid = world.send("hello", json!({ "external_user_ids": ["cid"] })).await;
        for id in [&world.to_ann, &to_cid] {
            world.wait_until_done(id).await;
        }
        world.names.insert("SEND", to_cid);
        world
    }

    /// Sends a text of the campaign; returns the dispatch_id.
    async fn send(&self, text: &str, audience: Value) -> String {
        let mut body = audience;
        body["campaign_id"] = CAMPAIGN.into();
        body["messages"] = message(&self.receiver, text);
        let sent = self.api.post("/messages/send", &body).await;
        assert_eq!(sent.status, 201, "{sent:?}");
        sent.body["dispatch_id"].as_str().expect("a dispatch_id").to_owned()
    }

    async fn wait_until_done(&self, dispatch: &str) {
        eventually("the send is done", || async {
            let found = self.api.get(&format!("/messages/dispatches/{dispatch}")).await;
            found.body["state"] == "done"
        })
        .await;
    }

    /// Begins a send to the segment, which takes minutes unless it is cancelled, and waits until
    /// some of its messages have arrived.
    async fn begin_wrong_send(&mut self) {
        self.receiver.script((0..12).map(|_| ScriptedResponse::Status(200)));
        for _ in 0..2 {
            self.receiver.script(slow(2_000));
        }
        let to_segment = json!({ "broadcast": true, "segment_id": SEGMENT });
        let wrong = self.send("wrong", to_segment).await;
        let path = format!("/messages/dispatches/{wrong}/recipients?outcome=sent");
        eventually("it has recipients", || async {
            let page = self.api.get(&path).await;
            page.body["recipients"].as_array().is_some_and(|recipients| !recipients.is_empty())
        })
        .await;
        self.names.insert("SEND", wrong);
    }

    /// The users that got a text, each as often as there were messages with other ids.
    fn users_with(&self, text: &str) -> Vec<String> {
        let received = self.receiver.received();
        let messages: BTreeSet<(String, String)> = received
            .iter()
            .filter_map(|request| {
                let body: Value = serde_json::from_slice(&request.body).expect("JSON");
                let user = body["user"].as_str().expect("a user").to_owned();
                (body["text"] == text).then(|| (user, request.header("webhook-id").to_owned()))
            })
            .collect();
        messages.into_iter().map(|(user, _)| user).collect()
    }

    /// Types a line of the page, which must succeed; returns what it printed.
    async fn typed(&self, line: &str) -> String {
        let names = Regex::new(r"\b(SEND|EXPORT|CAMPAIGN|SEGMENT|NAME|FOLDER|URL)\b").unwrap();
        let line = names.replace_all(line, |found: &Captures<'_>| self.names[&found[1]].clone());
        let function = &self.function;
        let script =
            format!("set -euo pipefail\nlongshore() {{ '{BINARY}' \"$@\"; }}\n{function}\n{line}");
        let (directory, environment) = (self.fleet.directory(), self.fleet.environment());
        let mut command = process::program("bash", directory, environment);
        command.args(["-c", &script]).env("no_proxy", "*");
        // Without a key, the other commands use the database, for all workspaces.
        let with_key = ["api ", "longshore export run ", "longshore export download "];
        if with_key.iter().any(|beginning| line.starts_with(beginning)) {
            command.env("LONGSHORE_URL", self.fleet.base()).env("LONGSHORE_KEY", self.api.key());
        }
        let output = process::output(command).await;
        let printed = String::from_utf8(output.stdout).expect("UTF-8");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {}\n{printed}\n{error}", output.status);
        printed
    }

    /// Types a command with `--json`; returns the objects that it printed.
    async fn objects(&self, command: &str) -> Vec<Value> {
        let printed = self.typed(&format!("{command} --json")).await;
        printed.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }

    /// The same of a command that prints one object.
    async fn object(&self, command: &str) -> Value {
        let mut objects = self.objects(command).await;
        assert_eq!(objects.len(), 1, "{command}: {objects:?}");
        objects.remove(0)
    }

    /// Types a request; returns the body of the response.
    async fn request(&self, line: &str) -> Value {
        let printed = self.typed(line).await;
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{line}: {error}: {printed}"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_task_of_the_page_works_as_it_is_typed() {
    let page = read(project("docs/how-to/everyday-tasks.md"));
    let tasks: Vec<Task> = page.split("\n## ").skip(1).flat_map(tasks_in).collect();
    let names: BTreeSet<&str> = tasks.iter().map(|task| &*task.name).collect();
    assert_eq!((tasks.len(), names.len()), (21, 21), "{names:?}");
    let mut world = World::start(&page).await;
    for task in &tasks {
        checks::check(&mut world, task).await;
    }
    world.fleet.close().await;
}
