//! The time of day of each process, which can be set while it runs.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use jiff::Timestamp;
use serde_json::json;

use super::herd::Herd;
use crate::support::fleet::{Backend, Fleet};
use crate::support::process::free_port;
use crate::support::{Api, WorkspaceFile, python};

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
        compile.arg(&library).arg(python::file("chaos/clock.c"));
        let status = compile.status().expect("a C compiler: on Debian, apt-get install gcc");
        assert!(status.success(), "clock.c is compiled");
        Self { library, directory: directory.to_owned(), files: BTreeMap::new() }
    }

    /// Variables of a process whose clock can be set.
    pub fn variables(&mut self, name: &str) -> [(&'static str, String); 2] {
        let file = self.directory.join(format!("{name}.clock"));
        std::fs::write(&file, 0_i64.to_ne_bytes()).expect("a file");
        let variables = [
            ("LD_PRELOAD", self.library.display().to_string()),
            ("CLOCK_FILE", file.display().to_string()),
        ];
        self.files.insert(name.to_owned(), file);
        variables
    }

    /// Puts a process's clock so many seconds before or behind the machine's.
    pub fn set(&self, name: &str, seconds: i64) {
        let file = std::fs::File::options().write(true).open(&self.files[name]);
        let written = file.and_then(|file| file.write_all_at(&(seconds * 1_000).to_ne_bytes(), 0));
        written.expect("the file is written");
    }
}

/// Schedules go by the database's clock, when they are made as when they are sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_whose_clock_is_wrong_takes_schedules() {
    let fleet = Fleet::prepare(Backend::Fleet(0), &[], |_| {}).await;
    let workspace = WorkspaceFile::new("acme").permitted(&["messages.schedule.create"]);
    fleet.apply(std::slice::from_ref(&workspace)).await;
    let (mut clocks, listen) = (Clocks::build(fleet.directory()), free_port());
    let mut variables = clocks.variables("gateway").to_vec();
    variables.push(("LONGSHORE_LISTEN", format!("127.0.0.1:{listen}")));
    let mut herd = Herd::of(&fleet);
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
