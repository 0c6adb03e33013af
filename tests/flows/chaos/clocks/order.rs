//! Changes are ordered by the log, whatever the clocks of the processes that receive them.

use std::time::Duration;

use super::*;
use crate::support::process;

/// Processes of which some have a clock that can be set.
struct World {
    fleet: Fleet,
    clocks: Clocks,
    herd: Herd,
    right: Api,
    /// Of the gateway whose clock can be set.
    wrong: Api,
}

impl World {
    /// Two gateways, of which the clock of one can be set, and a worker unless it is added later.
    async fn two_gateways(has_worker: bool) -> Self {
        let mut world = Self::new(Backend::Fleet(0)).await;
        let listen = free_port();
        let mut variables = world.clocks.variables("wrong").to_vec();
        variables.push(("LONGSHORE_LISTEN", format!("127.0.0.1:{listen}")));
        world.herd.add("wrong", &["gateway"], &variables);
        world.herd.add("right", &["gateway"], &[]);
        if has_worker {
            world.herd.add("worker", &["worker"], &[]);
        }
        world.herd.all_ready().await;
        world.wrong = Api::new(&format!("http://127.0.0.1:{listen}"), world.right.key());
        world
    }

    /// One process that receives everything, and whose clock can be set.
    async fn one(backend: Backend) -> Self {
        let mut world = Self::new(backend).await;
        let variables = world.clocks.variables("wrong");
        match backend {
            Backend::Embedded => world.herd.add("wrong", &["standalone"], &variables),
            Backend::Fleet(_) => {
                world.herd.add("wrong", &["gateway"], &variables);
                world.herd.add("worker", &["worker"], &[]);
            }
        }
        world.herd.all_ready().await;
        world
    }

    async fn new(backend: Backend) -> Self {
        let fleet = Fleet::prepare(backend, &[], |_| {}).await;
        let permissions = [
            "users.track",
            "users.delete",
            "users.external_ids.rename",
            "users.export.ids",
            "email.status",
        ];
        let workspace = WorkspaceFile::new("acme").permitted(&permissions);
        let right = fleet.apply(&[workspace]).await.remove(0);
        let (clocks, herd) = (Clocks::build(fleet.directory()), Herd::new(&fleet));
        let wrong = Api::new(fleet.base(), right.key());
        Self { fleet, clocks, herd, right, wrong }
    }

    /// Sends a request to a process whose clock is so many seconds ahead.
    async fn post(&self, seconds: i64, path: &str, body: &Value) {
        self.clocks.set("wrong", seconds);
        let is_right = seconds == 0 && self.herd.names().contains(&"right".to_owned());
        let api = if is_right { &self.right } else { &self.wrong };
        let answer = api.post(path, body).await;
        assert_eq!(answer.status, 201, "{path} {seconds} s ahead: {answer:?}");
    }

    async fn track(&self, seconds: i64, user: &str, fields: Value) {
        let mut attributes = fields;
        attributes["external_id"] = user.into();
        self.post(seconds, "/users/track", &json!({ "attributes": [attributes] })).await;
    }

    async fn buy(&self, seconds: i64, user: &str) {
        let purchase = json!({
            "external_id": user, "product_id": "tea", "currency": "EUR", "price": 1,
            "time": kit::clock::format_time(Timestamp::now().as_millisecond() - 86_400_000),
        });
        self.post(seconds, "/users/track", &json!({ "purchases": [purchase] })).await;
    }

    async fn decide_email(&self, seconds: i64, email: &str, state: &str) {
        let body = json!({ "email": email, "subscription_state": state });
        self.post(seconds, "/email/status", &body).await;
    }

    async fn delete(&self, seconds: i64, user: &str) {
        self.post(seconds, "/users/delete", &json!({ "external_ids": [user] })).await;
    }

    async fn rename(&self, seconds: i64, from: &str, to: &str) {
        let rename = json!({ "current_external_id": from, "new_external_id": to });
        let body = json!({ "external_id_renames": [rename] });
        self.post(seconds, "/users/external_ids/rename", &body).await;
    }

    /// The user with an external id, once everything is applied.
    async fn user(&self, id: &str) -> Value {
        let shown = self.fleet.run(&["users", "show", id, "--json"]).await;
        serde_json::from_str(&shown).expect("JSON")
    }

    async fn end(self) {
        for name in self.herd.names() {
            self.clocks.set("wrong", 0);
            self.herd.terminate(&name).await;
        }
    }
}

/// Every kind of change whose order matters: the first one with a clock, the second one with
/// another.
async fn changes_are_ordered(world: &World) {
    let hours = 2 * 3_600;
    let clocks = [(hours, 0), (0, -hours), (-hours, 0), (0, hours)];
    for (round, (first, second)) in clocks.into_iter().enumerate() {
        let name = |name: &str| format!("{name}{round}");
        let (out, back) = (name("out"), name("back"));
        let email = |user: &str| format!("{user}@acme.example");
        for user in [&out, &back] {
            world.track(0, user, json!({ "email": email(user) })).await;
        }
        let states = |state: &str| json!({ "email_subscribe": state, "push_subscribe": state });
        world.track(first, &out, states("opted_in")).await;
        world.decide_email(first, &email(&out), "opted_in").await;
        world.decide_email(second, &email(&out), "unsubscribed").await;
        world.track(second, &out, states("unsubscribed")).await;
        world.track(first, &back, states("unsubscribed")).await;
        world.decide_email(first, &email(&back), "unsubscribed").await;
        world.decide_email(second, &email(&back), "opted_in").await;
        world.track(second, &back, states("opted_in")).await;

        // Deleted, and then another user with that id.
        world.track(0, &name("gone"), json!({ "former": true })).await;
        world.delete(first, &name("gone")).await;
        world.track(second, &name("gone"), json!({ "first_name": "New" })).await;
        world.buy(second, &name("gone")).await;

        // Deleted, and then another user gets that id.
        world.track(0, &name("free"), json!({ "former": true })).await;
        world.track(0, &name("renamed"), json!({ "first_name": "Ann" })).await;
        world.delete(first, &name("free")).await;
        world.rename(second, &name("renamed"), &name("free")).await;

        // The id of a user who exists.
        world.track(first, &name("x"), json!({ "first_name": "X" })).await;
        world.track(first, &name("y"), json!({ "first_name": "Y" })).await;
        world.rename(second, &name("y"), &name("x")).await;
    }
    world.clocks.set("wrong", 0);
    world.fleet.applied().await;
    for (round, seconds) in clocks.into_iter().enumerate() {
        let user = async |name: &str| world.user(&format!("{name}{round}")).await;
        let out = user("out").await;
        for field in ["email_subscribe", "push_subscribe"] {
            assert_eq!(out[field], "unsubscribed", "{seconds:?}: {out}");
            let back = user("back").await;
            assert_eq!(back[field], "opted_in", "{seconds:?}: {back}");
        }
        let gone = user("gone").await;
        assert_eq!(gone["first_name"], "New", "{seconds:?}: {gone}");
        assert_eq!(gone["purchases"][0]["count"], 1, "{seconds:?}: {gone}");
        assert!(gone["custom_attributes"]["former"].is_null(), "{seconds:?}: {gone}");
        let free = user("free").await;
        assert_eq!(free["first_name"], "Ann", "{seconds:?}: {free}");
        assert!(free["custom_attributes"]["former"].is_null(), "{seconds:?}: {free}");
        let (x, y) = (user("x").await, user("y").await);
        assert_eq!(x["first_name"], "X", "{seconds:?}: {x}");
        assert_eq!(y["first_name"], "Y", "{seconds:?}: {y}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_with_a_wrong_clock_changes_no_order() {
    let world = World::two_gateways(true).await;
    changes_are_ordered(&world).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_whose_clock_is_set_keeps_the_order() {
    let world = World::one(Backend::Fleet(0)).await;
    changes_are_ordered(&world).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_process_whose_clock_is_set_keeps_the_order() {
    let world = World::one(Backend::Embedded).await;
    changes_are_ordered(&world).await;
    world.end().await;
}

/// Applied when both decisions are in the past for every clock.
#[tokio::test(flavor = "multi_thread")]
async fn decisions_that_wait_for_a_worker_keep_their_order() {
    let mut world = World::two_gateways(false).await;
    world.track(3, "ann", json!({ "push_subscribe": "opted_in" })).await;
    world.track(0, "ann", json!({ "push_subscribe": "unsubscribed" })).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    world.herd.add("worker", &["worker"], &[]);
    world.herd.ready("worker").await;
    world.fleet.applied().await;
    let ann = world.user("ann").await;
    assert_eq!(ann["push_subscribe"], "unsubscribed", "{ann}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn imports_on_a_machine_with_a_wrong_clock_keep_the_order() {
    let mut world = World::two_gateways(true).await;
    for (user, hours) in [("behind", -2), ("ahead", 2)] {
        world.track(0, user, json!({ "push_subscribe": "opted_in" })).await;
        world.fleet.applied().await;
        let record = json!({ "external_id": user, "push_subscribe": "unsubscribed" });
        let file = world.fleet.write_file("users.jsonl", format!("{record}\n").as_bytes());
        let mut environment = world.fleet.environment().clone();
        let variables = world.clocks.variables(user).into_iter();
        environment.extend(variables.map(|(name, value)| (name.to_owned(), value)));
        world.clocks.set(user, hours * 3_600);
        let mut command = process::command(world.fleet.directory(), &environment);
        command.arg("import").arg(file).args(["--workspace", "acme"]);
        let output = process::output(command).await;
        assert!(output.status.success(), "{output:?}");
        let imported = world.user(user).await;
        assert_eq!(imported["push_subscribe"], "unsubscribed", "{hours} h: {imported}");
        world.track(0, user, json!({ "push_subscribe": "opted_in" })).await;
        world.fleet.applied().await;
        let again = world.user(user).await;
        assert_eq!(again["push_subscribe"], "opted_in", "{hours} h: {again}");
    }
    world.end().await;
}
