//! Gateways and workers under a supervisor: what ends is started again, and what ends for any
//! reason but ours is stored.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::support::fleet::Fleet;
use crate::support::process::{self, Process, free_port};

/// How long a process may take to be ready, or to end once it was asked to.
const TIMEOUT: Duration = Duration::from_secs(180);

/// How often a process is looked at, and how long it may take to say that it is ready.
const LOOK: Duration = Duration::from_millis(100);
const HEALTH: Duration = Duration::from_secs(1);

/// How long the supervisor waits before it starts a process again that ended by itself.
const PAUSE: Duration = Duration::from_secs(1);

/// A process as the supervisor has it.
struct Member {
    /// The binary that it is started from, the next time.
    binary: PathBuf,
    words: Vec<String>,
    variables: BTreeMap<String, String>,
    process: Option<Process>,
    /// When it is to be started; none while it is not to run.
    due: Option<Instant>,
    /// Whether it was ready since it was started.
    was_ready: bool,
    is_ready: bool,
    /// Whether we have asked it to end.
    is_leaving: bool,
}

#[derive(Default)]
struct Shared {
    members: Mutex<BTreeMap<String, Member>>,
    /// Ends that were nobody's wish.
    ends: Mutex<Vec<String>>,
    /// Times that one ended before it was ready, such as where what it needs is down.
    false_starts: Mutex<usize>,
}

/// Dropped, all are killed.
pub struct Herd {
    shared: Arc<Shared>,
    directory: PathBuf,
    environment: BTreeMap<String, String>,
    watching: JoinSet<()>,
}

impl Herd {
    /// Nobody yet, with the settings of an installation and next to it.
    pub fn new(fleet: &Fleet) -> Self {
        Self {
            shared: Arc::default(),
            directory: fleet.directory().to_owned(),
            environment: fleet.environment().clone(),
            watching: JoinSet::new(),
        }
    }

    fn members(&self) -> MutexGuard<'_, BTreeMap<String, Member>> {
        self.shared.members.lock().expect("no test panics here")
    }

    fn with<T>(&self, name: &str, f: impl FnOnce(&mut Member) -> T) -> T {
        f(self.members().get_mut(name).unwrap_or_else(|| panic!("no process {name}")))
    }

    /// Starts a process and keeps it running: the binary under test with these words, and variables
    /// in addition to the common ones.
    pub fn add(&mut self, name: &str, words: &[&str], variables: &[(&str, String)]) {
        let ops = free_port();
        let own = [("LONGSHORE_OPS_LISTEN", format!("127.0.0.1:{ops}"))];
        let variables = variables.iter().chain(&own);
        let member = Member {
            binary: process::BINARY.into(),
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            variables: variables.map(|(name, value)| ((*name).into(), value.clone())).collect(),
            process: None,
            due: Some(Instant::now()),
            was_ready: false,
            is_ready: false,
            is_leaving: false,
        };
        self.members().insert(name.to_owned(), member);
        let (shared, name) = (self.shared.clone(), name.to_owned());
        let (directory, environment) = (self.directory.clone(), self.environment.clone());
        self.watching.spawn(async move {
            let client = reqwest::Client::builder().timeout(HEALTH).build().expect("a client");
            loop {
                shared.look(&name, &directory, &environment);
                let ready = format!("http://127.0.0.1:{ops}/readyz");
                let answer = client.get(ready).send().await;
                shared.note(&name, answer.is_ok_and(|answer| answer.status() == 200));
                tokio::time::sleep(LOOK).await;
            }
        });
    }

    pub fn names(&self) -> Vec<String> {
        self.members().keys().cloned().collect()
    }

    /// From its next start on, a process is of another binary, such as an earlier version.
    pub fn set_binary(&self, name: &str, binary: &Path) {
        self.with(name, |member| member.binary = binary.to_owned());
    }

    /// The binary that a process runs at its next start.
    pub fn binary(&self, name: &str) -> PathBuf {
        self.with(name, |member| member.binary.clone())
    }

    /// Whether a process said so when it was asked last.
    pub fn is_ready(&self, name: &str) -> bool {
        self.with(name, |member| member.is_ready)
    }

    /// Waits until a process is ready.
    pub async fn ready(&self, name: &str) {
        let since = Instant::now();
        while !self.is_ready(name) {
            assert!(since.elapsed() < TIMEOUT, "{name} is not ready\n{}", self.tail(name));
            tokio::time::sleep(LOOK / 4).await;
        }
    }

    pub async fn all_ready(&self) {
        for name in self.names() {
            self.ready(&name).await;
        }
    }

    /// Ends a process at once (SIGKILL); it is started again after a while.
    pub fn kill(&self, name: &str, down: Duration) {
        self.with(name, |member| {
            if let Some(mut process) = member.process.take() {
                process.kill();
            }
            (member.is_ready, member.due) = (false, Some(Instant::now() + down));
        });
    }

    /// Sends a signal by its name to a process that runs.
    pub fn signal(&self, name: &str, signal: &str) {
        self.with(name, |member| {
            if let Some(process) = &mut member.process
                && process.is_running()
            {
                process.signal(signal);
            }
        });
    }

    /// Asks a process to end (SIGTERM) and waits until it has, which must be with 0; it is
    /// not started again until [`start`](Self::start).
    pub async fn terminate(&self, name: &str) {
        let since = Instant::now();
        self.with(name, |member| (member.is_leaving, member.due) = (true, None));
        self.signal(name, "TERM");
        loop {
            let ended = self.with(name, |member| {
                let status = member.process.as_mut().map(Process::ended)?;
                if status.is_some() {
                    member.process = None;
                }
                Some(status)
            });
            match ended {
                None => break,
                Some(Some(status)) if status.success() => break,
                Some(Some(status)) => self.shared.blame(format!("{name}, told to end: {status}")),
                Some(None) => {}
            }
            assert!(since.elapsed() < TIMEOUT, "{name} does not end\n{}", self.tail(name));
            tokio::time::sleep(LOOK / 4).await;
        }
        self.with(name, |member| member.is_ready = false);
    }

    /// Starts a process that was asked to stop.
    pub fn start(&self, name: &str) {
        self.with(name, |member| (member.is_leaving, member.due) = (false, Some(Instant::now())));
    }

    /// The memory that each process has resident, in bytes.
    pub fn resident(&self) -> BTreeMap<String, u64> {
        let members = self.members();
        let memory = |member: &Member| member.process.as_ref().and_then(Process::resident);
        members.iter().filter_map(|(name, member)| Some((name.clone(), memory(member)?))).collect()
    }

    /// Ends that were nobody's wish, and how many starts came to nothing.
    pub fn ends(&self) -> (Vec<String>, usize) {
        let ends = self.shared.ends.lock().expect("no test panics here").clone();
        (ends, *self.shared.false_starts.lock().expect("no test panics here"))
    }

    fn tail(&self, name: &str) -> String {
        self.with(name, |member| member.process.as_ref().map(Process::tail)).unwrap_or_default()
    }

    /// Everything that they ever printed, one after the other.
    pub fn each_printed(&self, mut each: impl FnMut(&str, String)) {
        for name in self.names() {
            for end in ["out", "err"] {
                let file = self.directory.join(format!("{name}.{end}"));
                let bytes = std::fs::read(file).unwrap_or_default();
                each(&name, String::from_utf8_lossy(&bytes).into_owned());
            }
        }
    }
}

impl Shared {
    fn blame(&self, error: String) {
        println!("  !! {error}");
        self.ends.lock().expect("no test panics here").push(error);
    }

    /// Starts a process whose time has come, and stores how one has ended.
    fn look(&self, name: &str, directory: &Path, environment: &BTreeMap<String, String>) {
        let mut members = self.members.lock().expect("no test panics here");
        let Some(member) = members.get_mut(name) else { return };
        if let Some(process) = &mut member.process
            && !member.is_leaving
            && let Some(status) = process.ended()
        {
            if member.was_ready {
                self.blame(format!("{name} has ended: {status}\n{}", process.tail()))
            } else {
                println!("  {name} has ended before it was ready: {status}");
                *self.false_starts.lock().expect("no test panics here") += 1;
            }
            (member.process, member.is_ready) = (None, false);
            member.due = Some(Instant::now() + PAUSE);
        }
        if member.process.is_none() && member.due.is_some_and(|due| due <= Instant::now()) {
            let binary = member.binary.to_str().expect("a path of ASCII");
            let mut command = process::program(binary, directory, environment);
            command.envs(&member.variables).args(&member.words);
            member.process = Some(Process::start(name, directory, command));
            member.was_ready = false;
        }
    }

    fn note(&self, name: &str, is_ready: bool) {
        let mut members = self.members.lock().expect("no test panics here");
        if let Some(member) = members.get_mut(name) {
            member.is_ready = is_ready && member.process.is_some() && !member.is_leaving;
            member.was_ready |= member.is_ready;
        }
    }
}
