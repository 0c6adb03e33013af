//! Fail points: places between two durable effects where a test ends or stops the process. Builds
//! with debug assertions have them, so that tests can use the ordinary build; the profile `dist`
//! has none. They do nothing unless `FAILPOINTS` names them: `part::uploaded=kill` ends the process
//! like `kill -9`, `=stop` stops it like a machine that hangs, until SIGCONT;
//! `part::uploaded@3=kill` acts the third time.

/// A fail point: see the module.
#[cfg(debug_assertions)]
#[macro_export]
macro_rules! fail_point {
    ($name:literal) => {
        $crate::faults::reach($name)
    };
}
/// Does nothing in builds for deployment.
#[cfg(not(debug_assertions))]
#[macro_export]
macro_rules! fail_point {
    ($name:literal) => {};
}
#[cfg(debug_assertions)]
#[doc(hidden)]
pub use set::reach;

#[cfg(debug_assertions)]
mod set {
    use std::collections::HashMap;
    use std::sync::{LazyLock, Mutex, PoisonError};
    use std::time::Duration;

    use rustix::process::{Signal, getpid, kill_process};

    struct Point {
        signal: Signal,
        at: u32,
        reached: Mutex<u32>,
    }

    static POINTS: LazyLock<HashMap<String, Point>> = LazyLock::new(|| {
        let set = std::env::var("FAILPOINTS").unwrap_or_default();
        set.split(',').filter(|point| !point.is_empty()).map(parse).collect()
    });

    fn parse(text: &str) -> (String, Point) {
        let parsed = || {
            let (name, action) = text.split_once('=')?;
            let (name, at) = name.split_once('@').unwrap_or((name, "1"));
            let signal = match action {
                "kill" => Signal::KILL,
                "stop" => Signal::STOP,
                _ => return None,
            };
            let point = Point { signal, at: at.parse().ok()?, reached: Mutex::new(0) };
            Some((name.to_owned(), point))
        };
        parsed().unwrap_or_else(|| panic!("FAILPOINTS: {text:?} is not NAME[@COUNT]=kill|stop"))
    }

    /// Ends or stops the process if `FAILPOINTS` names this point.
    pub fn reach(name: &str) {
        let Some(point) = POINTS.get(name) else { return };
        // While the process is being stopped, no other thread passes the point.
        let mut reached = point.reached.lock().unwrap_or_else(PoisonError::into_inner);
        *reached += 1;
        if *reached == point.at {
            kill_process(getpid(), point.signal).expect("a process may signal itself");
            // SIGSTOP takes effect when one of the threads runs, which takes long on a busy
            // machine; this one must not pass the point before that.
            while has_pending_stop() {
                std::thread::sleep(PAUSE);
            }
            std::thread::sleep(PAUSE);
        }
    }

    const PAUSE: Duration = Duration::from_millis(50);

    /// Whether SIGSTOP was sent to the process, and no thread has received it yet.
    fn has_pending_stop() -> bool {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
        let pending = pending.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        let stop = 1 << (Signal::STOP.as_raw() - 1);
        pending.is_some_and(|mask| mask & stop != 0)
    }
}
