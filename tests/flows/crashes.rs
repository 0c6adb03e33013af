//! Processes that end or hang between two durable effects, at each such place of an export:
//! always every user exactly once, one callback, and nothing else left behind.

mod lost_plans;
mod proof;

use serde_json::{Value, json};

use crate::support::api::{ALL_FIELDS, Accepted};
use crate::support::checker::{self, ExpectedExport};
use crate::support::fleet::{Backend, Fleet, notice_lost_workers};
use crate::support::http_proxy::{ChooseFault, HttpProxy, ProxyFault};
use crate::support::receiver::Receiver;
use crate::support::storage::TestStorage;
use crate::support::{Api, WorkspaceFile, callbacks, eventually, killed, stores, user_records};

const PARTS: usize = 6;
const PER_FILE: usize = 20;

/// Short leases, so that what was lost is soon done by another.
fn settings() -> [(&'static str, String); 6] {
    [
        ("LONGSHORE_EXPORTS__USERS_PER_FILE", PER_FILE.to_string()),
        ("LONGSHORE_EXPORTS__PARTS_IN_FLIGHT", "1".to_owned()),
        ("LONGSHORE_EXPORTS__REQUEUE_SECONDS", "2".to_owned()),
        ("LONGSHORE_EXPORTS__ATTEMPTS", "20".to_owned()),
        ("LONGSHORE_WORKER__LEASE_MS", "1000".to_owned()),
        ("LONGSHORE_WORKER__DRAIN_SECONDS", "2".to_owned()),
    ]
}

/// An installation with users, a bucket and a receiver of callbacks.
struct Scene {
    fleet: Fleet,
    api: Api,
    storage: Option<TestStorage>,
    workspace: WorkspaceFile,
    receiver: Receiver,
    records: Vec<String>,
}

impl Scene {
    /// With storage of its own.
    async fn own(backend: Backend, failing: (&str, &str)) -> Self {
        Self::new(backend, Some(TestStorage::s3().await), failing).await
    }

    /// `failing` is a process and its fail points.
    async fn new(backend: Backend, storage: Option<TestStorage>, failing: (&str, &str)) -> Self {
        let mut fleet = Fleet::prepare(backend, &settings(), notice_lost_workers).await;
        let mut workspace = WorkspaceFile::new("acme");
        if let Some(storage) = &storage {
            workspace = workspace.with_storage(storage);
        }
        let api = fleet.apply(std::slice::from_ref(&workspace)).await.remove(0);
        let records: Vec<String> =
            (0..PARTS * PER_FILE).map(|number| user_records::simple(number, 1)).collect();
        fleet.import("acme", &records).await;
        fleet.launch_all(Some(failing)).await;
        let receiver = Receiver::start([]).await;
        Self { fleet, api, storage, workspace, receiver, records }
    }

    fn body(&self) -> Value {
        json!({ "fields_to_export": ALL_FIELDS, "callback_endpoint": self.receiver.url("/") })
    }

    async fn request(&self) -> Accepted {
        self.api.export(&self.body()).await
    }

    /// The same request, whose response may be lost.
    async fn send_request(&self) -> reqwest::Result<reqwest::Response> {
        let request = self.api.request(reqwest::Method::POST, crate::support::api::EXPORT);
        request.json(&self.body()).send().await
    }

    /// The object prefix of the only export.
    async fn only_export(&self) -> String {
        let listed = self.api.get("/users/export").await.body;
        let exports = listed["exports"].as_array().expect("an array");
        assert_eq!(exports.len(), 1, "{listed}");
        exports[0]["object_prefix"].as_str().expect("a prefix").to_owned()
    }

    async fn has_stopped(&self, name: &str) {
        let fleet = &self.fleet;
        eventually(&format!("{name} is at its fail point"), || async { fleet.is_stopped(name) })
            .await;
    }

    /// Every user once, one callback, and in the storage nothing else.
    async fn ends_whole(&self, prefix: &str) {
        let status = self.api.done(prefix).await;
        let days = checker::export_days(&status);
        let wanted = ExpectedExport { fields: &ALL_FIELDS, days, prefix };
        let files = match &self.storage {
            Some(storage) => {
                let segment = self.fleet.segment_id(&self.workspace.name).await;
                checker::own_files(storage, &segment, "zip", &wanted).await
            }
            None => {
                let told = self.callback().await;
                let address = told["url"].as_str().expect("an address");
                checker::downloaded(&self.api.download(address).await)
            }
        };
        checker::check_export(&files, PARTS, &self.records, &wanted);
        if let Some(storage) = &self.storage {
            let only_files = || async { storage.list_files().await.len() == PARTS };
            eventually("nothing else is left in the bucket", only_files).await;
        }
        assert_eq!(self.callback().await["success"], true);
    }

    /// What the one callback says.
    async fn callback(&self) -> Value {
        callbacks::callback_at(&self.receiver, "/", &self.workspace.callback_secret).await
    }
}

/// The process ends at `point`, and another continues.
async fn killed_at(backend: Backend, name: &str, own: bool, point: &str) {
    let storage = if own { Some(TestStorage::s3().await) } else { None };
    let mut scene = Scene::new(backend, storage, (name, &format!("{point}=kill"))).await;
    // A standalone process can end before its response is written.
    if let Ok(response) = scene.send_request().await {
        assert_eq!(response.status(), 201);
    }
    scene.fleet.wait_until_exited(name).await;
    scene.fleet.launch(name).await;
    let prefix = scene.only_export().await;
    scene.ends_whole(&prefix).await;
    scene.fleet.close().await;
}

killed! {
    while_the_plan_is_written: Backend::Fleet(1), "worker-1", true, "plan::written";
    #[ignore = "scripts/test --all"]
    after_the_plan: Backend::Fleet(1), "worker-1", true, "plan::committed";
    after_the_plan_standalone: Backend::Embedded, "standalone", true, "plan::committed";
    before_the_message_is_acknowledged: Backend::Fleet(1), "worker-1", true, "batch::done";
    before_a_file_is_written: Backend::Fleet(1), "worker-1", true, "part::packed@3";
    before_a_file_counts: Backend::Fleet(1), "worker-1", true, "part::uploaded@3";
    before_the_last_file_counts: Backend::Fleet(1), "worker-1", true, "part::uploaded@6";
    after_the_last_file: Backend::Fleet(1), "worker-1", true, "part::done@6";
    before_a_segment_counts: Backend::Fleet(1), "worker-1", false, "part::uploaded@3";
    before_the_finish: Backend::Fleet(1), "worker-1", true, "finish::begun";
    #[ignore = "scripts/test --all"]
    before_the_archive_counts: Backend::Fleet(1), "worker-1", false, "finish::stored";
    before_the_archive_counts_standalone: Backend::Embedded, "standalone", false, "finish::stored";
    after_the_finish: Backend::Fleet(1), "worker-1", true, "finish::done";
    before_the_callback_is_settled: Backend::Fleet(1), "worker-1", true, "delivery::answered";
    while_leftovers_are_removed: Backend::Fleet(1), "worker-1", true, "cleanup::removed";
}

/// The export's files are uploaded as on the day before, so that they are to be moved; at
/// `point` of that its worker ends or stops. The plan has that day from its first commit on: a part
/// may begin at once.
async fn moved_with(point: &str) -> (Scene, Accepted) {
    moved_in(Scene::own(Backend::Fleet(1), ("worker-1", point)).await).await
}

async fn moved_in(scene: Scene) -> (Scene, Accepted) {
    let function = "CREATE FUNCTION plan_yesterday() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             NEW.plan = jsonb_set(NEW.plan::jsonb, '{upload_date}',
                 to_jsonb(((NEW.plan::jsonb->>'upload_date')::date - 1)::text))::text;
             RETURN NEW;
         END $$";
    let trigger = "CREATE TRIGGER plan_yesterday BEFORE UPDATE ON export_jobs FOR EACH ROW
         WHEN (OLD.plan IS NULL AND NEW.plan IS NOT NULL) EXECUTE FUNCTION plan_yesterday()";
    for statement in [function, trigger] {
        stores::execute(&scene.fleet.database_url(), statement).await;
    }
    let accepted = scene.request().await;
    (scene, accepted)
}

#[tokio::test(flavor = "multi_thread")]
async fn between_the_copies_and_the_removals_of_a_move() {
    let (mut scene, accepted) = moved_with("finish::copied=kill").await;
    scene.fleet.wait_until_exited("worker-1").await;
    let storage = scene.storage.as_ref().expect("own storage");
    let both = || async { storage.list_files().await.len() == 2 * PARTS };
    eventually("both names are listed", both).await;
    scene.fleet.launch("worker-1").await;
    scene.ends_whole(&accepted.prefix).await;
    scene.fleet.close().await;
}

/// A key without the right to list, as S3 rejects its requests.
const CANNOT_LIST: ChooseFault = |method, query| {
    if query.contains("list-type=2") {
        Some(ProxyFault::Respond(403, "<Error><Code>AccessDenied</Code></Error>"))
    } else if [reqwest::Method::GET, reqwest::Method::HEAD].contains(method) {
        Some(ProxyFault::HideMissing)
    } else {
        None
    }
};

/// The next attempt looks at the old names, which are deleted.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_move_without_the_right_to_list() {
    let storage = TestStorage::s3().await;
    let http_proxy = HttpProxy::start(storage.endpoint(), CANNOT_LIST).await;
    let limited = Some(storage.at(&http_proxy.endpoint()));
    let failing = ("worker-1", "finish::stored=kill");
    let scene = Scene::new(Backend::Fleet(1), limited, failing).await;
    let scene = Scene { storage: Some(storage), ..scene };
    let (mut scene, accepted) = moved_in(scene).await;
    scene.fleet.wait_until_exited("worker-1").await;
    scene.fleet.launch("worker-1").await;
    scene.ends_whole(&accepted.prefix).await;
    scene.fleet.close().await;
}

/// It wakes after another has moved the files, and must not delete those.
#[tokio::test(flavor = "multi_thread")]
async fn a_mover_wakes_after_another_moved() {
    let (mut scene, accepted) = moved_with("finish::copied=stop").await;
    scene.has_stopped("worker-1").await;
    let storage = scene.storage.clone().expect("own storage");
    let both = || async { storage.list_files().await.len() == 2 * PARTS };
    eventually("both names are listed", both).await;
    scene.fleet.launch("worker-2").await;
    scene.ends_whole(&accepted.prefix).await;
    scene.fleet.resume("worker-1");
    scene.fleet.ready("worker-1").await;
    scene.fleet.terminate("worker-2").await;
    let next = scene.api.export(&json!({ "fields_to_export": ALL_FIELDS })).await;
    scene.api.done(&next.prefix).await;
    let only_files = || async { storage.list_files().await.len() == 2 * PARTS };
    eventually("nothing else is left in the bucket", only_files).await;
    scene.fleet.close().await;
}

/// The gateway ends between the job's commit and its message: nobody is answered, and yet what
/// is durable is done.
async fn a_request_without_an_answer(backend: Backend, name: &str, point: &str) {
    let mut scene = Scene::own(backend, (name, point)).await;
    assert!(scene.send_request().await.is_err(), "an answer");
    scene.fleet.wait_until_exited(name).await;
    scene.fleet.launch(name).await;
    let prefix = scene.only_export().await;
    scene.ends_whole(&prefix).await;
    scene.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_ends_before_the_message() {
    a_request_without_an_answer(Backend::Fleet(1), "gateway", "export::requested=kill").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standalone_that_ends_within_the_append() {
    a_request_without_an_answer(Backend::Embedded, "standalone", "log::written=kill").await;
}

/// A worker hangs at `point`, past its lease; another ends the export; then the first wakes.
async fn a_sleeper(own: bool, point: &str) {
    let storage = if own { Some(TestStorage::s3().await) } else { None };
    let failing = ("worker-1", &*format!("{point}=stop"));
    let mut scene = Scene::new(Backend::Fleet(1), storage, failing).await;
    let accepted = scene.request().await;
    scene.has_stopped("worker-1").await;
    scene.fleet.launch("worker-2").await;
    scene.ends_whole(&accepted.prefix).await;
    scene.fleet.resume("worker-1");
    // It finds that its work was done; the next export needs both.
    scene.fleet.ready("worker-1").await;
    scene.fleet.terminate("worker-2").await;
    let next = scene.api.export(&json!({ "fields_to_export": ALL_FIELDS })).await;
    scene.api.done(&next.prefix).await;
    assert_eq!(scene.callback().await["success"], true);
    if let Some(storage) = &scene.storage {
        let only_files = || async { storage.list_files().await.len() == 2 * PARTS };
        eventually("nothing else is left in the bucket", only_files).await;
    }
    scene.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_planner_wakes_after_another_planned() {
    a_sleeper(true, "plan::looked").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sleeper_uploads_late() {
    a_sleeper(true, "part::packed@2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sleeper_counts_its_file_late() {
    a_sleeper(true, "part::uploaded@2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sleeper_counts_the_last_file_late() {
    a_sleeper(true, "part::uploaded@6").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sleeper_uploads_a_segment_late() {
    a_sleeper(false, "part::packed@2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finisher_wakes_after_another_finished() {
    a_sleeper(false, "finish::stored").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finisher_of_own_storage_wakes_after_another_finished() {
    a_sleeper(true, "finish::stored").await;
}

/// Cancelled while the last part hangs: it counts for nothing when it wakes, and what it
/// uploads late is removed again.
#[tokio::test(flavor = "multi_thread")]
async fn cancelled_before_the_last_part_counts() {
    for point in ["part::packed@6=stop", "part::uploaded@6=stop"] {
        let mut scene = Scene::own(Backend::Fleet(1), ("worker-1", point)).await;
        let accepted = scene.request().await;
        scene.has_stopped("worker-1").await;
        let answer = scene.api.delete(&format!("/users/export/{}", accepted.prefix)).await;
        assert_eq!((answer.status.as_u16(), &answer.body["state"]), (200, &json!("cancelled")));
        scene.fleet.resume("worker-1");
        let storage = scene.storage.as_ref().expect("own storage");
        eventually("nothing is left", || async { storage.list().await.is_empty() }).await;
        assert_eq!(scene.api.status(&accepted.prefix).await["state"], "cancelled");
        assert!(scene.receiver.received().is_empty(), "a callback of a cancelled export");
        scene.fleet.close().await;
    }
}

/// Cancelled once the finishing has begun: too late, and the export is whole.
#[tokio::test(flavor = "multi_thread")]
async fn cancelled_while_it_finishes() {
    let mut scene = Scene::own(Backend::Fleet(1), ("worker-1", "finish::begun=stop")).await;
    let accepted = scene.request().await;
    scene.has_stopped("worker-1").await;
    let answer = scene.api.delete(&format!("/users/export/{}", accepted.prefix)).await;
    assert_eq!(answer.status, 409, "{answer:?}");
    scene.fleet.resume("worker-1");
    scene.ends_whole(&accepted.prefix).await;
    scene.fleet.close().await;
}
