//! Ingestion, erasure and import at the same names at the same time, on PostgreSQL: one of them
//! sleeps at a fail point while another works, each in its turn.

use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sqlx::PgPool;
use tokio::task::JoinHandle;

use crate::support::fleet::{Backend, Fleet};
use crate::support::process::{self, Process};
use crate::support::{Api, WorkspaceFile, eventually, stores};

/// A gateway, and a worker that each test starts.
struct Scene {
    fleet: Fleet,
    api: Api,
}

impl Scene {
    async fn new() -> Self {
        let mut fleet = Fleet::prepare(Backend::Fleet(1), &[], |_| {}).await;
        let api = fleet.apply(&[WorkspaceFile::new("acme")]).await.remove(0);
        fleet.launch("gateway").await;
        Self { fleet, api }
    }

    /// Starts a worker that sleeps at `point`, and has it accept what `user` bought.
    async fn ingestion_sleeps(&mut self, point: &str, user: &Value) {
        let failpoints = format!("{point}=stop");
        self.fleet.launch_with("worker-1", &[("FAILPOINTS", failpoints.as_str())]).await;
        let mut purchase = json!({
            "product_id": "tea", "currency": "USD", "price": 2.5,
            "time": jiff::Timestamp::now().to_string(),
        });
        let members = purchase.as_object_mut().expect("an object");
        members.extend(user.as_object().expect("an object").clone());
        let answer = self.api.post("/users/track", &json!({ "purchases": [purchase] })).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        eventually("the worker sleeps", || async { self.fleet.is_stopped("worker-1") }).await;
    }

    /// Lets the worker continue to the end of what there is.
    async fn ingestion_ends(&mut self) {
        self.fleet.resume("worker-1");
        self.fleet.applied().await;
        self.fleet.terminate("worker-1").await;
    }

    /// Starts an erasure that continues by itself.
    fn erases(&self, id: &str) -> JoinHandle<Output> {
        let (operator, id) = (self.fleet.operator(), id.to_owned());
        tokio::spawn(async move { operator.command(&["users", "delete", id.as_str()]).await })
    }

    /// Starts an erasure that sleeps at `point`.
    async fn erasure_sleeps(&self, point: &str, id: &str) -> Process {
        let mut command = process::command(self.fleet.directory(), self.fleet.environment());
        command.args(["users", "delete", id]).env("FAILPOINTS", format!("{point}=stop"));
        let erasure = Process::start("erasure", self.fleet.directory(), command);
        eventually("the erasure sleeps", || async { erasure.status("State").starts_with('T') })
            .await;
        erasure
    }

    /// Starts an import of a record.
    fn imports(&self, record: &Value) -> JoinHandle<Output> {
        let file = self.fleet.write_file("record.ndjson", record.to_string().as_bytes());
        let (operator, file) = (self.fleet.operator(), file.display().to_string());
        tokio::spawn(async move { operator.command(&["import", file.as_str()]).await })
    }

    async fn count(&self, sql: &'static str) -> i64 {
        stores::count(&self.fleet.database_url(), sql).await
    }

    async fn a_session_waits(&self) {
        let pool = PgPool::connect(&self.fleet.database_url()).await.expect("PostgreSQL answers");
        stores::wait_until_blocked(&pool).await;
        pool.close().await;
    }

    async fn users(&self) -> i64 {
        assert_eq!(self.count("SELECT count(*) FROM identifiers WHERE kind = 3").await, 0);
        self.count("SELECT count(*) FROM users").await
    }

    async fn bought(&self, id: &str) -> Value {
        let user = self.fleet.run(&["users", "show", id, "--json"]).await;
        let user: Value = serde_json::from_str(&user).expect("JSON");
        user["purchases"][0]["count"].clone()
    }

    async fn service_id(&self, id: &str) -> Value {
        let user = self.fleet.run(&["users", "show", id, "--json"]).await;
        serde_json::from_str::<Value>(&user).expect("JSON")["service_id"].clone()
    }
}

/// Lets a process continue to its end.
async fn goes_on(mut process: Process) {
    process.signal("CONT");
    let since = Instant::now();
    while process.is_running() {
        assert!(since.elapsed() < Duration::from_secs(60), "{}", process.tail());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn ann() -> [(Value, &'static str, &'static str); 2] {
    [
        (json!({ "external_id": "ann" }), "ann", "tracking::looked"),
        (json!({ "email": "Ann@acme.example" }), "ann@acme.example", "tracking::looked_for_emails"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn ingestion_does_not_create_an_erased_user() {
    let mut scene = Scene::new().await;
    for (user, id, looked) in ann() {
        scene.ingestion_sleeps(looked, &user).await;
        let output = scene.erases(id).await.expect("the command runs");
        assert!(!output.status.success(), "nobody is there yet: {output:?}");
        scene.ingestion_ends().await;
        assert_eq!(scene.users().await, 0, "{id} is there after the erasure");
    }
    scene.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn erasure_waits_for_ingestion_that_creates_the_user() {
    let mut scene = Scene::new().await;
    for (user, id, _) in ann() {
        scene.ingestion_sleeps("tracking::named", &user).await;
        let erasure = scene.erases(id);
        scene.a_session_waits().await;
        scene.ingestion_ends().await;
        let output = erasure.await.expect("the command runs");
        assert!(output.status.success(), "{output:?}");
        assert_eq!(scene.users().await, 0, "{id} is there after the erasure");
    }
    scene.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ingestion_waits_for_an_erasure_under_way() {
    let mut scene = Scene::new().await;
    for (user, id, looked) in ann() {
        scene.ingestion_sleeps(looked, &user).await;
        let erasure = scene.erasure_sleeps("erase::written", id).await;
        scene.fleet.resume("worker-1");
        scene.a_session_waits().await;
        goes_on(erasure).await;
        scene.ingestion_ends().await;
        assert_eq!(scene.users().await, 0, "{id} is there after the erasure");
    }
    scene.fleet.close().await;
}

/// An import gives a user another external id, or their first: ingestion finds them by it.
#[tokio::test(flavor = "multi_thread")]
async fn ingestion_finds_renamed_and_merged_users() {
    let mut scene = Scene::new().await;
    let alias = json!([{ "alias_name": "7", "alias_label": "crm" }]);
    scene.fleet.import("acme", &[json!({ "external_id": "ann" }).to_string()]).await;
    scene.fleet.import("acme", &[json!({ "user_aliases": alias }).to_string()]).await;
    let renamed = json!({ "service_id": scene.service_id("ann").await, "external_id": "anna" });
    let merged = json!({ "user_aliases": alias, "external_id": "ben" });
    for (record, id) in [(renamed, "anna"), (merged, "ben")] {
        let user = json!({ "external_id": id });
        scene.ingestion_sleeps("tracking::looked", &user).await;
        let output = scene.imports(&record).await.expect("the command runs");
        assert!(output.status.success(), "{output:?}");
        scene.ingestion_ends().await;
        assert_eq!((scene.users().await, scene.bought(id).await), (2, json!(1)), "{id}");
    }

    // The other way round the name is taken.
    let renamed = json!({ "service_id": scene.service_id("anna").await, "external_id": "cat" });
    scene.ingestion_sleeps("tracking::named", &json!({ "external_id": "cat" })).await;
    let import = scene.imports(&renamed);
    scene.a_session_waits().await;
    scene.ingestion_ends().await;
    let output = import.await.expect("the command runs");
    assert!(!output.status.success(), "{output:?}");
    assert_eq!((scene.users().await, scene.bought("cat").await), (3, json!(1)));
    assert_eq!(scene.bought("anna").await, json!(1));
    scene.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_keeps_users_renamed_before() {
    let scene = Scene::new().await;
    scene.fleet.import("acme", &[json!({ "external_id": "ann" }).to_string()]).await;
    let renamed = json!({ "service_id": scene.service_id("ann").await, "external_id": "anna" });
    let erasure = scene.erasure_sleeps("erase::looked", "ann").await;
    let output = scene.imports(&renamed).await.expect("the command runs");
    assert!(output.status.success(), "{output:?}");
    goes_on(erasure).await;
    assert_eq!(scene.users().await, 1);
    assert_eq!(scene.service_id("anna").await, renamed["service_id"]);

    // The other way round there is nobody left to rename.
    let erasure = scene.erasure_sleeps("erase::written", "anna").await;
    let import = scene.imports(&json!({ "external_id": "anna", "first_name": "Anna" }));
    scene.a_session_waits().await;
    goes_on(erasure).await;
    let output = import.await.expect("the command runs");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(scene.users().await, 1);
    assert_ne!(scene.service_id("anna").await, renamed["service_id"]);
    scene.fleet.close().await;
}
