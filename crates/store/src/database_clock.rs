//! Whether the database's clock shows that a lease has expired.
//!
//! Leases end by the database's clock. When it is set forward, or another server with another clock
//! takes its place, leases of healthy workers seem to have expired. So each process compares that
//! clock with its own. When the database's is ahead of what has passed here, the process renews its
//! own leases at once, and for the length of a lease it takes over nothing that another worker
//! holds: that is long enough for all healthy workers to renew theirs.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use kit::clock::millis;
use kit::moment::Moment;

/// The difference that is no step: clocks do not run equally fast, and responses take a while.
const TOLERANCE: Duration = Duration::from_millis(500);

/// The clock of a database, as this process has read it.
#[derive(Debug, Default)]
pub struct DatabaseClock {
    state: Mutex<State>,
    steps: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    /// At most how far the clock is ahead of this process's own, in milliseconds.
    ahead: Option<i64>,
    stepped: Option<Moment>,
}

impl DatabaseClock {
    /// Changes when the clock has been set forward.
    pub fn steps(&self) -> watch::Receiver<()> {
        self.steps.subscribe()
    }

    /// Compares a time that the database has returned to a statement that began at `asked`.
    pub fn compare(&self, now: i64, asked: Moment) {
        self.compare_at(now, asked, Moment::now());
    }

    fn compare_at(&self, now: i64, asked: Moment, answered: Moment) {
        let (least, most) = (now - answered.millis(), now - asked.millis());
        let mut state = self.state.lock();
        let step = state.ahead.map(|ahead| least - ahead).filter(|step| *step > millis(TOLERANCE));
        if let Some(milliseconds) = step {
            state.stepped = Some(answered);
            tracing::warn!(
                milliseconds,
                "the database's clock went forward; leases are renewed, and expired ones wait"
            );
            self.steps.send_replace(());
        }
        // A slow response shows the difference only roughly.
        let is_exact = answered.duration_since(asked) <= TOLERANCE;
        if step.is_some() || is_exact || state.ahead.is_none() {
            state.ahead = Some(most);
        }
    }

    /// The time of the database's clock up to which a statement that begins now may take over
    /// expired leases of this length. Half a lease more than expected is not a step: a healthy
    /// worker has renewed its lease since.
    pub(crate) fn takes_over_until(&self, lease: Duration) -> i64 {
        self.takes_over_until_at(lease, Moment::now())
    }

    fn takes_over_until_at(&self, lease: Duration, moment: Moment) -> i64 {
        let state = self.state.lock();
        let is_distrusted = state.stepped.is_some_and(|at| moment.duration_since(at) < lease);
        match state.ahead {
            Some(ahead) if !is_distrusted => {
                moment.millis() + ahead + millis(TOLERANCE.max(lease / 2))
            }
            _ => i64::MIN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(30);

    #[test]
    fn nothing_is_taken_over_for_a_lease_after_a_step() {
        let (clock, start) = (DatabaseClock::default(), Moment::now());
        let at = |ms: u64| start + Duration::from_millis(ms);
        let allows = |now: i64, ms| now <= clock.takes_over_until_at(LEASE, at(ms));
        assert!(!allows(0, 0), "nothing is known yet");
        let mut steps = clock.steps();
        // In the first response, the clock is at 1,000,000, or up to 20 ms before.
        clock.compare_at(1_000_000, at(0), at(20));
        clock.compare_at(1_010_300, at(10_000), at(10_005));
        // A response that took long.
        clock.compare_at(1_019_000, at(10_010), at(20_000));
        assert!(!steps.has_changed().unwrap());
        assert!(allows(1_020_000, 20_000) && !allows(1_050_000, 20_000), "it is set meanwhile");
        clock.compare_at(1_021_000, at(20_000), at(20_005));
        assert!(steps.has_changed().unwrap());
        steps.mark_unchanged();
        assert!(!allows(1_021_000, 20_005) && !allows(1_050_000, 50_004));
        assert!(allows(1_051_000, 50_005));
        // Set back is not forward.
        clock.compare_at(2_000, at(60_000), at(60_001));
        clock.compare_at(12_000, at(70_000), at(70_001));
        assert!(!steps.has_changed().unwrap() && allows(12_000, 70_001));
        assert!(!allows(1_070_000, 70_001));
    }
}
