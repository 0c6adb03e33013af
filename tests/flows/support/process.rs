//! A process of the binary under test.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio::net::TcpSocket;

/// How long a process may take to end once it was asked to.
const TIMEOUT: Duration = Duration::from_secs(180);

/// Lines of its output that a failing test shows.
const TAIL: usize = 40;

/// The binary under test.
pub const BINARY: &str = env!("CARGO_BIN_EXE_longshore");

/// The binary, as [`program`] is run.
pub fn command(directory: &Path, environment: &BTreeMap<String, String>) -> Command {
    program(BINARY, directory, environment)
}

/// A program with nothing of Longshore's in its environment but `environment`, in a directory
/// without settings.
pub fn program(program: &str, directory: &Path, environment: &BTreeMap<String, String>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LONGSHORE_")) {
        command.env_remove(name);
    }
    command.env_remove("RUST_LOG").envs(environment).current_dir(directory).stdin(Stdio::null());
    command
}

/// The binary with these arguments, as the shell reads them, on a terminal: that of util-linux's
/// `script`.
pub fn on_terminal(directory: &Path, arguments: &str) -> Command {
    let mut command = program("script", directory, &Default::default());
    command.args(["--quiet", "--return", "--command", &format!("{BINARY} {arguments}")]);
    command.arg("/dev/null").env("SHELL", "/bin/sh");
    command
}

/// Runs a command of the binary to its end.
pub async fn output(mut command: Command) -> Output {
    let run = tokio::task::spawn_blocking(move || command.output());
    run.await.expect("the command was waited for").expect("the binary runs")
}

/// A process that continues until it is stopped: killed when this is dropped. What it prints is
/// kept, and its end shown when the test fails.
pub struct Process {
    name: String,
    child: Child,
    files: [PathBuf; 2],
}

impl Process {
    /// Starts it; its output is appended to that of an earlier one of the same name.
    pub fn start(name: &str, directory: &Path, mut command: Command) -> Self {
        let files = ["out", "err"].map(|end| directory.join(format!("{name}.{end}")));
        let [out, err] = files.each_ref().map(|file| append_to(file));
        let child = command.stdout(out).stderr(err).spawn().expect("the binary starts");
        Self { name: name.to_owned(), child, files }
    }

    /// Its number in the system.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn is_running(&mut self) -> bool {
        self.ended().is_none()
    }

    /// How it has ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the process can be asked for")
    }

    /// What the system says of it under a name of `/proc/<pid>/status`; none where it has ended.
    fn status_field(&self, name: &str) -> Option<String> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.id())).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        Some(line?.trim().to_owned())
    }

    /// The same, where the process is there.
    pub fn status(&self, name: &str) -> String {
        self.status_field(name)
            .unwrap_or_else(|| panic!("nothing is said of {} as {name}", self.name))
    }

    /// The same of a number of kibibytes.
    fn kib(&self, name: &str) -> Option<u64> {
        self.status_field(name)?.split_whitespace().next()?.parse().ok()
    }

    /// The memory that it has resident, in bytes; none where it has ended.
    pub fn resident(&self) -> Option<u64> {
        self.kib("VmRSS").map(|kib| kib << 10)
    }

    /// Sends SIGTERM and waits for the end.
    pub async fn terminate(&mut self) -> ExitStatus {
        self.signal("TERM");
        self.wait_until_ended().await
    }

    /// Waits for the end after a SIGTERM.
    pub async fn wait_until_ended(&mut self) -> ExitStatus {
        let since = Instant::now();
        loop {
            if let Some(status) = self.ended() {
                return status;
            }
            assert!(since.elapsed() < TIMEOUT, "{} ignores SIGTERM for {TIMEOUT:?}", self.name);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Sends a signal by its name, such as `TERM`.
    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status().expect("kill runs");
        assert!(sent.success(), "{} cannot be sent SIG{name}", self.name);
    }

    /// The most memory that it has had resident since its start or since [`reset_peak`]
    /// (Self::reset_peak), in bytes.
    pub fn peak(&self) -> u64 {
        self.kib("VmHWM").expect("a number of kibibytes") << 10
    }

    /// Takes what is resident now for its peak (5 in `/proc/<pid>/clear_refs`).
    pub fn reset_peak(&self) {
        let path = format!("/proc/{}/clear_refs", self.child.id());
        std::fs::write(path, "5").expect("the peak is reset");
    }

    /// The processor time that it has used (`/proc/<pid>/stat`).
    pub fn cpu(&self) -> Duration {
        let path = format!("/proc/{}/stat", self.child.id());
        let text = std::fs::read_to_string(path).expect("the process is there");
        // Behind its name, which may hold anything: the 14th and the 15th, in hundredths.
        let (_, rest) = text.rsplit_once(')').expect("a name in parentheses");
        let ticks = rest.split_whitespace().skip(11).take(2);
        Duration::from_millis(ticks.map(|ticks| ticks.parse::<u64>().expect("ticks") * 10).sum())
    }

    /// Ends it at once, in the middle of whatever it does (SIGKILL).
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Everything it printed.
    pub fn printed(&self) -> String {
        self.files.each_ref().map(|file| lossy(file)).concat()
    }

    /// The end of what it printed.
    pub fn tail(&self) -> String {
        let tails = self.files.each_ref().map(|file| {
            let text = lossy(file);
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(TAIL)..].join("\n")
        });
        format!("--- the end of what {} printed\n{}\n---", self.name, tails.join("\n"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("{}", self.tail());
        }
    }
}

fn append_to(file: &Path) -> File {
    OpenOptions::new().create(true).append(true).open(file).expect("a file for the output")
}

fn lossy(file: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(file).unwrap_or_default()).into_owned()
}

/// A port of this machine, from the system, which gives it to nobody else while this run lasts:
/// a socket stays bound to it that does not listen. Who binds it with `SO_REUSEADDR`, as tokio
/// and most servers do, can listen on it, as often as it is started again.
pub fn free_port() -> u16 {
    static HELD: Mutex<Vec<TcpSocket>> = Mutex::new(Vec::new());
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_reuseaddr(true).expect("an option of sockets");
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a port is free");
    let port = socket.local_addr().expect("it is bound").port();
    HELD.lock().expect("no test panics here").push(socket);
    port
}
