//! A PostgreSQL server of a test's own, which it may kill.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sqlx::{Connection as _, PgConnection};
use tempfile::TempDir;

use super::eventually;
use super::process::{Process, free_port};

/// Settings of all of them. A killed process loses only what it has not written yet, so syncing
/// adds nothing. Vacuums would make commits durable at moments of their own.
const SETTINGS: [&str; 7] = [
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "max_locks_per_transaction=1024",
    "max_connections=100",
    "fsync=off",
    "wal_writer_delay=10s",
    "autovacuum=off",
];

/// The server; killed when this is dropped.
pub struct OwnPostgres {
    server: Option<Process>,
    directory: TempDir,
    port: u16,
    more: Vec<String>,
}

impl OwnPostgres {
    /// A new server with an empty database, and more settings.
    pub async fn start(more: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let data = directory.path().join("data");
        fs::create_dir(&data).expect("a directory");
        if is_root() {
            // PostgreSQL does not run as root.
            let all_may_pass = fs::Permissions::from_mode(0o755);
            fs::set_permissions(directory.path(), all_may_pass).expect("it can be passed through");
            run(Command::new("chown").arg("postgres:").arg(&data));
        }
        let data = data.to_str().expect("a path of ASCII");
        let made = ["-D", data, "-U", "longshore", "-E", "UTF8", "--locale=C.UTF-8", "-A", "trust"];
        run(program("initdb").args(made).arg("--no-sync"));
        let more = more.iter().map(|setting| (*setting).to_owned()).collect();
        let mut own = Self { server: None, directory, port: free_port(), more };
        own.start_again().await;
        own
    }

    /// The address that Longshore is given.
    pub fn url(&self) -> String {
        format!("postgres://longshore@127.0.0.1:{}/postgres", self.port)
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Starts the killed server on what it has written.
    pub async fn start_again(&mut self) {
        let mut command = program("postgres");
        command.arg("-D").arg(self.data()).args(["-p", &self.port.to_string()]);
        let more = self.more.iter().map(String::as_str);
        SETTINGS.into_iter().chain(more).for_each(|setting| _ = command.args(["-c", setting]));
        self.server = Some(Process::start("postgres", self.directory.path(), command));
        let url = self.url();
        eventually("PostgreSQL answers", async || PgConnection::connect(&url).await.is_ok()).await;
    }

    /// Stops those of its processes that write in the background, so that commits reach the disk
    /// only with one that waits for it.
    pub fn stop_background_writers(&self) {
        for process in self.processes() {
            let title = fs::read_to_string(process.join("cmdline")).unwrap_or_default();
            // The server itself has its settings there.
            if title.starts_with("postgres:") && title.contains("writer") {
                signal("STOP", &process);
            }
        }
    }

    /// Kills all its processes, so that what they have not written is lost.
    pub async fn kill(&mut self) {
        let mut server = self.server.take().expect("it runs");
        // It would notice the end of the others.
        server.signal("STOP");
        let own = format!("/proc/{}", server.id());
        let others = self.processes().into_iter().filter(|process| *process != Path::new(&own));
        others.for_each(|process| signal("KILL", &process));
        server.kill();
        eventually("all its processes are gone", async || self.processes().is_empty()).await;
    }

    /// Its processes, by their directories in `/proc`: those whose working directory is the data.
    fn processes(&self) -> Vec<PathBuf> {
        let all = fs::read_dir("/proc").expect("/proc").filter_map(Result::ok);
        let data = fs::canonicalize(self.data()).expect("the data");
        let is_own = |process: &PathBuf| {
            fs::read_link(process.join("cwd")).is_ok_and(|directory| directory == data)
        };
        all.map(|entry| entry.path()).filter(is_own).collect()
    }
}

impl Drop for OwnPostgres {
    fn drop(&mut self) {
        self.processes().iter().for_each(|process| signal("KILL", process));
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").expect("/proc").uid() == 0
}

/// A program of the newest PostgreSQL here, as a user that may run it.
fn program(name: &str) -> Command {
    let versions = fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL: scripts/services start");
    let versions = versions.filter_map(Result::ok).map(|version| version.path());
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions.max_by_key(number).expect("a version of PostgreSQL");
    let path = newest.join("bin").join(name);
    let mut command = Command::new(if is_root() { Path::new("setpriv") } else { &path });
    if is_root() {
        command.args(["--reuid=postgres", "--regid=postgres", "--init-groups", "--"]).arg(&path);
    }
    // That user may not see the folder of this test.
    command.current_dir("/");
    command
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A process that has ended meanwhile is not signalled.
fn signal(name: &str, process: &Path) {
    let id = process.file_name().expect("a number");
    let _ = Command::new("kill").args(["-s", name]).arg(id).stderr(Stdio::null()).status();
}
