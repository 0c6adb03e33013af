//! What is done to the servers, to clocks and to processes.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use rand::RngExt as _;
use rand::rngs::StdRng;
use reqwest::Method;
use serde_json::json;

use super::WORKERS;
use super::load::PLAIN;
use super::stage::{GATEWAYS, Stage};
use super::{Servers, services};
use crate::support::api::EXPORT;

/// Longer than leases and the sessions of consumers are here.
const PAUSED: Duration = Duration::from_secs(20);
const SLOW: Duration = Duration::from_secs(20);
const FULL: Duration = Duration::from_secs(15);
const DOWN: Duration = Duration::from_secs(5);
const SKEWED: Duration = Duration::from_secs(20);

/// Longer than a lease.
const PROCESS_PAUSED: Duration = Duration::from_secs(8);

const HOUR: i64 = 3_600;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Kill(&'static str),
    /// The load stops before, and begins again only when all is applied.
    KillInQuiet(&'static str),
    Pause(&'static str),
    Slow(&'static str),
    Full(&'static str),
    /// Clocks go by so many seconds: those of one gateway and one worker, or of all.
    Clocks {
        all: bool,
        seconds: i64,
    },
    KillProcess(&'static [&'static str]),
    PauseProcess(&'static [&'static str]),
    /// One process after the other ends and is started again.
    Roll,
}

pub const RECEIVER: &str = "receiver";

/// All of them, by name.
pub fn all() -> Vec<(String, Fault)> {
    let mut all = Vec::new();
    for server in ["kafka", "postgres", "s3", RECEIVER] {
        all.push((format!("{server}-kill"), Fault::Kill(server)));
        all.push((format!("{server}-pause"), Fault::Pause(server)));
        all.push((format!("{server}-slow"), Fault::Slow(server)));
        if server != RECEIVER {
            all.push((format!("{server}-full"), Fault::Full(server)));
        }
    }
    all.push(("postgres-kill-in-quiet".to_owned(), Fault::KillInQuiet("postgres")));
    for (name, is_all, seconds) in [
        ("clock-forward", false, HOUR),
        ("clock-back", false, -HOUR),
        ("clocks-forward", true, HOUR),
        ("clocks-back", true, -HOUR),
    ] {
        all.push((name.to_owned(), Fault::Clocks { all: is_all, seconds }));
    }
    for (name, of) in [("gateway", &GATEWAYS[..]), ("worker", &WORKERS[..])] {
        all.push((format!("{name}-kill"), Fault::KillProcess(of)));
        all.push((format!("{name}-pause"), Fault::PauseProcess(of)));
    }
    all.push(("rolling-restart".to_owned(), Fault::Roll));
    all
}

impl Fault {
    /// Whether a process is struck meanwhile, now and then.
    fn may_be_joined(self) -> bool {
        matches!(self, Self::Kill(_) | Self::Pause(_) | Self::Slow(_) | Self::Full(_))
    }

    /// Begins and ends it. When this returns the server answers, or the process runs again.
    pub async fn happen(self, stage: &Stage, servers: &Servers, random: &mut StdRng) {
        let strike = async {
            if self.may_be_joined() && random.random_ratio(1, 2) {
                let pause = Duration::from_millis(random.random_range(0..4_000));
                tokio::time::sleep(pause).await;
                strike(stage, random).await;
            }
        };
        tokio::join!(self.alone(stage, servers), strike);
    }

    async fn alone(self, stage: &Stage, servers: &Servers) {
        let (herd, taken) = (&stage.herd, &stage.world.taken);
        match self {
            Self::Kill(RECEIVER) => {
                taken.kill_receiver();
                tokio::time::sleep(DOWN).await;
                taken.start_receiver().await;
            }
            Self::Pause(RECEIVER) => {
                taken.signal_receiver("STOP");
                tokio::time::sleep(PAUSED).await;
                taken.signal_receiver("CONT");
            }
            Self::Slow(RECEIVER) => {
                let since = Instant::now();
                while since.elapsed() < SLOW {
                    taken.signal_receiver("STOP");
                    tokio::time::sleep(Duration::from_millis(80)).await;
                    taken.signal_receiver("CONT");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            Self::Kill(server) => kill(servers, server).await,
            Self::KillInQuiet(server) => {
                stage.world.is_quiet.send_replace(true);
                stage.fleet.applied().await;
                kill(servers, server).await;
                stage.fleet.applied().await;
                stage.world.is_quiet.send_replace(false);
            }
            Self::Pause(server) => {
                servers.tell(&format!("signal {server} STOP")).await;
                tokio::time::sleep(PAUSED).await;
                servers.tell(&format!("signal {server} CONT")).await;
            }
            Self::Slow(server) => {
                servers.tell(&format!("slow {server} {}", SLOW.as_secs())).await;
            }
            Self::Full(server) => {
                servers.tell(&format!("fill {server}")).await;
                tokio::time::sleep(FULL).await;
                servers.tell(&format!("empty {server}")).await;
                // Who ended by it, now or a little later, is started again, as by a supervisor.
                servers.tell(&format!("start {server}")).await;
                tokio::time::sleep(Duration::from_secs(2)).await;
                servers.tell(&format!("start {server}")).await;
            }
            Self::Clocks { all, seconds } => {
                let clocks = stage.clocks.as_ref().expect("clocks that can be set");
                let all_names = || GATEWAYS.into_iter().chain(WORKERS);
                let names: Vec<&str> =
                    if all { all_names().collect() } else { vec![GATEWAYS[0], WORKERS[0]] };
                names.iter().for_each(|name| clocks.set(name, seconds));
                is_skewed(stage, seconds).await;
                tokio::time::sleep(SKEWED).await;
                names.iter().for_each(|name| clocks.set(name, 0));
            }
            Self::KillProcess(of) => {
                for name in of {
                    herd.kill(name, Duration::from_millis(500));
                    herd.ready(name).await;
                }
            }
            Self::PauseProcess(of) => {
                herd.signal(of[0], "STOP");
                tokio::time::sleep(PROCESS_PAUSED).await;
                herd.signal(of[0], "CONT");
            }
            Self::Roll => {
                for name in herd.names() {
                    herd.terminate(&name).await;
                    herd.start(&name);
                    herd.ready(&name).await;
                }
            }
        }
    }
}

async fn kill(servers: &Servers, server: &str) {
    servers.tell(&format!("signal {server} KILL")).await;
    tokio::time::sleep(DOWN).await;
    servers.tell(&format!("start {server}")).await;
}

/// The first gateway goes by another clock: the prefix of an export ends with its time.
async fn is_skewed(stage: &Stage, seconds: i64) {
    let body = json!({ "fields_to_export": ["external_id"] });
    let api = stage.world.gates.at(0, PLAIN);
    let answer = api.request(Method::POST, EXPORT).json(&body).send().await.expect("an answer");
    let answer: serde_json::Value = answer.json().await.expect("JSON");
    let prefix = answer["object_prefix"].as_str().unwrap_or_else(|| panic!("{answer}"));
    let time: i64 = prefix.rsplit('-').next().and_then(|time| time.parse().ok()).expect("seconds");
    let skew = time - Timestamp::now().as_second();
    assert!((skew - seconds).abs() < 60, "the clock is off by {skew} s, not {seconds}");
}

/// Kills or pauses any process.
async fn strike(stage: &Stage, random: &mut StdRng) {
    let names = stage.herd.names();
    let name = &names[random.random_range(0..names.len())];
    if random.random_ratio(1, 2) {
        println!("  kill -9 {name}");
        stage.herd.kill(name, Duration::from_millis(random.random_range(0..1_000)));
    } else {
        println!("  SIGSTOP {name}, past its lease");
        stage.herd.signal(name, "STOP");
        tokio::time::sleep(PROCESS_PAUSED).await;
        stage.herd.signal(name, "CONT");
    }
}

/// What makes the servers as before, to whatever end the run comes.
pub const REMEDIES: &[&str] = &[
    "signal kafka CONT",
    "signal postgres CONT",
    "signal s3 CONT",
    "empty kafka",
    "empty postgres",
    "empty s3",
    "start kafka postgres s3",
];

/// Whether the servers can be filled.
pub fn have_disks() -> bool {
    ["kafka", "postgres", "s3"].iter().all(|server| services(&format!("empty {server}")))
}
