//! A clock that only goes forward and counts the time in which the machine is suspended.
//!
//! What is valid for some time, such as a lease, a guard or a cached value, is measured with it:
//! other machines continue meanwhile. `Instant` stands still while the machine is suspended, and the
//! time of day can be set.

use std::ops::Add;
use std::time::Duration;

/// A time of that clock, which other processes do not share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    pub fn now() -> Self {
        Self(running_time())
    }

    /// The time since this moment; zero if it is yet to come.
    pub fn elapsed(self) -> Duration {
        Self::now().duration_since(self)
    }

    /// The time until this moment; zero if it has passed.
    pub fn remaining(self) -> Duration {
        self.duration_since(Self::now())
    }

    /// The time from another moment to this one; zero if the other one is later.
    pub fn duration_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// An earlier moment; none if it is before the start of the clock.
    pub fn checked_sub(self, duration: Duration) -> Option<Self> {
        self.0.checked_sub(duration).map(Self)
    }

    /// Milliseconds since the start of the clock.
    pub fn millis(self) -> i64 {
        crate::clock::millis(self.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

/// The time since the start of the machine.
#[cfg(target_os = "linux")]
fn running_time() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    // It is never before the start.
    clock_gettime(ClockId::Boottime).try_into().unwrap_or_default()
}

/// The time since the first call.
#[cfg(not(target_os = "linux"))]
fn running_time() -> Duration {
    static START: std::sync::LazyLock<std::time::Instant> =
        std::sync::LazyLock::new(std::time::Instant::now);
    START.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_and_never_underflows() {
        let (before, second) = (Moment::now(), Duration::from_secs(1));
        let later = before + second;
        assert!(before <= Moment::now() && before < later);
        assert_eq!(
            (later.duration_since(before), before.duration_since(later)),
            (second, Duration::ZERO)
        );
        assert!(later.remaining() <= second && (before + Duration::MAX).remaining() > second);
        assert_eq!((before.remaining(), later.elapsed()), (Duration::ZERO, Duration::ZERO));
        assert_eq!(later.checked_sub(second), Some(before));
        assert_eq!(before.checked_sub(Duration::MAX), None);
    }
}
