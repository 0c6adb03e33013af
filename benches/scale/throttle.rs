//! Workers on slow processors: each is stopped (SIGSTOP) for most of the time, one after the
//! other, so that their processors' speed does not depend on how many they are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long a worker runs at a time.
const TURN: Duration = Duration::from_millis(20);

/// Of so many turns each worker has one.
pub const TURNS: usize = 4;

/// Continues until it is dropped.
pub struct Throttle {
    pids: Vec<Pid>,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Throttle {
    pub fn of(pids: &[u32]) -> Self {
        assert!(pids.len() <= TURNS, "no more workers than turns");
        let pids = pids.iter().map(|pid| Pid::from_raw(pid.cast_signed()).expect("a process"));
        let (pids, end): (Vec<Pid>, _) = (pids.collect(), Arc::new(AtomicBool::new(false)));
        let (all, ended) = (pids.clone(), end.clone());
        let thread = std::thread::spawn(move || {
            all.iter().for_each(|pid| signal(*pid, Signal::STOP));
            let mut until = Instant::now();
            for turn in (0..TURNS).cycle() {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                let whose = all.get(turn).copied();
                whose.into_iter().for_each(|pid| signal(pid, Signal::CONT));
                until += TURN;
                std::thread::sleep(until.saturating_duration_since(Instant::now()));
                whose.into_iter().for_each(|pid| signal(pid, Signal::STOP));
            }
        });
        Self { pids, end, thread: Some(thread) }
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.pids.iter().for_each(|pid| signal(*pid, Signal::CONT));
    }
}

fn signal(pid: Pid, signal: Signal) {
    // A worker that ended is notified of where its work is missed.
    let _ = kill_process(pid, signal);
}
