//! The time of day of each process, which can be set while it runs.

mod order;

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::herd::Herd;
use crate::support::console::{self, Browser};
use crate::support::fleet::{Backend, Fleet};
use crate::support::http_proxy::{ChooseFault, HttpProxy, NO_FAULT, ProxyFault};
use crate::support::process::free_port;
use crate::support::storage::TestStorage;
use crate::support::{Api, WorkspaceFile, checker, eventually, python, stores, user_records};

/// Dropped with the directory that its files are in.
pub struct Clocks {
    library: PathBuf,
    directory: PathBuf,
    files: BTreeMap<String, PathBuf>,
}

impl Clocks {
    /// Builds what moves them.
    pub fn build(directory: &Path) -> Self {
        let library = directory.join("clock.so");
        let mut compile = Command::new("cc");
        compile.args(["-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o"]);
        compile.arg(&library).arg(python::file("chaos/clock.c")).arg("-ldl");
        let status = compile.status().expect("a C compiler: on Debian, apt-get install gcc");
        assert!(status.success(), "clock.c is compiled");
        Self { library, directory: directory.to_owned(), files: BTreeMap::new() }
    }

    /// Variables of a process whose clock can be set.
    pub fn variables(&mut self, name: &str) -> [(&'static str, String); 2] {
        let file = self.directory.join(format!("{name}.clock"));
        std::fs::write(&file, [0; 16]).expect("a file");
        let variables = [
            ("LD_PRELOAD", self.library.display().to_string()),
            ("CLOCK_FILE", file.display().to_string()),
        ];
        self.files.insert(name.to_owned(), file);
        variables
    }

    /// Puts a process's clock so many seconds before or behind the machine's.
    pub fn set(&self, name: &str, seconds: i64) {
        self.write(name, 0, seconds * 1_000);
    }

    /// Puts the clock of a process that stands still while the machine is suspended behind by this
    /// time, as if it had been suspended for so long.
    pub fn suspended(&self, name: &str, time: Duration) {
        self.write(name, 8, -kit::clock::millis(time));
    }

    fn write(&self, name: &str, offset: u64, ms: i64) {
        let file = std::fs::File::options().write(true).open(&self.files[name]);
        let written = file.and_then(|file| file.write_all_at(&ms.to_ne_bytes(), offset));
        written.expect("the file is written");
    }
}

/// Schedules go by the database's clock, both when they are created and when they are sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_with_a_wrong_clock_accepts_schedules() {
    let fleet = Fleet::prepare(Backend::Fleet(0), &[], |_| {}).await;
    let workspace = WorkspaceFile::new("acme").permitted(&["messages.schedule.create"]);
    fleet.apply(std::slice::from_ref(&workspace)).await;
    let (mut clocks, listen) = (Clocks::build(fleet.directory()), free_port());
    let mut variables = clocks.variables("gateway").to_vec();
    variables.push(("LONGSHORE_LISTEN", format!("127.0.0.1:{listen}")));
    let mut herd = Herd::new(&fleet);
    herd.add("gateway", &["gateway"], &variables);
    herd.ready("gateway").await;
    let api = Api::new(&format!("http://127.0.0.1:{listen}"), &workspace.key);
    for (hours, ahead, status) in [(1, 1_800, 201), (-1, 1_800, 201), (1, -60, 400), (-1, -60, 400)]
    {
        clocks.set("gateway", hours * 3_600);
        let time = Timestamp::from_second(Timestamp::now().as_second() + ahead).expect("a time");
        let body = json!({
            "external_user_ids": ["ann"], "schedule": { "time": time.to_string() },
            "messages": { "webhook": {
                "url": "http://127.0.0.1:9/", "request_method": "POST", "body": "",
            } },
        });
        let answer = api.post("/messages/schedule/create", &body).await;
        assert_eq!(answer.status, status, "a clock that is off by {hours} h: {answer:?}");
    }
    herd.terminate("gateway").await;
}

/// By the database's clock somebody is signed in, a download is valid, and a time is long ago.
#[tokio::test(flavor = "multi_thread")]
async fn the_console_of_a_gateway_with_a_wrong_clock_offers_the_downloads_that_are_valid() {
    let fleet = Fleet::prepare(Backend::Fleet(0), &console::settings(), |_| {}).await;
    let api = fleet.apply(&[WorkspaceFile::new("acme")]).await.remove(0);
    fleet.import("acme", &[user_records::simple(1, 1)]).await;
    let (mut clocks, mut herd) = (Clocks::build(fleet.directory()), Herd::new(&fleet));
    herd.add("gateway", &["gateway"], &clocks.variables("gateway"));
    herd.add("worker", &["worker"], &[]);
    herd.all_ready().await;
    let expired = api.export_all().await.prefix;
    api.done(&expired).await;
    let expire = "UPDATE export_jobs SET expires_at = finished_at";
    assert_eq!(stores::execute(&fleet.database_url(), expire).await, 1);
    let valid = api.export_all().await.prefix;
    api.done(&valid).await;
    let browser = Browser::signed_in(&fleet, "ana", "admin").await;
    for hours in [-26, 26] {
        clocks.set("gateway", hours * 3_600);
        for (prefix, is_valid) in [(&valid, true), (&expired, false)] {
            let address = format!("/w/acme/exports/{prefix}");
            let download = format!("{address}/download");
            let page = browser.get(&address).await;
            assert_eq!(page.status, 200, "{hours} h: {page:?}");
            assert_eq!(page.text.contains(&download), is_valid, "{hours} h: {}", page.text);
            let status = browser.get(&download).await.status;
            assert_eq!(status.as_u16(), if is_valid { 303 } else { 409 }, "{hours} h");
        }
        let list = browser.get("/w/acme/exports").await;
        assert_eq!(list.status, 200, "{hours} h: {list:?}");
        assert!(list.text.contains(&valid), "{hours} h: {}", list.text);
        assert!(!list.text.contains("1 day"), "{hours} h: {}", list.text);
    }
    herd.terminate("worker").await;
    herd.terminate("gateway").await;
}

/// The days of its lines, the times of its manifest, its expiry and the deletion of its files go by
/// the database's clock.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_with_a_wrong_clock_exports_like_others() {
    let fleet = Fleet::prepare(Backend::Fleet(0), &[], |_| {}).await;
    let api = fleet.apply(&[WorkspaceFile::new("acme")]).await.remove(0);
    let (mut clocks, mut herd) = (Clocks::build(fleet.directory()), Herd::new(&fleet));
    herd.add("gateway", &["gateway"], &[]);
    herd.add("right", &["worker"], &[]);
    herd.all_ready().await;
    let purchase = json!({
        "external_id": "ann", "product_id": "tea", "currency": "EUR", "price": 1,
        "time": kit::clock::format_time(Timestamp::now().as_millisecond()),
    });
    let answer = api.post("/users/track", &json!({ "purchases": [purchase] })).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    fleet.applied().await;
    herd.terminate("right").await;
    let mut addresses = Vec::new();
    for (name, hours) in [("behind", -26), ("ahead", 26)] {
        let variables = clocks.variables(name);
        clocks.set(name, hours * 3_600);
        herd.add(name, &["worker"], &variables);
        herd.ready(name).await;
        let fields = ["external_id", "purchases"];
        let accepted = api.export(&json!({ "fields_to_export": fields })).await;
        let status = api.done(&accepted.prefix).await;
        let files = checker::downloaded(&api.download(accepted.address()).await);
        let line: Value = serde_json::from_slice(&files[0].bytes).expect("a line");
        assert_eq!(line["purchases"][0]["count"], 1, "{name}: {line}");
        let manifest = accepted.address().replace("/download?", "/manifest.json?");
        let manifest: Value = serde_json::from_slice(&api.download(&manifest).await).expect("JSON");
        let now = Timestamp::now().as_second();
        for (object, field) in [
            (&status, "started_at"),
            (&status, "finished_at"),
            (&manifest, "planned_at"),
            (&manifest, "completed_at"),
        ] {
            let time = object[field].as_str().expect("a time").parse::<Timestamp>().expect(field);
            assert!((now - time.as_second()).abs() < 3_600, "{name}: {field} is {time}");
        }
        addresses.push(accepted.address().to_owned());
        if name == "ahead" {
            // It has looked for files to delete, and deleted none that is valid.
            let passes = "SELECT count(*) FROM claims
                          WHERE kind = 'export_cleanup' AND attempt > 0 AND owner IS NULL";
            stores::wait_for_count(&fleet.database_url(), passes, |passes| passes == 2).await;
            for address in &addresses {
                api.download(address).await;
            }
        }
        herd.terminate(name).await;
    }
    herd.terminate("gateway").await;
}

/// A storage refuses the only worker for its clock, while it is configured to; a counted attempt
/// would be the last.
async fn refused_for_its_clock(storage: TestStorage, refuse: ChooseFault, hours: i64, told: &str) {
    let http_proxy = HttpProxy::start(storage.endpoint(), NO_FAULT).await;
    let settings = [("LONGSHORE_EXPORTS__ATTEMPTS", "1".to_owned())];
    let fleet = Fleet::prepare(Backend::Fleet(0), &settings, |_| {}).await;
    let workspace = WorkspaceFile::new("acme").with_storage(&storage.at(&http_proxy.endpoint()));
    let api = fleet.apply(std::slice::from_ref(&workspace)).await.remove(0);
    fleet.import("acme", &[user_records::simple(1, 1)]).await;
    let (mut clocks, mut herd) = (Clocks::build(fleet.directory()), Herd::new(&fleet));
    let variables = clocks.variables("wrong");
    clocks.set("wrong", hours * 3_600);
    herd.add("gateway", &["gateway"], &[]);
    herd.add("wrong", &["worker"], &variables);
    herd.all_ready().await;
    http_proxy.inject(refuse);
    let waits = api.export_all().await.prefix;
    eventually("the worker says what is wrong", || async {
        let status = api.status(&waits).await;
        assert!(status["finished_at"].is_null(), "{status}");
        let mut is_said = false;
        herd.each_printed(|_, text| {
            is_said |= text.lines().any(|line| {
                line.contains("ERROR")
                    && line.contains("left for a worker with a correct clock")
                    && line.contains(told)
            });
        });
        is_said
    })
    .await;
    http_proxy.inject(NO_FAULT);
    api.done(&waits).await;
    herd.terminate("wrong").await;
    // Where the worker's clock is right the storage's is wrong, for every worker.
    herd.add("right", &["worker"], &[]);
    herd.ready("right").await;
    http_proxy.inject(refuse);
    api.failed(&api.export_all().await.prefix).await;
    herd.terminate("right").await;
    herd.terminate("gateway").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_s3_refuses_for_its_clock_fails_no_export() {
    let refuse: ChooseFault =
        |_, _| Some(ProxyFault::Respond(403, "<Error><Code>RequestTimeTooSkewed</Code></Error>"));
    refused_for_its_clock(TestStorage::s3().await, refuse, 1, "seconds ahead of the store's").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_azure_refuses_for_its_clock_fails_no_export() {
    let refuse: ChooseFault =
        |_, _| Some(ProxyFault::Respond(403, "<Error><Code>AuthenticationFailed</Code></Error>"));
    refused_for_its_clock(TestStorage::azure().await, refuse, -1, "seconds behind the store's")
        .await;
}
