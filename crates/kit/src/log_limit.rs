//! Limits a log line that an outage would repeat with every request.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Minimum interval between two lines.
const INTERVAL: Duration = Duration::from_secs(10);

/// The limit of one log line, usually a static next to it.
#[derive(Debug)]
pub struct LogLimit(Mutex<State>);

#[derive(Debug)]
struct State {
    logged: Option<Instant>,
    skipped: u64,
}

impl LogLimit {
    #[allow(clippy::new_without_default, reason = "a constant, for statics")]
    pub const fn new() -> Self {
        Self(Mutex::new(State { logged: None, skipped: 0 }))
    }

    /// The number of lines skipped since the last one, if this one may be logged; otherwise it
    /// counts as skipped.
    pub fn skipped(&self) -> Option<u64> {
        self.skipped_at(Instant::now())
    }

    fn skipped_at(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock();
        if state.logged.is_some_and(|at| now.saturating_duration_since(at) < INTERVAL) {
            state.skipped += 1;
            return None;
        }
        state.logged = Some(now);
        Some(std::mem::take(&mut state.skipped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_in_between_are_counted_by_the_next_one() {
        let limit = LogLimit::new();
        let now = Instant::now();
        assert_eq!(limit.skipped_at(now), Some(0));
        for _ in 0..792 {
            assert_eq!(limit.skipped_at(now + INTERVAL / 2), None);
        }
        assert_eq!(limit.skipped_at(now + INTERVAL), Some(792));
        assert_eq!(limit.skipped_at(now + 2 * INTERVAL), Some(0));
    }
}
