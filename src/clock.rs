//! The time of day, as something that a test can set.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp, civil::Date, tz::TimeZone};

/// Where every "now" comes from: the system's clock, moved by an offset that only
/// tests set.
#[derive(Clone, Default, Debug)]
pub struct Clock {
    offset_ms: Arc<AtomicI64>,
}

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Self::default()
    }

    pub fn now(&self) -> Timestamp {
        let offset = SignedDuration::from_millis(self.offset_ms.load(Ordering::Relaxed));
        let now = Timestamp::now();
        now.checked_add(offset).unwrap_or(now)
    }

    /// Milliseconds since the Unix epoch: how every time is stored.
    pub fn now_ms(&self) -> i64 {
        self.now().as_millisecond()
    }

    /// The current UTC day.
    pub fn today(&self) -> Date {
        utc_date(self.now())
    }

    /// Moves this clock, and all its clones, to `time`; it goes on ticking from there.
    pub fn set(&self, time: Timestamp) {
        let offset = time.as_millisecond() - Timestamp::now().as_millisecond();
        self.offset_ms.store(offset, Ordering::Relaxed);
    }
}

/// The UTC day that `time` lies in.
pub fn utc_date(time: Timestamp) -> Date {
    time.to_zoned(TimeZone::UTC).date()
}

/// A duration in the unit of stored times; one that is out of range is so long that it can
/// still be added to a time.
pub fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 4)
}

/// A stored time (milliseconds since the epoch) as a timestamp; what is out of range
/// becomes the nearest end of the range.
pub fn from_ms(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap_or(if ms < 0 { Timestamp::MIN } else { Timestamp::MAX })
}
